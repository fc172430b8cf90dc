"""Local steps of softmax regressions as a compiled loop: a faster body of their gradient.

At these sizes half of NumPy's time are exponentials, one after the other, and calls. Here a lane is
a sample, see :mod:`linsys.kernels.simd`: five products by tiles of four rows, and exponentials of
eight samples at a time.
"""

from __future__ import annotations

from linsys.compiled import compiled
from linsys.kernels.lanes_math import exp2
from linsys.kernels.simd import LANES, fma, fnma, load, maximum, scalar, splat, store

__all__ = ["ROWS", "descend"]

#: Rows of a tile; what products are added to has a multiple of it.
ROWS = 4
_LOG2E = 1.4426950408889634
#: Below it a power of two counts as zero.
_LEAST = -1000.0


@compiled
def descend(
    X,
    inputs,
    turned,
    frozen,
    targets,
    shares,
    scale,
    gamma,
    steps,
    B,
    A,
    hidden,
    back,
    z,
    slope,
):
    """Move X (k, P (m + n)); the arrays after ``steps`` are room for one task, zero where padded.

    ``inputs``, .., ``shares`` are those of :class:`_classifiers.Samples`.
    """
    (tasks, n, S), m, k = inputs.shape, targets.shape[1], len(A)
    blocks = S // LANES
    for task in range(tasks):
        at = task * (m + n)
        x, by_sample = inputs[task].ctypes.data, turned[task].ctypes.data
        for j in range(len(X)):
            for c in range(m):
                B[j, c] = X[j, at + c]
            for c in range(n):
                A[j, c] = X[j, at + m + c]
        for _ in range(steps):
            # A x and W x
            for j in range(k):
                for s in range(S):
                    hidden[j, s] = back[j, s] = 0.0
            a, b, h, g = A.ctypes.data, B.ctypes.data, hidden.ctypes.data, back.ctypes.data
            _add_product(h, k, blocks, scale, a, A.shape[1], 1, x, n)
            for c in range(m):
                for s in range(S):
                    z[c, s] = frozen[task, c, s]
            _add_product(z.ctypes.data, len(z), blocks, 1.0, b, 1, B.shape[1], h, k)
            _slopes(z.ctypes.data, targets[task].ctypes.data, shares.ctypes.data, m, blocks, -gamma)
            for c in range(m):
                for s in range(S):
                    slope[s, c] = z[c, s]
            # the step of A is along B' slope, before B moves
            _add_product(g, k, blocks, scale, b, B.shape[1], 1, z.ctypes.data, m)
            _add_product(a, k, A.shape[1] // LANES, 1.0, g, S, 1, by_sample, S)
            _add_product(b, k, B.shape[1] // LANES, 1.0, h, S, 1, slope.ctypes.data, S)
        for j in range(len(X)):
            for c in range(m):
                X[j, at + c] = B[j, c]
            for c in range(n):
                X[j, at + m + c] = A[j, c]


@compiled
def _add_product(
    out,
    rows,
    blocks,
    factor,
    numbers,
    by_row,
    by_term,
    lanes,
    terms,
):
    """Add ``factor`` times a product to ``out`` (rows, blocks), four rows at a time.

    Row i is the sum over terms l of number i by_row + l by_term times row l of lanes (terms,
    blocks).
    """
    for i in range(0, rows, ROWS):
        for block in range(blocks):
            p = q = r = s = splat(0.0)
            at = i * by_row
            for term in range(terms):
                v = load(lanes, term * blocks + block)
                p = fma(scalar(numbers, at), v, p)
                q = fma(scalar(numbers, at + by_row), v, q)
                r = fma(scalar(numbers, at + 2 * by_row), v, r)
                s = fma(scalar(numbers, at + 3 * by_row), v, s)
                at += by_term
            at = i * blocks + block
            store(out, at, fma(p, factor, load(out, at)))
            store(out, at + blocks, fma(q, factor, load(out, at + blocks)))
            store(out, at + 2 * blocks, fma(r, factor, load(out, at + 2 * blocks)))
            store(out, at + 3 * blocks, fma(s, factor, load(out, at + 3 * blocks)))


@compiled
def _slopes(z: int, targets: int, shares: int, m: int, blocks: int, factor: float):
    """Outputs z (m, blocks) become factor (softmax(z) - y) / s."""
    for block in range(blocks):
        top = load(z, block)
        for c in range(1, m):
            top = maximum(top, load(z, c * blocks + block))
        total = splat(0.0)
        for c in range(m):
            at = c * blocks + block
            # the larger one is NaN where z is not finite, and so is the slope
            power = exp2(maximum(splat(_LEAST), (load(z, at) - top) * _LOG2E))
            store(z, at, power)
            total = total + power
        share = load(shares, block) * factor
        weight = share / total
        for c in range(m):
            at = c * blocks + block
            store(z, at, fnma(share, load(targets, at), load(z, at) * weight))
