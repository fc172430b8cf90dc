"""Around the solver: matrices checked and regularised on the way in, answers judged on the way out.

Nothing here knows how a program is solved. What runs for every program is compiled for batches and
allocates nothing but workspace of one problem's size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from linsys.compiled import compiled
from linsys.validate import Array, InputError, plain, shown

__all__ = ["LARGEST", "TOLERANCE", "certify", "check_sizes", "gram_matrices", "prepare", "refuse"]

#: Relative rounding of a Gram matrix that is still taken for positive semidefinite and symmetric.
TOLERANCE = 1e-10
#: Entries of G and of beta may be so large: traces of 10^4 gradients do not overflow.
LARGEST = 1e304


def gram_matrices(name: str, value: ArrayLike) -> Array:
    """An array (..., M, M) of numbers, which may still be NaN or infinite."""
    raw = plain(value)
    if raw.dtype.kind not in "iuf":
        raise InputError(
            f"`{name}` must be an array (..., M, M) of real numbers; found {shown(value)}"
        )
    if raw.ndim < 2 or raw.shape[-1] != raw.shape[-2] or raw.shape[-1] == 0:
        raise InputError(f"`{name}` must have shape (..., M, M); found {raw.shape}")
    return np.asarray(raw, dtype=np.float64)


def check_sizes(name: str, matrices: Array) -> None:
    """Refuse NaN, infinity, and entries so large that sums of them overflow."""
    if not np.isfinite(matrices).all():
        raise InputError(f"`{name}` must be finite; found NaN or infinity")
    largest = np.abs(matrices).max(initial=0.0)
    if largest > LARGEST:
        raise InputError(f"`{name}` must have entries of at most {LARGEST:g}; found {largest:g}")


def refuse(G: Array) -> None:
    """Say which condition on Gram matrices (B, M, M) is not met, if one is not."""
    check_sizes("G", G)
    size = np.abs(G).max(axis=(-2, -1))
    scaled = G / np.where(size > 0, size, 1.0)[:, None, None]
    gap = np.abs(scaled - np.swapaxes(scaled, -1, -2)).max()
    if gap > TOLERANCE:
        raise InputError(
            f"`G` must be symmetric; found two entries that differ by {gap:.3g} times the largest"
        )
    lowest = np.linalg.eigvalsh(scaled).min()
    if lowest < -TOLERANCE * G.shape[-1]:
        raise InputError(
            f"`G` must be positive semidefinite; found an eigenvalue of {lowest:.3g} times the "
            "largest entry"
        )


@compiled
def prepare(G: Array, diagonal: Array, Q: Array) -> bool:
    """Write Q = G + Diag(diagonal) for each of (B, M, M); whether every G may be used.

    G may be used if it is symmetric, at most ``LARGEST`` and if G + M ``TOLERANCE`` max |G_ii| I
    has a Cholesky factor. Q is made symmetric to the last bit.
    """
    count, M, _ = G.shape
    L, usable = np.empty((M, M)), True
    for p in range(count):
        size = 0.0
        for i in range(M):
            size = max(size, abs(G[p, i, i]))
        usable &= size <= LARGEST
        shift = M * TOLERANCE * size if size > 0.0 else 1.0
        for i in range(M):
            rest = G[p, i, i] + shift
            Q[p, i, i] = G[p, i, i] + diagonal[i]
            for j in range(i):
                lower, upper = G[p, i, j], G[p, j, i]
                value = 0.5 * lower + 0.5 * upper
                usable &= abs(lower - upper) <= TOLERANCE * size and abs(value) <= 2.0 * size
                Q[p, i, j] = Q[p, j, i] = value
                for a in range(j):
                    value -= L[i, a] * L[j, a]
                # the diagonal of L holds reciprocals
                L[i, j] = value * L[j, j]
                rest -= L[i, j] * L[i, j]
            usable &= rest > 0.0
            L[i, i] = 1.0 / np.sqrt(rest)
    return usable


@compiled
def certify(Q: Array, weights: Array, objective: Array, residual: Array) -> None:
    """lambda' Q lambda and the violation of optimality, (B,) each; see ``kkt_residual``."""
    count, M = weights.shape
    slopes = np.empty(M)
    for p in range(count):
        size, value, total, least = 0.0, 0.0, 0.0, 0.0
        for i in range(M):
            slope = 0.0
            for j in range(M):
                slope += Q[p, i, j] * weights[p, j]
            slopes[i] = slope
            value += weights[p, i] * slope
            total += weights[p, i]
            least = min(least, weights[p, i])
            size = max(size, Q[p, i, i])
        worst = 0.0
        for i in range(M):
            worst = max(worst, value - slopes[i])
        worst /= size if size > 0.0 else 1.0
        objective[p] = value
        # a comparison with NaN would hide it
        residual[p] = max(worst, -least, abs(total - 1.0)) if value == value else np.nan
