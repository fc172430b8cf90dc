"""Exact numbers that know the degree of the formula which made them, for :mod:`linsys.linalg`.

Within :func:`linsys.linalg.degree_arithmetic.rational_arithmetic` a formula runs on
:class:`Rational` numbers: each has its exact value at one point, and bounds of the degrees of the
two polynomials in the point's coordinates whose quotient it is. A formula whose value is zero at a
random point then is zero everywhere, but for a chance that the degree bounds (Schwartz, 1980;
Zippel, 1979). A root, an exponential or a logarithm makes a number an element of
:mod:`linsys.linalg.formal`, which says what is proved then. Comparisons are decided at the point,
and remembered.

>>> from linsys.linalg.degree_arithmetic import rational_arithmetic
>>> with rational_arithmetic():
...     x, y = Rational(3, 1), Rational(5, 1)
...     (x + y) * (x - y) / x
Rational(-16/3, 2, 1)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from linsys.linalg import _precise, formal, formal_functions, ranges
from linsys.linalg._flint import flint
from linsys.linalg.balls import exact_value
from linsys.linalg.branching import Branching
from linsys.linalg.formal import Element, NotRational
from linsys.linalg.numpys_extremes import OfObjects
from linsys.linalg.object_numbers import is_written, numpys_answer
from linsys.linalg.ranges import ANY, MAYBE, NULL, Range
from linsys.linalg.rounded import reach

__all__ = [
    "MAXIMUM",
    "MINIMUM",
    "NotRational",
    "Rational",
    "as_rational",
    "compared",
    "comparisons",
    "decided_by",
    "divided_by",
    "taken_for_zero",
    "vanishes",
    "with_range",
    "without_rule",
]

#: Bits of enclosures whose midpoint is shown.
_BITS = 512
#: Bounds of the degrees of numbers that would have been taken to be zero everywhere where they were
#: zero at the point.
_zeros: list[int] = []
#: What decides comparisons; the point does where this is None.
_branching: Branching | None = None


class Rational:
    """The value of a formula at a point.

    Args:
        value: an int, a Fraction, ``flint.fmpq``, a float as its shortest decimal; or a float that
            is not finite, which stays one; or an element with roots, exponentials or logarithms.
        top: a bound of the degree of the numerator.
        bottom: a bound of the degree of the denominator.
        range: where its values lie at all points; None of what may be NaN at many of them. By
            default that is not known, but of a constant.
        tied: whether a maximum or a minimum in it is a new coordinate.
    """

    __slots__ = ("bottom", "range", "tied", "top", "value")
    top: int
    bottom: int
    range: Range | None
    tied: bool

    def __init__(
        self,
        value: Any,
        top: int = 0,
        bottom: int = 0,
        range: Range | None = ANY,
        tied: bool = False,
    ) -> None:
        if isinstance(value, Rational):
            top, bottom = value.top, value.bottom
            range, tied = value.range, value.tied
            value = value.value
        if isinstance(value, Element):
            top, bottom = value.top, value.bottom
            rational = value.rational
            value = value if rational is None else rational
        elif isinstance(value, float) and not math.isfinite(value):
            top = bottom = 0
        else:
            value = exact_value(value)
        self.value: Any = value
        self.top, self.bottom = top, bottom
        self.range, self.tied = range, tied
        plain = top == bottom == 0 and self.finite and not self.formal
        if _branching is not None and range is ANY and plain:
            self.range = ranges.constant(value)

    def __repr__(self) -> str:
        value = self.value
        return f"Rational({value.ball() if self.formal else value}, {self.top}, {self.bottom})"

    @property
    def constant(self) -> bool:
        """Whether the number does not depend on the point."""
        if self.top or self.bottom:
            return False
        return not self.formal or formal.is_constant(self.value)

    @property
    def finite(self) -> bool:
        """Whether the number is neither NaN nor infinite."""
        return not isinstance(self.value, float)

    @property
    def formal(self) -> bool:
        """Whether the number has roots, exponentials or logarithms."""
        return isinstance(self.value, Element)

    @property
    def element(self) -> Element:
        """The number as a sum of terms."""
        if self.formal:
            return self.value  # type: ignore[no-any-return]
        made = Element.of(self.value, self.top, self.bottom)
        if _branching is not None:
            _note(self)
        return made

    @property
    def real(self) -> Rational:
        """The number itself."""
        return self

    @property
    def imag(self) -> int:
        """Zero."""
        return 0

    def conjugate(self) -> Rational:
        """The number itself."""
        return self

    def __hash__(self) -> int:
        if self.formal:
            raise TypeError("a sum of roots or exponentials is no key")
        return hash((int(self.value.p), int(self.value.q)))

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __float__(self) -> float:
        if self.constant and not self.formal and _precise._mp.refusal is None:
            return self.nearest()
        raise NotRational(_precise._mp.refusal or "a float")

    def nearest(self) -> float:
        """A float near the number."""
        if self.formal:
            with flint.ctx.workprec(_BITS):
                return float(self.value.ball().mid())
        return int(self.value.p) / int(self.value.q) if self.finite else float(self.value)

    def __int__(self) -> int:
        if self.constant and self.finite and not self.formal and self.value.q == 1:
            return int(self.value.p)
        raise NotRational("a whole part")

    __index__ = __trunc__ = __floor__ = __ceil__ = __int__

    def __round__(self, digits: int | None = None) -> int:
        return int(self)

    def rint(self) -> Rational:
        """The nearest whole number, of a constant that is one."""
        return Rational(int(self))

    # arithmetic

    def __add__(self, other: Any) -> Any:
        return _binary(self, other, _sum)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if other is self and self.finite:
            return Rational(0)
        return _binary(self, other, _difference)

    def __rsub__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: _sum(b, -a))

    def __mul__(self, other: Any) -> Any:
        return _binary(self, other, _product)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return _binary(self, other, _quotient)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: _quotient(b, a))

    def __pow__(self, other: Any) -> Any:
        return _binary(self, other, _power)

    def __rpow__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: _power(b, a))

    def __neg__(self) -> Rational:
        made = Rational(-self.value, self.top, self.bottom)
        return with_range(made, ranges.negative, self)

    def __pos__(self) -> Rational:
        return self

    def __abs__(self) -> Rational:
        made = Rational(self if _compare(self, 0, operator.ge, limit=True) else -self)
        return with_range(made, ranges.absolute, self)

    # comparisons

    def __eq__(self, other: Any) -> Any:
        return numpys_answer(_compare(self, other, operator.eq))

    def __ne__(self, other: Any) -> Any:
        return numpys_answer(_compare(self, other, operator.ne))

    def __lt__(self, other: Any) -> Any:
        return numpys_answer(_compare(self, other, operator.lt))

    def __le__(self, other: Any) -> Any:
        return numpys_answer(_compare(self, other, operator.le))

    def __gt__(self, other: Any) -> Any:
        return numpys_answer(_compare(self, other, operator.gt))

    def __ge__(self, other: Any) -> Any:
        return numpys_answer(_compare(self, other, operator.ge))

    # the methods that NumPy's functions call on objects

    def sqrt(self) -> Rational:
        """The square root; NaN of a negative number."""
        if not self.finite:
            return Rational(math.sqrt(self.value) if self.value >= 0 else math.nan)
        sign = _defined(self)
        if sign <= 0:
            return Rational(0 if sign == 0 else math.nan)
        made = with_range(Rational(formal_functions.root(self.element)), ranges.root, self)
        if _branching is not None:
            _branching.positive(made)
        return made

    def exp(self) -> Rational:
        """e^x."""
        if not self.finite:
            return Rational(math.exp(self.value))
        made = Rational(formal_functions.exponential(self.element))
        made = with_range(made, ranges.exponential, self)
        if (
            _branching is not None
            and _branching.infinite
            and made.range is not None
            and not made.formal
        ):
            made.range = made.range._replace(zero=NULL)  # of minus infinity
        return made

    def log(self) -> Rational:
        """The natural logarithm; of 0 minus infinity, NaN of a negative number."""
        if not self.finite:
            return Rational(math.log(self.value) if self.value > 0 else math.nan)
        sign = _defined(self)
        if sign <= 0:
            return Rational(-math.inf if sign == 0 else math.nan)
        if _branching is not None:
            _branching.logarithm_of(self)
        made = Rational(formal_functions.logarithm(self.element, positive=True))
        return with_range(made, ranges.logarithm, self)

    def expm1(self) -> Any:
        """e^x - 1."""
        return self.exp() - 1

    def log1p(self) -> Rational:
        """log(1 + x)."""
        return Rational(self + 1).log()

    def tanh(self) -> Any:
        """The hyperbolic tangent."""
        return 1 - 2 / ((2 * self).exp() + 1)

    def tan(self) -> Any:
        """The tangent."""
        return self.sin() / self.cos()

    def _named(self, name: str) -> Rational:
        if not self.finite:
            return Rational(math.nan)
        return without_rule(name, [self], lambda ball: getattr(ball, name)())

    def sin(self) -> Rational:
        """The sine."""
        return self._named("sin")

    def cos(self) -> Rational:
        """The cosine."""
        return self._named("cos")

    def arctan(self) -> Rational:
        """The angle whose tangent is x."""
        return self._named("atan")

    def arccos(self) -> Rational:
        """The angle in [0, pi] whose cosine is x."""
        return self._named("acos")


def _defined(number: Rational) -> int:
    """The sign of what a root or a logarithm is taken of; that it is negative, is remembered."""
    if _branching is not None and not number.constant:
        if _branching.outcome(number, operator.gt, limit=True):
            return 1
        return 0 if _branching.outcome(number, operator.eq, limit=True) else -1
    sign = formal.sign(number.element)
    if sign < 0 and not number.constant:
        formal.recorded(False)
    return sign


def with_range(made: Rational, of: Callable[..., Range | None], *numbers: Rational) -> Rational:
    """A number with its range, from those that it is made of."""
    if _branching is None or not made.finite:
        return made
    made.tied = any(number.tied for number in numbers)
    each = [number.range for number in numbers]
    made.range = None if any(one is None for one in each) else of(*each)
    if made.range is not None and not (made.formal or made.tied) and made.value != 0:
        # a quotient of polynomials that is not zero
        made.range = made.range._replace(zero=min(made.range.zero, NULL))
    if made.constant and made.range is not None and not made.formal:
        made.range = ranges.constant(made.value)
    _note(made)
    return made


def _note(number: Rational) -> None:
    """Note the sign of a number, where its range tells it."""
    values = number.range
    if values is not None and (values.low >= 0) != (values.high <= 0):
        formal.noted(number.value, 1 if values.low >= 0 else -1, number.top, number.bottom)


def without_rule(name: str, numbers: Sequence[Rational], evaluate: Callable[..., Any]) -> Rational:
    """A function of which no rule is known."""
    made = Rational(formal.made(name, [one.element for one in numbers], evaluate))
    return with_range(made, lambda *each: None, *numbers)


def as_rational(value: Any) -> Any:
    """A number in a formula, whose float64 constants must be decimals of at most twelve digits."""
    if isinstance(value, Rational):
        return value
    if isinstance(value, float):
        if reach(value) > 0:
            raise NotRational(
                f"the constant {float(value)!r} was rounded: write x / 3 for 1 / 3 * x, and "
                "np.sqrt(2 + 0 * x) for math.sqrt(2)"
            )
        return Rational(float(value))
    if isinstance(value, int | np.integer | np.bool_):
        return Rational(int(value))
    return Rational(value) if isinstance(value, Fraction) else NotImplemented


def _binary(number: Rational, other: Any, function: Callable[[Rational, Rational], Any]) -> Any:
    operand = as_rational(other)
    if operand is NotImplemented:
        return NotImplemented
    if number.finite and operand.finite:
        return function(number, operand)
    result = function(*map(_of_float, (number, operand)))
    if not result.finite and math.isinf(result.value) and not _constant(number, operand):
        if _branching is not None and function not in (_sum, _difference):
            raise NotRational("an infinite number times one that depends on the point")
        formal.recorded(result.value > 0)
    return result


def _constant(*numbers: Rational) -> bool:
    """Whether no number depends on the point."""
    return all(number.constant for number in numbers)


def _of_float(number: Rational) -> Rational:
    """A number in the arithmetic of floats, where one of two is not finite."""
    made = Rational.__new__(Rational)
    made.value, made.top, made.bottom = number.nearest(), 0, 0
    made.range, made.tied = ANY, False
    return made


def _sum(a: Rational, b: Rational) -> Rational:
    if a.formal or b.formal:
        made = Rational(formal.simplified(a.element + b.element))
    else:
        made = Rational(a.value + b.value, _degree_between(a, b), a.bottom + b.bottom)
    return with_range(made, ranges.plus, a, b)


def _difference(a: Rational, b: Rational) -> Rational:
    if isinstance(a.value, float) or isinstance(b.value, float):  # not finite, one of them
        return Rational(a.value - b.value)
    return _sum(a, -b)


def _product(a: Rational, b: Rational) -> Rational:
    if a.formal or b.formal:
        made = Rational(a.element * b.element)
    else:
        made = Rational(a.value * b.value, a.top + b.top, a.bottom + b.bottom)
    if _branching is not None and _same(a, b):
        return with_range(made, lambda one: ranges.power(one, 2), a)
    return with_range(made, ranges.times, a, b)


def _same(a: Rational, b: Rational) -> bool:
    """Whether two numbers are equal everywhere, as they are at the point."""
    if a is b:
        return True
    if not (a.finite and b.finite) or a.formal != b.formal:
        return False
    if a.formal:  # all pairs of coefficients and of powers are counted there
        return bool(a.value.terms == b.value.terms)
    _zeros.append(_degree_between(a, b))
    return bool(a.value == b.value)


def _degree_between(a: Rational, b: Rational) -> int:
    """A bound of the degree of the numerator of a - b."""
    return max(a.top + b.bottom, b.top + a.bottom)


def vanishes(number: Element) -> bool:
    """Whether a number that something is to be divided by is zero."""
    return formal.sign(number) == 0 if _branching is None else bool(formal.is_zero(number))


def taken_for_zero(degree: int) -> None:
    """Note the degree of a number that is zero at the point, and is taken to be zero everywhere."""
    _zeros.append(degree)


def divided_by(number: Rational) -> None:
    """Note that something is divided by a number."""
    if _branching is not None and not number.constant:
        _branching.divided_by(number)


def _quotient(a: Rational, b: Rational) -> Rational:
    divided_by(b)
    if a.formal or b.formal:
        above, below = a.element, b.element
        if vanishes(below):
            raise ZeroDivisionError("division by zero")
        made = Rational(above * formal_functions.inverse(below) if above.terms else 0)
    else:
        made = Rational(a.value / b.value, a.top + b.bottom, a.bottom + b.top)
    made = with_range(made, ranges.over, a, b)
    if b.range is not None and b.range.zero == MAYBE and made.finite:
        made.range = None  # at many points there may be none
    return made


def _power(base: Rational, exponent: Rational) -> Any:
    if exponent.formal or not exponent.constant:
        return (base.log() * exponent).exp()
    if not exponent.finite or exponent.value.q > 2:
        return (base.log() * exponent).exp() if base.finite else Rational(math.nan)
    n = int(exponent.value.p)
    if exponent.value.q == 2:
        return base.sqrt() ** n
    if n < 0:
        return _quotient(Rational(1), _power(base, -exponent))
    if base.formal:
        made = Rational(formal_functions.power(base.element, n))
    else:
        made = Rational(base.value**n, n * base.top, n * base.bottom)
    return with_range(made, lambda one: ranges.power(one, n), base)


def _compare(
    number: Rational, other: Any, relation: Callable[[Any, Any], bool], limit: bool = False
) -> Any:
    """How two numbers compare; ``limit`` as of :meth:`Branching.outcome`."""
    operand = as_rational(other)
    if operand is NotImplemented:
        return NotImplemented
    a, b = number, operand
    if not (a.finite and b.finite):
        a, b = _of_float(a), _of_float(b)
        if (math.isnan(a.value) or math.isnan(b.value)) and not limit and not is_written():
            raise NotRational("a function that compares what has no value")  # NumPy sorts it last
        if _branching is not None and not _constant(number, operand):
            _branching.compared_with_infinity()
    elif _branching is not None and not _constant(a, b):
        return _branching.outcome(_difference(a, b), relation, limit)
    if a.formal or b.formal:
        outcome = relation(formal.sign(a.element - b.element), 0)
    else:
        _zeros.append(_degree_between(a, b))
        outcome = bool(relation(a.value, b.value))
    if not _constant(number, operand):
        formal.recorded(outcome)
    return outcome


def _extreme(relation: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Rational]:
    """The larger or smaller one of two numbers; NaN where one of them is."""

    def chosen(a: Any, b: Any) -> Rational:
        one, other = Rational(as_rational(a)), Rational(as_rational(b))
        for number in (one, other):
            if not number.finite and math.isnan(number.value):
                return number
        both = one.finite and other.finite and not _constant(one, other)
        if _branching is not None and _branching.free and both:
            sign = 1 if relation is operator.ge else -1
            made = _branching.extreme(one, other, _difference(one, other), Rational, sign)
            if made is not None:
                return Rational(made)
        return one if _compare(one, other, relation, limit=True) else other

    return chosen


MAXIMUM = OfObjects(np.maximum, _extreme(operator.ge))
MINIMUM = OfObjects(np.minimum, _extreme(operator.le))


@contextmanager
def decided_by(branching: Branching | None) -> Iterator[None]:
    """Within the block, comparisons are decided so; what was noted before is forgotten."""
    global _branching
    formal.start()
    _zeros.clear()
    _branching = branching
    formal.ring.everywhere = branching is not None
    try:
        yield
    finally:
        _branching = None


def comparisons() -> tuple[bool, ...]:
    """How the comparisons within the block came out so far."""
    return formal.outcomes()


def compared() -> int:
    """By what the chance of an error grows within the block: numbers that were compared.

    The degrees of those that were zero and taken to be zero everywhere, such as determinants, or
    might have been, such as differences of numbers that were compared; and what
    :func:`linsys.linalg.formal.compared` and a :class:`Branching` count.
    """
    decided = 0 if _branching is None else _branching.compared
    return sum(_zeros) + formal.compared() + decided
