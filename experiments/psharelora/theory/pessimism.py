"""P-ShareLoRA, proof of Theorem B.2: pessimistic policies for linear rewards.

Rewards are <Theta, psi(tau)>, and the policies are K given distributions over T trajectories, so
that the value of a policy against the reference is <v, Theta> with v = E_pi psi - E_ref psi. Over
the ball (3.4) the worst value is <v, Theta_hat> - sqrt(zeta) ||v||, and max over policies of it, as
in (3.5), is a comparison of K numbers. Any number of axes may come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.psharelora.theory.subspace import Kinds, flat
from linsys.linalg import Numbers, norm

__all__ = ["Pessimist", "against", "choosers", "radius"]


def against(policies: Numbers, reference: Numbers, psi: Numbers) -> Numbers:
    """v of policies (..., K, T) against mu_ref (..., T), features psi (..., T, D): (..., K, D)."""
    return np.asarray((policies - reference[..., None, :]) @ psi)


@dataclass(frozen=True, eq=False)
class Pessimist:
    """Who chooses by (3.5) from a confidence ball around Theta_hat.

    Args:
        v: E_pi psi - E_ref psi of every policy, (..., K, D); the first one is pi_tar.
        hat: vec of Theta_hat, (..., D).
        truth: vec of Theta*, (..., D).
        radius: of the ball, sqrt(zeta) for (3.4) as printed, (...).

    >>> one = np.ones((1, 1))
    >>> v = against(np.eye(2)[None], np.array([[0.0, 1.0]]), np.array([[[1.0], [0.0]]]))
    >>> chooser = Pessimist(v, hat=2 * one, truth=one, radius=one[0])
    >>> chooser.values.tolist(), chooser.gap.tolist()
    ([[1.0, 0.0]], [0.0])
    """

    v: Numbers
    hat: Numbers
    truth: Numbers
    radius: Numbers

    @cached_property
    def values(self) -> Numbers:
        """min over the ball of J(pi) - E_ref r: <v, Theta_hat> - radius ||v||, (..., K)."""
        return np.asarray(self._worth(self.hat) - self.radius[..., None] * norm(self.v))

    def _worth(self, Theta: Numbers) -> Numbers:
        return np.asarray((self.v @ Theta[..., None])[..., 0])

    @property
    def _best(self) -> Numbers:
        """The number of the chosen policy, (..., 1)."""
        return np.asarray(self.values.argmax(axis=-1)[..., None])

    def _chosen(self, of: Numbers) -> Numbers:
        """The entry of the chosen policy, of numbers (..., K)."""
        return np.asarray(np.take_along_axis(of, self._best, axis=-1)[..., 0])

    @property
    def best_of_mixtures(self) -> Numbers:
        """Whether no mixture of policies is better than the chosen one, (...), if that has a v.

        The worst value is concave in the mixture, so that its slopes at the chosen v decide.
        """
        length = self.length[..., None]
        chosen = np.take_along_axis(self.v, self._best[..., None], axis=-2)
        moved = self.v - chosen
        slope = (moved * chosen).sum(axis=-1) / np.where(length > 0, length, 1 + 0 * length)
        gain = self._worth(self.hat) - self._chosen(self._worth(self.hat))[..., None]
        better = gain - self.radius[..., None] * slope > 0
        return np.asarray(~better.any(axis=-1) | (length[..., 0] == 0))

    @property
    def error(self) -> Numbers:
        """||Theta_hat - Theta*||, (...)."""
        return norm(self.hat - self.truth)

    @property
    def length(self) -> Numbers:
        """||v|| of the chosen policy."""
        return self._chosen(norm(self.v))

    @property
    def target_length(self) -> Numbers:
        """||v|| of pi_tar."""
        return norm(self.v)[..., 0]

    @property
    def bracket(self) -> Numbers:
        """J(pi_hat; r_inf) - E_ref r_inf - (J(pi_hat; r*) - E_ref r*)."""
        return self._chosen(self.values - self._worth(self.truth))

    @property
    def gap(self) -> Numbers:
        """J(pi_tar; r*) - J(pi_hat; r*)."""
        worth = self._worth(self.truth)
        return np.asarray(worth[..., 0] - self._chosen(worth))

    @property
    def missing(self) -> Numbers:
        """(||Theta_hat - Theta*|| - radius)_+, by how much Theta* is outside of the ball."""
        return np.asarray(np.maximum(self.error - self.radius, 0 * self.error))

    def step(self, first: Numbers, second: Numbers) -> Numbers:
        """|Delta r_hat - Delta r_inf| between two trajectories, r_inf the worst for pi_tar."""
        v = self.v[..., 0, :]
        length = norm(v)[..., None]
        moved = self.radius[..., None] * v / np.where(length > 0, length, 1 + 0 * length)
        return np.asarray(np.abs((moved * (first - second)).sum(axis=-1)))

    def value_gap(self) -> tuple[Numbers, Numbers]:
        """gap against (radius + error) ||v_tar|| + (error - radius) ||v_hat||."""
        bound = (self.radius + self.error) * self.target_length
        return self.gap, bound + (self.error - self.radius) * self.length


def choosers(truth: Numbers, theta: Numbers, v: Numbers, radius: Numbers) -> Pessimist:
    """All users at once: matrices (..., N, d1, d2), v (..., K, d1 d2) and radius (..., N)."""
    return Pessimist(v[..., None, :, :], hat=flat(theta), truth=flat(truth), radius=radius)


def radius(kinds: Kinds, C: Numbers, printed: bool) -> Numbers:
    """sqrt(zeta), zeta of (B.1) for N_p to infinity and c3 = 2 L1^2 C; (B,).

    As printed zeta is the root of C (min_i b_i + sqrt(Sigma_tail/N)/nu), so that the radius is its
    fourth root. Otherwise with max_i b_i, and zeta is the square of that.
    """
    b = kinds.b.min(axis=1) if printed else kinds.b.max(axis=1)
    nu = np.where(kinds.nu > 0, kinds.nu, 1 + 0 * kinds.nu)  # zero where Theta_diamond is
    root = np.sqrt(C * (b + np.sqrt(kinds.spread) / nu))
    return np.asarray(np.sqrt(root) if printed else root)
