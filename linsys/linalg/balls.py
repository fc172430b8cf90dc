"""Rigorous arithmetic for :mod:`linsys.linalg`: exact rationals, and balls that hold a real number.

Within :func:`ball_arithmetic` the functions of :mod:`linsys.linalg` work on arrays of :class:`Ball`
as on any other numbers, so that a formula which is written with them and with NumPy's arithmetic
runs unchanged, and what comes out encloses its true value. A number stays an exact rational as long
as the formula is rational; roots, exponentials and logarithms make it a ball of FLINT's Arb, a
midpoint and a radius in which the true number lies.

Nothing is decided on a doubt. A comparison that balls leave open raises :class:`Undecided`; within
:func:`every_case` it is taken both ways, so that minima, maxima, orders and branches are
set-valued. No ball becomes a float.

Needs ``python-flint``, which ``pip install 'ratecheck[certify]'`` brings.

>>> import numpy as np
>>> from linsys.linalg import norm, precise
>>> with ball_arithmetic(64):
...     length = norm(precise([[1.0, 1.0], [0.3, 0.4]]))
...     print(length, length[0] > length[1])
[[1.41421356237309505 +/- 1.35e-18] 1/2] True
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, TypeVar

import flint
import numpy as np
import numpy._core._methods

from linsys import linalg
from linsys.linalg import _precise
from linsys.linalg._precise import Numbers, is_precise

__all__ = [
    "Ball",
    "OfObjects",
    "Undecided",
    "ball_arithmetic",
    "every_case",
    "exact_value",
    "exchanged",
    "in_place_of_numpys",
    "no_cases",
    "rounded_constants",
]

_Result = TypeVar("_Result")

#: A float64 of at most so many digits in a formula is the decimal that it is written as.
_DIGITS = 12
#: Any other one, such as math.sqrt(2), is a rounded constant: what it stands for lies within this
#: share of it, some thousand roundings of float64.
_ROUNDED = Fraction(1, 10**12)
#: Powers with larger exponents are taken of balls.
_LARGEST_EXPONENT = 4096
#: Ends of enclosures beyond 2 to this power are not written down as fractions.
_LARGEST_SCALE = 10**6
_ZERO, _ONE = flint.fmpq(0), flint.fmpq(1)
#: Of a reduction that starts with the first entry.
_NO_VALUE = np._NoValue


class Undecided(ArithmeticError):
    """Balls are too wide, at this precision or at any, to say what a formula asks of them."""


class _State:
    """What the arithmetic of the process is set to."""

    #: Rationals whose numerator and denominator have more bits become balls.
    exact_bits = 2048
    #: Rounded constants that entered a formula.
    rounded: set[float] = set()  # noqa: RUF012 - one process, one arithmetic
    #: How the open comparisons come out in the case under evaluation; None: they raise.
    answers: list[bool] | None = None
    #: So many of these answers were given.
    given = 0


class Ball:
    """A real number: an exact rational, or a ball in which it lies; or NaN, where there is none.

    Every object stands for one number: x - x is 0, and x x is not negative, however wide the ball.

    Args:
        value: ``flint.fmpq``, ``flint.arb`` or None (NaN); an int or a Fraction counts as what it
            is, a float as its shortest decimal.
    """

    __slots__ = ("nonnegative", "value")

    def __init__(self, value: Any) -> None:
        self.value = exact_value(value)
        #: Whether it is known that the number is not negative, whatever its ball contains: a sum
        #: of squares.
        self.nonnegative = bool(self.value is not None and self.value >= 0)

    @property
    def exact(self) -> bool:
        """Whether the number is a known rational."""
        return isinstance(self.value, flint.fmpq)

    @property
    def real(self) -> Ball:
        """The number itself."""
        return self

    @property
    def imag(self) -> int:
        """Zero."""
        return 0

    def conjugate(self) -> Ball:
        """The number itself."""
        return self

    def ends(self) -> tuple[Fraction, Fraction]:
        """Two rationals between which the number lies.

        Raises:
            Undecided: the ball is not bounded, or the number is NaN.
        """
        if self.exact:
            both = Fraction(int(self.value.p), int(self.value.q))
            return both, both
        if self.value is None or not self.value.is_finite():
            raise Undecided(f"no finite enclosure; found {self}")
        low, high = (_fraction(end) for end in (self.value.lower(), self.value.upper()))
        return (max(low, Fraction(0)) if self.nonnegative else low), high

    def __repr__(self) -> str:
        if self.value is None:
            return "nan"
        return str(self.value)

    def __hash__(self) -> int:
        raise TypeError("a ball is no key: two of them may hold the same number")

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __float__(self) -> float:
        reason = _precise._mp.refusal
        if reason is None and self.exact:
            return float(self.ends()[0])
        raise TypeError(reason or f"{self!r} is a ball and no float")

    def __int__(self) -> int:
        return self._whole(math.trunc)

    def __index__(self) -> int:
        if self.exact and self.value.q == 1:
            return int(self.value.p)
        raise TypeError(f"{self!r} is no whole number")

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return self._whole(round)
        scaled: Ball = self * 10**digits
        return Ball(Fraction(scaled._whole(round), 10**digits))

    def __trunc__(self) -> int:
        return self._whole(math.trunc)

    def __floor__(self) -> int:
        return self._whole(math.floor)

    def __ceil__(self) -> int:
        return self._whole(math.ceil)

    def rint(self) -> Ball:
        """The nearest whole number, of a half the even one."""
        return Ball(self._whole(round))

    def _whole(self, function: Callable[[Fraction], int]) -> int:
        low, high = map(function, self.ends())
        if low != high:
            raise Undecided(f"{function.__name__} of {self} may be {low} or {high}")
        return low

    # arithmetic

    def __add__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: a + b, keeps=True)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if other is self and self._is_finite():
            return _made(_ZERO)
        return _binary(self, other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        if other is self:
            return self._square()
        return _binary(self, other, _product, keeps=True)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return _binary(self, other, _quotient, keeps=True)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: _quotient(b, a), keeps=True)

    def __floordiv__(self, other: Any) -> Any:
        return _whole_quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _whole_quotient(other, self)

    def __mod__(self, other: Any) -> Any:
        return self - other * _whole_quotient(self, other)

    def __rmod__(self, other: Any) -> Any:
        return other - self * _whole_quotient(other, self)

    def __pow__(self, other: Any) -> Any:
        exponent = _operand(other)
        if isinstance(exponent, flint.fmpq) and self.value is not None:
            if exponent == flint.fmpq(1, 2):
                return self.sqrt()
            if exponent.q == 1 and exponent.p % 2 == 0:
                return _made(_power(self.value, exponent), True)
        return _binary(self, other, _power, keeps=True)

    def __rpow__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: _power(b, a), keeps=True)

    def __neg__(self) -> Ball:
        return _made(None if self.value is None else -self.value)

    def __pos__(self) -> Ball:
        return self

    def __abs__(self) -> Ball:
        if self.value is None or self.exact:
            return _made(None if self.value is None else abs(self.value))
        return _made(abs(self.value), True)

    def _is_finite(self) -> bool:
        return self.exact or (self.value is not None and self.value.is_finite())

    def _square(self) -> Any:
        if self.value is None or self.exact:
            return _binary(self, self, _product)
        return _made(self.value * self.value, True)

    # comparisons

    def __eq__(self, other: Any) -> Any:
        return _compare(self, other, "==")

    def __ne__(self, other: Any) -> Any:
        return _compare(self, other, "!=")

    def __lt__(self, other: Any) -> Any:
        return _compare(self, other, "<")

    def __le__(self, other: Any) -> Any:
        return _compare(self, other, "<=")

    def __gt__(self, other: Any) -> Any:
        return _compare(self, other, ">")

    def __ge__(self, other: Any) -> Any:
        return _compare(self, other, ">=")

    # the methods that NumPy's functions call on objects

    def sqrt(self) -> Ball:
        """The square root; of an exact square exact."""
        if self.exact and self.value >= 0:
            p, q = int(self.value.p), int(self.value.q)
            roots = math.isqrt(p), math.isqrt(q)
            if roots[0] ** 2 == p and roots[1] ** 2 == q:
                return _made(flint.fmpq(*roots))
        if self.nonnegative and not self.exact:
            return _made(self.value.nonnegative_part().sqrt(), True)
        return self._function("sqrt", None, None)

    def exp(self) -> Ball:
        """e^x."""
        return self._function("exp", _ZERO, _ONE)

    def expm1(self) -> Ball:
        """e^x - 1."""
        return self._function("expm1", _ZERO, _ZERO)

    def log(self) -> Ball:
        """The natural logarithm; of 0 minus infinity."""
        if self.exact and self.value == 0:
            return _made(flint.arb("-inf"))
        return self._function("log", _ONE, _ZERO)

    def log1p(self) -> Ball:
        """log(1 + x)."""
        return self._function("log1p", _ZERO, _ZERO)

    def sin(self) -> Ball:
        """The sine."""
        return self._function("sin", _ZERO, _ZERO)

    def cos(self) -> Ball:
        """The cosine."""
        return self._function("cos", _ZERO, _ONE)

    def tan(self) -> Ball:
        """The tangent."""
        return self._function("tan", _ZERO, _ZERO)

    def tanh(self) -> Ball:
        """The hyperbolic tangent."""
        return self._function("tanh", _ZERO, _ZERO)

    def arctan(self) -> Ball:
        """The angle whose tangent is x."""
        return self._function("atan", _ZERO, _ZERO)

    def arccos(self) -> Ball:
        """The angle in [0, pi] whose cosine is x."""
        return self._function("acos", _ONE, _ZERO)

    def _function(self, name: str, at: Any, exact: Any) -> Ball:
        """Arb's function of this name, but the rational ``exact`` where the number is ``at``."""
        if self.value is None:
            return self
        if at is not None and self.exact and self.value == at:
            return _made(exact)
        if name in ("sin", "cos", "tan") and not self._is_finite():  # of infinity there is none
            return _made(flint.arb("nan"))
        return _made(getattr(_arb(self.value), name)())


