"""`ratecheck new` writes a paper that works before anything is changed."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from linsys import InputError
from ratecheck._new import write_project
from tests._slow import slow_but

ROOT = Path(__file__).parents[2]


def run(folder: Path, *arguments: str, module: str = "ratecheck") -> tuple[int, str]:
    """Exit code and output of a command in the new project, as if it were installed."""
    where = os.pathsep.join([str(ROOT), str(folder)])
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": where, "RATECHECK_OUT": str(folder / "results")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A new paper, with what `pip install -e` adds for its entry point."""
    write_project("my_paper", tmp_path)
    folder = tmp_path / "my_paper"
    about = folder / "my_paper-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-paper\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[ratecheck.papers]\nmy_paper = my_paper\n")
    return folder


def test_every_file_names_the_paper_and_is_python(tmp_path: Path) -> None:
    written = write_project("my_paper", tmp_path)
    assert {path.relative_to(tmp_path / "my_paper").parts[0] for path in written} == {
        "README.md",
        "my_paper",
        "pyproject.toml",
        "tests",
    }
    for path in written:
        text = path.read_text()
        assert "@" not in text.replace("@PAPER", "").replace("@dataclass", "").replace(" @ ", "")
        if path.suffix == ".py":
            compile(text, path.name, "exec")
    programs = {path: path.read_text().splitlines() for path in written if path.suffix == ".py"}
    assert max(len(line) for lines in programs.values() for line in lines) <= 100
    of_paper = [lines for path, lines in programs.items() if path.parent.name != "tests"]
    assert sum(bool(line.strip()) for lines in of_paper for line in lines) < 200


@pytest.mark.parametrize(
    ("name", "message"),
    slow_but(
        ["class", "affpcl", "numpy", "there"],
        [
            ("My Paper", r"`name` must be that of a Python package.*; found 'My Paper'"),
            ("class", r"`name` must be that of a Python package.*; found 'class'"),
            ("affpcl", r"`name` must be one that nothing has yet; found affpcl"),
            *(
                (name, rf"`name` must be one that nothing has yet; found {name}")
                for name in ("linsys", "experiments", "bridge", "numpy", "random")
            ),
            ("there", r"`name` must be that of a new folder; found that .*there exists"),
        ],
    ),
)
def test_bad_names(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match=message):
        write_project(name, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_one_that_could_not_be_written_whole_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_text

    def full(path: Path, *given: Any) -> int:
        if path.name == "paper.py":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, *given)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_project("mine", tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert all(path.is_file() for path in write_project("mine", tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o777 & ~umask


def test_the_command_says_what_comes_next(ratecheck: Callable[..., Any], tmp_path: Path) -> None:
    said = ratecheck("new", "my_paper", "--into", tmp_path)
    folder = tmp_path / "my_paper"
    assert said.code == 0
    assert f"cd {folder} && ratecheck audit my_paper" in said.out
    assert f"{folder / 'README.md'} says what to change." in said.out
    assert (folder / "README.md").is_file()


@pytest.mark.slow
def test_its_claims_are_judged_by_name(project: Path) -> None:
    code, output = run(project, "audit", "my_paper", "--json")
    assert code == 0
    verdicts = {row["id"]: row["verdict"] for row in json.loads(output)}
    assert verdicts == {
        "my_paper.step": "holds",
        "my_paper.decrease": "holds",
        "my_paper.long_step": "violated",
    }
    claims = project / "my_paper" / "claims" / "descent.py"
    claims.write_text(claims.read_text().replace('expect="violated"', 'expect="holds"'))
    assert run(project, "audit", "my_paper")[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["my_paper/rounds", "my_paper/average", "bridge/my_paper_sums"])
def test_its_experiments_run_by_name(project: Path, name: str) -> None:
    code, output = run(project, "run", name, "--json")
    assert code == 0, output
    assert all(check["ok"] for check in json.loads(output)["checks"])


@pytest.mark.slow
def test_it_is_listed_and_its_tests_pass(project: Path) -> None:
    code, output = run(project, "list")
    assert code == 0
    assert "my_paper/rounds" in output
    assert "my_paper/descent" in output
    code, output = run(project, "-q", "-p", "no:cacheprovider", module="pytest")
    assert code == 0, output
    assert "14 passed" in output
    assert "not judged" not in output
    assert "not imported" not in run(project, "-q", "my_paper", module="pytest")[1]
