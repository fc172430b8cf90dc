"""AffPCL's bias and importance corrections (Sections 3 and 5): means, variances, divergences.

Statements about a stack return ``(measured, bound)``; arrays have B first.

>>> import numpy as np
>>> one = np.ones((1, 2, 1, 1))
>>> stack = FiniteStack(
...     mu=np.eye(2)[None], A=one, Phi=one, theta=np.array([[[1.0], [3.0]]])
... )
>>> measured, bound = mean_of_solutions(stack)
>>> measured.tolist(), bound.tolist()  # in two environments of equal features
([[2.0]], [[2.0]])
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.affpcl.theory.directions import (
    central_residual,
    own,
    second_moment,
)
from experiments.affpcl.theory.parametrization import objective_level
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import Numbers, norm

# Section 5.1: who the central agent is.


def mean_of_solutions(stack: FiniteStack) -> rc.Sides:
    """x_*^0 and x_*^c, shape (B, d); equal in one environment."""
    return stack.x_star.mean(axis=1), stack.x_star_central


def far_central_objective(stack: FiniteStack) -> rc.Sides:
    """max_i sup_s ||b^c(s) - b^i(s)|| against 2 G_b, shape (B,)."""
    gap = norm(stack.b_central[:, None] - stack.b) * stack.visited[:, None]
    return gap.max(axis=(1, 2)), 2 * stack.G_b


def turned_objectives(angle: Numbers, size: Numbers) -> FiniteStack:
    """Two agents with delta_obj = sin(angle) whose b^c is as far from b^1 as can be, 2 G_b.

    Agent i sees state i alone. Phi(1) = cos(angle) R(psi) and Phi(2) = R(-psi) turn by psi = pi/2 -
    angle/2, theta^1 has length ``size``, and theta^2 is theta^1 turned by -2 angle. In the complex
    plane Phi(1) + Phi(2) = (1 + cos angle) sin(angle/2) + i (cos angle - 1) cos(angle/2), and
    2 Phi(1) theta^1 + Phi(2) (theta^1 + theta^2) = 0, which says theta_*^c = -theta^1.

    Args:
        angle: in (0, pi/2), shape (B,).
        size: G_b, shape (B,).
    """
    cos, sin = np.cos(angle), np.sin(angle)
    # R(psi) without pi, which has no exact value: cos psi = sin(angle/2), sin psi = cos(angle/2).
    c, s = np.sin(angle / 2), np.cos(angle / 2)
    Phi = np.stack([_turn(cos * c, cos * s), _turn(c, -s)], axis=1)
    turned = np.stack([np.cos(2 * angle), -np.sin(2 * angle)], axis=-1)
    first = np.stack([1 + 0 * cos, 0 * sin], axis=-1)
    theta = size[:, None, None] * np.stack([first, turned], axis=1)
    identity = np.eye(2, dtype=int) + 0 * Phi
    return FiniteStack(mu=np.eye(2, dtype=int) + 0 * Phi[:, 0], A=identity, Phi=Phi, theta=theta)


def level_of_turned_objectives(stack: FiniteStack, angle: Numbers) -> rc.Sides:
    """sup ||b^c - b^i|| / (2 G_b) = 1 and delta_obj = sin(angle), shape (B, 3).

    For :func:`turned_objectives`; delta_obj is that of Definition 1, then that of Section 4.
    """
    measured, bound = far_central_objective(stack)
    levels = objective_level(stack), stack.delta_obj
    level = np.sin(angle)
    return np.stack([measured / bound, *levels], axis=1), np.stack(
        [1 + 0 * angle, level, level], axis=1
    )


# Section 5.2: several environments.


def importance_increase(stack: FiniteStack, *, first_order: bool) -> rc.Sides:
    """How much the ratio adds to the part of E||g^{c=>i}||^2 that is not the square of a mean.

    That part is H_1 = (1/n) E_{mu^0} [rho^2 ||h||^2], shape (B, n), against the same with rho = 1
    plus (sigma^2 / n) chi^2(mu^i, mu^0), or (sigma^2 / n) (chi^2(mu^i, mu^0) + 2 delta_env^i) if
    ``first_order``. h is g^{c->i} at the central solutions.
    """
    squares = (at_centre(stack) ** 2).sum(axis=-1)[:, None]
    weighted = (stack.mu0[:, None] * stack.rho**2 * squares).sum(axis=-1)
    plain = (stack.mu0[:, None] * squares).sum(axis=-1)
    extra = stack.chi2_agent + (2 * stack.delta_env_agent if first_order else 0)
    return weighted / stack.n, (plain + stack.sigma[:, None] ** 2 * extra) / stack.n


def rare_state(epsilon: Numbers, others: Numbers) -> FiniteStack:
    """Two states, of which agent 1 visits the second with chance epsilon only.

    The others visit it with chance ``others`` >= 1/2, shape (B, n - 1); epsilon is (B,).
    """
    chance = np.concatenate([epsilon[:, None], others], axis=1)
    mu = np.stack([1 - chance, chance], axis=-1)
    one = 1 + 0 * mu
    return FiniteStack(
        mu=mu, A=one[:, 0, :, None, None], Phi=one[:, 0, :, None, None], theta=one[:, :, :1]
    )


def client_side_of_rare_state(stack: FiniteStack, epsilon: Numbers) -> rc.Sides:
    """max_s mu^0(s) / mu^1(s) >= 1 / (4 epsilon), and its second moment 1 / (16 epsilon), (B, 2).

    For :func:`rare_state`: there mu^0 gives the rare state 1/4 or more.
    """
    ratio = (stack.mu0 / stack.mu[:, 0]).max(axis=-1)
    moment = at_client(stack)[:, 0]
    return np.stack([ratio, moment], axis=1), np.stack([1 / (4 * epsilon), 1 / (16 * epsilon)], 1)


def _turn(cos: Numbers, sin: Numbers) -> Numbers:
    """The matrices ((c, -s), (s, c)), shape (B, 2, 2)."""
    rows = [np.stack([cos, -sin], axis=-1), np.stack([sin, cos], axis=-1)]
    return np.stack(rows, axis=-2)


def at_client(stack: FiniteStack) -> Numbers:
    """E||h mu^0(s^i) / mu^i(s^i)||^2 for h of length one, shape (B, n)."""
    parts = (stack.mu0[:, None] / stack.mu)[..., None] * unit(stack)[:, None]
    return second_moment(stack, own(parts))


def unit(stack: FiniteStack) -> Numbers:
    """h(s) = e_1 at every state, shape (B, S, d)."""
    first = np.eye(stack.d, dtype=int)[0]
    return np.asarray(first + 0 * stack.mu0[:, :, None])


def at_centre(stack: FiniteStack) -> Numbers:
    """g^{c->i}(x_*^c; theta_*^c) at every state, shape (B, S, d)."""
    return central_residual(stack, stack.x_star_central, stack.theta_star_central)


def for_all(stack: FiniteStack, values: Numbers) -> Numbers:
    """f(s) of shape (B, S, d) as the values of every agent, shape (B, n, S, d)."""
    return np.repeat(values[:, None], stack.n, axis=1)
