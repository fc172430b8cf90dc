"""P-ShareLoRA, proof of Theorem B.3: what the labels' noise adds to a user's gradient.

V_j is the derivative of the log-likelihood of one label at the true difference of rewards. B
instances come first, and there are n = N_p comparisons with features x (B, n, D), D = k d2.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from experiments.psharelora.theory.fitted import second_moment, shifted, squared
from experiments.psharelora.theory.preference import logistic, slope
from experiments.psharelora.theory.proof import Sides, lipschitz
from experiments.psharelora.theory.subspace import frobenius, inner
from linsys.linalg import Numbers, inverse, norm, operator_norm, transpose

__all__ = ["eq_B13", "eq_B14", "every_outcome", "kernel", "scores", "traces"]


def scores(x: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """V for o = 1 and for o = 0, by Phi'/Phi, and the chances of both labels."""
    up, down = logistic(x), logistic(-x)
    return slope(x) / up, -slope(-x) / down, up, down


def eq_B13(x: Numbers, v: Numbers, shift: Numbers) -> Sides:
    """||(1/n) sum v_j x_j|| in the norm of (Sigma + lambda I)^{-1} against max |v_j|."""
    mean = (v[..., None] * x).mean(axis=1)
    moved = np.sqrt(squared(mean, inverse(shifted(second_moment(x), shift))))
    return moved, np.abs(v).max(axis=1)


def eq_B13_display(
    truth: Numbers,
    diamond: Numbers,
    hat: Numbers,
    W: Numbers,
    psi0: Numbers,
    psi1: Numbers,
    shift: Numbers,
) -> Sides:
    """(B.13) with C = 1 and xi = max Phi' = 1/4, for one user.

    ``truth`` is Theta* (B, d1, d2), ``diamond`` and ``hat`` are bases (B, d1, k), W is W_diamond.
    """
    X = psi0 - psi1
    both = [logistic(inner(M[:, None], X)) for M in (truth, hat @ W)]
    x = transpose(hat)[:, None] @ X
    measured, _ = eq_B13(x.reshape(*x.shape[:2], -1), both[0] - both[1], shift)
    apart = frobenius(truth - diamond @ W) + frobenius(diamond - hat) * frobenius(W)
    return measured, lipschitz(psi0, psi1) * apart / 2


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


def eq_B14(x: Numbers, gap: Numbers, shift: Numbers, size: Numbers, factor: Numbers) -> Sides:
    """P(V'M V > factor (D + log(N/delta)) / n) against delta / (2 N), size = log(N/delta)."""
    V, chance = every_outcome(gap)
    values = ((V @ kernel(x, shift)) * V).sum(axis=-1)
    limit = factor * (x.shape[-1] + size) / x.shape[1]
    return tail(values, chance, limit), np.exp(-size) / 2


def eq_B14_learned(o: Numbers, length: Numbers, shift: Numbers, size: Numbers) -> Sides:
    """V'M V for a basis learned from the same labels, against C4^2 (1 + log(1/delta)) / n.

    One user without preferences (Theta* = 0, d2 = k = 1) compares ``length`` times each of d1 = n
    basis vectors with zero, once: the most likely Theta in any ball is along o - 1/2.
    """
    n = o.shape[1]
    V = o - 1 / (2 + 0 * o)
    B = V / norm(V)[:, None]
    x = (length[:, None] * B)[..., None]
    values = ((V[:, None] @ kernel(x, shift)) * V[:, None]).sum(axis=(-2, -1))
    return values, explicit(size) * (1 + size) / n


def explicit(like: Numbers) -> Numbers:
    """C4^2 = (2 + 3 log 2) / 4, which the tail of a sub-Gaussian quadratic form gives."""
    return np.asarray((2 + 3 * np.log(2 + 0 * like)) / 4)
