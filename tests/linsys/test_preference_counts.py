"""Estimates from many data sets at a time against those of every data set alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from linsys import InputError
from linsys.preference import Comparisons, PreferenceSystem, counts
from linsys.preference.counts import as_comparisons, fit_counts, fit_population
from linsys.preference.estimators import Fit, fit_full, fit_shared
from linsys.validate import Array

Data = tuple[Array, NDArray[np.int64], NDArray[np.int64]]


def drawn(R: int, N: int, P: int, d1: int, d2: int, k: int, each: float, size: float = 1.0) -> Data:
    """Features and counts of R data sets; heavy tails make the first steps long."""
    rng = np.random.default_rng([R, N, P, d1, d2, k])
    X = rng.normal(size=(P, d1, d2)) * rng.exponential(size=(P, 1, 1))
    B = rng.normal(size=(R, 1, d1, k))
    Delta = size * B @ rng.normal(size=(R, N, k, d2)) / np.sqrt(d1 * k)
    shown = rng.poisson(each, size=(R, N, P))
    chance = expit(Delta.reshape(R, N, -1) @ X.reshape(P, -1).T)
    return X, shown, rng.binomial(shown, chance)


def largest_difference(data: Data, k: int, bound: float = math.inf) -> tuple[float, int]:
    """Of Delta from that of every data set alone; and how many were left to the other function."""
    X, shown, preferred = data
    fits = fit_counts(X, shown, preferred, k, bound=bound)
    np.testing.assert_allclose(fits.B.mT @ fits.B - np.eye(k), 0.0, atol=1e-12)
    limit = None if math.isinf(bound) else bound
    alone = [
        fit_shared(as_comparisons(X, n, o), k, bound=limit)
        for n, o in zip(shown, preferred, strict=True)
    ]
    assert all(fit.converged for fit in alone)
    return max(
        float(np.abs(Delta - fit.Delta).max()) for Delta, fit in zip(fits.Delta, alone, strict=True)
    ), fits.left


#: The sizes of data sets (R, N, P, d1, d2, k), and how often a pair is shown to a user.
SIZES = [
    ((6, 40, 20, 4, 1, 1), 6.0),
    ((5, 12, 30, 5, 2, 1), 8.0),
    ((5, 9, 40, 5, 2, 3), 30.0),
    ((4, 3, 60, 4, 3, 2), 20.0),
    ((4, 1, 40, 4, 3, 1), 30.0),
]


@pytest.mark.parametrize(("sizes", "each"), SIZES)
def test_estimates_are_those_of_every_data_set_alone(
    sizes: tuple[int, int, int, int, int, int], each: float
) -> None:
    """Both end when the next step turns the factor by at most 1e-9."""
    X, shown, preferred = drawn(*sizes, each)
    off, left = largest_difference((X, shown, preferred), sizes[5])
    assert off < 1e-6
    assert left == 0
    fits = fit_counts(X, shown, preferred, sizes[5])
    one_more = np.minimum(preferred + 1, shown)
    others = fit_counts(X, shown, one_more, sizes[5])
    assert np.abs(fits.Delta - others.Delta).max(axis=(1, 2, 3)).min() > 1e-6


@pytest.mark.parametrize("bound", [0.3, 0.8])
def test_bounded_heads_are_those_of_every_data_set_alone(bound: float) -> None:
    data = drawn(4, 8, 30, 4, 2, 2, 6.0)
    lengths = np.linalg.norm(fit_counts(*data, 2, bound=bound).W, axis=(2, 3))
    assert lengths.max() <= bound * (1.0 + 1e-12)
    assert (lengths > bound * (1.0 - 1e-12)).mean() > 0.1
    off, left = largest_difference(data, 2, bound)
    assert off < 1e-6
    assert left == 0
    assert np.abs(fit_counts(*data, 2).Delta - fit_counts(*data, 2, bound=bound).Delta).max() > 0.1


def test_a_wrong_derivative_finds_no_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all are left to the other function, which needs none of them."""
    data, newton = drawn(3, 12, 20, 4, 1, 1, 20.0), counts._newton

    def wrong(at: Any, scatter: Array, bound: float) -> Any:
        return newton(at._replace(G=at.G + 1.0), scatter, bound)

    monkeypatch.setattr(counts, "_newton", wrong)
    off, left = largest_difference(data, 1)
    assert left == 3
    assert off < 1e-12


