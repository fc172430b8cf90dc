"""What people wait for: commands from their start to their end, in processes of their own.

``ratecheck bench commands`` times; ``python -m experiments.benchmarks.commands`` also writes the
tables under ``results/``. The peer is the goal that we have set; "correct" means that the command
ended with exit code 0. Times are CPU seconds of the command and its workers, the least of some
runs: what else runs on a machine makes them longer by a little, and times by the clock by a lot.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import ratecheck as rc
from experiments.benchmarks.affpcl import Measured

__all__ = ["measure", "run"]

#: A statement as a user begins with one.
CLAIM = """import ratecheck as rc

PAPER = rc.Paper("mine", "My paper")


@PAPER.upper("mass", ref="Lemma 1", on={"p": rc.simplex("k")})
def mass(p):
    "No probability exceeds one."
    return p.max(), 1
"""
#: The number of the call in Linux's <sys/prctl.h>.
_PR_SET_CHILD_SUBREAPER = 36
_COMMAND = ("-m", "ratecheck")
_AUDIT = (*_COMMAND, "audit", "affpcl.d1a")
#: What runs, its arguments for Python, whether nothing compiled is there before, the goal in CPU
#: seconds. They share a folder: the report is of the verdicts before it, and the second listing
#: finds what the first has kept.
STEPS: tuple[tuple[str, tuple[str, ...], bool, float], ...] = (
    ("import ratecheck", ("-c", "import ratecheck"), False, 0.3),
    ("ratecheck --help", (*_COMMAND, "--help"), False, 0.2),
    ("ratecheck list, for the first time", (*_COMMAND, "list"), True, 0.7),
    ("ratecheck list, again", (*_COMMAND, "list"), False, 0.7),
    ("ratecheck audit affpcl.d1a, nothing compiled", _AUDIT, True, 10.0),
    ("ratecheck audit affpcl.d1a, compiled", (*_AUDIT, "--seed", "1"), False, 10.0),
    (
        "ratecheck audit mine.py, a statement of one's own",
        (*_COMMAND, "audit", "mine.py"),
        False,
        10.0,
    ),
    ("ratecheck report, of these verdicts", (*_COMMAND, "report"), False, 10.0),
)


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` runs each command once."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row, with the seconds by the clock beside it."""
    measured = Measured()
    _adopt_orphans()
    seen: dict[str, list[tuple[float, float, bool]]] = {}
    for _ in range(1 if quick else 3):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "mine.py").write_text(CLAIM)
            for number, (name, arguments, fresh, _) in enumerate(STEPS):
                if fresh:
                    compiled = Path(folder) / f"compiled-{number}"
                spent = _spent(arguments, Path(folder), compiled if number > 1 else None)
                seen.setdefault(name, []).append(spent)
    for name, _, _, goal in STEPS:
        cpu, clock, ended = zip(*seen[name], strict=True)
        row = rc.BenchRow(name, "the goal", min(cpu), goal, all(ended))
        measured.add(row, clock_s=min(clock), cpu_s=list(cpu))
    clocks = {f"seconds, {name}": min(c for _, c, _ in seen[name]) for name, *_ in STEPS}
    measured.details["by the clock"] = clocks
    return measured


def _spent(
    arguments: Sequence[str], folder: Path, compiled: Path | None
) -> tuple[float, float, bool]:
    """CPU seconds and seconds by the clock of Python with these arguments, and whether it ended."""
    named = arguments[2:3] in (("list",), ("audit",), ("report",))
    out = ("--out", str(folder / "results")) if named else ()
    variables = {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONSAFEPATH": "1"}
    if compiled is not None:
        variables["NUMBA_CACHE_DIR"] = str(compiled)
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments, *out],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    clock = time.perf_counter() - start
    _wait_for_orphans()
    after = os.times()
    cpu = after.children_user + after.children_system
    return cpu - before.children_user - before.children_system, clock, done.returncode == 0


def _adopt_orphans() -> None:
    """Make processes of a command that outlive it ours, on Linux, so that their time is counted.

    Workers are children of a process that the command starts and does not wait for.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _wait_for_orphans() -> None:
    with contextlib.suppress(ChildProcessError):  # nobody is left
        while True:
            os.wait()


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("commands", measure("--quick" in sys.argv))
