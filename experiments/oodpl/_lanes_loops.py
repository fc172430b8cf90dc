"""Compiled bodies of :mod:`experiments.oodpl._lanes`: a lane is an answer.

The table of a domain has 1 + p rows of lanes for each prompt: log h, and a row for every parameter
with its features; all of them over log 2, so that probabilities are powers of two. Lanes beyond the
answers have no chance.
"""

from __future__ import annotations

from math import exp, isfinite, log, sqrt, tanh

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing.templates import signature
from numba.extending import intrinsic, register_jitable

from linsys.compiled import compiled
from linsys.kernels.lanes_math import exp2
from linsys.kernels.simd import LANES, F, fma, load, maximum, scalar, splat, store

__all__ = ["EXACT", "climb", "minima", "rounds"]

#: The batch of a step that takes the expectation.
EXACT = 0
_LN2 = 0.6931471805599453
#: Below it a power of two counts as zero.
_LEAST = -1000.0
#: Pivots below this share of the largest diagonal entry are zeros but for rounding.
_SINGULAR = 1e-14
#: Beyond it a number has no exponential in double precision.
_LARGEST = float(np.log(np.finfo(float).max))

_part = register_jitable(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _folded(name, emit, doc):
    """A number from the lanes: halves combined with each other until one is left."""

    def typed(typingctx, v):
        def lower(context, builder, sig, args):
            value = args[0]
            count = LANES
            while count > 1:
                count //= 2
                kind = ir.VectorType(ir.IntType(32), count)
                halves = (ir.Constant(kind, list(range(at, at + count))) for at in (0, count))
                value = emit(builder, *(builder.shuffle_vector(value, value, h) for h in halves))
            return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

        return signature(types.float64, F), lower

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


_total = _folded("_total", lambda b, x, y: b.fadd(x, y), "The sum of the lanes.")
_largest = _folded(
    "_largest",
    lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y),
    "The largest of the lanes.",
)


@intrinsic
def _high(typingctx, a, b):
    """The upper half of the product of two unsigned 64-bit integers."""

    def lower(context, builder, sig, args):
        wide = ir.IntType(128)
        left, right = (builder.zext(one, wide) for one in args)
        product = builder.lshr(builder.mul(left, right), ir.Constant(wide, 64))
        return builder.trunc(product, ir.IntType(64))

    return signature(types.uint64, types.uint64, types.uint64), lower


_MULTIPLIERS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_WEYL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_ELEVEN, _ZERO = np.uint64(11), np.uint64(0)


@_part
def _uniforms(key, stream, k, block, out):
    """Four numbers of :func:`linsys.bilevel.domains.uniforms`, as NumPy's Philox makes them."""
    a, b, c, d = np.uint64(block + 1), np.uint64(stream), np.uint64(k), _ZERO
    one, two = key[0], key[1]
    for _ in range(10):
        above, low = _high(_MULTIPLIERS[0], a), _MULTIPLIERS[0] * a
        over, less = _high(_MULTIPLIERS[1], c), _MULTIPLIERS[1] * c
        a, b, c, d = over ^ b ^ one, less, above ^ d ^ two, low
        one, two = one + _WEYL[0], two + _WEYL[1]
    out[0] = (a >> _ELEVEN) * 2.0**-53
    out[1] = (b >> _ELEVEN) * 2.0**-53
    out[2] = (c >> _ELEVEN) * 2.0**-53
    out[3] = (d >> _ELEVEN) * 2.0**-53


@_part
def _inverse(cumulative, low, high, uniform):
    """The first of the positions from ``low`` on whose cumulative probability exceeds a number."""
    value = uniform * cumulative[high - 1]
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@_part
def _scores(table, x, p, theta, at):
    """log2 h + psi . theta of a prompt's answers; theta are the items from ``at`` on."""
    row = x * (1 + p)
    v = load(table, row)
    for j in range(p):
        v = fma(scalar(theta, at + j), load(table, row + 1 + j), v)
    return v


