"""Claims whose functions do not return, or end their process, beside one that is false."""

import ctypes
import os
import sys

import ratecheck as rc

PAPER = rc.Paper("odd", "odd claims")
ON = {"x": rc.interval()}


@PAPER.upper("good", ref="1", on=ON)
def good(x):
    """X <= x^2."""
    return x, x**2


@PAPER.upper("crashes", ref="2", on=ON)
def crashes(x):
    """A fault of memory."""
    ctypes.string_at(0)
    return x, x


@PAPER.upper("leaves", ref="3", on=ON)
def leaves(x):
    """The end of the process, which nothing notices."""
    os._exit(3)
    return x, x


@PAPER.upper("exits", ref="4", on=ON)
def exits(x):
    """The end of the program."""
    sys.exit(4)
    return x, x


@PAPER.upper("computes", ref="5", on=ON)
def computes(x):
    """Compiled code that does not return."""
    sum(range(10**13))
    return x, x


@PAPER.upper("turns", ref="6", on=ON)
def turns(x):
    """A loop of Python's."""
    while True:
        pass
    return x, x


@PAPER.identity("crashes_late", ref="7", on=ON)
def crashes_late(x):
    """2 x = x + x, in floating point alone."""
    if type(x).__module__ != "numpy":
        ctypes.string_at(0)
    return 2 * x, x + x


@PAPER.upper("also_good", ref="8", on=ON)
def also_good(x):
    """X <= x / 2."""
    return x, x / 2
