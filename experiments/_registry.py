"""Which experiments exist: every public module of ``experiments.<paper>``, read on demand.

Names ("paper/module") come from the file system alone; a module is imported when its experiment is
asked for, so that the command line starts at once. A path to a Python file is an experiment too:
the user's own, with the same engine.
"""

from __future__ import annotations

import fnmatch
import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import experiments
from experiments._model import Experiment
from experiments._names import known
from experiments._user_file import load
from linsys import InputError

#: The sub-package of experiments on language models, which need an installation of their own.
BRIDGE = "bridge"
#: Sub-packages of ``experiments`` that hold no paper.
_NOT_PAPERS = {"audit", "benchmarks", BRIDGE, "claims"}


def names() -> list[str]:
    """Every id of a synthetic experiment in alphabetical order, without importing anything."""
    found = []
    for paper in pkgutil.iter_modules(experiments.__path__):
        if paper.ispkg and paper.name not in _NOT_PAPERS and not paper.name.startswith("_"):
            folders = [str(Path(root) / paper.name) for root in experiments.__path__]
            found += [f"{paper.name}/{m.name}" for m in _public(folders)]
    return sorted(found)


def papers() -> list[str]:
    """Every paper with at least one experiment."""
    return sorted({name.partition("/")[0] for name in names()})


def benchmarks() -> list[str]:
    """Every benchmark's name."""
    return _modules("benchmarks")


def on_models() -> list[str]:
    """Every id of an experiment on language models."""
    return [f"{BRIDGE}/{name}" for name in _modules(BRIDGE)]


def get(reference: str) -> Experiment[Any]:
    """The experiment of this id, or in this Python file; InputError names the nearest id."""
    if reference.endswith(".py"):
        return _of_module(load(Path(reference), "experiment file"), None)
    known("experiment", reference, [*names(), *on_models()])
    module = importlib.import_module(f"experiments.{reference.replace('/', '.')}")
    return _of_module(module, reference)


def match(references: Sequence[str]) -> list[str]:
    """The references with patterns ("affpcl/*") replaced by the ids they match; each id once."""
    found: list[str] = []
    for reference in references:
        hits = [reference]
        if any(c in reference for c in "*?["):
            hits = fnmatch.filter([*names(), *on_models()], reference)
            if not hits:
                raise InputError(
                    f"experiment pattern must match an id; found {reference!r} that matches none"
                )
        found += [hit for hit in hits if hit not in found]
    return found


def rates(paper: str, variables: str | None = None) -> list[Experiment[Any]]:
    """The rates of a paper, or those in the variables of a list such as "t,n"."""
    known("paper", paper, papers())
    found = [get(name) for name in names() if name.startswith(f"{paper}/")]
    chosen = [experiment for experiment in found if experiment.kind == "rate"]
    if not chosen:
        raise InputError(f"paper must have rates; found none for {paper}")
    if variables is None:
        return chosen
    of = sorted({experiment.variable for experiment in chosen})
    wanted = [known("variable of `--in`", part.strip(), of) for part in variables.split(",")]
    return [experiment for experiment in chosen if experiment.variable in wanted]


def _modules(package: str) -> list[str]:
    folders = [str(Path(root) / package) for root in experiments.__path__]
    return sorted(m.name for m in _public(folders))


def _public(folders: list[str]) -> list[pkgutil.ModuleInfo]:
    return [m for m in pkgutil.iter_modules(folders) if not m.name.startswith("_")]


def _of_module(module: ModuleType, expected: str | None) -> Experiment[Any]:
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise InputError(
            f"{module.__file__} must define EXPERIMENT; found {type(experiment).__name__}"
        )
    if expected is not None and experiment.id != expected:
        raise InputError(f"`id` in {module.__file__} must be {expected}; found {experiment.id}")
    return experiment
