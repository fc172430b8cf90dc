"""Ctrl-C goes to a terminal's whole group of processes, at any moment; one line tells of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ratecheck._discover.catalogue import find_claims
from ratecheck._processes import interrupts
from ratecheck._verdicts import trace
from ratecheck._verdicts.judging import judge_all

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

ROOT = Path(__file__).parents[3]
#: Seconds after which a test is stuck; a busy machine may need many times what an idle one does.
STUCK = 600
ONE_LINE = r"ratecheck: interrupted(; (\d of 2 verdicts are saved, )?the same command resumes)?\n"
#: Its second measure compiles a function of linsys when the cache is empty.
CLAIMS = """
from ratecheck import claim, interval
from linsys.linalg import lambda_max
import numpy as np

@claim(id="two.first", source="s", kind="upper", fields={"x": interval()}, text="at once")
def first(instance):
    return instance.x, 1

@claim(id="two.second", source="s", kind="upper", fields={"x": interval()}, text="compiles")
def second(instance):
    return instance.x * lambda_max(np.eye(2)), 1
"""


class Group:
    """A command in a group of processes of its own."""

    def __init__(self, sources: Path, home: Path, scratch: Path) -> None:
        self.home, self.scratch, self.out = home, scratch, home / "out"
        (home / "two.py").write_text(CLAIMS)
        self._sources = sources

    def start(self, *words: str, cached: bool) -> subprocess.Popen[str]:
        """Start ``audit`` with one worker, or the command of these words, on the file."""
        paths = {"PYTHONPATH": str(self._sources), "TMPDIR": str(self.scratch)}
        if not cached:
            paths["NUMBA_CACHE_DIR"] = str(self.home / "cache")
        words = words or ("audit", "--threads", "1")
        command = ["-m", "ratecheck", *words, str(self.home / "two.py")]
        return subprocess.Popen(
            [sys.executable, *command, "--out", str(self.out), "--json"],
            cwd=self._sources,
            env={**os.environ, **paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def notes(self) -> list[Path]:
        """What workers are at."""
        return list(self.scratch.glob("ratecheck-*/two.*"))


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Ctrl-C and SIGHUP are heard, also where nohup or a shell ignores them for all children."""
    before = [
        (number, signal.signal(number, handler))
        for number, handler in (
            (signal.SIGINT, signal.default_int_handler),
            (signal.SIGHUP, signal.SIG_DFL),
        )
    ]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.fixture
def group(sources: Path, tmp_path: Path) -> Iterator[Group]:
    # the path of a socket is put there, which must be short
    with tempfile.TemporaryDirectory() as scratch:
        yield Group(sources, tmp_path, Path(scratch))


