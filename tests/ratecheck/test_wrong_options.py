"""A wrong value of a public option: one line with its name, what is expected and what was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ratecheck as rc

PAPER = rc.Paper("mine", "my paper")
UNIT: Any = {"x": rc.interval()}
EFFORTS = "`effort` must be one of quick, normal, hunt; found 'huge'"
LIMIT = "`limit` must be a number in [0, inf); found 'x'"
ENDS = "`limit` must be one of infinity, zero; found 'both'"
TWO = "two numbers, the smaller one first; found"
ANY: Any = rc


@PAPER.upper("bound", ref="Lemma 1", on=UNIT)
def bound(x: Any) -> Any:
    """x <= 1."""
    return x, 1


def sampled(**options: Any) -> Any:
    def measure(x: Any, rng: np.random.Generator) -> Any:
        """A mean."""
        return rng.uniform(-1, 0, size=10)

    settings = {"between": (-1, 1), "within": 0.1} | options
    return ANY.Paper("mine", "my paper").statistical("mean", ref="Lemma 2", on=UNIT, **settings)(
        measure
    )


def space(**options: Any) -> rc.Space:
    return rc.Space(**{"fields": {"v": rc.reals("n")}, **options})


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: rc.assert_holds(bound, effort="huge"), EFFORTS),
    (lambda: rc.judge(bound, "huge"), EFFORTS),
    (lambda: rc.tightest(bound, "huge"), EFFORTS),
    (lambda: rc.Options(effort="huge"), EFFORTS),
    (lambda: ANY.judge(bound, limit="x"), LIMIT),
    (lambda: ANY.tightest(bound, limit="x"), LIMIT),
    (lambda: ANY.certify(bound, limit="x"), LIMIT),
    (lambda: ANY.replay(bound, {"x": 1}, limit="x"), LIMIT),
    (lambda: ANY.Options(limit="x"), LIMIT),
    (lambda: ANY.judge("mine.bound"), "`entry` must be a claim; found 'mine.bound'"),
    (lambda: ANY.certify(bound, constant="yes"), "`constant` must be True or False; found 'yes'"),
    (lambda: ANY.replay("mine.bound", {}), "`claim` must be a claim; found 'mine.bound'"),
    (lambda: ANY.replay(bound, 3), "`instance` must be values by field, such as {'x': 0.5}; fo"),
    (lambda: ANY.replay(bound, {"x": "u"}), "`x` must be an array of real numbers; found 'u'"),
    (lambda: ANY.find_claims(3), "`references` must be ids or one id; found 3"),
    (lambda: ANY.Law(-1.0, limit="both"), ENDS),
    (lambda: ANY.rate_check("a", -1, rc.Interval(-1, -1, -1), limit="both"), ENDS),
    (lambda: ANY.Panel(log="z"), "`log` must be one of x, y, xy; found 'z'"),
    (lambda: sampled(between="ab"), f"`between` of mine.mean must be {TWO} 'ab'"),
    (lambda: sampled(between=1), f"`between` of mine.mean must be {TWO} 1"),
    (lambda: sampled(within="x"), "`within` of mine.mean must be a number; found 'x'"),
    (lambda: sampled(alpha="x"), "`alpha` of mine.mean must be a number; found 'x'"),
    (lambda: sampled(most=0), "`most` of `mine.mean` must be a whole number of at least 1; found"),
    (lambda: ANY.positive(low=0), "`low` must be positive; found 0"),
    (lambda: ANY.reals(magnitude=(0, 1)), "`magnitude` must be two positive numbers, the smaller"),
    (lambda: ANY.reals(magnitude=3), "`magnitude` must be two positive numbers, the smaller one"),
    (lambda: ANY.whole_numbers(low=0, high=5, log="yes"), "`log` must be True or False; found"),
    (lambda: rc.simplex(), 'simplex must have axes, such as ("d"); found ()'),
    (lambda: rc.contraction("d"), 'contraction must have axes, such as ("d", "d"); found (\'d\','),
    (lambda: space(sizes={"n": 3}), "size `n` must be two whole numbers, such as (1, 4); found 3"),
    (
        lambda: space(sizes={"n": (1.5, 2)}),
        "size `n` must be two whole numbers, such as (1, 4); fo",
    ),
    (lambda: space(sizes=3), "`sizes` must be a dict, such as {'n': (1, 4)}; found 3"),
    (
        lambda: space(given=len),
        "`given` must be a dict, such as {'x > 0': lambda i: i.x > 0}; found",
    ),
    (lambda: space(assumes={"a": 3}), "`assumes` must have functions of an instance; found 'a': 3"),
    (lambda: space(repair=3), "`repair` must be a function of fields; found 3"),
    (lambda: space(credible={"v": 3}), "`credible` of `v` must be two numbers, such as (0.1, 0.9)"),
    (lambda: space(corners=[{"y": [1]}]), "`corners` must be a list of dicts of all fields, ['v']"),
    (lambda: space(corners={"v": [1]}), "`corners` must be a list of dicts of all fields, ['v']"),
]


@pytest.mark.parametrize(("made", "said"), CALLS)
def test_a_wrong_value_is_answered_in_one_line(made: Callable[[], Any], said: str) -> None:
    with pytest.raises(rc.InputError) as caught:
        made()
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_right_values_pass() -> None:
    rc.assert_holds(bound, effort="quick")
    assert rc.judge(bound, limit=5).verdict == "holds"
    assert rc.replay(bound, {"x": 0.5}).verdict == "holds"
    assert sampled(between=(-1, 0.5), most=5).most == 5
    assert space(corners=[{"v": [1.0]}], credible={"v": (0, 1)}, sizes={"n": (1, 2)}).sizes == {
        "n": (1, 2)
    }
    assert rc.whole_numbers(low=0, high=5, log=True).values() is not None
