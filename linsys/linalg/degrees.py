"""Exact rationals that know the degree of the formula which made them, for :mod:`linsys.linalg`.

Within :func:`rational_arithmetic` a formula runs on :class:`Rational` numbers: each has its exact
value at one point, and bounds of the degrees of the two polynomials in the point's coordinates
whose quotient it is. A formula whose value is zero at a random point then is zero everywhere, but
for a chance that the degree bounds (Schwartz, 1980; Zippel, 1979). What is no rational function,
such as a root, is unknown from there on, and raises :class:`NotRational` where a branch depends on
it. Comparisons are decided at the point, and remembered.

>>> from linsys.linalg import precise
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

import flint
import numpy as np

from linsys.linalg import _precise
from linsys.linalg._precise import Numbers
from linsys.linalg.balls import exact_value
from linsys.linalg.numpys_extremes import OfObjects, arithmetic

__all__ = ["NotRational", "Rational", "comparisons", "degree_of_singular", "rational_arithmetic"]

#: A float64 of at most so many digits in a formula is the decimal that it is written as.
_DIGITS = 12


class NotRational(ArithmeticError):
    """A formula is no quotient of polynomials."""


#: How the comparisons of numbers that depend on the point came out.
_outcomes: list[bool] = []
#: Bounds of the degrees of the determinants that were zero.
_singular: list[int] = []


class Rational:
    """The value of a quotient of polynomials at a point.

    Args:
        value: an int, a Fraction, ``flint.fmpq``, a float as its shortest decimal; or a float that
            is not finite, which stays one.
        top: a bound of the degree of the numerator.
        bottom: a bound of the degree of the denominator.
    """

    __slots__ = ("bottom", "top", "value", "what")

    def __init__(self, value: Any, top: int = 0, bottom: int = 0) -> None:
        #: What the number is, where it is no quotient of polynomials: nothing is known of it then.
        self.what = ""
        if isinstance(value, Rational):
            self.what = value.what
            value, top, bottom = value.value, value.top, value.bottom
        if isinstance(value, float) and not math.isfinite(value):
            top = bottom = 0
        else:
            value = exact_value(value)
        self.value: Any = value
        self.top, self.bottom = top, bottom

    def __repr__(self) -> str:
        return f"Rational({self.value}, {self.top}, {self.bottom})"

    @property
    def constant(self) -> bool:
        """Whether the number does not depend on the point."""
        return self.top == self.bottom == 0

    @property
    def finite(self) -> bool:
        """Whether the number is neither NaN nor infinite."""
        return not isinstance(self.value, float)

    @classmethod
    def irrational(cls, what: str) -> Rational:
        """A number that is no quotient of polynomials, nor is what is computed with it.

        It may take part in a formula as long as no side and no branch depends on it.
        """
        made = cls(math.nan)
        made.what = what
        return made

    @classmethod
    def _of_float(cls, number: Rational) -> Rational:
        """The same number in the arithmetic of floats, where one of two is not finite."""
        made = cls.__new__(cls)
        made.value, made.top, made.bottom, made.what = _nearest_float(number), 0, 0, ""
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
        return hash((int(self.value.p), int(self.value.q)))

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __float__(self) -> float:
        if self.constant and not self.what and _precise._mp.refusal is None:
            return _nearest_float(self)
        raise NotRational(self.what or _precise._mp.refusal or "a float")

    def __int__(self) -> int:
        if self.constant and self.finite and self.value.q == 1:
            return int(self.value.p)
        raise NotRational(self.what or "a whole part")

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
        return _binary(self, other, lambda a, b: _sum(a, -b))

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
        if self.what:
            return self
        return Rational(-self.value, self.top, self.bottom)

    def __pos__(self) -> Rational:
        return self

    def __abs__(self) -> Rational:
        return self if self.what or self >= 0 else -self

    # comparisons

    def __eq__(self, other: Any) -> Any:
        return _compare(self, other, operator.eq)

    def __ne__(self, other: Any) -> Any:
        return _compare(self, other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return _compare(self, other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return _compare(self, other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return _compare(self, other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return _compare(self, other, operator.ge)

    def sqrt(self) -> Rational:
        """The root of a constant that is a square."""
        if self.what:
            return self
        if not self.finite:
            return Rational(math.sqrt(self.value) if self.value >= 0 else math.nan)
        p, q = int(self.value.p), int(self.value.q)
        if self.constant and p >= 0 and math.isqrt(p) ** 2 == p and math.isqrt(q) ** 2 == q:
            return Rational(Fraction(math.isqrt(p), math.isqrt(q)))
        return Rational.irrational("a square root")

    def exp(self) -> Rational:
        """1 of the constant 0."""
        return self._special("an exponential", 0, 1)

    def log(self) -> Rational:
        """0 of the constant 1."""
        return self._special("a logarithm", 1, 0)

    def _special(self, what: str, at: int, value: int) -> Rational:
        if self.constant and self.finite and self.value == at:
            return Rational(value)
        return self if self.what else Rational.irrational(what)

    def _other(self) -> Rational:
        return self if self.what else Rational.irrational("a transcendental function")

    sin = cos = tan = tanh = arctan = arccos = log1p = expm1 = _other


def _nearest_float(number: Rational) -> float:
    return int(number.value.p) / int(number.value.q) if number.finite else float(number.value)


def _operand(value: Any) -> Any:
    """A number in a formula, whose float64 constants must be decimals of at most twelve digits."""
    if isinstance(value, Rational):
        return value
    if isinstance(value, float):
        if math.isfinite(value) and float(f"{value:.{_DIGITS}g}") != value:
            raise NotRational(f"the constant {value!r}")
        return Rational(float(value))
    if isinstance(value, int | np.integer | np.bool_):
        return Rational(int(value))
    return Rational(value) if isinstance(value, Fraction) else NotImplemented


def _binary(number: Rational, other: Any, function: Callable[[Rational, Rational], Any]) -> Any:
    operand = _operand(other)
    if operand is NotImplemented:
        return NotImplemented
    for one in (number, operand):
        if one.what:
            return one
    if number.finite and operand.finite:
        return function(number, operand)
    return function(*(Rational._of_float(x) for x in (number, operand)))


def _sum(a: Rational, b: Rational) -> Rational:
    top = max(a.top + b.bottom, b.top + a.bottom)
    return Rational(a.value + b.value, top, a.bottom + b.bottom)


def _product(a: Rational, b: Rational) -> Rational:
    return Rational(a.value * b.value, a.top + b.top, a.bottom + b.bottom)


def _quotient(a: Rational, b: Rational) -> Rational:
    return Rational(a.value / b.value, a.top + b.bottom, a.bottom + b.top)


def _power(base: Rational, exponent: Rational) -> Rational:
    n = int(exponent)
    if n < 0:
        return _quotient(Rational(1), _power(base, -exponent))
    return Rational(base.value**n, n * base.top, n * base.bottom)


def _compare(number: Rational, other: Any, relation: Callable[[Any, Any], bool]) -> Any:
    operand = _operand(other)
    if operand is NotImplemented:
        return NotImplemented
    for one in (number, operand):
        if one.what:
            raise NotRational(f"{one.what} that decides a branch")
    a, b = number, operand
    if not (a.finite and b.finite):
        a, b = Rational._of_float(a), Rational._of_float(b)
    outcome = bool(relation(a.value, b.value))
    if not (number.constant and operand.constant):
        _outcomes.append(outcome)
    return outcome


def _extreme(relation: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Rational]:
    """The larger or smaller one of two numbers; none that is known where one of them is not."""

    def chosen(a: Any, b: Any) -> Rational:
        one, other = Rational(_operand(a)), Rational(_operand(b))
        for number in (one, other):
            if number.what:
                return number
        return one if relation(one, other) else other

    return chosen


_MAXIMUM = OfObjects(np.maximum, _extreme(operator.ge))
_MINIMUM = OfObjects(np.minimum, _extreme(operator.le))


def inverses(matrices: Numbers) -> Numbers:
    """M^{-1} of each matrix, NaN where it is singular, (K, d, d)."""
    d = matrices.shape[-1]
    inverted = np.empty(matrices.shape, dtype=object)
    for k, matrix in enumerate(matrices):
        entries = [[_operand(x) for x in row] for row in matrix]
        if not all(x.finite for row in entries for x in row):
            inverted[k] = next(x for row in entries for x in row if not x.finite)
            continue
        # M = P / q with polynomials P and q, and M^-1 = q adj(P) / det(P)
        common = sum(x.bottom for row in entries for x in row)
        most = max(x.top + common - x.bottom for row in entries for x in row)
        try:
            solved = flint.fmpq_mat([[x.value for x in row] for row in entries]).inv()
        except ZeroDivisionError:  # everywhere, but for the chance of its determinant
            _singular.append(d * most)
            inverted[k] = Rational(math.nan)
            continue
        degrees = common + (d - 1) * most, d * most
        inverted[k] = [[Rational(x, *degrees) for x in row] for row in solved.tolist()]
    return inverted


def solutions(matrices: Numbers, vectors: Numbers) -> Numbers:
    """M^{-1} v for matrices (..., d, d) and vectors (..., d), which broadcast."""
    inverted = inverses(matrices.reshape(-1, *matrices.shape[-2:])).reshape(matrices.shape)
    return np.asarray((inverted @ vectors[..., None])[..., 0])


def norms_of_one(matrices: Numbers) -> Numbers:
    """||M|| of matrices (K, 1, 1)."""
    if matrices.shape[-1] > 1:
        return np.full(len(matrices), Rational.irrational("an operator norm"))
    return np.asarray(np.abs(matrices[:, 0, 0]))


def range_of_one(matrices: Numbers) -> Numbers:
    """Smallest and largest eigenvalue of matrices (K, 1, 1)."""
    if matrices.shape[-1] > 1:
        return np.full((len(matrices), 2), Rational.irrational("an eigenvalue"))
    return np.concatenate([matrices[:, 0]] * 2, axis=1)


def stretches_of_one(matrices: Numbers) -> Numbers:
    """sqrt(M'M) of matrices (K, 1, 1)."""
    if matrices.shape[-1] > 1:
        return np.full(matrices.shape, Rational.irrational("a root of a matrix"))
    return np.asarray(np.abs(matrices))


@contextmanager
def rational_arithmetic() -> Iterator[None]:
    """Within the block, ``precise`` makes :class:`Rational` numbers.

    It is a state of the process, see :func:`linsys.linalg.numpys_extremes.arithmetic`.
    """
    functions: dict[str, Callable[..., Any]] = {
        "_number": Rational,
        "operator_norms": norms_of_one,
        "eigenvalue_range": range_of_one,
        "inverses": inverses,
        "solutions": solutions,
        "stretches": stretches_of_one,
    }
    _outcomes.clear()
    _singular.clear()
    with arithmetic(functions, _MAXIMUM, _MINIMUM):
        yield


def comparisons() -> Sequence[bool]:
    """How the comparisons within the block came out so far."""
    return tuple(_outcomes)


def degree_of_singular() -> int:
    """The largest degree bound of a determinant that was zero at the point; 0 without one."""
    return max(_singular, default=0)
