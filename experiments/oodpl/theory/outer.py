"""OOD-PL, Appendix D.2: rounds of the outer loop over several domains, all draws enumerated.

A round draws a domain T, the samples of D inner steps, and one pair; its step is g = (d theta_D /
d phi) grad_theta l_PL. Domains lie beside the instances: B instances of N domains are B N inner
loops, domain by domain within each instance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from experiments.oodpl.theory.bilevel import Policy, Reward, System
from experiments.oodpl.theory.contraction import lemma_3_bound
from experiments.oodpl.theory.inner import Inner, Level
from experiments.oodpl.theory.theorem import curvature_limit
from linsys.linalg import Numbers, norm

__all__ = ["Round", "Rounds", "scheduled"]


@dataclass(frozen=True, eq=False)
class Round:
    """One round at one phi, for B instances of N domains.

    Args:
        run: the inner loops of all domains, B N of them.
        pairs: weights of the pairs, shape (B N, X, Y, Y).
        tau: chances of the domains, shape (B, N).
        limit: inner loops that have arrived at theta_*, in the place of those of D steps.
    """

    run: Inner
    pairs: Numbers
    tau: Numbers
    limit: bool = False

    def by_domain(self, values: Numbers) -> Numbers:
        """Values (B N, ...) as (B, N, ...)."""
        return np.asarray(values.reshape(*self.tau.shape, *values.shape[1:]))

    def mean(self, values: Numbers) -> Numbers:
        """E over domains of values (B N, ...): shape (B, ...)."""
        grouped = self.by_domain(values)
        tau = self.tau.reshape(*self.tau.shape, *[1] * (grouped.ndim - 2))
        return np.asarray((tau * grouped).sum(axis=1))

    @cached_property
    def exact(self) -> Numbers:
        """The gradient of each domain's L_PL(theta_*), shape (B N, q)."""
        return self.run.hypergradient_star(self.pairs)

    @cached_property
    def gradient(self) -> Numbers:
        """grad L, shape (B, q)."""
        return self.mean(self.exact)

    @property
    def last(self) -> Level:
        """What the inner loops end with."""
        if not self.limit:
            return self.run.levels[-1]
        star, jacobian = self.run.theta_star[:, None], self.run.jacobian_star[:, None]
        return Level(1 + 0 * star[..., 0], star, jacobian)

    @cached_property
    def steps(self) -> tuple[Numbers, Numbers]:
        """All g of a domain, (B N, S, X Y Y, q), and the chances of the paths and pairs."""
        last = self.last
        slopes = self.run.system.spread().preference_gradient(last.theta)
        slopes = slopes.reshape(*last.theta.shape[:2], -1, slopes.shape[-1])
        gradients = (last.jacobian[:, :, None] @ slopes[..., None])[..., 0]
        weights = self.pairs.reshape(len(gradients), 1, -1)
        return gradients, last.chance[..., None] * weights

    @cached_property
    def sigma_3(self) -> Numbers:
        """The largest variance of g by the pair, over domains and paths, sigma_3^2: (B,)."""
        gradients, _ = self.steps
        weights = self.pairs.reshape(len(gradients), 1, -1, 1)
        centre = (weights * gradients).sum(axis=2, keepdims=True)
        variance = (weights[..., 0] * norm(gradients - centre) ** 2).sum(axis=2)
        return np.asarray(self.by_domain(variance.max(axis=1)).max(axis=1))

    @property
    def sigma_T(self) -> Numbers:
        """The variance of the domains' exact gradients, sigma_T^2: (B,)."""
        apart = self.by_domain(self.exact) - self.gradient[:, None]
        return np.asarray((self.tau * norm(apart) ** 2).sum(axis=1))

    @property
    def error(self) -> Numbers:
        """E||g - grad L||^2, shape (B,)."""
        gradients, chance = self.steps
        centre = np.repeat(self.gradient, self.tau.shape[1], axis=0)[:, None, None]
        return self.mean((chance * norm(gradients - centre) ** 2).sum(axis=(1, 2)))

    @property
    def within(self) -> Numbers:
        """E over domains of E||d L_PL(theta_D)/d phi - d L_PL(theta_*)/d phi||^2, (B,)."""
        last = self.last
        gradients = self.run.hypergradient(self.pairs, last.theta, last.jacobian)
        return self.mean(last.mean(norm(gradients - self.exact[:, None]) ** 2))


