"""Drifts against the number of local steps: parameters diffuse, and T_disagr has a floor.

Problem and assumptions: tabular clients, identical or with processes of their own; independent
samples of the stationary law, the critic's fixed point, one theta_0. Quantities are measured at the
last local step before an aggregation, k = t - t_0 = K - 1 moves after the last one.

Algorithm: T-FIRM without smoothing (eta = 1, so that a step's weights are its own) on the raw Gram
matrix, with a fixed small alpha.

Guarantee: ||theta^c - theta^c'|| <= 4 R alpha k, (52), so that the client drift, (1/C) sum_c
||theta^c - theta_bar||^2, and T_{1,2}, (26), are O(alpha^2 K^2). E T_disagr is of order M^{3/2}
alpha K / (beta sqrt(B)) in Theorem 1 and Remark 1, and of order 1/sqrt(B) + alpha K, a sum, in (24)
and (33).

Derived here, for alpha K L_J to zero. Let S be the covariance of one client's step g lambda(g).

* Identical clients: deviations delta^c of theta^c from theta_bar are sums of k independent terms,
  so that the client drift is alpha^2 k (1 - 1/C) tr S: exponent 1, with S of order 1/B.
* (1/C) sum_c grad J(theta^c) - grad J(theta_bar) has no first order, as deviations sum to zero. Its
  second order is quadratic in delta: T_{1,2} is alpha^4 times a k^2 + a' k, and a' = 0 for Gaussian
  steps (Isserlis): exponent 2. The same for what T_disagr is with exact gradients at the theta^c.
* T_disagr itself, with the noise of the present step: delta^c is independent of that noise and,
  given theta_bar, has mean zero, as all clients have the same law. So it enters in second order
  only, alpha^2 k. At alpha K -> 0 the floor of common parameters is left: exponent 0.
* Different clients: delta^c has the mean alpha k (v^c - v_bar) for directions v^c. The client drift
  is alpha^2 (h k^2 + s k) with h = (1/C) sum_c ||v^c - v_bar||^2, s = (1 - 1/C) mean tr S^c, and
  T_{1,2} keeps its first order, the mean of H^c delta^c: exponent 2 in both, up to s/(h k), and
  less in T_{1,2}, where the noise is averaged over clients.

Regime: from ``fit_from`` moves on. Tolerances are what is left out: exp(alpha k L_J) effects
(``allowed_slope_error``), a'/(a k), estimated by the excess kurtosis of a step, and s/(h k).

References: FIRM, Theorem 1, Remark 1, Lemma 9, (24), (26), (33), (35), (52).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.firm._style import looks_of
from experiments.firm._words import LAW
from experiments.firm.rates._one_step import OneStep
from experiments.firm.rates._runs import (
    DRIFTS,
    DifferentRunConfig,
    allowed_slope_error,
    blocks_of_replicates,
    bootstrap_mean_interval,
    drifts,
    in_block,
    slope_of,
)
from linsys.validate import Array, check_number
from mgda.firm import FIRM

SAME, DIFFERENT = "identical clients", "different clients"
#: Exponents in k as derived, the order in theta^c - theta_bar, and the exponents as stated.
DERIVED = {"client": 1.0, "gradient": 2.0, "disagreement_local": 2.0}
ORDERS = {"client": 2, "gradient": 4, "disagreement_local": 4}
FLOOR = {"disagreement": 0.0, "disagreement_true": 0.0}
DIFFERENT_DERIVED = {"client": 2.0, "gradient": 2.0}
STATED = {"client": 2.0, "gradient": 2.0, "disagreement": 1.0, "disagreement_true": 1.0}
NAMES = {
    "client": "client drift",
    "gradient": "T_{1,2}",
    "disagreement": "T_disagr, mean weights",
    "disagreement_true": "T_disagr, true gradients' weights",
    "disagreement_local": "T_disagr, exact gradients",
}
CLIENT, GRADIENT = "(a) client drift", "(b) $T_{1,2}$"
DISAGREEMENT = r"(c) $T_{\mathrm{disagr}}$, identical clients"
#: The curves, by columns of the legend.
SHOWN = [[SAME, DIFFERENT], ["mean weights", "true gradients' weights", "exact gradients"], [LAW]]


@dataclass(frozen=True, kw_only=True)
class DriftLocalStepsConfig(DifferentRunConfig):
    """Ever more local steps."""

    replicates: int = 256
    at_once: int = 256
    alpha: float = rc.param(0.01, above=0.0, doc="step size.")
    moves: tuple[int, ...] = rc.param(
        (1, 2, 4, 8, 16, 32, 64),
        low=1,
        increasing=True,
        doc="k = K - 1, the local moves after which drifts are measured, increasing.",
    )
    fit_from: int = rc.param(4, doc="exponents are fitted from this k on.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("fit_from", self.fit_from, low=self.moves[0], high=self.moves[-2])


def compute(config: DriftLocalStepsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """All drifts after each number of moves, for both kinds of clients, and the law of one."""
    instance, replicates = block["instance"], in_block(config, block)
    k = np.array(config.moves, dtype=np.float64)
    one, each = OneStep.draw(config, instance), OneStep.each(config, instance)
    share = 1.0 - 1.0 / config.clients
    means = np.array([step.steps.mean(axis=0) for step in each])
    between = float(((means - means.mean(axis=0)) ** 2).sum(axis=1).mean())
    noise = [share * s.steps.var(axis=0).sum() for s in (one, *each)]
    s_over_h = np.array([np.inf, float(np.mean(noise[1:])) / between])
    laws = config.alpha**2 * np.array([noise[0] * k, between * k**2 + np.mean(noise[1:]) * k])
    firm = FIRM(
        alpha=config.alpha, K=config.moves[-1] + 1, beta=config.beta, normalise=False, eta=1.0
    )
    by_clients: list[dict[str, Array]] = []
    for clients in (config.identical_clients(instance), config.different_clients(instance)):
        oracle = config.oracle(
            clients, instance, B=config.B, replicates=replicates.size, first=block["first"]
        )
        start = config.start(instance, clients, replicates.size)
        by_clients.append(drifts(firm, oracle, start, [m + 1 for m in config.moves]))
    return rc.long_table(
        {"clients": np.array([SAME, DIFFERENT]), "k": k, "replicate": replicates},
        **{name: np.stack([values[name] for values in by_clients]) for name in DRIFTS},
        law=laws[:, :, None],
        s_over_h=s_over_h[:, None, None],
        kurtosis=one.kurtosis,
        pace=one.pace,
        smoothness=config.smoothness(instance),
    )


def analyse(config: DriftLocalStepsConfig, table: rc.Table) -> rc.Analysis:
    """Exponents in k, instance by instance, and the client drift over its law."""
    series: list[rc.Series] = []
    checks = []
    k = np.array(config.moves, dtype=np.float64)
    late = k >= config.fit_from
    x = k[late]
    # half-way to the same law without the factor 1 - 1/C, the nearest competing one
    near = float(np.sqrt(1.0 - 1.0 / config.clients))
    span_of_one = f"1 within [{near:.2f}, {1.0 / near:.2f}]"
    added = []
    for instance in range(config.instances):
        label = f", instance {instance}" if config.instances > 1 else ""
        here = table.where(instance=instance)
        same, different = here.where(clients=SAME), here.where(clients=DIFFERENT)
        moved = config.alpha * k[-1] * float(here["smoothness"][0])
        walked = np.sqrt(2.0) * config.alpha * k[-1] * float(here["pace"][0])
        bent = rc.slope_shift(x, here["kurtosis"][0] / x)
        for name in NAMES:
            curve = same.grid(name, "replicate", "k")
            slope = slope_of(x, curve[:, late], config.seed)
            what = f"{NAMES[name]}, {SAME}{label}"
            if name in FLOOR:
                derived, allowed = FLOOR[name], allowed_slope_error(x, 4, walked)
                ratio = curve[:, -1].mean() / curve[:, 0].mean()
                added.append(f"{NAMES[name]}{label}: {ratio:.3f}")
            else:
                derived, allowed = DERIVED[name], allowed_slope_error(x, ORDERS[name], moved)
                allowed += bent if ORDERS[name] == 4 else 0.0
            checks += rc.Law(STATED.get(name), derived, allowed).checks(what, slope)
        for name, derived in DIFFERENT_DERIVED.items():
            curve = different.grid(name, "replicate", "k")
            slope = slope_of(x, curve[:, late], config.seed)
            allowed = allowed_slope_error(x, ORDERS[name], moved) + rc.slope_shift(
                x, different["s_over_h"][0] / x
            )
            what = f"{NAMES[name]}, {DIFFERENT}{label}"
            checks += rc.Law(derived=derived, tolerance=allowed).checks(what, slope)
        for who, part in ((SAME, same), (DIFFERENT, different)):
            law = part.grid("law", "replicate", "k")
            drift = part.grid("client", "replicate", "k")
            ratio = bootstrap_mean_interval((drift / law).mean(axis=1), config.seed)
            what = f"client drift / law, {who}{label}"
            checks.append(rc.our_own(rc.within(what, span_of_one, ratio, near, 1.0 / near)))
            if instance == 0:
                series.append(rc.Series(who, CLIENT, k, *rc.mean_band(drift)))
                series.append(rc.Series(LAW, CLIENT, k, law[0]))
                gradient = part.grid("gradient", "replicate", "k")
                series.append(rc.Series(who, GRADIENT, k, *rc.mean_band(gradient)))
        if instance == 0:
            for name in (*FLOOR, "disagreement_local"):
                values = same.grid(name, "replicate", "k")
                short = NAMES[name].partition(", ")[2]
                series.append(rc.Series(short, DISAGREEMENT, k, *rc.mean_band(values)))
    return rc.Analysis(
        series,
        checks,
        [
            "derived: T_disagr does not grow from a multiple of α K; the product in Theorem 1 "
            "leaves out the noise of the present step, the first term of the sum in (24) and (33)",
            f"drift after {k[-1]:g} moves over that after {k[0]:g}: " + "; ".join(added),
        ],
    )


EXPERIMENT = rc.Experiment(
    id="firm/drift_local_steps",
    title="Drifts against local steps",
    source="Theorem 1, Remark 1, Lemma 9, (24), (26), (33)",
    kind="rate",
    variable="K",
    profiles={
        "quick": DriftLocalStepsConfig(),
        "paper": DriftLocalStepsConfig(instances=3, replicates=1024),
    },
    blocks=blocks_of_replicates,
    compute=compute,
    analyse=analyse,
    panels={
        panel: rc.Panel(
            "local moves $k = K - 1$",
            log="xy",
            slope=rc.Guide(slope, beside=name, span=(0.5, 1.0)),
        )
        for panel, name, slope in (
            (CLIENT, SAME, 1.0),
            (GRADIENT, SAME, 2.0),
            (DISAGREEMENT, "exact gradients", 2.0),
        )
    },
    layout=rc.Layout(width=3.2, height=3.0, legend=SHOWN, looks=looks_of([*SHOWN[0], *SHOWN[1]])),
)
