"""Which claims exist: those of every public module in a paper's folder ``claims``, or of a file.

A module is a section of its paper; its claims are those that it names or makes, in the order of the
file. A user's own Python file is a section as well, with the same engine; a file that the user's
project names is found by its claims' ids, too.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from linsys.validate import InputError, shown
from ratecheck._claims.claim import (
    RELATIONS,
    Claim,
    Entry,
    Statement,
    StatisticalClaim,
    claims_of,
    place_of,
    two_of_one_id,
)
from ratecheck._discover import papers, project
from ratecheck._discover.project import raise_fault
from ratecheck._discover.references import chosen, is_reference, joined, one_of, split_paper
from ratecheck._discover.table import Broken, find_table
from ratecheck._discover.user_file import load
from ratecheck._fallback import import_ours
from ratecheck._names import check_name, check_no_path


@dataclass(frozen=True)
class Item:
    """A claim and where it was found.

    Args:
        entry: the claim.
        origin: how another process finds it: the name of its module, or the path of its file.
        section: what its module is about, the first line of the docstring.
        listed: whether the user's project names the file.
    """

    entry: Entry
    origin: str
    section: str
    listed: bool = False

    @property
    def id(self) -> str:
        """The claim's id."""
        return self.entry.id

    @property
    def reference(self) -> str:
        """What names it alone on the command line: its id, or "mine.py::mine.mass" of a file."""
        if self.listed or not self.origin.endswith(".py"):
            return self.id
        return f"{os.path.relpath(self.origin)}::{self.id}"

    @property
    def place(self) -> str:
        """Its section as a person names it: "paper/module", or the path of the file."""
        if self.listed:
            return f"{self.entry.paper}/{Path(self.origin).stem}"
        if self.origin.endswith(".py"):
            return self.origin
        name = self.origin.rpartition(".")[2]
        return f"{self.entry.paper}/{name}"


def with_claims() -> list[str]:
    """Every installed paper with claims, in alphabetical order, without importing any."""
    return [paper for paper in papers.installed() if _sections(paper)]


def catalogue(paper: str | None = None, broken: Broken = raise_fault) -> list[Item]:
    """All claims, those of the user's project last, or those of one paper, in its order.

    Args:
        paper: its short name.
        broken: told in one line of every module and file that cannot be imported; the others go on.
            Without it that is an error.

    Raises:
        InputError: if an id appears twice or is not its paper's, or a corrected one does not exist.
    """
    if paper is None:
        return [*of_papers(with_claims(), broken), *of_project(broken)]
    if paper in papers.installed():
        return of_papers([paper], broken)
    return [item for item in of_project(broken) if item.entry.paper == paper]


def of_papers(names: Sequence[str], broken: Broken = raise_fault) -> list[Item]:
    """All claims of installed papers; see :func:`catalogue`."""
    claims: list[Item] = []
    faults = _Faults(broken)
    for name in names:
        items = []
        for origin in _sections(name):
            try:
                items += section(origin)
            except InputError as error:
                faults(str(error))
        for item in items:
            if item.entry.paper != name:
                raise InputError(f"`id` in {item.origin} must start with {name}.; found {item.id}")
        claims += items
    # corrections may be in what is missing
    return _distinct(claims) if faults.said else _checked(claims)


def of_project(broken: Broken = raise_fault) -> list[Item]:
    """All claims in the files of the user's project; see :func:`catalogue`."""
    claims: list[Item] = []
    faults = _Faults(broken)
    for path, _ in project.modules(faults):
        try:
            items = [replace(item, listed=True) for item in section(str(path))]
            for item in items:
                papers.check_free(item.entry.paper, f"claim {item.id} in {path}")
            claims = _distinct([*claims, *items])
        except InputError as error:
            faults(str(error))
    try:
        return claims if faults.said else _checked(claims)
    except InputError as error:
        faults(str(error))
        return claims


class _Faults:
    """Hands on what cannot be read, and knows whether there was anything."""

    def __init__(self, broken: Broken) -> None:
        self.said = False
        self._broken = broken

    def __call__(self, text: str) -> None:
        self.said = True
        self._broken(text)


def section(origin: str) -> list[Item]:
    """The claims of one module or file; see :func:`ratecheck._claims.claim.claims_of`."""
    loaded = module(origin)
    title = (loaded.__doc__ or origin).strip().splitlines()[0].rstrip(".")
    return [Item(entry, origin, title) for entry in claims_of(loaded)]


