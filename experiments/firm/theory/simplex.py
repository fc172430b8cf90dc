"""FIRM, Section 3 and Appendix G.1: what the regularised subproblem's solution is and how it moves.

Functions of gradients A (B, d, M), the columns of length at most R, of beta (B,) and of whatever a
statement compares; two clients are ``A`` and ``other``. Statements return ``(measured, bound)``, B
first.

>>> import numpy as np
>>> A, other = np.array([[[1.0, 1.0]]]), np.array([[[1.1, 0.9]]])
>>> print(gradient_gap(A, other).round(6), weight_gap(A, other, np.array([100.0])).round(6))
[0.1] [0.002827]
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.firm.theory.program import diagonal, gram, minimiser, weights
from linsys.linalg import Numbers, apply, norm, squared, transpose


def gradient_gap(A: Numbers, other: Numbers) -> Numbers:
    """max_j ||g^j - g'^j||, shape (B,)."""
    return np.asarray(norm(transpose(A - other)).max(axis=-1))


# Equations (1) to (3), (9) and (54).


def direction_gap(A: Numbers, other: Numbers, beta: Numbers) -> rc.Sides:
    """(beta/2)||dlambda||^2 + ||A lambda - A' lambda'||^2 <= gap (||A lambda|| + ||A' lambda'||).

    Also for beta = 0; gap = max_j ||g^j - g'^j||.
    """
    lam, moved = weights(A, beta), weights(other, beta)
    here, there = apply(A, lam), apply(other, moved)
    measured = beta / 2 * squared(lam - moved) + squared(here - there)
    return measured, gradient_gap(A, other) * (norm(here) + norm(there))


def preferred(A: Numbers, p: Numbers) -> Numbers:
    return minimiser(gram(A) + diagonal(1 / p))


def raised(p: Numbers, factor: Numbers) -> Numbers:
    """The preferences with the first one multiplied by ``factor`` (B,)."""
    first = np.arange(p.shape[-1]) == 0
    return np.where(first, p * factor[:, None], p)


# Lemma 1 = Lemma 8.


def weight_gap(A: Numbers, other: Numbers, beta: Numbers) -> Numbers:
    """||lambda* - lambda'*||_2 of two clients, shape (B,)."""
    return norm(weights(A, beta) - weights(other, beta))


# The steps of its proof, equations (36) to (46).


def growth(A: Numbers, penalty: Numbers, constant: Numbers, lam: Numbers) -> rc.Sides:
    """f(lambda) - f(lambda*) >= c ||lambda - lambda*||^2, f = lambda' G lambda + k ||lambda||^2.

    k is ``penalty`` and c is ``constant``: (38) has beta and beta/2.
    """
    Q = gram(A) + diagonal(penalty[:, None] + 0 * lam)
    best = minimiser(Q)
    moved = lam - best
    rise = (moved * apply(Q, lam + best)).sum(axis=-1)
    return rise, constant * squared(moved)
