"""OOD-PL, Assumptions 1 to 4 and Appendix C: where the losses are convex and smooth, and how much.

Lemmas 1 and 2 differ from what is true by the range of exp(r / beta) alone, which is an argument
here: :func:`printed_range` or :func:`true_range`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import ratecheck as rc
from experiments.oodpl.theory.bilevel import System
from experiments.oodpl.theory.constants import RewardConstants
from linsys.linalg import Numbers, lambda_min, logistic, norm, operator_norm, transpose

__all__ = [
    "Jet",
    "Range",
    "convexity",
    "curvature_lipschitz",
    "deviations",
    "mixed_lipschitz",
    "preference_constant",
    "preference_smoothness",
    "printed_range",
    "smoothness",
    "tilts",
    "true_range",
]

#: The least and the largest exp(r / beta).
Range = tuple[Numbers, Numbers]


def printed_range(reward: RewardConstants, beta: Numbers) -> Range:
    """b / e^beta and B / e^beta, as Appendix C has it; these bound exp(r - beta)."""
    return reward.b / np.exp(beta), reward.B / np.exp(beta)


def true_range(reward: RewardConstants, beta: Numbers) -> Range:
    """b^(1/beta) and B^(1/beta)."""
    return np.exp(np.log(reward.b) / beta), np.exp(np.log(reward.B) / beta)


def pairs(*sides: tuple[Numbers, Numbers]) -> rc.Sides:
    """Several statements measured <= bound, stacked along a last axis."""
    measured, bound = zip(*sides, strict=True)
    return np.stack(measured, axis=-1), np.stack(bound, axis=-1)


def tilts(system: System, phi: Numbers, limits: Range) -> rc.Sides:
    """exp(r / beta) lies between the limits, shape (..., 2)."""
    tilt = system.tilt(phi)
    low, high = limits
    return pairs((tilt.max(axis=(-2, -1)), high), (low, tilt.min(axis=(-2, -1))))


def deviations(system: System, phi: Numbers, theta: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The mean squares in (21), (22) and (23), each (...).

    The norms are those of vectors, of Frobenius, and of operators.
    """
    slope = system.each_gradient(phi, theta)
    slope = slope - system.gradient(phi, theta)[..., None, None, :]
    mixed = system.each_mixed(phi, theta)
    mixed = mixed - system.mixed(phi, theta)[..., None, None, :, :]
    curved = system.each_hessian(phi, theta)
    curved = curved - system.hessian(phi, theta)[..., None, None, :, :]
    return (
        system.mean((slope * slope).sum(axis=-1)),
        system.mean((mixed * mixed).sum(axis=(-2, -1))),
        system.mean(operator_norm(curved) ** 2),
    )


def smoothness(
    system: System, phi: Numbers, points: tuple[Numbers, Numbers], L: Numbers, limits: Range
) -> rc.Sides:
    """Lemma 1: ||grad L_FT(theta) - grad L_FT(theta')||, and the largest tilt times L ||D||."""
    theta, other = points
    change = system.gradient(phi, theta) - system.gradient(phi, other)
    return norm(change), np.asarray(limits[1] * L * norm(theta - other))


def convexity(
    system: System, phi: Numbers, points: tuple[Numbers, Numbers], mu: Numbers, limits: Range
) -> rc.Sides:
    """Lemma 1: the least tilt times mu ||D||^2, and <grad L_FT(theta) - grad L_FT(theta'), D>."""
    theta, other = points
    apart = theta - other
    change = system.gradient(phi, theta) - system.gradient(phi, other)
    gained = (change * apart).sum(axis=-1)
    return np.asarray(limits[0] * mu * (apart * apart).sum(axis=-1)), np.asarray(gained)


def mixed_lipschitz(
    system: System,
    phi: Numbers,
    points: tuple[Numbers, Numbers],
    constants: tuple[Numbers, Numbers],
    limits: Range,
) -> rc.Sides:
    """(32) of every sample, with the constants T and L; shape (..., X, Y)."""
    (theta, other), (T, L) = points, constants
    change = system.each_mixed(phi, theta) - system.each_mixed(phi, other)  # a matrix of rank one
    most = limits[1] * T * L / system.beta * norm(theta - other)
    size = np.sqrt((change * change).sum(axis=(-2, -1)))
    return size, np.asarray(most[..., None, None] + 0 * size)


def curvature_lipschitz(
    system: System, phi: Numbers, points: tuple[Numbers, Numbers], rho: Numbers, limits: Range
) -> rc.Sides:
    """(33) of every sample, shape (..., X, Y)."""
    theta, other = points
    change = operator_norm(system.each_hessian(phi, theta) - system.each_hessian(phi, other))
    most = limits[1] * rho * norm(theta - other)
    return change, np.asarray(most[..., None, None] + 0 * change)


