"""Exact moments at a list of times, and everything that is read off them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.validate import Array, InputError, real_array


@dataclass(frozen=True, eq=False)
class ExactTrajectory:
    """Exact moments of y = (theta - theta_*^c, x^c - x_*^c, x^i - x_*^i, 1).

    An algorithm without a module has no such block. Agents of one type share one entry of
    ``moments``.

    Attributes:
        times: t, shape (T,).
        agents: the agents reported, shape (n_agents,).
        kind: the entry of ``moments`` that belongs to each agent, shape (n_agents,).
        moments: E[y y'] by time and type, shape (T, K, D, D).
        blocks: where "theta", "center" and "x" sit in y.
        targets: (theta_*^c, x_*^c, x_*^i) by type, shape (K, D - 1).
    """

    times: NDArray[np.int64]
    agents: NDArray[np.int64]
    kind: NDArray[np.int64]
    moments: Array
    blocks: Mapping[str, slice]
    targets: Array

    @property
    def error(self) -> Array:
        """E||x_t^i - x_*^i||^2, shape (T, n_agents)."""
        return self._squared("x")[:, self.kind]

    @property
    def central_error(self) -> Array | None:
        """E||x_t^c - x_*^c||^2, shape (T,); None where the algorithm has no centre."""
        return self._squared("center")[:, 0] if "center" in self.blocks else None

    @property
    def objective_error(self) -> Array | None:
        """E||theta_t^c - theta_*^c||^2, shape (T,); None where no objective is estimated."""
        return self._squared("theta")[:, 0] if "theta" in self.blocks else None

    @property
    def mean_x(self) -> Array:
        """E x_t^i, shape (T, n_agents, d)."""
        return self._mean("x")[:, self.kind]

    @property
    def mean_center(self) -> Array | None:
        """E x_t^c, shape (T, d); None where the algorithm has no centre."""
        return self._mean("center")[:, 0] if "center" in self.blocks else None

    @property
    def mean_theta(self) -> Array | None:
        """E theta_t^c, shape (T, d); None where no objective is estimated."""
        return self._mean("theta")[:, 0] if "theta" in self.blocks else None

    @property
    def mean_error(self) -> Array:
        """The mean over the reported agents of the mean squared error, shape (T,)."""
        return np.asarray(self.error.mean(axis=-1))

    @property
    def bias(self) -> Array:
        """E x_t^i - x_*^i without the rounding of a difference, shape (T, n_agents, d)."""
        return self.moments[:, :, self.blocks["x"], -1][:, self.kind]

    def second_moment(self, agent: int) -> Array:
        """E[y y'] of one of ``agents``, shape (T, D, D).

        Raises:
            InputError: if the agent is not among those reported.
        """
        places = np.flatnonzero(self.agents == agent)
        if places.size == 0:
            raise InputError(
                f"`agent` must be one of {self.agents.tolist()!s:.60}; found {agent!r}"
            )
        return self.moments[:, self.kind[places[0]]]

    def quadratic(self, matrix: ArrayLike) -> Array:
        """E[y' M y] for every agent, shape (T, n_agents).

        ``matrix`` is M, shape (D, D); see ``blocks`` for the order of y. M need not be symmetric.
        """
        size = self.moments.shape[-1]
        form = real_array("matrix", matrix, (size, size))
        return np.asarray(np.einsum("tkab,ab->tk", self.moments, form)[:, self.kind])

    def _squared(self, name: str) -> Array:
        where = self.blocks[name]
        return np.asarray(np.einsum("tkaa->tk", self.moments[:, :, where, where]))

    def _mean(self, name: str) -> Array:
        where = self.blocks[name]
        return np.asarray(self.moments[:, :, where, -1] + self.targets[:, where])


@dataclass(frozen=True, eq=False)
class ExactRun(ExactTrajectory):
    """A trajectory step by step, with the two averages that a diminishing step size calls for.

    Attributes:
        weighted: sum_tau w_tau E[y_tau y_tau'] / sum_tau w_tau over tau = 0..t; its ``error`` is
            the weighted average of the errors, L~_t of Lemma D.5.
        averaged: the moments of the averaged iterate sum_tau w_tau y_tau / sum_tau w_tau; its
            ``error`` is E||x~_t^i - x_*^i||^2, at most that of ``weighted`` (Jensen).
    """

    weighted: ExactTrajectory
    averaged: ExactTrajectory
