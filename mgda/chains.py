"""Markov chains of states: the check of Assumption 1(b) of FIRM."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from linsys.validate import Array, InputError

__all__ = ["check_ergodic"]


def check_ergodic(name: str, kernel: Array) -> None:
    """Refuse a chain (S, S) that is reducible or periodic, Assumption 1(b), and name a state.

    >>> check_ergodic("P", np.array([[0.0, 1.0], [1.0, 0.0]]))
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `P` must give an aperiodic chain; found period 2 at state 0
    """
    size = len(kernel)
    edges = kernel > 0
    reach = edges | np.eye(size, dtype=bool)
    for _ in range(size.bit_length()):
        reach = reach @ reach
    if not reach.all():
        origin, goal = (int(s) for s in np.argwhere(~reach)[0])
        raise InputError(
            f"`{name}` must give an irreducible chain; found state {origin}, from which state "
            f"{goal} is never reached"
        )
    level = np.full(size, -1)
    level[0], front = 0, [0]
    while front:
        front = [int(s) for s in np.flatnonzero(edges[front].any(axis=0) & (level < 0))]
        level[front] = level.max() + 1
    # every cycle's length is a sum of these steps, so that their divisor is the period
    steps = (int(level[s]) + 1 - int(level[t]) for s, t in np.argwhere(edges))
    period = reduce(math.gcd, steps)
    if period != 1:
        raise InputError(f"`{name}` must give an aperiodic chain; found period {period} at state 0")
