"""min over the simplex of lambda' Q lambda, one small positive semidefinite Q after the other.

Wolfe's method for the point of least norm in a polytope, on the Gram matrix alone. A *support* S of
affinely independent points is kept with the Cholesky factor of the Gram matrix of their differences
to the first of them, the *base*: differences keep the digits of points that nearly coincide and of
points whose lengths are far apart. A major step adds the point that violates optimality most, minor
steps move towards the minimiser on the affine hull of S and drop points whose weight would turn
negative. The objective falls strictly with every major step, so that no support comes twice.

The factor R is the upper triangle of rows and columns 1..k-1 of a matrix, with three conventions
that save work: its diagonal holds reciprocals; column 0 holds y with R'y = r, where r is the right
side of the affine minimiser's equations R'R z = r; and R, like every other workspace, is allocated
once for a whole batch. Where a point depends on S, or the answer is as good as rounding allows,
nothing here judges it: the certificate does, apart from the solver.
"""

from __future__ import annotations

import numpy as np

from linsys.compiled import compiled

#: Rounding of one entry of Q lambda is at most about M times this, for entries of Q up to one.
_EPS = np.finfo(np.float64).eps


def allocation_free(function):
    """Compile into its callers and without numba's memory manager: no allocation would compile.

    The memory manager counts the references to every array that is handed over, which takes as
    long as all the arithmetic of a small program.
    """
    dispatcher = compiled(function)
    dispatcher.targetoptions |= {"_nrt": False, "forceinline": True}
    return dispatcher


@allocation_free
def two(q11, q12, q22):
    """The first weight for M = 2; half where both points are one."""
    curvature = (q11 - q12) + (q22 - q12)
    if curvature <= 0.0:
        return 0.5 if q11 == q22 else (1.0 if q11 < q22 else 0.0)
    return min(1.0, max(0.0, (q22 - q12) / curvature))


@allocation_free
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


@allocation_free
def _append(Q, S, k, new, R, v):
    """Add point ``new`` as column k of R; False where it depends on S."""
    if k == 0:
        S[0] = new
        return True
    base = S[0]
    right = Q[base, base] - Q[new, base]
    for a in range(1, k):
        v[a] = (Q[new, S[a]] - Q[base, S[a]]) + right
    rest = (Q[new, new] - Q[new, base]) + right
    for a in range(1, k):
        value = v[a] * R[a, a]
        R[a, k] = value
        rest -= value * value
        right -= value * R[a, 0]
        for b in range(a + 1, k):
            v[b] -= R[a, b] * value
    if rest <= 8.0 * _EPS * (Q[new, new] + Q[base, base]):
        return False
    R[k, k] = 1.0 / np.sqrt(rest)
    R[k, 0] = right * R[k, k]
    S[k] = new
    return True


@allocation_free
def _remove(S, k, at, R):
    """Drop point ``at`` of k and rotate R back to a triangle."""
    if k == 1:
        return
    if at == 0:
        # point 1 becomes the base: its column is subtracted from all others and from y
        length = 1.0 / R[1, 1]
        R[1, 0] -= length
        for b in range(2, k):
            R[1, b] -= length
        S[0] = S[1]
        at = 1
    for b in range(at, k - 1):
        S[b] = S[b + 1]
        for a in range(1, b + 1):
            R[a, b] = R[a, b + 1]
        R[b + 1, b] = 1.0 / R[b + 1, b + 1]
    for a in range(at, k - 1):
        upper, lower = R[a, a], R[a + 1, a]
        shorter = 1.0 / np.sqrt(upper * upper + lower * lower)
        c, s = upper * shorter, lower * shorter
        R[a, a] = shorter
        upper, lower = R[a, 0], R[a + 1, 0]
        R[a, 0] = c * upper + s * lower
        R[a + 1, 0] = c * lower - s * upper
        for b in range(a + 1, k - 1):
            upper, lower = R[a, b], R[a + 1, b]
            R[a, b] = c * upper + s * lower
            R[a + 1, b] = c * lower - s * upper


@allocation_free
def _combine(k, R, column, u):
    """u with R u = that column of R, and u_0 = 1 - sum of the others: an affine combination."""
    first = 1.0
    for a in range(k - 1, 0, -1):
        value = R[a, column]
        for b in range(k - 1, a, -1):
            value -= R[a, b] * u[b]
        u[a] = value * R[a, a]
        first -= u[a]
    u[0] = first


