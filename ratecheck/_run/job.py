"""One experiment from name to verdict: configure, compute what is missing, analyse, draw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from linsys.validate import InputError
from ratecheck._discover import registry
from ratecheck._experiment.model import PROFILES, Analysis, Config, Experiment
from ratecheck._experiment.options import configure
from ratecheck._names import check_name
from ratecheck._processes.ended import ProcessEnded
from ratecheck._processes.interrupts import Interrupted, Progress
from ratecheck._run import plan as plans
from ratecheck._run.metrics import RUNS
from ratecheck._run.plan import Plan
from ratecheck._run.runner import redraw, run
from ratecheck._store.store import Store


@dataclass(frozen=True)
class Outcome:
    """What one run gave; ``figures`` are the files written, ``notes`` what the reader must know.

    ``problem`` says in one line why there are no figures although they were asked for.
    """

    experiment: Experiment[Any]
    config: Config
    analysis: Analysis
    figures: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether no check is contradicted; one that is not decided is no failure."""
        return self.count(False) == 0

    def count(self, ok: bool | None) -> int:
        """How many checks came out like this: True holds, None is not decided, False fails."""
        return sum(check.ok is ok for check in self.analysis.checks)

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain JSON values."""
        return {
            "experiment": self.experiment.id,
            "parameters": self.config.to_dict(),
            "series": [s.to_dict() for s in self.analysis.series],
            "checks": [c.to_dict() for c in self.analysis.checks],
        }


@dataclass(frozen=True)
class Job:
    """How to run experiments; ``perform`` runs one.

    ``changed`` are parameters with other values than profile and overrides give them, ``plan`` what
    was said of the one experiment that is run; ``tensorboard`` and ``save_adapters`` are what
    :func:`run` takes.
    """

    store: Store
    profile: str = "quick"
    seed: int | None = None
    overrides: tuple[str, ...] = ()
    threads: int = 1
    figures: bool = True
    redraw: bool = False
    changed: Mapping[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    tensorboard: Path | None = None
    save_adapters: int | None = None

    def __post_init__(self) -> None:
        check_name("`profile`", self.profile, PROFILES)
        if self.threads < 1:
            raise InputError(f"`threads` must be at least 1; found {self.threads}")
        if self.seed is not None:
            Config(seed=self.seed)  # refuses what is no seed, whatever the experiment
        for name in ("tensorboard", "save_adapters"):
            if self.redraw and getattr(self, name) is not None:
                raise InputError(f"`{name}` must not be given with redraw, which computes nothing")
        if self.figures and not self.redraw:
            self.store.check_figures()

    def prepare(self, reference: str) -> tuple[Experiment[Any], Config]:
        """The experiment and its checked configuration; a data file it names must be readable."""
        experiment = registry.find_experiment(reference)
        with self._naming_what_is_given(experiment.id):
            config = configure(experiment, self.profile, self.overrides, self.seed)
            config = replace(config, **self.changed)
            self.store.result(experiment, config)
        return experiment, config

    def planned(self, reference: str) -> Job:
        """This job with the plan of an experiment on a language model."""
        experiment, config = self.prepare(reference)
        return replace(self, plan=plans.planned(experiment, config, self.store, self.threads))

    def fitted(self, reference: str, seconds: float, planning: float) -> Job:
        """The planned job with fewer rounds or draws where it would take longer, planned anew.

        ``seconds`` include those that the plan took, ``planning``, and those of the new one.

        Raises:
            InputError: an experiment that cannot be made smaller, or not so small.
        """
        assert self.plan is not None
        _, config = self.prepare(reference)
        changed = plans.fitted(config, self.plan, seconds, planning)
        if not changed:
            return self
        return replace(self, changed={**self.changed, **changed}).planned(reference)

    def perform(self, reference: str, progress: Progress | None = None) -> Outcome:
        """Run one experiment, or draw it again from the store."""
        experiment, config = self.prepare(reference)
        with self._naming_what_is_given(experiment.id):
            return self._perform(experiment, config, reference, progress)

    def _perform(
        self,
        experiment: Experiment[Any],
        config: Config,
        reference: str,
        progress: Progress | None,
    ) -> Outcome:
        notes: list[str] = []
        if self.redraw:
            table, result = redraw(experiment, config, self.store)
            if result.revision != self.store.result(experiment, config).revision:
                notes.append(
                    f"drawn from results of older source code (revision {result.revision})"
                )
        else:
            table = run(
                experiment,
                config,
                self.store,
                threads=self.threads,
                progress=progress,
                reference=reference,
                plan=self.plan,
                tensorboard=self.tensorboard,
                save_adapters=self.save_adapters,
            )
        analysis = experiment.analyse(config, table)
        drawn: tuple[Path, ...] = ()
        problem = ""
        if self.figures:
            try:
                drawn = self._draw(experiment, config, analysis)
            except InputError as error:  # the checks are worth their answer without a picture
                problem = str(error)
        return Outcome(experiment, config, analysis, drawn, (*analysis.notes, *notes), problem)

    @contextmanager
    def _naming_what_is_given(self, name: str) -> Iterator[None]:
        """Whatever the parameters of the command line lead to is said in a line that names them.

        Without such parameters an exception of an experiment passes through: it is a mistake there.
        """
        given = [override.partition("=")[0] for override in self.overrides]
        try:
            yield
        except ProcessEnded:  # it may be no fault of theirs
            raise
        except InputError as error:
            if not given or any(re.search(rf"\b{re.escape(key)}\b", str(error)) for key in given):
                raise
            raise InputError(f"{error}; given: {', '.join(self.overrides)}") from None
        except Interrupted:
            raise
        except Exception as error:
            if not given:
                raise
            cause = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(
                f"parameters {', '.join(self.overrides)} must be such that {name} can be computed; "
                f"found {cause}"
            ) from error

    def runs_folder(self, reference: str) -> Path | None:
        """Where measurements and adapters of an experiment's runs are, if there are any."""
        place = self.store.result(*self.prepare(reference)).folder / RUNS
        return place if place.exists() else None

    def _draw(
        self, experiment: Experiment[Any], config: Config, analysis: Analysis
    ) -> tuple[Path, ...]:
        from ratecheck._experiment.plots import collecting_later, figure_of, save, style

        name = f"{experiment.id.replace('/', '-')}-{self.profile}"
        if config != experiment.profiles[self.profile]:  # never over the profile's own figure
            name += f"-{self.store.result(experiment, config).parameters[:8]}"
        with style(), collecting_later():  # the figure is garbage at the end
            return tuple(save(figure_of(experiment, config, analysis), self.store.figures / name))
