"""How the text versions of FIRM's figures compare runs and draw them.

A gain is what training adds to a reward on the held-out prompts. Differences are formed within a
seed and given as shares of the mean gain, since rewards have no unit of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

import ratecheck as rc
from experiments.bridge._models import Values
from experiments.firm.bridge._firm import FirmConfig
from linsys import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Rewards "match" if they differ by at most this share of what training gains, as in ``firm``.
MATCH = 0.1
#: The smallest drift that is drawn on a logarithmic axis.
TINY = 1e-12
#: Titles of the panels.
WEIGHT, SPREAD = "mean weight", "standard deviation of clients' weights"
DRIFT = "disagreement drift"
#: A gain below this share of another one is no "substantial progress" beside it, but a "collapse".
SUBSTANTIAL = 0.5
#: What a loss is averaged over, by the name of the option.
_MEANS = {
    "token": "tokens",
    "sequence": "responses, each a mean over its tokens",
    "sum": "responses, each a sum over its tokens",
}


def gain(table: rc.Table, j: int, arm: str) -> Values:
    """The increase of reward j = 1, 2, .. by training on the tests, (seeds,)."""
    part = table.where(arm=arm, t=1)
    return np.asarray(part.grid(f"end_{j}", "draw") - part.grid(f"start_{j}", "draw"))


def mean_gain(table: rc.Table, arm: str) -> float:
    """The gain averaged over both rewards and seeds: the scale of all differences."""
    mean = float(np.mean([gain(table, j, arm) for j in (1, 2)]))
    if mean <= 0.0:
        raise InputError(
            f"`gammas` and `rounds` must be such that training helps; found that {arm} changes the "
            f"mean reward by {mean:.3g}"
        )
    return mean


def advantage(table: rc.Table, j: int, ours: str, theirs: str) -> rc.Interval:
    """The gain of ``ours`` in reward j less that of ``theirs``, over the latter's mean gain."""
    return rc.mean_interval(
        (gain(table, j, ours) - gain(table, j, theirs)) / mean_gain(table, theirs)
    )


def rewards_match(config: FirmConfig, table: rc.Table, ours: str, theirs: str) -> list[rc.Check]:
    """The claims that both rewards end alike."""
    return [
        rc.within(
            f"{title}: ({ours} − {theirs}) / gain",
            f"matches: within {MATCH:g} of the gain",
            advantage(table, j, ours, theirs),
            -MATCH,
            MATCH,
        )
        for j, title in enumerate(config.objectives, start=1)
    ]


def rewards_kept(
    config: FirmConfig, table: rc.Table, ours: str, theirs: str, claim: str
) -> list[rc.Check]:
    """The claims that neither reward ends lower by more than what still matches."""
    return [
        rc.at_least(
            f"{title}: ({ours} − {theirs}) / gain",
            f"{claim}: at least -{MATCH:g}",
            advantage(table, j, ours, theirs),
            -MATCH,
        )
        for j, title in enumerate(config.objectives, start=1)
    ]


def progress(table: rc.Table, ours: str, theirs: str, least: float, claim: str) -> rc.Check:
    """The claim that both rewards together gain a share ``least`` of what ``theirs`` gains."""
    mean = np.mean([gain(table, j, ours) for j in (1, 2)], axis=0)
    return rc.at_least(
        f"mean of both rewards: gain of {ours} / {theirs}",
        f"{claim}: at least {least:g}",
        rc.mean_interval(mean / mean_gain(table, theirs)),
        least,
    )


def curves_of(table: rc.Table, column: str, arm: str) -> Values:
    """A column of one arm, (seeds, steps)."""
    return np.asarray(table.where(arm=arm).grid(column, "draw", "t"))


