"""Heterogeneity of finite-state systems: integrals are sums over the states that occur."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from linsys.heterogeneity._measured import Integration, MeasuredArray, Method, from_centre
from linsys.heterogeneity._view import Features, View, view_of
from linsys.systems.finite import FiniteSystem
from linsys.validate import Array


def total_variation(gap: Array) -> Array:
    """Half the l1 norm of mu - mu' over the last axis; at most 1, also after rounding."""
    return np.asarray(np.minimum(1.0, 0.5 * np.abs(gap).sum(axis=-1)))


def chi_square(gap: Array, reference: Array) -> Array:
    """sum_s (mu - mu')^2 / mu' over the last axis; infinite where mu is not dominated by mu'."""
    outside = (reference == 0) & (gap > 0)
    base = np.broadcast_to(reference, gap.shape)
    terms = np.divide(gap * gap, base, out=np.zeros_like(gap), where=base > 0)
    return np.where(outside.any(axis=-1), np.inf, terms.sum(axis=-1))


class FiniteView(View):
    """A :class:`FiniteSystem` on the states with mu^0(s) > 0; others occur in no expectation."""

    system: FiniteSystem

    @cached_property
    def _visited(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.system.mu0 > 0)

    @cached_property
    def _mu(self) -> Array:
        return self.system.mu[:, self._visited]

    def _matrices(self, features: Features) -> Array:
        return (self.system.A if features == "A" else self.system.Phi)[self._visited]

    @property
    def method(self) -> Method:
        """Sums are exact."""
        return "exact"

    @cached_property
    def tv_matrix(self) -> MeasuredArray:
        """||mu^i - mu^j||_TV, shape (n, n)."""
        return MeasuredArray.of([total_variation(row - self._mu) for row in self._mu])

    @cached_property
    def chi2_matrix(self) -> MeasuredArray:
        """chi^2(mu^i, mu^j), shape (n, n)."""
        return MeasuredArray.of([chi_square(row - self._mu, self._mu) for row in self._mu])

    @cached_property
    def mixture_divergences(self) -> tuple[MeasuredArray, MeasuredArray]:
        """||mu^i - mu^0||_TV and chi^2(mu^i, mu^0), shapes (n,)."""
        gap = from_centre(self._mu)
        mu0 = self.system.mu0[self._visited]
        return MeasuredArray.of(total_variation(gap)), MeasuredArray.of(chi_square(gap, mu0))

    @cached_property
    def ratio_bound(self) -> MeasuredArray:
        """max_s rho^i(s), shape (n,)."""
        return MeasuredArray.of(self.system.rho.max(axis=1))

    def feature_bound(self, features: Features) -> float:
        """max_s ||A(s)|| or max_s ||Phi(s)||."""
        return float(np.linalg.norm(self._matrices(features), ord=2, axis=(-2, -1)).max())

    def feature_second_moment(self, features: Features) -> Array:
        """E_{mu^i} A(s)'A(s) or E_{mu^i} Phi(s)'Phi(s), shape (n, d, d)."""
        matrices = self._matrices(features)
        squares = np.swapaxes(matrices, -1, -2) @ matrices
        return np.asarray(np.tensordot(self._mu, squares, axes=1))

    def _mean_stretch(self, features: Features) -> tuple[Array, Method]:
        """E_{mu^i} sqrt(A(s)'A(s)), shape (1, n, d, d); singular values need no square."""
        _, stretch, axes = np.linalg.svd(self._matrices(features))
        roots = np.swapaxes(axes, -1, -2) * stretch[:, None, :] @ axes
        return np.tensordot(self._mu, roots, axes=1)[None], "exact"

    def objective_values(self) -> tuple[Array, float]:
        """b^i on the visited states, scale 1."""
        return self.system.b[:, self._visited], 1.0

    def mean_square(self, values: Array) -> Array:
        """E_{mu^j} ||f(s)||^2, shape (n, m), for values f(s) of shape (m, S, d)."""
        return np.asarray(self._mu @ (values * values).sum(axis=-1).T)

    def residual_mean_square(self, x: Array) -> Array:
        """E_{mu^i} ||A(s) x^i - b^i(s)||^2, shape (n,)."""
        residual = np.einsum("sij,nj->nsi", self._matrices("A"), x) - self.objective_values()[0]
        return np.asarray((self._mu * (residual * residual).sum(axis=-1)).sum(axis=1))


@view_of.register
def _(system: FiniteSystem, integration: Integration | None = None) -> View:
    return FiniteView(system, integration or Integration())
