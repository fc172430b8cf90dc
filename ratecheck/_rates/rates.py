"""Honest rates: a log-log slope, an interval that covers, and what both say of a stated exponent.

Points of one averaged curve are strongly dependent (one unlucky replicate moves the whole tail), so
an ordinary regression through them claims far too much. The interval here comes from a bootstrap
over whole replicates: the BCa interval of Efron (1987), as SciPy computes it. Exact values need no
interval: ``lo = hi = value``.

All verdicts are made here, and each has three values: an interval *confirms* a claim if all of it
meets the claim, *contradicts* it if none of it does, and otherwise leaves it *not decided*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.validate import InputError, check_choice, check_instance, check_number, shown
from ratecheck._experiment.model import Check

#: Fewer replicates than this give no interval worth printing.
MIN_REPLICATES = 30

#: At least so many resamples lie beyond either end of an interval; further out they tell nothing.
BEYOND = 2

#: An interval may reach this far past an exponent and still count as agreement: the exponents that
#: compete in the theory (-1/2, -1, -2 in t or n; 0, 1, 2 in delta) are at least 1/2 apart, so that
#: such an interval is nowhere nearer to another one than to the stated one.
RESOLUTION = 0.25

#: What checks are made by.
_SUCH_A_CHECK = "a check, such as rate_check or below makes"

Verdict = Literal["consistent", "faster than stated", "not decided", "violated"]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A measured number and its interval; ``lo == value == hi`` when it is exact.

    Ends are infinite where nothing bounds the number; a claim about it is then not decided.

    >>> import ratecheck as rc
    >>> rc.below("ratio", "below 1", rc.Interval(0.5, lo=0.4, hi=0.6)).ok
    True
    """

    value: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Slope(Interval):
    """A measured exponent.

    >>> import ratecheck as rc
    >>> rc.rate_check("exponent of t", -1.0, rc.Slope(-1.02, lo=-1.1, hi=-0.95)).ok
    True
    """


def exact(value: float) -> Interval:
    """The interval of one exact number: a point.

    Args:
        value: a finite number, of Python or of NumPy.

    Raises:
        InputError: what is no finite number.

    >>> at_most("ratio", "at most 1", exact(np.max([0.25, 0.5])), 1.0).ok
    True
    """
    number = check_number("value", value)
    return Interval(number, number, number)


def below(
    name: str,
    predicted: str,
    measured: Interval,
    limit: float = 1.0,
    *,
    tolerance: float = 0.0,
    remark: str = "",
) -> Check:
    """The claim that a number is below ``limit``; one within ``tolerance`` of it decides nothing.

    Raises:
        InputError: ``measured`` is no :class:`ratecheck.Interval`.

    >>> [below("ratio", "below 1", Interval(v, v - 0.1, v + 0.1)).ok for v in (0.5, 1.0, 1.5)]
    [True, None, False]
    >>> below("ratio", "below 1", Interval(0.5, -math.inf, math.inf)).verdict
    'not decided'
    """
    _check_interval(measured)
    holds, fails = measured.hi < limit - tolerance, measured.lo > limit + tolerance
    return _judge(name, predicted, measured, holds, fails, remark)


def above(
    name: str,
    predicted: str,
    measured: Interval,
    limit: float = 0.0,
    *,
    tolerance: float = 0.0,
    remark: str = "",
) -> Check:
    """The claim that a number is above ``limit``; one as near as ``tolerance`` decides nothing.

    Raises:
        InputError: ``measured`` is no :class:`ratecheck.Interval`.

    >>> above("gain", "above 0", Interval(0.5, 0.4, 0.6)).verdict
    'confirmed'
    """
    _check_interval(measured)
    holds, fails = measured.lo > limit + tolerance, measured.hi < limit - tolerance
    return _judge(name, predicted, measured, holds, fails, remark)


