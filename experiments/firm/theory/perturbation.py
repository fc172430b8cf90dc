"""The disagreement drift as a perturbation: what it is for small noise, large beta and small beta.

Gradients g of C clients have shape (B, C, M, d), their weights (B, C, M), beta and R, the length of
the longest gradient, (B,). A_c has the columns g^{j,c}; X_c = A_c - Abar and u_c = lambda^c -
lambdabar are deviations from the clients' means, P = I - 11'/M, and V is the mean of ||X_c||_F^2.
T = ||(1/C) sum_c A_c u_c||^2 is the second term of (7). Statements return ``(measured, bound)``.

>>> import numpy as np
>>> g = np.array([[[[1.1], [0.9]], [[0.9], [1.1]]]])  # two clients, d = 1, M = 2
>>> measured, bound = second_order(g, np.array([10.0]), np.array([1.1]))
>>> round(float(measured[0]), 6), round(float(bound[0]), 6)
(0.003984, 0.0044)
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.firm.theory.program import spectral, weights
from linsys.linalg import Numbers, agent_mean, apply, norm, squared, transpose


def solutions(g: Numbers, beta: Numbers) -> Numbers:
    """lambda*^c of (2) for every client, shape (B, C, M)."""
    count, clients, M, d = g.shape
    flat = weights(transpose(g.reshape(-1, M, d)), np.repeat(beta, clients))
    return flat.reshape(count, clients, M)


def deviations(values: Numbers) -> Numbers:
    """What clients have less their mean, exactly zero where all have the same."""
    shifted = values - values[:, :1]
    return np.asarray(shifted - agent_mean(shifted)[:, None])


def power(rows: Numbers) -> Numbers:
    """||X||_F^2 of matrices (..., M, d)."""
    return np.asarray(squared(rows).sum(axis=-1))


def variance(g: Numbers) -> Numbers:
    """V, the clients' mean of ||A_c - Abar||_F^2, shape (B,)."""
    return agent_mean(power(deviations(g)))


def tangent(rows: Numbers) -> Numbers:
    """X P of matrices with the columns ``rows`` (..., M, d): their mean over objectives removed."""
    return np.asarray(rows - rows.sum(axis=-2, keepdims=True) / rows.shape[-2])


def drift(g: Numbers, lam: Numbers) -> Numbers:
    """sqrt(T), shape (B,)."""
    return norm(agent_mean(combined(g, deviations(lam))))


def spectral_of(rows: Numbers) -> Numbers:
    """||X||_op of matrices with the columns ``rows``."""
    return spectral(transpose(rows))


def longest(rows: Numbers) -> Numbers:
    """max_j ||x_j||."""
    return np.asarray(norm(rows).max(axis=-1))


def combined(rows: Numbers, vectors: Numbers) -> Numbers:
    """X v for matrices with the columns ``rows``."""
    return np.asarray(apply(transpose(rows), vectors))


# What the drift is, for any weights.


def covariance(g: Numbers, lam: Numbers) -> rc.Sides:
    """(1/C) sum A_c u_c = (1/C) sum X_c lambda^c = (1/(2C^2)) sum of all pairs; (B, 2, d).

    A pair contributes (A_c - A_c')(lambda^c - lambda^c').
    """
    drifted = agent_mean(combined(g, deviations(lam)))
    chosen = agent_mean(combined(deviations(g), lam))
    pairs = combined(g[:, :, None] - g[:, None], lam[:, :, None] - lam[:, None])
    halved = pairs.sum(axis=(1, 2)) / (2 * g.shape[1] ** 2)
    return np.stack([drifted, drifted], axis=1), np.stack([chosen, halved], axis=1)


def cauchy_schwarz(g: Numbers, lam: Numbers) -> rc.Sides:
    """T <= mean ||X_c P||_op^2 mean ||u_c||^2; both sides' roots."""
    apart = agent_mean(spectral_of(tangent(deviations(g))) ** 2)
    return drift(g, lam), np.sqrt(apart * agent_mean(squared(deviations(lam))))


def selection(g: Numbers, lam: Numbers) -> rc.Sides:
    """sqrt(T) <= (1/C) sum_c max_j ||g^{j,c} - gbar^j||, whatever the weights are."""
    return drift(g, lam), agent_mean(longest(deviations(g)))


# The solutions of (2): one power of the noise from the gradients, one from the weights.


def second_order(g: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """sqrt(T) <= (2R/beta) V."""
    return drift(g, solutions(g, beta)), 2 * R / beta * variance(g)