def preference_smoothness(
    system: System, points: tuple[Numbers, Numbers], constant: Numbers
) -> rc.Sides:
    """The change of grad l_PL of every pair, and constant ||theta - theta'||; (..., X, Y, Y)."""
    theta, other = points
    change = norm(system.preference_gradient(theta) - system.preference_gradient(other))
    most = constant * norm(theta - other)
    return change, np.asarray(most[..., None, None, None] + 0 * change)


def preference_constant(M: Numbers, L: Numbers) -> Numbers:
    """How Lipschitz grad l_PL is if log pi is M-Lipschitz and grad log pi is L-Lipschitz.

    The largest 2 L s + 4 M^2 s (1 - s) for s in [0, 1]: (L + 2 M^2)^2 / (4 M^2) at s = 1/2 + L /
    (4 M^2) if that is at most one, else 2 L.

    >>> print(preference_constant(np.array([1.0, 1.0]), np.array([0.0, 3.0])))
    [1. 6.]
    """
    steep = 2 * M**2 > L
    inside = (L + 2 * M**2) ** 2 / (4 * np.where(steep, M**2, 1 + 0 * M))
    return np.asarray(np.where(steep, inside, 2 * L))


@dataclass(frozen=True, eq=False)
class Jet:
    """Any policy to second order at one theta and x: chances, slopes and Hessians of log pi.

    sum pi = 1 for all theta says sum pi grad log pi = 0 and sum pi Hess log pi = -sum pi (grad log
    pi) (grad log pi)', and nothing else: exp(g(y).v + v'H(y) v / 2) pi(y), normalised, has them.

    Args:
        pi: pi(y|x), shape (..., Y).
        slopes: any vectors, shape (..., Y, p).
        curvatures: any matrices, shape (..., Y, p, p).

    >>> jet = Jet(np.array([0.5, 0.5]), np.array([[1.0], [0.0]]), np.zeros((2, 1, 1)))
    >>> jet.g.tolist(), jet.H.tolist()
    ([[0.5], [-0.5]], [[[-0.25]], [[-0.25]]])
    """

    pi: Numbers
    slopes: Numbers
    curvatures: Numbers

    @cached_property
    def g(self) -> Numbers:
        """grad log pi(y), shape (..., Y, p)."""
        mean = (self.pi[..., None] * self.slopes).sum(axis=-2, keepdims=True)
        return np.asarray(self.slopes - mean)

    @cached_property
    def H(self) -> Numbers:
        """The Hessians of log pi(y), shape (..., Y, p, p)."""
        even = (self.curvatures + transpose(self.curvatures)) / 2
        all_of = even + self.g[..., :, None] * self.g[..., None, :]
        mean = (self.pi[..., None, None] * all_of).sum(axis=-3, keepdims=True)
        return np.asarray(even - mean)

    @property
    def M(self) -> Numbers:
        """The largest ||grad log pi(y)||, shape (...)."""
        return np.asarray(norm(self.g).max(axis=-1))

    @property
    def L(self) -> Numbers:
        """The largest ||Hess log pi(y)||, shape (...)."""
        return np.asarray(operator_norm(self.H).max(axis=-1))

    @property
    def wrong(self) -> Numbers:
        """1 - p_* = sigma(-u) of every pair, shape (..., Y, Y)."""
        log_pi = np.log(self.pi)
        return logistic(log_pi[..., None, :] - log_pi[..., :, None])

    @property
    def preference_gradient(self) -> Numbers:
        """grad l_PL of every pair, shape (..., Y, Y, p)."""
        apart = self.g[..., :, None, :] - self.g[..., None, :, :]
        return np.asarray(-self.wrong[..., None] * apart)

    @property
    def preference_hessian(self) -> Numbers:
        """sigma(-u) (H(y') - H(y)) + sigma'(u) (g - g') (g - g')', shape (..., Y, Y, p, p)."""
        s = self.wrong[..., None, None]
        apart = self.g[..., :, None, :] - self.g[..., None, :, :]
        square = apart[..., :, None] * apart[..., None, :]
        bent = self.H[..., None, :, :, :] - self.H[..., :, None, :, :]
        return np.asarray(s * bent + s * (1 - s) * square)

    def fisher(self) -> rc.Sides:
        """p times the largest mu with -Hess log pi(y) >= mu for all y, and M^2; (...)."""
        mu = lambda_min(-self.H).min(axis=-1)
        return np.asarray(self.g.shape[-1] * mu), np.asarray(self.M**2)

    def gradient_bound(self) -> rc.Sides:
        """||grad l_PL|| of every pair, and 2 M; (..., Y, Y)."""
        size = norm(self.preference_gradient)
        return size, np.asarray((2 * self.M)[..., None, None] + 0 * size)

    def hessian_bound(self) -> rc.Sides:
        """||Hess l_PL|| of every pair, and :func:`preference_constant`; (..., Y, Y)."""
        size = operator_norm(self.preference_hessian)
        most = preference_constant(self.M, self.L)
        return size, np.asarray(most[..., None, None] + 0 * size)
