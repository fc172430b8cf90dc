"""What the fused loops ask of a system: samples, A(s), Phi(s), b(s) and density ratios.

The two systems are tuples of arrays; numba picks the body by the tuple's type, so the methods in
``_methods`` are written once.  All buffers are rows of lanes: entry a of agent j's vector is row j
d + a.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numba.core.extending import overload

from linsys._compiled import compiled, unique_name
from linsys._validate import Array, InputError
from linsys.kernels.lanes_math import exp2, floor_positive, normal_pair, unit_interval
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
from linsys.systems import FiniteSystem, GaussianSystem

__all__ = [
    "TILE",
    "FiniteArrays",
    "GaussianArrays",
    "agents",
    "apply_A",
    "correct_agent",
    "density_weights",
    "draw",
    "objective",
    "padded_rows",
    "prepare_A",
    "prepare_center",
    "subtract_weighted_sums",
    "system_arrays",
]

#: Agents whose ratios are formed together; buffers over pairs of agents are padded to a multiple of
#: it.
TILE = 5


class GaussianArrays(NamedTuple):
    """A Gaussian system for the kernels; names of arrays are addresses."""

    n: int
    d: int
    means: int  # (n + 1, d), the last row is zero
    slopes: int  # (padded n, d): m_k / log 2
    offsets: int  # (n, padded n): -|m_j - m_k|^2 / (2 log 2); padded agents weigh next to nothing
    targets: int  # (n, d): Phi_base theta^j
    A_base: int
    Phi_base: int
    eps_A: float
    eps_b: float


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


@compiled
def padded_rows(n):
    """n rounded up to a whole number of tiles."""
    return -(-n // TILE) * TILE


@compiled
def noise_row(n, d):
    """Where the deviations from the means begin among the states: n d rounded up to even."""
    return (n * d + 1) // 2 * 2


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


def system_arrays(
    system: GaussianSystem | FiniteSystem,
) -> tuple[GaussianArrays | FiniteArrays, list[Array]]:
    """Lay a system out for the kernels; the second value must outlive the use of the first."""
    if not isinstance(system, (GaussianSystem, FiniteSystem)):
        raise InputError(
            "`system` must be a GaussianSystem or a FiniteSystem to run in a kernel; found "
            f"{type(system).__name__}: use linsys.algorithms.iterate"
        )
    n, d = system.n, system.d
    if isinstance(system, GaussianSystem):
        rows = padded_rows.py_func(n)
        means, slopes = np.zeros((n + 1, d)), np.zeros((rows, d))
        means[:n], slopes[:n] = system.means, system.means / np.log(2.0)
        offsets = np.full((n, rows), -1e300)
        offsets[:, :n] = -((system.means[:, None] - system.means[None]) ** 2).sum(-1) / np.log(4.0)
        targets = np.ascontiguousarray(system.theta @ system.Phi_base.T)
        held = [means, slopes, offsets, targets, system.A_base, system.Phi_base]
        addresses = [a.ctypes.data for a in held]
        return GaussianArrays(n, d, *addresses, system.eps_A, system.eps_b), held
    held = [
        system.A,
        system.Phi,
        system.b,
        np.ascontiguousarray(system.rho),
        *_alias_tables(system.mu),
    ]
    return FiniteArrays(n, d, system.n_states, *(a.ctypes.data for a in held)), held


@compiled
def _load5(p, k):
    return load(p, k), load(p, k + 1), load(p, k + 2), load(p, k + 3), load(p, k + 4)


@compiled
def _dot5(p, k, v, total):
    """total + the sum over a < 5 of the number k + a of p times v[a]."""
    total = fma(scalar(p, k), v[0], total)
    total = fma(scalar(p, k + 1), v[1], total)
    total = fma(scalar(p, k + 2), v[2], total)
    total = fma(scalar(p, k + 3), v[3], total)
    return fma(scalar(p, k + 4), v[4], total)


@compiled
def _inner5(p, k, v, total):
    """total + the sum over a < 5 of row k + a of p times v[a]."""
    total = fma(load(p, k), v[0], total)
    total = fma(load(p, k + 1), v[1], total)
    total = fma(load(p, k + 2), v[2], total)
    total = fma(load(p, k + 3), v[3], total)
    return fma(load(p, k + 4), v[4], total)


@compiled
def base_product(matrix, d, x, x0, y, y0):
    """Rows y0.. <- the d x d matrix times rows x0.., five sums at a time in registers."""
    k = 0
    while k + 5 <= d:
        p = q = r = s = t = splat(0.0)
        m = k * d
        for a in range(0, d - 4, 5):
            v = _load5(x, x0 + a)
            p = _dot5(matrix, m + a, v, p)
            q = _dot5(matrix, m + d + a, v, q)
            r = _dot5(matrix, m + 2 * d + a, v, r)
            s = _dot5(matrix, m + 3 * d + a, v, s)
            t = _dot5(matrix, m + 4 * d + a, v, t)
        for a in range(d // 5 * 5, d):
            u = load(x, x0 + a)
            p = fma(scalar(matrix, m + a), u, p)
            q = fma(scalar(matrix, m + d + a), u, q)
            r = fma(scalar(matrix, m + 2 * d + a), u, r)
            s = fma(scalar(matrix, m + 3 * d + a), u, s)
            t = fma(scalar(matrix, m + 4 * d + a), u, t)
        store(y, y0 + k, p)
        store(y, y0 + k + 1, q)
        store(y, y0 + k + 2, r)
        store(y, y0 + k + 3, s)
        store(y, y0 + k + 4, t)
        k += 5
    while k < d:
        p = splat(0.0)
        for a in range(d):
            p = fma(scalar(matrix, k * d + a), load(x, x0 + a), p)
        store(y, y0 + k, p)
        k += 1


@compiled
def copy_rows(x, x0, y, y0, count):
    for a in range(count):
        store(y, y0 + a, load(x, x0 + a))


@compiled
def inner(p, k, q, m, d):
    """Sum over a < d of row k + a of p times row m + a of q; four sums hide latency."""
    s0 = s1 = s2 = s3 = splat(0.0)
    a = 0
    while d > 8 and a + 4 <= d:
        s0 = fma(load(p, k + a), load(q, m + a), s0)
        s1 = fma(load(p, k + a + 1), load(q, m + a + 1), s1)
        s2 = fma(load(p, k + a + 2), load(q, m + a + 2), s2)
        s3 = fma(load(p, k + a + 3), load(q, m + a + 3), s3)
        a += 4
    while a < d:
        s0 = fma(load(p, k + a), load(q, m + a), s0)
        a += 1
    return (s0 + s1) + (s2 + s3)


@compiled
def inner_scalars(p, k, q, m, d):
    """The same with the numbers k + a of p times the rows m + a of q."""
    s0 = s1 = s2 = s3 = splat(0.0)
    a = 0
    while d > 8 and a + 4 <= d:
        s0 = fma(scalar(p, k + a), load(q, m + a), s0)
        s1 = fma(scalar(p, k + a + 1), load(q, m + a + 1), s1)
        s2 = fma(scalar(p, k + a + 2), load(q, m + a + 2), s2)
        s3 = fma(scalar(p, k + a + 3), load(q, m + a + 3), s3)
        a += 4
    while a < d:
        s0 = fma(scalar(p, k + a), load(q, m + a), s0)
        a += 1
    return (s0 + s1) + (s2 + s3)


@compiled
def multiplicative(eps, states, row, d, y, y0, out, o0):
    """out <- y + eps s (s'y), with s in rows row.. of ``states``."""
    dot = inner(states, row, y, y0, d) * eps
    for a in range(d):
        store(out, o0 + a, fma(dot, load(states, row + a), load(y, y0 + a)))


@compiled
def gathered_product(table, state, d, y, y0, out, o0):
    """out <- table[state] y with another matrix in every lane."""
    start = state * splat_bits(d * d)
    for a in range(d):
        total = splat(0.0)
        for c in range(d):
            total = fma(gather(table, start + splat_bits(a * d + c)), load(y, y0 + c), total)
        store(out, o0 + a, total)


def _by_system(gaussian: Any, finite: Any) -> Any:
    """A function whose body numba picks by the type of its first argument, the system."""
    bodies = unique_name(gaussian), unique_name(finite)

    @functools.wraps(gaussian)
    def stub(*args: Any) -> Any:
        """Called from compiled code only."""

    @functools.wraps(gaussian)
    def resolve(system: Any, *rest: Any) -> Any:
        return bodies[system.instance_class is FiniteArrays]

    overload(stub, jit_options={"error_model": "numpy"})(resolve)
    return stub


def _agents_gaussian(system):
    return system.n, system.d


def _agents_finite(system):
    return system.n, system.d


def _draw_gaussian(system, rng, states, indices):
    """States, then from row ``noise_row`` on their deviations z^j from the means."""
    n, d = system.n, system.d
    noise = noise_row(n, d)
    state = load_state(rng)
    for k in range(0, n * d, 2):
        radius, state = next_bits(state)
        angle, state = next_bits(state)
        first, second = normal_pair(radius, angle)
        store(states, noise + k, first)
        store(states, k, first + scalar(system.means, k))
        # Where n d is odd, the last one goes to rows that nobody reads.
        store(states, noise + k + 1, second)
        store(states, k + 1, second + scalar(system.means, k + 1))
    store_state(rng, state)


def _draw_finite(system, rng, states, indices):
    n, S = system.n, system.S
    state = load_state(rng)
    for j in range(n):
        bits, state = next_bits(state)
        column, fraction = floor_positive(unit_interval(bits) * float(S))
        at = column + splat_bits(j * S)
        taken = to_int(gather(system.alias, at))
        store_bits(indices, j, select(fraction < gather(system.keep, at), column, taken))
    store_state(rng, state)


def _prepare_A_gaussian(system, x, x0, y, y0):
    base_product(system.A_base, system.d, x, x0, y, y0)


def _prepare_finite(system, x, x0, y, y0):
    for a in range(system.d):
        store(y, y0 + a, load(x, x0 + a))


def _apply_A_gaussian(system, states, indices, j, y, y0, out, o0):
    d = system.d
    multiplicative(system.eps_A, states, j * d, d, y, y0, out, o0)


def _apply_A_finite(system, states, indices, j, y, y0, out, o0):
    gathered_product(system.A, load_bits(indices, j), system.d, y, y0, out, o0)


def _objective_gaussian(system, states, indices, j, out, o0):
    d = system.d
    dot = inner_scalars(system.targets, j * d, states, j * d, d) * system.eps_b
    for a in range(d):
        store(
            out, o0 + a, fma(dot, load(states, j * d + a), splat(scalar(system.targets, j * d + a)))
        )


def _objective_finite(system, states, indices, j, out, o0):
    d, S = system.d, system.S
    start = (load_bits(indices, j) + splat_bits(j * S)) * splat_bits(d)
    for a in range(d):
        store(out, o0 + a, gather(system.b, start + splat_bits(a)))


def _prepare_center_gaussian(system, center, theta, shared):
    """Rows A x^c - Phi theta, eps_A A x^c - eps_b Phi theta, Phi theta with the base matrices."""
    d = system.d
    base_product(system.A_base, d, center, 0, shared, 0)
    base_product(system.Phi_base, d, theta, 0, shared, 2 * d)
    for a in range(d):
        y, estimate = load(shared, a), load(shared, 2 * d + a)
        store(shared, a, y - estimate)
        store(shared, d + a, y * system.eps_A - estimate * system.eps_b)


def _prepare_center_finite(system, center, theta, shared):
    """Rows x^c, theta."""
    for a in range(system.d):
        store(shared, a, load(center, a))
        store(shared, system.d + a, load(theta, a))


def _correct_gaussian(system, states, indices, j, shared, x, step, factor, h, total, more, own):
    d = system.d
    at = j * d
    base_product(system.A_base, d, x, at, own, 0)
    # Everything is a vector plus a multiple of s, so that four inner products with s do.
    on_h = on_estimate = on_target = on_own = splat(0.0)
    for a in range(0, d - 4, 5):
        v = _load5(states, at + a)
        on_h = _inner5(shared, d + a, v, on_h)
        on_estimate = _inner5(shared, 2 * d + a, v, on_estimate)
        on_target = _dot5(system.targets, at + a, v, on_target)
        on_own = _inner5(own, a, v, on_own)
    for a in range(d // 5 * 5, d):
        s = load(states, at + a)
        on_h = fma(s, load(shared, d + a), on_h)
        on_estimate = fma(s, load(shared, 2 * d + a), on_estimate)
        on_target = fma(scalar(system.targets, at + a), s, on_target)
        on_own = fma(s, load(own, a), on_own)
    on_own = on_own * system.eps_A - on_target * system.eps_b
    on_estimate = (on_estimate - on_target) * system.eps_b
    for a in range(d):
        s, target = load(states, at + a), splat(scalar(system.targets, at + a))
        residual = fma(s, on_h, load(shared, a))
        store(total, a, load(total, a) + residual)
        store(h, at + a, residual * factor)
        gap = load(shared, 2 * d + a) - target
        store(more, a, load(more, a) + fma(s, on_estimate, gap))
        corrected = fma(s, on_own, load(own, a) - target) - residual
        store(x, at + a, load(x, at + a) - corrected * step)


def _correct_finite(system, states, indices, j, shared, x, step, factor, h, total, more, own):
    d, S = system.d, system.S
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
        store(h, j * d + a, residual * factor)
        store(more, a, load(more, a) + (estimate - target))
        store(own, a, (moved - target) - residual)
    for a in range(d):
        store(x, j * d + a, load(x, j * d + a) - load(own, a) * step)


def _weights_gaussian(system, states, indices, weights, scale):
    n, d = system.n, system.d
    rows, noise = padded_rows(n), noise_row(n, d)
    for j in range(n):
        # log mu^k(s^j) - log mu^j(s^j) = (m_k - m_j)'z^j - |m_k - m_j|^2 / 2 with s^j = m_j + z^j,
        # in units of log 2
        z = noise + j * d
        own = inner_scalars(system.slopes, j * d, states, z, d)
        total = splat(0.0)
        for k in range(0, rows, 5):
            at = k * n + 5 * j
            gap = j * rows + k
            p = splat(scalar(system.offsets, gap)) - own
            q = splat(scalar(system.offsets, gap + 1)) - own
            r = splat(scalar(system.offsets, gap + 2)) - own
            s = splat(scalar(system.offsets, gap + 3)) - own
            t = splat(scalar(system.offsets, gap + 4)) - own
            m = k * d
            a = 0
            while a + 5 <= d:
                v = _load5(states, z + a)
                p = _dot5(system.slopes, m + a, v, p)
                q = _dot5(system.slopes, m + d + a, v, q)
                r = _dot5(system.slopes, m + 2 * d + a, v, r)
                s = _dot5(system.slopes, m + 3 * d + a, v, s)
                t = _dot5(system.slopes, m + 4 * d + a, v, t)
                a += 5
            while a < d:
                u = load(states, z + a)
                p = fma(scalar(system.slopes, m + a), u, p)
                q = fma(scalar(system.slopes, m + d + a), u, q)
                r = fma(scalar(system.slopes, m + 2 * d + a), u, r)
                s = fma(scalar(system.slopes, m + 3 * d + a), u, s)
                t = fma(scalar(system.slopes, m + 4 * d + a), u, t)
                a += 1
            p = exp2(p)
            q = exp2(q)
            r = exp2(r)
            s = exp2(s)
            t = exp2(t)
            total = total + (((p + q) + (r + s)) + t)
            store(weights, at, p)
            store(weights, at + 1, q)
            store(weights, at + 2, r)
            store(weights, at + 3, s)
            store(weights, at + 4, t)
        store(scale, j, splat(1.0) / total)


def _weights_finite(system, states, indices, weights, scale):
    n, S = system.n, system.S
    rows = padded_rows(n)
    for j in range(n):
        state = load_bits(indices, j)
        for k in range(0, rows, 5):
            for r in range(5):
                rho = splat(0.0)
                if k + r < n:
                    rho = gather(system.rho, state + splat_bits((k + r) * S))
                store(weights, k * n + 5 * j + r, rho)
        store(scale, j, splat(1.0 / n))


#: (n, d)
agents = _by_system(_agents_gaussian, _agents_finite)
#: Draw s^j ~ mu^j for every agent.
draw = _by_system(_draw_gaussian, _draw_finite)
#: y <- what all agents share of A(s) x; then ``apply_A`` finishes it for agent j's sample.
prepare_A = _by_system(_prepare_A_gaussian, _prepare_finite)
apply_A = _by_system(_apply_A_gaussian, _apply_A_finite)
#: out <- b^j(s^j)
objective = _by_system(_objective_gaussian, _objective_finite)
#: shared <- what all agents' h^j(x^c, theta) have in common, for ``correct_agent``; 3 d rows
prepare_center = _by_system(_prepare_center_gaussian, _prepare_center_finite)
#: x^j <- x^j - step (g^j(x^j) - h^j); h[j] <- factor h^j; total <- total + h^j; more <- more +
#: Phi(s^j) theta - b^j
correct_agent = _by_system(_correct_gaussian, _correct_finite)
#: weights[k // 5, j, k % 5] scale[j] = rho^k(s^j) / n: a tile of agents k is contiguous over j
density_weights = _by_system(_weights_gaussian, _weights_finite)


@compiled
def _fma5(w, u, total):
    return (
        fma(w, u[0], total[0]),
        fma(w, u[1], total[1]),
        fma(w, u[2], total[2]),
        fma(w, u[3], total[3]),
        fma(w, u[4], total[4]),
    )


@compiled
def _descend5(step, total, x, k):
    for a in range(5):
        store(x, k + a, fma(-step, total[a], load(x, k + a)))


@compiled
def subtract_weighted_sums(weights, h, n, d, alpha, x_scale, x):
    """x^i <- x^i - alpha_i sum_j w^i_j h[j], five agents by five entries in registers.

    ``x`` has the padded number of agents; what is written to the padding is never read.
    """
    rows = padded_rows(n)
    zero = splat(0.0)
    for i in range(0, rows, 5):
        a = 0
        while a + 5 <= d:
            p = q = r = s = t = (zero, zero, zero, zero, zero)
            for j in range(n):
                u = _load5(h, j * d + a)
                k = i * n + 5 * j
                p = _fma5(load(weights, k), u, p)
                q = _fma5(load(weights, k + 1), u, q)
                r = _fma5(load(weights, k + 2), u, r)
                s = _fma5(load(weights, k + 3), u, s)
                t = _fma5(load(weights, k + 4), u, t)
            _descend5(alpha * scalar(x_scale, i), p, x, i * d + a)
            _descend5(alpha * scalar(x_scale, i + 1), q, x, (i + 1) * d + a)
            _descend5(alpha * scalar(x_scale, i + 2), r, x, (i + 2) * d + a)
            _descend5(alpha * scalar(x_scale, i + 3), s, x, (i + 3) * d + a)
            _descend5(alpha * scalar(x_scale, i + 4), t, x, (i + 4) * d + a)
            a += 5
        while a < d:
            for k in range(i, i + 5):
                total = zero
                for j in range(n):
                    total = fma(load(weights, i * n + 5 * j + k - i), load(h, j * d + a), total)
                store(x, k * d + a, fma(-alpha * scalar(x_scale, k), total, load(x, k * d + a)))
            a += 1
