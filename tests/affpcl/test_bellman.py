"""Temporal differences as stacks: against Markov reward processes, loops, and mutated bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.affpcl.claims import _regimes, rates_examples
from experiments.affpcl.claims.appendix_c5 import ex6_mean as mean_form, ex6_stretch as stretch_form
from experiments.affpcl.claims.appendix_c6 import (
    c6_bellman as projected_bellman,
    c6_const as constants,
    c6_lambda as monotonicity,
)
from experiments.affpcl.theory.bellman import (
    chains,
    condition,
    condition_stated,
    constants_of_weights,
    discount_ratio,
    discounted_sigma,
    effective_affinity,
    embeddings,
    feature_floor,
    moment_factor,
    moment_factor_embedded,
    moment_form,
    slow_returns,
    stationary,
)
from linsys.heterogeneity import lambda_b, nu, sigma
from linsys.linalg import lambda_min, precise, precision
from linsys.systems.markov_reward import MarkovRewardProcesses

ROUNDING = 1e-9
CYCLE = np.roll(np.eye(3), 1, axis=1)[None, None]


def arrays(seed: int, *, count: int = 300, n: int = 2, unit: bool = False) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal((count, 3, 2))
    length = np.linalg.norm(phi, axis=-1, keepdims=True)
    return {
        "P": rng.dirichlet(np.full(3, 0.3), size=(count, n, 3)) * 0.99 + 0.01 / 3,
        "phi": phi / length if unit else phi / length.max(axis=1, keepdims=True),
        "gamma": rng.uniform(0, 0.95, count),
        "theta": rng.standard_normal((count, n, 2)),
        "R": rng.standard_normal((count, n, 3, 3)),
        "x": rng.standard_normal((count, 2)),
    }


def process(parts: dict[str, Any], k: int) -> MarkovRewardProcesses:
    return MarkovRewardProcesses(
        P=parts["P"][k], R=parts["R"][k], gamma=float(parts["gamma"][k]), features=parts["phi"][k]
    )


def test_chains_are_markov_reward_processes() -> None:
    parts = arrays(0, count=5)
    stack = chains(**parts)
    for k in range(5):
        mrps = process(parts, k)
        system = mrps.to_finite_system()
        np.testing.assert_allclose(stack.pi[k], mrps.stationary, atol=1e-12)
        np.testing.assert_allclose(stack.mu[k], system.mu, atol=1e-12)
        np.testing.assert_allclose(stack.A[k], system.A, atol=1e-12)
        np.testing.assert_allclose(stack.Phi[k], system.Phi, atol=1e-12)
        np.testing.assert_allclose(stack.nu[k], nu(system).value, rtol=1e-6)
        values, backup = projected_bellman(stack)
        np.testing.assert_allclose(values[k], mrps.x_star @ mrps.features.T, atol=1e-9)
        np.testing.assert_allclose(backup[k], values[k], atol=1e-9)
    np.testing.assert_array_equal(embeddings(**parts).A, np.swapaxes(stack.A, -1, -2))


def test_projected_bellman_sees_another_discount() -> None:
    stack = chains(**arrays(0, count=5))
    vars(stack)["gamma"] = stack.gamma / 2  # of the backup alone: A is there already
    values, backup = projected_bellman(stack)
    assert np.abs(values - backup).max() > 0.01


def test_both_states_of_a_transition_have_the_same_distribution() -> None:
    stack = chains(**arrays(1))
    joint = stack.mu.reshape(-1, 2, 3, 3)
    np.testing.assert_allclose(joint.sum(axis=2), joint.sum(axis=3), atol=1e-12)
    assert np.abs(joint - np.swapaxes(joint, 2, 3)).max() > 0.1  # and are otherwise free


def test_stated_condition_number_is_too_small() -> None:
    for build, phi, gamma, expected in (
        (embeddings, [[-1, -2, 0], [1, 1, 0], [0, 0, 1]], 0.9, 30.74736),
        (chains, [[0, 1, -2], [1, 0, 0], [2, 0, 1]], 0.5, 3.99085),
    ):
        unit = np.array(phi) / np.linalg.norm(phi, axis=1, keepdims=True)
        stack = build(P=CYCLE, phi=unit[None], gamma=np.array([gamma]))
        measured, bound = condition_stated(stack)
        np.testing.assert_allclose(measured, [[expected]], rtol=1e-5)
        np.testing.assert_allclose(bound, [[(1 + gamma) / (1 - gamma)]])
        with precision(40):
            exact = build(
                P=precise(CYCLE), phi=precise(unit)[None], gamma=precise(np.array([gamma]))
            )
            assert abs(condition_stated(exact)[0][0, 0] - measured[0, 0]) < 1e-12


def test_one_vector_shows_that_it_is_too_small() -> None:
    """The numbers of the page for the authors, whose features are on a cycle of three states."""

    def on_the_cycle(rows: Any, gamma: float) -> tuple[Any, Any, Any]:
        phi = np.array(rows, float) / np.linalg.norm(rows, axis=1)[:, None]
        u = phi - gamma * np.roll(phi, -1, axis=0)
        return phi, u, np.linalg.norm(u, axis=1)

    phi, u, lengths = on_the_cycle([(-1, -2, 0), (1, 1, 0), (0, 0, 1)], 0.9)
    seen = np.array([1.81, 1.9, 1.71])
    assert lengths == pytest.approx([1.876, 1.345, 1.345], abs=5e-4)
    assert seen @ u == pytest.approx(0.271 * (phi[0] + phi[1]), abs=1e-12)
    assert (lengths * seen) @ phi == pytest.approx([0.29, -1.23, 2.30], abs=5e-3)
    ratio = np.linalg.norm((lengths * seen) @ phi) / np.linalg.norm(seen @ u)
    assert ratio == pytest.approx(30.2, abs=0.05)
    assert ratio > 1.9 / 0.1
    phi, u, lengths = on_the_cycle([(0, 1, -2), (1, 0, 0), (2, 0, 1)], 0.5)
    seen = np.array([-1.0, 3.0, -3.0])
    assert lengths == pytest.approx([1.118, 0.596, 1.285], abs=5e-4)
    assert (seen / lengths) @ u == pytest.approx([1.14, 0.12, -2.41], abs=5e-3)
    ratio = np.linalg.norm((seen / lengths) @ u) / np.linalg.norm(seen @ phi)
    assert ratio == pytest.approx(3.78, abs=5e-3)
    assert ratio > 1.5 / 0.5


@pytest.mark.parametrize(
    ("build", "factor"), [(chains, moment_factor), (embeddings, moment_factor_embedded)]
)
def test_corrected_condition_number_and_its_moments(build: Any, factor: Any) -> None:
    stack = build(**arrays(2))
    for measured, bound in (
        condition(stack, factor(stack)),
        moment_form(stack, factor(stack)),
    ):
        assert (measured <= bound * (1 + ROUNDING)).all()
    still = build(P=np.ones((1, 1, 1, 1)), phi=np.ones((1, 1, 1)), gamma=np.zeros(1))
    measured, bound = condition(still, factor(still))
    np.testing.assert_allclose(measured, bound)  # attained, so that no smaller factor is right


def turning(gamma: float) -> dict[str, Any]:
    """phi = +-1 changes sign at every step: E A^2 = (1 + gamma)^2, Abar = 1 + gamma."""
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])[None, None]
    phi = np.array([[1.0], [-1.0]])[None]
    return {"P": swap, "phi": phi, "gamma": np.array([gamma]), "x": np.ones((1, 1))}


def test_moment_factor_of_td_is_attained() -> None:
    stack = chains(**turning(0.5))
    np.testing.assert_allclose(*moment_form(stack, moment_factor(stack)))


def test_forms_of_example_6() -> None:
    stack = embeddings(**arrays(3, unit=True))
    measured, bound = stretch_form(stack)
    assert (measured <= bound * (1 + ROUNDING)).all()
    np.testing.assert_allclose(*stretch_form(embeddings(**turning(0.5))))
    short = embeddings(**arrays(3))  # needs ||phi|| = 1
    assert (stretch_form(short)[0] > stretch_form(short)[1] * 1.01).any()


def test_mean_form_needs_the_stationary_distribution() -> None:
    stack = chains(**arrays(4))
    for measured, bound in (mean_form(stack), monotonicity(stack)):
        assert (measured >= bound * (1 - ROUNDING) - 1e-12).all()
    moved = chains(**arrays(4))
    moved.mu = np.random.default_rng(0).permuted(stack.mu, axis=-1)
    assert (mean_form(moved)[0] < mean_form(moved)[1] * 0.9).any()


def test_lower_bound_of_monotonicity_is_attained() -> None:
    parts = turning(0.5)
    parts["P"] = np.full((1, 1, 1, 1), 1.0)
    parts["phi"] = np.ones((1, 1, 1))
    np.testing.assert_allclose(*monotonicity(chains(**parts)))


def test_effective_affinity_by_loops() -> None:
    stack = embeddings(**arrays(5, count=3))
    measured, bound = effective_affinity(stack, discount_ratio(stack), stack.sigma)
    for k, i in np.ndindex(measured.shape):
        gap = stack.x_star[k, i] - stack.x_star_central[k]
        mean = sum(
            m * np.sum((A @ gap) ** 2) for m, A in zip(stack.mu[k, i], stack.A[k], strict=True)
        )
        gamma = stack.gamma[k]
        part = min(1, (1 + gamma) / (1 - gamma) * stack.delta_cen[k, i])
        np.testing.assert_allclose(measured[k, i], mean)
        np.testing.assert_allclose(bound[k, i], 2 * stack.sigma[k] ** 2 * part)


@pytest.mark.parametrize(("gamma", "width", "factor"), [(0.997, 14.0, 1.25), (0.9, 14.0, None)])
def test_slow_returns_by_loops(gamma: float, width: float, factor: float | None) -> None:
    stack = slow_returns(np.array([gamma]), np.array([width]))
    mu, A, second = stack.mu[0, 0], stack.A[0], stack.Phi[0]
    lengths = np.sqrt(np.trace(second, axis1=1, axis2=2))
    assert lengths.max() <= 1 + ROUNDING
    # phi and psi have the same distribution, so psi psi' = (psi phi')(psi phi')' / |phi|^2 the mean
    # of phi phi'
    psi_phi = (second - A) / gamma
    psi = (psi_phi @ psi_phi.swapaxes(1, 2)) / (lengths**2)[:, None, None]
    np.testing.assert_allclose(
        np.tensordot(mu, psi, 1), np.tensordot(mu, second, 1), rtol=1e-9, atol=1e-13
    )
    mean = np.tensordot(mu, A, 1)
    assert np.linalg.eigvalsh(mean + mean.T).min() > 0
    theta = stack.theta[0]
    moment = np.tensordot(mu, second, 1)
    x = np.linalg.solve(mean, moment @ theta.T).T
    centre = x.mean(axis=0)
    lhs = sum(p * np.sum((a @ (x[0] - centre)) ** 2) for p, a in zip(mu, A, strict=True))
    norms = np.linalg.norm(A, 2, axis=(1, 2))
    sigma = 2 * max(norms.max() * np.linalg.norm(x, axis=1).max(), 1.0)
    distance = np.linalg.norm(moment @ (theta[0] - theta.mean(axis=0))) / 2
    rhs = 2 * sigma**2 * min(1, (1 + gamma) / (1 - gamma) * distance)
    measured, bound = effective_affinity(stack, discount_ratio(stack), stack.sigma)
    np.testing.assert_allclose([measured[0, 0], bound[0, 0]], [lhs, rhs], rtol=1e-7)
    assert (lhs > factor * rhs) if factor else (lhs < rhs)
    # what replaces the claim takes 1 + gamma for G_A
    measured, bound = effective_affinity(stack, discount_ratio(stack), discounted_sigma(stack))
    assert (measured <= bound).all()


def test_effective_affinity_of_td_takes_no_factor() -> None:
    stack = chains(**arrays(6, count=2000))
    one = 1 + 0 * discount_ratio(stack)
    sigma = discounted_sigma(stack)
    assert (sigma >= stack.sigma * (1 - ROUNDING)).all()
    measured, bound = effective_affinity(stack, one, sigma)
    assert (measured <= bound * (1 + ROUNDING)).all()
    assert (measured > bound / 20).any()


def test_constants_by_loops() -> None:
    parts = arrays(7, count=4)
    stack = chains(**parts)
    measured, bound = constants(stack)
    assert (measured <= bound * (1 + ROUNDING)).all()
    for k in range(4):
        system = process(parts, k).to_finite_system()
        G_A = max(np.linalg.norm(A, 2) for A in system.A)
        central = np.linalg.solve(system.A_bar.mean(axis=0), system.b_bar.mean(axis=0))
        G_x = max(np.linalg.norm(x) for x in [*system.x_star, central])
        G_b = np.linalg.norm(system.b, axis=-1).max()
        step = 1 + parts["gamma"][k]
        np.testing.assert_allclose(measured[k], [G_A, step, 2 * max(G_A * G_x, G_b)])
        reward = np.abs(parts["R"][k]).max()
        np.testing.assert_allclose(bound[k], [step, 2, 2 * max(step * G_x, reward)])


def test_weights_are_not_bounded_by_rewards() -> None:
    # Independent transitions, and a weight along a direction that is short in all features.
    stack = chains(
        P=np.broadcast_to([0.2, 0.2, 0.6], (1, 1, 3, 3)),
        phi=np.array([[[0.1, 0.0, 0.0], [0.0, 1.0, 0.0], [0.7, 0.0, 0.1]]]),
        gamma=np.array([0.3]),
        theta=np.array([[[0.0, 0.0, 1.0]]]),
    )
    measured, bound = constants_of_weights(stack, np.ones(1))
    assert measured > 1.25 * bound
    np.testing.assert_allclose(measured, 2.0)
    measured, bound = constants_of_weights(stack, feature_floor(stack))
    assert measured <= bound


def test_bound_on_weights_holds_for_random_chains() -> None:
    stack = chains(**arrays(8))
    measured, bound = constants_of_weights(stack, feature_floor(stack))
    assert (measured <= bound * (1 + ROUNDING)).all()
    np.testing.assert_allclose(feature_floor(stack), lambda_min(stack.Phi_bar).min(axis=1))


def test_stationary_distributions_are_precise() -> None:
    P = np.random.default_rng(9).dirichlet(np.ones(4), size=(3, 2, 4))
    pi = stationary(P)
    np.testing.assert_allclose((pi[..., None, :] @ P)[..., 0, :], pi, atol=1e-14)
    with precision(50):
        exact = precise(P[:1, :1])
        exact = exact / exact.sum(axis=-1, keepdims=True)
        law = stationary(exact)
        assert np.abs((law[..., None, :] @ exact)[..., 0, :] - law).max() < 1e-45


def test_reward_features_with_a_far_centre_are_what_the_note_says() -> None:
    level = 0.01
    types = rates_examples.turned_rewards(_regimes.pieces(0), 8, level)
    system = types.system
    joint = types.mu.reshape(2, 4, 4)  # o and o' are independent and have one distribution
    pi = joint.sum(axis=2)
    np.testing.assert_allclose(joint, pi[:, :, None] * pi[:, None, :], atol=1e-15)
    here = np.repeat(np.eye(2)[[0, 1, 0, 1]], 4, axis=0)  # phi(o)
    there = np.tile(np.eye(2)[[0, 1, 0, 1]], (4, 1))
    np.testing.assert_array_equal(types.A, here[:, :, None] * (here - there / 2)[:, None])
    rewards = np.einsum("sj,sjk->sk", here, types.Phi)  # phi_r(o)
    np.testing.assert_allclose(types.Phi, here[:, :, None] * rewards[:, None], atol=1e-15)
    assert np.linalg.norm(rewards, axis=1).max() <= 1
    assert types.heterogeneity == pytest.approx((level, level / 0.9), rel=1e-3)
    assert sigma(system, definition="weights").value == pytest.approx(2, rel=1e-3)
    assert lambda_b(system).value == pytest.approx(level**2 / 2)
    assert np.abs(system.x_star_central).max() < 1e-12
    assert np.abs(system.theta_star_central).max() < 1e-12
    residual = system.A @ system.x_star[0] - system.b[0]
    assert system.mu[0] @ (residual**2).sum(axis=1) == pytest.approx(0.405, rel=0.01)


def test_reward_features_decide_whether_temporal_differences_gain() -> None:
    level = 0.04
    types = rates_examples.turned_rewards(_regimes.pieces(0), 200, level)
    np.testing.assert_allclose(types.relative_errors(1e13), 1, rtol=1e-6)
    here = np.repeat(np.eye(2)[[0, 1, 0, 1]], 4, axis=0)
    of_values = replace(types, Phi=here[:, :, None] * here[:, None])  # phi_r = phi
    assert of_values.relative_errors(1e13).max() < level
