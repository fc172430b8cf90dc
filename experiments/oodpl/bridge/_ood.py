"""The set-up that experiments of OOD-PL on language models share; they add what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import ratecheck as rc
from experiments.bridge.models import ScaledConfig

#: Sizes for a model of 10^8 parameters on two cores.
LAPTOP: Mapping[str, Any] = {
    "targets": ("o_proj", "down_proj"),
    "layers": 4,
    "domains": 3,
    "prompts": 12,
    "tests": 8,
    "pairs": 40,
    "instances": 3,
}
#: Training of these sizes.
LAPTOP_CURVES: Mapping[str, Any] = {
    **LAPTOP,
    "alpha": 1e-3,
    "D": 2,
    "inner_batch": 4,
    "K": 4,
    "outer_batch": 4,
    "adapt": 4,
    "warmup": 12,
    "gamma": 1e-3,
    "batch": 4,
    "points": 1,
}
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
class OODConfig(ScaledConfig):
    """The set-up."""

    in_proportion: ClassVar[Mapping[str, Sequence[str]]] = {"rounds": (), "draws": ("instances",)}

    model: Path | None = rc.param(
        None,
        doc="folder of a model; None: the built-in one, which learns from the prompts of data.",
    )
    data: Path | None = rc.param(
        None, doc="a file of questions or pairs with domains; None: generated ones."
    )
    prompt: str = rc.param(
        "auto",
        doc="form of the prompts: chat (the model's chat template), plain, a Jinja template that "
        "reads prompt or messages, or auto: the model's own, if it has one.",
    )
    hidden: int = rc.param(32, low=1, doc="width of the built-in model.")
    targets: tuple[str, ...] = rc.param(
        ("o_proj", "down_proj", "lm_head"), doc="adapted modules of the policy."
    )
    reward_targets: tuple[str, ...] = rc.param(
        ("q_proj", "v_proj", "o_proj", "down_proj"), doc="adapted modules of the reward."
    )
    layers: int | None = rc.param(
        None, low=1, doc="only the modules of so many last layers are adapted; None: of all."
    )
    rank: int = rc.param(8, low=1, doc="of the policy's adapter.")
    reward_rank: int = rc.param(8, low=1, doc="of the reward's adapter.")
    scaling: float = rc.param(1.0, above=0.0, doc="factor of B A in both adapters.")
    bound: float = rc.param(2.0, above=0.0, doc="rewards lie between its negative and itself.")
    domains: int = rc.param(
        4, low=2, doc="how many, one of them held out; of a file its first ones."
    )
    prompts: int = rc.param(30, low=1, doc="of a domain, to train on.")
    tests: int = rc.param(20, low=1, doc="prompts of a domain to be scored on.")
    pairs: int = rc.param(100, low=1, doc="sampled preferences of a generated domain.")
    own: float = rc.param(
        0.2,
        low=0.0,
        high=1.0,
        doc="share of a generated true reward that differs between the domains.",
    )
    strength: float = rc.param(4.0, above=0.0, doc="size of the generated true rewards.")
    wrong: float = rc.param(
        0.5, low=0.0, high=1.0, doc="chance of wrong answers in a file's fine-tuning data."
    )
    instances: int = rc.param(4, low=3, doc="draws of domains, preferences and starts.")
    max_length: int = rc.param(
        512, doc="tokens of a prompt with its answer; the beginning of a longer prompt is cut."
    )
    at_once: int = rc.param(128, low=1, doc="sequences that go through the model together.")
    dtype: Literal["float32", "float64", "bfloat16"] = rc.param(
        "float32",
        doc='of the model and the adapters; "bfloat16" computes the model\'s products in it.',
    )
    device: str = rc.param("cpu", doc='"cpu" or "cuda".')


@dataclass(frozen=True, kw_only=True)
class OneBetaConfig(OODConfig):
    """The set-up where beta is given."""

    beta: float = rc.param(1.0, above=0.0, doc="factor of the reward of every method.")


@dataclass(frozen=True, kw_only=True)
class CurvesConfig(OODConfig):
    """The set-up where training is measured on its way."""

    in_proportion: ClassVar[Mapping[str, Sequence[str]]] = {
        "rounds": ("K", "warmup"),
        "draws": ("instances",),
    }

    alpha: float = rc.param(0.005, above=0.0, doc="size of an inner step, of Algorithm 2 too.")
    D: int = rc.param(10, low=1, doc="inner steps of an outer one.")
    inner_batch: int | None = rc.param(8, low=1, doc="samples of an inner step; None: all.")
    eta: float = rc.param(0.1, above=0.0, doc="size of an outer step.")
    K: int = rc.param(40, low=1, doc="outer steps.")
    outer_batch: int = rc.param(16, low=1, doc="pairs of an outer step.")
    adapt: int = rc.param(20, low=1, doc="steps of Algorithm 2.")
    warmup: int = rc.param(120, low=1, doc="Adam's steps for SFT.")
    gamma: float = rc.param(0.01, above=0.0, doc="size of Adam's steps, of PPO's too.")
    batch: int = rc.param(8, low=1, doc="samples of a step of Adam.")
    points: int = rc.param(
        4, low=1, high="K", doc="rounds at which a curve is measured, after the first."
    )

    @property
    def times(self) -> list[int]:
        """Rounds that are measured, from 0 on."""
        return [round(self.K * i / self.points) for i in range(self.points + 1)]


@dataclass(frozen=True, kw_only=True)
class RivalsConfig(CurvesConfig, OneBetaConfig):
    """The set-up of a comparison with other methods."""

    in_proportion: ClassVar[Mapping[str, Sequence[str]]] = {
        "rounds": ("K", "warmup", "steps", "rollouts", "adapt"),
        "draws": ("instances",),
    }

    steps: int = rc.param(
        60, low=1, doc="Adam's steps for DPO, HPL and the reward of maximum likelihood."
    )
    rollouts: int = rc.param(
        20, low=1, doc="of PPO, each of ``batch`` new answers in every domain."
    )
