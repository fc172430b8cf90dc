"""Rounding outward in float64, and exponentials and logarithms with a proven allowance.

IEEE 754 rounds sums, products, quotients and square roots to a nearest double, so that the double
below and the one above enclose the true result. Ends of enclosures are 0, infinite, or between
1e-150 and 1e150 in size (see :func:`snapped`): then no product and no quotient of two of them
underflows, and one that is 0 is exactly 0.

>>> third = np.array([1.0]) / 3
>>> Fraction(float(down(third)[0])) < Fraction(1, 3) < Fraction(float(up(third)[0]))
True
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GROW", "TINY", "UNIT", "down", "exp_ends", "log_ends", "snapped", "sqrt_ends", "up"]

Floats = NDArray[np.float64]

#: Twice the largest relative error of one rounding.
UNIT = 2.0**-52
#: Makes up for the roundings of a sum of up to 60 numbers that are not negative, and of its terms.
GROW = 1 + 2.0**-46
#: More than what products of doubles can lose by underflow.
TINY = 1e-300
#: Smallest and largest size of an end of an enclosure that is neither 0 nor infinite.
_LEAST, _MOST = 1e-150, 1e150
#: ln 2 as a number of 41 bits, whose product with a whole number below 2^11 is exact, and the rest.
_LN2 = Fraction("0.693147180559945309417232121458176568")
_LN2_HIGH = math.floor(_LN2 * 2**41) / 2**41
_LN2_LOW = float(_LN2 - Fraction(_LN2_HIGH))
#: Degree of the polynomial for e^r with |r| < 0.36: the rest is below 2^-70.
_DEGREE = 16
#: Exponents beyond this are not computed.
_RANGE = 700.0
#: Relative allowance of e^x. The reduced argument has an error of at most 2^-52, and Horner's rule
#: one of 6 roundings; 2^-49 is more than twice both.
EXP_ALLOWANCE = 2.0**-49


def down(x: Any) -> Any:
    """The next double below each number; 0 and infinities as they are."""
    return np.where(x == 0, x, np.nextafter(x, -np.inf))


def up(x: Any) -> Any:
    """The next double above each number; 0 and infinities as they are."""
    return np.where(x == 0, x, np.nextafter(x, np.inf))


def snapped(lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
    """Ends moved outward so that their sizes are 0, infinite, or between 1e-150 and 1e150."""
    size = np.abs(lo)
    if ((size < _LEAST) | (size > _MOST)).any():
        lo = np.where(size < _LEAST, np.where(lo < 0, -_LEAST, 0.0), lo)
        lo = np.where(lo < -_MOST, -np.inf, np.minimum(lo, _MOST))
    size = np.abs(hi)
    if ((size < _LEAST) | (size > _MOST)).any():
        hi = np.where(size < _LEAST, np.where(hi > 0, _LEAST, 0.0), hi)
        hi = np.where(hi > _MOST, np.inf, np.maximum(hi, -_MOST))
    return lo, hi


def sqrt_ends(x: Floats) -> tuple[Floats, Floats]:
    """Enclosures of the square roots of numbers that are not negative; NaN of others."""
    root = np.sqrt(x)
    return down(root), up(root)


def exp_ends(x: Floats) -> tuple[Floats, Floats]:
    """Enclosures of e^x.

    >>> low, high = exp_ends(np.array([1.0]))
    >>> bool(low[0] < math.e < high[0]), float(high[0] - low[0]) < 2e-14
    (True, True)
    """
    inside = np.clip(x, -_RANGE, _RANGE)
    steps = np.rint(inside / float(_LN2))
    # the product with the first part is exact
    r = (inside - steps * _LN2_HIGH) - steps * _LN2_LOW
    value = np.ones_like(r)
    for k in range(_DEGREE, 0, -1):
        value = 1 + (r / k) * value
    value = np.ldexp(value, np.where(np.isnan(steps), 0, steps).astype(int))
    low, high = value * (1 - EXP_ALLOWANCE), value * (1 + EXP_ALLOWANCE)
    low = np.where(x < -_RANGE, 0.0, low)
    high = np.where(x > _RANGE, np.inf, high)
    return np.where(x == 0, 1.0, low), np.where(x == 0, 1.0, high)


def log_ends(x: Floats) -> tuple[Floats, Floats]:
    """Enclosures of ln x of positive numbers, -inf of 0; NaN of negative ones.

    With y near ln x, ln x = y + ln q for q = x e^-y, and 1 - 1/q <= ln q <= q - 1.
    """
    near = np.log(x)
    low, high = exp_ends(-near)
    low, high = down(x * low), up(x * high)
    least, most = down(near + down(1 - up(1 / low))), up(near + up(high - 1))
    exact, zero = x == 1, x == 0
    least = np.where(exact, 0.0, np.where(zero, -np.inf, least))
    most = np.where(exact, 0.0, np.where(zero, -np.inf, most))
    infinite = x == np.inf
    return np.where(infinite, 700.0, least), np.where(infinite, np.inf, most)