@allocation_free
def _exchange(Q, S, k, new, R, weights, c):
    """Let a point that depends on S take the place of one of S; the new size, 0 if none can leave.

    new = sum c_a S_a up to rounding, so that the objective has no curvature along e_new - c: weight
    moves there until one of S has none left. Column k of R is what ``_append`` left there.
    """
    _combine(k, R, k, c)
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
    if _append(Q, S, k - 1, new, R, c):
        weights[k - 1] = step
        return k
    # still dependent: the same point up to rounding without it
    total = 0.0
    for a in range(k - 1):
        total += weights[a]
    for a in range(k - 1):
        weights[a] /= total
    return k - 1


@allocation_free
def _settle(S, k, R, weights, y):
    """Minor steps: move to the affine minimiser, dropping points on the way; the new size of S."""
    while True:
        _combine(k, R, 0, y)
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


@allocation_free
def _start(Q, S, R, weights, y):
    """A support whose affine minimiser has positive weights, from all points downwards; its size.

    Where the weights are spread over most points, as a regulariser makes them, this is already the
    solution. Any support of this kind may start the method. The shortest point comes first.
    """
    M = len(weights)
    shortest = 0
    for j in range(M):
        S[j] = j
        if Q[j, j] < Q[shortest, shortest]:
            shortest = j
    S[0], S[shortest] = shortest, 0
    kept = M
    while True:
        k = 0
        for a in range(kept):
            if _append(Q, S, k, S[a], R, y):
                k += 1
        _combine(k, R, 0, y)
        kept = 0
        for a in range(k):
            if y[a] > 0.0:
                S[kept] = S[a]
                weights[kept] = y[a]
                kept += 1
        if kept == k:
            return k


@allocation_free
def wolfe(Q, weights, S, R, y, slopes):
    """Minimise over the simplex for one program with entries of size one.

    Args:
        Q: (M, M), symmetric positive semidefinite.
        weights: (M,), the solution.
        S, R, y, slopes: workspace (M,) of integers, (M, M), and (M,) twice.
    """
    M = len(weights)
    # weights holds those of the support until the end
    k = _start(Q, S, R, weights, y)
    lowest, idle = np.inf, 0
    for _ in range(50 * M):
        for j in range(M):
            slopes[j] = weights[0] * Q[S[0], j]
        for a in range(1, k):
            for j in range(M):
                slopes[j] += weights[a] * Q[S[a], j]
        value = 0.0
        for a in range(k):
            value += weights[a] * slopes[S[a]]
        best = 0
        for j in range(1, M):
            if slopes[j] < slopes[best]:
                best = j
        if slopes[best] >= value - 2.0 * M * _EPS:
            break
        # slopes fall with the square root of the objective: near zero its descent drowns in
        # rounding long before theirs does
        idle = 0 if value < lowest else idle + 1
        lowest = min(lowest, value)
        settled = idle > M
        # only rounding keeps a slope of the support below the others; R has no column for it
        for a in range(k):
            settled |= S[a] == best
        if settled:
            break
        if _append(Q, S, k, best, R, y):
            weights[k] = 0.0
            size = k + 1
        else:
            size = _exchange(Q, S, k, best, R, weights, y)
        if size == 0:
            break
        k = _settle(S, size, R, weights, y)
    for a in range(k):
        y[a] = weights[a]
    weights[:] = 0.0
    for a in range(k):
        weights[S[a]] = y[a]


@compiled
def solve_batch(Q, weights):
    """Solutions (B, M) of programs (B, M, M)."""
    count, M = weights.shape
    S, R = np.empty(M, np.int64), np.empty((M, M))
    y, slopes, scaled = np.empty(M), np.empty(M), np.empty((M, M))
    for problem in range(count):
        if M == 1:
            weights[problem, 0] = 1.0
            continue
        if M == 2:
            first = two(Q[problem, 0, 0], Q[problem, 0, 1], Q[problem, 1, 1])
            weights[problem, 0], weights[problem, 1] = first, 1.0 - first
            continue
        size = 0.0
        for i in range(M):
            size = max(size, Q[problem, i, i])
        # a multiplication would overflow where 1 / size does
        size = size if size > 0.0 else 1.0
        for i in range(M):
            for j in range(M):
                scaled[i, j] = Q[problem, i, j] / size
        if M > 3 or not three(scaled, weights[problem]):
            wolfe(scaled, weights[problem], S, R, y, slopes)
