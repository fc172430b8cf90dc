"""Markov reward processes: temporal-difference learning as a linear system (Appendix C.6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from linsys.oracle import given_ratio, sized
from linsys.systems.chains import (
    Index,
    check_irreducible,
    draw,
    full_rank_features,
    stationary_distribution,
    transition_kernels,
)
from linsys.systems.finite import FiniteSystem
from linsys.validate import Array, InputError, check_choice, check_number, real_array

__all__ = ["MarkovRewardProcesses", "TDObservation"]


@dataclass(frozen=True)
class TDObservation:
    """One transition per agent, seen through TD residuals; no (d, d) matrix is formed.

    With delta(x) = r - (phi - gamma phi')'x the TD error, g = -phi delta(x). The central reward
    model is r^c = psi'theta: h = phi ((phi - gamma phi')'x - psi'theta), and (7) is its
    least-mean-squares recursion. With psi = phi this is A = phi (phi - gamma phi')', Phi = phi
    phi' of Appendix C.6.

    Args:
        phi: features phi(o^i), shape (..., n, d).
        phi_next: features of the next state, shape (..., n, d).
        reward: shape (..., n).
        psi: reward features, shape (..., n, p).
        gamma: discount factor.
        rho: density ratios, shape (..., n, n), or None where unknown.

    >>> seen = TDObservation(np.ones((1, 1)), np.ones((1, 1)), np.ones(1), np.ones((1, 1)), 0.5)
    >>> seen.residual(np.zeros((1, 1)))
    array([[-1.]])
    """

    phi: Any
    phi_next: Any
    reward: Any
    psi: Any
    gamma: float
    rho: Any = None

    def _difference(self, x: Any) -> Any:
        """(phi - gamma phi')'x, shape (..., n)."""
        difference = self.phi - self.gamma * self.phi_next
        return (difference * sized("x", x, self.phi.shape[-1])).sum(-1)

    def _central_reward(self, theta: Any) -> Any:
        """psi'theta, shape (..., n)."""
        return (self.psi * sized("theta", theta, self.psi.shape[-1])).sum(-1)

    def residual(self, x: Any) -> Any:
        """g^i(x^i), minus the TD(0) direction, shape (..., n, d)."""
        return self.phi * (self._difference(x) - self.reward)[..., None]

    def central_residual(self, x: Any, theta: Any) -> Any:
        """h^i(x^i, theta): the same residual with the central reward model, shape (..., n, d)."""
        return self.phi * (self._difference(x) - self._central_reward(theta))[..., None]

    def objective_residual(self, theta: Any) -> Any:
        """psi (psi'theta - r), shape (..., n, p)."""
        return self.psi * (self._central_reward(theta) - self.reward)[..., None]

    def density_ratio(self) -> Any:
        """rho^i(s^j), shape (..., n, n).

        Raises:
            InputError: if the environment behind knows no density ratio.
        """
        return given_ratio(self.rho)


@dataclass(frozen=True, eq=False)
class MarkovRewardProcesses:
    """Agents i = 1..n that each evaluate their chain on states {0, .., O-1}.

    The value is V^i(o) = E[sum_h gamma^h R^i(o_h, o_{h+1}) | o_0 = o].

    Args:
        P: transition kernels P^i(o'|o), shape (n, O, O); rows sum to one, every chain irreducible.
        R: rewards R^i(o, o'), shape (n, O, O).
        gamma: discount factor in [0, 1).
        features: phi(o), shape (O, d), of rank d; shared by all agents.

    Raises:
        InputError: wrong shapes, NaN, rows that are no distributions, a reducible chain, gamma
            outside [0, 1), or linearly dependent features.

    >>> mrps = MarkovRewardProcesses(
    ...     P=[[[0.5, 0.5], [1.0, 0.0]]], R=np.ones((1, 2, 2)), gamma=0.5, features=np.eye(2))
    >>> mrps.values, mrps.x_star  # a reward of 1 for ever: 1 / (1 - gamma)
    (array([[2., 2.]]), array([[2., 2.]]))
    """

    P: Array
    R: Array
    gamma: float
    features: Array

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        store = object.__setattr__
        kernels = transition_kernels("P", self.P, ("n", "O", "O"), sizes)
        check_irreducible("P", kernels)
        store(self, "P", kernels)
        store(self, "R", real_array("R", self.R, ("n", "O", "O"), sizes))
        store(self, "gamma", check_number("gamma", self.gamma, low=0.0, high=1.0, high_open=True))
        store(
            self,
            "features",
            full_rank_features(real_array("features", self.features, ("O", "d"), sizes)),
        )

    @property
    def n(self) -> int:
        """Number of agents."""
        return int(self.P.shape[0])

    @property
    def n_states(self) -> int:
        """Number of states O."""
        return int(self.P.shape[1])

    @property
    def d(self) -> int:
        """Dimension of the features."""
        return int(self.features.shape[1])

    @cached_property
    def stationary(self) -> Array:
        """Stationary distributions pi^i, shape (n, O)."""
        return stationary_distribution(self.P)

    @cached_property
    def mean_rewards(self) -> Array:
        """R^i(o) = E[R^i(o, o') | o], shape (n, O)."""
        mean: Array = (self.P * self.R).sum(axis=-1)
        return mean

    @cached_property
    def values(self) -> Array:
        """V^i = (I - gamma P^i)^{-1} R^i, shape (n, O)."""
        bellman = np.eye(self.n_states) - self.gamma * self.P
        values = np.linalg.solve(bellman, self.mean_rewards[..., None])[..., 0]
        return np.asarray(values, dtype=np.float64)

    @cached_property
    def x_star(self) -> Array:
        """Projected Bellman fixed points x_*^i of equation (15), shape (n, d)."""
        weighted = self.features.T * self.stationary[:, None, :]  # phi' diag(pi^i)
        A_bar = weighted @ (self.features - self.gamma * (self.P @ self.features))
        x = np.linalg.solve(A_bar, weighted @ self.mean_rewards[..., None])[..., 0]
        return np.asarray(x, dtype=np.float64)

    @cached_property
    def pair_distribution(self) -> Array:
        """mu^i(o, o') = pi^i(o) P^i(o'|o), shape (n, O, O)."""
        return self.stationary[..., None] * self.P

    @cached_property
    def rho(self) -> Array:
        """mu^i(o, o') / mu^0(o, o'), shape (n, O, O); 0 on transitions that no agent makes."""
        mu, mu0 = self.pair_distribution, self.pair_distribution.mean(axis=0)
        ratio: Array = np.divide(mu, mu0, out=np.zeros_like(mu), where=mu0 > 0)
        return ratio

    def bellman(self, values: ArrayLike) -> Array:
        """The Bellman operator T^i V = R^i + gamma P^i V on values (n, O), shape (n, O)."""
        v = real_array("values", values, (self.n, self.n_states))
        backed_up: Array = self.mean_rewards + self.gamma * (self.P @ v[..., None])[..., 0]
        return backed_up

    def to_finite_system(self) -> FiniteSystem:
        """TD(0) as a finite-state system on transitions s = (o, o'), state o O + o' (equation 15).

        A(s) = phi(o)(phi(o) - gamma phi(o'))', b^i(s) = phi(o) R^i(o, o') and
        mu^i(s) = pi^i(o) P^i(o'|o). The objective features are Phi(s) = phi(o) phi(o)', whose mean
        is positive definite because the features have rank d: a central reward that is linear in
        phi, and one free reward per state where phi(o) = e_o. Where every R^i(o, o') is
        phi(o)'theta^i, the system knows ``theta``.

        With gamma = 0 these objective features make the central residual vanish at its solution
        (x_*^c, theta_*^c) for every sample: nothing is left to correct with, and AffPCL is
        independent learning in the long run. ``observe(..., rewards="tabular")`` avoids that.
        """
        size = self.n_states
        here = np.repeat(self.features, size, axis=0)
        there = np.tile(self.features, (size, 1))
        rewards = self.R.reshape(self.n, size * size)
        theta = np.asarray(np.linalg.lstsq(here, rewards.T, rcond=None)[0].T, dtype=np.float64)
        linear = np.abs(theta @ here.T - rewards).max() <= 1e-12 * (1.0 + np.abs(rewards).max())
        return FiniteSystem(
            A=here[:, :, None] * (here - self.gamma * there)[:, None, :],
            Phi=here[:, :, None] * here[:, None, :],
            b=here * rewards[..., None],
            mu=self.pair_distribution.reshape(self.n, -1),
            theta=theta if linear else None,
        )

    def sample(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> tuple[Index, Index]:
        """Independent transitions (o, o') ~ mu^i, the paper's setting: two arrays (*batch, n)."""
        u = rng.random((2, *batch, self.n))
        o = draw(np.cumsum(self.stationary, axis=-1), u[0])
        return o, self.step(o, u[1])

    def step(self, o: Index, u: Array) -> Index:
        """Next states from states o (..., n) and uniforms u of the same shape."""
        return draw(self._cumulative[np.arange(self.n), o], u)

    def observe(self, o: Index, o_next: Index, *, rewards: str = "linear") -> TDObservation:
        """Transitions (..., n) through TD residuals, with the exact density ratio.

        Args:
            o: states.
            o_next: next states.
            rewards: central reward model: "linear" psi = phi(o), as in :meth:`to_finite_system`,
                or "tabular" psi = e_o, for which theta has O entries.

        Raises:
            InputError: states that are no whole numbers in [0, O) with one column per agent, or a
                transition that has probability zero.
        """
        check_choice("rewards", rewards, ("linear", "tabular"))
        o, o_next = self._checked("o", o), self._checked("o_next", o_next)
        agents = np.arange(self.n)
        if o.shape != o_next.shape:
            raise InputError(
                f"`o_next` must have the shape of `o`, {o.shape}; found {o_next.shape}"
            )
        if (impossible := self.P[agents, o, o_next] == 0).any():
            where = tuple(np.argwhere(impossible)[0])
            raise InputError(
                f"`o_next` must be reachable from `o`; found {o[where]} -> {o_next[where]} "
                f"of agent {where[-1]}, which has probability 0"
            )
        return TDObservation(
            phi=self.features[o],
            phi_next=self.features[o_next],
            reward=self.R[agents, o, o_next],
            psi=self.features[o] if rewards == "linear" else np.eye(self.n_states)[o],
            gamma=self.gamma,
            rho=np.moveaxis(self.rho[:, o, o_next], 0, -2),
        )

    def _checked(self, name: str, states: Index) -> Index:
        """States (..., n) that are whole numbers in [0, O)."""
        array = np.asarray(states)
        if array.dtype.kind not in "iu" or array.ndim == 0 or array.shape[-1] != self.n:
            raise InputError(
                f"`{name}` must be whole numbers of shape (..., {self.n}); "
                f"found {array.dtype} {array.shape}"
            )
        if array.size and (array.min() < 0 or array.max() >= self.n_states):
            raise InputError(
                f"`{name}` must lie in [0, {self.n_states}); found [{array.min()}, {array.max()}]"
            )
        return array

    def trajectory(
        self, rng: np.random.Generator, batch: tuple[int, ...] = (), *, rewards: str = "linear"
    ) -> Iterator[TDObservation]:
        """Transitions along one endless trajectory per agent that starts in its stationary law.

        Consecutive transitions are dependent (online TD); the paper's guarantee is about
        independent ones.

        >>> half, one = np.full((1, 2, 2), 0.5), np.ones((1, 2, 2))
        >>> mrps = MarkovRewardProcesses(half, one, gamma=0.5, features=np.eye(2))
        >>> seen = next(mrps.trajectory(np.random.default_rng(0)))
        >>> seen.reward
        array([1.])
        """
        o = draw(np.cumsum(self.stationary, axis=-1), rng.random((*batch, self.n)))
        while True:
            o_next = self.step(o, rng.random(o.shape))
            yield self.observe(o, o_next, rewards=rewards)
            o = o_next

    @cached_property
    def _cumulative(self) -> Array:
        return np.cumsum(self.P, axis=-1)
