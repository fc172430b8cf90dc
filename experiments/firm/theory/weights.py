"""FIRM, Appendices C and F.1.2: the clients' weights, their averages and what they disagree about.

Weights of C clients have shape (B, C, M), their gradients (B, C, M, d); lambdabar is the clients'
average.

>>> import numpy as np
>>> lam = np.array([[[1.0, 0.0], [0.0, 1.0]]])
>>> spread_of(lam).tolist()
[[1.0, 1.0]]
"""

from __future__ import annotations

import numpy as np

from linsys.linalg import Numbers, agent_mean, squared


def centred(values: Numbers) -> Numbers:
    """What clients have, less its average over clients (axis 1)."""
    return np.asarray(values - values.sum(axis=1, keepdims=True) / values.shape[1])


def combined(g: Numbers, lam: Numbers) -> Numbers:
    """sum_j lambda^{j,c} g^{j,c}, shape (B, C, d)."""
    return np.asarray((g * lam[..., None]).sum(axis=-2))


def disagreement(g: Numbers, lam: Numbers) -> Numbers:
    """||(1/C) sum_c sum_j g^{j,c} (lambda^{j,c} - lambdabar^j)||^2, the second term of (7)."""
    return squared(agent_mean(combined(g, centred(lam))))


def spread_of(lam: Numbers) -> Numbers:
    """S_c = ||lambda^c - lambdabar||_1, shape (B, C)."""
    return np.asarray(np.abs(centred(lam)).sum(axis=-1))


def smoothed(start: Numbers, stars: Numbers, eta: Numbers) -> Numbers:
    """lambda_0, lambda_1, ..., lambda_T by (11); stars (B, T, ..., M), eta (B, T)."""
    path = [start]
    for t in range(stars.shape[1]):
        step = eta[:, t].reshape(-1, *[1] * (start.ndim - 1))
        path.append((1 - step) * path[-1] + step * stars[:, t])
    return np.stack(path, axis=1)
