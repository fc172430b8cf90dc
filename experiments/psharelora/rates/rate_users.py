"""dist(B_hat, B_diamond) against the number of users N, at a given number of comparisons N_p.

Problem: users as in :mod:`experiments.psharelora._rate_systems`, Sigma_tail = 0, linear rewards,
Theta_init = 0. Algorithm: maximum likelihood of Delta_i = B W_i (3.3).

Guarantee (Theorem 4.1 with Proposition 1, without logarithms): dist^2 is at most of the order of
k (d1 + N d2) / (N N_p nu), which flattens where N is above d1 / d2: every user has k d2 numbers of
their own to estimate from N_p comparisons.

Derived (:mod:`experiments.psharelora.rates._rate_laws`): these numbers tell nothing of B. Where
features favour no side of B_diamond (a), dist^2 falls like 1 / N for ever: exponent -1. In general
(b) it does so until the bias takes over that N heads leave, each from N_p comparisons: a constant
in N, of order 1 / N_p^2 (and not 1 / N_p, as the printed bound). (c) shows that bias by itself.

Regime: all N. What the law leaves out is of relative order 1 / N_p, the same for all N in the
variance, and dist^2 itself; the tolerances cover it.

References: P-ShareLoRA, Theorem 4.1, Proposition 1; Neyman and Scott (1948).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.psharelora._rate_systems import Family, Kind
from experiments.psharelora.rates._rate_laws import Expansion
from experiments.psharelora.rates._rate_runs import (
    LAW,
    LEVEL,
    SharedRankConfig,
    compare_with_law,
    error_series,
)
from linsys.validate import Array

PANELS: dict[Kind, str] = {
    "mirrored": "(a) features alike on both sides of $B_\\diamond$",
    "random": "(b) random features",
}
SHAPE = "shape of Theorem 4.1"
SHIFT = "(c) mean turn of $\\hat B$, times $N_p$"
NAMES: dict[Kind, str] = {"mirrored": "alike on both sides", "random": "random"}


@dataclass(frozen=True, kw_only=True)
class RateUsersConfig(SharedRankConfig):
    """Ever more users."""

    nu: float = rc.param(2.0, above=0.0, doc="sigma_k^2 / N.")
    trajectories: int = 8
    N_p: int = rc.param(256, low=2, doc="comparisons of every user.")
    copies: tuple[int, ...] = rc.param(
        (2, 4, 8, 16, 32, 64, 128),
        low=1,
        increasing=True,
        doc="users of every type, increasing: N is ``types`` times as many.",
    )
    replicates: int = 50

    @property
    def N(self) -> Array:
        """The numbers of users."""
        return self.types * np.array(self.copies, dtype=np.float64)

    @property
    def stated(self) -> float:
        """The exponent of the printed bound over these N."""
        return rc.exact_slope(self.N, self.d1 / self.N + self.d2).value

    def family(self, kind: Kind) -> Family:
        """The users of a panel; both kinds have the same Delta."""
        return self.users(kind, self.nu, self.k)

    def direction(self) -> Array:
        """The direction of the bias with random features, of length 1; shape (d1 - k, k)."""
        bias = Expansion.without_tail(self.family("random")).bias
        return np.asarray(bias / np.linalg.norm(bias))


def compute(config: RateUsersConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """dist^2, and N_p times the turn of B_hat along the bias."""
    one, numbers, along = config.family(block["case"]), config.numbers(block), config.direction()
    measured = np.empty((2, len(numbers), len(config.copies)))
    for j, copies in enumerate(config.copies):
        found = config.estimates(one, copies, [config.N_p], numbers, block["case"])
        for i, [B] in enumerate(found):
            turn = config.N_p * float((one.tilt(B) * along).sum())
            measured[:, i, j] = one.error(B) ** 2, turn
    axes = {"replicate": numbers, "N": config.N}
    return rc.long_table(axes, squared=measured[0], turn=measured[1])


def analyse(config: RateUsersConfig, table: rc.Table) -> rc.Analysis:
    """Exponents as derived and as stated, and the bias."""
    series: list[rc.Series] = []
    turns: list[rc.Series] = []
    checks: list[rc.Check] = []
    N, N_p = config.N, config.N_p
    for kind, panel in PANELS.items():
        law, part = Expansion.without_tail(config.family(kind)), table.where(case=kind)
        measured, turn = (part.grid(n, "replicate", "N") for n in ("squared", "turn"))
        expected, relative_error = law.expected(N, N_p), law.relative_error(N, N_p)
        law_checks, slope = compare_with_law(
            NAMES[kind], N, measured, expected, relative_error, config.stated
        )
        checks += law_checks
        series += error_series(r"$\mathrm{dist}^2$", panel, N, measured, expected)
        bound = config.d1 / N + config.d2
        series.append(rc.Series(SHAPE, panel, N, bound * (expected[0] / bound[0])))
        bias, next_order = float(np.linalg.norm(law.bias)), law.next_order / N_p
        # all N together, each with the inverse of its variance
        together = turn @ N / N.sum()
        if kind == "random":
            size = rc.ratio(together, bias, LEVEL)
            limit = -1.0 + rc.slope_error(N, relative_error)
            checks += [
                rc.our_own(rc.rate_check("random: bias / law", 1.0, size, tolerance=next_order)),
                rc.our_own(
                    rc.above(
                        "random: exponent", "above -1", slope, limit, remark="bias of order 1/N_p"
                    ),
                    paper="-1",
                ),
            ]
        else:
            # in units of the bias that random features have
            other = float(np.linalg.norm(Expansion.without_tail(config.family("random")).bias))
            size = rc.ratio(together, other, LEVEL)
            what = "alike on both sides: bias"
            checks.append(rc.our_own(rc.within(what, "0 (random: 1)", size, -0.5, 0.5)))
        name = "turn, " + NAMES[kind]
        turns += [
            rc.Series(name, SHIFT, N, *rc.mean_band(turn)),
            rc.Series(LAW, SHIFT, N, bias + 0 * N),
        ]
    takes_over = Expansion.without_tail(config.family("random"))
    crossing = takes_over.variance * N_p / float((takes_over.bias**2).sum())
    notes = [
        f"{config.replicates} data sets; d1 = {config.d1}, d2 = {config.d2}, k = {config.k}, "
        f"{config.types} types of users, nu = {config.nu:g}, N_p = {N_p}",
        f"derived: the heads are no part of the leading error, which falls like 1/N beyond N = "
        f"d1/d2 = {config.d1 / config.d2:g}; the printed d1/N + d2 has exponent "
        f"{config.stated:.2f} here and is an upper bound",
        f"derived: with random features, bias and variance are equal at N = {crossing:.0f}; more "
        "users do not help beyond, more comparisons of every user do",
    ]
    return rc.Analysis([*series, *turns], checks, notes)


EXPERIMENT = rc.Experiment(
    id="psl/rate_users",
    title="Distance of the shared factor against the number of users",
    source="Theorem 4.1, Proposition 1",
    kind="rate",
    variable="N",
    profiles={
        "quick": RateUsersConfig(seed=2),
        "paper": RateUsersConfig(
            seed=2, copies=(2, 4, 8, 16, 32, 64, 128, 256, 512), replicates=200
        ),
    },
    blocks=lambda config: config.pieces(*PANELS),
    compute=compute,
    analyse=analyse,
    panels={
        **{
            panel: rc.Panel(
                "users $N$",
                r"$\mathrm{dist}^2(\hat B, B_\diamond)$",
                log="xy",
                slope=rc.Guide(-1.0, beside=LAW, span=(0.0, 1.0)),
            )
            for panel in PANELS.values()
        },
        SHIFT: rc.Panel("users $N$", "along the bias under random features", log="x"),
    },
    layout=rc.Layout(width=3.3, height=2.9),
    parallel="blocks",
)
