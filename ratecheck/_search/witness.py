"""Which counterexample to show: the simplest of those that a reader cannot wave away.

The smallest instance that violates a claim may be a corner case: a confidence of zero, a tie that
could be broken otherwise, a number of 1e-15. So where the first one found is like that, others are
looked for whose numbers lie in the space's ranges ``credible``, that exceed the bound by five per
cent or more, and whose neighbours violate the claim as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ratecheck._claims.certificates import Certificate, certify
from ratecheck._claims.claim import Claim
from ratecheck._claims.fields import Numbers, magnitude_of
from ratecheck._claims.space import Fault, Fields
from ratecheck._search.neighbours import FAR, NEAR, share, trust
from ratecheck._search.others import climbed, drawn
from ratecheck._search.search import Effort, ScoredInstance, Search
from ratecheck._search.shrink import CLEAR, GENERIC, shrink

#: So many other instances are made small, and so many are climbed from.
_TRIED, _CLIMBS = 3, 2
#: What rounded constants may leave of a difference, relative to the largest number of an instance.
ROUNDED = 2e-14
#: So many of those that were drawn are compared, each by so many neighbours.
_COMPARED, _NEIGHBOURS = 24, 48


@dataclass(frozen=True)
class Witness:
    """A counterexample, small, and what speaks for it.

    Attributes:
        fields: the instance, stacks of one.
        sides: both sides in high precision.
        credible: whether all its numbers lie in the ranges in which a counterexample persuades.
        near: the share of its neighbours within 1 % that violate the claim as well.
        far: the same within 10 %.
        assumptions: the names of those that it was checked to meet, with its domains.
    """

    fields: Fields
    sides: Certificate
    credible: bool
    near: float
    far: float
    assumptions: Sequence[str]

    @property
    def clear(self) -> bool:
        """Whether it exceeds the bound by five per cent."""
        return self.sides.tightness >= 1 + CLEAR

    @property
    def rounding(self) -> bool:
        """Whether the sides are as near as the last digits of a constant, such as 1 / n, may leave.

        They are kept by float64 before high precision begins, which then confirms what they leave.
        """
        apart = abs(self.sides.measured - self.sides.bound)
        return bool(apart <= ROUNDED * magnitude_of([*self.fields.values()]).max())

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
        names = ("credible", "clear", "near", "far")
        told = {name: getattr(self, name) for name in names}
        told |= {"rounding": True} if self.rounding else {}
        return {**told, "assumptions": list(self.assumptions)}


def choose(search: Search, violation: ScoredInstance, effort: Effort) -> Witness:
    """The witness to show for a claim of which a violation was found and confirmed."""
    best: Witness | None = None
    for start in chain([violation.fields], _others(search, effort)):
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
    sides = certify(claim, fields)  # which refuses an instance that breaks an assumption
    return Witness(fields, sides, credible, near, far, tuple(claim.space.assumes))


def _others(search: Search, effort: Effort) -> Iterator[Fields]:
    """Confirmed clear violations with credible numbers: drawn at random, or climbed to."""
    claim = search.claim

    def credible(fields: Fields, larger: Numbers) -> Numbers:
        return claim.space.persuades(fields)

    instances = drawn(search, effort.random, credible, enough=1 + CLEAR)
    clear = [one for one in instances if one.tightness >= 1 + CLEAR][:_COMPARED]
    # those with generic violations first, then those of small sizes, as they were drawn
    clear.sort(key=lambda one: -min(share(claim, one.fields, NEAR, _NEIGHBOURS), GENERIC))
    if not clear:
        highest = sorted(instances, key=lambda one: -one.tightness)[:_CLIMBS]
        ends = [climbed(search, o, credible, effort.budget, k) for k, o in enumerate(highest)]
        clear = [one for one in ends if one.tightness >= 1 + CLEAR]
    yield from (one.fields for one in clear[:_TRIED] if _is_violated(claim, one.fields))


def _is_violated(claim: Claim, fields: Fields) -> bool:
    try:
        return trust(claim, fields) is not None and certify(claim, fields).violated
    except Fault:
        return False
