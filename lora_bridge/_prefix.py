"""The layers below the first adapted one, computed once for each sequence.

Nothing in these layers changes, so that what they make of a sequence is the same in every pass. The
states of its tokens are kept, those that were not asked for the longest going first. Padding on
either side of a sequence is not kept: no token of the sequence reads it, as what is behind it is
not seen in a causal model, and what is before it is masked.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from lora_bridge._batches import Batch
from lora_bridge._head import head_of
from lora_bridge._memory import layers_of, replaced
from lora_bridge._sharing import Layout

__all__ = ["SPENT", "layers_below", "reused"]

#: Bytes of states that are kept of one model.
_MOST = 1 << 30


class _Clock:
    """How long this process has computed states that it did not know, in seconds."""

    seconds = 0.0


SPENT = _Clock()


class _States(OrderedDict[Any, Tensor]):
    """States of sequences by layer and tokens, (tokens, h) each."""

    bytes = 0

    def find(self, key: Any) -> Tensor | None:
        """The states of a sequence, which now are the last to be removed."""
        if key not in self:
            return None
        self.move_to_end(key)
        return self[key]

    def keep(self, key: Any, states: Tensor) -> None:
        """Keep these states; remove those that were used longest ago where all take too much."""
        if key not in self:
            self[key] = states
            self.bytes += states.nbytes
        while self.bytes > _MOST:
            self.bytes -= self.popitem(last=False)[1].nbytes


_kept: WeakKeyDictionary[nn.Module, _States] = WeakKeyDictionary()
#: Whether a model's states are those of a causal one, as far as it was tried.
_causal: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
#: Two passes over the same tokens differ by less than this, relative to the largest state.
_ROUNDING = 1e-3


def layers_below(model: nn.Module, adapted: Collection[nn.Module]) -> int:
    """How many layers come before the first adapted module; 0 where that is not known.

    All of them where the head alone is adapted, or the score of a model for sequences.
    """
    layers = layers_of(model)
    inside = [not set(adapted).isdisjoint(layer.modules()) for layer in layers]
    held = {module for layer in layers for module in layer.modules()}
    if not layers:
        return 0
    behind = set(model.modules()) - set(getattr(model, "base_model", model).modules())
    if not set(adapted) <= held | behind | {head_of(model)} or not _is_causal(model):
        return 0
    return inside.index(True) if any(inside) else len(layers)


def _is_causal(model: Any) -> bool:
    """Whether states do not depend on later tokens; tried once, on a few tokens."""
    if model not in _causal:
        ids = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 0]], device=next(model.parameters()).device)
        states: list[Any] = []
        handle = layers_of(model)[-1].register_forward_hook(lambda *three: states.append(three[2]))
        try:
            with torch.no_grad():
                model(input_ids=ids, attention_mask=(ids > 0).long())
        finally:
            handle.remove()
        whole = states[0] if isinstance(states[0], Tensor) else torch.full((2, 4, 1), torch.nan)
        apart = float((whole[0, :3] - whole[1, :3]).abs().max())
        _causal[model] = apart <= _ROUNDING * float(whole.abs().max())  # False for NaN
    return _causal[model]


@contextmanager
def reused(
    model: nn.Module, below: int, flat: Batch, layout: Layout | None = None
) -> Iterator[None]:
    """Inside, a pass of these sequences takes the states of the layers below, and computes none.

    Those that are not known are computed before. With a ``layout`` the pass has its rows, and so
    have the layers. Where padding is inside a sequence, or one has no token, all is as without.
    """
    own = _sequences(below, flat) if below else None
    if own is None:
        yield
        return
    states = _kept.setdefault(model, _States())
    ids = flat["input_ids"]
    rows = [_known(states, key, model, below, ids[i, place]) for i, (key, place) in enumerate(own)]
    padded = rows[0].new_zeros(*ids.shape, rows[0].shape[1])
    for row, (_, place), known in zip(padded, own, rows, strict=True):
        row[place] = known
    output = padded if layout is None else padded.flatten(0, 1)[layout.source]
    with replaced(layers_of(model)[:below], lambda layer: lambda *inputs, **named: output):
        yield


def _known(states: _States, key: Any, model: nn.Module, below: int, ids: Tensor) -> Tensor:
    """The states of a sequence (T,), shape (T, h).

    They are computed from the sequence alone: beside others they would be rounded otherwise, and a
    number would depend on which pass was the first to have the sequence.
    """
    known = states.find(key)
    if known is None:
        began = _now()
        known = _computed(model, below, ids)
        SPENT.seconds += _now() - began
        states.keep(key, known)
    return known


def _computed(model: Any, below: int, ids: Tensor) -> Tensor:
    layers = layers_of(model)
    seen: list[Tensor] = []
    handle = layers[below - 1].register_forward_hook(lambda *three: seen.append(three[2]))
    body = getattr(model, "base_model", model)
    try:
        with torch.no_grad(), replaced(layers[below:], lambda layer: _unchanged):
            body(input_ids=ids[None], attention_mask=torch.ones_like(ids)[None])
    finally:
        handle.remove()
    return seen[0][0]


def _unchanged(states: Tensor, *inputs: Any, **named: Any) -> Tensor:
    return states


def _now() -> float:
    """The time when all that was begun is done."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    return time.perf_counter()


def _sequences(below: int, flat: Batch) -> list[tuple[tuple[int, bytes], slice]] | None:
    """A key for each sequence and where its tokens are; what is elsewhere is not read.

    A sequence ends with its last one of ``target_places``, if these are given. None where padding
    is inside a sequence, where one has no token, or where tokens do not have the places 0, 1, ..
    """
    ids, mask = flat.get("input_ids"), flat.get("attention_mask")
    if ids is None or mask is None:
        return None
    if torch.is_autocast_enabled(ids.device.type):  # states of another precision
        return None
    index = torch.arange(ids.shape[1], device=ids.device)
    starts = mask.argmax(1)
    counted = index - starts[:, None]
    known = mask.bool()
    if not torch.equal(known, (counted >= 0) & (counted < mask.sum(1)[:, None])):
        return None
    if not known.any(1).all():
        return None
    places = flat.get("position_ids", index).expand_as(ids)
    if not torch.equal(places[known], counted[known]):
        return None
    ends = starts + mask.sum(1)
    if "target_places" in flat:
        last = flat["target_places"].reshape(len(ids), -1).amax(1)
        ends = torch.minimum(ends, torch.maximum(last, starts) + 1)
    spans = [slice(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    rows = zip(ids.cpu().numpy(), spans, strict=True)
    return [((below, row[place].tobytes()), place) for row, place in rows]
