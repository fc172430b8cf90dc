"""Preference data, the likelihood and its derivatives, and what separates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import log_expit

from linsys import InputError
from linsys.preference import Comparisons
from linsys.preference.likelihood import (
    factor_gradients,
    gradient,
    hessian_product,
    log_likelihood,
)
from linsys.preference.separability import separated

COUNTS = (4, 9, 1)
SHAPE = (5, 3)


def make(seed: int = 0, *, pairs: bool = False) -> Comparisons:
    """Soft labels, weights and initial logits of users with different numbers of comparisons."""
    rng = np.random.default_rng(seed)
    n = sum(COUNTS)
    return Comparisons(
        features=rng.standard_normal((6 if pairs else n, *SHAPE)),
        labels=rng.random(n),
        starts=np.concatenate([[0], np.cumsum(COUNTS)]),
        weights=rng.random(n),
        initial=rng.standard_normal(n),
        pairs=rng.integers(0, 6, n) if pairs else None,
        soft=True,
    )


def by_definition(data: Comparisons, Delta: np.ndarray) -> np.ndarray:
    """(3.3), user by user."""
    rows = data.features if data.pairs is None else data.features[data.pairs]
    z = data.initial + np.einsum("nab,nab->n", rows, Delta[data.owner])
    terms = data.labels * log_expit(z) + (1 - data.labels) * log_expit(-z)
    return np.array([(data.weights * terms)[data.owner == i].sum() for i in range(data.users)])


def slope(f: Callable[[float], np.ndarray], h: float = 1e-4) -> np.ndarray:
    """f'(0) by central differences of fourth order."""
    return np.asarray((8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h))


@pytest.mark.parametrize("pairs", [False, True])
def test_the_likelihood_and_its_derivatives(pairs: bool) -> None:
    data, rng = make(pairs=pairs), np.random.default_rng(1)
    Delta, D = rng.standard_normal((2, data.users, *SHAPE))
    np.testing.assert_allclose(log_likelihood(data, Delta), by_definition(data, Delta), rtol=1e-13)
    np.testing.assert_allclose(
        (gradient(data, Delta) * D).sum(axis=(1, 2)),
        slope(lambda t: by_definition(data, Delta + t * D)),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        hessian_product(data, Delta, D), slope(lambda t: gradient(data, Delta + t * D)), atol=1e-9
    )


def test_gradients_by_both_factors() -> None:
    data, rng = make(), np.random.default_rng(2)
    B, C = rng.standard_normal((2, 5, 2))
    W, U = rng.standard_normal((2, data.users, 2, 3))
    by_B, by_W = factor_gradients(data, B, W)
    derivative = slope(lambda t: log_likelihood(data, (B + t * C) @ W).sum())
    assert (by_B * C).sum() == pytest.approx(float(derivative), rel=1e-9)
    np.testing.assert_allclose(
        (by_W * U).sum(axis=(1, 2)), slope(lambda t: log_likelihood(data, B @ (W + t * U)))
    )


def test_threads_change_no_bit() -> None:
    rng = np.random.default_rng(3)
    data = Comparisons.of_users(rng.standard_normal((150, 4, 2, 2)), rng.integers(0, 2, (150, 4)))
    Delta = rng.standard_normal((150, 2, 2))
    np.testing.assert_array_equal(gradient(data, Delta), gradient(data, Delta, threads=3))


@pytest.mark.parametrize("z", [0.0, 40.0, -800.0, 1e6])
def test_nothing_overflows_or_cancels(z: float) -> None:
    data = Comparisons(np.ones((2, 1, 1)), labels=[1, 0], starts=[0, 1, 2])
    Delta = np.full((2, 1, 1), z)
    np.testing.assert_allclose(log_likelihood(data, Delta), log_expit([z, -z]), rtol=1e-15)
    expected = np.exp(log_expit([-z, z])) * [1, -1]
    np.testing.assert_allclose(gradient(data, Delta).ravel(), expected, rtol=1e-13)


