"""Gradients and rounds of many LoRA clients on one model, against copies and adapter switching.

``ratecheck bench bridge`` times; ``python -m experiments.benchmarks.bridge`` also writes the tables
under ``results/``. N clients with rank 8 on the query and value projections of Llama-shaped models
with random weights. The peers:

* *deep copies*: a model per client, each wrapped by PEFT, with transformers' own loss of labels, as
  public codes of the papers have it;
* *tuned copies*: the same without a cache of keys and values, with logits at the scored tokens
  alone and torch's fused optimizer, which public codes do without;
* *PEFT switching*: one model with N named adapters, ``set_adapter`` before each client's pass;
* *sequential*: our bank with one client at a time.

*Overhead-bound*: so small that calls cost more than arithmetic; *compute-bound*: the reverse, with
two clients at a time in our bank, whose activations stay in a core's cache. Of a compute-bound
model's work the vocabulary's part is 2 %, all tokens being scored, or 21 % as in a Llama of 1 B
parameters, an eighth of the tokens being scored as in questions with short answers. A round is five
AdamW steps of every client, then the mean of all adapters. Ours and a peer run in turn on one core.
"Same result" means: gradients, or the next adapters, to 1e-5 of the largest.

*Memory* is that of a process that has computed a gradient of every client, with one client at a
time in our bank: what more clients at a time add are their activations.
"""

from __future__ import annotations

import copy
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import ratecheck as rc
from experiments.benchmarks._timing import duel, one_core, seconds
from experiments.benchmarks.affpcl import Measured
from linsys.optimizers import Moments, adamw
from lora_bridge.bank import AdapterBank
from lora_bridge.losses import answer_loss

__all__ = ["Clients", "Sizes", "measure", "model_of", "run"]

