"""P-ShareLoRA, Definitions 4.1 and A.1, equation (4.1), Lemmas 5 and 8: columns that users share.

Users' matrices Theta_i are arrays (..., N, d1, d2); side by side they are one matrix (..., d1,
N d2), whose column space the shared factor B spans. The singular value decomposition is computed by
Jacobi rotations in plain arithmetic, so that it is as exact as the numbers it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import ratecheck as rc
from linsys.linalg import Numbers, squares, transpose

__all__ = [
    "Adaptation",
    "beside",
    "eigen",
    "flat",
    "frobenius",
    "inner",
    "rotated",
    "sine",
]

#: Rotations of every pair so often: far beyond what quadratic convergence needs for d <= 8.
_SWEEPS = 12


def inner(A: Numbers, B: Numbers) -> Numbers:
    """<A, B> over the last two axes."""
    return np.asarray((A * B).sum(axis=(-2, -1)))


def frobenius(A: Numbers) -> Numbers:
    """||A||_F over the last two axes."""
    return np.sqrt(squares(A))


def flat(M: Numbers) -> Numbers:
    """The entries of each matrix (..., p, q), row by row: (..., p q)."""
    return M.reshape(*M.shape[:-2], -1)


def beside(theta: Numbers) -> Numbers:
    """Users' matrices (..., N, d1, d2) side by side, (..., d1, N d2)."""
    *lead, N, d1, d2 = theta.shape
    return np.swapaxes(theta, -3, -2).reshape(*lead, d1, N * d2)


def eigen(symmetric: Numbers) -> tuple[Numbers, Numbers]:
    """Eigenvalues (..., d), largest first, and eigenvectors as columns (..., d, d).

    >>> values, vectors = eigen(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> values.round(12).tolist()
    [3.0, 1.0]
    """
    A = np.array(symmetric)
    d = A.shape[-1]
    V = A * 0 + np.eye(d, dtype=int)
    for _ in range(_SWEEPS):
        for p in range(d):
            for q in range(p + 1, d):
                c, s = _rotation(A[..., p, p], A[..., q, q], A[..., p, q])
                for M in (A, V):
                    M[..., p], M[..., q] = (
                        c * M[..., p] - s * M[..., q],
                        s * M[..., p] + c * M[..., q],
                    )
                A[..., p, :], A[..., q, :] = (
                    c * A[..., p, :] - s * A[..., q, :],
                    s * A[..., p, :] + c * A[..., q, :],
                )
    values = np.stack([A[..., j, j] for j in range(d)], axis=-1)
    order = np.argsort(-values, axis=-1)
    sorted_vectors = np.take_along_axis(V, order[..., None, :], axis=-1)
    return np.take_along_axis(values, order, axis=-1), sorted_vectors


def _rotation(a: Numbers, b: Numbers, off: Numbers) -> tuple[Numbers, Numbers]:
    """Cosine and sine, one axis more than the entries, that make the entry ``off`` zero."""
    twice, apart = 2 * off, b - a
    size = np.abs(apart) + np.sqrt(apart * apart + twice * twice)
    tangent = np.where(apart >= 0, twice, -twice) / np.where(size > 0, size, 1)
    c = 1 / np.sqrt(1 + tangent * tangent)
    return c[..., None], (tangent * c)[..., None]


def rotated(vectors: Numbers) -> Numbers:
    """The product of reflections along vectors (..., m, d), an orthogonal matrix (..., d, d).

    Zero reflects nothing. With m = d every orthogonal matrix is one, up to signs of its columns.
    """
    d = vectors.shape[-1]
    Q = vectors[..., 0, :, None] * 0 + np.eye(d, dtype=int)
    for j in range(vectors.shape[-2]):
        v = vectors[..., j, :, None]
        size = squares(v)[..., None, None]
        Q = Q - 2 * (Q @ v) @ transpose(v) / np.where(size > 0, size, size * 0 + 1)
    return np.asarray(Q)


def sine(B1: Numbers, B2: Numbers) -> Numbers:
    """Definition A.1's dist as ||(I - B2 B2') B1||_F, for orthonormal columns (..., d, k)."""
    return np.asarray(np.sqrt(squares(B1 - B2 @ (transpose(B2) @ B1))))


