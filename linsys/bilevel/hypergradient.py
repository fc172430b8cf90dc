"""Derivatives of the outer loss by phi, through the inner loop and at its optimum.

With H_t = grad^2_theta l_FT and G_t = grad_phi grad_theta l_FT (q, p) at (theta_t, z_t),

    d theta_{t+1} / d phi = d theta_t / d phi (I - alpha H_t) - alpha G_t,
    d theta_D / d phi = -alpha sum_t G_t (I - alpha H_{t+1}) ... (I - alpha H_{D-1}),

where for the inner loss (10)

    G_t = -(1 / beta) exp(r / beta) grad_phi r (grad_theta log pi)',
    H_t = -exp(r / beta) grad^2_theta log pi,

and dl_PL / dphi = (d theta_D / d phi) grad_theta l_PL(theta_D). This is what Proposition 1 means.
As printed, (13) lacks the factor grad_phi r, without which the shapes do not fit, and the factor
sigma(-u) and the sign of grad_theta l_PL, and its products repeat the matrix of step t in the
place of step j.

===================  ============================  ============================================
way                  work per inner step           memory
===================  ============================  ============================================
``unrolled``         q Hessian-vector products     p x q
``adjoint``          one, and one mixed product    the path, D x p, and no graph
``first_order``      one mixed product             the path; products of matrices left out
``implicit``         one linear system in all      p x p, or a few vectors with CG
===================  ============================  ============================================

The first two agree to rounding with automatic differentiation through the loop. ``implicit`` is the
limit of exact steps as D grows. ``first_order`` is not: its sum grows in proportion to D.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device

from linsys.bilevel._newton import solve_definite
from linsys.bilevel.arrays import finite, namespace
from linsys.bilevel.inner import Path
from linsys.bilevel.oracle import Oracle
from linsys.validate import check_integer

__all__ = [
    "adjoint",
    "first_order",
    "implicit",
    "optimum_sensitivity",
    "path_sensitivity",
    "unrolled",
]


def unrolled(oracle: Oracle, phi: Any, path: Path, z: Any = None) -> Any:
    """d l_PL(theta_D) / d phi, shape (q,), by forward differentiation along the path.

    Args:
        oracle: of the loop.
        phi: the reward that the path was made with.
        path: from :func:`linsys.bilevel.inner.descend`.
        z: preferences, as ``oracle.draw_outer`` gives them, or None for the expectation.
    """
    direct, v = oracle.outer_grads(finite("phi", phi), path.theta[-1, :], z)
    return direct + path_sensitivity(oracle, phi, path) @ v


def path_sensitivity(oracle: Oracle, phi: Any, path: Path) -> Any:
    """d theta_D / d phi, shape (q, p): row j is the derivative by phi_j, the paper's (31) and (37).

    (37) has the wrong sign before the Hessian.
    """
    basis = _basis(path.theta)
    sensitivity = 0.0 * oracle.mixed_vjp(phi, path.theta[0, :], path.samples[0], basis).T
    for t, z in enumerate(path.samples):
        theta = path.theta[t, :]
        turned = oracle.inner_hvp(phi, theta, z, sensitivity)
        moved = oracle.mixed_vjp(phi, theta, z, basis).T
        sensitivity = path.back(t, sensitivity - path.alpha * (turned + moved))
    return sensitivity


def adjoint(oracle: Oracle, phi: Any, path: Path, z: Any = None) -> Any:
    """d l_PL(theta_D) / d phi, shape (q,), by backward differentiation along the path.

    It keeps a vector (p,) where :func:`unrolled` keeps a matrix (q, p).

    >>> from linsys.bilevel import DomainOracle, descend, meta_distribution
    >>> oracle = DomainOracle(domain=meta_distribution(0).train[0], beta=1.0)
    >>> phi = np.ones(4)
    >>> path = descend(oracle, phi, np.zeros(4), alpha=0.1, D=50)
    >>> bool(np.allclose(adjoint(oracle, phi, path), unrolled(oracle, phi, path), rtol=1e-12))
    True
    """
    total, v = oracle.outer_grads(finite("phi", phi), path.theta[-1, :], z)
    for t in range(len(path.samples) - 1, -1, -1):
        at, v = (phi, path.theta[t, :], path.samples[t]), path.back(t, v)
        total = total - path.alpha * oracle.mixed_vjp(*at, v)
        v = v - path.alpha * oracle.inner_hvp(*at, v)
    return total


def first_order(oracle: Oracle, phi: Any, path: Path, z: Any = None) -> Any:
    """:func:`adjoint` without Hessians: every matrix I - alpha H_t taken as I.

    After many steps near an optimum it adds up the same term again and again, and grows like D.
    """
    total, v = oracle.outer_grads(finite("phi", phi), path.theta[-1, :], z)
    for t in range(len(path.samples) - 1, -1, -1):
        v = path.back(t, v)
        total = total - path.alpha * oracle.mixed_vjp(phi, path.theta[t, :], path.samples[t], v)
    return total


def implicit(oracle: Oracle, phi: Any, theta: Any, z: Any = None, *, cg: int | None = None) -> Any:
    """d l_PL(theta_*(phi)) / d phi, shape (q,), from (38) at a minimum of the inner loss.

    -G H^{-1} grad_theta l_PL with the expected G and H. At another point than the minimum this is
    an approximation, of an error proportional to the distance.

    Args:
        oracle: both losses.
        phi: parameters of the reward.
        theta: theta_*(phi), see :func:`linsys.bilevel.inner.optimum`.
        z: preferences, or None for the expectation.
        cg: steps of conjugate gradients in the place of a factorisation of H; exact after p of
            them but for rounding.

    Raises:
        InputError: a singular Hessian.
    """
    finite("phi", phi)
    direct, v = oracle.outer_grads(phi, finite("theta", theta), z)
    if cg is None:
        hessian = oracle.inner_hvp(phi, theta, None, _basis(theta))
        solved = solve_definite("the inner loss", hessian, v)
    else:
        solved = _conjugate_gradients(oracle, phi, theta, v, check_integer("cg", cg, low=1))
    return direct - oracle.mixed_vjp(phi, theta, None, solved)


def optimum_sensitivity(oracle: Oracle, phi: Any, theta: Any) -> Any:
    """d theta_* / d phi = -G H^{-1}, shape (q, p), at a minimum theta of the inner loss: (38).

    Its norm is at most ||G|| / lambda_min(H), and not the ||G|| / lambda_max(H) that the paper's
    M T / (beta L) amounts to.

    Raises:
        InputError: a singular Hessian.
    """
    finite("phi", phi)
    basis = _basis(finite("theta", theta))
    hessian = oracle.inner_hvp(phi, theta, None, basis)
    mixed = oracle.mixed_vjp(phi, theta, None, basis)
    return -solve_definite("the inner loss", hessian, mixed).T


def _basis(theta: Any) -> Any:
    """The identity (p, p)."""
    xp = namespace(theta)
    return xp.eye(theta.shape[-1], dtype=theta.dtype, device=device(theta))


def _conjugate_gradients(oracle: Oracle, phi: Any, theta: Any, v: Any, steps: int) -> Any:
    """An approximate H^{-1} v from products with H."""
    solution, residual = 0.0 * v, v
    direction, square = v, float(v @ v)
    for _ in range(steps):
        turned = oracle.inner_hvp(phi, theta, None, direction)
        curvature = float(direction @ turned)
        if not curvature > np.finfo(float).tiny:  # converged, or no curvature along the direction
            break
        length = square / curvature
        solution, residual = solution + length * direction, residual - length * turned
        previous, square = square, float(residual @ residual)
        direction = residual + (square / previous) * direction
    return solution
