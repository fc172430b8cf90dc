"""Statements about constants: where they are attained, what breaks them, counterexamples."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from experiments.affpcl.claims import section_1_to_4, section_6
from experiments.affpcl.theory import constants as at
from experiments.affpcl.theory.lyapunov import weights
from experiments.affpcl.theory.parametrization import ValueStack
from experiments.affpcl.theory.stack import FiniteStack

#: Of an attained bound: rounding of a few operations.
ROUNDING = 1e-12
EYE, TURN = np.eye(2), np.array([[0.0, -1.0], [1.0, 0.0]])


def holds(sides):
    """The one assertion that statements and their mutants go through."""
    measured, bound = np.broadcast_arrays(*_aligned(*sides))
    return bool((measured <= bound * (1 + ROUNDING)).all())


def _aligned(measured, bound):
    return measured, bound.reshape(*bound.shape, *[1] * (measured.ndim - bound.ndim))


def halved(sides):
    return sides[0], sides[1] / 2


def scalar(A, theta, mu=None, Phi=1.0):
    """One system in one dimension: A and Phi by state, theta by agent."""
    A = np.atleast_1d(np.asarray(A, dtype=float))
    theta = np.asarray(theta, dtype=float)
    mu = np.full((len(theta), len(A)), 1 / len(A)) if mu is None else np.asarray(mu, dtype=float)
    Phi = np.broadcast_to(np.asarray(Phi, dtype=float), A.shape)
    shape = (1, len(A), 1, 1)
    return FiniteStack(
        mu=mu[None], A=A.reshape(shape), Phi=Phi.reshape(shape), theta=theta[None, :, None]
    )


def spread(seed=0, B=200, n=3, S=4, d=2):
    """Random systems under the standing assumptions: everything is moved towards the identity."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((B, S, d, d)) + 3 * np.eye(d)
    Phi = rng.standard_normal((B, S, d, d))
    Phi = 0.4 * Phi / np.linalg.norm(Phi, ord=2, axis=(-2, -1))[..., None, None] + 0.6 * np.eye(d)
    mu = rng.dirichlet(np.ones(S), size=(B, n))
    return FiniteStack(mu=mu, A=A, Phi=Phi, theta=rng.standard_normal((B, n, d)))


@pytest.mark.parametrize(
    "statement",
    [
        section_1_to_4.const_sigma,
        section_1_to_4.const_sigma_central_corrected,
        section_1_to_4.const_sigma_central,
        section_1_to_4.def1_range,
        section_1_to_4.sec4_redef,
        section_6.nu_le_kappa_corrected,
        section_6.dcen_range,
        section_6.thm1_recover,
        section_6.thm1_recover_effective,
    ],
)
def test_holds_on_random_systems(statement):
    assert holds(statement(spread()))


# Attained: half of the bound fails.


def test_half_of_the_scale_fails():
    # g^i(x_*^i; s) = A(s) - 1/2 is +-3/2, and G_A G_x + G_b = 5/2.
    stack = scalar([2.0, -1.0], [0.5, 0.5])
    assert stack.x_star[0, :, 0].tolist() == [1.0, 1.0]
    measured, bound = section_1_to_4.const_sigma(stack)
    np.testing.assert_allclose(measured, [[1.5, 2.5]])
    np.testing.assert_allclose(bound, [[2.5, 4.0]])
    assert holds(section_1_to_4.const_sigma(stack))
    assert not holds(halved(section_1_to_4.const_sigma(stack)))


@pytest.mark.parametrize(
    "statement", [section_1_to_4.def1_range, section_1_to_4.sec4_redef, section_6.dcen_range]
)
def test_half_of_a_range_fails(statement):
    stack = scalar([1.0], [1.0, -1.0, -1.0, -1.0])  # delta_obj = 1, delta_cen^1 = 3/4
    assert holds(statement(stack))
    assert not holds(halved(statement(stack)))


def test_half_of_the_variance_proxy_fails():
    sides = section_1_to_4.const_trvar(np.full((1, 2), 0.5), np.array([[[1.0], [-1.0]]]))
    assert holds(sides)
    assert not holds(halved(sides))


def test_trace_of_variance_against_its_definition():
    rng = np.random.default_rng(1)
    mu, f = rng.dirichlet(np.ones(3), size=2), rng.standard_normal((2, 3, 2))
    for k in range(2):
        centred = f[k] - mu[k] @ f[k]
        wanted = sum(p * v @ v for p, v in zip(mu[k], centred, strict=True))
        assert at.trace_of_variance(mu, f)[k] == pytest.approx(wanted, rel=1e-12)
    # without E f = 0 the variance is not the mean square
    assert (at.trace_of_variance(mu, f) < 0.99 * at.mean_square(mu, f)).any()


def test_redefined_bounds_need_normalised_features():
    stack = scalar([1.0], [1.0, -1.0], Phi=2.0)
    assert not holds(section_1_to_4.sec4_redef(stack))


def test_half_of_what_recovers_theorem_one_fails():
    # n = 2 and an agent with the worst lambda: kappa^i = kappa
    stack = scalar([1.0, 2.0], [1.0, 1.0], mu=np.eye(2))
    assert holds(section_6.thm1_recover(stack))
    measured, bound = section_6.thm1_recover(stack)
    assert not holds((measured[:, 2], bound[:, 2] / 2))
    # nu = 1 and distances of which delta_cen is a good part
    measured, bound = section_6.thm1_recover_effective(stack)
    assert not holds((measured, bound / 5))


