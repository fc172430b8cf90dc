"""What the figures of FSLoRA train: tasks, their systems side by side, runs and step sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.fslora.figures._tasks import TASKS, TaskConfig
from experiments.fslora.figures._training import climb, train
from experiments.fslora.figures.fig2 import Fig2Config
from linsys.sketching import FedStackLoRA, FlexLoRA, FSLoRA, HeteroLoRA, Logistic
from linsys.sketching.federated import State
from tests.fslora._small_tasks import SIZES


def test_the_tasks_side_by_side_are_logistic_regressions() -> None:
    config = TaskConfig(**SIZES)
    drawn = config.draw("test", 0)
    system, rng = drawn.system, np.random.default_rng(0)
    X = rng.normal(size=(3, system.modules.width))
    pairs = system.modules.split(X)
    alone = [
        Logistic(
            system.W0[p],
            tuple(x[p].T for x in system.inputs),
            tuple(y[p].T for y in system.targets),
        )
        for p in range(2)
    ]
    rows = [one.modules.join([pair]) for one, pair in zip(alone, pairs, strict=True)]
    for device in range(4):
        gradients = [
            one.gradient(device, x, 1.7).copy() for one, x in zip(alone, rows, strict=True)
        ]
        np.testing.assert_allclose(
            system.gradient(device, X, 1.7), np.concatenate(gradients, axis=1), atol=1e-14
        )
        losses = [one.loss(device, x, 1.7) for one, x in zip(alone, rows, strict=True)]
        np.testing.assert_allclose(system.losses(device, X, 1.7), losses)
        assert system.loss(device, X, 1.7) == pytest.approx(sum(losses))
    np.testing.assert_allclose(
        system.mean_losses(X), [one.mean_loss(x) for one, x in zip(alone, rows, strict=True)]
    )


@pytest.mark.parametrize("k", [1, 4, 7])
@pytest.mark.parametrize(
    "sizes",
    [SIZES, {**SIZES, "classes": 8, "features": 16, "samples": 24}],
    ids=["padded", "whole lanes"],
)
def test_compiled_steps_are_steps_along_the_gradient(sizes: dict[str, Any], k: int) -> None:
    system = TaskConfig(**sizes).draw("test", 0).system
    X = start = np.random.default_rng(k).normal(size=(k, system.modules.width))
    for _ in range(3):
        X = X - 0.1 * system.gradient(1, X, 1.7)
    moved = system.descend(1, start, 1.7, 0, 0.1, 3)
    # sums of some 20 terms in another order, three times
    np.testing.assert_allclose(moved, X, rtol=0, atol=1e-13)
    for scale, gamma in ((1.7, 0.1001), (1.701, 0.1)):
        assert np.abs(system.descend(1, start, scale, 0, gamma, 3) - X).max() > 1e-5


def test_compiled_steps_from_outputs_that_overflow_are_not_finite() -> None:
    system = TaskConfig(**SIZES).draw("test", 0).system
    X = np.full((2, system.modules.width), 1e200)
    assert not np.isfinite(system.descend(0, X, 1.0, 0, 0.1, 1)).any()


@pytest.mark.parametrize("method", [FSLoRA, HeteroLoRA, FlexLoRA, FedStackLoRA])
def test_training_is_the_algorithm_round_by_round(method: Any) -> None:
    config = Fig2Config(**SIZES, r=8)
    drawn, algorithm = config.draw("test", 1), method(gamma=0.1, H=2, ranks=config.device_ranks)
    curve = train(algorithm, drawn, config.r, 7, [0, 1, 3])
    state = algorithm.init(
        drawn.system.modules.start(config.r, np.random.default_rng(7)), drawn.system
    )
    sent = 0.0
    for _ in range(3):
        state, report = algorithm.round(state, drawn.system)
        sent += np.mean(report.up)
    accuracy, loss = drawn.judge(state)
    np.testing.assert_array_equal(curve.accuracy[-1], accuracy)
    np.testing.assert_array_equal(curve.loss[-1], loss)
    assert curve.up.tolist()[0] == 0.0
    assert curve.up[-1] == sent
    assert not curve.lost


def test_judging_is_the_accuracy_and_cross_entropy_of_the_adapted_matrix() -> None:
    config = TaskConfig(**SIZES)
    drawn, X = config.draw("test", 0), np.random.default_rng(1).normal(size=(8, 28))
    accuracy, loss = drawn.judge(State(X))
    for p, product in enumerate(drawn.system.modules.products(X)):
        z = (drawn.system.W0[p] + product) @ drawn.inputs[p]
        law = np.exp(z) / np.exp(z).sum(axis=0)
        own = law[drawn.labels[p], np.arange(200)]
        assert accuracy[p] == np.mean(law.argmax(axis=0) == drawn.labels[p])
        assert loss[p] == pytest.approx(-np.log(own).mean())


def test_what_explodes_is_lost_and_quiet() -> None:
    config = Fig2Config(**SIZES, r=8)
    ranks = config.device_ranks
    curve = train(
        FSLoRA(gamma=64.0, H=5, ranks=ranks), config.draw("test", 0), config.r, 0, [0, 4, 30]
    )
    assert curve.lost
    assert curve.loss[0].max() < 20.0 * np.log(6) == curve.loss[-1].min()


def test_tasks_are_what_they_say() -> None:
    config = TaskConfig(
        **{**SIZES, "tasks": ("steep", "skewed", "noisy"), "devices": 40, "classes": 10}
    )
    drawn = config.draw("test", 0)
    assert (drawn.teacher > 0.4).all()
    classes = np.mean([(y.sum(axis=2) > 0).sum(axis=1) for y in drawn.system.targets], axis=0)
    draws = np.arange(config.samples)
    for labels, task in zip(classes, config.tasks, strict=True):
        mix = TASKS[task].mix  # of 10 classes; Polya's urn leaves one out with this probability:
        missed = np.prod((9 * mix + draws) / (10 * mix + draws))
        # a device's number has a deviation below 1.5: four of the mean over 40 are 1
        assert abs(labels - 10 * (1 - missed)) < 1.0
    assert classes[1] < classes[0]
    before, _ = drawn.judge(State(np.zeros((1, drawn.system.modules.width))))
    assert (before < drawn.teacher - 0.1).all()
    other = config.draw("tuning", 0)
    assert not np.array_equal(other.system.W0, drawn.system.W0)
    assert TASKS["flat"].decay == 1.0


def test_a_search_for_a_step_finds_the_peak_and_flees_what_explodes() -> None:
    for peak in range(-5, 6):
        assert climb(lambda j, peak=peak: -abs(j - peak), 0) == peak
    asked: list[int] = []

    def score(j: int) -> float:
        asked.append(j)
        return -np.inf if j > -3 else float(j)

    assert climb(score, 2) == -3
    assert min(asked) == -4
