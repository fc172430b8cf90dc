"""Random-k sketches as index arrays, and top-k compression: FSLoRA, Definition 3.1, Appendix C.2.

S = (r / k) sum_{j in I} e_j e_j' with I uniform among the subsets of size k. Nothing here is an
r x r matrix except what tests and theory need. With X of :mod:`linsys.sketching.adapters`, a device
that is given I works on the k rows X[I] with the factor r / k, which is W0 + B S A.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike, NDArray

from linsys.validate import Array, InputError, check_integer, check_number

__all__ = ["TopK", "covariance", "dense", "every_support", "support", "top_k"]

Support = NDArray[np.int64]

#: More subsets than this are no longer "all of them" but a long wait.
_MOST_SUBSETS = 1_000_000
#: Bytes of an index that is sent with a value.
_INDEX = 4


def support(seed: int, round_: int, device: int, r: int, k: int, step: int = 0) -> Support:
    """I of a device in a round, shape (k,), increasing; of (seed, round, device, step) alone.

    Server and device draw the same one, so that it is never sent.

    Raises:
        InputError: k outside [1, r].

    >>> support(0, round_=3, device=1, r=8, k=4)
    array([0, 3, 6, 7])
    """
    _sizes(r, k)
    counter = [
        check_integer(n, v) for n, v in (("step", step), ("device", device), ("round_", round_))
    ]
    generator = np.random.Generator(
        np.random.Philox(
            key=check_integer("seed", seed, high=(1 << 128) - 1), counter=[0, *counter]
        )
    )
    return np.sort(generator.choice(r, size=k, replace=False).astype(np.int64))


def every_support(r: int, k: int) -> Support:
    """All I, shape (r over k, k), equally likely: expectations over S are means over these.

    >>> every_support(3, 2).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    _sizes(r, k)
    if comb(r, k) > _MOST_SUBSETS:
        raise InputError(
            f"`r` and `k` must give at most {_MOST_SUBSETS} subsets; found {comb(r, k)}"
        )
    return np.array(list(combinations(range(r), k)), dtype=np.int64)


def dense(indices: ArrayLike, r: int) -> Array:
    """S as a matrix (..., r, r), for tests and theory.

    >>> dense([0, 2], 3).diagonal().tolist()
    [1.5, 0.0, 1.5]
    """
    chosen = np.asarray(indices)
    _sizes(r, chosen.shape[-1])
    if chosen.min() < 0 or chosen.max() >= r:
        raise InputError(f"`indices` must be between 0 and {r - 1}; found {chosen.tolist()}")
    diagonal = np.zeros((*chosen.shape[:-1], r))
    np.put_along_axis(diagonal, chosen, r / chosen.shape[-1], axis=-1)
    return diagonal[..., None] * np.eye(r)


def covariance(r: int, k: int) -> Array:
    """Cov(S_jj, S_ll), shape (r, r): r/k - 1 on the diagonal, -(r/k - 1) / (r - 1) elsewhere.

    With it every quadratic function of S has a closed-form mean; rows sum to zero, as the trace of
    S is always r.

    >>> covariance(4, 2).round(4)[0].tolist()
    [1.0, -0.3333, -0.3333, -0.3333]
    """
    _sizes(r, k)
    if r == 1:
        return np.zeros((1, 1))
    variance = r / k - 1.0
    return variance / (r - 1.0) * (r * np.eye(r) - 1.0)


class TopK(NamedTuple):
    """What is left of an update: the array with the rest zero, and the bytes it takes to send."""

    values: Any
    bytes: int


def top_k(update: Any, ratio: float) -> TopK:
    """Keep the share ``ratio`` of an update (any shape) that is largest in absolute value.

    The number kept is rounded up; equal entries are kept in order. Sent are the values and, unless
    all of them are, four bytes for the place of each.

    >>> kept = top_k(np.array([[3.0, -4.0], [0.5, 1.0]]), 0.5)
    >>> kept.values.tolist(), kept.bytes
    ([[3.0, -4.0], [0.0, 0.0]], 24)
    """
    check_number("ratio", ratio, low=0.0, high=1.0, low_open=True)
    xp = array_namespace(update)
    flat = xp.reshape(update, (-1,))
    size, item = flat.shape[0], _itemsize(update)
    kept = int(np.ceil(ratio * size))
    if kept == size:
        return TopK(update, size * item)
    order = xp.argsort(-xp.abs(flat), stable=True)[:kept]
    mask = xp.zeros_like(flat)
    mask[order] = 1
    return TopK(xp.reshape(flat * mask, update.shape), kept * (item + _INDEX))


def _itemsize(array: Any) -> int:
    size = getattr(array, "itemsize", None) or array.element_size()
    return int(size)


def _sizes(r: int, k: int) -> None:
    check_integer("r", r, low=1)
    check_integer("k", k, low=1, high=r)