def at_most(
    name: str,
    predicted: float | str,
    measured: Interval,
    limit: float,
    *,
    tolerance: float = 0.0,
    remark: str = "",
) -> Check:
    """The claim that a number is ``limit`` or less; ``tolerance`` is for its rounding.

    A limit beside a prediction that is another number is said with the verdict.

    Raises:
        InputError: ``measured`` is no :class:`ratecheck.Interval`.

    >>> at_most("factor", "at most 0.8", exact(0.8000000000000139), 0.8, tolerance=1e-9).ok
    True
    """
    _check_interval(measured)
    holds, fails = measured.hi <= limit + tolerance, measured.lo > limit + tolerance
    return _judge(name, predicted, measured, holds, fails, _beside(predicted, limit, remark))


def at_least(
    name: str,
    predicted: float | str,
    measured: Interval,
    limit: float,
    *,
    tolerance: float = 0.0,
    remark: str = "",
) -> Check:
    """The claim that a number is ``limit`` or more; ``tolerance`` is for its rounding.

    A limit beside a prediction that is another number is said with the verdict.

    Raises:
        InputError: ``measured`` is no :class:`ratecheck.Interval`.

    >>> at_least("rate", "at least 0.1", Interval(0.12, 0.09, 0.15), 0.1).verdict
    'not decided'
    """
    _check_interval(measured)
    holds, fails = measured.lo >= limit - tolerance, measured.hi < limit - tolerance
    return _judge(name, predicted, measured, holds, fails, _beside(predicted, limit, remark))


def within(
    name: str,
    predicted: float | str,
    measured: Interval,
    low: float,
    high: float,
    *,
    remark: str = "",
) -> Check:
    """The claim that a number lies in [low, high], which is said with the verdict.

    Raises:
        InputError: ``measured`` is no :class:`ratecheck.Interval`.

    >>> [within("ratio", 1.0, Interval(1, 1 - e, 1 + e), 0.9, 1.1).ok for e in (0.05, 0.5)]
    [True, None]
    >>> within("ratio", 1.0, exact(1.02), 0.9, 1.1).verdict
    'confirmed; range 0.9 to 1.1'
    """
    _check_interval(measured)
    holds, fails = (
        low <= measured.lo and measured.hi <= high,
        measured.hi < low or measured.lo > high,
    )
    return _judge(
        name, predicted, measured, holds, fails, _also(f"range {low:.4g} to {high:.4g}", remark)
    )


def every(check: Check) -> Check:
    """A check whose interval is the range of exact values, all of which must meet it.

    Raises:
        InputError: what is no check.

    >>> check = below("ratio", "below 1", Interval(0.9, 0.8, 1.2))  # of exact values
    >>> check.ok, every(check).ok
    (None, False)
    """
    check_instance("check", check, Check, _SUCH_A_CHECK)
    if check.ok is None:
        return replace(check, ok=False, verdict=check.verdict.replace("not decided", "violated"))
    return check


def our_own(check: Check, *, paper: str = "") -> Check:
    """A check of a prediction that is not the paper's but derived here.

    Args:
        check: of the prediction.
        paper: what the paper states instead, such as "below 0"; empty where it says nothing.

    Raises:
        InputError: what is no check.

    >>> our_own(above("gain", "above 0", exact(0.5)), paper="below 0").outcome
    'contradicts the paper'
    """
    check_instance("check", check, Check, _SUCH_A_CHECK)
    return replace(check, ours=True, paper=paper)


def _check_interval(measured: Interval) -> None:
    check_instance("measured", measured, Interval, "an interval, such as exact(0.5)")


def _beside(predicted: float | str, limit: float, remark: str) -> str:
    """The remark, after the limit where the prediction is another number."""
    is_other = not isinstance(predicted, str) and predicted != limit
    return _also(f"limit {limit:.4g}", remark) if is_other else remark


def _also(first: str, then: str) -> str:
    return f"{first}; {then}" if then else first


