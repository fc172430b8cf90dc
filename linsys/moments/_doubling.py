"""Powers (I + X)^t v for t up to 10^12 and beyond, without losing digits to a small X.

Write X_k = (I + X)^(2^k) - I. Forming I + X rounds away all of X below 2^-53, and the t-th power
multiplies that loss by t: at t = 10^9 about seven digits are gone before the first product.
Diagonalising X needs no powers but breaks on a defective X, as identical modules in a chain
produce. Two exact identities avoid both:

* while X_k is small, X_{k+1} = 2 X_k + X_k^2, which keeps every entry of X_k accurate to a few k
  units of rounding relative to itself, and v <- v + X_k v;
* once it is not, P_k = I + X_k (nothing left to lose) and P_{k+1} = P_k^2, v <- P_k v, which keeps
  P_k accurate relative to its own, now shrinking, norm. X_k would tend to -I there and bury what is
  left of P_k.

An affine recursion s <- s + Y s + c is the linear one on (s, 1); the last column then doubles as
c_{k+1} = c_k + P_k c_k, a sum of positive semidefinite matrices when s holds second moments, so it
cannot cancel.

Error: the result is the exact one for a generator whose entries are perturbed by a relative O(k
eps), k = log2 t. The second-moment problem itself turns such a perturbation into a relative change
of about alpha t ||N|| eps, which is kappa ln(t) eps at the step size alpha = ln t / (lambda t).
Powers that grow before they decay multiply it by the square of that growth: 10^-7 has been seen for
a defective mean iteration at 0.999 times the largest stable step size, nothing like it at small
ones.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from linsys.validate import Array

#: Leave the form X_k when a diagonal entry passes this size: only the diagonal is rounded when I is
#: added.
SWITCH = 0.25

#: Entries of a contracted power below this are set to zero: they cannot matter and their products
#: are subnormal.
NEGLIGIBLE = 1e-280


#: Smallest block worth a product of its own.
BLOCK = 32


def propagate(generator: Array, start: Array, times: NDArray[np.int64]) -> Array:
    """Return (I + generator)^t start for every t in ``times``, shape (T, m).

    Args:
        generator: X, shape (m, m), whose first row is zero (the first coordinate is constant).
        start: v, shape (m,).
        times: whole numbers of at least zero, shape (T,), in any order.

    All times share the squarings; a time costs one matrix-vector product per set bit.
    """
    power, spare = generator.copy(), np.zeros_like(generator)
    edges = triangular_blocks(generator)
    result = np.repeat(start[:, None], times.size, axis=1)
    remaining = np.array(times, dtype=np.int64)
    small = True
    while True:
        odd = np.flatnonzero(remaining & 1)
        if odd.size:
            moved = power @ result[:, odd]
            result[:, odd] = result[:, odd] + moved if small else moved
        remaining >>= 1
        if not remaining.any():
            return np.ascontiguousarray(result.T)
        if small and np.abs(np.diagonal(power)).max() > SWITCH:
            small = False
            power[np.diag_indices_from(power)] += 1.0
        square(power, spare, edges)
        if small:
            spare += power
            spare += power
        power, spare = spare, power
        if not small:
            linear = power[1:, 1:]
            linear[np.abs(linear) < NEGLIGIBLE] = 0.0
            if not linear.any():  # Steady state: the power is idempotent from here on.
                result[:, remaining > 0] = power @ result[:, remaining > 0]
                return np.ascontiguousarray(result.T)


def triangular_blocks(matrix: Array) -> list[int]:
    """Edges 0 < .. < m of blocks, not too small, in which the matrix is block lower triangular.

    >>> triangular_blocks(np.tril(np.ones((80, 80))))
    [0, 32, 80]
    """
    size = len(matrix)
    last = np.array([row[-1] if (row := np.flatnonzero(line)).size else 0 for line in matrix])
    closed = np.flatnonzero(np.maximum.accumulate(last) <= np.arange(size)) + 1
    edges = [0]
    for edge in closed.tolist():
        if edge - edges[-1] >= BLOCK and size - edge >= BLOCK:
            edges.append(edge)
    return [*edges, size]


def square(matrix: Array, out: Array, edges: list[int]) -> None:
    """Write matrix @ matrix to ``out``, both block lower triangular with the given block edges."""
    blocks = list(pairwise(edges))
    for top, bottom in blocks:
        for left, right in blocks:
            if left <= top:
                np.matmul(
                    matrix[top:bottom, left:bottom],
                    matrix[left:bottom, left:right],
                    out=out[top:bottom, left:right],
                )
