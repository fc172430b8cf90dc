"""The disagreement drift of clients at common parameters: measured, and to leading order exactly.

C clients share theta and draw B transitions each. Their gradients are A + X^c with the same mean A
(d, M) and independent noise X^c, whose covariance is exactly Sigma / B where transitions are
independent ("stationary" sampling). With H of :mod:`mgda.sensitivity`, on a support that noise does
not change, and E = (A + X)'(A + X) - A'A,

    lambda(A + X) = (I + H E)^{-1} lambda = lambda + D1[X] + D2[X, X] + ...,
    D1[X] = -H (A'X + X'A) lambda,
    D2[X, X] = -H X'X lambda + H (A'X + X'A) H (A'X + X'A) lambda.

*Around the true weights* (Appendix F (14), Remark 4) the drift is the square of (1/C) sum_c
(A + X^c)(lambda^c - lambda) = (1/C) sum_c A D1[X^c] + second order. Its square has the mean

    E T = c1 / (C B) + |E(X D1[X] + A D2[X, X])|^2 / B^2 + smaller,

with X of one transition; the bias of the second term is common to all clients: C does not help.

*Around the mean weights* (equation (7)) deviations sum to zero, so that A drops out. What is left
is a sample covariance, ((C - 1)/C) b(S) with b(X X) = X D1[X]. For Gaussian noise, whose fourth
cumulants an average over B transitions has up to a factor 1 + O(1/B),

    E T = ((C - 1)/C)^2 (|E X D1[X]|^2 + v / (C - 1)) / B^2,    v = E|X D1[X]|^2 - |E X D1[X]|^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from experiments._model import Block
from experiments._rates import exact_slope
from experiments.firm._systems import ProcessConfig
from linsys._validate import Array, whole
from mgda.drift import disagreement
from mgda.momdp import MOMDP
from mgda.sensitivity import sensitivity_matrix
from mgda.simplex import gram, simplex_qp

__all__ = ["CONVENTIONS", "DriftConfig", "Law", "Moments", "drifts", "grouped", "left_out"]

#: The two readings of the weights that clients disagree with, in the order of all arrays here.
CONVENTIONS = ("mean weights (7)", "true weights (14)")


@dataclass(frozen=True, kw_only=True)
class DriftConfig(ProcessConfig):
    """Clients at the same parameters, the uniform policy.

    Attributes:
        runs: independent runs averaged in one replicate; intervals resample whole replicates.
        per_block: replicates of a block. Numbers do not depend on it.
    """

    clients: int = 4
    sampling: str = "stationary"
    replicates: int = 60
    runs: int = 32
    per_block: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("runs", self.runs, low=1)
        whole("per_block", self.per_block, low=1)

    def pieces(self) -> list[Block]:
        """The replicates of every instance, ``per_block`` at a time."""
        return [
            {"instance": instance, "first": first}
            for instance in range(self.instances)
            for first in range(0, self.replicates, self.per_block)
        ]

    def numbers(self, block: Block) -> Array:
        """The replicates of a block."""
        return np.arange(block["first"], min(block["first"] + self.per_block, self.replicates))


@dataclass(frozen=True, eq=False)
class Moments:
    """The gradients (10) of a single transition at one theta, with exact values of the critic.

    Attributes:
        mean: A, shape (d, M).
        noise: X of every possible transition, shape (n, d, M).
        law: its probability, shape (n,).
    """

    mean: Array
    noise: Array
    law: Array

    @classmethod
    def of(cls, momdp: MOMDP, theta: Array | None = None) -> Moments:
        """Moments under the stationary law; the uniform policy without ``theta`` (d,)."""
        policy = momdp.at(np.zeros(momdp.d) if theta is None else theta)
        law = (policy.stationary[:, None] * policy.pi)[..., None] * momdp.P
        error = momdp.r + momdp.gamma * policy.V - policy.V[:, None, None]
        sample = policy.psi[:, :, None, :, None] * error[:, :, :, None, :]
        sample = sample.reshape(law.size, momdp.d, momdp.M)
        mean = np.tensordot(law.ravel(), sample, axes=1)
        return cls(mean, sample - mean, law.ravel())

    def first(self, M: int) -> Moments:
        """The same for the first M objectives alone."""
        return Moments(self.mean[:, :M], self.noise[..., :M], self.law)

    @property
    def gram(self) -> Array:
        """A'A, shape (M, M)."""
        return gram(self.mean)

    @property
    def scale(self) -> float:
        """tr(A'A) / M, the scale of the Gram matrix to which beta is compared."""
        return float((self.mean**2).sum() / self.mean.shape[1])

    @property
    def power(self) -> float:
        """E|X|^2 of one transition, all objectives together."""
        return float(self.law @ (self.noise**2).sum(axis=(1, 2)))

    def at(self, beta: float, *, normalise: bool = False) -> Law:
        """The leading orders with this regularisation."""
        return Law(self, beta, normalise)