@_part
def _add(table, x, p, weights, sums):
    """Add the weights' mean of the features to rows of sums, a lane for every answer."""
    row = x * (1 + p) + 1
    for j in range(p):
        store(sums, j, fma(weights, load(table, row + j), load(sums, j)))


@_part
def _clear(sums, p):
    for j in range(p):
        store(sums, j, splat(0.0))


@compiled
def rounds(
    phis,
    slopes,
    theta_0,
    tables,
    xi,
    laws,
    cumulative,
    widths,
    pairs,
    chances,
    drawn,
    offsets,
    s,
    beta,
    alpha,
    eta,
    first,
    key,
    inner,
    outer,
    every,
    marks,
    W,
    flows,
    scores,
    steep,
    totals,
    path,
    pis,
    xs,
    ys,
    moved,
    sums,
    uniform,
):
    """Rows 1, 2, .. of ``phis``, one for each round; how many were made before one is refused.

    ``slopes`` become the rounds' hypergradients. The arrays from ``W`` on are room.
    """
    d, X, rows, _ = tables.shape
    p, Y, q, D = rows - 1, laws.shape[2], phis.shape[1], len(path) - 1
    R = X if inner == EXACT else inner
    W_, flows_, path_, pis_ = W.ctypes.data, flows.ctypes.data, path.ctypes.data, pis.ctypes.data
    sums_, moved_, marks_ = sums.ctypes.data, moved.ctypes.data, marks.ctypes.data
    scores_ = scores.ctypes.data
    for j in range(p):
        path[0, j] = theta_0[j]
    for k in range(len(phis) - 1):
        for c in range(q):
            slopes[k, c] = 0.0
        begin, end = 0, d
        if not every:
            _uniforms(key, 2, first + k, 0, uniform)
            begin = int(uniform[0] * d)
            end = begin + 1
        for task in range(begin, end):
            table = tables.ctypes.data + 8 * task * X * rows * LANES
            smooth = 0.0
            for x in range(X):
                Z = 0.0
                for y in range(Y):
                    r = 0.0
                    for c in range(q):
                        r += xi[task, x, y, c] * phis[k, c]
                    steep[x, y] = 1.0
                    if isfinite(s):
                        bent = tanh(r / s)
                        r, steep[x, y] = s * bent, 1.0 - bent * bent
                    if not r / beta <= _LARGEST:
                        return k
                    weight = exp(r / beta)
                    share = laws[task, x, y] * weight
                    Z += share
                    W[x, y] = share if inner == EXACT else weight / inner
                totals[x] = Z
                smooth += Z * widths[task, x]
            if inner != EXACT:
                blocks = (inner + 3) // 4
                for t in range(D):
                    for i in range(inner):
                        if i % 4 == 0:
                            _uniforms(key, 0, first + k, t * blocks + i // 4, uniform)
                        at = _inverse(cumulative[task], 0, X * Y, uniform[i % 4])
                        xs[t * inner + i], ys[t * inner + i] = at // Y, at % Y
            for t in range(D):
                _clear(sums_, p)
                for i in range(R):
                    x, Z, w = i, totals[i % X], load(W_, i % X)
                    if inner != EXACT:
                        x, y = xs[t * R + i], ys[t * R + i]
                        Z = W[x, y]
                        w = load(marks_, y) * Z
                    v = _scores(table, x, p, path_, t * p)
                    e = exp2(maximum(splat(_LEAST), v - _largest(v)))
                    pi = e * (1.0 / _total(e))
                    store(pis_, t * R + i, pi)
                    _add(table, x, p, w - pi * Z, sums_)
                for j in range(p):
                    path[t + 1, j] = path[t, j] + alpha * _LN2 * _total(load(sums_, j))
            for j in range(p):
                if not isfinite(path[D, j]):
                    return k
            if smooth > 0.0 and not alpha < 2.0 / smooth:
                rise = 0.0
                for at in range(2):
                    for x in range(X):
                        v = _scores(table, x, p, path_, at * D * p)
                        u = maximum(splat(_LEAST), v - _largest(v))
                        store(scores_, x, u)
                        normaliser = log(_total(exp2(u)))
                        for y in range(Y):
                            share = W[x, y]
                            if inner != EXACT:
                                share *= inner * laws[task, x, y]
                            value = share * (normaliser - _LN2 * scores[x, y])
                            rise += value if at == 1 else -value
                if not rise <= 0.0:
                    return k
            # the slope of the preference loss
            for x in range(X):
                store(scores_, x, _scores(table, x, p, path_, D * p) * _LN2)
                store(flows_, x, splat(0.0))
            low, high = offsets[task], offsets[task + 1]
            for i in range(high - low if outer == EXACT else outer):
                at = low + i
                weight = chances[at] if outer == EXACT else 1.0 / outer
                if outer != EXACT:
                    if i % 4 == 0:
                        _uniforms(key, 1, first + k, i // 4, uniform)
                    at = _inverse(drawn, low, high, uniform[i % 4])
                x, y, other = pairs[at, 0], pairs[at, 1], pairs[at, 2]
                wrong = weight / (1.0 + exp(scores[x, y] - scores[x, other]))
                flows[x, y] -= wrong
                flows[x, other] += wrong
            _clear(sums_, p)
            for x in range(X):
                _add(table, x, p, load(flows_, x), sums_)
                store(flows_, x, splat(0.0))
            for j in range(p):
                moved[j] = _LN2 * _total(load(sums_, j))
            # back along the path
            for t in range(D - 1, -1, -1):
                _clear(sums_, p)
                for i in range(R):
                    x, Z, w = i, totals[i % X], splat(1.0)
                    if inner != EXACT:
                        x, y = xs[t * R + i], ys[t * R + i]
                        Z = W[x, y]
                        w = load(marks_, y) * Z
                    pi = load(pis_, t * R + i)
                    along = splat(0.0)
                    row = x * rows + 1
                    for j in range(p):
                        along = fma(scalar(moved_, j), load(table, row + j), along)
                    along = along - _total(pi * along)
                    store(flows_, x, fma(w, along, load(flows_, x)))
                    _add(table, x, p, pi * along * Z, sums_)
                for j in range(p):
                    moved[j] -= alpha * _LN2 * _LN2 * _total(load(sums_, j))
            for x in range(X):
                for y in range(Y):
                    flow = flows[x, y] * steep[x, y] * (alpha * _LN2 / beta)
                    if inner == EXACT:
                        flow *= W[x, y]
                    for c in range(q):
                        slopes[k, c] += flow * xi[task, x, y, c]
        for c in range(q):
            slopes[k, c] /= end - begin
            phis[k + 1, c] = phis[k, c] - eta * slopes[k, c]
            if not isfinite(phis[k + 1, c]):
                return k
    return len(phis) - 1


@_part
def _evaluate(table, W, at, totals, p, theta, sums, slope, hessian):
    """The loss of weights W (X, LANES) at theta, its slope (p,) and its Hessian (p, p)."""
    value, scores = 0.0, p + p * p
    _clear(sums, scores + p)
    for x in range(len(totals)):
        w, Z, row = load(W, at * len(totals) + x), totals[x], x * (1 + p) + 1
        v = _scores(table, x, p, theta, 0)
        u = maximum(splat(_LEAST), v - _largest(v))
        e = exp2(u)
        normaliser = _total(e)
        pi = e * (1.0 / normaliser)
        value += Z * log(normaliser) - _LN2 * _total(w * u)
        _add(table, x, p, pi * Z - w, sums)
        for j in range(p):
            psi = load(table, row + j)
            store(sums, scores + j, psi - _total(pi * psi))
        for j in range(p):
            left = load(sums, scores + j) * pi * Z
            for i in range(j + 1):
                cell = p + j * p + i
                store(sums, cell, fma(left, load(sums, scores + i), load(sums, cell)))
    for j in range(p):
        slope[j] = _LN2 * _total(load(sums, j))
        for i in range(j + 1):
            hessian[j, i] = _LN2 * _LN2 * _total(load(sums, p + j * p + i))
    return value


@_part
def _newton(hessian, slope, step):
    """The step (p,) to the minimum of a parabola; whether its Hessian, overwritten, is definite."""
    p, largest = len(step), 0.0
    for j in range(p):
        largest = max(largest, hessian[j, j])
    for j in range(p):
        for i in range(j + 1):
            value = hessian[j, i]
            for c in range(i):
                value -= hessian[j, c] * hessian[i, c]
            if i < j:
                hessian[j, i] = value / hessian[i, i]
            elif value > _SINGULAR * largest:
                hessian[j, j] = sqrt(value)
            else:
                return False
    for j in range(p):
        value = -slope[j]
        for c in range(j):
            value -= hessian[j, c] * step[c]
        step[j] = value / hessian[j, j]
    for j in range(p - 1, -1, -1):
        value = step[j]
        for c in range(j + 1, p):
            value -= hessian[c, j] * step[c]
        step[j] = value / hessian[j, j]
    return True


@compiled
def minima(theta, table, W, totals, point, trial, step, slope, hessian, sums):
    """Move the rows of theta (n, p) to the minima for weights W (n, X, LANES); how many have one.

    The steps of :func:`linsys.bilevel._newton.minimise`. The arrays from ``point`` on are room.
    """
    p = theta.shape[1]
    table_, W_, sums_ = table.ctypes.data, W.ctypes.data, sums.ctypes.data
    point_, trial_ = point.ctypes.data, trial.ctypes.data
    for row in range(len(theta)):
        for j in range(p):
            point[j] = theta[row, j]
        value = _evaluate(table_, W_, row, totals[row], p, point_, sums_, slope, hessian)
        previous, found = np.inf, False
        for _ in range(100):
            if not _newton(hessian, slope, step):
                break
            decrease, size, scale = 0.0, 0.0, 1.0
            for j in range(p):
                decrease -= slope[j] * step[j]
                size += step[j] * step[j]
            size = sqrt(size)
            while True:
                for j in range(p):
                    trial[j] = point[j] + scale * step[j]
                reached = _evaluate(table_, W_, row, totals[row], p, trial_, sums_, slope, hessian)
                low = reached <= value - 1e-4 * scale * decrease
                if low or not decrease > 1e-9 * abs(value) or scale < 1e-300:
                    break
                scale /= 2.0
            length = 0.0
            for j in range(p):
                point[j] = trial[j]
                length += trial[j] * trial[j]
            value = reached
            relative = size / (1.0 + sqrt(length))
            if relative <= 1e-10 or (relative <= 1e-6 and size >= previous / 2.0):
                found = True
                break
            previous = size
        if not found:
            return row
        for j in range(p):
            theta[row, j] = point[j]
    return len(theta)


@compiled
def climb(theta, tables, rewards, references, prompts, beta, eta, steps, sums):
    """Move theta (p,) along the gradient of RLHF's objective, ``steps`` times.

    ``rewards`` and ``references``, log pi of the reference, are of shape (domains, X, LANES).
    """
    d, X, rows, _ = tables.shape
    p = rows - 1
    theta_, sums_ = theta.ctypes.data, sums.ctypes.data
    rewards_, references_ = rewards.ctypes.data, references.ctypes.data
    for _ in range(steps):
        _clear(sums_, p)
        for task in range(d):
            table = tables.ctypes.data + 8 * task * X * rows * LANES
            for x in range(X):
                at = task * X + x
                v = _scores(table, x, p, theta_, 0)
                u = maximum(splat(_LEAST), v - _largest(v))
                e = exp2(u)
                normaliser = _total(e)
                pi = e * (1.0 / normaliser)
                log_pi = u * _LN2 - log(normaliser)
                gain = load(rewards_, at) - (log_pi - load(references_, at)) * beta
                flow = pi * gain * (prompts[task, x] / d)
                _add(table, x, p, flow - pi * _total(flow), sums_)
        for j in range(p):
            theta[j] += eta * _LN2 * _total(load(sums_, j))
