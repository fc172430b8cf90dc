"""What FIRM states of mixing, critics and the errors of gradients: by hand, by loops, by search."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from experiments.firm.claims import chains as first, gradient_errors as second
from experiments.firm.claims._chains import WALKS
from experiments.firm.theory import critic_bounds as at, smoothness
from experiments.firm.theory.chain import Chains
from experiments.firm.theory.program import minimiser, regularised
from mgda.constants import Mixing, smoothness_everywhere
from mgda.momdp import MOMDP

ONE = np.ones(1)


def coin(gamma: float, scale: float = 1.0, phi: Any = None) -> Chains:
    """Two states, all transitions 1/2, one half for each action, a reward for the first one."""
    return Chains(
        P=np.full((1, 2, 2, 2), 0.5),
        r=np.array([[[[1.0], [0.0]]] * 2]),
        gamma=gamma * ONE,
        theta=np.zeros((1, 2, 2)),
        phi=np.eye(2)[None] if phi is None else np.asarray(phi, dtype=float)[None, :, None],
        start=np.full((1, 2), 0.5),
        scale=scale * ONE,
    )


def drawn(seed: int, count: int = 50, M: int = 2) -> Chains:
    """Processes with three states and two actions."""
    rng = np.random.default_rng(seed)
    return Chains(
        P=rng.dirichlet(np.ones(3), (count, 3, 2)),
        r=rng.uniform(0, 1, (count, 3, 2, M)),
        gamma=rng.uniform(0.1, 0.9, count),
        theta=rng.normal(size=(count, 3, 2)),
        phi=rng.uniform(-0.7, 0.7, (count, 3, 2)),
        start=rng.dirichlet(np.ones(3), count),
    )


# Lemma 2.


def test_no_pair_serves_all_policies() -> None:
    move = np.array([0.25, 0.999, 1e-4])
    kappa, rho = np.full(3, 2.0), np.full(3, 0.9)
    measured, bound = at.lemma2_uniform(move, kappa, rho, 80)
    times = np.arange(81)
    np.testing.assert_allclose(measured, np.abs(1 - 2 * move)[:, None] ** times / 2)
    np.testing.assert_allclose(bound, np.tile(2 * 0.9**times, (3, 1)))
    assert (measured[0] <= bound[0]).all()
    assert (measured[1:, -1] > 100 * bound[1:, -1]).all()


def test_as_an_l1_norm_the_distance_needs_kappa_2() -> None:
    measured, bound = first.lemma2(drawn(0), 5)
    assert (measured <= bound * (1 + 1e-12)).all()
    assert (2 * measured > bound).any()


# The critic, and what its gradients estimate.


def test_the_radius_is_twice_what_is_needed() -> None:
    stack = dataclasses.replace(coin(0.8, phi=[1, 1]), r=np.full((1, 2, 2, 1), 3.0))
    assert first.Rw(stack, 3 * ONE, 1)[0] == pytest.approx(first.Rw(stack, 3 * ONE, 1)[1])
    assert first.Rw(stack, 3 * ONE)[1] == pytest.approx(2 * first.Rw(stack, 3 * ONE)[0])


def test_a_perfect_critic_does_not_make_the_direction_a_gradient() -> None:
    stack = coin(0.9)
    np.testing.assert_allclose(stack.zeta, 0, atol=1e-26)  # values of at most ten, squared
    for law in (stack.stationary, stack.occupancy):
        measured, bound = at.lemma4(stack, np.ones((1, 1)), law)
        assert measured[0] == pytest.approx(12)
        assert bound[0] < 1e-20
    # one half is the discount at which both factors are one
    assert at.lemma4(coin(0.5), np.ones((1, 1)), np.full((1, 2), 0.5))[0][0] < 1e-20
    assert first.lemma4_corrected(stack, np.ones((1, 1)))[0][0] < 1e-20


def test_restarted_directions_are_gradients_and_stationary_ones_are_not() -> None:
    stack = drawn(1)
    factor = ((1 - stack.gamma) / stack.gamma)[:, None, None]
    np.testing.assert_allclose(
        stack.direction(stack.V, stack.occupancy), factor * stack.jac, rtol=1e-10, atol=1e-14
    )
    apart = np.abs(stack.direction(stack.V) - factor * stack.jac).max(axis=(1, 2))
    assert np.median(apart) > 1e-3


def test_expected_gradients_and_where_the_chain_begins() -> None:
    stack, lam = drawn(2), np.full((50, 2), 0.5)
    w = np.random.default_rng(3).uniform(-1, 1, (50, 2, 2)) * stack.R_w(ONE)[:, None, None]
    measured, target = at.eq10(stack, w, lam, stack.stationary)
    np.testing.assert_allclose(measured, target, rtol=1e-9, atol=1e-11)
    assert np.abs(measured + target).max() > 0.1  # a flipped sign would show
    elsewhere, target = at.eq10(stack, w, lam, stack.start)
    assert np.abs(elsewhere - target).max() > 0.1
    bias, bound = at.eq10_corrected(stack, ONE, w, lam, stack.start)
    assert (bias <= bound).all()
    np.testing.assert_allclose(bias, np.linalg.norm(elsewhere - target, axis=-1))
    long = at.eq10_corrected(stack, ONE, w, lam, stack.start, longest=60)[0]
    np.testing.assert_allclose(long[:, 59] / long[:, 29], 0.5, rtol=1e-6)  # 1 / B


def test_one_lambda_of_assumption_2_serves_every_policy() -> None:
    stack = dataclasses.replace(drawn(8), phi=np.broadcast_to(np.eye(3), (50, 3, 3)))
    common, rng = stack.lambda_A_of_all, np.random.default_rng(9)
    own = [
        dataclasses.replace(stack, theta=rng.normal(scale=5, size=(50, 3, 2))).lambda_A
        for _ in range(20)
    ]
    assert (common > 0).all()
    assert (np.min(own, axis=0) >= common).all()
    assert (stack.lambda_A > np.min(own, axis=0)).any()  # that of one policy does not serve all
    np.testing.assert_allclose(stack.R_w_of_all(ONE), 2 / common)
    alike = coin(0.5)  # transitions that do not depend on the action
    np.testing.assert_allclose(alike.lambda_A_of_all, alike.lambda_A)


# Lemmas 5 to 7.


@pytest.mark.parametrize("c", [1.0, 10.0])
def test_lemma_5_lacks_the_square_of_the_scores_bound(c: float) -> None:
    stack = coin(0.5, c, phi=[1, -1])
    w = stack.w_star + 0.1
    measured, bound = at.lemma5(stack, w, np.ones((1, 1)), 1)
    assert measured[0, 0] == pytest.approx(1.875 * c**2 * 0.01)
    assert bound[0, 0] == pytest.approx(12 * 0.01)
    assert at.lemma5_corrected(stack, w, np.ones((1, 1)), 1)[1][0, 0] == pytest.approx(
        3 * 2 * c**2 * 2.25 * 0.01
    )


def test_lemma_6_lacks_the_square_of_the_scores_bound() -> None:
    for c, holds in [(1.0, True), (41.0, True), (42.0, False)]:
        stack = coin(0.05, c, phi=[1, 1])
        measured, bound = at.lemma6_client(stack, ONE, stack.R_w(ONE), np.ones((1, 1)), 3)
        np.testing.assert_allclose(measured[0], c**2 / 16 / np.arange(1, 4))
        np.testing.assert_allclose(bound[0], 4 * (1 + 4 / 0.95) ** 2 / np.arange(1, 4))
        assert (measured <= bound).all() == holds
        both = second.lemma6(stack, stack, ONE, np.ones((1, 1)), 3)
        np.testing.assert_allclose(both, np.array([measured, bound]) * 3 / 2)


def test_neighbours_correlate_however_fast_the_chain_forgets() -> None:
    """The example of firm.lemma6_factor's note."""
    stack = Chains(
        P=np.array([[[[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.04, 0.96]]]]),
        r=np.array([[[[0.0], [0.0]], [[0.0], [1.0]]]]),
        gamma=0.5 * ONE,
        theta=np.zeros((1, 2, 2)),
        phi=np.array([[[0.0], [1.0]]]),
        start=np.full((1, 2), 0.5),
    )
    measured, bound = second.lemma6_factor(stack, np.ones((1, 1)))
    assert stack.overlap[0] == pytest.approx(0.04)
    once = at.spread(stack, np.ones((1, 1)), 1)[0, 0]
    assert bound[0, 0] == pytest.approx(once * 0.16 / 0.96)
    assert (measured[0, -1], bound[0, 0]) == (
        pytest.approx(0.003812, abs=1e-6),
        pytest.approx(0.001155, abs=1e-6),
    )
    assert (measured < 2 * once).all()


