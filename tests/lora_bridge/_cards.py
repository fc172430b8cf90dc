"""What processes that stand for cards compute in the tests of them, and one process alone."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from linsys import InputError
from linsys.sketching import FSLoRA
from lora_bridge import cards, checkpoint, losses, runs
from lora_bridge.bank import AdapterBank
from lora_bridge.oracles import Devices
from lora_bridge.rollouts import sample
from lora_bridge.tasks import Task
from tests.lora_bridge._models import small_batch, small_model, token_loss

#: The computations, by name.
Answers = dict[str, Any]


def _bank() -> AdapterBank:
    model = small_model("llama", torch.float64)
    return AdapterBank(model, ["q_proj", "down_proj"], chunk=1, divided=True)


def _rows(bank: AdapterBank, *lead: int) -> Tensor:
    generator = torch.Generator().manual_seed(4)
    return 0.2 * torch.randn(*lead, bank.width, generator=generator, dtype=torch.float64)


def computed(folder: Path) -> Answers:
    """Losses, gradients, responses and a run of FSLoRA, kept in a folder and broken off once."""
    bank, seen = _bank(), [0]
    bank.model.register_forward_hook(lambda *_: seen.__setitem__(0, seen[0] + 1))
    answers: Answers = {}
    for N in (3, 1):
        X, batch = _rows(bank, N, 2), small_batch(N, 2)
        scale = torch.linspace(1.0, 2.0, N, dtype=torch.float64)
        answers[f"losses {N}"] = bank.losses(X, batch, token_loss, scale)
        answers[f"base {N}"] = bank.read(None, batch, token_loss)
        values, slopes = bank.gradients(X, batch, token_loss, scale)
        each = bank.per_sample(X, batch, token_loss)
        answers |= {f"values {N}": values, f"slopes {N}": slopes, f"each {N}": each[1]}
    answers["passes"] = seen[0]
    prompts = {"input_ids": torch.ones(3, 2, 4, dtype=torch.long)}
    prompts["attention_mask"] = torch.ones_like(prompts["input_ids"])
    drawn = sample(bank, _rows(bank, 3, 2), prompts, length=5, seed=0, round_=0, together=2)
    answers |= {"tokens": drawn["input_ids"], "log_prob": drawn["log_prob"]}
    return answers | _kept(folder)


def _kept(folder: Path) -> Answers:
    bank = _bank()
    shards = [{name: value[0] for name, value in small_batch(1, 5, seed=i).items()} for i in (0, 1)]
    for shard in shards:
        shard["target_mask"] = shard["attention_mask"].clone()
    oracle = Devices(Task(bank, shards, losses.answer_loss, batch=2))
    algorithm = FSLoRA(gamma=0.05, H=2, ranks=[2, 1])
    state = algorithm.init(_rows(bank, 4), oracle)
    saved, save = [0], checkpoint.save

    def counted(*arguments: Any) -> None:
        saved[0] += 1
        save(*arguments)

    checkpoint.save = counted  # type: ignore[assignment]

    def run(stop: int | None) -> Any:
        def measure(now: Any) -> Any:
            if now.t == stop:
                raise InputError("broken off")
            return {"X": now.X}

        return runs.recorded(
            "run", algorithm, oracle, state, [0, 2, 4], measure, folder=folder, every=1
        )

    try:
        run(4)
    except InputError as error:
        answers = {"error": str(error)}
    first = run(None)["X"]
    checkpoint.save = save
    return answers | {
        "run": first,
        "again": run(None)["X"],
        "saved": saved[0],
    }


def together(rank: int, processes: int, meeting: Path | None, folder: Path) -> Answers:
    """The answers of one of several processes; alone without a meeting."""
    torch.set_num_threads(1)
    joined: Any = nullcontext()
    if meeting is not None:
        joined = cards.together("cpu", rank=rank, processes=processes, meeting=meeting)
    with joined:
        answers = {
            name: value.numpy() if isinstance(value, Tensor) else value
            for name, value in computed(folder).items()
        }
        if meeting is not None:
            answers["refused"] = _refused(rank)
    return answers


def _refused(rank: int) -> str:
    """What a bank says of adapters that are not the same in all processes."""
    bank = _bank()
    X = _rows(bank, 2, 1)
    X[0, 0, 0] += 1e-9 * rank
    try:
        bank.losses(X, small_batch(2, 1), token_loss)
    except InputError as error:
        return str(error)
    return ""


def fails(rank: int, processes: int, meeting: Path) -> Any:
    """One of several processes, the second of which ends with an error."""
    with cards.together("cpu", rank=rank, processes=processes, meeting=meeting):
        if rank == 1:
            raise InputError("the second one fails")
        cards.wait()
    return np.zeros(1)
