"""FIRM, Lemma 10 and (32): runs of one client on objectives that are bounded and smooth everywhere.

J^j(theta) = top h(theta_j), where h' is 0 below 0, x up to 1, 2 - x up to 2, and 0 beyond. So h is
in [0, 1] and h' Lipschitz with 1: J^j is in [0, top], and L_J = top.

*They are returns* of one state, where an action has M parts a_j, 0 or 1, which are drawn
independently, a_j = 1 with probability h(theta_j), and r^j = r_max a_j: J^j = gamma r_max
h(theta_j)/(1 - gamma), so that top = gamma r_max/(1 - gamma). With e + (1 - 2e) h for h and a small
e > 0 scores exist and are bounded as well, and all numbers are as near to these as one likes.

*Noise* of mean zero: g^j = grad J^j +- top c^j along an axis of its own, which no objective depends
on. The weights of (1) are the same whatever the signs are, and so are J and the first M coordinates
of theta.

>>> import numpy as np
>>> one = np.ones(1)
>>> run = Climb(
...     first=np.array([[0.5, 1.0]]), start=np.array([[1.0, 0.0]]), noise=np.zeros((1, 2, 2)),
...     eta=np.zeros((1, 2)), beta=one, a=one, top=one,
... )
>>> run.thetas[0].tolist(), run.J[0].tolist()
([[0.5, 1.0], [1.0, 1.0], [2.0, 1.0]], [[0.125, 0.5], [0.5, 0.5], [1.0, 0.5]])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from linsys.linalg import Numbers, squared


def slope(x: Numbers) -> Numbers:
    """h'."""
    return np.asarray(_positive(x) - 2 * _positive(x - 1) + _positive(x - 2))


def height(x: Numbers) -> Numbers:
    """h, the integral of h' from 0."""
    parts = (x * _positive(x), (x - 1) * _positive(x - 1), (x - 2) * _positive(x - 2))
    return np.asarray((parts[0] - 2 * parts[1] + parts[2]) / 2)


def _positive(x: Numbers) -> Numbers:
    return np.asarray((x + np.abs(x)) / 2)


@dataclass(frozen=True, eq=False)
class Climb:
    """theta_{t+1} = theta_t + (a / L_J) sum_j lambda_t^j g_t^j for t = 1, ..., T, weights by (11).

    Attributes:
        first: theta_1, its first M coordinates, (B, M).
        start: lambda_0, (B, M).
        noise: c_t^j, (B, T, M).
        eta: (B, T).
        beta: that of (1), (B,).
        a: the step size times L_J, (B,).
        top: the largest value of every objective, and L_J, (B,).
    """

    first: Numbers
    start: Numbers
    noise: Numbers
    eta: Numbers
    beta: Numbers
    a: Numbers
    top: Numbers

    @cached_property
    def _run(self) -> tuple[Numbers, Numbers]:
        theta, lam, thetas, weights = self.first, self.start, [self.first], []
        for t in range(self.noise.shape[1]):
            true, eta = slope(theta), self.eta[:, t, None]
            # the gradients are at right angles to each other
            lengths = self.top[:, None] ** 2 * (true**2 + self.noise[:, t] ** 2)
            star = 1 / (lengths + self.beta[:, None] / 2)
            star = star / star.sum(axis=-1, keepdims=True)
            lam = (1 - eta) * lam + eta * star
            theta = theta + self.a[:, None] * lam * true
            thetas.append(theta)
            weights.append(lam)
        return np.stack(thetas, axis=1), np.stack(weights, axis=1)

    @property
    def thetas(self) -> Numbers:
        """The first M coordinates of theta_1, ..., theta_{T+1}, (B, T + 1, M)."""
        return self._run[0]

    @property
    def lam(self) -> Numbers:
        """lambda_1, ..., lambda_T, (B, T, M)."""
        return self._run[1]

    @cached_property
    def J(self) -> Numbers:
        """J(theta_1), ..., J(theta_{T+1}), (B, T + 1, M)."""
        return np.asarray(self.top[:, None, None] * height(self.thetas))

    def _mean_square(self, vectors: Numbers) -> Numbers:
        """(1/T) sum_t ||lambda_t * x_t||^2 in units of top^2 for x (B, T, M), (B,)."""
        squares = squared(self.lam * vectors).sum(axis=1) / self.lam.shape[1]
        return np.asarray(self.top**2 * squares)

    @property
    def stationarity(self) -> Numbers:
        """(1/T) sum_t ||grad J(theta_t) lambda_t||^2, (B,)."""
        return self._mean_square(slope(self.thetas[:, :-1]))

    @property
    def error(self) -> Numbers:
        """(1/T) sum_t T_1, the squared noise, (B,)."""
        return self._mean_square(self.noise)
