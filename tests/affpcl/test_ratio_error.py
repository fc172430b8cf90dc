"""The stationary error under a wrong density ratio, against the exact engine and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.affpcl.theory.ratio_error import stationary_error
from linsys import FiniteSystem, InputError
from linsys.algorithms import AffPCL
from linsys.moments import exact_moments


def small_system():
    return FiniteSystem.from_objectives(
        A=[[[1.0, 0.3], [-0.2, 0.8]], [[0.4, 0.0], [0.5, 1.2]]],
        Phi=[[[0.9, 0.1], [0.0, 0.5]], [[0.3, -0.2], [0.1, 0.7]]],
        theta=[[1.0, -0.5], [0.2, 0.9]],
        mu=[[0.3, 0.7], [0.8, 0.2]],
    )


def brute_force(system, agent, off, alpha, estimate):
    """Iterate to the stationary second moment of (x^i, x^c, theta^c, 1) over all joint samples."""
    n, d, S = system.n, system.d, system.n_states
    size = 3 * d + 1
    own, centre, objective = (slice(k * d, (k + 1) * d) for k in range(3))
    second, total = np.zeros((size**2, size**2)), 0.0
    for states in itertools.product(range(S), repeat=n):
        p = np.prod([system.mu[j, s] for j, s in enumerate(states)])
        M = np.eye(size)
        own_state = states[agent]
        A_i, Phi_i = system.A[own_state], system.Phi[own_state]
        M[own, own] -= alpha * A_i
        M[own, -1] += alpha * system.b[agent, own_state]
        M[own, centre] += alpha * A_i
        M[own, objective] -= alpha * Phi_i
        for j, s in enumerate(states):
            ratio = system.rho[agent, s] + off[s]
            M[own, centre] -= alpha * ratio * system.A[s] / n
            M[own, objective] += alpha * ratio * system.Phi[s] / n
            M[centre, centre] -= alpha * system.A[s] / n
            if estimate:
                M[centre, objective] += alpha * system.Phi[s] / n
            else:
                M[centre, -1] += alpha * system.b[j, s] / n
            M[objective, objective] -= alpha * system.Phi[s] / n
            M[objective, -1] += alpha * system.b[j, s] / n
        second += p * np.kron(M, M)
        total += p
    assert total == pytest.approx(1.0)
    start = np.zeros(size)
    start[-1] = 1.0
    moments = np.linalg.matrix_power(second, 1 << 14) @ np.kron(start, start)
    R = moments.reshape(size, size)
    x = system.x_star[agent]
    return float(np.trace(R[own, own]) - 2 * x @ R[own, -1] + x @ x)


@pytest.mark.parametrize("direction", ["objective", "estimate"])
@pytest.mark.parametrize("agent", [0, 1])
def test_equals_enumeration_of_all_joint_samples(direction, agent):
    system, off, alpha = small_system(), np.array([0.3, -0.1]), 0.05
    expected = brute_force(system, agent, off, alpha, direction == "estimate")
    assert stationary_error(system, agent, off, alpha, direction) == pytest.approx(
        expected,
        rel=1e-8,  # rounding of 2^14 steps of size 0.05
    )
    # a mutant: the error's sign turned round
    assert stationary_error(system, agent, -off, alpha, direction) != pytest.approx(
        expected, rel=1e-3
    )


@pytest.mark.parametrize("direction", ["objective", "estimate"])
def test_without_an_error_it_is_the_exact_engine(direction):
    system = small_system()
    engine = exact_moments(system, AffPCL(central_direction=direction))
    limit = engine.stationary(0.03).error[0]
    for agent in range(2):
        ours = stationary_error(system, agent, np.zeros(2), 0.03, direction)
        assert ours == pytest.approx(limit[agent], rel=1e-9)


def test_refuses_what_does_not_fit():
    with pytest.raises(InputError, match="ratio_error"):
        stationary_error(small_system(), 0, np.zeros(3), 0.1)
    with pytest.raises(InputError, match="agent"):
        stationary_error(small_system(), 2, np.zeros(2), 0.1)
