"""Texts of a catalogue in Markdown, shown as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence


def plain(text: str) -> str:
    """A text on one line, with everything escaped that would be markup.

    >>> print(plain("|x_*| <= a * b"))
    |x\\_\\*| \\<= a \\* b
    """
    return re.sub(r"([\\`*_<\[~$])", r"\\\1", " ".join(text.split()))


def sentence(text: str) -> str:
    """A text that follows another one, with a capital and a full stop.

    >>> sentence("no two agree"), sentence("")
    (' No two agree.', '')
    """
    escaped = plain(text)
    if not escaped:
        return ""
    end = "" if escaped.endswith((".", "!", "?")) else "."
    return f" {escaped[0].upper()}{escaped[1:]}{end}"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table.

    >>> table(["a", "b"], [["1", "|x|"]])
    ['| a | b |', '|---|---|', '| 1 | \\\\|x\\\\| |']
    """
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (headers, *rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return [lines[0], "|" + "---|" * len(headers), *lines[1:]]
