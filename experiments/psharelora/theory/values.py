"""P-ShareLoRA, Definition A.3, Theorem 4.2 and its corollaries: what policies lose.

Policies and their choice are those of :mod:`experiments.psharelora.theory.pessimism`.
"""

from __future__ import annotations

import numpy as np

from experiments.psharelora.theory.pessimism import choosers
from experiments.psharelora.theory.preference import Pairs
from experiments.psharelora.theory.subspace import Adaptation, sine, squares
from linsys.linalg import Numbers, inverse, lambda_min, norm, transpose

__all__ = ["concentrability", "confidence", "confidence_corrected", "mean_loss", "unseen"]


def mean_loss(
    users: Adaptation, fit: Adaptation, pairs: Pairs, v: Numbers
) -> tuple[Numbers, Numbers]:
    """The mean gap for zeta = 0, and V sqrt(eta / lambda_min) / m.

    eta = (1/N) sum_i E ||P_i - P*_i||_1^2, V the longest v, m the least Phi'.
    """
    chosen = choosers(users.delta, fit.delta, v, 0 * fit.b)
    m = pairs.steepness(users.delta, fit.delta)
    eta = pairs.apart(fit.delta, users.delta) / users.users
    longest = norm(v).max(axis=-1)
    measured = chosen.gap.mean(axis=-1)
    least = lambda_min(pairs.moment)
    return measured * m * np.sqrt(np.maximum(least, 0 * least)), longest * np.sqrt(eta)


def unseen(
    theta: Numbers,
    shift: Numbers,
    psi: Numbers,
    seen: Numbers,
    n: Numbers,
    delta: Numbers,
    C: Numbers,
) -> tuple[Numbers, Numbers]:
    """The loss of a maximum of the likelihood when only ``seen`` trajectories appear in the data.

    One user, d2 = k = 1: theta, shift (..., d1), psi (..., T, d1). The maximum is theta plus what
    of ``shift`` no comparison sees; the best trajectory is the target and zeta = 0. With it C times
    Theorem 4.2's bound for N = 1, nu = ||theta||^2, Sigma_tail = b = 0.
    """
    T, d1 = psi.shape[-2:]
    shown = np.where(np.arange(1, T) < seen[..., None], 1, 0)
    D = (psi[..., 1:, :] - psi[..., :1, :]) * shown[..., None]
    filled = D @ transpose(D) + np.eye(T - 1, dtype=int) * (1 - shown)[..., None]
    column = shift[..., None]
    Z = (column - transpose(D) @ (inverse(filled) @ (D @ column)))[..., 0]
    value = (psi @ theta[..., None])[..., 0]
    chosen = (psi @ (theta + Z)[..., None])[..., 0].argmax(axis=-1)
    loss = value.max(axis=-1) - np.take_along_axis(value, chosen[..., None], axis=-1)[..., 0]
    nu = (theta * theta).sum(axis=-1)
    logs = (d1 + 1) * np.log(n) - np.log(delta)
    return loss, C * np.sqrt(logs / (n * nu) + (1 - np.log(delta)) / n)


def collapse(
    users: Adaptation, psi: Numbers, v: Numbers, n: Numbers, delta: Numbers, C: Numbers
) -> tuple[Numbers, Numbers]:
    """The mean loss with zeta from (B.1) and Theta_hat = Theta*, and Corollary B.1's bound.

    Sigma_tail = 0, c3 = 1, and N_br is e^(k (d1 + N d2) log(N n)).
    """
    N, (d1, d2), k = users.users, users.delta.shape[-2:], users.k
    logs = k * (d1 + N * d2) * np.log(N * n) - np.log(delta)
    heads = (k * d2 + np.log(N / delta)) / n
    L1 = np.sqrt(squares(psi).max(axis=-1))
    zeta = np.sqrt((logs / (N * n * users.nu) + heads) / 2) / L1
    radius = np.sqrt(zeta)[..., None] + 0 * users.b
    gap = choosers(users.delta, users.delta, v, radius).gap
    return gap.mean(axis=-1), C * np.sqrt(logs / (N * n))


def confidence(
    users: Adaptation, L1: Numbers, C: Numbers, share: Numbers
) -> tuple[Numbers, Numbers]:
    """b_i of all users, and ``share`` of (B.1) for N_p = oo."""
    inside = users.b.min(axis=-1) + np.sqrt(users.tail / users.users) / users.nu
    zeta = share * np.sqrt(C * inside / 2) / L1
    return users.b, zeta[..., None] + 0 * users.b


def confidence_corrected(users: Adaptation, fit: Adaptation) -> tuple[Numbers, Numbers]:
    """||Delta_hat_i - Delta*_i||_F^2, and ||W_hat_i - B'Delta*_i||^2 + (dist ||W_i|| + sqrt b_i)^2.

    B and W_hat are the fit's, W_i those of Theta_diamond.
    """
    heads = squares(fit.W - transpose(fit.B)[..., None, :, :] @ users.delta)
    distance = sine(fit.B, users.B)[..., None]
    aside = distance * np.sqrt(squares(users.W)) + np.sqrt(users.b)
    return squares(fit.delta - users.delta), heads + aside**2


def condition(users: Adaptation) -> tuple[Numbers, Numbers]:
    """nu sqrt(Sigma_tail / N) and 2 B^3 / (3 sqrt(3) k), B the largest ||Delta Theta*_i||_F."""
    B2 = squares(users.delta).max(axis=-1)
    bound = 2 * B2 * np.sqrt(B2 / 3) / (3 * users.k)
    return users.nu * np.sqrt(users.tail / users.users), bound


def concentrability(target: Numbers, reference: Numbers, r: Numbers) -> tuple[Numbers, Numbers]:
    """Definition A.3's quotient for one difference r of rewards, and sqrt(chi^2 / 2).

    chi^2 = sum (target - reference)^2 / reference; all (..., T).
    """
    mean = (reference * r).sum(axis=-1)
    numerator = (target * r).sum(axis=-1) - mean
    pairs = 2 * (reference * (r - mean[..., None]) ** 2).sum(axis=-1)
    chi2 = ((target - reference) ** 2 / reference).sum(axis=-1)
    return np.maximum(numerator, 0 * numerator), np.sqrt(pairs * chi2 / 2)
