"""The Python file of the claim that data name, such as a certificate or a counterexample.

Data are read and never run. But the claim's own function has to be evaluated, so that its file is
imported, and a file is a program. Data from elsewhere therefore do not choose which one: it lies in
the project of the current folder, or the user names it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linsys.validate import InputError
from ratecheck._discover.table import find_table

#: What is the id of one claim, and no pattern, file or folder.
_ID = re.compile(r"[a-z0-9_]+\.(?!py$)[A-Za-z0-9_]+")


def files_of_claim(name: str, file: Any, references: Sequence[str]) -> list[str]:
    """The user's files in which a claim is to be looked for; none of a claim of a paper.

    Nothing of them is imported here.

    Args:
        name: the claim's id, as the data have it.
        file: the claim's file, as the data have it; None without one.
        references: what the user gave; Python files among them take the place of ``file``.

    Raises:
        InputError: the id of no single claim, no such file, or one outside of the project that the
            user did not give.
    """
    if not _ID.fullmatch(name):
        raise InputError(f"`id` must be that of one claim; found {name!r:.80}")
    given = [one.partition("::")[0] for one in references if ".py" in one]
    own = [] if given or file is None else [file]
    if own and not (isinstance(file, str) and file.endswith(".py") and "::" not in file):
        raise InputError(f"`file` must be a Python file; found {file!r:.80}")
    for path in (*given, *own):
        if not os.path.isfile(path):
            raise InputError(f"claims file must exist; found no file {path}")
    if own and not is_within(own[0]):
        raise InputError(
            f"`file` must lie below {_root()}, or be given as an argument, as it is a program and "
            f"would be run; found {file}"
        )
    return [*given, *own]


def is_within(file: str) -> bool:
    """Whether a file lies below the project of the current folder, links followed."""
    return Path(file).resolve().is_relative_to(_root())


def given_beside(origin: str) -> list[str]:
    """What a command needs to be given beside data on a claim of this module or file."""
    return [origin] if origin.endswith(".py") and not is_within(origin) else []


def _root() -> Path:
    """The folder of the table of the current project; without one the current folder."""
    table = find_table(lambda fault: None)
    return (Path.cwd() if table is None else table[0].parent).resolve()
