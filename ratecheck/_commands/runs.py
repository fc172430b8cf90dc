"""How the commands run experiments: progress on stderr, one failure without harm to the others."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from linsys.validate import InputError
from ratecheck._discover import registry
from ratecheck._processes import elsewhere
from ratecheck._processes.ended import ProcessEnded, in_words
from ratecheck._processes.interrupts import Interrupted
from ratecheck._processes.pool import call_in_processes
from ratecheck._report.experiments import said
from ratecheck._report.terminal import progress_bar, width_of, wrapped
from ratecheck._run.job import Job, Outcome
from ratecheck._run.plan import duration
from ratecheck._store.files import check_writable, write_whole
from ratecheck._store.machine import cores
from ratecheck._store.store import Store

#: What most experiments import, and takes long.
_LIBRARIES = ("matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "scipy.stats")

#: Seconds from which on it is said what is left of a run.
_LONG = 60.0


@contextmanager
def scheduled(address: str | None, out: Path, workers: int | None = None) -> Iterator[None]:
    """In this block computations go to a Dask cluster, unless the address is None or empty."""
    if not address:
        yield
        return
    from ratecheck._processes.cluster import on_cluster

    check_writable("output folder", out)
    with on_cluster(address, folder=out, workers=workers or cores()):
        yield


def at_a_time(threads: int | None) -> int:
    """How many worker processes there are at a time: as many as cores, unless it is said.

    Raises:
        InputError: less than one.
    """
    if threads is not None and threads < 1:
        raise InputError(f"`threads` must be at least 1; found {threads}")
    return cores() if threads is None else threads


def job(out: Path, profile: str, threads: int | None, **options: Any) -> Job:
    """The job with these options on all cores, unless ``threads`` says how many."""
    return Job(
        profile=profile,
        store=Store(out, writable=not options.get("redraw", False)),
        threads=cores() if threads is None else threads,
        **options,
    )


def planned(work: Job, reference: str, budget: float | None) -> Job:
    """The job with its plan, which is said on stderr, made to fit into ``budget`` seconds.

    Planning is a part of the budget. What was made smaller for it is so again, for the same command
    to go on where it was.
    """
    experiment, config = work.prepare(reference)
    if (
        work.profile == "quick"
        and getattr(config, "model", None)
        and "laptop" in experiment.profiles
    ):
        _note(
            "profile quick is sized for the built-in model; for a pretrained one: --profile laptop"
        )
    if budget is None:
        job = _tried(reference, lambda: work.planned(reference))
        _say_plan(job)
        return job
    place = work.store.result(experiment, config)
    kept = work.store.root / "budgets" / f"{place.folder.name}-{budget:g}.json"
    before = _fitted_before(work, reference, kept)
    began = time.perf_counter()
    job = _tried(reference, lambda: (before or work).planned(reference))
    _say_plan(job)
    if before is not None:
        return job
    planning = time.perf_counter() - began
    smaller = _tried(reference, lambda: job.fitted(reference, budget, planning))
    if smaller is not job:
        _say_changed(smaller)
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, json.dumps(dict(smaller.changed)).encode())
        _say_plan(smaller)
        spent = time.perf_counter() - began
        if smaller.plan is not None and spent + smaller.plan.seconds > 1.1 * budget:
            _note(
                f"that and {duration(spent)} of planning are above the budget: "
                "what was tried took longer than at first"
            )
    return smaller


def _tried(reference: str, plan: Callable[[], Job]) -> Job:
    """A job that is planned while a bar on stderr says so."""
    with progress_bar(reference) as bar:
        if bar is not None:
            bar.doing("planning: trying blocks, about a minute")
        return plan()


def _fitted_before(work: Job, reference: str, kept: Path) -> Job | None:
    """The job as it was made smaller for the same budget before, if it was."""
    if not kept.is_file():
        return None
    try:
        changed = json.loads(kept.read_bytes())
        values = {name: tuple(v) if isinstance(v, list) else v for name, v in changed.items()}
        job = replace(work, changed={**work.changed, **values})
        job.prepare(reference)
    except (OSError, ValueError, TypeError, AttributeError):  # damaged: it is fitted anew
        return None
    _say_changed(job)
    return job


def _say_changed(job: Job) -> None:
    _note("to fit the budget: " + ", ".join(f"{k}={v}" for k, v in job.changed.items()))


def _say_plan(job: Job) -> None:
    assert job.plan is not None
    for line in job.plan.lines():
        _note(line)


def perform(work: Job, reference: str) -> Outcome:
    """Run one experiment with a bar on stderr."""
    # what a computation prints is no part of the answer
    with redirect_stdout(sys.stderr), progress_bar(reference) as bar:
        # on a cluster nobody here knows how many blocks are computed at a time
        unknown = work.plan is not None or elsewhere.current() is not None
        progress = None if unknown else _Left(reference, work.threads)
        outcome = work.perform(reference, bar or progress)
    if place := work.runs_folder(reference):
        _note(f"what was measured along the runs: {place}")
    return outcome


class _Left:
    """Where no bar shows it: says once what the rest of a long run takes, if it goes on like that.

    Args:
        name: of the run.
        threads: blocks that are computed at a time, of which the first ones have to be done.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name, self._threads = name, threads
        self._start: tuple[float, float] | None = None  # the time, and blocks that were there
        self._said = False

    def __call__(self, done: float, total: int) -> None:
        if self._start is None:
            self._start = time.perf_counter(), done
        began, there = self._start
        computed = done - there
        if self._said or computed < self._threads:
            return
        self._said = True
        took = time.perf_counter() - began
        left = took * (total - done) / computed
        if left >= _LONG:
            _note(
                f"{self._name}: {computed:g} blocks took {duration(took)}; {total - done:g} are "
                f"left, {duration(left)} if they are like these"
            )


