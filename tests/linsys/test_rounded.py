"""What a float64 in a formula stands for."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from linsys.linalg.balls import as_ball
from linsys.linalg.boxes_forms import bounds_of
from linsys.linalg.rounded import reach


@pytest.mark.parametrize(
    ("value", "stands_for"),
    [
        (1 - 49 * (1 / 49), Fraction(0)),
        (2**0.5 * 2**0.5 - 2, Fraction(0)),
        (math.sin(math.pi), Fraction(0)),
        (1 / 3, Fraction(1, 3)),
        (1e6 * 2**0.5, Fraction("1414213.5623730950488")),
    ],
)
def test_what_it_stands_for_is_within_reach(value: float, stands_for: Fraction) -> None:
    assert 0 < reach(value) >= abs(Fraction(value) - stands_for)
    assert reach(value) <= 1e-12 * max(1.0, abs(value))
    assert as_ball(value).value.contains(as_ball(stands_for).value)
    low, high, *_ = bounds_of(value)
    assert low <= stands_for <= high


@pytest.mark.parametrize("value", [0.0, 0.1, -2.5e-9, 1e300, math.inf])
def test_a_decimal_is_itself(value: float) -> None:
    assert reach(value) == 0
