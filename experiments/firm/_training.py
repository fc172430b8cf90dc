"""Rewards and weights of runs that train actors and critics, by the compiled loop where it applies.

It applies to FIRM with plain steps and to fixed weights, with two objectives. What the loop does
not know, such as FedCMOO, goes through :mod:`mgda.runs`, to which the tests compare the loop.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.firm._loops import training_runs
from linsys.validate import Array, InputError, increasing_times
from mgda.actor_critic import ActorCritic
from mgda.federated import Federated, as_numpy
from mgda.firm import FIRM
from mgda.runs import MeanReturn, iterate
from mgda.scalarization import LinearScalarization
from mgda.simplex import regulariser

__all__ = ["stepwise", "trained"]

#: Objectives and samplings that the loop is made for.
_OBJECTIVES, _SAMPLINGS = 2, ("markov", "restarted")


def trained(algorithm: Federated, oracle: ActorCritic, times: ArrayLike) -> tuple[Array, Array]:
    """Returns (n, R, M), from the first term on, and weights (n, R, C, M) at increasing ``times``.

    Runs start at theta = 0.

    Raises:
        InputError: times that do not increase, steps that overflow.
    """
    if _is_known(algorithm) and _is_known_oracle(oracle):
        return _compiled(algorithm, oracle, increasing_times(times))
    return stepwise(algorithm, oracle, times)


def _is_known(algorithm: Federated) -> bool:
    """Whether the loop is made for these steps."""
    plain = algorithm.optimizer == "sgd" and algorithm.restart == "aggregation"
    return plain and isinstance(algorithm, FIRM | LinearScalarization)


def _is_known_oracle(oracle: ActorCritic) -> bool:
    """Whether the loop is made for these chains and critics."""
    from_zero = oracle.start == oracle.first_replicate == 0
    counted = oracle.B is not None and oracle.N is not None
    tabular = np.array_equal(oracle.critic.phi, np.eye(oracle.clients.model.n_states))
    two = oracle.clients.model.M == _OBJECTIVES
    return two and from_zero and counted and tabular and oracle.sampling in _SAMPLINGS


def stepwise(algorithm: Federated, oracle: ActorCritic, times: ArrayLike) -> tuple[Array, Array]:
    """Returns and weights as of :func:`trained`, of any algorithm, step by step."""
    clients, wanted = oracle.clients, increasing_times(times)
    objectives, due = MeanReturn(clients, first=0), frozenset(wanted.tolist())
    start = np.zeros((oracle.replicates, len(clients), clients.model.d))
    returns, weights = [], []
    for before, _, after in iterate(
        algorithm, oracle, algorithm.init(start, oracle), int(wanted[-1]) + 1
    ):
        if before.t in due:
            assert after.weights is not None
            returns.append(objectives.J(as_numpy(before.theta).mean(axis=-2)))
            weights.append(after.weights)
    return np.array(returns), np.array(weights)


def _compiled(
    algorithm: Federated, oracle: ActorCritic, times: NDArray[np.int64]
) -> tuple[Array, Array]:
    clients, critics = oracle.clients, oracle.init().w
    R, C, model = oracle.replicates, len(clients), clients.model
    distinct = list({id(m): m for m in clients.momdps}.values())
    owns = np.array([next(k for k, m in enumerate(distinct) if m is own) for own in clients.momdps])
    program, normalise, eta, fixed = np.zeros(_OBJECTIVES), False, 1.0, -1.0
    if isinstance(algorithm, FIRM):
        program = np.diag(regulariser(_OBJECTIVES, algorithm.beta, algorithm.preference))
        normalise = algorithm.normalise
        eta = -1.0 if isinstance(algorithm.eta, str) else float(algorithm.eta)
    elif isinstance(algorithm, LinearScalarization):
        fixed = float(algorithm.weights[0])
    seed = oracle.seed
    weights, returns = np.empty((len(times), R, C)), np.zeros((len(times), R, _OBJECTIVES))
    training_runs(
        np.zeros((R, C, model.d)),
        np.array(critics, order="C"),
        # copies, of one layout for all: another one would be compiled once more
        np.array(model.x, order="C"),
        np.array([m.P for m in distinct]),
        np.array([m.r for m in distinct]),
        np.array([m.mean_r for m in distinct]),
        np.array([m.start for m in distinct]),
        owns,
        float(model.gamma),
        float(algorithm.alpha),
        algorithm.K,
        float(program[0]),
        float(program[1]),
        normalise,
        eta,
        fixed,
        float(oracle.step),
        float(oracle.radius),
        oracle.N,
        oracle.D,
        oracle.B,
        1.0 - model.gamma if oracle.sampling == "restarted" else 0.0,
        np.array([seed & (2**64 - 1), seed >> 64], dtype=np.uint64),
        np.array(times, dtype=np.int64),
        weights,
        returns,
    )
    if not np.isfinite(returns).all():
        raise InputError("a step must not overflow; found infinity or NaN: lower alpha")
    return returns, np.stack([weights, 1.0 - weights], axis=-1)
