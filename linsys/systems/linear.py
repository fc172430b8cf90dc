"""What every multi-agent linear system has once the agents' mean matrices and vectors are known."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from linsys import linalg
from linsys.linalg import Numbers
from linsys.validate import Array, InputError, positive_definite_symmetric_part

__all__ = ["Averages", "LinearSystem", "solve"]


def solve(matrices: Array, vectors: Array) -> Array:
    """M^{-1} v, for one pair or a stack of them.

    Raises:
        InputError: a solution that is beyond the range of a double, or not unique in it.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            solution = np.asarray(np.linalg.solve(matrices, vectors[..., None])[..., 0], np.float64)
    except np.linalg.LinAlgError:
        solution = np.full(1, np.nan)
    return _finite("the solution", solution)


def _finite(name: str, value: Array) -> Array:
    if not np.isfinite(value).all():
        raise InputError(
            f"{name} must be finite; found an overflow: scale the matrices or the objectives"
        )
    return np.asarray(value, dtype=np.float64)


class Averages:
    """Averages over agents and solutions, equations (2), (3) and (6) of AffPCL.

    Leading axes are systems. A subclass gives the means, and may average and solve in its own way.
    """

    @property
    @abstractmethod
    def A_bar(self) -> Numbers:
        """Abar^i = E_{mu^i} A(s), shape (..., n, d, d)."""

    @property
    @abstractmethod
    def Phi_bar(self) -> Numbers:
        """Phibar^i = E_{mu^i} Phi(s), shape (..., n, d, d)."""

    @property
    @abstractmethod
    def b_bar(self) -> Numbers:
        """bbar^i = E_{mu^i} b^i(s), shape (..., n, d)."""

    def _average(self, name: str, values: Numbers, axis: int) -> Numbers:
        return np.asarray(values.mean(axis=axis))

    def _solve(self, matrices: Numbers, vectors: Numbers) -> Numbers:
        return linalg.solve(matrices, vectors)

    @cached_property
    def A_bar0(self) -> Numbers:
        """Abar^0 = (1/n) sum_i Abar^i = E_{mu^0} A(s), shape (..., d, d)."""
        return self._average("A_bar0", self.A_bar, -3)

    @cached_property
    def Phi_bar0(self) -> Numbers:
        """Phibar^0 = (1/n) sum_i Phibar^i = E_{mu^0} Phi(s), shape (..., d, d)."""
        return self._average("Phi_bar0", self.Phi_bar, -3)

    @cached_property
    def b_bar0(self) -> Numbers:
        """bbar^0 = (1/n) sum_i bbar^i, shape (..., d)."""
        return self._average("b_bar0", self.b_bar, -2)

    @cached_property
    def x_star(self) -> Numbers:
        """Personalised solutions x_*^i = (Abar^i)^{-1} bbar^i, shape (..., n, d)."""
        return self._solve(self.A_bar, self.b_bar)

    @cached_property
    def x_star_central(self) -> Numbers:
        """Central solution x_*^c = (Abar^0)^{-1} bbar^0 of equation (3), shape (..., d)."""
        return self._solve(self.A_bar0, self.b_bar0)

    @cached_property
    def theta_star_central(self) -> Numbers:
        """Central objective theta_*^c = (Phibar^0)^{-1} bbar^0 of equation (6), shape (..., d)."""
        return self._solve(self.Phi_bar0, self.b_bar0)


class LinearSystem(Averages):
    """One validated system in float64, whose averages and solutions are finite or refused."""

    def _average(self, name: str, values: Array, axis: int) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return _finite(f"`{name}`", values.mean(axis=axis))

    def _solve(self, matrices: Array, vectors: Array) -> Array:
        return solve(matrices, vectors)

    def _check_monotone(self) -> None:
        """Every agent's iteration and central objective estimation must be strongly monotone."""
        positive_definite_symmetric_part("A_bar", self.A_bar)
        positive_definite_symmetric_part("Phi_bar0", self.Phi_bar0[None])
