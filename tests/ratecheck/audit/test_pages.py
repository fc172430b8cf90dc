"""The pages for a paper's authors name what is there."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from ratecheck._discover import papers, registry
from ratecheck._report.authors import fill
from ratecheck._report.export import AUTHORS
from ratecheck._report.kept import known_in, of_known, with_certificate
from tests._slow import slow_but

ROOT = Path(__file__).resolve().parents[3]
PAGES = {
    name: ROOT.joinpath(*package.split("."), AUTHORS)
    for name, package in papers.installed().items()
}


def missing(paper: str, text: str) -> Iterator[str]:
    """What stands in backticks and names no claim, experiment, file or object of the project."""
    claims = {item.id for item in rc.find_claims([])}
    experiments = {*registry.names(), *registry.on_models()}
    halves = [claim.partition(".")[2] for claim in claims]
    for name in re.findall(r"`([^`]+)`", text):
        words = name.split()
        if words[0] == "ratecheck":  # a command
            words = [word for word in words[2:] if not word.startswith("-")]
        for word in words:
            known = {word, f"{paper}.{word}"} & claims or halves.count(word) == 1
            if not (known or word in experiments or (ROOT / word).exists() or _exists(word)):
                yield word


def _exists(name: str) -> bool:
    """Whether a dotted name is an object of a module."""
    module, _, attribute = name.rpartition(".")
    try:
        return bool(module) and hasattr(importlib.import_module(module), attribute)
    except ImportError:
        return False


@pytest.mark.parametrize("paper", slow_but(["ood"], PAGES))
def test_the_numbers_of_a_page_are_those_of_the_kept_verdicts(paper: str) -> None:
    results = PAGES[paper].parent / "results"
    known = known_in(results)
    kept = [of_known(item, known[item.id]) for item in rc.find_claims([paper])]
    records = [with_certificate(result) for result in kept]
    # to make it again: make verdicts, or ratecheck._report.export.renew
    assert (results / AUTHORS).read_text() == fill(PAGES[paper].read_text(), records)


@pytest.mark.parametrize("paper", PAGES)
def test_all_names_on_a_page_are_names(paper: str) -> None:
    text = PAGES[paper].read_text()
    assert list(missing(paper, text)) == []
    assert list(missing(paper, f"{text} `no_such_claim`")) == ["no_such_claim"]


#: What a chapter of a page is about, by the beginning of its title.
CHAPTERS = {
    "False as printed": "false as printed",
    "Other statements that are false as printed": "false as printed",
    "False under a second reading": "false under a second reading",
    "Other statements that are false under": "false under a second reading",
    "True as read here, false under": "false under a second reading",
    "Second readings": "false under a second reading",
    "Misprints": "misprint",
    "False steps of": "false step of a proof",
    "Further false steps of": "false step of a proof",
    "False statements of ours": "false statement of ours",
    "A false statement of ours": "false statement of ours",
    "Statements of ours that are false": "false statement of ours",
    "Assumptions that nothing meets": "assumption that nothing meets",
}


def kept(paper: str) -> dict[str, dict[str, Any]]:
    """The kept verdicts of a paper, by the claims' names without the paper."""
    data = json.loads((PAGES[paper].parent / "results" / "verdicts.json").read_bytes())
    return {claim["id"].partition(".")[2]: claim for claim in data["claims"]}


def chapters(page: str) -> Iterator[tuple[str, str]]:
    """The chapters that are about one category, and their texts."""
    for text in page.split("\n## ")[1:]:
        for title, category in CHAPTERS.items():
            if text.startswith(title):
                yield category, text


def misplaced(page: str, claims: dict[str, dict[str, Any]]) -> list[str]:
    """What a page for authors tells in a chapter of another category, or nowhere."""
    categories = {name: claim["category"] for name, claim in claims.items() if claim["category"]}
    absent = [name for name in categories if f"`{name}`" not in page]
    for category, text in chapters(page):
        for told in re.split(r"\n- |\n\| |\n\n", text):
            names = [name for name in re.findall(r"`(\w+)`", told) if name in categories]
            absent += [name for name in names[:1] if categories[name] != category]
    return absent


