"""OOD-PL's derivatives of the inner loop against differences and float64 code; verdicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.oodpl.claims import hypergradients, remark
from experiments.oodpl.theory import hypergradient as at
from experiments.oodpl.theory.bilevel import Policy, Reward, System, TanhReward, pick_pair
from experiments.oodpl.theory.objectives import unrestricted
from linsys.bilevel import (
    Domain,
    DomainOracle,
    ExponentialPolicy,
    TanhReward as Tanh,
    hypergradient,
    inner,
)
from linsys.linalg import precise, precision

B, X, Y, P, Q, D = 4, 2, 3, 3, 2, 4


def runs(seed: int = 7) -> at.Run:
    """Four runs of four steps."""
    rng = np.random.default_rng(seed)
    system = System(
        policy=Policy(psi=rng.normal(size=(B, X, Y, P)), log_h=rng.normal(size=(B, X, Y))),
        reward=TanhReward(xi=rng.normal(size=(B, X, Y, Q)), r0=rng.normal(size=(B, X, Y))),
        prompts=rng.dirichlet(np.ones(X), size=B),
        mu_hat=rng.dirichlet(np.ones(Y), size=(B, X)),
        beta=np.array([0.5, 1.0, 2.0, 5.0]),
    )
    pair = np.array([1, 5, 9, 11])  # (0, 0, 1), (0, 1, 2), (1, 0, 0), (1, 0, 2)
    z = rng.integers(X * Y, size=(B, D))
    start = rng.normal(size=(B, P))
    return at.Run(system, rng.normal(size=(B, Q)), start, z, np.full(B, 0.3), pair)


def slope(f: Any, phi: np.ndarray, width: float = 1e-5) -> np.ndarray:
    """df/dphi by central differences, shape (B, q, ...)."""
    steps = width * np.eye(phi.shape[-1])
    return np.stack([(f(phi + e) - f(phi - e)) / (2 * width) for e in steps], axis=1)


def test_the_loop_is_differentiated() -> None:
    run = runs()

    def end(phi: np.ndarray) -> np.ndarray:
        return replace(run, phi=phi).path[-1]

    def loss(phi: np.ndarray) -> np.ndarray:
        theta = replace(run, phi=phi).path[-1]
        return pick_pair(run.system.preference_loss(theta), run.pair)

    np.testing.assert_allclose(run.jacobian, slope(end, run.phi), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(run.exact, slope(loss, run.phi), rtol=1e-6, atol=1e-8)
    assert (run.exact[2] == 0).all()  # a pair of equal answers


def test_the_corrected_formulas_agree_and_each_slip_shows() -> None:
    run = runs()
    np.testing.assert_allclose(run.sums(), run.jacobian, rtol=1e-11)
    np.testing.assert_allclose(run.recursion(), run.jacobian, rtol=1e-11)
    for wrong in (
        run.sums(later=False),
        run.sums(forward=False),
        run.sums(rewards=False),
        run.recursion(-1),
    ):
        size = np.abs(run.jacobian).max(axis=(1, 2))
        # far above the rounding that the true formulas are held to
        assert (np.abs(wrong - run.jacobian).max(axis=(1, 2)) > 1e-6 * size).all()


def test_one_step_as_the_note_has_it() -> None:
    run = replace(runs(), z=runs().z[:, :1])
    printed = at.eq_13(run, run.sums(rewards=False, later=False), sign=1, factor=False)[1][:, 0]
    c = (run.score[0] * run.apart).sum(axis=-1)
    np.testing.assert_allclose(printed, run.alpha / run.system.beta * run.tilt[0] * c)
    weight = 1 / (1 + np.exp(run.margin))
    true = -weight[:, None] * run.reward_slope[0] * printed[:, None]
    np.testing.assert_allclose(run.exact, true, atol=1e-15)


def test_the_optimum_moves_as_38_says() -> None:
    run = runs()
    psi, log_h = run.system.policy.psi[..., :2], run.system.policy.log_h
    system = replace(run.system, policy=Policy(psi=psi, log_h=log_h))
    derivative = at.implicit(system, run.phi, system.optimum(run.phi))
    np.testing.assert_allclose(derivative, slope(system.optimum, run.phi), rtol=1e-6, atol=1e-8)
    alone, moved = hypergradients.eq_38(system, system.optimum(run.phi), run.phi)
    np.testing.assert_allclose(alone, moved, rtol=1e-9)
    assert (np.abs(alone).max(axis=(1, 2)) > 1e-3).all()
    free = unrestricted(run.system)
    known = at.eq_38_unrestricted(free, run.phi)[1]
    np.testing.assert_allclose(known, slope(free.optimum, run.phi), rtol=1e-6, atol=1e-8)


def test_beta_is_the_unit_of_phi_for_linear_rewards_alone() -> None:
    run = runs()
    linear = replace(run.system, reward=Reward(run.system.reward.xi, 0 * run.system.reward.r0))
    measured, scaled = remark.remark_1_unit(replace(run, system=linear))
    np.testing.assert_allclose(measured, scaled, rtol=1e-12)
    curved, apart = remark.remark_1_unit(run)
    assert np.abs(curved - apart).max() > np.abs(curved).max() / 10


def test_many_exact_steps_reach_the_implicit_derivative() -> None:
    """Two answers that differ by psi = 2 and by the reward phi: theta_* = phi / 2."""
    psi = np.array([[[[-1.0], [1.0]]]])
    system = System(
        policy=Policy(psi=psi, log_h=np.zeros((1, 1, 2))),
        reward=Reward(xi=np.array([[[[0.0], [1.0]]]]), r0=np.zeros((1, 1, 2))),
        prompts=np.ones((1, 1)),
        mu_hat=np.full((1, 1, 2), 0.5),
        beta=np.ones(1),
    )
    phi, J, alpha = np.full((1, 1), 0.4), np.zeros((1, 1, 1)), 0.3
    theta = np.zeros((1, 1))
    for _ in range(400):
        J = J - alpha * (system.mixed(phi, theta) + J @ system.hessian(phi, theta))
        theta = theta - alpha * system.gradient(phi, theta)
    np.testing.assert_allclose(theta, 0.2)
    np.testing.assert_allclose(J, at.implicit(system, phi, theta))
    np.testing.assert_allclose(J, 0.5)


def test_high_precision_is_the_same_formula() -> None:
    run = runs()
    with precision(40):
        s = run.system
        exactly = System(
            policy=Policy(psi=precise(s.policy.psi), log_h=precise(s.policy.log_h)),
            reward=TanhReward(xi=precise(s.reward.xi), r0=precise(s.reward.r0)),
            prompts=precise(s.prompts),
            mu_hat=precise(s.mu_hat),
            beta=precise(s.beta),
        )
        fine = replace(
            run,
            system=exactly,
            phi=precise(run.phi),
            theta=precise(run.theta),
            alpha=precise(run.alpha),
        )
        exact, corrected = at.eq_13(fine, fine.sums())
        assert exact.dtype == object
        assert np.abs(exact - corrected).max() < 1e-37
    np.testing.assert_allclose(exact.astype(float), run.exact, rtol=1e-10, atol=1e-13)


def test_the_float64_code_agrees() -> None:
    rng = np.random.default_rng(8)
    run = runs()
    s = run.system
    xi = rng.normal(size=(B, X, Y, Q))
    run = replace(run, system=replace(s, reward=TanhReward(xi=xi, r0=np.zeros((B, X, Y)))))
    s, best = run.system, run.system.optimum(run.phi)
    sensitivity = at.implicit(s, run.phi, best)
    compared = 0
    for b in range(B):
        domain = Domain(
            name="one",
            policy=ExponentialPolicy(psi=s.policy.psi[b], log_h=s.policy.log_h[b]),
            reward=Tanh(xi=xi[b]),
            prompts=s.prompts[b],
            mu_hat=s.mu_hat[b],
        )
        oracle = DomainOracle(domain=domain, beta=float(s.beta[b]))
        phi, theta = run.phi[b], run.theta[b]
        of_all = s.loss(run.phi, run.theta), s.gradient(run.phi, run.theta)
        assert oracle.inner_loss(phi, theta, None) == pytest.approx(of_all[0][b])
        np.testing.assert_allclose(oracle.inner_grad(phi, theta, None), of_all[1][b], rtol=1e-10)
        np.testing.assert_allclose(
            oracle.inner_hessian(phi, theta), s.hessian(run.phi, run.theta)[b], rtol=1e-10
        )
        np.testing.assert_allclose(inner.optimum(oracle, phi), best[b], rtol=1e-7)
        np.testing.assert_allclose(
            hypergradient.optimum_sensitivity(oracle, phi, best[b]), sensitivity[b], rtol=1e-7
        )
        samples = [tuple(np.array([v]) for v in divmod(z, Y)) for z in run.z[b]]
        thetas = np.array([at_t[b] for at_t in run.path])
        for t, z in enumerate(samples):
            step = thetas[t] - run.alpha[b] * oracle.inner_grad(phi, thetas[t], z)
            np.testing.assert_allclose(step, thetas[t + 1], rtol=1e-10)
        path = inner.Path(thetas, samples, (1.0,) * D, float(run.alpha[b]))
        np.testing.assert_allclose(
            hypergradient.path_sensitivity(oracle, phi, path), run.jacobian[b], rtol=1e-9
        )
        first, y_other = divmod(run.pair[b], Y)
        x, y = divmod(first, Y)
        pair = tuple(np.array([v]) for v in (x, y, y_other))
        for way in (hypergradient.unrolled, hypergradient.adjoint):
            derivative = way(oracle, phi, path, pair)
            np.testing.assert_allclose(derivative, run.exact[b], rtol=1e-9, atol=1e-14)
            compared += 1
    assert compared == 2 * B
