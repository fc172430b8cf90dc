"""The stationary error of small steps, against the exact engine and in the notes' examples."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.affpcl.claims import dynamics as claims
from experiments.affpcl.theory.stack import FiniteStack
from linsys import FiniteSystem
from linsys.algorithms import AffPCL, Independent
from linsys.moments import exact_moments


def system(seed: int, n: int = 3, states: int = 3, d: int = 2) -> FiniteSystem:
    rng = np.random.default_rng(seed)
    Phi = np.eye(d) + 0.4 * rng.standard_normal((states, d, d))
    return FiniteSystem.from_objectives(
        mu=rng.dirichlet(np.ones(states), size=n),
        A=np.eye(d) + 0.4 * rng.standard_normal((states, d, d)),
        Phi=Phi / np.linalg.norm(Phi, ord=2, axis=(-2, -1)).max(),
        theta=rng.standard_normal((n, d)),
    )


def stacked(given: FiniteSystem) -> FiniteStack:
    return FiniteStack(
        mu=given.mu[None], A=given.A[None], Phi=given.Phi[None], theta=given.theta[None]
    )


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_limit_of_exact_stationary_errors(seed):
    """error(alpha) / alpha is affine in alpha up to alpha^2: extrapolate from two steps."""
    given = system(seed)
    stack = stacked(given)
    for algorithm, limit in (
        (AffPCL(), claims.error_of_affpcl(stack)),
        (Independent(), claims.error_alone(stack)),
    ):
        engine = exact_moments(given, algorithm)
        fine, coarse = (engine.stationary(a).error[0] / a for a in (1e-4, 2e-4))
        np.testing.assert_allclose(2 * fine - coarse, limit[0], rtol=1e-5)


def test_an_agent_without_noise_can_lose():
    """The first instance in the note of affpcl.never_worse."""
    given = FiniteSystem.from_objectives(
        A=np.ones((2, 1, 1)),
        Phi=np.array([1 / 3, 1.0]).reshape(2, 1, 1),
        theta=np.full((2, 1), 3.0),
        mu=np.array([[1.0, 0.0], [0.5, 0.5]]),
    )
    together, alone = claims.never_worse(stacked(given))
    assert alone[0, 0] == pytest.approx(0, abs=1e-15)
    assert 1e-4 * together[0, 0] == pytest.approx(1.4e-6, rel=0.05)


def test_an_agent_of_one_environment_can_lose():
    """The second instance in the note."""
    given = FiniteSystem.from_objectives(
        A=np.array([1.0, 0.0]).reshape(2, 1, 1),
        Phi=np.array([0.0, 1.0]).reshape(2, 1, 1),
        theta=np.array([[-0.03], [1.0]]),
        mu=np.full((2, 2), 0.5),
    )
    together, alone = claims.never_worse(stacked(given))
    assert together[0, 0] / alone[0, 0] == pytest.approx(147.8, rel=1e-3)
    assert together.mean() < alone.mean()


def test_on_average_it_can_lose_in_different_environments():
    """The instance in the note of affpcl.never_worse_average: X solves 2 X = Cov."""
    given = FiniteSystem.from_objectives(
        A=np.ones((2, 1, 1)),
        Phi=np.array([1 / 3, 1.0]).reshape(2, 1, 1),
        theta=np.array([[1.0], [0.0]]),
        mu=np.array([[1.0, 0.0], [0.5, 0.5]]),
    )
    together, alone = claims.never_worse(stacked(given))
    assert alone[0] == pytest.approx([0, 0], abs=1e-15)
    assert together[0] == pytest.approx([(1 / 54) ** 2 / 2] * 2)
    assert claims.never_worse_average(stacked(given))[0] == pytest.approx((1 / 54) ** 2 / 2)


def test_on_average_it_can_lose_where_one_agent_is_far():
    given = FiniteSystem.from_objectives(
        A=np.array([2.0, 1.0]).reshape(2, 1, 1),
        Phi=np.ones((2, 1, 1)),
        theta=np.array([[0.0], [1.0]]),
        mu=np.array([[0.5, 0.5], [0.0, 1.0]]),
    )
    together, alone = claims.never_worse_corrected(stacked(given))
    assert alone[0] == 0
    assert together[0] > 1e-4


def test_a_free_ride_among_strangers():
    """Twenty agents in states of their own with opposite objectives, and one in their middle."""
    others = 20
    theta, weights = np.where(np.arange(others) % 2, 1.0, -1.0), np.linspace(1, 0.5, others)
    middle = (weights * theta).sum() / weights.sum()
    given = FiniteSystem.from_objectives(
        A=np.linspace(1, 2, others).reshape(-1, 1, 1),
        Phi=weights.reshape(-1, 1, 1),
        theta=np.append(middle, theta)[:, None],
        mu=np.vstack([np.full(others, 1 / others), np.eye(others)]),
    )
    stack = stacked(given)
    assert stack.delta_env == pytest.approx(1)
    assert stack.delta_obj == pytest.approx(1)
    assert stack.delta_env_agent[0, 0] < 1e-12
    assert stack.delta_cen[0, 0] < 1e-12
    measured, alone = claims.free_ride(stack)
    assert 0 < measured[0] <= alone[0]
    far, far_alone = claims.never_worse(stack)
    assert (far[0, 1:] > far_alone[0, 1:]).any()  # the ride is free for the one in the middle
    engines = [exact_moments(given, a, agents=[0]) for a in (AffPCL(), Independent())]
    together, single = (float(e.stationary(1e-4).error[0, 0]) for e in engines)
    assert together * given.n == pytest.approx(single * float(measured[0] / alone[0]), rel=0.05)
