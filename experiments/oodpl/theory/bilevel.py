"""OOD-PL, Sections 2 and 3: the two losses of a domain with finitely many answers.

The fine-tuning loss (10) is -e^(r/beta) log pi(y|x), the preference loss (7) -log sigma(log
pi(y|x) - log pi(y'|x)). Jacobians of theta by phi have a row for each entry of phi, shape (..., q,
p), as in the paper's appendices.

Leading axes (...) are instances; a parameter with more of them than a system needs its arrays
spread, see :meth:`System.spread`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from experiments.oodpl.theory.families import Policy, Reward, TanhReward, minimiser
from linsys.linalg import Numbers, logistic

__all__ = [
    "Policy",
    "Reward",
    "System",
    "TanhReward",
    "log_loss",
    "minimiser",
    "pick",
    "pick_pair",
]


def log_loss(u: Numbers) -> Numbers:
    """-log sigma(u).

    >>> print(log_loss(np.array([-800.0, 40.0])))
    [8.00000000e+02 4.24835426e-18]
    """
    small = np.exp(-np.abs(u))
    grown = 1 + small
    # log(1 + small) without the rounding of 1 + small
    lost = grown == 1
    rest = np.where(lost, small, np.log(grown) * small / np.where(lost, 1, grown - 1))
    return np.asarray(np.maximum(-u, 0 * u) + rest)


def pick(values: Numbers, z: Numbers, rest: int = 0) -> Numbers:
    """The entries of values (..., X, Y, *rest) at samples z (...), the whole numbers Y x + y.

    >>> pick(np.arange(6.0).reshape(1, 2, 3), np.array([4]))
    array([4.])
    """
    lead, tail = values.shape[: values.ndim - rest - 2], values.shape[values.ndim - rest :]
    flat = values.reshape(*lead, -1, *tail)
    where = z.reshape(*z.shape, *[1] * (rest + 1))
    lead = np.broadcast_shapes(lead, z.shape)
    flat = np.broadcast_to(flat, (*lead, *flat.shape[flat.ndim - rest - 1 :]))
    where = np.broadcast_to(where, (*lead, *[1] * (rest + 1)))
    return np.asarray(np.take_along_axis(flat, where, axis=len(lead)).reshape(*lead, *tail))


def pick_pair(values: Numbers, pair: Numbers, rest: int = 0) -> Numbers:
    """The entries of values (..., X, Y, Y, *rest) at pairs (...), the numbers Y (Y x + y) + y'."""
    start = values.ndim - rest - 3
    X, Y = values.shape[start : start + 2]
    return pick(
        values.reshape(*values.shape[:start], X * Y, *values.shape[start + 2 :]), pair, rest
    )


