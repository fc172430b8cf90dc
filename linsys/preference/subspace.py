"""Distances between column spaces, best rank-k approximation, diversity of users.

The users' matrices Delta_i (d1, d2) side by side are Delta = [Delta_1, .., Delta_N] (d1, N d2), and
P-ShareLoRA is about the column space of that one matrix: a factor B (d1, k) that all users share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from linsys.validate import Array, InputError, check_choice, check_integer, real_array

__all__ = [
    "Alignment",
    "BestRank",
    "Diversity",
    "align",
    "best_rank",
    "distance",
    "diversity",
    "side_by_side",
]

#: How far B'B may be from I, entry by entry: rounding of a basis, not a matrix of another kind.
_ORTHONORMAL = 1e-8


class Alignment(NamedTuple):
    """The orthogonal O (k, k) with the smallest ||B - B_diamond O||_F, and that length."""

    O: Array  # noqa: E741 - the rotation's name wherever Procrustes problems are written down
    error: float


class BestRank(NamedTuple):
    """Theta_diamond = B W of (4.1), the matrix of rank at most k that is nearest to Delta.

    Attributes:
        B: B_diamond, orthonormal columns, shape (d1, k).
        W: W_diamond of every user, shape (N, k, d2).
        Theta: B W of every user, shape (N, d1, d2).
        sigma: all singular values of Delta, decreasing.
        gap: sigma_k - sigma_{k+1}, where sigma beyond the last is 0.
        determined: whether the gap is above the rounding of a singular value. Otherwise the
            nearest matrix has the same distance but not the same columns in every run (with
            sigma_k = sigma_{k+1} > 0 any direction of that plane will do, with sigma_k = 0 the rank
            is below k and B holds columns that nothing uses): dist(., B_diamond) has no meaning.
    """

    B: Array
    W: Array
    Theta: Array
    sigma: Array
    gap: float
    determined: bool


class Diversity(NamedTuple):
    """Definition 4.1, and b_i of Theorem 4.2, whose sum over the users is the tail.

    Attributes:
        nu: sigma_k^2 / N.
        tail: Sigma_tail, the sum of all sigma_j^2 with j > k.
        b: ||Delta_i - Theta_diamond_i||_F^2, shape (N,). Not determined where B_diamond is not.
    """

    nu: float
    tail: float
    b: Array


def side_by_side(Delta: Array) -> Array:
    """[Delta_1, .., Delta_N] of users' matrices (N, d1, d2), shape (d1, N d2).

    >>> side_by_side(np.array([[[1, 2]], [[3, 4]]])).tolist()
    [[1, 2, 3, 4]]
    """
    return np.swapaxes(Delta, 0, 1).reshape(Delta.shape[1], -1)


def distance(B1: ArrayLike, B2: ArrayLike, form: str = "projector") -> float:
    """The distance between the spans of orthonormal columns, either side of Definition A.1.

    ``"projector"`` is ||B1 B1' - B2 B2'||_F / sqrt(2) and ``"sine"`` is ||B1' B2_perp||_F, computed
    as ||B1 - B2 B2' B1||_F, which is as exact for close subspaces. For B1 (d, k) and B2 (d, k) they
    are one number, the length of the vector of sines of the k principal angles, at most
    sqrt(min(k, d - k)). For k1 and k2 columns

        sine^2 = projector^2 + (k1 - k2) / 2,

    so that the projector form is a metric and at least sqrt(|k1 - k2| / 2), whereas the sine form
    is zero as soon as the span of B1 is part of that of B2, and depends on the order.

    Raises:
        InputError: columns that are not orthonormal, different d.

    >>> line, plane = np.eye(3)[:, :1], np.eye(3)[:, :2]
    >>> distance(line, plane), distance(line, plane, "sine"), distance(plane, line, "sine")
    (0.707106781187, 0.0, 1.0)
    """
    check_choice("form", form, ("projector", "sine"))
    sizes: dict[str, int] = {}
    B1 = _orthonormal("B1", B1, ("d", "k1"), sizes)
    B2 = _orthonormal("B2", B2, ("d", "k2"), sizes)
    if form == "sine":
        return float(np.linalg.norm(B1 - B2 @ (B2.T @ B1)))
    return float(np.linalg.norm(B1 @ B1.T - B2 @ B2.T) / np.sqrt(2.0))


def align(B: ArrayLike, B_diamond: ArrayLike) -> Alignment:
    """Procrustes: rotate B_diamond (d, k) onto B (d, k), both with orthonormal columns.

    With c_j the cosines of the principal angles the squared length is sum 2 (1 - c_j), and dist^2
    is sum (1 - c_j)(1 + c_j), hence

        dist^2 <= min_O ||B - B_diamond O||_F^2 <= 2 dist^2.

    Without O there is no such bound: B = -B_diamond spans the same space. So the paper's
    ||B - B_diamond||_F^2 <= dist^2 (Appendix B.1, C.2) needs the rotation, and then its factor 2.

    >>> B = np.eye(3)[:, :2]
    >>> align(B, -B).error, float(np.linalg.norm(B - (-B)))
    (0.0, 2.828427124746)
    """
    sizes: dict[str, int] = {}
    B = _orthonormal("B", B, ("d", "k"), sizes)
    B_diamond = _orthonormal("B_diamond", B_diamond, ("d", "k"), sizes)
    U, _, Vt = np.linalg.svd(B_diamond.T @ B)
    return Alignment(U @ Vt, float(np.linalg.norm(B - B_diamond @ (U @ Vt))))


def best_rank(Delta: ArrayLike, k: int) -> BestRank:
    """Theta_diamond of (4.1) for users' matrices Delta (N, d1, d2): B = U_k, W = Lambda_k V_k'.

    The argmin of (4.1) runs over rank exactly k. Where rank(Delta) < k that set holds no nearest
    matrix, only ones that approach Delta; this one is Delta itself.

    Raises:
        InputError: k above min(d1, N d2).

    >>> best = best_rank([[[3.0], [0.0]], [[0.0], [2.0]]], k=1)
    >>> best.Theta.tolist(), best.gap, best.determined
    ([[[3.0], [0.0]], [[0.0], [0.0]]], 1.0, True)
    """
    Delta, k = _users(Delta, k)
    N, d1, d2 = Delta.shape
    U, sigma, Vt = np.linalg.svd(side_by_side(Delta), full_matrices=False)
    # the sign of a singular pair is free: the largest entry of each column of B is positive
    sign = np.sign(U[np.abs(U).argmax(axis=0), np.arange(len(sigma))])
    B = (U * sign)[:, :k]
    W = ((sigma * sign)[:k, None] * Vt[:k]).reshape(k, N, d2).swapaxes(0, 1)
    gap = float(sigma[k - 1] - (sigma[k] if k < len(sigma) else 0.0))
    rounding = max(d1, N * d2) * np.finfo(float).eps * sigma[0]
    return BestRank(B, W, B @ W, sigma, gap, bool(gap > rounding))


def diversity(Delta: ArrayLike, k: int) -> Diversity:
    """nu, Sigma_tail and b_i of users' matrices Delta (N, d1, d2), Definition 4.1.

    As ||Delta||_F^2 = N mean_i ||Delta_i||_F^2, they obey k nu + Sigma_tail / N <= max_i
    ||Delta_i||_F^2, what Remark 1 says in words about Theta, which may stand for Delta only if
    Theta_init = 0.

    >>> measured = diversity([[[3.0], [0.0]], [[0.0], [2.0]]], k=1)
    >>> measured.nu, measured.tail, measured.b.tolist()
    (4.5, 4.0, [0.0, 4.0])
    """
    best = best_rank(Delta, k)
    b = ((np.asarray(Delta) - best.Theta) ** 2).sum(axis=(1, 2))
    return Diversity(float(best.sigma[k - 1] ** 2 / len(b)), float((best.sigma[k:] ** 2).sum()), b)


def _orthonormal(name: str, B: ArrayLike, shape: tuple[str, str], sizes: dict[str, int]) -> Array:
    B = real_array(name, B, shape, sizes)
    off = float(np.abs(B.T @ B - np.eye(B.shape[1])).max())
    if off > _ORTHONORMAL:
        raise InputError(
            f"`{name}` must have orthonormal columns; found an entry of B'B - I of {off:.3g}"
        )
    return B


def _users(Delta: ArrayLike, k: int) -> tuple[Array, int]:
    Delta = real_array("Delta", Delta, ("N", "d1", "d2"))
    N, d1, d2 = Delta.shape
    return Delta, check_integer("k", k, low=1, high=min(d1, N * d2))
