"""Maximum likelihood against scipy's optimisers, its optimality conditions, and linear programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from linsys import InputError
from linsys.preference import Comparisons, PreferenceSystem, distance
from linsys.preference.estimators import (
    Fit,
    fit_full,
    fit_global,
    fit_local,
    fit_representation,
    fit_shared,
)
from linsys.preference.likelihood import factor_gradients, gradient, log_likelihood
from linsys.preference.profile import Profile
from linsys.preference.separability import separated

Array = np.ndarray


def users(N: int, d1: int, d2: int, k: int, n: int, seed: int = 0, size: float = 1.0) -> Any:
    """Comparisons with Gaussian features, and the factor behind them."""
    rng = np.random.default_rng(seed)
    B = np.linalg.qr(rng.standard_normal((d1, k)))[0]
    W = size * rng.standard_normal((N, k, d2)) / np.sqrt(k * d2)
    X = rng.standard_normal((N, n, d1, d2))
    chance = expit(np.einsum("njab,nab->nj", X, B @ W))
    return Comparisons.of_users(X, (rng.random((N, n)) < chance).astype(float)), B


DATA, TRUTH = users(6, 5, 3, 2, 80)


def climb(data: Comparisons, B: Array, W: Array, ridge: float) -> tuple[float, Array]:
    """The maximum that scipy reaches over both factors, and Delta there."""

    def loss(x: Array) -> tuple[float, Array]:
        B_, W_ = x[: B.size].reshape(B.shape), x[B.size :].reshape(W.shape)
        Delta = B_ @ W_
        by_B, by_W = factor_gradients(data, B_, W_)
        by_B = by_B - ridge * np.einsum("nab,nkb->ak", Delta, W_)
        by_W = by_W - ridge * (B_.T @ Delta)
        value = log_likelihood(data, Delta).sum() - 0.5 * ridge * (Delta**2).sum()
        return -value, -np.concatenate([by_B.ravel(), by_W.ravel()])

    start = np.concatenate([B.ravel(), W.ravel()])
    optimum = minimize(
        loss, start, jac=True, method="L-BFGS-B",
        options={"ftol": 0.0, "gtol": 1e-9, "maxiter": 5000, "maxfun": 10000},
    )  # fmt: skip
    B_, W_ = optimum.x[: B.size].reshape(B.shape), optimum.x[B.size :].reshape(W.shape)
    return -optimum.fun, B_ @ W_


def objective(data: Comparisons, fit: Fit, ridge: float) -> float:
    assert fit.loglik == pytest.approx(log_likelihood(data, fit.Delta).sum(), rel=1e-12)
    np.testing.assert_allclose(fit.B @ fit.W, fit.Delta, atol=1e-12)
    np.testing.assert_allclose(fit.B.mT @ fit.B - np.eye(fit.B.shape[-1]), 0.0, atol=1e-12)
    return fit.loglik - 0.5 * ridge * float((fit.Delta**2).sum())


@pytest.mark.parametrize("ridge", [0.0, 2.0])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_shared_reaches_the_maximum_of_scipy(k: int, ridge: float) -> None:
    fit = fit_shared(DATA, k, ridge=ridge)
    assert fit.converged
    assert fit.separable == ()
    rng = np.random.default_rng(3)
    nearby = fit.B + 0.05 * rng.standard_normal(fit.B.shape)
    value, Delta = climb(DATA, nearby, fit.W, ridge)
    assert objective(DATA, fit, ridge) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(fit.Delta, Delta, atol=1e-5)  # the root of what scipy resolves


@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_global_local_and_full_reach_the_maximum_of_scipy(ridge: float) -> None:
    pooled, N = DATA.pooled(), DATA.users
    fit = fit_global(DATA, 2, ridge=ridge)
    value, Delta = climb(pooled, fit.B, fit.W[:1] + 0.1, ridge)
    assert fit.loglik - 0.5 * ridge * (fit.Delta[0] ** 2).sum() == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(fit.Delta, np.broadcast_to(Delta, fit.Delta.shape), atol=1e-5)
    for rank in (1, 3):
        fit = fit_local(DATA, rank, ridge=ridge)
        values = [
            climb(DATA.user(i), fit.B[i] + 0.01, fit.W[i : i + 1], ridge)[0] for i in range(N)
        ]
        assert objective(DATA, fit, ridge) == pytest.approx(sum(values), rel=1e-12)
    full = fit_full(DATA, ridge=ridge)
    np.testing.assert_allclose(full.Delta, fit.Delta, atol=1e-8)  # rank 3 = d2 is no constraint
    np.testing.assert_allclose(gradient(DATA, full.Delta), ridge * full.Delta, atol=1e-8)


def test_representation_freezes_the_pooled_factor() -> None:
    fit = fit_representation(DATA, 2)
    np.testing.assert_array_equal(fit.B, fit_global(DATA, 2).B)
    np.testing.assert_allclose(fit.B.T @ gradient(DATA, fit.Delta), 0.0, atol=1e-8)


def test_more_sharing_fits_less_well() -> None:
    pooled, frozen = fit_global(DATA, 2), fit_representation(DATA, 2)
    shared, local, full = fit_shared(DATA, 2), fit_local(DATA, 2), fit_full(DATA)
    assert pooled.loglik < frozen.loglik < shared.loglik < local.loglik < full.loglik


@pytest.mark.parametrize("bound", [0.05, 0.5, 0.9])
def test_the_bound_holds_with_its_multipliers(bound: float) -> None:
    """Concave in the heads: the Karush-Kuhn-Tucker conditions are sufficient there."""
    for fit in (fit_shared(DATA, 2, bound=bound), fit_full(DATA, bound=bound)):
        size = np.linalg.norm(fit.Delta, axis=(1, 2))
        assert (size <= bound * (1 + 1e-12)).all()
        G = fit.B.T @ gradient(DATA, fit.Delta)
        multipliers = (G * fit.W).sum(axis=(1, 2)) / size**2
        np.testing.assert_allclose(G, multipliers[:, None, None] * fit.W, atol=1e-6)
        active = size > bound * (1 - 1e-9)
        assert active.any()
        assert (multipliers[active] > 0).all()
        np.testing.assert_allclose(multipliers[~active], 0.0, atol=1e-6)
        by_B, _ = factor_gradients(DATA, fit.B, fit.W)
        outside = by_B - fit.B @ (fit.B.T @ by_B)
        if fit.B.shape[1] == 2:
            np.testing.assert_allclose(outside, 0.0, atol=1e-6)
        assert fit.converged


def test_gauge_invariance() -> None:
    """B G and G^-1 W is the same model, whatever G."""
    rng = np.random.default_rng(5)
    B, G = rng.standard_normal((5, 2)), rng.standard_normal((2, 2)) * [1e3, 1e-2]
    one, other = fit_shared(DATA, 2, start=B), fit_shared(DATA, 2, start=B @ G)
    np.testing.assert_allclose(one.Delta, other.Delta, atol=1e-8)
    assert distance(one.B, other.B) < 1e-7  # the square root of rounding in its projectors
    again = fit_shared(DATA, 2, start=one.B, tol=1e-5)  # the heads are exact where no step is taken
    np.testing.assert_allclose(again.Delta, one.Delta, atol=1e-8)


def test_pairs_threads_and_orders_do_not_matter() -> None:
    rng = np.random.default_rng(6)
    features, pairs = rng.standard_normal((30, 4, 2)), rng.integers(0, 30, 70 * 40)
    labels = rng.integers(0, 2, len(pairs))
    starts = np.arange(0, len(pairs) + 1, 40)
    listed = Comparisons(features, labels, starts, pairs=pairs)
    fit = fit_shared(listed, 2)
    spread = fit_shared(Comparisons(features[pairs], labels, starts), 2)
    np.testing.assert_allclose(spread.Delta, fit.Delta, atol=1e-8)
    np.testing.assert_array_equal(fit_shared(listed, 2, threads=2).Delta, fit.Delta)


@pytest.mark.parametrize("d2", [1, 3])
def test_soft_labels_are_recovered_exactly(d2: int) -> None:
    """The population's maximum is the truth where Delta has rank k: Sigma_tail = 0."""
    rng = np.random.default_rng(7)
    N, k = 12, 2
    psi = rng.standard_normal((25, 6, d2))
    B = np.linalg.qr(rng.standard_normal((6, k)))[0]
    Delta = B @ rng.standard_normal((N, k, d2))
    system = PreferenceSystem(psi, 0.3 * rng.standard_normal((N, 6, d2)), Delta)
    fit = fit_shared(system.population(), k)
    assert fit.converged
    np.testing.assert_allclose(fit.Delta, Delta, atol=1e-8)
    assert distance(fit.B, B, form="sine") < 1e-8


