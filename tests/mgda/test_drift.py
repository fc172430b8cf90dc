"""Drift measures: by loops, where they vanish, how disagreement falls with beta."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from mgda.drift import client_drift, disagreement, gradient_drift, weight_spread
from mgda.firm import FIRM
from mgda.simplex import gram


def draws(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def simplex(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=shape[:-1])


def test_definitions_by_loops() -> None:
    g, weights, reference = draws(2, 4, 5, 3), simplex(2, 4, 3), simplex(2, 3, seed=1)
    for r in range(2):
        for ref, given in ((weights[r].mean(axis=0), None), (reference[r], reference)):
            total = np.zeros(5)
            for c in range(4):
                for j in range(3):
                    total += g[r, c, :, j] * (weights[r, c, j] - ref[j]) / 4
            distance = disagreement(g, weights, given)[r]
            np.testing.assert_allclose(distance, total @ total, rtol=1e-12)
        spread = sum(((w - weights[r].mean(axis=0)) ** 2).sum() for w in weights[r]) / 4
        np.testing.assert_allclose(weight_spread(weights)[r] ** 2, spread, rtol=1e-12)
        mean = draws(2, 5, 3, seed=2)
        gap = (sum(g[r, c] for c in range(4)) / 4 - mean[r]) @ reference[r]
        np.testing.assert_allclose(gradient_drift(g, mean, reference)[r], gap @ gap, rtol=1e-12)
    np.testing.assert_allclose(client_drift(g[..., 0]), g[..., 0].var(axis=1).sum(axis=-1))
    np.testing.assert_allclose(disagreement(torch.tensor(g), weights), disagreement(g, weights))


def test_exactly_zero_for_equal_clients() -> None:
    g, weights = draws(3, 5, 3), np.repeat(simplex(1, 3), 3, axis=0)
    assert disagreement(g, weights) == 0.0
    assert client_drift(np.repeat(draws(1, 5), 7, axis=0)) == 0.0
    assert disagreement(g, weights, weights[0]) == 0.0
    assert disagreement(g, weights, weights[0][::-1]) > 1e-3


def test_the_readings_differ_by_the_common_shift() -> None:
    """Identical gradients: clients' deviations cancel around their mean, not around the truth."""
    g = np.repeat(draws(1, 5, 3), 4, axis=0)
    weights, truth = simplex(4, 3), simplex(3, seed=1)
    assert disagreement(g, weights) < 1e-28
    shift = g[0] @ (weights.mean(axis=0) - truth)
    np.testing.assert_allclose(disagreement(g, weights, truth), shift @ shift, rtol=1e-12)


def test_before_any_bound_on_the_weights() -> None:
    """(18) and (19): T <= ((1/C) sum_c R |lambda^c - mean|_1)^2, attained in one direction."""
    g, weights = draws(50, 4, 5, 3), simplex(50, 4, 3)
    R = np.linalg.norm(g, axis=-2).max(axis=(-2, -1))
    absolute = np.abs(weights - weights.mean(axis=1, keepdims=True)).sum(axis=-1).mean(axis=-1)
    assert (disagreement(g, weights) <= (R * absolute) ** 2).all()
    signs = np.sign(weights - weights.mean(axis=1, keepdims=True))
    worst = draws(50, 1, 5, 1) * signs[:, :, None]
    R = np.linalg.norm(worst, axis=-2).max(axis=(-2, -1))
    np.testing.assert_allclose(disagreement(worst, weights), (R * absolute) ** 2, rtol=1e-12)


def drift_of(g: Any, beta: float) -> Any:
    firm = FIRM(alpha=1.0, beta=beta, normalise=False)
    return disagreement(g, firm.step(firm.init(np.zeros(g.shape[:-1])), g).weights)


def test_swapped_pair_falls_with_beta_as_derived() -> None:
    """Clients with (u, v) and (v, u): inside the simplex T = D (|u|^2 - |v|^2)^2 / 4 (D + beta)^2.

    With D = |u - v|^2 the first weights are (|v|^2 - u'v + beta/2) / (D + beta) and the same with u
    for v, and their difference is (|v|^2 - |u|^2) / (D + beta).
    """
    u, v = np.array([1.0, 0.2, 0.0]), np.array([0.1, 1.5, 0.3])
    g = np.array([np.stack([u, v], axis=1), np.stack([v, u], axis=1)])
    D = ((u - v) ** 2).sum()
    last = np.inf
    for beta in (0.0, 0.1, 1.0, 10.0, 1e3, 1e6):
        distance = drift_of(g, beta)
        expected = D * (u @ u - v @ v) ** 2 / (4 * (D + beta) ** 2)
        np.testing.assert_allclose(
            distance, expected, rtol=1e-9
        )  # a difference of 1e-6 by rounding
        assert distance < last
        last = distance


def test_falls_as_the_square_of_beta_in_the_end() -> None:
    """beta (lambda^c - 1/M) -> -2 P G^c 1/M, so that beta^2 T has a limit, with error O(1/beta)."""
    g = draws(4, 6, 3)
    G = gram(g)
    slope = -2 * (G.sum(axis=-1) - G.sum(axis=(-2, -1))[:, None] / 3) / 3
    limit = disagreement(g, slope)  # linear in the weights, whatever their sum
    for beta in (1e3, 1e5):
        relative = beta**2 * drift_of(g, beta) / limit - 1
        assert abs(relative) <= 4 * np.linalg.norm(G, 2, axis=(-2, -1)).max() / beta
    values = [float(drift_of(g, beta)) for beta in (0.0, 1.0, 10.0, 100.0, 1e3, 1e4)]
    assert values == sorted(values, reverse=True)


def test_refused_shapes() -> None:
    for g, weights in (
        (draws(4, 5, 3), simplex(3, 3)),
        (draws(4, 5, 3), simplex(4, 2)),
        (draws(5, 3), simplex(3)),
    ):
        with pytest.raises(InputError, match=r"`(weights|gradients)` must have shape"):
            disagreement(g, weights)
