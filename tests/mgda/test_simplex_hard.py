"""Certificates on hard families, large programs, namespaces, scales and memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numba.core.errors import TypingError

from experiments.benchmarks._hard_programs import FAMILIES, SHARES, worst_residuals
from mgda._active_set import allocation_free, wolfe
from mgda._programs import certify
from mgda.simplex import ACCURACY, gram, min_norm, simplex_qp

PROMISED = 1e-12


def plain_residual(Q, weights):
    """The certificate once more, in extended precision where there is one, without the package."""
    Q, weights = Q.astype(np.longdouble), weights.astype(np.longdouble)
    size = np.abs(Q).max(axis=(1, 2))
    slopes = np.einsum("bij,bj->bi", Q, weights) / np.where(size > 0, size, 1)[:, None]
    gap = slopes - (weights * slopes).sum(axis=1, keepdims=True)
    parts = [(-gap).max(axis=1), np.abs(weights * gap).max(axis=1), (-weights).max(axis=1)]
    return np.max([*parts, np.abs(weights.sum(axis=1) - 1)], axis=0).astype(float)


def test_the_promise_is_the_documented_one():
    assert ACCURACY == PROMISED


def test_certificates_of_every_family():
    programs, worst = worst_residuals(20_000)
    assert programs >= 20_000
    assert worst.keys() == FAMILIES.keys()
    assert max(worst.values()) <= PROMISED


@pytest.mark.slow
def test_certificates_of_a_million_programs():
    programs, worst = worst_residuals(1_000_000, seed=1)
    assert programs >= 1_000_000
    assert max(worst.values()) <= PROMISED


@pytest.mark.parametrize("M", SHARES)
@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "huge and tiny"])
def test_certificates_are_confirmed_elsewhere(name, M):
    Q = gram(FAMILIES[name](np.random.default_rng(M), 40, M))
    weights = simplex_qp(Q)
    assert weights.optimal.all()
    assert plain_residual(Q, weights.weights).max() <= PROMISED
    np.testing.assert_allclose(weights.residual, plain_residual(Q, weights.weights), atol=1e-14)


@pytest.mark.parametrize("M", [2, 3, 4, 8, 16, 32])
def test_quadprog_finds_the_same(M):
    quadprog = pytest.importorskip("quadprog")
    constraints, right = np.c_[np.ones(M), np.eye(M)], np.r_[1.0, np.zeros(M)]
    for name in set(FAMILIES) - {"huge and tiny"}:
        G = gram(FAMILIES[name](np.random.default_rng(M), 10, M))
        answer = simplex_qp(G, beta=0.1, normalise=True)
        mean = np.trace(G, axis1=1, axis2=2)[:, None, None] / M
        for Q, weights in zip(G / np.where(mean > 0, mean, 1), answer.weights, strict=True):
            theirs = quadprog.solve_qp(
                2 * (Q + 0.05 * np.eye(M)), np.zeros(M), constraints, right, 1
            )[0]
            # entries up to M, curvature at least 0.05: rounding times 20 M, and room
            assert np.abs(weights - theirs).max() <= 1e-13 * 20 * M


@pytest.mark.slow
@pytest.mark.parametrize(("M", "d"), [(33, 8), (64, 64), (150, 40), (300, 150), (600, 150)])
@pytest.mark.parametrize("beta", [0.0, 0.01])
def test_large_programs_keep_the_promise(M, d, beta):
    rng = np.random.default_rng(M)
    A = rng.standard_normal((d, M))
    for gradients in (
        A,
        A * 10.0 ** rng.uniform(-8, 8, size=M),
        np.concatenate([np.ones((1, M)), 1e-6 * A]),
        np.concatenate([A, A], axis=1)[:, :M] * rng.choice([-1.0, 0.0, 1.0], size=M),
    ):
        G = gradients.T @ gradients
        weights = simplex_qp(G, beta=beta, normalise=True)
        assert weights.optimal
        Q = G * M / np.trace(G) + beta / 2 * np.eye(M)
        assert plain_residual(Q[None], weights.weights[None]) <= PROMISED


def test_zero_in_the_hull_of_many_low_rank_gradients():
    # slopes are of the order of the square root of the objective, which rounds to zero first
    rng = np.random.default_rng(0)
    rng.standard_normal((1000, 1000))
    A = rng.standard_normal((250, 1000))
    weights = simplex_qp(A.T @ A)
    assert weights.residual <= 1e-14


def test_a_wrong_answer_is_never_called_optimal(monkeypatch):
    def uniform(Q, weights):
        weights[:] = 1 / weights.shape[1]

    monkeypatch.setattr("mgda.simplex.solve_batch", uniform)
    answer = simplex_qp(np.array([np.eye(3), np.diag([1.0, 2.0, 3.0])]))
    assert answer.optimal.tolist() == [True, False]
    assert answer.residual[1] > 0.1


def test_not_a_number_is_not_optimal():
    weights, objective, residual = np.array([[np.nan, 1.0], [1.0, np.nan]]), *np.empty((2, 2))
    certify(np.stack([np.eye(2)] * 2), weights, objective, residual)
    assert np.isnan(residual).all()


def test_scales_beside_each_other_in_one_batch():
    A = np.random.default_rng(1).standard_normal((5, 6, 4))
    scales = np.array([1e-150, 1e-80, 1.0, 1e80, 1e150])[:, None, None]
    one = min_norm(A)
    weights = min_norm(scales * A)
    np.testing.assert_allclose(weights.weights, one.weights, rtol=1e-12)
    np.testing.assert_allclose(weights.objective / scales[:, 0, 0] ** 2, one.objective, rtol=1e-12)
    with_beta = min_norm(scales * A, beta=1.0).weights
    np.testing.assert_allclose(with_beta[:2], 0.25)  # the gradients vanish beside beta
    np.testing.assert_allclose(with_beta[3:], one.weights[3:], rtol=1e-12)
    np.testing.assert_allclose(with_beta[2], min_norm(A[2], beta=1.0).weights, rtol=1e-12)
    np.testing.assert_allclose(min_norm(1e-200 * A, beta=1.0).weights, 0.25, rtol=1e-14)


@pytest.mark.parametrize("M", [2, 3, 4, 7])
def test_short_gradients_beside_long_ones_share_the_weight_exactly(M):
    rng = np.random.default_rng(M)
    for _ in range(20):
        squares = 10.0 ** rng.uniform(-18, 0, size=M)
        squares[: M // 2] *= 1e-18
        rng.shuffle(squares)
        # orthogonal: lambda_j is proportional to 1 / ||g_j||^2
        expected = (1 / squares) / (1 / squares).sum()
        weights = simplex_qp(np.diag(squares))
        assert abs(weights.objective * (1 / squares).sum() - 1) <= 1e-12
        np.testing.assert_allclose(weights.weights, expected, atol=1e-12)


def test_matrices_of_extreme_scale():
    G = gram(np.random.default_rng(2).standard_normal((6, 4)))
    expected = simplex_qp(G).weights
    for scale in (2.0**-1000, 2.0**1000):
        weights = simplex_qp(scale * G)
        assert weights.residual <= PROMISED
        np.testing.assert_allclose(weights.weights, expected, rtol=1e-12)
    # subnormal entries, whose reciprocals overflow; they still have 44 bits
    assert simplex_qp(2.0**-1030 * G).residual <= PROMISED


@pytest.mark.parametrize("namespace", ["jax.numpy", "torch"])
def test_float32_gradients_of_other_namespaces_accumulate_in_float64(namespace):
    xp = pytest.importorskip(namespace)
    A = np.random.default_rng(3).standard_normal((2, 5000, 3)).astype(np.float32)
    weights = min_norm(xp.asarray(A))
    expected = min_norm(A.astype(np.float64))
    # in float32, 5000 products would round to 1e-5
    np.testing.assert_allclose(weights.weights, expected.weights, rtol=1e-13)
    np.testing.assert_allclose(weights.objective, expected.objective, rtol=1e-13)
    np.testing.assert_allclose(gram(xp.asarray(A)), gram(A), rtol=1e-13)


def test_gradients_with_a_history():
    torch = pytest.importorskip("torch")
    A = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    # torch on both sides, the same product: NumPy's library has last bits of its own
    expected = min_norm(A).weights
    np.testing.assert_array_equal(min_norm(A.clone().requires_grad_()).weights, expected)
    assert not np.array_equal(min_norm((A + 1e-9).requires_grad_()).weights, expected)


def test_pieces_and_shapes_change_no_bit():
    rng = np.random.default_rng(4)
    G = gram(rng.standard_normal((3, 7001, 4, 2)))
    whole = simplex_qp(G, beta=0.2)
    assert whole.weights.shape == (3, 7001, 2)
    assert whole.objective.shape == whole.residual.shape == whole.optimal.shape == (3, 7001)
    single = simplex_qp(G[2, 7000], beta=0.2)
    assert np.array_equal(single.weights, whole.weights[2, 7000])
    assert single.objective == whole.objective[2, 7000]
    flipped = simplex_qp(G[:, ::-1], beta=0.2)  # not contiguous
    assert np.array_equal(flipped.weights[:, ::-1], whole.weights)
    assert simplex_qp(np.zeros((0, 3, 3))).weights.shape == (0, 3)


@pytest.mark.parametrize("options", [{}, {"beta": 0.1}, {"beta": 0.1, "normalise": True}])
def test_a_batch_allocates_its_result_and_one_piece(options):
    count, M = 100_000, 4
    G = gram(np.random.default_rng(5).standard_normal((count, M, M)))
    simplex_qp(G[:2], **options)  # compiled
    tracemalloc.start()
    try:
        weights = simplex_qp(G, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    results = (weights.weights, weights.objective, weights.residual, weights.optimal)
    # a piece is 256 KiB; the matrices are 12.8 MB
    assert peak <= sum(values.nbytes for values in results) + 2**20


@pytest.mark.parametrize("rounding", [1e-13, 1e-11])
def test_gram_matrices_may_carry_rounding(rounding):
    rng = np.random.default_rng(6)
    G = gram(rng.standard_normal((200, 3, 6)))  # rank 3
    size = np.abs(G).max(axis=(1, 2))
    noisy = G + rounding * size[:, None, None] * rng.uniform(-1, 1, size=G.shape)
    weights = simplex_qp(noisy)
    # lambda' G lambda knows the symmetric part alone, and moves by the noise at most
    value = np.einsum("bi,bij,bj->b", weights.weights, noisy, weights.weights)
    np.testing.assert_allclose(weights.objective / size, value / size, atol=1e-15)
    assert (np.abs(weights.objective - simplex_qp(G).objective) <= 4 * rounding * size).all()


def allocating(count):
    return np.empty(count).sum()


def test_what_solves_one_program_cannot_allocate():
    with pytest.raises(TypingError, match="empty"):
        allocation_free(allocating)(3)
    assert wolfe.targetoptions == allocation_free(allocating).targetoptions
