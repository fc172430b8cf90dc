"""Devices with data and a loss of W0 + B A: matrix least squares, logistic and two-layer models.

Sample losses are l(W, (x, y)); device i has the mean over its samples, f_i(B, A), as in (1) of
FSLoRA. Gradients are with respect to the rows X (k, w) that a device holds (see
:mod:`linsys.sketching.adapters`) at W = W0 + scale B A: with scale r / k and the rows of a sketch,
these are Lemma 3.2's, without the entries that are zero.

W0 is frozen, so that its outputs on the device's samples are computed once. How a loss of one
matrix gets its gradient and takes local steps is in :mod:`linsys.sketching.kernels`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from linsys.sketching.adapters import Modules
from linsys.sketching.kernels import SMALL, Batch, Factors
from linsys.validate import Array, InputError, check_integer, distributions, real_array

__all__ = ["Batch", "LeastSquares", "Logistic", "MatrixSystem", "TwoLayer"]


class MatrixSystem(ABC):
    """What the algorithms ask of N devices; the samples of device i are rows."""

    inputs: tuple[Array, ...]
    batch: int | None
    seed: int

    @property
    @abstractmethod
    def modules(self) -> Modules:
        """The adapted matrices."""

    @abstractmethod
    def loss(self, device: int, X: Array, scale: float = 1.0, batch: Batch = None) -> float:
        """f_i at W0 + scale B A, or the mean over the samples of a batch."""

    @abstractmethod
    def gradient(self, device: int, X: Array, scale: float = 1.0, batch: Batch = None) -> Array:
        """Its gradient with respect to X (k, w), of the same shape."""

    @property
    @abstractmethod
    def frozen(self) -> tuple[Array, ...]:
        """The frozen matrices, in the order of the modules."""

    @abstractmethod
    def with_frozen(self, frozen: tuple[Array, ...]) -> Self:
        """A system of these devices with other frozen matrices."""

    def merged(self, products: Sequence[Array]) -> tuple[Array, ...]:
        """The frozen matrices with products added."""
        return tuple(W + product for W, product in zip(self.frozen, products, strict=True))

    @property
    def devices(self) -> int:
        """N."""
        return len(self.inputs)

    def grad(self, device: int, X: Array, scale: float, round_: int, step: int) -> Array:
        """The gradient that the algorithms see, on the samples of this round and local step.

        All samples, or ``batch`` of them drawn without replacement: a function of (seed, device,
        round, step) alone.
        """
        return self.gradient(device, X, scale, self.draw(device, round_, step))

    def draw(self, device: int, round_: int, step: int) -> Batch:
        """The samples of a local step, or None for all."""
        size = len(self.inputs[device])
        if self.batch is None or self.batch >= size:
            return None
        generator = np.random.Generator(
            np.random.Philox(key=self.seed, counter=[0, step, device, round_])
        )
        return generator.choice(size, size=self.batch, replace=False)

    def mean_loss(self, X: Array) -> float:
        """f(B, A), the mean of all f_i."""
        return float(np.mean([self.loss(i, X) for i in range(self.devices)]))

    def mean_gradient(self, X: Array) -> Array:
        """grad f, shape (r, w)."""
        return np.asarray(np.mean([self.gradient(i, X) for i in range(self.devices)], axis=0))


@dataclass(frozen=True, eq=False)
class _OneMatrix(MatrixSystem):
    """Losses of the outputs z = W x of one matrix.

    Args:
        W0: shape (m, n).
        inputs: x of every device, one array (s_i, n) each.
        targets: y of every device, one array (s_i, m) each.
        batch: samples of a stochastic gradient; all without it.
        seed: of the draws.
    """

    W0: Array
    inputs: tuple[Array, ...]
    targets: tuple[Array, ...]
    batch: int | None = None
    seed: int = 0
    #: Which of the two losses :mod:`linsys.sketching._loops` takes.
    _softmax: ClassVar[bool] = False

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        object.__setattr__(self, "W0", real_array("W0", self.W0, ("m", "n"), sizes))
        _check_devices(self, sizes, ("n",), ("m",))

    @cached_property
    def modules(self) -> Modules:
        """One module, of the shape of W0."""
        return Modules([self.W0.shape])

    @cached_property
    def _frozen(self) -> tuple[Array, ...]:
        """W0 x, shapes (s_i, m)."""
        return tuple(x @ self.W0.T for x in self.inputs)

    @abstractmethod
    def _value(self, z: Array, y: Array) -> float:
        """The mean loss of outputs (s, m)."""

    @abstractmethod
    def _slope(self, z: Array, y: Array) -> Array:
        """The derivatives of every sample's loss by its outputs, (s, m); z may be overwritten."""

    def loss(self, device: int, X: Array, scale: float = 1.0, batch: Batch = None) -> float:
        """f_i at W0 + scale B A, or the mean over the samples of a batch."""
        [(B, A)] = self.modules.split(X)
        return self._value(*self._factors(device).outputs(B.T, A, scale, batch))

    def gradient(self, device: int, X: Array, scale: float = 1.0, batch: Batch = None) -> Array:
        """Its gradient with respect to X (k, w), of the same shape."""
        return self._factors(device).gradient(X, scale, batch)

    def descend(
        self, device: int, X: Array, scale: float, round_: int, gamma: float, H: int
    ) -> Array:
        """X (k, w) after H steps of size gamma along :meth:`grad`."""
        batches = (self.draw(device, round_, step) for step in range(H))
        if X.size > SMALL:
            return self._factors(device).descend(X, scale, gamma, batches)
        from linsys.sketching import _loops  # numba takes a while to load

        x, y, frozen = self.inputs[device], self.targets[device], self._frozen[device]
        every = np.arange(len(x))
        rows = np.array([every if batch is None else batch for batch in batches])
        return np.asarray(_loops.descend(X, x, y, frozen, rows, scale, gamma, self._softmax))

    def _factors(self, device: int) -> Factors:
        return Factors(self.inputs[device], self.targets[device], self._frozen[device], self._slope)

    @property
    def frozen(self) -> tuple[Array, ...]:
        """W0."""
        return (self.W0,)

    def with_frozen(self, frozen: tuple[Array, ...]) -> Self:
        """A system of these devices with another W0."""
        [W0] = frozen
        return replace(self, W0=W0)


