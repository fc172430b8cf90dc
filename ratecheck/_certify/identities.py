"""Identities, decided by exact arithmetic at random points.

The numbers of an instance are polynomials or quotients of them in coordinates u, whole numbers from
0 to 2^k: an interval [a, b] holds a + (b - a) u / 2^k, a distribution u_i / sum u. Where both sides
are quotients of polynomials, too, their difference is P / Q with a known bound D of the degree of
P. If it is not zero for all u, it is zero at a random point with a chance of at most D / 2^k
(Schwartz and Zippel). Where roots, exponentials or logarithms take part, the difference is zero by
rules that are true of these functions, and D bounds all comparisons of numbers that the rules need
(:mod:`linsys.linalg.formal`). k is chosen so that all points together have a chance below 2^-100.

What is said of a claim is fixed before the points are drawn: D counts as the bound that is checked
at the end, and no comparison after the first wrong one matters, as up to there all comparisons are
those of a computation with functions.

A formula that compares numbers is another one for each outcome of the comparisons: what is decided
are those that the points meet. Whole-number fields are taken as they are drawn. Where the
space has joint assumptions the points are drawn from a small box around an instance that meets
them: an identity of such functions that holds in a box holds wherever they are defined, and their
comparisons come out the same. Sizes at which nothing is decided are left out, and the certificate
says so.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linsys.linalg import no_floats
from linsys.linalg.balls import exact_value
from linsys.linalg.degrees import Rational, compared, comparisons, rational_arithmetic
from linsys.linalg.formal import has_atoms, sign
from ratecheck._certify.enclosures import Unprovable, aligned, told
from ratecheck._claims import fields as domains
from ratecheck._claims.claim import Claim
from ratecheck._claims.space import Fault, Sizes, Space, quiet
from ratecheck._processes.limit import TimeLimit, time_limit

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
#: Bits of the coordinates for the combinations of sizes and what more is tried with more bits.
_MARGIN = 10
#: The share of a limit of time that one combination of sizes may take.
_SHARE = 1 / 8

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
        sizes: the combinations of sizes for which it is decided.
        all_sizes: whether these are all that the space has.
        left: how many were tried in vain, and why the first of them; empty if none was.
        degree: bound of the degree of the difference's numerator, or of all that was compared
            together, the largest of all points.
        points: how many were drawn, with those that the space does not contain.
        branches: outcomes of the comparisons of the formula that the points met; 1 without any.
        compares: whether the formula compares numbers that depend on the point.
        formal: whether roots, exponentials or logarithms take part.
        chance: the logarithm to base 2 of the chance that a false identity was not noticed, at
            most.
    """

    sizes: tuple[Sizes, ...]
    all_sizes: bool
    left: str
    degree: int
    points: int
    branches: int
    compares: bool
    formal: bool
    chance: int


@dataclass
class _Point:
    """What is known of one point: ``degree`` as in :class:`Decided`, and the others drawn."""

    degree: int
    drawn: int
    outcomes: tuple[bool, ...]
    formal: bool


