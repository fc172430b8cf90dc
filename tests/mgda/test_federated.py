"""What FIRM does not print: a gradient outside the weights, and Adam; in both namespaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from linsys.optimizers import AdamW
from mgda.fedcmoo import FedCMOO
from mgda.federated import Federated, State
from mgda.firm import FIRM
from mgda.runs import run
from mgda.scalarization import LinearScalarization

#: Rounding of a few steps with numbers of size one.
CLOSE = 1e-13
SPACES: dict[str, Callable[[Any], Any]] = {"numpy": np.asarray, "torch": torch.tensor}
ALL: dict[str, Callable[..., Federated]] = {
    "firm": lambda **common: FIRM(beta=0.1, **common),
    "server": FedCMOO,
    "fixed": lambda **common: LinearScalarization(weights=(0.2, 0.8), **common),
}


def draws(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


GRADIENTS, COMMON, THETA = draws(6, 3, 5, 2), draws(6, 3, 5, seed=1), draws(3, 5, seed=2)


def follow(algorithm: Federated, space: str, common: Any = None) -> list[State]:
    make = SPACES[space]
    states = [algorithm.init(make(THETA))]
    for t, g in enumerate(GRADIENTS):
        extra = None if common is None else make(common[t])
        states.append(algorithm.step(states[-1], make(g), None, extra))
    return states


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("name", ALL)
def test_a_common_gradient_moves_all_and_weighs_nothing(name: str, space: str) -> None:
    algorithm = ALL[name](alpha=0.3, K=2)
    plain, states = follow(algorithm, space), follow(algorithm, space, COMMON)
    local = np.tile(THETA.mean(axis=0), (3, 1))
    for t, (one, two) in enumerate(zip(plain[1:], states[1:], strict=True)):
        assert one.weights is not None
        assert two.weights is not None
        np.testing.assert_array_equal(one.weights, two.weights)
        direction = np.einsum("cdm,cm->cd", GRADIENTS[t], two.weights) + COMMON[t]
        local = local + 0.3 * direction
        if t % 2 == 1:
            local = np.tile(local.mean(axis=0), (3, 1))
        np.testing.assert_allclose(np.asarray(two.theta), local, atol=CLOSE)
        assert np.abs(np.asarray(one.theta) - local).max() > 1e-2


def test_a_gradient_in_every_objective_is_another_thing() -> None:
    """With weights that sum to one the step is the same for the same weights; these differ."""
    firm = FIRM(alpha=0.3, beta=0.1)
    state = firm.init(THETA)
    outside = firm.step(state, GRADIENTS[0], None, COMMON[0])
    inside = firm.step(state, GRADIENTS[0] + COMMON[0][..., None])
    assert outside.weights is not None
    assert inside.weights is not None
    assert np.abs(outside.weights - inside.weights).max() > 1e-2
    fixed = LinearScalarization(alpha=0.3, weights=(0.2, 0.8))
    alike = fixed.step(fixed.init(THETA), GRADIENTS[0] + COMMON[0][..., None])
    apart = fixed.step(fixed.init(THETA), GRADIENTS[0], None, COMMON[0])
    np.testing.assert_allclose(alike.theta, apart.theta, atol=CLOSE)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("moments", ["kept", "reset"])
@pytest.mark.parametrize("name", ALL)
def test_adam_of_every_client(name: str, moments: str, space: str) -> None:
    """Against one Adam for each client, apart; new ones after an aggregation where reset."""
    algorithm = ALL[name](alpha=0.01, K=3, optimizer="adam", moments=moments)
    states = follow(algorithm, space, COMMON)
    local = np.tile(THETA.mean(axis=0), (3, 1))
    adams = [AdamW(0.01, 0.0) for _ in range(3)]
    for t, state in enumerate(states[1:]):
        assert state.weights is not None
        assert state.moments is not None
        for c in range(3):
            direction = GRADIENTS[t][c] @ state.weights[c] + COMMON[t][c]
            local[c] = adams[c](local[c], -direction)
        if t % 3 == 2:
            local = np.tile(local.mean(axis=0), (3, 1))
            if moments == "reset":
                adams = [AdamW(0.01, 0.0) for _ in range(3)]
        np.testing.assert_allclose(np.asarray(state.theta), local, atol=CLOSE)
        assert state.moments.step == (
            0 if moments == "reset" and t % 3 == 2 else adams[0].moments.step
        )


def test_the_first_step_of_adam_climbs_by_alpha() -> None:
    firm = FIRM(alpha=0.01, optimizer="adam")
    state = firm.init(THETA[:1])
    after = firm.step(state, GRADIENTS[0][:1])
    assert after.weights is not None
    direction = GRADIENTS[0][0] @ after.weights[0]
    # epsilon = 1e-8 against entries of the direction of 1e-2 or more
    np.testing.assert_allclose((after.theta - state.theta)[0], 0.01 * np.sign(direction), rtol=1e-5)


@pytest.mark.parametrize("space", SPACES)
def test_adam_goes_on_from_a_state(space: str) -> None:
    firm = FIRM(alpha=0.01, K=4, optimizer="adam")
    whole = follow(firm, space)
    state = whole[3]
    for g in GRADIENTS[3:]:
        state = firm.step(state, SPACES[space](g))
    np.testing.assert_array_equal(np.asarray(state.theta), np.asarray(whole[-1].theta))
    bare = firm.step(State(*whole[0][:4]), SPACES[space](GRADIENTS[0]))
    np.testing.assert_array_equal(np.asarray(bare.theta), np.asarray(whole[1].theta))


def test_single_precision_stays() -> None:
    firm = FIRM(alpha=0.01, optimizer="adam")
    state = firm.step(
        firm.init(torch.tensor(THETA).float()),
        torch.tensor(GRADIENTS[0]).float(),
        None,
        torch.tensor(COMMON[0]).float(),
    )
    assert state.moments is not None
    assert state.theta.dtype == state.moments.first.dtype == torch.float32


@dataclass(frozen=True)
class Quadratic:
    """J^j = -||theta - e_j||^2 / 2, and a pull -theta outside of the weights if ``pull``."""

    pull: bool

    def init(self) -> int:
        return 0

    def jac(self, theta: Any, memory: int) -> Any:
        gradients = np.eye(2) - theta[..., None]
        return (gradients, memory + 1, -theta) if self.pull else (gradients, memory + 1)


def test_runs_take_oracles_with_and_without() -> None:
    """The maximum of (J^1 + J^2) / 2 - ||theta||^2 / 2 is at half the mean of the e_j."""
    start = np.zeros((1, 4, 2))
    fixed = LinearScalarization(alpha=0.2, K=2, weights=(0.5, 0.5))
    for pull, expected in ((False, 0.5), (True, 0.25)):
        trace = run(fixed, Quadratic(pull), start, 60)
        # the error falls by 0.8 or 0.6 in a step
        np.testing.assert_allclose(trace.state.theta, expected, atol=0.8**119)
        assert trace.state.memory == 120


@pytest.mark.parametrize(
    ("options", "name"), [({"optimizer": "Adam"}, "optimizer"), ({"moments": "mean"}, "moments")]
)
def test_refused_options(options: Any, name: str) -> None:
    with pytest.raises(InputError, match=f"`{name}`"):
        FIRM(alpha=0.1, **options)


def test_refused_common_gradients() -> None:
    firm = FIRM(alpha=0.1)
    state, good = firm.init(THETA), GRADIENTS[0]
    for bad in (COMMON[0][:2], good, 1.0, COMMON):
        with pytest.raises(InputError, match=r"`common` must have shape \(3, 5\); found"):
            firm.step(state, good, None, bad)
    broken = COMMON[0].copy()
    broken[2, 1] = np.nan
    with pytest.raises(InputError, match=r"`common` must be finite; .* at client 2, step 0"):
        firm.step(state, good, None, broken)
    with pytest.raises(InputError, match="`common` must hold real numbers"):
        firm.step(state, good, None, COMMON[0] * 1j)
    alone = firm.init(THETA[None, :1])
    with pytest.raises(InputError, match=r"`common` must be finite; .* infinity at step 0$"):
        firm.step(alone, good[None, :1], None, np.full((1, 1, 5), np.nan))
    with pytest.raises(InputError, match="`common` must be an array of the same library"):
        firm.step(state, good, None, torch.tensor(COMMON[0]))


@pytest.mark.parametrize("space", ["numpy", "torch"])
@pytest.mark.parametrize(("optimizer", "huge"), [("sgd", 3e38), ("adam", 1e20), ("adam", 3e38)])
def test_a_step_that_overflows_names_its_client(space: str, optimizer: str, huge: float) -> None:
    """Finite gradients whose squares, or whose step, are none in single precision.

    With an infinite second moment Adam would leave the client where it is, for ever.
    """
    make: Any = np.asarray if space == "numpy" else torch.from_numpy
    firm = FIRM(alpha=10.0, K=2, optimizer=optimizer)
    gradients = np.ones((2, 3, 4, 2), np.float32)
    state = firm.step(firm.init(make(np.zeros((2, 3, 4), np.float32))), make(gradients))
    gradients[1, 2] = huge
    message = r"a step must not overflow; .* at client 2 of replicate \(1,\), step 1: lower alpha"
    with pytest.raises(InputError, match=message):
        firm.step(state, make(gradients))