def module(origin: str) -> ModuleType:
    """The module of this name, or the user's file at this path.

    Raises:
        InputError: if its import fails.
    """
    if origin.endswith(".py"):
        return load(Path(origin), "claims file")
    try:
        return import_ours(origin)
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"claims module {origin} must import without error; found {said}"
        ) from error


def find(origin: str, name: str) -> Item:
    """The claim of this id in this module or file."""
    items = {item.id: item for item in section(origin)}
    return items[check_name(f"claim in {origin}", name, list(items))]


def families(entry: Entry, known: Mapping[str, Entry]) -> dict[str, Sequence[Any]]:
    """The counterexamples of all claims that the proof of one rests on, directly or not, by id."""
    counterexamples: dict[str, Sequence[Any]] = {}
    seen, left = {entry.id}, [*entry.uses]
    while left:
        name = left.pop(0)
        used = known.get(name)
        if name in seen or used is None:
            continue
        seen.add(name)
        left += used.uses
        if isinstance(used, Claim) and used.family:
            counterexamples[name] = used.family
    return counterexamples


def families_of(items: Sequence[Item]) -> dict[str, dict[str, Sequence[Any]]]:
    """The :func:`families` of every claim, by its id; what stands beside them is read once."""

    own = {item.id: item.entry for item in items if item.origin.endswith(".py")}

    @functools.cache
    def beside(origin: str, paper: str) -> dict[str, Entry]:
        others = section(origin) if origin else catalogue(paper, broken=lambda fault: None)
        return own | {other.id: other.entry for other in others}

    return {
        item.id: families(
            item.entry,
            beside(
                item.origin if item.origin.endswith(".py") and not item.listed else "",
                item.entry.paper,
            )
            if item.entry.uses
            else {},
        )
        for item in items
    }


def find_claims(references: Sequence[str] | str, broken: Broken | None = None) -> list[Item]:
    """The claims that references name, each once; without any, all claims.

    A reference is an id, a section ("affpcl/appendix_d"), a paper, a pattern of one of these
    ("affpcl.d1*"), a Python file, one claim or pattern of a file ("mine.py::mine.mass"), a
    folder of files, or what the paper calls them ("Lemma D.1 (f)", "Theorem 4.1" with all that is
    claimed of it; with the paper's name before it where that is needed). The second half of an id
    will do where a single paper has a claim of that name ("d2_Phi"). Ids of the project whose
    pyproject.toml is here or above are known as well.

    Args:
        references: what is looked for, one or several.
        broken: told in one line of every module and file that cannot be imported, where that is to
            be no error.

    Raises:
        InputError: a reference that names nothing, with the nearest id; or a file that cannot be
            imported, unless ``broken`` is told of it.

    Example::

        for item in rc.find_claims(["affpcl.d1*"]):
            print(item.id, item.entry.text)
    """
    broken = broken or raise_fault
    references = [references] if isinstance(references, str) else references
    if not isinstance(references, Sequence) or not all(isinstance(r, str) for r in references):
        raise InputError(f"`references` must be ids or one id; found {shown(references)}")
    if not references:
        return catalogue(broken=broken)
    chosen: list[Item] = []
    several = len(references) > 1
    own = {item.entry.paper for item in of_project(lambda fault: None)} if several else ()
    for reference in joined(references, own):
        path, _, inside = reference.partition("::")
        if path.endswith(".py"):
            items = of_file(path)
            chosen += _matching(inside, items) if inside else items
        elif project.is_folder(reference):
            chosen += of_folder(Path(reference), broken)
        else:
            paper = split_paper(reference)[0] or re.split(r"[./]", reference)[0]
            known = paper if paper in papers.installed() else None
            chosen += _matching(reference, catalogue(known, broken))
    return _distinct(chosen)


def claims_of_command(references: Sequence[str], broken: Broken = raise_fault) -> list[Item]:
    """The claims that a command is given; without any, those of the project, if it has some.

    Args:
        references: as of :func:`find_claims`; all claims are "*".
        broken: as of :func:`find_claims`.

    Raises:
        InputError: as :func:`find_claims`.
    """
    if references or find_table(broken) is None:
        return find_claims(references, broken)
    own = [*of_papers(project.installed_papers(broken), broken), *of_project(broken)]
    return own or find_claims((), broken)


