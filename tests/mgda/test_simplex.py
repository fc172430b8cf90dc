"""Simplex programs: optimality on hard inputs, exact answers, agreement of formulations."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linsys import InputError
from mgda.sensitivity import derivative, lipschitz, sensitivity_matrix
from mgda.simplex import gram, kkt_residual, min_norm, regulariser, simplex_qp

#: Rounding of M <= 32 products of entries up to one, with room for one digit.
RESIDUAL = 1e-12


def adversarial(rng, M, count):
    """Gram matrices of gradients of many kinds, (count, M, M)."""
    found = []
    for kind in range(count):
        d = int(rng.integers(1, 2 * M + 1))
        A = rng.standard_normal((d, M)) * 10.0 ** rng.uniform(-3, 3, size=M)
        if kind % 4 == 1:  # collinear with either sign, some zero
            A = A[:, :1] * rng.choice([-1.0, 0.0, 1.0, 2.0], size=M)
        elif kind % 4 == 2:  # nearly identical
            A = A[:, :1] + 10.0 ** rng.uniform(-12, -1) * rng.standard_normal((d, M))
        elif kind % 4 == 3:  # identical in pairs
            A[:, 1::2] = A[:, : M - M // 2 : 1][:, : M // 2]
        found.append(A.T @ A)
    return np.array(found)


@pytest.mark.parametrize("M", [1, 2, 3, 4, 5, 8, 13, 32])
def test_every_answer_is_optimal(M):
    Q = adversarial(np.random.default_rng(M), M, 2000 if M < 32 else 200)
    for shape in (Q, Q + 0.005 * np.eye(M)):
        found = simplex_qp(shape)
        assert found.residual.max() <= RESIDUAL
        assert found.weights.min() >= 0
        np.testing.assert_allclose(found.weights.sum(axis=-1), 1.0, rtol=1e-14)


def test_the_certificate_sees_a_wrong_answer():
    Q = adversarial(np.random.default_rng(1), 4, 50)[::4]
    weights = simplex_qp(Q).weights
    moved = 0.999 * weights + 0.001 * np.roll(weights, 1, axis=-1)
    assert kkt_residual(Q, weights).max() <= RESIDUAL
    assert kkt_residual(Q, moved).max() > 1e-6
    assert kkt_residual(Q[0], 2 * weights[0]) >= 0.5  # not on the simplex


def exact_minimum(Q):
    """The optimum by trying every support in rational arithmetic."""
    M = len(Q)
    F = [[Fraction(float(v)) for v in row] for row in Q]
    best = None
    for size in range(1, M + 1):
        for support in combinations(range(M), size):
            # K [lambda; mu] = [0; 1] with the bordered matrix, by elimination
            n = size + 1
            K = [[F[a][b] for b in support] + [Fraction(1), Fraction(0)] for a in support]
            K.append([Fraction(1)] * size + [Fraction(0), Fraction(1)])
            for c in range(n):
                pivot = next((r for r in range(c, n) if K[r][c] != 0), None)
                if pivot is None:
                    break
                K[c], K[pivot] = K[pivot], K[c]
                K[c] = [v / K[c][c] for v in K[c]]
                for r in range(n):
                    if r != c and K[r][c] != 0:
                        K[r] = [x - K[r][c] * y for x, y in zip(K[r], K[c], strict=True)]
            else:
                lam = [K[r][n] for r in range(size)]
                if min(lam) >= 0:
                    value = sum(
                        lam[x] * F[a][b] * lam[y]
                        for x, a in enumerate(support)
                        for y, b in enumerate(support)
                    )
                    best = value if best is None else min(best, value)
    return best


@given(st.integers(2, 4), st.lists(st.integers(-5, 5), min_size=12, max_size=12))
def test_objective_is_that_of_an_exact_solver(M, entries):
    A = np.array(entries, dtype=float).reshape(3, 4)[:, :M]
    Q = A.T @ A
    # Gram matrices of integers are exact; the optimum is at most their largest entry.
    exact = float(exact_minimum(Q))
    assert simplex_qp(Q).objective == pytest.approx(exact, abs=1e-13 * max(1.0, np.abs(Q).max()))


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_order_of_gradients_does_not_matter(M, seed):
    rng = np.random.default_rng(seed)
    A, order = rng.standard_normal((M + 2, M)), rng.permutation(M)
    weights, permuted = min_norm(A).weights, min_norm(A[:, order]).weights
    np.testing.assert_allclose(permuted, weights[order], atol=1e-10)
    assert np.abs(permuted - weights[order]).max() <= 1e-10


@pytest.mark.parametrize("scale", [1e-150, 1e-80, 1.0, 1e80, 1e150])
def test_scale_of_gradients_does_not_matter(scale):
    A = np.random.default_rng(3).standard_normal((6, 4))
    expected = min_norm(A).weights
    np.testing.assert_allclose(min_norm(scale * A).weights, expected, rtol=1e-12)
    normalised = min_norm(scale * A, beta=0.3, normalise=True).weights
    np.testing.assert_allclose(
        normalised, min_norm(A, beta=0.3, normalise=True).weights, rtol=1e-12
    )


def test_regulariser_beside_huge_and_tiny_gradients():
    A = np.random.default_rng(4).standard_normal((6, 3))
    np.testing.assert_allclose(min_norm(1e150 * A, beta=1.0).weights, min_norm(A).weights)
    np.testing.assert_allclose(min_norm(1e-150 * A, beta=1.0).weights, np.full(3, 1 / 3))


def test_preferences_and_regularisers_are_one_family():
    G = adversarial(np.random.default_rng(5), 3, 40)
    beta = 0.7
    same = simplex_qp(G, preference=np.full(3, 2 / beta)).weights
    np.testing.assert_allclose(same, simplex_qp(G, beta=beta).weights, atol=1e-12)
    assert np.array_equal(regulariser(2, 0.5), 0.25 * np.eye(2))


def test_torch_and_float32_gradients():
    import torch

    A = np.random.default_rng(6).standard_normal((1000, 3)).astype(np.float32)
    expected = min_norm(A.astype(np.float64)).weights
    np.testing.assert_allclose(min_norm(torch.tensor(A)).weights, expected, rtol=1e-12)
    np.testing.assert_allclose(gram(A), A.astype(float).T @ A.astype(float), rtol=1e-12)
    batch = np.stack([A, 2 * A])
    np.testing.assert_allclose(min_norm(batch).weights, [expected, expected], rtol=1e-12)


@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_derivative_is_that_of_finite_differences(M, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((M, M))
    Q = A.T @ A + 0.5 * np.eye(M)
    weights = simplex_qp(Q).weights
    slopes = Q @ weights
    idle = weights == 0
    if (slopes[idle] - slopes @ weights < 1e-3).any() or (weights[~idle] < 1e-3).any():
        return  # the support is about to change: no derivative there
    dQ = rng.standard_normal((M, M))
    dQ = dQ + dQ.T
    h = 1e-6
    up, down = simplex_qp(Q + h * dQ).weights, simplex_qp(Q - h * dQ).weights
    # curvature of the solution: third derivatives of order 1 / 0.5^3 times |dQ|^3 h^2
    np.testing.assert_allclose(derivative(Q, weights, dQ), (up - down) / (2 * h), atol=1e-6)
    assert lipschitz(Q, weights) <= 2.0 + 1e-12  # 2 / beta with beta = 1


def test_lipschitz_constant_is_attained():
    Q = np.diag([1.0, 2.0, 3.0])
    weights = simplex_qp(Q).weights
    H = sensitivity_matrix(Q, weights)
    direction = np.linalg.eigh(H)[1][:, -1]
    # a reflection that takes weights / |weights| to the steepest direction
    unit = weights / np.linalg.norm(weights)
    normal = unit - direction
    dQ = np.eye(3) - 2 * np.outer(normal, normal) / (normal @ normal)
    moved = np.linalg.norm(derivative(Q, weights, dQ))
    assert moved == pytest.approx(lipschitz(Q, weights), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: simplex_qp([[1.0, 0.5], [0.2, 1.0]]), "symmetric"),
        (lambda: simplex_qp([[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite"),
        (lambda: simplex_qp([[np.nan, 0.0], [0.0, 1.0]]), "finite"),
        (lambda: simplex_qp(np.ones((2, 3))), "shape"),
        (lambda: simplex_qp(np.eye(2), beta=-1.0), "beta"),
        (lambda: simplex_qp(np.eye(2), preference=[1.0, 0.0]), "preference"),
        (lambda: simplex_qp(np.eye(2), preference=[1.0, 1.0, 1.0]), "preference"),
        (lambda: simplex_qp(np.eye(2), beta=1.0, preference=[1.0, 1.0]), "beta"),
        (lambda: min_norm(np.zeros((3, 0))), "shape"),
        (lambda: min_norm([1.0, 2.0]), "shape"),
        (lambda: min_norm([[1.0], [2.0, 3.0]]), "gradients"),
        (lambda: min_norm([[np.inf, 1.0]]), "finite"),
        (lambda: sensitivity_matrix(np.zeros((2, 2)), [0.5, 0.5]), "only solution"),
    ],
)
def test_bad_input_is_named(call, named):
    with pytest.raises(InputError, match=named) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_zero_gradients_leave_the_regulariser():
    np.testing.assert_allclose(min_norm(np.zeros((3, 2)), beta=1.0).weights, [0.5, 0.5])
    assert min_norm(np.zeros((3, 2))).residual == 0
