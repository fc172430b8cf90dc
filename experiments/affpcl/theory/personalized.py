"""Appendix G of AffPCL: one step of the personalised iterate, at fixed values of all iterates.

All functions return (measured, bound), one entry for each agent of a
:class:`~experiments.affpcl.theory.one_step.PersonalStack`. ``effective`` names the effective
affinity: "printed" is min{1, nu delta_cen^i} with the nu of Definition 3, which looks at A alone;
"safe" takes the larger of nu and its counterpart of Phi, which Lemma D.2 needs. Two dots in a
formula stand for the squared error that belongs there: G_A^2 ||dx^i||^2, G_A^2 ||dx^c||^2,
||dtheta||^2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.affpcl.theory.directions import importance_corrected
from experiments.affpcl.theory.one_step import PersonalStack
from experiments.affpcl.theory.stack import apply
from linsys.linalg import norm

Numbers = NDArray[Any]
Sides = tuple[Numbers, Numbers]


# Lemma G.1 and Corollary G.1.


def lemma_g1_identity(stack: PersonalStack) -> Sides:
    """E gtilde^i = E g^i(x^i) + E_{mu^0}[psi' deta (A x^c - Phi theta^c)], vectors (B, n, d)."""
    error = (stack.mu0[:, None] * stack.ratio_error) @ stack.central
    return stack.direction_mean, apply(stack.A_bar, stack.x) - stack.b_bar + error


def lemma_g1_norm(stack: PersonalStack) -> Sides:
    """||E calE|| <= sigma ||deta|| + G_rho (G_A ||dx^c|| + ||dtheta||), for ||psi|| <= 1."""
    errors = np.sqrt(stack.centre_error) + np.sqrt(stack.objective_error)
    bound = stack.sigma[:, None] * norm(stack.deta) + stack.G_rho * errors
    return norm(stack.estimation_mean), bound


def corollary_g1(stack: PersonalStack, *, mean_error: bool = False) -> Sides:
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


def lemma_g2(stack: PersonalStack, *, error: str = "random") -> Sides:
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


def lemma_g2_sharper(stack: PersonalStack) -> Sides:
    """E||g^{c=>i}||^2 <= 16 .. + 16 .. + 4 sigma^2 (1/n + 5 delta_env^i) + 2 E||calE||^2."""
    noise = 4 * stack.variance_proxy * (stack.rate + 5 * stack.delta_env_agent)
    bound = 16 * (stack.centre_error + stack.objective_error) + noise
    return stack.collective_second_moment, bound + 2 * stack.estimation_second_moment


def _squares(stack: PersonalStack) -> Numbers:
    """H_1 = (1/n^2) sum_j E||rho^i(s^j) g^{c->j}||^2, shape (B, n)."""
    squares = stack.rho**2 * (stack.central**2).sum(axis=-1)[:, None]
    return np.asarray(stack.rate * (stack.mu0[:, None] * squares).sum(axis=-1))


def _covariances(stack: PersonalStack) -> Numbers:
    """H_2 = (1/n^2) sum_{j != k} <E rho^i g^{c->j}, E rho^i g^{c->k}>, shape (B, n)."""
    parts = importance_corrected(stack, stack.central)
    total = stack.average_second_moment(parts)
    return np.asarray(total - _squares(stack))


def lemma_g2_H1(stack: PersonalStack) -> Sides:
    """H_1 <= 8 G_A^2 ||dx^c||^2 + 16 ||dtheta||^2 + 8 sigma^2 (1/n + delta_env^i)."""
    noise = 8 * stack.variance_proxy * (stack.rate + stack.delta_env_agent)
    return _squares(stack), 8 * stack.centre_error + 16 * stack.objective_error + noise


def lemma_g2_H1_sharper(stack: PersonalStack) -> Sides:
    """H_1 <= 2 G_A^2 ||dx^c||^2 + 4 ||dtheta||^2 + 4 sigma^2 (1/n + delta_env^i)."""
    noise = 4 * stack.variance_proxy * (stack.rate + stack.delta_env_agent)
    return _squares(stack), 2 * stack.centre_error + 4 * stack.objective_error + noise


def _bias(stack: PersonalStack) -> Numbers:
    """||E g^{c->i}(x^c; theta^c)||^2, shape (B, n)."""
    return np.asarray((stack.mean(stack.central) ** 2).sum(axis=-1))


def lemma_g2_H2(stack: PersonalStack) -> Sides:
    """H_2 <= ||E g^{c->i}||^2 <= 4 .. + 4 .. + 32 sigma^2 (delta_cen^i)^2: (B, 2, n)."""
    noise = 32 * stack.variance_proxy * stack.delta_cen**2
    bound = 4 * stack.centre_error + 4 * stack.objective_error + noise
    return (
        np.stack([_covariances(stack), _bias(stack)], axis=1),
        np.stack([_bias(stack), bound], axis=1),
    )


def lemma_g2_bias_sharper(stack: PersonalStack) -> Sides:
    """||E g^{c->i}||^2 <= 4 .. + 4 .. + 8 sigma^2 (delta_env^i)^2."""
    noise = 8 * stack.variance_proxy * stack.delta_env_agent**2
    return _bias(stack), 4 * (stack.centre_error + stack.objective_error) + noise


def lemma_g2_chi(stack: PersonalStack, factor: int = 2) -> Sides:
    """H_1 <= (factor H_3^2 / n)(1 + chi^2(mu^i, mu^0)) with H_3 = max_s ||g^{c->j}||."""
    largest = (stack.central**2).sum(axis=-1) * stack.visited
    bound = factor * largest.max(axis=-1)[:, None] * stack.rate * (1 + stack.chi2_agent)
    return _squares(stack), bound


# Lemma G.3 and Corollary G.2.


def lemma_g3(stack: PersonalStack, effective: str = "printed") -> Sides:
    """E||g^i(x^i) - g^{c->i}||^2 <= 4 .. + 8 .. + 8 .. + 16 sigma^2 deltatilde^i."""
    bound = 4 * stack.G_A[:, None] ** 2 * stack.own_error + 8 * stack.centre_error
    noise = 16 * stack.variance_proxy * stack.effective(effective)
    return stack.individual_second_moment, bound + 8 * stack.objective_error + noise


def corollary_g2_direction(stack: PersonalStack, effective: str = "printed") -> Sides:
    """E||gtilde||^2 <= 8 .. + 64 .. + 96 .. + 144 sigma^2 (1/n + 2 deltatilde) + 4 E||calE||^2."""
    noise = 144 * stack.variance_proxy * (stack.rate + 2 * stack.effective(effective))
    bound = 8 * stack.G_A[:, None] ** 2 * stack.own_error + 64 * stack.centre_error
    bound = bound + 96 * stack.objective_error + noise + 4 * stack.estimation_second_moment
    return stack.direction_second_moment, bound


def corollary_g2_direction_sharper(stack: PersonalStack) -> Sides:
    """E||gtilde||^2 <= 4 .. + 64 (.. + ..) + 16 sigma^2 (1/n + 9 deltatilde^i) + 2 E||calE||^2."""
    noise = 16 * stack.variance_proxy * (stack.rate + 9 * stack.effective("safe"))
    bound = 4 * stack.G_A[:, None] ** 2 * stack.own_error
    bound = bound + 64 * (stack.centre_error + stack.objective_error) + noise
    return stack.direction_second_moment, bound + 2 * stack.estimation_second_moment


def _progress(stack: PersonalStack, alpha: Numbers) -> Numbers:
    """(E||dx^i_{t+1}||^2 - (1 - (3/2) alpha lambda^i) ||dx^i||^2) / alpha.

    What is left of a one-step bound without the contraction that both of its sides share: the bound
    itself would look tight for every small alpha.
    """
    inner = (stack.direction_mean * stack.dx).sum(axis=-1)
    contraction = 3 * stack.lambda_agent * stack.own_error / 2
    return np.asarray(contraction - 2 * inner + alpha * stack.direction_second_moment)


def corollary_g2_first(stack: PersonalStack, effective: str = "printed") -> Sides:
    """First display of Corollary G.2 for alpha <= lambda^i / (40 G_A^2), as in _progress."""
    alpha = stack.step(40)
    noise = 144 * stack.variance_proxy * (stack.rate + 2 * stack.effective(effective))
    bound = alpha * (64 * stack.centre_error + 96 * stack.objective_error + noise)
    return (
        _progress(stack, alpha),
        bound + 4 * stack.estimation_second_moment / stack.lambda_agent,
    )


def corollary_g2_first_sharper(stack: PersonalStack) -> Sides:
    """64 alpha (.. + ..) + 16 alpha sigma^2 (1/n + 9 deltatilde^i) + (4/lambda) E||calE||^2.

    For alpha <= lambda^i / (20 G_A^2); both sides as in _progress.
    """
    alpha = stack.step(20)
    noise = 16 * stack.variance_proxy * (stack.rate + 9 * stack.effective("safe"))
    bound = alpha * (64 * (stack.centre_error + stack.objective_error) + noise)
    return (
        _progress(stack, alpha),
        bound + 4 * stack.estimation_second_moment / stack.lambda_agent,
    )


def corollary_g2_known(stack: PersonalStack) -> Sides:
    """32 alpha (.. + ..) + 8 alpha sigma^2 (1/n + 9 deltatilde^i), for a known density ratio.

    For alpha <= lambda^i / (4 G_A^2); both sides as in _progress. The stack has no ``deta``.
    """
    alpha = stack.step(4)
    noise = 8 * stack.variance_proxy * (stack.rate + 9 * stack.effective("safe"))
    return (
        _progress(stack, alpha),
        alpha * (32 * (stack.centre_error + stack.objective_error) + noise),
    )


def corollary_g2_second(stack: PersonalStack, effective: str = "printed") -> Sides:
    """Second display of Corollary G.2 for alpha <= lambda^i / (40 G_A^2), as in _progress."""
    alpha, slope = stack.step(40), stack.lambda_agent
    ratio = 16 * stack.G_rho**2 / slope
    noise = 144 * alpha * stack.variance_proxy * (stack.rate + 2 * stack.effective(effective))
    bound = (64 * alpha + ratio) * stack.centre_error + (96 * alpha + ratio) * stack.objective_error
    bound = bound + 4 * stack.variance_proxy * stack.weight_error / slope
    return _progress(stack, alpha), bound + noise


def corollary_g2_error(stack: PersonalStack, *, with_G_rho: bool = False) -> Sides:
    """E||calE||^2 <= 2 sigma^2 ||deta||^2 + 4 (G_A^2 ||dx^c||^2 + ||dtheta||^2).

    With ``with_G_rho`` the last term is multiplied by G_rho^2.
    """
    factor = stack.G_rho**2 if with_G_rho else 1
    bound = 2 * stack.variance_proxy * stack.weight_error
    return (
        stack.estimation_second_moment,
        bound + 4 * factor * (stack.centre_error + stack.objective_error),
    )
