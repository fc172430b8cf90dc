"""Worst cases of ten textbook methods: ours against PEPit, and what an exact proof takes besides.

``ratecheck bench certify`` times; ``python -m experiments.benchmarks.certify`` also writes the
tables under ``results/``. Both build the semidefinite program of a method from its few lines and
solve it by Clarabel through cvxpy, in turn on one core. "Correct" means: the two worst cases differ
by no more than 1e-6, and ours from the closed form by no more than that.

The details have the seconds of the proof, from the statement to verified multipliers in rationals;
PEPit's dual multipliers are floats.
"""

from __future__ import annotations

import importlib.metadata
import sys
from fractions import Fraction
from functools import partial
from typing import Any

import ratecheck as rc
from experiments.benchmarks._textbook import RATES, problem
from experiments.benchmarks._timing import duel, one_core, seconds
from experiments.benchmarks.affpcl import Measured

__all__ = ["measure", "run"]

#: How far two worst cases may be apart: the accuracy of the solver, with room.
SAME = 1e-6


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` repeats less often."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread, and the proofs."""
    rc.check_installed("bench", "PEPit")
    from experiments.benchmarks import _textbook_pepit as pepit

    measured = Measured()
    version = importlib.metadata.version("pepit")
    proofs: dict[str, Any] = {}
    with one_core():
        for name, (_, exact) in RATES.items():
            ours, theirs = rc.gram.worst_case(problem(name)).value, pepit.solved(name)
            correct = abs(ours - theirs) <= SAME
            correct &= abs(ours - float(exact)) <= SAME
            times = duel(
                lambda name=name: seconds(lambda: rc.gram.worst_case(problem(name))),  # type: ignore[misc]
                partial(seconds, partial(pepit.solved, name)),
                0.5 if quick else 3.0,
            )
            row = rc.BenchRow(
                name=f"{name}: {ours:.7f} and {theirs:.7f}",
                peer=f"PEPit {version}",
                ours_s=min(times.ours),
                peer_s=min(times.peer),
                correct=bool(correct),
            )
            measured.add(row, **times.summary(1))
            proofs[f"{name}, {exact} proved, seconds"] = seconds(partial(_proved, name, exact))
    measured.details["exact proofs of the closed forms, for all dimensions"] = proofs
    return measured


def _proved(name: str, exact: Fraction) -> None:
    p = problem(name)
    assert p.conclusion is not None
    p.show(p.conclusion.measured <= exact * p.conclusion.bound)
    rc.gram.prove(p).check()


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("certify", measure("--quick" in sys.argv))
