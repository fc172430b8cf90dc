"""The public face of the kernels: the same algorithm objects, run by fused loops."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.algorithms import (
    AffPCL,
    Clustered,
    Ditto,
    FedAvg,
    FineTuning,
    Independent,
    PFedMe,
    Steps,
)
from linsys.kernels import _methods as m
from linsys.kernels._systems import system_arrays
from linsys.kernels._tiles import padded
from linsys.kernels.random import REPLICATES, SEEDS, lane_states
from linsys.kernels.simd import LANES
from linsys.systems import FiniteSystem, GaussianSystem
from linsys.validate import Array, InputError, check_integer, increasing_times, real_array

__all__ = ["Trajectory", "draw", "simulate"]

#: Squared errors of all replicates, times and agents are returned at once.
MOST_BYTES = 8 << 30


@dataclass(frozen=True)
class Trajectory:
    """Squared errors of R replicates at T times.

    Args:
        times: rounds, shape (T,).
        error: ||x_t^i - x_*^i||^2, shape (R, T, n).
        central_error: ||x_t^c - x_*^c||^2, shape (R, T), or None where the method has no central
            variable.
        objective_error: ||theta_t^c - theta_*^c||^2, shape (R, T), or None where nothing is
            estimated.
    """

    times: NDArray[np.int64]
    error: Array
    central_error: Array | None = None
    objective_error: Array | None = None

    @property
    def mean_error(self) -> Array:
        """MSE^0, the mean over agents of the squared error, shape (R, T)."""
        return np.asarray(self.error.mean(axis=-1))


def _code(algorithm: Any) -> m.MethodCode:
    kind, switch, regularization, clusters = m.INDEPENDENT, 0, 0.0, 0
    flags = (False, False, False, False, False)
    match algorithm:
        case AffPCL(ratio=str()):
            kind = m.AFFPCL
            flags = (
                algorithm.correction == "importance",
                algorithm.ratio == "known",
                algorithm.center == "implicit",
                algorithm.central_direction == "estimate",
                algorithm.objective == "estimated",
            )
        case Independent():
            kind = m.INDEPENDENT
        case FedAvg():
            kind = m.FEDAVG
        case FineTuning():
            kind, switch = m.FINETUNE, algorithm.switch
        case PFedMe():
            kind, regularization = m.PFEDME, algorithm.regularization
        case Ditto():
            kind, regularization = m.DITTO, algorithm.regularization
        case Clustered():
            kind, clusters = m.CLUSTERED, algorithm.clusters
        case _:
            raise InputError(
                "`algorithm` must be AffPCL with a known or no density ratio, Independent, FedAvg, "
                "FineTuning, PFedMe, Ditto or Clustered to run in a kernel; "
                f"found {algorithm!r}: use linsys.rounds"
            )
    return m.MethodCode(kind, switch, float(regularization), clusters, *flags)


def _stream(seed: Any, first_replicate: Any, replicates: int) -> tuple[int, int]:
    """Seed and first replicate, in the range where no two of them share their random numbers."""
    last = REPLICATES - (replicates + LANES)
    return (
        check_integer("seed", seed, high=SEEDS - 1),
        check_integer("first_replicate", first_replicate, high=last),
    )


@lru_cache(maxsize=8)
def _spectra(system: Any) -> tuple[Any, Any]:
    """Eigenvalues of the mean matrices of agents and centre; kept, as runs share their system."""
    return np.linalg.eigvals(system.A_bar), np.linalg.eigvals(system.A_bar0[None])


def _check_mean(system: Any, code: m.MethodCode, steps: Steps) -> None:
    """Refuse a constant step with which the mean of some iterate cannot converge.

    The mean follows e <- (I - alpha (Abar + r I)) e and needs alpha < 2 Re(lambda) / |lambda|^2 for
    every eigenvalue. Mean-square stability needs less still: :mod:`linsys.stability` has its limit.
    """
    if steps.slope > 0:
        return  # diminishing steps are small enough in the end
    agents, centre = _spectra(system)
    alpha = steps.base(0)
    personal = alpha * steps.multipliers(system.n)
    recursions = []
    if code.kind not in (m.FEDAVG, m.CLUSTERED):
        recursions.append(("agent", agents, personal, code.regularization))
    elif code.kind == m.CLUSTERED:
        recursions.append(("agent", agents, np.full(system.n, alpha * steps.center), 0.0))
    if code.kind in (m.FEDAVG, m.FINETUNE, m.DITTO, m.AFFPCL) and not code.implicit:
        center = np.array([alpha * steps.center])
        recursions.append(("the centre", centre, center, 0.0))
    for name, spectrum, sizes, regularization in recursions:
        eigenvalues = spectrum + regularization
        radii = np.abs(1.0 - sizes[:, None] * eigenvalues).max(axis=1)
        worst = int(radii.argmax())
        if radii[worst] >= 1.0 and sizes[worst] > 0.0:
            limit = (2.0 * eigenvalues[worst].real / np.abs(eigenvalues[worst]) ** 2).min()
            who = f"agent {worst}" if name == "agent" else name
            raise InputError(
                f"step size beyond stability: {who} must have a step below {limit:.6g}; found "
                f"{sizes[worst]:.6g}, with which the mean iteration has spectral radius "
                f"max|1 - alpha lambda| = {radii[worst]:.6g} >= 1 (allow_unstable=True runs it)"
            )


def simulate(
    system: GaussianSystem | FiniteSystem,
    algorithm: Any,
    *,
    steps: Steps | float,
    times: ArrayLike,
    replicates: int,
    seed: int,
    threads: int = 1,
    first_replicate: int = 0,
    x0: ArrayLike | None = None,
    theta0: ArrayLike | None = None,
    allow_unstable: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Trajectory:
    """Run independent replicates; samples are never stored, memory does not depend on the horizon.

    Replicate r depends on (seed, r) only: results are bit-identical for any number of threads and
    any split into calls with different ``first_replicate``.

    Args:
        system: a Gaussian or a finite-state system.
        algorithm: an object of :mod:`linsys.algorithms`; AffPCL with an estimated density ratio has
            no kernel.
        steps: step sizes, or a number for a constant step.
        times: strictly increasing rounds at which errors are recorded; 0 is the start.
        replicates: R >= 1.
        seed: at least 0, below 2^128.
        threads: threads over blocks of eight replicates.
        first_replicate: index of the first replicate; all indices stay below 2^62.
        x0: start of the agents, shape (n, d); zero by default.
        theta0: start of theta^c, shape (d,); zero by default, theta_*^c where the algorithm knows
            the objective.
        allow_unstable: run also with a constant step beyond the stability of the mean iteration.
        progress: called with the number of replicates just finished.

    Returns:
        A :class:`Trajectory`.

    Raises:
        InputError: unusable arguments, more results than fit into memory, a constant step with
            which the mean iteration diverges (with the bound that is broken), or iterates that
            overflow.

    >>> from linsys import sample_gaussian_system
    >>> from linsys.algorithms import AffPCL
    >>> system = sample_gaussian_system(0, n=4, d=2, delta_env=0.1, delta_obj=0.1)
    >>> run = simulate(system, AffPCL(), steps=0.01, times=[0, 60], replicates=10, seed=1)
    >>> run.error.shape, bool(run.mean_error[:, 1].mean() < 0.1 * run.mean_error[:, 0].mean())
    ((10, 2, 4), True)
    """
    code = _code(algorithm)
    arrays, basis, held = system_arrays(system)
    steps = steps if isinstance(steps, Steps) else Steps.constant(steps)
    recorded = increasing_times(times)
    replicates = check_integer("replicates", replicates, low=1)
    seed, first = _stream(seed, first_replicate, replicates)
    threads = check_integer("threads", threads, low=1)
    n, d = system.n, system.d
    size = replicates * recorded.size * (n + 2) * 8
    if size > MOST_BYTES:
        raise InputError(
            f"results must fit into {MOST_BYTES >> 30} GiB; found {size / 2**30:.3g} GiB for "
            f"{replicates} replicates, {recorded.size} times and {n} agents: record fewer times, "
            "or run parts with `first_replicate` and keep their means"
        )
    if not allow_unstable:
        _check_mean(system, code, steps)
    start = np.zeros((n, d)) if x0 is None else real_array("x0", x0, (n, d))
    if theta0 is None:
        known = isinstance(algorithm, AffPCL) and algorithm.objective == "known"
        theta = system.theta_star_central if known else np.zeros(d)
    else:
        theta = real_array("theta0", theta0, (d,))
    models = np.zeros((1, d))
    if isinstance(algorithm, Clustered):
        models = start.mean(axis=0) + algorithm.offsets(d)
    # Agents that fill up a tile start at zero and make no steps.
    scale, first_x = np.zeros(padded(n)), np.zeros((padded(n), d))
    scale[:n], first_x[:n] = steps.multipliers(n), start
    step_code = m.StepCode(
        float(steps.numerator),
        float(steps.offset),
        float(steps.slope),
        scale.ctypes.data,
        float(steps.center),
        float(steps.objective),
    )
    solutions = np.vstack([system.x_star, system.x_star_central, system.theta_star_central])
    inputs = [np.ascontiguousarray(v @ basis) for v in (first_x, theta, models, solutions)]
    addresses = [v.ctypes.data for v in inputs]
    offsets = range(0, replicates, LANES)
    generators = lane_states(seed, first, len(offsets))
    free: SimpleQueue[Any] = SimpleQueue()  # new memory for every block would cost page faults
    for _ in range(min(threads, len(offsets))):
        free.put(m.buffers(n, d, code.clusters))

    def run(at: int) -> Array:
        errors = np.empty((recorded.size, n + 2, LANES))
        memory = free.get()
        rng = generators[at // LANES].ctypes.data
        m.block(arrays, code, step_code, memory[0], recorded, rng, *addresses, errors.ctypes.data)
        free.put(memory)
        if progress is not None:
            progress(min(LANES, replicates - at))
        return errors

    if threads == 1 or len(offsets) == 1:
        blocks = [run(at) for at in offsets]
    else:
        with ThreadPoolExecutor(threads) as pool:
            blocks = list(pool.map(run, offsets))
    del held
    # (blocks, T, n + 2, lanes) -> (R, T, n + 2)
    errors = np.moveaxis(np.stack(blocks), -1, 1).reshape(-1, recorded.size, n + 2)[:replicates]
    if not np.isfinite(errors).all():
        bad = np.argwhere(~np.isfinite(errors))
        raise InputError(
            "`steps` must keep the iterates bounded; found an overflow by round "
            f"{recorded[bad[:, 1].min()]} with a first step of {steps.base(0):g}: lower it; "
            "linsys.stability gives the largest stable one"
        )
    center_kinds = (m.FEDAVG, m.PFEDME, m.DITTO)
    has_center = code.kind in center_kinds or (code.kind == m.AFFPCL and not code.implicit)
    return Trajectory(
        recorded,
        np.ascontiguousarray(errors[..., :n]),
        errors[..., n].copy() if has_center else None,
        errors[..., n + 1].copy() if code.kind == m.AFFPCL and code.learn_objective else None,
    )


def draw(
    system: GaussianSystem | FiniteSystem,
    *,
    rounds: int,
    replicates: int,
    seed: int,
    first_replicate: int = 0,
) -> Any:
    """The samples that :func:`simulate` uses: (rounds, R, n, d), or state numbers (rounds, R, n).

    Raises:
        InputError: a system without a kernel, or counts that are no whole numbers.

    >>> from linsys import sample_gaussian_system
    >>> draw(sample_gaussian_system(0, n=3, d=2), rounds=4, replicates=5, seed=1).shape
    (4, 5, 3, 2)
    """
    rounds, replicates = (
        check_integer("rounds", rounds),
        check_integer("replicates", replicates, low=1),
    )
    seed, first = _stream(seed, first_replicate, replicates)
    arrays, basis, held = system_arrays(system)
    n, d, finite = system.n, system.d, isinstance(system, FiniteSystem)
    work, memory = m.buffers(n, d, 0)
    parts = []
    for rng in lane_states(seed, first, -(-replicates // LANES)):
        vectors = np.empty((rounds, n * d, LANES))
        numbers = np.empty((rounds, n, LANES), dtype=np.uint64)
        m.drawn(arrays, work, rng.ctypes.data, rounds, vectors.ctypes.data, numbers.ctypes.data)
        parts.append(np.moveaxis(numbers if finite else vectors, -1, 1))
    del memory, held
    states = np.concatenate(parts, axis=1)[:, :replicates]
    if finite:
        return states.astype(np.int64)
    return states.reshape(rounds, replicates, system.n, system.d) @ basis.T
