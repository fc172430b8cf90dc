"""Every verdict there is, and what is said of claims that cannot be judged."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import ratecheck as rc
from linsys import InputError
from linsys.linalg import is_precise, norm, precise, precision
from ratecheck._claims import precise_numbers
from ratecheck._claims.claim import VERDICTS
from ratecheck._search import search as search_module
from ratecheck._search.search import Search

NUMBERS = rc.Space(fields={"x": rc.interval(), "y": rc.interval()})
CHANCES = rc.Space(fields={"p": rc.simplex("k")}, sizes={"k": (1, 4)})
VECTORS = rc.Space(fields={"x": rc.reals("d"), "y": rc.reals("d")}, sizes={"d": (1, 3)})


def upper(measure: Callable[[Any], Any], space: rc.Space = NUMBERS, **options: Any) -> rc.Claim:
    return rc.Claim(
        id="mine.claim", source="", text="", kind="upper", space=space, measure=measure, **options
    )


# what holds


def test_holds_says_how_tight_and_where() -> None:
    verdict = rc.judge(upper(lambda s: (s.x * s.y, (s.x**2 + s.y**2) / 2)))
    assert verdict.verdict == "holds"
    assert verdict.ratio == pytest.approx(1, abs=1e-9)
    assert verdict.instances >= 3_000
    assert verdict.counterexample is None
    assert verdict.best is not None
    assert verdict.best["x"] == pytest.approx(verdict.best["y"], abs=1e-4)


def test_a_ratio_that_only_float64_knows_says_so() -> None:
    verdict = rc.judge(upper(lambda s: (np.hypot(s.x, s.y), 1.5 * (s.x + s.y))))
    assert verdict.verdict == "holds"
    assert verdict.ratio == pytest.approx(2 / 3)
    assert verdict.reason.startswith("ratio in float64 only: measure ")


def test_a_constant_is_the_decimal_that_it_is_written_as(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance's 0.1 is a decimal, and the float64 of 0.1 is larger."""
    space = rc.Space(fields={"x": rc.positive(low=0.1, high=10)})
    least = upper(lambda s: (np.where(s.x < 0.1, 2, 1), 1), space)
    assert rc.judge(least).verdict == "holds"
    with precision(40):
        tenth = precise([0.1])
        nothing = [(tenth + 0.2) * 0.3 / 0.09 - 1, 0.3 / tenth - 3, 0.3 - tenth * 3, tenth % 0.05]
        assert all(abs(x) < 1e-35 for x in np.ravel(nothing))
        assert abs(tenth * 2**0.5 - precise(["2"]) ** 0.5 / 10) > 1e-20  # 2**0.5 was rounded
    monkeypatch.setattr(precise_numbers, "_meant", lambda value, bits: value)  # mutation
    assert rc.judge(least).verdict == "violated"


def test_what_float64_cannot_tell_apart_is_no_violation() -> None:
    third = 1 / 3  # a rounded constant
    verdict = rc.judge(upper(lambda s: (s.x / 3, third * s.x)))
    assert verdict.verdict == "holds"
    assert verdict.ratio == pytest.approx(1, abs=1e-12)


# what is violated


def test_violated_says_where_and_by_how_much() -> None:
    verdict = rc.judge(upper(lambda s: (2 * s.x, s.x + 0.5), corrected="mine.better"))
    assert (verdict.verdict, verdict.corrected) == ("violated", "mine.better")
    assert verdict.counterexample is not None
    x = verdict.counterexample["x"]
    assert verdict.ratio == pytest.approx(2 * x / (x + 0.5))
    assert float(verdict.measured) > float(verdict.bound)


def test_a_lower_bound_is_violated_from_below() -> None:
    claim = rc.Claim(
        id="mine.lower", source="", text="", kind="lower", space=NUMBERS,
        measure=lambda s: (s.x * s.y, s.x + s.y - 0.9),
    )  # fmt: skip
    verdict = rc.judge(claim)
    assert verdict.verdict == "violated"
    assert float(verdict.measured) < float(verdict.bound)


