"""Which experiments exist: the modules in a paper's folders ``figures``, ``rates`` and ``bridge``.

Ids come from the file system alone; a module is imported when its experiment is asked for, so that
the command line starts at once. A path to a Python file is an experiment too: the user's own, with
the same engine. Files that the user's project names are read to know their ids, by whoever asks for
all of them or for one that no installed paper has.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from linsys.validate import InputError, check_instance
from ratecheck._claims.claim import claims_of
from ratecheck._discover import papers, project
from ratecheck._discover.references import chosen, is_reference, joined, one_of, split_paper
from ratecheck._discover.table import Broken, find_table
from ratecheck._discover.user_file import load
from ratecheck._experiment.model import Experiment
from ratecheck._fallback import import_ours
from ratecheck._names import check_name, check_no_path

#: What the ids of experiments on language models begin with; they need more installed.
BRIDGE = project.BRIDGE


def names(broken: Broken = lambda fault: None) -> list[str]:
    """Every id of a synthetic experiment in alphabetical order.

    Without a project nothing is imported. ``broken`` is told in one line of every file of the
    project that cannot be imported.
    """
    return sorted({*_synthetic(), *(name for name in _own(broken) if not _is_on_model(name))})


def benchmarks() -> dict[str, str]:
    """Every benchmark's name and module."""
    packages = papers.installed(papers.BENCHMARKS).values()
    return {k: v for package in packages for k, v in papers.modules(package).items()}


def on_models() -> list[str]:
    """Every id of an experiment on language models."""
    return sorted({*_on_models(), *filter(_is_on_model, _own(lambda fault: None))})


def papers_of_models() -> dict[str, str]:
    """The short name of the paper of every experiment on language models, by the experiment's id.

    Of the project's those whose folder says which paper it is of.
    """
    own, places = _own_and_places(lambda fault: None)
    of_files = project.papers_by_file(lambda fault: None) if any(map(_is_on_model, own)) else {}
    of_own = {name: of_files[place] for name, place in places.items() if _is_on_model(name)}
    of_installed = {name: of for name, of in _papers_of().items() if _is_on_model(name)}
    return of_installed | {name: of[0] for name, of in of_own.items() if of}


def of_papers(broken: Broken, only: str | None = None) -> list[tuple[str, Experiment[Any]]]:
    """Every experiment of an installed paper and the paper's short name, in alphabetical order.

    Those on language models come last. ``broken`` is told in one line of every module that cannot
    be imported.

    Args:
        broken: as above.
        only: the short name of the paper whose experiments are wanted; None: of all.
    """
    experiments = []
    for name, paper in _papers_of().items():
        if only not in (None, paper):
            continue
        try:
            experiments.append((paper, find_experiment(name)))
        except InputError as error:
            broken(str(error))
    return experiments


def _papers_of() -> dict[str, str]:
    """The id of every experiment of an installed paper and the paper's short name."""
    modules = {**dict(sorted(_synthetic().items())), **dict(sorted(_on_models().items()))}
    packages = papers.installed().items()
    return {
        name: next(paper for paper, package in packages if module.startswith(f"{package}."))
        for name, module in modules.items()
    }


def of_project(broken: Broken) -> list[Experiment[Any]]:
    """Every experiment in the files of the user's project."""
    return list(_own(broken).values())


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


def _own(broken: Broken) -> dict[str, Experiment[Any]]:
    """The experiments of the user's project by their ids."""
    return _own_and_places(broken)[0]


def _own_and_places(broken: Broken) -> tuple[dict[str, Experiment[Any]], dict[str, Path]]:
    """The experiments of the user's project, and their files, by their ids."""
    taken = {**_on_models(), **_synthetic()}
    own: dict[str, Experiment[Any]] = {}
    places: dict[str, Path] = {}
    for path, module in project.modules(broken):
        experiment = getattr(module, "EXPERIMENT", None)
        if not isinstance(experiment, Experiment):
            continue
        name = experiment.id
        try:
            papers.check_free(name.partition("/")[0], f"experiment {name} in {path}")
            if name in taken or name in own:
                raise InputError(
                    f"ids of experiments must be distinct; found {name} in {path} and in "
                    f"{taken.get(name) or places[name]}"
                )
        except InputError as error:
            broken(str(error))
            continue
        own[name], places[name] = experiment, path
    return own, places


def _is_on_model(name: str) -> bool:
    return name.startswith(f"{BRIDGE}/")


def find_experiment(reference: str) -> Experiment[Any]:
    """The experiment of this id, in this Python file, or of this figure of a paper.

    Raises:
        InputError: there is none, and it names the nearest id; the text names several; or its
            import fails.

    Example::

        rc.find_experiment("affpcl/fig1")
        rc.find_experiment("fslora Figure 5")
        rc.find_experiment("path/to/average.py")
    """
    check_instance("reference", reference, str, "an id, a file or what a paper calls it")
    if reference.endswith(".py"):
        return _of_module(load(Path(reference), "experiment file"), None)
    papers.check_found(reference)
    modules = {**_synthetic(), **_on_models()}
    if reference in modules:
        return _imported(reference, modules[reference])
    faults: list[str] = []
    own = _own(faults.append)
    if reference in own:
        return own[reference]
    if is_reference(reference):
        named = _called(reference, own)
        if named is not None:
            return named
    project.check_no_file("experiment", reference)
    known = sorted({*modules, *own})
    check_no_path("experiment", reference, known)
    try:
        return own[check_name("experiment", reference, known)]
    except InputError as error:  # it may be in a file that cannot be read
        claims = "/" not in reference and (is_reference(reference) or "." in reference)
        hint = ["of claims: ratecheck audit ID --show"] if claims else []
        raise InputError("; ".join([str(error), *hint, *faults])) from None


