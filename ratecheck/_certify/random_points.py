"""Random points of a claim's space, as numbers that know the degree of what they come from.

The numbers of an instance are polynomials or quotients of them in coordinates u, whole numbers from
0 to 2^k: an interval [a, b] holds a + (b - a) u / 2^k, a distribution u_i / sum u. Their ranges are
those of the space, whose instances all lie in the domains of their fields.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from linsys.linalg import formal
from linsys.linalg.balls import exact_value
from linsys.linalg.branching import Branching
from linsys.linalg.degrees import Rational
from linsys.linalg.ranges import NEVER, NULL, Range
from ratecheck._certify.enclosures import Unprovable
from ratecheck._claims import fields as domains
from ratecheck._claims.space import Fields, Sizes, Space

#: So often a point is drawn anew where the claim's space does not contain it.
_DRAWS = 50
#: Width of the box around an instance.
_BOX = 2.0**-20

#: How far whole numbers are covered: all of their combinations, as single ones or as what formulas
#: are polynomials of; those that instances were found with, of all; or those that were drawn.
ALL_WHOLE, FOUND_WHOLE, DRAWN_WHOLE = "every one", "every one found in an instance", "those drawn"
#: So many combinations of whole numbers are tried one by one.
MOST_WHOLE = 512

#: Whole numbers by their field.
Whole = Mapping[str, list[int]]
#: A random whole number below a limit.
Draw = Callable[[int], int]


@dataclass
class Source:
    """What is random about a point.

    Args:
        below: of whole numbers.
        bits: of the coordinates.
        branching: decides the signs that are all the values of a domain; by default they are drawn.
        kept: whole numbers by their field, which are drawn where there are none.
        real: whether numbers of any kind are drawn in the place of whole ones.
        given: an instance by field, whose numbers are taken in the place of drawn ones, but for
            whole numbers and signs.
    """

    below: Draw
    bits: int
    branching: Branching | None = None
    kept: Whole = field(default_factory=dict)
    real: bool = False
    given: Fields = field(default_factory=dict)
    #: Whole numbers and signs of the point as it was drawn last.
    whole: dict[str, list[int]] = field(default_factory=dict)
    signs: dict[str, list[int]] = field(default_factory=dict)

    def again(self) -> None:
        """Another point."""
        self.whole.clear()
        if self.branching is None:
            self.signs.clear()
        else:
            self.branching.coordinates.clear()

    def whole_numbers(self, name: str, make: Callable[[], list[int]]) -> list[int]:
        """Those of a field."""
        self.whole[name] = list(self.kept[name]) if name in self.kept else make()
        return self.whole[name]

    def all_signs(self, name: str, count: int) -> list[int]:
        """Numbers that are 1 or -1."""
        if name not in self.signs:
            self.signs[name] = [self._sign() for _ in range(count)]
        return self.signs[name]

    def _sign(self) -> int:
        if self.branching is not None:
            return 1 if self.branching.coin() else -1
        return 1 if formal.recorded(self.below(2) == 1) else -1


class NoInstance(Unprovable):
    """No instance was found, as with whole numbers that it cannot have."""


def whole_numbers(space: Space, sizes: Sizes) -> list[Whole] | None:
    """All combinations of the whole numbers of a space; None where they are too many.

    For some sizes there are none either where they are too many for others.

    >>> import ratecheck as rc
    >>> space = rc.Space({"k": rc.whole_numbers(low=1, high=2), "x": rc.interval()})
    >>> whole_numbers(space, {})
    [{'k': [1]}, {'k': [2]}]
    """
    if max(math.prod(map(len, _ranges(space, one))) for one in space.all_sizes()) > MOST_WHOLE:
        return None
    shapes = _shapes(space, sizes)
    return [_by_field(shapes, one) for one in itertools.product(*_ranges(space, sizes))]


def some_whole_numbers(space: Space, sizes: Sizes, most: int) -> list[Whole]:
    """Combinations of the whole numbers of a space, at most so many of them, evenly spaced.

    The smallest and the largest one are among them, and they are the same whoever asks.

    >>> import ratecheck as rc
    >>> space = rc.Space({"k": rc.whole_numbers(2, low=0, high=9)})
    >>> some_whole_numbers(space, {}, 4)
    [{'k': [0, 0]}, {'k': [3, 3]}, {'k': [6, 6]}, {'k': [9, 9]}]
    """
    shapes, ranges = _shapes(space, sizes), _ranges(space, sizes)
    count = math.prod(map(len, ranges))
    pick = [k * (count - 1) // (most - 1) for k in range(most)] if count > most else range(count)
    return [_by_field(shapes, _at(place, ranges)) for place in pick]


def _at(place: int, ranges: Sequence[range]) -> list[int]:
    """The combination at a place in the order of :func:`itertools.product`."""
    numbers = []
    for one in reversed(ranges):
        place, digit = divmod(place, len(one))
        numbers.append(one[digit])
    return numbers[::-1]


def _shapes(space: Space, sizes: Sizes) -> dict[str, int]:
    """How many whole numbers a field has."""
    return {
        name: math.prod(domain.shape(sizes))
        for name, domain in space.fields.items()
        if isinstance(domain, domains.Whole)
    }


def _ranges(space: Space, sizes: Sizes) -> list[range]:
    """The values of every whole number."""
    return [
        range(int(domain.low), int(domain.high) + 1)
        for domain in space.fields.values()
        if isinstance(domain, domains.Whole)
        for _ in range(math.prod(domain.shape(sizes)))
    ]


def _by_field(shapes: Mapping[str, int], numbers: Sequence[int]) -> Whole:
    left = iter(numbers)
    return {name: list(itertools.islice(left, count)) for name, count in shapes.items()}


#: A random point of a space, of these sizes, and how many were drawn.
Point = Callable[[Space, Sizes, Source], tuple[dict[str, Any], int]]


def anywhere(space: Space, sizes: Sizes, source: Source) -> tuple[dict[str, Any], int]:
    """A random instance of a space without joint assumptions, and how many were drawn."""
    for number in range(1, _DRAWS + 1):
        source.again()
        fields = {
            name: _values(name, domain, (1, *domain.shape(sizes)), source)
            for name, domain in space.fields.items()
        }
        if space.passing({name: floats_of(values) for name, values in fields.items()})[0]:
            return fields, number
    raise NoInstance(f"of {_DRAWS} random points none meets what the claim is given")


def repaired(space: Space, sizes: Sizes, source: Source) -> tuple[dict[str, Any], int]:
    """A random point of the domains, repaired by quotients of polynomials."""
    assert space.repair is not None
    fields, drawn = anywhere(replace(space, repair=None, given={}), sizes, source)
    if space.batched:
        moved = dict(space.repair(fields))
    else:
        one = space.repair({name: values[0] for name, values in fields.items()})
        moved = {name: np.asarray(values)[None] for name, values in one.items()}
    rational = {
        name: _array([Rational(x) for x in np.ravel(v).tolist()], np.shape(v))
        for name, v in moved.items()
    }
    for name in source.whole:  # as the repair leaves them
        source.whole[name] = [int(x) for x in rational[name].ravel().tolist()]
    met = space.meets({name: floats_of(values) for name, values in rational.items()})[0]
    # what is to be at another point may not meet them at this one
    if not met and not formal.ring.elsewhere:
        raise NoInstance("a random point does not meet the assumptions")
    return rational, drawn


def near_an_instance(space: Space, sizes: Sizes, source: Source) -> tuple[dict[str, Any], int]:
    """A random point of a box around an instance that meets the joint assumptions.

    An identity that holds there holds wherever its two sides are these quotients.
    """
    layout = space.layout(sizes)
    for number in range(1, _DRAWS + 1):
        source.again()
        rng = np.random.default_rng(source.below(2**63))
        centre = source.given or layout.decode(rng.uniform(0.1, 0.9, size=(1, layout.coordinates)))
        if source.kept:
            wanted = {
                name: np.reshape(np.asarray(source.kept[name], dtype=float), values.shape)
                for name, values in centre.items()
                if name in source.kept
            }
            centre = space.complete({**centre, **wanted})
        if not all(np.isfinite(values).all() for values in centre.values()):
            continue
        fields = {
            name: _values_near(name, domain, centre[name], source)
            for name, domain in space.fields.items()
        }
        if space.meets({name: floats_of(values) for name, values in fields.items()})[0]:
            return fields, number
    raise NoInstance(f"of {_DRAWS} random points none meets the assumptions: they are equations")


def _numbers(low: Any, width: Any, source: Source) -> Any:
    """Numbers in [low, low + width), of degree one; arrays of fractions."""
    size = 2**source.bits
    drawn = [
        Rational(exact_value(start) + exact_value(length) * source.below(size) / size, 1)
        for start, length in zip(np.ravel(low).tolist(), np.ravel(width).tolist(), strict=True)
    ]
    return _array(drawn, np.shape(low))


def _within(values: Any, low: float, high: float, source: Source) -> Any:
    """Numbers that lie in [low, high] at all points of the space."""
    low, high = within(low, high)
    for number in values.ravel().tolist():
        number.range = Range(low, high, NULL if low <= 0 <= high else NEVER)
        if source.branching is not None:
            source.branching.coordinates.append(number)
    return values


def within(low: float, high: float) -> tuple[float, float]:
    """Ends between which an interval's numbers surely lie, as a float stands for a decimal near it.

    >>> within(0, 0.1)
    (0.0, 0.10000000000000002)
    """
    low, high = float(low), float(high)  # an int has no is_integer before Python 3.12
    if not low.is_integer():
        low = math.nextafter(low, -math.inf)
    if not high.is_integer():
        high = math.nextafter(high, math.inf)
    return low, high


def _whole(
    name: str, values: Callable[[], list[int]], shape: tuple[int, ...], source: Source
) -> Any:
    return _array([Rational(x) for x in source.whole_numbers(name, values)], shape)


def _signs(name: str, shape: tuple[int, ...], source: Source) -> Any:
    return _array([Rational(x) for x in source.all_signs(name, int(np.prod(shape)))], shape)


def _values(name: str, domain: domains.Field, shape: tuple[int, ...], source: Source) -> Any:
    """Values of a domain, as polynomials or quotients of them in random coordinates."""

    def between(low: float, high: float, at: tuple[int, ...] = shape) -> Any:
        return _numbers(np.full(at, low), np.full(at, high) - low, source)

    if isinstance(domain, domains.Whole):
        if source.real:
            return between(domain.low, domain.high)
        low, count = int(domain.low), int(domain.high) - int(domain.low) + 1
        size = int(np.prod(shape))
        return _whole(name, lambda: [low + source.below(count) for _ in range(size)], shape, source)
    if isinstance(domain, domains.Sphere) and shape[-1] == 1:
        return _signs(name, shape, source)
    ends = _ends(domain)
    if name in source.given:
        return _within(_given(source.given[name]), *ends, source)
    if isinstance(domain, domains.Interval):
        return _within(between(domain.low, domain.high), *ends, source)
    if isinstance(domain, domains.Simplex):
        return _within(_normalised(between(0.001, 1.0)), *ends, source)
    if isinstance(domain, domains.Sphere):
        on = _on_the_sphere(between(-2.0, 2.0, (*shape[:-1], shape[-1] - 1)))
        return _within(on, *ends, source)
    if isinstance(domain, domains.Ball):  # and matrices: within, for the sum of squares is below 1
        axes = 2 if isinstance(domain, domains.Contraction) else 1
        return _within(between(-1.0, 1.0) / int(np.prod(shape[-axes:])), *ends, source)
    return _within(between(-1.0, 1.0), *ends, source)


def _ends(domain: domains.Field) -> tuple[float, float]:
    """Between which ends the numbers of a domain lie."""
    if isinstance(domain, domains.Interval):
        return domain.low, domain.high
    if isinstance(domain, domains.Simplex):
        return 0.0, 1.0
    return (-1.0, 1.0) if isinstance(domain, domains.Ball) else (-math.inf, math.inf)


def _given(values: Any) -> Any:
    """The numbers of an instance."""
    return _array([Rational(x, 1) for x in np.ravel(values).tolist()], np.shape(values))


def _values_near(name: str, domain: domains.Field, centre: Any, source: Source) -> Any:
    """Values of a domain, in random coordinates, in a small box around given ones (1, *shape)."""
    if isinstance(domain, domains.Whole):
        source.whole[name] = [int(x) for x in centre.ravel().tolist()]
        return _array([Rational(x) for x in source.whole[name]], centre.shape)
    if isinstance(domain, domains.Sphere) and centre.shape[-1] == 1:
        return _signs(name, centre.shape, source)
    ends = _ends(domain)
    if name in source.given:
        return _within(_given(centre), *ends, source)
    if isinstance(domain, domains.Sphere):
        t = centre[..., :-1] / (1 - np.minimum(centre[..., -1:], 0.99))
        return _within(_on_the_sphere(_numbers(t, np.full(t.shape, _BOX), source)), *ends, source)
    near = _numbers(centre, np.full(centre.shape, _BOX), source)
    if isinstance(domain, domains.Simplex):
        near = _normalised(near)
    return _within(near, *ends, source)


def _normalised(parts: Any) -> Any:
    return parts / parts.sum(axis=-1, keepdims=True)


def _on_the_sphere(t: Any) -> Any:
    """Unit vectors by their stereographic projection t: (2 t, |t|^2 - 1) / (|t|^2 + 1)."""
    square = (t * t).sum(axis=-1, keepdims=True)
    return np.concatenate([2 * t, square - 1], axis=-1) / (square + 1)


def _array(numbers: list[Rational], shape: tuple[int, ...]) -> Any:
    array = np.empty(len(numbers), dtype=object)
    array[:] = numbers
    return array.reshape(shape)


def floats_of(values: Any) -> Any:
    """Floats near numbers."""
    flat = [x.nearest() for x in values.ravel().tolist()]
    return np.array(flat, dtype=float).reshape(values.shape)