def weights_match(table: rc.Table, ours: str, theirs: str) -> rc.Check:
    """The claim that mean weights are "nearly identical": no further apart than two runs are.

    The mean distance of two runs with one seed over that of two runs of ``theirs`` with two seeds,
    root mean squares over time. A ratio below one cannot be told from noise in single runs.
    """
    a, b = curves_of(table, "weight", ours), curves_of(table, "weight", theirs)
    distance = np.sqrt(((a - b) ** 2).mean(axis=1))
    pairs = np.sqrt(2.0 * b.var(axis=0, ddof=1).mean())
    return rc.at_most(
        f"mean weights: distance of {ours} and {theirs} / distance of two seeds of {theirs}",
        "nearly identical: at most 1",
        rc.mean_interval(distance / pairs),
        1.0,
    )


def log_band(values: Values) -> tuple[Values, Values, Values]:
    """Geometric means over seeds with 90 % bands, for logarithmic axes; zero counts as tiny."""
    mean, lo, hi = rc.mean_band(np.log(np.maximum(values, TINY)))
    return np.exp(mean), np.exp(lo), np.exp(hi)


def rewards_shown(
    config: FirmConfig, table: rc.Table, arms: Iterable[str], titles: Sequence[str]
) -> list[rc.Series]:
    """Both rewards of the rollouts against rounds: means over seeds with 90 % bands."""
    rounds = np.arange(config.rounds)
    return [
        rc.Series(
            arm, title, rounds, *rc.mean_band(curves_of(table, f"reward_{j}", arm)[:, :: config.K])
        )
        for j, title in enumerate(titles, start=1)
        for arm in arms
    ]


def curves_by_round(
    config: FirmConfig, table: rc.Table, column: str, title: str, arms: Iterable[str]
) -> list[rc.Series]:
    """A column averaged over the steps of a round, against rounds, with 90 % bands over seeds."""
    rounds = np.arange(config.rounds)
    series = []
    for arm in arms:
        values = curves_of(table, column, arm)
        each = values.reshape(len(values), config.rounds, config.K).mean(axis=-1)
        series.append(rc.Series(arm, title, rounds, *rc.mean_band(each)))
    return series


def notes_on_runs(config: FirmConfig, table: rc.Table) -> list[str]:
    """Model, data, seeds, switches, and how far policies went."""
    last = table.where(t=int(config.steps[-1]))
    held = f"fixed at {config.kl_start:g}"
    if config.kl_target is not None:
        held = f"from {config.kl_start:g}, target {config.kl_target:g} per {config.kl_unit}"
    switches = (
        f"K = {config.K} local steps of {config.optimizer} (moments {config.moments}); penalty on "
        f"the KL divergence {config.kl} the weighted objectives ({config.kl_kind}, coefficient "
        f"{held}); advantages {'' if config.whitened else 'not '}whitened; losses are means over "
        f"{_MEANS[config.average]}"
    )
    return [
        f"{table['what'][0]}; {config.seeds} seeds derived from {config.seed}",
        f"gain: what training adds to a reward on {int(table['tests'][0])} held-out prompts",
        f"step size {table['alpha'][0]:g}; {switches}",
        f"last rollouts: KL divergence {last['kl_token'].mean():.3f} per token, "
        f"{last['kl_sequence'].mean():.2f} per response",
    ]


def comparison(
    config: FirmConfig, table: rc.Table, arms: Sequence[str], titles: Sequence[str] = ()
) -> list[rc.Series]:
    """Weights, their spread and both rewards of some arms; ``titles`` are those of rewards."""
    return [
        *curves_by_round(config, table, "weight", f"{WEIGHT}: {config.objectives[0]}", arms),
        *curves_by_round(config, table, "spread", SPREAD, arms),
        *rewards_shown(config, table, arms, titles or config.objectives),
    ]


def draw_panels(config: FirmConfig, analysis: rc.Analysis) -> Figure:
    """Two panels to a row, against rounds."""
    figure, axes = rc.panels(analysis.series, columns=2, width=3.2, share_y=False)
    rc.curves(axes, analysis.series)
    for ax in axes.values():
        ax.set_xticks(np.arange(0, config.rounds + 1, -(-config.rounds // 4)))
    for ax in list(axes.values())[-2:]:
        ax.set_xlabel("round")
    rc.legend(figure, axes, columns=3)
    return figure
