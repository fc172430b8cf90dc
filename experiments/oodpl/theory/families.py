"""OOD-PL: policies that are exponential families, and rewards, on finitely many answers.

The policy is pi_theta(y|x) = h(x, y) exp(theta.psi(x, y)) / Z(x). Then grad log pi = psi - E psi,
and the Hessian of log pi is -Cov(psi), the same for all answers y. Leading axes (...) are
instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from linsys.linalg import Numbers, logistic, norm, solve, transpose

__all__ = ["Policy", "Reward", "TanhReward", "minimiser"]

#: The largest number of Newton steps, more than any minimum of these losses needs.
_NEWTON = 200


@dataclass(frozen=True, eq=False)
class Policy:
    """pi_theta(y|x) = h(x, y) exp(theta.psi(x, y)) / Z(x).

    Args:
        psi: features, shape (..., X, Y, p).
        log_h: log h, shape (..., X, Y).

    >>> coin = Policy(psi=np.array([[[-1.0], [1.0]]]), log_h=np.zeros((1, 2)))
    >>> coin.pi(np.array([0.0])).tolist(), coin.hessian(np.array([0.0])).tolist()
    ([[0.5, 0.5]], [[[-1.0]]])
    """

    psi: Numbers
    log_h: Numbers

    def log_pi(self, theta: Numbers) -> Numbers:
        """log pi_theta(y|x), shape (..., X, Y)."""
        logits = self.log_h + (self.psi * theta[..., None, None, :]).sum(axis=-1)
        logits = logits - logits.max(axis=-1, keepdims=True)
        return np.asarray(logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True)))

    def pi(self, theta: Numbers) -> Numbers:
        """pi_theta(y|x), shape (..., X, Y)."""
        return np.asarray(np.exp(self.log_pi(theta)))

    def gradient(self, theta: Numbers) -> Numbers:
        """grad_theta log pi_theta(y|x) = psi - E psi, shape (..., X, Y, p)."""
        # a mean of differences does not cancel where one answer has almost all probability
        return np.asarray((self.pi(theta)[..., None, :, None] * self.apart).sum(axis=-2))

    def hessian(self, theta: Numbers) -> Numbers:
        """The Hessian of log pi_theta(y|x), -Cov(psi): shape (..., X, p, p), whatever y."""
        g = self.gradient(theta)
        return np.asarray(-(transpose(g) @ (self.pi(theta)[..., None] * g)))

    @cached_property
    def apart(self) -> Numbers:
        """psi(x, y) - psi(x, y'), shape (..., X, Y, Y, p)."""
        return np.asarray(self.psi[..., :, None, :] - self.psi[..., None, :, :])

    @cached_property
    def diameter(self) -> Numbers:
        """The largest ||psi(x, y) - psi(x, y')||, shape (...)."""
        return np.asarray(norm(self.apart).max(axis=(-3, -2, -1)))


@dataclass(frozen=True, eq=False)
class Reward:
    """r_phi(x, y) = r0(x, y) + xi(x, y).phi, linear.

    Args:
        xi: shape (..., X, Y, q).
        r0: shape (..., X, Y).
    """

    xi: Numbers
    r0: Numbers

    def linear(self, phi: Numbers) -> Numbers:
        """xi.phi, shape (..., X, Y)."""
        return np.asarray((self.xi * phi[..., None, None, :]).sum(axis=-1))

    def values(self, phi: Numbers) -> Numbers:
        """r_phi(x, y), shape (..., X, Y)."""
        return np.asarray(self.r0 + self.linear(phi))

    def gradient(self, phi: Numbers) -> Numbers:
        """grad_phi r_phi(x, y), shape (..., X, Y, q)."""
        return np.asarray(self.xi + 0 * phi[..., None, None, :])


class TanhReward(Reward):
    """r_phi(x, y) = r0(x, y) + tanh(xi(x, y).phi): bounded and smooth for all phi."""

    def _tanh(self, phi: Numbers) -> Numbers:
        return np.asarray(2 * logistic(2 * self.linear(phi)) - 1)

    def values(self, phi: Numbers) -> Numbers:
        """r_phi(x, y), shape (..., X, Y)."""
        return np.asarray(self.r0 + self._tanh(phi))

    def gradient(self, phi: Numbers) -> Numbers:
        """grad_phi r_phi(x, y), shape (..., X, Y, q)."""
        return np.asarray((1 - self._tanh(phi) ** 2)[..., None] * self.xi)


def minimiser(policy: Policy, weights: Numbers) -> Numbers:
    """argmin over theta of -sum weights(x, y) log pi_theta(y|x), by Newton's method: (..., p).

    The loss is convex with |f'''| <= diameter ||v|| f'' along any v, so that steps cut to
    2 / (2 + diameter ||step||) of their length descend, and the last ones are hardly cut.

    Args:
        policy: the policies.
        weights: positive weights, shape (..., X, Y).

    Returns:
        The minimiser to the precision of the numbers; NaN where the Hessian is singular.

    >>> coin = Policy(psi=np.array([[[-1.0], [1.0]]]), log_h=np.zeros((1, 2)))
    >>> print(minimiser(coin, np.array([[1.0, np.exp(2)]])))  # odds of e^2: theta = 1
    [1.]
    """
    theta = 0 * (weights[..., None] * policy.psi).sum(axis=(-3, -2))
    prompts = weights.sum(axis=-1)[..., None, None]
    for _ in range(_NEWTON):
        slope = (weights[..., None] * policy.gradient(theta)).sum(axis=(-3, -2))
        curvature = -(prompts * policy.hessian(theta)).sum(axis=-3)
        step = solve(curvature, slope)
        size = policy.diameter * norm(step)
        theta = theta + (2 / (2 + size))[..., None] * step
        if (1 + size * size == 1).all():
            break
    return np.asarray(theta)
