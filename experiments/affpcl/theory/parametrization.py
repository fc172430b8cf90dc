"""Objectives given by values, their linear parametrisation, and that of density ratios (C.2, C.4).

Sections 1.2 to 3 of AffPCL know an objective by its values b^i(s); from Section 4 on it is b^i(s) =
Phi(s) theta^i. :class:`ValueStack` is the former, with the constants defined there.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from experiments.affpcl.theory.stack import FiniteStack, share
from linsys.linalg import Numbers, norm


class ValueStack(FiniteStack):
    """B finite systems with objectives b^i(s) of any values, and Section 1.2's constants.

    G_x = max_i ||x_*^i||, G_b = max_i sup_s ||b^i(s)||, and delta_obj is that of Definition 1. What
    needs Phi or theta is not defined.

    Args:
        mu: environment distributions, shape (B, n, S).
        A: features, shape (B, S, d, d).
        b: objectives, shape (B, n, S, d).
        extra: further arrays of an instance, kept as attributes.

    >>> one = np.ones((1, 1, 1, 1))
    >>> stack = ValueStack(mu=np.ones((1, 2, 1)), A=2 * one, b=np.array([[[[1.0]], [[3.0]]]]))
    >>> stack.x_star_central.tolist(), stack.G_b.tolist(), stack.sigma.tolist()
    ([[1.0]], [3.0], [6.0])
    """

    def __init__(self, *, mu: Numbers, A: Numbers, b: Numbers, **extra: Numbers) -> None:
        self.mu, self.A, self.b = mu, A, b
        for name, value in extra.items():
            setattr(self, name, value)

    @cached_property
    def b_bar(self) -> Numbers:
        """bbar^i, shape (B, n, d)."""
        return np.asarray((self.mu[..., None] * self.b).sum(axis=2))

    @cached_property
    def G_x(self) -> Numbers:
        """max_i ||x_*^i||, shape (B,)."""
        return self.G_x_agents

    @cached_property
    def G_b(self) -> Numbers:
        """max_i sup_s ||b^i(s)||, shape (B,)."""
        return self.G_b_objective

    @cached_property
    def delta_obj(self) -> Numbers:
        """Definition 1, shape (B,)."""
        return objective_level(self)


def objective_gap(stack: FiniteStack) -> Numbers:
    """max_ij sup_s ||b^i(s) - b^j(s)|| over the states that occur, shape (B,)."""
    gaps = norm(stack.b[:, :, None] - stack.b[:, None]) * stack.visited[:, None, None]
    return np.asarray(gaps.max(axis=(1, 2, 3)))


def objective_level(stack: FiniteStack) -> Numbers:
    """delta_obj of Definition 1, relative to sup ||b||, shape (B,)."""
    return share(objective_gap(stack), 2 * stack.G_b_objective)


# Appendix C.4: the linear system of a density ratio.


def ratio_basis(base: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """Environments with rho^i(s) = psi(s)'w^i: mixtures mu^i = sum_k w^i_k p_k of base measures.

    Args:
        base: base measures p_k, shape (B, q, S); every state has to occur.
        weights: w^i, shape (B, n, q), rows of sum one.

    Returns:
        mu, shape (B, n, S), and psi(s) = (p_k(s) / mu^0(s))_k, shape (B, S, q).
    """
    mu = weights @ base
    mu0 = mu.mean(axis=1)
    return mu, np.swapaxes(base / np.where(mu0 == 0, 1, mu0)[:, None], 1, 2)
