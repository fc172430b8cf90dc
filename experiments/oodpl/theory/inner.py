"""OOD-PL, Algorithm 1's inner loop with its Jacobian by phi, over all sequences of samples.

All sequences of samples are enumerated, so that expectations are exact sums. Errors are e_t, that
of the Jacobian d theta_t / d phi, and d_t, that of theta_t. Matrices of q rows and p columns are
measured by their Frobenius norm, Hessians by the operator norm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from experiments.oodpl.theory.bilevel import System
from experiments.oodpl.theory.constants import PolicyConstants, RewardConstants
from experiments.oodpl.theory.smoothness import Range, printed_range, true_range
from linsys.linalg import Numbers, norm, operator_norm, solve

__all__ = ["Inner", "Level", "flat"]


def flat(matrices: Numbers) -> Numbers:
    """The entries of each matrix as a vector."""
    return np.asarray(matrices.reshape(*matrices.shape[:-2], -1))


def _wide(values: Numbers, axes: int) -> Numbers:
    """Numbers (B,) or (B, S) with so many axes of length one behind."""
    return values.reshape(*values.shape, *[1] * axes)


@dataclass(frozen=True, eq=False)
class Level:
    """All iterates after t steps: their chances (B, S), theta (B, S, p), Jacobians (B, S, q, p)."""

    chance: Numbers
    theta: Numbers
    jacobian: Numbers

    def mean(self, values: Numbers) -> Numbers:
        """E over the samples so far of values (B, S, ...): shape (B, ...)."""
        return np.asarray((_wide(self.chance, values.ndim - 2) * values).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Inner:
    """An inner loop of Algorithm 1 at one phi, for B systems.

    Args:
        system: the domain.
        phi: shape (B, q).
        theta_0: shape (B, p).
        theta_star: the minimiser of L_FT, as :meth:`System.optimum` finds it, shape (B, p).
        alpha: the step size, shape (B,).
        reach: of the rewards, the radius of the ball of phi that constants are for, shape (B,).
        D: how many steps.
        radius: of the ball of theta, about 0, that constants are for where it is to be more than
            what theta_* and the iterates need, shape (B,).

    One prompt, answers 0 and 1 with equal chances, and r = phi for answer 1: theta_* = phi / beta.

    >>> from experiments.oodpl.theory.bilevel import Policy, Reward
    >>> system = System(
    ...     Policy(psi=np.array([[[[0.0], [1.0]]]]), log_h=np.zeros((1, 1, 2))),
    ...     Reward(xi=np.array([[[[0.0], [1.0]]]]), r0=np.zeros((1, 1, 2))),
    ...     prompts=np.ones((1, 1)), mu_hat=np.full((1, 1, 2), 0.5), beta=np.array([2.0]),
    ... )
    >>> zero, one = np.zeros((1, 1)), np.ones(1)
    >>> run = Inner(system, zero, zero, zero, alpha=one, reach=one, D=1)
    >>> run.jacobian_star.tolist(), run.levels[1].theta.tolist()
    ([[[0.5]]], [[[-0.5], [0.5]]])
    """

    system: System
    phi: Numbers
    theta_0: Numbers
    theta_star: Numbers
    alpha: Numbers
    reach: Numbers
    D: int
    radius: Numbers | None = None

    def with_step(self, alpha: Numbers) -> Inner:
        """These inner loops with another step size."""
        return replace(self, alpha=alpha)

    @cached_property
    def _spread(self) -> System:
        return self.system.spread()

    @cached_property
    def levels(self) -> list[Level]:
        """The iterates after 0, ..., D steps."""
        theta, phi = self.theta_0[:, None], self.phi[:, None]
        jacobian = 0 * phi[..., :, None] * theta[..., None, :]
        levels = [Level(1 + 0 * theta[..., 0], theta, jacobian)]
        for _ in range(self.D):
            levels.append(self._after(levels[-1]))
        return levels

    def _after(self, level: Level) -> Level:
        wide, phi, theta = self._spread, self.phi[:, None], level.theta
        alpha = _wide(self.alpha, 4)
        J = level.jacobian[:, :, None, None]
        change = J @ wide.each_hessian(phi, theta) + wide.each_mixed(phi, theta)
        moved = theta[:, :, None, None] - alpha * wide.each_gradient(phi, theta)
        chance = _wide(level.chance, 2) * wide.chance
        count = len(theta)
        return Level(
            chance.reshape(count, -1),
            moved.reshape(count, -1, moved.shape[-1]),
            (J - alpha[..., None] * change).reshape(count, -1, *change.shape[-2:]),
        )

    @cached_property
    def jacobian_star(self) -> Numbers:
        """d theta_* / d phi = -(grad_phi grad_theta L_FT) (grad_theta^2 L_FT)^{-1}, (B, q, p)."""
        rows = self.system.mixed(self.phi, self.theta_star)
        hessian = self.system.hessian(self.phi, self.theta_star)[:, None]
        hessian = hessian + 0 * rows[..., None]
        return np.asarray(-solve(hessian, rows))

    @cached_property
    def policy(self) -> PolicyConstants:
        """The policy's constants on a ball about 0 that contains theta_* and all iterates."""
        radius = norm(self.theta_star) if self.radius is None else self.radius
        for at in self.levels:
            radius = np.maximum(radius, norm(at.theta).max(axis=1))
        return PolicyConstants(self.system.policy, radius)

    @cached_property
    def reward(self) -> RewardConstants:
        """The reward's constants on the ball of radius ``reach``."""
        return RewardConstants(self.system.reward, self.reach)

    # Errors, second moments over the samples.

    @cached_property
    def errors(self) -> tuple[Numbers, Numbers]:
        """E||e_t||^2 and E||d_t||^2, each (B, D + 1)."""
        star, J = self.theta_star[:, None], self.jacobian_star[:, None]
        jacobians = [at.mean(norm(flat(at.jacobian - J)) ** 2) for at in self.levels]
        iterates = [at.mean(norm(at.theta - star) ** 2) for at in self.levels]
        return np.stack(jacobians, axis=-1), np.stack(iterates, axis=-1)

    @cached_property
    def first_moments(self) -> Numbers:
        """E||d_t||, (B, D + 1)."""
        star = self.theta_star[:, None]
        return np.stack([at.mean(norm(at.theta - star)) for at in self.levels], axis=-1)

    # The two bounds of exp(r / beta) that constants are made of.

    @property
    def printed(self) -> Range:
        """b / e^beta and B / e^beta."""
        return printed_range(self.reward, self.system.beta)

    @property
    def true(self) -> Range:
        """b^(1/beta) and B^(1/beta)."""
        return true_range(self.reward, self.system.beta)

    def strong_and_smooth(self, bounds: Range) -> tuple[Numbers, Numbers]:
        """b mu and B L with the bounds in the place of b and B."""
        low, high = bounds
        return np.asarray(low * self.policy.mu), np.asarray(high * self.policy.L)

    def allowed(self, bounds: Range) -> Numbers:
        """Lemma 5's condition on alpha, alpha <= 2 / (b mu + B L)."""
        strong, smooth = self.strong_and_smooth(bounds)
        return np.asarray(self.alpha * (strong + smooth) <= 2)

    @cached_property
    def variances(self) -> tuple[Numbers, Numbers, Numbers]:
        """sigma^2, sigma_1^2 and sigma_2^2 at theta_* and at all iterates, the largest, (B,)."""
        every = [self.theta_star[:, None], *(at.theta for at in self.levels[:-1])]
        theta, phi, wide = np.concatenate(every, axis=1), self.phi[:, None], self._spread
        gradient = wide.each_gradient(phi, theta) - wide.gradient(phi, theta)[:, :, None, None]
        mixed = wide.each_mixed(phi, theta) - wide.mixed(phi, theta)[:, :, None, None]
        hessian = wide.each_hessian(phi, theta) - wide.hessian(phi, theta)[:, :, None, None]
        sizes = norm(gradient), norm(flat(mixed)), operator_norm(hessian)
        first, second, third = (wide.mean(size**2).max(axis=1) for size in sizes)
        return first, second, third

    @cached_property
    def largest_variances(self) -> tuple[Numbers, Numbers, Numbers]:
        """Bounds of the three variances on the balls: second moments of what has norm M and L."""
        at, r, (_, high) = self.policy, self.reward, self.true
        return (
            np.asarray((high * at.M) ** 2),
            np.asarray((high * at.M * r.T / self.system.beta) ** 2),
            np.asarray((high * at.L) ** 2),
        )

    # What the corrected lemmas are made of.

    @cached_property
    def gamma(self) -> Numbers:
        """max(|1 - alpha b^(1/beta) mu|, |1 - alpha B^(1/beta) L|), below 1 for stable alpha."""
        strong, smooth = self.strong_and_smooth(self.true)
        away = np.abs(1 - self.alpha * strong), np.abs(1 - self.alpha * smooth)
        return np.asarray(np.maximum(*away))

    @property
    def jacobian_bound(self) -> Numbers:
        """M T / (beta mu), which bounds d theta_* / d phi."""
        return np.asarray(self.policy.M * self.reward.T / (self.system.beta * self.policy.mu))

    @property
    def drift(self) -> Numbers:
        """The Lipschitz constant of A_z: B^(1/beta) (T/beta) (L + M rho / mu)."""
        at, (_, high) = self.policy, self.true
        curve = at.L + at.M * at.rho / at.mu
        return np.asarray(high * self.reward.T / self.system.beta * curve)

    @property
    def noise(self) -> Numbers:
        """sigma_1 + (M T / (beta mu)) sigma_2, which bounds the standard deviation of A_z."""
        _, mixed, hessian = self.variances
        return np.asarray(np.sqrt(mixed) + self.jacobian_bound * np.sqrt(hessian))

    # Preferences.

    def hypergradient(self, pairs: Numbers, theta: Numbers, jacobian: Numbers) -> Numbers:
        """(d theta / d phi) grad_theta L_PL for weights of pairs (B, X, Y, Y), shape (B, S, q)."""
        slopes = self._spread.preference_gradient(theta)
        slope = (pairs[:, None, ..., None] * slopes).sum(axis=(-4, -3, -2))
        return np.asarray((jacobian @ slope[..., None])[..., 0])

    def hypergradient_star(self, pairs: Numbers) -> Numbers:
        """The gradient of L_PL(theta_*) by phi, shape (B, q)."""
        star = self.theta_star[:, None], self.jacobian_star[:, None]
        return self.hypergradient(pairs, *star)[:, 0]

    def hypergradient_errors(self, pairs: Numbers) -> Numbers:
        """E||d L_PL(theta_t) / d phi - d L_PL(theta_*) / d phi||^2, (B, D + 1)."""
        exact = self.hypergradient_star(pairs)[:, None]
        errors = [
            at.mean(norm(self.hypergradient(pairs, at.theta, at.jacobian) - exact) ** 2)
            for at in self.levels
        ]
        return np.stack(errors, axis=-1)
