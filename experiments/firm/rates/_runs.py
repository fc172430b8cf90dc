"""What the rates of the disagreement drift along runs share: processes, drifts, intervals.

All of them start from one common theta_0, drawn at random, and take independent samples of the
stationary law: gradients of different steps and clients are independent given the parameters, so
that the laws of :mod:`experiments.firm.rates._one_step` hold without a remainder for mixing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.firm._systems import BatchConfig, ClientsConfig, ConflictConfig
from linsys.validate import Array, check_integer
from mgda.actor_critic import ActorCritic
from mgda.constants import smoothness_at
from mgda.drift import client_drift, disagreement, gradient_drift
from mgda.firm import FIRM
from mgda.instances import heterogeneous
from mgda.runs import iterate
from mgda.trajectories import Clients

__all__ = [
    "DRIFTS",
    "DifferentRunConfig",
    "DriftRunConfig",
    "allowed_slope_error",
    "blocks_of_replicates",
    "bootstrap_mean_interval",
    "drifts",
    "in_block",
    "slope_of",
]

#: Level of the intervals of exponents: each experiment judges ten or more of them at a time.
CONFIDENCE = 0.995
#: What :func:`drifts` measures.
DRIFTS = ("disagreement", "disagreement_true", "disagreement_local", "client", "gradient")


@dataclass(frozen=True, kw_only=True)
class DriftRunConfig(ConflictConfig, ClientsConfig, BatchConfig):
    """T-FIRM with the raw Gram matrix from one theta_0."""

    states: int = 4
    actions: int = 3
    beta: float = rc.param(0.05, above=0.0, doc="regularisation.")
    theta_scale: float = rc.param(0.5, low=0.0, doc="standard deviation of the entries of theta_0.")
    moment_draws: int = rc.param(
        160_000, doc="clients' gradients from which moments of one step are estimated."
    )
    at_once: int = rc.param(64, low=1, doc="replicates computed together.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("clients", self.clients, low=2)
        check_integer("objectives", self.objectives, low=2)
        check_integer("replicates", self.replicates, low=rc.MIN_REPLICATES)
        check_integer("moment_draws", self.moment_draws, low=100 * self.clients)

    def identical_clients(self, instance: int, count: int | None = None) -> Clients:
        """Identical clients, ``self.clients`` of them without ``count``."""
        return Clients(self.momdp(instance), self.clients if count is None else count)

    def theta0(self, instance: int, d: int) -> Array:
        """The common parameters, shape (d,)."""
        rng = np.random.default_rng(self.derive("theta", instance))
        return np.asarray(self.theta_scale * rng.standard_normal(d))

    def start(self, instance: int, clients: Clients, replicates: int) -> Array:
        """Parameters theta_0 of all clients in all replicates, shape (R, C, d)."""
        theta = self.theta0(instance, clients.model.d)
        return np.broadcast_to(theta, (replicates, len(clients), theta.size)).copy()

    def smoothness(self, instance: int) -> float:
        """The largest norm of a Hessian of a J^j at theta_0, the local L_J."""
        momdp = self.momdp(instance)
        return float(np.max(smoothness_at(momdp.at(self.theta0(instance, momdp.d)), 1)))


@dataclass(frozen=True, kw_only=True)
class DifferentRunConfig(DriftRunConfig):
    """T-FIRM from one theta_0 with clients that are identical or differ."""

    level: float = rc.param(
        0.5,
        low=0.0,
        high=1.0,
        doc=(
            "heterogeneity of the clients where they differ: P_c and r_c are mixtures with this "
            "weight of draws of their own."
        ),
    )

    def different_clients(self, instance: int) -> Clients:
        """Clients with processes of their own around the same one."""
        return Clients(
            heterogeneous(
                self.momdp(instance),
                self.derive("clients", instance),
                clients=self.clients,
                env=self.level,
                obj=self.level,
            )
        )


def drifts(
    firm: FIRM, oracle: ActorCritic, theta0: Array, steps: Sequence[int]
) -> dict[str, Array]:
    """All drifts with k = ``steps`` local steps since theta_0, counting the present one, (n, R).

    Since theta_0 the clients have not exchanged parameters. A run that aggregates every k steps is
    the same up to there, so that ``firm.K`` of the largest k serves all of them.

    ``disagreement`` and ``disagreement_true`` are T_disagr around the mean weights and around those
    of the true gradients; ``disagreement_local`` is T_disagr for exact gradients at the clients'
    parameters: what local steps leave without the noise of the present one. ``client`` is (1/C)
    sum_c ||theta^c - theta_bar||^2, ``gradient`` is T_{1,2} of (13) with the mean weights.
    """
    exact = replace(oracle, B=None)
    rows: list[dict[str, Array]] = []
    start = firm.init(theta0, oracle)
    for before, gradients, after in iterate(firm, oracle, start, steps[-1]):
        if before.t + 1 not in steps:
            continue
        assert after.weights is not None
        center = np.broadcast_to(before.theta.mean(axis=-2, keepdims=True), before.theta.shape)
        local = exact.jac(before.theta, exact.init())[0]
        true = firm.solve(exact.jac(center, exact.init())[0].mean(axis=-3))
        slopes, mean = (oracle.clients.jac(theta, 1) for theta in (before.theta, center))
        values = (
            disagreement(gradients, after.weights),
            disagreement(gradients, after.weights, true),
            disagreement(local, firm.solve(local)),
            client_drift(before.theta),
            gradient_drift(slopes, mean.mean(axis=-3), after.weights.mean(axis=-2)),
        )
        rows.append(dict(zip(DRIFTS, values, strict=True)))
    return {name: np.array([one[name] for one in rows]) for name in DRIFTS}


def blocks_of_replicates(config: DriftRunConfig) -> list[rc.Block]:
    """Blocks of at most ``config.at_once`` replicates of one instance."""
    return [
        {"instance": k, "first": first}
        for k in range(config.instances)
        for first in range(0, config.replicates, config.at_once)
    ]


def in_block(config: DriftRunConfig, block: rc.Block) -> NDArray[np.int64]:
    """Numbers of the replicates of a block."""
    return np.arange(block["first"], min(block["first"] + config.at_once, config.replicates))


def allowed_slope_error(x: Array, order: int, moved: float) -> float:
    """What a log-log slope over x may be off by, as parameters move on the way.

    Args:
        x: points of the fit.
        order: of the quantity in what changes, 2 for a square, 4 for a square of products.
        moved: at the last point. alpha k L_J for deviations of parameters, which grow or shrink by
            a factor within exp(2 moved): gradients change by L_J per unit of length, and weights
            with them. sqrt(2) alpha k |E g lambda^*| for the noise at theta_bar, as scores are at
            most sqrt(2) long: probabilities change by such a factor within exp(moved).
    """
    return 2.0 * order * moved / float(np.log(x[-1] / x[0]))


def slope_of(x: Array, curves: Array, seed: int) -> rc.Slope:
    """The log-log slope of curves (replicates, points), at the level ``CONFIDENCE``."""
    return rc.slope_interval(x, curves, rng=seed, level=CONFIDENCE)


def bootstrap_mean_interval(values: Array, seed: int) -> rc.Interval:
    """Mean of replicates (R,) with the bootstrap interval of level 95 % that slopes have."""
    # a mean is the exponent of the slope of log y from y = 1 at log x = 0 to the mean at log x = 1
    slope = rc.slope_interval([1.0, math.e], np.stack([np.ones_like(values), values], 1), rng=seed)
    return rc.Interval(*(float(np.exp(v)) for v in (slope.value, slope.lo, slope.hi)))