@dataclass(frozen=True, eq=False)
class LeastSquares(_OneMatrix):
    """l(W, (x, y)) = ||W x - y||^2 / 2.

    >>> system = LeastSquares(W0=[[1.0]], inputs=([[1.0], [2.0]],), targets=([[0.0], [0.0]],))
    >>> X = np.array([[1.0, 1.0]])  # B = A = 1, hence W = 2
    >>> system.loss(0, X), system.gradient(0, X).tolist()
    (5.0, [[5.0, 5.0]])
    """

    def _value(self, z: Array, y: Array) -> float:
        return float(((z - y) ** 2).sum() / (2 * len(z)))

    def _slope(self, z: Array, y: Array) -> Array:
        z -= y
        return z


@dataclass(frozen=True, eq=False)
class Logistic(_OneMatrix):
    """Cross entropy of softmax(W x) with the distributions y of m classes, rows of ones' total.

    >>> system = Logistic(W0=np.zeros((2, 1)), inputs=([[1.0]],), targets=([[1.0, 0.0]],))
    >>> round(system.loss(0, np.zeros((1, 3))), 6)  # log 2
    0.693147
    """

    _softmax: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for device, y in enumerate(self.targets):
            distributions(f"targets[{device}]", y)

    def _value(self, z: Array, y: Array) -> float:
        top = z.max(axis=1, keepdims=True)
        total = np.log(np.exp(z - top).sum(axis=1)) + top[:, 0]
        return float((total - (y * z).sum(axis=1)).mean())

    def _slope(self, z: Array, y: Array) -> Array:
        weights = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True) - y)


