"""How arms of FIRM's figures are compared in what training adds to both rewards, and drawn.

A table is of one of two kinds. *Processes* (``_alignment``): each ``instance`` is a process of its
own with exact rewards, trained in several runs. *Language models* (``bridge/_firm``): each ``draw``
is one run of the same model, scored on held-out prompts before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from linsys import InputError

Values = NDArray[np.float64]

#: Rewards "match" if they differ by at most this share of what training gains: a tenth of the
#: height of a curve, about the smallest difference that can be seen in the paper's pictures.
MATCH = 0.1
#: Rewards in [0, 1] are solutions of small linear systems; smaller values are rounding errors.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class SmoothedConfig(rc.Config):
    """Where weights of single runs are drawn."""

    half_life: float = rc.param(
        20.0,
        above=0.0,
        doc=("of the moving average of the weights of single runs in the picture, in local steps."),
    )


def ema(values: Values, half_life: float) -> Values:
    """Exponential moving average along the last axis, the weights of all past values adding to one.

    >>> ema(np.array([0.0, 1.0, 1.0]), 1.0).round(4).tolist()  # 0, 2/3, 6/7
    [0.0, 0.6667, 0.8571]
    """
    keep = 0.5 ** (1.0 / half_life)
    total, count, means = np.zeros(values.shape[:-1]), 0.0, np.empty(values.shape)
    for t in range(values.shape[-1]):
        total, count = keep * total + values[..., t], keep * count + 1.0
        means[..., t] = total / count
    return means


def of_processes(table: rc.Table) -> bool:
    """Whether a table is of processes, otherwise of language models."""
    return "instance" in table


def curves_of(table: rc.Table, column: str, arm: str) -> Values:
    """A column of one arm, (instances, replicates, times) or (seeds, times)."""
    axes = ("instance", "replicate") if of_processes(table) else ("draw",)
    return np.asarray(table.where(arm=arm).grid(column, *axes, "t"))


def gain(table: rc.Table, j: int, arm: str) -> Values:
    """The increase of reward j = 1, 2, .. by training, averaged over runs or prompts for tests.

    Shape (instances,) or (seeds,).
    """
    if of_processes(table):
        curve = curves_of(table, f"reward_{j}", arm)
        return np.asarray((curve[..., -1] - curve[..., 0]).mean(axis=1))
    part = table.where(arm=arm, t=1)
    return np.asarray(part.grid(f"end_{j}", "draw") - part.grid(f"start_{j}", "draw"))


def mean_gain(table: rc.Table, arm: str) -> Values:
    """The increase of the mean of both rewards by training, shape (instances,) or (seeds,)."""
    return np.asarray(np.mean([gain(table, j, arm) for j in (1, 2)], axis=0))


def scale(table: rc.Table, arm: str) -> Values:
    """The size of the mean gain, the unit of all differences, as rewards have none of their own.

    Processes differ, and each has its own unit, (instances,). Seeds of one model have one unit
    together, (), as gains of single seeds are noisy. Training may lose: a difference in units of a
    loss would turn its sign.
    """
    gains = mean_gain(table, arm)
    if not of_processes(table):
        gains = gains.mean()
    if np.abs(gains).min() <= _ROUNDING:
        raise InputError(
            "`alpha` and `rounds` must be large enough to change the rewards of every instance; "
            f"found a mean gain of {np.min(np.abs(gains)):.3g} for {arm}"
        )
    return np.asarray(np.abs(gains))


def in_gains(
    values: Values,
    table: rc.Table,
    arm: str,
    interval: Callable[[Values], rc.Interval] = rc.mean_interval,
) -> rc.Interval:
    """An interval of differences (.., instances) or (.., seeds) in units of the gain of an arm.

    Where training of a model does not help in the mean its gain is no unit, and nothing bounds the
    interval.
    """
    measured = interval(values / scale(table, arm))
    if not of_processes(table) and mean_gain(table, arm).mean() <= 0.0:
        return rc.Interval(measured.value, -np.inf, np.inf)
    return measured


def without_gain(table: rc.Table) -> list[str]:
    """Of runs of a model, a line for every arm, in every setting, whose training does not help."""
    parts = {"": table}
    if "setting" in table:
        parts = {f" ({one})": table.where(setting=one) for one in table.unique("setting")}
    return [
        f"training does not help: {arm} changes the mean of both rewards by {mean:+.3g}{where}; "
        "what is compared in units of its gain is not decided"
        for where, part in parts.items()
        for arm in dict.fromkeys(str(name) for name in part["arm"])
        if (mean := float(mean_gain(part, arm).mean())) <= 0.0
    ]


def advantage(table: rc.Table, j: int, ours: str, theirs: str) -> rc.Interval:
    """The gain of ``ours`` in reward j less that of ``theirs``, in units of the latter's scale."""
    return in_gains(gain(table, j, ours) - gain(table, j, theirs), table, theirs)


