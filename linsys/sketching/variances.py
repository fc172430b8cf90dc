"""Constants of Assumptions 4.2 and 4.3 on balls around 0, for least squares.

At a point all of them have closed forms, :mod:`linsys.sketching.exact`. They are polynomials of
degree six, without a bound on the whole space; in a ball of radius rho each is here enclosed, with
C_i the slope of f_i at W0, M_i the second moment of its inputs and kappa_i = r/k_i.

* sigma_s^2 <= kappa rho^2 (||C|| + kappa rho^2 ||M|| / 2)^2. For k = 1, kappa - 1 takes the place
  of the first kappa: sketches that share no component leave the sum over j of (r - 1) |grad
  f_1(x_j)|^2, f_1 the loss of one component at scale r, which is largest where all length is in one
  of them. The supremum is then that of a polynomial in m + n variables, and the bound is attained
  where the first singular vector of C is one of M. For k = r it is zero.
* sigma_g^2 <= scale^2 rho^2 mean |x|^2 (|d| + scale rho^2 |x| / 2)^2 for batches of one sample,
  d = W0 x - y the residuals at W0.
* sigma_h^2 for given c_h: the largest max_i |grad f_i^S - grad f^S|^2 - c_h |grad f^S|^2, convex
  and falling in c_h. For c_h = 0 it is at most the square of rho ||C_i - C|| + (rho^3/2)(mean of
  kappa_l ||M_l|| over the others, and (1 - 1/N) kappa_i ||M_i||), whose second part is absent for
  equal inputs and ranks; then rho^2 max ||C_i - C||^2 is attained.

Lower bounds are values at points: where these statements say, and where ascents end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linsys.sketching import exact
from linsys.sketching._derivatives import check_least_squares, moment_and_slope
from linsys.sketching.balls import Constant
from linsys.sketching.systems import LeastSquares
from linsys.validate import Array, InputError, check_integer, check_number

__all__ = ["dissimilarity_curve", "largest_data_variance", "largest_sketch_variance"]


def largest_sketch_variance(
    system: LeastSquares, device: int, radius: float, r: int, k: int
) -> Constant:
    """sigma_s^2 of a device of rank k in the ball.

    >>> system = LeastSquares([[0.0]], inputs=([[1.0]],), targets=([[1.0]],))
    >>> constant = largest_sketch_variance(system, 0, 1.0, r=2, k=1)
    >>> constant.kind, round(constant.value, 6)  # 1^2 (1 + 1)^2
    ('exact', 4.0)
    """
    check_least_squares(system)
    check_number("radius", radius, low=0.0, low_open=True)
    kappa = check_integer("r", r, low=1) / check_integer("k", k, low=1, high=r)
    if k == r:
        return Constant(0.0, 0.0)
    M, C = moment_and_slope(system, device)
    reach = radius**2 / 2.0

    def of_one(x: Array) -> float:
        """The variance where one component alone is not zero: x (m + n,) has its length."""
        b, a = x[: len(C)], x[len(C) :]
        G = C + kappa * np.outer(b, M @ a)
        return float((kappa - 1.0) * (((G @ a) ** 2).sum() + ((b @ G) ** 2).sum()))

    left, _, right = np.linalg.svd(C)
    start = np.sqrt(reach) * np.concatenate([left[:, 0], right[0]])
    lower, _ = _highest(of_one, radius, start[None])
    share = kappa - 1.0 if k == 1 else kappa
    slope, moment = np.linalg.norm(C, 2), np.linalg.norm(M, 2)
    return _enclosed(lower, share * radius**2 * (slope + kappa * reach * moment) ** 2)


def largest_data_variance(
    system: LeastSquares, device: int, radius: float, rows: int, scale: float = 1.0
) -> Constant:
    """sigma_g^2 of a device with ``rows`` components at W0 + scale B A, |X| <= radius."""
    check_least_squares(system)
    check_number("radius", radius, low=0.0, low_open=True)
    check_integer("rows", rows, low=1)
    check_number("scale", scale, low=0.0, low_open=True)
    x, y = system.inputs[device], system.targets[device]
    batch = len(x) if system.batch is None else min(system.batch, len(x))
    if batch == len(x):
        return Constant(0.0, 0.0)
    length, d = np.linalg.norm(x, axis=1), np.linalg.norm(x @ system.W0.T - y, axis=1)
    each = (length * (d + scale * radius**2 / 2.0 * length)) ** 2
    drawn = (len(x) - batch) / (len(x) - 1) / batch
    shape = (rows, system.modules.width)
    lower, _ = _highest(
        lambda X: exact.data_variance(system, device, X, scale), radius, np.zeros((0, *shape))
    )
    return _enclosed(lower, drawn * (scale * radius) ** 2 * float(each.mean()))


def dissimilarity_curve(
    system: LeastSquares, radius: float, r: int, ranks: Sequence[int], c_h: Sequence[float]
) -> list[Constant]:
    """For every c_h, the least sigma_h^2 with which Assumption 4.3 holds in the ball.

    >>> inputs = [[1.0]]
    >>> system = LeastSquares([[0.0]], inputs=(inputs, inputs), targets=([[1.0]], [[3.0]]))
    >>> none, some = dissimilarity_curve(system, 1.0, 1, [1, 1], [0.0, 0.1])
    >>> none, some.kind, some.lower < none.lower
    (Constant(lower=1.0, upper=1.0), 'enclosed', True)
    """
    check_least_squares(system)
    check_number("radius", radius, low=0.0, low_open=True)
    if len(ranks) != system.devices:
        raise InputError(
            f"`ranks` must be {system.devices}, one for each device; found {len(ranks)}"
        )
    for k in ranks:
        check_integer("ranks", k, low=1, high=check_integer("r", r, low=1))
    parts = [moment_and_slope(system, i) for i in range(system.devices)]
    C = np.array([slope for _, slope in parts])
    C -= C.mean(axis=0)
    apart = np.linalg.norm(C, 2, axis=(1, 2))
    alike = len(set(ranks)) == 1 and all(np.array_equal(parts[0][0], M) for M, _ in parts)
    bends = np.array([r / k * np.linalg.norm(M, 2) for (M, _), k in zip(parts, ranks, strict=True)])
    others = bends.mean() - bends / len(bends)
    cubic = 0.0 if alike else radius**3 / 2.0 * (others + (1.0 - 1.0 / len(bends)) * bends)
    upper = float(((radius * apart + cubic) ** 2).max())
    left, _, right = np.linalg.svd(C[int(apart.argmax())])
    points = np.zeros((1, r, system.modules.width))
    points[0, 0] = radius / np.sqrt(2.0) * np.concatenate([left[:, 0], right[0]])
    curve = []
    for c in c_h:
        check_number("c_h", c, low=0.0)

        def gap(X: Array, c: float = c) -> float:
            far, size = exact.dissimilarity(system, X, ranks)
            return far - c * size

        lower, points = _highest(gap, radius, points, inside=True)
        curve.append(_enclosed(lower, upper))
    return curve


def _enclosed(lower: float, upper: Any) -> Constant:
    return Constant(float(min(max(lower, 0.0), upper)), float(upper))


def _highest(
    value: Callable[[Array], float], radius: float, points: Array, *, inside: bool = False
) -> tuple[float, Array]:
    """The largest value found on the sphere, or in the ball, and where all ascents end.

    They start from ``points`` and from four random ones.
    """
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    starts = np.concatenate([points, rng.normal(size=(4, *points.shape[1:]))])

    def at(flat: Array) -> Array:
        length = float(np.linalg.norm(flat))
        shrink = 1.0 / max(1.0, length) if inside else 1.0 / length
        return np.asarray(radius * shrink * flat.reshape(starts.shape[1:]))

    best, ends = -np.inf, []
    for start in starts:
        flat = start.ravel() / (radius if inside else np.linalg.norm(start))
        size = max(abs(value(at(flat))), 1e-300)
        end = minimize(lambda flat, size=size: -value(at(flat)) / size, flat, method="L-BFGS-B").x
        best = max(best, value(at(flat)), value(at(end)))
        ends.append(at(end))
    return best, np.array(ends)
