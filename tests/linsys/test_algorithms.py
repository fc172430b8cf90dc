"""What holds for every algorithm: symmetries, namespaces, batches, local steps, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from linsys import GaussianSystem, InputError
from linsys.algorithms import (
    AffPCL,
    Clustered,
    Ditto,
    FedAvg,
    FineTuning,
    Independent,
    PFedMe,
    Sampling,
    Start,
    Steps,
    StepSizes,
)
from linsys.rounds import rounds
from tests.linsys._asserts import (
    assert_batch_is_loop,
    assert_equal_numbers,
    assert_namespaces_agree,
    assert_permuting_agents_permutes_results,
)
from tests.linsys._examples import Samples, finite_system, methods, run, seeds

METHODS = methods()
every_method = pytest.mark.parametrize("name", METHODS)
few = settings(max_examples=6)
rounds_of_three = st.lists(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3).filter(any),
    min_size=6,
    max_size=6,
)


def masks(rows: list[list[float]]) -> list[np.ndarray]:
    return [np.array(row)[:, None] for row in rows]


# --- permutations -----------------------------------------------------------------------------


@every_method
@given(seed=seeds, order=st.permutations(range(3)))
@few
def test_permuting_agents_permutes_results(name: str, seed: int, order: list[int]) -> None:
    assert_permuting_agents_permutes_results(
        METHODS[name], finite_system(seed), seed, np.array(order)
    )


def test_clustered_agents_are_placed_by_index_before_the_first_round() -> None:
    algorithm = METHODS["clustered"]
    x0 = np.zeros((3, 2))
    start = algorithm.personal(algorithm.init(x0))
    assert_equal_numbers(start[0], start[2], "agents 0 and 2 of two clusters")
    assert np.abs(start[0] - start[1]).max() > 0.1


class _FirstAgentTwice(Independent):
    """Broken on purpose: agent 0 moves twice as far."""

    def update(self, state: Any, seen: Any, sizes: Any, active: Any = None) -> Any:
        twice = np.array([[2.0], [1.0], [1.0]])
        return state._replace(x=state.x - sizes.x * twice * seen[0].residual(state.x))


def test_an_algorithm_that_favours_an_agent_is_found() -> None:
    with pytest.raises(AssertionError, match="permuted agents"):
        assert_permuting_agents_permutes_results(
            _FirstAgentTwice(), finite_system(1), 1, np.array([1, 0, 2])
        )


# --- namespaces and batches ----------------------------------------------------------------------


@pytest.mark.slow
@every_method
@given(seed=seeds, rows=rounds_of_three, local_steps=st.integers(1, 3), synchronised=st.booleans())
@few
def test_numpy_and_torch_give_the_same_numbers(
    name: str, seed: int, rows: list[list[float]], local_steps: int, synchronised: bool
) -> None:
    system = finite_system(seed)
    steps = Steps.diminishing(t0=40, lam=1.0)
    if synchronised:
        steps = Steps.constant(0.01).synchronised(system)
    participation = masks(rows) if seed % 2 else None
    assert_namespaces_agree(METHODS[name], system, seed, steps, participation, local_steps)


@every_method
def test_torch_results_are_float64_tensors(name: str) -> None:
    algorithm = METHODS[name]
    x0 = torch.zeros((2, 3, 2), dtype=torch.float64)
    state = algorithm.init(Start(x0, torch.zeros((2, 2), dtype=torch.float64)))
    x = algorithm.personal(state)
    assert isinstance(x, torch.Tensor)
    assert x.dtype == torch.float64
    assert x.shape == (2, 3, 2)


@pytest.mark.slow
@every_method
@given(seed=seeds, rows=rounds_of_three)
@few
def test_a_batch_is_a_loop_over_replicates(name: str, seed: int, rows: list[list[float]]) -> None:
    participation = masks(rows) if seed % 2 else None
    options = {} if participation is None else {"participate": lambda t: participation[t]}
    assert_batch_is_loop(METHODS[name], finite_system(seed), seed, **options)


# --- step sizes --------------------------------------------------------------------------------

MODULES = {"x": 2.0, "center": 3.0, "models": 3.0, "theta": 5.0, "ratio": 7.0}


@every_method
def test_every_module_moves_by_its_own_step_size(name: str) -> None:
    """One round is linear in the step sizes, each part of the state in that of its own module."""
    algorithm, system = METHODS[name], finite_system(1)
    if name == "fine-tuning":
        algorithm = FineTuning(switch=0)
    seen = [Samples(system, 1, 1)(0)]
    start = algorithm.init(Start(np.random.default_rng(1).standard_normal((3, 2)), np.full(2, 0.3)))
    # Away from x^c = mean x^i; clustered agents have to choose their models, and to keep them.
    warm = 0.0 if name == "clustered" else 0.1
    start = algorithm.update(start, seen, StepSizes(warm, warm, warm, warm))
    once = algorithm.update(start, seen, StepSizes(0.01, 0.01, 0.01, 0.01))
    more = algorithm.update(start, seen, StepSizes(0.02, 0.03, 0.05, 0.07))
    checked = 0
    for field, factor in MODULES.items():
        before = getattr(start, field, None)
        if before is None:
            continue
        move, longer = getattr(once, field) - before, getattr(more, field) - before
        if "implicit" in name and field == "center":
            continue
        assert_equal_numbers(longer, factor * move, field)
        checked += np.abs(move).max() > 0
    assert checked >= 1


# --- local steps and participation --------------------------------------------------------------


@every_method
def test_one_local_step_is_the_plain_round(name: str) -> None:
    algorithm, system = METHODS[name], finite_system(2)
    samples = Samples(system, 8, 2)
    x0 = np.random.default_rng(2).standard_normal((3, 2))
    state = algorithm.init(Start(x0, np.full(2, 0.3)))
    for t in range(8):
        state = algorithm.update(state, [samples(t)], Steps.constant(0.1).at(t))
    final = run(algorithm, samples, x0, 8, local_steps=1)[-1]
    np.testing.assert_array_equal(final, algorithm.personal(state))


def test_local_steps_of_independent_agents_are_rounds() -> None:
    samples = Samples(finite_system(3), 12, 3)
    x0 = np.ones((3, 2))
    local = run(Independent(), samples, x0, 3, local_steps=4)
    np.testing.assert_array_equal(local[-1], run(Independent(), samples, x0, 12)[-1])


@every_method
def test_local_steps_use_one_sample_each(name: str) -> None:
    asked: list[int] = []
    samples = Samples(finite_system(3), 12, 3)

    def observe(t: int) -> Any:
        asked.append(t)
        return samples(t)

    run(METHODS[name], observe, np.ones((3, 2)), 3, local_steps=4)
    assert asked == list(range(12))


PERSONAL = [
    name for name in METHODS if name not in ("FedAvg", "fine-tuning", "clustered")
]  # those share a point


@pytest.mark.parametrize("name", PERSONAL)
def test_inactive_agents_keep_their_points_whatever_they_would_have_seen(name: str) -> None:
    algorithm, system = METHODS[name], finite_system(4)
    seen = Samples(system, 1, 4)(0)
    seen.A[1] = 1e300  # agent 1 is away: its sample must reach nobody
    state = algorithm.init(Start(np.random.default_rng(4).standard_normal((3, 2)), np.full(2, 0.3)))
    active = np.array([[1.0], [0.0], [1.0]])
    with np.errstate(all="ignore"):
        after = algorithm.update(state, [seen], StepSizes(0.1, 0.1, 0.1, 0.1), active)
    x = algorithm.personal(after)
    np.testing.assert_array_equal(x[1], algorithm.personal(state)[1])
    assert np.isfinite(x).all()
    assert np.abs(x[[0, 2]]).max() < 1e3
    assert np.abs(x[0] - algorithm.personal(state)[0]).max() > 0
    if getattr(after, "ratio", None) is not None:
        np.testing.assert_array_equal(after.ratio[1], state.ratio[1])


@pytest.mark.parametrize("name", ["AffPCL", "AffPCL without ratio", "AffPCL (5)"])
def test_an_agent_alone_in_its_round_learns_alone(name: str) -> None:
    algorithm, system = METHODS[name], finite_system(5)
    samples = Samples(system, 6, 5)
    x0 = np.random.default_rng(5).standard_normal((3, 2))
    turns = [np.eye(3)[:, [t % 3]] for t in range(6)]
    options = {"participate": lambda t: turns[t]}
    assert_equal_numbers(
        np.stack(run(algorithm, samples, x0, 6, **options)),
        np.stack(run(Independent(), samples, x0, 6, **options)),
        "one agent at a time",
    )


@every_method
def test_all_agents_taking_part_is_the_plain_round(name: str) -> None:
    assert_all_is_plain(name, 3)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "AffPCL frozen"])
def test_the_only_agent_taking_part_is_the_plain_round(name: str) -> None:
    assert_all_is_plain(name, 1)  # the frozen ratios are of three agents


def assert_all_is_plain(name: str, n: int) -> None:
    samples = Samples(finite_system(6, n=n), 8, 6)
    x0 = np.random.default_rng(6).standard_normal((n, 2))
    everyone = run(METHODS[name], samples, x0, 8, participate=lambda t: np.ones((n, 1)))
    assert_equal_numbers(np.stack(everyone), np.stack(run(METHODS[name], samples, x0, 8)), name)


# --- bad input ------------------------------------------------------------------------------------

ALL_CLASSES = [AffPCL, Independent, FedAvg, FineTuning, PFedMe, Ditto, Clustered]


@pytest.mark.parametrize("kind", ALL_CLASSES)
@pytest.mark.parametrize(
    ("x0", "message"),
    [
        (np.zeros(3), r"`x0` must have shape \(\.\.\., n, d\); found \(3,\)"),
        (np.zeros((0, 2)), r"`x0` must have shape \(\.\.\., n, d\); found \(0, 2\)"),
        (np.zeros((3, 2), dtype=int), "`x0` must hold real floating numbers; found dtype int64"),
        (np.array([[np.nan, 0.0]]), "`x0` must be finite"),
        ([[0.0, 0.0]], "`x0` must be an array; found list"),
    ],
)
def test_a_start_that_cannot_be_used(kind: Any, x0: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind().init(x0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AffPCL(correction="importence"), "`correction` must be one of"),
        (lambda: AffPCL(center="none"), "`center` must be one of"),
        (lambda: AffPCL(central_direction="x"), "`central_direction` must be one of"),
        (lambda: AffPCL(objective=True), "`objective` must be one of"),
        (lambda: AffPCL(ratio="estimated"), "`ratio` must be one of known, none"),
        (
            lambda: AffPCL(correction="bias", ratio=METHODS["AffPCL shifted"].ratio),
            "`ratio` must not be an estimator for correction='bias'",
        ),
        (lambda: AffPCL(objective="known").init(np.zeros((2, 1))), "`theta0` must be the known"),
        (
            lambda: AffPCL().init(Start(np.zeros((2, 1)), np.array([np.nan]))),
            "`theta0` must be finite",
        ),
        (lambda: FineTuning(switch=-1), "`switch` must be a whole number of at least 0; found -1"),
        (lambda: PFedMe(regularization=-1.0), "`regularization` must be a number"),
        (lambda: Ditto(regularization=float("nan")), "`regularization` must be a number"),
        (lambda: Clustered(clusters=0), "`clusters` must be a whole number of at least 1; found 0"),
        (lambda: Clustered(spread=-0.1), "`spread` must be a number"),
        (lambda: Clustered(seed=1.5), "`seed` must be a whole number"),
    ],
)
def test_an_option_that_cannot_be_used(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"local_steps": 0}, "`local_steps` must be a whole number of at least 1; found 0"),
        ({"participate": lambda t: np.ones(3)}, r"shape \(\.\.\., n, 1\); found \(3,\)"),
        ({"participate": lambda t: np.zeros((3, 1))}, "at least one agent; found none"),
        ({"participate": lambda t: np.full((3, 1), 0.5)}, "zeros and ones"),
        ({"steps": Steps(0.1, x=(1.0, 2.0))}, r"shape \(3, 1\); found \(2, 1\)"),
    ],
)
def test_a_run_that_cannot_start(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(AffPCL(), Samples(finite_system(0), 3, 0), np.zeros((3, 2)), 2, **options)


def test_rounds_must_be_a_whole_number() -> None:
    agents = Sampling(lambda t: None, Steps.constant(0.1))
    with pytest.raises(InputError, match="`count` must be a whole number"):
        list(rounds(FedAvg(), agents, FedAvg().init(np.zeros((3, 2))), -1))


@every_method
def test_a_run_goes_on_from_any_of_its_states(name: str) -> None:
    algorithm, observe = METHODS[name], Samples(finite_system(1), 12, 0)
    agents = Sampling(observe, Steps.diminishing(t0=9.0), local_steps=2)
    state = algorithm.init(Start(np.zeros((3, 2)), np.full(2, 0.3)), agents)
    whole = [after for after, _ in rounds(algorithm, agents, state, 6)]
    again = [after for after, _ in rounds(algorithm, agents, whole[3], 2)]
    assert [after.t for after in again] == [5, 6]
    np.testing.assert_array_equal(algorithm.personal(again[1]), algorithm.personal(whole[5]))


def test_a_missing_density_ratio_is_named() -> None:
    system = GaussianSystem(np.zeros((2, 1)), np.ones((2, 1)), np.eye(1), np.eye(1))
    estimated = METHODS["AffPCL shifted"]
    with pytest.raises(InputError, match=r"`observation` must show ratio_features\(\)"):
        run(estimated, lambda t: system.observe(np.zeros((2, 1))), np.zeros((2, 1)), 1)
    seen = Samples(finite_system(0), 1, 0)(0)
    bare = type(seen)(A=seen.A, Phi=seen.Phi, b=seen.b)
    with pytest.raises(InputError, match="`rho` must be given"):
        run(AffPCL(), lambda t: bare, np.zeros((3, 2)), 1)
    with pytest.raises(InputError, match="`psi` must be given"):
        run(estimated, lambda t: bare, np.zeros((3, 2)), 1)
    with pytest.raises(InputError, match="`psi_coupled` must be given"):
        run(
            METHODS["AffPCL coupled"],
            lambda t: finite_system(0).observe(np.zeros(3, int)),
            np.zeros((3, 2)),
            1,
        )
