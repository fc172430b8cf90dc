"""What can be said against a counterexample stands in every table and on every page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratecheck._claims.families import by_outcome
from ratecheck._report import export

PAPER = '''"""Ties and edges."""
import numpy as np
import ratecheck as rc

MINE = rc.Paper("mine", "Mine")
TWO = {"x": rc.interval(), "y": rc.interval()}
NOTED = {"expect": "violated", "note": "a slip", "main": True}
NARROW = {"x": (0.1, 0.5), "y": (0.1, 0.5)}

REALS = {"x": rc.reals(magnitude=(1, 1)), "y": rc.reals(magnitude=(1, 1))}

@MINE.upper("tie", ref="1", on=rc.Space(fields=REALS, constructed="x may be y"), **NOTED)
def tie(x, y):
    "No two are equal."
    return np.where(x == y, 1.0, 0.0), 0.5

@MINE.upper("edge", ref="2", on=rc.Space(fields=TWO, credible=NARROW), **NOTED)
def edge(x, y):
    "They are not large."
    return x + y, 1.5

@MINE.upper("near", ref="5", on=TWO, **NOTED)
def near(x, y):
    "They are below."
    return x + y, 1.95

@MINE.upper("plain", ref="3", on=rc.Space(fields=TWO, constructed="both are small"), **NOTED)
def plain(x, y):
    "They are small."
    return x + y, 0.5

@MINE.upper("true", ref="4", on=plain.space, derivation="Both are at most one.")
def true(x, y):
    "They are at most two."
    return x + y, 2
'''
LABELS = {
    "tie": "violated, degenerate",
    "edge": "violated, at the edge",
    "near": "violated, narrowly",
}
CONSTRUCTED = {"tie": "x may be y", "plain": "both are small", "true": "both are small"}


@pytest.fixture
def said(ratecheck: Callable[..., Any], tmp_path: Path) -> dict[str, str]:
    """What the command prints and writes about the claims of the paper above."""
    source, folder = tmp_path / "ties.py", tmp_path / "paper" / "results"
    source.write_text(PAPER)
    folder.mkdir(parents=True)
    (folder.parent / export.AUTHORS).write_text(
        "".join(f"{name}: {{{{{name}.verdict}}}}.\n" for name in ("tie", "edge", "near", "plain"))
    )
    to = ("--out", tmp_path / "out")
    printed = ratecheck("audit", source, "--write", folder, "--threads", 1, *to)
    assert printed.code == 0
    ratecheck("report", *to)
    return {
        "terminal": printed.out,
        "list": ratecheck("audit", source, "--list", *to).out,
        "show": ratecheck("audit", source, "--show", *to).out,
        "page": (tmp_path / "out" / "report.html").read_text(),
        **{path.name: path.read_text() for path in folder.glob("*.md")},
    }


@pytest.mark.slow
def test_labels_and_constructions_are_told_everywhere(said: dict[str, str]) -> None:
    for place in ("terminal", "list", "show", "verdicts.md", "authors.md", "page"):
        for label in LABELS.values():
            assert label in said[place], (place, label)
    headings = [line for line in said["findings.md"].splitlines() if line.startswith("### ")]
    assert headings[:4] == [
        "### 1. Mine, 1 (`mine.tie`), degenerate",
        "### 2. Mine, 2 (`mine.edge`), at the edge",
        "### 3. Mine, 5 (`mine.near`), narrowly",
        "### 4. Mine, 3 (`mine.plain`)",
    ]
    assert "plain: violated.\n" in said["authors.md"]
    for place in ("show", "verdicts.md", "page"):
        for made in CONSTRUCTED.values():
            assert f"onstructed: {made}" in said[place], (place, made)
    for place in ("terminal", "findings.md"):  # which tell what is false in full
        for name in ("tie", "plain"):
            assert f"onstructed: {CONSTRUCTED[name]}" in said[place], (place, name)
    assert "derived, constructed: both are small" in said["show"]


def test_an_error_is_counted_as_one_whatever_is_known_of_the_statement() -> None:
    known = {"id": "mine.a", "expected": "violated"}
    assert by_outcome([{**known, "verdict": "error"}]) == {"error": 1}
    assert by_outcome([{**known, "verdict": "holds"}]) == {"false as printed": 1}
