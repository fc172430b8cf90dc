"""Small linear algebra on stacks of vectors and matrices, in float64 or in high precision.

Every function takes stacks, shapes (..., d) or (..., d, d), and works on whichever numbers it is
given: float64 arrays go through compiled loops or LAPACK, object arrays of ``mpf`` (see
:func:`precise`) through mpmath's numbers at their current precision. A formula written once with
these functions and NumPy's arithmetic is therefore both fast and checkable beyond rounding.

NaN in gives NaN out, and a singular matrix has the inverse NaN: what is wrong with one matrix of a
stack does not touch the others.

>>> import numpy as np
>>> A = np.array([[3.0, 4.0], [0.0, 5.0]])
>>> print(operator_norm(A), lambda_min(A))
6.70820 1.76393
>>> with precision(30):
...     print(operator_norm(precise(A)))
6.70820393249936908922752100619
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linsys.linalg import _loops, _precise
from linsys.linalg._precise import Numbers, is_precise, no_floats, precise, precision
from linsys.validate import InputError

__all__ = [
    "Numbers",
    "agent_mean",
    "apply",
    "inverse",
    "is_precise",
    "lambda_max",
    "lambda_min",
    "logistic",
    "no_floats",
    "norm",
    "operator_norm",
    "precise",
    "precision",
    "solve",
    "squared",
    "squares",
    "stationary",
    "stretch",
    "transpose",
]

#: Dimension above which LAPACK is as fast as the compiled Jacobi rotations.
_SMALL = 8


def transpose(matrices: Numbers) -> Numbers:
    """M' of each matrix."""
    return np.swapaxes(matrices, -1, -2)


def norm(vectors: Numbers) -> Numbers:
    """Euclidean length of each vector (..., d); its square must be in the range of the numbers."""
    return np.asarray(np.sqrt(np.vecdot(vectors, vectors)))


def squared(vectors: Numbers) -> Numbers:
    """||v||^2 of each vector (..., d)."""
    return np.asarray((vectors * vectors).sum(axis=-1))


def squares(matrices: Numbers) -> Numbers:
    """||M||_F^2, the sum of the squared entries of each matrix (..., p, q)."""
    return np.asarray((matrices * matrices).sum(axis=(-2, -1)))


def apply(matrices: Any, vectors: Any) -> Any:
    """M v for matrices (..., d, p) and vectors (..., p) that broadcast, of any array library."""
    return (matrices @ vectors[..., None])[..., 0]


def agent_mean(values: Numbers) -> Numbers:
    """The average over n agents of values (B, n, ...)."""
    return np.asarray(values.sum(axis=1) / values.shape[1])


def logistic(x: Numbers) -> Numbers:
    """1 / (1 + e^-x) of each number."""
    if is_precise(x):
        return _precise.logistic(x)
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def operator_norm(matrices: Numbers) -> Numbers:
    """||M|| = sigma_max(M) of each matrix."""
    return _each(matrices, (), _loops.operator_norms, _lapack_norms, _precise.operator_norms)


def lambda_min(matrices: Numbers) -> Numbers:
    """lambda_min(sym(M)) of each matrix."""
    return _eigenvalue_range(matrices)[..., 0]


def lambda_max(matrices: Numbers) -> Numbers:
    """lambda_max(sym(M)) of each matrix."""
    return _eigenvalue_range(matrices)[..., 1]


def _eigenvalue_range(matrices: Numbers) -> Numbers:
    return _each(matrices, (2,), _loops.eigenvalue_range, _lapack_range, _precise.eigenvalue_range)


def stretch(matrices: Numbers) -> Numbers:
    """D = sqrt(M'M) of each matrix, the positive semidefinite factor of M = U D."""
    shape = matrices.shape[-2:]
    return _each(matrices, shape, _loops.stretches, _lapack_stretches, _precise.stretches)


def inverse(matrices: Numbers) -> Numbers:
    """M^{-1} of each matrix."""
    flat = _flat(matrices)
    if is_precise(matrices):
        return _precise.inverses(flat).reshape(matrices.shape)
    result = np.empty_like(flat)
    _loops.linear_solutions(flat, np.eye(flat.shape[-1])[None], result)
    return result.reshape(matrices.shape)


