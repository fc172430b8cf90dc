"""AffPCL's main text on its constants: scales, ranges of affinities, condition numbers.

Functions of a stack that return ``(measured, bound)``, with B first.

>>> import numpy as np
>>> one = np.ones((1, 1, 1, 1))
>>> stack = FiniteStack(
...     mu=np.ones((1, 2, 1)), A=one, Phi=one, theta=np.array([[[0.1], [-0.1]]])
... )
>>> measured, bound = conditioning_by_kappa(stack)  # nu = 1, kappa = 0.2
>>> measured.tolist(), bound.tolist()
([1.0], [0.2])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.affpcl.theory.directions import central_residual, local_residual
from experiments.affpcl.theory.lyapunov import weights
from experiments.affpcl.theory.parametrization import objective_gap, objective_level
from experiments.affpcl.theory.stack import FiniteStack, apply
from linsys.linalg import norm

Numbers = NDArray[Any]
Sides = tuple[Numbers, Numbers]


# Section 1.2.


def residual_at_solution(stack: FiniteStack) -> Sides:
    """||g^i(x_*^i; s)|| <= G_A G_x + G_b <= sigma: both steps, shape (B, 2)."""
    scale = stack.G_A * stack.G_x + stack.G_b
    return _columns(_largest(stack, local_residual(stack, stack.x_star)), scale), _columns(
        scale, stack.sigma
    )


def features_at_centre(stack: FiniteStack) -> Sides:
    """||A(s) x_*^c|| against G_A G_x, shape (B,), a step of Lemma F.2.

    G_x contains x_*^c for a :class:`FiniteStack`, as in Appendix C.6, and not for a
    :class:`~experiments.affpcl.theory.parametrization.ValueStack`, as in Section 1.2.
    """
    values = apply(stack.A, stack.x_star_central[:, None])
    return _largest(stack, values[:, None]), stack.G_A * stack.G_x


def residuals_at_centre(stack: FiniteStack) -> Sides:
    """||g^i(x_*^c; s)|| and ||A(s) x_*^c - b^c(s)|| against G_A G_x + G_b, shape (B, 2)."""
    centre = central_residual(stack, stack.x_star_central, stack.theta_star_central)
    return _columns(
        _largest(stack, local_residual(stack, stack.x_star_central)),
        _largest(stack, centre[:, None]),
    ), stack.G_A * stack.G_x + stack.G_b


def zero_mean_variance(mu: Numbers, f: Numbers) -> Sides:
    """tr Var_mu f = E||f||^2 <= G_f^2 for E f = 0: both of the left against the right, (B, 2).

    mu is (B, S) and f is (B, S, d). G_f is the largest ||f(s)|| where mu(s) > 0.
    """
    bound = ((f * f).sum(axis=-1) * (mu > 0)).max(axis=-1)
    return _columns(trace_of_variance(mu, f), mean_square(mu, f)), bound


def mean_square(mu: Numbers, f: Numbers) -> Numbers:
    """E_mu ||f||^2, shape (B,)."""
    return np.asarray((mu * (f * f).sum(axis=-1)).sum(axis=-1))


def trace_of_variance(mu: Numbers, f: Numbers) -> Numbers:
    """tr Var_mu f, from the matrix E f f' - (E f)(E f)', shape (B,)."""
    expected = (mu[..., None] * f).sum(axis=1)
    second = np.swapaxes(f, 1, 2) @ (mu[..., None] * f)
    covariance = second - expected[:, :, None] * expected[:, None]
    return np.asarray(np.trace(covariance, axis1=1, axis2=2))


def affinity_range(stack: FiniteStack) -> Sides:
    """0 <= delta_obj <= 1 (Definition 1) and 0 <= delta_env <= 1 (Definition 2), shape (B, 4)."""
    levels = _columns(objective_level(stack), stack.delta_env)
    return np.concatenate([levels, 0 * levels], axis=1), np.concatenate(
        [1 + 0 * levels, levels], axis=1
    )


# Section 4.


def redefined_bounds(stack: FiniteStack) -> Sides:
    """Section 4's G_b, delta_obj: sup ||b^i|| <= G_b, sup ||b^c|| <= G_b, sup ||b^i - b^j|| <= 2

    G_b delta_obj and delta_obj <= 1, shape (B, 4). They need ||Phi(s)|| <= 1.
    """
    one = 1 + 0 * stack.G_b
    return _columns(
        stack.G_b_objective,
        _largest(stack, stack.b_central[:, None]),
        objective_gap(stack),
        stack.delta_obj,
    ), _columns(stack.G_b, stack.G_b, 2 * stack.G_b * stack.delta_obj, one)


def redefined_level(stack: FiniteStack) -> Sides:
    """delta_obj of Definition 1 against delta_obj of Section 4, shape (B,)."""
    return objective_level(stack), stack.delta_obj


# Section 6.


def conditioning_by_kappa(stack: FiniteStack, *, both: bool = False) -> Sides:
    """nu against kappa = sigma / lambda, shape (B,).

    lambda is Section 1.2's, or if ``both`` that of Appendix D.1, which is smaller.
    """
    return stack.nu, stack.sigma / (stack.lambda_both if both else stack.lambda_A)


def conditioning_by_features(stack: FiniteStack) -> Sides:
    """nu^i against G_A / lambda^i, shape (B, n)."""
    return stack.nu_agent, stack.G_A[:, None] / stack.lambda_agent


def conditioning_from_below(stack: FiniteStack) -> Sides:
    """nu^i against 1, shape (B, n)."""
    return stack.nu_agent, 1 + 0 * stack.nu_agent


def central_affinity_range(stack: FiniteStack) -> Sides:
    """delta_cen^i against min{1, delta_env + delta_obj}, shape (B, n)."""
    return stack.delta_cen, np.minimum(1, stack.delta_env + stack.delta_obj)


# Appendix G.1: what follows from Theorem 1.


def recovery(stack: FiniteStack) -> Sides:
    """What turns Appendix G's Theorem 1 into Section 5's, shape (B, 3, n).

    delta_env^i <= delta_env, delta_cen^i <= delta_env + delta_obj, kappa^i <= kappa.
    """
    env, obj = stack.delta_env[:, None], stack.delta_obj[:, None]
    like = 0 * stack.delta_cen
    agents = [
        stack.delta_env_agent,
        stack.delta_cen,
        stack.sigma[:, None] / stack.lambda_agent,
    ]
    worst = [env + like, env + obj + like, stack.kappa[:, None] + like]
    return np.stack(agents, axis=1), np.stack(worst, axis=1)


def effective_recovery(stack: FiniteStack) -> Sides:
    """min{1, nu delta_cen^i} <= min{1, nu delta_env} + min{1, nu delta_obj}, shape (B, n)."""
    levels = np.minimum(1, stack.nu * stack.delta_env) + np.minimum(1, stack.nu * stack.delta_obj)
    return stack.delta_cen_effective, levels[:, None] + 0 * stack.delta_cen


def recovery_of_first_constants(stack: FiniteStack) -> Sides:
    """kappa^i of the appendix against kappa with Section 1.2's G_x, without x_*^c; shape (B, n)."""
    sigma = 2 * np.maximum(stack.G_A * stack.G_x_agents, stack.G_b)
    return stack.sigma[:, None] / stack.lambda_agent, sigma / stack.lambda_A


