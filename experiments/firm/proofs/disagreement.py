"""FIRM, the disagreement drift (1/C) sum_c A_c (lambda^c - lambdabar), for any weights and C."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.firm.claims.perturbation import curvature
from experiments.firm.theory import perturbation as at
from experiments.firm.theory.program import root, weights
from experiments.firm.theory.weights import smoothed
from linsys.linalg import Numbers, agent_mean, norm, squared, transpose
from ratecheck import gram as g


def _over_clients(g: Numbers, lam: Numbers) -> dict[str, Any]:
    """The drift; and the norms of all clients' matrices and weights as two vectors of R^C."""
    apart = at.deviations(lam)
    sizes, lengths = at.spectral_of(at.tangent(at.deviations(g))), norm(apart)
    share = np.sqrt((1 + 0 * lengths[:, :1]) / lengths.shape[1])
    return {
        "drift": agent_mean(at.combined(g, apart)),
        "sizes": share * sizes,
        "lengths": share * lengths,
        "both": (share**2 * sizes * lengths).sum(axis=1),
        "S": np.sqrt(agent_mean(sizes**2)),
        "N": np.sqrt(agent_mean(squared(apart))),
    }


@g.theorem("firm.law_cauchy_schwarz", at=_over_clients, power=2)
def law_cauchy_schwarz(p: g.Problem) -> None:
    """T <= mean ||(A_c - Abar) P||^2 mean ||lambda^c - lambdabar||^2."""
    drift = p.vector("drift", "R^d")
    sizes, lengths = p.vectors("sizes lengths", "R^C")
    both, S, N = (p.parameter(name) for name in ("both", "S", "N"))
    p.assume(drift.squared <= both**2, "triangle inequality, and lambda^c - lambdabar has sum 0")
    p.equal(both, sizes @ lengths, "what both is", factors=[both, S * N])
    p.bounded(sizes, S, "the sizes of all clients")
    p.bounded(lengths, N, "the lengths of all clients")
    p.cauchy_schwarz(sizes, lengths, "Cauchy-Schwarz", factors=[both, S * N])
    p.show(drift.squared <= S**2 * N**2)


# A mean of vectors is no longer than the mean of their lengths' bounds: the inner product of two
# vectors over all clients, of which each is no longer than the root of that mean.


def _mean(vectors: Numbers, bounds: Numbers) -> dict[str, Any]:
    """The two vectors, for vectors x_c (B, C, d) no longer than s_c (B, C)."""
    mean = agent_mean(vectors)
    length = norm(mean)[:, None]
    unit = mean / np.where(length > 0, length, 1 + length)
    share = np.sqrt(bounds / bounds.shape[1])[..., None]
    each = vectors / np.where(share > 0, share, 1 + share) / bounds.shape[1]
    count = len(mean)
    return {
        "unit": (share * unit[:, None]).reshape(count, -1),
        "each": each.reshape(count, -1),
        "S": agent_mean(bounds),
    }


def _no_longer(p: g.Problem, why: str) -> tuple[Any, Any]:
    """The mean's length and its bound."""
    unit, each = p.vectors("unit each", "R^{d C}")
    S = p.parameter("S")
    p.assume(unit.squared <= S, "the mean of the bounds")
    p.assume(each.squared <= S, why)
    return unit @ each, S


def _chosen(g: Numbers, lam: Numbers) -> dict[str, Any]:
    apart = at.deviations(g)
    return _mean(at.combined(apart, lam), at.longest(apart))


@g.theorem("firm.law_without_beta", at=_chosen)
def law_without_beta(p: g.Problem) -> None:
    """||(1/C) sum_c X_c lambda^c|| <= (1/C) sum_c max_j ||g^{j,c} - gbar^j||."""
    length, S = _no_longer(p, "firm.law_covariance, and ||X_c lambda|| <= max_j ||x_j||")
    p.show(length <= S)


def _against_truth(g: Numbers, truth: Numbers, beta: Numbers, R: Numbers) -> dict[str, Any]:
    """beta A_c (lambda^c - lambda_t) / (2 sqrt(M) R^2), and ||A_c - A||_F."""
    factor = 2 * root(g.shape[2], R) * R**2
    away = at.solutions(g, beta) - weights(transpose(truth), beta)[:, None]
    share = beta / np.where(factor > 0, factor, 1 + factor)
    moved = at.combined(g, away) * share[:, None, None]
    return {**_mean(moved, np.sqrt(at.power(g - truth[:, None]))), "factor": factor}


