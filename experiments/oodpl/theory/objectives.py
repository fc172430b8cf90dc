"""OOD-PL, Sections 2 and 3 and Appendix A: what the objectives are, and who minimises them."""

from __future__ import annotations

import numpy as np

from experiments.oodpl.theory.bilevel import Policy, System, log_loss, minimiser, pick_pair
from linsys.linalg import Numbers

__all__ = [
    "accuracy",
    "algorithm_1",
    "algorithm_1_sum",
    "bradley_terry",
    "concave",
    "divergence",
    "eq_3",
    "eq_9",
    "eq_9_value",
    "eq_10",
    "eq_10_excess",
    "eq_10_identity",
    "eq_12",
    "eq_12_corrected",
    "margins",
    "parameters_concave",
    "regularised",
    "unrestricted",
    "unrestricted_optimum",
]

Sides = tuple[Numbers, Numbers]


def divergence(p: Numbers, q: Numbers) -> Numbers:
    """KL(p || q) over the last axis, of positive distributions."""
    return np.asarray((p * (np.log(p) - np.log(q))).sum(axis=-1))


def regularised(system: System, phi: Numbers, pi: Numbers) -> Numbers:
    """(8): E_x [E_pi r_phi - beta KL(pi || mu_hat)] of any policy pi (..., X, Y): shape (...)."""
    gain = (pi * system.reward.values(phi)).sum(axis=-1)
    cost = system.beta[..., None] * divergence(pi, system.mu_hat)
    return np.asarray((system.prompts * (gain - cost)).sum(axis=-1))


def bradley_terry(system: System, theta: Numbers) -> Sides:
    """(6) and (7): l_PL as printed, and -log p_*, of all pairs, shape (..., X, Y, Y)."""
    pi = system.policy.pi(theta)
    both = pi[..., :, None] + pi[..., None, :]
    return system.preference_loss(theta), np.log(both) - np.log(pi)[..., :, None]


def eq_3(system: System, phi: Numbers, other: Numbers) -> Sides:
    """(3) as printed: no other phi gives more than phi does with its policy (9)."""
    best = system.tilted(phi)
    return regularised(system, other, best), regularised(system, phi, best)


def eq_9(system: System, phi: Numbers, theta: Numbers) -> Sides:
    """(8) at any policy, here pi_theta, and at (9)."""
    at = system.policy.pi(theta)
    return regularised(system, phi, at), regularised(system, phi, system.tilted(phi))


def eq_9_value(system: System, phi: Numbers) -> Sides:
    """(8) at (9), and E_x beta log Z(x)."""
    value = (system.prompts * np.log(system.partition(phi))).sum(axis=-1)
    return regularised(system, phi, system.tilted(phi)), np.asarray(system.beta * value)


def concave(system: System, first: Numbers, second: Numbers, share: Numbers) -> Sides:
    """(8) at a mixture of two policies exceeds the mixture of its values by how much.

    At least beta s (1 - s) / 2 E_x ||pi - pi'||_1^2, returned first; the excess is exactly beta
    E_x [s KL(pi || m) + (1 - s) KL(pi' || m)] with m = s pi + (1 - s) pi'.
    """
    one, two = system.policy.pi(first), system.policy.pi(second)
    s = share[..., None, None]
    mixture = s * one + (1 - s) * two
    share = share[..., None]
    excess = share * divergence(one, mixture) + (1 - share) * divergence(two, mixture)
    apart = np.abs(one - two).sum(axis=-1) ** 2
    least = share * (1 - share) / 2 * apart
    mean = [system.beta * (system.prompts * side).sum(axis=-1) for side in (least, excess)]
    return np.asarray(mean[0]), np.asarray(mean[1])


def parameters_concave(system: System, phi: Numbers, first: Numbers, second: Numbers) -> Sides:
    """The mean of (8) at two theta, and (8) at their mean."""
    at = [regularised(system, phi, system.policy.pi(t)) for t in (first, second)]
    middle = regularised(system, phi, system.policy.pi((first + second) / 2))
    return np.asarray((at[0] + at[1]) / 2), middle


def eq_10(system: System, phi: Numbers) -> Sides:
    """The minimisers of E_x KL(pi_* || pi_theta) and of L_FT, shape (..., p)."""
    weights = system.prompts[..., None] * system.tilted(phi)
    return minimiser(system.policy, weights), system.optimum(phi)


