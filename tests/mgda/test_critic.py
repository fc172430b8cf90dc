"""Linear critics: fixed points and their constants, Algorithm 3 exactly and in the mean."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from linsys import InputError
from mgda.critic import LinearCritic, project, random_features
from mgda.instances import heterogeneous, sample_momdp
from mgda.momdp import MOMDP
from mgda.trajectories import Clients, Transitions, sample

#: Chance that any one statistical assertion fails for a correct program.
FAILURE = 1e-7

seeds = st.integers(0, 2**32 - 1)
gammas = st.sampled_from([0.0, 0.5, 0.9])


def instance(seed: int, gamma: float = 0.5, d2: int = 2) -> tuple[MOMDP, Any, LinearCritic]:
    rng = np.random.default_rng(seed)
    momdp = sample_momdp(rng, states=4, actions=2, objectives=2, gamma=gamma)
    momdp = replace(momdp, r=rng.random((4, 2, 4, 2)))
    phi = random_features(rng, 4, d2) * rng.uniform(0.3, 1.0, size=(4, 1))
    return momdp, momdp.at(rng.standard_normal(8)), LinearCritic(phi)


def every_transition(momdp: MOMDP, policy: Any, law: Any) -> tuple[Transitions, Any]:
    """All (s, a, s') as replicates of batches of one, and their probabilities."""
    index = np.indices((4, 2, 4)).reshape(3, -1)
    chance = law[:, None, None] * policy.pi[..., None] * momdp.P
    return Transitions(*(part.reshape(-1, 1, 1) for part in index)), chance.reshape(-1)


# -- fixed points and constants


@given(seeds, gammas)
def test_mean_step_is_the_mean_of_the_steps(seed: int, gamma: float) -> None:
    momdp, policy, critic = instance(seed, gamma)
    for law in (policy.stationary, policy.occupancy):
        batch, chance = every_transition(momdp, policy, law)
        w = np.random.default_rng(seed).standard_normal((2, 2))
        stack = np.tile(w, (len(chance), 1, 1, 1))
        moved = critic.step(stack, Clients(momdp, 1), batch, 0.1, math.inf)[:, 0]
        mean = np.einsum("k,kij->ij", chance, moved)
        assert np.abs(mean - critic.mean_step(w, policy, 0.1, law)).max() <= 1e-14
        fixed = critic.fixed_point(policy, law)
        # |b + A'w| to rounding, where w may be as long as 1 / lambda_A
        size = 1.0 + np.abs(fixed).max()
        assert np.abs(critic.mean_step(fixed, policy, 1.0, law) - fixed).max() <= 1e-14 * size


def test_the_printed_matrix_is_the_transpose_of_the_one_that_moves_critics() -> None:
    _, policy, critic = instance(0, 0.9)
    A, b = critic.matrix(policy), critic.reward_vector(policy)
    by_hand = np.zeros((2, 2))
    for s in range(4):
        after = 0.9 * policy.kernel[s] @ critic.phi - critic.phi[s]
        by_hand += policy.stationary[s] * np.outer(after, critic.phi[s])
    np.testing.assert_allclose(A, by_hand, atol=1e-15)
    fixed = critic.fixed_point(policy)
    assert np.abs(b + A.T @ fixed).max() <= 1e-14
    assert np.abs(b + A @ fixed).max() > 1e-3


@given(seeds, gammas)
def test_lambda_A_and_the_radius(seed: int, gamma: float) -> None:
    _, policy, critic = instance(seed, gamma)
    A, lam = critic.matrix(policy), float(critic.lambda_A(policy))
    vectors = np.random.default_rng(seed).standard_normal((200, 2))
    form = 2 * np.einsum("ki,ij,kj->k", vectors, A, vectors)
    square = (vectors**2).sum(axis=1)
    assert (form <= -2 * lam * square * (1 - 1e-9)).all()
    # exact: the next larger constant fails on the eigenvector
    axis = np.linalg.eigh(A + A.T)[1][:, -1]
    assert axis @ (A + A.T) @ axis > -2 * (1.001 * lam)
    assert 0 < critic.lambda_A_everywhere(policy) <= lam
    # half the radius is enough for the fixed point
    length = np.linalg.norm(critic.fixed_point(policy), axis=0).max()
    assert length <= critic.radius(policy) / 2


def test_half_the_radius_is_needed() -> None:
    """One state and phi = 1: |w_*| = r / (1 - gamma) = r / lambda_A, so a quarter is too short."""
    momdp = MOMDP(P=np.ones((1, 1, 1)), r=np.ones((1, 1, 1)), gamma=0.9)
    critic, policy = LinearCritic(np.ones((1, 1))), momdp.at(np.zeros(1))
    np.testing.assert_allclose(critic.fixed_point(policy), 10.0, rtol=1e-12)
    np.testing.assert_allclose(critic.radius(policy) / 2, 10.0, rtol=1e-12)


@given(seeds, gammas)
def test_bounds_of_the_symmetric_part(seed: int, gamma: float) -> None:
    """-A >= (1 - gamma) E phi phi' under d_pi, and (1 - sqrt(gamma)) E phi phi' under nu."""
    _, policy, critic = instance(seed, gamma)
    for law, share in ((policy.stationary, gamma), (policy.occupancy, math.sqrt(gamma))):
        A = critic.matrix(policy, law)
        covariance = critic.phi.T @ (law[:, None] * critic.phi)
        gap = -(A + A.T) / 2 - (1 - share) * covariance
        assert np.linalg.eigvalsh(gap)[0] >= -1e-15
        if gamma > 0:
            larger = -(A + A.T) / 2 - (1 + share) * covariance
            assert np.linalg.eigvalsh(larger)[0] < -1e-6


def test_the_uniform_constant_needs_the_smallest_transitions() -> None:
    momdp, policy, critic = instance(3)
    everywhere = critic.lambda_A_everywhere(policy)
    thetas = 30 * np.random.default_rng(0).standard_normal((2000, 8))
    eigenvalue = critic.lambda_A(momdp.at(thetas))
    assert eigenvalue.min() >= everywhere
    likely = momdp.P.max(axis=(0, 1))  # mutation: the largest instead of the smallest
    wrong = 0.5 * np.linalg.eigvalsh(critic.phi.T @ (likely[:, None] * critic.phi))[0]
    assert eigenvalue.min() < wrong


@given(seeds, gammas)
def test_approximation_error(seed: int, gamma: float) -> None:
    _, policy, critic = instance(seed, gamma)
    zeta = critic.approximation_error(policy)
    error = policy.V - critic.phi @ critic.fixed_point(policy)
    np.testing.assert_allclose(zeta, policy.stationary @ error**2, rtol=1e-12)
    tabular = LinearCritic(np.eye(4)).approximation_error(policy)
    assert tabular.max() <= (1e-13 / (1 - gamma)) ** 2
    assert zeta.min() > tabular.max()


def test_a_perfect_critic_does_not_make_the_gradient_exact() -> None:
    """Lemma 4 bounds E T_{1,1,3}, three |Delta - grad J|^2, by 12 zeta_approx; here that is zero.

    Delta is an average over the stationary law without the factor 1 / (1 - gamma).
    """
    momdp, policy, _ = instance(1, 0.9)
    critic = LinearCritic(np.eye(4))
    values = critic.values(critic.fixed_point(policy))
    assert critic.approximation_error(policy).max() <= 1e-24
    for first in (0, 1):
        gap = policy.direction(values) - policy.jac(first)
        assert 3 * (np.linalg.norm(gap, axis=0) ** 2).min() > 1e-2
    # it is exact, up to that factor, where samples follow the occupancy
    on_occupancy = critic.values(critic.fixed_point(policy, policy.occupancy))
    exact = policy.direction(on_occupancy, policy.occupancy)
    assert np.abs(exact - (1 - momdp.gamma) * policy.jac()).max() <= 1e-13


# -- Algorithm 3


def start(shape: tuple[int, int]) -> Any:
    return np.zeros(shape, dtype=np.int64)


def test_kernel_equals_the_reference() -> None:
    momdp, _, critic = instance(0, 0.9)
    three = heterogeneous(momdp, 0, clients=3, env=0.5, obj=0.5)
    rng = np.random.default_rng(1)
    for clients in (Clients(momdp, 3), Clients(three)):
        policies = clients.policies(rng.standard_normal((5, 3, 8)))
        batch, _ = sample(clients, policies, start((5, 3)), 60, seed=0)
        w = rng.standard_normal((5, 3, 2, 2))
        radius = rng.uniform(0.5, 3.0, size=(5, 3))
        reference, on_the_ball = w, 0
        for k in range(20):
            part = Transitions(*(x[..., 3 * k : 3 * k + 3] for x in batch))
            reference = critic.step(reference, clients, part, 0.3, radius)
            length = np.linalg.norm(reference, axis=-2)
            on_the_ball += int((length > radius[..., None] * (1 - 1e-12)).sum())
            assert (length <= radius[..., None] * (1 + 1e-15)).all()
        critic_weights = critic.learn(w, clients, batch, 3, 0.3, radius)
        assert np.abs(critic_weights - reference).max() <= 1e-12
        assert 0 < on_the_ball < 20 * 30  # both branches of the projection
        assert np.abs(critic.learn(w, clients, batch, 6, 0.3, radius) - reference).max() > 1e-3
        halves = w
        for half in (slice(0, 30), slice(30, 60)):
            part = Transitions(*(x[..., half] for x in batch))
            halves = critic.learn(halves, clients, part, 3, 0.3, radius)
        np.testing.assert_array_equal(halves, critic_weights)


def hoeffding(samples: int, width: float, statements: int) -> float:
    """Radius within which all means of ``samples`` bounded terms lie, but for FAILURE."""
    return width * math.sqrt(math.log(2 * statements / FAILURE) / (2 * samples))


def test_critics_reach_the_fixed_point_from_independent_samples() -> None:
    """The mean follows b + A'w exactly. Tabular weights are averages: they stay in [0, 1/(1-g)]."""
    momdp, policy, _ = instance(2, 0.5)
    critic, replicates, N, D, step = LinearCritic(np.eye(4)), 10_000, 60, 2, 0.5
    clients = Clients(momdp, 1)
    policies = clients.policies(np.tile(policy.theta, (replicates, 1, 1)))
    batch, _ = sample(
        clients, policies, start((replicates, 1)), N * D, seed=5, sampling="stationary"
    )
    w = critic.learn(np.zeros((replicates, 1, 4, 2)), clients, batch, D, step, math.inf)
    mean = np.zeros((4, 2))
    for _ in range(N):
        mean = critic.mean_step(mean, policy, step)
    radius = hoeffding(replicates, 2.0, 8)
    assert w.min() >= 0
    assert w.max() <= 2
    assert np.abs(w.mean(axis=0)[0] - mean).max() <= radius
    left = float(np.abs(mean - policy.V).max())
    assert left <= radius
    assert np.abs(w.mean(axis=0)[0] - policy.V).max() <= radius + left
    # mutations: the start, and the fixed point of half the rewards
    assert np.abs(w.mean(axis=0)[0]).max() > radius
    assert np.abs(w.mean(axis=0)[0] - policy.V / 2).max() > radius


def test_markovian_critics_follow_their_exact_mean() -> None:
    """E[w 1{s_t = s}] is a linear recursion for D = 1: states and weights are correlated."""
    momdp, policy, _ = instance(4, 0.5)
    critic, replicates, N, step = LinearCritic(np.eye(4)), 40_000, 12, 0.5
    clients = Clients(momdp, 1)
    policies = clients.policies(np.tile(policy.theta, (replicates, 1, 1)))
    batch, _ = sample(clients, policies, start((replicates, 1)), N, seed=6)
    w = critic.learn(np.zeros((replicates, 1, 4, 2)), clients, batch, 1, step, math.inf)
    joint, law = np.zeros((4, 4, 2)), np.eye(4)[0]  # s, then the weights
    for _ in range(N):
        moved, later = np.zeros((4, 4, 2)), np.zeros(4)
        for s in range(4):
            for a in range(2):
                for t in range(4):
                    chance = policy.pi[s, a] * momdp.P[s, a, t]
                    error = law[s] * momdp.r[s, a, t] + 0.5 * joint[s, t] - joint[s, s]
                    moved[t] += chance * (joint[s] + step * np.outer(np.eye(4)[s], error))
                    later[t] += chance * law[s]
        joint, law = moved, later
    mean = joint.sum(axis=0)
    radius = hoeffding(replicates, 2.0, 8)
    assert np.abs(w.mean(axis=0)[0] - mean).max() <= radius
    independent = np.zeros((4, 2))
    for _ in range(N):
        independent = critic.mean_step(independent, policy, step)
    assert np.abs(w.mean(axis=0)[0] - independent).max() > radius


# -- refusals


def test_bad_critics() -> None:
    for phi, text in [
        (np.ones((4, 2)) / 2, "`phi` must have rank 2, its number of columns; found 1"),
        (2 * np.eye(4), "rows of length at most 1; found 2 in row 0"),
        (np.full((4, 1), np.nan), "finite"),
        (np.ones(4), "`phi` must have shape"),
    ]:
        with pytest.raises(InputError, match=text):
            LinearCritic(phi)
    momdp, policy, critic = instance(0)
    with pytest.raises(InputError, match="a row for each of 4 states; found 3"):
        LinearCritic(np.eye(3)).fixed_point(policy)
    clients = Clients(momdp, 1)
    policies = clients.policies(policy.theta[None, None])
    batch, _ = sample(clients, policies, start((1, 1)), 4, seed=0)
    w = np.zeros((1, 1, 2, 2))
    for arguments, text in [
        ((3, 0.1, 1.0), "`size` must divide the 4 transitions; found 3"),
        ((0, 0.1, 1.0), "`size`"),
        ((2, 0.0, 1.0), "`step`"),
        ((2, 0.1, 0.0), "`radius` must be positive"),
        ((2, 0.1, math.nan), "`radius` must be positive"),
    ]:
        with pytest.raises(InputError, match=text):
            critic.learn(w, clients, batch, *arguments)
    with pytest.raises(InputError, match="`d2`"):
        random_features(np.random.default_rng(0), 2, 3)


def test_projection_is_the_nearest_point() -> None:
    rng = np.random.default_rng(0)
    w = 3 * rng.standard_normal((50, 3, 2))
    radius = rng.uniform(0.5, 6.0, size=50)
    projected = project(w, radius)
    inside = np.linalg.norm(w, axis=1) <= radius[:, None]
    assert 0 < inside.sum() < inside.size
    for other in rng.standard_normal((200, 50, 3, 2)):
        feasible = project(other, radius)
        distance = np.linalg.norm(w - feasible, axis=1)
        assert (np.linalg.norm(w - projected, axis=1) <= distance * (1 + 1e-12)).all()
    np.testing.assert_array_equal(project(np.zeros((3, 2)), 1.0), np.zeros((3, 2)))
