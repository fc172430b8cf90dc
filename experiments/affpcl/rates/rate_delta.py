"""Error against heterogeneity for many agents: linear in delta in two cases, quadratic otherwise.

Problem and assumptions: finite-state systems, delta_obj or delta_env or both growing from zero.

Algorithm: AffPCL (8) with (7), (22-1); its error over that of learning alone, both with the step
ln t / (lambda t), lambda the smallest of lambda^i and lambda^b.

Guarantee: the ratio is O~(max{1/n, nu delta_env, nu delta_obj}) (Theorem 1, Proposition 2):
exponent +1 in delta until saturation, as an upper bound.

Regime: t = 10^13 and n to infinity (extrapolated from n, 2 n and 4 n, which removes 1/n and 1/n^2),
so that only what delta adds is left; small levels, up to ``fit_to``.

What is true. The noise of AffPCL at the solution is A(s)(x_*^i - x_*^c) - Phi(s)(theta_*^i -
theta_*^c) plus terms of size 1/n: its second moment is a *square* in the differences. Lemma D.2
bounds it by one factor times the trivial bound of the other, ||v||^2 <= ||v|| max||v||, and so
arrives at the first power. With ||x_*^i - x_*^c|| <= 2 delta sigma/lambda of Lemma D.1 (j) it is
also at most of order sigma^2 (kappa delta)^2. In a fixed system whose parameters move smoothly the
ratio therefore grows like delta^2: faster than stated, by "faster" meaning faster to zero. The
first power is needed in two cases, both built here:

- *ill-conditioned*: lambda falls with delta, so that kappa delta stays of order one while nu = 1
  (objectives only; see ``ill_conditioned``);
- *own state*: an agent meets, with probability delta, a state that no other agent visits and where
  the residual differs by O(1); then the rare event itself has variance delta: chi^2(mu^i, mu^0)/n
  is about delta, and Lemma D.3 is tight (environments, or both).

The tolerance covers the finite range of delta: relative to the leading term the next term is a
multiple of delta, and the levels of the fit are at most ``fit_to`` = 0.0004: where an agent's own
noise is small, the ratio saturates at small delta already.

References: AffPCL, Theorem 1, Lemmas D.1-D.3. Values are exact, the levels are the true scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

import ratecheck as rc
from experiments.affpcl._rates_systems import RateConfig, Types, ill_conditioned
from experiments.affpcl.rates._limits import limit_of_many
from linsys.validate import check_number

TOLERANCE = 0.05
OBJ, ENV, BOTH = "(a) objectives only", "(b) environments only", "(c) both"
Build = Callable[..., Types]
#: Families by panel and name: the function that builds a population, and its exact exponent.
FAMILIES: dict[tuple[str, str], tuple[Build, float]] = {
    (OBJ, "smooth"): (lambda pieces, n, v: pieces.types(n, obj=v), 2.0),
    (OBJ, "ill-conditioned"): (lambda pieces, n, v: ill_conditioned(n, v), 1.0),
    (ENV, "smooth"): (lambda pieces, n, v: pieces.types(n, env=v), 2.0),
    (ENV, "own state"): (lambda pieces, n, v: pieces.rare(n, env=v), 1.0),
    (BOTH, "smooth"): (lambda pieces, n, v: pieces.types(n, env=v, obj=v), 2.0),
    (BOTH, "own state"): (lambda pieces, n, v: pieces.rare(n, env=v, obj=v), 1.0),
}
STATED = 1.0
LOOKS = {
    "smooth": rc.Look("#D55E00", "o"),
    "ill-conditioned": rc.Look("#009E73", "^"),
    "own state": rc.Look("#CC79A7", "s"),
    "independent learning": rc.Look("#0072B2", "", "--", width=1.0),
}


@dataclass(frozen=True, kw_only=True)
class RateDeltaConfig(RateConfig):
    """Populations with ever more heterogeneity."""

    n: int = rc.param(
        200,
        low=4,
        doc="agents, a multiple of 4; the limit of many is extrapolated from n, 2 n and 4 n.",
    )
    t: float = rc.param(1e13, low=1e6, high=1e15, doc="rounds of a run.")
    levels: tuple[float, ...] = rc.param(
        (1e-4, 2e-4, 4e-4, 0.002, 0.01, 0.04, 0.1, 0.2, 0.4, 0.7, 0.95),
        low=1e-5,
        increasing=True,
        below=1.0,
        doc=(
            'of heterogeneity, increasing: how far parameters move ("smooth"), lambda ("ill-'
            'conditioned"), or the probability of the state that nobody else visits.'
        ),
    )
    fit_to: float = rc.param(4e-4, doc="exponents are fitted over levels up to this one.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("fit_to", self.fit_to, low=self.levels[1])


def blocks(config: RateDeltaConfig) -> list[rc.Block]:
    """One family of one instance at a time."""
    return [
        {"panel": panel, "family": family, "instance": k}
        for panel, family in FAMILIES
        for k in range(config.instances)
    ]


def compute(config: RateDeltaConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """True delta and the error ratio of the worst agent at all levels."""
    build, _ = FAMILIES[block["panel"], block["family"]]
    pieces = config.pieces(block["instance"])
    ratio = np.empty(len(config.levels))
    delta = np.empty_like(ratio)
    for k, level in enumerate(config.levels):
        at_level = partial(build, pieces, v=level)
        ratio[k] = limit_of_many(at_level, config.n, config.t).max()
        delta[k] = max(at_level(config.n).heterogeneity)
    return rc.long_table({"level": np.array(config.levels)}, ratio=ratio, delta=delta)


def analyse(config: RateDeltaConfig, table: rc.Table) -> rc.Analysis:
    """Exponents of the excess in the true delta, stated and refined."""
    series, checks = [], []
    worst = 0.0
    for (panel, family), (_, refined) in FAMILIES.items():
        part = table.where(panel=panel, family=family)
        slopes: list[rc.Slope] = []
        for k in range(config.instances):
            one = part.where(instance=k)
            level, order = one["level"], np.argsort(one["level"])
            delta, ratio = one["delta"][order], one["ratio"][order]
            fit = level[order] <= config.fit_to
            slopes.append(rc.exact_slope(delta[fit], ratio[fit]))
            worst = max(worst, float(ratio.max()))
            if k == 0:
                series.append(rc.Series(family, panel, delta, ratio))
                flat = rc.Series("independent learning", panel, delta, np.ones_like(delta))
        if family == "smooth":
            series.append(flat)
        slowest = min(slopes, key=lambda s: s.value)
        name = f"{panel[4:]}, {family}"
        checks.append(
            rc.rate_check(
                f"{name}: as stated", STATED, slowest, tolerance=TOLERANCE, bound=True, limit="zero"
            )
        )
        far = max(slopes, key=lambda s: abs(s.value - refined))
        checks.append(
            rc.our_own(rc.rate_check(f"{name}: as derived here", refined, far, tolerance=TOLERANCE))
        )
    notes = [
        f"exact values at t = {config.t:g} as n grows to infinity; exponents in the true "
        f"max(δ_env, δ_obj) over levels up to {config.fit_to:g}; of {config.instances} instances "
        "the slowest (as stated) or the furthest (as derived here)",
        "smooth heterogeneity costs δ², not δ: Lemma D.2 replaces one of two small factors by its "
        "trivial bound; the first power is needed where conditioning worsens with δ, or where δ "
        "is the probability of a state that no other agent visits",
        f"the largest ratio to learning alone is {worst:.3g}: 'never worse than independent "
        "learning' holds up to a constant only, since the bound compares with the scale σ² of "
        "all agents and an agent's own noise can be far smaller",
    ]
    return rc.Analysis(series, checks, notes)


EXPERIMENT = rc.Experiment(
    id="affpcl/rate_delta",
    title="Error against heterogeneity",
    source="Theorem 1, Proposition 2, Lemmas D.2 and D.3",
    kind="rate",
    variable="delta",
    profiles={"quick": RateDeltaConfig(instances=2), "paper": RateDeltaConfig(instances=20)},
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels={
        panel: rc.Panel(
            r"true $\delta$",
            r"error / independent, $n \to \infty$",
            log="xy",
            slope=(
                rc.Guide(2.0, beside="smooth", span=(0.0, 0.3)),
                rc.Guide(1.0, beside=slow, above=True, span=(0.0, 0.3)),
            ),
        )
        for panel, slow in ((OBJ, "ill-conditioned"), (ENV, "own state"), (BOTH, "own state"))
    },
    layout=rc.Layout(width=2.9, height=2.8, share_y=True, looks=LOOKS, markers=99),
    parallel="blocks",
)
