"""Preference systems against their definitions: sums over pairs, differences, counted draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linsys import InputError
from linsys.preference import PreferenceSystem
from linsys.preference.coverage import (
    concentration,
    coverage,
    pair_weights,
    subspace_information,
)
from linsys.preference.instances import isotropic_features, random_features, shared_users
from linsys.preference.subspace import best_rank, diversity


def system(seed: int = 0, **options: Any) -> PreferenceSystem:
    """Three users of 3 x 2 matrices on five trajectories, with uneven weights of all pairs."""
    rng = np.random.default_rng(seed)
    options.setdefault("weights", rng.random((5, 5)))
    return PreferenceSystem(
        rng.normal(size=(5, 3, 2)),
        rng.normal(size=(3, 3, 2)),
        rng.normal(size=(3, 3, 2)),
        **options,
    )


@pytest.mark.parametrize("link", ["linear", "tanh"])
def test_rewards_and_probabilities_are_those_of_the_definition(link: str) -> None:
    users = system(link=link, R=0.7)
    for i in range(users.N):
        rewards = [float((users.Theta[i] * psi).sum()) for psi in users.psi]
        if link == "tanh":
            rewards = [0.7 * np.tanh(r / 0.7) for r in rewards]
        np.testing.assert_allclose(users.rewards()[i], rewards, rtol=1e-13)
        np.testing.assert_array_equal(users.rewards(users.Theta[i]), users.rewards()[i])
        for p, (a, b) in enumerate(users.pairs):
            expected = 1 / (1 + np.exp(rewards[b] - rewards[a]))
            assert users.probabilities()[i, p] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("link", ["linear", "tanh"])
def test_slopes_are_derivatives_and_within_the_constants(link: str) -> None:
    users = system(1, link=link, R=0.7)
    rng = np.random.default_rng(2)
    Theta, step = rng.normal(size=(3, 2)), 1e-5
    first, second = users.slopes(Theta)
    for tau, psi in enumerate(users.psi):
        plus, minus = (users.rewards(Theta + s * psi)[tau] for s in (step, -step))
        along = (psi**2).sum()
        # central differences of a smooth function: relative error of about step^2
        assert (plus - minus) / (2 * step) == pytest.approx(first[tau] * along, abs=1e-8)
        middle = users.rewards(Theta)[tau]
        curved = (plus - 2 * middle + minus) / step**2
        assert curved == pytest.approx(second[tau] * along**2, abs=1e-4)
        assert first[tau] * np.sqrt(along) <= users.L1
        assert abs(second[tau]) * along <= users.L2


def test_the_constants_are_attained() -> None:
    users = system(3, link="tanh", R=0.7)
    longest = users.psi[np.linalg.norm(users.psi, axis=(1, 2)).argmax()]
    unit = longest / users.L1**2  # <unit, longest> = 1
    grid = np.linspace(-3.0, 3.0, 6001)[:, None, None] * unit
    first, second = users.slopes(grid)
    size = np.linalg.norm(users.psi, axis=(1, 2))
    assert (first * size).max() == pytest.approx(users.L1, rel=1e-12)
    # the grid's spacing 0.001 puts the peak of a parabola off by at most 1e-6 of its height
    assert (np.abs(second) * size**2).max() == pytest.approx(users.L2, rel=2e-6)
    for link in ("linear", "tanh"):
        bounded = system(3, link=link, R=0.7)
        assert bounded.rewards(1.5 * bounded.L1 * unit).max() == pytest.approx(
            bounded.reward_bound(1.5), rel=1e-12
        )


def test_users_keep_their_first_comparisons_whatever_else_is_drawn() -> None:
    large = system()
    small = PreferenceSystem(large.psi, large.Theta_init[:2], large.Delta[:2], large.weights)
    data, less = large.sample([40, 30, 20], seed=5), small.sample(25, seed=5)
    for i in range(2):
        kept, first = data.user(i), less.user(i)
        for name in ("labels", "initial"):
            np.testing.assert_array_equal(getattr(kept, name)[:25], getattr(first, name))
        np.testing.assert_array_equal(kept.features[kept.pairs[:25]], first.features[first.pairs])
    alone = large.sample(20, seed=5, users=[2])
    np.testing.assert_array_equal(alone.labels, data.user(2).labels)
    mine, other = data.user(0), data.user(2)
    assert (mine.pairs[:20] != other.pairs).any()  # every user sees pairs of its own
    assert (mine.labels[:20] != other.labels).any()
    assert (large.sample(20, seed=6, users=[2]).labels != alone.labels).any()


def test_samples_follow_the_weights_and_the_preferences() -> None:
    users, draws = system(), 20_000
    data = users.sample(draws, seed=1)
    differences = np.subtract(*(users.psi[users.pairs[:, j]] for j in (0, 1)))
    distance = ((data.features[:, None] - differences) ** 2).sum(axis=(2, 3))
    # pairs (tau, tau) have the same difference, zero: count them as one
    which = distance.argmin(axis=1)[data.pairs]
    same = (differences == 0).all(axis=(1, 2))
    which[same[which]] = int(same.argmax())
    weights = np.where(same, 0.0, users.pair_weights)
    weights[same.argmax()] = users.pair_weights[same].sum()
    for i in range(users.N):
        mine, labels = which[data.owner == i], data.labels[data.owner == i]
        counts = np.bincount(mine, minlength=len(weights))
        wins = np.bincount(mine, weights=labels, minlength=len(weights))
        p = users.probabilities()[i]
        seen = weights > 0
        expected = draws * weights[seen]
        # chi-square with 20 degrees of freedom stays below 45.3 in 99.9 % of samples
        assert ((counts[seen] - expected) ** 2 / expected).sum() < 45.3
        z = (wins - counts * p)[seen] / np.sqrt(counts * p * (1 - p))[seen]
        assert (z**2).sum() < 46.8  # 21 degrees of freedom


def test_population_is_every_pair_with_its_weight() -> None:
    users = system()
    data = users.population()
    assert data.counts.tolist() == [25, 25, 25]
    for i in range(users.N):
        mine = data.user(i)
        logits = mine.initial + np.einsum("nab,ab->n", mine.features[mine.pairs], users.Delta[i])
        np.testing.assert_allclose(1 / (1 + np.exp(-logits)), mine.labels, rtol=1e-12)
        np.testing.assert_allclose(mine.weights, np.asarray(users.weights).ravel(), rtol=1e-14)
    assert users.population(users=[2]).labels.tolist() == data.user(2).labels.tolist()


def test_data_say_which_rewards_they_come_from() -> None:
    for link in ("linear", "tanh"):
        users = system(link=link)
        assert (
            users.sample(4).link == users.population().link == users.sample(4).user(0).link == link
        )


def test_start_is_counted_as_by_the_comparisons_themselves() -> None:
    users = system()
    for data in (users.sample(7, seed=0), users.population()):
        again = data.starting_from(users.Theta_init)
        np.testing.assert_allclose(again.initial, data.initial, rtol=0, atol=1e-13)
    common = PreferenceSystem(users.psi, users.Theta_init[0], users.Delta, users.weights)
    np.testing.assert_array_equal(common.Theta[1], users.Theta_init[0] + users.Delta[1])


def test_gram_is_the_sum_over_pairs() -> None:
    users = system()
    x = np.subtract(*(users.psi[users.pairs[:, j]].reshape(-1, 6) for j in (0, 1)))
    dense = (users.pair_weights[:, None, None] * x[:, :, None] * x[:, None, :]).sum(axis=0)
    seen = users.coverage()
    np.testing.assert_allclose(seen.gram, dense, rtol=0, atol=1e-14)
    assert seen.rank == 4  # five trajectories have four independent differences, of six directions
    assert not seen.complete
    assert seen.smallest == 0.0
    unseen = users.Theta[0] + 3.0 * seen.blind[0].reshape(3, 2)
    np.testing.assert_allclose(
        users.probabilities(unseen), users.probabilities()[0], rtol=0, atol=1e-13
    )
    assert np.abs(users.rewards(unseen) - users.rewards()[0]).max() > 0.1  # the rewards do change


@pytest.mark.parametrize("rank", [1, 4, 6])
def test_random_features_cover_as_many_directions_as_asked(rank: int) -> None:
    psi = random_features(40, 3, 2, np.random.default_rng(rank), rank=rank, L1=2.0)
    users = PreferenceSystem(psi, np.zeros((3, 2)), np.zeros((1, 3, 2)))
    seen = users.coverage()
    assert seen.rank == rank == 6 - len(seen.blind)
    np.testing.assert_allclose(users.L1, 2.0, rtol=1e-14)
    x = np.subtract(*(psi[users.pairs[:, j]].reshape(-1, 6) for j in (0, 1)))
    np.testing.assert_allclose(x @ seen.blind.T, 0.0, atol=1e-13)
    values = np.linalg.svd(x, compute_uv=False)
    assert values[rank - 1] > 0.1 * values[0]


def test_isotropic_features_cover_all_directions_alike() -> None:
    psi = isotropic_features(30, 3, 2, np.random.default_rng(0))
    seen = PreferenceSystem(psi, np.zeros((3, 2)), np.zeros((1, 3, 2))).coverage()
    assert seen.complete
    np.testing.assert_allclose(seen.gram, seen.smallest * np.eye(6), rtol=0, atol=1e-15)
    single = pair_weights(30, [[0, 1], [2, 3], [0, 1]], [1.0, 1.0, 1.0])
    assert single[0, 1] == 2.0
    few = PreferenceSystem(psi, np.zeros((3, 2)), np.zeros((1, 3, 2)), single)
    assert few.coverage().rank == 2
    assert few.pairs.tolist() == [[0, 1], [2, 3]]


def test_concentration_is_the_extreme_ratio_over_pairs_of_rewards() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 4)), rng.normal(size=(50, 4))
    gram, sampled = x.T @ x / 50, y.T @ y / 50
    low, high = concentration(sampled, gram)
    u = rng.normal(size=(20_000, 4))
    ratios = ((u @ sampled) * u).sum(axis=1) / ((u @ gram) * u).sum(axis=1)
    assert low <= ratios.min() < low + 0.02
    assert high - 0.02 < ratios.max() <= high
    few = y[:3].T @ y[:3] / 3
    assert concentration(few, gram)[0] == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(InputError, match=r"^`sampled` must show nothing that `gram` gives no"):
        concentration(np.eye(2), np.diag([1.0, 0.0]))


def test_coverage_counts_directions_down_to_rounding() -> None:
    covered = coverage(np.diag([1.0, 1e-9, 1e-14]))
    assert covered.rank == 2
    assert coverage(np.diag([1.0, 1e-9])).smallest == pytest.approx(1e-9, rel=1e-6)
    assert coverage(np.zeros((2, 2))).rank == 0


def gram_of(psi: np.ndarray) -> np.ndarray:
    """Of all pairs alike."""
    start = np.zeros(psi.shape[1:])
    return PreferenceSystem(psi, start, start[None]).coverage().gram


def test_information_on_the_span_is_what_is_left_when_users_follow() -> None:
    """Against least squares over the users' factors, for random turns C of the span."""
    rng = np.random.default_rng(0)
    d1, d2, k, N = 5, 2, 2, 3
    best = best_rank(shared_users(N, d1, d2, k, 1.0, 0.0, rng), k)
    gram = gram_of(random_features(30, d1, d2, rng, rank=7))
    information = subspace_information(gram, best.B, best.W)
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0))).T
    complement = np.linalg.qr(best.B, mode="complete")[0][:, k:]
    follow = root @ np.kron(best.B, np.eye(d2))
    for C in rng.normal(size=(5, d1 - k, k)):
        expected = 0.0
        for W in best.W:
            moved = root @ (complement @ C @ W).ravel()
            undone = np.linalg.lstsq(follow, -moved, rcond=1e-10)[0]
            expected += ((moved + follow @ undone) ** 2).sum()
        assert C.ravel() @ information @ C.ravel() == pytest.approx(expected, rel=1e-9)


