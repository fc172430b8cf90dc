"""Distances, alignment, best rank and diversity against their definitions, and users as asked."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space, subspace_angles
from scipy.stats import ortho_group

from linsys import InputError
from linsys.preference.instances import shared_users
from linsys.preference.subspace import align, best_rank, distance, diversity, side_by_side


def basis(d: int, k: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, k)))[0]


@pytest.mark.parametrize(("d", "k1", "k2"), [(5, 2, 2), (5, 3, 3), (6, 1, 1), (6, 2, 3), (6, 4, 1)])
def test_both_forms_of_the_distance_are_the_printed_ones(d: int, k1: int, k2: int) -> None:
    B1, B2 = basis(d, k1, 0), basis(d, k2, 1)
    projector, sine = distance(B1, B2), distance(B1, B2, "sine")
    assert projector == pytest.approx(np.linalg.norm(B1 @ B1.T - B2 @ B2.T) / np.sqrt(2), rel=1e-13)
    assert sine == pytest.approx(np.linalg.norm(B1.T @ null_space(B2.T)), rel=1e-13)
    assert sine**2 == pytest.approx(projector**2 + (k1 - k2) / 2, rel=1e-13)
    if k1 == k2:
        sines = np.sin(subspace_angles(B1, B2))
        assert projector == pytest.approx(np.sqrt((sines**2).sum()), rel=1e-13)
        assert projector == pytest.approx(sine, rel=1e-13)
        assert projector <= np.sqrt(min(k1, d - k1))
    else:
        assert abs(projector - sine) > 0.05


def test_small_distances_keep_their_digits() -> None:
    B = np.eye(4)[:, :2]
    angle = 1e-10
    turned = B.copy()
    turned[:, 0] = np.cos(angle) * B[:, 0] + np.sin(angle) * np.eye(4)[:, 2]
    for form in ("projector", "sine"):
        assert distance(B, turned, form) == pytest.approx(angle, rel=1e-5)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_alignment_is_the_best_rotation_and_within_twice_the_distance(k: int) -> None:
    B, B_diamond = basis(6, k, 3), basis(6, k, 4)
    aligned = align(B, B_diamond)
    np.testing.assert_allclose(aligned.O.T @ aligned.O, np.eye(k), atol=1e-14)
    rotations = ortho_group.rvs(k, size=500, random_state=0) if k > 1 else np.array([[[1.0]]])
    for rotation in [*np.reshape(rotations, (-1, k, k)), np.eye(k), -np.eye(k)]:
        assert aligned.error <= np.linalg.norm(B - B_diamond @ rotation) + 1e-14
    squared = distance(B, B_diamond) ** 2
    assert squared <= aligned.error**2 <= 2 * squared
    cosines = np.cos(subspace_angles(B, B_diamond))
    assert aligned.error**2 == pytest.approx((2 * (1 - cosines)).sum(), rel=1e-12)
    assert aligned.error**2 > 1.01 * squared  # so that the factor 2 is not 1


def test_both_bounds_of_the_alignment_are_reached() -> None:
    """Right angles: error^2 = 2 k = 2 dist^2; nearly equal spaces: error^2 = dist^2."""
    right = np.eye(4)[:, :2], np.eye(4)[:, 2:]
    assert align(*right).error ** 2 == pytest.approx(2 * distance(*right) ** 2, rel=1e-14)
    near = np.linalg.qr(right[0] + 1e-4 * np.ones((4, 2)))[0]
    ratio = align(near, right[0]).error ** 2 / distance(near, right[0]) ** 2
    assert ratio == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("N", "d1", "d2"), [(4, 5, 3), (2, 7, 2), (1, 3, 4)])
def test_best_rank_is_the_truncated_decomposition(N: int, d1: int, d2: int) -> None:
    Delta = np.random.default_rng(0).normal(size=(N, d1, d2))
    dense = np.concatenate(list(Delta), axis=1)
    np.testing.assert_array_equal(side_by_side(Delta), dense)
    U, s, Vt = np.linalg.svd(dense, full_matrices=False)
    for k in range(1, min(dense.shape) + 1):
        best = best_rank(Delta, k)
        expected = (U[:, :k] * s[:k]) @ Vt[:k]
        np.testing.assert_allclose(side_by_side(best.Theta), expected, atol=1e-13)
        np.testing.assert_allclose(best.B.T @ best.B, np.eye(k), atol=1e-13)
        for i in range(N):
            np.testing.assert_allclose(best.B @ best.W[i], best.Theta[i], atol=1e-14)
        spread = diversity(Delta, k)
        assert spread.nu == pytest.approx(s[k - 1] ** 2 / N, rel=1e-12)
        assert spread.tail == pytest.approx((s[k:] ** 2).sum(), abs=1e-12)
        assert spread.b.sum() == pytest.approx(spread.tail, abs=1e-12)
        largest = (Delta**2).sum(axis=(1, 2)).max()
        # with one user and one singular value both sides are equal
        assert k * spread.nu + spread.tail / N <= largest * (1 + 1e-14)
        assert best.determined


def test_without_a_gap_the_space_is_not_determined() -> None:
    tie = np.diag([2.0, 1.0, 1.0])[None]
    assert not best_rank(tie, 2).determined
    assert best_rank(tie, 1).determined
    assert best_rank(tie, 3).determined
    angle = 0.3  # another answer that is as near
    u = np.array([0.0, np.cos(angle), np.sin(angle)])
    other = np.diag([2.0, 0.0, 0.0]) + np.outer(u, u)
    assert np.linalg.norm(tie - other) == pytest.approx(np.sqrt(diversity(tie, 2).tail), rel=1e-13)
    low = best_rank(np.diag([2.0, 1.0, 0.0, 0.0])[None], 3)
    assert not low.determined
    np.testing.assert_allclose(low.Theta[0], np.diag([2.0, 1.0, 0.0, 0.0]), atol=1e-15)


@pytest.mark.parametrize("options", [{}, {"condition": 4.0}, {"tail_rank": 2}, {"unequal": 1.0}])
@pytest.mark.parametrize(("N", "d1", "d2", "k"), [(30, 8, 3, 2), (3, 10, 2, 1), (1, 6, 6, 3)])
def test_users_have_the_diversity_that_was_asked_for(
    options: dict[str, float], N: int, d1: int, d2: int, k: int
) -> None:
    rng = np.random.default_rng(0)
    Delta = shared_users(N, d1, d2, k, 0.7, 0.4, rng, **options)  # type: ignore[arg-type]
    assert Delta.shape == (N, d1, d2)
    spread, sigma = diversity(Delta, k), best_rank(Delta, k).sigma
    assert spread.nu == pytest.approx(0.7, rel=1e-12)
    assert spread.tail == pytest.approx(0.4, rel=1e-12)
    lead = options.get("condition", 1.0) if k > 1 else 1.0
    assert sigma[0] / sigma[k - 1] == pytest.approx(lead, rel=1e-12)
    tail_rank = options.get("tail_rank", min(d1, N * d2) - k)
    assert (sigma[k:] > 1e-12).sum() == tail_rank
    exact = shared_users(N, d1, d2, k, 0.7, 0.0, rng)
    assert diversity(exact, k).tail < 1e-28 * N


def test_sizes_of_users_differ_as_asked() -> None:
    spread = []
    for unequal in (0.0, 1.0):
        Delta = shared_users(
            200, 8, 3, 2, 1.0, 1.0, np.random.default_rng(1), unequal=unequal, B=30.0
        )
        spread.append(np.log(np.linalg.norm(Delta, axis=(1, 2))).std())
    assert spread[0] < 0.5 < 0.8 < spread[1]


def test_bad_input_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"^`B1` must have orthonormal columns; found an entry"):
        distance(2 * np.eye(3)[:, :1], np.eye(3)[:, :1])
    with pytest.raises(InputError, match=r"^`B2` must have shape \(d, k2\) with d = 3"):
        distance(np.eye(3)[:, :1], np.eye(4)[:, :1])
    with pytest.raises(InputError, match=r"^`B_diamond` must have shape \(d, k\) with d = 3, k"):
        align(np.eye(3)[:, :1], np.eye(3)[:, :2])
    with pytest.raises(InputError, match=r"^`form` must be one of projector, sine; found 'cos'"):
        distance(np.eye(3)[:, :1], np.eye(3)[:, :1], "cos")
    with pytest.raises(InputError, match=r"^`k` must be a whole number of at least 1 and at most"):
        best_rank(np.ones((2, 3, 1)), 3)
