"""AffPCL, Appendix D.1 to D.3: what affinities of systems say about differences between them.

Functions of a :class:`FiniteStack` that return ``(measured, bound)`` for every agent, pair or
state, with B first. Agent 0 is the average over agents of the quantity at hand. sigma, delta_cen
and nu are those of the stack: G_x contains x_*^c and G_b contains theta_*^c unless a docstring
says otherwise.

>>> import numpy as np
>>> one = np.ones((1, 1, 1, 1))
>>> stack = FiniteStack(
...     mu=np.ones((1, 2, 1)), A=one, Phi=one, theta=np.array([[[1.0], [-1.0]]])
... )
>>> measured, bound = d1b(stack)
>>> measured.tolist(), bound.tolist()
([[[1.0], [1.0]]], [[[1.0], [1.0]]])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.affpcl.theory.stack import FiniteStack, apply
from linsys.linalg import norm, operator_norm

Numbers = NDArray[Any]
Sides = tuple[Numbers, Numbers]


# Lemma D.1. Differences of objectives and features.


def d1a(stack: FiniteStack) -> Sides:
    """(a) ||b^i(s) - b^j(s)|| <= 2 G_b delta_obj for i, j in [n]^0, shape (B, n+1, n+1, S)."""
    return norm(_pairs(_with_average(stack.b))), 2 * stack.G_b * stack.delta_obj


def d1b(stack: FiniteStack) -> Sides:
    """(b) ||b^i(s) - b^0(s)|| <= 2 G_b delta_obj^i, shape (B, n, S)."""
    gap = stack.b - stack.b.mean(axis=1, keepdims=True)
    return norm(gap), (2 * stack.G_b[:, None] * stack.delta_obj_agent)[..., None]


def d1c(stack: FiniteStack) -> Sides:
    """(c) ||bbar^i - bbar^j|| <= 2 G_b (delta_env + delta_obj), i, j in [n]^0, (B, n+1, n+1)."""
    return norm(_pairs(_with_average(stack.b_bar))), 2 * stack.G_b * _universal(stack)


def d1d(stack: FiniteStack) -> Sides:
    """(d) both ||bbar^i - bbar^0|| and 2 G_b delta_cen^i are at most 2 G_b times the least of

    1, delta_env^i + delta_obj and delta_env + delta_obj^i; shape (B, 2, n).
    """
    scale = 2 * stack.G_b[:, None]
    near = np.minimum(
        stack.delta_env_agent + stack.delta_obj[:, None],
        stack.delta_env[:, None] + stack.delta_obj_agent,
    )
    gap = norm(stack.b_bar - stack.b_bar0[:, None])
    return _both(gap, scale * stack.delta_cen), (scale * np.minimum(1, near))[:, None]


def d1e(stack: FiniteStack) -> Sides:
    """(e) ||E_{mu^j}[b^i - b^c]|| <= 2 sigma delta_cen^i for j = i and j = 0, shape (B, 2, n)."""
    gap = _both(
        norm(apply(stack.Phi_bar, _objective_gap(stack))),
        norm(apply(stack.Phi_bar0[:, None], _objective_gap(stack))),
    )
    return gap, _feature_bound(stack, stack.sigma)


def d1f(stack: FiniteStack) -> Sides:
    """(f) ||theta^i - theta_*^c|| <= 2 sigma (delta_env + delta_obj) / lambda, shape (B, n).

    lambda is that of Appendix D.1, the least over A and Phi.
    """
    bound = 2 * stack.sigma * _universal(stack) / stack.lambda_both
    return norm(_objective_gap(stack)), bound


def d1f_without_phi(stack: FiniteStack) -> Sides:
    """(f) with Section 1.2's lambda = min_i lambda_min(sym Abar^i), which does not see Phi."""
    measured, bound = d1f(stack)
    return measured, bound * stack.lambda_both / stack.lambda_A


