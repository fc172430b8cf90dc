"""TD(0) and SARSA with the common algorithms: unbiased, convergent, equal to a plain loop."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from linsys import InputError
from linsys.algorithms import (
    AffPCL,
    Clustered,
    Collaborative,
    Ditto,
    FedAvg,
    FineTuning,
    Independent,
    PFedMe,
    RatioEstimator,
    Sampling,
    Start,
    Steps,
    td,
)
from linsys.algorithms.td import VisitationRatio, action_density_ratio, sarsa
from linsys.oracle import Observation
from linsys.rounds import rounds
from linsys.systems.markov_reward import MarkovRewardProcesses, TDObservation
from linsys.systems.mdp import MarkovDecisionProcesses, sample_mdps, softmax_policy


def two_chains(gamma: float = 0.5, rewards: float = 1.0) -> MarkovRewardProcesses:
    """Three agents on three states with different kernels and rewards, two features."""
    rng = np.random.default_rng(11)
    return MarkovRewardProcesses(
        P=rng.dirichlet(np.ones(3), size=(3, 3)),
        R=rewards * rng.uniform(-1, 1, (3, 3, 3)),
        gamma=gamma,
        features=np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]),
    )


def family(seed: int = 0, **changes: Any) -> MarkovDecisionProcesses:
    options = {"n": 3, "states": 3, "actions": 2, "d": 4, "gamma": 0.3}
    return sample_mdps(seed, **{**options, "delta_env": 0.6, "delta_obj": 0.6, **changes})


def last(
    algorithm: Collaborative[Any], mdps: MarkovDecisionProcesses, rounds: int, **options: Any
) -> Any:
    *_, (_, state) = sarsa(
        algorithm, mdps, Steps.constant(0.1), rounds, **{"beta": 1.0, "seed": 4, **options}
    )
    return state


def is_below(values: Any, limit: float) -> bool:
    """Whether the mean is below the limit by 5.5 standard errors.

    Where the mean's expectation is above the limit, this holds with probability below 1e-7. All
    limits here lie more than 11 standard errors above the means of a correct program, so that
    another seed would break a test with probability below 1e-7.
    """
    standard_error = np.std(values, ddof=1) / math.sqrt(np.size(values))
    return bool(np.mean(values) + 5.5 * standard_error < limit)


# -- TD(0)


def expected_direction(ratio: str, *, rewards: str) -> Any:
    """E of the AffPCL direction minus Abar^i x - bbar^i, over all joint transitions."""
    mrps = two_chains()
    mrps = MarkovRewardProcesses(mrps.P[:2], mrps.R[:2], mrps.gamma, mrps.features)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 2))
    algorithm = AffPCL(ratio=ratio)
    start = algorithm.init(Start(x, rng.standard_normal(2 if rewards == "linear" else 3)))
    start = start._replace(center=rng.standard_normal((1, 2)))
    total = np.zeros((2, 2))
    for first, second in itertools.product(itertools.product(range(3), repeat=2), repeat=2):
        o, o_next = np.array([first, second]).T
        chance = mrps.pair_distribution[[0, 1], o, o_next].prod()
        seen = mrps.observe(o, o_next, rewards=rewards)
        moved = algorithm.update(start, [seen], Steps.constant(1.0).at(0))
        total += chance * (x - moved.x)
    system = mrps.to_finite_system()
    return total - ((system.A_bar @ x[..., None])[..., 0] - system.b_bar)


@pytest.mark.parametrize("rewards", ["linear", "tabular"])
def test_direction_is_unbiased(rewards: str) -> None:
    assert np.abs(expected_direction("known", rewards=rewards)).max() < 1e-14
    # Mutation: without the density ratio the central part is biased.
    assert np.abs(expected_direction("none", rewards=rewards)).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("rewards", ["linear", "tabular"])
@pytest.mark.parametrize("source", ["independent", "trajectory"])
def test_td_converges_to_the_fixed_points(source: str, rewards: str) -> None:
    """Mean over 60 runs; see ``is_below``."""
    mrps = two_chains()
    rng = np.random.default_rng(2)
    copies = 60
    path = mrps.trajectory(rng, (copies,), rewards=rewards)

    def observe(t: int) -> TDObservation:
        if source == "trajectory":
            return next(path)
        return mrps.observe(*mrps.sample(rng, (copies,)), rewards=rewards)

    algorithm = AffPCL()
    start = Start(np.zeros((copies, 3, 2)), np.zeros((copies, 2 if rewards == "linear" else 3)))
    agents = Sampling(observe, Steps.diminishing(t0=100, lam=0.2))
    *_, (state, _) = rounds(algorithm, agents, algorithm.init(start), 3000)
    initial = (mrps.x_star**2).sum(axis=-1).mean()
    errors = ((state.x - mrps.x_star) ** 2).sum(axis=-1)
    assert is_below(errors.mean(axis=-1), 0.02 * initial)
    # Mutation: the fixed points of the other agents are not reached.
    wrong = ((state.x - np.roll(mrps.x_star, 1, axis=0)) ** 2).sum(axis=-1)
    assert not is_below(wrong.mean(axis=-1), 0.02 * initial)


@pytest.mark.parametrize(("gamma", "vanishes"), [(0.0, True), (0.5, False)])
def test_linear_reward_model_leaves_nothing_to_correct_without_discount(
    gamma: float, vanishes: bool
) -> None:
    mrps = two_chains(gamma)
    system = mrps.to_finite_system()
    o, o_next = mrps.sample(np.random.default_rng(0), (50,))
    linear = mrps.observe(o, o_next).central_residual(
        system.x_star_central, system.theta_star_central
    )
    assert (np.abs(linear).max() < 1e-12) == vanishes
    visits = mrps.stationary.sum(axis=0)
    table = (mrps.stationary * mrps.mean_rewards).sum(axis=0) / visits
    tabular = mrps.observe(o, o_next, rewards="tabular")
    assert np.abs(tabular.central_residual(system.x_star_central, table)).max() > 1e-2


def test_unknown_density_ratio_is_refused() -> None:
    one = np.ones((1, 1))
    seen = TDObservation(one, one, np.ones(1), one, 0.5)
    assert isinstance(seen, Observation)
    with pytest.raises(InputError, match="`rho` must be given"):
        seen.density_ratio()


# -- SARSA


def test_independent_sarsa_equals_a_plain_loop() -> None:
    mdps, rounds, alpha, beta = family(), 60, 0.1, 2.0
    uniforms = list(td._uniforms(4, 2, mdps.n, rounds + 1, chunk=7))

    def choose(distribution: Any, u: float) -> int:
        return min(
            int(np.searchsorted(np.cumsum(distribution), u, side="right")), len(distribution) - 1
        )

    def loop(sign: float) -> Any:
        total = np.zeros((2, mdps.n, mdps.d))
        for r, i in itertools.product(range(2), range(mdps.n)):
            x = np.zeros(mdps.d)
            o = int(uniforms[0][r, i, 0] * mdps.n_states)
            a = choose(softmax_policy(mdps.features[o] @ x, beta), uniforms[0][r, i, 1])
            for t in range(1, rounds + 1):
                o_next = choose(mdps.P[i, o, a], uniforms[t][r, i, 0])
                policy = softmax_policy(mdps.features[o_next] @ x, beta)
                a_next = choose(policy, uniforms[t][r, i, 1])
                phi, phi_next = mdps.features[o, a], mdps.features[o_next, a_next]
                delta = mdps.R[i, o, a] + sign * mdps.gamma * phi_next @ x - phi @ x
                x = x + alpha * delta * phi
                o, a = o_next, a_next
            total[r, i] = x
        return total

    state = last(Independent(), mdps, rounds, beta=beta, replicates=2)
    np.testing.assert_allclose(state.x, loop(+1.0), rtol=1e-12, atol=1e-14)
    assert np.abs(state.x - loop(-1.0)).max() > 1e-3  # mutation: the sign of the bootstrap


METHODS: dict[str, Callable[[], Collaborative[Any]]] = {
    "AffPCL, estimated": lambda: AffPCL(ratio=VisitationRatio(3)),
    "AffPCL, known": AffPCL,
    "AffPCL, none": lambda: AffPCL(ratio="none"),
    "AffPCL (5)": lambda: AffPCL(correction="bias", center="implicit"),
    "Independent": Independent,
    "FedAvg": FedAvg,
    "FineTuning": lambda: FineTuning(switch=20),
    "PFedMe": lambda: PFedMe(1.0),
    "Ditto": lambda: Ditto(1.0),
    "Clustered": lambda: Clustered(clusters=2),
}


@pytest.mark.parametrize("name", METHODS)
def test_replicates_do_not_depend_on_each_other(name: str) -> None:
    algorithm, mdps = METHODS[name](), family()
    one = algorithm.personal(last(algorithm, mdps, 50, replicates=1))
    three = algorithm.personal(last(algorithm, mdps, 50, replicates=3))
    np.testing.assert_allclose(three[:1], one, rtol=1e-12, atol=1e-14)
    assert np.abs(three[1] - three[0]).max() > 1e-3
    other = algorithm.personal(last(algorithm, mdps, 50, replicates=1, seed=5))
    assert np.abs(other - one).max() > 1e-3


@pytest.mark.parametrize("name", ["AffPCL, estimated", "AffPCL, known", "Independent", "FedAvg"])
def test_permuting_agents_permutes_the_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, mdps = METHODS[name](), family()
    order = np.array([2, 0, 1])
    shuffled = MarkovDecisionProcesses(mdps.P[order], mdps.R[order], mdps.gamma, mdps.features)
    plain = algorithm.personal(last(algorithm, mdps, 80))
    unpermuted = algorithm.personal(last(algorithm, shuffled, 80))
    original = td._uniforms

    def permuted(*arguments: Any) -> Iterator[Any]:
        return (u[:, order] for u in original(*arguments))

    monkeypatch.setattr(td, "_uniforms", permuted)
    result = algorithm.personal(last(algorithm, shuffled, 80))
    np.testing.assert_allclose(result, plain[:, order], rtol=1e-9, atol=1e-12)
    assert np.abs(unpermuted - plain[:, order]).max() > 1e-3  # other samples, another run


@pytest.mark.parametrize("name", ["AffPCL, estimated", "AffPCL, known", "AffPCL, none"])
def test_one_agent_learns_as_if_alone(name: str) -> None:
    mdps = family(n=1)
    alone = last(Independent(), mdps, 80).x
    np.testing.assert_allclose(last(METHODS[name](), mdps, 80).x, alone, rtol=1e-10, atol=1e-13)
    two = family(n=2)
    assert np.abs(last(METHODS[name](), two, 80).x - last(Independent(), two, 80).x).max() > 1e-3


@pytest.mark.slow
def test_sarsa_with_fixed_policies_converges_to_the_projected_fixed_points() -> None:
    """beta = 0 keeps all policies uniform; see ``is_below``."""
    mdps = family()
    target = mdps.under(np.full((3, 3, 2), 0.5)).x_star
    steps = Steps.diminishing(t0=200, lam=0.1)
    algorithm = AffPCL(ratio=VisitationRatio(3))
    *_, (_, state) = sarsa(algorithm, mdps, steps, 4000, beta=0.0, replicates=40)
    errors = ((state.x - target) ** 2).sum(axis=-1).mean(axis=-1)
    assert is_below(errors, 0.05 * (target**2).sum(axis=-1).mean())
    wrong = ((state.x - np.roll(target, 1, axis=0)) ** 2).sum(axis=-1).mean(axis=-1)
    assert not is_below(wrong, 0.05 * (target**2).sum(axis=-1).mean())


# -- Density ratios


def ratio_table(laws: Any, policies: Any) -> Any:
    """rho^i at every (o, a), by the formula."""
    joint = laws[..., None] * policies
    return joint / joint.mean(axis=-3, keepdims=True)


def test_density_ratio_at_samples_is_the_table_of_the_formula() -> None:
    rng = np.random.default_rng(1)
    laws = rng.dirichlet(np.ones(4), size=(6, 3))
    policies = rng.dirichlet(np.ones(2), size=(6, 3, 4))
    o, a = rng.integers(4, size=(6, 3)), rng.integers(2, size=(6, 3))
    rho = action_density_ratio(laws, policies, o, a)
    table = ratio_table(laws, policies)
    for r, i, j in itertools.product(range(6), range(3), range(3)):
        assert rho[r, i, j] == pytest.approx(table[r, i, o[r, j], a[r, j]], rel=1e-14)
    np.testing.assert_allclose(rho.mean(axis=-2), 1, rtol=1e-14)
    assert rho.max() <= 3
    swapped = action_density_ratio(laws, policies, o, 1 - a)  # mutation: the other action
    assert np.abs(swapped - rho).max() > 0.1


def test_sample_that_no_agent_would_make_now_has_ratio_zero() -> None:
    policies = np.array([[[1.0, 0.0]], [[1.0, 0.0]]])
    rho = action_density_ratio(np.ones((2, 1)), policies, np.zeros(2, int), np.array([0, 1]))
    np.testing.assert_array_equal(rho, [[1.0, 0.0], [1.0, 0.0]])


@pytest.mark.slow
def test_estimated_ratio_converges_to_the_exact_one() -> None:
    """The mean squared error over 150 runs with fixed policies; see ``is_below``."""
    mdps = family(delta_env=1.0)
    uniform = np.full((3, 3, 2), 0.5)
    exact = ratio_table(mdps.stationary(uniform), uniform)
    algorithm = AffPCL(ratio=VisitationRatio(3))
    errors = {}
    for t, state in sarsa(algorithm, mdps, Steps.constant(0.1), 4000, beta=0.0, replicates=150):
        if t in (100, 4000):
            assert (state.ratio.sum(axis=-1) == t).all()
            errors[t] = ((ratio_table(state.ratio, uniform) - exact) ** 2).mean(axis=(1, 2, 3))
    # It falls like 1 / t, by 40; the limit is in between, and far below what the ratio of another
    # agent would give.
    limit = 0.0025
    assert is_below(errors[4000], limit)
    assert is_below(-errors[100], -limit)
    assert ((np.roll(exact, 1, axis=0) - exact) ** 2).mean() > 5 * limit


def test_exact_ratio_of_an_observation_is_that_of_the_stationary_laws() -> None:
    mdps = family()
    policies = softmax_policy(np.random.default_rng(0).standard_normal((5, 3, 3, 2)), 1.0)
    o, a = np.ones((5, 3), int), np.zeros((5, 3), int)
    zero = np.zeros((5, 3, 4))
    seen = td.SarsaObservation(
        zero, zero, zero[..., 0], zero, 0.3, o=o, a=a, policies=policies, mdps=mdps
    )
    expected = ratio_table(mdps.stationary(policies), policies)[:, :, 1, 0]
    for j in range(3):
        np.testing.assert_allclose(seen.density_ratio()[..., j], expected, rtol=1e-12)


def tuples(o: Any, a: Any) -> td.SarsaObservation:
    """What three agents with different policies did, without features."""
    zero = np.zeros((3, 4))
    first = np.array([0.5, 0.2, 0.9])[:, None] * np.ones(3)
    return td.SarsaObservation(
        zero,
        zero,
        zero[:, 0],
        zero,
        0.3,
        o=np.asarray(o),
        a=np.asarray(a),
        policies=np.stack([first, 1 - first], axis=-1),
        mdps=family(),
    )


def test_visits_of_inactive_agents_are_not_counted() -> None:
    estimator = VisitationRatio(3)
    assert isinstance(estimator, RatioEstimator)
    active = np.array([[1.0], [0.0], [1.0]])
    counted = estimator.update(
        estimator.init(np.zeros((3, 4))), tuples([0, 1, 2], [0, 0, 0]), 0.0, active
    )
    np.testing.assert_array_equal(counted, np.diag([1.0, 0.0, 1.0]))


def test_unequal_participation_does_not_bias_the_ratio() -> None:
    """Agents with one law of which one took part ten times as often: the ratio is one."""
    estimator = VisitationRatio(3)
    counts = np.array([[300.0, 300.0, 300.0], [30.0, 30.0, 30.0], [30.0, 30.0, 30.0]])
    seen = tuples([0, 1, 2], [0, 0, 0])
    policies = np.full_like(seen.policies, 0.5)
    rho = estimator.ratio(counts, replace(seen, policies=policies))
    assert np.abs(rho - 1.0).max() < 0.05
    raw = action_density_ratio(counts, policies, seen.o, seen.a)
    assert np.abs(raw - 1.0).max() > 1.0


def test_first_ratio_knows_the_current_states_only() -> None:
    estimator = VisitationRatio(3)
    rho = estimator.ratio(estimator.init(np.zeros((3, 4))), tuples([1, 1, 2], [0, 1, 0]))
    # Agents 0 and 1 are in state 1 with pi(0|1) = 0.5 and 0.2; agent 2 is alone in state 2.
    expected = [[0.5 / 0.7, 0.5 / 1.3, 0], [0.2 / 0.7, 0.8 / 1.3, 0], [0, 0, 1]]
    np.testing.assert_allclose(rho, 3 * np.array(expected))


@pytest.mark.slow
def test_central_table_of_common_rewards_is_learned_exactly() -> None:
    mdps = family(delta_obj=0.0)
    state = last(AffPCL(), mdps, 3000, beta=0.0, replicates=2)
    error = np.abs(state.theta[:, 0] - mdps.R[0].ravel())
    assert error.max() < 1e-9
    assert np.abs(np.roll(state.theta[:, 0], 1, axis=-1) - mdps.R[0].ravel()).max() > 0.1


# -- Refusals


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rounds": -1}, "`rounds` must be a whole number"),
        ({"beta": -1.0}, "`beta` must be a number in"),
        ({"beta": math.inf}, "`beta` must be a number in"),
        ({"replicates": 0}, "`replicates` must be a whole number of at least 1"),
        ({"rewards": "none"}, "`rewards` must be one of tabular, linear"),
        ({"steps": Steps.constant(50.0), "rounds": 300}, r"`steps` must be small enough.*= 65"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], said: str) -> None:
    good = {"steps": Steps.constant(0.1), "rounds": 3, "beta": 1.0}
    assert len(list(sarsa(Independent(), family(), **good))) == 4
    with pytest.raises(InputError, match=said):
        list(sarsa(Independent(), family(), **{**good, **options}))


def test_states_that_are_not_counted_are_refused() -> None:
    with pytest.raises(InputError, match="`states` must be above every observed state; found 2"):
        list(sarsa(AffPCL(ratio=VisitationRatio(2)), family(), 0.1, 9, beta=1.0))


def test_no_states_to_count_are_refused() -> None:
    with pytest.raises(InputError, match="`states` must be a whole number of at least 1"):
        VisitationRatio(0)
