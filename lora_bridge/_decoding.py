"""Decoding: the tokens that follow prompts, drawn one by one.

Where a model can share tokens (:mod:`lora_bridge._sharing`), the prompts of all clients are
computed without padding and what they begin with once for a client; their keys and values are kept
once for all responses to a prompt (:mod:`lora_bridge._cache`); and responses that have ended leave.
Elsewhere, and with a bank's ``share=False``, the model's own cache has all rows until the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lora_bridge._batches import part_of_scale
from lora_bridge._cache import Cache
from lora_bridge._head import computed_at, head_of
from lora_bridge._noise import choose
from lora_bridge._packed import packed
from lora_bridge._sharing import attending, can_share, layout_of, shared
from lora_bridge.bank import AdapterBank

__all__ = ["Decoded", "clients_at_a_time", "decode", "end_tokens", "positions"]

#: Responses that have ended are removed when they are at least this share of the rows.
_LEAVING = 1 / 8


@dataclass(frozen=True, eq=False)
class Decoded:
    """What was drawn; arbitrary after a response's end.

    Attributes:
        tokens: of the responses, (N, b, K).
        log_prob: of these tokens, (N, b, K).
        hidden: the states that they are predicted from, (N, b, K, h).
    """

    tokens: Tensor
    log_prob: Tensor
    hidden: Tensor


@torch.no_grad()
def decode(
    bank: AdapterBank,
    X: Tensor | None,
    ids: Tensor,
    mask: Tensor,
    keys: Tensor,
    temperature: float,
    scale: float | Tensor,
) -> Decoded:
    """The responses of at most K tokens that follow the prompts (N, b, P), by keys (N, b, K)."""
    N, b, length = keys.shape
    first = int(mask.flatten(0, 1).any(0).long().argmax())  # before it is padding alone
    ids, mask = ids[..., first:].flatten(0, 1), mask[..., first:].flatten(0, 1)
    keys, ends = keys.flatten(0, 1), end_tokens(bank)
    rows = torch.arange(N * b, device=ids.device).reshape(N, b)  # those that are computed
    ended = torch.zeros(N * b, dtype=torch.bool, device=ids.device)
    tokens = ids.new_zeros(N * b, length)
    kept: dict[str, Tensor] = {}
    kind = _Shared if bank.share and can_share(bank.model) else _Plain
    precision = torch.autocast(bank.device.type, bank.autocast, enabled=bank.autocast is not None)
    with precision, packed(bank.model), _head_inputs(bank.model) as seen, ExitStack() as adapters:

        def adapt(lengths: Sequence[int] | None = None) -> None:
            adapters.close()
            if X is not None:
                clients = rows[:, 0] // b
                factor = part_of_scale(scale, clients)
                adapters.enter_context(bank.adapted(X[clients], factor, lengths=lengths))

        model: _Shared | _Plain = kind(bank.model, ids, mask, N, length)
        adapt(model.lengths)
        logits = model.first()
        adapt()
        for k in range(length):
            own = rows.flatten()
            drawn = choose(logits, keys[own, k], temperature)
            tokens[own, k] = drawn
            for name, value in (
                ("log_prob", _log_prob(logits, drawn, temperature)),
                ("hidden", seen[0]),
            ):
                if k == 0:
                    kept[name] = value.new_zeros(N * b, length, *value.shape[1:])
                kept[name][own, k] = value
            ended[own] |= torch.isin(drawn, ends)
            if k + 1 == length or bool(ended.all()):
                break
            if isinstance(model, _Shared) and (left := _left(ended[rows])) is not None:
                rows = rows.flatten()[left]
                model.keep(left.flatten())
                adapt()
            logits = model.following(tokens[rows.flatten(), k])
    each = (tokens, kept["log_prob"], kept["hidden"])
    return Decoded(*(x.reshape(N, b, *x.shape[1:]) for x in each))


def _log_prob(logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
    """log pi of tokens (S,), from logits (S, V)."""
    if logits.element_size() < 4:  # sums over a vocabulary need single precision
        logits = logits.float()
    if temperature != 1.0:
        logits = logits / temperature
    return -functional.cross_entropy(logits, tokens, reduction="none")


def _left(ended: Tensor) -> Tensor | None:
    """Which rows of (clients, count) go on, as many of each client that has any; or None for all.

    Where a client has fewer than another, some of its ended ones go on.
    """
    left = (~ended).sum(1)
    clients, most = left.nonzero()[:, 0], int(left.max())
    if most * len(clients) > (1 - _LEAVING) * ended.numel():
        return None
    order = ended[clients].to(torch.int8).argsort(dim=1, stable=True)[:, :most]
    return clients[:, None] * ended.shape[1] + order


@contextmanager
def _head_inputs(model: nn.Module) -> Iterator[list[Tensor]]:
    """Inside, the list has the last states (rows, h) that the head was given."""
    seen: list[Tensor] = []

    def see(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        seen[:] = [inputs[0][:, -1]]

    head = head_of(model)
    assert head is not None
    handle = head.register_forward_pre_hook(see)
    try:
        yield seen
    finally:
        handle.remove()


class _Plain:
    """A model that reads all rows with the cache that transformers has for it."""

    lengths = None

    def __init__(self, model: Any, ids: Tensor, mask: Tensor, clients: int, length: int) -> None:
        self.model, self.new, self.cache = model, ids, None
        self.seen = torch.cat([mask, mask.new_ones(len(mask), length)], 1)
        self.places, self.known = positions(self.seen), 0

    def first(self) -> Tensor:
        """The logits (S, V) of the token that follows each prompt."""
        start, self.known = self.known, self.known + self.new.shape[1]
        output = self.model(
            input_ids=self.new,
            attention_mask=self.seen[:, : self.known],
            position_ids=self.places[:, start : self.known],
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self.cache = output.past_key_values
        logits: Tensor = output.logits[:, -1]
        return logits

    def following(self, tokens: Tensor) -> Tensor:
        """The logits (S, V) of the token that follows these (S,)."""
        self.new = tokens[:, None]
        return self.first()


class _Shared:
    """A model that reads the tokens of prompts once for a client, and responses without padding.

    Attributes:
        lengths: how many tokens of each client :meth:`first` has the model read, in one row.
    """

    def __init__(self, model: Any, ids: Tensor, mask: Tensor, clients: int, length: int) -> None:
        self.model = model
        last = ids.new_full((len(ids), 1), ids.shape[1] - 1)
        self.prompts = {"input_ids": ids, "attention_mask": mask, "position_ids": positions(mask)}
        layout = layout_of({**self.prompts, "target_places": last}, clients)
        assert layout is not None
        self.lengths: Sequence[int] | None = None
        # if both were equal, adapters could not tell rows of tokens from the head's, one a sequence
        if sum(layout.lengths) != len(ids):
            self.lengths, layout = layout.lengths, layout.in_line()
        self.last, self.layout = last, layout
        self.cache = Cache(layout, mask, length)
        self.places = mask.sum(1)  # of the next token

    def first(self) -> Tensor:
        """The logits (S, V) of the token that follows each prompt."""
        with (
            shared(self.model, self.layout, self.cache.start),
            computed_at(self.model, self.last, None),
        ):
            logits: Tensor = self.model(**self.prompts, use_cache=False).logits[:, -1]
        return logits

    def following(self, tokens: Tensor) -> Tensor:
        """The logits (S, V) of the token that follows these (S,)."""
        with attending(self.model, self.cache.attend):
            logits: Tensor = self.model(
                input_ids=tokens[:, None], position_ids=self.places[:, None], use_cache=False
            ).logits[:, -1]
        self.places = self.places + 1
        return logits

    def keep(self, rows: Tensor) -> None:
        """Keep these rows only, in this order."""
        self.cache.keep(rows)
        self.places = self.places[rows]


def positions(mask: Tensor) -> Tensor:
    """0, 1, .. over the tokens that are not padding."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def end_tokens(bank: AdapterBank) -> Tensor:
    """The tokens that end a response: from the generation settings, or else the model's own."""
    for settings in (getattr(bank.model, "generation_config", None), bank.model.config):
        tokens = getattr(settings, "eos_token_id", None)
        if tokens is not None:
            return torch.tensor(tokens, device=bank.device).reshape(-1)
    return torch.empty(0, dtype=torch.long, device=bank.device)


def clients_at_a_time(bank: AdapterBank, ids: Tensor, length: int) -> int:
    """How many clients are decoded at a time: keys and values fill at most the bank's memory."""
    N, b, P = ids.shape
    if bank.engine == "sequential":
        return 1
    if bank.memory is None:
        return bank.chunk or N
    config: Any = bank.model.config
    size = next(bank.model.parameters()).element_size()
    one = 2 * config.num_hidden_layers * config.hidden_size * b * (P + length) * size
    return max(1, bank.memory // int(one))
