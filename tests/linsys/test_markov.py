"""Markov reward processes and tabular MDPs: exact solves, identities, sampling, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from linsys import InputError
from linsys.heterogeneity import nu
from linsys.systems.chains import stationary_distribution
from linsys.systems.markov_reward import MarkovRewardProcesses
from linsys.systems.mdp import MarkovDecisionProcesses, sample_mdps, softmax_policy

#: Chance that any one statistical assertion fails for a correct program.
FAILURE = 1e-7

seeds = st.integers(0, 2**32 - 1)
gammas = st.sampled_from([0.0, 0.1, 0.5, 0.9])


def random_mrps(
    seed: int, *, n: int = 3, size: int = 4, d: int = 2, gamma: float = 0.5, unit: bool = False
) -> MarkovRewardProcesses:
    """Chains with all transitions possible, hence irreducible; Gaussian features have rank d."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((size, d))
    if unit:
        features /= np.linalg.norm(features, axis=1, keepdims=True)
    return MarkovRewardProcesses(
        P=rng.dirichlet(np.ones(size), size=(n, size)),
        R=rng.uniform(-1, 1, (n, size, size)),
        gamma=gamma,
        features=features,
    )


def small_mdps(seed: int = 0, **changes: Any) -> MarkovDecisionProcesses:
    options = {"n": 3, "states": 4, "actions": 3, "d": 5, "gamma": 0.6}
    return sample_mdps(seed, **{**options, "delta_env": 0.5, "delta_obj": 0.5, **changes})


def random_policy(mdps: MarkovDecisionProcesses, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(mdps.n_actions), size=(mdps.n, mdps.n_states))


def hoeffding(samples: int, width: float, statements: int) -> float:
    """Radius within which all means of ``samples`` bounded terms lie, but for FAILURE."""
    return width * math.sqrt(math.log(2 * statements / FAILURE) / (2 * samples))


# -- Markov reward processes


@given(seeds, gammas)
def test_values_solve_the_bellman_equation(seed: int, gamma: float) -> None:
    mrps = random_mrps(seed, gamma=gamma)
    residual = np.abs(mrps.bellman(mrps.values) - mrps.values).max()
    assert residual < 1e-12 / (1 - gamma)
    wrong = random_mrps(seed, gamma=gamma / 2 + 0.02).values
    assert np.abs(mrps.bellman(wrong) - wrong).max() > 1e-12 / (1 - gamma)


@given(seeds, gammas)
def test_fixed_points_solve_the_projected_bellman_equation(seed: int, gamma: float) -> None:
    mrps = random_mrps(seed, gamma=gamma)

    def projected_residual(weights: Any) -> float:
        values = mrps.x_star @ mrps.features.T
        error = mrps.bellman(values) - values
        return float(np.abs((weights * error) @ mrps.features).max())

    scale = 1.0 + np.abs(mrps.x_star).max() * np.abs(mrps.features).max() ** 2
    assert projected_residual(mrps.stationary) < 1e-12 * scale
    # The projection is in the norm of the stationary law, not of equal weights.
    assert projected_residual(np.full_like(mrps.stationary, 0.25)) > 1e-12 * scale


@given(seeds, gammas)
def test_finite_system_has_the_same_solutions(seed: int, gamma: float) -> None:
    mrps = random_mrps(seed, gamma=gamma)
    np.testing.assert_allclose(mrps.to_finite_system().x_star, mrps.x_star, rtol=1e-9, atol=1e-12)


def test_tabular_features_give_the_values_themselves() -> None:
    mrps = random_mrps(0, size=4, d=4)
    tabular = MarkovRewardProcesses(mrps.P, mrps.R, mrps.gamma, np.eye(4))
    np.testing.assert_allclose(tabular.x_star, tabular.values, rtol=1e-12)


@given(seeds)
def test_without_discount_values_are_rewards(seed: int) -> None:
    mrps = random_mrps(seed, gamma=0.0)
    np.testing.assert_array_equal(mrps.values, mrps.mean_rewards)
    for i in range(mrps.n):  # and x_* is the weighted regression of the rewards
        root = np.sqrt(mrps.stationary[i])
        fit = np.linalg.lstsq(root[:, None] * mrps.features, root * mrps.mean_rewards[i])[0]
        np.testing.assert_allclose(mrps.x_star[i], fit, rtol=1e-9, atol=1e-12)


