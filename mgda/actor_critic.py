"""Gradient oracles for multi-objective algorithms: flat parameters in, a column per objective out.

An oracle has ``init() -> memory`` and ``jac(theta, memory) -> (gradients, memory)`` for parameters
theta (R, C, d) of R replicates and C clients; gradients are (R, C, d, M). What a client keeps (the
state of its chain, its critics, the time) is in the memory, not in the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from linsys.validate import Array, InputError, check_choice, check_integer, check_number
from mgda.critic import LinearCritic
from mgda.momdp import SoftmaxPolicy
from mgda.trajectories import SAMPLINGS, Clients, Transitions, check_clients, gradients, sample

__all__ = ["ActorCritic", "ExactGradients", "Memory"]

#: Transitions that are kept at a time while a critic learns.
_PIECE = 1 << 20


class Memory(NamedTuple):
    """What clients keep: states (R, C), critics' weights (R, C, d2, M), steps taken."""

    state: NDArray[np.int64]
    w: Array
    time: int


@dataclass(frozen=True, eq=False)
class ExactGradients:
    """grad J of every client at its own parameters; without memory.

    Args:
        clients: the processes.
        first: index of the first term of the discounted sum; the paper's is 1.

    >>> from mgda.instances import sample_momdp
    >>> oracle = ExactGradients(Clients(sample_momdp(0, states=3, actions=2), 4))
    >>> oracle.jac(np.zeros((1, 4, 6)))[0].shape
    (1, 4, 6, 2)
    """

    clients: Clients
    first: int = 1

    def __post_init__(self) -> None:
        check_clients(self.clients)
        check_integer("first", self.first, high=1)

    def init(self) -> None:
        """Nothing to keep."""

    def jac(self, theta: Array, memory: None = None) -> tuple[Array, None]:
        """Gradients (R, C, d, M) at theta (R, C, d)."""
        return self.clients.jac(theta, self.first), memory


@dataclass(frozen=True, eq=False)
class ActorCritic:
    """T-FIRM's estimate (10), made by a critic that learns first (lines 5 to 9 of Algorithm 2).

    One call is N critic iterations of D transitions from where the chain and the critics were left,
    then B more transitions for the gradient. Its mean is near Delta(theta, w_*), which is (1 -
    gamma) grad J at best: see :meth:`mgda.momdp.SoftmaxPolicy.direction` and ``sampling``.

    Args:
        clients: the processes.
        critic: the critics' features.
        B: transitions of a gradient, or None for the mean over all of them.
        D, N: transitions of a critic iteration, and iterations; N = None for the fixed point w_*.
        step: alpha' of the critic.
        radius: R_w.
        sampling: "markov", the text's; "restarted" or "stationary" (:mod:`mgda.trajectories`).
        seed: of all random numbers.
        replicates: R.
        first_replicate: number of the first of them.
        start: every chain's first state.

    >>> from mgda.instances import sample_momdp
    >>> clients = Clients(sample_momdp(0, states=3, actions=2), 4)
    >>> oracle = ActorCritic(clients, LinearCritic(np.eye(3)), B=8, D=4, N=5, replicates=10)
    >>> gradients, memory = oracle.jac(np.zeros((10, 4, 6)), oracle.init())
    >>> gradients.shape, memory.time
    ((10, 4, 6, 2), 28)
    """

    clients: Clients
    critic: LinearCritic
    B: int | None = 32
    D: int = 32
    N: int | None = 10
    step: float = 0.1
    radius: float = np.inf
    sampling: str = "markov"
    seed: int = 0
    replicates: int = 1
    first_replicate: int = 0
    start: int = 0

    def __post_init__(self) -> None:
        check_clients(self.clients)
        if not isinstance(self.critic, LinearCritic):
            raise InputError(f"`critic` must be a LinearCritic; found {type(self.critic).__name__}")
        for name, low in (("B", 1), ("N", 0)):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=low)
        check_integer("D", self.D, low=1)
        check_integer("seed", self.seed, high=(1 << 128) - 1)
        check_integer("replicates", self.replicates, low=1)
        check_integer("first_replicate", self.first_replicate)
        check_integer("start", self.start, high=self.clients.model.n_states - 1)
        check_choice("sampling", self.sampling, SAMPLINGS)
        check_number("step", self.step, low=0.0, low_open=True)
        if self.radius != np.inf:
            check_number("radius", self.radius, low=0.0, low_open=True)
        if len(self.critic.phi) != self.clients.model.n_states:
            raise InputError(
                f"`critic` must have features of {self.clients.model.n_states} states; "
                f"found {len(self.critic.phi)}"
            )

    def init(self) -> Memory:
        """Chains in their first state, critics at zero."""
        shape = (self.replicates, len(self.clients))
        w = np.zeros((*shape, self.critic.d2, self.clients.model.M))
        return Memory(np.full(shape, self.start, dtype=np.int64), w, 0)

    def jac(self, theta: Array, memory: Memory) -> tuple[Array, Memory]:
        """Gradients (R, C, d, M) at theta (R, C, d), and what the clients keep."""
        wanted = (self.replicates, len(self.clients), self.clients.model.d)
        if np.shape(theta) != wanted:
            raise InputError(f"`theta` must have shape {wanted}; found {np.shape(theta)}")
        if not isinstance(memory, Memory):
            raise InputError(
                f"`memory` must be what init() or jac() gave; found {type(memory).__name__}"
            )
        policies = self.clients.policies(np.asarray(theta))
        memory = self._learn(policies, memory)
        values = self.critic.values(memory.w)
        if self.B is None:
            own = [values] if self.clients.same else list(np.moveaxis(values, 1, 0))
            parts = [p.direction(v, self._law(p)) for p, v in zip(policies, own, strict=True)]
            return self.clients.gather(parts), memory
        batch, state = self._sample(policies, memory, self.B)
        estimates = gradients(self.clients, policies, batch, values)
        return estimates, Memory(state, memory.w, memory.time + self.B)

    def _learn(self, policies: list[SoftmaxPolicy], memory: Memory) -> Memory:
        """Line 5 of Algorithm 2: the critics follow the policies."""
        if self.N is None:
            parts = [self.critic.fixed_point(p, self._law(p)) for p in policies]
            return memory._replace(w=self.clients.gather(parts))
        left, at_once = self.N, max(1, _PIECE // (memory.state.size * self.D))
        while left > 0:
            length = min(left, at_once) * self.D
            batch, state = self._sample(policies, memory, length)
            w = self.critic.learn(memory.w, self.clients, batch, self.D, self.step, self.radius)
            memory = Memory(state, w, memory.time + length)
            left -= length // self.D
        return memory

    def _sample(
        self, policies: list[SoftmaxPolicy], memory: Memory, length: int
    ) -> tuple[Transitions, NDArray[np.int64]]:
        return sample(
            self.clients,
            policies,
            memory.state,
            length,
            seed=self.seed,
            time=memory.time,
            sampling=self.sampling,
            first_replicate=self.first_replicate,
        )

    def _law(self, policy: SoftmaxPolicy) -> Array:
        """The law that samples follow in the long run."""
        return policy.occupancy if self.sampling == "restarted" else policy.stationary
