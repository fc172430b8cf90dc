"""The entry to the exact engine: a system and an algorithm in, all inputs checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.algorithms import AffPCL, FedAvg, Independent
from linsys.algorithms.steps import Steps
from linsys.moments._engine import ExactMoments
from linsys.moments._maps import Start, Supported
from linsys.systems.finite import FiniteSystem
from linsys.validate import Array, InputError, check_integer, real_array

#: Largest D = dim(y): an operator on second moments has D^4 coefficients while it is built.
MAX_SIZE = 64


def exact_moments(
    system: FiniteSystem,
    algorithm: Supported,
    *,
    steps: Steps | None = None,
    agents: Sequence[int] | None = None,
    x0: ArrayLike | None = None,
    theta0: ArrayLike | None = None,
) -> ExactMoments:
    """Prepare the exact error moments of ``algorithm`` on ``system`` with independent samples.

    Covers the rounds that are linear, with one local step and all agents taking part:
    :class:`~linsys.algorithms.AffPCL` in the forms (5) and (8), with an explicit centre by (22-1)
    or (22-2) or the implicit one, an estimated or a known objective, a known density ratio or none;
    :class:`~linsys.algorithms.FedAvg` (4); :class:`~linsys.algorithms.Independent`.

    Cost: with D coordinates, 3 d + 1 for an explicit centre, the set-up takes O(D^4) memory and
    time, and each different step size O(D^6) once for every binary digit of the largest time. At
    the largest size, d = 20, that is half a gigabyte, two seconds for the set-up and eight for one
    ``at``; at d = 5 milliseconds.

    Args:
        system: n agents on S states, dimension d.
        algorithm: what they run.
        steps: multipliers of the modules' step sizes and default step sizes; multipliers of one if
            left out.
        agents: the agents to report, default all. Those of one type (mu, b, start, multiplier) are
            computed once.
        x0: start, shape (d,) or (n, d), default 0; the centre starts at its mean over the agents.
        theta0: start of the objective weights (d,), default 0; for a known objective its weights,
            default theta_*^c.

    Raises:
        InputError: a system, algorithm, agent or start that does not fit, or coordinates beyond 64
            dimensions.

    >>> import numpy as np
    >>> from linsys import FiniteSystem
    >>> from linsys.algorithms import AffPCL
    >>> from linsys.moments import exact_moments
    >>> system = FiniteSystem.from_objectives(
    ...     A=np.array([[[1.0]], [[3.0]]]), Phi=np.ones((2, 1, 1)),
    ...     theta=np.array([[1.0], [1.2]]), mu=np.array([[0.5, 0.5], [0.4, 0.6]]))
    >>> engine = exact_moments(system, AffPCL())
    >>> engine.at([0, 10, 10**9], alpha=1e-8).error
    array([[2.50000000e-01, 2.97520661e-01],
           [2.49999900e-01, 2.97520530e-01],
           [3.19428343e-10, 3.18601978e-10]])
    """
    if not isinstance(system, FiniteSystem):
        raise InputError(f"`system` must be a FiniteSystem; found {type(system).__name__}")
    if not isinstance(algorithm, (AffPCL, FedAvg, Independent)):
        raise InputError(
            f"`algorithm` must be AffPCL, FedAvg or Independent; found {type(algorithm).__name__}"
        )
    if isinstance(algorithm, AffPCL) and not isinstance(algorithm.ratio, str):
        raise InputError(
            "`ratio` must be 'known' or 'none' (an estimated one is not linear); found an estimator"
        )
    if steps is not None and not isinstance(steps, Steps):
        raise InputError(f"`steps` must be Steps or None; found {type(steps).__name__}")
    n, d = system.n, system.d
    known = isinstance(algorithm, AffPCL) and algorithm.objective == "known"
    x = np.zeros((n, d)) if x0 is None else _rows("x0", x0, n, d)
    if theta0 is None:
        theta = system.theta_star_central if known else np.zeros(d)
    else:
        theta = real_array("theta0", theta0, (d,))
    implicit = isinstance(algorithm, AffPCL) and algorithm.center == "implicit"
    size = (n + 1 if implicit else 3) * d + 1
    if size > MAX_SIZE:
        raise InputError(f"`system` must give at most {MAX_SIZE} coordinates; found {size}")
    return ExactMoments(
        system, algorithm, steps, Start(x, x.mean(axis=0), theta), _agents(agents, n)
    )


def _rows(name: str, value: Any, n: int, d: int) -> Array:
    shape: tuple[int, ...] = (d,) if np.ndim(value) == 1 else (n, d)
    return np.ascontiguousarray(np.broadcast_to(real_array(name, value, shape), (n, d)))


def _agents(agents: Sequence[int] | None, n: int) -> NDArray[np.int64]:
    if agents is None:
        return np.arange(n, dtype=np.int64)
    try:
        given = list(agents)
    except TypeError:
        raise InputError(f"`agents` must be a list of agents or None; found {agents!r}") from None
    chosen = [check_integer("agents", i, high=n - 1) for i in given]
    if not chosen:
        raise InputError("`agents` must name at least one agent; found none")
    return np.asarray(chosen, dtype=np.int64)
