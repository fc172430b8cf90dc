"""Tokens that several sequences of a client begin with, computed once.

Samples of a client begin alike: with the chat template's first turn, with the prompt of both
answers of a pair, with the question of its choices. In a causal model the states of such tokens are
the same in all of these sequences. So a client's sequences become one row, which holds each token
with the same tokens before it once, and no padding; the model's own layers compute it, and only its
attention is told which tokens of the row come before which. The gradients are exact as well: those
of all sequences add up at the tokens that they share.

*Attention.* The tokens with which all of a client's sequences begin are a block. The others are in
blocks of their own, one for sequences that have more in common; a block looks at itself and at the
first one, so that the products of queries and keys grow with the sequences' lengths and not with
the row's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from lora_bridge._batches import Batch

__all__ = ["Attention", "Layout", "attending", "can_share", "layout_of", "shared"]

#: From queries (rows, H, T, d), keys and values (rows, G, T, d) and a factor of their products to
#: answers (rows, T, H, d).
Attention = Callable[[Tensor, Tensor, Tensor, float], Tensor]

#: Name under which our attention is registered with transformers.
_NAME = "ratecheck_shared"
#: Sequences are put into one block if they share at least this many tokens beyond the tokens that
#: all of the client's sequences share.
_COMMON = 8
#: Arguments that change what attention computes and that ours does not support.
_UNKNOWN = ("sliding_window", "softcap", "position_bias", "s_aux")

#: Whether a model that was tried computes the same with shared tokens.
_tried: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
#: The attention of the present pass; not of a thread, since a card's backward pass, which may
#: compute layers again, has threads of its own.
_present: list[_Pass] = []

Array = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Group:
    """Blocks of attention of similar sizes: n of them, S queries and K keys, padded.

    Attributes:
        queries, keys: places of tokens among all rows' tokens, (n, S) and (n, K).
        mask: what is added to their products, (n, S, K): 0 or minus infinity.
    """

    queries: Tensor
    keys: Tensor
    mask: Tensor


@dataclass(frozen=True, eq=False)
class Layout:
    """Rows of tokens, one per client, in the place of padded sequences.

    Attributes:
        source: which of the sequences' tokens each token of a row is, (N, T').
        positions: of these tokens, (N, T').
        places: where among all rows' tokens those of the sequences are, (sequences, T); any where
            they are padding or not computed.
        last: the row's tokens that ``target_places`` name, each once, then -1, (N, K'); or None.
        groups: of attention.
        answers: where among all groups' queries each token of a row is, (N, T').
        lengths: tokens of each row; what follows in a shorter one is padding.
    """

    source: Tensor
    positions: Tensor
    places: Tensor
    last: Tensor | None
    groups: Sequence[_Group]
    answers: Tensor
    lengths: Sequence[int]
    _heads: dict[Any, Any] = field(init=False, default_factory=dict, repr=False)

    @property
    def tokens(self) -> int:
        """Tokens that are computed, padding of shorter rows included."""
        return self.source.numel()

    def in_line(self) -> Layout:
        """The rows one after the other in a single one, without the padding of shorter ones.

        Its ``lengths`` stay those of the clients; it has no ``last``.
        """
        width = self.source.shape[1]
        lengths = torch.tensor(self.lengths, device=self.source.device)
        kept = torch.arange(width, device=lengths.device) < lengths[:, None]
        at = (kept.flatten().cumsum(0) - 1).clamp(min=0)
        return replace(
            self,
            source=self.source[kept][None],
            positions=self.positions[kept][None],
            places=at[self.places],
            last=None,
            groups=[
                replace(group, queries=at[group.queries], keys=at[group.keys])
                for group in self.groups
            ],
            answers=self.answers[kept][None],
        )

    def attention(self, q: Tensor, k: Tensor, v: Tensor, scaling: float, twice: bool) -> Tensor:
        """Of q (N, H, T', d) on k and v (N, G, T', d), H a multiple of G: (N, T', H, d).

        ``twice``: by operations that can be differentiated twice.
        """
        heads, groups = q.shape[1], k.shape[1]
        indices, back = self._by_head(heads, groups, q.dtype)
        q, k, v = (x.transpose(1, 2).reshape(-1, x.shape[-1]) for x in (q, k, v))
        seen = []
        for at, queries, keys, mask in indices:
            # embedding and not index_select, whose slope is computed row by row
            own, others, values = (
                functional.embedding(i, x) for i, x in ((queries, q), (keys, k), (keys, v))
            )
            seen.append(_attended(own, others, values, mask, scaling, twice).reshape(at, -1))
        return functional.embedding(back, torch.cat(seen) if len(seen) > 1 else seen[0])

    def _by_head(self, heads: int, groups: int, dtype: torch.dtype) -> tuple[list[Any], Tensor]:
        """Indices of the tokens' heads: queries (n, G, H / G * S), keys (n, G, K); masks."""
        key = heads, groups, dtype
        if key not in self._heads:
            each, device = heads // groups, self.source.device
            own = torch.arange(groups, device=device)[:, None]
            mine = own * each + torch.arange(each, device=device)  # the queries' heads of each
            made, sizes = [], []
            for group in self.groups:
                queries = group.queries[:, None, None] * heads + mine[..., None]
                keys = group.keys[:, None] * groups + own
                mask = group.mask.to(dtype).repeat(1, each, 1)[:, None]
                made.append((queries.numel(), queries.flatten(2), keys, mask))
                sizes.append((group.queries.shape[1], queries.numel(), group.queries.numel()))
            back = self._answers_by_head(heads, sizes)
            self._heads[key] = made, back
        indices: tuple[list[Any], Tensor] = self._heads[key]
        return indices

    def _answers_by_head(self, heads: int, sizes: Sequence[tuple[int, int, int]]) -> Tensor:
        """Where each head's answer (N, T', H) is among those of all groups, (n, H, S) each."""
        head = torch.arange(heads, device=self.source.device)
        back = self.answers.new_zeros(*self.answers.shape, heads)
        first = first_head = 0
        for S, entries, queries in sizes:
            local = self.answers - first
            inside = (local >= 0) & (local < queries)
            at = first_head + (local[..., None] // S * heads + head) * S + local[..., None] % S
            back = torch.where(inside[..., None], at, back)
            first, first_head = first + queries, first_head + entries
        return back


@dataclass(frozen=True, eq=False)
class _Pass:
    """A pass of a model: what computes its attention, and an entry for each one so far."""

    attention: Attention
    calls: list[int]


def _attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scaling: float, twice: bool) -> Tensor:
    if not twice:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scaling)
    products = q @ k.mT * scaling + mask
    precise = torch.promote_types(products.dtype, torch.float32)
    return products.softmax(-1, dtype=precise).to(v.dtype) @ v