def test_information_under_even_coverage_is_the_condition_number() -> None:
    rng = np.random.default_rng(1)
    best = best_rank(shared_users(20, 6, 3, 2, 0.4, 0.0, rng, condition=3.0), 2)
    gram = gram_of(isotropic_features(40, 6, 3, rng))
    eigenvalues = np.linalg.eigvalsh(subspace_information(gram, best.B, best.W))
    nu = diversity(best.Theta, 2).nu
    expected = gram[0, 0] * 20 * nu * np.repeat([1.0, 9.0], 4)
    np.testing.assert_allclose(eigenvalues, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("d2", "features", "unseen"),
    [
        (3, {}, 0),
        (3, {"rank": 17}, 0),  # of 18: users who share a factor make up for it
        (3, {"rank": 14}, 0),
        (3, {"rows": 5}, 2),  # a row that never shows: k turns of the span
        (3, {"rows": 4}, 4),
        (1, {"rank": 5}, 2),  # of 6: with d2 = 1 a direction is a row
    ],
)
def test_what_a_shared_factor_can_make_up_for(
    d2: int, features: dict[str, int], unseen: int
) -> None:
    rng = np.random.default_rng(2)
    best = best_rank(shared_users(30, 6, d2, 2, 1.0, 0.0, rng), 2)
    gram = gram_of(random_features(60, 6, d2, rng, **features))  # type: ignore[arg-type]
    rank = features.get("rank", features.get("rows", 6) * d2)
    assert coverage(gram).rank == rank
    covered = coverage(subspace_information(gram, best.B, best.W))
    assert len(covered.blind) == unseen


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"weights": -np.ones((5, 5))}, "`weights` must be non-negative with a positive sum"),
        ({"weights": np.zeros((5, 5))}, "`weights` must be non-negative with a positive sum"),
        ({"weights": np.ones((4, 4))}, r"`weights` must have shape \(5, 5\); found \(4, 4\)"),
        ({"link": "relu"}, "`link` must be one of linear, tanh; found 'relu'"),
        ({"R": 0.0}, r"`R` must be a number in \(0, inf\); found 0"),
        ({"Theta_init": np.zeros((2, 2))}, r"`Theta_init` must have shape \(d1, d2\)"),
        ({"Delta": np.zeros((2, 3, 2))}, r"`Theta_init` must have shape \(N, d1, d2\)"),
        ({"psi": np.ones((1, 3, 2)), "weights": None}, "`T, the number of trajectories,` must be"),
    ],
)
def test_bad_systems_are_refused_in_one_line(change: dict[str, Any], text: str) -> None:
    users = system()
    good = {name: getattr(users, name) for name in ("psi", "Theta_init", "Delta", "weights")}
    with pytest.raises(InputError, match="^" + text) as caught:
        PreferenceSystem(**{**good, **change})
    assert "\n" not in str(caught.value)


