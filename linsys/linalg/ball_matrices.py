"""Matrices of balls: the algebra of stacks (K, d, d), as :mod:`linsys.linalg._precise` has it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from linsys.linalg import _precise
from linsys.linalg._flint import flint
from linsys.linalg._precise import Numbers
from linsys.linalg.balls import (
    Ball,
    Undecided,
    as_arb,
    as_ball,
    as_fraction,
    exact_value,
    larger,
    made,
    smaller,
)
from linsys.linalg.object_matrices import one_by_one


def operator_norms(matrices: Numbers) -> Numbers:
    """||M|| of each matrix, (K,)."""
    if matrices.shape[-1] == 1:
        return np.asarray(np.abs(matrices[:, 0, 0]))
    largest = eigenvalue_range(np.swapaxes(matrices, 1, 2) @ matrices)[:, 1]
    return _objects([root(value) for value in largest], (len(matrices),))


def eigenvalue_range(matrices: Numbers) -> Numbers:
    """Smallest and largest eigenvalue of sym(M), (K, 2)."""
    symmetric = (matrices + np.swapaxes(matrices, 1, 2)) / 2
    ends = [end for matrix in symmetric for end in _extreme_eigenvalues(_balls(matrix))]
    return _objects(ends, (len(matrices), 2))


def inverses(matrices: Numbers) -> Numbers:
    """M^{-1} of each matrix, NaN where there is none, (K, d, d)."""
    d = matrices.shape[-1]
    identity = [[Ball(int(i == j)) for j in range(d)] for i in range(d)]
    solved = [_solved(_balls(matrix), identity) for matrix in matrices]
    entries = [entry for rows in solved for row in rows for entry in row]
    return _objects(entries, matrices.shape)


def stretches(matrices: Numbers) -> Numbers:
    """sqrt(M'M) of each matrix, (K, d, d)."""
    d = matrices.shape[-1]
    if d == 1:
        return np.asarray(np.abs(matrices))
    gram = np.swapaxes(matrices, 1, 2) @ matrices
    return np.stack([(_root_of_two if d == 2 else _root_of_many)(one) for one in gram])


def _objects(entries: Sequence[Ball], shape: tuple[int, ...]) -> Numbers:
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array.reshape(shape)


def _balls(matrix: Numbers) -> list[list[Ball]]:
    return [[as_ball(entry) for entry in row] for row in matrix]


def root(number: Ball) -> Ball:
    """The square root of a number that is known not to be negative."""
    return made(number.value, True).sqrt()


def _values(rows: Sequence[Sequence[Ball]]) -> tuple[Any, bool]:
    """Rows as a matrix of FLINT, and whether it is exact."""
    values = [[entry.value for entry in row] for row in rows]
    if all(isinstance(value, flint.fmpq) for row in values for value in row):
        return flint.fmpq_mat(values), True
    if any(value is None for row in values for value in row):
        raise Undecided("a matrix has an entry that is no number")
    return flint.arb_mat([[as_arb(value) for value in row] for row in values]), False


def _solved(left: Sequence[Sequence[Ball]], right: Sequence[Sequence[Ball]]) -> list[list[Ball]]:
    """The X with L X = R; NaN where L is an exact matrix without an inverse."""
    if any(entry.value is None for row in (*left, *right) for entry in row):
        return [[made(None)] * len(right[0]) for _ in right]
    L, exact = _values(left)
    if exact and L.det() == 0:
        return [[made(None)] * len(right[0]) for _ in right]
    R, both = _values(right)
    if exact != both:
        L, R = (flint.arb_mat(M) if isinstance(M, flint.fmpq_mat) else M for M in (L, R))
    try:
        X = L.solve(R)
    except ZeroDivisionError:
        raise Undecided("the balls do not show that a matrix has an inverse") from None
    return [[made(entry) for entry in row] for row in X.tolist()]


@one_by_one
def solutions(matrix: Numbers, right: Numbers) -> Numbers:
    """The X with M X = R."""
    rows = _solved(_balls(matrix), _balls(right))
    return _objects([entry for row in rows for entry in row], right.shape)


def _extreme_eigenvalues(rows: list[list[Ball]]) -> tuple[Ball, Ball]:
    """Smallest and largest eigenvalue of a symmetric matrix."""
    d = len(rows)
    if d == 1:
        return rows[0][0], rows[0][0]
    if d == 2:
        centre = (rows[0][0] + rows[1][1]) / 2
        half, off = (rows[0][0] - rows[1][1]) / 2, rows[0][1]
        radius = root(half * half + off * off)
        return centre - radius, centre + radius
    matrix, exact = _values(rows)
    if exact:
        return _extreme_roots(matrix.charpoly().factor()[1])
    # Weyl: eigenvalues differ from those of the midpoints by at most the norm of the difference
    middle = flint.fmpq_mat(
        [[exact_value(as_fraction(entry.mid())) for entry in row] for row in matrix.table()]
    )
    radii = [entry.rad() for row in matrix.table() for entry in row]
    apart = sum((r * r for r in radii), flint.arb(0)).sqrt()
    low, high = (as_arb(end.value) for end in _extreme_roots([(middle.charpoly(), 1)]))
    spread = flint.arb(0, apart.upper())
    return made(low + spread), made(high + spread)


def _extreme_roots(factors: Sequence[tuple[Any, int]]) -> tuple[Ball, Ball]:
    """Smallest and largest root of a product of polynomials whose roots are all real."""
    roots: list[Any] = []
    for factor, _ in factors:
        if factor.degree() == 1:
            roots.append(-factor[0] / factor[1])
        else:
            roots += [root.real for root, _ in factor.complex_roots()]
    return functools.reduce(smaller, map(made, roots)), functools.reduce(larger, map(made, roots))


def _root_of_two(gram: Numbers) -> Numbers:
    """sqrt(C) = (C + r I) / sqrt(tr C + 2 r) with r = sqrt(det C), of positive semidefinite C."""
    (a, b), (_, c) = _balls(gram)
    r = root(a * c - b * b)
    scale = root(a + c + 2 * r)
    if scale == 0:
        return gram
    return np.asarray((gram + r * np.eye(2, dtype=int)) / scale)


def _root_of_many(gram: Numbers) -> Numbers:
    """sqrt(C) from the eigenvectors Q of the balls' midpoints.

    S = Q diag(s) Q' with s >= 0 is positive semidefinite, however wrong Q and s are, so that
    ||sqrt(C) - S|| <= sqrt(||C - S S||): the root is an operator monotone function.
    """
    mp = _precise._mp
    with mp.workprec(flint.ctx.prec + 20):
        middles = [[as_fraction(as_arb(x.value).mid()) for x in row] for row in _balls(gram)]
        matrix = mp.matrix([[mp.mpf(x.numerator) / x.denominator for x in r] for r in middles])
        values, axes = mp.eigsy((matrix + matrix.T) / 2)
        Q = _from_mpmath(np.array(axes.tolist(), dtype=object))
        s = _from_mpmath(np.array([mp.sqrt(max(x, mp.zero)) for x in values], dtype=object))
    S = (Q * s) @ Q.T
    apart = gram - S @ S
    error = np.sqrt(np.sqrt((apart * apart).sum()))
    return np.asarray(S + made(flint.arb(0, as_arb(error.value).upper())))


def _from_mpmath(numbers: Numbers) -> Numbers:
    """Numbers of mpmath as what they are, m 2^e."""
    exact = []
    for number in numbers.ravel():
        sign, mantissa, exponent, _ = number._mpf_
        value = Fraction(int(mantissa)) * Fraction(2) ** exponent
        exact.append(made(as_arb(exact_value(-value if sign else value))))
    return _objects(exact, numbers.shape)
