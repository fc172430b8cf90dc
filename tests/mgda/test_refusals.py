"""What cannot be used is refused in one line that names it; hard chains are computed exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from linsys.validate import InputError
from mgda.actor_critic import ActorCritic, ExactGradients
from mgda.constants import Mixing, gradient_bound, mixing_at
from mgda.critic import LinearCritic, project, random_features
from mgda.drift import client_drift, disagreement, gradient_drift, weight_spread
from mgda.fedcmoo import project_simplex
from mgda.firm import FIRM
from mgda.instances import heterogeneous, sample_momdp
from mgda.momdp import MOMDP, SoftmaxPolicy
from mgda.runs import MeanReturn, run
from mgda.sensitivity import derivative, sensitivity_matrix
from mgda.trajectories import Clients, error_sums, sample, td_errors

ONE = sample_momdp(0, states=3, actions=2)
SAME, OWN = Clients(ONE, 2), Clients([ONE, sample_momdp(1, states=3, actions=2)])
CRITIC = LinearCritic(np.eye(3))
POLICIES = SAME.policies(np.zeros((1, 2, 6)))
POLICY, LEARNER = ONE.at(np.zeros(6)), ActorCritic(SAME, CRITIC)
STATE = np.zeros((1, 2), dtype=np.int64)
BATCH, _ = sample(SAME, POLICIES, STATE, 6, seed=0)
W = np.zeros((1, 2, 3, 2))
FIRM_, EXACT, START = FIRM(alpha=0.1), ExactGradients(SAME), np.zeros((1, 2, 6))


def learn(w: Any = W, clients: Clients = SAME, critic: LinearCritic = CRITIC, **given: Any) -> Any:
    return critic.learn(w, clients, BATCH, 3, 0.1, given.get("radius", np.inf))


def step(gradients: Any) -> Any:
    return FIRM_.step(FIRM_.init(np.zeros((2, 3))), gradients)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    # another number of clients than processes: results for too many or too few of them
    "clients alike": (lambda: SAME.jac(np.zeros((1, 3, 6))), r"`theta` must have shape \(..., 2,"),
    "clients apart": (lambda: OWN.jac(np.zeros((1, 3, 6))), r"`theta` must have shape \(..., 2,"),
    "too few": (lambda: OWN.jac(np.zeros((1, 1, 6))), r"`theta` must have shape \(..., 2,"),
    "one vector": (lambda: OWN.jac(np.zeros(6)), r"`theta` must have shape"),
    "run": (lambda: run(FIRM_, EXACT, np.zeros((1, 3, 6)), 2), r"`theta` must have shape"),
    "no processes": (lambda: Clients(None, 3), "`momdps` must be a MOMDP"),  # type: ignore[arg-type]
    "no process": (lambda: Clients([1, 2]), "`momdps` must hold MOMDPs; found int"),  # type: ignore[list-item]
    "other count": (lambda: Clients([ONE, ONE], 3), "each of 3 clients; found 2"),
    # kernels check no index
    "w objectives": (lambda: learn(W[..., :1]), "`w` must have shape"),
    "w clients": (lambda: learn(W[:, :1]), "`w` must have shape"),
    "w features": (lambda: learn(np.zeros((1, 2, 4, 2))), "`w` must have shape"),
    "w NaN": (lambda: learn(W * np.nan), "`w` must be finite"),
    "critic's states": (lambda: learn(critic=LinearCritic(np.eye(2))), "`phi` must have a row"),
    "batch": (
        lambda: learn(clients=Clients(ONE, 3)),
        "`transitions` must be of 3 clients; found 2",
    ),
    "radii": (lambda: learn(radius=[1.0, 2.0, 3.0]), "`radius` must be a number or"),
    "values": (lambda: error_sums(SAME, BATCH, W[:, :1]), "`values` must have shape"),
    "values M": (lambda: td_errors(SAME, BATCH, W[..., :1]), "`values` must have shape"),
    "values C": (lambda: td_errors(Clients(ONE, 3), BATCH, W), "`batch` must be of 3 clients"),
    # samples
    "state of floats": (
        lambda: sample(SAME, POLICIES, STATE + 0.5, 2, seed=0),
        "`state` must hold",
    ),
    "state NaN": (lambda: sample(SAME, POLICIES, STATE * np.nan, 2, seed=0), "`state` must hold"),
    "state high": (lambda: sample(SAME, POLICIES, STATE + 3, 2, seed=0), "found .* from 3 to 3"),
    "time": (lambda: sample(SAME, POLICIES, STATE, 2, seed=0, time=2**63), "`time` must be"),
    "policies": (lambda: sample(SAME, [ONE.at(np.zeros(6))], STATE, 2, seed=0), "`policies` must"),
    # parameters and policies
    "theta ragged": (lambda: ONE.at([[1, 2], [3]]), "`theta` must be an array"),  # type: ignore[list-item]
    "theta empty": (lambda: ONE.at(np.zeros((0, 6))), "`theta` must be real numbers of shape"),
    "theta with gradients": (
        lambda: ONE.at(torch.zeros(6, requires_grad=True)),
        "`theta` must be an array of shape",
    ),
    "direction": (lambda: ONE.at(np.zeros(6)).direction(np.zeros((2, 2))), "`values` must have"),
    "direction's law": (
        lambda: ONE.at(np.zeros(6)).direction(np.zeros((3, 2)), np.ones(2)),
        "`law` must have shape",
    ),
    "direction NaN": (lambda: POLICY.direction(np.full((3, 2), np.nan)), "`values` must be fini"),
    "direction's batch": (
        lambda: ONE.at(np.zeros((4, 6))).direction(np.zeros((5, 3, 2))),
        r"`values` must have batch axes like those of `theta`, \(4,\); found \(5,\)",
    ),
    "law NaN": (
        lambda: POLICY.direction(np.zeros((3, 2)), np.full(3, np.nan)),
        "`law` must be finite",
    ),
    "table": (
        lambda: POLICY.score_sum(np.zeros((2, 3, 2))),
        r"`table` must have shape \(..., 3, 2, 2\); found \(2, 3, 2\)",
    ),
    "table of two axes": (lambda: POLICY.score_sum(np.zeros((3, 2))), "`table` must have shape"),
    "table of text": (lambda: POLICY.score_sum("a"), "`table` must be an array of real"),  # type: ignore[arg-type]
    # oracles
    "no memory": (
        lambda: LEARNER.jac(np.zeros((1, 2, 6)), None),  # type: ignore[arg-type]
        "`memory` must be what init.* found NoneType",
    ),
    "nothing to vary": (lambda: heterogeneous(None, 0, clients=2), "`momdp` must be a MOMDP"),  # type: ignore[arg-type]
    "a process": (lambda: ExactGradients(ONE), "`clients` must be .*; found MOMDP"),  # type: ignore[arg-type]
    "a process, returns": (lambda: MeanReturn(ONE), "`clients` must be"),  # type: ignore[arg-type]
    "a process, critics": (lambda: ActorCritic(ONE, CRITIC), "`clients` must be"),  # type: ignore[arg-type]
    "features": (lambda: ActorCritic(SAME, np.eye(3)), "`critic` must be a LinearCritic"),  # type: ignore[arg-type]
    "radius": (lambda: ActorCritic(SAME, CRITIC, radius="1"), "`radius` must be"),  # type: ignore[arg-type]
    "first": (lambda: ExactGradients(SAME, first=2), "`first` must be"),
    "critic's w": (lambda: CRITIC.values(np.zeros((2, 2))), "`w` must have shape"),
    "critic's law": (
        lambda: CRITIC.fixed_point(ONE.at(np.zeros(6)), np.ones(2)),
        "`law` must have shape",
    ),
    "critic's mean step": (
        lambda: CRITIC.mean_step(np.zeros((3, 2)), ONE.at(np.zeros(6)), np.nan),
        "`step` must be a number",
    ),
    "project": (lambda: project(np.ones((2, 2)), -1.0), "`radius` must be positive; found -1"),
    "d2": (lambda: random_features(0, 2, "1"), "`d2` must be a whole number"),  # type: ignore[arg-type]
    # algorithms
    "preference": (lambda: FIRM(alpha=1.0, beta=0.0, preference=3.0), "`preference` must have"),  # type: ignore[arg-type]
    "text": (lambda: step(np.full((2, 3, 2), "a")), "`gradients` must hold real numbers"),
    "complex": (lambda: step(np.zeros((2, 3, 2), complex)), "`gradients` must hold real numbers"),
    "library": (lambda: step(torch.zeros((2, 3, 2))), "same library as the parameters, numpy"),
    "torch run": (lambda: run(FIRM_, EXACT, torch.zeros((1, 2, 6)), 1), "same library .* torch"),
    "class": (lambda: run(FIRM, EXACT, START, 2), "`algorithm` must be one such as"),  # type: ignore[arg-type]
    "swapped": (lambda: run(EXACT, FIRM_, START, 2), "`algorithm` must be one such as"),  # type: ignore[arg-type]
    "oracle": (lambda: run(FIRM_, SAME, START, 2), "`oracle` must have methods init and jac"),  # type: ignore[arg-type]
    "objectives": (
        lambda: run(FIRM_, EXACT, START, 2, objectives=3),  # type: ignore[arg-type]
        "`objectives` must have methods J and jac; found 3",
    ),
    "points": (lambda: project_simplex(np.array([np.nan, 0.0])), "`points` must be finite"),
    # drifts
    "reference": (
        lambda: disagreement(np.ones((2, 3, 2)), np.full((2, 2), 0.5), [1.0]),
        r"`reference` must have shape \(2,\); found \(1,\)",
    ),
    "a reference each": (
        lambda: disagreement(np.ones((2, 3, 2)), np.full((2, 2), 0.5), np.full((2, 2), 0.5)),
        "`reference` must have shape",
    ),
    "disagreement NaN": (
        lambda: disagreement(np.full((2, 3, 2), np.nan), np.full((2, 2), 0.5)),
        "`gradients` must be finite",
    ),
    "no clients": (lambda: weight_spread(np.ones((0, 2))), "`weights` must have shape"),
    "one client": (lambda: client_drift(np.ones(2)), "`theta` must have shape"),
    "no numbers": (lambda: client_drift("x"), "`theta` must be an array of real numbers"),
    "gradients at the mean": (
        lambda: gradient_drift(np.ones((2, 3, 2)), np.ones((1, 2)), [0.5, 0.5]),
        r"`mean` must have shape \(3, 2\); found \(1, 2\)",
    ),
    # constants and sensitivities
    "no mixing": (lambda: Mixing(1.0, 1.0).variance_factor, "`rho` must be below 1; found 1"),
    "R_w": (lambda: gradient_bound(ONE, -1.0), "`radius` must be"),
    "no simplex": (lambda: sensitivity_matrix(np.eye(2), [3.0, 2.0]), "`weights` must be non-neg"),
    "Q": (lambda: sensitivity_matrix([[1.0, 0.5], [0.0, 1.0]], [0.5, 0.5]), "`Q` must be symm"),
    "dQ": (lambda: derivative(np.eye(2), [0.5, 0.5], [[0, 1], [0, 0]]), "`dQ` must be symmetric"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_line(case: str) -> None:
    call, match = REFUSED[case]
    with pytest.raises(InputError, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_one_table_for_a_batch_of_policies() -> None:
    table = np.random.default_rng(0).standard_normal((3, 2, 2))
    theta = np.random.default_rng(1).standard_normal((4, 6))
    each = [ONE.at(t).score_sum(table) for t in theta]
    np.testing.assert_allclose(ONE.at(theta).score_sum(table), each, atol=1e-15)


def sticky(stay: float, other: float) -> SoftmaxPolicy:
    """Two states, left with probabilities 1 / (1 + e^stay) and 1 / (1 + e^other)."""
    P = [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]
    momdp = MOMDP(P=P, r=np.zeros((2, 2, 1)), gamma=0.5)
    return momdp.at([stay, 0.0, 0.0, other])


@pytest.mark.parametrize("stay", [5.0, 30.0, 37.0, 300.0, 700.0])
def test_stationary_laws_of_chains_that_hardly_move(stay: float) -> None:
    """d is (b, a) / (a + b) for the probabilities a and b of leaving, however small they are."""
    law = sticky(stay, stay + 1.0).stationary
    with mpmath.workdps(30):
        a, b = (1 / (1 + mpmath.exp(x)) for x in (stay, stay + 1.0))
        exact = [float(b / (a + b)), float(a / (a + b))]
    np.testing.assert_allclose(law, exact, rtol=1e-14)


def test_stationary_laws_over_many_magnitudes() -> None:
    """Against the null vector in 80 digits, entry by entry: off by no more than some roundings."""
    rng = np.random.default_rng(0)
    P = rng.random((5, 5)) * 10.0 ** rng.uniform(-20, 0, (5, 5))
    P /= P.sum(axis=1, keepdims=True)
    momdp = MOMDP(P=P[:, None], r=np.zeros((5, 1, 1)), gamma=0.5)
    with mpmath.workdps(80):
        rates = mpmath.matrix(P.tolist())
        for s in range(5):  # the diagonal from the others: rows of doubles do not sum to one
            rates[s, s] = -mpmath.fsum(rates[s, t] for t in range(5) if t != s)
        system = rates.T
        system[0, :] = mpmath.ones(1, 5)
        exact = [float(x) for x in mpmath.lu_solve(system, mpmath.matrix([1, 0, 0, 0, 0]))]
    # 4 eliminations with some 3 roundings in each of 4 sums
    np.testing.assert_allclose(momdp.at(np.zeros(5)).stationary, exact, rtol=100 * 2.3e-16)


@pytest.mark.slow
def test_slow_chains_have_a_mixing_pair_or_are_refused() -> None:
    kappa, rho = mixing_at(sticky(7.0, 7.0))
    second = 1.0 - 2.0 / (1.0 + np.exp(7.0))  # the distance after t steps is second^t / 2
    np.testing.assert_allclose((kappa, rho), (0.5, second), rtol=1e-9)
    with pytest.raises(InputError, match="mixes within 100000 steps"):
        mixing_at(sticky(20.0, 20.0))


def test_projection_of_points_far_apart() -> None:
    np.testing.assert_array_equal(project_simplex(np.array([1e300, 0.0])), [1.0, 0.0])
