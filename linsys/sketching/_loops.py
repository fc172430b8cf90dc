"""Local steps of small devices as a compiled loop, where calls of BLAS cost more than the work."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from linsys.compiled import compiled
from linsys.validate import Array

__all__ = ["descend"]


@compiled
def descend(
    X: Array,
    x: Array,
    y: Array,
    frozen: Array,
    batches: NDArray[np.int64],
    scale: float,
    gamma: float,
    softmax: bool,
) -> Any:
    """The rows X (k, m + n) after a step X <- X - gamma gradient for every batch.

    Args:
        X: rows to start from; not changed.
        x, y, frozen: inputs (s, n), targets (s, m) and W0 x (s, m).
        batches: samples of every step, (H, b).
        scale: r / k.
        gamma: step size.
        softmax: cross entropy of softmax(W x) in the place of least squares.
    """
    X = X.copy()
    k, m, n, b = len(X), y.shape[1], x.shape[1], batches.shape[1]
    hidden, slope, back = np.empty((b, k)), np.empty((b, m)), np.empty((b, k))
    for h in range(len(batches)):
        for s in range(b):
            i = batches[h, s]
            z = slope[s]
            z[:] = frozen[i]
            for j in range(k):
                total = 0.0
                for c in range(n):
                    total += x[i, c] * X[j, m + c]
                hidden[s, j] = total
                for c in range(m):
                    z[c] += scale * total * X[j, c]
            if softmax:
                z[:] = np.exp(z - z.max())
                z /= z.sum()
            for c in range(m):
                z[c] = (z[c] - y[i, c]) * (scale / b)
            for j in range(k):
                total = 0.0
                for c in range(m):
                    total += z[c] * X[j, c]
                back[s, j] = total
        for j in range(k):
            for s in range(b):
                along, across = gamma * hidden[s, j], gamma * back[s, j]
                i = batches[h, s]
                for c in range(m):
                    X[j, c] -= along * slope[s, c]
                for c in range(n):
                    X[j, m + c] -= across * x[i, c]
    return X
