"""The laws of the disagreement drift: loops in place of arrays, attained cases, known verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.firm.claims import perturbation, true_weights
from experiments.firm.theory import perturbation as at
from mgda.drift import disagreement
from mgda.simplex import simplex_qp

ONE = np.ones(1)


@pytest.fixture
def clients():
    """Gradients (B, C, M, d), weights (B, C, M), beta (B,) and R (B,)."""
    rng = np.random.default_rng(0)
    g = rng.standard_normal((30, 3, 4, 2))
    R = np.linalg.norm(g, axis=-1).max(axis=(1, 2))
    return g, rng.dirichlet(np.ones(4), (30, 3)), 10.0 ** rng.uniform(-2, 2, 30), R


def solved(g, beta):
    """lambda*^c of one instance, client by client."""
    ridge = beta / 2 * np.eye(g.shape[1])
    return np.stack([simplex_qp(rows @ rows.T + ridge).weights for rows in g])


def root(g, lam, reference=None):
    """sqrt(T) of one instance by the package's own measure of a run."""
    return np.sqrt(disagreement(np.swapaxes(g, -1, -2), lam, reference))


def sides(function, *arguments):
    """The one instance's measured and bound."""
    measured, bound = function(*arguments)
    return float(np.max(measured)), float(np.max(bound))


def test_bounds_for_any_weights_by_loops(clients):
    g, lam, _, _ = clients
    forms = at.covariance(g, lam)
    cauchy, chosen = at.cauchy_schwarz(g, lam), at.selection(g, lam)
    for k in range(len(g)):
        X, u = g[k] - g[k].mean(axis=0), lam[k] - lam[k].mean(axis=0)
        mean = sum(g[k, c].T @ u[c] for c in range(3)) / 3
        np.testing.assert_allclose(forms[0][k], [mean, mean])
        P = np.eye(4) - 1 / 4
        noise = np.mean([np.linalg.norm(P @ x, 2) ** 2 for x in X])
        assert cauchy[0][k] == pytest.approx(root(g[k], lam[k]))
        assert cauchy[1][k] == pytest.approx(np.sqrt(noise * np.mean((u**2).sum(axis=1))))
        longest = [max(np.linalg.norm(row) for row in x) for x in X]
        assert chosen[1][k] == pytest.approx(np.mean(longest))
    np.testing.assert_allclose(*forms, atol=1e-14)
    assert (cauchy[0] <= cauchy[1]).all()
    assert (chosen[0] <= chosen[1]).all()


def test_common_noise_of_all_objectives_does_not_drift(clients):
    g, lam, _, _ = clients
    common = np.random.default_rng(1).standard_normal((30, 3, 1, 2))
    for before, after in zip(
        at.cauchy_schwarz(g, lam), at.cauchy_schwarz(g + common, lam), strict=True
    ):
        np.testing.assert_allclose(before, after, atol=1e-12)


def test_bounds_for_solutions_by_loops(clients):
    g, _, beta, R = clients
    second, first = at.second_order(g, beta, R), perturbation.law_first_order(g, beta, R)
    small, large = perturbation.law_small_beta(g, beta, R), perturbation.law_large_beta(g, beta, R)
    for k in range(len(g)):
        lam, mean = solved(g[k], beta[k]), g[k].mean(axis=0)
        X = g[k] - mean
        V = np.mean([(x**2).sum() for x in X])
        assert second[0][k] == pytest.approx(root(g[k], lam), rel=1e-7, abs=1e-13)
        assert second[1][k] == pytest.approx(2 * R[k] * V / beta[k])
        longest = np.mean([max(np.linalg.norm(row) for row in x) for x in X])
        assert first[1][k] == pytest.approx(np.sqrt(second[1][k] * longest))
        N = np.linalg.svd(np.ones((4, 1)))[0][:, 1:]
        mu = np.linalg.eigvalsh(N.T @ mean @ mean.T @ N)[0]
        h = np.linalg.norm(N.T @ mean, 2)
        noise = np.mean([np.linalg.norm(x, 2) ** 2 for x in X])
        assert small[1][k] == pytest.approx(2 * (h + R[k]) / (beta[k] + 2 * mu) * noise)
        P = np.eye(4) - 1 / 4
        pulls = [x.T @ P @ rows @ rows.T @ np.ones(4) / 4 for x, rows in zip(X, g[k], strict=True)]
        leading = np.linalg.norm(np.mean(pulls, axis=0))
        assert large[0][k] == pytest.approx(abs(beta[k] / 2 * root(g[k], lam) - leading))
        assert large[1][k] == pytest.approx(49 / 16 * 4 * R[k] ** 3 * V / beta[k])
    for measured, bound in (second, first, small):
        assert (measured <= bound).all()
    assert (second[1] > small[1]).any()  # neither is the better one always
    assert (second[1] < small[1]).any()


