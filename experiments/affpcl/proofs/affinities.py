"""AffPCL, Appendix D, Sections 5.2 and G.1: distances of solutions; collective directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.affpcl.theory import affinity, directions as go
from experiments.affpcl.theory.one_step import PersonalStack
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import Numbers, apply, norm
from ratecheck import gram as g


def _solved(gap: Numbers, matrix: Numbers, least: Numbers, spread: Numbers) -> dict[str, Any]:
    """A distance of solutions, its image under a mean matrix, and the bound of this image."""
    return {
        "gap": gap,
        "image": apply(matrix[:, None], gap),
        "least": least[:, None],
        "spread": spread[:, None],
    }


def _objectives(stack: FiniteStack) -> dict[str, Any]:
    spread = 2 * stack.G_b * stack.delta_obj * (stack.n - 1) / stack.n
    return _solved(affinity.objective_gap(stack), stack.Phi_bar0, stack.lambda_b, spread)


def _decisions(stack: FiniteStack) -> dict[str, Any]:
    scores = 2 * stack.delta_env + stack.delta_obj
    spread = affinity.sigma_agents(stack) * scores * (stack.n - 1) / stack.n
    return _solved(affinity.decision_gap(stack), stack.A_bar0, stack.lambda_c, spread)


def _near(p: g.Problem, why: str) -> None:
    gap, image = p.vectors("gap image")
    least, spread = p.parameter("least"), p.parameter("spread")
    p.assume(least * gap.squared <= gap @ image, "the least eigenvalue of the symmetric part")
    p.assume(image.squared <= spread**2, why)
    p.show(least**2 * gap.squared <= spread**2)


@g.theorem(
    "affpcl.d1f_sharper", at=_objectives, power=2, scale=lambda stack: stack.lambda_b[:, None] ** 2
)
def d1f_sharper(p: g.Problem) -> None:
    """lambda^b ||theta_*^i - theta_*^c|| <= (1 - 1/n) 2 G_b delta_obj, squared."""
    _near(p, "Phibar^0 (theta^i - theta_*^c) = (1/n) sum_j Phibar^j (theta^i - theta^j)")


@g.theorem(
    "affpcl.d1j_sharper", at=_decisions, power=2, scale=lambda stack: stack.lambda_c[:, None] ** 2
)
def d1j_sharper(p: g.Problem) -> None:
    """lambda^c ||x_*^i - x_*^c|| <= (1 - 1/n) sigma (2 delta_env + delta_obj), squared."""
    _near(
        p,
        "Abar^0 (x_*^i - x_*^c) = (1/n) sum_j [(Abar^j - Abar^i) x_*^i + bbar^i - bbar^j], "
        "affpcl.d1g and affpcl.d1c",
    )


def over_states(weights: Numbers, values: Numbers) -> Numbers:
    """Random vectors (B, n, ..., S, d) times the roots of the states' chances, (B, n, m)."""
    weighed = np.sqrt(weights)[..., None] * values
    return np.asarray(weighed.reshape(*weighed.shape[:2], -1))


def _estimation(stack: PersonalStack) -> dict[str, Any]:
    """E calE, and the parts of psi(s)'deta g^{c->i}: of the solutions, dx^c and dtheta^c."""
    error = stack.ratio_error[..., None]
    mu0 = stack.mu0[:, None]
    solved = go.central_residual(stack, stack.x_star_central, stack.theta_star_central)
    x, theta = apply(stack.A, stack.dx_c[:, None]), apply(stack.Phi, stack.dtheta[:, None])
    return {
        "mean": over_states(mu0, stack.estimation_mean[:, :, None] + 0 * error),
        "solved": over_states(mu0, error * solved[:, None]),
        "x": over_states(mu0, error * x[:, None]),
        "theta": over_states(mu0, -error * theta[:, None]),
        "sigma": stack.sigma[:, None],
        "eta": norm(stack.deta),
        "rho": stack.G_rho,
        "a": np.sqrt(stack.centre_error),
        "b": np.sqrt(stack.objective_error),
    }


@g.theorem("affpcl.g1_norm", at=_estimation, power=2)
def g1_norm(p: g.Problem) -> None:
    """||E calE|| <= sigma ||deta|| + G_rho (G_A ||dx^c|| + ||dtheta^c||), squared."""
    mean, solved, x, theta = p.vectors("mean solved x theta")
    sigma, eta, rho, a, b = (p.parameter(name) for name in ("sigma", "eta", "rho", "a", "b"))
    p.equal(mean @ (solved + x + theta), mean.squared, "what a mean is")
    p.bounded(solved, sigma * eta, "||psi|| <= 1, and g^{c->i} is at most sigma at the solutions")
    p.bounded(x, rho * a, "||A(s) dx^c|| <= G_A ||dx^c||")
    p.bounded(theta, rho * b, "||Phi(s) dtheta^c|| <= ||dtheta^c||")
    p.cauchy_schwarz(solved, x, "Cauchy-Schwarz, of dx^c")
    p.cauchy_schwarz(solved, theta, "Cauchy-Schwarz, of dtheta^c")
    p.cauchy_schwarz(x, theta, "Cauchy-Schwarz, of both")
    p.show(mean.squared <= (sigma * eta + rho * (a + b)) ** 2)


def _corrected(stack: FiniteStack) -> dict[str, Any]:
    """E g^{c=>i}, its parts less their means, and its parts, as sums over independent samples."""
    values = go.central_residual(stack, stack.x_star_central, stack.theta_star_central)
    parts = go.importance_corrected(stack, values)
    weights = stack.mu[:, None]
    means = (weights[..., None] * parts).sum(axis=-2, keepdims=True)
    return {
        "mean": stack.mean(values),
        "centred": over_states(weights, parts - means),
        "parts": over_states(weights, parts),
        "noise": (stack.sigma**2 / stack.n)[:, None],
        "chi2": stack.chi2_agent,
    }


@g.theorem("affpcl.sec52_chi2", at=_corrected)
def sec52_chi2(p: g.Problem) -> None:
    """E||g^{c=>i}||^2 <= sigma^2/n + ||E g^{c->i}||^2 + (sigma^2/n) chi^2(mu^i, mu^0)."""
    mean = p.vector("mean", "R^d")
    centred, parts = p.vectors("centred parts", "n samples")
    noise, chi2 = p.parameter("noise"), p.parameter("chi2")
    p.equal(centred @ parts, centred.squared, "the parts' means are orthogonal to the rest")
    p.assume(
        parts.squared <= noise + noise * chi2,
        "E_{mu^0} (rho^i)^2 = 1 + chi^2(mu^i, mu^0), and g^{c->i} is at most sigma",
    )
    p.show(mean.squared + centred.squared <= noise + mean.squared + noise * chi2)
