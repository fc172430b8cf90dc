"""Compiled loops over stacks of small matrices, :data:`LANES` of them at a time.

The innermost loop of everything runs over matrices, so that the processor works on several of them
with one instruction; what differs between them is a selection, not a branch. A matrix's result
depends on that matrix alone, to the last bit, whatever the stack holds beside it.

Singular values come from one-sided Jacobi rotations and eigenvalues from two-sided ones (Golub and
Van Loan, *Matrix Computations*, sections 8.5 and 8.6): both are short, and as accurate as LAPACK.
Matrices are divided by a power of two first, so that no square leaves the range of a double. A
matrix with an entry that is not finite gives NaN.
"""

from __future__ import annotations

import math

import numpy as np

from linsys.compiled import compiled

__all__ = ["eigenvalue_range", "linear_solutions", "operator_norms", "stretches"]

LANES = 32
#: Far more than the six or so that convergence takes.
_SWEEPS = 40
_ROUNDING = 2.0**-52
#: An off-diagonal entry below this moves no eigenvalue of a matrix with entries of size one.
_GONE = 1e-40
_EXPONENT = 0x7FF0000000000000
_SMALLEST = 2.0**-1022


@compiled
def _load(matrices, first, into, unit):
    """Columns of LANES matrices into rows, each matrix divided by its ``unit``; how many there are.

    The unit is a power of two, times NaN where a matrix is not finite.
    """
    count = min(LANES, len(matrices) - first)
    d = matrices.shape[1]
    poison = np.zeros(LANES)
    unit[:] = 0.0
    for i in range(d):
        for j in range(d):
            for lane in range(count):
                into[j, i, lane] = matrices[first + lane, i, j]
            for lane in range(count, LANES):
                into[j, i, lane] = 0.0
            for lane in range(LANES):
                unit[lane] = max(unit[lane], abs(into[j, i, lane]))
                poison[lane] += 0.0 * into[j, i, lane]
    bits = unit.view(np.int64)
    for lane in range(LANES):
        bits[lane] &= _EXPONENT
    for lane in range(LANES):
        unit[lane] = max(unit[lane], _SMALLEST)
    for i in range(d):
        for j in range(d):
            for lane in range(LANES):
                into[i, j, lane] /= unit[lane]
    for lane in range(LANES):
        unit[lane] += poison[lane]
    return count


@compiled
def _tangent(gap, twice):
    """tan of the angle, at most 45 degrees, that makes two columns or entries orthogonal."""
    ratio = gap / twice
    tangent = 1.0 / (abs(ratio) + math.sqrt(1.0 + ratio * ratio))
    return tangent if ratio >= 0.0 else -tangent


@compiled
def _orthogonalise(columns, d, work):
    """Turn columns (d, rows, LANES) until their first d rows are orthogonal."""
    for _ in range(_SWEEPS):
        turned = 0
        for p in range(d - 1):
            for q in range(p + 1, d):
                now = _orthogonal_pair(columns, d, p, q, work)
                turned |= now
        if turned == 0:
            break


@compiled
def _orthogonal_pair(columns, d, p, q, work):
    work[:] = 0.0
    for k in range(d):
        for lane in range(LANES):
            x, y = columns[p, k, lane], columns[q, k, lane]
            work[0, lane] += x * x
            work[1, lane] += y * y
            work[2, lane] += x * y
    turned = 0
    for lane in range(LANES):
        x, y, overlap = work[0, lane], work[1, lane], work[2, lane]
        turn = abs(overlap) > max(_ROUNDING * math.sqrt(x * y), _SMALLEST)
        tangent = _tangent(y - x, 2.0 * overlap)
        tangent = tangent if turn else 0.0
        cosine = 1.0 / math.sqrt(1.0 + tangent * tangent)
        work[0, lane] = cosine
        work[1, lane] = cosine * tangent
        turned |= 1 if turn else 0
    if turned:
        for k in range(columns.shape[1]):
            for lane in range(LANES):
                x, y = columns[p, k, lane], columns[q, k, lane]
                columns[p, k, lane] = work[0, lane] * x - work[1, lane] * y
                columns[q, k, lane] = work[1, lane] * x + work[0, lane] * y
    return turned


@compiled
def operator_norms(matrices, out):
    """||M|| of matrices (K, d, d) into ``out`` (K,)."""
    d = matrices.shape[1]
    columns, work, unit = np.empty((d, d, LANES)), np.empty((3, LANES)), np.empty(LANES)
    for first in range(0, len(matrices), LANES):
        count = _load(matrices, first, columns, unit)
        _orthogonalise(columns, d, work)
        work[:] = 0.0
        for j in range(d):
            work[0] = 0.0
            for k in range(d):
                for lane in range(LANES):
                    work[0, lane] += columns[j, k, lane] * columns[j, k, lane]
            for lane in range(LANES):
                work[1, lane] = max(work[1, lane], work[0, lane])
        for lane in range(count):
            out[first + lane] = unit[lane] * math.sqrt(work[1, lane])


