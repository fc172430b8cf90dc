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
