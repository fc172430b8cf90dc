"""FIRM, Appendices D and F.1.1: what makes a stochastic gradient differ from the policy gradient.

Functions of stacks of processes (:class:`experiments.firm.theory.chain.Chains`), r_max (B,),
weights lambda (B, M), critics' weights w (B, M, d2) and the number of transitions in a batch.
Statements return ``(measured, bound)``, B first. Constants serve every policy, C_psi = sqrt(2) c,
kappa = 1 and rho = ``Chains.overlap``, but for lambda_A of Assumption 2(c): it is that of the
policy at hand, the largest that the assumption allows, unless a radius is given.

>>> import numpy as np
>>> xi = np.array([[[[[1.0]], [[-1.0]]]]])  # one client, a coin
>>> measured, bound = eq16(xi, np.array([[[0.5, 0.5]]]), np.ones((1, 1)))
>>> measured.tolist(), bound.tolist()
([1.0], [1.0])
"""

from __future__ import annotations

from itertools import product

import numpy as np

import ratecheck as rc
from experiments.firm.theory.chain import Chains
from linsys.linalg import Numbers, norm, squared


def weighed(directions: Numbers, lam: Numbers) -> Numbers:
    """sum_j lambda^j x^j of rows (B, M, d), shape (B, d)."""
    return np.asarray((lam[..., None] * directions).sum(axis=1))


# The chain: Lemma 2.


def lemma2_uniform(move: Numbers, kappa: Numbers, rho: Numbers, last: int) -> rc.Sides:
    """Lemma 2 with one pair (kappa, rho) for all policies; actions stay or move to the other state.

    Two states; ``move`` (B,) is pi(move|s) in (0, 1). P_pi is irreducible and aperiodic for every
    policy, though no two rows of P(.|s, a) overlap.
    """
    to_other = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]])
    zero = 0 * move[:, None, None]
    chains = Chains(
        P=to_other + zero[..., None],
        r=zero[..., None] + np.zeros((1, 2, 2, 1), dtype=int),
        gamma=0 * move,
        theta=zero + np.log(np.stack([1 - move, move], axis=-1))[:, None],
        phi=zero + np.eye(2, dtype=int),
        start=zero[:, 0] + np.zeros((1, 2), dtype=int),
    )
    return chains.distances(last), kappa[:, None] * rho[:, None] ** np.arange(last + 1)


# The gradients' mean: (10) and Lemma 4.


def eq10(chains: Chains, w: Numbers, lam: Numbers, law: Numbers, longest: int = 4) -> rc.Sides:
    """E g = Delta(theta, w) lambda for batches of 1 .. longest transitions, s_0 ~ law.

    Both sides are vectors, (B, longest, d).
    """
    values = chains.values(w)
    samples = chains.samples(values, lam)
    laws = [chains.batch_law(law, size) for size in range(1, longest + 1)]
    means = np.stack([chains.mean(samples, states) for states in laws], axis=1)
    return means, means * 0 + weighed(chains.direction(values), lam)[:, None]


def gradient_bound(chains: Chains, r_max: Numbers, radius: Numbers) -> Numbers:
    """C_psi (r_max + (1 + gamma) radius), the R of Lemma 7 for critics no longer than radius."""
    return np.asarray(chains.C_psi * (r_max + (1 + chains.gamma) * radius))


def eq10_corrected(
    chains: Chains, r_max: Numbers, w: Numbers, lam: Numbers, law: Numbers, longest: int = 4
) -> rc.Sides:
    """||E g - Delta lambda|| <= 2 R (1 - rho^B) / (B (1 - rho)), wherever the chain begins."""
    mean, target = eq10(chains, w, lam, law, longest)
    sizes, rho = np.arange(1, longest + 1), chains.overlap[:, None]
    R = gradient_bound(chains, r_max, chains.R_w(r_max))[:, None]
    return norm(mean - target), 2 * R * (1 - rho**sizes) / (sizes * (1 - rho))


def lemma4(chains: Chains, lam: Numbers, law: Numbers) -> rc.Sides:
    """3||(Delta(w_*) - grad J) lambda||^2 <= 12 zeta, with s ~ law in Delta and zeta = max_j."""
    gap = chains.direction(chains.values(chains.w_star), law) - chains.jac
    return 3 * squared(weighed(gap, lam)), 12 * zeta(chains, law)


def zeta(chains: Chains, law: Numbers) -> Numbers:
    """max_j E(V^j - phi'w_*^j)^2 for s ~ law, shape (B,)."""
    error = chains.V - chains.values(chains.w_star)
    return np.asarray((law[..., None] * error**2).sum(axis=1).max(axis=-1))


# The gradients' error and spread: Lemmas 5 to 7.


