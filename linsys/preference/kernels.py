"""Compiled loops over users: likelihoods, gradients, Hessian products, and the users' own heads.

A matrix (d1, d2) is one row here, column after column, so that ``X`` is (pairs, d2 d1) and a head W
(k, d2) a row of d2 k numbers. User i has the comparisons ``starts[i]`` to ``starts[i + 1]``, and
comparison j shows the row ``pairs[j]`` of X, or row j where ``pairs`` is empty. Every function
works on the users from ``first`` to ``last`` and holds no lock: threads share users among them, and
what a user gets depends on that user alone.

With z = initial + <X, Delta> and one label o of weight c, the log-likelihood is
-c (o softplus(-z) + (1 - o) softplus(z)); both terms are non-negative, and nothing cancels however
large z is. Its first derivative by z is c (o sigmoid(-z) - (1 - o) sigmoid(z)), the *slope*; minus
the second is c sigmoid(z) sigmoid(-z), the *curvature*.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linsys.compiled import compiled

__all__ = [
    "CONVERGED",
    "LEFT_OUT",
    "REGULAR",
    "SEPARATED",
    "SINGULAR",
    "UNDECIDED",
    "heads",
    "hessian_products",
    "likelihoods",
    "profile_products",
    "pull",
]

#: How the search for a user's head ended: at a maximum; with a head that predicts all labels, so
#: that there is none; at the limit of its steps; with a singular matrix; or the user was left out.
CONVERGED, SEPARATED, UNDECIDED, SINGULAR, LEFT_OUT = 0, 1, 2, 3, 4

#: Newton steps move the logits of a separated user by about one each.
_ROUNDS = 60
_HALVINGS = 40
#: So many comparisons enter a Hessian by one product of matrices.
_ROWS = 128
#: With a bound on heads, a log-likelihood within this much per comparison of 0 is at its supremum.
_NOTHING = 1e-16
#: Below this part of a diagonal entry, a pivot may be rounding: the matrix may be singular.
REGULAR = 1e-13


@compiled
def _dot(x: Any, y: Any) -> float:
    """x . y of short vectors; ``np.dot`` is faster for long ones."""
    a = b = c = d = e = f = g = h = 0.0
    last = len(x) - len(x) % 8
    for i in range(0, last, 8):
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
        e += x[i + 4] * y[i + 4]
        f += x[i + 5] * y[i + 5]
        g += x[i + 6] * y[i + 6]
        h += x[i + 7] * y[i + 7]
    for i in range(last, len(x)):
        a += x[i] * y[i]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@compiled
def _add(target: Any, factor: float, x: Any) -> None:
    for i in range(len(x)):
        target[i] += factor * x[i]


@compiled
def _copy(target: Any, x: Any) -> None:
    """A loop compiles in a fraction of the time of an assignment of arrays; likewise below."""
    for i in range(len(x)):
        target[i] = x[i]


@compiled
def _fill(target: Any, value: float) -> None:
    for i in range(len(target)):
        target[i] = value


@compiled
def _logistic(z: float, o: float) -> Any:
    """Log-likelihood, slope and curvature of a comparison of weight one."""
    small = math.exp(-abs(z))
    most, least = 1.0 / (1.0 + small), small / (1.0 + small)
    up, down = (most, least) if z >= 0.0 else (least, most)
    value = -(o * max(-z, 0.0) + (1.0 - o) * max(z, 0.0) + math.log1p(small))
    return value, o * down - (1.0 - o) * up, most * least


@compiled
def likelihoods(
    X: Any, pairs: Any, starts: Any, labels: Any, weights: Any, initial: Any,
    Delta: Any, first: int, last: int, values: Any, gradients: Any,
) -> None:  # fmt: skip
    """Log-likelihoods (N,) and gradients by Delta, rows (N, d2 d1)."""
    for i in range(first, last):
        total = 0.0
        _fill(gradients[i], 0.0)
        for j in range(starts[i], starts[i + 1]):
            row = X[pairs[j] if len(pairs) else j]
            value, slope, _ = _logistic(initial[j] + np.dot(row, Delta[i]), labels[j])
            total += weights[j] * value
            _add(gradients[i], weights[j] * slope, row)
        values[i] = total


@compiled
def hessian_products(
    X: Any, pairs: Any, starts: Any, weights: Any, initial: Any,
    Delta: Any, D: Any, first: int, last: int, out: Any,
) -> None:  # fmt: skip
    """Minus the Hessian at Delta times D, rows (N, d2 d1)."""
    for i in range(first, last):
        _fill(out[i], 0.0)
        for j in range(starts[i], starts[i + 1]):
            row = X[pairs[j] if len(pairs) else j]
            _, _, curvature = _logistic(initial[j] + np.dot(row, Delta[i]), 0.0)
            _add(out[i], weights[j] * curvature * np.dot(row, D[i]), row)


@compiled
def pull(X: Any, pairs: Any, starts: Any, slope: Any, first: int, last: int, out: Any) -> None:
    """Sum of slope_j X_j over the comparisons of each user, rows (N, d2 d1)."""
    for i in range(first, last):
        _fill(out[i], 0.0)
        for j in range(starts[i], starts[i + 1]):
            _add(out[i], slope[j], X[pairs[j] if len(pairs) else j])


@compiled
def _factor(H: Any, L: Any, shift: float, regular: float) -> bool:
    """Lower Cholesky factor of H + shift I; False at a pivot below ``regular`` of its diagonal."""
    p = len(H)
    for a in range(p):
        for b in range(a + 1):
            L[a, b] = H[a, b]
        L[a, a] += shift
    for c in range(p):
        if not L[c, c] > regular * (H[c, c] + shift):
            return False
        root = math.sqrt(L[c, c])
        L[c, c] = root
        for a in range(c + 1, p):
            L[a, c] /= root
        for b in range(c + 1, p):
            factor = L[b, c]
            for a in range(b, p):
                L[a, b] -= factor * L[a, c]
    return True


@compiled
def _forward(L: Any, x: Any) -> None:
    """x <- L^-1 x."""
    for a in range(len(x)):
        x[a] = (x[a] - _dot(L[a, :a], x[:a])) / L[a, a]


@compiled
def _backward(L: Any, x: Any) -> None:
    """x <- L'^-1 x."""
    for a in range(len(x) - 1, -1, -1):
        x[a] /= L[a, a]
        _add(x[:a], -x[a], L[a, :a])