def solve(matrices: Numbers, vectors: Numbers) -> Numbers:
    """M^{-1} v for matrices (..., d, d) and vectors (..., d), which broadcast."""
    if is_precise(matrices) or is_precise(vectors):
        return _precise.solutions(precise(matrices), precise(vectors))
    d, lead = vectors.shape[-1], vectors.shape[:-1]
    if matrices.shape[:-2] != lead:
        lead = np.broadcast_shapes(matrices.shape[:-2], lead)
        matrices = np.broadcast_to(matrices, (*lead, d, d))
        vectors = np.broadcast_to(vectors, (*lead, d))
    sides = np.array(vectors, dtype=np.float64, order="C").reshape(-1, d, 1)
    _loops.linear_solutions(_flat(matrices), sides, sides)
    return sides.reshape((*lead, d))


def stationary(kernels: Numbers) -> Numbers:
    """d with d P = d of irreducible chains (..., S, S), each entry to a few roundings.

    States are left out one by one, the others' transitions through them added to those that remain
    (Grassmann, Taksar and Heyman, 1985). Nothing is subtracted, so that chains which hardly ever
    leave a state lose no digits, where I - P loses all of them. NaN of a chain that is found not to
    be irreducible: the last state that is left does not lead to those before it.

    >>> print(stationary(np.array([[1.0, 1e-20], [2e-20, 1.0]])))
    [0.66666667 0.33333333]
    """
    P, S = kernels.copy(), kernels.shape[-1]
    for n in range(S - 1, 0, -1):
        leaving = P[..., n, :n].sum(axis=-1)
        P[..., :n, n] /= np.where(leaving > 0, leaving, np.nan)[..., None]
        P[..., :n, :n] += P[..., :n, n, None] * P[..., None, n, :n]
    law: Numbers = 0 * P[..., 0] + 1
    for n in range(1, S):
        law[..., n] = (law[..., :n] * P[..., :n, n]).sum(axis=-1)
        law[..., : n + 1] /= law[..., : n + 1].sum(axis=-1, keepdims=True)
    return law


def _flat(matrices: Numbers) -> Numbers:
    """Matrices (..., d, d) as a stack (K, d, d); doubles in one block, for the loops."""
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2] or matrices.shape[-1] == 0:
        raise InputError(f"`matrices` must have shape (..., d, d); found {matrices.shape}")
    stack = matrices.reshape(-1, *matrices.shape[-2:])
    flags = stack.flags
    if is_precise(stack) or (flags.carray and stack.dtype == np.float64):
        return stack
    return np.array(stack, dtype=np.float64, order="C")


def _each(
    matrices: Numbers,
    shape: tuple[int, ...],
    loop: Callable[[Numbers, Numbers], None],
    lapack: Callable[[Numbers], Numbers],
    exact: Callable[[Numbers], Numbers],
) -> Numbers:
    """Results (..., *shape) of matrices (..., d, d), NaN where a matrix is not finite."""
    flat = _flat(matrices)
    if not is_precise(flat) and flat.shape[-1] <= _SMALL:
        result = np.empty((len(flat), *shape))
        loop(flat, result)
    else:
        with np.errstate(invalid="ignore"):
            finite = (flat - flat == 0).all(axis=(1, 2))
        nan = precise(np.nan) if is_precise(flat) else np.nan
        result = np.full((len(flat), *shape), nan)
        result[finite] = (exact if is_precise(flat) else lapack)(flat[finite])
    return result.reshape((*matrices.shape[:-2], *shape))


def _lapack_norms(matrices: Numbers) -> Numbers:
    return np.asarray(np.linalg.norm(matrices, ord=2, axis=(-2, -1)))


def _lapack_range(matrices: Numbers) -> Numbers:
    return np.linalg.eigvalsh((matrices + transpose(matrices)) / 2)[:, [0, -1]]


def _lapack_stretches(matrices: Numbers) -> Numbers:
    _, values, axes = np.linalg.svd(matrices)
    return np.asarray(transpose(axes) * values[..., None, :] @ axes)
