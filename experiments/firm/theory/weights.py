"""FIRM, Appendices C and F.1.2: the clients' weights, their averages and what they disagree about.

Weights of C clients have shape (B, C, M), their gradients (B, C, M, d); lambdabar is the clients'
average. Functions return ``(measured, bound)``, B first; a chain of inequalities becomes an axis.

>>> import numpy as np
>>> lam = np.array([[[1.0, 0.0], [0.0, 1.0]]])
>>> measured, bound = S2(lam)
>>> measured[0, 0].tolist(), bound[0, 0].tolist()
([1.0, 1.0], [2.0, 2.0])
"""

from __future__ import annotations

import numpy as np

from experiments.firm.theory.program import root, squared, weights
from linsys.linalg import Numbers, norm

Sides = tuple[Numbers, Numbers]


def _total(pairs: Numbers) -> Numbers:
    """The sum over pairs of clients, (B, C, C) to (B,)."""
    return np.asarray(pairs.reshape(len(pairs), -1).sum(axis=-1))


def centred(values: Numbers) -> Numbers:
    """What clients have, less its average over clients (axis 1)."""
    return np.asarray(values - values.sum(axis=1, keepdims=True) / values.shape[1])


def _combined(g: Numbers, lam: Numbers) -> Numbers:
    """sum_j lambda^{j,c} g^{j,c}, shape (B, C, d)."""
    return np.asarray((g * lam[..., None]).sum(axis=-2))


def _mean(values: Numbers) -> Numbers:
    """Average over clients."""
    return np.asarray(values.sum(axis=1) / values.shape[1])


def disagreement(g: Numbers, lam: Numbers) -> Numbers:
    """||(1/C) sum_c sum_j g^{j,c} (lambda^{j,c} - lambdabar^j)||^2, the second term of (7)."""
    return squared(_mean(_combined(g, centred(lam))))


def _spread(lam: Numbers) -> Numbers:
    """S_c = ||lambda^c - lambdabar||_1, shape (B, C)."""
    return np.asarray(np.abs(centred(lam)).sum(axis=-1))


def _pairs(values: Numbers) -> Numbers:
    """Differences of what clients have, (B, C, C, ...)."""
    return np.asarray(values[:, :, None] - values[:, None])


def fedcmoo(g: Numbers, common: Numbers) -> Sides:
    """With one lambda for all, the mean of the directions is that of the mean gradients."""
    shared = common[:, None] + 0 * g[..., 0]
    return _mean(_combined(g, shared)), (_mean(g) * common[..., None]).sum(axis=-2)


def eq11(old: Numbers, star: Numbers, eta: Numbers) -> Sides:
    """(1 - eta) lambda + eta lambda* has sum one and no negative part: sum |.| = 1; (B, 2)."""
    mixed = (1 - eta[:, None]) * old + eta[:, None] * star
    sums = np.stack([mixed.sum(axis=-1), np.abs(mixed).sum(axis=-1)], axis=1)
    return sums, 0 * sums + 1


def projected(w: Numbers, radius: Numbers) -> Numbers:
    """min(1, R_w / ||w||) w, for vectors (B, d)."""
    size, limit = norm(w), radius
    factor = np.where(size > limit, limit / np.where(size > limit, size, limit), 1 + 0 * size)
    return np.asarray(w * factor[:, None])


def proj(w: Numbers, other: Numbers, inside: Numbers, radius: Numbers) -> Sides:
    """No point of the ball is nearer, the result is in the ball, no distance grows; (B, 3)."""
    here, there = projected(w, radius), projected(other, radius)
    measured = norm(here - w), norm(here), norm(here - there)
    bound = norm(inside - w), radius, norm(w - other)
    return np.stack(measured, axis=1), np.stack(bound, axis=1)


def S2(lam: Numbers) -> Sides:
    """S_c <= 2 and S_c^2 <= 2 S_c, shape (B, 2, C)."""
    spread = _spread(lam)
    return np.stack([spread, spread**2], axis=1), np.stack([0 * spread + 2, 2 * spread], axis=1)


def eq18(g: Numbers, lam: Numbers) -> Sides:
    """disagreement <= mean ||.||^2 <= mean (sum_j ||g^{j,c}|| |lambda^{j,c} - lambdabar^j|)^2."""
    apart = centred(lam)
    square = _mean(squared(_combined(g, apart)))
    triangle = _mean((norm(g) * np.abs(apart)).sum(axis=-1) ** 2)
    return np.stack([disagreement(g, lam), square], axis=1), np.stack([square, triangle], axis=1)


