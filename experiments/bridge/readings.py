"""What is read off a table of runs: claims over seeds, how far modules went, and the notes.

Nothing here trains: tables hold all that is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.bridge.devices import DeviceConfig
from experiments.bridge.models import TunedConfig, Values

#: The prediction of a check that a paper claims; other checks are derived.
CLAIMED = "above 0, as the paper has it"


def over_domains(table: rc.Table, value: str = "accuracy", **where: Any) -> Values:
    """A value averaged over domains, (seeds, times)."""
    return np.asarray(table.where(**where).grid(value, "draw", "t", "domain").mean(axis=-1))


def claim(what: str, ours: Values, theirs: Values) -> rc.Check:
    """The paper's claim that a number of every seed is above another one."""
    return rc.mean_above(what, CLAIMED, ours, theirs)


def extent(values: Values) -> rc.Interval:
    """The mean, with the least and the largest as its interval: for checks that all must meet.

    >>> extent(np.array([1.0, 2.0, 6.0]))
    Interval(value=3.0, lo=1.0, hi=6.0)
    """
    return rc.Interval(float(values.mean()), float(values.min()), float(values.max()))


def identity(name: str, ratios: Values, rounding: float) -> rc.Check:
    """The claim that numbers are one, each up to rounding."""
    limits = 1.0 - rounding, 1.0 + rounding
    return rc.every(rc.within(name, 1.0, extent(ratios), *limits))


def reach(H: int) -> float:
    """The largest change of an entry by H steps of AdamW from zero moments, in step sizes.

    In step h the mean of gradients has weights a_j and that of squares b_j, j <= h. By Cauchy and
    Schwarz their quotient is at most the root of the sum of a_j^2 / b_j, whatever the gradients;
    it is 1 where h = 1.

    >>> round(reach(1), 6), round(reach(5), 3)
    (1.0, 5.022)
    """
    total = 0.0
    for h in range(1, H + 1):
        past = np.arange(h)
        a = 0.1 * 0.9**past / (1 - 0.9**h)
        b = 0.001 * 0.999**past / (1 - 0.999**h)
        total += float(np.sqrt((a**2 / b).sum()))
    return total


def limits(config: DeviceConfig, table: rc.Table, rounds: int, share: float) -> Values:
    """The modules' change over the largest possible one, of every seed, (seeds,): at most 1.

    A device moves the entries of its k_i components by at most gamma times :func:`reach`, and the
    server adds the N-th part: on average over all entries that is the mean k_i / r of it, which is
    ``share``. The table is that of one arm.
    """
    moved = table.where(t=table["t"].max()).grid("moved", "draw", "domain")[:, 0]
    return np.asarray(moved / (rounds * share * table["gamma"][0] * reach(config.local_steps)))


def within_reach(name: str, shares: Mapping[Any, Values]) -> rc.Check:
    """The claim that no arm went farther than :func:`limits` lets it."""
    values = np.concatenate(list(shares.values()))
    return rc.every(rc.at_most(name, "at most 1", extent(values), 1.0))


def notes_on_runs(config: TunedConfig, table: rc.Table, arms: Mapping[str, rc.Table]) -> list[str]:
    """Model, data, seeds, the step size of every arm, and who was left out.

    ``arms`` are parts of the table by what a reader calls them.
    """
    steps = "; ".join(f"{name}: {part['gamma'][0]:g}" for name, part in arms.items())
    tried = ", ".join(f"{gamma:g}" for gamma in config.gammas)
    lost = int(table["missing"].max())
    end = [f"devices or users left out, at most in one run: {lost}"] if lost else []
    return [
        f"{table['what'][0]}; {config.seeds} seeds derived from {config.seed}",
        f"step size of every arm, the best of {tried} on other draws: {steps}",
        *end,
    ]
