"""P-ShareLoRA, Definitions 4.2 and A.2, Assumption 2, Lemmas 1 to 3, Proposition 1: chances.

Statements "with probability at least 1 - delta" are decided exactly: all data sets of a few
comparisons are enumerated, each with its chance. A comparison of user i shows pair j with chance
w_j and then an outcome, 1 with chance P_ij; a class has M members or M brackets of such P.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb

import numpy as np

from experiments.psharelora.theory.preference import Pairs, log_logistic, tanh
from experiments.psharelora.theory.subspace import Adaptation
from linsys.linalg import Numbers

__all__ = ["SAMPLES", "Class", "DataSets"]

#: Comparisons in the check of Assumption 2.
SAMPLES = 200


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


def lemma_1(
    data: DataSets, centres: Numbers, share: Numbers, delta: Numbers, C: Numbers, extra: int
) -> tuple[Numbers, Numbers]:
    """The chance that sum log(P_r / P*) of some r exceeds C log(M / delta) + extra / N, and delta.

    The class is all that lies in M brackets of centres (B', M, N, p) whose width, over users and
    outcomes, is ``share`` of 1 / (N n).
    """
    N = data.truth.shape[-2]
    width = (share / (4 * N * N * data.n))[:, None, None]
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


def second_order(a: Numbers, b: Numbers, delta: Numbers) -> tuple[Numbers, Numbers]:
    """The chance that sum_j log(P*_j / P_j) > (1/4) sum_j (a_j - b_j)^2 + log(1/delta), and delta.

    P*_j = Phi(a_j) decides comparison j, P_j = Phi(b_j); a, b (B', n).
    """
    signs = np.array(list(product((-1, 1), repeat=a.shape[-1])))[None]
    a, b = a[:, None], b[:, None]
    true, other = log_logistic(signs * a), log_logistic(signs * b)
    chance = np.exp(true.sum(axis=-1))
    limit = ((a - b) ** 2).sum(axis=-1) / 4 - np.log(delta)[:, None]
    exceeded = (true - other).sum(axis=-1) > limit
    return np.where(exceeded, chance, 0 * chance).sum(axis=-1), delta


def moment(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """E[P* / P] under P* = Phi(a) for P = Phi(b), and e^((a - b)^2 / 4)."""
    ratio = [np.exp(2 * log_logistic(s * a) - log_logistic(s * b)) for s in (-1, 1)]
    return ratio[0] + ratio[1], np.exp((a - b) ** 2 / 4)


def lemma_4_mean(users: Adaptation, pairs: Pairs) -> tuple[Numbers, Numbers]:
    """(1/N) sum_i E KL(P*_i || P_diamond,i), and L1^2 Sigma_tail / (2 N)."""
    found = pairs.divergence(users.delta, users.best) / users.users
    return found, pairs.L1**2 * users.tail / (2 * users.users)


def bracket(f: Numbers, epsilon: Numbers) -> tuple[Numbers, Numbers]:
    """||g1 - g2||_1 of Appendix C.1's bracket around f (B', N), all outcomes; epsilon."""
    N = f.shape[-1]
    half = epsilon[:, None] / (4 * N)
    upper = np.stack([f + half, 1 - f + half])
    lower = np.stack([f - half, 1 - f - half])
    return np.abs(upper - lower).sum(axis=(0, -1)), epsilon


def bracket_mass(P: Numbers, room: Numbers, epsilon: Numbers) -> tuple[Numbers, Numbers]:
    """sum_o g2(o) of a bracket of width epsilon around P (B', 2), and 1 + epsilon.

    ``room`` (B', 4) says how the width lies below and above the two outcomes.
    """
    return (P + epsilon[:, None] * room[:, 2:]).sum(axis=-1), 1 + epsilon


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


def prop_1(c: Class) -> tuple[Numbers, Numbers]:
    """A lower bound of log(N_br / delta), and the cover's k (d1 + N d2) log(...)."""
    radius2 = c.k + c.N * c.B**2
    return c.free(c.k * c.d2), c.covered(c.shared, radius2, 1 + c.B**2)


def prop_1_full(c: Class) -> tuple[Numbers, Numbers]:
    """The same for all matrices: N d1 d2 log(...)."""
    return c.free(c.d1 * c.d2), c.covered(c.N * c.d1 * c.d2, c.N * c.B**2, 1 + 0 * c.B)


def prop_1_local(c: Class) -> tuple[Numbers, Numbers]:
    """The same with a left factor for every user: N k (d1 + d2) log(...)."""
    parameters = c.N * c.k * (c.d1 + c.d2)
    lower = c.free(c.k * np.maximum(c.d1, c.d2))
    return lower, c.covered(parameters, c.N * (c.k + c.B**2), 1 + c.B**2)


def users_term(c: Class, nu: Numbers) -> tuple[Numbers, Numbers]:
    """Theorem 4.1's log(N_br / delta) / (N n nu) at least, and what no number of users lowers."""
    length = tanh(c.B * c.L1 / (2 * np.sqrt(c.k * c.d2)))
    alone = np.log(2 * c.n * length)
    return c.free(c.k * c.d2) / (c.N * c.n * nu), c.k * c.d2 * alone / (c.n * nu)


def uniform(q: Numbers, share: Numbers) -> tuple[Numbers, Numbers]:
    """The chance that D_hat misses [0.9 D, 1.1 D] with :data:`SAMPLES` pairs, and its bound.

    (Delta r)^2 / D takes two values of mean one, the first ``share`` / q with chance q; the bound
    is 2 e^(-n h / l), h = 1.1 log 1.1 - 0.1 and l the larger value.
    """
    n = SAMPLES
    first = share / q
    second = (1 - share) / (1 - q)
    j = np.arange(n + 1)
    many = np.array([comb(n, int(i)) for i in j], dtype=object)
    logs = j * np.log(q)[:, None] + (n - j) * np.log(1 - q)[:, None]
    pmf = (many.astype(float) if q.dtype == float else many) * np.exp(logs)
    tenfold = 10 * (j * first[:, None] + (n - j) * second[:, None])
    missed = (tenfold < 9 * n) | (tenfold > 11 * n)
    eleven = (11 + 0 * q) / 10
    h = eleven * np.log(eleven) - eleven + 1
    bound = 2 * np.exp(-n * h / np.maximum(first, second))
    return np.where(missed, pmf, 0 * pmf).sum(axis=-1), bound


def few(x: Numbers, weights: Numbers, shown: Numbers, theta: Numbers) -> tuple[Numbers, Numbers]:
    """9 D(theta) / 10 and D_hat(theta) of n pairs among p with features x (B', p, d).

    ``shown`` (B', n) are numbers in [0, 1] that pick the pairs.
    """
    p = x.shape[-2]
    values = (x @ theta[..., None])[..., 0] ** 2
    picked = np.minimum((shown * p).astype(int), p - 1)
    return 9 * (weights * values).sum(axis=-1) / 10, np.take_along_axis(values, picked, -1).mean(-1)


def dimensions(c: Class) -> tuple[Numbers, Numbers]:
    """Proposition 1's count k (d1 + N d2), and N d1 d2 of all matrices."""
    return c.shared, c.N * c.d1 * c.d2


def saved(c: Class) -> tuple[Numbers, Numbers]:
    """What sharing saves of N k (d1 + d2) parameters, and (N - 1) k d1."""
    return c.N * c.k * (c.d1 + c.d2) - c.shared, (c.N - 1) * c.k * c.d1
