"""All verdicts in files that belong together: for programs, as tables, as a page of findings."""

from __future__ import annotations

import datetime
import json
import shlex
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ratecheck._discover.catalogue import Item, catalogue, section
from ratecheck._report.authors import fill
from ratecheck._report.findings import findings
from ratecheck._report.kept import known_in, of_known
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
    known = known_in(folder)
    complete = [
        fresh.get(item.id) or (of_known(item, known[item.id]), known[item.id].get("revision"))
        for item in _with_others(results)
        if item.id in fresh or item.id in known
    ]
    results = [result for result, _ in complete]
    instances = folder / "counterexamples"
    files = {
        folder / "verdicts.json": dump(_data(complete)) + "\n",
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
        files[folder / "findings.md"] = findings([result.to_record() for result in results], replay)
        instances.mkdir(exist_ok=True)
        for path in instances.glob("*.json"):
            if path not in files:
                path.unlink()
        for path, content in files.items():
            write_whole(path, content.encode())
        write_page(folder)


def _with_others(results: Sequence[Result]) -> list[Item]:
    """The claims judged and, in the order of the catalogue, all others of their papers."""
    origins = dict.fromkeys(r.item.origin for r in results)
    files = [origin for origin in origins if origin.endswith(".py")]
    papers = dict.fromkeys(r.item.entry.paper for r in results if r.item.origin not in files)
    items = [item for paper in papers for item in catalogue(paper)]
    return [*items, *(item for file in files for item in section(file))]


def write_page(folder: Path) -> None:
    """Write the page for the authors with the numbers of the verdicts in a folder, if there is one.

    Raises:
        InputError: a number that the verdicts do not have.
    """
    page = folder.parent / AUTHORS
    if page.is_file():
        claims = json.loads((folder / "verdicts.json").read_bytes())["claims"]
        write_whole(folder / AUTHORS, fill(page.read_text(), claims).encode())


def markdown(results: Sequence[Result]) -> str:
    """The verdicts as tables, section by section, with the reasons of what is not as printed."""
    lines = [f"{headline(results)}.", ""]
    for title, group in groupby(results, key=lambda result: result.item.section):
        headers = ["claim", "source", "verdict", "ratio", "instances"]
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
    return [f"`{entry.id}`", plain(entry.source), verdict.label, *numbers]


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
