"""The disagreement drift in the mean: batch size, clients, time, local steps; exact expectations.

Clients draw their gradients independently from two points, ``points`` (B, 2, M, d) with
probabilities ``chances`` (B, 2), so that an expectation is a finite sum over outcomes. beta and R
as in :mod:`experiments.firm.theory.perturbation`; statements return ``(measured, bound)``.

>>> from fractions import Fraction
>>> [float(opposed_pair((1, 1), Fraction(s), Fraction(0))) for s in (0.5, 0.25)]  # a kink: s^2 / 4
[0.0625, 0.015625]
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np

import ratecheck as rc
from experiments.firm.theory.perturbation import solutions
from experiments.firm.theory.program import weights
from linsys.linalg import Numbers, apply, squared, transpose

#: Largest batch whose expectations are summed.
LARGEST_BATCH = 4


def _outcomes(chances: Numbers, draws: int) -> tuple[Numbers, Numbers]:
    """Which point each of some draws takes, (N, draws), and the probabilities of that, (B, N)."""
    which = np.array(list(product(range(chances.shape[1]), repeat=draws)))
    return which, chances[:, which].prod(axis=-1)


def mean_over(chances: Numbers, values: Numbers) -> Numbers:
    """The expectation of values (B, N, ...)."""
    aligned = chances.reshape(*chances.shape, *[1] * (values.ndim - 2))
    return np.asarray((aligned * values).sum(axis=1))


def _direction(g: Numbers, lam: Numbers) -> Numbers:
    """(1/C) sum_c A_c (lambda^c - lambdabar) of outcomes (B, N, C, M, d), shape (B, N, d)."""
    shifted = lam - lam[:, :, :1]
    apart = shifted - shifted.sum(axis=2, keepdims=True) / lam.shape[2]
    return np.asarray((g * apart[..., None]).sum(axis=(2, 3)) / lam.shape[2])


def square(g: Numbers, lam: Numbers) -> Numbers:
    """T of the same, shape (B, N)."""
    return squared(_direction(g, lam))


def _covariance(points: Numbers, chances: Numbers, lam: Numbers) -> Numbers:
    """Cov(A, lambda*) = E (A - E A) lambda*, shape (B, d)."""
    noise = points - mean_over(chances, points)[:, None]
    return mean_over(chances, apply(transpose(noise), lam))


def bias(points: Numbers, chances: Numbers, beta: Numbers, clients: Sequence[int]) -> rc.Sides:
    """E (1/C) sum_c A_c (lambda^c - lambdabar) = (1 - 1/C) Cov(A, lambda*).

    Shape (B, len(clients), d).
    """
    lam = solutions(points, beta)
    shift = _covariance(points, chances, lam)
    measured, bound = [], []
    for C in clients:
        which, likely = _outcomes(chances, C)
        measured.append(mean_over(likely, _direction(points[:, which], lam[:, which])))
        bound.append((C - 1) * shift / C)
    return np.stack(measured, axis=1), np.stack(bound, axis=1)


def no_speedup(
    points: Numbers, chances: Numbers, beta: Numbers, clients: Sequence[int]
) -> rc.Sides:
    """E T >= (1 - 1/C)^2 ||Cov(A, lambda*)||^2, shape (B, len(clients))."""
    lam = solutions(points, beta)
    least = squared(_covariance(points, chances, lam))
    measured, bound = [], []
    for C in clients:
        which, likely = _outcomes(chances, C)
        measured.append(mean_over(likely, square(points[:, which], lam[:, which])))
        bound.append((C - 1) ** 2 * least / C**2)
    return np.stack(measured, axis=1), np.stack(bound, axis=1)


def averaged(
    points: Numbers, chances: Numbers, beta: Numbers, runs: Sequence[tuple[int, int]]
) -> rc.Sides:
    """E T_t = E T_1 / t^2 + ((t - 1)/t^2) ((C - 1)/C^2) tr(Gamma Sigma), for pairs (C, t) of runs.

    lambda_t^c = mean of t independent solutions, (11) with eta_t = 1/t at constant parameters;
    Gamma = E (A - E A)'(A - E A), Sigma = Cov lambda*.
    """
    lam = solutions(points, beta)
    mean = mean_over(chances, points)[:, None]
    moved = lam - mean_over(chances, lam)[:, None]
    # A noise in each of the weights' directions
    pairs = apply(transpose(points - mean)[:, :, None], moved[:, None])
    crossed = mean_over(chances, mean_over(chances, squared(pairs)))
    measured, bound = [], []
    for C, t in runs:
        which, likely = _outcomes(chances, C * t)
        draws = which.reshape(-1, t, C)
        path = lam[:, draws].sum(axis=2) / t
        measured.append(mean_over(likely, square(points[:, draws[:, -1]], path)))
        single, once = _outcomes(chances, C)
        first = mean_over(once, square(points[:, single], lam[:, single]))
        bound.append((first + (t - 1) * ((C - 1) * crossed / C**2)) / t**2)
    return np.stack(measured, axis=1), np.stack(bound, axis=1)


def averaged_error(
    points: Numbers, chances: Numbers, beta: Numbers, runs: Sequence[tuple[int, int]]
) -> rc.Sides:
    """E ||lambdabar_t - l||^2 = ||E lambda* - l||^2 + tr Sigma / (C t), l the solution for E A."""
    lam = solutions(points, beta)
    true = weights(transpose(mean_over(chances, points)), beta)
    mean = mean_over(chances, lam)
    spread = mean_over(chances, squared(lam - mean[:, None]))
    measured, bound = [], []
    for C, t in runs:
        which, likely = _outcomes(chances, C * t)
        reached = lam[:, which].sum(axis=2) / (C * t)
        measured.append(mean_over(likely, squared(reached - true[:, None])))
        bound.append(squared(mean - true) + spread / (C * t))
    return np.stack(measured, axis=1), np.stack(bound, axis=1)


# One example in closed form.


def opposed_pair(
    mean: tuple[int, int], noise: Fraction, beta: Fraction, copies: int = 1
) -> Fraction:
    """T of two clients with the first gradient mean[0] + noise and mean[0] - noise; d = 1, exact.

    M = 2 ``copies`` objectives: each of both, mean[0] and mean[1], so many times, which is the
    problem with one copy, beta / copies, and the sums over copies of weights.
    """
    ridge = beta / copies / 2
    weight = []
    for first in (mean[0] + noise, mean[0] - noise):
        second = mean[1]
        free = (second * (second - first) + ridge) / ((first - second) ** 2 + 2 * ridge)
        weight.append(min(max(free, Fraction(0)), Fraction(1)))
    return (noise * (weight[0] - weight[1]) / 2) ** 2
