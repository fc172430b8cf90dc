"""Memory that a forward pass keeps for backward passes, and memory that is free.

Inside :func:`recomputed` less is kept: layers are computed again in the backward pass.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from weakref import finalize

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

__all__ = ["estimated_bytes", "free_memory", "kept_bytes", "layers_of", "recomputed"]

#: Numbers that a layer keeps of a token, in widths: as many as GPT-2's, a third more than Llama's.
_WIDTHS = 25


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


def estimated_bytes(model: Any, length: int, checkpointed: bool) -> int | None:
    """About how many bytes a pass keeps of each token of sequences of ``length`` tokens.

    None for models whose configuration does not tell width and layers.
    """
    config = model.config
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads")
    if not all(hasattr(config, name) for name in names):
        return None
    width, layers, heads = (int(getattr(config, name)) for name in names)
    layer = _WIDTHS * width + 3 * heads * length  # the latter of attention that keeps its weights
    numbers = layers * width + layer if checkpointed else layers * layer
    return int(numbers * next(model.parameters()).element_size())


def free_memory(device: torch.device | str = "cpu") -> int | None:
    """Bytes that this process may still take: of the card, or of the system and its limits.

    None where neither says.
    """
    device = torch.device(device)
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    available = re.search(r"MemAvailable:\s*(\d+) kB", _text("/proc/meminfo"))
    free = [int(available[1]) << 10] if available else []
    groups = Path("/sys/fs/cgroup")  # of version 2, then of version 1
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most, now = _text(groups / limit).strip(), _text(groups / used).strip()
        if most.isdecimal() and now.isdecimal():
            free.append(int(most) - int(now))
    return max(0, min(free)) if free else None


def _text(path: Path | str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""


@contextmanager
def replaced(modules: Sequence[nn.Module], forward: Callable[[Any], Any]) -> Iterator[None]:
    """Inside, every module computes ``forward(module)`` instead."""
    try:
        for module in modules:
            module.forward = forward(module)
        yield
    finally:
        for module in modules:  # Ctrl-C may have come before all were replaced
            vars(module).pop("forward", None)


def recomputed(model: Any) -> AbstractContextManager[None]:
    """Inside, passes keep what enters a layer; backward passes, inside too, compute it again."""
    return replaced(
        layers_of(model), lambda layer: partial(checkpoint, layer.forward, use_reentrant=False)
    )


def layers_of(model: Any) -> list[nn.Module]:
    """The model's layers: the first list of modules that is as long as its configuration says."""
    count = getattr(getattr(model, "config", None), "num_hidden_layers", None)
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return list(module)
    return []