def test_bad_questions_are_refused_in_one_line() -> None:
    users = system()
    with pytest.raises(InputError, match=r"^`N_p` must be a whole number of at least 1; found 0"):
        users.sample([3, 0, 2])
    with pytest.raises(InputError, match=r"^`N_p` must be a number or 3 numbers, one a user"):
        users.sample([3, 2])
    for wrong in (1.5, None, "ab", True):
        with pytest.raises(InputError, match=r"^`N_p` must be a "):
            users.sample(wrong)  # type: ignore[arg-type]
    for nobody in ([3], []):
        with pytest.raises(InputError, match=r"^`users` must be numbers from 0 to 2; found \["):
            users.sample(3, users=nobody)
    with pytest.raises(InputError, match=r"^`Theta` must be finite; found NaN"):
        users.probabilities(np.full((3, 2), np.nan))
    with pytest.raises(InputError, match=r"^`Theta` must have shape \(..., 3, 2\); found \(2, 3\)"):
        users.rewards(np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"^`pairs` must name trajectories 0 to 2; found 0 to 3"):
        pair_weights(3, [[0, 3]])
    with pytest.raises(InputError, match=r"^`T` must be a whole number of at least 5; found 4"):
        isotropic_features(4, 2, 2, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"^`k` must be a whole number of at least 1 and at most"):
        shared_users(2, 3, 1, 3, 1.0, 0.0, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"^`rng` must be a numpy.random.Generator, .*; found 0"):
        shared_users(2, 3, 2, 2, 1.0, 0.0, 0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^`tail` must be at most 2, 1 squares of at most"):
        shared_users(2, 3, 2, 2, 1.0, 3.0, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"^`B` must be at least \|\|Delta_i\|\|_F of all users"):
        shared_users(2, 3, 2, 2, 1.0, 0.0, np.random.default_rng(0), B=0.5)