def _made(value: Any, nonnegative: bool = False) -> Ball:
    """The number with this value, which may be a large rational."""
    if isinstance(value, flint.fmpq) and value.height_bits() > _State.exact_bits:
        value = flint.arb(value)
    made = Ball.__new__(Ball)
    made.value = value
    made.nonnegative = value is not None and (nonnegative or bool(value >= 0))
    return made


def exact_value(value: Any) -> Any:
    """What a number is, exactly: fmpq, arb or None."""
    if isinstance(value, Ball):
        return value.value
    if value is None or isinstance(value, flint.fmpq | flint.arb):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return flint.arb("inf" if value > 0 else "-inf")
        value = Fraction(repr(float(value)))
    if isinstance(value, Fraction):
        return flint.fmpq(value.numerator, value.denominator)
    return flint.fmpq(int(value))


def _operand(value: Any) -> Any:
    """The same of a number in a formula, where a long float is a rounded constant."""
    if isinstance(value, Ball):
        return value.value
    if isinstance(value, float):
        return _constant(float(value))
    if isinstance(value, int | np.integer | np.bool_ | Fraction):
        return exact_value(value)
    return NotImplemented


def _number(value: Any) -> Ball:
    """A number in a formula as a ball."""
    return value if isinstance(value, Ball) else _made(_operand(value))


