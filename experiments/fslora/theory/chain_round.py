"""FSLoRA, Appendix D.3: one round with exact expectations, of functions that meet the assumptions.

The proof takes Assumptions 4.1 to 4.3 for functions f_i of X = [B; A] on the whole space, and
nothing else is known of f_i. Here is a family that satisfies all of them with known constants, two
numbers large: an entry b of B in the component that a sketch selects or not, and an entry a of A,

    f_i(b, a) = phi_i1(b) + phi_i2(a) + u_i a psi(b'),   phi' = L h clip(x - o, -w, w), |h| <= 1.

psi goes from 0 at b' = 0 to 1 where b' is, an entry of B that no gradient moves. With a constant in
the place of a far from where runs are, and a slow psi, it adds to the curvature as little as one
likes (:mod:`experiments.fslora.theory.coupling`), so that f_i is L-smooth on the whole space for
every |h| < 1; on the points that runs visit it adds nothing. With s = 1 where the sketch selects
the component (probability k/r) and rho = r/k, the sketched gradient is (rho s phi_i1'(rho b),
phi_i2'(a) + u_i s) and f_i^S has (phi_i1'(rho b), phi_i2'(a) + u_i / rho). rho may be any number
from 1 on: r/k comes close to it.

Sketches: one for all H steps, as in Algorithm 1, or a ``fresh`` one for each, as the proof has it.
Samples: the gradient of l~(.; S) deviates by +-(rho s n_1, n_2). All outcomes are enumerated.

>>> import numpy as np
>>> one, none = np.ones((1, 1, 2)), np.zeros((1, 1, 2))
>>> step = Round(
...     h=one, o=none, w=9 * one, u=none[..., 0], noise=none, rho=2 * one[..., 0],
...     X=np.array([[1.0, 0.0]]), L=np.ones(1), gamma=0.1 * np.ones(1), H=np.ones(1),
... )
>>> step.gradient.tolist(), step.drift.tolist()  # one step: no drift before it
([[2.0, 0.0]], [[0.0]])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal

import numpy as np

from linsys.linalg import Numbers, agent_mean, squared


def _dot(first: Numbers, second: Numbers) -> Numbers:
    return np.asarray((first * second).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class Round:
    """B rounds of N devices that make H steps from X; H may differ between the B rounds.

    Attributes:
        h, o, w: the functions phi_i1 and phi_i2, (B, N, 2).
        u: the coupling, (B, N).
        noise: n_1 and n_2, (B, N, 2).
        rho: r / k_i >= 1, (B, N).
        X: b and a, (B, 2).
        L, gamma, H: smoothness, step size, local steps, (B,).
        fresh: a new sketch in every step.
        noisy: whether samples differ; without it ``noise`` must be zero, and long rounds are cheap.
    """

    h: Numbers
    o: Numbers
    w: Numbers
    u: Numbers
    noise: Numbers
    rho: Numbers
    X: Numbers
    L: Numbers
    gamma: Numbers
    H: Numbers
    fresh: bool = False
    noisy: bool = True

    # The functions, at points (B, N, P, 2).

    @cached_property
    def _scale(self) -> Numbers:
        rho = self.rho[:, :, None]
        return np.stack([rho, 1 + 0 * rho], axis=-1)

    def _bare(self, x: Numbers) -> Numbers:
        away = self._scale * x - self.o[:, :, None]
        w = self.w[:, :, None]
        slope = (self.L[:, None, None] * self.h)[:, :, None]
        return np.asarray(slope * np.minimum(np.maximum(away, -w), w))

    def field(self, x: Numbers) -> Numbers:
        """grad f_i^S."""
        lift = (self.u / self.rho)[:, :, None]
        return self._bare(x) + np.stack([0 * lift, lift], axis=-1)

    def value(self, x: Numbers) -> Numbers:
        """f^S at points (B, P, 2) up to a constant, (B, P)."""
        away = np.abs(self._scale * x[:, None] - self.o[:, :, None])
        w = self.w[:, :, None]
        inside = np.minimum(away, w)
        slope = (self.L[:, None, None] * self.h)[:, :, None]
        each = slope * (inside * inside / 2 + w * (away - inside)) / self._scale
        return agent_mean(each.sum(axis=-1) + (self.u / self.rho)[:, :, None] * x[:, None, :, 1])

    def variance(self, x: Numbers) -> Numbers:
        """E||grad f~_i(x; S) - grad f_i^S(x)||^2, (B, N, P)."""
        slope, rho, u = self._bare(x)[..., 0], self.rho[:, :, None], self.u[:, :, None]
        return np.asarray((rho - 1) * (slope * slope + u * u / (rho * rho)))

    # The paths: P outcomes of sketches and samples per device.

    @cached_property
    def _longest(self) -> int:
        return max(int(steps) for steps in self.H)

    @cached_property
    def _outcomes(self) -> tuple[Numbers, Numbers, Numbers]:
        """s and the samples' signs, (P, steps), and probabilities, (B, N, P)."""
        steps = self._longest
        sketches = (
            list(product((0, 1), repeat=steps)) if self.fresh else [(0,) * steps, (1,) * steps]
        )
        signs = list(product((-1, 1), repeat=steps)) if self.noisy else [(0,) * steps]
        pairs = list(product(sketches, signs))
        s, xi = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
        p = (1 / self.rho)[:, :, None]
        chance = 1 + 0 * p
        for column in s.T if self.fresh else s.T[:1]:
            chance = chance * np.where(column == 1, p, 1 - p)
        return s, xi, chance / len(signs)

    def alive(self, step: int) -> Numbers:
        """Whether a round has this step, (B, 1, 1, 1)."""
        return np.asarray(step < self.H)[:, None, None, None]

    @cached_property
    def paths(self) -> list[tuple[Numbers, Numbers, Numbers]]:
        """X_i^h, grad f~_i(X_i^h; S_i^h) and the stochastic gradient g_i^h, each (B, N, P, 2)."""
        s, xi, chance = self._outcomes
        x = self.X[:, None, None] + 0 * chance[..., None]
        steps = []
        for step in range(self._longest):
            chosen = s[:, step] + 0 * chance
            factor = np.stack([self.rho[:, :, None] * chosen, 1 + 0 * chosen], axis=-1)
            lift = np.stack([0 * chosen, self.u[:, :, None] * chosen], axis=-1)
            sketched = factor * self._bare(x) + lift
            g = sketched + factor * self.noise[:, :, None] * xi[:, step, None]
            steps.append((x, sketched, g))
            x = np.where(self.alive(step), x - self.gamma[:, None, None, None] * g, x)
        return steps

    def expect(self, values: Numbers) -> Numbers:
        """E over the outcomes of one device: (B, N, P, ...) to (B, N, ...)."""
        chance = self._outcomes[2]
        return np.asarray(
            (chance.reshape(*chance.shape, *[1] * (values.ndim - 3)) * values).sum(axis=2)
        )

    def total(self, what: Literal["field", "sketched", "g"]) -> Numbers:
        """sum_h of grad f_i^S(X_i^h), grad f~_i(X_i^h; S_i^h) or g_i^h, (B, N, P, 2)."""
        result = 0 * self.paths[0][0]
        for step, (x, sketched, g) in enumerate(self.paths):
            term = {"sketched": sketched, "g": g}.get(what)
            result = result + np.where(self.alive(step), self.field(x) if term is None else term, 0)
        return np.asarray(result)

    def average(self, total: Numbers) -> Numbers:
        """E (1/N) sum_i of what every device has, (B, 2)."""
        return agent_mean(self.expect(total))

    def second_moment(self, total: Numbers) -> Numbers:
        """E||(1/N) sum_i ...||^2; devices are independent given X."""
        spread = self.expect(squared(total)) - squared(self.expect(total))
        return np.asarray(squared(self.average(total)) + agent_mean(spread) / total.shape[1])

    @cached_property
    def after(self) -> Numbers:
        """E f^S(X^{t+1}), over the outcomes of all devices together."""
        total, chance = self.total("g"), self._outcomes[2]
        N, P = total.shape[1:3]
        chosen = np.array(list(product(range(P), repeat=N)))
        move, weight = 0 * total[:, 0, chosen[:, 0]], 1 + 0 * chance[:, 0, chosen[:, 0]]
        for i in range(N):
            move = move + total[:, i, chosen[:, i]] / N
            weight = weight * chance[:, i, chosen[:, i]]
        reached = self.X[:, None] - self.gamma[:, None, None] * move
        return np.asarray((weight * self.value(reached)).sum(axis=1))

    # What the inequalities are about.

    @cached_property
    def gradients(self) -> Numbers:
        """grad f_i^S(X), (B, N, 2)."""
        return self.field(self.X[:, None, None])[:, :, 0]

    @cached_property
    def gradient(self) -> Numbers:
        """grad f^S(X), (B, 2)."""
        return agent_mean(self.gradients)

    @cached_property
    def G2(self) -> Numbers:
        """||grad f^S(X)||^2."""
        return squared(self.gradient)

    @cached_property
    def T1(self) -> Numbers:
        """E <grad f^S(X), gamma (1/N) sum_i sum_h g_i^h>."""
        return self.gamma * _dot(self.gradient, self.average(self.total("g")))

    @cached_property
    def T2(self) -> Numbers:
        """E||(1/N) sum_i sum_h g_i^h||^2."""
        return self.second_moment(self.total("g"))

    @cached_property
    def drift(self) -> Numbers:
        """(1/H) sum_h E||X_i^h - X||^2, (B, N)."""
        return self._over_steps(lambda x: x - self.X[:, None, None])

    @cached_property
    def turning(self) -> Numbers:
        """(1/H) sum_h E||grad f_i^S(X_i^h) - grad f_i^S(X)||^2, (B, N)."""
        return self._over_steps(lambda x: self.field(x) - self.gradients[:, :, None])

    def _over_steps(self, change: Callable[[Numbers], Numbers]) -> Numbers:
        result = 0 * self.rho
        for step, (x, _, _) in enumerate(self.paths):
            moved = self.expect(squared(change(x)))
            result = result + np.where(self.alive(step)[..., 0, 0], moved, 0)
        return np.asarray(result / self.H[:, None])

    def powers(self, exponent: int) -> Numbers:
        """(1/N) sum_i (r/k_i)^exponent."""
        return agent_mean(self.rho**exponent)

    def weighed_drift(self, exponent: int) -> Numbers:
        """(1/N) sum_i (r/k_i)^exponent (1/H) sum_h E||X_i^h - X||^2; T_3 has exponent 2."""
        return agent_mean(self.rho**exponent * self.drift)

    @cached_property
    def L_s(self) -> Numbers:
        """L_s = Lbar = (1/N) sum_i (r/k_i) L."""
        return self.L * self.powers(1)

    # The least constants that the assumptions can have; where h_1 = 0, sigma_s^2 is one for all X.

    @cached_property
    def sigma_g2(self) -> Numbers:
        """sigma_g^2 for all X and S."""
        n = self.noise
        return np.asarray((self.rho**2 * n[..., 0] ** 2 + n[..., 1] ** 2).max(axis=1))

    def sigma_s2(self, where: Literal["start", "visited"]) -> Numbers:
        """sigma_s^2 at X, or at all X_i^h."""
        if where == "start":
            return np.asarray(self.variance(self.X[:, None, None]).max(axis=(1, 2)))
        variances = [
            np.where(self.alive(step)[..., 0], self.variance(x), 0).max(axis=(1, 2))
            for step, (x, _, _) in enumerate(self.paths)
        ]
        return np.asarray(np.max(np.stack(variances), axis=0))

    def sigma_h2(self, c_h: Numbers) -> Numbers:
        """The least sigma_h^2 of Assumption 4.3 at X that goes with c_h."""
        gap = squared(self.gradients - self.gradient[:, None]).max(axis=1) - c_h * self.G2
        return np.asarray(np.maximum(gap, 0))


def many_components(
    r: Numbers, L: Numbers, gamma: Numbers, H: Numbers, w: Numbers, part: Numbers
) -> tuple[Numbers, Numbers]:
    """b_j^h - b_j^0 and the slope phi'(r b_j^h) in a round whose sketch selects j alone, (B,
    steps).

    f is the sum of phi(b_j) over r components, phi'(x) = -L clip(x, -w, w), and k = 1: the sketched
    gradient is r phi'(r b_j) in b_j. Both are 0 beyond the H steps of a round.
    """
    b = part * w / r
    moved, slopes = [], []
    for step in range(max(int(steps) for steps in H)):
        slope = -L * np.minimum(np.maximum(r * b, -w), w)
        alive = step < H
        moved.append(np.where(alive, b - part * w / r, 0 * b))
        slopes.append(np.where(alive, slope, 0 * b))
        b = b - gamma * r * slope
    return np.stack(moved, axis=-1), np.stack(slopes, axis=-1)
