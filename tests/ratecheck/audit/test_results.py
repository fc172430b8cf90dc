"""The verdicts kept with the catalogue are of its claims, and its counterexamples count."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._claims.families import by_outcome
from ratecheck._commands import listed
from ratecheck._conformance.claims import kept_ratios
from ratecheck._discover import papers
from ratecheck._discover.catalogue import Item, find_claims
from ratecheck._report import export
from ratecheck._report.kept import kept
from ratecheck._report.words import in_words
from ratecheck._search.witness import witness
from ratecheck._verdicts import certificates
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
        if not isinstance(entry, rc.Claim) or entry.expect != "holds":
            continue
        if entry.space.every_instance() is None:
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
def test_the_list_beside_the_verdicts_is_of_the_files_as_they_are(paper: str) -> None:
    """If not, ``make index`` makes it anew, in seconds."""
    assert listed.known(paper) is not None


@pytest.mark.slow
@pytest.mark.parametrize("paper", KEPT)
def test_the_list_beside_the_verdicts_is_what_the_modules_say(paper: str, tmp_path: Path) -> None:
    assert listed.known(paper) == listed.read_paper(paper, tmp_path, pytest.fail)


@pytest.mark.slow
@pytest.mark.parametrize("paper", KEPT)
def test_what_lies_beside_the_verdicts_is_made_from_them(
    paper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``make verdicts`` writes it anew, also where only words have changed."""
    folder, items = KEPT[paper], find_claims([paper])
    verdicts = folder / "verdicts.json"
    others = {"near.json", verdicts.name, certificates.FILE, certificates.TABLES, listed.FILE}

    def texts() -> dict[Path, str]:
        paths = [path for path in folder.rglob("*") if path.is_file()]
        return {path: path.read_text() for path in paths if path.name not in others}

    content, written = json.loads(verdicts.read_text()), texts()
    (tmp_path / folder).mkdir(parents=True)
    shutil.copy(folder.parent / export.AUTHORS, (tmp_path / folder).parent)
    monkeypatch.chdir(tmp_path)  # as the commands on the pages name files from here

    def other_files(claims: list[dict[str, Any]]) -> list[Path]:
        """The files that verdicts with these claims would have beside them, if not as they are."""
        verdicts.write_text(json.dumps({**content, "claims": claims}))
        export.write(kept(items, folder, "hunt", 0), folder)
        assert json.loads(verdicts.read_text())["claims"] == claims
        made = texts()
        return [path for path in made | written if made.get(path) != written.get(path)]

    assert other_files(content["claims"]) == []
    holds = next(c for c in content["claims"] if c["verdict"] == "holds" and c["ratio"])
    holds["ratio"] /= 2
    assert {path.name for path in other_files(content["claims"])} >= {"verdicts.md"}


def untrue(records: dict[str, dict[str, Any]]) -> list[str]:
    """Claims whose verdict says of a counterexample what it does not show."""
    problems = []
    for item in find_claims(list(records)):
        record, claim = records[item.id], item.entry
        if not isinstance(claim, rc.Claim):
            continue
        said = [*record["details"].get("family", ())]
        shown = [rc.replay(claim, one) for one in claim.family]
        true = said == [{"measured": one.measured, "bound": one.bound} for one in shown]
        if record["verdict"] == "violated":
            instance = {k: np.asarray(v, float)[None] for k, v in record["counterexample"].items()}
            seen = witness(claim, instance)
            true &= seen.sides.text == (record["measured"], record["bound"])
            told, now = record["witness"], seen.to_dict()
            # of 200 neighbours one may be as near to the bound as rounding is
            true &= all(abs(now.pop(key) - told[key]) <= 0.005 for key in ("near", "far"))
            true &= all(told[key] == value for key, value in now.items())
        problems += [] if true else [item.id]
    return problems


@pytest.mark.slow
@pytest.mark.parametrize("paper", KEPT)
def test_what_is_said_of_counterexamples_is_so(paper: str) -> None:
    records = claims_kept(paper)
    assert untrue(records) == []
    false = [name for name, record in records.items() if record["witness"]]
    records[false[0]]["witness"]["near"] -= 0.01
    records[false[1]]["measured"] += "1"
    records[false[2]]["witness"]["assumptions"].append("x > 0")
    families = [name for name in false[3:] if records[name]["details"].get("family")]
    records[families[0]]["details"]["family"][0]["bound"] = "0"
    assert untrue(records) == [name for name in records if name in {*false[:3], families[0]}]


@pytest.mark.parametrize("paper", KEPT)
def test_a_short_search_comes_no_nearer_than_a_long_one(paper: str) -> None:
    """But for instances that are kept, which a later long search need not find again."""
    file, ratios = KEPT[paper] / "near.json", kept_ratios(KEPT[paper])
    near = json.loads(file.read_text()) if file.is_file() else {}
    for name, entry in near.items():
        assert "instance" in entry or entry["ratio"] <= ratios[name].ratio, name


def test_the_documentation_counts_the_verdicts_that_are_kept() -> None:
    text, readme = Path("docs/results.md").read_text(), Path("README.md").read_text()
    for paper in KEPT:
        records = claims_kept(paper)
        outcomes = by_outcome(records.values())
        false = f"{outcomes.get('false as printed', 0)} false as printed"
        assert f"[{len(records)} claims]({KEPT[paper]}/authors.md), {false}" in readme, paper
        assert f" | {len(records)} | {in_words(outcomes)} |\n" in text, paper


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
