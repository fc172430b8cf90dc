"""What the fused loops ask of a system: samples, A(s), Phi(s), b(s) and density ratios.

The two systems are tuples of arrays; numba picks the body by the tuple's type, so the methods in
``_methods`` are written once.
"""

from __future__ import annotations

import functools
from typing import Any

from numba.core.extending import overload

from linsys.compiled import unique_name
from linsys.kernels import _finite, _gaussian
from linsys.kernels._finite import FiniteArrays, finite_arrays
from linsys.kernels._gaussian_arrays import GaussianArrays, gaussian_arrays
from linsys.kernels._parts import OPTIONS
from linsys.systems import FiniteSystem, GaussianSystem
from linsys.validate import Array, InputError

__all__ = [
    "agents",
    "apply_A",
    "correct_agents",
    "density_weights",
    "draw_tile",
    "objective",
    "prepare_A",
    "prepare_center",
    "system_arrays",
]


def system_arrays(
    system: GaussianSystem | FiniteSystem,
) -> tuple[GaussianArrays | FiniteArrays, Array, list[Array]]:
    """A system's arrays, the basis of its vectors, and what keeps the memory of the arrays."""
    if isinstance(system, GaussianSystem):
        return gaussian_arrays(system)
    if isinstance(system, FiniteSystem):
        return finite_arrays(system)
    raise InputError(
        "`system` must be a GaussianSystem or a FiniteSystem to run in a kernel; found "
        f"{type(system).__name__}: use linsys.rounds"
    )


def _by_system(gaussian: Any, finite: Any) -> Any:
    """A function whose body numba picks by the type of its first argument, the system."""
    bodies = unique_name(gaussian), unique_name(finite)

    @functools.wraps(gaussian)
    def stub(*args: Any) -> Any:
        """Called from compiled code only."""

    @functools.wraps(gaussian)
    def resolve(system: Any, *rest: Any) -> Any:
        return bodies[system.instance_class is FiniteArrays]

    overload(stub, jit_options=OPTIONS)(resolve)
    return stub


#: (n, d)
agents = _by_system(_gaussian.agents, _finite.agents)
#: Draw s^j ~ mu^j for the tile of agents from j on, to the rows of ``states`` from the first on.
draw_tile = _by_system(_gaussian.draw_tile, _finite.draw_tile)
#: y <- what all agents share of A(s) x; then ``apply_A`` finishes it for agent j's sample.
prepare_A = _by_system(_gaussian.prepare_A, _finite.prepare_A)
apply_A = _by_system(_gaussian.apply_A, _finite.apply_A)
#: out <- b^j(s^j)
objective = _by_system(_gaussian.objective, _finite.objective)
#: shared <- what all agents' h^j(x^c, theta) have in common, for ``correct_agents``; total, more <-
#: what their sums start from
prepare_center = _by_system(_gaussian.prepare_center, _finite.prepare_center)
#: For the tile of agents from j on, whose samples ``states`` begins with: x^j <- x^j - alpha_j
#: (g^j(x^j) - h^j); h[j] <- scale[j] h^j; total <- total + h^j; more <- more + Phi(s^j) theta - b^j
correct_agents = _by_system(_gaussian.correct_agents, _finite.correct_agents)
#: weights[k // 5, j, k % 5] scale[j] = rho^k(s^j) / n for the same tile of agents j
density_weights = _by_system(_gaussian.density_weights, _finite.density_weights)
