"""How far apart clients are: in their weights (disagreement drift) and in their parameters.

Equation (7) of FIRM splits the error of the averaged direction (1/C) sum_c sum_j lambda^{j,c}
g^{j,c}; the parts that are due to differences between clients are measured here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from linsys.validate import Array, InputError
from mgda.federated import finite_rows

__all__ = ["client_drift", "disagreement", "gradient_drift", "weight_spread"]


def disagreement(gradients: Any, weights: ArrayLike, reference: ArrayLike | None = None) -> Array:
    """T_disagr = ||(1/C) sum_c sum_j g^{j,c} (lambda^{j,c} - ref^j)||^2, shape (...).

    The text has two readings of ref. Equation (7) takes the mean weights of the clients; Appendix
    F (14) an ideal lambda_t, which Remark 4 calls globally optimal: the weights that the problem
    gives for the true gradients, ``algorithm.solve(true gradients)``.

    Args:
        gradients: g^{j,c}, shape (..., C, d, M), of any array namespace.
        weights: lambda^c, shape (..., C, M).
        reference: ref, shape (..., M); the mean weights without it, and exactly zero is returned
            where all clients have the same.

    >>> gradients = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])  # two clients, d = 1, M = 2
    >>> disagreement(gradients, [[1.0, 0.0], [0.0, 1.0]])  # both drift by 1/2, the same way
    array(0.25)
    """
    arrays, given = _checked_pair(gradients, weights)
    if reference is None:
        deviations = _deviations(given)
    else:
        ref = finite_rows("reference", reference, "(..., M)")
        _check_axes("reference", ref.shape, (*given.shape[:-2], given.shape[-1]), 1)
        deviations = given - ref[..., None, :]
    mean = (arrays @ deviations[..., None])[..., 0].mean(axis=-2)
    return np.asarray((mean**2).sum(axis=-1))


def weight_spread(weights: ArrayLike) -> Array:
    """Root mean square of ||lambda^c - mean lambda|| over the clients of (..., C, M), (...).

    >>> weight_spread([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    array(0.5)
    """
    return np.asarray(np.sqrt(client_drift(finite_rows("weights", weights, "(..., C, M)"))))


def client_drift(theta: Any) -> Array:
    """(1/C) sum_c ||theta^c - theta_bar||^2 for parameters (..., C, d), shape (...).

    Zero after an aggregation.

    >>> client_drift(np.array([[0.0], [2.0]]))
    array(1.)
    """
    deviations = _deviations(finite_rows("theta", theta, "(..., C, d)"))
    return np.asarray((deviations**2).sum(axis=-1).mean(axis=-1))


def gradient_drift(local: Any, mean: Any, weights: ArrayLike) -> Array:
    """T_{1,2} = ||((1/C) sum_c grad J(theta^c) - grad J(theta_bar)) lambda||^2 of (13), (...).

    Args:
        local: true gradients at the clients' parameters, shape (..., C, d, M).
        mean: at their mean, shape (..., d, M).
        weights: lambda, shape (..., M).

    >>> gradient_drift([[[1.0, 0.0]], [[3.0, 0.0]]], [[1.0, 5.0]], [1.0, 0.0])
    array(1.)
    """
    each = finite_rows("local", local, "(..., C, d, M)")
    centre = finite_rows("mean", mean, "(..., d, M)")
    given = finite_rows("weights", weights, "(..., M)")
    _check_axes("mean", centre.shape, (*each.shape[:-3], *each.shape[-2:]), 2)
    _check_axes("weights", given.shape, (*each.shape[:-3], each.shape[-1]), 1)
    direction = ((each.mean(axis=-3) - centre) @ given[..., None])[..., 0]
    return np.asarray((direction**2).sum(axis=-1))


def _deviations(rows: Array) -> Array:
    """Rows (..., C, k) less their mean, exactly zero where they are all the same."""
    shifted = rows - rows[..., :1, :]
    return np.asarray(shifted - shifted.mean(axis=-2, keepdims=True))


def _check_axes(name: str, shape: tuple[int, ...], wanted: tuple[int, ...], own: int) -> None:
    """Check that the last ``own`` axes are those wanted and that the others can be broadcast."""
    lead, size = shape[:-own], len(wanted) - own
    alike = all(a in (1, b) for a, b in zip(lead[::-1], wanted[:size][::-1], strict=False))
    if shape[-own:] != wanted[size:] or len(lead) > size or not alike:
        raise InputError(f"`{name}` must have shape {wanted}; found {shape}")


def _checked_pair(gradients: Any, weights: ArrayLike) -> tuple[Array, Array]:
    arrays = finite_rows("gradients", gradients, "(..., C, d, M)")
    given = finite_rows("weights", weights, "(..., C, M)")
    if given.shape != (*arrays.shape[:-2], arrays.shape[-1]):
        raise InputError(
            "`weights` must have shape (..., C, M) for gradients (..., C, d, M) of shape "
            f"{arrays.shape}; found {given.shape}"
        )
    return arrays, given
