"""Runs on objectives that are bounded and smooth everywhere, with all their coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.firm.claims import ascent, telescoping
from experiments.firm.theory.hills import Climb, height, slope
from mgda.simplex import min_norm


def climb(**changes: Any) -> Climb:
    """The family of firm.lemma10, in units of the objectives' largest value."""
    one = np.ones(1)
    noise = np.zeros((1, 3, 2))
    noise[0, -1, 0] = 10.0
    fields = {
        "first": np.array([[0.5, 1.0]]),
        "start": np.array([[1.0, 0.0]]),
        "noise": noise,
        "eta": np.array([[0.001, 0.001, 0.999]]),
        "beta": 0.1 * one,
        "a": one,
        "top": one,
    }
    return Climb(**{**fields, **changes})


def lemma10(run: Climb) -> rc.Sides:
    """Both sides of Lemma 10, r_max/(1-gamma) being the largest value."""
    return telescoping.lemma10(run.J, run.lam, run.eta, np.ones(1))


def test_the_objectives_are_bounded_and_smooth() -> None:
    x = np.linspace(-2.0, 4.0, 6001)
    assert height(x).min() == 0
    assert height(x).max() == pytest.approx(1, rel=1e-12)
    middle = (x[1:] + x[:-1]) / 2
    np.testing.assert_allclose(np.diff(height(x)) / np.diff(x), slope(middle), atol=1e-3)
    assert np.abs(np.diff(slope(x)) / np.diff(x)).max() <= 1 + 1e-9


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, -1)])
def test_signs_of_the_noise_change_neither_weights_nor_values(signs: tuple[int, int]) -> None:
    noise = np.random.default_rng(1).uniform(0, 2, (1, 3, 2))
    run = climb(noise=noise, first=np.array([[0.3, 0.8]]), top=np.array([1.5]))
    theta, lam = np.array([0.3, 0.8, 0.0, 0.0]), np.array([1.0, 0.0])
    left = error = 0.0
    for t in range(3):
        true = 1.5 * np.hstack([np.diag(slope(theta[:2])), np.zeros((2, 2))])
        g = true.copy()
        g[0, 2] += 1.5 * signs[0] * noise[0, t, 0]
        g[1, 3] += 1.5 * signs[1] * noise[0, t, 1]
        star = np.asarray(min_norm(g.T, beta=0.1).weights)
        lam = (1 - run.eta[0, t]) * lam + run.eta[0, t] * star
        np.testing.assert_allclose(run.lam[0, t], lam, atol=1e-9)
        left += float(((lam @ true) ** 2).sum()) / 3
        error += float(((lam @ (g - true)) ** 2).sum()) / 3
        theta = theta + lam @ g / 1.5
        np.testing.assert_allclose(run.J[0, t + 1], 1.5 * height(theta[:2]), atol=1e-9)
    assert run.stationarity[0] == pytest.approx(left, rel=1e-8)
    assert run.error[0] == pytest.approx(error, rel=1e-8)


def test_a_large_last_step_breaks_lemma_10_and_equation_32() -> None:
    measured, bound = lemma10(climb())
    assert measured[0] == pytest.approx(1.36, abs=0.01)
    assert bound[0] == pytest.approx(1.004)
    assert measured[0] <= 1 + climb().eta[0, 1:].sum()  # corrected
    # steps that do not grow, exact gradients, or weights that do not move
    for changes in (
        {"eta": np.array([[0.999, 0.001, 0.001]])},
        {"noise": np.zeros((1, 3, 2))},
        {"eta": np.full((1, 3), 0.001)},
    ):
        measured, bound = lemma10(climb(**changes))
        assert measured[0] <= bound[0]
    run, one = climb(), np.ones(1)
    measured, bound = ascent.eq32(run, one, run.eta, one)
    assert measured[0] == pytest.approx((0.25 + 1 + 1) / 3, abs=0.01)
    assert bound[0] == pytest.approx((2 * 1.004 + (0.011 * 10) ** 2) / 3, abs=0.01)
    quiet = climb(eta=np.full((1, 3), 0.001))
    measured, bound = ascent.eq32(quiet, one, quiet.eta, one)
    assert measured[0] <= bound[0]
