"""FIRM, Theorem 1, Remark 1 and Lemma 3: exact moments, from which exponents are read.

The two classes are in float64: exponents need no more.

>>> chain = Critic(np.full((2, 2), 0.5), np.array([1.0, 0.0]), np.array([1.0, 0.5]), 0.5)
>>> chain.floor(0.1, 64) < chain.floor(0.1, 1)
True
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from experiments.firm.theory.program import weights
from linsys.linalg import Numbers, apply, solve, squared


@dataclass(frozen=True, eq=False)
class OneState:
    """A process with one state: all moments of a batch of B transitions are finite sums.

    Attributes:
        theta: logits, shape (A,).
        r: rewards, shape (A, M).
    """

    theta: Numbers
    r: Numbers

    @cached_property
    def pi(self) -> Numbers:
        """pi(a), shape (A,)."""
        raised = np.exp(self.theta - self.theta.max())
        return np.asarray(raised / raised.sum())

    @cached_property
    def psi(self) -> Numbers:
        """Scores, shape (A, A)."""
        return np.asarray(np.eye(len(self.pi), dtype=int) - self.pi)

    @cached_property
    def samples(self) -> Numbers:
        """The gradient (10) of one transition by its action, shape (A, d, M)."""
        return np.asarray(self.psi[:, :, None] * (self.r - self.pi @ self.r)[:, None])

    def batch(self, B: int) -> tuple[Numbers, Numbers]:
        """Probabilities (n,) and gradients (n, d, M) of all batches of B transitions."""
        counts = _compositions(B, len(self.pi))
        log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, B + 1)))])
        chance = log_factorials[B] - log_factorials[counts].sum(axis=1) + counts @ np.log(self.pi)
        gradients = np.tensordot(counts / B, self.samples, axes=1)
        return np.exp(chance), gradients

    def solutions(self, B: int, beta: float) -> tuple[Numbers, Numbers, Numbers]:
        """Probabilities and gradients of all batches of B, and the weights of (1), (n, M)."""
        chance, gradients = self.batch(B)
        return chance, gradients, weights(gradients, np.full(len(chance), beta))

    def weight_distance(self, B: int, beta: float) -> float:
        """E|lambda^c - lambda^c'|^2 of two clients: twice the variance of lambda."""
        chance, _, lam = self.solutions(B, beta)
        return float(2.0 * chance @ squared(lam - chance @ lam))

    def local_step(self, B: int, beta: float, a: float) -> tuple[float, float]:
        """T_{1,2} and T_disagr of two clients after one local step each, in expectation."""
        chance, gradients, lam = self.solutions(B, beta)
        theta = self.theta + a * apply(gradients, lam)
        there = [replace(self, theta=point) for point in theta]
        true = np.stack([x.pi @ x.samples.reshape(len(x.pi), -1) for x in there])
        true = true.reshape(len(there), *self.samples.shape[1:])
        pairs = chance[:, None] * chance
        middle = (theta[:, None] + theta) / 2
        pi = np.exp(middle - middle.max(axis=-1, keepdims=True))
        pi = pi / pi.sum(axis=-1, keepdims=True)
        center = pi[..., None] * (self.r - (pi @ self.r)[..., None, :])
        even = np.full(self.r.shape[1], 1.0 / self.r.shape[1])
        drift = pairs.ravel() @ squared(((true[:, None] + true) / 2 - center) @ even).ravel()
        solved = [x.solutions(B, beta) for x in there]
        g, weight = (np.concatenate([part[k] for part in solved]) for k in (1, 2))
        p = np.concatenate([c * part[0] for c, part in zip(chance, solved, strict=True)])
        apart = g[:, None] - g
        apart = apply(apart, weight[:, None] - weight) / 4
        return float(drift), float(p @ squared(apart) @ p)