def decide(
    claim: Claim,
    draw: Draw = secrets.randbelow,
    sizes: Sequence[Sizes] | None = None,
    limit: float | None = None,
) -> Decided:
    """Evaluate an identity at random points.

    Args:
        claim: one whose two sides are to be equal.
        draw: of random whole numbers.
        sizes: the combinations of sizes for which it is to be decided; by default those of the
            space, at most 64 of them, for which that succeeds.
        limit: seconds of CPU time.

    Raises:
        Unprovable: the arithmetic does not show that the sides are equal, or no point is in the
            space.
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
    tried = _some(every) if sizes is None else list(sizes)
    decided: dict[int, tuple[list[_Point], int]] = {}
    errors: list[Unprovable | TimeLimit] = []
    start = time.process_time()
    for number in sorted(range(len(tried)), key=lambda k: sum(tried[k].values())):
        left = math.inf if limit is None else limit - (time.process_time() - start)
        try:
            if limit is None:
                decided[number] = _at_points(claim, tried[number], draw)
            elif left > 0:
                with time_limit(min(left, max(_SHARE, 1 / len(tried)) * limit)):
                    decided[number] = _at_points(claim, tried[number], draw)
            else:
                raise TimeLimit(f"no answer within {limit:g} s of CPU time")
        except (Unprovable, TimeLimit, SystemError) as error:
            reason = _reason(error)
            if sizes is not None:
                raise reason from error
            errors.append(reason)
    if not decided:
        raise errors[0]
    known = tuple(tried[number] for number in sorted(decided))
    points = [point for some, _ in decided.values() for point in some]
    branches = {(number, point.outcomes) for number, (some, _) in decided.items() for point in some}
    return Decided(
        sizes=known,
        all_sizes=len(known) == len(every),
        left=f"{len(errors)} others: {errors[0]}" if errors else "",
        degree=max(point.degree for point in points),
        points=sum(point.drawn for point in points),
        branches=len(branches),
        compares=any(point.outcomes for point in points),
        formal=any(point.formal for point in points),
        chance=max(chance for _, chance in decided.values()) + len(known).bit_length(),
    )


def _reason(error: BaseException) -> Unprovable | TimeLimit:
    """Why nothing is decided; a limit that ends a product of matrices comes as a SystemError."""
    cause = error.__cause__ if isinstance(error, SystemError) else error
    if not isinstance(cause, Unprovable | TimeLimit):
        raise error
    return cause


def _some(every: Sequence[Sizes]) -> list[Sizes]:
    """At most 64 combinations of sizes, evenly spaced."""
    pick = np.linspace(0, len(every) - 1, min(len(every), COMBINATIONS)).round().astype(int)
    return [every[k] for k in pick]


def _at_points(claim: Claim, sizes: Sizes, draw: Draw) -> tuple[list[_Point], int]:
    """Points at which the sides are equal, and the chance of an error, to base 2."""
    bits = CHANCE + 64
    drawn_as_they_are = any(isinstance(d, domains.Whole) for d in claim.space.fields.values())
    count = WHOLE_POINTS if drawn_as_they_are else POINTS
    while True:
        points: list[_Point] = []
        chance = -math.inf
        while len(points) < count and chance < -CHANCE - _MARGIN:
            points.append(_at_a_point(claim, sizes, bits, draw))
            most = max(point.degree for point in points) * sum(point.drawn for point in points)
            chance = most.bit_length() - bits
        if chance < -CHANCE - _MARGIN:
            return points, int(chance)
        bits = CHANCE + most.bit_length() + 2 * _MARGIN


def _at_a_point(claim: Claim, sizes: Sizes, bits: int, draw: Draw) -> _Point:
    """Both sides at a random point, where they are equal."""
    space = claim.space
    if space.repair is None:
        return _at(claim, _anywhere, sizes, bits, draw)
    try:
        return _at(claim, _near_an_instance, sizes, bits, draw)
    except (Broken, Unprovable) as error:
        if error.__cause__ is not None:  # it is the formula that is no quotient of polynomials
            raise
        return _at(claim, _repaired, sizes, bits, draw)  # an equation, which a box breaks


def _at(claim: Claim, point: Point, sizes: Sizes, bits: int, draw: Draw) -> _Point:
    try:
        with rational_arithmetic(), quiet():
            fields, drawn = point(claim.space, sizes, bits, draw)
            views = claim.space.views(fields)
            with no_floats("a float"):
                answer = claim.measure(views if claim.space.batched else views[0])
            sides = np.broadcast_arrays(*aligned(*(np.asarray(side) for side in answer)))
            pairs = zip(*(side.ravel().tolist() for side in sides), strict=True)
            degree = compared() + max(_difference(*pair) for pair in pairs)
            return _Point(degree, drawn, comparisons(), has_atoms())
    except (Fault, ArithmeticError, TypeError, ValueError) as error:
        cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
        raise Unprovable(told(cause)) from error


def _difference(measured: Any, bound: Any) -> int:
    """The degree of the difference of two sides that are equal."""
    difference: Rational = Rational(0) + measured - bound
    if not difference.finite or sign(difference.element) != 0:
        raise Broken(f"the sides differ by {difference.nearest():.6g} at a random point")
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
    """Values of a domain, in random coordinates, in a small box around given ones (1, *shape)."""
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
    flat = [x.nearest() for x in values.ravel().tolist()]
    return np.array(flat, dtype=float).reshape(values.shape)
