"""FIRM, Section 3 and Appendix G.1: what the regularised subproblem's solution is and how it moves.

Functions of gradients A (B, d, M), the columns of length at most R, of beta (B,) and of whatever a
statement compares; two clients are ``A`` and ``other``. All return ``(measured, bound)``, B first.

>>> import numpy as np
>>> A, other = np.array([[[1.0, 1.0]]]), np.array([[[1.1, 0.9]]])
>>> measured, bound = lemma1_sharper(A, other, np.array([100.0]), np.array([1.1]))
>>> bool((measured / bound)[0] > 0.9)
True
"""

from __future__ import annotations

import numpy as np

from experiments.firm.theory.program import (
    apply,
    diagonal,
    gram,
    minimiser,
    normalised,
    regularised,
    root,
    spectral,
    squared,
    trace_mean,
    weights,
)
from linsys.linalg import Numbers, lambda_max, lambda_min, norm, operator_norm, transpose

Sides = tuple[Numbers, Numbers]


def gradient_gap(A: Numbers, other: Numbers) -> Numbers:
    """max_j ||g^j - g'^j||, shape (B,)."""
    return np.asarray(norm(transpose(A - other)).max(axis=-1))


# Definition 3.


def def3(A: Numbers, lam: Numbers) -> Sides:
    """||A lambda||^2 >= ||A lambda*||^2 for every lambda of the simplex: the minimum is one."""
    return squared(apply(A, lam)), squared(apply(A, minimiser(gram(A))))


def def3_dual(A: Numbers) -> Sides:
    """min_j <g_j, A lambda*> = ||A lambda*||^2: the direction serves every objective as much."""
    direction = apply(A, minimiser(gram(A)))
    return apply(transpose(A), direction).min(axis=-1), squared(direction)


# Equations (1) to (3), (9) and (54).


def eq1_eq2(A: Numbers, beta: Numbers, lam: Numbers) -> Sides:
    """||sum_j lambda_j g_j||^2 + (beta/2)||lambda||^2 = lambda'(G + (beta/2) I) lambda."""
    combined = (A * lam[:, None]).sum(axis=-1)
    quadratic = (lam * apply(regularised(A, beta), lam)).sum(axis=-1)
    return squared(combined) + beta / 2 * squared(lam), quadratic


def cond(A: Numbers, beta: Numbers) -> Sides:
    """lambda_max(Q) lambda_min(G) <= lambda_min(Q) lambda_max(G) and beta/2 <= lambda_min(Q).

    Q = G + (beta/2) I: the condition number without a division by lambda_min(G), which may be zero.
    """
    G, Q = gram(A), regularised(A, beta)
    measured = lambda_max(Q) * lambda_min(G), beta / 2
    return np.stack(measured, axis=1), np.stack(
        [lambda_min(Q) * lambda_max(G), lambda_min(Q)], axis=1
    )


def remark3(step: Numbers) -> Sides:
    """Gradients (1, 1 + e) and (1 + e, 1), beta = 0: the solutions are (1, 0) and (0, 1)."""
    low, high = 0 * step + 1, 1 + step
    first = np.stack([low, high], axis=-1)[:, None]
    moved = minimiser(gram(first)) - minimiser(gram(first[..., ::-1]))
    return norm(moved), root(2, step)


def direction_gap(A: Numbers, other: Numbers, beta: Numbers) -> Sides:
    """(beta/2)||dlambda||^2 + ||A lambda - A' lambda'||^2 <= gap (||A lambda|| + ||A' lambda'||).

    Also for beta = 0; gap = max_j ||g^j - g'^j||.
    """
    lam, moved = weights(A, beta), weights(other, beta)
    here, there = apply(A, lam), apply(other, moved)
    measured = beta / 2 * squared(lam - moved) + squared(here - there)
    return measured, gradient_gap(A, other) * (norm(here) + norm(there))


def _preferred(A: Numbers, p: Numbers) -> Numbers:
    return minimiser(gram(A) + diagonal(1 / p))