TARGETS, RANK, ALPHA, GAMMA, STEPS = ["q_proj", "v_proj"], 8, 16, 1e-3, 5


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model and of its clients' data.

    Attributes:
        hidden, layers: of the model; its perceptrons are ``wide`` times as wide, its ``heads`` of
            attention share keys and values in ``groups``.
        clients, samples, tokens: N, samples of each in a pass, tokens of a sample.
        vocabulary: tokens that there are.
        scored: of a sample, the last ones; all without it.
        chunk, memory: of the bank.
    """

    hidden: int
    layers: int
    clients: int
    samples: int
    tokens: int
    vocabulary: int = 256
    scored: int | None = None
    chunk: int | None = None
    memory: int | None = None
    wide: int = 2
    heads: int = 4
    groups: int = 4

    def __str__(self) -> str:
        scored = "" if self.scored is None else f", {self.scored} of them scored"
        return (
            f"N={self.clients}, h={self.hidden}, L={self.layers}, V={self.vocabulary}, "
            f"{self.samples} x {self.tokens} tokens{scored}"
        )


OVERHEAD = Sizes(64, 2, 16, 1, 8)
COMPUTE = Sizes(256, 6, 16, 8, 64, chunk=2)
ANSWERS = replace(COMPUTE, vocabulary=4096, scored=8)
MEMORY = Sizes(512, 6, 32, 1, 16)
#: The smallest sizes that are possible.
_ANY = Sizes(16, 1, 1, 1, 4)


class Clients:
    """Clients on a model, in each of the ways."""

    def __init__(
        self, sizes: Sizes, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        self.N, self.base = sizes.clients, model_of(sizes, device, dtype)
        self.bank = AdapterBank(
            self.base, TARGETS, scaling=ALPHA / RANK, chunk=sizes.chunk, memory=sizes.memory
        )
        shape = (self.N, RANK, self.bank.width)
        self.X = torch.randn(shape, generator=generator).mul_(0.05).to(device)
        tokens = (self.N, sizes.samples, sizes.tokens)
        ids = torch.randint(0, sizes.vocabulary, tokens, generator=generator)
        self.scored = sizes.scored or sizes.tokens
        scored = torch.arange(sizes.tokens) >= sizes.tokens - self.scored
        batch = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "target_mask": scored.long().expand(tokens),
        }
        self.batch = {name: value.to(device) for name, value in batch.items()}
        self.labels = ids.where(scored, -100).to(device)

    def gradients(self) -> Tensor:
        """The gradients of all clients by the bank, (N, r, w)."""
        return self.bank.gradients(self.X, self.batch, answer_loss)[1]

    def round(self) -> Tensor:
        """The mean adapter (r, w) after a round of ours."""
        X, moments = self.X, Moments(torch.zeros_like(self.X), torch.zeros_like(self.X), 0)
        for _ in range(STEPS):
            G = self.bank.gradients(X, self.batch, answer_loss)[1]
            X, moments = adamw(X, G, moments, GAMMA, 0.0)
        return X.mean(0)

    def copies(self, tuned: bool = False) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        """Gradients and round of deep copies."""
        models = [self._peft(copy.deepcopy(self.base)) for _ in range(self.N)]
        for i, model in enumerate(models):
            self._fill(model, "default", self.X[i])
        return self._passes(lambda i: (models[i], "default"), tuned)

    def switching(self) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        """Gradients and round of named adapters on one model."""
        model = self._peft(copy.deepcopy(self.base))
        for i in range(self.N):
            model.add_adapter(f"client{i}", model.peft_config["default"])
            self._fill(model, f"client{i}", self.X[i])

        def choose(i: int) -> tuple[Any, str]:
            model.set_adapter(f"client{i}")
            return model, f"client{i}"

        return self._passes(choose)

    def _passes(
        self, choose: Callable[[int], tuple[Any, str]], tuned: bool = False
    ) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        def one(i: int) -> list[Tensor]:
            model, name = choose(i)
            inputs = {key: self.batch[key][i] for key in ("input_ids", "attention_mask")}
            if tuned:
                scored = min(self.scored, inputs["input_ids"].shape[-1] - 1)
                logits = model(**inputs, use_cache=False, logits_to_keep=scored + 1).logits[:, :-1]
                loss = cross_entropy(
                    logits.flatten(0, 1), inputs["input_ids"][:, -scored:].flatten()
                )
            else:
                loss = model(**inputs, labels=self.labels[i]).loss
            return list(torch.autograd.grad(loss, self._weights(model, name)))

        def gradients() -> Tensor:
            return torch.stack([self._join(one(i)) for i in range(self.N)])

        def round_() -> Tensor:
            ends = []
            for i in range(self.N):
                model, name = choose(i)
                weights = self._weights(model, name)
                start = [weight.detach().clone() for weight in weights]
                optimizer = torch.optim.AdamW(weights, lr=GAMMA, weight_decay=0.0, fused=tuned)
                for _ in range(STEPS):
                    for weight, gradient in zip(weights, one(i), strict=True):
                        weight.grad = gradient
                    optimizer.step()
                ends.append(self._join([weight.detach() for weight in weights]))
                with torch.no_grad():
                    for weight, before in zip(weights, start, strict=True):
                        weight.copy_(before)
            return torch.stack(ends).mean(0)

        return gradients, round_

    def _peft(self, model: Any) -> Any:
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=TARGETS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # adapters in the model's precision, as ours compute
            return get_peft_model(model, config, autocast_adapter_dtype=False).eval()

    def _weights(self, model: Any, name: str) -> list[Any]:
        """B and A of every module."""
        places = [model.get_submodule(f"base_model.model.{n}") for n in self.bank.names]
        return [side[name].weight for m in places for side in (m.lora_B, m.lora_A)]

    def _fill(self, model: Any, name: str, X: Tensor) -> None:
        parts = [part for pair in self.bank.modules.split(X) for part in pair]
        with torch.no_grad():
            for weight, part in zip(self._weights(model, name), parts, strict=True):
                weight.copy_(part)

    def _join(self, parts: list[Tensor]) -> Tensor:
        joined: Tensor = self.bank.modules.join(list(zip(parts[::2], parts[1::2], strict=True)))
        return joined


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes smaller models and fewer repetitions."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread, and the memory of many clients."""
    measured = Measured()
    small = Sizes(64, 2, 4, 8, 64, chunk=2)
    heavy = [small, replace(small, vocabulary=1024, scored=8)] if quick else [COMPUTE, ANSWERS]
    threads = torch.get_num_threads()
    with one_core():
        torch.set_num_threads(1)
        try:
            _compare(measured, "overhead-bound", OVERHEAD, 0.3 if quick else 5.0)
            for sizes in heavy:
                _compare(measured, "compute-bound", sizes, 0.3 if quick else 10.0)
        finally:
            torch.set_num_threads(threads)
    memory = Sizes(64, 2, 8, 1, 16) if quick else MEMORY
    measured.details[f"memory, {memory}, one client at a time"] = _memory(memory)
    return measured


