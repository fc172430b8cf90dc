"""Constants of FSLoRA's losses on balls: where they are attained, and that nothing exceeds them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from linsys import InputError
from linsys.sketching import LeastSquares, Logistic, TwoLayer, exact
from linsys.sketching._relaxation import form, relaxed
from linsys.sketching.balls import Constant, ball_bound, largest_hessian, smoothness
from linsys.sketching.smoothness import (
    global_loss,
    hessian,
    local_loss,
    mean_loss,
    sketched_hessian,
    sketched_loss,
)
from linsys.sketching.variances import (
    dissimilarity_curve,
    largest_data_variance,
    largest_sketch_variance,
)
from tests.linsys.test_sketching import systems


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


@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize(("target", "mu"), [([[3.0]], 1.0), ([[1.0, 2.0], [0.0, -4.0]], 0.5)])
def test_the_bound_on_a_ball_is_attained_where_the_inputs_are_isotropic(r, target, mu):
    system, radius = isotropic(target, mu), 1.7
    assert ball_bound(system, 0, radius).kind == "exact"
    bound = ball_bound(system, 0, radius).value
    assert bound == pytest.approx(1.5 * radius**2 * mu + mu * np.linalg.norm(target, 2))
    U, _, Vt = np.linalg.svd(-np.array(target))
    X = along(U[:, 0], Vt[0], r, radius)
    assert np.linalg.norm(X) == pytest.approx(radius)
    assert np.linalg.norm(hessian(system, 0, X), 2) == pytest.approx(bound, rel=1e-12)
    peak = largest_hessian(local_loss(system, 0), radius, np.zeros(X.shape))
    assert peak.norm == pytest.approx(bound, rel=1e-6)
    assert np.linalg.norm(peak.X) <= radius * (1 + 1e-12)
    H, v = hessian(system, 0, peak.X), peak.direction.ravel()
    np.testing.assert_allclose(np.abs(v @ H @ v), peak.norm)


def test_no_point_of_a_ball_exceeds_the_bound_whatever_the_inputs():
    system, rng = systems()[0], np.random.default_rng(5)
    assert isinstance(system, LeastSquares)
    for radius in (0.1, 1.0, 5.0):
        bound = ball_bound(system, 2, radius).value
        for _ in range(50):
            X = rng.normal(size=(2, system.modules.width))
            X *= radius / np.linalg.norm(X)
            assert np.linalg.norm(hessian(system, 2, X), 2) <= bound
        curvature = largest_hessian(local_loss(system, 2), radius, np.zeros(X.shape), starts=3).norm
        assert 0.7 * bound < curvature <= bound


def test_a_ball_around_another_centre():
    system, radius = isotropic([[-2.0]]), 0.5
    centre = along([1.0], [1.0], 2, 1.5)
    loss, bound = local_loss(system, 0), ball_bound(system, 0, radius + 1.5).value
    assert largest_hessian(local_loss(system, 0), radius, centre).norm == pytest.approx(
        bound, rel=1e-6
    )
    aside = largest_hessian(loss, radius, centre * [[1.0, -1.0]]).norm
    assert aside < 0.99 * bound


@pytest.mark.slow
@pytest.mark.parametrize(("r", "k"), [(2, 1), (4, 2), (3, 2)])
def test_sketched_losses_in_the_same_ball(r, k):
    """Proposition D.4 with the constants of a ball: sharp ones are attained by one component."""
    system, radius, kappa = isotropic([[-2.0]]), 1.3, r / k
    wide = ball_bound(system, 0, np.sqrt(kappa) * radius).value
    one = largest_hessian(local_loss(system, 0, kappa), radius, np.zeros((k, 2))).norm
    assert one == pytest.approx(kappa * wide, rel=1e-6)
    assert one <= kappa**2 * ball_bound(system, 0, radius).value
    X = along([1.0], [1.0], r, radius)
    mean = np.linalg.norm(sketched_hessian(system, 0, X, k), 2)
    assert mean == pytest.approx(wide, rel=1e-12)
    curvature = largest_hessian(sketched_loss(system, 0, k), radius, np.zeros((r, 2))).norm
    assert curvature == pytest.approx(wide, rel=1e-6)
    assert curvature <= kappa * ball_bound(system, 0, radius).value


def test_other_losses_bend_more_outside_of_the_ball():
    """A saturated logistic loss: (r/k)^2 times the largest Hessian in the same ball misses f~.

    In the ball the two outputs stay 10 - 4.5 sqrt 2 = 3.6 apart, so that the softmax's curvature
    is at most 2 p (1 - p) < 0.06; f~ reaches outputs that are equal, where it is 1/2.
    """
    system = Logistic(np.array([[10.0], [0.0]]), (np.ones((1, 1)),), (np.array([[1.0, 0.0]]),))
    radius, kappa = 3.0, 2.0
    p = 1 / (1 + np.exp(10 - np.sqrt(2) * radius**2 / 2))
    inside = 2 * p * (1 - p) * radius**2 + np.sqrt(2) * p
    assert largest_hessian(local_loss(system, 0), radius, np.zeros((1, 3))).norm <= inside
    size = np.sqrt(10 / (kappa * np.sqrt(2)))  # B A (x2) closes the gap of 10
    X = size * np.array([[-1 / np.sqrt(2), 1 / np.sqrt(2), 1.0]])
    assert np.linalg.norm(X) <= radius
    assert np.linalg.norm(hessian(system, 0, X, kappa), 2) > 5 * kappa**2 * inside


def small(seed=0, m=2, n=2, devices=2):
    """Least squares with inputs and targets at random: nothing is isotropic or aligned."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(devices, 4, n)), rng.normal(size=(devices, 4, m))
    return LeastSquares(rng.normal(size=(m, n)), tuple(x), tuple(y))


