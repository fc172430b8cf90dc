"""Whole rounds on a pretrained model with chat prompts, against PEFT's adapters switched.

``ratecheck bench bridge_pretrained`` times on SmolLM2-135M-Instruct, which ``ratecheck model
smollm2`` fetches (with ``--quick`` on the small built-in model);
``python -m experiments.benchmarks.bridge_pretrained`` also writes the tables under ``results/``.
Clients have rank 8 on all matrices of attention and perceptron, and samples in the model's own
form: questions with four choices (FSLoRA's devices) and preference pairs (P-ShareLoRA's users and
AffPCL's agents).

The peer is one model with a named PEFT adapter for each client, tuned: a client's samples are
padded to its own longest one, keys and values are not cached, the product with the vocabulary is
computed at the scored tokens alone, and torch's fused AdamW makes the steps. Ours does the same for
all clients, and computes tokens that samples of a client begin with once.

A round of FSLoRA and P-ShareLoRA is two local steps of AdamW of every client, then the mean of all
adapters; one of AffPCL is equation (8) with a central objective that is known, on observations
whose gradients either side computes. Ours and the peer run in turn on one core, and times are of
its processor alone, as the machine may do other work. "Same result" means: how far the adapters go
is as near to what the peer finds in float64 as the peer in float32 is, up to a factor of 2. (AdamW
divides every entry of a gradient by its length, so that small ones bring their rounding with them.)

The last section says what the processor allows: the share of its speed in one product of matrices
of the model's size that a whole round of ours reaches, counting two passes over the weights (the
states forwards, their gradients backwards) for each token that a client has to compute.
"""

from __future__ import annotations

import gc
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, logsigmoid

import ratecheck as rc
from experiments.benchmarks._timing import duel, one_core
from experiments.benchmarks.affpcl import Measured
from linsys.algorithms import AffPCL, AffPCLState, StepSizes
from linsys.optimizers import Moments, adamw
from lora_bridge.affpcl import Agents, TextObservation, policy_logits, soft_cross_entropy
from lora_bridge.bank import AdapterBank, Loss
from lora_bridge.data import Example, Pair
from lora_bridge.docstrings import docstrings
from lora_bridge.losses import answer_loss, policy_preference_loss
from lora_bridge.models import load_model
from lora_bridge.tasks import Task
from lora_bridge.tokens import encode_examples, encode_pairs

__all__ = [
    "Clients",
    "Switched",
    "Words",
    "distinct",
    "measure",
    "one_thread",
    "pairs",
    "questions",
    "run",
    "spent",
]

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "gate_proj", "down_proj"]
RANK, ALPHA, GAMMA, STEPS = 8, 16, 1e-3, 2
CLIENTS, SAMPLES = 4, 4
FEATURES = 8


def questions(count: int, seed: int = 0) -> list[Example]:
    """Questions of 15 to 40 words with four choices of 3 to 10, as long as ARC's."""
    say = Words(seed)
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
    say = Words(seed)
    return [Pair(f"{say(15, 60)}?", say(10, 30), say(10, 30)) for _ in range(count)]


class Words:
    """Words in a row of Python's docstrings, so many as are asked for."""

    def __init__(self, seed: int) -> None:
        self._words = docstrings().split()
        self._rng = np.random.default_rng(seed)

    def __call__(self, low: int, high: int) -> str:
        """From ``low`` to ``high`` words."""
        count = int(self._rng.integers(low, high + 1))
        start = int(self._rng.integers(len(self._words) - count))
        return " ".join(self._words[start : start + count])


class Clients:
    """Clients with samples of one kind, and the methods' rounds on them.

    Args:
        model, tokenizer: of :func:`lora_bridge.models.load_model`.
        samples: of all clients, questions or pairs, as many of each.
    """

    def __init__(
        self, model: Any, tokenizer: Any, samples: Sequence[Example] | Sequence[Pair]
    ) -> None:
        self.compared = isinstance(samples[0], Pair)
        encode: Any = encode_pairs if self.compared else encode_examples
        encoded = encode(tokenizer, samples, too_long="cut")
        self.batch = {
            name: value.reshape(CLIENTS, -1, *value.shape[1:]) for name, value in encoded.items()
        }
        self.loss: Loss = policy_preference_loss if self.compared else answer_loss
        self.bank = AdapterBank(model, TARGETS, scaling=ALPHA / RANK)
        generator = torch.Generator().manual_seed(0)
        self.X = torch.randn(CLIENTS, RANK, self.bank.width, generator=generator).mul_(0.01)

    def gradients(self, X: Tensor) -> Tensor:
        """The gradients of all clients by the bank, (N, r, w)."""
        return self.bank.gradients(X, self.batch, self.loss)[1]

    def round(self) -> Tensor:
        """How far the mean adapter (r, w) goes in a round of local steps by ours."""
        X, moments = self.X, Moments(torch.zeros_like(self.X), torch.zeros_like(self.X), 0)
        for _ in range(STEPS):
            X, moments = adamw(X, self.gradients(X), moments, GAMMA, 0.0)
        return (X - self.X).mean(0)

    def affpcl(self, peer: Switched | None = None) -> Tensor:
        """How far all agents' points (n, d) go in a round of AffPCL, by ours or by a peer."""
        generator = torch.Generator().manual_seed(1)
        size = self.batch["input_ids"].shape[1]
        targets = torch.rand(CLIENTS, size, generator=generator)
        seen = {
            **self.batch,
            "label_probabilities": torch.stack([targets, 1 - targets], dim=-1).to(self.X.dtype),
            "features": torch.randn(CLIENTS, size, FEATURES, generator=generator).to(self.X.dtype),
        }
        shards = [{name: value[i] for name, value in seen.items()} for i in range(CLIENTS)]
        agents = Agents(Task(self.bank, shards, soft_cross_entropy(policy_logits), batch=size))
        observed = (
            TextObservation(agents, seen) if peer is None else _Switching(agents, seen, peer=peer)
        )
        x = self.X.flatten(1)
        theta = torch.randn(1, agents.p, generator=generator).mul_(0.1).to(x.dtype)
        algorithm = AffPCL(objective="known", ratio="none")
        state = AffPCLState(x, x.mean(0, keepdim=True), theta)
        sizes = StepSizes(GAMMA, GAMMA, GAMMA, GAMMA)
        moved: Tensor = algorithm.personal(algorithm.update(state, [observed], sizes)) - x
        return moved


