from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from linsys.bilevel import (
    Domain,
    DomainOracle,
    ExponentialPolicy,
    LinearReward,
    adjoint,
    bradley_terry,
    descend,
    first_order,
    implicit,
    meta_distribution,
    optimum,
    optimum_sensitivity,
    path_sensitivity,
    unrolled,
)
from tests.linsys._asserts import assert_equal_numbers
from tests.linsys._bilevel import inner_loss, outer_loss, unrolled_loss

#: What the project promises for adjoint hypergradients in double precision.
PROMISED = 1e-10
BETA, D = 2.0, 30
#: Stable for exact steps and for steps on samples, see `stable_step`.
ALPHA, SMALL = 0.2, 0.03

DOMAINS = {
    kind: meta_distribution(3, reward=kind, prompts=3, answers=4, p=3, q=2).train[1]
    for kind in ("linear", "tanh")
}


def oracle_of(kind: str, batch: int | None) -> DomainOracle:
    return DomainOracle(
        domain=DOMAINS[kind], beta=BETA, inner_batch=batch, outer_batch=batch, seed=3
    )


def start(kind: str) -> tuple[Any, Any]:
    rng = np.random.default_rng([5, kind == "tanh"])
    return rng.standard_normal(2), rng.standard_normal(3)


def by_autograd(kind: str, phi: Any, theta: Any, path: Any, z: Any) -> Any:
    leaf = torch.tensor(phi, requires_grad=True)
    begin = torch.tensor(theta, requires_grad=True)
    loss = unrolled_loss(DOMAINS[kind], BETA, leaf, begin, path.alpha, path.samples, z)
    [gradient] = torch.autograd.grad(loss, leaf)
    return gradient.numpy()


@pytest.mark.parametrize("kind", ["linear", "tanh"])
@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_hypergradients_are_automatic_differentiation_through_the_loop(kind, batch, library):
    oracle, (phi, theta) = oracle_of(kind, batch), start(kind)
    to = torch.tensor if library == "torch" else np.asarray
    alpha = ALPHA if batch is None else SMALL
    path = descend(oracle, to(phi), to(theta), alpha=alpha, D=D, k=2)
    z = oracle.draw_outer(2)
    expected = by_autograd(kind, phi, theta, path, z)
    assert np.abs(expected).max() > 1e-3
    for way in (adjoint, unrolled):
        hypergradient = way(oracle, to(phi), path, z)
        assert isinstance(hypergradient, torch.Tensor) == (library == "torch")
        np.testing.assert_allclose(np.asarray(hypergradient), expected, rtol=PROMISED, atol=1e-14)
    if batch is not None:
        assert all(len(sample[0]) == batch for sample in path.samples)
        other = adjoint(oracle, to(phi), descend(oracle, to(phi), to(theta), alpha=alpha, D=D), z)
        assert np.abs(np.asarray(other) - expected).max() > 1e-6  # round 0 draws other samples


def printed_13(oracle: DomainOracle, phi: Any, path: Any, z: Any, **slips: bool) -> Any:
    """Proposition 1, term by term, with the paper's slips where asked for."""
    policy, reward = oracle.domain.policy, oracle.domain.reward

    def factor(t: int) -> Any:
        [x], [y] = path.samples[t]
        return np.exp(reward.value(phi)[x, y] / BETA), x, y

    def matrix(t: int) -> Any:
        R, x, _ = factor(t)
        return np.eye(policy.p) - SMALL * R * policy.covariance(path.theta[t])[x]

    total = np.zeros((reward.q, policy.p))
    steps = len(path.samples)
    for t in range(steps):
        R, x, y = factor(t)
        row = R * np.outer(reward.gradient(phi)[x, y], policy.score(path.theta[t])[x, y])
        for j in range(t + 1, steps):
            row = row @ matrix(t if slips.get("index") else j)
        total += row
    [x], [y], [other] = z
    score, log_pi = policy.score(path.theta[-1]), policy.log_prob(path.theta[-1])
    wrong = 1 / (1 + np.exp(log_pi[x, y] - log_pi[x, other]))
    contrast = score[x, y] - score[x, other]
    return -(1.0 if slips.get("sigma") else wrong) * SMALL / BETA * total @ contrast


@pytest.mark.parametrize("kind", ["linear", "tanh"])
def test_proposition_1_holds_with_its_slips_corrected_and_with_none_of_them(kind):
    oracle, (phi, theta) = oracle_of(kind, 1), start(kind)
    path, z = descend(oracle, phi, theta, alpha=SMALL, D=D), oracle.draw_outer(0)
    hypergradient = unrolled(oracle, phi, path, z)
    np.testing.assert_allclose(printed_13(oracle, phi, path, z), hypergradient, rtol=1e-12)
    for slip in ("index", "sigma"):
        gap = np.abs(printed_13(oracle, phi, path, z, **{slip: True}) - hypergradient).max()
        assert gap > 1e-3 * np.abs(hypergradient).max()