def test_without_a_constraint_every_user_has_an_own_estimate() -> None:
    X, shown, preferred = drawn(3, 4, 40, 4, 2, 2, 20.0)
    fits = fit_counts(X, shown, preferred, 4)
    for Delta, n, o in zip(fits.Delta, shown, preferred, strict=True):
        np.testing.assert_allclose(Delta, fit_full(as_comparisons(X, n, o)).Delta, atol=1e-7)
    two = fit_counts(X, shown[:, :1], preferred[:, :1], 2)  # d2 = 2 columns: no constraint either
    np.testing.assert_allclose(two.Delta[:, 0], fits.Delta[:, 0], atol=1e-7)
    assert two.B.shape == (3, 4, 2)


def test_more_columns_than_users_have_are_no_constraint_also_where_a_data_set_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, shown, preferred = drawn(2, 1, 40, 4, 1, 1, 20.0)
    monkeypatch.setattr(counts, "_LIMIT", 0)
    fits = fit_counts(X, shown, preferred, 4, bound=50.0)
    assert fits.left == 2
    for Delta, n, o in zip(fits.Delta, shown, preferred, strict=True):
        np.testing.assert_allclose(Delta, fit_full(as_comparisons(X, n, o), bound=50.0).Delta)


def one_pair_alone() -> Data:
    """Three data sets; a user of the second has seen one pair, which leaves the head open."""
    X, shown, preferred = drawn(3, 6, 20, 4, 2, 2, 4.0)
    shown[1, 2], preferred[1, 2] = 0, 0
    shown[1, 2, 0], preferred[1, 2, 0] = 5, 3
    return X, shown, preferred


def test_what_cannot_be_finished_is_left_to_the_other_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = one_pair_alone()
    for bound in (50.0, math.inf):
        off, left = largest_difference(data, 2, bound)
        assert off < 1e-6
        assert left == 1
    handed = []

    def seen(one: Comparisons, k: int, **options: Any) -> Fit:
        handed.append(one.counts.tolist())
        return fit_shared(one, k, **options)

    monkeypatch.setattr(counts, "fit_shared", seen)
    fit_counts(*data, 2)
    assert handed == [(data[1][1] > 0).sum(axis=1).tolist()]
    monkeypatch.setattr(counts, "_SINGULAR", 0.0)  # a singular system is solved all the same
    assert fit_counts(*data, 2).left != 1


def test_what_has_not_converged_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = one_pair_alone()
    assert fit_counts(*data, 2).converged.tolist() == [True, True, True]

    def in_haste(one: Comparisons, k: int, **options: Any) -> Fit:
        return fit_shared(one, k, **options, limit=1)

    monkeypatch.setattr(counts, "fit_shared", in_haste)
    assert fit_counts(*data, 2).converged.tolist() == [True, False, True]
    assert fit_counts(*data, 4).converged.tolist() == [True, True, True]  # by the other one


def test_separable_comparisons_are_refused_without_a_bound() -> None:
    X, shown, preferred = drawn(3, 6, 20, 3, 1, 1, 4.0)
    shown[1, 2, 1:] = preferred[1, 2, 1:] = 0  # one pair alone, always answered alike
    shown[1, 2, 0] = preferred[1, 2, 0] = 5
    with pytest.raises(InputError, match="separable comparisons"):
        fit_counts(X, shown, preferred, 1)
    off, left = largest_difference((X, shown, preferred), 1, bound=50.0)
    assert off < 1e-6
    assert left == 0


