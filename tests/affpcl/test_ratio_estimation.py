"""Density ratios from coupled samples: loops over pairs, mutations, high precision."""

from __future__ import annotations

import numpy as np

from experiments.affpcl.claims.appendix_c4 import (
    ex2_coupling as agreement,
    ex2_mean as mean_residual,
    ex2_monotone as monotone,
    ex2_var as variance,
    ex2_var_first as variance_first,
)
from experiments.affpcl.theory.ratio_estimation import Coupling
from linsys.linalg import precise, precision

ROUNDING = 1e-12


def couplings(seed: int, count: int = 200) -> Coupling:
    rng = np.random.default_rng(seed)
    others = rng.uniform(-1, 1, (count, 3, 2))
    return Coupling(
        own=rng.dirichlet(np.full(3, 0.5), size=count),
        rest=rng.dirichlet(np.full(3, 0.5), size=count),
        n=rng.integers(1, 6, count).astype(float),
        closeness=rng.uniform(0, 1, count),
        scale=rng.uniform(0.1, 1, count),
        others=others / np.maximum(np.linalg.norm(others, axis=-1, keepdims=True), 1),
        eta=rng.standard_normal((count, 3)),
    )


def test_couplings_and_features_are_what_the_example_assumes() -> None:
    s = couplings(0)
    np.testing.assert_allclose(s.joint.sum(axis=2), s.own, atol=ROUNDING)
    np.testing.assert_allclose(s.joint.sum(axis=1), s.mu0, atol=ROUNDING)
    assert (s.joint >= 0).all()
    ratio = s.own / s.mu0
    np.testing.assert_allclose((s.psi @ s.eta_star[..., None])[..., 0], ratio - 1, atol=1e-9)
    assert (np.linalg.norm(s.psi, axis=-1) <= 1 + ROUNDING).all()
    assert (ratio <= s.n[:, None] * (1 + ROUNDING)).all()


def test_optimal_couplings_differ_as_little_as_possible() -> None:
    s = couplings(1)
    measured, bound = agreement(s)
    assert (measured >= bound - ROUNDING).all()
    assert (measured > bound * 1.2).any()
    best = Coupling(**{**vars(couplings(1)), "closeness": np.ones(200)})
    np.testing.assert_allclose(*agreement(best), atol=ROUNDING)


def test_mean_and_second_moment_by_loops() -> None:
    s = couplings(2, count=4)
    means, _ = mean_residual(s)
    squares, _ = variance_first(s)
    for k in range(4):
        mean, square = np.zeros(3), 0.0
        for a in range(3):
            for b in range(3):
                chance, here = s.joint[k, a, b], s.psi[k, b]
                mean += chance * (here * (here @ s.eta[k]) - (s.psi[k, a] - here))
                at_star = here * (s.own[k, b] / s.mu0[k, b] - 1) - (s.psi[k, a] - here)
                square += chance * (at_star @ at_star)
        np.testing.assert_allclose(means[k], mean, atol=ROUNDING)
        np.testing.assert_allclose(squares[k], square, atol=ROUNDING)


def test_statements_hold_and_mutants_fail() -> None:
    s = couplings(3)
    np.testing.assert_allclose(*mean_residual(s), atol=1e-9)
    swapped = Coupling(**{**vars(couplings(3)), "eta": -couplings(3).eta})
    assert np.abs(mean_residual(swapped)[0] - mean_residual(s)[1]).max() > 0.1
    measured, bound = monotone(s)
    assert (measured >= bound - 1e-9).all()
    assert (measured < 1.5 * bound).any()
    measured, bound = variance(s)
    assert (measured <= bound * (1 + ROUNDING) + ROUNDING).all()
    # two states, mu^i a point: chi^2 = n - 1 = TV max rho, the second step is an equality
    point = Coupling(
        own=np.array([[1.0, 0.0]]),
        rest=np.array([[0.0, 1.0]]),
        n=np.array([2.0]),
        closeness=np.ones(1),
        scale=np.ones(1),
        others=np.zeros((1, 2, 1)),
        eta=np.zeros((1, 2)),
    )
    measured, bound = variance(point)
    np.testing.assert_allclose(measured[0, 1], bound[0, 1])
    # psi = (1, -1) on the two states: g = 1 where both are at the first, -3 where they differ
    np.testing.assert_allclose([measured[0, 0], bound[0, 0]], [0.5 * 1 + 0.5 * 1, 2 + 4])


def test_high_precision_agrees() -> None:
    s = couplings(4, count=2)
    with precision(40):
        exact = Coupling(**{name: precise(value) for name, value in vars(couplings(4, 2)).items()})
        for statement in (variance, monotone, mean_residual):
            for fine, coarse in zip(statement(exact), statement(s), strict=True):
                np.testing.assert_allclose(fine.astype(float), coarse, atol=1e-9)
