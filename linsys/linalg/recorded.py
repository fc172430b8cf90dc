"""Numbers that record the formula which made them, as a program of plain operations.

Within :func:`linsys.linalg.recorded_arithmetic.recording` the functions of :mod:`linsys.linalg`
work on arrays of :class:`Recorded` as on any other numbers, so that a formula which is written with
them and with NumPy's arithmetic runs unchanged. What it does is written down on a
:class:`linsys.linalg.tapes.Tape`, whose text is a program that whoever reads it can evaluate
without the formula's code.

At an instance every number also has its ball, which decides comparisons; one that balls leave open
comes out both ways within :func:`linsys.linalg.balls.every_case`. Without balls all comparisons do
that a simple rule of signs does not decide, of numbers that surely have a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from linsys.linalg import _precise
from linsys.linalg._flint import flint
from linsys.linalg.balls import Ball, State as Balls, Undecided, as_ball, exact_value
from linsys.linalg.object_numbers import ObjectNumber
from linsys.linalg.rounded import reach
from linsys.linalg.tapes import Tape, Unrecorded

__all__ = ["Recorded", "State", "given", "made", "of_balls", "operand_of"]

#: Between which ends a number lies whose whole part is 0.
_WHOLE: dict[Callable[..., int], tuple[tuple[str, Any], tuple[str, Any]]] = {
    math.floor: ((">=", 0), ("<", 1)),
    math.ceil: ((">", -1), ("<=", 0)),
    round: ((">", Fraction(-1, 2)), ("<", Fraction(1, 2))),
}


class State:
    """What records at the moment."""

    tape = Tape()


class Recorded(ObjectNumber):
    """A number of a formula: its place on the tape, and its ball at an instance."""

    __slots__ = ("ball", "place")
    place: int
    ball: Ball | None

    def __init__(self, value: Any) -> None:
        if isinstance(value, Recorded):
            self.place, self.ball = value.place, value.ball
            return
        exact = exact_value(value)
        if isinstance(exact, flint.fmpq):
            self.place = State.tape.constant(exact)
        elif exact is None:
            self.place = State.tape.place("const", "nan")
        elif exact.is_exact() and not exact.is_finite():
            self.place = State.tape.place("const", "inf" if exact > 0 else "-inf")
        else:
            raise Unrecorded(f"a number of another arithmetic: {exact}")
        self.ball = Ball(exact)

    @property
    def known(self) -> Any:
        """The rational that it is, of a constant; else None."""
        return State.tape.constants.get(self.place)

    def __repr__(self) -> str:
        return f"Recorded({self.place}, {self.ball})"

    def _exactly(self) -> Fraction:
        """The rational that the number is at the instance, which is written down.

        A whole number that may be one of several is compared with each but the last.
        """
        if self.known is not None:
            return Fraction(int(self.known.p), int(self.known.q))
        if whole := State.tape.whole.get(self.place):
            return Fraction(next((k for k in whole[:-1] if self == k), whole[-1]))
        if self.ball is None or not self.ball.exact:
            raise Unrecorded("a float or a whole part of a number that depends on the instance")
        value = self.ball.ends()[0]
        State.tape.compared("==", self.place, Recorded(value).place, True, False)
        return value

    def __float__(self) -> float:
        reason = _precise._mp.refusal
        if reason is not None:
            raise TypeError(reason)
        return float(self._exactly())

    def __int__(self) -> int:
        return self.__trunc__()

    def __index__(self) -> int:
        value = self._exactly()
        if value.denominator != 1:
            raise TypeError(f"{self!r} is no whole number")
        return int(value)

    def __trunc__(self) -> int:
        return self._whole(math.floor if self >= 0 else math.ceil)

    def _whole(self, function: Callable[[Fraction], int]) -> int:
        is_known = self.known is not None or self.place in State.tape.whole
        if is_known or (self.ball is not None and self.ball.exact):
            return function(self._exactly())
        if self.ball is None:
            raise Unrecorded("a whole part of a number that depends on the instance")
        low, high = map(function, self.ball.ends())
        if low != high:
            raise Undecided(f"{function.__name__} of {self} may be {low} or {high}")
        (least, below), (most, above) = _WHOLE[function]
        _compare(self, low + below, least)
        _compare(self, low + above, most)
        return low

    # arithmetic

    def __add__(self, other: Any) -> Any:
        return _binary("+", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary("-", self, other, turned=True)

    def __mul__(self, other: Any) -> Any:
        return _binary("*", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary("/", self, other, turned=True)

    def __floordiv__(self, other: Any) -> Any:
        return Recorded(math.floor(self / other))

    def __rfloordiv__(self, other: Any) -> Any:
        return Recorded(math.floor(other / self))

    def __mod__(self, other: Any) -> Any:
        return self - other * (self // other)

    def __rmod__(self, other: Any) -> Any:
        return other - self * (other // self)

    def __pow__(self, other: Any) -> Any:
        exponent = operand_of(other)
        return NotImplemented if exponent is NotImplemented else _power(self, exponent)

    def __rpow__(self, other: Any) -> Any:
        base = operand_of(other)
        return NotImplemented if base is NotImplemented else _power(base, self)

    def __neg__(self) -> Recorded:
        if self.known is not None:
            return Recorded(-self.known)
        return made(State.tape.place("neg", self.place), of_balls(lambda a: -a, self))

    def __abs__(self) -> Recorded:
        if State.tape.signs[self.place]:
            return self
        if self.known is not None:
            return Recorded(abs(self.known))
        return made(State.tape.place("abs", self.place), of_balls(abs, self))

    def _compared(self, other: Any, relation: str) -> Any:
        return _compare(self, other, relation)

    # the methods that NumPy's functions call on objects

    def sqrt(self) -> Recorded:
        """The square root; of an exact square exact."""
        known = self.ball is not None and self.ball.nonnegative
        name = "length" if known or State.tape.signs[self.place] else "root"
        return self._function(name, Ball.sqrt)

    def exp(self) -> Recorded:
        """e^x."""
        return self._function("exp", Ball.exp)

    def log(self) -> Recorded:
        """The natural logarithm; of 0 minus infinity."""
        if self.ball is not None and self.ball.exact and self.ball.value == 0:
            self._exactly()
            return Recorded(-math.inf)
        return self._function("log", Ball.log)

    def sin(self) -> Recorded:
        """The sine."""
        return self._function("sin", Ball.sin)

    def cos(self) -> Recorded:
        """The cosine."""
        return self._function("cos", Ball.cos)

    def arctan(self) -> Recorded:
        """The angle whose tangent is x."""
        return self._function("atan", Ball.arctan)

    def arccos(self) -> Recorded:
        """The angle in [0, pi] whose cosine is x."""
        return self._function("acos", Ball.arccos)

    def expm1(self) -> Any:
        """e^x - 1."""
        return self.exp() - 1

    def log1p(self) -> Any:
        """log(1 + x)."""
        return Recorded(self + 1).log()

    def tan(self) -> Any:
        """The tangent."""
        return self.sin() / self.cos()

    def tanh(self) -> Any:
        """The hyperbolic tangent."""
        power = self.exp()
        return 1 - 2 / (power * power + 1)

    def _function(self, name: str, of: Callable[[Ball], Ball]) -> Recorded:
        if self.known is not None and (found := of(Ball(self.known))).exact:
            return Recorded(found.value)
        return made(State.tape.place(name, self.place), of_balls(of, self))


def given(ball: Ball | None, sign: int = 0) -> Recorded:
    """One more number that the formula is given."""
    return made(State.tape.given(sign), ball)


def made(place: int, ball: Ball | None) -> Recorded:
    """The number at a place."""
    made = Recorded.__new__(Recorded)
    made.place, made.ball = place, ball
    return made


def of_balls(function: Callable[..., Any], *numbers: Recorded) -> Any:
    """A function of the balls of numbers; None without balls."""
    balls = [number.ball for number in numbers]
    return None if any(ball is None for ball in balls) else function(*balls)


def operand_of(value: Any) -> Any:
    """What a number in a formula is; there a long float is a rounded constant."""
    if isinstance(value, Recorded):
        return value
    if isinstance(value, float):
        if reach(value):
            return made(State.tape.place("rounded", repr(float(value))), as_ball(value))
        return Recorded(float(value))
    if isinstance(value, int | np.integer | np.bool_):
        return Recorded(int(value))
    return Recorded(value) if isinstance(value, Fraction) else NotImplemented


def _binary(operation: str, number: Recorded, other: Any, turned: bool = False) -> Any:
    operand = operand_of(other)
    if operand is NotImplemented:
        return NotImplemented
    a, b = (operand, number) if turned else (number, operand)
    known = _simple(operation, a, b)
    if known is not None:
        return known
    ball = of_balls(_BINARY[operation], a, b)
    return made(State.tape.place(operation, a.place, b.place), ball)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


def _simple(operation: str, a: Recorded, b: Recorded) -> Recorded | None:
    """What needs no operation: a result of constants, and of a number with 0 or 1."""
    one, other = a.known, b.known
    if one is not None and other is not None:
        if operation == "/" and other == 0:
            raise ZeroDivisionError("division by zero")
        return Recorded(_BINARY[operation](one, other))
    if operation == "-" and a.place == b.place and _is_finite(a):
        return Recorded(0)
    if operation == "-" and one == 0:
        return -b
    if operation in "*/" and one == 0 and _is_finite(b) and (operation == "*" or _is_apart(b)):
        return a
    if operation == "*" and other == 0 and _is_finite(a):
        return b
    if other == (operation in "*/"):
        return a
    return b if operation in "+*" and one == (operation == "*") else None


def _is_finite(number: Recorded) -> bool:
    """Whether a number is one at the instance, or without one at all."""
    if number.ball is None:
        return State.tape.finite[number.place]
    value = number.ball.value
    return number.ball.exact or (value is not None and value.is_finite())


def _is_apart(number: Recorded) -> bool:
    """Whether a number is known not to be zero; of balls, where it is not known to be zero."""
    if number.ball is None:
        return State.tape.is_apart(number.place)
    return not (number.ball.exact and number.ball.value == 0)


def _power(base: Recorded, exponent: Recorded) -> Any:
    power = exponent.known
    if power is None:
        if not _is_finite(exponent):
            raise Unrecorded("a power whose exponent may have no value, which is 1 of 1")
        if exponent.ball is not None and exponent.ball.exact:
            return _power(base, Recorded(exponent._exactly()))
        return (base.log() * exponent).exp()
    if power.q == 2:
        return base.sqrt() ** int(power.p)
    if power.q != 1:
        if base.ball is not None and base.ball.exact and base.ball.value == 0 and power > 0:
            base._exactly()
            return Recorded(0)
        return (base.log() * exponent).exp()
    n = int(power.p)
    if n in (0, 1):
        return base if n else Recorded(1)
    if n < 0:
        return 1 / _power(base, Recorded(-n))
    half = _power(base, Recorded(n // 2))
    return half * half * base if n % 2 else half * half


def _compare(number: Recorded, other: Any, relation: str) -> Any:
    """Whether a relation holds; where balls leave it open, the answer of the case, or an error."""
    operand = operand_of(other)
    if operand is NotImplemented:
        return NotImplemented
    if number.known is not None and operand.known is not None:
        return bool(_COMPARED[relation](number.known, operand.known))
    if number.ball is None or operand.ball is None:
        return State.tape.by_signs(relation, number.place, operand.place)
    given = Balls.given
    outcome = bool(_COMPARED[relation](number.ball, operand.ball))
    return State.tape.compared(
        relation,
        number.place,
        operand.place,
        outcome,
        Balls.answers is not None and Balls.given > given,
    )


_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
