"""FIRM's weights of several clients: loops in place of arrays, attained and missed bounds."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.firm.claims import weights as weights_claims
from experiments.firm.theory.program import weights


@pytest.fixture
def clients():
    """Gradients (B, C, M, d) and weights (B, C, M)."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((40, 3, 4, 2)), rng.dirichlet(np.ones(4), (40, 3))


def drift(g, lam):
    """||(1/C) sum_c sum_j g^{j,c} (lambda^{j,c} - lambdabar^j)||^2 of one instance."""
    C, M, _ = g.shape
    mean = sum(lam) / C
    total = sum(g[c, j] * (lam[c, j] - mean[j]) for c in range(C) for j in range(M)) / C
    return total @ total


def test_chain_of_the_drift(clients):
    g, lam = clients
    R = np.linalg.norm(g, axis=-1).max(axis=(1, 2))
    measured, bound = weights_claims.eq18(g, lam)
    steps, ends = weights_claims.eq19_20(g, lam, R)
    for k in range(len(g)):
        C, M = lam[k].shape
        mean = lam[k].mean(axis=0)
        each = [sum(g[k, c, j] * (lam[k, c, j] - mean[j]) for j in range(M)) for c in range(C)]
        lengths = [
            sum(np.linalg.norm(g[k, c, j]) * abs(lam[k, c, j] - mean[j]) for j in range(M))
            for c in range(C)
        ]
        expected = [drift(g[k], lam[k]), np.mean([e @ e for e in each])]
        np.testing.assert_allclose(measured[k], expected)
        np.testing.assert_allclose(bound[k], [expected[1], np.mean(np.square(lengths))])
        S = [np.abs(lam[k, c] - mean).sum() for c in range(C)]
        one, two = (
            sum(np.linalg.norm(lam[k, a] - lam[k, b], order) for a in range(C) for b in range(C))
            for order in (1, 2)
        )
        chain = np.array(
            [np.mean(np.square(S)), 2 * np.mean(S), 2 / C**2 * one, 2 * np.sqrt(M) / C**2 * two]
        )
        np.testing.assert_allclose(ends[k], R[k] ** 2 * chain)
        np.testing.assert_allclose(steps[k, 1:], R[k] ** 2 * chain[:-1])
    assert (measured <= bound).all()
    assert (steps <= ends).all()
    assert (steps > 0.8 * ends).any()  # a chain loosened by a fifth would be seen


def test_sharpened_drift_knows_no_regulariser(clients):
    g, lam = clients
    measured, bound = weights_claims.eq18_sharper(g, lam)
    crude = weights_claims.drift_without_beta(g, lam)[1]
    for k in range(len(g)):
        apart = [max(np.linalg.norm(v) for v in g[k, c] - g[k].mean(axis=0)) for c in range(3)]
        S = np.abs(lam[k] - lam[k].mean(axis=0)).sum(axis=1)
        assert bound[k] == pytest.approx(np.mean(np.array(apart) * S) ** 2)
        assert crude[k] == pytest.approx((4 / 3 * max(apart)) ** 2)
    assert (measured <= bound).all()
    assert (bound <= crude * (1 + 1e-12)).all()
    # two clients that differ in every gradient and in every weight attain both
    g, lam = np.array([[[[1.0], [-1.0]], [[-1.0], [1.0]]]]), np.eye(2)[None]
    for sides in (weights_claims.eq18_sharper(g, lam), weights_claims.drift_without_beta(g, lam)):
        assert sides[0][0] == sides[1][0] == 1.0


def test_equal_gradients_leave_no_drift_whatever_the_weights(clients):
    g, lam = clients
    same = np.repeat(g[:, :1], 3, axis=1)
    measured, crude = weights_claims.eq18(same, lam)
    # what Jensen's inequality is applied to is zero, what it gives is not
    assert measured[:, 0].max() < 1e-28
    assert crude[:, 0].min() > 1e-3