def miscounted(authors: str, findings: str, claims: dict[str, dict[str, Any]]) -> list[str]:
    """Which counts and lists of the two pages are not those of the verdicts."""
    counts = Counter(claim["category"] or claim["verdict"] for claim in claims.values())
    said = re.search(r"(?:outcome|as follows): ((?:\d+ [a-z -]+[,.] ?)+)", authors)
    table = findings.partition("\n| statements that are | number |\n|---|---|\n")[2]
    rows = re.findall(r"^\| (.+) \| (\d+) \|$", table.partition("\n\n")[0], re.MULTILINE)
    decided = findings.partition("\n| decided by | that is | number |\n")[2].partition("\n\n")[0]
    told = re.findall(r"^(?:### \d+\. |\*\*).*\(`\w+\.(\w+)`\)", findings, re.MULTILINE)
    categories = {name: claim["category"] for name, claim in claims.items() if claim["category"]}
    heads = [
        name
        for category, text in chapters(findings)
        for name in re.findall(r"^### \d+\. .*\(`\w+\.(\w+)`\)", text, re.MULTILINE)
        if categories.get(name) != category
    ]
    checks = {
        "the outcomes on the page for authors": sorted(counts.values())
        == sorted(map(int, re.findall(r"\d+", said[1] if said else ""))),
        "the outcomes among the findings": dict(counts) == {name: int(n) for name, n in rows},
        "what decided": sum(map(int, re.findall(r"\| (\d+) \|", decided)))
        == sum(bool(claim["evidence"]) for claim in claims.values()),
        "what is told": sorted(told) == sorted(categories),
        "the chapters": not heads,
    }
    return [name for name, right in checks.items() if not right]


@pytest.mark.parametrize("paper", PAGES)
def test_counts_and_lists_by_category_are_those_of_the_kept_verdicts(paper: str) -> None:
    results, claims = PAGES[paper].parent / "results", kept(paper)
    authors, findings = ((results / name).read_text() for name in (AUTHORS, "findings.md"))
    assert misplaced(authors, claims) == []
    assert miscounted(authors, findings, claims) == []
    steps = [n for n, claim in claims.items() if claim["category"] == "false step of a proof"]
    changed = {**claims, steps[-1]: {**claims[steps[-1]], "category": "misprint"}}
    assert miscounted(authors, findings, changed) == [
        "the outcomes on the page for authors",
        "the outcomes among the findings",
        "the chapters",
    ]
    assert misplaced(authors, changed) == [steps[-1]]
    assert misplaced(authors.replace(steps[0], "another"), claims) == [steps[0]]
    less = {name: claim for name, claim in claims.items() if name != steps[0]}
    assert len(miscounted(authors, findings, less)) == 5


def commands(text: str) -> list[str]:
    """The commands on a page, in backticks or on lines of their own."""
    matches = re.findall(r"`(ratecheck [^`]+)`|^\s*(ratecheck .+)$", text, re.MULTILINE)
    return list(dict.fromkeys((one or other).partition("  #")[0].strip() for one, other in matches))


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAGES)
def test_every_command_on_a_page_runs_as_printed(
    paper: str, ratecheck: Callable[..., Any], tmp_path: Path
) -> None:
    text = (PAGES[paper].parent / "results" / AUTHORS).read_text()
    assert commands(text)
    for command in commands(text):
        said = ratecheck(*shlex.split(command)[1:], "--out", tmp_path)
        assert said.code == 0, (command, said.err)


def test_commands_are_found() -> None:
    text = "`ratecheck audit --show a` and `a`\n\n    ratecheck run b  # seconds\n`ratecheck run b`"
    assert commands(text) == ["ratecheck audit --show a", "ratecheck run b"]
