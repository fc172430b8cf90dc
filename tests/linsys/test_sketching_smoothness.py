"""Hessians of FSLoRA's losses: differences in their place, and bounds of further derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from linsys import InputError
from linsys.sketching import LeastSquares, exact
from linsys.sketching.sketch import every_support
from linsys.sketching.smoothness import (
    global_hessian,
    global_loss,
    hessian,
    hessian_under,
    local_loss,
    mean_loss,
    sketched_hessian,
    sketched_loss,
)
from tests.linsys.test_sketching import systems

KINDS = range(3)


def difference(gradient, X, t=1e-5):
    """The Jacobian of a gradient by central differences: an error of t^2 and 1e-16 / t."""
    unit = np.eye(X.size).reshape(-1, *X.shape)
    return np.array([(gradient(X + t * e) - gradient(X - t * e)).ravel() / (2 * t) for e in unit])


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_hessians_are_derivatives_of_gradients(kind, scale):
    system = systems()[kind]
    X = np.random.default_rng(kind).normal(size=(2, system.modules.width))
    second = hessian(system, 1, X, scale)
    assert_close(second, difference(lambda Y: system.gradient(1, Y, scale), X))
    np.testing.assert_allclose(second, second.T, atol=1e-11 * np.abs(second).max())


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


def test_a_constant_measured_at_the_iterate_is_too_small():
    """2 of f, 10 of f~ and 5 of f^S where (r/k)^2 and r/k give 8 and 4."""
    system = LeastSquares([[0.0]], inputs=([[1.0]],), targets=([[1.0]],))
    X = np.array([[1.0, 1.0], [0.0, 0.0]])
    norms = [
        hessian(system, 0, X),
        hessian_under(system, 0, X, [0]),
        sketched_hessian(system, 0, X, 1),
    ]
    np.testing.assert_allclose([np.linalg.norm(H, 2) for H in norms], [2, 10, 5])


LOSSES = {
    "f": mean_loss,
    "f_i": lambda system: local_loss(system, 1),
    "f~": lambda system: local_loss(system, 1, 1.5),
    "f_i^S": lambda system: sketched_loss(system, 1, 2),
    "f^S": lambda system: global_loss(system, [1, 2, 3]),
}


#: How near these points come to the bounds of three derivatives, at least, by kind of loss: sharp
#: for least squares, loose for two layers, whose bounds add up one worst case after the other.
NEAR = ([0.7, 0.4, 0.8], [0.7, 0.08, 0.2], [0.05, 0.003, 0.009])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LOSSES)
def test_no_derivative_along_a_line_exceeds_its_bound(kind, name):
    """Differences of the Hessian's form: bounds times ``NEAR`` are exceeded somewhere."""
    loss, rng = LOSSES[name](systems()[kind]), np.random.default_rng(kind)
    assert loss.quartic is (kind == 0)
    shape, t, most = (3, systems()[kind].modules.width), 1e-3, np.zeros(3)
    for size in (0.02, 0.3, 1.5):
        for _ in range(4):
            X, E = rng.normal(size=(2, *shape))
            X *= size / np.linalg.norm(X)
            matrix = loss.hessian(X)
            top = np.linalg.eigh(matrix)[1][:, -1].reshape(shape)
            for e in (E / np.linalg.norm(E), top):
                # rounding: 1e-16 / t^2 of the Hessian, and t^2 of higher derivatives
                low, here, up = (
                    float(e.ravel() @ loss.hessian(X + s * t * e) @ e.ravel()) for s in (-1, 0, 1)
                )
                derivatives = np.abs([here, (up - low) / (2 * t), (up - 2 * here + low) / t**2])
                bounds = np.array(loss.derivatives(size + t, 3))
                assert (derivatives <= bounds * (1 + 1e-6)).all()
                most = np.maximum(most, derivatives / bounds)
            change = (loss.gradient(X + t * e) - loss.gradient(X - t * e)).ravel() / (2 * t)
            # what a central difference leaves out, and rounding
            room = t**2 / 6 * bounds[2] + 1e-11 * np.abs(matrix).max()
            assert np.linalg.norm(matrix @ e.ravel() - change) <= room
    assert (most > NEAR[kind]).all()


def test_refusals():
    with pytest.raises(InputError, match="`ranks` must be 3, one for each device; found 1"):
        global_hessian(systems()[0], np.zeros((2, 9)), [1])
    with pytest.raises(InputError, match="`ranks` must be 3, one for each device; found 1"):
        global_loss(systems()[0], [1])
    with pytest.raises(InputError, match="`scale`"):
        local_loss(systems()[0], 0, 0.0)
