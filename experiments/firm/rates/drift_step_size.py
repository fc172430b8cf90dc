"""Drifts against the step size: what local steps add fades like alpha^4, the rest does not at all.

Problem and assumptions: identical tabular clients (different ones for comparison); independent
samples of the stationary law, the critic's fixed point, one theta_0. Measured at the last of K
local steps, k = K - 1 moves after the common theta_0; and at common parameters, alpha -> 0, for
many clients.

Algorithm: T-FIRM without smoothing (eta = 1) on the raw Gram matrix.

Guarantee as alpha -> 0 at fixed K, beta, B: client drift and T_{1,2} are O(alpha^2) ((52), (26)).
T_disagr is O(alpha) in Theorem 1, with log T/(alpha T) + 1/(C B) beside it; in (24) and (33) it is
O(1), a term 1/sqrt(B) that alpha K does not multiply and that (35) has lost.

Derived here (see ``drift_local_steps``): the client drift is alpha^2 k (1 - 1/C) tr S, exponent 2.
T_{1,2}, and T_disagr with exact gradients at the clients' parameters, are quadratic in deviations
that sum to zero, then squared: exponent 4, twice as fast as stated; for different clients T_{1,2}
keeps its first order, and exponent 2 is attained. T_disagr with the noise of the step: exponent 0.

No number of clients removes that floor. Around the weights of the true gradients T_disagr is the
square of a mean over clients of independent vectors g (lambda^* - lambda(gbar)): E T = F + v/C, and
around the mean weights of a sample covariance of noise and weights (``OneStep.many_clients``). F is
of order 1/B^2: the covariance of a client's noise with its own weights, and the bias of the latter.
So neither the 1/(C B) of Theorem 1 nor its drift term holds it as alpha -> 0 and C -> infinity: the
exponent in C is 0, against -1. Smoothing with eta_t = 1/t removes the covariance in time, but not
the bias (``drift_time``): with alpha -> 0, alpha T -> infinity, C -> infinity the left side of
Theorem 1 vanishes for lambda_t the clients' mean weights, and tends to ||grad J b||^2 > 0 for the
ideal weights of (14), where all terms on its right are zero.

Regime: alpha with alpha k L_J at most ``SMALL``, for the local L_J; what is left out is
``allowed_slope_error``.
C from ``fit_from`` on, with what v/C makes of the law's slope there as tolerance.

References: FIRM, Theorem 1, Remark 1, Lemma 9, (24), (26), (33), (35), (52).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.firm._style import looks_of
from experiments.firm._words import LAW
from experiments.firm.rates._one_step import OneStep
from experiments.firm.rates._runs import (
    DRIFTS,
    DifferentRunConfig,
    allowed_slope_error,
    blocks_of_replicates,
    drifts,
    in_block,
    slope_of,
)
from linsys.validate import Array, InputError, check_number
from mgda.drift import disagreement
from mgda.firm import FIRM

#: The largest alpha k L_J that is fitted.
SMALL = 0.05
#: The largest part of an exponent in C that the law's term v/C may cause; where it causes more, C
#: is not yet large.
REMAINDER = 0.1
SAME, DIFFERENT, MANY = "identical clients", "different clients", "many clients"
NAMES = {
    "client": "client drift",
    "gradient": "T_{1,2}",
    "disagreement": "T_disagr, mean weights",
    "disagreement_true": "T_disagr, true gradients' weights",
    "disagreement_local": "T_disagr, exact gradients",
}
#: Exponents in alpha as derived and as stated, by kind of clients and quantity.
DERIVED = {
    (SAME, "client"): 2.0,
    (DIFFERENT, "client"): 2.0,
    (SAME, "gradient"): 4.0,
    (DIFFERENT, "gradient"): 2.0,
    (SAME, "disagreement"): 0.0,
    (SAME, "disagreement_true"): 0.0,
    (SAME, "disagreement_local"): 4.0,
}
STATED = {
    (SAME, "client"): 2.0,
    (SAME, "gradient"): 2.0,
    (SAME, "disagreement"): 0.0,
    (SAME, "disagreement_true"): 0.0,
}
#: The power of alpha in Theorem 1's drift, and the power of C in what remains as alpha -> 0.
PRODUCT, VARIANCE = 1.0, -1.0
FLOORS = ("disagreement", "disagreement_true")
CLIENT, GRADIENT = "(a) client drift", "(b) $T_{1,2}$"
DISAGREEMENT = r"(c) $T_{\mathrm{disagr}}$, identical clients"
CROWD = r"(d) $T_{\mathrm{disagr}}$ at common parameters"
ALPHA, HALF = r"step size $\alpha$", (0.0, 0.5)
#: The curves, by columns of the legend.
SHOWN = [[SAME, DIFFERENT], ["mean weights", "true gradients' weights", "exact gradients"], [LAW]]


@dataclass(frozen=True, kw_only=True)
class DriftStepSizeConfig(DifferentRunConfig):
    """Ever larger step sizes, and ever more clients at theta_0."""

    B: int = 8
    K: int = rc.param(
        9, low=2, doc="local steps; drifts are measured at the last one, after K - 1 moves."
    )
    alphas: tuple[float, ...] = rc.param(
        (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0),
        low=0.0,
        increasing=True,
        above=0.0,
        doc="step sizes, increasing.",
    )
    replicates: int = 128
    at_once: int = 128
    counts: tuple[int, ...] = rc.param(
        (4, 16, 64, 256, 1024, 4096),
        low=2,
        increasing=True,
        doc="C in (d), increasing; fewer clients are the first ones of the largest number.",
    )
    fit_from: int = rc.param(256, doc="exponents in C are fitted from this C on.")
    crowds: int = rc.param(32, low=rc.MIN_REPLICATES, doc="replicates in (d).")

    def __post_init__(self) -> None:
        super().__post_init__()
        for instance in range(self.instances):
            if self.small(instance).sum() < 2:
                raise InputError(
                    f"`alphas` must have 2 with alpha (K - 1) L_J at most {SMALL:g}, L_J = "
                    f"{self.smoothness(instance):.3g} of instance {instance}; found {self.alphas}"
                )
        check_number("fit_from", self.fit_from, low=self.counts[0], high=self.counts[-2])

    def small(self, instance: int) -> NDArray[np.bool_]:
        """Which of the step sizes are small enough for the fit, shape (alphas,)."""
        moved = np.array(self.alphas) * (self.K - 1) * self.smoothness(instance)
        return np.asarray(moved <= SMALL)


def blocks(config: DriftStepSizeConfig) -> list[rc.Block]:
    """Blocks of replicates of one kind of clients; one block for the many clients."""
    runs = blocks_of_replicates(config)
    kinds = [{**block, "clients": kind} for kind in (SAME, DIFFERENT) for block in runs]
    many = [{"instance": k, "first": 0, "clients": MANY} for k in range(config.instances)]
    return [*kinds, *many]


def compute(config: DriftStepSizeConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Drifts against alpha, or T_disagr against C; ``law`` and ``pace`` are of the latter."""
    instance = block["instance"]
    if block["clients"] == MANY:
        return _crowd(config, instance)
    replicates = in_block(config, block)
    make = config.identical_clients if block["clients"] == SAME else config.different_clients
    clients = make(instance)
    oracle = config.oracle(
        clients, instance, B=config.B, replicates=replicates.size, first=block["first"]
    )
    start = config.start(instance, clients, replicates.size)
    by_alpha: list[dict[str, Array]] = []
    for alpha in config.alphas:
        firm = FIRM(alpha=alpha, K=config.K, beta=config.beta, normalise=False, eta=1.0)
        by_alpha.append(drifts(firm, oracle, start, [config.K]))
    return rc.long_table(
        {"quantity": np.array(DRIFTS), "x": np.array(config.alphas), "replicate": replicates},
        drift=np.array([[values[name][0] for values in by_alpha] for name in DRIFTS]),
        law=0.0,
        pace=0.0,
    )


