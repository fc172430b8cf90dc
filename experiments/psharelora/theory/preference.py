"""P-ShareLoRA, Section 3 and Lemmas 4, 5, 7 and 8: preferences, rewards, and what they reveal.

A reward is r(tau) = g(<Theta, psi(tau)>) with g the identity, or g = R tanh(. / R); the first of
two trajectories is preferred with chance Phi of the difference of their rewards, Phi the logistic
function.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.psharelora.theory.subspace import Adaptation, sine
from linsys.linalg import Numbers, logistic, squares

__all__ = ["Pairs", "bend", "log_logistic", "rate", "reward", "slope", "tanh"]


def log_logistic(x: Numbers) -> Numbers:
    """log Phi(x)."""
    return np.asarray(np.minimum(x, 0 * x) - np.log(1 + np.exp(-np.abs(x))))


def slope(x: Numbers) -> Numbers:
    """Phi'(x) = Phi(x) Phi(-x)."""
    return logistic(x) * logistic(-x)


def tanh(x: Numbers) -> Numbers:
    """The hyperbolic tangent, 2 Phi(2 x) - 1."""
    return 2 * logistic(2 * x) - 1


def reward(scores: Numbers, R: Numbers) -> Numbers:
    """R tanh(s / R) of scores s = <Theta, psi>; ``R`` as many axes as the scores."""
    return R * tanh(scores / R)


def rate(scores: Numbers, R: Numbers) -> Numbers:
    """The slope of R tanh(. / R), which is 1 - tanh^2."""
    return 4 * slope(2 * scores / R)


def bend(R: Numbers) -> Numbers:
    """The largest second derivative of R tanh(. / R), 4 / (3 sqrt(3) R), where tanh^2 = 1/3."""
    return np.asarray(4 / (3 * np.sqrt(3 + 0 * R) * R))


@dataclass(frozen=True, eq=False)
class Pairs:
    """All ordered pairs of T trajectories, the first drawn from mu0, the second from mu1.

    Args:
        psi: features, shape (..., T, d1, d2).
        mu0: shape (..., T).
        mu1: shape (..., T).

    >>> pairs = Pairs(np.eye(2)[:, :, None], np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    >>> pairs.logits(np.array([[[2.0], [1.0]]]))[0, 1].item()  # r(tau_0) - r(tau_1)
    1.0
    """

    psi: Numbers
    mu0: Numbers
    mu1: Numbers

    @cached_property
    def X(self) -> Numbers:
        """psi(tau0) - psi(tau1) of every pair, (..., P, d1, d2) with P = T^2."""
        apart = self.psi[..., :, None, :, :] - self.psi[..., None, :, :, :]
        *lead, T, _, d1, d2 = apart.shape
        return np.asarray(apart.reshape(*lead, T * T, d1, d2))

    @property
    def weights(self) -> Numbers:
        """The chance of every pair, (..., P)."""
        joint = self.mu0[..., :, None] * self.mu1[..., None, :]
        return np.asarray(joint.reshape(*joint.shape[:-2], -1))

    @property
    def L1(self) -> Numbers:
        """The largest ||psi(tau)||_F, Assumption 1's constant, (...)."""
        return np.asarray(np.sqrt(squares(self.psi).max(axis=-1)))

    def logits(self, theta: Numbers) -> Numbers:
        """r(tau0) - r(tau1) of linear rewards, theta (..., N, d1, d2) to (..., N, P)."""
        return scores(theta, self.X)

    @cached_property
    def moment(self) -> Numbers:
        """E vec(X) vec(X)', (..., d1 d2, d1 d2): what the pairs cover."""
        rows = self.X.reshape(*self.X.shape[:-2], -1)
        return np.asarray(np.swapaxes(rows * self.weights[..., None], -1, -2) @ rows)

    def mean(self, values: Numbers) -> Numbers:
        """E over pairs of values (..., N, P): shape (..., N)."""
        return np.asarray((self.weights[..., None, :] * values).sum(axis=-1))

    def apart(self, theta: Numbers, other: Numbers) -> Numbers:
        """sum_i E ||P_i - P'_i||_1^2, both outcomes counted: 4 (Phi - Phi')^2; shape (...)."""
        gap = logistic(self.logits(theta)) - logistic(self.logits(other))
        return np.asarray(self.mean(4 * gap * gap).sum(axis=-1))

    def divergence(self, theta: Numbers, other: Numbers) -> Numbers:
        """sum_i E KL(P_i || P'_i), shape (...)."""
        x, y = self.logits(theta), self.logits(other)
        first = logistic(x) * (log_logistic(x) - log_logistic(y))
        second = logistic(-x) * (log_logistic(-x) - log_logistic(-y))
        return np.asarray(self.mean(first + second).sum(axis=-1))

    def steepness(self, *thetas: Numbers) -> Numbers:
        """The least Phi' between all logits of these parameters, shape (...)."""
        largest = [np.abs(self.logits(theta)).max(axis=(-2, -1)) for theta in thetas]
        return slope(np.maximum.reduce(largest))


def scores(theta: Numbers, psi: Numbers) -> Numbers:
    """<Theta_i, psi_t> of users (..., N, d1, d2) and features (..., T, d1, d2): (..., N, T)."""
    rows = theta.reshape(*theta.shape[:-2], -1)
    columns = psi.reshape(*psi.shape[:-2], -1)
    return np.asarray(rows @ np.swapaxes(columns, -1, -2))


def lemma_4(
    users: Adaptation, psi: Numbers, init: Numbers, R: Numbers, sign: int = -1
) -> tuple[Numbers, Numbers]:
    """The mean over users of |log Phi(Delta r*) - log Phi(Delta r_diamond)| for every pair.

    The bound is 2 L L1 sqrt(Sigma_tail / N) with L = 1. ``init`` (..., d1, d2) is the start of all
    users, zero in Lemma 4; ``sign`` is +1 for Lemma 7's r(tau0) + r(tau1).
    """
    size = R[..., None, None]
    start = init[..., None, :, :]
    true, best = (reward(scores(start + d, psi), size) for d in (users.delta, users.best))
    log_true = log_logistic(true[..., :, None] - true[..., None, :])
    log_best = log_logistic(best[..., :, None] + sign * best[..., None, :])
    gaps = np.abs(log_true - log_best).mean(axis=-3)
    L1 = np.sqrt(squares(psi).max(axis=-1))
    bound = 2 * L1 * np.sqrt(users.tail / users.users)
    return gaps, bound[..., None, None] + 0 * gaps


def lemma_5(users: Adaptation, fit: Adaptation, power: int) -> tuple[Numbers, Numbers]:
    """dist^power sigma_k^2 and ||Theta - Theta*||_F^2 for a Theta of rank at most k."""
    distance = sine(fit.B, users.B)
    error = squares(fit.delta - users.delta).sum(axis=-1)
    return distance**power * users.nu * users.users, error


def ball(users: Adaptation) -> tuple[Numbers, Numbers, Numbers]:
    """||[vec B; vec W]||^2, the printed radius B^2, and k + N B^2, B the largest ||W_i||_F."""
    size = squares(users.W)
    B2 = size.max(axis=-1)
    return squares(users.B) + size.sum(axis=-1), B2, users.k + users.users * B2
