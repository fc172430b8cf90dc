"""Rounds of clients on a pretrained model with chat prompts, against PEFT's adapters switched.

``ratecheck bench bridge_pretrained`` times on SmolLM2-135M-Instruct, which ``ratecheck model
smollm2`` fetches (with ``--quick`` on the small built-in model);
``python -m experiments.benchmarks.bridge_pretrained`` also writes the tables under ``results/``.
Clients have rank 8 on all matrices of attention and perceptron, and samples in the model's own
form: questions with four choices (FSLoRA's devices) and preference pairs (P-ShareLoRA's users).

The peer is one model with a named PEFT adapter for each client, tuned: a client's samples are
padded to its own longest one, keys and values are not cached, the product with the vocabulary is
computed at the scored tokens alone, and torch's fused AdamW makes the steps. Ours does the same for
all clients, and computes tokens that samples of a client begin with once.

A round is two local steps of AdamW of every client, then the mean of all adapters. Ours and the
peer run in turn on one core; "same result" means: gradients, or how far adapters went, to 1e-3.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

import ratecheck as rc
from experiments.benchmarks._timing import duel, one_core, seconds
from experiments.benchmarks.affpcl import Measured
from linsys.optimizers import Moments, adamw
from lora_bridge.bank import AdapterBank
from lora_bridge.data import Example, Pair
from lora_bridge.docstrings import docstrings
from lora_bridge.losses import answer_loss, policy_preference_loss
from lora_bridge.models import load_model
from lora_bridge.tokens import encode_examples, encode_pairs

__all__ = ["Clients", "measure", "pairs", "questions", "run"]

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "gate_proj", "down_proj"]
RANK, ALPHA, GAMMA, STEPS = 8, 16, 1e-3, 2
CLIENTS, SAMPLES = 4, 4


def questions(count: int, seed: int = 0) -> list[Example]:
    """Questions of 15 to 40 words with four choices of 3 to 10, as long as ARC's."""
    say = _Words(seed)
    made = []
    for i in range(count):
        listed = " ".join(f"Answer{j + 1}: {say(3, 10)}." for j in range(4))
        names = tuple(f"answer{j + 1}" for j in range(4))
        prompt = (
            f"Please choose the correct answer to the question: {say(15, 40)}?\n\n{listed}\n\n"
            f"Answer format: {'/'.join(names)}\nAnswer: "
        )
        made.append(Example(prompt, names[i % 4], names))
    return made


def pairs(count: int, seed: int = 0) -> list[Pair]:
    """Prompts of 15 to 60 words with two answers of 10 to 30."""
    say = _Words(seed)
    return [Pair(f"{say(15, 60)}?", say(10, 30), say(10, 30)) for _ in range(count)]


class _Words:
    """Words in a row of Python's docstrings, so many as are asked for."""

    def __init__(self, seed: int) -> None:
        self._words = docstrings().split()
        self._rng = np.random.default_rng(seed)

    def __call__(self, low: int, high: int) -> str:
        count = int(self._rng.integers(low, high + 1))
        start = int(self._rng.integers(len(self._words) - count))
        return " ".join(self._words[start : start + count])


