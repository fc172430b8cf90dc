"""Sums of low-rank products without their dense matrices: stacks, and the best approximation.

sum_i weight_i B_i A_i = [weight_1 B_1, .., weight_N B_N] [A_1; ..; A_N] exactly. Its best rank-r
approximation needs the SVD of a small core only: with thin factorisations L = Q_L R_L and R' = Q_R
R_R of the stacks, L R = Q_L (R_L R_R') Q_R', and the core R_L R_R' has the singular values of L R.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from array_api_compat import array_namespace

from linsys.validate import PROBABILITY_TOLERANCE, InputError, check_integer, check_number

__all__ = ["stack", "truncate"]

Pair = tuple[Any, Any]


def stack(pairs: Sequence[Pair], weights: Sequence[float]) -> Pair:
    """One pair (m, q), (q, n), q the sum of all ranks, with the product sum_i weight_i B_i A_i.

    Raises:
        InputError: no pair, pairs of different products or with ranks that do not fit, weights that
            are negative or do not sum to one.

    >>> import numpy as np
    >>> L, R = stack([(np.ones((2, 1)), np.ones((1, 3)))] * 2, [0.25, 0.75])
    >>> L.shape, (L @ R).tolist()
    ((2, 2), [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    """
    if not pairs or len(pairs) != len(weights):
        raise InputError(
            f"`pairs` must be as many as `weights`, at least one; "
            f"found {len(pairs)} and {len(weights)}"
        )
    for i, weight in enumerate(weights):
        check_number(f"weights[{i}]", weight, low=0.0)
    if abs(sum(weights) - 1.0) > PROBABILITY_TOLERANCE:
        raise InputError(f"`weights` must sum to 1; found {sum(weights):.12g}")
    m, n = pairs[0][0].shape[0], pairs[0][1].shape[-1]
    for i, (B, A) in enumerate(pairs):
        if B.shape != (m, A.shape[0]) or A.shape[-1] != n:
            raise InputError(
                f"`pairs[{i}]` must have shapes ({m}, k) and (k, {n}); "
                f"found {tuple(B.shape)} and {tuple(A.shape)}"
            )
    xp = array_namespace(*pairs[0])
    left = xp.concat([w * B for w, (B, _) in zip(weights, pairs, strict=True)], axis=-1)
    return left, xp.concat([A for _, A in pairs], axis=-2)


def truncate(pair: Pair, r: int) -> Pair:
    """B (m, r), A (r, n) with the best rank-r product, both with the roots of its singular values.

    Components are in decreasing order, so that the first k of them are the best of rank k; where
    the product has a smaller rank than r, the last ones are zero.

    Raises:
        InputError: r < 1, factors that do not fit.

    >>> import numpy as np
    >>> B, A = truncate((np.diag([1.0, 4.0]), np.eye(2)), 1)
    >>> abs(B @ A).round(12).tolist()
    [[0.0, 0.0], [0.0, 4.0]]
    """
    left, right = pair
    check_integer("r", r, low=1)
    if left.shape[1] != right.shape[0]:
        raise InputError(
            "`pair` must have shapes (m, q) and (q, n); "
            f"found {tuple(left.shape)} and {tuple(right.shape)}"
        )
    xp = array_namespace(left, right)
    Q, P = left, right.mT
    core_left = core_right = None
    # a factor that is not tall is its own core
    if Q.shape[0] > Q.shape[1]:
        Q, core_left = xp.linalg.qr(Q)
    if P.shape[0] > P.shape[1]:
        P, core_right = xp.linalg.qr(P)
    if core_left is None:
        core_left, Q = Q, None
    if core_right is None:
        core_right, P = P, None
    U, s, Vt = xp.linalg.svd(core_left @ core_right.mT, full_matrices=False)
    rank = min(r, s.shape[0])
    root = xp.sqrt(s[:rank])
    B, A = U[:, :rank] * root, root[:, None] * Vt[:rank, :]
    B = B if Q is None else Q @ B
    A = A if P is None else A @ P.mT
    if rank < r:
        B = xp.concat([B, xp.zeros((B.shape[0], r - rank), dtype=B.dtype)], axis=1)
        A = xp.concat([A, xp.zeros((r - rank, A.shape[1]), dtype=A.dtype)], axis=0)
    return B, A
