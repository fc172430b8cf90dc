"""All verdicts in files that belong together: for programs, as tables, as a page of findings."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ratecheck._discover.catalogue import Item, catalogue, section
from ratecheck._discover.named import given_beside
from ratecheck._report.authors import fill
from ratecheck._report.findings import findings
from ratecheck._report.kept import known_in, of_known, with_certificate, word
from ratecheck._report.markdown import plain, table
from ratecheck._report.terminal import dump
from ratecheck._report.verdicts import headline, ratio
from ratecheck._store.files import write_whole, writing
from ratecheck._store.machine import versions
from ratecheck._verdicts.records import Result, replayable_text, revisions_of_claims

#: The page for a paper's authors: beside the folder as it was written, in it with its numbers.
AUTHORS = "authors.md"


def write(results: Sequence[Result], folder: Path) -> None:
    """Write ``verdicts.json``, ``verdicts.md``, ``findings.md`` and ``counterexamples``.

    Verdicts on other claims of the same papers stay as they are in the folder. The instances of
    what holds are left out: they are long, and found again in seconds. Where an ``authors.md`` lies
    beside the folder, one with the numbers of these verdicts is written, too.
    """
    revisions = revisions_of_claims([result.item for result in results])
    fresh = {r.item.id: (r, revisions.get(r.item.id)) for r in results}
    _write(_complete(_with_others([r.item for r in results]), fresh, folder), folder)


def renew(items: Sequence[Item], folder: Path) -> None:
    """Write what lies beside the verdicts of a folder anew, as certificates of it have changed.

    Args:
        items: claims of the folder's papers.
        folder: without verdicts, nothing is written.
    """
    if (folder / "verdicts.json").is_file():
        _write(_complete(_with_others(items), {}, folder), folder)


#: A verdict and the revision of what was judged.
_Judged = tuple[Result, str | None]


def _complete(items: Sequence[Item], fresh: Mapping[str, _Judged], folder: Path) -> list[_Judged]:
    """The verdicts on these claims: fresh ones, or those that the folder has."""
    known = known_in(folder)
    return [
        fresh.get(item.id) or (of_known(item, known[item.id]), known[item.id].get("revision"))
        for item in items
        if item.id in fresh or item.id in known
    ]


def _write(complete: Sequence[_Judged], folder: Path) -> None:
    results = [result for result, _ in complete]
    records = [with_certificate(result) for result in results]
    instances = folder / "counterexamples"
    files = {
        folder / "verdicts.json": dump(_data(complete)) + "\n",
        folder / "verdicts.md": markdown(results),
    }
    page = folder.parent / AUTHORS
    if page.is_file():
        files[folder / AUTHORS] = fill(page.read_text(), records)
    replay = {}
    with writing("folder of `--write`", folder):
        for result in results:
            path = instances / f"{result.item.id}.json"
            if result.verdict.counterexample is None:
                path.unlink(missing_ok=True)
            else:
                files[path] = replayable_text(result)
                again = ["audit", *given_beside(result.item.origin), "--replay", str(path)]
                replay[result.item.id] = shlex.join(["ratecheck", *again])
        files[folder / "findings.md"] = findings(records, replay)
        instances.mkdir(exist_ok=True)
        for path in instances.glob("*.json"):
            if path not in files:
                path.unlink()
        for path, content in files.items():
            write_whole(path, content.encode())


def _with_others(judged: Sequence[Item]) -> list[Item]:
    """The claims judged and, in the order of the catalogue, all others of their papers."""
    origins = dict.fromkeys(item.origin for item in judged)
    files = [origin for origin in origins if origin.endswith(".py")]
    papers = dict.fromkeys(item.entry.paper for item in judged if item.origin not in files)
    items = [item for paper in papers for item in catalogue(paper)]
    return [*items, *(item for file in files for item in section(file))]


def markdown(results: Sequence[Result]) -> str:
    """The verdicts as tables, section by section, with the reasons of what is not as printed."""
    lines = [f"{headline(results)}.", ""]
    for title, group in groupby(results, key=lambda result: result.item.section):
        headers = ["claim", "source", "verdict", "evidence", "ratio", "instances"]
        lines += [f"## {title}", "", *table(headers, [_row(result) for result in group]), ""]
    for result in results:
        entry = result.item.entry
        made = result.to_record()["constructed"]
        made = f"Constructed: {made}." if made else ""
        if text := plain(f"{entry.note} {entry.derivation} {made}"):
            lines.append(f"- `{entry.id}`, {result.verdict.label}: {text}")
    return "\n".join(lines).rstrip() + "\n"


def _row(result: Result) -> list[str]:
    verdict, entry = result.verdict, result.item.entry
    numbers = ratio(result), str(verdict.instances)
    return [f"`{entry.id}`", plain(entry.source), verdict.label, word(result), *numbers]


def _data(complete: Sequence[tuple[Result, str | None]]) -> dict[str, Any]:
    claims = []
    for result, revision in complete:
        claim = result.to_dict()
        del claim["best"]
        claims.append({**claim, "revision": revision} if revision else claim)
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(),
        "claims": claims,
    }
