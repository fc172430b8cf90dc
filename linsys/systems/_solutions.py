"""What every multi-agent linear system has once the agents' mean matrices and vectors are known."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from linsys.validate import Array, InputError, positive_definite_symmetric_part

__all__ = ["LinearSystem", "solve"]


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


def _average(name: str, rows: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return _finite(name, rows.mean(axis=0))


class LinearSystem:
    """Averages over agents and solutions, equations (2), (3) and (6) of AffPCL."""

    @property
    @abstractmethod
    def A_bar(self) -> Array:
        """Abar^i = E_{mu^i} A(s), shape (n, d, d)."""

    @property
    @abstractmethod
    def Phi_bar(self) -> Array:
        """Phibar^i = E_{mu^i} Phi(s), shape (n, d, d)."""

    @property
    @abstractmethod
    def b_bar(self) -> Array:
        """bbar^i = E_{mu^i} b^i(s), shape (n, d)."""

    def _check_monotone(self) -> None:
        """Every agent's iteration and central objective estimation must be strongly monotone."""
        positive_definite_symmetric_part("A_bar", self.A_bar)
        positive_definite_symmetric_part("Phi_bar0", self.Phi_bar0[None])

    @cached_property
    def A_bar0(self) -> Array:
        """Abar^0 = (1/n) sum_i Abar^i = E_{mu^0} A(s), shape (d, d)."""
        return _average("`A_bar0`", self.A_bar)

    @cached_property
    def Phi_bar0(self) -> Array:
        """Phibar^0 = (1/n) sum_i Phibar^i = E_{mu^0} Phi(s), shape (d, d)."""
        return _average("`Phi_bar0`", self.Phi_bar)

    @cached_property
    def b_bar0(self) -> Array:
        """bbar^0 = (1/n) sum_i bbar^i, shape (d,)."""
        return _average("`b_bar0`", self.b_bar)

    @cached_property
    def x_star(self) -> Array:
        """Personalised solutions x_*^i = (Abar^i)^{-1} bbar^i, shape (n, d)."""
        return solve(self.A_bar, self.b_bar)

    @cached_property
    def x_star_central(self) -> Array:
        """Central solution x_*^c = (Abar^0)^{-1} bbar^0 of equation (3), shape (d,)."""
        return solve(self.A_bar0, self.b_bar0)

    @cached_property
    def theta_star_central(self) -> Array:
        """Central objective theta_*^c = (Phibar^0)^{-1} bbar^0 of equation (6), shape (d,)."""
        return solve(self.Phi_bar0, self.b_bar0)
