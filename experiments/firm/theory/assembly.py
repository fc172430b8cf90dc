"""FIRM, Appendix F: how the proof of Theorem 1 puts its pieces together.

Functions of stacks of tabular processes, B first. The pieces themselves:
:mod:`experiments.firm.theory.client_gradients`, :mod:`experiments.firm.theory.paths`; the sum over
time: :mod:`experiments.firm.theory.ascent`; what the constants amount to:
:mod:`experiments.firm.theory.reach`.

*The corrected bound on T_1.* With H, L_H and b of :mod:`experiments.firm.theory.client_gradients`,
R of Lemma 7, s <= K - 1 steps since the last aggregation and lambda_t the clients' average, gbar -
grad H(thetabar) lambda_t is a sum of four vectors: noise, bias, disagreement and drift, and so T_1
<= 4 times the sum of their squares:

    noise         M R^2 / (C B): lambda_t is made of the gradients of step t, so that all M
                  objectives' noises are bounded at once, sum_j E||.||^2
    bias          b^2
    disagreement  (1 - 1/C) min{(4 R^3 M / beta) (R sqrt(2M/B) + 2 b + 2 L_H R a s),
                  (1 - 1/C) M (R^2/B + 2 (b + L_H R a s)^2)}
    drift         (L_H R a s)^2

The theorem follows by (30), averaging, and the corrected Lemma 10: for a <= 1 / L_H,

    (1/T) sum_t E||grad H(thetabar_t) lambda_t||^2
        <= (2 r_max / (T a)) (1 + sum_{t=2}^T eta_t) + 4 (noise + bias + disagreement + drift).

Critics are fixed here. Random ones that do not depend on the batch make b random, with E b^2 <=
C_psi^2 gamma (sqrt(zeta) + sqrt(eps))^2 if E max ||w_* - w||^2 <= eps.

>>> import numpy as np
>>> one, none = np.ones(1), np.zeros(1)
>>> corrected(R=one, M=2, clients=1, size=100 * one, bias=none, reach=none, beta=one).tolist()
[0.08]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.firm.theory.chain import Chains
from experiments.firm.theory.client_gradients import (
    Estimate,
    Printed,
    moved,
    smoothness,
)
from experiments.firm.theory.program import weights
from linsys.linalg import Numbers, squared


def _moments(at: Estimate, lam: Numbers, target: Numbers) -> tuple[Numbers, Numbers]:
    """Bias (B, d) and variance (B,) of one transition's sum_j lambda^j (g^j - target^j)."""
    weighed = (lam[:, None, None, None, :, None] * at.samples).sum(axis=-2)
    mean = at.average(weighed)
    spread = at.average(squared(weighed - mean[:, None, None, None]))
    return np.asarray(mean - (lam[..., None] * target).sum(axis=1)), spread


def gradient_error(
    at: Estimate, lam: Numbers, target: Numbers, clients: Numbers, size: Numbers
) -> Numbers:
    """E||(1/C) sum_c sum_j lambda^j (g^{j,c} - target^j)||^2 of C clients at one policy, (B,)."""
    bias, spread = _moments(at, lam, target)
    return np.asarray(squared(bias) + spread / (clients * size))


def restarted_error(each: Sequence[Estimate], lam: Numbers, size: Numbers) -> Numbers:
    """E||(1/C) sum_c sum_j lambda^j (g^{j,c} - grad H^j(theta^c))||^2 of these clients, (B,)."""
    moments = [_moments(at, lam, at.gradient) for at in each]
    biases, spreads = (np.stack(part).sum(axis=0) for part in zip(*moments, strict=True))
    return np.asarray((squared(biases) + spreads / size) / len(each) ** 2)


def errors(at: Estimate, known: Printed, clients: Numbers, size: Numbers) -> Numbers:
    """The right side of (17) for clients with one policy and critic, (B,)."""
    critic = (at.distance**2).max(axis=-1)
    return np.asarray(12 * known.zeta + 12 * known.noise(size) / clients + 12 * critic)


def corrected(
    R: Numbers,
    M: int,
    clients: int,
    size: Numbers,
    bias: Numbers,
    reach: Numbers,
    beta: Numbers,
) -> Numbers:
    """The corrected Q_t, see the module's text; ``reach`` is L_H R a s, and ``bias`` b."""
    others = 1 - (1 + 0 * R) / clients
    linear = R * np.sqrt(2 * M / size) + 2 * bias + 2 * reach
    square = others * M * (R**2 / size + 2 * (bias + reach) ** 2)
    apart = others * np.minimum(4 * R**3 * M / beta * linear, square)
    parts = M * R**2 / (clients * size) + bias**2 + apart + reach**2
    return np.asarray(4 * parts)


