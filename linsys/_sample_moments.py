"""First two moments of the matrices that a system samples, which say how its recursions grow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from linsys.systems.finite import FiniteSystem
from linsys.systems.gaussian import GaussianSystem
from linsys.systems.regression import RegressionSystem
from linsys.validate import Array, InputError

__all__ = ["SampleMoments", "sample_moments"]


@dataclass(frozen=True)
class SampleMoments:
    """First two moments of a sampled matrix A(s), s ~ mu^i, of all agents.

    Args:
        mean: E_{mu^i} A(s), shape (n, d, d).
        square: (i, S) -> E_{mu^i}[A(s) S A(s)'].
        total: S -> sum_i of these.
    """

    mean: Array
    square: Callable[[int, Array], Array]
    total: Callable[[Array], Array]


@singledispatch
def sample_moments(system: Any, matrix: str) -> SampleMoments:
    """Moments of the sampled matrices of a system.

    For another kind of system, register an implementation with ``sample_moments.register``.

    Args:
        system: a finite, Gaussian or regression system.
        matrix: "A" or "Phi".

    Raises:
        InputError: another kind of system.
    """
    raise InputError(
        "`system` must be a FiniteSystem, a GaussianSystem or a RegressionSystem; "
        f"found {type(system).__name__}"
    )


@sample_moments.register
def _(system: FiniteSystem, matrix: str) -> SampleMoments:
    matrices = system.A if matrix == "A" else system.Phi

    def weighted(weights: Array, s: Array) -> Array:
        visited = weights > 0
        left = (weights[visited, None, None] * matrices[visited]) @ s
        squared: Array = np.tensordot(left, matrices[visited], axes=((0, 2), (0, 2)))
        return squared

    return SampleMoments(
        mean=system.A_bar if matrix == "A" else system.Phi_bar,
        square=lambda i, s: weighted(system.mu[i], s),
        total=lambda s: system.n * weighted(system.mu0, s),
    )


@sample_moments.register
def _(system: GaussianSystem, matrix: str) -> SampleMoments:
    # A(s) = (I + eps s s') B with s ~ N(m, I), W = I + m m' and Y = B S B': E[s s'Y s s'] = tr(YW)
    # W + 2(YW + WY) - 2Y.
    base, eps = (system.A_base, system.eps_A) if matrix == "A" else (system.Phi_base, system.eps_b)
    moments = system.state_second_moment

    def without_trace(y: Array, w: Array) -> Array:
        wy = w @ y
        result: Array = y + (eps + 2.0 * eps**2) * (wy + wy.T) - 2.0 * eps**2 * y
        return result

    def square(i: int, s: Array) -> Array:
        y = base @ s @ base.T
        rank_one: Array = eps**2 * np.sum(y * moments[i]) * moments[i]
        return without_trace(y, moments[i]) + rank_one

    def total(s: Array) -> Array:
        y = base @ s @ base.T
        traces = np.tensordot(moments, y, axes=2)
        rank_one = eps**2 * np.tensordot(traces, moments, axes=1)
        return system.n * without_trace(y, moments.mean(axis=0)) + rank_one

    return SampleMoments(system.A_bar if matrix == "A" else system.Phi_bar, square, total)


@sample_moments.register
def _(system: RegressionSystem, matrix: str) -> SampleMoments:
    # A(z) = phi phi' + ridge I for one sample; larger minibatches only have less noise.
    rows = system.features if matrix == "A" else system.objective
    ridge = system.ridge if matrix == "A" else 0.0
    mean = system.A_bar if matrix == "A" else system.Phi_bar
    assert rows is not None

    def square(i: int, s: Array) -> Array:
        phi = rows[i]
        energy = ((phi @ s) * phi).sum(axis=1) / len(phi)
        without = mean[i] - ridge * np.eye(len(s))
        cross = without @ s
        squared: Array = phi.T @ (energy[:, None] * phi)
        squared += ridge * (cross + cross.T) + ridge**2 * s
        return squared

    def total(s: Array) -> Array:
        squares: Array = np.sum([square(i, s) for i in range(system.n)], axis=0)
        return squares

    return SampleMoments(mean, square, total)
