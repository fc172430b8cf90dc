"""The disagreement drift of clients at common parameters: measured, and held against its laws.

C clients share theta and draw B transitions each, see :mod:`experiments.firm._drift_laws`. Here is
what the experiments on beta, B and M have in common: their configuration, the drift of sampled
gradients in both conventions, and what the law says of a fitted exponent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import ratecheck as rc
from experiments.firm._drift_laws import Moments
from experiments.firm._systems import ClientsConfig, ConflictConfig
from linsys.validate import Array
from mgda.drift import disagreement
from mgda.momdp import MOMDP
from mgda.simplex import gram, simplex_qp

__all__ = [
    "CONVENTIONS",
    "DriftConfig",
    "DriftInstancesConfig",
    "alike",
    "drifts",
    "furthest",
    "grouped",
    "law_slope",
    "level",
    "transient",
]

#: The two readings of the weights that clients disagree with, in the order of all arrays here.
CONVENTIONS = ("mean weights (7)", "true weights (14)")


@dataclass(frozen=True, kw_only=True)
class DriftConfig(ClientsConfig):
    """Clients at the same parameters, the uniform policy."""

    clients: int = rc.param(4, low=2)
    replicates: int = rc.param(
        60, low=rc.MIN_REPLICATES, doc="per instance; intervals resample whole ones."
    )
    runs: int = rc.param(32, low=1, doc="independent runs averaged in one replicate.")
    per_block: int = rc.param(30, low=1, doc="replicates of a block. Numbers do not depend on it.")

    def __post_init__(self) -> None:
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class DriftInstancesConfig(DriftConfig, ConflictConfig):
    """Clients at the same parameters, the uniform policy, on several processes."""

    def pieces(self) -> list[rc.Block]:
        """The replicates of every instance, ``per_block`` at a time."""
        return [
            {"instance": instance, "first": first}
            for instance in range(self.instances)
            for first in range(0, self.replicates, self.per_block)
        ]

    def numbers(self, block: rc.Block) -> Array:
        """The replicates of a block."""
        return np.arange(block["first"], min(block["first"] + self.per_block, self.replicates))

    def level(self, intervals: int) -> float:
        """The level of each interval, so that those of all instances together cover with 95 %."""
        return level(intervals * self.instances)


def alike(momdp: MOMDP, seed: int) -> MOMDP:
    """Objectives that differ in noise only: the mean gradients are all the first one's.

    r^j(s, a, s') = 1/4 + r^0(s, a, s') / 2 + z^j(s, a, s') with z^j of mean zero over s', drawn
    within [-1/4, 1/4] for each of them.
    """
    w = 0.25 * np.random.default_rng(seed).random((*momdp.P.shape, momdp.M))
    noise = w - (momdp.P[..., None] * w).sum(axis=2, keepdims=True)
    return replace(momdp, r=0.25 + 0.5 * momdp.r[..., :1] + noise)


def drifts(
    gradients: Array, moments: Moments, beta: float, *, normalise: bool = False, G: Any = None
) -> Array:
    """T_disagr of gradients (R, C, d, M) in both conventions, shape (2, R).

    ``G``: their Gram matrices, where many values of beta share them.
    """
    matrices = gram(gradients) if G is None else G
    weights = simplex_qp(matrices, beta=beta, normalise=normalise).weights
    true = moments.at(beta, normalise=normalise).weights
    reference = np.broadcast_to(true, (len(gradients), len(true)))
    return np.stack([disagreement(gradients, weights), disagreement(gradients, weights, reference)])


def grouped(values: Array, runs: int) -> Array:
    """Means over ``runs`` neighbours on the last axis: (..., replicates * runs) to replicates.

    >>> grouped(np.arange(6.0), 3).tolist()
    [1.0, 4.0]
    """
    return np.asarray(values.reshape(*values.shape[:-1], -1, runs).mean(axis=-1))


def law_slope(x: ArrayLike, law: ArrayLike) -> float:
    """The slope of exact values, without the rounding that would make a constant one fall.

    >>> law_slope([1.0, 2.0, 4.0], [0.1 + 0.2, 0.3, 0.3])
    0.0
    """
    return round(rc.exact_slope(x, law).value, 9) + 0.0


def transient(law: Callable[[Array], Array], x: Array, factor: float) -> float:
    """The difference of a law's slope over x from that where all x are ``factor`` times as large.

    >>> round(transient(lambda x: 1.0 / x + 1.0 / x**2, np.array([10.0, 100.0]), 1e6), 3)
    0.037
    """
    far = factor * x
    return abs(rc.exact_slope(x, law(x)).value - rc.exact_slope(far, law(far)).value)


def level(checks: int) -> float:
    """The level of each interval, so that all of them together cover with 95 %."""
    return 1.0 - 0.05 / checks


def furthest(instances: Iterable[Sequence[rc.Check]]) -> list[rc.Check]:
    """For each check, its worst outcome among the instances, or the value furthest off."""
    order = {False: 0, None: 1, True: 2}

    def rank(check: rc.Check) -> tuple[int, float]:
        if isinstance(check.predicted, str) or isinstance(check.measured, str):
            return order[check.ok], 0.0
        return order[check.ok], -abs(check.measured - check.predicted)

    return [min(same, key=rank) for same in zip(*instances, strict=True)]
