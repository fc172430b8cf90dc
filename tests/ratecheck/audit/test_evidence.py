"""A verdict says what decided it, and on which counterexamples of lemmas it was tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._discover.catalogue import families, find_claims, of_file
from ratecheck._verdicts import records
from ratecheck._verdicts.judging import judge_all
from tests._slow import slow_but

ONE = rc.Space(fields={"x": rc.interval("n")}, sizes={"n": (1, 3)})


def claim_of(measure: Any, space: rc.Space = ONE, **options: Any) -> rc.Claim:
    options = {"id": "mine.claim", "kind": "upper", **options}
    return rc.Claim(source="", text="", space=space, measure=measure, **options)


def one_or_less(x: Any) -> Any:
    return x.max(), 1


def test_evidence_is_what_decided() -> None:
    assert rc.judge(claim_of(one_or_less)).evidence == "searched"
    assert rc.judge(claim_of(one_or_less, derivation="By definition.")).evidence == "derived"
    false = rc.judge(claim_of(lambda x: (x.max(), 0.5), derivation="?"))
    assert false.evidence == "confirmed at 40 and 80 digits"
    made = rc.Space(fields=ONE.fields, sizes=ONE.sizes, constructed="x is small")
    assert rc.judge(claim_of(one_or_less, made)).evidence == "searched, constructed: x is small"
    half = rc.Regime("all", "t", -1.0, -1.0, -1.0, -1.0, systems=3)
    rate = rc.RateClaim(id="mine.rate", source="", text="", regimes=lambda: [half, half])
    assert rc.judge(rate).evidence == "fitted, 2 exponents, each on 3 systems"
    unread = rc.NotChecked(id="mine.words", source="", text="", note="no numbers in it")
    assert rc.judge(unread).evidence == ""


def ones(n: int) -> dict[str, Any]:
    return {"x": np.ones(n)}


def rarely(x: Any) -> Any:
    """False where six numbers are one: no random instance has so many."""
    return np.where((len(x) == 6) & (x.min() == 1), 1, 0), 0.5


def test_a_claim_is_tried_on_the_counterexamples_of_what_it_uses() -> None:
    assert rc.judge(claim_of(rarely)).verdict == "holds"
    verdict = rc.judge(claim_of(rarely), families={"mine.lemma": [ones(1), ones(6)]})
    assert verdict.verdict == "violated"
    assert verdict.details["families"] == {"mine.lemma": {"tried": 2, "violated": 1}}


def test_instances_of_another_space_are_not_tried() -> None:
    strangers: list[Any] = [{"y": np.ones(2)}, {"x": np.ones((2, 2))}, {"x": np.full(6, 2.0)}]
    verdict = rc.judge(claim_of(rarely), families={"mine.lemma": strangers})
    assert verdict.verdict == "holds"
    assert verdict.details["families"] == {"mine.lemma": {"tried": 0, "violated": 0}}


def test_families_are_those_of_all_that_a_proof_rests_on() -> None:
    first = claim_of(rarely, id="mine.first", family=[ones(6)], uses=["mine.third"])
    second = claim_of(rarely, id="mine.second", uses=["mine.first", "mine.unknown"])
    third = claim_of(rarely, id="mine.third", uses=["mine.second"])  # a circle ends
    known = {claim.id: claim for claim in (first, second, third)}
    assert list(families(third, known)) == ["mine.first"]
    assert families(first, known) == {}


def test_the_counterexamples_of_a_family_are_confirmed() -> None:
    def half(x: Any) -> Any:
        return x.max(), 0.5

    verdict = rc.judge(claim_of(half, family=[{"x": [0.75]}, {"x": [1, 0]}]))
    sides = [{"measured": "0.75", "bound": "0.5"}, {"measured": "1.0", "bound": "0.5"}]
    assert verdict.details["family"] == sides
    for wrong, said in (([0.25], "measured 0.25, bound 0.5"), ([2.0], "breaks 'domain of x'")):
        verdict = rc.judge(claim_of(half, family=[{"x": [1]}, {"x": wrong}]))
        assert verdict.verdict == "error"
        assert "`family` must be counterexamples; found number 1" in verdict.reason
        assert said in verdict.reason


PAPER = """
import numpy as np
import ratecheck as rc
MINE = rc.Paper("mine", "Mine")
FAMILY = [{"x": np.ones(6)}]

@MINE.upper("lemma", ref="1", on={"x": rc.interval("n")}, family=FAMILY, expect="violated")
def lemma(x):
    "It is small."
    return x.max(), 0.5

@MINE.upper("theorem", ref="2", on={"x": rc.interval("n")}, uses=["lemma"])
def theorem(x):
    "It is not large."
    return (len(x) == 6) * x.min(), 0.5
"""


def test_workers_try_them_too(tmp_path: Path) -> None:
    file = tmp_path / "paper.py"
    file.write_text(PAPER)
    theorem = of_file(str(file))[1]
    ((_, verdict),) = judge_all([theorem], "quick", 0, workers=1)
    assert verdict.verdict == "violated"
    assert verdict.details["families"] == {"mine.lemma": {"tried": 1, "violated": 1}}
    file.write_text(PAPER.replace('uses=["lemma"]', 'uses=["lema"]'))
    with pytest.raises(ValueError, match=r"`uses` of mine.theorem must be ids of claims; found"):
        of_file(str(file))


@pytest.mark.parametrize(
    "name", slow_but(["affpcl.rem2_td"], ["affpcl.d1j", "affpcl.rem2_td", "psl.lemma_7_corrected"])
)
def test_the_quotient_of_two_roundings_is_no_tightness(name: str) -> None:
    """Their tightest instances in float64 have both sides zero but for rounding."""
    (item,) = rc.find_claims([name])
    verdict = rc.judge(item.entry)
    assert verdict.verdict == "holds"
    assert verdict.ratio is not None
    assert verdict.ratio > 0.1
    assert float(verdict.bound) > 1e-6


def test_counterexamples_that_are_tried_count_in_the_revision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items = find_claims(["ood.lemma_1"])

    def revision_with(*instances: Any) -> str:
        known = {"mine.lemma": instances} if instances else {}
        monkeypatch.setattr(records, "families_of", lambda claims: {"ood.lemma_1": known})
        return records.revisions_of_claims(items)["ood.lemma_1"]

    assert len({revision_with(), revision_with(ones(5)), revision_with(ones(5), ones(6))}) == 3
    nearly = {"x": np.ones(5) * (1 + 1e-15)}  # as another processor may compute it
    assert revision_with(nearly) == revision_with(ones(5))
