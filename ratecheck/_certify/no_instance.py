"""Branches of a formula without instances: the comparisons on them exclude each other.

On a branch numbers have signs: those that were compared, and those whose range tells theirs. An
equation between them excludes a branch where

- it says that one product of powers is another one times a constant, and their signs differ,
- it says that a sum of products is zero, and no term is negative.

A number that was divided by has a sign where it is a sum of squares of coordinates, or of their
sums, differences and products; or by an equation of the first kind. So a branch has no instance
that divides by d = (a - b)^2 and compares x^2 d < 0.

Equations are looked for in float64: the numbers are evaluated at random points, as the functions
that they are on the branch. Those of the first kind are linear dependences between logarithms, the
others are found by linear programs (Farkas' lemma, and diagonally dominant forms). What was found
counts only once exact arithmetic has confirmed it at another random point, as an identity is
(:mod:`ratecheck._certify.identities`). Null sets are left out, on which numbers are zero.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from linsys.linalg import formal
from linsys.linalg.branching import Branching
from linsys.linalg.degrees import Rational, compared
from linsys.linalg.ranges import NEVER
from ratecheck._certify.on_a_branch import Branch
from ratecheck._certify.random_points import Draw

Floats = NDArray[np.float64]
#: Bits of the points at which equations are looked for, and how many more than there are unknowns.
_BITS, _MORE = 30, 10
#: So many points are drawn at most, for each that is needed.
_TRIES = 3
#: Terms of a linear program at most.
_TERMS = 900
#: Powers in a product, and denominators of factors, at most.
_POWERS, _DENOMINATOR = 12, 5040
#: Relative size of what counts as zero in float64, and of what is lost in finding a fraction.
_ZERO, _ALIKE, _LOST = 1e-9, 1e-7, 1e-6
#: Numbers beyond this size are left out.
_LARGE = 1e100

#: A product of numbers: their places in order, each as often as its power says.
Term = tuple[int, ...]
#: Whole powers of numbers.
Powers = NDArray[np.int64]
#: Terms with their factors, whose sum is zero.
Equation = Mapping[Term, Fraction]


@dataclass(frozen=True)
class Nowhere:
    """Why a branch has no instance.

    Args:
        after: so many of its outcomes exclude each other.
        worth: what the chance of an error grows with.
        ties: whether null sets are left out on which numbers that were compared are zero.
    """

    after: int
    worth: int
    ties: bool


@dataclass(frozen=True)
class _Sign:
    """The sign of a number on a branch.

    Args:
        way: 1 or -1, or 0 of what is zero on the branch.
        strict: whether the number is zero at no instance, not even on a null set.
        after: how many outcomes tell it.
    """

    way: int
    strict: bool
    after: int


class _Contradiction(Exception):
    """Signs that exclude each other."""

    def __init__(self, after: int, ties: bool) -> None:
        super().__init__()
        self.after, self.ties = after, ties


def nowhere(branch: Branch, draw: Draw, bits: int) -> Nowhere | None:
    """Why there is no instance on a branch, but for a null set; None where that is not shown.

    Args:
        branch: one of a claim's formula.
        draw: of the whole numbers of the point at which equations are confirmed.
        bits: of the point's coordinates.
    """
    sample = _Sample(branch)
    exact = _Exact(branch, sample.count, draw, bits)
    try:
        _look(sample, exact)
    except _Contradiction as found:
        return Nowhere(found.after, exact.worth, found.ties)
    return None


class _Exact:
    """Says whether an equation is true of the numbers of a branch, by exact arithmetic."""

    def __init__(self, branch: Branch, count: int, draw: Draw, bits: int) -> None:
        self._branch, self._count, self._draw, self._bits = branch, count, draw, bits
        #: What the chance of an error grows with.
        self.worth = 0
        self._after = 0

    def __call__(self, equation: Equation, apart: Sequence[Equation] = ()) -> bool:
        """Whether an equation is true; and one of these sums is not zero, but for a null set.

        A rule that needed a sign which may be another one elsewhere tells nothing.
        """
        branching = self._branch.at_a_point(self._draw, self._bits)
        numbers = _numbers(branching)
        used = {place for term in equation for place in term}
        if len(numbers) != self._count or not all(numbers[place].finite for place in used):
            return False
        # signs that were compared anywhere on the branch may decide what is formal
        formally = any(numbers[place].formal for place in used)
        self._after = len(self._branch.taken) if formally else 0
        total = _sum(equation, numbers)
        zero = formal.is_zero(total.element) and not formal.is_ruled()
        others = [_sum(one, numbers) for one in apart]
        self.worth += total.top + compared() + branching.compared
        return zero and (not apart or any(not one.formal and one.value != 0 for one in others))

    def after(self, after: int) -> int:
        """After how many outcomes the last equation is true where it is not before so many."""
        return max(after, self._after)


def _sum(equation: Equation, numbers: Sequence[Any]) -> Any:
    """A sum of products of numbers."""
    each = [factor * _product(numbers, term) for term, factor in equation.items()]
    return sum(each, start=Rational(0))


def _look(sample: _Sample, exact: _Exact) -> None:
    """Look for equations that exclude each other, which are raised."""
    signs = dict(sample.signs)
    _by_products(sample, signs, exact)
    _by_squares(sample, signs, exact)
    _by_products(sample, signs, exact)
    _by_sums(sample, signs, exact)


def _numbers(branching: Branching) -> list[Any]:
    """What equations are between: numbers with a sign, divisors, coordinates."""
    signed = [one.number for one in branching.signed]
    divisors = [number for number, _ in _divisors(branching)]
    return [*signed, *divisors, *_slacks(branching), *branching.coordinates]


def _divisors(branching: Branching) -> list[tuple[Any, int]]:
    """What was divided by; but for what has roots and may be zero at many points."""
    return [(number, after) for number, after in branching.divisors if not number.formal]


def _slacks(branching: Branching) -> list[Any]:
    """What coordinates are above their least value and below their largest, where that is no 0."""
    slacks: list[Any] = []
    coordinates: list[Any] = branching.coordinates
    for one in coordinates:
        low, high = (one.range.low, one.range.high) if one.range else (-math.inf, math.inf)
        slacks += [one - Fraction(low)] if math.isfinite(low) and low != 0 else []
        slacks += [Fraction(high) - one] if math.isfinite(high) and high != 0 else []
    return slacks


class _Drawn:
    """The same whole numbers each time, but for one of them."""

    def __init__(self, other: int = -1) -> None:
        self._same, self._other = random.Random(1).randrange, random.Random(2).randrange
        self._at = other
        self.count = 0

    def __call__(self, below: int) -> int:
        self.count += 1
        same = self._same(below)
        return self._other(below) if self.count == self._at + 1 else same


class _Sample:
    """The numbers of a branch at random points, in float64.

    Args:
        branch: the branch.
    """

    def __init__(self, branch: Branch) -> None:
        self._branch = branch
        self._draw = random.Random(0).randrange
        first = branch.at_a_point(self._draw, _BITS)
        self.count = len(_numbers(first))
        self.coordinates = range(self.count - len(first.coordinates), self.count)
        #: What was divided by, and so is not zero where there are numbers.
        self.divisors = range(len(first.signed), len(first.signed) + len(_divisors(first)))
        slacks = len(_slacks(first))
        self.slacks = range(self.coordinates.start - slacks, self.coordinates.start)
        #: After how many outcomes there are numbers.
        self.made = [one.after for one in first.signed] + [after for _, after in _divisors(first)]
        self.made += [0] * (self.count - len(self.made))
        #: Numbers that may be zero at many points.
        self.formal = {k for k, one in enumerate(_numbers(first)) if one.formal}
        #: The signs of numbers; of one that is zero on the branch, 0.
        self.signs: dict[int, _Sign] = {}
        for place, one in enumerate(first.signed):
            self.signs[place] = _Sign(one.way, one.strict, one.after)
        for place in self.slacks:
            self.signs[place] = _Sign(1, False, 0)
        for place, number in zip(self.coordinates, first.coordinates, strict=True):
            if number.range is not None and (number.range.low >= 0 or number.range.high <= 0):
                way = 1 if number.range.low >= 0 else -1
                self.signs[place] = _Sign(way, number.range.zero == NEVER, 0)
        self._rows: list[Floats] = []

    def needs(self) -> dict[int, list[int]]:
        """On which coordinates numbers depend, by their places; on none where it is not seen."""
        drawn = _Drawn()
        first = self._numbers_at(drawn)
        needs: dict[int, set[int]] = {place: set() for place in range(self.count)}
        for k in range(drawn.count if len(first) == self.count else 0):
            other = self._numbers_at(_Drawn(k))
            moved = np.flatnonzero(other != first).tolist() if len(other) == len(first) else []
            for place in moved:
                needs[place].update(one for one in moved if one in self.coordinates)
        return {place: sorted(coordinates) for place, coordinates in needs.items()}

    def _numbers_at(self, draw: Draw) -> Floats:
        numbers = _numbers(self._branch.at_a_point(draw, _BITS))
        return np.array([_near(one) for one in numbers])

    def rows(self, count: int) -> Floats:
        """So many points, or fewer if that takes too many tries, (points, numbers)."""
        for _ in range(_TRIES * count):
            if len(self._rows) >= count:
                break
            row = self._numbers_at(self._draw)
            if len(row) == self.count:
                self._rows.append(row)
        return np.array(self._rows[:count]).reshape(len(self._rows[:count]), self.count)

    def finite(self, count: int) -> tuple[Floats, list[int]]:
        """At least so many points, and the places of numbers that are finite and not zero there.

        A number that is none at many points, such as the root of what is negative there, is left
        out.
        """
        for times in range(1, _TRIES + 1):
            values = self.rows(times * count)
            good = np.isfinite(values) & (values != 0) & (np.abs(values) < _LARGE)
            places = np.flatnonzero(good.sum(axis=0) > len(good) / 2)
            rows = good[:, places].all(axis=1)
            if rows.sum() >= count:
                break
        return values[rows], places.tolist()


def _near(number: Any) -> float:
    """A float near a number, infinite where it is too large for one."""
    try:
        return float(number.nearest())
    except OverflowError:
        return math.inf


def _product(numbers: Sequence[Any], term: Term) -> Any:
    """The product of numbers by their places."""
    return math.prod((numbers[place] for place in term), start=Rational(1))


# One product of powers is another one times a constant.


def _by_products(sample: _Sample, signs: dict[int, _Sign], exact: _Exact) -> None:
    """Add the signs that equations between two products tell."""
    values, places = sample.finite(sample.count + _MORE)
    if not places or len(values) < len(places) + 2:
        return
    # those that are best known first: equations are between them and one other
    places.sort(key=lambda place: _order(place, signs, sample.formal))
    logs = np.log(np.abs(values[:, places]))
    basis = _dependences(logs[1:] - logs[0])
    for after in sorted({sign.after for sign in signs.values()}):
        known = {place: sign for place, sign in signs.items() if sign.after <= after}
        for row in _with_one_unknown(basis, [place in known for place in places]):
            powers = {places[k]: int(row[k]) for k in np.flatnonzero(row)}
            for place, sign in _told(powers, values, known, sample, exact).items():
                other = signs.setdefault(place, sign)
                if other.way != sign.way and (
                    other.strict or sign.strict or place not in sample.formal
                ):
                    raise _Contradiction(
                        max(sign.after, other.after), not (sign.strict or other.strict)
                    )
                known[place] = sign


def _order(place: int, signs: Mapping[int, _Sign], formal: set[int]) -> tuple[bool, bool, int, int]:
    """Where a number stands among others: with a sign first, and a root before its square."""
    sign = signs.get(place)
    loose = sign is None or not sign.strict
    return loose and place in formal, sign is None, sign.after if sign else 0, -(place in formal)


def _dependences(columns: Floats) -> list[Powers]:
    """In small whole numbers, how each column is a combination of those before it, if it is one."""
    size = columns.shape[1]
    scale = np.maximum(np.abs(columns).max(axis=0), _ZERO)
    scaled = columns / scale
    before: list[int] = []
    rows = []
    for k in range(size):
        factors, *_ = np.linalg.lstsq(scaled[:, before], scaled[:, k], rcond=None)
        constant = scale[k] <= _ZERO
        rest = scaled[:, k] - scaled[:, before] @ factors
        if not constant and np.abs(rest).max() > _ALIKE:
            before.append(k)
            continue
        exact = [] if constant else (factors * scale[k] / scale[before]).tolist()
        near = [Fraction(x).limit_denominator(_POWERS) for x in exact]
        if any(abs(float(x) - y) > _LOST for x, y in zip(near, exact, strict=True)):
            continue
        common = math.lcm(1, *(x.denominator for x in near))
        row = np.zeros(size, dtype=int)
        row[k] = -common
        row[before[: len(near)]] = [int(x * common) for x in near]
        rows.append(row)
    return _without_squares(rows)


def _without_squares(rows: Sequence[Powers]) -> list[Powers]:
    """A basis of which no sum is even, so that no equation is the square of another one."""
    basis: list[tuple[int, Powers]] = []
    for row in rows:
        while True:
            for pivot, other in basis:
                row = _shorter(row, other) if row[pivot] % 2 else row
            if (row % 2).any():
                break
            row = row // 2
        basis.append((int(np.flatnonzero(row % 2)[0]), row))
    return [row for _, row in basis]


def _shorter(row: Powers, other: Powers) -> Powers:
    """The sum of two rows or their difference, whichever has smaller numbers."""
    return min(row + other, row - other, key=lambda one: int(np.abs(one).sum()))


def _with_one_unknown(basis: Sequence[Powers], known: Sequence[bool]) -> Iterator[Powers]:
    """Sums of these powers in which one number without a sign has an odd power at most."""
    unknown = ~np.array(known)
    rows: list[tuple[int, Powers]] = []
    for row in basis:
        for pivot, other in rows:
            row = _shorter(row, other) if row[pivot] % 2 else row
        odd = np.flatnonzero(row % 2 * unknown)
        if len(odd) == 0:
            yield row
            continue
        pivot = int(odd[0])
        rows = [(k, _shorter(one, row) if one[pivot] % 2 else one) for k, one in rows]
        rows.append((pivot, row))
    yield from (row for _, row in rows if np.count_nonzero(row % 2 * unknown) == 1)


def _rational(values: Floats) -> Fraction:
    """The fraction that all values are; 0 if there is none."""
    near = Fraction(float(values[0])).limit_denominator(_DENOMINATOR)
    alike = near != 0 and np.abs(values / float(near) - 1).max() <= _ZERO
    return near if alike else Fraction(0)


def _told(
    powers: Mapping[int, int],
    values: Floats,
    known: Mapping[int, _Sign],
    sample: _Sample,
    exact: _Exact,
) -> dict[int, _Sign]:
    """The sign of a number that powers with a constant product tell; empty where they tell none.

    Raises:
        _Contradiction: there is none whose sign is not known, and the product's sign is another.
    """
    used = dict(powers)
    # where one side is not zero, no number of the other one is
    loose = [p for p in used if p in sample.formal and not (p in known and known[p].strict)]
    zeros = [p for p in used if p in known and known[p].way == 0]
    if any(used[p] > 0 for p in loose + zeros) and any(used[p] < 0 for p in loose + zeros):
        return {}
    product = np.prod([values[:, place] ** float(power) for place, power in used.items()], axis=0)
    constant = _rational(product)
    for place in () if constant else known:  # it may be a multiple of one that is, such as a root
        if place not in used and 0 < abs(values[0, place]) >= np.ptp(values[:, place]) / _ZERO:
            constant = constant or _rational(product / values[:, place])
            used |= {place: -1} if constant else {}
    if not constant:
        return {}
    above = tuple(place for place, power in used.items() for _ in range(power))
    below = tuple(place for place, power in used.items() for _ in range(-power))
    equation = {above: Fraction(1), below: -constant}
    strict = {p for p in used if p in known and known[p].strict}
    ties = not any(strict.issuperset(side) for side in (above, below))
    after = max([sample.made[p] for p in used] + [known[p].after for p in used if p in known])
    if zeros and exact(equation):
        raise _Contradiction(exact.after(after), ties)
    odd = [place for place, power in used.items() if power % 2]
    signs = [known[place] for place in odd if place in known]
    way = math.prod((sign.way for sign in signs), start=1 if constant > 0 else -1)
    unknown = [place for place in odd if place not in known]
    if zeros or (not unknown and way > 0) or not exact(equation):
        return {}
    if unknown:
        (place,) = unknown
        always = place in sample.divisors or strict.issuperset({*used} - {place})
        return {place: _Sign(way, always, exact.after(after))}
    raise _Contradiction(exact.after(after), ties)


# A sum of terms that are not negative is zero, or a divisor.


@dataclass(frozen=True)
class _Column:
    """A sum of products of numbers that is not negative at any instance.

    Args:
        terms: the products with their factors.
        signs: the numbers whose signs it takes.
        strict: 2 where it is zero nowhere, 1 where a quotient of polynomials that is not zero at
            one point is so but for a null set.
    """

    terms: Equation
    signs: tuple[int, ...]
    strict: int

    def values(self, numbers: Floats) -> Floats:
        """Its values where the numbers have these, (points, numbers)."""
        each = (
            float(factor) * numbers[:, list(term)].prod(axis=1)
            for term, factor in self.terms.items()
        )
        return np.asarray(sum(each))


def _products(
    places: Iterable[int], signs: Mapping[int, _Sign], formal: set[int], sizes: Iterable[int]
) -> Iterator[_Column]:
    """Products of so many numbers that are not negative when they get their signs."""
    among = list(places)
    for size in sizes:
        for term in itertools.combinations_with_replacement(among, size):
            odd = tuple(place for place, times in Counter(term).items() if times % 2)
            if all(place in signs and signs[place].way != 0 for place in odd):
                way = math.prod(signs[place].way for place in odd)
                nowhere_zero = all(p in signs and signs[p].strict for p in term)
                strict = 2 if nowhere_zero else int(formal.isdisjoint(term))
                yield _Column({term: Fraction(way)}, odd, strict)


def _squares(forms: Sequence[Term], most: int) -> Iterator[_Column]:
    """Squares of a one + b other for forms and whole a and b up to a size."""
    for one in forms:
        yield _Column({one + one: Fraction(1)}, (), 1)
    factors = [(a, b) for a in range(1, most + 1) for b in range(-most, most + 1) if b != 0]
    for one, other in itertools.combinations(forms, 2):
        for a, b in (pair for pair in factors if math.gcd(*pair) == 1):
            terms: Counter[Term] = Counter()
            products = (one + one, a * a), (one + other, 2 * a * b), (other + other, b * b)
            for term, factor in products:
                terms[tuple(sorted(term))] += factor
            yield _Column({term: Fraction(factor) for term, factor in terms.items()}, (), 1)


def _by_sums(sample: _Sample, signs: Mapping[int, _Sign], exact: _Exact) -> None:
    """Look for a sum of products without a negative one that is zero, which is raised."""
    places = _different(sample, signs)
    of_formula = [place for place in places if place < sample.slacks.start]
    squares = list(_squares([(place,) for place in sample.coordinates], 2))
    for among, factors, more in (
        (of_formula, 2, squares),
        (places, 2, squares),
        (of_formula, 3, []),
    ):
        columns = [*_products(among, signs, sample.formal, range(factors + 1)), *more]
        if len(columns) > _TERMS:
            continue
        values, _ = sample.finite(len(columns) + _MORE)
        found = _adding_up(columns, values, None) if len(values) > len(columns) else None
        strict = max((columns[k].strict for k in found or ()), default=0)
        used = [columns[k] for k in found or ()]
        apart = [] if strict == 2 else [one.terms for one in used if one.strict]
        if found and strict and exact(_total(columns, found), apart):
            raise _Contradiction(exact.after(_after(sample, signs, used)), strict < 2)


def _after(sample: _Sample, signs: Mapping[int, _Sign], columns: Iterable[_Column]) -> int:
    """After how many outcomes there are the numbers of columns, with the signs that they take."""
    each = list(columns)
    made = [sample.made[place] for one in each for term in one.terms for place in term]
    return max([0, *made, *(signs[place].after for one in each for place in one.signs)])


def _different(sample: _Sample, signs: Mapping[int, _Sign]) -> list[int]:
    """Numbers of which none is a multiple of another one with the same sign; those known best."""
    values, places = sample.finite(_MORE)

    def worse(place: int) -> tuple[bool, bool, int]:
        sign = signs.get(place)
        return sign is None, sign is None or not sign.strict, sign.after if sign else 0

    found: dict[tuple[float, ...], int] = {}
    for place in sorted(places, key=worse):
        ratios = values[:, place] / values[0, place]
        if np.abs(ratios - 1).max() > _ZERO:
            way = signs[place].way * np.sign(values[0, place]) if place in signs else 0.0
            found.setdefault((float(way), *(float(f"{x:.9g}") for x in ratios)), place)
    return sorted(found.values())


def _by_squares(sample: _Sample, signs: dict[int, _Sign], exact: _Exact) -> None:
    """Add the signs of numbers that are sums of squares of coordinates.

    Raises:
        _Contradiction: one of them is known to be negative.
    """
    asked = [
        place
        for place in range(sample.slacks.start)
        if place not in sample.formal and (place not in signs or signs[place].way < 0)
    ]
    needs = sample.needs() if asked else {}
    for place in asked:
        for degree in (1, 2):
            forms = list(itertools.combinations_with_replacement(needs[place], degree))
            columns = list(_squares(forms, 2 if degree == 1 else 1))
            columns += _products(needs[place], signs, sample.formal, range(degree + 2))
            if not forms or len(columns) > _TERMS:
                break
            values = sample.rows(len({term for one in columns for term in one.terms}) + _MORE)
            if not np.isfinite(values[:, place]).all():
                break
            found = _adding_up(columns, values, values[:, place])
            if found and exact({**_total(columns, found), (place,): Fraction(-1)}):
                after = exact.after(_after(sample, signs, [columns[k] for k in found]))
                if place in signs:
                    after = max(after, signs[place].after)
                    raise _Contradiction(after, not signs[place].strict)
                after = max(after, sample.made[place])
                signs[place] = _Sign(1, place in sample.divisors, after)
                break


def _total(columns: Sequence[_Column], factors: Mapping[int, Fraction]) -> dict[Term, Fraction]:
    """The sum of columns with these factors."""
    total: dict[Term, Fraction] = {}
    for k, factor in factors.items():
        for term, its in columns[k].terms.items():
            total[term] = total.get(term, Fraction(0)) + factor * its
    return {term: factor for term, factor in total.items() if factor != 0}


def _adding_up(
    columns: Sequence[_Column], numbers: Floats, target: Floats | None
) -> dict[int, Fraction] | None:
    """Positive factors with which some columns add up to a target, or to zero; None without any."""
    matrix = np.stack([column.values(numbers) for column in columns], axis=1)
    every = matrix if target is None else np.column_stack([matrix, target])
    sizes = np.maximum(np.abs(every).max(axis=0), 1 / _LARGE)
    scaled = every / sizes
    scaled /= np.maximum(np.abs(scaled).max(axis=1, keepdims=True), _ZERO)
    costs = np.array([1.0 + sum(map(len, one.terms)) for one in columns])
    if target is None:  # of which the factors add up to one
        left = np.vstack([scaled, np.ones(len(columns))])
        right = np.append(np.zeros(len(scaled)), 1.0)
    else:
        left, right = scaled[:, :-1], scaled[:, -1]
    there = [(0, None if size > 1 / _LARGE else 0) for size in sizes[: len(columns)]]
    solved = linprog(costs, A_eq=left, b_eq=right, bounds=there, method="highs")
    if solved.status != 0:
        return None
    used = np.flatnonzero(solved.x > _LOST)
    if target is not None:
        found = _fractions(scaled[:, used], scaled[:, -1], sizes[used] / sizes[-1])
        return None if found is None else dict(zip(used.tolist(), found, strict=True))
    for one in used:
        rest = used[used != one]
        found = _fractions(scaled[:, rest], -scaled[:, one], sizes[rest] / sizes[one])
        if found is not None:
            return {int(one): Fraction(1), **dict(zip(rest.tolist(), found, strict=True))}
    return None


def _fractions(columns: Floats, target: Floats, sizes: Floats) -> list[Fraction] | None:
    """Positive factors with which columns, of these sizes before they were scaled, add up to it."""
    factors, *_ = np.linalg.lstsq(columns, target, rcond=None)
    if np.abs(columns @ factors - target).max() > _LOST * np.abs(target).max():
        return None
    near = [Fraction(x).limit_denominator(_DENOMINATOR) for x in (factors / sizes).tolist()]
    away = [abs(float(x) - y) > _LOST * abs(y) for x, y in zip(near, factors / sizes, strict=True)]
    return None if any(away) or any(x <= 0 for x in near) else near
