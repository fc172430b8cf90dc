"""Hessians of FSLoRA's losses: differences in their place, and balls where they are largest."""

from __future__ import annotations

import numpy as np
import pytest

from linsys import InputError
from linsys.sketching import LeastSquares, Logistic, exact
from linsys.sketching.sketch import every_support
from linsys.sketching.smoothness import (
    ball_bound,
    global_hessian,
    hessian,
    hessian_under,
    largest_hessian,
    sketched_hessian,
)
from tests.linsys.test_sketching import systems

KINDS = range(3)


def difference(gradient, X, t=1e-5):
    """The Jacobian of a gradient by central differences: an error of t^2 and 1e-16 / t."""
    unit = np.eye(X.size).reshape(-1, *X.shape)
    return np.array([(gradient(X + t * e) - gradient(X - t * e)).ravel() / (2 * t) for e in unit])


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


def isotropic(target, mu=1.0):
    """One device with M = mu I and W0 - W* = -target, so that C = -mu target."""
    target = np.asarray(target, dtype=float)
    x = np.sqrt(mu * target.shape[1]) * np.eye(target.shape[1])
    return LeastSquares(np.zeros(target.shape), inputs=(x,), targets=(x @ target.T,))


def along(u, v, r, size):
    """X (r, m + n) of this length, with the same multiple of u and of v in its first component."""
    X = np.zeros((r, len(u) + len(v)))
    X[0] = np.concatenate([u, v]) * size / np.sqrt(2)
    return X


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_hessians_are_derivatives_of_gradients(kind, scale):
    system = systems()[kind]
    X = np.random.default_rng(kind).normal(size=(2, system.modules.width))
    found = hessian(system, 1, X, scale)
    assert_close(found, difference(lambda Y: system.gradient(1, Y, scale), X))
    np.testing.assert_allclose(found, found.T, atol=1e-11 * np.abs(found).max())


@pytest.mark.parametrize("kind", KINDS)
def test_sketched_hessians_are_derivatives_of_sketched_gradients(kind):
    system = systems()[kind]
    X = np.random.default_rng(kind).normal(size=(3, system.modules.width))
    ranks = [1, 2, 3]
    assert_close(
        sketched_hessian(system, 1, X, 2),
        difference(lambda Y: exact.sketched_gradient(system, 1, Y, 2), X),
    )
    assert_close(
        global_hessian(system, X, ranks),
        difference(lambda Y: exact.global_gradient(system, Y, ranks), X),
    )
    supports = every_support(3, 2)
    assert_close(
        hessian_under(system, 1, X, supports[1]),
        difference(lambda Y: exact.sketched_gradients(system, 1, Y, 2)[1], X),
    )
    outside = hessian_under(system, 1, X, [0, 2]).reshape(*X.shape, *X.shape)
    assert not outside[1].any()
    assert not outside[:, :, 1].any()


def test_hessian_of_least_squares_grows_with_the_square_of_the_scale():
    system = systems()[0]
    X = np.random.default_rng(3).normal(size=(2, system.modules.width))
    flat = hessian(system, 0, 0 * X)
    for s in (3.0, 10.0, 1e3):
        # H(sX) = H(0) + s^2 (H(X) - H(0)) exactly
        expected = flat + s**2 * (hessian(system, 0, X) - flat)
        np.testing.assert_allclose(
            hessian(system, 0, s * X), expected, atol=1e-12 * np.abs(expected).max()
        )


@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize(("target", "mu"), [([[3.0]], 1.0), ([[1.0, 2.0], [0.0, -4.0]], 0.5)])
def test_the_bound_on_a_ball_is_attained_where_the_inputs_are_isotropic(r, target, mu):
    system, radius = isotropic(target, mu), 1.7
    bound = ball_bound(system, 0, radius)
    assert bound == pytest.approx(1.5 * radius**2 * mu + mu * np.linalg.norm(target, 2))
    U, _, Vt = np.linalg.svd(-np.array(target))
    X = along(U[:, 0], Vt[0], r, radius)
    assert np.linalg.norm(X) == pytest.approx(radius)
    assert np.linalg.norm(hessian(system, 0, X), 2) == pytest.approx(bound, rel=1e-12)
    peak = largest_hessian(system, 0, radius, np.zeros(X.shape))
    assert peak.norm == pytest.approx(bound, rel=1e-6)
    assert np.linalg.norm(peak.X) <= radius * (1 + 1e-12)
    H, v = hessian(system, 0, peak.X), peak.direction.ravel()
    np.testing.assert_allclose(np.abs(v @ H @ v), peak.norm)


