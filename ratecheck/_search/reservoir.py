"""A few of many, each with the same probability, while it is not known how many will come."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


class Reservoir(Generic[T]):
    """At most ``places`` of all that ask for a place, each with the same chance.

    Attributes:
        asked: how many asked for a place.
        kept: those that have one now.

    >>> few = Reservoir[int](2, np.random.default_rng(0))
    >>> for number in range(100):
    ...     place = few.place()
    ...     if place is not None:
    ...         few.put(place, number)
    >>> few.asked, len(few.kept)
    (100, 2)
    """

    def __init__(self, places: int, rng: np.random.Generator) -> None:
        self.asked = 0
        self.kept: list[T] = []
        self._places, self._rng = places, rng

    def place(self) -> int | None:
        """The place of the next one, perhaps that of one it replaces; None if it gets none."""
        self.asked += 1
        if self.asked <= self._places:
            return len(self.kept)
        place = int(self._rng.integers(self.asked))
        return place if place < self._places else None

    def put(self, place: int, one: T) -> None:
        """Give it the place that :meth:`place` said."""
        self.kept[place : place + 1] = [one]
