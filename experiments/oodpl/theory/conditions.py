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

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from linsys.linalg import Numbers

__all__ = [
    "Conditions",
    "step_ii",
]


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


def step_ii(at: Conditions) -> rc.Sides:
    """Lemma 4, step (ii): 6 alpha^2 B^2 A / e^(2 beta) + 1 - 2 alpha b mu s / e^beta <= q."""
    return at.coefficient, at.q