# Counterexamples, with the numbers of the claims' notes.


def opposed(e=0.1):
    """Abar^{1,2} = e I +- J and x_*^1 = -x_*^2 of length one: ||x_*^c|| = 1/e."""
    A = np.stack([e * EYE + TURN, e * EYE - TURN])
    x = np.array([[1.0, 0.0], [-1.0, 0.0]])
    theta = np.einsum("nij,nj->ni", A, x)
    return {"mu": np.eye(2)[None], "A": A[None]}, theta


def test_central_solution_is_longer_than_all_others():
    parts, theta = opposed()
    stack = ValueStack(**parts, b=np.repeat(theta[None, :, None], 2, axis=2))
    assert stack.G_x[0] == pytest.approx(1.0)
    assert np.linalg.norm(stack.x_star_central) == pytest.approx(10.0)
    assert not holds(section_1_to_4.const_sigma_central(stack))
    full = FiniteStack(**parts, Phi=np.broadcast_to(EYE, (1, 2, 2, 2)), theta=theta[None])
    assert holds(section_1_to_4.const_sigma_central(full))
    assert holds(section_1_to_4.const_sigma_central_corrected(full))
    assert not holds(section_6.thm1_recover_sec12(full))
    assert holds(section_6.thm1_recover(full))


def test_level_of_section_4_can_be_below_definition_1():
    stack = FiniteStack(
        mu=np.ones((1, 2, 1)),
        A=EYE[None, None],
        Phi=np.diag([1.0, 0.1])[None, None],
        theta=np.array([[[1.0, 10.0], [-1.0, 10.0]]]),
    )
    first, fourth = section_1_to_4.sec4_redef_level(stack)
    np.testing.assert_allclose([first[0], fourth[0]], [0.7071, 0.0995], rtol=1e-3)
    assert holds(section_1_to_4.sec4_redef(stack))


def test_nu_exceeds_kappa():
    measured, bound = at.conditioning_by_kappa(scalar([1.0], [0.1, -0.1]))
    np.testing.assert_allclose([measured[0], bound[0]], [1.0, 0.2])
    assert holds(section_6.nu_le_kappa_corrected(scalar([1.0], [0.1, -0.1])))
    assert not holds(halved(section_6.nu_le_kappa_corrected(scalar([1.0], [0.1, -0.1]))))
    # with solutions of length 1/2 it does not
    assert holds(at.conditioning_by_kappa(scalar([1.0], [0.5, -0.5])))


def test_nu_of_rotations_is_far_above_one():
    cos, sin = np.cos(np.radians(80)), np.sin(np.radians(80))
    A = np.stack([cos * EYE + sin * TURN, cos * EYE - sin * TURN])
    stack = FiniteStack(
        mu=np.full((1, 1, 2), 0.5),
        A=A[None],
        Phi=np.broadcast_to(EYE, (1, 2, 2, 2)),
        theta=np.ones((1, 1, 2)),
    )
    assert (np.einsum("sij,ki,kj->sk", A, EYE, EYE) >= 0).all()
    assert section_6.nu_ge_1(stack)[0] == pytest.approx(1 / cos)
    assert 1 / cos == pytest.approx(5.76, abs=0.01)


def test_nu_of_symmetric_matrices_is_one():
    M = np.random.default_rng(2).standard_normal((20, 3, 2, 2))
    stack = spread(B=20, S=3)
    stack = FiniteStack(mu=stack.mu, A=np.swapaxes(M, -1, -2) @ M, Phi=stack.Phi, theta=stack.theta)
    np.testing.assert_allclose(stack.nu_agent, 1.0, rtol=1e-9)
    assert (spread().nu_agent > 1 + 1e-6).all()  # not so of others


def test_rewriting_of_the_ratio_s_conditioning_needs_a_floor():
    stack = scalar([1.0, 1.0], [1.0, 1.0])
    printed, case = at.ratio_conditioning(stack, floored=False)
    np.testing.assert_allclose(printed / case, 0.25)
    uneven = scalar([1.0, 1.0], [1.0, 1.0], mu=[[0.9, 0.1], [0.7, 0.3]])  # lambda^rho = 0.2
    printed, _ = at.ratio_conditioning(uneven, floored=False)
    floored, case = at.ratio_conditioning(uneven, floored=True)
    np.testing.assert_allclose(floored, case)
    np.testing.assert_allclose(printed / case, 0.04)


def test_weights_of_the_last_case():
    rng = np.random.default_rng(3)
    c21, c41, c42, c43 = rng.uniform(0.5, 2, size=(4, 5))
    instance = SimpleNamespace(c21=c21, c41=c41, c42=c42, c43=c43, lam=rng.uniform(0.5, 2, (5, 4)))
    corrected, recursion = at.theorem_weights(instance, product=True)
    np.testing.assert_allclose(corrected, recursion, rtol=1e-12)
    printed, _ = at.theorem_weights(instance, product=False)
    assert (np.abs(printed[:, 0] / recursion[:, 0] - 1) > 1e-3).all()
    # what the weights are for: those before the last balance what they cause later (Lemma D.4)
    C = np.zeros((5, 4, 4))
    C[:, 1, 0], C[:, 3, 0], C[:, 3, 1], C[:, 3, 2] = c21, c41, c42, c43
    w = weights(instance.lam, C)
    caused = np.einsum("bm,bmk->bk", w / instance.lam, C)
    np.testing.assert_allclose(caused[:, :3], w[:, :3] / 2, rtol=1e-12)