@pytest.mark.parametrize("way", [adjoint, unrolled])
def test_projection_on_a_ball_is_differentiated(way):
    oracle, (phi, theta) = oracle_of("tanh", 1), start("tanh")
    radius = 1.3
    path = descend(oracle, phi, theta, alpha=SMALL, D=D, radius=radius)
    projected = [factor < 1 for factor in path.shrink]
    assert any(projected)
    assert not all(projected)
    leaf = torch.tensor(phi, requires_grad=True)
    point = torch.tensor(theta, requires_grad=True)
    for z in path.samples:
        loss = inner_loss(oracle.domain, BETA, leaf, point, z)
        point = point - SMALL * torch.autograd.grad(loss, point, create_graph=True)[0]
        norm = torch.linalg.vector_norm(point)
        point = point * torch.clamp(radius / norm, max=1.0)
    [expected] = torch.autograd.grad(outer_loss(oracle.domain, point, None), leaf)
    np.testing.assert_allclose(way(oracle, phi, path), expected.numpy(), rtol=PROMISED)
    blind = path._replace(shrink=(1.0,) * D)
    assert np.abs(way(oracle, phi, blind) - expected.numpy()).max() > 1e-4


def test_first_order_leaves_hessians_out_and_grows_like_D():
    oracle, (phi, theta) = oracle_of("linear", None), start("linear")
    path = descend(oracle, phi, theta, alpha=ALPHA, D=D)
    leaf, point = torch.tensor(phi, requires_grad=True), torch.tensor(theta)
    for z in path.samples:
        at = point.detach().requires_grad_()
        loss = inner_loss(oracle.domain, BETA, leaf, at, z)
        point = point - ALPHA * torch.autograd.grad(loss, at, create_graph=True)[0]
    [expected] = torch.autograd.grad(outer_loss(oracle.domain, point, None), leaf)
    hypergradient = first_order(oracle, phi, path)
    np.testing.assert_allclose(hypergradient, expected.numpy(), rtol=PROMISED)
    assert np.abs(hypergradient - adjoint(oracle, phi, path)).max() > 0.01

    def size(steps: int) -> Any:
        long = descend(oracle, phi, theta, alpha=ALPHA, D=steps)
        return first_order(oracle, phi, long)

    # near the optimum every step adds the same term
    np.testing.assert_allclose(size(900) - size(600), size(600) - size(300), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "tanh"])
def test_implicit_is_the_derivative_at_the_optimum_and_the_limit_of_long_loops(kind):
    oracle, (phi, theta) = oracle_of(kind, None), start(kind)
    best = optimum(oracle, phi)
    hypergradient = implicit(oracle, phi, best)
    np.testing.assert_allclose(implicit(oracle, phi, best, cg=3), hypergradient, rtol=1e-9)
    gaps = []
    for steps in (200, 400, 800):
        path = descend(oracle, phi, theta, alpha=ALPHA, D=steps)
        gaps.append(np.abs(adjoint(oracle, phi, path) - hypergradient).max())
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-6 * np.abs(hypergradient).max()
    h = 1e-5
    differences = [
        (oracle.outer_loss(optimum(oracle, phi + e)) - oracle.outer_loss(optimum(oracle, phi - e)))
        / (2 * h)
        for e in h * np.eye(2)
    ]
    # central differences: h^2 = 1e-10 of third derivatives, rounding 1e-16 / h = 1e-11
    np.testing.assert_allclose(hypergradient, differences, atol=1e-8)
    sensitivity = optimum_sensitivity(oracle, phi, best)
    np.testing.assert_allclose(sensitivity @ oracle.outer_grads(phi, best, None)[1], hypergradient)
    long = descend(oracle, phi, best, alpha=ALPHA, D=800)
    np.testing.assert_allclose(path_sensitivity(oracle, phi, long), sensitivity, rtol=1e-6)


def able_domain() -> Domain:
    """h = mu_hat and psi = xi, so that theta_* = phi / beta."""
    rng = np.random.default_rng(8)
    xi, mu_hat = rng.standard_normal((3, 4, 2)), rng.dirichlet(np.ones(4), size=3)
    prompts = np.array([0.2, 0.3, 0.5])
    return Domain(
        name="able",
        policy=ExponentialPolicy(xi, np.log(mu_hat)),
        reward=LinearReward(xi),
        prompts=prompts,
        mu_hat=mu_hat,
        preferences=bradley_terry(prompts, mu_hat, rng.standard_normal((3, 4))),
    )


