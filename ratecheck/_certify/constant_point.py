"""A point of a constant's boxes at which its formula shows the lower end.

A certificate names an instance at which the ratio of the two sides is large. Here its coordinates
are found, up to scaling, and simple rationals near them that are an instance as well; whoever
checks a certificate, see :mod:`ratecheck._certify.check_constant`, evaluates the formula there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ratecheck._certify.cover import Coordinate, Cover, Weights
from ratecheck._certify.enclosures import Unprovable
from ratecheck._claims import fields as domains
from ratecheck._claims.space import Fault, Sizes

__all__ = ["check_instance", "points"]

#: Denominators of the numbers of a point, and of scales, in the order in which they are tried.
_MOST = (1, 2, 4, 10, 100, 10**3, 10**4, 10**6, 10**9, 10**12, 10**15, 10**40)
#: Numbers between the ends of a range.
_Ends = tuple[Fraction, Fraction]


def points(cover: Cover, instance: Mapping[str, Any]) -> Iterator[list[Fraction]]:
    """Points near the coordinates of an instance, up to scaling; those of simple numbers first.

    Args:
        cover: the boxes of instances of these sizes.
        instance: plain lists by field.
    """
    located = _Located(cover)
    try:
        exact, ends = located.coordinates_of(instance), located.ends()
    except ArithmeticError:  # a scale that is no float64
        return
    tried: list[list[Fraction]] = []
    for most in _MOST:
        point = [
            min(max(x if x in (low, high) else x.limit_denominator(most), low), high)
            for x, (low, high) in zip(exact, ends, strict=True)
        ]
        if point not in tried:
            tried.append(point)
            yield point


def check_instance(cover: Cover, point: Sequence[Fraction]) -> None:
    """Refuse coordinates that are none of an instance of the space, up to scaling.

    They are scaled so that all numbers lie in their ranges, in exact arithmetic. What the space
    assumes besides is evaluated in float64.

    Raises:
        Unprovable: no such scale is found, or an assumption is broken.
    """
    located = _Located(cover)
    for most in _MOST if len(point) == len(cover.coordinates) else ():
        numbers = located.scaled_back(point, most)
        if numbers is not None and located.is_met(numbers):
            return
    raise Unprovable("`at` must be coordinates of an instance, up to scaling")


class _Located(Cover):
    """A cover with the way from instances to coordinates and back."""

    def __init__(self, cover: Cover) -> None:
        super().__init__(cover.space, cover.sizes, cover.symmetries, cover.charts)
        self._plain = Cover(cover.space, cover.sizes, charts=cover.charts)

    def coordinates_of(self, instance: Mapping[str, Any]) -> list[Fraction]:
        """The coordinates of an instance, scaled, or rationals near them."""
        numbers: list[Fraction] = []
        for name, domain in self.space.fields.items():
            values = np.asarray(instance[name], dtype=float).ravel().tolist()
            numbers += _of_field(domain, self.sizes, list(map(_decimal, values)))
        for chart, *at in self.charts:
            if chart == "from":
                numbers[at[0]] -= numbers[at[1]]
                continue
            last = max(at, key=lambda i: self._share(numbers, i))
            size = self._share(numbers, last)
            for i in at if size else ():
                numbers[i] = numbers[i] / size
            numbers.append(size)
        fixed = [self._fixed(weights) for weights in self.symmetries]
        for weights, pivot in zip(self.symmetries, fixed, strict=True):
            if pivot is not None:
                _stretch(numbers, weights, pivot, Fraction(self.coordinates[pivot].low))
        for weights, pivot in zip(self.symmetries, fixed, strict=True):
            used = [i for i, w in enumerate(weights) if w and numbers[i]]
            if pivot is None and used:
                sizes = {i: float(self._share(numbers, i)) ** (1 / float(weights[i])) for i in used}
                last = max(used, key=lambda i: sizes[i])
                _stretch(numbers, weights, last, numbers[last] / self._share(numbers, last))
        return numbers

    def _fixed(self, weights: Weights) -> int | None:
        """The positive number that a scaling fixes, if there is one."""
        plain = self._plain.coordinates
        return next((i for i, w in enumerate(weights) if w and plain[i].low > 0), None)

    def _share(self, numbers: Sequence[Fraction], i: int) -> Fraction:
        """A number as a share of the end of its range on its side of zero."""
        one = self.coordinates[i]
        return numbers[i] / Fraction(one.high if numbers[i] > 0 else one.low or one.high)

    def ends(self) -> list[_Ends]:
        """The ranges of the coordinates, without what rounding added."""
        return [
            (max(Fraction(a.low), low), min(Fraction(a.high), high)) if a == b else _range(a)
            for a, b, (low, high) in zip(
                self.coordinates, self._plain.coordinates, self._inside(), strict=True
            )
        ]

    def _inside(self) -> list[_Ends]:
        """The ranges of the coordinates that are not scaled: of an interval the decimals' own."""
        ends = []
        for i, one in enumerate(self._plain.coordinates):
            domain = self.space.fields[one.field]
            if isinstance(domain, domains.Interval) and i not in self._ranges:
                ends.append((_decimal(domain.low), _decimal(domain.high)))
            else:
                ends.append(_range(one))
        return ends

    def scaled_back(self, point: Sequence[Fraction], most: int) -> list[Fraction] | None:
        """The coordinates without scaling; None if this scale brings one out of its range.

        Args:
            point: the coordinates.
            most: the largest denominator of the scale.
        """
        numbers, sizes = list(point), np.array(point, dtype=float)
        for row in () if self.charts else self._vectors():
            sizes[row] = np.linalg.norm(sizes[row])
        logs = self._scale(sizes, self._plain.coordinates).tolist()
        for weights, log in zip(self.symmetries, logs, strict=True):
            common = math.lcm(*(w.denominator for w in weights))
            unit = Fraction(math.exp(log / common)).limit_denominator(most)
            if not unit:
                return None
            numbers = [x * unit ** int(w * common) for x, w in zip(numbers, weights, strict=True)]
        inside = [(x, *ends) for x, ends in zip(numbers, self._inside(), strict=True)]
        plain, _ = self._plain._before(numbers)
        squares = [(sum(plain[i] ** 2 for i in row), 0, 1) for row in self._vectors()]
        every = [*inside, *self._plain.ranged(numbers), *squares]
        return numbers if all(low <= x <= high for x, low, high in every) else None

    def _vectors(self) -> Iterator[list[int]]:
        """Vectors that are scaled, so that the formula need not pull them onto their unit ball.

        Of a matrix all numbers, as the sum of their squares is no smaller than that of its norm.
        """
        for name, domain in self.space.fields.items():
            at, shape = list(self._at[name]), domain.shape(self.sizes)
            scaled = bool(self.charts) or any(w[i] for w in self.symmetries for i in at)
            ball = isinstance(domain, domains.Ball) and not isinstance(domain, domains.Sphere)
            if self.symmetries and scaled and ball:
                length = math.prod(shape[-2 if isinstance(domain, domains.Contraction) else -1 :])
                yield from _rows(at, length)

    def is_met(self, numbers: Sequence[Fraction]) -> bool:
        """Whether the instance with these coordinates, not scaled, meets what is assumed."""
        try:
            arrays = self._plain._arrays([float(x) for x in numbers])
            return bool(self.space.meets(self.space.complete(arrays)).all())
        except Fault:
            return False


