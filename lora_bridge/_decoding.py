"""Decoding: the tokens that follow prompts, drawn one by one with the cache of keys and values."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from lora_bridge._noise import gumbel
from lora_bridge.bank import AdapterBank

__all__ = ["clients_at_a_time", "decode", "end_tokens", "positions"]


@torch.no_grad()
def decode(
    bank: AdapterBank,
    X: Tensor | None,
    ids: Tensor,
    mask: Tensor,
    keys: Tensor,
    temperature: float,
    scale: float | Tensor,
) -> Tensor:
    """The tokens (S, K) that follow the prompts (S, P); arbitrary once all rows have ended."""
    rows, length = keys.shape
    P = ids.shape[1]
    ends = end_tokens(bank)
    tokens = ids.new_zeros(rows, length)
    ended = torch.zeros(rows, dtype=torch.bool, device=ids.device)
    seen = torch.cat([mask, mask.new_ones(rows, length)], 1)
    places = positions(seen)
    new, start, cache = ids, 0, None
    precision = torch.autocast(bank.device.type, bank.autocast, enabled=bank.autocast is not None)
    with precision, nullcontext() if X is None else bank.adapted(X, scale):
        for k in range(length):
            output = bank.model(
                input_ids=new,
                attention_mask=seen[:, : P + k],
                position_ids=places[:, start : P + k],
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            logits = output.logits[:, -1]
            tokens[:, k] = _sample_tokens(logits, gumbel(keys[:, k], logits.shape[-1]), temperature)
            new, start, cache = tokens[:, k : k + 1], P + k, output.past_key_values
            if len(ends):
                ended |= torch.isin(tokens[:, k], ends)
                if bool(ended.all()):
                    break
    return tokens


def _sample_tokens(logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Tokens (S,) from the softmax of logits (S, V), by Gumbel noise of the same shape."""
    return (logits.double() / temperature + noise).max(-1).indices  # argmax is slower


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