def perform_each(
    work: Job, references: Sequence[str], failed: Callable[[str], None]
) -> Iterator[Outcome]:
    """The outcomes of some experiments, one after the other.

    Args:
        work: how to run them.
        references: of the experiments.
        failed: told in a line of each whose process ended, as where memory is short.

    Raises:
        ProcessEnded: that of the only experiment.
    """
    for reference in references:
        try:
            outcome = perform(work, reference)
        except ProcessEnded as error:
            if len(references) == 1:
                raise
            failed(str(error))
        else:
            yield outcome


def perform_all(work: Job) -> tuple[dict[str, Outcome], dict[str, str]]:
    """The outcome of every experiment that runs, and why the others did not, by id.

    Each runs on one core, as many at a time as ``work.threads``: drawing and small blocks would
    leave the other cores idle.
    """
    names = registry.names()
    tasks = [(replace(work, threads=1), name) for name in names]
    done: dict[str, Outcome | str] = {}
    try:
        with redirect_stdout(sys.stderr), progress_bar("experiments") as progress:
            for position, answer in _answers(tasks, work.threads):
                name = names[position]
                if isinstance(answer, str):
                    done[name] = answer
                    _note(f"{name} did not run: {answer}")
                else:
                    done[name] = outcome = Outcome(*work.prepare(name), **answer)
                    _note(f"{name}: {said(outcome)}")
                if progress is not None:
                    progress(len(done), len(names))
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted(len(done), len(names), "experiments") from None
    answers = [(name, done[name]) for name in names]
    return (
        {name: answer for name, answer in answers if isinstance(answer, Outcome)},
        {name: answer for name, answer in answers if isinstance(answer, str)},
    )


def _answers(
    tasks: Sequence[tuple[Job, str]], threads: int
) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The position of each task and its outcome, or why it has none."""
    if threads == 1 and elsewhere.current() is None:  # this process may as well do it
        yield from ((position, _outcome_or_reason(*task)) for position, task in enumerate(tasks))
        return
    papers = [name.partition("/")[0] for _, name in tasks]  # experiments of one share computations
    for position, future in call_in_processes(
        _outcome_or_reason, tasks, threads, groups=papers, modules=_LIBRARIES
    ):
        try:
            yield position, future.result()
        except Exception as error:
            yield position, in_words(error)


def _outcome_or_reason(work: Job, name: str) -> dict[str, Any] | str:
    """The outcome of an experiment, without its functions, or a line on why there is none."""
    try:
        outcome = work.perform(name)
    except Interrupted:
        raise
    except Exception as error:  # one broken experiment must not cost the others
        return f"{type(error).__name__}: {error}".splitlines()[0]
    answers = ("analysis", "figures", "notes", "problem")
    return {key: getattr(outcome, key) for key in answers}


def figures_or_error(outcomes: Sequence[Outcome]) -> None:
    """Say after the answer, which stays valid, that figures could not be written."""
    for outcome in outcomes:
        if outcome.problem:
            raise InputError(outcome.problem)


def _note(text: str) -> None:
    width = width_of(sys.stderr)
    print("\n".join(wrapped(text, width) if width else [text]), file=sys.stderr, flush=True)
