"""Every paper of the gallery: its length, its claims, its figure, and the table that lists it."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ratecheck as rc
from ratecheck._conformance.claims import Known, Options, check_claim
from tests._slow import slow_but

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
README = (GALLERY / "README.md").read_text()
PAPERS = sorted(path.parent.name for path in GALLERY.glob("*/paper.py"))
CLAIMS = {
    item.id: item.entry
    for paper in PAPERS
    for item in rc.find_claims([str(GALLERY / paper / "paper.py")])
}
#: Claim to verdict and tightest ratio, as the table of the README has them.
TABLE = dict(
    re.findall(r"^\| (\w+\.\w+) \| .*? \| (\w+ \| [\d.]*) ?\|", README, flags=re.MULTILINE)
)
#: What a quick search finds where that is less by a tenth.
NEAR = {"sgd.lemma_1": 0.25, "local_gd.floor": 0.00325}
#: A true claim and a false one stand for all, which are judged with the slow tests.
QUICK = ("cagrad.direction", "fedprox.corollary_7")


def test_the_whole_gallery_is_one_argument() -> None:
    found = rc.find_claims(str(GALLERY))
    assert sorted(item.id for item in found) == sorted(CLAIMS)


def figure(paper: str) -> ModuleType:
    """The module of a paper's figure."""
    experiment = rc.find_experiment(str(GALLERY / paper / "paper.py"))
    return sys.modules[experiment.compute.__module__]


#: What is changed for a figure that takes a moment, and which of its predictions is made wrong: a
#: name in its module, the value in its place, and the beginning of the check that refuses it.
FIGURES: dict[str, tuple[dict[str, Any], list[tuple[str, Any, str]]]] = {
    "cagrad": ({"c": (0.2, 0.5), "T": 12}, [("SHARE", 0.9, "alike, c = 0.5")]),
    "dpo": ({"beta": (0.5, 1.0), "steps": 1000}, [("POWER", 0.5, "largest gap")]),
    "ef21": ({"T": 300}, [("POWER", 8, "EF21 / Theorem 2")]),
    "fedprox": ({"points": 10}, [("SHARE", 1.3, "K = 200: rho / decrease")]),
    "local_gd": ({"rounds": 100}, [("STATED", 2.0, f"H = {H}: exponent") for H in (2, 8)]),
    "mgda_descent": ({"T": 200}, [("EXPONENT", -4.0, "exponent of T")]),
    "saga": ({"k": 200, "replicates": 30}, [("SHARE", 10.0, "SAGA: rate")]),
    "scaffold": ({"rounds": 1500}, [("FACTOR", 4.0, "Phi / its bound")]),
    "sgd": ({"T": 1000}, [("STATED", -0.5, "last"), ("STATED", -0.5, "weighted")]),
    "td0": ({"doublings": 18}, [("STATED", -1.5, "(a): exponent of T")]),
}


#: Papers whose figures take most of the time; theirs are drawn with the slow tests.
LONG = ("local_gd", "scaffold", "sgd", "td0")


def suite(paper: str) -> type[rc.ExperimentSuite]:
    """The tests of a paper's figure, as a class that pytest finds by its name."""
    module, (changes, wrong) = figure(paper), FIGURES[paper]
    small = {module: replace(module.EXPERIMENT.profiles["quick"], **changes)}
    slow = {module} if paper in LONG else set()
    options = {"small": small, "slow": slow, "wrong": [(module, *one) for one in wrong]}
    return type(f"Test_{paper}", (rc.ExperimentSuite,), {**options, "__module__": __name__})


globals().update({f"Test_{paper}": suite(paper) for paper in PAPERS})


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_is_one_short_folder(paper: str) -> None:
    files = sorted(path.name for path in (GALLERY / paper).iterdir() if path.is_file())
    assert files == ["paper.py", "theorems.md"]
    code, formulas = ((GALLERY / paper / name).read_text() for name in files)
    assert code.count("\n") < 150
    assert sum(bool(line.strip()) for line in (code + formulas).splitlines()) < 150
    imports = set(re.findall(r"^(?:from|import) (\w+)", code, flags=re.MULTILINE))
    assert imports - sys.stdlib_module_names == {"numpy", "ratecheck"}


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_has_true_claims_and_a_false_one(paper: str) -> None:
    expected = [entry.expect for name, entry in CLAIMS.items() if name.startswith(f"{paper}.")]
    assert "violated" in expected
    assert len(expected) > 2


@pytest.mark.parametrize("name", slow_but(QUICK, CLAIMS))
def test_a_claim_conforms_and_is_as_tight_as_the_table_says(name: str) -> None:
    _, _, ratio = TABLE[name].partition(" | ")
    known = Known(float(ratio), NEAR.get(name)) if ratio else None
    check_claim(CLAIMS[name], Options(), others=CLAIMS, known=known)


def test_the_table_lists_all_claims_and_their_verdicts() -> None:
    stated = {name: told.partition(" | ")[0] for name, told in TABLE.items()}
    assert stated == {name: entry.expect for name, entry in CLAIMS.items()}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_theorem_has_a_formula(paper: str) -> None:
    text = (GALLERY / paper / "theorems.md").read_text()
    sections = re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert [f"{paper}.{name}" for name, _ in sections] == [
        name for name in CLAIMS if name.startswith(f"{paper}.")
    ]
    assert all(re.search(r"^\$\$.*\$\$$", said, re.MULTILINE) for _, said in sections)


@pytest.mark.parametrize("paper", PAPERS)
def test_the_page_shows_every_figure(paper: str) -> None:
    assert f"(figures/{paper}.png)" in README
    assert (GALLERY / "figures" / f"{paper}.png").is_file()
