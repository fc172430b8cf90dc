"""AffPCL: an unbiased corrected direction, FedAvg among equals, independent learning alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from linsys import FiniteSystem
from linsys.algorithms import (
    AffPCL,
    FedAvg,
    FineTuning,
    FrozenRatio,
    Independent,
    Start,
    Steps,
    StepSizes,
)
from linsys.algorithms._round import agent_mean
from linsys.algorithms.affpcl import AffPCLState
from tests.linsys._asserts import (
    assert_equal_numbers,
    assert_mean_step_is_independent,
    expected_round,
)
from tests.linsys._examples import (
    Samples,
    enumerate_states,
    estimators,
    expectation,
    finite_system,
    run,
    seeds,
)

few = settings(max_examples=15)


def any_state(system: FiniteSystem, seed: int, ratio: Any = None) -> AffPCLState:
    """x^i, x^c and theta anywhere."""
    rng = np.random.default_rng([seed, 1])
    n, d = system.n, system.d
    draw = rng.standard_normal
    return AffPCLState(draw((n, d)), draw((1, d)), draw((1, d)), ratio)


# --- unbiasedness ---------------------------------------------------------------------------------


@given(seed=seeds)
@few
def test_importance_correction_is_unbiased_everywhere(seed: int) -> None:
    system = finite_system(seed)
    assert_mean_step_is_independent(AffPCL(), system, any_state(system, seed))
    frozen = FrozenRatio(system.rho)
    state = any_state(system, seed, frozen.init(np.zeros((3, 2))))
    assert_mean_step_is_independent(AffPCL(ratio=frozen), system, state)


@given(seed=seeds)
@few
def test_bias_correction_is_unbiased_in_a_common_environment_at_the_central_objective(
    seed: int,
) -> None:
    system = finite_system(seed, same_mu=True)
    theta = system.theta_star_central[None]
    for center in ("explicit", "implicit"):
        state = any_state(system, seed)._replace(theta=theta)
        algorithm = AffPCL(correction="bias", center=center, objective="known")
        assert_mean_step_is_independent(algorithm, system, state)
    # Away from theta_*^c the direction is off by Phibar (theta - theta_*^c), whatever x^c is.
    state = any_state(system, seed)
    after = expected_round(AffPCL(correction="bias"), system, state, Steps.constant(0.1)).x
    alone = state.x - 0.1 * ((system.A_bar @ state.x[..., None])[..., 0] - system.b_bar)
    assert_equal_numbers(
        after - alone,
        np.broadcast_to(-0.1 * (state.theta - theta) @ system.Phi_bar0.T, after.shape),
        "bias of (5) away from the central objective",
    )


def test_the_ratio_may_be_left_out_in_a_common_environment_only() -> None:
    without = AffPCL(ratio="none")
    same = finite_system(7, same_mu=True)
    assert_mean_step_is_independent(without, same, any_state(same, 7))
    different = finite_system(7)
    with pytest.raises(AssertionError, match="mean step"):
        assert_mean_step_is_independent(without, different, any_state(different, 7))
    with pytest.raises(AssertionError, match="mean step"):
        assert_mean_step_is_independent(
            AffPCL(correction="bias"), different, any_state(different, 7)
        )


@given(seed=seeds)
@few
def test_a_wrong_ratio_leaves_exactly_its_error_under_the_average_environment(seed: int) -> None:
    system = finite_system(seed)
    table = np.random.default_rng(seed).uniform(0, 3, (3, 3))
    frozen = FrozenRatio(table)
    state = any_state(system, seed, frozen.init(np.zeros((3, 2))))
    after = expected_round(AffPCL(ratio=frozen), system, state, Steps.constant(0.1)).x
    exact = expected_round(AffPCL(), system, state._replace(ratio=None), Steps.constant(0.1)).x
    h = system.A @ state.center[0] - system.Phi @ state.theta[0]
    bias = ((table - system.rho) * system.mu0) @ h
    assert_equal_numbers(after - exact, -0.1 * bias, "bias of a wrong ratio")


class _AsPrinted(AffPCL):
    """Line 12 of Algorithm 1 as printed: x^i, not x^c, in the last term."""

    def update(self, state: Any, seen: Any, sizes: Any, active: Any = None) -> Any:
        own = seen[0].central_residual(state.center, state.theta)
        central = self._central(seen[0], None, state.center, own, active)
        printed = seen[0].central_residual(state.x, state.theta)
        return state._replace(x=state.x - sizes.x * (seen[0].residual(state.x) + central - printed))


@given(seed=seeds)
@few
def test_algorithm_1_line_12_as_printed_is_another_and_biased_update(seed: int) -> None:
    """Its mean direction is Abar^i x^c - bbar^i: it does not see x^i, so nothing contracts."""
    system = finite_system(seed)
    state = any_state(system, seed)
    after = expected_round(_AsPrinted(), system, state, Steps.constant(0.1)).x
    direction = (system.A_bar @ state.center[0]) - system.b_bar
    assert_equal_numbers(after, state.x - 0.1 * direction, "line 12 as printed")
    with pytest.raises(AssertionError, match="mean step"):
        assert_mean_step_is_independent(_AsPrinted(), system, state)


# --- local steps and partial participation ------------------------------------------------------


def expected_local_round(
    algorithm: Any, system: FiniteSystem, state: AffPCLState, alpha: float
) -> np.ndarray:
    """E[x^i] after a round of two local steps."""
    states, probabilities = enumerate_states(system)
    k = len(states)
    first, second = (index.ravel() for index in np.indices((k, k)))
    weights = probabilities[first] * probabilities[second]
    batch = AffPCLState(
        *(np.broadcast_to(v, (k * k, *v.shape)) if hasattr(v, "shape") else v for v in state)
    )
    seen = [system.observe(states[first]), system.observe(states[second])]
    after = algorithm.update(batch, seen, Steps.constant(alpha).at(0))
    return np.tensordot(weights, after.x, axes=1)


@given(seed=seeds)
@settings(max_examples=5)
def test_local_steps_keep_the_mean_iteration_of_independent_learning(seed: int) -> None:
    """For any x^c and theta E[x^i - x_*^i] shrinks by (I - alpha Abar^i)^2 in two local steps."""
    system, alpha = finite_system(seed), 0.3
    state = any_state(system, seed)
    contraction = np.linalg.matrix_power(np.eye(2) - alpha * system.A_bar, 2)
    expected = system.x_star + (contraction @ (state.x - system.x_star)[..., None])[..., 0]
    assert_equal_numbers(
        expected_local_round(AffPCL(), system, state, alpha), expected, "two local steps"
    )


class _CorrectedAtOnce(AffPCL):
    """Broken on purpose: - h^i moves x^i at once, and + c^i when the round is over."""

    def update(self, state: Any, seen: Any, sizes: Any, active: Any = None) -> Any:
        x, collected = state.x, 0.0
        for one in seen:
            own = one.central_residual(state.center, state.theta)
            collected = collected + self._central(one, None, state.center, own, active)
            x = x - sizes.x * (one.residual(x) - own)
        return state._replace(x=x - sizes.x * collected)


def test_local_corrections_before_the_central_ones_move_the_fixed_point() -> None:
    system = finite_system(8)
    center = system.x_star_central[None] * 1.0
    state = AffPCLState(system.x_star * 1.0, center, system.theta_star_central[None] * 1.0)
    moved = expected_local_round(_CorrectedAtOnce(), system, state, 0.3)
    assert np.abs(moved - system.x_star).max() > 1e-3
    kept = expected_local_round(AffPCL(), system, state, 0.3)
    assert_equal_numbers(kept, system.x_star, "fixed point")


def mean_given_active(algorithm: Any, system: FiniteSystem, state: Any, m: int) -> Any:
    """E[x_1^i | i active], E[x_1^c] and E[theta_1] for m of n agents chosen uniformly."""
    n = system.n
    total, times, center, theta = np.zeros_like(state.x), np.zeros(n), 0.0, 0.0
    subsets = list(itertools.combinations(range(n), m))
    for subset in subsets:
        active = np.zeros((n, 1))
        active[list(subset)] = 1.0
        after = expected_round(algorithm, system, state, Steps.constant(0.1), active)
        total[list(subset)] += after.x[list(subset)]
        times[list(subset)] += 1
        center = center + after.center / len(subsets)
        theta = theta + after.theta / len(subsets)
    return total / times[:, None], center, theta


def assert_participation_is_unbiased(algorithm: Any, system: FiniteSystem, state: Any) -> None:
    full = expected_round(algorithm, system, state, Steps.constant(0.1))
    for m in range(1, system.n + 1):
        x, center, theta = mean_given_active(algorithm, system, state, m)
        assert_equal_numbers(x, full.x, f"x^i given that i is one of {m}")
        assert_equal_numbers(center, full.center, f"x^c for {m} agents")
        assert_equal_numbers(theta, full.theta, f"theta for {m} agents")


@given(seed=seeds)
@settings(max_examples=5)
def test_partial_participation_is_unbiased(seed: int) -> None:
    system = finite_system(seed)
    assert_participation_is_unbiased(AffPCL(), system, any_state(system, seed))
    same = finite_system(seed, same_mu=True)
    state = any_state(same, seed)._replace(theta=same.theta_star_central[None])
    assert_participation_is_unbiased(AffPCL(correction="bias"), same, state)


class _PlainMean(AffPCL):
    """Broken on purpose: the mean over the active agents, as if the receiver were a stranger."""

    def _central(self, seen: Any, ratio: Any, center: Any, own: Any, active: Any) -> Any:
        if self.correction == "bias":
            return agent_mean(seen.residual(center), active)
        if active is None:
            return super()._central(seen, ratio, center, own, active)
        return seen.density_ratio() @ (own * active) / active.sum(-2)[..., None, :]


@pytest.mark.parametrize("correction", ["importance", "bias"])
def test_the_plain_mean_over_active_agents_is_biased(correction: str) -> None:
    system = finite_system(9, same_mu=correction == "bias")
    state = any_state(system, 9)._replace(theta=system.theta_star_central[None])
    with pytest.raises(AssertionError, match=r"x\^i given that i is one of 1"):
        assert_participation_is_unbiased(_PlainMean(correction=correction), system, state)


# --- equal agents, one agent --------------------------------------------------------------------

EXACT_AMONG_EQUALS = {
    "(8)": AffPCL(objective="known"),
    "(8) without ratio": AffPCL(objective="known", ratio="none"),
    "(8) with (22-2)": AffPCL(objective="known", central_direction="estimate"),
    "(5)": AffPCL(objective="known", correction="bias"),
    "(5) implicit": AffPCL(objective="known", correction="bias", center="implicit"),
}


@pytest.mark.parametrize("name", EXACT_AMONG_EQUALS)
@given(seed=seeds)
@settings(max_examples=5)
def test_equal_agents_are_fedavg_on_every_path_if_the_objective_is_known(
    name: str, seed: int
) -> None:
    """From a common start x^i = x^c = the point of FedAvg, for every sequence of samples."""
    system = finite_system(seed, same_mu=True, same_theta=True)
    samples = Samples(system, 20, seed)
    x0 = np.ones((3, 2))
    theta = system.theta_star_central
    final = run(EXACT_AMONG_EQUALS[name], samples, x0, 20, theta0=theta)
    assert_equal_numbers(np.stack(final), np.stack(run(FedAvg(), samples, x0, 20)), name)


def test_unequal_agents_are_not_fedavg() -> None:
    for options in ({"same_mu": True}, {"same_theta": True}):
        system = finite_system(3, **options)
        samples = Samples(system, 20, 3)
        theta = system.theta_star_central
        final = run(EXACT_AMONG_EQUALS["(8)"], samples, np.ones((3, 2)), 20, theta0=theta)
        assert np.abs(final[-1] - run(FedAvg(), samples, np.ones((3, 2)), 20)[-1]).max() > 1e-2


@given(seed=seeds)
@settings(max_examples=5)
def test_equal_agents_forget_other_starts_like_independent_noise_free_agents(seed: int) -> None:
    """x^i - x^c <- (I - alpha A(s^i)) (x^i - x^c): nothing of the others, no b."""
    system = finite_system(seed, same_mu=True, same_theta=True)
    samples = Samples(system, 10, seed)
    algorithm, alpha = AffPCL(objective="known"), 0.2
    x0 = np.random.default_rng(seed).standard_normal((3, 2))
    state = algorithm.init(Start(x0, system.theta_star_central))
    gap = state.x - state.center
    for t in range(10):
        state = algorithm.update(state, [samples(t)], Steps.constant(alpha).at(t))
        gap = gap - alpha * (samples(t).A @ gap[..., None])[..., 0]
        assert_equal_numbers(state.x - state.center, gap, f"gap at t = {t}")


def mean_path(algorithm: Any, system: FiniteSystem, rounds: int, theta0: np.ndarray) -> np.ndarray:
    """E[x_t^i] for t = 0, .., rounds over all paths."""
    states, probabilities = enumerate_states(system)
    k = len(states)
    index = np.array(list(itertools.product(range(k), repeat=rounds)))
    weights = probabilities[index].prod(axis=1)
    x0 = np.ones((len(index), system.n, system.d))
    paths = run(
        algorithm,
        lambda t: system.observe(states[index[:, t]]),
        x0,
        rounds,
        theta0=theta0 + 0 * x0[:, 0],
    )
    return np.array([np.tensordot(weights, x, axes=1) for x in paths])


def test_equal_agents_are_fedavg_in_the_mean_if_the_objective_is_estimated() -> None:
    """(8) with (22-1): E x_t^i = E x_t^FedAvg at all t, on other paths; (5) only in the limit."""
    system = finite_system(11, n=2, states=2, same_mu=True, same_theta=True)
    theta0 = system.theta_star_central + 1.0
    fedavg = mean_path(FedAvg(), system, 4, theta0)
    assert_equal_numbers(mean_path(AffPCL(), system, 4, theta0), fedavg, "mean of (8)")
    without = mean_path(AffPCL(ratio="none"), system, 4, theta0)
    assert_equal_numbers(without, fedavg, "mean of (8) without ratio")
    bias = mean_path(AffPCL(correction="bias"), system, 4, theta0)
    assert np.abs(bias - fedavg).max() > 1e-2
    samples = Samples(system, 4, 0)
    path = run(AffPCL(), samples, np.ones((2, 2)), 4, theta0=theta0)
    assert np.abs(path[-1] - run(FedAvg(), samples, np.ones((2, 2)), 4)[-1]).max() > 1e-3


ALONE = {
    "(8)": AffPCL(),
    "(8) without ratio": AffPCL(ratio="none"),
    "(8) with (22-2)": AffPCL(central_direction="estimate"),
    **{name: AffPCL(ratio=e) for name, e in estimators().items() if name != "linear"},
}


@pytest.mark.parametrize("name", ALONE)
@given(seed=seeds, local_steps=st.integers(1, 3))
@settings(max_examples=5)
def test_one_agent_is_independent_learning_bit_for_bit(
    name: str, seed: int, local_steps: int
) -> None:
    """rho = 1, so c^1 - h^1 = 0 for any x^c and theta; estimators that start at one stay there."""
    samples = Samples(finite_system(seed, n=1), 12, seed)
    x0 = np.ones((1, 2))
    final = run(ALONE[name], samples, x0, 12 // local_steps, local_steps=local_steps)
    expected = run(Independent(), samples, x0, 12 // local_steps, local_steps=local_steps)
    np.testing.assert_array_equal(np.stack(final), np.stack(expected))


def test_one_agent_with_bias_correction_needs_its_objective() -> None:
    """(5): c^1 - h^1 = Phi(s) theta - b(s) vanishes only at theta_*."""
    system = finite_system(12, n=1)
    samples = Samples(system, 12, 12)
    x0 = np.ones((1, 2))
    expected = np.stack(run(Independent(), samples, x0, 12))
    known = AffPCL(correction="bias", objective="known")
    final = run(known, samples, x0, 12, theta0=system.theta[0])
    assert_equal_numbers(np.stack(final), expected, "(5) with a known objective")
    estimated = run(AffPCL(correction="bias"), samples, x0, 12)
    assert np.abs(np.stack(estimated) - expected).max() > 1e-3
    for algorithm in (FedAvg(), FineTuning(switch=5)):
        np.testing.assert_array_equal(np.stack(run(algorithm, samples, x0, 12)), expected)


# --- the control variate --------------------------------------------------------------------------


def direction_second_moment(system: FiniteSystem, theta: np.ndarray) -> np.ndarray:
    """E||direction^i||^2 at x^i = x_*^i and x^c = x_*^c, shape (n,)."""

    def squared(seen: Any) -> np.ndarray:
        k = seen.A.shape[0]
        state = AffPCLState(
            np.broadcast_to(system.x_star, (k, 3, 2)),
            np.broadcast_to(system.x_star_central, (k, 1, 2)),
            np.broadcast_to(theta, (k, 1, 2)),
        )
        after = AffPCL().update(state, [seen], StepSizes(1.0, 0.0, 0.0, 0.0))
        return ((after.x - state.x) ** 2).sum(-1)

    return expectation(system, squared)


@given(seed=seeds)
@settings(max_examples=10)
def test_equal_agents_have_an_nth_of_the_variance_at_the_central_objective(seed: int) -> None:
    """The central objective is what makes the control variate work: with theta = 0 it fails."""
    system = finite_system(seed, same_mu=True, same_theta=True)
    own = expectation(system, lambda s: (s.residual(system.x_star) ** 2).sum(-1))
    collaborative = direction_second_moment(system, system.theta_star_central)
    assert_equal_numbers(collaborative, own / 3, "variance at the solution")
    assert (direction_second_moment(system, np.zeros(2)) > own / 3 + 1e-6).all()


def test_an_objective_basis_equal_to_the_features_corrects_nothing() -> None:
    """Phi = A gives x_*^c = theta_*^c and h^i = 0 there: AffPCL is independent learning."""
    plain = finite_system(13)
    system = FiniteSystem.from_objectives(A=plain.A, Phi=plain.A, theta=plain.theta, mu=plain.mu)
    own = expectation(system, lambda s: (s.residual(system.x_star) ** 2).sum(-1))
    moment = direction_second_moment(system, system.theta_star_central)
    assert_equal_numbers(moment, own, "variance with Phi = A")
    other = expectation(plain, lambda s: (s.residual(plain.x_star) ** 2).sum(-1))
    assert np.abs(direction_second_moment(plain, plain.theta_star_central) - other).max() > 1e-3
