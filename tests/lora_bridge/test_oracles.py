"""The algorithms of linsys on clients with text: all clients together are one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linsys import InputError
from linsys.preference import sharelora
from linsys.preference.sharelora import ShareLoRA
from linsys.sketching import (
    DeviceLost,
    FedStackLoRA,
    FlexLoRA,
    FSLoRA,
    HeteroLoRA,
    LeastSquares,
    Report,
)
from lora_bridge import losses
from lora_bridge.bank import AdapterBank
from lora_bridge.oracles import Devices, Users
from lora_bridge.tasks import Task
from tests.lora_bridge._models import small_batch, small_model

N = 3


class OneByOne:
    """An oracle without what serves all clients together."""

    def __init__(self, oracle: Any) -> None:
        self.oracle = oracle

    def __getattr__(self, name: str) -> Any:
        if name in ("grads", "descend"):
            raise AttributeError(name)
        return getattr(self.oracle, name)

    def with_frozen(self, frozen: Any) -> OneByOne:
        return OneByOne(self.oracle.with_frozen(frozen))


def _task(pairs: bool = False, batch: int = 2, on_nan: str = "stop") -> Task:
    bank = AdapterBank(small_model("gpt2", torch.float64), ["c_attn", "c_fc"], scaling=2.0)
    shards = []
    for i, size in enumerate((5, 3, 4)):
        made = small_batch(1, size * (1 + pairs), seed=i)
        shard = {name: made[name][0] for name in ("input_ids", "attention_mask")}
        shard["target_mask"] = shard["attention_mask"].clone()
        if pairs:
            shard = {name: value.unflatten(0, (-1, 2)) for name, value in shard.items()}
        shards.append(shard)
    loss = losses.policy_preference_loss if pairs else losses.answer_loss
    return Task(bank, shards, loss, batch=batch, on_nan=on_nan)


def _begun(devices: Any) -> tuple[Any, float, float]:
    """Where training starts, and the losses before and after, said as for a linear system."""
    algorithm = FSLoRA(gamma=0.05, H=2, ranks=(1, 2, 2))
    X = devices.modules.start(2, np.random.default_rng(0))
    state = algorithm.init(X, devices)
    for _ in range(3):
        state, _ = algorithm.round(state, devices)
    return X, devices.loss(0, X), devices.loss(0, state.X)


def test_devices_are_asked_as_a_linear_system_is() -> None:
    rng = np.random.default_rng(1)
    inputs, W = rng.normal(size=(N, 8, 6)), rng.normal(size=(6, 5))
    _, before, after = _begun(LeastSquares(np.zeros((5, 6)), inputs, inputs @ W))
    assert after < before
    task = _task()
    X, before, after = _begun(Devices(task))
    assert X.dtype == torch.float64
    assert X.shape == (2, task.bank.width)
    assert before == task.evaluate(0, X)
    assert after < before
    assert np.array_equal(X, task.bank.modules.start(2, np.random.default_rng(0)))
    task.bank.model.float()
    single, _, _ = _begun(Devices(task))
    assert single.dtype == torch.float32


def _rows(task: Task, r: int, *lead: int) -> Tensor:
    generator = torch.Generator().manual_seed(4)
    shape = (*lead, r, task.bank.width)
    return 0.2 * torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", list(sharelora.METHODS))
def test_users_together_are_users_one_by_one(name: str) -> None:
    oracle = Users(_task(pairs=True))
    algorithm = sharelora.method(name, 0.05, epochs=1.0)
    start = _rows(oracle.task, 2)
    together, _ = algorithm.run(algorithm.init(start, oracle), oracle)
    alone, _ = algorithm.run(algorithm.init(start, OneByOne(oracle)), OneByOne(oracle))
    assert together.t == oracle.steps == 3
    torch.testing.assert_close(together.X, alone.X, rtol=1e-9, atol=1e-11)
    assert (together.X - start).abs().max() > 1e-2
    mask = torch.from_numpy(algorithm.mask(oracle.modules))
    assert torch.equal(together.X[0][:, mask], together.X[1][:, mask])
    if not mask.all():
        assert not torch.equal(together.X[0][:, ~mask], together.X[1][:, ~mask])


def test_training_lowers_the_loss_of_every_user() -> None:
    oracle = Users(_task(pairs=True))
    algorithm = ShareLoRA(gamma=0.02, shared="none", epochs=10.0)
    state = algorithm.init(_rows(oracle.task, 2), oracle)
    before = [oracle.task.evaluate(i, state.X[i]) for i in range(N)]
    state, _ = algorithm.run(state, oracle)
    after = [oracle.task.evaluate(i, state.X[i]) for i in range(N)]
    assert all(b < 0.5 * a for a, b in zip(before, after, strict=True))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Client 1 has no finite gradient wherever all clients are served together."""
    original = AdapterBank.gradients

    def gradients(*arguments: Any) -> tuple[Tensor, Tensor]:
        values, slopes = original(*arguments)
        if len(slopes) == N:
            slopes[1, 0, 2] = float("inf")
        return values, slopes

    monkeypatch.setattr(AdapterBank, "gradients", gradients)