def _crowd(config: DriftStepSizeConfig, instance: int) -> rc.Columns:
    counts = np.array(config.counts)
    clients = config.identical_clients(instance, config.counts[-1])
    oracle = config.oracle(clients, instance, B=config.B, replicates=config.crowds)
    gradients, _ = oracle.jac(config.start(instance, clients, config.crowds), oracle.init())
    moments = OneStep.draw(config, instance)
    weights = FIRM.theory(alpha=1.0, beta=config.beta).solve(gradients)
    true = np.broadcast_to(moments.target, (config.crowds, len(moments.target)))
    drift = [
        [disagreement(gradients[:, :C], weights[:, :C], reference) for C in config.counts]
        for reference in (None, true)
    ]
    return rc.long_table(
        {"quantity": np.array(FLOORS), "x": counts, "replicate": np.arange(config.crowds)},
        drift=np.array(drift),
        law=np.array(moments.many_clients(counts.astype(np.float64)))[:, :, None],
        pace=moments.pace,
    )


def analyse(config: DriftStepSizeConfig, table: rc.Table) -> rc.Analysis:
    """Exponents in alpha and in C, instance by instance."""
    series: list[rc.Series] = []
    checks = []
    shares = []
    alphas, counts = np.array(config.alphas), np.array(config.counts, dtype=np.float64)
    moves = config.K - 1
    for instance in range(config.instances):
        label = f", instance {instance}" if config.instances > 1 else ""
        here = table.where(instance=instance)
        smooth = config.smoothness(instance)
        pace = float(here.where(clients=MANY)["pace"][0])
        late = config.small(instance)
        x = alphas[late]
        for (kind, name), derived in DERIVED.items():
            drift = here.where(clients=kind, quantity=name).grid("drift", "replicate", "x")
            slope = slope_of(x, drift[:, late], config.seed)
            what = f"{NAMES[name]}, {kind}{label}"
            if name in FLOORS:
                allowed = allowed_slope_error(x, 4, np.sqrt(2.0) * x[-1] * moves * pace)
            else:
                allowed = allowed_slope_error(
                    x, 2 if name == "client" else 4, x[-1] * moves * smooth
                )
            theory = rc.Law(STATED.get((kind, name)), derived, allowed, limit="zero")
            exponents = theory.checks(what, slope)
            if name in FLOORS:
                exponents[1:] = [replace(one, name=f"{what}: (24)") for one in exponents[1:]]
            checks += exponents
            if name in FLOORS:
                title = f"{what}: below the {PRODUCT:g} of Theorem 1"
                checks.append(
                    rc.our_own(
                        rc.below(title, f"below {PRODUCT:g}", slope, PRODUCT), paper=f"{PRODUCT:g}"
                    )
                )
            if instance == 0:
                panel = {"client": CLIENT, "gradient": GRADIENT}.get(name, DISAGREEMENT)
                short = NAMES[name].partition(", ")[2] if panel == DISAGREEMENT else kind
                series.append(rc.Series(short, panel, alphas, *rc.mean_band(drift)))
        big = counts >= config.fit_from
        for name in FLOORS:
            part = here.where(clients=MANY, quantity=name)
            drift, law = (part.grid(value, "replicate", "x") for value in ("drift", "law"))
            slope = slope_of(counts[big], drift[:, big], config.seed)
            allowed = min(abs(rc.exact_slope(counts[big], law[0, big]).value), REMAINDER)
            what = f"{NAMES[name]}, against C{label}"
            checks += rc.Law(derived=0.0, tolerance=allowed).checks(what, slope)
            title = f"{what}: above the {VARIANCE:g} of Theorem 1 at α K = 0"
            checks.append(
                rc.our_own(
                    rc.above(title, f"above {VARIANCE:g}", slope, VARIANCE), paper=f"{VARIANCE:g}"
                )
            )
            shares.append(f"{NAMES[name]}{label}: {drift[:, -1].mean() / drift[:, 0].mean():.3f}")
            if instance == 0:
                series.append(
                    rc.Series(NAMES[name].partition(", ")[2], CROWD, counts, *rc.mean_band(drift))
                )
                series.append(rc.Series(LAW, CROWD, counts, law[0]))
    return rc.Analysis(
        series,
        checks,
        [
            "Theorem 1 prints α K / (β sqrt(B)) for the drift, which is zero at α = 0; (24) and "
            "(33) have a sum, 1/sqrt(B) + α K, and so has what is derived here: (35) multiplies a "
            "term by α K that has no such factor",
            f"drift of {config.counts[-1]} clients at common parameters over that of "
            f"{config.counts[0]}: " + "; ".join(shares),
        ],
    )


