"""A Gaussian system in the fused loops: samples, A(s), Phi(s), b(s) and density ratios.

All buffers are rows of lanes: entry a of agent j's vector is row j d + a.
"""

from __future__ import annotations

from linsys.kernels._gaussian_arrays import LEAST_POWER
from linsys.kernels._parts import compiled_part
from linsys.kernels._tiles import (
    TILE,
    base_product,
    common_tile,
    fma5,
    load5,
    padded,
    reached,
    store5,
    tile_row,
    zero5,
)
from linsys.kernels.lanes_math import exp2, normal_pair, normal_radius
from linsys.kernels.random import load_state, next_bits, store_state
from linsys.kernels.simd import (
    fma,
    fnma,
    load,
    load_bits,
    maximum,
    scalar,
    splat,
    store,
    store_bits,
)


def agents(system):
    return system.n, system.d


def draw_tile(system, rng, j, states, indices):
    d, at = system.d, j * system.d
    count = min(TILE, system.n - j) * d
    state = load_state(rng)
    # Two loops, each of which has registers for its constants.
    for k in range(0, count, 2):
        radius, state = next_bits(state)
        angle, state = next_bits(state)
        store(states, k, normal_radius(radius))
        store_bits(states, k + 1, angle)
    for k in range(0, count, 2):
        first, second = normal_pair(load(states, k), load_bits(states, k + 1))
        store(states, k, first + scalar(system.means, at + k))
        store(states, k + 1, second + scalar(system.means, at + k + 1))
    # Agents that fill up the tile have no samples, so that sums over the tile pass over them.
    for k in range(count, TILE * d):
        store(states, k, splat(0.0))
    store_state(rng, state)


@compiled_part
def _inner(p, k, q, m, d):
    """Sum over a < d of row k + a of p times row m + a of q; two sums hide latency."""
    even = odd = splat(0.0)
    for a in range(0, d - 1, 2):
        even = fma(load(p, k + a), load(q, m + a), even)
        odd = fma(load(p, k + a + 1), load(q, m + a + 1), odd)
    if d % 2:
        even = fma(load(p, k + d - 1), load(q, m + d - 1), even)
    return even + odd


def prepare_A(system, x, x0, y, y0):
    base_product(system.A_base, system.reach, system.d, x, x0, y, y0)


def apply_A(system, states, indices, j, y, y0, out, o0):
    d = system.d
    row = j * d
    dot = _inner(states, row, y, y0, d) * system.eps_A
    for a in range(d):
        store(out, o0 + a, fma(dot, load(states, row + a), load(y, y0 + a)))


def objective(system, states, indices, j, out, o0):
    d = system.d
    row = j * d
    dot = splat(0.0)
    for a in range(d):
        dot = fma(scalar(system.targets, row + a), load(states, row + a), dot)
    dot = dot * system.eps_b
    for a in range(d):
        target = splat(scalar(system.targets, row + a))
        store(out, o0 + a, fma(dot, load(states, row + a), target))


def prepare_center(system, center, theta, shared, total, more):
    """Rows A x^c - Phi theta, eps_A A x^c - eps_b Phi theta, Phi theta with the base matrices."""
    n, d = float(system.n), system.d
    base_product(system.A_base, system.reach, d, center, 0, shared, 0)
    base_product(system.Phi_base, d, d, theta, 0, shared, 2 * d)
    for a in range(d):
        y, estimate = load(shared, a), load(shared, 2 * d + a)
        store(shared, a, y - estimate)
        store(shared, d + a, y * system.eps_A - estimate * system.eps_b)
        store(total, a, (y - estimate) * n)
        store(more, a, estimate * n - scalar(system.target_sum, a))


@compiled_part
def _dot5(u, v, total):
    """total + u v, elementwise."""
    return (
        fma(u[0], v[0], total[0]),
        fma(u[1], v[1], total[1]),
        fma(u[2], v[2], total[2]),
        fma(u[3], v[3], total[3]),
        fma(u[4], v[4], total[4]),
    )


@compiled_part
def _scalar5(p, k, step):
    """Numbers k, k + step, .. of p."""
    return (
        scalar(p, k),
        scalar(p, k + step),
        scalar(p, k + 2 * step),
        scalar(p, k + 3 * step),
        scalar(p, k + 4 * step),
    )


@compiled_part
def _along_samples(system, states, at, shared, own):
    """How far h, Phi(s) theta - b(s), and g(x) - h reach along each of five samples s."""
    d = system.d
    on_h = on_estimate = on_target = on_own = zero5()
    for a in range(d):
        s = load5(states, a, d)
        on_h = fma5(load(shared, d + a), s, on_h)
        on_estimate = fma5(load(shared, 2 * d + a), s, on_estimate)
        on_target = _dot5(_scalar5(system.targets, at + a, d), s, on_target)
        on_own = _dot5(load5(own, TILE * a, 1), s, on_own)
    minus = zero5()
    on_estimate = fma5(system.eps_b, on_estimate, fma5(-system.eps_b, on_target, minus))
    on_own = fma5(system.eps_A, on_own, fma5(-system.eps_b, on_target, fma5(-1.0, on_h, minus)))
    return on_h, on_estimate, on_own


@compiled_part
def _move(s, common, target, own, step, factor, on_h, on_own, x, k, h, row):
    """Entry k of x, of some x^j, and the same entry of h[j]."""
    store(h, row, fma(s, on_h, common) * factor)
    corrected = fma(s, on_own, (own - target) - common)
    store(x, k, fnma(step, corrected, load(x, k)))


