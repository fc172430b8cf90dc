"""AffPCL, Lemmas D.4 and D.5: from one-step inequalities to errors after t rounds.

Both lemmas are about numbers, not systems. Each function takes B sequences at once, arrays with B
first, and follows the recursion *with equality*. That is the worst case of Lemma D.4, whose two
sides are the same linear functions of one step's right-hand sides, and of Lemma D.5 wherever the
factors 1 - alpha_tau are not negative, because every L_tau then grows with the ones before it.

>>> import numpy as np
>>> measured, bound = d5_const(L0=np.array([1.0]), C=np.array([2.0]), t=np.array([100.0]))
>>> print(measured.round(4), bound.round(4))
[0.1002] [0.1021]
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from linsys.linalg import Numbers

# Lemma D.4.


def coupled_step(
    z: Numbers, alpha: Numbers, lam: Numbers, C: Numbers, coupling: Numbers
) -> Numbers:
    """The right-hand sides of D.4's one-step inequalities at alpha^k = alpha / lambda^k, (B, K).

    Args:
        z: errors E||Delta z_t^k||^2, shape (B, K).
        alpha: effective step size, shape (B,).
        lam: lambda^k, shape (B, K).
        C: noise C^k, shape (B, K).
        coupling: C^{k,k'}, shape (B, K, K); only k' < k counts.
    """
    step = alpha[:, None] / lam
    from_earlier = (np.tril(coupling, -1) * z[:, None]).sum(axis=-1)
    return np.asarray((1 - 3 * alpha[:, None] / 2) * z + step**2 * C + step * from_earlier)


def weights(lam: Numbers, coupling: Numbers) -> Numbers:
    """w^K = 1 and w^k = 2 sum_{k' > k} w^{k'} C^{k',k} / lambda^{k'}, shape (B, K)."""
    last = lam.shape[-1] - 1
    coefficients = [lam[:, last] / lam[:, last]]
    for k in range(last - 1, -1, -1):
        later = np.stack(coefficients, axis=-1)
        coefficients.insert(0, 2 * (later * coupling[:, k + 1 :, k] / lam[:, k + 1 :]).sum(axis=-1))
    return np.stack(coefficients, axis=-1)


def d4(z: Numbers, alpha: Numbers, lam: Numbers, C: Numbers, coupling: Numbers) -> rc.Sides:
    """L_{t+1} <= (1 - alpha) L_t + alpha^2 sum_k w^k C^k / (lambda^k)^2, shape (B,).

    L_t = sum_k w^k E||Delta z_t^k||^2. Arguments as in :func:`coupled_step`.
    """
    w = weights(lam, coupling)
    after = (w * coupled_step(z, alpha, lam, C, coupling)).sum(axis=-1)
    noise = (w * C / lam**2).sum(axis=-1)
    return after, (1 - alpha) * (w * z).sum(axis=-1) + alpha**2 * noise


# Lemma D.5: L_{tau+1} = (1 - alpha_tau) L_tau + alpha_tau^2 C.


def d5_const(L0: Numbers, C: Numbers, t: Numbers) -> rc.Sides:
    """L_t <= (L_0 + C ln t) / t with alpha = ln t / t for t rounds, shape (B,)."""
    alpha = np.log(t) / t
    kept = (1 - alpha) ** t
    return kept * L0 + alpha * C * (1 - kept), (L0 + C * np.log(t)) / t


def diminishing_average(L0: Numbers, C: Numbers, t0: Numbers, t: Numbers) -> Numbers:
    """Ltilde_t = sum_{tau <= t} (tau + t0) L_tau / sum_{tau <= t} (tau + t0), shape (B,).

    The steps are alpha_tau = 4 / (tau + t0 + 1); they are at most one from t0 = 3 on.
    """
    L, total, tau = L0, 0 * L0, 0
    while (tau <= t).any():
        total = total + np.where(tau <= t, (tau + t0) * L, 0)
        alpha = 4 / (tau + t0 + 1)
        L = (1 - alpha) * L + alpha**2 * C
        tau += 1
    return np.asarray(2 * total / ((t + 1) * (t + 2 * t0)))


def d5_dim_explicit(L0: Numbers, C: Numbers, t0: Numbers, t: Numbers) -> rc.Sides:
    """Ltilde_t <= t0^2 L_0 / (2 t^2) + 8 C / t, the last display of D.5's proof, shape (B,)."""
    return diminishing_average(L0, C, t0, t), t0**2 * L0 / (2 * t**2) + 8 * C / t


def d5_dim_doubled(L0: Numbers, C: Numbers, t0: Numbers, t: Numbers) -> rc.Sides:
    """Ltilde_t <= t0^2 L_0 / t^2 + 16 C / t: both terms with the factor of L_tau / 2 restored."""
    return diminishing_average(L0, C, t0, t), t0**2 * L0 / t**2 + 16 * C / t


def d5_dim_sharper(L0: Numbers, C: Numbers, t0: Numbers, t: Numbers) -> rc.Sides:
    """Ltilde_t <= t0 (t0-1) L_0 / ((t+1)(t+2t0)) + (32/3) C / (t+2t0) for t0 >= 3, shape (B,).

    With P_m = m (m-1)(m-2)(m-3) and m = tau + t0, the recursion reads
    P_{m+1} L_{m+1} = P_m L_m + 16 C m (m-1)(m-2) / (m+1), so that
    L_m <= P_{t0} L_0 / P_m + 16 C / (3 m); the average of both terms over m is the bound.
    """
    start = t0 * (t0 - 1) * L0 / ((t + 1) * (t + 2 * t0))
    return diminishing_average(L0, C, t0, t), start + 32 * C / (3 * (t + 2 * t0))
