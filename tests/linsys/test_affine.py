"""Maps read off a round: against the exact engine, against all sequences, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

from linsys import FiniteSystem, InputError
from linsys.affine import affine_rounds, outcomes
from linsys.algorithms import AffPCL, Clustered, Ditto, FedAvg, Independent, PFedMe, Steps
from linsys.moments import exact_moments

ALGORITHMS = {
    "importance": AffPCL(),
    "bias": AffPCL(correction="bias", center="implicit"),
    "estimate": AffPCL(central_direction="estimate", ratio="none"),
    "known": AffPCL(objective="known"),
    "federated": FedAvg(),
    "alone": Independent(),
}


def system(seed: int = 0, n: int = 2, S: int = 2, d: int = 2) -> FiniteSystem:
    rng = np.random.default_rng(seed)
    A, Phi = (np.eye(d) + 0.3 * rng.normal(size=(2, S, d, d))) * rng.uniform(1, 2, (2, S, 1, 1))
    theta, mu = rng.normal(size=(n, d)), rng.dirichlet(np.full(S, 5.0), n)
    return FiniteSystem.from_objectives(A=A, Phi=Phi, theta=theta, mu=mu)


def start_of(algorithm: Any, agents: FiniteSystem) -> Any:
    start: Any = np.zeros((agents.n, agents.d))
    if algorithm == AffPCL(objective="known"):
        start = (start, agents.theta_star_central)
    return algorithm.init(start)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("alpha", [0.05, 1e-8])
def test_errors_are_those_of_the_exact_engine(name: str, alpha: float) -> None:
    agents, algorithm = system(), ALGORITHMS[name]
    times = [0, 1, 30, 10**9]
    rounds = affine_rounds(
        algorithm, start_of(algorithm, agents), *outcomes(agents, Steps.constant(alpha))
    )
    moments = rounds.moments(times, algorithm.personal, around=agents.x_star)
    squares = np.diagonal(moments.second, axis1=-2, axis2=-1)
    errors = squares.reshape(len(times), agents.n, agents.d).sum(axis=-1)
    known = exact_moments(agents, algorithm).at(times, alpha).error
    np.testing.assert_allclose(errors, known, rtol=3e-12)


def by_hand(algorithm: Any, state: Any, oracles: Any, law: Any, t: int) -> tuple[Any, Any]:
    """Mean and second moment of what agents have after every sequence of outcomes."""
    mean, second = 0.0, 0.0
    for drawn in itertools.product(range(len(law)), repeat=t):
        now = state
        for k in drawn:
            now, _ = algorithm.round(now, oracles[k])
        x, chance = algorithm.personal(now).ravel(), np.prod(law[list(drawn)])
        mean, second = mean + chance * x, second + chance * np.outer(x, x)
    return mean, second


@pytest.mark.parametrize("algorithm", [PFedMe(0.5), Ditto(0.5), AffPCL()], ids=repr)
def test_moments_are_those_of_all_sequences(algorithm: Any) -> None:
    agents = system(seed=1, d=1)
    oracles, law = outcomes(agents, Steps.constant(0.1), local_steps=2)
    assert len(law) == 16
    state = algorithm.init(np.array([[1.0], [-2.0]]))
    moments = affine_rounds(algorithm, state, oracles, law).moments(2, algorithm.personal)
    mean, second = by_hand(algorithm, state, oracles, law, 2)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(moments.second, second, rtol=1e-12)


class Point(NamedTuple):
    x: Any
    t: int = 0


class Walk:
    """x <- x + step(x, t) whatever is observed."""

    def __init__(self, step: Any) -> None:
        self.step = step

    def round(self, state: Point, oracle: Any) -> tuple[Point, None]:
        return Point(state.x + self.step(state.x, state.t) + oracle, state.t + 1), None


def test_a_walk_without_a_solution_grows() -> None:
    walk = affine_rounds(Walk(lambda x, t: 0.0 * x), Point(np.ones(1)), [-1, 1], [0.5, 0.5])
    moments = walk.moments([0, 9])
    np.testing.assert_allclose(moments.mean[:, 0], [1.0, 1.0])
    np.testing.assert_allclose(moments.second[:, 0, 0], [1.0, 10.0])


def test_a_state_that_stays_keeps_its_numbers() -> None:
    still = affine_rounds(Walk(lambda x, t: 0.0 * x), Point(np.array([2.0])), [0, 0], [0.5, 0.5])
    moments = still.moments([0, 9], around=1.0)
    assert moments.mean.tolist() == [[1.0], [1.0]]
    assert moments.second.tolist() == [[[1.0]], [[1.0]]]


REFUSED = {
    "square": (lambda x, t: x * x, "affine in the state; found one that is not"),
    "absolute": (lambda x, t: abs(x), "affine in the state; found one that is not"),
    "diminishing": (lambda x, t: -x / (t + 1), "found one that depends on `t`"),
    "floats": (lambda x, t: x.astype(float), "NumPy's arithmetic, in any precision; found"),
    "LAPACK": (lambda x, t: np.linalg.norm(x[:, None], 2) * x, "in any precision; found"),
    "grows": (lambda x, t: np.zeros((2, 1)), "must keep the shapes of its state's arrays"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_affine_round_is_refused(name: str) -> None:
    step, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        affine_rounds(Walk(step), Point(np.ones(2)), [0.0, 1.0], [0.5, 0.5])


def test_a_reading_that_is_not_affine_is_refused() -> None:
    walk = affine_rounds(Walk(lambda x, t: -0.1 * x), Point(np.ones(1)), [0.0], [1.0])
    with pytest.raises(InputError, match="affine in the state"):
        walk.moments(3, lambda state: state.x**2)


def test_choices_among_models_are_refused() -> None:
    agents = system(d=1)
    algorithm = Clustered(2)
    with pytest.raises(InputError, match="affine in the state"):
        affine_rounds(
            algorithm,
            algorithm.init(np.array([[1.0], [-1.0]])),
            *outcomes(agents, Steps.constant(0.1)),
        )


def test_sizes_are_limited_before_anything_is_computed() -> None:
    with pytest.raises(InputError, match=r"at most 4096 outcomes of a round; found 2\^13"):
        outcomes(system(n=13), Steps.constant(0.1))
    with pytest.raises(InputError, match="found 150 numbers and 1 outcomes"):
        affine_rounds(Walk(lambda x, t: 0.0), Point(np.zeros(150)), [0.0], [1.0])
    with pytest.raises(InputError, match="`system` must be a FiniteSystem"):
        outcomes(object(), Steps.constant(0.1))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="`state` must be a named tuple; found ndarray"):
        affine_rounds(Walk(lambda x, t: 0.0), np.zeros(2), [0.0], [1.0])


def test_a_law_must_be_a_distribution() -> None:
    with pytest.raises(InputError, match="`law`"):
        affine_rounds(Walk(lambda x, t: 0.0 * x), Point(np.ones(1)), [0.0, 1.0], [0.5, 0.6])
