"""P-ShareLoRA's rates and policies: formulas computed in another way."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from experiments.psharelora.claims import main_theorems, value_gaps
from experiments.psharelora.theory import rates as at, values as values
from experiments.psharelora.theory.pessimism import Pessimist, against, choosers
from experiments.psharelora.theory.preference import Pairs
from experiments.psharelora.theory.subspace import Adaptation, flat, sine
from experiments.psharelora.theory.unseen import turned
from linsys.preference.coverage import concentrability, subspace_information
from linsys.preference.estimators import fit_shared
from linsys.preference.instances import shared_users
from linsys.preference.subspace import distance
from linsys.preference.systems import PreferenceSystem


@dataclass
class Setting:
    """Three users, d1 = 3, d2 = 2, k = 1, twenty trajectories."""

    users: Adaptation
    pairs: Pairs


def setting(tail: float, nu: float = 0.2, seed: int = 3) -> Setting:
    rng = np.random.default_rng(seed)
    psi = rng.normal(size=(20, 3, 2))
    even = np.full((1, 20), 1 / 20)
    delta = shared_users(3, 3, 2, k=1, nu=nu, tail=tail, rng=rng)
    return Setting(Adaptation(delta[None], 1), Pairs(psi[None], even, even))


def _likelihood(case: Setting, C: np.ndarray, W: np.ndarray) -> Any:
    users = case.users
    left = users.B + users.basis[..., 1:] @ C
    theta = left[:, None] @ (users.W + W)
    return case.pairs.divergence(users.delta, theta)[0]


def _hessian(case: Setting) -> np.ndarray:
    """Second differences of the expected log-likelihood in C (2) and the W_i (6)."""
    h, size = 1e-3, 8

    def value(z: np.ndarray) -> Any:
        return _likelihood(case, z[:2].reshape(1, 2, 1), z[2:].reshape(1, 3, 1, 2))

    e = h * np.eye(size)
    return np.array(
        [
            [(value(a + b) - value(a - b) - value(b - a) + value(-a - b)) / (4 * h * h) for b in e]
            for a in e
        ]
    )


def test_information_is_the_likelihoods_second_derivative() -> None:
    case = setting(0.0)
    H = _hessian(case)
    reduced = H[:2, :2] - H[:2, 2:] @ np.linalg.inv(H[2:, 2:]) @ H[2:, :2]
    inside = at.information(case.pairs, case.users.delta, case.users)[0][0]
    assert_allclose(inside, reduced, rtol=1e-4, atol=1e-6)
    assert_allclose(
        at.spread(case.pairs, case.users)[0], np.trace(np.linalg.inv(reduced)), rtol=1e-4
    )


def test_information_is_the_packages_where_curvature_is_alike() -> None:
    """For rewards near zero Phi' is 1/4 for all users."""
    case = setting(0.0, nu=1e-12)
    users = case.users
    inside = at.information(case.pairs, users.delta, users)[0][0]
    theirs = subspace_information(case.pairs.moment[0] / 4, users.B[0], users.W[0])
    assert_allclose(np.linalg.eigvalsh(inside), np.linalg.eigvalsh(theirs), rtol=1e-6)


def test_population_maximum_is_the_estimators() -> None:
    case = setting(0.002)
    fit = at.population(case.pairs, case.users)
    assert at.stationarity(case.pairs, case.users, fit)[0] < 1e-12
    assert at.better(case.users, fit, case.pairs).all()
    system = PreferenceSystem(case.pairs.psi[0], np.zeros((3, 2)), case.users.delta[0])
    other = fit_shared(system.population(), 1)
    assert distance(fit.B[0], other.B) < 1e-6
    assert_allclose(fit.delta[0], other.Delta, atol=1e-5)
    assert sine(fit.B, case.users.B)[0] > 1e-3  # not where (4.1) is


def test_floor_is_its_first_order_for_small_tails() -> None:
    ratios = []
    for tail in (1e-6, 1e-8):
        case = setting(tail)
        exact = sine(at.population(case.pairs, case.users).B, case.users.B)[0] ** 2
        ratios.append(exact / main_theorems.first_order(case.pairs, case.users)[0])
    far, near = (abs(ratio - 1) for ratio in ratios)
    assert near < 1e-2
    assert near < 0.2 * far  # the next order is a root of the tail: a tenth


