"""OOD-PL, Theorem 1: the outer objective's curvature, the parts of the bound, and what is in it.

The outer objective is L(phi), the mean over domains of the preference loss at theta_*(phi). Along a
unit vector u, with theta' = u'(d theta_*/d phi) and theta'' the second derivative of theta_*,

    d^2 L / du^2 = <grad L_PL, theta''> + <theta', grad^2 L_PL theta'>.

Weights of pairs have the shape (B, X, Y, Y) and sum to one.
"""

from __future__ import annotations

import numpy as np

from experiments.oodpl.theory.bilevel import Reward, TanhReward, logistic, minimiser
from experiments.oodpl.theory.contraction import conditions
from experiments.oodpl.theory.inner import Inner
from linsys.linalg import Numbers, norm, solve, transpose

__all__ = [
    "curvature",
    "curvature_limit",
    "flat_objective",
    "gain",
    "larger_beta",
    "noise_alone",
    "smoothness",
    "smoothness_printed",
    "step_size",
    "tau",
    "theorem_1",
    "two_answers",
]

Sides = tuple[Numbers, Numbers]


def _bend(reward: Reward, phi: Numbers, u: Numbers) -> Numbers:
    """u' (grad^2 r) u, shape (B, X, Y)."""
    if not isinstance(reward, TanhReward):
        return np.asarray(0 * reward.r0)
    value = reward.values(phi) - reward.r0
    return np.asarray(-2 * value * (1 - value**2) * reward.linear(u) ** 2)


def _second_derivative(run: Inner, u: Numbers, first: Numbers) -> Numbers:
    """theta'' along u (B, q), given theta' (B, p): shape (B, p)."""
    system, phi, star = run.system, run.phi, run.theta_star
    beta = system.beta[:, None, None]
    weights = system.chance * system.tilt(phi)
    weights = weights / weights.sum(axis=(1, 2), keepdims=True)
    along = (system.reward.gradient(phi) * u[:, None, None]).sum(axis=-1)
    a = (along - (weights * along).sum(axis=(1, 2), keepdims=True)) / beta
    g, covariance = system.policy.gradient(star), -system.policy.hessian(star)
    twice = a**2 + _bend(system.reward, phi, u) / beta
    source = -((weights * twice)[..., None] * g).sum(axis=(1, 2))
    prompts, mixed = weights.sum(axis=2), (weights * a).sum(axis=2)
    turned = (mixed[..., None, None] * covariance).sum(axis=1) @ first[..., None]
    inward = (g * first[:, None, None]).sum(axis=-1)
    third = (system.policy.pi(star)[..., None] * inward[..., None] ** 2 * g).sum(axis=2)
    total = source + 2 * turned[..., 0] + (prompts[..., None] * third).sum(axis=1)
    return -solve((prompts[..., None, None] * covariance).sum(axis=1), total)


def curvature(run: Inner, pairs: Numbers, u: Numbers) -> Numbers:
    """d^2 L / du^2 of one domain along unit vectors u (B, q), shape (B,)."""
    first = (transpose(run.jacobian_star) @ u[..., None])[..., 0]
    slope = run.system.preference_gradient(run.theta_star)
    slope = (pairs[..., None] * slope).sum(axis=(1, 2, 3))
    hessian = run.system.preference_hessian(run.theta_star)
    hessian = (pairs[..., None, None] * hessian).sum(axis=(1, 2, 3))
    second = _second_derivative(run, u, first)
    inner = (slope * second).sum(axis=-1)
    return np.asarray(inner + (first * (hessian @ first[..., None])[..., 0]).sum(axis=-1))


def curvature_limit(run: Inner) -> Numbers:
    """P_L, a Lipschitz constant of grad L by phi, from the constants of Assumptions 1 and 2, (B,).

    (2 M^2/(beta mu)) (P + (T^2/beta)(L/mu + M rho/mu^2)) + (2 L + M^2)(M T/(beta mu))^2.
    """
    at, r, beta = run.policy, run.reward, run.system.beta
    inner = r.P + r.T**2 / beta * (at.L / at.mu + at.M * at.rho / at.mu**2)
    outer = (2 * at.L + at.M**2) * run.jacobian_bound**2
    return np.asarray(2 * at.M**2 / (beta * at.mu) * inner + outer)


def smoothness_printed(run: Inner, pairs: Numbers, u: Numbers) -> Sides:
    """D.2's first step for small steps: d^2 L / du^2 <= P, the Lipschitz constant of grad r."""
    return curvature(run, pairs, u), run.reward.P