def _critic_error(chains: Chains, w: Numbers, lam: Numbers, longest: int) -> rc.Sides:
    """3 E||(g(w) - g(w_*)) lambda||^2 for batches of 1 .. longest, and max_j ||w^j - w_*^j||^2."""
    gap = chains.samples(chains.values(w), lam) - chains.samples(chains.values(chains.w_star), lam)
    mean = squared(chains.mean(gap))[:, None]
    distance = squared(w - chains.w_star).max(axis=-1)
    return 3 * (chains.second_moments(gap, longest) + mean), distance[:, None]


def lemma5(chains: Chains, w: Numbers, lam: Numbers, longest: int = 4) -> rc.Sides:
    """3 E||(g(w) - g(w_*)) lambda||^2 <= 12 max_j ||w^j - w_*^j||^2."""
    measured, distance = _critic_error(chains, w, lam, longest)
    return measured, 12 * distance


def lemma5_corrected(chains: Chains, w: Numbers, lam: Numbers, longest: int = 4) -> rc.Sides:
    """Lemma 5 with the factor 3 C_psi^2 (1 + gamma)^2 in the place of 12."""
    measured, distance = _critic_error(chains, w, lam, longest)
    return measured, (3 * chains.C_psi**2 * (1 + chains.gamma) ** 2)[:, None] * distance


def spread(chains: Chains, lam: Numbers, longest: int, law: Numbers | None = None) -> Numbers:
    """E||(g(w_*) - Delta(w_*)) lambda||^2 of batches of 1 .. longest, s_0 ~ law, (B, n)."""
    samples = chains.samples(chains.values(chains.w_star), lam)
    return chains.second_moments(samples, longest, law)


def mixing_factor(chains: Chains, first: int = 1) -> Numbers:
    """first + 4 kappa rho / (1 - rho), with kappa = 1; shape (B,)."""
    return np.asarray(first + 4 * chains.overlap / (1 - chains.overlap))


def lemma6_client(
    chains: Chains, r_max: Numbers, radius: Numbers, lam: Numbers, longest: int
) -> rc.Sides:
    """Lemma 6, one client: <= 4 (r_max + 2 radius)^2 (1 - rho + 4 kappa rho) / ((1 - rho) B)."""
    scale = 4 * (r_max + 2 * radius) ** 2 * mixing_factor(chains)
    return spread(chains, lam, longest), scale[:, None] / np.arange(1, longest + 1)


def lemma6_anywhere(
    chains: Chains, r_max: Numbers, lam: Numbers, law: Numbers, longest: int = 8
) -> rc.Sides:
    """One client, a chain that begins under ``law``: <= 4 R^2 (1 + 2 kappa / (1 - rho)) / B."""
    R = gradient_bound(chains, r_max, chains.R_w(r_max))
    scale = 4 * R**2 * (1 + 2 / (1 - chains.overlap))
    return spread(chains, lam, longest, law), scale[:, None] / np.arange(1, longest + 1)


def lemma7(chains: Chains, r_max: Numbers, w: Numbers) -> rc.Sides:
    """Lemma 7: every sample, and so every batch, has ||g^j|| <= R for critics in H."""
    longest = np.abs(chains.errors(chains.values(w))) * norm(chains.psi)[:, :, :, None, None]
    return longest, gradient_bound(chains, r_max, chains.R_w(r_max))[:, None, None, None, None]


# Clients: (16).


def outcomes(xi: Numbers, p: Numbers) -> rc.Sides:
    """Joint outcomes of C independent clients with noise xi (B, C, K, M, d) of laws p (B, C, K).

    The noise is made to have mean zero. Returns it, (B, N, C, M, d) with N = K^C, and probabilities
    (B, N).
    """
    clients, count = p.shape[1:]
    which = np.array(list(product(range(count), repeat=clients)))
    each = np.arange(clients)
    noise = xi - (p[..., None, None] * xi).sum(axis=2, keepdims=True)
    probabilities = p[:, 0, which[:, 0]]
    for c in each[1:]:
        probabilities = probabilities * p[:, c, which[:, c]]
    return noise[:, each, which], probabilities


def moments(noise: Numbers, probabilities: Numbers, lam: Numbers) -> rc.Sides:
    """E||(1/C) sum_c Z_c||^2, (1/C^2) sum_c E||Z_c||^2; Z_c is noise weighed by lam (B, N, M)."""
    Z = (lam[:, :, None, :, None] * noise).sum(axis=3)
    clients = Z.shape[2]
    together = (probabilities * squared(Z.sum(axis=2))).sum(axis=1)
    apart = (probabilities * squared(Z).sum(axis=2)).sum(axis=1)
    return together / clients**2, apart / clients**2


def eq16(xi: Numbers, p: Numbers, lam: Numbers) -> rc.Sides:
    """(16): E||(1/C) sum_c Z_c||^2 = (1/C^2) sum_c E||Z_c||^2, lambda_t fixed beforehand."""
    noise, probabilities = outcomes(xi, p)
    return moments(noise, probabilities, lam[:, None] + 0 * probabilities[..., None])
