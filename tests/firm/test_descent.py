"""FIRM's descent lemma and its error terms: finite differences, loops, counterexamples."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.firm.claims import descent, telescoping
from experiments.firm.theory import descent as at, messages
from experiments.firm.theory.descent import Round
from experiments.firm.theory.weights import smoothed
from linsys.linalg import precise, precision
from mgda.fedcmoo import FedCMOO
from mgda.firm import FIRM

ONE = np.ones(1)


def random_round(rng, count=200, C=3, M=2, d=2):
    """Rounds with objectives of smoothness one."""
    b, o = rng.standard_normal((2, count, M, d))
    return Round(
        b=b,
        h=rng.uniform(-1, 1, (count, M, d)),
        o=o,
        theta=rng.standard_normal((count, C, d)),
        g=rng.standard_normal((count, C, M, d)),
        lam=rng.dirichlet(np.ones(M), (count, C)),
        common=rng.dirichlet(np.ones(M), count),
    )


def test_gradients_are_those_of_the_values_and_lipschitz():
    rng = np.random.default_rng(0)
    step = random_round(rng)
    x, y = rng.standard_normal((2, 200, 1, 2))
    slopes = step.gradients(x)[:, 0]
    e = 1e-6
    for k in range(2):
        shift = e * np.eye(2)[k]
        slope = (step.values(x[:, 0] + shift) - step.values(x[:, 0] - shift)) / (2 * e)
        np.testing.assert_allclose(slopes[..., k], slope, atol=1e-5)  # a kink within e: order e
    gap = np.linalg.norm(slopes - step.gradients(y)[:, 0], axis=-1)
    length = np.linalg.norm(x - y, axis=-1)
    assert (gap <= length * np.abs(step.h).max(axis=(1, 2))[:, None] * (1 + 1e-12)).all()


def test_terms_of_the_decomposition():
    rng = np.random.default_rng(1)
    step = random_round(rng, count=5)
    for k in range(5):
        grad = step.local[k]
        lam, own, g = step.common[k], step.lam[k], step.g[k]
        gbar = np.mean([own[c] @ g[c] for c in range(3)], axis=0)
        local = np.mean([lam @ grad[c] for c in range(3)], axis=0)
        stale = np.mean([lam @ g[c] for c in range(3)], axis=0)
        centre = lam @ step.gradients(step.theta[k].mean(axis=0)[None, None])[k, 0]
        for term, vector in [
            (step.error, gbar - centre),
            (step.estimation, gbar - local),
            (step.drift, local - centre),
            (step.gradient_error, stale - local),
            (step.disagreement, gbar - stale),
        ]:
            assert term[k] == pytest.approx(vector @ vector)


def test_descent_lemma_and_its_remainder():
    step = random_round(np.random.default_rng(2))
    ones = np.ones(200)
    for a in (0.1, 1.0, 3.0):
        measured, bound = descent.eq12(step, a * ones, ones)
        assert (measured >= bound - 1e-12 * (1 + np.abs(bound))).all()
        kept = descent.eq12(step, a * ones, ones)[1] - descent.eq5(step, a * ones, ones)[1]
        square = (step.direction**2).sum(axis=1)
        np.testing.assert_allclose(kept, a * (1 - a) / 2 * square, atol=1e-10)
    # (5) needs a <= 1 / L: the most concave objective, whose own gradient is followed too far
    concave = Round(
        b=np.zeros((1, 1, 1)),
        h=-np.ones((1, 1, 1)),
        o=-9 * np.ones((1, 1, 1)),
        theta=np.ones((1, 1, 1)),
        g=-10 * np.ones((1, 1, 1, 1)),
        lam=np.ones((1, 1, 1)),
        common=np.ones((1, 1)),
    )
    for a, holds in [(0.5, True), (1.9, False)]:
        measured, bound = descent.eq5(concave, a * ONE, ONE)
        assert (measured[0] >= bound[0]) == holds
    measured, bound = descent.eq12(concave, 0.5 * ONE, ONE)
    assert measured[0] == pytest.approx(bound[0])  # attained


def test_squares_need_the_factor_two():
    step = random_round(np.random.default_rng(3), count=2000)
    for statement in (descent.eq13, descent.eq14):
        measured, bound = statement(step)
        assert (measured > bound).any()
        assert (measured <= statement(step, 2)[1] * (1 + 1e-12)).all()
        assert (measured > 1.8 * bound).any()


def test_weights_of_the_clients_in_the_first_term_lose_the_disagreement():
    # slopes theta and 0 near theta = +-1, exact gradients, lambda_t the average
    step = Round(
        b=np.array([[[-9.0], [0.0]]]),
        h=np.array([[[1.0], [0.0]]]),
        o=np.array([[[-9.0], [0.0]]]),
        theta=np.array([[[1.0], [-1.0]]]),
        g=np.array([[[[1.0], [0.0]], [[-1.0], [0.0]]]]),
        lam=np.eye(2)[None],
        common=np.array([[0.5, 0.5]]),
    )
    measured, bound = descent.eq6(step)
    assert (measured[0], bound[0]) == (0.25, 0.0)
    measured, bound = descent.eq13(step, 2)
    assert measured[0] <= bound[0]


def test_client_drift_after_synchronised_steps():
    a, L, R, K = 0.3, 2.0, 1.5, 2
    step = Round(
        b=np.zeros((1, 1, 1)),
        h=L * np.ones((1, 1, 1)),
        o=np.zeros((1, 1, 1)),
        theta=a * R * K * np.array([[[1.0], [-1.0]]]),
        g=np.zeros((1, 2, 1, 1)),
        lam=np.ones((1, 2, 1)),
        common=np.ones((1, 1)),
    )
    measured, bound = descent.eq26(step, a * ONE, L * ONE, R * ONE, K, 1)
    assert measured[0] == pytest.approx(bound[0])
    assert descent.eq26(step, a * ONE, L * ONE, R * ONE, K)[1][0] == pytest.approx(4 * measured[0])


def test_telescoping_with_weights_that_move():
    J = np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]])
    start, stars = np.array([[1.0, 0.0]]), np.array([[[1.0, 0.0], [0.0, 1.0]]])
    eta = np.array([[0.0, 1.0]])
    path = smoothed(start, stars, eta)[:, 1:]
    measured, bound = telescoping.lemma10(J, path, eta, ONE)
    assert (measured[0], bound[0]) == (2.0, 1.0)
    measured, bound = telescoping.lemma10_corrected(J, path, eta, ONE)
    assert (measured[0], bound[0]) == (2.0, 2.0)
    rng = np.random.default_rng(4)
    J, eta = rng.uniform(0, 5, (100, 4, 3)), rng.uniform(size=(100, 3))
    start, stars = rng.dirichlet(np.ones(3), 100), rng.dirichlet(np.ones(3), (100, 3))
    path = smoothed(start, stars, eta)[:, 1:]
    measured, bound = telescoping.lemma10_corrected(J, path, eta, np.full(100, 5.0))
    for k in range(100):
        lam, total = start[k], 0.0
        for t in range(3):
            lam = (1 - eta[k, t]) * lam + eta[k, t] * stars[k, t]
            total += lam @ (J[k, t + 1] - J[k, t])
        assert measured[k] == pytest.approx(total)
    assert (measured <= bound).all()


def test_sum_of_step_sizes():
    T = np.array([1.0, 2.0, 60.0])
    np.testing.assert_allclose(at.harmonic(T, 60), [1, 1.5, sum(1 / t for t in range(1, 61))])
    with precision(30):
        exact = at.harmonic(precise(T), 60).astype(float)
    np.testing.assert_allclose(at.harmonic(T, 60), exact, rtol=1e-15)
    measured, bound = at.eq34(ONE, np.array([1.0]), ONE, 60)
    assert (measured[0], bound[0]) == (6.0, 2.0)
    assert at.eq34(ONE, np.array([0.01]), ONE, 60)[0][0] == pytest.approx(600)
    measured, bound = at.eq34_corrected(T, np.full(3, 0.1), np.ones(3), 60)
    assert measured[0] == pytest.approx(bound[0])
    assert (measured <= bound * (1 + 1e-15)).all()


def test_three_terms():
    measured, bound = descent.eq15(np.ones((1, 3, 2)))
    assert measured[0] == bound[0] == 18.0


def test_messages_are_all_that_a_round_needs():
    """Server and clients that share nothing but messages end where the algorithms do."""
    C, M, d = 3, 4, 5
    assert messages.numbers_sent(C, M, d) == (C * d, C * M * d)
    theta, gradients = messages.gradients_of(C, M, d)
    start = np.repeat(theta[None], C, axis=0)
    for algorithm, ends in (
        (
            FIRM(alpha=0.5, beta=1.0),
            messages.firm_server([messages.firm_client(theta, g) for g in gradients]),
        ),
        (
            FedCMOO(alpha=0.5, beta=1.0),
            messages.plain_server(theta, [messages.plain_client(g) for g in gradients]),
        ),
    ):
        together = algorithm.step(algorithm.init(start), gradients).theta
        np.testing.assert_allclose(together, np.repeat(ends[None], C, axis=0), rtol=1e-13)
    fewer = [messages.firm_client(theta, g)[: d - 1] for g in gradients]
    assert messages.firm_server(fewer).shape != theta.shape