@given(seeds, gammas)
def test_mean_matrix_is_at_least_a_share_of_the_feature_covariance(seed: int, gamma: float) -> None:
    """sym(Abar^i) >= (1 - gamma) E phi phi', Bhandari et al. (2018, Lemma 3)."""
    mrps = random_mrps(seed, gamma=gamma, unit=True)
    A_bar = mrps.to_finite_system().A_bar
    symmetric = (A_bar + np.swapaxes(A_bar, 1, 2)) / 2
    covariance = np.einsum("no,oi,oj->nij", mrps.stationary, mrps.features, mrps.features)
    slack = np.linalg.eigvalsh(symmetric - (1 - gamma) * covariance)
    assert slack.min() > -1e-13
    if gamma > 0:  # mutation: no larger factor holds by accident
        assert np.linalg.eigvalsh(symmetric - (1 + gamma) * covariance).min() < -1e-13


def test_stochastic_condition_number_exceeds_the_stated_constant() -> None:
    """Example 6 states nu <= (1 + gamma) / (1 - gamma) for unit features; this chain has more.

    Its proof goes from Dbar <= c sym(Abar) to the norm of Dbar Abar^{-1}, which does not follow.
    """
    features = np.array([[0.1, 0.7, -0.6], [0.8, 0.0, -0.5], [0.6, -0.7, 0.0]])
    mrps = MarkovRewardProcesses(
        P=[[[0, 1, 0], [0, 1 / 3, 2 / 3], [1, 0, 0]]],
        R=np.zeros((1, 3, 3)),
        gamma=0.5,
        features=features / np.linalg.norm(features, axis=1, keepdims=True),
    )
    assert nu(mrps.to_finite_system()).value > 2 * (1 + mrps.gamma) / (1 - mrps.gamma)


@given(seeds)
def test_transitions_look_the_same_through_both_observations(seed: int) -> None:
    mrps = random_mrps(seed)
    rng = np.random.default_rng(seed)
    o, o_next = mrps.sample(rng, (5,))
    ours = mrps.observe(o, o_next)
    theirs = mrps.to_finite_system().observe(o * mrps.n_states + o_next)
    x, theta = rng.standard_normal((2, 5, mrps.n, mrps.d))
    pairs = [
        (ours.residual(x), theirs.residual(x)),
        (ours.central_residual(x, theta), theirs.central_residual(x, theta)),
        (ours.objective_residual(theta), theirs.objective_residual(theta)),
        (ours.density_ratio(), theirs.density_ratio()),
    ]
    for mine, other in pairs:
        np.testing.assert_allclose(mine, other, rtol=1e-11, atol=1e-12)


def test_linear_rewards_are_recognised() -> None:
    mrps = random_mrps(3)
    assert mrps.to_finite_system().theta is None
    theta = np.arange(6.0).reshape(3, 2)
    rewards = np.repeat((theta @ mrps.features.T)[:, :, None], mrps.n_states, axis=2)
    linear = MarkovRewardProcesses(mrps.P, rewards, mrps.gamma, mrps.features)
    objective = linear.to_finite_system().theta
    assert objective is not None
    np.testing.assert_allclose(objective, theta, atol=1e-12)


@given(seeds)
def test_permuting_agents_permutes_the_solutions(seed: int) -> None:
    mrps = random_mrps(seed)
    order = np.random.default_rng(seed).permutation(mrps.n)
    permuted = MarkovRewardProcesses(mrps.P[order], mrps.R[order], mrps.gamma, mrps.features)
    for name in ("stationary", "values", "x_star", "rho"):
        np.testing.assert_allclose(getattr(permuted, name), getattr(mrps, name)[order], rtol=1e-12)


@given(seeds)
def test_stationary_law_is_kept_by_the_kernel(seed: int) -> None:
    mrps = random_mrps(seed)
    moved = (mrps.stationary[:, None] @ mrps.P)[:, 0]
    np.testing.assert_allclose(moved, mrps.stationary, rtol=1e-13)
    np.testing.assert_allclose(mrps.stationary.sum(axis=1), 1, rtol=1e-15)


