"""Quadratic programs on the simplex: MGDA, its regularised form and preferences (FIRM, Section 3).

All of them minimise lambda' (G + R) lambda over the weights lambda >= 0 that sum to one, where G is
the Gram matrix of M gradients:

=========  ===============  ==================================
method     R                source
=========  ===============  ==================================
MGDA       0                Désidéri (2012)
FIRM       (beta / 2) I     FIRM, equations (1) and (2)
preference Diag(1 / p)      FIRM, equation (3)
=========  ===============  ==================================

The solver is an exact active-set method (:mod:`mgda._active_set`) with a closed form for M = 2,
compiled for whole batches. Every answer comes with a certificate that is computed apart from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, size
from numpy.typing import ArrayLike, NDArray

from linsys._validate import Array, InputError, number, real_array
from mgda._active_set import OPTIMAL, solve_batch

__all__ = ["SimplexSolution", "gram", "kkt_residual", "min_norm", "regulariser", "simplex_qp"]

#: Relative rounding of a Gram matrix that is still taken for positive semidefinite and symmetric.
_TOLERANCE = 1e-10
#: Gradients are converted to float64 in pieces of so many numbers.
_PIECE = 1 << 22


@dataclass(frozen=True, eq=False)
class SimplexSolution:
    """Solutions of a batch of programs; a single one has no batch axes.

    Attributes:
        weights: lambda, shape (..., M).
        objective: lambda' (G + R) lambda, shape (...).
        residual: violation of the optimality conditions relative to the largest entry of G + R,
            see :func:`kkt_residual`, shape (...).
        optimal: whether the solver's own test was passed, shape (...). The residual says how good
            an answer is in either case.
    """

    weights: Array
    objective: Array
    residual: Array
    optimal: NDArray[np.bool_]


def simplex_qp(
    G: ArrayLike,
    *,
    beta: float = 0.0,
    preference: ArrayLike | None = None,
    normalise: bool = False,
) -> SimplexSolution:
    """Minimise lambda' (G + R) lambda over the simplex.

    Args:
        G: Gram matrices, shape (..., M, M), symmetric positive semidefinite.
        beta: R = (beta / 2) I, at least 0.
        preference: p > 0 with R = Diag(1 / p) instead, shape (M,).
        normalise: divide G by (1/M) tr G first, equation (9) of FIRM, so that ``beta`` means the
            same at every scale of the gradients. A zero G stays as it is.

    Raises:
        InputError: a matrix that is not symmetric or has a negative eigenvalue, NaN or infinity,
            a negative beta, a p that is not positive, or both beta and p.

    >>> solution = simplex_qp([[1.0, 0.0], [0.0, 3.0]])
    >>> solution.weights.tolist(), solution.objective.tolist()
    ([0.75, 0.25], 0.75)
    """
    matrices = _checked(G)
    if normalise:
        matrices = trace_normalised(matrices)
    return _solve(matrices + regulariser(matrices.shape[-1], beta, preference))


def min_norm(
    gradients: Any,
    *,
    beta: float = 0.0,
    preference: ArrayLike | None = None,
    normalise: bool = False,
) -> SimplexSolution:
    """The same for gradients, the columns of arrays (..., d, M) of any namespace.

    float32 gradients are accumulated in float64. Scales from 1e-150 to 1e150 are safe: the
    gradients are divided by their largest entry before they are multiplied.

    >>> min_norm(np.array([[1.0, -1.0], [0.0, 1e-200]])).weights.tolist()
    [0.5, 0.5]
    """
    array = _gradients(gradients)
    scale = _largest(array)
    matrices = gram(array, scale)
    if normalise:
        matrices, scale = trace_normalised(matrices), 1.0
    extra = regulariser(matrices.shape[-1], beta, preference)
    # Q = scale^2 G + R, divided by scale^2 where that is large: neither may overflow.
    if scale > 1.0:
        found = _solve(matrices + extra / scale / scale)
        return replace(found, objective=np.asarray(found.objective * scale * scale))
    if not extra.any():
        found = _solve(matrices)
        return replace(found, objective=np.asarray(found.objective * scale * scale))
    return _solve(matrices * scale * scale + extra)


def gram(gradients: Any, scale: float = 1.0) -> Array:
    """G = A'A / scale^2 in float64 for gradients A, shape (..., d, M), of any array namespace.

    Raises:
        InputError: no gradients, or NaN or infinity among them.
    """
    array = _gradients(gradients)
    xp = array_namespace(array)
    *lead, d, M = array.shape
    rows = max(1, _PIECE * d // max(1, size(array) or 1))
    total: Any = 0.0
    for start in range(0, d, rows):
        piece = xp.astype(array[..., start : start + rows, :], xp.float64) / scale
        total = total + xp.matmul(xp.matrix_transpose(piece), piece)
    found = np.asarray(total if is_numpy_array(total) else total.detach().cpu(), dtype=np.float64)
    if not np.isfinite(found).all():
        raise InputError("`gradients` must be finite, also their squares; found NaN or infinity")
    return found.reshape(*lead, M, M)


def _gradients(value: Any) -> Any:
    """An array (..., d, M) of its own namespace; lists become NumPy's."""
    if not hasattr(value, "shape"):
        try:
            value = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"`gradients` must be an array (..., d, M); found {value!r:.80}"
            ) from None
    if len(value.shape) < 2 or 0 in value.shape:
        raise InputError(
            f"`gradients` must have shape (..., d, M), none of them 0; found {tuple(value.shape)}"
        )
    return value