def test_an_infinite_side_violates_and_stays_out_of_json() -> None:
    verdict = rc.judge(upper(lambda s: (np.where(s.x == 0, math.inf, 0), 1 + s.y)))
    assert (verdict.verdict, verdict.ratio) == ("violated", None)
    json.dumps(verdict.to_dict(), allow_nan=False)


# what says nothing


def test_vacuous_names_what_nothing_meets() -> None:
    space = rc.Space(
        fields={"x": rc.interval()},
        given={"x >= 0": lambda s: s.x >= 0, "x > 2": lambda s: s.x > 2},
    )
    verdict = rc.judge(upper(lambda s: (s.x, s.x), space))
    assert (verdict.verdict, verdict.instances) == ("vacuous", 0)
    tried = verdict.details["sampled"]
    assert tried >= 3_000
    assert verdict.reason == f"none of {tried} instances meets 'x > 2'"


@pytest.mark.slow
def test_vacuous_names_conditions_that_exclude_each_other() -> None:
    space = rc.Space(
        fields={"x": rc.interval()},
        given={"low": lambda s: s.x < 0.5, "high": lambda s: s.x > 0.6},
    )
    verdict = rc.judge(upper(lambda s: (s.x, s.x), space))
    assert verdict.verdict == "vacuous"
    assert verdict.reason.endswith("meets all of 'low', 'high'")


def test_only_instances_that_pass_are_measured() -> None:
    space = rc.Space(fields={"x": rc.interval()}, given={"x > 0.9": lambda s: s.x > 0.9})
    verdict = rc.judge(upper(lambda s: (1 - s.x, 0.1), space))
    assert verdict.verdict == "holds"
    assert verdict.ratio == pytest.approx(1, abs=1e-3)


def test_an_instance_that_a_filter_rules_out_is_not_the_tightest_one() -> None:
    """Where all that pass are far from the bound of zero, none of the others stands in."""
    space = rc.Space(fields={"x": rc.reals("d")}, given={"positive": lambda s: s.x.sum() > 0})
    verdict = rc.judge(upper(lambda s: (0, s.x.max()), space))
    assert verdict.verdict == "holds"
    assert verdict.best is not None
    assert sum(verdict.best["x"]) > 0


@pytest.mark.slow
def test_a_filter_that_hardly_anything_passes_is_not_vacuous() -> None:
    space = rc.Space(
        fields={"x": rc.interval(2)}, given={"near": lambda s: abs(s.x - 0.3).max() < 0.005}
    )
    verdict = rc.judge(upper(lambda s: (s.x.sum(), 0.6), space))
    assert verdict.verdict == "violated"


@pytest.mark.parametrize(("bound", "said"), [(np.inf, "unreachable"), (2.0, "holds")])
def test_a_bound_that_is_infinite_everywhere_says_nothing(bound: float, said: str) -> None:
    assert rc.judge(upper(lambda s: (s.x, bound))).verdict == said


def test_a_bound_that_is_infinite_somewhere_says_something() -> None:
    verdict = rc.judge(upper(lambda s: (s.x, np.where(s.x < 0.5, 1.0, np.inf))))
    assert verdict.verdict == "holds"


@pytest.mark.parametrize(
    "outside",
    [
        np.sqrt,
        np.log,
        lambda x: np.log1p(x - 1),
        lambda x: np.arccos(2 - x),
        lambda x: x**0.5,
        lambda x: (x - 2) ** (x / 4 + 0.3),
    ],
    ids=["sqrt", "log", "log1p", "arccos", "power", "power of both"],
)
def test_what_has_no_value_is_nan_with_more_digits_as_in_float64(outside: Any) -> None:
    space = rc.Space(fields={"x": rc.interval(low=-1)})
    verdict = rc.judge(upper(lambda s: (outside(s.x), 1), space))
    assert verdict.verdict == "error"
    assert "measure returned NaN as measured (`given=`" in verdict.reason


