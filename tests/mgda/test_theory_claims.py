"""FIRM's deterministic catalogue: known verdicts on every seed, and no constant without teeth."""

from __future__ import annotations

import pytest
from latex2mathml.converter import convert

import ratecheck as rc
from experiments.firm.claims import descent, lemma8, simplex, telescoping, weights
from tests._tighten import tighten_bound

CLAIMS = {
    entry.id: entry
    for module in (simplex, lemma8, weights, descent, telescoping)
    for entry in vars(module).values()
    if isinstance(entry, rc.Claim)
}
#: How close instances come to the bounds that are not attained, from searches with "hunt".
RATIO = {
    "firm.lemma1": 0.3535,
    "firm.lemma8": 0.3535,
    "firm.lemma1_impl_corrected": 0.29,
    "firm.eq38": 0.5,
    "firm.eq41_42": 0.3535,
    "firm.eq41_sharper": 0.7,
    "firm.S2": 0.75,
    "firm.eq26": 0.25,
}
#: rem2's bound is far above its term, as its note says: nothing to find by a tenth less.
LOOSE = {"firm.rem2"}
TRUE = [name for name, claim in CLAIMS.items() if claim.expect == "holds" and name not in LOOSE]


@pytest.mark.parametrize("name", CLAIMS)
def test_verdict_is_the_known_one(name: str) -> None:
    claim = CLAIMS[name]
    assert rc.judge(claim, seed=1).verdict == claim.expect
    convert(claim.latex)
    if claim.expect == "violated":
        assert claim.note
        corrected = CLAIMS[claim.corrected or ""]
        assert corrected.expect == "holds"
        assert corrected.derivation or corrected is simplex.eq9_trace


@pytest.mark.parametrize("name", TRUE)
def test_a_tenth_less_is_found_out(name: str) -> None:
    assert rc.judge(tighten_bound(CLAIMS[name], RATIO.get(name, 1.0))).verdict == "violated"


def test_the_sharpened_lemma_is_tight_without_a_hint() -> None:
    verdict = rc.judge(lemma8.lemma1_sharper)
    assert verdict.ratio is not None
    assert 0.99 <= verdict.ratio <= 1