@dataclass(frozen=True, eq=False)
class System:
    """One domain: prompts, sampled answers, a policy and a reward.

    Args:
        policy: of X prompts and Y answers.
        reward: of the same.
        prompts: chances of the prompts D(x), shape (..., X).
        mu_hat: the sampling distribution mu_hat(y|x), shape (..., X, Y).
        beta: the controlling factor, shape (...).

    >>> coin = Policy(psi=np.array([[[-1.0], [1.0]]]), log_h=np.zeros((1, 2)))
    >>> system = System(
    ...     coin, Reward(xi=np.array([[[0.0], [1.0]]]), r0=np.zeros((1, 2))),
    ...     prompts=np.ones(1), mu_hat=np.full((1, 2), 0.5), beta=np.array(1.0),
    ... )
    >>> print(system.optimum(np.array([2.0])))  # odds of e^2
    [1.]
    """

    policy: Policy
    reward: Reward
    prompts: Numbers
    mu_hat: Numbers
    beta: Numbers

    def spread(self) -> System:
        """This system with an axis of length one after the first, for parameters (B, S, ...)."""
        policy = replace(
            self.policy, psi=self.policy.psi[:, None], log_h=self.policy.log_h[:, None]
        )
        reward = replace(self.reward, xi=self.reward.xi[:, None], r0=self.reward.r0[:, None])
        rest = (values[:, None] for values in (self.prompts, self.mu_hat, self.beta))
        return System(policy, reward, *rest)

    # Weights and optima.

    def tilt(self, phi: Numbers) -> Numbers:
        """exp(r_phi(x, y) / beta), shape (..., X, Y)."""
        return np.asarray(np.exp(self.reward.values(phi) / self.beta[..., None, None]))

    @property
    def chance(self) -> Numbers:
        """D(x) mu_hat(y|x), the chance of the sample z = (x, y), shape (..., X, Y)."""
        return np.asarray(self.prompts[..., None] * self.mu_hat)

    def partition(self, phi: Numbers) -> Numbers:
        """Z(x) = sum over y of mu_hat exp(r / beta), shape (..., X)."""
        return np.asarray((self.mu_hat * self.tilt(phi)).sum(axis=-1))

    def tilted(self, phi: Numbers) -> Numbers:
        """pi_*(y|x) of (9), mu_hat exp(r / beta) / Z(x), shape (..., X, Y)."""
        return np.asarray(self.mu_hat * self.tilt(phi) / self.partition(phi)[..., None])

    def optimum(self, phi: Numbers) -> Numbers:
        """theta_*, the minimiser of L_FT, shape (..., p)."""
        return minimiser(self.policy, self.chance * self.tilt(phi))

    # The fine-tuning loss of each sample z, and its mean L_FT.

    def each_loss(self, phi: Numbers, theta: Numbers) -> Numbers:
        """l_FT(phi, theta, z), shape (..., X, Y)."""
        return np.asarray(-self.tilt(phi) * self.policy.log_pi(theta))

    def each_gradient(self, phi: Numbers, theta: Numbers) -> Numbers:
        """grad_theta l_FT, shape (..., X, Y, p)."""
        return np.asarray(-self.tilt(phi)[..., None] * self.policy.gradient(theta))

    def each_hessian(self, phi: Numbers, theta: Numbers) -> Numbers:
        """grad_theta^2 l_FT, shape (..., X, Y, p, p)."""
        curvature = -self.policy.hessian(theta)[..., None, :, :]
        return np.asarray(self.tilt(phi)[..., None, None] * curvature)

    def each_mixed(self, phi: Numbers, theta: Numbers) -> Numbers:
        """grad_phi grad_theta l_FT, shape (..., X, Y, q, p): grad r (grad_theta l_FT)' / beta."""
        by_phi = self.reward.gradient(phi)[..., :, None] / self.beta[..., *[None] * 4]
        return np.asarray(by_phi * self.each_gradient(phi, theta)[..., None, :])

    def mean(self, values: Numbers, rest: int = 0) -> Numbers:
        """E over z of values (..., X, Y, *rest): shape (..., *rest)."""
        chance = self.chance.reshape(*self.chance.shape, *[1] * rest)
        return np.asarray((chance * values).sum(axis=(-rest - 2, -rest - 1)))

    def loss(self, phi: Numbers, theta: Numbers) -> Numbers:
        """L_FT, shape (...)."""
        return self.mean(self.each_loss(phi, theta))

    def gradient(self, phi: Numbers, theta: Numbers) -> Numbers:
        """grad_theta L_FT, shape (..., p)."""
        return self.mean(self.each_gradient(phi, theta), 1)

    def hessian(self, phi: Numbers, theta: Numbers) -> Numbers:
        """grad_theta^2 L_FT, shape (..., p, p)."""
        return self.mean(self.each_hessian(phi, theta), 2)

    def mixed(self, phi: Numbers, theta: Numbers) -> Numbers:
        """grad_phi grad_theta L_FT, shape (..., q, p)."""
        return self.mean(self.each_mixed(phi, theta), 2)

    def step(self, phi: Numbers, theta: Numbers, z: Numbers, alpha: Numbers) -> Numbers:
        """One step of Algorithm 1 on the samples z (...), see :func:`pick`: (..., p)."""
        slope = pick(self.each_gradient(phi, theta), z, 1)
        return np.asarray(theta - alpha[..., None] * slope)

    def path(self, phi: Numbers, theta: Numbers, z: Numbers, alpha: Numbers) -> list[Numbers]:
        """theta_0, ..., theta_D for the samples z (..., D): D + 1 arrays (..., p)."""
        thetas = [theta]
        for t in range(z.shape[-1]):
            thetas.append(self.step(phi, thetas[-1], z[..., t], alpha))
        return thetas

    # The preference loss of each pair (x, y, y').

    def margin(self, theta: Numbers) -> Numbers:
        """log pi(y|x) - log pi(y'|x), shape (..., X, Y, Y)."""
        log_pi = self.policy.log_pi(theta)
        return np.asarray(log_pi[..., :, None] - log_pi[..., None, :])

    def preference_loss(self, theta: Numbers) -> Numbers:
        """l_PL of every pair, shape (..., X, Y, Y)."""
        return log_loss(self.margin(theta))

    def preference_gradient(self, theta: Numbers) -> Numbers:
        """grad_theta l_PL = -sigma(-u) (psi(x, y) - psi(x, y')), shape (..., X, Y, Y, p)."""
        return np.asarray(-logistic(-self.margin(theta))[..., None] * self.policy.apart)

    def preference_hessian(self, theta: Numbers) -> Numbers:
        """grad_theta^2 l_PL = sigma'(u) (psi - psi') (psi - psi')', (..., X, Y, Y, p, p)."""
        apart, u = self.policy.apart, self.margin(theta)
        slope = (logistic(u) * logistic(-u))[..., None, None]
        return np.asarray(slope * apart[..., :, None] * apart[..., None, :])
