"""What is computed of forms in float64 is above what exact arithmetic gives, and tells if not."""

from __future__ import annotations

import inspect
import math
import sys
import textwrap
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import flint
import numpy as np
import pytest

import ratecheck as rc
from linsys.linalg import boxes_rounding
from ratecheck._certify import constants, cover, examine, ratios
from ratecheck._certify.cover import Cover
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.examine import _Sides

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


def excess_too_small(c: Any, a: Any, e: Any, of_bottom: tuple[Any, Any, Any], q: float) -> int:
    """Boxes in which T - q B can be above its upper bound, of forms c, a, e of both sides."""
    made, wrong = _Sides.__new__(_Sides), 0
    none = np.full(len(c), np.inf)
    made.top, made.bottom = (-none, none, c, a, e), (-none, none, *of_bottom)
    above, (centre, b, error) = made.excess(q)[1], of_bottom
    for box in range(len(c)):
        most = exact(c[box]) - exact(q) * exact(centre[box])
        most += sum(
            abs(exact(x) - exact(q) * exact(y)) for x, y in zip(a.T[box], b.T[box], strict=True)
        )
        wrong += exact(above[box]) < most + exact(e[box]) + exact(q) * exact(error[box])
    return wrong


def many_slopes_too_small() -> int:
    """Of one slope of 1 and 59 that are lost beside it, each by itself."""
    a = np.full((60, 2), 2.0**-53 * (1 - 2.0**-20))  # of two boxes they are added one by one
    a[0] = 1.0
    zero, none = np.zeros(2), np.zeros((60, 2))
    return excess_too_small(zero, a, zero, (zero, none, zero), 0.5)


def cancelled_slopes_too_small() -> int:
    """Slopes that cancel all but their roundings, with nothing beside them."""
    rng, zero = np.random.default_rng(8), np.zeros(COUNT)
    b = rng.normal(size=(1, COUNT))
    return excess_too_small(zero, 0.7 * b, zero, (zero, b, zero), 0.7)


def underflow_too_small() -> int:
    """A product that is too small for a float64."""
    zero, none, tiny = np.zeros(1), np.zeros((1, 1)), np.full(1, -5e-324)
    return excess_too_small(zero, none, zero, (tiny, none, zero), 0.4)


def intervals_too_small() -> int:
    """Boxes in which T - q B can be above what the ends of both sides say of it."""
    rng = np.random.default_rng(9)
    pair = sides(rng, 1)
    nothing = np.full(COUNT, np.inf)
    low, high = rng.normal(size=COUNT), rng.normal(size=COUNT)
    pair.top = (pair.top[0], high, *pair.top[2:4], nothing)
    pair.bottom = (low, pair.bottom[1], *pair.bottom[2:4], nothing)
    above = pair.excess(0.7)[0]
    return sum(
        exact(x) < exact(b) - exact(0.7) * exact(a)
        for x, a, b in zip(above, low, high, strict=True)
    )


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
    kept_low, kept_high = examine._cut(low, high, above, a)
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
        low, high, c, _, e = examine._parts(number / 10, np.array([True]), 1, 1)
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


def zooms_too_small() -> int:
    """Numbers around zero that a scaling brings out of the range of their coordinate."""
    rng, wrong = np.random.default_rng(10), 0
    for _ in range(100):
        ends = np.sort(np.abs(rng.normal(size=2)) + 0.1)
        r = rc.interval(low=float(ends[0]), high=float(ends[1]))
        space = rc.Space({"r": r, "x": rc.reals(magnitude=(0.5, 3.7))})
        low = exact(Cover(space, {}).coordinates[0].low)
        fixed, made = Cover(space, {}, [(Fraction(1), Fraction(1))]).coordinates
        most = exact(3.7) * exact(fixed.low) / low
        wrong += (exact(made.high) < most) + (exact(made.low) > -most)
    return wrong