@dataclass(frozen=True, eq=False)
class SecondStep:
    """C clients one step after an aggregation, t = 2 and t_0 = 1, given what was drawn before.

    Attributes:
        base: the processes with the aggregated policy.
        past: empirical law of each client's batch at t = 1, (B, C, S A S). Batches of sufficient
            size come as near to any law as one likes.
        w: critics of both steps, (B, C, M, d2); without them, the exact ones of each policy.
        start: lambda_0, (B, M).
        eta: (B, 2).
        beta, a, r_max, radius: (B,).
        restarted: what states are drawn from, see :class:`Estimate`.
    """

    base: Chains
    past: Numbers
    w: Numbers | None
    start: Numbers
    eta: Numbers
    beta: Numbers
    a: Numbers
    r_max: Numbers
    radius: Numbers
    restarted: bool = True

    @property
    def clients(self) -> int:
        """C."""
        return int(self.past.shape[1])

    def estimate(self, chains: Chains, client: int) -> Estimate:
        """A client's gradients at some policy."""
        w = chains.w_star if self.w is None else self.w[:, client]
        return Estimate(chains, w, self.r_max, self.radius, self.restarted)

    @cached_property
    def before(self) -> list[Estimate]:
        """What the clients estimated at t = 1."""
        return [self.estimate(self.base, c) for c in range(self.clients)]

    @cached_property
    def drawn(self) -> Numbers:
        """g_1^{j,c}, (B, C, M, d)."""
        gradients = []
        for c, at in enumerate(self.before):
            law = self.past[:, c].reshape(*at.law.shape, 1, 1)
            gradients.append((law * at.samples).sum(axis=(1, 2, 3)))
        return np.stack(gradients, axis=1)

    @cached_property
    def lam(self) -> Numbers:
        """lambda_1^c, (B, C, M)."""
        eta = self.eta[:, :1, None]
        return np.asarray((1 - eta) * self.start[:, None] + eta * self._stars(self.drawn))

    def _stars(self, g: Numbers) -> Numbers:
        """lambda* of gradients (B, n, M, d), (B, n, M)."""
        A = np.swapaxes(g, -1, -2).reshape(-1, g.shape[3], g.shape[2])
        return weights(A, np.repeat(self.beta, g.shape[1])).reshape(g.shape[:3])

    @cached_property
    def steps(self) -> Numbers:
        """theta_2^c - theta_1, (B, C, d)."""
        return np.asarray(self.a[:, None, None] * (self.lam[..., None] * self.drawn).sum(axis=2))

    @cached_property
    def now(self) -> list[Estimate]:
        """What the clients estimate at t = 2."""
        return [self.estimate(moved(self.base, self.steps[:, c]), c) for c in range(self.clients)]

    @cached_property
    def centre(self) -> Chains:
        """The processes at the averaged policy."""
        return moved(self.base, self.steps.sum(axis=1) / self.clients)

    @property
    def policies(self) -> list[Chains]:
        """All policies that occur."""
        return [self.base, self.centre, *(at.chains for at in self.now)]

    def _outcomes(
        self, at: Estimate, before: Numbers, eta: Numbers
    ) -> tuple[Numbers, Numbers, Numbers]:
        """One transition: probabilities (B, X), gradients (B, X, M, d), weights (B, X, M)."""
        p = at.law.reshape(len(at.law), -1)
        g = at.samples.reshape(*p.shape, *at.samples.shape[-2:])
        share = eta[:, None, None]
        return p, g, (1 - share) * before[:, None] + share * self._stars(g)

    def _square_of_mean(self, parts: list[tuple[Numbers, Numbers]]) -> Numbers:
        """E||(1/C) sum_c x^c||^2 of independent x^c, each given by p (B, X) and x (B, X, d)."""
        means = [(p[..., None] * x).sum(axis=1) for p, x in parts]
        own = [
            (p * squared(x)).sum(axis=1) - squared(m)
            for (p, x), m in zip(parts, means, strict=True)
        ]
        total = np.stack(means).sum(axis=0)
        return np.asarray((np.stack(own).sum(axis=0) + squared(total)) / self.clients**2)

    @cached_property
    def error(self) -> Numbers:
        """E[T_1 | past] at t = 2 with gradients of one transition each, exactly, (B,).

        As lambda_t is the clients' average, gbar - grad H(thetabar) lambda_t is the average of
        independent vectors, one for each client.
        """
        target = self.centre.direction(self.centre.V, self.centre.occupancy)[:, None]
        parts = []
        for c, at in enumerate(self.now):
            p, g, lam = self._outcomes(at, self.lam[:, c], self.eta[:, 1])
            parts.append((p, (lam[..., None] * (g - target)).sum(axis=2)))
        return self._square_of_mean(parts)

    @cached_property
    def stationarity(self) -> Numbers:
        """E||grad H(theta_1) lambda_1||^2 with gradients of one transition each, exactly, (B,)."""
        target = self.base.direction(self.base.V, self.base.occupancy)[:, None]
        parts = []
        for at in self.before:
            p, _, lam = self._outcomes(at, self.start, self.eta[:, 0])
            parts.append((p, (lam[..., None] * target).sum(axis=2)))
        return self._square_of_mean(parts)

    def bound(self, estimates: list[Estimate], steps: int) -> Numbers:
        """The corrected Q_t, so many steps after the aggregation, (B,)."""
        bias = np.stack([at.bias.max(axis=-1) for at in estimates]).max(axis=0)
        R = estimates[0].limit
        reach = steps * smoothness(self.base, self.r_max) * R * self.a
        M = self.start.shape[-1]
        return corrected(R, M, self.clients, 1 + 0 * R, bias, reach, self.beta)
