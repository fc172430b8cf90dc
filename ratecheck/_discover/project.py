"""The user's own papers: files that the project of the current folder names in its pyproject.toml.

    [tool.ratecheck]
    files = ["my_paper", "notes/lemma.py"]

The table is looked for in the current folder and in those above it. Its entries are relative to its
file: Python files, and folders of such. Of a paper's folder the files in its folders ``claims``,
``figures``, ``rates`` and ``bridge`` count, of another one all its files and those below it that
mention ratecheck; private ones and tests never do. They are read anew by every command.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from linsys.validate import InputError
from ratecheck._claims.claim import Statement
from ratecheck._claims.made import made_by
from ratecheck._discover import papers
from ratecheck._discover.table import TABLE, Broken, find_table
from ratecheck._discover.user_file import load
from ratecheck._experiment.model import Experiment
from ratecheck._fallback import folders_of

#: The table's only key.
KEY = "files"
#: A paper's folders.
PARTS = ("claims", "figures", "rates", "bridge")
#: The folder of experiments on language models, and what their ids begin with.
BRIDGE = PARTS[-1]
#: Folders whose files are no paper's.
_OTHERS = {"tests", "node_modules", "site-packages", "build", "dist"}
#: The most folders that are looked through: the whole disk is no project.
MOST = 10_000


def modules(broken: Broken) -> list[tuple[Path, ModuleType]]:
    """Every file that the project names and its module, in the order of the table.

    Args:
        broken: told of every entry and file that cannot be read; the others go on.
    """
    loaded = []
    for path in files(broken):
        try:
            loaded.append((path, load(path, "project file")))
        except InputError as error:
            broken(str(error))
    return loaded


def papers_by_file(broken: Broken) -> dict[Path, list[str]]:
    """The short names of the papers that every file that the project names is about.

    An experiment on a language model, whose id has none, is of the papers of the files in the
    folders beside its own.
    """
    kinds = (Statement, Experiment)
    found: dict[Path, list[str]] = {}
    for path, module in modules(broken):
        made = [*vars(module).values(), *made_by(module)]
        of_it = {one.paper: None for one in made if isinstance(one, kinds)}
        found[path] = [paper for paper in of_it if paper != BRIDGE]
    for path, papers_of_it in found.items():
        if path.resolve().parent.name == BRIDGE and not papers_of_it:
            folder = path.resolve().parents[1]
            beside = (found[other] for other in found if other.resolve().parents[1] == folder)
            papers_of_it += dict.fromkeys(name for names in beside for name in names)
    return found


def files_of(folder: Path) -> list[Path]:
    """The Python files of a folder, and below it, that may hold claims or experiments.

    Raises:
        InputError: there is none.
    """
    files = _of_paper(folder) or [*_python_files(folder), *_below(folder)]
    if not files:
        raise InputError(f"folder must hold Python files; found none in {folder}")
    return files


def _of_paper(folder: Path) -> list[Path]:
    return [path for part in PARTS for path in _python_files(folder / part)]


def _python_files(folder: Path) -> list[Path]:
    return [
        path
        for path in sorted(folder.glob("*.py"), key=in_order)
        if not path.name.startswith(("_", "test_")) and path.name != "conftest.py"
    ]


def _below(folder: Path) -> Iterator[Path]:
    """What the folders of a folder hold; of files that are no paper's, those about ratecheck.

    Raises:
        InputError: there are more folders than a project has.
    """
    for number, (name, inner, _) in enumerate(os.walk(folder)):  # without what cannot be read
        if number > MOST:
            raise InputError(
                f"folder must have at most {MOST} folders below it; found more in {folder} "
                "(name the folder of the claims)"
            )
        place, files = Path(name), []
        if number:
            with contextlib.suppress(OSError):  # what nobody can read is no paper
                files = _of_paper(place)
                yield from files or filter(_is_about_ratecheck, _python_files(place))
        inner[:] = [] if files else sorted(one for one in inner if _may_hold_files(place / one))


def _may_hold_files(folder: Path) -> bool:
    hidden = folder.name.startswith((".", "_")) or folder.name in _OTHERS
    return not hidden and not os.path.exists(folder / "pyvenv.cfg")


def _is_about_ratecheck(path: Path) -> bool:
    try:
        return b"ratecheck" in path.read_bytes()
    except OSError:  # whoever reads it says so
        return True


def in_order(path: Path) -> tuple[bool, bool, str]:
    """What a paper's files are ordered by: its sections, its appendices, then the rest."""
    name = path.stem
    return not name.startswith("section"), not name.startswith("appendix"), name


