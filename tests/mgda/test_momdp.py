"""Tabular MOMDPs: values, gradients and Hessians against enumeration and differences; refusals."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from linsys import InputError
from mgda.chains import check_ergodic
from mgda.instances import heterogeneous, sample_momdp
from mgda.momdp import MOMDP

seeds = st.integers(0, 2**32 - 1)
gammas = st.sampled_from([0.0, 0.3, 0.8])

#: Central differences with step H: truncation is below H^2 / 6 times a third derivative, which for
#: gamma <= 0.8 is below 6 C_psi^3 / (1 - gamma)^4 (three sums over time), so below 2e-7; rounding
#: of values up to 5 is below 1e-10.
H, DIFFERENCE = 1e-5, 2e-7


def instance(seed: int, gamma: float = 0.8, **changes: Any) -> tuple[MOMDP, Any]:
    """A process with rewards of transitions, and a policy."""
    rng = np.random.default_rng(seed)
    momdp = sample_momdp(rng, states=4, actions=3, objectives=2, gamma=gamma)
    momdp = replace(momdp, r=rng.random((4, 3, 4, 2)), **changes)
    return momdp, rng.standard_normal(momdp.d)


def differences(f: Any, theta: Any) -> Any:
    """Central differences along a new first axis."""
    return np.array([(f(theta + H * e) - f(theta - H * e)) / (2 * H) for e in np.eye(len(theta))])


# -- values and gradients


@given(seeds, gammas)
def test_gradients_are_those_of_the_returns(seed: int, gamma: float) -> None:
    momdp, theta = instance(seed, gamma)
    for first in (0, 1):
        slope = differences(lambda t, k=first: momdp.J(t, k), theta)
        assert np.abs(slope - momdp.jac(theta, first)).max() <= DIFFERENCE


def test_gradients_from_the_stationary_law_are_others() -> None:
    """The mutation of the test above: the same theorem with the wrong law of the states."""
    momdp, theta = instance(0)
    policy = momdp.at(theta)
    wrong = policy.direction(policy.V, policy.stationary) / (1 - momdp.gamma)
    assert np.abs(differences(momdp.J, theta) - wrong).max() > 1e4 * DIFFERENCE


@given(seeds, gammas)
def test_hessians_are_those_of_the_returns(seed: int, gamma: float) -> None:
    momdp, theta = instance(seed, gamma)
    slope = np.moveaxis(differences(momdp.jac, theta), -1, 0)
    hessian = momdp.at(theta).hessian()
    assert np.abs(slope - hessian).max() <= DIFFERENCE
    np.testing.assert_array_equal(hessian, np.swapaxes(hessian, -1, -2))


def test_hessians_need_the_change_of_later_values() -> None:
    momdp, theta = instance(0)
    policy = momdp.at(theta)
    local = np.einsum(
        "s,sa,saj,sak,sal->jkl",
        policy.occupancy / (1 - momdp.gamma),
        policy.pi,
        policy.Q - policy.V[:, None],
        policy.psi,
        policy.psi,
    )
    slope = np.moveaxis(differences(momdp.jac, theta), -1, 0)
    assert np.abs(slope - local).max() > 1e3 * DIFFERENCE


def enumerated(momdp: MOMDP, theta: Any, horizon: int) -> tuple[Any, Any]:
    """J and grad J from every trajectory s_0, a_0, .., s_h, each with its probability and score."""
    policy = momdp.at(theta)
    S, A, _, M = momdp.r.shape
    J, gradient = np.zeros(M), np.zeros((momdp.d, M))
    for actions in itertools.product(range(A), repeat=horizon):
        for states in itertools.product(range(S), repeat=horizon + 1):
            chance, score, total = momdp.start[states[0]], np.zeros(momdp.d), np.zeros(M)
            for t, (s, a, after) in enumerate(zip(states, actions, states[1:], strict=False)):
                chance = chance * policy.pi[s, a] * momdp.P[s, a, after]
                score = score + policy.psi[s, a]
                total = total + momdp.gamma**t * momdp.r[s, a, after]
            J += chance * total
            gradient += chance * np.outer(score, total)
    return J, gradient


def test_returns_and_gradients_from_all_trajectories() -> None:
    rng = np.random.default_rng(3)
    momdp = sample_momdp(rng, states=2, actions=2, gamma=0.02)
    momdp = replace(momdp, r=rng.random((2, 2, 2, 2)))
    theta = rng.standard_normal(4)
    horizon = 5
    J, gradient = enumerated(momdp, theta, horizon)
    # what the horizon cuts off: sum_{t >= h} gamma^t r_max, and (t + 1) |psi| <= 2 (t + 1) times it
    tail = 0.02**horizon / 0.98
    assert np.abs(momdp.J(theta) - J).max() <= tail
    assert np.abs(momdp.jac(theta) - gradient).max() <= 2 * (horizon + 2) * tail
    assert np.abs(momdp.J(theta) - 1.001 * J).max() > 1e3 * tail
    assert np.abs(momdp.jac(theta) - 1.001 * gradient).max() > 1e3 * tail


def test_the_papers_sum_starts_at_one() -> None:
    """gamma J if r_{t+1} is the reward of step t; J less the first reward if r_t is."""
    momdp, theta = instance(1)
    policy = momdp.at(theta)
    law, total, other = momdp.start, 0.0, 0.0
    first = np.einsum("sa,saj->sj", policy.pi, momdp.mean_r)
    for t in range(400):
        total = total + momdp.gamma ** (t + 1) * law @ first
        other = other + (momdp.gamma**t * law @ first if t > 0 else 0.0)
        law = law @ policy.kernel
    np.testing.assert_allclose(policy.J(first=1), total, rtol=1e-13)
    np.testing.assert_allclose(policy.J() - momdp.start @ first, other, rtol=1e-13)
    assert np.abs(total - other).max() > 1e-3


@given(seeds, gammas)
def test_values_solve_the_bellman_equation(seed: int, gamma: float) -> None:
    momdp, theta = instance(seed, gamma)
    policy = momdp.at(theta)
    rounding = 1e-13 / (1 - gamma)
    assert np.abs(np.einsum("sa,saj->sj", policy.pi, policy.Q) - policy.V).max() <= rounding
    assert policy.V.min() >= 0
    assert policy.V.max() <= momdp.r_max / (1 - gamma)


def test_features_follow_the_chain_rule() -> None:
    momdp, _ = instance(2)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 3, 5))
    linear = replace(momdp, features=x)
    theta = rng.standard_normal(5)
    flat = x.reshape(12, 5)
    logits = flat @ theta
    np.testing.assert_allclose(linear.J(theta), momdp.J(logits), rtol=1e-13)
    np.testing.assert_allclose(linear.jac(theta), flat.T @ momdp.jac(logits), atol=1e-13)
    np.testing.assert_allclose(
        linear.at(theta).hessian(), flat.T @ momdp.at(logits).hessian() @ flat, atol=1e-12
    )


def test_batches_are_loops() -> None:
    momdp, _ = instance(4)
    thetas = np.random.default_rng(1).standard_normal((2, 3, momdp.d))
    whole = momdp.at(thetas)
    for k, c in itertools.product(range(2), range(3)):
        one = momdp.at(thetas[k, c])
        for name in ("pi", "psi", "kernel", "stationary", "occupancy", "V", "Q"):
            np.testing.assert_allclose(getattr(whole, name)[k, c], getattr(one, name), rtol=1e-13)
        np.testing.assert_allclose(whole.jac()[k, c], one.jac(), atol=1e-15)
        np.testing.assert_allclose(whole.hessian()[k, c], one.hessian(), atol=1e-14)


# -- laws of the states, and what the stochastic gradient estimates


@given(seeds, gammas)
def test_stationary_law_and_occupancy(seed: int, gamma: float) -> None:
    momdp, theta = instance(seed, gamma)
    policy = momdp.at(theta)
    assert np.abs(policy.stationary @ policy.kernel - policy.stationary).max() <= 1e-14
    np.testing.assert_allclose(policy.stationary.sum(), 1.0, rtol=1e-14)
    # the occupancy is the stationary law of the chain that restarts with probability 1 - gamma
    restarted = gamma * policy.kernel + (1 - gamma) * momdp.start
    assert np.abs(policy.occupancy @ restarted - policy.occupancy).max() <= 1e-14
    assert np.abs(policy.stationary @ restarted - policy.stationary).max() > 1e-14


@given(seeds, gammas)
def test_direction_is_the_gradient_from_a_frozen_stationary_law(seed: int, gamma: float) -> None:
    momdp, theta = instance(seed, gamma)
    policy = momdp.at(theta)
    frozen = replace(momdp, mu0=policy.stationary)
    delta = policy.direction(policy.V)
    rounding = 1e-14 / (1 - gamma)
    assert np.abs(delta - (1 - gamma) * frozen.jac(theta)).max() <= rounding
    on_occupancy = policy.direction(policy.V, policy.occupancy)
    assert np.abs(on_occupancy - (1 - gamma) * momdp.jac(theta)).max() <= rounding
    # but not for this process' own mu0, unless nothing follows the first step
    assert np.abs(delta - (1 - gamma) * momdp.jac(theta)).max() > 1e3 * rounding


def test_direction_misses_a_term_of_the_average_reward() -> None:
    """Delta = grad eta - (1 - gamma) sum_s grad d_pi(s) V(s)."""
    momdp, theta = instance(5)
    policy = momdp.at(theta)

    def average(t: Any) -> Any:
        at = momdp.at(t)
        return at.stationary @ np.einsum("sa,saj->sj", at.pi, momdp.mean_r)

    moved = differences(lambda t: momdp.at(t).stationary, theta)
    slope, missing = differences(average, theta), (1 - momdp.gamma) * moved @ policy.V
    delta = policy.direction(policy.V)
    assert np.abs(delta - (slope - missing)).max() <= DIFFERENCE
    assert np.abs(delta - slope).max() > 1e3 * DIFFERENCE


# -- instances


def test_common_rewards_make_gradients_collinear() -> None:
    momdp = sample_momdp(0, common=1.0)
    gradients = momdp.jac(np.linspace(-1, 1, momdp.d))
    np.testing.assert_allclose(gradients[:, 0], gradients[:, 1], rtol=1e-12)
    other = sample_momdp(0, common=0.0).jac(np.linspace(-1, 1, momdp.d))
    assert np.abs(other[:, 0] - other[:, 1]).max() > 1e-3


def test_heterogeneous_clients_keep_the_seed_over_levels() -> None:
    momdp = sample_momdp(0)
    low, high = (heterogeneous(momdp, 7, clients=3, env=level, obj=level) for level in (0.2, 0.6))
    for a, b in zip(low, high, strict=True):
        np.testing.assert_allclose((b.P - momdp.P), 3 * (a.P - momdp.P), atol=1e-15)
        np.testing.assert_allclose((b.r - momdp.r), 3 * (a.r - momdp.r), atol=1e-15)
    assert np.abs(low[0].P - low[1].P).max() > 0


# -- refusals


def valid() -> dict[str, Any]:
    return {"P": np.full((2, 2, 2), 0.5), "r": np.zeros((2, 2, 1)), "gamma": 0.5}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"P": np.full((2, 2, 3), 1 / 3)}, "`P` must have shape"),
        ({"P": np.full((2, 2, 2), 0.6)}, "must sum to 1"),
        ({"P": np.array([[[1.5, -0.5]] * 2, [[0.5, 0.5]] * 2])}, "non-negative"),
        ({"P": np.array([[[np.nan, 1.0]] * 2, [[0.5, 0.5]] * 2])}, "finite"),
        ({"P": np.array([[[0.5, 0.5]] * 2, [[0.0, 1.0]] * 2])}, "found state 1, from which state"),
        ({"P": np.array([[[0.0, 1.0]] * 2, [[1.0, 0.0]] * 2])}, "found period 2 at state 0"),
        ({"r": np.zeros((2, 3, 1))}, "`r` must have shape"),
        ({"r": np.zeros((2, 2))}, "`r` must have shape"),
        ({"r": np.full((2, 2, 1), 1.5)}, r"`r` must be in \[0, 1\]; found 1.5"),
        ({"r": np.full((2, 2, 2, 1), -0.1)}, r"found -0.1 at index \(0, 0, 0, 0\)"),
        ({"r": np.full((2, 2, 1), np.nan)}, "finite"),
        ({"r_max": 0.0}, "`r_max`"),
        ({"gamma": 1.0}, "`gamma`"),
        ({"gamma": -0.1}, "`gamma`"),
        ({"gamma": float("nan")}, "`gamma`"),
        ({"mu0": [0.5, 0.6]}, "`mu0` must sum to 1"),
        ({"mu0": [1.0]}, "`mu0` must have shape"),
        ({"features": np.ones((2, 2, 2))}, "`features` must have rank 2"),
        ({"features": np.ones((2, 3, 1))}, "`features` must have shape"),
    ],
)
def test_bad_processes(change: dict[str, Any], text: str) -> None:
    MOMDP(**valid())
    with pytest.raises(InputError, match=text):
        MOMDP(**{**valid(), **change})


@pytest.mark.parametrize(
    "theta", [np.zeros(3), np.float64(0.0), np.full(4, np.nan), np.full(4, np.inf), ["a"] * 4]
)
def test_bad_parameters(theta: Any) -> None:
    with pytest.raises(InputError, match="`theta`"):
        MOMDP(**valid()).at(theta)


def test_an_action_of_probability_zero_may_break_the_chain() -> None:
    P = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])
    momdp = MOMDP(P=P, r=np.zeros((2, 2, 1)), gamma=0.5)
    np.testing.assert_allclose(momdp.at([30.0, 0.0, 0.0, 0.0]).stationary.sum(), 1.0)
    with pytest.raises(InputError, match="`theta` must give an irreducible chain; found state 0"):
        _ = momdp.at([800.0, 0.0, 0.0, 0.0]).stationary


@pytest.mark.parametrize("period", [2, 3, 5])
def test_periods_are_found(period: int) -> None:
    cycle = np.roll(np.eye(period), 1, axis=1)
    with pytest.raises(InputError, match=f"period {period}"):
        check_ergodic("P", cycle)
    chord = cycle.copy()
    chord[0, 0] = 1.0  # a loop makes it aperiodic
    check_ergodic("P", chord)