def _range(one: Coordinate) -> _Ends:
    return Fraction(one.low), Fraction(one.high)


def _decimal(number: float) -> Fraction:
    """The decimal that a float64 was written as."""
    return Fraction(repr(float(number)))


def _stretch(numbers: list[Fraction], weights: Weights, pivot: int, to: Fraction) -> None:
    """Scale numbers so that the pivot becomes what it is to be, and is it exactly."""
    factor = to / numbers[pivot]
    for i, w in enumerate(weights):
        power = w / weights[pivot]
        if w and i != pivot:
            exact = power.denominator == 1
            by = factor ** int(power) if exact else Fraction(float(factor) ** float(power))
            numbers[i] *= by
    numbers[pivot] = to


def _of_field(domain: domains.Field, sizes: Sizes, values: list[Fraction]) -> list[Fraction]:
    """The coordinates of a field's numbers, before charts and scaling."""
    shape = domain.shape(sizes)
    if isinstance(domain, domains.Sphere):
        rows = _rows(values, shape[-1])
        return [x / max(map(abs, row)) for row in rows for x in row]
    if not isinstance(domain, domains.Simplex):
        return values
    shares = []
    for row in _rows(values, shape[-1]):
        left = sum(row, Fraction(0))
        for part in row[:-1]:
            shares.append(part / left if left else left)
            left -= part
    return shares


def _rows(values: list[Any], length: int) -> list[list[Any]]:
    return [values[k : k + length] for k in range(0, len(values), length)]
