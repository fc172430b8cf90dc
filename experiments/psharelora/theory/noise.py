"""P-ShareLoRA, proof of Theorem B.3: what the labels' noise adds to a user's gradient.

V_j is the derivative of the log-likelihood of one label at the true difference of rewards. B
instances come first, and there are n = N_p comparisons with features x (B, n, D), D = k d2.
"""

from __future__ import annotations

from itertools import product

import numpy as np

import ratecheck as rc
from experiments.psharelora.theory.fitted import second_moment, shifted
from experiments.psharelora.theory.preference import slope
from linsys.linalg import Numbers, inverse, logistic, operator_norm, transpose

__all__ = ["eq_B14", "every_outcome", "kernel", "scores", "traces"]


def scores(x: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """V for o = 1 and for o = 0, by Phi'/Phi, and the chances of both labels."""
    up, down = logistic(x), logistic(-x)
    return slope(x) / up, -slope(-x) / down, up, down


def kernel(x: Numbers, shift: Numbers) -> Numbers:
    """M = (1/n^2) x (Sigma + lambda I)^{-1} x', shape (B, n, n), for x (B, n, D)."""
    n = x.shape[1]
    return np.asarray(x @ inverse(shifted(second_moment(x), shift)) @ transpose(x) / n**2)


def traces(x: Numbers, shift: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Tr M, Tr M^2 and ||M|| of the kernel."""
    M = kernel(x, shift)
    return M.diagonal(axis1=-2, axis2=-1).sum(axis=-1), (M**2).sum(axis=(-2, -1)), operator_norm(M)


def every_outcome(gap: Numbers) -> tuple[Numbers, Numbers]:
    """V of all 2^n data sets, (B, 2^n, n), and their chances, for differences of rewards (B, n)."""
    labels = np.array(list(product((1, 0), repeat=gap.shape[1])))
    high, low, up, down = (part[:, None] for part in scores(gap))
    V = np.where(labels == 1, high, low)
    return V, np.asarray(np.where(labels == 1, up, down).prod(axis=-1))


def tail(values: Numbers, chance: Numbers, limit: Numbers) -> Numbers:
    """The chance that values (B, K) exceed limit (B,)."""
    return np.asarray(np.where(values > limit[:, None], chance, 0 * chance).sum(axis=1))


def eq_B14(x: Numbers, gap: Numbers, shift: Numbers, size: Numbers, factor: Numbers) -> rc.Sides:
    """P(V'M V > factor (D + log(N/delta)) / n) against delta / (2 N), size = log(N/delta)."""
    V, chance = every_outcome(gap)
    values = ((V @ kernel(x, shift)) * V).sum(axis=-1)
    limit = factor * (x.shape[-1] + size) / x.shape[1]
    return tail(values, chance, limit), np.exp(-size) / 2


def explicit(like: Numbers) -> Numbers:
    """C4^2 = (2 + 3 log 2) / 4, which the tail of a sub-Gaussian quadratic form gives."""
    return np.asarray((2 + 3 * np.log(2 + 0 * like)) / 4)