@dataclass(frozen=True, eq=False)
class Law:
    """The drift to leading order in 1/B, see the module's text.

    Attributes:
        moments: of one transition.
        beta: the regularisation, of the raw Gram matrix or
        normalise: of the one divided by its trace, equation (9).
    """

    moments: Moments
    beta: float
    normalise: bool = False

    @cached_property
    def weights(self) -> Array:
        """lambda of the true gradients, shape (M,)."""
        return simplex_qp(self.moments.gram, beta=self.beta, normalise=self.normalise).weights

    @cached_property
    def _H(self) -> Array:
        G = self.moments.gram
        factor = len(G) / np.trace(G) if self.normalise else 1.0
        return sensitivity_matrix(factor * G + 0.5 * self.beta * np.eye(len(G)), self.weights)

    @cached_property
    def _changes(self) -> tuple[Array, Array]:
        """First and second order of the program's matrix for every transition, (n, M, M)."""
        A, X = self.moments.mean, self.moments.noise
        half = A.T @ X
        one, two = half + np.swapaxes(half, 1, 2), np.swapaxes(X, 1, 2) @ X
        if not self.normalise:
            return one, two
        # G / (tr G / M) to second order
        G = self.moments.gram
        total, M = np.trace(G), len(G)
        t1, t2 = (np.trace(x, axis1=1, axis2=2)[:, None, None] / total for x in (one, two))
        return M / total * (one - t1 * G), M / total * (two - t1 * one + (t1**2 - t2) * G)

    @cached_property
    def _moves(self) -> tuple[Array, Array]:
        """D1[X] and D2[X, X] for every transition, each (n, M)."""
        one, two = self._changes
        turned = one @ self._H
        return -(one @ self.weights) @ self._H, (
            (turned @ (one @ self.weights)[..., None])[..., 0] - two @ self.weights
        ) @ self._H

    @cached_property
    def c1(self) -> float:
        """E|A D1[X]|^2: around the true weights E T = c1 / (C B) + bias / B^2."""
        moved = self._moves[0] @ self.moments.mean.T
        return float(self.moments.law @ (moved**2).sum(axis=1))

    @cached_property
    def bias(self) -> float:
        """|E(X D1[X] + A D2[X, X])|^2."""
        X, A = self.moments.noise, self.moments.mean
        one, two = self._moves
        both = (X @ one[..., None])[..., 0] + two @ A.T
        return float(((self.moments.law @ both) ** 2).sum())

    @cached_property
    def pair(self) -> tuple[float, float]:
        """|E X D1[X]|^2 and v = E|X D1[X]|^2 - |E X D1[X]|^2 for Gaussian X (Wick's formula)."""
        X, one, law = self.moments.noise, self._moves[0], self.moments.law
        weighted = law[:, None, None] * X
        cross = np.tensordot(weighted, one, axes=(0, 0))  # Cov(X_ij, D_k), (d, M, M)
        own = np.einsum("nij,nik->ijk", weighted, X, optimize=True)  # Cov(X_ij, X_ik)
        spread = one.T @ (law[:, None] * one)
        mean = np.trace(cross, axis1=1, axis2=2)
        v = (own * spread).sum() + (cross * np.swapaxes(cross, 1, 2)).sum()
        return float(mean @ mean), float(v)

    def drift(self, clients: int, B: ArrayLike) -> Array:
        """E T in both conventions, shape (2, ...) for B of shape (...)."""
        size = np.asarray(B, dtype=np.float64)
        square, v = self.pair
        around_mean = ((clients - 1) / clients) ** 2 * square + (clients - 1) / clients**2 * v
        return np.stack([around_mean / size**2, self.c1 / (clients * size) + self.bias / size**2])

    def next_order(self, B: ArrayLike) -> Array:
        """The estimated size of what :meth:`drift` leaves out, relative to it, for B of any shape.

        Each order of (I + H E)^{-1} brings another factor H E with E|H E|^2 = (E|H (A'X + X'A)|^2
        + |E H X'X|) / B, and where A'X became X'X, a factor |X| / |A|; odd ones have no mean.
        Twice their sum, as the drift is a square.
        """
        one, two = self._changes
        law = self.moments.law
        k = law @ ((self._H @ one) ** 2).sum(axis=(1, 2))
        k += np.linalg.norm(self._H @ np.tensordot(law, two, axes=1))
        k += self.moments.power / (self.moments.mean**2).sum()
        return np.asarray(2.0 * k / np.asarray(B, dtype=np.float64))


def drifts(
    gradients: Array, moments: Moments, beta: float, *, normalise: bool = False, G: Any = None
) -> Array:
    """T_disagr of gradients (R, C, d, M) in both conventions, shape (2, R).

    ``G``: their Gram matrices, where many values of beta share them.
    """
    matrices = gram(gradients) if G is None else G
    weights = simplex_qp(matrices, beta=beta, normalise=normalise).weights
    true = moments.at(beta, normalise=normalise).weights
    reference = np.broadcast_to(true, (len(gradients), len(true)))
    return np.stack([disagreement(gradients, weights), disagreement(gradients, weights, reference)])


def grouped(values: Array, runs: int) -> Array:
    """Means over ``runs`` neighbours on the last axis: (..., replicates * runs) to replicates.

    >>> grouped(np.arange(6.0), 3).tolist()
    [1.0, 4.0]
    """
    return np.asarray(values.reshape(*values.shape[:-1], -1, runs).mean(axis=-1))


def left_out(x: ArrayLike, relative: ArrayLike) -> float:
    """How much a log-log slope over x changes where the curve has a factor 1 + ``relative``.

    >>> round(left_out([10.0, 100.0], [0.1, 0.01]), 3)  # 1 + 1/x
    0.037
    """
    factors = 1.0 + np.asarray(relative, dtype=np.float64)
    return abs(exact_slope(x, factors).value)
