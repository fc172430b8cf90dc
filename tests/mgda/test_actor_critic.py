"""Gradient oracles: their limits, what they carry on, the same numbers for any batch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mgda.actor_critic
from linsys import InputError
from mgda.actor_critic import ActorCritic, ExactGradients
from mgda.critic import LinearCritic, random_features
from mgda.instances import heterogeneous, sample_momdp
from mgda.trajectories import SAMPLINGS, Clients

#: Chance that any one statistical assertion fails for a correct program.
FAILURE = 1e-7

MOMDP = sample_momdp(0, states=3, actions=2, objectives=2, gamma=0.7)
CRITIC = LinearCritic(random_features(np.random.default_rng(0), 3, 2))


def parameters(*shape: int) -> Any:
    return np.random.default_rng(1).standard_normal(shape)


def oracle(clients: Clients | None = None, **changes: Any) -> ActorCritic:
    options = {"B": 5, "D": 3, "N": 4, "radius": 3.0, "replicates": 6, "seed": 2, **changes}
    return ActorCritic(clients or Clients(MOMDP, 2), CRITIC, **options)


def three_calls(source: ActorCritic, theta: Any) -> tuple[Any, Any]:
    """Gradients of three rounds, the parameters moving on the way."""
    memory, jacobians = source.init(), []
    for k in range(3):
        gradients, memory = source.jac((1 + 0.1 * k) * theta, memory)
        jacobians.append(gradients)
    return np.array(jacobians), memory


def test_exact_gradients() -> None:
    clients = Clients(heterogeneous(MOMDP, 0, clients=2, env=0.5, obj=0.5))
    source, theta = ExactGradients(clients), parameters(4, 2, 6)
    jacobian, memory = source.jac(theta, source.init())
    assert memory is None
    for c, momdp in enumerate(clients.momdps):
        np.testing.assert_allclose(jacobian[:, c], momdp.jac(theta[:, c], first=1), atol=1e-15)
        assert np.abs(jacobian[:, c] - momdp.jac(theta[:, c])).max() > 1e-3
        assert np.abs(jacobian[:, 1 - c] - momdp.jac(theta[:, c], first=1)).max() > 1e-3


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("same", [True, False])
def test_without_sampling_it_is_delta_at_the_fixed_point(sampling: str, same: bool) -> None:
    momdps = (MOMDP,) * 2 if same else heterogeneous(MOMDP, 0, clients=2, env=0.5, obj=0.5)
    source = oracle(Clients(MOMDP, 2) if same else Clients(momdps), B=None, N=None)
    source = replace(source, sampling=sampling)
    theta = parameters(6, 2, 6)
    jacobian, memory = source.jac(theta, source.init())
    assert memory.time == 0
    for c, momdp in enumerate(momdps):
        policy = momdp.at(theta[:, c])
        laws = [policy.stationary, policy.occupancy]
        law, other = laws if sampling != "restarted" else laws[::-1]
        values = CRITIC.values(CRITIC.fixed_point(policy, law))
        np.testing.assert_allclose(jacobian[:, c], policy.direction(values, law), atol=1e-14)
        assert np.abs(jacobian[:, c] - policy.direction(values, other)).max() > 1e-4


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_replicates_may_be_split(sampling: str) -> None:
    theta = parameters(6, 2, 6)
    whole, memory = three_calls(oracle(sampling=sampling), theta)
    for first in (0, 2, 4):
        part = oracle(sampling=sampling, replicates=2, first_replicate=first)
        estimates, kept = three_calls(part, theta[first : first + 2])
        np.testing.assert_array_equal(estimates, whole[:, first : first + 2])
        np.testing.assert_array_equal(kept.w, memory.w[first : first + 2])
    other, _ = three_calls(oracle(sampling=sampling, seed=3), theta)
    assert (np.abs(other - whole).max(axis=(2, 3, 4)) > 0).all()
    assert memory.time == 3 * (4 * 3 + 5)
    assert np.linalg.norm(memory.w, axis=-2).max() <= 3.0 * (1 + 1e-15)


def test_pieces_of_the_critics_samples_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    theta = parameters(6, 2, 6)
    whole, _ = three_calls(oracle(), theta)
    monkeypatch.setattr(mgda.actor_critic, "_PIECE", 1)
    estimates, _ = three_calls(oracle(), theta)
    np.testing.assert_array_equal(estimates, whole)


def test_memory_is_carried() -> None:
    """The second call goes on with the critics and the chains of the first."""
    source, theta = oracle(), parameters(6, 2, 6)
    _, memory = source.jac(theta, source.init())
    on, _ = source.jac(theta, memory)
    for forgotten in (
        memory._replace(w=source.init().w),
        memory._replace(state=(memory.state + 1) % 3),
        memory._replace(time=0),
    ):
        assert np.abs(source.jac(theta, forgotten)[0] - on).max() > 1e-3


def test_mean_of_independent_gradients() -> None:
    """With w_* and independent samples the mean is Delta; Hoeffding on entries of delta psi."""
    replicates, B = 20_000, 16
    source = oracle(Clients(MOMDP, 1), N=None, B=B, sampling="stationary", replicates=replicates)
    theta = parameters(6)
    stack = np.tile(theta, (replicates, 1, 1))
    jacobian, _ = source.jac(stack, source.init())
    policy = MOMDP.at(theta)
    w = CRITIC.fixed_point(policy)
    delta = policy.direction(CRITIC.values(w))
    v = CRITIC.values(w)
    size = np.abs(MOMDP.r + 0.7 * v - v[:, None, None]).max()  # entries of psi are in [-1, 1]
    radius = 2 * size * math.sqrt(math.log(2 * delta.size / FAILURE) / (2 * B * replicates))
    gap = np.abs(jacobian.mean(axis=0)[0] - delta).max()
    assert gap <= radius
    assert np.abs(jacobian.mean(axis=0)[0] + delta).max() > radius
    assert np.abs(jacobian.mean(axis=0)[0] - delta[:, ::-1]).max() > radius


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"B": 0}, "`B`"),
        ({"N": -1}, "`N`"),
        ({"D": 0}, "`D`"),
        ({"seed": -1}, "`seed`"),
        ({"replicates": 0}, "`replicates`"),
        ({"first_replicate": -1}, "`first_replicate`"),
        ({"start": 3}, "`start`"),
        ({"sampling": "iid"}, "`sampling`"),
        ({"step": 0.0}, "`step`"),
        ({"radius": 0.0}, "`radius`"),
        ({"radius": math.nan}, "`radius`"),
        ({"critic": LinearCritic(np.eye(2))}, "`critic`"),
    ],
)
def test_bad_oracles(change: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        replace(oracle(), **change)


def test_bad_parameters() -> None:
    source = oracle()
    with pytest.raises(InputError, match=r"`theta` must have shape \(6, 2, 6\)"):
        source.jac(np.zeros((2, 6)), source.init())
    with pytest.raises(InputError, match="`theta` must be finite"):
        source.jac(np.full((6, 2, 6), np.nan), source.init())
