"""What a pass forward keeps for the one backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["kept_bytes"]


def kept_bytes(model: nn.Module, forward: Callable[[], Any]) -> int:
    """Bytes of all storages that autograd saves while ``forward`` runs, the model's own apart.

    >>> x = torch.ones(5, requires_grad=True)
    >>> kept_bytes(nn.Identity(), lambda: x.exp())
    20
    """
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        held = forward()  # alive, or a storage may be at the place of one that is gone
    del held
    return max(1, sum(size for place, size in kept.items() if place not in own))
