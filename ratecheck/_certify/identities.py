"""Identities of rational functions, decided by exact arithmetic at random points.

The numbers of an instance are polynomials or quotients of them in coordinates u, whole numbers from
0 to 2^k: an interval [a, b] holds a + (b - a) u / 2^k, a distribution u_i / sum u. Where both sides
are quotients of polynomials, too, their difference is P / Q with a known bound D of the degree of
P. If it is not zero for all u, it is zero at a random point with a chance of at most D / 2^k
(Schwartz and Zippel). k is chosen so that all points together have a chance below 2^-100.

A formula that compares numbers is another quotient for each outcome of the comparisons: what is
decided are those that the points meet. Whole-number fields are taken as they are drawn. Where the
space has joint assumptions the points are drawn from a small box around an instance that meets
them: an identity of quotients that holds in a box holds wherever they are defined.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linsys.linalg import no_floats
from linsys.linalg.balls import exact_value
from linsys.linalg.degrees import (
    NotRational,
    Rational,
    comparisons,
    degree_of_singular,
    rational_arithmetic,
)
from ratecheck._certify.enclosures import Unprovable, aligned, told
from ratecheck._claims import fields as domains
from ratecheck._claims.claim import Claim
from ratecheck._claims.space import Fault, Sizes, Space, quiet

#: The chance that a false identity is not noticed is below 2^-100.
CHANCE = 100
#: Points for each combination of sizes, and how many combinations are tried at most.
POINTS, COMBINATIONS = 3, 64
#: Points where whole numbers are drawn, as a root may be a whole number for some of them alone.
WHOLE_POINTS = 12
#: So often a point is drawn anew where the claim's space does not contain it.
_DRAWS = 50
#: Width of the box around an instance.
_BOX = 2.0**-20
#: Bits of the coordinates beyond the chance and the degree, for the number of points.
_MARGIN = 12

#: A random whole number below a limit.
Draw = Callable[[int], int]
#: A random point of a space, of these sizes and with so many bits, and how many were drawn.
Point = Callable[[Space, Sizes, int, Draw], tuple[dict[str, Any], int]]


class Broken(Exception):
    """An identity does not hold at a point."""


@dataclass(frozen=True)
class Decided:
    """An identity that holds at all points.

    Args:
        sizes: the combinations of sizes that were tried.
        all_sizes: whether these are all that the space has.
        degree: bound of the degree of the difference's numerator, the largest of all points.
        bits: of the coordinates.
        points: how many were drawn, with those that the space does not contain.
        branches: outcomes of the comparisons of the formula that the points met; 1 without any.
        compares: whether the formula compares numbers that depend on the point.
    """

    sizes: tuple[Sizes, ...]
    all_sizes: bool
    degree: int
    bits: int
    points: int
    branches: int
    compares: bool

    @property
    def chance(self) -> int:
        """The logarithm to base 2 of the chance that a false identity was not noticed, at most."""
        return (self.degree * self.points).bit_length() - self.bits


def decide(claim: Claim, draw: Draw = secrets.randbelow) -> Decided:
    """Evaluate an identity at random points.

    Args:
        claim: one whose two sides are to be equal.
        draw: of random whole numbers.

    Raises:
        Unprovable: a side is no quotient of polynomials, or no point is in the space.
        Broken: the sides differ.

    >>> from ratecheck import claim, reals
    >>> @claim(
    ...     id="mine.binomial", source="", kind="identity", text="",
    ...     fields={"x": reals(), "y": reals()},
    ... )
    ... def binomial(x, y):
    ...     return (x + y) ** 2, x * x + 2 * x * y + y * y
    >>> decided = decide(binomial)
    >>> decided.degree, decided.chance < -100
    (2, True)
    """
    every = claim.space.all_sizes()
    pick = np.linspace(0, len(every) - 1, min(len(every), COMBINATIONS)).round().astype(int)
    sizes = tuple(every[k] for k in pick)
    bits = CHANCE + 64
    while True:
        decided = _decide(claim, sizes, bits, draw)
        if decided.chance < -CHANCE:
            return decided
        bits = CHANCE + decided.degree.bit_length() + decided.points.bit_length() + _MARGIN


def _decide(claim: Claim, sizes: tuple[Sizes, ...], bits: int, draw: Draw) -> Decided:
    degree, points, branches = 0, 0, set()
    drawn_as_they_are = any(isinstance(d, domains.Whole) for d in claim.space.fields.values())
    for one in sizes:
        for _ in range(WHOLE_POINTS if drawn_as_they_are else POINTS):
            difference, drawn, outcomes = _at_a_point(claim, one, bits, draw)
            points += drawn
            degree = max(degree, difference)
            branches.add((tuple(one.items()), outcomes))
    every = len(sizes) == len(claim.space.all_sizes())
    compares = any(outcomes for _, outcomes in branches)
    return Decided(sizes, every, degree, bits, points, len(branches), compares)


def _at_a_point(
    claim: Claim, sizes: Sizes, bits: int, draw: Draw
) -> tuple[int, int, tuple[bool, ...]]:
    """The degree of the difference of the sides, the points drawn, and the comparisons."""
    space = claim.space
    if space.repair is None:
        return _at(claim, _anywhere, sizes, bits, draw)
    try:
        return _at(claim, _near_an_instance, sizes, bits, draw)
    except (Broken, Unprovable) as error:
        if error.__cause__ is not None:  # it is the formula that is no quotient of polynomials
            raise
        return _at(claim, _repaired, sizes, bits, draw)  # an equation, which a box breaks


def _at(
    claim: Claim, point: Point, sizes: Sizes, bits: int, draw: Draw
) -> tuple[int, int, tuple[bool, ...]]:
    try:
        with rational_arithmetic(), quiet():
            fields, drawn = point(claim.space, sizes, bits, draw)
            views = claim.space.views(fields)
            with no_floats("a float"):
                answer = claim.measure(views if claim.space.batched else views[0])
            sides = np.broadcast_arrays(*aligned(*(np.asarray(side) for side in answer)))
            pairs = zip(*(side.ravel().tolist() for side in sides), strict=True)
            degree = max(degree_of_singular(), *(_difference(*pair) for pair in pairs))
            return degree, drawn, tuple(comparisons())
    except (Fault, ArithmeticError, TypeError, ValueError) as error:
        cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
        raise Unprovable(told(cause)) from error


def _difference(measured: Any, bound: Any) -> int:
    """The degree of the difference of two sides that are equal."""
    difference: Rational = Rational(0) + measured - bound
    if difference.what:
        raise NotRational(f"a side is {difference.what}, or computed from one")
    if difference.value != 0:
        raise Broken(f"the sides differ by {_float(difference):.6g} at a random point")
    return difference.top


def _anywhere(space: Space, sizes: Sizes, bits: int, draw: Draw) -> tuple[dict[str, Any], int]:
    """A random instance of a space without joint assumptions, and how many were drawn."""
    for number in range(1, _DRAWS + 1):
        fields = {
            name: _values(domain, (1, *domain.shape(sizes)), bits, draw)
            for name, domain in space.fields.items()
        }
        if space.passing({name: _floats(values) for name, values in fields.items()})[0]:
            return fields, number
    raise Unprovable(f"of {_DRAWS} random points none meets what the claim is given")


def _repaired(space: Space, sizes: Sizes, bits: int, draw: Draw) -> tuple[dict[str, Any], int]:
    """A random point of the domains, repaired by quotients of polynomials."""
    assert space.repair is not None
    fields, drawn = _anywhere(replace(space, repair=None, given={}), sizes, bits, draw)
    if space.batched:
        moved = dict(space.repair(fields))
    else:
        one = space.repair({name: values[0] for name, values in fields.items()})
        moved = {name: np.asarray(values)[None] for name, values in one.items()}
    rational = {
        name: _array([Rational(x) for x in np.ravel(v).tolist()], np.shape(v))
        for name, v in moved.items()
    }
    if not space.meets({name: _floats(values) for name, values in rational.items()})[0]:
        raise Unprovable("a random point does not meet the assumptions")
    return rational, drawn


def _near_an_instance(
    space: Space, sizes: Sizes, bits: int, draw: Draw
) -> tuple[dict[str, Any], int]:
    """A random point of a box around an instance that meets the joint assumptions.

    An identity that holds there holds wherever its two sides are these quotients.
    """
    layout = space.layout(sizes)
    for number in range(1, _DRAWS + 1):
        rng = np.random.default_rng(draw(2**63))
        centre = layout.decode(rng.uniform(0.1, 0.9, size=(1, layout.coordinates)))
        if not all(np.isfinite(values).all() for values in centre.values()):
            continue
        fields = {
            name: _values_near(domain, centre[name], bits, draw)
            for name, domain in space.fields.items()
        }
        if space.meets({name: _floats(values) for name, values in fields.items()})[0]:
            return fields, number
    raise Unprovable(f"of {_DRAWS} random points none meets the assumptions: they are equations")


def _numbers(low: Any, width: Any, bits: int, draw: Draw) -> Any:
    """Numbers in [low, low + width), of degree one; arrays of fractions."""
    drawn = [
        Rational(exact_value(start) + exact_value(length) * draw(2**bits) / 2**bits, 1)
        for start, length in zip(np.ravel(low).tolist(), np.ravel(width).tolist(), strict=True)
    ]
    return _array(drawn, np.shape(low))


def _values(domain: domains.Field, shape: tuple[int, ...], bits: int, draw: Draw) -> Any:
    """Values of a domain, as polynomials or quotients of them in random coordinates."""

    def between(low: float, high: float, at: tuple[int, ...] = shape) -> Any:
        return _numbers(np.full(at, low), np.full(at, high) - low, bits, draw)

    if isinstance(domain, domains.Whole):
        count = int(domain.high) - int(domain.low) + 1
        drawn = [Rational(int(domain.low) + draw(count)) for _ in range(int(np.prod(shape)))]
        return _array(drawn, shape)
    if isinstance(domain, domains.Interval):
        return between(domain.low, domain.high)
    if isinstance(domain, domains.Simplex):
        return _normalised(between(0.001, 1.0))
    if isinstance(domain, domains.Sphere):
        if shape[-1] == 1:
            return _array([Rational(2 * draw(2) - 1) for _ in range(int(np.prod(shape)))], shape)
        return _on_the_sphere(between(-2.0, 2.0, (*shape[:-1], shape[-1] - 1)))
    if isinstance(domain, domains.Ball):  # and matrices: within, for the sum of squares is below 1
        axes = 2 if isinstance(domain, domains.Contraction) else 1
        return between(-1.0, 1.0) / int(np.prod(shape[-axes:]))
    return between(-1.0, 1.0)


def _values_near(domain: domains.Field, centre: Any, bits: int, draw: Draw) -> Any:
    """The same in a small box around given values (1, *shape)."""
    if isinstance(domain, domains.Whole):
        return _array([Rational(int(x)) for x in centre.ravel().tolist()], centre.shape)
    if isinstance(domain, domains.Sphere):
        if centre.shape[-1] == 1:
            return _array([Rational(round(x)) for x in centre.ravel().tolist()], centre.shape)
        t = centre[..., :-1] / (1 - np.minimum(centre[..., -1:], 0.99))
        return _on_the_sphere(_numbers(t, np.full(t.shape, _BOX), bits, draw))
    near = _numbers(centre, np.full(centre.shape, _BOX), bits, draw)
    return _normalised(near) if isinstance(domain, domains.Simplex) else near


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


def _floats(values: Any) -> Any:
    flat = [_float(x) for x in values.ravel().tolist()]
    return np.array(flat, dtype=float).reshape(values.shape)


def _float(number: Rational) -> float:
    return int(number.value.p) / int(number.value.q) if number.finite else float(number.value)
