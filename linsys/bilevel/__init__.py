"""Out-of-distribution preference learning by bilevel programming, on finite prompts and answers.

==================================  ==============================================================
:mod:`linsys.bilevel.policies`      exponential families, and every constant of -log pi on a ball
:mod:`linsys.bilevel.rewards`       linear and smooth non-linear rewards, with their constants
:mod:`linsys.bilevel.domains`       prompts, answers, a sampling distribution and preferences
:mod:`linsys.bilevel.synthetic`     a distribution of random domains, with knobs for their shift
:mod:`linsys.bilevel.oracle`        gradients and products of both losses, as algorithms see them
:mod:`linsys.bilevel.inner`         D steps of fine-tuning with their path, and the exact optimum
:mod:`linsys.bilevel.hypergradient` derivatives of the outer loss through the inner steps
==================================  ==============================================================
"""

from linsys.bilevel.domains import (
    Domain,
    Preferences,
    bradley_terry,
    sampled_preferences,
)
from linsys.bilevel.hypergradient import (
    adjoint,
    first_order,
    implicit,
    optimum_sensitivity,
    path_sensitivity,
    unrolled,
)
from linsys.bilevel.inner import Path, descend, optimum
from linsys.bilevel.oracle import DomainOracle, Oracle
from linsys.bilevel.policies import ExponentialPolicy, PolicyConstants
from linsys.bilevel.rewards import LinearReward, Reward, RewardConstants, TanhReward
from linsys.bilevel.synthetic import MetaDistribution, meta_distribution

__all__ = [
    "Domain",
    "DomainOracle",
    "ExponentialPolicy",
    "LinearReward",
    "MetaDistribution",
    "Oracle",
    "Path",
    "PolicyConstants",
    "Preferences",
    "Reward",
    "RewardConstants",
    "TanhReward",
    "adjoint",
    "bradley_terry",
    "descend",
    "first_order",
    "implicit",
    "meta_distribution",
    "optimum",
    "optimum_sensitivity",
    "path_sensitivity",
    "sampled_preferences",
    "unrolled",
]