def _imported(name: str, module: str) -> Experiment[Any]:
    """The experiment of an installed paper."""
    try:
        return _of_module(import_ours(module), name)
    except InputError:
        raise
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"module {module} of {name} must import without error; found {said}"
        ) from error


def _called(text: str, own: Mapping[str, Experiment[Any]]) -> Experiment[Any] | None:
    """The only experiment that papers call so; see :mod:`ratecheck._discover.references`."""
    paper, rest = split_paper(text, {name.partition("/")[0]: "" for name in own})
    known = {
        name: find_experiment(name)
        for name, of in _papers_of().items()
        if paper in (None, of) and not ("/" in text and _is_on_model(name))
    }
    known |= {n: one for n, one in own.items() if paper in (None, n.partition("/")[0])}
    sources = {name: experiment.source for name, experiment in known.items()}
    called = chosen(rest, sources)
    synthetic = [name for name in called if not _is_on_model(name)]
    name = one_of("experiment", text, synthetic if len(synthetic) == 1 else called)
    return None if name is None else known[name]


def match(references: Sequence[str], broken: Broken = project.raise_fault) -> list[str]:
    """The ids and files that references name, each once.

    A pattern ("affpcl/*") stands for the ids that it matches, a folder for the experiments in its
    files; those on language models only where the folder has no others. ``broken`` is told in one
    line of every file that cannot be imported, in place of an error.
    """
    matched: list[str] = []
    own = {name.partition("/")[0] for name in _own(broken)} if len(references) > 1 else ()
    for reference in joined(references, own):
        hits = [reference]
        if any(c in reference for c in "*?["):
            hits = fnmatch.filter([*names(broken), *on_models()], reference)
            if not hits:
                raise InputError(
                    f"experiment pattern must match an id; found {reference!r} that matches none"
                )
        elif project.is_folder(reference):
            hits = _in_folder(Path(reference), broken)
        elif not reference.endswith(".py") and is_reference(reference):
            hits = [find_experiment(reference).id]
        matched += [hit for hit in hits if hit not in matched]
    return matched


def _in_folder(folder: Path, broken: Broken) -> list[str]:
    """The files of a folder that define experiments, at least one."""
    on_models: dict[str, bool] = {}
    for path in project.files_of(folder):
        try:
            experiment = getattr(load(path, "experiment file"), "EXPERIMENT", None)
        except InputError as error:
            broken(str(error))
            continue
        if isinstance(experiment, Experiment):
            on_models[str(path)] = _is_on_model(experiment.id)
    chosen = [path for path, on_model in on_models.items() if not on_model] or list(on_models)
    if not chosen:
        raise InputError(f"folder must hold files with EXPERIMENT; found none in {folder}")
    return chosen


def rates(
    paper: str | None, variables: str | None = None, broken: Broken = project.raise_fault
) -> dict[str, Experiment[Any]]:
    """The rates of a paper, a folder or a file, or those in the variables of a list such as "t,n".

    By what :func:`find_experiment` finds them by. Without a paper they are those of the user's
    project. ``broken`` is told in one line of every file that cannot be imported, in place of an
    error.

    Raises:
        InputError: no paper where there is no project, or one that has no such rates.
    """
    if paper is None:
        if find_table(broken) is None:
            listed = ", ".join(sorted({name.partition("/")[0] for name in _synthetic()}))
            raise InputError(f"paper must be one of {listed}, or a folder or file; found none")
        known = sorted(_own(broken))
    elif project.is_folder(paper):
        known = _in_folder(Path(paper), broken)
    elif paper.endswith(".py"):
        known = [paper]
    else:
        known = sorted(_synthetic()) if paper in papers.installed() else names(broken)
        short = sorted({name.partition("/")[0] for name in known})
        check_no_path("paper", paper, short)
        check_name("paper", paper, short)
        known = [name for name in known if name.startswith(f"{paper}/")]
    experiments = {name: find_experiment(name) for name in known}
    chosen = {name: one for name, one in experiments.items() if one.kind == "rate"}
    if not chosen:
        raise InputError(f"paper must have rates; found none for {paper or 'this project'}")
    if variables is None:
        return chosen
    of = sorted({one.variable for one in chosen.values()})
    wanted = [check_name("variable of `--in`", part.strip(), of) for part in variables.split(",")]
    return {name: one for name, one in chosen.items() if one.variable in wanted}


def _of_module(module: ModuleType, expected: str | None) -> Experiment[Any]:
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        found = "none" if experiment is None else type(experiment).__name__
        if claims := [entry.id for entry in claims_of(module)]:
            ids = ", ".join(claims[:3]) + (", .." if len(claims) > 3 else "")
            found += f", but claims ({ids}): ratecheck audit {module.__file__} --show"
        raise InputError(f"{module.__file__} must define EXPERIMENT; found {found}")
    if expected is not None and experiment.id != expected:
        raise InputError(f"`id` in {module.__file__} must be {expected}; found {experiment.id}")
    return experiment
