"""Which experiments exist: the modules in a paper's folders ``figures``, ``rates`` and ``bridge``.

Ids come from the file system alone; a module is imported when its experiment is asked for, so that
the command line starts at once. A path to a Python file is an experiment too: the user's own, with
the same engine.
"""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from linsys import InputError
from ratecheck._discover import papers
from ratecheck._discover.user_file import load
from ratecheck._experiment.model import Experiment
from ratecheck._names import check_name

#: What the ids of experiments on language models begin with; they need more installed.
BRIDGE = "bridge"


def names() -> list[str]:
    """Every id of a synthetic experiment in alphabetical order, without importing anything."""
    return sorted(_synthetic())


def with_experiments() -> list[str]:
    """Every paper with at least one experiment."""
    return sorted({name.partition("/")[0] for name in names()})


def benchmarks() -> dict[str, str]:
    """Every benchmark's name and module."""
    packages = papers.installed(papers.BENCHMARKS).values()
    return {k: v for package in packages for k, v in papers.modules(package).items()}


def on_models() -> list[str]:
    """Every id of an experiment on language models."""
    return sorted(_on_models())


def _synthetic() -> dict[str, str]:
    """Id to module."""
    return {
        f"{paper}/{name}": module
        for paper, package in papers.installed().items()
        for folder in ("figures", "rates")
        for name, module in papers.modules(package, folder).items()
    }


def _on_models() -> dict[str, str]:
    """Id to module."""
    modules: dict[str, str] = {}
    for package in papers.installed().values():
        for name, module in papers.modules(package, BRIDGE).items():
            other = modules.setdefault(f"{BRIDGE}/{name}", module)
            if other != module:
                raise InputError(
                    f"files of papers' folders {BRIDGE} must have distinct names, as these are "
                    f"their ids; found {other} and {module}"
                )
    return modules


def find_experiment(reference: str) -> Experiment[Any]:
    """The experiment of this id, or in this Python file; InputError names the nearest id.

    Example::

        rc.find_experiment("affpcl/fig1")
        rc.find_experiment("path/to/average.py")
    """
    if reference.endswith(".py"):
        return _of_module(load(Path(reference), "experiment file"), None)
    papers.check_found(reference)
    check_name("experiment", reference, [*names(), *on_models()])
    module = importlib.import_module({**_synthetic(), **_on_models()}[reference])
    return _of_module(module, reference)


def match(references: Sequence[str]) -> list[str]:
    """The references with patterns ("affpcl/*") replaced by the ids they match; each id once."""
    matched: list[str] = []
    for reference in references:
        hits = [reference]
        if any(c in reference for c in "*?["):
            hits = fnmatch.filter([*names(), *on_models()], reference)
            if not hits:
                raise InputError(
                    f"experiment pattern must match an id; found {reference!r} that matches none"
                )
        matched += [hit for hit in hits if hit not in matched]
    return matched


def rates(paper: str, variables: str | None = None) -> list[Experiment[Any]]:
    """The rates of a paper, or those in the variables of a list such as "t,n"."""
    check_name("paper", paper, with_experiments())
    experiments = [find_experiment(name) for name in names() if name.startswith(f"{paper}/")]
    chosen = [experiment for experiment in experiments if experiment.kind == "rate"]
    if not chosen:
        raise InputError(f"paper must have rates; found none for {paper}")
    if variables is None:
        return chosen
    of = sorted({experiment.variable for experiment in chosen})
    wanted = [check_name("variable of `--in`", part.strip(), of) for part in variables.split(",")]
    return [experiment for experiment in chosen if experiment.variable in wanted]


def _of_module(module: ModuleType, expected: str | None) -> Experiment[Any]:
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        kind = "none" if experiment is None else type(experiment).__name__
        raise InputError(f"{module.__file__} must define EXPERIMENT; found {kind}")
    if expected is not None and experiment.id != expected:
        raise InputError(f"`id` in {module.__file__} must be {expected}; found {experiment.id}")
    return experiment
