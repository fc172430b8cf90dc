"""Matrices of :class:`linsys.linalg.degrees.Rational` numbers: inverses, eigenvalues, roots."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from linsys.linalg import ball_matrices, formal, ranges
from linsys.linalg._flint import flint
from linsys.linalg._precise import Numbers
from linsys.linalg.balls import Ball, as_arb
from linsys.linalg.degrees import (
    MAXIMUM,
    MINIMUM,
    Rational,
    as_rational,
    divided_by,
    taken_for_zero,
    vanishes,
    with_range,
    without_rule,
)
from linsys.linalg.object_matrices import with_inverses
from linsys.linalg.ranges import ANY, NEVER, Range

__all__ = ["eigenvalue_range", "inverses", "operator_norms", "solutions", "stretches"]

_ONE = Range(1.0, 1.0, NEVER)


def inverses(matrices: Numbers) -> Numbers:
    """M^{-1} of each matrix, NaN where it is singular, (K, d, d)."""
    inverted = np.empty(matrices.shape, dtype=object)
    for k, matrix in enumerate(matrices):
        entries = [[as_rational(x) for x in row] for row in matrix]
        if not all(x.finite for row in entries for x in row):
            inverted[k] = next(x for row in entries for x in row if not x.finite)
        elif any(x.formal for row in entries for x in row):
            inverted[k] = _by_cofactors(np.array(entries, dtype=object))
        else:
            inverted[k] = _of_rationals(entries)
    return inverted


def _of_rationals(entries: list[list[Rational]]) -> Any:
    # M = P / q with polynomials P and q, and M^-1 = q adj(P) / det(P)
    d = len(entries)
    common = sum(x.bottom for row in entries for x in row)
    most = max(x.top + common - x.bottom for row in entries for x in row)
    rational = flint.fmpq_mat([[x.value for x in row] for row in entries])
    try:
        solved = rational.inv()
    except ZeroDivisionError:  # everywhere, but for the chance of its determinant
        taken_for_zero(d * most)
        return Rational(math.nan)
    divided_by(Rational(rational.det(), d * most, d * common))
    degrees = common + (d - 1) * most, d * most
    every = [x for row in entries for x in row]
    if d == 1:
        return [
            [with_range(Rational(solved[0, 0], *degrees), lambda x: ranges.over(_ONE, x), *every)]
        ]
    unsure = any(x.tied or x.range is None for x in every)
    known = None if unsure else ANY, any(x.tied for x in every)
    return [[Rational(x, *degrees, *known) for x in row] for row in solved.tolist()]


def _determinant(matrix: Numbers) -> Any:
    if len(matrix) == 1:
        return matrix[0, 0]
    rest = np.delete(matrix, 0, axis=0)
    minors = [_determinant(np.delete(rest, j, axis=1)) for j in range(len(matrix))]
    return sum((-1) ** j * matrix[0, j] * minor for j, minor in enumerate(minors))


def _by_cofactors(matrix: Numbers) -> Any:
    d, determinant = len(matrix), _determinant(matrix)
    singular = determinant.element
    if vanishes(singular):
        return Rational(math.nan)
    if d == 1:
        return 1 / matrix
    adjugate = np.empty((d, d), dtype=object)
    for i, j in np.ndindex(d, d):
        minor = np.delete(np.delete(matrix, j, axis=0), i, axis=1)
        adjugate[i, j] = (-1) ** (i + j) * _determinant(minor)
    return adjugate / determinant


solutions = with_inverses(inverses)


def _is_zero(number: Any) -> bool:
    """Whether a number is zero everywhere; no comparison of the formula."""
    number = as_rational(number)
    if formal.sign(number.element) != 0:
        return False
    taken_for_zero(number.top)
    return True


def _is_diagonal(matrix: Numbers) -> bool:
    return all(_is_zero(x) for x in matrix[~np.eye(len(matrix), dtype=bool)])


def _entries(
    name: str, function: Callable[[Numbers], Numbers], count: int, matrix: Numbers
) -> list[Rational]:
    """What a function of a matrix returns, numbers of which no rule is known."""
    flat = [as_rational(x) for x in matrix.ravel()]

    def entry(index: int) -> Callable[..., Any]:
        def evaluate(*arbs: Any) -> Any:
            stack = np.array([Ball(one) for one in arbs], dtype=object).reshape(1, *matrix.shape)
            return as_arb(function(stack).ravel()[index].value)

        return evaluate

    return [without_rule(f"{name} {k}", flat, entry(k)) for k in range(count)]


def _extreme_eigenvalues(symmetric: Numbers) -> list[Any]:
    """Smallest and largest eigenvalue of a symmetric matrix."""
    if _is_diagonal(symmetric):
        ends = symmetric.diagonal()
        return [MINIMUM.reduce(ends), MAXIMUM.reduce(ends)]
    if len(symmetric) == 2:
        (a, b), (_, c) = symmetric
        radius = np.sqrt(((a - c) / 2) ** 2 + b * b)
        return [(a + c) / 2 - radius, (a + c) / 2 + radius]
    return _entries("eigenvalue", ball_matrices.eigenvalue_range, 2, symmetric)


def eigenvalue_range(matrices: Numbers) -> Numbers:
    """Smallest and largest eigenvalue of sym(M), (K, 2)."""
    symmetric = (matrices + np.swapaxes(matrices, 1, 2)) / 2
    ends = [end for matrix in symmetric for end in _extreme_eigenvalues(matrix)]
    return np.array(ends, dtype=object).reshape(-1, 2)


def operator_norms(matrices: Numbers) -> Numbers:
    """||M|| of each matrix, (K,)."""
    if matrices.shape[-1] == 1:
        return np.asarray(np.abs(matrices[:, 0, 0]))
    grams = np.swapaxes(matrices, 1, 2) @ matrices
    return np.array([np.sqrt(_extreme_eigenvalues(gram)[1]) for gram in grams], dtype=object)


def stretches(matrices: Numbers) -> Numbers:
    """sqrt(M'M) of each matrix, (K, d, d)."""
    return np.stack([_stretch(matrix) for matrix in matrices])


def _stretch(matrix: Numbers) -> Any:
    d = len(matrix)
    if d == 1:
        return np.abs(matrix)
    pairs = [(i, j) for i in range(d) for j in range(i)]
    if all(_is_zero(matrix[i, j] - matrix[j, i]) for i, j in pairs) and all(
        _determinant(matrix[:k, :k]) > 0 for k in range(1, d + 1)
    ):
        return matrix  # positive definite
    if d == 2:
        gram, size = matrix.T @ matrix, abs(_determinant(matrix))
        return (gram + size * np.eye(2, dtype=int)) / np.sqrt(gram[0, 0] + gram[1, 1] + 2 * size)
    return np.array(_entries("stretch", ball_matrices.stretches, d * d, matrix)).reshape(d, d)