@dataclass(frozen=True, eq=False)
class Adaptation:
    """The difference matrix of Definition 4.1 and its best approximation of rank k, eq. (4.1).

    Args:
        delta: Delta Theta*_i, shape (..., N, d1, d2).
        k: rank, at most min(d1, N d2).

    >>> users = Adaptation(np.array([[[3.0], [0.0]], [[0.0], [1.0]]]), k=1)
    >>> users.nu.round(12).item(), users.tail.round(12).item()
    (4.5, 1.0)
    """

    delta: Numbers
    k: int

    @property
    def users(self) -> int:
        """N."""
        return int(self.delta.shape[-3])

    @cached_property
    def joint(self) -> Numbers:
        """[Delta Theta*_1, ..., Delta Theta*_N], (..., d1, N d2)."""
        return beside(self.delta)

    @cached_property
    def _spectrum(self) -> tuple[Numbers, Numbers]:
        return eigen(self.joint @ transpose(self.joint))

    @property
    def sigma2(self) -> Numbers:
        """The squared singular values, (..., d1), largest first; zero beyond N d2."""
        return np.maximum(self._spectrum[0], 0)

    @property
    def basis(self) -> Numbers:
        """All left singular vectors, (..., d1, d1)."""
        return self._spectrum[1]

    @property
    def B(self) -> Numbers:
        """B of the best approximation, (..., d1, k)."""
        return self.basis[..., : self.k]

    @property
    def W(self) -> Numbers:
        """Its W_i = B' Delta Theta*_i, (..., N, k, d2)."""
        return np.asarray(transpose(self.B)[..., None, :, :] @ self.delta)

    @property
    def best(self) -> Numbers:
        """The best approximation by user, (..., N, d1, d2)."""
        return np.asarray(self.B[..., None, :, :] @ self.W)

    @property
    def nu(self) -> Numbers:
        """sigma_k^2 / N."""
        return np.asarray(self.sigma2[..., self.k - 1] / self.users)

    @property
    def tail(self) -> Numbers:
        """Sigma_tail as ||Delta Theta* - best||_F^2, which loses less than a sum of eigenvalues."""
        return np.asarray(self.b.sum(axis=-1))

    @property
    def tail_sum(self) -> Numbers:
        """Sigma_tail as Definition 4.1 has it, the sum of sigma_j^2 over j > k."""
        return np.asarray(self.sigma2[..., self.k :].sum(axis=-1) + 0 * self.sigma2[..., 0])

    @property
    def b(self) -> Numbers:
        """Theorem 4.2's b_i = ||Delta Theta*_i - best_i||_F^2, (..., N)."""
        return squares(self.delta - self.best)


@dataclass(frozen=True, eq=False)
class Kinds:
    """Users of which ``many`` are alike: what Definition 4.1 and (4.1) say of all of them.

    Args:
        delta: Delta Theta* of each kind, shape (..., N, d1, d2).
        many: how many users are of each kind, (..., N).
        k: rank, at most min(d1, N d2).

    >>> kinds = Kinds(np.array([[[1.0], [0.0]], [[0.0], [1.0]]]), np.array([9.0, 1.0]), k=1)
    >>> kinds.nu.round(12).item(), kinds.spread.round(12).item(), kinds.b.round(12).tolist()
    (0.9, 0.1, [0.0, 1.0])
    """

    delta: Numbers
    many: Numbers
    k: int

    @cached_property
    def _weighted(self) -> Adaptation:
        """n users alike have the singular values of one whose matrix is sqrt(n) times as large."""
        return Adaptation(self.delta * np.sqrt(self.many)[..., None, None], self.k)

    @property
    def nu(self) -> Numbers:
        """sigma_k^2 / N."""
        return np.asarray(self._weighted.sigma2[..., self.k - 1] / self.many.sum(axis=-1))

    @property
    def spread(self) -> Numbers:
        """Sigma_tail / N."""
        return np.asarray(self._weighted.tail / self.many.sum(axis=-1))

    @property
    def best(self) -> Numbers:
        """Theta_diamond of each kind, (..., N, d1, d2)."""
        return np.asarray(self._weighted.best / np.sqrt(self.many)[..., None, None])

    @property
    def b(self) -> Numbers:
        """b_i of each kind, (..., N)."""
        return squares(self.delta - self.best)


def energy(users: Adaptation, init: Numbers) -> rc.Sides:
    """The largest ||Delta Theta*_i||_F, and B, the largest ||Theta*_i||_F, of (3.1)."""
    reach = np.sqrt(squares(users.delta).max(axis=-1))
    return reach, np.sqrt(squares(users.delta + init[..., None, :, :]).max(axis=-1))


def energy_corrected(users: Adaptation, init: Numbers) -> rc.Sides:
    """The largest ||Delta Theta*_i||_F, and B + ||Theta_init||_F."""
    reach, B = energy(users, init)
    return reach, B + np.sqrt(squares(init))
