"""Noise alignment: the examples of AffPCL's Appendix C.5 as stacks of systems.

B instances are along the first axis.
"""

from __future__ import annotations

import numpy as np

from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import Numbers, transpose


def features_alone(mu: Numbers, A: Numbers, **extra: Numbers) -> FiniteStack:
    """One agent of whom only the features matter: mu (B, S), A (B, S, d, d)."""
    return FiniteStack(mu=mu[:, None], A=A, Phi=A, theta=A[:, :1, 0], **extra)


# Example 3: rotations by an angle that is uniform on an interval of length 2 pi - eps.

#: Terms of the series below: (2 pi)^k / k! is 1e-105 there.
_TERMS = 120


def rotation(cos: Numbers, sin: Numbers) -> Numbers:
    return np.stack([np.stack([cos, -sin], axis=-1), np.stack([sin, cos], axis=-1)], axis=-2)


def mean_turn(length: Numbers) -> Numbers:
    """The average rotation by an angle that is uniform on [0, length], shape (B, 2, 2).

    Integrates the power series of the exponential term by term, and so needs no antiderivative.
    Lengths up to 2 pi.

    >>> from linsys.linalg import operator_norm
    >>> operator_norm(mean_turn(np.array([3.0]))).round(9) == (2 / 3 * np.sin([1.5])).round(9)
    array([ True])
    """
    term = 1 + 0 * length
    parts = [term, 0 * length]  # the series of the cosine and of the sine
    for k in range(1, _TERMS):
        term = term * length / (k + 1)
        parts[k % 2] = parts[k % 2] + (-1) ** (k // 2) * term
    return rotation(parts[0], parts[1])


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
