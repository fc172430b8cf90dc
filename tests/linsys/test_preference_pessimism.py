"""Confidence sets and pessimistic policies against brute force and dense definitions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from linsys import InputError
from linsys.preference.confidence import ConfidenceSet
from linsys.preference.coverage import concentrability
from linsys.preference.mdp import DecisionTree
from linsys.preference.pessimism import pessimistic_policy, worst_value

#: Sets of every kind: one ball, a lens, a ball in a ball both ways.
SETS = {
    "ball": (1.5, None),
    "large ball": (30.0, None),
    "lens": (1.5, 1.0),
    "thin lens": (0.3, 1.5),
    "inner": (1.5, 5.0),
    "outer": (9.0, 0.4),
}


def game(seed: int = 0) -> tuple[DecisionTree, np.ndarray, np.ndarray, np.ndarray]:
    """A tree of 10 histories, features, Theta_hat of length 2, and a reference."""
    rng = np.random.default_rng(seed)
    P, mu = rng.dirichlet(np.ones(2), size=(2, 2, 2)), rng.dirichlet(np.ones(2))
    tree = DecisionTree(P, mu, H=2)
    Theta = rng.normal(size=(2, 2))
    reference = tree.probabilities(tree.plan(rng.dirichlet(np.ones(2), size=tree.I)))
    return tree, rng.normal(size=(tree.T, 2, 2)), 2 * Theta / np.linalg.norm(Theta), reference


def ball_points(dimension: int, count: int) -> np.ndarray:
    """Points of the unit ball, most of them near the sphere."""
    rng = np.random.default_rng(7)
    points = rng.normal(size=(count, dimension))
    sizes = rng.random((count, 1)) ** (0.2 / dimension)
    return points / np.linalg.norm(points, axis=1, keepdims=True) * sizes


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_worst_reward_is_an_element_and_below_all_others(name: str) -> None:
    level, B = SETS[name]
    centre = np.array([[2.0, 0.0]])
    R = ConfidenceSet(centre, level, B)
    points = centre + R.radius * ball_points(2, 400_000)[:, None]
    outer = np.zeros(2) + (B or 0.0) * ball_points(2, 400_000)[:, None]
    points = np.concatenate([points, outer]) if B else points
    inside = ((points - centre) ** 2).sum(axis=(1, 2)) <= level
    inside &= (points**2).sum(axis=(1, 2)) <= (B or np.inf) ** 2
    points = points[inside]
    for angle in np.linspace(0, 2 * np.pi, 25):
        v = np.array([[np.cos(angle), np.sin(angle)]])
        worst = R.worst(v)
        assert R.contains(worst)
        assert np.linalg.norm(worst - centre) <= R.radius * (1 + 1e-12)
        assert np.linalg.norm(worst) <= (B or np.inf) * (1 + 1e-12)
        best_point = (points * v).sum(axis=(1, 2)).min()
        assert (worst * v).sum() <= best_point
        assert (worst * v).sum() >= best_point - 0.02 * R.radius  # the points' distances
    assert R.contains(R.inside)
    assert R.contains(R.worst(np.zeros((1, 2))))


def test_pulled_points_stay_or_come_to_the_boundary() -> None:
    R = ConfidenceSet([[2.0, 0.0]], 0.3, 1.9)
    assert np.array_equal(R.pulled(R.inside), R.inside)
    inner = R.inside + np.array([[0.01, 0.02]])
    np.testing.assert_allclose(R.pulled(inner), inner, rtol=1e-15)
    far = R.pulled(R.inside + np.array([[3.0, 40.0]]))
    assert R.contains(far)
    assert not R.contains(R.inside + 1.001 * (far - R.inside))


def test_sets_that_touch_have_one_element() -> None:
    R = ConfidenceSet([[3.0], [4.0]], zeta=4.0, B=3.0)
    np.testing.assert_allclose(R.worst([[0.3], [-1.0]]), [[1.8], [2.4]], rtol=1e-14)
    np.testing.assert_allclose(R.inside, [[1.8], [2.4]], rtol=1e-14)
    moved = ConfidenceSet([[3.0], [4.0]], zeta=4.0, B=1.0, around=[[3.0], [1.0]])
    np.testing.assert_allclose(moved.inside, [[3.0], [2.0]], rtol=1e-14)


def minimax(v: np.ndarray, R: ConfidenceSet) -> float:
    """min over Theta in R of max over rows of v of <row, Theta>, by sequential programming."""
    scale = np.concatenate([R.inside.ravel(), [(v @ R.inside.ravel()).max()]])
    limits = [
        {
            "type": "ineq",
            "fun": lambda z, c=c, r=r: r**2 - ((z[:-1] - c.ravel()) ** 2).sum(),
        }
        for c, r in R.balls
    ]
    limits.append({"type": "ineq", "fun": lambda z: z[-1] - v @ z[:-1]})
    options = {"maxiter": 1000, "ftol": 1e-14}
    optimum = minimize(lambda z: z[-1], scale, constraints=limits, method="SLSQP", options=options)
    return float(optimum.fun)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("seed", [0, 1])
def test_pessimistic_policy_is_the_saddle_point_over_all_policies(name: str, seed: int) -> None:
    """Mixtures of deterministic policies are all policies: max-min is min-max over them."""
    tree, psi, Theta_hat, reference = game(seed)
    R = ConfidenceSet(Theta_hat, *SETS[name])
    choices = product(range(tree.A), repeat=tree.I)
    plans = (tree.plan(np.eye(tree.A)[list(choice)]) for choice in choices)
    laws = np.array([tree.probabilities(plan) for plan in plans])
    v = (laws - reference) @ psi.reshape(tree.T, -1)
    policy = pessimistic_policy(tree, psi, R, reference)
    assert policy.value == pytest.approx(minimax(v, R), abs=1e-6)
    assert -1e-12 < policy.gap < 1e-7
    assert policy.policy.min() >= 0
    np.testing.assert_allclose(policy.policy.sum(axis=1), 1.0, atol=1e-15)
    np.testing.assert_allclose(tree.plan(policy.policy), policy.plan, atol=1e-14)
    # the certificate by its definition
    assert R.contains(policy.saddle)
    assert R.contains(policy.worst)
    assert (v @ policy.saddle.ravel()).max() == pytest.approx(policy.upper, abs=1e-12)
    mine = (tree.probabilities(policy.plan) - reference) @ psi.reshape(tree.T, -1)
    assert mine @ policy.worst.ravel() == pytest.approx(policy.value, abs=1e-12)
    for plan in (tree.plan(tree.uniform()), tree.best(np.tensordot(psi, Theta_hat))):
        value, _ = worst_value(tree, psi, plan, R, reference)
        assert value <= policy.upper + 1e-12


def test_certificate_shows_a_policy_that_is_not_the_best() -> None:
    tree, psi, Theta_hat, reference = game()
    wrong = ConfidenceSet(Theta_hat, 1.5**2)  # as if zeta were the radius
    R = ConfidenceSet(Theta_hat, 1.5)
    right = pessimistic_policy(tree, psi, R, reference)
    plan = pessimistic_policy(tree, psi, wrong, reference).plan
    value, _ = worst_value(tree, psi, plan, R, reference)
    assert right.upper - value > 1e-4


def test_without_uncertainty_it_is_the_best_policy() -> None:
    tree, psi, Theta_hat, reference = game()
    reward = np.tensordot(psi, Theta_hat)
    policy = pessimistic_policy(tree, psi, ConfidenceSet(Theta_hat, 0.0), reference)
    np.testing.assert_array_equal(policy.plan, tree.best(reward))
    expected = tree.J(tree.best(reward), reward) - reference @ reward
    assert policy.value == pytest.approx(expected, rel=1e-13)
    assert policy.gap == pytest.approx(0.0, abs=1e-13)
    nearly = pessimistic_policy(tree, psi, ConfidenceSet(Theta_hat, 1e-12), reference)
    assert nearly.value == pytest.approx(expected, abs=1e-5)


def test_under_great_uncertainty_it_is_the_reference() -> None:
    tree, psi, Theta_hat, reference = game()
    policy = pessimistic_policy(tree, psi, ConfidenceSet(Theta_hat, 1e4), reference)
    features = psi.reshape(tree.T, -1)
    np.testing.assert_allclose(
        tree.probabilities(policy.plan) @ features, reference @ features, atol=1e-7
    )
    assert policy.value == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(("features", "rewards"), [(1e-5, 1.0), (1.0, 1e-5), (1e5, 1e3)])
def test_units_of_features_and_rewards_do_not_matter(features: float, rewards: float) -> None:
    tree, psi, Theta_hat, reference = game()
    plain = pessimistic_policy(tree, psi, ConfidenceSet(Theta_hat, 1.5, 1.0), reference)
    R = ConfidenceSet(rewards * Theta_hat, 1.5 * rewards**2, rewards)
    policy = pessimistic_policy(tree, features * psi, R, reference)
    assert policy.value == pytest.approx(features * rewards * plain.value, rel=1e-7)
    assert policy.gap < 1e-7 * policy.value


def test_without_features_every_policy_is_as_good() -> None:
    tree, psi, Theta_hat, reference = game()
    policy = pessimistic_policy(tree, 0 * psi, ConfidenceSet(Theta_hat, 1.0), reference)
    assert policy.value == policy.gap == 0.0
    assert policy.policy.min() >= 0


def test_value_falls_as_the_set_grows() -> None:
    tree, psi, Theta_hat, reference = game()
    sets = [ConfidenceSet(Theta_hat, level) for level in (0.0, 0.1, 0.5, 1.0, 2.0)]
    values = [pessimistic_policy(tree, psi, R, reference).value for R in sets]
    assert (np.diff(values) < 0).all()


def test_concentrability_is_the_largest_quotient_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    psi, (target, mu) = rng.normal(size=(9, 2, 2)), rng.dirichlet(np.ones(9), size=2)
    coefficient = concentrability(psi, target, mu)
    flat = psi.reshape(9, 4)
    x = flat[:, None] - flat[None]
    gram = np.einsum("a,b,abi,abj->ij", mu, mu, x, x)
    quotients = []
    for u in rng.normal(size=(20_000, 4)):
        numerator = target @ (flat @ u) - mu @ (flat @ u)
        quotients.append(numerator / np.sqrt(u @ gram @ u))
    assert max(quotients) <= coefficient < 1.02 * max(quotients)
    u = np.linalg.solve(gram, (target - mu) @ flat)
    numerator = np.einsum("a,b,abi,i->", target, mu, x, u)
    assert numerator / np.sqrt(u @ gram @ u) == pytest.approx(coefficient, rel=1e-12)
    assert concentrability(psi, mu, mu) == pytest.approx(0.0, abs=1e-14)
    few = np.array([0.5, 0.5, *np.zeros(7)])
    assert concentrability(psi, target, few) == np.inf
    assert concentrability(psi, [0.9, 0.1, *np.zeros(7)], few) == pytest.approx(
        0.4 / np.sqrt(0.5), rel=1e-12
    )


def test_bad_input_is_refused_in_one_line() -> None:
    tree, psi, Theta_hat, reference = game()
    with pytest.raises(InputError, match=r"^`zeta` must be a number in \[0, inf\); found -1"):
        ConfidenceSet(Theta_hat, -1.0)
    with pytest.raises(
        InputError, match=r"^the confidence set must not be empty; found `Theta_hat"
    ):
        ConfidenceSet(Theta_hat, 0.01, B=1.0)
    with pytest.raises(
        InputError, match=r"^the confidence set must not be empty; found `Theta_hat"
    ):
        ConfidenceSet(Theta_hat, 0.0, B=1.99)
    with pytest.raises(InputError, match=r"^`around` must have shape \(d1, d2\) with d1 = 2, d2"):
        ConfidenceSet(Theta_hat, 0.1, B=1.0, around=[[0.0]])
    R = ConfidenceSet(Theta_hat, 0.1)
    with pytest.raises(InputError, match=r"^`psi` must have shape \(16, 2, 2\); found \(15, 2, 2"):
        pessimistic_policy(tree, psi[1:], R, reference)
    with pytest.raises(InputError, match=r"^row 0 of `reference` must sum to 1; found 2"):
        pessimistic_policy(tree, psi, R, 2 * reference)
    with pytest.raises(InputError, match=r"^`R` must be a ConfidenceSet; found ndarray"):
        pessimistic_policy(tree, psi, Theta_hat, reference)  # type: ignore[arg-type]
    large = DecisionTree(np.full((5, 5, 5), 0.2), np.full(5, 0.2), H=4)
    with pytest.raises(
        InputError, match=r"^`tree` must have at most 50000 sequences; found 406900"
    ):
        pessimistic_policy(large, np.ones((large.T, 2, 2)), R, np.full(large.T, 1 / large.T))
