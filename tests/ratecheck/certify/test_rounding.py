"""What is computed of forms in float64 is above what exact arithmetic gives, and tells if not."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from linsys.linalg import boxes_rounding
from ratecheck._certify import cover, examine
from ratecheck._certify.cover import Cover
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.examine import _cut, _parts, _Sides

COUNT = 2_000


def exact(x: Any) -> Fraction:
    return Fraction(float(x))


def forms(rng: np.random.Generator, k: int) -> tuple[Any, ...]:
    """Random (lo, hi, c, a, e) of a side in many boxes, with an interval that says nothing."""
    c, a = rng.normal(size=COUNT), rng.normal(size=(k, COUNT))
    e = np.abs(rng.normal(size=COUNT)) * 2.0 ** -rng.integers(0, 60, COUNT)
    return np.full(COUNT, -np.inf), np.full(COUNT, np.inf), c, a, e


def sides(rng: np.random.Generator, k: int, q: float = 0.0) -> _Sides:
    """Two sides; with a factor q nearly all of T - q B cancels."""
    made = _Sides.__new__(_Sides)
    made.bottom = forms(rng, k)
    low, high, c, a, e = forms(rng, k)
    if q:
        c, a = q * made.bottom[2] + 2.0**-50 * c, q * made.bottom[3] + 2.0**-50 * a
        e = e * 2.0**-60
        made.bottom = (*made.bottom[:4], e)
    made.top = low, high, c, a, e
    return made


def too_small(k: int, cancels: bool = False) -> int:
    """Boxes in which the excess T - q B can be above its upper bound."""
    rng, wrong, q = np.random.default_rng(k), 0, 0.7
    pair = sides(rng, k, q * cancels)
    above = pair.excess(q)[1]
    (_, _, c, a, e), (_, _, centre, b, error) = pair.top, pair.bottom
    factor = Fraction(q)
    for box in range(COUNT):
        most = exact(c[box]) - factor * exact(centre[box])
        slopes = (exact(a[i, box]) - factor * exact(b[i, box]) for i in range(k))
        most += sum(map(abs, slopes)) + exact(e[box]) + factor * exact(error[box])
        wrong += exact(above[box]) < most
    return wrong


def ratios_too_small() -> int:
    """Boxes in which the factor that intervals give is below hi / lo."""
    rng = np.random.default_rng(5)
    pair = sides(rng, 1)
    nothing = np.full(COUNT, 1e9)
    low, high = np.abs(rng.normal(size=COUNT)) + 0.1, np.abs(rng.normal(size=COUNT)) + 2
    pair.top = (pair.top[0], high, *pair.top[2:4], nothing)
    pair.bottom = (low, pair.bottom[1], *pair.bottom[2:4], nothing)
    found = pair.ratio(0.0, np.full(COUNT, np.inf))
    return sum(exact(q) * exact(b) < exact(a) for q, a, b in zip(found, high, low, strict=True))


def cut_too_much() -> int:
    """Boxes of which a point at which the form is positive was cut off."""
    rng, wrong, k = np.random.default_rng(6), 0, 2
    low = rng.normal(size=(k, COUNT)) * 2.0 ** rng.integers(0, 30, COUNT)
    high = low + np.abs(rng.normal(size=(k, COUNT)))
    a = rng.normal(size=(k, COUNT))
    above = np.abs(rng.normal(size=COUNT))
    kept_low, kept_high = _cut(low, high, above, a)
    for i in range(k):
        for box in range(COUNT):
            share = exact(above[box]) / abs(exact(a[i, box]))  # positive for s < share alone
            end = (exact(high[i, box]) - exact(low[i, box])) / 2 * min(share, Fraction(2))
            if a[i, box] > 0:
                wrong += exact(kept_low[i, box]) > exact(high[i, box]) - end
            else:
                wrong += exact(kept_high[i, box]) < exact(low[i, box]) + end
    return wrong


def constants_outside() -> int:
    """Decimals that are not in the enclosure of a constant side."""
    wrong = 0
    for number in range(1, 300):
        low, high, c, _, e = _parts(number / 10, np.array([True]), 1, 1)
        decimal = Fraction(number, 10)
        wrong += not exact(low[0]) <= decimal <= exact(high[0])
        wrong += abs(decimal - exact(c[0])) > exact(e[0])
    return wrong


def ranges_too_small() -> int:
    """Numbers that a scaling, or a difference, brings out of the range of their coordinate."""
    rng, wrong = np.random.default_rng(7), 0
    for _ in range(100):
        ends = np.sort(np.abs(rng.normal(size=4)) + 0.1)
        r, s = (rc.interval(low=float(a), high=float(b)) for a, b in (ends[:2], ends[2:]))
        space = rc.Space({"r": r, "s": s})
        one, other = Cover(space, {}).coordinates
        low, high, least, most = map(exact, (one.low, one.high, other.low, other.high))
        for power in (1, -1):
            fixed, made = Cover(space, {}, [(Fraction(1), Fraction(power))]).coordinates
            for end in (low, high):
                factor = (exact(fixed.low) / end) ** power
                wrong += exact(made.low) > least * factor
                wrong += exact(made.high) < most * factor
        apart = Cover(space, {}, charts=[("from", 0, 1)]).coordinates[0]
        wrong += exact(apart.low) > low - most
        wrong += exact(apart.high) < high - least
    return wrong


def decimals_outside() -> int:
    """Ends of a range that are decimals, and are not in the range of the coordinate."""
    wrong = 0
    for number in range(1, 200):
        space = rc.Space({"r": rc.interval(low=number / 10, high=(number + 3) / 10)})
        (one,) = Cover(space, {}).coordinates
        wrong += exact(one.low) > Fraction(number, 10)
        wrong += exact(one.high) < Fraction(number + 3, 10)
    return wrong


def same(x: Any) -> Any:
    return x


def rounding(**instead: Any) -> SimpleNamespace:
    """The module of roundings with mistakes."""
    return SimpleNamespace(**{**vars(boxes_rounding), **instead})


#: Where a rounding is left out, and what notices it.
MISTAKES: dict[str, tuple[Any, dict[str, Any], Callable[[], int]]] = {
    "the excess is not rounded up": (
        examine,
        {"rounding": rounding(up=same, UNIT=0.0)},
        lambda: too_small(1),
    ),
    "its slopes are not allowed for": (
        examine,
        {"rounding": rounding(UNIT=0.0)},
        lambda: too_small(3, cancels=True),
    ),
    "its sum is not made larger": (
        examine,
        {"rounding": rounding(GROW=1.0 - 2.0**-46)},
        lambda: too_small(60),
    ),
    "a ratio is not rounded up": (examine, {"rounding": rounding(up=same)}, ratios_too_small),
    "a cut has no margin": (examine, {"_MARGIN": -1e-9}, cut_too_much),
    "a constant is a point": (
        examine,
        {"rounding": rounding(up=same, down=same)},
        constants_outside,
    ),
    "scaled ranges do not grow at their low end": (cover, {"_LESS": 1.0}, ranges_too_small),
    "scaled ranges do not grow at their high end": (cover, {"_MORE": 1.0}, ranges_too_small),
    "differences are not rounded": (
        cover,
        {"math": SimpleNamespace(**{**vars(math), "nextafter": lambda x, to: x})},
        ranges_too_small,
    ),
    "decimals are floats": (cover, {"_outward": lambda end, to: float(end)}, decimals_outside),
}


def test_nothing_is_rounded_inward() -> None:
    for count in (too_small(1), too_small(3), too_small(3, cancels=True), too_small(60)):
        assert count == 0
    for of in (
        ratios_too_small,
        cut_too_much,
        constants_outside,
        ranges_too_small,
        decimals_outside,
    ):
        assert of() == 0


@pytest.mark.parametrize("name", MISTAKES)
def test_a_rounding_that_is_left_out_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, instead, wrong = MISTAKES[name]
    for attribute, value in instead.items():
        monkeypatch.setattr(module, attribute, value)
    assert wrong() > 0


def test_more_coordinates_than_roundings_are_proved_for_are_refused() -> None:
    paper = rc.Paper("many", "many coordinates")

    def total(x: Any) -> rc.Sides:
        """sum x <= n max x."""
        return x.sum(), x.size * x.max()

    claim = paper.upper("total", ref="1", on={"x": rc.interval("n")})(total)
    assert examine.problem(claim, {"n": 60}).cover.coordinates
    with pytest.raises(Unprovable, match="60 coordinates"):
        examine.problem(claim, {"n": 61})
