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

from experiments.firm.theory.program import squared
from experiments.firm.theory.weights import smoothed
from linsys.linalg import Numbers, is_precise, precise

Sides = tuple[Numbers, Numbers]


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
        return _mean(self.theta)

    @cached_property
    def direction(self) -> Numbers:
        """gbar, (B, d)."""
        return _mean((self.g * self.lam[..., None]).sum(axis=-2))

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
        return squared(self.direction - _mean(self.weighed(self.local)))

    @cached_property
    def drift(self) -> Numbers:
        """T_{1,2} = ||(1/C) sum_c (grad J(theta^c) - grad J(thetabar)) lambda_t||^2."""
        return squared(_mean(self.weighed(self.local)) - self.gradient)

    @cached_property
    def gradient_error(self) -> Numbers:
        """||(1/C) sum_c sum_j lambda_t^j (g^{j,c} - grad J^j(theta^c))||^2."""
        return squared(_mean(self.weighed(self.g - self.local)))

    @cached_property
    def disagreement(self) -> Numbers:
        """||(1/C) sum_c sum_j g^{j,c} (lambda^{j,c} - lambda_t^j)||^2."""
        return squared(self.direction - _mean(self.weighed(self.g)))


def _mean(values: Numbers) -> Numbers:
    """Average over clients."""
    return np.asarray(values.sum(axis=1) / values.shape[1])


def eq12(step: Round, a: Numbers, L: Numbers) -> Sides:
    """(12): lambda_t'(J(thetabar + a gbar) - J(thetabar)) and its lower bound, all terms."""
    after = step.values(step.centre + a[:, None] * step.direction)
    gain = (step.common * (after - step.values(step.centre))).sum(axis=-1)
    kept = a * (1 - a * L) / 2 * squared(step.direction)
    return gain, a / 2 * squared(step.gradient) + kept - a / 2 * step.error


def eq5(step: Round, a: Numbers, L: Numbers) -> Sides:
    """(5): the same without the term in ||gbar||^2, for a <= 1 / L_J."""
    bound = a / 2 * squared(step.gradient) - a / 2 * step.error
    return eq12(step, a, L)[0], bound


def eq6(step: Round) -> Sides:
    """(6): T_1 <= 2 ||(1/C) sum (g^c - grad J(theta^c) lambda^c)||^2 + 2 T_{1,2}."""
    own = (step.local * step.lam[..., None]).sum(axis=-2)
    return step.error, 2 * squared(step.direction - _mean(own)) + 2 * step.drift


def eq13(step: Round, factor: int = 1) -> Sides:
    """(13): T_1 <= factor (T_{1,1} + T_{1,2}); the paper prints no factor."""
    return step.error, factor * (step.estimation + step.drift)


def eq14(step: Round, factor: int = 1) -> Sides:
    """(7) and (14): T_{1,1} <= factor (gradient error + disagreement); no factor is printed."""
    return step.estimation, factor * (step.gradient_error + step.disagreement)


def eq15(parts: Numbers) -> Sides:
    """||x + y + z||^2 <= 3 (||x||^2 + ||y||^2 + ||z||^2), parts (B, 3, d)."""
    return squared(parts.sum(axis=1)), 3 * squared(parts).sum(axis=1)


def eq26(step: Round, a: Numbers, L: Numbers, R: Numbers, steps: int, constant: int = 4) -> Sides:
    """(26): T_{1,2} <= constant L_J^2 R^2 a^2 K^2 after K steps of length at most a R."""
    return step.drift, constant * (L * R * a * steps) ** 2


def path_sum(J: Numbers, lam: Numbers) -> Numbers:
    """sum_{t=1}^T lambda_t'(J_{t+1} - J_t) for J_1, ..., J_{T+1} and lambda_1, ..., lambda_T."""
    return np.asarray((lam * (J[:, 1:] - J[:, :-1])).sum(axis=(1, 2)))


def lemma10(J: Numbers, start: Numbers, stars: Numbers, eta: Numbers, top: Numbers) -> Sides:
    """Lemma 10: path_sum <= top (1 + sum_{t=1}^{T-1} 2 eta_t) for J in [0, top].

    J (B, T + 1, M), lambda_0 = start (B, M), lambda*_t = stars (B, T, M), eta (B, T).
    """
    lam = smoothed(start, stars, eta)[:, 1:]
    return path_sum(J, lam), top * (1 + 2 * eta[:, :-1].sum(axis=1))


def lemma10_corrected(
    J: Numbers, start: Numbers, stars: Numbers, eta: Numbers, top: Numbers
) -> Sides:
    """path_sum <= top (1 + sum_{t=2}^T eta_t)."""
    measured, _ = lemma10(J, start, stars, eta, top)
    return measured, top * (1 + eta[:, 1:].sum(axis=1))


def harmonic(T: Numbers, longest: int) -> Numbers:
    """sum_{t=1}^T 1/t for whole T (B,) up to ``longest``."""
    times = np.arange(1, longest + 1)
    shares = 1 / (precise(times) if is_precise(T) else times)
    return np.asarray(np.where(times <= T[:, None], shares, 0 * shares).sum(axis=-1))


def eq34(T: Numbers, a: Numbers, top: Numbers, longest: int) -> Sides:
    """(34): (2 top/(T a)) (1 + sum_{t<=T} 2/t) <= (2 top/T) (1 + log T), top = r_max/(1-gamma)."""
    scale = 2 * top / T
    return scale / a * (1 + 2 * harmonic(T, longest)), scale * (1 + np.log(T))


def eq34_corrected(T: Numbers, a: Numbers, top: Numbers, longest: int) -> Sides:
    """(2 top/(T a)) (1 + sum_{t<=T} 2/t) <= (2 top/(T a)) (3 + 2 log T)."""
    measured, _ = eq34(T, a, top, longest)
    return measured, 2 * top / (T * a) * (3 + 2 * np.log(T))


def comm(clients: int, objectives: int, size: int) -> Sides:
    """Numbers sent up in a round: one vector per client, or one per client and objective."""
    in_client, at_server = np.zeros((clients, size)), np.zeros((clients, objectives, size))
    expected = np.array([clients * size, clients * objectives * size])
    return np.array([in_client.size, at_server.size]), expected
