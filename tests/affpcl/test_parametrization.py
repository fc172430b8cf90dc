"""Objectives by value, one-hot features, and the linear system of density ratios."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.affpcl.claims import appendix_c1_c2_c4
from experiments.affpcl.theory import parametrization as at
from experiments.affpcl.theory.parametrization import ValueStack
from experiments.affpcl.theory.stack import FiniteStack
from linsys import FiniteSystem, heterogeneity as het
from linsys.algorithms import LinearRatio, ShiftedRatio, ratio_weights
from linsys.oracle import LinearObservation

CLOSE = {"rtol": 1e-11, "atol": 1e-12}


def values(seed=0, B=3, n=3, S=4, d=2):
    """mu, A and b^i(s) of any values."""
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.ones(S), size=(B, n))
    return {
        "mu": mu / mu.sum(axis=-1, keepdims=True),
        "A": rng.standard_normal((B, S, d, d)) + 4 * np.eye(d),
        "b": rng.standard_normal((B, n, S, d)),
    }


def parametrised(seed=0):
    """The same as a stack with Phi and theta."""
    given = values(seed)
    rng = np.random.default_rng(seed)
    Phi = 0.1 * rng.standard_normal(given["A"].shape) + 0.5 * np.eye(2)
    return FiniteStack(mu=given["mu"], A=given["A"], Phi=Phi, theta=rng.standard_normal((3, 3, 2)))


def test_values_of_a_parametrised_system_have_section_one_s_constants():
    stack = parametrised()
    by_value = ValueStack(mu=stack.mu, A=stack.A, b=stack.b)
    for name in ("x_star", "x_star_central", "b_bar"):
        np.testing.assert_allclose(getattr(by_value, name), getattr(stack, name), **CLOSE)
    for k in range(3):
        system = FiniteSystem.from_objectives(
            A=stack.A[k], Phi=stack.Phi[k], theta=stack.theta[k], mu=stack.mu[k]
        )
        wanted = {
            "G_x": het.G_x(system, central=False),
            "G_b": het.G_b(system, "objective"),
            "delta_obj": het.delta_obj(system, "objective"),
            "sigma": het.sigma(system, "objective", central=False),
        }
        for name, value in wanted.items():
            assert getattr(by_value, name)[k] == pytest.approx(float(value), rel=1e-12), name


def test_values_that_no_features_have():
    given = values()
    stack = ValueStack(**given)
    wanted = np.einsum("kns,knsd->knd", given["mu"], given["b"])
    np.testing.assert_allclose(stack.b_bar, wanted, **CLOSE)
    with pytest.raises(AttributeError, match="Phi"):
        _ = stack.Phi_bar


def test_one_hot_objectives():
    stack = ValueStack(**values())
    np.testing.assert_allclose(*appendix_c1_c2_c4.c2_coe_onehot(stack), **CLOSE)
    Phi, theta, placed = appendix_c1_c2_c4.one_hot_objectives(stack.mu, stack.b)
    np.testing.assert_allclose(
        np.einsum("ksab,knb->knsa", Phi, theta)[0, 1, 2], placed[0, 1, 2], **CLOSE
    )
    assert placed[0, 1, 2, 4:6].tolist() == stack.b[0, 1, 2].tolist()
    assert not placed[0, 1, 2, :4].any()
    # its costs: lambda^b = min_s mu^0(s)
    hot = FiniteStack(mu=stack.mu, A=Phi, Phi=Phi, theta=theta)
    np.testing.assert_allclose(hot.lambda_b, stack.mu0.min(axis=-1), **CLOSE)
    assert (hot.G_b > stack.G_b).all()


def test_ratio_of_one_hot_features():
    stack = parametrised()
    measured, ratio = appendix_c1_c2_c4.c2_dre_onehot(stack)
    np.testing.assert_allclose(measured, ratio, **CLOSE)
    for k in range(3):
        system = FiniteSystem.from_objectives(
            A=stack.A[k], Phi=stack.Phi[k], theta=stack.theta[k], mu=stack.mu[k]
        )
        np.testing.assert_allclose(ratio_weights(system), measured[k], **CLOSE)


def mixtures(seed=0, B=3, n=3, q=2, S=5):
    """A stack of mixtures of q base measures, with its basis psi and the weights."""
    rng = np.random.default_rng(seed)
    base, weights = rng.dirichlet(np.ones(S), size=(B, q)), rng.dirichlet(np.ones(q), size=(B, n))
    mu, psi = at.ratio_basis(base, weights)
    one = np.ones((B, S, 1, 1))
    return FiniteStack(mu=mu, A=one, Phi=one, theta=np.ones((B, n, 1)), psi=psi, weights=weights)


def test_basis_of_mixtures_spans_their_ratios():
    stack = mixtures()
    ratio = np.einsum("ksq,knq->kns", stack.psi, stack.weights)
    np.testing.assert_allclose(ratio, stack.rho, **CLOSE)
    ones = np.einsum("ksq,kq->ks", stack.psi, stack.weights.mean(axis=1))
    np.testing.assert_allclose(ones, 1.0, **CLOSE)
    assert (stack.psi >= 0).all()


@pytest.mark.parametrize(
    "statement", [appendix_c1_c2_c4.c4_lin_dre, appendix_c1_c2_c4.c4_shift_dre]
)
def test_ratio_systems(statement):
    stack = mixtures()
    np.testing.assert_allclose(*statement(stack), **CLOSE)
    stack.weights = stack.weights[:, ::-1]
    measured, bound = statement(stack)
    assert not np.allclose(measured, bound, **CLOSE)


def shown(stack, states):
    """What the first system shows of psi."""
    one = stack.A[0, states]
    return LinearObservation(A=one, Phi=one, b=one[..., 0], psi=lambda: stack.psi[0, states])


@pytest.mark.parametrize(
    ("estimator", "shifted"), [(LinearRatio(q=2), False), (ShiftedRatio(q=2), True)]
)
def test_estimators_rest_where_the_system_is_solved(estimator, shifted):
    # E over all samples of the estimator's residual at eta_* is the difference of the two sides.
    stack = mixtures(B=1, n=2, S=3)
    eta = stack.weights[0] - (stack.weights[0].mean(axis=0) if shifted else 0)
    mean = np.zeros_like(eta)
    for a, c in np.ndindex(3, 3):
        p = stack.mu[0, 0, a] * stack.mu[0, 1, c]
        mean += p * estimator.residual(eta, shown(stack, [a, c]))
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    assert np.abs(estimator.residual(eta, shown(stack, [0, 2]))).max() > 1e-3
