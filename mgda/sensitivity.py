"""How the weights of a simplex program move with its matrix: exact derivative, Lipschitz constant.

On a support S that does not change, lambda_S minimises lambda' Q lambda under sum lambda = 1. With
N an orthonormal basis of the vectors on S that sum to zero,

    d lambda = -H dQ lambda,    H = N (N' Q N)^{-1} N',

zero outside S. A symmetric dQ of operator norm one can turn lambda into any direction, so that the
local Lipschitz constant with respect to ||dQ||_op is ||H|| ||lambda||.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from linsys.validate import Array, InputError, real_array
from mgda._programs import TOLERANCE
from mgda.federated import check_simplex

__all__ = ["derivative", "lipschitz", "sensitivity_matrix"]


def sensitivity_matrix(Q: ArrayLike, weights: ArrayLike) -> Array:
    """H, shape (M, M), for one program and its solution.

    Raises:
        InputError: a solution that is not isolated: N' Q N is singular on its support.

    >>> sensitivity_matrix(np.eye(2), [0.5, 0.5])
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """
    matrix = real_array("Q", Q, ("M", "M"))
    given = check_simplex("weights", real_array("weights", weights, (len(matrix),)))
    _symmetric("Q", matrix)
    support = np.flatnonzero(given > 0)
    k = len(support)
    result = np.zeros_like(matrix)
    if k < 2:
        return result
    # the first left singular vector of e is e/|e|; the others span what sums to zero
    basis = np.linalg.svd(np.ones((k, 1)))[0][:, 1:]
    curvature = basis.T @ matrix[np.ix_(support, support)] @ basis
    values = np.linalg.eigvalsh(curvature)
    if values[0] <= k * np.finfo(np.float64).eps * np.abs(matrix).max():
        raise InputError(
            "`weights` must be the only solution on their support; found a direction in which "
            f"the objective has curvature {values[0]:.3g}"
        )
    result[np.ix_(support, support)] = basis @ np.linalg.solve(curvature, basis.T)
    return result


def derivative(Q: ArrayLike, weights: ArrayLike, dQ: ArrayLike) -> Array:
    """d lambda for a symmetric change dQ of the matrix, shape (M,)."""
    H = sensitivity_matrix(Q, weights)
    change = real_array("dQ", dQ, H.shape)
    _symmetric("dQ", change)
    return np.asarray(-H @ change @ np.asarray(weights, dtype=float))


def lipschitz(Q: ArrayLike, weights: ArrayLike) -> float:
    """The local Lipschitz constant of lambda with respect to ||dQ||_op: ||H|| ||lambda||.

    At most 2 / beta for Q = G + (beta / 2) I.

    >>> round(lipschitz(np.eye(2), [0.5, 0.5]), 12)  # ||H|| = 1, ||lambda|| = sqrt(1/2)
    0.707106781187
    """
    H = sensitivity_matrix(Q, weights)
    return float(np.linalg.norm(H, 2) * np.linalg.norm(np.asarray(weights, dtype=float)))


def _symmetric(name: str, matrix: Array) -> None:
    gap = np.abs(matrix - matrix.T).max()
    if gap > TOLERANCE * np.abs(matrix).max():
        raise InputError(f"`{name}` must be symmetric; found two entries that differ by {gap:.3g}")
