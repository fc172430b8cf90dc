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
from ratecheck._conformance.claims import Options, check_claim

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
PAPERS = sorted(path.parent.name for path in GALLERY.glob("*/paper.py"))
CLAIMS = {
    item.id: item.entry
    for paper in PAPERS
    for item in rc.find_claims([str(GALLERY / paper / "paper.py")])
}
#: Searches that take more than two seconds of CPU time.
SLOW: set[str] = set()


def figure(paper: str) -> ModuleType:
    """The module of a paper's figure, with what it imports from beside it."""
    experiment = rc.find_experiment(str(GALLERY / paper / "figure.py"))
    return sys.modules[experiment.compute.__module__]


def small(module: ModuleType, **changes: Any) -> dict[ModuleType, Any]:
    return {module: replace(module.EXPERIMENT.profiles["quick"], **changes)}


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_is_one_short_folder(paper: str) -> None:
    files = sorted(path.name for path in (GALLERY / paper).iterdir() if path.is_file())
    assert files == ["figure.py", "paper.py"]
    text = "".join((GALLERY / paper / name).read_text() for name in files)
    assert sum(bool(line.strip()) for line in text.splitlines()) < 150
    imports = set(re.findall(r"^(?:from|import) ([\w.]+)", text, flags=re.MULTILINE))
    assert not [name for name in imports if "._" in name]  # public names alone


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_has_true_claims_and_a_false_one(paper: str) -> None:
    expected = [entry.expect for name, entry in CLAIMS.items() if name.startswith(f"{paper}.")]
    assert "violated" in expected
    assert len(expected) > 2


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in CLAIMS]
)
def test_a_claim_conforms(name: str) -> None:
    check_claim(CLAIMS[name], Options(), others=CLAIMS)


td0, sgd, scaffold, dpo, ef21 = map(figure, ("td0", "sgd", "scaffold", "dpo", "ef21"))
local_gd, mgda_descent, cagrad, saga = map(figure, ("local_gd", "mgda_descent", "cagrad", "saga"))
OF_TD0 = [(td0, "STATED", -1.5, "(a): exponent of T")]
OF_SGD = [(sgd, "STATED", -0.5, panel) for panel in sgd.PANELS]
OF_SCAFFOLD = [(scaffold, "FACTOR", 4.0, "Phi / its bound")]
OF_DPO = [(dpo, "POWER", 0.5, "largest gap")]
OF_EF21 = [(ef21, "POWER", 8, "EF21 / Theorem 2")]
OF_LOCAL_GD = [(local_gd, "STATED", 2.0, f"H = {H}: exponent") for H in (2, 8)]
OF_MGDA = [(mgda_descent, "EXPONENT", -4.0, name) for name in ("omega / bound", "exponent of T")]
OF_CAGRAD = [(cagrad, "SHARE", 0.9, f"alike, c = {c}") for c in (0.2, 0.5)]
OF_SAGA = [(saga, "SHARE", 10.0, "SAGA: rate")]


class TestTD0(rc.ExperimentSuite):
    small = small(td0, doublings=18)
    wrong = OF_TD0


class TestSGD(rc.ExperimentSuite):
    small = small(sgd, T=1000)
    wrong = OF_SGD


class TestScaffold(rc.ExperimentSuite):
    small = small(scaffold, rounds=1500)
    wrong = OF_SCAFFOLD


class TestDPO(rc.ExperimentSuite):
    small = small(dpo, beta=(0.5, 1.0), steps=1000)
    wrong = OF_DPO


class TestEF21(rc.ExperimentSuite):
    small = small(ef21, T=300)
    wrong = OF_EF21


class TestLocalGD(rc.ExperimentSuite):
    small = small(local_gd, rounds=100)
    wrong = OF_LOCAL_GD


class TestMGDA(rc.ExperimentSuite):
    small = small(mgda_descent, T=200)
    wrong = OF_MGDA


class TestCAGrad(rc.ExperimentSuite):
    small = small(cagrad, c=(0.2, 0.5), T=12)
    wrong = OF_CAGRAD


class TestSAGA(rc.ExperimentSuite):
    small = small(saga, k=200, replicates=30)
    wrong = OF_SAGA
