"""FSLoRA, Theorem 4.4 and Corollary 4.5: step sizes, whole runs, and how many rounds they need.

A run that is exact at any length: N devices alike, the sketches' ratio rho = r/k, and the function
of :mod:`experiments.fslora.theory.coupling`, of which the entry a of A moves alone, with samples
+-n. The gradient in local step h is l a + u s_h +- n with a curvature l < L; f^S has its minimum
where l a = -u / rho, c_h and sigma_h are 0, sigma_s^2 = u^2 (rho - 1) / rho^2 and sigma_g^2 = n^2,
at every point.

>>> import numpy as np
>>> lines = {"start": 0.0, "u": 1.0, "n": 0.0, "rho": 2.0, "N": 1.0, "L": 1.0}
>>> run = Run(**{k: np.array([v]) for k, v in lines.items()}, gamma=np.array([0.5]),
...           H=np.array([1.0]), T=np.array([2.0]))
>>> run.measured.tolist()  # 0 in the first round, sigma_s^2 gamma^2 L^2 in the second
[0.03125]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.fslora.theory.coupling import Coupled
from linsys.linalg import Numbers, agent_mean


@dataclass(frozen=True, eq=False)
class Run:
    """B runs; every attribute (B,).

    Attributes:
        start: how far X^0 is from the minimum.
        u, n: amplitudes of what sketches and samples add to the gradient.
        rho, N, L, gamma, H, T: r/k, devices, smoothness, step size, local steps, rounds.
        fresh: a new sketch in every step.
        bent: l/L. It is less than 1 where u is not 0; 1 is the limit.
    """

    start: Numbers
    u: Numbers
    n: Numbers
    rho: Numbers
    N: Numbers
    L: Numbers
    gamma: Numbers
    H: Numbers
    T: Numbers
    fresh: bool = False
    bent: Numbers | int = 1

    @property
    def curvature(self) -> Numbers:
        """l, that of f and of f^S in a."""
        return np.asarray(self.bent * self.L)

    @property
    def reach(self) -> Numbers:
        """Up to which |a| the coupling is linear, for ``bent`` below 1: no step leaves that range.

        |a| is at most the larger one of its first value and (|u| + |n|) / l, and the smoothness on
        the whole space is at most l + 3 |u| / (2 reach) <= L.
        """
        amplitude = abs(self.u) + abs(self.n)
        return np.asarray(1 + abs(self.start) + 2 * amplitude / (self.curvature * (1 - self.bent)))

    @property
    def function(self) -> Coupled:
        """f on the whole space."""
        return Coupled(l=self.curvature, u=self.u, w=self.reach, rho=self.rho)

    @property
    def sigma_s2(self) -> Numbers:
        """sigma_s^2."""
        return np.asarray(self.u**2 * (self.rho - 1) / self.rho**2)

    @property
    def sigma_g2(self) -> Numbers:
        """sigma_g^2."""
        return self.n**2

    @property
    def first_gap(self) -> Numbers:
        """F_0 = f^S(X^0) - f*."""
        return np.asarray(self.curvature * self.start**2 / 2)

    @property
    def _kept(self) -> Numbers:
        """What a round leaves of a squared distance."""
        return np.asarray((1 - self.gamma * self.curvature) ** (2 * self.H))

    @property
    def _added(self) -> Numbers:
        """What a round adds to it: each device's deviations, held for the round or independent."""
        one = 1 - self.gamma * self.curvature
        free = self.gamma**2 * _sum_of_powers(one * one, self.H)
        held = ((1 - one**self.H) / self.curvature) ** 2
        sketches = free if self.fresh else held
        return np.asarray((sketches * self.sigma_s2 + free * self.sigma_g2) / self.N)

    @property
    def limit(self) -> Numbers:
        """lim_t E||grad f^S(X^t)||^2."""
        return np.asarray(self.curvature**2 * self._added / (1 - self._kept))

    @property
    def measured(self) -> Numbers:
        """(1/T) sum_t E||grad f^S(X^t)||^2."""
        seen = _sum_of_powers(self._kept, self.T) / self.T
        return np.asarray((self.curvature * self.start) ** 2 * seen + self.limit * (1 - seen))

    @property
    def telescoped(self) -> Numbers:
        """4 F_0 / (gamma T H)."""
        return np.asarray(4 * self.first_gap / (self.gamma * self.T * self.H))


def _sum_of_powers(base: Numbers, count: Numbers) -> Numbers:
    """1 + base + ... + base^(count - 1), base other than 1."""
    return np.asarray((1 - base**count) / (1 - base))


@dataclass(frozen=True, eq=False)
class Opposed:
    """B runs of two devices without sketches and noise whose gradients almost cancel.

    f_1' = L x and f_2' = -(1 - 2 e) L x, so f' = e L x, f* = 0, both are L-smooth, and Assumption
    4.3 holds with c_h = (1/e - 1)^2 and sigma_h = 0 for all x. Every attribute is (B,), and as in
    :class:`Run`.
    """

    start: Numbers
    e: Numbers
    L: Numbers
    gamma: Numbers
    H: Numbers
    T: Numbers

    @property
    def c_h(self) -> Numbers:
        """c_h, with sigma_h = 0."""
        return np.asarray((1 / self.e - 1) ** 2)

    @property
    def slopes(self) -> Numbers:
        """f_1', f_2' and f' at x = 1, (B, 3)."""
        return np.stack([self.L, -(1 - 2 * self.e) * self.L, self.e * self.L], axis=-1)

    def sides(self) -> rc.Sides:
        """(6) as printed: of its right-hand side 4 F_0 / (gamma T H) is left."""
        reach = self.gamma * self.L
        q = ((1 - reach) ** self.H + (1 + reach * (1 - 2 * self.e)) ** self.H) / 2
        first_gap = self.e * self.L * self.start**2 / 2
        measured = (self.e * self.L * self.start) ** 2 * _sum_of_powers(q * q, self.T) / self.T
        return measured, 4 * first_gap / (self.gamma * self.T * self.H)