def test_a_policy_that_can_do_everything_has_a_closed_form():
    domain, phi = able_domain(), np.array([0.5, -1.0])
    oracle = DomainOracle(domain=domain, beta=BETA)
    best = optimum(oracle, phi)
    assert_equal_numbers(best, phi / BETA, "theta_*")
    x, y, other, w = domain.pairs
    contrast = domain.reward.xi[x, y] - domain.reward.xi[x, other]
    u = np.log(domain.mu_hat[x, y] / domain.mu_hat[x, other]) + contrast @ phi / BETA
    closed = -(w / (1 + np.exp(u))) @ contrast / BETA
    assert_equal_numbers(implicit(oracle, phi, best), closed, "hypergradient")
    assert_equal_numbers(optimum_sensitivity(oracle, phi, best), np.eye(2) / BETA, "d theta_*")


def test_the_optimum_is_that_of_the_weighted_divergence_and_not_of_the_plain_one():
    oracle, (phi, _) = oracle_of("linear", None), start("linear")
    domain, best = oracle.domain, optimum(oracle, start("linear")[0])
    tilted = domain.mu_hat * np.exp(domain.reward.value(phi) / BETA)
    Z = tilted.sum(axis=1, keepdims=True)

    def slope(weights: Any) -> float:
        """Of sum_x weights(x) KL(pi_* || pi_theta) at theta_*."""
        score = domain.policy.score(best)
        return np.abs(np.einsum("x,xy,xyp->p", weights, tilted / Z, score)).max()

    assert slope(domain.prompts * Z[:, 0]) < 1e-12  # rounding of terms of order one to a hundred
    assert slope(domain.prompts) > 1e-3


def test_torch_finds_the_same_optimum():
    oracle, (phi, _) = oracle_of("tanh", None), start("tanh")
    best = optimum(oracle, torch.tensor(phi))
    assert_equal_numbers(best, optimum(oracle, phi), "optimum")
    assert_equal_numbers(
        implicit(oracle, torch.tensor(phi), best), implicit(oracle, phi, best.numpy()), "implicit"
    )


def test_single_precision_stays_single_precision():
    oracle, (phi, theta) = oracle_of("tanh", None), start("tanh")
    exact = adjoint(oracle, phi, descend(oracle, phi, theta, alpha=ALPHA, D=D))
    for to in (np.float32, lambda a: torch.tensor(a, dtype=torch.float32)):
        path = descend(oracle, to(phi), to(theta), alpha=ALPHA, D=D)
        gradient = adjoint(oracle, to(phi), path)
        assert "float32" in str(gradient.dtype)
        # a few hundred roundings of 6e-8
        np.testing.assert_allclose(np.asarray(gradient), exact, rtol=1e-4)