def test_the_spectral_start_is_near_and_does_not_decide() -> None:
    data, B = users(200, 6, 2, 2, 50, seed=8)
    profile = Profile(data, 0.0, np.inf, 1)
    assert distance(profile.spectral_start(2), B) < 0.3
    rng = np.random.default_rng(9)
    fit = fit_shared(data, 2)
    for _ in range(3):
        other = fit_shared(data, 2, start=rng.standard_normal((6, 2)))
        assert other.loglik == pytest.approx(fit.loglik, rel=1e-12)


@pytest.mark.parametrize(("ridge", "bound"), [(0.0, np.inf), (1.5, np.inf), (0.5, 0.6)])
def test_the_profiled_hessian(ridge: float, bound: float) -> None:
    """Its product, and the heads' response, are derivatives of gradient and heads."""
    profile = Profile(DATA, ridge, bound, 1)
    rng, nobody = np.random.default_rng(10), np.zeros(DATA.users, dtype=bool)
    B = np.linalg.qr(rng.standard_normal((5, 2)))[0]
    V = rng.standard_normal((5, 2))
    V -= B @ (B.T @ V)
    zero = np.zeros((DATA.users, 3, 2))

    def at(t: float) -> tuple[Array, Array]:
        # through an orthonormal basis, and back to the coordinates of B + t V
        Q, R = np.linalg.qr(B + t * V)
        heads = profile.heads(Q, zero, nobody)
        G, _ = profile.gradients(heads)
        W = heads.W @ np.linalg.inv(R).T
        return np.einsum("nca,nck->ak", G, W), W

    heads = profile.heads(B, zero, nobody)
    G, rest = profile.gradients(heads)
    assert rest < 1e-8
    product, response = profile.product(heads, G, V)
    h = 1e-4
    by_B, by_W = ((8 * (a - b) - (c - d)) / (12 * h) for a, b, c, d in zip(
        at(h), at(-h), at(2 * h), at(-2 * h), strict=True
    ))  # fmt: skip
    np.testing.assert_allclose(product, -(by_B - B @ (B.T @ by_B)), atol=1e-6)
    np.testing.assert_allclose(response, by_W, atol=1e-6)