def test_broken_numbers_stop_a_run_and_name_client_and_round(broken: None) -> None:
    with pytest.raises(InputError) as devices:
        _run("FSLoRA", Devices(_task()), _rows(_task(), 4))
    assert str(devices.value) == (
        "client 1 must have a finite gradient; found inf in round 0, step 0: "
        "lower the step size, or leave such clients out by on_nan=skip"
    )
    oracle = Users(_task(pairs=True))
    algorithm = ShareLoRA(gamma=0.05, shared="none")
    with pytest.raises(InputError, match=r"client 1 .* in epoch 0, step 0"):
        algorithm.run(algorithm.init(_rows(oracle.task, 2), oracle), oracle)


def test_a_device_with_broken_numbers_is_left_out_of_the_round_and_named(
    broken: None, caplog: pytest.LogCaptureFixture
) -> None:
    oracle = Devices(_task(on_nan="skip"))
    start = _rows(oracle.task, 4)
    state, report = _run("FSLoRA", oracle, start, rounds=1)
    reason = "client 1 must have a finite gradient; found inf in round 0, step 0"
    assert report.missing == {1: f"dropped out: {reason}"}
    assert report.up[1] == 0
    assert (state.X - start).abs().max() > 1e-3
    assert state.X.isfinite().all()
    assert caplog.messages == [f"{reason}: left out"]


def test_a_user_with_broken_numbers_is_named(broken: None) -> None:
    oracle = Users(_task(pairs=True, on_nan="skip"))
    algorithm = ShareLoRA(gamma=0.05, shared="none")
    start = algorithm.init(_rows(oracle.task, 2), oracle)
    state, missing = algorithm.round(start, oracle)
    assert missing == {1: "rejected: its gradient is not finite"}
    assert torch.equal(state.X[1], start.X[1])
    assert not torch.equal(state.X[0], start.X[0])


ALGORITHMS = {
    "FSLoRA": (FSLoRA, {}),
    "FSLoRA, fresh": (FSLoRA, {"fresh": True}),
    "FSLoRA, AdamW, top half": (FSLoRA, {"optimizer": "adamw", "compression": 0.5}),
    "HeteroLoRA": (HeteroLoRA, {}),
    "FlexLoRA": (FlexLoRA, {}),
    "FedStackLoRA": (FedStackLoRA, {}),
}


