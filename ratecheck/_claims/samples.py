"""Random instances of a space, drawn once per seed and shared by all claims about the space.

An instance depends on the seed, the sizes and its place in the sequence; never on the claim. Claims
about one space therefore see the same instances, and what their views cache (means, solutions,
norms) is computed once. The arrays of a batch are read-only: a measure that writes into its
instance would change what the next claim sees.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratecheck._claims.fields import Numbers
from ratecheck._claims.space import Fields, Sizes, Space
from ratecheck._claims.unit_cube import key_of, random_coordinates

#: Instances per space that are shared and kept, over all sizes together.
SHARED = 3_000
#: At most so many combinations of sizes are drawn from.
COMBINATIONS = 64
#: The first instances of equal sizes have all coordinates at 0, at 1/2 and at 1.
CORNERS = 3
_BATCH = 2_000
#: Spaces whose shared batches are kept; the one used longest ago goes first.
_SPACES = 6


@dataclass(eq=False)
class Batch:
    """B instances of equal sizes: their arrays, and their coordinates where they have any."""

    space: Space
    fields: Fields
    sizes: Sizes
    coordinates: Numbers | None = None

    def __post_init__(self) -> None:
        for values in self.fields.values():
            values.flags.writeable = False

    def __len__(self) -> int:
        return len(next(iter(self.fields.values())))

    @cached_property
    def views(self) -> Any:
        """What measure gets: one object for all B instances if batched, else a list of B."""
        return self.space.views(self.fields)

    def freeze(self) -> None:
        """Make what the views have computed so far read-only, too."""
        for view in [self.views] if self.space.batched else self.views:
            for value in getattr(view, "__dict__", {}).values():
                if isinstance(value, np.ndarray):
                    value.flags.writeable = False

    @cached_property
    def passing(self) -> dict[str, Numbers]:
        """Which instances pass each predicate of ``given``, every shape (B,)."""
        return {name: self.space.passes(name, self.views) for name in self.space.given}

    @cached_property
    def passed(self) -> NDArray[np.bool_]:
        """Which instances pass all of them, shape (B,)."""
        kept = np.ones(len(self), dtype=bool)
        for mask in self.passing.values():
            kept &= mask
        return kept

    @cached_property
    def broken(self) -> tuple[str, int] | None:
        """The first assumption that an instance breaks, and which instance."""
        return self.space.first_broken(self.fields, self.views)

    def subset(self, rows: Numbers) -> Batch:
        """Some of the instances."""
        fields = {name: values[rows] for name, values in self.fields.items()}
        return Batch(
            self.space,
            fields,
            self.sizes,
            None if self.coordinates is None else self.coordinates[rows],
        )


def generator(*names: object) -> np.random.Generator:
    """A generator that depends on these names alone."""
    text = "/".join(map(str, names))
    return np.random.default_rng(list(hashlib.sha256(text.encode()).digest()))


def batches(space: Space, seed: int, total: int) -> Iterator[Batch]:
    """At least ``total`` instances, spread evenly over the combinations of sizes.

    The first SHARED of them are the same objects for every caller.
    """
    key = (space, seed)
    if key not in _shared:
        _shared[key] = list(draw(space, seed, 0, SHARED))
        while len(_shared) > _SPACES:
            _shared.popitem(last=False)
    _shared.move_to_end(key)
    yield from _shared[key]
    yield from draw(space, seed, SHARED, total)


_shared: OrderedDict[tuple[Space, int], list[Batch]] = OrderedDict()


def draw(space: Space, seed: int | str, start: int, total: int) -> Iterator[Batch]:
    """Instances number start to total of the sequence; the first ones have equal coordinates."""
    every = space.all_sizes()
    pick = np.linspace(0, len(every) - 1, min(len(every), COMBINATIONS)).round().astype(int)
    first, stop = (-(-number // len(pick)) for number in (start, total))
    for index in pick:
        layout = space.layout(every[index])
        key = key_of(seed, "random", sorted(layout.sizes.items()))
        for at in range(first, stop, _BATCH):
            coordinates = random_coordinates(key, at, layout, min(_BATCH, stop - at))
            if at == 0:
                corners = np.repeat(np.linspace(0, 1, CORNERS)[:, None], layout.coordinates, axis=1)
                coordinates[: len(corners)] = corners[: len(coordinates)]
            yield Batch(space, layout.decode(coordinates), layout.sizes, coordinates)
