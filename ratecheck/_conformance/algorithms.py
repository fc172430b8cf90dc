"""What every algorithm has to pass, on every oracle: see :mod:`linsys.rounds`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from linsys.rounds import rounds

if TYPE_CHECKING:
    import pytest

#: An algorithm, and a function that makes where it starts and the oracle that it asks, both anew.
Case = tuple[Any, Callable[[], tuple[Any, Any]]]


class AlgorithmSuite:
    """Tests of algorithms that a class of tests inherits; pytest runs them for each case.

    - ``round`` moves the state and its counter ``t``, and leaves the state that it is given as it
      is.
    - A state is arrays, numbers and None: neither an oracle, nor a generator, nor an optimizer.
    - A copy of a state and an oracle made anew are all that a run needs to go on: to the same bits
      as a run that was not interrupted.

    Attributes:
        cases: name to algorithm, and to a function that returns where it starts and its oracle.
        count: rounds of a run, at least 2.

    Example::

        class TestRounds(rc.AlgorithmSuite):
            cases = {
                "FedProx on a matrix": (FedProx(0.1, 2, 1.0), lambda: (X, devices())),
                "FedProx on a language model": (FedProx(0.1, 2, 1.0), lambda: (X, clients())),
            }
    """

    cases: ClassVar[Mapping[str, Case]]
    count: ClassVar[int] = 4

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test for every case."""
        if "algorithm_case" in metafunc.fixturenames:
            metafunc.parametrize("algorithm_case", list(self.cases.values()), ids=list(self.cases))

    def test_a_round_moves_the_state_and_leaves_the_one_it_is_given(
        self, algorithm_case: Case
    ) -> None:
        algorithm, make = algorithm_case
        start, oracle = make()
        state = algorithm.init(start, oracle)
        for _ in range(self.count):
            before = copy.deepcopy(state)
            after, _ = algorithm.round(state, oracle)
            assert same(state, before)
            assert after.t > state.t
            assert not same(arrays(after), arrays(state))
            state = after

    def test_a_state_is_arrays_and_numbers(self, algorithm_case: Case) -> None:
        algorithm, make = algorithm_case
        start, oracle = make()
        first = algorithm.init(start, oracle)
        *_, (last, _) = rounds(algorithm, oracle, first, self.count)
        for leaf in [*leaves(first), *leaves(last)]:
            assert hasattr(leaf, "__array__") or isinstance(leaf, int | float | None)

    def test_a_state_and_a_new_oracle_are_all_that_a_run_needs(self, algorithm_case: Case) -> None:
        algorithm, make = algorithm_case
        start, oracle = make()
        states = [state for state, _ in self._run(algorithm, start, oracle, self.count)]
        assert all(a.t < b.t for a, b in pairwise(states))
        half = copy.deepcopy(states[self.count // 2 - 1])
        _, again = make()
        left = self.count - self.count // 2
        *_, (resumed, _) = rounds(algorithm, again, half, left)
        assert same(resumed, states[-1])
        assert not same(half, states[-1])

    @staticmethod
    def _run(algorithm: Any, start: Any, oracle: Any, count: int) -> list[tuple[Any, Any]]:
        return list(rounds(algorithm, oracle, algorithm.init(start, oracle), count))


def leaves(state: Any) -> list[Any]:
    """What a state is made of, in a fixed order."""
    if isinstance(state, Mapping):
        return [leaf for key in sorted(state) for leaf in leaves(state[key])]
    if isinstance(state, tuple | list):
        return [leaf for part in state for leaf in leaves(part)]
    return [state]


def arrays(state: Any) -> list[Any]:
    """The arrays among its leaves."""
    return [leaf for leaf in leaves(state) if hasattr(leaf, "__array__")]


def same(one: Any, other: Any) -> bool:
    """Whether two states are equal to the last bit."""
    a, b = leaves(one), leaves(other)
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