def test_periodic_chains_have_a_stationary_law() -> None:
    cycle = np.roll(np.eye(3), 1, axis=1)
    np.testing.assert_allclose(stationary_distribution(cycle), 1 / 3)


@pytest.mark.parametrize("leak", [1e-4, 1e-12, 1e-16, 1e-200])
def test_chains_that_hardly_leave_a_state_lose_no_digits(leak: float) -> None:
    slow = np.array([[1 - leak, leak], [2 * leak, 1 - 2 * leak]])
    np.testing.assert_allclose(stationary_distribution(slow), [2 / 3, 1 / 3], rtol=1e-14)
    rare = np.array([[1 - leak, leak], [0.5, 0.5]])
    expected = np.array([0.5, leak]) / (0.5 + leak)
    np.testing.assert_allclose(stationary_distribution(rare), expected, rtol=1e-14)


def test_transient_states_have_no_share_wherever_they_are_numbered() -> None:
    chain = np.array([[0.2, 0.3, 0.5], [0.0, 0.5, 0.5], [0.0, 1.0, 0.0]])
    for order in itertools.permutations(range(3)):
        turned = chain[np.ix_(order, order)]
        law = stationary_distribution(np.stack([turned, np.full((3, 3), 1 / 3)]))
        np.testing.assert_allclose(law[0], np.array([0, 2, 1])[list(order)] / 3, atol=1e-15)
        np.testing.assert_allclose(law[1], 1 / 3, rtol=1e-15)


@pytest.mark.parametrize("source", ["independent", "trajectory"])
def test_samples_follow_the_pair_distribution(source: str) -> None:
    """Fails for a correct program with probability below 1e-7 (Hoeffding over copies)."""
    mrps = random_mrps(5)
    rng = np.random.default_rng(17)
    copies = 40_000
    if source == "independent":
        o, o_next = mrps.sample(rng, (copies,))
    else:  # the third transition of each of many independent trajectories
        tabular = MarkovRewardProcesses(mrps.P, mrps.R, mrps.gamma, np.eye(mrps.n_states))
        path = tabular.trajectory(rng, (copies,))
        seen = [next(path) for _ in range(3)]
        np.testing.assert_array_equal(seen[1].phi_next, seen[2].phi)
        o, o_next = (np.argmax(phi, axis=-1) for phi in (seen[2].phi, seen[2].phi_next))
    share = np.zeros_like(mrps.P)
    for i in range(mrps.n):
        np.add.at(share[i], (o[:, i], o_next[:, i]), 1 / copies)
    radius = hoeffding(copies, 1.0, share.size)
    assert np.abs(share - mrps.pair_distribution).max() < radius
    wrong = np.swapaxes(mrps.pair_distribution, 1, 2)  # mutation: transitions backwards
    assert np.abs(share - wrong).max() > radius


def test_values_are_mean_discounted_returns() -> None:
    """Fails for a correct program with probability below 1e-7 (Hoeffding over returns)."""
    mrps = random_mrps(6, n=2, gamma=0.5)
    rng = np.random.default_rng(23)
    copies, horizon = 20_000, 40
    start = np.repeat(np.arange(mrps.n_states), copies).reshape(mrps.n_states, copies)
    o = np.repeat(start[..., None], mrps.n, axis=-1)
    total = np.zeros(o.shape)
    for h in range(horizon):
        o_next = mrps.step(o, rng.random(o.shape))
        total += mrps.gamma**h * mrps.R[np.arange(mrps.n), o, o_next]
        o = o_next
    tail = mrps.gamma**horizon * 2
    radius = hoeffding(copies, 2 / (1 - mrps.gamma), mrps.values.size) + tail
    mean = total.mean(axis=1).T
    assert np.abs(mean - mrps.values).max() < radius
    assert np.abs(mean - mrps.mean_rewards).max() > radius  # mutation: the discount forgotten