def smoothness(run: Inner, pairs: Numbers, u: Numbers) -> Sides:
    """|d^2 L / du^2| <= P_L."""
    return np.abs(curvature(run, pairs, u)), curvature_limit(run)


# Theorem 1 as printed.


def theorem_1(run: Inner, pairs: Numbers, P: Numbers, kappa: Numbers) -> Sides:
    """(25) with D.2's constants for K = 1, one domain and one pair: sigma_3 = 0.

    ``run`` has the constants of a ball that the inner steps cannot leave; L is at least 0. Neither
    side depends on D.
    """
    at, scale = run.policy, (run.reward.T / run.system.beta) ** 2
    gradient, mixed, hessian = run.largest_variances
    V = run.alpha**2 * (gradient * scale + 6 * mixed) + 6 * (at.M / at.L) ** 2 * scale * hessian
    gap = (pairs * run.system.preference_loss(run.theta_star)).sum(axis=(1, 2, 3))
    bound = 16 * P * gap + 24 * at.M**2 * (scale + V / kappa)
    return norm(run.hypergradient_star(pairs)) ** 2, np.asarray(bound)


def noise_alone(run: Inner, pairs: Numbers) -> Sides:
    """||grad L||^2 against a quarter of Theorem 1's term (24 M^2/kappa) alpha^2 sigma^2 T^2/beta^2.

    With b^(1/beta) in q, kappa = 1 - q, the largest there is, and sigma^2 at theta_*.
    """
    at = conditions(run, run.true)
    sigma = norm(run.system.each_gradient(run.phi, run.theta_star)) ** 2
    scale = (run.alpha * run.policy.M * run.reward.T / run.system.beta) ** 2
    noise = 6 * scale * run.system.mean(sigma) / (1 - at.q)
    return norm(run.hypergradient_star(pairs)) ** 2, np.asarray(noise)


def tau(sigma_3: Numbers, rest: Numbers) -> Sides:
    """tau as printed, 3 sigma_3^3 + rest, and as D.2 has it, 3 sigma_3^2 + rest."""
    return 3 * sigma_3**3 + rest, 3 * sigma_3**2 + rest


def step_size(beta: Numbers, more: Numbers, kappa: Numbers) -> Sides:
    """How much larger alpha is at beta + more than at beta, at the least, and e^more times 0.42.

    alpha b mu is at least (1 - sqrt((1 - kappa)/3)) e^beta by Theorem 1's second condition, and at
    most e^beta by Lemma 5's step size.
    """
    least = (1 - np.sqrt((1 - kappa) / 3)) * np.exp(beta + more)
    return np.asarray(least / np.exp(beta)), np.asarray(42 * np.exp(more) / 100)


# Remark 1.


def two_answers(margin: Numbers, gap: Numbers, slope: Numbers, beta: Numbers) -> Numbers:
    """||grad L||^2 for one prompt, two answers and a policy that reaches (9).

    Args:
        margin: log mu_hat(y|x) - log mu_hat(y'|x) of the preferred answer y.
        gap: r(x, y) - r(x, y').
        slope: the length of its gradient by phi.
        beta: the controlling factor.
    """
    return np.asarray((slope / beta * logistic(-(margin + gap / beta))) ** 2)


def larger_beta(
    margin: Numbers, gap: Numbers, slope: Numbers, beta: Numbers, more: Numbers
) -> Sides:
    """||grad L||^2 at beta (1 + more) and at beta, without training."""
    after = two_answers(margin, gap, slope, beta * (1 + more))
    return after, two_answers(margin, gap, slope, beta)


def flat_objective(run: Inner, pairs: Numbers) -> Sides:
    """||grad L(phi)||^2 <= 4 M^4 T^2 / (beta^2 mu^2) at every phi, trained or not."""
    return norm(run.hypergradient_star(pairs)) ** 2, (2 * run.policy.M * run.jacobian_bound) ** 2


def gain(run: Inner, pairs: Numbers) -> Sides:
    """|L(phi) - L at supervised fine-tuning| <= M^2 log(B/b) / (beta mu).

    ``run.radius`` is to cover the path from one minimiser to the other.
    """
    system, at = run.system, run.policy
    tuned = minimiser(system.policy, system.chance)
    losses = [
        (pairs * system.preference_loss(theta)).sum(axis=(1, 2, 3))
        for theta in (run.theta_star, tuned)
    ]
    spread = np.log(run.reward.B) - np.log(run.reward.b)
    return np.abs(losses[0] - losses[1]), np.asarray(at.M**2 * spread / (system.beta * at.mu))
