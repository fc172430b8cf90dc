"""Figure 4 on texts: half of the clients judge the first reward by another model.

Problem and assumptions: eight clients with prompts of one kind, see ``bridge/_firm``. In the second
arm every second client has another first reward: without reward models the share of another class
of letters, three of whose five are in the first; with them a third folder. The second reward is
judged alike by all.

Algorithm: FIRM (beta = .01, normalised Gram matrix).

Claims (Appendix A.2.1 and the caption): weights nearly identical, rewards closely matched.

What the text leaves open, and the choices here: how far the models disagree, and what "reward" the
curves of unequal clients show. Here each is judged by its own model, so that the curves of the
first reward start apart, and the arms are compared by what the last policy gains, under the first
model and under the mean of both. The objective of the second arm is that mean, and no policy serves
two rewards as well as one: what it gains in the first alone is to be less (``firm/fig4`` derives (1
- rho) / (2 (1 + kappa)) to first order, with the cosines of gradients).

References: FIRM, Appendix A.2.1.

The picture shows means over seeds with 90 % bands; checks are over seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.firm._comparison import (
    TWO_ABREAST,
    advantage,
    against_rounds,
    gain,
    in_gains,
    rewards_match,
    weights_match,
)
from experiments.firm.bridge._firm import LAPTOP, OTHER, PAPER, Arm, FirmConfig
from experiments.firm.bridge._firm_comparison import comparison, notes_on_runs
from experiments.firm.bridge._firm_runs import columns

SAME, OTHERS = "same rewards", "different rewards"


@dataclass(frozen=True, kw_only=True)
class Fig4Config(FirmConfig):
    """The set-up."""

    @property
    def folders(self) -> tuple[int, ...]:
        """Two rewards, and the other model of the first."""
        return (3,)

    @property
    def other(self) -> str:
        """The other model of the first reward in words."""
        return self.reward_models[2].name if self.reward_models else f"reward for {OTHER}"


def compute(config: Fig4Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Both arms on one draw."""
    arms = {
        SAME: Arm(config.firm()),
        OTHERS: Arm(
            config.firm(),
            rewards=lambda client, known: (known[0] if client % 2 == 0 else known[2], known[1]),
        ),
    }
    return columns(config, arms, block["draw"], context)


def analyse(config: Fig4Config, table: rc.Table) -> rc.Analysis:
    """Curves of both arms, and the claims."""
    mean = {arm: (gain(table, 1, arm) + gain(table, 3, arm)) / 2 for arm in (SAME, OTHERS)}
    both = in_gains(mean[OTHERS] - mean[SAME], table, SAME)
    checks = [
        weights_match(table, OTHERS, SAME),
        *rewards_match(config.objectives, table, OTHERS, SAME),
        rc.below(
            f"{config.objectives[0]}, as derived: ({OTHERS} − {SAME}) / gain",
            "derived: below 0, no policy serves two rewards as well as one",
            advantage(table, 1, OTHERS, SAME),
            0.0,
        ),
        rc.above(
            f"mean of both models of the first reward: ({OTHERS} − {SAME}) / gain",
            "derived: above 0, it is what they train for",
            both,
            0.0,
        ),
    ]
    gains = {
        arm: ", ".join(f"{np.mean(gain(table, j, arm)):+.3f}" for j in (1, 3, 2))
        for arm in (SAME, OTHERS)
    }
    notes = [
        *notes_on_runs(config, table),
        f"the other model of the first reward: {config.other}; the curves of a client show its own "
        "model's reward",
        "gains in the first reward by its first model, by its other model, and in the second "
        f"reward: {SAME} {gains[SAME]}; {OTHERS} {gains[OTHERS]}",
    ]
    titles = ("first reward, by each client's model", config.objectives[1])
    return rc.Analysis(comparison(config, table, (SAME, OTHERS), titles), checks, notes)


EXPERIMENT = rc.Experiment(
    id="bridge/firm_fig4",
    title="FIRM where half of the clients have another reward, on a language model",
    source="FIRM, Figure 4, Appendix A.2.1",
    kind="figure",
    profiles={
        "quick": Fig4Config(seeds=8),
        "laptop": Fig4Config(**LAPTOP),
        "paper": Fig4Config(**PAPER),
    },
    blocks=rc.Grid({"draw": "seeds"}),
    compute=compute,
    analyse=analyse,
    panels=against_rounds,
    layout=TWO_ABREAST,
    parallel="blocks",
)
