"""The stochastic directions of AffPCL and their exact moments at fixed iterates.

One round draws s^j ~ mu^j, independently over the agents j, so every direction is a sum

    Y = sum_j f_j(s^j),

and the *parts* f_j, as a table over j and s, say everything about it. In (1/n) sum_j g^j(x), agent
j's part is g^j(x; s) / n; in the direction of agent i, its own sample enters twice and its part has
two terms. The moments of a sum of independent parts are exact in float64 and in high precision.

Shapes: parts are (B, ..., n, S, d), with further axes before the agents' where there are several
directions; those of the n personal directions are (B, n, n, S, d), the direction's agent first.

>>> import numpy as np
>>> from experiments.affpcl.theory.stack import FiniteStack
>>> one = np.ones((1, 1, 1, 1))
>>> stack = FiniteStack(
...     mu=np.ones((1, 2, 1)), A=2 * one, Phi=one, theta=np.array([[[1.0], [-1.0]]])
... )
>>> parts = averaged(local_residual(stack, stack.x_star_central))
>>> mean(stack, parts).tolist(), second_moment(stack, parts).tolist()
([[0.0]], [0.0])
"""

from __future__ import annotations

import numpy as np

from experiments.affpcl.theory.stack import FiniteStack, apply
from linsys.linalg import Numbers

# Residuals, as values at every state.


def local_residual(stack: FiniteStack, x: Numbers) -> Numbers:
    """g^i(x^i; s) = A(s) x^i - b^i(s), shape (B, n, S, d); x is (B, n, d), or (B, d) for all."""
    points = x[:, None] if x.ndim == 2 else x
    return apply(stack.A[:, None], points[:, :, None]) - stack.b


def central_residual(stack: FiniteStack, x: Numbers, theta: Numbers) -> Numbers:
    """g^{c->i}(x) at s^i = s: A(s) x - Phi(s) theta, shape (B, S, d); x and theta are (B, d)."""
    return apply(stack.A, x[:, None]) - apply(stack.Phi, theta[:, None])


def objective_residual(stack: FiniteStack, theta: Numbers) -> Numbers:
    """g^{i,b}(theta; s) = Phi(s) theta - b^i(s), shape (B, n, S, d); theta is (B, d)."""
    return apply(stack.Phi, theta[:, None])[:, None] - stack.b


def average_residual(stack: FiniteStack, x: Numbers) -> Numbers:
    """g^{0->i}(x) at s^i = s: A(s) x - b^0(s), shape (B, S, d); x is (B, d)."""
    return np.asarray(apply(stack.A, x[:, None]) - stack.b.mean(axis=1))


# Directions, as the parts of independent sums.


def averaged(values: Numbers) -> Numbers:
    """(1/n) sum_j f^j(s^j) for values f^j(s) of shape (B, n, S, d), shape (B, n, S, d)."""
    return np.asarray(values / values.shape[-3])


def own(values: Numbers) -> Numbers:
    """f^i(s^i) of every agent i, shape (B, n, n, S, d), for values f^i(s) of shape (B, n, S, d)."""
    n = values.shape[1]
    return np.asarray(np.eye(n, dtype=int)[:, :, None, None] * values[:, :, None])


def importance_corrected(
    stack: FiniteStack, values: Numbers, ratio: Numbers | None = None
) -> Numbers:
    """(1/n) sum_j rho^i(s^j) f(s^j) of every agent i, shape (B, n, n, S, d).

    Args:
        stack: B systems.
        values: f(s), shape (B, S, d); with :func:`central_residual` this is g^{c=>i}.
        ratio: rho^i(s), shape (B, n, S); an estimate, or the true one by default.
    """
    weights = stack.rho if ratio is None else ratio
    parts = weights[..., None] * values[:, None] / stack.n
    return np.repeat(parts[:, :, None], stack.n, axis=2)


def personal(
    stack: FiniteStack, x: Numbers, x_c: Numbers, theta_c: Numbers, ratio: Numbers | None = None
) -> Numbers:
    """gtilde^i = g^i(x^i) + g^{c=>i}(x^c) - g^{c->i}(x^c) of (8) and (27), (B, n, n, S, d).

    Args:
        stack: B systems.
        x: the agents' iterates x^i, shape (B, n, d).
        x_c: the central iterate, shape (B, d).
        theta_c: the estimated central objective theta^c, shape (B, d).
        ratio: as in :func:`importance_corrected`.
    """
    central = central_residual(stack, x_c, theta_c)
    return importance_corrected(stack, central, ratio) + own(
        local_residual(stack, x) - central[:, None]
    )


def bias_corrected(stack: FiniteStack, x: Numbers, x_c: Numbers) -> Numbers:
    """gtilde^i = g^i(x^i) + g^0(x^0) - g^{0->i}(x^0) of (5), shape (B, n, n, S, d).

    The average objective b^0(s) = (1/n) sum_j b^j(s) is known, as in Section 3; ``x_c`` stands for
    x^0 or x^c. Arguments are those of :func:`personal`.
    """
    average = averaged(local_residual(stack, x_c))[:, None]
    return average + own(local_residual(stack, x) - average_residual(stack, x_c)[:, None])


# Moments.


def mean(stack: FiniteStack, parts: Numbers) -> Numbers:
    """E Y, shape (B, ..., d), for parts of shape (B, ..., n, S, d)."""
    return np.asarray(_part_means(stack, parts).sum(axis=-2))


def covariance(stack: FiniteStack, left: Numbers, right: Numbers) -> Numbers:
    """E<Y, Z> - <E Y, E Z> for the parts of Y and Z, shape (B, ...)."""
    centred = [f - _part_means(stack, f)[..., None, :] for f in (left, right)]
    inner = (centred[0] * centred[1]).sum(axis=-1)
    return np.asarray((_weights(stack, inner.ndim) * inner).sum(axis=(-2, -1)))


def variance(stack: FiniteStack, parts: Numbers) -> Numbers:
    """tr Var Y = sum_j E||f_j - E f_j||^2, shape (B, ...)."""
    return covariance(stack, parts, parts)


def second_moment(stack: FiniteStack, parts: Numbers) -> Numbers:
    """E||Y||^2 = ||E Y||^2 + tr Var Y, shape (B, ...)."""
    return np.asarray((mean(stack, parts) ** 2).sum(axis=-1) + variance(stack, parts))


def _part_means(stack: FiniteStack, parts: Numbers) -> Numbers:
    """E f_j(s^j), shape (B, ..., n, d)."""
    weights = _weights(stack, parts.ndim - 1)[..., None]
    return np.asarray((weights * parts).sum(axis=-2))


def _weights(stack: FiniteStack, ndim: int) -> Numbers:
    """mu^j(s) with axes of length one after B: (B, 1, ..., n, S)."""
    between = [1] * (ndim - 3)
    return stack.mu.reshape(stack.mu.shape[0], *between, *stack.mu.shape[1:])
