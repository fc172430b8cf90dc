"""P-ShareLoRA, Appendix B.1 and (B.2) to (B.5): formulas against NumPy, tighter bounds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from experiments.psharelora.claims import reward_error
from experiments.psharelora.theory import preference as model, proof as at
from experiments.psharelora.theory.subspace import Adaptation
from linsys.linalg import logistic, precise, precision


@pytest.fixture
def users() -> at.Shared:
    """Three instances of two users, d1 = 3, d2 = 2, of ranks 1, 2 and 2."""
    rng = np.random.default_rng(0)
    return at.Shared(
        rng.normal(size=(3, 3, 3)),
        rng.normal(size=(3, 2, 2, 2, 2)),
        rng.uniform(0.1, 1, size=(3, 3)),
        np.array([1.0, 2.0, 2.0]),
    )


def test_users_are_their_own_decomposition(users: at.Shared) -> None:
    for b in range(3):
        whole = np.concatenate(list(users.delta[b]), axis=1)
        U, sigma, V = np.linalg.svd(whole, full_matrices=False)
        k = int(users.rank[b])
        assert_allclose(users.sigma[b], sigma)
        best = (U[:, :k] * sigma[:k]) @ V[:k]
        assert_allclose(np.concatenate(list(users.best[b]), axis=1), best, atol=1e-12)
        assert users.nu[b] == pytest.approx(sigma[k - 1] ** 2 / 2)
        assert users.tail[b] == pytest.approx((sigma[k:] ** 2).sum())
        assert users.b[b].sum() == pytest.approx(users.tail[b])
        basis = users.basis[b, :, :k]
        assert_allclose(basis @ basis.T, U[:, :k] @ U[:, :k].T, atol=1e-12)


def test_more_rows_than_columns_leave_singular_values_out() -> None:
    rng = np.random.default_rng(1)
    users = at.Shared(
        rng.normal(size=(1, 3, 3)),
        rng.normal(size=(1, 1, 2, 1, 2)),
        np.ones((1, 3)),
        np.array([3.0]),
    )
    assert users.rank.tolist() == [2]
    assert_allclose(users.sigma, [[2, 1, 0]])
    assert users.tail[0] == 0
    assert_allclose(users.delta, users.best)


@pytest.mark.parametrize("k", [1, 2])
def test_overlap_is_that_of_the_best_rotation(k: int) -> None:
    rng = np.random.default_rng(2)
    held = np.arange(3) < k
    first, second = (at.orthogonal(rng.normal(size=(1, 3, 3))) * held for _ in range(2))
    apart, squared, aligned = at.overlap(first, second, np.array([float(k)]))
    A, B = first[0, :, :k], second[0, :, :k]
    assert apart[0] == pytest.approx(np.linalg.norm(A - B) ** 2)
    assert squared[0] == pytest.approx(np.linalg.norm(A @ A.T - B @ B.T) ** 2 / 2)
    left, _, right = np.linalg.svd(B.T @ A)
    assert aligned[0] == pytest.approx(np.linalg.norm(A - B @ left @ right) ** 2)


def test_links_and_their_slopes() -> None:
    x, step = np.linspace(-8, 8, 33), 1e-6
    R = np.full_like(x, 1.7)
    value, rate = model.reward(x, R), model.rate(x, R)
    assert_allclose(value, 1.7 * np.tanh(x / 1.7))
    assert_allclose(
        rate, (model.reward(x + step, R) - model.reward(x - step, R)) / (2 * step), 1e-5
    )
    grid = np.linspace(-10, 10, 200_001)
    second = -2 / 1.7 * np.tanh(grid / 1.7) / np.cosh(grid / 1.7) ** 2
    assert model.bend(R)[0] == pytest.approx(np.abs(second).max(), rel=1e-8)
    difference = (logistic(x + step) - logistic(x - step)) / (2 * step)
    assert_allclose(model.slope(x), difference, rtol=1e-4, atol=1e-10)
    assert_allclose(model.log_logistic(x), np.log(logistic(x)), rtol=1e-12)
    assert model.log_logistic(np.array(-800.0)) == -800


def test_likelihood_is_a_sum_over_comparisons(users: at.Shared) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3, 2, 4, 3, 2))
    o = rng.integers(0, 2, size=(3, 2, 4)).astype(float)
    for b in range(3):
        total = sum(
            np.log(logistic((2 * o[b, i, j] - 1) * (users.delta[b, i] * x[b, i, j]).sum()))
            for i in range(2)
            for j in range(4)
        )
        assert at.likelihood(users.delta, x, o)[b] == pytest.approx(total)


def test_formulas_keep_high_precision(users: at.Shared) -> None:
    rng = np.random.default_rng(4)
    psi = rng.normal(size=(2, 3, 2, 4, 3, 2))
    o, Theta, size = np.ones((3, 2, 4)), rng.normal(size=(3, 2, 3, 2)), np.ones(3)
    raw = (users.raw_U, users.raw_V, users.gaps, users.k, *psi, o, Theta, size)
    plain = reward_error.B1_chain(at.Shared(*raw[:4]), *raw[4:])
    with precision(40):
        exact = [precise(a) for a in raw]
        sides = reward_error.B1_chain(at.Shared(*exact[:4]), *exact[4:])
    for a, b in zip(plain, sides, strict=True):
        assert b.dtype == object
        assert_allclose(a, b.astype(float), rtol=1e-10)


def test_the_counterexample_of_b4_is_as_noted() -> None:
    hat, diamond = np.array([[-0.04]]), np.array([[0.04]])
    left, along, size, L1, _ = at.eq_B4(hat, diamond, np.array([[[100.0], [-100.0]]]), np.ones(1))
    assert left[0] > 15.9
    assert (along + 16 * L1 * size**2)[0] < 10.3


def test_differences_of_chances_are_the_outcomes_distance() -> None:
    rng = np.random.default_rng(5)
    Theta, truth, psi0, psi1 = rng.normal(size=(4, 3, 2, 3, 2))
    weight = rng.dirichlet(np.ones(2), size=3)
    measured, bound = reward_error.eq_B2(Theta, truth, psi0, psi1, weight)
    for b in range(3):
        x, y = (np.einsum("icd,jcd->ij", M, psi0[b] - psi1[b]) for M in (Theta[b], truth[b]))
        L1 = max(np.linalg.norm(psi) for part in (psi0[b], psi1[b]) for psi in part)
        R = L1 * max(np.linalg.norm(M) for M in (*Theta[b], *truth[b]))
        kappa = 1 / (2 * logistic(2 * R) * logistic(-2 * R))
        both = np.abs(logistic(x) - logistic(y)) + np.abs(logistic(-x) - logistic(-y))
        assert measured[b] == pytest.approx(((x - y) ** 2 @ weight[b]).mean())
        assert bound[b] == pytest.approx(kappa**2 * (both**2 @ weight[b]).mean())


def test_theta_diamond_of_b3_is_that_of_4_1() -> None:
    """With users along all other columns, and one whose part along the last one is turned round."""
    rng = np.random.default_rng(7)
    truth, across = rng.normal(size=(2, 1, 3))
    psi, hat = rng.normal(size=(1, 2, 3)), rng.normal(size=(1, 3))
    instance = reward_error.PROJECTED.view(hat=hat, truth=truth, across=across, psi=psi)
    unit = across[0] / np.linalg.norm(across)
    others = np.linalg.svd(unit[None])[2][1:]  # a basis of what is orthogonal to it
    part = (truth[0] @ unit) * unit
    columns = [truth[0], truth[0] - 2 * part, *(2 * others)]
    users = Adaptation(np.stack(columns)[None, :, :, None], 2)
    assert_allclose(users.best[0, 0, :, 0], instance.diamond[0], atol=1e-12)
    untouched = Adaptation(np.stack([truth[0], *(2 * others)])[None, :, :, None], 2)
    assert np.abs(untouched.best[0, 0, :, 0] - instance.diamond[0]).max() > 1e-3


def test_the_norm_of_the_bases_is_the_operator_norm() -> None:
    A = np.random.default_rng(8).normal(size=(4, 3, 2))
    assert_allclose(at.spectral(A), np.linalg.norm(A, 2, axis=(1, 2)))
    assert (np.linalg.norm(A, axis=(1, 2)) > 1.01 * at.spectral(A)).any()  # not Frobenius's
