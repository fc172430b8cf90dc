"""What comparisons can tell about a linear reward: Gram matrices of differences of features.

A reward enters a preference only through r(tau0) - r(tau1) = <Theta, psi(tau0) - psi(tau1)>. What
is orthogonal to all these differences stays unknown however many comparisons there are, so that no
estimate of Theta, and in general none of the users' shared column space, tends to the truth:
Theorem 4.1 of P-ShareLoRA needs enough coverage without saying so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from linsys._validate import Array, InputError, plain, real_array, shown

__all__ = ["Coverage", "concentration", "coverage", "pair_weights"]

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
