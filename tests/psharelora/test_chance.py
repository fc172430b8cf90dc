"""P-ShareLoRA's exact chances: data sets one by one, and the package's bracketing numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from experiments.psharelora.claims import brackets, chance
from experiments.psharelora.theory import bracketing, chance as at

RNG = np.random.default_rng(0)


def one(*values: float) -> np.ndarray:
    """One user, one pair."""
    return np.array(values)[:, None, None]


def test_data_sets_are_all_there_with_their_chances() -> None:
    truth, weights = RNG.uniform(0.1, 0.9, (1, 2, 2)), np.array([[0.3, 0.7]])
    data = at.DataSets(truth, weights, 2)
    P = RNG.uniform(0.1, 0.9, (1, 2, 2))
    assert_allclose(data.chance.sum(), 1)
    logs, chances = [], []
    for cells in product(product(range(2), range(2)), repeat=4):
        log, chance = 0.0, 1.0
        for step, (j, o) in enumerate(cells):
            i = step // 2
            p, q = truth[0, i, j], P[0, i, j]
            chance *= weights[0, j] * (p if o else 1 - p)
            log += np.log(q if o else 1 - q)
        logs.append(log)
        chances.append(chance)
    assert_allclose(data.chance[0], chances)
    assert_allclose(data.log_likelihood(P[:, None])[0], logs)


def test_the_best_of_a_bracket_is_that_of_a_fine_grid() -> None:
    data = at.DataSets(np.full((1, 1, 2), 0.4), np.array([[0.5, 0.5]]), 3)
    rank = data.best(np.array([[[0.97, 0.3]]]), np.array([[[0.05]]]))[0]
    best = np.full(rank.shape, -np.inf)
    for first in np.linspace(0.92, 1 - 1e-12, 21):
        for second in np.linspace(0.25, 0.35, 21):
            P = np.array([first, second]).reshape(1, 1, 1, 2)
            best = np.maximum(best, data.log_likelihood(P)[0])
    assert_allclose(rank, best, atol=0.01)  # half a step of the grid, at most three times
    assert (rank >= best - 1e-9).all()


@pytest.mark.parametrize("C", [1.0, 30.0])
def test_printed_lemma_1_fails_for_every_constant(C: float) -> None:
    """N = N_p = 1, P* = 1/2, all P in [1/4, 3/4]: a gain of log 1.5 for sure."""
    data = at.DataSets(one(0.5), np.ones((1, 1)), 1)
    delta = np.array([1.01 * 1.5 ** (-1 / C)])
    centres, share = one(0.5)[None], np.ones(1)
    assert_allclose(at.lemma_1(data, centres, share, delta, C + 0 * delta, 0)[0], 1)
    assert at.lemma_1(data, centres, share, delta, 1 + 0 * delta, 1)[0] == 0


@pytest.mark.parametrize("C", [1.0, 50.0])
def test_printed_lemma_3_fails_for_every_constant(C: float) -> None:
    """One member with P near 1 where P* = p: the outcome 1 has chance p > delta and refutes it."""
    p = 0.3
    q, delta = 1 - 0.2 / C, np.array([p * (1 - 0.2 / C)])
    data = at.DataSets(one(p), np.ones((1, 1)), 1)
    failed, _ = at.lemma_3(data, one(q)[None], delta, C + 0 * delta, 1)
    assert_allclose(failed, p)
    assert failed > delta
    assert at.lemma_3(data, one(q)[None], delta, 4 + 0 * delta, 2)[0] == 0


def test_second_order_counts_outcomes() -> None:
    a, b, delta = np.array([[1.0, -2.0]]), np.array([[-1.0, 0.5]]), np.array([0.4])
    total = 0.0
    for signs in product((1, -1), repeat=2):
        p = [1 / (1 + np.exp(-s * v)) for s, v in zip(signs, a[0], strict=True)]
        q = [1 / (1 + np.exp(-s * v)) for s, v in zip(signs, b[0], strict=True)]
        if np.log(np.prod(p) / np.prod(q)) > (4 + 6.25) / 4 - np.log(0.4):
            total += float(np.prod(p))
    assert_allclose(chance.lemma_4_chance(a, b, delta)[0], total)
    # without the quadratic term the same chance exceeds delta somewhere
    near, far = np.array([[3.0] * 5]), np.array([[-1.0] * 5])
    data = np.exp(-((near - far) ** 2).sum() / 4)
    assert chance.lemma_4_chance(near, far, np.ones(1))[0] <= 1
    assert chance.lemma_4_chance(near, far, np.minimum(np.ones(1) / data, 1e9))[0] > 0.5


def test_moment_is_attained_to_second_order_only() -> None:
    a, b = np.zeros(1), np.array([0.01])
    moment, bound = chance.lemma_4_moment(a, b)
    assert_allclose((moment - 1) / (bound - 1), 1, rtol=1e-4)
    assert moment - 1 > (bound - 1) / 2  # half of the exponent is not enough


def test_brackets_of_the_proof_are_counted_as_in_the_package() -> None:
    for _ in range(20):
        N, d1, d2 = (int(RNG.integers(1, 6)) for _ in range(3))
        k = int(RNG.integers(1, min(d1, d2) + 1))
        n, B, L1 = int(RNG.integers(1, 1000)), *RNG.uniform(0.1, 3, 2)
        numbers = (np.array([float(v)]) for v in (N, n, d1, d2, k, B, L1, 1.0))
        c = at.Class(*numbers)
        sizes = {"N": N, "d1": d1, "d2": d2, "k": k}
        statements = {"shared": brackets.prop_1, "local": at.prop_1_local, "full": at.prop_1_full}
        for kind, statement in statements.items():
            least, most = statement(c)
            other = bracketing.bound(kind, **sizes, B=B, L1=L1, epsilon=1 / (N * n))
            assert least <= other
            assert least <= most
        full = n * L1 * 4 * N**2 * np.sqrt(N) * B
        assert_allclose(at.prop_1_full(c)[1], N * d1 * d2 * np.log(1 + full))
        assert c.shared == bracketing.parameters("shared", **sizes)


def test_uniform_concentration_is_a_binomial_tail() -> None:
    q, share = 0.05, 0.5  # (Delta r)^2 / D is 10 or 10/19 in one direction
    n, j = brackets.SAMPLES, np.arange(brackets.SAMPLES + 1)
    measured, bound = brackets.assumption_2(np.array([q]), np.array([share]))
    pmf = binom.pmf(j, n, q)
    means = (10 * j + 10 / 19 * (n - j)) / n
    assert_allclose(measured[0, 0], pmf[np.abs(means - 1) > 0.1].sum(), rtol=1e-6)
    # all directions: the eigenvalues of E xx' of the sample against those of the law
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 2))
    law = (x.T * [q, 1 - q]) @ x
    samples = np.stack([(x.T * [k / n, 1 - k / n]) @ x for k in j])
    root = np.linalg.inv(np.linalg.cholesky(law))
    values = np.linalg.eigvalsh(root @ samples @ root.T)
    missed = (np.abs(values - 1) > 0.1 + 1e-9).any(axis=1)
    assert_allclose(measured[0, 1], pmf[missed].sum(), rtol=1e-6)
    assert (measured < bound).all()
    assert (np.log(measured / 2) / np.log(bound / 2))[0, 0] < 20  # a twentieth would fail


def test_few_comparisons_miss_a_direction() -> None:
    x = np.eye(3)[None]
    D, D_hat = brackets.assumption_2_few(
        x, np.full((1, 3), 1 / 3), np.array([2.0]), np.array([[5.0, 7, 1]])
    )
    assert_allclose([D, D_hat], [[0.3], [0.0]])
