"""The algorithms as random linear maps of y = (theta, x^c, x^i, 1), one per agent and state.

Every quantity of a round is linear in y: a point is a matrix E with point = E y, and a residual is
a matrix as well, so that the formulas below read as they do in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from linsys.algorithms import AffPCL, FedAvg, Independent
from linsys.algorithms.steps import StepSizes
from linsys.moments._recursion import Source
from linsys.systems.finite import FiniteSystem
from linsys.validate import Array

Supported = AffPCL | FedAvg | Independent


@dataclass(frozen=True)
class Start:
    """Starting points: x (n, d), center (d,), theta (d,)."""

    x: Array
    center: Array
    theta: Array


@dataclass(frozen=True)
class Coordinates:
    """Where each module sits in y.

    Attributes:
        size: D.
        theta, center: rows of the modules that are learned; None where they are fixed or implied by
            the others.
        personal: rows of x^i for the agents i in y.
        start: y_0 without its last coordinate, shape (D - 1,).
        theta_point, center_point: E with theta = E y and x^c = E y, shape (d, D).
    """

    size: int
    theta: slice | None
    center: slice | None
    personal: Mapping[int, slice]
    start: Array
    theta_point: Array
    center_point: Array

    @classmethod
    def of(cls, algorithm: Supported, start: Start, personal: Sequence[int]) -> Coordinates:
        """Coordinates of ``algorithm`` with the decision variables of the agents ``personal``."""
        d = start.center.size
        modules: dict[str | int, Array] = {}
        if isinstance(algorithm, AffPCL) and algorithm.objective == "estimated":
            modules["theta"] = start.theta
        if isinstance(algorithm, FedAvg) or (
            isinstance(algorithm, AffPCL) and algorithm.center == "explicit"
        ):
            modules["center"] = start.center
        modules.update((i, start.x[i]) for i in personal)
        rows = {name: slice(k * d, (k + 1) * d) for k, name in enumerate(modules)}
        size = len(modules) * d + 1
        every = np.eye(size)
        fixed = np.zeros((d, size))
        fixed[:, -1] = start.theta
        average = np.mean([every[rows[i]] for i in personal] or [fixed], axis=0)
        return cls(
            size=size,
            theta=rows.get("theta"),
            center=rows.get("center"),
            personal={i: rows[i] for i in personal},
            start=np.concatenate(list(modules.values())),
            theta_point=every[rows["theta"]] if "theta" in rows else fixed,
            center_point=every[rows["center"]] if "center" in rows else average,
        )

    def point(self, i: int) -> Array:
        """E with x^i = E y; the centre where agent i has no decision variable of its own."""
        return np.eye(self.size)[self.personal[i]] if i in self.personal else self.center_point


def agent_types(system: FiniteSystem) -> list[int]:
    """A number for each agent, the same for agents with the same mu and b."""
    numbers: dict[Hashable, int] = {}
    keys = [(system.mu[i].tobytes(), system.b[i].tobytes()) for i in range(system.n)]
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def group(agents: Iterable[int], key: Callable[[int], Hashable]) -> list[list[int]]:
    """Agents with equal ``key`` together, in the order of their first member."""
    groups: dict[Hashable, list[int]] = {}
    for i in agents:
        groups.setdefault(key(i), []).append(i)
    return list(groups.values())


def sources(
    system: FiniteSystem,
    algorithm: Supported,
    sizes: StepSizes,
    at: Coordinates,
    types: Sequence[int],
) -> list[Source]:
    """The agents' independent contributions to N.

    Agents of one type, as told by ``types``, count together unless they are in ``at``. ``sizes``
    holds the multipliers of the step size, its ``x`` in shape (n,).
    """
    shared, constants = _shares(system, algorithm, sizes, at)

    def source(j: int, count: int) -> Source:
        maps = shared.copy()
        for rows, weight in constants:
            maps[:, rows, -1] -= weight * system.b[j]
        if j in at.personal:
            maps[:, at.personal[j]] += sizes.x[j] * _own(system, algorithm, at, j)
        return Source(system.mu[j], maps, count)

    if isinstance(algorithm, Independent):
        return [source(i, 1) for i in at.personal]
    others = group((j for j in range(system.n) if j not in at.personal), types.__getitem__)
    return [source(i, 1) for i in at.personal] + [source(js[0], len(js)) for js in others]


def _shares(
    system: FiniteSystem, algorithm: Supported, sizes: StepSizes, at: Coordinates
) -> tuple[Array, list[tuple[slice, float]]]:
    """An agent's share of the averages: maps (S, D, D) common to all, and where its own b enters.

    The second result lists rows and weights: agent j subtracts weight * b^j(s) there.
    """
    share = 1.0 / system.n
    maps = np.zeros((system.n_states, at.size, at.size))
    constants: list[tuple[slice, float]] = []
    if isinstance(algorithm, Independent):
        return maps, constants
    residual = system.A @ at.center_point
    central_residual = residual - system.Phi @ at.theta_point

    def add(rows: slice, weight: float, direction: Array, with_b: bool) -> None:
        maps[:, rows] = weight * direction
        if with_b:
            constants.append((rows, weight))

    if isinstance(algorithm, FedAvg):
        if at.center is not None:
            add(at.center, sizes.center * share, residual, True)
        return maps, constants
    if at.theta is not None:
        add(at.theta, sizes.objective * share, system.Phi @ at.theta_point, True)
    if at.center is not None:
        by_objective = algorithm.central_direction == "objective"
        direction = residual if by_objective else central_residual
        add(at.center, sizes.center * share, direction, by_objective)
    for i, rows in at.personal.items():
        if algorithm.correction == "bias":
            add(rows, sizes.x[i] * share, residual, True)
        elif algorithm.ratio == "known":
            add(rows, sizes.x[i] * share, system.rho[i][:, None, None] * central_residual, False)
        else:
            add(rows, sizes.x[i] * share, central_residual, False)
    return maps, constants


def _own(system: FiniteSystem, algorithm: Supported, at: Coordinates, i: int) -> Array:
    """g^i(x^i), less h^i(x^c, theta) for AffPCL, as a map (S, d, D)."""
    direction = system.A @ at.point(i)
    direction[..., -1] -= system.b[i]
    if isinstance(algorithm, AffPCL):
        direction -= system.A @ at.center_point - system.Phi @ at.theta_point
    return direction
