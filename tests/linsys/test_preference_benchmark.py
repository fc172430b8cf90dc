"""The benchmark's peers do the same: objective, gradients, and where they end."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.benchmarks.preference import Size, Task, near
from linsys.preference.likelihood import factor_gradients, gradient, log_likelihood


@pytest.fixture(scope="module")
def task() -> Task:
    return Task(Size(12, 6, 2, 2, 60))


def test_the_peers_have_our_likelihood_and_gradients(task: Task) -> None:
    rng = np.random.default_rng(0)
    B, W = rng.standard_normal((6, 2)), rng.standard_normal((12, 2, 2))
    expected = (log_likelihood(task.data, B @ W).sum(), *factor_gradients(task.data, B, W))
    for answer in (task.einsum(B, W), task.matmul(B, W)):
        for ours, theirs in zip(expected, answer, strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=1e-10, atol=1e-11)
    value, G = task.einsum_by_delta(B @ W)
    assert value == pytest.approx(float(expected[0]), rel=1e-12)
    np.testing.assert_allclose(G, gradient(task.data, B @ W), atol=1e-11)


def test_all_reach_the_maximum(task: Task) -> None:
    reached = [task.ours(), task.ours(tol=1e-4), task.scipy(task.einsum), task.scipy(task.matmul)]
    assert all(near(value, task.best) for value in reached)
    assert not near(task.best * (1 + 2e-8), task.best)
    assert task.evaluations > 10


def test_torch_reaches_it_too(task: Task) -> None:
    pytest.importorskip("torch")
    assert near(task.torch(), task.best)
