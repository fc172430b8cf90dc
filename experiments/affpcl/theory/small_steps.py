"""The stationary error of small steps: what the noise at the solutions costs, exactly.

With a constant step alpha, E||x^i - x_*^i||^2 settles at alpha tr X + O(alpha^2), where X solves

    Abar^i X + X (Abar^i)' = Cov(noise of x^i at all solutions).

The noise of AffPCL there is z^i = (1/n) sum_j rho^i(s^j) h(s^j) + v^i(s^i), that of an agent alone
g^i(x_*^i; s^i) = h(s^i) + v^i(s^i), with the central residual h(s) = A(s) x_*^c - Phi(s) theta_*^c
and v^i(s) = A(s)(x_*^i - x_*^c) - Phi(s)(theta_*^i - theta_*^c). The errors of x^c and theta^c
enter z^i times zero-mean matrices and so count at order alpha^2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.affpcl.theory.directions import (
    central_residual,
    importance_corrected,
    local_residual,
    own,
)
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import solve

Numbers = NDArray[Any]
Sides = tuple[Numbers, Numbers]


def noise_covariance(stack: FiniteStack, parts: Numbers) -> Numbers:
    """Cov(Y) of the agents' directions, (B, n, d, d), for parts of shape (B, n, n, S, d)."""
    weights = stack.mu[:, None, :, :, None]
    centred = parts - (weights * parts).sum(axis=3, keepdims=True)
    outer = (weights * centred)[..., :, None] * centred[..., None, :]
    return np.asarray(outer.sum(axis=(2, 3)))


def stationary(stack: FiniteStack, covariance: Numbers) -> Numbers:
    """tr X for each agent, shape (B, n)."""
    d = stack.d
    identity = np.eye(d, dtype=int)
    drift = stack.A_bar
    left = drift[..., :, None, :, None] * identity[:, None, :]
    right = identity[:, None, :, None] * drift[..., None, :, None, :]
    operator = (left + right).reshape(*drift.shape[:2], d * d, d * d)
    flat = solve(operator, covariance.reshape(*covariance.shape[:2], d * d))
    return np.asarray(flat[..., :: d + 1].sum(axis=-1))


def _central(stack: FiniteStack) -> Numbers:
    return central_residual(stack, stack.x_star_central, stack.theta_star_central)


def together(stack: FiniteStack) -> Numbers:
    """lim error / alpha of AffPCL with a known density ratio, shape (B, n)."""
    central = _central(stack)
    individual = own(local_residual(stack, stack.x_star) - central[:, None])
    noise = importance_corrected(stack, central) + individual
    return stationary(stack, noise_covariance(stack, noise))


def alone(stack: FiniteStack) -> Numbers:
    """lim error / alpha of independent learning, shape (B, n)."""
    noise = own(local_residual(stack, stack.x_star))
    return stationary(stack, noise_covariance(stack, noise))


def never_worse(stack: FiniteStack) -> Sides:
    """AffPCL against independent learning, for each agent."""
    return together(stack), alone(stack)


def never_worse_on_average(stack: FiniteStack) -> Sides:
    """The same on average over the agents, shape (B,)."""
    return together(stack).mean(axis=1), alone(stack).mean(axis=1)


def gain_on_average(stack: FiniteStack) -> Sides:
    """In one environment: average error alone = together + (1 - 1/n) times that of the noise h."""
    centre = own(np.repeat(_central(stack)[:, None], stack.n, axis=1))
    noise = stationary(stack, noise_covariance(stack, centre)).mean(axis=1)
    gain = noise - noise / stack.n
    return alone(stack).mean(axis=1), together(stack).mean(axis=1) + gain


def never_worse_but_for_distance(stack: FiniteStack) -> Sides:
    """In one environment: together <= alone + (1 - 1/n) times that of the noise v^i, (B, n)."""
    central = _central(stack)
    distance = own(local_residual(stack, stack.x_star) - central[:, None])
    extra = stationary(stack, noise_covariance(stack, distance))
    return together(stack), alone(stack) + extra - extra / stack.n


def theorem1_of_small_steps(stack: FiniteStack) -> Sides:
    """lim error / alpha <= (sigma^2 / lambda^i)(1/n + 9 min{1, nu' delta_cen^i}), (B, n).

    nu' is the larger of nu and its counterpart of Phi.
    """
    scale = stack.sigma[:, None] ** 2 / stack.lambda_agent
    return together(stack), scale / stack.n + 9 * scale * stack.delta_cen_effective_both


def free_ride(stack: FiniteStack) -> Sides:
    """n times AffPCL's error against that of learning alone, for the first agent, shape (B,)."""
    return stack.n * together(stack)[:, 0], alone(stack)[:, 0]
