"""Density-ratio estimation from coupled samples (AffPCL, Appendix C.4, Example 2).

Agent i estimates eta_* with rho^i(s) - 1 = psi(s)^T eta_* from pairs (s^i, s^0) by the residual

    g(eta) = Psi(s^0) eta - (psi(s^i) - psi(s^0)),   Psi = psi psi^T.

Features may be rotated so that eta_* is a multiple of the first basis vector. So every instance
with ||psi|| <= 1 has the form psi = (k (rho^i - 1), ...), eta_* = e_1 / k, k max |rho^i - 1| <= 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.affpcl.theory.evidence import total_variation
from experiments.affpcl.theory.stack import share
from linsys.linalg import Numbers, transpose


@dataclass(frozen=True)
class Coupling:
    """B agents, each with a coupling of its environment and the average one.

    Args:
        own: mu^i, shape (B, S).
        rest: average of the other agents, shape (B, S).
        n: number of agents, whole, shape (B,).
        closeness: the coupling is optimal with this weight, independent otherwise, shape (B,).
        scale: k max |rho^i - 1|, in (0, 1], shape (B,).
        others: the other features, of length at most one, shape (B, S, e).
        eta: where residuals are taken, shape (B, 1 + e).
    """

    own: Numbers
    rest: Numbers
    n: Numbers
    closeness: Numbers
    scale: Numbers
    others: Numbers
    eta: Numbers

    @cached_property
    def mu0(self) -> Numbers:
        """mu^0, shape (B, S)."""
        n = self.n[:, None]
        return self.own / n + (n - 1) / n * self.rest

    @cached_property
    def excess(self) -> Numbers:
        """rho^i - 1, shape (B, S); 0 on states that no agent visits."""
        return share(self.own - self.mu0, self.mu0)

    @cached_property
    def tv(self) -> Numbers:
        """||mu^i - mu^0||_TV, shape (B,)."""
        return total_variation(self.own, self.mu0)

    @cached_property
    def joint(self) -> Numbers:
        """P(s^i = s, s^0 = s'), shape (B, S, S); its marginals are mu^i and mu^0."""
        common = np.minimum(self.own, self.mu0)
        left, right = self.own - common, self.mu0 - common
        diagonal = common[..., None] * np.eye(common.shape[-1], dtype=int)
        moved = share(left[..., :, None] * right[..., None, :], self.tv[:, None, None])
        c = self.closeness[:, None, None]
        return np.asarray(
            c * (diagonal + moved) + (1 - c) * self.own[..., :, None] * self.mu0[..., None, :]
        )

    @cached_property
    def differ(self) -> Numbers:
        """P(s^i != s^0), shape (B,)."""
        off = 1 - np.eye(self.own.shape[-1], dtype=int)
        return np.asarray((self.joint * off).sum(axis=(-2, -1)))

    @cached_property
    def k(self) -> Numbers:
        """Scale of the first feature, shape (B,); 1 where mu^i = mu^0."""
        largest = np.abs(self.excess).max(axis=-1)
        return np.where(largest > 0, share(self.scale, largest), 1)

    @cached_property
    def psi(self) -> Numbers:
        """Features, shape (B, S, 1 + e)."""
        first = (self.k[:, None] * self.excess)[..., None]
        longest = np.sqrt(np.maximum(1 - first**2, 0))
        return np.concatenate([first, longest * self.others], axis=-1)

    @cached_property
    def eta_star(self) -> Numbers:
        """eta_*, shape (B, 1 + e); 0 where mu^i = mu^0."""
        first = np.where(self.tv > 0, 1 / self.k, 0)
        return np.concatenate([first[:, None], 0 * self.others[:, 0]], axis=-1)

    @cached_property
    def Psi_bar(self) -> Numbers:
        """E_{mu^0} psi psi^T, shape (B, 1 + e, 1 + e)."""
        return np.asarray(transpose(self.psi) @ (self.mu0[..., None] * self.psi))

    @cached_property
    def chi2(self) -> Numbers:
        """chi^2(mu^i, mu^0), shape (B,)."""
        return np.asarray((self.excess**2 * self.mu0).sum(axis=-1))

    def residual(self, eta: Numbers) -> Numbers:
        """g(eta) for every pair (s^i, s^0), shape (B, S, S, 1 + e)."""
        here = self.psi[:, None] * (self.psi @ eta[..., None])[:, None]
        return np.asarray(here - (self.psi[:, :, None] - self.psi[:, None]))
