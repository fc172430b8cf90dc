"""Where an error comes from: the line of the user's formula, not of the arithmetic below it."""

from __future__ import annotations

import linecache
import sys
import traceback
from pathlib import Path
from types import FrameType

from linsys.validate import InputError

#: Parts of the paths of files whose lines say nothing about the formula that calls them.
_BELOW = ("linsys/linalg/", "numpy/", "mpmath/", "flint/", "ratecheck/_", "contextlib.py")


def place_of(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost line of the formula that raised the error, or None."""
    frames = traceback.extract_tb(error.__traceback__)
    # where our own packages refuse what they are given, their lines say nothing either
    below = (*_BELOW, "linsys/", "mgda/") if isinstance(error, InputError) else _BELOW
    of_formula = [frame for frame in frames if _above(frame.filename, below)]
    return of_formula[-1] if of_formula else None


def here() -> tuple[str, int] | None:
    """The file and line of the formula that is being evaluated, or None; see :func:`line_of`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _above(frame.f_code.co_filename, _BELOW):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def line_of(place: tuple[str, int]) -> str:
    """A file and line of :func:`here` with its text, such as ``mine.py:12, `x > 0```."""
    name, number = place
    return f"{Path(name).name}:{number}, `{linecache.getline(name, number).strip()}`"


def _above(filename: str, below: tuple[str, ...]) -> bool:
    """Whether a file is none of those below the formula."""
    return not filename.startswith("<") and not any(
        part in Path(filename).as_posix() for part in below
    )
