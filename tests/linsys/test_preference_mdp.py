"""Sequence form against all deterministic policies, and against walking through the process."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from linsys import InputError
from linsys.preference.mdp import DecisionTree

SIZES = [(2, 2, 2), (3, 2, 1), (1, 3, 2), (2, 1, 3)]


def random_tree(S: int, A: int, H: int, seed: int = 0, sparse: bool = False) -> DecisionTree:
    rng = np.random.default_rng(seed)
    P, mu = rng.dirichlet(np.ones(S), size=(H, S, A)), rng.dirichlet(np.ones(S))
    if sparse:  # some moves and one first state cannot happen
        P, mu = np.where(P > 0.4, P, 0.0), np.where((mu > mu.min()) | (S == 1), mu, 0)
        P[P.sum(axis=-1) == 0] = 1.0
        P, mu = P / P.sum(axis=-1, keepdims=True), mu / mu.sum()
    return DecisionTree(P, mu, H)


def every_policy(tree: DecisionTree) -> list[np.ndarray]:
    """All deterministic policies, A^I of them."""
    return [np.eye(tree.A)[list(choice)] for choice in product(range(tree.A), repeat=tree.I)]


def history_of(tree: DecisionTree) -> dict[tuple[int, ...], int]:
    """The number of the history (s_1, a_1, .., s_h), found from the parents alone."""
    names: list[tuple[int, ...]] = []
    first = iter(np.flatnonzero(tree.mu > 0))
    numbered: dict[int, list[int]] = {}
    for i, above in enumerate(tree.parent):
        if above < 0:
            names.append((int(next(first)),))
            continue
        history, action = divmod(int(above), tree.A)
        before = names[history]
        reachable = np.flatnonzero(tree.P[len(before) // 2, before[-1], action] > 0)
        seen = numbered.setdefault(int(above), [])
        names.append((*before, action, int(reachable[len(seen)])))
        seen.append(i)
    return {name: i for i, name in enumerate(names)}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("S", "A", "H"), [*SIZES, (3, 2, 3)])
def test_probabilities_are_products_along_the_trajectory(
    S: int, A: int, H: int, sparse: bool
) -> None:
    tree = random_tree(S, A, H, sparse=sparse)
    number = history_of(tree)
    policy = np.random.default_rng(1).dirichlet(np.ones(A), size=tree.I)
    chances = tree.probabilities(tree.plan(policy))
    by_name = {
        (tuple(s), tuple(a)): p
        for s, a, p in zip(tree.states.tolist(), tree.actions.tolist(), chances, strict=True)
    }
    assert len(by_name) == tree.T
    total = 0.0
    for states in product(range(S), repeat=H):
        for actions in product(range(A), repeat=H):
            p = tree.mu[states[0]]
            for h in range(H - 1):
                p = p * tree.P[h, states[h], actions[h], states[h + 1]]
            if p == 0.0:
                assert (states, actions) not in by_name
                continue
            for h in range(H):
                name = tuple(np.ravel(list(zip(states, actions, strict=True)))[: 2 * h + 1])
                p = p * policy[number[name], actions[h]]
            assert by_name[states, actions] == pytest.approx(p, rel=1e-12)
            total += p
    assert total == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(("S", "A", "H"), SIZES)
def test_best_plan_is_the_best_of_all_deterministic_policies(S: int, A: int, H: int) -> None:
    tree = random_tree(S, A, H)
    for seed in range(3):
        reward = np.random.default_rng(seed).normal(size=tree.T)
        values = [tree.J(tree.plan(policy), reward) for policy in every_policy(tree)]
        best = tree.best(reward)
        assert set(np.unique(best)) <= {0.0, 1.0}
        assert tree.J(best, reward) == pytest.approx(max(values), rel=1e-12)
        if A > 1:
            assert tree.J(tree.best(-reward), reward) == pytest.approx(min(values), rel=1e-12)
            assert max(values) > min(values) + 1e-3


def test_policies_that_see_the_history_earn_more_than_those_that_see_the_state() -> None:
    """Rewards of trajectories may ask for the first action again: the state does not tell it."""
    tree = DecisionTree(np.full((1, 2, 1), 1.0), mu=[1.0], H=2)
    reward = np.where(tree.actions[:, 0] == tree.actions[:, 1], 1.0, 0.0)
    reward[tree.actions[:, 0] == 0] += 1.0
    assert tree.J(tree.best(reward), reward) == 2.0
    assert tree.I == 3  # the start, and after either action


@pytest.mark.parametrize("sparse", [False, True])
def test_plans_and_policies_convert_back_and_satisfy_the_constraints(sparse: bool) -> None:
    tree = random_tree(3, 2, 3, seed=4, sparse=sparse)
    policy = np.random.default_rng(1).dirichlet(np.ones(2), size=tree.I)
    plan = tree.plan(policy)
    E, e = tree.constraints
    np.testing.assert_allclose(E @ plan.ravel(), e, atol=1e-15)
    assert E.shape == (tree.I, tree.I * tree.A)
    np.testing.assert_allclose(tree.policy(plan), policy, rtol=1e-12)
    best = tree.best(np.arange(tree.T) * 1.0)
    again = tree.policy(best)
    np.testing.assert_array_equal(tree.plan(again), best)
    assert (again[best.sum(axis=1) == 0] == 0.5).all()  # histories that are not reached


def test_noise_never_becomes_a_negative_probability() -> None:
    tree = random_tree(2, 2, 2)
    plan = tree.best(np.arange(tree.T) * 1.0)
    noisy = plan + np.random.default_rng(0).uniform(-1e-9, 1e-9, size=plan.shape)
    assert noisy.min() < 0
    cleaned = tree.policy(noisy, below=1e-8)
    assert cleaned.min() >= 0
    np.testing.assert_allclose(cleaned.sum(axis=1), 1.0, atol=1e-15)
    np.testing.assert_allclose(tree.plan(cleaned), plan, atol=1e-14)
    with pytest.raises(InputError, match=r"^`plan` must be at least -0; found -"):
        tree.policy(noisy)


def test_features_add_up_along_the_trajectory() -> None:
    tree = random_tree(2, 2, 3)
    phi = np.random.default_rng(0).normal(size=(2, 2, 3, 2))
    psi = tree.sum_of_features(phi)
    for tau in (0, 17, tree.T - 1):
        pairs = zip(tree.states[tau], tree.actions[tau], strict=True)
        np.testing.assert_allclose(psi[tau], sum(phi[s, a] for s, a in pairs), rtol=1e-14)


def test_bad_input_is_refused_in_one_line() -> None:
    P, mu = np.full((3, 3, 3), 1 / 3), np.full(3, 1 / 3)
    with pytest.raises(InputError, match=r"^`H` must give at most 2000000 sequences .* in the fir"):
        DecisionTree(P, mu, H=8)
    with pytest.raises(InputError, match=r"^`H` must be a whole number of at least 1; found 0"):
        DecisionTree(P, mu, H=0)
    with pytest.raises(InputError, match=r"^row 0 of `mu` must sum to 1; found 0.5"):
        DecisionTree(P, mu / 2, H=1)
    with pytest.raises(InputError, match=r"^`P \(rows s A \+ a\)` must be non-negative; found -1"):
        DecisionTree(P - 4 / 3, mu, H=1)
    with pytest.raises(InputError, match=r"^`P` must have shape \(2, S, A, S\); found \(3, 3, 3"):
        DecisionTree(np.stack([P] * 3), mu, H=2)
    tree = DecisionTree(P, mu, H=2)
    with pytest.raises(InputError, match=r"^`plan` must be a realisation plan, as from plan"):
        tree.J(tree.uniform(), np.zeros(tree.T))
    with pytest.raises(InputError, match=r"^row 0 of `policy` must sum to 1; found 2"):
        tree.plan(2 * tree.uniform())
    with pytest.raises(InputError, match=r"^`reward` must have shape \(81,\), one a trajectory; f"):
        tree.J(tree.plan(tree.uniform()), np.zeros(80))


def test_a_long_horizon_without_choices_is_small() -> None:
    tree = DecisionTree([[[0.0, 1.0]], [[1.0, 0.0]]], mu=[1.0, 0.0], H=1000)
    assert tree.T == 1
    assert tree.states[0, :4].tolist() == [0, 1, 0, 1]
    assert tree.J(tree.best([3.0]), [3.0]) == 3.0
