"""Run a federated multi-objective algorithm and record what the theory is about.

What is kept does not grow with the number of steps: values are recorded at given times or on a
geometric grid, and means over all steps are running sums.

====================  ===========  ================================================================
name                  shape        at time t
====================  ===========  ================================================================
``weights``           (..., C, M)  lambda^c_t of the clients
``disagreement``      (...)        T_disagr around the mean weights, :func:`mgda.drift.disagreement`
``disagreement_true`` (...)        the same around the weights of the true gradients
``weight_spread``     (...)        how far weights are from their mean
``client_drift``      (...)        how far parameters are from their mean
``J``                 (..., M)     returns at the mean parameters
``gap``               (...)        min_lambda ||grad J lambda||^2 there, Definition 3
``weighted_gap``      (...)        ||grad J lambda||^2 there for the clients' mean lambda: Theorem 1
====================  ===========  ================================================================

Time t is before step t, with the gradients and weights that this step uses. Right after an
aggregation parameters do not differ: with K > 1, compare drifts at times of one phase t mod K.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike, NDArray

from linsys.validate import Array, InputError, check_integer, increasing_times
from mgda.drift import client_drift, disagreement, weight_spread
from mgda.federated import Federated, Oracle, State, as_numpy, client_mean
from mgda.simplex import min_norm
from mgda.trajectories import Clients, check_clients

__all__ = ["MeanReturn", "Objectives", "Trace", "geometric_times", "iterate", "run"]


class Objectives(Protocol):
    """Exact returns (..., M) and gradients (..., d, M) at parameters (..., d)."""

    def J(self, theta: Array) -> Array:
        """Returns, shape (..., M)."""

    def jac(self, theta: Array) -> Array:
        """Gradients, shape (..., d, M)."""


@dataclass(frozen=True, eq=False)
class MeanReturn:
    """J(theta) = (1/C) sum_c J^c(theta) of Section 2, exactly.

    Args:
        clients: the processes.
        first: index of the first term of the discounted sum; the paper's is 1.

    >>> from mgda.instances import sample_momdp
    >>> MeanReturn(Clients(sample_momdp(0, states=3, actions=2), 4)).jac(np.zeros((10, 6))).shape
    (10, 6, 2)
    """

    clients: Clients
    first: int = 1

    def __post_init__(self) -> None:
        check_clients(self.clients)

    def J(self, theta: Array) -> Array:
        """Returns, shape (..., M)."""
        return np.asarray(sum(m.J(theta, self.first) for m in self._distinct) / len(self._distinct))

    def jac(self, theta: Array) -> Array:
        """Gradients, shape (..., d, M)."""
        parts = [m.jac(theta, self.first) for m in self._distinct]
        return np.asarray(sum(parts) / len(parts))

    @property
    def _distinct(self) -> tuple[Any, ...]:
        return self.clients.momdps[:1] if self.clients.same else self.clients.momdps


@dataclass(frozen=True, eq=False)
class Trace:
    """What :func:`run` recorded at n times.

    The module's text has the names and shapes of the values; here each array has a leading axis of
    length n.

    Attributes:
        times: local steps t, shape (n,).
        values: name to values at these times.
        means: name to means over the steps 0 .. t, where ``averages`` was asked for; else empty.
        state: the last state, from which :func:`iterate` goes on.
    """

    times: NDArray[np.int64]
    values: Mapping[str, Array]
    means: Mapping[str, Array]
    state: State


def geometric_times(last: int, points: int = 64) -> NDArray[np.int64]:
    """0, 1 and at most ``points`` whole numbers with equal ratios up to ``last``.

    >>> geometric_times(100, 5).tolist()
    [0, 1, 3, 10, 32, 100]
    """
    check_integer("last", last)
    check_integer("points", points, low=1)
    if last == 0:
        return np.zeros(1, dtype=np.int64)
    grid = np.geomspace(1.0, last, points if last > 1 else 1)
    return np.unique(np.concatenate([[0, 1, last], np.rint(grid)]).astype(np.int64))


def iterate(
    algorithm: Federated, oracle: Oracle[Any], state: State, steps: int | None = None
) -> Iterator[tuple[State, Any, State]]:
    """Yield (state, its gradients, next state) for every local step; for ever without ``steps``.

    Where rounds alone count, :func:`linsys.rounds.rounds` makes them.

    >>> from mgda.actor_critic import ExactGradients
    >>> from mgda.firm import FIRM
    >>> from mgda.instances import sample_momdp
    >>> oracle = ExactGradients(Clients(sample_momdp(0, states=3, actions=2), 4))
    >>> firm = FIRM(alpha=0.1, K=2)
    >>> for _, _, state in iterate(firm, oracle, firm.init(np.zeros((1, 4, 6)), oracle), 3): pass
    >>> state.t, state.weights.shape
    (3, (1, 4, 2))
    """
    for _ in itertools.count() if steps is None else range(check_integer("steps", steps)):
        after, gradients = algorithm.local_step(state, oracle)
        yield state, gradients, after
        state = after


def run(
    algorithm: Federated,
    oracle: Oracle[Any],
    theta0: Any,
    rounds: int,
    *,
    times: ArrayLike | None = None,
    objectives: Objectives | None = None,
    reference: Oracle[Any] | None = None,
    averages: bool = False,
) -> Trace:
    """``rounds`` rounds of K local steps from the mean of theta0, T = rounds K steps in all.

    Args:
        algorithm: FIRM, FedCMOO, LinearScalarization or SingleObjective.
        oracle: gives the gradients, such as :class:`mgda.actor_critic.ActorCritic`.
        theta0: parameters of the clients, shape (..., C, d); (R, C, d) for the oracles of mgda.
        rounds: number of aggregations.
        times: local steps to record at, between 0 and T; :func:`geometric_times` without them.
            Time T costs one more call of the oracle, which moves nothing.
        objectives: for J and the gaps; without it the :class:`MeanReturn` of the oracle's clients,
            with the oracle's ``first`` or else the paper's, and none where it has no clients.
        reference: an oracle without noise. The weights of its gradients at the mean parameters,
            averaged over the clients, are those of "the true gradients". Estimates in (10) have the
            mean Delta, not grad J: ``dataclasses.replace(oracle, B=None, N=None)`` gives that.
        averages: measure at all steps, not only the recorded ones, and keep running means; the
            mean of ``weighted_gap`` is the left side of Theorem 1.

    Raises:
        InputError: counts that are no whole numbers, times after T, or what the algorithm refuses.

    >>> from mgda.actor_critic import ExactGradients
    >>> from mgda.firm import FIRM
    >>> from mgda.instances import sample_momdp
    >>> oracle = ExactGradients(Clients(sample_momdp(0, states=3, actions=2), 4))
    >>> trace = run(FIRM(alpha=0.5, K=2), oracle, np.zeros((1, 4, 6)), rounds=50)
    >>> trace.times[-3:].tolist(), trace.values["weights"].shape[1:]
    ([86, 93, 100], (1, 4, 2))
    >>> bool(trace.values["gap"][-1, 0] < 0.05 * trace.values["gap"][0, 0])
    True
    """
    if not isinstance(algorithm, Federated):
        raise InputError(
            f"`algorithm` must be one such as FIRM(alpha=0.1); found {algorithm!r:.60}"
        )
    for name, given, methods in (
        ("oracle", oracle, ("init", "jac")),
        ("reference", reference, ("init", "jac")),
        ("objectives", objectives, ("J", "jac")),
    ):
        missing = [m for m in methods if not callable(getattr(given, m, None))]
        if missing and (given is not None or name == "oracle"):
            raise InputError(
                f"`{name}` must have methods {' and '.join(methods)}; found {given!r:.60}"
            )
    last = check_integer("rounds", rounds) * algorithm.K
    wanted = geometric_times(last) if times is None else increasing_times(times)
    if wanted[-1] > last:
        raise InputError(f"`times` must be at most {last}, the last step; found {wanted[-1]}")
    clients = getattr(oracle, "clients", None)
    if objectives is None and isinstance(clients, Clients):
        objectives = MeanReturn(clients, getattr(oracle, "first", 1))
    start = algorithm.init(theta0, oracle)
    records: list[dict[str, Array]] = []
    means: list[dict[str, Array]] = []
    sums: dict[str, Any] = {}
    due = frozenset(wanted.tolist())
    look = last in due  # one step more for the gradients at time T; its result is dropped
    for before, gradients, after in iterate(algorithm, oracle, start, last + look):
        if averages or before.t in due:
            measured = _measure(algorithm, before, gradients, after, objectives, reference)
            if averages:
                sums = {name: sums.get(name, 0.0) + value for name, value in measured.items()}
            if before.t in due:
                records.append(measured)
                means.append({name: total / after.t for name, total in sums.items()})
    state = before if look else after
    return Trace(wanted, _stack(records), _stack(means), state)


def _stack(rows: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _measure(
    algorithm: Federated,
    state: State,
    gradients: Any,
    after: State,
    objectives: Objectives | None,
    reference: Oracle[Any] | None,
) -> dict[str, Array]:
    """Everything that can be recorded of one step."""
    assert after.weights is not None
    values = {
        "weights": after.weights,
        "disagreement": disagreement(gradients, after.weights),
        "weight_spread": weight_spread(after.weights),
        "client_drift": client_drift(state.theta),
    }
    center = client_mean(state.theta)
    if reference is not None:
        true = reference.jac(center, reference.init())[0]
        weights = algorithm.solve(array_namespace(true).mean(true, axis=-3))
        values["disagreement_true"] = disagreement(gradients, after.weights, weights)
    if objectives is not None:
        theta = as_numpy(center[..., 0, :])
        jac = objectives.jac(theta)
        direction = (jac @ after.weights.mean(axis=-2)[..., None])[..., 0]
        values["J"] = objectives.J(theta)
        values["gap"] = min_norm(jac).objective
        values["weighted_gap"] = np.asarray((direction**2).sum(axis=-1))
    return values
