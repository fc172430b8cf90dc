"""Tabular Markov decision processes of several agents, with exact action values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from linsys.systems.chains import (
    check_irreducible,
    full_rank_features,
    stationary_distribution,
    transition_kernels,
)
from linsys.systems.markov_reward import MarkovRewardProcesses
from linsys.validate import Array, InputError, check_integer, check_number, real_array

__all__ = ["MarkovDecisionProcesses", "sample_mdps", "softmax_policy"]


def softmax_policy(q: Array, beta: float) -> Array:
    """pi(a|o) proportional to exp(beta Q(o, a)), with inverse temperature ``beta``.

    >>> softmax_policy(np.array([0.0, np.log(3.0)]), 1.0)
    array([0.25, 0.75])
    """
    weights = np.exp(beta * (q - q.max(axis=-1, keepdims=True)))
    # The same sums as weights.sum(axis=-1), several times faster on a short axis.
    policy: Array = weights / (weights @ np.ones(q.shape[-1]))[..., None]
    return policy


@dataclass(frozen=True, eq=False)
class MarkovDecisionProcesses:
    """Agents i = 1..n, each in its own MDP on states {0, .., O-1} and actions {0, .., A-1}.

    Args:
        P: transition kernels P^i(o'|o, a), shape (n, O, A, O); every state can be reached from
            every other.
        R: rewards R^i(o, a), shape (n, O, A).
        gamma: discount factor in [0, 1).
        features: phi(o, a), shape (O, A, d), of rank d; shared by all agents.

    Raises:
        InputError: wrong shapes, NaN, rows that are no distributions, an MDP with states that
            cannot be reached or left, gamma outside [0, 1), or linearly dependent features.

    >>> mdps = MarkovDecisionProcesses(
    ...     P=np.full((1, 2, 2, 2), 0.5),
    ...     R=[[[0.0, 1.0], [0.0, 1.0]]],
    ...     gamma=0.5,
    ...     features=np.eye(4).reshape(2, 2, 4),
    ... )
    >>> mdps.optimal_q()[0]  # reward 1 for ever from action 1, one step later from action 0
    array([[1., 2.],
           [1., 2.]])
    """

    P: Array
    R: Array
    gamma: float
    features: Array

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        store = object.__setattr__
        kernels = transition_kernels("P", self.P, ("n", "O", "A", "O"), sizes)
        check_irreducible("mean of P over actions", kernels.mean(axis=2))
        store(self, "P", kernels)
        store(self, "R", real_array("R", self.R, ("n", "O", "A"), sizes))
        store(self, "gamma", check_number("gamma", self.gamma, low=0.0, high=1.0, high_open=True))
        features = real_array("features", self.features, ("O", "A", "d"), sizes)
        full_rank_features(features.reshape(-1, features.shape[-1]))
        store(self, "features", features)

    @property
    def n(self) -> int:
        """Number of agents."""
        return int(self.P.shape[0])

    @property
    def n_states(self) -> int:
        """Number of states O."""
        return int(self.P.shape[1])

    @property
    def n_actions(self) -> int:
        """Number of actions A."""
        return int(self.P.shape[2])

    @property
    def d(self) -> int:
        """Dimension of the features."""
        return int(self.features.shape[-1])

    @cached_property
    def flat_features(self) -> Array:
        """phi over pairs o A + a, shape (O A, d)."""
        return self.features.reshape(-1, self.d)

    def optimal_q(self, tolerance: float = 1e-12) -> Array:
        """Optimal action values by value iteration, shape (n, O, A).

        Starting at 0, k sweeps leave an error of at most gamma^k max|R| / (1 - gamma); k is chosen
        so that this is below ``tolerance`` max|R| / (1 - gamma).
        """
        tolerance = check_number("tolerance", tolerance, low=0.0, low_open=True, high=1.0)
        sweeps = (
            1 if self.gamma == 0 else max(1, math.ceil(math.log(tolerance) / math.log(self.gamma)))
        )
        q = np.zeros_like(self.R)
        for _ in range(sweeps):
            q = self.backup(q.max(axis=-1))
        return q

    def backup(self, values: Array) -> Array:
        """R^i(o, a) + gamma E[V(o')], for values (..., n, O), shape (..., n, O, A)."""
        return self.R + self.gamma * (self.P @ values[..., None, :, None])[..., 0]

    def kernel(self, policy: Array) -> Array:
        """Chains of the states under policies (..., n, O, A), shape (..., n, O, O)."""
        chain: Array = (policy[..., None, :] @ self.P)[..., 0, :]
        return chain

    def stationary(self, policy: Array) -> Array:
        """Stationary laws of the states under policies (..., n, O, A) > 0, shape (..., n, O)."""
        return stationary_distribution(self.kernel(policy))

    def policy_q(self, policy: ArrayLike) -> Array:
        """Action values Q^pi of policies (n, O, A) by a linear solve, shape (n, O, A)."""
        pi = self._policy(policy)
        bellman = np.eye(self.n_states) - self.gamma * self.kernel(pi)
        values = np.linalg.solve(bellman, (pi * self.R).sum(axis=-1)[..., None])[..., 0]
        return self.backup(values)

    def softmax_q(self, beta: float, tolerance: float = 1e-12) -> Array:
        """Action values of their own softmax policy, Q = Q^pi with pi = softmax(beta Q), (n, O, A).

        What on-policy learning without function approximation settles at. Iterates Q <- backup of
        Q's own policy.

        Raises:
            InputError: if the iteration does not reach ``tolerance`` (relative to max|R| / (1 -
                gamma)); then a smaller beta or gamma is needed.
        """
        beta = check_number("beta", beta, low=0.0)
        scale = max(float(np.abs(self.R).max()), np.finfo(float).tiny) / (1.0 - self.gamma)
        q = np.zeros_like(self.R)
        for _ in range(10_000):
            new = self.backup((softmax_policy(q, beta) * q).sum(axis=-1))
            gap, q = float(np.abs(new - q).max()), new
            if gap <= (1.0 - self.gamma) * tolerance * scale:
                return q
        raise InputError(
            f"`beta` must be small enough for a stable softmax policy; found {beta:g}, which "
            f"leaves changes of {gap:.3g}"
        )

    def under(self, policy: ArrayLike) -> MarkovRewardProcesses:
        """The Markov reward processes on pairs o A + a that policies (n, O, A) induce.

        TD(0) on them is SARSA with these policies held fixed, and their projected fixed point is
        its limit.
        """
        pi = self._policy(policy)
        pairs = self.n_states * self.n_actions
        chain = self.P[..., None] * pi[:, None, None]  # P(o'|o, a) pi(a'|o')
        rewards = np.broadcast_to(self.R.reshape(self.n, pairs, 1), (self.n, pairs, pairs))
        return MarkovRewardProcesses(
            P=chain.reshape(self.n, pairs, pairs),
            R=rewards,
            gamma=self.gamma,
            features=self.flat_features,
        )

    def project(self, q: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Least-squares weights x^i of phi'x^i ~ Q^i, shape (n, d).

        Args:
            q: action values, shape (n, O, A).
            weights: non-negative weights of the pairs, shape (n, O, A), such as the stationary law
                times the policy; None weighs all pairs alike.
        """
        shape = (self.n, self.n_states, self.n_actions)
        target = real_array("q", q, shape).reshape(self.n, -1)
        w = np.ones(shape) if weights is None else real_array("weights", weights, shape)
        if (w < 0).any():
            raise InputError(f"`weights` must be non-negative; found {w.min():.6g}")
        root = np.sqrt(w.reshape(self.n, -1))
        return np.stack(
            [
                np.linalg.lstsq(r[:, None] * self.flat_features, r * t, rcond=None)[0]
                for r, t in zip(root, target, strict=True)
            ]
        )

    def q_values(self, x: Array) -> Array:
        """phi(o, a)'x^i for weights x (..., n, d), shape (..., n, O, A)."""
        flat = x @ self.flat_features.T
        return flat.reshape(*x.shape[:-1], self.n_states, self.n_actions)

    def _policy(self, policy: ArrayLike) -> Array:
        return transition_kernels(
            "policy",
            policy,
            ("n", "O", "A"),
            {"n": self.n, "O": self.n_states, "A": self.n_actions},
        )


def sample_mdps(
    rng: np.random.Generator | int,
    *,
    n: int = 10,
    states: int = 10,
    actions: int = 5,
    d: int = 20,
    gamma: float = 0.1,
    delta_env: float = 0.0,
    delta_obj: float = 0.0,
) -> MarkovDecisionProcesses:
    """Draw agents around one nominal MDP, as in the reinforcement learning set-up of Appendix B.

    P^i is proportional to P + delta_env U^i with U^i uniform on [0, 1], R^i = R + delta_obj W^i
    with W^i uniform on [-1, 1]. The nominal P has rows of uniform numbers divided by their sum,
    the nominal R is uniform on [-1, 1] like its perturbation, and features are random unit
    vectors; the text fixes neither. The same seed gives the same nominal MDP, features, U^i and
    W^i for all levels.

    Args:
        rng: generator or seed.
        n: number of agents.
        states: number of states.
        actions: number of actions.
        d: number of features, at most states times actions.
        gamma: discount factor.
        delta_env: level of environment heterogeneity, at least 0.
        delta_obj: level of objective heterogeneity, at least 0.

    >>> sample_mdps(0, n=3, delta_obj=0.5).P.shape
    (3, 10, 5, 10)
    """
    if not isinstance(rng, np.random.Generator):
        rng = np.random.default_rng(check_integer("rng", rng))
    n, states = check_integer("n", n, low=1), check_integer("states", states, low=1)
    actions, d = check_integer("actions", actions, low=1), check_integer("d", d, low=1)
    delta_env = check_number("delta_env", delta_env, low=0.0, high=math.inf, high_open=True)
    delta_obj = check_number("delta_obj", delta_obj, low=0.0, high=math.inf, high_open=True)
    if d > states * actions:
        raise InputError(f"`d` must be at most states * actions = {states * actions}; found {d}")
    nominal = rng.random((states, actions, states))
    nominal /= nominal.sum(axis=-1, keepdims=True)
    rewards = rng.uniform(-1.0, 1.0, (states, actions))
    features = rng.standard_normal((states, actions, d))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    kernels = nominal + delta_env * rng.random((n, states, actions, states))
    return MarkovDecisionProcesses(
        P=kernels / kernels.sum(axis=-1, keepdims=True),
        R=rewards + delta_obj * rng.uniform(-1.0, 1.0, (n, states, actions)),
        gamma=gamma,
        features=features,
    )