def test_memory_is_the_path_and_nothing_that_grows_beside_it():
    oracle, (phi, theta) = oracle_of("linear", 1), start("linear")
    for steps in (200, 400):
        path = descend(oracle, phi, theta, alpha=0.05, D=steps)
        assert path.theta.nbytes == 8 * 3 * (steps + 1)
        tracemalloc.start()
        adjoint(oracle, phi, path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20_000  # a few arrays of a single step, whatever D


@pytest.mark.parametrize("batch", [None, 1])
def test_below_the_stable_step_nothing_is_refused_and_far_beyond_everything_is(batch):
    oracle, (phi, theta) = oracle_of("linear", batch), start("linear")
    limit = oracle.stable_step(phi)
    descend(oracle, phi, theta, alpha=0.999 * limit, D=50)
    with pytest.raises(InputError) as caught:
        descend(oracle, phi, theta, alpha=300 * limit, D=50)
    assert f"`alpha` below {limit:.4g} is stable; found {300 * limit:g}" in str(caught.value)
    assert "at step 1 and" in str(caught.value)


def test_the_stable_step_bounds_every_hessian_and_is_attained_by_two_answers():
    oracle, rng = oracle_of("tanh", None), np.random.default_rng(2)
    phi = start("tanh")[0]
    for _ in range(100):
        hessian = oracle.inner_hessian(phi, 2 * rng.standard_normal(3))
        assert np.linalg.eigvalsh(hessian)[-1] <= 2 / oracle.stable_step(phi)
    policy = ExponentialPolicy([[[0.0], [1.0]]], [[0.0, 0.0]])
    tight = DomainOracle(
        domain=Domain(
            name="tight",
            policy=policy,
            reward=LinearReward([[[0.0], [0.0]]]),
            prompts=[1.0],
            mu_hat=[[0.5, 0.5]],
        ),
        beta=1.0,
    )
    hessian = tight.inner_hessian(np.zeros(1), np.zeros(1)).item()
    assert abs(2 / tight.stable_step(np.zeros(1)) - hessian) < 1e-15


class Quadratic:
    """l_FT = theta^2 / 2 in one dimension: a loop that can overflow."""

    def inner_loss(self, phi: Any, theta: Any, z: Any) -> float:
        return float(theta @ theta) / 2

    def inner_grad(self, phi: Any, theta: Any, z: Any) -> Any:
        return theta

    def draw_inner(self, k: int, t: int) -> Any:
        return None

    def stable_step(self, phi: Any) -> float:
        return 2.0


def separable() -> DomainOracle:
    domain = able_domain()
    mu_hat = np.zeros((3, 4))
    mu_hat[:, 1] = 1.0
    one = replace(domain, mu_hat=mu_hat, preferences=None)
    xi = np.array(domain.reward.xi)
    xi[:, 1, :] += 9.0  # answer 1 can be made certain
    return DomainOracle(
        domain=replace(one, policy=ExponentialPolicy(xi, domain.policy.log_h)), beta=1.0
    )


def flat() -> DomainOracle:
    domain = able_domain()
    policy = ExponentialPolicy(np.repeat(domain.policy.psi[..., :1], 2, axis=-1), np.zeros((3, 4)))
    return DomainOracle(domain=replace(domain, policy=policy), beta=1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: descend(oracle_of("linear", 1), *start("linear"), alpha=0.1, D=0),
            "`D` must be a whole number of at least 1; found 0",
        ),
        (
            lambda: descend(oracle_of("linear", 1), *start("linear"), alpha=-0.1, D=1),
            r"`alpha` must be a number in \(0, inf\)",
        ),
        (
            lambda: descend(oracle_of("linear", 1), *start("linear"), alpha=0.1, D=1, radius=0),
            r"`radius` must be a number in \(0, inf\)",
        ),
        (
            lambda: descend(oracle_of("linear", 1), np.full(2, np.nan), np.ones(3), alpha=1, D=1),
            "`phi` must be finite; found NaN or infinity",
        ),
        (
            lambda: descend(oracle_of("linear", 1), np.ones(2), np.full(3, np.inf), alpha=1, D=1),
            "`theta_0` must be finite",
        ),
        (
            lambda: descend(oracle_of("linear", 1), np.ones(2), np.ones((3, 1)), alpha=0.1, D=1),
            r"`theta_0` must have shape \(p,\); found \(3, 1\)",
        ),
        (
            lambda: descend(oracle_of("linear", 1), np.array(["a"] * 2), np.ones(3), alpha=1, D=1),
            "`phi` must hold numbers; found dtype <U1",
        ),
        (
            lambda: descend(oracle_of("linear", 1), np.ones(2), np.ones(3), alpha=0.1, D=1, k=-1),
            "`k` must be a whole number of at least 0",
        ),
        (
            lambda: adjoint(
                oracle_of("linear", 1),
                np.full(2, np.nan),
                descend(oracle_of("linear", 1), np.ones(2), np.ones(3), alpha=0.1, D=1),
            ),
            "`phi` must be finite; found NaN",
        ),
        (
            lambda: optimum_sensitivity(oracle_of("linear", 1), np.ones(2), np.full(3, np.nan)),
            "`theta` must be finite; found NaN",
        ),
        (
            lambda: descend(oracle_of("linear", 1), np.ones(2), np.ones(4), alpha=0.1, D=1),
            r"`theta` must have shape \(3,\); found \(4,\)",
        ),
        (
            lambda: descend(Quadratic(), np.ones(1), np.ones(1), alpha=1e200, D=3),
            "an overflow at step 2: `alpha` must be below 2; found 1e",
        ),
        (
            lambda: descend(Quadratic(), np.ones(1), np.ones(1), alpha=2.1, D=3),
            "the inner loop diverges: its loss 0.5 became 0.605 at step 1 .*`alpha` below 2 is",
        ),
        (
            lambda: optimum(separable(), np.zeros(2)),
            "the inner loss of domain `able` must have a minimum; found steps of length",
        ),
        (
            lambda: optimum(flat(), np.zeros(2)),
            "the inner loss of domain `able` must have a unique minimum; found a Hessian",
        ),
        (
            lambda: implicit(flat(), np.zeros(2), np.zeros(2)),
            "the inner loss must have a unique minimum",
        ),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
