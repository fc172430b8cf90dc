"""Exact moments of FIRM's rates against enumeration, and claims that can turn."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from experiments.firm.theory.rates import Critic, OneState

STATE = OneState(np.array([0.3, -0.2, 0.5]), np.array([[1.0, 0.1], [0.2, 0.9], [0.0, 0.4]]))
CRITIC = Critic(
    np.array([[0.7, 0.3], [0.1, 0.9]]), np.array([1.0, 0.3]), np.array([1.0, -0.6]), 0.7
)


def test_batches_are_multinomial() -> None:
    chance, gradients = STATE.batch(3)
    assert chance.sum() == pytest.approx(1.0)
    law: dict[bytes, float] = {}
    for draw in itertools.product(range(3), repeat=3):
        mean = STATE.samples[list(draw)].mean(axis=0)
        key = np.round(mean, 12).tobytes()
        law[key] = law.get(key, 0.0) + float(np.prod(STATE.pi[list(draw)]))
    chances = {np.round(g, 12).tobytes(): p for g, p in zip(gradients, chance, strict=True)}
    assert chances.keys() == law.keys()
    assert all(chances[key] == pytest.approx(law[key]) for key in law)


def test_one_state_samples_are_those_of_a_process() -> None:
    from mgda.momdp import MOMDP

    momdp = MOMDP(P=np.ones((1, 3, 1)), r=STATE.r[None], gamma=0.5)
    policy = momdp.at(STATE.theta)
    mean = np.tensordot(STATE.pi, STATE.samples, axes=1)
    np.testing.assert_allclose(mean, policy.direction(policy.V), atol=1e-15)


def test_distance_and_drifts_after_a_local_step_by_enumeration() -> None:
    beta, a, B = 0.2, 0.7, 2
    chance, gradients, lam = STATE.solutions(B, beta)
    distance, client, disagreement = 0.0, 0.0, 0.0
    for i, j in itertools.product(range(len(chance)), repeat=2):
        p = chance[i] * chance[j]
        distance += p * ((lam[i] - lam[j]) ** 2).sum()
        points = [STATE.theta + a * gradients[k] @ lam[k] for k in (i, j)]
        states = [replace(STATE, theta=x) for x in (*points, sum(points) / 2)]
        true = [np.tensordot(x.pi, x.samples, axes=1) for x in states]
        client += p * ((((true[0] + true[1]) / 2 - true[2]) @ [0.5, 0.5]) ** 2).sum()
        left, right = (x.solutions(B, beta) for x in states[:2])
        for q, g, w in zip(*left, strict=True):
            for s, g2, w2 in zip(*right, strict=True):
                middle = (w + w2) / 2
                apart = (g @ (w - middle) + g2 @ (w2 - middle)) / 2
                disagreement += p * q * s * (apart**2).sum()
    assert STATE.weight_distance(B, beta) == pytest.approx(distance)
    assert STATE.local_step(B, beta, a) == pytest.approx((client, disagreement))


@pytest.mark.parametrize("D", [1, 4])
def test_critic_s_transfer_is_the_sum_over_paths(D: int) -> None:
    step = 0.3
    A, b = CRITIC._slope, CRITIC._noise
    wanted = np.zeros((6, 2, 2))
    for path in itertools.product(range(2), repeat=D + 1):
        pairs = list(itertools.pairwise(path))
        p = np.prod([CRITIC.P[pair] for pair in pairs])
        x = 1 + step * np.mean([A[pair] for pair in pairs])
        y = step * np.mean([b[pair] for pair in pairs])
        wanted[:, path[0], path[-1]] += p * np.array([x * x, x, x * y, y, y * y, 1.0])
    np.testing.assert_allclose(CRITIC.transfer(step, D), wanted, atol=1e-14)


def test_critic_s_floor_is_where_its_moments_end() -> None:
    step, D = 0.4, 8
    xx, x, xy, y, yy, one = CRITIC.transfer(step, D)
    law, mean, square = CRITIC.stationary, np.zeros(2), 100.0 * CRITIC.stationary
    np.testing.assert_allclose(law @ one, law, atol=1e-14)
    errors = []
    for _ in range(400):
        mean, square = mean @ x + law @ y, square @ xx + 2 * mean @ xy + law @ yy
        errors.append(square.sum())
    assert errors[-1] == pytest.approx(CRITIC.floor(step, D))
    start = np.array(errors[20:22]) - errors[-1]
    assert -1.0 / np.log(start[1] / start[0]) == pytest.approx(CRITIC.forgetting(step, D), rel=1e-3)
    assert (law[:, None] * CRITIC.P * CRITIC._noise).sum() == pytest.approx(0.0, abs=1e-15)
    assert CRITIC.lambda_A > 0
