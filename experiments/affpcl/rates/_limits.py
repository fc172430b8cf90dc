"""Limits of error ratios as the number of agents grows, with what does not grow computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from experiments.affpcl._rates_systems import Types, exact_errors
from linsys.algorithms import AffPCL, Independent
from linsys.validate import Array

__all__ = ["limit_of_many"]


def limit_of_many(
    build: Callable[[int], Types], n: int, t: float, which: Sequence[int] | None = None
) -> Array:
    """The ratios of :func:`experiments.affpcl._rates_systems.many_agents`, of some types.

    Learning alone has the same error for every number of agents.

    Args:
        build: the types of so many agents.
        n: the smallest number of agents.
        t: rounds.
        which: types to report; all of them without it.
    """
    populations = [build(k * n) for k in (1, 2, 4)]
    first, time = populations[0], [round(t)]
    which = range(len(first.counts)) if which is None else which
    alone = exact_errors(first.one_each, Independent(), time, which).error[0]
    one, two, four = (
        exact_errors(types.system, AffPCL(), time, [types.agents[k] for k in which]).error[0]
        / alone
        for types in populations
    )
    # Richardson's extrapolation
    return np.asarray((8.0 * four - 6.0 * two + one) / 3.0)