@g.theorem("firm.law_true_large_beta", at=_against_truth, scale=lambda beta: beta)
def law_true_large_beta(p: g.Problem) -> None:
    """beta sqrt(T) <= 2 sqrt(M) R^2 (1/C) sum_c ||A_c - A||_F."""
    length, S = _no_longer(p, "|A_c u| <= sqrt(M) R |u|, and firm.law_lipschitz")
    factor = p.parameter("factor")
    p.show(factor * length <= factor * S)


# The norms of all clients' matrices and of their weights, as two vectors of R^C.


def _two(g: Numbers, lam: Numbers, ours: Numbers, theirs: Numbers) -> dict[str, Any]:
    """The drift, and both vectors over ``ours`` and ``theirs`` (B,)."""
    known = _over_clients(g, lam)

    def over(vector: Numbers, number: Numbers) -> Numbers:
        return np.asarray(vector / np.where(number > 0, number, 1 + 0 * number)[:, None])

    return {
        "sizes": over(known["sizes"], ours),
        "lengths": over(known["lengths"], theirs),
        "T": norm(known["drift"]),
    }


def _product(p: g.Problem, scale: Any, factor: Any, V: Any, why: str) -> None:
    """scale sqrt(T) <= factor V, where both vectors are no longer than the root of V."""
    sizes, lengths = p.vectors("sizes lengths", "R^C")
    T = p.parameter("T")
    p.assume(scale * T <= factor * (sizes @ lengths), "triangle inequality, a step of sum 0")
    p.assume(sizes.squared <= V, "||X_c P|| is at most ||X_c||")
    p.assume(lengths.squared <= V, why)
    p.show(scale * T <= factor * V)


def _second_order(g: Numbers, beta: Numbers, R: Numbers) -> dict[str, Any]:
    two = _two(g, at.solutions(g, beta), 1 + 0 * beta, 2 * R / beta)
    return {**two, "beta": beta, "factor": 2 * R, "V": at.variance(g)}


@g.theorem("firm.law_second_order", at=_second_order, scale=lambda beta: beta)
def law_second_order(p: g.Problem) -> None:
    """beta sqrt(T) <= 2 R V, V the mean of ||A_c - Abar||_F^2."""
    beta, factor, V = p.parameters_named("beta factor V")
    _product(p, beta, factor, V, "firm.law_lipschitz, averaged over all pairs of clients")


def _small_beta(g: Numbers, beta: Numbers, R: Numbers) -> dict[str, Any]:
    middle = agent_mean(g)
    factor = 2 * (at.spectral_of(at.tangent(middle)) + R)
    slope = beta + 2 * curvature(transpose(middle))
    two = _two(g, at.solutions(g, beta), 1 + 0 * beta, factor / slope)
    V = agent_mean(at.spectral_of(at.deviations(g)) ** 2)
    return {**two, "slope": slope, "factor": factor, "V": V}


def _slope(g: Numbers, beta: Numbers) -> Numbers:
    return np.asarray(beta + 2 * curvature(transpose(agent_mean(g))))


@g.theorem("firm.law_small_beta", at=_small_beta, scale=_slope)
def law_small_beta(p: g.Problem) -> None:
    """(beta + 2 mu) sqrt(T) <= 2 (h + R) V_op, V_op the mean of ||A_c - Abar||_op^2."""
    slope, factor, V = p.parameters_named("slope factor V")
    _product(p, slope, factor, V, "firm.law_curvature for the solution of Abar")


def _smoothed(
    g: Numbers, start: Numbers, eta: Numbers, beta: Numbers, R: Numbers
) -> dict[str, Any]:
    steps, clients = g.shape[1:3]
    stars = np.stack([at.solutions(g[:, t], beta) for t in range(steps)], axis=1)
    path = smoothed(np.stack([start] * clients, axis=1), stars, eta)
    reached = 0 * beta
    for t in range(steps):
        reached = (1 - eta[:, t]) * reached + eta[:, t] * np.sqrt(at.variance(g[:, t]))
    noise = np.sqrt(at.variance(g[:, -1]))
    two = _two(g[:, -1], path[:, -1], noise, 2 * R / beta * reached)
    return {**two, "beta": beta, "R": R, "noise": noise, "reached": reached}


@g.theorem("firm.law_smoothed", at=_smoothed, scale=lambda beta: beta)
def law_smoothed(p: g.Problem) -> None:
    """beta sqrt(T_t) <= 2 R sqrt(V_t) sum_i eta_i prod_{k>i} (1 - eta_k) sqrt(V_i)."""
    beta, R, noise, reached = p.parameters_named("beta R noise reached")
    why = "(22) for the root mean square of lambda^c - lambdabar, and firm.law_lipschitz"
    _product(p, beta, 2 * R * noise * reached, 1, why)
