"""The disagreement drift of clients at common parameters, to leading order exactly.

C clients share theta and draw B transitions each. Their gradients are A + X^c with the same mean A
(d, M) and independent noise X^c, whose covariance is exactly Sigma / B where transitions are
independent ("stationary" sampling). With H of :mod:`mgda.sensitivity`, on a support that noise does
not change, and E = (A + X)'(A + X) - A'A,

    lambda(A + X) = (I + H E)^{-1} lambda = lambda + D1[X] + D2[X, X] + ...,
    D1[X] = -H (A'X + X'A) lambda,
    D2[X, X] = -H X'X lambda + H (A'X + X'A) H (A'X + X'A) lambda.

*Around the true weights* (Appendix F (14), Remark 4) the drift is the square of (1/C) sum_c
(A + X^c)(lambda^c - lambda) = (1/C) sum_c A D1[X^c] + second order. Its square has the mean

    E T = c1 / (C B) + (|E(X D1[X] + A D2[X, X])|^2 + v / C) / B^2 + smaller,

with X of one transition; the bias is common to all clients: C does not help. Of the terms of order
1 / (C B^2) only v is kept, the one that is there when all mean gradients are the same and c1 = 0.

*Around the mean weights* (equation (7)) deviations sum to zero, so that A drops out. What is left
is a sample covariance, ((C - 1)/C) b(S) with b(X X) = X D1[X]. For Gaussian noise, whose fourth
cumulants an average over B transitions has up to a factor 1 + O(1/B),

    E T = ((C - 1)/C)^2 (|E X D1[X]|^2 + v / (C - 1)) / B^2,    v = E|X D1[X]|^2 - |E X D1[X]|^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from linsys.validate import Array
from mgda.momdp import MOMDP
from mgda.sensitivity import sensitivity_matrix
from mgda.simplex import gram, simplex_qp

__all__ = ["DriftExpansion", "Kink", "LargeBetaDrift", "Moments"]

#: Is used as beta where beta = 0, relative to the Gram matrix: without it several weights may be
#: optimal.
_LIMIT = 1e-9


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
        """The moments of the first M objectives alone."""
        return Moments(self.mean[:, :M], self.noise[..., :M], self.law)

    @property
    def gram(self) -> Array:
        """The Gram matrix A'A, shape (M, M)."""
        return gram(self.mean)

    @property
    def scale(self) -> float:
        """tr(A'A) / M, the scale of the Gram matrix to which beta is compared."""
        return float((self.mean**2).sum() / self.mean.shape[1])

    @property
    def power(self) -> float:
        """E|X|^2 of one transition, all objectives together."""
        return float(self.law @ (self.noise**2).sum(axis=(1, 2)))

    def bound(self, beta: float, clients: int, B: int) -> float:
        """(23) for one step: E|g - g'| <= sqrt(2 tr Sigma^j / B), and R the least that is valid."""
        M = self.mean.shape[1]
        R = np.linalg.norm(self.mean + self.noise, axis=1).max()
        apart = np.sqrt(2.0 / B * (self.law @ (self.noise**2).sum(axis=1)).max())
        return float(8.0 * R**3 * M**1.5 * (1.0 - 1.0 / clients) * apart / beta)

    def at(self, beta: float, *, normalise: bool = False) -> DriftExpansion:
        """The leading orders with this regularisation."""
        return DriftExpansion(self, beta, normalise)


