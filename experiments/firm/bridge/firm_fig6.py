"""Figure 6 on texts: FIRM with 8 and with 16 clients.

Problem and assumptions: clients with prompts of one kind, see ``bridge/_firm``. The same prompts
are dealt to all clients of either arm; every client samples as many responses as before, so that
the 16 see twice as many in all.

Algorithm: FIRM (beta = .01, normalised Gram matrix).

Claims (Appendix A.2.3 and the caption): weights nearly identical, rewards competitive, no collapse.

What the text leaves open, and the choices here: "competitive" is a gain smaller by at most a tenth,
as in ``firm/fig6``; "collapse" is less than half of the gain in the mean of both rewards.

What is to be expected of the disagreement drift at given parameters: with clients that draw
independently around common means it is, without smoothing of the weights, (1 - 1/C)^2 (a + b / C +
c / (C (C - 1))) with a, b >= 0 (``firm/_one_step``). For two objectives, with u the deviation of
lambda^1 and Delta the noise of g^1 - g^2, c = E u^2 E||Delta||^2 + ||E Delta u||^2 >= 0. So from 8
to 16 clients it falls by the factor .27 at most and rises by 1.15 at most, where all that is left
is the correlation of a client's weights with its own gradients' noise.

References: FIRM, Appendix A.2.3.

The picture shows means over seeds with 90 % bands; checks are over seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import ratecheck as rc
from experiments.firm._comparison import (
    TWO_ABREAST,
    against_rounds,
    curves_of,
    mean_gain,
    rewards_kept,
    weights_match,
)
from experiments.firm.bridge._firm import LAPTOP, PAPER, Arm, FirmConfig
from experiments.firm.bridge._firm_comparison import (
    SUBSTANTIAL,
    comparison,
    notes_on_runs,
    progress,
)
from experiments.firm.bridge._firm_runs import columns
from linsys import InputError


@dataclass(frozen=True, kw_only=True)
class Fig6Config(FirmConfig):
    """The set-up."""

    more_clients: int = rc.param(
        16, doc="a larger number of clients, which ``clients`` are compared with."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clients < 2 or self.more_clients <= self.clients:
            raise InputError(
                f"`more_clients` must be above clients, which are 2 or more; found "
                f"{self.more_clients} and {self.clients}"
            )

    @property
    def most_clients(self) -> int:
        """The number of clients C of the larger arm."""
        return self.more_clients

    @property
    def names(self) -> tuple[str, str]:
        """The two arms."""
        return f"C = {self.clients}", f"C = {self.more_clients}"


def compute(config: Fig6Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Both numbers of clients on one draw."""
    counts = (config.clients, config.more_clients)
    arms = {
        name: Arm(config.firm(), clients=C) for name, C in zip(config.names, counts, strict=True)
    }
    return columns(config, arms, block["draw"], context)


def analyse(config: Fig6Config, table: rc.Table) -> rc.Analysis:
    """Curves of both arms, and the claims."""
    few, many = config.names
    C, more = config.clients, config.more_clients
    head = ((1.0 - 1.0 / more) / (1.0 - 1.0 / C)) ** 2
    least = head * C * (C - 1.0) / (more * (more - 1.0))
    drift = rc.paired_ratio(*(curves_of(table, "drift", arm).mean(axis=1) for arm in (many, few)))
    checks = [
        weights_match(table, many, few),
        *rewards_kept(config.objectives, table, many, few, "competitive"),
        progress(table, many, few, SUBSTANTIAL, "no collapse"),
        rc.within(
            f"mean disagreement drift, {many} / {few}",
            f"derived at given parameters: {least:.2f} to {head:.2f}",
            drift,
            least,
            head,
            remark=drift.wins,
        ),
    ]
    notes = [
        *notes_on_runs(config, table),
        f"mean gains of both rewards: {few} {mean_gain(table, few).mean():+.3f}, {many} "
        f"{mean_gain(table, many).mean():+.3f}",
    ]
    return rc.Analysis(comparison(config, table, config.names), checks, notes)


EXPERIMENT = rc.Experiment(
    id="bridge/firm_fig6",
    title="FIRM with 8 and with 16 clients, on a language model",
    source="FIRM, Figure 6, Appendix A.2.3",
    kind="figure",
    profiles={
        "quick": Fig6Config(seeds=8),
        "laptop": Fig6Config(**LAPTOP, more_clients=4),
        "paper": Fig6Config(**PAPER),
    },
    blocks=rc.Grid({"draw": "seeds"}),
    compute=compute,
    analyse=analyse,
    panels=against_rounds,
    layout=TWO_ABREAST,
    parallel="blocks",
)