def _judge(
    name: str, predicted: float | str, measured: Interval, holds: bool, fails: bool, remark: str
) -> Check:
    """A check from what its interval confirms and what it contradicts."""
    ok = True if holds else False if fails else None
    said = "confirmed" if holds else "violated" if fails else "not decided"
    verdict = _also(said, remark)
    lo, hi = (None if math.isinf(end) else end for end in (measured.lo, measured.hi))
    return Check(name, predicted, measured.value, lo, hi, ok, verdict)


def exact_slope(x: ArrayLike, y: ArrayLike) -> Slope:
    """Least-squares slope of log y on log x for exact values, both of shape (points,); no interval.

    Raises:
        InputError: ``x`` or ``y`` that are not positive, or of another shape.

    >>> exact_slope([1, 10, 100], [3.0, 0.3, 0.03]).value.__round__(12)
    -1.0
    """
    log_x, weights = _regression(x)
    values = _positive("y", y, (log_x.size,))
    slope = float(np.log(values) @ weights)
    return Slope(slope, slope, slope)


def slope_error(x: ArrayLike, relative_error: ArrayLike) -> float:
    """How far factors within 1 -+ ``relative_error`` at every x can move a log-log slope.

    >>> round(slope_error([10.0, 100.0], [0.1, 0.1]), 3)
    0.087
    """
    log_x = np.log(_numbers("x", x))
    centred = log_x - log_x.mean()
    return float(np.abs(centred) @ _numbers("relative_error", relative_error) / (centred @ centred))


def slope_shift(x: ArrayLike, relative: ArrayLike) -> float:
    """How much a log-log slope over x changes where the curve has a factor 1 + ``relative``.

    >>> round(slope_shift([10.0, 100.0], [0.1, 0.01]), 3)  # 1 + 1/x
    0.037
    """
    factors = 1.0 + _numbers("relative", relative)
    return abs(exact_slope(x, factors).value)


def local_exponents(x: ArrayLike, y: ArrayLike) -> Array:
    """Slopes between neighbouring points on log-log axes, shape (points - 1,).

    >>> local_exponents([1, 10, 100], [1.0, 0.1, 0.001]).round(12).tolist()
    [-1.0, -2.0]
    """
    log_x, _ = _regression(x)
    exponents: Array = np.diff(np.log(_positive("y", y, (log_x.size,)))) / np.diff(log_x)
    return exponents


