"""OOD-PL, Lemmas 3 to 5: how the inner loop's iterate and its Jacobian approach their limits.

With A_z(theta) = grad_phi grad_theta l_FT + (d theta_* / d phi) grad_theta^2 l_FT, whose mean is 0
at theta_*, the Jacobian's error obeys

    e_{t+1} = e_t (I - alpha grad_theta^2 l_FT) - alpha A_z(theta_t).

Printed lemmas get bounds of Assumption 4's variances on the whole ball, the corrected ones the
largest variances at the points of the runs. All sides are for t = 1, ..., D.
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.oodpl.theory.conditions import Conditions
from experiments.oodpl.theory.inner import Inner
from experiments.oodpl.theory.smoothness import Range
from linsys.linalg import Numbers

__all__ = [
    "conditions",
    "lemma_3",
    "lemma_3_bound",
    "lemma_4",
    "lemma_4_step_i",
    "lemma_5_squared",
    "lemma_5_variance",
]


def conditions(run: Inner, bounds: Range) -> Conditions:
    """The three numbers of the conditions on alpha and beta, with these bounds of exp(r/beta)."""
    strong, smooth = run.strong_and_smooth(bounds)
    at = run.policy
    return Conditions(
        c=run.alpha * strong, spread=smooth / strong, bend=(at.M * at.rho) ** 2 / at.L**4
    )


def _powers(q: Numbers, D: int) -> tuple[Numbers, Numbers]:
    """q^t and the sum of the powers below t, for t = 1, ..., D: each (B, D)."""
    powers = [1 + 0 * q]
    for _ in range(D):
        powers.append(powers[-1] * q)
    stack = np.stack(powers, axis=-1)
    return stack[..., 1:], np.cumsum(stack[..., :-1], axis=-1)


# Lemma 5.


def progress(run: Inner, bounds: Range) -> Numbers:
    """1 - 2 alpha b mu B L / (b mu + B L) with these bounds, (B, 1)."""
    strong, smooth = run.strong_and_smooth(bounds)
    return np.asarray(1 - 2 * run.alpha * strong * smooth / (strong + smooth))[:, None]


def spread_of(run: Inner, variance: Numbers) -> Numbers:
    """alpha^2 sigma^2, (B, 1)."""
    return np.asarray(run.alpha**2 * variance)[:, None]


def lemma_5_squared(run: Inner) -> rc.Sides:
    """(40) with the square that is missing on its right, and B / e^beta."""
    after = progress(run, run.printed) * run.errors[1][:, :-1]
    return run.errors[1][:, 1:], after + spread_of(run, run.largest_variances[0])


def lemma_5_variance(run: Inner) -> rc.Sides:
    """(40) with the square and B^(1/beta), the variance being at most sigma as (21) has it."""
    after = progress(run, run.true) * run.errors[1][:, :-1]
    return run.errors[1][:, 1:], after + spread_of(run, run.largest_variances[0] ** 2)


# Lemma 4.


def _printed_terms(run: Inner, bounds: Range) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """q, T^2/beta^2, and V in two parts: of sigma^2, and of sigma_1^2 and sigma_2^2; each (B,)."""
    at, scale = run.policy, (run.reward.T / run.system.beta) ** 2
    gradient, mixed, hessian = run.largest_variances
    jacobian = 6 * run.alpha**2 * mixed + 6 * (at.M / at.L) ** 2 * scale * hessian
    return conditions(run, bounds).q, scale, run.alpha**2 * gradient * scale, jacobian


def lemma_4_step_i(run: Inner) -> rc.Sides:
    """Lemma 4, step (i): 3 (1 - c)^2 E||e_t||^2 + 6 alpha^2 B^2 T^2 A / ... + variances."""
    q, scale, _, noise = _printed_terms(run, run.printed)
    at, (_, high) = run.policy, run.printed
    A = at.L**2 + (at.M * at.rho / at.L) ** 2
    jacobian, iterate = (error[:, :-1] for error in run.errors)
    drift = 6 * (run.alpha * high) ** 2 * scale * A
    return run.errors[0][:, 1:], q[:, None] * jacobian + drift[:, None] * iterate + noise[:, None]


def _lemma_4_bound(run: Inner, bounds: Range) -> Numbers:
    q, scale, gradient, jacobian = _printed_terms(run, bounds)
    at = run.policy
    start = scale * ((at.M / at.L) ** 2 + run.errors[1][:, 0])
    powers, total = _powers(q, run.D)
    return np.asarray(powers * start[:, None] + (gradient + jacobian)[:, None] * total)


def lemma_4(run: Inner, bounds: Range) -> rc.Sides:
    """(36), as printed with ``run.printed``, and with ``run.true`` bounds of exp(r/beta)."""
    scale = (run.reward.T / run.system.beta) ** 2
    jacobian, iterate = (error[:, 1:] for error in run.errors)
    return jacobian + scale[:, None] * iterate, _lemma_4_bound(run, bounds)


def weight_of(run: Inner) -> Numbers:
    """The least weight of E||d_t||^2 that makes the sum of errors contract, (B,)."""
    gamma = run.gamma
    return np.asarray(2 * (run.alpha * run.drift / (1 - gamma)) ** 2 / (1 + 2 * gamma))


def contracted(run: Inner, weight: Numbers, t: Numbers) -> Numbers:
    """Q^t (||d theta_* / d phi||^2 + weight ||d_0||^2) + V sum of Q^j, Q = (1 + gamma) / 2.

    ``t`` are numbers of steps, shape (B, n) or (n,).
    """
    gamma, alpha, noise = run.gamma, run.alpha, run.noise
    gradient, _, hessian = run.variances
    V = (alpha * noise) ** 2 * (1 + 2 * alpha**2 * hessian / (1 - gamma))
    V = V + weight * alpha**2 * gradient
    start = run.jacobian_bound**2 + weight * run.errors[1][:, 0]
    Q = ((1 + gamma) / 2)[:, None]
    powers = np.exp(t * np.log(Q))
    return np.asarray(powers * start[:, None] + V[:, None] * (1 - powers) / (1 - Q))


# Lemma 3.


def lemma_3(run: Inner, pairs: Numbers, bounds: Range) -> rc.Sides:
    """(34), 8 M^2 times the bound of (36), with bounds as in :func:`lemma_4`."""
    bound = 8 * run.policy.M[:, None] ** 2 * _lemma_4_bound(run, bounds)
    return run.hypergradient_errors(pairs)[:, 1:], bound


def lemma_3_bound(run: Inner, t: Numbers) -> Numbers:
    """8 M^2 times the bound of Lemma 4 corrected after t steps, shapes as t's.

    Its weight is at least (T / (beta mu))^2 (2 L + M^2)^2 / 4, as grad_theta L_PL is
    (2 L + M^2)-Lipschitz.
    """
    at = run.policy
    slope = run.reward.T / (run.system.beta * at.mu) * (2 * at.L + at.M**2) / 2
    weight = np.maximum(weight_of(run), slope**2)
    return np.asarray(8 * at.M[:, None] ** 2 * contracted(run, weight, t))