# Whole runs, for domains of one prompt with two answers.


def _optimum(system: System, phi: Numbers) -> Numbers:
    """theta_* where one prompt has two answers: the policy has the odds of the weights."""
    weights = np.log(system.chance) + system.reward.values(phi) / system.beta[..., None, None]
    odds = weights - system.policy.log_h
    apart = system.policy.psi[..., 0, 1, :] - system.policy.psi[..., 0, 0, :]
    return np.asarray((odds[..., 0, 1] - odds[..., 0, 0])[..., None] / apart)


def _moved(first: Round, phi: Numbers, D: int) -> Round:
    """The round of the same domains at S values of phi, (B, S, q), of D steps: B S instances."""
    (B, N), S = first.tau.shape, phi.shape[1]

    def over(values: Numbers) -> Numbers:
        repeated = np.repeat(values.reshape(B, 1, N, *values.shape[1:]), S, axis=1)
        return np.asarray(repeated.reshape(-1, *values.shape[1:]))

    run, system = first.run, first.run.system
    policy = Policy(psi=over(system.policy.psi), log_h=over(system.policy.log_h))
    reward = Reward(xi=over(system.reward.xi), r0=over(system.reward.r0))
    rest = map(over, (system.prompts, system.mu_hat, system.beta))
    moved, where = System(policy, reward, *rest), np.repeat(phi, N, axis=1).reshape(B * S * N, -1)
    inner = Inner(
        system=moved,
        phi=where,
        theta_0=over(run.theta_0),
        theta_star=_optimum(moved, where),
        alpha=over(run.alpha),
        reach=over(run.reach),
        D=D,
    )
    return Round(inner, over(first.pairs), np.repeat(first.tau, S, axis=0))


def _loss(at: Round) -> Numbers:
    """L, one for each instance."""
    losses = at.run.system.preference_loss(at.run.theta_star)
    return at.mean((at.pairs * losses).sum(axis=(1, 2, 3)))


