"""min over the simplex of lambda' Q lambda, one small positive semidefinite Q after the other.

Wolfe's method for the point of least norm in a polytope, on the Gram matrix alone: a *support* S of
affinely independent points is kept with the Cholesky factor of Q_SS + e e', which is nonsingular
even where Q_SS is not. A major step adds the point that violates optimality most, minor steps move
towards the minimiser on the affine hull of S and drop points whose weight would turn negative. The
objective falls strictly with every major step, so that no support comes twice.

Everything happens in a workspace that the caller allocates once for a whole batch.
"""

from __future__ import annotations

import numpy as np

from linsys._compiled import compiled

#: Statuses of one problem.
OPTIMAL, STALLED = 0, 1
#: Rounding of one entry of Q lambda is at most about M times this, for entries of Q up to one.
_EPS = np.finfo(np.float64).eps


@compiled
def two(q11, q12, q22):
    """The first weight for M = 2; half where both points are one."""
    curvature = (q11 - q12) + (q22 - q12)
    if curvature <= 0.0:
        return 0.5 if q11 == q22 else (1.0 if q11 < q22 else 0.0)
    return min(1.0, max(0.0, (q22 - q12) / curvature))


@compiled
def three(Q, weights):
    """Closed form for M = 3: the best of the interior and the edges; False if it is not precise."""
    a = (Q[0, 0] - Q[0, 2]) + (Q[2, 2] - Q[0, 2])
    c = (Q[1, 1] - Q[1, 2]) + (Q[2, 2] - Q[1, 2])
    b = (Q[0, 1] - Q[0, 2]) + (Q[2, 2] - Q[1, 2])
    r, s = Q[2, 2] - Q[0, 2], Q[2, 2] - Q[1, 2]
    det, first, second = a * c - b * b, c * r - b * s, a * s - b * r
    if first > 0.0 and second > 0.0 and first + second < det:
        weights[0], weights[1] = first / det, second / det
        weights[2] = 1.0 - (weights[0] + weights[1])
    else:
        best = np.inf
        for leave in range(3):
            i, j = (leave + 1) % 3, (leave + 2) % 3
            x = two(Q[i, i], Q[i, j], Q[j, j])
            y = 1.0 - x
            value = x * (x * Q[i, i] + 2.0 * y * Q[i, j]) + y * y * Q[j, j]
            if value < best:
                best = value
                weights[i], weights[j], weights[leave] = x, y, 0.0
    s0 = Q[0, 0] * weights[0] + Q[0, 1] * weights[1] + Q[0, 2] * weights[2]
    s1 = Q[0, 1] * weights[0] + Q[1, 1] * weights[1] + Q[1, 2] * weights[2]
    s2 = Q[0, 2] * weights[0] + Q[1, 2] * weights[1] + Q[2, 2] * weights[2]
    value = weights[0] * s0 + weights[1] * s1 + weights[2] * s2
    return min(s0, s1, s2) >= value - 8.0 * _EPS


@compiled
def _append(Q, S, k, new, R):
    """Add point ``new`` as column k of R; False where it depends on S.

    R is the triangle with R'R = Q_SS + e e', except that its diagonal holds the reciprocals.
    """
    rest = Q[new, new] + 1.0
    for a in range(k):
        value = Q[S[a], new] + 1.0
        for b in range(a):
            value -= R[b, a] * R[b, k]
        value *= R[a, a]
        R[a, k] = value
        rest -= value * value
    if rest <= 8.0 * _EPS * (Q[new, new] + 1.0):
        return False
    R[k, k] = 1.0 / np.sqrt(rest)
    S[k] = new
    return True


@compiled
def _remove(S, k, at, R):
    """Drop column ``at`` of k columns and rotate R back to a triangle."""
    for b in range(at, k - 1):
        S[b] = S[b + 1]
        for a in range(b + 1):
            R[a, b] = R[a, b + 1]
        R[b + 1, b] = 1.0 / R[b + 1, b + 1]
    for a in range(at, k - 1):
        upper, lower = R[a, a], R[a + 1, a]
        shorter = 1.0 / np.sqrt(upper * upper + lower * lower)
        c, s = upper * shorter, lower * shorter
        R[a, a] = shorter
        for b in range(a + 1, k - 1):
            upper, lower = R[a, b], R[a + 1, b]
            R[a, b] = c * upper + s * lower
            R[a + 1, b] = c * lower - s * upper


@compiled
def _solve(k, R, y):
    """Replace y by the solution u of R'R u = y; the sum of its entries."""
    for a in range(k):
        value = y[a]
        for b in range(a):
            value -= R[b, a] * y[b]
        y[a] = value * R[a, a]
    total = 0.0
    for a in range(k - 1, -1, -1):
        value = y[a]
        for b in range(a + 1, k):
            value -= R[a, b] * y[b]
        y[a] = value * R[a, a]
        total += y[a]
    return total


@compiled
def _affine(k, R, y):
    """Weights of the minimiser on the affine hull: R'R u = e, y = u / sum(u)."""
    for a in range(k):
        y[a] = 1.0
    share = 1.0 / _solve(k, R, y)
    for a in range(k):
        y[a] *= share


