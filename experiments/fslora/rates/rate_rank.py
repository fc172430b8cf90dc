"""Where FSLoRA ends against the rank r, at a given ratio k/r and at a given k.

Problem, guarantee and law: :mod:`experiments.fslora.rates._rates_one_step`; the law is c^2/(r - 1),
c = r/k - 1, plus one with batches.

* At a given ratio (6) does not know the rank: exponent 0. The floor from sketches falls like
  1/(r - 1): a sketch of many components is closer to its mean. That from batches falls to the one
  of devices that hold all components.
* At a given k the exponent in r - 1 is 1 with sketches for k = 1, where c = r - 1, and more for
  larger k, where c grows faster; with batches between 0 and 1 for k = 1. (6) has r^2 (r - k) and
  r^3.

References: FSLoRA, Theorem 4.4, equation (6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.fslora.rates._rates_one_step import (
    BATCHES,
    SKETCHES,
    OneStepConfig,
    closed_form,
    compare_with_law,
    compute,
)
from linsys.validate import InputError, check_integer

HALF, ONE = "(a) against r, k/r given", "(b) against r, k given"


@dataclass(frozen=True, kw_only=True)
class RateRankConfig(OneStepConfig):
    """Modules of several ranks."""

    ranks: tuple[int, ...] = rc.param(
        (2, 4, 6, 8), low=2, increasing=True, doc="r, even and increasing; k is half of it in (a)."
    )
    k: int = rc.param(1, doc="in (b), less than every r.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(r % 2 for r in self.ranks):
            raise InputError(f"`ranks` must be even; found {self.ranks}")
        check_integer("k", self.k, low=1, high=self.ranks[0] - 1)

    def pairs(self, panel: str) -> list[tuple[int, int]]:
        """The pairs (r, k) of a panel."""
        return [(r, r // 2 if panel == HALF else self.k) for r in self.ranks]


def blocks(config: RateRankConfig) -> list[rc.Block]:
    """One for every pair of r and k."""
    pairs = dict.fromkeys([*config.pairs(HALF), *config.pairs(ONE)])
    return [{"r": r, "k": k} for r, k in pairs]


def analyse(config: RateRankConfig, table: rc.Table) -> rc.Analysis:
    """Exponents of r - 1."""
    series, checks, notes = [], [], []
    more = np.array(config.ranks) - 1.0
    for panel in (HALF, ONE):
        for source in (SKETCHES, BATCHES):
            curves, verdicts, note = compare_with_law(
                config, table, source, panel, config.pairs(panel), ("r - 1", more), shown=more
            )
            series += curves
            checks += verdicts
            notes.append(note)
    return rc.Analysis(series, checks, notes)


def panels(config: RateRankConfig) -> dict[str, rc.Panel]:
    """Each with the slope of its law."""
    more = np.array(config.ranks) - 1.0
    return {
        panel: rc.Panel(
            "$r - 1$",
            r"$E\|\nabla f^S\|^2$",
            log="xy",
            slope=rc.Guide(
                rc.exact_slope(
                    more, [closed_form(config, SKETCHES, *pair) for pair in config.pairs(panel)]
                ).value,
                beside=SKETCHES,
                span=(0.0, 1.0),
            ),
            title=title,
            ticks="points",
        )
        for panel, title in ((HALF, "(a) $k = r/2$"), (ONE, f"(b) $k = {config.k}$"))
    }


EXPERIMENT = rc.Experiment(
    id="fslora/rate_rank",
    title="Where FSLoRA ends against the rank",
    source="Theorem 4.4",
    kind="rate",
    variable="r",
    profiles={
        "quick": RateRankConfig(),
        "paper": RateRankConfig(ranks=(2, 4, 6, 8, 10), replicates=200, relaxations=20.0),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels=panels,
    layout=rc.Layout(width=3.7, height=3.0, share_y=True),
    parallel="blocks",
)
