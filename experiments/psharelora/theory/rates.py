"""P-ShareLoRA, Theorem 4.1 and its remarks: what maximum likelihood converges to, and how fast.

Around B_diamond the matrices of rank k are Theta_i = (B + Bperp C) W_i, and dist = ||C||_F to first
order. So the Fisher information of C, with the W_i eliminated, gives the variance of dist^2
exactly, and the maximum of the expected likelihood gives the floor that no data lowers.
"""

from __future__ import annotations

import numpy as np

from experiments.psharelora.theory.preference import Pairs, scores, slope
from experiments.psharelora.theory.subspace import Adaptation
from linsys.linalg import Numbers, inverse, logistic, solve, transpose

__all__ = ["information", "population", "spread", "worst_gap"]


def fisher(pairs: Pairs, theta: Numbers) -> Numbers:
    """E Phi' vec(X) vec(X)' of every user, (..., N, d1 d2, d1 d2), at theta (..., N, d1, d2)."""
    rows = pairs.X.reshape(*pairs.X.shape[:-2], -1)[..., None, :, :]
    steep = slope(pairs.logits(theta)) * pairs.weights[..., None, :]
    return np.asarray(transpose(rows * steep[..., None]) @ rows)


def tangents(fit: Adaptation) -> tuple[Numbers, Numbers]:
    """The derivatives of vec(Theta_i) by C and by W_i, (..., N, d1 d2, m) with m (d1 - k) k, k d2.

    Adaptation's ``basis`` gives B and Bperp.
    """
    k, d1 = fit.k, fit.basis.shape[-1]
    d2 = fit.delta.shape[-1]
    perp, lead = fit.basis[..., None, :, k:], fit.W.shape[:-2]
    by_C = np.einsum("...ap,...qb->...abpq", np.broadcast_to(perp, (*lead, d1, d1 - k)), fit.W)
    unit = np.eye(d2, dtype=int) + 0 * fit.W[..., :1, :1]
    base = np.broadcast_to(fit.B[..., None, :, :], (*lead, d1, k))
    by_W = np.einsum("...ap,...bq->...abpq", base, unit)
    return by_C.reshape(*lead, d1 * d2, -1), by_W.reshape(*lead, d1 * d2, -1)


def information(pairs: Pairs, truth: Numbers, fit: Adaptation) -> tuple[Numbers, Numbers, Numbers]:
    """The information of C per comparison, sum_i (A_i - M_i D_i^-1 M_i'), (..., m, m).

    With it the maps (..., N, m, d1 d2) that take C's score out of users' gradients by vec(Theta_i),
    and D_i^-1 (..., N, k d2, k d2). Curvature is taken at ``truth``, directions at ``fit``.
    """
    H = fisher(pairs, truth)
    by_C, by_W = tangents(fit)
    cross = transpose(by_C) @ H @ by_W
    heads = inverse(transpose(by_W) @ H @ by_W)
    own = transpose(by_C) - cross @ heads @ transpose(by_W)
    return (own @ H @ by_C).sum(axis=-3), own, heads


def spread(pairs: Pairs, users: Adaptation) -> Numbers:
    """lim N_p E dist^2 of maximum likelihood for Sigma_tail = 0, the trace of information^-1."""
    inside = inverse(information(pairs, users.delta, users)[0])
    return np.asarray(np.trace(inside, axis1=-2, axis2=-1))


def population(pairs: Pairs, users: Adaptation, steps: int = 60) -> Adaptation:
    """The maximum of the expected likelihood over rank k near Theta_diamond, by Fisher scoring.

    Converges where Sigma_tail is small beside sigma_k^2 and the pairs cover well; look at
    :func:`stationarity`.
    """
    fit = Adaptation(users.best, users.k)
    k, d2 = users.k, users.delta.shape[-1]
    for _ in range(steps):
        inside, own, heads = information(pairs, fit.delta, fit)
        G = gradient(pairs, users.delta, fit.delta)
        flat = G.reshape(*G.shape[:-2], -1, 1)
        C = solve(inside, (own @ flat).sum(axis=-3)[..., 0])[..., None]
        by_C, by_W = tangents(fit)
        moved = by_C @ C[..., None, :, :]
        H = fisher(pairs, fit.delta)
        dW = heads @ (transpose(by_W) @ (flat - H @ moved))
        turn = C[..., 0].reshape(*C.shape[:-2], -1, k)
        left = fit.B + fit.basis[..., k:] @ turn
        W = fit.W + dW[..., 0].reshape(*dW.shape[:-2], k, d2)
        fit = Adaptation(left[..., None, :, :] @ W, k)
    return fit


def gradient(pairs: Pairs, truth: Numbers, theta: Numbers) -> Numbers:
    """The gradient of the expected log-likelihood by every Theta_i, (..., N, d1, d2)."""
    gap = (logistic(scores(truth, pairs.X)) - logistic(pairs.logits(theta))) * pairs.weights[
        ..., None, :
    ]
    rows = pairs.X.reshape(*pairs.X.shape[:-2], -1)
    return np.asarray((gap @ rows).reshape(theta.shape))


def stationarity(pairs: Pairs, users: Adaptation, fit: Adaptation) -> Numbers:
    """The length of the gradient along matrices of rank k, (...): zero at the maximum."""
    G = gradient(pairs, users.delta, fit.delta)
    flat = G.reshape(*G.shape[:-2], -1, 1)
    by_C, by_W = tangents(fit)
    by_B = (transpose(by_C) @ flat).sum(axis=-3)[..., 0]
    heads = (transpose(by_W) @ flat)[..., 0]
    return np.asarray(np.sqrt((by_B * by_B).sum(axis=-1) + (heads * heads).sum(axis=(-2, -1))))


def better(users: Adaptation, fit: Adaptation, pairs: Pairs) -> Numbers:
    """Whether a fit's expected log-likelihood is at least that of Theta_diamond, (...)."""
    worse = pairs.divergence(users.delta, fit.delta)
    return np.asarray(worse <= pairs.divergence(users.delta, users.best))


def worst_gap(n: int, points: int = 2000) -> float:
    """The largest E[loss] over r > 0 of choosing between two trajectories after n comparisons.

    The better one is better by r and preferred with chance Phi(r); the one that was preferred more
    often is chosen (n odd), as maximum likelihood does. In units of the reward.

    >>> round(worst_gap(1), 4)  # max r / (1 + e^r)
    0.2785
    """
    r = np.linspace(1e-3, 8, points) / np.sqrt(n)
    j = np.arange((n + 1) // 2)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    many = logs[n] - logs[j] - logs[n - j]
    p = logistic(r)[:, None]
    lost = np.exp(many + j * np.log(p) + (n - j) * np.log(1 - p)).sum(axis=1)
    return float((r * lost).max())
