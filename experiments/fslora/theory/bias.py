"""FSLoRA, Section 3.1: what the loss of a sketch is on average, and where f^S is smallest.

With S = I + D, E D = 0, the expected loss of W0 + B S A exceeds that of W0 + B A by a penalty for
every strictly convex loss. For least squares it is E||B D A x||^2 / 2, and a minimisation over all
factors of one product leaves a multiple of the squared nuclear norm less the squared length.
"""

from __future__ import annotations

import numpy as np

from experiments.fslora.theory.steps import covariances
from linsys.linalg import Numbers, transpose


def square(P: Numbers) -> Numbers:
    """P (..., p, q) with rows or columns of zeros up to a square, which changes no norm."""
    p, q = P.shape[-2:]
    rows = [0 * P[..., :1, :]] * max(q - p, 0)
    columns = [0 * P[..., :1]] * max(p - q, 0)
    return np.concatenate([P, *rows], axis=-2) if rows else np.concatenate([P, *columns], axis=-1)


def coupling(k: Numbers, r: int) -> Numbers:
    """c = (r/k - 1) / (r - 1) in [0, 1]: minus the covariance of two different S_jj."""
    return np.asarray((r / k - 1) / max(r - 1, 1))


def product_variance(B: Numbers, A: Numbers, k: Numbers) -> Numbers:
    """V = E||B(S - I)A||^2, shape (B',)."""
    weights = covariances(k, A.shape[-2])
    return np.asarray((weights * (transpose(B) @ B) * (A @ transpose(A))).sum(axis=(-2, -1)))


def least(first: Numbers, second: Numbers, c: Numbers) -> tuple[Numbers, Numbers]:
    """The singular values of the best product where the target's are first >= second >= 0.

    They minimise (1/2) sum (sigma - target)^2 + (c/2) ((sum sigma)^2 - sum sigma^2).
    """
    both = (second > c * first) & (c < 1)
    safe = np.where(both, 1 - c**2, 1 + 0 * c)
    # differences that rounding leaves positive where ``both`` says so: roots are taken of them
    return (
        np.where(both, (first - c * second) / safe, first),
        np.where(both, (second - c * first) / safe, 0 * first),
    )


#: Two rows of a matrix with orthonormal rows whose columns have equal lengths.