GOOD: dict[str, Any] = {
    "P": np.full((2, 2, 2), 0.5),
    "R": np.zeros((2, 2, 2)),
    "gamma": 0.5,
    "features": np.eye(2),
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gamma": 1.0}, r"`gamma` must be a number in \[0, 1\); found 1"),
        ({"gamma": math.nan}, "`gamma` must be a number"),
        ({"P": np.full((2, 2, 2), 0.4)}, r"row \(0, 0\) of `P` must sum to 1; found 0.8"),
        ({"P": [[[1.5, -0.5], [0.5, 0.5]]] * 2}, r"`P` must be non-negative; found -0.5"),
        ({"P": [[[0.5, 0.5], [0.0, 1.0]]] * 2}, r"irreducible.*states \[1\] are never left"),
        ({"P": [np.full((2, 2), 0.5), np.eye(2)]}, r"`P`\[1\] must be irreducible"),
        ({"P": np.zeros((0, 2, 2))}, "`P` must not be empty"),
        ({"R": np.zeros((2, 2))}, r"`R` must have shape \(n, O, O\)"),
        ({"R": np.full((2, 2, 2), np.nan)}, "`R` must be finite"),
        ({"features": np.ones((2, 2))}, "`features` must have rank 2.*found 1"),
        ({"features": np.eye(3)}, r"`features` must have shape \(O, d\)"),
    ],
)
def test_bad_processes_are_refused(changes: dict[str, Any], said: str) -> None:
    MarkovRewardProcesses(**GOOD)
    with pytest.raises(InputError, match=said):
        MarkovRewardProcesses(**{**GOOD, **changes})


def test_unknown_reward_model_is_refused() -> None:
    mrps = MarkovRewardProcesses(**GOOD)
    with pytest.raises(InputError, match="`rewards` must be one of linear, tabular"):
        mrps.observe(np.zeros(2, int), np.zeros(2, int), rewards="none")


# -- Markov decision processes


@given(seeds, gammas)
def test_optimal_values_solve_the_optimality_equation(seed: int, gamma: float) -> None:
    mdps = small_mdps(seed, gamma=gamma)
    q = mdps.optimal_q(1e-13)
    scale = np.abs(mdps.R).max() / (1 - gamma)
    assert np.abs(mdps.backup(q.max(axis=-1)) - q).max() < 1e-12 * scale
    worse = mdps.policy_q(random_policy(mdps, seed))
    assert (worse <= q + 1e-12 * scale).all()
    greedy = np.eye(mdps.n_actions)[q.argmax(axis=-1)]
    np.testing.assert_allclose(mdps.policy_q(greedy), q, atol=1e-11 * scale)
    if gamma > 0:  # mutation: the values of another policy are not optimal
        assert np.abs(mdps.backup(worse.max(axis=-1)) - worse).max() > 1e-12 * scale


def test_tolerance_of_value_iteration_is_kept() -> None:
    mdps = small_mdps(1, gamma=0.9)
    exact = mdps.optimal_q(1e-15)
    scale = np.abs(mdps.R).max() / (1 - mdps.gamma)
    for tolerance in (1e-1, 1e-3, 1e-6):
        gap = np.abs(mdps.optimal_q(tolerance) - exact).max() / scale
        assert gap <= tolerance
        assert gap > tolerance / 1000  # it stops when the tolerance is reached


@given(seeds, gammas)
def test_policy_values_agree_with_the_induced_reward_process(seed: int, gamma: float) -> None:
    mdps = small_mdps(seed, gamma=gamma)
    policy = random_policy(mdps, seed)
    induced = mdps.under(policy)
    q = mdps.policy_q(policy)
    np.testing.assert_allclose(induced.values.reshape(q.shape), q, rtol=1e-10, atol=1e-11)
    law = (mdps.stationary(policy)[..., None] * policy).reshape(mdps.n, -1)
    np.testing.assert_allclose(induced.stationary, law, rtol=1e-10)


def test_softmax_values_belong_to_their_own_policy() -> None:
    mdps = small_mdps(2)
    for beta in (0.0, 0.1, 1.0):
        q = mdps.softmax_q(beta)
        np.testing.assert_allclose(mdps.policy_q(softmax_policy(q, beta)), q, atol=1e-11)
        other = mdps.policy_q(softmax_policy(q, beta + 1.0))  # mutation: another temperature
        assert np.abs(other - q).max() > 1e-3


