"""Grids that an experiment measures on, refused before anything is computed if they are too short.

A slope needs two points: without them an analysis would fail once all of its blocks are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from linsys import InputError
from linsys.validate import check_integer, check_number

__all__ = ["check_counts", "check_grid"]


def check_grid(name: str, values: Sequence[float], low: float, least: int = 2) -> None:
    """Refuse a grid that is not increasing, shorter than ``least``, or below ``low``."""
    for value in values:
        check_number(name, value, low=low)
    if len(values) < least or any(a >= b for a, b in pairwise(values)):
        raise InputError(f"`{name}` must be at least {least} increasing values; found {values}")


def check_counts(name: str, values: Sequence[int], low: int = 1, least: int = 2) -> None:
    """The same for whole numbers."""
    for value in values:
        check_integer(name, value, low=low)
    check_grid(name, values, low, least)
