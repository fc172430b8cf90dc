"""What people wait for: commands from their start to their end, in processes of their own.

``ratecheck bench commands`` times; ``python -m experiments.benchmarks.commands`` also writes the
tables under ``results/``, and with ``--before FOLDER`` compares with the project as it was, of
which FOLDER is a checkout. The peer is the goal that is set for a command, or that revision;
"correct" means that the command ended with exit code 0. Times are CPU seconds of the command and
its workers, the least of some runs: what else runs on a machine makes them longer by a little, and
times by the clock by a lot. Whether a goal is met the table says by both. On a virtual machine a
CPU second is worth less while its neighbours compute: a loop of plain Python is timed before and
after, so that tables of two days can be compared.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import ratecheck as rc
from experiments.benchmarks._timing import alone
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
#: What runs, its arguments for Python, whether nothing compiled is there before, and the goal in
#: seconds, if one is set. They share a folder: the report is of the verdicts before it, and the
#: second listing finds what the first has kept.
Step = tuple[str, tuple[str, ...], bool, float | None]
STEPS: tuple[Step, ...] = (
    ("import ratecheck", ("-c", "import ratecheck"), False, 0.3),
    ("ratecheck --help", (*_COMMAND, "--help"), False, 0.2),
    ("ratecheck list, for the first time", (*_COMMAND, "list"), True, 0.7),
    ("ratecheck list, again", (*_COMMAND, "list"), False, 0.7),
    ("ratecheck audit affpcl.d1a, nothing compiled", _AUDIT, True, 10.0),
    ("ratecheck audit affpcl.d1a, compiled", (*_AUDIT, "--seed", "1"), False, None),
    (
        "ratecheck audit mine.py, a statement of one's own",
        (*_COMMAND, "audit", "mine.py"),
        False,
        None,
    ),
    ("ratecheck report, of these verdicts", (*_COMMAND, "report"), False, None),
)
#: Additions of the loop of plain Python.
ADDITIONS = 20_000_000
#: What takes minutes: it runs once, of this revision alone, and not if it has to be quick.
LONG: Step = ("ratecheck reproduce, nothing compiled", (*_COMMAND, "reproduce"), True, 300.0)


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` runs each command once."""
    return measure(quick).rows


def measure(quick: bool, before: Path | None = None) -> Measured:
    """Every row, with the seconds by the clock beside it; ``before`` is a checkout to compare with.

    Raises:
        InputError: ``before`` is no checkout of the project.
    """
    measured = Measured()
    loops = [_loop()]
    _adopt_orphans()
    trees = [None] if before is None else [None, before]
    peers = ["the goal"] if before is None else ["the goal", f"revision {_revision(before)}"]
    seen: dict[tuple[str, Path | None], list[tuple[float, float, bool]]] = {}
    for turn in range(1 if quick else 3):
        for tree in trees:
            long = not quick and turn == 0 and tree is None
            for name, spent in _in_turn((*STEPS, LONG) if long else STEPS, tree):
                seen.setdefault((name, tree), []).append(spent)
    clocks, goals = {}, {}
    for name, _, _, goal in STEPS if quick else (*STEPS, LONG):
        cpu, clock, ended = zip(*seen[name, None], strict=True)
        clocks[f"seconds, {name}"] = min(clock)
        if goal is not None:
            met = [_met(spent, goal) for spent in (min(cpu), min(clock))]
            goals[name] = f"{goal:g} s: {met[0]} in CPU time, {met[1]} by the clock"
        for peer, tree in zip(peers, trees, strict=True):
            theirs = goal if tree is None else _least(seen.get((name, tree)))
            if theirs is None:
                continue
            row = rc.BenchRow(name, peer, min(cpu), theirs, all(ended))
            measured.add(row, clock_s=min(clock), cpu_s=list(cpu))
            if tree is not None:
                clocks[f"seconds, {name}, {peer}"] = min(c for _, c, _ in seen[name, tree])
    loops.append(_loop())
    measured.details["CPU seconds of a loop of 20 million additions"] = {
        when: f"{spent:.2f}" for when, spent in zip(("before", "after"), loops, strict=True)
    }
    measured.details["goals"] = goals
    measured.details["by the clock"] = clocks
    return measured


def _loop() -> float:
    """CPU seconds of a loop of plain Python, the least of three."""
    least = float("inf")
    for _ in range(3):
        begun, total = time.process_time(), 0
        for number in range(ADDITIONS):
            total += number
        least = min(least, time.process_time() - begun)
    return least


def _met(spent: float, goal: float) -> str:
    return "met" if spent <= goal else f"missed by {spent - goal:.3g} s"


def _least(spent: Sequence[tuple[float, float, bool]] | None) -> float | None:
    """The least CPU seconds of some runs, if there were any."""
    return min((cpu for cpu, _, _ in spent), default=None) if spent else None


def _revision(tree: Path) -> str:
    """The revision of a checkout, which Git says."""
    said = subprocess.run(
        ["git", "-C", str(tree), "rev-parse", "--short=8", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    if said.returncode or not (tree / "ratecheck").is_dir():
        raise rc.InputError(f"`--before` must be a checkout of the project; found {tree}")
    return said.stdout.strip()


def _in_turn(
    steps: Sequence[Step], tree: Path | None
) -> Iterator[tuple[str, tuple[float, float, bool]]]:
    """What each step took, in a folder that they share, with the packages of a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mine.py").write_text(CLAIM)
        compiled = None  # by then
        for number, (name, arguments, fresh, _) in enumerate(steps):
            if fresh:
                compiled = Path(folder) / f"compiled-{number}"
            yield name, _spent(arguments, Path(folder), compiled, tree)


def _spent(
    arguments: Sequence[str], folder: Path, compiled: Path | None, tree: Path | None
) -> tuple[float, float, bool]:
    """CPU seconds and seconds by the clock of Python with these arguments, and whether it ended."""
    named = arguments[2:3] in (("list",), ("audit",), ("report",), ("reproduce",))
    out = ("--out", str(folder / "results")) if named else ()
    variables = {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONSAFEPATH": "1"}
    if compiled is not None:
        variables["NUMBA_CACHE_DIR"] = str(compiled)
    if tree is not None:
        variables["PYTHONPATH"] = str(tree)
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments, *out],
        cwd=folder,
        env={**alone(), **variables},
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

    parser = argparse.ArgumentParser(description="Time commands and write the tables.")
    parser.add_argument("--quick", action="store_true", help="each command once, none of minutes")
    parser.add_argument("--before", type=Path, help="a checkout of the project to compare with")
    given = parser.parse_args()
    write("commands", measure(given.quick, given.before and given.before.resolve()))
