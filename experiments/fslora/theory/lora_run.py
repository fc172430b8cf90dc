"""FSLoRA, Theorem 4.4 for a loss of W0 + BA: runs that are exact at any length.

W is 2 x 2 and W0 = 0. Component 1 has B_1 = A_1 = x e_1, component 2 has B_2 = A_2 = X e_2 with a
large X, all others are zero: B S A is diagonal, with rho s_1 x^2 and rho s_2 X^2. The loss is a
function of w = W_11 and W_22,

    l(W) = m (z - y)^2,  z = sqrt(w / rho),  y = c (1 + e psi(W_22)),

with psi from 0 at 0 to 1 at rho X^2, as slowly as one likes because X is large, constant near both
ends; below w_0 = rho c^2 it goes on as its parabola in w. In a round with s_1 = 1 the slope in B_11
and in A_11 is m (x - y), so that both stay equal and x goes from x to q x + (1 - q) y in H steps, q
= (1 - gamma m)^H; in a round with s_1 = 0 nothing moves. X never does, and x stays in [c, c (1 +
e)]. f^S has the slope m (x - x*)/rho there, x* = c (1 + e p) with p = (k - 1)/(r - 1) the chance of
s_2 given s_1. At all points (B S, A) and those between them the Hessian of l(BA) is

    at most (m/2) (1 + e)^3 (1 + 1/rho^2) < m

in the entries B_11 and A_11, and less in all others: l'' <= m (1 + e)/(2 rho^2 c^2) with A_11 <= c
(1 + e), B_11 <= rho c (1 + e), and |w l'' + l'| <= (m/(2 rho)) (1 + 3 e).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linsys.linalg import Numbers


@dataclass(frozen=True, eq=False)
class LoraRun:
    """B runs of N devices with this loss and exact samples; every attribute (B,).

    Attributes:
        r, k: ranks, 2 <= k < r.
        m: the curvature, and the smoothness L.
        c, e: the ends c and c (1 + e) of where x is.
        start: x^0 in these units, from 0 to 1.
        gamma, H, T: step size, local steps, rounds.
        N: how many devices; with several, x goes to the mean of where theirs go.
    """

    r: Numbers
    k: Numbers
    m: Numbers
    c: Numbers
    e: Numbers
    start: Numbers
    gamma: Numbers
    H: Numbers
    T: Numbers
    N: Numbers | int = 1

    @property
    def rho(self) -> Numbers:
        """r/k."""
        return np.asarray(self.r / self.k)

    @property
    def p(self) -> Numbers:
        """The chance of s_2 = 1 where s_1 = 1."""
        return np.asarray((self.k - 1) / (self.r - 1))

    @property
    def smoothness(self) -> Numbers:
        """What the Hessian is at most, in B_11 and A_11."""
        return np.asarray(self.m / 2 * (1 + self.e) ** 3 * (1 + 1 / self.rho**2))

    @property
    def sigma_s2(self) -> Numbers:
        """The largest variance by the sketch where x can be."""
        p, width = self.p, self.m * self.c * self.e
        far = np.maximum(p, 1 - p)
        return np.asarray(2 * width**2 / self.rho * (p * (1 - p) + (1 - 1 / self.rho) * far * far))

    @property
    def within_variance(self) -> Numbers:
        """Whether the variance by the sketch is at most sigma_s^2 at x^0 and at both ends, (B,).

        At any x the gradient is m (x - y) in B_11 and in A_11 with chance k/r, and zero else; y is
        c (1 + e) with chance p and c otherwise. The variance is convex in x.
        """
        chance, p, width = 1 / self.rho, self.p, self.c * self.e
        held = 0 * self.start == 0
        for place in (0 * self.start, self.start, 1 + 0 * self.start):
            high, low = self.m * width * (place - 1), self.m * width * place
            square = 2 * (p * high**2 + (1 - p) * low**2)
            mean = 2 * (p * high + (1 - p) * low) ** 2
            variance = chance * square - chance**2 * mean
            held = held & (variance * 10**9 <= self.sigma_s2 * (10**9 + 1))
        return np.asarray(held)

    @property
    def first_gap(self) -> Numbers:
        """f^S(X^0) less its minimum where x can be."""
        return np.asarray(self.m / self.rho * self._first**2)

    @property
    def _first(self) -> Numbers:
        """x^0 - x*."""
        return np.asarray(self.c * self.e * (self.start - self.p))

    @property
    def measured(self) -> Numbers:
        """(1/T) sum_t E||grad f^S(X^t)||^2.

        With g = 1 - q and n devices whose s_1 is 1, x - x* is multiplied by 1 - g n/N, and (g/N)
        times the sum of their y - x* is added, which have mean 0.
        """
        p, g = self.p, 1 - (1 - self.gamma * self.m) ** self.H
        lost = 2 - g / self.rho - g * (1 - 1 / self.rho) / self.N
        kept = 1 - g * lost / self.rho
        limit = (self.c * self.e) ** 2 * p * (1 - p) * g / (self.N * lost)
        seen = (1 - kept**self.T) / (1 - kept) / self.T
        square = self._first**2 * seen + limit * (1 - seen)
        return np.asarray(2 * (self.m / self.rho) ** 2 * square)

    def hessian(self, b: Numbers, a: Numbers, mix: Numbers) -> Numbers:
        """That of l(BA) in B_11 and A_11, (B, 2, 2).

        B_11 is b from 0 to 1 times its largest value rho c (1 + e), A_11 = c (1 + e a), psi = mix.
        """
        A = self.c * (1 + self.e * a)
        B = self.rho * self.c * (1 + self.e) * b
        y, w, first = self.c * (1 + self.e * mix), A * B, self.rho * self.c**2
        z = np.sqrt(np.maximum(w, first) / self.rho)
        twice = self.m * y / (2 * self.rho**2 * z**3)
        once = self.m / self.rho * (1 - y / z) + twice * np.minimum(w - first, 0 * w)
        across = twice * w + once
        return np.stack(
            [
                np.stack([twice * A * A, across], axis=-1),
                np.stack([across, twice * B * B], axis=-1),
            ],
            axis=-2,
        )
