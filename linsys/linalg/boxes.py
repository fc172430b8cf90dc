"""Numbers over many boxes at once: intervals and first-order forms, rounded outward in float64.

A :class:`Form` stands for a number that depends on k coordinates, in B boxes of coordinates at
once. In each box it has an interval, and beside it a first-order form

    c + a_1 t_1 + ... + a_k t_k + e t_0,        -1 <= t_i <= 1,

where t_1, ..., t_k are the coordinates, scaled so that the box is [-1, 1]^k, and e bounds all that
is not linear and all rounding (Stolfi and de Figueiredo, "Self-validated numerical methods and
applications", 1997). At every point of a box the number lies in both. Where a formula uses a
coordinate twice, the form knows it: x - x is 0, and the errors are of second order in the box.

Within :func:`linsys.linalg.boxes_arithmetic.box_arithmetic` the functions of :mod:`linsys.linalg`
work on arrays of forms, so that one evaluation of a formula bounds it on B boxes at the price of
NumPy. A comparison that is open in some boxes is taken both ways there.

Each form also knows how it scales with the coordinates, so that a formula that is homogeneous can
be examined at one scale.

>>> x, y = coordinates(np.array([[0.0, 1.0], [2.0, 2.0]]), np.array([[1.0, 1.0], [3.0, 4.0]]))
>>> z = (x + y) * (x + y) - x
>>> print(z.lo.round(6), z.hi.round(6))
[3. 8.] [15. 24.]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from linsys.linalg import boxes_rounding as rounding
from linsys.linalg.boxes_forms import (
    Enclosure,
    Floats,
    bounds_of,
    common_factors,
    free_degree,
    inverted,
    is_number,
    negated,
    serial,
    with_constant,
)
from linsys.linalg.boxes_functions import absolute, affine, exponential, logarithm, root
from linsys.linalg.boxes_paths import Answer, State
from linsys.linalg.boxes_products import (
    difference_of_itself,
    divided,
    inverse,
    multiplied,
    negative,
    plus_constant,
    quotient,
    quotient_of_itself,
    spread,
    square,
    times_constant,
    whole_power,
)
from linsys.linalg.boxes_sums import of_factors, total

__all__ = ["Form", "constant", "coordinates", "larger", "smaller", "without_common_factors"]

#: Largest exponent of a power by repeated products.
_LARGEST_EXPONENT = 64


class Form(Enclosure):
    """A number with the operators of Python and the functions of NumPy."""

    __slots__ = ()

    @property
    def real(self) -> Form:
        """The number itself."""
        return self

    @property
    def imag(self) -> int:
        """Zero."""
        return 0

    def conjugate(self) -> Form:
        """The number itself."""
        return self

    def __hash__(self) -> int:
        raise TypeError("an enclosure is no key: two of them may hold the same number")

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __float__(self) -> float:
        raise TypeError("an enclosure over boxes becomes a float")

    def __int__(self) -> int:
        return State.path.whole(self.lo, self.hi)

    __index__ = __trunc__ = __floor__ = __ceil__ = __int__

    def __round__(self, digits: int | None = None) -> Any:
        return int(self)

    def rint(self) -> int:
        """The whole number that it is; a box in which it is none is left undecided."""
        return int(self)

    # arithmetic

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Form):
            return with_constant(self, other, plus_constant)
        for x, y in ((self, other), (other, self)):
            if y.exact is not None:
                return plus_constant(x, y.exact)
        return total(*sorted((self, other), key=serial))

    __radd__ = __add__

    def __neg__(self) -> Form:
        made: Form = negative(self)
        return made

    def __pos__(self) -> Form:
        return self

    def __sub__(self, other: Any) -> Any:
        if other is self:
            return difference_of_itself(self)
        if not isinstance(other, Form):
            return with_constant(self, other, lambda x, k: plus_constant(x, negated(k)))
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __mul__(self, other: Any) -> Any:
        if other is self and self.exact is None:
            return square(self)
        if not isinstance(other, Form):
            return with_constant(self, other, times_constant)
        return multiplied(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if other is self:
            return quotient_of_itself(self)
        if not isinstance(other, Form):
            if is_number(other) and other == 0:
                raise ZeroDivisionError("division by zero")
            return with_constant(self, other, lambda x, k: times_constant(x, inverted(k)))
        if other.exact is not None and other.exact[0]:
            return times_constant(self, inverted(other.exact))
        return quotient(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        if not is_number(other):
            return NotImplemented
        return inverse(self) * other

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, Form):
            return (self.log() * other).exp()
        if not is_number(other):
            return NotImplemented
        exponent = Fraction(other) if not isinstance(other, float) else Fraction(repr(other))
        if exponent < 0:
            return 1 / self ** (-other)
        if exponent.denominator == 2 and exponent <= _LARGEST_EXPONENT:
            half = self.sqrt()
            return half if exponent == Fraction(1, 2) else half * self ** int(exponent - 1 / 2)
        if exponent.denominator == 1 and exponent <= _LARGEST_EXPONENT:
            return whole_power(self, int(exponent))
        # of 0 by the interval alone: its logarithm is infinite
        power = (logarithm(self, True) * other).exp()
        power.degree = tuple(float(exponent) * d for d in self.degree)
        return power

    def __rpow__(self, other: Any) -> Any:
        if not is_number(other):
            return NotImplemented
        if other == 1:
            return constant(1)
        if other == 0:
            raise TypeError("a power of zero with an exponent that varies")
        ends = rounding.log_ends(bounds_of(other)[:2])
        return (self * Fraction(float(ends[0][0] / 2 + ends[1][1] / 2)) + spread(self, ends)).exp()

    def __abs__(self) -> Form:
        size: Form = absolute(self)
        return size

    # comparisons

    def __eq__(self, other: Any) -> Any:
        return compared(self, other, lambda lo, hi: ((lo == 0) & (hi == 0), (lo > 0) | (hi < 0)))

    def __ne__(self, other: Any) -> Any:
        return compared(self, other, lambda lo, hi: ((lo > 0) | (hi < 0), (lo == 0) & (hi == 0)))

    def __lt__(self, other: Any) -> Any:
        return compared(self, other, lambda lo, hi: (hi < 0, lo >= 0))

    def __le__(self, other: Any) -> Any:
        return compared(self, other, lambda lo, hi: (hi <= 0, lo > 0))

    def __gt__(self, other: Any) -> Any:
        return compared(self, other, lambda lo, hi: (lo > 0, hi <= 0))

    def __ge__(self, other: Any) -> Any:
        return compared(self, other, lambda lo, hi: (lo >= 0, hi < 0))

    # the methods that NumPy's functions call on objects

    def sqrt(self) -> Form:
        """The square root; of boxes in which the number may be negative nothing is known."""
        made: Form = root(self)
        return made

    def exp(self) -> Form:
        """e^x."""
        power: Form = exponential(self)
        return power

    def log(self) -> Form:
        """The natural logarithm; of boxes in which the number may be negative nothing is known."""
        power: Form = logarithm(self, False)
        return power

    def expm1(self) -> Form:
        """e^x - 1."""
        return self.exp() - 1  # type: ignore[no-any-return]

    def log1p(self) -> Form:
        """log(1 + x)."""
        return (self + 1).log()  # type: ignore[no-any-return]

    def tanh(self) -> Form:
        """The hyperbolic tangent, 1 - 2 / (e^2x + 1)."""
        return 1 - 2 / ((self * 2).exp() + 1)  # type: ignore[no-any-return]


def constant(value: Any) -> Form:
    """A plain number as a form, of boxes in any number: a float counts as its shortest decimal.

    >>> constant(0.5) * 3
    Form([1.5], [1.5])
    """
    return Form.of_number(value)


def coordinates(low: Floats, high: Floats) -> list[Form]:
    """The coordinates of B boxes as forms.

    Args:
        low: lower ends, (k, B).
        high: upper ends, (k, B).
    """
    k, count = low.shape
    State.coordinates = k
    forms = []
    for i in range(k):
        middle = low[i] + (high[i] - low[i]) / 2
        a = np.zeros((k, count))
        a[i] = rounding.up(np.maximum(high[i] - middle, middle - low[i]))
        degree = tuple(float(i == j) for j in range(k))
        forms.append(Form(low[i], high[i], middle, a, np.zeros(count), degree, 1 << i))
    return forms


def larger(x: Any, y: Any) -> Any:
    """The larger one of two numbers, forms or plain."""
    if not isinstance(x, Form):
        if not isinstance(y, Form):
            return y if y > x else x
        x, y = y, x
    if x is y:
        return x
    difference = x - y
    if not isinstance(difference, Form):
        return x if difference >= 0 else y
    # y + max(x - y, 0), and max(d, 0) = (d + |d|) / 2 has its slope
    lo, hi = difference.lo, difference.hi
    positive, negative = lo >= 0, hi <= 0
    if positive.all():
        return x
    if negative.all():
        return y if isinstance(y, Form) else constant(y)
    slope = np.where(positive, 1.0, np.where(negative, 0.0, hi / (hi - lo)))
    up = rounding.up
    most = np.maximum(up(hi - slope * hi), up(-slope * lo))
    most = up(most + rounding.UNIT * np.maximum(np.abs(lo), np.abs(hi)))
    high = np.where(positive | negative, 0.0, most)
    ends = np.maximum(lo, 0.0), np.maximum(hi, 0.0)
    part = affine(difference, slope, np.zeros_like(high), high, ends, difference.degree)
    result: Form = part + y
    other = y if isinstance(y, Form) else None
    least, largest = bounds_of(y)[:2] if other is None else (other.lo, other.hi)
    lo, hi = np.maximum(x.lo, least), np.maximum(x.hi, largest)
    made = Form(lo, hi, result.c, result.a, result.e, result.degree, result.of)
    common = {} if other is None else common_factors(x, other, signed=False)
    if other is None or not common:
        return made
    return of_factors(made, x, common, larger(divided(x, common), divided(other, common)))


def smaller(x: Any, y: Any) -> Any:
    """The smaller one of two numbers, forms or plain."""
    return -larger(-x, -y)


def without_common_factors(x: Form, y: Form) -> tuple[Form, Form]:
    """Two numbers divided by the factors that they have in common and that are not negative.

    Where such a factor is 0 both are 0 (or infinite, where they are divided by it).
    """
    common = common_factors(x, y, signed=False)
    return (divided(x, common), divided(y, common)) if common else (x, y)


def compared(x: Form, other: Any, decided: Callable[[Floats, Floats], Any]) -> Any:
    if other is x:
        zero = np.zeros_like(x.lo)
        unknown = ~(np.isfinite(x.lo) & np.isfinite(x.hi))
        yes, no = decided(zero, zero)
        return Answer(yes & ~unknown, no & ~unknown)
    if not isinstance(other, Form) and not is_number(other):
        return NotImplemented
    if isinstance(other, Form):
        difference = x - other
        # of the ends themselves, which are not rounded
        lo = np.where(x.lo >= other.hi, np.maximum(difference.lo, 0.0), difference.lo)
        hi = np.where(x.hi <= other.lo, np.minimum(difference.hi, 0.0), difference.hi)
    else:
        low, high, *_ = bounds_of(other)
        if low == high == 0:
            lo, hi = x.lo, x.hi
        else:
            if math.isfinite(low):  # infinity scales like anything
                free_degree(x)
            lo = np.where(x.lo == high, 0.0, x.lo - high)
            hi = np.where(x.hi == low, 0.0, x.hi - low)
    with np.errstate(invalid="ignore"):
        yes, no = decided(lo, hi)
    return Answer(yes, no, x.of | (other.of if isinstance(other, Form) else 0))
