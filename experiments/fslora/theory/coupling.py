"""FSLoRA, Theorem 4.4: a function on the whole space whose sketches add the same noise everywhere.

With an entry a of A and an entry b of B in a component that a sketch selects or not,

    f(b, a) = l a^2 / 2 + u tau(a) psi(b),

where tau(a) = a up to |a| = w and is constant from 2 w on, and psi goes from 0 at q to 1 at 2 q = 8
rho w. Both are made of parabolas, so that tau' is between 0 and 1, |tau''| <= 1/w, |tau| <= 3 w/2,
|psi'| <= 2/q and |psi''| <= 4/q^2: the Hessian has entries of at most l + |u|/w, |u|/(2 w) and 3
|u|/(8 w), and f is smooth with l + 3 |u|/(2 w) on the whole space. As f~(.; S) is f(s rho b, a), s
= 1 with probability 1/rho, the sketches' variance is (rho - 1)/rho^2 u^2 times (tau' psi)^2 + (rho
tau psi')^2, which is at most 1: where psi = 1 - 2 z^2 it is at most (1 - 2 z^2)^2 + 9 z^2/4 <= 1
for z <= 1/2, and where psi = 2 z^2 less. A run with |a| <= w that starts at rho b >= 2 q never
moves b, and a sketch adds u or nothing to the slope l a.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linsys.linalg import Numbers


@dataclass(frozen=True, eq=False)
class Coupled:
    """B functions; every attribute (B,).

    Attributes:
        l: curvature in a.
        u: the coupling.
        w: up to which |a| it is linear.
        rho: r/k.
    """

    l: Numbers  # noqa: E741 - the name of the formula
    u: Numbers
    w: Numbers
    rho: Numbers

    @property
    def smoothness(self) -> Numbers:
        """A Lipschitz constant of the gradient on the whole space."""
        return np.asarray(self.l + 3 * abs(self.u) / (2 * self.w))

    @property
    def variance(self) -> Numbers:
        """sigma_s^2, for all X."""
        return np.asarray(self.u**2 * (self.rho - 1) / self.rho**2)

    def gradient(self, b: Numbers, a: Numbers) -> Numbers:
        """The gradient at points in units of 4 rho w and w, shape (B, 2)."""
        tau, tau_slope = _linear_then_flat(a)
        psi, psi_slope = _step(b)
        by_b = self.u * tau * psi_slope / (4 * self.rho)
        return np.stack([by_b, self.l * self.w * a + self.u * tau_slope * psi], axis=-1)

    def stretched(self, b: Numbers, a: Numbers) -> Numbers:
        """Such a point over w, shape (B, 2)."""
        return np.stack([4 * self.rho * b, a], axis=-1)

    def sketch_variance(self, b: Numbers, a: Numbers) -> Numbers:
        """E||grad f~(X; S) - grad f^S(X)||^2 at such points."""
        on, off = self.gradient(self.rho * b, a), self.gradient(0 * b, a)
        apart = np.stack([self.rho * on[:, 0], on[:, 1] - off[:, 1]], axis=-1)
        return np.asarray((self.rho - 1) / self.rho**2 * (apart * apart).sum(axis=-1))


def _linear_then_flat(a: Numbers) -> tuple[Numbers, Numbers]:
    """tau and its slope, for w = 1."""
    size, sign = np.minimum(abs(a), 2 + 0 * a), np.where(a < 0, -1, 1)
    rest = 2 - size
    tau = np.where(size <= 1, size, (3 - rest * rest) / 2)
    return sign * tau, np.where(size <= 1, 1 + 0 * a, rest)


def _step(b: Numbers) -> tuple[Numbers, Numbers]:
    """psi and its slope, for q = 1."""
    z = np.minimum(np.maximum(b - 1, 0 * b), 1 + 0 * b)
    low = 2 * z <= 1
    return np.where(low, 2 * z * z, 1 - 2 * (1 - z) ** 2), np.where(low, 4 * z, 4 * (1 - z))
