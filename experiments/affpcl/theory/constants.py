"""AffPCL's main text on its constants: scales, ranges of affinities, condition numbers.

Statements return ``(measured, bound)``; arrays have B first.

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

import ratecheck as rc
from experiments.affpcl.theory.lyapunov import weights
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import Numbers, norm

# Section 1.2.


def mean_square(mu: Numbers, f: Numbers) -> Numbers:
    """E_mu ||f||^2, shape (B,)."""
    return np.asarray((mu * (f * f).sum(axis=-1)).sum(axis=-1))


def trace_of_variance(mu: Numbers, f: Numbers) -> Numbers:
    """tr Var_mu f, from the matrix E f f' - (E f)(E f)', shape (B,)."""
    expected = (mu[..., None] * f).sum(axis=1)
    second = np.swapaxes(f, 1, 2) @ (mu[..., None] * f)
    covariance = second - expected[:, :, None] * expected[:, None]
    return np.asarray(np.trace(covariance, axis1=1, axis2=2))


# Section 6.


def conditioning_by_kappa(stack: FiniteStack, *, both: bool = False) -> rc.Sides:
    """nu against kappa = sigma / lambda, shape (B,).

    lambda is Section 1.2's, or if ``both`` that of Appendix D.1, which is smaller.
    """
    return stack.nu, stack.sigma / (stack.lambda_both if both else stack.lambda_A)


# Appendix G.1: what follows from Theorem 1.


def ratio_conditioning(stack: FiniteStack, *, floored: bool) -> rc.Sides:
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


def theorem_weights(instance: Any, *, product: bool) -> rc.Sides:
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
    return np.stack([w1, w2, w3], axis=-1), weights(lam, C)[:, :3]


def largest(stack: FiniteStack, values: Numbers) -> Numbers:
    """max over agents and states that occur of ||f^i(s)|| for f (B, agents, S, d), shape (B,)."""
    return np.asarray((norm(values) * stack.visited[:, None]).max(axis=(1, 2)))
