"""Batches of several clients: what they are, and their axes as a model wants them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

__all__ = ["INPUTS", "Batch", "Loss"]

#: Tensors with leading axes (clients, samples): the model's inputs, and what the loss needs. A
#: sample of several sequences, such as a pair, has inputs (clients, samples, sequences, tokens).
Batch = Mapping[str, Tensor]
#: (the model's output, the batch) to a loss of every sample: shape (clients x samples,), or
#: (clients x samples, M) for M objectives. Clients and samples, and the sequences of inputs, are
#: one axis then.
Loss = Callable[[Any, Batch], Tensor]
#: What of a batch the model sees.
INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")


def sizes(batch: Batch) -> tuple[int, int]:
    """Clients and samples."""
    N, b = next(iter(batch.values())).shape[:2]
    return N, b


def merged(value: Tensor) -> Tensor:
    """Clients and samples as one axis."""
    return value.flatten(0, 1)


def by_client(value: Tensor, N: int) -> Tensor:
    """Clients x samples as two axes again."""
    return value.reshape(N, -1, *value.shape[1:])


def flattened(batch: Batch) -> dict[str, Tensor]:
    """Clients, samples and the sequences of the model's inputs as one axis."""
    lead = batch["input_ids"].ndim - 1 if "input_ids" in batch else 2
    return {
        name: value.flatten(0, lead - 1) if name in INPUTS else merged(value)
        for name, value in batch.items()
    }


def inputs(batch: Batch) -> dict[str, Tensor]:
    """What the model is called with."""
    return {name: value for name, value in batch.items() if name in INPUTS}


def part_of_scale(scale: float | Tensor, part: slice) -> float | Tensor:
    """Of some clients, where each has its own."""
    return scale[part] if isinstance(scale, Tensor) else scale
