"""The table ``[tool.ratecheck]`` of the user's project; see :mod:`ratecheck._discover.project`.

To look whether there is one imports nothing.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ratecheck._store import RESULTS

#: The file with the table, and the table's name in it.
FILE, TABLE = "pyproject.toml", "ratecheck"
#: Told in one line of what cannot be read.
Broken = Callable[[str], None]
#: What is wrong with a user's files, by path, content and limit, for as long as a command lasts.
Faults = dict[tuple[Path, bytes, float], str]
_FAULTS: ContextVar[Faults | None] = ContextVar("faults of this command", default=None)


@contextmanager
def faults_remembered() -> Iterator[None]:
    """In the block a user's file whose import failed is not imported again while it is the same.

    Its import may have taken all its time. Outside of a command, as in a notebook, what the file
    imports may have been mended meanwhile.
    """
    before = _FAULTS.set({})
    try:
        yield
    finally:
        _FAULTS.reset(before)


def faults_known() -> Faults:
    """What is wrong with files that were read before in the block; what is added is known there."""
    known = _FAULTS.get()
    return {} if known is None else known


def find_table(broken: Broken) -> tuple[Path, Any] | None:
    """The file with the table of the current project and what the table holds, or None.

    It is looked for in the current folder, then in those above it. ``broken`` is told of a file
    that cannot be read; what is above it is not looked at.
    """
    here = Path.cwd()
    for path in (folder / FILE for folder in (here, *here.parents)):
        if not path.is_file():
            continue
        try:
            tools = tomllib.loads(path.read_text(encoding="utf-8")).get("tool")
        except (OSError, ValueError) as error:
            broken(f"{path} must be TOML; found {error}")
            return None
        if isinstance(tools, dict) and TABLE in tools:
            return path, tools[TABLE]
    return None


def results() -> Path:
    """Where results are unless the user says otherwise: in the root of the current project.

    That is the folder of the file with the table, seen from the current folder; without a table the
    current folder.
    """
    table = find_table(lambda fault: None)  # whoever reads the project says what is wrong
    return RESULTS if table is None else Path(os.path.relpath(table[0].parent)) / RESULTS
