"""A measure must depend on its instance alone: one that does not has no verdict but "error"."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from linsys.linalg import is_precise
from ratecheck._claims import certificates
from ratecheck._claims.certificates import Certificate, certify, ratio
from ratecheck._claims.space import Fault, Unsettled
from ratecheck._search import search
from ratecheck._verdicts import verdict as verdict_module

SPACE = rc.Space(fields={"x": rc.interval(), "y": rc.interval()})
BATCHED = rc.Space(fields={"x": rc.interval(), "y": rc.interval()}, batched=True)
AGAIN = "for the same instance; it must depend on the instance alone, not on random numbers"


def upper(measure: Callable[[Any], Any], space: rc.Space = SPACE) -> rc.Claim:
    return rc.Claim(id="mine.claim", source="", text="", kind="upper", space=space, measure=measure)


def noisy(seed: int) -> Callable[[Any], Any]:
    """x <= 0.9 with noise that depends on nothing."""
    rng = np.random.default_rng(seed)
    return lambda s: (s.x + 0.1 * rng.normal(size=np.shape(s.x)), 0.9)


def noisy_above(seed: int) -> Callable[[Any], Any]:
    """The same with noise where the bound is exceeded, and only there."""
    rng = np.random.default_rng(seed)
    return lambda s: (s.x + (0.1 * rng.uniform() if s.x > 0.9 else 0), 0.9)


def taking_turns(seed: int) -> Callable[[Any], Any]:
    """Right at every second call."""
    calls: list[int] = []

    def measure(s: Any) -> tuple[Any, Any]:
        calls.append(1)
        return s.x, 0.9 + len(calls) % 2

    return measure


def drifting(seed: int) -> Callable[[Any], Any]:
    """A bound that gets true late, as of a cache that fills."""
    calls: list[int] = []

    def measure(s: Any) -> tuple[Any, Any]:
        calls.append(1)
        return s.x / 2, 0.9 if len(calls) < 4_000 else 1.0

    return measure


def once(seed: int) -> Callable[[Any], Any]:
    """A single call among thousands exceeds the bound."""
    calls: list[int] = []

    def measure(s: Any) -> tuple[Any, Any]:
        calls.append(1)
        return (1.5 + 0 * s.x if len(calls) == 2_500 + seed else s.x), 1.001

    return measure


def late(seed: int) -> Callable[[Any], Any]:
    """Right as long as high precision looks, where it looks first."""
    seen: list[int] = []

    def measure(s: Any) -> tuple[Any, Any]:
        if is_precise(np.asarray(s.x)):
            seen.append(1)
        return s.x * (1 + 0.2 * (len(seen) % 2)), 1.0

    return measure


UNSTEADY = [noisy, noisy_above, taking_turns, drifting, once, late]


def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at nothing twice, and take what differs between precisions for no violation."""

    def trusting(claim: rc.Claim, fields: Any) -> Certificate:
        try:
            return certify(claim, fields)
        except Unsettled:
            return Certificate(False, 0.5, 1.0, 0.5, ("0.5", "1.0"))

    monkeypatch.setattr(search, "repeat", lambda *arguments, **options: None)
    for module in (search, verdict_module):
        monkeypatch.setattr(module, "certify", trusting)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", UNSTEADY)
def test_an_unsteady_measure_is_an_error(make: Any, seed: int) -> None:
    verdict = rc.judge(upper(make(seed)))
    assert verdict.verdict == "error"
    assert AGAIN in verdict.reason, verdict.reason
    assert "\n" not in verdict.reason
    assert verdict.counterexample is not None


