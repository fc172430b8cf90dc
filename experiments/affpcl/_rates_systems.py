"""Finite-state systems for the rates of AffPCL, where every error is exact.

Agents come in a few *types*, each with its own environment and objective weights, and as many
agents of each as wanted: the exact engine pays for a type once. The drawn systems have the form
A(s) = (I + w_s w_s')(I + K) with K skew and |K| |w_s| <= 1: Abar^i is not symmetric, but x'A(s)x >=
|x|^2 + (w'x)^2 - |w'x| |x| >= (3/4)|x|^2. Phi(s) = c (I + v_s v_s') is positive definite with
||Phi(s)|| <= 1 (Section 4).

A run of t rounds takes the constant step ln t / (lambda t) of Theorem 1 in all modules, with lambda
the smallest of lambda^i, lambda^b and lambda^c, so that the start is forgotten like t^{-2} in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

import ratecheck as rc
from linsys import FiniteSystem, InputError
from linsys.algorithms import AffPCL, FedAvg, Independent
from linsys.heterogeneity import G_b, delta_env, delta_obj, lambda_b, lambda_min
from linsys.moments import ExactTrajectory, exact_moments
from linsys.validate import check_number

Values = NDArray[np.float64]

#: Scales of the skew part K and of w_s, v_s.
_SKEW, _NOISE = 0.4, 0.7
#: The form (8) with (7) and (4).
_AFFPCL = AffPCL()


@dataclass(frozen=True, eq=False)
class Types:
    """A population of agents in types.

    Attributes:
        A, Phi: features, shape (S, d, d).
        mu: environments by type, shape (K, S).
        theta: objective weights by type, shape (K, d).
        counts: agents of each type, shape (K,).
    """

    A: Values
    Phi: Values
    mu: Values
    theta: Values
    counts: tuple[int, ...]

    @cached_property
    def system(self) -> FiniteSystem:
        """All agents, type after type."""
        return self._expanded(self.counts)

    @cached_property
    def one_each(self) -> FiniteSystem:
        """One agent of each type: all that learning alone and distances of pairs depend on."""
        return self._expanded((1,) * len(self.counts))

    @property
    def agents(self) -> list[int]:
        """The first agent of each type."""
        return [0, *np.cumsum(self.counts)[:-1].tolist()]

    def _expanded(self, counts: tuple[int, ...]) -> FiniteSystem:
        return FiniteSystem.from_objectives(
            A=self.A,
            Phi=self.Phi,
            theta=np.repeat(self.theta, counts, axis=0),
            mu=np.repeat(self.mu, counts, axis=0),
        )

    @cached_property
    def heterogeneity(self) -> tuple[float, float]:
        """The true (delta_env, delta_obj): Definition 2 and that of Section 4.

        Pairs of types are all pairs there are; G_b, which depends on theta_*^c, is that of the
        whole population.
        """
        bound = float(G_b(self.one_each, "weights")) / float(G_b(self.system, "weights"))
        return float(delta_env(self.one_each)), float(delta_obj(self.one_each, "weights")) * bound

    def relative_errors(self, t: float, algorithm: AffPCL = _AFFPCL) -> Values:
        """Error of AffPCL over that of learning alone after t rounds, by type, shape (K,)."""
        times = [round(t)]
        ours = exact_errors(self.system, algorithm, times, self.agents).error[0]
        alone = exact_errors(self.one_each, Independent(), times, range(len(self.counts))).error[0]
        ratio: Values = ours / alone
        return ratio


@dataclass(frozen=True, eq=False)
class Pieces:
    """One draw of everything that heterogeneity is later added to.

    Attributes:
        A, Phi: features, shape (S, d, d).
        mu: the common environment, shape (S,), positive.
        theta: the common objective weights, a unit vector (d,).
        environments: where environments move to, shape (K, S).
        objectives: where objectives move to, unit vectors with mean zero, shape (K, d).
    """

    A: Values
    Phi: Values
    mu: Values
    theta: Values
    environments: Values
    objectives: Values

    def types(self, n: int, env: float = 0.0, obj: float = 0.0) -> Types:
        """n agents in K equal types, mu^k = (1 - env) mu + env q_k, theta^k = theta + obj u_k."""
        return Types(
            self.A,
            self.Phi,
            (1.0 - env) * self.mu + env * self.environments,
            self.theta + obj * self.objectives,
            _shares(n, len(self.objectives)),
        )

    def alike(self, n: int) -> Types:
        """n agents without any heterogeneity."""
        return Types(self.A, self.Phi, self.mu[None], self.theta[None], (n,))

    def rare(self, n: int, env: float = 0.0, obj: float = 0.0) -> Types:
        """One agent that meets a state of its own with probability env; n - 1 that agree.

        On that state A and Phi are those of the others in reversed order of coordinates, an O(1)
        difference. The chi-square divergence of the agent from mu^0 is about n env.
        """
        extra = [matrices[:1, ::-1, ::-1] for matrices in (self.A, self.Phi)]
        common = np.append(self.mu, 0.0)
        own = np.append((1.0 - env) * self.mu, env)
        return Types(
            np.concatenate([self.A, extra[0]]),
            np.concatenate([self.Phi, extra[1]]),
            np.stack([own, common]),
            np.stack([self.theta + obj * self.objectives[0], self.theta]),
            (1, n - 1),
        )


def draw_pieces(seed: int, d: int, states: int, kinds: int = 4) -> Pieces:
    """Draw features, a common environment and objective, and ``kinds`` directions away from them.

    Environments q_k are Dirichlet(1) draws; the directions u_k come in antipodal pairs, so that
    their mean is zero for equal types.
    """
    rng = np.random.default_rng(seed)
    skew = _SKEW * rng.standard_normal((d, d)) / np.sqrt(d)
    skew = skew - skew.T
    w, v = _NOISE * rng.standard_normal((2, states, d))
    skew /= max(1.0, np.linalg.norm(skew, 2) * np.linalg.norm(w, axis=1).max())
    eye = np.eye(d)
    phi = eye + v[:, :, None] * v[:, None, :]
    half = rng.standard_normal((kinds // 2, d))
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    theta = rng.standard_normal(d)
    return Pieces(
        A=(eye + w[:, :, None] * w[:, None, :]) @ (eye + skew),
        Phi=phi / np.linalg.norm(phi, 2, axis=(1, 2)).max(),
        mu=rng.dirichlet(np.full(states, 5.0)),
        theta=theta / np.linalg.norm(theta),
        environments=rng.dirichlet(np.ones(states), size=kinds),
        objectives=np.concatenate([half, -half]),
    )


def ill_conditioned(n: int, level: float) -> Types:
    """A system in which the first power of delta_obj in Lemma D.2 is needed, with nu = 1.

    d = 2, one environment, A(s) = diag(a(s), 1) with a = 1 with probability ``level`` and 0
    otherwise, Phi(s) = [[1, z(s)], [0, 1]] / 2 with a fair sign z, theta^i = (+-level, 1). As A(s)
    is positive semidefinite, nu = 1 (Example 5), while lambda = level. The solutions are
    x_1^i = +-1/2: they differ by O(1) however small the level is, and E||A(s)(x_*^i - x_*^c)||^2 =
    level/4 is proportional to delta_obj = level / sqrt(1 + level^2).
    """
    a, z = np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, -1.0, 1.0, -1.0])
    A, Phi = np.zeros((4, 2, 2)), np.zeros((4, 2, 2))
    A[:, 0, 0], A[:, 1, 1] = a, 1.0
    Phi[:, 0, 0] = Phi[:, 1, 1] = 0.5
    Phi[:, 0, 1] = 0.5 * z
    mu = np.where(a > 0, level, 1.0 - level) / 2.0
    theta = np.array([[level, 1.0], [-level, 1.0]])
    return Types(A, Phi, np.stack([mu, mu]), theta, _shares(n, 2))


def _shares(n: int, kinds: int) -> tuple[int, ...]:
    if n % kinds:
        raise InputError(f"`n` must be a multiple of {kinds}, the number of types; found {n}")
    return (n // kinds,) * kinds


def exact_errors(
    system: FiniteSystem,
    algorithm: AffPCL | FedAvg | Independent,
    times: ArrayLike,
    agents: Sequence[int],
) -> ExactTrajectory:
    """Moments at the end of runs of t rounds, each with the step ln t / (lambda t) of Theorem 1."""
    t = np.asarray(times)
    engine = exact_moments(system, algorithm, agents=agents)
    return engine.at(t, np.log(t) / (slowest_rate(system) * t))


def many_agents(
    build: Callable[[int], Types], n: int, t: float, algorithm: AffPCL = _AFFPCL
) -> Values:
    """The limit of :meth:`Types.relative_errors` as n grows, from n, 2 n, 4 n agents, shape (K,).

    Richardson's extrapolation: what falls with 1/n and 1/n^2 cancels; O(1/n^3) is left.
    """
    one, two, four = (build(k * n).relative_errors(t, algorithm) for k in (1, 2, 4))
    limit: Values = (8.0 * four - 6.0 * two + one) / 3.0
    return limit


def slowest_rate(system: FiniteSystem) -> float:
    """lambda: the smallest of lambda^i and lambda^b; lambda^c is at least the smallest lambda^i."""
    return min(float(lambda_min(system)), float(lambda_b(system)))


@dataclass(frozen=True, kw_only=True)
class RateConfig(rc.Config):
    """What the rates share."""

    d: int = rc.param(3, low=1, doc="dimension.")
    states: int = rc.param(6, low=2, doc="common states.")
    instances: int = rc.param(
        3,
        low=1,
        doc=(
            "systems drawn; the exponent that counts is that of the slowest one where a bound "
            "is checked, else of the one furthest from the prediction."
        ),
    )

    def pieces(self, instance: int) -> Pieces:
        """The instance, the same for all rates of one seed."""
        return draw_pieces(self.derive("system", instance), self.d, self.states)


@dataclass(frozen=True, kw_only=True)
class HorizonConfig(RateConfig):
    """A population after ever more rounds."""

    n: int = rc.param(20, low=4, doc="agents, in four types of the same size.")
    env: float = rc.param(
        0.5,
        low=0.0,
        high=1.0,
        doc="the share of its environment that is a type's own: mu^k = (1 - env) mu + env q_k.",
    )
    obj: float = rc.param(
        0.5,
        low=0.0,
        doc="the length of what is a type's own in its weights: theta^k = theta + obj u_k.",
    )
    times: tuple[float, ...] = rc.param(
        tuple(10.0**k for k in range(3, 13)),
        low=10.0,
        least=3,
        increasing=True,
        doc="t, increasing; a run of t rounds has the step ln t / (lambda t).",
    )
    fit_from: float = rc.param(1e5, doc="exponents are fitted from this t on.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("fit_from", self.fit_from, low=self.times[0], high=self.times[-2])


def furthest(predicted: float, x: ArrayLike, curves: Iterable[ArrayLike]) -> rc.Slope:
    """The exact slope furthest from the prediction among curves over the same x, one each."""
    slopes = [rc.exact_slope(x, curve) for curve in curves]
    return max(slopes, key=lambda slope: abs(slope.value - predicted))


def slowest(x: ArrayLike, curves: Iterable[ArrayLike]) -> rc.Slope:
    """The exact slope of the curve that falls least: the one that an upper bound has to hold."""
    return max((rc.exact_slope(x, curve) for curve in curves), key=lambda slope: slope.value)
