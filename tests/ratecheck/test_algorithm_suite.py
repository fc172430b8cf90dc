"""The suite for algorithms passes a sound one, and refuses one fault at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import ratecheck as rc


class State(NamedTuple):
    x: Any
    t: int


class Halving:
    """x <- x / 2 + what the oracle says of round t."""

    def init(self, start: Any, oracle: Any) -> Any:
        return State(start, 0)

    def round(self, state: Any, oracle: Any) -> tuple[Any, None]:
        return State(state.x / 2 + oracle(state.t), state.t + 1), None


class InPlace(Halving):
    def round(self, state: Any, oracle: Any) -> tuple[Any, None]:
        x = state.x
        x /= 2
        return State(x.copy() + oracle(state.t), state.t + 1), None


class Remembers(Halving):
    """Part of what a run needs is not in the state."""

    def __init__(self) -> None:
        self.momentum = 0.0

    def round(self, state: Any, oracle: Any) -> tuple[Any, None]:
        self.momentum += 1.0
        return State(state.x / 2 + self.momentum, state.t + 1), None


class StandsStill(Halving):
    def round(self, state: Any, oracle: Any) -> tuple[Any, None]:
        return State(state.x, state.t + 1), None


class NoCounter(Halving):
    def round(self, state: Any, oracle: Any) -> tuple[Any, None]:
        return State(state.x / 2 + oracle(0), 0), None


class HoldsTheOracle(Halving):
    def init(self, start: Any, oracle: Any) -> Any:
        return State((start, oracle), 0)

    def round(self, state: Any, oracle: Any) -> tuple[Any, None]:
        x, kept = state.x
        return State((x / 2 + kept(state.t), kept), state.t + 1), None


def made() -> tuple[Any, Any]:
    noise = np.random.default_rng(0).normal(size=8)
    return np.ones(3), lambda t: noise[t]


def refused(algorithm: Any) -> set[str]:
    """The tests of the suite that an algorithm fails."""
    suite, failed = rc.AlgorithmSuite(), set()
    for name in [name for name in dir(suite) if name.startswith("test_")]:
        try:
            getattr(suite, name)((algorithm, made))
        except AssertionError:
            failed.add(name)
    return failed


MOVES = "test_a_round_moves_the_state_and_leaves_the_one_it_is_given"
PLAIN = "test_a_state_is_arrays_and_numbers"
RESUMES = "test_a_state_and_a_new_oracle_are_all_that_a_run_needs"


@pytest.mark.parametrize(
    ("algorithm", "failed"),
    [
        (Halving, set()),
        (InPlace, {MOVES, RESUMES}),
        (Remembers, {RESUMES}),
        (StandsStill, {MOVES}),
        (NoCounter, {MOVES, RESUMES}),
        (HoldsTheOracle, {PLAIN}),
    ],
)
def test_one_fault_at_a_time(algorithm: type[Halving], failed: set[str]) -> None:
    assert refused(algorithm()) == failed
