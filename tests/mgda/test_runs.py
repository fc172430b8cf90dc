"""Runs: convergence with exact gradients, drift, records, sampled gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from linsys.rounds import rounds
from mgda.actor_critic import ActorCritic, ExactGradients
from mgda.constants import smoothness_everywhere
from mgda.critic import LinearCritic
from mgda.drift import disagreement
from mgda.fedcmoo import FedCMOO
from mgda.firm import FIRM
from mgda.instances import heterogeneous, sample_momdp
from mgda.runs import MeanReturn, geometric_times, iterate, run
from mgda.scalarization import LinearScalarization
from mgda.simplex import min_norm
from mgda.trajectories import Clients

MOMDP = sample_momdp(0, states=3, actions=2, objectives=2, gamma=0.7)
CLIENTS = Clients(MOMDP, 3)
ORACLE = ExactGradients(CLIENTS)


def start(replicates: int = 2, clients: int = 3) -> Any:
    theta = 0.5 * np.random.default_rng(1).standard_normal((replicates, 1, 6))
    return np.repeat(theta, clients, axis=1)


def sampled(**options: Any) -> ActorCritic:
    common: dict[str, Any] = {"B": 16, "D": 8, "N": 4, "replicates": 2}
    return ActorCritic(CLIENTS, LinearCritic(np.eye(3)), **{**common, **options})


@pytest.mark.slow
def test_every_mgda_step_raises_every_objective() -> None:
    """J^j(theta + alpha g) >= J^j + alpha (1 - alpha L / 2) |g|^2, as <grad J^j, g> >= |g|^2.

    Summed over T steps it bounds the mean gap by the range of J^j over alpha (1 - alpha L/2) T.
    """
    L, T = smoothness_everywhere(MOMDP, first=1), 400
    alpha = 1.0 / L
    for algorithm in (FIRM(alpha=alpha, beta=0.0), FedCMOO(alpha=alpha)):
        trace = run(algorithm, ORACLE, start(), T, times=range(T + 1), averages=True)
        J, gap = trace.values["J"], trace.values["gap"]
        rise = np.diff(J, axis=0).min(axis=-1)
        assert (rise >= 0.5 * alpha * gap[:-1] - 1e-14).all()
        assert (rise < 1.5 * alpha * gap[:-1])[:10].any()
        span = MOMDP.gamma / (1 - MOMDP.gamma)
        assert (trace.means["gap"][-1] <= span / (0.5 * alpha * T)).all()
        np.testing.assert_allclose(trace.values["weighted_gap"], gap, atol=1e-15)
        np.testing.assert_allclose(trace.means["gap"][-1], gap.mean(axis=0), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    [
        FIRM(alpha=3.0, K=3, beta=0.05),
        FIRM.theory(alpha=3.0, K=3, beta=0.05),
        FIRM(alpha=3.0, beta=0.0, preference=(1.0, 3.0)),
        FedCMOO(alpha=3.0, K=3),
        FedCMOO(alpha=3.0, K=3, lambda_rule="projected"),
        LinearScalarization(alpha=3.0, K=3, weights=(0.5, 0.5)),
    ],
)
def test_exact_gradients_lead_to_pareto_stationary_points(algorithm: Any) -> None:
    trace = run(algorithm, ORACLE, start(), 1500 // algorithm.K, times=[0, 1500])
    assert (trace.values["gap"][-1] < 1e-3 * trace.values["gap"][0]).all()


def test_identical_clients_do_not_drift() -> None:
    trace = run(FIRM(alpha=1.0, K=4), ORACLE, start(), 5, times=range(21), reference=ORACLE)
    for name in ("disagreement", "client_drift", "weight_spread"):
        np.testing.assert_array_equal(trace.values[name], 0.0)
    assert trace.values["disagreement_true"].max() < 1e-28
    one = run(FIRM(alpha=1.0, K=1), ExactGradients(Clients(MOMDP, 1)), start(clients=1), 20)
    np.testing.assert_allclose(trace.state.theta[:, :1], one.state.theta, atol=1e-13)


def test_different_clients_drift_between_aggregations() -> None:
    momdps = heterogeneous(MOMDP, 0, clients=3, env=0.5, obj=0.5)
    algorithm, oracle = FIRM(alpha=1.0, K=4), ExactGradients(Clients(momdps))
    trace = run(algorithm, oracle, start(), 5, times=range(21))
    drift = trace.values["client_drift"]
    np.testing.assert_array_equal(drift[::4], 0.0)
    assert (np.delete(drift, np.s_[::4], axis=0) > 1e-7).all()
    assert (trace.values["disagreement"] > 0).all()
    theta = trace.state.theta[:, 0]
    J = np.mean([m.J(theta, first=1) for m in momdps], axis=0)
    np.testing.assert_allclose(trace.values["J"][-1], J, rtol=1e-12)
    jac = np.mean([m.jac(theta, first=1) for m in momdps], axis=0)
    np.testing.assert_allclose(trace.values["gap"][-1], min_norm(jac).objective, rtol=1e-12)
    direction = np.einsum("rdm,rm->rd", jac, trace.values["weights"][-1].mean(axis=1))
    weighted = (direction**2).sum(axis=-1)
    np.testing.assert_allclose(trace.values["weighted_gap"][-1], weighted, rtol=1e-12)
    # between aggregations it is the mean of the parameters that counts
    states = [before for before, _, _ in iterate(algorithm, oracle, algorithm.init(start()), 3)]
    center = states[2].theta.mean(axis=1)
    J = np.mean([m.J(center, first=1) for m in momdps], axis=0)
    np.testing.assert_allclose(trace.values["J"][2], J, rtol=1e-12)
    # of the first client alone they would be others
    assert np.abs(trace.values["J"][-1] - momdps[0].J(theta, first=1)).max() > 1e-3


def test_disagreement_around_the_true_weights() -> None:
    """Recomputed from the states: the reference is solved at the mean of the parameters."""
    oracle, firm = sampled(), FIRM.theory(alpha=0.5, K=3, beta=0.3)
    exact = replace(oracle, B=None, N=None)
    trace = run(firm, oracle, start(), 3, times=range(10), reference=exact)
    state = firm.init(start(), oracle)
    for before, g, after in iterate(firm, oracle, state, 10):
        center = before.theta.mean(axis=1)
        policy = MOMDP.at(center)
        truth = policy.direction(policy.V)  # features of full rank: the fixed point is V
        reference = firm.solve(truth)
        recorded = trace.values["disagreement_true"][before.t]
        np.testing.assert_allclose(recorded, disagreement(g, after.weights, reference), rtol=1e-9)
        assert (recorded != trace.values["disagreement"][before.t]).all()


@pytest.mark.parametrize("before", [0, 1])
def test_a_round_is_the_local_steps_up_to_the_next_aggregation(before: int) -> None:
    oracle, firm = sampled(), FIRM(alpha=0.5, K=3, beta=0.3)
    steps = [after for _, _, after in iterate(firm, oracle, firm.init(start(), oracle), 6)]
    begun = [firm.init(start(), oracle), *steps][before]
    first, second = rounds(firm, oracle, begun, 2)
    for (state, weights), end in zip((first, second), (3, 6), strict=True):
        assert state.t == end
        np.testing.assert_array_equal(state.theta, steps[end - 1].theta)
        taken = steps[before if end == 3 else 3 : end]
        np.testing.assert_array_equal(weights, [after.weights for after in taken])


def test_sampled_runs_are_reproducible_and_go_on() -> None:
    oracle, firm = sampled(), FIRM.theory(alpha=0.5, K=2, beta=0.3)
    trace = run(firm, oracle, start(), 6, times=[0, 5, 12], averages=True)
    again = run(firm, oracle, start(), 6, times=[0, 5, 11])
    np.testing.assert_array_equal(trace.state.theta, again.state.theta)
    assert trace.state.memory.time == again.state.memory.time == 12 * (4 * 8 + 16)
    half = run(firm, oracle, start(), 3).state
    *_, (_, _, last) = iterate(firm, oracle, half, 6)
    np.testing.assert_array_equal(last.theta, trace.state.theta)
    np.testing.assert_array_equal(last.weights, again.state.weights)
    other = run(firm, replace(oracle, seed=1), start(), 6, times=[0, 5, 11])
    assert np.abs(other.state.theta - trace.state.theta).max() > 1e-3
    assert again.means == {}


def test_records_do_not_depend_on_what_else_is_recorded() -> None:
    oracle, firm = sampled(), FIRM(alpha=0.5, K=2)
    every = run(firm, oracle, start(), 10, times=range(21), averages=True)
    few = run(firm, oracle, start(), 10, times=[3, 20], averages=True)
    for name, values in few.values.items():
        np.testing.assert_array_equal(values, every.values[name][[3, 20]])
        np.testing.assert_allclose(few.means[name], every.means[name][[3, 20]], rtol=1e-12)
        mean = every.values[name][:4].mean(axis=0)
        np.testing.assert_allclose(few.means[name][0], mean, rtol=1e-12)
    assert few.times.tolist() == [3, 20]
    assert run(firm, oracle, start(), 0).times.tolist() == [0]


def test_regularisation_lowers_the_drift_of_sampled_runs() -> None:
    """Mean squared disagreement of the same samples, whose parameters differ little at alpha 1e-3.

    By Lemma 1's argument T is O(1 / beta^2): two decades of beta, between which T falls 1e4-fold in
    the limit; a hundredfold leaves room for weights at the boundary.
    """
    oracle = sampled(replicates=8)
    weak, strong = (
        run(
            FIRM(alpha=1e-3, beta=beta, normalise=False),
            oracle,
            start(replicates=8),
            30,
            times=[30],
            averages=True,
        ).means["disagreement"][0]
        for beta in (0.01, 1.0)
    )
    assert (strong < 0.01 * weak).all()


class Quadratic:
    """Objectives -|theta - p_j|^2 / 2 of one client in torch; no process behind them."""

    points = torch.tensor([[0.0, 1.0], [1.0, -1.0]], dtype=torch.float64).T

    def init(self) -> int:
        return 0

    def jac(self, theta: torch.Tensor, memory: int) -> tuple[torch.Tensor, int]:
        return self.points - theta[..., None], memory + 1


def test_any_oracle_in_torch() -> None:
    """The Pareto set is the segment between the points; no J is known, none is recorded."""
    theta = torch.tensor([[2.5, 1.0], [2.5, 1.0]], dtype=torch.float64)  # above its middle
    trace = run(FIRM(alpha=0.1, beta=0.0), Quadratic(), theta, 400)
    assert "J" not in trace.values
    assert trace.state.memory == 400
    np.testing.assert_allclose(trace.state.theta.numpy(), [[0.5, 0.0]] * 2, atol=1e-12)
    numbers = run(
        FIRM(alpha=0.1, beta=0.0), Quadratic(), theta, 400, times=[400], reference=Quadratic()
    )
    np.testing.assert_array_equal(numbers.values["disagreement_true"], 0.0)


class Breaking:
    """Clients 3 and 8, of which one has gradients that are NaN from its second step on."""

    names = (3, 8)

    def __init__(self, place: int) -> None:
        self.place = place

    def init(self) -> int:
        return 0

    def jac(self, theta: Any, memory: int) -> tuple[Any, int]:
        jacobian = np.ones((*theta.shape, 2))
        jacobian[0, self.place] = np.nan if memory else 1.0
        return jacobian, memory + 1


@pytest.mark.parametrize(("place", "number"), [(0, 3), (1, 8)])
def test_a_client_is_named_by_its_number(place: int, number: int) -> None:
    with pytest.raises(InputError, match=f"found NaN or infinity at client {number}, step 1$"):
        run(FIRM(alpha=0.1), Breaking(place), np.zeros((1, 2, 4)), 3)
    firm = FIRM(alpha=0.1)
    state, broken = firm.init(np.zeros((1, 1, 4))), np.full((1, 1, 4, 2), np.nan)
    for moved in (
        lambda names: firm.step(state, broken, names=names),
        lambda names: firm.move(state, broken, np.full((1, 1, 2), 0.5), names=names),
    ):
        with pytest.raises(InputError, match=f"infinity at client {number}, step 0$"):
            moved([number])
        with pytest.raises(InputError, match="`names` must be the numbers of 1 clients; found 2"):
            moved([number, 0])


def test_times() -> None:
    for last in (0, 1, 2, 3, 7, 1000):
        times = geometric_times(last, 10)
        assert times[0] == 0
        assert times[-1] == last
        assert (np.diff(times) > 0).all()
        assert len(times) <= 12
    with pytest.raises(InputError, match="`times` must be at most 6"):
        run(FIRM(alpha=0.1, K=2), ORACLE, start(), 3, times=[0, 7])
    for count in (-1, 1.0):
        with pytest.raises(InputError, match="`rounds`"):
            run(FIRM(alpha=0.1), ORACLE, start(), count)  # type: ignore[arg-type]


def test_mean_return() -> None:
    theta = start()[:, 0]
    np.testing.assert_allclose(MeanReturn(CLIENTS).J(theta), MOMDP.J(theta, 1), rtol=1e-13)
    np.testing.assert_allclose(MeanReturn(CLIENTS, 0).jac(theta), MOMDP.jac(theta), rtol=1e-13)
