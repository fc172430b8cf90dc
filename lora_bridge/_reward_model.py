"""A model of a local folder that says what a response is worth."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from linsys.json_text import from_json
from linsys.validate import InputError, check_integer, check_path, shown
from lora_bridge.models import Loaded, load_model, longest

__all__ = ["RewardModel", "check_range"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RewardModel:
    """A sequence classification model with one output, which reads a prompt and its response.

    The tokenizer gets them as a pair and joins them in its own way. Where both are too long, the
    longer loses tokens at its beginning.

    Args:
        folder: of the model, as :func:`lora_bridge.models.load_model` takes it.
        low, high: the range of the output, where it has one.
        batch: texts at a time.
        max_length: tokens of a pair; at most, and by default, as many as the model takes.
        dtype: of the weights.
        device: where to put it.

    Raises:
        InputError: a folder with another kind of model (says which), or with none.
    """

    folder: Path | str
    low: float = -math.inf
    high: float = math.inf
    batch: int = 16
    max_length: int | None = None
    dtype: torch.dtype = torch.float32
    device: str | torch.device = "cpu"
    loaded: Loaded = field(init=False, repr=False)

    def __post_init__(self) -> None:
        folder = check_path("folder", self.folder).expanduser()
        check_range(self.name, self.low, self.high)
        check_integer("batch", self.batch, low=1)
        _check_kind(folder)
        loaded = load_model(folder, "reward", dtype=self.dtype, device=self.device)
        loaded.tokenizer.truncation_side = "left"
        object.__setattr__(self, "loaded", loaded)
        limit = longest(loaded.model)
        if self.max_length is None:
            object.__setattr__(self, "max_length", limit or 512)
        check_integer("max_length", self.max_length, low=1, high=limit)

    @property
    def name(self) -> str:
        """The folder's name."""
        return Path(self.folder).name

    @torch.no_grad()
    def __call__(self, prompts: Sequence[str], responses: Sequence[str]) -> Array:
        """Outputs for n texts, shape (n,)."""
        types = getattr(self.loaded.model.config, "type_vocab_size", 0) > 1
        values = []
        for start in range(0, len(prompts), self.batch):
            part = slice(start, start + self.batch)
            inputs = self.loaded.tokenizer(
                list(prompts[part]),
                list(responses[part]),
                padding=True,
                truncation=True,
                max_length=self.max_length,
                return_token_type_ids=types,
                return_tensors="pt",
            )
            if not bool(inputs["attention_mask"].any(1).all()):
                raise InputError(f"texts for reward {self.name} must not be empty; found ''")
            outputs = self.loaded.model(**inputs.to(self.device))
            values.append(outputs.logits[:, 0].double().cpu())
        return torch.cat(values).numpy()


def check_range(name: str, low: float, high: float) -> None:
    """Check that both ends are numbers, low below high; infinite where nothing is known."""
    for end, value in (("low", low), ("high", high)):
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise InputError(f"`{end}` of reward {name} must be a number; found {shown(value)}")
    if not low < high:
        raise InputError(f"reward {name} must have low < high; found [{low:g}, {high:g}]")


def _check_kind(folder: Path) -> None:
    """Check that the folder holds a sequence classification model with one output."""
    file = folder / "config.json"
    if not file.is_file():
        raise InputError(
            f"reward model must be a folder with a config.json; found none in {folder}"
        )
    try:
        config = from_json(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(
            f"reward model in {folder} must have a config.json that is JSON; found {error}"
        ) from None
    config = config if isinstance(config, dict) else {}
    kind = (config.get("architectures") or ["a model that does not say what it is"])[0]
    if kind.endswith("ForSequenceClassification"):
        outputs = len(config.get("id2label") or "01")  # two, the default, are not written down
        if outputs == 1:
            return
        kind = f"{kind} with {outputs}"
    raise InputError(
        f"reward model in {folder} must be a sequence classification model with one output; "
        f"found {kind}"
    )