def of_file(path: str) -> list[Item]:
    """The claims of a user's file, at least one."""
    items = _checked(section(path))
    if not items:
        raise InputError(f"claims file must make claims when it is imported; found none in {path}")
    _check_ids_free(items, path)
    return items


def _check_ids_free(items: Sequence[Item], path: str) -> None:
    """Refuse claims of a user's file that have the name of an installed paper, unless it is its."""
    if not project.is_installed(Path(path)):
        for item in items:
            papers.check_free(item.entry.paper, f"claim {item.id} in {path}")


def of_folder(folder: Path, broken: Broken = raise_fault) -> list[Item]:
    """The claims of the files in a user's folder, at least one."""
    items: list[Item] = []
    faults = _Faults(broken)
    for path in project.files_of(folder):
        try:
            found = section(str(path))
            _check_ids_free(found, str(path))
            items += found
        except InputError as error:
            faults(str(error))
    if not items:
        raise InputError(f"folder must hold files with claims; found none in {folder}")
    return _distinct(items) if faults.said else _checked(items)


def _matching(name: str, items: Sequence[Item]) -> list[Item]:
    matching = [
        item
        for item in items
        if any(fnmatch.fnmatchcase(n, name) for n in (item.id, item.place, item.entry.paper))
    ]
    if not matching:
        matching = [item for item in items if item.id.partition(".")[2] == name]
        if len(matching) > 1:
            ids = " or ".join(item.id for item in matching)
            raise InputError(f"claim must be of one paper: {ids}; found {name!r}")
    if not matching and is_reference(name):
        printed = {item.entry.paper: item.entry.source.partition(",")[0] for item in items}
        paper, text = split_paper(name, printed)
        sources = {i.id: i.entry.source for i in items if paper in (None, i.entry.paper)}
        called = chosen(text, sources)
        if len({one.partition(".")[0] for one in called}) > 1:
            one_of("claim", name, called)
        by_id = {item.id: item for item in items}
        matching = [by_id[one] for one in called]
    if not matching:
        papers.check_found(name)
    if not matching and any(character in name for character in "*?["):
        raise InputError(f"claim pattern must match an id; found {name!r} that matches none")
    if not matching:
        project.check_no_file("claim", name)
        known = [item.id for item in items]
        check_no_path("claim", name, known)
        try:
            check_name("claim", name, known)
        except InputError as error:
            if re.fullmatch(r"\w+\.\w+", name) and name.split(".")[0] not in papers.installed():
                raise InputError(f"{error}; that of a file is FILE.py::{name}") from None
            raise
    return matching


def _distinct(items: Sequence[Item]) -> list[Item]:
    """Every claim once, also where it is imported elsewhere; two claims of one id are refused."""
    by_id: dict[str, Item] = {}
    for item in items:
        other = by_id.setdefault(item.id, item)
        if other is item:
            continue
        places = [place_of(one.entry, one.origin) for one in (other, item)]
        if other.entry is not item.entry and places[0] != places[1]:  # not of one file, read twice
            raise two_of_one_id(item.id, *places)
        if _is_at(places[1], item.origin):  # where it is made, not where it is imported
            by_id[item.id] = item
    return list(by_id.values())


def _is_at(place: str, origin: str) -> bool:
    """Whether a place "FILE:LINE" is in this file; either may be called from the current folder."""
    return Path(place.rpartition(":")[0]).resolve() == Path(origin).resolve()


def _checked(items: Sequence[Item]) -> list[Item]:
    """The claims, if their ids are distinct and every id that one of them names is there."""
    distinct = _distinct(items)
    known = {item.id: item.entry for item in distinct}
    for item in distinct:
        for relation in RELATIONS:
            other = getattr(item.entry, relation)
            sort = Claim | StatisticalClaim if relation == "corrected" else Statement
            if other is not None and not isinstance(known.get(other), sort):
                raise InputError(
                    f"`{relation}` of {item.id} must be the id of a claim; found {other!r}"
                )
        if strangers := [name for name in item.entry.uses if name not in known]:
            raise InputError(f"`uses` of {item.id} must be ids of claims; found {strangers}")
    return distinct


def _sections(paper: str) -> list[str]:
    """The modules of a paper: its sections, its appendices, then the rest."""
    modules = papers.modules(papers.installed()[paper], "claims")
    order = sorted(modules, key=lambda name: project.in_order(Path(name)))
    return [modules[name] for name in order]
