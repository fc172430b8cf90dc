"""Which recursion each agent's error follows, and how it is read off.

AffPCL with an explicit centre, FedAvg and independent learning close on one agent's own
coordinates, so their size does not grow with n; the implicit centre x^0 = (1/n) sum_i x^i closes on
the coordinates of all agents only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from linsys.algorithms import AffPCL, FedAvg, Independent
from linsys.algorithms.steps import StepSizes
from linsys.moments._maps import Coordinates, Start, Supported, agent_types, group, sources
from linsys.moments._recursion import MomentRecursion
from linsys.systems.finite import FiniteSystem
from linsys.validate import Array


@dataclass(frozen=True)
class Report:
    """How one agent (or every agent of one type) is read off a view.

    Attributes:
        matrix: R with R y = (theta - theta_*^c, x^c - x_*^c, x^i - x_*^i, 1), shape (r + 1, D).
        target: (theta_*^c, x_*^c, x_*^i), shape (r,).
    """

    matrix: Array
    target: Array


@dataclass(frozen=True)
class View:
    """A closed recursion, the half-vectorised moments it starts from, and its readers."""

    recursion: MomentRecursion
    start: Array
    reports: tuple[Report, ...]


def report_blocks(algorithm: Supported, d: int) -> dict[str, slice]:
    """Where theta, center and x sit in a reported vector, as far as the algorithm has them."""
    names = ["x"] if isinstance(algorithm, Independent) else ["center", "x"]
    if isinstance(algorithm, AffPCL) and algorithm.objective == "estimated":
        names.insert(0, "theta")
    return {name: slice(k * d, (k + 1) * d) for k, name in enumerate(names)}


def build_views(
    system: FiniteSystem,
    algorithm: Supported,
    sizes: StepSizes,
    start: Start,
    agents: Sequence[int],
) -> tuple[list[View], list[int]]:
    """Return the views and, for each of ``agents``, the number of its report over all views.

    ``sizes`` holds the modules' multipliers of the step size, its ``x`` in shape (n,). Agents with
    the same mu, b, start and multiplier share one report.
    """
    types = agent_types(system)

    def view(personal: Sequence[int], readers: Sequence[int]) -> View:
        at = Coordinates.of(algorithm, start, personal)
        recursion = MomentRecursion(sources(system, algorithm, sizes, at, types))
        reports = tuple(_report(system, algorithm, recursion, at, i) for i in readers)
        return View(recursion, recursion.start(at.start), reports)

    groups = group(agents, lambda i: (types[i], start.x[i].tobytes(), float(sizes.x[i])))
    firsts = [members[0] for members in groups]
    where = {i: k for k, members in enumerate(groups) for i in members}
    if isinstance(algorithm, AffPCL) and algorithm.center == "implicit":
        views = [view(range(system.n), firsts)]
    elif isinstance(algorithm, FedAvg):
        views = [view((), firsts)]
    else:
        views = [view((i,), (i,)) for i in firsts]
    return views, [where[i] for i in agents]


def _report(
    system: FiniteSystem,
    algorithm: Supported,
    recursion: MomentRecursion,
    at: Coordinates,
    i: int,
) -> Report:
    points = {"theta": at.theta_point, "center": at.center_point, "x": at.point(i)}
    values = {name: e[:, :-1] @ recursion.fixed + e[:, -1] for name, e in points.items()}
    targets = {
        "theta": system.theta_star_central,
        "center": system.x_star_central,
        "x": system.x_star[i],
    }
    blocks = report_blocks(algorithm, system.d)
    matrix = np.concatenate([points[name] for name in blocks])
    target = np.concatenate([targets[name] for name in blocks])
    largest = np.max(
        [np.abs(values["center"])]
        + [np.abs(recursion.fixed[rows]) for rows in at.personal.values()],
        axis=0,
    )
    offset = np.zeros(target.size)
    for name, rows in blocks.items():
        if not _is_target(system, name, i, values[name], largest, values["theta"], recursion.size):
            offset[rows] = values[name] - targets[name]
    report = np.zeros((target.size + 1, recursion.size))
    report[:-1] = matrix
    report[:-1, -1] = offset
    report[-1, -1] = 1.0
    return Report(report, target)


def _is_target(
    system: FiniteSystem, name: str, i: int, point: Array, x: Array, theta: Array, size: int
) -> bool:
    """Whether ``point`` is the target of block ``name`` up to the rounding of its computation.

    The fixed point and the target are often one point, solved for twice, and with an
    ill-conditioned matrix two solutions of one equation may lie far apart. So the equation decides:
    a residual is no bias if rounding errors of A(s), Phi(s) and b(s) explain it.

    Args:
        system: the system.
        name: theta, center or x.
        i: the agent of x.
        point: the fixed point's block, shape (d,).
        x: size of the fixed point's decision variables, of the centre and of all agents, (d,).
        theta: its objective weights, shape (d,).
        size: D.
    """
    match name:
        case "theta":
            residual = system.Phi_bar0 @ point - system.b_bar0
        case "center":
            residual = system.A_bar0 @ point - system.b_bar0
        case _:
            residual = system.A_bar[i] @ point - system.b_bar[i]
    # Sizes of the terms that were summed up, for the environments that may enter the equation.
    weights = system.mu0 if name != "x" else np.maximum(system.mu[i], system.mu0)
    terms: Array = weights @ (np.abs(system.Phi) @ np.abs(theta))
    terms += np.einsum("ns,nsk->nk", system.mu, np.abs(system.b)).mean(axis=0)
    if name == "x":
        terms += system.mu[i] @ np.abs(system.b[i])
    if name != "theta":
        terms += weights @ (np.abs(system.A) @ x)
    operations = system.n_states + system.n + size
    bound = operations * np.finfo(np.float64).eps * terms
    return bool((np.abs(residual) <= bound).all())