#: What has happened when Ctrl-C comes.
MOMENTS: dict[str, Callable[[Group], bool]] = {
    "it begins": lambda group: group.out.exists(),
    "workers start": lambda group: any(group.scratch.glob("ratecheck-*")),
    "a worker compiles": lambda group: any(map(trace.compiles, group.notes)),
    "a verdict is there": lambda group: any(group.out.glob("audit/two/first/quick*.json")),
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_is_told_in_one_line_and_leaves_nobody_behind(group: Group, moment: str) -> None:
    first = group.start(cached=False)
    try:
        until = time.monotonic() + STUCK
        while not MOMENTS[moment](group):
            assert first.poll() is None, first.communicate()[1]
            assert time.monotonic() < until
            time.sleep(0.005)
        os.killpg(first.pid, signal.SIGINT)
        # it ends when nobody has these pipes any more: no worker, and not who starts workers
        printed, said = first.communicate(timeout=STUCK)
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
    assert printed == ""
    assert re.fullmatch(ONE_LINE, said), said
    assert first.returncode == -signal.SIGINT
    # what was compiled, or half of it, must do no harm; elsewhere there is nothing to learn from it
    second = group.start(cached=moment != "a worker compiles")
    printed, said = second.communicate(timeout=STUCK)
    assert (second.returncode, said) == (0, "")
    assert [claim["verdict"] for claim in json.loads(printed)] == ["holds", "holds"]


def _is_mine(process: Path, mark: str) -> bool:
    """Whether a process, as /proc has it, has the mark in its environment and has not ended."""
    with contextlib.suppress(OSError):
        ended = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return mark.encode() in (process / "environ").read_bytes() and not ended
    return False


def marked(mark: str) -> list[Path]:
    """The processes that have the mark."""
    return [one for one in Path("/proc").iterdir() if one.name.isdigit() and _is_mine(one, mark)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes of Linux")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_to_end_leaves_nothing_behind(group: Group, name: str) -> None:
    process = group.start(cached=True)
    try:
        until = time.monotonic() + STUCK
        while not group.notes and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.005)
        process.send_signal(getattr(signal, name))
        printed, said = process.communicate(timeout=STUCK)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert printed == ""
    assert re.fullmatch(ONE_LINE, said), said
    assert process.returncode == -getattr(signal, name)
    assert list(group.scratch.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes of Linux")
@pytest.mark.parametrize("loop", ["while True: pass", "sum(range(10**12))"])
def test_workers_end_with_their_parent_whatever_they_do(
    group: Group, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second loop is compiled code that keeps Python's lock."""
    started = group.home / "started"
    text = f"""
import multiprocessing, pathlib
if multiprocessing.parent_process() is not None:
    pathlib.Path({str(started)!r}).touch()
    {loop}
"""
    (group.home / "two.py").write_text(CLAIMS + text)
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv("RATECHECK_TEST_MARK", mark)
    process = group.start(cached=True)
    try:
        until = time.monotonic() + STUCK
        while not started.exists():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        assert len(marked(mark)) > 2  # the parent, who starts workers, and a worker
        process.kill()
        until = time.monotonic() + 30
        while marked(mark) and time.monotonic() < until:
            time.sleep(0.05)
        left = marked(mark)
    finally:
        for one in marked(mark):
            os.kill(int(one.name), signal.SIGKILL)
        process.communicate()
    assert left == []


#: The second one waits until it may go on; both say that they are evaluated.
WAITING = """
import pathlib, time
from ratecheck import claim, interval
HERE = pathlib.Path(__file__).parent

def said(name):
    with (HERE / name).open("a") as stream:
        stream.write("once\\n")

@claim(id="two.first", source="s", kind="upper", fields={"x": interval()}, text="false")
def first(instance):
    said("first")
    return instance.x, instance.x / 2

@claim(id="two.second", source="s", kind="upper", fields={"x": interval()}, text="false, later")
def second(instance):
    said("second")
    while not (HERE / "go").exists():
        time.sleep(0.02)
    return instance.x, instance.x / 2
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("threads", [1, 2])
def test_proofs_go_on_where_they_were_stopped(group: Group, name: str, threads: int) -> None:
    """Nobody is left, and what was proved is not proved again."""
    (group.home / "two.py").write_text(WAITING)
    words = ("certify", "--threads", str(threads))
    process = group.start(*words, cached=True)
    try:
        until = time.monotonic() + STUCK
        while not ((group.out / "two.first.json").exists() and (group.home / "second").exists()):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < until
            time.sleep(0.01)
        if name == "SIGINT":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(getattr(signal, name))
        # it ends when nobody has these pipes any more: no worker, and not who starts workers
        printed, said = process.communicate(timeout=STUCK)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert (printed, process.returncode) == ("", -getattr(signal, name))
    if name != "SIGKILL":
        assert said == "ratecheck: interrupted; 1 of 2 claims are saved, the same command resumes\n"
        assert list(group.scratch.iterdir()) == []
    (group.home / "go").touch()
    before = (group.home / "first").read_text()
    printed, said = group.start(*words, cached=True).communicate(timeout=STUCK)
    assert said == ""
    assert [one["certificate"]["kind"] for one in json.loads(printed)] == ["counterexample"] * 2
    assert (group.home / "first").read_text() == before
    names = sorted(path.name for path in group.out.iterdir())
    assert names == ["two.first.json", "two.second.json"]


#: The command, interrupted where it is told to be.
STRUCK = """
import os, signal, sys, tempfile
from ratecheck import cli
from ratecheck._commands import app
folders = []
def struck(*arguments):
    folders.append(tempfile.TemporaryDirectory(dir=".", prefix="left-"))
    exec("signal.raise_signal(getattr(signal, sys.argv[1]))")
setattr(app, sys.argv[2], struck)
if sys.argv[3:]:
    cli.interrupts.end_by_signal_at_exit = lambda: None
cli.main()
"""


@pytest.mark.parametrize(
    ("name", "where"), [("SIGINT", "main"), ("SIGINT", "_outcome"), ("SIGTERM", "_outcome")]
)
def test_an_interrupted_command_ends_by_the_signal_once_it_has_cleaned_up(
    name: str, where: str, tmp_path: Path
) -> None:
    """Also before it listens, and where the signal came during the exec of a text."""

    def ended(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", STRUCK, name, where, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    done = ended()
    assert done.returncode == -getattr(signal, name)
    assert done.stderr == "ratecheck: interrupted\n"
    assert list(tmp_path.iterdir()) == []
    assert ended("without").returncode == 128 + getattr(signal, name)


def test_signals_that_are_held_back_come_when_the_block_is_over() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with interrupts.held_back():
            signal.raise_signal(signal.SIGTERM)
            assert heard == []
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_of_somebody_else_stays() -> None:
    def theirs(number: int, frame: object) -> None:
        """Nothing."""

    before = signal.signal(signal.SIGTERM, theirs)
    try:
        with interrupts.ctrl_c_remembered():
            assert signal.getsignal(signal.SIGTERM) is theirs
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def swallow() -> None:
    """Ctrl-C whose exception Python drops, as in the callback that ends an import's lock."""
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_that_python_drops_ends_the_audit_all_the_same() -> None:
    items = find_claims(["affpcl.d1a"])
    with interrupts.ctrl_c_remembered():
        swallow()
        with pytest.raises(KeyboardInterrupt):
            list(judge_all(items, "quick", 0, workers=1))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    interrupts.check()  # which has been told of no strike since


def test_ctrl_c_is_remembered_only_while_it_is_heard() -> None:
    swallow()
    interrupts.check()
    with interrupts.ctrl_c_remembered():
        interrupts.check()
        swallow()
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
