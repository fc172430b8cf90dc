"""Quadratic forms of vectors: inner products, values and parameters with exact coefficients.

A parameter, such as a step size, stays a symbol: coefficients are polynomials of the parameters
with rational coefficients. A vector is a linear combination of named ones, and the product of two
of them is a sum over inner products of named ones, entries of the Gram matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from linsys.validate import InputError

#: A product of powers of parameters: pairs of name and power, in alphabetical order.
Monomial = tuple[tuple[str, int], ...]
#: What a coefficient multiplies: nothing (), a value (name,), or an inner product (name, name).
Atom = tuple[str, ...]
#: The number one, as a product of no parameters.
ONE: Monomial = ()
#: What is written as a number: never a float, whose decimals are not what was meant.
Number = int | str | Fraction


def exact(value: Any, name: str = "number") -> Fraction:
    """A number as a fraction; floats are refused.

    >>> exact("0.1"), exact("2/3")
    (Fraction(1, 10), Fraction(2, 3))
    """
    if isinstance(value, int | Fraction) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, str):
        try:
            return Fraction(Decimal(value)) if "/" not in value else Fraction(value)
        except (InvalidOperation, ValueError, ZeroDivisionError, OverflowError):
            pass
    raise InputError(
        f"`{name}` must be an integer, a fraction or a decimal in quotes; found {value!r:.60}"
    )


def times(first: Monomial, second: Monomial) -> Monomial:
    """The product of two monomials.

    >>> times((("a", 1),), (("a", 1), ("b", 1)))
    (('a', 2), ('b', 1))
    """
    powers = dict(first)
    for name, power in second:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted(powers.items()))


def quotient(first: Monomial, second: Monomial) -> Monomial | None:
    """The monomial whose product with ``second`` is ``first``; None where there is none."""
    powers = dict(first)
    for name, power in second:
        powers[name] = powers.get(name, 0) - power
    if any(power < 0 for power in powers.values()):
        return None
    return tuple(sorted((name, power) for name, power in powers.items() if power))


def written(monomial: Monomial) -> str:
    """A monomial as text.

    >>> written((("R", 2), ("beta", 1)))
    'R^2 beta'
    """
    return " ".join(n if p == 1 else f"{n}^{p}" for n, p in monomial) or "1"


def read(text: str) -> Monomial:
    """The monomial that :func:`written` wrote.

    Raises:
        ValueError: if it is none.
    """
    if text == "1":
        return ONE
    powers: dict[str, int] = {}
    for factor in text.split(" "):
        name, _, power = factor.partition("^")
        count = int(power) if power else 1
        if not name.isidentifier() or name in powers or count < 1:
            raise ValueError(f"a monomial must be powers of names; found {text!r}")
        powers[name] = count
    return tuple(sorted(powers.items()))


@dataclass(frozen=True)
class Form:
    """A sum of inner products, values and numbers, with polynomials of parameters before them.

    Args:
        terms: coefficient by monomial and what it multiplies; none is zero.
    """

    terms: Mapping[tuple[Monomial, Atom], Fraction]

    @classmethod
    def of(cls, value: Any) -> Form:
        """A form, or a number as one."""
        if isinstance(value, Form):
            return value
        number = exact(value)
        return cls({(ONE, ()): number} if number else {})

    def at(self, numbers: Mapping[str, Fraction]) -> Form:
        """The form with numbers in the place of some parameters."""

        def put(monomial: Monomial, c: Fraction) -> tuple[Monomial, Fraction]:
            for name, power in monomial:
                c *= numbers[name] ** power if name in numbers else 1
            return tuple(pair for pair in monomial if pair[0] not in numbers), c

        parts = ((put(m, c), atom) for (m, atom), c in self.terms.items())
        return Form(_sum(((m, atom), c) for (m, c), atom in parts))

    @property
    def scalar(self) -> bool:
        """Whether it is a polynomial of the parameters alone."""
        return all(atom == () for _, atom in self.terms)

    def is_multiple_of(self, other: Form) -> bool:
        """Whether it is the other one times a number above 0."""
        if not self.terms or self.terms.keys() != other.terms.keys():
            return False
        factors = {c / other.terms[key] for key, c in self.terms.items()}
        return len(factors) == 1 and factors.pop() > 0

    def __add__(self, other: Any) -> Form:
        return Form(_sum(self.terms.items(), Form.of(other).terms.items()))

    __radd__ = __add__

    def __neg__(self) -> Form:
        return Form({key: -c for key, c in self.terms.items()})

    def __sub__(self, other: Any) -> Form:
        return self + -Form.of(other)

    def __rsub__(self, other: Any) -> Form:
        return Form.of(other) - self

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Vector):
            return other * self
        second = Form.of(other)
        if not (self.scalar or second.scalar):
            raise InputError(
                "factors must be numbers or parameters but for one; found a product of two forms "
                "that hold vectors or values"
            )
        return Form(
            _sum(
                ((times(m, k), a + b), c * d)
                for (m, a), c in self.terms.items()
                for (k, b), d in second.terms.items()
            )
        )

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Form:
        divided: Form = self * (1 / _divisor(other))
        return divided

    def __pow__(self, power: int) -> Form:
        if not isinstance(power, int) or power < 0:
            raise InputError(f"`power` must be a whole number, 0 or more; found {power!r}")
        result = Form.of(1)
        for _ in range(power):
            result = result * self
        return result

    def __le__(self, other: Any) -> Statement:
        return Statement(self, Form.of(other))

    def __ge__(self, other: Any) -> Statement:
        return Statement(Form.of(other), self)

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        return " + ".join(
            _factor(c, written(m), atom) for (m, atom), c in sorted(self.terms.items())
        )


@dataclass(frozen=True)
class Vector:
    """A linear combination of named vectors of one space.

    Args:
        space: the name of the space: vectors of different ones have no inner product.
        terms: coefficient by monomial and name; none is zero.
    """

    space: str
    terms: Mapping[tuple[Monomial, str], Fraction]

    def _same(self, other: Any) -> Vector:
        if not isinstance(other, Vector):
            raise InputError(f"`vector` must be a vector; found {other!r:.60}")
        if other.space != self.space:
            raise InputError(
                f"vectors must be of one space; found {self.space!r} and {other.space!r}"
            )
        return other

    def __add__(self, other: Any) -> Vector:
        if isinstance(other, int) and other == 0:  # the start of sum()
            return self
        return Vector(self.space, _sum(self.terms.items(), self._same(other).terms.items()))

    __radd__ = __add__

    def __neg__(self) -> Vector:
        return Vector(self.space, {key: -c for key, c in self.terms.items()})

    def __sub__(self, other: Any) -> Vector:
        return self + -self._same(other)

    def __mul__(self, other: Any) -> Vector:
        factor = Form.of(other)
        if not factor.scalar:
            raise InputError("a vector's factor must hold no vector or value; found one that does")
        return Vector(
            self.space,
            _sum(
                ((times(m, k), name), c * d)
                for (m, name), c in self.terms.items()
                for (k, _), d in factor.terms.items()
            ),
        )

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Vector:
        return self * (1 / _divisor(other))

    def __matmul__(self, other: Any) -> Form:
        """The inner product of two vectors."""
        second = self._same(other)
        return Form(
            _sum(
                ((times(m, k), (min(a, b), max(a, b))), c * d)
                for (m, a), c in self.terms.items()
                for (k, b), d in second.terms.items()
            )
        )

    @property
    def squared(self) -> Form:
        """The squared norm."""
        return self @ self

    def __pow__(self, exponent: Any) -> Form:
        """Refused: a power of a vector says nothing.

        Raises:
            InputError: always, with what to write.
        """
        raise InputError(f"a vector has a squared norm, .squared; found ** {exponent}")


@dataclass(frozen=True)
class Statement:
    """measured <= bound, two forms; an equation where ``equal``."""

    measured: Form
    bound: Form
    equal: bool = False

    @property
    def slack(self) -> Form:
        """bound - measured, which the statement says is not negative."""
        return self.bound - self.measured

    def __bool__(self) -> bool:
        raise InputError(
            "a statement about forms must be assumed or shown; found it as a condition"
        )

    def __str__(self) -> str:
        return f"{self.measured} {'==' if self.equal else '<='} {self.bound}"


def _divisor(value: Any) -> Fraction:
    if isinstance(value, Form):
        raise InputError(
            "`divisor` must be a number, as forms are polynomials in parameters: multiply both "
            f"sides by it, or give its inverse a name; found {value}"
        )
    number = exact(value, "divisor")
    if not number:
        raise InputError("`divisor` must not be zero; found 0")
    return number


def _sum(*parts: Iterable[tuple[Any, Fraction]]) -> dict[Any, Fraction]:
    total: dict[Any, Fraction] = {}
    for part in parts:
        for key, c in part:
            total[key] = total.get(key, Fraction(0)) + c
    return {key: c for key, c in total.items() if c}


def _factor(c: Fraction, monomial: str, atom: Atom) -> str:
    body = {0: "", 1: "".join(atom), 2: f"<{', '.join(atom)}>"}[len(atom)]
    parts = [p for p in (monomial if monomial != "1" else "", body) if p]
    if c == 1 and parts:
        return " ".join(parts)
    number = str(c) if c > 0 and c.denominator == 1 else f"({c})"
    return " ".join([number, *parts])