def test_a_formula_compares_what_has_no_value_as_numpy_does() -> None:
    """False at x < 0 alone, where sqrt(x) <= 1 is no and its contrary is yes."""
    space = rc.Space(fields={"x": rc.interval(low=-1)})
    verdict = rc.judge(upper(lambda s: (np.where(~(np.sqrt(s.x) <= 1), 2.0, s.x), 1), space))
    assert verdict.verdict == "violated"
    assert verdict.counterexample["x"] < 0


def test_complex_numbers_that_float64_does_not_have_are_named() -> None:
    verdict = rc.judge(upper(lambda s: (s.x if isinstance(s.x, float) else s.x * 1j, 0.5)))
    assert verdict.verdict == "error"
    assert "measure returned complex numbers in high precision" in verdict.reason


@pytest.mark.parametrize(("factor", "said"), [(11, "unreachable"), (9, "holds")])
def test_a_bound_far_above_a_trivial_one_is_unreachable(factor: int, said: str) -> None:
    verdict = rc.judge(upper(lambda s: (s.x, factor + s.x), trivial=lambda s: 1 + 0 * s.x))
    assert verdict.verdict == said
    assert verdict.details["looseness"] == pytest.approx(factor, rel=1e-2)


# what cannot be judged


def endless(s: Any) -> tuple[Any, Any]:
    while s.x > 0.7:
        try:
            time.sleep(0.1)
        except Exception:  # a user's own handler must not swallow the limit
            continue
    return s.x, 1.0


def test_a_measure_that_never_returns_is_interrupted() -> None:
    verdict = rc.judge(upper(endless), limit=0.5)
    assert verdict.verdict == "error"
    assert verdict.reason == (
        "no answer while it waited for 0.5 s on this instance; no violation in "
        f"{verdict.instances:,} instance{'s' * (verdict.instances != 1)}; a larger limit allows "
        "more"
    )
    assert verdict.counterexample is not None
    assert verdict.counterexample["x"] > 0.7


@pytest.mark.slow
def test_what_ends_in_float64_alone_is_searched_all_the_same() -> None:
    def measure(x: Any) -> tuple[Any, Any]:
        while not isinstance(x, float):
            pass
        return x, 2

    verdict = rc.judge(upper(measure), limit=6)
    assert verdict.instances > 3_000
    assert "no violation in" in verdict.reason


def test_a_first_call_beyond_the_limit_is_no_error() -> None:
    verdict = rc.judge(upper(lambda s: (time.sleep(9), 1.0)), limit=0.3)
    assert (verdict.verdict, verdict.instances) == ("not decided", 0)
    assert verdict.counterexample is None
    assert verdict.reason == (
        "no answer while it waited for 0.3 s: the first call of the measure takes longer; "
        "a larger limit allows more"
    )


