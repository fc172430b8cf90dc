"""Measured affinities, noise, curvature and subspaces are the exact ones of small cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from linsys import InputError
from linsys.sketching.adapters import Modules
from lora_bridge.bank import AdapterBank
from lora_bridge.measure import (
    Gradients,
    adapter_distances,
    curvature,
    environment_distances,
    gradients_of,
    objective_distances,
    share_distances,
    smoothness,
)
from lora_bridge.tasks import Task
from tests.lora_bridge._models import small_batch, small_model, token_loss

N = 2


def _bank() -> AdapterBank:
    return AdapterBank(small_model("gpt2", torch.float64), ["c_attn"], scaling=2.0)


def _rows(bank: AdapterBank, r: int) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return 0.1 * torch.randn(N, r, bank.width, generator=generator, dtype=torch.float64)


def _batch(samples: int, seed: int = 1) -> dict[str, Tensor]:
    made = small_batch(N, samples, seed=seed)
    return {name: made[name] for name in ("input_ids", "attention_mask")}


def test_a_classifier_shows_no_more_than_the_total_variation() -> None:
    """Two agents with three kinds of texts: with the true ratios the bound is met."""
    shares = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    true = float(share_distances(shares)[0, 1])
    assert true == pytest.approx(0.5)
    log = (shares / shares.mean(0)).log().mT
    generator = torch.Generator().manual_seed(0)
    texts = [torch.multinomial(w, 4000, replacement=True, generator=generator) for w in shares]
    seen = environment_distances([log[kinds] for kinds in texts])
    assert abs(float(seen.value[0, 1]) - true) < 4 * float(seen.error[0, 1])
    assert 0.008 < float(seen.error[0, 1]) < 0.012  # sqrt(.9 .1 / 4000 + .4 .6 / 4000)
    blind = log[[0, 0, 2]]  # takes the second kind for the first
    assert environment_distances([blind[k] for k in texts]).value[0, 1] <= true + 0.04
    nothing = environment_distances([torch.zeros(len(k), 2) for k in texts])
    assert nothing.value[0, 1] == 0


def test_distances_of_objectives_are_total_variations() -> None:
    wanted = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    torch.testing.assert_close(objective_distances(wanted), torch.tensor([[0.0, 0.5], [0.5, 0.0]]))


def test_gradients_of_agents_and_their_noise() -> None:
    bank, m = _bank(), 20  # more than go through at once
    batch = _batch(m)
    shards = [{name: value[i] for name, value in batch.items()} for i in range(N)]
    X = _rows(bank, 2)
    found = gradients_of(Task(bank, shards, token_loss), X)
    each = bank.per_sample(X, batch, token_loss)[1].flatten(2)
    torch.testing.assert_close(found.mean, each.mean(1))
    torch.testing.assert_close(found.noise, each.var(1).sum(1))
    assert found.samples.tolist() == [m, m]
    with pytest.raises(InputError, match=r"2 samples or more; found \[1, 1\]"):
        gradients_of(Task(bank, [{k: v[:1] for k, v in s.items()} for s in shards], token_loss), X)


def test_distances_of_gradients_are_without_the_noise() -> None:
    """Agents with the same expectation: 0 on average, where the plain distance is 2 noise / m."""
    generator = torch.Generator().manual_seed(0)
    draws, m, d = 400, 5, 3
    samples = torch.randn(draws, N, m, d, generator=generator, dtype=torch.float64)
    sizes = torch.tensor([m, m]).double()
    found = [Gradients(g.mean(1), g.var(1).sum(1), sizes).distances()[0, 1] for g in samples]
    values = torch.stack(found)
    error = float(values.std()) / draws**0.5
    assert abs(float(values.mean())) < 4 * error < 0.5 * 2 * d / m
    two = Gradients(torch.tensor([[3.0, 4.0], [4.0, -3.0]]), torch.zeros(2), torch.ones(2))
    torch.testing.assert_close(two.alignment(), torch.eye(2))
    torch.testing.assert_close(two.distances(), torch.tensor([[0.0, 50.0], [50.0, 0.0]]))


def test_the_curvature_is_the_largest_eigenvalue_of_the_hessian() -> None:
    bank, batch = _bank(), _batch(3)
    X = _rows(bank, 1)
    found = curvature(bank, X, batch, token_loss, 2.0, steps=60)
    for i in range(N):
        one = {name: value[i : i + 1] for name, value in batch.items()}
        size = X[i].numel()
        H = torch.stack(
            [
                bank.hvp(X[i : i + 1], one, token_loss, e.reshape(1, *X[i].shape), 2.0).flatten()
                for e in torch.eye(size, dtype=torch.float64)
            ]
        )
        true = float(torch.linalg.eigvalsh((H + H.mT) / 2).abs().max())
        assert true * 0.99 < float(found[i]) <= true * (1 + 1e-9)
    shorter = curvature(bank, X, batch, token_loss, 2.0, steps=5)
    assert (shorter <= found * (1 + 1e-9)).all()


def test_the_curvature_of_sketches_at_full_rank_is_the_full_one() -> None:
    bank, batch = _bank(), _batch(2)
    X = _rows(bank, 2)
    same = smoothness(bank, X, batch, token_loss, 2, draws=1, steps=5)
    assert same.predicted == 1.0
    torch.testing.assert_close(same.ratio, torch.ones(N, dtype=torch.float64))
    half = smoothness(bank, X, batch, token_loss, 1, draws=3, steps=5)
    assert (half.predicted, half.sketched.shape) == (2.0, (3, N))
    rows = [curvature(bank, X[:, [j]], batch, token_loss, 2.0, steps=5) for j in range(2)]
    assert all(any(torch.allclose(draw, row) for row in rows) for draw in half.sketched)
    with pytest.raises(InputError, match="`k`"):
        smoothness(bank, X, batch, token_loss, 3)


def test_subspaces_of_adapters() -> None:
    modules = Modules([(4, 3), (2, 5)])
    rng = np.random.default_rng(0)
    first = rng.normal(size=(3, modules.width))
    mixed = rng.normal(size=(3, 3)) @ first  # other columns of the same spaces
    B = np.zeros((4, 3))
    B[:, 0] = modules.split(first)[0][0][:, 0]
    thin = modules.join([(B, modules.split(first)[0][1]), modules.split(first)[1]])
    X = torch.from_numpy(np.stack([first, mixed, thin]))
    found = adapter_distances(modules, X)
    assert found.shape == (2, 3, 3)
    np.testing.assert_allclose(found[:, 0, 1], 0.0, atol=1e-7)
    np.testing.assert_allclose(found[0, 0, 2], 1.0)  # one of three columns: sqrt((3 - 1) / 2)
    np.testing.assert_allclose(adapter_distances(modules, X, "down"), 0.0, atol=1e-7)
    start = torch.from_numpy(modules.start(2, rng))[None]
    with pytest.raises(InputError, match=r"client 0 must have a factor that spans.*module 0"):
        adapter_distances(modules, start)
    with pytest.raises(InputError, match="`factor`"):
        adapter_distances(modules, X, "left")