def random_problem(rng: np.random.Generator) -> tuple[Array, Array]:
    """Small integers make ties, duplicates and quasi-separation frequent."""
    n, p = rng.integers(2, 9), rng.integers(1, 4)
    x = rng.integers(-2, 3, (n, p)).astype(float)
    labels = rng.choice([0.0, 1.0, 1.0, 0.5], n) if rng.random() < 0.3 else rng.integers(0, 2, n)
    return x, labels.astype(float)


@pytest.mark.slow
def test_newton_and_the_linear_program_agree_on_who_is_separable() -> None:
    rng, both = np.random.default_rng(11), [0, 0]
    problems = [random_problem(rng) for _ in range(300)]
    data = Comparisons.of_users(
        [np.pad(x, ((0, 0), (0, 3 - x.shape[1])))[:, :, None] for x, _ in problems],
        [labels for _, labels in problems],
        soft=True,
    )
    fit = fit_full(data, separable="report")
    for i, (x, labels) in enumerate(problems):
        expected = separated(x, labels)
        both[expected] += 1
        assert (i in fit.separable) == expected, (x, labels)
    assert min(both) > 50
    assert fit.converged
    assert np.isfinite(fit.Delta).all()
    # where there is a maximum, there it is
    slopes = np.delete(gradient(data, fit.Delta), list(fit.separable), axis=0)
    np.testing.assert_allclose(slopes, 0.0, atol=1e-8)