def test_the_variance_is_that_of_loops_over_samples() -> None:
    """One transition: sum over (s, a, s') of probability times the squared distance."""
    stack, lam = drawn(4, count=1), np.array([[0.3, 0.7]])
    mean, moments, samples = np.zeros(6), 0.0, []
    for s, a, after in itertools.product(range(3), range(2), range(3)):
        v = [stack.phi[0, x] @ (lam[0] @ stack.w_star[0]) for x in (s, after)]
        delta = lam[0] @ stack.r[0, s, a] + stack.gamma[0] * v[1] - v[0]
        z = np.zeros((3, 2))
        z[s] = -stack.pi[0, s]
        z[s, a] += 1
        weight = stack.stationary[0, s] * stack.pi[0, s, a] * stack.P[0, s, a, after]
        samples.append((weight, delta * z.ravel()))
        mean += weight * delta * z.ravel()
    moments = sum(weight * float((z - mean) @ (z - mean)) for weight, z in samples)
    assert at.spread(stack, lam, 1)[0, 0] == pytest.approx(moments)


def test_constants_of_the_variance_by_hand() -> None:
    stack, lam = drawn(5, count=1), np.array([[0.3, 0.7]])
    rho, radius, gamma = stack.overlap[0], 2 / stack.lambda_A[0], stack.gamma[0]
    R = np.sqrt(2) * (1 + (1 + gamma) * radius)
    mixing = (1 - rho + 4 * rho) / (1 - rho)
    pairs = [
        (at.lemma6_client(stack, ONE, stack.R_w(ONE), lam, 2), 4 * (1 + 2 * radius) ** 2 * mixing),
        (second.lemma6_corrected(stack, ONE, lam, 2), R**2 * (2 + mixing)),
        (at.lemma6_anywhere(stack, ONE, lam, stack.start, 2), 4 * R**2 * (3 - rho) / (1 - rho)),
    ]
    for (_, bound), expected in pairs:
        np.testing.assert_allclose(bound[0], [expected, expected / 2])
    measured, bound = at.lemma7(stack, ONE, stack.w_star)
    assert bound.ravel() == pytest.approx(R)
    assert measured.shape == (1, 3, 2, 3, 2)


