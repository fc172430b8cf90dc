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

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from linsys.linalg import boxes_rounding as rounding
from linsys.linalg.boxes_forms import (
    Enclosure,
    Floats,
    Without,
    bounds_of,
    common_factors,
    free_degree,
    inverted,
    is_number,
    negated,
    partial,
    serial,
    with_constant,
)
from linsys.linalg.boxes_functions import absolute, affine, exponential, logarithm, root
from linsys.linalg.boxes_paths import Answer, Mask, State
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


def _of_all(method: Callable[..., Any]) -> Callable[..., Any]:
    """An operation whose result may have no value where a number that it takes may have none.

    That is so where terms or factors cancel, too, and of what is made of infinity.
    """

    @functools.wraps(method)
    def carried(*numbers: Any) -> Any:
        made = method(*numbers)
        for x in numbers:
            if isinstance(x, Form):
                made = _as_far_as(x, made)
                infinite = x.is_infinite
            else:
                infinite = isinstance(x, float | np.floating) and not math.isfinite(x)
            if infinite:
                made = _except(made, np.array([True]))
        return made

    return carried


def _as_far_as(x: Form, made: Any) -> Any:
    """A number that is made of x, and may have no value where x may have none."""
    if x.partial is None or not isinstance(made, Form):
        return made
    return partial(made, x.partial)


def _except(made: Any, where: Mask, of: int = 0) -> Any:
    """A number that may have no value in these boxes, which depends on these coordinates."""
    return partial(made, Without(where, of)) if where.any() and isinstance(made, Form) else made


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
        lo = self.lo
        if self.partial is not None:
            lo = np.where(self.partial.where, -np.inf, lo)
        return State.path.whole(lo, self.hi)

    __index__ = __trunc__ = __floor__ = __ceil__ = __int__

    def __round__(self, digits: int | None = None) -> Any:
        return int(self)

    def rint(self) -> int:
        """The whole number that it is; a box in which it is none is left undecided."""
        return int(self)

    # arithmetic

    @_of_all
    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Form):
            return with_constant(self, other, plus_constant)
        for x, y in ((self, other), (other, self)):
            if y.exact is not None:
                return plus_constant(x, y.exact)
        return total(*sorted((self, other), key=serial))

    __radd__ = __add__

    @_of_all
    def __neg__(self) -> Form:
        made: Form = negative(self)
        return made

    def __pos__(self) -> Form:
        return self

    @_of_all
    def __sub__(self, other: Any) -> Any:
        if other is self:
            return difference_of_itself(self)
        if not isinstance(other, Form):
            return with_constant(self, other, lambda x, k: plus_constant(x, negated(k)))
        return self + (-other)

    @_of_all
    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    @_of_all
    def __mul__(self, other: Any) -> Any:
        if other is self and self.exact is None:
            return square(self)
        if not isinstance(other, Form):
            return with_constant(self, other, times_constant)
        return multiplied(self, other)

    __rmul__ = __mul__

    @_of_all
    def __truediv__(self, other: Any) -> Any:
        if other is self:
            return _except(quotient_of_itself(self), _may_be_zero(self), self.of)
        if not isinstance(other, Form):
            if is_number(other) and other == 0:
                raise ZeroDivisionError("division by zero")
            return with_constant(self, other, lambda x, k: times_constant(x, inverted(k)))
        if other.is_zero:
            return constant(math.nan)  # infinite or NaN at every scale
        if other.exact is not None and other.exact[0]:
            return times_constant(self, inverted(other.exact))
        return _except(quotient(self, other), _may_be_zero(other), other.of)

    @_of_all
    def __rtruediv__(self, other: Any) -> Any:
        if not is_number(other):
            return NotImplemented
        return _except(inverse(self), _may_be_zero(self), self.of) * other

    @_of_all
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
        return _except(power, self.lo < 0, self.of)

    @_of_all
    def __rpow__(self, other: Any) -> Any:
        if not is_number(other):
            return NotImplemented
        if other == 1:
            return constant(1)
        if other == 0:
            raise TypeError("a power of zero with an exponent that varies")
        ends = rounding.log_ends(bounds_of(other)[:2])
        log = self * Fraction(float(ends[0][0] / 2 + ends[1][1] / 2)) + spread(self, ends)
        return _except(log.exp(), np.array([other < 0]))

    @_of_all
    def __abs__(self) -> Form:
        size: Form = absolute(self)
        return size

    # comparisons

    def __eq__(self, other: Any) -> Any:
        return compared(self, other, lambda lo, hi: ((lo == 0) & (hi == 0), (lo > 0) | (hi < 0)))

    def __ne__(self, other: Any) -> Any:
        equal = self == other
        return equal if equal is NotImplemented else ~equal

    def __lt__(self, other: Any) -> Any:
        return _ordered(self, other, lambda lo, hi: (hi < 0, lo >= 0))

    def __le__(self, other: Any) -> Any:
        return _ordered(self, other, lambda lo, hi: (hi <= 0, lo > 0))

    def __gt__(self, other: Any) -> Any:
        return _ordered(self, other, lambda lo, hi: (lo > 0, hi <= 0))

    def __ge__(self, other: Any) -> Any:
        return _ordered(self, other, lambda lo, hi: (lo >= 0, hi < 0))

    # the methods that NumPy's functions call on objects

    @_of_all
    def sqrt(self) -> Form:
        """The square root; of boxes in which the number may be negative nothing is known."""
        return _except(root(self), self.lo < 0, self.of)  # type: ignore[no-any-return]

    @_of_all
    def exp(self) -> Form:
        """e^x."""
        power: Form = exponential(self)
        return power

    @_of_all
    def log(self) -> Form:
        """The natural logarithm; of boxes in which the number may be negative nothing is known."""
        # that of 0 is infinite
        return _except(logarithm(self, False), self.lo <= 0, self.of)  # type: ignore[no-any-return]

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
    """The larger one of two numbers, forms or plain; none where one of them has no value."""
    made = _larger(x, y)
    for number in (x, y):
        made = _as_far_as(number, made) if isinstance(number, Form) else made
    return made


