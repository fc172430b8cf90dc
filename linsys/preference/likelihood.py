"""The log-likelihood of preferences, equation (3.3), and its derivatives.

F(Delta) = sum_i sum_j c_ij (o_ij log sigmoid(z_ij) + (1 - o_ij) log sigmoid(-z_ij)) with the logits
z_ij = <Theta_init,i + Delta_i, X_ij>. Users' terms are kept apart: F is the sum of what
:func:`log_likelihood` returns. All is float64 and finite for every finite logit. ``threads`` share
the users among them; the numbers do not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.preference import kernels
from linsys.preference.comparisons import Comparisons
from linsys.validate import Array, check_integer, real_array

__all__ = ["factor_gradients", "gradient", "hessian_product", "log_likelihood"]

#: Users whose sum one call of a kernel takes; sums of blocks are added in their order.
BLOCK = 64


def log_likelihood(data: Comparisons, Delta: ArrayLike, *, threads: int = 1) -> Array:
    """F_i(Delta_i) of every user, shape (N,), at Delta (N, d1, d2).

    >>> data = Comparisons.of_users([np.ones((1, 2, 1))], [[1]])
    >>> log_likelihood(data, np.zeros((1, 2, 1)))  # log(1 / 2)
    array([-0.6931])
    """
    return _first_order(data, _matrices(data, "Delta", Delta), threads)[0]


def gradient(data: Comparisons, Delta: ArrayLike, *, threads: int = 1) -> Array:
    """The gradient of F by every Delta_i, shape (N, d1, d2).

    >>> data = Comparisons.of_users([np.ones((1, 2, 1))], [[1]])
    >>> gradient(data, np.zeros((1, 2, 1))).ravel()
    array([0.5, 0.5])
    """
    return _first_order(data, _matrices(data, "Delta", Delta), threads)[1]


def factor_gradients(
    data: Comparisons, B: ArrayLike, W: ArrayLike, *, threads: int = 1
) -> tuple[Array, Array]:
    """The gradients of F at Delta_i = B W_i by B (d1, k) and by W (N, k, d2).

    >>> data = Comparisons.of_users([np.ones((1, 2, 1))], [[1]])
    >>> by_B, by_W = factor_gradients(data, [[1.0], [0.0]], np.zeros((1, 1, 1)))
    >>> by_B.ravel(), by_W.ravel()
    (array([0., 0.]), array([0.5]))
    """
    sizes: dict[str, int] = {}
    left = real_array("B", B, (data.shape[0], "k"), sizes)
    right = real_array("W", W, (data.users, "k", data.shape[1]), sizes)
    G = _first_order(data, left @ right, threads)[1]
    return np.einsum("nab,nkb->ak", G, right, optimize=True), left.T @ G


def hessian_product(
    data: Comparisons, Delta: ArrayLike, D: ArrayLike, *, threads: int = 1
) -> Array:
    """The Hessian of F at Delta times D, all of shape (N, d1, d2); it is negative semidefinite.

    >>> data = Comparisons.of_users([np.ones((1, 2, 1))], [[1]])
    >>> hessian_product(data, np.zeros((1, 2, 1)), [[[1.0], [0.0]]]).ravel()
    array([-0.25, -0.25])
    """
    at, along = rows(_matrices(data, "Delta", Delta)), rows(_matrices(data, "D", D))
    out = np.empty_like(at)
    X, pairs = columns(data)

    def call(first: int, last: int, _: int) -> None:
        kernels.hessian_products(
            X, pairs, data.starts, data.weights, data.initial, at, along, first, last, out
        )

    over_users(data.users, threads, call)
    return -matrices(out, data.shape[0])


def _first_order(data: Comparisons, Delta: Array, threads: int) -> tuple[Array, Array]:
    """Log-likelihoods (N,) and gradients (N, d1, d2)."""
    at, values = rows(Delta), np.empty(data.users)
    out = np.empty_like(at)
    X, pairs = columns(data)

    def call(first: int, last: int, _: int) -> None:
        kernels.likelihoods(
            X, pairs, data.starts, data.labels, data.weights, data.initial,
            at, first, last, values, out,
        )  # fmt: skip

    over_users(data.users, threads, call)
    return values, matrices(out, data.shape[0])


def _matrices(data: Comparisons, name: str, value: ArrayLike) -> Array:
    return real_array(name, value, (data.users, *data.shape))


def columns(data: Comparisons) -> tuple[Array, NDArray[np.int64]]:
    """Features as the kernels want them, (pairs, d2 d1), and each comparison's pair, or none."""
    none = np.empty(0, dtype=np.int64)
    none.setflags(write=False)
    return rows(data.features), none if data.pairs is None else data.pairs


def rows(stack: Array) -> Array:
    """Matrices (N, d1, d2) as rows (N, d2 d1), column after column."""
    return np.ascontiguousarray(stack.mT).reshape(len(stack), -1)


def matrices(stack: Array, d1: int) -> Array:
    """The inverse of :func:`rows`."""
    return stack.reshape(len(stack), -1, d1).mT


def over_users(N: int, threads: int, call: Callable[[int, int, int], Any]) -> None:
    """``call(first, last, block)`` for blocks of users, on so many threads."""
    check_integer("threads", threads, low=1)
    blocks = [(at, min(at + BLOCK, N), at // BLOCK) for at in range(0, N, BLOCK)]
    if threads == 1:
        for block in blocks:
            call(*block)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda block: call(*block), blocks))
