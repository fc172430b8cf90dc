"""An agent whose numbers are broken stops a run by name, or stands still."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from linsys import InputError
from linsys.algorithms import AffPCL, Independent, Sampling, Start, Steps
from linsys.rounds import rounds
from lora_bridge.affpcl import Agents, soft_cross_entropy
from lora_bridge.bank import AdapterBank
from lora_bridge.tasks import Task
from tests.lora_bridge._models import small_batch, small_model

N = 3


def _agents(on_nan: str) -> Agents:
    bank = AdapterBank(small_model("bert"), ["query"])
    generator = torch.Generator().manual_seed(2)
    shards = []
    for i in range(N):
        made = small_batch(1, 5, seed=i)
        shard = {name: made[name][0] for name in ("input_ids", "attention_mask")}
        wanted = torch.rand((5, 3), generator=generator).softmax(-1)
        features = torch.randn((5, 2), generator=generator)
        shards.append({**shard, "label_probabilities": wanted, "features": features})
    return Agents(Task(bank, shards, soft_cross_entropy(), batch=2, on_nan=on_nan))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agent 1 has no finite loss."""
    original = AdapterBank.gradients

    def gradients(*arguments: Any) -> tuple[Tensor, Tensor]:
        values, slopes = original(*arguments)
        values[1] = slopes[1] = torch.nan
        return values, slopes

    monkeypatch.setattr(AdapterBank, "gradients", gradients)


def _run(algorithm: Any, agents: Agents) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    x, theta = agents.start(torch.randn((2, agents.task.bank.width), generator=generator))
    oracle = Sampling(agents.observe, Steps.constant(0.05))
    *_, (state, _) = rounds(algorithm, oracle, algorithm.init(Start(x, theta), oracle), 4)
    return x, algorithm.personal(state)


@pytest.mark.parametrize("algorithm", [Independent(), AffPCL(ratio="none")])
def test_a_run_stops_and_names_the_agent(broken: None, algorithm: Any) -> None:
    with pytest.raises(InputError) as error:
        _run(algorithm, _agents("stop"))
    assert str(error.value) == (
        "client 1 must have a finite loss; found nan in local step 0: "
        "lower the step size, or leave such clients out by on_nan=skip"
    )


def test_what_is_measured_beside_a_run_is_no_local_step(broken: None) -> None:
    agents = _agents("stop")
    x, theta = agents.start(torch.zeros(2, agents.task.bank.width))
    with pytest.raises(InputError, match="finite loss; found nan in minibatch 0 of run 2:"):
        agents.noise(AffPCL().init(Start(x, theta)), draws=2)


def test_an_agent_that_is_skipped_stands_still_and_is_named(
    broken: None, caplog: pytest.LogCaptureFixture
) -> None:
    start, end = _run(Independent(), _agents("skip"))
    assert torch.equal(end[1], start[1])
    assert not torch.equal(end[0], start[0])
    assert caplog.messages == [
        f"client 1 must have a finite loss; found nan in local step {t}: left out" for t in range(4)
    ]
    _, end = _run(AffPCL(ratio="none"), _agents("skip"))
    assert end.isfinite().all()


def test_the_others_are_what_they_are_without_it(broken: None) -> None:
    _, end = _run(Independent(), _agents("skip"))
    assert torch.equal(end[[0, 2]], _run_of_sound_agents()[[0, 2]])


def _run_of_sound_agents() -> Tensor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AdapterBank, "gradients", _plain)
        return _run(Independent(), _agents("stop"))[1]


_plain = AdapterBank.gradients
