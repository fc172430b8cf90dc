"""The fused loop over rounds for one block of replicates, and one round of every method.

Buffers are rows of lanes (see ``_systems``); a block allocates them once, so memory does not depend
on the number of rounds.  Every round has the order of operations of :mod:`linsys.algorithms`, up to
rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linsys.compiled import compiled
from linsys.kernels._parts import compiled_part
from linsys.kernels._systems import (
    agents,
    apply_A,
    correct_agents,
    density_weights,
    draw_tile,
    objective,
    prepare_A,
    prepare_center,
)
from linsys.kernels._tiles import TILE, padded, subtract_weighted_sums
from linsys.kernels.simd import LANES, fma, load, rows_from, scalar, select, splat, store
from linsys.validate import Array

__all__ = [
    "AFFPCL",
    "CLUSTERED",
    "DITTO",
    "FEDAVG",
    "FINETUNE",
    "INDEPENDENT",
    "PFEDME",
    "MethodCode",
    "StepCode",
    "block",
    "buffers",
    "drawn",
]

INDEPENDENT, FEDAVG, FINETUNE, PFEDME, DITTO, CLUSTERED, AFFPCL = range(7)


class MethodCode(NamedTuple):
    """A method as numbers."""

    kind: int
    switch: int  # fine-tuning
    regularization: float  # pFedMe, Ditto
    clusters: int
    importance: bool  # AffPCL: (8) or (5)
    ratio: bool  # AffPCL: known density ratio, or 1
    implicit: bool  # AffPCL: x^0 or x^c
    estimate: bool  # AffPCL: (22-2) or (22-1)
    learn_objective: bool  # AffPCL: theta^c by (7), or fixed


class StepCode(NamedTuple):
    """alpha_t = numerator / (offset + slope t) times the multipliers."""

    numerator: float
    offset: float
    slope: float
    x: int  # address of (n,)
    center: float
    objective: float


class Buffers(NamedTuple):
    """Addresses of everything one block works on, in rows of lanes; N and D are n and d padded."""

    states: int  # N d + 1 rows
    indices: int  # n rows
    x: int  # N d rows
    center: int  # d rows
    theta: int  # d rows
    models: int  # C d rows
    follows: int  # n rows
    h: int  # N D rows
    weights: int  # N N rows
    scale: int  # N rows
    b: int  # D rows each from here
    y: int
    out: int
    total: int
    more: int
    own: int  # 5 D rows
    shared: int  # 2 d + D rows
    base: int  # C d rows and what a padded product needs beyond


def buffers(n: int, d: int, clusters: int) -> tuple[Buffers, Array]:
    """Allocate a block's memory; the array must outlive the use of the addresses."""
    N, D = padded(n), padded(d)
    models = max(clusters, 1) * d
    counts = [
        N * d + 1,
        n,
        N * d,
        d,
        d,
        models,
        n,
        N * D,
        N * N,
        N,
        *[D] * 5,
        TILE * D,
        2 * d + D,
        models + D,
    ]
    # A row of lanes that straddles two cache lines costs two accesses: begin at a multiple of one.
    row = LANES * 8
    memory = np.zeros((sum(counts) + 1, LANES))
    first = -(-memory.ctypes.data // row) * row
    starts = np.cumsum([0, *counts[:-1]]) * row + first
    return Buffers(*(int(v) for v in starts)), memory


@compiled_part
def _copy_rows(x, x0, y, y0, count):
    for a in range(count):
        store(y, y0 + a, load(x, x0 + a))


@compiled_part
def _draw(system, n, d, rng, states, indices):
    for j in range(0, n, TILE):
        draw_tile(system, rng, j, rows_from(states, j * d), indices)


@compiled_part
def _clear(buffer, count):
    for a in range(count):
        store(buffer, a, splat(0.0))


@compiled_part
def _mean_x(n, d, x, out):
    """out <- (1/n) sum_i x^i"""
    for a in range(d):
        total = splat(0.0)
        for i in range(n):
            total = total + load(x, i * d + a)
        store(out, a, total / float(n))


@compiled_part
def _mean_residual(system, w, n, d, point):
    """w.total <- (1/n) sum_j g^j(point), g^j(x) = A(s^j) x - b^j(s^j)"""
    prepare_A(system, point, 0, w.y, 0)
    _clear(w.total, d)
    for j in range(n):
        apply_A(system, w.states, w.indices, j, w.y, 0, w.out, 0)
        objective(system, w.states, w.indices, j, w.b, 0)
        for a in range(d):
            store(w.total, a, load(w.total, a) + (load(w.out, a) - load(w.b, a)))
    for a in range(d):
        store(w.total, a, load(w.total, a) / float(n))


@compiled_part
def _descend(target, row, direction, d, alpha):
    """target <- target - alpha direction"""
    for a in range(d):
        store(target, row + a, load(target, row + a) - load(direction, a) * alpha)


@compiled_part
def _own_residual(system, w, i, d, x, row, out):
    """out <- g^i(x)"""
    prepare_A(system, x, row, w.y, 0)
    apply_A(system, w.states, w.indices, i, w.y, 0, out, 0)
    objective(system, w.states, w.indices, i, w.b, 0)
    for a in range(d):
        store(out, a, load(out, a) - load(w.b, a))


@compiled_part
def _independent_round(system, w, n, d, alpha, x_scale):
    for i in range(n):
        _own_residual(system, w, i, d, w.x, i * d, w.out)
        _descend(w.x, i * d, w.out, d, alpha * scalar(x_scale, i))


@compiled_part
def _fedavg_round(system, w, n, d, alpha):
    _mean_residual(system, w, n, d, w.center)
    _descend(w.center, 0, w.total, d, alpha)


@compiled_part
def _spread_center(w, n, d):
    for i in range(n):
        _copy_rows(w.center, 0, w.x, i * d, d)


@compiled_part
def _drawn_round(system, w, n, d, alpha, x_scale, r):
    """x^i <- x^i - alpha (g^i(x^i) + r (x^i - w)), Ditto's and pFedMe's personal step."""
    for i in range(n):
        _own_residual(system, w, i, d, w.x, i * d, w.out)
        for a in range(d):
            gap = load(w.x, i * d + a) - load(w.center, a)
            store(w.out, a, load(w.out, a) + gap * r)
        _descend(w.x, i * d, w.out, d, alpha * scalar(x_scale, i))


@compiled_part
def _pfedme_round(system, w, n, d, alpha, x_scale, alpha_center, r):
    _mean_x(n, d, w.x, w.more)
    _drawn_round(system, w, n, d, alpha, x_scale, r)
    for a in range(d):
        gap = load(w.more, a) - load(w.center, a)
        store(w.center, a, load(w.center, a) + gap * (alpha_center * r))


@compiled_part
def _ditto_round(system, w, n, d, alpha, x_scale, alpha_center, r):
    _drawn_round(system, w, n, d, alpha, x_scale, r)
    _fedavg_round(system, w, n, d, alpha_center)


@compiled_part
def _choose_models(system, w, n, d, clusters):
    """w.follows[j] <- the model with the least residual on j's sample, the first of equals."""
    for c in range(clusters):
        prepare_A(system, w.models, c * d, w.base, c * d)
    for j in range(n):
        best = splat(np.inf)
        chosen = splat(0.0)
        objective(system, w.states, w.indices, j, w.b, 0)
        for c in range(clusters):
            apply_A(system, w.states, w.indices, j, w.base, c * d, w.out, 0)
            fit = splat(0.0)
            for a in range(d):
                g = load(w.out, a) - load(w.b, a)
                fit = fma(g, g, fit)
            better = fit < best
            best = select(better, fit, best)
            chosen = select(better, splat(float(c)), chosen)
        store(w.follows, j, chosen)


@compiled_part
def _followed_models(w, n, d, clusters):
    """x^j <- the model agent j follows."""
    for j in range(n):
        mine = load(w.follows, j)
        for a in range(d):
            v = load(w.models, a)
            for c in range(1, clusters):
                v = select(mine == splat(float(c)), load(w.models, c * d + a), v)
            store(w.x, j * d + a, v)


@compiled_part
def _clustered_round(system, w, n, d, alpha, clusters):
    _choose_models(system, w, n, d, clusters)
    _followed_models(w, n, d, clusters)
    for j in range(n):
        _own_residual(system, w, j, d, w.x, j * d, w.out)
        _copy_rows(w.out, 0, w.h, j * d, d)
    for c in range(clusters):
        _clear(w.total, d)
        followers = splat(0.0)
        for j in range(n):
            member = select(load(w.follows, j) == splat(float(c)), splat(1.0), splat(0.0))
            followers = followers + member
            for a in range(d):
                store(w.total, a, fma(member, load(w.h, j * d + a), load(w.total, a)))
        shared = splat(alpha) / select(splat(0.5) < followers, followers, splat(1.0))
        for a in range(d):
            store(w.models, c * d + a, load(w.models, c * d + a) - load(w.total, a) * shared)
    _followed_models(w, n, d, clusters)


@compiled_part
def _affpcl_round(system, method, rng, w, n, d, alpha, x_scale, alpha_center, alpha_objective):
    if method.implicit:
        _mean_x(n, d, w.x, w.center)
    weighted = method.importance and method.ratio
    prepare_center(system, w.center, w.theta, w.shared, w.total, w.more)
    # A tile of agents at a time, from its samples to its moves, stays in the nearest cache; its
    # samples are the first rows of w.states.  x^j moves by its bias-corrected residual, w.h keeps
    # h^j = A(s^j) x^c - Phi(s^j) theta for the central directions, w.total sums h^j and w.more sums
    # Phi(s^j) theta - b^j, the residual of (7).  Their sum is the sum of g^j(x^c).  Without ratios
    # w.scale stays zero and w.h is not used.
    for j in range(0, n, TILE):
        draw_tile(system, rng, j, w.states, w.indices)
        if weighted:
            density_weights(system, w.states, w.indices, j, w.own, w.weights, w.scale)
        correct_agents(
            system,
            w.states,
            w.indices,
            j,
            w.shared,
            w.x,
            alpha,
            x_scale,
            w.scale,
            w.h,
            w.total,
            w.more,
            w.own,
        )
    for a in range(d):
        store(w.total, a, load(w.total, a) / float(n))
        store(w.more, a, load(w.more, a) / float(n))
    if weighted:
        subtract_weighted_sums(w.weights, w.h, n, d, alpha, x_scale, w.x)
    else:
        for i in range(n):
            step = alpha * scalar(x_scale, i)
            for a in range(d):
                v = load(w.total, a)
                if not method.importance:
                    v = v + load(w.more, a)
                store(w.x, i * d + a, load(w.x, i * d + a) - v * step)
    if not method.implicit:
        if not method.estimate:
            for a in range(d):
                store(w.total, a, load(w.total, a) + load(w.more, a))
        _descend(w.center, 0, w.total, d, alpha_center)
    if method.learn_objective:
        _descend(w.theta, 0, w.more, d, alpha_objective)


@compiled_part
def _record(w, n, d, solutions, errors):
    """errors <- squared distances to the solutions (n + 2, d): agents, then x^c, then theta^c."""
    for i in range(n + 2):
        total = splat(0.0)
        for a in range(d):
            if i < n:
                at = load(w.x, i * d + a)
            elif i == n:
                at = load(w.center, a)
            else:
                at = load(w.theta, a)
            gap = at - scalar(solutions, i * d + a)
            total = fma(gap, gap, total)
        store(errors, i, total)


@compiled_part
def _fill(buffer, values, count):
    for k in range(count):
        store(buffer, k, splat(scalar(values, k)))


@compiled_part
def _baseline_round(system, method, w, n, d, t, alpha, x_scale, alpha_center):
    """One round of any method but AffPCL on the samples in w."""
    if method.kind == INDEPENDENT or (method.kind == FINETUNE and t >= method.switch):
        _independent_round(system, w, n, d, alpha, x_scale)
    elif method.kind == FEDAVG or method.kind == FINETUNE:
        _fedavg_round(system, w, n, d, alpha_center)
        _spread_center(w, n, d)
    elif method.kind == PFEDME:
        _pfedme_round(system, w, n, d, alpha, x_scale, alpha_center, method.regularization)
    elif method.kind == DITTO:
        _ditto_round(system, w, n, d, alpha, x_scale, alpha_center, method.regularization)
    else:
        _clustered_round(system, w, n, d, alpha_center, method.clusters)


@compiled
def block(system, method, steps, w, times, rng, x0, theta0, models0, solutions, errors):
    """Run LANES replicates and write squared errors (T, n + 2, LANES); arrays are addresses."""
    n, d = agents(system)
    C = method.clusters
    _fill(w.x, x0, padded(n) * d)
    _fill(w.theta, theta0, d)
    _mean_x(n, d, w.x, w.center)
    if method.kind == CLUSTERED:
        _fill(w.models, models0, C * d)
        for i in range(n):
            store(w.follows, i, splat(float(i % C)))
        _followed_models(w, n, d, C)
    if method.kind == FEDAVG or method.kind == FINETUNE:
        _spread_center(w, n, d)
    t = 0
    for k in range(times.size):
        while t < times[k]:
            alpha = steps.numerator / (steps.offset + steps.slope * t)
            alpha_center = alpha * steps.center
            if method.kind == AFFPCL:
                alpha_objective = alpha * steps.objective
                _affpcl_round(
                    system, method, rng, w, n, d, alpha, steps.x, alpha_center, alpha_objective
                )
            else:
                _draw(system, n, d, rng, w.states, w.indices)
                _baseline_round(system, method, w, n, d, t, alpha, steps.x, alpha_center)
            t += 1
        _record(w, n, d, solutions, errors + k * (n + 2) * (LANES * 8))


@compiled
def drawn(system, w, rng, rounds, vectors, numbers):
    """Write all samples: vectors (rounds, n d, LANES) and state numbers (rounds, n, LANES)."""
    n, d = agents(system)
    for t in range(rounds):
        _draw(system, n, d, rng, w.states, w.indices)
        _copy_rows(w.states, 0, vectors, t * n * d, n * d)
        _copy_rows(w.indices, 0, numbers, t * n, n)
