"""Proposition 2 of AffPCL with its constants: one environment, a known central objective.

Algorithm (5) with x^0, the mean of the agents' iterates, at its centre, or with an explicit x^c
that follows (4). Errors are those of the first agent, shape (B,), after t = 2^k rounds with
alpha = ln t / (lambda t); see :mod:`experiments.affpcl.theory.main_bounds`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

import ratecheck as rc
from experiments.affpcl.theory.directions import local_residual
from experiments.affpcl.theory.joint import first_square, run, second_moment_operator
from experiments.affpcl.theory.main_bounds import Horizon, first_doublings, horizon
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import Numbers


class CommonStack(FiniteStack):
    """One environment and any objectives: Sections 2 and 3.

    Further arrays: ``objectives`` b^i(s), shape (B, n, S, d); ``x0`` errors at the start, shape
    (B, n, d); ``later`` as in :class:`RunStack`. Phi and theta play no part.
    """

    objectives: Numbers
    x0: Numbers
    later: Numbers

    @cached_property
    def b(self) -> Numbers:
        """b^i(s), shape (B, n, S, d)."""
        return self.objectives

    @cached_property
    def b_bar(self) -> Numbers:
        """bbar^i, shape (B, n, d)."""
        weights = self.mu[..., None]
        return np.asarray((weights * self.objectives).sum(axis=2))

    @cached_property
    def G_b(self) -> Numbers:
        """max_i sup_s ||b^i(s)|| (Section 1.2), shape (B,)."""
        return self.G_b_objective

    @cached_property
    def effective(self) -> Numbers:
        """min{1, nu delta_obj} with Definition 1's delta_obj, shape (B,)."""
        gaps = self.b[:, :, None] - self.b[:, None]
        lengths = np.sqrt((gaps**2).sum(axis=-1)) * self.visited[:, None, None]
        largest = lengths.max(axis=(1, 2, 3))
        empty = self.G_b == 0
        delta = np.where(empty, 0 * largest, largest / np.where(empty, 1, 2 * self.G_b))
        return np.asarray(np.minimum(1, self.nu * delta))

    def horizon(self, divisor: int) -> Horizon:
        """Where alpha = ln t / (lambda t) <= lambda / (divisor G_A^2)."""
        limit = self.lambda_A**2 / (divisor * self.G_A**2)
        return horizon(first_doublings(limit) + self.later.astype(int), limit)

    @cached_property
    def _residuals(self) -> tuple[Numbers, Numbers]:
        """g^j(x_*^c; s) and g^i(x_*^i; s) - g^{0->i}(x_*^c; s), each (B, n, S, d)."""
        central = local_residual(self, self.x_star_central)
        return central, local_residual(self, self.x_star) - central.mean(axis=1, keepdims=True)

    def explicit_error(self, at: Horizon) -> Numbers:
        """E||x_t^1 - x_*^1||^2 of (5) around x^c by (4), which starts at the agents' mean."""
        d, size = self.d, 2 * self.d + 1
        alpha = (at.alpha / self.lambda_A).reshape(-1, 1, 1, 1, 1)
        central, individual = self._residuals
        own, centre = slice(0, d), slice(d, 2 * d)
        shares = np.zeros((*self.mu.shape, size, size), dtype=self.A.dtype)
        for rows in (own, centre):
            shares[..., rows, centre] = alpha * self.A[:, None] / self.n
            shares[..., rows, -1] = alpha[..., 0] * central / self.n
        single = np.zeros((*self.A.shape[:2], size, size), dtype=self.A.dtype)
        single[..., own, own] = alpha[:, 0] * self.A
        single[..., own, centre] = -alpha[:, 0] * self.A
        single[..., own, -1] = alpha[:, 0, ..., 0] * individual[:, 0]
        operator = second_moment_operator(self.mu, shares, single)
        last = 1 + 0 * self.x0[:, 0, :1]
        start = np.concatenate([self.x0[:, 0], self.x0.mean(axis=1), last], axis=1)
        return first_square(run(operator, start, at.doublings), d)

    def implicit_error(self, at: Horizon) -> Numbers:
        """E||x_t^1 - x_*^1||^2 of (5) around x^0, the mean of all x^i."""
        n, d = self.n, self.d
        size = n * d + 1
        alpha = (at.alpha / self.lambda_A).reshape(-1, 1, 1, 1)
        central, individual = self._residuals
        shares = np.zeros((*self.mu.shape, size, size), dtype=self.A.dtype)
        for j in range(n):
            for i in range(n):
                rows = slice(i * d, (i + 1) * d)
                shares[:, j, :, rows, -1] += alpha[..., 0] * central[:, j] / n
                for k in range(n):
                    part = self.A / n**2 - (self.A / n if i == j else 0)
                    shares[:, j, :, rows, k * d : (k + 1) * d] += alpha * part
            rows = slice(j * d, (j + 1) * d)
            shares[:, j, :, rows, rows] += alpha * self.A
            shares[:, j, :, rows, -1] += alpha[..., 0] * individual[:, j]
        operator = second_moment_operator(self.mu, shares)
        last = 1 + 0 * self.x0[:, 0, :1]
        start = np.concatenate([self.x0.reshape(len(self.x0), n * d), last], axis=1)
        return first_square(run(operator, start, at.doublings), d)


def centres(stack: CommonStack) -> rc.Sides:
    """The exact errors around x^0 and around x^c, alpha <= lambda / (16 G_A^2)."""
    at = stack.horizon(16)
    return stack.implicit_error(at), stack.explicit_error(at)
