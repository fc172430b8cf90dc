"""A finite-state system in the fused loops: samples, A(s), Phi(s), b(s) and density ratios.

All buffers are rows of lanes: entry a of agent j's vector is row j d + a.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from linsys.kernels._parts import compiled_part
from linsys.kernels._tiles import TILE, padded, tile_row
from linsys.kernels.lanes_math import floor_positive, unit_interval
from linsys.kernels.random import load_state, next_bits, store_state
from linsys.kernels.simd import (
    fma,
    gather,
    load,
    load_bits,
    scalar,
    select,
    splat,
    splat_bits,
    store,
    store_bits,
    to_int,
)
from linsys.systems import FiniteSystem
from linsys.validate import Array

__all__ = ["FiniteArrays", "finite_arrays"]


class FiniteArrays(NamedTuple):
    """A finite-state system, sampled by Walker's alias tables; names of arrays are addresses."""

    n: int
    d: int
    S: int
    A: int  # (S, d, d)
    Phi: int  # (S, d, d)
    b: int  # (n, S, d)
    rho: int  # (n, S)
    keep: int  # (n, S): probability of keeping the column
    alias: int  # (n, S): the state taken instead


def _alias_tables(mu: Any) -> tuple[Any, Any]:
    """Walker's alias method, built as Vose does: keep state k with keep[k], else take alias[k]."""
    n, S = mu.shape
    keep, alias = np.ones((n, S)), np.tile(np.arange(S, dtype=np.float64), (n, 1))
    for i in range(n):
        scaled = mu[i] / mu[i].sum() * S
        small = [k for k in range(S) if scaled[k] < 1]
        large = [k for k in range(S) if scaled[k] >= 1]
        while small and large:
            k, rich = small.pop(), large[-1]
            keep[i, k], alias[i, k] = scaled[k], rich
            scaled[rich] -= 1 - scaled[k]
            if scaled[rich] < 1:
                small.append(large.pop())
        # Leftovers have a scaled probability of one up to rounding; a state of probability zero
        # must not be kept.
        for k in small:
            if mu[i, k] == 0:
                keep[i, k], alias[i, k] = 0.0, float(mu[i].argmax())
    return keep, alias


@lru_cache(maxsize=8)
def finite_arrays(system: FiniteSystem) -> tuple[FiniteArrays, Array, list[Array]]:
    """A system's arrays, the basis of its vectors, and what keeps the memory of the arrays."""
    held = [
        system.A,
        system.Phi,
        system.b,
        np.ascontiguousarray(system.rho),
        *_alias_tables(system.mu),
    ]
    arrays = FiniteArrays(system.n, system.d, system.n_states, *(a.ctypes.data for a in held))
    return arrays, np.eye(system.d), held


@compiled_part
def _gathered_product(table, state, d, y, y0, out, o0):
    """out <- table[state] y with another matrix in every lane."""
    start = state * splat_bits(d * d)
    for a in range(d):
        total = splat(0.0)
        for c in range(d):
            total = fma(gather(table, start + splat_bits(a * d + c)), load(y, y0 + c), total)
        store(out, o0 + a, total)


def agents(system):
    return system.n, system.d


def draw_tile(system, rng, j, states, indices):
    S = system.S
    state = load_state(rng)
    for i in range(j, min(j + TILE, system.n)):
        bits, state = next_bits(state)
        column, fraction = floor_positive(unit_interval(bits) * float(S))
        at = column + splat_bits(i * S)
        taken = to_int(gather(system.alias, at))
        store_bits(indices, i, select(fraction < gather(system.keep, at), column, taken))
    store_state(rng, state)


def prepare_A(system, x, x0, y, y0):
    for a in range(system.d):
        store(y, y0 + a, load(x, x0 + a))


def apply_A(system, states, indices, j, y, y0, out, o0):
    _gathered_product(system.A, load_bits(indices, j), system.d, y, y0, out, o0)


def objective(system, states, indices, j, out, o0):
    d, S = system.d, system.S
    start = (load_bits(indices, j) + splat_bits(j * S)) * splat_bits(d)
    for a in range(d):
        store(out, o0 + a, gather(system.b, start + splat_bits(a)))


def prepare_center(system, center, theta, shared, total, more):
    """Rows x^c, theta."""
    for a in range(system.d):
        store(shared, a, load(center, a))
        store(shared, system.d + a, load(theta, a))
        store(total, a, splat(0.0))
        store(more, a, splat(0.0))


@compiled_part
def _correct_agent(system, states, indices, j, shared, x, step, factor, h, total, more, own):
    d, S, rows = system.d, system.S, padded(system.n)
    state = load_bits(indices, j)
    start = state * splat_bits(d * d)
    start_b = (state + splat_bits(j * S)) * splat_bits(d)
    for a in range(d):
        central = estimate = moved = splat(0.0)
        for c in range(d):
            at = start + splat_bits(a * d + c)
            entry = gather(system.A, at)
            central = fma(entry, load(shared, c), central)
            moved = fma(entry, load(x, j * d + c), moved)
            estimate = fma(gather(system.Phi, at), load(shared, d + c), estimate)
        target = gather(system.b, start_b + splat_bits(a))
        residual = central - estimate
        store(total, a, load(total, a) + residual)
        store(h, tile_row(rows, j, a), residual * factor)
        store(more, a, load(more, a) + (estimate - target))
        store(own, a, (moved - target) - residual)
    for a in range(d):
        store(x, j * d + a, load(x, j * d + a) - load(own, a) * step)


def correct_agents(
    system, states, indices, j, shared, x, alpha, x_scale, scale, h, total, more, own
):
    for i in range(j, min(j + TILE, system.n)):
        step, factor = alpha * scalar(x_scale, i), load(scale, i)
        _correct_agent(system, states, indices, i, shared, x, step, factor, h, total, more, own)


def density_weights(system, states, indices, j, own, weights, scale):
    n, S, rows = system.n, system.S, padded(system.n)
    for i in range(j, min(j + TILE, n)):
        state = load_bits(indices, i)
        for k in range(n):
            rho = gather(system.rho, state + splat_bits(k * S))
            store(weights, tile_row(rows, i, k), rho)
        store(scale, i, splat(1.0 / n))