def test_a_newton_step_below_one_proves_that_a_maximum_exists() -> None:
    rng, longest = np.random.default_rng(12), []
    for _ in range(300):
        x, labels = random_problem(rng)
        s = expit(x @ rng.normal(scale=2.0, size=x.shape[1]))
        H = x.T @ ((s * (1 - s))[:, None] * x)
        if np.linalg.cond(H) > 1e6:
            continue
        move = float(np.abs(x @ np.linalg.solve(H, x.T @ (labels - s))).max())
        if separated(x, labels):
            assert move >= 1.0
            longest.append(move)
    assert len(longest) > 50
    # one comparison at z: the step is 1 / sigmoid(z), so that no number above 1 would do
    assert 1.0 < 1.0 / expit(8.0) < 1.001


def test_separable_users_are_named() -> None:
    rng = np.random.default_rng(13)
    X = rng.standard_normal((5, 60, 4, 1))
    labels = rng.integers(0, 2, (5, 60)).astype(float)
    for i in (1, 3):
        labels[i] = X[i, :, 0, 0] > 0
    data = Comparisons.of_users(X, labels)
    said = r"separable comparisons\), here of users 1, 3; set `bound` or `ridge`.*'report'"
    for fit in (
        lambda **o: fit_full(data, **o),
        lambda **o: fit_local(data, 2, **o),
        lambda **o: fit_shared(data, 3, start=np.eye(4)[:, :3], **o),
    ):
        with pytest.raises(InputError, match=said) as caught:
            fit()
        assert "\n" not in str(caught.value)
        estimate = fit(separable="report")
        assert estimate.separable == (1, 3)
        assert estimate.converged
        assert np.isfinite(estimate.Delta).all()
        for options in ({"ridge": 0.1}, {"bound": 5.0}):
            with_limit = fit(**options)
            assert with_limit.separable == ()
            assert with_limit.converged
    # they have no part in the factor
    rest = Comparisons.of_users(X[[0, 2, 4]], labels[[0, 2, 4]])
    report = fit_shared(data, 3, start=np.eye(4)[:, :3], separable="report")
    alone = fit_shared(rest, 3, start=np.eye(4)[:, :3])
    assert distance(report.B, alone.B, form="sine") < 1e-8


@pytest.mark.parametrize("seed", [0, 7, 10])
def test_users_whom_a_factor_comes_to_separate(seed: int) -> None:
    data, _ = users(20, 6, 2, 2, 25, seed=seed, size=1.5)
    fit = fit_shared(data, 2, separable="report")
    assert fit.separable
    assert fit.converged
    # the factor is the others' best, and every head the best for the factor
    rest = np.delete(np.arange(20), fit.separable)
    G = gradient(data, fit.Delta)
    G[list(fit.separable)] = 0.0
    np.testing.assert_allclose(np.einsum("nab,nkb->ak", G, fit.W), 0.0, atol=1e-6)
    np.testing.assert_allclose(fit.B.T @ G[rest], 0.0, atol=1e-6)
    for i in fit.separable:
        Q = np.einsum("nab,ak->nkb", data.user(i).features, fit.B).reshape(25, -1)
        if not separated(Q, data.user(i).labels):
            own = fit.B.T @ gradient(data, fit.Delta)[i]
            np.testing.assert_allclose(own, 0.0, atol=1e-6)
    bounded = fit_shared(data, 2, bound=10.0)
    assert bounded.converged
    assert bounded.separable == ()


def test_all_separable_ends_too() -> None:
    X = np.random.default_rng(14).standard_normal((3, 5, 4, 2))
    fit = fit_shared(Comparisons.of_users(X, np.ones((3, 5))), 2, separable="report")
    assert fit.separable == (0, 1, 2)
    assert np.isfinite(fit.Delta).all()


