"""First and second moments of y_{t+1} = (I - alpha N_t) y_t, with N_t independent over time.

y = (z, 1) in R^D stacks what is being learned, as a deviation from the fixed point of the mean
iteration, and a one. The one makes an affine iteration linear, so E[y y'] holds second moments,
means and the constant together. N_t is a sum of independent contributions, one per agent, each a
finite-state random matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from linsys.moments._doubling import propagate
from linsys.moments._stepping import walk
from linsys.moments.halfvec import pack, pack_operator, pairs, unpack
from linsys.validate import Array, InputError


@dataclass(frozen=True)
class Source:
    """``count`` independent agents that contribute maps[s] to N with probability probabilities[s].

    probabilities has shape (S,), maps (S, D, D) with a last row of zeros.
    """

    probabilities: Array
    maps: Array
    count: int = 1


class MomentRecursion:
    """E[y_{t+1} y_{t+1}'] = E[y_t y_t'] - alpha L(E[y_t y_t']) + alpha^2 Q(E[y_t y_t']).

    L(S) = Nbar S + S Nbar' and Q(S) = E[N S N'] = Nbar S Nbar' + sum_j Cov_j(S); the covariance of
    agent j is summed over centred maps, so that it keeps its digits however small it is beside the
    mean.

    Attributes:
        fixed: fixed point of the mean iteration in the coordinates of the sources, shape (D - 1,).
        mean: Nbar about the fixed point, shape (D, D); its last row and column are zero.
        first, second: L and Q on half-vectorised symmetric matrices, shape (m, m), m = D(D + 1)/2.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.size = int(sources[0].maps.shape[-1])
        total = np.zeros((self.size, self.size))
        for source in sources:
            total += source.count * np.tensordot(source.probabilities, source.maps, axes=1)
        try:
            fixed = -np.linalg.solve(total[:-1, :-1], total[:-1, -1])
            # One refinement makes the backward error small in every row, whatever their scales.
            residual = total[:-1, :-1] @ fixed + total[:-1, -1]
            fixed -= np.linalg.solve(total[:-1, :-1], residual)
        except np.linalg.LinAlgError:
            raise InputError(
                "the mean iteration must have one fixed point; found a singular mean matrix"
            ) from None
        self.fixed: Array = np.asarray(fixed, dtype=np.float64)
        self.mean: Array = total.copy()
        self.mean[:, -1] = 0.0
        noise = _covariance(sources, self.fixed)
        identity = np.eye(self.size)
        self.first: Array = pack_operator(
            np.einsum("ac,bd->acbd", self.mean, identity)
            + np.einsum("ac,bd->acbd", identity, self.mean)
        )
        self.second: Array = pack_operator(noise + np.einsum("ac,bd->acbd", self.mean, self.mean))

    def generator(self, alpha: float) -> Array:
        """X = -alpha L + alpha^2 Q, shape (m, m): the second-moment operator minus the identity."""
        return alpha * (alpha * self.second - self.first)

    def start(self, point: Array) -> Array:
        """Half-vectorised y_0 y_0' for a deterministic start ``point``, shape (D - 1,)."""
        y = np.append(point - self.fixed, 1.0)
        return pack(np.outer(y, y))

    def at(self, start: Array, times: NDArray[np.int64], alpha: float) -> Array:
        """E[y_t y_t'] at the given times from half-vectorised ``start``, shape (T, D, D)."""
        with np.errstate(over="ignore", invalid="ignore"):
            result = propagate(self.generator(alpha), start, times)
        _check_finite(result, times)
        return unpack(result, self.size)

    def walk(
        self, start: Array, times: NDArray[np.int64], alphas: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """E[y_t y_t'], its weighted average, and the averaged iterate's: three of (T, D, D)."""
        parts = walk(
            self.first, self.second, self.mean, pairs(self.size), start, alphas, weights, times
        )
        for part in parts:
            _check_finite(part, times)
        current, weighted, averaged = (unpack(part, self.size) for part in parts)
        return current, weighted, averaged

    def stationary(self, alpha: float) -> Array | None:
        """Limit of E[y_t y_t'] as t grows, shape (D, D), or None where there is none.

        The operator T on second moments is positive, so its spectral radius is below one exactly if
        the solution of R - T(R) = I is positive definite. One solve gives this certificate and the
        limit, L(S) - alpha Q(S) = alpha Q(e e') with e = (0, 1).
        """
        inner = self._inner
        operator = self.first[np.ix_(inner, inner)] - alpha * self.second[np.ix_(inner, inner)]
        solved = self._solve_positive(operator, alpha * self.second[inner, :1])
        if solved is None:
            return None
        limit = np.zeros(self.first.shape[0])
        limit[0], limit[inner] = 1.0, solved[:, 0]
        return unpack(limit, self.size)

    @cached_property
    def stability_limit(self) -> float:
        """Step size below which second moments converge and from which on they do not.

        T = I - alpha (L - alpha Q) contracts exactly if alpha rho(L^{-1} Q) < 1, as L^{-1} and Q
        are positive; 0 if even the mean iteration diverges for every step size.
        """
        inner = self._inner
        first = self.first[np.ix_(inner, inner)]
        ratio = self._solve_positive(first, self.second[np.ix_(inner, inner)])
        if ratio is None:
            return 0.0
        return float(1.0 / np.abs(np.linalg.eigvals(ratio)).max())

    def _solve_positive(self, operator: Array, sides: Array) -> Array | None:
        """Solve for ``sides``; None unless the solution for the identity is positive definite."""
        identity = pack(np.eye(self.size))[self._inner]
        try:
            solved = np.linalg.solve(operator, np.column_stack([identity, sides]))
            certificate = np.zeros(self.first.shape[0])
            certificate[self._inner] = solved[:, 0]
            np.linalg.cholesky(unpack(certificate, self.size)[:-1, :-1])
        except np.linalg.LinAlgError:
            return None
        return np.asarray(solved[:, 1:], dtype=np.float64)

    @cached_property
    def _inner(self) -> NDArray[np.intp]:
        """Half-vectorised coordinates of E[z z'], without means and constant."""
        rows, columns = pairs(self.size)
        return np.flatnonzero((rows != self.size - 1) & (columns != self.size - 1))


def _check_finite(moments: Array, times: NDArray[np.int64]) -> None:
    finite = np.isfinite(moments).all(axis=1)
    if not finite.all():
        raise InputError(
            f"second moments must stay below {np.finfo(float).max:.1e}; "
            f"found an overflow at t = {times[~finite].min()}"
        )


def _covariance(sources: Sequence[Source], fixed: Array) -> Array:
    """Cov[a, c, b, d] = sum over agents of Cov(N_ac, N_bd), with N moved to the fixed point."""
    size = fixed.size + 1
    used = np.any([source.maps.any(axis=0) for source in sources], axis=0)
    used[:, -1] |= used.any(axis=1)
    support = np.flatnonzero(used)
    total = np.zeros((support.size, support.size))
    for source in sources:
        maps = source.maps.copy()
        maps[:, :, -1] += maps[:, :, :-1] @ fixed
        rows = maps.reshape(maps.shape[0], -1)[:, support]
        rows -= source.probabilities @ rows
        rows *= np.sqrt(source.probabilities)[:, None]
        total += source.count * (rows.T @ rows)
    covariance = np.zeros((size**2, size**2))
    covariance[np.ix_(support, support)] = total
    return covariance.reshape((size,) * 4)
