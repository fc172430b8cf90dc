"""Many finite systems of one shape, with the constants and affinities that AffPCL's theory uses."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from linsys.linalg import (
    Numbers,
    inverse,
    lambda_min,
    norm,
    operator_norm,
    stretch,
    transpose,
)
from linsys.systems.linear import Averages


class FiniteStack(Averages):
    """B finite systems of n agents, S states and dimension d; the leading axis of all arrays is B.

    The definitions are those of :mod:`linsys.heterogeneity`, which answers for one validated
    system; here they are formulas over whole stacks and over high-precision numbers. A test holds
    both against each other. Suprema run over the states that some agent visits.

    Args:
        mu: environment distributions, shape (B, n, S).
        A: features, shape (B, S, d, d).
        Phi: objective features with ||Phi(s)|| <= 1, shape (B, S, d, d).
        theta: objective weights, b^i(s) = Phi(s) theta^i, shape (B, n, d).
        extra: further arrays of an instance (iterates, step sizes), kept as attributes.

    >>> one = np.ones((1, 1, 1, 1))
    >>> stack = FiniteStack(
    ...     mu=np.ones((1, 2, 1)), A=2 * one, Phi=one, theta=np.array([[[1.0], [-1.0]]])
    ... )
    >>> stack.x_star[0].tolist(), stack.delta_obj.tolist()
    ([[0.5], [-0.5]], [1.0])
    """

    def __init__(
        self, *, mu: Numbers, A: Numbers, Phi: Numbers, theta: Numbers, **extra: Numbers
    ) -> None:
        self.mu, self.A, self.Phi, self.theta = mu, A, Phi, theta
        for name, value in extra.items():
            setattr(self, name, value)

    if TYPE_CHECKING:  # the extra arrays

        def __getattr__(self, name: str) -> Numbers: ...

    @property
    def n(self) -> int:
        """Number of agents."""
        return int(self.mu.shape[1])

    @property
    def d(self) -> int:
        """Dimension of a decision variable."""
        return int(self.A.shape[-1])

    # Means and solutions. Superscript 0 is the average over agents of the expected quantity.

    def mean(self, values: Numbers) -> Numbers:
        """E_{mu^i} f(s), shape (B, n, ...), for values f(s) of shape (B, S, ...)."""
        flat = values.reshape(*values.shape[:2], -1)
        return (self.mu @ flat).reshape(*self.mu.shape[:2], *values.shape[2:])

    @cached_property
    def mu0(self) -> Numbers:
        """mu^0, shape (B, S)."""
        return np.asarray(self.mu.mean(axis=1))

    @cached_property
    def rho(self) -> Numbers:
        """rho^i(s) = mu^i(s) / mu^0(s), shape (B, n, S); 0 where no agent goes."""
        reference = np.where(self.mu0 == 0, 1, self.mu0)
        return self.mu / reference[:, None]

    @cached_property
    def visited(self) -> NDArray[np.bool_]:
        """Whether mu^0(s) > 0, shape (B, S)."""
        return np.asarray(self.mu0 > 0, dtype=bool)

    @cached_property
    def A_bar(self) -> Numbers:
        """Abar^i, shape (B, n, d, d)."""
        return self.mean(self.A)

    @cached_property
    def Phi_bar(self) -> Numbers:
        """Phibar^i, shape (B, n, d, d)."""
        return self.mean(self.Phi)

    @cached_property
    def b(self) -> Numbers:
        """b^i(s) = Phi(s) theta^i, shape (B, n, S, d)."""
        count, states = self.Phi.shape[:2]
        rows = self.Phi.reshape(count, states * self.d, self.d)
        return (self.theta @ transpose(rows)).reshape(count, self.n, states, self.d)

    @cached_property
    def b_bar(self) -> Numbers:
        """bbar^i, shape (B, n, d)."""
        return apply(self.Phi_bar, self.theta)

    @cached_property
    def b_central(self) -> Numbers:
        """b^c(s) = Phi(s) theta_*^c, shape (B, S, d)."""
        return apply(self.Phi, self.theta_star_central[:, None])

    # Constants, shape (B,) or (B, n).

    @cached_property
    def G_A(self) -> Numbers:
        """max_s ||A(s)|| over the states that occur, shape (B,)."""
        return np.asarray((operator_norm(self.A) * self.visited).max(axis=-1))

    @cached_property
    def G_x(self) -> Numbers:
        """max{max_i ||x_*^i||, ||x_*^c||} (Appendix C.6), shape (B,)."""
        return np.maximum(self.G_x_agents, norm(self.x_star_central))

    @cached_property
    def G_x_agents(self) -> Numbers:
        """max_i ||x_*^i|| (Section 1.2), shape (B,)."""
        return np.asarray(norm(self.x_star).max(axis=1))

    @cached_property
    def G_b(self) -> Numbers:
        """max{max_i ||theta^i||, ||theta_*^c||} (Section 4), shape (B,)."""
        return np.asarray(np.maximum(norm(self.theta).max(axis=1), norm(self.theta_star_central)))

    @cached_property
    def G_b_objective(self) -> Numbers:
        """max_i sup_s ||b^i(s)|| (Section 1.2), shape (B,)."""
        return np.asarray((norm(self.b) * self.visited[:, None]).max(axis=(1, 2)))

    @cached_property
    def sigma(self) -> Numbers:
        """2 max{G_A G_x, G_b} with G_x of Appendix C.6 and G_b of Section 4, shape (B,)."""
        return np.asarray(2 * np.maximum(self.G_A * self.G_x, self.G_b))

    @cached_property
    def lambda_agent(self) -> Numbers:
        """lambda^i = lambda_min(sym Abar^i), shape (B, n)."""
        return lambda_min(self.A_bar)

    @cached_property
    def lambda_A(self) -> Numbers:
        """min_i lambda^i (Section 1.2), shape (B,)."""
        return np.asarray(self.lambda_agent.min(axis=1))

    @cached_property
    def lambda_both(self) -> Numbers:
        """min_i min{lambda_min(sym Abar^i), lambda_min(sym Phibar^i)} (Appendix D.1), (B,)."""
        return np.asarray(np.minimum(self.lambda_A, lambda_min(self.Phi_bar).min(axis=1)))

    @cached_property
    def lambda_b(self) -> Numbers:
        """lambda_min(sym Phibar^0), shape (B,)."""
        return lambda_min(self.Phi_bar0)

    @cached_property
    def lambda_c(self) -> Numbers:
        """lambda_min(sym Abar^0), shape (B,)."""
        return lambda_min(self.A_bar0)

    @cached_property
    def kappa(self) -> Numbers:
        """sigma / lambda, shape (B,)."""
        return self.sigma / self.lambda_A

    @cached_property
    def nu_agent(self) -> Numbers:
        """nu^i = ||Dbar^i (Abar^i)^{-1}||, shape (B, n)."""
        return self._nu(self.A, self.A_bar)

    @cached_property
    def nu(self) -> Numbers:
        """max_i nu^i (Definition 3), shape (B,)."""
        return np.asarray(self.nu_agent.max(axis=1))

    @cached_property
    def nu_Phi(self) -> Numbers:
        """max_i ||Dbar^i (Phibar^i)^{-1}||, Definition 3's number for Phi, shape (B,)."""
        return np.asarray(self._nu(self.Phi, self.Phi_bar).max(axis=1))

    def _nu(self, matrices: Numbers, means: Numbers) -> Numbers:
        return operator_norm(self.mean(stretch(matrices)) @ inverse(means))

    # Affinities.

    @cached_property
    def delta_env(self) -> Numbers:
        """max_ij ||mu^i - mu^j||_TV, shape (B,)."""
        gaps = np.abs(self.mu[:, :, None] - self.mu[:, None]).sum(axis=-1)
        return np.asarray(gaps.max(axis=(1, 2)) / 2)

    @cached_property
    def delta_env_agent(self) -> Numbers:
        """||mu^i - mu^0||_TV, shape (B, n)."""
        return np.asarray(np.abs(self.mu - self.mu0[:, None]).sum(axis=-1) / 2)

    @cached_property
    def delta_obj(self) -> Numbers:
        """max_ij ||theta^i - theta^j|| / (2 G_b) (Section 4), shape (B,)."""
        gaps = norm(self.theta[:, :, None] - self.theta[:, None]).max(axis=(1, 2))
        return share(gaps, 2 * self.G_b)

    @cached_property
    def delta_obj_agent(self) -> Numbers:
        """||theta^i - theta^0|| / (2 G_b), shape (B, n)."""
        centre = self.theta.mean(axis=1, keepdims=True)
        return share(norm(self.theta - centre), 2 * self.G_b[:, None])

    @cached_property
    def delta_cen(self) -> Numbers:
        """delta_cen^i = max{delta_env^i, ||bbar^i - bbar^0|| / (2 G_b)} (Section 6.3), (B, n)."""
        gap = norm(self.b_bar - self.b_bar0[:, None])
        return np.maximum(self.delta_env_agent, share(gap, 2 * self.G_b[:, None]))

    @cached_property
    def delta_cen_effective(self) -> Numbers:
        """min{1, nu delta_cen^i}, shape (B, n)."""
        product = self.nu[:, None] * self.delta_cen
        return np.asarray(product / np.maximum(1, product))

    @cached_property
    def delta_cen_effective_both(self) -> Numbers:
        """min{1, max{nu, nu of Phi} delta_cen^i}, what Lemma D.2's second half needs, (B, n)."""
        product = np.maximum(self.nu, self.nu_Phi)[:, None] * self.delta_cen
        return np.asarray(product / np.maximum(1, product))

    @cached_property
    def chi2_agent(self) -> Numbers:
        """chi^2(mu^i, mu^0), shape (B, n)."""
        return np.asarray(((1 - self.rho) ** 2 * self.mu0[:, None]).sum(axis=-1))


def apply(matrices: Numbers, vectors: Numbers) -> Numbers:
    """M v for stacks that broadcast, shapes (..., d, d) and (..., d)."""
    return np.asarray(np.einsum("...ij,...j->...i", matrices, vectors))


def share(part: Numbers, whole: Numbers) -> Numbers:
    """part / whole, and 0 where the whole is 0."""
    empty = whole == 0
    return np.where(empty, 0 * part, part / np.where(empty, 1, whole))


__all__ = ["FiniteStack", "apply", "share", "transpose"]