def test_what_comparisons_do_not_show_stays_zero() -> None:
    """Features without a second row, and fewer comparisons than unknowns."""
    rng = np.random.default_rng(15)
    X = rng.standard_normal((4, 60, 3, 2))
    X[:, :, 1] = 0.0
    data = Comparisons.of_users(X, rng.integers(0, 2, (4, 60)))
    for fit in (fit_full(data), fit_shared(data, 1)):
        np.testing.assert_allclose(fit.Delta[:, 1], 0.0, atol=1e-10)
        assert fit.converged
    few = Comparisons.of_users(X[:, :3], np.full((4, 3), 0.3), soft=True)
    Delta = fit_full(few).Delta
    z = np.einsum("njab,nab->nj", X[:, :3], Delta)
    np.testing.assert_allclose(expit(z), 0.3, rtol=1e-9)
    for i in range(4):
        least = np.linalg.pinv(X[i, :3].reshape(3, -1)) @ z[i]
        np.testing.assert_allclose(Delta[i].ravel(), least, atol=1e-9)


def test_a_bound_far_out_is_no_reason_for_a_nan() -> None:
    """Labels that cancel leave a gradient of 0; separated users saturate inside the ball."""
    X = np.array([[[1.0], [0.0]], [[1.0], [0.0]]])
    balanced = Comparisons.of_users([X], [[1, 0]])
    fit = fit_local(balanced, 1, bound=50.0)
    assert fit.converged
    assert fit.gradient_norm == 0.0
    np.testing.assert_array_equal(fit.Delta, 0.0)
    saturated = Comparisons.of_users([70.0 * X[:1]], [[1]])
    fit = fit_local(saturated, 1, bound=500.0)
    assert fit.converged
    assert -1e-16 < fit.loglik <= 0.0
    assert np.linalg.norm(fit.Delta) <= 500.0


@pytest.mark.parametrize("seed", [28, 358, 453])
def test_no_step_downhill_is_taken_for_want_of_a_better_one(seed: int) -> None:
    """Whole numbers that separate in part, far inside a ball: of 500 seeds those that once fell."""
    rng = np.random.default_rng(1000 + seed)
    N, n, d1, d2 = (int(rng.integers(1, end)) for end in (12, 15, 6, 3))
    X = np.round(rng.standard_normal((N, n, d1, d2)) * 1.2) * 10.0 ** rng.uniform(-3, 3)
    data = Comparisons.of_users(X, (rng.random((N, n)) < 0.5) * 1.0)
    fit = fit_full(data, bound=10.0 ** rng.uniform(0, 6))
    assert np.isfinite(fit.Delta).all()
    assert fit.loglik > -N * n * np.log(2.0)  # that of 0, where the heads start


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fit_shared(DATA, 6), "`k` must be a whole number of at least 1 and at most 5"),
        (lambda: fit_shared(DATA.user(0), 4), "at least 1 and at most 3; found 4"),
        (lambda: fit_local(DATA, 6), "`k` must be a whole number of at least 1 and at most 5"),
        (lambda: fit_global(DATA, 0), "`k` must be a whole number of at least 1"),
        (lambda: fit_representation(DATA, 2.5), "`k` must be a whole number"),
        (lambda: fit_shared(DATA, 2, ridge=-1), "`ridge` must be a number in [0, inf)"),
        (lambda: fit_full(DATA, bound=0), "`bound` must be a number in [1e-100, inf)"),
        (lambda: fit_full(DATA, separable="no"), "`separable` must be one of error, report"),
        (lambda: fit_shared(DATA, 2, tol=0), "`tol` must be a number in (0, inf)"),
        (lambda: fit_shared(DATA, 2, limit=0), "`limit` must be a whole number of at least 1"),
        (lambda: fit_shared(DATA, 2, start=np.ones((4, 2))), "`start` must have shape (5, 2)"),
        (
            lambda: fit_full(np.ones((3, 2, 1))),
            "`data` must be Comparisons, as from Comparisons.of",
        ),  # type: ignore[arg-type]
        (
            lambda: fit_shared(replace(DATA, link="tanh"), 2),
            "`data` must come from linear rewards, the model that is fitted; found link='tanh'",
        ),
    ],
)
def test_bad_input(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
