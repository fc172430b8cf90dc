"""Noise alignment: bounds on the stochastic condition number nu (AffPCL, Appendix C.5).

The functions take a :class:`FiniteStack` or the arrays of one of the appendix's examples, and
return the two sides of a statement, B instances along the first axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import inverse, lambda_min, operator_norm, stretch, transpose

Numbers = NDArray[Any]
Sides = tuple[Numbers, Numbers]


def crude_bounds(stack: FiniteStack) -> Sides:
    """||Dbar^i|| <= G_A, lambda^i <= sigma_min(Abar^i) (14), nu^i <= G_A / lambda^i: (B, 3, n)."""
    D_bar = stack.mean(stretch(stack.A))
    smallest = 1 / operator_norm(inverse(stack.A_bar))
    G_A = stack.G_A[:, None] + 0 * smallest
    measured = operator_norm(D_bar), stack.lambda_agent, stack.nu_agent
    return np.stack(measured, axis=1), np.stack((G_A, smallest, G_A / stack.lambda_agent), axis=1)


def features_alone(mu: Numbers, A: Numbers, **extra: Numbers) -> FiniteStack:
    """One agent of whom only the features matter: mu (B, S), A (B, S, d, d)."""
    return FiniteStack(mu=mu[:, None], A=A, Phi=A, theta=A[:, :1, 0], **extra)


# Example 3: rotations by an angle that is uniform on an interval of length 2 pi - eps.

#: Terms of the series below: (2 pi)^k / k! is 1e-105 there.
_TERMS = 120


def turn(angle: Numbers) -> Numbers:
    """Rotations of the plane, shape (B, 2, 2) for angles (B,)."""
    return _rotation(np.cos(angle), np.sin(angle))


def _rotation(cos: Numbers, sin: Numbers) -> Numbers:
    return np.stack([np.stack([cos, -sin], axis=-1), np.stack([sin, cos], axis=-1)], axis=-2)


def mean_turn(length: Numbers) -> Numbers:
    """The average rotation by an angle that is uniform on [0, length], shape (B, 2, 2).

    Integrates the power series of the exponential term by term, and so needs no antiderivative.
    Lengths up to 2 pi.

    >>> operator_norm(mean_turn(np.array([3.0]))).round(9) == (2 / 3 * np.sin([1.5])).round(9)
    array([ True])
    """
    term = 1 + 0 * length
    parts = [term, 0 * length]  # of the cosine and of the sine
    for k in range(1, _TERMS):
        term = term * length / (k + 1)
        parts[k % 2] = parts[k % 2] + (-1) ** (k // 2) * term
    return _rotation(parts[0], parts[1])


def full_turn(eps: Numbers) -> Numbers:
    """2 pi - eps, in the arithmetic of ``eps``."""
    return np.asarray(8 * np.arctan(1 + 0 * eps) - eps)


def example_3(eps: Numbers) -> Sides:
    """sigma_min(Abar) = 2 sin(eps / 2) with Abar = E U(s), as printed; false. (B,)."""
    smallest = 1 / operator_norm(inverse(mean_turn(full_turn(eps))))
    return smallest, 2 * np.sin(eps / 2)


def example_3_integral(eps: Numbers) -> Sides:
    """The integral of U(s) over [0, 2 pi - eps] and the printed matrix, both (B, 4)."""
    length = full_turn(eps)
    integral = length[:, None, None] * mean_turn(length)
    half = eps / 2
    factor, cos, sin = 2 * np.sin(half), np.cos(half), np.sin(half)
    printed = factor[:, None, None] * _rotation(-cos, sin)
    return integral.reshape(-1, 4), printed.reshape(-1, 4)


def example_3_corrected(eps: Numbers) -> Sides:
    """Angles in [-pi + eps/2, pi - eps/2]: lambda = sigma_min(Abar) = 1/nu, all three (B, 3).

    The common value is 2 sin(eps/2) / (2 pi - eps). A(s) is orthogonal, so that D(s) = I.
    """
    length = full_turn(eps)
    A_bar = turn(-length / 2) @ mean_turn(length)
    spread = operator_norm(inverse(A_bar))
    value = 2 * np.sin(eps / 2) / length
    return np.stack([lambda_min(A_bar), 1 / spread, value * spread], axis=1), np.stack(
        [value, value, 1 + 0 * value], axis=1
    )


# Examples 4, 5 and 7.


def reflections(axes: Numbers) -> Numbers:
    """Products of reflections, orthogonal matrices (B, d, d), for unit vectors (B, k, d)."""
    identity = np.eye(axes.shape[-1], dtype=int)
    product = identity
    for v in np.moveaxis(axes, 1, 0):
        product = product @ (identity - 2 * v[..., :, None] * v[..., None, :])
    return product


def oriented(
    mu: Numbers, roots: Numbers, floor: Numbers, axes: Numbers | None = None
) -> FiniteStack:
    """A(s) = U D(s) with D(s) = M(s)^T M(s) + floor I (Example 4); U = I is Example 5.

    Args:
        mu: shape (B, S).
        roots: M, shape (B, S, d, d).
        floor: positive, shape (B,).
        axes: U is the product of the reflections at these unit vectors, shape (B, k, d).
    """
    identity = np.eye(roots.shape[-1], dtype=int)
    D = transpose(roots) @ roots + floor[:, None, None, None] * identity
    return features_alone(mu, D if axes is None else reflections(axes)[:, None] @ D)


def aligned(stack: FiniteStack) -> Sides:
    """nu = 1 (Examples 4 and 5), both (B, 1)."""
    return stack.nu_agent, 1 + 0 * stack.nu_agent


def multiplicative(mu: Numbers, U: Numbers, A_bar: Numbers, eps: Numbers) -> FiniteStack:
    """A(s) = (I + eps U(s)) Abar (Example 7).

    Args:
        mu: shape (B, S).
        U: contractions of mean zero, shape (B, S, d, d).
        A_bar: invertible, shape (B, d, d).
        eps: bound on the noise, shape (B,).
    """
    noise = np.eye(U.shape[-1], dtype=int) + eps[:, None, None, None] * U
    return features_alone(mu, noise @ A_bar[:, None], eps=eps)


def example_7(stack: FiniteStack) -> Sides:
    """nu <= 1 + eps, both (B, 1)."""
    return stack.nu_agent, 1 + stack.eps[:, None]


def example_7_sharp(stack: FiniteStack) -> Sides:
    """nu <= sqrt(1 + eps^2), both (B, 1).

    ||E D Abar^{-1} x||^2 <= E ||A Abar^{-1} x||^2 = E ||x + eps U x||^2, and E U = 0 makes that
    ||x||^2 + E ||eps U x||^2. Attained by U = +-J, J the quarter turn of the plane.
    """
    return stack.nu_agent, np.sqrt(1 + stack.eps**2)[:, None]