class Switched:
    """The peer: named PEFT adapters on the model of ``clients``, one at a time."""

    def __init__(self, clients: Clients) -> None:
        from peft import LoraConfig, get_peft_model

        self.clients = clients
        config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=TARGETS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model: Any = get_peft_model(
                clients.bank.model, config, adapter_name=_name(0), autocast_adapter_dtype=False
            ).eval()
        for i in range(1, CLIENTS):
            self.model.add_adapter(_name(i), config)
        names = clients.bank.names
        places: list[Any] = [self.model.get_submodule(f"base_model.model.{n}") for n in names]
        self.weights: list[list[Tensor]] = [
            [side[_name(i)].weight for m in places for side in (m.lora_B, m.lora_A)]
            for i in range(CLIENTS)
        ]
        self.fill(clients.X)

    def fill(self, X: Tensor) -> None:
        """Make X (N, r, w) the adapters."""
        with torch.no_grad():
            for row, weights in zip(X, self.weights, strict=True):
                parts = [part for pair in self.clients.bank.modules.split(row) for part in pair]
                for weight, part in zip(weights, parts, strict=True):
                    weight.copy_(part)

    def gradients(self, wanted: Tensor | None = None) -> Tensor:
        """The gradients of all clients, (N, r, w); against probabilities (N, b, 2) if given."""
        rows = [self._gradient(i, None if wanted is None else wanted[i]) for i in range(CLIENTS)]
        return torch.stack([self._joined(row) for row in rows])

    def double(self) -> Switched:
        """This model and its adapters, turned into float64 in place."""
        self.model.double()
        self.clients.X = self.clients.X.double()
        return self

    def round(self) -> Tensor:
        """How far the mean adapter (r, w) goes in a round of local steps."""
        ways = []
        for i, weights in enumerate(self.weights):
            start = [weight.detach().clone() for weight in weights]
            optimizer = torch.optim.AdamW(weights, lr=GAMMA, weight_decay=0.0, fused=True)
            for _ in range(STEPS):
                for weight, gradient in zip(weights, self._gradient(i), strict=True):
                    weight.grad = gradient
                optimizer.step()
            moved = [w.detach() - before for w, before in zip(weights, start, strict=True)]
            ways.append(self._joined(moved))
            with torch.no_grad():
                for weight, before in zip(weights, start, strict=True):
                    weight.copy_(before)
        return torch.stack(ways).mean(0)

    def _gradient(self, i: int, wanted: Tensor | None = None) -> list[Tensor]:
        self.model.set_adapter(_name(i))
        return list(torch.autograd.grad(self._loss(i, wanted), self.weights[i]))

    def _loss(self, i: int, wanted: Tensor | None) -> Tensor:
        """The mean loss of a client, with logits at its scored tokens alone."""
        batch = self.clients.batch
        ids, mask, target = (
            batch[name][i].reshape(-1, batch[name].shape[-1])
            for name in ("input_ids", "attention_mask", "target_mask")
        )
        longest = int(mask.sum(1).max())
        ids, mask, target = ids[:, :longest], mask[:, :longest], target[:, :longest]
        causal = self.model.base_model.model
        hidden = causal.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        row, place = torch.nonzero(target[:, 1:], as_tuple=True)
        logits = causal.lm_head(hidden[row, place])
        losses = cross_entropy(logits, ids[row, place + 1], reduction="none")
        sums = losses.new_zeros(len(ids)).index_add(0, row, -losses)  # log-likelihoods
        if wanted is not None:
            return cross_entropy(sums.reshape(-1, 2), wanted)
        if self.clients.compared:
            return -logsigmoid(sums[0::2] - sums[1::2]).mean()
        each: Tensor = sums / -target[:, 1:].sum(1)
        return each.mean()

    def _joined(self, parts: list[Tensor]) -> Tensor:
        pairs = list(zip(parts[::2], parts[1::2], strict=True))
        joined: Tensor = self.clients.bank.modules.join(pairs)
        return joined


