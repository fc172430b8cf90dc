"""Batches of several clients: what they are, and their axes as a model wants them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from torch import Tensor

from linsys.validate import InputError
from lora_bridge._checks import described, tensors

__all__ = ["INPUTS", "Batch", "Loss"]

#: Tensors with leading axes (clients, samples): the model's inputs, and what the loss needs. A
#: sample of several sequences, such as a pair, has inputs (clients, samples, sequences, tokens).
Batch = Mapping[str, Tensor]
#: From (the model's output, the batch) to a loss of every sample: shape (clients x samples,), or
#: (clients x samples, M) for M objectives. Clients, samples and the sequences of inputs share one
#: axis there.
Loss = Callable[[Any, Batch], Tensor]
#: The parts of a batch that the model sees.
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


def part_of_scale(scale: float | Tensor, part: slice | Tensor) -> float | Tensor:
    """The scale of some clients, where each has its own."""
    return scale[part] if isinstance(scale, Tensor) else scale


def check_fit(batch: Batch, scale: float | Tensor, N: int | None = None) -> None:
    """Check that a batch and its factors are for N clients, by default as many as it has.

    Raises:
        InputError: they are not; says which one, and how.
    """
    tensors("batch", batch)
    N = len(next(iter(batch.values()))) if N is None else N
    for name, value in batch.items():
        if value.ndim < 2 or len(value) != N or value.shape[1] == 0:
            raise InputError(
                f"`{name}` must have leading axes (clients, samples) with {N} clients and "
                f"at least one sample; found shape {tuple(value.shape)}"
            )
    if not isinstance(scale, Tensor | Real) or (isinstance(scale, Tensor) and scale.shape != (N,)):
        raise InputError(
            f"`scale` must be one number, or a tensor of one for each of {N} clients; "
            f"found {described(scale)}"
        )


def evaluated(function: Loss, output: Any, flat: Batch, samples: int) -> Tensor:
    """The values of a function for every sample.

    Raises:
        InputError: it reads what the batch lacks, or gives no value per sample.
    """
    try:
        values = function(output, flat)
    except KeyError as error:
        (name, *_) = error.args or (None,)
        if not isinstance(name, str) or name in flat:  # a KeyError of something else
            raise
        raise InputError(
            f"`batch` must have {name}, which the loss reads; found {', '.join(flat)}"
        ) from error
    if not isinstance(values, Tensor) or values.shape[:1] != (samples,):
        raise InputError(
            f"`loss` must give a tensor with a value for each of {samples} samples; "
            f"found {described(values)}"
        )
    return values