def test_softmax_of_large_values_does_not_overflow() -> None:
    policy = softmax_policy(np.array([[1e6, 0.0], [0.0, 0.0]]), 10.0)
    np.testing.assert_array_equal(policy, [[1.0, 0.0], [0.5, 0.5]])


def test_projection_is_orthogonal_in_its_weights() -> None:
    mdps = small_mdps(3)
    policy = random_policy(mdps, 3)
    q = mdps.policy_q(policy)
    law = mdps.stationary(policy)[..., None] * policy
    for weights in (None, law):
        error = q - mdps.q_values(mdps.project(q, weights))
        w = np.ones_like(q) if weights is None else weights
        inner = np.einsum("noa,oad->nd", w * error, mdps.features)
        assert np.abs(inner).max() < 1e-12
    gap = mdps.project(q) - mdps.project(q, law)
    assert np.abs(gap).max() > 1e-3  # the two projections are different ones


def test_full_features_represent_everything() -> None:
    mdps = small_mdps(4, d=12)
    q = mdps.optimal_q()
    np.testing.assert_allclose(mdps.q_values(mdps.project(q)), q, atol=1e-9)


def test_levels_share_one_nominal_process() -> None:
    none, half, full = (small_mdps(5, delta_env=v, delta_obj=v) for v in (0.0, 0.5, 1.0))
    np.testing.assert_array_equal(none.P, np.broadcast_to(none.P[0], none.P.shape))
    np.testing.assert_array_equal(none.R, np.broadcast_to(none.R[0], none.R.shape))
    np.testing.assert_allclose(full.R - none.R, 2 * (half.R - none.R), atol=1e-15)
    assert -1 <= (full.R - none.R).min() < -0.5
    assert 0.5 < (full.R - none.R).max() <= 1
    np.testing.assert_array_equal(none.features, full.features)
    np.testing.assert_allclose(np.linalg.norm(full.features, axis=-1), 1, rtol=1e-14)
    assert np.abs(full.P - full.P[:1]).max() > 0.05
    other = small_mdps(6, delta_env=0.0, delta_obj=0.0)
    assert np.abs(other.R - none.R).max() > 0.1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n": 0}, "`n` must be a whole number of at least 1"),
        ({"d": 13}, r"`d` must be at most states \* actions = 12; found 13"),
        ({"gamma": 1.0}, "`gamma` must be a number in"),
        ({"delta_env": -0.1}, "`delta_env` must be a number in"),
        ({"delta_obj": math.inf}, "`delta_obj` must be a number in"),
    ],
)
def test_bad_families_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        small_mdps(0, **changes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: {"P": m.P * 0.9}, r"row .* of `P` must sum to 1"),
        (lambda m: {"P": np.broadcast_to(np.eye(4)[:, None], m.P.shape)}, "must be irreducible"),
        (lambda m: {"R": m.R[:, :, :1]}, r"`R` must have shape \(n, O, A\)"),
        (lambda m: {"features": np.zeros_like(m.features)}, "`features` must have rank 5"),
    ],
)
def test_bad_decision_processes_are_refused(change: Any, said: str) -> None:
    mdps = small_mdps(0)
    good = {"P": mdps.P, "R": mdps.R, "gamma": mdps.gamma, "features": mdps.features}
    with pytest.raises(InputError, match=said):
        MarkovDecisionProcesses(**{**good, **change(mdps)})


def test_bad_policies_and_weights_are_refused() -> None:
    mdps = small_mdps(0)
    with pytest.raises(InputError, match="of `policy` must sum to 1"):
        mdps.policy_q(np.zeros((3, 4, 3)))
    with pytest.raises(InputError, match=r"`policy` must have shape \(n, O, A\)"):
        mdps.under(np.full((3, 4, 2), 0.5))
    with pytest.raises(InputError, match="`weights` must be non-negative"):
        mdps.project(mdps.R, -np.ones_like(mdps.R))
    with pytest.raises(InputError, match="`tolerance` must be a number"):
        mdps.optimal_q(0.0)
