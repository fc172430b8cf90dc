"""AffPCL with a density ratio that is off by a given function: its exact stationary error.

Assumption 1 of AffPCL speaks of an oracle that returns a ratio with a small error, and Theorem 1
carries that error through. Here the error is a fixed function of the state, the worst case of an
oracle: nothing averages it out over time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from linsys.systems.finite import FiniteSystem
from linsys.validate import Array, check_choice, check_integer, check_number, real_array

__all__ = ["stationary_error"]


def stationary_error(
    system: FiniteSystem,
    agent: int,
    ratio_error: ArrayLike,
    alpha: float,
    central_direction: str = "objective",
) -> float:
    """E||x^i - x_*^i||^2 in the stationary state of (27) with (20) and (22), ratio rho^i + error.

    The errors z = (x^i - x_*^i, x^c - x_*^c, theta^c - theta_*^c) follow z <- z - alpha sum_j
    (K_j z + k_j) with one independent term for each agent's sample; mean and covariance of z solve
    one linear system each.

    Args:
        system: n agents with objectives Phi(s) theta^i, dimension d.
        agent: the agent i.
        ratio_error: rhohat^i(s) - rho^i(s), shape (S,).
        alpha: constant step size of all modules, small enough for the second moments to converge.
        central_direction: "objective" for (22-1), "estimate" for (22-2).

    >>> from linsys import FiniteSystem
    >>> one = np.ones((1, 1, 1))
    >>> quiet = FiniteSystem.from_objectives(
    ...     A=one, Phi=one, theta=[[1.0], [0.0]], mu=np.ones((2, 1)))
    >>> stationary_error(quiet, 0, [0.1], alpha=0.01)  # x^c solves its equation: nothing to amplify
    0.0
    """
    check_integer("agent", agent, high=system.n - 1)
    check_number("alpha", alpha, low=0.0, low_open=True)
    check_choice("central_direction", central_direction, ("objective", "estimate"))
    off = real_array("ratio_error", ratio_error, (system.n_states,))
    linear, noise = _terms(system, agent, off, central_direction)
    weights = system.mu
    # per agent: means of K_j, k_j, shapes (n, D, D), (n, D)
    mean_linear = np.einsum("ns,nsab->nab", weights, linear)
    mean_noise = np.einsum("ns,nsa->na", weights, noise)
    total = mean_linear.sum(axis=0)
    bias = -np.linalg.solve(total, mean_noise.sum(axis=0))
    pushed = linear @ bias + noise
    centred = pushed - np.einsum("ns,nsa->na", weights, pushed)[:, None]
    covariance = np.einsum("ns,nsa,nsb->ab", weights, centred, centred)
    spread = linear - mean_linear[:, None]
    size = len(total)
    eye = np.eye(size)
    second = np.einsum("ns,nsac,nsbd->abcd", weights, spread, spread).reshape(size**2, size**2)
    operator = np.kron(total, eye) + np.kron(eye, total) - alpha * (np.kron(total, total) + second)
    P = np.linalg.solve(operator, alpha * covariance.ravel()).reshape(size, size)
    d = system.d
    return float(bias[:d] @ bias[:d] + np.trace(P[:d, :d]))


def _terms(
    system: FiniteSystem, agent: int, off: Array, central_direction: str
) -> tuple[Array, Array]:
    """K_j(s) and k_j(s) of every agent's sample, shapes (n, S, D, D) and (n, S, D), D = 3 d."""
    n, d, states = system.n, system.d, system.n_states
    A, Phi = system.A, system.Phi
    estimated = (system.rho[agent] + off)[:, None, None]
    x_central, theta_central = system.x_star_central, system.theta_star_central
    own, centre, objective = (slice(k * d, (k + 1) * d) for k in range(3))
    K = np.zeros((n, states, 3 * d, 3 * d))
    k = np.zeros((n, states, 3 * d))
    residual = A @ x_central - Phi @ theta_central
    K[:, :, own, centre] = estimated * A / n
    K[:, :, own, objective] = -estimated * Phi / n
    k[:, :, own] = estimated[:, :, 0] * residual / n
    K[agent, :, own, own] += A
    K[agent, :, own, centre] -= A
    K[agent, :, own, objective] += Phi
    k[agent, :, own] += A @ system.x_star[agent] - system.b[agent] - residual
    K[:, :, centre, centre] = A / n
    if central_direction == "estimate":
        K[:, :, centre, objective] = -Phi / n
        k[:, :, centre] = residual / n
    else:
        k[:, :, centre] = (A @ x_central - system.b) / n
    K[:, :, objective, objective] = Phi / n
    k[:, :, objective] = (Phi @ theta_central - system.b) / n
    return K, k
