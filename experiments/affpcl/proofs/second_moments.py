"""AffPCL, Lemmas E.2, F.2 and F.4, sharpened: second moments of the central directions.

A direction is X + Y, the mean of n independent samples with lengths of at most a and sigma, and E Y
= 0. Random vectors are as in :mod:`experiments.affpcl.proofs.central`, here times the root of n.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.affpcl.claims.appendix_f import decision, estimated_decision
from experiments.affpcl.proofs.central import of_parts
from experiments.affpcl.theory import central, directions as go
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import Numbers, norm
from ratecheck import gram as g


def _split(stack: FiniteStack, parts: Numbers, rest: Numbers, a: Numbers) -> dict[str, Any]:
    """E X, X - E X and Y; their lengths; and t = min(a, sigma/(n - 1)) with what is left of both.

    Args:
        stack: B systems.
        parts: of the direction.
        rest: what is left of it at the solutions, Y.
        a: the bound of ||X_j||, (B,).
    """
    n, size = stack.n, stack.sigma
    whole, solved = of_parts(stack, parts), of_parts(stack, rest)
    moved, mean = whole - solved, 0 * whole
    mean[:, : stack.d] = moved[:, : stack.d]
    root = np.sqrt(n + 0 * a)[:, None]
    near = a * (n - 1) <= size
    t = np.where(near, a, size / max(n - 1, 1))
    return {
        "m": root * mean,
        "x": root * (moved - mean),
        "y": root * solved,
        "r": np.sqrt(np.maximum(a**2 - (mean**2).sum(axis=-1), 0 * a)),
        "t": t,
        "e": np.where(near, 0 * a, a - t),
        "k": n - 1 + 0 * a,
        "f": np.where(near, size - (n - 1) * t, 0 * a),
    }


def _number(stack: FiniteStack) -> Numbers:
    return np.asarray(stack.n + 0 * stack.sigma)


def _shown(p: g.Problem) -> None:
    """n E||X + Y||^2 <= n (a^2 - t^2) + (t + sigma)^2: both cases of the bound at once.

    a = t + e, sigma = k t + f and n = k + 1. What X varies by is at most r, r^2 = a^2 - ||E X||^2,
    and n (r^2 - t^2) - (r - t)(r + t + 2 sigma) = k (r - t)^2 + 2 f (a - r).
    """
    m, x, y = p.vectors("m x y")
    r, t, e, k, f = (p.parameter(name) for name in ("r", "t", "e", "k", "f"))
    a, size, n = t + e, k * t + f, k + 1
    p.equal(m @ x, 0, "E (X - E X) = 0")
    p.equal(m @ y, 0, "E Y = 0")
    p.equal(m.squared, n * (a**2 - r**2), "r^2 = a^2 - ||E X||^2")
    p.bounded(x, r, "n samples, each of length a or less: the variance is at most r^2/n")
    p.bounded(y, size, "n samples, each of length sigma or less")
    p.cauchy_schwarz(x, y, "Cauchy-Schwarz")
    p.assume(r <= a, "||E X|| >= 0", factors=[f])
    p.equal(e * f, 0, "t = min(a, sigma/(n - 1))")
    p.show((m + x + y).squared <= n * (a**2 - t**2) + (t + size) ** 2)


def _at_e(stack: FiniteStack) -> dict[str, Any]:
    solved = go.averaged(go.objective_residual(stack, stack.theta_star_central))
    return _split(stack, central.estimation(stack), solved, norm(stack.delta_theta))


def _at_f2(stack: FiniteStack) -> dict[str, Any]:
    solved = go.averaged(go.local_residual(stack, stack.x_star_central))
    return _split(stack, decision(stack), solved, stack.G_A * norm(stack.delta_x))


def _at_f4(stack: FiniteStack) -> dict[str, Any]:
    residual = go.central_residual(stack, stack.x_star_central, stack.theta_star_central)[:, None]
    solved = go.averaged(np.repeat(residual, stack.n, axis=1))
    a = stack.G_A * norm(stack.delta_x) + norm(stack.delta_theta)
    return _split(stack, estimated_decision(stack), solved, a)


@g.theorem("affpcl.e2_sharper", at=_at_e, scale=_number)
def e2_sharper(p: g.Problem) -> None:
    """n E||g||^2 <= n (a^2 - t^2) + (t + sigma)^2, t = min(a, sigma/(n - 1)), a = ||dtheta||."""
    _shown(p)


@g.theorem("affpcl.f2_sharper", at=_at_f2, scale=_number)
def f2_sharper(p: g.Problem) -> None:
    """n E||g||^2 <= n (a^2 - t^2) + (t + sigma)^2, t = min(a, sigma/(n - 1)), a = G_A ||dx||."""
    _shown(p)


@g.theorem("affpcl.f4_sharper", at=_at_f4, scale=_number)
def f4_sharper(p: g.Problem) -> None:
    """The same for (22-2), a = G_A ||dx|| + ||dtheta||."""
    _shown(p)