def rewards_match(titles: Iterable[str], table: rc.Table, ours: str, theirs: str) -> list[rc.Check]:
    """The claims that both rewards, in words ``titles``, end alike."""
    return [
        rc.within(
            f"{title}: ({ours} − {theirs}) / gain",
            f"matches: within {MATCH:g} of the gain",
            advantage(table, j, ours, theirs),
            -MATCH,
            MATCH,
        )
        for j, title in enumerate(titles, start=1)
    ]


def rewards_kept(
    titles: Iterable[str], table: rc.Table, ours: str, theirs: str, claim: str
) -> list[rc.Check]:
    """The claims that neither reward ends lower by more than what still matches."""
    return [
        rc.at_least(
            f"{title}: ({ours} − {theirs}) / gain",
            f"{claim}: at least -{MATCH:g}",
            advantage(table, j, ours, theirs),
            -MATCH,
        )
        for j, title in enumerate(titles, start=1)
    ]


def weights_match(table: rc.Table, ours: str, theirs: str) -> rc.Check:
    """The claim that mean weights are "nearly identical": no further apart than two runs are.

    All distances are root mean squares over time. The paper compares single runs, in which a ratio
    below one cannot be seen. Of processes the curves are averaged over runs, and their distance is
    divided by the deviation of one run from its mean. Of a model there is one run for a seed: the
    distance of two of them with one seed is divided by that of two seeds of ``theirs``.
    """
    a, b = (curves_of(table, "weight", arm) for arm in (ours, theirs))
    if of_processes(table):
        distance = np.sqrt(((a.mean(axis=1) - b.mean(axis=1)) ** 2).mean(axis=-1))
        one_run = np.sqrt(b.var(axis=1, ddof=1).mean(axis=-1))
        return rc.below(
            f"distance of the weights of {ours} and {theirs} / deviation of one run",
            "nearly identical: below 1",
            rc.mean_interval(distance / one_run),
        )
    distance = np.sqrt(((a - b) ** 2).mean(axis=1))
    pairs = np.sqrt(2.0 * b.var(axis=0, ddof=1).mean())
    return rc.at_most(
        f"mean weights: distance of {ours} and {theirs} / distance of two seeds of {theirs}",
        "nearly identical: at most 1",
        rc.mean_interval(distance / pairs),
        1.0,
    )


#: Two panels to a row.
TWO_ABREAST = rc.Layout(columns=2, width=3.2, legend=3)
#: The paper's colours of FIRM and of what it is compared with.
FIRM_LOOK, OTHER_LOOK = rc.look("FIRM", 3), rc.look("FedCMOO-A", 0)


def round_ticks(config: Any) -> range:
    """Whole rounds, five of them at most."""
    return range(0, config.rounds + 1, -(-config.rounds // 4))


def against_rounds(config: Any) -> rc.Panel:
    """The axes of curves against rounds."""
    return rc.Panel("round", ticks=round_ticks(config))
