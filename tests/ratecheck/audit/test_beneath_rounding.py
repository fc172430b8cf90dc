"""Violations below what float64 rounds elsewhere are found, or what was not seen is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._search.reservoir import Reservoir
from ratecheck._search.search import ScoredInstance, Search
from ratecheck._verdicts import verdict


def at_most_one(measure: Any, space: rc.Space) -> rc.Claim:
    return rc.Claim(
        id="mine.claim",
        source="",
        text="",
        kind="upper",
        space=space,
        measure=lambda s: (measure(s), 1),
    )


def slope(x: Any) -> Any:
    """2 (sqrt(1 + x^2) - 1) / x^2: at most one, but for small x float64 finds up to two."""
    return 2 * (np.sqrt(1 + x * x) - 1) / (x * x)


SMALL = rc.Space(fields={"x": rc.positive(low=1e-8, high=1.0), "y": rc.interval()})
TABLES = rc.Space(
    fields={"x": rc.positive("n", "m", low=1e-8, high=1.0)}, sizes={"n": (1, 4), "m": (1, 4)}
)


def false_in_a_band(s: Any) -> Any:
    return slope(s.x) * (1.2 if 0.1 < s.y < 0.4 and s.x > 1e-3 else 1)


def false_for_large_tables(s: Any) -> Any:
    return slope(s.x).max() * (1.2 if s.x.min() > 0.3 else 1)


@pytest.mark.parametrize(
    ("measure", "space"), [(false_in_a_band, SMALL), (false_for_large_tables, TABLES)]
)
def test_a_violation_among_larger_rounding_is_found(measure: Any, space: rc.Space) -> None:
    verdict = rc.judge(at_most_one(measure, space))
    assert verdict.verdict == "violated"
    assert verdict.ratio is not None
    assert 1.01 < verdict.ratio <= 1.2


def test_a_violation_in_a_corner_among_larger_rounding_is_found() -> None:
    def measure(s: Any) -> Any:
        around = ((s.x + 10**9) - 10**9).sum() / s.x.sum()  # one, but for 1e-7
        return around + (s.x.min() >= 2) / (around * 10**8)

    space = rc.Space(fields={"x": rc.interval("n", low=1.0, high=2.0)}, sizes={"n": (1, 3)})
    verdict = rc.judge(at_most_one(measure, space))
    assert verdict.verdict == "violated"
    assert verdict.counterexample == {"x": [2.0]}


def test_where_rounding_hides_instances_a_verdict_says_so() -> None:
    verdict = rc.judge(at_most_one(lambda s: slope(s.x).max(), TABLES))
    assert verdict.verdict == "holds"
    unchecked = verdict.details["unchecked"]
    assert unchecked > verdict.details["rejected"] > 0
    assert f"and was not asked for {unchecked} of them" in verdict.reason


def test_without_rounding_nothing_is_said() -> None:
    verdict = rc.judge(at_most_one(lambda s: s.y, SMALL))
    assert (verdict.verdict, verdict.reason, verdict.details) == ("holds", "", {})


def test_the_tightest_instance_is_none_that_rounding_makes_tight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space = rc.Space(fields={"x": rc.interval(), "y": rc.interval()})
    claim = at_most_one(lambda s: s.y / 2, space)

    def scored(tightness: float, y: float) -> ScoredInstance:
        return ScoredInstance(tightness, {"x": np.array([0.5]), "y": np.array([y])}, {}, None)

    def artefacts(search: Search) -> list[ScoredInstance]:
        """Instances that float64 finds tight, and high precision far from it."""
        return [scored(0.9, y) for y in (0.1, 0.2)]

    monkeypatch.setattr(Search, "best", property(artefacts))
    assert rc.judge(claim).ratio == 0.5  # of another instance
    for others in ([], [scored(0.025, 0.05)]):
        monkeypatch.setattr(verdict, "without_rounding", lambda search, effort, o=others: iter(o))
        assert rc.judge(claim).ratio == 0.1  # the tightest of all that were tried


def test_whoever_asks_for_a_place_has_the_same_chance() -> None:
    room, count, trials = 4, 12, 3000
    wins = np.zeros(count)
    rng = np.random.default_rng(0)
    for _ in range(trials):
        few = Reservoir[int](room, rng)
        for number in range(count):
            place = few.place()
            if place is not None:
                few.put(place, number)
        assert (few.asked, len(set(few.kept))) == (count, room)
        wins[few.kept] += 1
    share = room / count
    spread = np.sqrt(share * (1 - share) / trials)
    assert np.abs(wins / trials - share).max() < 4 * spread  # 12 times 6e-5
