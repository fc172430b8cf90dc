"""Propositions 1 and 2 and Theorem 1 with constants: exact errors, counterexamples, sharpness."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.affpcl.theory import main_bounds, one_environment
from experiments.affpcl.theory.main_bounds import Horizon, RunStack, first_doublings, horizon
from experiments.affpcl.theory.one_environment import CommonStack
from linsys import FiniteSystem
from linsys.algorithms import AffPCL, FedAvg, Steps
from linsys.linalg import precise, precision
from linsys.moments import exact_moments

#: Of two exact evaluations of one second moment after 64 rounds.
ROUNDING = 1e-9


def arrays(seed: int, n: int, states: int, d: int):
    rng = np.random.default_rng(seed)
    Phi = np.eye(d) + 0.4 * rng.standard_normal((states, d, d))
    return {
        "mu": rng.dirichlet(np.ones(states), size=n),
        "A": np.eye(d) + 0.4 * rng.standard_normal((states, d, d)),
        "Phi": Phi / np.linalg.norm(Phi, ord=2, axis=(-2, -1)).max(),
        "theta": rng.standard_normal((n, d)),
    }


def run_stack(system, doublings=0.0, **extra):
    """At x_0 = x_0^c = theta_0 = 0."""
    stack = RunStack(
        **{name: values[None] for name, values in system.items()},
        doublings=np.array([doublings]),
        later=np.zeros(1),
        **extra,
    )
    stack.dx, stack.dx_c = -stack.x_star, -stack.x_star_central
    stack.dtheta = -stack.theta_star_central
    return stack


def at(doublings: int, t: float) -> Horizon:
    """2^doublings rounds with the step of another horizon t."""
    return horizon(np.array([doublings]), np.ones(1))._replace(
        t=np.array([t]), log_t=np.array([np.log(t)])
    )


@pytest.mark.parametrize("direction", ["objective", "estimate"])
@pytest.mark.parametrize(("d", "copies"), [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_errors_are_those_of_the_engine_of_single_systems(direction, d, copies):
    system = arrays(d + copies, 2, 3, d)
    stack = run_stack(system, np.log2(copies))
    repeated = {k: np.repeat(v, copies, axis=0) for k, v in system.items() if k in ("mu", "theta")}
    whole = FiniteSystem.from_objectives(**{**system, **repeated})
    alpha = np.log(1000.0) / 1000.0
    steps = Steps(
        alpha,
        x=float(1 / stack.lambda_agent[0, 0]),
        center=float(1 / stack.lambda_c[0]),
        objective=float(1 / stack.lambda_b[0]),
    )
    engine = exact_moments(whole, AffPCL(central_direction=direction), steps=steps, agents=[0])
    errors = stack.error(at(6, 1000.0), direction)
    assert errors[0] == pytest.approx(float(engine.at([64]).error[0, 0]), rel=ROUNDING)
    wrong = stack.error(at(5, 1000.0), direction)
    assert wrong[0] != pytest.approx(float(engine.at([64]).error[0, 0]), rel=1e-3)


def test_the_central_error_is_that_of_federated_averaging():
    """Of equal agents by the engine, of different ones after one round by enumeration."""
    one = arrays(5, 1, 3, 2)
    stack = run_stack(one, 2.0)
    repeated = {k: np.repeat(one[k], 4, axis=0) for k in ("mu", "theta")}
    alpha = np.log(1000.0) / 1000.0 / float(stack.lambda_c[0])
    engine = exact_moments(
        FiniteSystem.from_objectives(**{**one, **repeated}),
        FedAvg(),
        steps=Steps(alpha),
        agents=[0],
    )
    error = stack.central_error(at(6, 1000.0))[0]
    assert error == pytest.approx(float(engine.at([64]).error[0, 0]), rel=ROUNDING)

    system = arrays(6, 2, 2, 2)
    stack = run_stack(system)
    alpha = np.log(1000.0) / 1000.0 / float(stack.lambda_c[0])
    centre, expected = stack.x_star_central[0], 0.0
    for first, second in itertools.product(range(2), repeat=2):
        b = [
            system["Phi"][s] @ theta
            for s, theta in zip((first, second), system["theta"], strict=True)
        ]
        moved = centre - alpha * np.mean(b, axis=0)  # the error at x = 0 is -x_*^c
        expected += system["mu"][0, first] * system["mu"][1, second] * moved @ moved
    error = stack.central_error(at(0, 1000.0))[0]
    assert error == pytest.approx(expected, rel=ROUNDING)


def test_high_precision_gives_the_same():
    system = arrays(3, 2, 2, 1)
    fast = run_stack(system).error(at(8, 500.0), "objective")
    with precision(40):
        stack = run_stack({k: precise(v) for k, v in system.items()})
        exact = stack.error(
            Horizon(np.array([8]), precise([500.0]), np.log(precise([500.0]))), "objective"
        )
    assert float(exact[0]) == pytest.approx(fast[0], rel=1e-11)


@pytest.mark.parametrize(("n", "d"), [(2, 1), (3, 2)])
def test_proposition_2_around_both_centres(n, d):
    system = arrays(n, n, 3, d)
    mu = np.repeat(system["mu"][:1], n, axis=0)
    whole = FiniteSystem.from_objectives(**{**system, "mu": mu})
    x0 = np.random.default_rng(0).standard_normal((n, d))
    stack = CommonStack(
        mu=mu[None],
        A=system["A"][None],
        Phi=0 * system["A"][None],
        theta=np.zeros((1, n, d)),
        objectives=whole.b[None],
        x0=x0[None] - whole.x_star[None],
        later=np.zeros(1),
    )
    now = at(6, 1000.0)
    alpha = float((now.alpha / stack.lambda_A)[0])
    for centre, errors in (
        ("explicit", stack.explicit_error(now)),
        ("implicit", stack.implicit_error(now)),
    ):
        algorithm = AffPCL(correction="bias", center=centre, objective="known")
        engine = exact_moments(whole, algorithm, steps=Steps(alpha), agents=[0], x0=x0)
        assert errors[0] == pytest.approx(float(engine.at([64]).error[0, 0]), rel=ROUNDING)


def test_the_implicit_centre_brings_the_noise_of_others():
    """The instance in the note: an agent at the centre loses a factor of 145."""
    stack = CommonStack(
        mu=np.full((1, 3, 2), 0.5),
        A=np.array([-0.24, 0.243]).reshape(1, 2, 1, 1),
        Phi=np.zeros((1, 2, 1, 1)),
        theta=np.zeros((1, 3, 1)),
        objectives=np.array([[[[0.0], [0.0]], [[0.0], [-1.0]], [[1.0], [0.0]]]]),
        x0=np.zeros((1, 3, 1)),
        later=np.zeros(1),
    )
    assert stack.horizon(16).doublings == 23
    implicit, explicit = one_environment.centres(stack)
    assert (implicit[0], explicit[0]) == pytest.approx((10.39, 0.0718), rel=2e-3)


@pytest.mark.parametrize(("limit", "first"), [(1 / 40, 8), (1e-3, 14), (1 / 4, 4), (0.35, 2)])
def test_the_first_time_is_the_first(limit, first):
    assert first_doublings(np.array([limit])) == first
    assert horizon(np.array([first]), np.ones(1)).alpha <= limit
    if first > 2:
        assert horizon(np.array([first - 1]), np.ones(1)).alpha > limit


@pytest.mark.parametrize(("ratio", "smallest"), [(1.0, 215), (0.1, 42_640), (1 / 15, 103_900)])
def test_from_when_on_corollary_g2_applies(ratio, smallest):
    """ln t / t <= (lambda / G_A)^2 / 40, the numbers in the notes."""
    times = np.array([0.99 * smallest, 1.01 * smallest])
    assert (np.log(times) / times > ratio**2 / 40).tolist() == [True, False]


def test_theorem_1_needs_nu_of_the_objective():
    """Half of 2^17 agents against the other half, and an average that hides it."""
    system = {
        "mu": np.full((2, 2), 0.5),
        "A": np.ones((2, 1, 1)),
        "Phi": np.array([1.0, -1.0 + 2e-4]).reshape(2, 1, 1),
        "theta": np.array([[1.0], [-1.0]]),
    }
    stack = run_stack(system, 16.0)
    measured, bound = main_bounds.theorem1(stack)
    assert measured[0] / bound[0] == pytest.approx(7.47, rel=0.01)
    assert first_doublings(stack.limit(40, 4)) == 34
    measured, bound = main_bounds.theorem1(stack, effective="safe")
    assert measured[0] <= bound[0]


def test_the_error_at_the_start_outlives_the_bound_without_it():
    one = {"mu": np.ones((1, 1)), "A": np.ones((1, 1, 1)), "Phi": np.ones((1, 1, 1))}
    stack = run_stack({**one, "theta": np.ones((1, 1))}, 40.0)
    measured, bound = main_bounds.theorem1_as_printed(stack, any_t=False)
    assert measured[0] == pytest.approx(1.35e-5, rel=0.01)
    assert bound[0] == pytest.approx(4.66e-11, rel=0.01)


def test_a_step_that_is_too_large_diverges():
    """One agent, A = (10.1, -9.9): 1 - 2 a + a^2 E A^2 / lambda^2 > 1 for a = ln t / t > 2e-4."""
    system = {
        "mu": np.full((1, 2), 0.5),
        "A": np.array([10.1, -9.9]).reshape(2, 1, 1),
        "Phi": np.ones((2, 1, 1)),
        "theta": np.ones((1, 1)),
    }
    stack = run_stack(system)
    stack.later = np.array([8.0])
    measured, bound = main_bounds.theorem1_as_printed(stack, any_t=True)
    assert measured[0] > 1e100 * bound[0]
    measured, bound = main_bounds.theorem1(stack)
    assert measured[0] <= bound[0]
