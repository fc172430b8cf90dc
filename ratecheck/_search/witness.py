"""Which counterexample to show: the simplest of those that a reader cannot wave away.

The smallest instance that violates a claim may be a corner case: a confidence of zero, a tie that
could be broken otherwise, a number of 1e-15. So where the first one found is like that, others are
looked for whose numbers lie in the space's ranges ``credible``, that exceed the bound by five per
cent or more, and whose neighbours violate the claim as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ratecheck._claims.certificates import Certificate, certify
from ratecheck._claims.claim import Claim
from ratecheck._claims.fields import Numbers
from ratecheck._claims.samples import batches, generator
from ratecheck._claims.space import Fault, Fields, Layout
from ratecheck._search.ascent import Climb
from ratecheck._search.neighbours import FAR, NEAR, measured, share, trust
from ratecheck._search.search import Effort, ScoredInstance, Search
from ratecheck._search.shrink import CLEAR, GENERIC, shrink

#: So many other instances are made small, and so many are climbed from.
_TRIED, _CLIMBS = 3, 2
#: So many are drawn of a batch, so many of all are compared, each by so many neighbours.
_OF_A_BATCH, _COMPARED, _NEIGHBOURS = 4, 24, 48


@dataclass(frozen=True)
class Witness:
    """A counterexample, small, and what speaks for it.

    Attributes:
        fields: the instance, stacks of one.
        sides: both sides in high precision.
        credible: whether all its numbers lie in the ranges in which a counterexample persuades.
        near: the share of its neighbours within 1 % that violate the claim as well.
        far: the same within 10 %.
    """

    fields: Fields
    sides: Certificate
    credible: bool
    near: float
    far: float

    @property
    def clear(self) -> bool:
        """Whether it exceeds the bound by five per cent."""
        return self.sides.tightness >= 1 + CLEAR

    @property
    def persuades(self) -> bool:
        """Whether its numbers are credible, the excess clear, and the violation generic."""
        return self.credible and self.clear and self.near >= GENERIC

    @property
    def rank(self) -> tuple[bool, ...]:
        """What witnesses are ordered by: of two, the larger one is shown."""
        return self.near > 0, self.credible, self.near >= GENERIC, self.clear

    def to_dict(self) -> dict[str, Any]:
        """What a verdict keeps of it beside the instance."""
        return {"credible": self.credible, "clear": self.clear, "near": self.near, "far": self.far}


def choose(search: Search, found: ScoredInstance, effort: Effort) -> Witness:
    """The witness to show for a claim of which a violation was found and confirmed."""
    best: Witness | None = None
    for start in chain([found.fields], _others(search, effort)):
        one = witness(search.claim, shrink(search.claim, start))
        best = one if best is None or one.rank > best.rank else best
        if one.persuades:
            break
    assert best is not None
    return best


def witness(claim: Claim, fields: Fields) -> Witness:
    """What speaks for one counterexample (B = 1)."""
    near, far = (share(claim, fields, by) for by in (NEAR, FAR))
    credible = bool(claim.space.persuades(fields)[0])
    return Witness(fields, certify(claim, fields), credible, near, far)


@dataclass(frozen=True)
class _Drawn:
    """One random credible instance, its tightness and its coordinates."""

    tightness: float
    fields: Fields
    layout: Layout
    coordinates: Numbers


def _others(search: Search, effort: Effort) -> Iterator[Fields]:
    """Confirmed clear violations with credible numbers: drawn at random, or climbed to."""
    drawn = _drawn(search, effort.random)
    clear = [one for one in drawn if one.tightness >= 1 + CLEAR][:_COMPARED]
    # those with generic violations first, then those of small sizes, as they were drawn
    clear.sort(key=lambda one: -min(share(search.claim, one.fields, NEAR, _NEIGHBOURS), GENERIC))
    for one in clear[:_TRIED]:
        if _is_violated(search.claim, one.fields):
            yield one.fields
    if not clear:
        highest = sorted(drawn, key=lambda one: -one.tightness)[:_CLIMBS]
        for number, one in enumerate(highest):
            climbed = _climbed(search, one, effort.budget, number)
            if climbed is not None and _is_violated(search.claim, climbed):
                yield climbed


def _drawn(search: Search, total: int) -> list[_Drawn]:
    """Of each batch of random instances the first credible clear violations, or the tightest one.

    Batches have one combination of sizes each; small sizes come first.
    """
    space, found = search.claim.space, []
    for batch in batches(space, search.seed, total):
        rows = np.flatnonzero(space.persuades(batch.fields))
        if not rows.size or batch.coordinates is None:
            continue
        part = batch.subset(rows)
        tight = measured(search.claim, part.fields, trusted=search.trusted)[0]
        clear = np.flatnonzero(tight >= 1 + CLEAR)[:_OF_A_BATCH]
        for row in clear if clear.size else [int(tight.argmax())]:
            if np.isfinite(tight[row]):
                one = part.subset(np.array([row]))
                assert one.coordinates is not None
                layout = space.layout(batch.sizes)
                found.append(_Drawn(float(tight[row]), one.fields, layout, one.coordinates[0]))
    return found


def _climbed(search: Search, start: _Drawn, budget: int, number: int) -> Fields | None:
    """A clear violation that is reached from one instance among credible ones, if there is any."""
    space, layout = search.claim.space, start.layout

    def score(points: Numbers) -> Numbers:
        fields = layout.decode(points)
        tight = measured(search.claim, fields, trusted=search.trusted)[0]
        return np.where(space.persuades(fields), np.maximum(tight, -1.0), -2.0)

    chance = generator(search.seed, search.claim.id, "witness", number)
    climb = Climb(score, start.coordinates, budget, chance)
    climb.run()
    return layout.decode(climb.best[None]) if climb.value >= 1 + CLEAR else None


def _is_violated(claim: Claim, fields: Fields) -> bool:
    try:
        return trust(claim, fields) is not None and certify(claim, fields).violated
    except Fault:
        return False
