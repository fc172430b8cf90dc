"""Constants on balls: how smooth a loss of FSLoRA is there, with lower and upper bounds.

A loss of W0 + B A has no Lipschitz gradient on the whole space (Assumption 4.1), as its Hessian
grows with X; on a ball it has. Every function here says what its value is: :class:`Constant`.

* :func:`smoothness`: any loss, any ball. *Lower*: ascents (:func:`largest_hessian`). *Upper*, least
  squares: the relaxation of :mod:`linsys.sketching._relaxation` for up to ``RELAXED`` variables, in
  all instances tried equal to the lower bound, up to where the two searches end.
  *Upper*, all losses: bounds of derivatives, and, up to ``CUBED`` variables, cubes: in each the
  Hessian is its expansion to first order, largest at a corner, and a rest by the fourth derivative.
* :func:`ball_bound`: least squares around 0 by one formula, for any size.

Balls around 0 carry over: f~(X; S) = f(T X) with T = S^(1/2), so that the constant of f~(.; S) is
r/k times that of f in the ball of sqrt(r/k) the radius, and that of f_i^S at most the latter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from linsys.sketching._derivatives import check_least_squares, moment_and_slope
from linsys.sketching._relaxation import form, relaxed
from linsys.sketching.smoothness import Loss
from linsys.sketching.systems import LeastSquares
from linsys.validate import Array, check_integer, check_number, real_array

__all__ = [
    "CUBED",
    "RELAXED",
    "Constant",
    "Peak",
    "ball_bound",
    "largest_hessian",
    "smoothness",
]

#: Numbers in X up to which the relaxation (seconds) and the cubes are used.
RELAXED, CUBED = 12, 6
#: Two bounds this close count as one value: ascents and relaxations stop at about this accuracy.
_EXACT = 1e-5
#: Step of the differences in an expansion, relative to the radius.
_STEP = 1e-6
#: An ascent ends where a step of the smallest size gains less than this share.
_GAIN = 1e-12
_STEPS = 200


@dataclass(frozen=True)
class Constant:
    """A constant between two bounds; ``inf`` or 0 for one that is not known.

    >>> Constant(3.0, 4.0).kind, Constant(3.0, 4.0).value, Constant(3.0, 4.0).gap
    ('enclosed', 4.0, 0.25)
    >>> Constant(3.0, 3.0).kind, Constant(3.0, np.inf).kind, Constant(0.0, 3.0).kind
    ('exact', 'lower bound', 'upper bound')
    """

    lower: float
    upper: float

    @property
    def value(self) -> float:
        """The upper bound, which is safe to use; the lower one where there is none."""
        return self.upper if np.isfinite(self.upper) else self.lower

    @property
    def gap(self) -> float:
        """(upper - lower) / upper; 0 where both are equal."""
        if self.upper == self.lower:
            return 0.0
        return 1.0 - self.lower / self.upper

    @property
    def kind(self) -> str:
        """'exact' (to 1e-5 of itself), 'enclosed', 'upper bound' or 'lower bound'."""
        if self.gap <= _EXACT:
            return "exact"
        if not np.isfinite(self.upper):
            return "lower bound"
        return "enclosed" if self.lower > 0.0 else "upper bound"


def ball_bound(system: LeastSquares, device: int, radius: float) -> Constant:
    """The largest Hessian norm of f_i in the ball around 0, whatever r: one formula.

    At most (3/2) radius^2 ||M|| + ||C||, M the second moment of the inputs and C the slope at W0.
    B = u e_1' and A = e_1 v' of equal lengths have (3/2) radius^2 v'Mv + u'Cv along themselves: the
    lower bound has the first singular vectors of C, or the first one of M and the best u. Exact
    where one v is the first of both, as for M a multiple of I. Around another centre the upper
    bound holds with the centre's length added to the radius.

    >>> system = LeastSquares([[0.0]], inputs=([[1.0]],), targets=([[2.0]],))
    >>> ball_bound(system, 0, 2.0)  # attained at B = A = -sqrt 2
    Constant(lower=8.0, upper=8.0)
    """
    check_least_squares(system)
    check_number("radius", radius, low=0.0)
    M, C = moment_and_slope(system, device)
    most, w = np.linalg.eigh(M)
    v = np.linalg.svd(C)[2][0]
    steep = 1.5 * radius**2
    slope = float(np.linalg.norm(C, 2))
    lower = max(steep * v @ M @ v + slope, steep * most[-1] + float(np.linalg.norm(C @ w[:, -1])))
    upper = float(steep * most[-1] + slope)
    return Constant(min(float(lower), upper), upper)


def smoothness(
    loss: Loss,
    radius: float,
    centre: Array,
    *,
    starts: int = 8,
    most: int = 1000,
    tolerance: float = 0.01,
) -> Constant:
    """The largest norm of the loss's Hessian in a ball, enclosed.

    Args:
        loss: one of :mod:`linsys.sketching.smoothness`.
        radius: of the ball, positive.
        centre: its centre, shape (rows, w).
        starts: of ascents. Few of them may miss the largest value, which leaves a gap: with four
            one of eight balls had 5 %, with eight none of forty.
        most: cubes that are looked at, at most.
        tolerance: a gap at which they end.

    >>> from linsys.sketching.smoothness import local_loss
    >>> system = LeastSquares([[0.0]], inputs=([[1.0]],), targets=([[2.0]],))
    >>> around = smoothness(local_loss(system, 0), 0.5, np.array([[1.0, 0.0]]))
    >>> around.kind, round(around.value, 4)
    ('exact', 4.063)
    """
    centre = real_array("centre", centre, ("rows", "w"))
    lower = largest_hessian(loss, radius, centre, starts=starts).norm
    size = float(np.linalg.norm(centre)) + radius
    upper, _, fourth = loss.derivatives(size, len(centre))
    if loss.quartic and centre.size <= RELAXED:
        F = form(loss.hessian, centre, radius)
        upper = min(upper, max(relaxed(sign * F, lower) for sign in (1.0, -1.0)))
    elif not loss.quartic and centre.size <= CUBED:
        known = Constant(lower, upper)
        lower, upper = _cubes(loss, radius, centre, fourth, known, most, tolerance)
    return Constant(float(min(lower, upper)), float(upper))


def _cubes(
    loss: Loss,
    radius: float,
    centre: Array,
    fourth: float,
    known: Constant,
    most: int,
    tolerance: float,
) -> tuple[float, float]:
    """Bounds from cubes that cover the ball, those that may hold the maximum halved again."""
    d, half, lower, upper, seen = centre.size, radius, known.lower, known.upper, 0
    corners = np.array(list(product((-1.0, 1.0), repeat=d)))
    cubes = np.zeros((1, d))

    def hessian(point: Array) -> Array:
        return loss.hessian(centre + point.reshape(centre.shape))

    while seen + len(cubes) <= most and upper * (1.0 - tolerance) > lower:
        seen += len(cubes)
        bounds = [_in_cube(hessian, cube, half, radius, corners, fourth) for cube in cubes]
        lower = max(lower, *(below for below, _ in bounds))
        upper = min(upper, max(lower, *(above for _, above in bounds)))
        kept = cubes[np.array([above for _, above in bounds]) > lower]
        half /= 2.0
        cubes = (kept[:, None] + half * corners).reshape(-1, d)
        # those that do not meet the ball are left out
        near = np.maximum(np.abs(cubes) - half, 0.0)
        cubes = cubes[(near**2).sum(axis=1) <= radius**2]
    return lower, upper


def _in_cube(
    hessian: Callable[[Array], Array],
    cube: Array,
    half: float,
    radius: float,
    corners: Array,
    fourth: float,
) -> tuple[float, float]:
    """A Hessian norm in the part of a cube in the ball around 0, and a bound of all of them.

    The expansion is around the point of the ball nearest to the cube's centre. In a frame whose
    first axis points outwards, the part is in a box that the sphere cuts off.
    """
    d, length = len(cube), float(np.linalg.norm(cube))
    point = cube * min(1.0, radius / length) if length else cube
    frame = np.linalg.qr(np.column_stack([cube, np.eye(d)]))[0] if length else np.eye(d)
    if frame[:, 0] @ cube < 0:
        frame[:, 0] *= -1.0
    here, step = hessian(point), _STEP * radius
    slopes = np.array([hessian(point + step * axis) - here for axis in frame.T]) / step
    reach = half * np.abs(frame).sum(axis=0)
    box = corners * reach
    if length:
        box[:, 0] = np.minimum(box[:, 0], radius - min(length, radius))
    norms = np.linalg.norm(here + np.tensordot(box, slopes, axes=1), 2, axis=(1, 2))
    far = np.sqrt(d) * half
    rest = fourth * (far**2 / 2.0 + step / 2.0 * reach.sum())
    return float(np.linalg.norm(here, 2)), float(norms.max() + rest)


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
    loss: Loss, radius: float, centre: Array, *, starts: int = 8, seed: int = 0
) -> Peak:
    """The largest Hessian norm that ascents find in a ball: a lower bound of its smoothness.

    From a point and its direction v of largest curvature an ascent follows the gradient of v'Hv,
    projected on the ball, as long as the norm grows.

    Args:
        loss, radius, centre: as in :func:`smoothness`.
        starts: random points of the sphere to start from.
        seed: of these.
    """
    check_number("radius", radius, low=0.0, low_open=True)
    check_integer("starts", starts, low=1)
    centre = real_array("centre", centre, ("rows", "w"))

    def curvature(X: Array) -> Peak:
        return _peak(loss.hessian(X), X)

    rng = np.random.default_rng(seed)
    points = rng.normal(size=(starts, *centre.shape))
    points *= radius / np.sqrt((points**2).sum(axis=(1, 2), keepdims=True))
    peaks = [_ascend(curvature, loss.gradient, centre, radius, centre + point) for point in points]
    return max(peaks, key=lambda peak: peak.norm)


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
        candidate = curvature(centre + moved)
        if candidate.norm > best.norm * (1 + _GAIN):
            best, length = candidate, min(2 * length, 4 * radius)
        else:
            length /= 4
            if length < 1e-9 * radius:
                break
    return best
