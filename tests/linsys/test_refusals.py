"""What cannot be used is refused in one line: no traceback and no silent number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from linsys import FiniteSystem, GaussianSystem, InputError, sample_gaussian_system
from linsys.algorithms import AffPCL, Independent, LinearRatio, ShiftedRatio, Start, Steps
from linsys.algorithms.td import sarsa
from linsys.kernels import draw, simulate
from linsys.kernels.random import REPLICATES, SEEDS, lane_states
from linsys.moments import exact_moments
from linsys.oracle import LinearObservation
from linsys.systems.markov_reward import MarkovRewardProcesses, TDObservation
from linsys.systems.mdp import sample_mdps
from linsys.systems.regression import RegressionObservation, RegressionSystem
from linsys.validate import check_flag, check_function, check_number, increasing_times, real_array

ONE = np.ones((2, 1, 1))
MU = [[0.5, 0.5], [0.4, 0.6]]


def finite(**changes: Any) -> FiniteSystem:
    return FiniteSystem.from_objectives(
        **{"A": ONE, "Phi": ONE, "theta": [[1.0], [1.2]], "mu": MU, **changes}
    )


def gaussian(**changes: Any) -> GaussianSystem:
    given = {
        "means": np.zeros((2, 2)),
        "theta": np.ones((2, 2)),
        "A_base": np.eye(2),
        "Phi_base": np.eye(2),
    }
    return GaussianSystem(**{**given, **changes})


MRPS = MarkovRewardProcesses(
    P=[[[0.5, 0.5], [1.0, 0.0]]], R=np.ones((1, 2, 2)), gamma=0.5, features=np.eye(2)
)
MDPS = sample_mdps(0, n=2, states=3, actions=2, d=3)
DRAWN = sample_gaussian_system(0, n=2, d=2)
RUN: dict[str, Any] = {"steps": 0.01, "times": [0, 1], "replicates": 2, "seed": 0}


def run_sarsa(**changes: Any) -> list[Any]:
    given: dict[str, Any] = {"steps": Steps.constant(0.1), "rounds": 2, "beta": 0.1, **changes}
    return list(sarsa(Independent(), MDPS, **given))


BAD: dict[str, tuple[Any, str]] = {
    "ragged A": (lambda: finite(A=[[[1.0]], [[3.0, 4.0]]]), "`A` must be a rectangular array"),
    "ragged mu": (lambda: finite(mu=[[0.5, 0.5], [1.0]]), "`mu` must be a rectangular array"),
    "ragged psi": (lambda: finite(psi=[[1.0], [1.0, 2.0]]), "`psi` must be a rectangular array"),
    "missing A": (lambda: finite(A=None), "`A` must be a rectangular array"),
    "ragged times": (lambda: increasing_times([[1], [1, 2]]), "`times` must be a non-empty list"),
    "underflowing A": (lambda: finite(A=1e-320 * ONE).x_star, "the solution must be finite"),
    "huge A": (lambda: finite(A=1e308 * ONE).A_bar0, "`A_bar0` must be finite"),
    "huge b": (
        lambda: FiniteSystem(A=ONE, Phi=ONE, b=1e308 * np.ones((2, 2, 1)), mu=MU).b_bar0,
        "`b_bar0` must be finite",
    ),
    "huge means": (lambda: gaussian(means=np.full((2, 2), 1e200)), "`A_bar` must be finite"),
    "huge theta": (
        lambda: gaussian(theta=np.full((2, 2), 1e200), Phi_base=1e200 * np.eye(2)).x_star,
        "the solution must be finite",
    ),
    "negative density ratio": (
        lambda: RegressionSystem([np.ones((2, 1))], [np.ones(2)], density_ratio=[-np.ones((2, 1))]),
        "`density_ratio[0]` must be non-negative; found -1",
    ),
    "negative seed of MDPs": (lambda: sample_mdps(-1), "`rng` must be a whole number"),
    "text as seed of MDPs": (lambda: sample_mdps("a"), "`rng` must be a whole number"),
    "flag as seed of MDPs": (lambda: sample_mdps(True), "`rng` must be a whole number"),
    "negative seed of SARSA": (lambda: run_sarsa(seed=-1), "`seed` must be a whole number"),
    "text as seed of SARSA": (lambda: run_sarsa(seed="a"), "`seed` must be a whole number"),
    "negative step of SARSA": (lambda: run_sarsa(steps=-0.1), "`alpha` must be a number"),
    "agents as a number": (
        lambda: exact_moments(finite(), AffPCL(), agents=0),
        "`agents` must be a list of agents or None; found 0",
    ),
    "steps for another system": (
        lambda: Steps.constant(0.1).synchronised(MRPS),
        "`system` must have mean matrices A_bar, A_bar0 and Phi_bar0; found MarkovRewardProcesses",
    ),
    "a ratio's class": (lambda: AffPCL(ratio=LinearRatio), "`ratio` must be one of known, none"),
    "state below 0": (
        lambda: MRPS.observe(np.array([-1]), np.array([0])),
        "`o` must lie in [0, 2); found [-1, -1]",
    ),
    "state beyond the last": (
        lambda: MRPS.observe(np.array([0]), np.array([5])),
        "`o_next` must lie in [0, 2); found [5, 5]",
    ),
    "states that are no numbers": (
        lambda: MRPS.observe(np.array([0.0]), np.array([0])),
        "`o` must be whole numbers of shape (..., 1); found float64 (1,)",
    ),
    "states of other agents": (
        lambda: MRPS.observe(np.array([0, 1]), np.array([0])),
        "`o` must be whole numbers of shape (..., 1); found int64 (2,)",
    ),
    "unequal batches of states": (
        lambda: MRPS.observe(np.array([[0], [1]]), np.array([0])),
        "`o_next` must have the shape of `o`, (2, 1); found (1,)",
    ),
    "impossible transition": (
        lambda: MRPS.observe(np.array([1]), np.array([1])),
        "`o_next` must be reachable from `o`; found 1 -> 1 of agent 0, which has probability 0",
    ),
    "a seed beyond the streams": (
        lambda: simulate(DRAWN, AffPCL(), **{**RUN, "seed": SEEDS}),
        "`seed`",
    ),
    "replicates beyond the streams": (
        lambda: simulate(DRAWN, AffPCL(), **RUN, first_replicate=REPLICATES - 2),
        "`first_replicate` must be a whole number of at least 0 and at most",
    ),
    "drawing beyond the streams": (
        lambda: draw(DRAWN, rounds=1, replicates=1, seed=0, first_replicate=2**70),
        "`first_replicate` must be a whole number of at least 0 and at most",
    ),
    "a seed beyond the draws": (
        lambda: draw(DRAWN, rounds=1, replicates=1, seed=SEEDS),
        "`seed` must be a whole number of at least 0 and at most",
    ),
}


TRACKED = torch.ones(2, requires_grad=True)


@pytest.mark.parametrize(
    "value",
    [
        [TRACKED, TRACKED],
        torch.eye(2).to_sparse(),
        np.ma.masked_array(np.ones((2, 2)), mask=np.eye(2) > 0),
        [[1.0], [1.0, 2.0]],
    ],
)
def test_what_is_no_array_of_numbers_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="`x` must be a rectangular array of numbers") as caught:
        real_array("x", value, ("n", "m"))
    assert "\n" not in str(caught.value)


def test_tensors_that_require_gradients_are_taken_by_their_values() -> None:
    assert real_array("x", TRACKED, (2,)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("limits", "interval"),
    [
        ({"low": 0}, r"\[0, inf\)"),
        ({"high": 1}, r"\(-inf, 1\]"),
        ({"low": 0, "high": 1}, r"\[0, 1\]"),
        ({"low": 0, "high": 1, "low_open": True, "high_open": True}, r"\(0, 1\)"),
    ],
)
def test_an_infinite_end_is_outside_its_interval(limits: Any, interval: str) -> None:
    with pytest.raises(InputError, match=f"`beta` must be a number in {interval}; found inf"):
        check_number("beta", np.inf, **limits)


def test_flags_are_true_or_false() -> None:
    assert (check_flag("f", True), check_flag("f", np.False_)) == (True, False)
    with pytest.raises(InputError, match="`f` must be True or False; found 'no'"):
        check_flag("f", "no")


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(InputError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_their_good_neighbours_pass() -> None:
    assert finite(A=[[[1.0]], [[3.0]]], mu=MU, psi=[[1.0], [2.0]]).psi is not None
    assert np.isfinite(finite(A=1e-300 * ONE).x_star).all()
    assert MRPS.observe(np.array([[0], [1]]), np.array([[1], [0]])).reward.shape == (2, 1)
    assert AffPCL(ratio=LinearRatio(2)) != AffPCL(ratio=ShiftedRatio(2))
    by_number, by_steps = run_sarsa(steps=0.1)[-1][1], run_sarsa()[-1][1]
    np.testing.assert_array_equal(by_number.x, by_steps.x)
    assert simulate(DRAWN, AffPCL(), **{**RUN, "seed": SEEDS - 1}).error.shape == (2, 2, 2)


def test_streams_would_repeat_exactly_beyond_the_bounds() -> None:
    first = lane_states(0, 0)
    assert (lane_states(SEEDS, 0) == first).all()
    assert (lane_states(0, REPLICATES) == first).all()
    assert (lane_states(SEEDS - 1, 0) != first).all()
    assert (lane_states(SEEDS // 2, 0) != first).all()
    assert (lane_states(0, REPLICATES // 2) != first).all()


def td(d: int, p: int) -> TDObservation:
    rows = np.ones((2, d))
    return TDObservation(rows, rows, np.ones(2), np.ones((2, p)), 0.5, rho=np.ones((2, 2)))


def linear(d: int, p: int) -> LinearObservation:
    return LinearObservation(
        np.ones((2, d, d)), np.ones((2, d, p)), np.ones((2, d)), np.ones((2, 2))
    )


def regression(d: int, p: int) -> RegressionObservation:
    return RegressionObservation(
        np.ones((2, 1, d)), np.ones((2, 1)), np.ones((2, 1, p)), rho=np.ones((2, 2))
    )


@pytest.mark.parametrize("seen", [td(3, 1), linear(3, 1), regression(3, 1)])
def test_a_central_objective_of_another_length_does_not_broadcast(seen: Any) -> None:
    sizes = Steps.constant(0.1).at(0)
    algorithm = AffPCL()
    with pytest.raises(InputError, match=r"`theta` must have 1 entries per agent, .* found 3"):
        algorithm.update(algorithm.init(np.zeros((2, 3))), [seen], sizes)
    with pytest.raises(InputError, match=r"`x` must have 3 entries per agent, .* found 1"):
        algorithm.update(algorithm.init(Start(np.zeros((2, 1)), np.zeros(1))), [seen], sizes)
    start = algorithm.init(Start(np.zeros((2, 3)), np.zeros(1)))
    if isinstance(seen, LinearObservation):  # the objective's residual has the d rows of Phi
        with pytest.raises(InputError, match=r"`theta` must have 3 entries per agent, .* found 1"):
            algorithm.update(start, [seen], sizes)
        known = AffPCL(objective="known")
        assert known.update(start, [seen], sizes).theta.shape == (1, 1)
    else:
        assert algorithm.update(start, [seen], sizes).theta.shape == (1, 1)


def test_a_gaussian_observation_refuses_other_lengths() -> None:
    seen = DRAWN.observe(DRAWN.sample(np.random.default_rng(0)))
    for call in (seen.objective_residual, lambda v: seen.central_residual(np.zeros((2, 2)), v)):
        with pytest.raises(InputError, match="`theta` must have 2 entries per agent"):
            call(np.zeros((1, 1)))
    with pytest.raises(InputError, match="`x` must have 2 entries per agent"):
        seen.residual(np.zeros((2, 1)))


def _seeded(decorated: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(decorated)
    def call(x: Any, y: Any) -> Any:
        return decorated(0, x, y)

    return call


@pytest.mark.parametrize(
    "value",
    [
        _seeded(lambda seed, x, y: 0),
        partial(lambda seed, x, y: 0, 0),
        partial(lambda x, y, seed: 0, seed=0),
        lambda *anything: 0,
        lambda x, y, z=0, *, w=0: 0,
        torch.nn.Bilinear(1, 1, 1),
        torch.no_grad()(_seeded(lambda seed, x, y: 0)),
        np.add,
        max,
    ],
)
def test_a_function_may_be_whatever_can_be_called(value: Any) -> None:
    assert check_function("f", value, "x", "y") is value


@pytest.mark.parametrize("value", [lambda x: 0, lambda x, y, z: 0, lambda x, y, *, z: 0, "f"])
def test_a_function_of_something_else_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"`f` must be a function of \(x, y\)"):
        check_function("f", value, "x", "y")


def test_what_numpy_has_no_type_for_is_read_in_single_precision() -> None:
    array = real_array("v", torch.tensor([0.5, 1 / 3], dtype=torch.bfloat16), (2,))  # type: ignore[arg-type]
    assert array.tolist() == [0.5, 0.333984375]


@pytest.mark.parametrize("convert", [np.vectorize(mpmath.mpf, otypes=[object]), torch.tensor])
def test_lengths_are_checked_for_any_kind_of_array(convert: Any) -> None:
    seen = linear(2, 2)
    other = LinearObservation(convert(seen.A), convert(seen.Phi), convert(seen.b))
    theta = convert(np.zeros((2, 2)))
    assert tuple(other.objective_residual(theta).shape) == (2, 2)
    with pytest.raises(InputError, match="`theta` must have 2 entries"):
        other.objective_residual(theta[:, :1])