def raised(p: Numbers, factor: Numbers) -> Numbers:
    """The preferences with the first one multiplied by ``factor`` (B,)."""
    first = np.arange(p.shape[-1]) == 0
    return np.where(first, p * factor[:, None], p)


def eq3(A: Numbers, p: Numbers, factor: Numbers) -> Sides:
    """lambda_1 does not fall where p_1 rises (by a factor of one or more)."""
    return _preferred(A, p)[:, 0], _preferred(A, raised(p, factor))[:, 0]


def eq3_steer(A: Numbers, p: Numbers, factor: Numbers) -> Sides:
    """<g_1, A lambda> does not fall where p_1 rises."""
    before, after = _preferred(A, p), _preferred(A, raised(p, factor))
    first = A[:, :, 0]
    return (first * apply(A, after)).sum(axis=-1), (first * apply(A, before)).sum(axis=-1)


def eq3_angle(A: Numbers, p: Numbers, factor: Numbers) -> Sides:
    """cos(g_1, A lambda) does not fall where p_1 rises; both sides times the three lengths."""
    before = apply(A, _preferred(A, p))
    after = apply(A, _preferred(A, raised(p, factor)))
    first = A[:, :, 0]
    return (
        (first * after).sum(axis=-1) * norm(before),
        (first * before).sum(axis=-1) * norm(after),
    )


def eq3_response(A: Numbers, p: Numbers, factor: Numbers) -> Sides:
    """||A dlambda||^2 + sum_{i>1} dlambda_i^2 / p_i <= dlambda_1 (lambda_1/p_1 - lambda_1'/p_1').

    dlambda = lambda' - lambda, where p_1 rises to p_1'.
    """
    after_p = raised(p, factor)
    before, after = _preferred(A, p), _preferred(A, after_p)
    moved = after - before
    measured = squared(apply(A, moved)) + (moved**2 / p)[:, 1:].sum(axis=-1)
    return measured, moved[:, 0] * (before / p - after / after_p)[:, 0]


def eq3_reduction(A: Numbers, beta: Numbers) -> Sides:
    """p = (2/beta) 1 gives the solution of (2), shape (B, M)."""
    p = 2 / beta[:, None] + 0 * A[:, 0]
    return _preferred(A, p), weights(A, beta)


def eq9_trace(A: Numbers, beta: Numbers, factor: Numbers) -> Sides:
    """The mean of diag(Ghat) is one, and a common factor of all gradients changes no weight."""
    mean = squared(transpose(normalised(A))).sum(axis=-1)[:, None] / A.shape[-1]
    scaled = weights(normalised(A * factor[:, None, None]), beta)
    here = weights(normalised(A), beta)
    return np.concatenate([mean, scaled], axis=1), np.concatenate([0 * mean + 1, here], axis=1)


def eq9_each(A: Numbers) -> Sides:
    """Every entry of diag(Ghat) is one, shape (B, M)."""
    entries = squared(transpose(normalised(A)))
    return entries, 0 * entries + 1


def eq9_beta(A: Numbers, beta: Numbers) -> Sides:
    """The solution of (9) is that of (2) with beta (1/M) tr G in the place of beta."""
    return weights(normalised(A), beta), weights(A, beta * trace_mean(A))


# Lemma 1 = Lemma 8.


def weight_gap(A: Numbers, other: Numbers, beta: Numbers) -> Numbers:
    """||lambda* - lambda'*||_2 of two clients, shape (B,)."""
    return norm(weights(A, beta) - weights(other, beta))