def _compositions(total: int, parts: int) -> Numbers:
    """All ways to write ``total`` as an ordered sum, shape (n, parts)."""
    if parts == 1:
        return np.array([[total]])
    rows = [
        np.column_stack([np.full(len(rest), k), rest])
        for k in range(total + 1)
        for rest in [_compositions(total - k, parts - 1)]
    ]
    return np.concatenate(rows)


@dataclass(frozen=True, eq=False)
class Critic:
    """Mini-batch TD (Algorithm 3) with one feature, along one chain: exact second moments.

    The error e = w - w_* becomes (1 + a' mean A_l) e + a' mean b_l, A_l = (gamma phi' - phi) phi
    and b_l = (r + gamma phi' w_* - phi w_*) phi. The next batch starts where the last one ended, so
    that moments are kept for each state. Projections, which only help, are left out.

    Attributes:
        P: the chain's kernel, (S, S).
        r: mean rewards, (S,).
        phi: features, (S,).
        gamma: discount factor.
    """

    P: Numbers
    r: Numbers
    phi: Numbers
    gamma: float

    @cached_property
    def stationary(self) -> Numbers:
        """d, shape (S,)."""
        ones = np.ones(len(self.P))
        system = np.eye(len(self.P)) - self.P.T + 1.0
        return np.asarray(solve(system, ones))

    @cached_property
    def _slope(self) -> Numbers:
        """A_l by (s, s')."""
        return np.asarray((self.gamma * self.phi - self.phi[:, None]) * self.phi[:, None])

    @cached_property
    def lambda_A(self) -> float:
        """-E A_l."""
        return float(-(self.stationary[:, None] * self.P * self._slope).sum())

    @cached_property
    def _noise(self) -> Numbers:
        """b_l by (s, s')."""
        w = self.stationary @ (self.r * self.phi) / self.lambda_A
        return np.asarray((self.r * self.phi)[:, None] + self._slope * w)

    def sums(self, D: int) -> dict[tuple[int, int], Numbers]:
        """E[(sum A_l)^i (sum b_l)^j; s_D = s' | s_0 = s] for i + j <= 2, by doubling; D = 2^k."""
        orders = [(i, j) for i in range(3) for j in range(3 - i)]
        sums = {(i, j): self.P * self._slope**i * self._noise**j for i, j in orders}
        for _ in range(int(D).bit_length() - 1):
            sums = {
                (i, j): sum(
                    (1 + (p == 1 and i == 2))
                    * (1 + (q == 1 and j == 2))
                    * sums[p, q]
                    @ sums[i - p, j - q]
                    for p in range(i + 1)
                    for q in range(j + 1)
                )
                for i, j in orders
            }
        return sums

    def transfer(self, step: float, D: int) -> tuple[Numbers, ...]:
        """E[x^2], E[x], E[x y], E[y], E[y^2] and E[1] by (s, s'): e becomes x e + y."""
        m, a = self.sums(D), step / D
        x = m[0, 0] + a * m[1, 0]
        xx = m[0, 0] + 2 * a * m[1, 0] + a**2 * m[2, 0]
        xy = a * m[0, 1] + a**2 * m[1, 1]
        return xx, x, xy, a * m[0, 1], a**2 * m[0, 2], m[0, 0]

    def floor(self, step: float, D: int) -> float:
        """E|w_N - w_*|^2 as N grows, from a stationary chain."""
        xx, x, xy, y, yy, _ = self.transfer(step, D)
        eye, law = np.eye(len(self.P)), self.stationary
        mean = solve(eye - x.T, law @ y)
        return float(solve(eye - xx.T, 2.0 * mean @ xy + law @ yy).sum())

    def forgetting(self, step: float, D: int) -> float:
        """N over which the start's share of the error falls by the factor e; two states."""
        xx = self.transfer(step, D)[0]
        trace = xx[0, 0] + xx[1, 1]
        product = xx[0, 0] * xx[1, 1] - xx[0, 1] * xx[1, 0]
        radius = (trace + np.sqrt(trace**2 - 4 * product)) / 2
        return float(-1.0 / np.log(radius))