@compiled
def _exchange(Q, S, k, new, R, weights, c):
    """Let a point that depends on S take the place of one of S; the new size, 0 if none can leave.

    new = sum c_a S_a up to rounding, so that the objective has no curvature along e_new - c: weight
    moves there until one of S has none left. Column k of R is what ``_append`` left there.
    """
    for a in range(k - 1, -1, -1):
        value = R[a, k]
        for b in range(a + 1, k):
            value -= R[a, b] * c[b]
        c[a] = value * R[a, a]
    step, leaving = np.inf, -1
    for a in range(k):
        if c[a] > 0.0 and weights[a] < step * c[a]:
            step, leaving = weights[a] / c[a], a
    if leaving < 0:
        return 0
    for a in range(k):
        weights[a] = max(0.0, weights[a] - step * c[a])
    _remove(S, k, leaving, R)
    for a in range(leaving, k - 1):
        weights[a] = weights[a + 1]
    if _append(Q, S, k - 1, new, R):
        weights[k - 1] = step
        return k
    # still dependent: the same point up to rounding without it
    total = 0.0
    for a in range(k - 1):
        total += weights[a]
    for a in range(k - 1):
        weights[a] /= total
    return k - 1


@compiled
def _refine(S, k, R, value, weights, slopes, u, v):
    """One step of iterative refinement of the weights on S; False where it would leave S.

    Where the points of S are short, Q_SS is lost in the rounding of Q_SS + e e', but not in the
    slopes: they are what is left to equalise.
    """
    for a in range(k):
        u[a], v[a] = value - slopes[S[a]], 1.0
    shift = _solve(k, R, u) / _solve(k, R, v)
    for a in range(k):
        u[a] = weights[a] + (u[a] - shift * v[a])
        if u[a] <= 0.0:
            return False
    for a in range(k):
        weights[a] = u[a]
    return True


@compiled
def _settle(S, k, R, weights, y):
    """Minor steps: move to the affine minimiser, dropping points on the way; the new size of S."""
    while True:
        _affine(k, R, y)
        step, leaving = 1.0, -1
        for a in range(k):
            if y[a] <= 0.0:
                share = weights[a] / (weights[a] - y[a])
                if share < step or leaving < 0:
                    step, leaving = min(share, step), a
        if leaving < 0:
            for a in range(k):
                weights[a] = y[a]
            return k
        for a in range(k):
            weights[a] += step * (y[a] - weights[a])
        _remove(S, k, leaving, R)
        for a in range(leaving, k - 1):
            weights[a] = weights[a + 1]
        k -= 1


@compiled
def _start(Q, S, R, weights, y):
    """A support whose affine minimiser has positive weights, from all points downwards; its size.

    Where the weights are spread over most points, as a regulariser makes them, this is already the
    solution. Any support of this kind may start the method.
    """
    k = 0
    for j in range(len(weights)):
        if _append(Q, S, k, j, R):
            k += 1
    while True:
        _affine(k, R, y)
        kept = 0
        for a in range(k):
            if y[a] > 0.0:
                S[kept] = S[a]
                kept += 1
        if kept == k:
            for a in range(k):
                weights[a] = y[a]
            return k
        k = 0
        for a in range(kept):
            if _append(Q, S, k, S[a], R):
                k += 1


@compiled
def wolfe(Q, weights, S, R, y, slopes, spare):
    """Minimise over the simplex for one Q with entries of size one; the status.

    Args:
        Q: (M, M), symmetric positive semidefinite.
        weights: (M,), the solution.
        S, R, y, slopes, spare: workspace (M,) of integers, (M, M), and (M,) three times.
    """
    M = len(weights)
    # weights holds those of the support until the end
    k = _start(Q, S, R, weights, y)
    status, before, refinements = STALLED, np.inf, 0
    for _ in range(50 * M):
        value = 0.0
        for j in range(M):
            slope = 0.0
            for a in range(k):
                slope += Q[j, S[a]] * weights[a]
            slopes[j] = slope
        for a in range(k):
            value += weights[a] * slopes[S[a]]
        best = 0
        for j in range(1, M):
            if slopes[j] < slopes[best]:
                best = j
        if slopes[best] >= value - 2.0 * M * _EPS:
            status = OPTIMAL
            break
        size = 0
        if value < before:  # otherwise rounding, no descent
            if _append(Q, S, k, best, R):
                weights[k] = 0.0
                size = k + 1
            else:
                size = _exchange(Q, S, k, best, R, weights, y)
        if size > 0:
            before = value
            k = _settle(S, size, R, weights, y)
        elif refinements < 3 and _refine(S, k, R, value, weights, slopes, y, spare):
            refinements += 1
        else:
            break
    for a in range(k):
        y[a] = weights[a]
    weights[:] = 0.0
    for a in range(k):
        weights[S[a]] = y[a]
    return status


@compiled
def solve_batch(Q, scale, weights, statuses):
    """Problems (B, M, M), each divided by its scale (B,); solutions (B, M), statuses (B,)."""
    count, M = weights.shape
    S, R = np.empty(M, np.int64), np.empty((M, M))
    y, slopes, spare, scaled = np.empty(M), np.empty(M), np.empty(M), np.empty((M, M))
    for problem in range(count):
        factor = 1.0 / scale[problem]
        for i in range(M):
            for j in range(M):
                scaled[i, j] = Q[problem, i, j] * factor
        if M == 1:
            weights[problem, 0], statuses[problem] = 1.0, OPTIMAL
        elif M == 2:
            first = two(scaled[0, 0], scaled[0, 1], scaled[1, 1])
            weights[problem, 0], weights[problem, 1] = first, 1.0 - first
            statuses[problem] = OPTIMAL
        elif M == 3 and three(scaled, weights[problem]):
            statuses[problem] = OPTIMAL
        else:
            statuses[problem] = wolfe(scaled, weights[problem], S, R, y, slopes, spare)
