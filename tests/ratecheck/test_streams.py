"""What becomes of an answer that nobody takes, with real pipes and processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FILES = Path(__file__).parent
PICTURE = FILES / "extra" / "toy" / "figures" / "picture.py"
MINE = FILES / "audit" / "files" / "mine.py"
RATECHECK = (sys.executable, "-m", "ratecheck")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and bash of POSIX")
Ended = tuple[int, str, str]


def ended(
    command: tuple[object, ...], sources: Path, *, closed: str = "", **environment: str
) -> Ended:
    """Exit code, stdout and stderr, one of which may be a pipe that nobody reads.

    It waits until the last process that holds a pipe is gone, workers too.
    """
    streams: dict[str, int] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if closed:
        read, streams[closed] = os.pipe()
        os.close(read)
    done = subprocess.run(
        [str(part) for part in command],
        cwd=sources,
        env={**os.environ, "PYTHONPATH": str(sources), **environment},
        text=True,
        check=False,
        **streams,  # type: ignore[call-overload]
    )
    if closed:
        os.close(streams[closed])
    return done.returncode, done.stdout or "", done.stderr or ""


def bash(line: str, *arguments: object) -> tuple[object, ...]:
    """The command in a line of bash, where it is "$@"."""
    return ("bash", "-c", f"set -o pipefail; {line}", "bash", *RATECHECK, *arguments)


@pytest.fixture
def mutant(sources: Path, tmp_path: Path) -> Path:
    """Our packages as if streams were left to Python, typer and rich."""
    copy = tmp_path / "mutant"
    shutil.copytree(sources, copy)
    path = copy / "ratecheck" / "_processes" / "streams.py"
    text = path.read_text()
    for line, other in (
        ("if getattr(sys, name) is None:", "if False:"),
        ("return cast(TextIO, _Guarded(stream, failed))", "return stream"),
    ):
        assert text.count(line) == 1
        text = text.replace(line, other)
    path.write_text(text)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("audit", "--help"),
        ("version",),
        ("show", "affpcl/fig1"),
        ("show", "affpcl/fig1", "--json"),
        ("audit", MINE, "--list"),
    ],
)
def test_a_reader_that_is_gone_ends_the_command_in_silence(
    arguments: tuple[object, ...], sources: Path, mutant: Path
) -> None:
    command = (*RATECHECK, *arguments)
    assert ended(command, sources, closed="stdout") == (141, "", "")
    assert ended(command, mutant, closed="stdout")[0] not in (0, 141)


@pytest.mark.slow
def test_a_reader_of_the_first_line_loses_no_result(
    sources: Path, mutant: Path, tmp_path: Path
) -> None:
    options = ("--threads", 2, "--no-figures", "--set", "points=20000", "--json")
    run = ("run", PICTURE, *options, "--out")  # more than a pipe holds
    kept, lost = tmp_path / "kept", tmp_path / "lost"
    assert ended(bash('"$@" | head -1', *run, kept), sources) == (141, "{\n", "")
    assert ended(bash('"$@" | head -1', *run, lost), mutant) != (141, "{\n", "")
    loud = {"TOY_LOUD": "yes"}  # a block that is computed says something
    code, out, err = ended((*RATECHECK, *run, kept), sources, **loud)
    assert (code, err) == (0, "")
    assert json.loads(out)["experiment"] == "toy/picture"
    code, _, err = ended((*RATECHECK, *run, tmp_path / "new"), sources, **loud)
    assert (code, err.count("a library that prints")) == (0, 3)


@pytest.mark.slow
def test_without_a_buffer_nothing_is_dropped_in_silence(sources: Path, mutant: Path) -> None:
    """What one call to the system does not take: all but the start of a long list, here."""
    command = bash('"$@" | head -1', "audit", "--list")
    one_call = {"PYTHONUNBUFFERED": "1", "COLUMNS": "1000"}  # so wide that it is a single table
    assert ended(command, sources, **one_call)[0] == 141
    streams = mutant / "ratecheck" / "_processes" / "streams.py"
    text = (sources / "ratecheck" / "_processes" / "streams.py").read_text()
    assert text.count("_writing_all(sys.stdout)") == 1
    streams.write_text(text.replace("_writing_all(sys.stdout)", "sys.stdout"))
    assert ended(command, mutant, **one_call)[0] == 0


@pytest.mark.slow
def test_verdicts_that_nobody_reads_are_kept(sources: Path, tmp_path: Path) -> None:
    audit = (*RATECHECK, "audit", MINE, "--threads", 2, "--out", tmp_path)
    assert ended(audit, sources, closed="stdout") == (141, "", "")
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("quick*.json")}
    assert kept
    assert ended(audit, sources)[2] == ""
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("quick*.json")} == kept


@pytest.mark.slow
def test_no_reader_of_stderr_costs_no_answer(sources: Path, mutant: Path, tmp_path: Path) -> None:
    run = (*RATECHECK, "run", PICTURE, "--threads", 2, "--no-figures", "--json", "--out")
    loud = {"TOY_LOUD": "yes"}  # the workers write to stderr
    code, out, err = ended((*run, tmp_path / "a"), sources, closed="stderr", **loud)
    assert (code, err) == (0, "")
    assert json.loads(out)["experiment"] == "toy/picture"
    assert ended((*run, tmp_path / "b"), mutant, closed="stderr", **loud)[0] != 0


@pytest.mark.slow
def test_no_stderr_at_all_costs_no_answer(sources: Path, tmp_path: Path) -> None:
    audit = ("audit", MINE, "--threads", 1, "--json", "--out", tmp_path)
    code, out, err = ended(bash('"$@" 2>&-', *audit), sources)
    assert (code, err) == (0, "")
    assert [claim["verdict"] for claim in json.loads(out)][:2] == ["holds", "violated"]


@pytest.mark.slow
def test_an_error_that_cannot_be_said_is_an_exit_code(sources: Path, mutant: Path) -> None:
    unsaid = (2, "", "")
    assert ended(bash('"$@" 2>&-', "rnu"), sources) == unsaid
    assert ended(bash('"$@" 2>&-', "rnu"), mutant) != unsaid
    assert ended((*RATECHECK, "rnu"), sources, closed="stderr") == unsaid
    assert ended((*RATECHECK, "rnu"), mutant, closed="stderr") != unsaid


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no /dev/full")
@pytest.mark.parametrize("arguments", [("version",), ("--help",), ("show", "affpcl/fig1")])
def test_a_full_disk_is_an_error_in_a_line(
    arguments: tuple[str, ...], sources: Path, mutant: Path
) -> None:
    line = "ratecheck: stdout must be writable; found No space left on device\n"
    full = bash('"$@" > /dev/full', *arguments)
    assert ended(full, sources) == (2, "", line)
    assert ended(full, mutant) != (2, "", line)
