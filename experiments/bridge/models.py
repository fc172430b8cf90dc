"""Which model an experiment has, the adapters on it, and the step size of every arm.

*Model.* A folder of the user's, or the built-in byte-level model in a small size. It is frozen;
adapters are those of :mod:`lora_bridge.bank`.

*Step sizes.* Every arm of a comparison has its own: the best of a few in test loss on draws that
are used for nothing else (of a user's file: other splits of it).

*Seeds.* One of ``seeds`` is one draw of samples, clients, sketches and first modules; the model is
the same. Differences are formed within a seed, 95 % intervals (Student) are over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from linsys import InputError

Values = NDArray[np.float64]
_C = TypeVar("_C", bound="ScaledConfig")


@dataclass(frozen=True, kw_only=True)
class ScaledConfig(rc.Config):
    """A configuration that can be made smaller, to fit into a time."""

    #: Parameters the number of rounds and of draws are proportional to.
    in_proportion: ClassVar[Mapping[str, Sequence[str]]] = {
        "rounds": ("rounds",),
        "draws": ("seeds",),
    }

    def scaled(self, rounds: float, draws: float) -> Self:
        """This configuration with shares of its rounds and draws, or with the least it can have."""
        smaller = self
        for kind, share in (("rounds", rounds), ("draws", draws)):
            for name in self.in_proportion[kind] if share < 1 else ():
                smaller = _lowered(smaller, name, share * getattr(self, name))
        return smaller

    def share_of(self, whole: Self, kind: str) -> float:
        """The rounds or draws of this configuration over those of another one."""
        names = self.in_proportion[kind]
        ratios = [float(getattr(self, name)) / float(getattr(whole, name)) for name in names]
        return float(np.mean(ratios)) if ratios else 1.0


def _lowered(config: _C, name: str, wanted: float) -> _C:
    """With a parameter of about this value, or the next larger one that it can have."""
    whole = getattr(config, name)
    first = round(wanted) if isinstance(whole, int) else wanted
    for value in (first + i for i in range(int(whole - first) + 1)):
        try:
            return replace(config, **cast(dict[str, Any], {name: value}))
        except InputError:
            continue
    return config


@dataclass(frozen=True, kw_only=True)
class ModelConfig(ScaledConfig):
    """The model, its adapters and how they are trained."""

    not_in_key: ClassVar[frozenset[str]] = frozenset({"chunk", "checkpoint", "cards"})

    model: Path | None = rc.param(
        None,
        doc="folder of a model; None: the built-in one, which learns from the prompts of data.",
    )
    data: Path | None = rc.param(
        None,
        doc="a file of the user's, for questions also a folder of files; None: generated words.",
    )
    prompt: str = rc.param(
        "auto",
        doc="form of the prompts: chat (the model's chat template), plain, a Jinja template that "
        "reads prompt or messages, or auto: the model's own, if it has one.",
    )
    hidden: int = rc.param(32, low=1, doc="width of the built-in model.")
    targets: tuple[str, ...] = rc.param(
        ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"),
        doc="names of the adapted modules.",
    )
    layers: int | None = rc.param(
        None, low=1, doc="only the modules of so many last layers are adapted; None: of all."
    )
    rank: int = rc.param(16, low=1, doc="r of the global modules.")
    scaling: float = rc.param(1.0, doc="factor of B A.")
    dropout: float = rc.param(0.0, doc="of the adapters' inputs in training.")
    seeds: int = rc.param(3, low=2, doc="draws for the comparison.")
    batch: int = rc.param(4, low=1, doc="samples of a step.")
    tests: int = rc.param(40, low=1, doc="held-out samples of every domain or user.")
    max_length: int = rc.param(
        512, doc="tokens of a sample; the beginning of a longer prompt is cut."
    )
    chunk: int | None = rc.param(
        None, doc="clients that go through the model together; None for all."
    )
    checkpoint: bool = rc.param(
        False, doc="keep less memory for gradients, for a third more time: layers compute twice."
    )
    dtype: Literal["float32", "float64", "bfloat16"] = rc.param(
        "float32", doc="of the model; adapters are float32, or float64 with it."
    )
    device: str = rc.param("cpu", doc='"cpu" or "cuda".')
    cards: int = rc.param(
        1, low=1, doc="graphics cards that divide the clients, or processes on a processor."
    )


@dataclass(frozen=True, kw_only=True)
class FederatedConfig(ModelConfig):
    """Clients with losses of their own."""

    on_nan: Literal["skip", "stop"] = rc.param(
        "skip",
        doc=(
            'what to do with a client whose loss or gradient is not finite: "skip" it, so '
            'that a step size may be tried that is too large, or "stop".'
        ),
    )


@dataclass(frozen=True, kw_only=True)
class TunedConfig(ModelConfig):
    """Training at the best of several step sizes."""

    gammas: tuple[float, ...] = rc.param((0.004, 0.01), above=0.0, doc="step sizes to choose from.")
    tuning: int = rc.param(
        1, low=1, doc="further draws, on which a step size is chosen where there are several."
    )

    def best(self, score: Callable[[float, int], float]) -> float:
        """The step size with the least mean score (step size, draw); the first one of equals."""
        if len(self.gammas) == 1:
            return self.gammas[0]
        means = [np.mean([score(g, k) for k in range(self.tuning)]) for g in self.gammas]
        if not np.isfinite(means).any():
            raise InputError(
                f"`gammas` must hold one that trains; found that {self.gammas} diverge"
            )
        return self.gammas[int(np.nanargmin(means))]


@contextmanager
def threads(context: rc.Context) -> Iterator[None]:
    """PyTorch with the threads of a context, whose watch is told of all runs.

    Where memory ends it says what to lower.
    """
    import torch

    from lora_bridge.failures import memory_explained
    from lora_bridge.runs import watched

    before = torch.get_num_threads()
    torch.set_num_threads(context.threads)
    try:
        with watched(context.watch), memory_explained():
            yield
    finally:
        torch.set_num_threads(before)
