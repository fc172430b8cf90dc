r"""Temporal-difference learning as a linear system (AffPCL, Example 6 and Appendix C.6).

A *stack of chains* is a :class:`FiniteStack` whose states are the transitions s = (o, o') of n
Markov chains that share a feature map phi: mu^i(s) = pi^i(o) P^i(o' | o), pi^i stationary. With
phi = phi(o) and psi = phi(o'), two feature matrices occur, one the transpose of the other:

    A = phi (phi - gamma psi)^T    Appendix C.6, :func:`chains`
    A = (phi - gamma psi) phi^T    Example 6, :func:`embeddings`

phi and psi have the same distribution, and need no other relation. With Sigma = E phi phi^T and
C = E phi psi^T, Cauchy-Schwarz gives |x^T C x| <= x^T Sigma x. Where ||phi|| <= 1 it follows that

    (a) sym(Abar) >= (1 - gamma) Sigma,
    (b) E A^T A <= (1 + gamma) sym(Abar)                    for Appendix C.6,
    (c) E A^T A <= (1 + gamma)^2 / (1 - gamma) sym(Abar)    for Example 6.

(a): x^T Abar x = q - gamma c with q = x^T Sigma x and c = x^T C x <= q. (b): x^T E[A^T A] x is at
most E ((phi - gamma psi)^T x)^2 = (1 + gamma^2) q - 2 gamma c, and (1 + gamma)(q - gamma c) exceeds
that by gamma (1 - gamma)(q + c) >= 0. (c): ||phi - gamma psi|| <= 1 + gamma, and (a).

Wherever E A^T A <= K sym(Abar), Jensen's inequality gives ||Dbar x||^2 <= x^T E[A^T A] x <=
K ||x|| ||Abar x||, so that nu <= sqrt(K / sigma_min(Abar)); and Lemma D.2 holds with K / G_A in
the place of nu, for the same reason (:func:`effective_affinity`).
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.affpcl.theory.stack import FiniteStack, apply, transpose
from linsys.linalg import Numbers, lambda_min, norm, solve


def stationary(P: Numbers) -> Numbers:
    """Stationary distributions of irreducible kernels (..., O, O), shape (..., O).

    >>> stationary(np.array([[0.5, 0.5], [1.0, 0.0]])).round(6).tolist()
    [0.666667, 0.333333]
    """
    size = P.shape[-1]
    ones = np.ones(P.shape[:-1], dtype=int)
    return solve(np.eye(size, dtype=int) - transpose(P) + 1, ones)


def chains(
    *, P: Numbers, phi: Numbers, gamma: Numbers, theta: Numbers | None = None, **extra: Numbers
) -> FiniteStack:
    """TD(0) as a system: A = phi (phi - gamma psi)^T, Phi = phi phi^T (Appendix C.6).

    Args:
        P: irreducible transition kernels P^i(o' | o), shape (B, n, O, O).
        phi: features, shape (B, O, d).
        gamma: discount factors, shape (B,).
        theta: rewards R^i(o, o') = phi(o)^T theta^i, shape (B, n, d); zero by default.
        extra: further arrays, kept as attributes beside ``P``, ``phi``, ``gamma`` and ``pi``.
    """
    n, size = P.shape[1:3]
    pi = stationary(P)
    here, there = np.repeat(phi, size, axis=1), np.tile(phi, (1, size, 1))
    step = here - gamma[:, None, None] * there
    return FiniteStack(
        mu=(pi[..., None] * P).reshape(len(P), n, -1),
        A=here[..., :, None] * step[..., None, :],
        Phi=here[..., :, None] * here[..., None, :],
        theta=np.zeros((len(P), n, phi.shape[-1])) if theta is None else theta,
        P=P,
        phi=phi,
        gamma=gamma,
        pi=pi,
        **extra,
    )


def embeddings(**arrays: Numbers) -> FiniteStack:
    """Markov chains with A = (phi - gamma psi) phi^T (Example 6); arguments as of ``chains``."""
    stack = chains(**arrays)
    stack.A = transpose(stack.A)
    return stack


#: Steps of :func:`slow_returns` in which features shrink, and in which they wait.
_SHRINKING, _WAITING = 128, 64


def slow_returns(gamma: Numbers, width: Numbers) -> FiniteStack:
    """Example 6's matrices on one chain with rare jumps, where G_A is of order 1 - gamma.

    phi = (u, f). The chain waits at u = 0, jumps to u = 1 or u = -1 by a fair coin, and u goes back
    to zero in steps for which ||A(s)|| stays the same; with the next value u' these are u (u -
    gamma u') = G_A. f, small, is exp(-steps to or from the jump / width). So the jump, of which
    G_A sees nothing because it starts from a short phi, happens where f is largest. By the coin,
    Abar e_2 has no first entry. Four agents in this environment have theta = (0, 1), (0, -1) three
    times.

    Args:
        gamma: shape (B,).
        width: shape (B,).
    """
    backwards = [0 * gamma]
    for _ in range(_SHRINKING):
        ahead = gamma * backwards[-1]
        backwards.append((ahead + np.sqrt(ahead**2 + 4)) / 2)
    top = backwards[-1][:, None]
    shrinking = np.stack(backwards[:0:-1], axis=1) / top
    wait, steps = np.arange(_WAITING)[::-1], np.arange(1, _SHRINKING + 1)
    size = 1 / (2 * top**2)
    u = np.sqrt(1 - size**2) * np.concatenate([0 * top * wait, shrinking, -shrinking], axis=1)
    f = size * np.exp(-np.concatenate([wait, steps, steps]) / width[:, None])
    origin, target, weight = _returns()
    mu = weight / (gamma[:, None] * 0 + weight.sum())
    phi = np.stack([u, f], axis=-1)
    here = phi[:, origin]
    step = here - gamma[:, None, None] * phi[:, target]
    theta = np.array([[0, 1], [0, -1], [0, -1], [0, -1]]) + 0 * gamma[:, None, None]
    return FiniteStack(
        mu=np.repeat(mu[:, None], len(theta[0]), axis=1),
        A=step[..., :, None] * here[..., None, :],
        Phi=here[..., :, None] * here[..., None, :],
        theta=theta,
        gamma=gamma,
    )


def _returns() -> tuple[Numbers, Numbers, Numbers]:
    """Transitions of :func:`slow_returns`: from, to, and how often, in whole numbers."""
    jump = _WAITING - 1
    moves = [(k, k + 1, 2) for k in range(jump)]
    for first in (_WAITING, _WAITING + _SHRINKING):
        last = first + _SHRINKING - 1
        moves += [(jump, first, 1), *((k, k + 1, 1) for k in range(first, last)), (last, 0, 1)]
    origin, target, weight = np.array(moves).T
    return origin, target, weight


# The stochastic condition number.


def discount_ratio(stack: FiniteStack) -> Numbers:
    """(1 + gamma) / (1 - gamma), shape (B, 1)."""
    return np.asarray(((1 + stack.gamma) / (1 - stack.gamma))[:, None])


def moment_factor(stack: FiniteStack) -> Numbers:
    """K of (b), E A^T A <= K sym(Abar) for Appendix C.6: 1 + gamma, shape (B, 1)."""
    return (1 + stack.gamma)[:, None]


def moment_factor_embedded(stack: FiniteStack) -> Numbers:
    """K of (c), E A^T A <= K sym(Abar) for Example 6: (1 + gamma)^2 / (1 - gamma), (B, 1)."""
    return (1 + stack.gamma)[:, None] * discount_ratio(stack)


def condition_stated(stack: FiniteStack) -> rc.Sides:
    """nu^i <= (1 + gamma) / (1 - gamma), as Example 6 and Appendix C.6 say; false. (B, n)."""
    return stack.nu_agent, discount_ratio(stack)


def condition(stack: FiniteStack, K: Numbers) -> rc.Sides:
    """nu^i <= sqrt(K / lambda^i) for K from (b) or (c), both (B, n)."""
    return stack.nu_agent, np.sqrt(K / stack.lambda_agent)


# Quadratic forms in a direction x, an array (B, d) of the stack.


def form(matrices: Numbers, x: Numbers) -> Numbers:
    """x^T M^i x for M of shape (B, n, d, d), shape (B, n)."""
    return np.asarray((apply(matrices, x[:, None]) * x[:, None]).sum(axis=-1))


def moment_form(stack: FiniteStack, K: Numbers) -> rc.Sides:
    """(b) or (c): x^T E[A^T A] x <= K x^T Abar^i x, both (B, n)."""
    moment = stack.mean(transpose(stack.A) @ stack.A)
    return form(moment, stack.x), K * form(stack.A_bar, stack.x)


# Constants and the lemma that uses nu.


def discounted_sigma(stack: FiniteStack) -> Numbers:
    """2 max{(1 + gamma) G_x, G_b}, Appendix C.6's bound on sigma, shape (B,)."""
    return np.asarray(2 * np.maximum((1 + stack.gamma) * stack.G_x, stack.G_b))


def effective_affinity(stack: FiniteStack, factor: Numbers, sigma: Numbers) -> rc.Sides:
    """Lemma D.2 with another factor: E ||A (x^i - x^c)||^2 <= 2 sigma^2 min{1, factor delta_cen^i}.

    With Delta = x_*^i - x_*^c and E A^T A <= K sym(Abar^i), the left is at most K ||Delta||
    ||Abar^i Delta|| <= K 2 G_x 2 sigma delta_cen^i (Lemma D.1(i)). With sigma >= 2 G_A G_x the
    factor is K / G_A; in Appendix C.6, K = 1 + gamma, and sigma >= 2 (1 + gamma) G_x makes it one.

    Args:
        stack: chains.
        factor: in the place of nu, shape (B, 1).
        sigma: shape (B,).
    """
    gap = (stack.x_star - stack.x_star_central[:, None])[:, :, None]
    squares = norm(apply(stack.A[:, None], gap)) ** 2
    effective = np.minimum(1, factor * stack.delta_cen)
    return (stack.mu * squares).sum(axis=-1), 2 * sigma[:, None] ** 2 * effective


def features_here(stack: FiniteStack) -> Numbers:
    """phi(o) of every transition, shape (B, S, d)."""
    return np.repeat(stack.phi, stack.phi.shape[1], axis=1)


def constants_of_weights(stack: FiniteStack, share: Numbers) -> rc.Sides:
    """sigma <= 2 max{(1 + gamma) G_x, max |R^i| / sqrt(share)}, both (B,).

    Here sigma has Section 4's G_b = max{max_i ||theta^i||, ||theta_*^c||}. With share = 1, which
    is what Appendix C.6 says, the bound is false. It holds with share = min_i w^i, since
    w^i ||theta^i||^2 <= E (phi^T theta^i)^2 <= max |R^i|^2, and phi^T theta_*^c is the projection
    of the rewards in the norm of mu^0.
    """
    R = stack.theta @ transpose(features_here(stack))
    largest = np.abs(R).max(axis=(1, 2)) / np.sqrt(share)
    return stack.sigma, 2 * np.maximum((1 + stack.gamma) * stack.G_x, largest)


def feature_floor(stack: FiniteStack) -> Numbers:
    """min_i w^i with w^i = lambda_min(Sigma^i), shape (B,)."""
    return np.asarray(lambda_min(stack.Phi_bar).min(axis=1))
