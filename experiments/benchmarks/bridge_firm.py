"""What a step of FIRM on a language model is spent on, and what several objectives cost.

``ratecheck bench bridge_firm`` times; ``python -m experiments.benchmarks.bridge_firm`` also writes
the tables under ``results/``. On a graphics card the model has the dimensions of a Llama with 1 B
parameters and computes in bfloat16, without one an eighth of its width and a quarter of its layers,
with a vocabulary that leaves the head its share of the parameters; weights are random.

*Shares.* Steps of eight clients with two rewards and the divergence from the reference outside the
weights: sampling with its scoring pass, from which critics have their hidden states too, the
scoring pass of the reference, the pass forward with one backward per objective, MGDA, and the rest,
which is encoding, rewards, advantages, critics, Adam and aggregation.

*Objectives.* M gradients of one minibatch from one pass forward and M backward, one for all in the
head, against M passes forward and M backward. A pass backward to inputs costs about as much as one
forward: (1 + M) / (2 M) remain of the layers, 3/4 for M = 2, and 1 / M of the head. So the same
with a vocabulary of bytes, where the head is next to nothing. Beside the times stand the
multiplications and additions, as torch counts those of matrix products and of attention.

*Clients.* The same step with the clients one at a time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import ratecheck as rc
from experiments.benchmarks._timing import duel, one_core
from experiments.benchmarks.affpcl import Measured
from experiments.benchmarks.bridge import Sizes, model_of
from experiments.benchmarks.bridge_gpu import LLAMA, SMALL
from lora_bridge import firm
from lora_bridge.bank import AdapterBank
from lora_bridge.docstrings import byte_tokenizer
from lora_bridge.ppo import surrogate
from lora_bridge.toy_rewards import letter_rewards
from mgda.firm import FIRM

__all__ = ["measure", "run"]

TARGETS, RANK = ["q_proj", "k_proj", "v_proj", "o_proj"], 16
CLIENTS, BATCH, MINIBATCH, EPOCHS, LENGTH = 8, 16, 8, 3, 24
PROMPTS = [f"Say something about the number {i}: " for i in range(BATCH)]


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes a smaller model and fewer steps."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread, and the shares of a step."""
    measured = Measured()
    if torch.cuda.is_available():
        sizes = replace(LLAMA, clients=CLIENTS)
        _measure(measured, "cuda", sizes, torch.bfloat16, 1.0 if quick else 10.0)
        return measured
    threads = torch.get_num_threads()
    with one_core():
        torch.set_num_threads(1)
        try:
            sizes = replace(SMALL, clients=CLIENTS, memory=None)
            if quick:
                sizes = replace(sizes, hidden=64, layers=2, heads=4, groups=1, vocabulary=0)
            _measure(measured, "cpu", sizes, torch.float32, 1.0 if quick else 10.0)
        finally:
            torch.set_num_threads(threads)
    return measured


def _measure(
    measured: Measured, device: str, sizes: Sizes, dtype: torch.dtype, budget: float
) -> None:
    oracle, what = _oracle(sizes, device, dtype)
    algorithm = FIRM(alpha=1e-3, K=oracle.steps, optimizer="adam")
    measured.details[f"a step, {what}"] = _shares(oracle, algorithm, device)
    memory = _sampled(oracle, device)
    objectives = partial(_objectives, measured, device=device, budget=budget)
    operations = {f"M={M}": objectives(what, oracle, memory, M) for M in (2, 3, 4)}
    alone = replace(oracle, bank=oracle.bank.with_options(engine="sequential", memory=None))
    theta = _start(oracle, device)
    ours, theirs = (partial(one.jac, theta, memory) for one in (oracle, alone))
    _row(measured, f"a minibatch: {what}", "sequential", ours, theirs, device, budget)
    few, what = _oracle(replace(sizes, vocabulary=0), device, dtype)
    operations["M=2, a vocabulary of bytes"] = objectives(what, few, _sampled(few, device), 2)
    measured.details["operations of M objectives over those of a pass for each"] = operations


def _oracle(sizes: Sizes, device: str, dtype: torch.dtype) -> tuple[firm.Alignment, str]:
    """Clients with a model of these sizes, at least the tokenizer's vocabulary; what to call it."""
    tokenizer = byte_tokenizer()
    sizes = replace(sizes, vocabulary=max(sizes.vocabulary, len(tokenizer)))
    bank = AdapterBank(model_of(sizes, device, dtype), TARGETS, scaling=2.0, memory=sizes.memory)
    oracle = firm.Alignment(
        bank=bank,
        tokenizer=tokenizer,
        prompts=[PROMPTS] * sizes.clients,
        rewards=letter_rewards(LENGTH),
        rank=RANK,
        length=LENGTH,
        batch=BATCH,
        minibatch=MINIBATCH,
        epochs=EPOCHS,
    )
    what = f"{str(dtype).removeprefix('torch.')}, C={sizes.clients}, h={sizes.hidden}, "
    return oracle, f"{what}L={sizes.layers}, V={sizes.vocabulary}, d={oracle.d}"


