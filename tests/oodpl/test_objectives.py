"""OOD-PL's objectives against loops, grids and examples; verdicts, and tighter bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from experiments.oodpl.claims import objectives
from experiments.oodpl.theory import objectives as at
from experiments.oodpl.theory.bilevel import Policy, Reward, System
from linsys.linalg import Numbers


@pytest.fixture
def system() -> System:
    """Two systems of two prompts and three answers."""
    rng = np.random.default_rng(5)
    shape = (2, 2, 3)
    return System(
        policy=Policy(psi=rng.normal(size=(*shape, 2)), log_h=rng.normal(size=shape)),
        reward=Reward(xi=rng.normal(size=(*shape, 2)), r0=rng.normal(size=shape)),
        prompts=rng.dirichlet(np.ones(2), size=2),
        mu_hat=rng.dirichlet(np.ones(3), size=(2, 2)),
        beta=np.array([0.7, 2.0]),
    )


def test_the_objective_is_its_sum_over_prompts_and_answers(system: System) -> None:
    phi, pi = np.array([[0.3, -0.2], [1.0, 0.5]]), system.policy.pi(np.ones((2, 2)))
    optimum = objectives.regularised(system, phi, pi)
    for b in range(2):
        total = 0.0
        for x in range(2):
            for y in range(3):
                r = system.reward.r0[b, x, y] + system.reward.xi[b, x, y] @ phi[b]
                ratio = np.log(pi[b, x, y] / system.mu_hat[b, x, y])
                total += system.prompts[b, x] * pi[b, x, y] * (r - system.beta[b] * ratio)
        assert optimum[b] == pytest.approx(total)


def test_the_excess_of_a_mixture_is_what_the_objective_says(system: System) -> None:
    first, second = np.array([[1.0, 0.0], [0.5, -2.0]]), np.array([[-1.0, 1.0], [0.0, 0.3]])
    phi, s = np.zeros((2, 2)), np.array([0.3, 0.8])
    one, two = system.policy.pi(first), system.policy.pi(second)
    share = s[:, None, None]
    value = [
        objectives.regularised(system, phi, pi)
        for pi in (one, two, share * one + (1 - share) * two)
    ]
    _, excess = objectives.eq_9_28_concave(system, first, second, s)
    np.testing.assert_allclose(excess, value[2] - s * value[0] - (1 - s) * value[1])


@dataclass(frozen=True, eq=False)
class Astray(System):
    """Steps that are this many times as long as Algorithm 1's."""

    times: float = 1.0

    def step(self, phi: Numbers, theta: Numbers, z: Numbers, alpha: Numbers) -> Numbers:
        return super().step(phi, theta, z, self.times * alpha)


@pytest.mark.parametrize("times", [1.0, -1.0, 2.0])
def test_the_loop_written_out_tells_steps_of_another_sign_or_length(
    system: System, times: float
) -> None:
    astray = Astray(**vars(system), times=times)
    z, alpha = np.array([[0, 4, 2], [5, 1, 1]]), np.array([0.3, 0.7])
    path, written = objectives.alg_1_corrected(astray, np.ones((2, 2)), np.ones((2, 2)), z, alpha)
    assert np.allclose(path, written, rtol=1e-12) == (times == 1)


def two_prompts() -> System:
    """The example in the note of ood.eq_10_appA."""
    psi = np.array([[[0.0], [1.0]], [[0.0], [1.0]]])
    return System(
        policy=Policy(psi=psi[None], log_h=np.zeros((1, 2, 2))),
        reward=Reward(xi=np.zeros((1, 2, 2, 1)), r0=np.log([[[1.0, 1.0], [2.0, 6.0]]])),
        prompts=np.full((1, 2), 0.5),
        mu_hat=np.full((1, 2, 2), 0.5),
        beta=np.ones(1),
    )


def test_two_prompts_tell_the_inner_loss_from_the_divergence() -> None:
    system, phi = two_prompts(), np.zeros((1, 1))
    nearest, inner = objectives.eq_10_appA(system, phi)
    np.testing.assert_allclose(system.policy.pi(nearest)[0, :, 1], 5 / 8)
    np.testing.assert_allclose(system.policy.pi(inner)[0, :, 1], 7 / 10)
    grid = np.linspace(-3, 3, 6001)[:, None]
    wide = system.spread()
    best = grid[wide.loss(phi[:, None], grid[None])[0].argmin()]
    assert best == pytest.approx(inner[0], abs=1e-3)
    divergence = objectives.divergence(system.tilted(phi)[:, None], wide.policy.pi(grid[None]))
    assert grid[divergence.mean(axis=-1)[0].argmin()] == pytest.approx(nearest[0], abs=1e-3)


def test_a_sum_over_all_samples_is_the_mean_slope(system: System) -> None:
    phi, theta = np.ones((2, 2)), np.full((2, 2), 0.4)
    mean, closed = objectives.eq_11_12_corrected(system, phi, theta)
    np.testing.assert_allclose(mean, closed)
    slopes = np.zeros((2, 2))
    for x in range(2):
        for y in range(3):
            moved = system.step(phi, theta, np.full(2, 3 * x + y), np.ones(2)) - theta
            slopes -= (system.prompts[:, x] * system.mu_hat[:, x, y])[:, None] * moved
    np.testing.assert_allclose(slopes, mean)


def test_the_unrestricted_class_has_a_parameter_for_each_answer(system: System) -> None:
    free = at.unrestricted(system)
    assert free.policy.psi.shape == (2, 2, 3, 4)
    np.testing.assert_array_equal(free.policy.psi[0, 1], [[0] * 4, [0, 0, 1, 0], [0, 0, 0, 1]])
    value, wanted = objectives.eq_10_appA_unrestricted(system, np.ones((2, 2)))
    np.testing.assert_allclose(value, wanted, rtol=1e-10, atol=1e-13)
    best = at.parameters(free, system.tilted(np.ones((2, 2))))
    np.testing.assert_allclose(free.optimum(np.ones((2, 2))), best, rtol=1e-9)


def test_accuracy_counts_pairs() -> None:
    policy = Policy(psi=np.zeros((1, 1, 3, 1)), log_h=np.log([[[0.5, 0.3, 0.2]]]))
    system = replace(two_prompts(), policy=policy)
    pairs = np.array([[1, 3, 0]])  # (0, 1), (1, 0), (0, 0) of 3 x 3
    u = at.margins(system, np.zeros((1, 1)), pairs, np.ones((1, 1, 3)))
    np.testing.assert_allclose(u, [[np.log(5 / 3), np.log(3 / 5), 0]])
    wrong, loss = at.accuracy(u, u)
    assert wrong[0] == pytest.approx(2 / 3)
    assert loss[0] == pytest.approx(-(np.log(5 / 8) + np.log(3 / 8) - np.log(2)) / 3 / np.log(2))


def test_the_excess_is_that_of_the_two_minimisers() -> None:
    system, phi = two_prompts(), np.zeros((1, 1))
    excess, most = objectives.eq_10_appA_excess(system, phi)

    def mean(chance: float) -> float:
        odds = [(0.5, 0.5), (0.25, 0.75)]
        return sum(a * np.log(a / (1 - chance)) + b * np.log(b / chance) for a, b in odds) / 2

    assert excess[0] == pytest.approx(mean(7 / 10))
    assert most[0] == pytest.approx(4 * mean(5 / 8))
