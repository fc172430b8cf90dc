"""FIRM's simplex statements: brute force, tightness, the catalogue's counterexamples in numbers."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.firm.claims import lemma8, simplex
from experiments.firm.theory import simplex as at
from linsys.linalg import precise, precision, transpose
from mgda.simplex import simplex_qp

ONE = np.ones(1)


def row(*values):
    """Gradients in one dimension as A (1, 1, M)."""
    return np.array([[values]], dtype=float)


def pair(rng, M, d, share):
    """Two clients and the length of their longest gradient."""
    middle, apart = rng.standard_normal((2, 200, d, M))
    middle /= np.maximum(1, np.linalg.norm(middle, axis=1, keepdims=True))
    A, other = middle + share * apart, middle - share * apart
    lengths = [np.linalg.norm(X, axis=1).max(axis=1) for X in (A, other)]
    return A, other, np.maximum(*lengths)


@pytest.mark.parametrize("M", [2, 3, 4])
@pytest.mark.parametrize("share", [1e-3, 0.1, 1.0])
def test_sharpened_lemma_bounds_the_movement(M, share):
    rng = np.random.default_rng(M)
    for d in (1, 2, 3):
        A, other, R = pair(rng, M, d, share)
        beta = 10.0 ** rng.uniform(-3, 3, size=len(A))
        measured, bound = lemma8.lemma1_sharper(A, other, beta, R)
        Q, moved = ((np.swapaxes(X, 1, 2) @ X) for X in (A, other))
        ridge = 0.5 * beta[:, None, None] * np.eye(M)
        gap = simplex_qp(Q + ridge).weights - simplex_qp(moved + ridge).weights
        np.testing.assert_allclose(measured, np.linalg.norm(gap, axis=-1), atol=1e-12)
        step = np.linalg.norm(A - other, axis=1).max(axis=1)
        np.testing.assert_allclose(bound, 2 * R * np.sqrt(M) / beta * step)
        assert (measured <= bound).all()
        np.testing.assert_allclose(lemma8.lemma1(A, other, beta, R)[1], 2 * np.sqrt(M) * bound)


@pytest.mark.parametrize("M", [2, 4])
def test_sharpened_lemma_is_attained_for_even_numbers(M):
    t = 1e-3
    signs = np.where(np.arange(M) % 2, 1.0, -1.0)
    A, other = row(*(1 + t * signs)), row(*(1 - t * signs))
    measured, bound = lemma8.lemma1_sharper(A, other, 1e3 * ONE, (1 + t) * ONE)
    assert bound[0] * (1 - 3 * t) <= measured[0] <= bound[0]


@pytest.mark.parametrize("M", [2, 3, 4, 5, 7])
def test_sharpened_lemma_is_attained_for_every_number_in_the_plane(M):
    """Large beta, so that weights stay uniform: the case of equality in the derivation's steps.

    With p and q the means of the gradients and of the moves, ||p||^2 = ||q||^2 = 1/2, every g_j - p
    is along q and every d_j - q along p, and each takes two values.
    """
    k = (M + 1) // 2
    r = (M - k) / k
    c = (1 - r) / np.sqrt(4 * r)  # the cosine of p and q for which the two values have mean zero
    towards = np.array([1.0, 0.0]), np.array([c, np.sqrt(1 - c * c)])
    low, high = (-c + sign * np.sqrt(1 + c * c) for sign in (-1, 1))
    x = np.where(np.arange(M) < k, high, low) / np.sqrt(2)
    D, g = ((a[:, None] / np.sqrt(2) + b[:, None] * x) for a, b in (towards, towards[::-1]))
    np.testing.assert_allclose(np.linalg.norm([D, g], axis=1), 1.0)
    t = 1e-3
    A, other = (g + t * D)[None], (g - t * D)[None]
    R = max(np.linalg.norm(X, axis=1).max() for X in (A, other))
    measured, bound = lemma8.lemma1_sharper(A, other, 1e4 * ONE, R * ONE)
    assert (1 - 4 * t) * bound[0] <= measured[0] <= bound[0]


def test_gram_matrices_move_weights_by_two_over_beta():
    beta, tau, e = 1.0, 1e-3, 1e-4
    a = 0.999 * (beta / 2 + tau) / e
    G = np.array([[a * a + tau, a * (a + e)], [a * (a + e), (a + e) ** 2 + tau]])
    change = 0.9 * tau * np.sqrt(0.5) * np.array([[1.0, -1.0], [-1.0, -1.0]])
    with precision(60):
        A, other = (transpose(_cholesky(precise(matrix)))[None] for matrix in (G, G + change))
        measured, bound = lemma8.eq41_42(A, other, precise(beta * ONE), 2)
        ratio = float(measured[0] / bound[0])
    assert 0.99 < ratio <= 1


def _cholesky(G):
    """The lower factor of a 2 x 2 matrix."""
    first = np.sqrt(G[0, :1])[0]
    low = G[1, 0] / first
    zero = 0 * first
    return np.array([[first, zero], [low, np.sqrt(np.array([G[1, 1] - low * low]))[0]]])


@pytest.mark.parametrize(("M", "d"), [(1, 2), (2, 1), (2, 3), (3, 2), (4, 3)])
def test_every_statement_is_the_same_in_both_precisions(M, d):
    rng = np.random.default_rng(10 * M + d)
    A, other = rng.uniform(-1, 1, (2, 2, d, M))
    beta, R, factor = rng.uniform(1, 2, (3, 2))
    p, (first, second) = rng.uniform(1, 2, (2, M)), rng.dirichlet(np.ones(M), (2, 2))
    calls = [
        (simplex.def3_dual, (A,)),
        (simplex.def3, (A, first)),
        (simplex.eq1_eq2, (A, beta, first)),
        (simplex.cond, (A, beta)),
        (simplex.remark3, (beta,)),
        (at.direction_gap, (A, other, beta)),
        (simplex.eq3_eq54, (A, p, factor)),
        (simplex.eq3_steer, (A, p, factor)),
        (simplex.eq3_steer_angle, (A, p, factor)),
        (simplex.eq3_steer_corrected, (A, p, factor)),
        (simplex.eq3_red, (A, beta)),
        (simplex.eq9_trace, (A, beta, factor)),
        (simplex.eq9_trace_each, (A,)),
        (simplex.eq9_beta, (A, beta)),
        (lemma8.lemma1_impl, (A, other, beta, R)),
        (lemma8.lemma1_impl_corrected, (A, other, beta, R)),
        (lemma8.eq36_37, (A, first)),
        (at.growth, (A, beta, R, first)),
        (lemma8.eq39_40, (A, other, first, second)),
        (lemma8.eq43, (A, other)),
        (lemma8.eq44_45, (A, other, R)),
        (lemma8.eq46, (A, other, beta, R)),
    ]
    for function, arguments in calls:
        sides = function(*arguments)
        with precision(30):
            exact = function(*map(precise, arguments))
        for side, wanted in zip(sides, exact, strict=True):
            # conditions of order 1e2; differences of numbers of order one
            np.testing.assert_allclose(
                side, np.asarray(wanted).astype(float), atol=1e-11, err_msg=str(function)
            )


def test_preferences_can_lower_what_they_favour():
    A = row(1.0, 2.0)
    after, before = simplex.eq3_steer(A, np.array([[0.5, 1.0]]), 2 * ONE)
    assert (before[0], after[0]) == pytest.approx((1.25, 1.0), rel=1e-14)
    weight, raised = simplex.eq3_eq54(A, np.array([[0.5, 1.0]]), 2 * ONE)
    assert (weight[0], raised[0]) == pytest.approx((0.75, 1.0), rel=1e-14)
    # three objectives: the direction turns away, though the weight rises
    A = np.array([[[-2.0, -1.0, 1.6], [0.0, -1.0, 0.8]]])
    after, before = simplex.eq3_steer_angle(A, np.ones((1, 3)), 2 * ONE)
    assert after[0] < before[0]
    weight, raised = simplex.eq3_eq54(A, np.ones((1, 3)), 2 * ONE)
    assert weight[0] < raised[0]


def test_only_the_mean_of_the_normalised_diagonal_is_one():
    entries, _ = simplex.eq9_trace_each(row(1.0, 3.0))
    np.testing.assert_allclose(entries, [[0.2, 1.8]])


@pytest.mark.parametrize("c", [1.0, 0.1, 1e-3])
def test_implemented_solver_does_not_see_the_scale(c):
    A, other = row(c, 0.0), row(0.0, c)
    measured, bound = lemma8.lemma1_impl(A, other, ONE, c * ONE)
    assert measured[0] == pytest.approx(np.sqrt(2) * 4 / 6, rel=1e-12)
    assert bound[0] == pytest.approx(8 * c * c, rel=1e-12)
    measured, bound = lemma8.lemma1_impl_corrected(A, other, ONE, c * ONE)
    assert measured[0] <= bound[0]
    assert bound[0] == pytest.approx(4 * (1 + np.sqrt(2)), rel=1e-12)


def test_solutions_jump_and_directions_do_not():
    step = np.array([1e-3, 1e-6])
    measured, bound = simplex.remark3(step)
    np.testing.assert_allclose(measured, bound)
    ones = np.ones(2)
    A = np.stack([ones, ones + step], axis=-1)[:, None]
    measured, bound = at.direction_gap(A, A[..., ::-1], 0 * ones)
    assert (measured <= bound).all()
    assert measured.max() < 1e-12  # both are 1
    # attained: a short gradient that vanishes
    A, other = np.array([[[0.1, 1.0], [0.0, 0.0]]]), np.array([[[0.0, 1.0], [0.0, 0.0]]])
    measured, bound = at.direction_gap(A, other, 0 * ONE)
    assert measured[0] == pytest.approx(bound[0])


def test_growth_constants_are_attained():
    A = row(1.0, 1.0)
    lam = np.array([[1.0, 0.0]])
    rise, least = at.growth(A, ONE, ONE, lam)
    assert rise[0] == pytest.approx(least[0])
    assert at.growth(A, ONE, ONE / 2, lam)[1][0] == pytest.approx(rise[0] / 2)


def test_the_product_of_the_steps_is_twice_the_lemma():
    measured, bound = lemma8.eq46(row(1.0), row(0.0), ONE, ONE)
    assert (measured[0], bound[0]) == (8.0, 4.0)
    measured, bound = lemma8.eq46(row(1.0), row(0.0), ONE, ONE, 2)
    assert measured[0] == bound[0]
