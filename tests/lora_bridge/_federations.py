"""Small federated runs of every algorithm, for tests in this process and for Flower's own.

``setup`` is what a Flower app calls. It is also imported by processes that tests start, so that it
stands alone: no pytest here, and transformers, half of the start of a process, where a run has a
model.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from linsys.preference.sharelora import ShareLoRA, method
from linsys.sketching import FedStackLoRA, FlexLoRA, FSLoRA, HeteroLoRA
from lora_bridge import losses
from lora_bridge.bank import AdapterBank
from lora_bridge.flower import Federation
from lora_bridge.oracles import Devices, Users
from lora_bridge.tasks import Task
from mgda.fedcmoo import FedCMOO
from mgda.firm import FIRM
from mgda.scalarization import LinearScalarization

N, R, D, M, K = 3, 4, 5, 2, 2
SCALING = 2.0

LORA: dict[str, Any] = {"gamma": 0.05, "H": 2, "ranks": [1, 4, 2]}
ALGORITHMS: dict[str, Any] = {
    "FSLoRA": FSLoRA(**LORA),
    "FSLoRA, all rows down": FSLoRA(**LORA, broadcast="all"),
    "FSLoRA, fresh": FSLoRA(**LORA, fresh=True),
    "FSLoRA, AdamW, top half": FSLoRA(**LORA, optimizer="adamw", compression=0.5),
    "HeteroLoRA": HeteroLoRA(**LORA, weights="frobenius"),
    "FlexLoRA": FlexLoRA(**LORA),
    "FedStackLoRA": FedStackLoRA(**LORA),
    "SI": method("SI", 0.05, epochs=1.0),
    "G": method("G", 0.05, epochs=2.0),
    "Share-Rep, SGD": method("Share-Rep", 0.05, epochs=1.0, optimizer="sgd", clip=0.5),
    "LoRA-local": method("LoRA-local", 0.05, epochs=1.0),
    "LoRA-global": method("LoRA-global", 0.05, epochs=1.0),
    "FIRM": FIRM(alpha=0.1, K=K, eta=0.5),
    "FIRM, Adam": FIRM(alpha=0.1, K=K, eta="1/t", optimizer="adam"),
    "FedCMOO": FedCMOO(alpha=0.1, K=K),
    "FedCMOO, rank 1": FedCMOO(alpha=0.1, K=K, rank=1, lambda_rule="projected"),
    "LinearScalarization": LinearScalarization(alpha=0.1, K=K, weights=(0.3, 0.7)),
}


@lru_cache
def bank() -> AdapterBank:
    """One model for all: nothing changes it."""
    from tests.lora_bridge._models import small_model

    return AdapterBank(small_model("gpt2"), ["c_attn", "c_fc"], scaling=SCALING)


def task(pairs: bool, clients: list[int] | None = None, batch: int = 2) -> Task:
    """Clients with 5, 3 and 4 samples; or those of them that are named, each with its number."""
    from tests.lora_bridge._models import small_batch

    shards = []
    for i, size in enumerate((5, 3, 4)):
        if clients is not None and i not in clients:
            continue
        made = small_batch(1, size * (1 + pairs), seed=i)
        shard = {name: made[name][0] for name in ("input_ids", "attention_mask")}
        shard["target_mask"] = shard["attention_mask"].clone()
        if pairs:
            shard = {name: value.unflatten(0, (-1, 2)) for name, value in shard.items()}
        shards.append(shard)
    if clients is not None:  # its own samples under every number: it is asked for its own alone
        shards = shards * N
    loss = losses.policy_preference_loss if pairs else losses.answer_loss
    return Task(bank(), shards, loss, batch=batch)


class Chain(NamedTuple):
    """What a client of :class:`Quadratics` keeps: where its noise is, and how often asked."""

    noise: Tensor
    time: int


class Quadratics:
    """Gradients of -|theta - peak|^2 / 2 with a noise that remembers, of some clients."""

    def __init__(self, clients: list[int]) -> None:
        self.clients = clients

    def init(self) -> Chain:
        return Chain(torch.zeros(1, len(self.clients), D, M), 0)

    def jac(self, theta: Tensor, memory: Chain) -> tuple[Tensor, Chain, Tensor]:
        fresh = []
        for client in self.clients:
            generator = torch.Generator().manual_seed(1000 * client + memory.time)
            fresh.append(torch.randn(D, M, generator=generator) + client)
        noise = 0.5 * memory.noise + torch.stack(fresh)[None]
        peaks = torch.arange(D * M).reshape(D, M) / 5
        return noise + peaks - theta[..., None], Chain(noise, memory.time + 1), -0.1 * theta


def start(algorithm: Any) -> Tensor:
    """Where a run of an algorithm starts."""
    generator = torch.Generator().manual_seed(4)
    if isinstance(algorithm, ShareLoRA):
        modules = bank().modules
        X = 0.2 * torch.randn(N, 2, modules.width, generator=generator)
        common = torch.from_numpy(algorithm.mask(modules)) | (algorithm.warmup > 0)
        return torch.where(common, X[:1], X)
    if hasattr(algorithm, "ranks"):
        return 0.2 * torch.randn(R, bank().width, generator=generator)
    return torch.randn(D, generator=generator)


def federation(name: str, rounds: int = 3, fault: Any = None) -> Federation:
    """A run of an algorithm, whose oracles ``fault`` may change: (client, oracle) to oracle."""
    algorithm = ALGORITHMS[name]

    def oracle(client: int) -> Any:
        if isinstance(algorithm, ShareLoRA):
            made: Any = Users(task(True, [client]))
        elif hasattr(algorithm, "ranks"):
            made = Devices(task(False, [client]))
        else:
            made = Quadratics([client])
        return made if fault is None else fault(client, made)

    multi = not hasattr(algorithm, "gamma")
    return Federation(
        algorithm=algorithm,
        start=start(algorithm),
        clients=N,
        oracle=oracle,
        rounds=rounds,
        modules=None if multi else bank().modules,
        scaling=SCALING,
        objectives=M if multi else None,
    )


class Failing:
    """An oracle that once, where a file says so, dies or sleeps in the middle of a round."""

    def __init__(self, oracle: Any, order: Path) -> None:
        self.oracle, self.order = oracle, order

    def __getattr__(self, name: str) -> Any:
        if name in ("grad", "jac") and self.order.exists():
            what = self.order.read_text(encoding="utf-8")
            self.order.unlink()
            if what == "die":
                os._exit(9)
            time.sleep(float(what))
        return getattr(self.oracle, name)


def setup(config: Mapping[str, Any]) -> Federation:
    """What a Flower app of the tests runs."""
    torch.set_num_threads(1)

    def fault(client: int, oracle: Any) -> Any:
        return Failing(oracle, Path(str(config["fault"])) / f"client-{client}")

    return federation(str(config["algorithm"]), int(config["rounds"]), fault)