def slope_interval(
    x: ArrayLike,
    y_replicates: ArrayLike,
    *,
    rng: np.random.Generator | int,
    level: float = 0.95,
    resamples: int = 4999,
) -> Slope:
    """Log-log slope of the mean over replicates with a BCa interval over whole replicates.

    ``x`` has shape (points,), ``y_replicates`` shape (replicates, points): at least 30 replicates
    of finite values. Single values may be zero or negative, as of a run that hits the solution, but
    the mean over any resample of the replicates must be positive. ``level`` is the probability with
    which the interval covers the slope of the expected curve; near 1 it takes more than so many
    ``resamples``. Raises InputError otherwise. The interval has no width where every replicate
    tells the same slope.

    >>> t = np.array([10.0, 100.0, 1000.0])
    >>> noise = np.random.default_rng(0).exponential(size=(50, 3))
    >>> slope = slope_interval(t, noise / t, rng=0)
    >>> bool(slope.lo < -1 < slope.hi)
    True
    """
    log_x, weights = _regression(x)
    curves = _numbers("y_replicates", y_replicates)
    shape = curves.shape
    if len(shape) != 2 or shape[0] < MIN_REPLICATES or shape[1] != log_x.size:
        raise InputError(
            f"`y_replicates` must have shape (at least {MIN_REPLICATES}, {log_x.size}); "
            f"found {shape}"
        )
    if not 0 < level < 1:
        raise InputError(f"`level` must be in (0, 1); found {level:g}")
    if not np.isfinite(curves).all():
        bad = curves[~np.isfinite(curves)][0]
        raise InputError(f"`y_replicates` must be finite; found {bad:g}")
    value = float(np.log(_positive_mean(curves.mean(axis=0))) @ weights)

    def slopes(index: NDArray[np.intp], axis: int = -1) -> Array:
        """Slope of the mean over the replicates in each row of ``index``: counts times curves."""
        rows = np.moveaxis(index, axis, -1).reshape(-1, index.shape[axis])
        count, size = len(curves), len(rows)
        flat = (rows + count * np.arange(size)[:, None]).ravel()
        counts = np.bincount(flat, minlength=size * count).reshape(size, count)
        means = _positive_mean(counts.astype(np.float64) @ curves / rows.shape[1])
        result: Array = np.log(means) @ weights
        return result.reshape(index.shape[:-1])

    replicates = np.arange(len(curves))
    leave_one_out = slopes(np.array([np.delete(replicates, i) for i in replicates]))
    if np.ptp(leave_one_out) <= 1e-12 * max(1.0, abs(value)):
        return Slope(value, value, value)  # every replicate tells the same slope

    from scipy.stats import bootstrap

    interval = bootstrap(
        (replicates,),
        slopes,
        confidence_level=level,
        n_resamples=max(resamples, math.ceil(2.0 * BEYOND / (1.0 - level))),
        batch=max(1, 2**22 // len(curves)),
        method="BCa",
        rng=np.random.default_rng(rng),
    ).confidence_interval
    return Slope(value, float(interval.low), float(interval.high))


def verdict(
    predicted: float,
    measured: Interval,
    *,
    tolerance: float = 0.0,
    bound: bool = False,
    limit: Literal["infinity", "zero"] = "infinity",
) -> Verdict:
    """What the interval says about the stated exponent in y ~ x^predicted.

    The exponent is *consistent* when it lies in [lo - tolerance, hi + tolerance]; ``tolerance`` is
    what the experiment knows to be left out of a pure power (a logarithm, a transient, a finite
    range of x) and is stated with the check. An interval that contains it and reaches further than
    ``RESOLUTION`` past it (than ``tolerance``, if that is more) could hold a competing exponent as
    well: *not decided*. Otherwise the rate is *violated*, except that an upper bound
    (``bound=True``, y <= C x^predicted) may be beaten: a curve that falls faster towards the
    ``limit`` of x than the bound does is *faster than stated*, and how far an interval reaches on
    that side is no matter. Falling faster is a smaller exponent as x grows to infinity and a larger
    one as x shrinks to zero.

    >>> verdict(-1.0, Slope(-2.0, -2.1, -1.9), bound=True)
    'faster than stated'
    >>> verdict(-1.0, Slope(-2.0, -2.1, -1.9))
    'violated'
    >>> verdict(-1.0, Slope(-0.8, -1.1, -0.5))
    'not decided'
    """
    check_number("predicted", predicted)
    _check_interval(measured)
    check_choice("limit", limit, ("infinity", "zero"))
    faster, slower = predicted - measured.lo, measured.hi - predicted
    if limit == "zero":
        faster, slower = slower, faster
    if max(-faster, -slower) > tolerance:  # the exponent is outside
        return "faster than stated" if bound and slower < 0 else "violated"
    far = max(slower, -np.inf if bound else faster)
    return "consistent" if far <= max(RESOLUTION, tolerance) else "not decided"


def rate_check(
    name: str,
    predicted: float,
    measured: Interval,
    *,
    tolerance: float = 0.0,
    bound: bool = False,
    limit: Literal["infinity", "zero"] = "infinity",
) -> Check:
    """The check of one exponent, with what ``verdict`` says.

    Args:
        name: what the exponent is of.
        predicted: the exponent as it is stated.
        measured: the exponent with its interval, such as a :class:`ratecheck.Slope`.
        tolerance: how far a finite range may bend it: a number that is fixed beforehand, never one
            that is computed from the exponent or the measurement.
        bound: whether it is the exponent of an upper bound, which may be faster than stated.
        limit: where the statement is about: large arguments, or small ones.

    >>> rate_check("exponent of t", -1.0, Interval(-1.02, -1.1, -0.95)).ok
    True
    """
    said = verdict(predicted, measured, tolerance=tolerance, bound=bound, limit=limit)
    ok = None if said == "not decided" else said != "violated"
    ends = (measured.value, measured.lo, measured.hi)
    return Check(name, predicted, *ends, ok, said, tolerance=tolerance)


def mean_band(
    replicates: ArrayLike, *, level: float = 0.9, log: bool = False
) -> tuple[Array, Array, Array]:
    """Mean over the first axis and the ends of Student's interval for it, bands of 90 %.

    ``replicates`` has shape (replicates, points), at least 2 replicates; returns (mean, lo, hi) of
    shape (points,).

    Args:
        replicates: the values.
        level: the probability with which a band covers the expectation.
        log: for a logarithmic axis, where the lower end must be positive: the interval of the
            mean's logarithm, whose standard error is that of the mean relative to it. The means
            must be positive.

    Raises:
        InputError: values of another shape, or with ``log`` a mean that is not positive.

    >>> [band.round(2).tolist() for band in mean_band([[0.0], [2.0]])]
    [[1.0], [-5.31], [7.31]]
    >>> [band.round(4).tolist() for band in mean_band([[0.0], [2.0]], log=True)]
    [[1.0], [0.0018], [552.1123]]
    """
    from scipy.special import stdtrit

    values = _numbers("replicates", replicates)
    if values.ndim != 2 or values.shape[0] < 2:
        raise InputError(f"`replicates` must have shape (at least 2, points); found {values.shape}")
    mean = values.mean(axis=0)
    quantile = float(stdtrit(values.shape[0] - 1, 0.5 + 0.5 * level))
    half = quantile * values.std(axis=0, ddof=1) / np.sqrt(values.shape[0])
    if log:
        factor = np.exp(half / _positive("mean of replicates", mean, mean.shape))
        return mean, mean / factor, mean * factor
    return mean, mean - half, mean + half


def ratio(values: ArrayLike, law: float, level: float) -> Interval:
    """The mean of replicates (replicates,) over a prediction, with Student's interval.

    >>> ratio([1.9, 2.0, 2.1], law=2.0, level=0.95).value
    1.0
    """
    mean, low, high = (float(end[0]) / law for end in mean_band(np.c_[values], level=level))
    return Interval(mean, low, high)


def _regression(x: ArrayLike) -> tuple[Array, Array]:
    """log x and the weights w with w . log y = least-squares slope."""
    points = _numbers("x", x)
    if points.ndim != 1 or points.size < 2:
        raise InputError(f"`x` must have shape (at least 2,); found {points.shape}")
    log_x = np.log(_positive("x", points, points.shape))
    if (np.diff(log_x) <= 0).any():
        raise InputError("`x` must be strictly increasing")
    centred = log_x - log_x.mean()
    return log_x, centred / (centred @ centred)


def _numbers(name: str, values: ArrayLike) -> Array:
    """The values as float64, of any shape; whatever becomes such numbers will do."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"`{name}` must be an array of real numbers; found {shown(values)}"
        ) from None


def _positive_mean(means: Array) -> Array:
    """Means over replicates or over resamples of them, if a logarithm can be taken of all."""
    if not (means > 0).all():
        raise InputError(
            "`y_replicates` must have a positive mean over every resample for a log-log slope; "
            f"found {means[~(means > 0)][0]:g}"
        )
    return means


def _positive(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = _numbers(name, values)
    if array.shape != shape:
        raise InputError(f"`{name}` must have shape {shape}; found {array.shape}")
    if not (np.isfinite(array) & (array > 0)).all():
        bad = array[~(np.isfinite(array) & (array > 0))][0]
        raise InputError(f"`{name}` must be positive and finite for a log-log slope; found {bad:g}")
    return array
