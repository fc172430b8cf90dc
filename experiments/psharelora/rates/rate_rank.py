"""dist(B_hat, B_diamond) against k, the rank of the shared factor.

Problem and algorithm: as in :mod:`experiments.psharelora.rates.rate_users`, isotropic features,
Sigma_tail = 0, nu small and the same for all k: (a) k equal singular values, (b) singular values
whose squares fall from ``condition``^2 N nu to N nu.

Guarantee (Theorem 4.1 with Proposition 1): dist^2 is at most of the order of k (d1 + N d2) / (N
N_p nu): exponent 1 in k, by a count of all parameters.

Derived (:mod:`experiments.psharelora.rates._rate_laws`): subspaces of dimension k have k (d1 - k)
parameters, and with isotropic features and nearly even preferences each has the variance 4 / (N_p
sigma_j^2):

    dist^2 = 4 (d1 - k) sum_j 1 / (N_p sigma_j^2) <= 4 k (d1 - k) / (N N_p nu).

It grows with an exponent below 1 up to k = d1 / 2 and falls from there, to 0 at k = d1 where there
is nothing to be known. With unequal singular values (b) most of the error is in the directions of
the smallest ones: k / nu overstates it.

Regime: all k below d1; nu such that logits have a variance of some hundredths. The law is exact in
nu; ``N_p`` is so large that what it leaves out is a few percent by its own estimate.

References: P-ShareLoRA, Theorem 4.1, Proposition 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.psharelora._rate_systems import Family
from experiments.psharelora.rates._rate_laws import Expansion
from experiments.psharelora.rates._rate_runs import (
    LEVEL,
    RateConfig,
    compare_with_law,
    error_series,
)
from linsys.validate import Array, check_integer

EQUAL, UNEQUAL = "(a) equal singular values", "(b) unequal singular values"
#: The printed exponent of k.
STATED = 1.0
MEASURED, SHAPE = r"$\mathrm{dist}^2$", "shape of Theorem 4.1"


@dataclass(frozen=True, kw_only=True)
class RateRankConfig(RateConfig):
    """All ranks below d1."""

    trajectories: int = 14
    d1: int = 6
    d2: int = 2
    nu: float = rc.param(0.1, above=0.0, doc="sigma_k^2 / N, the same for all k.")
    condition: float = rc.param(3.0, above=1.0, doc="sigma_1 / sigma_k in (b).")
    copies: int = rc.param(2, low=1, doc="users of every type.")
    N_p: int = rc.param(16384, low=2, doc="comparisons of every user.")
    replicates: int = 200
    per_block: int = 25

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("d1", self.d1, low=4, high=self.types * self.d2)

    @property
    def N(self) -> int:
        """The number of users."""
        return self.types * self.copies

    @property
    def ranks(self) -> Array:
        """All k that leave something to be known."""
        return np.arange(1.0, self.d1)

    def family(self, panel: str, k: float) -> Family:
        """The users of a panel."""
        condition = self.condition if panel == UNEQUAL else 1.0
        return self.users("isotropic", self.nu, int(k), condition=condition)

    def expected(self, panel: str) -> tuple[Array, Array]:
        """The law and what it may be off by, for all ranks."""
        laws = [Expansion.without_tail(self.family(panel, k)) for k in self.ranks]
        pairs = [
            (law.expected(self.N, self.N_p), law.relative_error(self.N, self.N_p)) for law in laws
        ]
        expected, relative_error = np.array(pairs, dtype=np.float64).T
        return expected, relative_error


def compute(config: RateRankConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """dist^2 for every rank."""
    panel, numbers = block["case"], config.numbers(block)
    squared = np.empty((len(numbers), len(config.ranks)))
    for j, k in enumerate(config.ranks):
        one = config.family(panel, k)
        found = config.estimates(one, config.copies, [config.N_p], numbers, panel, int(k))
        squared[:, j] = [one.error(B) ** 2 for [B] in found]
    return rc.long_table({"replicate": numbers, "k": config.ranks}, squared=squared)


def analyse(config: RateRankConfig, table: rc.Table) -> rc.Analysis:
    """Exponents up to the middle and from there, and the closed form."""
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    k = config.ranks
    up, down = k <= config.d1 / 2, k >= config.d1 / 2
    for panel in (EQUAL, UNEQUAL):
        measured = table.where(case=panel).grid("squared", "replicate", "k")
        expected, relative_error = config.expected(panel)
        name = panel[4:]
        law_checks, slope = compare_with_law(
            name, k[up], measured[:, up], expected[up], relative_error[up], STATED
        )
        falls = rc.slope_interval(k[down], measured[:, down], rng=0, level=LEVEL)
        remark = "k (d1 - k), not k, is the number of parameters"
        checks += [
            *law_checks,
            rc.our_own(
                rc.below(f"{name}: exponent up to d1/2", "below 1", slope, STATED, remark=remark)
            ),
            rc.our_own(
                rc.below(f"{name}: exponent from d1/2", "below 0", falls, 0.0, remark=remark)
            ),
        ]
        series += error_series(MEASURED, panel, k, measured, expected)
        # both panels have the bound of (a), as nu is the same
        first = config.expected(EQUAL)[0][0]
        series.append(rc.Series(SHAPE, panel, k, first * k))
    notes = [
        f"{config.replicates} data sets of N = {config.N} users with N_p = {config.N_p}; d1 = "
        f"{config.d1}, d2 = {config.d2}, nu = {config.nu:g}, sigma_1 / sigma_k = "
        f"{config.condition:g} in (b)",
        "derived: dist² = 4 (d1 - k) sum_j 1 / (N_p sigma_j²) as preferences become even: at most "
        "4 k (d1 - k) / (N N_p nu), which is symmetric about k = d1/2; the printed k (d1 + N d2) "
        "counts parameters that tell nothing of the span",
    ]
    return rc.Analysis(series, checks, notes)


EXPERIMENT = rc.Experiment(
    id="psl/rate_rank",
    title="Distance of the shared factor against its rank",
    source="Theorem 4.1, Proposition 1",
    kind="rate",
    variable="k",
    profiles={
        "quick": RateRankConfig(),
        "paper": RateRankConfig(
            trajectories=24, d1=8, types=12, N_p=32768, replicates=400, per_block=10
        ),
    },
    blocks=lambda config: config.pieces(EQUAL, UNEQUAL),
    compute=compute,
    analyse=analyse,
    panels=rc.Panel("rank $k$", r"$\mathrm{dist}^2(\hat B, B_\diamond)$", ticks="points", low=0.0),
    layout=rc.Layout(width=3.6, height=3.0, share_y=True),
    parallel="blocks",
)
