"""OOD-PL's inner loop: enumerations in another way, verdicts, and tighter bounds that fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.oodpl.claims import contraction
from experiments.oodpl.claims._inner import sampled
from experiments.oodpl.claims.conditions import theorem_1_two_answers as two_answers
from experiments.oodpl.theory import contraction as at
from experiments.oodpl.theory.bilevel import Policy, Reward, System
from experiments.oodpl.theory.conditions import Conditions
from experiments.oodpl.theory.inner import Inner
from tests.oodpl._inner_loops import (
    differences,
    inner_loop,
    last_iterate,
    one_pair,
    sequences,
)


def test_iterates_and_jacobians_are_those_of_single_runs() -> None:
    run = inner_loop(0)
    level = run.levels[-1]
    for index, (chance, z) in enumerate(sequences(run)):
        assert level.chance[0, index] == pytest.approx(chance, rel=1e-12)
        np.testing.assert_allclose(level.theta[0, index], last_iterate(run, run.phi[0], z))
        rows = differences(lambda phi, z=z: last_iterate(run, phi, z), run.phi[0])  # type: ignore[misc]
        np.testing.assert_allclose(level.jacobian[0, index], rows, atol=1e-8)


def test_the_optimum_moves_as_implicit_differentiation_says() -> None:
    run = inner_loop(1)
    rows = differences(lambda phi: run.system.optimum(phi[None])[0], run.phi[0])
    np.testing.assert_allclose(run.jacobian_star[0], rows, atol=1e-8)


def test_errors_are_sums_over_paths() -> None:
    run = inner_loop(2)
    jacobian = iterate = hyper = first = np.float64(0)
    level, pairs = run.levels[-1], one_pair()
    exact = run.hypergradient_star(pairs)[0]
    for index, (chance, _) in enumerate(sequences(run)):
        theta, J = level.theta[0, index], level.jacobian[0, index]
        jacobian += chance * np.linalg.norm(J - run.jacobian_star[0]) ** 2
        iterate += chance * np.linalg.norm(theta - run.theta_star[0]) ** 2
        first += chance * np.linalg.norm(theta - run.theta_star[0])
        slope = run.system.preference_gradient(theta[None])[0, 0, 2, 1]
        hyper += chance * np.linalg.norm(J @ slope - exact) ** 2
    assert run.errors[0][0, -1] == pytest.approx(jacobian)
    assert run.errors[1][0, -1] == pytest.approx(iterate)
    assert run.first_moments[0, -1] == pytest.approx(first)
    assert run.hypergradient_errors(pairs)[0, -1] == pytest.approx(hyper)


def test_the_hypergradient_at_the_optimum_is_the_derivative_of_the_loss() -> None:
    run, pairs = inner_loop(3), one_pair()

    def loss(phi: np.ndarray) -> np.ndarray:
        theta = run.system.optimum(phi[None])
        return np.asarray((pairs * run.system.preference_loss(theta)).sum())

    np.testing.assert_allclose(
        run.hypergradient_star(pairs)[0], differences(loss, run.phi[0]), atol=1e-8
    )


def test_variances_are_those_of_samples_at_visited_points() -> None:
    run, variances = inner_loop(4), []
    points = [run.theta_star[0], *(t for level in run.levels[:-1] for t in level.theta[0])]
    chance = run.system.chance[0].ravel()
    for theta in points:
        z = run.phi, theta[None]
        gradient = run.system.each_gradient(*z)[0].reshape(6, -1)
        mixed = run.system.each_mixed(*z)[0].reshape(6, -1)
        hessian = run.system.each_hessian(*z)[0].reshape(6, 2, 2)
        away = [np.linalg.norm(v - chance @ v, axis=1) for v in (gradient, mixed)]
        mean = np.tensordot(chance, hessian, axes=1)
        away.append(np.linalg.norm(hessian - mean, ord=2, axis=(1, 2)))
        variances.append([chance @ size**2 for size in away])
    for ours, plain in zip(run.variances, np.max(variances, axis=0), strict=True):
        assert ours[0] == pytest.approx(plain)
    for ours, most in zip(run.variances, run.largest_variances, strict=True):
        assert ours[0] <= most[0]


def test_sampling_distributions_have_their_optimum_at_zero() -> None:
    rng = np.random.default_rng(5)
    policy = Policy(psi=rng.normal(size=(7, 2, 3, 2)), log_h=rng.normal(size=(7, 2, 3)))
    tilt = np.exp(rng.normal(size=(7, 2, 3)))
    chance = sampled(policy, tilt, rng.uniform(0.1, 1, (7, 2)), 5 * rng.normal(size=(7, 2, 3)))
    np.testing.assert_allclose(chance.sum(axis=(1, 2)), 1)
    assert (chance > 0).all()
    slopes = (chance * tilt)[..., None] * policy.gradient(np.zeros((7, 2)))
    np.testing.assert_allclose(slopes.sum(axis=(1, 2)), 0, atol=1e-14)


def test_the_corrected_lemmas_need_no_young_parameter_of_three() -> None:
    """For small steps the printed factor is three, the corrected one below one."""
    run = inner_loop(6).with_step(np.array([1e-3]))
    assert at.conditions(run, run.true).q[0] > 2.9
    assert run.gamma[0] < 1
    errors, bound = contraction.lemma_4_corrected(run)
    assert (errors <= bound).all()


def test_lemma_3_is_false_with_true_bounds_as_the_note_has_it() -> None:
    system = System(
        Policy(psi=np.array([[[[-0.05], [0.05]], [[-1.0], [1.0]]]]), log_h=np.zeros((1, 2, 2))),
        Reward(xi=np.array([[[[-1.0], [1.0]], [[-1.0], [1.0]]]]), r0=np.zeros((1, 2, 2))),
        prompts=np.array([[0.999, 0.001]]),
        mu_hat=np.full((1, 2, 2), 0.5),
        beta=np.ones(1),
    )
    origin, small = np.zeros((1, 1)), np.array([1e-6])
    run = Inner(system, origin, origin, origin, alpha=small, reach=small, D=1)
    pairs = np.zeros((1, 2, 2, 2))
    pairs[0, 1, 1, 0] = 1
    # d theta_*/d phi by hand, the mean of |psi| over that of psi^2; a gradient of 2 sigma(0)
    moved = (0.999 * 0.05 + 0.001) / (0.999 * 0.05**2 + 0.001)
    measured, bound = at.lemma_3(run, pairs, run.true)
    assert measured[0, 0] == pytest.approx(moved**2, rel=1e-4)
    assert bound[0, 0] == pytest.approx(8 * (3 + 6), rel=1e-4)
    assert at.conditions(run, run.true).step_ii[0]


def test_step_ii_is_met_up_to_its_largest_c_alone() -> None:
    rng = np.random.default_rng(7)
    spread, bend = 1 + rng.exponential(size=50), rng.exponential(size=50)
    limit = Conditions(np.ones(50), spread, bend).largest
    assert Conditions(0.999 * limit, spread, bend).step_ii.all()
    assert not Conditions(1.001 * limit, spread, bend).step_ii.any()
    assert (limit <= 1 / 3).all()


def test_two_answers_take_the_steps_of_a_policy() -> None:
    run = inner_loop(9, X=1, p=1, q=1)
    policy = Policy(psi=np.array([[[[0.0], [0.8]]]]), log_h=np.array([[[0.0, 0.3]]]))
    reward = Reward(xi=np.zeros((1, 1, 2, 1)), r0=np.array([[[-0.5, 0.4]]]))
    half = np.full((1, 1, 2), 0.5)
    run = replace(run, system=System(policy, reward, np.ones((1, 1)), half, np.array([1.7])))
    weights = run.system.tilt(run.phi)[0, 0]
    low = weights.min()
    curvature = [
        -policy.hessian(theta[None])[0, 0, 0, 0] for at in run.levels for theta in at.theta[0]
    ]
    gradient, _ = two_answers(
        0.3 + 0.8 * run.theta_0[:, 0],
        run.alpha * low * 0.64,
        np.array([[weights[1] / low, weights[0] / low]]),
    )
    assert gradient[0] == pytest.approx(run.alpha[0] * low * min(curvature))
