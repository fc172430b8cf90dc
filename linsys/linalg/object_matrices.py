"""Functions of arrays of objects that need no more than the arithmetic of these objects."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from linsys.linalg._precise import Numbers

__all__ = ["logistic", "one_by_one", "with_inverses"]


def logistic(x: Numbers) -> Numbers:
    """1 / (1 + e^-x) of each number, which uses x once."""
    return np.asarray(1 / (1 + np.exp(-x)))


def with_inverses(inverses: Callable[[Numbers], Numbers]) -> Callable[[Numbers, Numbers], Numbers]:
    """M^{-1} v for matrices (..., d, d) and vectors (..., d), which broadcast, by inverses.

    Args:
        inverses: of matrices (K, d, d).
    """

    def solutions(matrices: Numbers, vectors: Numbers) -> Numbers:
        inverted = inverses(matrices.reshape(-1, *matrices.shape[-2:])).reshape(matrices.shape)
        return np.asarray((inverted @ vectors[..., None])[..., 0])

    return solutions


def one_by_one(
    solved: Callable[[Numbers, Numbers], Numbers],
) -> Callable[[Numbers, Numbers], Numbers]:
    """M^{-1} v for matrices (..., d, d) and vectors (..., d), which broadcast.

    Args:
        solved: the X with M X = R of one matrix (d, d) and R of (d, 1).
    """

    def solutions(matrices: Numbers, vectors: Numbers) -> Numbers:
        lead = np.broadcast_shapes(matrices.shape[:-2], vectors.shape[:-1])
        d = vectors.shape[-1]
        left = np.broadcast_to(matrices, (*lead, d, d)).reshape(-1, d, d)
        right = np.broadcast_to(vectors, (*lead, d)).reshape(-1, d, 1)
        found = np.empty((len(left), d, 1), dtype=object)
        for k, (matrix, vector) in enumerate(zip(left, right, strict=True)):
            found[k] = solved(matrix, vector)
        return found.reshape((*lead, d))

    return solutions