def d1f_sharper(stack: FiniteStack) -> Sides:
    """(f) ||theta^i - theta_*^c|| <= (1 - 1/n) 2 G_b delta_obj / lambda^b, shape (B, n).

    From Phibar^0 (theta^i - theta_*^c) = (1/n) sum_j Phibar^j (theta^i - theta^j): agents far
    apart in their environments are none the further from the central objective.
    """
    spread = 2 * stack.G_b * stack.delta_obj
    bound = (stack.n - 1) * spread / (stack.n * stack.lambda_b)
    return norm(_objective_gap(stack)), bound


def d1g(stack: FiniteStack) -> Sides:
    """(g) ||Abar^i - Abar^j|| <= 2 G_A delta_env for i, j in [n]^0, shape (B, n+1, n+1)."""
    return operator_norm(_pairs(_with_average(stack.A_bar))), 2 * stack.G_A * stack.delta_env


def d1h(stack: FiniteStack) -> Sides:
    """(h) ||Abar^i - Abar^0|| <= 2 G_A delta_env^i, shape (B, n)."""
    gap = operator_norm(stack.A_bar - stack.A_bar0[:, None])
    return gap, 2 * stack.G_A[:, None] * stack.delta_env_agent


def d1i(stack: FiniteStack) -> Sides:
    """(i) ||E_{mu^j}[A (x_*^i - x_*^c)]|| <= 2 sigma delta_cen^i, j = i and 0, shape (B, 2, n)."""
    gap = _both(
        norm(apply(stack.A_bar, _decision_gap(stack))),
        norm(apply(stack.A_bar0[:, None], _decision_gap(stack))),
    )
    return gap, _feature_bound(stack, stack.sigma)


def d1i_agents(stack: FiniteStack) -> Sides:
    """(i) with Section 1.2's G_x = max_i ||x_*^i||, which does not see x_*^c."""
    return d1i(stack)[0], _feature_bound(stack, sigma_agents(stack))


def d1j(stack: FiniteStack) -> Sides:
    """(j) ||x_*^i - x_*^c|| <= 2 sigma (delta_env + delta_obj) / lambda, shape (B, n)."""
    bound = 2 * stack.sigma * _universal(stack) / stack.lambda_both
    return norm(_decision_gap(stack)), bound


def d1j_sharper(stack: FiniteStack) -> Sides:
    """(j) ||x_*^i - x_*^c|| <= (1 - 1/n) sigma (2 delta_env + delta_obj) / lambda^c, shape (B, n).

    sigma is that of Section 1.2, without x_*^c. From Abar^0 (x_*^i - x_*^c) =
    (1/n) sum_j [(Abar^j - Abar^i) x_*^i + bbar^i - bbar^j], whose term j = i is zero.
    """
    scores = 2 * stack.delta_env + stack.delta_obj
    bound = (stack.n - 1) * sigma_agents(stack) * scores / (stack.n * stack.lambda_c)
    return norm(_decision_gap(stack)), bound


# Lemma D.2. Second moments in the features.


def d2_A(stack: FiniteStack) -> Sides:
    """E_{mu^i}||A(s)(x_*^i - x_*^c)||^2 <= 2 sigma^2 min{1, nu delta_cen^i}, shape (B, n)."""
    bound = 2 * stack.sigma[:, None] ** 2 * stack.delta_cen_effective
    return _square_in(stack, stack.A, _decision_gap(stack)), bound


def d2_A_agents(stack: FiniteStack) -> Sides:
    """The same with Section 1.2's G_x = max_i ||x_*^i||, which does not see x_*^c."""
    bound = 2 * sigma_agents(stack)[:, None] ** 2 * stack.delta_cen_effective
    return _square_in(stack, stack.A, _decision_gap(stack)), bound


def d2_A_sharper(stack: FiniteStack) -> Sides:
    """The same left side <= sigma^2 min{1, 2 nu^i delta_cen^i}, with the agent's own nu."""
    effective = np.minimum(1, 2 * stack.nu_agent * stack.delta_cen)
    return _square_in(stack, stack.A, _decision_gap(stack)), stack.sigma[:, None] ** 2 * effective


