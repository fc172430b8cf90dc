"""A wrong value of a public option: one line with its name, what is expected and what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
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


@dataclass(frozen=True, kw_only=True)
class Sizes(rc.Config):
    agents: tuple[int, ...] = (5, 10)
    name: str = "five"


CALLS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: ANY.claim(id="mine.c", source="s", kind="between", fields=UNIT, text="t")(bound),
        "`kind` of mine.c must be upper, ",
    ),
    (lambda: rc.assert_holds(bound, effort="huge"), EFFORTS),
    (lambda: rc.judge(bound, "huge"), EFFORTS),
    (lambda: rc.tightest(bound, "huge"), EFFORTS),
    (lambda: rc.Options(effort="huge"), EFFORTS),
    (lambda: ANY.judge(bound, limit="x"), LIMIT),
    (lambda: ANY.tightest(bound, limit="x"), LIMIT),
    (lambda: ANY.certify(bound, limit="x"), LIMIT),
    (lambda: ANY.replay(bound, {"x": 1}, limit="x"), LIMIT),
    (lambda: ANY.Options(limit="x"), LIMIT),
    (lambda: ANY.judge(bound, seed="x"), "`seed` must be a whole number of at least 0; found 'x'"),
    (lambda: ANY.tightest(bound, seed=-1), "`seed` must be a whole number of at least 0; found -1"),
    (lambda: ANY.judge(bound, enough="x"), "`enough` must be a number, or inf; found 'x'"),
    (lambda: ANY.judge(bound, families=3), "`families` must be instances by the id of their cla"),
    (lambda: ANY.judge(bound, watch=3), "`watch` must be a function of (fields, index); found 3"),
    (lambda: ANY.judge(bound, violated=3), "`violated` must be a function of (verdict); found 3"),
    (lambda: ANY.check_claim(bound, 3), "`options` must be rc.Options(...); found 3"),
    (lambda: ANY.find_experiment(3), "`reference` must be an id, a file or what a paper calls it"),
    (lambda: ANY.Paper(3, "my paper"), "`id` of a `Paper` must be a text; found 3"),
    (lambda: ANY.Paper("mine", 3), "`name` of a `Paper` must be a text; found 3"),
    (lambda: ANY.Paper("My paper", "p"), "`id` of a `Paper` must be of small letters, digits and"),
    (lambda: ANY.Paper("brs", "Bhandari, Russo"), "`name` of a `Paper` must have no comma"),
    (lambda: ANY.exact_slope("a", "b"), "`x` must be an array of real numbers; found 'a'"),
    (lambda: ANY.exact_slope([1, 2], "b"), "`y` must be an array of real numbers; found 'b'"),
    (lambda: ANY.slope_interval([1, 2], "b", rng=0), "`y_replicates` must be an array of real num"),
    (lambda: ANY.mean_band([["a"], ["b"]]), "`replicates` must be an array of real numbers; found"),
    (
        lambda: ANY.rate_check("a", "b", rc.exact(1)),
        "`predicted` must be a number in (-inf, inf); ",
    ),
    (
        lambda: ANY.rate_check("a", -1.0, 3),
        "`measured` must be an interval, such as exact(0.5); fo",
    ),
    (
        lambda: ANY.below("a", "below 1", 3),
        "`measured` must be an interval, such as exact(0.5); fo",
    ),
    (
        lambda: ANY.every("x"),
        "`check` must be a check, such as rate_check or below makes; found 'x'",
    ),
    (lambda: ANY.our_own(1), "`check` must be a check, such as rate_check or below makes; found 1"),
    (
        lambda: ANY.Grid(3),
        "`axes` of a grid must be a dict, such as {'n': (1, 2)} or {'n': 'agents'",
    ),
    (
        lambda: ANY.Grid({"n": 2.5}),
        "axis `n` of a grid must be a list of values, how many there ar",
    ),
    (
        lambda: ANY.Grid({"n": "agnts"})(Sizes()),
        "axis `n` of a grid must be one of seed, agents, name; found 'agnts' (did you mean agents?",
    ),
    (lambda: ANY.Grid({"n": "name"})(Sizes()), "axis `n` of a grid must be a list of values, how "),
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
    told: list[Any] = []
    verdict = ANY.judge(bound, seed=np.int64(1), watch=lambda fields, index: told.append(index))
    assert (verdict.verdict, told[0]) == ("holds", 0)
    assert rc.Grid({"n": "agents", "run": 2})(Sizes())[0] == {"n": 5, "run": 0}
    assert ANY.exact_slope([1, 10], [Fraction(1), Fraction(1, 10)]).value == pytest.approx(-1)
    assert rc.replay(bound, {"x": 0.5}).verdict == "holds"
    assert sampled(between=(-1, 0.5), most=5).most == 5
    assert space(corners=[{"v": [1.0]}], credible={"v": (0, 1)}, sizes={"n": (1, 2)}).sizes == {
        "n": (1, 2)
    }
    assert rc.whole_numbers(low=0, high=5, log=True).values() is not None
