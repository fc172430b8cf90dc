"""The terminal: JSON for programs, lines and tables for a person, and a bar while one waits."""

from __future__ import annotations

import json
import os
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich import progress
    from rich.console import Console
    from rich.table import Table

#: From so many columns on, all lists are tables.
_WIDE = 120
#: A bar says what time is left after so many seconds, and so much of the work.
_SETTLED_S, _SETTLED = 3.0, 0.01
#: Columns of a bar, of its numbers and of what is around them; and of what is being done at least.
_BESIDE, _LEAST = 30, 20
#: Columns between two of a table, and beside all of them.
_GAP, _EDGES = 3, 2
#: What a line with a command has in it.
_COMMAND = "ratecheck "
#: Columns that stay on one line where the terminal is narrow.
_UNBROKEN = {"id", "claim", "claims", "experiment", "measured", "interval", "ours", "peer's"}


def dump(value: Any) -> str:
    """Strict JSON: no NaN and no infinity."""
    return json.dumps(value, indent=1, allow_nan=False)


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or as the variable ``COLUMNS`` says, else 80."""
    from rich.console import Console

    watched = Console(stderr=stderr, highlight=False)
    if watched.is_terminal:
        return watched
    return Console(stderr=stderr, highlight=False, width=shutil.get_terminal_size().columns)


def say(screen: Console, lines: Sequence[str]) -> None:
    """Print lines without markup; long ones are folded between words.

    The width is that of the terminal, else that of the variable ``COLUMNS``, else 80. Commands can
    be copied: they stay whole, or a shell reads on after the backslash at the end of a line.
    """
    if parts := folded(lines, screen.width):
        screen.print("\n".join(parts), markup=False, highlight=False, soft_wrap=True)


def folded(lines: Sequence[str], width: int) -> list[str]:
    """Lines as :func:`say` prints them on a screen of this width."""
    return [
        part for line in lines for part in (_command if _COMMAND in line else wrapped)(line, width)
    ]


def _command(line: str, width: int) -> list[str]:
    """A line with a command, folded where a shell reads on if the command is all that it says.

    One with a quote stays whole: a space in it may belong to a path.
    """
    if len(line) <= width or "'" in line or not re.match(rf"\s*(again: )?{_COMMAND}", line):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    parts = textwrap.wrap(
        line,
        width - 2,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*(f"{part} \\" for part in parts[:-1]), parts[-1]]


def width_of(stream: TextIO) -> int | None:
    """How many columns a stream has that goes to a terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else None
    except (OSError, ValueError):
        return None


def wrapped(line: str, width: int) -> list[str]:
    """A line folded between words, what follows the first part a little further to the right.

    One with a word that is longer than that, such as a path, stays whole.
    """
    if any(len(word) > width for word in line.split(" ")):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    below = indent + ("  " if indent else "")
    parts = textwrap.wrap(
        line, width, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
    )
    return parts or [line]


def tabulate(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    styles: Mapping[int, str] | None = None,
    *,
    edges: bool = True,
) -> Table:
    """A plain table whose cells are shown literally; ``styles`` are those of rows by number.

    Without ``edges`` there is no blank line above it and below.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(title) or None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=edges,
    )
    words = [max(map(len, header.split()), default=0) for header in headers]
    whole = sum(words) + _GAP * (len(words) - 1) + _EDGES <= console().width
    for header, word in zip(headers, words, strict=True):
        table.add_column(
            header,
            overflow="fold",
            no_wrap=header in _UNBROKEN,
            min_width=word if whole else None,  # so that no word of it is broken
        )
    for number, row in enumerate(rows):
        table.add_row(*map(escape, row), style=(styles or {}).get(number))
    return table


def show_list(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    below: Sequence[str],
    title: str = "",
    styles: Mapping[int, str] | None = None,
) -> None:
    """Print a table; where it is too wide, rows as lines with the columns ``below`` under them.

    The width is that of the terminal, else that of the variable ``COLUMNS``, else 80. Of what has a
    ``title`` the columns are named as well; ``styles`` are those of rows by number.
    """
    screen = console()
    show = partial(screen.print, markup=False, highlight=False, soft_wrap=True)
    if title:
        show("\n".join(["", *wrapped(title, screen.width)]), style="italic")
    longest = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    table = sum(longest) + _GAP * (len(longest) - 1) + _EDGES
    if screen.width >= min(_WIDE, table):
        screen.print(tabulate(headers, rows, styles=styles))
        return
    first = [k for k, header in enumerate(headers) if header not in below]
    fits = sum(longest[k] for k in first) + 2 * len(first) <= screen.width
    named = [headers] if title else []
    for number, row in enumerate([*named, *rows], start=-len(named)):
        cells = [row[k].ljust(longest[k] if fits else 0) for k in first]
        lines = ["  ".join(cells).rstrip()]
        lines += [f"  {row[headers.index(header)]}" for header in below]
        style = "bold" if number < 0 else (styles or {}).get(number)
        for part in (part for line in lines for part in wrapped(line, screen.width)):
            show(part, style=style)
    screen.print()


class Bar:
    """How far something is, on a terminal; a :data:`ratecheck._processes.interrupts.Progress`."""

    def __init__(self, bar: progress.Progress, name: str) -> None:
        self._bar, self._name = bar, name
        self._task = bar.add_task(name, total=None, counted="", first=None)

    def __call__(self, done: float, total: int) -> None:
        first = self._bar.tasks[0].fields["first"]
        self._bar.update(
            self._task,
            completed=done,
            total=total,
            counted=f"{100 * done / total if total else 100:>3.0f}% {int(done)}/{total}",
            first=done if first is None else first,
        )

    def doing(self, what: str) -> None:
        """Show beside the name what is being done; the name alone if ``what`` is empty.

        As much of it as leaves room for the bar and its numbers.
        """
        room = max(self._bar.console.width - len(self._name) - _BESIDE, _LEAST)
        what = what if len(what) <= room else f"{what[: room - 3]} .."
        said = f"{self._name} ({what})" if what else self._name
        self._bar.update(self._task, description=said)

    @contextmanager
    def away(self) -> Iterator[None]:
        """In the block the bar is not there, so that a line of the answer takes its place."""
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.start()


def _left(elapsed: float, done: float, total: float) -> float | None:
    """Seconds that are left at the speed so far; None where too little is done to know it.

    >>> _left(60.0, 1, 4), _left(1.0, 1, 4), _left(60.0, 0.01, 4)
    (180.0, None, None)
    """
    if elapsed < _SETTLED_S or done < _SETTLED * total:
        return None
    return elapsed * (total - done) / done


@contextmanager
def progress_bar(name: str) -> Iterator[Bar | None]:
    """A bar on stderr when that is a terminal, nothing in a pipe."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield None
        return
    from rich import progress
    from rich.text import Text

    class Remaining(progress.ProgressColumn):
        """The time that is left, or the whole one at the end."""

        def render(self, task: progress.Task) -> Text:
            first, total, elapsed = task.fields["first"], task.total, task.elapsed or 0.0
            left = None
            if task.finished:
                left = task.finished_time
            elif first is not None and total is not None:
                left = _left(elapsed, task.completed - first, total - first)
            text = "-:--:--" if left is None else str(timedelta(seconds=round(left)))
            return Text(text, style="progress.remaining")

    columns = (
        *(progress.TextColumn("{task.description}"), progress.BarColumn()),
        *(progress.TextColumn("{task.fields[counted]}"), Remaining()),
    )
    with progress.Progress(*columns, console=screen, transient=True, redirect_stdout=False) as bar:
        yield Bar(bar, name)