def layout_of(flat: Batch, rows: int) -> Layout | None:
    """The rows of a batch of one axis of sequences, ``rows`` clients with as many of each.

    None where sequences are of another kind. Tokens after a sequence's last one in
    ``target_places``, if these are given, are left out.
    """
    ids, mask = flat.get("input_ids"), flat.get("attention_mask")
    if ids is None or ids.ndim != 2 or "token_type_ids" in flat:
        return None
    if mask is not None and mask.shape != ids.shape:
        return None
    count, T = ids.shape
    inside = np.ones((count, T), bool) if mask is None else mask.cpu().numpy() != 0
    places = None
    if "target_places" in flat:
        places = flat["target_places"].reshape(count, -1).cpu().numpy()
        first = inside.argmax(1)  # at least one token
        inside = inside & (np.arange(T) <= np.maximum(places.max(1), first)[:, None])
    given = flat.get("position_ids")
    positions = np.tile(np.arange(T), (count, 1)) if given is None else given.cpu().numpy()
    names = positions * (int(ids.max()) + 1) + ids.cpu().numpy()
    made = [
        _Row(names, inside, range(i, i + count // rows)) for i in range(0, count, count // rows)
    ]
    return _joined(made, positions, inside, places, ids.device)


class _Row:
    """The tokens of one client's sequences, each with the same ones before it once.

    Attributes:
        paths: of each sequence, the places of its tokens in the row.
        source: which of all sequences' tokens each one is.
        first: how many of them all sequences begin with.
        blocks: where the others' blocks begin and end, and which of their tokens see which.
    """

    def __init__(self, names: Array, inside: NDArray[np.bool_], sequences: range) -> None:
        T = names.shape[1]
        at = [np.flatnonzero(inside[i]) for i in sequences]
        named = [names[i, own] for i, own in zip(sequences, at, strict=True)]
        order = sorted(range(len(named)), key=lambda j: named[j].astype(">i8").tobytes())
        common = [0] + [_common(named[a], named[b]) for a, b in pairwise(order)]
        first = min(common[1:], default=0)
        self.paths: list[Array] = [np.empty(0, np.int64)] * len(order)
        self.first, source, size = first, [], 0
        members: list[list[tuple[Array, int]]] = []
        for place, j in enumerate(order):
            together = place > 0 and common[place] - first >= _COMMON
            known = common[place] if together else min(first, size)
            before = self.paths[order[place - 1]][:known] if known else self.paths[j]
            path = np.concatenate([before, np.arange(size, size + len(named[j]) - known)])
            self.paths[j] = path
            source.append(sequences[j] * T + at[j][known:])
            size += len(path) - known
            if not together:
                members.append([])
            members[-1].append((path, max(known, first)))
        self.source: Array = np.concatenate(source)
        self.blocks = [block for block in map(self._block, members) if block is not None]

    def _block(self, members: list[tuple[Array, int]]) -> tuple[int, int, Any] | None:
        own = [path[self.first :] for path, _ in members]
        places = np.concatenate(own)
        if not len(places):
            return None
        begin, end = int(places.min()), int(places.max()) + 1
        sees = np.zeros((end - begin, end - begin), bool)
        for path, (_, known) in zip(own, members, strict=True):
            local, new = path - begin, known - self.first
            sees[local[new:, None], local] = np.tri(len(local), dtype=bool)[new:]
        return begin, end, sees


def _common(a: Array, b: Array) -> int:
    """How many entries two lists begin with in common."""
    least = min(len(a), len(b))
    other = a[:least] != b[:least]
    return int(other.argmax()) if other.any() else least


def _joined(
    rows: Sequence[_Row],
    positions: Array,
    inside: NDArray[np.bool_],
    targets: Array | None,
    device: torch.device,
) -> Layout:
    """Rows of one length, with all of their blocks in groups of similar sizes."""
    width = max(len(row.source) for row in rows)
    source = np.zeros((len(rows), width), np.int64)
    places = np.zeros(inside.shape, np.int64)
    blocks, i, last = [], 0, []
    for n, row in enumerate(rows):
        source[n, : len(row.source)] = row.source
        named = set[int]()
        for path in row.paths:
            (at,) = np.nonzero(inside[i])
            places[i, at] = n * width + path
            if targets is not None:
                own = places[i, targets[i][targets[i] >= 0]]
                named.update((own - n * width).tolist())
            i += 1
        last.append(sorted(named))
        if row.first:
            blocks.append((n * width, 0, 0, row.first, np.tri(row.first, dtype=bool)))
        for begin, end, sees in row.blocks:
            blocks.append((n * width, row.first, begin, end, sees))
    groups, answers = _grouped(blocks, source.shape)
    most = max(map(len, last))
    padded = [own + [-1] * (most - len(own)) for own in last]

    def moved(values: Any) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    return Layout(
        source=moved(source),
        positions=moved(positions.reshape(-1)[source]),
        places=moved(places),
        last=torch.tensor(padded, device=device) if most else None,
        groups=[_Group(*map(moved, group)) for group in groups],
        answers=moved(answers),
        lengths=[len(row.source) for row in rows],
    )


def _grouped(
    blocks: list[tuple[int, int, int, int, Any]], shape: tuple[int, int]
) -> tuple[list[tuple[Any, Any, Any]], Array]:
    """Groups of blocks, none of less than half of its largest one's queries; the answers' places.

    A block is: its row's first place, how many of the row's first tokens it looks at, where it
    begins and ends in the row, and which of its own tokens it sees.
    """
    blocks = sorted(blocks, key=lambda block: block[2] - block[3])
    parts: list[list[tuple[int, int, int, int, Any]]] = []
    for block in blocks:
        most = parts[-1][0][3] - parts[-1][0][2] if parts else 0
        if 2 * (block[3] - block[2]) >= most > 0:
            parts[-1].append(block)
        else:
            parts.append([block])
    groups, answers, done = [], np.zeros(shape[0] * shape[1], np.int64), 0
    for part in parts:
        S = part[0][3] - part[0][2]
        K = max(first + end - begin for _, first, begin, end, _ in part)
        queries, keys = np.zeros((len(part), S), np.int64), np.zeros((len(part), K), np.int64)
        mask = np.full((len(part), S, K), -np.inf, np.float32)
        mask[:, :, 0] = 0.0  # padding attends to one key: a softmax over none is NaN
        for n, (row, first, begin, end, sees) in enumerate(part):
            size = end - begin
            queries[n, :size] = row + np.arange(begin, end)
            keys[n, : first + size] = row + np.r_[0:first, begin:end]
            mask[n, :size, :first] = 0.0
            mask[n, :size, first : first + size] = np.where(sees, 0.0, -np.inf)
            answers[queries[n, :size]] = done + n * S + np.arange(size)
        groups.append((queries, keys, mask))
        done += queries.size
    return groups, answers.reshape(shape)


def can_share(model: Any) -> bool:
    """Whether a model's states of a row are those of its sequences; tried once, on a few tokens."""
    if model not in _tried:
        _tried[model] = _is_exact(model)
    return _tried[model]


def _is_exact(model: Any) -> bool:
    base = getattr(model, "base_model", None)
    if base is None or base is model or not hasattr(base, "config"):
        return False
    known = base.get_input_embeddings().num_embeddings
    ids = torch.tensor([[1, 2, 3, 4, 5, 6], [1, 2, 3, 6, 4, 0]]) % known
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]])
    batch = {"input_ids": ids.to(base.device), "attention_mask": mask.to(base.device)}
    layout = layout_of(batch, 1)
    states = []
    try:
        with torch.no_grad():
            for one in (None, layout):
                with shared(model, one) as calls:
                    hook = base.register_forward_hook(
                        lambda module, args, output: states.append(output.last_hidden_state)
                    )
                    try:
                        model(**batch, use_cache=False)
                    finally:
                        hook.remove()
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return False  # it takes or gives something else, or has attention of another kind
    kept = mask.bool()
    expected, shared_states = (state[kept] for state in states)
    # a wrong mask or position changes the first digits
    slack = torch.finfo(expected.dtype).eps ** 0.5 * float(expected.abs().max())
    layers = getattr(base.config, "num_hidden_layers", None)
    return len(calls) == layers and float((shared_states - expected).abs().max()) <= slack


