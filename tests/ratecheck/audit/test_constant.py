"""The least constant of a bound, against those that are known."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._commands.constants import _lines
from ratecheck._verdicts import constant as constant_module
from ratecheck._verdicts.constant import made_simple
from tests._slow import slow_but

CHANCES = {"p": rc.simplex("k")}
PAIR = {"x": rc.interval(), "y": rc.interval()}
PAPER = rc.Paper("mine", "my paper")


def declared(kind: Any, measure: Any, on: Any, **options: Any) -> rc.Claim:
    measure.__doc__ = "It holds."
    return PAPER.statement(kind, "claim", ref="Lemma 1", on=on, **options)(measure)


def halves(factor: float) -> rc.Claim:
    """x y <= factor (x^2 + y^2), whose least constant is 1 / (2 factor)."""
    return declared("upper", lambda x, y: (x * y, factor * (x**2 + y**2)), PAIR)


@pytest.mark.parametrize("factor", slow_but([0.1], [2.0, 0.5, 0.1]))  # loose, exact, false
def test_the_least_constant_of_an_upper_bound(factor: float) -> None:
    least = rc.tightest(halves(factor))
    assert least.factor == pytest.approx(1 / (2 * factor), rel=1e-6)
    assert least.sure is not None
    assert 0.98 * least.factor <= least.sure <= least.factor
    x, y = least.instance["x"], least.instance["y"]
    assert x * y / (factor * (x**2 + y**2)) == pytest.approx(least.sure)
    assert float(least.measured) == pytest.approx(x * y)
    assert len(repr(x)) <= 6  # made simple
    # and the statement with the constant holds, with a smaller one it does not
    assert rc.judge(halves(factor * least.factor * (1 + 1e-6))).verdict == "holds"
    assert rc.judge(halves(factor * least.sure * (1 - 1e-6))).verdict == "violated"


def test_the_instance_is_made_simple() -> None:
    """The cube root of 1/4 is where 1 - x^3 is largest times x; 0.6 is nearly as good."""
    least = rc.tightest(declared("upper", lambda x: (x * (1 - x**3), 1), {"x": rc.interval()}))
    assert least.factor == pytest.approx(0.75 * 0.25 ** (1 / 3))
    assert len(repr(least.instance["x"])) <= 4


@pytest.mark.parametrize("factor", slow_but([0.25], [0.25, 1.0, 3.0]))
def test_the_least_constant_of_a_lower_bound(factor: float) -> None:
    def root(p: Any) -> Any:
        return (p**2).sum(), factor / len(p)

    least = rc.tightest(declared("lower", root, CHANCES))  # sum of squares >= 1 / k
    assert least.factor == pytest.approx(1 / factor)
    assert least.sure is not None
    assert least.factor <= least.sure <= 1.02 * least.factor


@pytest.mark.slow
def test_one_search_does_not_stop_at_the_first_violation() -> None:
    """Of x^8 <= 1/10, half of the violations are slight."""
    least = rc.tightest(declared("upper", lambda x: (x**8, x / 10), {"x": rc.interval()}))
    assert least.factor == pytest.approx(10)
    with mock.patch.object(constant_module, "_SEARCHES", 1):
        fewer = rc.tightest(declared("upper", lambda x: (x * (3 - 2 * x), 0.5 + 0 * x), PAIR))
    assert "may be none" in fewer.reason


def test_a_bound_that_no_factor_saves() -> None:
    none = rc.tightest(declared("upper", lambda x, y: (x, np.maximum(y - 0.5, 0)), PAIR))
    assert none.factor == np.inf
    assert none.reason == "on this instance no multiple of the bound would do"
    assert none.to_dict()["factor"] == "inf"
    assert none.instance["y"] <= 0.5  # also after it was made simple
    assert none.sure is None
    assert none.bound == "0.0"
    json.dumps(none.to_dict(), allow_nan=False)


def test_what_says_nothing_of_a_constant() -> None:
    below = rc.tightest(declared("upper", lambda x, y: (-1 - x, y), PAIR))
    assert (below.factor, below.sure) == (None, None)
    space = rc.Space(fields=PAIR, given={"x > 2": lambda s: s.x > 2})
    empty = rc.tightest(declared("upper", lambda x, y: (x, y), space))
    assert empty.factor is None
    assert empty.reason.endswith("instances meets what the claim is given")


def test_other_kinds_are_refused() -> None:
    same = declared("identity", lambda x, y: (x, x), PAIR)
    with pytest.raises(InputError, match=r"lower bound; found mine\.claim, of the kind identity"):
        rc.tightest(same)
    with pytest.raises(InputError, match=r"both sides of mine\.claim must be defined; found that"):
        rc.tightest(declared("upper", lambda x, y: (x, {"y": y}), PAIR))
    lists = rc.tightest(declared("upper", lambda x, y: ([x, 0], (2, y + 1)), PAIR))
    assert lists.factor == pytest.approx(0.5)
    with pytest.raises(InputError, match="`effort` must be one of"):
        rc.tightest(same and halves(1.0), "little")


def test_a_limit_ends_the_search() -> None:
    def slow(x: Any, y: Any) -> Any:
        end = time.process_time() + 0.005
        while time.process_time() < end:
            pass
        return x * y, x**2 + y**2

    least = rc.tightest(declared("upper", slow, PAIR), limit=0.5)
    assert least.reason.endswith("a larger limit may find more")
    assert least.factor is None or least.factor <= 0.5


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    text = '''
import ratecheck as rc
PAPER = rc.Paper("mine", "my paper")

@PAPER.upper("square", ref="Lemma 1", on={"x": rc.interval()})
def square(x):
    """It is small."""
    return x * (1 - x), 1
'''
    (tmp_path / "mine.py").write_text(text)

    def said(*options: str) -> str:
        command = [sys.executable, "-m", "ratecheck", "audit", "mine.py", "--constant", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    *lines, last = said().splitlines()
    assert lines == [
        "mine.square: measured <= 0.25 * bound on every instance tried",
        "  no factor smaller than 0.25 is true, as this instance shows:",
        "  measured 0.25, bound 1.0",
        "  x = 0.5",
    ]
    assert last.endswith(" instances tried")
    assert json.loads(said("--json"))[0]["factor"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("digits", "verdict"), slow_but([10, 13], [(7, "violated"), (10, "violated"), (13, "holds")])
)
def test_the_constant_agrees_with_the_verdict_near_one(digits: int, verdict: str) -> None:
    excess = Fraction(1, 10**digits)
    near = declared("upper", lambda x: (x, 1 - excess + 0 * x), {"x": rc.interval()})
    below = declared("lower", lambda x: (1 - excess + 0 * x, x), {"x": rc.interval()})
    for one, sign in ((near, "+"), (below, "-")):
        assert rc.judge(one).verdict == verdict
        least = rc.tightest(one)
        assert ("within the tolerance" in least.reason) is (verdict == "holds")
        assert least.measured, "no instance shows it"
        said = _lines(one, least)
        assert f" (1 {sign} 1e-{digits:02}) * bound on every" in said[0]
        assert f" than (1 {sign} 1e-{digits:02}) is true" in said[1]


def test_of_several_those_that_are_no_bounds_are_named(
    ratecheck: Callable[..., Any], tmp_path: Path
) -> None:
    text = """
