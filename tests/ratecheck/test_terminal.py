"""What fits into a terminal of 80 columns."""

from __future__ import annotations

import io
import os
import re
import shlex
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from ratecheck._report.terminal import say, show_list, wrapped

ROOT = Path(__file__).parents[2]
LONG = "the square of the mean of some vectors is at most the mean of their squares, always"
CLAIMS = f'''
import ratecheck as rc
PAPER = rc.Paper("mine", "My paper")
@PAPER.upper("mean", ref="Lemma 1", on={{"x": rc.ball("n", "d")}})
def mean(x):
    """{LONG} and {LONG}."""
    return (x**2).sum(axis=-1).mean(), (x.mean(axis=0) ** 2).sum()
'''


def test_long_lines_are_folded_between_words() -> None:
    assert wrapped(f"  {LONG}", 40) == [
        "  the square of the mean of some vectors",
        "    is at most the mean of their",
        "    squares, always",
    ]
    assert wrapped("short", 40) == ["short"]
    assert wrapped("", 40) == [""]
    assert wrapped(f"File: /{'x' * 50}", 40) == [f"File: /{'x' * 50}"]


def test_a_long_command_is_folded_where_a_shell_reads_on() -> None:
    path = f"results/audit/counterexamples/{'x' * 15}.json"
    line = f"  again: ratecheck audit claims/mine.py --replay {path}"
    screen = Console(file=io.StringIO(), width=60)
    say(screen, [line, "  a proof in prose: ratecheck certify mine.mass --out " + "y" * 20])
    told, prose = screen.file.getvalue().partition("  a proof")[::2]  # type: ignore[attr-defined]
    assert told.splitlines() == [
        "  again: ratecheck audit claims/mine.py --replay \\",
        f"    {path}",
    ]
    # as a shell has it, which drops a backslash with the end of its line
    assert shlex.split(told.replace("\\\n", "")) == shlex.split(line)
    assert prose.count("\n") == 1


def test_a_command_with_a_quoted_path_stays_whole() -> None:
    line = f"  again: ratecheck audit --replay '/home/me/my papers/{'x' * 30}.json'"
    screen = Console(file=io.StringIO(), width=40)
    say(screen, [line])
    assert screen.file.getvalue() == f"{line}\n"  # type: ignore[attr-defined]


def lines_on_a_terminal(arguments: Sequence[object], folder: Path) -> list[str]:
    """What the command shows on a terminal of 80 columns."""
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "ratecheck", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"},
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 1 << 16):
            shown += part
    except OSError:  # Linux says so that nobody has the other end any more
        pass
    process.wait()
    os.close(ours)
    return shown.decode().replace("\r", "").splitlines()


@pytest.mark.slow
def test_the_command_fits_into_80_columns(tmp_path: Path) -> None:
    (tmp_path / "claims.py").write_text(CLAIMS)
    for arguments in (["claims.py"], ["claims.py", "--show"], ["claims.py", "--list"]):
        lines = lines_on_a_terminal(["audit", *arguments, "--threads", 1], tmp_path)
        assert "the square of the" in " ".join(lines)
        assert [line for line in lines if len(line) > 80] == []
    lines = lines_on_a_terminal(["audit", "affpcl.d11"], tmp_path)
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80
    said = "ratecheck: claim must be one of \\d+ known names, such as affpcl.d1"
    assert re.match(said, " ".join(lines))
    piped = subprocess.run(
        [sys.executable, "-m", "ratecheck", "audit", "claims.py", "--show"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = piped.stdout.splitlines()
    assert f"{LONG} and {LONG}." in " ".join(lines)
    assert max(len(line) for line in lines if "ratecheck " not in line) <= 80


@pytest.mark.parametrize("columns", ["", "60", "100"])
def test_lists_in_a_pipe_are_as_wide_as_a_terminal(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    rows = [["mine.mean", "upper", LONG, "holds"], ["mine.x", "lower", "", "-"]]
    show_list(("id", "kind", "statement", "last verdict"), rows, ("statement",))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mine.mean  upper  holds"
    assert lines[-3].split() == ["mine.x", "lower", "-"]
    assert " ".join(line.strip() for line in lines[1:-3]) == LONG
    assert int(columns or 80) - 20 < max(map(len, lines)) <= int(columns or 80)


@pytest.mark.parametrize(("columns", "style"), [("", "lines"), ("80", "lines"), ("130", "table")])
def test_a_table_is_one_where_it_fits(
    columns: str,
    style: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    headers, rows = ("claim", "ratio", "source"), [["mine.mean", "0.5", LONG], ["mine.x", "1", ""]]
    show_list(headers, rows, ("source",), f"Of {LONG}")
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= int(columns or 80)
    assert lines[1].startswith("Of the square of the mean")
    if style == "lines":
        assert "claim      ratio" in lines
        assert "mine.mean  0.5" in lines
    else:
        assert any(line.split()[:2] == ["mine.mean", "0.5"] and LONG in line for line in lines)
    show_list(headers, [["mine.mean", "0.5", "Lemma 1"]], ("source",), "Section 1")
    assert " mine.mean   0.5     Lemma 1 " in capsys.readouterr().out.splitlines()


CHECKED = """
import numpy as np
import ratecheck as rc

class C(rc.Config):
    n: int = rc.param(3, doc="how many")

def compute(config, block, context):
    return rc.long_table({"n": np.arange(1, 9)}, error=1.0 / np.arange(1, 9))

def analyse(config, table):
    slope = rc.exact_slope(table["n"], table["error"])
    said = "the exponent of n in the error of an estimate whose name is much longer than most"
    return rc.Analysis([], [rc.rate_check(said, -1.0, slope)])

EXPERIMENT = rc.Experiment(
    id="mine/rate", title="A rate", source="My paper, Theorem 1", variable="n",
    profiles={"quick": C(), "paper": C()}, compute=compute, analyse=analyse,
    panels={"a": rc.Panel(x="n", y="error", log="xy")},
)
"""


@pytest.mark.slow
def test_answers_in_a_pipe_fit_into_80_columns(tmp_path: Path) -> None:
    long = CLAIMS.replace('ref="Lemma 1"', f'ref="Lemma 1, where {LONG}"')
    true = long.replace("return (x**2).sum(axis=-1).mean(), ", "return 0 * x[0, 0], ")
    assert true != long
    (tmp_path / "claims.py").write_text(true)
    (tmp_path / "claims").mkdir()
    (tmp_path / "rates").mkdir()
    (tmp_path / "rates" / "rate.py").write_text(CHECKED)
    for arguments in (
        ("audit", "claims.py", "--threads", "1"),
        ("certify", "claims.py"),
        ("rates", "."),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ratecheck", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        lines = done.stdout.splitlines()
        places = ("Verdicts: ", str(tmp_path))  # which stay whole
        assert [line for line in lines if len(line) > 80 and not line.startswith(places)] == []


def test_wide_lists_are_tables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    show_list(("id", "statement"), [["mine.mean", LONG]], ("statement",))
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["id", "statement"] in shown
    assert ["mine.mean", *LONG.split()] in shown
