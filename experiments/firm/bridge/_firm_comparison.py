"""How the text versions of FIRM's figures compare runs and draw them.

A gain is what training adds to a reward on the held-out prompts. Differences are formed within a
seed and given as shares of the mean gain, since rewards have no unit of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

import ratecheck as rc
from experiments.bridge.models import Values
from experiments.firm._comparison import curves_of, in_gains, mean_gain, without_gain
from experiments.firm.bridge._firm import FirmConfig

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


def progress(table: rc.Table, ours: str, theirs: str, least: float, claim: str) -> rc.Check:
    """The claim that both rewards together gain a share ``least`` of what ``theirs`` gains."""
    return rc.at_least(
        f"mean of both rewards: gain of {ours} / {theirs}",
        f"{claim}: at least {least:g}",
        in_gains(mean_gain(table, ours), table, theirs),
        least,
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
    tests = int(table["tests"][0])
    fewer = (
        f", at most a quarter of all, for tests = {config.tests}" if tests < config.tests else ""
    )
    return [
        f"{table['what'][0]}; {config.seeds} seeds derived from {config.seed}",
        f"gain: what training adds to a reward on {tests} held-out prompts{fewer}",
        f"step size {table['alpha'][0]:g}; {switches}",
        f"last rollouts: KL divergence {last['kl_token'].mean():.3f} per token, "
        f"{last['kl_sequence'].mean():.2f} per response",
        *without_gain(table),
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
