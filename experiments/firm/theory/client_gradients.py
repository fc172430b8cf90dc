"""FIRM, Lemma 9 and Appendix G.2: how far apart two clients' stochastic gradients are.

One :class:`Estimate` is what (10) estimates at one client: the exact moments of a sample's gradient
with given critics, its states drawn from d_pi as the paper has it or from the discounted
occupancy nu ("restarted"), of which the policy gradient theorem speaks. Batches are B independent
transitions, so that every second moment is that of one transition over B.

*Units.* Restarted gradients estimate grad H = ((1 - gamma) / gamma) grad J, where H = (1 - gamma)
mu0'V is in [0, r_max], and L_H = r_max C_psi^2 / (4 (1 - gamma)) is a Lipschitz constant of grad H
(:func:`mgda.constants.smoothness_everywhere`).

>>> import numpy as np
>>> ones = np.ones
>>> chains = Chains(
...     P=ones((1, 2, 2, 2)) / 2, r=np.eye(4)[:, :1].reshape(1, 2, 2, 1), gamma=ones(1) / 2,
...     theta=np.zeros((1, 2, 2)), phi=np.eye(2)[None], start=ones((1, 2)) / 2,
... )
>>> exact = Estimate(chains, chains.w_star, ones(1), ones(1))
>>> bool(np.allclose(exact.mean, exact.gradient)), exact.zeta.round(12).tolist()
(True, [[0.0]])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

import ratecheck as rc
from experiments.firm.theory.chain import Chains
from linsys.linalg import Numbers, norm, squared


@dataclass(frozen=True, eq=False)
class Estimate:
    """Stochastic gradients of B clients, one policy and one critic for every objective each.

    Attributes:
        chains: the processes with their policies.
        w: critics' weights, (B, M, d2), of length at most ``radius``.
        r_max: largest reward, (B,).
        radius: radius of the ball that critics are projected on, (B,).
        restarted: whether states are drawn from nu; otherwise from d_pi.
    """

    chains: Chains
    w: Numbers
    r_max: Numbers
    radius: Numbers
    restarted: bool = True

    @cached_property
    def limit(self) -> Numbers:
        """R = C_psi (r_max + (1 + gamma) radius), Lemma 7, (B,)."""
        return np.asarray(self.chains.C_psi * (self.r_max + (1 + self.chains.gamma) * self.radius))

    @cached_property
    def law(self) -> Numbers:
        """Probabilities of transitions, (B, S, A, S)."""
        states = self.chains.occupancy if self.restarted else self.chains.stationary
        return np.asarray(states[:, :, None, None] * self.chains.joint)

    def of(self, w: Numbers) -> Numbers:
        """delta^j psi with critics w, (B, S, A, S, M, d)."""
        error = self.chains.errors(self.chains.values(w))
        return np.asarray(error[..., None] * self.chains.psi[:, :, :, None, None])

    @cached_property
    def samples(self) -> Numbers:
        """delta^j psi, (B, S, A, S, M, d)."""
        return self.of(self.w)

    def average(self, values: Numbers) -> Numbers:
        """E of a function of the transition, (B, S, A, S, ...) to (B, ...)."""
        weights = self.law.reshape(*self.law.shape, *[1] * (values.ndim - 4))
        return np.asarray((weights * values).sum(axis=(1, 2, 3)))

    @cached_property
    def mean(self) -> Numbers:
        """E g^j, (B, M, d)."""
        return self.average(self.samples)

    @cached_property
    def variance(self) -> Numbers:
        """E||Z^j - E Z^j||^2 of one transition, (B, M)."""
        return self.average(squared(self.samples - self.mean[:, None, None, None]))

    @cached_property
    def gradient(self) -> Numbers:
        """grad H^j, (B, M, d)."""
        return self.chains.direction(self.chains.V, self.chains.occupancy)

    @cached_property
    def zeta(self) -> Numbers:
        """E(V^j - phi'w_*^j)^2 under nu, (B, M)."""
        error = self.chains.V - self.chains.values(self.chains.w_star)
        return np.asarray((self.chains.occupancy[..., None] * error**2).sum(axis=1))

    @cached_property
    def distance(self) -> Numbers:
        """||w_*^j - w^j||, (B, M)."""
        return norm(self.chains.w_star - self.w)

    @cached_property
    def bias(self) -> Numbers:
        """C_psi sqrt(gamma) (sqrt(zeta^j) + ||w_*^j - w^j||) >= ||E g^j - grad H^j||, (B, M).

        Scores have mean zero in every state, so that of delta - (r + gamma V' - V) only gamma times
        the critic's error at the next state is left, and nu P_pi <= nu / gamma.
        """
        scale = self.chains.C_psi * np.sqrt(self.chains.gamma)
        return np.asarray(scale[:, None] * (np.sqrt(self.zeta) + self.distance))


def smoothness(chains: Chains, r_max: Numbers) -> Numbers:
    """L_H = r_max C_psi^2 / (4 (1 - gamma)), (B,)."""
    return np.asarray(r_max * chains.C_psi**2 / (4 * (1 - chains.gamma)))


def moved(chains: Chains, step: Numbers) -> Chains:
    """The processes after the policies' parameters moved by ``step`` (B, d)."""
    length = np.asarray(chains.scale).reshape(-1, 1, 1)
    return replace(chains, theta=chains.theta + length * step.reshape(chains.theta.shape))


@dataclass(frozen=True, eq=False)
class Printed:
    """Constants of the text for policies that occur in one round, each (B,).

    ``zeta`` is the largest approximation error under d_pi, R_w and L_J are valid for all of them;
    kappa = 1 and rho are those of ``Chains.overlap``.
    """

    r_max: Numbers
    R_w: Numbers
    rho: Numbers
    zeta: Numbers
    L_J: Numbers
    C_psi: Numbers
    gamma: Numbers

    @classmethod
    def of(cls, policies: list[Chains], r_max: Numbers) -> Printed:
        """Constants for policies of one process."""
        one = policies[0]
        R_w = np.stack([chains.R_w(r_max) for chains in policies]).max(axis=0)
        zeta = np.stack([chains.zeta.max(axis=-1) for chains in policies]).max(axis=0)
        L_J = one.gamma / (1 - one.gamma) * smoothness(one, r_max)
        return cls(r_max, R_w, one.overlap, zeta, L_J, one.C_psi, one.gamma)

    @property
    def R(self) -> Numbers:
        """C_psi (r_max + (1 + gamma) R_w)."""
        return np.asarray(self.C_psi * (self.r_max + (1 + self.gamma) * self.R_w))

    def noise(self, size: Numbers, critics: int = 2) -> Numbers:
        """(r_max + critics R_w)^2 (1 - rho + 4 kappa rho) / ((1 - rho) B)."""
        factor = (1 + 3 * self.rho) / (1 - self.rho)
        return np.asarray((self.r_max + critics * self.R_w) ** 2 * factor / size)


def first_terms(known: Printed, size: Numbers, critic: Numbers) -> Numbers:
    """Lemma 9 without its last term, both critics with the error ``critic``; (B,)."""
    noise = known.noise(size, critics=1)
    return np.asarray(4 * np.sqrt(known.zeta) + 4 * np.sqrt(critic) + 4 * np.sqrt(noise))


def synchronised(pair: Sequence[Estimate], known: Printed, size: Numbers) -> rc.Sides:
    """Lemma 9 at t = t_0: ||E g^c - E g^c'||, at most E||g^c - g^c'||, and the bound; (B, M)."""
    one, two = pair
    critics = 2 * np.sqrt(one.distance) + 2 * np.sqrt(two.distance)
    rest = first_terms(known, size, 0 * known.zeta)
    return norm(one.mean - two.mean), rest[:, None] + critics


def eq48_critic(at: Estimate, constant: Numbers | None = None) -> rc.Sides:
    """E||g^j - g^j(w_*)|| <= 2 sqrt(||w_* - w||), exactly for one transition; (B, M).

    With ``constant`` (B,): <= constant ||w_* - w||.
    """
    measured = at.average(norm(at.samples - at.of(at.chains.w_star)))
    if constant is None:
        return measured, 2 * np.sqrt(at.distance)
    return measured, constant[:, None] * at.distance


def root_mean_square(pair: Sequence[Estimate], size: Numbers) -> Numbers:
    """sqrt(E||g^{j,c} - g^{j,c'}||^2) of independent batches, exactly; (B, M)."""
    one, two = pair
    noise = (one.variance + two.variance) / size[:, None]
    return np.asarray(np.sqrt(squared(one.mean - two.mean) + noise))


def lemma9_corrected(
    pair: Sequence[Estimate], size: Numbers, L: Numbers, a: Numbers, steps: int = 1
) -> rc.Sides:
    """sqrt(E||g^c - g^c'||^2) <= both biases + R sqrt(2/B) + 2 L_H R a (t - t_0); (B, M)."""
    one, two = pair
    rest = one.limit * np.sqrt(2 / size) + 2 * L * one.limit * a * steps
    return root_mean_square(pair, size), one.bias + two.bias + rest[:, None]


def eq52(g: Numbers, lam: Numbers, R: Numbers, a: Numbers, constant: int) -> rc.Sides:
    """||theta_t^c - theta_t^c'|| <= constant R a (t - t_0) for t - t_0 = 1, ..., K; (B, K).

    Two clients' gradients over R, g (B, 2, K, M, d), ||g|| <= 1, and weights (B, 2, K, M).
    """
    path = (R * a)[:, None, None, None] * np.cumsum((g * lam[..., None]).sum(axis=-2), axis=2)
    times = np.arange(1, g.shape[2] + 1)
    return norm(path[:, 0] - path[:, 1]), constant * (R * a)[:, None] * times
