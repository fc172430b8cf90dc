"""A stack of systems says of each of them what `linsys.heterogeneity` says of the system alone.

Two definitions, written apart: formulas over stacks on one side, validated systems and views on the
other; they share which averages are solved for which solution, each with its own solver. The same
formulas in high precision agree with those in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from experiments.affpcl.theory.stack import FiniteStack
from linsys import FiniteSystem, heterogeneity as het
from linsys.linalg import precise, precision
from linsys.systems.linear import Averages

Fields = dict[str, NDArray[np.float64]]

#: Quantities of a stack, and of one system of it.
TWINS: dict[str, Callable[[FiniteSystem], Any]] = {
    "mu0": lambda s: s.mu0,
    "rho": lambda s: s.rho,
    "A_bar": lambda s: s.A_bar,
    "A_bar0": lambda s: s.A_bar0,
    "Phi_bar": lambda s: s.Phi_bar,
    "Phi_bar0": lambda s: s.Phi_bar0,
    "b": lambda s: s.b,
    "b_bar": lambda s: s.b_bar,
    "b_bar0": lambda s: s.b_bar0,
    "x_star": lambda s: s.x_star,
    "x_star_central": lambda s: s.x_star_central,
    "theta_star_central": lambda s: s.theta_star_central,
    "b_central": lambda s: np.einsum("sij,j->si", s.Phi, s.theta_star_central),
    "G_A": lambda s: het.G_A(s, "objective"),
    "G_x": lambda s: het.G_x(s),
    "G_x_agents": lambda s: het.G_x(s, central=False),
    "G_b": lambda s: het.G_b(s, "weights"),
    "G_b_objective": lambda s: het.G_b(s, "objective"),
    "sigma": lambda s: het.sigma(s, "weights"),
    "lambda_agent": lambda s: het.lambda_agent(s),
    "lambda_A": lambda s: het.lambda_min(s),
    "lambda_both": lambda s: het.lambda_min(s, objective=True),
    "lambda_b": lambda s: het.lambda_b(s),
    "lambda_c": lambda s: het.lambda_c(s),
    "kappa": lambda s: het.kappa(s, "weights"),
    "nu_agent": lambda s: het.nu_agent(s),
    "nu": lambda s: het.nu(s),
    "nu_Phi": lambda s: het.nu(s, "Phi"),
    "delta_env": lambda s: het.delta_env(s),
    "delta_env_agent": lambda s: het.delta_env_agent(s),
    "delta_obj": lambda s: het.delta_obj(s, "weights"),
    "delta_obj_agent": lambda s: het.delta_obj_agent(s, "weights"),
    "delta_cen": lambda s: het.delta_cen(s, "weights"),
    "delta_cen_effective": lambda s: np.minimum(
        1.0, float(het.nu(s)) * np.asarray(het.delta_cen(s, "weights"))
    ),
    "delta_cen_effective_both": lambda s: np.minimum(
        1.0,
        max(float(het.nu(s)), float(het.nu(s, "Phi"))) * np.asarray(het.delta_cen(s, "weights")),
    ),
    "chi2_agent": lambda s: het.chi2_agent(s),
}
#: Both sides round: eps times the largest condition number of what :func:`systems` makes.
ROUNDING = 1e-11


@st.composite
def systems(draw: st.DrawFn, count: int = 3) -> Fields:
    """Systems of one shape, with states that some agents or all of them never visit."""
    n, states, d = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mu = rng.dirichlet(np.full(states, draw(st.sampled_from([0.3, 3.0]))), (count, n))
    absent = draw(st.integers(0, states - 1))
    mu[..., states - absent :] = 0.0
    mu /= mu.sum(axis=-1, keepdims=True)
    if draw(st.booleans()):
        mu[:, 0] = np.eye(states)[0]  # one agent sees one state only
    A = rng.standard_normal((count, states, d, d)) * draw(st.sampled_from([0.0, 0.1, 10.0]))
    if draw(st.booleans()):
        A[:, 0, :, 0] = 0.0  # a singular matrix has a stretch as well
    Phi = rng.standard_normal((count, states, d, d))
    Phi /= np.maximum(1.0, np.linalg.norm(Phi, ord=2, axis=(-2, -1)))[..., None, None]
    theta = rng.standard_normal((count, n, d)) * draw(st.sampled_from([0.0, 0.01, 100.0]))
    if draw(st.booleans()):
        mu[:], theta[:] = mu[:, :1], theta[:, :1]  # agents that are all alike
    A += np.maximum(0.0, 0.1 - _lowest(mu, A)) * np.eye(d)
    lowest = np.minimum(_lowest(mu, Phi), 0.1)
    share = (0.1 - lowest) / (1 - lowest)
    Phi = (1 - share) * Phi + share * np.eye(d)
    A[:, states - absent :] *= 1000.0  # what happens there must not count
    Phi[:, states - absent :] *= 5.0
    return {"mu": mu, "A": A, "Phi": Phi, "theta": theta}


def _lowest(mu: NDArray[Any], matrices: NDArray[Any]) -> NDArray[Any]:
    """The smallest eigenvalue of the agents' sym(E_{mu^i} M(s)), shape (B, 1, 1, 1)."""
    means = np.einsum("bns,bsij->bnij", mu, matrices)
    symmetric = (means + np.swapaxes(means, -1, -2)) / 2
    return np.linalg.eigvalsh(symmetric).min(axis=(1, 2))[:, None, None, None]