def ratio_conditioning(stack: FiniteStack, *, floored: bool) -> Sides:
    """The coefficients of 1/n: (kappa^rho)^2 nu^rho and that of Theorem 1's fourth case, (B, n).

    The latter is max{sigma / min{lambda^b, lambda^c, lambda^rho}, lambda^i / (lambda^b
    lambda^c)}^2. With a one-hot measure basis lambda^rho = min_s mu^0(s) over the states that
    occur. nu^rho is the printed one, or if ``floored`` at least one.
    """
    rho = np.where(stack.visited, stack.mu0, 1).min(axis=-1)[:, None]
    b, c, sigma = (v[:, None] for v in (stack.lambda_b, stack.lambda_c, stack.sigma))
    both = np.minimum(b, c)
    printed = np.maximum(rho / both, stack.lambda_agent * rho / (sigma * b * c)) ** 2
    nu_rho = np.maximum(1, printed) if floored else printed
    case = np.maximum(sigma / np.minimum(both, rho), stack.lambda_agent / (b * c)) ** 2
    return (sigma / rho) ** 2 * nu_rho, case


def theorem_weights(instance: Any, *, product: bool) -> Sides:
    """The weights (w^1, w^2, w^3) of Theorem 1's last case against Lemma D.4's, shape (B, 3).

    z = (theta^c, x^c, eta^i, x^i), with couplings C^{2,1} and C^{4,k} alone. Printed is w^1 =
    2 C^{4,1} / lambda^i + 2 C^{2,1} / lambda^c; with ``product`` the second term carries w^2.

    Args:
        instance: couplings ``c21``, ``c41``, ``c42``, ``c43`` and ``lam`` of shapes (B,), (B, 4).
        product: whether w^2 multiplies C^{2,1}.
    """
    lam = instance.lam
    C = np.zeros((len(lam), 4, 4), dtype=lam.dtype)
    C[:, 1, 0], C[:, 3, 0] = instance.c21, instance.c41
    C[:, 3, 1], C[:, 3, 2] = instance.c42, instance.c43
    w3 = 2 * instance.c43 / lam[:, 3]
    w2 = 2 * instance.c42 / lam[:, 3]
    chained = 2 * instance.c21 / lam[:, 1] * (w2 if product else 1)
    w1 = 2 * instance.c41 / lam[:, 3] + chained
    return _columns(w1, w2, w3), weights(lam, C)[:, :3]


def _columns(*columns: Numbers) -> Numbers:
    return np.stack(columns, axis=-1)


def _largest(stack: FiniteStack, values: Numbers) -> Numbers:
    """max over agents and states that occur of ||f^i(s)|| for f (B, agents, S, d), shape (B,)."""
    return np.asarray((norm(values) * stack.visited[:, None]).max(axis=(1, 2)))
