"""Laws of the shared factor's error against computations of another kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

from experiments.psharelora._rate_systems import Family, factors, family
from experiments.psharelora.rates._rate_laws import Expansion
from experiments.psharelora.rates.rate_tail import reflected
from linsys.preference.comparisons import Comparisons
from linsys.preference.counts import as_comparisons
from linsys.preference.coverage import subspace_information
from linsys.preference.estimators import fit_shared
from linsys.preference.subspace import distance, diversity
from linsys.preference.systems import PreferenceSystem
from linsys.validate import Array

SIZES: dict[str, Any] = {"trajectories": 13, "d1": 4, "d2": 2, "k": 2, "types": 5, "nu": 1.5}


def drawn(kind: Any = "random", **changes: Any) -> Family:
    return family(kind, 1, **{**SIZES, **changes})


def samples(one: Family, copies: int, sizes: list[int]) -> list[Comparisons]:
    return [
        as_comparisons(one.differences, *counts)
        for counts in one.counts(copies, sizes, np.random.default_rng(0))
    ]


def test_users_are_as_asked() -> None:
    for tail, condition in ((0.0, 1.0), (0.2, 3.0)):
        one = drawn(tail=tail, condition=condition)
        kappa = diversity(np.tile(one.Delta, (3, 1, 1)), 2)
        np.testing.assert_allclose([kappa.nu, kappa.tail / 15], [1.5, tail], atol=1e-12)
        assert (one.differences**2).mean() == pytest.approx(1.0)
    np.testing.assert_allclose(drawn(nu=6.0).Delta, 2.0 * drawn().Delta, atol=1e-12)


def test_mirrored_features_come_in_pairs() -> None:
    one = drawn("mirrored", trajectories=14)
    B = one.best.B
    images = 2.0 * B @ (B.T @ one.psi) - one.psi
    for image in images:
        assert np.abs(one.psi - image).max(axis=(1, 2)).min() < 1e-12
    assert np.abs(Expansion.without_tail(one).bias).max() < 1e-10
    assert np.abs(Expansion.without_tail(drawn()).bias).max() > 1e-3


def test_rounding_of_probabilities_changes_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an even pair NumPy draws the one side or the other, as its probability is rounded."""
    one = drawn("mirrored", trajectories=14)
    P = one.system.probabilities()
    assert (np.abs(P - 0.5) < 1e-14).any()

    def labels(P: Array) -> Array:
        monkeypatch.setattr(PreferenceSystem, "probabilities", lambda self: P)
        (data,) = samples(one, 2, [1000])
        return data.labels

    tensor = labels(P)
    for nudge in (-4e-16, 4e-16):
        np.testing.assert_array_equal(labels(P + nudge), tensor)
    assert (labels(P + 1e-9) != tensor).any()


def test_counts_are_the_comparisons_that_they_count() -> None:
    one = drawn()
    *_, counted = samples(one, 2, [10, 30])
    assert counted.weights.sum() == 10 * 30
    yes = np.rint(counted.weights * counted.labels).astype(int)
    no = np.rint(counted.weights).astype(int) - yes
    single = Comparisons(
        counted.features,
        labels=np.concatenate(
            [np.r_[np.ones(a), np.zeros(b)] for a, b in zip(yes, no, strict=True)]
        ),
        starts=30 * np.arange(11),
        pairs=np.repeat(counted.pairs, yes + no),
    )
    ends = [fit_shared(data, one.k, bound=1e3, tol=1e-7) for data in (counted, single)]
    np.testing.assert_allclose(ends[0].Delta, ends[1].Delta, atol=1e-5)
    assert ends[0].loglik == pytest.approx(ends[1].loglik, rel=1e-9)


def test_factors_are_those_of_comparisons() -> None:
    one = drawn()
    few, many = factors(one, list(one.counts(2, [300, 3000], np.random.default_rng(0))))
    data = samples(one, 2, [300, 3000])
    for B, other, comparisons in zip((few, many), (many, few), data, strict=True):
        alone = fit_shared(comparisons, one.k).B
        assert distance(B, alone) < 1e-6 < distance(other, alone)


def test_numbers_of_comparisons_have_their_means() -> None:
    one = drawn(types=3)
    [data] = samples(one, 1, [10**6])
    P, w = one.system.probabilities().ravel(), np.tile(one.system.pair_weights, 3)
    # seven standard errors: below 1e-9 for any of some 500 numbers
    assert np.abs(data.weights / 1e6 - w).max() < 7.0 * np.sqrt(w.max() / 1e6)
    error = np.sqrt(P * (1.0 - P) / data.weights)
    assert (np.abs(data.labels - P) < 7.0 * error).all()


def test_information_is_that_of_every_user() -> None:
    one = drawn()
    law, w = Expansion.without_tail(one), one.system.pair_weights
    X = one.differences.reshape(len(w), -1)
    each = [
        subspace_information((X * (w * p * (1.0 - p))[:, None]).T @ X, one.best.B, W[None])
        for p, W in zip(one.system.probabilities(), one.best.W, strict=True)
    ]
    np.testing.assert_allclose(law.information, np.mean(each, axis=0), atol=1e-12)
    inverse = np.linalg.inv(law.information)
    assert law.variance == pytest.approx(np.trace(inverse))
    np.testing.assert_allclose(Expansion.of_population(one).variance, law.variance, rtol=1e-6)