def proved_above() -> int:
    """Upper ends of a ratio above which the boxes would be asked to be closed."""
    wrong, asked = 0, list[float]()

    def replay(problem: Any, tree: str, target: float, proved: float) -> tuple[int, bool]:
        asked.append(proved)
        return 1, False

    unasked = patch.object(constants, "_check_drawn", lambda claim, sizes, high: None)
    with patch.object(constants, "replay", replay), unasked:  # the ratio is larger than these
        for number in range(1, 100):
            high = Fraction(number, 100)
            content = {"arithmetic": constants.ARITHMETIC, "ratio": ["0", str(high)], "boxes": 1}
            content |= {"target": "0.001", "tree": "", "sizes": {}, "alike": []}
            constants.replayed({**content, "instance": {"x": 0.5}}, of_root)
            wrong += exact(asked[-1]) > high
    return wrong


@rc.Paper("rounded", "rounded").upper("root", ref="1", on={"x": rc.interval()})
def of_root(x: Any) -> rc.Sides:
    """sqrt(x) <= 1 + sqrt(2 x), for a ratio that is no rational."""
    return np.sqrt(x), 1 + np.sqrt(2 * x)


def ratios_above() -> int:
    """Instances at which the ratio is below what it is said not to be below."""
    wrong = 0
    for number in range(1, 60):
        stated = ratios.at_least(of_root, {"x": number / 64})
        assert stated is not None
        with flint.ctx.workprec(600):
            x = flint.arb(number) / 64
            true = x.sqrt() / (1 + (2 * x).sqrt())
            wrong += bool(flint.arb(flint.fmpq(*stated.as_integer_ratio())) > true)
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


