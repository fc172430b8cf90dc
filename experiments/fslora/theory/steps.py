"""FSLoRA, Sections 3.1 to 3.3 and Appendix D.1, D.2: sketches, gradients, a round, the lemmas.

Everything is an identity or a bound on sums over all sketches. Gradients that a statement is
compared with come from differences of the loss: along a line it is a polynomial of degree four,
whose derivative a five-point difference gives exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from experiments.fslora.theory.sketching import (
    Devices,
    gradient,
    join,
    loss,
    sketches,
    slope,
    squares,
)
from linsys.linalg import Numbers, transpose

Sides = tuple[Numbers, Numbers]


def def3_1(k: Numbers, r: int) -> Sides:
    """S^2 = (r/k) S and tr S = r for every S of rank k; the chances add up to one."""
    S, chance = sketches(k, r)
    own = np.where((chance > 0)[..., None], S, 0 * S)
    trace, ranked = own.sum(axis=-1), np.where(chance > 0, r + 0 * chance, 0 * chance)
    left = [(own * own).reshape(len(k), -1), trace, chance.sum(axis=-1)[:, None]]
    right = [(r / k[:, None, None] * own).reshape(len(k), -1), ranked, 1 + 0 * k[:, None]]
    return np.concatenate(left, axis=1), np.concatenate(right, axis=1)


def ES(k: Numbers, r: int) -> Sides:
    """E S = I, the diagonal."""
    S, chance = sketches(k, r)
    mean = (chance[..., None] * S).sum(axis=-2)
    return mean, 1 + 0 * mean


def covariances(k: Numbers, r: int) -> Numbers:
    """Cov(S_jj, S_ll) = (r/k - 1) (r [j = l] - 1) / (r - 1), shape (..., r, r)."""
    pattern = r * np.eye(r, dtype=int) - 1
    return np.asarray((r / k - 1)[..., None, None] * pattern / max(r - 1, 1))


def covariance(k: Numbers, r: int) -> Sides:
    """E (S - I)_jj (S - I)_ll and the formula for it."""
    S, chance = sketches(k, r)
    apart = S - 1
    found = (chance[..., None, None] * apart[..., :, None] * apart[..., None, :]).sum(axis=-3)
    return found, covariances(k, r)


def unbiased(devices: Devices) -> Sides:
    """E BSA = BA."""
    mean = devices.mean(devices.products)
    return mean, (devices.B @ devices.A)[:, None] + 0 * mean


def differences(value: Callable[[Numbers, Numbers], Numbers], B: Numbers, A: Numbers) -> Numbers:
    """The gradient of a function of (B, A) that is a quartic along lines, as :func:`join` has it.

    ``value`` maps stacks B (..., w, m, r) and A (..., w, r, n) to (..., w).
    """
    m, r, n = *B.shape[-2:], A.shape[-1]
    unit = np.eye(r * (m + n), dtype=int).reshape(-1, r, m + n)
    U, V = transpose(unit[..., :m]), unit[..., m:]

    def at(t: int) -> Numbers:
        return value(B[..., None, :, :] + t * U, A[..., None, :, :] + t * V)

    return np.asarray((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / 12)


def lemma3_2(x: Numbers, d: Numbers, B: Numbers, A: Numbers, S: Numbers) -> Sides:
    """The gradients G A'S' and S'B'G against differences, for any matrix S (B', r, r)."""
    found = join(*gradient(slope(x, d, B @ S @ A), B, A, S))
    return found, differences(lambda B, A: loss(x[:, None], d[:, None], B @ S[:, None] @ A), B, A)


def sparsity(devices: Devices) -> Sides:
    """The gradients of f~(.; S) are zero outside of the rows of S; all of them, and those alone."""
    found = devices.each_gradient
    rows = found.reshape(*found.shape[:-1], devices.r, -1)
    kept = np.where((devices.S > 0)[..., None], rows, 0 * rows).reshape(found.shape)
    return found, kept


@dataclass(frozen=True, eq=False)
class LocalSteps:
    """H local steps (4) of N devices, device i with the batch x_i^h, d_i^h in step h.

    Args:
        x: inputs, shape (B', N, H, s, n).
        d: residuals W0 x - y, shape (B', N, H, s, m).
        B: shape (B', m, r).
        A: shape (B', r, n).
        S: the diagonals of the devices' sketches, shape (B', N, r).
        gamma: step size, shape (B',).
    """

    x: Numbers
    d: Numbers
    B: Numbers
    A: Numbers
    S: Numbers
    gamma: Numbers

    @property
    def _dense(self) -> Numbers:
        return np.asarray(self.S[..., None] * np.eye(self.S.shape[-1], dtype=int))

    @property
    def _start(self) -> tuple[Numbers, Numbers]:
        one = 0 * self.S[..., :1, None] + 1
        return self.B[:, None] * one, self.A[:, None] * one

    @property
    def changes(self) -> list[tuple[Numbers, Numbers]]:
        """(Delta B, Delta A) of each step, (B', N, m, r) and (B', N, r, n): before the sketch."""
        return self._run[0]

    @property
    def moves(self) -> Numbers:
        """X_i^{t,H} - X_i^{t,0}, (B', N, r (m + n))."""
        return self._run[1]

    @cached_property
    def _run(self) -> tuple[list[tuple[Numbers, Numbers]], Numbers]:
        (B, A), S, found = self._start, self._dense, []
        step = self.gamma[:, None, None, None]
        for h in range(self.x.shape[2]):
            G = slope(self.x[:, :, h], self.d[:, :, h], B @ S @ A)
            by_B, by_A = G @ transpose(A), transpose(B) @ G
            found.append((by_B, by_A))
            B, A = B - step * by_B @ S, A - step * S @ by_A
        return found, join(B, A) - join(*self._start)

    def descent(self) -> Numbers:
        """The same for steps along -gamma times the gradient of l~(.; S), by differences."""
        (B, A), S, step = self._start, self._dense, self.gamma[:, None, None]
        m, start = B.shape[-2], join(*self._start)
        for h in range(self.x.shape[2]):
            x, d = self.x[:, :, None, h], self.d[:, :, None, h]

            def value(B: Numbers, A: Numbers, x: Numbers = x, d: Numbers = d) -> Numbers:
                return loss(x, d, B @ S[:, :, None] @ A)

            end = join(B, A) - step * differences(value, B, A)
            rows = end.reshape(*end.shape[:-1], S.shape[-1], -1)
            B, A = transpose(rows[..., :m]), rows[..., m:]
        return join(B, A) - start


def eq4(steps: LocalSteps) -> Sides:
    """H steps (4) and H gradient steps of l~(.; S_i)."""
    return steps.moves, steps.descent()


def total_update(steps: LocalSteps, sign: int) -> Sides:
    """X^H - X^0 = sign gamma [(sum Delta B) S'; S'(sum Delta A)]."""
    S, step = steps._dense, sign * steps.gamma[:, None, None, None]
    by_B = sum(change for change, _ in steps.changes)
    by_A = sum(change for _, change in steps.changes)
    return steps.moves, join(step * by_B @ S, step * S @ by_A)


def eq5_eq10(steps: LocalSteps) -> Sides:
    """X^{t+1} of (5) and X^t - (gamma/N) sum_i sum_h g_i^h with g of Lemma 3.2."""
    start = join(steps.B, steps.A)
    by_B, by_A = (sum(parts) for parts in zip(*steps.changes, strict=True))
    total = join(by_B @ steps._dense, steps._dense @ by_A).sum(axis=1)
    count = steps.x.shape[1]
    server = start + steps.moves.sum(axis=1) / count
    return server, start - steps.gamma[:, None] / count * total


def lemma_d1(values: Numbers, chance: Numbers) -> Sides:
    """N^2 E||mean P_i||^2 = sum E||P_i||^2 for independent P_i with outcomes (B', N, o, p).

    ``values`` are made zero-mean first; ``chance`` is (B', N, o).
    """
    P = values - (chance[..., None] * values).sum(axis=2, keepdims=True)
    count, outcomes = P.shape[1:3]
    left = 0 * chance[:, 0, 0]
    for path in product(range(outcomes), repeat=count):
        total = sum(P[:, i, o] for i, o in enumerate(path))
        weight = np.prod([chance[:, i, o] for i, o in enumerate(path)], axis=0)
        left = left + weight * (total * total).sum(axis=-1)
    return left, (chance * (P * P).sum(axis=-1)).sum(axis=(1, 2))


def lemma_d2(size: Numbers, chance: Numbers) -> Sides:
    """E||sum P_i||^2 = sum E||P_i||^2 for three martingale differences with two outcomes each.

    After the history h, one of 2^i, P_i is (1 - c) v with chance c and -c v otherwise:
    v = size[:, i, h] of (B', 3, 4, p) and c = chance[:, i, h] of (B', 3, 4).
    """
    left = right = 0 * chance[:, 0, 0]
    for path in product((0, 1), repeat=3):
        weight, total, alone, history = 1 + 0 * left, 0 * size[:, 0, 0], 0 * left, 0
        for i, low in enumerate(path):
            c, v = chance[:, i, history], size[:, i, history]
            share, factor = (1 - c, -c) if low else (c, 1 - c)
            P = factor[:, None] * v
            weight, total = weight * share, total + P
            alone = alone + (P * P).sum(axis=-1)
            history = 2 * history + low
        left = left + weight * (total * total).sum(axis=-1)
        right = right + weight * alone
    return left, right


def lemma_d3_8(X: Numbers, k: Numbers) -> Sides:
    """||XS||^2 <= (r/k)^2 ||X||^2 for X (B', p, r) and every S of rank k."""
    S, chance = sketches(k, X.shape[-1])
    own = np.where((chance > 0)[..., None], S, 0 * S)
    return squares(X[:, None] * own[:, :, None]), ((X.shape[-1] / k) ** 2 * squares(X))[:, None]


def lemma_d3_9(X: Numbers, k: Numbers) -> Sides:
    """E||XS||^2 = (r/k) ||X||^2."""
    S, chance = sketches(k, X.shape[-1])
    each = squares(X[:, None] * S[:, :, None])
    return (chance * each).sum(axis=-1), X.shape[-1] / k * squares(X)
