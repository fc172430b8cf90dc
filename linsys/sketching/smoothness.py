"""How smooth the losses of FSLoRA are: exact Hessians, and bounds of derivatives.

Hessians are (k w, k w) matrices on X.ravel() for the rows X (k, w) of
:mod:`linsys.sketching.adapters`: closed forms for one adapted matrix, and complex steps for two,
both exact up to rounding. Their largest norm on a ball is the matter of
:mod:`linsys.sketching.balls`, which asks for a :class:`Loss`: one of f, f_i, f~_i(.; S), f_i^S and
f^S.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from linsys.sketching import exact
from linsys.sketching._derivatives import largest_derivatives
from linsys.sketching.sketch import every_support
from linsys.sketching.systems import LeastSquares, Logistic, MatrixSystem
from linsys.validate import Array, InputError, check_number

__all__ = [
    "Loss",
    "global_hessian",
    "global_loss",
    "hessian",
    "hessian_under",
    "local_loss",
    "mean_loss",
    "sketched_hessian",
    "sketched_loss",
]

#: Size of a complex step: its square vanishes beside one, so that there is no truncation error.
_STEP = 1e-30


def hessian(system: MatrixSystem, device: int, X: Array, scale: float = 1.0) -> Array:
    """The Hessian of f_i at W0 + scale B A with respect to the rows X (k, w): (k w, k w).

    >>> system = LeastSquares([[0.0]], inputs=([[1.0]],), targets=([[1.0]],))
    >>> hessian(system, 0, np.array([[1.0, 1.0]])).tolist()  # of (ba - 1)^2 / 2
    [[1.0, 1.0], [1.0, 1.0]]
    """
    if isinstance(system, LeastSquares | Logistic):
        return _of_one_matrix(system, device, X, scale)
    moved = X + _STEP * 1j * np.eye(X.size).reshape(-1, *X.shape)
    rows = [system.gradient(device, point, scale).imag.ravel() / _STEP for point in moved]
    return np.array(rows)


def hessian_under(system: MatrixSystem, device: int, X: Array, chosen: ArrayLike) -> Array:
    """The Hessian of f~_i(.; S) with respect to all rows of X (r, w), S of the support ``chosen``.

    Zero outside of the rows that S holds.
    """
    rows, width = np.asarray(chosen), X.shape[1]
    places = (rows[:, None] * width + np.arange(width)).ravel()
    padded = np.zeros((X.size, X.size))
    padded[np.ix_(places, places)] = hessian(system, device, X[rows], len(X) / len(rows))
    return padded


def sketched_hessian(system: MatrixSystem, device: int, X: Array, k: int) -> Array:
    """The Hessian of f_i^S, the mean over all supports of size k: (r w, r w)."""
    supports = every_support(len(X), k)
    return np.asarray(sum(hessian_under(system, device, X, c) for c in supports) / len(supports))


def global_hessian(system: MatrixSystem, X: Array, ranks: Sequence[int]) -> Array:
    """The Hessian of f^S, the mean over devices of ranks k_i."""
    _check(system, ranks)
    each = [sketched_hessian(system, i, X, k) for i, k in enumerate(ranks)]
    return np.asarray(np.mean(each, axis=0))


@dataclass(frozen=True)
class Loss:
    """A loss as a function of the rows X that it is given.

    Attributes:
        gradient, hessian: of X.
        derivatives: upper bounds of derivatives two to four along any unit direction at any X, from
            the length that X has at most and its number of rows.
        quartic: whether the loss is a polynomial of degree four, as that of least squares.
    """

    gradient: Callable[[Array], Array]
    hessian: Callable[[Array], Array]
    derivatives: Callable[[float, int], tuple[float, float, float]]
    quartic: bool


def local_loss(system: MatrixSystem, device: int, scale: float = 1.0) -> Loss:
    """f_i; with scale r/k, f~_i(.; S) of the k rows of a sketch."""
    check_number("scale", scale, low=0.0, low_open=True)
    return Loss(
        lambda X: system.gradient(device, X, scale),
        lambda X: hessian(system, device, X, scale),
        lambda size, r: largest_derivatives(system, device, size, scale),
        isinstance(system, LeastSquares),
    )


def sketched_loss(system: MatrixSystem, device: int, k: int) -> Loss:
    """f_i^S; X has r >= k rows.

    f~_i(X; S) = f_i(T X) with T = S^(1/2), |T X| <= sqrt(r/k) |X|, so that derivatives of order two
    to four have the factors E|T v|^2 = 1, E|T v|^3 <= sqrt(r/k) and E|T v|^4 <= r/k.
    """

    def derivatives(size: float, r: int) -> tuple[float, float, float]:
        root = float(np.sqrt(r / k))
        second, third, fourth = largest_derivatives(system, device, root * size, 1.0)
        return second, root * third, root**2 * fourth

    return Loss(
        lambda X: exact.sketched_gradient(system, device, X, k),
        lambda X: sketched_hessian(system, device, X, k),
        derivatives,
        isinstance(system, LeastSquares),
    )


def mean_loss(system: MatrixSystem) -> Loss:
    """f."""
    return _mean([local_loss(system, i) for i in range(system.devices)])


def global_loss(system: MatrixSystem, ranks: Sequence[int]) -> Loss:
    """f^S for devices of ranks k_i."""
    _check(system, ranks)
    return _mean([sketched_loss(system, i, k) for i, k in enumerate(ranks)])


def _mean(losses: Sequence[Loss]) -> Loss:
    def mean(part: Callable[[Loss], Any]) -> Any:
        return np.mean([part(loss) for loss in losses], axis=0)

    return Loss(
        lambda X: mean(lambda loss: loss.gradient(X)),
        lambda X: mean(lambda loss: loss.hessian(X)),
        lambda size, r: tuple(mean(lambda loss: loss.derivatives(size, r)).tolist()),
        all(loss.quartic for loss in losses),
    )


def _of_one_matrix(system: LeastSquares | Logistic, device: int, X: Array, scale: float) -> Array:
    x, y = system.inputs[device], system.targets[device]
    [(B, A)] = system.modules.split(X)
    (m, k), n = B.shape, A.shape[1]
    hidden = x @ A.T
    z = x @ system.W0.T + scale * hidden @ B.T
    if isinstance(system, LeastSquares):
        slopes, bends = z - y, np.broadcast_to(np.eye(m), (len(x), m, m))
    else:
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        slopes, bends = p - y, p[:, :, None] * (np.eye(m) - p[:, None])
    # how every output moves with every entry of X
    moves = np.zeros((len(x), m, k, m + n))
    moves[..., :m] = hidden[:, None, :, None] * np.eye(m)[:, None]
    moves[..., m:] = B[:, :, None] * x[:, None, None]
    flat = scale * moves.reshape(len(x), m, -1)
    by_bends = np.einsum("spi,spq,sqj->ij", flat, bends, flat, optimize=True) / len(x)
    # the outputs bend only where an entry of B meets its own component of A
    mixed = np.zeros((m + n, m + n))
    mixed[:m, m:] = scale * slopes.T @ x / len(x)
    return np.asarray(by_bends + np.kron(np.eye(k), mixed + mixed.T))


def _check(system: MatrixSystem, ranks: Sequence[int]) -> None:
    if len(ranks) != system.devices:
        raise InputError(
            f"`ranks` must be {system.devices}, one for each device; found {len(ranks)}"
        )
