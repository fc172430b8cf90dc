"""What an experiment is about, and its parameters: what each means, and its value in profiles."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any

from ratecheck._claims.claim import claims_of
from ratecheck._experiment.model import Experiment, plain
from ratecheck._experiment.parameters import meanings
from ratecheck._report.terminal import console, say, wrapped

#: An item of a list, behind which the list may be folded.
_ITEM = re.compile(r"[^,]+,?")
#: Between columns; columns of lists that are not folded, and the least one of meanings.
_GAP, _ROOMY, _MEANING = "  ", 20, 40


def description(experiment: Experiment[Any]) -> dict[str, Any]:
    """All of it as plain JSON values."""
    module = inspect.getmodule(experiment.analyse)
    names = [field.name for field in dataclasses.fields(experiment.config_type)]
    said = meanings(experiment.config_type)
    return {
        "id": experiment.id,
        "title": experiment.title,
        "source": experiment.source,
        "file": file_of(module),
        "claims": [entry.id for entry in claims_of(module)] if module else [],
        "kind": experiment.kind,
        "about": inspect.cleandoc((module.__doc__ if module else None) or ""),
        "parameters": {
            name: {
                profile: plain(getattr(config, name))
                for profile, config in experiment.profiles.items()
            }
            for name in names
        },
        "meanings": {name: said[name] for name in names if name in said},
    }


def file_of(module: ModuleType | None) -> str:
    """A module's file, relative where it is below the current folder; empty where it has none."""
    path = Path(getattr(module, "__file__", None) or "")
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def show_description(experiment: Experiment[Any]) -> None:
    """Print the same for a person."""
    described = description(experiment)
    claims = []
    if described["claims"]:
        claims.append(f"Claims: {', '.join(described['claims'])}")
        claims.append(f"  ratecheck audit {shlex.quote(described['file'])} --show")
    screen = console()
    say(
        screen,
        [
            f"{described['id']}: {described['title']} ({described['source']})",
            f"File: {described['file']}",
            *claims,
            "",
            *_paragraphs(described["about"]),
            "",
        ],
    )
    lines = _table(list(experiment.profiles), described, screen.width)
    screen.print("\n".join(lines), markup=False, soft_wrap=True)


def _table(profiles: list[str], described: dict[str, Any], width: int) -> list[str]:
    """The parameters with their values in every profile, and what they mean, as lines.

    Lists are folded behind their commas, never within an item. The meaning is beside the values or,
    where that leaves it little room, below them.
    """
    rows = [["parameter", *profiles]]
    for name, values in described["parameters"].items():
        rows.append([name, *map(_setting, values.values())])
    for most in (_ROOMY, 0):
        widths = [_width(column, most) for column in zip(*rows, strict=True)]
        left = width - sum(widths) - len(_GAP) * len(widths)
        if left >= _MEANING:
            break
    said = ["meaning", *(described["meanings"].get(name, "") for name, *_ in rows[1:])]
    lines = []
    for row, meaning in zip(rows, said, strict=True):
        columns = [_folded(cell, own) for cell, own in zip(row, widths, strict=True)]
        if left >= _MEANING:
            columns.append(wrapped(meaning, left))
        for parts in zip_longest(*columns, fillvalue=""):
            padded = [part.ljust(own) for part, own in zip(parts, [*widths, 0], strict=False)]
            lines.append(_GAP.join(padded).rstrip())
        if left < _MEANING:
            lines += wrapped(f"  {meaning}", width)
    return lines


def _width(column: Sequence[str], most: int) -> int:
    """Of a column, at most so much unless an item of a list needs more."""
    return max(min(len(cell), max(most, *map(len, _ITEM.findall(cell) or [""]))) for cell in column)


def _folded(cell: str, width: int) -> list[str]:
    """A cell as lines."""
    lines = [""]
    for item in _ITEM.findall(cell):
        if lines[-1] and len(lines[-1] + item) > width:
            lines.append("")
        lines[-1] += item
    return lines


def _paragraphs(text: str) -> list[str]:
    """A docstring as lines: one for each paragraph of words, and those of lists as they are."""
    lines: list[str] = []
    for part in text.split("\n\n"):
        own = part.splitlines()
        words = not any(line.startswith((" ", "- ", "* ")) for line in own)
        lines += ["", *([" ".join(own)] if words else own)]
    return lines[1:]


def _setting(value: Any) -> str:
    """A parameter as ``--set`` takes it."""
    if isinstance(value, list):
        return ",".join(_setting(item) for item in value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
