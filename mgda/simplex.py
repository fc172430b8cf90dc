"""Quadratic programs on the simplex: MGDA, its regularised form and preferences (FIRM, Section 3).

All of them minimise lambda' (G + R) lambda over the weights lambda >= 0 that sum to one, where G is
the Gram matrix of M gradients:

=========  ===============  ==================================
method     R                source
=========  ===============  ==================================
MGDA       0                Désidéri (2012)
FIRM       (beta / 2) I     FIRM, equations (1) and (2)
preference Diag(1 / p)      FIRM, equation (3)
=========  ===============  ==================================

The solver is an exact active-set method (:mod:`mgda._active_set`) with closed forms for M = 2 and
3, compiled for whole batches. Every answer comes with a certificate that is computed apart from it,
and with a status that depends on the certificate alone. Besides its result, a batch needs the
memory of one piece of 256 KiB, whatever its length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_jax_array,
    is_torch_array,
    to_device,
)
from numpy.typing import ArrayLike, NDArray

from linsys.validate import (
    Array,
    InputError,
    check_flag,
    check_integer,
    check_number,
    finite_array,
    plain,
    real_array,
    shown,
)
from mgda._active_set import solve_batch
from mgda._programs import LARGEST, certify, check_sizes, gram_matrices, prepare, refuse

__all__ = ["SimplexSolution", "gram", "kkt_residual", "min_norm", "regulariser", "simplex_qp"]

#: What an answer's residual is promised to be at most.
ACCURACY = 1e-12
#: Programs are solved in pieces with at most this many numbers, which stay in a core's cache.
_PIECE = 1 << 15
#: Gradients are converted to float64 in pieces with at most this many numbers.
_CONVERTED = 1 << 22


@dataclass(frozen=True, eq=False)
class SimplexSolution:
    """Solutions of a batch of programs; a single one has no batch axes.

    Attributes:
        weights: lambda, shape (..., M).
        objective: lambda' (G + R) lambda, shape (...).
        residual: violation of the optimality conditions relative to the largest entry of G + R,
            see :func:`kkt_residual`, shape (...).
        optimal: whether the residual is at most ``ACCURACY``, shape (...).
    """

    weights: Array
    objective: Array
    residual: Array
    optimal: NDArray[np.bool_]


def simplex_qp(
    G: ArrayLike,
    *,
    beta: float = 0.0,
    preference: ArrayLike | None = None,
    normalise: bool = False,
) -> SimplexSolution:
    """Minimise lambda' (G + R) lambda over the simplex.

    Args:
        G: Gram matrices, shape (..., M, M), symmetric positive semidefinite.
        beta: R = (beta / 2) I, at least 0.
        preference: p > 0 with R = Diag(1 / p) instead, shape (M,).
        normalise: divide G by (1/M) tr G first, equation (9) of FIRM, so that ``beta`` means the
            same at every scale of the gradients. A zero G stays as it is.

    Raises:
        InputError: a matrix that is not symmetric or has a negative eigenvalue, NaN, infinity or
            an entry above 1e304, a beta that is negative or above 1e304, a p that is not positive,
            or both beta and p.

    >>> solution = simplex_qp([[1.0, 0.0], [0.0, 3.0]])
    >>> solution.weights.tolist(), solution.objective.tolist()
    ([0.75, 0.25], 0.75)
    """
    matrices = gram_matrices("G", G)
    R = regulariser(matrices.shape[-1], beta, preference)
    return _solve(matrices, R, check_flag("normalise", normalise))


def min_norm(
    gradients: Any,
    *,
    beta: float = 0.0,
    preference: ArrayLike | None = None,
    normalise: bool = False,
) -> SimplexSolution:
    """Weights of the shortest convex combination of gradients; options as of :func:`simplex_qp`.

    Gradients are the columns of arrays (..., d, M) of any namespace.

    A list [g1, ..., gM] of gradients is an array of rows: pass its transpose, as in
    ``np.transpose([g1, g2])``.

    float32 gradients are accumulated in float64. Scales from 1e-150 to 1e150 are safe, also beside
    each other: the gradients of every program are divided by their largest entry before they are
    multiplied.

    >>> min_norm(np.array([[1.0, -1.0], [0.0, 1e-200]])).weights.tolist()
    [0.5, 0.5]
    """
    array = _gradients(gradients)
    check_flag("normalise", normalise)
    scale = _largest(array)
    G = gram(array, scale)
    R = regulariser(G.shape[-1], beta, preference)
    if normalise:
        return _solve(G, R, normalise)
    # scale^2 G + R in units whose square neither overflows nor, for R = 0, underflows
    unit = np.maximum(scale, 1.0) if R.any() else scale
    G *= np.square(scale / unit)[..., None, None]
    G += R / unit[..., None, None] / unit[..., None, None]
    solution = _solve(G, np.zeros_like(R))
    with np.errstate(over="ignore"):  # reported below
        objective = np.asarray(solution.objective * unit * unit)
    if not np.isfinite(objective).all():
        raise InputError("`gradients` must be finite, also their squares; found an overflow")
    return replace(solution, objective=objective)


def gram(gradients: Any, scale: ArrayLike = 1.0) -> Array:
    """G = A'A / scale^2 in float64 for gradients A, shape (..., d, M), of any array namespace.

    Args:
        gradients: A, of real numbers.
        scale: above 0, one for all, or one for each, shape (...).

    Raises:
        InputError: no gradients, NaN or infinity among them, or a scale that is not positive.
    """
    array = _gradients(gradients)
    lead = tuple(array.shape[:-2]) if np.ndim(plain(scale)) else ()
    divisor = real_array("scale", scale, lead).copy()[..., None, None]
    if not (divisor > 0.0).all():
        raise InputError(f"`scale` must be positive; found {divisor.min():g}")
    total: Any = 0.0
    for piece in _pieces(array):
        xp = array_namespace(piece)
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            precise = xp.astype(piece, xp.float64)
            scaled = precise / xp.asarray(divisor, device=device(piece))
            total = total + xp.matmul(xp.matrix_transpose(scaled), scaled)
    product = _numpy(total)
    if not np.isfinite(product).all():
        raise InputError("`gradients` must be finite, also their squares; found NaN or infinity")
    return product


def _gradients(value: Any) -> Any:
    """An array (..., d, M) of its own namespace; lists become NumPy's."""
    given = hasattr(value, "shape") and not isinstance(value, np.ma.MaskedArray)
    array = value if given else plain(value)
    usable = is_array_api_obj(array) and array.dtype != object
    if not usable or (is_torch_array(array) and str(array.layout) != "torch.strided"):
        raise InputError(f"`gradients` must be an array (..., d, M), dense; found {shown(value)}")
    xp = array_namespace(array)
    if not xp.isdtype(array.dtype, ("real floating", "integral")):
        raise InputError(f"`gradients` must hold real numbers; found dtype {array.dtype}")
    if array.ndim < 2 or 0 in array.shape:
        raise InputError(
            f"`gradients` must have shape (..., d, M), none of them 0; found {tuple(array.shape)}"
        )
    return array.detach() if is_torch_array(array) else array


