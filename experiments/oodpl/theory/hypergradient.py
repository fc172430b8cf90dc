"""OOD-PL, Proposition 1, Appendix B, (37) and (38): derivatives of the inner loop's result by phi.

The result theta_D of D steps depends on phi; J = d theta_D / d phi has a row for each entry of
phi, shape (..., q, p). :attr:`Run.exact` differentiates the loop itself, operation by operation,
with neither Hessians nor mixed derivatives; the printed formulas are held against that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import ratecheck as rc
from experiments.oodpl.theory.bilevel import System, pick, pick_pair
from experiments.oodpl.theory.objectives import parameters
from linsys.linalg import Numbers, inverse, logistic, transpose

__all__ = [
    "Run",
    "eq_13",
    "eq_30",
    "eq_37",
    "eq_38_unrestricted",
    "implicit",
]


def _rows(J: Numbers, columns: Numbers) -> Numbers:
    """J v for Jacobians (..., q, p) and vectors v (..., p): shape (..., q)."""
    return np.asarray((J * columns[..., None, :]).sum(axis=-1))


def slope_change(system: System, theta: Numbers, J: Numbers, x: Numbers | None = None) -> Numbers:
    """The derivative of E_theta psi as theta moves along the rows of J.

    Args:
        system: with arrays (..., X, Y, p).
        theta: shape (..., p).
        J: shape (..., q, p).
        x: prompts (...); all of them if None.

    Returns:
        Shape (..., q, p), or (..., X, q, p) for all prompts.
    """
    psi, pi = system.policy.psi, system.policy.pi(theta)
    change = psi @ transpose(J)[..., None, :, :]  # the derivative of theta.psi, (..., X, Y, q)
    change = change - (pi[..., None] * change).sum(axis=-2, keepdims=True)
    moved = transpose(pi[..., None] * change) @ psi
    if x is None:
        return np.asarray(moved)
    return pick(moved[..., None, :, :], x, 2)


@dataclass(frozen=True, eq=False)
class Run:
    """D steps of the inner loop, and the pair of the outer loss.

    Args:
        system: B instances.
        phi: shape (B, q).
        theta: where the loop starts, shape (B, p).
        z: samples z_0, ..., z_(D-1), whole numbers Y x + y, shape (B, D).
        alpha: step size, shape (B,).
        pair: the pair of the outer loss, Y (Y x + y) + y', shape (B,).
    """

    system: System
    phi: Numbers
    theta: Numbers
    z: Numbers
    alpha: Numbers
    pair: Numbers

    @property
    def D(self) -> int:
        """The number of steps."""
        return int(self.z.shape[-1])

    @cached_property
    def path(self) -> list[Numbers]:
        """theta_0, ..., theta_D."""
        return self.system.path(self.phi, self.theta, self.z, self.alpha)

    @cached_property
    def tilt(self) -> list[Numbers]:
        """R_t = e^(r/beta) at z_t, each (B,)."""
        tilt = self.system.tilt(self.phi)
        return [pick(tilt, self.z[:, t]) for t in range(self.D)]

    @cached_property
    def reward_slope(self) -> list[Numbers]:
        """grad_phi r at z_t, each (B, q)."""
        slopes = self.system.reward.gradient(self.phi)
        return [pick(slopes, self.z[:, t], 1) for t in range(self.D)]

    @cached_property
    def score(self) -> list[Numbers]:
        """grad log pi at theta_t and z_t, each (B, p)."""
        at = enumerate(self.path[:-1])
        return [pick(self.system.policy.gradient(theta), self.z[:, t], 1) for t, theta in at]

    @cached_property
    def hessian(self) -> list[Numbers]:
        """The Hessian of log pi at theta_t and z_t, each (B, p, p)."""
        at = enumerate(self.path[:-1])
        Y = self.system.mu_hat.shape[-1]
        flat = [self.system.policy.hessian(theta)[..., None, :, :] for _, theta in at]
        return [pick(H, self.z[:, t] // Y, 2) for t, H in enumerate(flat)]

    def factor(self, t: int) -> Numbers:
        """I + alpha R_t times the Hessian of log pi at theta_t and z_t, (B, p, p)."""
        scale = (self.alpha * self.tilt[t])[:, None, None]
        return np.asarray(np.eye(self.theta.shape[-1], dtype=int) + scale * self.hessian[t])

    @cached_property
    def margin(self) -> Numbers:
        """u = log pi(y|x) - log pi(y'|x) at theta_D, (B,)."""
        return pick_pair(self.system.margin(self.path[-1]), self.pair)

    @cached_property
    def apart(self) -> Numbers:
        """grad log pi(y|x) - grad log pi(y'|x) at theta_D, (B, p)."""
        g = self.system.policy.gradient(self.path[-1])
        return pick_pair(g[..., :, None, :] - g[..., None, :, :], self.pair, 1)

    @cached_property
    def jacobian(self) -> Numbers:
        """J, the derivative of the loop itself, (B, q, p).

        theta_(t+1) = theta_t + alpha R_t (psi - E psi): R_t moves by R_t grad r / beta, and E psi
        with theta_t.
        """
        J = 0 * self.phi[:, :, None] * self.theta[:, None, :]
        Y = self.system.mu_hat.shape[-1]
        for t, theta in enumerate(self.path[:-1]):
            x = self.z[:, t] // Y
            tilt, beta = self.tilt[t], self.system.beta
            by_reward = (tilt / beta)[:, None] * self.reward_slope[t]
            moved = by_reward[:, :, None] * self.score[t][:, None, :]
            moved = moved - tilt[:, None, None] * slope_change(self.system, theta, J, x)
            J = J + self.alpha[:, None, None] * moved
        return np.asarray(J)

    @cached_property
    def exact(self) -> Numbers:
        """d l_PL(theta_D) / d phi, (B, q): log(1 + e^-u) falls by sigma(-u) du."""
        psi = self.system.policy.psi
        apart = pick_pair(psi[..., :, None, :] - psi[..., None, :, :], self.pair, 1)
        return np.asarray(-logistic(-self.margin)[:, None] * _rows(self.jacobian, apart))

    def sums(self, *, rewards: bool = True, later: bool = True, forward: bool = True) -> Numbers:
        """(31): (alpha/beta) sum_t R_t grad r (grad log pi)' prod_(j>t) factor, (B, q, p).

        Args:
            rewards: with grad r, which the paper leaves out (then q = 1).
            later: the product has the factors of the steps j > t, not that of t again and again.
            forward: from j = t + 1 on the left to j = D - 1 on the right.
        """
        total = 0 * self.phi[:, :, None] * self.theta[:, None, :]
        for t in range(self.D):
            slope = self.reward_slope[t] if rewards else 0 * self.phi + 1
            row = (self.tilt[t][:, None] * slope)[:, :, None] * self.score[t][:, None, :]
            steps = range(t + 1, self.D)
            for j in steps if forward else reversed(steps):
                row = row @ self.factor(j if later else t)
            total = total + row
        return np.asarray((self.alpha / self.system.beta)[:, None, None] * total)

    def recursion(self, sign: int = 1) -> Numbers:
        """J_D of (37): J_(t+1) = J_t - alpha (mixed + sign J_t Hessian) of l_FT at z_t, from 0.

        The paper has sign = -1.
        """
        J = 0 * self.phi[:, :, None] * self.theta[:, None, :]
        for t, theta in enumerate(self.path[:-1]):
            z = self.z[:, t]
            mixed = pick(self.system.each_mixed(self.phi, theta), z, 2)
            curvature = pick(self.system.each_hessian(self.phi, theta), z, 2)
            J = J - self.alpha[:, None, None] * (mixed + sign * (J @ curvature))
        return np.asarray(J)


def eq_13(run: Run, J: Numbers, *, sign: int = -1, factor: bool = True) -> rc.Sides:
    """d l_PL / d phi, and sign (1 - p_*) J (grad log pi(y) - grad log pi(y')); (B, q).

    Args:
        run: the inner loop.
        J: the derivative of theta_D that the formula has, (B, q, p).
        sign: -1; the paper has +1 in (13).
        factor: with 1 - p_* = sigma(-u), which the paper leaves out.
    """
    weight = sign * (logistic(-run.margin) if factor else 0 * run.margin + 1)
    return run.exact, np.asarray(weight[:, None] * _rows(J, run.apart))


def eq_30(run: Run, *, factor: bool) -> rc.Sides:
    """grad_theta l_PL at theta_D along J, and (30) with J; ``factor`` as in :func:`eq_13`."""
    return eq_13(run, run.jacobian, factor=factor)


def eq_37(run: Run, sign: int) -> rc.Sides:
    """d theta_D / d phi, and the recursion (37)."""
    return run.jacobian, run.recursion(sign)


def implicit(system: System, phi: Numbers, theta: Numbers) -> Numbers:
    """-mixed Hessian^-1 of L_FT, which is d theta_* / d phi at theta_*: shape (..., q, p)."""
    return np.asarray(-system.mixed(phi, theta) @ inverse(system.hessian(phi, theta)))


def eq_38_unrestricted(system: System, phi: Numbers) -> rc.Sides:
    """(38) solved for d theta_* / d phi, and its known value; (..., q, X (Y - 1)).

    For a system of :func:`experiments.oodpl.theory.objectives.unrestricted`: theta_*(x, y) = log
    (pi_* / h)(y|x) - log (pi_* / h)(0|x), which moves by the rewards' difference over beta.
    """
    slopes = system.reward.gradient(phi)
    apart = slopes[..., 1:, :] - slopes[..., :1, :]
    flat = apart.reshape(*apart.shape[:-3], -1, apart.shape[-1])
    known = transpose(flat) / system.beta[..., None, None]
    theta = parameters(system, system.tilted(phi))
    return implicit(system, phi, theta), np.asarray(known)
