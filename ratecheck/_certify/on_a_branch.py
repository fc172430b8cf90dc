"""Instances on one branch of a formula: those at which its comparisons come out in a given way.

How far an instance is from a branch is what its comparisons miss together, by the numbers that are
compared. It is made small over the unit cube of the space's coordinates, from random points and
corners, so that a branch is found that no random point meets.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linsys.linalg.branching import Branching, NoPoint, Step
from ratecheck._certify.at_a_point import Broken, at
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.random_points import Draw, Point, Source, Whole, repaired
from ratecheck._claims.certificates import certify
from ratecheck._claims.claim import Claim
from ratecheck._claims.fields import Numbers
from ratecheck._claims.places import here, line_of
from ratecheck._claims.space import Fault, Fields, Sizes
from ratecheck._search.ascent import Climb
from ratecheck._verdicts.verdict import plain

#: Random starts, how many of the nearest are climbed from, and with how many evaluations each.
_STARTS, _CLIMBS, _BUDGET = 24, 3, 600
#: Bits of what is drawn beside an instance, such as new coordinates.
_BITS = 64
#: Numbers of the nearest instance are rounded to so many digits, as a branch may be one point wide.
_DIGITS = (0, 1, 2, 4, 8)
#: What stands for the distance from a branch where it is not a number.
_FAR = 1e9
_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
#: The comparisons of so many lines are named.
_NAMED = 4


@dataclass(frozen=True)
class Branch:
    """One branch of a claim's formula.

    Args:
        claim: the claim.
        sizes: of its instances.
        point: how its points are drawn.
        taken: the outcomes of its comparisons.
        whole: whole numbers of its instances.
        assuming: whether the first comparisons are those of the claim's assumptions.
    """

    claim: Claim
    sizes: Sizes
    point: Point
    taken: tuple[bool, ...]
    whole: Whole
    assuming: bool = False

    def at_a_point(self, draw: Draw, bits: int, given: Fields | None = None) -> Branching:
        """What is compared on it, at an instance or at a random point."""
        branching = Branching(self.taken, draw, bits, False, self.assuming, place=here)
        source = Source(draw, bits, branching, self.whole, given=given or {})
        with contextlib.suppress(NoPoint, Broken, Unprovable):
            at(self.claim, self.point, self.sizes, source)
        return branching

    def steps(self, draw: Draw, given: Fields | None = None) -> list[Step]:
        """Its comparisons, at an instance or at a random point."""
        branching = self.at_a_point(draw, _BITS, given)
        if len(branching.taken) < len(self.taken):  # it ended before
            return [*branching.steps, Step("", True, _FAR, None)]
        return branching.steps


def named(branch: Branch, draw: Draw) -> str:
    """Which branch it is: its comparisons, with their lines and outcomes."""
    told: dict[str, list[str]] = {}
    for step in branch.steps(draw):
        if step.place is not None:
            outcome = f"{_SIGNS[step.relation]} is {'true' if step.outcome else 'false'}"
            outcomes = told.setdefault(line_of(step.place), [])
            outcomes += [outcome] if outcome not in outcomes else []
    lines = [f"{line}: {', '.join(outcomes)}" for line, outcomes in told.items()]
    more = f"; and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return f"where {'; '.join(lines[:_NAMED])}{more}" if lines else "on a branch"


class _Found(Exception):
    """An instance at which the sides differ."""

    def __init__(self, fields: Fields) -> None:
        super().__init__()
        self.fields = fields


class _Late(Exception):
    """The time is over."""


def instance_on(branch: Branch, draw: Draw, seconds: float) -> Mapping[str, Any] | None:
    """An instance at which the sides differ, of those near a branch; None where none is found.

    Args:
        branch: one on which the sides differ as functions.
        draw: of whole numbers.
        seconds: of CPU time, and that of one evaluation more.

    Returns:
        Plain lists by field.
    """
    if seconds > 0:
        try:
            _look(branch, draw, time.process_time() + seconds)
        except _Found as found:
            return plain(found.fields)
    return None


def _look(branch: Branch, draw: Draw, end: float) -> None:
    """Look for an instance at which the sides differ, which is raised."""
    space = branch.claim.space
    # a branch of what is repaired is one of the repair, too
    drawn = replace(space, repair=None, assumes={}) if branch.point is repaired else space
    layout = drawn.layout(branch.sizes)
    rng = np.random.default_rng(draw(2**63))

    def decoded(coordinates: Numbers) -> Fields:
        fields = layout.decode(coordinates)
        whole = {
            name: np.reshape(np.asarray(values, dtype=float), fields[name].shape)
            for name, values in branch.whole.items()
        }
        return drawn.complete({**fields, **whole})

    def near(points: Numbers) -> Numbers:
        if time.process_time() > end:
            raise _Late
        return np.array([-_missed(branch, draw, decoded(one[None])) for one in points])

    climb = None
    with contextlib.suppress(_Late):
        starts = np.vstack([layout.ends(), rng.uniform(size=(_STARTS, layout.coordinates))])
        for start in starts[np.argsort(-near(starts), kind="stable")[:_CLIMBS]]:
            climb = Climb(near, start, _BUDGET, rng)
            climb.run()
            _try_rounded(branch, decoded(climb.best[None]))
    if climb is not None:
        _try_rounded(branch, decoded(climb.best[None]))


def _missed(branch: Branch, draw: Draw, fields: Fields) -> float:
    """How far an instance is from a branch; one that is on it and breaks the claim is raised."""
    missed = sum(step.missed for step in branch.steps(draw, fields))
    if missed == 0:
        _try(branch, fields)
    return float(min(missed, _FAR))


def _try_rounded(branch: Branch, fields: Fields) -> None:
    """Look whether the sides differ at an instance, or at one near it of fewer digits."""
    _try(branch, fields)
    for digits in _DIGITS:
        _try(branch, {name: np.round(values, digits) for name, values in fields.items()})


def _try(branch: Branch, fields: Fields) -> None:
    """Raise an instance at which the sides differ in high precision."""
    space = branch.claim.space
    with contextlib.suppress(Fault):
        whole = space.complete(fields)
        if space.meets(whole)[0] and certify(branch.claim, whole).violated:
            raise _Found(whole)
