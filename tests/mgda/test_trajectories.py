"""Sampled transitions: generator, laws, no dependence on batches; the mean of (10), enumerated."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from linsys import InputError
from mgda.instances import heterogeneous, sample_momdp
from mgda.momdp import MOMDP
from mgda.trajectories import (
    SAMPLINGS,
    Clients,
    Transitions,
    error_sums,
    gradients,
    philox,
    sample,
    td_errors,
)

#: Chance that any one statistical assertion fails for a correct program.
FAILURE = 1e-7


def tiny(gamma: float = 0.7) -> MOMDP:
    rng = np.random.default_rng(0)
    momdp = sample_momdp(rng, states=3, actions=2, objectives=2, gamma=gamma)
    return replace(momdp, r=rng.random((3, 2, 3, 2)))


def start(shape: tuple[int, int], state: int = 0) -> Any:
    return np.full(shape, state, dtype=np.int64)


def parameters(*shape: int) -> Any:
    return np.random.default_rng(1).standard_normal(shape)


# -- random numbers


@pytest.mark.parametrize("counter", [(1, 0, 0, 0), (5, 2, 7, 0), (2**63, 2**64 - 1, 3, 9)])
def test_philox_is_numpys(counter: tuple[int, ...]) -> None:
    key = np.array([2**64 - 3, 12345], dtype=np.uint64)
    before = np.array([counter[0] - 1, *counter[1:]], dtype=np.uint64)  # NumPy counts up first
    known = np.random.Philox(counter=before, key=key).random_raw(4)
    ours = philox(*(np.uint64(word) for word in (*key, *counter)))
    assert list(ours) == [int(word) for word in known]
    other = philox(*(np.uint64(word) for word in (*key, counter[0] ^ 1, *counter[1:])))
    assert not set(ours) & set(other)


def test_a_draw_is_made_of_its_block() -> None:
    """The first transitions by hand: word 0 for the action, 1 for the next state, 2 and 3 fresh."""
    momdp = tiny()
    clients, theta = Clients(momdp, 2), parameters(3, 2, 6)
    policies = clients.policies(theta)
    batch, _ = sample(clients, policies, start((3, 2)), 1, seed=2**70 + 5, time=11)
    for k in range(3):
        for c in range(2):
            words = philox(*(np.uint64(word) for word in (5, 2**6, 11, c, k, 0)))
            u = [float(int(word) >> 11) / 2**53 for word in words]
            action = int((u[0] >= np.cumsum(policies[0].pi[k, c, 0])[:-1]).sum())
            after = int((u[1] >= np.cumsum(momdp.P[0, action])[:-1]).sum())
            assert (batch.actions[k, c, 0], batch.after[k, c, 0]) == (action, after)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_batches_replicates_and_threads_change_nothing(sampling: str) -> None:
    clients, theta = Clients(tiny(), 2), parameters(6, 2, 6)
    options: dict[str, Any] = {"seed": 3, "sampling": sampling}
    policies = clients.policies(theta)
    whole, last = sample(clients, policies, start((6, 2)), 10, **options)
    head, state = sample(clients, policies, start((6, 2)), 4, **options)
    tail, end = sample(clients, policies, state, 6, time=4, **options)
    for name in Transitions._fields:
        joined = np.concatenate([getattr(head, name), getattr(tail, name)], axis=-1)
        np.testing.assert_array_equal(joined, getattr(whole, name))
    np.testing.assert_array_equal(end, last)

    def some(first: int) -> Any:
        part = clients.policies(theta[first : first + 2])
        return sample(clients, part, start((2, 2)), 10, first_replicate=first, **options)[0]

    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(some, [0, 2, 4]))
    for name in Transitions._fields:
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    # another seed, time, client or replicate is another stream
    assert (sample(clients, policies, start((6, 2)), 10, seed=4)[0].after != whole.after).any()
    same = clients.policies(np.zeros((6, 2, 6)))
    drawn, _ = sample(clients, same, start((6, 2)), 30, **options)
    assert len(np.unique(drawn.after.reshape(12, 30), axis=0)) == 12


# -- laws


def off(frequencies: Any, law: Any, draws: int) -> float:
    """Largest deviation of frequencies in units of Hoeffding's radius for FAILURE."""
    radius = math.sqrt(math.log(2 * law.size / FAILURE) / (2 * draws))
    return float(np.abs(frequencies - law).max() / radius)


def restarted_law(momdp: MOMDP, policy: Any, steps: int) -> Any:
    """Law of s in transition number ``steps``: state 2 first, a possible restart before each."""
    law = np.eye(3)[2]
    for step in range(steps):
        law = momdp.gamma * (law @ policy.kernel if step else law) + (1 - momdp.gamma) * momdp.start
    return law


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_transitions_follow_their_law(sampling: str) -> None:
    """The fifth transition of 40000 independent chains: s, a and s' together."""
    momdp, draws, steps = tiny(), 40_000, 5
    clients = Clients(momdp, 1)
    policy = momdp.at(parameters(6))
    policies = clients.policies(np.tile(policy.theta, (draws, 1, 1)))
    batch, _ = sample(clients, policies, start((draws, 1), 2), steps, seed=0, sampling=sampling)
    law = {
        "markov": np.linalg.matrix_power(policy.kernel, steps - 1)[2],
        "stationary": policy.stationary,
        "restarted": restarted_law(momdp, policy, steps),
    }[sampling]
    counts = np.zeros((3, 2, 3))
    np.add.at(counts, tuple(part[:, 0, -1] for part in batch), 1.0 / draws)
    exact = law[:, None, None] * policy.pi[..., None] * momdp.P
    assert off(counts, exact, draws) <= 1.0
    assert off(counts, np.roll(exact, 1, axis=1), draws) > 1.0  # actions swapped
    others = {"uniform": np.full(3, 1 / 3), "start": momdp.start}
    for other in others.values():
        assert off(counts, other[:, None, None] * policy.pi[..., None] * momdp.P, draws) > 1.0


