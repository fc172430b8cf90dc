"""The theorem without beta against FIRM's own paths, and statements that would be too strong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.firm.claims.without_beta import (
    thm1_ascent as mean_ascent,
    thm1_ascent_preferred as preferred_ascent,
)
from experiments.firm.theory.descent import Round
from experiments.firm.theory.without_beta import paid
from mgda.firm import FIRM


def test_directions_ascend_the_mean_objective_and_no_faster() -> None:
    A = np.random.default_rng(0).normal(size=(200, 3, 2))
    ascent, bound = mean_ascent(A, np.full(200, 0.5))
    assert (ascent >= bound - 1e-12).all()
    inner = np.isclose(ascent, bound, rtol=1e-9)
    assert inner.sum() > 50  # weights inside the simplex: equality
    assert not inner.all()
    p = np.random.default_rng(1).uniform(0.1, 10.0, size=(200, 2))
    ascent, bound = preferred_ascent(A, p)
    assert (ascent >= bound - 1e-12).all()
    wrong, _ = preferred_ascent(A, p[:, ::-1])
    assert (wrong < 1.01 * bound).any()


def walk(seed: int, noise: float, K: int, a: float = 0.2) -> Any:
    """Random objectives of smoothness one, and FIRM's path with noise."""
    rng = np.random.default_rng(seed)
    M, d, T, C, B = 2, 2, 6, 3, 50
    b, o = rng.normal(size=(2, B, M, d))
    h = rng.uniform(-1.0, 1.0, size=(B, M, d))
    rows = np.zeros((B, C, M, d))
    objectives = Round(b=b, h=h, o=o, theta=rows[:, :, 0], g=rows, lam=rows[..., 0], common=b[:, 0])
    xi = noise * rng.normal(size=(B, T, C, M, d))
    return objectives, rng.normal(size=(B, d)), xi, np.full(B, 0.3), np.full(B, a), K


def test_paths_are_those_of_the_algorithm() -> None:
    objectives, first, xi, beta, a, K = walk(0, 0.5, K=2)
    measured, bound = paid(objectives, first, xi, beta, a, K)
    firm = FIRM(alpha=0.2, K=K, beta=0.3, normalise=False)
    state = firm.init(np.repeat(first[:, None], 3, axis=1))
    total = np.zeros(len(first))
    for t in range(xi.shape[1]):
        center = state.theta.mean(axis=1, keepdims=True)
        gradients = np.swapaxes(objectives.gradients(state.theta) + xi[:, t], -1, -2)
        state = firm.step(state, gradients)
        true = objectives.gradients(center)[:, 0]
        total += ((true * state.weights.mean(axis=1)[..., None]).sum(axis=1) ** 2).sum(axis=-1)
    np.testing.assert_allclose(measured, total, rtol=1e-9)
    assert (measured <= bound).all()
    gain = (objectives.values(state.theta.mean(axis=1)) - objectives.values(first)).mean(axis=-1)
    noise = 27 * (xi.mean(axis=-2) ** 2).sum(axis=(1, 2, 3)) / 3
    rest = bound - 13.5 * gain / 0.2 - noise
    assert (rest > 0).all()
    assert (rest <= 3 * (xi**2).sum(axis=(1, 2, 3, 4)) / 3 + 1e-9).all()


@pytest.mark.parametrize("noise", [0.0, -1.0])
def test_both_parts_of_the_theorem_s_bound_on_a_line(noise: float) -> None:
    """J = theta: the ascent alone pays without noise; noise that stops all steps pays alone."""
    one, T = np.ones((1, 1, 1)), 5
    line = Round(b=one, h=0 * one, o=0 * one, theta=one, g=one[None], lam=one, common=one[0])
    xi = np.full((1, T, 1, 1, 1), noise)
    measured, bound = paid(line, one[0], xi, one[0, 0], 0.5 * one[0, 0], 1)
    assert measured[0] == pytest.approx(T)
    assert bound[0] == pytest.approx(30 * T if noise else 13.5 * T)
