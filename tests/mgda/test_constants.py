"""Constants of Assumptions 1 to 3 and Lemma 2: exact where named so, valid and not wasteful."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from linsys import InputError
from mgda.constants import (
    gradient_bound,
    mixing_at,
    mixing_distances,
    mixing_everywhere,
    policy_lipschitz,
    score_bound,
    score_lipschitz,
    smoothness_at,
    smoothness_everywhere,
)
from mgda.instances import sample_momdp
from mgda.momdp import MOMDP
from tests._walks import walk

seeds = st.integers(0, 2**32 - 1)
gammas = st.sampled_from([0.0, 0.5, 0.9])

#: Rounding of the entries of a stationary law, which distances are taken from.
ROUNDING = 1e-15


def instance(seed: int, gamma: float = 0.5) -> tuple[MOMDP, Any]:
    """Chains of all speeds: some rows are close to staying where one is."""
    rng = np.random.default_rng(seed)
    momdp = sample_momdp(rng, states=4, actions=2, gamma=gamma)
    stay = rng.uniform(0, 0.9) * np.eye(4)[:, None]
    P = stay + (1 - stay.sum(axis=-1, keepdims=True)) * momdp.P
    momdp = MOMDP(P=P, r=momdp.r, gamma=gamma, mu0=momdp.mu0)
    return momdp, momdp.at(rng.standard_normal(8))


# -- Lemma 2


@given(seeds)
def test_distances_are_those_of_the_powers(seed: int) -> None:
    _, policy = instance(seed)
    distances = mixing_distances(policy, 50)
    for t in (0, 1, 7, 50):
        gap = np.linalg.matrix_power(policy.kernel, t) - policy.stationary
        # up to 50 products, each of 4 terms below one
        assert abs(distances[t] - 0.5 * np.abs(gap).sum(axis=1).max()) <= 200 * 2.3e-16


@pytest.mark.slow
@given(seeds)
def test_mixing_pairs_hold_for_all_times_and_no_smaller_kappa_does(seed: int) -> None:
    _, policy = instance(seed)
    distances, times = mixing_distances(policy, 2000), np.arange(2001)
    second = np.sort(np.abs(np.linalg.eigvals(policy.kernel)))[-2]
    for rho in (None, 0.5 * (1 + second), second + 0.1 * (1 - second)):
        kappa, mixing = mixing_at(policy, rho)
        bound = kappa * mixing**times
        assert (distances <= bound * (1 + 1e-12) + ROUNDING).all()
        assert mixing == rho or (rho is None and second - 1e-6 <= mixing < 1)
        assert (distances > 0.99 * bound).any()  # the least kappa: a hundredth less fails
    slow = mixing_at(policy).rho
    if second > 0.05:  # below the second eigenvalue, every kappa fails in the end
        kappa = mixing_at(policy, slow if slow > second else None).kappa
        faster = kappa * (0.7 * second) ** times
        assert (distances > faster + ROUNDING).any()


@given(seeds)
def test_the_default_pair_is_no_worse_for_lemma_6_than_others(seed: int) -> None:
    _, policy = instance(seed)
    best = mixing_at(policy).variance_factor
    crude = mixing_everywhere(policy.momdp)
    assert best <= crude.variance_factor * (1 + 1e-9)
    assert best > 1


@given(seeds)
def test_one_pair_for_all_policies(seed: int) -> None:
    momdp, _ = instance(seed)
    kappa, rho = mixing_everywhere(momdp)
    thetas = 5 * np.random.default_rng(seed).standard_normal((5, 8))
    for theta in thetas:
        distances = mixing_distances(momdp.at(theta), 60)
        assert (distances <= kappa * rho ** np.arange(61) + ROUNDING).all()


def test_the_uniform_rho_is_needed() -> None:
    """Two states that stay with probability 0.9 whatever one does: rho is the eigenvalue 0.8."""
    P = np.array([[[0.9, 0.1]], [[0.1, 0.9]]])
    momdp = MOMDP(P=P, r=np.zeros((2, 1, 1)), gamma=0.5)
    kappa, rho = mixing_everywhere(momdp)
    np.testing.assert_allclose((kappa, rho), (1.0, 0.8), rtol=1e-14)
    distances = mixing_distances(momdp.at(np.zeros(2)), 60)
    assert (distances > 0.79 ** np.arange(61)).any()


def test_chains_that_forget_at_once() -> None:
    momdp = MOMDP(P=np.full((3, 1, 3), 1 / 3), r=np.zeros((3, 1, 1)), gamma=0.5)
    kappa, rho = mixing_at(momdp.at(np.zeros(3)))
    np.testing.assert_allclose(kappa, 2 / 3, rtol=1e-12)
    assert 0 < rho <= 1e-6


def test_mixing_refusals() -> None:
    momdp, policy = instance(0)
    second = np.sort(np.abs(np.linalg.eigvals(policy.kernel)))[-2]
    with pytest.raises(InputError, match="`rho` must be above the second eigenvalue"):
        mixing_at(policy, 0.99 * second)
    for rho in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="`rho`"):
            mixing_at(policy, rho)
    with pytest.raises(InputError, match="`theta` must be one policy"):
        mixing_at(momdp.at(np.zeros((2, 8))))
    apart = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    with pytest.raises(InputError, match="overlapping rows"):
        mixing_everywhere(MOMDP(P=apart, r=np.zeros((2, 2, 1)), gamma=0.5))


# -- scores


def bandit(features: Any = None) -> MOMDP:
    """One state, two actions, reward for the first."""
    r = np.array([[[1.0], [0.0]]])
    return MOMDP(P=np.ones((1, 2, 1)), r=r, gamma=0.0, features=features)


@given(seeds)
def test_score_constants_hold_between_any_two_policies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    momdp = sample_momdp(rng, states=3, actions=3)
    momdp = MOMDP(momdp.P, momdp.r, momdp.gamma, features=rng.standard_normal((3, 3, 4)))
    a, b = (momdp.at(rng.uniform(0, 4) * rng.standard_normal((50, 4))) for _ in range(2))
    distance = np.linalg.norm(a.theta - b.theta, axis=-1)
    # sure policies attain it: up to the rounding of a mean of three and of a norm of four numbers
    assert np.linalg.norm(a.psi, axis=-1).max() <= score_bound(momdp) * (1 + 1e-14)
    moved = np.linalg.norm(a.psi - b.psi, axis=-1).max(axis=(-2, -1))
    assert (moved <= score_lipschitz(momdp) * distance).all()
    variation = 0.5 * np.abs(a.pi - b.pi).sum(axis=-1).max(axis=-1)
    assert (variation <= policy_lipschitz(momdp) * distance).all()


def test_score_constants_are_attained() -> None:
    """Two actions: a sure policy for C_psi, an even one for the slopes."""
    x = np.array([[[1.0, 0.0], [0.0, 2.0]]])
    for momdp in (bandit(), bandit(x)):
        axis = momdp.x[0, 0] - momdp.x[0, 1]
        diameter = np.linalg.norm(axis)
        np.testing.assert_allclose(score_bound(momdp), diameter, rtol=1e-14)
        sure = momdp.at(20 * axis)
        np.testing.assert_allclose(np.linalg.norm(sure.psi, axis=-1).max(), diameter, rtol=1e-6)
        step = 1e-4 * axis / diameter
        here, there = momdp.at(np.zeros(2)), momdp.at(step)
        slope = np.linalg.norm(there.psi - here.psi, axis=-1).max() / 1e-4
        np.testing.assert_allclose(slope, score_lipschitz(momdp), rtol=1e-3)
        slope = 0.5 * np.abs(there.pi - here.pi).sum() / 1e-4
        np.testing.assert_allclose(slope, policy_lipschitz(momdp), rtol=1e-3)


@given(seeds)
def test_lemma_7(seed: int) -> None:
    """|delta psi| <= R for critics in the ball; attained up to the score, so half of R fails."""
    rng = np.random.default_rng(seed)
    momdp, radius = sample_momdp(rng, states=3, gamma=0.9), 2.0
    policy = momdp.at(rng.standard_normal(momdp.d))
    values = rng.uniform(-radius, radius, size=(3, 1))  # |phi'w| <= R_w
    error = momdp.r[..., :1] + 0.9 * values - values[:, None, None]
    largest = np.abs(error).max(axis=(2, 3)) * np.linalg.norm(policy.psi, axis=-1)
    assert largest.max() <= gradient_bound(momdp, radius)
    lone = MOMDP(P=np.full((2, 2, 2), 0.5), r=np.ones((2, 2, 1)), gamma=0.9)
    error = 1.0 + 0.9 * radius + radius  # from v(s) = -R_w to v(s') = R_w
    sure = np.linalg.norm(lone.at([20.0, 0, 0, 0]).psi, axis=-1).max()
    assert error * sure > 0.99 * gradient_bound(lone, radius)


# -- smoothness


@given(seeds, gammas)
def test_smoothness_everywhere(seed: int, gamma: float) -> None:
    momdp, _ = instance(seed, gamma)
    rng = np.random.default_rng(seed)
    thetas = rng.uniform(0, 5, size=(20, 1)) * rng.standard_normal((20, 8))
    for first in (0, 1):
        bound = smoothness_everywhere(momdp, first)
        assert smoothness_at(momdp.at(thetas), first).max() <= bound
    gap = momdp.jac(thetas[1:]) - momdp.jac(thetas[:-1])
    distance = np.linalg.norm(thetas[1:] - thetas[:-1], axis=-1)
    assert (
        np.linalg.norm(gap, axis=1).max(axis=-1) <= smoothness_everywhere(momdp) * distance
    ).all()


def test_smoothness_everywhere_is_not_wasteful() -> None:
    """Without a future the bound is 3 sqrt(3) / 2 = 2.6 times too large; a third of it fails."""
    momdp = bandit()
    thetas = np.linspace(0, 3, 301)[:, None] * np.array([1.0, 0.0])
    largest = smoothness_at(momdp.at(thetas)).max()
    np.testing.assert_allclose(
        largest * 3 * math.sqrt(3) / 2, smoothness_everywhere(momdp), rtol=1e-4
    )
    # and it needs the square of 1 / (1 - gamma)
    slow = walk(41, 0.99, 1.0, 0.99)
    largest = smoothness_at(slow.at(np.linspace(0, 2, 81)[:, None])).max()
    assert largest <= smoothness_everywhere(slow)
    assert largest > smoothness_everywhere(slow) * (1 - slow.gamma)
