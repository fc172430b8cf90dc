"""OOD-PL, Theorem 1 and Remark 1: the outer objective's curvature, its gradient for two answers.

The outer objective is L(phi), the mean over domains of the preference loss at theta_*(phi). Along a
unit vector u, with theta' = u'(d theta_*/d phi) and theta'' the second derivative of theta_*,

    d^2 L / du^2 = <grad L_PL, theta''> + <theta', grad^2 L_PL theta'>.
"""

from __future__ import annotations

import numpy as np

from experiments.oodpl.theory.inner import Inner
from linsys.linalg import Numbers, logistic

__all__ = ["curvature_limit", "rounds_of_two_answers", "two_answers"]


def curvature_limit(run: Inner) -> Numbers:
    """P_L, a Lipschitz constant of grad L by phi, from the constants of Assumptions 1 and 2, (B,).

    (2 M^2/(beta mu)) (P + (T^2/beta)(L/mu + M rho/mu^2)) + (2 L + M^2)(M T/(beta mu))^2.
    """
    at, r, beta = run.policy, run.reward, run.system.beta
    inner = r.P + r.T**2 / beta * (at.L / at.mu + at.M * at.rho / at.mu**2)
    outer = (2 * at.L + at.M**2) * run.jacobian_bound**2
    return np.asarray(2 * at.M**2 / (beta * at.mu) * inner + outer)


def two_answers(margin: Numbers, gap: Numbers, slope: Numbers, beta: Numbers) -> Numbers:
    """||grad L||^2 for one prompt, two answers and a policy that reaches (9).

    Args:
        margin: log mu_hat(y|x) - log mu_hat(y'|x) of the preferred answer y.
        gap: r(x, y) - r(x, y').
        slope: the length of its gradient by phi.
        beta: the controlling factor.
    """
    return np.asarray((slope / beta * logistic(-(margin + gap / beta))) ** 2)


def rounds_of_two_answers(
    margin: Numbers, gap: Numbers, slope: Numbers, beta: Numbers, eta: Numbers, K: Numbers
) -> tuple[Numbers, Numbers]:
    """K steps of gradient descent with linear rewards: (1/K) sum over k < K of :func:`two_answers`.

    Beside it r(x, y) - r(x, y') after the last step, which is the largest one.

    Args:
        margin, slope, beta: as there.
        gap: r(x, y) - r(x, y') at phi_0.
        eta: the outer step size.
        K: how many steps.
    """
    total = 0 * gap
    for k in range(max(int(count) for count in np.atleast_1d(K))):
        step = eta * slope**2 / beta * logistic(-(margin + gap / beta))
        total = total + np.where(k < K, two_answers(margin, gap, slope, beta), 0 * gap)
        gap = np.where(k < K, gap + step, gap)
    return np.asarray(total / K), gap
