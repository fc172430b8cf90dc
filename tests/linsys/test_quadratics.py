"""Quadratic functions: their gradients, their minimiser and the excess, in every precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from linsys import InputError
from linsys.linalg import precise, precision
from linsys.quadratics import Quadratics

RNG = np.random.default_rng(7)
ROOTS = RNG.normal(size=(4, 3, 3))
F = Quadratics(ROOTS @ ROOTS.mT, b=RNG.normal(size=(4, 3)), c=RNG.normal(size=(4, 3)))
X = RNG.normal(size=(5, 3))


def values(f: Quadratics, x: Any) -> Any:
    """f_i(x) from the definition."""
    gap = x - f.c
    return np.array([v @ A @ v / 2 - b @ x for v, A, b in zip(gap, f.A, f.b, strict=True)])


def test_gradients_are_differences_of_the_values() -> None:
    def is_derivative(f: Quadratics) -> bool:
        # central differences of a quadratic function are exact: 1e-9 is their rounding, 1e-16 / h
        steps = 1e-4 * np.eye(3)
        differences = [(values(F, X[0] + h) - values(F, X[0] - h)) / 2e-4 for h in steps]
        return np.allclose(np.transpose(differences), f.gradients(X[0]), rtol=0, atol=1e-9)

    assert is_derivative(F)
    assert not is_derivative(replace(F, b=-F.b))
    assert not is_derivative(replace(F, c=-F.c))


def test_the_excess_is_that_over_the_minimum() -> None:
    assert np.allclose(F.gradients(F.best).mean(axis=0), 0, atol=1e-13)  # some roundings
    stated = [values(F, x).mean() - values(F, F.best).mean() for x in X]
    assert np.allclose(F.excess(X), stated, rtol=1e-12)
    assert not np.allclose(replace(F, b=0).excess(X), stated, rtol=1e-2)
    assert np.allclose([F.mu, F.L], np.linalg.eigvalsh(F.hessian)[[0, -1]], rtol=1e-12)


def test_every_device_may_have_a_point_of_its_own() -> None:
    own = F.gradients(X[:4])
    assert own.shape == (4, 3)
    assert np.allclose(own[2], F.gradients(X[2])[2], rtol=1e-14)  # a rounding
    assert not np.allclose(own[2], F.gradients(X[1])[2], rtol=1e-14)
    stacks = F.gradients(np.stack([X[:4], X[1:]]))
    assert np.allclose(stacks[1, 0], F.gradients(X[1])[0], rtol=1e-14)


def test_high_precision_stays() -> None:
    with precision(50):
        f = Quadratics(precise(F.A), precise(F.b))
        left = f.gradients(f.best).mean(axis=0)
        assert max(abs(one) for one in left) < 1e-45
        assert np.allclose(f.excess(precise(X)).astype(float), Quadratics(F.A, F.b).excess(X))


def test_what_is_no_stack_of_matrices_is_refused() -> None:
    with pytest.raises(InputError, match=r"`A` must be n matrices, .*; found \(3, 3\)"):
        Quadratics(np.eye(3))


def test_the_largest_smoothness_is_that_of_a_device() -> None:
    assert np.isclose(F.L_max, max(np.linalg.eigvalsh(A)[-1] for A in F.A), rtol=1e-12)
    assert F.L_max > 1.01 * F.L  # that of the mean is another one


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"A": [[[1, 2], [0, 1]]]}, r"`A` must be symmetric matrices; found A\[0\] = \[\[1"),
        ({"A": [[[1, 2], [2]]]}, "`A`"),
        (
            {"A": [np.eye(2)], "b": [1.0, 2.0]},
            r"`b` must have shape \(n, d\) = \(1, 2\); found \(2,\)",
        ),
        ({"A": [np.eye(2)], "c": np.ones((2, 2))}, r"`c` must have shape .* found \(2, 2\)"),
    ],
)
def test_what_is_no_quadratic_function_is_refused(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Quadratics(**parts)


def test_lists_will_do() -> None:
    f = Quadratics([[[1, 0], [0, 3]]], c=[[1.0, 2.0]])
    assert (f.best.tolist(), float(f.mu), float(f.L)) == ([1.0, 2.0], 1.0, 3.0)
