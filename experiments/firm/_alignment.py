"""What Figures 1 to 6 share: tabular counterparts of an alignment run, their columns, comparisons.

*The counterpart.* A prompt and what has been answered so far is a state, the next token an action,
the model a softmax policy theta, and the two reward models are two rewards that pull apart:
objective 1 stands for helpfulness, objective 2 for harmlessness. A reward in the figures is
(1 - gamma) sum_{t>=0} gamma^t E r_t, in [0, 1] as in the paper; it is exact, at the mean of the
clients' parameters. The paper's curves are sampled and smoothed by an exponential moving average of
half-life 20; here only the weights of single runs need that (``half_life``, in local steps).

*Training.* As in the paper: 16 rounds, K = 3 local steps for its three epochs of PPO, batches of
B = 16, the trace-normalised Gram matrix with beta = .01, no smoothing of the weights. Clients learn
their critics as T-FIRM does: N iterations of temporal differences with D transitions each before
every gradient, on tabular features and projected on a ball that holds the values of every policy.
They start from the values of the uniform policy, where training starts: from zero, the first
gradients would be about the sizes of the two rewards and not about what actions change.
States are sampled with restarts: gradients have the mean (1 - gamma) grad J, and the law of the
first state (the prompts) matters, of which a long trajectory would forget everything.

*Step size.* The paper's learning rates have no meaning here. alpha = 10 is large because gradients
(10) have entries of about 10^-2; with it 16 rounds close 55 % to 90 % of the gap from the uniform
policy to the best sum of both rewards, depending on the process: rewards come near the Pareto front
and still rise, as they do in the paper. Figure 1 notes the share.

*Comparisons.* Two settings of one instance see the same processes and, client by client, the same
random numbers. Differences are formed within an instance and their 95 % intervals (Student) are
over instances, so that they speak of a process that was not drawn yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

import ratecheck as rc
from experiments.firm._comparison import Values, mean_gain, scale
from experiments.firm._systems import BatchConfig, ClientsConfig, ConflictConfig
from experiments.firm._training import trained
from linsys import InputError
from mgda.actor_critic import ActorCritic, Memory
from mgda.federated import Federated
from mgda.firm import FIRM
from mgda.momdp import MOMDP
from mgda.trajectories import Clients

#: Settings by name: an algorithm and the clients that it trains.
Arms = dict[str, tuple[Federated, Clients]]

#: The rewards' numbers and what they stand for, in the order of the objectives.
OBJECTIVES = {1: "helpfulness", 2: "harmlessness"}


@dataclass(frozen=True, eq=False)
class Learners(ActorCritic):
    """Actors whose critics know the values of the uniform policy before the first step."""

    def init(self) -> Memory:
        """Chains in their first state, critics at the fixed point for theta = 0."""
        theta = np.zeros((self.replicates, len(self.clients), self.clients.model.d))
        return replace(self, N=None)._learn(self.clients.policies(theta), super().init())


@dataclass(frozen=True, kw_only=True)
class AlignmentConfig(ConflictConfig, ClientsConfig, BatchConfig):
    """A training run."""

    instances: int = rc.param(20, low=3)
    replicates: int = 8
    sampling: str = rc.param(
        "restarted",
        doc=(
            '"restarted" has the mean (1 - gamma) grad J; "markov" and "stationary" have '
            "the paper's, the direction Delta of the stationary law."
        ),
    )
    rounds: int = rc.param(16, low=4, doc="aggregations.")
    K: int = rc.param(3, low=1, doc="local steps between two aggregations.")
    alpha: float = rc.param(10.0, above=0.0, doc="step size.")
    N: int = rc.param(5, low=1, doc="critic iterations before a gradient.")
    D: int = rc.param(16, low=1, doc="transitions of a critic iteration.")
    critic_step: float = rc.param(0.5, above=0.0, doc="step size of the critics.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objectives != 2:
            raise InputError(f"`objectives` must be 2 in the figures; found {self.objectives}")

    @property
    def steps(self) -> NDArray[np.int64]:
        """All local steps t."""
        return np.arange(self.rounds * self.K + 1)

    @property
    def ends(self) -> NDArray[np.int64]:
        """The steps right after an aggregation, and the start."""
        return self.steps[:: self.K]

    def train(
        self,
        algorithm: Federated,
        clients: Clients,
        instance: int,
        times: NDArray[np.int64],
    ) -> tuple[Values, Values]:
        """Rewards (replicates, times, 2) and the clients' lambda^1, (replicates, times, C)."""
        known = self.oracle(
            clients, instance, B=self.B, replicates=self.replicates, sampling=self.sampling
        )
        learnt = {"N": self.N, "D": self.D, "step": self.critic_step}
        radius = np.sqrt(self.states) / (1.0 - self.gamma)
        oracle = Learners(**{**vars(known), **learnt, "radius": radius})
        returns, weights = trained(algorithm, oracle, times)
        rewards = (1.0 - self.gamma) * returns
        return rewards.swapaxes(0, 1), weights[..., 0].swapaxes(0, 1)

    def columns(
        self, arms: Arms, instance: int, times: NDArray[np.int64], **constants: float
    ) -> dict[str, rc.Column]:
        """Train every setting ("arm") of an instance; one row per arm, replicate and time.

        ``reward_1`` and ``reward_2``; ``weight`` is lambda^1 averaged over the clients, that of
        objective 2 being one minus it; ``spread`` the standard deviation of the clients' lambda^1.
        """
        trained = [self.train(*arm, instance, times) for arm in arms.values()]
        rewards, weights = zip(*trained, strict=True)
        return rc.long_table(
            {"arm": list(arms), "replicate": np.arange(self.replicates), "t": times},
            reward_1=np.stack(rewards)[..., 0],
            reward_2=np.stack(rewards)[..., 1],
            weight=np.stack([w.mean(axis=-1) for w in weights]),
            spread=np.stack([w.std(axis=-1) for w in weights]),
            **constants,
        )