@compiled
def _constrained(H: Any, right: Any, bound: float, regular: float, L: Any, v: Any) -> float:
    """v with (H + lambda I) v = right, ||v|| <= bound and lambda >= 0, 0 inside; -1 if singular.

    Returns lambda. Inside the ball a singular H has many solutions, of which the caller is to take
    the least on the range of H; there, by ``regular`` = 0, a little of the identity finds one.

    More and Sorensen's iteration on 1 / ||v|| - 1 / bound, which is concave in lambda: Newton's
    steps stay on one side.
    """
    multiplier, singular = 0.0, False
    work = np.empty_like(v)
    for _ in range(_ROUNDS):
        if not _factor(H, L, multiplier, regular if bound == math.inf else REGULAR):
            if bound == math.inf:
                return -1.0
            singular, trace = True, 0.0
            for a in range(len(v)):
                trace += H[a, a]
            multiplier = max(2.0 * multiplier, REGULAR * trace + 1e-300)
            continue
        _copy(v, right)
        _forward(L, v)
        _backward(L, v)
        size = math.sqrt(_dot(v, v))
        excess = size / bound - 1.0 if bound < math.inf else -1.0
        if abs(excess) <= 1e-14 or (excess < 0.0 and multiplier == 0.0):
            return multiplier
        if excess < 0.0 and singular:
            if regular > 0.0:
                return -1.0
            if size == 0.0:
                return 0.0
        _copy(work, v)
        _forward(L, work)
        change = (size * size / _dot(work, work)) * excess
        if multiplier + change <= 0.0:
            if multiplier == 0.0:
                return multiplier
            change = -multiplier
        if abs(change) <= 1e-15 * multiplier:
            return multiplier
        multiplier += change
    return multiplier