@compiled_part
def _sum5(u, v, total):
    """total + u'v"""
    total = fma(u[0], v[0], total)
    total = fma(u[1], v[1], total)
    total = fma(u[2], v[2], total)
    total = fma(u[3], v[3], total)
    return fma(u[4], v[4], total)


def correct_agents(
    system, states, indices, j, shared, x, alpha, x_scale, scale, h, total, more, own
):
    d, at, rows = system.d, j * system.d, padded(system.n)
    for k in range(0, d, TILE):
        sums = zero5(), zero5(), zero5(), zero5(), zero5()
        first, end = reached(k, system.reach, d)
        p, q, r, s, t = common_tile(system.A_base, k, first, end, d, x, at, 1, d, sums)
        store5(own, TILE * k, 1, p)
        store5(own, TILE * (k + 1), 1, q)
        store5(own, TILE * (k + 2), 1, r)
        store5(own, TILE * (k + 3), 1, s)
        store5(own, TILE * (k + 4), 1, t)
    # Everything is a vector plus a multiple of s, so that four inner products with s do.
    g, e, o = _along_samples(system, states, at, shared, own)
    f = load5(scale, j, 1)
    s0, s1 = alpha * scalar(x_scale, j), alpha * scalar(x_scale, j + 1)
    s2, s3 = alpha * scalar(x_scale, j + 2), alpha * scalar(x_scale, j + 3)
    s4 = alpha * scalar(x_scale, j + 4)
    for a in range(d):
        k, row = at + a, tile_row(rows, j, a)
        s, y, c = load5(states, a, d), load5(own, TILE * a, 1), load(shared, a)
        b = _scalar5(system.targets, k, d)
        _move(s[0], c, b[0], y[0], s0, f[0], g[0], o[0], x, k, h, row)
        _move(s[1], c, b[1], y[1], s1, f[1], g[1], o[1], x, k + d, h, row + TILE)
        _move(s[2], c, b[2], y[2], s2, f[2], g[2], o[2], x, k + 2 * d, h, row + 2 * TILE)
        _move(s[3], c, b[3], y[3], s3, f[3], g[3], o[3], x, k + 3 * d, h, row + 3 * TILE)
        _move(s[4], c, b[4], y[4], s4, f[4], g[4], o[4], x, k + 4 * d, h, row + 4 * TILE)
        store(total, a, _sum5(g, s, load(total, a)))
        store(more, a, _sum5(e, s, load(more, a)))


@compiled_part
def _deviations(system, states, j, z):
    """z <- s^j - m_j for five agents; returns m_j'z^j in units of log 2."""
    d = system.d
    own = zero5()
    for a in range(d):
        k = j * d + a
        s, m = load5(states, a, d), _scalar5(system.means, k, d)
        v = s[0] - m[0], s[1] - m[1], s[2] - m[2], s[3] - m[3], s[4] - m[4]
        store5(z, TILE * a, 1, v)
        own = _dot5(_scalar5(system.slopes, k, d), v, own)
    return own


@compiled_part
def _offset5(p, k, own):
    """Numbers k .. k + 4 of p less own."""
    m = _scalar5(p, k, 1)
    return (
        splat(m[0]) - own[0],
        splat(m[1]) - own[1],
        splat(m[2]) - own[2],
        splat(m[3]) - own[3],
        splat(m[4]) - own[4],
    )


@compiled_part
def _log_ratios(system, states, j, z, weights):
    """Logarithms to base 2 of the ratios of five agents' samples, where the weights belong.

    log mu^k(s^j) - log mu^j(s^j) = (m_k - m_j)'z^j - |m_k - m_j|^2 / 2 with s^j = m_j + z^j.
    """
    rows = padded(system.n)
    own = _deviations(system, states, j, z)
    for k in range(0, rows, TILE):
        g = k * rows + j
        p, q, r, s, t = common_tile(
            system.tiled_slopes,
            k,
            0,
            system.d,
            system.d,
            z,
            0,
            TILE,
            1,
            (
                _offset5(system.offsets, g, own),
                _offset5(system.offsets, g + rows, own),
                _offset5(system.offsets, g + 2 * rows, own),
                _offset5(system.offsets, g + 3 * rows, own),
                _offset5(system.offsets, g + 4 * rows, own),
            ),
        )
        at = k * rows + TILE * j
        store5(weights, at, TILE, p)
        store5(weights, at + 1, TILE, q)
        store5(weights, at + 2, TILE, r)
        store5(weights, at + 3, TILE, s)
        store5(weights, at + 4, TILE, t)


@compiled_part
def _bound(weights, first, step, count):
    """Raise tiles of five logarithms to that of the least normal number."""
    for at in range(first, first + count * step, step):
        for k in range(at, at + TILE):
            store(weights, k, maximum(load(weights, k), splat(LEAST_POWER)))


@compiled_part
def _powers(weights, first, step, count):
    """Replace tiles of five logarithms by their powers of 2; returns the sum of all."""
    total = splat(0.0)
    for at in range(first, first + count * step, step):
        p, q, r, s, t = load5(weights, at, 1)
        p, q, r, s, t = exp2(p), exp2(q), exp2(r), exp2(s), exp2(t)
        total = total + (((p + q) + (r + s)) + t)
        store5(weights, at, 1, (p, q, r, s, t))
    return total


def density_weights(system, states, indices, j, own, weights, scale):
    rows = padded(system.n)
    _log_ratios(system, states, j, own, weights)
    for i in range(j, min(j + TILE, system.n)):
        if system.far:
            _bound(weights, TILE * i, TILE * rows, rows // TILE)
        total = _powers(weights, TILE * i, TILE * rows, rows // TILE)
        store(scale, i, splat(1.0) / total)
