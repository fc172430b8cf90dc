"""Out-of-distribution preference learning by bilevel programming, on finite prompts and answers.

===================================  =============================================================
:mod:`linsys.bilevel.policies`       exponential families, and every constant of -log pi on a ball
:mod:`linsys.bilevel.rewards`        linear and smooth non-linear rewards, with their constants
:mod:`linsys.bilevel.domains`        prompts, answers, a sampling distribution and preferences
:mod:`linsys.bilevel.synthetic`      a distribution of random domains, with knobs for their shift
:mod:`linsys.bilevel.oracle`         gradients and products of both losses, as algorithms see them
:mod:`linsys.bilevel.inner`          D steps of fine-tuning with their path, and the exact optimum
:mod:`linsys.bilevel.hypergradient`  derivatives of the outer loss through the inner steps
:mod:`linsys.bilevel.kernels`        compiled bodies of the inner loop and of its adjoint
:mod:`linsys.bilevel.meta`           Algorithms 1 and 2: learn a reward over domains, then use it
:mod:`linsys.bilevel.metrics`        PL accuracy, win rates, rewards and L(phi), exactly
:mod:`linsys.bilevel.baselines`      SFT, reward models, DPO, HPL
:mod:`linsys.bilevel.reinforcement`  RLHF, by exact policy gradients or by PPO
===================================  =============================================================
"""

from linsys.bilevel.baselines import dpo, hpl, reward_mle, sft
from linsys.bilevel.domains import (
    Domain,
    DomainData,
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
from linsys.bilevel.meta import Adapted, MetaTraining, OracleSource, Report, Start, State, meta_test
from linsys.bilevel.metrics import (
    MetaLoss,
    Scored,
    answer_law,
    expected_reward,
    meta_loss,
    pl_accuracy,
    policy_kl,
    target,
    win_rate,
)
from linsys.bilevel.oracle import DomainOracle, Oracle
from linsys.bilevel.policies import ExponentialPolicy, PolicyConstants
from linsys.bilevel.reinforcement import policy_gradient, ppo, rlhf
from linsys.bilevel.rewards import LinearReward, Reward, RewardConstants, TanhReward
from linsys.bilevel.synthetic import MetaDistribution, meta_distribution

__all__ = [
    "Adapted",
    "Domain",
    "DomainData",
    "DomainOracle",
    "ExponentialPolicy",
    "LinearReward",
    "MetaDistribution",
    "MetaLoss",
    "MetaTraining",
    "Oracle",
    "OracleSource",
    "Path",
    "PolicyConstants",
    "Preferences",
    "Report",
    "Reward",
    "RewardConstants",
    "Scored",
    "Start",
    "State",
    "TanhReward",
    "adjoint",
    "answer_law",
    "bradley_terry",
    "descend",
    "dpo",
    "expected_reward",
    "first_order",
    "hpl",
    "implicit",
    "meta_distribution",
    "meta_loss",
    "meta_test",
    "optimum",
    "optimum_sensitivity",
    "path_sensitivity",
    "pl_accuracy",
    "policy_gradient",
    "policy_kl",
    "ppo",
    "reward_mle",
    "rlhf",
    "sampled_preferences",
    "sft",
    "target",
    "unrolled",
    "win_rate",
]
