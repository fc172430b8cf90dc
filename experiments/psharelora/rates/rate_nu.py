"""dist(B_hat, B_diamond) against nu = sigma_k^2 / N, the diversity of users.

Problem and algorithm: as in :mod:`experiments.psharelora.rates.rate_users`, isotropic features,
users of one type who differ in nothing but size as nu changes: (a) Sigma_tail = 0, dist^2 times N
N_p, (b) the floor dist(B_pop, B_diamond)^2 with a tail of given Sigma_tail / N, exactly.

Guarantee (Theorem 4.1): both terms of dist^2 have exponent -1 in nu. Remark 2: the distance
decreases as nu grows.

Derived (:mod:`experiments.psharelora.rates._rate_laws`). *Variance.* As nu goes to 0 every
preference is nearly even, the information is a quarter of the Gram matrix, and dist^2 = 4 k (d1 -
k) / (N N_p nu): as stated. As nu grows preferences become certain and tell less: p (1 - p) falls
exponentially at every pair, so that with finitely many pairs dist^2 has a minimum and grows from
there. The paper keeps min Phi' over rewards of at most R in its constants; with ||Delta_i|| <= B
given, nu cannot grow either.

*Bias.* With isotropic features the leading part of B_pop - B_diamond is a sum over users of E_i
W_i', which is zero, times 1/4; what is left comes from p (1 - p) - 1/4, of order nu. So dist^2 has
exponent +1 in nu: the bias grows with nu, before it falls. Where the Gram matrix is no multiple of
I and d2 > 1 nothing cancels, and the exponent is -1, as stated.

Regime: exponents as nu goes to 0 from nu up to ``small``, of floors up to a tenth of that, as they
are exact; the laws are exact in nu, and how far they are from a power there is the tolerance. The
growth is measured from ``large`` on.

References: P-ShareLoRA, Theorem 4.1, Definition 4.1, Remark 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.psharelora._rate_systems import Family, Kind
from experiments.psharelora.rates._rate_laws import Expansion
from experiments.psharelora.rates._rate_runs import LAW, LEVEL, SharedRankConfig, compare_with_law
from linsys.validate import Array, InputError, check_integer, check_number

VARIANCE, BIAS = "(a) variance", "(b) floor with a tail"
NU = r"$\nu = \sigma_k^2 / N$"
#: The exponent as printed, and the exponents of the floor as nu goes to 0.
STATED = -1.0
EXPONENTS: dict[Kind, float] = {"isotropic": 1.0, "random": STATED}
#: The name of each kind of features in the figure, and its d2.
FEATURES: dict[Kind, tuple[str, int]] = {
    "isotropic": ("isotropic, $d_2 = 1$", 1),
    "random": ("random, $d_2 = 2$", 2),
}
#: The first order in the tail has a relative error of at most this factor times the root of the
#: tail over sigma_k.
TAIL_ROOM = 10.0


@dataclass(frozen=True, kw_only=True)
class RateNuConfig(SharedRankConfig):
    """Ever more diverse users."""

    d2: int = rc.param(1, doc="1 in (a); (b) has 1 and 2.")
    trajectories: int = rc.param(5, doc="those whose pairs are compared in (a).")
    nu: tuple[float, ...] = rc.param(
        (0.0625, 0.125, 0.25, 0.5, 1.0, 4.0, 16.0, 32.0, 64.0, 128.0, 256.0),
        low=1e-3,
        increasing=True,
        least=4,
        doc="sigma_k^2 / N in (a), increasing.",
    )
    small: float = rc.param(
        1.0, doc="exponents as nu goes to 0 are fitted up to this nu, in (b) up to a tenth of it."
    )
    large: float = rc.param(32.0, doc="the growth in (a) is measured from this nu on.")
    copies: int = rc.param(2, low=1, doc="users of every type in (a).")
    N_p: int = rc.param(16384, low=2, doc="comparisons of every user in (a).")
    replicates: int = 300
    per_block: int = 50
    exact: int = rc.param(
        26, low=1, doc="values of nu in (b), from a hundredth of ``small`` to the last ``nu``."
    )
    tail: float = rc.param(1e-7, doc="Sigma_tail / N in (b).")
    many: int = rc.param(12, doc="trajectories in (b).")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("small", self.small, low=self.nu[2])
        check_number("large", self.large, low=self.small, high=self.nu[-2])
        check_integer("many", self.many, low=2 * self.d1 + 1)
        if (self.grid <= 0.1 * self.small).sum() < 2:
            raise InputError(
                f"`exact` must leave 2 values of nu up to a tenth of `small`; found {self.exact}"
            )
        check_number("tail", self.tail, low=0.0, high=1e-4 * self.small, low_open=True)
        if self.d2 != 1 or self.k != 1:
            raise InputError(f"`d2` and `k` must be 1; found {self.d2} and {self.k}")

    @property
    def N(self) -> int:
        """The number of users."""
        return self.types * self.copies

    @property
    def grid(self) -> Array:
        """The values of nu at which floors are computed."""
        return np.geomspace(0.01 * self.small, self.nu[-1], self.exact)

    def with_tail(self, kind: Kind, nu: float, part: float = 1.0) -> Family:
        """The users of (b), with a part of the tail."""
        tail = part * self.tail
        return self.users(kind, nu, self.k, tail, trajectories=self.many, d2=FEATURES[kind][1])


def blocks(config: RateNuConfig) -> list[rc.Block]:
    """The replicates, and the floors of both kinds of features."""
    return [*config.pieces(VARIANCE), *({"case": kind, "first": 0} for kind in FEATURES)]


def compute(config: RateNuConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """dist^2 of estimates, or of B_pop and to first order in the tail."""
    if block["case"] != VARIANCE:
        rows = []
        for nu in config.grid:
            one = config.with_tail(block["case"], float(nu))
            drift = Expansion.without_tail(one).drift
            rows.append((one.error(one.population.B) ** 2, float((drift**2).sum())))
        floors = np.array(rows).T
        return rc.long_table(
            {"replicate": [0], "nu": config.grid}, squared=floors[0], law=floors[1]
        )
    numbers = config.numbers(block)
    squared = np.empty((len(numbers), len(config.nu)))
    for j, nu in enumerate(config.nu):
        one = config.users("isotropic", nu, config.k)
        found = config.estimates(one, config.copies, [config.N_p], numbers, nu)
        squared[:, j] = [one.error(B) ** 2 for [B] in found]
    axes = {"replicate": numbers, "nu": np.array(config.nu)}
    return rc.long_table(axes, squared=squared, law=0.0)


def analyse(config: RateNuConfig, table: rc.Table) -> rc.Analysis:
    """Exponents at small nu, the growth at large nu, and the floors."""
    nu = np.array(config.nu)
    measured = table.where(case=VARIANCE).grid("squared", "replicate", "nu")
    laws = [Expansion.without_tail(config.users("isotropic", value, config.k)) for value in nu]
    expected, relative_error = (
        np.array([float(value) for value in values])
        for values in zip(
            *(
                (law.expected(config.N, config.N_p), law.relative_error(config.N, config.N_p))
                for law in laws
            ),
            strict=True,
        )
    )
    limit = 4.0 * config.k * (config.d1 - config.k) / (config.N * config.N_p * nu)
    size = config.N * config.N_p
    small, large = nu <= config.small, nu >= config.large
    off = rc.slope_shift(nu[small], expected[small] / limit[small] - 1.0)
    checks, slope = compare_with_law(
        "variance", nu[small], measured[:, small], expected[small], relative_error[small], None
    )
    checks += rc.Law(STATED, tolerance=off).checks("variance, small nu", slope)
    grows = rc.slope_interval(nu[large], measured[:, large], rng=0, level=LEVEL)
    checks.append(
        rc.our_own(
            rc.above(
                "variance, large nu: exponent", "above 0", grows, remark="preferences are certain"
            )
        )
    )
    ratios = (measured[:, large] / expected[large]).mean(axis=0)
    last = rc.Interval(float(ratios.mean()), float(ratios.min()), float(ratios.max()))
    checks.append(rc.our_own(rc.within("variance, large nu: dist² / law", 1.0, last, 0.5, 2.0)))
    mean, low, high = (size * band for band in rc.mean_band(measured))
    series = [
        rc.Series(r"$N N_p\,\mathrm{dist}^2(\hat B, B_\diamond)$", VARIANCE, nu, mean, low, high),
        rc.Series(LAW, VARIANCE, nu, size * expected),
        rc.Series("$4k(d_1-k)/\\nu$", VARIANCE, nu, size * limit),
    ]
    floor_series, floor_checks = _floors(config, table)
    at = float(nu[np.argmin(expected)])
    notes = [
        f"{config.replicates} data sets of N = {config.N} users with N_p = {config.N_p}; d1 = "
        f"{config.d1}, k = {config.k}; {config.trajectories} trajectories in (a), {config.many} in "
        f"(b), where Sigma_tail / N = {config.tail:g}",
        f"derived: dist falls as nu grows only until preferences become certain, here near nu = "
        f"{at:g}; Remark 2 holds for rewards of bounded size",
        "derived: with isotropic features the bias grows with nu as nu goes to 0, as its leading "
        "part cancels; with others it falls as stated",
    ]
    return rc.Analysis([*series, *floor_series], [*checks, *floor_checks], notes)


def _floors(config: RateNuConfig, table: rc.Table) -> tuple[list[rc.Series], list[rc.Check]]:
    """Exact floors of both kinds of features: exponents at small nu, and the first order."""
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    grid = config.grid
    small = grid <= 0.1 * config.small
    for kind, exponent in EXPONENTS.items():
        part, (name, _) = table.where(case=kind), FEATURES[kind]
        floor, law = part.grid("squared", "nu"), part.grid("law", "nu")
        # the difference of the law's exponent from the one at values of nu a thousand times smaller
        far = 1e-3 * grid[small]
        laws = [Expansion.without_tail(config.with_tail(kind, float(nu), 1e-3)) for nu in far]
        limit = rc.exact_slope(far, [float((one.drift**2).sum()) for one in laws]).value
        off = abs(rc.exact_slope(grid[small], law[small]).value - limit)
        near = TAIL_ROOM * float(np.sqrt(config.tail / grid[0]))
        checks.append(
            rc.our_own(
                rc.rate_check(
                    f"floor, {kind}: exponent, small nu",
                    exponent,
                    rc.exact_slope(grid[small], floor[small]),
                    tolerance=off + near,
                )
            )
        )
        quotient = floor / law
        both = rc.Interval(float(quotient.mean()), float(quotient.min()), float(quotient.max()))
        checks.append(
            rc.every(
                rc.our_own(
                    rc.within(f"floor, {kind}: first order", 1.0, both, 1.0 - near, 1.0 + near)
                )
            )
        )
        series += [rc.Series(name, BIAS, grid, floor / config.tail)]
        series += [rc.Series(LAW, BIAS, grid, law / config.tail)]
    return series, checks


EXPERIMENT = rc.Experiment(
    id="psl/rate_nu",
    title="Distance of the shared factor against the diversity of users",
    source="Theorem 4.1, Definition 4.1, Remark 2",
    kind="rate",
    variable="nu",
    profiles={
        "quick": RateNuConfig(),
        "paper": RateNuConfig(replicates=1000, exact=49),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels={
        VARIANCE: rc.Panel(NU, "squared distance, times $N N_p$", log="xy"),
        BIAS: rc.Panel(
            NU,
            r"$\mathrm{dist}^2(B_{\mathrm{pop}}, B_\diamond)\, N / \Sigma_{\mathrm{tail}}$",
            log="xy",
            slope=[
                rc.Guide(exponent, beside=FEATURES[kind][0], span=(0.0, 0.3))
                for kind, exponent in EXPONENTS.items()
            ],
        ),
    },
    layout=rc.Layout(width=3.8, height=3.0, markers=99),
    parallel="blocks",
)
