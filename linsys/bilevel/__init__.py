"""Out-of-distribution preference learning by bilevel programming, on finite prompts and answers.

==================================  ==============================================================
:mod:`linsys.bilevel.policies`      exponential families, and every constant of -log pi on a ball
:mod:`linsys.bilevel.rewards`       linear and smooth non-linear rewards, with their constants
:mod:`linsys.bilevel.domains`       prompts, answers and preferences; a distribution of domains
:mod:`linsys.bilevel.oracle`        gradients and products of both losses, as algorithms see them
==================================  ==============================================================
"""

from linsys.bilevel.domains import (
    Domain,
    MetaDistribution,
    Preferences,
    bradley_terry,
    meta_distribution,
    sampled_preferences,
)
from linsys.bilevel.oracle import DomainOracle, Oracle
from linsys.bilevel.policies import ExponentialPolicy, PolicyConstants
from linsys.bilevel.rewards import LinearReward, Reward, RewardConstants, TanhReward

__all__ = [
    "Domain",
    "DomainOracle",
    "ExponentialPolicy",
    "LinearReward",
    "MetaDistribution",
    "Oracle",
    "PolicyConstants",
    "Preferences",
    "Reward",
    "RewardConstants",
    "TanhReward",
    "bradley_terry",
    "meta_distribution",
    "sampled_preferences",
]
