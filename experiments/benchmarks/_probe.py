"""What this processor can do: multiply-adds, exponentials and normal variates per second."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.benchmarks._timing import seconds
from linsys.compiled import compiled
from linsys.kernels import simd
from linsys.kernels.lanes_math import exp2, normal_pair, normal_radius
from linsys.kernels.random import lane_states, load_state, next_bits, store_state
from linsys.kernels.simd import LANES, load, store

__all__ = ["kernel_work", "throughput"]

#: Functions for compiled code, of which a type checker sees only the compiler's implementation.
fma: Any = simd.fma
splat: Any = simd.splat


@compiled
def _fma_loop(at: Any, count: Any) -> None:
    """Twelve independent chains, so that none waits for the result of the one before it."""
    c = load(at, 0)
    p = q = r = s = t = u = c
    pp = qq = rr = ss = tt = uu = c
    for _ in range(count):
        p, q, r, s = fma(p, c, c), fma(q, c, c), fma(r, c, c), fma(s, c, c)
        t, u, pp, qq = fma(t, c, c), fma(u, c, c), fma(pp, c, c), fma(qq, c, c)
        rr, ss, tt, uu = fma(rr, c, c), fma(ss, c, c), fma(tt, c, c), fma(uu, c, c)
    store(at, 1, ((p + q) + (r + s)) + ((t + u) + (pp + qq)) + ((rr + ss) + (tt + uu)))


@compiled
def _exp_loop(at: Any, count: Any) -> None:
    total = splat(0.0)
    for _ in range(count):
        for k in range(0, 32, 4):
            p, q, r, s = load(at, k), load(at, k + 1), load(at, k + 2), load(at, k + 3)
            total = total + ((exp2(p) + exp2(q)) + (exp2(r) + exp2(s)))
    store(at, 32, total)


@compiled
def _normal_loop(at: Any, rng: Any, count: Any) -> None:
    state = load_state(rng)
    for _ in range(count):
        for k in range(0, 32, 2):
            radius, state = next_bits(state)
            angle, state = next_bits(state)
            p, q = normal_pair(normal_radius(radius), angle)
            store(at, k, p)
            store(at, k + 1, q)
    store_state(rng, state)


def throughput(repeats: int) -> dict[str, float]:
    """Best rates per second on one core."""
    buffer = np.full((33, LANES), 0.5)
    at, rng = buffer.ctypes.data, lane_states(0, 0)
    count = 2000

    def best(call: Any, work: int) -> float:
        call()
        return work * count * LANES / min(seconds(call) for _ in range(repeats))

    return {
        "multiply-adds": best(lambda: _fma_loop(at, count), 12),
        "exponentials": best(lambda: _exp_loop(at, count), 32),
        "normals": best(lambda: _normal_loop(at, rng.ctypes.data, count), 32),
    }


def kernel_work(n: int, d: int) -> dict[str, int]:
    """The operations of one AffPCL round (8) of the Gaussian system, per replicate."""
    pairs = 2 * n * n * d  # log ratios, and the weighted sums of h^j
    bases = (n + 2) * d * d  # A_base x^i, A_base x^c, Phi_base theta
    vectors = 9 * n * d  # five inner products and four updates along s^j
    return {"multiply-adds": pairs + bases + vectors, "exponentials": n * n, "normals": n * d}
