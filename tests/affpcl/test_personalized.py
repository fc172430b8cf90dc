"""Appendix G: exact moments against enumeration, its bounds, and its counterexamples in numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.affpcl.claims import appendix_g, appendix_g_progress
from experiments.affpcl.theory import personalized
from experiments.affpcl.theory.one_step import PersonalStack


def instance(seed: int, doublings: int = 0, n: int = 2, states: int = 2, d: int = 2):
    """One random system with iterates and an estimated ratio."""
    rng = np.random.default_rng(seed)
    Phi = np.eye(d) + 0.4 * rng.standard_normal((1, states, d, d))
    return PersonalStack(
        mu=rng.dirichlet(np.ones(states), size=(1, n)),
        A=2 * np.eye(d) + rng.standard_normal((1, states, d, d)),
        Phi=Phi / np.linalg.norm(Phi, ord=2, axis=(-2, -1)).max(),
        theta=rng.standard_normal((1, n, d)),
        dx=rng.standard_normal((1, n, d)),
        dx_c=rng.standard_normal((1, d)),
        dtheta=rng.standard_normal((1, d)),
        psi=np.eye(states)[None] + 0.3 * rng.standard_normal((1, states, states)),
        deta=rng.standard_normal((1, n, states)),
        share=np.ones(1),
        doublings=np.array([float(doublings)]),
    )


def enumerated(stack: PersonalStack, agent: int):
    """All joint samples of all agents of all groups: probability and the four random vectors.

    The vectors are g^{c=>i} with the true ratio, its estimation error, g^i(x^i) - g^{c->i}, and, as
    rows, rho^i(s^j) g^{c->j} for every agent j.
    """
    copies = int(stack.copies[0, 0])
    group = np.repeat(np.arange(stack.n), copies)
    me = agent * copies
    x, x_c = stack.x[0, agent], stack.x_star_central[0] + stack.dx_c[0]
    theta_c = stack.theta_star_central[0] + stack.dtheta[0]
    A, Phi, theta = stack.A[0], stack.Phi[0], stack.theta[0, agent]
    rho = stack.mu[0, agent] / stack.mu[0].mean(axis=0)
    estimate = rho + stack.psi[0] @ stack.deta[0, agent]
    for samples in itertools.product(range(A.shape[0]), repeat=len(group)):
        probability = np.prod([stack.mu[0, group[j], s] for j, s in enumerate(samples)])
        residuals = np.array([A[s] @ x_c - Phi[s] @ theta_c for s in samples])
        ratios, estimates = rho[list(samples)], estimate[list(samples)]
        weighted = ratios[:, None] * residuals
        error = ((estimates - ratios)[:, None] * residuals).mean(axis=0)
        s = samples[me]
        individual = A[s] @ x - Phi[s] @ theta - residuals[me]
        yield probability, weighted.mean(axis=0), error, individual, weighted


@pytest.mark.parametrize(
    ("seed", "doublings", "n", "states"),
    [
        (0, 0, 2, 3),
        (1, 1, 2, 2),
        (2, 0, 3, 2),
        (3, 2, 1, 3),
        (4, 0, 3, 3),
    ],
)
def test_moments_are_those_of_all_joint_samples(seed, doublings, n, states):
    stack = instance(seed, doublings, n, states)
    for agent in range(n):
        mean, mean_error = np.zeros(2), np.zeros(2)
        squares = dict.fromkeys(("direction", "collective", "error", "individual", "H1", "H2"), 0.0)
        for p, collective, error, individual, weighted in enumerated(stack, agent):
            direction = collective + error + individual
            mean += p * direction
            mean_error += p * error
            squares["direction"] += p * direction @ direction
            squares["collective"] += p * (collective + error) @ (collective + error)
            squares["error"] += p * error @ error
            squares["individual"] += p * individual @ individual
            gram = weighted @ weighted.T / len(weighted) ** 2
            squares["H1"] += p * np.trace(gram)
            squares["H2"] += p * (gram.sum() - np.trace(gram))
        moments = {
            "direction": stack.direction_second_moment,
            "collective": stack.collective_second_moment,
            "error": stack.estimation_second_moment,
            "individual": stack.individual_second_moment,
            "H1": appendix_g.g2_H1(stack)[0],
            "H2": appendix_g.g2_H2(stack)[0][:, 0],
        }
        np.testing.assert_allclose(stack.direction_mean[0, agent], mean, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(
            stack.estimation_mean[0, agent], mean_error, rtol=1e-11, atol=1e-12
        )
        for name, square in squares.items():
            assert moments[name][0, agent] == pytest.approx(square, rel=1e-11), name


def test_the_own_sample_enters_twice():
    """Were the two terms of gtilde independent, E||gtilde||^2 would be another number."""
    stack = instance(0, n=2, states=3)
    apart = stack.collective_second_moment + stack.individual_second_moment
    individual = np.array(
        [[sum(p * v for p, _, _, v, _ in enumerated(stack, agent)) for agent in range(2)]]
    )
    collective = stack.direction_mean - individual
    apart = apart + 2 * (collective * individual).sum(axis=-1)
    assert not np.allclose(apart, stack.direction_second_moment, rtol=1e-3)


def test_the_bound_of_the_own_direction_is_that_of_its_words():
    """4 G_A^2 ||dx^i||^2 + 8 G_A^2 ||dx^c||^2 + 8 ||dtheta^c||^2 + 16 sigma^2 deltatilde^i."""
    stack = instance(5, n=3, states=2)
    square = np.linalg.norm(stack.A[0], ord=2, axis=(-2, -1)).max() ** 2
    own, centre, objective = (
        (v[0] ** 2).sum(axis=-1) for v in (stack.dx, stack.dx_c, stack.dtheta)
    )
    noise = stack.variance_proxy[0] * np.minimum(1, stack.nu[0] * stack.delta_cen[0])
    words = 4 * square * own + 8 * square * centre + 8 * objective + 16 * noise
    np.testing.assert_allclose(appendix_g.g3(stack)[1][0], words, rtol=1e-12)
    assert not np.allclose(words, words - 2 * square * own, rtol=1e-3)


def test_both_inequalities_of_H2_come_close():
    """Many equal agents leave H_2 = (1 - 1/n) bias, and errors that add up half of the bound."""
    one = np.ones((1, 1, 1, 1))
    stack = PersonalStack(
        mu=np.ones((1, 1, 1)),
        A=one,
        Phi=one,
        theta=np.ones((1, 1, 1)),
        dx=np.zeros((1, 1, 1)),
        dx_c=np.ones((1, 1)),
        dtheta=-np.ones((1, 1)),
        share=np.ones(1),
        doublings=np.array([10.0]),
    )
    measured, bound = appendix_g.g2_H2(stack)
    assert (measured / bound).ravel() == pytest.approx([1 - 2.0**-10, 0.5])


def opposed(doublings=16.0):
    """Two groups with opposite objectives that Phi hides on average: nu = 1, nu of Phi 9999."""
    return PersonalStack(
        mu=np.full((1, 2, 2), 0.5),
        A=np.ones((1, 2, 1, 1)),
        Phi=np.array([1.0, -0.9998]).reshape(1, 2, 1, 1),
        theta=np.array([[[1.0], [-1.0]]]),
        dx=np.zeros((1, 2, 1)),
        dx_c=np.zeros((1, 1)),
        dtheta=np.zeros((1, 1)),
        psi=np.eye(2)[None],
        deta=np.zeros((1, 2, 2)),
        share=np.ones(1),
        doublings=np.array([doublings]),
    )


@pytest.mark.parametrize(
    ("statement", "measured", "bound"),
    [
        (appendix_g.g3, 0.9998, 0.0032),
        (appendix_g_progress.corG2_gtil, 0.9998, 0.062),
        (appendix_g_progress.corG2_first, 0.9998 / 40, 0.062 / 40),
        (appendix_g_progress.corG2_second, 0.9998 / 40, 0.062 / 40),
    ],
)
def test_nu_of_A_says_nothing_of_noise_in_the_objective(statement, measured, bound):
    stack = opposed()
    assert stack.nu == pytest.approx(1)
    assert stack.delta_cen[0] == pytest.approx(5e-5)
    sides = statement(stack)
    assert sides[0][0] == pytest.approx(measured, rel=1e-3)
    assert sides[1][0] == pytest.approx(bound, rel=2e-3)
    held = statement(stack, "safe")
    assert (held[0] <= held[1]).all()


def test_the_variance_of_the_estimation_error_is_not_in_its_mean():
    one = np.ones((1, 2, 1, 1))
    stack = PersonalStack(
        mu=np.full((1, 1, 2), 0.5),
        A=one,
        Phi=one,
        theta=np.ones((1, 1, 1)),
        dx=np.zeros((1, 1, 1)),
        dx_c=np.ones((1, 1)),
        dtheta=np.zeros((1, 1)),
        psi=np.eye(2)[None],
        deta=np.array([[[100.0, -100.0]]]),
        share=np.ones(1),
        doublings=np.zeros(1),
    )
    measured, bound = personalized.lemma_g2(stack, error="mean")
    assert (measured.item(), bound.item()) == pytest.approx((10001, 280))
    measured, bound = personalized.lemma_g2(stack)
    assert measured <= bound


def test_a_large_error_of_the_ratio_multiplies_the_other_errors():
    one = np.ones((1, 1, 1, 1))
    stack = PersonalStack(
        mu=np.ones((1, 1, 1)),
        A=one,
        Phi=one,
        theta=np.zeros((1, 1, 1)),
        dx=np.zeros((1, 1, 1)),
        dx_c=np.ones((1, 1)),
        dtheta=np.zeros((1, 1)),
        psi=np.ones((1, 1, 1)),
        deta=np.full((1, 1, 1), 10.0),
        share=np.ones(1),
        doublings=np.zeros(1),
    )
    measured, bound = personalized.corollary_g2_error(stack)
    assert (measured.item(), bound.item()) == pytest.approx((100, 4))
    measured, bound = personalized.corollary_g2_error(stack, with_G_rho=True)
    assert measured <= bound


def test_the_second_inequality_does_not_follow_from_the_first():
    """E||calE||^2 is 1.5 times sigma^2 ||deta||^2 + 4 G_rho^2 (G_A^2 ||dx^c||^2 + ||dtheta||^2)."""
    small = 1e-9
    signs = np.array([1.0, -1.0]).reshape(1, 2, 1, 1)
    stack = PersonalStack(
        mu=np.full((1, 1, 2), 0.5),
        A=signs + small,
        Phi=small - (1 - small) * signs,
        theta=np.ones((1, 1, 1)),
        dx=np.zeros((1, 1, 1)),
        dx_c=np.full((1, 1), 0.5),
        dtheta=np.full((1, 1), 0.5),
        psi=np.array([[[1.0, 0.0], [1.0, 0.0]]]),
        deta=np.array([[[1.0, 0.0]]]),
        share=np.ones(1),
        doublings=np.zeros(1),
    )
    squares = 4 * stack.G_rho**2 * (stack.centre_error + stack.objective_error)
    replaced = stack.variance_proxy * stack.weight_error + squares
    assert stack.estimation_second_moment.item() == pytest.approx(1.5 * replaced.item())
    measured, bound = appendix_g_progress.corG2_second(stack)
    assert measured <= bound
