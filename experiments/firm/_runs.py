"""What the rates of the disagreement drift along runs share: processes, one step's moments, drifts.

All of them start from one common theta_0, drawn at random, and take independent samples of the
stationary law: gradients of different steps and clients are independent given the parameters, so
that the laws derived in the experiments hold without a remainder for the mixing of a chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from experiments._model import Block
from experiments._rates import MIN_REPLICATES, Interval, Slope, slope_interval
from experiments.firm._drift import Moments
from experiments.firm._systems import ProcessConfig
from linsys._validate import InputError, number, whole
from mgda.actor_critic import ActorCritic
from mgda.constants import smoothness_at
from mgda.drift import client_drift, disagreement, gradient_drift
from mgda.firm import FIRM
from mgda.instances import heterogeneous
from mgda.momdp import MOMDP
from mgda.runs import iterate
from mgda.trajectories import Clients

__all__ = [
    "DRIFTS",
    "DriftRunConfig",
    "OneStep",
    "blocks_of_replicates",
    "drifts",
    "in_block",
    "mean_interval",
    "slack",
    "slope_of",
]

Array = NDArray[np.float64]

#: Level of the intervals of exponents: each experiment judges ten or more of them at a time.
CONFIDENCE = 0.995
#: What :func:`drifts` measures.
DRIFTS = ("disagreement", "disagreement_true", "disagreement_local", "client", "gradient")


@dataclass(frozen=True, kw_only=True)
class DriftRunConfig(ProcessConfig):
    """T-FIRM with the raw Gram matrix from one theta_0.

    Attributes:
        beta: regularisation.
        theta_scale: standard deviation of the entries of theta_0.
        level: heterogeneity of the clients where they differ: P_c and r_c are mixtures with this
            weight of draws of their own.
        moment_draws: clients' gradients from which moments of one step are estimated.
        at_once: replicates computed together.
    """

    states: int = 4
    actions: int = 3
    sampling: str = "stationary"
    beta: float = 0.05
    theta_scale: float = 0.5
    level: float = 0.5
    moment_draws: int = 160_000
    at_once: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("replicates", self.replicates, low=MIN_REPLICATES)
        number("beta", self.beta, low=0.0, low_open=True)
        number("theta_scale", self.theta_scale, low=0.0)
        number("level", self.level, low=0.0, high=1.0)
        whole("moment_draws", self.moment_draws, low=100 * self.clients)
        whole("at_once", self.at_once, low=1)
        if self.sampling != "stationary":
            raise InputError(
                '`sampling` must be "stationary", independent draws, which the laws are about; '
                f"found {self.sampling!r}"
            )

    def alike(self, instance: int, count: int | None = None) -> Clients:
        """Identical clients, ``self.clients`` of them without ``count``."""
        return Clients(self.momdp(instance), self.clients if count is None else count)

    def different(self, instance: int) -> Clients:
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


@dataclass(frozen=True, eq=False)
class OneStep:
    """Gradients of independent identical clients at theta_0, their solutions, and moments of both.

    With g = gbar + xi and lambda^* = lambda(g): Sigma = E[xi' xi] (M, M), Lambda = Cov lambda^*,
    a = lambda^* - E lambda^*, b = E lambda^* - lambda(gbar).

    Attributes:
        g: gradients, shape (n, d, M), n a multiple of C.
        gbar: their mean, exactly, shape (d, M).
        solutions: lambda(g), shape (n, M).
        target: lambda(gbar), shape (M,).
        clients: C.
    """

    g: Array
    gbar: Array
    solutions: Array
    target: Array
    clients: int

    @classmethod
    def draw(cls, config: DriftRunConfig, instance: int) -> OneStep:
        """``config.moment_draws`` gradients of identical clients, apart from those of the runs."""
        return cls._draw(config, config.momdp(instance), instance, config.moment_draws)

    @classmethod
    def each(cls, config: DriftRunConfig, instance: int) -> list[OneStep]:
        """The same for the clients that differ, one by one, as many gradients in all."""
        momdps, count = config.different(instance).momdps, config.moment_draws // config.clients
        return [cls._draw(config, m, instance, count, c) for c, m in enumerate(momdps)]

    @classmethod
    def _draw(
        cls, config: DriftRunConfig, momdp: MOMDP, instance: int, count: int, *names: int
    ) -> OneStep:
        transition = Moments.of(momdp, config.theta0(instance, momdp.d))
        rng = np.random.default_rng(config.derive("moments", instance, *names))
        size = count // config.clients * config.clients
        shares = rng.multinomial(config.B, transition.law, size=size) / config.B
        g = transition.mean + np.tensordot(shares, transition.noise, axes=1)
        firm = FIRM.theory(alpha=1.0, beta=config.beta)
        return cls(g, transition.mean, firm.solve(g), firm.solve(transition.mean), config.clients)

    @cached_property
    def a(self) -> Array:
        """Deviations of the solutions from their mean, shape (n, M)."""
        return np.asarray(self.solutions - self.solutions.mean(axis=0))

    @cached_property
    def b(self) -> Array:
        """Bias of the solutions, shape (M,)."""
        return np.asarray(self.solutions.mean(axis=0) - self.target)

    @cached_property
    def spread(self) -> Array:
        """Lambda, shape (M, M)."""
        return np.asarray(self.a.T @ self.a / len(self.a))

    @cached_property
    def noise(self) -> Array:
        """Sigma, shape (M, M)."""
        xi = (self.g - self.gbar).reshape(-1, len(self.b))
        return np.asarray(xi.T @ xi / len(self.g))

    @cached_property
    def steps(self) -> Array:
        """Directions g lambda^* that clients step along, shape (n, d)."""
        return np.asarray((self.g @ self.solutions[..., None])[..., 0])

    @cached_property
    def kurtosis(self) -> float:
        """E|x|^4 of the noise x of ``steps`` over that of a Gaussian, less one."""
        x = self.steps - self.steps.mean(axis=0)
        square, covariance = (x**2).sum(axis=1), x.T @ x / len(x)
        gaussian = np.trace(covariance) ** 2 + 2.0 * np.sum(covariance**2)
        return float((square**2).mean() / gaussian - 1.0)

    @property
    def pace(self) -> float:
        """|E g lambda^*|, the length of a mean step over alpha."""
        return float(np.linalg.norm(self.steps.mean(axis=0)))

    @property
    def unsmoothed(self) -> float:
        """T_1 = E T_disagr around the mean weights without smoothing."""
        return float(self.many_clients(np.array([float(self.clients)]))[0][0])

    @cached_property
    def smoothed(self) -> float:
        """V = (1 - 1/C) tr(Sigma Lambda) / C: what old, independent deviations contribute."""
        C = self.clients
        return float((1.0 - 1.0 / C) / C * np.sum(self.noise * self.spread))

    def around_mean(self, now: Array, before: Array) -> Array:
        """E T_disagr around the mean weights: w_t^2 T_1 + V sum_{s<t} w_s^2.

        Args:
            now: w_t, the weight of the present solution.
            before: sum of the squared weights of the earlier ones.
        """
        return np.asarray(now**2 * self.unsmoothed + before * self.smoothed)

    def around_true(self, now: Array, before: Array, start: Array) -> Array:
        """E T_disagr around lambda(gbar).

        With w_0 = ``start`` left of lambda_0, equal weights, those of a client deviate by
        e = (1 - w_0) b + w_0 (lambda_0 - lambda(gbar)), common to all, and by its sum_s w_s a_s:

            e'(gbar'gbar + Sigma/C) e + 2 w_t X + w_t^2 Y + W sum_{s<t} w_s^2,

        W = tr((gbar'gbar + Sigma) Lambda) / C, and, with g a meaning the mean over C clients,
        X = E<g e, g a>, Y = E||g a||^2.
        """
        C, G, w0 = self.clients, self.gbar.T @ self.gbar, np.asarray(start)[:, None]
        e = (1.0 - w0) * self.b + w0 * (1.0 / len(self.b) - self.target)
        products = (self.g @ self.a[..., None])[..., 0]
        mean = products.mean(axis=0)
        own = np.einsum("ndi,nd->i", self.g, products) / len(products)
        cross = e @ (own / C + (1.0 - 1.0 / C) * self.gbar.T @ mean)
        square = (products**2).sum(axis=1).mean() / C + (1.0 - 1.0 / C) * mean @ mean
        floor = ((e @ (G + self.noise / C)) * e).sum(axis=1)
        old = np.sum((G + self.noise) * self.spread) / C
        return np.asarray(floor + 2.0 * now * cross + now**2 * square + before * old)

    def many_clients(self, counts: Array) -> tuple[Array, Array]:
        """E T_disagr without smoothing for ``counts`` = C >= 2 clients, both readings, (n,) each.

        Around lambda(gbar) it is the square of a mean of C independent vectors g (lambda^* -
        lambda(gbar)): E T = |mean|^2 + variance / C. Around the mean weights it is that of (1 -
        1/C) times a sample covariance of xi and lambda^*, a U-statistic, and with mu and v, mean
        and variance of xi a,

            E T = (1 - 1/C)^2 (|mu|^2 + v / C + (tr(Sigma Lambda) + kappa) / (C (C - 1))),

        kappa = sum_{j, k} E[xi_j a_k]' E[xi_k a_j]. Both are exact for noise of any law.
        """
        xi = self.g - self.gbar
        own, shifted = (
            (arrays @ moves[..., None])[..., 0]
            for arrays, moves in ((xi, self.a), (self.g, self.solutions - self.target))
        )
        cross = np.einsum("ndj,nk->djk", xi, self.a) / len(xi)
        pairs = np.sum(self.noise * self.spread) + np.sum(cross * np.swapaxes(cross, 1, 2))
        means, variances = zip(
            *((np.sum(x.mean(axis=0) ** 2), x.var(axis=0).sum()) for x in (own, shifted)),
            strict=True,
        )
        around_mean = means[0] + variances[0] / counts + pairs / (counts * (counts - 1.0))
        return (1.0 - 1.0 / counts) ** 2 * around_mean, means[1] + variances[1] / counts


def drifts(
    firm: FIRM, oracle: ActorCritic, theta0: Array, steps: Sequence[int]
) -> dict[str, Array]:
    """All drifts with k = ``steps`` local steps since theta_0, counting the present one, (n, R).

    No client has heard of another one since. A run that aggregates every k steps is the same up to
    there, so that ``firm.K`` of the largest k serves all of them.

    ``disagreement`` and ``disagreement_true`` are T_disagr around the mean weights and around those
    of the true gradients; ``disagreement_local`` is T_disagr for exact gradients at the clients'
    parameters: what local steps leave without the noise of the present one. ``client`` is (1/C)
    sum_c ||theta^c - theta_bar||^2, ``gradient`` is T_{1,2} of (13) with the mean weights.
    """
    exact = replace(oracle, B=None)
    found: list[dict[str, Array]] = []
    start = firm.init(theta0, memory=oracle.init())
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
        found.append(dict(zip(DRIFTS, values, strict=True)))
    return {name: np.array([one[name] for one in found]) for name in DRIFTS}


def blocks_of_replicates(config: DriftRunConfig) -> list[Block]:
    """Blocks of at most ``config.at_once`` replicates of one instance."""
    return [
        {"instance": k, "first": first}
        for k in range(config.instances)
        for first in range(0, config.replicates, config.at_once)
    ]


def in_block(config: DriftRunConfig, block: Block) -> NDArray[np.int64]:
    """Numbers of the replicates of a block."""
    return np.arange(block["first"], min(block["first"] + config.at_once, config.replicates))


def slack(x: Array, order: int, moved: float) -> float:
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


def slope_of(x: Array, curves: Array, seed: int) -> Slope:
    """The log-log slope of curves (replicates, points), at the level ``CONFIDENCE``."""
    return slope_interval(x, curves, rng=seed, level=CONFIDENCE)


def mean_interval(values: Array, seed: int) -> Interval:
    """Mean of replicates (R,) with the bootstrap interval of level 95 % that slopes have."""
    slope = slope_interval([1.0, np.e], np.stack([np.ones_like(values), values], 1), rng=seed)
    return Interval(*(float(np.exp(v)) for v in (slope.value, slope.lo, slope.hi)))
