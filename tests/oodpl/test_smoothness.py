"""OOD-PL's convexity and smoothness: jets against policies, verdicts, tighter bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.oodpl.theory import smoothness as at
from experiments.oodpl.theory.bilevel import Policy, Reward, System
from experiments.oodpl.theory.constants import PolicyConstants, RewardConstants


def small_jet(seed: int) -> at.Jet:
    """One jet of four answers and two parameters."""
    rng = np.random.default_rng(seed)
    curvatures = rng.normal(size=(1, 4, 2, 2))
    return at.Jet(rng.dirichlet(np.ones(4), size=1), rng.normal(size=(1, 4, 2)), curvatures)


def log_pi(jet: at.Jet, v: np.ndarray) -> np.ndarray:
    """A policy with this jet at v = 0: pi exp(g.v + v'Hv/2), normalised."""
    logits = np.log(jet.pi[0]) + jet.g[0] @ v + np.einsum("yij,i,j->y", jet.H[0], v, v) / 2
    return np.asarray(logits - np.log(np.exp(logits).sum()))


def test_jets_are_derivatives_of_a_policy() -> None:
    jet, e = small_jet(0), 1e-4 * np.eye(2)
    slopes = np.stack([(log_pi(jet, h) - log_pi(jet, -h)) / 2e-4 for h in e], axis=-1)
    np.testing.assert_allclose(slopes, jet.g[0], atol=1e-7)
    bent = [
        [
            (log_pi(jet, h + k) - log_pi(jet, h - k) - log_pi(jet, k - h) + log_pi(jet, -h - k))
            / 4e-8
        ]
        for h in e
        for k in e
    ]
    tensor = np.moveaxis(np.reshape(bent, (2, 2, 4)), -1, 0)
    np.testing.assert_allclose(tensor, jet.H[0], atol=1e-6)


def test_the_preference_loss_of_a_jet_is_differentiated() -> None:
    jet, e = small_jet(1), 1e-4 * np.eye(2)

    def loss(v: np.ndarray) -> np.ndarray:
        u = log_pi(jet, v)
        return np.asarray(np.logaddexp(0, u[None, :] - u[:, None]))

    slopes = np.stack([(loss(h) - loss(-h)) / 2e-4 for h in e], axis=-1)
    np.testing.assert_allclose(slopes, jet.preference_gradient[0], atol=1e-7)
    along = np.array([0.6, 0.8])
    bent = (loss(1e-4 * along) - 2 * loss(0 * along) + loss(-1e-4 * along)) / 1e-8
    known = np.einsum("ypij,i,j->yp", jet.preference_hessian[0], along, along)
    np.testing.assert_allclose(known, bent, atol=1e-6)


@pytest.mark.parametrize(("L", "M"), [(0.3, 1.0), (1.9, 1.0), (5.0, 1.0), (2.0, 3.0)])
def test_the_constant_is_the_largest_over_all_chances(L: float, M: float) -> None:
    s = np.linspace(0, 1, 100_001)
    largest = (2 * L * s + 4 * M**2 * s * (1 - s)).max()
    constant = at.preference_constant(np.array(M), np.array(L))
    assert constant == pytest.approx(largest, rel=1e-8)
    assert constant <= 2 * L + M**2


def rare_pair(c: float) -> System:
    """The example in the note of ood.lpl_2L."""
    return System(
        policy=Policy(psi=np.array([[[[-1.0], [0.0], [1.0]]]]), log_h=np.log([[[c, 1.0, c]]])),
        reward=Reward(xi=np.zeros((1, 1, 3, 1)), r0=np.zeros((1, 1, 3))),
        prompts=np.ones((1, 1)),
        mu_hat=np.full((1, 1, 3), 1 / 3),
        beta=np.ones(1),
    )


def test_a_rare_pair_bends_the_loss_more_than_2L() -> None:
    system = rare_pair(1e-3)
    constants = PolicyConstants(system.policy, np.array([1e-3]))
    assert constants.L[0] == pytest.approx(2e-3, rel=0.01)
    assert constants.mu[0] == pytest.approx(2e-3, rel=0.01)
    bent = system.preference_hessian(np.zeros((1, 1)))[0, 0, 0, 2, 0, 0]
    assert bent == pytest.approx(1.0)


def test_without_rewards_no_beta_changes_the_curvature() -> None:
    coin = Policy(psi=np.array([[[[-1.0], [1.0]]]]), log_h=np.zeros((1, 1, 2)))
    for beta in (0.5, 2.0, 10.0):
        system = replace(
            rare_pair(1.0),
            policy=coin,
            reward=Reward(xi=np.zeros((1, 1, 2, 1)), r0=np.zeros((1, 1, 2))),
            mu_hat=np.full((1, 1, 2), 0.5),
            beta=np.array([beta]),
        )
        assert system.hessian(np.zeros((1, 1)), np.zeros((1, 1)))[0, 0, 0] == pytest.approx(1.0)
        reward = RewardConstants(system.reward, np.ones(1))
        assert at.printed_range(reward, system.beta)[1] == pytest.approx(np.exp(-beta))
        assert at.true_range(reward, system.beta)[1] == pytest.approx(1.0)


def test_deviations_are_those_of_a_sample() -> None:
    rng = np.random.default_rng(6)
    system = System(
        policy=Policy(psi=rng.normal(size=(1, 2, 3, 2)), log_h=rng.normal(size=(1, 2, 3))),
        reward=Reward(xi=rng.normal(size=(1, 2, 3, 2)), r0=rng.normal(size=(1, 2, 3))),
        prompts=np.array([[0.3, 0.7]]),
        mu_hat=rng.dirichlet(np.ones(3), size=(1, 2)),
        beta=np.array([1.5]),
    )
    phi, theta = rng.normal(size=(1, 2)), rng.normal(size=(1, 2))
    noise = at.deviations(system, phi, theta)
    each = (
        (system.each_gradient, system.gradient, None),
        (system.each_mixed, system.mixed, "fro"),
        (system.each_hessian, system.hessian, 2),
    )
    for value, (of, mean, kind) in zip(noise, each, strict=True):
        total = 0.0
        for x in range(2):
            for y in range(3):
                gap = of(phi, theta)[0, x, y] - mean(phi, theta)[0]
                total += system.chance[0, x, y] * np.linalg.norm(gap, kind) ** 2
        assert value[0] == pytest.approx(total)


def test_two_answers_have_the_curvature_of_their_slopes() -> None:
    """pi = 1/2 each, g = 1 and -1, equal Hessians: all of them are -1, and M^2 = mu."""
    jet = at.Jet(np.full((1, 2), 0.5), np.array([[[1.0], [-1.0]]]), np.zeros((1, 2, 1, 1)))
    np.testing.assert_allclose(np.array(jet.fisher()), 1.0)
