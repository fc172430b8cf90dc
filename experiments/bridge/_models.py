"""The frozen model of an experiment, the adapters on it, and the step size of every arm.

*Model.* A folder of the user's, or the built-in byte-level model in a small size. It is frozen;
adapters are those of :mod:`lora_bridge.bank`.

*Step sizes.* Every arm of a comparison has its own: the best of a few in test loss on draws that
are used for nothing else (of a user's file: other splits of it).

*Seeds.* One of ``seeds`` is one draw of samples, clients, sketches and first modules; the model is
the same. Differences are formed within a seed, 95 % intervals (Student) are over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from linsys import InputError
from linsys.validate import check_integer, check_number

if TYPE_CHECKING:
    from lora_bridge.bank import AdapterBank
    from lora_bridge.models import Loaded

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ModelConfig(rc.Config):
    """The model, its adapters and how they are trained.

    Attributes:
        model: folder of a model; None: the built-in one, which learns from the prompts of data.
        data: a file of the user's, for questions also a folder of files; None: generated words.
        hidden: width of the built-in model.
        targets: names of the adapted modules.
        rank: r of the global modules.
        scaling: factor of B A.
        dropout: of the adapters' inputs in training.
        seeds: draws for the comparison.
        batch: samples of a step.
        tests: held-out samples of every domain or user.
        max_length: tokens of a sample; the beginning of a longer prompt is cut.
        chunk: clients that go through the model together; None for all.
        dtype: of the model; adapters are float32, or float64 with it.
        device: "cpu" or "cuda".
    """

    not_in_key: ClassVar[frozenset[str]] = frozenset({"chunk"})
    #: How the model attends; "eager" where second derivatives are wanted.
    attention: ClassVar[str] = "sdpa"

    model: Path | None = None
    data: Path | None = None
    hidden: int = 32
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj")
    rank: int = 16
    scaling: float = 1.0
    dropout: float = 0.0
    seeds: int = 3
    batch: int = 4
    tests: int = 40
    max_length: int = 512
    chunk: int | None = None
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hidden", "rank", "batch", "tests"):
            check_integer(name, getattr(self, name), low=1)
        check_integer("seeds", self.seeds, low=2)

    def load(self, task: str) -> Loaded:
        """The model for a task, read once."""
        seed = self.derive("head") % 2**32
        made = self.model, self.data, self.hidden
        return _load(*made, task, self.dtype, self.device, self.attention, seed)

    def bank(self, loaded: Loaded, targets: Sequence[str]) -> AdapterBank:
        """Adapters on that model."""
        from lora_bridge.bank import AdapterBank

        return AdapterBank(
            loaded.model, targets, self.scaling, chunk=self.chunk, dropout=self.dropout
        )

    def tensor(self, X: Any) -> Any:
        """An array as adapters of the model."""
        import torch

        dtype = torch.float64 if self.dtype == "float64" else torch.float32
        return torch.as_tensor(X, dtype=dtype, device=self.device)


@dataclass(frozen=True, kw_only=True)
class FederatedConfig(ModelConfig):
    """Clients with losses of their own.

    Attributes:
        on_nan: what to do with a client whose loss or gradient is not finite: "skip" it, so that a
            step size may be tried that is too large, or "stop".
    """

    on_nan: Literal["skip", "stop"] = "skip"


@dataclass(frozen=True, kw_only=True)
class TunedConfig(ModelConfig):
    """Training at the best of several step sizes.

    Attributes:
        gammas: step sizes to choose from.
        tuning: further draws, on which a step size is chosen where there are several.
    """

    gammas: tuple[float, ...] = (0.004, 0.01)
    tuning: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("tuning", self.tuning, low=1)
        for gamma in self.gammas:
            check_number("gammas", gamma, low=0.0, low_open=True)
        if not self.gammas:
            raise InputError("`gammas` must hold at least one step size; found none")

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


@lru_cache(maxsize=1)
def _load(
    model: Path | None,
    data: Path | None,
    hidden: int,
    task: str,
    dtype: str,
    device: str,
    attention: str,
    seed: int,
) -> Loaded:
    import torch

    from lora_bridge.built_in import BuiltIn, built_in
    from lora_bridge.models import load_model
    from lora_bridge.prompts import prompt_texts

    folder = model or built_in(prompt_texts(data), BuiltIn(hidden=hidden))
    kind = getattr(torch, dtype)
    return load_model(folder, task, dtype=kind, device=device, attention=attention, seed=seed)


@contextmanager
def threads(context: rc.Context) -> Iterator[None]:
    """PyTorch with the threads of a context; where memory ends it says what to lower."""
    import torch

    from lora_bridge.failures import memory_explained

    before = torch.get_num_threads()
    torch.set_num_threads(context.threads)
    try:
        with memory_explained():
            yield
    finally:
        torch.set_num_threads(before)
