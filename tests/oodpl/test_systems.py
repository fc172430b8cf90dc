"""OOD-PL's losses and constants against finite differences, numpy.linalg and enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.oodpl.theory.bilevel import (
    Policy,
    Reward,
    System,
    TanhReward,
    log_loss,
    minimiser,
    pick,
)
from experiments.oodpl.theory.constants import PolicyConstants, RewardConstants
from linsys.linalg import precise, precision

X, Y, P, Q = 2, 3, 2, 2


def domain(seed: int = 0, kind: type[Reward] = TanhReward, count: int = 3) -> System:
    """Three systems of two prompts and three answers."""
    rng = np.random.default_rng(seed)
    mu_hat = rng.dirichlet(np.ones(Y), size=(count, X))
    return System(
        policy=Policy(psi=rng.normal(size=(count, X, Y, P)), log_h=rng.normal(size=(count, X, Y))),
        reward=kind(xi=rng.normal(size=(count, X, Y, Q)), r0=rng.normal(size=(count, X, Y))),
        prompts=rng.dirichlet(np.ones(X), size=count),
        mu_hat=mu_hat,
        beta=np.array([0.5, 1.0, 2.0]),
    )


@pytest.fixture
def point() -> tuple[np.ndarray, np.ndarray]:
    """phi and theta of the three systems."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(3, Q)), rng.normal(size=(3, P))


def slope(f: Any, at: np.ndarray, width: float = 1e-5) -> np.ndarray:
    """df/d at by central differences, the new axis last."""
    columns = []
    for j in range(at.shape[-1]):
        e = width * (np.arange(at.shape[-1]) == j)
        columns.append((f(at + e) - f(at - e)) / (2 * width))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("kind", [Reward, TanhReward])
def test_derivatives_are_those_of_the_losses(kind: type[Reward], point: Any) -> None:
    system, (phi, theta) = domain(kind=kind), point
    policy, near = system.policy, {"rtol": 1e-7, "atol": 1e-8}
    np.testing.assert_allclose(policy.gradient(theta), slope(policy.log_pi, theta), **near)
    curved = slope(policy.gradient, theta)
    for y in range(Y):
        np.testing.assert_allclose(curved[:, :, y], policy.hessian(theta), **near)
    np.testing.assert_allclose(
        system.reward.gradient(phi), slope(system.reward.values, phi), **near
    )
    each = slope(lambda t: system.each_loss(phi, t), theta)
    np.testing.assert_allclose(system.each_gradient(phi, theta), each, **near)
    np.testing.assert_allclose(
        system.each_hessian(phi, theta),
        slope(lambda t: system.each_gradient(phi, t), theta),
        **near,
    )
    mixed = slope(lambda f: system.each_gradient(f, theta), phi).swapaxes(-1, -2)
    np.testing.assert_allclose(system.each_mixed(phi, theta), mixed, **near)
    np.testing.assert_allclose(
        system.gradient(phi, theta), slope(lambda t: system.loss(phi, t), theta), **near
    )
    np.testing.assert_allclose(
        system.hessian(phi, theta), slope(lambda t: system.gradient(phi, t), theta), **near
    )
    np.testing.assert_allclose(
        system.mixed(phi, theta).swapaxes(-1, -2),
        slope(lambda f: system.gradient(f, theta), phi),
        **near,
    )
    np.testing.assert_allclose(
        system.preference_gradient(theta), slope(system.preference_loss, theta), **near
    )
    np.testing.assert_allclose(
        system.preference_hessian(theta), slope(system.preference_gradient, theta), **near
    )


def test_a_path_is_the_steps_one_by_one(point: Any) -> None:
    system, (phi, theta) = domain(), point
    alpha, z = np.array([0.1, 0.2, 0.3]), np.array([[0, 5], [4, 2], [3, 3]])
    path = system.path(phi, theta, z, alpha)
    assert len(path) == 3
    for b in range(3):
        at = theta[b]
        for t in range(2):
            x, y = divmod(z[b, t], Y)
            logits = system.policy.log_h[b, x] + system.policy.psi[b, x] @ at
            pi = np.exp(logits) / np.exp(logits).sum()
            r = system.reward.r0[b, x, y] + np.tanh(system.reward.xi[b, x, y] @ phi[b])
            score = system.policy.psi[b, x, y] - pi @ system.policy.psi[b, x]
            at = at + alpha[b] * np.exp(r / system.beta[b]) * score
        np.testing.assert_allclose(path[2][b], at, rtol=1e-12)


def test_pick_takes_whole_entries() -> None:
    values = np.arange(24.0).reshape(2, 2, 3, 2)
    picked = pick(values[:, None], np.array([[0, 5], [3, 1]]), 1)
    np.testing.assert_array_equal(picked[1], [values[1, 1, 0], values[1, 0, 1]])
    assert picked.shape == (2, 2, 2)


def test_spread_systems_take_many_parameters(point: Any) -> None:
    system, (phi, theta) = domain(), point
    thetas = np.stack([theta, 2 * theta], axis=1)
    gradient = system.spread().gradient(phi[:, None], thetas)
    np.testing.assert_allclose(gradient[:, 1], system.gradient(phi, 2 * theta))