BAD: list[tuple[dict[str, Any], str]] = [
    ({"features": np.ones((7, 2))}, r"`features` must have shape \(P, d1, d2\); found \(7, 2\)"),
    ({"features": np.full((7, 3, 2), np.nan)}, "`features` must be finite; found nan"),
    ({"shown": np.ones((2, 4, 6))}, r"`shown` must have shape .* P = 7, .*; found \(2, 4, 6\)"),
    ({"shown": np.ones((4, 7))}, r"`shown` must have shape \(R, N, P\); found \(4, 7\)"),
    ({"shown": -np.ones((2, 4, 7))}, r"`shown` must be non-negative; found -1 at .*\(0, 0, 0\)"),
    ({"preferred": np.ones((1, 4, 7))}, r"`preferred` must have shape .*; found \(1, 4, 7\)"),
    ({"preferred": np.full((2, 4, 7), 5)}, "`preferred` must be .*; found 5 of 2 at index"),
    ({"preferred": np.full((2, 4, 7), -1)}, "`preferred` must be .*; found -1 of 2 at index"),
    ({"preferred": "yes"}, "`preferred` must hold real numbers; found dtype <U3"),
    ({"k": 0}, "`k` must be a whole number of at least 1 and at most 3; found 0"),
    ({"k": 4}, "`k` must be .* at most 3; found 4"),
    ({"k": 1.0}, "`k` must be .*; found 1.0"),
    ({"start": np.ones((3, 2))}, r"`start` must have shape \(3, 1\); found \(3, 2\)"),
    ({"bound": 0.0}, r"`bound` must be a number in \[1e-100, inf\); found 0"),
    ({"bound": math.nan}, "`bound` must be a number in .*; found nan"),
    ({"bound": None}, "`bound` must be a number in .*; found None"),
    ({"tol": 0.0}, r"`tol` must be a number in \(0, inf\); found 0"),
]


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], message: str) -> None:
    rng = np.random.default_rng(0)
    right: dict[str, Any] = {
        "features": rng.normal(size=(7, 3, 2)),
        "shown": np.full((2, 4, 7), 2),
        "preferred": np.ones((2, 4, 7)),
        "k": 1,
    }
    assert fit_counts(**right).B.shape == (2, 3, 1)
    with pytest.raises(InputError, match=message):
        fit_counts(**right | changed)


def test_ranks_are_at_most_the_columns_of_all_users_or_have_no_constraint() -> None:
    X, shown, preferred = drawn(2, 2, 40, 4, 1, 1, 20.0)
    assert [fit_counts(X, shown, preferred, k).B.shape[2] for k in (1, 2, 4)] == [1, 2, 4]
    with pytest.raises(InputError, match=r"`k` must be .* at most 2; found 3"):
        fit_counts(X, shown, preferred, 3)


def test_users_without_comparisons_are_named() -> None:
    X, shown, preferred = drawn(3, 4, 20, 3, 1, 1, 4.0)
    shown[2, [1, 3]] = preferred[2, [1, 3]] = 0
    with pytest.raises(InputError, match="positive weight; found none of users 1, 3 in data set 2"):
        fit_counts(X, shown, preferred, 1)
    with pytest.raises(InputError, match="every user must have comparisons; found none of users"):
        as_comparisons(X, shown[2], preferred[2])
    with pytest.raises(InputError, match=r"`preferred` must have shape .* N = 4; found"):
        as_comparisons(X, shown[0], preferred[0, :2])


def test_data_sets_do_not_depend_on_each_other() -> None:
    X, shown, preferred = drawn(6, 40, 20, 4, 1, 1, 6.0)
    together = fit_counts(X, shown, preferred, 1).Delta
    for r in range(6):
        [alone] = fit_counts(X, shown[r : r + 1], preferred[r : r + 1], 1).Delta
        np.testing.assert_allclose(together[r], alone, atol=1e-10)


def test_a_population_is_what_ever_more_comparisons_approach() -> None:
    rng = np.random.default_rng(0)
    system = PreferenceSystem(
        rng.normal(size=(12, 4, 2)), np.zeros((4, 2)), rng.normal(size=(3, 4, 2))
    )
    fit = fit_population(system, 2, tol=1e-12)
    assert fit.B.shape == (4, 2)
    assert fit.converged
    np.testing.assert_allclose(
        fit.Delta, fit_shared(system.population(), 2, tol=1e-12).Delta, atol=1e-9
    )
    np.testing.assert_allclose(fit_population(system, 4).Delta, system.Delta, atol=1e-7)
    again = fit_population(system, 2, start=fit.B, tol=1e-12)
    np.testing.assert_allclose(again.Delta, fit.Delta, atol=1e-9)
    with pytest.raises(InputError, match="Theta_init = 0"):
        fit_population(PreferenceSystem(system.psi, np.ones((4, 2)), system.Delta), 2)


def test_counts_are_soft_labels_with_weights() -> None:
    X = np.ones((3, 2, 1))
    data = as_comparisons(X, np.array([[2, 0, 4], [0, 1, 0]]), np.array([[1, 0, 4], [0, 0, 0]]))
    assert isinstance(data, Comparisons)
    assert data.labels.tolist() == [0.5, 1.0, 0.0]
    assert data.weights.tolist() == [2.0, 4.0, 1.0]
    assert data.starts.tolist() == [0, 2, 3]
    assert data.pairs.tolist() == [0, 2, 1]
