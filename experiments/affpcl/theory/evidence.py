"""What samples tell of two hypotheses: exact sums over the counts of independent draws."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from math import factorial, prod

import numpy as np
from numpy.typing import NDArray

from experiments.affpcl.theory.stack import share
from linsys.linalg import Numbers


def total_variation(p: Numbers, q: Numbers) -> Numbers:
    """||p - q||_TV along the last axis."""
    return np.asarray(np.abs(p - q).sum(axis=-1) / 2)


def divergence(p: Numbers, q: Numbers) -> Numbers:
    """D_KL(p || q) along the last axis, infinite where q misses what p has."""
    one = 1 + 0 * p
    ratio = np.where(p > 0, p, one) / np.where(q > 0, q, one)
    missed = np.where((p > 0) & (q == 0), np.inf, 0).sum(axis=-1)
    return np.asarray((p * np.log(ratio)).sum(axis=-1) + missed)


@cache
def _compositions(t: int, k: int) -> tuple[NDArray[np.int64], list[int]]:
    """All ways to write t as k counts, shape (N, k), and their multinomial coefficients."""
    cuts = itertools.combinations(range(t + k - 1), k - 1)
    counts = [np.diff([-1, *cut, t + k - 1]) - 1 for cut in cuts]
    weights = [factorial(t) // prod(map(factorial, c.tolist())) for c in counts]
    return np.array(counts), weights


def powers(p: Numbers, t: int) -> Numbers:
    """The law of the counts of t independent draws from p (..., k), shape (..., N).

    >>> powers(np.array([0.5, 0.5]), 2).tolist()
    [0.25, 0.5, 0.25]
    """
    counts, weights = _compositions(t, p.shape[-1])
    table = np.stack([p**power for power in range(t + 1)], axis=-1)
    law = table[..., 0, counts[:, 0]]
    for k in range(1, p.shape[-1]):
        law = law * table[..., k, counts[:, k]]
    return np.asarray(law * np.array(weights, dtype=p.dtype))


@dataclass(frozen=True)
class Evidence:
    """What experiments tell whose law depends on whole numbers n, t and on probabilities p.

    Each answer has shape (B,) and is computed when it is first asked for.

    Args:
        n: shape (B,).
        t: shape (B,).
        p: shape (B, 2, ...), both hypotheses.
        law: (n, t, rows of p) to the laws (rows, 2, outcomes); called once for each n and t.
    """

    n: Numbers
    t: Numbers
    p: Numbers
    law: Callable[[int, int, Numbers], Numbers]

    @cached_property
    def undecided(self) -> Numbers:
        """E[1 - E[sign | data]^2] of a fair sign that chooses the hypothesis."""
        return self._compare(lambda p, q: share(2 * p * q, p + q).sum(axis=-1))

    @cached_property
    def tv(self) -> Numbers:
        """The total variation between both laws."""
        return self._compare(total_variation)

    @cached_property
    def kl(self) -> Numbers:
        """The divergence of the second law from the first."""
        return self._compare(divergence)

    @cached_property
    def _laws(self) -> list[tuple[NDArray[np.bool_], Numbers]]:
        """Which rows have the same n and t, shape (B,), and the laws of these."""
        keys = np.stack([self.n.astype(int), self.t.astype(int)], axis=1)
        groups = [(key, (keys == key).all(axis=1)) for key in np.unique(keys, axis=0)]
        return [(rows, self.law(int(n), int(t), self.p[rows])) for (n, t), rows in groups]

    def _compare(self, how: Callable[[Numbers, Numbers], Numbers]) -> Numbers:
        compared = 0 * self.n
        for rows, both in self._laws:
            compared[rows] = how(both[:, 0], both[:, 1])
        return compared
