"""Rigorous arithmetic for :mod:`linsys.linalg`: exact rationals, and balls that hold a real number.

Within :func:`linsys.linalg.ball_arithmetic.ball_arithmetic` the functions of :mod:`linsys.linalg`
work on arrays of :class:`Ball` as on any other numbers, so that a formula which is written with
them and with NumPy's arithmetic runs unchanged, and what comes out encloses its true value. A
number stays an exact rational as long as the formula is rational; roots, exponentials and
logarithms make it a ball of FLINT's Arb, a midpoint and a radius in which the true number lies.

Nothing is decided on a doubt. A comparison that balls leave open raises :class:`Undecided`; within
:func:`every_case` it is taken both ways, so that minima, maxima, orders and branches are
set-valued. No ball becomes a float.

Needs ``python-flint``, which ``pip install 'ratecheck[certify]'`` brings.

>>> import numpy as np
>>> from linsys.linalg import norm, precise
>>> from linsys.linalg.ball_arithmetic import ball_arithmetic
>>> with ball_arithmetic(64):
...     length = norm(precise([[1.0, 1.0], [0.3, 0.4]]))
...     print(length, length[0] > length[1])
[[1.41421356237309505 +/- 1.35e-18] 1/2] True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from linsys.linalg import _precise
from linsys.linalg._flint import flint
from linsys.linalg.object_numbers import ObjectNumber
from linsys.linalg.rounded import reach

__all__ = [
    "Ball",
    "State",
    "Undecided",
    "as_arb",
    "as_ball",
    "as_fraction",
    "every_case",
    "exact_value",
    "larger",
    "made",
    "no_cases",
    "open_answer",
    "smaller",
]

_Result = TypeVar("_Result")

#: Powers with larger exponents are taken of balls.
_LARGEST_EXPONENT = 4096
#: Ends of enclosures beyond 2 to this power are not written down as fractions.
_LARGEST_SCALE = 10**6
_ZERO, _ONE = flint.fmpq(0), flint.fmpq(1)


class Undecided(ArithmeticError):
    """Balls are too wide, at this precision or at any, to say what a formula asks of them."""


class State:
    """What the arithmetic of the process is set to."""

    #: Rationals whose numerator and denominator have more bits become balls.
    exact_bits = 2048
    #: Rounded constants that entered a formula.
    rounded: set[float] = set()  # noqa: RUF012 - one process, one arithmetic
    #: How the open comparisons come out in the case under evaluation; None: they raise.
    answers: list[bool] | None = None
    #: So many of these answers were given.
    given = 0


class Ball(ObjectNumber):
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
        low, high = (as_fraction(end) for end in (self.value.lower(), self.value.upper()))
        return (max(low, Fraction(0)) if self.nonnegative else low), high

    def __repr__(self) -> str:
        if self.value is None:
            return "nan"
        return str(self.value)

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

    def __trunc__(self) -> int:
        return self._whole(math.trunc)

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
            return made(_ZERO)
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
                return made(_power(self.value, exponent), True)
        return _binary(self, other, _power, keeps=True)

    def __rpow__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: _power(b, a), keeps=True)

    def __neg__(self) -> Ball:
        return made(None if self.value is None else -self.value)

    def __abs__(self) -> Ball:
        if self.value is None or self.exact:
            return made(None if self.value is None else abs(self.value))
        return made(abs(self.value), True)

    def _is_finite(self) -> bool:
        return self.exact or (self.value is not None and self.value.is_finite())

    def _square(self) -> Any:
        if self.value is None or self.exact:
            return _binary(self, self, _product)
        return made(self.value * self.value, True)

    def _compared(self, other: Any, relation: str) -> Any:
        return _compare(self, other, relation)

    # the methods that NumPy's functions call on objects

    def sqrt(self) -> Ball:
        """The square root; of an exact square exact."""
        if self.exact and self.value >= 0:
            p, q = int(self.value.p), int(self.value.q)
            roots = math.isqrt(p), math.isqrt(q)
            if roots[0] ** 2 == p and roots[1] ** 2 == q:
                return made(flint.fmpq(*roots))
        if self.nonnegative and not self.exact:
            return made(self.value.nonnegative_part().sqrt(), True)
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
            return made(flint.arb("-inf"))
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
            return made(exact)
        if name in ("sin", "cos", "tan") and not self._is_finite():  # of infinity there is none
            return made(flint.arb("nan"))
        return made(getattr(as_arb(self.value), name)())


def made(value: Any, nonnegative: bool = False) -> Ball:
    """The number with this value, which may be a large rational."""
    if isinstance(value, flint.fmpq) and value.height_bits() > State.exact_bits:
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
    """What a number in a formula is, exactly; there a long float is a rounded constant."""
    if isinstance(value, Ball):
        return value.value
    if isinstance(value, float):
        return _constant(float(value))
    if isinstance(value, int | np.integer | np.bool_ | Fraction):
        return exact_value(value)
    return NotImplemented


def as_ball(value: Any) -> Ball:
    """A number in a formula as a ball."""
    return value if isinstance(value, Ball) else made(_operand(value))


def _constant(value: float) -> Any:
    radius = reach(value)
    if not radius:
        return exact_value(value)
    State.rounded.add(value)
    return flint.arb(exact_value(Fraction(value)), as_arb(exact_value(Fraction(radius))).upper())


def as_arb(value: Any) -> Any:
    """A rational or a ball as a ball of Arb."""
    return flint.arb(value) if isinstance(value, flint.fmpq) else value


def as_fraction(end: Any) -> Fraction:
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
        return made(None)
    keeps = keeps and number.nonnegative and _is_nonnegative(other)
    return made(function(number.value, operand), keeps)


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
    if isinstance(a, flint.fmpq) and a == 0 and as_arb(b) != 0:
        return _ZERO
    return a / b


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, flint.fmpq):
        if exponent.q == 1 and abs(exponent) <= _LARGEST_EXPONENT:
            whole = int(exponent.p)
            if isinstance(base, flint.fmpq):
                if base == 0 and whole < 0:
                    raise ZeroDivisionError("zero to a negative power")
                if base.height_bits() * abs(whole) <= 2 * State.exact_bits:
                    return base**whole
                base = flint.arb(base)
            power = _whole_power(base, abs(whole))
            return power if whole >= 0 else 1 / power
        if isinstance(base, flint.fmpq) and base in (0, 1) and exponent > 0:
            return base
    return as_arb(base) ** as_arb(exponent)


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
        if relation not in ("==", "!="):  # NumPy sorts it last, whatever its comparisons say
            raise Undecided(f"{number} {relation} {other}: an order of what has no value")
        return relation == "!="
    holds, opposite = _RELATIONS[relation]
    if isinstance(a, flint.fmpq) and isinstance(b, flint.fmpq):
        return bool(holds(a, b))
    a, b = as_arb(a), as_arb(b)
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
    return open_answer(f"{number} {relation} {other}")


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


def open_answer(question: str) -> bool:
    """How an open comparison comes out in the case under evaluation.

    Raises:
        Undecided: cases are not looked at.
    """
    if State.answers is None:
        raise Undecided(f"{question}: the balls leave it open")
    if State.given == len(State.answers):
        State.answers.append(True)
    State.given += 1
    return State.answers[State.given - 1]


def every_case(function: Callable[[], _Result], most: int = 64) -> list[_Result]:
    """What a function returns, for every way in which its open comparisons may come out.

    The truth is one of the ways, so that what holds in all of them holds.

    >>> from linsys.linalg.ball_arithmetic import ball_arithmetic
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
    before = State.answers, State.given
    try:
        while True:
            State.answers, State.given = answers, 0
            results.append(function())
            while answers and not answers[-1]:
                answers.pop()
            if not answers:
                return results
            if len(results) == most:
                raise Undecided(f"comparisons that balls leave open have over {most} outcomes")
            answers[-1] = False
    finally:
        State.answers, State.given = before


def larger(a: Any, b: Any) -> Ball:
    """The larger one of two numbers, as a set where the balls do not say which it is."""
    return _extreme(as_ball(a), as_ball(b), ">=", lambda x, y: x.max(y), any)


def smaller(a: Any, b: Any) -> Ball:
    """The smaller one of two numbers, as a set where the balls do not say which it is."""
    return _extreme(as_ball(a), as_ball(b), "<=", lambda x, y: x.min(y), all)


def _extreme(
    a: Ball,
    b: Ball,
    relation: str,
    of_balls: Callable[[Any, Any], Any],
    nonnegative: Callable[[Sequence[bool]], bool],
) -> Ball:
    if a.value is None or b.value is None:
        return a if a.value is None else b
    with no_cases():
        try:
            return a if _compare(a, b, relation) else b
        except Undecided:
            both = of_balls(as_arb(a.value), as_arb(b.value))
            return made(both, nonnegative((a.nonnegative, b.nonnegative)))


@contextmanager
def no_cases() -> Iterator[None]:
    """Within the block open comparisons raise, also within :func:`every_case`."""
    before, State.answers = State.answers, None
    try:
        yield
    finally:
        State.answers = before
