"""The largest curvature of a loss at given adapters, which FSLoRA's smoothness bounds from above.

By Lanczos' method on Hessian-vector products, which needs no Hessian and bounds its own error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from linsys.validate import InputError, check_instance, check_integer, check_number
from lora_bridge._checks import finite
from lora_bridge.bank import AdapterBank, Batch, Loss

__all__ = ["Eigenvalue", "Precision", "curvature", "largest"]

#: A symmetric linear map of tensors of one shape.
Product = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Precision:
    """When an eigenvalue is good enough.

    Attributes:
        steps: at most so many products.
        tolerance: residual over eigenvalue at which they end.
    """

    steps: int
    tolerance: float

    def __post_init__(self) -> None:
        check_integer("steps", self.steps, low=1)
        check_number("tolerance", self.tolerance, low=0.0)


@dataclass(frozen=True)
class Eigenvalue:
    """The largest absolute eigenvalue of a map, from below, and its direction.

    Attributes:
        size: of the eigenvalue.
        vector: of unit length.
        residual: ||H v - size v|| / size, at most so far, relatively, is an eigenvalue.
    """

    size: float
    vector: Tensor
    residual: float


def largest(product: Product, start: Tensor, precision: Precision) -> Eigenvalue:
    """By Lanczos' method from ``start``, which is not zero, with full orthogonalisation.

    Raises:
        InputError: a start that is zero, or products that are not finite.
    """
    check_instance("precision", precision, Precision, "a Precision")
    if not finite("start", start).any():
        raise InputError("`start` must not be zero; found no direction")
    basis = [start / start.norm()]
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        new = finite("product", product(basis[-1]), *start.shape)
        rounding = torch.finfo(new.dtype).eps * float(new.norm())
        diagonal.append(float((new * basis[-1]).sum()))
        for _ in range(2):  # one pass leaves rounding as large as the map
            for known in basis:
                new = new - (new * known).sum() * known
        length = float(new.norm())
        values, vectors = np.linalg.eigh(_tridiagonal(diagonal, beside))
        best = int(np.abs(values).argmax())
        size, residual = float(abs(values[best])), length * abs(float(vectors[-1, best]))
        # what is left may be rounding alone, which is no direction
        ended = length <= rounding or len(basis) == precision.steps
        if ended or residual <= precision.tolerance * size:
            vector = sum(c * q for c, q in zip(vectors[:, best].tolist(), basis, strict=True))
            return Eigenvalue(size, vector, residual / size if size else 0.0)
        beside.append(length)
        basis.append(new / length)


def _tridiagonal(diagonal: list[float], beside: list[float]) -> NDArray[np.float64]:
    return np.asarray(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))


_PRECISION = Precision(steps=30, tolerance=1e-3)


def curvature(
    bank: AdapterBank,
    X: Tensor,
    batch: Batch,
    loss: Loss,
    scale: float = 1.0,
    *,
    precision: Precision = _PRECISION,
    seed: int = 0,
) -> list[Eigenvalue]:
    """The largest absolute eigenvalue of every client's Hessian at X (N, r, w).

    Args:
        bank: its attention must be twice differentiable ("eager" on a CPU).
        X: adapters; the rows of a sketch alone, with ``scale`` = r / k.
        batch: leading axes (N, b).
        loss: see the bank.
        scale: a further factor of B A.
        precision: when an eigenvalue is good enough.
        seed: of the first vectors.
    """
    generator = torch.Generator().manual_seed(check_integer("seed", seed))
    start = torch.randn(X.shape, generator=generator, dtype=X.dtype).to(X.device)
    eigenvalues = []
    for i in range(len(X)):
        one = {name: value[i : i + 1] for name, value in batch.items()}

        def product(V: Tensor, i: int = i, one: Batch = one) -> Tensor:
            return bank.hvp(X[i : i + 1], one, loss, V[None], scale)[0]

        eigenvalues.append(largest(product, start[i], precision))
    return eigenvalues