def eq18_sharper(g: Numbers, lam: Numbers) -> Sides:
    """disagreement <= ((1/C) sum_c max_j ||g^{j,c} - gbar^j|| S_c)^2, without beta and R."""
    apart = norm(centred(g)).max(axis=-1)
    return disagreement(g, lam), _mean(apart * _spread(lam)) ** 2


def eq18_crude(g: Numbers, lam: Numbers) -> Sides:
    """disagreement <= (2 (1 - 1/C) max_{j,c} ||g^{j,c} - gbar^j||)^2."""
    clients = g.shape[1]
    apart = norm(centred(g)).max(axis=(1, 2))
    return disagreement(g, lam), (2 * (clients - 1) * apart / clients) ** 2


def eq19_20(g: Numbers, lam: Numbers, R: Numbers) -> Sides:
    """The drift <= R^2 mean S^2 <= 2R^2 mean S <= (2R^2/C^2) sum of distances, in l1 and l2.

    S_c = ||lambda^c - lambdabar||_1, distances of all pairs of clients; the last with sqrt(M).
    """
    pairs = _pairs(lam)
    clients, M = lam.shape[1:]
    spread = _spread(lam)
    share = 2 * R**2 / clients**2
    chain = [
        disagreement(g, lam),
        R**2 * _mean(spread**2),
        2 * R**2 * _mean(spread),
        share * _total(np.abs(pairs).sum(axis=-1)),
        share * root(M, R) * _total(norm(pairs)),
    ]
    return np.stack(chain[:-1], axis=1), np.stack(chain[1:], axis=1)


def smoothed(start: Numbers, stars: Numbers, eta: Numbers) -> Numbers:
    """lambda_0, lambda_1, ..., lambda_T by (11); stars (B, T, ..., M), eta (B, T)."""
    path = [start]
    for t in range(stars.shape[1]):
        step = eta[:, t].reshape(-1, *[1] * (start.ndim - 1))
        path.append((1 - step) * path[-1] + step * stars[:, t])
    return np.stack(path, axis=1)


def eq21(starts: Numbers, stars: Numbers, eta: Numbers) -> Sides:
    """||lambda^c - lambda^c'|| <= (1 - eta) ||before|| + eta ||lambda*^c - lambda*^c'||.

    Two clients: starts (B, 2, M), stars (B, T, 2, M), eta (B, T); every t, shape (B, T).
    """
    path = smoothed(starts, stars, eta)
    gap = norm(path[:, :, 0] - path[:, :, 1])
    optimal = norm(stars[:, :, 0] - stars[:, :, 1])
    return gap[:, 1:], (1 - eta) * gap[:, :-1] + eta * optimal


def eq22(start: Numbers, stars: Numbers, eta: Numbers) -> Sides:
    """||lambda_T^c - lambda_T^c'|| <= sum_i eta_i prod_{k>i} (1 - eta_k) ||lambda_i*^c - ...||.

    From one start (B, M).
    """
    path = smoothed(np.stack([start, start], axis=1), stars, eta)
    optimal = norm(stars[:, :, 0] - stars[:, :, 1])
    bound, kept = 0 * optimal[:, 0], 1 + 0 * optimal[:, 0]
    for i in reversed(range(eta.shape[1])):
        bound = bound + eta[:, i] * kept * optimal[:, i]
        kept = kept * (1 - eta[:, i])
    return norm(path[:, -1, 0] - path[:, -1, 1]), bound


def rem2(g: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """disagreement of lambda*^c <= (4 R^3 M / (beta C^2)) sum_{c,c'} max_j ||g^{j,c} - g^{j,c'}||.

    (23) for one step from a common lambda with eta = 1, with M in the place of 2 M^{3/2}.
    """
    count, clients, M, d = g.shape
    A = np.swapaxes(g, -1, -2).reshape(-1, d, M)
    lam = weights(A, np.repeat(beta, clients)).reshape(count, clients, M)
    gaps = _total(norm(_pairs(g)).max(axis=-1))
    return disagreement(g, lam), 4 * R**3 * M / (beta * clients**2) * gaps