def _start(oracle: firm.Alignment, device: str) -> Tensor:
    return torch.zeros(1, oracle.C, oracle.d, device=device)


def _sampled(oracle: firm.Alignment, device: str) -> firm.Memory:
    """After the first step, which samples: what follows is one minibatch."""
    _, memory, *_ = oracle.jac(_start(oracle, device), oracle.init())
    return memory


def _shares(oracle: firm.Alignment, algorithm: FIRM, device: str) -> dict[str, float]:
    """Seconds of one step, the mean over two rollouts, and what they are spent on."""
    spent: dict[str, float] = {}
    state = algorithm.init(_start(oracle, device), oracle)
    steps = 2 * oracle.steps

    def one(state: Any) -> Any:
        return algorithm.local_step(state, oracle)[0]

    one(state)  # the first one also loads what it needs
    with (
        _timed(spent, firm, "sample", "sampling", device),
        _timed(spent, firm, "score", "scoring", device),
        _timed(spent, AdapterBank, "read", "reading", device),
        _timed(spent, AdapterBank, "gradients", "gradients", device),
        _timed(spent, FIRM, "weigh", "MGDA", device),
    ):
        start = time.perf_counter()
        for _ in range(steps):
            state = one(state)
        total = time.perf_counter() - start
    # a score is a reading, and sampling ends in one
    passes = spent["gradients"] + spent["sampling"] + spent["reading"] - spent["nested"]
    return {
        "seconds of a step": total / steps,
        "share of sampling, its scoring pass included": spent["sampling"] / total,
        "share of further scoring passes": (spent["reading"] - spent["nested"]) / total,
        "share of the pass forward and those backward": spent["gradients"] / total,
        "share of MGDA": spent["MGDA"] / total,
        "share of everything else": (total - passes - spent["MGDA"]) / total,
    }


@contextmanager
def _timed(
    spent: dict[str, float], place: Any, name: str, label: str, device: str
) -> Iterator[None]:
    """Seconds in a function, also of readings inside of sampling."""
    function = getattr(place, name)
    spent[label], spent["nested"] = 0.0, 0.0

    def timed(*args: Any, **options: Any) -> Any:
        before = spent.get("reading", 0.0)
        start = _now(device)
        result = function(*args, **options)
        spent[label] += _now(device) - start
        if label == "sampling":
            spent["nested"] += spent["reading"] - before
        return result

    setattr(place, name, timed)
    try:
        yield
    finally:
        setattr(place, name, function)


def _objectives(
    measured: Measured,
    what: str,
    oracle: firm.Alignment,
    memory: firm.Memory,
    M: int,
    *,
    device: str,
    budget: float,
) -> float:
    """Add the row; the operations of ours over those of a pass for each."""
    part = oracle._part(memory.rollout, 0)
    generator = torch.Generator().manual_seed(0)
    shape = (*part["advantages"].shape[:-1], M)
    part["advantages"] = torch.randn(shape, generator=generator).to(device)
    X = torch.zeros(oracle.C, oracle.rank, oracle.bank.width, device=device)
    loss = surrogate(oracle.clip)

    def together() -> Tensor:
        return oracle.bank.gradients(X, part, loss)[1]

    def apart() -> Tensor:
        single = [part | {"advantages": part["advantages"][..., j : j + 1]} for j in range(M)]
        return torch.cat([oracle.bank.gradients(X, one, loss)[1] for one in single], 1)

    _row(measured, f"M={M} objectives: {what}", "a pass for each", together, apart, device, budget)
    counts = []
    for way in (together, apart):
        with FlopCounterMode(display=False) as counter:
            way()
        counts.append(int(counter.get_total_flops()))
    return counts[0] / counts[1]


def _row(
    measured: Measured,
    name: str,
    peer: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    device: str,
    budget: float,
) -> None:
    mine, other = (_gradient(call()) for call in (ours, theirs))
    precise = 1e-5 if device == "cpu" else 1e-2  # of bfloat16, in another order of sums
    correct = bool((mine - other).norm() <= precise * other.norm())
    times = duel(lambda: _seconds(ours, device), lambda: _seconds(theirs, device), budget)
    measured.add(
        rc.BenchRow(name, peer, min(times.ours), min(times.peer), correct), **times.summary(1)
    )


def _gradient(returned: Any) -> Tensor:
    first: Tensor = returned[0] if isinstance(returned, tuple) else returned
    return first.float()


def _seconds(call: Callable[[], Any], device: str) -> float:
    start = _now(device)
    call()
    return _now(device) - start


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("bridge_firm", measure("--quick" in sys.argv))