def lemma1(A: Numbers, other: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """||lambda* - lambda'*|| <= (4 R M / beta) max_j ||g^j - g'^j||."""
    M = A.shape[-1]
    return weight_gap(A, other, beta), 4 * R * M / beta * gradient_gap(A, other)


def lemma1_sharper(A: Numbers, other: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """The same with 2 R sqrt(M) / beta, the smallest constant of this form for every M > 1."""
    bound = 2 * R * root(A.shape[-1], R) / beta * gradient_gap(A, other)
    return weight_gap(A, other, beta), bound


def lemma1_implemented(A: Numbers, other: Numbers, beta: Numbers, R: Numbers) -> Sides:
    """Lemma 1's bound for the solutions of (9)."""
    bound = lemma1(A, other, beta, R)[1]
    return weight_gap(normalised(A), normalised(other), beta), bound


def lemma1_implemented_corrected(A: Numbers, other: Numbers, beta: Numbers) -> Sides:
    """With rho^2 = (1/M) tr G: 2 M (1 + sqrt M) / (beta max{rho, rho'}) max_j ||g^j - g'^j||."""
    M = A.shape[-1]
    rho = np.sqrt(np.maximum(trace_mean(A), trace_mean(other)))
    bound = 2 * M * (1 + root(M, rho)) / (beta * rho) * gradient_gap(A, other)
    return weight_gap(normalised(A), normalised(other), beta), bound


# The steps of its proof, equations (36) to (46).


def eq36_37(A: Numbers, lam: Numbers) -> Sides:
    """||A lambda||^2 = lambda' G lambda."""
    return squared(apply(A, lam)), (lam * apply(gram(A), lam)).sum(axis=-1)


def growth(A: Numbers, penalty: Numbers, constant: Numbers, lam: Numbers) -> Sides:
    """f(lambda) - f(lambda*) >= c ||lambda - lambda*||^2, f = lambda' G lambda + k ||lambda||^2.

    k is ``penalty`` and c is ``constant``: (38) has beta and beta/2.
    """
    Q = gram(A) + diagonal(penalty[:, None] + 0 * lam)
    best = minimiser(Q)
    moved = lam - best
    rise = (moved * apply(Q, lam + best)).sum(axis=-1)
    return rise, constant * squared(moved)


def eq39_40(A: Numbers, other: Numbers, first: Numbers, second: Numbers) -> Sides:
    """|h(l_1) - h(l_2)| <= 2 ||G - G'||_op ||l_1 - l_2|| for h(l) = l'(G - G') l."""
    gap = gram(A) - gram(other)
    values = [(lam * apply(gap, lam)).sum(axis=-1) for lam in (first, second)]
    return np.abs(values[0] - values[1]), 2 * operator_norm(gap) * norm(first - second)


def eq41_42(A: Numbers, other: Numbers, beta: Numbers, constant: int = 4) -> Sides:
    """||lambda* - lambda'*|| <= (constant / beta) ||G - G'||_op."""
    bound = constant / beta * operator_norm(gram(A) - gram(other))
    return weight_gap(A, other, beta), bound


def eq43(A: Numbers, other: Numbers) -> Sides:
    """||G - G'||_op <= (||A||_op + ||A'||_op) ||A - A'||_op."""
    sizes = spectral(A) + spectral(other)
    return operator_norm(gram(A) - gram(other)), sizes * spectral(A - other)


def eq44_45(A: Numbers, other: Numbers, R: Numbers) -> Sides:
    """||A - A'|| <= sqrt(M) max_j ||g^j - g'^j|| and ||A||, ||A'|| <= sqrt(M) R, shape (B, 3)."""
    size = root(A.shape[-1], R)
    measured = spectral(A - other), spectral(A), spectral(other)
    bound = size * gradient_gap(A, other), size * R, size * R
    return np.stack(measured, axis=1), np.stack(bound, axis=1)


def eq46(A: Numbers, other: Numbers, beta: Numbers, R: Numbers, constant: int = 4) -> Sides:
    """(constant/beta) (sqrt(M) R + sqrt(M) R) sqrt(M) gap, the product of (42) to (45), <= (46)."""
    size, gap = root(A.shape[-1], R), gradient_gap(A, other)
    return constant / beta * (size * R + size * R) * size * gap, lemma1(A, other, beta, R)[1]
