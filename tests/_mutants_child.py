"""Runs pytest again and again in forks of one process that has imported the large libraries.

Its input is lines of JSON: what pytest is given, the file of outcomes, the seconds it may take. The
answer to each is "passed", "failed", "timeout" or "no tests". A row of outcomes has the test, how
it ended, its seconds, its number and what was said. The copy of this file that is called
``_mutants_probe`` is what probes in the code import: :func:`hit` notes which test comes by.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

#: Imported before the forks. hypothesis is not: pytest wants to import its plugins itself.
HEAVY = ("numpy", "scipy.linalg", "scipy.optimize", "scipy.stats", "numba", "torch", "mpmath")
_seen: set[tuple[int, int]] = set()
_now: Any = None


def _folder() -> Path:
    """Of <folder>/venv/lib/python3.x/site-packages, where the copies of this file lie."""
    return Path(__file__).resolve().parents[4]


def _shared() -> Any:
    """The number of the test that runs, in memory that all processes share."""
    with (_folder() / "now").open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 8)).cast("q")


def hit(mutant: int) -> None:
    """Note that the test that runs now comes by a mutant, in whatever process."""
    global _now
    if _now is None:
        _now = _shared()
    met = mutant, _now[0]
    if met not in _seen:
        _seen.add(met)
        with contextlib.suppress(OSError):  # in a test of full disks
            file = os.open(_folder() / "hits", os.O_WRONLY | os.O_APPEND)
            os.write(file, b"%d %d\n" % met)
            os.close(file)


class Recorder:
    """A plugin of pytest that says which test runs now, and keeps outcomes and times."""

    def __init__(self, out: str) -> None:
        self.now, self.out = _shared(), Path(out)
        self.out.write_text("")
        self.number, self.seconds = 0, Counter[str]()

    def pytest_runtest_logstart(self) -> None:
        self.number += 1
        self.now[0] = 2 * self.number  # while its fixtures are made, which others may share

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "setup":
            self.now[0] = 2 * self.number + 1
        self.seconds[report.nodeid] += report.duration
        if report.failed or report.when == "teardown":
            self._write(report, self.seconds[report.nodeid])

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._write(report, 0.0)

    def _write(self, report: Any, seconds: float) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        said = str(crash.message if crash else report.longrepr)[:400] if report.failed else ""
        row = [report.nodeid, report.outcome, seconds, self.number, said]
        with self.out.open("a") as file:
            print(json.dumps(row), file=file)


def _run(words: list[str], out: str) -> None:
    """Run tests in this process, and end it."""
    import pytest

    code = 3
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(_folder() / "log", os.O_WRONLY | os.O_APPEND)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    try:
        own = ["-p", "no:xdist", "-p", "no:cacheprovider"]
        code = int(pytest.main([*own, *words], plugins=[Recorder(out)]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _wait(child: int, seconds: float) -> str:
    """How a child ended; it and what it has started are gone then."""
    end = time.monotonic() + seconds
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not ended[0]:
        os.waitpid(child, 0)
        return "timeout"
    return {0: "passed", 5: "no tests"}.get(os.waitstatus_to_exitcode(ended[1]), "failed")


def main() -> None:
    """Answer one line after the other."""
    for name in HEAVY:
        __import__(name)
    for line in sys.stdin:
        words, out, seconds = json.loads(line)
        child = os.fork()
        if not child:
            _run(words, out)
        print(_wait(child, seconds), flush=True)


if __name__ == "__main__":
    main()
