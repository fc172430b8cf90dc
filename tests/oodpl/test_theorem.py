"""OOD-PL's outer loop: curvature, whole runs in another way, verdicts, tighter bounds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.oodpl.claims import convergence
from experiments.oodpl.claims._outer import rounds
from experiments.oodpl.claims.convergence import theorem_1_corrected
from experiments.oodpl.claims.remark import remark_1
from experiments.oodpl.theory import theorem as at
from experiments.oodpl.theory.bilevel import Policy, Reward, System
from experiments.oodpl.theory.conditions import Conditions
from experiments.oodpl.theory.contraction import lemma_3_bound
from experiments.oodpl.theory.outer import Rounds, scheduled
from linsys.linalg import norm
from tests.oodpl._inner_loops import (
    differences,
    inner_loop,
    last_iterate,
    one_pair,
    sequences,
)


@pytest.mark.parametrize("smooth", [False, True])
def test_the_curvature_is_the_second_difference_of_the_loss(smooth: bool) -> None:
    run, pairs = inner_loop(0, smooth=smooth), one_pair()
    u = np.array([[0.6, -0.8]])

    def loss(step: float) -> float:
        theta = run.system.optimum(run.phi + step * u)
        return float((pairs * run.system.preference_loss(theta)).sum())

    second = (loss(1e-3) - 2 * loss(0.0) + loss(-1e-3)) / 1e-6
    assert convergence.curvature(run, pairs, u)[0] == pytest.approx(second, rel=1e-4)


def test_the_conditions_of_the_theorem_cannot_hold_together() -> None:
    """On a grid of c, spread and bend: no point has step (ii) and q < 1."""
    c, spread, bend = np.meshgrid(
        np.linspace(0.001, 2, 400), np.geomspace(1, 100, 60), [0.0, 0.1, 1.0]
    )
    conditions = Conditions(c.ravel(), spread.ravel(), bend.ravel())
    assert conditions.step_ii.any()
    assert (conditions.q < 1).any()
    assert not (conditions.step_ii & (conditions.q < 1)).any()


def test_two_answers_have_the_gradient_of_a_system() -> None:
    policy = Policy(psi=np.array([[[[0.3], [-0.9]]]]), log_h=np.array([[[0.2, 0.5]]]))
    reward = Reward(xi=np.array([[[[1.0], [-2.0]]]]), r0=np.array([[[0.7, -0.4]]]))
    system = System(policy, reward, np.ones((1, 1)), np.array([[[0.3, 0.7]]]), np.array([1.3]))
    phi = np.zeros((1, 1))
    run = replace(inner_loop(1, X=1, p=1, q=1), system=system, phi=phi)
    run = replace(run, theta_star=system.optimum(phi), D=0)
    pairs = np.array([[[[0.0, 1.0], [0.0, 0.0]]]])
    square = norm(run.hypergradient_star(pairs)) ** 2
    margin = np.log(np.array([0.3 / 0.7]))
    plain = at.two_answers(margin, np.array([1.1]), np.array([3.0]), np.array([1.3]))
    np.testing.assert_allclose(square, plain)


def test_rounds_of_two_answers_are_steps_of_gradient_descent() -> None:
    margin, slope, beta, eta, K = -0.3, 2.0, 1.7, 0.4, 5
    log_odds, phi, squares = margin + 0.8 / beta, 0.0, []
    for _ in range(K):
        gradient = -slope / beta / (1 + np.exp(log_odds + slope * phi / beta))
        squares.append(gradient**2)
        phi -= eta * gradient
    gap, one = np.array([0.8]), np.ones(1)

    def after(count: int) -> tuple[np.ndarray, np.ndarray]:
        return at.rounds_of_two_answers(
            margin * one, gap, slope * one, beta * one, eta * one, np.array([count])
        )

    mean, last = after(K)
    np.testing.assert_allclose(mean, np.mean(squares), rtol=1e-12)
    np.testing.assert_allclose(last, 0.8 + slope * phi, rtol=1e-12)
    fewer, _ = after(K - 1)
    assert abs(fewer / mean - 1) > 0.01


def test_the_counterexample_to_remark_1_is_checked_against_its_assumptions() -> None:
    space = remark_1.space
    s = space.views({name: np.array([value]) for name, value in remark_1.family[1].items()})
    assert all(holds(s).all() for holds in space.assumes.values())
    for name, broken in (
        ("Assumption 1, mu", {"at": replace(s.at, R=0 * s.at.R)}),
        (
            "Assumption 2, T",
            {"bounds": replace(s.bounds, reward=replace(s.reward, xi=0 * s.reward.xi))},
        ),
        ("eta <= 1/(4P), P the smoothness of L", {"eta": 2 * s.eta}),
    ):
        assert not space.assumes[name](SimpleNamespace(**{**vars(s), **broken})).any(), name


def two_domains(K: int) -> Rounds:
    """Two rounds of two domains, one instance."""
    space = rounds(K=K, inner_steps=1)
    layout = space.layout({"N": 2, "X": 1, "Y": 2, "p": 1, "q": 1})
    fields = layout.decode(np.random.default_rng(3).uniform(size=(1, layout.coordinates)))
    runs: Rounds = space.views(fields).runs
    return runs


def plain_gradient(runs: Rounds, phi: np.ndarray) -> np.ndarray:
    """grad L by differences of the losses at System.optimum."""
    first = runs.first

    def loss(value: np.ndarray) -> float:
        theta = first.run.system.optimum(np.stack([value, value]))
        losses = (first.pairs * first.run.system.preference_loss(theta)).sum(axis=(1, 2, 3))
        return float(first.tau[0] @ losses)

    return np.array([(loss(phi + 1e-5) - loss(phi - 1e-5)) / 2e-5])


def test_two_rounds_are_the_sum_over_their_draws() -> None:
    runs = two_domains(2)
    first = runs.first
    total = (plain_gradient(runs, np.zeros(1)) ** 2).sum()
    for n in range(2):
        run = inner_loop(0, X=1, p=1, q=1)
        one = {f: getattr(first.run, f)[n : n + 1] for f in ("phi", "theta_0", "alpha", "reach")}
        system = first.run.system
        run = replace(
            run,
            **one,
            system=System(
                Policy(system.policy.psi[n : n + 1], system.policy.log_h[n : n + 1]),
                Reward(system.reward.xi[n : n + 1], system.reward.r0[n : n + 1]),
                *(v[n : n + 1] for v in (system.prompts, system.mu_hat, system.beta)),
            ),
            D=1,
        )
        for chance, z in sequences(run):
            theta = last_iterate(run, np.zeros(1), z)
            J = differences(lambda phi, run=run, z=z: last_iterate(run, phi, z), np.zeros(1))[0]  # type: ignore[misc]
            slopes = run.system.preference_gradient(theta[None])[0, 0]
            for y, other in ((0, 1), (1, 0)):
                phi = -runs.eta * J * slopes[y, other]
                weight = first.tau[0, n] * chance * first.pairs[n, 0, y, other]
                total += weight * (plain_gradient(runs, phi) ** 2).sum()
    assert runs.gradients[0] == pytest.approx(total / 2, rel=1e-5)


def test_the_first_round_is_bounded_by_its_parts() -> None:
    runs = two_domains(1)
    measured, bound = theorem_1_corrected(runs)
    np.testing.assert_allclose(measured, norm(runs.first.gradient) ** 2)
    worst = lemma_3_bound(runs.first.run, np.array([1])).max()
    noise = runs.first.sigma_3 + 2 * worst + 2 * runs.first.sigma_T
    plain = 2 * runs.descent / runs.eta + worst + runs.eta * runs.limit * noise
    np.testing.assert_allclose(bound, plain)


def test_the_error_of_a_round_is_its_variances_and_its_bias() -> None:
    """With domains drawn, E||g - grad L||^2 is E||g||^2 - 2 <E g, grad L> + ||grad L||^2."""
    at_zero = two_domains(1).first
    gradient_steps, chance = at_zero.steps
    chance = at_zero.tau[0][:, None, None] * chance
    mean = (chance[..., None] * gradient_steps).sum(axis=(0, 1, 2))
    square = (chance * norm(gradient_steps) ** 2).sum()
    gradient = at_zero.gradient[0]
    assert chance.sum() == pytest.approx(1)
    plain = square - 2 * mean @ gradient + gradient @ gradient
    assert at_zero.error[0] == pytest.approx(plain)


def test_the_corrected_bound_falls_with_the_rounds_to_zero() -> None:
    run = replace(inner_loop(6, X=1, p=1, q=1), D=0, radius=np.ones(1))
    bounds = [scheduled(run, np.array([K]))[0] for K in (1e4, 1e8, 1e12, 1e16)]
    assert (np.diff(np.log(bounds)) < -0.49 * np.log(1e4)).all()


def test_slow_rounds_bound_every_run_of_algorithm_1() -> None:
    """All rounds by the recursion of Algorithm 1 itself, with drawn samples, on the witness."""
    space, witness = convergence.theorem_1.space, convergence.theorem_1.family[-1]
    fields = {name: np.asarray(value, dtype=float)[None] for name, value in witness.items()}
    assert space.meets(fields).all()
    s = space.views(fields)
    measured, bound = convergence.theorem_1.measure(s)
    assert measured[0] > 2 * bound[0]
    run, K, D = s.run, int(s.rounds.K[0]), int(s.rounds.steps[0])
    beta, alpha, eta = run.system.beta[0], run.alpha[0], 1 / (4 * s.rounds.P[0])
    phi, total, rng = 0.0, 0.0, np.random.default_rng(5)
    for k in range(K):
        assert abs(phi) <= s.rounds.moved[0, k]
        theta = J = 0.0
        total += (10.0 / (1 + np.exp(-10.0 * phi))) ** 2 / K  # L = log(1 + e^(10 phi))
        for answer in rng.integers(0, 2, D):
            p = 1 / (1 + np.exp(-0.1 * theta))
            g = 0.1 * (answer - p)
            weight = np.exp((-1.0 + answer * phi) / beta)
            J = J * (1 - alpha * weight * 0.01 * p * (1 - p)) + alpha / beta * weight * answer * g
            theta = theta + alpha * weight * g
        phi -= eta * J * 0.1 / (1 + np.exp(-0.1 * theta))
    assert measured[0] <= total <= 25.5
