"""Products of many vectors in tiles of five by five sums, which stay in registers.

A tile takes ten loads for its 25 multiply-adds, and 25 independent sums hide their latency.  Agents
and rows of matrices are padded to whole tiles; what is written to the padding is never read.
"""

from __future__ import annotations

from linsys.kernels._parts import compiled_part
from linsys.kernels.simd import fma, load, scalar, splat, store

__all__ = [
    "TILE",
    "base_product",
    "common_tile",
    "fma5",
    "load5",
    "padded",
    "reached",
    "store5",
    "subtract_weighted_sums",
    "tile_row",
    "zero5",
]

TILE = 5


@compiled_part
def padded(n):
    """n rounded up to a whole number of tiles."""
    return -(-n // TILE) * TILE


@compiled_part
def zero5():
    zero = splat(0.0)
    return zero, zero, zero, zero, zero


@compiled_part
def load5(p, k, step):
    """Rows k, k + step, .. of p."""
    return (
        load(p, k),
        load(p, k + step),
        load(p, k + 2 * step),
        load(p, k + 3 * step),
        load(p, k + 4 * step),
    )


@compiled_part
def store5(p, k, step, v):
    """Rows k, k + step, .. of p <- v."""
    store(p, k, v[0])
    store(p, k + step, v[1])
    store(p, k + 2 * step, v[2])
    store(p, k + 3 * step, v[3])
    store(p, k + 4 * step, v[4])


@compiled_part
def fma5(w, v, total):
    """w v + total for a number or lanes w."""
    return (
        fma(w, v[0], total[0]),
        fma(w, v[1], total[1]),
        fma(w, v[2], total[2]),
        fma(w, v[3], total[3]),
        fma(w, v[4], total[4]),
    )


@compiled_part
def reached(k, reach, d):
    """The columns, first and end, where rows k .. k + 4 of a d x d band matrix are not zero."""
    return max(k - reach, 0), min(k + TILE + reach, d)


@compiled_part
def common_tile(matrix, k, first, end, d, x, x0, entry, vector, sums):
    """Add rows k .. k + 4 of a matrix (.., d), from column first on, times five vectors to sums.

    The matrix holds numbers, the same in every lane, entry (k, a) at [k // 5, a, k % 5]; entry a of
    vector j is row x0 + a entry + j vector of x. sums[r][j] belongs to row k + r and vector j.
    """
    p, q, r, s, t = sums
    m = k * d + TILE * first
    for a in range(first, end):
        v = load5(x, x0 + a * entry, vector)
        p = fma5(scalar(matrix, m), v, p)
        q = fma5(scalar(matrix, m + 1), v, q)
        r = fma5(scalar(matrix, m + 2), v, r)
        s = fma5(scalar(matrix, m + 3), v, s)
        t = fma5(scalar(matrix, m + 4), v, t)
        m += TILE
    return p, q, r, s, t


@compiled_part
def base_product(matrix, reach, d, x, x0, y, y0):
    """Rows y0.. <- a tiled d x d band matrix times rows x0..; writes up to four more rows."""
    for k in range(0, d, TILE):
        p = q = r = s = t = splat(0.0)
        first, end = reached(k, reach, d)
        m = k * d + TILE * first
        for a in range(first, end):
            v = load(x, x0 + a)
            p = fma(scalar(matrix, m), v, p)
            q = fma(scalar(matrix, m + 1), v, q)
            r = fma(scalar(matrix, m + 2), v, r)
            s = fma(scalar(matrix, m + 3), v, s)
            t = fma(scalar(matrix, m + 4), v, t)
            m += TILE
        store5(y, y0 + k, 1, (p, q, r, s, t))


@compiled_part
def tile_row(rows, j, a):
    """The row of entry a of agent j among ``rows`` agents: five entries of all agents, five more.

    So are laid out h[j], a being an entry, and weights, a being another agent.
    """
    return a // TILE * TILE * rows + TILE * j + a % TILE


@compiled_part
def _descend5(step, total, x, k):
    store5(x, k, 1, fma5(-step, total, load5(x, k, 1)))


@compiled_part
def _descend_tile(weights, w0, h, h0, n, d, alpha, x_scale, i, x, x0):
    """x^i <- x^i - alpha_i sum_j w^i_j h[j] for five agents i and five entries from row x0 on."""
    p = q = r = s = t = zero5()
    for j in range(n):
        k = TILE * j
        v = load5(h, h0 + k, 1)
        p = fma5(load(weights, w0 + k), v, p)
        q = fma5(load(weights, w0 + k + 1), v, q)
        r = fma5(load(weights, w0 + k + 2), v, r)
        s = fma5(load(weights, w0 + k + 3), v, s)
        t = fma5(load(weights, w0 + k + 4), v, t)
    _descend5(alpha * scalar(x_scale, i), p, x, x0)
    _descend5(alpha * scalar(x_scale, i + 1), q, x, x0 + d)
    _descend5(alpha * scalar(x_scale, i + 2), r, x, x0 + 2 * d)
    _descend5(alpha * scalar(x_scale, i + 3), s, x, x0 + 3 * d)
    _descend5(alpha * scalar(x_scale, i + 4), t, x, x0 + 4 * d)


@compiled_part
def subtract_weighted_sums(weights, h, n, d, alpha, x_scale, x):
    """x^i <- x^i - alpha_i sum_j w^i_j h[j], with both laid out by :func:`tile_row`.

    A tile of entries of all h[j] stays in the nearest cache while the weights stream by.
    """
    rows = padded(n)
    for a in range(0, d - 4, TILE):
        for i in range(0, rows, TILE):
            _descend_tile(weights, i * rows, h, a * rows, n, d, alpha, x_scale, i, x, i * d + a)
    for a in range(d // TILE * TILE, d):
        for i in range(n):
            total = splat(0.0)
            for j in range(n):
                w = load(weights, tile_row(rows, j, i))
                total = fma(w, load(h, tile_row(rows, j, a)), total)
            step = -alpha * scalar(x_scale, i)
            store(x, i * d + a, fma(step, total, load(x, i * d + a)))