EXPERIMENT = rc.Experiment(
    id="firm/drift_step_size",
    title="Drifts against the step size",
    source="Theorem 1, Remark 1, Lemma 9, (24), (26), (33), (35)",
    kind="rate",
    variable="alpha",
    profiles={
        "quick": DriftStepSizeConfig(),
        "paper": DriftStepSizeConfig(instances=3, replicates=512, crowds=64),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels={
        CLIENT: rc.Panel(ALPHA, log="xy", slope=rc.Guide(2.0, beside=SAME, span=HALF)),
        GRADIENT: rc.Panel(ALPHA, log="xy", slope=rc.Guide(4.0, beside=SAME, span=HALF)),
        DISAGREEMENT: rc.Panel(
            ALPHA,
            log="xy",
            slope=(
                rc.Guide(4.0, beside="exact gradients", span=HALF),
                rc.Guide(PRODUCT, "stated: {}", beside="mean weights", span=HALF, line="--"),
            ),
        ),
        CROWD: rc.Panel(
            "clients $C$",
            log="xy",
            slope=rc.Guide(
                VARIANCE, "stated: {}", beside="mean weights", span=(0.0, 1.0), line="--"
            ),
        ),
    },
    layout=rc.Layout(
        columns=2, width=3.7, height=2.8, legend=SHOWN, looks=looks_of([*SHOWN[0], *SHOWN[1]])
    ),
)
