"""P-ShareLoRA, proof of Theorem B.3: one user's likelihood f(w), its basis given.

With the basis B_hat given a user has D = k d2 parameters w, and its comparisons have the features
(I x B_hat)' psi of both trajectories. B instances come first; of an instance there are n = N_p
comparisons. Norms are those of Sigma = mean of x x', x the difference of the gradients of r.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import ratecheck as rc
from experiments.psharelora.theory.preference import bend, log_logistic, rate, reward, slope
from linsys.linalg import Numbers, is_precise, logistic, norm

__all__ = ["Comparing", "eq_B7", "eq_B9", "maximiser"]

#: Points at which f is compared on each side of zero, and halvings between two of them, in float64
#: and in high precision.
_POINTS, _HALVINGS = 32, (60, 300)


def _outer(u: Numbers) -> Numbers:
    return np.asarray(u[..., :, None] * u[..., None, :])


@dataclass(frozen=True, eq=False)
class Comparing:
    """A user's comparisons under the rewards R tanh(<w, psi>/R).

    Args:
        psi: features of both trajectories, shape (B, n, 2, D).
        R: the bound on rewards, (B,).
        o: labels, one where the first trajectory is preferred, (B, n).
    """

    psi: Numbers
    R: Numbers
    o: Numbers

    def rewards(self, w: Numbers) -> tuple[Numbers, Numbers]:
        """g and g' at both trajectories, each (B, n, 2)."""
        scores, R = (self.psi * w[:, None, None]).sum(axis=-1), self.R[:, None, None]
        return reward(scores, R), rate(scores, R)

    def gap(self, w: Numbers) -> Numbers:
        """x_j = r(tau0) - r(tau1), (B, n)."""
        value, _ = self.rewards(w)
        return np.asarray(value[..., 0] - value[..., 1])

    def steps(self, w: Numbers) -> Numbers:
        """grad r(tau0) - grad r(tau1), (B, n, D)."""
        moved = self.rewards(w)[1][..., None] * self.psi
        return np.asarray(moved[:, :, 0] - moved[:, :, 1])

    def bends(self, w: Numbers) -> Numbers:
        """Hessian of r(tau0) - r(tau1), (B, n, D, D)."""
        value, steep = self.rewards(w)
        second = -2 * value * steep / self.R[:, None, None] ** 2
        moved = second[..., None, None] * _outer(self.psi)
        return np.asarray(moved[:, :, 0] - moved[:, :, 1])

    def f(self, w: Numbers) -> Numbers:
        """The mean log-likelihood, (B,)."""
        x = self.gap(w)
        return np.asarray((self.o * log_logistic(x) + (1 - self.o) * log_logistic(-x)).mean(axis=1))

    def gradient(self, w: Numbers) -> Numbers:
        """grad f = mean of (o - Phi(x)) times the steps, as the sigmoid has it; (B, D)."""
        rest = self.o - logistic(self.gap(w))
        return np.asarray((rest[..., None] * self.steps(w)).mean(axis=1))

    def hessian(self, w: Numbers) -> Numbers:
        """grad^2 f = mean of (o - Phi) times the bends - Phi' times the steps squared."""
        x = self.gap(w)
        rest = (self.o - logistic(x))[..., None, None] * self.bends(w)
        terms = rest - slope(x)[..., None, None] * _outer(self.steps(w))
        return np.asarray(terms.mean(axis=1))

    def by_ratios(self, w: Numbers, swap: bool) -> tuple[Numbers, Numbers]:
        """grad f and grad^2 f by Phi'/Phi and (Phi''Phi - Phi'^2)/Phi^2, as the paper has them.

        With ``swap`` as printed: the terms of o = 1 and of o = 0 change places.
        """
        x = self.gap(w)
        up, down = logistic(x), logistic(-x)
        bent = slope(x) * (down - up)
        chosen = 1 - self.o if swap else self.o
        first = chosen * slope(x) / up - (1 - chosen) * slope(x) / down
        second = chosen * (bent * up - slope(x) ** 2) / up**2
        second = second + (1 - chosen) * (-bent * down - slope(x) ** 2) / down**2
        steps = self.steps(w)
        by_first = (first[..., None] * steps).mean(axis=1)
        terms = first[..., None, None] * self.bends(w) + second[..., None, None] * _outer(steps)
        return by_first, np.asarray(terms.mean(axis=1))

    @cached_property
    def smooth(self) -> Numbers:
        """L2 of Assumption 1, (B,)."""
        longest = (self.psi**2).sum(axis=-1).reshape(len(self.psi), -1).max(axis=1)
        return np.asarray(bend(self.R) * longest)

    def weighted(self, u: Numbers, w: Numbers) -> Numbers:
        """||u|| in the norm of Sigma at w, (B,)."""
        return np.asarray(np.sqrt(((u[:, None] * self.steps(w)).sum(axis=-1) ** 2).mean(axis=1)))


