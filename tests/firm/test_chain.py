"""The stacked processes against the single ones of mgda.momdp, and against enumeration."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from experiments.firm.theory.chain import Chains
from linsys.linalg import precise, precision
from mgda.constants import mixing_distances, mixing_everywhere
from mgda.critic import LinearCritic, random_features
from mgda.instances import sample_momdp
from mgda.momdp import MOMDP, SoftmaxPolicy


def _pair(seed: int, d2: int = 2) -> tuple[Chains, SoftmaxPolicy, LinearCritic]:
    rng = np.random.default_rng(seed)
    drawn = sample_momdp(rng, states=3, actions=2, objectives=2, gamma=0.7)
    momdp = MOMDP(P=drawn.P, r=drawn.mean_r, gamma=drawn.gamma, mu0=drawn.mu0)
    theta, critic = rng.normal(size=6), LinearCritic(random_features(rng, 3, d2))
    stack = Chains(
        P=momdp.P[None],
        r=momdp.mean_r[None],
        gamma=np.array([momdp.gamma]),
        theta=theta.reshape(1, 3, 2),
        phi=critic.phi[None],
        start=momdp.start[None],
    )
    return stack, momdp.at(theta), critic


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_exact_process(seed: int) -> None:
    stack, policy, critic = _pair(seed)
    w = critic.fixed_point(policy)
    pairs = [
        (stack.J, policy.J(first=1)),
        (stack.jac, policy.jac(first=1).T),
        (stack.stationary, policy.stationary),
        (stack.occupancy, policy.occupancy),
        (stack.V, policy.V),
        (stack.w_star, w.T),
        (stack.lambda_A, critic.lambda_A(policy)),
        (stack.zeta, critic.approximation_error(policy)),
        (stack.direction(stack.values(stack.w_star)), policy.direction(critic.values(w)).T),
    ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours[0], theirs, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("markov", [True, False])
def test_second_moment_of_a_batch_is_that_of_all_its_trajectories(markov: bool) -> None:
    stack, _, _ = _pair(5)
    size, lam = 3, np.array([[0.3, 0.7]])
    samples = stack.samples(stack.values(stack.w_star), lam)
    centred = (samples - stack.mean(samples)[:, None, None, None])[0]
    steps = list(itertools.product(range(3), range(2), range(3)))
    expected = 0.0
    for path in itertools.product(steps, repeat=size):
        probability = 1.0
        for k, (s, a, after) in enumerate(path):
            if markov and k > 0:
                probability *= s == path[k - 1][2]
            else:
                probability *= stack.stationary[0, s]
            probability *= stack.joint[0, s, a, after]
        if probability:
            mean = sum(centred[step] for step in path) / size
            expected += probability * float(mean @ mean)
    np.testing.assert_allclose(stack.second_moment(samples, size, markov), [expected], rtol=1e-12)


def test_the_mean_of_samples_is_the_direction() -> None:
    stack, _, _ = _pair(7)
    lam = np.array([[0.25, 0.75]])
    values = stack.values(stack.w_star)
    mean = stack.mean(stack.samples(values, lam))
    np.testing.assert_allclose(
        mean, (lam[..., None] * stack.direction(values)).sum(axis=1), rtol=1e-12, atol=1e-15
    )


def test_runs_beyond_float64() -> None:
    stack, _, _ = _pair(9)
    with precision(40):
        names = ("P", "r", "gamma", "theta", "phi", "start")
        arrays = {name: precise(getattr(stack, name)) for name in names}
        arrays["P"] = arrays["P"] / arrays["P"].sum(axis=-1, keepdims=True)
        fine = Chains(**arrays)
        gap = fine.jac - precise(stack.jac)
        lam = precise(np.array([[0.5, 0.5]]))
        moment = fine.second_moment(fine.samples(fine.V, lam), 4)
        closed = np.abs(fine.stationary @ fine.kernel[0] - fine.stationary).max()
    assert 0 < float(np.abs(gap).max()) < 1e-13
    assert float(moment[0]) == pytest.approx(
        float(stack.second_moment(stack.samples(stack.V, np.full((1, 2), 0.5)), 4)[0]), rel=1e-12
    )
    assert closed < 1e-35


def test_batches_that_begin_anywhere() -> None:
    stack, _, _ = _pair(11)
    size, law = 3, np.array([[0.2, 0.7, 0.1]])
    samples = stack.samples(stack.values(stack.w_star), np.array([[0.6, 0.4]]))
    target = stack.mean(samples)[0]
    steps = list(itertools.product(range(3), range(2), range(3)))
    square, mean = 0.0, np.zeros(6)
    for path in itertools.product(steps, repeat=size):
        probability = law[0, path[0][0]]
        for k, (s, a, after) in enumerate(path):
            probability *= stack.joint[0, s, a, after] * (k == 0 or s == path[k - 1][2])
        total = sum(samples[0][step] for step in path) / size
        mean += probability * total
        square += probability * float((total - target) @ (total - target))
    moments = stack.second_moments(samples, size, law)
    np.testing.assert_allclose(moments[:, -1], [square], rtol=1e-12)
    np.testing.assert_allclose(
        stack.mean(samples, stack.batch_law(law, size))[0], mean, rtol=1e-12, atol=1e-15
    )
    # shorter batches are part of the same answer
    np.testing.assert_allclose(
        moments[:, 1], stack.second_moments(samples, 2, law)[:, -1], rtol=1e-15
    )
    assert abs(moments[0, -1] / stack.second_moment(samples, size)[0] - 1) > 1e-3


def test_distances_and_what_bounds_them() -> None:
    stack, policy, _ = _pair(12)
    np.testing.assert_allclose(stack.distances(6)[0], mixing_distances(policy, 6), rtol=1e-9)
    np.testing.assert_allclose(stack.overlap[0], mixing_everywhere(policy.momdp).rho)
    rows = policy.momdp.P.reshape(-1, 3)
    least = [min(row[s] for row in rows) for s in range(3)]
    assert stack.dependence[0] == pytest.approx(1 - sum(least))
    assert stack.overlap[0] < stack.dependence[0] < 1


def test_longer_features_lengthen_scores_and_gradients() -> None:
    stack, _, _ = _pair(13)
    long = dataclasses.replace(stack, scale=np.array([3.0]))
    np.testing.assert_allclose(long.jac, 3 * stack.jac)
    np.testing.assert_allclose(long.J, stack.J)
    np.testing.assert_allclose([long.C_psi[0], stack.C_psi[0]], [3 * 2**0.5, 2**0.5])
    # a step e of the parameters moves the logits by 3 e
    e = 1e-6 * np.eye(6)[2].reshape(1, 3, 2)
    moved = dataclasses.replace(stack, theta=stack.theta + 3 * e)
    np.testing.assert_allclose((moved.J - stack.J) / 1e-6, long.jac[:, :, 2], rtol=1e-5)
    # E|e_a - pi|^2 = 1 - |pi|^2
    pi = stack.pi[0]
    np.testing.assert_allclose(stack.score_variance, [(1 - (pi**2).sum(axis=1)).max()])
    assert stack.score_variance[0] <= 0.5


def test_radius_of_the_critics_ball() -> None:
    stack, _, _ = _pair(14)
    np.testing.assert_allclose(stack.R_w(np.array([1.5])) * stack.lambda_A, [3.0])
