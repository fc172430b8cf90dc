"""Measured affinities, noise, curvature and subspaces are the exact ones of small cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import orth, subspace_angles
from torch import Tensor

from linsys import InputError
from linsys.preference.subspace import distance
from linsys.sketching.adapters import Modules
from lora_bridge.bank import AdapterBank
from lora_bridge.curvature import Precision, curvature, largest
from lora_bridge.measure import (
    Gradients,
    adapter_distances,
    adapter_spread,
    environment_distances,
    gradients_of,
    objective_distances,
    share_distances,
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
    slopes = gradients_of(Task(bank, shards, token_loss), X)
    each = bank.per_sample(X, batch, token_loss)[1].flatten(2)
    torch.testing.assert_close(slopes.mean, each.mean(1))
    torch.testing.assert_close(slopes.noise, each.var(1).sum(1))
    assert slopes.samples.tolist() == [m, m]
    with pytest.raises(InputError, match=r"2 samples or more; found \[1, 1\]"):
        gradients_of(Task(bank, [{k: v[:1] for k, v in s.items()} for s in shards], token_loss), X)


def test_distances_of_gradients_are_without_the_noise() -> None:
    """Agents with the same expectation: 0 on average, where the plain distance is 2 noise / m."""
    generator = torch.Generator().manual_seed(0)
    draws, m, d = 400, 5, 3
    samples = torch.randn(draws, N, m, d, generator=generator, dtype=torch.float64)
    sizes = torch.tensor([m, m]).double()
    distances = [Gradients(g.mean(1), g.var(1).sum(1), sizes).distances()[0, 1] for g in samples]
    values = torch.stack(distances)
    error = float(values.std()) / draws**0.5
    assert abs(float(values.mean())) < 4 * error < 0.5 * 2 * d / m
    two = Gradients(torch.tensor([[3.0, 4.0], [4.0, -3.0]]), torch.zeros(2), torch.ones(2))
    torch.testing.assert_close(two.alignment(), torch.eye(2))
    torch.testing.assert_close(two.distances(), torch.tensor([[0.0, 50.0], [50.0, 0.0]]))


@pytest.mark.slow
def test_the_curvature_is_the_largest_eigenvalue_of_the_hessian() -> None:
    bank, batch = _bank(), _batch(3)
    X = _rows(bank, 1)
    curvatures = curvature(bank, X, batch, token_loss, 2.0, precision=Precision(40, 1e-6))
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
        assert curvatures[i].residual <= 1e-6
        assert curvatures[i].size == pytest.approx(true, rel=1e-6)
        direction = curvatures[i].vector.flatten()
        torch.testing.assert_close((H @ direction).norm(), direction.norm() * true)
    shorter = curvature(bank, X, batch, token_loss, 2.0, precision=Precision(3, 1e-6))
    assert all(a.size < b.size for a, b in zip(shorter, curvatures, strict=True))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_eigenvalue_is_found_with_its_direction(sign: float) -> None:
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    values = np.array([sign * 9.0, *rng.uniform(-6, 6, 11)])
    H = torch.from_numpy(Q @ np.diag(values) @ Q.T)
    start = torch.from_numpy(rng.normal(size=12))
    eigenvalue = largest(lambda v: H @ v, start, Precision(12, 1e-9))
    assert eigenvalue.size == pytest.approx(9.0)
    assert abs(float(eigenvalue.vector @ torch.from_numpy(Q[:, 0]))) == pytest.approx(1.0)
    rough = largest(lambda v: H @ v, start, Precision(3, 1e-9))
    assert rough.size < 9.0
    assert np.abs(np.abs(values) / rough.size - 1.0).min() <= rough.residual


def _factors(*factors: np.ndarray) -> tuple[Modules, Tensor]:
    """One module whose clients have these B (m, r); A is random."""
    rng = np.random.default_rng(1)
    m, r = factors[0].shape
    modules = Modules([(m, 5)])
    rows = [modules.join([(B, rng.normal(size=(r, 5)))]) for B in factors]
    return modules, torch.from_numpy(np.stack(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_a_map_of_few_directions_has_no_larger_eigenvalue(d: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    for _ in range(40):
        start, v = torch.randn(2, d, generator=generator, dtype=dtype)
        maps = (lambda x: 1.0 * x, lambda x, v=v: v * (v * x).sum(), lambda x: 0.0 * x)
        for apply, size in zip(maps, (1.0, float(v @ v), 0.0), strict=True):
            eigenvalue = largest(apply, start, Precision(30, 0.0))  # as many steps as there may be
            assert eigenvalue.size == pytest.approx(size, rel=1e-5)
            assert eigenvalue.residual <= 1e-5


def test_distances_are_those_of_principal_angles() -> None:
    """Against SciPy's angles, for equal and for different dimensions, and the one definition."""
    rng = np.random.default_rng(0)
    full, other = rng.normal(size=(2, 9, 3))
    near = full + 1e-6 * rng.normal(size=(9, 3))
    thin = other @ rng.normal(size=(3, 2)) @ rng.normal(size=(2, 3))  # of rank 2
    zero = np.zeros((9, 3))
    modules, X = _factors(full, other, near, thin, zero)
    [distances] = adapter_distances(modules, X)
    bases = [full, other, near, orth(thin)]
    for i, one in enumerate(bases):
        for j, two in enumerate(bases):
            square = (np.sin(subspace_angles(one, two)) ** 2).sum()
            square += abs(one.shape[1] - two.shape[1]) / 2
            assert distances[i, j] == pytest.approx(np.sqrt(square), rel=1e-8, abs=1e-12)
    assert distances[0, 1] == pytest.approx(distance(orth(full), orth(other)))
    assert 0 < distances[0, 2] < 1e-5
    assert distances[1, 3] == pytest.approx(np.sqrt(1 / 2))  # inside, but smaller
    np.testing.assert_allclose(distances[4], [np.sqrt(3 / 2)] * 3 + [1.0, 0.0])
    np.testing.assert_allclose(distances, distances.T)
    with pytest.raises(InputError, match="`factor`"):
        adapter_distances(modules, X, "left")


