"""Whole runs of FIRM with two objectives as compiled loops: faster bodies of :func:`mgda.runs.run`.

Critics have tabular features, so that their weights are values v^j(s) and their fixed points V, and
programs of two points have a closed form. Random numbers are those of :mod:`mgda.trajectories`,
whose compiled functions no other file may call (see :mod:`linsys.compiled`).
"""

from __future__ import annotations

import math

import numpy as np

from linsys.compiled import compiled

__all__ = ["gap_runs", "training_runs"]

_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_UNIT = 2.0**-53


@compiled
def _high(a, b):
    """The upper 64 bits of a product of two 64-bit integers."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0 + ((a0 * b0) >> _HALF)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _HALF) + (other >> _HALF)


@compiled
def _philox(key, c0, c1, c2):
    """Philox4x64-10 of the counter (c0, c1, c2, 0), as uniform numbers."""
    k0, k1, c3 = key[0], key[1], np.uint64(0)
    for _ in range(10):
        h0, h1 = _high(_M0, c0), _high(_M1, c2)
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, _M1 * c2, h0 ^ c3 ^ k1, _M0 * c0
        k0, k1 = k0 + _W0, k1 + _W1
    u0, u1 = np.float64(c0 >> np.uint64(11)) * _UNIT, np.float64(c1 >> np.uint64(11)) * _UNIT
    u2, u3 = np.float64(c2 >> np.uint64(11)) * _UNIT, np.float64(c3 >> np.uint64(11)) * _UNIT
    return u0, u1, u2, u3


@compiled
def _draw(cumulative, u):
    """The first k with u < cumulative[k]; the last one where rounding leaves none."""
    k = 0
    while k < len(cumulative) - 1 and u >= cumulative[k]:
        k += 1
    return k


@compiled
def _solve(A, sides):
    """A x = b for every column of ``sides`` in place; A is diagonally dominant and is destroyed."""
    n, width = sides.shape
    for p in range(n):
        for i in range(p + 1, n):
            factor = A[i, p] / A[p, p]
            for j in range(p + 1, n):
                A[i, j] -= factor * A[p, j]
            for j in range(width):
                sides[i, j] -= factor * sides[p, j]
    for p in range(n - 1, -1, -1):
        for j in range(width):
            for i in range(p + 1, n):
                sides[p, j] -= A[p, i] * sides[i, j]
            sides[p, j] /= A[p, p]


@compiled
def _act(theta, x, pi):
    """The policy pi (S, A) of theta (d,)."""
    S, A, d = x.shape
    for s in range(S):
        largest = -np.inf
        for a in range(A):
            pi[s, a] = 0.0
            for i in range(d):
                pi[s, a] += x[s, a, i] * theta[i]
            largest = max(largest, pi[s, a])
        total = 0.0
        for a in range(A):
            pi[s, a] = math.exp(pi[s, a] - largest)
            total += pi[s, a]
        for a in range(A):
            pi[s, a] /= total


@compiled
def _add_up(laws, sums):
    """Cumulative sums along the last axis of (n, k)."""
    for row in range(len(laws)):
        total = 0.0
        for k in range(laws.shape[1]):
            total += laws[row, k]
            sums[row, k] = total


@compiled
def _evaluate(P, mean_r, start, gamma, pi, matrix, V, nu):
    """V (S, M) and the occupancy nu (S, 1) of a policy."""
    S, A = pi.shape
    for side in range(2):
        for s in range(S):
            for t in range(S):
                after = 0.0
                for a in range(A):
                    after += pi[s, a] * P[s, a, t]
                entry = (1.0 if s == t else 0.0) - gamma * after
                if side == 0:
                    matrix[s, t] = entry
                else:
                    matrix[t, s] = entry
            for j in range(V.shape[1]):
                if side == 0:
                    V[s, j] = 0.0
                    for a in range(A):
                        V[s, j] += pi[s, a] * mean_r[s, a, j]
            if side == 1:
                nu[s, 0] = (1.0 - gamma) * start[s]
        _solve(matrix, V if side == 0 else nu)


@compiled
def _score_sum(table, x, pi, g):
    """g = sum_{s, a} psi(a|s) table(s, a, j), shape (d, M)."""
    S, A, d = x.shape
    for i in range(d):
        for j in range(g.shape[1]):
            g[i, j] = 0.0
    for s in range(S):
        for j in range(g.shape[1]):
            total = 0.0
            for a in range(A):
                total += table[s, a, j]
            for a in range(A):
                centred = table[s, a, j] - pi[s, a] * total
                for i in range(d):
                    g[i, j] += x[s, a, i] * centred


@compiled
def _first_weight(g, r1, r2, normalise):
    """lambda_1 of gradients g (d, 2) with R = Diag(r1, r2); see :mod:`mgda.simplex`."""
    q11, q12, q22 = 0.0, 0.0, 0.0
    for i in range(len(g)):
        q11 += g[i, 0] * g[i, 0]
        q12 += g[i, 0] * g[i, 1]
        q22 += g[i, 1] * g[i, 1]
    if normalise and q11 + q22 > 0.0:
        mean = 0.5 * (q11 + q22)
        q11, q12, q22 = q11 / mean, q12 / mean, q22 / mean
    q11, q22 = q11 + r1, q22 + r2
    curvature = (q11 - q12) + (q22 - q12)
    if curvature <= 0.0:
        return 0.5 if q11 == q22 else (1.0 if q11 < q22 else 0.0)
    return min(1.0, max(0.0, (q22 - q12) / curvature))


@compiled
def gap_runs(
    theta,
    x,
    P,
    r,
    mean_r,
    start,
    gamma,
    alpha,
    beta,
    eta,
    fresh,
    key,
    clients,
    B,
    times,
    gaps,
    means,
):
    """Run from theta (R, d), which moves; ||grad J lambda||^2 and its means, both (n, R).

    Clients have one process and agree after every step (K = 1): their policy is computed once for
    all. Critics are at their fixed points, and the Gram matrix is raw.

    Args:
        theta, .., gamma: start, features (S, A, d), P (S, A, S), r (S, A, S, 2), its mean over s',
            mu0 and the discount.
        alpha, beta, eta: step, regularisation and smoothing; a negative eta stands for 1/t.
        fresh: probability that a state is drawn from mu0 before a step.
        key: two words of the seed.
        clients, B: C and the transitions of a gradient; with B = 0 gradients are exact.
        times: increasing steps t at which both are recorded.
        gaps, means: at t, and over 0 .. t.
    """
    S, A, d = x.shape
    M, count = 2, clients
    moves, starts, policy = np.empty((S * A, S)), np.empty((1, S)), np.empty((S, A))
    _add_up(P.reshape(S * A, S), moves)
    _add_up(start.reshape(1, S), starts)
    pi, matrix, V, nu = np.empty((S, A)), np.empty((S, S)), np.empty((S, M)), np.empty((S, 1))
    table, own, exact = np.empty((S, A, M)), np.empty((d, M)), np.empty((d, M))
    weights, states, step = np.empty((count, M)), np.empty(count, np.int64), np.empty(d)
    for k in range(len(theta)):
        for c in range(count):
            weights[c, 0], weights[c, 1], states[c] = 0.5, 0.5, 0
        total_gap, recorded = 0.0, 0
        for t in range(times[-1] + 1):
            smooth = 1.0 / (t + 1) if eta < 0.0 else eta
            _act(theta[k], x, pi)
            _add_up(pi, policy)
            _evaluate(P, mean_r, start, gamma, pi, matrix, V, nu)
            for s in range(S):
                for a in range(A):
                    for j in range(M):
                        delta = mean_r[s, a, j] - V[s, j]
                        for after in range(S):
                            delta += gamma * P[s, a, after] * V[after, j]
                        table[s, a, j] = gamma / (1.0 - gamma) * nu[s, 0] * pi[s, a] * delta
            _score_sum(table, x, pi, exact)
            for i in range(d):
                step[i] = 0.0
            first = 0.0  # of the clients' mean weights
            for c in range(count):
                if B == 0:
                    for i in range(d):
                        own[i, 0], own[i, 1] = exact[i, 0], exact[i, 1]
                else:
                    for s in range(S):
                        for a in range(A):
                            table[s, a, 0] = table[s, a, 1] = 0.0
                    s = states[c]
                    for at in range(B):
                        u0, u1, u2, u3 = _philox(
                            key, np.uint64(t * B + at), np.uint64(c), np.uint64(k)
                        )
                        if u2 < fresh:
                            s = _draw(starts[0], u3)
                        a = _draw(policy[s], u0)
                        after = _draw(moves[s * A + a], u1)
                        for j in range(M):
                            table[s, a, j] += r[s, a, after, j] + gamma * V[after, j] - V[s, j]
                        s = after
                    states[c] = s
                    for s in range(S):
                        for a in range(A):
                            for j in range(M):
                                table[s, a, j] /= B
                    _score_sum(table, x, pi, own)
                optimal = _first_weight(own, 0.5 * beta, 0.5 * beta, False)
                weights[c, 0] = (1.0 - smooth) * weights[c, 0] + smooth * optimal
                weights[c, 1] = (1.0 - smooth) * weights[c, 1] + smooth * (1.0 - optimal)
                first += weights[c, 0]
                for i in range(d):
                    step[i] += own[i, 0] * weights[c, 0] + own[i, 1] * weights[c, 1]
            gap, first = 0.0, first / count
            for i in range(d):
                slope = exact[i, 0] * first + exact[i, 1] * (1.0 - first)
                gap += slope * slope
                theta[k, i] += alpha * step[i] / count
            total_gap += gap
            if t == times[recorded]:
                gaps[recorded, k], means[recorded, k] = gap, total_gap / (t + 1)
                recorded += 1


@compiled
def training_runs(
    theta,
    values,
    x,
    P,
    r,
    mean_r,
    start,
    owns,
    gamma,
    alpha,
    K,
    r1,
    r2,
    normalise,
    eta,
    fixed,
    learning,
    radius,
    N,
    D,
    B,
    fresh,
    key,
    times,
    weights,
    returns,
):
    """Train from theta (R, C, d) and critics ``values`` (R, C, S, 2), which both move.

    Args:
        theta, values: start.
        x, P, r, mean_r, start: features (S, A, d), and of n processes P (n, S, A, S), r (n, S, A,
            S, 2), its mean over s', and mu0 (n, S).
        owns: the process of each client, (C,).
        gamma, alpha, K: the discount, the step and local steps between aggregations.
        r1, r2, normalise, eta: of the program, and smoothing; a negative eta stands for 1/t.
        fixed: lambda_1 of every client and step; negative where the program gives it.
        learning, radius, N, D, B: of the critics, and the transitions of a gradient.
        fresh: probability that a state is drawn from mu0 before a step.
        key: two words of the seed.
        times: increasing steps t at which both of the following are recorded.
        weights: lambda_1 of step t, (n, R, C).
        returns: J at the mean parameters, averaged over the clients, (n, R, 2).
    """
    S, A, d = x.shape
    (replicates, C, _), n = theta.shape[:3], len(P)
    moves, starts, policy = np.empty((n * S * A, S)), np.empty((n, S)), np.empty((S, A))
    _add_up(P.reshape(n * S * A, S), moves)
    _add_up(start, starts)
    pi, matrix, V, nu = np.empty((S, A)), np.empty((S, S)), np.empty((S, 2)), np.empty((S, 1))
    table, own, mean = np.empty((S, A, 2)), np.empty((d, 2)), np.empty(d)
    change, first, states = np.empty((S, 2)), np.empty(C), np.empty(C, np.int64)
    for k in range(replicates):
        for c in range(C):
            first[c], states[c] = 0.5, 0
        recorded = 0
        for t in range(times[-1] + 1):
            if t == times[recorded]:
                for i in range(d):
                    mean[i] = 0.0
                    for c in range(C):
                        mean[i] += theta[k, c, i] / C
                _act(mean, x, pi)
                for p in range(n):
                    share = 0.0
                    for c in range(C):
                        share += (1.0 if owns[c] == p else 0.0) / C
                    _evaluate(P[p], mean_r[p], start[p], gamma, pi, matrix, V, nu)
                    for s in range(S):
                        returns[recorded, k, 0] += share * start[p, s] * V[s, 0]
                        returns[recorded, k, 1] += share * start[p, s] * V[s, 1]
            smooth = 1.0 / (t + 1) if eta < 0.0 else eta
            for c in range(C):
                p, s, w = owns[c], states[c], values[k, c]
                _act(theta[k, c], x, pi)
                _add_up(pi, policy)
                for s0 in range(S):
                    for a in range(A):
                        table[s0, a, 0] = table[s0, a, 1] = 0.0
                for at in range(N * D + B):
                    if at < N * D and at % D == 0:
                        for s0 in range(S):
                            change[s0, 0] = change[s0, 1] = 0.0
                    u0, u1, u2, u3 = _philox(
                        key, np.uint64(t * (N * D + B) + at), np.uint64(c), np.uint64(k)
                    )
                    if u2 < fresh:
                        s = _draw(starts[p], u3)
                    a = _draw(policy[s], u0)
                    after = _draw(moves[(p * S + s) * A + a], u1)
                    for j in range(2):
                        error = r[p, s, a, after, j] + gamma * w[after, j] - w[s, j]
                        if at < N * D:
                            change[s, j] += error
                        else:
                            table[s, a, j] += error / B
                    s = after
                    if at < N * D and at % D == D - 1:
                        for j in range(2):
                            square = 0.0
                            for s0 in range(S):
                                w[s0, j] += learning / D * change[s0, j]
                                square += w[s0, j] ** 2
                            if square > radius**2:
                                for s0 in range(S):
                                    w[s0, j] *= radius / math.sqrt(square)
                states[c] = s
                _score_sum(table, x, pi, own)
                optimal = _first_weight(own, r1, r2, normalise) if fixed < 0.0 else fixed
                first[c] = (1.0 - smooth) * first[c] + smooth * optimal
                for i in range(d):
                    theta[k, c, i] += alpha * (own[i, 0] * first[c] + own[i, 1] * (1.0 - first[c]))
            if t == times[recorded]:
                for c in range(C):
                    weights[recorded, k, c] = first[c]
                recorded += 1
            if (t + 1) % K == 0:
                for i in range(d):
                    total = 0.0
                    for c in range(C):
                        total += theta[k, c, i]
                    for c in range(C):
                        theta[k, c, i] = total / C
