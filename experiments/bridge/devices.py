"""Devices with questions, a mix of domains each, and how well modules answer the tests.

Questions, see ``questions``, are dealt out by Dirichlet shares of every domain; those of one
domain are dealt out by their answers. The output matrix is adapted with the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.bridge.models import FederatedConfig, TunedConfig, Values
from experiments.bridge.questions import dealt_by, pools
from experiments.bridge.setup import Setup, divided, kept
from linsys import InputError
from linsys.validate import check_number

if TYPE_CHECKING:
    from linsys.sketching.federated import State
    from lora_bridge.bank import AdapterBank
    from lora_bridge.oracles import Devices

#: The paper's sizes (Section 5 and Appendix B) for a real model on a GPU.
PAPER: Mapping[str, Any] = {
    "targets": ("q_proj", "k_proj", "v_proj", "up_proj", "down_proj"),
    "rank": 64,
    "devices": 20,
    "samples": 400,
    "tests": 300,
    "batch": 16,
    "local_steps": 20,
    "dropout": 0.1,
    "seeds": 5,
    "chunk": 4,
    "dtype": "bfloat16",
    "device": "cuda",
}
#: Sizes for a model of 10^8 parameters on two cores.
LAPTOP: Mapping[str, Any] = {
    "targets": ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"),
    "layers": 2,
    "rank": 8,
    "devices": 4,
    "samples": 64,
    "tests": 20,
    "local_steps": 2,
    "seeds": 3,
}
#: The same where methods are compared.
LAPTOP_GRID: Mapping[str, Any] = {**LAPTOP, "gammas": (1e-3, 3e-3)}
#: The paper's sizes where methods are compared.
PAPER_GRID: Mapping[str, Any] = {**PAPER, "gammas": (1e-4, 3e-4, 1e-3)}
#: Samples that are judged at a time.
_AT_ONCE = 128


@dataclass(frozen=True, kw_only=True)
class DeviceConfig(FederatedConfig):
    """Devices with questions."""

    targets: tuple[str, ...] = (
        *("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"),
        "lm_head",
    )
    devices: int = rc.param(8, low=1, doc="N.")
    samples: int = rc.param(
        128, low=1, doc="mean number of questions of a device; fewer where a file has no more."
    )
    concentration: float = rc.param(
        0.5, above=0.0, doc="of the Dirichlet shares; small for devices of one domain each."
    )
    local_steps: int = rc.param(5, low=1, doc="H.")

    def rank_of(self, ratio: float) -> int:
        """k of a ratio k / r.

        Raises:
            InputError: for a ratio that gives no whole rank.
        """
        k = round(check_number("k / r", ratio, low=0.0, high=1.0, low_open=True) * self.rank)
        if k < 1 or abs(k - ratio * self.rank) > 1e-9:
            raise InputError(f"k must be whole ranks; found {ratio:g} of rank = {self.rank}")
        return k


@dataclass(frozen=True, kw_only=True)
class RatiosConfig(DeviceConfig):
    """Devices with sketches of different ranks."""

    ratios: tuple[float, ...] = rc.param(
        (0.125, 0.25, 0.5, 0.75), doc="k_i / r, dealt out to the devices in turn."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ranks()

    def ranks(self) -> list[int]:
        """k_i of every device."""
        if not self.ratios:
            raise InputError("`ratios` must hold at least one ratio; found none")
        ranks = [self.rank_of(ratio) for ratio in self.ratios]
        return [ranks[i % len(ranks)] for i in range(self.devices)]


@dataclass(frozen=True, kw_only=True)
class ComparedConfig(DeviceConfig, TunedConfig):
    """Devices on which methods are compared, each at its best step size."""


@dataclass(frozen=True, eq=False)
class Draw:
    """Devices with their samples, and the tests of every domain.

    Attributes:
        oracle: the devices.
        tests: domain to what :func:`lora_bridge.tokens.encode_choices` makes of its questions with
            two choices, with three, and so on.
        name: of model and data.
    """

    oracle: Devices
    tests: Mapping[str, Sequence[Mapping[str, Any]]]
    name: str

    def judge(self, state: State) -> Values:
        """Cross-entropy of the answer and accuracy among the choices, (domains, 2)."""
        bank = state.merged_into(self.oracle).task.bank
        return np.array([_mean(bank, state.X, test) for test in self.tests.values()])


class DeviceSetup(Setup):
    """The model of devices, and draws of them."""

    config: DeviceConfig

    @kept(8)
    def draw(self, use: str, k: int) -> Draw:
        """Draw number k for "test" or "tuning"."""
        from lora_bridge.losses import answer_loss
        from lora_bridge.oracles import Devices
        from lora_bridge.splits import by_key, dirichlet
        from lora_bridge.tasks import Task
        from lora_bridge.tokens import encode_choices, encode_examples

        config, seed = self.config, self.config.derive("draw", use, k)
        train, tests = pools(config.data, config.devices * config.samples, config.tests, seed)
        if len(train) < config.devices:
            raise InputError(
                f"`data` must have a question for each of devices = {config.devices} beside the "
                f"tests; found {len(train)}"
            )
        shares = dirichlet(train, config.devices, dealt_by(train), config.concentration, seed)
        dealt = self.encoded(encode_examples, [e for share in shares for e in share])
        shards = divided(dealt, map(len, shares))
        task = Task(self.bank(), shards, answer_loss, config.batch, seed, config.on_nan)
        encoded = {
            domain: [
                self.encoded(encode_choices, group)
                for group in by_key(test, lambda e: str(len(e.choices))).values()
            ]
            for domain, test in tests.items()
        }
        samples = dealt, *chain.from_iterable(encoded.values())
        return Draw(Devices(task), encoded, self.described("generated questions", *samples))


def _judged(output: Any, batch: Mapping[str, Any]) -> Any:
    """-log-likelihood of the right choice and whether it is the likeliest, per token."""
    import torch

    from lora_bridge.losses import log_likelihood

    answer = batch["answer"]
    choices = log_likelihood(output, batch, normalized=True).reshape(len(answer), -1)
    right = choices.gather(1, answer[:, None])[:, 0]
    return torch.stack([-right, (choices.argmax(1) == answer).to(right.dtype)], dim=1)


def _mean(bank: AdapterBank, X: Any, test: Sequence[Mapping[str, Any]]) -> Values:
    total, size = np.zeros(2), 0
    for group in test:
        for start in range(0, len(group["answer"]), _AT_ONCE):
            part = {n: v[None, start : start + _AT_ONCE].to(bank.device) for n, v in group.items()}
            values = bank.losses(X[None], part, _judged)[0]
            total += values.double().cpu().numpy() * part["answer"].shape[1]
            size += part["answer"].shape[1]
    return total / size