@dataclass(frozen=True, eq=False)
class TwoLayer(MatrixSystem):
    """l = ||V tanh(U x) - y||^2 / 2 with both matrices adapted: two modules, one support.

    Args:
        U0: shape (h, n).
        V0: shape (m, h).
        inputs, targets, batch, seed: as in :class:`LeastSquares`.

    >>> system = TwoLayer(U0=np.ones((2, 1)), V0=np.ones((1, 2)), inputs=([[0.0]],),
    ...                   targets=([[2.0]],))
    >>> system.modules.width, system.loss(0, np.zeros((1, 6)))
    (6, 2.0)
    """

    U0: Array
    V0: Array
    inputs: tuple[Array, ...]
    targets: tuple[Array, ...]
    batch: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        object.__setattr__(self, "U0", real_array("U0", self.U0, ("h", "n"), sizes))
        object.__setattr__(self, "V0", real_array("V0", self.V0, ("m", "h"), sizes))
        _check_devices(self, sizes, ("n",), ("m",))

    @cached_property
    def modules(self) -> Modules:
        """U and V."""
        return Modules([self.U0.shape, self.V0.shape])

    def loss(self, device: int, X: Array, scale: float = 1.0, batch: Batch = None) -> float:
        """f_i at U0 + scale B A and V0 + scale B' A', or the mean over the samples of a batch."""
        *_, z, y, _ = self._outputs(device, X, scale, batch)
        return float(((z - y) ** 2).sum() / (2 * len(z)))

    def gradient(self, device: int, X: Array, scale: float = 1.0, batch: Batch = None) -> Array:
        """Its gradient with respect to X (k, w), of the same shape."""
        x, hidden, z, y, (low, high) = self._outputs(device, X, scale, batch)
        (B, _), (D, C) = self.modules.split(X)
        slope = (z - y) / len(x)
        back = (slope @ self.V0 + scale * (slope @ D) @ C) * (1.0 - hidden**2)
        parts = [low.T @ back, (back @ B).T @ x, high.T @ slope, (slope @ D).T @ hidden]
        return np.asarray(scale * np.concatenate(parts, axis=1))

    def _outputs(self, device: int, X: Array, scale: float, batch: Batch) -> Any:
        x, y = self.inputs[device], self.targets[device]
        if batch is not None:
            x, y = x[batch], y[batch]
        (B, A), (D, C) = self.modules.split(X)
        low = x @ A.T
        hidden = np.tanh(x @ self.U0.T + scale * low @ B.T)
        high = hidden @ C.T
        z = hidden @ self.V0.T + scale * high @ D.T
        return x, hidden, z, y, (low, high)

    @property
    def frozen(self) -> tuple[Array, ...]:
        """U0 and V0."""
        return self.U0, self.V0

    def with_frozen(self, frozen: tuple[Array, ...]) -> Self:
        """A system of these devices with another U0 and V0."""
        U0, V0 = frozen
        return replace(self, U0=U0, V0=V0)


def _check_devices(
    system: Any, sizes: dict[str, int], row: tuple[str, ...], target: tuple[str, ...]
) -> None:
    """Turn inputs and targets into checked arrays, with the samples of each device alike."""
    inputs: Sequence[ArrayLike] = tuple(system.inputs)
    targets: Sequence[ArrayLike] = tuple(system.targets)
    if not inputs or len(inputs) != len(targets):
        raise InputError(
            "`inputs` and `targets` must be of the same devices, at least one; "
            f"found {len(inputs)} and {len(targets)}"
        )
    checked: list[tuple[Array, Array]] = []
    for device, (x, y) in enumerate(zip(inputs, targets, strict=True)):
        own = sizes | {}
        own.pop("s", None)
        checked.append(
            (
                real_array(f"inputs[{device}]", x, ("s", *row), own),
                real_array(f"targets[{device}]", y, ("s", *target), own),
            )
        )
    object.__setattr__(system, "inputs", tuple(x for x, _ in checked))
    object.__setattr__(system, "targets", tuple(y for _, y in checked))
    if system.batch is not None:
        check_integer("batch", system.batch, low=1)
    check_integer("seed", system.seed, high=(1 << 64) - 1)