def eq_10_identity(system: System, phi: Numbers, theta: Numbers) -> Sides:
    """L_FT, and E_x Z(x) [KL(pi_* || pi_theta) + H(pi_*)], H the entropy."""
    best = system.tilted(phi)
    parts = divergence(best, system.policy.pi(theta)) - (best * np.log(best)).sum(axis=-1)
    mean = (system.prompts * system.partition(phi) * parts).sum(axis=-1)
    return system.loss(phi, theta), np.asarray(mean)


def eq_10_excess(system: System, phi: Numbers) -> Sides:
    """E_x KL(pi_* || pi_theta) at theta_*, and max Z / min Z times its least value; (...)."""
    best, Z = system.tilted(phi), system.partition(phi)
    found = [
        (system.prompts * divergence(best, system.policy.pi(theta))).sum(axis=-1)
        for theta in eq_10(system, phi)
    ]
    return np.asarray(found[1]), np.asarray(Z.max(axis=-1) / Z.min(axis=-1) * found[0])


def unrestricted(system: System) -> System:
    """The same domain with a parameter of its own for every answer but the first of a prompt."""
    log_h = system.policy.log_h
    X, Y = log_h.shape[-2:]
    free = np.eye(X * Y, dtype=int).reshape(X, Y, X, Y)[..., 1:].reshape(X, Y, -1)
    policy = Policy(psi=free + 0 * log_h[..., None], log_h=log_h)
    return System(policy, system.reward, system.prompts, system.mu_hat, system.beta)


def unrestricted_optimum(system: System, phi: Numbers) -> Sides:
    """pi of the minimiser of L_FT over all policies, and (9); shape (..., X, Y)."""
    free = unrestricted(system)
    return free.policy.pi(free.optimum(phi)), system.tilted(phi)


def eq_12(system: System, phi: Numbers, theta: Numbers) -> Sides:
    """The mean slope that Algorithm 1 follows, and that of the inner objective as (12) prints it.

    A sample (x, y) has one answer; for the pair that l_PL needs, both are drawn from mu_hat.
    """
    both = system.mu_hat[..., :, None] * system.mu_hat[..., None, :]
    chance = system.prompts[..., None, None] * both
    slopes = chance[..., None] * system.preference_gradient(theta)
    return system.gradient(phi, theta), np.asarray(slopes.sum(axis=(-4, -3, -2)))


def eq_12_corrected(system: System, phi: Numbers, theta: Numbers) -> Sides:
    """The same mean slope, and E_x Z(x) (E_theta psi - E_* psi), of (12) with l_FT."""
    apart = system.policy.pi(theta) - system.tilted(phi)
    moved = (apart[..., None] * system.policy.psi).sum(axis=-2)
    weights = (system.prompts * system.partition(phi))[..., None]
    return system.gradient(phi, theta), np.asarray((weights * moved).sum(axis=-2))


def algorithm_1(system: System, phi: Numbers, theta: Numbers, z: Numbers, alpha: Numbers) -> Sides:
    """theta after the loop t = 0, ..., D of Algorithm 1, and theta_D; for D + 1 samples."""
    path = system.path(phi, theta, z, alpha)
    return path[-1], path[-2]


def algorithm_1_sum(
    system: System, phi: Numbers, theta: Numbers, z: Numbers, alpha: Numbers
) -> Sides:
    """theta_D after the loop t = 0, ..., D - 1, and theta_0 less alpha times the D slopes."""
    path = system.path(phi, theta, z, alpha)
    steps = [system.step(phi, at, z[..., t], alpha) - at for t, at in enumerate(path[:-1])]
    return path[-1], np.asarray(theta + sum(steps))


def margins(system: System, theta: Numbers, pairs: Numbers, lengths: Numbers) -> Numbers:
    """log pi(y|x) / |y| - log pi(y'|x) / |y'| of N pairs (..., N), |y| = lengths (..., X, Y)."""
    scores = system.policy.log_pi(theta) / lengths
    apart = scores[..., :, None] - scores[..., None, :]
    return pick_pair(apart[..., None, :, :, :], pairs)


def accuracy(u: Numbers, margin: Numbers) -> Sides:
    """1 - A_PL of (26) for the normalised margins u (..., N), and L_PL / log 2 for others."""
    wrong = np.where(u > 0, 0 * u, 1 + 0 * u)
    loss = log_loss(margin) / np.log(2 + 0 * margin)
    return np.asarray(wrong.sum(axis=-1) / u.shape[-1]), np.asarray(loss.sum(axis=-1) / u.shape[-1])
