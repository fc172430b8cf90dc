"""How the commands run experiments: progress on stderr, one failure without harm to the others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from experiments import _registry
from experiments._job import Job, Outcome
from experiments._machine import cores
from experiments._report import progress_bar, said
from experiments._runner import Interrupted
from experiments._store import Store
from linsys import InputError


def job(out: Path, profile: str, threads: int | None, **options: Any) -> Job:
    """The job with these options on all cores, unless ``threads`` says how many."""
    return Job(
        profile=profile,
        store=Store(out, writable=not options.get("redraw", False)),
        threads=cores() if threads is None else threads,
        **options,
    )


def perform(work: Job, reference: str) -> Outcome:
    """Run one experiment with a bar on stderr."""
    # what a computation prints is no part of the answer
    with redirect_stdout(sys.stderr), progress_bar(reference) as progress:
        return work.perform(reference, progress)


def perform_all(work: Job) -> tuple[dict[str, Outcome], dict[str, str]]:
    """The outcome of every experiment that runs, and why the others did not, by id."""
    outcomes: dict[str, Outcome] = {}
    failures: dict[str, str] = {}
    for name in _registry.names():
        try:
            outcomes[name] = perform(work, name)
        except Interrupted:
            raise
        except Exception as error:  # one broken experiment must not cost the others
            failures[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            _note(f"{name} did not run: {failures[name]}")
        else:
            _note(f"{name}: {said(outcomes[name])}")
    return outcomes, failures


def figures_or_error(outcomes: Sequence[Outcome]) -> None:
    """Say after the answer, which stays valid, that figures could not be written."""
    for outcome in outcomes:
        if outcome.problem:
            raise InputError(outcome.problem)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
