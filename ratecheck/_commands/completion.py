"""What a shell completes: ids of installed papers, without importing any, and of the project.

The ids of single claims are those that ``ratecheck list TEXT`` found last. The files of the user's
project are read when they have changed. Where nothing fits, the shell itself completes names of
files.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable
from typing import Any

from ratecheck._commands import listing
from ratecheck._discover import papers


def experiments(incomplete: str) -> list[str]:
    """Ids of figures and rates, and of experiments on language models."""
    of_papers = [*_in_folders("figures", "rates"), *_bridges("bridge/")]
    return _that_begin(incomplete, [*of_papers, *(r["id"] for r in _own() if _is_experiment(r))])


def bridges(incomplete: str) -> list[str]:
    """Names of experiments on language models."""
    own = [row["id"].partition("/")[2] for row in _own() if row["id"].startswith("bridge/")]
    return _that_begin(incomplete, [*_bridges(""), *own])


def claims(incomplete: str) -> list[str]:
    """Papers, sections and the project's claims; behind a dot, those of all papers as well."""
    own = [row for row in _own() if not _is_experiment(row)]
    names = {*papers.installed(), *_in_folders("claims"), *(row["paper"] for row in own)}
    if "." in incomplete:
        own += [row for row in listing.last_of_papers() if not _is_experiment(row)]
    return _that_begin(incomplete, names | {row["id"] for row in own})


def papers_of(incomplete: str) -> list[str]:
    """Short names of papers."""
    return _that_begin(incomplete, {*papers.installed(), *(row["paper"] for row in _own())})


def _own() -> list[dict[str, Any]]:
    """The claims and experiments of the project; what their files print is not for the shell."""
    with contextlib.redirect_stderr(io.StringIO()):
        return listing.of_project(lambda fault: None)


def _is_experiment(row: dict[str, Any]) -> bool:
    return "/" in row["id"]


def _in_folders(*folders: str) -> list[str]:
    return [
        f"{paper}/{name}"
        for paper, package in papers.installed().items()
        for folder in folders
        for name in papers.modules(package, folder)
    ]


def _bridges(prefix: str) -> list[str]:
    modules = (papers.modules(package, "bridge") for package in papers.installed().values())
    return [f"{prefix}{name}" for names in modules for name in names]


def _that_begin(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