import ratecheck as rc
PAPER = rc.Paper("mine", "my paper")
ON = {"x": rc.interval()}

@PAPER.identity("same", ref="Lemma 1", on=ON)
def same(x):
    "x is x"
    return x, x

@PAPER.upper("below", ref="Lemma 2", on=ON)
def below(x):
    "x is below 2"
    return x, 2
"""
    (tmp_path / "mine.py").write_text(text)
    said = ratecheck("audit", tmp_path / "mine.py", "--constant")
    assert said.code == 0
    assert said.out.startswith("mine.below: measured <= 0.5 * bound")
    assert said.out.endswith("\nno bounds, and so without a constant: mine.same\n")
    alone = ratecheck("audit", f"{tmp_path / 'mine.py'}::mine.same", "--constant")
    assert alone.code == 2
    assert "found mine.same, of the kind identity" in alone.err


@pytest.mark.parametrize("bound", slow_but(["10/9", "0.3333"], ["3/4", "10/9", "7/3", "0.3333"]))
def test_a_printed_constant_is_on_the_side_on_which_it_is_true(bound: str) -> None:
    exact = Fraction(bound)
    space = {"x": rc.interval()}
    upper = declared("upper", lambda x: (x, exact * x), space)
    lower = declared("lower", lambda x: (exact * x, x), space)
    for claim, enough in ((upper, 1 / exact), (lower, exact)):
        needs, sure, *_ = _lines(claim, rc.tightest(claim))
        factor = Fraction(re.findall(r" (\S+) \* bound", needs)[0])
        other = Fraction(re.findall(r"than (\S+) is", sure)[0])
        sign = 1 if claim is upper else -1
        assert 0 <= sign * (factor - enough) <= 2e-5 * enough
        assert sign * (other - enough) <= 0


def test_the_tightest_instance_that_is_shown_is_simple() -> None:
    space = {"x": rc.interval(low=1.0, high=3.0), "y": rc.reals("d")}
    squared = rc.linalg.squared
    loose = declared("upper", lambda x, y: ((2 - x) * squared(y), 1.5 * squared(y)), space)
    verdict = rc.judge(loose)
    assert verdict.ratio is not None
    assert verdict.best is not None
    simple = made_simple(loose, verdict.best, verdict.ratio)
    assert simple == {"x": 1.0, "y": [1.0]}
    assert verdict.best != simple
