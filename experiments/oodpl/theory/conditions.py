"""OOD-PL, Lemmas 4 and 5 and Theorem 1: what their conditions on alpha, beta and D allow together.

Every condition is one on three numbers, whichever bounds of exp(r/beta) are put in for low and
high, the printed b / e^beta and B / e^beta or the true b^(1/beta) and B^(1/beta):

    c = alpha low mu,    spread = high L / (low mu) >= 1,    a = spread^2 (1 + M^2 rho^2 / L^4).

Then q = 3 (1 - c)^2, s = spread / (1 + spread); Lemma 5 asks for c <= 2 / (1 + spread), step (ii)
of Lemma 4 for 6 a c^2 + 1 - 2 c s <= q, and Theorem 1 for q <= 1 - kappa.

>>> import numpy as np
>>> at = Conditions(c=np.array([1 / 3]), spread=np.ones(1), bend=np.zeros(1))
>>> print(at.q, at.coefficient)  # the best case of step (ii)
[1.33333333] [1.33333333]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from experiments.oodpl.theory.bilevel import logistic
from linsys.linalg import Numbers

__all__ = [
    "Conditions",
    "d_condition",
    "d_condition_corrected",
    "spread_limit",
    "step_ii",
    "step_ii_entails",
    "step_ii_limit",
    "telescoping",
    "two_answers",
    "young",
]

Sides = tuple[Numbers, Numbers]


@dataclass(frozen=True, eq=False)
class Conditions:
    """The three numbers; every attribute (B,).

    Args:
        c: alpha low mu.
        spread: high L / (low mu), at least one.
        bend: M^2 rho^2 / L^4.
    """

    c: Numbers
    spread: Numbers
    bend: Numbers

    @property
    def a(self) -> Numbers:
        """high^2 (L^2 + M^2 rho^2 / L^2) / (low mu)^2."""
        return np.asarray(self.spread**2 * (1 + self.bend))

    @property
    def s(self) -> Numbers:
        """B L / (b mu + B L)."""
        return np.asarray(self.spread / (1 + self.spread))

    @property
    def q(self) -> Numbers:
        """3 (1 - c)^2, the factor of Lemma 4."""
        return np.asarray(3 * (1 - self.c) ** 2)

    @property
    def coefficient(self) -> Numbers:
        """6 a c^2 + 1 - 2 c s, what step (ii) asks to be at most q."""
        return np.asarray(6 * self.a * self.c**2 + 1 - 2 * self.c * self.s)

    @property
    def stable(self) -> Numbers:
        """Lemma 5's condition on alpha, c <= 2 / (1 + spread)."""
        return np.asarray(self.c * (1 + self.spread) <= 2)

    @property
    def step_ii(self) -> Numbers:
        """Whether step (ii) of Lemma 4 holds."""
        return np.asarray(self.coefficient <= self.q)

    @property
    def printed_lemma_4(self) -> Numbers:
        """beta <= log(alpha B^2 A / (2 b mu)) of Lemma 4's proof, which is a c >= 2."""
        return np.asarray(self.a * self.c >= 2)

    @property
    def printed_theorem_1(self) -> Numbers:
        """Theorem 1's first condition on beta, which is 3 a c >= 2 (3 - s)."""
        return np.asarray(3 * self.a * self.c >= 2 * (3 - self.s))

    def contracts(self, kappa: Numbers) -> Numbers:
        """Whether q <= 1 - kappa, what Theorem 1's second condition on beta is for."""
        return np.asarray(self.q <= 1 - kappa)

    @property
    def largest(self) -> Numbers:
        """The largest c of step (ii), the positive root of (6 a - 3) c^2 + (6 - 2 s) c = 2."""
        square, half = 6 * self.a - 3, 3 - self.s
        return np.asarray(2 / (half + np.sqrt(half**2 + 2 * square)))


def step_ii(at: Conditions) -> Sides:
    """Lemma 4, step (ii): 6 alpha^2 B^2 A / e^(2 beta) + 1 - 2 alpha b mu s / e^beta <= q."""
    return at.coefficient, at.q


