"""Simplex programs against a solver in rational arithmetic, which rounds nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mgda.simplex import kkt_residual, min_norm, simplex_qp


def eliminate(K, right):
    """The solution of K x = right in fractions; None where K is singular."""
    n = len(K)
    rows = [[*row, value] for row, value in zip(K, right, strict=True)]
    for c in range(n):
        pivot = next((r for r in range(c, n) if rows[r][c] != 0), None)
        if pivot is None:
            return None
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [v / rows[c][c] for v in rows[c]]
        for r in range(n):
            if r != c and rows[r][c] != 0:
                factor = rows[r][c]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[c], strict=True)]
    return [row[n] for row in rows]


def on_support(F, support):
    """Weights of the minimiser on the affine hull of a support; None where it is not unique."""
    k = len(support)
    K = [[F[a][b] for b in support] + [Fraction(1)] for a in support]
    solution = eliminate([*K, [Fraction(1)] * k + [Fraction(0)]], [Fraction(0)] * k + [Fraction(1)])
    return None if solution is None else solution[:k]


@dataclass
class Exact:
    weights: list[Fraction]
    value: Fraction
    #: Where the slope is the optimal value: no optimum has weight elsewhere.
    active: list[int]
    unique: bool


def exact(Q):
    """The first support whose weights satisfy the optimality conditions, without any tolerance."""
    F = [[Fraction(float(v)) for v in row] for row in Q]
    M = len(F)
    for size in range(1, M + 1):
        for support in combinations(range(M), size):
            small = on_support(F, support)
            if small is None or min(small) < 0:
                continue
            weights = [Fraction(0)] * M
            for a, value in zip(support, small, strict=True):
                weights[a] = value
            slopes = [sum(F[i][j] * weights[j] for j in range(M)) for i in range(M)]
            value = sum(w * s for w, s in zip(weights, slopes, strict=True))
            if min(slopes) >= value:
                active = [i for i in range(M) if slopes[i] == value]
                return Exact(weights, value, active, on_support(F, active) is not None)
    raise AssertionError("a convex program has an optimum on an affinely independent support")


def curvature(Q, active):
    """The smallest curvature along directions within the points where weight may be."""
    if len(active) == 1:
        return np.inf
    basis = np.linalg.svd(np.ones((len(active), 1)))[0][:, 1:]
    return np.linalg.eigvalsh(basis.T @ Q[np.ix_(active, active)] @ basis)[0]


def agrees(Q, R=0.0):
    """Solve Q + R in both arithmetics and compare; whether the solution is unique."""
    truth, weights = exact(Q + R), simplex_qp(Q + R)
    size = max(1.0, np.abs(Q + R).max())
    assert weights.optimal
    # v exceeds the optimum by at most twice the largest entry times the residual, 2 M eps
    assert abs(weights.objective - float(truth.value)) <= 1e-13 * size
    if truth.unique:
        # slopes that are wrong by rounding move weights by its quotient with the curvature
        allowed = 1e-13 * (1 + size / curvature(Q + R, truth.active))
        expected = np.array([float(w) for w in truth.weights])
        assert np.abs(weights.weights - expected).max() <= allowed
        # the support, too, where no weight is tiny
        assert set(np.flatnonzero(weights.weights > allowed)) == set(np.flatnonzero(expected))
    return truth.unique


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.integers(2, 5),
    st.integers(1, 4),
    st.lists(st.integers(-5, 5), min_size=20, max_size=20),
    st.sampled_from([0.0, 0.25, 4.0]),
)
def test_small_programs_are_solved_exactly(M, d, entries, ridge):
    A = np.array(entries, dtype=float)[: d * M].reshape(d, M)
    unique = agrees(A.T @ A, ridge * np.eye(M))
    assert unique or ridge == 0


@pytest.mark.parametrize("M", [2, 3, 4, 5])
def test_exact_answers_on_many_programs(M):
    rng = np.random.default_rng(M)
    unique = 0
    for _ in range(60):
        d = int(rng.integers(1, M + 2))
        # identical, opposite, zero and collinear gradients are frequent among small integers
        A = rng.integers(-2, 3, size=(d, M)).astype(float)
        unique += agrees(A.T @ A)
    assert 10 < unique < 60


def test_preferences_in_dyadic_numbers():
    rng = np.random.default_rng(7)
    for _ in range(40):
        A = rng.integers(-3, 4, size=(3, 4)).astype(float)
        p = 2.0 ** rng.integers(-2, 3, size=4)
        truth, weights = exact(A.T @ A + np.diag(1 / p)), min_norm(A, preference=p)
        expected = np.array([float(w) for w in truth.weights])
        assert truth.unique
        assert np.abs(weights.weights - expected).max() <= 1e-12  # curvature at least 1/4


def test_objectives_of_very_different_size():
    rng = np.random.default_rng(8)
    for _ in range(60):
        A = rng.integers(-3, 4, size=(4, 4)) * 2.0 ** rng.integers(-12, 13, size=4)
        Q = A.T @ A
        weights = simplex_qp(Q)
        assert abs(weights.objective - float(exact(Q).value)) <= 1e-13 * max(1.0, Q.max())


def test_the_certificate_is_that_of_rational_arithmetic():
    rng = np.random.default_rng(9)
    for _ in range(40):
        A = rng.integers(-3, 4, size=(3, 4)).astype(float)
        Q, w = A.T @ A + np.eye(4), rng.integers(0, 9, size=4) / 16
        F = [[Fraction(float(v)) for v in row] for row in Q]
        lam = [Fraction(float(v)) for v in w]
        slopes = [sum(x * y for x, y in zip(row, lam, strict=True)) for row in F]
        value = sum(x * y for x, y in zip(lam, slopes, strict=True))
        size = max(max(row) for row in F)
        parts = [(value - s) / size for s in slopes]
        parts += [abs(x * (s - value)) / size for x, s in zip(lam, slopes, strict=True)]
        assert kkt_residual(Q, w) == pytest.approx(float(max(*parts, abs(sum(lam) - 1))), rel=1e-14)
