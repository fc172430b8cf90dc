"""All verdicts in files that belong together: for programs, as tables, as a page of findings."""

from __future__ import annotations

import datetime
import json
import shlex
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ratecheck._discover.catalogue import Item
from ratecheck._report.authors import fill
from ratecheck._report.findings import findings
from ratecheck._report.markdown import plain, table
from ratecheck._report.terminal import dump
from ratecheck._report.verdicts import headline, ratio
from ratecheck._store.files import write_whole, writing
from ratecheck._store.machine import versions
from ratecheck._verdicts.records import Result, replayable_text, revision_of_claims
from ratecheck._verdicts.verdict import Verdict, evidence

#: The page for a paper's authors: beside the folder as it was written, in it with its numbers.
AUTHORS = "authors.md"


def write(results: Sequence[Result], folder: Path) -> None:
    """Write ``verdicts.json``, ``verdicts.md``, ``findings.md`` and ``counterexamples``.

    The instances of what holds are left out: they are long, and found again in seconds. Where an
    ``authors.md`` lies beside the folder, one with the numbers of these verdicts is written, too.

    Args:
        results: in the order of the catalogue.
        folder: an existing one; counterexamples of other claims in it stay.
    """
    told = [result.to_record() for result in results]
    instances = folder / "counterexamples"
    files = {
        folder / "verdicts.json": dump(_data(results)) + "\n",
        folder / "verdicts.md": markdown(results),
    }
    replay = {}
    with writing("folder of `--write`", folder):
        for result in results:
            path = instances / f"{result.item.id}.json"
            if result.verdict.counterexample is None:
                path.unlink(missing_ok=True)
            else:
                files[path] = replayable_text(result)
                replay[result.item.id] = shlex.join(["ratecheck", "audit", "--replay", str(path)])
        files[folder / "findings.md"] = findings(told, replay)
        instances.mkdir(exist_ok=True)
        for path, content in files.items():
            write_whole(path, content.encode())
        write_page(folder)


def write_page(folder: Path) -> None:
    """Write the page for the authors with the numbers of the verdicts in a folder, if there is one.

    Raises:
        InputError: a number that the verdicts do not have.
    """
    page = folder.parent / AUTHORS
    if page.is_file():
        claims = json.loads((folder / "verdicts.json").read_bytes())["claims"]
        write_whole(folder / AUTHORS, fill(page.read_text(), claims).encode())


def kept(items: Sequence[Item], folder: Path, effort: str, seed: int) -> list[Result]:
    """The verdicts of these claims that ``write`` left in a folder, as far as they are current.

    Current is what was found by the same effort and seed, with code that computes the same.
    """
    try:
        claims = json.loads((folder / "verdicts.json").read_bytes())["claims"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    by_id = {claim["id"]: claim for claim in claims}
    found = []
    for item in items:
        claim = by_id.get(item.id)
        if claim is None or item.origin.endswith(".py"):
            continue
        current = {"effort": effort, "seed": seed, "revision": revision_of_claims(item.origin)}
        if current.items() <= claim.items():
            verdict = Verdict.of_known(claim)
            verdict.corrected = item.entry.corrected
            verdict.evidence = evidence(item.entry, verdict)
            found.append(Result(item, verdict, effort, seed))
    return found


def markdown(results: Sequence[Result]) -> str:
    """The verdicts as tables, section by section, with the reasons of what is not as printed."""
    lines = [f"{headline(results)}.", ""]
    for title, group in groupby(results, key=lambda result: result.item.section):
        headers = ["claim", "source", "verdict", "ratio", "instances"]
        lines += [f"## {title}", "", *table(headers, [_row(result) for result in group]), ""]
    for result in results:
        entry = result.item.entry
        if entry.note or entry.derivation:
            text = plain(f"{entry.note} {entry.derivation}")
            lines.append(f"- `{entry.id}`, {result.verdict.verdict}: {text}")
    return "\n".join(lines).rstrip() + "\n"


def _row(result: Result) -> list[str]:
    verdict, entry = result.verdict, result.item.entry
    numbers = ratio(result), str(verdict.instances)
    return [f"`{entry.id}`", plain(entry.source), verdict.label, *numbers]


def _data(results: Sequence[Result]) -> dict[str, Any]:
    claims = [result.to_dict() for result in results]
    for claim, result in zip(claims, results, strict=True):
        del claim["best"]
        if not result.item.origin.endswith(".py"):
            claim["revision"] = revision_of_claims(result.item.origin)
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(),
        "claims": claims,
    }