@dataclass(frozen=True, eq=False)
class DriftExpansion:
    """The drift to leading order in 1/B, see the module's text.

    Attributes:
        moments: of one transition.
        beta: the regularisation.
        normalise: whether beta belongs to the Gram matrix divided by its trace, equation (9), and
            not to the raw one.
    """

    moments: Moments
    beta: float
    normalise: bool = False

    @cached_property
    def weights(self) -> Array:
        """lambda of the true gradients, shape (M,): the limit of small beta for beta = 0."""
        G = self.moments.gram
        least = _LIMIT * (1.0 if self.normalise else self.moments.scale)
        return simplex_qp(G, beta=max(self.beta, least), normalise=self.normalise).weights

    @cached_property
    def _H(self) -> Array:
        G = self.moments.gram
        factor = len(G) / np.trace(G) if self.normalise else 1.0
        return sensitivity_matrix(factor * G + 0.5 * self.beta * np.eye(len(G)), self.weights)

    def _changes(self, v: Array) -> tuple[Array, Array]:
        """Changes of the program's matrix by every transition, in first and second order, times v.

        v has shape (..., M, k), both results (n, M, k).
        """
        A, X = self.moments.mean, self.moments.noise
        after = np.swapaxes(X, 1, 2)
        one, two = A.T @ (X @ v) + after @ (A @ v), after @ (X @ v)
        if not self.normalise:
            return one, two
        # G / (tr G / M) to second order
        G = self.moments.gram
        factor = len(G) / np.trace(G)
        t1 = 2.0 * (A * X).sum(axis=(1, 2))[:, None, None] / np.trace(G)
        t2 = (X**2).sum(axis=(1, 2))[:, None, None] / np.trace(G)
        Gv = G @ v
        return factor * (one - t1 * Gv), factor * (two - t1 * one + (t1**2 - t2) * Gv)

    @cached_property
    def moves(self) -> tuple[Array, Array]:
        """D1[X] and D2[X, X] for every transition, each (n, M)."""
        one, two = self._changes(self.weights[:, None])
        first = -self._H @ one
        return first[..., 0], (-self._H @ (two + self._changes(first)[0]))[..., 0]

    @cached_property
    def c1(self) -> float:
        """E|A D1[X]|^2."""
        moved = self.moves[0] @ self.moments.mean.T
        return float(self.moments.law @ (moved**2).sum(axis=1))

    @cached_property
    def bias(self) -> float:
        """|E(X D1[X] + A D2[X, X])|^2."""
        first, second = self.moves
        both = (self.moments.noise @ first[..., None])[..., 0] + second @ self.moments.mean.T
        return float(((self.moments.law @ both) ** 2).sum())

    @cached_property
    def pair(self) -> tuple[float, float]:
        """|E X D1[X]|^2 and v, the variance of X D1[X] for Gaussian X.

        By Wick's formula v = E|Y(X, X')|^2 + E Y(X, X')'Y(X', X), with Y(X, X') = X D1[X'] and
        independent X, X' of any law with these second moments.
        """
        law = self.moments.law
        Y = self.moments.noise @ self.moves[0].T  # (n, d, n)
        mean = np.diagonal(Y, axis1=0, axis2=2) @ law
        v = law @ (Y * (Y + np.swapaxes(Y, 0, 2))).sum(axis=1) @ law
        return float(mean @ mean), float(v)

    def drift(self, clients: int, B: ArrayLike) -> Array:
        """E T in both conventions, shape (2, ...) for B of shape (...)."""
        size = np.asarray(B, dtype=np.float64)
        square, v = self.pair
        share = (clients - 1) / clients
        around_mean = share**2 * square + share / clients * v
        around_true = self.bias + v / clients
        return np.stack([around_mean / size**2, self.c1 / (clients * size) + around_true / size**2])

    def next_order(self, B: ArrayLike) -> Array:
        """The estimated size of what :meth:`drift` leaves out, relative to it, for B of any shape.

        Each order of (I + H E)^{-1} brings another factor H E with E|H E|^2 = (E|H (A'X + X'A)|^2
        + |E H X'X|) / B, and where A'X became X'X, a factor |X| / |A|; odd ones have no mean.
        Twice their sum, as the drift is a square.
        """
        law, A = self.moments.law, self.moments.mean
        one, two = self._changes(np.eye(A.shape[1]))
        k = law @ ((self._H @ one) ** 2).sum(axis=(1, 2))
        k += np.linalg.norm(self._H @ np.tensordot(law, two, axes=1))
        k += self.moments.power / (A**2).sum()
        return np.asarray(2.0 * k / np.asarray(B, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class LargeBetaDrift(DriftExpansion):
    """The limit of large beta: weights 1/M, H = (2 / beta) P, without constraints at work."""

    @cached_property
    def weights(self) -> Array:
        """1/M, shape (M,)."""
        M = self.moments.mean.shape[1]
        return np.full(M, 1.0 / M)

    @cached_property
    def _H(self) -> Array:
        M = self.moments.mean.shape[1]
        return np.asarray(2.0 / self.beta * (np.eye(M) - 1.0 / M))


@dataclass(frozen=True, eq=False)
class Kink:
    """Two objectives with the same mean gradient a and little regularisation: noise decides.

    With y = x^2 - x^1 the weights are (1 -+ s) / 2, where s is 2 a'y / (|y|^2 + beta) cut off at
    -+1: in leading order the sign of a'y, O(1) however small the noise is. Around weights 1/2 and,
    by the variance of a sample covariance of y and s, around the mean weights

        4 B E T = (1 - 1/C) |p|^2 + w / C,
        4 B E T = (1 - 1/C)^2 ((1 - (C - 2)/(C (C - 1))) |p|^2 + w / (C - 1)),

    with Gamma = Cov(y) of one transition, p = E y s = sqrt(2/pi) Gamma a / sqrt(a'Gamma a) and w =
    E|y|^2 s^2 = tr Gamma up to the values between the vertices. Those have a probability q of order
    B^{-1/2} and s uniform on [-1, 1], hence w = (1 - 2 q / 3) tr Gamma.
    """

    moments: Moments

    @cached_property
    def _parts(self) -> tuple[float, float, float]:
        """|p|^2, tr Gamma and a'Gamma a."""
        a = self.moments.mean.mean(axis=1)
        y = self.moments.noise[..., 1] - self.moments.noise[..., 0]
        along = y @ a
        variance = float(self.moments.law @ along**2)
        p = np.sqrt(2.0 / np.pi / variance) * (self.moments.law * along) @ y
        return float(p @ p), float(self.moments.law @ (y**2).sum(axis=1)), variance

    def between(self, B: ArrayLike, beta: float = 0.0) -> Array:
        """q, the probability of |2 a'y| < |y|^2 + beta where it is small, for B of any shape."""
        _, total, variance = self._parts
        size = np.asarray(B, dtype=np.float64)
        return np.asarray((beta + total / size) / np.sqrt(2.0 * np.pi * variance / size))

    def drift(self, clients: int, B: ArrayLike, beta: float = 0.0) -> Array:
        """E T in both conventions, shape (2, ...) for B of shape (...)."""
        p, total, _ = self._parts
        w = (1.0 - 2.0 / 3.0 * self.between(B, beta)) * total
        C, share = clients, 1.0 - 1.0 / clients
        around_mean = share**2 * ((1.0 - (C - 2) / (C * (C - 1))) * p + w / (C - 1))
        return np.stack([around_mean, share * p + w / C]) / (4.0 * np.asarray(B, dtype=np.float64))

    def next_order(self, B: ArrayLike, beta: float = 0.0) -> Array:
        """The estimated size of what :meth:`drift` leaves out, relative to it.

        p loses a share of order q^2, and the mean gradient of a client is not a.
        """
        noise = self.moments.power / (self.moments.mean**2).sum()
        return np.asarray(
            self.between(B, beta) ** 2 + 2.0 * noise / np.asarray(B, dtype=np.float64)
        )