def test_linear_dependence_on_the_number_of_objectives(clients):
    g, _ = clients
    R, beta = np.linalg.norm(g, axis=-1).max(axis=(1, 2)), np.full(len(g), 5.0)
    measured, bound = weights_claims.rem2(g, beta, R)
    for k in range(len(g)):
        lam = np.stack([weights(g[k, c].T[None], beta[:1])[0] for c in range(3)])
        assert measured[k] == pytest.approx(drift(g[k], lam), rel=1e-9, abs=1e-14)
        gaps = sum(
            max(np.linalg.norm(v) for v in g[k, a] - g[k, b]) for a in range(3) for b in range(3)
        )
        assert bound[k] == pytest.approx(4 * R[k] ** 3 * 4 / (5 * 9) * gaps)
    assert (measured <= bound).all()


def test_one_lambda_for_all_is_no_disagreement(clients):
    g, lam = clients
    direction, expected = weights_claims.fedcmoo(g, lam[:, 0])
    np.testing.assert_allclose(direction, np.einsum("bcmd,bm->bd", g, lam[:, 0]) / 3)
    np.testing.assert_allclose(direction, expected, atol=1e-14)


def test_smoothing_unrolls():
    rng = np.random.default_rng(1)
    start, stars = rng.dirichlet(np.ones(3), 10), rng.dirichlet(np.ones(3), (10, 4, 2))
    eta = rng.uniform(size=(10, 4))
    measured, bound = weights_claims.eq22(start, stars, eta)
    per_step = weights_claims.eq21(np.stack([start, start], axis=1), stars, eta)
    for k in range(10):
        path, gaps = np.stack([start[k]] * 2), []
        for t in range(4):
            before = np.linalg.norm(path[0] - path[1])
            path = (1 - eta[k, t]) * path + eta[k, t] * stars[k, t]
            gap = np.linalg.norm(stars[k, t, 0] - stars[k, t, 1])
            gaps.append(gap)
            assert per_step[0][k, t] == pytest.approx(np.linalg.norm(path[0] - path[1]))
            assert per_step[1][k, t] == pytest.approx((1 - eta[k, t]) * before + eta[k, t] * gap)
        assert measured[k] == pytest.approx(np.linalg.norm(path[0] - path[1]))
        shares = [eta[k, i] * np.prod(1 - eta[k, i + 1 :]) for i in range(4)]
        assert bound[k] == pytest.approx(np.dot(shares, gaps))
    assert (measured <= bound).all()
    sums, ones = weights_claims.eq11(start, stars[:, 0, 0], eta[:, 0])
    np.testing.assert_allclose(sums, ones)
    outside, ones = weights_claims.eq11(
        np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([1.5])
    )
    assert outside[0, 1] > ones[0, 1]  # eta beyond [0, 1] leaves the simplex


def test_projection_onto_a_ball():
    radius = np.array([2.0, 2.0, 2.0])
    w = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(
        weights_claims.projected(w, radius), [[1.2, 1.6], [1.0, 0.0], [0.0, 0.0]]
    )
    rng = np.random.default_rng(2)
    w, other, inside = rng.standard_normal((3, 500, 2))
    inside /= np.maximum(1, np.linalg.norm(inside, axis=1, keepdims=True))
    measured, bound = weights_claims.proj(w, other, inside, np.ones(500))
    assert (measured <= bound * (1 + 1e-12)).all()
    nearest = np.linalg.norm(weights_claims.projected(w, np.ones(500)) - w, axis=1)
    np.testing.assert_allclose(nearest, np.maximum(0, np.linalg.norm(w, axis=1) - 1), atol=1e-14)


def test_spread_of_weights():
    lam = np.eye(4)[None]
    measured, bound = weights_claims.S2(lam)
    np.testing.assert_allclose(measured[0, 0], 1.5)  # 2 (1 - 1/C)
    np.testing.assert_allclose(measured[0, 1] / bound[0, 1], 0.75)