def d2_Phi(stack: FiniteStack) -> Sides:
    """E_{mu^i}||Phi(s)(theta^i - theta_*^c)||^2 <= 2 sigma^2 min{1, nu delta_cen^i}, (B, n)."""
    bound = 2 * stack.sigma[:, None] ** 2 * stack.delta_cen_effective
    return _square_in(stack, stack.Phi, _objective_gap(stack)), bound


def d2_Phi_universal(stack: FiniteStack) -> Sides:
    """The same with Theorem 1's affinities, 2 sigma^2 min{1, nu (delta_env + delta_obj)}."""
    effective = np.minimum(1, stack.nu * _universal(stack))
    bound = 2 * stack.sigma**2 * effective
    return _square_in(stack, stack.Phi, _objective_gap(stack)), bound


def d2_Phi_own_nu(stack: FiniteStack) -> Sides:
    """The same with nu of Phi, max_i ||E_{mu^i} sqrt(Phi' Phi) (Phibar^i)^{-1}||."""
    effective = np.minimum(1, stack.nu_Phi[:, None] * stack.delta_cen)
    bound = 2 * stack.sigma[:, None] ** 2 * effective
    return _square_in(stack, stack.Phi, _objective_gap(stack)), bound


# Lemma D.3.


def d3(mu: Numbers, other: Numbers) -> Sides:
    """chi^2(mu, mu') <= max{||mu/mu'||_inf, 1} ||mu - mu'||_TV, shape (...).

    Args:
        mu, other: mu and mu', shapes (..., S), with mu' > 0 wherever mu > 0. (Elsewhere both sides
            are infinite.)
    """
    ratio = mu / np.where(other == 0, 1, other)
    chi2 = ((1 - ratio) ** 2 * other).sum(axis=-1)
    # as one half only: where mu' is far below mu, the other one is lost in rounding
    total_variation = np.maximum(mu - other, 0).sum(axis=-1)
    return chi2, np.maximum(ratio.max(axis=-1), 1) * total_variation


# Parts.


def sigma_agents(stack: FiniteStack) -> Numbers:
    """2 max{G_A max_i ||x_*^i||, G_b} (Section 1.2's G_x, Section 4's G_b), shape (B,)."""
    return np.asarray(2 * np.maximum(stack.G_A * stack.G_x_agents, stack.G_b))


def _with_average(values: Numbers) -> Numbers:
    """The average over agents and then the agents, shape (B, n+1, ...)."""
    return np.concatenate([values.mean(axis=1, keepdims=True), values], axis=1)


def _pairs(values: Numbers) -> Numbers:
    """f^i - f^j, shape (B, m, m, ...)."""
    return np.asarray(values[:, :, None] - values[:, None])


def _both(first: Numbers, second: Numbers) -> Numbers:
    """Two arrays (B, n) as one, (B, 2, n)."""
    return np.stack([first, second], axis=1)


def _universal(stack: FiniteStack) -> Numbers:
    return np.asarray(stack.delta_env + stack.delta_obj)


def _feature_bound(stack: FiniteStack, sigma: Numbers) -> Numbers:
    """2 sigma delta_cen^i for both environments, shape (B, 1, n)."""
    return np.asarray(2 * sigma[:, None] * stack.delta_cen)[:, None]


def _objective_gap(stack: FiniteStack) -> Numbers:
    """theta^i - theta_*^c, shape (B, n, d)."""
    return np.asarray(stack.theta - stack.theta_star_central[:, None])


def _decision_gap(stack: FiniteStack) -> Numbers:
    """x_*^i - x_*^c, shape (B, n, d)."""
    return np.asarray(stack.x_star - stack.x_star_central[:, None])


def _square_in(stack: FiniteStack, matrices: Numbers, gap: Numbers) -> Numbers:
    """E_{mu^i}||M(s) v^i||^2 for v of shape (B, n, d), shape (B, n)."""
    squares = (apply(matrices[:, None], gap[:, :, None]) ** 2).sum(axis=-1)
    return np.asarray((stack.mu * squares).sum(axis=-1))
