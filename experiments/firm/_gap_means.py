"""What the gap is on runs, by the compiled loop where it applies.

Runs with two objectives are those of :mod:`experiments.firm._loops`; with others they are those
of :mod:`mgda.runs`, to which the tests compare the loop.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.firm._gap_runs import Curve, FloorConfig, SteeredConfig
from experiments.firm._gaps import Floor
from experiments.firm._loops import gap_runs
from linsys.validate import Array, InputError, increasing_times
from mgda.actor_critic import ExactGradients
from mgda.firm import FIRM
from mgda.momdp import MOMDP
from mgda.runs import run
from mgda.trajectories import Clients

__all__ = ["exact_gaps", "floor_mean", "sampled_gaps"]

#: Objectives that the loop is made for.
_OBJECTIVES = 2


def floor_mean(
    config: FloorConfig, floor: Floor, chosen: Curve, instance: int, clients: int, B: int
) -> Array:
    """Mean of ||grad J lambda_t||^2 over the window, (R,), as :meth:`FloorConfig.measure`."""
    if config.objectives != _OBJECTIVES:
        return config.measure(floor, chosen, instance, clients, B)
    length = config.steps(floor, chosen, config.relax)
    start = floor.biased if chosen.sampling == "markov" else floor.theta
    times = [length - 1, 3 * length - 1]
    _, means = sampled_gaps(config, floor, chosen, instance, clients, B, start, times)
    return np.asarray(1.5 * means[1] - 0.5 * means[0])


def sampled_gaps(
    config: SteeredConfig,
    floor: Floor,
    chosen: Curve,
    instance: int,
    clients: int,
    B: int,
    start: Array,
    times: ArrayLike,
) -> tuple[Array, Array]:
    """||grad J lambda_t||^2 of runs from ``start`` at ``times``, and its mean up to there, (n, R).

    They are the ``weighted_gap`` of :meth:`SteeredConfig.trace`.

    Raises:
        InputError: times that do not increase, steps that overflow.
    """
    wanted = increasing_times(times)
    if config.objectives != _OBJECTIVES:
        last = int(wanted[-1]) + 1
        trace = config.trace(floor, chosen, instance, clients, B, start, last, wanted)
        return trace.values["weighted_gap"], trace.means["weighted_gap"]
    return _gaps(
        floor.momdp,
        np.broadcast_to(start, (config.replicates, start.size)),
        wanted,
        alpha=config.step_size(floor, chosen),
        beta=config.beta,
        eta=chosen.eta,
        restarted=chosen.sampling == "restarted",
        seed=config.derive("samples", instance),
        clients=clients,
        B=B,
    )


def exact_gaps(
    momdp: MOMDP, theta: Array, times: ArrayLike, *, alpha: float, beta: float, eta: float | str
) -> tuple[Array, Array]:
    """||grad J lambda_t||^2 of one client with exact gradients, from theta (R, d), and its mean."""
    wanted = increasing_times(times)
    if momdp.M == _OBJECTIVES:
        return _gaps(momdp, theta, wanted, alpha=alpha, beta=beta, eta=eta)
    firm = FIRM(alpha=alpha, beta=beta, normalise=False, eta=eta)
    oracle, last = ExactGradients(Clients(momdp, 1)), int(wanted[-1]) + 1
    trace = run(firm, oracle, theta[:, None], last, times=wanted, averages=True)
    return trace.values["weighted_gap"], trace.means["weighted_gap"]


def _gaps(
    momdp: MOMDP,
    theta: Array,
    times: NDArray[np.int64],
    *,
    alpha: float,
    beta: float,
    eta: float | str,
    restarted: bool = False,
    seed: int = 0,
    clients: int = 1,
    B: int = 0,
) -> tuple[Array, Array]:
    gaps, means = np.empty((2, len(times), len(theta)))
    # copies, of one layout for all: another one would be compiled once more
    given = (theta, momdp.x, momdp.P, momdp.r, momdp.mean_r, momdp.start)
    gap_runs(
        *(np.array(array, dtype=np.float64, order="C") for array in given),
        momdp.gamma,
        float(alpha),
        float(beta),
        -1.0 if isinstance(eta, str) else float(eta),
        1.0 - momdp.gamma if restarted else 0.0,
        np.array([seed & (2**64 - 1), seed >> 64], dtype=np.uint64),
        clients,
        B,
        np.array(times),  # as it is read-only, it would be compiled once more
        gaps,
        means,
    )
    if not np.isfinite(means).all():
        raise InputError("a step must not overflow; found infinity or NaN: lower `step`")
    return gaps, means
