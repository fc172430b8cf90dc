"""Half-vectorisation: a symmetric D x D matrix as its D(D+1)/2 entries on and above the diagonal.

Entries are stored as they are (off-diagonal ones without a factor sqrt 2), so packing and unpacking
are exact. The last index, that of the constant one, comes first: entries are ordered by the larger
index in the order D-1, 0, 1, .., D-2, then by the smaller one. Entry 0 is then E[1 1] = 1, and
where modules feed only later ones, so do their second moments.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from linsys.validate import Array

Indices = NDArray[np.intp]


@lru_cache(maxsize=32)
def pairs(size: int) -> tuple[Indices, Indices]:
    """Row and column of each half-vectorised entry."""
    order = np.roll(np.arange(size), 1)
    later, earlier = np.tril_indices(size)
    rows, columns = order[earlier], order[later]
    rows.setflags(write=False)
    columns.setflags(write=False)
    return rows, columns


def pack(matrix: Array) -> Array:
    """Half-vectorise symmetric matrices (..., D, D) to (..., D(D+1)/2)."""
    rows, columns = pairs(matrix.shape[-1])
    return np.ascontiguousarray(matrix[..., rows, columns])


def unpack(vector: Array, size: int) -> Array:
    """Invert :func:`pack`: (..., D(D+1)/2) to symmetric (..., D, D)."""
    rows, columns = pairs(size)
    matrix = np.empty((*vector.shape[:-1], size, size))
    matrix[..., rows, columns] = vector
    matrix[..., columns, rows] = vector
    return matrix


def pack_operator(coefficients: Array) -> Array:
    """Matrix of S -> sum_cd K[a, c, b, d] S[c, d] on half-vectorised symmetric S.

    ``coefficients`` has shape (D, D, D, D) and must map symmetric matrices to symmetric ones, as
    K[a, c, b, d] = E[N_ac N_bd], that is S -> E[N S N'], does.
    """
    a, b = (index[:, None] for index in pairs(coefficients.shape[0]))
    c, d = (index[None, :] for index in pairs(coefficients.shape[0]))
    return coefficients[a, c, b, d] + np.where(c != d, coefficients[a, d, b, c], 0.0)
