"""The pages for a paper's authors name what is there."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ratecheck as rc
from ratecheck._discover import papers, registry
from ratecheck._report.authors import fill
from ratecheck._report.export import AUTHORS

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
        if words[0] == "ratecheck":  # a command, in which ID stands for an id
            words = [
                w for w in words[2:] if not w.startswith("-") and w not in ("ID", f"{paper}.ID")
            ]
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


@pytest.mark.parametrize("paper", PAGES)
def test_the_numbers_of_a_page_are_those_of_the_kept_verdicts(paper: str) -> None:
    results = PAGES[paper].parent / "results"
    claims = json.loads((results / "verdicts.json").read_bytes())["claims"]
    # to make it again: make verdicts, or ratecheck._report.export.write_page
    assert (results / AUTHORS).read_text() == fill(PAGES[paper].read_text(), claims)


@pytest.mark.parametrize("paper", PAGES)
def test_all_names_on_a_page_are_names(paper: str) -> None:
    text = PAGES[paper].read_text()
    assert list(missing(paper, text)) == []
    assert list(missing(paper, f"{text} `no_such_claim`")) == ["no_such_claim"]
