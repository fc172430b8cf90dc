"""How a Gaussian system is laid out for the fused loops, and the basis that makes A_base cheap."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from linsys.kernels._tiles import TILE, padded
from linsys.systems import GaussianSystem
from linsys.validate import Array

__all__ = ["LEAST_POWER", "GaussianArrays", "gaussian_arrays", "turned"]

#: The largest |z| of a normal variate, and the logarithm of the least normal number.
_LARGEST_NORMAL, LEAST_POWER = 9.42, -1022.0
#: Agents that fill up a tile repeat the last one with a weight that is 2^500 times smaller.
_FILLING = -500.0


class GaussianArrays(NamedTuple):
    """A Gaussian system for the kernels; names of arrays are addresses, N is n padded.

    All vectors and matrices are in the basis of :func:`turned`.
    """

    n: int
    d: int
    reach: int  # of A_base from its diagonal
    far: bool  # whether a density ratio may underflow
    eps_A: float
    eps_b: float
    means: int  # at least (n + 1, d): a row of zeros is read where n d is odd
    slopes: int  # (N, d): m_k / log 2
    tiled_slopes: int
    offsets: int  # (N, N): -|m_k - m_j|^2 / (2 log 2)
    targets: int  # (N, d): Phi_base theta^j
    target_sum: int  # (d,): sum over j of Phi_base theta^j
    A_base: int  # tiled (padded d, d)
    Phi_base: int


def _padded_rows(matrix: Array) -> Array:
    """``matrix`` with rows of zeros up to a whole number of tiles."""
    n = len(matrix)
    return np.pad(matrix, ((0, padded(n) - n), (0, 0)))


def _tiled(matrix: Array) -> Array:
    """Entry (k, a) of (N, d) at [k // 5, a, k % 5], as :func:`common_tile` reads it."""
    return np.ascontiguousarray(matrix.reshape(-1, TILE, matrix.shape[1]).swapaxes(1, 2))


def turned(A: Array) -> tuple[int, Array, Array]:
    """How far A reaches from its diagonal in an orthonormal basis Q, Q'A Q, and Q.

    A symmetric matrix is tridiagonal in the basis that Householder's reflections find, which saves
    most of A_base x for every agent; the states' noise has the law N(0, I) in every basis. Q is the
    identity for small and for unsymmetric matrices, and where an entry beside the diagonal that all
    but vanishes would let Q depend on rounding.
    """
    import scipy.linalg

    d = len(A)
    if d > 2 * TILE and (A == A.T).all():
        banded, Q = scipy.linalg.hessenberg(A, calc_q=True)
        beside = np.diagonal(banded, -1)
        if np.abs(beside).min() > 1e-8 * np.abs(A).max():
            return 1, np.diag(np.diagonal(banded)) + np.diag(beside, -1) + np.diag(beside, 1), Q
    return d, A, np.eye(d)


@lru_cache(maxsize=8)
def gaussian_arrays(system: GaussianSystem) -> tuple[GaussianArrays, Array, list[Array]]:
    """A system's arrays, the basis of its vectors, and what keeps the memory of the arrays."""
    n, d = system.n, system.d
    reach, A_base, Q = turned(system.A_base)
    m, Phi_base = system.means @ Q, Q.T @ system.Phi_base @ Q
    targets = (system.theta @ system.Phi_base.T) @ Q
    repeated = m[np.minimum(np.arange(padded(n)), n - 1)]
    slopes = repeated / np.log(2.0)
    gaps = ((repeated[:, None] - repeated[None]) ** 2).sum(-1)
    offsets = -gaps / np.log(4.0)
    offsets[n:] += _FILLING
    # |(m_k - m_j)'z| is at most |m_k - m_j| |z|.
    least = offsets.min() - np.sqrt(gaps.max() * d) * _LARGEST_NORMAL / np.log(2.0)
    held = [
        _padded_rows(np.vstack([m, np.zeros(d)])),
        slopes,
        _tiled(slopes),
        offsets,
        _padded_rows(targets),
        targets.sum(axis=0),
        _tiled(_padded_rows(A_base)),
        _tiled(_padded_rows(Phi_base)),
    ]
    far = bool(least < LEAST_POWER)
    numbers = n, d, reach, far, system.eps_A, system.eps_b
    return GaussianArrays(*numbers, *(a.ctypes.data for a in held)), Q, held
