"""Lemma 10 of FIRM fails on a run of FIRM, with weights by (1) and (11) and not any."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mgda.simplex import min_norm

#: Knots of grad J^1 and grad J^2 and their values there; linear between, constant beyond.
_K = np.sqrt(2) - 1
_TOP = 0.5 + 1 + _K / 2 + (1 + _K) ** 2 / 2  # the range of J^2
_LEFT = -(_TOP - 1.02**2) / 1.02 - 1.02  # where J^1 begins to rise, so that its range is the same
SLOPES = [
    ([_LEFT, _LEFT + 1.02, 0.0, 1.02], [0.0, 1.02, 1.02, 0.0]),
    ([-1.0, 0.0, 1.0, 2 + _K], [0.0, 1.0, 1 + _K, 0.0]),
]
ALPHA, BETA, ETA, LAST, ROUNDS, START = 1.0, 0.005, 1e-4, 0.999, 7, -2.60254

Function = Callable[[float], float]


def gradient(objective: int) -> Function:
    knots, values = SLOPES[objective]
    return lambda x: float(np.interp(x, knots, values))


def value(objective: int) -> Function:
    """The integral of the gradient from where it is zero."""
    knots, values = (np.array(part) for part in SLOPES[objective])

    def at(x: float) -> float:
        ends = np.append(knots[knots < x], x)
        slopes = np.interp(ends, knots, values)
        return float((np.diff(ends) * (slopes[1:] + slopes[:-1]) / 2).sum())

    return at


def run() -> tuple[float, float]:
    """Both sides of Lemma 10, over r_max/(1 - gamma) where J takes all of it."""
    x, lam, total = START, np.array([1.0, 0.0]), 0.0
    J: list[Function] = [value(j) for j in range(2)]
    steps = [ETA] * (ROUNDS - 1) + [LAST]
    for eta in steps:
        slope = np.array([gradient(j)(x) for j in range(2)])
        lam = (1 - eta) * lam + eta * weights(slope)
        after = x + ALPHA * float(lam @ slope)
        total += float(lam @ [J[j](after) - J[j](x) for j in range(2)])
        x = after
    return total, _TOP * (1 + 2 * sum(steps[:-1]))


def weights(slope: NDArray[np.float64]) -> NDArray[np.float64]:
    """The solution of (1) for gradients of one number each."""
    return np.asarray(min_norm(slope[None, :], beta=BETA).weights)


def test_the_objectives_are_as_the_lemma_assumes() -> None:
    for j, (knots, values) in enumerate(SLOPES):
        steep = np.abs(np.diff(values) / np.diff(knots))
        assert steep.max() <= 1 + 1e-12  # so that alpha = 1 is 1/L_J
        assert value(j)(knots[0]) == 0
        assert abs(value(j)(10.0) - _TOP) <= 1e-12


def test_a_run_exceeds_the_printed_bound_and_not_the_corrected_one() -> None:
    total, printed = run()
    assert abs(total - 3.415) <= 1e-3
    assert abs(printed - 2.710) <= 1e-3
    assert total > printed / 0.8  # gamma r_max/(1 - gamma) is the largest J: false for gamma > 0.8
    assert total <= _TOP * (1 + ETA * (ROUNDS - 2) + LAST)


def ideal_run(noise: NDArray[np.float64]) -> tuple[float, float]:
    """Both sides for the ideal weights, those of the true gradients, on a run with noise.

    theta = (x, y), u = cos(pi x): J^1 = (1 - u)/2 + (1.1 - u) sin(y)/100 + 0.001, and J^2 the same
    with -u for u. The noise in units of L_J is along x, in both gradients; alpha = 1/L_J.
    """
    L_J, beta, eta = 5.1, 1e-6, 0.01
    signs = np.array([-1.0, 1.0])

    def J(x: float, y: float) -> NDArray[np.float64]:
        u = signs * np.cos(np.pi * x)
        return np.asarray((1 + u) / 2 + (1.1 + u) * np.sin(y) / 100 + 0.001)

    def slopes(x: float, y: float) -> NDArray[np.float64]:
        du = -signs * np.pi * np.sin(np.pi * x)
        along_y = (1.1 + signs * np.cos(np.pi * x)) * np.cos(y) / 100
        return np.stack([du / 2 + du * np.sin(y) / 100, along_y], axis=1)

    theta, lam, total = np.zeros(2), np.array([0.5, 0.5]), 0.0
    for sign in noise:
        true = slopes(*theta)
        ideal = np.asarray(min_norm(true.T, beta=beta).weights)
        g = true + sign * L_J * np.array([1.0, 0.0])
        lam = (1 - eta) * lam + eta * np.asarray(min_norm(g.T, beta=beta).weights)
        after = theta + lam @ g / L_J
        total += float(ideal @ (J(*after) - J(*theta)))
        theta = after
    return total, 1.022 * (1 + 2 * eta * (len(noise) - 1))


def test_noise_makes_the_ideal_weights_jump_at_every_step() -> None:
    for seed in range(3):
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], 10)
        total, bound = ideal_run(signs)
        assert abs(total - 10.0) <= 0.01
        assert abs(bound - 1.21) <= 0.005
