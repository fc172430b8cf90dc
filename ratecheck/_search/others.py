"""Other instances than the tightest ones: those that meet a condition, drawn or climbed to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ratecheck._claims.fields import Numbers
from ratecheck._claims.samples import SHARED, batches, generator
from ratecheck._claims.space import Fields, Layout
from ratecheck._search.ascent import Climb
from ratecheck._search.neighbours import measured
from ratecheck._search.search import Effort, ScoredInstance, Search

#: Arrays of B instances and the larger side of each, in absolute value, to which ones are wanted.
Condition = Callable[[Fields, Numbers], Numbers]
#: So many are taken of a batch.
_OF_A_BATCH = 4
#: Where the tightest instances are rounding, so many others are climbed to, whose larger side is at
#: least this.
_CLIMBS, _LARGE = 2, 1e-6


@dataclass(frozen=True)
class Drawn:
    """One random instance (a stack of one), its tightness and its coordinates."""

    tightness: float
    fields: Fields
    layout: Layout
    coordinates: Numbers


def drawn(search: Search, total: int, wanted: Condition, enough: float = np.inf) -> list[Drawn]:
    """Of each batch of random instances the first ones with ``enough`` tightness, or the tightest.

    Batches have one combination of sizes each; small sizes come first.
    """
    space, instances = search.claim.space, []
    for batch in batches(space, search.seed, total):
        tight, larger, _ = measured(search.claim, batch.fields, trusted=search.trusted)
        tight = np.where(wanted(batch.fields, larger), tight, -np.inf)
        rows = np.flatnonzero(tight >= enough)[:_OF_A_BATCH]
        for row in rows if rows.size else np.array([tight.argmax()]):
            if np.isfinite(tight[row]) and batch.coordinates is not None:
                one = batch.subset(row[None])
                layout = space.layout(batch.sizes)
                coordinates = batch.coordinates[row]
                instances.append(Drawn(float(tight[row]), one.fields, layout, coordinates))
    return instances


def climbed(search: Search, start: Drawn, wanted: Condition, budget: int, number: int) -> Drawn:
    """The tightest instance reached from one, among those that are wanted."""

    def score(points: Numbers) -> Numbers:
        fields = start.layout.decode(points)
        tight, larger, _ = measured(search.claim, fields, trusted=search.trusted)
        return np.where(wanted(fields, larger), np.maximum(tight, -1.0), -2.0)

    chance = generator(search.seed, search.claim.id, "others", number)
    climb = Climb(score, start.coordinates, budget, chance)
    climb.run()
    fields = start.layout.decode(climb.best[None])
    return Drawn(climb.value, fields, start.layout, climb.best)


def without_rounding(search: Search, effort: Effort) -> Iterator[ScoredInstance]:
    """Tight instances among those of which not both sides are rounding alone, climbed to."""

    def large(fields: Fields, larger: Numbers) -> Numbers:
        return larger > _LARGE

    instances = drawn(search, min(effort.random, SHARED), large)
    for number, one in enumerate(sorted(instances, key=lambda one: -one.tightness)[:_CLIMBS]):
        end = climbed(search, one, large, effort.budget, number)
        yield ScoredInstance(end.tightness, end.fields, end.layout.sizes)
