"""Small linear algebra on stacks of vectors and matrices, in float64 or in high precision.

Every function takes stacks, shapes (..., d) or (..., d, d), and works on whichever numbers it is
given: float64 arrays go through compiled loops or LAPACK, object arrays of ``mpf`` (see
:func:`precise`) through mpmath at its current precision. A formula written once with these
functions and NumPy's arithmetic is therefore both fast and checkable beyond rounding.

>>> import numpy as np
>>> A = np.array([[3.0, 4.0], [0.0, 5.0]])
>>> print(operator_norm(A), lambda_min(A))
6.70820 1.76393
>>> with precision(30):
...     print(operator_norm(precise(A)))
6.70820393249936908922752100619
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "inverse",
    "is_precise",
    "lambda_max",
    "lambda_min",
    "norm",
    "operator_norm",
    "precise",
    "precision",
    "solve",
    "stretch",
    "transpose",
]

#: float64, or objects that are all of one ``mpf`` type.
Numbers = NDArray[Any]

_mp = mpmath.MPContext()


def _method(name: str) -> Callable[[Any], Any]:
    function = getattr(_mp, name.replace("arc", "a"))
    return lambda number: function(number)


for _name in ("sqrt", "exp", "log", "sin", "cos", "tan", "arctan", "log1p", "expm1"):
    # NumPy's ufuncs call the method of this name on every object.
    setattr(_mp.mpf, _name, _method(_name))


@contextmanager
def precision(digits: int) -> Iterator[None]:
    """Within the block, high-precision numbers carry so many decimal digits."""
    with _mp.workdps(digits):
        yield


def precise(values: ArrayLike) -> Numbers:
    """The values as high-precision numbers: a float counts as its shortest decimal, 0.1 as 1/10.

    >>> with precision(20):
    ...     print(precise([0.1])[0] * 3)
    0.3
    """
    raw = np.asarray(values)
    if is_precise(raw):
        return raw
    flat = [_number(value) for value in raw.ravel().tolist()]
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(raw.shape)


def _number(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return _mp.mpf(value)
    fraction = value if isinstance(value, Fraction) else Fraction(repr(value))
    return _mp.mpf(fraction.numerator) / fraction.denominator


def is_precise(values: Any) -> bool:
    """Whether these are high-precision numbers."""
    return isinstance(values, np.ndarray) and values.dtype == object


def transpose(matrices: Numbers) -> Numbers:
    """M' of each matrix."""
    return np.swapaxes(matrices, -1, -2)


def norm(vectors: Numbers, axis: int = -1) -> Numbers:
    """Euclidean length along one axis."""
    return np.asarray(np.sqrt((vectors * vectors).sum(axis=axis)))


def operator_norm(matrices: Numbers) -> Numbers:
    """||M|| = sigma_max(M) of each matrix."""
    if is_precise(matrices):
        return np.asarray(np.sqrt(lambda_max(transpose(matrices) @ matrices)))
    return np.asarray(np.linalg.norm(matrices, ord=2, axis=(-2, -1)))


def lambda_min(matrices: Numbers) -> Numbers:
    """lambda_min(sym(M)) of each matrix."""
    return _eigenvalues(matrices)[..., 0]


def lambda_max(matrices: Numbers) -> Numbers:
    """lambda_max(sym(M)) of each matrix."""
    return _eigenvalues(matrices)[..., -1]


def _eigenvalues(matrices: Numbers) -> Numbers:
    """Eigenvalues of sym(M) in ascending order, shape (..., d)."""
    symmetric = (matrices + transpose(matrices)) / 2
    if is_precise(matrices):
        return _each(_eigsy_values, symmetric, symmetric.shape[-1:])
    return np.asarray(np.linalg.eigvalsh(symmetric))


def solve(matrices: Numbers, vectors: Numbers) -> Numbers:
    """M^{-1} v for matrices (..., d, d) and vectors (..., d), which broadcast."""
    lead = np.broadcast_shapes(matrices.shape[:-2], vectors.shape[:-1])
    d = vectors.shape[-1]
    stacked = np.broadcast_to(matrices, (*lead, d, d))
    sides = np.broadcast_to(vectors, (*lead, d))
    if is_precise(matrices) or is_precise(vectors):
        return _each(_lu_solve, precise(stacked), (d,), precise(sides))
    return np.asarray(np.linalg.solve(stacked, sides[..., None])[..., 0])


def inverse(matrices: Numbers) -> Numbers:
    """M^{-1} of each matrix."""
    if is_precise(matrices):
        return _each(_invert, matrices, matrices.shape[-2:])
    return np.asarray(np.linalg.inv(matrices))


def stretch(matrices: Numbers) -> Numbers:
    """D = sqrt(M'M) of each matrix, the positive semidefinite factor of M = U D."""
    if is_precise(matrices):
        return _each(_root, transpose(matrices) @ matrices, matrices.shape[-2:])
    _, values, axes = np.linalg.svd(matrices)
    return np.asarray(transpose(axes) * values[..., None, :] @ axes)


# High precision, one matrix at a time.


def _each(
    function: Callable[..., Any], matrices: Numbers, shape: tuple[int, ...], *others: Numbers
) -> Numbers:
    """Apply a function of one matrix (and one of each other stack) to all."""
    lead = matrices.shape[:-2]
    result = np.empty((*lead, *shape), dtype=object)
    for index in np.ndindex(lead):
        result[index] = function(matrices[index], *(other[index] for other in others))
    return result


def _matrix(array: Numbers) -> Any:
    return _mp.matrix(array.tolist())


def _array(matrix: Any) -> Numbers:
    result = np.empty((matrix.rows, matrix.cols), dtype=object)
    for i, j in np.ndindex(result.shape):
        result[i, j] = matrix[i, j]
    return result


def _eigsy_values(symmetric: Numbers) -> Numbers:
    values = _mp.eigsy(_matrix(symmetric), eigvals_only=True)
    return np.array(sorted(values), dtype=object)


def _lu_solve(matrix: Numbers, vector: Numbers) -> Numbers:
    return _array(_mp.lu_solve(_matrix(matrix), _mp.matrix(vector.tolist())))[:, 0]


def _invert(matrix: Numbers) -> Numbers:
    return _array(_mp.inverse(_matrix(matrix)))


def _root(gram: Numbers) -> Numbers:
    values, axes = _mp.eigsy(_matrix(gram))
    roots = np.array([_mp.sqrt(max(value, _mp.mpf(0))) for value in values], dtype=object)
    vectors = _array(axes)
    return np.asarray(vectors * roots @ vectors.T)