def test_no_point_of_a_ball_exceeds_the_bound_whatever_the_inputs():
    system, rng = systems()[0], np.random.default_rng(5)
    assert isinstance(system, LeastSquares)
    for radius in (0.1, 1.0, 5.0):
        bound = ball_bound(system, 2, radius)
        for _ in range(50):
            X = rng.normal(size=(2, system.modules.width))
            X *= radius / np.linalg.norm(X)
            assert np.linalg.norm(hessian(system, 2, X), 2) <= bound
        found = largest_hessian(system, 2, radius, np.zeros(X.shape), starts=3).norm
        assert 0.7 * bound < found <= bound


def test_a_ball_around_another_centre():
    system, radius = isotropic([[-2.0]]), 0.5
    centre = along([1.0], [1.0], 2, 1.5)
    bound = ball_bound(system, 0, radius + 1.5)
    assert largest_hessian(system, 0, radius, centre).norm == pytest.approx(bound, rel=1e-6)
    aside = largest_hessian(system, 0, radius, centre * [[1.0, -1.0]]).norm
    assert aside < 0.99 * bound


@pytest.mark.parametrize(("r", "k"), [(2, 1), (4, 2), (3, 2)])
def test_sketched_losses_in_the_same_ball(r, k):
    """Proposition D.4 with the constants of a ball: sharp ones are attained by one component."""
    system, radius, kappa = isotropic([[-2.0]]), 1.3, r / k
    wide = ball_bound(system, 0, np.sqrt(kappa) * radius)
    one = largest_hessian(system, 0, radius, np.zeros((k, 2)), scale=kappa).norm
    assert one == pytest.approx(kappa * wide, rel=1e-6)
    assert one <= kappa**2 * ball_bound(system, 0, radius)
    X = along([1.0], [1.0], r, radius)
    mean = np.linalg.norm(sketched_hessian(system, 0, X, k), 2)
    assert mean == pytest.approx(wide, rel=1e-12)
    found = largest_hessian(system, 0, radius, np.zeros((r, 2)), k=k).norm
    assert found == pytest.approx(wide, rel=1e-6)
    assert found <= kappa * ball_bound(system, 0, radius)


def test_a_constant_measured_at_the_iterate_is_too_small():
    """2 of f, 10 of f~ and 5 of f^S where (r/k)^2 and r/k give 8 and 4."""
    system = isotropic([[1.0]])
    X = np.array([[1.0, 1.0], [0.0, 0.0]])
    norms = [
        hessian(system, 0, X),
        hessian_under(system, 0, X, [0]),
        sketched_hessian(system, 0, X, 1),
    ]
    np.testing.assert_allclose([np.linalg.norm(H, 2) for H in norms], [2, 10, 5])


def test_other_losses_bend_more_outside_of_the_ball():
    """A saturated logistic loss: (r/k)^2 times the largest Hessian in the same ball misses f~.

    In the ball the two outputs stay 10 - 4.5 sqrt 2 = 3.6 apart, so that the softmax's curvature
    is at most 2 p (1 - p) < 0.06; f~ reaches outputs that are equal, where it is 1/2.
    """
    system = Logistic(np.array([[10.0], [0.0]]), (np.ones((1, 1)),), (np.array([[1.0, 0.0]]),))
    radius, kappa = 3.0, 2.0
    p = 1 / (1 + np.exp(10 - np.sqrt(2) * radius**2 / 2))
    inside = 2 * p * (1 - p) * radius**2 + np.sqrt(2) * p
    assert largest_hessian(system, 0, radius, np.zeros((1, 3))).norm <= inside
    size = np.sqrt(10 / (kappa * np.sqrt(2)))  # B A (x2) closes the gap of 10
    X = size * np.array([[-1 / np.sqrt(2), 1 / np.sqrt(2), 1.0]])
    assert np.linalg.norm(X) <= radius
    assert np.linalg.norm(hessian(system, 0, X, kappa), 2) > 5 * kappa**2 * inside


def test_refusals():
    system = systems()[0]
    with pytest.raises(InputError, match="`ranks` must be 3, one for each device; found 1"):
        global_hessian(system, np.zeros((2, 9)), [1])
    with pytest.raises(InputError, match="`scale` must be 1 where `k` is given; found 2"):
        largest_hessian(system, 0, 1.0, np.zeros((2, 9)), scale=2.0, k=1)
    with pytest.raises(InputError, match="`radius`"):
        largest_hessian(system, 0, 0.0, np.zeros((2, 9)))
    assert isinstance(system, LeastSquares)
    with pytest.raises(InputError, match="`radius`"):
        ball_bound(system, 0, -1.0)