def printed_step(rho: Numbers, N: Numbers, H: Numbers, L: Numbers, c_h: Numbers) -> Numbers:
    """The largest gamma of Theorem 4.4; rho (B, devices)."""
    root = 6 * L * np.sqrt((c_h + 1) * agent_mean(rho) * H)
    return np.asarray(1 / np.maximum(root, N * H**2 * L))


def needed_steps(rho: Numbers, H: Numbers, L: Numbers, c_h: Numbers) -> Numbers:
    """What the proof uses of gamma, in (14), (16), (17), and in (16) with L r/k, (B, 4)."""
    curved = H * L
    return np.stack(
        [
            1 / (3 * curved * agent_mean(rho)),
            1 / (np.sqrt(18 + 0 * curved) * curved),
            1 / (6 * curved * np.sqrt((c_h + 1) * agent_mean(rho**2))),
            1 / (3 * curved * rho.max(axis=1)),
        ],
        axis=-1,
    )


def proof_step(rho: Numbers, H: Numbers, L: Numbers, c_h: Numbers) -> Numbers:
    """The largest gamma of Theorem 4.4 that (14), (16) and (17) take as well; rho (B, devices)."""
    needed = needed_steps(rho, H, L, c_h)[:, :3].min(axis=-1)
    return np.asarray(np.minimum(printed_step(rho, rho.shape[1], H, L, c_h), needed))


def fresh_step(rho: Numbers, H: Numbers, L: Numbers, c_h: Numbers) -> Numbers:
    """gamma of the theorem with fresh sketches: all that its proof uses."""
    root = 4 * np.sqrt((c_h + 1) * agent_mean(rho**2))
    return np.asarray(1 / (H * L * np.maximum(root, 3 * rho.max(axis=1))))


def fixed_step(rho: Numbers, H: Numbers, L: Numbers, c_h: Numbers) -> Numbers:
    """gamma of the theorem with one sketch a round."""
    return np.asarray(1 / (4 * H * L * rho.max(axis=1) ** 2 * np.sqrt(c_h + 1)))


def lr(rho: Numbers, N: Numbers, H: Numbers, L: Numbers, c_h: Numbers) -> rc.Sides:
    """The printed step size is one of those that (14), (16) and (17) use."""
    printed = printed_step(rho, N, H, L, c_h)[:, None]
    needed = needed_steps(rho, H, L, c_h)[:, :3]
    return printed + 0 * needed, needed


def lr_corrected(rho: Numbers, N: Numbers, H: Numbers, L: Numbers, c_h: Numbers) -> rc.Sides:
    """min{fresh_step, 1/(N H^2 L)} is at most what (14), (16) with L r/k, and (17) use."""
    step = np.minimum(fresh_step(rho, H, L, c_h), 1 / (N * H**2 * L))
    limits = needed_steps(rho, H, L, c_h)
    root = 1 / (np.sqrt(12 * (c_h + 1) * agent_mean(rho**2)) * H * L)
    needed = np.stack([limits[:, 0], limits[:, 3], root, 1 / (N * H**2 * L)], axis=-1)
    return step[:, None] + 0 * needed, needed


def enough(rho: Numbers, c_h: Numbers) -> Numbers:
    """The N H from which on 1/(N H^2 L) alone is as small as the proof needs."""
    return np.asarray(6 * np.sqrt((c_h + 1) * agent_mean(rho**2)))


def eq17_corrected(gamma: Numbers, H: Numbers, L: Numbers, rho: Numbers) -> rc.Sides:
    """(17) with L_s L max r/k_i in the place of L_s^2."""
    cube = 3 * (gamma * H) ** 3 * L**2
    return cube * agent_mean(rho**2), cube * agent_mean(rho) * rho.max(axis=1)


def corollary_step(s: Run) -> Numbers:
    """gamma = sqrt(N) / sqrt(T H Ltil) of Corollary 4.5."""
    return np.asarray(np.sqrt(s.N / (s.T * s.H * s.rho**2 * s.L)))


def held_step(s: Run) -> Numbers:
    """gamma = sqrt(N) / (H sqrt(T Lbar)), for one sketch a round."""
    return np.asarray(np.sqrt(s.N / (s.T * s.rho * s.L)) / s.H)


def corollary_rounds(rho: Numbers, N: Numbers, H: Numbers, L: Numbers, c_h: Numbers) -> Numbers:
    """The least T for which Corollary 4.5's gamma meets the condition of Theorem 4.4.

    sqrt(N / (T H Ltil)) <= gamma_max is T >= N / (H Ltil gamma_max^2), that is, the larger one of
    N^3 H^3 L / mean(r^2/k^2) and 36 (c_h + 1) N L mean(r/k) / mean(r^2/k^2).
    """
    step = printed_step(rho, N, H, L, c_h)
    return np.asarray(N / (H * agent_mean(rho**2) * L * step**2))
