"""All verdicts in two files that belong together: one for programs, one for people."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from experiments._machine import versions
from experiments._report import dump
from experiments._store import write_whole
from experiments.audit._print import headline, ratio
from experiments.audit._records import Result, revision
from linsys import InputError


def write(results: Sequence[Result], folder: Path) -> None:
    """Write ``verdicts.json`` and ``verdicts.md`` to an existing folder, in the order given.

    The instances of what holds are left out: they are long, and found again in seconds.
    """
    files = {"verdicts.json": dump(_data(results)) + "\n", "verdicts.md": markdown(results)}
    for name, content in files.items():
        try:
            write_whole(folder / name, content.encode())
        except OSError as error:
            raise InputError(
                f"folder of `--write` must be writable; found {folder}: {error.strerror}"
            ) from None


def markdown(results: Sequence[Result]) -> str:
    """The verdicts as tables, section by section, with the reasons of what is not as printed."""
    lines = [f"{headline(results)}.", ""]
    for title, group in groupby(results, key=lambda result: result.item.section):
        lines += [f"## {title}", "", "| claim | source | verdict | ratio | instances |"]
        lines += ["|---|---|---|---|---|", *map(_row, group), ""]
    for result in results:
        entry = result.item.entry
        if entry.note or entry.derivation:
            text = " ".join(f"{entry.note} {entry.derivation}".split())
            lines.append(f"- `{entry.id}`, {result.verdict.verdict}: {text}")
    return "\n".join(lines).rstrip() + "\n"


def _row(result: Result) -> str:
    found, entry = result.verdict, result.item.entry
    cells = [f"`{entry.id}`", entry.source, found.verdict, ratio(result), str(found.instances)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


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
