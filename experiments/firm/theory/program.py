"""min over the simplex of lambda' Q lambda on stacks, in float64 or in high precision.

float64 goes to :func:`mgda.simplex.simplex_qp`. On high-precision numbers every support is tried:
on an affinely independent one the minimiser on its affine hull solves a small linear system, and
the best of those with no negative weight is the minimum. The only rounding is that of the solve.

>>> import numpy as np
>>> from linsys.linalg import precise, precision
>>> with precision(20):
...     print(*minimiser(precise([[[1.0, 0.0], [0.0, 2.0]]]))[0])
0.66666666666666666667 0.33333333333333333333
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from linsys.linalg import Numbers, apply, is_precise, lambda_max, precise, solve, squared, transpose
from linsys.validate import InputError
from mgda.simplex import simplex_qp

#: Supports are enumerated up to this number of objectives.
_LARGEST = 4


def gram(A: Numbers) -> Numbers:
    """G = A'A, shape (..., M, M)."""
    return np.asarray(transpose(A) @ A)


def spectral(A: Numbers) -> Numbers:
    """||A||_op of matrices (..., d, M) that need not be square."""
    # |.|: rounding may leave the eigenvalue of a zero matrix below zero
    return np.asarray(np.sqrt(np.abs(lambda_max(gram(A)))))


def root(number: int, like: Numbers) -> Numbers:
    """The square root of a whole number in the precision of ``like``, and of its shape."""
    return np.asarray(np.sqrt(0 * like + number))


def diagonal(values: Numbers) -> Numbers:
    """Diag(v) of vectors (..., M)."""
    return np.asarray(values[..., None] * np.eye(values.shape[-1], dtype=int))


def regularised(A: Numbers, beta: Numbers) -> Numbers:
    """G + (beta / 2) I, the matrix of (2), for beta of shape (B,)."""
    return gram(A) + diagonal(beta[:, None] / 2 + 0 * A[:, 0])


def trace_mean(A: Numbers) -> Numbers:
    """(1/M) tr G, shape (B,)."""
    return np.asarray(squared(A).sum(axis=-1) / A.shape[-1])


def normalised(A: Numbers) -> Numbers:
    """Gradients whose Gram matrix is that of (9): A / sqrt((1/M) tr G)."""
    return np.asarray(A / np.sqrt(trace_mean(A))[:, None, None])


def weights(A: Numbers, beta: Numbers) -> Numbers:
    """The solution of (1) and (2), shape (B, M)."""
    return minimiser(regularised(A, beta))


def minimiser(Q: Numbers) -> Numbers:
    """A minimiser of lambda' Q lambda over the simplex for positive semidefinite Q (B, M, M).

    Raises:
        InputError: more than four objectives in high precision.
    """
    if not is_precise(Q):
        return simplex_qp(Q).weights
    count, M = Q.shape[:2]
    if M > _LARGEST:
        raise InputError(f"`Q` must have at most {_LARGEST} rows in high precision; found {M}")
    best = np.full(count, precise(np.inf)[()], dtype=object)
    argmin = np.full((count, M), precise(np.nan)[()], dtype=object)
    for size in range(1, M + 1):
        for support in combinations(range(M), size):
            candidate = _on_support(Q, list(support))
            value = (candidate * apply(Q, candidate)).sum(axis=-1)
            # NaN, from points that depend on each other, compares as False
            better = (candidate >= 0).all(axis=-1) & (value < best)
            best = np.where(better, value, best)
            argmin = np.where(better[:, None], candidate, argmin)
    return argmin


def _on_support(Q: Numbers, support: list[int]) -> Numbers:
    """Minimisers on the affine hull of a support, (B, M); NaN where its points depend."""
    first, rest = support[0], support[1:]
    result = np.full(Q.shape[:2], precise(0.0)[()], dtype=object)
    result[:, first] = precise(1.0)[()]
    if rest:
        # lambda = e_first + sum_k z_k (e_k - e_first), stationary in z
        rows = Q[:, rest] - Q[:, first : first + 1]
        curvature = rows[:, :, rest] - rows[:, :, first : first + 1]
        result[:, rest] = solve(curvature, -rows[:, :, first])
        result[:, first] = 1 - result[:, rest].sum(axis=1)
    return result