def around_true(g, beta):
    """sqrt(T) around the solution for the first client, with it as the truth."""
    truth = solved(g[:1], beta)[0]
    return root(g[1:], solved(g[1:], beta), truth)


def test_bounds_around_the_true_weights_by_loops(clients):
    g, _, beta, R = clients
    truth, others = g[:, 0], g[:, 1:]
    forms = [
        function(others, truth, beta, R)
        for function in (
            true_weights.law_true_weights,
            true_weights.law_true_large_beta,
            true_weights.law_true_without_beta,
        )
    ]
    for k in range(len(g)):
        X = others[k] - truth[k]
        operator, frobenius = (
            np.mean([np.linalg.norm(x, order) for x in X]) for order in (2, "fro")
        )
        s = np.array([max(np.linalg.norm(row) for row in x) for x in X])
        expected = [
            (1 + np.sqrt(1 + 2 * R[k] ** 2 / beta[k])) / 2 * operator,
            4 * R[k] ** 2 / beta[k] * frobenius,
            np.mean((s + np.sqrt(s**2 + 8 * R[k] * s)) / 2),
        ]
        for (measured, bound), value in zip(forms, expected, strict=True):
            assert measured[k] == pytest.approx(around_true(g[k], beta[k]), rel=1e-6, abs=1e-9)
            assert bound[k] == pytest.approx(value)
            assert measured[k] <= bound[k]


def halves(M, s):
    """Two clients in one dimension: half of the gradients 1 + s, half 1 - s, and the reverse."""
    row = 1 + s * np.where(np.arange(M) % 2, 1.0, -1.0)
    return np.stack([row, 2 - row])[None, ..., None]


@pytest.mark.parametrize("M", [2, 4])
def test_second_order_is_attained(M):
    s, beta = 1e-3, 1e4
    g = np.concatenate([halves(M, s)] * 2, axis=1)  # four clients
    measured, bound = sides(at.second_order, g, beta * ONE, (1 + s) * ONE)
    assert bound == pytest.approx(2 * (1 + s) * M * s**2 / beta)
    assert 1 - 2 * s <= measured / bound <= 1
    A, other = (np.swapaxes(g[:, c], 1, 2) for c in (0, 1))
    measured, bound = sides(perturbation.law_lipschitz, A, other, beta * ONE, (1 + s) * ONE)
    assert 1 - 2 * s <= measured / bound <= 1
    path = np.stack([g] * 3, axis=1)
    start, eta = np.ones((1, M)) / M, np.array([[0.3, 0.5, 1.0]])
    measured, bound = sides(perturbation.law_smoothed, path, start, eta, beta * ONE, (1 + s) * ONE)
    assert 1 - 2 * s <= measured / bound <= 1


def test_first_order_is_attained_where_both_bounds_are():
    s = 1e-3
    g, R = halves(2, s), (1 + s) * ONE
    measured, bound = sides(perturbation.law_first_order, g, 4 * s * ONE, R)
    assert 1 - 2 * s <= measured / bound <= 1
    assert sides(at.selection, g, at.solutions(g, 4 * s * ONE))[1] == pytest.approx(s)
    assert measured == pytest.approx(s, rel=2 * s)


