"""Federated LoRA algorithms against their dense definitions and torch; what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from linsys import InputError
from linsys.sketching import (
    FedStackLoRA,
    FlexLoRA,
    FSLoRA,
    HeteroLoRA,
    federated_lora,
)
from linsys.sketching.sketch import dense, support
from linsys.sketching.systems import MatrixSystem
from tests.linsys.test_sketching import systems

RANKS = [1, 2, 4]
OPTIONS: dict[str, Any] = {"gamma": 0.05, "H": 3, "ranks": RANKS, "seed": 11}


def start(system: MatrixSystem, r: int = 4) -> np.ndarray:
    return np.random.default_rng(3).normal(scale=0.5, size=(r, system.modules.width))


def masked(system: MatrixSystem, X: np.ndarray, S: np.ndarray, device: int, t: int, h: int) -> Any:
    """The gradient of l(W0 + B S A) in all entries of X, by Lemma 3.2 with dense sketches."""
    sketched = system.modules.join([(B @ S, A) for B, A in system.modules.split(X)])
    by_BS = system.gradient(device, sketched, 1.0, system.draw(device, t, h))
    parts = []
    for (left, right), (B, A) in zip(
        system.modules.split(by_BS), system.modules.split(X), strict=True
    ):
        assert left.shape == B.shape
        assert right.shape == A.shape
        # d/dB = d/d(BS) S'; the derivative by A is that at (BS, A)
        parts.append((left @ S, right))
    return system.modules.join(parts)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("index", range(3))
def test_fslora_is_mask_and_multiply(index: int, fresh: bool) -> None:
    system = replace(systems()[index], batch=2)  # type: ignore[type-var]
    algorithm = FSLoRA(**OPTIONS, fresh=fresh)
    state = algorithm.init(start(system), system)
    X = start(system)
    for t in range(3):
        state, report = algorithm.round(state, system)
        total = np.zeros_like(X)
        for i, k in enumerate(RANKS):
            local = X.copy()
            for h in range(3):
                S = dense(support(11, t, i, 4, k, h if fresh else 0), 4)
                local -= 0.05 * masked(system, local, S, i, t, h)
            total += local - X
        X = X + total / 3
        np.testing.assert_allclose(state.X, X, rtol=0, atol=1e-12 * np.abs(X).max())
        assert not report.missing


def test_without_a_sketch_it_is_federated_averaging() -> None:
    system = systems()[0]
    algorithm = federated_lora(r=4, devices=3, gamma=0.05, H=2)
    state, report = algorithm.round(algorithm.init(start(system), system), system)
    ends = []
    for i in range(3):
        X = start(system)
        for _ in range(2):
            X = X - 0.05 * system.gradient(i, X)
        ends.append(X)
    np.testing.assert_allclose(state.X, np.mean(ends, axis=0), rtol=1e-13)
    assert report.up == (4 * 9 * 8,) * 3


def local(system: MatrixSystem, X: np.ndarray, device: int) -> np.ndarray:
    for _ in range(3):
        X = X - 0.05 * system.gradient(device, X)
    return X


@pytest.mark.parametrize("index", range(3))
def test_baselines_are_their_dense_definitions(index: int) -> None:
    system = systems()[index]
    modules, X = system.modules, start(system)
    ends = [local(system, X[:k], i) for i, k in enumerate(RANKS)]
    padded = [np.vstack([end, np.zeros((4 - len(end), X.shape[1]))]) for end in ends]
    sizes = [np.sqrt(sum((product**2).sum() for product in modules.products(end))) for end in ends]
    expected = {
        "uniform": np.mean(padded, axis=0),
        "frobenius": np.average(padded, axis=0, weights=sizes),
    }
    for weights, wanted in expected.items():
        algorithm = HeteroLoRA(**OPTIONS, weights=weights)
        state, _ = algorithm.round(algorithm.init(X, system), system)
        np.testing.assert_allclose(state.X, wanted, rtol=0, atol=1e-12)
    means = [
        np.mean(products, axis=0)
        for products in zip(*(modules.products(end) for end in ends), strict=True)
    ]
    flex = FlexLoRA(**OPTIONS)
    state, _ = flex.round(flex.init(X, system), system)
    for merged, mean in zip(modules.products(state.X), means, strict=True):
        U, s, Vt = np.linalg.svd(mean, full_matrices=False)
        keep = np.where(np.arange(len(s)) < 4, s, 0)
        np.testing.assert_allclose(merged, (U * keep) @ Vt, rtol=0, atol=1e-12 * s[0])


def test_stacking_merges_the_exact_mean_product() -> None:
    system = systems()[2]
    algorithm = FedStackLoRA(**OPTIONS)
    state, report = algorithm.round(algorithm.init(start(system), system), system)
    ends = []
    for i, k in enumerate(RANKS):
        rng = np.random.default_rng([11, 0, i])
        ends.append(local(system, system.modules.start(k, rng), i))
    products = [system.modules.products(end) for end in ends]
    wanted = system.merged([np.mean(p, axis=0) for p in zip(*products, strict=True)])
    for merged, expected in zip(state.frozen, wanted, strict=True):
        np.testing.assert_allclose(merged, expected, rtol=0, atol=1e-12)
    w = system.modules.width
    assert report.down == (7 * w * 8,) * 3
    assert report.up == tuple(k * w * 8 for k in RANKS)


@pytest.mark.parametrize("kind", [FSLoRA, HeteroLoRA, FlexLoRA])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_torch_gives_the_same_numbers(kind: Any, optimizer: str) -> None:
    torch = pytest.importorskip("torch")
    system = systems()[2]

    class Torch:
        modules, devices = system.modules, system.devices

        def grad(self, device: int, X: Any, scale: float, round_: int, step: int) -> Any:
            return torch.from_numpy(system.grad(device, X.numpy(), scale, round_, step))

    algorithm = kind(**OPTIONS, optimizer=optimizer, decay=0.1, compression=0.5)
    ours = algorithm.init(start(system), system)
    theirs = algorithm.init(torch.from_numpy(start(system)), Torch())
    for _ in range(2):
        ours, bytes_ours = algorithm.round(ours, system)
        theirs, bytes_theirs = algorithm.round(theirs, Torch())
        for tensor, wanted in zip(
            system.modules.products(theirs.X.numpy()), system.modules.products(ours.X), strict=True
        ):
            np.testing.assert_allclose(tensor, wanted, rtol=0, atol=1e-11)
        assert bytes_ours == bytes_theirs


def test_adamw_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    system = systems()[0]
    algorithm = federated_lora(r=4, devices=3, gamma=0.01, H=5, optimizer="adamw", decay=0.1)
    state, _ = algorithm.round(algorithm.init(start(system), system), system)
    ends = []
    for i in range(3):
        X = torch.tensor(start(system), requires_grad=True)
        optimizer = torch.optim.AdamW([X], lr=0.01, weight_decay=0.1)
        for _ in range(5):
            X.grad = torch.from_numpy(system.gradient(i, X.detach().numpy()))
            optimizer.step()
        ends.append(X.detach().numpy())
    np.testing.assert_allclose(state.X, np.mean(ends, axis=0), rtol=0, atol=1e-12)


def test_compression_and_sketches_save_bytes_together() -> None:
    system = systems()[0]
    algorithm = FSLoRA(**OPTIONS, compression=0.5)
    _, report = algorithm.round(algorithm.init(start(system), system), system)
    w = system.modules.width
    assert report.up == tuple(int(np.ceil(0.5 * k * w)) * 12 for k in RANKS)
    assert report.down == tuple(k * w * 8 for k in RANKS)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"ranks": []}, "`ranks` must name at least one device; found none"),
        ({"ranks": np.array([], dtype=int)}, "`ranks` must name at least one device; found none"),
        ({"ranks": 3}, "`ranks` must be a list, one for each device; found 3"),
        ({"ranks": [1, 0, 2]}, "`ranks` must be a whole number"),
        ({"ranks": [1, 2]}, "`ranks` must be 3, one for each device; found 2"),
        ({"ranks": [1, 5, 2]}, "`ranks` must be at most r = 4; found 5 at device 1"),
        ({"gamma": 0.0}, "`gamma` must be"),
        ({"H": 0}, "`H` must be"),
        ({"compression": 1.5}, "`compression` must be"),
        ({"optimizer": "lion"}, "`optimizer` must be"),
    ],
)
def test_bad_input_is_refused_in_one_line(edit: dict[str, Any], message: str) -> None:
    system = systems()[0]
    with pytest.raises(InputError, match=message) as raised:
        FSLoRA(**(OPTIONS | edit)).init(start(system), system)
    assert "\n" not in str(raised.value)


def test_ranks_may_be_an_array() -> None:
    assert FSLoRA(**(OPTIONS | {"ranks": np.array([1, 4, 2])})).ranks == (1, 4, 2)


@pytest.mark.parametrize("devices", [0, -1, 1.5])
def test_a_federation_without_devices_is_refused(devices: Any) -> None:
    with pytest.raises(InputError, match="`devices` must be a whole number of at least 1"):
        federated_lora(r=2, devices=devices, gamma=0.1, H=1)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda X: X.tolist(), "`X` must be an array; found a list"),
        (lambda X: X.astype(int), "`X` must hold floating point numbers; found dtype int64"),
        (lambda X: X * np.nan, "`X` must be finite"),
    ],
)
def test_modules_that_cannot_be_trained_are_refused(edit: Any, message: str) -> None:
    system = systems()[0]
    with pytest.raises(InputError, match=message):
        FSLoRA(**OPTIONS).init(edit(start(system)), system)


def test_modules_of_another_shape_are_refused() -> None:
    system = systems()[0]
    with pytest.raises(InputError, match=r"`X` must have shape \(r, 9\); found \(4, 8\)"):
        FSLoRA(**OPTIONS).init(start(system)[:, :8], system)
