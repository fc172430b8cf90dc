"""Local steps on one adapted matrix in place: a faster body for the same algorithm.

On a batch (rows) the outputs are z = W0 x + scale B A x. With slope = scale dl/dz / b, back = slope
B and hidden = x A', the gradients of B' and A are hidden' slope and back' x: products of factors as
long as the batch. A step lets BLAS add them to the modules, in place; the gradient is no array of
its own, and every factor has one buffer for all steps. What a device needs besides its samples and
a batch is twice its k rows, whatever r is.

BLAS or compiled loops? Five steps on batches of 16, one thread, in microseconds: at m = n = 1024
BLAS takes 270, 410, 660, 1000 for k = 8, 16, 32, 48, and one fused loop 2 to 2.6 times that, even
if its sums may be taken in any order. Below some 1000 numbers in X, 45 of BLAS's microseconds are
calls, and the loop of :mod:`linsys.sketching._loops` wins: 7 against 45 at m = n = 16, k = 2, 46
against 55 at m = n = 32, k = 16; from 2048 numbers on BLAS does. :data:`SMALL` is what lies
between. For many replicates of a small system at once NumPy on arrays with the replicates last is
as fast as a loop: 25 against 34 at r = 8, n = 1, 72 against 51 at r = 3, n = 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linsys.validate import Array

__all__ = ["SMALL", "Batch", "Factors", "Slope"]

#: Numbers in X up to which loops are faster than calls of BLAS.
SMALL = 1024

Batch = NDArray[np.int64] | None
#: The derivatives by the outputs (b, m), from outputs and targets; may overwrite the outputs.
Slope = Callable[[Array, Array], Array]


class Factors:
    """The factors of one device's gradient, for B' (k, m) and A (k, n).

    Args:
        inputs: x, shape (s, n).
        targets: y, shape (s, m).
        frozen: W0 x, shape (s, m).
        slope: of the loss.

    >>> def slope(z, y):
    ...     return z - y
    >>> one = np.ones((1, 1))  # (B A - 1)^2 / 2 from B = 0 and A = 1
    >>> Factors(one, one, 0 * one, slope).descend(np.array([[0.0, 1.0]]), 1.0, 0.5, [None] * 2)
    array([[0.75 , 1.125]])
    """

    def __init__(self, inputs: Array, targets: Array, frozen: Array, slope: Slope) -> None:
        self._samples, self._slope_of = (inputs, targets, frozen), slope
        self._x: Any = None
        self._y: Any = None
        self._z: Any = None
        self._hidden: Any = None
        self._slope: Any = None
        self._back: Any = None

    def outputs(self, B: Array, A: Array, scale: float, batch: Batch) -> tuple[Array, Array]:
        """z and y of a batch, or of all samples: shapes (b, m)."""
        inputs, targets, frozen = self._samples
        if batch is None:
            self._x, self._y, self._z = inputs, targets, frozen.copy()
        else:
            self._x = _rows(inputs, batch, self._x)
            self._y = _rows(targets, batch, self._y)
            self._z = _rows(frozen, batch, self._z)
        self._hidden = np.matmul(self._x, A.T, out=self._hidden)
        _add_product(self._z, scale, self._hidden, B)
        return self._z, self._y

    def gradient(self, X: Array, scale: float, batch: Batch) -> Array:
        """With respect to the rows X (k, w), of the same shape."""
        m = self._samples[1].shape[1]
        self._update(X[:, :m], X[:, m:], scale, batch)
        gradient = np.empty(X.shape)
        np.matmul(self._hidden.T, self._slope, out=gradient[:, :m])
        np.matmul(self._back.T, self._x, out=gradient[:, m:])
        return gradient

    def descend(self, X: Array, scale: float, gamma: float, batches: Iterable[Batch]) -> Array:
        """The rows after a step X <- X - gamma gradient for every batch."""
        m = self._samples[1].shape[1]
        B, A = (np.array(part, dtype=np.float64, order="C") for part in (X[:, :m], X[:, m:]))
        for batch in batches:
            self._update(B, A, scale, batch)
            _add_product(B, -gamma, self._hidden.T, self._slope)
            _add_product(A, -gamma, self._back.T, self._x)
        return np.concatenate([B, A], axis=1)

    def _update(self, B: Array, A: Array, scale: float, batch: Batch) -> None:
        self._slope = self._slope_of(*self.outputs(B, A, scale, batch))
        self._slope *= scale / len(self._slope)
        self._back = np.matmul(self._slope, B.T, out=self._back)


def _rows(values: Array, batch: NDArray[np.int64], out: Any) -> Any:
    if out is None:
        return values[batch]
    # the indices have been checked; with them, mode "raise" would take a detour by another buffer
    return np.take(values, batch, axis=0, out=out, mode="clip")


def _add_product(C: Array, factor: float, P: Array, Q: Array) -> None:
    """C += factor P Q in place, for float64 arrays, C in C order."""
    from scipy.linalg.blas import dgemm

    # BLAS counts by columns: to it, C is C'
    dgemm(factor, Q.T, P.T, 1.0, C.T, overwrite_c=True)
