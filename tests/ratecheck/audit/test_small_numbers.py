"""What breaks at small values of a wide range of whole numbers alone is found as well."""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._search.search import EFFORTS, Search
from ratecheck._search.small_numbers import with_small_numbers
from ratecheck._verdicts import verdict as judging
from tests._slow import slow_but

FIELDS = {
    "p": rc.interval(),
    "q": rc.interval(),
    "t": rc.whole_numbers(low=0, high=1000),
    "H": rc.whole_numbers(low=0, high=400),
}


def claim(name: str, peak: float, fields: dict[str, rc.Field] = FIELDS) -> rc.Claim:
    """A bound by 1 of what is ``peak`` at some small t and H, and at most 1/2 elsewhere."""

    @rc.claim(id=f"mine.{name}", source="", text="", kind="upper", fields=fields)
    def measure(i: Any) -> rc.Sides:
        small = (i.t > 2) & (i.t < 9) & (i.H > 0) & (i.H < 9)
        hit = small & (i.p > 0.5) & (i.q > 0.3) & (i.q < 0.5)
        return np.where(hit, peak + 0 * i.p, i.p * i.q / 2), 1

    return measure


@pytest.fixture
def one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "with_small_numbers", mock.Mock(return_value=None))


@pytest.mark.parametrize("seed", slow_but([0], range(3)))
def test_a_violation_at_small_numbers_is_found(seed: int) -> None:
    """Of the 3,000 instances that are drawn some eight break it, and these depend on the seed."""
    verdict = rc.judge(claim("peak", 1.1), seed=seed)
    assert verdict.verdict == "violated"
    assert verdict.counterexample is not None
    assert 2 < verdict.counterexample["t"] < 9
    assert rc.replay(claim("peak", 1.1), verdict.counterexample).verdict == "violated"


@pytest.mark.usefixtures("one_search")
def test_one_search_misses_it() -> None:
    """Of the 3,000 instances drawn evenly 0.02 break it on average."""
    assert rc.judge(claim("peak", 1.1)).verdict == "holds"


@pytest.mark.slow
def test_a_search_that_comes_nearer_is_the_one_that_counts() -> None:
    stated = claim("near", 0.9)
    verdict = rc.judge(stated)
    assert verdict.verdict == "holds"
    assert verdict.ratio == pytest.approx(0.9)
    assert verdict.best is not None
    assert 2 < verdict.best["t"] < 9
    first = Search(stated, 0)
    first.run(EFFORTS["quick"])
    assert verdict.instances > first.instances + 3_000
    assert rc.tightest(stated).factor == pytest.approx(0.9)


@pytest.mark.slow
def test_one_that_adds_nothing_changes_no_verdict() -> None:
    stated = claim("flat", 0.5)
    both = rc.judge(stated).to_dict()
    with mock.patch.object(judging, "with_small_numbers", return_value=None):
        alone = rc.judge(stated).to_dict()
    assert {**both, "seconds": 0} == {**alone, "seconds": 0}


@pytest.mark.slow
def test_a_limit_that_ends_the_second_search_leaves_the_claim_open() -> None:
    def slow(i: Any) -> rc.Sides:
        end = time.process_time() + 0.01
        while time.process_time() < end:
            pass
        return i.p, 2

    again = rc.claim(id="mine.slow", source="", text="", kind="upper", fields=FIELDS)(slow)
    with mock.patch.object(judging, "with_small_numbers", return_value=again):
        verdict = rc.judge(claim("slow", 0.5), limit=4)
    assert verdict.verdict == "not decided"
    assert verdict.instances > 3_000  # those of the first search count
    assert "where `whole_numbers` has log=True" in verdict.reason


@pytest.mark.parametrize(
    "fields",
    [
        {**FIELDS, "t": rc.whole_numbers(low=0, high=64), "H": rc.whole_numbers(low=1, high=65)},
        {"t": rc.whole_numbers(low=0, high=1000)},
        {"x": rc.interval(), "t": rc.whole_numbers(low=0, high=1000, log=True)},
    ],
    ids=["narrow", "few", "logarithmic"],
)
def test_where_it_would_be_the_same_there_is_no_second_search(fields: dict[str, rc.Field]) -> None:
    assert with_small_numbers(claim("few", 1.1, fields)) is None


def test_only_wide_ranges_are_changed() -> None:
    fields = {**FIELDS, "H": rc.whole_numbers(low=1, high=10)}
    again = with_small_numbers(claim("some", 1.1, fields))
    assert again is not None
    now = again.space.fields
    assert now["t"] == rc.whole_numbers(low=0, high=1000, log=True)
    assert all(now[name] is fields[name] for name in ("p", "q", "H"))