LOSSES = {
    "f": (mean_loss, 2),
    "f_i": (lambda system: local_loss(system, 0), 1),
    "f~": (lambda system: local_loss(system, 0, 2.0), 1),
    "f_i^S": (lambda system: sketched_loss(system, 0, 1), 2),
    "f^S": (lambda system: global_loss(system, [1, 2]), 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("away", [0.0, 0.7])
@pytest.mark.parametrize("name", LOSSES)
def test_least_squares_has_an_exact_constant_on_every_ball(name, away):
    make, r = LOSSES[name]
    for seed in range(3 - r):
        loss = make(small(seed))
        centre = away * np.random.default_rng(seed).normal(size=(r, 4))
        curvature = smoothness(loss, 1.3, centre, starts=3)
        assert curvature.kind == "exact"
        assert curvature.upper <= loss.derivatives(np.linalg.norm(centre) + 1.3, r)[0]
        F = form(loss.hessian, centre, 1.3)
        assert curvature.upper == pytest.approx(relaxed(F, curvature.lower), rel=1e-5)
        # the ball matters: a radius of 1.2 has another value
        assert relaxed(form(loss.hessian, centre, 1.2), 0.0) < 0.99 * curvature.lower


def test_the_form_is_that_of_the_hessian():
    rng, loss = np.random.default_rng(0), local_loss(small(), 0)
    centre, D, v = rng.normal(size=(3, 2, 4))
    F, y = form(loss.hessian, centre, 0.5), np.append(D.ravel(), 1.0)
    value = np.einsum("abce,a,b,c,e", F, y, y, v.ravel(), v.ravel())
    assert value == pytest.approx(v.ravel() @ loss.hessian(centre + 0.5 * D) @ v.ravel())
    assert relaxed(0 * F, 0.0) == 0.0


def test_the_relaxation_is_a_bound_wherever_its_search_ends(monkeypatch):
    F = form(local_loss(small(), 0).hessian, np.ones((1, 4)), 1.0)
    best = relaxed(F, 0.0)
    monkeypatch.setattr("linsys.sketching._relaxation._SMOOTHING", [0.1])
    rough = relaxed(F, 0.0)
    assert rough > best * (1 + 1e-6)
    lower = largest_hessian(local_loss(small(), 0), 1.0, np.ones((1, 4))).norm
    assert best >= lower * (1 - 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "radius"), [(1, 0.4), (2, 0.1)])
def test_other_losses_are_enclosed(kind, radius):
    rng = np.random.default_rng(kind)
    x = (rng.normal(size=(4, 1)),)
    if kind == 1:
        system = Logistic(rng.normal(size=(2, 1)), x, (np.eye(2)[[0, 1, 1, 0]],))
    else:
        system = TwoLayer(np.ones((1, 1)), np.ones((1, 1)), x, (rng.normal(size=(4, 1)),))
    loss, centre = local_loss(system, 0), 0.5 * rng.normal(size=(1, system.modules.width))
    known = [smoothness(loss, radius, centre, most=most) for most in (1, 100, 1500)]
    assert known[0].gap > known[2].gap > 0
    assert known[0].gap >= known[1].gap >= known[2].gap
    assert {one.kind for one in known} == {"enclosed"}
    assert known[2].gap < (0.05 if kind == 1 else 0.6)
    size = np.linalg.norm(centre) + radius
    assert known[0].upper <= loss.derivatives(size, 1)[0]
    for _ in range(200):
        D = rng.normal(size=centre.shape)
        X = centre + radius * D / np.linalg.norm(D) * rng.random() ** 0.25
        assert np.linalg.norm(loss.hessian(X), 2) <= known[2].lower * (1 + 1e-9)


def test_larger_least_squares_are_enclosed_by_the_bounds_of_derivatives():
    loss, centre = local_loss(systems()[0], 0), np.full((2, 9), 0.1)
    curvature = smoothness(loss, 1.0, centre, starts=2)
    assert curvature.kind == "enclosed"
    assert curvature.upper == loss.derivatives(np.linalg.norm(centre) + 1.0, 2)[0]
    assert curvature.gap < 0.5


@pytest.mark.slow
def test_the_formula_encloses_the_exact_constant():
    for seed in range(4):
        system = small(seed)
        formula = ball_bound(system, 0, 1.3)
        exactly = smoothness(local_loss(system, 0), 1.3, np.zeros((1, 4)))
        assert formula.lower <= exactly.upper
        assert exactly.lower <= formula.upper
        assert formula.kind == "enclosed"


def test_kinds_of_constants():
    assert Constant(1.0, np.inf).value == 1.0
    assert Constant(1.0, 1.0 + 1e-7).kind == "exact"
    assert Constant(0.0, 0.0).kind == "exact"


@pytest.mark.parametrize(("r", "k"), [(2, 1), (3, 1), (3, 2), (4, 2)])
def test_sketch_variances_in_a_ball(r, k):
    system, rng = isotropic([[1.0, 2.0], [0.0, -4.0]]), np.random.default_rng(r)
    variance = largest_sketch_variance(system, 0, 1.2, r, k)
    assert variance.kind == ("exact" if k == 1 else "enclosed")
    C, kappa = np.linalg.norm([[1.0, 2.0], [0.0, -4.0]], 2), r / k
    most = 1.2**2 * (C + kappa * 1.2**2 / 2) ** 2
    assert variance.lower == pytest.approx((kappa - 1) * most)
    assert variance.upper == pytest.approx((kappa - 1 if k == 1 else kappa) * most)
    assert largest_sketch_variance(system, 0, 1.2, r, r) == Constant(0.0, 0.0)
    for _ in range(100):
        X = rng.normal(size=(r, 4)) * (rng.random((r, 1)) < 0.6)
        X *= 1.2 / max(np.linalg.norm(X), 1e-9)
        assert exact.sketch_variance(system, 0, X, k) <= variance.lower * (1 + 1e-9)


def test_data_variances_in_a_ball():
    system, rng = replace(small(), batch=2), np.random.default_rng(0)
    variance = largest_data_variance(system, 0, 1.2, 2, 1.5)
    assert variance.kind == "enclosed"
    for _ in range(100):
        X = rng.normal(size=(2, 4))
        X *= 1.2 / np.linalg.norm(X)
        assert exact.data_variance(system, 0, X, 1.5) <= variance.lower * (1 + 1e-9)
    assert largest_data_variance(small(), 0, 1.2, 2) == Constant(0.0, 0.0)
    # two samples whose gradients cancel attain the bound, x = (1, -1) and d = (1, -1)
    pair = LeastSquares([[0.0]], inputs=([[1.0], [-1.0]],), targets=([[-1.0], [-1.0]],), batch=1)
    alone = largest_data_variance(pair, 0, 1.0, 1)
    assert 0.1 * alone.upper < alone.lower <= alone.upper


@pytest.mark.slow
def test_what_c_h_and_sigma_h_can_trade():
    system, rng = small(), np.random.default_rng(0)
    grid = [0.0, 0.5, 2.0]
    same = replace(system, inputs=(system.inputs[0],) * 2)
    for own, ranks in ((system, [1, 2]), (same, [1, 1])):
        curve = dissimilarity_curve(own, 1.2, 2, ranks, grid)
        assert curve[0].kind == ("exact" if own is same else "enclosed")
        lower = np.array([one.lower for one in curve])
        assert (np.diff(lower) < 0).all()
        # convex in c_h, up to where ascents end
        assert (lower[1] - lower[0]) / 0.5 <= (lower[2] - lower[1]) / 1.5 + 1e-3 * lower[0]
        for _ in range(100):
            X = rng.normal(size=(2, 4))
            X *= 1.2 / np.linalg.norm(X)
            far, size = exact.dissimilarity(own, X, ranks)
            for c, one in zip(grid, curve, strict=True):
                assert far - c * size <= one.lower * (1 + 1e-9)


def test_refusals():
    system = small()
    with pytest.raises(InputError, match="`centre` must have shape"):
        largest_hessian(local_loss(system, 0), 1.0, np.zeros(4))
    with pytest.raises(InputError, match="`radius`"):
        smoothness(local_loss(system, 0), 0.0, np.zeros((2, 4)))
    with pytest.raises(InputError, match="`radius`"):
        ball_bound(system, 0, -1.0)
    with pytest.raises(InputError, match="`k`"):
        largest_sketch_variance(system, 0, 1.0, 2, 3)
    with pytest.raises(InputError, match="`ranks` must be 2, one for each device; found 1"):
        dissimilarity_curve(system, 1.0, 2, [1], [0.0])
    with pytest.raises(InputError, match="`ranks` must be a whole number of at least 1"):
        dissimilarity_curve(system, 1.0, 2, [1, 0], [0.0])
    with pytest.raises(InputError, match="`rows`"):
        largest_data_variance(system, 0, 1.0, 0)
    other = systems()[1]
    for formula in (
        lambda: ball_bound(other, 0, 1.0),
        lambda: largest_sketch_variance(other, 0, 1.0, 2, 1),
        lambda: largest_data_variance(other, 0, 1.0, 1),
        lambda: dissimilarity_curve(other, 1.0, 1, [1, 1, 1], [0.0]),
        lambda: exact.penalty(other, 0, np.ones((2, 9)), 1),
    ):
        with pytest.raises(InputError, match="`system` must be LeastSquares; found Logistic"):
            formula()
    with pytest.raises(InputError, match="`c_h`"):
        dissimilarity_curve(system, 1.0, 2, [1, 1], [-1.0])