def _largest(array: Any) -> float:
    """The largest entry in size, 1 where all are 0."""
    xp = array_namespace(array)
    largest = float(xp.max(xp.abs(array)))
    if not np.isfinite(largest):
        raise InputError(f"`gradients` must be finite; found {largest} among them")
    return largest if largest > 0 else 1.0


def trace_normalised(G: Array) -> Array:
    """G / ((1/M) tr G), equation (9) of FIRM; a zero matrix stays zero."""
    mean = np.trace(G, axis1=-2, axis2=-1)[..., None, None] / G.shape[-1]
    return np.asarray(np.divide(G, mean, out=np.zeros_like(G), where=mean > 0))


def regulariser(M: int, beta: float = 0.0, preference: ArrayLike | None = None) -> Array:
    """R: (beta / 2) I, or Diag(1 / p) for preferences p, shape (M, M)."""
    number("beta", beta, low=0.0)
    if preference is None:
        return np.asarray(0.5 * beta * np.eye(M))
    if beta != 0.0:
        raise InputError(f"`beta` must be 0 where `preference` is given; found {beta}")
    p = real_array("preference", preference, (M,))
    if (p <= 0).any():
        raise InputError(f"`preference` must be positive; found {p.min():g}")
    return np.diag(1.0 / p)


def kkt_residual(Q: ArrayLike, weights: ArrayLike) -> Array:
    """Violation of optimality of ``weights`` (..., M) for Q (..., M, M), relative to max |Q|.

    With s = Q lambda and v = lambda' s, the optimum of the convex program is where s_j >= v for
    all j and lambda_j (s_j - v) = 0; the residual is the largest violation of either, of lambda >=
    0 and of sum lambda = 1. By convexity, lambda' Q lambda exceeds the optimum by at most twice
    max |Q| times it.

    >>> float(kkt_residual([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0]))
    1.0
    """
    matrices = np.asarray(Q, dtype=np.float64)
    given = np.asarray(weights, dtype=np.float64)
    size = np.abs(matrices).max(axis=(-2, -1))
    scale = np.where(size > 0, size, 1.0)[..., None]
    slopes = (matrices / scale[..., None] @ given[..., None])[..., 0]
    gap = slopes - (given * slopes).sum(axis=-1, keepdims=True)
    worst = np.maximum(-gap, np.abs(given * gap)).max(axis=-1)
    feasible = np.maximum(-given.min(axis=-1), np.abs(given.sum(axis=-1) - 1.0))
    return np.asarray(np.maximum(worst, feasible))


def _checked(G: ArrayLike) -> Array:
    raw = np.asarray(G, dtype=np.float64)
    if raw.ndim < 2 or raw.shape[-1] != raw.shape[-2] or raw.shape[-1] == 0:
        raise InputError(f"`G` must have shape (..., M, M); found {raw.shape}")
    if not np.isfinite(raw).all():
        raise InputError("`G` must be finite; found NaN or infinity")
    size = np.abs(raw).max(axis=(-2, -1), initial=0.0)
    scale = np.where(size > 0, size, 1.0)[..., None, None]
    scaled = raw / scale
    if (np.abs(scaled - np.swapaxes(scaled, -1, -2)) > _TOLERANCE).any():
        raise InputError("`G` must be symmetric; found a matrix that is not")
    lowest = np.linalg.eigvalsh(scaled)[..., 0].min(initial=0.0)
    if lowest < -_TOLERANCE * raw.shape[-1]:
        raise InputError(
            f"`G` must be positive semidefinite; found an eigenvalue of {lowest:.3g} times the "
            "largest entry"
        )
    return raw


def _solve(Q: Array) -> SimplexSolution:
    """Solve checked programs (..., M, M)."""
    lead, M = Q.shape[:-2], Q.shape[-1]
    batch = np.ascontiguousarray(Q.reshape(-1, M, M))
    size = np.abs(batch).max(axis=(1, 2))
    weights = np.empty((len(batch), M))
    statuses = np.empty(len(batch), dtype=np.int64)
    solve_batch(batch, np.where(size > 0, size, 1.0), weights, statuses)
    objective = np.einsum("bi,bij,bj->b", weights, batch, weights)
    return SimplexSolution(
        weights=weights.reshape(*lead, M),
        objective=objective.reshape(lead),
        residual=kkt_residual(batch, weights).reshape(lead),
        optimal=(statuses == OPTIMAL).reshape(lead),
    )
