"""What the figures and rates of FIRM share: conflicting tabular processes, oracles, replicates.

The paper aligns a language model with helpfulness and harmlessness. Its counterpart here has
everything that the theory is about and an exact answer for it: a tabular softmax policy in a
process whose objectives pull apart, with exact returns, gradients and Pareto-stationarity gaps.

*Instances and runs.* An instance is one draw of the process, a run one draw of the samples. Runs of
one instance share the process and differ in the random numbers only, and different algorithms see
the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from experiments._model import Config
from linsys._validate import number, whole
from mgda.actor_critic import ActorCritic
from mgda.critic import LinearCritic
from mgda.instances import sample_momdp
from mgda.momdp import MOMDP
from mgda.trajectories import Clients

__all__ = ["ProcessConfig"]


@dataclass(frozen=True, kw_only=True)
class ProcessConfig(Config):
    """The processes, and how clients sample them.

    Attributes:
        states, actions, objectives: S, A and M.
        gamma: discount factor.
        conflict: in [0, 1]: 0 for independent objectives, 1 for sum_j r^j the same everywhere,
            where nothing can be gained in all of them.
        clients: C.
        B: transitions of a gradient.
        sampling: "restarted" has the mean (1 - gamma) grad J; "markov" and "stationary" have the
            paper's, the direction Delta of the stationary law.
        instances: processes drawn.
        replicates: runs per instance.
    """

    states: int = 6
    actions: int = 4
    objectives: int = 2
    gamma: float = 0.8
    conflict: float = 0.5
    clients: int = 8
    B: int = 16
    sampling: str = "restarted"
    instances: int = 1
    replicates: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, low in (("states", 2), ("actions", 2), ("objectives", 1), ("clients", 1)):
            whole(name, getattr(self, name), low=low)
        whole("B", self.B, low=1)
        whole("instances", self.instances, low=1)
        whole("replicates", self.replicates, low=2)
        number("conflict", self.conflict, low=0.0, high=1.0)

    def momdp(self, instance: int, objectives: int | None = None) -> MOMDP:
        """Draw a process; with another number of objectives than ``self.objectives`` if given."""
        drawn = sample_momdp(
            self.derive("process", instance),
            states=self.states,
            actions=self.actions,
            objectives=self.objectives if objectives is None else objectives,
            gamma=self.gamma,
        )
        opposed = 0.5 + 0.5 * (drawn.r - drawn.r.mean(axis=-1, keepdims=True))
        return replace(drawn, r=(1.0 - self.conflict) * drawn.r + self.conflict * opposed)

    def oracle(
        self,
        clients: Clients,
        instance: int,
        *,
        replicates: int,
        first: int = 0,
        B: int | None = None,
    ) -> ActorCritic:
        """Gradients (10) from the critic's fixed point on tabular features: V is exact."""
        return ActorCritic(
            clients,
            LinearCritic(np.eye(self.states)),
            B=self.B if B is None else B,
            N=None,
            sampling=self.sampling,
            seed=self.derive("samples", instance),
            replicates=replicates,
            first_replicate=first,
        )
