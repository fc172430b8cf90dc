"""Exact second moments of whole runs, for many systems at once and in high precision.

The errors y = (x^i - x_*^i, x^c - x_*^c, theta^c - theta_*^c, 1) of one agent follow
y <- (I - N) y with N = sum_j N_j(s^j), independent over agents and time. E[y y'] is therefore
multiplied by one operator per step, here as a matrix on the D(D + 1)/2 entries of a symmetric
matrix; squaring it k times gives the moments at t = 2^k. :mod:`linsys.moments` answers the same for
one validated system at any time and with more care for rounding; a test holds both together.

Shapes: maps are (B, n, S, D, D), one for every agent's sample; those of a single agent
(B, S, D, D).
"""

from __future__ import annotations

import numpy as np

from experiments.affpcl.theory.directions import central_residual, local_residual
from experiments.affpcl.theory.stack import FiniteStack, apply
from linsys.linalg import Numbers


def affpcl_maps(
    stack: FiniteStack, steps: tuple[Numbers, Numbers, Numbers], direction: str = "objective"
) -> tuple[Numbers, Numbers]:
    """The maps of (27) with (20) and (22) for the first agent, known density ratio.

    Args:
        stack: B systems.
        steps: step sizes of x^i, x^c and theta^c, each (B,).
        direction: "objective" for (22-1), "estimate" for (22-2).

    Returns:
        Every agent's share of the averages, (B, n, S, D, D), and what the first agent's own sample
        adds, (B, S, D, D), with D = 3 d + 1.
    """
    d, n = stack.d, stack.n
    A, Phi = stack.A[:, None], stack.Phi[:, None]
    own, centre, objective = (slice(k * d, (k + 1) * d) for k in range(3))
    size = 3 * d + 1
    residual = central_residual(stack, stack.x_star_central, stack.theta_star_central)
    weights = stack.rho[:, 0][:, None, :, None, None]
    alpha, alpha_c, alpha_b = (step.reshape(-1, 1, 1, 1, 1) / n for step in steps)

    shares = np.zeros((*stack.mu.shape, size, size), dtype=stack.A.dtype)
    shares[..., own, centre] = alpha * weights * A
    shares[..., own, objective] = -alpha * weights * Phi
    shares[..., own, -1] = (alpha * weights)[..., 0] * residual[:, None]
    shares[..., centre, centre] = alpha_c * A
    if direction == "estimate":
        shares[..., centre, objective] = -alpha_c * Phi
        shares[..., centre, -1] = alpha_c[..., 0] * residual[:, None]
    else:
        shares[..., centre, -1] = alpha_c[..., 0] * local_residual(stack, stack.x_star_central)
    shares[..., objective, objective] = alpha_b * Phi
    off = apply(stack.Phi, stack.theta_star_central[:, None])[:, None] - stack.b
    shares[..., objective, -1] = alpha_b[..., 0] * off

    alpha = steps[0].reshape(-1, 1, 1, 1)
    single = np.zeros((*stack.A.shape[:2], size, size), dtype=stack.A.dtype)
    single[..., own, own] = alpha * stack.A
    single[..., own, centre] = -alpha * stack.A
    single[..., own, objective] = alpha * stack.Phi
    at_solution = local_residual(stack, stack.x_star)[:, 0] - residual
    single[..., own, -1] = alpha[..., 0] * at_solution
    return shares, single


def second_moment_operator(
    mu: Numbers, shares: Numbers, single: Numbers | None = None, copies: Numbers | None = None
) -> Numbers:
    """S -> E[(I - N) S (I - N)'] as matrices on half vectors, (B, D(D + 1)/2, D(D + 1)/2).

    Args:
        mu: environments, shape (B, n, S).
        shares: maps whose sum over the agents belongs to N, (B, n, S, D, D).
        single: what the first agent's sample adds, (B, S, D, D).
        copies: number of equal agents per group, shape (B,); the shares are then those of whole
            groups, over which the samples average, and ``single`` is of one member.
    """
    size = shares.shape[-1]
    weights = mu[..., None, None]
    centred = shares - (weights * shares).sum(axis=2, keepdims=True)
    total = (weights * shares).sum(axis=(1, 2))
    spread = _paired(weights * centred, centred).sum(axis=(1, 2))
    if single is not None:
        first = weights[:, 0]
        own = single - (first * single).sum(axis=1, keepdims=True)
        total = total + (first * single).sum(axis=1)
        mixed = _paired(first * own, centred[:, 0]) + _paired(first * centred[:, 0], own)
        spread = spread + mixed.sum(axis=1)
    if copies is not None:
        spread = spread / copies.reshape(-1, 1, 1)
    if single is not None:
        spread = spread + _paired(first * own, own).sum(axis=1)
    keep = np.eye(size, dtype=int) - total
    return _halved(_paired(keep, keep) + spread, size)


def _paired(left: Numbers, right: Numbers) -> Numbers:
    """The matrix of S -> L S R', rows and columns (a, b), for maps (..., D, D)."""
    size = left.shape[-1]
    product = left[..., :, None, :, None] * right[..., None, :, None, :]
    return np.asarray(product.reshape(*product.shape[:-4], size**2, size**2))


def _halved(operator: Numbers, size: int) -> Numbers:
    """An operator on matrices as one on the entries a <= b of symmetric matrices."""
    rows, columns = np.triu_indices(size)
    upper, lower = rows * size + columns, columns * size + rows
    both = operator[..., upper, :]
    off_diagonal = (rows != columns).astype(int)
    return np.asarray(both[..., upper] + off_diagonal * both[..., lower])


def run(operator: Numbers, start: Numbers, doublings: Numbers) -> Numbers:
    """E[y y'] after 2^doublings steps from y_0 = start.

    Args:
        operator: of :func:`second_moment_operator`.
        start: y_0, shape (B, D); its last coordinate is one.
        doublings: whole numbers, shape (B,).

    Returns:
        Shape (B, D, D).
    """
    size = start.shape[-1]
    rows, columns = np.triu_indices(size)
    power = operator
    for k in range(int(doublings.max())):
        power = np.where((doublings > k)[:, None, None], power @ power, power)
    half = apply(power, start[:, rows] * start[:, columns])
    moments = np.zeros((len(start), size, size), dtype=half.dtype)
    moments[:, rows, columns] = half
    moments[:, columns, rows] = half
    return moments


def first_square(moments: Numbers, d: int) -> Numbers:
    """E||z||^2 of the first d coordinates z of y, shape (B,), from E[y y']."""
    return np.asarray(np.diagonal(moments, axis1=1, axis2=2)[:, :d].sum(axis=1))
