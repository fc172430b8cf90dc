"""Clients and server apart: each does its own part, and the numbers are those of all together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from mgda.fedcmoo import FedCMOO
from mgda.federated import State, client_mean
from mgda.firm import FIRM
from mgda.scalarization import LinearScalarization

#: Large enough for the code that torch has for large products, and an odd number of objectives:
#: MKL then has other last bits for one Gram matrix than for several at once.
C, D, M, K = 3, 50, 3, 4


class Quadratics:
    """Gradients of -|theta - peak|^2 / 2 with noise, of some clients; the memory counts."""

    def __init__(self, clients: range, make: Any) -> None:
        self.clients, self.make = clients, make

    def jac(self, theta: Any, memory: int) -> tuple[Any, int]:
        rows = []
        for c in self.clients:
            rng = np.random.default_rng([c, memory])
            rows.append(np.arange(D * M).reshape(D, M) / 5 + c + rng.normal(size=(D, M)))
        return self.make(np.array(rows)[None]) - theta[..., None], memory + 1


def _start(make: Any) -> Any:
    return make(np.random.default_rng(9).normal(size=(1, C, D)))


def _together(algorithm: Any, make: Any, rounds: int) -> State:
    oracle = Quadratics(range(C), make)
    state = algorithm.init(_start(make))._replace(memory=0)
    for _ in range(rounds * K):
        state = algorithm.step(state, *oracle.jac(state.theta, state.memory))
    return state


LIBRARIES = [np.asarray, torch.from_numpy]


@pytest.mark.parametrize("make", LIBRARIES)
@pytest.mark.parametrize(
    "algorithm",
    [
        FIRM(alpha=0.1, K=K),
        FIRM(alpha=0.1, K=K, eta="1/t", normalise=False),
        FIRM(alpha=0.1, K=K, optimizer="adam", moments="reset"),
        LinearScalarization(alpha=0.1, K=K, weights=(0.3, 0.5, 0.2)),
    ],
)
def test_clients_alone_and_a_mean_are_the_round(algorithm: Any, make: Any) -> None:
    whole = _together(algorithm, make, rounds=2)
    start = algorithm.init(_start(make))._replace(memory=0)
    alone = [algorithm.init(start.theta[:, c : c + 1])._replace(memory=0) for c in range(C)]
    for _ in range(2):
        for c, state in enumerate(alone):
            oracle = Quadratics(range(c, c + 1), make)
            for _ in range(K):
                state = algorithm.step(state, *oracle.jac(state.theta, state.memory))
            alone[c] = state
        rows = np.concatenate([np.asarray(state.theta) for state in alone], axis=-2)
        mean = client_mean(make(rows))
        alone = [state._replace(theta=mean[:, c : c + 1]) for c, state in enumerate(alone)]
    assert np.array_equal(np.asarray(mean), np.asarray(whole.theta))
    assert abs(mean - _start(make)).max() > 0.1
    weights = np.concatenate([state.weights for state in alone], axis=-2)
    assert np.array_equal(weights, whole.weights)


@pytest.mark.parametrize("make", LIBRARIES)
@pytest.mark.parametrize(
    "more", [{}, {"rank": 1}, {"lambda_rule": "projected"}, {"beta": 0.1, "normalise": True}]
)
def test_a_server_that_finds_the_weights(more: Any, make: Any) -> None:
    """Gradients up, lambda down, parameters up: the first gradients are those of the first step."""
    algorithm = FedCMOO(alpha=0.1, K=K, **more)
    whole = _together(algorithm, make, rounds=2)
    server = algorithm.init(_start(make))
    memories = [0] * C
    for _ in range(2):
        messages = [
            Quadratics(range(c, c + 1), make).jac(server.theta[:, c : c + 1], memories[c])
            for c in range(C)
        ]
        sent = [
            algorithm.restore(algorithm.compress(g, server.t, client=c, clients=C))
            for c, (g, _) in enumerate(messages)
        ]
        joined = make(np.concatenate([np.asarray(part) for part in sent], axis=-3))
        weights = algorithm.resolve(server, joined)
        rows = []
        for c in range(C):
            own = weights[:, c : c + 1]
            state = State(server.theta[:, c : c + 1], own, server.t, memories[c])
            state = algorithm.move(state, messages[c][0], own, messages[c][1])
            for _ in range(K - 1):
                gradients, memory = Quadratics(range(c, c + 1), make).jac(state.theta, state.memory)
                state = algorithm.move(state, gradients, own, memory)
            memories[c] = state.memory
            rows.append(np.asarray(state.theta))
        mean = client_mean(make(np.concatenate(rows, axis=-2)))
        server = State(mean, weights, server.t + K)
    assert np.array_equal(np.asarray(server.theta), np.asarray(whole.theta))
    assert np.array_equal(server.weights, whole.weights)
    assert abs(server.theta - _start(make)).max() > 0.1


def test_given_weights_do_not_open_the_door_to_broken_gradients() -> None:
    firm = FIRM(alpha=0.1)
    state = firm.init(np.zeros((1, C, D)))
    with pytest.raises(InputError, match="`gradients` must be finite; found NaN or infinity"):
        firm.move(state, np.full((1, C, D, M), np.nan), np.full((1, C, M), 0.5))


def test_large_gradients_are_finite_also_where_their_sum_is_not() -> None:
    firm = FIRM(alpha=1e-300)
    state = firm.init(np.zeros((1, C, D)))
    large = np.full((1, C, D, M), 1e308)
    moved = firm.move(state, large, np.full((1, C, M), 1 / M))
    assert np.allclose(moved.theta, 1e8)
    large[..., 0, 0], large[..., 1, 1] = np.inf, -np.inf
    with pytest.raises(InputError, match="`gradients` must be finite; found NaN or infinity"):
        firm.move(state, large, np.full((1, C, M), 1 / M))
