"""FSLoRA's theory on a model: eigenvalues, sketches, and what every measured number means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ratecheck as rc

pytest.importorskip("torch")

import torch

from experiments.fslora.bridge import smoothness
from experiments.fslora.bridge._smoothness import Objective, measure, partitions
from experiments.fslora.bridge.smoothness import SmoothnessConfig, SmoothnessSetup, probes
from linsys import InputError
from lora_bridge.curvature import Precision
from lora_bridge.tasks import Task, stacked
from tests._small_runs import Change, on_model

TINY: dict[str, Any] = {
    "targets": ("q_proj", "down_proj"),
    "rank": 4,
    "ratios": (0.25, 0.5),
    "devices": 2,
    "samples": 12,
    "concentration": 50.0,
    "tests": 2,
    "batch": 2,
    "local_steps": 2,
    "seeds": 2,
    "rounds": 4,
    "points": 1,
    "factors": (4, 2),
    "draws": 2,
    "probe": 3,
}


#: The paper's profile, shrunk; with the dropout that it has.
SMALL = {
    smoothness: replace(
        smoothness.EXPERIMENT.profiles["paper"],
        **TINY,
        device="cpu",
        dtype="float32",
        max_length=64,
    )
}


def sketched(factor: float, column: str) -> Change:
    """A column so many times as large wherever there is a sketch."""

    def change(table: rc.Table) -> rc.Table:
        return rc.Table({**table, column: table[column] * np.where(table["factor"] > 1, factor, 1)})

    return change


class TestBridge(rc.ExperimentSuite):
    small = SMALL
    slow = frozenset(SMALL)
    contradicted = tuple(
        (smoothness, sketched(factor, column), name)
        for column, factor, name in (
            ("spread", 1.01, "start: sigma_s^2"),
            ("noise", 1.01, "start: sigma_g^2"),
            ("identity", 0.99, "path: curvature of f~ at X"),
            ("relaxed", 3.0, "path: curvature of f^S"),
        )
    )


_model = on_model(TestBridge)


@pytest.fixture(scope="module")
def config() -> SmoothnessConfig:
    return TestBridge.small[smoothness]


@pytest.fixture(scope="module")
def table() -> rc.Table:
    return TestBridge.table(smoothness)


@pytest.fixture(scope="module")
def task(config: SmoothnessConfig) -> Task:
    return probes(SmoothnessSetup(config).draw("test", 0).oracle.task, config.probe)


def test_every_component_is_in_equally_many_sketches() -> None:
    rng = np.random.default_rng(1)
    for factor, count in ((8, 8), (4, 8), (2, 8), (1, 1)):
        blocks = partitions(8, factor, 7, rng)
        assert len(blocks) == count
        assert {len(chosen) for chosen in blocks} == {8 // factor}
        assert len(set(np.bincount(np.concatenate(blocks)))) == 1
    with pytest.raises(InputError, match="must divide r = 8"):
        partitions(8, 3, 1, rng)


def _hessian(f: Objective, X: Any) -> Any:
    """The dense Hessian of f at X (r, w), of shape (r, w, r, w)."""
    units = torch.eye(X.numel(), dtype=X.dtype).reshape(-1, *X.shape)
    return torch.stack([f.product(X, unit) for unit in units]).reshape(*X.shape, *X.shape)


@pytest.mark.slow
def test_curvatures_are_those_of_blocks_of_the_hessian_farther_out(task: Task) -> None:
    f, factor = Objective(task), 2
    X = 0.3 * torch.from_numpy(np.random.default_rng(2).normal(size=(4, task.bank.width))).float()
    measurement = measure(task, X, factor, 4, Precision(60, 1e-4), np.random.default_rng(3))
    sketches = partitions(4, factor, 4, np.random.default_rng(3))
    sizes, total = [], torch.zeros(*X.shape, *X.shape)
    for rows in sketches:
        moved = torch.zeros_like(X)
        moved[rows] = factor**0.5 * X[rows]
        kept = torch.zeros(4)
        kept[rows] = 1.0
        block = factor * _hessian(f, moved) * kept[:, None, None, None] * kept[:, None]
        total += block / len(sketches)
        sizes.append(_norm(block))
    assert measurement["curvature"] == pytest.approx(np.mean(sizes), rel=2e-3)
    assert measurement["steepest"] == pytest.approx(max(sizes), rel=2e-3)
    assert measurement["relaxed"] == pytest.approx(_norm(total), rel=2e-3)
    assert measurement["identity"] == pytest.approx(1.0, abs=1e-4)
    assert measurement["residual"] <= 1e-3


def _norm(H: Any) -> float:
    size = H.shape[0] * H.shape[1]
    return float(np.abs(np.linalg.eigvalsh(H.reshape(size, size).double().numpy())).max())


def test_variances_are_those_of_the_gradients(task: Task) -> None:
    factor, N = 4, task.clients
    X = 0.3 * torch.from_numpy(np.random.default_rng(4).normal(size=(4, task.bank.width))).float()
    measurement = measure(task, X, factor, 4, Precision(1, 0.5), np.random.default_rng(5))
    batch = stacked(task.shards, task.bank.device)
    each, noise, losses = torch.zeros(4, N, *X.shape), [], []
    for row in range(4):  # k = 1: every component is a sketch
        points = X[row].expand(N, 1, -1)
        values, gradients = task.bank.per_sample(points, batch, task.loss, float(factor))
        each[row, :, row] = gradients.mean(1)[:, 0]
        noise.append(gradients.var(1).sum((1, 2)))
        losses.append(values.mean())
    mean = each.mean(0)
    assert measurement["loss"] == pytest.approx(float(torch.stack(losses).mean()), rel=1e-4)
    assert measurement["noise"] == pytest.approx(float(torch.stack(noise).mean()), rel=1e-3)
    spread = ((each - mean) ** 2).sum((2, 3)).mean()
    assert measurement["spread"] == pytest.approx(float(spread), rel=1e-3)
    assert measurement["size"] == pytest.approx(float((mean**2).sum((1, 2)).mean()), rel=1e-3)
    assert measurement["slope"] == pytest.approx(float((mean.mean(0) ** 2).sum()), rel=1e-3)
    apart = ((mean - mean.mean(0)) ** 2).sum((1, 2)).max()
    assert measurement["apart"] == pytest.approx(float(apart), rel=1e-3)


@pytest.mark.slow
def test_a_small_run_meets_what_is_derived(config: SmoothnessConfig) -> None:
    assert config.dropout > 0
    analysis = TestBridge.analysed(smoothness)
    assert [check.ok for check in analysis.checks] == [True] * 4
    assert any("exponent of r/k, curvature of f~" in note for note in analysis.notes)
    assert len(smoothness.draw(config, analysis).axes) == 6


def test_with_few_samples_the_probe_is_named(config: SmoothnessConfig) -> None:
    task = SmoothnessSetup(config).draw("test", 0).oracle.task
    with pytest.raises(InputError, match="`probe` must be at most the samples of every device"):
        probes(task, 1000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factors": (3, 2)}, "must divide rank = 8"),
        ({"factors": (2, 4)}, "decreasing"),
        ({"factors": (2,)}, "two or more"),
        ({"probe": 1}, "`probe`"),
        ({"tolerance": 0.0}, "`tolerance`"),
    ],
)
def test_bad_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SmoothnessConfig(**options)


@pytest.mark.slow
def test_one_device_is_apart_from_none(config: SmoothnessConfig, table: rc.Table) -> None:
    alone = rc.Table({**table, "apart": np.zeros_like(table["apart"])})
    single, several = (smoothness.analyse(config, each) for each in (alone, table))
    names = [one.name for one in several.series]
    assert "devices apart" in names
    assert [one.name for one in single.series] == [n for n in names if n != "devices apart"]
    assert not any("grad f_i - grad f|" in note for note in single.notes)
    smoothness.draw(config, single)
