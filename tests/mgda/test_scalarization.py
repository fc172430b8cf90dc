"""Fixed mixtures: what they ascend, their relation to FIRM, refused input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linsys import InputError
from mgda.actor_critic import ExactGradients
from mgda.firm import FIRM
from mgda.instances import sample_momdp
from mgda.runs import run
from mgda.scalarization import LinearScalarization, SingleObjective
from mgda.trajectories import Clients


def draws(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def test_the_mixture_is_ascended() -> None:
    gradients, theta = draws(2, 3, 5, 3), draws(2, 3, 5, seed=1)
    mixed = LinearScalarization(alpha=0.2, K=2, weights=(0.2, 0.5, 0.3))
    state = mixed.step(mixed.init(theta), gradients)
    np.testing.assert_allclose(
        state.theta - theta.mean(axis=1, keepdims=True),
        0.2 * (gradients @ [0.2, 0.5, 0.3]),
        atol=1e-14,
    )
    for j in range(3):
        single = SingleObjective(alpha=0.2, objective=j)
        corner = LinearScalarization(alpha=0.2, weights=tuple(np.eye(3)[j]))
        one, two = (a.step(a.init(theta), gradients) for a in (single, corner))
        np.testing.assert_array_equal(one.theta, two.theta)
        np.testing.assert_array_equal(one.weights, np.eye(3)[[[j] * 3] * 2])


def test_firm_with_strong_regularisation_is_the_equal_mixture() -> None:
    gradients, theta = draws(2, 3, 5, 3), np.zeros((2, 3, 5))
    firm = FIRM(alpha=0.2, beta=1e12, normalise=False)
    equal = LinearScalarization(alpha=0.2, weights=(1 / 3,) * 3)
    one, two = (a.step(a.init(theta), gradients) for a in (firm, equal))
    # (2 / beta) |G lambda| is below 1e-10
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-10)


def test_each_gets_what_it_asks_for() -> None:
    clients = Clients(sample_momdp(0, states=3, actions=2, gamma=0.7), 2)
    oracle, theta = ExactGradients(clients), np.zeros((1, 2, 6))

    def end(algorithm: Any) -> Any:
        return run(algorithm, oracle, theta, 300, times=[300]).values["J"][0, 0]

    first, second = (end(SingleObjective(alpha=2.0, objective=j)) for j in range(2))
    half = end(LinearScalarization(alpha=2.0, weights=(0.5, 0.5)))
    assert first[0] > half[0] > second[0]
    assert second[1] > half[1] > first[1]
    assert half.sum() > max(first.sum(), second.sum())


def test_bytes_by_hand() -> None:
    for algorithm in (SingleObjective(alpha=1.0), LinearScalarization(alpha=1.0, weights=(1.0,))):
        assert algorithm.bytes_per_round(3, 100, 2) == (1200, 1200)


@pytest.mark.parametrize(
    "weights", [(), (0.5, 0.6), (1.5, -0.5), ((0.5, 0.5),), ("a",), (float("nan"), 1.0)]
)
def test_refused_weights(weights: Any) -> None:
    with pytest.raises(InputError, match="`weights`"):
        LinearScalarization(alpha=1.0, weights=weights)


def test_refused_objectives() -> None:
    state = SingleObjective(alpha=1.0).init(np.zeros((1, 2)))
    with pytest.raises(InputError, match="`objective`"):
        SingleObjective(alpha=1.0, objective=-1)
    with pytest.raises(InputError, match=r"`objective` must be .* at most 1; found 2"):
        SingleObjective(alpha=1.0, objective=2).step(state, np.ones((1, 2, 2)))
    with pytest.raises(InputError, match="`weights` must have one entry for each of 2"):
        LinearScalarization(alpha=1.0, weights=(1.0,)).step(state, np.ones((1, 2, 2)))
    with pytest.raises(InputError, match=r"`clients`"):
        SingleObjective(alpha=1.0).bytes_per_round(0, 1, 1)
