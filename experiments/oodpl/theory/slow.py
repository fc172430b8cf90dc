"""OOD-PL, Theorem 1: rounds whose inner loops hardly move, which leave phi where it is.

One prompt, two answers, one pair (0 preferred to 1), a policy of one parameter, linear rewards of
one phi, one domain. The policy reaches (9), so that L(phi) = log(1 + e^(-u)) with

    u = log(mu_hat(0)/mu_hat(1)) + (r(0) - r(1))/beta,    |grad L| = sigma(-u) |xi_0 - xi_1|/beta,

and L is smooth with (xi_0 - xi_1)^2/(4 beta^2) for all phi. A step of Algorithm 1 is (d theta_D/d
phi) grad_theta l_PL. Its second factor is at most s = d sigma(R d - u_0), d the distance of the
features and u_0 the policy's log-odds at theta = 0; its first one is a sum of D terms of at most
(alpha/beta) e^(r/beta) T M, where |1 - alpha e^(r/beta) curvature| <= 1. After k rounds phi is
therefore at most m_k away from 0, m_(k+1) = m_k + eta D (alpha/beta) T M s e^((r + T m_k)/beta),
whatever is drawn, and |grad L| at least what it is at u + |xi_0 - xi_1| m_k/beta.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.oodpl.theory.inner import Inner
from linsys.linalg import Numbers, logistic


@dataclass(frozen=True, eq=False)
class SlowRounds:
    """K rounds from phi = 0 and theta_* = 0; arrays (B,).

    Attributes:
        run: the inner loop at phi = 0 with the radius R; its ``D`` is not looked at.
        steps: D.
        K: how many rounds.
        P: the constant of eta = 1/(4 P).
    """

    run: Inner
    steps: Numbers
    K: Numbers
    P: Numbers

    @cached_property
    def slant(self) -> Numbers:
        """|xi_0 - xi_1| / beta."""
        xi = self.run.system.reward.xi[:, 0, :, 0]
        return np.asarray(np.abs(xi[:, 0] - xi[:, 1]) / self.run.system.beta)

    @cached_property
    def _odds(self) -> Numbers:
        """u at phi = 0: the policy's own log-odds, as it reaches (9)."""
        log_pi = self.run.system.policy.log_pi(self.run.theta_star)[:, 0]
        return np.asarray(log_pi[:, 0] - log_pi[:, 1])

    @property
    def smoothness(self) -> Numbers:
        """A Lipschitz constant of grad L, for all phi."""
        return np.asarray(self.slant**2 / 4)

    @cached_property
    def _highest(self) -> Numbers:
        """The largest r at phi = 0."""
        return np.asarray(self.run.system.reward.r0.max(axis=(1, 2)))

    @cached_property
    def moved(self) -> Numbers:
        """m_0, ..., m_K, (B, most + 1); the last one is kept from K on."""
        beta, T, at = self.run.system.beta, self.run.reward.T, self.run.policy
        slope = at.d * logistic(at.R * at.d - self._odds)
        step = self.steps * self.run.alpha / beta * T * at.M * slope / (4 * self.P)
        here = 0 * beta
        far = [here]
        for k in range(max(int(K) for K in self.K)):
            after = here + step * np.exp((self._highest + T * here) / beta)
            here = np.where(k < self.K, after, here)
            far.append(here)
        return np.stack(far, axis=-1)

    @property
    def last(self) -> Numbers:
        """m_K."""
        return self.moved[:, -1]

    @property
    def optimum(self) -> Numbers:
        """The largest |theta_*| of these phi."""
        return np.asarray(self.slant * self.last / self.run.policy.d)

    @property
    def small_steps(self) -> Numbers:
        """Whether alpha e^(r/beta) times the curvature of any policy is at most 2."""
        run = self.run
        weight = np.exp((self._highest + run.reward.T * self.last) / run.system.beta)
        return np.asarray(run.alpha * weight * run.policy.d**2 / 4 <= 2)

    @property
    def least(self) -> Numbers:
        """(1/K) sum over k < K of ||grad L(phi_k)||^2 is at least this, for all draws."""
        u = self._odds[:, None] + self.slant[:, None] * self.moved[:, :-1]
        squares = (self.slant[:, None] * logistic(-u)) ** 2
        counted = np.arange(squares.shape[1]) < self.K[:, None]
        return np.asarray(np.where(counted, squares, 0 * squares).sum(axis=1) / self.K)

    @property
    def gap(self) -> Numbers:
        """L(phi_0), which is at least L(phi_0) - inf L."""
        return np.asarray(np.log(1 + np.exp(-self._odds)))
