"""Bias and importance correction: enumeration, attained bounds, mutants, counterexamples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.affpcl.claims import section_1_to_4, section_5
from experiments.affpcl.theory import correction as go
from experiments.affpcl.theory.directions import central_residual, importance_corrected, mean
from experiments.affpcl.theory.stack import FiniteStack

#: Sums of at most 27 joint samples times ten terms.
CLOSE = {"rtol": 1e-11, "atol": 1e-12}
EYE, TURN = np.eye(2), np.array([[0.0, -1.0], [1.0, 0.0]])


def random_stack(seed=0, B=5, n=3, S=3, d=2, alike=False):
    """Systems with means near the identity, iterates x, x_c, theta_c, and a function f."""
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.ones(S), size=(B, 1 if alike else n))
    return FiniteStack(
        mu=np.repeat(mu, n, axis=1) if alike else mu,
        A=rng.standard_normal((B, S, d, d)) + 3 * np.eye(d),
        Phi=0.2 * rng.standard_normal((B, S, d, d)) + 0.5 * np.eye(d),
        theta=rng.standard_normal((B, n, d)),
        x=rng.standard_normal((B, n, d)),
        x_c=rng.standard_normal((B, d)),
        theta_c=rng.standard_normal((B, d)),
        f=rng.standard_normal((B, S, d)),
    )


def agree(sides):
    """Whether both sides are the same."""
    return bool(np.allclose(*sides, **CLOSE))


def holds(measured, bound):
    """The one assertion that bounds and their mutants go through."""
    return bool((measured <= bound * (1 + 1e-11)).all())


# Identities: true where they are stated, false where an assumption is dropped.


@pytest.mark.parametrize(
    "statement",
    [
        section_1_to_4.bias_identity,
        section_1_to_4.sec4_estimated,
        section_1_to_4.control_variate_corrected,
        section_1_to_4.central_local,
        go.mean_of_solutions,
    ],
)
def test_in_one_environment_only(statement):
    assert agree(statement(random_stack(alike=True)))
    assert not agree(statement(random_stack()))


@pytest.mark.parametrize(
    "statement", [section_5.sec51_mixture, section_5.sec52_unbiased, section_5.sec52_client_factor]
)
def test_in_every_environment(statement):
    assert agree(statement(random_stack()))


def test_importance_correction_needs_the_agent_s_own_ratio():
    stack = random_stack()
    _, bias = section_5.sec52_unbiased(stack)
    central = central_residual(stack, stack.x_c, stack.theta_c)
    of_others = importance_corrected(stack, central, stack.rho[:, ::-1])
    assert not agree((mean(stack, of_others), bias))


def test_gap_of_two_solutions():
    sides = section_5.sec51_mean_vs_central_heterogeneous(random_stack(n=2, d=1))
    assert agree(sides)
    stack = random_stack(n=2, d=1)
    assert not agree((sides[0], stack.x_star_central[:, 0]))
    assert agree(go.mean_of_solutions(random_stack(n=2, d=1, alike=True)))


# Second moments, sample by sample.


def enumerated_second_moment(stack, i):
    """E||g^{c=>i}(x_*^c)||^2 of the first system, over all joint samples."""
    x, theta = stack.x_star_central[0], stack.theta_star_central[0]
    total = 0.0
    for states in itertools.product(range(stack.mu.shape[-1]), repeat=stack.n):
        p = np.prod([stack.mu[0, j, s] for j, s in enumerate(states)])
        parts = [
            stack.mu[0, i, s]
            / stack.mu[0, :, s].mean()
            * (stack.A[0, s] @ x - stack.Phi[0, s] @ theta)
            for s in states
        ]
        total += p * np.sum(np.mean(parts, axis=0) ** 2)
    return total


def test_second_moment_of_the_importance_corrected_direction():
    stack = random_stack(4)
    measured, bound = section_5.sec52_chi2(stack)
    for i in range(stack.n):
        assert measured[0, i] == pytest.approx(enumerated_second_moment(stack, i), rel=1e-12)
    assert holds(measured, bound)


def apart(e, mu):
    """Directions h = 2 J x, -2 J x, .. of (nearly) the largest length sigma, at equal solutions.

    A(s) = e I +- J and Phi(s) = e I -+ J over sqrt(1 + e^2), theta^i = theta = x_*; a last state of
    an odd number has A = Phi and so h = 0.
    """
    mu = np.asarray(mu, dtype=float)
    S = mu.shape[1]
    signs = np.array([(-1.0) ** s for s in range(S)])
    if S % 2:
        signs[-1] = 0.0
    scale = np.sqrt(1 + e**2)
    A = (e * EYE + signs[:, None, None] * TURN) / scale
    Phi = (e * EYE - signs[:, None, None] * TURN) / scale
    theta = np.tile([1.0, 0.0], (1, len(mu), 1))
    return FiniteStack(mu=mu[None], A=A[None], Phi=Phi[None], theta=theta)


def test_every_term_of_the_second_moment_is_needed():
    # Two agents on different halves of four states: sigma^2 = sigma^2/2 + 0 + sigma^2/2 chi^2.
    stack = apart(1e-4, [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])
    measured, bound = section_5.sec52_chi2(stack)
    np.testing.assert_allclose(measured, bound, rtol=1e-6)
    federated = stack.sigma[:, None] ** 2 / stack.n
    np.testing.assert_allclose(stack.chi2_agent, 1.0)
    assert not holds(measured, bound - federated)  # neither without the first term nor the last
    # Six agents that see one state each: chi^2 = 1, no variance, and sigma^2 from the mean.
    alone = apart(1e-4, np.repeat(np.eye(2), 3, axis=0))
    measured, bound = section_5.sec52_chi2(alone)
    assert holds(measured, bound)
    assert not holds(measured, (alone.sigma**2 / alone.n)[:, None] * (1 + alone.chi2_agent))


def test_first_order_term_of_the_ratio_is_needed():
    e, even = 0.1, np.array([1, 1, 2]) / 4
    tilt = e * np.array([1, 1, -1])
    stack = apart(1e-4, [even * (1 + tilt), even * (1 - tilt)])
    measured, bound = go.importance_increase(stack, first_order=False)
    squared = stack.sigma[0] ** 2
    # half of the mass is where ||h|| = sigma
    increase = (measured[0, 0] - squared / 4) * 2 / squared
    np.testing.assert_allclose([increase, stack.chi2_agent[0, 0]], [e + e**2 / 2, e**2], rtol=1e-6)
    assert not holds(measured, bound)
    assert holds(*go.importance_increase(stack, first_order=True))
    assert holds(*go.importance_increase(random_stack(6), first_order=True))


def test_control_variate_can_work_against_an_agent():
    # A = 1, b^1 = +-1, b^2 = -+3 on two even states: b^0 = -+1, covariance -1.
    one = np.ones((1, 2, 1, 1))
    stack = FiniteStack(
        mu=np.full((1, 2, 2), 0.5),
        A=one,
        Phi=np.array([1.0, -1.0]).reshape(1, 2, 1, 1),
        theta=np.array([[[1.0], [-3.0]]]),
    )
    measured, bound = section_1_to_4.control_variate(stack)
    np.testing.assert_allclose([measured[0, 0], bound[0, 0]], [4.0, 2.0])
    assert not holds(measured, bound)
    # the other agent gains more than this one loses
    gain = (bound - measured)[0] / 2
    np.testing.assert_allclose(gain, [-1.0, 3.0])


# Divergences and ratios.


def test_bounds_on_ratios_are_attained_by_separate_agents():
    n = 4
    stack = FiniteStack(
        mu=np.eye(n)[None],
        A=np.ones((1, n, 1, 1)),
        Phi=np.ones((1, n, 1, 1)),
        theta=np.ones((1, n, 1)),
    )
    measured, bound = section_5.sec52_rho(stack)
    assert holds(measured, bound)
    assert not holds(measured, bound - 1)
    for statement in (section_5.sec52_chi2_tv, section_5.sec52_chain):
        measured, bound = statement(stack)
        np.testing.assert_allclose(measured / bound, 1 - 1 / n)
        assert holds(measured, bound)
        assert not holds(measured, bound / 2)


@pytest.mark.parametrize("statement", [section_5.sec52_chi2_tv, section_5.sec52_chain])
def test_divergence_by_total_variation(statement):
    assert holds(*statement(random_stack(7, B=300)))


def test_client_side_ratio_is_unbounded():
    epsilon = np.array([0.25, 1e-3, 1e-6])
    stack = go.rare_state(epsilon, np.full((3, 1), 0.5))
    measured, bound = go.client_side_of_rare_state(stack, epsilon)
    assert (measured >= bound).all()
    assert measured[-1, 0] > 1e5 * stack.n
    # a factor of 1.1 is too much where two agents share a rare enough state
    assert not (measured >= 1.1 * bound).all()
    server, _ = section_5.sec52_client_factor(stack)
    assert (server[:, 0] <= 1 + 1e-12).all()  # (1 + chi^2) / n <= 1


# Section 5.1's far central objective.


@pytest.mark.parametrize("angle", [0.01, 0.3, 1.2])
def test_turned_objectives(angle):
    stack = go.turned_objectives(np.array([angle]), np.array([3.0]))
    np.testing.assert_allclose(stack.theta_star_central[0], -stack.theta[0, 0], atol=1e-12)
    assert (np.linalg.norm(stack.Phi[0], ord=2, axis=(1, 2)) <= 1 + 1e-12).all()
    assert (np.linalg.eigvalsh(stack.Phi_bar + np.swapaxes(stack.Phi_bar, 2, 3)) > 0).all()
    np.testing.assert_allclose(stack.G_b, 3.0)
    np.testing.assert_allclose(*go.level_of_turned_objectives(stack, np.array([angle])))
    assert holds(*go.far_central_objective(stack))
    assert not holds(go.far_central_objective(stack)[0], 0.99 * 2 * stack.G_b)
    np.testing.assert_allclose(stack.delta_obj, np.sin(angle))
    # both levels see another weight of the second agent
    moved = go.turned_objectives(np.array([angle]), np.array([3.0]))
    moved.theta = moved.theta * np.array([1.0, 1.1])[:, None]
    measured, bound = go.level_of_turned_objectives(moved, np.array([angle]))
    assert (abs(measured - bound)[0, 1:] > 1e-3).all()
