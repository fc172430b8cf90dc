"""Ranges hold all values, and say of zero whether it is one."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import flint
import pytest

from linsys.linalg import ranges
from linsys.linalg.ranges import MAYBE, NEVER, NULL, Range

Pair = tuple[Fraction, Range]
#: The functions, and what they are of fractions.
TWO: dict[str, tuple[Callable[..., Range], Callable[..., Fraction]]] = {
    "plus": (ranges.plus, operator.add),
    "times": (ranges.times, operator.mul),
    "over": (ranges.over, operator.truediv),
    "larger": (ranges.larger, max),
}


def around(value: Fraction, rng: random.Random) -> Range:
    """A range that holds a value, with or without others, such as zero."""
    exact = ranges.constant(flint.fmpq(value.numerator, value.denominator))
    low = rng.choice([exact.low, math.floor(exact.low) - rng.randrange(2), min(exact.low, 0.0)])
    high = rng.choice([exact.high, math.ceil(exact.high) + rng.randrange(2), math.inf])
    zero = NEVER if not low <= 0 <= high else rng.choice([NULL, MAYBE] + [NEVER] * (value != 0))
    return Range(float(low), float(high), MAYBE if value == 0 else zero)


def wrong(count: int) -> int:
    """How many values of random formulas are not in their ranges, or zero where none may be."""
    rng, missed = random.Random(5), 0
    for _ in range(count):
        numbers: list[Pair] = []
        for _ in range(3):
            value = Fraction(rng.randrange(-9, 10), rng.choice([1, 3, 7, 10]))
            numbers.append((value, around(value, rng)))
            exact = rng.uniform(-2, 2)
            numbers.append((Fraction(exact), Range(exact, exact, NEVER)))
        for _ in range(4):
            (a, p), (b, q) = rng.choice(numbers), rng.choice(numbers)
            name = rng.choice([*TWO, "power", "absolute", "negative"])
            if name in TWO:
                if name == "over" and b == 0:
                    continue
                made = TWO[name][1](a, b), TWO[name][0](p, q)
            elif name == "power":
                made = a**3, ranges.power(p, 3)
            else:
                made = (
                    (abs(a), ranges.absolute(p)) if name == "absolute" else (-a, ranges.negative(p))
                )
            value, found = made
            inside = found.low <= value <= found.high
            missed += not inside or (value == 0 and found.zero == NEVER)
            if not inside:
                break
            numbers.append(made)
    return missed


def test_ranges_hold_the_values_of_random_formulas() -> None:
    assert wrong(3000) == 0


@pytest.mark.parametrize("name", ["_sum", "_product"])
def test_a_rounding_that_is_left_out_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(a: float, b: float, towards: float) -> float:
        if name == "_sum":
            return a + b
        return a * b if a and b else 0.0

    monkeypatch.setattr(ranges, name, plain)
    assert wrong(3000) > 0


@pytest.mark.parametrize("name", ["plus", "larger"])
def test_a_zero_that_is_left_out_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = TWO[name][0]

    def never(a: Range, b: Range) -> Range:
        return true(a, b)._replace(zero=NEVER)

    monkeypatch.setitem(TWO, name, (never, TWO[name][1]))
    assert wrong(3000) > 0


@pytest.mark.parametrize(
    ("function", "value"),
    [(ranges.root, "sqrt"), (ranges.exponential, "exp"), (ranges.logarithm, "log")],
)
def test_functions_hold_their_values(function: Callable[[Range], Range], value: str) -> None:
    rng = random.Random(8)
    for _ in range(500):
        x = flint.fmpq(rng.randrange(1, 10**6), rng.randrange(1, 10**4))
        with flint.ctx.workprec(200):
            true = getattr(flint.arb(x), value)()
            found = function(ranges.constant(x))
            assert not true < found.low
            assert not true > found.high
            assert found.high - found.low <= 1e-9 * abs(found.high) + 1e-9 or found.high == math.inf


def test_what_is_known_of_zero() -> None:
    """x^2 + y^2 is zero on a null set, with e^x never; x - x at all points."""
    x, e = Range(-math.inf, math.inf, NULL), ranges.exponential(ranges.ANY)
    squares = ranges.plus(ranges.power(x, 2), ranges.power(x, 2))
    assert squares == Range(0.0, math.inf, NULL)
    assert ranges.plus(squares, e).zero == NEVER
    assert ranges.plus(x, ranges.negative(x)).zero == MAYBE
    assert ranges.times(x, e).zero == NULL
    assert ranges.over(e, x).zero == NEVER
    assert ranges.larger(squares, ranges.ANY).zero == MAYBE
    assert ranges.larger(squares, e).zero == NEVER


@pytest.mark.parametrize(
    ("number", "low", "high"),
    [
        (flint.fmpq(10) ** 400, 0.0, math.inf),
        (-(flint.fmpq(10) ** 400), -math.inf, 0.0),
        (flint.fmpq(1, 10**400), 0.0, 5e-324),
        (flint.fmpq(3), 3.0, 3.0),
    ],
)
def test_constants_beyond_floats(number: Any, low: float, high: float) -> None:
    assert ranges.constant(number) == Range(low, high, NEVER)