@contextmanager
def shared(
    model: Any, layout: Layout | None, attention: Attention | None = None
) -> Iterator[list[int]]:
    """Inside, the model computes the rows of a layout and gives the states of the sequences.

    The list gets an entry for each attention that is computed, by the layout where no other one is
    given.
    """
    if layout is None:
        yield []
        return
    base = model.base_model
    if attention is None:
        attention = partial(layout.attention, twice=base.config._attn_implementation == "eager")

    def give(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        ids = (args[0] if args else named["input_ids"]).reshape(-1)[layout.source]
        named = {**named, "attention_mask": None, "position_ids": layout.positions}
        return ((ids, *args[1:]), named) if args else (args, {**named, "input_ids": ids})

    def take(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        rows = output.last_hidden_state.flatten(0, 1)
        output.last_hidden_state = functional.embedding(layout.places, rows)
        return output

    handles = [
        base.register_forward_pre_hook(give, with_kwargs=True),
        base.register_forward_hook(take),
    ]
    try:
        with attending(model, attention) as calls:
            yield calls
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def attending(model: Any, attention: Attention) -> Iterator[list[int]]:
    """Inside, the layers of a model that :func:`can_share` call this in the place of their own.

    The list gets an entry for each call.
    """
    config = model.base_model.config
    _register()
    present = _Pass(attention, [])
    before = config._attn_implementation
    _present.append(present)
    config._attn_implementation = _NAME
    try:
        yield present.calls
    finally:
        config._attn_implementation = before
        _present.remove(present)


def _register() -> None:
    from transformers import AttentionInterface

    if _NAME not in AttentionInterface():
        AttentionInterface.register(_NAME, _attention)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **named: Any,
) -> tuple[Tensor, None]:
    """What the layers of a model call in the place of their own attention."""
    if attention_mask is not None or dropout or any(named.get(name) for name in _UNKNOWN):
        raise NotImplementedError
    present = _present[-1]
    present.calls.append(1)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    return present.attention(query, key, value, scaling), None
