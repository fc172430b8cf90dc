"""Responses sampled from the clients' policies, with the log-probabilities that are scored.

All clients' samples are decoded together, token by token with a cache of keys and values, while the
bank's adapters are on. What samples of a client begin with is computed once, no padding is, and
responses that have ended are not computed further: see :mod:`lora_bridge._decoding`. The token with
the largest logit plus Gumbel noise is a draw from the full softmax, and the noise is a function of
(seed, client, round, sample, position, token) alone. So how clients are grouped, and when a run is
started again, changes no token but by the rounding of logits; and policies p and q that are that
close choose different tokens with a chance of at most sum |p - q|, however large the vocabulary is
(about 10^-6 in single precision; a cumulative distribution would add up the rounding of all tokens
before).

Nothing is cut off the distribution, and its temperature stays in the log-probabilities: what is
sampled is what is scored, so that the ratios of PPO begin at 1. To the last bit they do only where
a pass of its own scores the responses, as many at a time as a gradient's pass takes (``together``):
products of matrices of another height add up in another order (2e-6 of a log-probability in single
precision, with a vocabulary of 32,000). Without it the log-probabilities are those that the tokens
were drawn by, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from linsys.validate import (
    InputError,
    check_choice,
    check_instance,
    check_integer,
    check_number,
    shown,
)
from lora_bridge import cards
from lora_bridge._batches import part_of_scale
from lora_bridge._checks import masks, tensors, texts_by_client, tokenizer_of, whole_numbers
from lora_bridge._decoding import clients_at_a_time, decode, end_tokens, positions
from lora_bridge._head import head_of
from lora_bridge._noise import token_keys
from lora_bridge.bank import AdapterBank, Batch, Loss
from lora_bridge.losses import token_log_likelihood
from lora_bridge.models import longest
from lora_bridge.tasks import check_tokens
from lora_bridge.templates import Layout

__all__ = [
    "check_prompts",
    "encode_prompts",
    "numbers_of",
    "prompt_tokens",
    "responses",
    "sample",
    "score",
]


def encode_prompts(
    tokenizer: Any,
    texts: Sequence[Sequence[str]],
    max_length: int = 512,
    *,
    too_long: str = "error",
    width: int | None = None,
    clients: Sequence[int] | None = None,
) -> dict[str, Tensor]:
    """The clients' prompts, padded on the left, in the form that the tokenizer says.

    Args:
        tokenizer: of :func:`lora_bridge.models.load_model`.
        texts: b prompts of each of N clients.
        max_length: tokens of the longest prompt that is taken.
        too_long: "error", or "cut" to drop tokens of a long prompt from its beginning, what all
            prompts have excepted.
        width: pad to so many tokens instead of the longest prompt's: where clients that are encoded
            apart must compute the same bits as together.
        clients: what errors call them; 0, 1, .. without it.

    Returns:
        ``input_ids`` and ``attention_mask``, shapes (N, b, P).

    Raises:
        InputError: no prompts, clients with different numbers of them, one that is empty or too
            long (by client and number).

    >>> from lora_bridge.docstrings import byte_tokenizer
    >>> encode_prompts(byte_tokenizer(), [["ab"], ["c"]])["attention_mask"]
    tensor([[[1, 1, 1]],
    <BLANKLINE>
            [[0, 1, 1]]])
    """
    check_integer("max_length", max_length, low=1)
    check_choice("too_long", too_long, ("error", "cut"))
    tokenizer_of(tokenizer)
    texts = texts_by_client("texts", texts)
    names = range(len(texts)) if clients is None else numbers_of(clients, len(texts))
    sizes = sorted({len(own) for own in texts})
    if len(sizes) != 1 or sizes[0] == 0:
        raise InputError(
            "`texts` must hold the same number of prompts, 1 or more, of every client; "
            f"found {sizes or 'no clients'}"
        )
    layout, rows = Layout(tokenizer), []
    for client, own in zip(names, texts, strict=True):
        for i, (row,) in enumerate(layout.rows(own, [()] * len(own))):
            length = len(row.ids)
            if not length or (length > max_length and too_long == "error"):
                raise InputError(
                    f"prompt {i} of client {client} must have 1 to max_length = {max_length} "
                    f"tokens; found {length}"
                )
            if row.fixed > max_length:
                raise InputError(
                    f"`max_length` must be at least the {row.fixed} tokens that the template "
                    f"puts around prompts; found {max_length}"
                )
            rows.append(row.cut(max_length).ids)
    most = max(map(len, rows))
    width = most if width is None else check_integer("width", width, low=most)
    pad = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    padded = torch.tensor([[pad] * (width - len(row)) + row for row in rows])
    mask = torch.arange(width) >= width - torch.tensor([len(row) for row in rows])[:, None]
    shape = (len(texts), -1, width)
    return {"input_ids": padded.reshape(shape), "attention_mask": mask.long().reshape(shape)}


def numbers_of(clients: Sequence[int], N: int) -> list[int]:
    """The numbers of N clients.

    Raises:
        InputError: no list, or one of another length; others than whole numbers of at least 0.
    """
    if isinstance(clients, str | Mapping | set) or not isinstance(clients, Iterable):
        raise InputError(f"`clients` must be a list of numbers; found {shown(clients)}")
    numbers = [check_integer("clients", client, low=0, high=(1 << 64) - 1) for client in clients]
    if len(numbers) != N:
        raise InputError(f"`clients` must be the numbers of {N} clients; found {len(numbers)}")
    return numbers


def prompt_tokens(tokenizer: Any, text: str) -> tuple[list[int], int]:
    """All tokens of a prompt, and how many of them begin every prompt, which are never cut."""
    row = Layout(tokenizer).prompt(text)
    return row.ids, row.kept


def check_prompts(bank: AdapterBank, prompts: Batch, length: int) -> None:
    """Check that :func:`sample` can answer these prompts; raises the errors that it would."""
    check_instance("bank", bank, AdapterBank, "an AdapterBank of the model")
    tensors("prompts", prompts)
    ids = whole_numbers("input_ids", prompts.get("input_ids"))
    mask = masks("attention_mask", prompts.get("attention_mask"))
    if head_of(bank.model) is None or not hasattr(bank.model, "generate"):
        raise InputError(
            f"`bank` must hold a causal language model; found {type(bank.model).__name__}"
        )
    if ids.ndim != 3 or mask.shape != ids.shape or 0 in ids.shape:
        raise InputError(
            "`prompts` must have input_ids and attention_mask of one shape (clients, samples, "
            f"tokens); found {tuple(ids.shape)} and {tuple(mask.shape)}"
        )
    if bool((mask[..., -1] == 0).any()) or bool((mask.diff(dim=-1) < 0).any()):
        raise InputError("`prompts` must be padded on the left alone; found padding after a token")
    check_tokens("`prompts`", bank.model, prompts)
    limit = longest(bank.model)
    needed = int(mask.sum(-1).max()) + length
    if limit is not None and needed > limit:
        raise InputError(
            f"prompt and response must have at most the model's {limit} tokens; found {needed}"
        )


def sample(
    bank: AdapterBank,
    X: Tensor | None,
    prompts: Batch,
    *,
    length: int,
    temperature: float = 1.0,
    seed: int,
    round_: int,
    scale: float | Tensor = 1.0,
    clients: Sequence[int] | None = None,
    together: int | None = None,
    at_a_time: int | None = None,
) -> dict[str, Tensor]:
    """A response of at most ``length`` tokens to every prompt, by the policy of its client.

    A response ends with the model's end token, if that is drawn; it belongs to the response.

    Args:
        bank: of a causal language model.
        X: the clients' adapters, shape (N, r, w); None for the base model.
        prompts: of :func:`encode_prompts`: padded on the left, leading axes (N, b).
        length: K, the most tokens of a response.
        temperature: of the policy; logits are divided by it.
        seed, round_: together with the client they name the random numbers.
        scale: as of the bank.
        clients: which clients the rows of X are; 0, 1, .. without it.
        together: score the responses in a pass of its own, so many of a client at a time, as
            gradients will; without it by what they were drawn from, which is the same to rounding.
        at_a_time: clients in that pass; as the bank does it otherwise.

    Returns:
        A batch of T = P + K tokens: ``input_ids``, ``attention_mask``, ``position_ids``,
        ``target_mask`` (1 on the response), all (N, b, T); ``target_places``, where the response's
        tokens are predicted (then -1), and their ``log_prob`` (then 0), both (N, b, K); ``hidden``,
        the states that they are predicted from (then 0), (N, b, K, h).

    Raises:
        InputError: no language model; prompts padded on the right, or too long for the model;
            padding that the model cannot handle, as Llama's eager attention in double precision:
            its softmax is in single precision, where the lowest double, the mask, is infinite;
            adapters that give no finite probabilities (by client).

    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> config = LlamaConfig(vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
    ...                      num_attention_heads=2)
    >>> bank = AdapterBank(LlamaForCausalLM(config), ["q_proj"])
    >>> prompts = {"input_ids": torch.ones(3, 2, 4, dtype=torch.long)}
    >>> prompts["attention_mask"] = torch.ones_like(prompts["input_ids"])
    >>> batch = sample(bank, torch.zeros(3, 1, bank.width), prompts, length=5, seed=0, round_=0)
    >>> batch["input_ids"].shape, batch["log_prob"].shape
    (torch.Size([3, 2, 9]), torch.Size([3, 2, 5]))
    """
    check_integer("length", length, low=1)
    check_number("temperature", temperature, low=0.0, low_open=True)
    check_prompts(bank, prompts, length)
    ids = prompts["input_ids"].to(bank.device)
    mask = prompts["attention_mask"].to(bank.device).long()
    N, b, _ = ids.shape
    names = range(N) if clients is None else numbers_of(clients, N)
    bank.check(X, {"input_ids": ids, "attention_mask": mask}, scale)
    keys = token_keys(names, b, length, seed, round_).to(bank.device)
    step = clients_at_a_time(bank, ids, length)

    def drawn(own: slice) -> tuple[Tensor, ...]:
        groups = (slice(i, min(i + step, own.stop)) for i in range(own.start, own.stop, step))
        parts = [
            decode(
                bank,
                None if X is None else X[part],
                ids[part],
                mask[part],
                keys[part],
                temperature,
                part_of_scale(scale, part),
            )
            for part in groups
        ]
        return tuple(
            torch.cat([getattr(part, name) for part in parts])
            for name in ("tokens", "log_prob", "hidden")
        )

    tokens, log_prob, hidden = cards.joined(N, drawn) if bank.divided else drawn(slice(0, N))
    batch = _assembled(bank, ids, mask, tokens)
    if together is not None:
        scoring = bank
        if at_a_time is not None:
            scoring = bank.with_options(memory=None, chunk=at_a_time)
        function = _scores_and_states(temperature)
        read = _read_in_parts(scoring, X, batch, function, scale, together)
        log_prob, hidden = read[..., 0], read[..., 1:]
    counted = batch["target_places"] >= 0  # elsewhere they are the padding's, or NaN
    batch["log_prob"] = log_prob.where(counted, 0.0)
    batch["hidden"] = hidden.to(log_prob).where(counted[..., None], 0.0)
    bad = batch["log_prob"].isfinite().flatten(1).all(1).logical_not()
    if bad.any():
        if bool((mask == 0).any()) and not _handles_padding(bank):
            raise InputError(
                "`prompts` must be of one length where the model's attention does not bear "
                "padding; found padding: use single precision, or attention='sdpa'"
            )
        at = names[int(bad.long().argmax())]
        raise InputError(f"`X` must give finite log-probabilities; found others at client {at}")
    return batch


def score(
    bank: AdapterBank,
    X: Tensor | None,
    batch: Batch,
    temperature: float = 1.0,
    scale: float | Tensor = 1.0,
    together: int | None = None,
) -> Tensor:
    """log pi of every token of the responses in a batch of :func:`sample`, (N, b, K); then 0.

    Without X under the base model, bit for bit: the reference of PPO. ``together`` as for
    :func:`sample`.
    """
    check_number("temperature", temperature, low=0.0, low_open=True)
    return _read_in_parts(
        bank,
        X,
        batch,
        lambda output, flat: token_log_likelihood(output, flat, temperature)[0],
        scale,
        together,
    )


def _read_in_parts(
    bank: AdapterBank,
    X: Tensor | None,
    batch: Batch,
    function: Loss,
    scale: float | Tensor,
    together: int | None,
) -> Tensor:
    b = batch["input_ids"].shape[1]
    step = b if together is None else check_integer("together", together, low=1)
    pieces = (slice(i, i + step) for i in range(0, b, step))
    return torch.cat(
        [
            bank.read(X, {name: value[:, part] for name, value in batch.items()}, function, scale)
            for part in pieces
        ],
        dim=1,
    )


def _scores_and_states(temperature: float) -> Loss:
    """Scores of a response and the states that critics see, from one pass: (.., K, 1 + h)."""

    def read(output: Any, flat: Batch) -> Tensor:
        log_prob = token_log_likelihood(output, flat, temperature)[0]
        return torch.cat([log_prob[..., None], output.hidden.to(log_prob)], -1)

    return read


def responses(tokenizer: Any, batch: Batch) -> list[list[str]]:
    """The responses of a batch of :func:`sample` as texts, without end tokens: N lists of b."""
    places = batch["target_places"]
    tokens = batch["input_ids"].gather(-1, places.clamp(min=0) + 1).flatten(0, 1).tolist()
    counts = (places >= 0).sum(-1).flatten().tolist()
    kept = [row[:count] for row, count in zip(tokens, counts, strict=True)]
    texts = tokenizer.batch_decode(
        kept, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    b = places.shape[1]
    return [texts[i : i + b] for i in range(0, len(texts), b)]


def _assembled(bank: AdapterBank, ids: Tensor, mask: Tensor, tokens: Tensor) -> dict[str, Tensor]:
    """Prompts (N, b, P) and tokens (N, b, K) as one batch; what follows an end token is padding."""
    N, b, length = tokens.shape
    P = ids.shape[-1]
    ending = torch.isin(tokens, end_tokens(bank))
    counted = ending.cumsum(-1) - ending.long() == 0
    pad = getattr(bank.model.config, "pad_token_id", None) or 0
    places = torch.arange(P - 1, P + length - 1, device=ids.device).expand(N, b, length)
    seen = torch.cat([mask, counted.to(mask)], -1)
    return {
        "input_ids": torch.cat([ids, tokens.where(counted, pad)], -1),
        "attention_mask": seen,
        "position_ids": positions(seen),
        "target_mask": torch.cat([torch.zeros_like(mask), counted.to(mask)], -1),
        "target_places": places.where(counted, -1),
    }


def _handles_padding(bank: AdapterBank) -> bool:
    """Whether the model's output at a token is finite where the one before is masked."""
    ids = torch.zeros(1, 2, dtype=torch.long, device=bank.device)
    mask = torch.tensor([[0, 1]], device=bank.device)
    with torch.no_grad():
        logits: Tensor = bank.run(None, {"input_ids": ids, "attention_mask": mask}).logits
    return bool(logits[:, -1].isfinite().all())
