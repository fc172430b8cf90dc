"""Losses of a model's output on a batch, one value per sample: see ``Loss`` of the bank.

They are computed from logits in the precision of the model: transformers' own ``loss`` is always
single precision.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from linsys.validate import InputError
from lora_bridge._head import at_places, target_places
from lora_bridge.bank import Batch

__all__ = [
    "answer_loss",
    "choice_error",
    "class_loss",
    "log_likelihood",
    "policy_preference_loss",
    "reward_error",
    "reward_preference_loss",
    "sequence_rewards",
    "token_log_likelihood",
]


#: Stands for a token that is not predicted.
_IGNORED = -100


def token_log_likelihood(
    output: Any, batch: Batch, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """log pi of every target token given those before it, and which entries are tokens.

    Both (sequences, K), in order; 0 and False after a sequence's last target token. Needs
    ``target_mask`` of :mod:`lora_bridge.tokens`; with ``target_places``, logits are at these places
    alone, as the bank gives them. Without, K is one less than the tokens of a sequence.

    Args:
        output: has ``logits``.
        batch: of one axis of sequences, or of one of samples before it.
        temperature: logits are divided by it.
    """
    ids, logits = batch["input_ids"], output.logits
    if "target_places" in batch:
        places = batch["target_places"]
    else:
        # the same K for every part of a batch, and one that is known under vmap
        places = target_places(batch["target_mask"].reshape(ids.shape), ids.shape[1] - 1)
        logits = at_places(logits, places)
    following, counted = _following(ids, places)
    return -_losses_at(logits, following, temperature), counted


def log_likelihood(output: Any, batch: Batch, normalized: bool = False) -> Tensor:
    """log pi(target | prompt) of every sequence; divided by the target's tokens if asked."""
    return -_sequence_loss(output, batch, normalized)


def _sequence_loss(output: Any, batch: Batch, normalized: bool) -> Tensor:
    ids = batch["input_ids"]
    if "target_places" in batch:
        following, counted = _following(ids, batch["target_places"])
    else:  # in a sum their order does not matter, and logits need no copy
        counted = batch["target_mask"].reshape(ids.shape)[:, 1:] == 1
        following = functional.pad(ids[:, 1:].where(counted, _IGNORED), (0, 1), value=_IGNORED)
    total = _losses_at(output.logits, following).sum(-1)
    return total / counted.sum(-1) if normalized else total


def _following(ids: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens (sequences, K) after ``places``, and which of them are tokens."""
    places = places.reshape(len(ids), -1)
    counted = places >= 0
    return ids.gather(1, places.clamp(min=0) + 1).where(counted, _IGNORED), counted


def _losses_at(logits: Tensor, tokens: Tensor, temperature: float = 1.0) -> Tensor:
    """-log pi, of logits (sequences, K, V) at tokens (sequences, K); 0 for those to be ignored."""
    if logits.element_size() < 4:  # sums over a vocabulary need single precision
        logits = logits.float()
    if temperature != 1.0:
        logits = logits / temperature
    losses = functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]),
        tokens.reshape(-1),
        reduction="none",
        ignore_index=_IGNORED,
    )
    return losses.reshape(tokens.shape)


def answer_loss(output: Any, batch: Batch) -> Tensor:
    """Mean cross-entropy of the target's tokens."""
    return _sequence_loss(output, batch, normalized=True)


def choice_error(output: Any, batch: Batch) -> Tensor:
    """1 where the likeliest choice, per token, is not the right one; of ``encode_choices``."""
    likelihood = log_likelihood(output, batch, normalized=True)
    chosen = likelihood.reshape(len(batch["answer"]), -1).argmax(-1)
    return (chosen != batch["answer"]).to(likelihood.dtype)


def class_loss(output: Any, batch: Batch) -> Tensor:
    """Cross-entropy of ``label``."""
    return functional.cross_entropy(output.logits, batch["label"], reduction="none")


def reward_preference_loss(output: Any, batch: Batch) -> Tensor:
    """-log sigmoid(r(chosen) - r(rejected)) of a reward model, on ``encode_pairs``."""
    return -functional.logsigmoid(_margin(sequence_rewards(output)))


def reward_error(output: Any, batch: Batch) -> Tensor:
    """1 where the rejected answer has the larger reward, 1/2 where both have the same."""
    margin = _margin(sequence_rewards(output))
    return (1 - torch.sign(margin)) / 2


def policy_preference_loss(output: Any, batch: Batch) -> Tensor:
    """-log sigmoid(log pi(chosen) - log pi(rejected)) of a language model, (7) of OOD-PL."""
    return -functional.logsigmoid(_margin(log_likelihood(output, batch)))


def sequence_rewards(output: Any) -> Tensor:
    """The output of a reward model for every sequence, (sequences,).

    Raises:
        InputError: a model with another output, such as a language model or a classifier of two.
    """
    logits: Tensor = output.logits
    if logits.ndim != 2 or logits.shape[1] != 1:
        raise InputError(
            "a reward model must give one number for each sequence; "
            f"found shape {tuple(logits.shape)}: load it with task='reward'"
        )
    return logits[:, 0]


def _margin(values: Tensor) -> Tensor:
    """First minus second of every pair: sequences alternate."""
    if len(values) % 2:
        raise InputError(
            f"a batch must be of pairs, as of `encode_pairs`; found {len(values)} texts"
        )
    return values[0::2] - values[1::2]
