"""What is true is never called violated, and bounds that are attained are found to be."""

from __future__ import annotations

import pytest

import ratecheck as rc
from tests._slow import slow_but
from tests.ratecheck.audit._known import CLAIMS, declared


@pytest.mark.parametrize("name", slow_but([*CLAIMS][::3], CLAIMS))
def test_a_true_claim_holds_and_its_bound_is_attained(name: str) -> None:
    verdict = rc.judge(declared(name))
    assert verdict.verdict == "holds"
    # all that may be said is that rounding leaves instances which nobody looked at again
    assert bool(verdict.reason) == ("unchecked" in verdict.details)
    assert verdict.instances >= 1_000
    if CLAIMS[name][2] and verdict.ratio is not None:
        assert verdict.ratio == pytest.approx(1, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CLAIMS)
def test_a_true_claim_holds_whatever_the_seed(name: str, seed: int) -> None:
    assert rc.judge(declared(name), "normal", seed).verdict == "holds"


def test_there_are_many() -> None:
    assert len(CLAIMS) >= 50
    assert sum(attained for _, _, attained, _ in CLAIMS.values()) >= 40
