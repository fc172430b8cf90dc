"""SARSA with any algorithm of this package, and the density ratio that is estimated beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from linsys.algorithms._round import Collaborative, Start, State, keep_inactive
from linsys.algorithms.steps import Steps
from linsys.systems.chains import Index, draw
from linsys.systems.markov_reward import TDObservation
from linsys.systems.mdp import MarkovDecisionProcesses, softmax_policy
from linsys.validate import Array, InputError, check_choice, check_integer, check_number

__all__ = ["SarsaObservation", "VisitationRatio", "action_density_ratio", "sarsa"]

#: Iterates of this size have left every reasonable problem; far below overflow.
_DIVERGED = 1e100


def action_density_ratio(laws: Array, policies: Array, o: Index, a: Index) -> Array:
    """rho^i(o^j, a^j): mu^i(o) pi^i(a|o) over its mean over agents, shape (..., n, n).

    It is 0 for a sample that no agent would make now (its probability has underflown).

    Args:
        laws: state distributions mu^i, or anything proportional with one factor for all agents,
            shape (..., n, O).
        policies: pi^i(a|o), shape (..., n, O, A).
        o: states, shape (..., n).
        a: actions, shape (..., n).
    """
    pairs = (o * policies.shape[-1] + a)[..., None, :]
    joint = (laws[..., None] * policies).reshape(*policies.shape[:-2], -1)
    at_samples = np.take_along_axis(
        joint, np.broadcast_to(pairs, (*joint.shape[:-1], pairs.shape[-1])), -1
    )
    average = at_samples.mean(axis=-2, keepdims=True)
    ratio: Array = np.divide(at_samples, average, out=np.zeros_like(at_samples), where=average > 0)
    return ratio


@dataclass(frozen=True, kw_only=True)
class SarsaObservation(TDObservation):
    """One tuple (o, a, r, o', a') per agent: a transition of the pairs (o, a).

    Args:
        o: states, shape (..., n).
        a: actions, shape (..., n).
        policies: current behaviour policies pi_t^i(a|o) of all agents, shape (..., n, O, A).
        mdps: where the tuples come from; only the exact density ratio looks at it.
    """

    o: Index
    a: Index
    policies: Array
    mdps: MarkovDecisionProcesses

    def density_ratio(self) -> Any:
        """Ratio of the exact stationary laws of (o, a) under the current policies, (..., n, n)."""
        return action_density_ratio(
            self.mdps.stationary(self.policies), self.policies, self.o, self.a
        )


@dataclass(frozen=True)
class VisitationRatio:
    """Asynchronous density-ratio estimation (Section 6.1) for ``AffPCL(ratio=...)``.

    mu^i(o) is estimated by the share of the rounds agent i took part in, the current one included,
    that it spent in o; policies are known. The agent that provides a sample has been there, so no
    denominator vanishes, and the ratio is at most n.

    Args:
        states: number of states O.
    """

    states: int

    def __post_init__(self) -> None:
        check_integer("states", self.states, low=1)

    def init(self, x0: Any) -> Any:
        """No visits yet, shape (..., n, O)."""
        return np.zeros((*x0.shape[:-1], self.states))

    def ratio(self, state: Any, seen: Any) -> Any:
        """The current estimate of rho^i(o^j, a^j), shape (..., n, n)."""
        counts = self.update(state, seen, 0.0)
        laws = counts / counts.sum(axis=-1, keepdims=True)
        return action_density_ratio(laws, seen.policies, seen.o, seen.a)

    def update(self, state: Any, seen: Any, alpha: float, active: Any = None) -> Any:
        """Count the states of one more round; a frequency needs no step size.

        Raises:
            InputError: a state beyond the O states that are counted.
        """
        if (largest := int(seen.o.max())) >= self.states:
            raise InputError(f"`states` must be above every observed state; found {largest}")
        visits = seen.o[..., None] == np.arange(self.states)
        return keep_inactive(state + visits, state, active)


def sarsa(
    algorithm: Collaborative[State],
    mdps: MarkovDecisionProcesses,
    steps: Steps | float,
    rounds: int,
    *,
    beta: float,
    seed: int | np.random.Generator = 0,
    replicates: int = 1,
    rewards: str = "tabular",
) -> Iterator[tuple[int, State]]:
    """Yield (t, state) for t = 0, .., rounds of on-policy control with one algorithm.

    In every round agent i moves from its pair (o, a) to o' ~ P^i, chooses a' by the softmax of its
    current estimate phi'x^i, and learns from (o, a, r, o', a'); then (o, a) <- (o', a'). Agents
    start at x = 0 in a uniform state.

    The central reward model of AffPCL is a table by default, psi = e_(o,a). With the linear model
    psi = phi the central residual at its solution is phi (phi'(x^c - theta) - gamma phi'_next x^c),
    which vanishes with gamma: nothing would be left to correct with, and AffPCL would be
    independent learning.

    Args:
        algorithm: any algorithm of this package; for an estimated density ratio
            AffPCL(ratio=VisitationRatio(O)).
        mdps: the agents.
        steps: step sizes, or a number for a constant step.
        rounds: number of rounds, one tuple per agent each.
        beta: inverse temperature of the behaviour policies.
        seed: of all random numbers; replicate r uses the same ones whatever the number of
            replicates and the algorithm, so that algorithms can be compared in pairs.
        replicates: number of independent copies, the leading axis of all states.
        rewards: central reward model, "tabular" or "linear".

    Raises:
        InputError: options outside their ranges.

    >>> from linsys.algorithms import Independent
    >>> from linsys.systems.mdp import sample_mdps
    >>> mdps = sample_mdps(0, n=3)
    >>> for t, state in sarsa(Independent(), mdps, Steps.constant(0.1), 20, beta=0.1): pass
    >>> t, state.x.shape
    (20, (1, 3, 20))
    """
    steps = steps if isinstance(steps, Steps) else Steps.constant(steps)
    if not isinstance(seed, np.random.Generator):
        seed = check_integer("seed", seed)
    rounds = check_integer("rounds", rounds)
    beta = check_number("beta", beta, low=0.0, high=math.inf, high_open=True)
    replicates = check_integer("replicates", replicates, low=1)
    check_choice("rewards", rewards, ("tabular", "linear"))
    n, size = mdps.n, mdps.n_states * mdps.n_actions
    agents = np.arange(n)
    flat = mdps.flat_features
    psi_of = np.eye(size) if rewards == "tabular" else flat
    arrivals = np.cumsum(mdps.P, axis=-1)

    start = Start(np.zeros((replicates, n, mdps.d)), np.zeros((replicates, psi_of.shape[1])))
    state = algorithm.init(start)
    yield 0, state
    o = a = pair = np.zeros((replicates, n), dtype=np.int64)
    for t, u in enumerate(_uniforms(seed, replicates, n, rounds + 1)):
        x = algorithm.personal(state)
        if not np.abs(x).max() < _DIVERGED:
            raise InputError(
                "`steps` must be small enough for bounded iterates; found |x| above "
                f"{_DIVERGED:g} in round {t} with alpha (1 + gamma) max ||phi||^2 = "
                f"{steps.base(0) * (1.0 + mdps.gamma) * (flat**2).sum(-1).max():.3g}"
            )
        policies = softmax_policy(mdps.q_values(x), beta)
        if t == 0:
            o_next = (u[..., 0] * mdps.n_states).astype(np.int64)
        else:
            o_next = draw(arrivals[agents, o, a], u[..., 0])
        choices = np.take_along_axis(policies, o_next[..., None, None], axis=-2)[..., 0, :]
        a_next = draw(np.cumsum(choices, axis=-1), u[..., 1])
        pair_next = o_next * mdps.n_actions + a_next
        if t > 0:
            seen = SarsaObservation(
                phi=flat[pair],
                phi_next=flat[pair_next],
                reward=mdps.R[agents, o, a],
                psi=psi_of[pair],
                gamma=mdps.gamma,
                o=o,
                a=a,
                policies=policies,
                mdps=mdps,
            )
            state = algorithm.update(state, [seen], steps.at(t - 1))
            yield t, state
        o, a, pair = o_next, a_next, pair_next


def _uniforms(
    seed: int | np.random.Generator, replicates: int, n: int, rounds: int, chunk: int = 256
) -> Iterator[Array]:
    """Uniforms (replicates, n, 2) round by round, from one generator per replicate."""
    generators = np.random.default_rng(seed).spawn(replicates)
    for start in range(0, rounds, chunk):
        length = min(chunk, rounds - start)
        block = np.stack([g.random((length, n, 2)) for g in generators], axis=1)
        yield from block