@pytest.mark.parametrize("C", [2, 4])
def test_without_beta_is_attained_by_even_numbers_of_clients(C):
    g = np.concatenate([halves(2, 0.01)] * (C // 2), axis=1)
    measured, bound = at.selection(g, at.solutions(g, 1e-9 * ONE))
    np.testing.assert_allclose(measured, bound)
    np.testing.assert_allclose(bound, 0.01)


@pytest.mark.parametrize("M", [2, 3, 4])
def test_interior_threshold_is_the_least(M):
    A = np.full((1, 1, M), 0.5)
    A[..., 0] = 1.0
    threshold = (M - 1) / 2
    measured, formula = perturbation.law_interior(A, threshold * ONE)
    np.testing.assert_allclose(measured, formula, atol=1e-14)
    assert abs(measured[0, 0]) < 1e-14
    measured, formula = perturbation.law_interior(A, 0.99 * threshold * ONE)
    assert formula[0, 0] < -1e-3
    assert measured[0, 0] == 0


def test_large_beta_leaves_only_its_leading_term():
    rng = np.random.default_rng(2)
    g = rng.uniform(-1, 1, (1, 3, 3, 2))
    R = np.linalg.norm(g, axis=-1).max() * ONE
    gaps = [sides(perturbation.law_large_beta, g, beta * ONE, R)[0] for beta in (1e2, 1e3, 1e4)]
    np.testing.assert_allclose(np.array(gaps[:-1]) / gaps[1:], 10, rtol=0.1)


def test_true_weights_are_attained():
    # curvature beta/2 and noise across the gradients: the drift is x R / sqrt(2 beta)
    beta, x = 1e-4, 1e-5
    truth = np.array([[[1.0, np.sqrt(beta) / 2], [1.0, -np.sqrt(beta) / 2]]])
    tilt = np.array([[[-1.0, 0.0], [1.0, 0.0]]]) * x / np.sqrt(2)
    R = np.linalg.norm(truth + tilt, axis=-1).max() * ONE
    measured, bound = sides(
        true_weights.law_true_weights, (truth + tilt)[:, None], truth, beta * ONE, R
    )
    assert 0.99 <= measured / bound <= 1
    # opposite gradients that all move the same way
    x, truth = 1e-4, np.array([[[1.0], [-1.0]]])
    R = (1 + x) * ONE
    measured, bound = sides(
        true_weights.law_true_large_beta, truth[:, None] + x, truth, 1e5 * ONE, R
    )
    assert 1 - 4 * x <= measured / bound <= 1
    # from one end of a short segment to the other one
    s = 1e-5
    across = np.sqrt(2 * s * (1 - s / 2)) / 2
    truth = np.array([[[1 - s / 2, across], [1 + s / 2, -across]]])
    g = np.array([[[[1 + s / 2, across], [1 - s / 2, -across]]]])
    R = np.linalg.norm(g, axis=-1).max() * ONE
    measured, bound = sides(true_weights.law_true_without_beta, g, truth, 1e-12 * ONE, R)
    assert 0.99 <= measured / bound <= 1


def test_small_beta_does_not_blow_up():
    g = np.array([[[[1.1], [-1.0]], [[0.9], [-1.0]]]])
    drifts = [
        sides(perturbation.law_small_beta, g, beta * ONE, 1.1 * ONE) for beta in (1.0, 1e-3, 1e-6)
    ]
    assert drifts[1][0] == pytest.approx(drifts[2][0], rel=1e-3)
    assert drifts[1][1] == pytest.approx(drifts[2][1], rel=1e-3)
    # without curvature it is the law without beta that bounds the drift
    flat = [
        sides(perturbation.law_small_beta, halves(2, 0.01), beta * ONE, 1.01 * ONE)
        for beta in (1, 1e-6)
    ]
    assert flat[1][1] > 1e5 * flat[0][1]
    assert flat[1][0] == pytest.approx(0.01)


def test_copies_divide_beta(clients):
    g, _, beta, _ = clients
    measured, expected = perturbation.law_replicas(g, beta)
    np.testing.assert_allclose(measured, expected, atol=1e-9)
    assert abs(measured - perturbation.law_replicas(g, 2 * beta)[1]).max() > 1e-2  # beta is seen
