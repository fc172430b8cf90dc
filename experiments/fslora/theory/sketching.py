"""FSLoRA, Sections 2 and 3: least-squares devices under random-k sketches.

Device i has the samples l(W) = ||W x - y||^2 / 2, which is ||(W - W0) x + d||^2 / 2 with the
residual d = W0 x - y of the frozen matrix. All sketches of rank k are enumerated, so that
expectations over them are exact sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb

import numpy as np

from linsys.linalg import Numbers, squares, transpose

__all__ = ["Devices", "gradient", "join", "loss", "sketches", "slope"]


def sketches(k: Numbers, r: int) -> tuple[Numbers, Numbers]:
    """The diagonals of all S, shape (..., K, r), and their chances (..., K), for ranks k (...).

    K = 2^r - 1 counts the subsets of every size; those of another size than k have no chance.

    >>> S, chance = sketches(np.array(1.0), 2)
    >>> S.tolist(), chance.tolist()
    ([[2.0, 0.0], [0.0, 2.0], [2.0, 2.0]], [0.5, 0.5, 0.0])
    """
    subsets = sorted(product((0, 1), repeat=r), key=lambda s: (sum(s), [-j for j in s]))[1:]
    held = np.array(subsets)
    size = held.sum(axis=1)
    many = np.array([comb(r, int(count)) for count in size])
    unit = 0 * k[..., None] + 1
    chance = np.where(k[..., None] == size, unit, 0 * unit) / many
    return r / k[..., None, None] * held, chance


def loss(x: Numbers, d: Numbers, W: Numbers) -> Numbers:
    """The mean of ||W x + d||^2 / 2 over samples x (..., s, n), d (..., s, m), at W (..., m, n)."""
    return np.asarray(squares(x @ transpose(W) + d) / (2 * x.shape[-2]))


def slope(x: Numbers, d: Numbers, W: Numbers) -> Numbers:
    """Its gradient with respect to W, shape (..., m, n)."""
    return np.asarray(transpose(x @ transpose(W) + d) @ x / x.shape[-2])


def gradient(G: Numbers, B: Numbers, A: Numbers, S: Numbers) -> tuple[Numbers, Numbers]:
    """Lemma 3.2: G A'S' and S'B'G, for slopes G (..., m, n) and any matrices S (..., r, r)."""
    by_B = G @ transpose(A) @ transpose(S)
    return by_B, transpose(S) @ transpose(B) @ G


def join(by_B: Numbers, by_A: Numbers) -> Numbers:
    """[B; A] as one vector, (..., r (m + n)), component by component."""
    rows = np.concatenate([transpose(by_B), by_A], axis=-1)
    return rows.reshape(*rows.shape[:-2], -1)


@dataclass(frozen=True, eq=False)
class Devices:
    """N devices with s samples each and one pair of modules; B' instances along the first axis.

    Args:
        x: inputs, shape (B', N, s, n).
        d: residuals W0 x - y, shape (B', N, s, m).
        B: shape (B', m, r).
        A: shape (B', r, n).
        k: ranks of the devices, whole numbers from 1 to r, shape (B', N).

    >>> ones = np.ones
    >>> devices = Devices(
    ...     x=ones((1, 1, 1, 1)), d=-ones((1, 1, 1, 1)), B=ones((1, 1, 2)), A=ones((1, 2, 1)) / 2,
    ...     k=ones((1, 1)),
    ... )
    >>> devices.losses.tolist(), devices.sketched_losses.tolist()  # all sketches agree
    ([[0.0]], [[0.0]])
    """

    x: Numbers
    d: Numbers
    B: Numbers
    A: Numbers
    k: Numbers

    @property
    def r(self) -> int:
        """The rank of the global modules."""
        return int(self.A.shape[-2])

    @property
    def kappa(self) -> Numbers:
        """r / k_i, shape (B', N)."""
        return self.r / self.k

    @cached_property
    def M(self) -> Numbers:
        """The second moments of the inputs, (B', N, n, n)."""
        return np.asarray(transpose(self.x) @ self.x / self.x.shape[-2])

    @cached_property
    def C(self) -> Numbers:
        """The slopes at W0, (B', N, m, n); f_i(B, A) = <C, BA> + tr(BA M (BA)') / 2 + const."""
        return np.asarray(transpose(self.d) @ self.x / self.x.shape[-2])

    @cached_property
    def _sketches(self) -> tuple[Numbers, Numbers]:
        return sketches(self.k, self.r)

    @property
    def S(self) -> Numbers:
        """The diagonals of all sketches of each device, (B', N, K, r)."""
        return self._sketches[0]

    @property
    def chance(self) -> Numbers:
        """Their chances, (B', N, K)."""
        return self._sketches[1]

    def mean(self, values: Numbers) -> Numbers:
        """E over sketches of values (B', N, K, ...): shape (B', N, ...)."""
        chance = self.chance.reshape(*self.chance.shape, *[1] * (values.ndim - 3))
        return np.asarray((chance * values).sum(axis=2))

    @cached_property
    def dense(self) -> Numbers:
        """S as matrices, (B', N, K, r, r)."""
        return np.asarray(self.S[..., None] * np.eye(self.r, dtype=int))

    @cached_property
    def products(self) -> Numbers:
        """B S A of every device and sketch, (B', N, K, m, n)."""
        return np.asarray(self.B[:, None, None] @ self.dense @ self.A[:, None, None])

    @property
    def losses(self) -> Numbers:
        """f_i(B, A), (B', N)."""
        return loss(self.x, self.d, (self.B @ self.A)[:, None])

    @property
    def gradients(self) -> Numbers:
        """grad f_i, (B', N, r (m + n))."""
        G = slope(self.x, self.d, (self.B @ self.A)[:, None])
        return join(*gradient(G, self.B[:, None], self.A[:, None], np.eye(self.r, dtype=int)))

    @property
    def each_loss(self) -> Numbers:
        """f~_i(B, A; S) of every sketch, (B', N, K)."""
        return loss(self.x[:, :, None], self.d[:, :, None], self.products)

    @cached_property
    def each_gradient(self) -> Numbers:
        """grad f~_i(.; S) of every sketch, (B', N, K, r (m + n))."""
        G = slope(self.x[:, :, None], self.d[:, :, None], self.products)
        return join(*gradient(G, self.B[:, None, None], self.A[:, None, None], self.dense))

    @property
    def sketched_losses(self) -> Numbers:
        """f_i^S(B, A), (B', N)."""
        return self.mean(self.each_loss)

    @cached_property
    def sketched_gradients(self) -> Numbers:
        """grad f_i^S, (B', N, r (m + n))."""
        return self.mean(self.each_gradient)
