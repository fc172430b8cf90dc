"""FSLoRA's deterministic statements: formulas against loops, verdicts, tighter bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from experiments.fslora.claims import bias, monotone, rivals, smoothness
from experiments.fslora.claims.sketches import lemma_d1
from experiments.fslora.theory import (
    bias as sketching_bias,
    hessians,
    smoothness as sketching_smoothness,
)
from experiments.fslora.theory.sketching import Devices, sketches as all_sketches
from experiments.fslora.theory.steps import LocalSteps, covariances, total_update
from linsys.sketching import LeastSquares, Modules, baselines, exact
from linsys.sketching.low_rank import truncate
from linsys.sketching.sketch import covariance, every_support
from linsys.sketching.smoothness import hessian_under


@pytest.fixture
def devices() -> Devices:
    """Three instances of two devices of ranks (1, 2), (3, 4) and (2, 1), r = 4."""
    rng = np.random.default_rng(0)
    return Devices(
        x=rng.normal(size=(3, 2, 2, 2)),
        d=rng.normal(size=(3, 2, 2, 3)),
        B=rng.normal(size=(3, 3, 4)),
        A=rng.normal(size=(3, 4, 2)),
        k=np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 1.0]]),
    )


def system(devices: Devices, at: int) -> tuple[LeastSquares, np.ndarray]:
    """An instance as float64 code has it: the devices, and X."""
    m, n = devices.d.shape[-1], devices.x.shape[-1]
    problem = LeastSquares(np.zeros((m, n)), tuple(devices.x[at]), tuple(-devices.d[at]))
    return problem, problem.modules.join([(devices.B[at], devices.A[at])])


def test_devices_agree_with_the_float64_code(devices: Devices) -> None:
    rng = np.random.default_rng(1)
    U, V = rng.normal(size=devices.B.shape), rng.normal(size=devices.A.shape)
    variance = sketching_smoothness.sketch_variance(devices)
    actions = hessians._every_action(devices, U, V)
    for b in range(3):
        own, X = system(devices, b)
        direction = own.modules.join([(U[b], V[b])]).ravel()
        for i in range(2):
            k = int(devices.k[b, i])
            assert devices.losses[b, i] == pytest.approx(own.loss(i, X))
            np.testing.assert_allclose(devices.gradients[b, i], own.gradient(i, X).ravel())
            assert devices.sketched_losses[b, i] == pytest.approx(exact.sketched_loss(own, i, X, k))
            np.testing.assert_allclose(
                devices.sketched_gradients[b, i],
                exact.sketched_gradient(own, i, X, k).ravel(),
                atol=1e-12,
            )
            assert variance[b, i] == pytest.approx(exact.sketch_variance(own, i, X, k), rel=1e-12)
            worst = 0.0
            for chosen in every_support(4, k):
                one = replace(own, batch=1)
                worst = max(worst, exact.data_variance(one, i, X[chosen], 4 / k))
                at = held(devices.S[b, i], devices.chance[b, i], chosen)
                np.testing.assert_allclose(
                    actions[b, i, at],
                    hessian_under(own, i, X, chosen) @ direction,
                    atol=1e-12,
                )
            assert smoothness.data_variance(devices)[b, i] == pytest.approx(worst)


def held(S: np.ndarray, chance: np.ndarray, chosen: np.ndarray) -> int:
    """Where the sketch of a support is among all of them."""
    [at] = [j for j, row in enumerate(S) if chance[j] > 0 and set(np.flatnonzero(row)) == {*chosen}]
    return at


def test_sketches_are_all_subsets_of_their_size() -> None:
    for r in (1, 2, 3, 4):
        for k in range(1, r + 1):
            S, chance = all_sketches(np.array(float(k)), r)
            kept = {tuple(np.flatnonzero(row)) for row in S[chance > 0]}
            assert kept == set(combinations(range(r), k))
            np.testing.assert_allclose(chance[chance > 0], 1 / len(kept))
            np.testing.assert_allclose(covariances(np.array(float(k)), r), covariance(r, k))


def test_lemma_d1_needs_the_mean_zero() -> None:
    """Its measure takes the mean off: the same outcomes around 1 would have N^2 more."""
    values, chance = np.array([[[[1.0], [-1.0]]] * 2]), np.full((1, 2, 2), 0.5)
    assert [float(side[0]) for side in lemma_d1(values, chance)] == [2.0, 2.0]
    assert [float(side[0]) for side in lemma_d1(values + 1, chance)] == [2.0, 2.0]


def test_the_sign_of_the_total_update() -> None:
    one = np.ones((1, 1))
    steps = LocalSteps(
        x=np.ones((1, 1, 1, 1, 1)),
        d=-2 * np.ones((1, 1, 1, 1, 1)),
        B=one[None],
        A=one[None],
        S=one[None],
        gamma=np.ones(1),
    )
    moved, printed = total_update(steps, 1)
    np.testing.assert_array_equal(moved, [[[1.0, 1.0]]])
    np.testing.assert_array_equal(printed, -moved)


def test_the_loss_of_a_sketch_is_biased() -> None:
    one = Devices(
        x=np.ones((1, 1, 1, 1)),
        d=-np.ones((1, 1, 1, 1)),
        B=np.array([[[1.0, 0.0]]]),
        A=np.array([[[1.0], [0.0]]]),
        k=np.ones((1, 1)),
    )
    assert float(one.losses[0, 0]) == 0.0
    assert float(one.sketched_losses[0, 0]) == 0.5


def test_rank_one_targets_are_not_shrunk_and_others_are() -> None:
    """Equal components attain f^S = 0 for one output; (1, 1) has 1/2 at least, f has 0."""
    for r, k in ((2, 1), (3, 2), (4, 1)):
        part = np.sqrt(3.0 / r) * np.ones((1, 1, r))
        one = Devices(
            x=np.ones((1, 1, 1, 1)),
            d=-3 * np.ones((1, 1, 1, 1)),
            B=part,
            A=np.swapaxes(part, 1, 2),
            k=np.full((1, 1), float(k)),
        )
        assert float(one.sketched_losses[0, 0]) == pytest.approx(0, abs=1e-14)
    ones, k = np.ones(1), np.ones(1)
    for rank, shrunk, least in ((1.0, 0.5, 0.5), (2.0, 0.75, 0.25), (4.0, 1.0, 0.0)):
        measured, bound = bias.minimum_attained(ones, ones, k * rank)
        np.testing.assert_allclose(measured, least, atol=1e-15)
        np.testing.assert_allclose(bound, least, atol=1e-15)
        sigma = sketching_bias.least(ones, ones, sketching_bias.coupling(k * rank, 4))
        if rank > 1:
            np.testing.assert_allclose(sigma, shrunk)
    gap, _ = bias.stationary(ones, ones, 2 * k)
    assert gap[0, 0] ** 2 == pytest.approx(3 / 16)


def test_least_is_the_minimum_of_its_objective() -> None:
    rng = np.random.default_rng(2)
    grid = np.linspace(0, 3, 301)
    one, two = np.meshgrid(grid, grid)
    for c in (0.0, 0.2, 0.7, 1.0):
        t = np.sort(rng.uniform(0.5, 2.5, size=2))[::-1]
        values = ((one - t[0]) ** 2 + (two - t[1]) ** 2 + 2 * c * one * two) / 2
        a, b = sketching_bias.least(t[:1], t[1:], np.array([c]))
        objective = ((a - t[0]) ** 2 + (b - t[1]) ** 2 + 2 * c * a * b)[0] / 2
        # the objective changes by at most its slope, below 6, over a cell of 0.01
        assert objective <= values.min() + 1e-12
        assert values.min() <= objective + 0.12


def test_minimisers_exist_where_the_smaller_singular_value_is_lost_in_rounding() -> None:
    """Targets of products whose singular values are ``gap`` and some 1e-16 of it."""
    rng = np.random.default_rng(5)
    gap = rng.uniform(0.01, 10.0, size=2000)
    two = gap * 10.0 ** rng.uniform(-18.0, -15.0, size=gap.shape)
    lost = 0
    for k in (2, 3):
        rank, c = np.full(gap.shape, k), sketching_bias.coupling(np.array(k), 4)
        first, second = two + gap + c * two, two + c * (two + gap)
        one, other = sketching_bias.least(first, second, c)
        np.testing.assert_allclose(one, gap, rtol=1e-14)
        assert ((other >= 0) & (other <= 1e-14 * gap)).all()
        measured, bound = bias.minimum_attained(first, second, rank)
        np.testing.assert_allclose(measured, bound, rtol=1e-12)
        by_sum = second - c * ((first + second) / (1 + c))  # its sign is not kept by rounding
        lost += int(((second > c * first) & (by_sum < 0)).sum())
    assert lost > 0


def test_descent_on_the_sketched_loss_ends_at_its_minimum() -> None:
    """Plain gradient descent on f^S of rank 4 and k = 2 finds 1/4, where f would reach zero."""
    own = LeastSquares(np.zeros((2, 2)), (np.sqrt(2) * np.eye(2),), (np.sqrt(2) * np.eye(2),))
    X = np.random.default_rng(3).normal(size=(4, 4))
    for _ in range(4000):
        X = X - 0.1 * exact.sketched_gradient(own, 0, X, 2)
    assert exact.sketched_loss(own, 0, X, 2) == pytest.approx(0.25, rel=1e-9)
    assert np.abs(exact.sketched_gradient(own, 0, X, 2)).max() < 1e-9
    np.testing.assert_allclose(own.modules.products(X)[0], 0.75 * np.eye(2), atol=1e-7)
    # factors that are not balanced make it larger
    assert (own.gradient(0, X) ** 2).sum() >= 3 / 16 - 1e-9


def test_the_sketch_variance_can_grow_with_the_rank() -> None:
    one = Devices(
        x=np.ones((1, 1, 1, 1)),
        d=-2 * np.ones((1, 1, 1, 1)),
        B=np.array([[[1.0, 0.0, 0.0, 0.0]]]),
        A=np.array([[[1.0], [0.0], [0.0], [0.0]]]),
        k=2 * np.ones((1, 1)),
    )
    more, now = monotone.k_monotone_sigma(one)
    assert float(now[0, 0]) == 0.0
    assert float(more[0, 0]) == pytest.approx(1 / 3 * 2 * (4 / 3 - 2) ** 2)


def test_both_variances_grow_with_the_sixth_power(devices: Devices) -> None:
    for variance in (sketching_smoothness.sketch_variance, smoothness.data_variance):
        one, two = (
            variance(replace(devices, B=s * devices.B, A=s * devices.A))[devices.k < devices.r]
            for s in (1e4, 2e4)
        )
        # what is left out of the ratio is of order 1 / s^2
        np.testing.assert_allclose(two / one, 64, rtol=1e-5)


def test_hessian_counterexample_of_proposition_d4() -> None:
    one = Devices(
        x=np.ones((1, 1, 1, 1)),
        d=-np.ones((1, 1, 1, 1)),
        B=np.array([[[1.0, 0.0]]]),
        A=np.array([[[1.0], [0.0]]]),
        k=np.ones((1, 1)),
    )
    measured, bound = hessians.d4_local(one)
    np.testing.assert_allclose(measured[0, 0, [0, 3]], [10, 5])
    np.testing.assert_allclose(bound[0, 0, [0, 3]], [8, 4])
    measured, bound = hessians.d4_local_corrected(one)
    np.testing.assert_allclose(measured[0, 0, [0, 3]], [10, 5])
    np.testing.assert_allclose(bound[0, 0, [0, 3]], [10, 5])


def test_rival_formulas_agree_with_the_algorithms() -> None:
    rng = np.random.default_rng(4)
    k = np.array([[1.0, 3.0, 2.0]])
    B, A = rng.normal(size=(1, 3, 2, 3)), rng.normal(size=(1, 3, 3, 2))
    P = rivals.mean_product(B, A, k)[0]
    left, right = truncate((P, np.eye(2)), 1)
    cut, whole = rivals.flexlora_truncation(B, A, k)
    assert whole[0] == pytest.approx((P**2).sum())
    assert ((P - left @ right) ** 2).sum() == pytest.approx(
        float(cut[0]) - np.linalg.norm(P, 2) ** 2
    )
    # devices without data do not move: the algorithm is its aggregation alone
    still = LeastSquares(np.zeros((2, 2)), (np.zeros((1, 2)),) * 3, (np.zeros((1, 2)),) * 3)
    X = Modules([(2, 2)]).join([(B[0, 0], A[0, 0])])
    algorithm = baselines.HeteroLoRA(gamma=1.0, H=1, ranks=[1, 3, 2])
    state, _ = algorithm.round(algorithm.init(X, still), still)
    idle, _ = rivals.heterolora_idle(B[:, 0], A[:, 0], k)
    np.testing.assert_allclose(still.modules.products(state.X)[0], idle[0], atol=1e-14)