@pytest.mark.slow
@pytest.mark.parametrize("make", UNSTEADY)
def test_without_the_second_look_it_would_hold(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    blind(monkeypatch)
    assert rc.judge(upper(make(0))).verdict == "holds"


def test_a_batch_is_measured_twice_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = rc.judge(upper(noisy(0), BATCHED))
    assert verdict.verdict == "error"
    assert AGAIN in verdict.reason
    assert verdict.counterexample is not None
    assert set(verdict.counterexample) == {"x", "y"}
    blind(monkeypatch)
    assert rc.judge(upper(noisy(0), BATCHED)).verdict == "holds"


def test_both_values_and_their_instance_are_told() -> None:
    values = iter(range(1, 1_000_000))
    verdict = rc.judge(upper(lambda s: (s.x, (next(values) if s.x == 0.5 else 1) + s.y)))
    assert verdict.counterexample is not None
    assert verdict.counterexample["x"] == 0.5
    told = r"measure returned {} and then {} for the same instance; it must depend on .*"
    sides = r"\(measured, bound\) = \(0\.5, (\d+\.?\d*)\)"
    match = re.fullmatch(told.format(sides, sides), verdict.reason)
    assert match is not None, verdict.reason
    assert match[1] != match[2]


def test_a_test_suite_and_a_replay_notice_it() -> None:
    with pytest.raises(AssertionError, match=r"ends with an error.*\n.*and then"):
        rc.assert_holds(upper(noisy(0)))
    verdict = rc.replay(upper(noisy(0)), {"x": 0.5, "y": 0.0})
    assert (verdict.verdict, AGAIN in verdict.reason) == ("error", True)


@pytest.mark.slow
def test_what_depends_on_the_instance_alone_may_draw_numbers() -> None:
    def measure(s: Any) -> tuple[Any, Any]:
        return s.x * np.random.default_rng(7).integers(1, 3), 2

    assert rc.judge(upper(measure)).verdict == "holds"


# high precision


def by_digits(**values: float) -> rc.Claim:
    """A measure that exceeds its bound of one by what the number of digits says."""

    def measure(s: Any) -> tuple[Any, Any]:
        x = s.x
        if not is_precise(np.asarray(x)):
            return x * 0 + 0.5, 1
        return x * 0 + 1 + x.context.mpf(values[f"at{x.context.dps}"]), 1

    return upper(measure)


INSTANCE = {"x": np.array([0.5]), "y": np.array([0.5])}


def test_two_precisions_that_disagree_ask_a_third_one() -> None:
    assert certify(by_digits(at40=0.1, at80=0.1), INSTANCE).violated
    # 40 digits were too few
    late = certify(by_digits(at40=0.3, at80=0.1, at160=0.1), INSTANCE)
    assert (late.violated, late.measured) == (True, 1.1)
    assert certify(by_digits(at40=-0.3, at80=0.1, at160=0.1), INSTANCE).violated
    # rounding, which vanishes
    for rest in (1e-60, 0.0, -1e-60):
        none = certify(by_digits(at40=0.3, at80=0.1, at160=rest), INSTANCE)
        assert not none.violated
        assert none.tightness <= 1 + certificates.EXCESS
    with pytest.raises(Unsettled, match=r"inf with 80 digits, 0\.1 with 160 digits"):
        certify(by_digits(at40=-0.3, at80=np.inf, at160=0.1), INSTANCE)
    for last in (0.2, 1e-20, -1e-20, -0.1):
        with pytest.raises(Unsettled, match="high precision does not settle the excess") as told:
            certify(by_digits(at40=0.3, at80=0.1, at160=last), INSTANCE)
        numbers = f"0.3 with 40 digits, 0.1 with 80 digits, {last:g} with 160 digits"
        assert told.value.reason.endswith(numbers)


@pytest.mark.parametrize(
    "digits",
    [
        {"at40": a, "at80": b, "at160": c}
        for a in (-0.1, 0.0, 1e-13, 0.1)
        for b in (-0.1, 1e-13, 1e-11, 0.1)
        for c in (-0.1, 1e-60, 1e-11, 0.1)
    ],
)
def test_what_is_not_violated_exceeds_no_bound(digits: dict[str, float]) -> None:
    try:
        proof = certify(by_digits(**digits), INSTANCE)
    except Unsettled:
        assert digits["at80"] > certificates.EXCESS
        return
    assert proof.violated == (proof.tightness > 1 + certificates.EXCESS)
    shown = ratio("<=", proof)
    assert shown is None or proof.violated or shown <= 1 + 2 * certificates.EXCESS


def test_sides_that_are_rounding_have_no_ratio() -> None:
    tiny = upper(lambda s: (3e-80 * (1 + s.x - s.x), 1e-80 * (1 + s.y - s.y)))
    verdict = rc.replay(tiny, {"x": 0.5, "y": 0.5})
    assert (verdict.verdict, verdict.ratio) == ("holds", None)


def test_float64_alone_shows_no_holds_above_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all candidates were used up before high precision could have been asked about one."""
    monkeypatch.setattr(search, "_CHECKED_IN_ALL", 0)
    verdict = rc.judge(upper(lambda s: (np.hypot(s.x, 0), 0.5)))
    assert verdict.verdict == "error"
    assert verdict.reason.startswith("float64 exceeds the bound, but measure ")
    monkeypatch.setattr(verdict_module, "CANDIDATE", np.inf)
    shown: rc.Verdict = rc.judge(upper(lambda s: (np.hypot(s.x, 0), 0.5)))
    assert shown.verdict == "holds"
    assert shown.ratio is not None
    assert shown.ratio > 1


# rates


def test_an_exponent_is_measured_twice() -> None:
    values = iter([-0.5, -0.51, -0.5, -0.5])

    def regimes() -> list[rc.Regime]:
        value = next(values)
        return [rc.Regime("large t", "t", predicted=-0.5, measured=value, lo=value, hi=value)]

    claim = rc.RateClaim(id="mine.rate", source="", text="", regimes=regimes)
    verdict = rc.judge(claim)
    assert verdict.verdict == "error"
    assert verdict.reason.startswith("regimes returned the exponent -0.5 and then -0.51; it must ")
    assert rc.judge(claim).verdict == "consistent"
    with pytest.raises(StopIteration):
        next(values)


def test_a_fault_of_both_kinds_is_a_fault() -> None:
    assert issubclass(Unsettled, Fault)
