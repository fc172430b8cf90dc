"""What comparisons can tell about a linear reward: Gram matrices of differences of features.

A reward enters a preference only through r(tau0) - r(tau1) = <Theta, psi(tau0) - psi(tau1)>. What
is orthogonal to all these differences stays unknown however many comparisons there are. Without a
constraint on Theta that settles what can be identified (:func:`coverage`). Users who share a factor
B can make up for a few missing directions, as in matrix completion, but not for a row of B that
never shows (:func:`subspace_information`). Theorem 4.1 of P-ShareLoRA bounds dist(B_hat, B_diamond)
by quantities that tend to zero whatever the features are, so it needs an assumption of this kind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from linsys.validate import Array, InputError, distributions, plain, real_array, shown

__all__ = [
    "Coverage",
    "concentrability",
    "concentration",
    "coverage",
    "pair_weights",
    "subspace_information",
]

#: Share of the largest eigenvalue below which one counts as zero: what products of float64 leave.
_ROUNDING = 1e-12


class Coverage(NamedTuple):
    """What comparisons can tell about Theta: the Gram matrix of the differences they show.

    Attributes:
        gram: E[x x'] for x = psi(tau0) - psi(tau1) as a vector, shape (D, D), D = d1 d2.
        rank: its rank, up to rounding.
        smallest: its smallest eigenvalue, 0 where the rank is below D.
        blind: an orthonormal basis of what no comparison shows, shape (D - rank, D): Theta and
            Theta + blind[j] make every preference equally likely.
    """

    gram: Array
    rank: int
    smallest: float
    blind: Array

    @property
    def complete(self) -> bool:
        """Whether linear rewards are identifiable: every direction of Theta shows in some pair."""
        return len(self.blind) == 0


def coverage(gram: ArrayLike) -> Coverage:
    """Rank, smallest eigenvalue and null space of a Gram matrix (D, D) of differences.

    An eigenvalue below 1e-12 times the largest counts as zero.

    >>> coverage([[2.0, 0.0], [0.0, 0.0]]).blind.tolist()
    [[0.0, 1.0]]
    """
    gram = real_array("gram", gram, ("D", "D"))
    values, vectors = np.linalg.eigh((gram + gram.T) / 2.0)
    zero = values <= _ROUNDING * max(float(values[-1]), 0.0)
    smallest = 0.0 if zero.any() else float(values[0])
    return Coverage(gram, int((~zero).sum()), smallest, vectors[:, zero].T)


def subspace_information(gram: ArrayLike, B: ArrayLike, W: ArrayLike) -> Array:
    """What comparisons tell about the span of a shared factor, per comparison of every user.

    Let the span of B turn to that of B + B_perp C and every W_i follow as well as it can. The sum
    over users of the mean squared change of reward differences is then, to second order,

        min over dW of sum_i ||B_perp C W_i + B dW_i||_gram^2 = vec(C)' M vec(C),

    which this function returns: M (m, m), m = k (d1 - k), with C row by row. The span is locally
    identifiable if M is positive definite. For gram = c I its eigenvalues are c sigma_j^2, the
    smallest c N nu: M is what N nu becomes when the features do not cover all directions alike.

    Args:
        gram: of differences of features, (D, D) with D = d1 d2; weighted with the sigmoid's slope
            at every pair it gives the Fisher information.
        B: orthonormal columns, shape (d1, k).
        W: factors of the users, shape (N, k, d2).

    >>> W = np.array([[[1.0]], [[2.0]]])  # two users, d2 = 1: N nu = 1 + 4
    >>> subspace_information(np.eye(2), [[1.0], [0.0]], W)
    array([[5.]])
    >>> subspace_information(np.diag([1.0, 0.0]), [[1.0], [0.0]], W)  # the other row never shows
    array([[0.]])
    """
    sizes: dict[str, int] = {}
    B = real_array("B", B, ("d1", "k"), sizes)
    W = real_array("W", W, ("N", "k", "d2"), sizes)
    (d1, k), d2 = B.shape, sizes["d2"]
    values, vectors = np.linalg.eigh(real_array("gram", gram, (d1 * d2, d1 * d2)))
    seen = values > _ROUNDING * max(float(values[-1]), 0.0)
    root = (vectors[:, seen] * np.sqrt(values[seen])).T.reshape(-1, d1, d2)
    full, _ = np.linalg.qr(B, mode="complete")
    turn = np.einsum("xab,ac->xcb", root, full[:, k:]).reshape(len(root), -1)
    follow = np.einsum("xab,ac->xcb", root, B).reshape(len(root), -1)
    U, sigma, _ = np.linalg.svd(follow, full_matrices=False)
    U = U[:, sigma**2 > _ROUNDING * float(values[-1])]  # what the W_i can undo
    left = turn - U @ (U.T @ turn)
    pairs = (left.T @ left).reshape(d1 - k, d2, d1 - k, d2)
    moments = np.einsum("njb,nle->jble", W, W)
    information = np.einsum("cbde,jble->cjdl", pairs, moments, optimize=True)
    return np.asarray(information.reshape(k * (d1 - k), k * (d1 - k)))


def concentration(sampled: ArrayLike, gram: ArrayLike) -> tuple[float, float]:
    """The smallest and largest D_hat / D of Assumption 2 over all pairs of linear rewards.

    D = u' gram u and D_hat = u' sampled u for u = Theta_1 - Theta_2, so that these are the extreme
    generalised eigenvalues, over the directions that ``gram`` sees. The assumption asks for [0.9,
    1.1]. Fewer comparisons than rank(gram) always give 0: a sample of n differences has a null
    space of dimension D - n.

    Raises:
        InputError: ``gram`` is zero; ``sampled`` shows what ``gram`` gives no weight.

    >>> concentration(np.diag([1.0, 3.0]), np.diag([1.0, 2.0]))
    (1.0, 1.5)
    """
    sizes: dict[str, int] = {}
    gram = real_array("gram", gram, ("D", "D"), sizes)
    sampled = real_array("sampled", sampled, ("D", "D"), sizes)
    values, vectors = np.linalg.eigh(gram)
    seen = values > _ROUNDING * max(float(values[-1]), 0.0)
    if not seen.any():
        raise InputError("`gram` must have a positive eigenvalue; found none")
    outside = float(np.abs(vectors[:, ~seen].T @ sampled).max(initial=0.0))
    if outside > _ROUNDING * np.abs(sampled).max():
        raise InputError(
            f"`sampled` must show nothing that `gram` gives no weight; found {outside:.3g}"
        )
    whitened = vectors[:, seen] / np.sqrt(values[seen])
    ratios = np.linalg.eigvalsh(whitened.T @ sampled @ whitened)
    return float(ratios[0]), float(ratios[-1])


def concentrability(psi: ArrayLike, target: ArrayLike, reference: ArrayLike) -> float:
    """C_r of Definition A.3 for linear rewards, exactly.

    With u = Theta* - Theta, v = E_target psi - E_reference psi and the Gram matrix G of the
    differences of two independent trajectories of the reference, the quotient is <u, v> / sqrt(u' G
    u): it does not depend on the length of u, so that the supremum over a ball of rewards around
    the truth, however small, is sqrt(v' G^+ v), and infinite if v is not in the range of G. For a
    class that holds fewer directions of u (low rank, or the truth on the boundary) it is an upper
    bound.

    Args:
        psi: features, shape (T, d1, d2).
        target: the law of the target policy's trajectory, shape (T,).
        reference: that of the reference policy, shape (T,).

    >>> psi = np.array([[[1.0]], [[0.0]]])
    >>> concentrability(psi, target=[1.0, 0.0], reference=[0.5, 0.5])
    0.7071...
    >>> concentrability(psi, target=[1.0, 0.0], reference=[0.0, 1.0])
    inf
    """
    sizes: dict[str, int] = {}
    features = real_array("psi", psi, ("T", "d1", "d2"), sizes)
    laws = [("target", target), ("reference", reference)]
    pi, mu = (distributions(n, real_array(n, p, ("T",), sizes)[None])[0] for n, p in laws)
    flat = features.reshape(len(features), -1)
    v = (pi - mu) @ flat
    # differences of two independent draws have twice the covariance of one: G = R'R
    R = np.sqrt(2.0 * mu)[:, None] * (flat - mu @ flat)
    _, sigma, axes = np.linalg.svd(R, full_matrices=False)
    size = float(np.linalg.norm(flat, axis=1).max())
    seen = sigma > _ROUNDING * size
    along = axes[seen] @ v
    if np.linalg.norm(v - along @ axes[seen]) > _ROUNDING * size:
        return float("inf")
    return float(np.linalg.norm(along / sigma[seen]))


def pair_weights(T: int, pairs: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Weights (T, T) of listed pairs (P, 2); a pair that is listed twice counts twice.

    >>> pair_weights(3, [[0, 1], [2, 1]], [1.0, 3.0]).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]]
    """
    listed = plain(pairs)
    if listed.ndim != 2 or listed.shape[1] != 2 or listed.dtype.kind not in "iu":
        raise InputError(f"`pairs` must be whole numbers of shape (P, 2); found {shown(pairs)}")
    if listed.size and (listed.min() < 0 or listed.max() >= T):
        raise InputError(
            f"`pairs` must name trajectories 0 to {T - 1}; found {listed.min()} to {listed.max()}"
        )
    matrix = np.zeros((T, T))
    each = (
        np.ones(len(listed)) if weights is None else real_array("weights", weights, (len(listed),))
    )
    np.add.at(matrix, tuple(listed.T), each)
    return matrix
