from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

from experiments.benchmarks import bilevel
from experiments.benchmarks.bilevel import Task, heap, kept, saved_by_torch
from linsys.bilevel import adjoint, first_order, unrolled


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bilevel.SIZES, "p=5", (3, 4, 5))


@pytest.mark.parametrize("batch", [None, 1])
def test_all_peers_of_the_benchmark_compute_the_same_derivative(batch):
    task = Task("p=5", 12, batch)
    ours = task.ours()()
    peers = [
        task.torch(nested=True),
        task.torch(nested=False),
        task.numpy(adjoint),
        task.numpy(unrolled),
    ]
    if importlib.util.find_spec("jax") is not None:
        peers.append(task.jax())
    for peer in peers:
        np.testing.assert_allclose(peer(), ours, rtol=0, atol=1e-10 * np.abs(ours).max())
    other = task.numpy(first_order)()
    assert np.abs(other - ours).max() > 1e-4 * np.abs(ours).max()


@pytest.mark.parametrize(("batch", "nested"), [(1, True), (1, False), (None, True), (None, False)])
def test_torch_saves_tensors_of_every_step(batch, nested):
    short, long = (saved_by_torch(Task("p=5", D, batch), nested) for D in (10, 30))
    # at least the probabilities of every step: of one prompt, or of all of them
    assert long - short >= 20 * 8 * 4 * (1 if batch else 3)


def test_the_heap_is_counted_where_the_system_tells():
    if heap() == 0:
        assert not sys.platform.startswith("linux")
        return
    size = kept(lambda: np.ones(200_000))
    # block headers and whatever small things Python keeps meanwhile
    assert 1_600_000 <= size <= 1_700_000
