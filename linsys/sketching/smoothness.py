"""How smooth the losses of FSLoRA are: exact Hessians, and the largest one in a ball.

A loss of W0 + B A has no Lipschitz gradient on the whole space (Assumption 4.1), as its Hessian
grows with X; on a ball it has. Hessians are (k w, k w) matrices on X.ravel() for the rows X (k, w)
of :mod:`linsys.sketching.adapters`: closed forms for one adapted matrix, and complex steps, exact
up to rounding, for two.

For least squares the Hessian in the ball of radius rho around 0 is at most (3/2) rho^2 ||M|| +
||C||, M the second moment of the inputs and C the slope of the loss at W0, and equal to it
somewhere if M is a multiple of I.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from linsys._validate import Array, InputError, number, whole
from linsys.sketching import exact
from linsys.sketching.sketch import every_support
from linsys.sketching.systems import LeastSquares, Logistic, MatrixSystem

__all__ = [
    "Peak",
    "ball_bound",
    "global_hessian",
    "hessian",
    "hessian_under",
    "largest_hessian",
    "sketched_hessian",
]

#: Of a complex step: its square vanishes beside one, so that nothing is truncated.
_STEP = 1e-30
#: An ascent ends where a step of the smallest size gains less than this share.
_GAIN = 1e-12
_STEPS = 200


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
    found = np.zeros((X.size, X.size))
    found[np.ix_(places, places)] = hessian(system, device, X[rows], len(X) / len(rows))
    return found


def sketched_hessian(system: MatrixSystem, device: int, X: Array, k: int) -> Array:
    """The Hessian of f_i^S, the mean over all supports of size k: (r w, r w)."""
    supports = every_support(len(X), k)
    return np.asarray(sum(hessian_under(system, device, X, c) for c in supports) / len(supports))


def global_hessian(system: MatrixSystem, X: Array, ranks: Sequence[int]) -> Array:
    """The Hessian of f^S, the mean over devices of ranks k_i."""
    if len(ranks) != system.devices:
        raise InputError(
            f"`ranks` must be {system.devices}, one for each device; found {len(ranks)}"
        )
    each = [sketched_hessian(system, i, X, k) for i, k in enumerate(ranks)]
    return np.asarray(np.mean(each, axis=0))


def ball_bound(system: LeastSquares, device: int, radius: float) -> float:
    """(3/2) radius^2 ||M|| + ||C||, at least every Hessian norm of f_i in the ball around 0.

    Around another centre it holds with the centre's length added to the radius.

    >>> system = LeastSquares([[0.0]], inputs=([[1.0]],), targets=([[2.0]],))
    >>> ball_bound(system, 0, 2.0)  # attained at B = A = -sqrt 2
    8.0
    """
    number("radius", radius, low=0.0)
    x = system.inputs[device]
    C = (x @ system.W0.T - system.targets[device]).T @ x / len(x)
    return float(1.5 * radius**2 * np.linalg.norm(x.T @ x, 2) / len(x) + np.linalg.norm(C, 2))


@dataclass(frozen=True, eq=False)
class Peak:
    """A large Hessian norm in a ball.

    Attributes:
        norm: the norm.
        X: where it is, shape (k, w).
        direction: the unit direction of largest curvature there, of the same shape.
    """

    norm: float
    X: Array
    direction: Array


def largest_hessian(
    system: MatrixSystem,
    device: int,
    radius: float,
    centre: Array,
    *,
    scale: float = 1.0,
    k: int | None = None,
    starts: int = 8,
    seed: int = 0,
) -> Peak:
    """The largest Hessian norm that ascents find in a ball: a lower bound of its smoothness.

    Of f_i at W0 + scale B A, so that a scale of r/k and k rows give f~_i(.; S); of f_i^S if ``k``
    is given. From a point and its direction v of largest curvature an ascent follows the gradient
    of v'Hv, projected on the ball, as long as the norm grows.

    Args:
        system, device: the loss.
        radius: of the ball, positive.
        centre: its centre, shape (rows, w).
        scale: factor of B A; 1 for f_i.
        k: rank of the sketches of f_i^S.
        starts: random points of the sphere to start from.
        seed: of these.

    >>> system = LeastSquares([[0.0]], inputs=([[1.0]],), targets=([[2.0]],))
    >>> round(largest_hessian(system, 0, 2.0, np.zeros((1, 2))).norm, 9)
    8.0
    """
    number("radius", radius, low=0.0, low_open=True)
    whole("starts", starts, low=1)
    if k is not None and scale != 1.0:
        raise InputError(f"`scale` must be 1 where `k` is given; found {scale:.6g}")

    def slope(X: Array) -> Array:
        if k is None:
            return system.gradient(device, X, scale)
        return exact.sketched_gradient(system, device, X, k)

    def curvature(X: Array) -> Peak:
        if k is None:
            return _peak(hessian(system, device, X, scale), X)
        return _peak(sketched_hessian(system, device, X, k), X)

    rng = np.random.default_rng(seed)
    points = rng.normal(size=(starts, *centre.shape))
    points *= radius / np.sqrt((points**2).sum(axis=(1, 2), keepdims=True))
    peaks = [_ascend(curvature, slope, centre, radius, centre + point) for point in points]
    return max(peaks, key=lambda peak: peak.norm)


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
    found = np.einsum("spi,spq,sqj->ij", flat, bends, flat, optimize=True) / len(x)
    # the outputs bend only where an entry of B meets its own component of A
    mixed = np.zeros((m + n, m + n))
    mixed[:m, m:] = scale * slopes.T @ x / len(x)
    return np.asarray(found + np.kron(np.eye(k), mixed + mixed.T))


def _peak(matrix: Array, X: Array) -> Peak:
    values, axes = np.linalg.eigh(matrix)
    at = int(np.abs(values).argmax())
    return Peak(float(abs(values[at])), X, axes[:, at].reshape(X.shape))


def _ascend(
    curvature: Callable[[Array], Peak],
    slope: Callable[[Array], Array],
    centre: Array,
    radius: float,
    X: Array,
) -> Peak:
    best, length = curvature(X), radius
    for _ in range(_STEPS):
        # the gradient of v'Hv: a second difference, without error where the slope is a cubic
        t, v = 1e-3 * radius, best.direction
        here = slope(best.X)
        up = (slope(best.X + t * v) - 2 * here + slope(best.X - t * v)) / t**2
        sign = np.sign(((slope(best.X + t * v) - slope(best.X - t * v)) * v).sum())
        size = np.linalg.norm(up)
        if size == 0:
            break
        moved = best.X - centre + length * sign * up / size
        moved *= radius / max(radius, float(np.linalg.norm(moved)))
        found = curvature(centre + moved)
        if found.norm > best.norm * (1 + _GAIN):
            best, length = found, min(2 * length, 4 * radius)
        else:
            length /= 4
            if length < 1e-9 * radius:
                break
    return best
