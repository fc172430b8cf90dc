"""What the figures and rates of FIRM share: conflicting tabular processes, oracles, replicates.

The paper aligns a language model with helpfulness and harmlessness. Its counterpart here has
everything that the theory is about and an exact answer for it: a tabular softmax policy in a
process whose objectives pull apart, with exact returns, gradients and Pareto-stationarity gaps.

*Instances and runs.* An instance is one draw of the process, a run one draw of the samples. Runs of
one instance share the process and differ in the random numbers only, and different algorithms see
the same ones.

A configuration is put together of the classes below whose parameters it uses, and no others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from mgda.actor_critic import ActorCritic
from mgda.critic import LinearCritic
from mgda.instances import sample_momdp
from mgda.momdp import MOMDP
from mgda.trajectories import Clients

__all__ = [
    "BatchConfig",
    "ClientsConfig",
    "ConflictConfig",
    "InstancesConfig",
    "ProcessConfig",
]


@dataclass(frozen=True, kw_only=True)
class ProcessConfig(rc.Config):
    """The processes, and how clients sample them."""

    states: int = rc.param(6, low=2, doc="S.")
    actions: int = rc.param(4, low=2, doc="A.")
    objectives: int = rc.param(2, low=1, doc="M.")
    gamma: float = rc.param(0.8, low=0.0, below=1.0, doc="discount factor.")
    replicates: int = rc.param(64, low=2, doc="runs per instance.")

    def oracle(
        self,
        clients: Clients,
        instance: int,
        *,
        B: int,
        replicates: int,
        first: int = 0,
        sampling: str = "stationary",
    ) -> ActorCritic:
        """Gradients (10) from the critic's fixed point on tabular features: V is exact."""
        return ActorCritic(
            clients,
            LinearCritic(np.eye(self.states)),
            B=B,
            N=None,
            sampling=sampling,
            seed=self.derive("samples", instance),
            replicates=replicates,
            first_replicate=first,
        )


@dataclass(frozen=True, kw_only=True)
class InstancesConfig(ProcessConfig):
    """Several draws."""

    instances: int = rc.param(1, low=1, doc="processes drawn.")


@dataclass(frozen=True, kw_only=True)
class ConflictConfig(InstancesConfig):
    """Processes whose objectives pull apart."""

    conflict: float = rc.param(
        0.5,
        low=0.0,
        high=1.0,
        doc=(
            "in [0, 1]: 0 for independent objectives, 1 for sum_j r^j the same everywhere, "
            "where nothing can be gained in all of them."
        ),
    )

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


@dataclass(frozen=True, kw_only=True)
class ClientsConfig(ProcessConfig):
    """Processes with a number of clients that is the same in all blocks."""

    clients: int = rc.param(8, low=1, doc="C.")


@dataclass(frozen=True, kw_only=True)
class BatchConfig(ProcessConfig):
    """Batches of the same size everywhere."""

    B: int = rc.param(16, low=1, doc="transitions of a gradient.")
