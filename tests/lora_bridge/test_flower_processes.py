"""Processes that are started end with who started them. Needs no Flower: programs that resist."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lora_bridge.flower import processes
from lora_bridge.flower.processes import Failed, running
from tests.lora_bridge._flower import alive, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

ROOT = Path(__file__).parents[2]
#: A process with a child in a session of its own, whose child has lost its parent.
FAMILY = """
import os, signal, subprocess, sys, time
depth = int(sys.argv[1])
if depth:
    subprocess.Popen([sys.executable, __file__, str(depth - 1)], start_new_session=True)
if depth == 1:
    sys.exit()  # its child is an orphan
print("here", flush=True)
time.sleep(600)
"""
#: A command that starts such a family and leaves by signals.
COMMAND = """
import sys
from pathlib import Path
from lora_bridge.flower.processes import leave_by_signals, running
leave_by_signals()
with running([sys.executable, sys.argv[1], "2"], Path(sys.argv[2])) as program:
    print("runs", flush=True)
    program.wait()
"""
#: Before it: a shell that runs the tests in the background has switched some signals off.
HEARING = """
import signal
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
"""


@pytest.fixture
def family(tmp_path: Path) -> Path:
    path = tmp_path / "family.py"
    path.write_text(FAMILY)
    return path


def test_a_family_ends_with_its_block(family: Path, tmp_path: Path) -> None:
    with running([sys.executable, str(family), "2"], tmp_path):
        until(lambda: len(alive(tmp_path)) == 2)  # the one in between has ended
    assert alive(tmp_path) == []


def test_who_does_not_listen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PATIENCE", 0.5)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    with running([sys.executable, "-c", deaf + "print(1, flush=True); time.sleep(600)"], tmp_path):
        until(lambda: len(alive(tmp_path)) == 1)
        [log] = tmp_path.glob("*.log")
        until(log.read_text)
    assert alive(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_all_that_was_started(name: str, family: Path, tmp_path: Path) -> None:
    number = getattr(signal, name)
    command = [sys.executable, "-c", HEARING + COMMAND, str(family), str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        until(lambda: len(alive(tmp_path)) == 2)
        for _ in range(3):  # impatience changes nothing
            os.kill(process.pid, number)
            time.sleep(0.02)
        assert process.wait(30.0) == 128 + number
    assert alive(tmp_path) == []


@pytest.mark.slow
def test_a_signal_that_is_switched_off_stays_so(family: Path, tmp_path: Path) -> None:
    ignoring = HEARING + "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + COMMAND
    command = [sys.executable, "-c", ignoring, str(family), str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        until(lambda: len(alive(tmp_path)) == 2)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert len(alive(tmp_path)) == 2
        process.terminate()
        assert process.wait(30.0) == 143
    assert alive(tmp_path) == []


def test_a_program_that_ends_by_itself_is_one_line(tmp_path: Path) -> None:
    ending = "import sys; print('first'); print('no more'); sys.exit(3)"
    with (
        running([sys.executable, "-c", ending], tmp_path) as program,
        pytest.raises(Failed) as raised,
    ):
        program.wait()
    name = Path(sys.executable).name
    assert str(raised.value) == (
        f"{name} must run until it is ended; found that it ended by itself with code 3: no more; "
        f"its log is {program.log}"
    )
    silent = running([sys.executable, "-c", ending], tmp_path, "127.0.0.1:1")
    with pytest.raises(Failed, match=r"must answer at 127\.0\.0\.1:1 within 60 s; found no more;"):
        silent.__enter__()
