"""The simplex program of FIRM's theory: rational answers, both precisions, degenerate inputs."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from experiments.firm.theory import program
from linsys import InputError
from linsys.linalg import apply, precise, precision
from mgda.simplex import kkt_residual, simplex_qp


def gaussian(K, right):
    """Solution of a rational system, None where it is singular."""
    n = len(K)
    rows = [[*K[r], right[r]] for r in range(n)]
    for c in range(n):
        pivot = next((r for r in range(c, n) if rows[r][c] != 0), None)
        if pivot is None:
            return None
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [v / rows[c][c] for v in rows[c]]
        for r in range(n):
            if r != c:
                rows[r] = [x - rows[r][c] * y for x, y in zip(rows[r], rows[c], strict=True)]
    return [row[n] for row in rows]


def rational_minimum(A):
    """The least ||A lambda||^2 of integer gradients as a fraction, over every support."""
    M = A.shape[1]
    G = [[Fraction(int(v)) for v in row] for row in A.T @ A]
    values = []
    for size in range(1, M + 1):
        for S in combinations(range(M), size):
            K = [[G[a][b] for b in S] + [Fraction(1)] for a in S]
            K.append([Fraction(1)] * size + [Fraction(0)])
            solution = gaussian(K, [Fraction(0)] * size + [Fraction(1)])
            if solution is not None and min(solution[:size]) >= 0:
                lam = dict(zip(S, solution, strict=False))
                values.append(sum(lam[a] * G[a][b] * lam[b] for a in S for b in S))
    return min(values)


@given(st.integers(1, 4), st.lists(st.integers(-4, 4), min_size=8, max_size=8))
def test_high_precision_finds_the_rational_minimum(M, entries):
    A = np.array(entries).reshape(2, 4)[:, :M]
    exact = rational_minimum(A)
    with precision(40):
        Q = precise((A.T @ A)[None])
        minimum = program.minimiser(Q)[0]
        value = (minimum * apply(Q[0], minimum)).sum()
        assert abs(minimum.sum() - 1) < 1e-38
        assert min(minimum) >= 0
        # the points that differ are at least 1e-2 apart in value; rounding is 40 digits
        assert abs(value - precise(exact)[()]) < 1e-36 * (1 + abs(value))


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_precisions_agree_and_are_optimal(M, d, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((3, d, M))
    beta = 10.0 ** rng.uniform(-2, 2, size=3)
    lambdas = program.weights(A, beta)
    Q = np.swapaxes(A, 1, 2) @ A + 0.5 * beta[:, None, None] * np.eye(M)
    assert kkt_residual(Q, lambdas).max() <= 1e-12
    with precision(30):
        exact = program.weights(precise(A), precise(beta)).astype(float)
    # condition of the program: at most ||Q|| / (beta / 2) < 1e4 times rounding
    np.testing.assert_allclose(lambdas, exact, atol=1e-11)
    np.testing.assert_allclose(simplex_qp(Q).weights, exact, atol=1e-11)


def test_points_that_depend_on_each_other_have_a_minimum():
    same = np.ones((1, 4, 4))
    with precision(30):
        minimum = program.minimiser(precise(same))[0]
        assert minimum.sum() == 1
        assert min(minimum) >= 0
        # one zero gradient among equal ones is the minimum
        A = precise([[[2.0, 2.0, 0.0]]])
        assert program.minimiser(program.gram(A))[0].tolist() == [0, 0, 1]


def test_matrices_that_are_not_square_and_normalised_gradients():
    A = np.array([[[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]])
    assert program.spectral(A)[0] == pytest.approx(np.linalg.norm(A[0], 2), rel=1e-13)
    assert program.spectral(0 * A)[0] == 0
    assert program.trace_mean(A)[0] == 2.0
    scaled = program.normalised(A)
    assert np.trace(program.gram(scaled)[0]) / 3 == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_array_equal(
        program.regularised(A, np.array([4.0])), program.gram(A) + 2 * np.eye(3)
    )
    assert float(program.root(2, np.array([3.0]))[0]) == np.sqrt(2)


def test_many_objectives_are_refused_in_high_precision():
    with pytest.raises(InputError, match="at most 4"):
        program.minimiser(precise(np.eye(5)[None]))
