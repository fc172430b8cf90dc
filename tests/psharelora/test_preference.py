"""P-ShareLoRA's model and shared columns: formulas against NumPy and the float64 package."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from experiments.psharelora.claims import parameters, subspace
from experiments.psharelora.theory import preference as at, proof as proof, subspace as columns
from linsys.linalg import logistic, precise, precision
from linsys.preference import subspace as reference
from linsys.preference.instances import shared_users

RNG = np.random.default_rng(0)


@pytest.fixture
def delta() -> np.ndarray:
    """Four instances of three users, d1 = 3, d2 = 2."""
    return np.stack(
        [shared_users(3, 3, 2, k=2, nu=0.5, tail=t, rng=RNG) for t in (0.001, 0.1, 0.5, 0.9)]
    )


def test_eigenvalues_are_lapacks_and_exact_in_high_precision() -> None:
    M = RNG.normal(size=(40, 5, 5))
    M = M + M.swapaxes(1, 2)
    M[0] = 0
    M[1] = np.eye(5)
    values, vectors = columns.eigen(M)
    assert_allclose(values, np.linalg.eigvalsh(M)[:, ::-1], atol=1e-12)
    assert_allclose(vectors @ (values[:, None, :] * vectors).swapaxes(1, 2), M, atol=1e-12)
    with precision(60):
        P = precise(M[2:4])
        values, vectors = columns.eigen(P)
        again = vectors @ (values[:, None, :] * vectors).swapaxes(1, 2)
        assert np.abs(again - P).max() < 1e-55


def test_best_approximation_is_the_packages(delta: np.ndarray) -> None:
    users = columns.Adaptation(delta, 2)
    for j, one in enumerate(delta):
        best, diverse = reference.best_rank(one, 2), reference.diversity(one, 2)
        assert_allclose(users.best[j], best.Theta, atol=1e-12)
        assert_allclose([users.nu[j], users.tail[j]], [diverse.nu, diverse.tail], rtol=1e-10)
        assert_allclose(users.tail_sum[j], diverse.tail, rtol=1e-10)
        assert_allclose(users.b[j], diverse.b, atol=1e-12)
        assert_allclose(users.sigma2[j], best.sigma**2, atol=1e-12)
        assert reference.distance(users.B[j], best.B) < 1e-7


def test_frames_are_orthogonal_and_their_distances_the_packages() -> None:
    Q1, Q2 = columns.rotated(RNG.normal(size=(2, 6, 2, 4)))
    assert_allclose(Q1.swapaxes(1, 2) @ Q1, np.broadcast_to(np.eye(4), (6, 4, 4)), atol=1e-14)
    assert_allclose(columns.rotated(np.zeros((1, 2, 3)))[0], np.eye(3))
    for a, b in zip(Q1[..., :2], Q2[..., :2], strict=True):
        assert_allclose(columns.sine(a, b), reference.distance(a, b, "sine"))
        turned = proof.overlap(a[None], b[None], np.array([2.0]))[2][0]
        assert_allclose(turned, reference.align(a, b).error ** 2, atol=1e-12)


def test_minors_vanish_for_a_shared_factor_only() -> None:
    left, W = RNG.normal(size=(5, 3, 1)), RNG.normal(size=(5, 2, 1, 2))
    even, odd = subspace.stacking(left, W)
    assert even.shape == (5, 3 * 6)
    assert_allclose(even, odd)
    both = columns.beside(left[:, None] @ W)[0]
    assert_allclose((even - odd)[0, 0], np.linalg.det(both[:2, :2]), atol=1e-14)
    own = columns.beside(RNG.normal(size=(5, 2, 3, 1)) @ W)
    assert np.linalg.matrix_rank(own[0]) == 2  # users' own left factors share nothing


def test_link_functions_and_their_derivatives() -> None:
    x, h = np.linspace(-8, 8, 33), 1e-5
    assert_allclose(at.log_logistic(x), np.log(1 / (1 + np.exp(-x))), rtol=1e-12)
    steps = (logistic(x + h) - logistic(x - h)) / (2 * h)
    assert_allclose(at.slope(x), steps, rtol=1e-7, atol=1e-11)
    assert_allclose(at.tanh(x), np.tanh(x), atol=1e-15)
    assert np.isfinite(at.log_logistic(np.array([-1e4, 1e4]))).all()


def test_pairs_count_every_pair_with_its_weight() -> None:
    psi, theta, other = RNG.normal(size=(3, 2, 2)), *RNG.normal(size=(2, 2, 2, 2))
    mu0, mu1 = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.4, 0.0])
    pairs = at.Pairs(psi, mu0, mu1)
    moment, apart, divergence = np.zeros((4, 4)), 0.0, 0.0
    for a in range(3):
        for b in range(3):
            x, w = psi[a] - psi[b], mu0[a] * mu1[b]
            moment += w * np.outer(x, x)
            for i in range(2):
                p, q = (1 / (1 + np.exp(-(t[i] * x).sum())) for t in (theta, other))
                apart += w * (abs(p - q) + abs((1 - p) - (1 - q))) ** 2
                divergence += w * (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))
    assert_allclose(pairs.moment, moment)
    assert_allclose(pairs.apart(theta, other), apart)
    assert_allclose(pairs.divergence(theta, other), divergence)


def test_printed_lemma_5_fails_by_a_sine_and_the_corrected_one_is_attained() -> None:
    t = 0.1
    truth = columns.Adaptation(np.array([[[1.0], [0.0]]]), 1)
    fit = columns.Adaptation(np.cos(t) * np.array([[[np.cos(t)], [np.sin(t)]]]), 1)
    measured, bound = at.lemma_5(truth, fit, 1)
    assert_allclose([measured, bound], [np.sin(t), np.sin(t) ** 2])
    measured, bound = at.lemma_5(truth, fit, 2)
    assert_allclose(measured, bound)
    assert measured > 0.99 * bound  # half of the bound would be missed


def test_features_that_do_not_span_hide_an_error() -> None:
    """Two trajectories and d1 d2 = 2: the same preferences, other columns."""
    psi = np.array([[[1.0], [0.0]], [[0.0], [0.0]]])
    pairs = at.Pairs(psi, np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    truth = columns.Adaptation(np.array([[[1.0], [0.0]]]), 1)
    fit = columns.Adaptation(np.array([[[1.0], [3.0]]]), 1)
    error, seen = parameters.lemma_5_mean_value(truth, fit, pairs, np.array(1e9))
    assert error == 9
    assert seen == 0
    assert columns.sine(fit.B, truth.B) > 0.9
    assert parameters.lemma_5_coverage(truth, fit, pairs)[0] == 0
