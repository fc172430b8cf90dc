"""The state in which :mod:`linsys.linalg` computes with :mod:`linsys.linalg.recorded`.

>>> import numpy as np
>>> from linsys.linalg.recorded import given
>>> with recording(Tape()) as tape:
...     x, y = given(Ball(3)), given(Ball(4))
...     tape.leaf("0", np.sqrt(x * x + y * y).place, (x + 1).place)
>>> tape.text().split("\\n")[-5:]
['+ 2 1', 'length 1', 'const 1', '+ 7 1', '= 0 5 7']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from linsys.linalg import ball_matrices
from linsys.linalg._flint import flint
from linsys.linalg._precise import Numbers
from linsys.linalg.balls import Ball, State as Balls, as_arb, larger, smaller
from linsys.linalg.numpys_extremes import OfObjects, arithmetic
from linsys.linalg.object_matrices import logistic, one_by_one
from linsys.linalg.recorded import Recorded, State, made, of_balls, operand_of
from linsys.linalg.tapes import Tape, Unrecorded

__all__ = ["recording"]


def _extreme(name: str, of: Callable[[Any, Any], Ball]) -> Callable[[Any, Any], Recorded]:
    """The larger or smaller one of two numbers."""

    def chosen(a: Any, b: Any) -> Recorded:
        one, other = Recorded(operand_of(a)), Recorded(operand_of(b))
        if one.place == other.place:
            return one
        if one.known is not None and other.known is not None:
            return one if (one.known > other.known) == (name == "max") else other
        if one.ball is None or other.ball is None:
            for number, end in ((one, other), (other, one)):
                line = State.tape.lines[end.place]
                infinite = line in (("const", "inf"), ("const", "-inf"))
                if infinite and State.tape.finite[number.place]:
                    return end if (line[1] == "inf") == (name == "max") else number
        first, second = sorted((one.place, other.place))
        return made(State.tape.place(name, first, second), of_balls(of, one, other))

    return chosen


_MAXIMUM, _MINIMUM = (
    OfObjects(np.maximum, _extreme("max", larger)),
    OfObjects(np.minimum, _extreme("min", smaller)),
)


def _array(entries: Sequence[Any], shape: tuple[int, ...]) -> Numbers:
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array.reshape(shape)


def _rows(matrix: Numbers) -> list[list[Recorded]]:
    return [[operand_of(entry) for entry in row] for row in matrix]


def inverses(matrices: Numbers) -> Numbers:
    """M^{-1} of each matrix, (K, d, d)."""
    d = matrices.shape[-1]
    identity = np.eye(d, dtype=int).astype(object)
    return np.stack([_solved(matrix, identity) for matrix in matrices])


def _solved(matrix: Numbers, right: Numbers) -> Numbers:
    """The X with L X = R, by elimination; a pivot is that of the largest ball."""
    L, R = _rows(matrix), _rows(right)
    d = len(L)
    for k in range(d):
        at = max(range(k, d), key=lambda i: _size(L[i][k]))
        if _size(L[at][k]) == 0:
            raise Unrecorded("a matrix that is not known to have an inverse")
        L[k], L[at], R[k], R[at] = L[at], L[k], R[at], R[k]
        for i in range(k + 1, d):
            share = L[i][k] / L[k][k]
            for j in range(k + 1, d):
                L[i][j] = L[i][j] - share * L[k][j]
            R[i] = [x - share * y for x, y in zip(R[i], R[k], strict=True)]
    for k in range(d - 1, -1, -1):
        for i in range(k + 1, d):
            R[k] = [x - L[k][i] * y for x, y in zip(R[k], R[i], strict=True)]
        R[k] = [x / L[k][k] for x in R[k]]
    return _array([x for row in R for x in row], right.shape)


solutions = one_by_one(_solved)


def _size(pivot: Recorded) -> float:
    """How far a pivot is from zero, at least; without balls whether it is not the constant 0."""
    if pivot.ball is None or pivot.ball.value is None:
        return float(pivot.known is None or pivot.known != 0)
    return float(as_arb(pivot.ball.value).abs_lower())


def eigenvalue_range(matrices: Numbers) -> Numbers:
    """Smallest and largest eigenvalue of sym(M), (K, 2)."""
    symmetric = (matrices + np.swapaxes(matrices, 1, 2)) / 2
    ends = [end for matrix in symmetric for end in _extreme_eigenvalues(matrix)]
    return _array(ends, (len(matrices), 2))


def _extreme_eigenvalues(matrix: Numbers) -> list[Any]:
    rows, d = _rows(matrix), len(matrix)
    if _is_diagonal(rows):
        ends = [rows[i][i] for i in range(d)]
        return [_MINIMUM.reduce(_array(ends, (d,))), _MAXIMUM.reduce(_array(ends, (d,)))]
    if d == 2:
        centre = (rows[0][0] + rows[1][1]) / 2
        half, off = (rows[0][0] - rows[1][1]) / 2, rows[0][1]
        radius = (half * half + off * off).sqrt()
        return [centre - radius, centre + radius]
    places = [rows[i][j].place for i in range(d) for j in range(i + 1)]
    balls = [[entry.ball for entry in row] for row in rows]
    both: Sequence[Any] = (None, None)
    if not any(ball is None for row in balls for ball in row):
        both = ball_matrices.eigenvalue_range(np.array(balls, dtype=object)[None])[0]
    names = "least", "most"
    return [made(State.tape.place(n, *places), x) for n, x in zip(names, both, strict=True)]


def _is_diagonal(rows: Sequence[Sequence[Recorded]]) -> bool:
    return all(rows[i][j].known == 0 for i in range(len(rows)) for j in range(i))


def operator_norms(matrices: Numbers) -> Numbers:
    """||M|| of each matrix, (K,)."""
    if matrices.shape[-1] == 1:
        return np.asarray(np.abs(matrices[:, 0, 0]))
    grams = np.swapaxes(matrices, 1, 2) @ matrices
    squares: list[Recorded] = [_extreme_eigenvalues(gram)[1] for gram in grams]
    return _array([x._function("length", ball_matrices.root) for x in squares], (len(grams),))


def stretches(matrices: Numbers) -> Numbers:
    """sqrt(M'M) of each matrix, (K, d, d)."""
    d = matrices.shape[-1]
    if d == 1:
        return np.asarray(np.abs(matrices))
    if d > 2:
        raise Unrecorded("the root of a matrix of three rows or more")
    return np.stack([_root_of_two(one) for one in np.swapaxes(matrices, 1, 2) @ matrices])


def _root_of_two(gram: Numbers) -> Numbers:
    """sqrt(C) = (C + r I) / sqrt(tr C + 2 r) with r = sqrt(det C), of positive semidefinite C."""
    (a, b), (_, c) = _rows(gram)
    r = (a * c - b * b).sqrt()
    scale = (a + c + 2 * r).sqrt()
    if scale.ball is not None and scale == 0:
        return gram
    return np.asarray((gram + r * np.eye(2, dtype=int)) / scale)


@contextmanager
def recording(tape: Tape, bits: int = 64) -> Iterator[Tape]:
    """Within the block, ``precise`` makes constants, and numbers are written down on the tape.

    It is a state of the process, see :func:`linsys.linalg.numpys_extremes.arithmetic`.

    Args:
        tape: which gets the inputs first.
        bits: of the balls.
    """
    functions: dict[str, Callable[..., Any]] = {
        "_number": Recorded,
        "logistic": logistic,
        "operator_norms": operator_norms,
        "eigenvalue_range": eigenvalue_range,
        "inverses": inverses,
        "solutions": solutions,
        "stretches": stretches,
    }
    before = State.tape, flint.ctx.prec, Balls.rounded
    try:
        State.tape, flint.ctx.prec, Balls.rounded = tape, bits, set()
        with arithmetic(functions, _MAXIMUM, _MINIMUM):
            yield tape
    finally:
        State.tape, flint.ctx.prec, Balls.rounded = before
