"""Slopes: the interval covers as it says, a regression on one averaged curve does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from scipy import stats

import ratecheck as rc
from linsys import InputError
from ratecheck._rates.rates import local_exponents, verdict

Array = NDArray[np.float64]
#: A fixed seed; each bound on a count below is wrong with probability at most 1e-6 by design.
RISK = 1e-6
TRIALS = 400


def dependent_curves(rng: np.random.Generator) -> tuple[Array, Array]:
    """30 replicates of z_k^2 / t_k with z a stationary AR(1): expectation exactly 1 / t, slope -1.

    Squared errors of a slowly mixing iterate look like this: heavy tails, and neighbouring points
    that are wrong together.
    """
    points, correlation = 20, 0.9
    z = np.empty((30, points))
    z[:, 0] = rng.normal(size=30)
    for k in range(1, points):
        fresh = rng.normal(size=30)
        z[:, k] = correlation * z[:, k - 1] + np.sqrt(1 - correlation**2) * fresh
    t = np.geomspace(1, 1e4, points)
    return t, z**2 / t


def regression_interval(t: Array, curves: Array, rng: np.random.Generator) -> rc.Slope:
    """Textbook interval of a regression through the averaged curve."""
    fit = stats.linregress(np.log(t), np.log(curves.mean(axis=0)))
    half = stats.t.ppf(0.975, t.size - 2) * fit.stderr
    return rc.Slope(fit.slope, fit.slope - half, fit.slope + half)


def bootstrap_interval(t: Array, curves: Array, rng: np.random.Generator) -> rc.Slope:
    return rc.slope_interval(t, curves, rng=rng, resamples=999)


def assert_covers(interval: Callable[[Array, Array, np.random.Generator], rc.Slope]) -> None:
    """An interval that in truth covers 90 to 97 % of the time passes, at risk 1e-6 on each side."""
    rng = np.random.default_rng(20240229)
    covered = 0
    for _ in range(TRIALS):
        t, curves = dependent_curves(rng)
        measured = interval(t, curves, rng)
        covered += measured.lo <= -1 <= measured.hi
    assert stats.binom.ppf(RISK, TRIALS, 0.90) <= covered <= stats.binom.isf(RISK, TRIALS, 0.97)


def test_the_interval_covers() -> None:
    assert_covers(bootstrap_interval)


def test_a_regression_on_the_averaged_curve_does_not_cover() -> None:
    with pytest.raises(AssertionError):
        assert_covers(regression_interval)


@pytest.mark.slow
def test_an_interval_of_points_instead_of_replicates_does_not_cover() -> None:
    def shuffled(t: Array, curves: Array, rng: np.random.Generator) -> rc.Slope:
        return bootstrap_interval(t, rng.permuted(curves, axis=0), rng)

    with pytest.raises(AssertionError):
        assert_covers(shuffled)


@given(
    slope=st.floats(-3, 3),
    scale=st.floats(1e-6, 1e6),
    points=st.integers(2, 12),
)
def test_power_laws_are_measured_exactly(slope: float, scale: float, points: int) -> None:
    x = np.geomspace(1, 1e5, points)
    y = scale * x**slope
    measured = rc.exact_slope(x, y)
    assert measured.value == pytest.approx(slope, abs=1e-10)
    assert measured.lo == measured.value == measured.hi
    np.testing.assert_allclose(local_exponents(x, y), slope, atol=1e-9)
    scaled = np.outer(np.linspace(1, 2, 30), y)  # every replicate tells the same slope
    interval = rc.slope_interval(x, scaled, rng=0)
    assert (interval.lo, interval.hi) == (interval.value, interval.value)
    assert interval.value == pytest.approx(slope, abs=1e-10)


def test_the_interval_depends_on_the_seed_alone() -> None:
    t, curves = dependent_curves(np.random.default_rng(1))
    assert rc.slope_interval(t, curves, rng=3) == rc.slope_interval(t, curves, rng=3)
    assert rc.slope_interval(t, curves, rng=3) != rc.slope_interval(t, curves, rng=4)


def test_an_interval_of_a_level_near_one_reaches_as_far_as_it_says() -> None:
    x, curves = np.array([1.0, 10.0]), np.ones((60, 2))
    curves[:, 1] += 0.01 * np.random.default_rng(0).standard_normal(60)
    one, far = (rc.slope_interval(x, curves, rng=0, level=level) for level in (0.6827, 0.99998))
    ratio = (far.hi - far.lo) / (one.hi - one.lo)  # of a normal law 4.26
    assert 4.0 < ratio < 4.6


def test_a_wider_level_gives_a_wider_interval() -> None:
    t, curves = dependent_curves(np.random.default_rng(1))
    narrow, wide = (rc.slope_interval(t, curves, rng=3, level=level) for level in (0.5, 0.99))
    assert wide.lo < narrow.lo < narrow.hi < wide.hi


def test_replicates_may_be_zero_where_their_mean_is_positive() -> None:
    rng = np.random.default_rng(5)
    t = np.array([1.0, 4.0, 16.0])
    counts = rng.poisson(8 / t, size=(400, 3)).astype(float)  # of expectation 8 / t
    assert (counts == 0).any()
    slope = rc.slope_interval(t, counts, rng=0)
    assert slope.value == rc.exact_slope(t, counts.mean(axis=0)).value
    assert rc.rate_check("slope", -1.0, slope).ok
    assert rc.rate_check("slope", -0.75, slope).ok is False


@pytest.mark.parametrize(
    ("x", "y", "level", "message"),
    [
        ([1, 2], np.ones((29, 2)), 0.9, r"shape \(at least 30, 2\); found \(29, 2\)"),
        ([1, 2], np.ones((30, 3)), 0.9, r"shape \(at least 30, 2\); found \(30, 3\)"),
        ([1, 2], np.ones((30, 2)), 1.0, r"`level` must be in \(0, 1\)"),
        ([1, 2], np.zeros((30, 2)), 0.9, "must have a positive mean over every resample .*found 0"),
        ([1, 2], np.full((30, 2), -1.0), 0.9, "must have a positive mean .*; found -1"),
        # the mean is positive, but without one of the replicates it is not
        (
            [1, 2],
            np.eye(30, 2) + np.array([0, 1]),
            0.9,
            "must have a positive mean over every resample",
        ),
        ([1, 2], np.full((30, 2), np.nan), 0.9, "must be finite; found nan"),
        ([1, 2], np.full((30, 2), np.inf), 0.9, "must be finite; found inf"),
        ([2, 1], np.ones((30, 2)), 0.9, "`x` must be strictly increasing"),
        ([0, 1], np.ones((30, 2)), 0.9, "`x` must be positive"),
        ([1], np.ones((30, 1)), 0.9, "`x` must have shape"),
    ],
)
def test_wrong_input_is_named(x: list[float], y: Array, level: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rc.slope_interval(x, y, rng=0, level=level)


@pytest.mark.parametrize(
    ("predicted", "interval", "tolerance", "bound", "limit", "said"),
    [
        (-1, (-1.1, -0.9), 0.0, False, "infinity", "consistent"),
        (-1, (-0.9, -0.8), 0.0, False, "infinity", "violated"),
        (-1, (-0.9, -0.8), 0.1, False, "infinity", "consistent"),
        (-1, (-2.1, -1.9), 0.0, False, "infinity", "violated"),
        (-1, (-2.1, -1.9), 0.0, True, "infinity", "faster than stated"),
        (-1, (-0.6, -0.5), 0.0, True, "infinity", "violated"),
        (1, (1.9, 2.1), 0.0, True, "zero", "faster than stated"),
        (1, (0.4, 0.6), 0.0, True, "zero", "violated"),
        (1, (1.9, 2.1), 0.0, False, "zero", "violated"),
        (-1, (-1.2, -0.9), 0.0, False, "infinity", "consistent"),
        (-1, (-1.1, -0.5), 0.0, False, "infinity", "not decided"),  # -1/2 as well
        (-1, (-2.0, -0.9), 0.0, False, "infinity", "not decided"),  # -2 as well
        (-1, (-1.1, -0.5), 0.0, True, "infinity", "not decided"),
        (-1, (-2.0, -0.9), 0.0, True, "infinity", "consistent"),  # slower is excluded
        (1, (0.5, 1.1), 0.0, True, "zero", "not decided"),
        (1, (0.9, 2.1), 0.0, True, "zero", "consistent"),
    ],
)
def test_verdicts(
    predicted: float,
    interval: tuple[float, float],
    tolerance: float,
    bound: bool,
    limit: str,
    said: str,
) -> None:
    slope = rc.Slope(sum(interval) / 2, *interval)
    options = {"tolerance": tolerance, "bound": bound, "limit": limit}
    assert verdict(predicted, slope, **options) == said  # type: ignore[arg-type]
    check = rc.rate_check("rate", predicted, slope, **options)  # type: ignore[arg-type]
    assert check.ok is {"violated": False, "not decided": None}.get(said, True)
    assert (check.lo, check.hi, check.verdict) == (*interval, said)


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ((0.5, 0.4, 0.6), "below, at_most, within"),
        ((1.0, 1.0, 1.0), "at_most, at_least, within"),
        ((1.5, 1.4, 1.6), "above, at_least"),
    ],
)
def test_claims_are_confirmed_contradicted_or_open(
    interval: tuple[float, float, float], said: str
) -> None:
    measured, wide = rc.Interval(*interval), rc.Interval(1.0, 0.2, 1.9)
    outcomes = {
        "below": rc.below("c", "p", measured),
        "above": rc.above("c", "p", measured, 1.0),
        "at_most": rc.at_most("c", "p", measured, 1.0),
        "at_least": rc.at_least("c", "p", measured, 1.0),
        "within": rc.within("c", "p", measured, 0.3, 1.0),
    }
    assert ", ".join(name for name, check in outcomes.items() if check.ok) == said
    undecided = {name for name, check in outcomes.items() if check.ok is None}
    assert undecided == ({"below", "above"} if measured.lo == measured.hi else set())
    for check in (
        rc.below("c", "p", wide),
        rc.above("c", "p", wide, 1.0),
        rc.at_most("c", "p", wide, 1.0),
        rc.at_least("c", "p", wide, 1.0),
        rc.within("c", "p", wide, 0.3, 1.0),
    ):
        said, strict = check.verdict, rc.every(check)
        assert (check.ok, said.partition(";")[0]) == (None, "not decided")
        assert (strict.ok, strict.verdict) == (False, said.replace("not decided", "violated"))
    assert all(rc.every(check) == check for check in outcomes.values() if check.ok is not None)


def test_a_range_or_limit_that_the_prediction_does_not_say_is_said_with_the_verdict() -> None:
    half = rc.exact(0.5)
    assert rc.within("c", 1.0, half, 0.3, 1.0).verdict == "confirmed; range 0.3 to 1"
    assert rc.within("c", 1.0, half, 0.7, 1.0, remark="far").verdict == (
        "violated; range 0.7 to 1; far"
    )
    assert rc.at_most("c", 0.5, half, 0.6, remark="near").verdict == "confirmed; limit 0.6; near"
    assert rc.at_least("c", 0.5, half, 0.4).verdict == "confirmed; limit 0.4"
    for judge in (rc.at_most, rc.at_least):
        for predicted in (0.5, "as much as 0.5"):
            assert judge("c", predicted, half, 0.5).verdict == "confirmed"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: rc.mean_interval([1.0]), r"`values` .* at least 2 instances; found \(1,\)"),
        (lambda: rc.mean_interval([1.0, math.nan]), "`values` must be finite; found nan"),
        (lambda: rc.mean_interval("ab"), "`values` must be an array of real numbers; found 'ab'"),
        (lambda: rc.largest_mean([1.0, 2.0]), r"`cells` must have shape \(cells, instances\)"),
        (lambda: rc.paired_ratio([1.0, 0.0], [1.0, 2.0]), "`numerator` must be positive; found 0"),
        (
            lambda: rc.paired_ratio([1.0, 2.0], [1.0, 2.0, 3.0]),
            "`numerator` and `denominator` must be of the same instances; found 2 and 3",
        ),
        (
            lambda: rc.mean_above("gain", "above 0", [1.0, 2.0], [[1.0, 2.0]]),
            r"`theirs` must have shape \(instances,\)",
        ),
    ],
)
def test_what_no_interval_over_instances_has_is_refused_in_a_line(
    call: Callable[[], object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        call()


def test_bands_are_ninety_percent_of_the_mean() -> None:
    values = np.array([[1.0, 2.0], [3.0, 2.0]])
    mean, lo, hi = rc.mean_band(values)
    np.testing.assert_allclose(mean, [2, 2])
    half = stats.t.ppf(0.95, df=1) * np.array([1.0, 0.0])
    np.testing.assert_allclose([mean - lo, hi - mean], [half, half])
    with pytest.raises(InputError, match="at least 2"):
        rc.mean_band([[1.0, 2.0]])


def test_a_band_for_a_logarithmic_axis_is_positive_and_of_the_same_width() -> None:
    wide = np.array([[0.0], [1.0], [8.0]])
    assert rc.mean_band(wide)[1] < 0
    mean, lo, hi = rc.mean_band(wide, log=True)
    assert 0 < lo < mean < hi
    half = stats.t.ppf(0.95, df=2) * wide.std(axis=0, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(np.log([hi / mean, mean / lo]), [half / mean] * 2)
    narrow = 5 + 1e-4 * wide  # where the logarithm is a line, both bands are one
    np.testing.assert_allclose(rc.mean_band(narrow, log=True), rc.mean_band(narrow), rtol=1e-7)
    with pytest.raises(InputError, match="must be positive"):
        rc.mean_band(-wide, log=True)


def test_an_exact_number_is_an_interval_of_one_point() -> None:
    assert rc.exact(np.float64(2.5)) == rc.Interval(2.5, 2.5, 2.5)
    judged = [rc.at_most("ratio", "at most 1", rc.exact(v), 1.0).ok for v in (0.5, 1.0, 1.5)]
    assert judged == [True, True, False]
    for wrong in (np.nan, np.ones(2), "1"):
        with pytest.raises(InputError, match="`value` must be a number"):
            rc.exact(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("judge", "sign"), [(rc.above, 1.0), (rc.below, -1.0)])
def test_what_a_law_may_be_off_by_decides_nothing_on_either_side(judge: Any, sign: float) -> None:
    def verdict_at(value: float) -> bool | None:
        ends = rc.Interval(value, value - 0.1, value + 0.1)
        outcome: bool | None = judge("exponent", "beyond 1", ends, 1.0, tolerance=0.5).ok
        return outcome

    values = (1.0 + sign * away for away in (0.7, 0.5, 0.0, -0.5, -0.7))
    assert [verdict_at(value) for value in values] == [True, None, None, None, False]


def test_a_law_is_checked_as_stated_and_as_derived() -> None:
    law = rc.Law(stated=-1.0, derived=-2.0, tolerance=0.1)
    steep, flat = rc.Slope(-2.0, -2.05, -1.95), rc.Slope(-0.5, -0.55, -0.45)
    assert {c.name: (c.ok, c.ours, c.verdict) for c in law.checks("drift", steep)} == {
        "drift: as derived": (True, True, "consistent"),
        "drift: as stated": (True, False, "faster than stated"),
    }
    assert [check.ok for check in law.checks("drift", flat)] == [False, False]
    shrinking = replace(law, limit="zero")  # a larger exponent is the faster one
    assert [check.ok for check in shrinking.checks("drift", steep)] == [True, False]
    exactly = replace(law, bound=False)
    assert [check.ok for check in exactly.checks("drift", steep)] == [True, False]
    near = rc.Slope(-1.05, -1.05, -1.05)
    assert [c.ok for c in rc.Law(-1.0, bound=False).checks("drift", near)] == [False]
    assert [c.ok for c in rc.Law(-1.0, None, 0.1, bound=False).checks("drift", near)] == [True]


def test_a_law_says_something() -> None:
    assert [c.name for c in rc.Law(-1.0).checks("a", rc.exact(-1.0))] == ["a: as stated"]
    assert [c.name for c in rc.Law(derived=0.0).checks("a", rc.exact(0.0))] == ["a: as derived"]
    with pytest.raises(InputError, match="must have `stated` or `derived`; found neither"):
        rc.Law()


@pytest.mark.parametrize("off", [1e-12, 1e-6])
def test_a_tolerance_is_for_rounding_alone(off: float) -> None:
    small = off < 1e-9
    assert rc.at_most("c", "p", rc.exact(1.0 + off), 1.0, tolerance=1e-9).ok is small
    assert rc.at_least("c", "p", rc.exact(1.0 - off), 1.0, tolerance=1e-9).ok is small
