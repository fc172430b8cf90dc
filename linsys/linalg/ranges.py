"""Where the values of a formula may lie at all points, for :mod:`linsys.linalg.branching`.

A :class:`Range` holds all values that a number has at the points of a region, by float64 rounded
outward, and says of zero whether it is one of them: never, at points of a null set alone, or
perhaps at many. A null set here is the set of zeros of a quotient of polynomials that is not zero.

>>> plus(times(Range(0.0, 2.0), Range(1.0, 3.0)), Range(1.0, 1.0))
Range(low=1.0, high=7.0, zero=0)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

__all__ = [
    "ANY",
    "MAYBE",
    "NEVER",
    "NULL",
    "Range",
    "absolute",
    "constant",
    "exponential",
    "larger",
    "logarithm",
    "negative",
    "over",
    "plus",
    "power",
    "root",
    "times",
]

#: Whether zero is a value: at no point, on a null set, perhaps at many points.
NEVER, NULL, MAYBE = 0, 1, 2
#: What the library's functions may be wrong by, in relation to their value.
_ERROR = 2.0**-45


class Range(NamedTuple):
    """All values of a number: from low to high, and whether zero is one of them."""

    low: float
    high: float
    zero: int = MAYBE


ANY = Range(-math.inf, math.inf)


def _made(low: float, high: float, zero: int) -> Range:
    if math.isnan(low) or math.isnan(high):
        return Range(-math.inf, math.inf, zero)
    return Range(low, high, zero if low <= 0 <= high else NEVER)


def _sum(a: float, b: float, towards: float) -> float:
    total = a + b
    exact = a == 0 or b == 0 or (a.is_integer() and b.is_integer() and abs(total) < 2.0**52)
    return total if exact or math.isinf(total) else math.nextafter(total, towards)


def _product(a: float, b: float, towards: float) -> float:
    if a == 0 or b == 0:  # infinity is no value
        return 0.0
    both = a * b
    exact = a.is_integer() and b.is_integer() and abs(both) < 2.0**52
    # a product that underflows has a sign
    if math.isinf(both) and math.isfinite(a) and math.isfinite(b):
        return both if (both > 0) == (towards > 0) else math.copysign(1.7e308, both)
    return both if exact or math.isinf(both) else math.nextafter(both, towards)


def constant(value: Any) -> Range:
    """A rational number."""
    if value == 0:
        return Range(0.0, 0.0)
    sign = value > 0
    try:
        near = int(value.p) / int(value.q)
    except OverflowError:
        return Range(0.0, math.inf, NEVER) if sign else Range(-math.inf, 0.0, NEVER)
    if value == int(near) and abs(near) < 2.0**52:
        return Range(near, near, NEVER)
    low, high = math.nextafter(near, -math.inf), math.nextafter(near, math.inf)
    return Range(max(low, 0.0), high, NEVER) if sign else Range(low, min(high, 0.0), NEVER)


def negative(a: Range) -> Range:
    """-a."""
    return Range(-a.high, -a.low, a.zero)


def plus(a: Range, b: Range) -> Range:
    """a + b; of two with the same sign zero is a sum where both are zero alone."""
    one_sign = (a.low >= 0 and b.low >= 0) or (a.high <= 0 and b.high <= 0)
    zero = min(a.zero, b.zero) if one_sign else MAYBE
    return _made(_sum(a.low, b.low, -math.inf), _sum(a.high, b.high, math.inf), zero)


def times(a: Range, b: Range) -> Range:
    """a b."""
    ends = [(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    low = min(_product(x, y, -math.inf) for x, y in ends)
    high = max(_product(x, y, math.inf) for x, y in ends)
    if (a.low >= 0 and b.low >= 0) or (a.high <= 0 and b.high <= 0):
        low = max(low, 0.0)
    if (a.low >= 0 and b.high <= 0) or (a.high <= 0 and b.low >= 0):
        high = min(high, 0.0)
    return _made(low, high, max(a.zero, b.zero))


def over(a: Range, b: Range) -> Range:
    """a / b, wherever b is not zero."""
    if b.low < 0 < b.high or b.low == b.high == 0:
        return Range(-math.inf, math.inf, a.zero)
    if b.high <= 0:
        return negative(over(a, negative(b)))
    low = 0.0 if b.high == math.inf else math.nextafter(1 / b.high, 0.0)
    high = math.inf if b.low < 1e-300 else math.nextafter(1 / b.low, math.inf)
    return times(a, Range(low, high, NEVER))


def absolute(a: Range) -> Range:
    """|a|."""
    if a.low >= 0:
        return a
    if a.high <= 0:
        return negative(a)
    return Range(0.0, max(-a.low, a.high), a.zero)


def power(a: Range, n: int) -> Range:
    """a^n for a whole n that is not negative."""
    if n == 0:
        return Range(1.0, 1.0, NEVER)
    base = absolute(a) if n % 2 == 0 else a
    result = base
    for _ in range(n - 1):
        result = times(result, base)
    return result


def root(a: Range) -> Range:
    """The square root, where there is one."""
    low, high = max(a.low, 0.0), max(a.high, 0.0)
    return Range(math.sqrt(low) * (1 - _ERROR), math.sqrt(high) * (1 + _ERROR), a.zero)


def exponential(a: Range) -> Range:
    """e^a."""
    low = 0.0 if a.low < -700 else math.exp(min(a.low, 700)) * (1 - _ERROR)
    high = math.inf if a.high > 700 else max(math.exp(a.high) * (1 + _ERROR), 1e-300)
    return Range(low, high, NEVER)


def logarithm(a: Range) -> Range:
    """log a, where there is one."""

    def end(x: float, way: int) -> float:
        if x <= 0:
            return -math.inf
        value = math.log(x) if math.isfinite(x) else math.inf
        return value + way * (_ERROR * abs(value) + 2.0**-1000)

    return _made(end(a.low, -1), end(a.high, 1), MAYBE)


def larger(a: Range, b: Range) -> Range:
    """max{a, b}."""
    zero = min(a.zero, b.zero) if a.low >= 0 and b.low >= 0 else max(a.zero, b.zero)
    return _made(max(a.low, b.low), max(a.high, b.high), zero)
