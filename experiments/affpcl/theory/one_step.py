"""One round of AffPCL from given iterates: the systems, the iterates and the exact moments.

The iterates are given as errors, x^i = x_*^i + dx^i and so on, and every agent of an instance may
stand for a whole group of equal agents, so that 1/n becomes small while instances stay small: with
c agents in each of the stack's n groups, averages over agents stay what they are, and of every sum
of independent samples only the variance shrinks by c.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from experiments.affpcl.theory.directions import (
    central_residual,
    covariance,
    importance_corrected,
    local_residual,
    mean,
    own,
    variance,
)
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import Numbers


class PersonalStack(FiniteStack):
    """Finite systems together with iterates, an estimated density ratio and a step size.

    Further arrays, all of B instances, as far as a statement needs them; without ``psi`` and
    ``deta`` the density ratio is known:
        dx: x^i - x_*^i, shape (B, n, d).
        dx_c, dtheta: x^c - x_*^c and theta^c - theta_*^c, shape (B, d).
        psi: features of the ratio, ||psi(s)|| <= 1, shape (B, S, S) and invertible, so that there
            is an eta_*^i with psi(s)' eta_*^i = rho^i(s).
        deta: eta^i - eta_*^i, shape (B, n, S).
        share: the step size as a share of the largest one that a statement allows, shape (B,).
        doublings: every group has 2^doublings equal agents, shape (B,).
    """

    dx: Numbers
    dx_c: Numbers
    dtheta: Numbers
    psi: Numbers
    deta: Numbers
    share: Numbers
    doublings: Numbers

    @cached_property
    def copies(self) -> Numbers:
        """Number of equal agents in every group, shape (B, 1)."""
        return np.asarray(2 ** self.doublings[:, None] + 0 * self.lambda_A[:, None])

    @property
    def rate(self) -> Numbers:
        """1 over the number of agents, shape (B, 1)."""
        return np.asarray(1 / (self.n * self.copies))

    @cached_property
    def x(self) -> Numbers:
        """x^i, shape (B, n, d)."""
        return np.asarray(self.x_star + self.dx)

    @cached_property
    def central(self) -> Numbers:
        """g^{c->i}(x^c; theta^c) at s^i = s, shape (B, S, d)."""
        return central_residual(
            self, self.x_star_central + self.dx_c, self.theta_star_central + self.dtheta
        )

    @cached_property
    def ratio_error(self) -> Numbers:
        """psi(s)' (eta^i - eta_*^i), the error of the estimated ratio, shape (B, n, S)."""
        if "deta" not in vars(self):
            return np.asarray(0 * self.rho)
        return np.asarray(self.deta @ np.swapaxes(self.psi, -1, -2))

    @cached_property
    def G_rho(self) -> Numbers:
        """max_s |rhohat^i(s) - rho^i(s)| over the states that occur, shape (B, n)."""
        return np.asarray((np.abs(self.ratio_error) * self.visited[:, None]).max(axis=-1))

    def effective(self, which: str) -> Numbers:
        """The effective affinity of every agent, "printed" or "safe", shape (B, n)."""
        return self.delta_cen_effective if which == "printed" else self.delta_cen_effective_both

    def step(self, divisor: int) -> Numbers:
        """alpha^i = share lambda^i / (divisor G_A^2), shape (B, n)."""
        return np.asarray(
            self.share[:, None] * self.lambda_agent / (divisor * self.G_A[:, None] ** 2)
        )

    # Squares of errors, shape (B, 1) or (B, n).

    @property
    def own_error(self) -> Numbers:
        """||dx^i||^2."""
        return np.asarray((self.dx**2).sum(axis=-1))

    @property
    def centre_error(self) -> Numbers:
        """G_A^2 ||dx^c||^2."""
        return np.asarray((self.G_A**2 * (self.dx_c**2).sum(axis=-1))[:, None])

    @property
    def objective_error(self) -> Numbers:
        """||dtheta||^2."""
        return np.asarray((self.dtheta**2).sum(axis=-1)[:, None])

    @property
    def weight_error(self) -> Numbers:
        """||deta^i||^2."""
        return np.asarray((self.deta**2).sum(axis=-1))

    @property
    def variance_proxy(self) -> Numbers:
        """sigma^2."""
        return np.asarray(self.sigma[:, None] ** 2)

    # The random directions: independent sums over all agents of all groups.

    @cached_property
    def _collective(self) -> Numbers:
        """Parts of g^{c=>i} with the estimated ratio."""
        return importance_corrected(self, self.central, self.rho + self.ratio_error)

    @cached_property
    def _individual(self) -> Numbers:
        """Parts of g^i(x^i) - g^{c->i}(x^c; theta^c)."""
        return own(local_residual(self, self.x) - self.central[:, None])

    @cached_property
    def _estimation(self) -> Numbers:
        """Parts of the random error (1/n) sum_j psi(s^j)' deta^i g^{c->j}(x^c; theta^c)."""
        return importance_corrected(self, self.central, self.ratio_error)

    def average_second_moment(self, parts: Numbers) -> Numbers:
        """E||Y||^2 of an average over all agents, from the parts over one agent per group."""
        return np.asarray(
            (mean(self, parts) ** 2).sum(axis=-1) + variance(self, parts) / self.copies
        )

    @cached_property
    def direction_mean(self) -> Numbers:
        """E gtilde^i, shape (B, n, d)."""
        return np.asarray(mean(self, self._collective) + mean(self, self._individual))

    @cached_property
    def direction_second_moment(self) -> Numbers:
        """E||gtilde^i||^2; agent i's sample enters its own part and its share of the average."""
        spread = (
            variance(self, self._collective)
            + 2 * covariance(self, self._collective, self._individual)
        ) / self.copies
        spread = spread + variance(self, self._individual)
        return np.asarray((self.direction_mean**2).sum(axis=-1) + spread)

    @cached_property
    def estimation_mean(self) -> Numbers:
        """E of the random estimation error, shape (B, n, d)."""
        return mean(self, self._estimation)

    @cached_property
    def estimation_second_moment(self) -> Numbers:
        """E||.||^2 of the random estimation error."""
        return self.average_second_moment(self._estimation)

    @cached_property
    def collective_second_moment(self) -> Numbers:
        """E||g^{c=>i}||^2 with the estimated ratio."""
        return self.average_second_moment(self._collective)

    @cached_property
    def individual_second_moment(self) -> Numbers:
        """E||g^i(x^i) - g^{c->i}(x^c; theta^c)||^2."""
        return np.asarray(
            (mean(self, self._individual) ** 2).sum(axis=-1) + variance(self, self._individual)
        )
