"""P-ShareLoRA's claims on model, columns, chances, theorems and rates: verdicts and teeth."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from latex2mathml.converter import convert
from numpy.testing import assert_allclose

import ratecheck as rc
from experiments.psharelora.claims import (
    brackets,
    chance,
    main_theorems,
    model,
    parameters,
    rates,
    subspace,
    value_gaps,
)
from linsys.linalg import precision
from ratecheck._discover.catalogue import catalogue

MODULES = (
    subspace,
    model,
    parameters,
    brackets,
    chance,
    main_theorems,
    value_gaps,
    rates,
)
ENTRIES = {
    entry.id: entry
    for module in MODULES
    for entry in vars(module).values()
    if isinstance(entry, rc.Claim | rc.RateClaim)
}
FALSE = [name for name, entry in ENTRIES.items() if entry.expect == "violated"]
TRUE = [
    name
    for name, entry in ENTRIES.items()
    if isinstance(entry, rc.Claim) and entry.expect == "holds" and entry.kind != "identity"
]
IDENTITIES = [
    name
    for name, entry in ENTRIES.items()
    if isinstance(entry, rc.Claim) and entry.expect == "holds" and entry.kind == "identity"
]
#: How close instances come to the bounds that are not attained, from searches with "quick".
RATIO = {
    "psl.lemma_1_corrected": 0.63,
    "psl.lemma_3_corrected": 0.9,
    "psl.lemma_4_chance": 0.85,
    "psl.prop_1": 0.85,
    "psl.prop_1_local": 0.85,
    "psl.prop_1_full_gain_corrected": 0.9,
    "psl.assumption_2": 0.35,
    "psl.theorem_4_1_corrected": 0.6,
    "psl.theorem_4_1_covered": 0.2,
    "psl.theorem_4_1_floor": 0.8,
}


def tighten_bound(claim: rc.Claim) -> rc.Claim:
    """The claim with a bound that the tightest instance known misses by a tenth."""

    def measure(instance: Any) -> tuple[Any, Any]:
        measured, bound = claim.measure(instance)
        smaller, larger = 90 * RATIO.get(claim.id, 1.0), 100
        room = abs(bound) * ((larger - smaller) / larger)
        return measured, bound + room if claim.relation == ">=" else bound - room

    return replace(claim, measure=measure, expect="violated")


def unequal(claim: rc.Claim) -> rc.Claim:
    """The identity with one side a thousandth larger."""

    def measure(instance: Any) -> tuple[Any, Any]:
        measured, bound = claim.measure(instance)
        return measured * 1001, bound * 1000

    return replace(claim, measure=measure, expect="violated")


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_are_complete(name: str) -> None:
    entry = ENTRIES[name]
    convert(entry.latex)
    if entry.expect in ("violated", "faster than stated"):
        assert entry.note
        assert entry.corrected is not None
        assert isinstance(ENTRIES[entry.corrected], rc.Claim)
        assert ENTRIES[entry.corrected].expect == "holds"


def test_every_claim_that_a_note_names_exists() -> None:
    entries = {item.id: item.entry for item in catalogue("psl")}
    assert set(ENTRIES) < set(entries)
    for entry in entries.values():
        named = re.findall(r"psl\.\w+", f"{entry.text} {entry.note} {entry.derivation}")
        assert set(named) <= set(entries)


@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if isinstance(e, rc.Claim)])
def test_measures_agree_with_high_precision(name: str) -> None:
    claim = ENTRIES[name]
    assert isinstance(claim, rc.Claim)
    layout = claim.space.layout(claim.space.all_sizes()[-1])
    fields = layout.decode(np.random.default_rng(0).uniform(size=(40, layout.coordinates)))
    kept = claim.space.passing(fields)
    one = {field: values[kept][:1] for field, values in fields.items()}
    floats = claim.measure(claim.space.views(one))
    with precision(40):
        exact = claim.measure(claim.space.views(claim.space.precise(one)))
    for rounded, side in zip(floats, exact, strict=True):
        # roots of squares that are zero keep half of the digits
        assert_allclose(rounded, np.asarray(side, dtype=float), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("name", FALSE)
def test_false_statements_are_refuted(name: str) -> None:
    assert rc.judge(ENTRIES[name], seed=1).verdict == "violated"


@pytest.mark.parametrize(
    "name", [n for n, e in ENTRIES.items() if isinstance(e, rc.RateClaim) and n not in FALSE]
)
def test_rates_are_the_known_ones(name: str) -> None:
    assert rc.judge(ENTRIES[name]).verdict == ENTRIES[name].expect


@pytest.mark.parametrize("name", TRUE)
def test_no_true_bound_survives_a_tenth_less(name: str) -> None:
    claim = ENTRIES[name]
    assert isinstance(claim, rc.Claim)
    assert rc.judge(tighten_bound(claim), seed=1).verdict == "violated"


@pytest.mark.parametrize("name", IDENTITIES)
def test_no_identity_survives_a_thousandth(name: str) -> None:
    claim = ENTRIES[name]
    assert isinstance(claim, rc.Claim)
    assert rc.judge(claim, seed=1).verdict == "holds"
    assert rc.judge(unequal(claim), seed=1).verdict == "violated"
