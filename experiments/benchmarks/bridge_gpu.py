"""The adapter bank on a graphics card, at the dimensions of a Llama with 1 B parameters.

``ratecheck bench bridge_gpu`` times; ``python -m experiments.benchmarks.bridge_gpu`` also writes
the tables under ``results/``. Weights are random. The peers are those of
:mod:`experiments.benchmarks.bridge`: the bank with one client at a time, and a deep copy of the
model per client where these fit on the card.

Beside every comparison: tokens per second; the share of the card's own rate of matrix products,
measured in the same run, that 4 x parameters x tokens (a pass forward, and one backward to inputs)
amount to; the most memory that was held. "Same result" means in float32 agreement to 1e-3 of the
norm, since cards round products to TF32 at will, and in bfloat16 that ours is at most twice as far
from the gradient in float32 as the peer's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import ratecheck as rc
from experiments.benchmarks._timing import duel
from experiments.benchmarks.affpcl import Measured
from experiments.benchmarks.bridge import Clients, Sizes
from linsys import InputError
from lora_bridge.losses import answer_loss

__all__ = ["measure", "measure_on", "run"]

#: Llama 3.2 1B, with questions of which an eighth of the tokens is the answer; at most 24 GiB kept.
LLAMA = Sizes(
    *(2048, 16, 8, 4, 256),
    vocabulary=128_256,
    scored=32,
    memory=24 << 30,
    wide=4,
    heads=32,
    groups=8,
)
SMALL = replace(LLAMA, hidden=256, layers=4, vocabulary=4096)
CLIENTS = (1, 8, 32)
#: Side of the matrices whose product is timed.
SIDE = 8192


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes a small model and fewer repetitions.

    Raises:
        InputError: no card.
    """
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread, throughput and memory."""
    if not torch.cuda.is_available():
        raise InputError("`bench bridge_gpu` must have a CUDA device; found none")
    measured = Measured()
    sizes = SMALL if quick else LLAMA
    for dtype in (torch.bfloat16, torch.float32):
        for clients in CLIENTS:
            measure_on(
                measured, "cuda", replace(sizes, clients=clients), dtype, 1.0 if quick else 8.0
            )
    card = torch.cuda.get_device_properties(0)
    measured.details[f"device: {card.name}"] = {"memory, GiB": card.total_memory / 2**30}
    return measured


def measure_on(
    measured: Measured,
    device: str,
    sizes: Sizes,
    dtype: torch.dtype,
    budget: float,
    side: int = SIDE,
) -> None:
    """Add the rows of one number of clients and one precision."""
    clients = Clients(sizes, device, dtype)
    what = f"{str(dtype).removeprefix('torch.')}, {sizes}"
    exact = Clients(sizes, device).gradients() if dtype != torch.float32 else None
    alone = clients.bank.with_options(engine="sequential", memory=None)
    peers: dict[str, Callable[[], Tensor]] = {
        "sequential": lambda: alone.gradients(clients.X, clients.batch, answer_loss)[1]
    }
    rate = _matrix_rate(device, dtype, side)
    work = 4.0 * _products(clients.base) * clients.batch["input_ids"].numel()
    throughputs = {"matrix products, TFLOP/s": rate / 1e12}
    throughputs |= _throughput("bank", clients.gradients, clients, work / rate, device)
    try:
        peers["deep copies"] = clients.copies()[0]
        peers["deep copies"]()
    except torch.OutOfMemoryError:
        peers.pop("deep copies", None)
        copies = sizes.clients * sum(
            w.numel() * w.element_size() for w in clients.base.parameters()
        )
        throughputs["deep copies do not fit: they alone hold, GiB"] = copies / 2**30
    for name, peer in peers.items():
        row, details = _compared(name, what, clients.gradients, peer, exact, budget, device)
        measured.add(row, **details)
        throughputs |= _throughput(name, peer, clients, work / rate, device)
    measured.details[f"throughput and memory, {what}"] = throughputs


def _compared(
    name: str,
    what: str,
    ours: Callable[[], Tensor],
    theirs: Callable[[], Tensor],
    exact: Tensor | None,
    budget: float,
    device: str,
) -> tuple[rc.BenchRow, dict[str, float]]:
    mine, other = ours().float(), theirs().float()
    if exact is None:
        correct = bool((mine - other).norm() <= 1e-3 * other.norm())
    else:
        correct = bool((mine - exact).norm() <= 2 * (other - exact).norm())
    times = duel(lambda: _seconds(ours, device), lambda: _seconds(theirs, device), budget)
    row = rc.BenchRow(f"gradients: {what}", name, min(times.ours), min(times.peer), correct)
    return row, times.summary(1)


def _throughput(
    way: str, call: Callable[[], Tensor], clients: Clients, least: float, device: str
) -> dict[str, float]:
    """Tokens per second, share of the matrix rate, and the most memory held; the best of 3."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    best = min(_seconds(call, device) for _ in range(3))
    throughput = {
        f"{way}, tokens/s": clients.batch["input_ids"].numel() / best,
        f"share of the matrix rate, {way}": least / best,
    }
    if device == "cuda":
        throughput[f"{way}, GiB"] = torch.cuda.max_memory_allocated() / 2**30
    return throughput


def _matrix_rate(device: str, dtype: torch.dtype, side: int) -> float:
    """Operations per second of a product of large matrices."""
    a = torch.randn(side, side, device=device).to(dtype)
    best = min(_seconds(lambda: a @ a, device) for _ in range(5))
    return 2.0 * side**3 / best


def _products(model: Any) -> int:
    """Parameters that a token is multiplied with: all but the embedding, which is looked up."""
    looked_up = model.get_input_embeddings().weight
    return sum(weight.numel() for weight in model.parameters() if weight is not looked_up)


def _seconds(call: Callable[[], Any], device: str) -> float:
    start = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("bridge_gpu", measure("--quick" in sys.argv))
