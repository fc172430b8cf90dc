"""A run that hangs in the middle of a round, to be killed there: ``python _survivor.py FOLDER``."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from linsys.sketching import FedStackLoRA
from lora_bridge.bank import AdapterBank
from lora_bridge.oracles import Devices
from lora_bridge.runs import recorded
from lora_bridge.tasks import Task
from tests.lora_bridge._models import small_batch, small_model, token_loss

#: Where the killed run hangs: round and local step.
HANGS = (5, 1)
TIMES = (0, 3, 8)


def task(dropout: float = 0.0) -> Task:
    """Three clients on a small Llama."""
    bank = AdapterBank(small_model("llama"), ["q_proj", "down_proj"], dropout=dropout)
    shards = []
    for i, size in enumerate((4, 3, 5)):
        made = small_batch(1, size, seed=i)
        shards.append({name: made[name][0] for name in ("input_ids", "attention_mask")})
    return Task(bank, shards, token_loss, batch=2)


def train(folder: Path | None, *, hang: bool = False) -> Mapping[str, Any]:
    """FedStackLoRA with dropout: its state holds frozen matrices too. Keeps every second round."""
    torch.set_num_threads(1)
    oracle = Devices(task(dropout=0.3))
    algorithm = FedStackLoRA(gamma=0.02, H=2, ranks=(1, 2, 3), optimizer="adamw")
    start = oracle.modules.start(3, np.random.default_rng(1))
    state = algorithm.init(start, oracle)

    def measure(now: Any) -> dict[str, Any]:
        task = now.merged_into(oracle).task
        return {"X": now.X, "loss": [task.evaluate(i, now.X) for i in range(oracle.devices)]}

    def up(before: Any, after: Any, report: Any) -> int:
        if hang and after.t == HANGS[0]:
            object.__setattr__(oracle.task, "loss", hangs())
        return sum(report.up)

    options: dict[str, Any] = {"sums": {"up": up}, "folder": folder, "every": 2}
    return recorded("survivor", algorithm, oracle, state, TIMES, measure, **options)


def hangs() -> Any:
    """The loss, which says so and waits for ever when it is asked for the second local step."""
    asked = 0

    def loss(output: Any, batch: Mapping[str, Tensor]) -> Tensor:
        nonlocal asked
        asked += 1
        if asked == HANGS[1] + 1:
            print("in the middle of round", HANGS[0], flush=True)
            time.sleep(600)
        return token_loss(output, batch)

    return loss


if __name__ == "__main__":
    train(Path(sys.argv[1]), hang=True)
