"""The state in which :mod:`linsys.linalg` computes with :mod:`linsys.linalg.boxes`.

>>> from linsys.linalg import norm
>>> from linsys.linalg.boxes import coordinates
>>> with box_arithmetic():
...     x = np.array([coordinates(np.full((2, 1), 3.0), np.full((2, 1), 4.0))])
...     length = norm(x)[0]
>>> print(length.lo.round(3), length.hi.round(3))
[4.243] [5.657]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from linsys.linalg._precise import Numbers
from linsys.linalg.boxes import Form, constant, larger, smaller
from linsys.linalg.boxes_paths import State
from linsys.linalg.numpys_extremes import OfObjects, arithmetic
from linsys.linalg.object_matrices import logistic, with_inverses

__all__ = ["NotOverBoxes", "box_arithmetic"]

_MAXIMUM, _MINIMUM = OfObjects(np.maximum, larger), OfObjects(np.minimum, smaller)


class NotOverBoxes(ArithmeticError):
    """A formula asks for what this arithmetic does not have."""


def number(value: Any) -> Any:
    """A number in a formula as a form."""
    return value if isinstance(value, Form) else constant(value)


def operator_norms(matrices: Numbers) -> Numbers:
    """||M|| of each matrix, (K,).

    Of two rows, (|(a + d, b - c)| + |(a - d, b + c)|) / 2 in which nothing cancels.
    """
    d = _small(matrices, "an operator norm")
    if d == 1:
        return np.asarray(np.abs(matrices[:, 0, 0]))
    (a, b), (c, e) = np.moveaxis(matrices, 0, 2)
    first, second = _length(a + e, b - c), _length(a - e, b + c)
    return np.asarray((first + second) / 2)


def eigenvalue_range(matrices: Numbers) -> Numbers:
    """Smallest and largest eigenvalue of sym(M), (K, 2)."""
    if _small(matrices, "an eigenvalue") == 1:
        return np.concatenate([matrices[:, 0]] * 2, axis=1)
    (a, b), (c, e) = np.moveaxis(matrices, 0, 2)
    centre, radius = (a + e) / 2, _length((a - e) / 2, (b + c) / 2)
    return np.stack([centre - radius, centre + radius], axis=1)


def stretches(matrices: Numbers) -> Numbers:
    """sqrt(M'M) of each matrix, (K, d, d)."""
    if matrices.shape[-1] > 1:
        raise NotOverBoxes("a root of a matrix")
    return np.asarray(np.abs(matrices))


def inverses(matrices: Numbers) -> Numbers:
    """M^{-1} of each matrix, (K, d, d), by Cramer's rule."""
    d = _small(matrices, "an inverse", 3)
    if d == 1:
        return np.asarray(1 / matrices)
    if d == 2:
        (a, b), (c, e) = np.moveaxis(matrices, 0, 2)
        adjugate = np.moveaxis(np.array([[e, -b], [-c, a]]), 2, 0)
        determinant = a * e - b * c
    else:
        rows = np.moveaxis(matrices, 1, 0)
        columns = [_cross(rows[k - 2], rows[k - 1]) for k in range(3)]
        adjugate, determinant = np.stack(columns, axis=2), (rows[0] * columns[0]).sum(axis=-1)
    return np.asarray(adjugate / determinant[:, None, None])


solutions = with_inverses(inverses)


def _small(matrices: Numbers, what: str, most: int = 2) -> int:
    d = int(matrices.shape[-1])
    if d > most:
        raise NotOverBoxes(f"{what} of a matrix of {d} rows")
    return d


def _length(x: Any, y: Any) -> Any:
    return np.sqrt(x * x + y * y)


def _cross(x: Any, y: Any) -> Any:
    after, before = [1, 2, 0], [2, 0, 1]
    return x[..., after] * y[..., before] - x[..., before] * y[..., after]


@contextmanager
def box_arithmetic() -> Iterator[None]:
    """Within the block :mod:`linsys.linalg` works on arrays of forms.

    It is a state of the process, see :func:`linsys.linalg.numpys_extremes.arithmetic`.
    """
    functions: dict[str, Callable[..., Any]] = {
        "_number": number,
        "logistic": logistic,
        "operator_norms": operator_norms,
        "eigenvalue_range": eigenvalue_range,
        "inverses": inverses,
        "solutions": solutions,
        "stretches": stretches,
    }
    before = State.alike, State.coordinates
    State.alike, State.coordinates = set(), 0
    try:
        with arithmetic(functions, _MAXIMUM, _MINIMUM):
            yield
    finally:
        State.alike, State.coordinates = before
