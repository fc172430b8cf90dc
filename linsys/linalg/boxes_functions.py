"""Roots, exponentials, logarithms and absolute values of numbers over boxes; comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from linsys.linalg import boxes_rounding as rounding
from linsys.linalg.boxes_forms import (
    Ends,
    F,
    Floats,
    free_degree,
    once,
    roundings,
)

__all__ = [
    "absolute",
    "affine",
    "curved",
    "exponential",
    "inside",
    "logarithm",
    "root",
]


def affine(
    x: F, slope: Floats, low: Floats, high: Floats, ends: Ends, degree: tuple[float, ...]
) -> F:
    """The function that lies in slope x + [low, high] and in the interval ``ends``."""
    middle = low + (high - low) / 2
    reach = rounding.up(np.maximum(high - middle, middle - low))
    c, a = slope * x.c + middle, slope * x.a
    lost = roundings(slope * x.c, a) + rounding.UNIT * np.abs(c) + rounding.TINY
    e = (np.abs(slope) * x.e + reach + lost) * rounding.GROW
    return x.made(*ends, c, a, e, degree, x.of)


def curved(
    x: F,
    at_lo: Ends,
    at_hi: Ends,
    slope: Floats,
    tangent: Floats,
    value: Ends,
    derivative: Ends,
    sign: int,
    degree: tuple[float, ...],
) -> F:
    """A convex (``sign`` 1) or concave (-1) monotone function of x.

    f - slope x is largest, of a convex f, at an end; and it is above the tangent at any point.

    Args:
        x: the argument.
        at_lo: bounds of f at the lower ends of x.
        at_hi: the same at the upper ends.
        slope: about that of the secant; any number will do.
        tangent: points of the intervals.
        value: bounds of f there.
        derivative: bounds of f' there.
        sign: 1 or -1.
        degree: of the result.
    """
    down, up = rounding.down, rounding.up

    def beyond(ends: Ends, at: Floats) -> Ends:
        product = slope * at
        return down(ends[0] - up(product)), up(ends[1] - down(product))

    first, last, there = beyond(at_lo, x.lo), beyond(at_hi, x.hi), beyond(value, tangent)
    turn = np.maximum(np.abs(derivative[0] - slope), np.abs(derivative[1] - slope))
    reach = np.maximum(up(x.hi - tangent), up(tangent - x.lo))
    slack = up(up(turn * (1 + 4 * rounding.UNIT)) * reach)
    if sign > 0:
        low, high = down(there[0] - slack), np.maximum(first[1], last[1])
    else:
        low, high = np.minimum(first[0], last[0]), up(there[1] + slack)
    lo, hi = np.fmin(at_lo[0], at_hi[0]), np.fmax(at_lo[1], at_hi[1])
    unknown = np.isnan(at_lo[0]) | np.isnan(at_hi[0])
    lo, hi = np.where(unknown, -np.inf, lo), np.where(unknown, np.inf, hi)
    return affine(x, slope, low, high, (lo, hi), degree)


def _secant(x: F, at_lo: Floats, at_hi: Floats, derivative: Callable[[Any], Any]) -> Floats:
    """The slope between the ends, or the derivative in the middle of short intervals."""
    width = x.hi - x.lo
    middle = x.lo + width / 2
    short = width <= 1e-7 * np.abs(middle)
    return np.asarray(np.where(short, derivative(middle), (at_hi - at_lo) / width))


def _secant_of_abs(lo: Floats, hi: Floats) -> Floats:
    return np.asarray((hi + lo) / (hi - lo))


def inside(points: Floats, x: F) -> Floats:
    """Points moved into the interval of a number, box by box."""
    return np.minimum(np.maximum(points, x.lo), x.hi)


def _root_alone(x: F) -> F:
    """The square root, without its factors."""
    at_lo, at_hi = rounding.sqrt_ends(x.lo), rounding.sqrt_ends(x.hi)
    middle = (np.sqrt(x.lo) + np.sqrt(x.hi)) / 2
    tangent = inside(middle * middle, x)
    root = rounding.sqrt_ends(tangent)
    derivative = rounding.down(0.5 / root[1]), rounding.up(0.5 / root[0])
    return curved(
        x, at_lo, at_hi, 0.5 / middle, tangent, root, derivative, -1,
        tuple(d / 2 for d in x.degree),
    )  # fmt: skip


@once
def exponential(x: F) -> F:
    """e^x."""
    at_lo, at_hi = rounding.exp_ends(x.lo), rounding.exp_ends(x.hi)
    slope = _secant(x, at_lo[0], at_hi[0], np.exp)
    tangent = inside(np.log(slope), x)
    value = rounding.exp_ends(tangent)
    made = curved(x, at_lo, at_hi, slope, tangent, value, value, 1, free_degree(x))
    made.origin = "exponential", x
    return made


@once
def logarithm(x: F, free: bool) -> F:
    """The natural logarithm; ``free``: the degrees are the caller's concern."""
    at_lo, at_hi = rounding.log_ends(x.lo), rounding.log_ends(x.hi)
    slope = _secant(x, at_lo[0], at_hi[0], lambda x: 1 / x)
    tangent = inside(1 / slope, x)
    value = rounding.log_ends(tangent)
    derivative = rounding.down(1 / tangent), rounding.up(1 / tangent)
    degree = (0.0,) * len(x.degree) if free else free_degree(x)
    made = curved(x, at_lo, at_hi, slope, tangent, value, derivative, -1, degree)
    made.origin = "logarithm", x
    return made


def _size_alone(x: F) -> F:
    """|x| of numbers that may have both signs."""
    negative, positive = x.hi <= 0, x.lo >= 0
    slope = np.where(positive, 1.0, np.where(negative, -1.0, _secant_of_abs(x.lo, x.hi)))
    # |x| - slope x is least at 0, where it is 0, and largest at an end
    up = rounding.up
    most = np.maximum(up(x.hi - slope * x.hi), up(-x.lo - slope * x.lo))
    most = up(most + rounding.UNIT * np.maximum(np.abs(x.lo), np.abs(x.hi)))
    high = np.where(positive | negative, 0.0, most)
    lo = np.where(positive, x.lo, np.where(negative, -x.hi, 0.0))
    hi = np.maximum(np.abs(x.lo), np.abs(x.hi))
    return affine(x, slope, np.zeros_like(high), high, (lo, hi), x.degree)


@once
def root(x: F) -> F:
    """The square root; that of a product has the roots of its factors."""
    if x.exact is not None and x.lo[0] >= 0:
        p, q = Fraction(float(x.lo[0])).as_integer_ratio()
        if math.isqrt(p) ** 2 == p and math.isqrt(q) ** 2 == q:
            return x.constant(Fraction(math.isqrt(p), math.isqrt(q)))
    made = _root_alone(x)
    made.origin = "root", x
    halves = []
    for factor, exponent in x.factors:
        if exponent % 2 == 0:  # the root of x^2 is |x|
            halves.append((absolute(factor), exponent / 2))
        elif bool((factor.lo >= 0).all()):
            halves.append((factor, exponent / 2))
        else:
            return made
    made.factors = tuple(halves)
    return made


@once
def absolute(x: F) -> F:
    """|x|."""
    if bool((x.lo >= 0).all()):
        return x
    made = _size_alone(x)
    made.origin = "absolute", x
    if x.factors:
        made.factors = tuple((absolute(base), exponent) for base, exponent in x.factors)
    return made
