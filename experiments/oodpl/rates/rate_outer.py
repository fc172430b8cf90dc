r"""The mean of ||grad L(phi_k)||^2 over K rounds of Algorithm 1, its floors, and the outer step.

Problem: few random domains with linear rewards (bounded ones, s tanh(phi . xi / s), in (c)), L(phi)
the mean of their preference losses, grad L exact. Algorithm: Algorithm 1 from phi = 0, policies
from supervised fine-tuning, exact inner steps; all domains in every round with their expected loss,
one random domain with its expected loss, or one with a few sampled pairs.

Guarantee (Theorem 1 with its proof): for eta = 1/(4P), P the Lipschitz constant of grad r, it is at
most 16 P (L(phi_0) - inf L) / K + 3 sigma_3^2 + terms in 1/beta^2 and in the inner loop's noise;
sigma_3^2 is the variance of a sampled pair's gradient. No term has eta, or the domains.

Derived:

- All domains, exact: with P_L, the largest curvature of L, and eta <= 1/P_L the mean is at most 2
  (L(phi_0) - inf L) / (eta K), and its exponent is -1 as soon as the sum has converged: then only
  the first rounds contribute to it. -1 says that L was flat at the end, not how fast it became so.
- P has another unit than a curvature of L: a linear reward has P = 0 and an infinite step. With r
  = s tanh(phi . xi / s), P is proportional to 1/s and P_L does not depend on s for large s: the
  step 1/(4P) over 1/P_L has the exponent 1 in s; depending on s it is far too small, or so large
  that it leads away from the minimum.
- One domain per round: phi moves about the minimum with the covariance of the domains' gradients,
  and E||grad L||^2 ends at (eta/2) tr(A C), A the Hessian of L and C the covariance of a round's
  hypergradient (:class:`experiments.oodpl.rates._rate_laws.OuterLoop`): exponent 1 in eta, where
  Theorem 1 has 0 (3 sigma_3^2 at any eta); and not zero for sigma_3 = 0, where Theorem 1 has no
  such term.
- Finite D: Algorithm 1 descends on L with theta_D in the place of theta_*. Where its own gradient
  is zero, grad L is the hypergradient's error: ||grad L||^2 falls like (D lambda^D)^2.

Regime: the exponent of (a) is fitted from K = 20 on, with the tolerance of what the sum has still
to come, at most 2 (L(phi_K) - min L) / eta. Floors in eta are those of rounds after a quarter of
the run from the minimum phi_*; their law knows where the run began, and has a linear gradient: a
tolerance of eta P_L, twice the known part of what the first order in eta leaves out. Floors in D
are seen from 8 to 24 tau of the slowest domain: -log of their factor is between 1 - log(3) / 16
and 1 times 2 / tau, but for the faster domains and modes.

References: OOD-PL, Theorem 1, Appendix D.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import ratecheck as rc
from experiments.oodpl.rates._rate_outer_runs import (
    ALL,
    BY_D,
    BY_ETA,
    BY_K,
    BY_STEP,
    FIRST,
    ONE,
    PAIRS,
    PRINTED,
    TAUS,
    TRUE,
    RateOuterConfig,
    compute,
)
from experiments.oodpl.rates._rate_style import BLUES, GREENS, REDS
from experiments.oodpl.rates._rate_systems import LAW, LEVEL, normed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Exponents: that in K; of the floor in eta; of (1/(4P)) P_L in s; and the one that Theorem 1 has
#: for the floor in eta.
ROUNDS, FLOOR, UNIT, STATED = -1.0, 1.0, 1.0, 0.0
#: -log of the factor of ||grad L|| in D, times tau.
CONTRACTION = 1.0
BOUND = r"$2(L(\phi_0) - \min L)/(\eta K)$"
LOOKS = {
    ALL: rc.Look(BLUES[0], "o"),
    ONE: rc.Look(REDS[1], "s"),
    PAIRS: rc.Look(REDS[0], "^"),
    BOUND: rc.Look("#777777", "", "--"),
    PRINTED: rc.Look(GREENS[2], "v"),
    TRUE: rc.Look(GREENS[1], "D"),
}


def analyse(config: RateOuterConfig, table: rc.Table) -> rc.Analysis:
    """Exponents in K, eta, s and D."""
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    for part in (_in_K, _in_eta, _in_s, _in_D):
        curves, verdicts = part(config, table)
        series += curves
        checks += verdicts
    notes = [
        f"{config.instances} instances of {config.train} domains, β = {config.beta:g}; inner loops "
        f"of {config.depth:g} relaxations of the slowest domain, exact inner steps",
        "derived: 1/K is the sum of the first rounds over K; it needs η <= 1/P_L with the "
        "curvature P_L of L, while Theorem 1 has the constant P of the reward, 0 if that is linear",
        "derived: a random domain per round leaves a floor of order η that Theorem 1 does not "
        "have; and 3 σ_3² is no floor, at small η pairs leave one of order η σ_3²",
        "derived: with few inner steps rounds end where the hypergradient's error is grad L",
    ]
    return rc.Analysis(series, checks, notes)


def _in_K(config: RateOuterConfig, table: rc.Table) -> tuple[list[rc.Series], list[rc.Check]]:
    series: list[rc.Series] = []
    part = table.where(panel=BY_K)
    for kind in (ALL, ONE, PAIRS):
        one = part.where(kind=kind)
        x, mean = one.unique("x"), one.grid("value", "instance", "x")
        series.append(rc.Series(kind, BY_K, x, *rc.mean_band(mean, level=LEVEL)))
    one = part.where(kind=ALL)
    mean, law, relative_error = (one.grid(n, "instance", "x") for n in ("value", "law", "room"))
    series.append(rc.Series(BOUND, BY_K, x, law.mean(axis=0)))
    late = x >= FIRST
    slope = rc.slope_interval(x[late], normed(mean[:, late], mean[:, late]), rng=0, level=LEVEL)
    # the sum beyond K is the sum from K to the last K and the remainder after that
    sums = mean.mean(axis=0) * x
    remainder = 1.0 - sums[late] / sums[-1] + relative_error[:, 0].mean()
    largest_ratio = float((mean / law).max())
    return series, [
        rc.rate_check(
            "all domains: exponent in K",
            ROUNDS,
            slope,
            tolerance=rc.slope_error(x[late], remainder),
        ),
        rc.every(
            rc.at_most(
                "mean over its bound, any K", "at most 1", rc.Interval(*3 * (largest_ratio,)), 1.0
            )
        ),
    ]


def _in_eta(config: RateOuterConfig, table: rc.Table) -> tuple[list[rc.Series], list[rc.Check]]:
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    x = np.array(config.steps)
    for kind in (ONE, PAIRS):
        part = table.where(panel=BY_ETA, kind=kind)
        value, law, stated = (part.grid(n, "instance", "x") for n in ("value", "law", "room"))
        measured, expected = normed(value, law), normed(law, law)
        slope = rc.slope_interval(x, measured, rng=0, level=LEVEL)
        tolerance = rc.slope_error(x, x)
        checks.append(
            rc.our_own(rc.rate_check(f"{kind}: exponent in η", FLOOR, slope, tolerance=tolerance))
        )
        what = f"{kind}: exponent in η, against a constant floor"
        checks.append(
            rc.our_own(rc.above(what, f"above {STATED:g}", slope, STATED, tolerance=tolerance))
        )
        size = rc.mean_interval((value / law).mean(axis=1), LEVEL)
        what = f"{kind}: floor / law, mean over η"
        checks.append(rc.our_own(rc.rate_check(what, 1.0, size, tolerance=float(x.mean()))))
        if kind == PAIRS:
            least = rc.mean_interval(value[:, 0] / stated[:, 0], LEVEL)
            what = f"{kind}: floor / 3 σ_3², least η"
            checks.append(rc.at_most(what, "far below 1: at most 0.1", least, 0.1))
        series.append(rc.Series(kind, BY_ETA, x, *rc.mean_band(measured, level=LEVEL)))
        series.append(rc.Series(LAW, BY_ETA, x, expected.mean(axis=0)))
    return series, checks


def _in_s(config: RateOuterConfig, table: rc.Table) -> tuple[list[rc.Series], list[rc.Check]]:
    series: list[rc.Series] = []
    x = np.array(config.bounds)
    parts = {kind: table.where(panel=BY_STEP, kind=kind) for kind in (PRINTED, TRUE)}
    values = {kind: part.grid("value", "instance", "x") for kind, part in parts.items()}
    for kind, value in values.items():
        series.append(rc.Series(kind, BY_STEP, x, *rc.mean_band(value, level=LEVEL)))
    units = parts[PRINTED].grid("law", "instance", "x")
    late = x >= 10.0
    slope = rc.slope_interval(x[late], normed(units[:, late], units[:, late]), rng=0, level=LEVEL)
    checks = [rc.our_own(rc.rate_check("(1/(4P)) P_L: exponent in s", UNIT, slope, tolerance=0.01))]
    for at, words in ((0, "least"), (-1, "largest")):
        more = rc.mean_interval(np.log(values[PRINTED][:, at] / values[TRUE][:, at]), LEVEL)
        what = f"log of mean ||grad L||^2, 1/(4P) over 1/P_L, {words} s"
        checks.append(rc.our_own(rc.above(what, "above 0", more, 0.0)))
    return series, checks


def _in_D(config: RateOuterConfig, table: rc.Table) -> tuple[list[rc.Series], list[rc.Check]]:
    part = table.where(panel=BY_D)
    value, D = (part.grid(name, "instance", "x") for name in ("value", "law"))
    span = np.log(TAUS[-1] / TAUS[0]) / (TAUS[-1] - TAUS[0])
    rate = 0.5 * np.log(value[:, 0] / value[:, -1]) / (D[:, -1] - D[:, 0])
    size = rc.mean_interval(rate, LEVEL)
    what = "floor in D: -log of the factor of ||grad L|| / derived"
    low = CONTRACTION - span
    words = f"between D λ^D and λ^D: {low:.2f} to {CONTRACTION:g}"
    curves = normed(value, value)
    x = np.array(TAUS)
    law = (x * np.exp(-x)) ** 2
    return [
        rc.Series(ALL, BY_D, x, *rc.mean_band(curves, level=LEVEL)),
        rc.Series(LAW, BY_D, x, law / law[0]),
    ], [rc.within(what, words, size, low, CONTRACTION)]


def draw(config: RateOuterConfig, analysis: rc.Analysis) -> Figure:
    """Means against K, and floors."""
    panels = {
        BY_K: rc.Panel(
            "rounds $K$",
            r"mean of $\|\nabla L(\phi_k)\|^2$",
            log="xy",
            slope=rc.Guide(ROUNDS, span=(0.5, 1.0)),
        ),
        BY_ETA: rc.Panel(
            r"$\eta P_L$", r"relative to the law at the least $\eta$", log="xy", ticks="points"
        ),
        BY_STEP: rc.Panel("bound $s$ of the reward", "the same, relative to $k = 0$", log="xy"),
        BY_D: rc.Panel(r"$D / \tau$", r"$\|\nabla L\|^2$, relative to the first", log="y"),
    }
    sparse = [_thinned(one) if one.panel == BY_K else one for one in analysis.series]
    layout = rc.Layout(columns=2, width=3.0, height=2.8, legend=3, looks=LOOKS, markers=99)
    return rc.draw_panels(sparse, panels, layout)


def _thinned(series: rc.Series) -> rc.Series:
    """About ten points of a long curve."""
    x = np.asarray(series.x)
    at = np.unique(np.geomspace(1, len(x), 10).round().astype(int)) - 1
    lo, hi = (None if band is None else np.asarray(band)[at] for band in (series.lo, series.hi))
    return rc.Series(series.name, series.panel, x[at], np.asarray(series.y)[at], lo, hi)


EXPERIMENT = rc.Experiment(
    id="ood/rate_outer",
    title="Mean of the squared gradient of L against the number of rounds",
    source="Theorem 1, Appendix D.2",
    kind="rate",
    variable="K",
    profiles={
        "quick": RateOuterConfig(),
        "paper": RateOuterConfig(
            instances=60, train=4, K=400, steps=(0.025, 0.05, 0.1, 0.2), floor_rounds=1000
        ),
    },
    blocks=lambda config: config.pieces,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
