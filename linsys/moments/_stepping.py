"""The second-moment recursion one step at a time, for step sizes that change with time."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from linsys.validate import Array


@njit(cache=True, error_model="numpy")
def _walk(
    operators: Array,
    mean: Array,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    start: Array,
    alphas: Array,
    weights: Array,
    times: NDArray[np.int64],
    current: Array,
    weighted: Array,
    averaged: Array,
) -> None:
    m, size = start.size, mean.shape[0]
    state, lost = start.copy(), np.zeros(m)
    image = np.empty(2 * m)
    sums, sums_lost, total = np.zeros(m), np.zeros(m), 0.0
    cross, moved = np.zeros((size, size)), np.zeros((size, size))
    square = np.zeros((size, size))
    k, last = 0, times[-1]
    for t in range(last + 1):
        w = weights[t]
        # The averaged iterate u_t = u_{t-1} + w y_t, with cross = E[y_t u_{t-1}'].
        if w != 0.0:
            total += w
            for a in range(size):
                for b in range(size):
                    square[a, b] += w * (cross[a, b] + cross[b, a])
            for e in range(m):
                a, b = rows[e], columns[e]
                step = w * state[e]
                square[a, b] += w * step
                cross[a, b] += step
                if a != b:
                    square[b, a] += w * step
                    cross[b, a] += step
                # Compensated sums: what an addition drops is carried to the next one.
                step -= sums_lost[e]
                new = sums[e] + step
                sums_lost[e] = (new - sums[e]) - step
                sums[e] = new
        if t == times[k]:
            for e in range(m):
                current[k, e] = state[e]
                weighted[k, e] = sums[e] / total
                averaged[k, e] = square[rows[e], columns[e]] / (total * total)
            k += 1
        if t == last:
            return
        alpha = alphas[t]
        image[:] = 0.0
        for e in range(m):
            value = state[e]
            for f in range(2 * m):
                image[f] += operators[e, f] * value
        for e in range(m):
            step = alpha * (alpha * image[m + e] - image[e]) - lost[e]
            new = state[e] + step
            lost[e] = (new - state[e]) - step
            state[e] = new
        moved[:] = 0.0
        for a in range(size):
            for c in range(size):
                if mean[a, c] != 0.0:
                    for b in range(size):
                        moved[a, b] += mean[a, c] * cross[c, b]
        for a in range(size):
            for b in range(size):
                cross[a, b] -= alpha * moved[a, b]


def walk(
    first: Array,
    second: Array,
    mean: Array,
    pairs: tuple[NDArray[np.intp], NDArray[np.intp]],
    start: Array,
    alphas: Array,
    weights: Array,
    times: NDArray[np.int64],
) -> tuple[Array, Array, Array]:
    """Moments of y_t, weighted sums of them and moments of the averaged iterate at increasing
    ``times``.

    y_{t+1} takes the step alphas[t] (one per step up to the last time), weights[t] is the weight of
    y_t (one more). The moments obey s <- s - alpha (L - alpha Q) s in compensated arithmetic: a
    small step keeps the digits that adding it would drop, so that 10^6 steps lose no more than one.
    All three results have shape (T, m).
    """
    m = start.size
    operators = np.ascontiguousarray(np.concatenate([first.T, second.T], axis=1))
    results = tuple(np.empty((times.size, m)) for _ in range(3))
    _walk(operators, mean, *pairs, start, alphas, weights, times, *results)
    return results[0], results[1], results[2]
