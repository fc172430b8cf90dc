"""Of several counterexamples the one that persuades is shown, and it is said how generic it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._search.neighbours import share

ERROR = {"delta": rc.interval(), "x": rc.reals(magnitude=(1, 1))}


def claim_of(measure: Any, fields: Any, **options: Any) -> rc.Claim:
    space = rc.Space(fields=fields, **options)
    return rc.Claim(id="mine.claim", source="", text="", kind="upper", space=space, measure=measure)


def confidence(delta: Any, x: Any) -> Any:
    """False above .2; the number that is simplest to read is the 1 at the edge."""
    return abs(x) * 0 + delta, 0.2


def test_a_counterexample_within_the_ranges_that_persuade_is_shown() -> None:
    anything = rc.judge(claim_of(confidence, ERROR))
    assert anything.counterexample is not None
    assert anything.counterexample["delta"] == 1
    credible = rc.judge(claim_of(confidence, ERROR, credible={"delta": (0.01, 0.5)}))
    assert credible.counterexample is not None
    assert credible.counterexample["delta"] == 0.5
    assert credible.witness == {
        "credible": True,
        "clear": True,
        "near": 1.0,
        "far": 1.0,
        "assumptions": [],
    }
    assert credible.reason == ""


def test_the_assumptions_that_it_was_checked_to_meet_are_named() -> None:
    assumes = {"delta <= 1": lambda instance: instance.delta <= 1}
    verdict = rc.judge(claim_of(confidence, ERROR, assumes=assumes))
    assert verdict.witness["assumptions"] == ["delta <= 1"]


def test_one_is_climbed_to_where_none_is_drawn() -> None:
    def narrow(delta: Any, x: Any) -> Any:  # one in 10,000 of those that persuade
        return 1 - 1e4 * abs(x - 0.3) ** 2 - 2 * abs(delta - 0.4), np.where(delta > 0.5, 0.05, 0.9)

    verdict = rc.judge(claim_of(narrow, ERROR, credible={"delta": (0.01, 0.5)}))
    assert verdict.witness["credible"]
    assert verdict.witness["clear"]


def test_the_verdict_says_where_none_persuades() -> None:
    def edge(delta: Any, x: Any) -> Any:
        return delta + 0 * x, 0.9

    verdict = rc.judge(claim_of(edge, ERROR, credible={"delta": (0.01, 0.5)}))
    assert not verdict.witness["credible"]
    assert verdict.reason == (
        "every counterexample found has numbers at the edge of what the statement is about"
    )


def test_a_violation_that_no_neighbour_shares_is_called_degenerate() -> None:
    def tie(delta: Any, x: Any) -> Any:
        return np.where(x == 2 * delta - 1, 1.0, 0.0), 0.5

    verdict = rc.judge(claim_of(tie, ERROR))
    assert (verdict.verdict, verdict.witness["near"]) == ("violated", 0)
    assert verdict.label == "violated, degenerate"
    assert "degenerate" in verdict.reason


def test_simple_numbers_do_not_make_a_generic_violation_degenerate() -> None:
    def tie_or_large(delta: Any, x: Any) -> Any:
        return np.where((x == 0) | (delta > 0.7), 1.0, 0.0), 0.5

    verdict = rc.judge(claim_of(tie_or_large, ERROR))
    assert verdict.counterexample == {"delta": 1.0, "x": 0.0}
    assert verdict.witness["near"] == 1
    assert verdict.label == "violated"


@pytest.mark.parametrize(("by", "expected"), [(0.01, 1.0), (0.1, 0.75), (1.0, 0.525)])
def test_the_share_is_that_of_all_numbers_moved_relative_to_their_size(
    by: float, expected: float
) -> None:
    def measure(delta: Any, x: Any) -> Any:
        return x + 0 * delta, 19.0  # x = 20 violates it, and 20 (1 + by u) for u > -1 / (20 by)

    claim = claim_of(measure, {"delta": rc.interval(), "x": rc.reals(magnitude=(1, 100))})
    fraction = share(claim, {"delta": np.array([0.5]), "x": np.array([20.0])}, by, count=4_000)
    assert fraction == pytest.approx(expected, abs=0.03)


def test_neighbours_outside_the_space_do_not_count() -> None:
    def measure(delta: Any, x: Any) -> Any:
        return x + 0 * delta, 0.0

    def above(instance: Any) -> Any:
        return instance.x > 0.5

    given = claim_of(measure, ERROR, given={"x > 1/2": above})
    start = {"delta": np.array([0.5]), "x": np.array([0.5 + 1e-9])}
    assert share(given, start, 0.01) == 1
    nothing = claim_of(measure, ERROR, given={"x > 1/2": lambda instance: instance.x == 0.5})
    assert share(nothing, {"delta": np.array([0.5]), "x": np.array([0.5])}, 0.01) == 0