def test_printed_theorem_4_1_fails_for_all_data() -> None:
    """Theta* = (1, 1)' and (-1, 1)' have the same data, and no estimate is near both."""
    users = Adaptation(np.array([[[[1.0], [1.0]]]]), 1)
    psi = np.array([[[[0.0], [1.0]], [[0.0], [0.0]]]])
    gap, bound = main_theorems.theorem_4_1(
        users, psi, np.array([1e12]), np.array([0.5]), np.array([100.0])
    )
    assert_allclose(gap, 0.5)
    assert bound < 1e-3
    other = turned(users, psi)
    assert_allclose(other.delta, [[[[-1.0], [1.0]]]])
    pairs = Pairs(psi, np.full((1, 2), 0.5), np.full((1, 2), 0.5))
    assert_allclose(pairs.logits(users.delta), pairs.logits(other.delta))
    angles = np.linspace(0, np.pi, 181)
    columns = np.stack([np.cos(angles), np.sin(angles)], axis=-1)[..., None]
    far = np.maximum(sine(columns, users.B), sine(columns, other.B))
    assert far.min() > 0.5
    least_norm = np.array([[[0.0], [1.0]]])
    assert_allclose(sine(least_norm, users.B), np.sqrt(0.5))


def test_columns_that_are_no_longer_alone_keep_b_diamond() -> None:
    """Remark 2: diag(s1, s2), a coordinate in each comparison, Sigma_tail = s2^2 and no bias."""
    psi = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])[:, :, None]
    delta = np.diag([2.0, 1.0])[:, :, None]
    weights = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    system = PreferenceSystem(psi, np.zeros((2, 1)), delta, weights)
    fit = fit_shared(system.population(), 1)
    assert distance(fit.B, np.array([[1.0], [0.0]])) < 1e-6


def _columns_of_many_users(each: int) -> float:
    """The angle of B_hat for N = oo users alike and ``each`` answers to three comparisons."""
    X = np.array([[1.0, 0.2], [0.3, 1.0], [1.0, -0.8]])
    ones = np.array(list(product(range(each + 1), repeat=3)), dtype=float)
    many = np.array([comb(each, j) for j in range(each + 1)], dtype=float)
    p = 1 / (1 + np.exp(-X @ [np.cos(0.6), np.sin(0.6)]))
    chance = (many[ones.astype(int)] * p**ones * (1 - p) ** (each - ones)).prod(axis=1)
    w = np.linspace(-4, 4, 801)[:, None, None]

    def value(angle: float) -> Any:
        z = w * (X @ [np.cos(angle), np.sin(angle)])
        logs = -ones * np.logaddexp(0, -z) - (each - ones) * np.logaddexp(0, z)
        return (chance * logs.sum(axis=-1).max(axis=0)).sum()

    angles = np.linspace(0, 1.2, 241)
    return float(angles[np.argmax([value(angle) for angle in angles])])


@pytest.mark.slow
def test_more_users_do_not_replace_comparisons() -> None:
    """The numbers in the note on more users; the grid of angles has steps of 0.005."""
    assert abs(np.sin(_columns_of_many_users(2) - 0.6) - 0.143) < 0.01
    assert abs(np.sin(_columns_of_many_users(4) - 0.6) - 0.046) < 0.01


def test_variance_is_attained_by_isotropic_pairs() -> None:
    psi = np.concatenate([np.eye(2), -np.eye(2)])[None, :, :, None]
    even = np.full((1, 4), 0.25)
    users = Adaptation(np.array([[[[1e-4], [0.0]]]]), 1)
    variance, bound = main_theorems.theorem_4_1_variance(users, Pairs(psi, even, even))
    assert_allclose(variance, bound, rtol=1e-6)


def test_sure_answers_say_little() -> None:
    """Theta* = t (1, 1)', a coordinate in each comparison: N_p E dist^2 = 1 / (Phi'(t) t^2)."""
    psi = np.array([[[[1.0], [0.0]], [[0.0], [1.0]], [[0.0], [0.0]]]])
    pairs = Pairs(psi, np.array([[0.5, 0.5, 0.0]]), np.array([[0.0, 0.0, 1.0]]))
    users = Adaptation(np.ones((1, 1, 2, 1)), 1)
    for t, below in ((2.0, True), (8.0, False)):
        gap, bound = main_theorems.remark_2(users, pairs, np.array([t]))
        p = 1 / (1 + np.exp(-t))
        assert_allclose(gap, 1 / (p * (1 - p) * t**2))
        assert (gap < bound)[0] == below