class Clients:
    """Clients with samples of one kind, by the bank and by PEFT.

    Args:
        model, tokenizer: of :func:`lora_bridge.models.load_model`.
        samples: of all clients, questions or pairs, as many of each.
    """

    def __init__(
        self, model: Any, tokenizer: Any, samples: Sequence[Example] | Sequence[Pair]
    ) -> None:
        compared = isinstance(samples[0], Pair)
        encode: Any = encode_pairs if compared else encode_examples
        encoded = encode(tokenizer, samples, too_long="cut")
        self.batch = {
            name: value.reshape(CLIENTS, -1, *value.shape[1:]) for name, value in encoded.items()
        }
        self.loss: Any = policy_preference_loss if compared else answer_loss
        self.compared = compared
        self.bank = AdapterBank(model, TARGETS, scaling=ALPHA / RANK)
        generator = torch.Generator().manual_seed(0)
        self.X = torch.randn(CLIENTS, RANK, self.bank.width, generator=generator).mul_(0.01)

    def gradients(self) -> Tensor:
        """The gradients of all clients by the bank, (N, r, w)."""
        return self.bank.gradients(self.X, self.batch, self.loss)[1]

    def round(self) -> Tensor:
        """How far the mean adapter (r, w) goes in a round of ours."""
        X, moments = self.X, Moments(torch.zeros_like(self.X), torch.zeros_like(self.X), 0)
        for _ in range(STEPS):
            G = self.bank.gradients(X, self.batch, self.loss)[1]
            X, moments = adamw(X, G, moments, GAMMA, 0.0)
        return (X - self.X).mean(0)

    def switching(self) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        """Gradients and round of named adapters on the same model."""
        model = self._peft()
        for i in range(CLIENTS):
            if i:
                model.add_adapter(_name(i), model.peft_config[_name(0)])
            with torch.no_grad():
                parts = [part for pair in self.bank.modules.split(self.X[i]) for part in pair]
                for weight, part in zip(self._weights(model, i), parts, strict=True):
                    weight.copy_(part)

        def one(i: int) -> list[Tensor]:
            model.set_adapter(_name(i))
            return list(torch.autograd.grad(self._loss(model, i), self._weights(model, i)))

        def gradients() -> Tensor:
            return torch.stack([self._join(one(i)) for i in range(CLIENTS)])

        def round_() -> Tensor:
            ways = []
            for i in range(CLIENTS):
                weights = self._weights(model, i)
                start = [weight.detach().clone() for weight in weights]
                optimizer = torch.optim.AdamW(weights, lr=GAMMA, weight_decay=0.0, fused=True)
                for _ in range(STEPS):
                    for weight, gradient in zip(weights, one(i), strict=True):
                        weight.grad = gradient
                    optimizer.step()
                moved = [w.detach() - before for w, before in zip(weights, start, strict=True)]
                ways.append(self._join(moved))
                with torch.no_grad():
                    for weight, before in zip(weights, start, strict=True):
                        weight.copy_(before)
            return torch.stack(ways).mean(0)

        return gradients, round_

    def _loss(self, model: Any, i: int) -> Tensor:
        """The mean loss of a client, with logits at its scored tokens alone."""
        ids, mask, target = (
            self.batch[name][i].reshape(-1, self.batch[name].shape[-1])
            for name in ("input_ids", "attention_mask", "target_mask")
        )
        longest = int(mask.sum(1).max())
        ids, mask, target = ids[:, :longest], mask[:, :longest], target[:, :longest]
        causal = model.base_model.model
        hidden = causal.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        row, place = torch.nonzero(target[:, 1:], as_tuple=True)
        logits = causal.lm_head(hidden[row, place])
        losses = cross_entropy(logits, ids[row, place + 1], reduction="none")
        sums = losses.new_zeros(len(ids)).index_add(0, row, -losses)  # log-likelihoods
        if self.compared:
            each: Tensor = -logsigmoid(sums[0::2] - sums[1::2])
        else:
            each = sums / -target[:, 1:].sum(1)
        return each.mean()

    def _peft(self) -> Any:
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=TARGETS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return get_peft_model(
                self.bank.model, config, adapter_name=_name(0), autocast_adapter_dtype=False
            ).eval()

    def _weights(self, model: Any, i: int) -> list[Any]:
        """B and A of every module."""
        places = [model.get_submodule(f"base_model.model.{n}") for n in self.bank.names]
        return [side[_name(i)].weight for m in places for side in (m.lora_B, m.lora_A)]

    def _join(self, parts: list[Tensor]) -> Tensor:
        joined: Tensor = self.bank.modules.join(list(zip(parts[::2], parts[1::2], strict=True)))
        return joined


def _name(i: int) -> str:
    return f"client{i}"


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes the built-in model and fewer repetitions."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread."""
    measured, threads = Measured(), torch.get_num_threads()
    budget = 0.3 if quick else 30.0
    with one_core():
        torch.set_num_threads(1)
        try:
            for kind, make in (("questions", questions), ("pairs", pairs)):
                ours, theirs = (_clients(make(CLIENTS * SAMPLES), quick) for _ in range(2))
                gradients, round_ = theirs.switching()
                what = f"{kind}, {CLIENTS} clients with {SAMPLES} each"
                _row(measured, f"gradients: {what}", ours.gradients, gradients, budget)
                _row(measured, f"a round: {what}", ours.round, round_, budget)
        finally:
            torch.set_num_threads(threads)
    return measured


def _clients(samples: Sequence[Example] | Sequence[Pair], quick: bool) -> Clients:
    loaded = load_model(None if quick else "smollm2")
    return Clients(loaded.model, loaded.tokenizer, samples)


def _row(
    measured: Measured,
    name: str,
    ours: Callable[[], Tensor],
    theirs: Callable[[], Tensor],
    budget: float,
) -> None:
    mine, other = ours(), theirs()
    correct = bool((mine - other).norm() <= 1e-3 * other.norm())
    times = duel(lambda: seconds(ours), lambda: seconds(theirs), budget)
    row = rc.BenchRow(name, "PEFT switching, tuned", min(times.ours), min(times.peer), correct)
    measured.add(row, **times.summary(1))


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("bridge_pretrained", measure("--quick" in sys.argv))
