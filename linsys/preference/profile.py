"""The likelihood of Delta_i = B W_i as a function phi of B alone: the heads W_i are eliminated.

Given B, users separate: each head is a small logistic regression, which
:func:`linsys.preference.kernels.heads` solves. What is left,

    phi(B) = max_W sum_i F_i(B W_i) - ridge / 2 ||B W_i||^2,     ||B W_i|| <= bound,

depends on the span of B only, since B -> B G, W -> G^-1 W changes no product: the k^2 directions of
the gauge group GL(k) are gone before they can do harm. With B orthonormal and B' V = 0, phi(B + V)
has the gradient sum_i G_i W_i' (G_i the gradient by Delta_i; B' G_i = 0 at the heads' maxima) and a
Hessian whose product with V costs two passes over a user's comparisons and one product with the
inverse that belongs to its head (the Schur complement).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from linsys.preference import kernels
from linsys.preference.comparisons import Comparisons
from linsys.preference.likelihood import BLOCK, columns, over_users
from linsys.preference.separability import separated
from linsys.validate import Array

__all__ = ["Heads", "Profile", "basis", "orthogonal"]

#: Eigenvalues below this part of the largest are taken for 0: of features that do not span.
_NULL = 1e-12
#: Singular values of a user's features below this part of the largest are taken for 0.
_RANK = 1e-10
#: Second moments are those of about so many comparisons, plus this share of their mean times I.
_SAMPLE, _LITTLE = 2048, 1e-6
#: Numbers of the features that are multiplied at a time.
_PIECE = 1 << 15
#: Heads whose last step is below this are exact to rounding: the next step is about its square.
STILL = 3e-6


class Heads(NamedTuple):
    """The best heads for a basis B, and what the kernel says about them; see ``kernels.heads``."""

    B: Array
    Q: Array  # features times B, (pairs, d2 k)
    W: Array  # (N, d2, k)
    multiplier: Array
    inverse: Array
    slope: Array
    curvature: Array
    values: Array
    status: NDArray[np.int64]


@dataclass(frozen=True)
class Profile:
    """phi for some comparisons.

    Args:
        data: the comparisons.
        ridge: weight of the squared norms.
        bound: of every ||Delta_i||_F, or infinity.
        threads: that share the users.
    """

    data: Comparisons
    ridge: float
    bound: float
    threads: int

    @cached_property
    def _columns(self) -> tuple[Array, NDArray[np.int64]]:
        return columns(self.data)

    @cached_property
    def _scatter(self) -> Array:
        """Second moments of the features' columns, (d1, d1), from some thousand comparisons.

        They scale a start and a preconditioner, no result; hence a little of the identity does no
        harm, where the features do not span.
        """
        data, (X, pairs) = self.data, self._columns
        (d1, d2), n = data.shape, len(data.labels)
        some = np.arange(0, n, max(1, n // max(_SAMPLE, 32 * d1)))
        long = X[pairs[some] if len(pairs) else some].reshape(-1, d1)
        moments = long.T @ (np.repeat(data.weights[some], d2)[:, None] * long)
        moments /= max(d2 * data.weights[some].sum(), 1e-300)
        return np.asarray(moments + (_LITTLE * np.trace(moments) / d1 + 1e-300) * np.eye(d1))

    @cached_property
    def _scatter_axes(self) -> tuple[Array, Array]:
        """Its eigenvalues, increasing, and eigenvectors."""
        values, vectors = np.linalg.eigh(self._scatter)
        return values, vectors

    def heads(
        self,
        B: Array,
        W: Array,
        left_out: NDArray[np.bool_],
        *,
        rest: float = STILL,
        derivative: bool = True,
    ) -> Heads:
        """The best heads for B with orthonormal columns, by Newton's method from W (N, d2, k).

        Users ``left_out`` (N,) keep theirs. Others end with a step that changes no logit by more
        than ``rest``, and with an error of about its square.
        """
        data, (X, pairs), N = self.data, self._columns, self.data.users
        k, p = B.shape[1], B.shape[1] * data.shape[1]
        Q = _projected(X, B, p)
        n = len(data.labels)
        heads = Heads(
            B, Q, W.reshape(N, p).copy(), np.zeros(N),
            np.zeros((N if derivative else 0, p, p)), np.empty(n), np.empty(n),
            np.empty(N), np.where(left_out, kernels.LEFT_OUT, kernels.UNDECIDED),
        )  # fmt: skip

        def call(first: int, last: int, _: int) -> None:
            kernels.heads(
                Q, pairs, data.starts, data.labels, data.weights, data.initial,
                self.ridge, self.bound, kernels.REGULAR, rest, first, last, *heads[2:],
            )  # fmt: skip

        over_users(N, self.threads, call)
        for i in np.flatnonzero(heads.status == kernels.SINGULAR):
            self._singular_head(heads, int(i), rest)
        for i in np.flatnonzero(heads.status >= kernels.UNDECIDED):
            if heads.status[i] != kernels.LEFT_OUT and self._separated(heads, int(i)):
                heads.status[i] = kernels.SEPARATED
        return heads._replace(W=heads.W.reshape(N, -1, k))

    def _separated(self, heads: Heads, i: int) -> bool:
        data, pairs = self.data, self._columns[1]
        at = np.arange(data.starts[i], data.starts[i + 1])
        at = at[data.weights[at] > 0]
        free = self.ridge == 0 and math.isinf(self.bound)
        return free and separated(heads.Q[pairs[at] if len(pairs) else at], data.labels[at])

    def _singular_head(self, heads: Heads, i: int, rest: float) -> None:
        """The head of least norm where the user's comparisons do not determine it."""
        data, pairs = self.data, self._columns[1]
        at = slice(data.starts[i], data.starts[i + 1])
        Q = heads.Q[pairs[at] if len(pairs) else at]
        _, sizes, right = np.linalg.svd(Q, full_matrices=False)
        U = np.ascontiguousarray(right[sizes > _RANK * max(sizes[0], 1e-300)].T)
        W = heads.W[i : i + 1] @ U
        inverse = np.zeros((min(1, len(heads.inverse)), U.shape[1], U.shape[1]))
        heads.status[i] = kernels.UNDECIDED
        kernels.heads(
            np.ascontiguousarray(Q @ U), pairs[:0], np.array([0, len(Q)]),
            data.labels[at], data.weights[at], data.initial[at],
            self.ridge, self.bound, 0.0, rest, 0, 1,
            W, heads.multiplier[i : i + 1], inverse, heads.slope[at], heads.curvature[at],
            heads.values[i : i + 1], heads.status[i : i + 1],
        )  # fmt: skip
        heads.W[i] = W[0] @ U.T
        if len(heads.inverse):
            heads.inverse[i] = U @ inverse[0] @ U.T

    def objective(self, heads: Heads) -> float:
        """phi."""
        return float(heads.values.sum() - 0.5 * self.ridge * (heads.W**2).sum())

    def gradients(self, heads: Heads) -> tuple[Array, float]:
        """G_i (N, d2, d1): the gradient by Delta_i without its part in the span of B.

        Also the norm of that part, which the heads should have brought to zero.
        """
        X, pairs = self._columns
        out = np.empty((self.data.users, X.shape[1]))

        def call(first: int, last: int, _: int) -> None:
            kernels.pull(X, pairs, self.data.starts, heads.slope, first, last, out)

        over_users(self.data.users, self.threads, call)
        G = out.reshape(len(out), self.data.shape[1], -1)
        inside = G @ heads.B
        left = inside - (self.ridge + heads.multiplier)[:, None, None] * heads.W
        left[heads.status == kernels.LEFT_OUT] = 0.0
        return G - inside @ heads.B.T, float(np.linalg.norm(left))

    def product(self, heads: Heads, G: Array, V: Array) -> tuple[Array, Array]:
        """Minus the Hessian of phi times V (d1, k), and the derivative of the heads along V."""
        (X, pairs), (d1, k) = self._columns, V.shape
        blocks = np.empty((-(-self.data.users // BLOCK), k, d1))
        response = np.empty_like(heads.W)
        penalty = self.ridge + heads.multiplier

        def call(first: int, last: int, block: int) -> None:
            kernels.profile_products(
                X, pairs, self.data.starts, heads.Q, heads.curvature, penalty,
                heads.B, heads.W, heads.inverse, G, V, first, last, response, blocks[block],
            )  # fmt: skip

        over_users(self.data.users, self.threads, call)
        return orthogonal(heads.B, blocks.sum(axis=0).T), response

    def preconditioner(self, heads: Heads) -> tuple[Array, Array]:
        """L (d1, d1) and R (k, k) with L V R about the inverse of minus the Hessian times V."""
        N = max(1, int((heads.status != kernels.LEFT_OUT).sum()))
        values, axes = self._scatter_axes
        penalty = self.ridge + heads.multiplier.mean()
        left = _power(values * (heads.curvature.sum() / N) + penalty, axes, -1.0)
        W = heads.W[heads.status != kernels.LEFT_OUT].reshape(-1, heads.W.shape[2])
        return left, _power(*np.linalg.eigh(W.T @ W), -1.0)

    def spectral_start(self, k: int) -> Array:
        """An orthonormal basis of where the gradients at Delta = 0 point, (d1, k).

        The gradient by Delta_i at 0 is about M Delta_i, with M a quarter of the scatter of the
        features. Noise is isotropic after division by M^(1/2), so the k leading left singular
        vectors are taken there.
        """
        data, (X, pairs) = self.data, self._columns
        slope = data.weights * (data.labels - 0.5 * (1.0 + np.tanh(0.5 * data.initial)))
        out = np.empty((data.users, X.shape[1]))
        kernels.pull(X, pairs, data.starts, slope, 0, data.users, out)
        half = _power(*self._scatter_axes, -0.5)
        white = out.reshape(-1, data.shape[0]) @ half
        _, vectors = np.linalg.eigh(white.T @ white)
        return basis(half @ vectors[:, : -k - 1 : -1])[0]


def _projected(X: Array, B: Array, p: int) -> Array:
    """X B for features X (pairs, d2 d1), shape (pairs, p): by pieces that stay in the cache."""
    Q = np.empty((len(X), p))
    piece = max(1, _PIECE // X.shape[1])
    for at in range(0, len(X), piece):
        part = X[at : at + piece].reshape(-1, len(B))
        np.matmul(part, B, out=Q[at : at + piece].reshape(len(part), -1))
    return Q


def orthogonal(B: Array, V: Array) -> Array:
    """V without its part in the span of B."""
    return np.ascontiguousarray(V - B @ (B.T @ V))


def basis(B: Array) -> tuple[Array, Array]:
    """B = Q R with Q orthonormal."""
    Q, R = np.linalg.qr(B)
    return np.ascontiguousarray(Q), R


def _power(values: Array, vectors: Array, power: float) -> Array:
    """The power of a matrix with these eigenvalues, increasing; 0 where they are 0 to rounding."""
    kept = values > _NULL * max(values[-1], 0.0)
    return np.asarray((vectors[:, kept] * values[kept] ** power) @ vectors[:, kept].T)
