"""Objectives given by values, their linear parametrisation, and that of density ratios (C.2, C.4).

Sections 1.2 to 3 of AffPCL know an objective by its values b^i(s); from Section 4 on it is b^i(s) =
Phi(s) theta^i. :class:`ValueStack` is the former, with the constants defined there.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.affpcl.theory.stack import FiniteStack, apply, share
from linsys.linalg import norm, solve

Numbers = NDArray[Any]
Sides = tuple[Numbers, Numbers]


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


# Appendix C.2: finite state spaces as a special case.


def one_hot_objectives(mu: Numbers, b: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """(Phi, theta, e_s x b^i(s)) of Appendix C.2 for objectives of any values.

    Args:
        mu: shape (B, n, S).
        b: b^i(s), shape (B, n, S, d).

    Returns:
        Phi(s) = (e_s e_s') x I_d, shape (B, S, dS, dS); theta^i = (b^i(s))_s, shape (B, n, dS); the
        objectives in their new place, shape (B, n, S, dS).
    """
    B, n, S, d = b.shape
    hot = np.eye(S, dtype=int)
    blocks = np.einsum("sa,sb,ij->saibj", hot, hot, np.eye(d, dtype=int)).reshape(S, d * S, d * S)
    # as numbers of the objectives' kind
    Phi = blocks + 0 * mu[:, 0, :, None, None]
    placed = (hot[:, :, None] * b[:, :, :, None]).reshape(B, n, S, S * d)
    return Phi, b.reshape(B, n, S * d), placed


def objective_of_one_hot_features(stack: ValueStack) -> Sides:
    """C.2: Phi(s) theta^i is e_s x b^i(s), and theta_*^c holds E[b^j(s) | s] for j uniform.

    Every state has to occur, for theta_*^c to exist.
    """
    Phi, theta, placed = one_hot_objectives(stack.mu, stack.b)
    hot = FiniteStack(mu=stack.mu, A=Phi, Phi=Phi, theta=theta)
    shares = stack.rho / stack.n
    expected = (shares[..., None] * stack.b).sum(axis=1).reshape(len(theta), -1)
    return (
        np.concatenate([hot.b.reshape(len(theta), -1), hot.theta_star_central], axis=1),
        np.concatenate([placed.reshape(len(theta), -1), expected], axis=1),
    )


def ratio_of_one_hot_features(stack: FiniteStack) -> Sides:
    """C.2: for psi = e_s the solution of E_{mu^0}[psi psi'] eta = E_{mu^i} psi is (rho^i(s))_s."""
    psi = np.eye(stack.mu.shape[-1], dtype=int) + 0 * stack.mu0[:, :, None]
    gram = _gram(stack, psi)
    return solve(gram[:, None], stack.mu @ psi), stack.rho


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


def linear_ratio_system(stack: FiniteStack) -> Sides:
    """C.4: E_{mu^0}[psi psi'] eta_*^i = E_{mu^i} psi where rho^i = psi'eta_*^i.

    ``stack.psi`` is (B, S, q) and ``stack.weights`` (B, n, q), from :func:`ratio_basis`.
    """
    return apply(_gram(stack, stack.psi)[:, None], stack.weights), stack.mu @ stack.psi


def shifted_ratio_system(stack: FiniteStack) -> Sides:
    """C.4: E_{mu^0}[psi psi'] eta_*^i = E_{mu^i} psi - E_{mu^0} psi where rho^i - 1 = psi'eta_*^i.

    Of the basis of :func:`ratio_basis`, 1 = psi'w^0, so that eta_*^i = w^i - w^0.
    """
    shifted = stack.weights - stack.weights.mean(axis=1, keepdims=True)
    left = apply(_gram(stack, stack.psi)[:, None], shifted)
    return left, (stack.mu - stack.mu0[:, None]) @ stack.psi


def _gram(stack: FiniteStack, psi: Numbers) -> Numbers:
    """E_{mu^0}[psi psi'], shape (B, q, q)."""
    weighted = stack.mu0[..., None] * psi
    return np.asarray(np.swapaxes(psi, 1, 2) @ weighted)