def test_gradients_of_critics_outside_the_ball_are_longer() -> None:
    stack = drawn(6)
    away = np.stack([stack.phi[:, 0]] * 2, axis=1)
    away *= stack.R_w(ONE)[:, None, None] / np.linalg.norm(away, axis=-1, keepdims=True)
    measured, bound = at.lemma7(stack, ONE, away)
    assert (measured <= bound).all()
    measured, bound = at.lemma7(stack, ONE, 10 * away)
    assert (measured > bound).any()


# The smoothness of J.


def walk() -> Any:
    """The walk of firm.eq49_LJ's note."""
    fields = {
        "r": [[1.0, 0, 0, 0, 0, 1]],
        "x": np.ones((1, 6)),
        "start": [[0.0, 0, 0, 0, 1, 0]],
        "horizon": [100.0],
        "memory": [100.0],
        "c": [1e4],
        "logit": [0.0],
        "other": [0.1],
    }
    return WALKS.view(**{name: np.asarray(values) for name, values in fields.items()})


def test_the_printed_constant_is_none_for_long_features() -> None:
    s = walk()
    sides = {}
    for name in ("printed_smoothness", "cited_smoothness", "smoothness"):
        L = getattr(smoothness, name)(s.chains, ONE, s.c)
        measured, bound = smoothness.eq49_shared(s.chains, s.there, s.x, s.gap, L)
        sides[name] = bound[0, 0]
    assert measured[0, 0] == pytest.approx(89404.18, rel=1e-6)
    assert sides["printed_smoothness"] == pytest.approx(79000)
    assert sides["cited_smoothness"] > 20 * measured[0, 0]
    assert sides["smoothness"] > 5 * measured[0, 0]
    # by another implementation, with the features themselves
    x = np.zeros((6, 2, 1))
    x[:, 0] = 1e4
    momdp = MOMDP(P=s.chains.P[0], r=s.chains.r[0], gamma=0.99, mu0=s.chains.start[0], features=x)
    slopes = momdp.at(np.array([[0.0], [1e-5]])).jac(first=1)[:, 0, 0]
    assert abs(slopes[1] - slopes[0]) == pytest.approx(measured[0, 0], rel=1e-9)


