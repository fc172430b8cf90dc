"""Identities on every branch of their formulas: all outcomes of all comparisons, one by one.

A formula that compares numbers is another one for each outcome of the comparisons. Here each of
them is evaluated at a random point, wherever the point lies: the sides are equal as functions on
every branch, and so at every instance but for a null set, which is what :mod:`linsys.linalg.
branching` leaves out. Of the ways that comparisons may come out, those are left out that the ranges
of the space's numbers exclude, or what was compared before.

Where a rule needed a sign that may be another one at other points, nothing is concluded. Where the
sides differ as functions on a branch, it may have no instance, as its comparisons exclude each
other (:mod:`ratecheck._certify.no_instance`); else an instance is looked for, which breaks the
claim. At last the branches are those of the claim's assumptions as well, whose comparisons come
first: what they say of numbers leaves ways out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

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
from ratecheck._certify.no_instance import nowhere
from ratecheck._certify.on_a_branch import Branch, instance_on, named
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
from ratecheck._processes.limit import TimeLimit

#: So many branches are looked at.
MOST = 4096
#: With more branches on which nothing is decided no others are looked at.
_MOST_OPEN = 64
#: CPU seconds in which instances are looked for on the branches of given sizes where sides differ.
_SECONDS = 10.0
#: With a smaller share of them left no more is looked for.
_LEAST = 0.1


class Open(Exception):
    """Of some branch it is not known whether the sides are equal there: why.

    Args:
        reason: in a line.
        differ: whether the sides differ there as functions, and no instance on it is known.
    """

    def __init__(self, reason: str, differ: bool = False) -> None:
        super().__init__(reason)
        self.differ = differ


@dataclass(frozen=True)
class Branches:
    """An identity that holds on every branch, for given sizes.

    Args:
        count: how many there are.
        free: whether maxima were new coordinates.
        chance: the logarithm to base 2 of the chance of an error, at most.
        ties: whether null sets are left out on which comparisons come out as nowhere else.
        empty: how many times comparisons excluded each other, on branches that are left out.
    """

    count: int
    free: bool
    chance: int
    ties: bool
    empty: int


def every_branch(claim: Claim, sizes: Sizes, draw: Draw) -> Branches:
    """Evaluate an identity on each of its branches.

    Raises:
        Open: there is one on which nothing is decided, or there are too many.
        Broken: the sides differ at an instance on one of them.
    """
    points: tuple[Point, ...] = (anywhere,)
    if claim.space.repair is not None:
        points = near_an_instance, repaired
    reasons: list[Open] = []
    ways = [_Way(free=True), _Way()]
    if claim.space.assumes or claim.space.given:
        ways = [_Way(free=True), _Way(brief=True), _Way(assuming=True)]
    for way in ways:
        for point in points:
            try:
                return _all_of(claim, sizes, draw, point, way)
            except Open as error:
                reasons.append(error)
            except TimeLimit:
                if not any(error.differ for error in reasons):
                    raise
    raise max(reversed(reasons), key=lambda error: error.differ)


@dataclass(frozen=True)
class _Way:
    """How branches are looked at.

    Args:
        free: whether maxima are new coordinates.
        assuming: whether the first comparisons are those of the claim's assumptions.
        brief: whether nothing is looked at any more where something is open, as another way comes.
    """

    free: bool = False
    assuming: bool = False
    brief: bool = False


def _all_of(claim: Claim, sizes: Sizes, draw: Draw, point: Point, way: _Way) -> Branches:
    bits = CHANCE + 64 + MARGIN
    each: Sequence[Whole] = [{}]
    if has_whole(claim):
        each = whole_numbers(claim.space, sizes) or [{}] * WHOLE_POINTS
    while True:
        looked = _Looked(claim, sizes, draw, point, way, bits)
        try:
            for kept in each:
                looked.at_all(kept)
        except Open as error:
            looked.reasons.append(str(error))
        except TimeLimit as error:
            if not looked.differ:
                raise
            looked.reasons.append(str(error))
        looked.judge()
        chance = looked.worth.bit_length() - bits
        if chance < -CHANCE - MARGIN:
            return Branches(looked.count, way.free, chance, looked.ties, looked.exclusions)
        bits = CHANCE + looked.worth.bit_length() + 2 * MARGIN


@dataclass
class _Looked:
    """The branches that were looked at for given sizes.

    Args:
        claim: the identity.
        sizes: of its instances.
        draw: of whole numbers.
        point: where they are evaluated.
        way: how branches are looked at.
        bits: of the coordinates.
        count: how many there are.
        worth: what the chance of an error grows with.
        ties: whether null sets were left out.
        exclusions: how many times comparisons excluded each other.
        tried: whole numbers.
        differ: of branches on which the sides differ as functions, how, and which they are.
        reasons: why nothing is decided on others.
        seconds: for the search for instances on them.
    """

    claim: Claim
    sizes: Sizes
    draw: Draw
    point: Point
    way: _Way
    bits: int
    count: int = 0
    worth: int = 0
    ties: bool = False
    exclusions: int = 0
    tried: list[Whole] = field(default_factory=list)
    differ: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    seconds: float = field(default_factory=lambda: _SECONDS)

    @property
    def ended(self) -> bool:
        """Whether nothing will be proved, so that no branch is looked at any more."""
        return bool((self.way.free or self.way.brief) and (self.differ or self.reasons))

    def at_all(self, kept: Whole) -> None:
        """Look at every branch with given whole numbers.

        A point is drawn for each, so that comparisons come out as at the point where they are not
        forced to come out otherwise. Nothing is done with whole numbers that no instance has, or
        that were tried.

        Raises:
            Open: there are no branches that are the same at each point, or too many of them.
            Broken: the sides differ at an instance.
        """
        left: list[tuple[bool, ...]] = [()]
        empty: list[tuple[bool, ...]] = []
        first, count = True, 0
        while left and not self.ended:
            forced = left.pop()
            if any(forced[: len(one)] == one for one in empty):
                continue
            branching = Branching(forced, self.draw, self.bits, self.way.free, self.way.assuming)
            source = Source(self.draw, self.bits, branching, kept)
            found, broken, reason = None, "", ""
            try:
                found = at(self.claim, self.point, self.sizes, source)
            except NoPoint:
                pass
            except Broken as error:
                broken = str(error)
            except Unprovable as error:
                if first and isinstance(error, NoInstance):
                    if kept:
                        return
                    raise Open(str(error)) from error
                reason = str(error)
            if found is not None and found.ruled:
                reason = "a rule needs a sign that may be another one at other points"
            if broken or reason:
                branch = self._branch(tuple(branching.taken), source.whole)
                excluded = self._excluded(branch)
                if excluded is not None:
                    empty.append(excluded)
                elif broken:
                    self._differs(branch, broken)
                else:
                    self.reasons.append(reason)
            if len(self.reasons) > _MOST_OPEN:
                raise Open(self.reasons[0])
            if len(branching.taken) < len(forced):
                raise Open("the branches are other ones at each point")
            if first:
                if source.whole in self.tried:
                    return
                kept, first = dict(source.whole), False
                self.tried.append(kept)
            elif source.whole != kept:
                raise Open("whole numbers are other ones at each point")
            count, self.ties = count + 1, self.ties or branching.ties
            self.worth += branching.compared if found is None else found.degree * found.drawn
            taken = branching.taken
            left += [(*taken[:k], not taken[k]) for k in range(len(forced), len(taken))]
            if count + len(left) > MOST:
                raise Open(f"there are more than {MOST} branches")
        self.count += count

    def _branch(self, taken: tuple[bool, ...], whole: Whole) -> Branch:
        kept = {name: list(values) for name, values in whole.items()}
        return Branch(self.claim, self.sizes, self.point, taken, kept, self.way.assuming)

    def _excluded(self, branch: Branch) -> tuple[bool, ...] | None:
        """The first outcomes of a branch that exclude each other, if that is shown.

        It is not tried any more where another branch is open: nothing will be proved.
        """
        if self.way.free or self.differ or self.reasons:
            return None
        found = nowhere(branch, self.draw, self.bits)
        if found is None:
            return None
        self.exclusions, self.worth = self.exclusions + 1, self.worth + found.worth
        self.ties |= found.ties
        return branch.taken[: found.after]

    def _differs(self, branch: Branch, told: str) -> None:
        """Note a branch on which the sides differ, and look for an instance on it.

        With new coordinates for maxima, or without assumptions, there may be none: maxima are
        compared afterwards, and assumptions made.
        """
        if self.way.free or self.way.brief:
            self.differ.append(told)
            return
        self.differ.append(f"{told}, {named(branch, self.draw)}" if not self.differ else told)
        if self.seconds <= _LEAST * _SECONDS:
            return
        started = time.process_time()
        instance = instance_on(branch, self.draw, self.seconds / 4)
        self.seconds -= time.process_time() - started
        if instance is not None:
            raise Broken(f"the sides differ at an instance {named(branch, self.draw)}", instance)

    def judge(self) -> None:
        """Refuse to conclude anything where something is open.

        Raises:
            Open: the sides differ on some branch, or nothing is decided on one.
        """
        if self.differ:
            others = len(self.differ) - 1
            more = f" and on {others} other branch{'es' * (others > 1)}" if others else ""
            raise Open(
                f"{self.differ[0]}{more}; no instance there is known", differ=not self.way.free
            )
        if self.reasons:
            raise Open(self.reasons[0])
        if not self.tried:
            raise Open("no instance was found")
