"""The floor of the Pareto-stationarity gap against the number of clients.

Problem and assumptions: identical clients in a tabular process whose policy is steered by two
shared features, tabular critics at their fixed point (zeta_approx = epsilon_critic = 0), K = 1.
Runs start at the fixed point that exact FIRM reaches, so that the optimisation error is zero. The
step, a here and α in labels, is a = 1 / (4 L_J), L_J = max_j ||grad^2 J^j|| there
(``smoothness_at``): runs stay near.

Algorithms: T-FIRM (eta_t = 1/t) with the step a and with a/4; FIRM without smoothing, eta = 1;
T-FIRM with Markov samples, as Algorithm 2 prints it. The others sample with restarts, which makes
the mean of (10) grad J.

Guarantee (Theorem 1): (1/T) sum E||grad J lambda_t||^2 = O(1/(CB)) and a drift that C does not
reduce. Derived in :mod:`experiments.firm._gaps`:

- T-FIRM: a/(CB), so -1 in C and +1 in a. The statement's 1/(CB), without a, is not attained.
- eta = 1: a term a/(CB), one 1/(CB) from the noise of the weights, and |m|^2 ~ B^{-2}, which C
  does not reduce: the exponent goes from -1 to 0.
- Markov: runs approach the zero of Delta = (1 - gamma) grad J for mu0 = d_pi held fixed, where grad
  J lambda is not zero: a floor independent of C, B and a that Theorem 1 does not have (Lemma 4).

Regime: C B of 64 and more, where what the law leaves out is small; its size,
``GapTerms.remainder``, is computed and is the tolerance of all checks; of a mean over points it is
the mean. The burn-in is two relaxation times, the window four. The slow curve needs four times the
steps, and has fewer points.

References: FIRM, Theorem 1, equations (16), (33) and (35).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from experiments.firm._drift import law_slope
from experiments.firm._gap_means import floor_mean
from experiments.firm._gap_runs import (
    CURVES,
    MARKOV,
    PLAIN,
    SLOW,
    SMOOTHED,
    FloorConfig,
    against_law,
    plateau,
    series_of,
    slack,
)
from experiments.firm._gaps import GapTerms
from experiments.firm._style import FLOORS, floor_panel
from experiments.firm._systems import BatchConfig
from linsys.validate import Array

#: Theorem 1's exponents of the variance, in C and in a.
STATED, STATED_IN_A = -1.0, 0.0
PANEL = "against $C$"


@dataclass(frozen=True, kw_only=True)
class GapClientsConfig(FloorConfig, BatchConfig):
    """Ever more clients."""

    counts: tuple[int, ...] = rc.param(
        (4, 8, 16, 32, 64),
        low=1,
        least=4,
        increasing=True,
        doc="C, increasing; the last two are left out with the small step, whose runs are long.",
    )

    def counts_of(self, name: str) -> tuple[int, ...]:
        """Numbers of clients of a curve."""
        return self.counts[:-2] if name == SLOW else self.counts


def compute(config: GapClientsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The floor of every replicate for all numbers of clients."""
    k, name = block["instance"], block["curve"]
    floor, counts = config.floor(k), config.counts_of(name)
    gap = [floor_mean(config, floor, CURVES[name], k, count, config.B) for count in counts]
    return rc.long_table(
        {"C": np.array(counts), "replicate": np.arange(config.replicates)}, gap=gap
    )


def analyse(config: GapClientsConfig, table: rc.Table) -> rc.Analysis:
    """Exponents and constants, instance by instance."""
    checks: list[rc.Check] = []
    series = []
    for k in range(config.instances):
        floor, where = config.floor(k), f" (instance {k})" if config.instances > 1 else ""
        gaps, laws = {}, {}
        for name, chosen in CURVES.items():
            counts = config.counts_of(name)
            C = np.array(counts, dtype=np.float64)
            gap = table.where(instance=k, curve=name).grid("gap", "replicate", "C")
            law = [config.law(floor, chosen, count, config.B) for count in counts]
            gaps[name], laws[name] = gap, law
            title = f"{name}, in C{where}"
            if name == MARKOV:
                checks += map(rc.our_own, plateau(title, C, gap, law, floor.bias))
            elif name != SLOW:
                checks += map(rc.our_own, against_law(title, C, gap, law, config.seed))
            if k == 0:
                series += series_of(name, PANEL, C, gap, None if name == MARKOV else law)
            if name == SMOOTHED:
                measured = rc.slope_interval(C, gap, rng=config.seed)
                checks += rc.Law(STATED, tolerance=slack(C, law)).checks(title, measured)
        checks += in_step(config, f"{SMOOTHED}, in α{where}", gaps, laws)
    plain = laws[PLAIN][-1]
    left_out = max(law.remainder for curve in laws.values() for law in curve)
    notes = [
        f"intervals over {config.replicates} replicates; tolerances follow from the law's "
        f"remainder, {left_out:.2f} at most",
        f"at C = {config.counts[-1]}, {PLAIN} owes {plain.theta / plain.total:.0%} of its floor to "
        f"theta, {plain.weights / plain.total:.0%} to the noise of the weights, "
        f"{plain.bias / plain.total:.0%} to their bias",
        f"Markov samples leave ||grad J_u||^2 = {floor.bias:.3g}, with exact critics and for any "
        "number of clients: Theorem 1 has no such term",
    ]
    return rc.Analysis(series, checks, notes)


def in_step(
    config: GapClientsConfig,
    name: str,
    gaps: Mapping[str, Array],
    laws: Mapping[str, Sequence[GapTerms]],
) -> list[rc.Check]:
    """The exponent in a, from a/4 and a: averages over C of what is a over the law at a."""
    points = len(config.counts_of(SLOW))
    scale = np.array([law.total for law in laws[SMOOTHED][:points]])
    pair, steps = (SLOW, SMOOTHED), [1.0 / CURVES[SLOW].slower, 1.0]
    relative = np.stack([(gaps[key][:, :points] / scale).mean(axis=1) for key in pair], axis=1)
    ratios = [np.mean([law.total for law in laws[key][:points]] / scale) for key in pair]
    measured = rc.slope_interval(steps, relative, rng=config.seed)
    relative_error = slack(steps, [laws[key][0] for key in pair])
    law = rc.Law(STATED_IN_A, law_slope(steps, ratios), relative_error, limit="zero")
    return law.checks(name, measured)


def panels(config: GapClientsConfig) -> rc.Panel:
    """The floors."""
    label = f"number of clients $C$, batches of $B = {config.B}$"
    return replace(floor_panel(label, STATED), title=PANEL)


EXPERIMENT = rc.Experiment(
    id="firm/gap_clients",
    title="Where the Pareto-stationarity gap ends, against the number of clients",
    source="Theorem 1",
    kind="rate",
    variable="C",
    profiles={"quick": GapClientsConfig(), "paper": GapClientsConfig(instances=5, replicates=100)},
    blocks=rc.Grid({"instance": "instances", "curve": CURVES}),
    compute=compute,
    analyse=analyse,
    panels=panels,
    layout=replace(FLOORS, legend=3),
)
