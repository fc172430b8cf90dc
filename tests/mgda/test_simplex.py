"""Simplex programs: optimality on hard inputs, exact answers, agreement of formulations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from experiments.benchmarks._hard_programs import FAMILIES, generic
from linsys import InputError
from mgda._programs import LARGEST
from mgda.sensitivity import derivative, lipschitz, sensitivity_matrix
from mgda.simplex import gram, kkt_residual, min_norm, regulariser, simplex_qp

#: What the solver promises.
RESIDUAL = 1e-12


def programs(M, count):
    """Gram matrices of every family of hard gradients but the scales that squares do not hold."""
    rng = np.random.default_rng(M)
    matrices = [gram(FAMILIES[name](rng, count, M)) for name in FAMILIES if name != "huge and tiny"]
    return np.concatenate(matrices)


def test_the_certificate_sees_a_wrong_answer():
    Q = gram(generic(np.random.default_rng(1), 50, 4))
    weights = simplex_qp(Q).weights
    moved = 0.999 * weights + 0.001 * np.roll(weights, 1, axis=-1)
    assert kkt_residual(Q, weights).max() <= RESIDUAL
    assert kkt_residual(Q, moved).max() > 1e-6
    assert kkt_residual(Q[0], 2 * weights[0]) >= 0.5  # not on the simplex


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_order_of_gradients_does_not_matter(M, seed):
    rng = np.random.default_rng(seed)
    A, order = rng.standard_normal((M + 2, M)), rng.permutation(M)
    weights, permuted = min_norm(A).weights, min_norm(A[:, order]).weights
    np.testing.assert_allclose(permuted, weights[order], atol=1e-10)
    assert np.abs(permuted - weights[order]).max() <= 1e-10


@pytest.mark.parametrize("scale", [1e-150, 1e-80, 1.0, 1e80, 1e150])
def test_scale_of_gradients_does_not_matter(scale):
    A = np.random.default_rng(3).standard_normal((6, 4))
    expected = min_norm(A).weights
    np.testing.assert_allclose(min_norm(scale * A).weights, expected, rtol=1e-12)
    normalised = min_norm(scale * A, beta=0.3, normalise=True).weights
    np.testing.assert_allclose(
        normalised, min_norm(A, beta=0.3, normalise=True).weights, rtol=1e-12
    )


def test_regulariser_beside_huge_and_tiny_gradients():
    A = np.random.default_rng(4).standard_normal((6, 3))
    np.testing.assert_allclose(min_norm(1e150 * A, beta=1.0).weights, min_norm(A).weights)
    np.testing.assert_allclose(min_norm(1e-150 * A, beta=1.0).weights, np.full(3, 1 / 3))


def test_preferences_and_regularisers_are_one_family():
    G = programs(3, 10)
    beta = 0.7
    same = simplex_qp(G, preference=np.full(3, 2 / beta)).weights
    np.testing.assert_allclose(same, simplex_qp(G, beta=beta).weights, atol=1e-12)
    assert np.array_equal(regulariser(2, 0.5), 0.25 * np.eye(2))


def test_torch_and_float32_gradients():
    A = np.random.default_rng(6).standard_normal((1000, 3)).astype(np.float32)
    expected = min_norm(A.astype(np.float64)).weights
    np.testing.assert_allclose(min_norm(torch.tensor(A)).weights, expected, rtol=1e-12)
    np.testing.assert_allclose(gram(A), A.astype(float).T @ A.astype(float), rtol=1e-12)
    batch = np.stack([A, 2 * A])
    np.testing.assert_allclose(min_norm(batch).weights, [expected, expected], rtol=1e-12)


@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_derivative_is_that_of_finite_differences(M, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((M, M))
    Q = A.T @ A + 0.5 * np.eye(M)
    weights = simplex_qp(Q).weights
    slopes = Q @ weights
    idle = weights == 0
    if (slopes[idle] - slopes @ weights < 1e-3).any() or (weights[~idle] < 1e-3).any():
        return  # the support is about to change: no derivative there
    dQ = rng.standard_normal((M, M))
    dQ = dQ + dQ.T
    h = 1e-6
    up, down = simplex_qp(Q + h * dQ).weights, simplex_qp(Q - h * dQ).weights
    # curvature of the solution: third derivatives of order 1 / 0.5^3 times |dQ|^3 h^2
    np.testing.assert_allclose(derivative(Q, weights, dQ), (up - down) / (2 * h), atol=1e-6)
    assert lipschitz(Q, weights) <= 2.0 + 1e-12  # 2 / beta with beta = 1


def test_lipschitz_constant_is_attained():
    Q = np.diag([1.0, 2.0, 3.0])
    weights = simplex_qp(Q).weights
    H = sensitivity_matrix(Q, weights)
    direction = np.linalg.eigh(H)[1][:, -1]
    # a reflection that takes weights / |weights| to the steepest direction
    unit = weights / np.linalg.norm(weights)
    normal = unit - direction
    dQ = np.eye(3) - 2 * np.outer(normal, normal) / (normal @ normal)
    moved = np.linalg.norm(derivative(Q, weights, dQ))
    assert moved == pytest.approx(lipschitz(Q, weights), rel=1e-12)


EYE = np.eye(2)
MASKED = np.ma.masked_array(EYE, mask=EYE == 0)
TRACKED = [torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)]
SPARSE = torch.eye(2).to_sparse()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: simplex_qp([[1.0, 0.5], [0.2, 1.0]]), "`G` must be symmetric"),
        (lambda: simplex_qp([[1.0, 2.0], [2.0, 1.0]]), "`G` must be positive semidefinite"),
        (lambda: simplex_qp([[0.0, 1.0], [1.0, 0.0]]), "`G` must be positive semidefinite"),
        (lambda: simplex_qp([[0.0, 1e-200], [1e-200, 0.0]]), "`G` must be positive semidefinite"),
        (lambda: simplex_qp([[-1.0]]), "`G` must be positive semidefinite"),
        (lambda: simplex_qp(-1e-300 * EYE), "`G` must be positive semidefinite"),
        (lambda: simplex_qp(np.stack([EYE, EYE, -EYE])), "`G` must be positive semidefinite"),
        (lambda: simplex_qp(-EYE, normalise=True), "`G` must be positive semidefinite"),
        (lambda: simplex_qp([[np.nan, 0.0], [0.0, 1.0]]), "`G` must be finite"),
        (lambda: simplex_qp([[1.0, np.nan], [np.nan, 1.0]]), "`G` must be finite"),
        (lambda: simplex_qp([[np.inf, 0.0], [0.0, 1.0]]), "`G` must be finite"),
        (lambda: simplex_qp([[np.inf, 0.0], [0.0, 1.0]], normalise=True), "`G` must be finite"),
        (lambda: simplex_qp([[1.0, -np.inf], [-np.inf, 1.0]]), "`G` must be finite"),
        (lambda: simplex_qp(np.ones((2, 3))), "`G` must have shape"),
        (lambda: simplex_qp(np.ones((0, 0))), "`G` must have shape"),
        (lambda: simplex_qp(1.0), "`G` must have shape"),
        (lambda: simplex_qp([[1.0], [2.0, 3.0]]), "`G` must be an array"),
        (lambda: simplex_qp(EYE.astype(complex)), "`G` must be an array"),
        (lambda: simplex_qp("text"), "`G` must be an array"),
        (lambda: simplex_qp(EYE, beta=-1.0), "`beta`"),
        (lambda: simplex_qp(EYE, beta=np.nan), "`beta`"),
        (lambda: simplex_qp(EYE, preference=[1.0, 0.0]), "`preference` must be positive"),
        (lambda: simplex_qp(EYE, preference=[1.0, -1.0]), "`preference` must be positive"),
        (lambda: simplex_qp(EYE, preference=[1.0, 1e-310]), "`preference` must be positive"),
        (lambda: simplex_qp(EYE, preference=[1.0, np.nan]), "`preference` must be finite"),
        (lambda: simplex_qp(EYE, preference=[1.0, 1.0, 1.0]), "`preference` must have shape"),
        (lambda: simplex_qp(EYE, beta=1.0, preference=[1.0, 1.0]), "`beta` must be 0"),
        (lambda: min_norm(np.zeros((3, 0))), "`gradients` must have shape"),
        (lambda: min_norm(np.zeros((0, 3))), "`gradients` must have shape"),
        (lambda: min_norm([]), "`gradients` must have shape"),
        (lambda: min_norm([1.0, 2.0]), "`gradients` must have shape"),
        (lambda: min_norm([[1.0], [2.0, 3.0]]), "`gradients` must be an array"),
        (lambda: min_norm([np.ones((2, 2)), np.ones((3, 2))]), "`gradients` must be an array"),
        (lambda: min_norm(np.ones((2, 2), dtype=complex)), "`gradients` must hold real numbers"),
        (lambda: min_norm([["a", "b"]]), "`gradients` must hold real numbers"),
        (lambda: min_norm([[np.inf, 1.0]]), "`gradients` must be finite"),
        (lambda: min_norm([[-np.inf, 1.0]]), "`gradients` must be finite"),
        (lambda: min_norm([[np.nan, 1.0]]), "`gradients` must be finite"),
        (lambda: min_norm([[1.0, 2.0]], beta=-1.0), "`beta`"),
        (lambda: min_norm([[1.0, 2.0]], preference=[0.0, 1.0]), "`preference` must be positive"),
        (lambda: min_norm(1e200 * EYE), "`gradients` must be finite, also their squares"),
        (lambda: gram([[1e200, 1.0]]), "`gradients` must be finite, also their squares"),
        (lambda: simplex_qp([[1e308, 0.0], [0.0, 1e308]]), "`G` must have entries of at most 1e"),
        (lambda: simplex_qp(1e308 * EYE, normalise=True), "`G` must have entries of at most 1e"),
        (lambda: simplex_qp(EYE, beta=1e308), r"`beta` must be a number in \[0, 1e\+304\]"),
        (lambda: simplex_qp(EYE, beta=np.inf), r"in \[0, 1e\+304\]; found inf"),
        (
            lambda: simplex_qp(EYE, normalise="false"),
            "`normalise` must be True or False; found 'fa",
        ),
        (lambda: simplex_qp(EYE, normalise=1), "`normalise` must be True or False; found 1"),
        (lambda: min_norm(EYE, normalise="false"), "`normalise` must be True or False"),
        (lambda: simplex_qp(MASKED), "`G` must be an array .* found masked_array"),
        (lambda: min_norm(MASKED), "`gradients` must be an array .* found masked_array"),
        (lambda: simplex_qp(EYE, preference=MASKED), "`preference` must be a rectangular array"),
        (lambda: min_norm(TRACKED), r"`gradients` must be an array .* found \[tensor"),
        (lambda: simplex_qp(TRACKED), r"`G` must be an array .* found \[tensor"),
        (lambda: simplex_qp(SPARSE), "`G` must be an array .* found tensor"),
        (lambda: min_norm(SPARSE), "`gradients` must be an array .* dense; found tensor"),
        (lambda: gram(EYE, 0.0), "`scale` must be positive; found 0"),
        (lambda: gram(EYE, [1.0, 2.0]), r"`scale` must have shape \(\); found \(2,\)"),
        (lambda: gram(np.ones((3, 2, 2)), [1.0, 2.0]), r"`scale` must have shape \(3,\)"),
        (lambda: gram(EYE, np.nan), "`scale` must be finite"),
        (lambda: gram(EYE, "a"), "`scale` must hold real numbers"),
        (lambda: gram(EYE, 1e-310), "`gradients` must be finite, also their squares"),
        (lambda: regulariser(-1), "`M` must be a whole number of at least 1; found -1"),
        (lambda: regulariser(2.5), "`M` must be a whole number"),
        (lambda: regulariser("a"), "`M` must be a whole number"),
        (lambda: kkt_residual(EYE, [1.0, 0.0, 0.0]), "`weights` must have shape"),
        (lambda: kkt_residual(EYE, [np.nan, 1.0]), "`weights` must be finite; found NaN"),
        (lambda: kkt_residual(EYE, [np.inf, 1.0]), "`weights` must be finite; found NaN"),
        (lambda: kkt_residual(np.nan * EYE, [0.5, 0.5]), "`Q` must be finite"),
        (lambda: kkt_residual([[np.inf, 0], [0, 1]], [0.5, 0.5]), "`Q` must be finite"),
        (lambda: kkt_residual(1e308 * EYE, [0.5, 0.5]), "`Q` must have entries of at most 1e"),
        (lambda: kkt_residual(1e300 * EYE, [1e300, 0.0]), "`weights` must give finite Q lambda"),
        (lambda: kkt_residual(EYE, "a"), "`weights` must be an array of real numbers"),
        (lambda: kkt_residual("a", [0.5, 0.5]), "`Q` must be an array"),
        (lambda: kkt_residual(EYE, [[1.0], [0.5, 0.5]]), "`weights` must be an array of real"),
        (lambda: kkt_residual(EYE, 1.0), "`weights` must have shape"),
        (
            lambda: kkt_residual(np.stack([EYE] * 3), np.full((2, 2), 0.5)),
            r"`weights` must have batch axes like those of `Q`, \(3,\); found \(2,\)",
        ),
        (lambda: kkt_residual(np.ones((2, 3)), [1.0, 0.0]), "`Q` must have shape"),
        (lambda: sensitivity_matrix(np.zeros((2, 2)), [0.5, 0.5]), "only solution"),
    ],
)
def test_bad_input_is_named(call, named):
    with pytest.raises(InputError, match=named) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_tensors_that_require_gradients_are_taken_by_their_values():
    A = np.random.default_rng(7).standard_normal((4, 3))
    G = gram(A)
    tracked = torch.tensor(G, requires_grad=True)
    expected = simplex_qp(G).weights
    assert np.array_equal(simplex_qp(tracked).weights, expected)
    assert kkt_residual(tracked, torch.tensor(expected, requires_grad=True)) <= RESIDUAL


@pytest.mark.parametrize("M", [1, 2, 3, 5])
@pytest.mark.parametrize("options", [{}, {"normalise": True}, {"beta": 1e304}])
def test_the_largest_programs_are_solved(M, options):
    A = np.random.default_rng(M).standard_normal((M + 1, M))
    G = gram(A)
    weights = simplex_qp(G * (LARGEST / np.abs(G).max()), **options)
    beta = {"beta": np.abs(G).max()} if "beta" in options else {}
    np.testing.assert_allclose(
        weights.weights, simplex_qp(G, **beta).weights, rtol=1e-9, atol=1e-12
    )
    assert weights.optimal


def test_preferences_down_to_the_smallest_normal_number():
    tiny = float(np.finfo(np.float64).tiny)
    assert simplex_qp(LARGEST * EYE, preference=[tiny, tiny]).weights.tolist() == [0.5, 0.5]


def test_a_batch_of_no_programs_has_no_residuals():
    none = np.zeros((0, 2, 2))
    assert kkt_residual(none, simplex_qp(none).weights).shape == (0,)


def test_zero_gradients_leave_the_regulariser():
    np.testing.assert_allclose(min_norm(np.zeros((3, 2)), beta=1.0).weights, [0.5, 0.5])
    assert min_norm(np.zeros((3, 2))).residual == 0
