"""The disagreement drift as a perturbation: what it is for small noise, large beta and small beta.

Gradients g of C clients have shape (B, C, M, d), their weights (B, C, M), beta and R, the length of
the longest gradient, (B,). A_c has the columns g^{j,c}; X_c = A_c - Abar and u_c = lambda^c -
lambdabar are deviations from the clients' means, P = I - 11'/M, and V is the mean of ||X_c||_F^2.
T = ||(1/C) sum_c A_c u_c||^2 is the second term of (7). Functions return ``(measured, bound)``.

>>> import numpy as np
>>> g = np.array([[[[1.1], [0.9]], [[0.9], [1.1]]]])  # two clients, d = 1, M = 2
>>> measured, bound = second_order(g, np.array([10.0]), np.array([1.1]))
>>> round(float(measured[0]), 6), round(float(bound[0]), 6)
(0.003984, 0.0044)
"""

from __future__ import annotations

import numpy as np

from experiments.firm.theory.program import apply, gram, root, spectral, squared, weights
from experiments.firm.theory.weights import smoothed
from linsys.linalg import Numbers, lambda_min, norm, solve, transpose

Sides = tuple[Numbers, Numbers]


def solutions(g: Numbers, beta: Numbers) -> Numbers:
    """lambda*^c of (2) for every client, shape (B, C, M)."""
    count, clients, M, d = g.shape
    found = weights(transpose(g.reshape(-1, M, d)), np.repeat(beta, clients))
    return found.reshape(count, clients, M)


def client_mean(values: Numbers) -> Numbers:
    """Average over clients, axis 1."""
    return np.asarray(values.sum(axis=1) / values.shape[1])


def deviations(values: Numbers) -> Numbers:
    """What clients have less their mean, exactly zero where all have the same."""
    shifted = values - values[:, :1]
    return np.asarray(shifted - client_mean(shifted)[:, None])


def power(rows: Numbers) -> Numbers:
    """||X||_F^2 of matrices (..., M, d)."""
    return np.asarray(squared(rows).sum(axis=-1))


def variance(g: Numbers) -> Numbers:
    """V, the clients' mean of ||A_c - Abar||_F^2, shape (B,)."""
    return client_mean(power(deviations(g)))


def tangent(rows: Numbers) -> Numbers:
    """X P of matrices with the columns ``rows`` (..., M, d): their mean over objectives removed."""
    return np.asarray(rows - rows.sum(axis=-2, keepdims=True) / rows.shape[-2])


def drift(g: Numbers, lam: Numbers) -> Numbers:
    """sqrt(T), shape (B,)."""
    return norm(client_mean(_combined(g, deviations(lam))))


def _spectral(rows: Numbers) -> Numbers:
    """||X||_op of matrices with the columns ``rows``."""
    return spectral(transpose(rows))


def _longest(rows: Numbers) -> Numbers:
    """max_j ||x_j||."""
    return np.asarray(norm(rows).max(axis=-1))


def _combined(rows: Numbers, vectors: Numbers) -> Numbers:
    """X v for matrices with the columns ``rows``."""
    return apply(transpose(rows), vectors)


# What the drift is, for any weights.


def covariance(g: Numbers, lam: Numbers) -> Sides:
    """(1/C) sum A_c u_c = (1/C) sum X_c lambda^c = (1/(2C^2)) sum of all pairs; (B, 2, d).

    A pair contributes (A_c - A_c')(lambda^c - lambda^c').
    """
    drifted = client_mean(_combined(g, deviations(lam)))
    chosen = client_mean(_combined(deviations(g), lam))
    pairs = _combined(g[:, :, None] - g[:, None], lam[:, :, None] - lam[:, None])
    halved = pairs.sum(axis=(1, 2)) / (2 * g.shape[1] ** 2)
    return np.stack([drifted, drifted], axis=1), np.stack([chosen, halved], axis=1)


