"""Algorithm 1 on stacks: the systems' own observations, what is asked and sent, what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.affpcl.theory import rounds
from experiments.affpcl.theory.stack import FiniteStack
from linsys import FiniteSystem
from linsys.algorithms import AffPCL, AffPCLState
from linsys.linalg import precise, precision
from linsys.oracle import LinearObservation


def random_stack(seed=0, B=4, n=3, S=3, d=2):
    """Systems with iterates, and one sample per agent."""
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.ones(S), size=(B, n))
    stack = FiniteStack(
        mu=mu / mu.sum(axis=-1, keepdims=True),
        A=rng.standard_normal((B, S, d, d)) + 4 * np.eye(d),
        Phi=0.1 * rng.standard_normal((B, S, d, d)) + 0.5 * np.eye(d),
        theta=rng.standard_normal((B, n, d)),
        x=rng.standard_normal((B, n, d)),
        x_c=rng.standard_normal((B, d)),
        theta_c=rng.standard_normal((B, d)),
    )
    return stack, rng.integers(0, S, size=(B, n))


def test_observation_is_that_of_the_systems():
    stack, states = random_stack()
    seen = rounds.observe(stack, states)
    for k in range(len(states)):
        system = FiniteSystem.from_objectives(
            A=stack.A[k], Phi=stack.Phi[k], theta=stack.theta[k], mu=stack.mu[k]
        )
        wanted = system.observe(states[k])
        for name in ("A", "Phi", "b", "rho"):
            got = getattr(seen, name)[k]
            np.testing.assert_allclose(got, getattr(wanted, name), rtol=1e-12, atol=1e-12)


def test_drawn_states():
    assert rounds.drawn(np.array([0.0, 0.32, 0.34, 0.99, 1.0]), 3).tolist() == [0, 0, 1, 2, 2]
    assert rounds.drawn(np.array([0.7]), 1).tolist() == [0]
    with precision(20):
        assert rounds.drawn(precise([0.5, 0.6]), 2).tolist() == [1, 1]


def test_algorithm_one_is_the_formulas():
    np.testing.assert_allclose(*rounds.algorithm_one(*random_stack()), rtol=1e-12)


@pytest.mark.parametrize("wrong", ["A", "Phi", "theta", "mu"])
def test_algorithm_one_sees_every_part_of_the_system(wrong):
    stack, states = random_stack()
    other, _ = random_stack(1)
    mixed = {name: getattr(stack, name) for name in ("mu", "A", "Phi", "theta")}
    mixed[wrong] = getattr(other, wrong)
    iterates = {name: getattr(stack, name) for name in ("x", "x_c", "theta_c")}
    measured, _ = rounds.algorithm_one(stack, states)
    _, formulas = rounds.algorithm_one(FiniteStack(**mixed, **iterates), states)
    assert not np.allclose(measured, formulas)


def test_line_twelve_as_printed_has_no_own_iterate_in_its_mean():
    stack, states = random_stack()
    printed, meant = rounds.line_twelve_as_printed(stack, states)
    assert (np.abs(printed - meant) > 1e-3).any()
    # moving x^i by one moves x^i after the round by one: nothing pulls it back
    moved = dict(vars(stack)) | {"x": stack.x + 1.0}
    keep = ("mu", "A", "Phi", "theta", "x", "x_c", "theta_c")
    shifted, _ = rounds.line_twelve_as_printed(
        FiniteStack(**{name: moved[name] for name in keep}), states
    )
    np.testing.assert_allclose(shifted - printed, 1.0, rtol=1e-12)


def test_federated_rounds():
    stack, _ = random_stack()
    states = np.random.default_rng(2).integers(0, 3, size=(4, 3, 3))
    local, central = rounds.federated_rounds(stack, states)
    np.testing.assert_allclose(local, central, rtol=1e-12)
    other, _ = rounds.federated_rounds(stack, states[:, ::-1])
    assert not np.allclose(other, central)


class Asked(LinearObservation):
    """An observation that remembers what it was asked."""

    def __init__(self, seen):
        super().__init__(seen.A, seen.Phi, seen.b, seen.rho)
        object.__setattr__(self, "calls", [])

    def residual(self, x):
        self.calls.append(("g", x))
        return super().residual(x)

    def central_residual(self, x, theta):
        self.calls.append(("h", x))
        return super().central_residual(x, theta)

    def objective_residual(self, theta):
        self.calls.append(("b", theta))
        return super().objective_residual(theta)


@pytest.mark.parametrize(("direction", "kinds"), [("objective", "bggh"), ("estimate", "bghh")])
def test_line_four_asks_for_four_residuals(direction, kinds):
    stack, states = random_stack()
    seen = Asked(rounds.observe(stack, states))
    state = AffPCLState(stack.x, stack.x_c[:, None], stack.theta_c[:, None])
    AffPCL(central_direction=direction).update(state, [seen], rounds.SIZES)
    assert "".join(sorted(kind for kind, _ in seen.calls)) == kinds
    # with (22-2) the same g^{c->i} serves both; all but g^i(x^i) are evaluated at common points
    common = {kind for kind, at in seen.calls if np.ptp(at, axis=1).max() == 0}
    assert len(common) == (3 if direction == "objective" else 2)


@pytest.mark.parametrize(("shared", "residuals"), [(False, 6), (True, 5)])
@pytest.mark.parametrize("state_size", [1, 4])
def test_numbers_sent(shared, residuals, state_size):
    stack, states = random_stack()
    n, d = stack.n, stack.d
    number = rounds.sent(stack, states, state_size=state_size, shared=shared)
    assert number == residuals * n * d + n * state_size
    assert rounds.sent_by_federated_averaging(stack, states) == 2 * n * d


@pytest.mark.parametrize("n", [1, 2, 5])
def test_counted_round_is_the_algorithm_s(n):
    stack, states = random_stack(n=n)
    after, agents, server = rounds.counted_round(stack, states)
    np.testing.assert_allclose(after, rounds.algorithm_one(stack, states)[0], rtol=1e-12)
    assert (agents, server) == (5 * n * stack.d, n * n * stack.d)
