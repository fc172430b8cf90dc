"""The compiled loops of OOD-PL's experiments against NumPy, on the same samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.oodpl import _lanes as lanes
from linsys import InputError
from linsys.bilevel import (
    Domain,
    DomainOracle,
    LinearReward,
    MetaTraining,
    Start,
    adjoint,
    descend,
    meta_distribution,
    optimum,
    policy_gradient,
    sft,
)
from tests.linsys._asserts import assert_equal_numbers

#: The last one has more answers than there are lanes.
SIZES: dict[str, dict[str, int]] = {
    "small": {"prompts": 3, "answers": 4, "p": 3, "q": 2},
    "full": {"prompts": 5, "answers": 8, "p": 2, "q": 4},
    "one prompt": {"prompts": 1, "answers": 3, "p": 2, "q": 5},
    "many answers": {"prompts": 2, "answers": 9, "p": 2, "q": 2},
}
BATCHES: list[dict[str, Any]] = [
    {"inner_batch": None, "outer_batch": None, "every_task": True},
    {"inner_batch": None, "outer_batch": 5},
    {"inner_batch": 1, "outer_batch": 1},
    {"inner_batch": 6, "outer_batch": None},
]


def drawn(size: str, reward: str = "linear", pairs: int | None = None) -> tuple[Domain, ...]:
    sizes: dict[str, Any] = SIZES[size]
    return meta_distribution(3, train=3, reward=reward, pairs=pairs, strength=1.0, **sizes).train


def start(domains: tuple[Domain, ...]) -> Start:
    rng = np.random.default_rng(1)
    sizes = domains[0].reward.q, domains[0].policy.p
    return Start(*(0.3 * rng.standard_normal(size) for size in sizes))


def in_numpy(training: MetaTraining, domains: tuple[Domain, ...], first: Start) -> Any:
    """phi of every round that is not refused, and the hypergradients."""
    oracles = training.oracles(domains)
    state, phis, slopes = training.init(first, oracles), [first.phi_0], []
    for k in range(training.K):
        each = []
        try:
            for task in training.tasks(state, len(domains)):
                one = oracles[task]
                options: dict[str, Any] = {"alpha": training.alpha, "D": training.D, "k": k}
                path = descend(one, state.phi, state.theta_0, **options)
                each.append(adjoint(one, state.phi, path, one.draw_outer(k)))
        except InputError:
            break
        slopes.append(np.mean(each, axis=0))
        state = state._replace(phi=state.phi - training.eta * slopes[-1], t=k + 1)
        phis.append(state.phi)
    return np.array(phis), np.array(slopes)


@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("reward", ["linear", "tanh"])
@pytest.mark.parametrize("batches", BATCHES)
def test_runs(size: str, reward: str, batches: dict[str, Any]) -> None:
    domains = drawn(size, reward, None if batches["outer_batch"] is None else 20)
    training = MetaTraining(
        alpha=0.03, beta=2.0, D=12, eta=0.5, K=6, seed=(7 << 64) + (1 << 63) + 5, **batches
    )
    first = start(domains)
    expected, slopes = in_numpy(training, domains, first)
    assert len(expected) == training.K + 1
    assert_equal_numbers(lanes.run(training, domains, first), expected, "phi")
    assert np.abs(slopes).max() > 1e-2
    changes = [{"alpha": 1.01 * training.alpha}, {"D": 13}]
    if not training.every_task:
        changes.append({"seed": training.seed + 1})
    for change in changes:
        other = lanes.run(replace(training, **change), domains, first)
        with pytest.raises(AssertionError, match="phi"):
            assert_equal_numbers(other, expected, "phi")


@pytest.mark.parametrize("size", ["small", "many answers"])
@pytest.mark.parametrize("inner_batch", [None, 1, 3])
def test_hypergradients_of_many_rounds_at_one_phi(size: str, inner_batch: int | None) -> None:
    domain, *_ = domains = drawn(size)
    training = MetaTraining(
        alpha=0.03, beta=2.0, D=15, eta=1.0, K=1, inner_batch=inner_batch, outer_batch=None, seed=4
    )
    first = start(domains)
    slopes, theta = lanes.hypergradients(training, domain, *first, 3)
    [oracle] = training.oracles([domain])
    paths = [descend(oracle, *first, alpha=0.03, D=15, k=k) for k in range(3)]
    expected = [adjoint(oracle, first.phi_0, path) for path in paths]
    assert_equal_numbers(slopes, expected, "hypergradient")
    assert_equal_numbers(theta, paths[-1].theta[-1], "theta_D")
    if inner_batch:
        with pytest.raises(AssertionError, match="hypergradient"):
            assert_equal_numbers(slopes[::-1], expected, "hypergradient")


@pytest.mark.parametrize("size", ["small", "many answers"])
@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 30.0},  # the inner loss grows
        {"eta": 3000.0},  # the weights of the next round overflow
        {"eta": 1e308, "beta": 1e-3},  # phi does
    ],
)
def test_a_run_ends_before_the_round_that_is_refused(size: str, change: dict[str, Any]) -> None:
    domains = drawn(size)
    options: dict[str, Any] = {"alpha": 0.03, "beta": 2.0, "D": 12, "eta": 0.5, "K": 6, **change}
    training = MetaTraining(inner_batch=None, outer_batch=None, every_task=True, **options)
    first = start(domains)
    oracles = training.oracles(domains)
    with np.errstate(over="ignore"):
        made = lanes.run_while_finite(training, domains, first)
        state = training.init(first, oracles)
        for phi in made[1:]:
            state, _ = training.round(state, oracles)
            assert_equal_numbers(phi, state.phi, "phi")
        assert len(made) <= training.K
        with pytest.raises(InputError) as refused:
            training.round(state, oracles)
        with pytest.raises(InputError) as same:
            lanes.run(training, domains, first)
    assert str(same.value).split(";")[0][:40] == str(refused.value).split(";")[0][:40]


@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("reward", ["linear", "tanh"])
def test_optima(size: str, reward: str) -> None:
    domains = drawn(size, reward)
    oracle = DomainOracle(domain=domains[0], beta=0.7)
    phi = 3.0 * start(domains).phi_0
    expected = optimum(oracle, phi)
    assert_equal_numbers(lanes.optimum(oracle, phi), expected, "optimum")
    with pytest.raises(AssertionError, match="optimum"):
        assert_equal_numbers(lanes.optimum(oracle, 1.01 * phi), expected, "optimum")
    assert_equal_numbers(lanes.sft(domains), sft(domains), "sft")
    with pytest.raises(AssertionError, match="sft"):
        assert_equal_numbers(lanes.sft(domains[1:]), sft(domains), "sft")


def test_a_loss_without_a_minimum_and_weights_that_overflow_are_refused() -> None:
    domain, *_ = drawn("small")
    psi = domain.policy.psi.copy()
    psi[..., 1] = psi[..., 0]
    flat = replace(domain, policy=replace(domain.policy, psi=psi))
    with pytest.raises(InputError, match="must have a unique minimum"):
        lanes.optimum(DomainOracle(domain=flat, beta=1.0), np.zeros(2))
    with pytest.raises(InputError, match="must have a unique minimum"):
        lanes.sft([flat])
    with pytest.raises(InputError, match="`beta` must keep"):
        lanes.optimum(DomainOracle(domain=domain, beta=1e-6), np.ones(2))


@pytest.mark.parametrize("size", list(SIZES))
def test_policy_gradients(size: str) -> None:
    domains = drawn(size)
    reference = start(domains).theta_0
    options = {"beta": 0.7, "eta": 0.3, "steps": 15}
    given = domains, np.ones(domains[0].reward.q), reference
    expected = policy_gradient(*given, **options)
    assert_equal_numbers(lanes.policy_gradient(*given, **options), expected, "theta")
    for change in ({"beta": 0.71}, {"eta": 0.31}, {"steps": 16}):
        other = lanes.policy_gradient(*given, **{**options, **change})
        with pytest.raises(AssertionError, match="theta"):
            assert_equal_numbers(other, expected, "theta")
    with pytest.raises(InputError, match="`eta` must let the objective grow"):
        lanes.policy_gradient(*given, beta=50.0, eta=1.0, steps=3)
    with pytest.raises(InputError, match="`steps` must be"):
        lanes.policy_gradient(*given, beta=1.0, eta=0.1, steps=0)


def test_rewards_of_several_kinds_are_left_to_numpy() -> None:
    one, other, _ = drawn("small")
    mixed = (
        one,
        replace(other, reward=LinearReward(2.0 * other.reward.xi)),
        drawn("small", "tanh")[2],
    )
    training = MetaTraining(alpha=0.03, beta=2.0, D=12, eta=0.5, K=6, outer_batch=None)
    first = start(mixed)
    expected, _ = in_numpy(training, mixed, first)
    assert_equal_numbers(lanes.run(training, mixed, first), expected, "phi")
