"""Both sides of an identity at a random point, where they are equal."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linsys.linalg.branching import NoPoint
from linsys.linalg.degree_arithmetic import rational_arithmetic
from linsys.linalg.degrees import Rational, compared, comparisons
from linsys.linalg.formal import NotRational, has_atoms, is_ruled, sign
from ratecheck._certify.enclosures import Unprovable, both_sides, told
from ratecheck._certify.random_points import Point, Source, floats_of
from ratecheck._claims import fields as domains
from ratecheck._claims.claim import Claim
from ratecheck._claims.fields import magnitude_of
from ratecheck._claims.space import Fault, Sizes, quiet
from ratecheck._processes.limit import limit_in

#: The chance that a false identity is not noticed is below 2^-100.
CHANCE = 100
#: Bits of the coordinates for the combinations of sizes and what more is tried with more bits.
MARGIN = 10
#: Points where whole numbers are drawn, as a root may be a whole number for some of them alone.
WHOLE_POINTS = 12
#: What float64 may lose, of the largest entry of both sides: ten of its sixteen digits.
_LOST = 1e-6
#: And beside that, of the squared largest number of an instance, where terms cancel.
_CANCELLED = 1e-12


class Broken(Exception):
    """An identity does not hold at a point, or at an ``instance``: plain lists by field."""

    def __init__(self, reason: str, instance: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.instance = instance


@dataclass
class AtPoint:
    """What is known of a point at which the sides are equal.

    Args:
        degree: bound of the degree of the difference's numerator, and of all that was compared.
        drawn: points, with those that the space does not contain.
        outcomes: of the comparisons, as they came out.
        formal: whether roots, exponentials or logarithms take part.
        ruled: whether a rule needed a sign that may be another one at other points.
    """

    degree: int
    drawn: int
    outcomes: tuple[bool, ...]
    formal: bool
    ruled: bool


def has_whole(claim: Claim) -> bool:
    """Whether a field holds whole numbers."""
    return any(isinstance(one, domains.Whole) for one in claim.space.fields.values())


def at(claim: Claim, point: Point, sizes: Sizes, source: Source) -> AtPoint:
    """Both sides at a point of this kind."""
    try:
        with rational_arithmetic(source.branching), quiet():
            fields, drawn = point(claim.space, sizes, source)
            views = claim.space.views(fields)
            if source.branching is not None and source.branching.assuming:
                _assume(claim, views)
            sides = both_sides(claim, views, "a float")
            pairs = zip(*(side.ravel().tolist() for side in sides), strict=True)
            branch = source.branching is not None
            degree = max(_difference(one, other, branch) for one, other in pairs)
            known = AtPoint(compared() + degree, drawn, comparisons(), has_atoms(), is_ruled())
            if not branch and not source.real:
                floats = {name: floats_of(values) for name, values in fields.items()}
                exact = [floats_of(np.asarray(Rational(0) + side)) for side in sides]
        if not branch and not source.real:
            _check_floats(claim, floats, exact)
        return known
    except (Broken, Unprovable):
        raise
    except SystemError as error:
        raise limit_in(error) or error from None
    except Exception as error:  # of the claim's function, whatever it does with these numbers
        cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
        if isinstance(cause, NoPoint):
            raise cause from None
        raise Unprovable(told(cause)) from error


def _assume(claim: Claim, views: Any) -> None:
    """Refuse a branch on which an assumption of the claim is not met; one that cannot be evaluated
    in this arithmetic is left out.

    Raises:
        NoPoint: it is one.
    """
    view = views if claim.space.batched else views[0]
    for predicate in (*claim.space.assumes.values(), *claim.space.given.values()):
        met: Any = True
        with contextlib.suppress(NotRational, TypeError):
            met = predicate(view)
        if not np.all(met):
            raise NoPoint


def _check_floats(claim: Claim, floats: dict[str, Any], exact: Sequence[Any]) -> None:
    """Refuse a function that is another formula of ordinary numbers, in float64."""
    with quiet():
        views = claim.space.views(floats)
        sides = both_sides(claim, views)
        size = max(float(np.abs(s[np.isfinite(s)]).max(initial=0.0)) for s in exact)
        least = _CANCELLED * max(1.0, float(magnitude_of([*floats.values()]).max())) ** 2
        for name, side, true in zip(("measured", "bound"), sides, exact, strict=True):
            apart = np.abs(side.astype(float) - true).ravel()
            if (apart > _LOST * size + least).any():
                found = [float(s.ravel()[int(np.nanargmax(apart))]) for s in (side, true)]
                raise Unprovable(
                    f"`{name}` must be the same in float64 and in exact numbers, but for rounding; "
                    f"found {found[0]:.9g} and {found[1]:.9g}: it depends on the type of numbers"
                )


def _difference(measured: Any, bound: Any, of_a_branch: bool) -> int:
    """The degree of the difference of two sides that are equal.

    Nothing is said of a branch on which a side is not a number.
    """
    sides: list[Rational] = [Rational(0) + side for side in (measured, bound)]
    if of_a_branch and any(not side.finite and math.isnan(side.value) for side in sides):
        return 0
    if any(not side.finite for side in sides):
        one, other = (side.nearest() if not side.finite else 0.0 for side in sides)
        if one != other:  # an infinite side is equal to one that is infinite in the same way
            names = ("a finite number" if side.finite else f"{side.value}" for side in sides)
            raise Broken(f"the sides differ: {' and '.join(names)}, at a random point")
        return 0
    difference: Rational = sides[0] - sides[1]
    if sign(difference.element) != 0:
        raise Broken(f"the sides differ by {difference.nearest():.6g} at a random point")
    return difference.top