def compute(seconds: float) -> None:
    """Use so many CPU seconds."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(("corners", "ratio"), [((), None), (({"x": 0.25},), 0.125)])
def test_a_slow_measure_is_told_what_was_done(corners: Any, ratio: float | None) -> None:
    calls: list[float] = []

    def slow(s: Any) -> tuple[Any, Any]:
        calls.append(s.x)
        compute(0.01)
        return s.x / 2, 1

    space = rc.Space(fields={"x": rc.interval()}, corners=corners)
    verdict = rc.judge(upper(slow, space), limit=3.0)
    assert verdict.verdict == "not decided"
    assert verdict.reason == (
        f"no answer within 3 s of CPU time: no violation in {verdict.instances:,} instances; "
        "a larger limit allows more"
    )
    assert len(calls) / 3 < verdict.instances <= len(calls)  # some twice, some in an open part
    assert verdict.ratio == pytest.approx(ratio)  # of what is complete
    assert (verdict.evidence, verdict.counterexample) == ("", None)


@pytest.mark.slow
def test_candidates_that_were_not_looked_at_again_are_told() -> None:
    def slow(s: Any) -> tuple[Any, Any]:
        compute(0.01)
        return s.x, 0.5

    verdict = rc.judge(upper(slow, rc.Space(fields={"x": rc.interval()})), limit=3.0)
    assert verdict.verdict == "not decided"
    assert re.search(r"; \d+ of them exceed the bound in float64, and high prec", verdict.reason)
    assert verdict.ratio is None


def test_parts_of_a_batch_are_measured_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def judged() -> dict[str, Any]:
        verdict = rc.judge(upper(lambda s: (s.x * (1 - s.x), 0.25)))
        return verdict.to_dict() | {"seconds": 0.0}

    whole = judged()
    monkeypatch.setattr(search_module, "_LONG", 1e-3)
    assert judged() == whole


def test_a_limit_that_strikes_after_a_violation_does_not_deny_it() -> None:
    with mock.patch.object(Search, "_climb_from", side_effect=lambda *_: time.sleep(100)):
        late = rc.judge(upper(lambda s: (s.x, 0.5)), limit=0.5)
    assert late.verdict == "violated"
    # on a machine that compiles slowly the search itself takes the half second
    took = r"(while it waited for 0\.5 s|within 0\.5 s of CPU time)"
    assert re.match(f"no answer {took} before the counterexample", late.reason)
    assert late.instances > 0


def sometimes(what: Callable[[], Any]) -> Callable[[Any], Any]:
    """A measure that goes wrong on a part of the instances."""
    return lambda s: what() if s.x > 0.9 else (s.x, 1.0)


def fail() -> Any:
    raise ZeroDivisionError("division\nby zero")


ONE_SHAPE = "measure must return sides of one shape, or a number beside an array"
WRONG = {
    "raises": (fail, "measure raised ZeroDivisionError: division by zero"),
    "returns NaN": (lambda: (math.nan, 1.0), "measure returned NaN"),
    "returns one side": (lambda: 1.0, "measure must return (measured, bound); found 1.0"),
    "returns three": (lambda: (1, 2, 3), "measure must return (measured, bound); found (1, 2, 3)"),
    "returns text": (lambda: ("a", "b"), "measure must return real numbers; found ('a', 'b')"),
    "returns complex": (lambda: (1j, 1), "measure must return real numbers; found (1j, 1)"),
    "returns True": (lambda: (True, 1), "measure must return numbers; found measured of True"),
    "returns a comparison": (
        lambda: (1, np.ones(2) < 2),
        "measure must return numbers; found bound of True and False",
    ),
    "returns another shape": (
        lambda: (np.ones(3), np.ones((1, 4))),
        f"{ONE_SHAPE}; found measured of the shape (3,) and bound of (1, 4)",
    ),
    "returns columns": (
        lambda: (np.ones((3, 1)), np.ones((1, 4))),
        f"{ONE_SHAPE}; found measured of the shape (3, 1) and bound of (1, 4)",
    ),
    "returns fewer axes": (
        lambda: (np.ones(3), np.ones((3, 3))),
        f"{ONE_SHAPE}; found measured of the shape (3,) and bound of (3, 3)",
    ),
    "returns nothing": (lambda: ([], []), "measure must return one entry or more"),
    "changes shape": (lambda: ([1, 1], [2, 2]), "measure returned different shapes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_broken_measure_is_an_error_with_the_instance(name: str) -> None:
    what, reason = WRONG[name]
    verdict = rc.judge(upper(sometimes(what)))
    assert verdict.verdict == "error"
    assert verdict.reason.startswith(reason)
    assert "\n" not in verdict.reason
    assert verdict.counterexample is not None
    if name != "changes shape":
        assert verdict.counterexample["x"] > 0.9
    json.dumps(verdict.to_dict(), allow_nan=False)


def test_of_a_batch_the_instance_that_fails_is_reported() -> None:
    def measure(s: Any) -> tuple[Any, Any]:
        if ((s.x > 0.6) & (s.y < 0.3)).any():
            raise ArithmeticError("no such case")
        return s.x, 1 + s.y

    space = rc.Space(fields={"x": rc.interval(), "y": rc.interval()}, batched=True)
    verdict = rc.judge(upper(measure, space))
    told = r"measure raised ArithmeticError: no such case \(test_verdicts\.py:\d+\)"
    assert re.fullmatch(told, verdict.reason)  # with the line of the formula
    assert verdict.counterexample is not None
    assert verdict.counterexample["x"] > 0.6
    assert verdict.counterexample["y"] < 0.3


def test_what_our_packages_refuse_is_shown_at_the_line_that_asked_for_it() -> None:
    one = rc.judge(upper(lambda s: (rc.LinearRecursion(np.eye(2), np.ones(2)), 1)))
    told = r"measure raised InputError: `A` must have shape .* \(test_verdicts\.py:\d+\)"
    assert re.fullmatch(told, one.reason)
    single = rc.judge(upper(lambda s: (s.x.reshape(1), 2)))
    assert single.verdict == "holds"
    assert "a single number becomes an array by np.array([x])" in single.reason


FLOATS: dict[str, tuple[Any, str]] = {
    "np.linalg": (
        lambda s: (np.linalg.norm(np.outer(s.x, s.y), 2), 0.9 * norm(s.x) * norm(s.y)),
        "rc.linalg.operator_norm or rc.linalg.norm in place of np.linalg.norm",
    ),
    "math": (
        lambda s: (math.sqrt(s.x @ s.x), 0.9 * math.sqrt(s.x @ s.x)),
        "np.sqrt in place of math.sqrt",
    ),
    "np.linalg, without a counterpart": (
        lambda s: (np.linalg.det(np.outer(s.x, s.y)), 200),
        "NumPy's arithmetic and rc.linalg in place of np.linalg.det",
    ),
    "eigenvalues": (
        lambda s: (np.linalg.eigvals(np.outer(s.x, s.y)).real.max(), 200),
        "NumPy's arithmetic and rc.linalg in place of np.linalg.eigvals",
    ),
    "math, without a counterpart": (
        lambda s: (math.floor(s.x @ s.x), 200),
        "NumPy's arithmetic and rc.linalg in place of math.floor",
    ),
    "round": (
        lambda s: (round(s.x @ s.x, 3), 200),
        "NumPy's arithmetic and rc.linalg in place of round",
    ),
    "np.round": (
        lambda s: (np.round(s.x, 3), 200),
        "NumPy's arithmetic and rc.linalg in place of np.round",
    ),
    "float": (
        lambda s: (s.x * float(norm(s.y)), 0.9 * norm(s.x) * norm(s.y)),
        "the numbers as they are in place of float()",
    ),
    "astype": (
        lambda s: (s.x.astype(float), 200),
        "the numbers as they are in place of s.x.astype()",
    ),
    "added to": (
        lambda s: (added_to_entries(np.zeros(len(s.x)), s.x), 200),
        "np.array([..]) of its entries in place of assignments to total, in float64",
    ),
    "zeros": (
        lambda s: (filled(np.zeros(2), s.x), 2),
        "np.array([..]) of its entries in place of assignments to empty, in float64",
    ),
    "in place": (
        lambda s: (added(np.zeros(len(s.x)), s.x), 2),
        "y = y + x in place of y += x, which keeps the kind of numbers of y",
    ),
}


def filled(empty: Any, x: Any) -> Any:
    empty[0] = x.sum()
    return empty


def added_to_entries(total: Any, x: Any) -> Any:
    for k in range(len(x)):
        total[k] += x[k]
    return total


def added(total: Any, x: Any) -> Any:
    total += x
    return total


@pytest.mark.parametrize("name", FLOATS)
def test_a_measure_in_float64_alone_is_refused_before_the_search(name: str) -> None:
    verdict = rc.judge(upper(FLOATS[name][0], VECTORS))
    assert (verdict.verdict, verdict.instances) == ("error", 2)
    told = f"high precision, in which violations are confirmed: use {FLOATS[name][1]}"
    assert told in verdict.reason
    assert re.search(r"\(test_verdicts\.py:\d+\)$", verdict.reason)
    with pytest.raises(rc.InputError, match="leaves high precision"):
        rc.tightest(upper(FLOATS[name][0], VECTORS))


def test_a_measure_in_float64_alone_never_gives_a_violation() -> None:
    scarce = upper(lambda s: (np.hypot(s.x, s.y), 0.9 * (s.x + s.y)))
    verdict = rc.judge(scarce)
    assert verdict.verdict == "error"
    assert verdict.instances > 100
    assert verdict.reason.startswith("float64 exceeds the bound, but measure ")
    assert verdict.counterexample is not None
    rare = upper(lambda s: (math.sqrt(s.x) if s.x == 1 else s.x, 0.9 if s.x == 1 else 2.0))
    verdict = rc.judge(rare)  # only where it is tight
    assert verdict.reason.startswith("float64 exceeds the bound, but measure leaves high precision")


def test_chance_is_noticed_at_the_first_instances() -> None:
    measured = []

    def measure(s: Any) -> tuple[Any, Any]:
        measured.append(s.x)
        return np.random.default_rng().normal(), 10 + s.x

    verdict = rc.judge(upper(measure))
    assert verdict.verdict == "error"
    assert len(measured) == 4
    assert "a claim of PAPER.statistical" in verdict.reason


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (lambda z: (z, 1), "the measured side must be a number or an array; found the whole insta"),
        (
            lambda z: (1, z),
            "the bound must be a number or an array; found the whole instance, for which the",
        ),
        (lambda x: ({}, 1), "measure must return real numbers; found ({}, 1)"),
        (lambda x: ([x, None], 1), "measure must return real numbers; found ([np.float64("),
    ],
)
def test_what_is_no_number_is_named(measure: Any, said: str) -> None:
    verdict = rc.judge(upper(measure))
    assert verdict.verdict == "error"
    assert verdict.reason.startswith(said)


def test_an_instance_that_measure_changes_is_an_error() -> None:
    def measure(s: Any) -> tuple[Any, Any]:
        s.p[0] = 0
        return s.p.sum(), 2

    verdict = rc.judge(upper(measure, CHANCES))
    assert verdict.verdict == "error"
    assert "read-only" in verdict.reason


def test_a_space_that_breaks_its_own_assumption_is_an_error() -> None:
    space = rc.Space(fields={"p": rc.simplex("k")}, sizes={"k": (2, 3)}, assumes={
        "p is sorted": lambda s: all(a <= b for a, b in zip(s.p, s.p[1:], strict=False)),
    })  # fmt: skip
    verdict = rc.judge(upper(lambda s: (s.p.max(), 1), space))
    assert verdict.verdict == "error"
    assert verdict.reason == "the space's own instance breaks its assumption 'p is sorted'"
    assert verdict.counterexample is not None
    assert verdict.counterexample["p"] != sorted(verdict.counterexample["p"])


@pytest.mark.parametrize(
    ("part", "options"),
    [
        ("repair", {"repair": lambda fields: fields["nothing"]}),
        ("view", {"view": lambda x: x.nothing}),
        ("the predicate 'odd'", {"given": {"odd": lambda s: s.nothing}}),
        ("the predicate 'even'", {"assumes": {"even": lambda s: s.nothing}}),
    ],
)
def test_a_broken_space_is_an_error_that_names_the_part(part: str, options: dict[str, Any]) -> None:
    verdict = rc.judge(upper(lambda s: (1, 1), rc.Space(fields={"x": rc.interval()}, **options)))
    assert verdict.verdict == "error"
    assert verdict.reason.startswith(f"{part} raised ")


def divides_by_zero(value: Any) -> bool:
    """NumPy warns of it in float64; high precision would raise an error."""
    return is_precise(np.asarray(value)) or not np.float64(1.0) / (np.asarray(value) * 0) < 0


@pytest.mark.parametrize(
    "options",
    [
        {"given": {"odd": lambda s: divides_by_zero(s.x)}},
        {"assumes": {"even": lambda s: divides_by_zero(s.x)}},
        {"repair": lambda fields: {"x": fields["x"] * divides_by_zero(fields["x"])}},
        {"view": lambda x: SimpleNamespace(x=x * divides_by_zero(x))},
    ],
)
def test_what_a_space_divides_by_zero_is_not_warned_about(options: dict[str, Any]) -> None:
    space = rc.Space(fields={"x": rc.interval()}, corners=[{"x": 0.5}], **options)
    assert rc.judge(upper(lambda s: (s.x, 1), space)).verdict == "holds"
    with pytest.raises(RuntimeWarning, match="divide by zero"):  # as pytest makes errors of them
        divides_by_zero(0.5)


def test_rounding_alone_breaks_no_assumption() -> None:
    space = rc.Space(
        fields={"p": rc.simplex("k")},
        sizes={"k": (3, 4)},
        assumes={"sum is one": lambda s: abs(s.p.sum() - 1) <= 10.0**-25},
    )
    assert rc.judge(upper(lambda s: (s.p.max(), 1), space)).verdict == "holds"


# rates and what nobody checks


def rate(regimes: Callable[[], Sequence[rc.Regime]]) -> rc.Verdict:
    return rc.judge(rc.RateClaim(id="mine.rate", source="", text="", regimes=regimes))


def regime(name: str, lo: float, hi: float) -> rc.Regime:
    return rc.Regime(name, "t", predicted=-0.5, measured=(lo + hi) / 2, lo=lo, hi=hi)


AT, BELOW, ABOVE = regime("at", -0.52, -0.5), regime("below", -1, -0.9), regime("above", -0.2, 0)


@pytest.mark.parametrize(
    ("regimes", "said", "decisive"),
    [
        ([AT], "consistent", "at"),
        ([BELOW], "faster than stated", "below"),
        ([ABOVE], "violated", "above"),
        ([BELOW, AT], "consistent", "at"),
        ([BELOW, AT, ABOVE], "violated", "above"),
    ],
)
def test_rates(regimes: list[rc.Regime], said: str, decisive: str) -> None:
    verdict = rate(lambda: regimes)
    assert (verdict.verdict, verdict.instances) == (said, len(regimes))
    assert verdict.reason.startswith(f"{decisive}: exponent of t in [")
    assert [r["name"] for r in verdict.details["regimes"]] == [r.name for r in regimes]


@pytest.mark.parametrize(
    ("regimes", "reason"),
    [
        ([], "`regimes` must return at least one regime; found none"),
        (
            [regime("odd", math.nan, 1)],
            "`regimes` must return finite numbers with lo <= hi; found Regime(name='odd'",
        ),
        (
            [regime("odd", 1, 0)],
            "`regimes` must return finite numbers with lo <= hi; found Regime(name='odd'",
        ),
    ],
)
def test_rates_that_measure_nothing_are_errors(regimes: list[rc.Regime], reason: str) -> None:
    verdict = rate(lambda: regimes)
    assert verdict.verdict == "error"
    assert verdict.reason.startswith(reason)


def test_a_rate_that_raises_is_an_error() -> None:
    verdict = rate(fail)
    assert verdict.reason == "regimes raised ZeroDivisionError: division by zero"


def test_not_checked_says_why() -> None:
    verdict = rc.judge(rc.NotChecked(id="mine.open", source="", text="", note="needs a person"))
    assert (verdict.verdict, verdict.reason) == ("not checked", "needs a person")


def test_the_effort_is_one_of_three() -> None:
    with pytest.raises(
        InputError, match="`effort` must be one of quick, normal, hunt; found 'all'"
    ):
        rc.judge(upper(lambda s: (1, 1)), "all")


# storing and replaying


def test_a_verdict_survives_json() -> None:
    verdict = rc.judge(upper(lambda s: (s.x, s.y)))
    text = json.dumps(verdict.to_dict(), allow_nan=False)
    assert rc.Verdict.from_dict(json.loads(text)) == verdict
    assert verdict.verdict in VERDICTS


def test_what_is_not_finite_becomes_null() -> None:
    verdict = rc.Verdict("mine.a", "holds", ratio=math.inf, details={"a": [np.float64("nan"), 1]})
    assert verdict.to_dict()["ratio"] is None
    assert verdict.to_dict()["details"] == {"a": [None, 1]}


def test_a_dictionary_of_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="a verdict has the keys"):
        rc.Verdict.from_dict({"id": "mine.a", "verdict": "holds", "colour": "red"})


def test_replay_judges_one_instance() -> None:
    claim = upper(lambda s: (s.x, s.y))
    assert rc.replay(claim, {"x": 0.3, "y": 0.1}).verdict == "violated"
    holds = rc.replay(claim, {"x": 0.1, "y": 0.3})
    assert (holds.verdict, holds.measured, holds.bound) == ("holds", "0.1", "0.3")


def test_replay_refuses_what_is_no_instance() -> None:
    claim = upper(lambda s: (s.x, s.y))
    assert rc.replay(claim, {"x": 2.0, "y": 0}).reason == "the instance breaks 'domain of x'"
    with pytest.raises(InputError, match="`instance` must have the fields"):
        rc.replay(claim, {"x": 1.0})
    with pytest.raises(InputError, match="`x` must have axes"):
        rc.replay(claim, {"x": [1.0], "y": 0})


def test_replay_comes_back_from_a_measure_that_does_not() -> None:
    def turns(s: Any) -> tuple[Any, Any]:
        while s.x > 0.5:
            pass
        return s.x, s.y

    late = rc.replay(upper(turns), {"x": 1, "y": 0}, limit=0.1)
    assert late.reason == "no answer within 0.1 s of CPU time"
    leaves = upper(lambda s: sys.exit(0))
    reason = rc.replay(leaves, {"x": 1, "y": 0}).reason
    assert reason.startswith("measure raised SystemExit: 0 (test_verdicts.py:")


def test_watch_sees_every_instance_before_it_is_measured() -> None:
    seen: list[float] = []
    measured: list[float] = []

    def measure(s: Any) -> tuple[Any, Any]:
        measured.append(float(str(s.x)))
        return s.x, 2.0

    def watch(fields: dict[str, Any], index: int | None) -> None:
        assert index is not None
        seen.append(float(fields["x"][index]))

    rc.judge(upper(measure), watch=watch)
    left = iter(measured)
    assert all(x in left for x in seen)  # in this order
    assert len(seen) >= 3_000
    assert len(measured) - len(seen) < 50  # those of the verdict, in high precision


def test_what_a_rounded_constant_leaves_is_doubted_and_not_proved() -> None:
    space = rc.Space({"x": rc.interval("n")}, sizes={"n": (49, 49)})

    @rc.Paper("mine", "m").upper("step", ref="1", on=space)
    def step(x: Any) -> Any:
        """True: 1 - n (1 / n) is zero."""
        eta = 1 / len(x)
        return (1 - len(x) * eta) * x.sum(), 0 * x.sum()

    @rc.Paper("mine", "m").upper("less", ref="1", on=space)
    def less(x: Any) -> Any:
        """False, by one per cent."""
        return x.sum(), 0.99 * x.sum()

    verdict = rc.judge(step)
    assert verdict.label == "violated, maybe rounding"
    assert "overlap" in rc.certify(step, verdict.counterexample).reason
    assert rc.judge(less).label == "violated, narrowly"
