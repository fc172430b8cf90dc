"""The set-up that experiments of OOD-PL on language models share; they add what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ratecheck as rc
from linsys.validate import check_integer, check_number

#: Sizes for a real model on a GPU; alpha, beta and D as in the paper (Section 4.1).
PAPER: Mapping[str, Any] = {
    "targets": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "reward_targets": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "rank": 16,
    "reward_rank": 16,
    "prompts": 400,
    "tests": 100,
    "pairs": 1000,
    "alpha": 5e-5,
    "D": 50,
    "eta": 5e-3,
    "adapt": 200,
    "warmup": 400,
    "gamma": 1e-4,
    "dtype": "bfloat16",
    "device": "cuda",
}


@dataclass(frozen=True, kw_only=True)
class OODConfig(rc.Config):
    """The set-up.

    Attributes:
        model: folder of a model; None: the built-in one, which learns from the prompts of data.
        data: a file of questions or pairs with domains; None: generated ones.
        hidden: width of the built-in model.
        targets: adapted modules of the policy.
        reward_targets: adapted modules of the reward.
        rank: of the policy's adapter.
        reward_rank: of the reward's adapter.
        scaling: factor of B A in both adapters.
        bound: rewards lie between its negative and itself.
        domains: how many, one of them held out; of a file its first ones.
        prompts: of a domain, to train on.
        tests: prompts of a domain to be scored on.
        pairs: sampled preferences of a generated domain.
        own: share of a generated true reward that differs between the domains.
        strength: size of the generated true rewards.
        wrong: chance of wrong answers in a file's fine-tuning data.
        instances: draws of domains, preferences and starts.
        max_length: tokens of a prompt with its answer; the beginning of a longer prompt is cut.
        at_once: sequences that go through the model together.
        dtype: of the model and the adapters; "bfloat16" computes the model's products in it.
        device: "cpu" or "cuda".
    """

    model: Path | None = None
    data: Path | None = None
    hidden: int = 32
    targets: tuple[str, ...] = ("o_proj", "down_proj", "lm_head")
    reward_targets: tuple[str, ...] = ("q_proj", "v_proj", "o_proj", "down_proj")
    rank: int = 8
    reward_rank: int = 8
    scaling: float = 1.0
    bound: float = 2.0
    domains: int = 4
    prompts: int = 30
    tests: int = 20
    pairs: int = 100
    own: float = 0.2
    strength: float = 4.0
    wrong: float = 0.5
    instances: int = 4
    max_length: int = 512
    at_once: int = 128
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hidden", "rank", "reward_rank", "prompts", "tests", "pairs", "at_once"):
            check_integer(name, getattr(self, name), low=1)
        check_integer("domains", self.domains, low=2)
        check_integer("instances", self.instances, low=3)
        for name in ("scaling", "bound", "strength"):
            check_number(name, getattr(self, name), low=0.0, low_open=True)
        for name in ("own", "wrong"):
            check_number(name, getattr(self, name), low=0.0, high=1.0)


@dataclass(frozen=True, kw_only=True)
class OneBetaConfig(OODConfig):
    """The set-up where beta is given.

    Attributes:
        beta: factor of the reward of every method.
    """

    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta", self.beta, low=0.0, low_open=True)


@dataclass(frozen=True, kw_only=True)
class CurvesConfig(OODConfig):
    """The set-up where training is measured on its way.

    Attributes:
        alpha: size of an inner step, of Algorithm 2 too.
        D: inner steps of an outer one.
        inner_batch: samples of an inner step; None: all.
        eta: size of an outer step.
        K: outer steps.
        outer_batch: pairs of an outer step.
        adapt: steps of Algorithm 2.
        warmup: Adam's steps for SFT.
        gamma: size of Adam's steps, of PPO's too.
        batch: samples of a step of Adam.
        points: rounds at which a curve is measured, after the first.
    """

    alpha: float = 0.005
    D: int = 10
    inner_batch: int | None = 8
    eta: float = 0.1
    K: int = 40
    outer_batch: int = 16
    adapt: int = 20
    warmup: int = 120
    gamma: float = 0.01
    batch: int = 8
    points: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("D", "K", "outer_batch", "adapt", "warmup", "batch"):
            check_integer(name, getattr(self, name), low=1)
        if self.inner_batch is not None:
            check_integer("inner_batch", self.inner_batch, low=1)
        for name in ("alpha", "eta", "gamma"):
            check_number(name, getattr(self, name), low=0.0, low_open=True)
        check_integer("points", self.points, low=1, high=self.K)

    @property
    def times(self) -> list[int]:
        """Rounds that are measured, from 0 on."""
        return [round(self.K * i / self.points) for i in range(self.points + 1)]


@dataclass(frozen=True, kw_only=True)
class RivalsConfig(CurvesConfig, OneBetaConfig):
    """The set-up of a comparison with other methods.

    Attributes:
        steps: Adam's steps for DPO, HPL and the reward of maximum likelihood.
        rollouts: of PPO, each of ``batch`` new answers in every domain.
    """

    steps: int = 60
    rollouts: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "rollouts"):
            check_integer(name, getattr(self, name), low=1)