@dataclass(frozen=True, kw_only=True)
class RegularisedConfig(AlignmentConfig):
    """A training run of FIRM with beta."""

    beta: float = rc.param(0.01, low=0.0, doc="regularisation of the weights.")

    def firm(self, beta: float | None = None) -> FIRM:
        """FIRM as the paper's experiments run it."""
        return FIRM(alpha=self.alpha, K=self.K, beta=self.beta if beta is None else beta)


def optimum(momdp: MOMDP, weights: ArrayLike) -> Values:
    """Normalised returns (M,) of a policy that maximises weights'J, by policy iteration.

    >>> two = MOMDP(P=np.ones((1, 2, 1)), r=np.array([[[1.0, 0.0], [0.0, 0.5]]]), gamma=0.5)
    >>> optimum(two, (0.2, 0.8)).tolist()
    [0.0, 0.5]
    """
    states = np.arange(momdp.n_states)
    scalar = momdp.mean_r @ np.asarray(weights)
    policy = scalar.argmax(axis=1)
    while True:
        bellman = np.eye(momdp.n_states) - momdp.gamma * momdp.P[states, policy]
        V = np.linalg.solve(bellman, momdp.mean_r[states, policy])
        Q = scalar + momdp.gamma * momdp.P @ (V @ np.asarray(weights))
        better = Q.argmax(axis=1)
        # actions whose values differ by rounding alone would otherwise alternate without end
        better = np.where(Q.max(axis=1) > Q[states, policy] + 1e-12, better, policy)
        if (better == policy).all():
            return np.asarray((1.0 - momdp.gamma) * momdp.start @ V)
        policy = better


def gain_ratio(table: rc.Table, ours: str, theirs: str) -> Values:
    """The mean gain of ``ours`` over that of ``theirs``, (instances,).

    That is one more than their difference in units of :func:`scale`, also where ``theirs`` loses:
    the plain quotient would be the larger there, the more ``ours`` loses.
    """
    lost = 1.0 - np.sign(mean_gain(table, theirs))
    return np.asarray(mean_gain(table, ours) / scale(table, theirs) + lost)


#: Columns that are shown for one process, and the titles of their panels.
PANELS = {
    "weight": "mean weight of helpfulness",
    "spread": "spread of the clients' weights",
    "reward_1": "helpfulness reward",
    "reward_2": "harmlessness reward",
}


def curves_of_first(
    config: AlignmentConfig, table: rc.Table, arms: Iterable[str], columns: Iterable[str] = PANELS
) -> list[rc.Series]:
    """Columns of the first instance against rounds: means over runs with 90 % bands."""
    first = table.where(instance=0)
    rounds = first.unique("t") / config.K
    return [
        rc.Series(arm, PANELS[column], rounds, *rc.mean_band(part.grid(column, "replicate", "t")))
        for column in columns
        for arm in arms
        for part in (first.where(arm=arm),)
    ]
