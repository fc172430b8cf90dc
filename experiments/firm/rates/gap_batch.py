"""The floor of the Pareto-stationarity gap against the batch, and against both at C B fixed.

Problem and assumptions, algorithms and regime: those of firm/gap_clients, with C = 32 clients.

Guarantee (Theorem 1): 1/(CB) and a drift of order 1/sqrt(B). Derived in
:mod:`experiments.firm._gaps`:

- T-FIRM: a/(CB), so -1 in B, and the same floor for all C and B with the same product: averaging
  over clients is worth as much as a larger batch, as the variance term says.
- eta = 1: a term 1/(CB) and the disagreement of the clients, |m|^2 ~ B^{-2}: between -1 and -2 in
  B, where the statement has -1/2. At C B fixed it grows with C, because batches shrink: C^2 in the
  limit. Here a large batch is worth more than many clients.
- Markov: the bias, exponent 0.

References: FIRM, Theorem 1, equations (16), (24), (33) and (35).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm._gap_means import floor_mean
from experiments.firm._gap_runs import (
    CURVES,
    MARKOV,
    PLAIN,
    SMOOTHED,
    FloorConfig,
    against_law,
    plateau,
    series_of,
    slack,
)
from experiments.firm._style import FLOORS, floor_panel
from experiments.firm._systems import ClientsConfig
from linsys import InputError

#: Theorem 1's exponents in B: of the variance, and of the drift.
STATED = {SMOOTHED: -1.0, PLAIN: -0.5}
AGAINST_B, AGAINST_C = "(a) against $B$", "(b) against $C$ at $C B$ fixed"


@dataclass(frozen=True, kw_only=True)
class GapBatchConfig(FloorConfig, ClientsConfig):
    """Ever larger batches (a), and ever more clients with ever smaller ones (b)."""

    clients: int = rc.param(32, doc="C in (a).")
    batches: tuple[int, ...] = rc.param(
        (8, 16, 32, 64), low=1, increasing=True, doc="B in (a), increasing."
    )
    counts: tuple[int, ...] = rc.param(
        (2, 8, 32), low=1, increasing=True, doc="C in (b), increasing."
    )
    product: int = rc.param(256, low=1, doc="C B in (b), a multiple of all ``counts``.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(self.product % count for count in self.counts):
            raise InputError(f"`counts` must divide `product` {self.product}; found {self.counts}")

    def pairs(self, panel: str) -> list[tuple[int, int]]:
        """C and B of every point of a panel."""
        if panel == AGAINST_B:
            return [(self.clients, B) for B in self.batches]
        return [(count, self.product // count) for count in self.counts]


def blocks(config: GapBatchConfig) -> list[rc.Block]:
    """One curve of one instance at a time."""
    curves = [(AGAINST_B, name) for name in (*STATED, MARKOV)]
    curves += [(AGAINST_C, name) for name in STATED]
    return [
        {"instance": k, "panel": panel, "curve": name}
        for k in range(config.instances)
        for panel, name in curves
    ]


def compute(config: GapBatchConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The floor of every replicate for all pairs of C and B."""
    k, chosen = block["instance"], CURVES[block["curve"]]
    floor, pairs = config.floor(k), config.pairs(block["panel"])
    gap = [floor_mean(config, floor, chosen, k, count, B) for count, B in pairs]
    return rc.long_table(
        {"x": _axis(config, block["panel"]), "replicate": np.arange(len(gap[0]))}, gap=gap
    )


def _axis(config: GapBatchConfig, panel: str) -> Any:
    """The label of the axis: B, or C where C B is fixed."""
    own = 1 if panel == AGAINST_B else 0
    return np.array([pair[own] for pair in config.pairs(panel)], dtype=np.float64)


def analyse(config: GapBatchConfig, table: rc.Table) -> rc.Analysis:
    """Exponents and constants, instance by instance."""
    checks: list[rc.Check] = []
    series, left_out = [], 0.0
    for block in blocks(config):
        k, panel, name = block["instance"], block["panel"], block["curve"]
        floor, x = config.floor(k), _axis(config, panel)
        gap = table.where(**block).grid("gap", "replicate", "x")
        laws = [config.law(floor, CURVES[name], count, B) for count, B in config.pairs(panel)]
        left_out = max(left_out, *(law.remainder for law in laws))
        title = f"{name}, in {'B' if panel == AGAINST_B else 'C at C B fixed'}"
        title += f" (instance {k})" if config.instances > 1 else ""
        if name == MARKOV:
            checks += map(rc.our_own, plateau(title, x, gap, laws, floor.bias))
        else:
            checks += map(rc.our_own, against_law(title, x, gap, laws, config.seed))
        if panel == AGAINST_B and name in STATED:
            measured = rc.slope_interval(x, gap, rng=config.seed)
            checks += rc.Law(STATED[name], tolerance=slack(x, laws)).checks(title, measured)
        if k == 0:
            series += series_of(name, panel, x, gap, None if name == MARKOV else laws)
    notes = [
        f"intervals over {config.replicates} replicates; tolerances follow from the law's "
        f"remainder, {left_out:.2f} at most",
        "Theorem 1's drift, 1/sqrt(B), comes from S^2 <= 2 S in Appendix F.1.2; derived for small "
        "noise: the disagreement leaves 1/B^2",
    ]
    return rc.Analysis(series, checks, notes)


def panels(config: GapBatchConfig) -> dict[str, rc.Panel]:
    """The floors against B and against C."""
    return {
        AGAINST_B: floor_panel(f"batch $B$, $C = {config.clients}$ clients", STATED[SMOOTHED]),
        AGAINST_C: floor_panel(f"clients $C$, $C B = {config.product}$"),
    }


EXPERIMENT = rc.Experiment(
    id="firm/gap_batch",
    title="Where the Pareto-stationarity gap ends, against the batch",
    source="Theorem 1",
    kind="rate",
    variable="B",
    profiles={"quick": GapBatchConfig(), "paper": GapBatchConfig(instances=5, replicates=100)},
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels=panels,
    layout=FLOORS,
)
