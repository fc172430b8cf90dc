"""FIRM, Appendix F: one step of the averaged policy, its error terms, and their sum over time.

Objectives with known gradients and a known smoothness constant: J^j(theta) = b_j . theta + sum_i
h_ji phi(theta_i - o_ji), phi(x) = x |x| / 2, whose gradient b + h |theta - o| has the Lipschitz
constant max |h| and, unlike a quadratic's, does not commute with averages.

>>> import numpy as np
>>> ones = np.ones((1, 1, 1))
>>> step = Round(
...     b=0 * ones, h=ones, o=0 * ones, theta=np.array([[[1.0], [-1.0]]]),
...     g=np.ones((1, 2, 1, 1)), lam=np.ones((1, 2, 1)), common=np.ones((1, 1)),
... )
>>> step.drift.tolist()  # |theta| is 1 at both clients and 0 at their average
[1.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import ratecheck as rc
from linsys.linalg import Numbers, agent_mean, is_precise, precise, squared


@dataclass(frozen=True, eq=False)
class Round:
    """B rounds of C clients.

    Attributes:
        b, h, o: the objectives, (B, M, d).
        theta: the clients' policies, (B, C, d).
        g: their stochastic gradients g^{j,c}, (B, C, M, d).
        lam: their weights lambda^c, (B, C, M).
        common: lambda_t, (B, M).
    """

    b: Numbers
    h: Numbers
    o: Numbers
    theta: Numbers
    g: Numbers
    lam: Numbers
    common: Numbers

    def values(self, theta: Numbers) -> Numbers:
        """J(theta) at points (B, d), shape (B, M)."""
        away = theta[:, None] - self.o
        return np.asarray((self.b * theta[:, None] + self.h * away * np.abs(away) / 2).sum(axis=-1))

    def gradients(self, theta: Numbers) -> Numbers:
        """grad J^j at points (B, C, d), shape (B, C, M, d)."""
        away = np.abs(theta[:, :, None] - self.o[:, None])
        return np.asarray(self.b[:, None] + self.h[:, None] * away)

    def weighed(self, gradients: Numbers) -> Numbers:
        """sum_j lambda_t^j of vectors (..., M, d) per client, shape (B, C, d)."""
        return np.asarray((gradients * self.common[:, None, :, None]).sum(axis=-2))

    @cached_property
    def centre(self) -> Numbers:
        """thetabar, (B, d)."""
        return agent_mean(self.theta)

    @cached_property
    def direction(self) -> Numbers:
        """gbar, (B, d)."""
        return agent_mean((self.g * self.lam[..., None]).sum(axis=-2))

    @cached_property
    def gradient(self) -> Numbers:
        """grad J(thetabar) lambda_t, (B, d)."""
        return self.weighed(self.gradients(self.centre[:, None]))[:, 0]

    @cached_property
    def local(self) -> Numbers:
        """grad J^j(theta^c), (B, C, M, d)."""
        return self.gradients(self.theta)

    @cached_property
    def error(self) -> Numbers:
        """T_1 = ||gbar - grad J(thetabar) lambda_t||^2."""
        return squared(self.direction - self.gradient)

    @cached_property
    def estimation(self) -> Numbers:
        """T_{1,1} = ||gbar - (1/C) sum_c grad J(theta^c) lambda_t||^2."""
        return squared(self.direction - agent_mean(self.weighed(self.local)))

    @cached_property
    def drift(self) -> Numbers:
        """T_{1,2} = ||(1/C) sum_c (grad J(theta^c) - grad J(thetabar)) lambda_t||^2."""
        return squared(agent_mean(self.weighed(self.local)) - self.gradient)

    @cached_property
    def gradient_error(self) -> Numbers:
        """||(1/C) sum_c sum_j lambda_t^j (g^{j,c} - grad J^j(theta^c))||^2."""
        return squared(agent_mean(self.weighed(self.g - self.local)))

    @cached_property
    def disagreement(self) -> Numbers:
        """||(1/C) sum_c sum_j g^{j,c} (lambda^{j,c} - lambda_t^j)||^2."""
        return squared(self.direction - agent_mean(self.weighed(self.g)))


def harmonic(T: Numbers, longest: int) -> Numbers:
    """sum_{t=1}^T 1/t for whole T (B,) up to ``longest``."""
    times = np.arange(1, longest + 1)
    shares = 1 / (precise(times) if is_precise(T) else times)
    return np.asarray(np.where(times <= T[:, None], shares, 0 * shares).sum(axis=-1))


def eq34(T: Numbers, a: Numbers, top: Numbers, longest: int) -> rc.Sides:
    """(34): (2 top/(T a)) (1 + sum_{t<=T} 2/t) <= (2 top/T) (1 + log T), top = r_max/(1-gamma)."""
    scale = 2 * top / T
    return scale / a * (1 + 2 * harmonic(T, longest)), scale * (1 + np.log(T))


def eq34_corrected(T: Numbers, a: Numbers, top: Numbers, longest: int) -> rc.Sides:
    """(2 top/(T a)) (1 + sum_{t<=T} 2/t) <= (2 top/(T a)) (3 + 2 log T)."""
    measured, _ = eq34(T, a, top, longest)
    return measured, 2 * top / (T * a) * (3 + 2 * np.log(T))
