"""Figure 6: eight clients and sixteen.

Problem and assumptions: identical clients, see ``_alignment``; the first eight of the sixteen see
the same random numbers as the eight.

Algorithm: FIRM with either number of clients.

Claims (Appendix A.2.3 and the caption): the weights are nearly identical for 8 and 16 clients, the
rewards competitive. The paper speaks of the increased variance of a larger pool.

What the text leaves open, and the choices here: for identical clients there is none. A mean over
twice as many clients with noise of their own has half the variance, so that the deviation of one
run's weights from the mean over runs should fall by the square root of 2, or by less where
parameters differ from run to run too; that it falls is checked.

References: FIRM, Appendix A.2.3.

The picture shows the first instance, means over runs with 90 % bands; checks are over instances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.firm._alignment import OBJECTIVES, Arms, RegularisedConfig, curves_of_first
from experiments.firm._comparison import (
    MATCH,
    TWO_ABREAST,
    Values,
    against_rounds,
    curves_of,
    rewards_kept,
    weights_match,
)
from experiments.firm._words import outcome
from mgda.trajectories import Clients


@dataclass(frozen=True, kw_only=True)
class Fig6Config(RegularisedConfig):
    """The set-up."""

    clients: int = rc.param(8, doc="the smaller number of them.")
    factor: int = rc.param(2, low=2, doc="the larger number of clients over the smaller one.")

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of clients by name."""
        return {f"{size} clients": size for size in (self.clients, self.factor * self.clients)}


def compute(config: Fig6Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Rewards and weights with both numbers of clients."""
    momdp = config.momdp(block["instance"])
    sizes = config.sizes.items()
    arms: Arms = {name: (config.firm(), Clients(momdp, size)) for name, size in sizes}
    return config.columns(arms, block["instance"], config.ends)


def analyse(config: Fig6Config, table: rc.Table) -> rc.Analysis:
    """The four panels and the caption's claims."""
    few, many = config.sizes
    less = rc.paired_ratio(_deviation(table, many), _deviation(table, few))
    kept = rewards_kept(OBJECTIVES.values(), table, many, few, "competitive")
    noise = 1.0 / np.sqrt(config.factor)
    falls = rc.our_own(
        rc.below(
            f"deviation of one run's weights, {many} / {few}",
            f"falls: below 1 ({noise:.2f} for independent noise)",
            less,
            remark=less.wins,
        )
    )
    notes = [
        f"rewards are competitive if the gain is smaller by at most {MATCH:g} of it",
        "that a larger pool of identical clients has less variance, as derived, is "
        f'{outcome([falls])}; the paper\'s "increased client variance" would take clients that '
        "differ",
    ]
    checks = [weights_match(table, many, few), *kept, falls]
    return rc.Analysis(curves_of_first(config, table, (few, many)), checks, notes)


def _deviation(table: rc.Table, arm: str) -> Values:
    """Standard deviation over runs of the mean weight, root mean square over time, (instances,)."""
    return np.asarray(np.sqrt(curves_of(table, "weight", arm).var(axis=1, ddof=1).mean(axis=-1)))


EXPERIMENT = rc.Experiment(
    id="firm/fig6",
    title="More clients",
    source="Figure 6, Appendix A.2.3",
    kind="figure",
    profiles={"quick": Fig6Config(instances=12), "paper": Fig6Config(instances=60, replicates=16)},
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    panels=against_rounds,
    layout=TWO_ABREAST,
    parallel="blocks",
)