def _compare(measured: Measured, kind: str, sizes: Sizes, budget: float) -> None:
    clients = Clients(sizes)
    what = f"{kind}, {sizes}"
    alone = clients.bank.with_options(engine="sequential")
    ways = {
        "deep copies": clients.copies(),
        "tuned copies": clients.copies(tuned=True),
        "PEFT switching": clients.switching(),
    }
    for peer, (gradients, round_) in ways.items():
        _row(measured, f"gradients: {what}", peer, clients.gradients, gradients, budget)
        if kind == "overhead-bound":  # elsewhere gradients take nearly all of a round's time
            _row(measured, f"a round: {what}", peer, clients.round, round_, budget)
    _row(
        measured,
        f"gradients: {what}",
        "sequential",
        clients.gradients,
        lambda: alone.gradients(clients.X, clients.batch, answer_loss)[1],
        budget,
    )


def _row(
    measured: Measured,
    name: str,
    peer: str,
    ours: Callable[[], Tensor],
    theirs: Callable[[], Tensor],
    budget: float,
) -> None:
    mine, other = ours(), theirs()
    correct = bool((mine - other).abs().max() <= 1e-5 * other.abs().max())
    times = duel(lambda: seconds(ours), lambda: seconds(theirs), budget)
    row = rc.BenchRow(name, peer, min(times.ours), min(times.peer), correct)
    measured.add(row, **times.summary(1))


def _memory(sizes: Sizes) -> dict[str, float]:
    """Growth of a process, in MiB, by clients that each compute a gradient once."""
    memory = {}
    for way in ("bank", "deep copies"):
        given = ", ".join(map(str, astuple(sizes)))
        code = f"from experiments.benchmarks.bridge import _grown; print(*_grown({way!r}, {given}))"
        done = subprocess.run(rc.python_command(code), capture_output=True, text=True, check=True)
        grown, least = map(float, done.stdout.split()[-2:])
        memory["base and adapters, numbers alone, MiB"] = least
        memory[f"{way}, MiB"] = grown
        memory[f"{way}, over base and adapters"] = grown / least
    return memory


def _grown(way: str, *sizes: Any) -> tuple[float, float]:
    torch.set_num_threads(1)
    # the memory that libraries take on loading does not belong to a client
    Clients(_ANY).gradients()
    before = _peak()
    clients = Clients(Sizes(*sizes))
    if way == "bank":
        clients.bank.with_options(chunk=1).gradients(clients.X, clients.batch, answer_loss)
    else:
        clients.copies()[0]()
    tensors = [*clients.base.parameters(), clients.X]
    return _peak() - before, sum(t.numel() * t.element_size() for t in tensors) / 2**20


def _peak() -> float:
    """The largest memory of this process so far, in MiB."""
    status = Path("/proc/self/status")
    if status.is_file():  # on Linux, getrusage begins with the memory of the process that forked
        match = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
        if match is not None:
            return int(match[1]) / 2**10
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / 2**10 if sys.platform != "darwin" else used / 2**20


def model_of(sizes: Sizes, device: str, dtype: torch.dtype) -> Any:
    """A Llama-shaped model with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.wide * sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.groups,
    )
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(0)
        model: Any = LlamaForCausalLM(config)
    return model.to(dtype).eval()


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("bridge", measure("--quick" in sys.argv))