@compiled
def heads(
    Q: Any, pairs: Any, starts: Any, labels: Any, weights: Any, initial: Any,
    ridge: float, bound: float, regular: float, rest: float, first: int, last: int,
    W: Any, multiplier: Any, inverse: Any, slope: Any, curvature: Any, values: Any, status: Any,
) -> None:  # fmt: skip
    """Each user's best head for the projected features Q = X B (pairs, p), by Newton's method.

    Maximises the user's log-likelihood minus ridge / 2 ||w||^2 over ||w|| <= bound, from W (N, p),
    which is overwritten. Also fills in: the bound's multiplier (N,), the derivative of w by a
    linear term (N, p, p), unless that array is empty, slopes and curvatures of the comparisons
    (n,), the log-likelihoods (N,) and the status (N,), which is read first: users LEFT_OUT keep
    their head and count nothing. A step is halved until the objective does not fall.

    Every step maximises the quadratic model over the ball, so that it is Newton's also where the
    bound binds. A step that changes no logit by more than ``rest`` is the last: Newton's error is
    squared. Where a bound alone keeps the head of separated comparisons finite, the likelihood may
    be one to rounding far inside: the head stays there, and moves with no factor. Without ridge and
    bound, a step that changes none by 1 proves that the maximum exists:
    :mod:`linsys.preference.separability`.
    """
    p = Q.shape[1]
    H, L = np.zeros((p, p)), np.zeros((p, p))
    gradient, target, step, w = np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    scaled = np.empty((_ROWS, p))
    free = ridge == 0.0 and bound == math.inf
    for i in range(first, last):
        if status[i] == LEFT_OUT:
            _at_supremum(starts, i, multiplier, inverse, slope, curvature, values)
            continue
        _copy(w, W[i])
        size = math.sqrt(_dot(w, w))
        if size > bound:
            for a in range(p):
                w[a] *= bound / size
        predicted, before, part, still, halvings = size > 0.0, -math.inf, 1.0, False, 0
        nothing = 0.0
        if ridge == 0.0 and not free:
            nothing = _NOTHING * np.sum(weights[starts[i] : starts[i + 1]])
        status[i] = UNDECIDED
        for _ in range(_ROUNDS + _HALVINGS):
            value, separated = _margins(
                Q, pairs, starts, labels, weights, initial, i, w, slope, curvature
            )
            if separated and free:
                status[i] = SEPARATED
                break
            values[i] = value
            value -= 0.5 * ridge * _dot(w, w)
            # not a number is a step too long as well
            if not value >= before - 1e-14 * abs(before):
                if halvings == _HALVINGS:  # no better point is found: back to the last one
                    values[i] = _margins(
                        Q, pairs, starts, labels, weights, initial, i, W[i], slope, curvature
                    )[0]
                    _copy(w, W[i])
                    break
                halvings += 1
                part *= 0.5
                for a in range(p):
                    w[a] = W[i, a] + part * step[a]
                continue
            _copy(W[i], w)
            _curve(Q, pairs, starts, i, slope, curvature, scaled, gradient, H)
            for a in range(p):
                gradient[a] -= ridge * w[a]
                H[a, a] += ridge
            if still or value > -nothing:
                status[i] = CONVERGED
                break
            for a in range(p):
                target[a] = gradient[a] + _dot(H[a], w)
            multiplier[i] = _constrained(H, target, bound, regular, L, step)
            longest = math.inf
            if multiplier[i] >= 0.0:
                _add(step, -1.0, w)
                longest = _longest(Q, pairs, starts, i, step)
            if predicted and longest > 1.0:
                # the predicted head may be a bad start; begin again at 0
                _fill(w, 0.0)
                predicted = False
                continue
            predicted = False
            if multiplier[i] < 0.0:
                status[i] = SINGULAR
                break
            still = longest <= rest
            before, part = value, 1.0
            _add(w, 1.0, step)
        if status[i] == SEPARATED:
            _at_supremum(starts, i, multiplier, inverse, slope, curvature, values)
            _copy(W[i], w)
        elif values[i] > -nothing:
            _at_supremum(starts, i, multiplier, inverse, slope, curvature, values)
        elif len(inverse) and status[i] != SINGULAR:
            _invert(H, L, multiplier[i], w, inverse[i])


@compiled
def _longest(Q: Any, pairs: Any, starts: Any, i: int, step: Any) -> float:
    """max |<Q_j, step>| over the comparisons of user i."""
    longest = 0.0
    for j in range(starts[i], starts[i + 1]):
        row = pairs[j] if len(pairs) else j
        move = 0.0
        for a in range(len(step)):
            move += Q[row, a] * step[a]
        longest = max(longest, abs(move))
    return longest


@compiled
def _at_supremum(
    starts: Any, i: int, multiplier: Any, inverse: Any, slope: Any, curvature: Any, values: Any
) -> None:
    """Set the results of a user whose likelihood is at its supremum, whatever others do."""
    values[i] = multiplier[i] = 0.0
    _fill(slope[starts[i] : starts[i + 1]], 0.0)
    _fill(curvature[starts[i] : starts[i + 1]], 0.0)
    if len(inverse):
        for a in range(inverse.shape[1]):
            _fill(inverse[i, a], 0.0)


@compiled
def _margins(
    Q: Any, pairs: Any, starts: Any, labels: Any, weights: Any, initial: Any,
    i: int, w: Any, slope: Any, curvature: Any,
) -> Any:  # fmt: skip
    """The log-likelihood of user i's head, and whether <Q_j, w> has the label's sign for all j.

    Also the slope and the curvature of every comparison.
    """
    total, separated, any_sign = 0.0, True, False
    for j in range(starts[i], starts[i + 1]):
        row = pairs[j] if len(pairs) else j
        margin = 0.0
        for a in range(len(w)):
            margin += Q[row, a] * w[a]
        value, by_z, bend = _logistic(initial[j] + margin, labels[j])
        total += weights[j] * value
        slope[j], curvature[j] = weights[j] * by_z, weights[j] * bend
        if weights[j] > 0.0 and separated:
            side = margin * (2.0 * labels[j] - 1.0)
            if side > 0.0 and labels[j] in (0.0, 1.0):
                any_sign = True
            else:  # one that shows no difference says nothing
                separated = side == 0.0 and not Q[row].any()
    return total, separated and any_sign


