"""What a shell completes: ids of installed papers, without importing any.

Where none of them fits, the shell itself completes names of files.
"""

from __future__ import annotations

from collections.abc import Iterable

from ratecheck._discover import papers


def experiments(incomplete: str) -> list[str]:
    """Ids of figures and rates, and of experiments on language models."""
    return _that_begin(incomplete, [*_in_folders("figures", "rates"), *_bridges("bridge/")])


def bridges(incomplete: str) -> list[str]:
    """Names of experiments on language models."""
    return _that_begin(incomplete, _bridges(""))


def claims(incomplete: str) -> list[str]:
    """Papers and sections of claims."""
    return _that_begin(incomplete, [*papers.installed(), *_in_folders("claims")])


def papers_of(incomplete: str) -> list[str]:
    """Short names of papers."""
    return _that_begin(incomplete, papers.installed())


def _in_folders(*folders: str) -> list[str]:
    return [
        f"{paper}/{name}"
        for paper, package in papers.installed().items()
        for folder in folders
        for name in papers.modules(package, folder)
    ]


def _bridges(prefix: str) -> list[str]:
    found = (papers.modules(package, "bridge") for package in papers.installed().values())
    return [f"{prefix}{name}" for names in found for name in names]


def _that_begin(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
