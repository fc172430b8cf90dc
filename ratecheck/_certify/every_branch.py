"""Identities on every branch of their formulas: all outcomes of all comparisons, one by one.

A formula that compares numbers is another one for each outcome of the comparisons. Here each of
them is evaluated at a random point, wherever the point lies: the sides are equal as functions on
every branch, and so at every instance but for a null set, which is what :mod:`linsys.linalg.
branching` leaves out. Of the ways that comparisons may come out, those are left out that the ranges
of the space's numbers exclude, or what was compared before.

Where a rule needed a sign that may be another one at other points, nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linsys.linalg.branching import Branching, NoPoint
from ratecheck._certify.at_a_point import (
    CHANCE,
    MARGIN,
    WHOLE_POINTS,
    Broken,
    at,
    has_whole,
)
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.random_points import (
    Draw,
    NoInstance,
    Point,
    Source,
    Whole,
    anywhere,
    near_an_instance,
    repaired,
    whole_numbers,
)
from ratecheck._claims.claim import Claim
from ratecheck._claims.space import Sizes

#: So many branches are looked at.
MOST = 4096


class Open(Exception):
    """Of some branch it is not known whether the sides are equal there: why."""


@dataclass(frozen=True)
class Branches:
    """An identity that holds on every branch, for given sizes.

    Args:
        count: how many there are.
        free: whether maxima were new coordinates.
        chance: the logarithm to base 2 of the chance of an error, at most.
        ties: whether null sets are left out on which comparisons come out as nowhere else.
    """

    count: int
    free: bool
    chance: int
    ties: bool


def every_branch(claim: Claim, sizes: Sizes, draw: Draw) -> Branches:
    """Evaluate an identity on each of its branches.

    Raises:
        Open: there is one on which nothing is decided, or there are too many.
    """
    points: tuple[Point, ...] = (anywhere,)
    if claim.space.repair is not None:
        points = near_an_instance, repaired
    reason = ""
    for free in (True, False):
        for point in points:
            try:
                return _all_of(claim, sizes, draw, point, free)
            except Open as error:
                reason = str(error)
    raise Open(reason)


def _all_of(claim: Claim, sizes: Sizes, draw: Draw, point: Point, free: bool) -> Branches:
    bits = CHANCE + 64 + MARGIN
    each: Sequence[Whole] = [{}]
    if has_whole(claim):
        each = whole_numbers(claim.space, sizes) or [{}] * WHOLE_POINTS
    while True:
        count, worth, ties = 0, 0, False
        tried: list[Whole] = []
        for kept in each:
            tree = _tree(claim, sizes, draw, point, free, bits, kept, tried)
            count, worth, ties = count + tree[0], worth + tree[1], ties or tree[2]
        if not tried:
            raise Open("no instance was found")
        chance = worth.bit_length() - bits
        if chance < -CHANCE - MARGIN:
            return Branches(count, free, chance, ties)
        bits = CHANCE + worth.bit_length() + 2 * MARGIN


def _tree(
    claim: Claim,
    sizes: Sizes,
    draw: Draw,
    point: Point,
    free: bool,
    bits: int,
    kept: Whole,
    tried: list[Whole],
) -> tuple[int, int, bool]:
    """With given whole numbers how many branches there are, what the chance grows with, and ties.

    A point is drawn for each, so that comparisons come out as at the point where they are not
    forced to come out otherwise. Nothing is done with whole numbers that no instance has, or that
    were tried.
    """
    left: list[tuple[bool, ...]] = [()]
    first = True
    count, worth, ties = 0, 0, False
    while left:
        forced = left.pop()
        branching = Branching(forced, draw, bits, free)
        source = Source(draw, bits, branching, kept)
        try:
            found = at(claim, point, sizes, source)
        except NoPoint:
            found = None
        except (Broken, Unprovable) as error:
            if first and kept and isinstance(error, NoInstance):
                return 0, 0, False
            raise Open(str(error)) from error
        if found is not None and found.ruled:
            raise Open("a rule needs a sign that may be another one at other points")
        if len(branching.taken) < len(forced):
            raise Open("the branches are other ones at each point")
        if first:
            if source.whole in tried:
                return 0, 0, False
            kept, first = dict(source.whole), False
            tried.append(kept)
        elif source.whole != kept:
            raise Open("whole numbers are other ones at each point")
        count, ties = count + 1, ties or branching.ties
        worth += branching.compared if found is None else found.degree * found.drawn
        taken = branching.taken
        left += [(*taken[:k], not taken[k]) for k in range(len(forced), len(taken))]
        if count + len(left) > MOST:
            raise Open(f"there are more than {MOST} branches")
    return count, worth, ties
