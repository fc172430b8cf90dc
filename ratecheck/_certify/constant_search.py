"""The search for the proof of a constant: branch and bound above a ratio that was found."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ratecheck._certify.at_a_point import Broken
from ratecheck._certify.branch import Branching, grown
from ratecheck._certify.certificate import head
from ratecheck._certify.constants import ARITHMETIC, KIND, replayed
from ratecheck._certify.cover import Chart, Weights, charts_of, independent
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.examine import Problem, Unscaled, problem
from ratecheck._certify.ratios import Largest, at_least, at_smallest_sizes, largest, rounded
from ratecheck._claims.certificates import (
    EXCESS,
    certify as in_high_precision,
    evaluate,
    ratio,
)
from ratecheck._claims.claim import Claim
from ratecheck._claims.samples import Batch
from ratecheck._claims.space import Fault, Fields, Sizes
from ratecheck._discover.catalogue import Item
from ratecheck._processes.limit import TimeLimit, time_limit
from ratecheck._verdicts.verdict import plain

__all__ = ["Doing", "constant"]

#: How far above the ratio found a constant is proved: of bounds that are attained, of others, and
#: of all where that took little time.
ATTAINED, WITHIN, CLOSE = 0.019, 0.0095, 0.0005
#: The share of the limit that the first proof may take for a second one.
_LITTLE = 0.1
#: The shares of the limit for the coordinates of the space, and for all others, before it is seen
#: with which of them something is known everywhere.
_FIRST, _OTHERS = 0.2, 0.5
#: A certificate states the constant of the search and this share of it, against rounding; or, where
#: the checker's way through the tree needs more, the second one, far below the 1 % that counts.
_MARGIN, _SLACK = 1e-9, 4e-4
#: The claim is evaluated in so many of the worst boxes at each step; where that finds larger
#: ratios than were to be proved, the search begins anew, so often at most.
_POINTS, _RESTARTS = 8, 12
#: A side that is smaller than this is near zero.
_NOTHING = 1e-6
#: Seconds after which a search is kept once more, so that a kill loses no more.
_KEPT = 10.0
#: A tree that is found level by level has at most so many times the boxes of the first one.
_GROWN = 4
#: Seconds that the evaluation under way may take after the limit.
_GRACE = 3.0

#: Told of a search: boxes so far, boxes left, the ratio found and the one that is proved so far.
Doing = Callable[[int, int, tuple[float, float]], None]


def constant(
    item: Item,
    sizes: Sizes | None = None,
    limit: float = 60.0,
    *,
    state: Path | None = None,
    doing: Doing = lambda boxes, left, gap: None,
) -> tuple[dict[str, Any] | None, str]:
    """The certificate of a bound's constant and where a gap is left, or why there is none.

    Args:
        item: an upper or a lower bound.
        sizes: of the instances; by default the smallest ones at which the claim says something.
        limit: seconds of CPU time.
        state: file in which the search is kept, and from which it goes on, until its certificate is
            stored; see :func:`ratecheck._certify.branch.is_over`.
        doing: told how far it is.

    Raises:
        InputError: the claim has no such sizes.
        Broken: an instance breaks the bound, which the search had not found before.
    """
    claim = item.entry
    assert isinstance(claim, Claim)
    before = time.process_time()
    try:
        with time_limit(limit):
            low = at_smallest_sizes(claim) if sizes is None else largest(claim, sizes)
    except TimeLimit as late:
        return None, f"the search for a ratio took too long: {late}"
    except Fault as fault:
        return None, f"the search for a ratio ended: {fault}"
    if low.ratio <= 0:
        return None, "at the instance nearest to a violation the two sides are not both positive"
    over = _Over(item, claim, low, state, doing)
    left = max(limit - (time.process_time() - before), 1.0)
    try:
        with time_limit(left + _GRACE):
            return over.prove(left / 2)  # going through the tree once more takes as long
    except TimeLimit:
        return None, "one evaluation takes longer than the limit"
    except Unprovable as error:
        return None, str(error)


class _Larger(Exception):
    """A ratio was found that is above what was to be proved."""


class _Over:
    """Branch and bound for one claim, above a ratio that was found.

    The claim is evaluated at points of the boxes in which its constant is largest: a larger ratio
    there is what is proved from then on, and one above 1 breaks the bound.
    """

    def __init__(
        self, item: Item, claim: Claim, low: Largest, state: Path | None, doing: Doing
    ) -> None:
        self.item, self.claim, self.low, self.state, self.doing = item, claim, low, state, doing
        self.restarts = 0

    def prove(self, limit: float) -> tuple[dict[str, Any] | None, str]:
        """The certificate of the best constant in this time; None where there is no finite one.

        Where nothing is known about some place after a part of the time, other coordinates are
        tried, and those are kept with which something is known everywhere.
        """
        start = time.process_time()
        plain = self._problem(())
        branching = self._searched(plain, _FIRST * limit)
        if not np.isfinite(branching.proved):
            charts = charts_of(self.claim.space, self.low.sizes)
            for one in charts:
                try:
                    other = self._problem(one)
                    tried = self._searched(other, _OTHERS * limit / len(charts))
                except (Unprovable, Fault):
                    continue
                if np.isfinite(tried.proved):
                    branching = tried
                    break
        return self._finished(branching, limit, start)

    def _problem(self, charts: Sequence[Chart]) -> Problem:
        """The bound with these charts and all scalings that its first boxes allow."""
        alike: Sequence[Weights] | None = None
        while True:
            try:
                made = problem(self.claim, self.low.sizes, alike, charts)
                low, high = made.cover.roots()
                made.examine(low[:, :1], high[:, :1], 1.0, 1.0)
                return made
            except Unscaled as error:
                alike = independent([*made.alike, *error.alike])

    def _begun(self, made: Problem) -> Branching:
        """A search with the first target, from its first boxes or from where it was kept."""
        within = ATTAINED if self.low.ratio > 1 - 1e-7 else WITHIN
        branching = Branching(made, self.low.ratio * (1 + within))
        self._load(branching)
        return branching

    def _searched(self, made: Problem, seconds: float) -> Branching:
        """A search with the first target, for some time."""
        while True:
            try:
                branching = self._begun(made)
                self._go_on(branching, seconds)
                return branching
            except _Larger:
                continue
            except Unscaled as error:
                alike = independent([*made.alike, *error.alike])
                made = problem(self.claim, self.low.sizes, alike, made.cover.charts)

    def _go_on(self, branching: Branching, seconds: float, *, keep: bool = False) -> str:
        """Divide boxes for some time; why it ended before, if it did. ``keep`` it now and then."""
        start, kept = time.process_time(), time.monotonic()
        try:
            while not branching.done and time.process_time() - start < seconds:
                if self.low.ratio <= 1 + EXCESS:  # or else it is broken, and by how much is asked
                    self._try_points(branching)
                branching.step()
                gap = self.low.ratio, branching.proved
                self.doing(len(branching.codes), len(branching.ratio), gap)
                if keep and time.monotonic() - kept > _KEPT:
                    self._save(branching)
                    kept = time.monotonic()
        except Unscaled:
            raise
        except Unprovable as error:
            return str(error)
        return ""

    def _try_points(self, branching: Branching) -> None:
        """Evaluate the claim at the middles of the worst boxes, and at simple numbers in them.

        Raises:
            Broken: it is violated there, and was not known to be false.
            _Larger: a ratio there is above the target.
        """
        false = self.low.ratio > 1 + EXCESS
        one = _tightest(self.claim, self.low.sizes, branching, false=false)
        if one is None or one.ratio <= self.low.ratio:
            return
        self.low = one
        if one.ratio > branching.target and self.restarts < _RESTARTS:
            self.restarts += 1
            raise _Larger

    def _finished(
        self, branching: Branching, limit: float, start: float
    ) -> tuple[dict[str, Any] | None, str]:
        while True:
            left = limit - (time.process_time() - start)
            try:
                reason = self._go_on(branching, left, keep=True)
                break
            except _Larger:
                branching = self._begun(branching.problem)
            except Unscaled as error:
                made = branching.problem
                alike = independent([*made.alike, *error.alike])
                made = problem(self.claim, self.low.sizes, alike, made.cover.charts)
                branching = Branching(made, branching.target)
        with contextlib.suppress(_Larger):  # what is left is not divided any more
            self._try_points(branching)
        searched = [branching]
        left = limit - (time.process_time() - start)
        self._save(branching)  # one that is over, too, until its certificate is stored
        if branching.done and limit - left <= _LITTLE * limit:
            closer = Branching(branching.problem, self.low.ratio * (1 + CLOSE))
            with contextlib.suppress(Unscaled, _Larger):
                self._go_on(closer, left)
                searched.insert(0, closer)
        for one in sorted(searched, key=lambda branching: branching.proved):
            if np.isfinite(one.proved) and (certificate := self._confirmed(one)):
                gap = "" if one.done else f"the gap is where {one.worst()[0]}"
                return certificate, gap
        if np.isfinite(branching.proved):
            return None, "the tree that was found is not confirmed where it is evaluated anew"
        return None, reason or f"the limit ended it; nothing is known {self._where(branching)}"

    def _where(self, branching: Branching) -> str:
        """A box of which nothing is known, and what the sides are there that may be the reason."""
        named, middle = branching.worst()
        try:
            fields = branching.problem.cover.instance(middle)
            sides = evaluate(self.claim, Batch(self.claim.space, fields, self.low.sizes))
        except Fault:
            return f"where {named}"
        measured, bound = float(sides.measured[0]), float(sides.bound[0])
        largest = max(abs(measured), abs(bound))
        if largest < _NOTHING:
            return f"where {named}; both sides are near zero there"
        larger = bound if self.claim.relation == "<=" else measured
        return f"where {named}" + "; the larger side is negative there" * (larger < 0)

    def _confirmed(self, branching: Branching) -> dict[str, Any] | None:
        """The certificate, if the checker's way through the tree proves it.

        Forms depend a little on the boxes that are evaluated together with theirs, so that some
        leaf may need a constant that is larger by a little. Where it needs one that is much larger,
        as with comparisons that are open, another tree is found in the checker's order of boxes.
        """
        for margin in (_MARGIN, _SLACK):
            certificate = self._certificate(branching, margin)
            with contextlib.suppress(Unprovable):
                return certificate | replayed(certificate, self.claim)
        if not branching.done:
            return None
        with contextlib.suppress(Unprovable):
            most = _GROWN * len(branching.codes)
            tree, boxes = grown(branching.problem, branching.target, branching.proved, most)
            certificate = self._certificate(branching) | {"tree": tree, "boxes": boxes}
            return certificate | replayed(certificate, self.claim)
        return None

    def _key(self, branching: Branching) -> str:
        charts = branching.problem.cover.charts
        parts = head(self.item, KIND)["revision"], self.low.sizes, branching.target, charts
        return repr((self.item.id, *parts))

    def _load(self, branching: Branching) -> None:
        if self.state is not None:
            branching.load(self.state, self._key(branching))

    def _save(self, branching: Branching) -> None:
        if self.state is not None:
            branching.save(self.state, self._key(branching))

    def _certificate(self, branching: Branching, margin: float = _MARGIN) -> dict[str, Any]:
        made = branching.problem
        low = self.low
        return {
            **head(self.item, KIND),
            "arithmetic": ARITHMETIC,
            "sizes": dict(low.sizes),
            "ratio": [
                rounded(Fraction(low.surely or 0), ROUND_FLOOR),
                rounded(Fraction(branching.proved * (1 + margin)), ROUND_CEILING),
            ],
            "target": repr(branching.target),
            "alike": [list(map(str, row)) for row in made.alike],
            **(
                {"charts": [list(chart) for chart in made.cover.charts]}
                if made.cover.charts
                else {}
            ),
            "boxes": len(branching.codes),
            "tree": branching.tree(),
            "instance": dict(low.instance),
        }


def _tightest(claim: Claim, sizes: Sizes, branching: Branching, *, false: bool) -> Largest | None:
    """The largest ratio at some points of the worst boxes; None where nothing is known there.

    Args:
        claim: the claim.
        sizes: of its instances.
        branching: the boxes.
        false: whether the claim is known to be false, so that it is asked by how much.

    Raises:
        Broken: the claim is violated at one.
    """
    space, cover = claim.space, branching.problem.cover
    found: list[Fields] = []
    for point in [*branching.middles(_POINTS).T, *branching.simplest(_POINTS).T]:
        with contextlib.suppress(Fault):
            fields = cover.instance(point)
            found += [fields] if space.meets(fields)[0] else []
    if not found:
        return None
    stacks = {name: np.concatenate([one[name] for one in found]) for name in space.fields}
    try:
        tight = evaluate(claim, Batch(space, stacks, sizes)).tightness
        fields = found[int(np.argmax(tight))]
        sides = in_high_precision(claim, fields)
    except Fault:
        return None
    instance, largest = plain(fields), ratio(claim.relation, sides)
    if sides.violated and not false:
        where = ", ".join(f"{name} = {value}" for name, value in instance.items())
        raise Broken(f"the attempt at a proof broke the claim: {where:.200}", instance)
    if largest is None or largest <= 0:
        return None
    return Largest(sizes, largest, instance, at_least(claim, instance))
