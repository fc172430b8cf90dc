"""Figure 5 on texts: prompts dealt evenly and by Dirichlet(.3) shares of their domains.

Problem and assumptions: eight clients, see ``bridge/_firm``. In the second arm each client has its
own mixture of domains, and its own number of prompts; rollouts are of the same size.

Algorithm: FIRM (beta = .01, normalised Gram matrix).

Claims (Appendix A.2.2 and the caption): weights nearly identical; the second reward, harmlessness,
the same; the first one, helpfulness, higher with even prompts, while unequal clients still make
substantial progress.

What the text leaves open, and the choices here: "substantial" is read as half of the gain at least,
as in ``firm/fig5``. A domain of the built-in prompts is a tenth of the docstrings they are cut
from; of a user's file it is what its records say. Letters of a response depend little on the domain
of its prompt, so that the built-in default tells of unequal numbers of prompts and little more; a
user's file can tell of the rest.

References: FIRM, Appendix A.2.2.

The picture shows means over seeds with 90 % bands; checks are over seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import ratecheck as rc
from experiments.firm._comparison import (
    TWO_ABREAST,
    advantage,
    against_rounds,
    curves_of,
    rewards_match,
    weights_match,
)
from experiments.firm._words import format_interval
from experiments.firm.bridge._firm import LAPTOP, PAPER, Arm, FirmConfig
from experiments.firm.bridge._firm_comparison import (
    SUBSTANTIAL,
    comparison,
    notes_on_runs,
    progress,
)
from experiments.firm.bridge._firm_runs import columns


@dataclass(frozen=True, kw_only=True)
class Fig5Config(FirmConfig):
    """The set-up."""

    concentration: float = rc.param(0.3, above=0.0, doc="of the Dirichlet-distributed shares.")

    @property
    def names(self) -> tuple[str, str]:
        """The two arms."""
        return "IID", f"Dirichlet({self.concentration:g})"


def compute(config: Fig5Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Both ways to deal on one draw."""
    shares = (None, config.concentration)
    arms = {n: Arm(config.firm(), shares=a) for n, a in zip(config.names, shares, strict=True)}
    return columns(config, arms, block["draw"], context)


def analyse(config: Fig5Config, table: rc.Table) -> rc.Analysis:
    """Curves of both arms, and the claims."""
    even, own = config.names
    drift = rc.paired_ratio(*(curves_of(table, "drift", arm).mean(axis=1) for arm in (own, even)))
    _, second = rewards_match(config.objectives, table, own, even)
    checks = [
        weights_match(table, own, even),
        second,
        rc.below(
            f"{config.objectives[0]}: ({own} − {even}) / gain",
            f"higher with {even}, as the paper has it: below 0",
            advantage(table, 1, own, even),
            0.0,
        ),
        progress(table, own, even, SUBSTANTIAL, "substantial"),
    ]
    notes = [
        *notes_on_runs(config, table),
        f"disagreement drift, {own} / {even}: {format_interval(drift)} ({drift.wins})",
    ]
    return rc.Analysis(comparison(config, table, config.names), checks, notes)


EXPERIMENT = rc.Experiment(
    id="bridge/firm_fig5",
    title="FIRM with even and with unequal prompts, on a language model",
    source="FIRM, Figure 5, Appendix A.2.2",
    kind="figure",
    profiles={
        "quick": Fig5Config(seeds=8),
        "laptop": Fig5Config(**LAPTOP),
        "paper": Fig5Config(**PAPER),
    },
    blocks=rc.Grid({"draw": "seeds"}),
    compute=compute,
    analyse=analyse,
    panels=against_rounds,
    layout=TWO_ABREAST,
    parallel="blocks",
)