def _pieces(array: Any) -> Iterator[Any]:
    """Rows of (..., d, M), a few at a time; JAX's on the host, as only there it has float64."""
    d = array.shape[-2]
    rows = max(1, _CONVERTED * d // math.prod(array.shape))
    for start in range(0, d, rows):
        piece = array[..., start : start + rows, :]
        yield np.asarray(piece) if is_jax_array(piece) else piece


def _numpy(array: Any) -> Array:
    return np.asarray(to_device(array, "cpu"))


def _largest(array: Any) -> Array:
    """The largest entry in size of each (d, M), 1 where all are 0."""
    largest = np.zeros(array.shape[:-2])
    for piece in _pieces(array):
        xp = array_namespace(piece)
        ends = [xp.astype(end(piece, axis=(-2, -1)), xp.float64) for end in (xp.max, xp.min)]
        largest = np.maximum(largest, np.maximum(_numpy(ends[0]), -_numpy(ends[1])))
    if not np.isfinite(largest).all():
        raise InputError("`gradients` must be finite; found NaN or infinity")
    return np.where(largest > 0, largest, 1.0)


def trace_normalised(G: Array) -> Array:
    """G / ((1/M) tr G), equation (9) of FIRM; a zero matrix stays zero."""
    mean = np.trace(G, axis1=-2, axis2=-1)[..., None, None] / G.shape[-1]
    return np.asarray(np.divide(G, mean, out=np.zeros_like(G), where=mean > 0))


def regulariser(M: int, beta: float = 0.0, preference: ArrayLike | None = None) -> Array:
    """R: (beta / 2) I, or Diag(1 / p) for preferences p, shape (M, M)."""
    check_integer("M", M, low=1)
    beta = check_number("beta", beta, low=0.0, high=LARGEST)
    if preference is None:
        return np.asarray(0.5 * beta * np.eye(M))
    if beta != 0.0:
        raise InputError(f"`beta` must be 0 where `preference` is given; found {beta}")
    p = real_array("preference", preference, (M,))
    if (p < np.finfo(np.float64).tiny).any():  # the reciprocal of a subnormal number overflows
        raise InputError(f"`preference` must be positive; found {p.min():g}")
    return np.diag(1.0 / p)


def kkt_residual(Q: ArrayLike, weights: ArrayLike) -> Array:
    """Violation of optimality of ``weights`` (..., M) for Q (..., M, M), relative to max |Q|.

    With s = Q lambda and v = lambda' s, the optimum of the convex program is where s_j >= v for all
    j; the residual is the largest violation of it, of lambda >= 0 and of sum lambda = 1. It bounds
    complementarity as well: the lambda_j (s_j - v) sum to zero. By convexity, lambda' Q lambda
    exceeds the optimum by at most twice max |Q| times the residual. The largest entry of a positive
    semidefinite matrix is on its diagonal.

    Raises:
        InputError: shapes that do not fit each other, NaN or infinity, also in Q lambda.

    >>> float(kkt_residual([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0]))
    1.0
    """
    matrices = gram_matrices("Q", Q)
    check_sizes("Q", matrices)
    M = matrices.shape[-1]
    given = finite_array("weights", weights)
    if given.shape[-1:] != (M,):
        raise InputError(f"`weights` must have shape (..., {M}); found {given.shape}")
    try:
        lead = np.broadcast_shapes(matrices.shape[:-2], given.shape[:-1])
    except ValueError:
        raise InputError(
            f"`weights` must have batch axes like those of `Q`, {matrices.shape[:-2]}; "
            f"found {given.shape[:-1]}"
        ) from None
    batch = np.ascontiguousarray(np.broadcast_to(matrices, (*lead, M, M)).reshape(-1, M, M))
    points = np.ascontiguousarray(np.broadcast_to(given, (*lead, M)).reshape(-1, M))
    objective, residual = np.empty(len(batch)), np.empty(len(batch))
    certify(batch, points, objective, residual)
    if not np.isfinite(objective).all():
        raise InputError("`weights` must give finite Q lambda; found an overflow")
    return residual.reshape(lead)


def _solve(G: Array, R: Array, normalise: bool = False) -> SimplexSolution:
    """Check and solve the programs of G (..., M, M) and a diagonal R (M, M), piece by piece."""
    lead, M = G.shape[:-2], G.shape[-1]
    batch = np.ascontiguousarray(G.reshape(-1, M, M))
    count, added = len(batch), np.zeros(M) if normalise else np.diagonal(R).copy()
    weights, objective, residual = np.empty((count, M)), np.empty(count), np.empty(count)
    step = max(1, _PIECE // M**2)
    Q = np.empty((min(step, count), M, M))
    for start in range(0, count, step):
        at = slice(start, start + step)
        piece = batch[at]
        program = Q[: len(piece)]
        if not prepare(piece, added, program):
            refuse(piece)
        if normalise:
            program = trace_normalised(program) + R
        solve_batch(program, weights[at])
        certify(program, weights[at], objective[at], residual[at])
    return SimplexSolution(
        weights=weights.reshape(*lead, M),
        objective=objective.reshape(lead),
        residual=residual.reshape(lead),
        optimal=(residual <= ACCURACY).reshape(lead),
    )