def _run(name: str, oracle: Any, start: Tensor, rounds: int = 2) -> tuple[Any, Report]:
    kind, options = ALGORITHMS[name]
    algorithm = kind(gamma=0.05, H=2, ranks=[1, 4, 2], **options)
    state = algorithm.init(start, oracle)
    for _ in range(rounds):
        state, report = algorithm.round(state, oracle)
    return state, report


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_devices_together_are_devices_one_by_one(name: str) -> None:
    oracle = Devices(_task())
    start = _rows(oracle.task, 4)
    together, report = _run(name, oracle, start)
    alone, same = _run(name, OneByOne(oracle), start)
    torch.testing.assert_close(together.X, alone.X, rtol=1e-9, atol=1e-11)
    learned = together.frozen if name == "FedStackLoRA" else (together.X - start,)
    assert max(float(part.abs().max()) for part in learned) > 1e-3
    assert report == same
    assert report.missing == {}
    if name == "FSLoRA":  # what is counted is what is sent: k_i rows of 8 bytes a number
        assert report.up == tuple(k * 8 * oracle.modules.width for k in (1, 4, 2))


def test_the_scale_of_a_sketch_goes_into_the_products() -> None:
    """f(s B A) at X is f(B A) at s^1/2 X, so that its gradient is s^1/2 times the one there."""
    oracle, scales = Devices(_task()), [4.0, 1.0, 2.0]
    rows = [_rows(oracle.task, k) for k in (1, 4, 2)]
    scaled = [X * s**0.5 for X, s in zip(rows, scales, strict=True)]
    gradients = oracle.grads([0, 1, 2], rows, scales, 1, 0)
    there = oracle.grads([0, 1, 2], scaled, [1.0] * 3, 1, 0)
    for gradient, other, s in zip(gradients, there, scales, strict=True):
        assert isinstance(gradient, Tensor)
        torch.testing.assert_close(gradient, s**0.5 * other)
        assert gradient.abs().max() > 1e-3
    torch.testing.assert_close(oracle.grad(0, rows[0], 4.0, 1, 0), gradients[0])


def test_a_device_that_drops_out_of_those_together_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Devices.grads

    def lossy(self: Devices, devices: Any, *arguments: Any) -> list[Any]:
        gradient = original(self, devices, *arguments)
        gone = DeviceLost("no power")
        return [gone if i == 1 else g for i, g in zip(devices, gradient, strict=True)]

    oracle = Devices(_task())
    start = _rows(oracle.task, 4)
    _, whole = _run("FSLoRA", oracle, start, rounds=1)
    monkeypatch.setattr(Devices, "grads", lossy)
    state, report = _run("FSLoRA", oracle, start, rounds=1)
    assert report.missing == {1: "dropped out: no power"}
    assert report.up == (whole.up[0], 0, whole.up[2])
    assert (state.X - start).abs().max() > 1e-3


def test_stacked_products_go_into_the_frozen_matrices_and_back() -> None:
    oracle = Devices(_task())
    state, _ = _run("FedStackLoRA", oracle, _rows(oracle.task, 4))
    assert oracle.frozen == ()
    assert len(state.frozen) == len(oracle.modules.shapes)
    again = state.merged_into(oracle)
    assert again.frozen == state.frozen
    X = _rows(oracle.task, 2)
    assert again.task.evaluate(0, X) != oracle.task.evaluate(0, X)


def test_what_an_oracle_cannot_be_asked() -> None:
    task = _task()
    for kind in (Devices, Users):
        with pytest.raises(InputError, match="`task` must be a Task of the clients; found"):
            kind(task.bank)  # type: ignore[arg-type]
    X: Any = _rows(task, 2).numpy()
    with pytest.raises(InputError, match="`X` must be a tensor of floating-point numbers"):
        Devices(task).grad(0, X, 1.0, 0, 0)
    with pytest.raises(
        InputError, match=r"`rows of X` must .* found a NumPy array of shape .* \(torch.from_numpy "
    ):
        Devices(task).grads([0], [X], [1.0], 0, 0)
    with pytest.raises(InputError, match=r"`X` must have shape \(k, "):
        Devices(task).grad(0, torch.from_numpy(X[:, :-1]), 1.0, 0, 0)
    with pytest.raises(InputError, match="`X` must be a tensor of floating-point numbers"):
        Users(task).grad(0, X, 0, 0)
