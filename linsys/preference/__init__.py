"""P-ShareLoRA: users who compare trajectories and share a factor of their reward models.

====================================  ============================================================
:mod:`linsys.preference.systems`      users, rewards, preferences: sampled, or exact as soft labels
:mod:`linsys.preference.comparisons`  what users said: differences of features, labels, weights
:mod:`linsys.preference.instances`    users and features with diversity, tail, coverage as asked
:mod:`linsys.preference.coverage`     what comparisons can tell about a reward, concentrability
:mod:`linsys.preference.subspace`     distances of column spaces, best rank-k matrix, diversity
:mod:`linsys.preference.likelihood`   the log-likelihood of all users and its derivatives
:mod:`linsys.preference.estimators`   maximum likelihood: shared factor, global, local, full
:mod:`linsys.preference.counts`       the shared factor from many data sets at a time
:mod:`linsys.preference.separability` users whose preferences have no maximum of the likelihood
:mod:`linsys.preference.sharelora`    P-ShareLoRA's stochastic algorithm and its rivals
:mod:`linsys.preference.oracle`       comparisons as what that algorithm asks
:mod:`linsys.preference.kernels`      compiled bodies of likelihood and estimators
:mod:`linsys.preference.mdp`          decision processes with policies that see the history
:mod:`linsys.preference.confidence`   sets of rewards around an estimate
:mod:`linsys.preference.pessimism`    policies that are best under the worst reward of such a set
====================================  ============================================================
"""

from linsys.preference.comparisons import Comparisons
from linsys.preference.confidence import ConfidenceSet
from linsys.preference.estimators import (
    Fit,
    fit_full,
    fit_global,
    fit_local,
    fit_representation,
    fit_shared,
)
from linsys.preference.mdp import DecisionTree
from linsys.preference.oracle import ComparisonOracle
from linsys.preference.pessimism import pessimistic_policy
from linsys.preference.sharelora import ShareLoRA
from linsys.preference.subspace import best_rank, distance, diversity
from linsys.preference.systems import PreferenceSystem

__all__ = [
    "ComparisonOracle",
    "Comparisons",
    "ConfidenceSet",
    "DecisionTree",
    "Fit",
    "PreferenceSystem",
    "ShareLoRA",
    "best_rank",
    "distance",
    "diversity",
    "fit_full",
    "fit_global",
    "fit_local",
    "fit_representation",
    "fit_shared",
    "pessimistic_policy",
]
