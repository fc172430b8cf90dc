"""FSLoRA, Sections 3.1 to 3.3 and Appendix D.1, D.2: covariances of sketches, local steps.

Gradients that a statement is compared with come from differences of the loss: along a line it is a
polynomial of degree four, whose derivative a five-point difference gives exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import ratecheck as rc
from experiments.fslora.theory.sketching import (
    join,
    loss,
    slope,
)
from linsys.linalg import Numbers, transpose


def covariances(k: Numbers, r: int) -> Numbers:
    """Cov(S_jj, S_ll) = (r/k - 1) (r [j = l] - 1) / (r - 1), shape (..., r, r)."""
    pattern = r * np.eye(r, dtype=int) - 1
    return np.asarray((r / k - 1)[..., None, None] * pattern / max(r - 1, 1))


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
        (B, A), S, gradients = self._start, self._dense, []
        step = self.gamma[:, None, None, None]
        for h in range(self.x.shape[2]):
            G = slope(self.x[:, :, h], self.d[:, :, h], B @ S @ A)
            by_B, by_A = G @ transpose(A), transpose(B) @ G
            gradients.append((by_B, by_A))
            B, A = B - step * by_B @ S, A - step * S @ by_A
        return gradients, join(B, A) - join(*self._start)

    def descent(self) -> Numbers:
        """X_i^{t,H} - X_i^{t,0} for steps of size gamma along -grad l~(.; S), by differences."""
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


def total_update(steps: LocalSteps, sign: int) -> rc.Sides:
    """X^H - X^0 = sign gamma [(sum Delta B) S'; S'(sum Delta A)]."""
    S, step = steps._dense, sign * steps.gamma[:, None, None, None]
    by_B = sum(change for change, _ in steps.changes)
    by_A = sum(change for _, change in steps.changes)
    return steps.moves, join(step * by_B @ S, step * S @ by_A)
