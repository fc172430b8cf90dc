"""Helpers of AffPCL's Appendix D.1 to D.3: differences between systems, and bounds on them.

Functions of a :class:`FiniteStack`, with B first. sigma, delta_cen and nu are those of the stack:
G_x contains x_*^c and G_b contains theta_*^c unless a docstring says otherwise.

>>> import numpy as np
>>> one = np.ones((1, 1, 1, 1))
>>> stack = FiniteStack(
...     mu=np.ones((1, 2, 1)), A=one, Phi=one, theta=np.array([[[1.0], [-1.0]]])
... )
>>> universal(stack).tolist()  # one environment, opposite objectives
[1.0]
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.affpcl.theory.stack import FiniteStack, apply
from linsys.linalg import Numbers


def d2_A(stack: FiniteStack) -> rc.Sides:
    """E_{mu^i}||A(s)(x_*^i - x_*^c)||^2 <= 2 sigma^2 min{1, nu delta_cen^i}, shape (B, n)."""
    bound = 2 * stack.sigma[:, None] ** 2 * stack.delta_cen_effective
    return mean_square_in_features(stack, stack.A, decision_gap(stack)), bound


def sigma_agents(stack: FiniteStack) -> Numbers:
    """2 max{G_A max_i ||x_*^i||, G_b} (Section 1.2's G_x, Section 4's G_b), shape (B,)."""
    return np.asarray(2 * np.maximum(stack.G_A * stack.G_x_agents, stack.G_b))


def stack_two(first: Numbers, second: Numbers) -> Numbers:
    """Two arrays (B, n) as one, (B, 2, n)."""
    return np.stack([first, second], axis=1)


def universal(stack: FiniteStack) -> Numbers:
    """delta_env + delta_obj, shape (B,)."""
    return np.asarray(stack.delta_env + stack.delta_obj)


def feature_bound(stack: FiniteStack, sigma: Numbers) -> Numbers:
    """2 sigma delta_cen^i for both environments, shape (B, 1, n)."""
    return np.asarray(2 * sigma[:, None] * stack.delta_cen)[:, None]


def objective_gap(stack: FiniteStack) -> Numbers:
    """theta^i - theta_*^c, shape (B, n, d)."""
    return np.asarray(stack.theta - stack.theta_star_central[:, None])


def decision_gap(stack: FiniteStack) -> Numbers:
    """x_*^i - x_*^c, shape (B, n, d)."""
    return np.asarray(stack.x_star - stack.x_star_central[:, None])


def mean_square_in_features(stack: FiniteStack, matrices: Numbers, gap: Numbers) -> Numbers:
    """E_{mu^i}||M(s) v^i||^2 for v of shape (B, n, d), shape (B, n)."""
    squares = (apply(matrices[:, None], gap[:, :, None]) ** 2).sum(axis=-1)
    return np.asarray((stack.mu * squares).sum(axis=-1))