def _larger(x: Any, y: Any) -> Any:
    if not isinstance(x, Form):
        if not isinstance(y, Form):
            return y if y > x or y != y else x
        x, y = y, x
    if isinstance(y, float) and y != y:
        return constant(math.nan)
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
    return of_factors(made, x, common, _larger(divided(x, common), divided(other, common)))


def smaller(x: Any, y: Any) -> Any:
    """The smaller one of two numbers, forms or plain."""
    return -larger(-x, -y)


def without_common_factors(x: Form, y: Form) -> tuple[Form, Form]:
    """Two numbers divided by the factors that they have in common and that are not negative.

    Where such a factor is 0 both are 0 (or infinite, where they are divided by it).
    """
    common = common_factors(x, y, signed=False)
    return (divided(x, common), divided(y, common)) if common else (x, y)


def _may_be_zero(x: Form) -> Mask:
    """In which boxes nothing can be divided by a number."""
    return np.asarray((x.lo <= 0) & (x.hi >= 0))


def compared(x: Form, other: Any, decided: Callable[[Floats, Floats], Any]) -> Any:
    """How two numbers compare: never surely true where one may have no value, as NumPy says no."""
    if other is x:
        zero = np.zeros_like(x.lo)
        yes, no = decided(zero, zero)
        return _answer(yes, no, x)
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
    return _answer(yes, no, x, *([other] if isinstance(other, Form) else []))


def _ordered(x: Form, other: Any, decided: Callable[[Floats, Floats], Any]) -> Any:
    """How two numbers are ordered: open where one may have no value.

    NumPy's comparisons say no there, but its functions that sort take it for the largest.
    """
    answer = compared(x, other, decided)
    if isinstance(answer, Answer):
        for number in (x, other):
            if isinstance(number, Form) and number.partial is not None:
                answer.no = answer.no & ~number.partial.where
    return answer


def _answer(yes: Mask, no: Mask, *of: Form) -> Answer:
    """What is sure of numbers of which some may have no value, as NumPy says no then.

    Two that may be infinite alike, as logarithms of 0 are, may be equal whatever the difference is.
    """
    partly = [number.partial for number in of if number.partial is not None]
    for without in partly:
        yes = yes & ~without.where
    if partly and len(of) > 1:
        x, y = of
        alike = ((x.hi == np.inf) & (y.hi == np.inf)) | ((x.lo == -np.inf) & (y.lo == -np.inf))
        no = no & ~alike
    bits = [number.of for number in of] + [without.of for without in partly]
    return Answer(yes, no, functools.reduce(int.__or__, bits))
