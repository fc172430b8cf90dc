"""Local steps in place against one gradient after the other, and the memory that they take."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from experiments.benchmarks.sketching import Round, dense_body, masked_body, torch_rows_body
from linsys.sketching import FedStackLoRA, FlexLoRA, FSLoRA, HeteroLoRA, LeastSquares
from linsys.sketching.kernels import Factors
from linsys.sketching.sketch import dense, support
from linsys.sketching.systems import MatrixSystem
from tests.linsys.test_sketching import systems

OPTIONS: dict[str, Any] = {"gamma": 0.05, "H": 4, "ranks": [1, 2, 4], "seed": 5}


@dataclass(frozen=True, eq=False)
class Plain:
    """The gradients of a system and nothing else: the definition of local steps."""

    system: Any

    @property
    def modules(self) -> Any:
        return self.system.modules

    @property
    def devices(self) -> int:
        return int(self.system.devices)

    def grad(self, *arguments: Any) -> Any:
        return self.system.grad(*arguments)

    def merged(self, products: Any) -> Any:
        return self.system.merged(products)

    def with_frozen(self, frozen: Any) -> Any:
        return Plain(self.system.with_frozen(frozen))


def start(system: MatrixSystem, r: int = 4) -> np.ndarray:
    return np.random.default_rng(3).normal(scale=0.5, size=(r, system.modules.width))


@pytest.mark.parametrize("kind", [FSLoRA, HeteroLoRA, FlexLoRA, FedStackLoRA])
@pytest.mark.parametrize("batch", [None, 2, 100])
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("small", [0, 10**6])
def test_steps_in_place_are_gradient_steps(
    index: int, batch: int | None, kind: Any, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With BLAS, and with loops."""
    monkeypatch.setattr("linsys.sketching.systems.SMALL", small)
    system: Any = replace(systems()[index], batch=batch)  # type: ignore[type-var]
    assert hasattr(system, "descend")
    algorithm = kind(**OPTIONS)
    ours = algorithm.init(start(system), system)
    plain = algorithm.init(start(system), Plain(system))
    for _ in range(3):
        ours, report = algorithm.round(ours, system)
        plain, wanted = algorithm.round(plain, Plain(system))
        for moved, expected in (
            *zip(system.modules.products(ours.X), system.modules.products(plain.X), strict=True),
            *zip(ours.frozen, plain.frozen, strict=True),
        ):
            np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-12 * abs(expected).max())
        assert report == wanted


def test_a_round_is_mask_and_multiply_on_larger_matrices() -> None:
    """Algorithm 1 as the text has it: W0 + B S A in full, its gradient in full, masked."""
    rng = np.random.default_rng(0)
    r, m, n, ranks, gamma, H = 16, 40, 30, [2, 4, 8, 12], 1e-3, 5
    x = tuple(rng.normal(size=(24, n)) for _ in ranks)
    y = tuple(rng.normal(size=(24, m)) for _ in ranks)
    system = LeastSquares(rng.normal(size=(m, n)) / 5, x, y, batch=8, seed=2)
    X = rng.normal(size=(r, m + n)) / 5
    algorithm = FSLoRA(gamma=gamma, H=H, ranks=ranks, seed=9)
    state, _ = algorithm.round(algorithm.init(X, system), system)
    [(B0, A0)] = system.modules.split(X)
    total_B, total_A = np.zeros((m, r)), np.zeros((r, n))
    for i, k in enumerate(ranks):
        S, B, A = dense(support(9, 0, i, r, k), r), B0.copy(), A0.copy()
        for h in range(H):
            drawn = system.draw(i, 0, h)
            inputs, targets = x[i][drawn], y[i][drawn]
            G = (inputs @ (system.W0 + B @ S @ A).T - targets).T @ inputs / 8
            B, A = B - gamma * G @ A.T @ S, A - gamma * S @ B.T @ G
        total_B, total_A = total_B + B - B0, total_A + A - A0
    wanted = system.modules.join([(total_B, total_A)]) / len(ranks)
    # no device explodes, which would drown the others; and all of them move
    assert 0.01 < np.abs(wanted).max() < 1
    np.testing.assert_allclose(state.X - X, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


def test_the_peers_of_the_benchmark_make_the_same_round() -> None:
    task = Round(devices=4, r=16, size=24)
    change = task.ours() - task.X
    close = {"rtol": 0, "atol": 1e-12 * np.abs(change).max()}
    np.testing.assert_allclose(task.plain() - task.X, change, **close)
    for body in (dense_body, masked_body):
        np.testing.assert_allclose(task.peer(body, np.asarray)() - task.X, change, **close)
    torch = pytest.importorskip("torch")
    for body in (dense_body, masked_body, torch_rows_body):
        np.testing.assert_allclose(task.peer(body, torch.from_numpy)() - task.X, change, **close)


@pytest.mark.slow
def test_an_optimizer_sees_every_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """AdamW is no plain step; nor may the rows that a device was sent be overwritten."""
    system = systems()[0]
    calls: list[Any] = []
    monkeypatch.setattr("linsys.sketching.systems.SMALL", 0)
    monkeypatch.setattr(Factors, "descend", lambda self, X, *rest: calls.append(X) or X + 1)
    for optimizer, count in (("adamw", 0), ("sgd", 3)):
        algorithm = FSLoRA(**OPTIONS, optimizer=optimizer)
        algorithm.round(algorithm.init(start(system), system), system)
        assert len(calls) == count
    monkeypatch.undo()
    for small in (0, 10**6):
        monkeypatch.setattr("linsys.sketching.systems.SMALL", small)
        X = start(system)
        kept = X.copy()
        X.setflags(write=False)
        moved = system.descend(0, X, 1.0, 0, 0.05, 3)  # type: ignore[attr-defined]
        assert (kept == X).all()
        assert (moved != kept).any()


def peak(system: LeastSquares, r: int, k: int) -> int:
    """Bytes that a device's work takes at most, the global modules apart."""
    algorithm = FSLoRA(gamma=1e-3, H=5, ranks=[k])
    state = algorithm.init(np.full((r, system.modules.width), 1e-3), system)
    dict(algorithm._one_by_one(state, system))  # what is computed once for all rounds
    tracemalloc.start()
    try:
        dict(algorithm._one_by_one(state, system))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_proportional_to_k_whatever_r_is() -> None:
    rng = np.random.default_rng(0)
    m, n, b = 300, 200, 4
    system = LeastSquares(np.zeros((m, n)), [rng.normal(size=(9, n))], np.ones((1, 9, m)), batch=b)
    row, of_a_batch = (m + n) * 8, b * (2 * m + n) * 8
    used = {(r, k): peak(system, r, k) for r, k in [(64, 8), (64, 16), (64, 32), (640, 32)]}
    # what was sent, a copy of it, and what comes out: three times k rows, and a batch
    room = 2 * row  # generators and such, less than two rows
    for (r, k), bytes_used in used.items():
        assert abs(bytes_used - (3 * k * row + of_a_batch)) < room, (r, k)
    assert abs(used[640, 32] - used[64, 32]) < room
