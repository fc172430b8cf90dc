"""The laws behind OOD-PL's rates, each against a computation of another kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.oodpl.rates._rate_laws import InnerLoop, OuterLoop, derivative
from experiments.oodpl.rates._rate_losses import exact_losses
from experiments.oodpl.rates._rate_systems import printed_factor
from linsys.bilevel import (
    DomainOracle,
    TanhReward,
    descend,
    implicit,
    meta_distribution,
    meta_loss,
    optimum,
    unrolled,
)

SMALL = {"prompts": 3, "answers": 3, "p": 2, "q": 2}
DRAWN = meta_distribution(5, train=3, held_out=0, strength=1.0, **SMALL)  # type: ignore[arg-type]
ORACLES = [DomainOracle(domain=domain, beta=2.0) for domain in DRAWN.train]
LAW = InnerLoop(ORACLES[0], DRAWN.phi)


@pytest.mark.parametrize("s", [np.inf, 3.0])
@pytest.mark.parametrize("answers", [3, 9])
def test_losses_in_bulk_are_those_of_the_metrics(s: float, answers: int) -> None:
    phis = 3.0 * np.random.default_rng(0).standard_normal((5, 2))
    sizes = {**SMALL, "answers": answers}  # nine are more than the compiled loops take
    drawn = meta_distribution(5, train=3, held_out=0, strength=1.0, **sizes).train  # type: ignore[arg-type]
    domains = drawn
    if np.isfinite(s):
        domains = tuple(replace(d, reward=TanhReward(d.reward.xi, s=s)) for d in domains)
    oracles = [DomainOracle(domain=domain, beta=2.0) for domain in domains]
    expected = [meta_loss(oracles, phi) for phi in phis]
    losses = exact_losses(drawn, 2.0, phis, s)
    near = {"rtol": 1e-8, "atol": 1e-12}
    np.testing.assert_allclose(losses.values, [loss.value for loss in expected], **near)
    np.testing.assert_allclose(losses.gradients, [loss.gradient for loss in expected], **near)
    # several bounds and factors at once
    phis, bounds, betas = (
        np.tile(phis[:1], (3, 1)),
        np.array([s, 1.0, s]),
        np.array([2.0, 2.0, 1.0]),
    )
    values, gradients = exact_losses(drawn, betas, phis, bounds)
    np.testing.assert_allclose(gradients[0], expected[0].gradient, **near)
    assert np.abs(gradients[1:] - gradients[0]).max(axis=1).min() > 1e-4
    assert np.abs(values[1:] - values[0]).min() > 1e-4


def test_the_derivative_of_the_adjoint_error_is_the_law() -> None:
    """K is what moves d theta / d phi where theta is not theta_*: one exact step from near it."""
    alpha, d = 0.1, 1e-5 * np.array([1.0, -2.0])
    oracle, phi = LAW.oracle, LAW.phi
    mixed = oracle.mixed_vjp(phi, LAW.theta + d, None, np.eye(2)).T
    H = oracle.inner_hessian(phi, LAW.theta + d)
    moved = LAW.sensitivity @ (np.eye(2) - alpha * H) - alpha * mixed - LAW.sensitivity
    np.testing.assert_allclose(moved, -alpha * LAW.bend @ d, rtol=1e-3)


def test_the_factor_d_of_exact_steps() -> None:
    alpha = 1.0 / LAW.spectrum[0][-1]
    factor = LAW.factor(alpha)
    D = [int(time / -np.log(factor)) for time in (14, 20)]
    errors = []
    for steps in D:
        path = descend(LAW.oracle, LAW.phi, np.zeros(2), alpha=alpha, D=steps)
        errors.append((unrolled(LAW.oracle, LAW.phi, path) - LAW.gradient) / factor**steps)
    u = LAW.spectrum[1][:, 0]
    path = descend(LAW.oracle, LAW.phi, np.zeros(2), alpha=alpha, D=D[0])
    c = u @ (path.theta[-1] - LAW.theta) / factor ** D[0]
    rise = np.linalg.norm(errors[1] - errors[0]) / (D[1] - D[0])
    assert rise == pytest.approx(LAW.growth(alpha, c), rel=1e-3)
    assert rise != pytest.approx(LAW.growth(alpha, 1.1 * c), rel=1e-3)


def test_the_floor_of_linear_sampled_steps() -> None:
    """Of the linear recursion itself, sampled: all that the second value is about."""
    alpha, rng = 0.05, np.random.default_rng(1)
    first, more = LAW.floor(alpha)
    drifts, noises, chances = LAW._samples
    state = np.zeros((4000, noises.shape[1]))
    for _ in range(600):
        z = rng.choice(len(chances), p=chances, size=len(state))
        state = state - alpha * (np.einsum("nij,nj->ni", drifts[z], state) + noises[z])
    v, V = LAW.outer
    seen = np.hstack([LAW.sensitivity @ V, np.kron(np.eye(2), v)])
    squares = ((state @ seen.T) ** 2).sum(axis=1)
    error = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - more) < 4.0 * error
    assert abs(squares.mean() - 1.5 * first) > 4.0 * error
    assert LAW.floor(alpha / 100.0)[1] == pytest.approx(first / 100.0, rel=0.02)


def test_the_floor_of_the_outer_loop_is_that_of_its_linear_recursion() -> None:
    law = OuterLoop(ORACLES, DRAWN.phi)
    A, C, eta = law.hessian, law.between + law.within, 0.5
    assert np.linalg.eigvalsh(C)[0] > 0
    covariance, rounds, squares = np.zeros((2, 2)), np.array([3, 7]), []
    for k in range(1, 8):
        step = np.eye(2) - eta * A
        covariance = step @ covariance @ step + eta**2 * C
        if k in rounds:
            squares.append(np.trace(A @ covariance @ A))
    assert law.floor(eta, C, rounds) == pytest.approx(np.mean(squares), rel=1e-9)
    late = law.floor(1e-3, C, np.array([10_000_000]))
    assert late == pytest.approx(law.floor(1e-3, C), rel=1e-2)


def test_the_curvature_of_the_outer_loss_is_that_of_every_domains_own() -> None:
    """Domains with factors beta of their own, one of them with a bounded reward."""
    first, second, third = (oracle.domain for oracle in ORACLES)
    bounded = replace(second, reward=TanhReward(second.reward.xi, s=3.0))
    oracles = [
        DomainOracle(domain=domain, beta=beta)
        for domain, beta in ((first, 1.5), (bounded, 2.0), (third, 4.0))
    ]
    slopes = derivative(lambda phi: meta_loss(oracles, phi).gradient, DRAWN.phi)
    hessian = OuterLoop(oracles, DRAWN.phi).hessian
    # gradients that agree to 1e-13, differences over 2e-5
    np.testing.assert_allclose(hessian, (slopes + slopes.T) / 2.0, atol=1e-8)
    for other in (ORACLES, [oracles[0]] * 3):
        assert np.abs(OuterLoop(other, DRAWN.phi).hessian - hessian).max() > 1e-4


def test_covariances_of_hypergradients() -> None:
    """Within and between domains they add up to that of a random pair of a random domain."""
    law = OuterLoop(ORACLES, DRAWN.phi)
    values, weights = [], []
    for oracle in ORACLES:
        theta = optimum(oracle, DRAWN.phi)
        x, y, other, chances = oracle.domain.pairs
        for i, chance in enumerate(chances):
            pair = x[[i]], y[[i]], other[[i]]
            values.append(implicit(oracle, DRAWN.phi, theta, pair))
            weights.append(chance / len(ORACLES))
    total = np.cov(np.array(values).T, aweights=weights, bias=True)
    np.testing.assert_allclose(law.between + law.within, total, rtol=1e-8, atol=1e-12)
    assert np.trace(law.between) > 1e-6


def test_the_printed_factor() -> None:
    r = ORACLES[0].domain.reward.value(DRAWN.phi).min()
    mu = min(np.linalg.eigvalsh(cov)[0] for cov in ORACLES[0].domain.policy.covariance(LAW.theta))
    q = printed_factor(ORACLES[0], DRAWN.phi, LAW.theta, 0.3)
    assert q == pytest.approx(3.0 * (1.0 - 0.3 * np.exp(r) * mu / np.exp(2.0)) ** 2)
    q = printed_factor(ORACLES[0], DRAWN.phi, LAW.theta, 0.3, repaired=True)
    assert q == pytest.approx(3.0 * (1.0 - 0.3 * np.exp(r) ** 0.5 * mu) ** 2)


def test_derivatives() -> None:
    A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    np.testing.assert_allclose(derivative(lambda x: A @ x, np.ones(2)), A, atol=1e-9)
