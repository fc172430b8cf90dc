"""P-ShareLoRA, (B.9) to (B.17) for linear rewards: a user whose estimate w_hat is known.

As in :mod:`experiments.psharelora.theory.quadratic`: D parameters w, n comparisons, B instances
first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import ratecheck as rc
from experiments.psharelora.theory.preference import slope
from linsys.linalg import Numbers, inverse, is_precise, lambda_max, lambda_min, logistic

__all__ = ["Fitted", "eq_B17", "maximiser", "second_moment", "shifted", "squared"]


def second_moment(x: Numbers) -> Numbers:
    """Sigma = (1/n) sum x_j x_j', shape (B, D, D)."""
    return np.asarray((x[..., :, None] * x[..., None, :]).mean(axis=1))


def shifted(Sigma: Numbers, shift: Numbers) -> Numbers:
    """Sigma + lambda I."""
    return np.asarray(Sigma + shift[:, None, None] * np.eye(Sigma.shape[-1], dtype=int))


def squared(u: Numbers, M: Numbers) -> Numbers:
    """u'M u, shape (B,)."""
    return np.asarray((u * (M @ u[..., None])[..., 0]).sum(axis=-1))


#: Halvings of the ball, and Newton's steps after them in float64 and in high precision.
_HALVINGS, _STEPS = 16, (4, 8)


def maximiser(a: Numbers, o: Numbers, radius: Numbers) -> Numbers:
    """The t in [-radius, radius] that maximises the mean log-likelihood of x = t a; a, o (B, n).

    Halving the ball, then Newton's steps: the slope h of the likelihood has |h''| <= max|a| |h'|,
    so these converge from where max|a| times the distance is small, here radius max|a| < 2^13.

    >>> maximiser(np.ones((1, 3)), np.array([[1.0, 1.0, 0.0]]), np.array([5.0])).round(6).tolist()
    [0.693147]
    """
    low, high = -radius, radius
    for _ in range(_HALVINGS):
        t = (low + high) / 2
        rising = ((o - logistic(t[:, None] * a)) * a).sum(axis=1) > 0
        low, high = np.where(rising, t, low), np.where(rising, high, t)
    for _ in range(_STEPS[is_precise(a)]):
        x = t[:, None] * a
        curve = (slope(x) * a**2).sum(axis=1)
        step = ((o - logistic(x)) * a).sum(axis=1) / np.where(curve > 0, curve, 1 + 0 * curve)
        t = np.minimum(np.maximum(t + step, low), high)
    return np.asarray(t)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A user with linear rewards whose maximum-likelihood estimate over a ball is known.

    The coordinates are turned so that w_hat lies on the first axis. Then the labels' residuals
    depend on the first coordinates of x alone, and the other ones are moved until the gradient at
    w_hat has no part along them: every data set is of this form.

    Args:
        a: first coordinates of the differences, (B, n).
        y: the other ones before they are moved, (B, n, D - 1).
        o: labels, zero or one, (B, n).
        radius: of the ball ||w|| <= B, (B,).
        share: w_diamond / radius in the unit ball, (B, D).
    """

    a: Numbers
    y: Numbers
    o: Numbers
    radius: Numbers
    share: Numbers

    @cached_property
    def _along(self) -> Numbers:
        return maximiser(self.a, self.o, self.radius)

    @cached_property
    def x(self) -> Numbers:
        """Differences of features, (B, n, D)."""
        rest = (self.o - logistic(self._along[:, None] * self.a))[..., None]
        moved = self.y - rest * (rest * self.y).sum(axis=1, keepdims=True) / (
            (rest**2).sum(axis=1, keepdims=True)
        )
        return np.concatenate([self.a[..., None], moved], axis=-1)

    @property
    def hat(self) -> Numbers:
        """w_hat, (B, D)."""
        first = np.eye(self.share.shape[-1], dtype=int)[0]
        return np.asarray(self._along[:, None] * first)

    @cached_property
    def diamond(self) -> Numbers:
        """w_diamond, any point of the ball."""
        return np.asarray(self.radius[:, None] * self.share)

    @cached_property
    def d(self) -> Numbers:
        """w_hat - w_diamond."""
        return np.asarray(self.hat - self.diamond)

    @cached_property
    def Sigma(self) -> Numbers:
        """(1/n) sum x x'; the same at every w, so that c1 = c1' = 1."""
        return second_moment(self.x)

    @property
    def c2(self) -> Numbers:
        """min Phi' over the differences of rewards in the ball."""
        return slope(np.sqrt((self.x**2).sum(axis=-1)).max(axis=1) * self.radius)

    @cached_property
    def gradient(self) -> Numbers:
        """grad f(w_diamond)."""
        rest = self.o - logistic((self.x @ self.diamond[..., None])[..., 0])
        return np.asarray((rest[..., None] * self.x).mean(axis=1))

    @property
    def rise(self) -> Numbers:
        """grad f(w_diamond)'(w_hat - w_diamond), never negative."""
        return np.asarray((self.gradient * self.d).sum(axis=-1))

    def eq_B9(self, sign: int) -> rc.Sides:
        """c1 c2 ||d||^2_Sigma against sign grad f(w_diamond)'(w_hat - w_diamond); L2 = 0."""
        return self.c2 * squared(self.d, self.Sigma), sign * self.rise

    def eq_B10(self) -> rc.Sides:
        """||d||^2 against (2/L2') grad f(w_diamond)'(w_diamond - w_hat), L2' the smoothness."""
        smooth = lambda_max(self.Sigma) / 4
        return smooth * (self.d**2).sum(axis=-1) / 2, -self.rise

    def eq_B10_corrected(self) -> rc.Sides:
        """c2 lambda_min(Sigma) ||d||^2 against grad f(w_diamond)'(w_hat - w_diamond)."""
        return self.c2 * lambda_min(self.Sigma) * (self.d**2).sum(axis=-1), self.rise

    def eq_B11(self, shift: Numbers) -> rc.Sides:
        """c2 ||d||^2_Sigma against ||grad f||_{(Sigma + lambda)^-1} ||d||_{Sigma + lambda}."""
        M = shifted(self.Sigma, shift)
        bound = np.sqrt(squared(self.gradient, inverse(M)) * squared(self.d, M))
        return self.c2 * squared(self.d, self.Sigma), bound


def eq_B17(x: Numbers, d: Numbers, radius: Numbers, shift: Numbers, root: bool) -> rc.Sides:
    """||d||^2_Sigma against (c g)^2 + 2 c g B lambda, or sqrt(lambda), where (B.11) is equality.

    That is c g = ||d||^2_Sigma / ||d||_{Sigma + lambda}, and ||d|| <= 2 B = 2 ``radius``.
    """
    Sigma = second_moment(x)
    length = squared(d, Sigma)
    other = squared(d, shifted(Sigma, shift))
    cg = length / np.sqrt(np.where(other > 0, other, 1 + 0 * other))
    factor = np.sqrt(shift) if root else shift
    return length, cg**2 + 2 * cg * radius * factor
