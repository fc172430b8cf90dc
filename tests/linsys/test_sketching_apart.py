"""Server and devices of federated LoRA apart: the parts make the round, and refuse what is odd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from linsys.sketching import (
    DeviceLost,
    FedStackLoRA,
    FlexLoRA,
    FSLoRA,
    HeteroLoRA,
    Sent,
    State,
)
from tests.linsys.test_sketching import systems
from tests.linsys.test_sketching_algorithms import OPTIONS, RANKS, start
from tests.linsys.test_sketching_failures import Failing, Together, assert_same_frozen

KINDS = [
    (FSLoRA, {}),
    (FSLoRA, {"broadcast": "all"}),
    (FSLoRA, {"fresh": True}),
    (FSLoRA, {"optimizer": "adamw", "compression": 0.5}),
    (HeteroLoRA, {"weights": "frobenius"}),
    (FlexLoRA, {}),
    (FedStackLoRA, {}),
]


def apart(algorithm: Any, state: State, oracle: Any) -> tuple[State, Any]:
    """A round whose devices see what they are offered, and nothing else of the server's state."""
    r, sent = state.X.shape[0], {}
    for device in range(len(RANKS)):
        offered = algorithm.offer(state, device)
        sent[device] = algorithm.train(
            offered, device, round_=state.t, r=r, oracle=state.merged_into(oracle)
        )
    return algorithm.join(state, sent, oracle)


@pytest.mark.parametrize("make", [Failing, Together])
@pytest.mark.parametrize(("kind", "more"), KINDS)
def test_the_parts_make_the_round(kind: Any, more: Any, make: Any) -> None:
    algorithm, oracle = kind(**(OPTIONS | more)), make(systems()[0], lost=(0,))
    state = parts = algorithm.init(start(systems()[0]), oracle)
    for _ in range(3):
        (state, report), (parts, same) = (
            algorithm.round(state, oracle),
            apart(algorithm, parts, oracle),
        )
        assert same == report
        assert report.missing == {0: "dropped out: battery"}
        assert (parts.X == state.X).all()
        assert_same_frozen(parts, state)
    assert (start(systems()[0]) != parts.X).any() or kind is FedStackLoRA


class Torch:
    """A system whose rows and gradients are tensors."""

    def __init__(self, system: Any) -> None:
        self.system, self.modules, self.devices = system, system.modules, system.devices

    def grad(self, device: int, X: Any, *more: Any) -> Any:
        return torch.from_numpy(self.system.grad(device, X.numpy(), *more))


@pytest.mark.parametrize(("kind", "more"), [KINDS[0], KINDS[2], KINDS[4]])
def test_the_parts_make_the_round_of_tensors(kind: Any, more: Any) -> None:
    algorithm, oracle = kind(**(OPTIONS | more)), Torch(systems()[0])
    state = algorithm.init(torch.from_numpy(start(systems()[0])), oracle)
    together, parts = algorithm.round(state, oracle)[0], apart(algorithm, state, oracle)[0]
    assert torch.equal(together.X, parts.X)
    assert not torch.equal(together.X, state.X)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "more"), KINDS)
def test_bytes_down_are_those_of_what_is_offered(kind: Any, more: Any) -> None:
    algorithm = kind(**(OPTIONS | more))
    state = algorithm.init(start(systems()[0]), systems()[0])
    offered = tuple(algorithm.offer(state, i).nbytes for i in range(len(RANKS)))
    _, report = algorithm.round(state, systems()[0])
    assert report.down == offered or kind is FedStackLoRA  # which sends what it has merged


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda sent: Sent(sent.values[:, 1:], 1), r"rejected: its update has shape (1, 8)"),
        (lambda sent: Sent(sent.values.astype(np.float32), 1), "has dtype float32 where float64"),
        (lambda sent: Sent(sent.values * np.nan, 1), "rejected: its update is not finite"),
        (lambda sent: Sent(sent.values + 1e200, 1), "is so large that its products are not"),
        (lambda sent: DeviceLost("late"), "dropped out: late"),
    ],
)
@pytest.mark.parametrize(("kind", "more"), KINDS)
def test_what_arrives_is_looked_at_first(kind: Any, more: Any, change: Any, reason: str) -> None:
    algorithm, system = kind(**(OPTIONS | more | {"ranks": [1, 1, 1]})), systems()[0]
    state = algorithm.init(start(system), system)
    sent = {
        i: algorithm.train(algorithm.offer(state, i), i, round_=0, r=4, oracle=system)
        for i in range(3)
    }
    if kind is FSLoRA and algorithm.fresh:
        reason = reason.replace("(1, 8)", f"({len(algorithm.rows(1, 0, 4))}, 8)")
    after, report = algorithm.join(state, sent | {1: change(sent[1])}, system)
    assert list(report.missing) == [1]
    assert reason in report.missing[1]
    assert report.up[1] == 0 < report.up[0]
    without, same = algorithm.join(state, {i: sent[i] for i in (0, 2)}, system)
    assert same.missing == {1: "dropped out: no answer"}
    assert (after.X == without.X).all()
    assert_same_frozen(after, without)
