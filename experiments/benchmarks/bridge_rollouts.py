"""Responses of clients' policies, each with an adapter of its own, against ``generate``.

``ratecheck bench bridge_rollouts`` times on SmolLM2-135M-Instruct, which ``ratecheck model
smollm2`` fetches (with ``--quick`` on the small built-in model);
``python -m experiments.benchmarks.bridge_rollouts`` also writes the tables under ``results/``.
Every client has an adapter of rank 8 on all matrices of attention and perceptron, and prompts in
the model's own form, each answered four times by as many tokens for everybody: nothing ends a
response. Four clients have four prompts each; eight, who want as many responses, have two, and
sixteen one.
Ours gives responses, their log-probabilities and the states they are predicted from.

The peers are transformers' ``generate`` with the model's cache, on a model with PEFT adapters,
sampling from the whole softmax. One adapter for all: the same rows in one batch, all by the first
client's adapter, which is less than what is wanted. Client by client: one batch for each, padded to
the client's own longest prompt, after ``set_adapter``. Ours and both peers run in turn on one core,
and times are of its processor alone. "Same result" means: at a temperature near zero ours chooses
the tokens of the peer's greedy search, with each client's adapter, and not those without one.

The last section says what the processor allows, for the multiplications and additions with the
model's matrices that cannot be left out (tokens of prompts that differ, once for a client, and
every token of a response), and for reading these matrices once for each token of the responses.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import ratecheck as rc
from experiments.benchmarks._timing import Duel, one_core
from experiments.benchmarks.affpcl import Measured
from experiments.benchmarks.bridge_pretrained import TARGETS, Words, distinct, one_thread, spent
from lora_bridge.bank import AdapterBank
from lora_bridge.models import load_model
from lora_bridge.peft_io import save_adapter
from lora_bridge.rollouts import encode_prompts, sample

__all__ = ["Generated", "Policies", "measure", "run"]

RANK, ALPHA = 8, 16
RESPONSES, TOKENS, ROUNDS = 4, 32, 4
#: Clients and the prompts of each.
SIZES = ((4, 4), (8, 2), (16, 1))
#: Nearly greedy: tokens part only where two logits are within some 10^-4.
COLD = 1e-5


class Policies:
    """The clients: a model without end tokens, their adapters and their prompts.

    Args:
        model, tokenizer: of :func:`lora_bridge.models.load_model`.
        clients, prompts: how many, and how many prompts each has.
    """

    def __init__(self, model: Any, tokenizer: Any, clients: int, prompts: int) -> None:
        model.generation_config.eos_token_id = model.config.eos_token_id = None
        say = Words(0)
        texts = [[f"{say(25, 35)}?" for _ in range(prompts)] for _ in range(clients)]
        self.prompts = encode_prompts(tokenizer, texts)
        self.pad = tokenizer.pad_token_id
        self.bank = AdapterBank(model, TARGETS, scaling=ALPHA / RANK)
        generator = torch.Generator().manual_seed(0)
        self.X = torch.randn(clients, RANK, self.bank.width, generator=generator).mul_(0.02)

    def respond(
        self, responses: int, tokens: int, temperature: float = 1.0, **options: Any
    ) -> Tensor:
        """The responses to each prompt, shape (clients, prompts x responses, tokens)."""
        prompts = {name: x.repeat_interleave(responses, 1) for name, x in self.prompts.items()}
        settings: dict[str, Any] = {"length": tokens, "temperature": temperature, **options}
        batch = sample(self.bank, self.X, prompts, seed=0, round_=0, **settings)
        return batch["input_ids"][..., -tokens:]


class Generated:
    """The peer: ``generate`` on a copy of the policies' model with their adapters by PEFT."""

    def __init__(self, policies: Policies) -> None:
        from peft import PeftModel

        self.policies, self.clients = policies, len(policies.X)
        model: Any = copy.deepcopy(policies.bank.model)
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for i, row in enumerate(policies.X):
                where = Path(folder, f"client{i}")
                save_adapter(where, policies.bank, row)
                if i == 0:
                    model = PeftModel.from_pretrained(model, str(where), adapter_name=where.name)
                else:
                    model.load_adapter(str(where), where.name)
        self.model: Any = model.eval()

    def one_for_all(self, responses: int, tokens: int, greedy: bool = False) -> Tensor:
        """Responses by the first client's adapter to all prompts, as :class:`Policies` has them."""
        self.model.set_adapter("client0")
        return self._of_all(responses, tokens, greedy)

    def each(self, responses: int, tokens: int, greedy: bool = False) -> Tensor:
        """Responses by each client's own adapter, one client after the other."""
        made = []
        for i in range(self.clients):
            self.model.set_adapter(f"client{i}")
            own = {name: x[i] for name, x in self.policies.prompts.items()}
            made.append(self._generated(own, responses, tokens, greedy))
        return torch.stack(made)

    def without(self, responses: int, tokens: int, greedy: bool = False) -> Tensor:
        """Responses by the model without adapters."""
        with self.model.disable_adapter():
            return self._of_all(responses, tokens, greedy)

    def _of_all(self, responses: int, tokens: int, greedy: bool) -> Tensor:
        """Responses to all prompts in one batch."""
        every = {name: x.flatten(0, 1) for name, x in self.policies.prompts.items()}
        return self._generated(every, responses, tokens, greedy).reshape(self.clients, -1, tokens)

    def _generated(
        self, prompts: dict[str, Tensor], responses: int, tokens: int, greedy: bool
    ) -> Tensor:
        padding = prompts["input_ids"].shape[1] - int(prompts["attention_mask"].sum(1).max())
        sampled = {} if greedy else {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
        with torch.no_grad():
            made: Tensor = self.model.generate(
                **{name: x[:, padding:] for name, x in prompts.items()},
                do_sample=not greedy,
                num_return_sequences=responses,
                max_new_tokens=tokens,
                pad_token_id=self.policies.pad,
                **sampled,
            )
        assert made.shape[1] == prompts["input_ids"].shape[1] - padding + tokens
        return made[:, -tokens:]


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes the built-in model and fewer tokens."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread, and the limit of the machine."""
    measured = Measured()
    tokens = 4 if quick else TOKENS
    with one_core(), one_thread():
        for clients, prompts in SIZES:
            loaded = load_model(None if quick else "smollm2")
            policies = Policies(loaded.model, loaded.tokenizer, clients, prompts)
            _compare(measured, policies, tokens, 3 if quick else 8)
    return measured


def _compare(measured: Measured, policies: Policies, tokens: int, checked: int) -> None:
    """Ours and both peers in turn."""
    peer = Generated(policies)
    correct = same_tokens(policies, peer, checked)
    ours: Callable[[], Tensor] = partial(policies.respond, RESPONSES, tokens)
    apart = partial(policies.respond, RESPONSES, tokens, together=RESPONSES)
    theirs = {
        "generate, one adapter for all": partial(peer.one_for_all, RESPONSES, tokens),
        "generate, client by client": partial(peer.each, RESPONSES, tokens),
    }
    ours()  # compiles
    times: dict[str, list[float]] = {"ours": [], **{name: [] for name in theirs}}
    for _ in range(ROUNDS):
        times["ours"].append(spent(ours))
        for name, call in theirs.items():
            times[name].append(spent(call))
    clients, rows = peer.clients, RESPONSES * policies.prompts["input_ids"][..., 0].numel()
    what = f"{rows} responses of {tokens} tokens by {clients} clients"
    best = min(times["ours"])
    for name in theirs:
        row = rc.BenchRow(what, name, best, min(times[name]), correct)
        measured.add(row, **Duel(times["ours"], times[name]).summary(1))
    least = min(times["generate, one adapter for all"])
    measured.details[f"ours, further, {clients} clients"] = {
        "tokens a second of the processor": rows * tokens / best,
        "tokens a second of generate with one adapter": rows * tokens / least,
        "seconds with a pass of its own that scores": spent(apart),
    }
    measured.details[f"limit of the machine, {clients} clients"] = _limit(policies, tokens, best)


def same_tokens(policies: Policies, peer: Generated, tokens: int) -> bool:
    """Whether ours is the peer's greedy search by each client's adapter, and by no other model."""
    ours = policies.respond(1, tokens, temperature=COLD)
    return torch.equal(ours, peer.each(1, tokens, greedy=True)) and not torch.equal(
        ours, peer.without(1, tokens, greedy=True)
    )


def _limit(policies: Policies, tokens: int, seconds: float) -> dict[str, float]:
    """What share of the processor's speed, and of its memory's, the rollouts reach."""
    model: Any = policies.bank.model
    layers = sum(p.numel() for n, p in model.named_parameters() if "layers." in n)
    head = model.get_output_embeddings().weight
    ids, mask = policies.prompts["input_ids"], policies.prompts["attention_mask"]
    rows = RESPONSES * ids[..., 0].numel()
    read = sum(distinct(own, inside) for own, inside in zip(ids, mask, strict=True))
    read += rows * (tokens - 1)  # nothing follows a response's last token
    operations = 2 * (read * layers + rows * tokens * head.numel())
    x = torch.randn(1024, 1024)
    speed = 2 * len(x) ** 3 / min(spent(lambda: x @ x) for _ in range(20))
    large = torch.randn(64 << 20)  # 256 MB, more than any cache holds
    bandwidth = large.nbytes / min(spent(large.sum) for _ in range(10))
    weights = 4 * (layers + head.numel())
    return {
        "tokens of all rows' prompts": int(mask.sum()) * RESPONSES,
        "tokens of prompts that have to be computed": read - rows * (tokens - 1),
        "operations a second in one product": speed,
        "bytes a second from memory": bandwidth,
        "seconds for the operations": operations / speed,
        "seconds for reading the matrices": tokens * weights / bandwidth,
        "share of the processor's speed that is reached": operations / speed / seconds,
    }


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("bridge_rollouts", measure("--quick" in sys.argv))