@dataclass(frozen=True, eq=False)
class _Switching(TextObservation):
    """An observation whose gradients the peer computes."""

    peer: Switched | None = None

    def _gradient(self, x: Tensor, wanted: Tensor) -> Tensor:
        assert self.peer is not None
        self.peer.fill(self.agents.rows(x))
        return self.peer.gradients(wanted).flatten(1)


def _name(i: int) -> str:
    return f"client{i}"


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes the built-in model and fewer repetitions."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread, and the limit of the machine."""
    measured = Measured()
    with one_core(), one_thread():
        for kind, make in (("questions", questions), ("pairs", pairs)):
            _measure(measured, kind, make(CLIENTS * SAMPLES), quick)
            gc.collect()  # models are in circles of references
    return measured


def _measure(
    measured: Measured, kind: str, samples: Sequence[Example] | Sequence[Pair], quick: bool
) -> None:
    """Add the rows of one kind of samples; its models go when it is done."""
    wanted = _exact(samples, quick)
    ours, peer = _clients(samples, quick), Switched(_clients(samples, quick))
    what = f"{CLIENTS} clients with {SAMPLES} {kind} each"
    name = f"{'P-ShareLoRA' if ours.compared else 'FSLoRA'}: {what}"
    seconds = _row(measured, name, ours.round, peer.round, wanted[0], quick)
    measured.details[f"limit of the machine, {kind}"] = _limit(ours, seconds)
    if ours.compared:
        theirs = partial(peer.clients.affpcl, peer)
        _row(measured, f"AffPCL: {what}", ours.affpcl, theirs, wanted[1], quick)


def _exact(samples: Sequence[Example] | Sequence[Pair], quick: bool) -> list[Tensor]:
    """What the peer finds in float64, a round of local steps and with pairs one of AffPCL."""
    peer = Switched(_clients(samples, quick)).double()
    moves = [peer.round(), *([peer.clients.affpcl(peer)] if peer.clients.compared else [])]
    del peer
    gc.collect()
    return moves


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, torch computes in this thread alone."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _clients(samples: Sequence[Example] | Sequence[Pair], quick: bool) -> Clients:
    loaded = load_model(None if quick else "smollm2")
    return Clients(loaded.model, loaded.tokenizer, samples)


def _row(
    measured: Measured,
    name: str,
    ours: Callable[[], Tensor],
    theirs: Callable[[], Tensor],
    wanted: Tensor,
    quick: bool,
) -> float:
    """Add a row; the seconds that ours takes."""
    errors = [float((one() - wanted).norm() / wanted.norm()) for one in (ours, theirs)]
    correct = errors[0] <= 2.0 * errors[1] < 0.1
    measured.details[f"{name}, from float64"] = {"ours": errors[0], "the peer": errors[1]}
    times = duel(lambda: spent(ours), lambda: spent(theirs), 0.3 if quick else 60.0)
    row = rc.BenchRow(name, "PEFT switching, tuned", min(times.ours), min(times.peer), correct)
    measured.add(row, **times.summary(1))
    return min(times.ours)


def spent(call: Callable[[], Any]) -> float:
    """Seconds of the processor that one call takes."""
    start = time.process_time()
    call()
    return time.process_time() - start


def _limit(clients: Clients, seconds: float) -> dict[str, float]:
    """What share of the processor's speed a round of local steps reaches."""
    model: Any = clients.bank.model
    layers = sum(p.numel() for n, p in model.named_parameters() if "layers." in n)
    head = model.get_output_embeddings().weight
    batch = clients.batch
    tokens = sum(
        distinct(batch["input_ids"][i], batch["attention_mask"][i]) for i in range(CLIENTS)
    )
    scored = int(batch["target_mask"].sum())
    operations = 2 * 2 * STEPS * (tokens * layers + scored * head.numel())
    x, W = torch.randn(512, head.shape[1]), torch.randn(3 * head.shape[1], head.shape[1])
    product = min(spent(lambda: linear(x, W)) for _ in range(50))
    speed = 2 * x.shape[0] * W.numel() / product
    return {
        "tokens of all samples": int(batch["attention_mask"].sum()),
        "tokens that have to be computed": tokens,
        "operations a second in one product": speed,
        "share of it that a round reaches": operations / seconds / speed,
    }


def distinct(ids: Tensor, mask: Tensor) -> int:
    """How many tokens of a client differ in themselves or in those before them."""
    begun = set()
    for row, inside in zip(
        ids.reshape(-1, ids.shape[-1]), mask.reshape(-1, ids.shape[-1]), strict=True
    ):
        tokens = tuple(row[inside != 0].tolist())
        begun |= {tokens[:end] for end in range(1, len(tokens) + 1)}
    return len(begun)


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("bridge_pretrained", measure("--quick" in sys.argv))