def _constant(value: float) -> Any:
    if not math.isfinite(value) or float(f"{value:.{_DIGITS}g}") == value:
        return exact_value(value)
    _State.rounded.add(value)
    middle = Fraction(value)
    return flint.arb(exact_value(middle), _arb(exact_value(abs(middle) * _ROUNDED)).upper())


def _arb(value: Any) -> Any:
    return flint.arb(value) if isinstance(value, flint.fmpq) else value


def _fraction(end: Any) -> Fraction:
    """A ball of radius zero as what it is."""
    mantissa, exponent = (int(part) for part in end.man_exp())
    if abs(exponent) > _LARGEST_SCALE:
        raise Undecided(f"{end} is too large or too small to be written down")
    return Fraction(mantissa) * Fraction(2) ** exponent


def _binary(
    number: Ball, other: Any, function: Callable[[Any, Any], Any], *, keeps: bool = False
) -> Any:
    """A function of two numbers; ``keeps``: of two that are not negative it is not, either."""
    operand = _operand(other)
    if operand is NotImplemented:
        return NotImplemented
    if number.value is None or operand is None:
        return _made(None)
    keeps = keeps and number.nonnegative and _is_nonnegative(other)
    return _made(function(number.value, operand), keeps)


def _is_nonnegative(number: Any) -> bool:
    return number.nonnegative if isinstance(number, Ball) else bool(number >= 0)


