"""(32) of FIRM fails on a run of FIRM, with objectives that are bounded and smooth everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from mgda.simplex import min_norm

ETA, LAST, ROUNDS, BETA, NOISE = 1e-4, 0.999, 7, 0.01, 10.0


def slope(x: float) -> float:
    """0 below 0, then x up to 1, 2 - x up to 2, and 0 beyond: Lipschitz with 1."""
    return float(np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 0.0]))


def value(x: float) -> float:
    """Its integral from 0, in [0, 1]."""
    inside = min(max(x, 0.0), 2.0)
    return inside**2 / 2 if inside <= 1 else 1 - (2 - inside) ** 2 / 2


def run(sign: float) -> tuple[float, float, float]:
    """T times the left side of (32), the printed right side and the corrected one.

    J^1 is a function of the first coordinate, J^2 the same one of the second, alpha = L_J = 1 and
    r_max/(1 - gamma) = 1; the sign is that of the noise in the third coordinate of g^1 at t = T.
    """
    theta, lam = np.array([1 / 32, 1.0, 0.0]), np.array([1.0, 0.0])
    steps, left, noise = [ETA] * (ROUNDS - 1) + [LAST], 0.0, 0.0
    for t, eta in enumerate(steps, start=1):
        true = np.array([[slope(theta[0]), 0.0, 0.0], [0.0, slope(theta[1]), 0.0]])
        g = true.copy()
        g[0, 2] += sign * NOISE * (t == ROUNDS)
        star = np.asarray(min_norm(g.T, beta=BETA).weights)
        lam = (1 - eta) * lam + eta * star
        left += float(((lam @ true) ** 2).sum())
        noise += float(((lam @ g - lam @ true) ** 2).sum())
        theta = theta + lam @ g
    return left, 2 * (1 + 2 * sum(steps[:-1])) + noise, 2 * (1 + sum(steps[1:])) + noise


def test_the_objectives_are_as_assumed() -> None:
    x = np.linspace(-1.0, 3.0, 4001)
    values = np.array([value(one) for one in x])
    assert values.min() == 0.0
    assert values.max() == 1.0
    assert np.diff(values) / np.diff(x) == pytest.approx(
        [slope(one) for one in (x[1:] + x[:-1]) / 2], abs=1e-6
    )


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_run_exceeds_the_printed_bound_and_not_the_corrected_one(sign: float) -> None:
    left, printed, corrected = run(sign)
    assert left == pytest.approx(2.311, abs=1e-3)
    assert printed == pytest.approx(2.014, abs=1e-3)
    assert left > printed / 0.88  # gamma r_max/(1 - gamma) is the largest J
    assert left <= corrected == pytest.approx(4.011, abs=1e-3)
