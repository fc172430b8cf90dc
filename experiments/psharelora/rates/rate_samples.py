"""dist(B_hat, B_diamond) against N_p, the number of comparisons of every user.

Problem and algorithm: as in :mod:`experiments.psharelora.rates.rate_users`, (a) without a tail, (b)
with one, and (c) with many users, whose mean turn is compared with the bias.

Guarantee (Theorem 4.1, without logarithms): dist^2 is at most of the order of 1 / N_p plus a floor
that does not depend on N_p. Exponent of dist: -1/2, and dist itself is what Definition A.1 defines.

Derived (:mod:`experiments.psharelora.rates._rate_laws`): dist^2 from B_pop, the estimate from
infinitely many comparisons, has exponent -1 and the constant of the inverse information, with a
tail that of M^-1 V M^-1 / N; B_pop is B_diamond where Sigma_tail = 0. With a tail dist(B_hat,
B_diamond) ends at dist(B_pop, B_diamond), which is known exactly. The bias of the heads falls like
1 / N_p.

Regime: in (a) and (b) few users, so that the bias is nothing beside the variance, and N_p from
where what the law leaves out is below a half by its own estimate, which the tolerances cover.

References: P-ShareLoRA, Theorem 4.1, Definition A.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.psharelora._rate_systems import Family
from experiments.psharelora.rates._rate_laws import Expansion
from experiments.psharelora.rates._rate_runs import (
    LAW,
    LEVEL,
    SharedRankConfig,
    compare_with_law,
    error_series,
)
from linsys.validate import Array

EXACT, TAIL = "(a) no tail", "(b) with a tail"
TURN = "(c) many users: turn along the bias"
#: Exponents of dist^2 and of dist.
SQUARED, FIRST = -1.0, -0.5
FROM_BEST = r"$\mathrm{dist}^2(\hat B, B_\diamond)$"
FROM_POPULATION = r"$\mathrm{dist}^2(\hat B, B_{\mathrm{pop}})$"
FLOOR = r"$\mathrm{dist}^2(B_{\mathrm{pop}}, B_\diamond)$"


@dataclass(frozen=True, kw_only=True)
class RateSamplesConfig(SharedRankConfig):
    """Ever more comparisons."""

    trajectories: int = 8
    nu: float = rc.param(2.0, above=0.0, doc="sigma_k^2 / N.")
    tail: float = rc.param(0.3, above=0.0, doc="Sigma_tail / N in (b).")
    replicates: int = 160
    per_block: int = 40
    copies: int = rc.param(2, low=1, doc="users of every type in (a) and (b).")
    sizes: tuple[int, ...] = rc.param(
        (128, 512, 2048, 8192, 32768, 131072),
        low=2,
        increasing=True,
        doc="N_p in (a) and (b), increasing: ever more of the same data.",
    )
    many: int = rc.param(32, low=1, doc="users of every type in (c).")
    many_sizes: tuple[int, ...] = rc.param(
        (64, 128, 256), low=2, increasing=True, doc="N_p in (c), increasing."
    )

    def family(self, panel: str) -> Family:
        """The users of a panel."""
        return self.users("random", self.nu, self.k, self.tail if panel == TAIL else 0.0)

    def law(self, panel: str) -> Expansion:
        """The law at the estimate from infinitely many comparisons."""
        return Expansion.of_population(self.family(panel))


def compute(config: RateSamplesConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """dist^2 from B_diamond and B_pop, or the turn along the bias, for every N_p."""
    panel, numbers = block["case"], config.numbers(block)
    one = config.family(panel)
    many = panel == TURN
    sizes = config.many_sizes if many else config.sizes
    copies = config.many if many else config.copies
    bias = Expansion.without_tail(one).bias
    population = Family(one.psi, one.population.Delta, one.k)
    measured = np.empty((3, len(numbers), len(sizes)))
    for i, found in enumerate(config.estimates(one, copies, sizes, numbers, panel)):
        for j, B in enumerate(found):
            measured[0, i, j] = one.error(B) ** 2
            measured[1, i, j] = population.error(B) ** 2
            measured[2, i, j] = float((one.tilt(B) * bias).sum() / np.linalg.norm(bias))
    axes = {"replicate": numbers, "N_p": np.array(sizes)}
    return rc.long_table(axes, squared=measured[0], population=measured[1], turn=measured[2])


def analyse(config: RateSamplesConfig, table: rc.Table) -> rc.Analysis:
    """Exponents and constants, the floor with a tail, the bias."""
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    N_p, N = np.array(config.sizes, dtype=np.float64), config.types * config.copies
    for panel, words in ((EXACT, "no tail"), (TAIL, "tail, from B_pop")):
        law, part = config.law(panel), table.where(case=panel)
        measured = part.grid("population", "replicate", "N_p")
        expected, relative_error = law.expected(N, N_p), law.relative_error(N, N_p)
        checks += compare_with_law(words, N_p, measured, expected, relative_error, SQUARED)[0]
        name = FROM_BEST if panel == EXACT else FROM_POPULATION
        series += error_series(name, panel, N_p, measured, expected)
        if panel == EXACT:
            slope = rc.slope_interval(N_p, np.sqrt(measured), rng=0, level=LEVEL)
            tolerance = 0.5 * rc.slope_error(N_p, relative_error)
            checks.append(rc.rate_check("no tail: dist", FIRST, slope, tolerance=tolerance))
        else:
            checks += _with_floor(config, part, N_p, series)
    checks += _of_turns(config, table.where(case=TURN), series)
    notes = [
        f"{config.replicates} data sets, ever more of the same; N = {N} users, (c) "
        f"{config.types * config.many}; d1 = {config.d1}, d2 = {config.d2}, k = {config.k}, nu = "
        f"{config.nu:g}, Sigma_tail / N = {config.tail:g} in (b)",
        "the variance is that of the inverse Fisher information of the shared factor with the "
        "heads eliminated: no logarithm, and no k N d2 for the heads at leading order",
        "derived: the bias that N heads leave is of order 1/N_p in the turn, 1/N_p^2 in dist^2",
    ]
    return rc.Analysis(series, checks, notes)


def _with_floor(
    config: RateSamplesConfig, part: rc.Table, N_p: Array, series: list[rc.Series]
) -> list[rc.Check]:
    """The distance from B_diamond ends at that of B_pop: the triangle inequality, and the ratio."""
    one = config.family(TAIL)
    floor = one.error(one.population.B)
    direct, rest = (part.grid(n, "replicate", "N_p") for n in ("squared", "population"))
    excess = np.abs(np.sqrt(direct) - floor) / np.sqrt(rest)
    series.append(rc.Series(FROM_BEST, TAIL, N_p, *rc.mean_band(direct)))
    series.append(rc.Series(FLOOR, TAIL, N_p, np.full(N_p.shape, floor**2)))
    largest = float(excess.max())
    last = rc.ratio(np.sqrt(direct[:, -1]), floor, LEVEL)
    near = float(np.sqrt(config.law(TAIL).expected(config.types * config.copies, N_p[-1]))) / floor
    triangle = rc.Interval(largest, float(excess.min()), largest)
    return [
        rc.our_own(
            rc.at_most("tail: |dist - floor| / dist from B_pop", "at most 1", triangle, 1.0 + 1e-6)
        ),
        rc.our_own(rc.within("tail: dist / floor, last point", 1.0, last, 1.0 - near, 1.0 + near)),
    ]


def _of_turns(config: RateSamplesConfig, part: rc.Table, series: list[rc.Series]) -> list[rc.Check]:
    """The mean turn along the bias over what is derived, for every N_p and for their mean."""
    law, N_p = (
        Expansion.without_tail(config.family(TURN)),
        np.array(config.many_sizes, dtype=np.float64),
    )
    turn = part.grid("turn", "replicate", "N_p")
    bias = float(np.linalg.norm(law.bias)) / N_p
    series.append(rc.Series("mean turn", TURN, N_p, *rc.mean_band(turn)))
    series.append(rc.Series(LAW, TURN, N_p, bias))
    relative_error = law.next_order / N_p
    checks = []
    for at, words in ((0, "first"), (-1, "last")):
        size = rc.ratio(turn[:, at], float(bias[at]), LEVEL)
        what = f"many users: bias / law, {words} point"
        checks.append(
            rc.our_own(rc.rate_check(what, 1.0, size, tolerance=float(relative_error[at])))
        )
    return checks


EXPERIMENT = rc.Experiment(
    id="psl/rate_samples",
    title="Distance of the shared factor against the number of comparisons",
    source="Theorem 4.1, Definition A.1",
    kind="rate",
    variable="N_p",
    profiles={
        "quick": RateSamplesConfig(seed=2),
        "paper": RateSamplesConfig(seed=2, replicates=600, many=128),
    },
    blocks=lambda config: config.pieces(EXACT, TAIL, TURN),
    compute=compute,
    analyse=analyse,
    panels={
        panel: rc.Panel(
            "comparisons of a user $N_p$",
            y,
            log="xy",
            slope=rc.Guide(-1.0, beside=LAW, distance=0.25),
        )
        for panel, y in ((EXACT, "squared distance"), (TAIL, ""), (TURN, "turn, in radians"))
    },
    layout=rc.Layout(width=3.3, height=2.9),
    parallel="blocks",
)
