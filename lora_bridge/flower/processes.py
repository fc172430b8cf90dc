"""Programs of Flower as processes: how they start, and how all of them are ended.

All that a program starts inherits a mark in its environment. At the end every process with the mark
is ended, also those that have sessions of their own or whose parents are gone.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

import psutil

from linsys.validate import InputError
from lora_bridge.failures import writing_explained
from lora_bridge.flower.addresses import check

__all__ = [
    "Failed",
    "Program",
    "environment",
    "free_port",
    "leave_by_signals",
    "program",
    "running",
    "started",
]

_MARK = "RATECHECK_STARTED"
#: Seconds that programs have to end when they are asked to.
_PATIENCE = 10.0
_POLL = 0.1


class Failed(InputError):
    """What Flower was to run has failed; the text says why."""


@dataclass(frozen=True)
class Program:
    """A program of Flower's that runs.

    Attributes:
        name: of the program.
        process: its own.
        log: file with what it says.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def last(self) -> str:
        """The last line of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"{lines[-1]:.200}" if lines else "nothing in its log"

    def wait(self) -> None:
        """Wait until it ends by itself, which none of them should.

        Raises:
            Failed: when it does.
        """
        code = self.process.wait()
        raise Failed(
            f"{self.name} must run until it is ended; found that it ended by itself with code "
            f"{code}: {self.last()}; its log is {self.log}"
        )


def environment(home: Path) -> dict[str, str]:
    """The environment of Flower's programs: no telemetry, no updates, files under ``home``."""
    return os.environ | {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_HOME": str(home),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }


def program(name: str) -> str:
    """The path of one of Flower's programs.

    Raises:
        InputError: Flower is not installed beside this Python.
    """
    path = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if path is None:
        raise InputError(f"Flower must be installed (the extra 'flower'); found no {name}")
    return path


@contextmanager
def started(
    command: Sequence[str], home: Path, output: int | IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process and all that it starts, ended at the end, also by a signal.

    Args:
        command: a program and its arguments.
        home: for Flower's own files.
        output: where it writes, errors too.
    """
    mark, process = uuid.uuid4().hex, None
    try:
        process = subprocess.Popen(
            command,
            env=environment(home) | {_MARK: mark},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends it
        )
        yield process
    finally:
        try:
            _end_marked(mark)
        finally:
            _end_marked(mark)  # again, as a signal may have interrupted the first call
            if process is not None:
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()


@contextmanager
def running(
    command: Sequence[str], home: Path, address: str = "", wait: float = 60.0
) -> Iterator[Program]:
    """A program of Flower's, ended at the end with all that it has started.

    Args:
        command: of :func:`lora_bridge.flower.launch.superlink` or ``supernode``.
        home: for Flower's own files and the program's log.
        address: waits until there is an answer there.
        wait: seconds to wait.

    Raises:
        Failed: no answer.
        InputError: a folder that cannot be written.
    """
    name = Path(command[0]).name
    with writing_explained("`home`", home):
        home.mkdir(parents=True, exist_ok=True)
        number, log = tempfile.mkstemp(suffix=".log", prefix=f"{name}-", dir=home)
    with os.fdopen(number, "wb") as output, started(command, home, output) as process:
        launched = Program(name, process, Path(log))
        if address:
            _wait_until_listening(launched, address, wait)
        yield launched


def leave_by_signals() -> None:
    """Make signals that end a program do so through its ``finally``, with code 128 + signal.

    The first one counts: what has been started is then ended without being interrupted. Signals
    that whoever started us has switched off, such as ``nohup``, stay so.
    """
    known = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
    ours = [one for one in known if one and signal.getsignal(one) != signal.SIG_IGN]

    def leave(number: int, frame: FrameType | None) -> None:
        for one in ours:
            signal.signal(one, signal.SIG_IGN)
        sys.exit(128 + number)

    for one in ours:
        signal.signal(one, leave)


def free_port() -> int:
    """A port of the loopback that nobody uses now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def _wait_until_listening(launched: Program, address: str, wait: float) -> None:
    """Wait until a program listens."""
    end = time.monotonic() + wait
    while launched.process.poll() is None and time.monotonic() < end:
        try:
            with socket.create_connection(check(address, encrypted=True), 1.0):
                return
        except OSError:
            time.sleep(_POLL)
    raise Failed(
        f"the SuperLink must answer at {address} within {wait:g} s; found {launched.last()}; "
        f"its log is {launched.log}"
    )


def _end_marked(mark: str) -> None:
    """End all processes with a mark: first by asking them, later by force."""
    asked: set[psutil.Process] = set()
    limit = time.monotonic() + _PATIENCE
    while family := _marked_processes(mark):
        for one in family:
            with suppress(psutil.NoSuchProcess):
                if time.monotonic() > limit:
                    one.kill()
                elif one not in asked:
                    asked.add(one)
                    one.terminate()
        time.sleep(_POLL)


def _marked_processes(mark: str) -> list[psutil.Process]:
    """The processes whose environment has a mark; those that have ended have none."""
    processes = []
    for one in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if one.environ().get(_MARK) == mark:
                processes.append(one)
    return processes
