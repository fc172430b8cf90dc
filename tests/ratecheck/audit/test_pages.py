"""The pages for a paper's authors name what is there."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ratecheck as rc
from ratecheck._discover import registry

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = {path.stem.removesuffix("-audit"): path for path in sorted(DOCS.glob("*-audit.md"))}


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
            if not (known or word in experiments or (DOCS.parent / word).exists() or _exists(word)):
                yield word


def _exists(name: str) -> bool:
    """Whether a dotted name is an object of a module."""
    module, _, attribute = name.rpartition(".")
    try:
        return bool(module) and hasattr(importlib.import_module(module), attribute)
    except ImportError:
        return False


@pytest.mark.parametrize("paper", PAGES)
def test_all_names_on_a_page_are_names(paper: str) -> None:
    text = PAGES[paper].read_text()
    assert list(missing(paper, text)) == []
    assert list(missing(paper, f"{text} `no_such_claim`")) == ["no_such_claim"]