def test_the_optimum_is_stationary_in_either_precision(point: Any) -> None:
    system, (phi, _) = domain(), point
    theta = system.optimum(phi)
    np.testing.assert_allclose(system.gradient(phi, theta), 0, atol=1e-14)
    with precision(50):
        weights = precise(system.chance * system.tilt(phi))[:1]
        policy = Policy(psi=precise(system.policy.psi)[:1], log_h=precise(system.policy.log_h)[:1])
        exact = minimiser(policy, weights)
        residue = (weights[..., None] * policy.gradient(exact)).sum(axis=(-3, -2))
        assert np.abs(residue).max() < 1e-45
    np.testing.assert_allclose(theta[:1], exact.astype(float), rtol=1e-12)


def test_far_optima_are_found() -> None:
    coin = Policy(psi=np.array([[[-1.0], [1.0]]]), log_h=np.zeros((1, 2)))
    minimum = minimiser(coin, np.array([[1.0, np.exp(60)]]))
    np.testing.assert_allclose(minimum, 30, rtol=1e-9)


def test_the_preference_loss_neither_overflows_nor_cancels() -> None:
    u = np.array([-800.0, -30.0, 0.0, 30.0])
    np.testing.assert_allclose(log_loss(u), np.logaddexp(0, -u), rtol=1e-12)


def test_policy_constants_hold_on_the_ball_and_not_with_less() -> None:
    rng = np.random.default_rng(3)
    policy = domain().policy
    R = np.array([0.01, 0.3, 2.0])
    at = PolicyConstants(policy, R)
    worst = dict.fromkeys(("M", "L", "rho", "mu", "C"), 0.0)
    for _ in range(2000):
        u = rng.normal(size=(3, P))
        theta = R[:, None] * u / np.linalg.norm(u, axis=1, keepdims=True)
        theta = theta * rng.uniform(size=(3, 1)) ** 0.5
        values = np.linalg.eigvalsh(-policy.hessian(theta))
        other = theta + 1e-4 * rng.normal(size=theta.shape)
        change = np.linalg.norm(policy.hessian(theta) - policy.hessian(other), 2, (-2, -1))
        ratios = {
            "M": np.linalg.norm(policy.gradient(theta), axis=-1).max((1, 2)) / at.M,
            "L": values.max((1, 2)) / at.L,
            "rho": change.max(1) / np.linalg.norm(theta - other, axis=1) / at.rho,
            "mu": at.mu / values.min((1, 2)),
            "C": np.abs(policy.log_pi(theta)).max((1, 2)) / at.C,
        }
        for name, ratio in ratios.items():
            worst[name] = max(worst[name], ratio.max())
    assert all(ratio <= 1 + 1e-12 for ratio in worst.values())
    # the small ball leaves no room: a tenth less is wrong
    assert min(worst[name] for name in ("M", "L", "mu", "C")) > 0.9
    assert worst["rho"] > 0.3


def test_third_central_moments_of_two_values_attain_rho() -> None:
    chance = (3 - np.sqrt(3)) / 6
    coin = Policy(psi=np.array([[[0.0], [1.0]]]), log_h=np.log(np.array([[1 - chance, chance]])))
    at = PolicyConstants(coin, np.array(1.0))
    third = -slope(coin.hessian, np.zeros(1))[0, 0, 0, 0]
    np.testing.assert_allclose(third, at.rho, rtol=1e-8)


@pytest.mark.parametrize("kind", [Reward, TanhReward])
def test_reward_constants_hold_on_the_ball_and_not_with_less(kind: type[Reward]) -> None:
    rng = np.random.default_rng(4)
    reward = domain(kind=kind).reward
    at = RewardConstants(reward, np.ones(3))
    low, high, steep = np.full(3, np.inf), np.zeros(3), np.zeros(3)
    for _ in range(4000):
        u = rng.normal(size=(3, Q))
        phi = u / np.linalg.norm(u, axis=1, keepdims=True)
        rewards = np.exp(reward.values(phi))
        low = np.minimum(low, rewards.min((1, 2)))
        high = np.maximum(high, rewards.max((1, 2)))
        steep = np.maximum(steep, np.linalg.norm(reward.gradient(0.01 * phi), axis=-1).max((1, 2)))
    assert (low >= at.b - 1e-12).all()
    assert (high <= at.B + 1e-12).all()
    assert (steep <= at.T + 1e-12).all()
    assert (steep > 0.99 * at.T).all()
    if kind is Reward:
        assert (low < 1.01 * at.b).all()
        assert (high > 0.99 * at.B).all()


def test_the_slope_of_tanh_changes_no_faster_than_P_and_about_as_fast() -> None:
    line = TanhReward(xi=np.ones((1, 1, 1)), r0=np.zeros((1, 1)))
    at = RewardConstants(line, np.array(1.0))
    phis = np.linspace(-2, 2, 4001)[:, None]
    change = np.abs(np.diff(line.gradient(phis)[:, 0, 0, 0])) / 0.001
    assert 0.999 * at.P < change.max() <= at.P + 1e-6
