"""The drift in the mean: expectations by loops, attained cases, exponents, known verdicts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import ratecheck as rc
from experiments.firm.claims import expected_drift as claims
from experiments.firm.theory import expected_drift as at
from mgda.drift import disagreement
from mgda.simplex import simplex_qp

ONE = np.ones(1)
RUNS = ((2, 2), (2, 3), (3, 2))


@pytest.fixture
def noise():
    """Points (B, 2, M, d), their probabilities (B, 2) and beta (B,)."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (5, 2, 3, 2))
    return points, rng.dirichlet(np.ones(2), 5), 10.0 ** rng.uniform(-1, 1, 5)


def solution(rows, beta):
    return simplex_qp(rows @ rows.T + beta / 2 * np.eye(len(rows))).weights


def drift(g, lam):
    """T of gradients (C, M, d) by the package's own measure of a run."""
    return float(disagreement(np.swapaxes(g, -1, -2), lam))


def test_drift_of_averaged_weights_by_loops(noise):
    points, chances, beta = noise
    measured, formula = at.averaged(points, chances, beta, RUNS)
    errors, parts = at.averaged_error(points, chances, beta, RUNS)
    for k, (n, (C, t)) in product(range(5), enumerate(RUNS)):
        stars = np.stack([solution(rows, beta[k]) for rows in points[k]])
        true = solution(np.tensordot(chances[k], points[k], 1), beta[k])
        expected = error = 0.0
        for draws in product(range(2), repeat=C * t):
            likely = np.prod(chances[k, list(draws)])
            lam = np.zeros((C, 3))
            for step in range(t):  # (11) with eta_t = 1/t
                now = list(draws[step * C : (step + 1) * C])
                lam = (1 - 1 / (step + 1)) * lam + stars[now] / (step + 1)
            expected += likely * drift(points[k, now], lam)
            error += likely * ((lam.mean(axis=0) - true) ** 2).sum()
        assert measured[k, n] == pytest.approx(expected, rel=1e-9, abs=1e-14)
        assert errors[k, n] == pytest.approx(error, rel=1e-9, abs=1e-14)
    np.testing.assert_allclose(measured, formula, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(errors, parts, rtol=1e-9, atol=1e-14)


def test_mean_drift_by_loops(noise):
    points, chances, beta = noise
    shift, formula = at.bias(points, chances, beta, (2, 3))
    measured, least = at.no_speedup(points, chances, beta, (2, 3))
    for k, (n, C) in product(range(5), enumerate((2, 3))):
        stars = np.stack([solution(rows, beta[k]) for rows in points[k]])
        mean = square = 0.0
        for draws in map(list, product(range(2), repeat=C)):
            likely, lam = np.prod(chances[k, draws]), stars[draws]
            apart = lam - lam.mean(axis=0)
            mean = mean + likely * np.einsum("cmd,cm->d", points[k, draws], apart) / C
            square += likely * drift(points[k, draws], lam)
        np.testing.assert_allclose(shift[k, n], mean, atol=1e-13)
        assert measured[k, n] == pytest.approx(square, abs=1e-14)
    np.testing.assert_allclose(shift, formula, atol=1e-13)
    assert (measured >= least).all()


def test_drift_has_a_limit_in_the_number_of_clients():
    points = np.array([[[[1.01], [0.99]], [[0.99], [1.01]]]])
    chances, clients = np.full((1, 2), 0.5), (2, 4, 8, 12)
    measured, least = at.no_speedup(points, chances, ONE, clients)
    ratios = (least / measured)[0]
    assert (np.diff(measured[0]) > 0).all()
    assert (np.diff(ratios) > 0).all()
    assert ratios[1] == pytest.approx(6 / 7)
    assert ratios[-1] > 0.95


@pytest.mark.parametrize("B", [1, 2, 4])
def test_batches_by_loops_and_where_they_attain_the_bound(B):
    s = 1e-3
    g, noise, beta = np.ones((1, 2, 1)), s * np.array([[[1.0], [-1.0]]]), 10 * ONE
    measured, bound = claims.law_batch(g, noise, beta, (1 + s) * ONE, B * ONE)
    expected = np.zeros(2)
    for signs in product((-1, 1), repeat=2 * B):
        m = np.mean(signs[:B]), np.mean(signs[B:])
        drawn = np.stack([g[0] + value * noise[0] for value in m])
        T = drift(drawn, np.stack([solution(rows, 10.0) for rows in drawn]))
        expected += np.array([T, np.sqrt(T)]) / 4**B
    np.testing.assert_allclose(measured[0], expected, rtol=1e-8)
    first = 2 * (1 + s) * s**2 / 10
    np.testing.assert_allclose(bound[0], [first**2 * (3 * B - 1) / B**3, first / B])
    ratios = measured / bound
    assert (ratios <= 1).all()
    assert (ratios > 1 - 4 * s).all()


def test_a_small_step_does_not_remove_the_drift():
    s, beta = 0.1, 1.0
    g = np.array([[[[1 + s], [1 - s]], [[1 - s], [1 + s]]]])
    for walked in (1e-3, 1e-6):
        measured, bound = claims.thm1_drift_product(
            g, s * ONE, walked * ONE, beta * ONE, (1 + s) * ONE
        )
        assert measured[0] == pytest.approx((4 * s**2 / (4 * s**2 + beta)) ** 2)
        assert bound[0] == pytest.approx(128 * (1 + s) ** 2 * 2**1.5 * s * walked)
    assert measured[0] > bound[0]


def test_the_sum_of_noise_and_steps_is_attained():
    s, walked = 1e-4, 1e-3
    away = s + walked
    g = np.array([[[[1 + away], [1 - away]], [[1 - away], [1 + away]]]])
    measured, bound = claims.law_additive(g, s * ONE, walked * ONE, 100 * ONE, (1 + away) * ONE)
    assert bound[0] == pytest.approx(4 * (1 + away) / 100 * away**2)
    assert 1 - 2 * away <= measured[0] / bound[0] <= 1


@pytest.mark.parametrize("mean", [(1, -1), (1, 1), (2, 1)])
@pytest.mark.parametrize("copies", [1, 2])
def test_opposed_pair_is_the_drift_of_two_clients(mean, copies):
    noise, beta = Fraction(1, 10), Fraction(3, 10)
    rows = [[[m] for m in (mean[0] + sign * noise, mean[1])] * copies for sign in (1, -1)]
    g = np.array(rows, dtype=float)
    distance = drift(g, np.stack([solution(client, 0.3) for client in g]))
    assert distance == pytest.approx(float(at.opposed_pair(mean, noise, beta, copies)), abs=1e-12)


def test_wrong_exponents_are_seen():
    holding = claims.law_exponents
    assert rc.judge(holding).verdict == "consistent"
    for name, value in {"B": -2.1, "beta": -2.1, "inverse_beta": -0.1, "M_small": 1.5}.items():
        wrong = replace(holding, regimes=lambda n=name, v=value: claims._against(**{n: v}))
        assert rc.judge(wrong).verdict == "violated"
    slopes = {r.name: r.measured for r in claims._against(B=0.0, B_kink=0.0, M=0.0)}
    assert slopes == pytest.approx({"B": -2.0, "B_kink": -1.0, "M": 0.0}, abs=1e-3)
