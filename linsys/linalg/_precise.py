"""Linear algebra on stacks (K, d, d) of mpmath's numbers, at the precision of the moment.

Closed forms up to d = 3, in NumPy's arithmetic on whole stacks; beyond, mpmath's algorithms, one
matrix after the other. All are evaluated with more than twice as many digits and rounded at the
end: where eigenvalues meet, or a determinant almost vanishes, a closed form may lose half of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Numbers",
    "eigenvalue_range",
    "inverses",
    "is_precise",
    "no_floats",
    "operator_norms",
    "precise",
    "precision",
    "solutions",
    "stretches",
]

#: float64, or objects that are all of one ``mpf`` type.
Numbers = NDArray[Any]

#: A context of our own: its precision and its class of numbers, ``_mp.mpf``, are used by no one
#: else, so that the methods below are added to none of mpmath's other numbers.
_mp = mpmath.MPContext()
#: Why these numbers may not become floats at the moment; None where they may.
_mp.refusal = None


def _method(name: str) -> Callable[[Any], Any]:
    function = getattr(_mp, name.replace("arc", "a"))
    return lambda number: function(number)


for _name in ("sqrt", "exp", "log", "sin", "cos", "tan", "arccos", "arctan", "log1p", "expm1"):
    # NumPy's ufuncs call the method of this name on every object.
    setattr(_mp.mpf, _name, _method(_name))

_nearest_float = _mp.mpf.__float__


def _float(number: Any) -> Any:
    if _mp.refusal is not None:
        raise TypeError(_mp.refusal)
    return _nearest_float(number)


# float(), complex(), round(), math and NumPy's conversions all call it.
_mp.mpf.__float__ = _float


@contextmanager
def no_floats(reason: str) -> Iterator[None]:
    """Within the block, in all threads, a high-precision number refuses to become a float.

    >>> with no_floats("not here"):
    ...     float(precise([0.1])[0])
    Traceback (most recent call last):
    TypeError: not here

    Args:
        reason: the message of the TypeError.
    """
    before = _mp.refusal
    _mp.refusal = reason
    try:
        yield
    finally:
        _mp.refusal = before


@contextmanager
def precision(digits: int) -> Iterator[None]:
    """Within the block, high-precision numbers carry so many decimal digits."""
    with _mp.workdps(digits):
        yield


def precise(values: ArrayLike) -> Numbers:
    """The values as high-precision numbers: a float counts as its shortest decimal, 0.1 as 1/10.

    Fractions and whole numbers count as what they are.

    >>> with precision(20):
    ...     print(precise([0.1])[0] * 3)
    0.3
    """
    raw = np.asarray(values)
    flat = [_number(value) for value in raw.ravel().tolist()]
    return np.array(flat, dtype=object).reshape(raw.shape)


def _number(value: Any) -> Any:
    if isinstance(value, _mp.mpf):
        return value
    if isinstance(value, Fraction):
        return _mp.mpf(value.numerator) / value.denominator
    return _mp.mpf(repr(value) if isinstance(value, float) else value)


def is_precise(values: Any) -> bool:
    """Whether these are high-precision numbers."""
    return isinstance(values, np.ndarray) and values.dtype == object


def logistic(x: Numbers) -> Numbers:
    """1 / (1 + e^-x) of each number."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def _rounded(function: Callable[..., Numbers]) -> Callable[..., Numbers]:
    """Evaluate with more than twice the digits, and round the result."""

    @functools.wraps(function)
    def wider(*stacks: Numbers) -> Numbers:
        with _mp.workdps(2 * _mp.dps + 10):
            result = function(*stacks)
        return np.asarray(+result)

    return wider


@_rounded
def operator_norms(matrices: Numbers) -> Numbers:
    """||M|| of each matrix, (K,)."""
    largest = _extreme_eigenvalues(np.swapaxes(matrices, 1, 2) @ matrices)[:, 1]
    return np.asarray(np.sqrt(np.maximum(largest, _mp.zero)))


@_rounded
def eigenvalue_range(matrices: Numbers) -> Numbers:
    """Smallest and largest eigenvalue of sym(M), (K, 2)."""
    return _extreme_eigenvalues((matrices + np.swapaxes(matrices, 1, 2)) / 2)


def _extreme_eigenvalues(symmetric: Numbers) -> Numbers:
    """Smallest and largest eigenvalue of symmetric matrices, (K, 2)."""
    d = symmetric.shape[-1]
    if d > 3:
        return _one_by_one(_mpmath_extreme_eigenvalues, symmetric, (2,))
    centre = np.trace(symmetric, axis1=1, axis2=2) / d
    rest = symmetric - centre[:, None, None] * np.eye(d, dtype=int)
    # of the eigenvalues, which sum to zero
    square = (rest * rest).sum(axis=(1, 2))
    if d < 3:
        radius = np.sqrt(square / 2)
        return np.stack([centre - radius, centre + radius], axis=1)
    # they are 2 p cos(phi + 2 pi k / 3) with cos(3 phi) = det / (2 p^3)
    p = np.sqrt(square / 6)
    cosine = _determinants(rest) / np.where(p == 0, _mp.one, 2 * p**3)
    phi = np.arccos(np.minimum(np.maximum(cosine, -_mp.one), _mp.one)) / 3
    ends = np.stack([phi + 2 * _mp.pi / 3, phi], axis=1)
    return np.asarray(centre[:, None] + 2 * p[:, None] * np.cos(ends))


