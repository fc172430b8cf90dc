"""The certificates of a claim that are of current code, and whether they contradict a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ratecheck._discover.papers import installed
from ratecheck._discover.table import results
from ratecheck._fallback import folders_of
from ratecheck._verdicts.certificates import FILE, FOLDER, left_by_certify, read, revision
from ratecheck._verdicts.evidence import PROVED, Evidence, of_audit, of_certificate

#: How is called what cannot all be true.
CONTRADICTORY = "CONTRADICTORY"
#: The verdicts according to which no instance breaks the statement.
_TRUE = ("holds", "vacuous", "unreachable")


def every(origin: str, name: str) -> list[Mapping[str, Any]]:
    """All certificates of a claim that are of current code: its paper's, or those a user has.

    Args:
        origin: the claim's module or the user's file.
        name: the claim's id.
    """
    if origin.endswith(".py"):
        return left_by_certify(results() / FOLDER, origin, name)
    folder = folder_of(name.partition(".")[0])
    if folder is None or not (folder / FILE).is_file():
        return []
    kept_ones = _certificates(folder, (folder / FILE).stat().st_mtime_ns).get(name, [])
    return [one for one in kept_ones if one["revision"] == revision(origin)]


def contradiction(origin: str, name: str, said: str, verdict: str) -> str:
    """That what is known of a claim cannot all be true, in a line; empty where it can.

    A certificate is believed until it is checked. One that says that a claim is true may stand
    beside a counterexample, or beside a certificate that it is false; and one that it is false
    beside a search that found no counterexample.

    Args:
        origin: the claim's module or the user's file.
        name: the claim's id.
        said: what decided the audit, as :attr:`ratecheck._verdicts.records.Result.evidence`.
        verdict: of the audit; empty where there is none.
    """
    kinds = [of_certificate(one) for one in every(origin, name)]
    proved = [kind for kind in kinds if kind in PROVED]
    refuting = (Evidence.FALSE, Evidence.CONFIRMED)
    against = [kind for kind in (*kinds, of_audit(said)) if kind in refuting]
    if not against:
        return ""
    what = "a certificate" if against[0] == Evidence.FALSE else "a counterexample"
    if proved:
        told = f"a certificate says {proved[0]}, and {what} {against[0]}"
    elif verdict in _TRUE:
        told = f"{what} says {against[0]}, and the verdict is {verdict}"
    else:
        return ""
    return f"{CONTRADICTORY}: {told}: one is wrong"


@lru_cache
def folder_of(paper: str) -> Path | None:
    """Where a paper keeps its verdicts; None for papers of users' files."""
    package = installed().get(paper)
    folders = [] if package is None else folders_of(package)
    if not folders:
        return None
    return Path(folders[0]).resolve() / "results"


@lru_cache
def _certificates(folder: Path, written: int) -> dict[str, list[Mapping[str, Any]]]:
    """The certificates of a folder by their claims, as they were written at a time."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for certificate in read(folder)["certificates"]:
        found.setdefault(certificate["id"], []).append(certificate)
    return found