def test_restarted_chains_settle_at_the_occupancy() -> None:
    momdp = tiny()
    policy = momdp.at(parameters(6))
    assert np.abs(restarted_law(momdp, policy, 200) - policy.occupancy).max() <= 1e-14
    assert np.abs(restarted_law(momdp, policy, 200) - policy.stationary).max() > 1e-3


# -- TD errors and the stochastic gradient


def every_transition(momdp: MOMDP) -> tuple[Transitions, Any]:
    """All (s, a, s') as replicates of batches of one, and their probabilities given s."""
    index = np.indices((3, 2, 3)).reshape(3, -1)
    return Transitions(*(part.reshape(-1, 1, 1) for part in index)), momdp.P.reshape(-1)


@pytest.mark.parametrize("law", ["stationary", "occupancy"])
def test_the_mean_of_the_stochastic_gradient_is_delta(law: str) -> None:
    momdp = tiny()
    batch, P = every_transition(momdp)
    policy, clients = momdp.at(parameters(6)), Clients(momdp, 1)
    policies = clients.policies(np.tile(policy.theta, (len(P), 1, 1)))
    values = np.random.default_rng(5).standard_normal((3, 2))
    each = gradients(clients, policies, batch, np.tile(values, (len(P), 1, 1, 1)))[:, 0]

    def mean(z: Any) -> Any:
        s, a = batch.states[:, 0, 0], batch.actions[:, 0, 0]
        return np.einsum("k,kdj->dj", z[s] * policy.pi[s, a] * P, each)

    weights, other = policy.stationary, policy.occupancy
    if law == "occupancy":
        weights, other = other, weights
    delta = policy.direction(values, weights)
    assert np.abs(mean(weights) - delta).max() <= 1e-15
    assert np.abs(mean(other) - delta).max() > 1e-3
    exact = policy.direction(policy.V, weights)
    assert np.abs(exact - delta).max() > 1e-3  # the critic matters


def test_kernels_equal_their_definition() -> None:
    three = heterogeneous(tiny(), 0, clients=3, env=0.5, obj=0.5)
    clients, theta = Clients(three), parameters(4, 3, 6)
    policies = clients.policies(theta)
    batch, _ = sample(clients, policies, start((4, 3)), 50, seed=1)
    values = np.random.default_rng(2).standard_normal((4, 3, 3, 2))
    sums, means = np.zeros((4, 3, 3, 2, 2)), np.zeros((4, 3, 6, 2))
    delta = td_errors(clients, batch, values)
    for k in range(4):
        for c, momdp in enumerate(three):
            psi = momdp.at(theta[k, c]).psi
            for at, (s, a, t) in enumerate(zip(*(part[k, c] for part in batch), strict=True)):
                error = momdp.r[s, a, t] + 0.7 * values[k, c, t] - values[k, c, s]
                np.testing.assert_allclose(delta[k, c, at], error, rtol=0, atol=1e-15)
                sums[k, c, s, a] += error
                means[k, c] += np.outer(psi[s, a], error) / 50
    assert np.abs(error_sums(clients, batch, values) - sums).max() <= 1e-12
    slopes = gradients(clients, policies, batch, values)
    assert np.abs(slopes - means).max() <= 1e-12
    assert np.abs(slopes[:, ::-1] - means).max() > 1e-3


# -- clients


def test_equal_clients_are_one_process() -> None:
    momdp = tiny()
    one, many = Clients(momdp, 3), Clients([momdp] * 3)
    theta = parameters(2, 3, 6)
    np.testing.assert_allclose(one.jac(theta), many.jac(theta), atol=1e-15)
    a, _ = sample(one, one.policies(theta), start((2, 3)), 20, seed=1)
    b, _ = sample(many, many.policies(theta), start((2, 3)), 20, seed=1)
    np.testing.assert_array_equal(a.after, b.after)
    values = np.random.default_rng(2).standard_normal((2, 3, 3, 2))
    np.testing.assert_allclose(
        gradients(one, one.policies(theta), a, values),
        gradients(many, many.policies(theta), a, values),
        atol=1e-15,
    )


def test_bad_clients_and_draws() -> None:
    momdp = tiny()
    with pytest.raises(
        InputError, match="`momdps` must be one process for each of 3 clients; found 2"
    ):
        Clients([momdp, momdp], 3)
    with pytest.raises(InputError, match="found 0"):
        Clients([])
    with pytest.raises(InputError, match="one shape and gamma"):
        Clients([momdp, tiny(0.5)])
    with pytest.raises(InputError, match="the same features"):
        Clients([momdp, replace(momdp, features=2 * momdp.x)])
    clients = Clients(momdp, 2)
    policies = clients.policies(np.zeros((1, 2, 6)))
    good: dict[str, Any] = {"seed": 0}
    for change, text in [
        ({"sampling": "iid"}, "`sampling` must be one of"),
        ({"seed": -1}, "`seed`"),
        ({"seed": 2**128}, "`seed`"),
        ({"time": 0.5}, "`time`"),
        ({"first_replicate": -1}, "`first_replicate`"),
    ]:
        with pytest.raises(InputError, match=text):
            sample(clients, policies, start((1, 2)), 3, **{**good, **change})
    with pytest.raises(InputError, match="`length`"):
        sample(clients, policies, start((1, 2)), 0, **good)
    for state in (start((2, 2)), start((1, 2), 3), start((1, 2), -1)):
        with pytest.raises(InputError, match="`state`"):
            sample(clients, policies, state, 3, **good)
