"""Where an error comes from: the line of the user's formula, not of the arithmetic below it."""

from __future__ import annotations

import traceback
from pathlib import Path

from linsys.validate import InputError

#: Parts of the paths of files whose lines say nothing about the formula that calls them.
_BELOW = ("linsys/linalg/", "numpy/", "mpmath/", "flint/", "ratecheck/_", "contextlib.py")


def place_of(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost line of the formula that raised the error, or None."""
    frames = traceback.extract_tb(error.__traceback__)
    # where our own packages refuse what they are given, their lines say nothing either
    below = (*_BELOW, "linsys/", "mgda/") if isinstance(error, InputError) else _BELOW
    of_formula = [
        frame
        for frame in frames
        if not any(part in Path(frame.filename).as_posix() for part in below)
        and not frame.filename.startswith("<")
    ]
    return of_formula[-1] if of_formula else None
