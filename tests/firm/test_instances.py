"""Instances that the page for FIRM's authors gives to be checked by hand, computed again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.firm.claims import assembly, telescoping
from experiments.firm.theory.chain import Chains
from experiments.firm.theory.client_gradients import Estimate, Printed, synchronised
from experiments.firm.theory.weights import smoothed

ONE = np.ones(1)


def _chains(
    P: Any, r: Any, gamma: float, start: Any, logit: float = 0.0, scale: float = 1.0
) -> Chains:
    """Two states and actions, P[s][a] the chance of the first state; the same policy in both."""
    first = np.array(P, dtype=float)
    return Chains(
        P=np.stack([first, 1 - first], axis=-1)[None],
        r=np.array(r, dtype=float)[None, ..., None],
        gamma=gamma * ONE,
        theta=np.array([[[logit, 0.0], [logit, 0.0]]]),
        phi=np.eye(2)[None],
        start=np.array([start], dtype=float),
        scale=scale * ONE,
    )


def _shared(per_pair: np.ndarray) -> float:
    """The slope in one parameter that is the first action's logit in both states."""
    return float(per_pair.reshape(2, 2)[:, 0].sum())


def _delta(chains: Chains) -> float:
    """What batches of one trajectory estimate with the critic's fixed point."""
    return _shared(chains.direction(chains.values(chains.w_star)))


def test_theorem_1_with_a_fixed_start() -> None:
    def chains(logit: float) -> Chains:
        stay = [[0.75, 0.75], [0.25, 0.25]]
        return _chains(stay, [[1, 0], [0, 1]], 0.5, [1, 0], logit)

    for logit in (-1.0, 0.0, 2.0):
        assert _delta(chains(logit)) == pytest.approx(0, abs=1e-15)
    assert _shared(chains(0.0).jac) == pytest.approx(1 / 6, rel=1e-12)
    # with restarts the mean is the gradient, which does not vanish
    at = chains(0.0)
    assert abs(_shared(at.direction(at.V, at.occupancy))) > 0.1


def _steered(logit: float) -> Chains:
    """Action a leads to state a with probability 3/4; J starts in d_pi."""
    p = 1 / (1 + np.exp(-logit))
    q = 0.25 + p / 2
    return _chains([[0.75, 0.25]] * 2, [[0.6, 1], [0, 0]], 0.5, [q, 1 - q], logit)


def test_theorem_1_where_returns_start_in_the_stationary_law() -> None:
    for logit in (-2.0, 0.0, 1.0):
        at, p = _steered(logit), 1 / (1 + np.exp(-logit))
        np.testing.assert_allclose(at.stationary, at.start, rtol=1e-12)
        assert _delta(at) == pytest.approx(p * (1 - p) * (0.15 - 0.3 * p), abs=1e-15)
    step = 1e-5
    slope = (_steered(step).J - _steered(-step).J)[0, 0] / (2 * step)
    assert slope == pytest.approx(1 / 20, rel=1e-8)
    # held fixed, the law of s_0 gives another gradient, which vanishes with Delta
    assert _shared(_steered(0.0).jac) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(
    ("gamma", "reward", "r_max", "apart", "left", "right"),
    [(0.9, 0.0, 10.0, 280.0, 132.3, 102.3), (0.99, 1.0, 1.0, 264.0, 137.2, 99.8)],
)
def test_lemma_9(
    gamma: float, reward: float, r_max: float, apart: float, left: float, right: float
) -> None:
    chains = _chains([[0.875, 0.125]] * 2, np.full((2, 2), reward), gamma, [0.5, 0.5], scale=0.7)
    known = replace(Printed.of([chains], r_max * ONE), R_w=chains.R_w_of_all(r_max * ONE))
    assert known.R_w[0] == pytest.approx(1600, rel=1e-12)

    def clients(share: float) -> list[Estimate]:
        away = share * apart * np.array([[[1.0, -1.0]]])
        both = [chains.w_star + away, chains.w_star - away]
        assert all(np.linalg.norm(w) <= 1600 for w in both)
        return [Estimate(chains, w, r_max * ONE, known.R_w, restarted=False) for w in both]

    measured, bound = synchronised(clients(1.0), known, 2**20 * ONE)
    assert measured.max() == pytest.approx(left, abs=0.05)
    assert bound.max() == pytest.approx(right, abs=0.05)
    # critics a hundredth as far away: the root is a tenth, and the lemma is safe
    measured, bound = synchronised(clients(0.01), known, 2**20 * ONE)
    assert measured.max() < bound.max()


def _q_t(moments: tuple[float, float]) -> tuple[float, float]:
    """Both sides of (33) for one critic with these two moments of ||w_* - w||."""
    r_max, lambda_A = 5.0, 0.1
    known = Printed(
        r_max=r_max * ONE, R_w=2 * r_max / lambda_A * ONE, rho=0 * ONE, zeta=0 * ONE,
        L_J=ONE, C_psi=ONE, gamma=0.5 * ONE,
    )  # fmt: skip
    stated, printed = assembly.eq33(
        known=known, doublings=20 * ONE, beta=1e3 * ONE, a=1e-3 * ONE, K=ONE, omega=ONE,
        first=moments[0] * ONE[None, None], second=moments[1] * ONE[None, None],
    )  # fmt: skip
    return float(stated[0]), float(printed[0])


def test_a_first_moment_bounds_no_second_one() -> None:
    stated, printed = _q_t((100.0, 1e4))
    assert stated - printed == pytest.approx(120_000 - 1200, rel=1e-9)
    # where no error is above one the exchange does no harm
    stated, printed = _q_t((0.5, 0.25))
    assert stated < printed


@pytest.mark.parametrize(("eta", "left", "right"), [((0.0, 1.0), 2.0, 1.0), ((0.1, 0.9), 1.9, 1.2)])
def test_lemma_10(eta: tuple[float, float], left: float, right: float) -> None:
    J = np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]])
    start, stars = np.array([[1.0, 0.0]]), np.array([[[1.0, 0.0], [0.0, 1.0]]])

    def sides(steps: np.ndarray) -> rc.Sides:
        return telescoping.lemma10(J, smoothed(start, stars, steps)[:, 1:], steps, ONE)

    measured, bound = sides(np.array([eta]))
    assert (measured[0], bound[0]) == pytest.approx((left, right), rel=1e-12)
    measured, bound = sides(np.array([eta[::-1]]))
    assert measured[0] <= bound[0]  # steps that do not grow


def test_batches_that_begin_in_one_state() -> None:
    chains = _chains(np.full((2, 2), 0.5), [[1, 0], [1, 0]], 0.9, [1, 0])
    values = chains.values(chains.w_star)
    own = chains.mean(chains.samples(values, np.ones((1, 1))), chains.start)
    np.testing.assert_allclose(own[0], [0.25, -0.25, 0, 0], atol=1e-15)
    np.testing.assert_allclose(
        chains.direction(values)[0, 0], [0.125, -0.125, 0.125, -0.125], atol=1e-15
    )