def test_constants_are_those_of_the_process() -> None:
    stack = dataclasses.replace(drawn(7, count=1), scale=2 * ONE)
    x = np.zeros((3, 2, 6))
    for k, (s, a) in enumerate(itertools.product(range(3), range(2))):
        x[s, a, k] = 2.0
    momdp = MOMDP(
        P=stack.P[0], r=stack.r[0], gamma=stack.gamma[0], mu0=stack.start[0], features=x, r_max=1.0
    )
    pair = Mixing(1.0, stack.overlap[0])
    for function, form in [
        (smoothness.printed_smoothness, "printed"),
        (smoothness.cited_smoothness, "xu"),
    ]:
        np.testing.assert_allclose(
            function(stack, ONE, stack.C_psi)[0], smoothness.smoothness_formula(momdp, pair, form)
        )
    ours = smoothness.smoothness(stack, ONE, stack.C_psi)[0]
    without = smoothness_everywhere(momdp, first=1)
    gamma, rho = stack.gamma[0], stack.dependence[0]
    assert ours == pytest.approx(without * (1 - gamma) / (1 - gamma * rho))


# Clients.


def test_weights_of_the_same_samples_correlate_the_clients() -> None:
    """firm.eq16_same_samples' note, by a loop over the four outcomes."""
    xi = np.array([[[[[0.0], [0.0]], [[0.0], [3.0]]]] * 2])
    p, mean, beta = np.full((1, 2, 2), 0.5), np.array([[[1.0], [0.0]]]), ONE
    together = apart = 0.0
    for noise in itertools.product([-1.5, 1.5], repeat=2):
        A = np.array([[[1.0, e]] for e in noise])
        lam = minimiser(regularised(A, np.ones(2))).mean(axis=0)
        Z = lam[1] * np.array(noise)
        together += float(Z.mean() ** 2) / 4
        apart += float((Z**2).sum()) / 4 / 4
    measured, bound = second.eq16_same_samples(mean, xi, p, beta)
    assert (measured[0], bound[0]) == (pytest.approx(together), pytest.approx(apart))
    assert measured[0] == pytest.approx(0.09631391)
    assert bound[0] == pytest.approx(0.07223543)
    fixed = at.eq16(xi, p, np.array([[0.25, 0.75]]))
    assert fixed[0] == pytest.approx(fixed[1])
    assert second.eq16_corrected(mean, xi, p, beta)[1][0] == pytest.approx(2 * 1.5**2 / 4)


def test_the_corrected_sum_over_objectives_is_needed() -> None:
    """Rare large losses: the smaller gradient is the noisy one, and the weights go to it."""
    p = np.array([[[0.01, 0.99]]])
    xi = np.zeros((1, 1, 4, 2, 1))
    p4 = np.array([[[0.01 * 0.01, 0.01 * 0.99, 0.99 * 0.01, 0.99 * 0.99]]])
    xi[0, 0, :2, 0, 0] = xi[0, 0, [0, 2], 1, 0] = -1.0
    mean = np.full((1, 2, 1), 100.0)
    measured, bound = second.eq16_corrected(mean, xi, p4, 1e-3 * ONE)
    variance = float(p[0, 0, 0] * p[0, 0, 1])
    assert bound[0] == pytest.approx(2 * variance)
    assert measured[0] > 1.9 * variance
