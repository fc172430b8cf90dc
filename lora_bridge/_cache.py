"""Keys and values of decoding: those of a prompt once for all of its responses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lora_bridge._sharing import Layout

__all__ = ["Cache"]

#: Queries x keys of padding that a further part of a cache's groups saves to be worth its calls.
_WORTH = 1 << 11


@dataclass(eq=False)
class Cache:
    """What the next token of each response attends to: prompt, and response so far.

    The responses, a row each, have places (D, R): D groups of at most R that follow the same
    prompt, whose queries meet its keys in one product. Longer prompts come first: groups are
    computed in parts of similar lengths, each without padding that all of its prompts have. Memory
    for whole responses is taken at once.

    Args:
        layout: of the pass over the rows' prompts.
        mask: of the prompts, padded on the left, shape (rows, P).
        length: the most tokens of a response.
    """

    layout: Layout
    mask: Tensor
    length: int
    _prompts: list[list[Tensor]] = field(init=False, default_factory=list)
    _responses: list[list[Tensor]] = field(init=False, default_factory=list)
    _rows: Tensor = field(init=False)  # which row is at each place, (D, R)
    _back: Tensor = field(init=False)  # the place of each row, numbered over all groups
    _known: int = field(init=False, default=0)  # tokens of responses
    _calls: int = field(init=False, default=0)
    _indices: dict[Any, Any] = field(init=False, default_factory=dict)
    _parts: list[tuple[slice, int]] = field(init=False)  # groups, and tokens all can do without

    def __post_init__(self) -> None:
        last = self.layout.places[:, -1]
        count = len(torch.unique(last))
        begins = (self.mask != 0).to(torch.int8).argmax(1)  # an earlier one is a longer prompt
        names = begins * (int(last.max()) + 1) + last
        self._arrange(names, max(1, len(last) // count))
        first = self._rows[:, 0]
        self._places = self.layout.places[first]
        seen = self.mask[first] != 0
        self._added = torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, -torch.inf)
        self._parts = _parts((~seen).sum(1).tolist(), self._rows.shape[1])

    def _arrange(self, names: Tensor, most: int) -> None:
        """Put rows of the same name into groups of at most ``most``, in the order of the names."""
        rows = names.argsort(stable=True)
        count = torch.unique_consecutive(names[rows], return_counts=True)[1]
        begin = (count.cumsum(0) - count).repeat_interleave(count)
        within = torch.arange(len(rows), device=rows.device) - begin
        groups = (count + most - 1) // most
        at = (groups.cumsum(0) - groups).repeat_interleave(count) + within // most
        R = min(most, int(count.max()))
        # a place without a row holds some row of the group; its results are discarded
        self._rows = rows.new_empty(int(groups.sum()), R)
        self._rows[at] = rows[:, None]
        self._rows[at, within % most] = rows
        self._back = torch.empty_like(rows)
        self._back[rows] = at * R + within % most
        self._indices.clear()

    def start(self, q: Tensor, k: Tensor, v: Tensor, scaling: float) -> Tensor:
        """The attention of a layer in the pass over the prompts, which is kept."""
        kept = []
        for x in (k, v):
            tokens = x.transpose(1, 2).flatten(0, 1)  # (tokens of all rows, G, d)
            kept.append(tokens[self._places].transpose(1, 2).contiguous())
        self._prompts.append(kept)
        D, G, _, d = kept[0].shape
        shape = (D, G, self._rows.shape[1], self.length, d)
        self._responses.append([x.new_empty(shape) for x in kept])
        return self.layout.attention(q, k, v, scaling, twice=False)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, scaling: float) -> Tensor:
        """The attention of a layer for each row's next token: (rows, 1, H, d)."""
        layer = self._calls % len(self._prompts)
        self._calls += 1
        known = self._calls // len(self._prompts) if layer == len(self._prompts) - 1 else None
        queries, places, back, added = self._by_head(q.shape[1], k.shape[1], q.dtype)
        d = q.shape[-1]
        for x, own in zip((k, v), self._responses[layer], strict=True):
            own[..., self._known, :] = functional.embedding(places, x.reshape(-1, d))
        q = functional.embedding(queries, q.reshape(-1, d))  # (D, G, R, H / G, d)
        each = zip(self._parts, added, strict=True)
        answers = torch.cat([self._attended(*part, q, layer, mask, scaling) for part, mask in each])
        if known is not None:
            self._known = known
        return functional.embedding(back, answers)

    def _attended(
        self, groups: slice, without: int, q: Tensor, layer: int, added: Tensor, scaling: float
    ) -> Tensor:
        """The answers to some groups' queries of (D, G, R, H / G, d), one after the other."""
        keys, values = (x[groups, ..., : self._known + 1, :] for x in self._responses[layer])
        prompt_keys, prompt_values = (
            x[groups, :, without:].flatten(0, 1) for x in self._prompts[layer]
        )
        q = q[groups]
        D, G, R, E, d = q.shape
        together = q.reshape(D * G, R * E, d)
        before = torch.baddbmm(added, together, prompt_keys.mT, alpha=scaling)
        apart = q.reshape(D * G * R, E, d)
        since = apart.bmm(keys.flatten(0, 2).mT) * scaling
        P, t = before.shape[-1], since.shape[-1]
        products = torch.cat([before, since.reshape(D * G, R * E, t)], -1)
        precise = torch.promote_types(products.dtype, torch.float32)
        weights = products.softmax(-1, dtype=precise).to(q.dtype)
        answers = weights[..., :P].bmm(prompt_values).reshape(D * G * R, E, d)
        own = weights[..., P:].reshape(D * G * R, E, t)
        return answers.baddbmm_(own, values.flatten(0, 2)).reshape(-1, d)

    def _by_head(self, heads: int, groups: int, dtype: torch.dtype) -> Any:
        """Where queries (D, G, R, H / G), keys (D, G, R) and answers (rows, 1, H) are; masks."""
        key = heads, groups, dtype
        if key not in self._indices:
            each, R = heads // groups, self._rows.shape[1]
            group = torch.arange(groups, device=self._rows.device)
            places = self._rows[:, None] * groups + group[:, None]
            first = self._rows[:, None] * heads + group[:, None] * each
            queries = first[..., None] + torch.arange(each, device=group.device)
            head = torch.arange(heads, device=group.device)
            at, within = self._back[:, None] // R, self._back[:, None] % R
            back = ((at * groups + head // each) * R + within) * each + head % each
            added = [
                self._added[part, without:].to(dtype).repeat_interleave(groups, 0)[:, None]
                for part, without in self._parts
            ]
            self._indices[key] = queries, places, back[:, None], added
        return self._indices[key]

    def keep(self, rows: Tensor) -> None:
        """Keep these rows only, and number them in this order."""
        R = self._rows.shape[1]
        before, group = self._back[rows], self._back[rows] // R
        self._arrange(group, R)
        at = before[self._rows]  # the places that the rows had
        kept = at[:, 0] // R
        self._added = self._added[kept]
        padding = (self._added < 0).sum(1).tolist()
        self._parts = _parts(padding, self._rows.shape[1])
        for prompts, responses in zip(self._prompts, self._responses, strict=True):
            prompts[:] = [x[kept] for x in prompts]
            heads = torch.arange(responses[0].shape[1], device=rows.device)[:, None]
            for i, x in enumerate(responses):
                responses[i] = x.new_empty(*at.shape[:1], len(heads), at.shape[1], *x.shape[3:])
                known = x[..., : self._known, :]
                responses[i][..., : self._known, :] = known[
                    kept[:, None, None], heads, (at % R)[:, None]
                ]


def _parts(padding: list[int], rows: int) -> list[tuple[slice, int]]:
    """Groups in parts, with the padding of each that is left out.

    Args:
        padding: of each group's prompt, in rising order.
        rows: responses to a prompt.

    >>> _parts([0, 400, 410, 420, 430], 4)
    [(slice(0, 1, None), 0), (slice(1, 5, None), 400)]
    """
    saved = [(many - padding[0]) * (len(padding) - i) * rows for i, many in enumerate(padding)]
    at = max(range(len(padding)), key=saved.__getitem__)
    if saved[at] < _WORTH:
        return [(slice(0, len(padding)), padding[0])]
    behind = [
        (slice(part.start + at, part.stop + at), without)
        for part, without in _parts(padding[at:], rows)
    ]
    return [*_parts(padding[:at], rows), *behind]
