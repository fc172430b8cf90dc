"""What the rates of P-ShareLoRA have in common: configurations, estimates from data, checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora._rate_systems import Family, Kind, factors, family
from linsys.validate import Array, check_integer

__all__ = [
    "LAW",
    "LEVEL",
    "RateConfig",
    "SharedRankConfig",
    "compare_with_law",
    "error_series",
]

#: Level of each confidence interval, high because an experiment judges about ten of them.
LEVEL = 0.995
#: Name of the laws in figures.
LAW = "theory"


@dataclass(frozen=True, kw_only=True)
class RateConfig(rc.Config):
    """Users of several types; see :mod:`experiments.psharelora._rate_systems`."""

    trajectories: int = rc.param(12, doc="those whose pairs are compared.")
    d1: int = rc.param(4, low=2, doc="rows of Delta_i and of features.")
    d2: int = rc.param(1, low=1, doc="columns of Delta_i and of features.")
    types: int = rc.param(8, low=1, doc="of users; every one occurs equally often.")
    replicates: int = rc.param(40, low=30, doc="data sets.")
    per_block: int = rc.param(10, low=1, doc="replicates of a block. Numbers do not depend on it.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("trajectories", self.trajectories, low=self.d1 * self.d2 + 1)

    def users(self, kind: Kind, nu: float, k: int, tail: float = 0.0, **changes: Any) -> Family:
        """The types of users with these features and a factor of rank k; ``tail``: Sigma_tail / N.

        ``changes``: other sizes, and what else :func:`experiments.psharelora._rate_systems.family`
        takes.
        """
        sizes = {n: getattr(self, n) for n in ("trajectories", "d1", "d2", "types")}
        return family(kind, self.seed, nu=nu, k=k, tail=tail, **{**sizes, **changes})

    def pieces(self, *cases: str | float) -> list[rc.Block]:
        """The replicates of every case, ``per_block`` at a time."""
        firsts = range(0, self.replicates, self.per_block)
        return [{"case": case, "first": first} for case in cases for first in firsts]

    def numbers(self, block: rc.Block) -> Array:
        """The replicates of a block."""
        return np.arange(block["first"], min(block["first"] + self.per_block, self.replicates))

    def estimates(
        self,
        one: Family,
        copies: int,
        sizes: Sequence[int],
        replicates: Iterable[int],
        *names: str | float,
    ) -> Array:
        """B from ever more data of each replicate, shape (replicates, sizes, d1, k).

        ``names`` and the number of the replicate name its data.
        """
        data = [
            counts
            for replicate in replicates
            for counts in one.counts(
                copies,
                sizes,
                np.random.default_rng(self.derive("data", copies, *names, int(replicate))),
            )
        ]
        return factors(one, data).reshape(-1, len(sizes), *one.best.B.shape)


@dataclass(frozen=True, kw_only=True)
class SharedRankConfig(RateConfig):
    """Families of users, with one rank of the shared factor."""

    k: int = rc.param(1, doc="rank of the shared factor.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("k", self.k, low=1, high=min(self.d1, self.types * self.d2) - 1)


def compare_with_law(
    name: str,
    x: Array,
    measured: Array,
    law: Array,
    relative_error: Array,
    stated: float | None,
    *,
    bound: bool = True,
) -> tuple[list[rc.Check], rc.Slope]:
    """Exponent and constants of dist^2 (replicates, points) over x, as derived and as stated.

    ``relative_error`` is what the law may be off by, relative, at every x.
    """
    slope = rc.slope_interval(x, measured, rng=0, level=LEVEL)
    tolerance = rc.slope_error(x, relative_error)
    derived = rc.exact_slope(x, law).value
    size = rc.ratio((measured / law).mean(axis=1), 1.0, LEVEL)
    near = rc.rate_check(
        f"{name}: dist² / law, mean", 1.0, size, tolerance=float(relative_error.mean())
    )
    theory = rc.Law(stated, derived, tolerance, bound)
    return [*theory.checks(name, slope), rc.our_own(near)], slope


def error_series(name: str, panel: str, x: Array, measured: Array, law: Array) -> list[rc.Series]:
    """Measured dist^2 (replicates, points) with a band, and the law."""
    return [rc.Series(name, panel, x, *rc.mean_band(measured)), rc.Series(LAW, panel, x, law)]
