"""The compiled loop of training runs against steps one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.firm._alignment import AlignmentConfig
from experiments.firm._training import stepwise, trained
from linsys.validate import InputError
from mgda.actor_critic import ActorCritic
from mgda.critic import LinearCritic
from mgda.fedcmoo import FedCMOO
from mgda.federated import Federated
from mgda.firm import FIRM
from mgda.instances import heterogeneous
from mgda.runs import run
from mgda.scalarization import LinearScalarization
from mgda.trajectories import Clients

TIMES = np.array([0, 1, 5, 12])


def oracle_of(different: bool, **options: Any) -> ActorCritic:
    momdp = AlignmentConfig(states=3, actions=2).momdp(0)
    clients = Clients(momdp, 3)
    if different:
        first, second = heterogeneous(momdp, 1, clients=2, env=0.5, obj=0.5)
        clients = Clients([first, second, first])
    chosen: dict[str, Any] = {"B": 7, "D": 4, "N": 3, "step": 0.5, "sampling": "restarted"}
    chosen |= {"seed": 2**70 + 3, "replicates": 2, "radius": 3.0}
    return ActorCritic(clients, **{"critic": LinearCritic(np.eye(3)), **chosen, **options})


ALGORITHMS: dict[str, Federated] = {
    "FIRM": FIRM(alpha=5.0, K=3, beta=0.02),
    "raw, smoothed": FIRM.theory(alpha=5.0, beta=0.01, K=2),
    "without beta": FIRM(alpha=5.0, beta=0.0, eta=0.5),
    "preference": FIRM(alpha=5.0, K=3, beta=0.0, preference=(0.3, 0.7)),
    "fixed": LinearScalarization(alpha=5.0, K=3, weights=(0.2, 0.8)),
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("different", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"sampling": "markov"}, {"radius": 0.05}, {"N": 0}],
    ids=["usual", "markov", "projected", "without learning"],
)
def test_the_loop_makes_the_same_runs(name: str, different: bool, options: Any) -> None:
    """Up to rounding: 13 steps of size one in probabilities amplify it by some hundreds."""
    oracle, algorithm = oracle_of(different, **options), ALGORITHMS[name]
    for ours, theirs in zip(
        trained(algorithm, oracle, TIMES), stepwise(algorithm, oracle, TIMES), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "changed", [{"B": 8}, {"D": 5}, {"N": 2}, {"step": 0.6}, {"seed": 1}, {"radius": 0.05}]
)
def test_other_runs_differ(changed: Any) -> None:
    oracle = oracle_of(False)
    firm = ALGORITHMS["FIRM"]
    ours, _ = trained(firm, replace(oracle, **changed), TIMES)
    assert np.abs(ours - stepwise(firm, oracle, TIMES)[0]).max() > 1e-4


def test_steps_record_what_runs_do() -> None:
    oracle, firm = oracle_of(True), ALGORITHMS["FIRM"]
    returns, weights = stepwise(firm, oracle, TIMES)
    trace = run(firm, oracle, np.zeros((2, 3, 6)), 4, times=TIMES)
    np.testing.assert_array_equal(weights, trace.values["weights"])
    # those of a run leave out the first term of the discounted sum, where times gamma is all
    gamma = oracle.clients.model.gamma
    np.testing.assert_allclose(gamma * returns, trace.values["J"], rtol=1e-13)


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        (FedCMOO(alpha=1.0, K=3), {}),
        (FIRM(alpha=1.0, restart="step", K=2), {}),
        (FIRM(alpha=0.1, optimizer="adam"), {}),
        (FIRM(alpha=1.0), {"sampling": "stationary"}),
        (FIRM(alpha=1.0), {"start": 2}),
        (FIRM(alpha=1.0), {"first_replicate": 5}),
        (FIRM(alpha=1.0), {"critic": LinearCritic(np.array([[1.0], [0.5], [-0.5]]))}),
        (FIRM(alpha=1.0), {"B": None}),
        (FIRM(alpha=1.0), {"N": None}),
    ],
)
def test_what_the_loop_does_not_know_goes_step_by_step(algorithm: Federated, options: Any) -> None:
    oracle = oracle_of(False, **options)
    for ours, theirs in zip(
        trained(algorithm, oracle, TIMES), stepwise(algorithm, oracle, TIMES), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_runs_that_are_not_finite_are_refused() -> None:
    oracle = oracle_of(False, step=1e200, radius=np.inf)
    for runs in (trained, stepwise):
        with pytest.raises(InputError, match="must"):
            runs(FIRM(alpha=1.0), oracle, TIMES)


@pytest.mark.parametrize("times", [[0, 5, 5], [3, 1], [-1, 2], [], [0.0, 1.0]])
@pytest.mark.parametrize("algorithm", [FIRM(alpha=1.0, K=2), FedCMOO(alpha=1.0, K=3)])
def test_times_that_do_not_increase_are_refused(algorithm: Federated, times: Any) -> None:
    for runs in (trained, stepwise):
        with pytest.raises(InputError, match="`times` must be"):
            runs(algorithm, oracle_of(False), times)
    returns, _ = trained(algorithm, oracle_of(False), [0, 5])
    assert returns.shape == (2, 2, 2)
