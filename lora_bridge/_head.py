"""A language model's head where it is needed alone: at the tokens before those that are scored.

Of a prompt with its answer only the answer is scored, so that the product with the vocabulary, a
quarter of the work of many models, need not be made at the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["at_places", "computed_at", "head_of", "target_places"]


def target_places(mask: Tensor) -> Tensor:
    """Where the tokens that ``mask`` (..., T) marks are predicted, in order: (..., K), then -1.

    K is the most of any sequence. The first token of a sequence is predicted nowhere.

    >>> target_places(torch.tensor([[0, 0, 1, 1], [0, 1, 0, 0]]))
    tensor([[ 1,  2],
            [ 0, -1]])
    """
    marked = mask[..., 1:] == 1
    counts = marked.sum(-1, keepdim=True)
    most = max(1, int(counts.max()))
    order = marked.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :most]
    return order.where(torch.arange(order.shape[-1], device=mask.device) < counts, -1)


def at_places(values: Tensor, places: Tensor) -> Tensor:
    """``values`` (sequences, T, h) at ``places``: (sequences, K, h); the first ones for -1."""
    chosen = places.reshape(len(values), -1, 1).clamp(min=0)
    return values.gather(1, chosen.expand(-1, -1, values.shape[-1]))


def head_of(model: nn.Module) -> nn.Module | None:
    """What makes logits over a vocabulary of hidden states, or None."""
    find = getattr(model, "get_output_embeddings", None)
    return find() if callable(find) else None


@contextmanager
def computed_at(head: nn.Module, places: Tensor) -> Iterator[list[Tensor]]:
    """The head sees hidden states at ``places`` alone; they are put into the list."""
    seen: list[Tensor] = []

    def choose(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        seen.append(at_places(inputs[0], places))
        return (seen[-1], *inputs[1:])

    handle = head.register_forward_pre_hook(choose)
    try:
        yield seen
    finally:
        handle.remove()