def _determinants(matrices: Numbers) -> Numbers:
    rows = np.moveaxis(matrices, 1, 0)
    return np.asarray((rows[0] * np.cross(rows[1], rows[2])).sum(axis=-1))


def _mpmath_extreme_eigenvalues(symmetric: Numbers) -> Numbers:
    values = list(_mp.eigsy(_mp.matrix(symmetric.tolist()), eigvals_only=True))
    return np.array([min(values), max(values)], dtype=object)


@_rounded
def inverses(matrices: Numbers) -> Numbers:
    """M^{-1} of each matrix, NaN where there is none, (K, d, d)."""
    return _inverses(matrices)


@_rounded
def solutions(matrices: Numbers, vectors: Numbers) -> Numbers:
    """M^{-1} v for matrices (..., d, d) and vectors (..., d), which broadcast."""
    inverted = _inverses(matrices.reshape(-1, *matrices.shape[-2:])).reshape(matrices.shape)
    return np.asarray((inverted @ vectors[..., None])[..., 0])


def _inverses(matrices: Numbers) -> Numbers:
    d = matrices.shape[-1]
    if d > 3:
        return _one_by_one(_mpmath_inverse, matrices, (d, d))
    if d == 1:
        adjugate, determinant = np.full_like(matrices, _mp.one), matrices[:, 0, 0]
    elif d == 2:
        (a, b), (c, e) = np.moveaxis(matrices, 0, 2)
        adjugate = np.moveaxis(np.array([[e, -b], [-c, a]]), 2, 0)
        determinant = a * e - b * c
    else:
        rows = np.moveaxis(matrices, 1, 0)
        columns = [np.cross(rows[k - 2], rows[k - 1]) for k in range(3)]
        adjugate, determinant = np.stack(columns, axis=2), (rows[0] * columns[0]).sum(axis=-1)
    divisor = np.where(determinant == 0, _mp.nan, determinant)
    return np.asarray(adjugate / divisor[:, None, None])


def _mpmath_inverse(matrix: Numbers) -> Numbers:
    try:
        inverse = _mp.inverse(_mp.matrix(matrix.tolist()))
    except (ZeroDivisionError, TypeError):  # a pivot of 0, or none found at all
        return np.full_like(matrix, _mp.nan)
    return np.array(inverse.tolist(), dtype=object)


@_rounded
@_rounded
def stretches(matrices: Numbers) -> Numbers:
    """sqrt(M'M) of each matrix, (K, d, d).

    The square root of C = M'M by interpolation at its eigenvalues e_1 >= e_2 >= e_3 in Newton's
    form, with the divided differences in terms of s_k = sqrt(e_k):

        s_1 + (C - e_1) / (s_1 + s_2) - (C - e_1)(C - e_2) / ((s_1 + s_2)(s_1 + s_3)(s_2 + s_3)).

    The last term is at most s_2, and left out where that is rounding. Roots of rounded eigenvalues
    have half their digits, hence the digits are doubled twice.
    """
    d = matrices.shape[-1]
    gram = np.swapaxes(matrices, 1, 2) @ matrices
    if d > 3:
        return _one_by_one(_mpmath_root, gram, (d, d))
    low, high = _extreme_eigenvalues(gram).T
    middle = np.trace(gram, axis1=1, axis2=2) - high - low if d == 3 else low
    squares = np.maximum(np.stack([high, middle, low]), _mp.zero)[..., None, None]
    one, two, three = np.sqrt(squares)
    identity = np.eye(d, dtype=int)
    root, rest = one * identity, gram - squares[0] * identity
    if d > 1:
        root = root + rest / np.where(one == 0, _mp.one, one + two)
    if d > 2:
        small = two <= one * _mp.sqrt(_mp.eps)
        product = np.where(small, _mp.inf, (one + two) * (one + three) * (two + three))
        root = root - rest @ (gram - squares[1] * identity) / product
    return np.asarray(root)


def _mpmath_root(gram: Numbers) -> Numbers:
    values, axes = _mp.eigsy(_mp.matrix(gram.tolist()))
    roots = np.array([_mp.sqrt(max(value, _mp.zero)) for value in values], dtype=object)
    vectors = np.array(axes.tolist(), dtype=object)
    return np.asarray((vectors * roots) @ vectors.T)


def _one_by_one(
    function: Callable[[Numbers], Numbers], matrices: Numbers, shape: tuple[int, ...]
) -> Numbers:
    result = np.empty((len(matrices), *shape), dtype=object)
    for index, matrix in enumerate(matrices):
        result[index] = function(matrix)
    return result
