"""P-ShareLoRA, Definitions 4.2 and A.2, Assumption 2, Lemmas 1 to 3, Proposition 1: chances.

Statements "with probability at least 1 - delta" are decided exactly: all data sets of a few
comparisons are enumerated, each with its chance. A comparison of user i shows pair j with chance
w_j and then an outcome, 1 with chance P_ij; a class has M members or M brackets of such P.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from experiments.psharelora.theory.preference import tanh
from linsys.linalg import Numbers

__all__ = ["Class", "DataSets"]

#: Comparisons in the check of Assumption 2.


@dataclass(frozen=True, eq=False)
class DataSets:
    """All data sets of N users with n comparisons each.

    Args:
        truth: P*_ij, inside (0, 1), shape (B', N, p).
        weights: w_j, shape (B', p).
        n: comparisons of each user.

    >>> data = DataSets(np.full((1, 1, 1), 0.25), np.ones((1, 1)), 2)
    >>> data.chance[0].tolist(), data.ones[0, :, 0, 0].tolist()
    ([0.5625, 0.1875, 0.1875, 0.0625], [0, 1, 1, 2])
    """

    truth: Numbers
    weights: Numbers
    n: int

    @cached_property
    def _cells(self) -> np.ndarray:
        """Every data set as cells, pair j with outcome o as 2 j + o, (D, N, n)."""
        N, p = self.truth.shape[-2:]
        every = list(product(range(2 * p), repeat=N * self.n))
        return np.array(every).reshape(-1, N, self.n)

    def _count(self, outcome: int) -> np.ndarray:
        p = self.truth.shape[-1]
        shown = self._cells[..., None] == 2 * np.arange(p) + outcome
        return np.asarray(shown.sum(axis=-2))[None]

    @cached_property
    def ones(self) -> np.ndarray:
        """How often each user and pair had outcome 1, (1, D, N, p)."""
        return self._count(1)

    @cached_property
    def zeros(self) -> np.ndarray:
        """How often outcome 0."""
        return self._count(0)

    @cached_property
    def chance(self) -> Numbers:
        """The chance of every data set, (B', D)."""
        w = self.weights[:, None, :]
        cells = np.stack([w * (1 - self.truth), w * self.truth], axis=-1)
        flat = cells.reshape(*self.truth.shape[:-1], -1)
        picked = [flat[:, i, self._cells[:, i]] for i in range(flat.shape[1])]
        return np.asarray(np.stack(picked, axis=2).prod(axis=(-2, -1)))

    def log_likelihood(self, P: Numbers) -> Numbers:
        """sum_ij log P(o_ij) for chances P (B', ..., N, p), (B', ..., D) or D where P has it."""
        ones, zeros, one = self.ones, self.zeros, 0 * P + 1
        total = np.where(ones > 0, ones * np.log(np.where(ones > 0, P, one)), 0 * P)
        total = total + np.where(zeros > 0, zeros * np.log(np.where(zeros > 0, 1 - P, one)), 0 * P)
        return np.asarray(total.sum(axis=(-2, -1)))

    def best(self, centre: Numbers, width: Numbers) -> Numbers:
        """The largest log-likelihood with every P_ij within ``width`` of a centre (B', N, p)."""
        low = np.maximum(centre - width, 0 * centre)[:, None]
        high = np.minimum(centre + width, 0 * centre + 1)[:, None]
        seen = self.ones + self.zeros
        share = (0 * low + self.ones) / np.where(seen > 0, seen, 1)
        return self.log_likelihood(np.minimum(np.maximum(share, low), high))

    def happens(self, event: Numbers) -> Numbers:
        """The chance of an event (B', D), shape (B',)."""
        return np.asarray(np.where(event, self.chance, 0 * self.chance).sum(axis=-1))


def half_width(data: DataSets, share: Numbers) -> Numbers:
    """Half of a bracket's width in one chance, where ``share`` of 1/(N n) is its whole width."""
    N = data.truth.shape[-2]
    return np.asarray(share / (4 * N * N * data.n))


def lemma_1(
    data: DataSets, centres: Numbers, share: Numbers, delta: Numbers, C: Numbers, extra: int
) -> tuple[Numbers, Numbers]:
    """The chance that sum log(P_r / P*) of some r exceeds C log(M / delta) + extra / N, and delta.

    The class is all that lies in M brackets of centres (B', M, N, p) whose width, over users and
    outcomes, is ``share`` of 1 / (N n).
    """
    N = data.truth.shape[-2]
    width = half_width(data, share)[:, None, None]
    members = [data.best(centres[:, m], width) for m in range(centres.shape[1])]
    gain = np.maximum.reduce(members) - data.log_likelihood(data.truth[:, None])
    limit = C * np.log(centres.shape[1] / delta) + (0 * delta + extra) / N
    return data.happens(gain > limit[:, None]), delta


def lemma_3(
    data: DataSets, members: Numbers, delta: Numbers, C: Numbers, twice: int
) -> tuple[Numbers, Numbers]:
    """The chance that Lemma 3 fails for some of M members (B', M, N, p), and delta.

    It says (1/N) sum_i E||P_i - P*_i||_1^2 <= (C / (N n)) (sum log(P* / P) + twice log(M / delta)).
    """
    N = data.truth.shape[-2]
    true = data.log_likelihood(data.truth[:, None])
    failed = true != true
    for m in range(members.shape[1]):
        P = members[:, m]
        gap = (data.weights[:, None, :] * 4 * (P - data.truth) ** 2).sum(axis=(-2, -1)) / N
        loss = true - data.log_likelihood(P[:, None])
        scale = (C / (N * data.n))[:, None]
        bound = scale * (loss + twice * np.log(members.shape[1] / delta)[:, None])
        failed = failed | (gap[:, None] > bound)
    return data.happens(failed), delta


@dataclass(frozen=True, eq=False)
class Class:
    """Sizes of a class of linear rewards: all fields (B',), whole numbers but for B and L1."""

    N: Numbers
    n: Numbers
    d1: Numbers
    d2: Numbers
    k: Numbers
    B: Numbers
    L1: Numbers
    delta: Numbers

    def covered(self, parameters: Numbers, radius2: Numbers, product2: Numbers) -> Numbers:
        """log(N_br(1/(N n)) / delta) from a cover of a ball of ``parameters`` dimensions.

        N_br is at most the number of balls of radius e' in a ball of radius rho, (1 + 2 rho/e')^m
        with e' = 1 / (2 N L sqrt(product2) N n).
        """
        points = 4 * self.N**2 * self.n * self.L1 * np.sqrt(radius2 * product2)
        return np.asarray(parameters * np.log(1 + points) - np.log(self.delta))

    def free(self, parameters: Numbers) -> Numbers:
        """What N_br(1/(N n)) must at least be, by volume, if so many per user are free.

        Each of these enters one pair's chance alone, which then fills an interval of length
        tanh(B L1 / (2 sqrt(parameters))); a bracket holds a box of sides that add up to epsilon/2.
        """
        length = tanh(self.B * self.L1 / (2 * np.sqrt(parameters)))
        boxes = np.log(2 * self.N**2 * self.n * length)
        return np.asarray(self.N * parameters * np.maximum(boxes, 0 * boxes) - np.log(self.delta))

    @property
    def shared(self) -> Numbers:
        """k (d1 + N d2)."""
        return np.asarray(self.k * (self.d1 + self.N * self.d2))


def prop_1_full(c: Class) -> tuple[Numbers, Numbers]:
    """Proposition 1 for all matrices, N d1 d2 log(...): a lower and an upper bound."""
    return c.free(c.d1 * c.d2), c.covered(c.N * c.d1 * c.d2, c.N * c.B**2, 1 + 0 * c.B)


def prop_1_local(c: Class) -> tuple[Numbers, Numbers]:
    """Proposition 1 with a left factor for every user, N k (d1 + d2) log(...): both bounds."""
    parameters = c.N * c.k * (c.d1 + c.d2)
    lower = c.free(c.k * np.maximum(c.d1, c.d2))
    return lower, c.covered(parameters, c.N * (c.k + c.B**2), 1 + c.B**2)
