from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def recipes() -> list[str]:
    """The complete files that the text shows: an experiment, its tests, a claim."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    matches = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(matches) == 3
    return matches


def run(file: Path, out: Path, command: str = "run") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ratecheck", command, str(file), "--out", str(out), "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def run_pytest(folder: Path) -> subprocess.CompletedProcess[str]:
    """As in a project of its own that is strict about markers."""
    (folder / "pytest.ini").write_text("[pytest]\n")  # not that of a folder above
    options = ("-q", "--strict-markers", "-p", "no:cacheprovider")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.slow
def test_the_recipe_is_a_complete_experiment(tmp_path: Path) -> None:
    code = recipes()[0]
    file = tmp_path / "average.py"
    file.write_text(code)
    done = run(file, tmp_path / "results")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [series["name"] for series in result["series"]] == ["normal", "uniform"]
    assert [check["ok"] for check in result["checks"]] == [True, True]

    # Theory that is wrong, the same samples: the check has to say so.
    file.write_text(code.replace("STATED = -1.0", "STATED = -0.5"))
    done = run(file, tmp_path / "wrong")
    assert done.returncode == 1, done.stderr
    assert [check["ok"] for check in json.loads(done.stdout)["checks"]] == [False, False]


@pytest.mark.slow
def test_the_recipe_is_tested_by_the_suite(tmp_path: Path) -> None:
    experiment, suite, _ = recipes()
    (tmp_path / "average.py").write_text(experiment)
    (tmp_path / "test_average.py").write_text(suite)
    done = run_pytest(tmp_path)
    assert "4 passed" in done.stdout, done.stdout
    (tmp_path / "test_average.py").write_text(suite.replace("-0.5", "-1.0"))
    done = run_pytest(tmp_path)
    assert "1 failed, 3 passed" in done.stdout, done.stdout
    assert "with STATED = -1.0 no check named 'slope, normal' fails" in done.stdout


def test_the_recipe_is_a_complete_claim(tmp_path: Path) -> None:
    code = recipes()[2]
    file = tmp_path / "claims.py"
    file.write_text(code)
    done = run(file, tmp_path / "results", "audit")
    assert done.returncode == 0, done.stderr
    (claim,) = json.loads(done.stdout)
    assert (claim["id"], claim["verdict"], claim["ratio"]) == ("paper.density_ratio", "holds", 1.0)

    # Half the bound, the same instances: the audit has to find one.
    file.write_text(code.replace("len(mu) * mu", "len(mu) / 2 * mu"))
    done = run(file, tmp_path / "results", "audit")
    assert done.returncode == 1, done.stderr
    (claim,) = json.loads(done.stdout)
    assert (claim["verdict"], claim["ratio"]) == ("violated", 2.0)
