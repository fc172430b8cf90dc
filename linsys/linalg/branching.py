"""How the comparisons of a formula may come out, at all points and not at one alone.

Within :func:`linsys.linalg.degree_arithmetic.rational_arithmetic` a comparison comes out as at the
point. A :class:`Branching` makes it come out one way after the other, so that a formula is
evaluated as the function that it is on each of its branches, wherever the point lies. What is known
of a number's sign at all points leaves ways out:

- its range over the region, from the ranges of what it is computed from,
- what was decided before, on the same branch, of it, or of a number that is larger or smaller by
  a whole number; and of a coordinate of which it is a multiple,
- that it is a quotient of polynomials and not zero: then it is zero on a null set, which is left
  out. Two numbers with roots or exponentials may be equal at many points and not at others, so
  that their equality is tried both ways.

With ``free``, a maximum or a minimum is a new coordinate, about which nothing is known but its
range: what holds for every value of it, holds for the maximum, whichever number is the largest.
An equality that depends on such a coordinate is tried both ways.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from linsys.linalg import formal
from linsys.linalg.formal import Element
from linsys.linalg.ranges import MAYBE, NEVER, Range, larger, negative

__all__ = ["Branching", "NoPoint", "Number", "Signed", "Step"]

#: Numbers that differ by a whole number up to this size are compared by it.
_STEPS = 64
#: Width of the interval that the value of a new coordinate is drawn from.
_WIDTH = Fraction(1, 2**30)
Signs = frozenset[int]
_ALL: Signs = frozenset((-1, 0, 1))
Relation = Callable[[Any, Any], bool]


class NoPoint(Exception):
    """There are no points on a branch, but for a null set."""


class Number(Protocol):
    """What is asked of a number: its value, its range, whether a new coordinate is in it."""

    value: Any
    top: int
    bottom: int
    range: Range | None
    tied: bool

    @property
    def formal(self) -> bool:
        """Whether it has roots, exponentials or logarithms."""
        ...

    @property
    def element(self) -> Element:
        """The number as a sum of terms."""
        ...

    def nearest(self) -> float:
        """A float near it."""
        ...


@dataclass(frozen=True)
class Step:
    """A comparison on a branch that could come out both ways.

    Args:
        relation: its name, of a difference with zero.
        outcome: how it comes out on the branch.
        missed: how far the point is from one where it does; 0 where it is one.
        place: what told where the comparison stands.
    """

    relation: str
    outcome: bool
    missed: float
    place: Any


@dataclass(frozen=True)
class Signed:
    """A number that has a sign on a branch.

    Args:
        number: the number.
        way: 1 where it is not negative, -1 where it is not positive, 0 where it is zero.
        strict: whether it is not zero.
        after: how many of the branch's outcomes are needed for that.
    """

    number: Number
    way: int
    strict: bool
    after: int


class Branching:
    """One branch of a formula: the outcomes of its comparisons, in their order.

    Args:
        forced: those at the beginning; the others come out as at the point, where that may be.
        draw: of random whole numbers below a limit.
        bits: of the values of new coordinates.
        free: whether a maximum or a minimum is a new coordinate.
        assuming: whether there are points only where a claim's assumptions are met.
        place: asked at every comparison where it stands.
    """

    def __init__(
        self,
        forced: Sequence[bool],
        draw: Callable[[int], int],
        bits: int,
        free: bool,
        assuming: bool = False,
        place: Callable[[], Any] | None = None,
    ) -> None:
        self._forced, self._draw, self._bits = tuple(forced), draw, bits
        self.free, self.assuming = free, assuming
        self._place = place
        #: The comparisons whose outcomes are :attr:`taken`, but for coins; with a ``place`` alone.
        self.steps: list[Step] = []
        #: Outcomes that could be others, on this branch up to here.
        self.taken: list[bool] = []
        #: What the chance of a wrong decision grows with.
        self.compared = 0
        #: Whether a null set was left out on which comparisons come out as nowhere else.
        self.ties = False
        #: Whether a logarithm was taken of what may be zero, on a null set. Where it is minus
        #: infinity, what is made of it may be zero, as an exponential of it is.
        self.infinite = False
        #: Names of numbers that are zero nowhere, after the outcomes so far.
        self._apart: set[Any] = set()
        #: The largest degree of a number that was compared, and one more.
        self._degree = 1
        self._signs: dict[Any, Signs] = {}
        self._told: dict[Any, bool] = {}
        #: Numbers by what they have in common with those that differ by a whole number.
        self._near: dict[Any, list[Any]] = {}
        #: Of the point, which are set when it is drawn.
        self.coordinates: list[Number] = []
        #: Numbers with a sign on this branch, in the order in which they were compared.
        self.signed: list[Signed] = []
        #: What was divided by, and after how many outcomes.
        self.divisors: list[tuple[Number, int]] = []
        self._extremes: dict[Any, Any] = {}
        self._among: dict[Any, tuple[str, frozenset[Any]]] = {}

    def either(self, natural: bool | None) -> bool:
        """An outcome that may be both: the forced one, or the one that is natural."""
        place = len(self.taken)
        outcome = self._forced[place] if place < len(self._forced) else bool(natural)
        self.taken.append(outcome)
        if natural is not outcome:
            formal.ring.elsewhere = True
        return outcome

    def coin(self) -> bool:
        """Something that is one of two things: both are tried."""
        place = len(self.taken)
        self.taken.append(self._forced[place] if place < len(self._forced) else True)
        return self.taken[-1]

    def outcome(self, difference: Number, relation: Relation, limit: bool = False) -> bool:
        """How a difference compares with zero.

        Args:
            difference: what is compared.
            relation: with zero.
            limit: whether what is made of it at zero is the limit of what is made of it nearby, or
                none, as of a root and a logarithm. Then that it is zero is not tried, nor left out.
        """
        self.compared += difference.top
        if difference.range is not None and _is_nothing(difference):
            return bool(relation(0, 0))
        key, way, signs = self._named(difference)
        self._count(difference, (4 * _STEPS + 2) * len(self._signs) + 2 * len(self._told))
        if difference.range is None:  # it may be NaN at many points: then no sign is one
            told = (key, way, relation.__name__)
            if told not in self._told:
                self._told[told] = self._decided(difference, relation)
            if self._told[told]:
                left = frozenset(s for s in _ALL if relation(s, 0))
                self._sign(difference, left, 0 not in left)
            return self._told[told]
        signs = self._of(key, way, difference, signs)
        possible = {bool(relation(sign, 0)) for sign in signs}
        zero = bool(relation(0, 0))
        if not limit and zero not in possible and 0 not in signs and key not in self._apart:
            self.ties |= self._may_vanish(difference)
        if not possible:
            raise NoPoint
        if len(possible) == 1:
            formal.ring.elsewhere |= _natural(difference, relation) not in possible
            outcome = possible.pop()
        else:
            outcome = self._decided(difference, relation)
        if outcome is not zero and not limit:
            self._apart.add(key)
        left = frozenset(sign for sign in signs if bool(relation(sign, 0)) is outcome)
        self._signs[key] = frozenset(way * sign for sign in left)
        if (1 in left) != (-1 in left):
            formal.noted(difference.element, 1 if 1 in left else -1)
        strict = (outcome is not zero and not limit) or self._nowhere_zero(difference)
        self._sign(difference, left, strict)
        return outcome

    def logarithm_of(self, number: Number) -> None:
        """Note that a logarithm is taken of a number."""
        self.infinite |= self._may_vanish(number)

    def compared_with_infinity(self) -> None:
        """Note that a number is compared with infinity, which a logarithm may be on a null set."""
        self.ties |= self.infinite

    def _may_vanish(self, number: Number) -> bool:
        """Whether a number may be zero, be it on a null set."""
        return (number.formal and self.infinite) or _may_vanish(number)

    def _nowhere_zero(self, number: Number) -> bool:
        """Whether a number is zero nowhere, but for what is made of infinity, which is noted."""
        if _may_vanish(number):
            return False
        self.ties |= number.formal and self.infinite
        return True

    def divided_by(self, number: Number) -> None:
        """Note that there are numbers only where this one is not zero."""
        self.divisors.append((number, len(self.taken)))

    def positive(self, number: Number) -> None:
        """Note that a number, such as a root that was taken, is not negative from here on."""
        self._sign(number, frozenset((1,)), self._nowhere_zero(number))

    def _sign(self, number: Number, signs: Signs, strict: bool) -> None:
        """Note the signs that a number may have from here on."""
        if not {-1, 1} <= signs:
            way = next((sign for sign in signs if sign != 0), 0)
            self.signed.append(Signed(number, way, strict, len(self.taken)))

    def _decided(self, difference: Number, relation: Relation) -> bool:
        """An outcome that may be both, which is remembered as a step."""
        natural = _natural(difference, relation)
        outcome = self.either(natural)
        if self._place is not None:
            missed = 0.0 if natural is outcome else _size(difference)
            self.steps.append(Step(relation.__name__, outcome, missed, self._place()))
        return outcome

    def _named(self, number: Number) -> tuple[Any, int, Signs]:
        """A name that a number shares with its multiples, its sign beside it, and its signs.

        Of quotients of polynomials a multiple of a coordinate has the coordinate's name.
        """
        signs = _ALL if number.range is None else _possible(number)
        if number.formal:
            terms = number.value.terms
            way = 1 if terms[min(terms)] > 0 else -1
            return frozenset((m, way * c) for m, c in terms.items()), way, signs
        way = 1 if number.value > 0 else -1
        for one in self.coordinates:
            self._count(one, 0)
        self._count(number, 2 * _STEPS**2 * len(self.coordinates))
        for one in self.coordinates:
            factor = number.value / one.value if one.value != 0 else None
            if factor is not None and abs(factor.p) <= _STEPS and factor.q <= _STEPS:
                sense = 1 if factor > 0 else -1
                signs &= frozenset(sense * sign for sign in _possible(one))
                return abs(one.value), way, signs
        return way * number.value, way, signs

    def _count(self, number: Number, others: int) -> None:
        """Note that a number may be taken for one of so many others, which were noted before."""
        self._degree = max(self._degree, number.top + number.bottom + 1)
        self.compared += 2 * self._degree * others

    def _of(self, key: Any, way: int, number: Number, signs: Signs) -> Signs:
        """The signs that a number may have on this branch."""
        if key in self._signs:
            return signs & frozenset(way * sign for sign in self._signs[key])
        if not number.formal:
            signs = self._by_others(key, way, number, signs)
        self._signs[key] = frozenset(way * sign for sign in signs)
        return signs

    def _by_others(self, key: Any, way: int, number: Number, signs: Signs) -> Signs:
        """What is known of others that differ from a number by a whole number."""
        for sense in (1, -1):
            for other in self._near.get(_part(sense * key), ()):
                step = sense * key - other
                known = self._signs[other]
                if step > 0 and abs(step) <= _STEPS and not known & {-1}:
                    signs &= frozenset((way * sense,))
                    self._apart.add(key)
                if step < 0 and abs(step) <= _STEPS and not known & {1}:
                    signs &= frozenset((-way * sense,))
                    self._apart.add(key)
        self._near.setdefault(_part(key), []).append(key)
        return signs

    def extreme(
        self, one: Number, other: Number, difference: Number, make: Callable[..., Any], sign: int
    ) -> Any:
        """The larger one of two numbers, of sign 1, or the smaller one, as a new coordinate.

        None where it has to be one of them: they are compared then.
        """
        if _is_nothing(difference):
            return one
        first, second = one.range, other.range
        if difference.range is None or first is None or second is None:
            return None
        key, way, signs = self._named(difference)
        if len(self._of(key, way, difference, signs)) <= 1:
            return None
        kind = "larger" if sign > 0 else "smaller"
        leaves: set[Any] = set()
        for number in (one, other):
            told = self._among.get(_exact(number))
            leaves |= told[1] if told is not None and told[0] == kind else {_exact(number)}
        among = frozenset(leaves)
        self._count(difference, (4 * _STEPS + 2) * len(self._signs))
        for number in (one, other):
            self._count(number, (2 + 2 * len(self._among)) ** 2)
        if (kind, among) not in self._extremes:
            near = sign * max(sign * one.nearest(), sign * other.nearest())
            step = _WIDTH * self._draw(2**self._bits) / 2**self._bits
            exact = Fraction(near) if abs(near) < float("inf") else Fraction(1)
            if sign > 0:
                values = larger(first, second)
            else:
                values = negative(larger(negative(first), negative(second)))
            made = make(exact + sign * step, 1, 0, values, tied=True)
            self._extremes[kind, among] = made
            self._among[_exact(made)] = (kind, among)
        return self._extremes[kind, among]


def _is_nothing(number: Number) -> bool:
    """Whether a number is zero by exact arithmetic or by the rules."""
    if number.formal:
        return formal.is_zero(number.value)
    return bool(number.value == 0)


def _possible(number: Number) -> Signs:
    """The signs that a number may have at all points but for a null set."""
    assert number.range is not None
    low, high, zero = number.range
    if not number.formal and not number.tied:
        zero = min(zero, 1)
    signs = {sign for sign, there in ((-1, low < 0), (1, high > 0)) if there}
    if number.formal and (sign := formal.plain_sign(number.value)) != 0:
        return frozenset((sign,))
    return frozenset(signs | ({0} if zero == MAYBE else set()))


def _may_vanish(number: Number) -> bool:
    """Whether a number may be zero, be it on a null set."""
    if number.formal and formal.plain_sign(number.value) != 0:
        return False
    return number.range is None or number.range.zero != NEVER


def _natural(number: Number, relation: Relation) -> bool | None:
    """The outcome at the point; None where it is not known."""
    if not number.formal:
        return bool(relation(number.value, 0))
    try:
        return bool(relation(formal.sign(number.value), 0))
    except formal.NotRational:
        return None


def _size(number: Number) -> float:
    """How large a number is; infinite where that is not known."""
    try:
        size = abs(number.nearest())
    except (ArithmeticError, ValueError, formal.NotRational):
        return math.inf
    return math.inf if math.isnan(size) else max(size, 5e-324)


def _exact(number: Number) -> Any:
    return frozenset(number.value.terms.items()) if number.formal else number.value


def _part(value: Any) -> Any:
    """What numbers have in common that differ by a whole number."""
    return value - value.p // value.q