def is_folder(reference: str) -> bool:
    """Whether a user's reference is a folder and not the short name of an installed paper."""
    # unlike pathlib, os.path says no where the system refuses a name, as one that is too long
    return reference not in papers.installed() and os.path.isdir(reference)


def check_no_file(what: str, name: str) -> None:
    """Refuse a name without the ending of the Python file that it is of.

    Raises:
        InputError: there is such a file.
    """
    if os.path.isfile(f"{name}.py"):
        raise InputError(
            f"{what} must be an id or a file; found {name!r} (did you mean {name}.py?)"
        )


def raise_fault(text: str) -> None:
    """What to do with what cannot be read, where nobody else is told of it."""
    raise InputError(text)


def files(broken: Broken) -> list[Path]:
    """The files that the table names, each once, as a person writes them from here.

    Without those of a paper that is installed from where they lie. ``broken`` is told of entries
    that name none.
    """
    listed: dict[Path, None] = {}
    for place in _alone[-1] if _alone else _places(broken):
        try:
            named = files_of(place) if place.is_dir() else [place]
        except InputError as error:
            broken(str(error))
            continue
        listed |= dict.fromkeys(_from_here(path) for path in named)
    return [path for path in listed if not is_installed(path)]


@contextlib.contextmanager
def alone(places: Sequence[Path]) -> Iterator[None]:
    """Within the block, these files and folders are the project, whatever its table names.

    Raises:
        InputError: one that does not exist.
    """
    for place in places:
        if not os.path.exists(place):
            raise InputError(f"file or folder must exist; found no {place}")
    _alone.append(places)
    try:
        yield
    finally:
        _alone.pop()


_alone: list[Sequence[Path]] = []


def _places(broken: Broken) -> list[Path]:
    """The files and folders that the table names and that exist."""
    pair = find_table(broken)
    if pair is None:
        return []
    table, content = pair
    try:
        entries = _entries(table, content)
    except InputError as error:
        broken(str(error))
        return []
    for entry in entries:
        if not (table.parent / entry).exists():
            broken(f"`{KEY}` in {table} must exist; found no {entry}")
    return [table.parent / entry for entry in entries if (table.parent / entry).exists()]


def _entries(table: Path, content: Any) -> list[str]:
    """What the table in this file names.

    Raises:
        InputError: it has another form.
    """
    if not isinstance(content, dict) or set(content) != {KEY}:
        keys = ", ".join(content) if isinstance(content, dict) else repr(content)
        raise InputError(
            f"[tool.{TABLE}] in {table} must have the key `{KEY}` alone; found {keys or 'nothing'}"
        )
    entries = content[KEY]
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise InputError(f"`{KEY}` in {table} must be a list of paths; found {entries!r:.80}")
    return entries


def _from_here(path: Path) -> Path:
    """The path relative to the current folder where it lies below."""
    path = path.resolve()
    here = Path.cwd().resolve()
    return path.relative_to(here) if path.is_relative_to(here) else path


def installed_papers(broken: Broken) -> list[str]:
    """The papers whose package the table names, where that is installed from where it lies."""
    places = [place.resolve() for place in _places(broken)]

    def is_named(package: str) -> bool:
        roots = [Path(root).resolve() for root in folders_of(package)]
        return any(root.is_relative_to(place) for root in roots for place in places)

    return [name for name, package in papers.installed().items() if is_named(package)]


def is_installed(path: Path) -> bool:
    """Whether a file is of a paper that is installed from here, and is known as such."""
    for package in papers.installed().values():
        roots = [Path(root).resolve() for root in folders_of(package)]
        if any(path.resolve().is_relative_to(root) for root in roots):
            return True
    return False
