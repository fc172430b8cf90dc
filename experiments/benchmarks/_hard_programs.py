"""Simplex programs that are hard for a solver: families of gradients, and the worst certificates.

Every family is drawn in batches. The regularisers go with all of them: none, a tiny and a moderate
beta after normalisation by the trace, and preferences of every size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from mgda.simplex import SimplexSolution, min_norm

__all__ = ["FAMILIES", "SHARES", "draws", "worst_residuals"]

Array = NDArray[np.float64]
Generator = np.random.Generator

#: M -> its share of the programs: all sizes that FIRM needs, fewer of the expensive ones.
SHARES = {2: 0.25, 3: 0.25, 4: 0.15, 5: 0.12, 8: 0.12, 13: 0.07, 32: 0.04}
#: Numbers in one batch of gradients.
_BATCH = 1 << 20


def powers(rng: Generator, low: float, high: float, *shape: int) -> Array:
    """10^u with u uniform."""
    return np.asarray(10.0 ** rng.uniform(low, high, size=shape))


def generic(rng: Generator, count: int, M: int) -> Array:
    """Standard normal, more numbers than objectives."""
    return rng.standard_normal((count, 2 * M, M))


def low_rank(rng: Generator, count: int, M: int) -> Array:
    """Fewer numbers than objectives: zero may lie in the hull, and solutions are not unique."""
    return rng.standard_normal((count, int(rng.integers(1, M)), M))


def nearly_identical(rng: Generator, count: int, M: int) -> Array:
    """One gradient for all, and differences from 1e-15 to 1e-1 of it."""
    common = rng.standard_normal((count, M, 1))
    return common + powers(rng, -15, -1, count, 1, 1) * rng.standard_normal((count, M, M))


def clusters(rng: Generator, count: int, M: int) -> Array:
    """A few gradients, each in several versions that differ by 1e-12 to 1e-4 of it."""
    centres = rng.standard_normal((count, M, (M + 2) // 3))
    A = np.repeat(centres, 3, axis=2)[:, :, :M]
    return A + powers(rng, -12, -4, count, 1, 1) * rng.standard_normal(A.shape)


def common_face(rng: Generator, count: int, M: int) -> Array:
    """Gradients with first component 1, so that the optimum is decided by small others."""
    rest = powers(rng, -8, 0, count, 1, 1) * rng.standard_normal((count, M, M))
    return np.concatenate([np.ones((count, 1, M)), rest], axis=1)


def collinear(rng: Generator, count: int, M: int) -> Array:
    """Multiples of one gradient, of either sign and zero."""
    factors = rng.choice([-1.0, 0.0, 1.0, 2.0], size=(count, 1, M))
    return np.asarray(rng.standard_normal((count, M, 1)) * factors)


def opposite(rng: Generator, count: int, M: int) -> Array:
    """Pairs of opposite gradients, up to differences of 1e-16 to 1e-1."""
    A = rng.standard_normal((count, M, M))
    A[:, :, M // 2 : 2 * (M // 2)] = -A[:, :, : M // 2]
    return A + powers(rng, -16, -1, count, 1, 1) * rng.standard_normal(A.shape)


def with_zeros(rng: Generator, count: int, M: int) -> Array:
    """Some gradients zero, possibly all."""
    share = rng.uniform(0, 1, size=(count, 1, 1))
    return np.asarray(
        rng.standard_normal((count, M, M)) * (rng.uniform(size=(count, 1, M)) > share)
    )


def huge_and_tiny(rng: Generator, count: int, M: int) -> Array:
    """Scales from 1e-150 to 1e150, one for each program."""
    return np.asarray(rng.standard_normal((count, M, M)) * powers(rng, -150, 150, count, 1, 1))


def mixed_scales(rng: Generator, count: int, M: int) -> Array:
    """Objectives whose gradients differ in size by up to 1e16."""
    return np.asarray(rng.standard_normal((count, M, M)) * powers(rng, -8, 8, count, 1, M))


def ties(rng: Generator, count: int, M: int) -> Array:
    """Small integers: repeated gradients, faces and vertices where several supports are optimal."""
    A = rng.integers(-1, 2, size=(count, int(rng.integers(1, M + 1)), M)).astype(float)
    A[count // 2 :, 0] = 1.0
    return A


FAMILIES: dict[str, Callable[[Generator, int, int], Array]] = {
    "generic": generic,
    "low rank": low_rank,
    "nearly identical": nearly_identical,
    "clusters": clusters,
    "common face": common_face,
    "collinear": collinear,
    "opposite": opposite,
    "with zeros": with_zeros,
    "huge and tiny": huge_and_tiny,
    "mixed scales": mixed_scales,
    "ties": ties,
}


def solved(rng: Generator, A: Array) -> SimplexSolution:
    """The programs of gradients (count, d, M) with a regulariser by lot."""
    kind, M = int(rng.integers(4)), A.shape[-1]
    if kind == 0:
        return min_norm(A)
    if kind == 1:
        return min_norm(A, beta=1e-9, normalise=True)
    if kind == 2:
        return min_norm(A, beta=0.1, normalise=True)
    return min_norm(A, preference=powers(rng, -3, 6, M), normalise=True)


def draws(total: int, seed: int = 0) -> Iterator[tuple[str, int, SimplexSolution]]:
    """At least ``total`` programs, solved: family, M and a batch of solutions."""
    rng = np.random.default_rng(seed)
    for M, share in SHARES.items():
        for name, family in FAMILIES.items():
            remaining = math.ceil(total * share / len(FAMILIES))
            # at least eight batches, so that every regulariser is used
            step = max(1, min(remaining // 8, _BATCH // (2 * M * M)))
            while remaining > 0:
                count = min(step, remaining)
                remaining -= count
                yield name, M, solved(rng, family(rng, count, M))


def worst_residuals(total: int, seed: int = 0) -> tuple[int, dict[str, float]]:
    """How many programs were solved, and the largest residual of each family."""
    worst = dict.fromkeys(FAMILIES, 0.0)
    programs = 0
    for name, _, solution in draws(total, seed):
        programs += solution.residual.size
        # np.maximum keeps a NaN, which max would lose
        worst[name] = float(np.maximum(worst[name], solution.residual.max()))
    return programs, worst
