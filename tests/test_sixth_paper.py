"""A paper that is none of the five is one folder: method, claims, figure, rate, and a model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FEDPROX = Path(__file__).with_name("sixth_paper") / "fedprox"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder as `pip install` leaves a distribution whose pyproject has one line for it."""
    base = tmp_path_factory.mktemp("site")
    shutil.copytree(FEDPROX, base / "fedprox", ignore=shutil.ignore_patterns("__pycache__"))
    about = base / "fedprox_paper-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fedprox-paper\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ratecheck.papers]\nfedprox = fedprox\n")
    return base


def ratecheck(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = os.pathsep.join([str(Path(__file__).parents[1]), str(site)])
    return subprocess.run(
        [sys.executable, "-m", "ratecheck", *arguments],
        env={**os.environ, "PYTHONPATH": where, "RATECHECK_OUT": str(site / "results")},
        cwd=site, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_it_is_short() -> None:
    lines = [line for path in FEDPROX.rglob("*.py") for line in path.read_text().splitlines()]
    assert sum(bool(line.strip()) for line in lines) < 200


def test_its_claims_are_judged_beside_the_others(site: Path) -> None:
    done = ratecheck(site, "audit", "fedprox", "--json")
    assert done.returncode == 0, done.stderr
    verdicts = {row["id"]: row["verdict"] for row in json.loads(done.stdout)}
    assert verdicts == {
        "fedprox.contraction": "holds",
        "fedprox.fixed_point": "violated",
        "fedprox.fixed_point_corrected": "holds",
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedprox/rounds", "fedprox/penalty", "bridge/sums"])
def test_its_experiments_run_by_name(site: Path, name: str) -> None:
    done = ratecheck(site, "run", name, "--json")
    assert done.returncode == 0, done.stderr
    checks = json.loads(done.stdout)["checks"]
    assert checks
    assert all(check["ok"] for check in checks)
