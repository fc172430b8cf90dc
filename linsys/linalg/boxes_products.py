"""Products, powers and quotients of numbers over boxes, by numbers and by constants."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from linsys.linalg import boxes_rounding as rounding
from linsys.linalg.boxes_forms import (
    Ends,
    F,
    factors_of,
    free_degree,
    joined,
    once,
    roundings,
    serial,
    unchecked,
)
from linsys.linalg.boxes_functions import curved, inside, root
from linsys.linalg.boxes_paths import State

__all__ = [
    "difference_of_itself",
    "divided",
    "inverse",
    "multiplied",
    "negative",
    "plus_constant",
    "power",
    "product",
    "quotient",
    "quotient_of_itself",
    "spread",
    "square",
    "times_constant",
    "whole_power",
]


def divided(x: F, common: dict[int, float]) -> F:
    """A product without these powers of its factors."""
    made: F | None = None
    for base, exponent in factors_of(x):
        rest = exponent - common.get(id(base), 0.0)
        if rest:
            factor = power(base, rest)
            made = factor if made is None else multiplied(made, factor)
    return x.constant(1) if made is None else made


def multiplied(x: F, y: F) -> F:
    """The product, whichever comes first; by a known constant it is a multiple."""
    for one, other in ((x, y), (y, x)):
        if other.exact is not None:
            return times_constant(one, other.exact)  # type: ignore[no-any-return]
    if x is y:
        return square(x)  # type: ignore[no-any-return]
    return product(*sorted((x, y), key=serial))  # type: ignore[no-any-return]


def power(x: F, exponent: float) -> F:
    """x to a power that is half a whole number."""
    if exponent < 0:
        inverted: F = inverse(power(x, -exponent))
        return inverted
    if exponent == int(exponent):
        return whole_power(x, int(exponent))  # type: ignore[no-any-return]
    return whole_power(root(x), int(2 * exponent))  # type: ignore[no-any-return]


@once
def negative(x: F) -> F:
    """Minus a number."""
    made = unchecked(-x.hi, -x.lo, -x.c, -x.a, x.e, x)
    if x.of:
        made.factors = joined((x, 1.0), (x.constant(-1), 1.0))
        made.terms = tuple((atom, -q) for atom, q in x.terms or ((x, Fraction(1)),))
    if State.known is not None:  # minus that is the number itself
        State.known["negative", id(made)] = x, (made,)
    return made


@once
def plus_constant(x: F, k: Any) -> F:
    """The sum with a plain number."""
    low, high, nearest, distance = k
    if low == high == 0:
        return x
    if x.exact is not None and low == high and math.isfinite(low):
        return x.constant(Fraction(float(x.lo[0])) + Fraction(float(low)))
    if not x.is_zero:
        free_degree(x)
    c = x.c + nearest
    e = (x.e + distance + rounding.UNIT * np.abs(c)) * rounding.GROW
    lo, hi = rounding.down(x.lo + low), rounding.up(x.hi + high)
    made = x.made(lo, hi, c, x.a, e, x.degree, x.of)
    made.origin = "plus", x, low, high
    return made


@once
def times_constant(x: F, k: Any) -> Any:
    """The product with a plain number."""
    if x.exact is not None and k[0] == k[1] and math.isfinite(k[2]):
        return x.constant(Fraction(float(x.lo[0])) * Fraction(float(k[0])))
    made = _times(x, k)
    if made is not x and made.of and k[0] == k[1] and math.isfinite(k[2]):
        exact = Fraction(float(k[2]))
        made.terms = tuple((atom, exact * q) for atom, q in x.terms or ((x, Fraction(1)),))
        made.factors = joined((x, 1.0), (x.constant(float(k[2])), 1.0))
    return made


def _times(x: F, k: Any) -> Any:
    low, high, nearest, distance = k
    if low == high:
        if nearest == 1:
            return x
        if nearest == -1:
            return negative(x)
        if nearest == 0 and np.isfinite(x.lo).all() and np.isfinite(x.hi).all():
            return x.constant(0)
    c, a = x.c * nearest, x.a * nearest
    size = np.abs(x.c) + np.abs(x.a).sum(axis=0) + x.e
    e = abs(nearest) * x.e + distance * size + roundings(c, a) + rounding.TINY
    if low == high and math.frexp(nearest)[0] in (0.5, -0.5):  # a power of two: no rounding
        lo, hi = (x.lo * low, x.hi * low) if low > 0 else (x.hi * low, x.lo * low)
        return x.made(lo, hi, c, a, abs(nearest) * x.e, x.degree, x.of)
    ends = _interval_product(x.lo, x.hi, low, high)
    return x.made(*ends, c, a, e * rounding.GROW, x.degree, x.of)


def spread(x: F, ends: Ends) -> Any:
    """What a product of x with a constant in these bounds adds to that with their middle."""
    width = float(rounding.up(np.max(ends[1] - ends[0])))
    bound = np.maximum(np.abs(x.lo), np.abs(x.hi)) * width * rounding.GROW
    zero = np.zeros_like(bound)
    return x.made(-bound, bound, zero, np.zeros_like(x.a), bound, x.degree, x.of)


def difference_of_itself(x: F) -> Any:
    """x - x."""
    if np.isfinite(x.lo).all() and np.isfinite(x.hi).all():
        return x.constant(0)
    known = np.isfinite(x.lo) & np.isfinite(x.hi)
    end = np.where(known, 0.0, np.inf)
    return x.made(-end, end, np.zeros_like(end), np.zeros_like(x.a), end, x.degree, x.of)


def quotient_of_itself(x: F) -> Any:
    """x / x."""
    known = ((x.lo > 0) | (x.hi < 0)) & np.isfinite(x.lo) & np.isfinite(x.hi)
    if known.all():
        return x.constant(1)
    reach, middle = np.where(known, 0.0, np.inf), np.ones_like(x.c)
    degree = (0.0,) * len(x.degree)
    return x.made(middle - reach, middle + reach, middle, np.zeros_like(x.a), reach, degree, x.of)


def _interval_product(lo: Any, hi: Any, low: Any, high: Any) -> Ends:
    products = lo * low, lo * high, hi * low, hi * high
    least = np.minimum(np.minimum(*products[:2]), np.minimum(*products[2:]))
    most = np.maximum(np.maximum(*products[:2]), np.maximum(*products[2:]))
    # zero times infinity is NaN, and unknown
    return rounding.down(least), rounding.up(most)


@once
def product(x: F, y: F) -> F:
    """x y. With X = sum a_i t_i and Y = sum b_i t_i, X Y lies about sum a_i b_i / 2."""
    together = x.a * y.a
    # sum a_i b_i t_i^2 = D / 2 +- E / 2, and the other products are at most |X| |Y| - E in size
    D, E = together.sum(axis=0), np.abs(together).sum(axis=0)
    linear_x, linear_y = np.abs(x.a).sum(axis=0), np.abs(y.a).sum(axis=0)
    c = x.c * y.c + D / 2
    a = x.c * y.a + y.c * x.a
    square = linear_x * linear_y
    size_x, size_y = np.abs(x.c) + linear_x, np.abs(y.c) + linear_y
    errors = size_x * y.e + size_y * x.e + x.e * y.e
    mixed = np.maximum(square - E / 2, E / 2)
    # roundings of c, of a with two products each, of D, and of the difference
    lost = 4 * rounding.UNIT * (size_x * size_y + square * (2 + len(x.a)))
    e = (mixed + errors + lost + rounding.TINY) * rounding.GROW
    ends = _interval_product(x.lo, x.hi, y.lo, y.hi)
    made = x.made(*ends, c, a, e, _added(x.degree, y.degree), x.of | y.of)
    made.factors = joined((x, 1.0), (y, 1.0))
    return made


@once
def square(x: F) -> F:
    """(c + X)^2 = c^2 + 2 c X + X^2 with 0 <= X^2 <= R^2."""
    reach = np.abs(x.a).sum(axis=0) + x.e
    square = reach * reach
    c, a = x.c * x.c + square / 2, 2 * x.c * x.a
    lost = 4 * rounding.UNIT * (np.abs(x.c) + reach) ** 2
    e = (square / 2 + 2 * np.abs(x.c) * x.e + lost + rounding.TINY) * rounding.GROW
    least = np.where(x.lo > 0, x.lo, np.where(x.hi < 0, x.hi, 0.0))
    most = np.maximum(np.abs(x.lo), np.abs(x.hi))
    lo, hi = rounding.down(least * least), rounding.up(most * most)
    made = x.made(lo, hi, c, a, e, _added(x.degree, x.degree), x.of)
    made.factors, made.origin = joined((x, 2.0)), ("square", x)
    return made


def whole_power(x: F, n: int) -> Any:
    """x^n for a whole number n that is not negative."""
    if n == 0:
        return x.constant(1)
    if x.origin[:1] == ("absolute",) and n % 2 == 0:
        return whole_power(x.origin[1], n)
    if n % 2:
        return x if n == 1 else multiplied(x, whole_power(x, n - 1))
    return square(whole_power(x, n // 2))


@once
def inverse(x: F) -> F:
    """1 / x; of boxes in which x may be 0 nothing is known."""
    # -1 / (-x) for negative x
    sign = np.where(x.hi < 0, -1.0, np.where(x.lo > 0, 1.0, np.nan))
    lo, hi = np.where(sign < 0, -x.hi, x.lo), np.where(sign < 0, -x.lo, x.hi)
    positive = unchecked(lo, hi, sign * x.c, sign * x.a, x.e, x)
    down, up = rounding.down, rounding.up
    lo = np.where(np.isnan(sign), np.nan, lo)
    at_lo, at_hi = (down(1 / lo), up(1 / lo)), (down(1 / hi), up(1 / hi))
    tangent = inside(np.sqrt(lo) * np.sqrt(hi), positive)
    value = down(1 / tangent), up(1 / tangent)
    derivative = -up(value[1] * value[1]), -down(value[0] * value[0])
    degree = tuple(-d for d in x.degree)
    slope = -1 / (lo * hi)
    made = curved(positive, at_lo, at_hi, slope, tangent, value, derivative, 1, degree)
    made.factors, made.origin = joined((x, -1.0)), ("inverse", x)
    negative = x.hi < 0
    if not negative.any():
        return made
    turn = np.where(negative, -1.0, 1.0)
    lo, hi = np.where(negative, -made.hi, made.lo), np.where(negative, -made.lo, made.hi)
    turned = unchecked(lo, hi, turn * made.c, turn * made.a, made.e, made)
    turned.factors, turned.origin = made.factors, made.origin
    return turned


@once
def quotient(x: F, y: F) -> F:
    """x / y; of boxes in which y may be 0 nothing is known."""
    made = multiplied(x, inverse(y))
    # of the intervals alone, which are divided with one rounding
    sure = (y.lo > 0) | (y.hi < 0)
    low, high = np.where(sure, y.lo, np.nan), np.where(sure, y.hi, np.nan)
    ends = x.lo / low, x.lo / high, x.hi / low, x.hi / high
    lo = rounding.down(np.minimum(np.minimum(*ends[:2]), np.minimum(*ends[2:])))
    hi = rounding.up(np.maximum(np.maximum(*ends[:2]), np.maximum(*ends[2:])))
    lo, hi = np.fmax(lo, made.lo), np.fmin(hi, made.hi)
    quotient = x.made(lo, hi, made.c, made.a, made.e, made.degree, made.of)
    quotient.factors = joined((x, 1.0), (y, -1.0))
    return quotient


def _added(first: tuple[float, ...], second: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(p + q for p, q in zip(first, second, strict=True)) if first else ()