def test_factors_of_the_same_subspace_are_no_distance_apart() -> None:
    modules, rng = Modules([(4, 3), (2, 5)]), np.random.default_rng(0)
    first = rng.normal(size=(3, modules.width))
    mixed = rng.normal(size=(3, 3)) @ first  # other columns of the same spaces
    X = torch.from_numpy(np.stack([first, mixed]))
    for factor in ("up", "down"):
        gap = adapter_distances(modules, X, factor)
        assert gap.shape == (2, 2, 2)
        np.testing.assert_allclose(gap, 0.0, atol=1e-12)


def test_the_spread_is_zero_for_the_same_and_one_for_unrelated_subspaces() -> None:
    rng, modules, r = np.random.default_rng(0), Modules([(30, 20), (1, 20)]), 2
    X = torch.from_numpy(rng.normal(size=(12, r, modules.width)))
    up, down = (adapter_spread(modules, X, factor) for factor in ("up", "down"))
    assert up[0] == pytest.approx(1.0, abs=0.05)
    assert np.isnan(up[1])  # one dimension holds one line
    np.testing.assert_allclose(down, 1.0, atol=0.05)
    same = X.clone()
    same[..., :30] = X[0, :, :30]
    assert adapter_spread(modules, same)[0] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(adapter_spread(modules, same, "down"), down)
    same[..., :30] = 0.0
    assert np.isnan(adapter_spread(modules, same)).all()
    mixed = X.clone()
    mixed[:6, 1, :30] = mixed[:6, 0, :30]  # half of the clients have rank one there
    assert adapter_spread(modules, mixed)[0] == pytest.approx(1.0, abs=0.05)
    with pytest.raises(InputError, match="at least 2 clients; found 1"):
        adapter_spread(modules, X[:1])


TABLE = torch.tensor([[0.6, 0.4], [0.3, 0.7]])
NONE = torch.full((4, 2), torch.nan)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: share_distances(3 * TABLE), "`shares` must have rows with sum 1; found 3"),
        (lambda: share_distances(TABLE[0]), r"`shares` must have shape \(n, D\); found \(2,\)"),
        (lambda: share_distances(TABLE.tolist()), "`shares` must be a tensor of floating-point"),
        (lambda: objective_distances(TABLE), r"`wanted` must have shape \(n, m, C\)"),
        (lambda: objective_distances(TABLE[None] * torch.nan), "`wanted` must be finite"),
        (lambda: environment_distances([NONE, NONE]), r"`exp\(log_ratio\)` must be finite"),
        (lambda: environment_distances([TABLE] * 3), r"`log_ratio` must have shape \(texts, 3\)"),
        (lambda: environment_distances([TABLE[:0]] * 2), "`log_ratio` must hold a text or more"),
        (lambda: Precision(0, 1e-3), "`steps` must be a whole number of at least 1"),
        (lambda: Precision(3, float("nan")), "`tolerance` must be a number"),
        (
            lambda: largest(lambda v: v, torch.zeros(3), Precision(3, 0.1)),
            "`start` must not be zero",
        ),
        (
            lambda: largest(lambda v: v / 0, torch.ones(3), Precision(3, 0.1)),
            "`product` must be fin",
        ),
        (
            lambda: largest(lambda v: v, torch.ones(3), 3),
            "`precision` must be a Precision; found 3",
        ),
        (
            lambda: largest(lambda v: v.sum(), torch.ones(3), Precision(3, 0.1)),
            r"shape \(3,\); found",
        ),
    ],
)
def test_what_cannot_be_measured(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_adapters_of_other_clients_or_modules_are_refused() -> None:
    bank = _bank()
    shards = [{name: value[0] for name, value in _batch(2).items()}] * N
    X = _rows(bank, 2)
    shape = rf"`X` must have shape \({N}, r, {bank.width}\)"
    for rows in (torch.cat([X, X]), X[:1]):
        with pytest.raises(InputError, match=shape):
            gradients_of(Task(bank, shards, token_loss), rows)
    for measure in (adapter_distances, adapter_spread):
        with pytest.raises(InputError, match=rf"`X` must have shape \(clients, r, {bank.width}\)"):
            measure(bank.modules, X[..., :-1])
        with pytest.raises(InputError, match="`X` must be finite"):
            measure(bank.modules, X * torch.nan)
