"""The output folder, when it is not what it should be: one line, and nothing computed is lost."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ratecheck._experiment import plots

pytestmark = pytest.mark.usefixtures("toys")
Call = Callable[..., Any]
ONE = ("--threads", 1)


def test_a_taken_figures_folder_is_found_before_computing(
    ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "figures").write_text("")
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    for arguments in (["run", "toy/decay"], ["reproduce"]):
        said = ratecheck(*arguments, "--out", tmp_path, *ONE)
        assert (said.code, said.out) == (2, "")
        line = f"ratecheck: figures folder must be writable; found {tmp_path / 'figures'}: "
        assert said.err.startswith(line)
        assert len(said.err.splitlines()) == 1
    assert not (tmp_path / "log").exists()
    assert ratecheck("run", "toy/decay", "--out", tmp_path, "--no-figures", *ONE).code == 0
    assert ratecheck("rates", "toy", "--out", tmp_path, *ONE).code == 0


@pytest.mark.slow
def test_checks_are_printed_when_figures_fail_after_computing(
    ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "figures" / "toy-decay-quick.svg").mkdir(parents=True)
    said = ratecheck("run", "toy/decay", "--out", tmp_path, "--json", *ONE)
    assert said.code == 2
    assert len(json.loads(said.out)["checks"]) == 3
    assert said.err.startswith("ratecheck: figures must be writable; found ")
    assert len(said.err.splitlines()) == 1
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    (tmp_path / "figures" / "toy-decay-quick.svg").rmdir()
    assert ratecheck("run", "toy/decay", "--out", tmp_path, *ONE).code == 0
    assert not (tmp_path / "log").exists()


@pytest.mark.slow
def test_reproduce_ends_with_its_summary_when_a_figure_fails(
    ratecheck: Call, tmp_path: Path
) -> None:
    (tmp_path / "figures" / "toy-decay-quick.svg").mkdir(parents=True)
    said = ratecheck("reproduce", "--out", tmp_path, *ONE)
    assert said.code == 2
    assert (tmp_path / "figures" / "toy-picture-quick.png").exists()
    assert str(tmp_path / "index.md") in said.out
    assert said.err.splitlines()[-1].startswith("ratecheck: figures must be writable; found ")


def test_a_read_only_folder_of_complete_results_can_be_redrawn(
    ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ratecheck("run", "toy/decay", "--out", tmp_path, "--no-figures", *ONE).code == 0

    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    monkeypatch.setattr(plots.Path, "mkdir", refuse)
    for more, code in ((), 2), (("--no-figures",), 0):
        said = ratecheck("run", "toy/decay", "--out", tmp_path, "--redraw", *more, *ONE)
        assert said.code == code
        assert "slope at [0.5]" in said.out
        assert len(said.err.splitlines()) == code // 2
    assert ratecheck("run", "toy/decay", "--out", tmp_path, *ONE).code == 2


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_name_is_not_the_current_folder(
    ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = ratecheck("run", "toy/decay", "--out", empty, *ONE)
    assert (said.code, said.out) == (2, "")
    assert "must name a folder; found" in said.err
    assert len(said.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("run", "toy/decay"), ("rates", "toy"), ("reproduce",)])
def test_a_file_is_no_folder(ratecheck: Call, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("kept")
    said = ratecheck(*command, "--out", tmp_path / "file", *ONE)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("ratecheck: output folder must be writable; found ")
    assert len(said.err.splitlines()) == 1
    assert (tmp_path / "file").read_text() == "kept"


@pytest.fixture
def heard() -> Iterator[None]:
    """Ctrl-C interrupts, also where a shell runs the tests in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_ctrl_c_while_a_file_is_imported_leaves_130(ratecheck: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    said = ratecheck("run", tmp_path / "mine.py", "--out", tmp_path / "out", *ONE)
    assert (said.code, said.out) == (130, "")
    assert said.err == "ratecheck: interrupted; the same command resumes\n"


@pytest.mark.usefixtures("heard")
def test_a_file_that_raises_what_ctrl_c_raises_is_a_line(ratecheck: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise KeyboardInterrupt")
    said = ratecheck("run", tmp_path / "mine.py", "--out", tmp_path / "out", *ONE)
    assert (said.code, said.out) == (2, "")
    assert "must import without error; found KeyboardInterrupt: at " in said.err


def test_a_broken_file_leaves_two_and_one_line(ratecheck: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(:\n")
    said = ratecheck("run", tmp_path / "mine.py", "--out", tmp_path / "out", *ONE)
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines() == [
        "ratecheck: experiment file must import without error; found SyntaxError: invalid syntax "
        f"at {tmp_path / 'mine.py'}:1"
    ]
