"""Finite Markov chains: checks of kernels, stationary distributions, drawing from rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.linalg import stationary
from linsys.validate import PROBABILITY_TOLERANCE, Array, InputError, real_array

__all__ = [
    "Index",
    "check_irreducible",
    "draw",
    "full_rank_features",
    "stationary_distribution",
    "transition_kernels",
]

Index = NDArray[np.int64]


def transition_kernels(
    name: str, value: ArrayLike, shape: tuple[str, ...], sizes: dict[str, int]
) -> Array:
    """Return ``value`` as a float64 array whose last axis holds probability distributions."""
    kernels = real_array(name, value, shape, sizes)
    if (kernels < 0).any():
        where = tuple(int(k) for k in np.argwhere(kernels < 0)[0])
        raise InputError(
            f"`{name}` must be non-negative; found {kernels[where]:.6g} at index {where}"
        )
    totals = kernels.sum(axis=-1)
    off = np.abs(totals - 1.0)
    if off.max() > PROBABILITY_TOLERANCE:
        where = tuple(int(k) for k in np.unravel_index(off.argmax(), off.shape))
        raise InputError(f"row {where} of `{name}` must sum to 1; found {totals[where]:.12g}")
    return kernels


def check_irreducible(name: str, kernels: Array) -> None:
    """Refuse a kernel (n, O, O) under which some state cannot be reached from some other."""
    # A tenth of a second to import, which simulations without chains need not spend.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    for i, kernel in enumerate(kernels):
        classes, labels = connected_components(csr_array(kernel > 0), connection="strong")
        if classes > 1:
            leaving = ((kernel > 0) & (labels[:, None] != labels)).any(axis=1)
            closed = next(c for c in range(classes) if not leaving[labels == c].any())
            states = [int(o) for o in np.flatnonzero(labels == closed)]
            raise InputError(
                f"`{name}`[{i}] must be irreducible, every state reachable from every other; "
                f"found {classes} classes, of which states {str(states)[:60]} are never left"
            )


def stationary_distribution(kernels: Array) -> Array:
    """Stationary distributions pi P = pi of kernels (..., O, O), shape (..., O).

    To a few roundings where the chain is irreducible. Of a chain with transient states, which it
    visits no more, by one solve: (I - P' + 1 1') pi = 1 says pi P = pi and sum(pi) = 1 at once, and
    is regular if there is one recurrent class.

    >>> stationary_distribution(np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([0.66666667, 0.33333333])
    """
    law = np.asarray(stationary(kernels))
    reducible = np.isnan(law).any(axis=-1)
    if reducible.any():
        rest = kernels[reducible]
        system = np.eye(rest.shape[-1]) - np.swapaxes(rest, -1, -2) + 1.0
        solution = np.linalg.solve(system, np.ones((*rest.shape[:-1], 1)))[..., 0]
        pi = np.maximum(solution, 0.0)  # rounding may push a transient state below zero
        law[reducible] = pi / pi.sum(axis=-1, keepdims=True)
    return law


def draw(cumulative: Array, u: Array) -> Index:
    """The first k with u < cumulative[..., k], for distribution functions (..., K) and u (...)."""
    # The last entry is 1 up to rounding and is left out, so that u close to one gives the last
    # outcome.
    result: Index = (u[..., None] >= cumulative[..., :-1]).sum(axis=-1)
    return result


def full_rank_features(features: Array) -> Array:
    """Check that the columns of features (states, d) are linearly independent."""
    rank = int(np.linalg.matrix_rank(features))
    if rank < features.shape[1]:
        raise InputError(
            f"`features` must have rank {features.shape[1]}, its number of columns; found {rank}"
        )
    return features
