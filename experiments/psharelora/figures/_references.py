"""Decision processes whose users compare what a reference policy does, and the levels of (3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

import ratecheck as rc
from linsys.preference.bracketing import bound as log_bracketing
from linsys.preference.confidence import ConfidenceSet, error_terms, zeta
from linsys.preference.instances import shared_users
from linsys.preference.mdp import DecisionTree
from linsys.preference.pessimism import pessimistic_policy
from linsys.preference.subspace import diversity
from linsys.preference.systems import PreferenceSystem
from linsys.validate import Array, check_integer

__all__ = ["Case", "Coverage", "ProcessConfig", "case", "printed"]

#: The reference policy: uniform, or mixed with the best or the worst policy of the first user.
Coverage = Literal["uniform", "expert", "avoids"]
#: The share of the uniform policy in the two mixtures.
EXPLORE = 0.1
#: The probability with which the confidence levels may fail.
DELTA = 0.1


@dataclass(frozen=True, kw_only=True)
class ProcessConfig(rc.Config):
    """Random processes and users."""

    states: int = rc.param(3, low=2, doc="of the process.")
    actions: int = rc.param(3, low=2, doc="of the process.")
    horizon: int = rc.param(2, low=1, doc="steps of a trajectory.")
    users: int = rc.param(4, low=1, doc="N.")
    d1: int = rc.param(4, low=1, doc="rows of Delta_i and of features.")
    d2: int = rc.param(2, low=1, doc="columns of Delta_i and of features.")
    k: int = rc.param(1, doc="rank of the shared factor.")
    nu: float = rc.param(1.0, above=0.0, doc="sigma_k^2 / N.")
    tail: float = rc.param(0.05, low=0.0, doc="Sigma_tail / N.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("k", self.k, low=1, high=min(self.d1, self.d2))


class Case(NamedTuple):
    """One instance under one reference policy.

    Attributes:
        tree, system: the process; the users, who compare what the reference does.
        law: of the reference's trajectory, (T,).
        root: of the Gram matrix of differences of features, (D, D).
    """

    tree: DecisionTree
    system: PreferenceSystem
    law: Array
    root: Array

    def policy_gap(self, plan: Array) -> float:
        """J of the best policy less that of a plan, for the first user."""
        reward = self.system.rewards()[0]
        return self.tree.J(self.tree.best(reward), reward) - self.tree.J(plan, reward)

    def pessimistic(self, Theta_hat: Array, level: float, *, shaped: bool = False) -> Array:
        """The plan for the first user from a ball around the estimate (d1, d2), or the shaped set.

        With u = G^1/2 vec(Theta) the shaped set is a ball too, for features G^-1/2 vec(psi).
        """
        psi, centre = self.system.psi, Theta_hat
        if shaped:
            flat = psi.reshape(self.tree.T, -1)
            psi = np.asarray(np.linalg.solve(self.root, flat.T).T[..., None])
            centre = (self.root @ Theta_hat.ravel())[:, None]
        return pessimistic_policy(self.tree, psi, ConfidenceSet(centre, level), self.law).plan


def case(config: ProcessConfig, coverage: Coverage, instance: int) -> Case:
    """The process and the users are those of the instance, whatever the coverage."""
    rng = np.random.default_rng(config.derive("instance", instance))
    S, A, N = config.states, config.actions, config.users
    tree = DecisionTree(rng.dirichlet(np.ones(S), size=(S, A)), np.ones(S) / S, config.horizon)
    psi = tree.sum_of_features(rng.normal(size=(S, A, config.d1, config.d2)))
    Delta = shared_users(
        N, config.d1, config.d2, config.k, config.nu, N * config.tail, rng, unequal=1.0
    )
    policy: Array = tree.uniform()
    if coverage != "uniform":
        reward = np.tensordot(psi, Delta[0])
        known = tree.best(reward if coverage == "expert" else -reward)
        policy = EXPLORE * policy + (1.0 - EXPLORE) * tree.policy(known)
    law = tree.probabilities(tree.plan(policy))
    weights = np.outer(law, law)
    np.fill_diagonal(weights, 0.0)
    system = PreferenceSystem(psi, np.zeros(psi.shape[1:]), Delta, weights=weights)
    values, vectors = np.linalg.eigh(system.coverage().gram)
    return Case(tree, system, law, (vectors * np.sqrt(values)) @ vectors.T)


def printed(
    config: ProcessConfig, system: PreferenceSystem, N_p: int, B: float, form: str, b: str
) -> float:
    """zeta of the paper with c = 1, from numbers that only an experiment knows."""
    N, k = config.users, config.k
    size = log_bracketing(
        "shared", N, config.d1, config.d2, k, B=B, L1=system.L1, epsilon=1.0 / (N * N_p)
    )
    terms = error_terms(diversity(system.Delta, k), k, config.d2, N_p, size, DELTA, b=b)
    return zeta(terms, 1.0, form=form)
