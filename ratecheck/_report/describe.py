"""What an experiment is about, and its parameters: what each means, and its value in profiles."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ratecheck._claims.claim import claims_of
from ratecheck._experiment.model import Experiment, plain
from ratecheck._experiment.parameters import meanings
from ratecheck._report.terminal import console, say

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement

#: An item of a list, behind which the list may be folded.
_ITEM = re.compile(r"[^,]+,?")


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
    from rich.markup import escape
    from rich.table import Table

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
    table = Table(box=None, pad_edge=False)
    table.add_column("parameter", no_wrap=True)
    rows = {
        name: [_WrappedList(_setting(value)) for value in values.values()]
        for name, values in described["parameters"].items()
    }
    for profile, cells in zip(experiment.profiles, zip(*rows.values(), strict=True), strict=True):
        table.add_column(profile, min_width=max(cell.narrowest for cell in cells))
    table.add_column("meaning")
    for name, cells in rows.items():
        table.add_row(name, *cells, escape(described["meanings"].get(name, "")))
    screen.print(table)


def _paragraphs(text: str) -> list[str]:
    """A docstring as lines: one for each paragraph of words, and those of lists as they are."""
    lines: list[str] = []
    for part in text.split("\n\n"):
        own = part.splitlines()
        words = not any(line.startswith((" ", "-", "*")) for line in own)
        lines += ["", *([" ".join(own)] if words else own)]
    return lines[1:]


@dataclass(frozen=True)
class _WrappedList:
    """A parameter in a table: a list is folded behind its commas, never within an item."""

    text: str

    @property
    def items(self) -> list[str]:
        """The parts that stay on one line."""
        return _ITEM.findall(self.text)

    @property
    def narrowest(self) -> int:
        """The width that this needs."""
        return max(map(len, self.items), default=0)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        return Measurement(self.narrowest, len(self.text)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        lines = [""]
        for item in self.items:
            if lines[-1] and len(lines[-1] + item) > options.max_width:
                lines.append("")
            lines[-1] += item
        yield Text("\n".join(lines), overflow="fold")


def _setting(value: Any) -> str:
    """A parameter as ``--set`` takes it."""
    if isinstance(value, list):
        return ",".join(_setting(item) for item in value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