@dataclass(frozen=True, eq=False)
class Rounds:
    """K rounds of Algorithm 1 from phi = 0, linear rewards, domains of one prompt and two answers.

    theta_* is then affine in phi, so that between phi_k and phi_{k+1} it is between its values
    there. What is a constant of a run is the largest one of the phi_k that its draws can reach.

    Args:
        first: the first round.
        eta: the outer step size, shape (B,).
        K: how many rounds.
    """

    first: Round
    eta: Numbers
    K: int

    @cached_property
    def _levels(self) -> list[tuple[Numbers, Numbers, Round]]:
        """For k = 0, ..., K the chances (B, S) of all phi_k, these (B, S, q), and their rounds."""
        run, B = self.first.run, len(self.eta)
        phi = self.first.by_domain(run.phi)[:, :1]
        chance = 1 + 0 * phi[..., 0]
        levels = [(chance, phi, _moved(self.first, phi, run.D if self.K else 0))]
        for k in range(1, self.K + 1):
            chance, phi, at = levels[-1]
            gradients, chances = at.steps
            # the two pairs of different answers, of four
            gradients, chances = gradients[:, :, 1:3], chances[:, :, 1:3]
            branches = at.by_domain(chances) * at.tau[..., None, None]
            chance = (chance[..., None] * branches.reshape(*chance.shape, -1)).reshape(B, -1)
            g = gradients.reshape(*phi.shape[:2], -1, phi.shape[-1])
            phi = (phi[:, :, None] - self.eta[:, None, None, None] * g).reshape(B, -1, g.shape[-1])
            levels.append((chance, phi, _moved(self.first, phi, run.D if k < self.K else 0)))
        return levels

    def largest(self, values: Callable[[Round], Numbers]) -> Numbers:
        """The largest value over all rounds k < K, (B,)."""
        B = len(self.eta)
        maxima = [values(at).reshape(B, -1).max(axis=1) for _, _, at in self._levels[:-1]]
        return np.asarray(np.stack(maxima).max(axis=0))

    @property
    def within_reach(self) -> Numbers:
        """Whether all phi_k with k < K are in the ball that the reward's constants are about."""
        farthest = [norm(phi).max(axis=1) for _, phi, _ in self._levels[:-1]]
        reach = self.first.by_domain(self.first.run.reach)[:, 0]
        return np.asarray(np.stack(farthest).max(axis=0) <= reach)

    @cached_property
    def limit(self) -> Numbers:
        """P_L of :func:`curvature_limit` for all phi between visited ones, (B,)."""
        B, N = self.first.tau.shape
        reached = [norm(at.run.theta_star).reshape(B, -1, N) for _, _, at in self._levels]
        radius = np.concatenate(reached, axis=1).max(axis=1)
        run = self.first.run
        run = replace(run, radius=radius.reshape(-1), D=0, theta_0=run.theta_star)
        return np.asarray(self.first.by_domain(curvature_limit(run)).max(axis=1))

    @property
    def small_steps(self) -> Numbers:
        """eta <= 1 / P_L."""
        return np.asarray(self.eta * self.limit <= 1)

    @property
    def gamma(self) -> Numbers:
        """The largest gamma of all rounds, below 1 where alpha < 2 / (B^(1/beta) L): (B,)."""
        return self.largest(lambda at: at.run.gamma)

    @property
    def strong(self) -> Numbers:
        """The least mu / L of all rounds, (B,)."""
        return -self.largest(lambda at: -at.run.policy.mu / at.run.policy.L)

    @property
    def gradients(self) -> Numbers:
        """(1/K) sum over k < K of E||grad L(phi_k)||^2, shape (B,)."""
        squares = [
            (chance * norm(at.gradient).reshape(chance.shape) ** 2).sum(axis=1)
            for chance, _, at in self._levels[:-1]
        ]
        return np.asarray(np.stack(squares).sum(axis=0) / self.K)

    @property
    def descent(self) -> Numbers:
        """L(phi_0) - E L(phi_K), at most L(phi_0) - inf L, shape (B,)."""
        chance, _, at = self._levels[-1]
        last = (chance * _loss(at).reshape(chance.shape)).sum(axis=1)
        return np.asarray(_loss(self._levels[0][2]) - last)


def scheduled(run: Inner, K: Numbers) -> Numbers:
    """Theorem 1's corrected bound after K rounds with step sizes that fit K, shape (B,).

    alpha = 1/(B^(1/beta) L sqrt(K)), D = 2 log(K)/(1 - gamma), eta = 1/(P_L sqrt(K)); losses are at
    most log(1 + e^(2C)), and sigma_3^2 and sigma_T^2 at most (2 M^2 T/(beta mu))^2. The constants
    are those of the ball of ``run``, which is to contain the inner loops.
    """
    _, smooth = run.strong_and_smooth(run.true)
    run = run.with_step(1 / (smooth * np.sqrt(K)))
    bias = lemma_3_bound(run, (2 * np.log(K) / (1 - run.gamma))[:, None])[:, 0]
    variance = (2 * run.policy.M * run.jacobian_bound) ** 2
    gap = 2 * np.log(1 + np.exp(2 * run.policy.C)) * curvature_limit(run)
    return np.asarray(bias + (gap + 3 * variance + 2 * bias) / np.sqrt(K))