def cauchy_schwarz(g: Numbers, lam: Numbers) -> Sides:
    """T <= mean ||X_c P||_op^2 mean ||u_c||^2; both sides' roots."""
    apart = client_mean(_spectral(tangent(deviations(g))) ** 2)
    return drift(g, lam), np.sqrt(apart * client_mean(squared(deviations(lam))))


def selection(g: Numbers, lam: Numbers) -> Sides:
    """sqrt(T) <= (1/C) sum_c max_j ||g^{j,c} - gbar^j||, whatever the weights are."""
    return drift(g, lam), client_mean(_longest(deviations(g)))


# The solutions of (2): one power of the noise from the gradients, one from the weights.


def lipschitz(A: Numbers, other: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """||lambda* - lambda'*|| <= (2R/beta) ||A - A'||_F, for A and other (B, d, M)."""
    moved = norm(weights(A, beta) - weights(other, beta))
    return moved, 2 * R / beta * np.sqrt(power(A - other))


def second_order(g: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """sqrt(T) <= (2R/beta) V."""
    return drift(g, solutions(g, beta)), 2 * R / beta * variance(g)


def first_order(g: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """T <= (2R/beta) V (1/C) sum_c max_j ||g^{j,c} - gbar^j||; both sides' roots."""
    bound = 2 * R / beta * variance(g) * client_mean(_longest(deviations(g)))
    return drift(g, solutions(g, beta)), np.sqrt(bound)


def second_order_smoothed(
    g: Numbers, start: Numbers, eta: Numbers, beta: Numbers, R: Numbers
) -> Sides:
    """sqrt(T_t) <= (2R/beta) sqrt(V_t) sum_i eta_i prod_{k>i} (1 - eta_k) sqrt(V_i), after (11).

    Gradients g (B, T, C, M, d), one start (B, M) for all clients, eta (B, T).
    """
    T, clients = g.shape[1:3]
    stars = np.stack([solutions(g[:, t], beta) for t in range(T)], axis=1)
    common = np.stack([start] * clients, axis=1)
    reached = 0 * beta
    for t in range(T):
        reached = (1 - eta[:, t]) * reached + eta[:, t] * np.sqrt(variance(g[:, t]))
    bound = 2 * R / beta * np.sqrt(variance(g[:, -1])) * reached
    return drift(g[:, -1], smoothed(common, stars, eta)[:, -1]), bound


def replicas(g: Numbers, beta: Numbers) -> Sides:
    """Every objective twice is half of beta: the same weights in sum, the same drift; (B, CM + 1).

    The drift by its root.
    """
    M = g.shape[2]
    lam = solutions(g, beta / 2)
    twice = np.concatenate([g, g], axis=2)
    doubled = solutions(twice, beta)
    merged = doubled[..., :M] + doubled[..., M:]
    sides = [
        np.concatenate([weight.reshape(len(g), -1), root_drift[:, None]], axis=1)
        for weight, root_drift in ((merged, drift(twice, doubled)), (lam, drift(g, lam)))
    ]
    return sides[0], sides[1]


# Large beta.


def interior(A: Numbers, beta: Numbers) -> Sides:
    """lambda* = 1/M - (2/beta) (I + (2/beta) P G P)^{-1} P G 1/M for beta >= (M - 1) R^2 / 2."""
    M = A.shape[-1]
    away = A - A.sum(axis=-1, keepdims=True) / M
    pull = apply(transpose(away), A.sum(axis=-1) / M)
    factor = 2 / beta[:, None]
    moved = solve(np.eye(M, dtype=int) + factor[..., None] * gram(away), factor * pull)
    return weights(A, beta), (1 + 0 * moved) / M - moved


def large_beta(g: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """|(beta/2) sqrt(T) - k| <= (49/16) (M R^3 / beta) V for beta >= (M - 1) R^2 / 2.

    k = ||(1/C) sum_c X_c P G_c 1/M|| knows nothing of beta.
    """
    M = g.shape[2]
    pull = apply(tangent(g), g.sum(axis=2) / M)
    leading = norm(client_mean(_combined(deviations(g), pull)))
    gap = beta / 2 * drift(g, solutions(g, beta)) - leading
    return np.abs(gap), 49 * M * R**3 / (16 * beta) * variance(g)


# Small beta.


def curvature(A: Numbers) -> Numbers:
    """mu, the smallest eigenvalue of G on vectors of sum zero, (B,); A (B, d, M), M > 1."""
    M = A.shape[-1]
    away = gram(A - A.sum(axis=-1, keepdims=True) / M)
    # the direction of 1 gets the trace, which is no smaller than any eigenvalue
    trace = np.trace(away, axis1=1, axis2=2)[:, None, None]
    return lambda_min(away + trace / M + 0 * away)


def saturated_lipschitz(A: Numbers, other: Numbers, beta: Numbers) -> Sides:
    """(beta/2 + mu) ||lambda* - lambda'*|| <= ||P (G - G') lambda'*||, mu of the first client."""
    here, there = weights(A, beta), weights(other, beta)
    force = apply(gram(A) - gram(other), there)
    force = force - force.sum(axis=-1, keepdims=True) / A.shape[-1]
    return (beta / 2 + curvature(A)) * norm(here - there), norm(force)


def saturation(g: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """sqrt(T) <= 2 (h + R) / (beta + 2 mu) mean ||X_c||_op^2, mu and h = ||Abar P||_op of Abar."""
    middle = client_mean(g)
    spread = _spectral(tangent(middle))
    apart = client_mean(_spectral(deviations(g)) ** 2)
    bound = 2 * (spread + R) / (beta + 2 * curvature(transpose(middle))) * apart
    return drift(g, solutions(g, beta)), bound


# Around the weights of the true gradients.


def _true_drift(g: Numbers, truth: Numbers, beta: Numbers) -> Numbers:
    """||(1/C) sum_c A_c (lambda*^c - lambda*(truth))||, truth (B, M, d)."""
    away = solutions(g, beta) - weights(transpose(truth), beta)[:, None]
    return norm(client_mean(_combined(g, away)))


def true_split(g: Numbers, lam: Numbers, common: Numbers) -> Sides:
    """(1/C) sum A_c (lambda^c - l) = Abar (lambdabar - l) + (1/C) sum X_c u_c, shape (B, d)."""
    whole = client_mean(_combined(g, lam - common[:, None]))
    shifted = _combined(client_mean(g), client_mean(lam) - common)
    return whole, shifted + client_mean(_combined(deviations(g), deviations(lam)))


def true_weights(g: Numbers, truth: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """sqrt(T) <= (1 + sqrt(1 + 2 R^2/beta)) / 2 (1/C) sum_c ||A_c - A||_op."""
    apart = client_mean(_spectral(g - truth[:, None]))
    return _true_drift(g, truth, beta), (1 + np.sqrt(1 + 2 * R**2 / beta)) / 2 * apart


def true_weights_large_beta(g: Numbers, truth: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """sqrt(T) <= (2 sqrt(M) R^2/beta) (1/C) sum_c ||A_c - A||_F."""
    apart = client_mean(np.sqrt(power(g - truth[:, None])))
    return _true_drift(g, truth, beta), 2 * root(g.shape[2], R) * R**2 / beta * apart


def true_weights_without_beta(g: Numbers, truth: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """sqrt(T) <= (1/C) sum_c (s_c + sqrt(s_c^2 + 8 R s_c)) / 2, s_c = max_j ||g^{j,c} - g^j||."""
    apart = _longest(g - truth[:, None])
    bound = client_mean((apart + np.sqrt(apart**2 + 8 * R[:, None] * apart)) / 2)
    return _true_drift(g, truth, beta), bound
