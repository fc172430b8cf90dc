"""All verdicts in files that belong together: for programs, as tables, as a page of findings."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ratecheck._report.findings import findings
from ratecheck._report.markdown import plain, table
from ratecheck._report.terminal import dump
from ratecheck._report.verdicts import headline, ratio
from ratecheck._store.files import write_whole, writing
from ratecheck._store.machine import versions
from ratecheck._verdicts.records import Records, Result, revision


def write(results: Sequence[Result], folder: Path, records: Records) -> None:
    """Write ``verdicts.json``, ``verdicts.md`` and ``findings.md`` to an existing folder, in order.

    The instances of what holds are left out: they are long, and found again in seconds.
    """
    told = [result.to_record() for result in results]
    paths = {
        result.item.id: str(records.replay_path(result.item))
        for result in results
        if result.verdict.counterexample is not None
    }
    replay = {name: shlex.join(["ratecheck", "audit", "--replay", paths[name]]) for name in paths}
    files = {
        "verdicts.json": dump(_data(results)) + "\n",
        "verdicts.md": markdown(results),
        "findings.md": findings(told, replay),
    }
    for name, content in files.items():
        with writing("folder of `--write`", folder):
            write_whole(folder / name, content.encode())


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
    return [f"`{entry.id}`", plain(entry.source), verdict.verdict, *numbers]


def _data(results: Sequence[Result]) -> dict[str, Any]:
    claims = [result.to_dict() for result in results]
    for claim in claims:
        del claim["best"]
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "revision": revision([result.item for result in results]),
        "versions": versions(),
        "claims": claims,
    }
