"""P-ShareLoRA, Appendix B: from the likelihood of a shared adapter to the error of rewards.

Rewards are <Theta_i, psi(tau)>, or g of it with g = R tanh(./R); preferences follow the sigmoid.
B instances are along the first axis; a statement returns its two sides.
Matrices of users have shape (B, N, d1, d2), comparisons of them (B, N, n, d1, d2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import ratecheck as rc
from experiments.psharelora.theory.preference import (
    bend,
    log_logistic,
    rate,
    reward as bounded,
)
from experiments.psharelora.theory.subspace import frobenius, inner
from linsys.linalg import Numbers, inverse, lambda_max, stretch, transpose

__all__ = ["Shared", "likelihood", "lipschitz", "orthogonal", "overlap", "spectral"]


def orthogonal(raw: Numbers) -> Numbers:
    """Cayley's rotation (I - S)(I + S)^{-1}, S = raw - raw'; all but those with eigenvalue -1."""
    skew = raw - transpose(raw)
    unit = np.eye(raw.shape[-1], dtype=int) + 0 * skew
    return np.asarray((unit - skew) @ inverse(unit + skew))


@dataclass(frozen=True, eq=False)
class Shared:
    """N users' deviations Delta* with a chosen singular value decomposition (Definition 4.1).

    The words are those of :class:`experiments.psharelora.theory.subspace.Adaptation`, which finds
    the decomposition of given matrices. Here it is given: any singular values, also equal ones or
    zero, and a rank for every instance.

    Args:
        raw_U: any numbers, shape (B, d1, d1), made into left singular vectors.
        raw_V: any numbers, shape (B, N, d2, N, d2), made into right ones.
        gaps: sigma_j - sigma_{j+1} >= 0, shape (B, d1); those that have no place are left out.
        k: the rank, shape (B,); more than min(d1, N d2) is that.

    >>> one = np.ones((1, 1, 1))
    >>> users = Shared(one, np.ones((1, 1, 1, 1, 1)), 3 * np.ones((1, 1)), np.ones(1))
    >>> users.delta.ravel().tolist(), users.nu.tolist(), users.tail.tolist()
    ([3.0], [9.0], [0.0])
    """

    raw_U: Numbers
    raw_V: Numbers
    gaps: Numbers
    k: Numbers

    @property
    def N(self) -> int:
        """How many users."""
        return int(self.raw_V.shape[1])

    @property
    def values(self) -> int:
        """min(d1, N d2), the number of singular values."""
        return int(min(self.gaps.shape[1], self.N * self.raw_V.shape[2]))

    @cached_property
    def rank(self) -> Numbers:
        """k, cut to the number of singular values."""
        return np.asarray(np.minimum(self.k, self.values + 0 * self.k))

    @property
    def held(self) -> Numbers:
        """One for the first k of d1 places, else zero, shape (B, d1)."""
        places = np.arange(self.gaps.shape[1])
        return np.asarray(np.where(places < self.rank[:, None], 1, 0) + 0 * self.gaps)

    @cached_property
    def sigma(self) -> Numbers:
        """Singular values, the largest first, zero where there are fewer than d1; (B, d1)."""
        used = np.where(np.arange(self.gaps.shape[1]) < self.values, self.gaps, 0 * self.gaps)
        return np.asarray(used[:, ::-1].cumsum(axis=1)[:, ::-1])

    @cached_property
    def U(self) -> Numbers:
        """Left singular vectors, (B, d1, d1)."""
        return orthogonal(self.raw_U)

    def _product(self, sigma: Numbers) -> Numbers:
        N, d2 = self.raw_V.shape[1:3]
        V = orthogonal(self.raw_V.reshape(-1, N * d2, N * d2))
        m = self.values
        whole = (self.U[..., :m] * sigma[:, None, :m]) @ transpose(V[..., :m])
        return np.asarray(np.swapaxes(whole.reshape(len(whole), -1, N, d2), 1, 2))

    @cached_property
    def delta(self) -> Numbers:
        """Delta Theta*_i, (B, N, d1, d2)."""
        return self._product(self.sigma)

    @cached_property
    def best(self) -> Numbers:
        """Theta_diamond_i of (4.1), the best approximation of rank k."""
        return self._product(self.sigma * self.held)

    @property
    def basis(self) -> Numbers:
        """B_diamond, its columns after the k-th ones zero, (B, d1, d1)."""
        return np.asarray(self.U * self.held[:, None])

    @property
    def nu(self) -> Numbers:
        """sigma_k^2 / N, (B,)."""
        last = np.where(np.arange(self.gaps.shape[1]) == self.rank[:, None] - 1, 1, 0)
        return np.asarray((last * self.sigma**2).sum(axis=1) / self.N)

    @property
    def tail(self) -> Numbers:
        """Sigma_tail, (B,)."""
        return np.asarray(((1 - self.held) * self.sigma**2).sum(axis=1))

    @property
    def b(self) -> Numbers:
        """b_i = ||Delta Theta*_i - Theta_diamond_i||_F^2, (B, N)."""
        return frobenius(self.delta - self.best) ** 2


def likelihood(Theta: Numbers, x: Numbers, o: Numbers) -> Numbers:
    """F of (3.3) for differences x (B, N, n, d1, d2) and labels o (B, N, n) in [0, 1]; (B,)."""
    reward = inner(Theta[:, :, None], x)
    terms = o * log_logistic(reward) + (1 - o) * log_logistic(-reward)
    return np.asarray(terms.sum(axis=(1, 2)))


def lipschitz(psi0: Numbers, psi1: Numbers) -> Numbers:
    """L1 of Assumption 1, the largest ||psi(tau)||_F, (B,)."""
    both = np.maximum(frobenius(psi0), frobenius(psi1))
    return np.asarray(both.reshape(len(both), -1).max(axis=1))


def spectral(A: Numbers) -> Numbers:
    """||A||_2, the largest singular value of each matrix (..., p, q)."""
    largest = lambda_max(transpose(A) @ A)
    return np.asarray(np.sqrt(np.maximum(largest, 0 * largest)))


def not_worse(users: Shared, x: Numbers, o: Numbers, Theta: Numbers) -> Numbers:
    """Whether Theta explains the labels at least as well as Theta_diamond, as the MLE does."""
    return np.asarray(likelihood(Theta, x, o) >= likelihood(users.best, x, o))


def overlap(first: Numbers, second: Numbers, k: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """||B1 - B2||_F^2, dist^2, and ||B1 - B2 Q||_F^2 for the best orthogonal Q, all (B,).

    dist^2 = k - ||B1'B2||_F^2, and the best Q leaves 2 k - 2 ||B1'B2||_*.
    """
    both = transpose(first) @ second
    nuclear = stretch(both).diagonal(axis1=-2, axis2=-1).sum(axis=-1)
    return inner(first - second, first - second), k - inner(both, both), 2 * k - 2 * nuclear


def eq_B3(
    hat: Numbers, truth: Numbers, diamond: Numbers, psi: Numbers, factor: Numbers
) -> rc.Sides:
    """(B.3) for parameters (B, ..., p) and a pair of features psi (B, 2, p), factor ||.||^2."""
    x = psi[:, 0] - psi[:, 1]

    def reward(theta: Numbers) -> Numbers:
        return np.asarray((theta * x).sum(axis=-1))

    near = reward(hat) - reward(diamond)
    return (reward(hat) - reward(truth)) ** 2, 2 * near**2 + factor * ((truth - diamond) ** 2).sum(
        axis=-1
    )


def eq_B4(hat: Numbers, diamond: Numbers, psi: Numbers, R: Numbers) -> tuple[Numbers, ...]:
    """(B.4) for g = R tanh(./R): its left side, 2 |(...)'delta|^2, ||delta||, L1 and L2."""
    at_hat, at_diamond = ((psi * theta[:, None]).sum(axis=-1) for theta in (hat, diamond))
    value, other = (bounded(score, R[:, None]) for score in (at_hat, at_diamond))
    step = diamond - hat
    along = rate(at_hat, R[:, None]) * (psi * step[:, None]).sum(axis=-1)
    gap = (other[:, 0] - other[:, 1]) - (value[:, 0] - value[:, 1])
    L1 = np.sqrt((psi**2).sum(axis=-1).max(axis=-1))
    size = np.sqrt((step**2).sum(axis=-1))
    return gap**2, 2 * (along[:, 0] - along[:, 1]) ** 2, size, L1, bend(R) * L1**2


def eq_B5(
    first: Numbers,
    second: Numbers,
    W_diamond: Numbers,
    W_hat: Numbers,
    psi0: Numbers,
    psi1: Numbers,
    factor: Numbers,
) -> rc.Sides:
    """(B.5) for one user: factor ||B_diamond - B_hat||^2 ||W_diamond||_F^2 + 2 ||w||^2_Sigma_hat.

    ||B_diamond - B_hat|| is the operator norm, which I x B_diamond - I x B_hat has as well. Bases
    (B, d1, k), W (B, k, d2), features (B, n, d1, d2).
    """
    x = psi0 - psi1
    A = inner((first @ W_diamond - second @ W_hat)[:, None], x) ** 2
    noise = inner((second @ (W_diamond - W_hat))[:, None], x) ** 2
    apart = spectral(first - second) ** 2 * inner(W_diamond, W_diamond)
    return A.mean(axis=1), factor * apart + 2 * noise.mean(axis=1)
