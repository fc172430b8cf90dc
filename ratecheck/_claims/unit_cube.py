"""Random unit-cube coordinates: instance k depends on a key and on k, whatever the batches.

Every number is a hash of (key, instance, place): SplitMix64's finaliser, applied to a counter
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). So batches, threads
and processes change no instance.
"""

from __future__ import annotations

import hashlib

import numpy as np

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

    >>> import ratecheck as rc
    >>> space = rc.Space({"x": rc.interval()})
    >>> rc.random_coordinates(rc.key_of("mine"), 0, space.layout(space.all_sizes()[0]), 3).shape
    (3, 1)
    """
    sources = layout.ties
    numbers = np.uint64(first) + np.arange(count, dtype=np.uint64)
    streams = _splitmix64(np.uint64(key) ^ _splitmix64(numbers))
    whole = _uniform(streams, np.arange(2 + len(sources)))
    places = 2 + len(sources) + 3 * np.arange(layout.coordinates)
    coordinates = _uniform(streams, places + 2)
    snapped = np.flatnonzero(whole[:, 0] < SNAPPED)
    chosen = _uniform(streams[snapped], places) < whole[snapped, 1:2]
    ends = np.floor(2.0 * _uniform(streams[snapped], places + 1) + 0.5) / 2.0
    coordinates[snapped] = np.where(chosen, ends, coordinates[snapped])
    for number, source in enumerate(sources):
        tied = np.flatnonzero(whole[:, 2 + number] < TIED)
        coordinates[tied] = coordinates[tied][:, source]
    return coordinates


def _splitmix64(values: Numbers) -> Numbers:
    """SplitMix64's finaliser, a bijection of 64-bit integers."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def _uniform(streams: Numbers, places: Numbers) -> Numbers:
    """The numbers at these places of each stream, in [0, 1); (streams, places)."""
    counters = (places + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits = _splitmix64(streams[:, None] + counters)
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53)
