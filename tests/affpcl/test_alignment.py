"""Noise alignment: examples against quadrature and hand-made matrices, bounds against mutations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import sqrtm

from experiments.affpcl.claims.appendix_c5 import (
    c5_bounds as crude_bounds,
    ex3 as example_3,
    ex3_corrected as example_3_corrected,
    ex3_integral as example_3_integral,
    ex4 as aligned,
    ex7 as example_7,
    ex7_sharp as example_7_sharp,
)
from experiments.affpcl.theory.alignment import mean_turn, multiplicative, oriented, reflections
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import precise, precision, stretch

ROUNDING = 1e-12
QUARTER = np.array([[0.0, -1.0], [1.0, 0.0]])


def random_stack(rng: np.random.Generator, count: int = 50) -> FiniteStack:
    mu = rng.dirichlet(np.ones(3), size=(count, 2))
    A = rng.standard_normal((count, 3, 2, 2)) + 3 * np.eye(2)
    return FiniteStack(mu=mu, A=A, Phi=A, theta=np.ones((count, 2, 2)))


def test_crude_bounds_and_their_definitions() -> None:
    rng = np.random.default_rng(0)
    stack = random_stack(rng)
    measured, bound = crude_bounds(stack)
    kept = np.broadcast_to((stack.lambda_A > 0)[:, None, None], measured.shape)
    assert kept.mean() > 0.5
    assert (measured <= bound * (1 + ROUNDING))[kept].all()
    for k, i in ((0, 0), (7, 1)):
        A_bar = np.einsum("s,sij->ij", stack.mu[k, i], stack.A[k])
        roots = np.array([sqrtm(M.T @ M).real for M in stack.A[k]])
        D_bar = np.einsum("s,sij->ij", stack.mu[k, i], roots)
        lowest = np.linalg.eigvalsh((A_bar + A_bar.T) / 2)[0]
        np.testing.assert_allclose(
            measured[k, :, i],
            [
                np.linalg.norm(D_bar, 2),
                lowest,
                np.linalg.norm(D_bar @ np.linalg.inv(A_bar), 2),
            ],
        )
        largest = max(np.linalg.norm(M, 2) for M in stack.A[k])
        smallest = np.linalg.svd(A_bar, compute_uv=False)[-1]
        np.testing.assert_allclose(bound[k, :, i], [largest, smallest, largest / lowest])


def test_crude_bounds_are_attained_by_a_scalar() -> None:
    two = np.full((1, 1, 1, 1), 2.0)
    stack = FiniteStack(mu=np.ones((1, 1, 1)), A=two, Phi=two, theta=np.ones((1, 1, 1)))
    measured, bound = crude_bounds(stack)
    np.testing.assert_allclose(measured, bound)


@pytest.mark.parametrize("length", [0.3, 3.0, 6.0])
def test_mean_turn_is_the_average_rotation(length: float) -> None:
    cos, sin = (quad(f, 0, length)[0] / length for f in (np.cos, np.sin))
    np.testing.assert_allclose(
        mean_turn(np.array([length]))[0], [[cos, -sin], [sin, cos]], atol=1e-12
    )


def test_example_3_lacks_the_density_of_the_states() -> None:
    eps = np.array([0.1, 1.0, 3.0])
    measured, stated = example_3(eps)
    np.testing.assert_allclose(stated / measured, 2 * np.pi - eps)
    for integral, printed in (example_3_integral(eps), example_3_corrected(eps)):
        np.testing.assert_allclose(integral, printed, atol=ROUNDING)
    # as printed, the symmetric part is negative: -sin(eps) / (2 pi - eps)
    np.testing.assert_allclose(
        mean_turn(2 * np.pi - eps)[:, 0, 0], -np.sin(eps) / (2 * np.pi - eps), atol=ROUNDING
    )


def test_example_3_in_high_precision() -> None:
    with precision(60):
        measured, bound = example_3_corrected(precise([0.1]))
        assert np.abs(measured - bound).max() < 1e-50


def oriented_arrays(rng: np.random.Generator) -> dict[str, np.ndarray]:
    axes = rng.standard_normal((20, 3, 3))
    return {
        "mu": rng.dirichlet(np.ones(3), size=20),
        "roots": rng.standard_normal((20, 3, 3, 3)),
        "floor": np.full(20, 0.01),
        "axes": axes / np.linalg.norm(axes, axis=-1, keepdims=True),
    }


def test_oriented_features_have_the_stretch_and_orientation_asked_for() -> None:
    arrays = oriented_arrays(np.random.default_rng(1))
    U = reflections(arrays["axes"])
    np.testing.assert_allclose(
        U @ np.swapaxes(U, 1, 2), np.broadcast_to(np.eye(3), U.shape), atol=ROUNDING
    )
    stack = oriented(**arrays)
    D = np.swapaxes(arrays["roots"], -1, -2) @ arrays["roots"] + 0.01 * np.eye(3)
    np.testing.assert_allclose(stretch(stack.A), D, atol=1e-10)
    np.testing.assert_allclose(U[:, None] @ D, stack.A, atol=1e-12)
    np.testing.assert_allclose(*aligned(stack), rtol=1e-9)
    arrays.pop("axes")
    np.testing.assert_allclose(oriented(**arrays).A, D)
    np.testing.assert_allclose(*aligned(oriented(**arrays)), rtol=1e-9)


def test_two_orientations_are_not_aligned() -> None:
    stack = oriented(**oriented_arrays(np.random.default_rng(1)))
    stack.A[:, 0] *= -1
    measured, bound = aligned(stack)
    assert (measured > 1.01 * bound).mean() > 0.9


def test_multiplicative_noise_attains_the_sharpened_bound() -> None:
    eps = np.array([0.3, 2.0])
    U = np.broadcast_to(np.stack([QUARTER, -QUARTER]), (2, 2, 2, 2))
    stack = multiplicative(np.full((2, 2), 0.5), U, np.broadcast_to(np.eye(2), (2, 2, 2)), eps)
    measured, bound = example_7_sharp(stack)
    np.testing.assert_allclose(measured, bound)
    assert (measured < example_7(stack)[1]).all()


def test_multiplicative_noise_needs_mean_zero() -> None:
    # A(s) = 1 +- 2: with equal chances nu = 2 < sqrt(5); with 3/10 and 7/10 it is 1.6 / 0.2 = 8.
    U, eps = np.array([1.0, -1.0]).reshape(1, 2, 1, 1), np.array([2.0])
    for mu, expected in (([[0.5, 0.5]], 2.0), ([[0.3, 0.7]], 8.0)):
        stack = multiplicative(np.array(mu), U, np.ones((1, 1, 1)), eps)
        measured, bound = example_7_sharp(stack)
        np.testing.assert_allclose(measured, [[expected]])
        np.testing.assert_allclose(bound, np.sqrt([[5.0]]))