def test_starting_from_and_the_parts_of_the_data() -> None:
    data, rng = make(pairs=True), np.random.default_rng(4)
    Theta, Delta = rng.standard_normal((2, 3, *SHAPE))
    plain = Comparisons(data.features, data.labels, data.starts, pairs=data.pairs, soft=True)
    whole = log_likelihood(plain, Theta + Delta)
    np.testing.assert_allclose(log_likelihood(plain.starting_from(Theta), Delta), whole, rtol=1e-12)
    for i in range(3):
        alone = log_likelihood(plain.user(i), (Theta + Delta)[i : i + 1])
        np.testing.assert_allclose(alone, whole[i : i + 1], rtol=1e-14)
    together = log_likelihood(plain.pooled(), Delta[:1])
    np.testing.assert_allclose(together, log_likelihood(plain, Delta[[0, 0, 0]]).sum(), rtol=1e-13)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"labels": [0, 0.5, 1]}, "`labels` must be 0 or 1 (probabilities need soft=True); found"),
        ({"labels": [0, 2, 1], "soft": True}, "`labels` must be in [0, 1]; found 2 at index 1"),
        ({"labels": [0, 1]}, "`labels` must have shape (n,) with n = 3; found (2,)"),
        ({"labels": [0, np.nan, 1]}, "`labels` must be finite; found nan at index (1,)"),
        ({"features": np.ones((3, 2))}, "`features` must have shape (n, d1, d2); found (3, 2)"),
        ({"features": np.full((3, 2, 1), np.inf)}, "`features` must be finite"),
        (
            {"features": np.where(np.arange(6).reshape(3, 1, 2) == 4, np.nan, 1.0).mT},
            "`features` must be finite; found nan at index (2, 0, 0)",
        ),
        ({"starts": [0, 2, 2, 3]}, "every user must have comparisons; found none of user 1"),
        ({"starts": [0, 4]}, "`starts` must increase from 0 to n = 3"),
        ({"starts": [0.0, 3.0]}, "`starts` must be a list of whole numbers"),
        ({"weights": [1, -1, 1]}, "`weights` must be non-negative; found -1 at index 1"),
        ({"weights": [0, 0, 1]}, "every user must have a comparison with positive weight"),
        ({"pairs": [0, 1, 3]}, "`pairs` must be rows of `features`, 0 to 2; found 0 to 3"),
        (
            {"features": np.full((3, 2, 1), 1e200)},
            "between 1e-100 and 1e100: scale them; found 1e+200",
        ),
        ({"features": np.full((3, 2, 1), 1e-200)}, "between 1e-100 and 1e100: scale them; found"),
        ({"link": "relu"}, "`link` must be one of linear, tanh; found 'relu'"),
        ({"soft": 1}, "`soft` must be True or False; found 1"),
    ],
)
def test_bad_data(change: dict[str, object], said: str) -> None:
    good = {"features": np.ones((3, 2, 1)), "labels": [0, 1, 1], "starts": [0, 2, 3]}
    with pytest.raises(InputError) as caught:
        Comparisons(**(good | change))  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_data_of_users() -> None:
    with pytest.raises(InputError, match=r"`labels` must have as many entries .* found \[1\]"):
        Comparisons.of_users([np.ones((2, 1, 1))], [[1]])
    with pytest.raises(InputError, match="found none"):
        Comparisons.of_users([], [])
    with pytest.raises(InputError, match="`labels` must have an entry for every user; found None"):
        Comparisons.of_users(np.ones((1, 2, 1, 1)), None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"shape \(n_i,\); found \(1, 1\) of user 1"):
        Comparisons.of_users(np.ones((2, 1, 1, 1)), [[1], [[1]]])
    data = Comparisons.of_users(np.ones((1, 1, 1, 1)), [[1]])
    with pytest.raises(InputError, match="rectangular array of numbers"):
        data.starting_from([[1.0], [1.0, 2.0]])
    with pytest.raises(InputError, match=r"shape \(n_i, d1, d2\); found \(1, 2, 1\) of user 1"):
        Comparisons.of_users([np.ones((1, 1, 1)), np.ones((1, 2, 1))], [[1], [1]])


def test_what_separates() -> None:
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert separated(square, [1, 1, 0, 0])  # by the first feature, completely
    assert not separated(square, [1, 0, 0, 1])
    assert separated(square[[0, 0, 2]], [1, 0, 1])  # the first two tie, the third is explained
    assert not separated(square[[0, 0]], [1, 0])
    assert not separated(square, np.full(4, 0.3))
    assert separated(np.array([[1.0, 0.0], [0.0, 1.0]]), [0.5, 1])