def step_ii_limit(at: Conditions) -> Sides:
    """The two sides of step (ii) at the largest c that it allows."""
    return step_ii(replace(at, c=at.largest))


def step_ii_entails(at: Conditions) -> Sides:
    """Where step (ii) holds, q is at least 4/3."""
    return at.q, np.asarray(4 / (3 + 0 * at.c))


def young(at: Conditions, epsilon: Numbers) -> Sides:
    """The larger of Lemma 4's two factors with Young's parameter epsilon for the printed 3, and 1.

    ||x + y||^2 <= (1 + epsilon) ||x||^2 + (1 + 1/epsilon) ||y||^2 makes (1 + epsilon) (1 - c)^2 the
    factor of the Jacobian's error, and 2 (1 + 1/epsilon) a c^2 + 1 - 2 c s that of the iterate's.
    """
    jacobian = (1 + epsilon) * (1 - at.c) ** 2
    iterate = 2 * (1 + 1 / epsilon) * at.a * at.c**2 + 1 - 2 * at.c * at.s
    return np.asarray(np.maximum(jacobian, iterate)), 1 + 0 * at.c


def spread_limit(at: Conditions, kappa: Numbers) -> Sides:
    """B L / (b mu), and the limit that Lemma 5 and q <= 1 - kappa leave it."""
    return at.spread, np.asarray(2 / (1 - np.sqrt((1 - kappa) / 3)) - 1)


def two_answers(logit: Numbers, u: Numbers, heavier: Numbers) -> Sides:
    """c of a policy of two answers, with mu on all iterates of two steps from ``logit``; 0.305.

    Args:
        logit: log-odds of the answers at theta_0, shape (B,).
        u: alpha b^(1/beta) (psi - psi')^2, shape (B,).
        heavier: e^(r/beta) / b^(1/beta) of both answers, at least one, shape (B, 2).
    """
    reached = [logit]
    for point in (logit, *_both(logit, u, heavier)):
        reached.extend(_both(point, u, heavier))
    curvature = np.stack([logistic(x) * logistic(-x) for x in reached]).min(axis=0)
    return np.asarray(u * curvature), 305 / (1000 + 0 * u)


def _both(logit: Numbers, u: Numbers, heavier: Numbers) -> tuple[Numbers, Numbers]:
    """The log-odds after a step on one answer, and on the other."""
    up, down = heavier[..., 0], heavier[..., 1]
    return logit + u * up * logistic(-logit), logit - u * down * logistic(logit)


def _steps_needed(q: Numbers, start: Numbers) -> Numbers:
    """-log(start) / log(q)."""
    return np.asarray(-np.log(start) / np.log(q))


def d_condition(q: Numbers, start: Numbers, more: Numbers) -> Sides:
    """q^D start <= 1 for D >= -log(start) / log(q), D = that or 1, and ``more``."""
    D = np.maximum(_steps_needed(q, start), 1 + 0 * q) + more
    return np.asarray(np.exp(D * np.log(q)) * start), 1 + 0 * q


def d_condition_corrected(q: Numbers, start: Numbers, more: Numbers, target: Numbers) -> Sides:
    """q^D start <= target for q < 1 and D >= log(start / target) / log(1 / q)."""
    D = np.maximum(_steps_needed(q, start / target), 0 * q) + more
    return np.asarray(np.exp(D * np.log(q)) * start), target


def telescoping(P: Numbers) -> Sides:
    """D.2 with eta = 1/(4P): the factors of the gap, of sigma_3^2, and of the two further terms.

    The left side solves (eta/2 - eta^2 P) S = gap / K + (eta/2 + eta^2 P) N for S.
    """
    eta = 1 / (4 * P)
    descent, noise = eta / 2 - eta**2 * P, eta / 2 + eta**2 * P
    factors = [1 / descent, noise / descent, 8 * noise / descent, 48 * noise / descent]
    one = 1 + 0 * P
    return np.stack(factors, axis=-1), np.stack([16 * P, 3 * one, 24 * one, 144 * one], axis=-1)
