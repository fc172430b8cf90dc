"""What fits on one screen: a summary is cut to it, and the whole is printed with ``--verbose``."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from ratecheck._report.terminal import folded

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: Lines of a terminal.
LINES = 24
#: Of these, lines for a summary: others say where results go, and ask for the next command.
ROOM = LINES - 2
#: Lines that a table has at least, whatever is told beside it; and its fewest rows.
TABLE, _ROWS = 6, 2


def height(lines: Sequence[str], width: int) -> int:
    """How many lines of a screen these take, as :func:`ratecheck._report.terminal.say` has them.

    >>> height(["two words", "short"], 5)
    3
    """
    return sum(max(1, -(-len(part) // width)) for part in folded(lines, width))


def height_of(show: Callable[[], object]) -> int:
    """How many lines are printed by a function, which prints nothing now."""
    with redirect_stdout(io.StringIO()) as printed:
        show()
    return len(printed.getvalue().splitlines())


def with_room(
    screen: Console, make: Callable[[int], Table], rows: int, room: int, least: int = _ROWS
) -> Table:
    """The table with as many rows as fit into some lines, made by a function that is told them."""
    for number in range(rows, least, -1):
        table = make(number)
        with screen.capture() as printed:
            screen.print(table)
        if len(printed.get().splitlines()) <= room:
            return table
    return make(min(rows, least))


def most_telling(weights: Sequence[tuple[int, ...]], most: int) -> tuple[list[int], list[int]]:
    """Which rows are shown and which are not, in their order, if there are too many.

    The last one shown is for the others.

    Args:
        weights: of each row; those with the largest are shown, and of equal ones the first.
        most: rows that are shown.

    >>> most_telling([(0,), (2,), (0,), (1,)], 3)
    ([1, 3], [0, 2])
    >>> most_telling([(0,), (2,)], 2)
    ([0, 1], [])
    """
    everything = range(len(weights))
    if len(weights) <= most:
        return [*everything], []
    chosen = sorted(everything, key=lambda k: weights[k], reverse=True)[: max(most - 1, 0)]
    return sorted(chosen), [k for k in everything if k not in chosen]


def few(names: Sequence[str], most: int) -> str:
    """Names in a line, and how many more there are.

    >>> few(["a", "b", "c"], 3), few(["a", "b", "c"], 1)
    ('a, b, c', 'a and 2 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def fitting(
    groups: Sequence[Sequence[str]], more: Sequence[str], room: int, width: int
) -> list[str]:
    """Lines of some groups as far as they fit, the first groups first.

    Args:
        groups: lines that belong together.
        more: what is said of each group that is cut, before the number of lines that are left out.
        room: lines of the screen, of which each group gets at least two.
        width: of the screen.

    >>> fitting([["a", "b", "c"], ["d"]], ["first", "second"], 3, 80)
    ['a', 'first: 2 more', 'd']
    """
    told: list[str] = []
    for position, (group, what) in enumerate(zip(groups, more, strict=True)):
        later = sum(min(2, len(other)) for other in groups[position + 1 :])
        left = max(room - height(told, width) - later, min(2, len(group)))
        number = min(len(group), left)  # each takes a line at least
        while number > 1 and height(group[:number], width) + (number < len(group)) > left:
            number -= 1
        told += group[:number]
        if number < len(group):
            told.append(f"{what}: {len(group) - number} more")
    return told
