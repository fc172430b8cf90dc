"""The verdicts kept with the catalogue are of its claims, and its counterexamples count."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

import ratecheck as rc
from ratecheck._discover import papers
from ratecheck._discover.catalogue import Item, find_claims
from ratecheck._verdicts.judging import judge_all

#: The folders of kept verdicts, by paper.
KEPT = {
    paper: Path(*package.split(".")) / "results" for paper, package in papers.installed().items()
}
FILES = [path for folder in KEPT.values() for path in sorted(folder.glob("counterexamples/*.json"))]


def test_papers_keep_their_verdicts() -> None:
    assert set(KEPT) >= {"affpcl", "firm"}


@pytest.mark.parametrize("paper", KEPT)
def test_every_claim_has_a_verdict_and_it_is_the_expected_one(paper: str) -> None:
    kept = {
        claim["id"]: claim
        for claim in json.loads((KEPT[paper] / "verdicts.json").read_text())["claims"]
    }
    entries = {item.id: item.entry for item in find_claims([paper])}
    assert set(kept) == set(entries)
    for name, entry in entries.items():
        assert kept[name]["verdict"] == entry.expect, name
        if isinstance(entry, rc.Claim) and entry.expect == "holds":
            assert kept[name]["instances"] >= 10**5, name


#: Every day another part of the true statements is searched anew, with a seed of its own.
PARTS, TODAY = 60, datetime.datetime.now(datetime.UTC).date().toordinal()
TRUE = [item for item in find_claims([]) if item.entry.expect == "holds"]


@pytest.mark.slow
@pytest.mark.parametrize("item", TRUE[TODAY % PARTS :: PARTS], ids=lambda item: item.id)
def test_a_part_of_what_holds_holds_with_a_seed_of_today(item: Item) -> None:
    ((_, verdict),) = judge_all([item], "normal", TODAY, workers=1)
    assert verdict.verdict == "holds", (TODAY, verdict)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_counterexamples_still_are_some(path: Path) -> None:
    content = json.loads(path.read_text())
    (item,) = find_claims([content["id"]])
    assert isinstance(item.entry, rc.Claim)
    verdict = rc.replay(item.entry, content["instance"])
    assert verdict.verdict == "violated"
    assert (verdict.measured, verdict.bound) == (content["measured"], content["bound"])


@pytest.mark.parametrize("paper", KEPT)
def test_every_false_claim_has_its_counterexample(paper: str) -> None:
    false = {
        item.id
        for item in find_claims([paper])
        if isinstance(item.entry, rc.Claim) and item.entry.expect == "violated"
    }
    assert {path.stem for path in FILES if path.parents[1] == KEPT[paper]} == false
