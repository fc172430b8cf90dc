"""Sketches, modules, low-rank sums and losses against their dense definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linsys import InputError
from linsys.sketching import LeastSquares, Logistic, Modules, TwoLayer
from linsys.sketching.low_rank import stack, truncate
from linsys.sketching.sketch import covariance, dense, every_support, support, top_k
from linsys.sketching.systems import MatrixSystem

SIZES = [(1, 1), (2, 1), (4, 1), (5, 3), (6, 6)]


def systems(seed: int = 0) -> list[MatrixSystem]:
    """One of each loss, three devices with different numbers of samples."""
    rng = np.random.default_rng(seed)
    x = tuple(rng.normal(size=(s, 4)) for s in (3, 7, 5))
    y = tuple(rng.normal(size=(len(a), 5)) for a in x)
    classes = tuple(np.eye(5)[rng.integers(5, size=len(a))] for a in x)
    W0 = rng.normal(size=(5, 4))
    U0, V0 = rng.normal(size=(6, 4)), rng.normal(size=(5, 6))
    return [LeastSquares(W0, x, y), Logistic(W0, x, classes), TwoLayer(U0, V0, x, y)]


@pytest.mark.parametrize(("r", "k"), SIZES)
def test_moments_of_sketches_are_means_over_all_supports(r: int, k: int) -> None:
    S = dense(every_support(r, k), r)
    np.testing.assert_allclose(S.mean(axis=0), np.eye(r), atol=1e-14)
    diagonals = S.diagonal(axis1=1, axis2=2)
    np.testing.assert_allclose(
        np.cov(diagonals.T, bias=True).reshape(r, r), covariance(r, k), atol=1e-13
    )


def test_supports_are_uniform_and_depend_on_their_names_alone() -> None:
    r, k, draws = 5, 2, 4000
    supports = [tuple(support(3, t, 1, r, k)) for t in range(draws)]
    assert supports[7] == tuple(support(3, 7, 1, r, k))
    for seed, device, step in ((4, 1, 0), (3, 2, 0), (3, 1, 1)):
        assert supports[:40] != [tuple(support(seed, t, device, r, k, step)) for t in range(40)]
    counts = np.array([supports.count(tuple(s)) for s in every_support(r, k)])
    # chi-square with 9 degrees of freedom: 27.9 is its 99.9 % quantile; the seed is fixed
    assert ((counts - draws / 10) ** 2 / (draws / 10)).sum() < 27.9


def test_top_k_keeps_the_largest_entries_and_counts_bytes() -> None:
    update = np.random.default_rng(1).normal(size=(4, 5))
    kept = top_k(update, 0.3)
    assert (kept.values != 0).sum() == 6
    assert kept.bytes == 6 * (8 + 4)
    assert np.abs(update[kept.values == 0]).max() < np.abs(kept.values[kept.values != 0]).min()
    assert (kept.values[kept.values != 0] == update[kept.values != 0]).all()
    assert top_k(update, 1.0).bytes == 20 * 8


def test_modules_split_and_join() -> None:
    modules = Modules([(2, 3), (4, 1)])
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=(m, 5)), rng.normal(size=(5, n))) for m, n in modules.shapes]
    X = modules.join(pairs)
    assert X.shape == (5, modules.width) == (5, 10)
    for (B, A), (D, C) in zip(pairs, modules.split(X), strict=True):
        assert (B == D).all()
        assert (A == C).all()
    chosen = np.array([1, 4])
    S = dense(chosen, 5)
    for product, (B, A) in zip(modules.products(X[chosen], 5 / 2), pairs, strict=True):
        np.testing.assert_allclose(product, B @ S @ A, rtol=1e-14)


@pytest.mark.parametrize("ranks", [[1], [2, 3], [7, 8, 9], [30, 2]])
@pytest.mark.parametrize("r", [1, 4, 12])
def test_truncation_is_that_of_the_dense_product(ranks: list[int], r: int) -> None:
    rng = np.random.default_rng(len(ranks))
    pairs = [(rng.normal(size=(9, k)), rng.normal(size=(k, 12))) for k in ranks]
    weights = rng.dirichlet(np.ones(len(ranks))).tolist()
    mean = sum(w * B @ A for w, (B, A) in zip(weights, pairs, strict=True))
    left, right = stack(pairs, weights)
    np.testing.assert_allclose(left @ right, mean, rtol=0, atol=1e-12 * np.abs(mean).max())
    B, A = truncate((left, right), r)
    U, s, Vt = np.linalg.svd(mean)
    best = (U[:, :9] * np.where(np.arange(9) < r, s, 0)) @ Vt[:9]
    assert B.shape == (9, r)
    assert A.shape == (r, 12)
    np.testing.assert_allclose(B @ A, best, rtol=0, atol=1e-12 * s[0])
    sizes = np.linalg.norm(B, axis=0) * np.linalg.norm(A, axis=1)
    np.testing.assert_allclose(sizes[: min(r, 9)], s[: min(r, 9)], rtol=0, atol=1e-12 * s[0])


def test_devices_ranks_cut_back_to_a_third_in_a_large_product() -> None:
    """Ranks 8, 16, 24, 24, as timed in the benchmark: 72 in all, and the best 24 of them."""
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=(200, k)), rng.normal(size=(k, 150))) for k in (8, 16, 24, 24)]
    left, right = stack(pairs, [0.25] * 4)
    mean = np.mean([B @ A for B, A in pairs], axis=0)
    U, s, Vt = np.linalg.svd(mean, full_matrices=False)
    np.testing.assert_allclose(left @ right, mean, rtol=0, atol=1e-12 * np.abs(mean).max())
    B, A = truncate((left, right), 24)
    best = (U[:, :24] * s[:24]) @ Vt[:24]
    np.testing.assert_allclose(B @ A, best, rtol=0, atol=1e-12 * s[0])
    # one component fewer is far away
    assert np.abs(B[:, :23] @ A[:23] - best).max() > 1e-3 * s[0]


@pytest.mark.parametrize("index", range(3))
def test_gradients_are_lemma_3_2(index: int) -> None:
    """Against differences of the loss at W0 + B S A, in all entries of B and A."""
    system = systems()[index]
    r, chosen = 4, np.array([0, 3])
    rng = np.random.default_rng(5)
    X = rng.normal(size=(r, system.modules.width))
    S = dense(chosen, r)

    def loss(X: np.ndarray) -> float:
        """By the definition: B S in the place of B."""
        pairs = [(B @ S, A) for B, A in system.modules.split(X)]
        return system.loss(1, system.modules.join(pairs))

    expected = np.zeros_like(X)
    for place in np.ndindex(*X.shape):
        step = np.zeros_like(X)
        step[place] = 1e-5
        expected[place] = (loss(X + step) - loss(X - step)) / 2e-5
    mean = np.zeros_like(X)
    mean[chosen] = system.gradient(1, X[chosen], r / 2)
    # differences are off by about 1e-10 in truncation and 1e-11 in rounding, relative to the loss
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-7 * np.abs(expected).max())
    assert (expected[[1, 2]] == 0).all()  # the structural zeros
    mean[chosen] = system.gradient(1, X[chosen], 1.0)
    with pytest.raises(AssertionError):  # the factor r / k is needed
        np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-2 * np.abs(expected).max())


@pytest.mark.parametrize("index", range(3))
def test_gradients_are_those_of_automatic_differentiation(index: int) -> None:
    """Torch differentiates the loss of W0 + B S A, as the definition has it, in B and A."""
    torch = pytest.importorskip("torch")
    system = systems()[index]
    chosen = np.array([0, 3])
    X = np.random.default_rng(6).normal(size=(4, system.modules.width))
    pairs = [[torch.tensor(part.copy()) for part in pair] for pair in system.modules.split(X)]
    factors = [part.requires_grad_() for pair in pairs for part in pair]
    x, y, S = (
        torch.tensor(v.copy()) for v in (system.inputs[1], system.targets[1], dense(chosen, 4))
    )

    def output(W0: np.ndarray, pair: list[Any], inputs: Any) -> Any:
        B, A = pair
        return inputs @ (torch.tensor(W0.copy()) + B @ S @ A).mT

    if isinstance(system, TwoLayer):
        z = output(system.V0, pairs[1], torch.tanh(output(system.U0, pairs[0], x)))
    else:
        z = output(system.W0, pairs[0], x)
    if isinstance(system, Logistic):
        loss = -(y * torch.log_softmax(z, dim=1)).sum() / len(x)
    else:
        loss = ((z - y) ** 2).sum() / (2 * len(x))
    by = [part.numpy() for part in torch.autograd.grad(loss, factors)]
    expected = system.modules.join(list(zip(by[::2], by[1::2], strict=True)))
    mean = np.zeros_like(X)
    mean[chosen] = system.gradient(1, X[chosen], 4 / 2)
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("index", range(3))
def test_merging_is_adapting(index: int) -> None:
    system = systems()[index]
    X = np.random.default_rng(2).normal(size=(2, system.modules.width))
    merged = system.with_frozen(system.merged(system.modules.products(X)))
    assert merged.mean_loss(0 * X) == pytest.approx(system.mean_loss(X), rel=1e-12)


def test_batches_are_unbiased_samples() -> None:
    x, y = np.arange(6.0)[:, None], np.zeros((6, 1))
    system = LeastSquares([[1.0]], (x,), (y,), batch=2, seed=4)
    X = np.array([[1.0, 0.5]])
    draws = [system.draw(0, t, h) for t in range(300) for h in range(2)]
    assert all(len(set(d)) == 2 for d in draws if d is not None)
    gradients = np.array([system.grad(0, X, 1.0, t, h) for t in range(300) for h in range(2)])
    error = gradients.std(axis=0) / np.sqrt(len(gradients))
    assert (np.abs(gradients.mean(axis=0) - system.gradient(0, X)) < 4 * error).all()


PAIR = (np.ones((2, 1)), np.ones((1, 3)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: support(0, 0, 0, 4, 0),
            "`k` must be a whole number of at least 1 and at most 4; found 0",
        ),
        (
            lambda: support(0, 0, 0, 4, 5),
            "`k` must be a whole number of at least 1 and at most 4; found 5",
        ),
        (lambda: every_support(60, 30), "`r` and `k` must give at most 1000000 subsets"),
        (lambda: top_k(np.ones(3), 0.0), "`ratio` must be"),
        (lambda: Modules([]), "`shapes` must name at least one module; found none"),
        (lambda: Modules([(0, 3)]), "m of a module"),
        (lambda: stack([], []), "`pairs` must be as many as `weights`, at least one"),
        (lambda: stack([PAIR, PAIR], [0.5, 0.6]), "`weights` must sum to 1; found 1.1"),
        (lambda: stack([PAIR, PAIR], [-0.5, 1.5]), r"`weights\[0\]` must be a number in \[0, inf"),
        (lambda: stack([PAIR], [np.nan]), r"`weights\[0\]` must be"),
        (
            lambda: stack([PAIR, (np.ones((3, 1)), np.ones((1, 3)))], [0.5, 0.5]),
            r"`pairs\[1\]` must have shapes \(2, k\) and \(k, 3\); found \(3, 1\) and \(1, 3\)",
        ),
        (lambda: stack([(np.ones((2, 1)), np.ones((2, 3)))], [1.0]), r"`pairs\[0\]` must have"),
        (lambda: LeastSquares([[1.0]], (), ()), "of the same devices, at least one"),
        (lambda: LeastSquares([[1.0]], ([[np.nan]],), ([[1.0]],)), r"inputs\[0\]` must be finite"),
        (lambda: LeastSquares([[1.0]], ([[1.0]],), ([[1.0, 2.0]],)), r"targets\[0\]"),
        (
            lambda: Logistic(np.ones((2, 1)), ([[1.0]],), ([[0.5, 0.6]],)),
            r"row 0 of `targets\[0\]` must",
        ),
        (
            lambda: Logistic(np.ones((2, 1)), ([[1.0]],), ([[1.5, -0.5]],)),
            r"`targets\[0\]` must be non-negative; found -0.5",
        ),
        (lambda: dense([], 3), "`k` must be a whole number of at least 1 and at most 3; found 0"),
        (lambda: dense([0, 3], 3), r"`indices` must be between 0 and 2; found \[0, 3\]"),
        (lambda: truncate((PAIR[0], np.ones((2, 3))), 1), r"`pair` must have shapes \(m, q\)"),
        (lambda: Modules([(2, 3)]).join([PAIR, PAIR]), "`pairs` must be 1; found 2"),
        (
            lambda: Modules([(2, 3), (4, 1)]).join([PAIR, (np.ones((4, 2)), np.ones((2, 1)))]),
            r"`pairs` must have shapes \(4, 1\) and \(1, 1\); found \(4, 2\) and \(2, 1\)",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        call()  # type: ignore[operator]
    assert "\n" not in str(raised.value)
