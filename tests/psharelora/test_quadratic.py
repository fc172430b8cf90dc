"""P-ShareLoRA, proof of Theorem B.3: formulas against NumPy, verdicts, tighter bounds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from experiments.psharelora.claims import algorithms, label_noise
from experiments.psharelora.theory import fitted as fitted, noise as noise, quadratic as at
from linsys.linalg import logistic, precise, precision


@pytest.fixture
def system() -> at.Comparing:
    rng = np.random.default_rng(0)
    return at.Comparing(
        rng.normal(size=(3, 4, 2, 2)),
        np.array([0.5, 1.0, 4.0]),
        rng.integers(0, 2, size=(3, 4)).astype(float),
    )


def user(seed: int, radius: float = 2.0) -> fitted.Fitted:
    rng = np.random.default_rng(seed)
    return fitted.Fitted(
        rng.normal(size=(5, 4)),
        rng.normal(size=(5, 4, 1)),
        rng.integers(0, 2, size=(5, 4)).astype(float),
        np.full(5, radius),
        rng.uniform(-0.7, 0.7, size=(5, 2)),
    )


def test_derivatives_are_differences(system: at.Comparing) -> None:
    w, h = np.random.default_rng(1).normal(size=(3, 2)), 1e-5
    for c in range(2):
        step = h * np.eye(2)[c]
        slope = (system.f(w + step) - system.f(w - step)) / (2 * h)
        assert_allclose(system.gradient(w)[:, c], slope, atol=1e-8)
        bend = (system.gradient(w + step) - system.gradient(w - step)) / (2 * h)
        assert_allclose(system.hessian(w)[:, c], bend, atol=1e-8)
        moved = (system.gap(w + step) - system.gap(w - step)) / (2 * h)
        assert_allclose(system.steps(w)[..., c], moved, atol=1e-8)
        bent = (system.steps(w + step) - system.steps(w - step)) / (2 * h)
        assert_allclose(system.bends(w)[:, :, c], bent, atol=1e-7)


def test_the_weighted_norm_is_that_of_sigma(system: at.Comparing) -> None:
    rng = np.random.default_rng(2)
    u, w = rng.normal(size=(2, 3, 2))
    x = system.steps(w)
    for b in range(3):
        Sigma = x[b].T @ x[b] / 4
        assert system.weighted(u, w)[b] == pytest.approx(np.sqrt(u[b] @ Sigma @ u[b]))
        assert fitted.squared(u, fitted.second_moment(x))[b] == pytest.approx(u[b] @ Sigma @ u[b])


@pytest.mark.parametrize("radius", [0.3, 20.0])
def test_the_estimate_maximises_the_likelihood_over_the_ball(radius: float) -> None:
    # a small ball has the estimate on its boundary, a large one inside unless labels separate
    problem = user(3, radius)
    for b in range(5):
        x, o = problem.x[b], problem.o[b]

        def loss(w: np.ndarray, x: np.ndarray = x, o: np.ndarray = o) -> float:
            return -float((o * (x @ w) - np.log1p(np.exp(x @ w))).mean())

        best = minimize(
            loss,
            np.zeros(2),
            constraints={"type": "ineq", "fun": lambda w: radius**2 - w @ w},
            options={"ftol": 1e-14},
            method="SLSQP",
        )
        assert loss(problem.hat[b]) <= best.fun + 1e-9
        assert np.linalg.norm(problem.hat[b]) <= radius * (1 + 1e-12)


def test_the_maximiser_keeps_high_precision() -> None:
    a, o = [[1.0, 2.0]], [[1.0, 0.0]]
    with precision(60):
        t = fitted.maximiser(precise(a), precise(o), precise([3.0]))
        x = t[:, None] * precise(a)
        slope = ((precise(o) - logistic(x)) * precise(a)).sum()
        assert abs(slope) < 1e-50


def test_statements_against_their_words() -> None:
    problem = user(4)
    shift = np.full(5, 0.3)
    left, right = problem.eq_B11(shift)
    for b in range(5):
        x, o, d = problem.x[b], problem.o[b], problem.d[b]
        Sigma, rest = x.T @ x / 4, o - logistic(x @ problem.diamond[b])
        gradient = x.T @ rest / 4
        M = Sigma + 0.3 * np.eye(2)
        assert problem.rise[b] == pytest.approx(gradient @ d)
        assert right[b] == pytest.approx(
            np.sqrt(gradient @ np.linalg.solve(M, gradient) * (d @ M @ d))
        )
        reach = np.linalg.norm(x, axis=1).max() * 2
        assert left[b] == pytest.approx(logistic(reach) * logistic(-reach) * (d @ Sigma @ d))
        least = np.linalg.eigvalsh(Sigma)[0]
        expected = logistic(reach) * logistic(-reach) * least * (d @ d)
        assert problem.eq_B10_corrected()[0][b] == pytest.approx(expected)


def test_every_outcome_has_its_chance_and_no_mean() -> None:
    gap = np.array([[0.3, -1.2, 2.0]])
    V, chance = noise.every_outcome(gap)
    assert chance.sum() == pytest.approx(1)
    assert_allclose((chance[..., None] * V).sum(axis=1), 0, atol=1e-15)
    up = logistic(gap[0])
    for row, labels in zip(V[0], product((1, 0), repeat=3), strict=True):
        assert_allclose(row, np.array(labels) - up)


def test_the_quadratic_form_is_the_norm_of_the_mean() -> None:
    rng = np.random.default_rng(5)
    x, v, shift = rng.normal(size=(1, 5, 2)), rng.normal(size=(1, 5)), np.array([0.2])
    M = noise.kernel(x, shift)[0]
    mean = x[0].T @ v[0] / 5
    form = mean @ np.linalg.solve(x[0].T @ x[0] / 5 + 0.2 * np.eye(2), mean)
    assert v[0] @ M @ v[0] == pytest.approx(form)
    assert label_noise.eq_B13(x, v, shift)[0][0] == pytest.approx(np.sqrt(form))
    trace, squared, largest = (part[0] for part in noise.traces(x, shift))
    assert (trace, squared) == pytest.approx((np.trace(M), np.trace(M @ M)))
    assert largest == pytest.approx(np.linalg.norm(M, 2))


def test_the_tail_bound_before_its_simplification() -> None:
    rng = np.random.default_rng(6)
    for t in (0.1, 0.5, 1.0, 2.0, 3.0):
        x, gap = rng.normal(size=(20, 6, 2)), rng.normal(size=(20, 6))
        V, chance = noise.every_outcome(gap)
        M = noise.kernel(x, np.full(20, 1e-3))
        values = np.einsum("bki,bij,bkj->bk", V, M, V)
        limit = np.full(20, (2 + 2 * np.sqrt(2 * t) + 2 * t) / 24)
        assert (noise.tail(values, chance, limit) <= np.exp(-t)).all()
        assert (2 * 2 + 3 * t) / 24 >= limit[0]


@pytest.mark.parametrize("n", [2, 5, 8])
def test_a_learned_basis_sees_all_of_the_noise(n: int) -> None:
    o = np.random.default_rng(7).integers(0, 2, size=(1, n)).astype(float)
    value, _ = label_noise.eq_B14(o, np.ones(1), np.zeros(1), np.ones(1))
    assert value[0] == pytest.approx(1 / 4)


def test_the_maximiser_of_bent_rewards_is_the_best_of_many_points() -> None:
    rng = np.random.default_rng(8)
    psi = np.concatenate([rng.normal(size=(20, 2, 1, 1)), np.zeros((20, 2, 1, 1))], axis=2)
    system = at.Comparing(psi, rng.uniform(0.5, 2, size=20), rng.integers(0, 2, (20, 2)) * 1.0)
    radius = rng.uniform(0.5, 2, size=20)
    w = at.maximiser(system, radius)
    assert (np.abs(w[:, 0]) <= radius).all()
    grid = np.linspace(-1, 1, 4001)
    heights = np.stack([system.f((radius * share)[:, None]) for share in grid], axis=1)
    assert_allclose(system.f(w), heights.max(axis=1), atol=1e-6)
    assert (system.f(w) >= heights.max(axis=1) - 1e-12).all()
    noted = at.Comparing(np.array([[[[2.0], [0]], [[1], [0]]]]), np.ones(1), np.array([[1.0, 0]]))
    assert at.maximiser(noted, np.ones(1))[0, 0] == pytest.approx(0.30, abs=0.005)
    slopes = [noted.gradient(np.array([[place]]))[0, 0] for place in (-0.88, -0.86)]
    assert slopes[0] < 0 < slopes[1]  # a minimum at -0.87


def test_the_printed_updates_descend_the_likelihood() -> None:
    rng = np.random.default_rng(9)
    A, B, x = (rng.normal(size=(1, *shape)) for shape in ((3, 2), (2, 2), (3, 2)))
    o, share = np.ones(1), np.array([1e-4])
    step = 1e-6
    for claim, sign in ((algorithms.algorithm_2, -1), (algorithms.algorithm_2_corrected, 1)):
        gain, bound = claim(A, B, x, o, share)
        slopes = np.zeros((3, 2))
        for place in np.ndindex(3, 2):
            up, down = A[0].copy(), A[0].copy()
            up[place] += step
            down[place] -= step
            values = [np.log(logistic((M @ B[0] * x[0]).sum())) for M in (up, down)]
            slopes[place] = (values[0] - values[1]) / (2 * step)
        eta = 8e-4 / ((x[0] @ B[0].T) ** 2).sum()
        assert gain[0] == pytest.approx(sign * eta * (slopes**2).sum(), rel=1e-3)
        assert (gain >= bound).all() == (sign == 1)
