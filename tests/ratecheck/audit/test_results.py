"""The verdicts kept with the catalogue are of its claims, and its counterexamples count."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from ratecheck._claims.families import by_outcome, in_words
from ratecheck._conformance.claims import kept_ratios
from ratecheck._discover import papers
from ratecheck._discover.catalogue import Item, find_claims
from ratecheck._report.export import kept
from ratecheck._verdicts.judging import judge_all

#: The folders of kept verdicts, by paper.
KEPT = {
    paper: Path(*package.split(".")) / "results" for paper, package in papers.installed().items()
}
FILES = [path for folder in KEPT.values() for path in sorted(folder.glob("counterexamples/*.json"))]


def test_papers_keep_their_verdicts() -> None:
    assert set(KEPT) >= {"affpcl", "firm"}


def claims_kept(paper: str) -> dict[str, dict[str, Any]]:
    claims = json.loads((KEPT[paper] / "verdicts.json").read_text())["claims"]
    return {claim["id"]: claim for claim in claims}


@pytest.mark.parametrize("paper", KEPT)
def test_every_claim_has_a_verdict_and_it_is_the_expected_one(paper: str) -> None:
    records = claims_kept(paper)
    entries = {item.id: item.entry for item in find_claims([paper])}
    assert set(records) == set(entries)
    for name, entry in entries.items():
        assert records[name]["verdict"] == entry.expect, name
        if isinstance(entry, rc.Claim) and entry.expect == "holds":
            assert records[name]["instances"] >= 10**5, name


@pytest.mark.slow
@pytest.mark.parametrize("paper", KEPT)
def test_verdicts_are_of_what_the_claims_and_the_search_compute_now(paper: str) -> None:
    """If not, ``make verdicts`` judges anew what is not, and leaves the rest."""
    items = find_claims([paper])
    current = kept(items, KEPT[paper], "hunt", 0)
    assert [item.id for item in items] == [result.item.id for result in current]
    records = claims_kept(paper)
    for result in current:
        assert records[result.item.id]["category"] == result.to_dict()["category"], result.item.id


@pytest.mark.parametrize("paper", KEPT)
def test_a_short_search_comes_no_nearer_than_a_long_one(paper: str) -> None:
    """But for instances that are kept, which a later long search need not find again."""
    file, ratios = KEPT[paper] / "near.json", kept_ratios(KEPT[paper])
    near = json.loads(file.read_text()) if file.is_file() else {}
    for name, entry in near.items():
        assert "instance" in entry or entry["ratio"] <= ratios[name].ratio, name


def test_the_readme_counts_the_verdicts_that_are_kept() -> None:
    text = Path("README.md").read_text()
    for paper in KEPT:
        records = claims_kept(paper)
        assert f" | {len(records)} | {in_words(by_outcome(records.values()))} |\n" in text, paper


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
