"""Appendix G of AffPCL: one step of the personalised iterate, at fixed values of all iterates.

Statements return (measured, bound), one entry for each agent of a
:class:`~experiments.affpcl.theory.one_step.PersonalStack`. ``effective`` names the effective
affinity: "printed" is min{1, nu delta_cen^i} with the nu of Definition 3, which looks at A alone;
"safe" takes the larger of nu and its counterpart of Phi, which Lemma D.2 needs. Two dots in a
formula stand for the squared error that belongs there: G_A^2 ||dx^i||^2, G_A^2 ||dx^c||^2,
||dtheta||^2.
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.affpcl.theory.one_step import PersonalStack
from linsys.linalg import Numbers

# Lemma G.1 and Corollary G.1.


def corollary_g1(stack: PersonalStack, *, mean_error: bool = False) -> rc.Sides:
    """E<gtilde^i, dx^i> >= (7/8) lambda^i ||dx^i||^2 - (2/lambda^i) E||calE||^2.

    With ``mean_error``, ||E calE||^2 takes the place of E||calE||^2.
    """
    slope = stack.lambda_agent
    if mean_error:
        error = (stack.estimation_mean**2).sum(axis=-1)
    else:
        error = stack.estimation_second_moment
    inner = (stack.direction_mean * stack.dx).sum(axis=-1)
    return inner, 7 * slope * stack.own_error / 8 - 2 * error / slope


# Lemma G.2 and what its proof is made of.


def lemma_g2(stack: PersonalStack, *, error: str = "random") -> rc.Sides:
    """E||g^{c=>i}||^2 <= 24 .. + 40 .. + 64 sigma^2 (1/n + 2 delta_env^i) + 2 E||calE||^2.

    ``error`` is "random", or "mean" for ||E calE||^2 in the last term.
    """
    if error == "mean":
        last = (stack.estimation_mean**2).sum(axis=-1)
    else:
        last = stack.estimation_second_moment
    noise = 64 * stack.variance_proxy * (stack.rate + 2 * stack.delta_env_agent)
    bound = 24 * stack.centre_error + 40 * stack.objective_error + noise + 2 * last
    return stack.collective_second_moment, bound


def squares_of(stack: PersonalStack) -> Numbers:
    """H_1 = (1/n^2) sum_j E||rho^i(s^j) g^{c->j}||^2, shape (B, n)."""
    squares = stack.rho**2 * (stack.central**2).sum(axis=-1)[:, None]
    return np.asarray(stack.rate * (stack.mu0[:, None] * squares).sum(axis=-1))


# Lemma G.3 and Corollary G.2.


def progress(stack: PersonalStack, alpha: Numbers) -> Numbers:
    """(E||dx^i_{t+1}||^2 - (1 - (3/2) alpha lambda^i) ||dx^i||^2) / alpha.

    What is left of a one-step bound without the contraction that both of its sides share: the bound
    itself would look tight for every small alpha.
    """
    inner = (stack.direction_mean * stack.dx).sum(axis=-1)
    contraction = 3 * stack.lambda_agent * stack.own_error / 2
    return np.asarray(contraction - 2 * inner + alpha * stack.direction_second_moment)


def corollary_g2_error(stack: PersonalStack, *, with_G_rho: bool = False) -> rc.Sides:
    """E||calE||^2 <= 2 sigma^2 ||deta||^2 + 4 (G_A^2 ||dx^c||^2 + ||dtheta||^2).

    With ``with_G_rho`` the last term is multiplied by G_rho^2.
    """
    factor = stack.G_rho**2 if with_G_rho else 1
    bound = 2 * stack.variance_proxy * stack.weight_error
    return (
        stack.estimation_second_moment,
        bound + 4 * factor * (stack.centre_error + stack.objective_error),
    )