@pytest.mark.parametrize("n", [1, 3, 9])
def test_worst_gap_is_that_of_all_outcomes(n: int) -> None:
    r = np.linspace(1e-3, 8, 2000) / np.sqrt(n)
    p = 1 / (1 + np.exp(-r))
    lost = sum(comb(n, j) * p**j * (1 - p) ** (n - j) for j in range((n + 1) // 2))
    assert_allclose(at.worst_gap(n), (r * lost).max())


def test_pessimistic_choice_is_the_best_worst_case() -> None:
    rng = np.random.default_rng(1)
    theta, psi = rng.normal(size=(1, 2, 2, 1)), rng.normal(size=(1, 3, 2, 1))
    policies, reference = rng.dirichlet(np.ones(3), size=(1, 4)), rng.dirichlet(np.ones(3), size=1)
    v = against(policies, reference, flat(psi))
    matrices = choosers(theta, theta, v, np.sqrt([[0.3, 0.3]]))
    steps = rng.normal(size=(20000, 2, 1))
    steps *= np.sqrt(0.3) / np.linalg.norm(steps, axis=1, keepdims=True)
    for i in range(2):
        worst = [((theta[0, i] + steps)[..., 0] @ v[0, m]).min() for m in range(4)]
        value = (v[0] @ theta[0, i])[:, 0]
        assert_allclose(matrices.gap[0, i], value[0] - value[int(np.argmax(worst))])


def test_a_trajectory_that_is_not_compared_costs_the_same_for_all_data() -> None:
    """Sampled data sets: the choice by (3.5) loses one nine times in ten, and C_r is 1/sqrt 2."""
    theta, psi = np.array([0.5, -0.5, -1.5]), np.array([[1.0, 0, 0], [0, 1, 0], [1, -1, 1]])
    n, one = 10_000, np.ones(1)
    loss, bound = value_gaps.theorem_4_2(theta[None], psi[None], n * one, one / 2, one)
    assert_allclose(loss, 1)
    assert bound < 0.05
    rng = np.random.default_rng(6)
    both = rng.binomial(n, 0.5, size=300)  # so many comparisons show both trajectories
    wins = rng.binomial(both, 1 / (1 + np.exp(-1.0)))
    t = np.log(wins / (both - wins))
    hat = t[:, None] * np.array([1.0, -1.0, 0.0]) / 2
    v = against(np.eye(3)[None], np.array([[0.5, 0.5, 0.0]]), psi[None])
    for radius in (0.0, np.sqrt(bound[0] / np.sqrt(6))):  # L1 is the root of three
        chosen = Pessimist(v, hat, np.broadcast_to(theta, hat.shape), np.full(300, radius))
        assert (chosen.gap > 0.99).mean() > 0.9
    rewards = rng.normal(size=(1000, 2))
    apart = rewards[:, 0] - rewards[:, 1]
    ratios = np.maximum(apart / 2, 0) / np.sqrt(apart**2 / 2)
    assert ratios.max() == pytest.approx(np.sqrt(0.5))
    all_seen = np.concatenate([psi[:2], psi[:1]])
    harmless, _ = value_gaps.theorem_4_2(theta[None], all_seen[None], n * one, one / 2, one)
    assert_allclose(harmless, 0)


def test_zeta_of_the_corollary_keeps_to_the_reference() -> None:
    """Every policy, and every estimate between the two ends; a larger N_br only widens the ball."""
    users = Adaptation(np.array([[[[1.0], [0.0]], [[0.0], [0.005]]]]), 2)
    psi = np.array([[[[1.0], [0.0]], [[0.0], [0.0]]]])
    n, one = np.array([1e4]), np.ones(1)
    loss, bound = value_gaps.corollary_B1(users, psi, n, one / 10, one)
    assert_allclose(loss, 0.25)  # user 1 loses 1/2, user 2 nothing
    N_br = np.log(1 + 4 * 4 * 1e4 * np.sqrt((2 + 2) * (1 + 1))) * 2 * (2 + 2) + np.log(10)
    assert_allclose(bound, np.sqrt(N_br / 2e4))
    zeta = np.sqrt((np.log(10) / (2e4 * 0.005**2 / 2) + (2 + np.log(20)) / 1e4) / 2)
    shares = np.linspace(0, 1, 11)
    v = against(np.stack([shares, 1 - shares], axis=1)[None], np.full((1, 2), 0.5), flat(psi))
    for t in np.linspace(-1.2, 1.2, 9):
        hat = np.array([[[[t], [0.0]], [[t], [0.0]]]])
        chosen = choosers(users.delta, hat, v, np.sqrt(zeta) * np.ones((1, 2)))
        assert_allclose(chosen.length, 0)
    for size in (0.05, 1.0):  # a ball that may be too small for N_br = 1, and one that is
        other = Adaptation(np.array([[[[1.0], [0.0]], [[0.0], [size]]]]), 2)
        assert_allclose(value_gaps.corollary_B1(other, psi, n, one / 10, one)[0], 0)


def test_concentrability_of_all_rewards_is_half_of_chi_squared() -> None:
    rng = np.random.default_rng(2)
    target, reference = rng.dirichlet(np.ones(4), size=(2, 1))
    measured, bound = value_gaps.def_A3(target, reference, target / reference)
    exact = concentrability(np.eye(4)[:, :, None], target[0], reference[0])
    scale = np.sqrt(2 * ((target - reference) ** 2 / reference).sum())
    assert_allclose(measured, bound)
    assert_allclose(measured / scale, exact)


def test_condition_of_the_corollary_is_attained() -> None:
    """One user with sigma_1^2 = 2/3 and Sigma_tail = 1/3 of B^2 = 1."""
    users = Adaptation(np.diag(np.sqrt([2 / 3, 1 / 3]))[None, None], 1)
    assert_allclose(*value_gaps.corollary_B1_condition(users))