def distance(actual: Any, expected: Any) -> float:
    """The largest difference relative to the largest entry, or to one where all vanish."""
    a, b = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert a.shape == b.shape
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-3))


@pytest.mark.slow
@given(systems())
def test_every_quantity_is_that_of_the_system_alone(fields: Fields) -> None:
    stack = FiniteStack(**fields)
    for k in range(len(fields["mu"])):
        system = FiniteSystem.from_objectives(**{name: v[k] for name, v in fields.items()})
        for name, twin in TWINS.items():
            assert distance(getattr(stack, name)[k], twin(system)) <= ROUNDING, name


@given(systems(count=1))
def test_high_precision_says_the_same(fields: Fields) -> None:
    stack = FiniteStack(**fields)
    with precision(30):
        exact = FiniteStack(**{name: precise(values) for name, values in fields.items()})
        for name in TWINS:
            fine = getattr(exact, name)
            assert distance(getattr(stack, name), fine) <= ROUNDING, name
            # every entry is a high-precision number, none a whole number or a float
            assert all(hasattr(entry, "sqrt") for entry in fine.ravel()), name


def test_every_property_has_a_twin() -> None:
    computed = {
        name
        for kind in (Averages, FiniteStack)
        for name, value in vars(kind).items()
        if not name.startswith("_") and hasattr(value, "func")
    }
    assert computed - {"visited"} == set(TWINS)


def test_a_state_that_nobody_visits_does_not_count() -> None:
    """The suprema of the first two states, whatever the third one holds."""
    fields = {
        "mu": np.array([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]]),
        "A": np.array([2.0, 3.0, 50.0]).reshape(1, 3, 1, 1),
        "Phi": np.array([1.0, 0.5, 0.9]).reshape(1, 3, 1, 1),
        "theta": np.array([[[1.0], [-2.0]]]),
    }
    stack = FiniteStack(**fields)
    assert stack.visited.tolist() == [[True, True, False]]
    assert stack.G_A.tolist() == [3.0]
    assert stack.G_b_objective.tolist() == [2.0]
    assert stack.rho[0, :, 2].tolist() == [0.0, 0.0]
    assert stack.chi2_agent[0] == pytest.approx([1 / 3, 1 / 3])
    fields["mu"] = np.array([[[0.0, 0.5, 0.5], [0.0, 1.0, 0.0]]])
    assert FiniteStack(**fields).G_b_objective.tolist() == [1.8]


def test_values_by_hand() -> None:
    """Two agents on one state each; every number worked out on paper."""
    stack = FiniteStack(
        mu=np.array([[[1.0, 0.0], [0.0, 1.0]]]),
        A=np.array([2.0, 4.0]).reshape(1, 2, 1, 1),
        Phi=np.array([1.0, 0.5]).reshape(1, 2, 1, 1),
        theta=np.array([[[4.0], [-4.0]]]),
        alpha=np.array([0.1]),
    )
    assert stack.x_star.tolist() == [[[2.0], [-0.5]]]
    assert stack.x_star_central[0, 0] == pytest.approx(1 / 3)
    assert stack.theta_star_central[0, 0] == pytest.approx(4 / 3)
    assert (stack.G_A[0], stack.G_x[0], stack.G_b[0], stack.sigma[0]) == (4, 2, 4, 16)
    assert (stack.lambda_A[0], stack.lambda_both[0], stack.kappa[0]) == (2, 0.5, 8)
    assert (stack.nu[0], stack.delta_env[0], stack.delta_obj[0]) == (1, 1, 1)
    assert stack.delta_cen.tolist() == [[0.5, 0.5]]  # |4 - 1| / 8 is less than 1/2
    assert stack.chi2_agent.tolist() == [[1.0, 1.0]]
    assert stack.alpha.tolist() == [0.1]
    with pytest.raises(AttributeError, match="beta"):
        _ = stack.beta


def test_the_central_solutions_can_be_the_longest() -> None:
    """Agents that turn in opposite directions; their average hardly acts, and solves far away."""
    A = np.array([[[0.1, 1.0], [-1.0, 0.1]], [[0.1, -1.0], [1.0, 0.1]]])
    objectives = np.array([[0.1, -1.0], [-0.1, -1.0]])  # A(s) times the first axis and its reverse
    mu, solutions = np.eye(2)[None], np.array([[[1.0, 0.0], [-1.0, 0.0]]])
    stack = FiniteStack(
        mu=mu, A=A[None], Phi=np.ones((1, 2, 1, 1)) * np.eye(2), theta=objectives[None]
    )
    assert stack.x_star_central == pytest.approx(np.array([[0.0, -10.0]]))
    assert (stack.G_x_agents[0], stack.G_x[0]) == pytest.approx((1, 10))
    assert stack.sigma[0] == pytest.approx(20 * np.sqrt(1.01))
    stack = FiniteStack(mu=mu, A=A[None], Phi=A[None] / 2, theta=2 * solutions)
    assert stack.theta_star_central == pytest.approx(np.array([[0.0, -20.0]]))
    assert (stack.G_b[0], stack.sigma[0]) == pytest.approx((20, 40))