@compiled
def _curve(
    Q: Any, pairs: Any, starts: Any, i: int, slope: Any, curvature: Any,
    scaled: Any, gradient: Any, H: Any,
) -> None:  # fmt: skip
    """The gradient of the log-likelihood by user i's head, and minus its Hessian."""
    p, filled = len(gradient), 0
    _fill(gradient, 0.0)
    for a in range(p):
        _fill(H[a], 0.0)
    for j in range(starts[i], starts[i + 1]):
        row = pairs[j] if len(pairs) else j
        root = math.sqrt(curvature[j])
        for a in range(p):
            gradient[a] += slope[j] * Q[row, a]
            scaled[filled, a] = root * Q[row, a]
        filled += 1
        if filled == len(scaled) or j == starts[i + 1] - 1:
            product = np.dot(scaled[:filled].T, scaled[:filled])
            for a in range(p):
                _add(H[a], 1.0, product[a])
            filled = 0


@compiled
def _invert(H: Any, L: Any, shift: float, w: Any, inverse: Any) -> None:
    """(H + shift I)^-1, on the directions orthogonal to w where the bound binds."""
    p = len(w)
    _factor(H, L, shift, 0.0)
    for c in range(p):  # L <- its inverse, column by column from the last
        c = p - 1 - c
        L[c, c] = 1.0 / L[c, c]
        for a in range(p - 1, c, -1):
            total = 0.0
            for b in range(c + 1, a + 1):
                total += L[a, b] * L[b, c]
            L[a, c] = -total * L[c, c]
    for a in range(p):
        for b in range(a + 1):
            total = 0.0
            for c in range(a, p):
                total += L[c, a] * L[c, b]
            inverse[a, b] = inverse[b, a] = total
    if shift > 0.0:
        image = np.empty(p)
        for a in range(p):
            image[a] = _dot(inverse[a], w)
        size = _dot(image, w)
        for a in range(p):
            _add(inverse[a], -image[a] / size, image)


@compiled
def profile_products(
    X: Any, pairs: Any, starts: Any, Q: Any, curvature: Any, penalty: Any,
    B: Any, W: Any, inverse: Any, G: Any, V: Any, first: int, last: int,
    response: Any, out: Any,
) -> None:  # fmt: skip
    """Minus the Hessian of the profiled objective times V, and how the heads follow V.

    Heads W (N, d2, k), gradients by Delta G (N, d2, d1), V and B (d1, k), the sum ``out`` (k, d1)
    over these users, ``response`` (N, d2, k). With H_i minus the Hessian by Delta_i and B' G_i = 0,

        response_i = K_i (V' G_i - B' H_i[V W_i]),
        out        = sum_i H_i[V W_i + B response_i] W_i' - G_i response_i'.

    What lies in the span of B is left out: V and the result are orthogonal to it.
    """
    d1, k = B.shape
    d2 = W.shape[1]
    most = 0
    for i in range(first, last):
        most = max(most, starts[i + 1] - starts[i])
    direction, moved = np.empty(d2 * d1), np.empty(most)
    for a in range(k):
        _fill(out[a], 0.0)
    right, pulled = np.empty(d2 * k), np.empty((d2, d1))
    flat = pulled.reshape(-1)
    Vt = np.ascontiguousarray(V.T)
    for i in range(first, last):
        for c in range(d2):
            part = direction[c * d1 : (c + 1) * d1]
            _fill(part, 0.0)
            for a in range(k):
                _add(part, W[i, c, a], Vt[a])
                right[c * k + a] = _dot(Vt[a], G[i, c])
        for j in range(starts[i], starts[i + 1]):
            row = pairs[j] if len(pairs) else j
            moved[j - starts[i]] = np.dot(X[row], direction)
            _add(right, -curvature[j] * moved[j - starts[i]], Q[row])
        answer = response[i].reshape(-1)
        for a in range(d2 * k):
            answer[a] = _dot(inverse[i, a], right)
        for a in range(len(flat)):
            flat[a] = penalty[i] * direction[a]
        for j in range(starts[i], starts[i + 1]):
            row = pairs[j] if len(pairs) else j
            total = moved[j - starts[i]] + _dot(Q[row], answer)
            _add(flat, curvature[j] * total, X[row])
        for c in range(d2):
            for a in range(k):
                _add(out[a], W[i, c, a], pulled[c])
                _add(out[a], -response[i, c, a], G[i, c])
