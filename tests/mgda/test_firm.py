"""FIRM: closed forms, switches, symmetry, both namespaces, ascent, refused input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from mgda.fedcmoo import FedCMOO
from mgda.federated import Federated, Start
from mgda.firm import FIRM
from mgda.scalarization import LinearScalarization, SingleObjective
from mgda.simplex import gram, simplex_qp

#: Rounding of a few steps with numbers of size one.
CLOSE = 1e-13
#: The condition of the simplex programs here is at most 1e3.
WEIGHTS = 1e-12

ALL: dict[str, Callable[..., Federated]] = {
    "firm": lambda **common: FIRM(beta=0.1, **common),
    "theory": lambda **common: FIRM(beta=0.5, normalise=False, eta="1/t", **common),
    "server": FedCMOO,
    "projected": lambda **common: FedCMOO(lambda_rule="projected", refresh="step", **common),
    "compressed": lambda **common: FedCMOO(rank=1, **common),
    "fixed": lambda **common: LinearScalarization(weights=(0.2, 0.5, 0.3), **common),
    "single": lambda **common: SingleObjective(objective=1, **common),
}


def draws(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def follow(algorithm: Federated, theta: Any, gradients: Any) -> list[Any]:
    """States along given gradients, one per step."""
    states = [algorithm.init(theta)]
    for g in gradients:
        states.append(algorithm.step(states[-1], g))
    return states


def test_one_client_is_regularised_mgda() -> None:
    gradients, theta = draws(6, 1, 5, 3), draws(1, 5, seed=1)
    lambdas = follow(FIRM(alpha=0.3, K=2, beta=0.4, normalise=False), theta, gradients)
    point = theta[0]
    for k, g in enumerate(gradients[:, 0]):
        weights = simplex_qp(g.T @ g, beta=0.4).weights
        point = point + 0.3 * g @ weights
        np.testing.assert_allclose(lambdas[k + 1].weights[0], weights, atol=WEIGHTS)
        np.testing.assert_allclose(lambdas[k + 1].theta[0], point, atol=CLOSE)
    assert lambdas[-1].t == 6


def test_two_objectives_in_closed_form() -> None:
    """a = (G22 - G12 + beta/2) / (G11 + G22 - 2 G12 + beta), clipped; raw and normalised."""
    gradients, theta = draws(40, 3, 4, 2), np.zeros((40, 3, 4))
    G = gram(gradients)
    for normalise in (False, True):
        firm = FIRM(alpha=1.0, beta=0.6, normalise=normalise)
        lambdas = firm.step(firm.init(theta), gradients).weights
        scaled = G / (np.trace(G, axis1=-2, axis2=-1)[..., None, None] / 2 if normalise else 1.0)
        (a, b), c = (scaled[..., 0, 0], scaled[..., 1, 1]), scaled[..., 0, 1]
        first = np.clip((b - c + 0.3) / (a + b - 2 * c + 0.6), 0.0, 1.0)
        np.testing.assert_allclose(lambdas[..., 0], first, atol=WEIGHTS)
        assert ((first > 0.0) & (first < 1.0)).mean() > 0.5


def test_strong_regularisation_gives_equal_weights() -> None:
    """From lambda = 1/M + (2 / beta) P(-G lambda) inside: the distance to 1/M is O(1 / beta)."""
    gradients, theta = draws(4, 6, 3), np.zeros((4, 6))
    G = gram(gradients)
    slope = -2.0 * (G.sum(axis=-1) / 3 - G.sum(axis=(-2, -1))[:, None] / 9)
    for beta in (1e6, 1e9):
        firm = FIRM(alpha=1.0, beta=beta, normalise=False)
        gap = firm.step(firm.init(theta), gradients).weights - 1 / 3
        # the next order is |G|^2 / beta^2, and rounding of 1/3 times beta
        np.testing.assert_allclose(beta * gap, slope, atol=1e4 / beta + 1e-15 * beta)
        assert np.abs(slope).max() > 1.0


def test_equal_preferences_are_beta_and_a_larger_one_gets_more() -> None:
    gradients, theta = draws(4, 6, 3), np.zeros((4, 6))

    def weights(**options: Any) -> Any:
        firm = FIRM(alpha=1.0, **options)
        return firm.step(firm.init(theta), gradients).weights

    equal = weights(beta=0.0, preference=(2 / 0.3,) * 3)
    np.testing.assert_allclose(equal, weights(beta=0.3), atol=WEIGHTS)
    assert np.abs(equal - weights(beta=0.6)).max() > 1e-3
    prefer = weights(beta=0.0, preference=(2 / 0.3, 2 / 0.3, 20.0))
    assert (prefer[:, 2] - equal[:, 2]).min() >= -WEIGHTS
    assert (prefer[:, 2] - equal[:, 2]).max() > 1e-3


def test_smoothing() -> None:
    gradients, theta = draws(5, 2, 4, 3), np.zeros((2, 4))
    firm = FIRM(alpha=0.1, beta=0.2, normalise=False)
    optimal = [firm.solve(g) for g in gradients]
    mean = [s.weights for s in follow(FIRM.theory(alpha=0.1, beta=0.2), theta, gradients)[1:]]
    quarter = FIRM(alpha=0.1, beta=0.2, normalise=False, eta=0.25)
    smooth = [s.weights for s in follow(quarter, theta, gradients)[1:]]
    expected = np.full((2, 3), 1 / 3)
    for t in range(5):
        np.testing.assert_allclose(mean[t], np.mean(optimal[: t + 1], axis=0), atol=WEIGHTS)
        expected = 0.75 * expected + 0.25 * optimal[t]
        np.testing.assert_allclose(smooth[t], expected, atol=WEIGHTS)
    start = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    frozen = FIRM(alpha=0.1, eta=0.0)
    kept = frozen.step(frozen.init(Start(theta, start)), gradients[0])
    np.testing.assert_array_equal(kept.weights, start)
    moved = 0.05 * (gradients[0, 0, :, 0] + gradients[0, 1, :, 2])
    np.testing.assert_allclose(kept.theta, [moved, moved], atol=CLOSE)


@pytest.mark.parametrize("name", ALL)
def test_aggregation_after_every_K_steps(name: str) -> None:
    gradients, theta = draws(6, 4, 5, 3), draws(4, 5, seed=1)
    states = follow(ALL[name](alpha=0.3, K=3), theta, gradients)
    local = np.tile(theta.mean(axis=0), (4, 1))
    for t, state in enumerate(states):
        if t > 0:
            local = local + 0.3 * np.einsum("cdm,cm->cd", gradients[t - 1], state.weights)
            np.testing.assert_allclose(state.weights.sum(axis=-1), 1.0, atol=WEIGHTS)
        if t % 3 == 0:
            local = np.tile(local.mean(axis=0), (4, 1))
        np.testing.assert_allclose(state.theta, local, atol=CLOSE)
        apart = np.abs(state.theta - state.theta[:1]).max()
        assert apart == 0.0 if t % 3 == 0 else apart > 1e-2


def test_the_printed_initialisation_keeps_only_the_last_local_step() -> None:
    gradients, theta = draws(6, 4, 5, 3), draws(4, 5, seed=1)
    states = follow(FIRM(alpha=0.3, K=3, restart="step"), theta, gradients)
    for first in (0, 3):
        np.testing.assert_array_equal(states[first + 1].theta, states[first].theta)
        np.testing.assert_array_equal(states[first + 2].theta, states[first].theta)
        moved = np.einsum("cdm,cm->d", gradients[first + 2], states[first + 3].weights) / 4
        np.testing.assert_allclose(
            states[first + 3].theta - states[first].theta, [0.3 * moved] * 4, atol=CLOSE
        )


@pytest.mark.parametrize("name", [name for name in ALL if name != "compressed"])
def test_clients_may_be_renumbered(name: str) -> None:
    """Compression draws by number of the client; the others do not know it."""
    gradients, theta = draws(5, 2, 4, 5, 3), draws(2, 4, 5, seed=1)
    order = [2, 0, 3, 1]
    algorithm = ALL[name](alpha=0.3, K=2)
    states = follow(algorithm, theta, gradients)
    other = follow(algorithm, theta[:, order], gradients[:, :, order])
    for one, two in zip(states[1:], other[1:], strict=True):
        np.testing.assert_allclose(one.theta[:, order], two.theta, atol=CLOSE)
        np.testing.assert_allclose(one.weights[:, order], two.weights, atol=WEIGHTS)


@pytest.mark.parametrize("name", ALL)
def test_numpy_and_torch_give_the_same_numbers(name: str) -> None:
    gradients, theta = draws(5, 2, 4, 5, 3), draws(2, 4, 5, seed=1)
    algorithm = ALL[name](alpha=0.3, K=2)
    states = follow(algorithm, theta, gradients)
    tensors = follow(algorithm, torch.tensor(theta), torch.tensor(gradients))
    for one, two in zip(states[1:], tensors[1:], strict=True):
        assert isinstance(two.theta, torch.Tensor)
        assert two.theta.dtype == torch.float64
        np.testing.assert_allclose(two.theta.numpy(), one.theta, atol=CLOSE)
        np.testing.assert_allclose(two.weights, one.weights, atol=WEIGHTS)
    single = follow(algorithm, torch.tensor(theta).float(), torch.tensor(gradients).float())
    assert single[-1].theta.dtype == torch.float32
    # 5 steps of numbers of size up to ten, and weights as well conditioned as their programs
    np.testing.assert_allclose(single[-1].theta.numpy(), states[-1].theta, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in ALL if name != "compressed"])
def test_replicates_do_not_meet(name: str) -> None:
    gradients, theta = draws(5, 2, 4, 5, 3), draws(2, 4, 5, seed=1)
    algorithm = ALL[name](alpha=0.3, K=2)
    together = follow(algorithm, theta, gradients)[-1]
    for r in range(2):
        alone = follow(algorithm, theta[r], gradients[:, r])[-1]
        np.testing.assert_allclose(together.theta[r], alone.theta, atol=CLOSE)


def test_bytes_by_hand() -> None:
    """8 clients, 1000 parameters of 2 bytes, and back."""
    for firm in (FIRM(alpha=1.0, K=5), FIRM.theory(alpha=1.0, beta=1.0)):
        assert firm.bytes_per_round(8, 1000, 3, itemsize=2) == (16_000, 16_000)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"beta": -0.1}, "beta"),
        ({"beta": float("nan")}, "beta"),
        ({"beta": 0.0, "preference": (1.0, 0.0)}, "preference"),
        ({"beta": 0.1, "preference": (1.0, 1.0)}, "beta"),
        ({"eta": 1.1}, "eta"),
        ({"eta": -0.1}, "eta"),
        ({"eta": "t"}, "eta"),
        ({"K": 0}, "K"),
        ({"K": 2.0}, "K"),
        ({"alpha": 0.0}, "alpha"),
        ({"restart": "never"}, "restart"),
        ({"normalise": "yes"}, "normalise"),
    ],
)
def test_refused_options(options: Any, name: str) -> None:
    with pytest.raises(InputError, match=f"`{name}`"):
        FIRM(**{"alpha": 0.1, **options})


def test_refused_arrays() -> None:
    firm = FIRM(alpha=0.1)
    state = firm.init(np.zeros((2, 3, 4)))
    good = draws(2, 3, 4, 2)
    for bad in (good[:, :2], good[0], np.swapaxes(good, -1, -2), good[..., :0], 1.0):
        with pytest.raises(InputError, match=r"`gradients` must have shape \(2, 3, 4, M\)"):
            firm.step(state, bad)
    with pytest.raises(InputError, match=r"shape \(2, 3, 4, 2\); found \(2, 3, 4, 1\)"):
        firm.step(firm.step(state, good), good[..., :1])
    for value in (np.nan, np.inf):
        broken = good.copy()
        broken[1, 2, 0, 1] = value
        for gradients in (broken, torch.tensor(broken)):
            like = firm.init(np.zeros((2, 3, 4)) if gradients is broken else torch.zeros(2, 3, 4))
            with pytest.raises(InputError, match=r"at client 2 of replicate \(1,\), step 0"):
                firm.step(like, gradients)
    with pytest.raises(InputError, match=r"at client 2, step 0"):
        firm.step(firm.init(np.zeros((3, 4))), broken[1])
    for theta in ([[0.0]], np.zeros(3), np.zeros((2, 3), dtype=int), np.full((2, 3), np.nan)):
        with pytest.raises(InputError, match="`theta0`"):
            firm.init(theta)
    for weights in (np.ones((2, 2)), np.full((3, 2), 0.5), np.array([[1.5, -0.5]] * 2)):
        with pytest.raises(InputError, match="`weights`"):
            firm.init(Start(np.zeros((2, 4)), weights))
    with pytest.raises(InputError, match="`preference`"):
        FIRM(alpha=0.1, beta=0.0, preference=(1.0,) * 3).step(state, good)
