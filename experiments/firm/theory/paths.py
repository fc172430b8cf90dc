"""FIRM, equations (23) and (24): the disagreement drift of clients whose weights follow (11).

Gradients of C clients along T steps with finitely many outcomes: what (23) bounds by expected
differences of gradients, and what is true of every outcome.

>>> import numpy as np
>>> unrolled(np.array([[1.0, 0.5, 0.5]])).tolist()
[[0.25, 0.25, 0.5]]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.firm.theory.program import weights
from experiments.firm.theory.weights import disagreement, smoothed
from linsys.linalg import Numbers, norm


@dataclass(frozen=True, eq=False)
class Paths:
    """Gradients of C clients at times 1, ..., T, with N possible outcomes.

    Attributes:
        g: (B, N, T, C, M, d), of length at most R.
        p: probabilities of the outcomes, (B, N).
        start: lambda_0, (B, M).
        eta: (B, T).
        beta, R: (B,).
    """

    g: Numbers
    p: Numbers
    start: Numbers
    eta: Numbers
    beta: Numbers
    R: Numbers

    def expected(self, values: Numbers) -> Numbers:
        """E of what every outcome gives, (B, N, ...) to (B, ...)."""
        return np.asarray((self.p.reshape(*self.p.shape, *[1] * (values.ndim - 2)) * values).sum(1))

    @cached_property
    def stars(self) -> Numbers:
        """lambda_t^{*,c}, (B, N, T, C, M)."""
        M, d = self.g.shape[-2:]
        A = np.swapaxes(self.g, -1, -2).reshape(-1, d, M)
        beta = np.repeat(self.beta, int(np.prod(self.g.shape[1:4])))
        return weights(A, beta).reshape(*self.g.shape[:-1])

    @cached_property
    def last(self) -> Numbers:
        """lambda_T^c, (B, N, C, M)."""
        stars = np.swapaxes(self.stars, 1, 2)
        start = self.start[:, None, None] + 0 * stars[:, 0]
        return smoothed(start, stars, self.eta)[:, -1]

    @cached_property
    def drift(self) -> Numbers:
        """The disagreement drift at time T of every outcome, (B, N)."""
        g = self.g[:, :, -1]
        flat = disagreement(g.reshape(-1, *g.shape[2:]), self.last.reshape(-1, *g.shape[2:4]))
        return flat.reshape(g.shape[:2])

    @cached_property
    def gaps(self) -> Numbers:
        """||g_i^{j,c} - g_i^{j,c'}||, (B, N, T, C, C, M)."""
        return norm(self.g[:, :, :, :, None] - self.g[:, :, :, None])

    @cached_property
    def omega(self) -> Numbers:
        """eta_i prod_{k > i} (1 - eta_k), (B, T)."""
        return unrolled(self.eta)


def unrolled(eta: Numbers) -> Numbers:
    """eta_i prod_{k=i+1}^T (1 - eta_k) for eta (B, T)."""
    kept, weights = 1 + 0 * eta[:, 0], []
    for i in reversed(range(eta.shape[1])):
        weights.append(eta[:, i] * kept)
        kept = kept * (1 - eta[:, i])
    return np.stack(weights[::-1], axis=1)
