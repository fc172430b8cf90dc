"""How much memory a forward pass keeps for backward passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import torch
from torch import Tensor, nn

__all__ = ["kept_bytes"]


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Saved:
    """A tensor that a graph holds; it is freed with that part of the graph."""

    tensor: Tensor


def kept_bytes(model: nn.Module, forward: Callable[[], Any]) -> int:
    """The most bytes that autograd keeps at any time in ``forward``, without the model's own.

    >>> x = torch.ones(5, requires_grad=True)
    >>> kept_bytes(nn.Identity(), lambda: x.exp())
    20
    """
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    uses: Counter[int] = Counter()
    now = most = 0

    # An address identifies a storage only while it exists: a later one may get the same address.
    def release(place: int, size: int) -> None:
        nonlocal now
        uses[place] -= 1
        now -= 0 if uses[place] else size

    def pack(tensor: Tensor) -> _Saved:
        nonlocal now, most
        held = _Saved(tensor.detach())  # otherwise a node that saves its result holds itself
        storage = tensor.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if place not in own:
            now += 0 if uses[place] else size
            most = max(most, now)
            uses[place] += 1
            finalize(held, release, place, size)
        return held

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda s: s.tensor):
        forward()
    return max(1, most)
