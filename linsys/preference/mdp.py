"""Small finite-horizon decision processes whose policies see the whole history, in sequence form.

A policy maps (s_1, a_1, .., s_h) to a law of a_h. The histories with positive probability form a
tree; "history" below means such a node (i = 0 .. I - 1, step by step), and a policy is an array
pi (I, A) whose rows sum to one. What matters about it is its *realisation plan* x (I, A), the
product of its own choices on the way:

    x[i, a] = pi[i, a] * (1, or x of the history and action that led to i).

The plans are a polytope (x >= 0; each row sums to 1, or to the x that led there), and the
probability of a trajectory, a history of H states with its last action, is linear in x:
chance(tau) x(tau). So J, the expected reward of any function of trajectories, is linear too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.validate import (
    PROBABILITY_TOLERANCE,
    Array,
    InputError,
    check_integer,
    distributions,
    finite_array,
    plain,
    real_array,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["DecisionTree"]

Indices = NDArray[np.int64]

#: Sequences (history, action) that a tree may have: a few hundred megabytes of arrays.
_MOST = 2_000_000


@dataclass(frozen=True, eq=False)
class DecisionTree:
    """A Markov decision process of horizon H, unrolled.

    Args:
        P: transitions P(s'|s, a), shape (S, A, S), or one for each step, (H, S, A, S); that of step
            H leads to the end and is not used.
        mu: law of s_1, shape (S,).
        H: the horizon, the number of states and actions of a trajectory.

    Trajectories are numbered 0 .. T - 1 in the order of :attr:`states` and :attr:`actions`; those
    of probability zero under every policy have no number.

    Raises:
        InputError: wrong shapes, rows that are no distributions, too many sequences.

    >>> tree = DecisionTree(np.full((2, 2, 2), 0.5), mu=[1.0, 0.0], H=2)
    >>> tree.I, tree.T, tree.states[:3].tolist(), tree.actions[:3].tolist()
    (5, 8, [[0, 0], [0, 0], [0, 1]], [[0, 0], [0, 1], [0, 0]])
    >>> reward = tree.actions.sum(axis=1) * 1.0
    >>> plan = tree.best(reward)
    >>> tree.J(plan, reward), tree.J(tree.plan(tree.uniform()), reward)
    (2.0, 1.0)
    """

    P: Array
    mu: Array
    H: int

    def __post_init__(self) -> None:
        store, sizes = object.__setattr__, dict[str, int]()
        H = check_integer("H", self.H, low=1)
        by_step: tuple[int, ...] = (H,) if plain(self.P).ndim == 4 else ()
        P = real_array("P", self.P, (*by_step, "S", "A", "S"), sizes)
        distributions("P (rows s A + a)", P.reshape(-1, sizes["S"]))
        mu = real_array("mu", self.mu, ("S",), sizes)
        distributions("mu", mu[None])
        store(self, "P", np.broadcast_to(P, (H, *P.shape[-3:])))
        store(self, "mu", mu)
        count, alive = 0, (mu > 0).astype(np.float64)
        for h in range(H):
            count += sizes["A"] * int(alive.sum())
            if count > _MOST:
                raise InputError(
                    f"`H` must give at most {_MOST} sequences of a history and an action; "
                    f"found {count} in the first {h + 1} of {H} steps"
                )
            alive = alive @ (self.P[h] > 0).sum(axis=1)

    @property
    def S(self) -> int:
        """Number of states."""
        return int(self.P.shape[1])

    @property
    def A(self) -> int:
        """Number of actions."""
        return int(self.P.shape[2])

    @property
    def I(self) -> int:  # noqa: E743 - the papers' letter of information sets
        """Number of histories that end before an action."""
        return int(self._levels[-1])

    @property
    def T(self) -> int:
        """Number of trajectories that some policy can produce."""
        return len(self.chance)

    @cached_property
    def _tree(self) -> tuple[list[Indices], list[Indices], list[Array]]:
        """Of the histories of every step: (previous history and action), last state, chance.

        A history and an action are the number i A + a, -1 before the first.
        """
        first = np.flatnonzero(self.mu > 0)
        parents, states, chances = [np.full(len(first), -1)], [first], [self.mu[first]]
        start = 0
        for h in range(self.H - 1):
            reach = chances[h][:, None, None] * self.P[h, states[h]]
            history, action, state = np.nonzero(self.P[h, states[h]] > 0)
            parents.append((start + history) * self.A + action)
            states.append(state)
            chances.append(reach[history, action, state])
            start += len(states[h])
        return parents, states, chances

    @cached_property
    def _levels(self) -> Indices:
        """Where the histories of step h begin, and I at the end: shape (H + 1,)."""
        return np.concatenate([[0], np.cumsum([len(level) for level in self._tree[1]])])

    @cached_property
    def parent(self) -> Indices:
        """The history and action that lead to each history, as i A + a, or -1: shape (I,)."""
        return np.concatenate(self._tree[0])

    @cached_property
    def chance(self) -> Array:
        """What the transitions contribute to the probability of each trajectory, shape (T,)."""
        return np.repeat(self._tree[2][-1], self.A)

    @cached_property
    def states(self) -> Indices:
        """s_1 .. s_H of the trajectories, shape (T, H)."""
        return self._paths[0]

    @cached_property
    def actions(self) -> Indices:
        """a_1 .. a_H of the trajectories, shape (T, H)."""
        return self._paths[1]

    @cached_property
    def _paths(self) -> tuple[Indices, Indices]:
        states, actions = np.empty((2, self.T, self.H), dtype=np.int64)
        last = np.concatenate(self._tree[1])
        at = np.arange((self.I - len(self._tree[1][-1])) * self.A, self.I * self.A)
        for h in reversed(range(self.H)):
            history, actions[:, h] = np.divmod(at, self.A)
            states[:, h] = last[history]
            at = self.parent[history]
        return states, actions

    @cached_property
    def constraints(self) -> tuple[csr_array, Array]:
        """E (I, I A) and e (I,): the plans are all x >= 0 with E x.ravel() = e."""
        from scipy.sparse import csr_array

        inner = np.flatnonzero(self.parent >= 0)
        rows = np.concatenate([np.repeat(np.arange(self.I), self.A), inner])
        columns = np.concatenate([np.arange(self.I * self.A), self.parent[inner]])
        values = np.concatenate([np.ones(self.I * self.A), -np.ones(len(inner))])
        E = csr_array((values, (rows, columns)), shape=(self.I, self.I * self.A))
        return E, (self.parent < 0).astype(np.float64)

    def uniform(self) -> Array:
        """The policy that takes every action alike, shape (I, A)."""
        return np.full((self.I, self.A), 1.0 / self.A)

    def plan(self, policy: ArrayLike) -> Array:
        """The realisation plan x (I, A) of a policy pi (I, A).

        Raises:
            InputError: rows that are no distributions.
        """
        x = np.array(distributions("policy", real_array("policy", policy, (self.I, self.A))))
        for start, end in zip(self._levels[1:-1], self._levels[2:], strict=True):
            x[start:end] *= x.reshape(-1)[self.parent[start:end], None]
        return x

    def policy(self, plan: ArrayLike, below: float = 0.0) -> Array:
        """A policy with this plan, uniform after histories that the plan does not reach.

        What a solver returns is off by its tolerance: entries that are at most ``below`` count as
        zero, so that the result is a distribution everywhere, without negative probabilities.

        Raises:
            InputError: an entry below -``below``.
        """
        x = real_array("plan", plan, (self.I, self.A))
        if x.min() < -below:
            raise InputError(f"`plan` must be at least {-below:g}; found {x.min():.6g}")
        x = np.where(x > below, x, 0.0)
        total = x.sum(axis=1, keepdims=True)
        return np.where(total > 0, x, 1.0) / np.where(total > 0, total, float(self.A))

    def probabilities(self, plan: ArrayLike) -> Array:
        """The law of the trajectory under a plan (I, A), shape (T,).

        Raises:
            InputError: not a plan, say a policy.
        """
        x = real_array("plan", plan, (self.I, self.A))
        E, e = self.constraints
        off = float(np.abs(E @ x.reshape(-1) - e).max())
        if x.min() < 0 or off > PROBABILITY_TOLERANCE:
            raise InputError(
                "`plan` must be a realisation plan, as from plan(policy); "
                f"found smallest entry {x.min():.3g} and a sum that is off by {off:.3g}"
            )
        return self.chance * x[self._levels[-2] :].reshape(-1)

    def J(self, plan: ArrayLike, reward: ArrayLike) -> float:
        """E[reward(tau)] under a plan (I, A), for rewards of all trajectories, shape (T,)."""
        return float(self.probabilities(plan) @ self._reward(reward))

    def best(self, reward: ArrayLike) -> Array:
        """A plan (I, A) of 0 and 1 with the largest J, by dynamic programming on the tree.

        Of equally good actions the first one is taken.
        """
        policy = np.zeros((self.I, self.A))
        gain: Array = (self.chance * self._reward(reward)).reshape(-1, self.A)
        for h in reversed(range(self.H)):
            start, end = self._levels[h], self._levels[h + 1]
            policy[np.arange(start, end), gain.argmax(axis=1)] = 1.0
            if h > 0:  # the best gain of every history goes to the action that led to it
                before = self._levels[h - 1]
                into = self.parent[start:end] - before * self.A
                count = (start - before) * self.A
                sums = np.bincount(into, weights=gain.max(axis=1), minlength=count)
                gain = np.asarray(sums, dtype=np.float64).reshape(-1, self.A)
        return self.plan(policy)

    def sum_of_features(self, phi: ArrayLike) -> Array:
        """psi(tau) = sum_h phi(s_h, a_h) for phi (S, A, d1, d2), shape (T, d1, d2).

        Rewards may be any functions of the trajectory; these are the ones that add up.
        """
        phi = real_array("phi", phi, (self.S, self.A, "d1", "d2"))
        return np.asarray(phi[self.states, self.actions].sum(axis=1))

    def _reward(self, reward: ArrayLike) -> Array:
        rewards = finite_array("reward", reward)
        if rewards.shape != (self.T,):
            raise InputError(
                f"`reward` must have shape ({self.T},), one a trajectory; found {rewards.shape}"
            )
        return rewards
