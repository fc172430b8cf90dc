"""The benchmark's peers do the same: objective, gradients, and where they end."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.benchmarks.preference import Size, Task, near
from linsys.preference.likelihood import factor_gradients, gradient, log_likelihood

TASK = Task(Size(12, 6, 2, 2, 60))


def test_the_peers_have_our_likelihood_and_gradients() -> None:
    rng = np.random.default_rng(0)
    B, W = rng.standard_normal((6, 2)), rng.standard_normal((12, 2, 2))
    expected = (log_likelihood(TASK.data, B @ W).sum(), *factor_gradients(TASK.data, B, W))
    for found in (TASK.einsum(B, W), TASK.matmul(B, W)):
        for ours, theirs in zip(expected, found, strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=1e-10, atol=1e-11)
    value, G = TASK.einsum_by_delta(B @ W)
    assert value == pytest.approx(float(expected[0]), rel=1e-12)
    np.testing.assert_allclose(G, gradient(TASK.data, B @ W), atol=1e-11)


def test_all_reach_the_maximum() -> None:
    reached = [TASK.ours(), TASK.ours(tol=1e-4), TASK.scipy(TASK.einsum), TASK.scipy(TASK.matmul)]
    assert all(near(value, TASK.best) for value in reached)
    assert not near(TASK.best * (1 + 2e-8), TASK.best)
    assert TASK.evaluations > 10


def test_torch_reaches_it_too() -> None:
    pytest.importorskip("torch")
    assert near(TASK.torch(), TASK.best)
