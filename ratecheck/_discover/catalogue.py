"""Which claims exist: those of every public module in a paper's folder ``claims``, or of a file.

A module is a section of its paper; a claim is any object of it that is one, in the order of the
file. A user's own Python file is a section as well, with the same engine.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from linsys import InputError
from ratecheck._claims.claim import RELATIONS, Claim, Entry, NotChecked, RateClaim, Statement
from ratecheck._discover import papers
from ratecheck._discover.user_file import load
from ratecheck._names import check_name


@dataclass(frozen=True)
class Item:
    """A claim and where it was found.

    Args:
        entry: the claim.
        origin: how another process finds it: the name of its module, or the path of its file.
        section: what its module is about, the first line of the docstring.
    """

    entry: Entry
    origin: str
    section: str

    @property
    def id(self) -> str:
        """The claim's id."""
        return self.entry.id

    @property
    def place(self) -> str:
        """Its section as a person names it: "paper/module", or the path of the file."""
        if self.origin.endswith(".py"):
            return self.origin
        name = self.origin.rpartition(".")[2]
        return f"{self.entry.paper}/{name}"


def with_claims() -> list[str]:
    """Every paper with claims, in alphabetical order, without importing any."""
    return [paper for paper in papers.installed() if _sections(paper)]


def catalogue(paper: str | None = None, broken: Callable[[str], None] | None = None) -> list[Item]:
    """All claims, or those of one paper, in the order of the paper.

    Args:
        paper: its short name.
        broken: told in one line of every module that cannot be imported; the others go on. Without
            it such a module is an error.

    Raises:
        InputError: if an id appears twice or is not its paper's, or a corrected one does not exist.
    """
    claims: list[Item] = []
    whole = True
    for name in with_claims() if paper is None else [paper]:
        items = []
        for origin in _sections(name):
            try:
                items += section(origin)
            except InputError as error:
                if broken is None:
                    raise
                broken(str(error))
                whole = False
        for item in items:
            if item.entry.paper != name:
                raise InputError(f"`id` in {item.origin} must start with {name}.; found {item.id}")
        claims += items
    return _checked(claims) if whole else _distinct(claims)  # corrections may be in what is missing


def section(origin: str) -> list[Item]:
    """The claims of one module or file, each once, in its order."""
    loaded = module(origin)
    title = (loaded.__doc__ or origin).strip().splitlines()[0].rstrip(".")
    entries = {
        id(value): value
        for value in vars(loaded).values()
        if isinstance(value, Claim | RateClaim | NotChecked)
    }
    return [Item(entry, origin, title) for entry in entries.values()]


def module(origin: str) -> ModuleType:
    """The module of this name, or the user's file at this path.

    Raises:
        InputError: if its import fails.
    """
    if origin.endswith(".py"):
        return load(Path(origin), "claims file")
    try:
        return importlib.import_module(origin)
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
    found: dict[str, Sequence[Any]] = {}
    seen, left = {entry.id}, [*entry.uses]
    while left:
        name = left.pop(0)
        used = known.get(name)
        if name in seen or used is None:
            continue
        seen.add(name)
        left += used.uses
        if isinstance(used, Claim) and used.family:
            found[name] = used.family
    return found


def families_of(items: Sequence[Item]) -> dict[str, dict[str, Sequence[Any]]]:
    """The :func:`families` of every claim, by its id; what stands beside them is read once."""

    @functools.cache
    def beside(origin: str, paper: str) -> dict[str, Entry]:
        others = of_file(origin) if origin else catalogue(paper)
        return {other.id: other.entry for other in others}

    return {
        item.id: families(
            item.entry,
            beside(item.origin if item.origin.endswith(".py") else "", item.entry.paper)
            if item.entry.uses
            else {},
        )
        for item in items
    }


def find_claims(
    references: Sequence[str], broken: Callable[[str], None] | None = None
) -> list[Item]:
    """The claims that references name, each once; without any, all claims that can be imported.

    A reference is an id, a section ("affpcl/appendix_d"), a paper, a pattern of one of these
    ("affpcl.d1*"), a Python file, or one claim or pattern of a file ("mine.py::mine.mass"). The
    second half of an id will do where a single paper has a claim of that name ("d2_Phi").

    Example::

        for item in rc.find_claims(["affpcl.d1*"]):
            print(item.id, item.entry.text)
    """
    if not references:
        return catalogue(broken=broken)
    chosen: list[Item] = []
    for reference in references:
        path, _, inside = reference.partition("::")
        if path.endswith(".py"):
            items = of_file(path)
            chosen += _matching(inside, items) if inside else items
        else:
            chosen += _matching(reference, catalogue())
    return _distinct(chosen)


def of_file(path: str) -> list[Item]:
    """The claims of a user's file, at least one."""
    items = _checked(section(path))
    if not items:
        raise InputError(f"claims file must define claims at its top level; found none in {path}")
    return items


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
    if not matching:
        papers.check_found(name)
    if not matching and any(character in name for character in "*?["):
        raise InputError(f"claim pattern must match an id; found {name!r} that matches none")
    if not matching:
        check_name("claim", name, [item.id for item in items])
    return matching


def _distinct(items: Sequence[Item]) -> list[Item]:
    """Every claim once; two claims of one id are refused."""
    by_id: dict[str, Item] = {}
    for item in items:
        other = by_id.setdefault(item.id, item)
        if other.entry is not item.entry:
            raise InputError(
                f"ids of claims must be distinct; found {item.id} in {other.origin} "
                f"and in {item.origin}"
            )
    return list(by_id.values())


def _checked(items: Sequence[Item]) -> list[Item]:
    """The claims, if their ids are distinct and every id that one of them names is there."""
    distinct = _distinct(items)
    known = {item.id: item.entry for item in distinct}
    for item in distinct:
        for relation in RELATIONS:
            other = getattr(item.entry, relation)
            sort = Claim if relation == "corrected" else Statement
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
    order = sorted(
        modules, key=lambda n: (not n.startswith("section"), not n.startswith("appendix"), n)
    )
    return [modules[name] for name in order]
