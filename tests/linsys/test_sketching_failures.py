"""Devices that drop out in mid-round or send no numbers: the round goes on without them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from linsys.sketching import (
    DeviceLost,
    FedStackLoRA,
    FlexLoRA,
    FSLoRA,
    HeteroLoRA,
    State,
)
from linsys.sketching.systems import MatrixSystem
from tests.linsys.test_sketching import systems
from tests.linsys.test_sketching_algorithms import OPTIONS, start


@dataclass(frozen=True, eq=False)
class Failing:
    """A system some of whose devices drop out in mid-round or send no numbers."""

    system: MatrixSystem
    lost: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()
    huge: tuple[int, ...] = ()

    @property
    def modules(self) -> Any:
        return self.system.modules

    @property
    def devices(self) -> int:
        return self.system.devices

    def grad(self, device: int, X: Any, scale: float, round_: int, step: int) -> Any:
        if device in self.lost and step == 1:
            raise DeviceLost("battery")
        if device in self.huge:
            return np.full(X.shape, 1e200)
        gradient = self.system.grad(device, X, scale, round_, step)
        return gradient * np.nan if device in self.broken else gradient

    def merged(self, products: Any) -> Any:
        return self.system.merged(products)

    def with_frozen(self, frozen: Any) -> Any:
        return replace(self, system=self.system.with_frozen(frozen))


@dataclass(frozen=True, eq=False)
class Together(Failing):
    """The same with all gradients of a local step asked for at once."""

    def grads(self, devices: Any, rows: Any, scales: Any, round_: int, step: int) -> list[Any]:
        gradients: list[Any] = []
        for device, X, scale in zip(devices, rows, scales, strict=True):
            try:
                gradients.append(self.grad(device, X, scale, round_, step))
            except DeviceLost as lost:
                gradients.append(lost)
        return gradients


def assert_same_frozen(one: State, other: State) -> None:
    assert len(one.frozen) == len(other.frozen)
    assert all((W == V).all() for W, V in zip(one.frozen, other.frozen, strict=True))


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (FSLoRA, {}),
        (FSLoRA, {"fresh": True}),
        (FSLoRA, {"optimizer": "adamw", "compression": 0.5}),
        (HeteroLoRA, {"weights": "frobenius"}),
        (FlexLoRA, {}),
        (FedStackLoRA, {}),
    ],
)
@pytest.mark.parametrize("lost", [(), (1,), (0, 1, 2)])
def test_devices_asked_together_are_devices_one_by_one(kind: Any, more: Any, lost: Any) -> None:
    system, algorithm = systems()[0], kind(**(OPTIONS | more))
    broken = () if lost else (2,)
    one, all_ = (make(system, lost=lost, broken=broken) for make in (Failing, Together))
    alone, together = (algorithm.init(start(system), oracle) for oracle in (one, all_))
    for _ in range(2):
        alone, report = algorithm.round(alone, one)
        together, same = algorithm.round(together, all_)
        assert set(report.missing) == set(lost or broken)
        assert same == report
        assert (together.X == alone.X).all()
        assert_same_frozen(together, alone)


@pytest.mark.parametrize("kind", [FSLoRA, HeteroLoRA, FlexLoRA, FedStackLoRA])
def test_a_round_goes_on_without_the_devices_that_fail(kind: Any) -> None:
    system = systems()[0]
    algorithm = kind(**OPTIONS)
    oracle = Failing(system, lost=(0,), broken=(2,))
    state, report = algorithm.round(algorithm.init(start(system), oracle), oracle)
    assert report.missing == {
        0: "dropped out: battery",
        2: "rejected: its update is not finite",
    }
    assert report.up[0] == report.up[2] == 0 < report.up[1]
    assert np.isfinite(state.X).all()
    W0 = state.merged_into(system).W0
    assert np.isfinite(W0).all()
    assert (start(system) != state.X).any() or (W0 != system.W0).any()
    everybody = Failing(system, lost=(0, 1, 2))
    again, report = algorithm.round(algorithm.init(start(system), everybody), everybody)
    assert len(report.missing) == 3
    assert np.isfinite(again.X).all()


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (FSLoRA, {}),
        (HeteroLoRA, {}),
        (HeteroLoRA, {"weights": "frobenius"}),
        (FlexLoRA, {}),
        (FedStackLoRA, {}),
    ],
)
def test_numbers_whose_products_overflow_are_rejected(kind: Any, more: Any) -> None:
    """1e200 is a number and its square is none: the server would be left without modules."""
    system, reason = (
        systems()[0],
        "rejected: its update is so large that its products are not finite",
    )
    algorithm = kind(**(OPTIONS | more | {"H": 1}))
    oracle = Failing(system, huge=(1,))
    state, report = algorithm.round(algorithm.init(start(system), oracle), oracle)
    assert report.missing == {1: reason}
    assert report.up[1] == 0
    assert np.abs(state.X).max() < 10
    assert np.isfinite(state.merged_into(system).W0).all()


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("kind", [FSLoRA, HeteroLoRA, FlexLoRA, FedStackLoRA])
def test_modules_of_single_precision_stay_so_and_so_do_their_bytes(
    kind: Any, optimizer: str
) -> None:
    """The systems' gradients are of double precision."""
    system = systems()[0]
    algorithm = kind(**OPTIONS, optimizer=optimizer)
    X = start(system).astype(np.float32)
    state, report = algorithm.round(algorithm.init(X, system), system)
    assert state.X.dtype == np.float32
    assert report.up == tuple(k * X.shape[1] * 4 for k in OPTIONS["ranks"])


def test_a_missing_device_counts_as_one_that_did_not_move() -> None:
    system = systems()[0]
    algorithm = FSLoRA(**OPTIONS)
    begin = algorithm.init(start(system), Failing(system))
    whole, _ = algorithm.round(begin, Failing(system))
    part, _ = algorithm.round(begin, Failing(system, lost=(1,)))
    rows = algorithm.rows(1, 0, 4)
    others = np.setdiff1d(np.arange(4), rows)
    assert (whole.X[others] == part.X[others]).all()
    assert (whole.X[rows] != part.X[rows]).any()


def test_a_missing_device_counts_as_a_zero_product_where_products_are_stacked() -> None:
    system = systems()[0]
    algorithm = FedStackLoRA(**OPTIONS)
    begin = algorithm.init(start(system), system)

    def merged(*lost: int) -> Any:
        state, _ = algorithm.round(begin, Failing(system, lost=lost))
        return state.merged_into(system).W0 - system.W0

    # the devices' products add up, each with 1 / N, whoever else is there
    alone = merged(1, 2) + merged(0, 2) + merged(0, 1)
    np.testing.assert_allclose(alone, merged(), rtol=0, atol=1e-12)