@compiled
def stretches(matrices, out):
    """sqrt(M'M) of matrices (K, d, d) into ``out`` (K, d, d).

    Turning the columns of M over I makes them M V over V; the columns of M V have the singular
    values for lengths, and sqrt(M'M) = V diag(lengths) V'.
    """
    d = matrices.shape[1]
    columns, work, unit = np.empty((d, 2 * d, LANES)), np.empty((3, LANES)), np.empty(LANES)
    for first in range(0, len(matrices), LANES):
        count = _load(matrices, first, columns, unit)
        columns[:, d:] = 0.0
        for j in range(d):
            columns[j, d + j] = 1.0
        _orthogonalise(columns, d, work)
        for j in range(d):
            work[0] = 0.0
            for k in range(d):
                for lane in range(LANES):
                    work[0, lane] += columns[j, k, lane] * columns[j, k, lane]
            for k in range(d):
                for lane in range(LANES):
                    columns[j, k, lane] = columns[j, d + k, lane] * math.sqrt(work[0, lane])
        for i in range(d):
            for j in range(i + 1):
                work[0] = 0.0
                for k in range(d):
                    for lane in range(LANES):
                        work[0, lane] += columns[k, i, lane] * columns[k, d + j, lane]
                for lane in range(count):
                    out[first + lane, i, j] = out[first + lane, j, i] = unit[lane] * work[0, lane]


@compiled
def eigenvalue_range(matrices, out):
    """Smallest and largest eigenvalue of sym(M) of matrices (K, d, d) into ``out`` (K, 2)."""
    d = matrices.shape[1]
    a, work, unit = np.empty((d, d, LANES)), np.empty((3, LANES)), np.empty(LANES)
    for first in range(0, len(matrices), LANES):
        count = _load(matrices, first, a, unit)
        for i in range(d):
            for j in range(i):
                for lane in range(LANES):
                    a[i, j, lane] = 0.5 * (a[i, j, lane] + a[j, i, lane])
        for _ in range(_SWEEPS):
            turned = 0
            for p in range(d - 1):
                for q in range(p + 1, d):
                    now = _annihilate(a, d, p, q, work)
                    turned |= now
            if turned == 0:
                break
        work[:] = a[0, 0]
        for i in range(1, d):
            for lane in range(LANES):
                work[0, lane] = min(work[0, lane], a[i, i, lane])
                work[1, lane] = max(work[1, lane], a[i, i, lane])
        for lane in range(count):
            out[first + lane, 0] = unit[lane] * work[0, lane]
            out[first + lane, 1] = unit[lane] * work[1, lane]


@compiled
def _annihilate(a, d, p, q, work):
    """Make entry (q, p) of symmetric matrices zero; only entries (i, j) with i >= j are kept."""
    turned = 0
    for lane in range(LANES):
        x, y, entry = a[p, p, lane], a[q, q, lane], a[q, p, lane]
        # what is left over counts only in its square, relative to the product of both
        turn = abs(entry) > max(0.01 * _ROUNDING * math.sqrt(abs(x * y)), _GONE)
        tangent = _tangent(y - x, 2.0 * entry)
        tangent = tangent if turn else 0.0
        cosine = 1.0 / math.sqrt(1.0 + tangent * tangent)
        work[0, lane] = cosine
        work[1, lane] = cosine * tangent
        a[p, p, lane] = x - tangent * entry
        a[q, q, lane] = y + tangent * entry
        a[q, p, lane] = 0.0 if turn else entry
        turned |= 1 if turn else 0
    if turned:
        for k in range(d):
            if k in (p, q):
                continue
            i, j, r, s = max(k, p), min(k, p), max(k, q), min(k, q)
            for lane in range(LANES):
                x, y = a[i, j, lane], a[r, s, lane]
                a[i, j, lane] = work[0, lane] * x - work[1, lane] * y
                a[r, s, lane] = work[1, lane] * x + work[0, lane] * y
    return turned


@compiled
def linear_solutions(matrices, sides, out):
    """M^{-1} R of matrices (K, d, d) and R (K or 1, d, w) into ``out`` (K, d, w).

    Gaussian elimination with partial pivoting; NaN where a pivot is zero.
    """
    d, width = sides.shape[1:]
    a, larger = np.zeros((d, d + width, LANES)), np.empty(LANES, np.bool_)
    for first in range(0, len(matrices), LANES):
        count = min(LANES, len(matrices) - first)
        for i in range(d):
            for j in range(d):
                for lane in range(count):
                    a[i, j, lane] = matrices[first + lane, i, j]
            for j in range(width):
                for lane in range(count):
                    side = 0 if len(sides) == 1 else first + lane
                    a[i, d + j, lane] = sides[side, i, j]
        for p in range(d):
            for i in range(p + 1, d):
                _exchange(a, p, i, larger)
            for lane in range(LANES):
                pivot = a[p, p, lane]
                a[p, p, lane] = math.nan if pivot == 0.0 else pivot
            for i in range(p + 1, d):
                for lane in range(LANES):
                    a[i, p, lane] /= a[p, p, lane]
                for j in range(p + 1, d + width):
                    for lane in range(LANES):
                        a[i, j, lane] -= a[i, p, lane] * a[p, j, lane]
        for p in range(d - 1, -1, -1):
            for j in range(d, d + width):
                for k in range(p + 1, d):
                    for lane in range(LANES):
                        a[p, j, lane] -= a[p, k, lane] * a[k, j, lane]
                for lane in range(LANES):
                    a[p, j, lane] /= a[p, p, lane]
        for i in range(d):
            for j in range(width):
                for lane in range(count):
                    out[first + lane, i, j] = a[i, d + j, lane]


@compiled
def _exchange(a, p, i, larger):
    """Swap rows p and i where the latter has the larger entry in column p."""
    for lane in range(LANES):
        larger[lane] = abs(a[i, p, lane]) > abs(a[p, p, lane])
    for j in range(p, a.shape[1]):
        for lane in range(LANES):
            x, y = a[p, j, lane], a[i, j, lane]
            a[p, j, lane] = y if larger[lane] else x
            a[i, j, lane] = x if larger[lane] else y
