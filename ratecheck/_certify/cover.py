"""Boxes that hold every instance of a space, of given sizes, up to scaling.

Every number of an instance is a coordinate, or a function of few: a distribution over S states is
broken off a stick, S - 1 coordinates; a vector of the ball is a point of the cube, pulled onto the
ball. Where the sides of a bound scale alike when some numbers are multiplied by powers of t, one
scale says all: a positive number among them is fixed, or else they are all 0, or on the surface of
their box, at which one of them is at an end of its range.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from linsys.linalg.boxes import Form, constant, coordinates
from linsys.linalg.boxes_sums import copied
from ratecheck._certify.enclosures import Unprovable
from ratecheck._claims import fields as domains
from ratecheck._claims.fields import Numbers
from ratecheck._claims.space import Fields, Sizes, Space, call

__all__ = ["Chart", "Coordinate", "Cover", "Weights", "charts_of", "independent", "symmetric"]

#: How a range is divided: in the middle, at the geometric mean, towards 0, between whole numbers.
Kind = Literal["even", "ratio", "zoom", "whole"]
#: Exponents with which coordinates are scaled together.
Weights = tuple[Fraction, ...]
#: Other coordinates of the same instances: ("from", i, j) has x_i - x_j in the place of x_i, and
#: ("size", i, j, ..) a size t from 0 to 1, as another coordinate, and x_i / t, x_j / t, .. on the
#: surface of their box, so that t is a common factor of what vanishes where x_i, x_j, .. do.
Chart = tuple[Any, ...]
#: With more boxes to start with, nothing is proved.
_MOST_ROOTS = 4096
#: A range whose ends differ by this factor is divided at the geometric mean.
_WIDE = 4.0
#: Ranges that are multiplied grow a little, which makes up for rounding.
_LESS, _MORE = 1 - 1e-12, 1 + 1e-12


@dataclass(frozen=True)
class Coordinate:
    """The range of a number, and how it is divided.

    Args:
        field: the field that it belongs to.
        low: the smallest value.
        high: the largest one.
        kind: how a part of the range is divided into two.
    """

    field: str
    low: float
    high: float
    kind: Kind


class Cover:
    """The coordinates of a space's instances of given sizes, and the boxes to start with.

    Args:
        space: the space.
        sizes: of its axes.
        symmetries: weights w under which the sides scale alike: coordinate i is multiplied by
            t^(w_i). Each takes one coordinate away.
        charts: changes of coordinates, one after the other.

    Raises:
        Unprovable: a field has a domain that is not known here, or a chart has other coordinates.

    >>> from ratecheck import ball, positive
    >>> space = Space({"r": positive(), "x": ball("d")}, {"d": (1, 1)})
    >>> cover = Cover(space, {"d": 1}, [(Fraction(0), Fraction(1))])
    >>> [side.tolist() for side in cover.roots()]  # x = 0, 1, -1
    [[[0.01, 0.01, 0.01], [0.0, 1.0, -1.0]], [[100.0, 100.0, 100.0], [0.0, 1.0, -1.0]]]
    """

    def __init__(
        self,
        space: Space,
        sizes: Sizes,
        symmetries: Sequence[Weights] = (),
        charts: Sequence[Chart] = (),
    ) -> None:
        self.space, self.sizes, self.symmetries = space, sizes, tuple(symmetries)
        self.charts = tuple(charts)
        self.coordinates: list[Coordinate] = []
        self._at: dict[str, tuple[int, ...]] = {}
        for name, domain in space.fields.items():
            first = len(self.coordinates)
            self.coordinates += _coordinates(name, domain, domain.shape(sizes))
            self._at[name] = tuple(range(first, len(self.coordinates)))
        #: Ranges of the numbers that are replaced by differences, where no scaling changes them.
        self._ranges: dict[int, tuple[float, float]] = {}
        #: Numbers on the surface of their box, because of their size beside them.
        self._surfaces: list[tuple[int, ...]] = []
        for chart in self.charts:
            self._change(chart)
        #: Radii of the balls that are multiplied where a positive number is fixed.
        self._radius = dict.fromkeys(self._at, 1.0)
        self._cones: list[tuple[int, ...]] = []
        for weights in self.symmetries:
            self._reduce(weights)
        scaled = {i for cone in self._cones for i in cone}
        #: Fields whose numbers are all scaled, so that they need not be pulled onto their domain.
        self._free = {name for name, at in self._at.items() if at and set(at) <= scaled}

    def _change(self, chart: Chart) -> None:
        """The ranges of other coordinates of the same instances."""
        name, *at = chart or ("",)
        k = len(self.coordinates)
        own = all(isinstance(i, int) and 0 <= i < k for i in at) and len(set(at)) == len(at)
        taken = {i for surface in self._surfaces for i in surface}
        if name == "from" and own and len(at) == 2 and at[0] not in {*self._ranges, *taken}:
            i, j = at
            one, other = self.coordinates[i], self.coordinates[j]
            if j not in taken and "whole" not in (one.kind, other.kind):
                low, high = one.low - other.high, one.high - other.low
                low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
                self.coordinates[i] = Coordinate(one.field, low, high, "zoom")
                self._ranges[i] = one.low, one.high
                return
        elif name == "size" and own and at and not taken & set(at):
            ones = [self.coordinates[i] for i in at]
            if all(one.low <= 0 < one.high and one.kind != "whole" for one in ones):
                self._surfaces.append(tuple(at))
                self.coordinates.append(Coordinate(ones[0].field, 0.0, 1.0, "zoom"))
                return
        raise Unprovable(f"`charts` must be of the coordinates that there are; found {chart!r}")

    def _before(self, numbers: Sequence[Any]) -> tuple[list[Any], list[tuple[Any, float, float]]]:
        """The coordinates from which charts make these; and those that have to be in a range."""
        numbers, within = list(numbers), []
        scaled = {i for weights in self.symmetries for i, w in enumerate(weights) if w}
        first = len(self.coordinates) - len(self._surfaces)
        size_of = {i: first + n for n, surface in enumerate(self._surfaces) for i in surface}
        for name, *at in reversed(self.charts):
            if name == "size":
                size = numbers.pop()
                for i in at:
                    numbers[i] = size * numbers[i]
                continue
            i, j = at
            low, high = self._ranges[i]
            if scaled & {i, j, size_of.get(i, i), size_of.get(j, j)}:  # the sign alone remains
                low, high = (0.0 if low >= 0 else -math.inf), math.inf
            numbers[i] = _within(numbers[j] + numbers[i], low, high)
            within.append((numbers[i], low, high))
        return numbers, within

    def ranged(self, numbers: Sequence[Any]) -> list[tuple[Any, float, float]]:
        """What is in a range at every instance, of its coordinates: numbers with both ends."""
        return self._before(numbers)[1]

    def outside(self, low: Numbers, high: Numbers) -> Any:
        """Boxes in which there is no instance, as a number is out of its range, (B,)."""
        empty = np.zeros(low.shape[1], dtype=bool)
        if self._ranges:
            for number, least, most in self.ranged(coordinates(low, high)):
                empty |= (number.lo > most) | (number.hi < least)
        return empty

    def idle(self, high: Numbers) -> Any:
        """Coordinates that change nothing in a box, as the size beside them is 0 there, (k, B)."""
        idle = np.zeros(high.shape, dtype=bool)
        first = len(self.coordinates) - len(self._surfaces)
        for number, surface in enumerate(self._surfaces):
            idle[list(surface)] |= high[first + number] == 0
        return idle

    def _reduce(self, weights: Weights) -> None:
        """Fix a positive number, or note which numbers are on the surface of their box."""
        used = [i for i, w in enumerate(weights) if w]
        positive = [i for i in used if self.coordinates[i].low > 0]
        if not positive:
            self._cones.append(tuple(used))
            return
        pivot = positive[0]
        one = self.coordinates[pivot]
        fixed = min(max(1.0, one.low), one.high)
        for i in used:
            if i == pivot:
                continue
            # where the pivot is multiplied to be at the fixed value
            power = float(weights[i] / weights[pivot])
            factors = sorted((fixed / end) ** power for end in (one.low, one.high))
            other = self.coordinates[i]
            if other.low > 0:
                low, high = other.low * factors[0], other.high * factors[1]
                wide = high > _WIDE * low
                made = Coordinate(
                    other.field, low * _LESS, high * _MORE, "ratio" if wide else "even"
                )
            else:
                factor = factors[1] * _MORE
                made = Coordinate(other.field, other.low * factor, other.high * factor, "zoom")
                self._radius[other.field] = max(self._radius[other.field], made.high)
            self.coordinates[i] = made
        self.coordinates[pivot] = Coordinate(one.field, fixed, fixed, one.kind)

    def symmetries_of(self, alike: Iterable[Sequence[Any]]) -> list[Weights]:
        """Weights under which the sides scale alike, a basis, of those that :meth:`_reduce` uses.

        Args:
            alike: what the weights have to be orthogonal to.
        """
        k = len(self.coordinates)
        rows = [[Fraction(x) for x in row] for row in alike]
        surfaces = {i for surface in self._surfaces for i in surface}
        for i, one in enumerate(self.coordinates):
            if i in surfaces or not _scales(self.space.fields[one.field]):
                rows.append([Fraction(int(i == j)) for j in range(k)])
        for name, domain in self.space.fields.items():
            at = self._at[name]
            if isinstance(domain, domains.Ball) and at:  # a vector, or a matrix, as a whole
                axes = 2 if isinstance(domain, domains.Contraction) else 1
                length = int(np.prod(domain.shape(self.sizes)[-axes:]))
                for i in at:
                    first = at[0] + (i - at[0]) // length * length
                    rows.append([Fraction(int(i == j) - int(first == j)) for j in range(k)])
        # positive numbers first: they are fixed where they can be
        order = sorted(range(k), key=lambda i: self.coordinates[i].low <= 0)
        basis = _orthogonal([[row[i] for i in order] for row in rows], k)
        back = sorted(range(k), key=lambda i: order[i])
        symmetries: list[Weights] = []
        taken: set[int] = set()
        for weights in (tuple(v[i] for i in back) for v in basis):
            used = {i for i, w in enumerate(weights) if w}
            cone = all(self.coordinates[i].low <= 0 for i in used)
            # numbers on the surface of one box are not on that of another one, too
            if self._useful(weights) and not (cone and used & taken):
                symmetries.append(weights)
                taken |= used if cone else set()
        return symmetries

    def _useful(self, weights: Weights) -> bool:
        if any(w and self.coordinates[i].low > 0 for i, w in enumerate(weights)):
            return True
        return all(w >= 0 for w in weights)

    def roots(self) -> tuple[Numbers, Numbers]:
        """Lower and upper ends of the boxes to start with, each (k, R).

        Raises:
            Unprovable: they are too many.
        """
        parts = [self._faces(cone) for cone in self._cones]
        parts += [self._faces(surface)[1:] for surface in self._surfaces]
        for name, domain in self.space.fields.items():
            if isinstance(domain, domains.Sphere):  # a number of size one, or a face of the cube
                length = domain.shape(self.sizes)[-1]
                at = self._at[name]
                rows = [at[k : k + length] for k in range(0, len(at), length)]
                parts += [self._faces(row)[1:] for row in rows]
        count = math.prod(len(part) for part in parts)
        if count > _MOST_ROOTS:
            raise Unprovable(f"there are {count} boxes to start with, and at most {_MOST_ROOTS}")
        low = np.array([c.low for c in self.coordinates], dtype=float)
        high = np.array([c.high for c in self.coordinates], dtype=float)
        boxes = []
        for faces in itertools.product(*parts):
            box = np.array([low, high])
            for group, number, end in faces:
                box[:, list(group) if number is None else number] = end
            boxes.append(box)
        whole = np.stack(boxes, axis=2)
        return whole[0], whole[1]

    def _faces(self, group: tuple[int, ...]) -> list[tuple[tuple[int, ...], int | None, float]]:
        """Zero, and each number at each end of its range."""
        faces: list[tuple[tuple[int, ...], int | None, float]] = [(group, None, 0.0)]
        for i in group:
            one = self.coordinates[i]
            faces += [(group, i, end) for end in (one.high, one.low) if end != 0]
        return faces

    def instance(self, numbers: Numbers) -> Fields:
        """The arrays (1, *shape) of an instance of the space at a point of its boxes, or near it.

        It is scaled so that its numbers lie in the ranges of the space, as far as they can.
        """
        ranges = Cover(self.space, self.sizes, charts=self.charts)
        scaled = np.asarray(numbers, dtype=float)
        if self.symmetries:
            weights = np.array(self.symmetries, dtype=float).T
            scaled = scaled * np.exp(weights @ self._scale(numbers, ranges.coordinates))
        return self.space.complete(ranges._arrays(scaled.tolist()))

    def _scale(self, numbers: Numbers, ranges: Sequence[Coordinate]) -> Numbers:
        """Logarithms of the scales with which the numbers lie farthest within their ranges."""
        from scipy.optimize import linprog

        count = len(self.symmetries)
        rows, most = [], []
        for i, (number, one) in enumerate(zip(np.abs(numbers), ranges, strict=True)):
            weights = [float(symmetry[i]) for symmetry in self.symmetries]
            if number > 0 and any(weights):
                rows.append([*weights, 1.0])
                most.append(math.log(max(one.high, -one.low) / number))
                if one.low > 0:
                    rows.append([*(-w for w in weights), 1.0])
                    most.append(math.log(number / one.low))
        ends = [(None, None)] * count + [(None, 1.0)]
        found = linprog([0.0] * count + [-1.0], A_ub=rows, b_ub=most, bounds=ends) if rows else None
        return np.zeros(count) if found is None or found.x is None else found.x[:count]

    def named(self, low: Numbers, high: Numbers) -> str:
        """A box, by the names of its coordinates."""
        parts, charts = [], " in the charts' coordinates" * bool(self.charts)
        first = len(self.coordinates) - len(self._surfaces)
        sizes = {"size": range(first, len(self.coordinates))} if self._surfaces else {}
        for name, at in (self._at | sizes).items():
            for number, i in enumerate(at):
                label = name if len(at) == 1 else f"{name}_{number + 1}"
                ends = f"{low[i]:.10g}" if low[i] == high[i] else f"[{low[i]:.10g}, {high[i]:.10g}]"
                parts.append(f"{label} {'=' if low[i] == high[i] else 'in'} {ends}")
        scaled = ", up to a scale" * bool(self.symmetries)
        return f"{', '.join(parts)[:200]}{charts}{scaled}"

    def fields(self, numbers: Sequence[Any]) -> Fields:
        """The arrays (1, *shape) of an instance with these coordinates, assumptions met."""
        arrays = self._arrays(numbers)
        if self.space.repair is None:
            return arrays
        if self.space.batched:
            return dict(call("repair", self.space.repair, arrays))
        one = call("repair", self.space.repair, {name: v[0] for name, v in arrays.items()})
        return {name: np.asarray(values, dtype=object)[None] for name, values in one.items()}

    def _arrays(self, numbers: Sequence[Any]) -> Fields:
        """The arrays (1, *shape) of the fields with these coordinates, before any repair."""
        numbers, _ = self._before(numbers)
        arrays: Fields = {}
        for name, domain in self.space.fields.items():
            shape = domain.shape(self.sizes)
            values = [numbers[i] for i in self._at[name]]
            if isinstance(domain, domains.Simplex):
                arrays[name] = _sticks(values, shape)
                continue
            array = _objects(values).reshape(1, *shape)
            within = isinstance(domain, domains.Ball) and not self._single(domain, shape)
            if within and name not in self._free:
                array = _pulled(domain, array, self._radius[name])
            arrays[name] = array
        return arrays

    @staticmethod
    def _single(domain: domains.Field, shape: tuple[int, ...]) -> bool:
        """Whether its vectors, or matrices, have one entry."""
        axes = 2 if isinstance(domain, domains.Contraction) else 1
        return all(length == 1 for length in shape[-axes:])


def charts_of(space: Space, sizes: Sizes) -> list[list[Chart]]:
    """Charts that are tried, in this order, where no box around some place shows anything.

    Sizes of vectors and of fields; then differences of the rows of a field, of fields of one shape,
    and of the parts of a distribution, with their sizes.
    """
    cover = Cover(space, sizes)
    fields = [(name, space.fields[name], list(at)) for name, at in cover._at.items() if at]
    real = [
        (name, at, domain.shape(sizes))
        for name, domain, at in fields
        if isinstance(domain, domains.Ball) or type(domain) is domains.Field
        if not isinstance(domain, domains.Sphere)
    ]
    found: list[list[Chart]] = []

    def add(charts: list[Chart]) -> None:
        sized = [chart for chart in charts if chart[0] == "from" or len(chart) > 2]
        if sized and sized not in found:
            found.append(sized)

    rows: list[Chart] = []
    whole: list[Chart] = []
    along: dict[int, list[Chart]] = {}
    for _, at, shape in real:
        length = shape[-1] if shape else 1
        rows += [("size", *at[i : i + length]) for i in range(0, len(at), length)]
        whole.append(("size", *at))
        for axis in range(len(shape) - 1 or len(shape)):
            table = np.moveaxis(np.array(at).reshape(shape), axis, 0).reshape(shape[axis], -1)
            if len(table) > 1:
                shifts = [
                    ("from", int(i), int(j))
                    for row in table[1:]
                    for i, j in zip(row, table[0], strict=True)
                ]
                along.setdefault(axis, []).extend([*shifts, ("size", *(i for _, i, _ in shifts))])
    everything = [i for _, at, _ in real for i in at]
    for charts in along.values():
        add(charts)
    add(whole)
    add(rows)
    add([("size", *everything)])
    for (_, first, one), (_, second, other) in itertools.combinations(real, 2):
        if one == other:
            shifts = [("from", j, i) for i, j in zip(first, second, strict=True)]
            add([*shifts, ("size", *second)])
            add([*shifts, ("size", *first, *second)])
    shares = [at for _, domain, at in fields if isinstance(domain, domains.Simplex)]
    for first, second in itertools.combinations(shares, 2):
        if len(first) == len(second):
            shifts = [("from", j, i) for i, j in zip(first, second, strict=True)]
            add([*shifts, ("size", *second)])
    return found


def independent(rows: Iterable[Sequence[Any]]) -> list[Weights]:
    """A basis of the same span, in reduced form.

    >>> [[str(x) for x in row] for row in independent([(2.0, 4.0), (1.0, 2.0)])]
    [['1', '2']]
    """
    # the order of a set must not matter
    exact = sorted([Fraction(x) for x in row] for row in rows)
    pivots = _reduced(exact)
    return [tuple(pivots[at]) for at in sorted(pivots)]


def symmetric(alike: set[tuple[float, ...]], weights: Weights) -> bool:
    """Whether weights are orthogonal to all of these differences of degrees."""
    return all(
        sum(Fraction(x) * w for x, w in zip(row, weights, strict=True)) == 0 for row in alike
    )


def _orthogonal(rows: list[list[Fraction]], k: int) -> list[list[Fraction]]:
    """A basis of the vectors that are orthogonal to these rows, reduced: first entries are 1.

    >>> [[str(x) for x in v] for v in _orthogonal([[Fraction(2), Fraction(-1)]], 2)]
    [['1', '2']]
    """
    pivots = _reduced(rows)
    free = [i for i in range(k) if i not in pivots]
    basis = []
    for i in free:
        vector = [Fraction(0)] * k
        vector[i] = Fraction(1)
        for pivot, row in pivots.items():
            vector[pivot] = -row[i]
        basis.append(vector)
    return list(_reduced(basis).values())


def _reduced(rows: list[list[Fraction]]) -> dict[int, list[Fraction]]:
    """Rows in reduced form, by the place of their leading 1 (Gauss and Jordan)."""
    pivots: dict[int, list[Fraction]] = {}
    for row in rows:
        rest = list(row)
        for at, known in pivots.items():
            if rest[at]:
                rest = [x - rest[at] * y for x, y in zip(rest, known, strict=True)]
        lead = next((i for i, x in enumerate(rest) if x), None)
        if lead is None:
            continue
        rest = [x / rest[lead] for x in rest]
        for at, known in pivots.items():
            if known[lead]:
                pivots[at] = [x - known[lead] * y for x, y in zip(known, rest, strict=True)]
        pivots[lead] = rest
    return pivots


def _coordinates(name: str, domain: domains.Field, shape: tuple[int, ...]) -> list[Coordinate]:
    count = int(np.prod(shape))
    if isinstance(domain, domains.Whole):
        return [Coordinate(name, float(domain.low), float(domain.high), "whole")] * count
    if isinstance(domain, domains.Interval):
        low, high = _outward(domain.low, -math.inf), _outward(domain.high, math.inf)
        wide = low > 0 and high > _WIDE * low
        return [Coordinate(name, low, high, "ratio" if wide else "even")] * count
    if isinstance(domain, domains.Simplex):
        rows = count // shape[-1]
        return [Coordinate(name, 0.0, 1.0, "even")] * (rows * (shape[-1] - 1))
    if isinstance(domain, domains.Ball):
        return [Coordinate(name, -1.0, 1.0, "even")] * count
    if type(domain) is not domains.Field:
        raise Unprovable(f"field `{name}` has a domain of its own, {type(domain).__name__}")
    most = float(domain.magnitude[1])
    return [Coordinate(name, -most, most, "zoom")] * count


def _outward(end: float, to: float) -> float:
    """An end of a range that stands for a decimal, such as 0.1: at most, or at least, this."""
    exact = Fraction(repr(float(end))) == Fraction(float(end))
    return float(end) if exact else math.nextafter(end, to)


def _scales(domain: domains.Field) -> bool:
    """Whether numbers of the domain are positive, or remain in it when they are made smaller."""
    if isinstance(domain, domains.Whole | domains.Simplex | domains.Sphere):
        return False
    return domain.high > 0 if isinstance(domain, domains.Interval) else True


def _within(number: Any, low: float, high: float) -> Any:
    """A number that lies in this range at every instance of its boxes."""
    if isinstance(number, float):
        return min(max(number, low), high)
    if not isinstance(number, Form):
        return number
    made = copied(number)
    lo, hi = np.maximum(made.lo, low), np.minimum(made.hi, high)
    some = lo <= hi  # elsewhere there is no instance, and nothing to say
    made.lo, made.hi = np.where(some, lo, made.lo), np.where(some, hi, made.hi)
    return made


def _objects(values: Sequence[Any]) -> Numbers:
    if all(isinstance(value, float) for value in values):
        return np.array(values, dtype=float)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _sticks(values: Sequence[Any], shape: tuple[int, ...]) -> Numbers:
    """Distributions (1, *shape): each part is a share of what those before it left."""
    rows, parts = int(np.prod(shape[:-1])), shape[-1]
    entries: list[Any] = []
    for row in range(rows):
        shares = values[row * (parts - 1) : (row + 1) * (parts - 1)]
        left: Any = constant(1) if any(isinstance(share, Form) for share in shares) else 1.0
        for share in shares:
            entries.append(left * share)
            left = left * (1 - share)
        entries.append(left)
    return _objects(entries).reshape(1, *shape)


def _pulled(domain: domains.Field, array: Numbers, radius: float) -> Numbers:
    """Points of the cube pulled onto the ball of this radius, or onto the unit sphere."""
    assert isinstance(domain, domains.Ball)
    size = domain.size(array)
    if isinstance(domain, domains.Sphere):
        return np.asarray(array / size)
    return np.asarray(array / np.maximum(size / radius, 1))