def maximiser(system: Comparing, radius: Numbers) -> Numbers:
    """The w in [-radius, radius] with the largest f, of one parameter; (B, 1).

    The best point of a grid, then halvings by the sign of f' between its neighbours. Of two peaks
    whose heights differ by less than the grid shows, it may be the lower one.
    """
    step = radius / _POINTS
    places = [(radius * j / _POINTS)[:, None] for j in range(-_POINTS, _POINTS + 1)]
    heights = np.stack([system.f(w) for w in places], axis=1)
    at = step * (heights.argmax(axis=1) - _POINTS)
    low, high = np.maximum(at - step, -radius), np.minimum(at + step, radius)
    for _ in range(_HALVINGS[is_precise(radius)]):
        middle = (low + high) / 2
        rising = system.gradient(middle[:, None])[:, 0] > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.asarray(((low + high) / 2)[:, None])


def eq_B9(system: Comparing, hat: Numbers, diamond: Numbers, radius: Numbers) -> rc.Sides:
    """(c2/2) (||d||_Sigma - 2 L2 ||d||^2)_+^2 - c3 L2 ||d||^2 against grad f(w_diamond)'d.

    d = w_hat - w_diamond for any w_hat with f(w_hat) >= f(w_diamond); c2 = min Phi' and c3 =
    max Phi'/Phi over the gaps in rewards that ||w|| <= ``radius`` allows, at most 2 R.
    """
    d = hat - diamond
    longest = np.sqrt((system.psi**2).sum(axis=-1)).max(axis=(1, 2))
    reach = 2 * np.minimum(system.R, longest * radius)
    size = norm(d)
    along = system.weighted(d, diamond) - 2 * system.smooth * size**2
    least = slope(reach) / 2 * np.maximum(along, 0 * along) ** 2
    rest = logistic(reach) * system.smooth * size**2
    return least - rest, (system.gradient(diamond) * d).sum(axis=-1)


def eq_B7(first: Numbers, second: Numbers, o: Numbers, divisor: int) -> rc.Sides:
    """Taylor's remainder of f for linear rewards from x = ``first`` to ``second``, both (B, n).

    Minus the remainder, f(w_diamond) + grad f'd - f(w_hat), must lie between the least and the
    largest value of -d' grad^2 f(w) d / divisor over the segment, or no point w of it has equality.
    Both are bounded from the outside, comparison by comparison.
    """
    step = second - first

    def f(x: Numbers) -> Numbers:
        return np.asarray(o * log_logistic(x) + (1 - o) * log_logistic(-x))

    left = (f(first) + (o - logistic(first)) * step - f(second)).mean(axis=1)
    least = np.minimum(slope(first), slope(second))
    # Phi' is largest at zero if the segment has it
    largest = np.where(
        first * second < 0, 1 / (4 + 0 * first), np.maximum(slope(first), slope(second))
    )
    low, high = ((values * step**2).mean(axis=1) / divisor for values in (least, largest))
    return np.stack([left, high], axis=1), np.stack([low, left], axis=1)