def _product(a: Any, b: Any) -> Any:
    """A product; zero times any finite number is exactly zero."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, flint.fmpq) and one == 0:
            finite = isinstance(other, flint.fmpq) or other.is_finite()
            return _ZERO if finite else flint.arb("nan")
    return a * b


def _quotient(a: Any, b: Any) -> Any:
    if isinstance(b, flint.fmpq) and b == 0:
        raise ZeroDivisionError("division by zero")
    if isinstance(a, flint.fmpq) and a == 0 and _arb(b) != 0:
        return _ZERO
    return a / b


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, flint.fmpq):
        if exponent.q == 1 and abs(exponent) <= _LARGEST_EXPONENT:
            whole = int(exponent.p)
            if isinstance(base, flint.fmpq):
                if base == 0 and whole < 0:
                    raise ZeroDivisionError("zero to a negative power")
                if base.height_bits() * abs(whole) <= 2 * _State.exact_bits:
                    return base**whole
                base = flint.arb(base)
            power = _whole_power(base, abs(whole))
            return power if whole >= 0 else 1 / power
        if isinstance(base, flint.fmpq) and base in (0, 1) and exponent > 0:
            return base
    return _arb(base) ** _arb(exponent)


def _whole_power(base: Any, exponent: int) -> Any:
    """A power by squaring: Arb's own goes through the logarithm, which a ball about 0 has not."""
    if exponent == 0:
        return _ONE
    half = _whole_power(base, exponent // 2)
    return half * half * base if exponent % 2 else half * half


def _whole_quotient(a: Any, b: Any) -> Any:
    return Ball(math.floor(a / b))


def _compare(number: Ball, other: Any, relation: str) -> Any:
    """Whether a relation holds; where balls leave it open, the answer of the case, or an error."""
    operand = _operand(other)
    if operand is NotImplemented:
        return NotImplemented
    a, b = number.value, operand
    if a is None or b is None:
        return relation == "!="
    holds, opposite = _RELATIONS[relation]
    if isinstance(a, flint.fmpq) and isinstance(b, flint.fmpq):
        return bool(holds(a, b))
    a, b = _arb(a), _arb(b)
    if a.is_nan() or b.is_nan():
        raise Undecided(f"{number} {relation} {other}: a side may have any value, or none")
    if other is number:
        return relation in ("==", "<=", ">=")
    for one, zero, sure in ((number, b, ">="), (other, a, "<=")):
        if isinstance(one, Ball) and one.nonnegative and zero == 0 and relation in _STRICT[sure]:
            return relation == sure
    if holds(a, b):
        return True
    if opposite(a, b):
        return False
    return _answer(f"{number} {relation} {other}")


#: A relation that is sure of a number beside zero, and what is then false.
_STRICT = {">=": (">=", "<"), "<=": ("<=", ">")}
#: Each relation, and the one that holds where it does not: true of balls if true of all in them.
_RELATIONS: dict[str, tuple[Callable[[Any, Any], bool], Callable[[Any, Any], bool]]] = {
    "==": (lambda a, b: a == b, lambda a, b: a != b),
    "!=": (lambda a, b: a != b, lambda a, b: a == b),
    "<": (lambda a, b: a < b, lambda a, b: a >= b),
    "<=": (lambda a, b: a <= b, lambda a, b: a > b),
    ">": (lambda a, b: a > b, lambda a, b: a <= b),
    ">=": (lambda a, b: a >= b, lambda a, b: a < b),
}


def _answer(question: str) -> bool:
    if _State.answers is None:
        raise Undecided(f"{question}: the balls leave it open")
    if _State.given == len(_State.answers):
        _State.answers.append(True)
    _State.given += 1
    return _State.answers[_State.given - 1]


def every_case(function: Callable[[], _Result], most: int = 64) -> list[_Result]:
    """What a function returns, for every way in which its open comparisons may come out.

    The truth is one of the ways, so that what holds in all of them holds.

    >>> with ball_arithmetic(64):
    ...     x, y = (Ball(2).sqrt() for _ in range(2))  # equal, but no precision shows it
    ...     len(every_case(lambda: max(x, y)))
    2

    Args:
        function: of no arguments, and the same at every call but for these comparisons.
        most: number of ways.

    Raises:
        Undecided: there are more ways, or the function raises it.
    """
    results: list[_Result] = []
    answers: list[bool] = []
    before = _State.answers, _State.given
    try:
        while True:
            _State.answers, _State.given = answers, 0
            results.append(function())
            while answers and not answers[-1]:
                answers.pop()
            if not answers:
                return results
            if len(results) == most:
                raise Undecided(f"comparisons that balls leave open have over {most} outcomes")
            answers[-1] = False
    finally:
        _State.answers, _State.given = before


def larger(a: Any, b: Any) -> Ball:
    """The larger one of two numbers, as a set where the balls do not say which it is."""
    return _extreme(_number(a), _number(b), ">=", lambda x, y: x.max(y), any)


def smaller(a: Any, b: Any) -> Ball:
    """The smaller one of two numbers, as a set where the balls do not say which it is."""
    return _extreme(_number(a), _number(b), "<=", lambda x, y: x.min(y), all)


def _extreme(
    a: Ball,
    b: Ball,
    relation: str,
    of_balls: Callable[[Any, Any], Any],
    nonnegative: Callable[[Sequence[bool]], bool],
) -> Ball:
    if a.value is None or b.value is None:  # as NumPy does, which takes what did not compare
        return b
    with no_cases():
        try:
            return a if _compare(a, b, relation) else b
        except Undecided:
            both = of_balls(_arb(a.value), _arb(b.value))
            return _made(both, nonnegative((a.nonnegative, b.nonnegative)))


def logistic(x: Numbers) -> Numbers:
    """1 / (1 + e^-x) of each number."""
    return np.asarray(1 / (1 + np.exp(-x)))


#: linsys.linalg.logistic as it is outside of the arithmetic, for floats.
plain_logistic = types.FunctionType(linalg.logistic.__code__, vars(linalg))


def _calls_logistic(x: Numbers) -> Numbers:
    """The body of linsys.linalg.logistic within the arithmetic; it sees that module's names."""
    import sys

    balls: Any = sys.modules[f"{__name__}.balls"]  # the name is that of linsys.linalg here
    function = balls.logistic if is_precise(x) else balls.plain_logistic
    return np.asarray(function(x))


class OfObjects:
    """NumPy's maximum or minimum, for objects with a function of two of them in its place.

    Args:
        plain: the one of NumPy.
        function: of two objects.
    """

    def __init__(self, plain: np.ufunc, function: Callable[[Any, Any], Any]) -> None:
        self._plain, self._objects = plain, np.frompyfunc(function, 2, 1)

    def __call__(self, a: Any, b: Any, *args: Any, **options: Any) -> Any:
        """The larger or smaller one, entry by entry, as of a ufunc."""
        objects = any(np.asarray(side).dtype == object for side in (a, b))
        return (self._objects if objects else self._plain)(a, b, *args, **options)

    def reduce(
        self,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = _NO_VALUE,
        where: Any = True,
    ) -> Any:
        """The largest or smallest entry along axes, as of a ufunc."""
        array = np.asarray(array)
        if array.dtype != object or out is not None or where is not True:
            options = {} if initial is _NO_VALUE else {"initial": initial}
            plain: Any = self._plain
            return plain.reduce(array, axis, dtype, out, keepdims, where=where, **options)
        axes = range(array.ndim) if axis is None else np.atleast_1d(axis).tolist()
        for one in sorted((a % array.ndim for a in axes), reverse=True):
            array = np.asarray(self._objects.reduce(array, axis=one, keepdims=keepdims))
        return (array if initial is _NO_VALUE else np.asarray(self(array, initial)))[()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


def in_place_of_numpys(maximum: OfObjects, minimum: OfObjects) -> list[tuple[Any, str, Any]]:
    """Where NumPy has its functions and those of max() and min(), and what comes there."""
    methods = numpy._core._methods
    return [
        (np, "maximum", maximum),
        (np, "minimum", minimum),
        (methods, "umr_maximum", maximum.reduce),
        (methods, "umr_minimum", minimum.reduce),
    ]


_MAXIMUM, _MINIMUM = OfObjects(np.maximum, larger), OfObjects(np.minimum, smaller)


@contextmanager
def no_cases() -> Iterator[None]:
    """Within the block open comparisons raise, also within :func:`every_case`."""
    before, _State.answers = _State.answers, None
    try:
        yield
    finally:
        _State.answers = before


@contextmanager
def exchanged(functions: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Within the block, attributes of places such as modules have other values."""
    before = [(place, name, getattr(place, name)) for place, name, _ in functions]
    try:
        for place, name, ours in functions:
            setattr(place, name, ours)
        yield
    finally:
        for place, name, theirs in before:
            setattr(place, name, theirs)


@contextmanager
def ball_arithmetic(bits: int, exact_bits: int = 2048) -> Iterator[None]:
    """Within the block, ``precise`` makes balls, and :mod:`linsys.linalg` works on them.

    It is a state of the whole process: no other thread may compute meanwhile.

    Args:
        bits: of the midpoints of balls.
        exact_bits: rationals with more bits become balls.
    """
    functions = [
        (_precise, "_number", Ball),
        (_precise, "operator_norms", operator_norms),
        (_precise, "eigenvalue_range", eigenvalue_range),
        (_precise, "inverses", inverses),
        (_precise, "solutions", solutions),
        (_precise, "stretches", stretches),
        # imported by its name into other modules: its body is exchanged
        (linalg.logistic, "__code__", _calls_logistic.__code__),
        *in_place_of_numpys(_MAXIMUM, _MINIMUM),
    ]
    settings = flint.ctx.prec, _State.exact_bits, _State.rounded
    try:
        flint.ctx.prec, _State.exact_bits, _State.rounded = bits, exact_bits, set()
        with exchanged(functions):
            yield
    finally:
        flint.ctx.prec, _State.exact_bits, _State.rounded = settings


def rounded_constants() -> list[float]:
    """The float64 numbers of more than twelve digits that entered a formula within the block.

    Each was taken for a ball of relative radius 1e-12 around it.
    """
    return sorted(_State.rounded)


# The algebra of stacks (K, d, d): see the functions of the same names in linsys.linalg._precise.


def operator_norms(matrices: Numbers) -> Numbers:
    """||M|| of each matrix, (K,)."""
    if matrices.shape[-1] == 1:
        return np.asarray(np.abs(matrices[:, 0, 0]))
    largest = eigenvalue_range(np.swapaxes(matrices, 1, 2) @ matrices)[:, 1]
    return _objects([_root(value) for value in largest], (len(matrices),))


def eigenvalue_range(matrices: Numbers) -> Numbers:
    """Smallest and largest eigenvalue of sym(M), (K, 2)."""
    symmetric = (matrices + np.swapaxes(matrices, 1, 2)) / 2
    ends = [end for matrix in symmetric for end in _extreme_eigenvalues(_balls(matrix))]
    return _objects(ends, (len(matrices), 2))


def inverses(matrices: Numbers) -> Numbers:
    """M^{-1} of each matrix, NaN where there is none, (K, d, d)."""
    d = matrices.shape[-1]
    identity = [[Ball(int(i == j)) for j in range(d)] for i in range(d)]
    solved = [_solved(_balls(matrix), identity) for matrix in matrices]
    entries = [entry for rows in solved for row in rows for entry in row]
    return _objects(entries, matrices.shape)


def solutions(matrices: Numbers, vectors: Numbers) -> Numbers:
    """M^{-1} v for matrices (..., d, d) and vectors (..., d), which broadcast."""
    lead = np.broadcast_shapes(matrices.shape[:-2], vectors.shape[:-1])
    d = vectors.shape[-1]
    left = np.broadcast_to(matrices, (*lead, d, d)).reshape(-1, d, d)
    right = np.broadcast_to(vectors, (*lead, d)).reshape(-1, d, 1)
    solved = [_solved(_balls(M), _balls(v)) for M, v in zip(left, right, strict=True)]
    return _objects([row[0] for rows in solved for row in rows], (*lead, d))


def stretches(matrices: Numbers) -> Numbers:
    """sqrt(M'M) of each matrix, (K, d, d)."""
    d = matrices.shape[-1]
    if d == 1:
        return np.asarray(np.abs(matrices))
    gram = np.swapaxes(matrices, 1, 2) @ matrices
    return np.stack([(_root_of_two if d == 2 else _root_of_many)(one) for one in gram])


def _objects(entries: Sequence[Ball], shape: tuple[int, ...]) -> Numbers:
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array.reshape(shape)


def _balls(matrix: Numbers) -> list[list[Ball]]:
    return [[_number(entry) for entry in row] for row in matrix]


def _root(number: Ball) -> Ball:
    """The square root of a number that is known not to be negative."""
    return _made(number.value, True).sqrt()


def _values(rows: Sequence[Sequence[Ball]]) -> tuple[Any, bool]:
    """Rows as a matrix of FLINT, and whether it is exact."""
    values = [[entry.value for entry in row] for row in rows]
    if all(isinstance(value, flint.fmpq) for row in values for value in row):
        return flint.fmpq_mat(values), True
    if any(value is None for row in values for value in row):
        raise Undecided("a matrix has an entry that is no number")
    return flint.arb_mat([[_arb(value) for value in row] for row in values]), False


def _solved(left: Sequence[Sequence[Ball]], right: Sequence[Sequence[Ball]]) -> list[list[Ball]]:
    """The X with L X = R; NaN where L is an exact matrix without an inverse."""
    if any(entry.value is None for row in (*left, *right) for entry in row):
        return [[_made(None)] * len(right[0]) for _ in right]
    L, exact = _values(left)
    if exact and L.det() == 0:
        return [[_made(None)] * len(right[0]) for _ in right]
    R, both = _values(right)
    if exact != both:
        L, R = (flint.arb_mat(M) if isinstance(M, flint.fmpq_mat) else M for M in (L, R))
    try:
        X = L.solve(R)
    except ZeroDivisionError:
        raise Undecided("the balls do not show that a matrix has an inverse") from None
    return [[_made(entry) for entry in row] for row in X.tolist()]


def _extreme_eigenvalues(rows: list[list[Ball]]) -> tuple[Ball, Ball]:
    """Smallest and largest eigenvalue of a symmetric matrix."""
    d = len(rows)
    if d == 1:
        return rows[0][0], rows[0][0]
    if d == 2:
        centre = (rows[0][0] + rows[1][1]) / 2
        half, off = (rows[0][0] - rows[1][1]) / 2, rows[0][1]
        radius = _root(half * half + off * off)
        return centre - radius, centre + radius
    matrix, exact = _values(rows)
    if exact:
        return _extreme_roots(matrix.charpoly().factor()[1])
    # Weyl: eigenvalues differ from those of the midpoints by at most the norm of the difference
    middle = flint.fmpq_mat(
        [[exact_value(_fraction(entry.mid())) for entry in row] for row in matrix.table()]
    )
    radii = [entry.rad() for row in matrix.table() for entry in row]
    apart = sum((r * r for r in radii), flint.arb(0)).sqrt()
    low, high = (_arb(end.value) for end in _extreme_roots([(middle.charpoly(), 1)]))
    spread = flint.arb(0, apart.upper())
    return _made(low + spread), _made(high + spread)


def _extreme_roots(factors: Sequence[tuple[Any, int]]) -> tuple[Ball, Ball]:
    """Smallest and largest root of a product of polynomials whose roots are all real."""
    roots: list[Any] = []
    for factor, _ in factors:
        if factor.degree() == 1:
            roots.append(-factor[0] / factor[1])
        else:
            roots += [root.real for root, _ in factor.complex_roots()]
    return functools.reduce(smaller, map(_made, roots)), functools.reduce(larger, map(_made, roots))


def _root_of_two(gram: Numbers) -> Numbers:
    """sqrt(C) = (C + r I) / sqrt(tr C + 2 r) with r = sqrt(det C), of positive semidefinite C."""
    (a, b), (_, c) = _balls(gram)
    r = _root(a * c - b * b)
    scale = _root(a + c + 2 * r)
    if scale == 0:
        return gram
    return np.asarray((gram + r * np.eye(2, dtype=int)) / scale)


def _root_of_many(gram: Numbers) -> Numbers:
    """sqrt(C) from the eigenvectors Q of the balls' midpoints.

    S = Q diag(s) Q' with s >= 0 is positive semidefinite, however wrong Q and s are, so that
    ||sqrt(C) - S|| <= sqrt(||C - S S||): the root is an operator monotone function.
    """
    mp = _precise._mp
    with mp.workprec(flint.ctx.prec + 20):
        middles = [[_fraction(_arb(x.value).mid()) for x in row] for row in _balls(gram)]
        matrix = mp.matrix([[mp.mpf(x.numerator) / x.denominator for x in r] for r in middles])
        values, axes = mp.eigsy((matrix + matrix.T) / 2)
        Q = _from_mpmath(np.array(axes.tolist(), dtype=object))
        s = _from_mpmath(np.array([mp.sqrt(max(x, mp.zero)) for x in values], dtype=object))
    S = (Q * s) @ Q.T
    apart = gram - S @ S
    error = np.sqrt(np.sqrt((apart * apart).sum()))
    return np.asarray(S + _made(flint.arb(0, _arb(error.value).upper())))


def _from_mpmath(numbers: Numbers) -> Numbers:
    """Numbers of mpmath as what they are, m 2^e."""
    exact = []
    for number in numbers.ravel():
        sign, mantissa, exponent, _ = number._mpf_
        value = Fraction(int(mantissa)) * Fraction(2) ** exponent
        exact.append(_made(_arb(exact_value(-value if sign else value))))
    return _objects(exact, numbers.shape)
