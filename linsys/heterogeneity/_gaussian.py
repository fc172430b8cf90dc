"""Heterogeneity of Gaussian systems: closed forms where there are, integrals elsewhere."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from linsys.heterogeneity import _mixture
from linsys.heterogeneity._measured import Integration, MeasuredArray, Method
from linsys.heterogeneity._view import Features, View, view_of
from linsys.systems.gaussian import GaussianSystem
from linsys.validate import Array


class GaussianView(View):
    """A :class:`GaussianSystem`: features (I + eps s s') base, unbounded when eps > 0."""

    system: GaussianSystem

    def _factor(self, features: Features) -> tuple[float, Array]:
        system = self.system
        return (system.eps_A, system.A_base) if features == "A" else (system.eps_b, system.Phi_base)

    @cached_property
    def _squared_distances(self) -> Array:
        gaps = self.system.means[:, None] - self.system.means
        return np.asarray((gaps * gaps).sum(axis=-1))

    @cached_property
    def _fourth_moment(self) -> Array:
        """E_{mu^i} |s|^2 s s' = (|m|^2 + d + 2) I + (|m|^2 + d + 4) m m', shape (n, d, d)."""
        means, d = self.system.means, self.system.d
        squares = (means * means).sum(axis=-1)[:, None, None]
        outer = means[:, :, None] * means[:, None, :]
        return np.asarray((squares + d + 2) * np.eye(d) + (squares + d + 4) * outer)

    def _noise_second_moment(self, eps: float) -> Array:
        """E_{mu^i} (I + eps s s')^2, shape (n, d, d)."""
        second, fourth = self.system.state_second_moment, self._fourth_moment
        return np.eye(self.system.d) + 2 * eps * second + eps**2 * fourth

    @cached_property
    def tv_matrix(self) -> MeasuredArray:
        """||mu^i - mu^j||_TV = 2 F(|m_i - m_j| / 2) - 1, F standard normal, shape (n, n)."""
        from scipy.special import erf

        return MeasuredArray.of(erf(np.sqrt(self._squared_distances / 8)), method="closed form")

    @cached_property
    def chi2_matrix(self) -> MeasuredArray:
        """chi^2(mu^i, mu^j) = exp(|m_i - m_j|^2) - 1, shape (n, n); inf beyond float64."""
        with np.errstate(over="ignore"):
            return MeasuredArray.of(np.expm1(self._squared_distances), method="closed form")

    @cached_property
    def mixture_divergences(self) -> tuple[MeasuredArray, MeasuredArray]:
        """||mu^i - mu^0||_TV and chi^2(mu^i, mu^0), shapes (n,)."""
        return _mixture.divergences(self.system.means, self.integration)

    @cached_property
    def ratio_bound(self) -> MeasuredArray:
        """sup_s rho^i(s), shape (n,)."""
        return _mixture.ratio_bounds(self.system.means)

    def feature_bound(self, features: Features) -> float:
        """Infinite, unless eps = 0 makes the features constant."""
        eps, base = self._factor(features)
        return float("inf") if eps > 0 else float(np.linalg.norm(base, ord=2))

    def feature_second_moment(self, features: Features) -> Array:
        """base' E[(I + eps s s')^2] base, shape (n, d, d)."""
        eps, base = self._factor(features)
        return np.asarray(base.T @ self._noise_second_moment(eps) @ base)

    def _mean_stretch(self, features: Features) -> tuple[Array, Method]:
        """E_{mu^i} sqrt(A(s)'A(s)), shape (R, n, d, d), for R independent scrambles."""
        eps, base = self._factor(features)
        if eps == 0:
            _, stretch, axes = np.linalg.svd(base)
            root = axes.T * stretch @ axes
            return np.broadcast_to(root, (1, self.n, *root.shape)), "closed form"
        # Agents with one mean share one environment, hence one expectation.
        means, first, owner = np.unique(
            self.system.means, axis=0, return_index=True, return_inverse=True
        )
        centres = (self.system.A_bar if features == "A" else self.system.Phi_bar)[first]
        left, _, right = np.linalg.svd(centres)
        # Were A(s) = Q D(s) with a constant rotation Q, D(s) would be Q'A(s), whose mean is known:
        # only the difference, small for well-aligned noise, is left to integrate.
        rotations = left @ right
        scrambles = []
        for z in _mixture.normal_points(self.system.d, self.integration.coarser()):
            states = means[:, None] + z
            sampled = np.eye(self.system.d) + eps * np.swapaxes(states, 1, 2) @ states / len(z)
            known = np.swapaxes(rotations, 1, 2) @ (centres - sampled @ base)
            roots = np.stack([_mean_root(s, eps, base) for s in states])
            scrambles.append(roots + 0.5 * (known + np.swapaxes(known, 1, 2)))
        return np.stack(scrambles)[:, owner.ravel()], "quasi-Monte Carlo"

    def objective_values(self) -> tuple[Array, float]:
        """Phi_base theta^i, scale infinite when eps_b > 0.

        On the ball |s| <= R, sup_s ||b^i(s)|| = (1 + eps_b R^2) ||Phi_base theta^i||, and likewise
        for differences: the ratios of suprema do not depend on R, and are what Definition 1 means
        on unbounded states.
        """
        values = self.system.theta @ self.system.Phi_base.T
        return values[:, None, :], (float("inf") if self.system.eps_b > 0 else 1.0)

    def mean_square(self, values: Array) -> Array:
        """E_{mu^j} ||(I + eps_b s s') y||^2, shape (n, m), for y of shape (m, 1, d)."""
        y = values[:, 0]
        noise = self._noise_second_moment(self.system.eps_b)
        return np.asarray(np.einsum("mi,nij,mj->nm", y, noise, y))

    def residual_mean_square(self, x: Array) -> Array:
        """E_{mu^i} ||p + s s'q||^2 = |p|^2 + 2 p'E[s s']q + q'E[|s|^2 s s']q, shape (n,)."""
        system = self.system
        along_A, along_b = x @ system.A_base.T, system.theta @ system.Phi_base.T
        p, q = along_A - along_b, system.eps_A * along_A - system.eps_b * along_b
        cross = np.einsum("ni,nij,nj->n", p, system.state_second_moment, q)
        return np.asarray(
            (p * p).sum(axis=-1) + 2 * cross + np.einsum("ni,nij,nj->n", q, self._fourth_moment, q)
        )


def _mean_root(s: Array, eps: float, base: Array) -> Array:
    """Average of sqrt(A(s)'A(s)) over states s, shape (K, d) -> (d, d)."""
    y = s @ base
    growth = 2 * eps + eps**2 * (s * s).sum(axis=-1)
    squares = base.T @ base + growth[:, None, None] * y[:, :, None] * y[:, None, :]
    values, axes = np.linalg.eigh(squares)
    weights = np.sqrt(np.maximum(values, 0.0)) / len(s)
    return np.asarray(np.einsum("kij,kj,klj->il", axes, weights, axes, optimize=True))


@view_of.register
def _(system: GaussianSystem, integration: Integration | None = None) -> View:
    return GaussianView(system, integration or Integration())