@pytest.mark.parametrize(("k", "condition"), [(1, 1.0), (2, 1.0), (3, 2.0)])
def test_even_preferences_have_the_closed_form(k: int, condition: float) -> None:
    """4 (d1 - k) sum_j N / sigma_j^2; heads add d2 / (c N_p sigma_j^2 / N), c = 1/4."""
    one = drawn("isotropic", k=k, condition=condition, nu=1e-6)
    law, N = Expansion.without_tail(one), len(one.Delta)
    each = 4.0 * N / one.best.sigma[:k] ** 2
    assert law.variance == pytest.approx((4 - k) * each.sum(), rel=1e-4)
    assert law.heads == pytest.approx((4 - k) * 2 * (each**2).sum(), rel=1e-4)


def test_bias_is_the_second_derivative_of_the_score() -> None:
    """Labels with variance v / (N_p w) at every pair: half the second derivatives of the score."""
    one = drawn(k=1, d2=1, d1=3, trajectories=6, types=2)
    law = Expansion.without_tail(one)
    X, w, B, away = one.differences[..., 0], one.system.pair_weights, one.best.B, one.complement
    f, side = X @ B[:, 0], X @ away

    def score(labels: Any) -> Any:
        W = brentq(lambda W: ((labels - expit(W * f)) * w) @ f, -50.0, 50.0, xtol=1e-14)
        return W * (((labels - expit(W * f)) * w) @ side)

    total, h = np.zeros(2), 1e-3
    for P in one.system.probabilities():
        for j in range(len(w)):
            step = h * np.eye(len(w))[j]
            second = (score(P + step) - 2.0 * score(P) + score(P - step)) / h**2
            total += 0.5 * second * P[j] * (1.0 - P[j]) / w[j]
    solutions = np.linalg.solve(law.information, total / 2)
    np.testing.assert_allclose(law.bias[:, 0], solutions, rtol=1e-3)
    assert np.abs(law.bias).max() > 1e-2


def test_drift_is_the_slope_of_the_floor() -> None:
    one = drawn(tail=1e-8)
    first = Expansion.without_tail(one).drift
    turn = one.tilt(one.population.B)
    np.testing.assert_allclose(turn, first, atol=1e-2 * np.abs(first).max())
    assert np.abs(turn + first).max() > np.abs(first).max()


@pytest.mark.parametrize("kind", ["random", "isotropic"])
@pytest.mark.parametrize("relative", [1e-4, 1e-2, 0.2])
def test_floor_is_below_its_bound(kind: Any, relative: float) -> None:
    one = drawn(kind, tail=relative * SIZES["nu"])
    squared = one.error(one.population.B) ** 2
    bound = Expansion.of_population(one).floor_bound()
    assert 0.0 < squared <= bound


def test_bound_of_the_floor_is_of_the_right_size() -> None:
    """The tail's feature is ten times as long as, and correlated with, one that turns B."""
    s = np.array(np.meshgrid(*[[-1.0, 1.0]] * 4)).reshape(4, -1)
    long = 10.0 * np.sqrt(0.5) * (s[2] + s[3])
    psi = np.moveaxis(np.array([[s[0], s[1]], [s[2], long]]), 2, 0)
    w, e = 1e-2, 1e-6
    one = Family(psi, np.array([[[w, 0.0], [0.0, e]]]), 1)
    squared, bound = (
        one.error(one.population.B) ** 2,
        Expansion.of_population(one).floor_bound(),
    )
    assert bound / 5.0 < squared <= bound
    assert squared == pytest.approx(0.5 * 100.0 * (e / w) ** 2, rel=1e-2)


def test_covariance_with_a_tail_is_that_of_scores() -> None:
    """V and M of a user against finite differences of the score of one comparison."""
    one = drawn(k=1, d1=3, d2=1, trajectories=7, types=4, tail=0.4)
    law, population = Expansion.of_population(one), one.population
    away = np.linalg.qr(population.B, mode="complete")[0][:, 1:]
    X, w = one.differences[..., 0], one.system.pair_weights

    def profile(c: Any) -> float:
        direction = population.B[:, 0] + away @ c
        total = 0.0
        for P in one.system.probabilities():
            f = X @ direction
            W = brentq(lambda W, f=f, P=P: ((P - expit(W * f)) * w) @ f, -50.0, 50.0, xtol=1e-14)
            total += w @ (P * W * f - np.logaddexp(0.0, W * f))
        return float(total) / 4

    h, e = 1e-4, np.eye(2)
    hessian = np.array(
        [
            [
                (
                    profile(h * (a + b))
                    - profile(h * (a - b))
                    - profile(h * (b - a))
                    + profile(-h * (a + b))
                )
                / (4.0 * h * h)
                for b in e
            ]
            for a in e
        ]
    )
    np.testing.assert_allclose(law.information, -hessian, rtol=1e-4, atol=1e-6)
    plain = np.trace(np.linalg.inv(law.information))
    assert abs(law.variance / plain - 1.0) > 1e-3  # the sandwich is not the inverse information


def test_reflected_features_have_no_floor() -> None:
    for start in ([[1.0], [0.2]], [[1.0], [-1.0]]):
        one = reflected(3, 0.1)
        end = fit_shared(one.system.population(), 1, start=start)
        assert one.error(end.B) < 1e-8
    uneven = Family(one.psi + 0.5 * one.psi[..., ::-1, :] ** 2, one.Delta, 1)
    assert uneven.error(fit_shared(uneven.system.population(), 1).B) > 1e-3
