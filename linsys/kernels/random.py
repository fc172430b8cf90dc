"""Random numbers: one xoshiro256++ generator per replicate, keyed by (seed, replicate) alone.

A replicate's stream depends on nothing else: not on the number of threads, the chunking, the other
replicates, or the order in which they run.  The 256-bit states are hashed from (seed, replicate) by
SplitMix64's finaliser, so streams overlap with negligible probability.  Generators: Blackman and
Vigna, "Scrambled linear pseudorandom number generators", 2021; Steele, Lea and Flood, "Fast
splittable pseudorandom number generators", 2014.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from linsys.kernels._parts import compiled_part
from linsys.kernels.simd import LANES, load_bits, splat_bits, store_bits

__all__ = ["REPLICATES", "SEEDS", "lane_states", "load_state", "next_bits", "store_state"]

#: Beyond these many seeds and replicates streams would repeat: a seed has two words, and a
#: replicate's four words of state are hashed from four consecutive numbers of 64 bits.
SEEDS, REPLICATES = 1 << 128, 1 << 62

_MASK = (1 << 64) - 1


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser, a bijection of 64-bit integers."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def lane_states(seed: int, first_replicate: int, blocks: int = 1) -> NDArray[np.uint64]:
    """States (blocks, 4, LANES) of the generators of replicates ``first_replicate`` and onwards.

    >>> bool((lane_states(7, 0)[0, :, 3] == lane_states(7, 3)[0, :, 0]).all())
    True
    """
    halves = _mix(np.array([seed & _MASK, (seed >> 64) & _MASK ^ 0x5851F42D4C957F2D], np.uint64))
    replicates = np.uint64(first_replicate) + np.arange(blocks * LANES, dtype=np.uint64)
    words = np.arange(4, dtype=np.uint64)[:, None] + np.uint64(4) * replicates.reshape(-1, 1, LANES)
    return _mix(halves[0] ^ halves[1] ^ _mix(words))


@compiled_part
def load_state(rng):
    """The generators' states (4, LANES) at an address, to be kept in registers."""
    return load_bits(rng, 0), load_bits(rng, 1), load_bits(rng, 2), load_bits(rng, 3)


@compiled_part
def store_state(rng, state):
    """Write the states back."""
    for word in range(4):
        store_bits(rng, word, state[word])


@compiled_part
def next_bits(state):
    """(64 random bits per lane, the next state)."""
    s0, s1, s2, s3 = state
    total = s0 + s3
    result = ((total << splat_bits(23)) | (total >> splat_bits(41))) + s0
    shifted = s1 << splat_bits(17)
    s2 = s2 ^ s0
    s3 = s3 ^ s1
    s1 = s1 ^ s2
    s0 = s0 ^ s3
    s2 = s2 ^ shifted
    s3 = (s3 << splat_bits(45)) | (s3 >> splat_bits(19))
    return result, (s0, s1, s2, s3)
