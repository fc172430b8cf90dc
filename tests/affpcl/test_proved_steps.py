"""Steps that are proved stable: the polytope's corners, the exact inequality, and its mutations."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import ratecheck as rc
from experiments.affpcl import _environments as at
from experiments.affpcl.figures import proved_steps
from experiments.affpcl.figures.proved_steps import contraction, drawn
from linsys import FiniteSystem
from linsys.stability import stable_steps
from ratecheck import gram
from tests._small_runs import swapped


class TestProvedSteps(rc.ExperimentSuite):
    slow = frozenset({proved_steps})
    small = {  # noqa: RUF012
        proved_steps: proved_steps.ProvedStepsConfig(
            levels=(0.0, 0.5), instances=1, kappas=(1.0, 10.0), searched=20
        )
    }
    contradicted = tuple(
        (proved_steps, swapped("curve", proved_steps.PROVED, other), name)
        for other, name in (
            (proved_steps.UNSTABLE, "(a) environments near one: proved"),
            (proved_steps.PAPER, "(a) environments near one: the paper"),
            (proved_steps.PAPER, "(b) all dimensions: the paper"),
            (proved_steps.SHARPER, "(b) all dimensions: 2 lambda"),
        )
    )


THIRD = [Fraction(1, 3)] * 3
SYSTEM = drawn(np.random.default_rng(5), 2, 3)
MATRICES = np.array(SYSTEM, dtype=float)


@pytest.mark.parametrize("level", [Fraction(1, 10), Fraction(1, 2), Fraction(1)])
def test_the_corners_are_within_the_level_and_span_what_is(level: Fraction) -> None:
    corners = at.corners(THIRD, level)
    for mu in corners:
        assert sum(mu) == 1
        assert min(mu) >= 0
        assert sum(abs(a - b) for a, b in zip(mu, THIRD, strict=True)) / 2 <= level
    # the largest of any linear function over the polytope is that over its corners
    rng = np.random.default_rng(1)
    for _ in range(200):
        weights = rng.normal(size=3)
        other = rng.dirichlet(np.ones(3))
        apart = np.abs(other - 1 / 3).sum() / 2
        inside = 1 / 3 + (other - 1 / 3) * min(1, float(level) / apart)
        best = max(float(np.array(mu, dtype=float) @ weights) for mu in corners)
        assert inside @ weights <= best + 1e-12  # rounding of a few products


def test_the_unstable_step_is_that_of_the_exact_radius() -> None:
    mu = np.array([0.2, 0.5, 0.3])
    system = FiniteSystem.from_objectives(
        A=MATRICES, Phi=np.stack([np.eye(2)] * 3), theta=np.ones((1, 2)), mu=mu[None]
    )
    assert at.unstable_step(MATRICES, mu) == pytest.approx(stable_steps(system).agents[0], rel=1e-8)


def test_the_form_has_the_margin_that_a_modelling_language_finds() -> None:
    cp = pytest.importorskip("cvxpy")
    environments = np.array(at.corners(THIRD, Fraction(1, 5)), dtype=float)
    forms = at.CommonForms(MATRICES, environments)
    longest = min(at.unstable_step(MATRICES, mu) for mu in environments)
    assert forms.at(1.01 * longest) is None

    def margin_of(P: np.ndarray, alpha: float) -> float:
        steps = np.eye(2) - alpha * MATRICES
        after = np.einsum("es,ski,kl,slj->eij", environments, steps, P, steps)
        return float(np.linalg.eigvalsh(P - after).min())

    def best(alpha: float) -> float:
        P, margin = cp.Variable((2, 2), symmetric=True), cp.Variable()
        constraints = [P >> 1e-4 * np.eye(2), cp.trace(P) == 2, margin <= 1]
        steps = np.eye(2) - alpha * MATRICES
        for mu in environments:
            after = sum(m * (B.T @ P @ B) for m, B in zip(mu, steps, strict=True))
            constraints.append(P - after - margin * np.eye(2) >> 0)
        cp.Problem(cp.Maximize(margin), constraints).solve(solver="CLARABEL")
        return float(margin.value)

    for share in (0.3, 0.8):
        found = forms.at(share * longest)
        assert found is not None
        assert np.trace(found) == pytest.approx(2.0)
        assert margin_of(found, share * longest) == pytest.approx(best(share * longest), abs=1e-6)
        assert margin_of(found.mean() * np.ones((2, 2)), share * longest) < best(share * longest)


def test_a_step_is_proved_at_every_corner_and_no_unstable_one_is() -> None:
    corners = at.corners(THIRD, Fraction(1, 5))
    alpha, P = at.proved_step(SYSTEM, corners)
    assert all(at.contracts(SYSTEM, mu, alpha, P) for mu in corners)
    floats = [np.array(mu, dtype=float) for mu in corners]
    unstable = min(at.unstable_step(MATRICES, mu) for mu in floats)
    assert float(alpha) <= unstable
    assert float(alpha) >= 0.9 * at.with_identity(MATRICES, np.array(floats))
    beyond = Fraction(unstable).limit_denominator(10**6) * Fraction(101, 100)
    assert not all(at.contracts(SYSTEM, mu, beyond, P) for mu in corners)
    # another form or a sign that is wrong is refused
    turned = [[P[1][1], -P[0][1]], [-P[1][0], P[0][0]]]
    assert not all(at.contracts(SYSTEM, mu, alpha, turned) for mu in corners)
    assert not at.contracts(SYSTEM, corners[0], -alpha, P)


@pytest.mark.parametrize("kappa", [1, 3, 10])
def test_twice_lambda_is_proved_for_all_dimensions_and_no_more(kappa: int) -> None:
    lam = Fraction(1, kappa)
    gram.prove(contraction(lam, 2 * lam, 1)).check()
    p = contraction(lam, 2 * lam, 1)
    x, g = p.spaces
    assert (x, g) == ("x", "g0")
    longer = contraction(lam, Fraction(21, 10) * lam, 1)
    start = gram.Vector("R^d", {((), "x"): Fraction(1)})
    assert longer.conclusion is not None
    longer.show(longer.conclusion.measured <= start.squared)
    with pytest.raises(gram.Unproved):
        gram.prove(longer)


def test_several_steps_contract_like_one_each() -> None:
    lam = Fraction(1, 4)
    gram.prove(contraction(lam, lam, 3)).check()
    p = contraction(lam, lam, 3)
    assert p.conclusion is not None
    p.show(p.conclusion.measured <= Fraction(99, 100) * p.conclusion.bound)
    with pytest.raises(gram.Unproved):
        gram.prove(p)


def test_the_contraction_of_the_corollary_holds_up_to_half_lambda_and_no_further() -> None:
    """1 - (3/2) alpha lambda, for alpha <= lambda/(2 G_A^2)."""
    lam = Fraction(1, 3)
    gram.prove(contraction(lam, lam / 2, 1, factor=1 - 3 * lam**2 / 4)).check()
    beyond = Fraction(51, 100) * lam
    with pytest.raises(gram.Unproved):
        gram.prove(contraction(lam, beyond, 1, factor=1 - Fraction(3, 2) * beyond * lam))
