"""Federated averaging of a fixed mixture of the objectives: the baselines that resolve nothing.

*Problem.* Maximise sum_j w_j J^j for weights w on the simplex, or one objective J^j alone.

*Algorithm.* FedAvg (McMahan et al., 2017): K local steps of every client, then the mean.

*Guarantee.* A stationary point of the mixture is Pareto stationary; with w > 0, a maximum is Pareto
optimal, though only those on the convex hull of the attainable J are found for some w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linsys.validate import Array, InputError, check_integer, real_array
from mgda.federated import Federated, State, check_simplex

__all__ = ["LinearScalarization", "SingleObjective"]


class _FixedWeights(Federated):
    """All clients use the weights that :meth:`solve` gives, whatever the gradients are."""

    def weigh(self, state: State, gradients: Any) -> Array:
        """The fixed weights for every client, shape (..., C, M)."""
        return self.solve(gradients)


@dataclass(frozen=True, kw_only=True)
class LinearScalarization(_FixedWeights):
    """Ascent of sum_j w_j J^j.

    Args:
        alpha: step size.
        K: local steps between aggregations.
        restart, optimizer, moments: see :class:`mgda.federated.Federated`.
        weights: w on the simplex, shape (M,).

    >>> half = LinearScalarization(alpha=1.0, weights=(0.5, 0.5))
    >>> half.step(half.init(np.zeros((1, 2))), np.array([[[1.0, 0.0], [0.0, 2.0]]])).theta
    array([[0.5, 1. ]])
    """

    weights: Sequence[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_simplex("weights", real_array("weights", self.weights, ("M",)))

    def solve(self, gradients: Any) -> Array:
        """w, shape (..., M)."""
        M = gradients.shape[-1]
        if len(self.weights) != M:
            raise InputError(
                f"`weights` must have one entry for each of {M} objectives; "
                f"found {len(self.weights)}"
            )
        return np.broadcast_to(np.asarray(self.weights, float), (*gradients.shape[:-2], M))


@dataclass(frozen=True, kw_only=True)
class SingleObjective(_FixedWeights):
    """Ascent of one objective, blind to the others.

    Args:
        alpha: step size.
        K: local steps between aggregations.
        restart, optimizer, moments: see :class:`mgda.federated.Federated`.
        objective: j, counted from 0.

    >>> first = SingleObjective(alpha=1.0, objective=0)
    >>> first.step(first.init(np.zeros((1, 2))), np.array([[[1.0, 0.0], [0.0, 2.0]]])).theta
    array([[1., 0.]])
    """

    objective: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("objective", self.objective)

    def solve(self, gradients: Any) -> Array:
        """One at the objective, shape (..., M)."""
        M = gradients.shape[-1]
        j = check_integer("objective", self.objective, high=M - 1)
        return np.broadcast_to(np.eye(M)[j], (*gradients.shape[:-2], M))
