"""Random unit-cube coordinates: instance k depends on a key and on k, whatever the batches.

Every number is a hash of (key, instance, place): SplitMix64's finaliser, applied to a counter
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). So batches, threads
and processes change no instance.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from linsys.compiled import compiled
from ratecheck._claims.fields import Numbers
from ratecheck._claims.space import Layout

__all__ = ["key_of", "random_coordinates"]

#: Shares of the instances with coordinates at 0, 1/2 and 1, and with all equal along one axis.
SNAPPED, TIED = 0.4, 0.1


def key_of(*names: object) -> int:
    """A key of 64 bits that depends on these names alone.

    >>> key_of(0, "random") == key_of(0, "random") != key_of(1, "random")
    True
    """
    text = "/".join(map(str, names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def random_coordinates(key: int, first: int, layout: Layout, count: int) -> Numbers:
    """Coordinates (count, m) of the instances number first, first + 1, ... of a key's sequence.

    Uniform in [0, 1); but of a share SNAPPED of the instances a random part of the coordinates is
    0, 1/2 or 1, and along each axis a share TIED has all elements alike.
    """
    places = np.arange(layout.coordinates)[None]
    # for every coordinate, the one that it equals if an axis is tied: itself, or one before it
    sources = [layout.tie(places, axis)[0] for axis in layout.sizes]
    coordinates = np.empty((count, layout.coordinates))
    _fill(
        np.uint64(key),
        np.uint64(first),
        np.array(sources, dtype=np.int64).reshape(len(sources), layout.coordinates),
        coordinates,
    )
    return coordinates


@compiled
def _splitmix64(value: Any) -> Any:
    """SplitMix64's finaliser, a bijection of 64-bit integers."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@compiled
def _uniform(stream: Any, place: Any) -> Any:
    """Number ``place`` of a stream, in [0, 1)."""
    bits = _splitmix64(stream + np.uint64(place + 1) * np.uint64(0x9E3779B97F4A7C15))
    return (bits >> np.uint64(11)) * 2.0**-53


@compiled
def _fill(key: Any, first: Any, sources: Any, coordinates: Any) -> None:
    count, size = coordinates.shape
    axes = len(sources)
    for k in range(count):
        stream = _splitmix64(key ^ _splitmix64(first + np.uint64(k)))
        snapped = _uniform(stream, 0) < SNAPPED
        share = _uniform(stream, 1) if snapped else 0.0
        for coordinate in range(size):
            place = 2 + axes + 3 * coordinate
            if snapped and _uniform(stream, place) < share:
                coordinates[k, coordinate] = np.floor(2.0 * _uniform(stream, place + 1) + 0.5) / 2.0
            else:
                coordinates[k, coordinate] = _uniform(stream, place + 2)
        for axis in range(axes):
            if _uniform(stream, 2 + axis) < TIED:
                for coordinate in range(size):
                    coordinates[k, coordinate] = coordinates[k, sources[axis, coordinate]]
