"""OOD-PL, Assumptions 1 to 4: constants that exponential families and rewards satisfy, and where.

For ||theta|| <= R and one prompt, pi_theta / pi_0 lies between e^(-R d) and e^(R d), with d the
diameter of the prompt's features, and a variance is the least mean square about any point; so
e^(-R d) Var_0 <= Var_theta <= e^(R d) Var_0 in every direction. Bounds with d alone hold for all
theta: a variable of range d has at most the variance d^2/4 (Popoviciu) and the third central
moment d^3 / (6 sqrt(3)).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.oodpl.theory.bilevel import Policy, Reward, TanhReward
from linsys.linalg import Numbers, lambda_min, norm, operator_norm

__all__ = ["PolicyConstants", "RewardConstants"]


@dataclass(frozen=True, eq=False)
class PolicyConstants:
    """Assumptions 1 to 3 on the ball ||theta|| <= R, for all prompts and answers.

    Args:
        policy: with arrays (..., X, Y, p).
        R: radius, shape (...).

    >>> coin = Policy(psi=np.array([[[-1.0], [1.0]]]), log_h=np.zeros((1, 2)))
    >>> at = PolicyConstants(coin, np.array(0.0))
    >>> print(at.M, at.L, at.mu)
    1.0 1.0 1.0
    """

    policy: Policy
    R: Numbers

    @cached_property
    def _origin(self) -> Numbers:
        return np.asarray(0 * self.policy.psi[..., 0, 0, :])

    @cached_property
    def _covariance(self) -> Numbers:
        return np.asarray(-self.policy.hessian(self._origin))

    @cached_property
    def d(self) -> Numbers:
        """The diameter of the features of a prompt, the largest one, shape (...)."""
        return self.policy.diameter

    @cached_property
    def L(self) -> Numbers:
        """grad log pi is L-Lipschitz on the ball: the smaller of d^2/4 and e^(R d) ||Cov_0||."""
        here = operator_norm(self._covariance).max(axis=-1)
        return np.asarray(np.minimum(self.d**2 / 4, np.exp(self.R * self.d) * here))

    @cached_property
    def M(self) -> Numbers:
        """log pi is M-Lipschitz on the ball: the smaller of d and max ||psi - E_0 psi|| + R L."""
        here = norm(self.policy.gradient(self._origin)).max(axis=(-2, -1))
        return np.asarray(np.minimum(self.d, here + self.R * self.L))

    @cached_property
    def rho(self) -> Numbers:
        """The Hessian of log pi is rho-Lipschitz: d^3 / (6 sqrt(3)), everywhere."""
        return np.asarray(self.d**3 / (6 * np.sqrt(3 + 0 * self.d)))

    @cached_property
    def mu(self) -> Numbers:
        """-log pi is mu-strongly convex on the ball: e^(-R d) times the least eigenvalue at 0."""
        least = lambda_min(self._covariance).min(axis=-1)
        return np.asarray(np.exp(-self.R * self.d) * np.maximum(least, 0 * least))

    @cached_property
    def C(self) -> Numbers:
        """|log pi| <= C on the ball: its largest value at 0, and R d."""
        here = np.abs(self.policy.log_pi(self._origin)).max(axis=(-2, -1))
        return np.asarray(here + self.R * self.d)


@dataclass(frozen=True, eq=False)
class RewardConstants:
    """Assumptions 2 and 3 on the ball ||phi|| <= R, for all prompts and answers.

    Args:
        reward: with arrays (..., X, Y, q); of a :class:`TanhReward` all constants hold for every
            phi, and R is not looked at.
        R: radius, shape (...).

    >>> line = Reward(xi=np.array([[[2.0]]]), r0=np.zeros((1, 1)))
    >>> at = RewardConstants(line, np.array(1.0))
    >>> print(at.T, at.P, np.log(at.b), np.log(at.B))
    2.0 0.0 -2.0 2.0
    """

    reward: Reward
    R: Numbers

    @cached_property
    def _sizes(self) -> Numbers:
        return norm(self.reward.xi)

    @cached_property
    def _reach(self) -> Numbers:
        """How far r goes from r0, shape (..., X, Y)."""
        if isinstance(self.reward, TanhReward):
            return np.asarray(1 + 0 * self._sizes)
        return np.asarray(self.R[..., None, None] * self._sizes)

    @cached_property
    def T(self) -> Numbers:
        """r is T-Lipschitz in phi."""
        return np.asarray(self._sizes.max(axis=(-2, -1)))

    @cached_property
    def P(self) -> Numbers:
        """grad r is P-Lipschitz: 0, and of tanh 4 / (3 sqrt(3)) max ||xi||^2."""
        if isinstance(self.reward, TanhReward):
            return np.asarray(4 * self.T**2 / (3 * np.sqrt(3 + 0 * self.T)))
        return np.asarray(0 * self.T)

    @cached_property
    def b(self) -> Numbers:
        """The least exp(r)."""
        return np.asarray(np.exp((self.reward.r0 - self._reach).min(axis=(-2, -1))))

    @cached_property
    def B(self) -> Numbers:
        """The largest exp(r)."""
        return np.asarray(np.exp((self.reward.r0 + self._reach).max(axis=(-2, -1))))
