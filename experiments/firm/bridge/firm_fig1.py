"""Figure 1 on texts: FIRM against FedCMOO-A, whose server resolves the conflict.

Problem and assumptions: eight clients with prompts of one kind, see ``bridge/_firm``.

Algorithms: FIRM (beta = .01, normalised Gram matrix) and FedCMOO-A without compression: clients
send their gradients once a round, the server solves one plain problem of MGDA for the averages,
and lambda stays for the K steps of the round.

Claims (Section 5, RQ1, and the caption): FIRM's rewards are comparable or better; its weights are
smoother and more consistent.

What the text leaves open, and the choices here: "comparable" is a gain smaller by at most a tenth.
Weights are the clients' mean, and looked at through the paper's moving average and as they are.

What is to be expected (``firm/fig1``): FedCMOO-A uses one noisy lambda K times where FIRM uses K of
them, so that smoothed it moves up to sqrt(K) times as much; within a round it does not move at all.
FedCMOO-A has no disagreement drift; a round carries M + 1 times as much up.

References: FIRM, Section 5 and Appendix A.1; Askin et al. (2024).

The picture shows means over seeds with 90 % bands; the weights of one run are smoothed as in the
paper. Checks are over seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

import ratecheck as rc
from experiments.bridge.models import Values
from experiments.firm._comparison import (
    FIRM_LOOK,
    MATCH,
    OTHER_LOOK,
    TWO_ABREAST,
    SmoothedConfig,
    against_rounds,
    curves_of,
    ema,
    gain,
    in_gains,
    rewards_kept,
)
from experiments.firm._words import outcome
from experiments.firm.bridge._firm import LAPTOP, PAPER, Arm, FirmConfig
from experiments.firm.bridge._firm_comparison import notes_on_runs, rewards_shown
from experiments.firm.bridge._firm_runs import columns
from mgda.fedcmoo import FedCMOO

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRM, SERVER = "FIRM", "FedCMOO-A"


@dataclass(frozen=True, kw_only=True)
class Fig1Config(SmoothedConfig, FirmConfig):
    """The set-up."""


def compute(config: Fig1Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Both methods on one draw."""
    server = Arm(lambda alpha: FedCMOO(alpha=alpha, **config.alike))
    return columns(config, {FIRM: Arm(config.firm()), SERVER: server}, block["draw"], context)


def analyse(config: Fig1Config, table: rc.Table) -> rc.Analysis:
    """Rewards, weights, and the claims."""
    series = rewards_shown(config, table, (FIRM, SERVER), config.objectives)
    weights = {name: curves_of(table, "weight", name) for name in (FIRM, SERVER)}
    smooth = {name: ema(values, config.half_life) for name, values in weights.items()}
    t = config.steps / config.K
    for title, curves in ((_RAW, weights), (_smoothed(config), smooth)):
        series += [rc.Series(name, title, t, values[0]) for name, values in curves.items()]
    half = config.rounds // 2 * config.K
    ends = slice(half + config.K - 1, None, config.K)
    both = np.mean([gain(table, j, FIRM) - gain(table, j, SERVER) for j in (1, 2)], axis=0)
    claim = "comparable or better"
    comparable = [
        rc.at_least(
            "mean of both rewards: (FIRM − FedCMOO-A) / gain",
            f"{claim}: at least -{MATCH:g}",
            in_gains(both, table, SERVER),
            -MATCH,
        ),
        *rewards_kept(config.objectives, table, FIRM, SERVER, claim),
    ]
    calm = [
        rc.below(f"{what}, FIRM / FedCMOO-A", "smoother: below 1", ratio, remark=ratio.wins)
        for what, ratio in (
            (
                "change of smoothed weights from round to round, second half",
                _ratio({name: values[:, ends] for name, values in smooth.items()}),
            ),
            (
                "change of weights from round to round",
                _ratio({name: values[:, :: config.K] for name, values in weights.items()}),
            ),
        )
    ]
    restless = rc.above(
        "change of weights from step to step, FIRM / FedCMOO-A",
        "above 1: FedCMOO-A keeps its weights for K steps",
        _ratio(weights),
        1.0,
    )
    drift = curves_of(table, "drift", SERVER)
    same = rc.at_most(
        "largest disagreement drift of FedCMOO-A",
        0.0,
        rc.Interval(*[float(drift.max())] * 3),
        0.0,
    )
    notes = [
        *notes_on_runs(config, table),
        f"that FIRM's rewards are comparable or better is {outcome(comparable)}; that its weights "
        f"are smoother is {outcome(calm[:1])} under the moving average and {outcome(calm[1:])} "
        "from round to round",
        f"mean gains of the rewards: FIRM {_gains(table, FIRM)}, FedCMOO-A {_gains(table, SERVER)}",
        "upwards, a round of FIRM is d numbers of each client, one of FedCMOO-A (M + 1) d = 3 d",
    ]
    return rc.Analysis(series, [*comparable, *calm, restless, same], notes)


_RAW = "mean weight, one run"


def _smoothed(config: Fig1Config) -> str:
    return f"the same, moving average (half-life {config.half_life:g})"


def _gains(table: rc.Table, arm: str) -> str:
    return ", ".join(f"{gain(table, j, arm).mean():+.3f}" for j in (1, 2))


def _ratio(curves: dict[str, Values]) -> rc.Ratio:
    """FIRM over FedCMOO-A: the ratio of the mean absolute changes along time, over seeds."""
    changes = {
        name: np.abs(np.diff(values, axis=-1)).mean(axis=-1) for name, values in curves.items()
    }
    return rc.paired_ratio(changes[FIRM], changes[SERVER])


def draw(config: Fig1Config, analysis: rc.Analysis) -> Figure:
    """Rewards above, weights below on one scale."""
    looks = {FIRM: FIRM_LOOK, SERVER: OTHER_LOOK}
    layout = replace(TWO_ABREAST, looks=looks)
    figure = rc.draw_panels(analysis.series, against_rounds(config), layout)
    for ax, shown in zip(figure.axes, ("reward", "reward", "weight", "weight"), strict=True):
        ax.set_ylabel(shown)
    for ax in figure.axes[-2:]:
        ax.set_ylim(-0.03, 1.03)
    return figure


EXPERIMENT = rc.Experiment(
    id="bridge/firm_fig1",
    title="FIRM against a server that resolves the conflict, on a language model",
    source="FIRM, Figure 1, Section 5",
    kind="figure",
    profiles={
        "quick": Fig1Config(seeds=8),
        "laptop": Fig1Config(**LAPTOP),
        "paper": Fig1Config(**PAPER),
    },
    blocks=rc.Grid({"draw": "seeds"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
