"""Exact expectations over sketches and samples against enumeration and simulation."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from linsys import InputError
from linsys.sketching import LeastSquares, exact
from linsys.sketching.sketch import dense, every_support
from tests.linsys.test_sketching import systems

SIZES = [(1, 1), (2, 1), (4, 2), (4, 3), (5, 1), (3, 3)]


@pytest.mark.parametrize(("r", "k"), SIZES)
@pytest.mark.parametrize("index", range(3))
def test_sketched_loss_and_gradient_are_means_over_supports(index: int, r: int, k: int) -> None:
    system = systems()[index]
    X = np.random.default_rng(r + 10 * k).normal(size=(r, system.modules.width))
    losses, gradients = [], []
    for chosen in every_support(r, k):
        S = dense(chosen, r)
        pairs = system.modules.split(X)
        sketched = system.modules.join([(B @ S, A) for B, A in pairs])
        losses.append(system.loss(1, sketched))
        by_BS = system.modules.split(system.gradient(1, sketched))
        gradients.append(system.modules.join([(left @ S, right) for left, right in by_BS]))
    assert exact.sketched_loss(system, 1, X, k) == pytest.approx(np.mean(losses), rel=1e-11)
    mean = np.mean(gradients, axis=0)
    gradient = exact.sketched_gradient(system, 1, X, k)
    np.testing.assert_allclose(gradient, mean, rtol=0, atol=1e-11 * np.abs(mean).max())
    variance = ((gradients - mean) ** 2).sum(axis=(1, 2)).mean()
    assert exact.sketch_variance(system, 1, X, k) == pytest.approx(
        variance, rel=1e-9, abs=1e-20 * (mean**2).sum()
    )


def test_the_penalty_is_positive_and_vanishes_without_a_sketch() -> None:
    system = systems()[0]
    assert isinstance(system, LeastSquares)
    rng = np.random.default_rng(0)
    for _ in range(20):
        X = rng.normal(size=(4, system.modules.width))
        values = [exact.penalty(system, 0, X, k)[0] for k in (1, 2, 3, 4)]
        assert values[3] == 0
        assert (np.diff(values) < 0).all()
        assert min(values) >= 0
    same = np.repeat(X[:1], 4, axis=0)  # all components alike: B S A = B A for every sketch
    assert exact.penalty(system, 0, same, 2)[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("r", "k"), [(2, 1), (12, 5), (40, 1), (40, 2), (40, 38), (40, 39)])
def test_sketch_variance_in_closed_form_at_large_ranks(r: int, k: int) -> None:
    system = systems()[0]
    X = np.random.default_rng(r).normal(size=(r, system.modules.width)) / np.sqrt(r)
    gradients = exact.sketched_gradients(system, 1, X, k)
    variance = ((gradients - gradients.mean(axis=0)) ** 2).sum(axis=(1, 2)).mean()
    assert exact.sketch_variance(system, 1, X, k) == pytest.approx(variance, rel=1e-11)
    assert exact.sketch_variance(system, 1, X, r) == 0
    # another k is another value
    assert exact.sketch_variance(system, 1, X, k + 1) != pytest.approx(variance, rel=1e-2)


def test_data_variance_is_that_of_all_batches() -> None:
    system = replace(systems()[0], batch=2)  # type: ignore[type-var]
    X = np.random.default_rng(1).normal(size=(2, system.modules.width))
    size = len(system.inputs[2])
    each = np.array(
        [system.gradient(2, X, 2.0, np.array(pair)) for pair in combinations(range(size), 2)]
    )
    np.testing.assert_allclose(each.mean(axis=0), system.gradient(2, X, 2.0), atol=1e-12)
    variance = ((each - each.mean(axis=0)) ** 2).sum(axis=(1, 2)).mean()
    assert exact.data_variance(system, 2, X, 2.0) == pytest.approx(variance, rel=1e-12)
    assert exact.data_variance(replace(system, batch=None), 2, X) == 0.0


def test_dissimilarity_compares_with_the_global_gradient() -> None:
    system = systems()[1]
    X = np.random.default_rng(2).normal(size=(3, system.modules.width))
    ranks = [1, 2, 3]
    each = [exact.sketched_gradient(system, i, X, k) for i, k in enumerate(ranks)]
    mean = exact.global_gradient(system, X, ranks)
    np.testing.assert_allclose(mean, np.mean(each, axis=0), rtol=1e-13)
    apart, size = exact.dissimilarity(system, X, ranks)
    assert apart == pytest.approx(max(((g - mean) ** 2).sum() for g in each), rel=1e-12)
    assert size == pytest.approx((mean**2).sum(), rel=1e-12)
    losses = [exact.sketched_loss(system, i, X, k) for i, k in enumerate(ranks)]
    assert exact.global_loss(system, X, ranks) == pytest.approx(np.mean(losses), rel=1e-14)
    with pytest.raises(InputError, match="`ranks` must be 3, one for each device; found 2"):
        exact.global_loss(system, X, [1, 2])