#: A rounding of a function that is left out, by what stands in its place, and what notices it.
LEFT_OUT: dict[str, tuple[Any, str, str, str, Callable[[], int]]] = {
    "of the excess, the share of what its parts are": (
        _Sides,
        "excess",
        " + 4 * rounding.UNIT * size",
        "",
        cancelled_slopes_too_small,
    ),
    "of that, what the slopes are": (
        _Sides,
        "excess",
        "    size = size + (np.abs(a) + np.abs(factor * b)).sum(axis=0)\n",
        "",
        cancelled_slopes_too_small,
    ),
    "of the excess, what the sum of slopes loses": (
        _Sides,
        "excess",
        "(np.abs(slope).sum(axis=0) + left) * rounding.GROW",
        "(np.abs(slope).sum(axis=0) + left)",
        many_slopes_too_small,
    ),
    "of the excess, what underflows": (
        _Sides,
        "excess",
        " + rounding.TINY",
        "",
        underflow_too_small,
    ),
    "of intervals, the difference": (
        _Sides,
        "excess",
        "apart = up(hi",
        "apart = (hi",
        intervals_too_small,
    ),
    "of intervals, the product": (
        _Sides,
        "excess",
        "rounding.down(factor * low)",
        "(factor * low)",
        intervals_too_small,
    ),
    "of a ratio": (
        _Sides,
        "ratio",
        "rounding.up(hi / np.where(low > 0, low, 1))",
        "hi / low",
        ratios_too_small,
    ),
    "of a constant, its lower end": (
        examine,
        "_parts",
        "float(rounding.down(np.float64(value)))",
        "value",
        constants_outside,
    ),
    "of a constant, its upper end": (
        examine,
        "_parts",
        "float(rounding.up(np.float64(value)))",
        "value",
        constants_outside,
    ),
    "of a constant, its error": (
        examine,
        "_parts",
        "zero + (high - low)\n",
        "zero\n",
        constants_outside,
    ),
    "of a cut, its subtraction": (examine, "_cut", "1e-14 * np", "0 * np", cut_too_much),
    "of a scaled range, its low end": (Cover, "_reduce", "low * _LESS", "low", ranges_too_small),
    "of a scaled range, its high end": (Cover, "_reduce", "high * _MORE", "high", ranges_too_small),
    "of a scaled range around zero": (
        Cover,
        "_reduce",
        "factors[1] * _MORE",
        "factors[1]",
        zooms_too_small,
    ),
    "of a difference, its low end": (
        Cover,
        "_change",
        "math.nextafter(low, -math.inf)",
        "low",
        ranges_too_small,
    ),
    "of a difference, its high end": (
        Cover,
        "_change",
        "math.nextafter(high, math.inf)",
        "high",
        ranges_too_small,
    ),
    "of a decimal range, its low end": (
        cover,
        "_coordinates",
        "_outward(domain.low, -math.inf)",
        "domain.low",
        decimals_outside,
    ),
    "of a decimal range, its high end": (
        cover,
        "_coordinates",
        "_outward(domain.high, math.inf)",
        "domain.high",
        decimals_outside,
    ),
    "of the upper end of a ratio": (
        constants,
        "replayed",
        "proved if Fraction(proved) <= high else float(np.nextafter(proved, 0.0))",
        "proved",
        proved_above,
    ),
    "of the lower end of a ratio": (
        ratios,
        "_quotient",
        "top[0] / bottom[1]",
        "top[1] / bottom[1]",
        ratios_above,
    ),
    "of the lower end, the side below": (
        ratios,
        "_quotient",
        "top[0] / bottom[1]",
        "top[0] / bottom[0]",
        ratios_above,
    ),
}
#: Those that other ones make up for, each by itself: what stands in their place.
MADE_UP_FOR: dict[str, tuple[Any, str, str, str]] = {
    "the excess of a form, by the shares of its parts": (
        _Sides,
        "excess",
        "by_form = up(middle",
        "by_form = (middle",
    ),
    "what is added to its middle, by the same": (
        _Sides,
        "excess",
        "up((np.abs(slope)",
        "((np.abs(slope)",
    ),
    "the sum of errors, by what the sum of slopes and errors gets": (
        _Sides,
        "excess",
        "rounding.TINY) * rounding.GROW",
        "rounding.TINY)",
    ),
    "how far a cut reaches, by its margin in absolute terms": (
        examine,
        "_cut",
        "above / size * (1 + _MARGIN)",
        "above / size",
    ),
    "the other way round": (examine, "_cut", "(1 + _MARGIN) + _MARGIN", "(1 + _MARGIN)"),
    "how long it is, by both": (examine, "_cut", "reach * half * (1 + _MARGIN)", "reach * half"),
}
#: What tells whether something is rounded inward.
CHECKS: tuple[Callable[[], int], ...] = (
    lambda: too_small(1),
    lambda: too_small(3),
    lambda: too_small(3, cancels=True),
    lambda: too_small(60),
    ratios_too_small,
    cut_too_much,
    constants_outside,
    ranges_too_small,
    decimals_outside,
    many_slopes_too_small,
    cancelled_slopes_too_small,
    underflow_too_small,
    intervals_too_small,
    zooms_too_small,
    proved_above,
    ratios_above,
)
#: Several roundings that are left out together, and what notices it.
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


def without(owner: Any, name: str, old: str, new: str) -> Any:
    """A function, or a method, with something else in the place of a part of its source."""
    function = inspect.getattr_static(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, old
    made: dict[str, Any] = {}
    exec(f"from __future__ import annotations\n{source.replace(old, new)}", made)
    code, module = made[name].__code__, sys.modules[function.__module__]
    return FunctionType(code, vars(module), name, made[name].__defaults__)


def test_nothing_is_rounded_inward() -> None:
    assert [of() for of in CHECKS] == [0] * len(CHECKS)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_each_rounding_that_is_left_out_alone_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, function, old, new, wrong = LEFT_OUT[name]
    monkeypatch.setattr(owner, function, without(owner, function, old, new))  # mutation
    assert wrong() > 0


def test_the_page_says_how_many_are_left_out() -> None:
    page = " ".join(Path("docs/certificates.md").read_text().split())
    assert f"So are {len(LEFT_OUT)} of `examine.py`" in page
    assert f"{len(MADE_UP_FOR)} more of `examine.py` are left out" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE_UP_FOR)
def test_one_rounding_makes_up_for_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No check notices these, each left out alone, as the other margins are larger."""
    owner, function, old, new = MADE_UP_FOR[name]
    monkeypatch.setattr(owner, function, without(owner, function, old, new))
    assert [of() for of in CHECKS] == [0] * len(CHECKS)


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
