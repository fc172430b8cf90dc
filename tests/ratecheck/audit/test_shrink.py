"""Counterexamples get small and simple, keep to the assumptions, and are confirmed at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.affpcl.claims._spaces import SYSTEMS
from linsys.linalg import norm
from ratecheck._claims.certificates import certify
from ratecheck._search.shrink import shrink

NUMBERS = rc.Space(fields={"x": rc.reals(magnitude=(1, 1))})


def upper(measure: Any, space: rc.Space, **options: Any) -> rc.Claim:
    return rc.Claim(
        id="mine.claim", source="", text="", kind="upper", space=space, measure=measure, **options
    )


def small(claim: rc.Claim, **fields: Any) -> dict[str, Any]:
    """The shrunk instance as lists."""
    start = {name: np.asarray(value, dtype=float)[None] for name, value in fields.items()}
    shrunk = shrink(claim, claim.space.complete(start))
    assert certify(claim, shrunk).violated
    return {name: values[0].tolist() for name, values in shrunk.items()}


def test_every_axis_gets_as_short_as_the_violation_allows() -> None:
    space = rc.Space(
        fields={
            "mu": rc.simplex("n", "S"),
            "A": rc.reals("S", "d", "d"),
            "theta": rc.reals("n", "d"),
        },
        sizes={"n": (1, 4), "S": (1, 4), "d": (1, 3)},
    )
    rng = np.random.default_rng(1)
    start = {
        "mu": rng.dirichlet(np.ones(4), 4),
        "A": rng.standard_normal((4, 3, 3)),
        "theta": rng.standard_normal((4, 3)),
    }
    # needs two agents of different objectives, and one state and dimension
    claim = upper(lambda s: (norm(s.theta[0] - s.theta[-1]), 0.1 * abs(s.A[0, 0, 0])), space)
    shrunk = small(claim, **start)
    assert {name: np.shape(v) for name, v in shrunk.items()} == {
        "mu": (2, 1), "A": (1, 1, 1), "theta": (2, 1),
    }  # fmt: skip
    # a bound of zero would be simpler still, but looks like a borderline case
    assert abs(shrunk["A"][0][0][0]) == 1
    assert sorted(np.abs(shrunk["theta"]).ravel().tolist()) == [0, 1]


def test_no_axis_gets_shorter_than_its_range() -> None:
    space = rc.Space(fields={"x": rc.reals("d")}, sizes={"d": (2, 4)})
    assert small(upper(lambda s: (norm(s.x), 0.5), space), x=[0.3, 0.4, 0.5, 0.9]) == {
        "x": [0.0, 1.0]
    }


def test_the_index_that_matters_is_kept() -> None:
    space = rc.Space(fields={"p": rc.simplex("k"), "x": rc.reals("k")}, sizes={"k": (1, 4)})
    claim = upper(lambda s: (s.x.max(), 2.5), space)
    assert small(claim, p=[0.1, 0.2, 0.3, 0.4], x=[1.1, 2.2, 3.14159, -7]) == {
        "p": [1.0],
        "x": [3.0],
    }


@pytest.mark.parametrize(
    ("field", "start", "expected"),
    [
        (rc.reals(), 0.734_561, 1.0),
        (rc.interval(low=0.6, high=0.99), 0.734_561, 0.6),
        (rc.positive(low=0.001, high=100), 87.123, 1.0),
        (rc.whole_numbers(low=0, high=9), 7, 1),
    ],
)
def test_numbers_get_simple(field: Any, start: float, expected: float) -> None:
    claim = upper(lambda s: (s.x, 0.5), rc.Space(fields={"x": field}))
    assert small(claim, x=start) == {"x": expected}


def test_rows_of_a_simplex_become_decimals_that_sum_to_one() -> None:
    space = rc.Space(fields={"p": rc.simplex("k")}, sizes={"k": (3, 3)})
    claim = upper(lambda s: (s.p.min(), 0.2), space)
    shrunk = small(claim, p=[0.217_83, 0.268_91, 0.513_26])["p"]
    assert sum(round(1000 * part) for part in shrunk) == 1000
    assert all(round(part, 2) == part for part in shrunk)


def test_what_a_space_assumes_and_is_given_stays_true() -> None:
    space = rc.Space(
        fields={"x": rc.reals(), "y": rc.reals()},
        assumes={"x >= 0.3": lambda s: s.x >= 0.3},
        given={"y > x": lambda s: s.y > s.x},
    )
    shrunk = small(upper(lambda s: (s.x + s.y, 0.1), space), x=0.71, y=0.93)
    assert shrunk == {"x": 0.5, "y": 1.0}


def test_a_repaired_instance_is_stored_as_it_is_judged() -> None:
    space = rc.Space(
        fields={"x": rc.reals(), "y": rc.reals()},
        repair=lambda f: {"x": f["x"], "y": np.maximum(f["y"], f["x"])},
    )
    claim = upper(lambda s: (s.y, 0.25), space)
    shrunk = small(claim, x=0.71, y=0.93)
    assert shrunk["y"] >= shrunk["x"]
    start = {name: np.array([value]) for name, value in shrunk.items()}
    assert {k: v.tolist() for k, v in space.complete(start).items()} == {
        k: v.tolist() for k, v in start.items()
    }


def test_what_does_not_depend_on_the_order_comes_in_one_order() -> None:
    space = rc.Space(fields={"p": rc.simplex("k"), "q": rc.simplex("k")}, sizes={"k": (2, 3)})
    claim = upper(lambda s: (abs(s.p - s.q).sum(), 1), space)
    starts = [([0.9, 0.1, 0.0], [0.0, 0.2, 0.8]), ([0.0, 0.1, 0.9], [0.7, 0.3, 0.0])]
    first, second = (small(claim, p=p, q=q) for p, q in starts)
    assert first == second == {"p": [0.0, 1.0], "q": [1.0, 0.0]}


def test_a_slight_violation_stays_one() -> None:
    claim = upper(lambda s: (s.x * (1 - s.x), 0.249_999), rc.Space(fields={"x": rc.interval()}))
    assert small(claim, x=0.500_12) == {"x": 0.5}


def test_an_unconfirmed_step_is_taken_back() -> None:
    def noisy(s: Any) -> tuple[Any, Any]:
        # in float64 alone, one is a violation as well
        rounding = (s.x + 1e16) - 1e16 - s.x
        return np.where(abs(s.x - 0.734) < 1e-9, 2, 1 + abs(rounding)), 1.0

    claim = upper(noisy, NUMBERS)
    assert small(claim, x=0.734) == {"x": 0.734}


def test_a_step_on_which_the_measure_fails_is_not_taken() -> None:
    def measure(s: Any) -> tuple[Any, Any]:
        if s.x in (0, 1, -1):
            raise ZeroDivisionError
        return abs(s.x) + 1, 1.0

    assert abs(small(upper(measure, NUMBERS), x=0.734)["x"]) in (0.5, 2)


def test_a_system_keeps_its_standing_assumptions() -> None:
    claim = rc.Claim(
        id="mine.mean", source="", text="", kind="identity", space=SYSTEMS,
        measure=lambda s: (s.x_star.mean(axis=1), s.x_star_central),
    )  # fmt: skip
    rng = np.random.default_rng(3)
    shrunk = small(
        claim,
        mu=rng.dirichlet(np.ones(3), 3),
        A=rng.standard_normal((3, 2, 2)) + 2 * np.eye(2),
        Phi=rng.standard_normal((3, 2, 2)),
        theta=rng.standard_normal((3, 2)),
        floor=0.1,
    )
    assert np.shape(shrunk["mu"]) == (2, 2)
    assert np.shape(shrunk["A"]) == (2, 1, 1)
    stack = {name: np.array(values)[None] for name, values in shrunk.items()}
    assert SYSTEMS.first_broken(stack) is None


def test_what_exceeds_a_bound_of_zero_keeps_its_size() -> None:
    space = rc.Space(fields={"x": rc.interval(high=0.7)})
    shrunk = small(upper(lambda s: (s.x**3, 0 * s.x), space), x=0.66)
    assert shrunk["x"] ** 3 >= 0.66**3 / 2  # 0.1 would be simpler


def test_a_bound_does_not_become_zero_where_rounding_is_in_doubt() -> None:
    claim = upper(lambda s: (3e-13 + 0 * s.x, 1e-13 * s.x), rc.Space(fields={"x": rc.interval()}))
    assert small(claim, x=0.54321)["x"] > 0
