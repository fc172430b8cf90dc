"""FedCMOO: one lambda, when it is found, compression, projections, bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from linsys import InputError
from mgda.drift import disagreement
from mgda.fedcmoo import FedCMOO, low_rank, project_simplex
from mgda.federated import State
from mgda.firm import FIRM
from mgda.simplex import gram, kkt_residual, simplex_qp

#: The condition of the simplex programs here is at most 1e3.
WEIGHTS = 1e-12


def draws(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def follow(algorithm: FedCMOO | FIRM, gradients: Any) -> list[State]:
    """States after each step along given gradients, from zero."""
    state, reports = algorithm.init(np.zeros(gradients.shape[1:-1])), []
    for g in gradients:
        state = algorithm.step(state, g)
        reports.append(state)
    return reports


def test_lambda_is_of_the_mean_gradients_and_kept_for_the_round() -> None:
    gradients = draws(6, 2, 4, 5, 3)
    for t, state in enumerate(follow(FedCMOO(alpha=0.1, K=3), gradients)):
        mean = gradients[t - t % 3].mean(axis=1)
        expected = simplex_qp(gram(mean)).weights
        np.testing.assert_allclose(
            state.weights, expected[:, None] + np.zeros((4, 1)), atol=WEIGHTS
        )
    for t, state in enumerate(follow(FedCMOO(alpha=0.1, K=3, refresh="step"), gradients)):
        expected = simplex_qp(gram(gradients[t].mean(axis=1))).weights
        np.testing.assert_allclose(state.weights[:, 0], expected, atol=WEIGHTS)


def test_clients_gram_matrices_are_not_enough() -> None:
    """Two federations with the same Gram matrices at every client, and different lambdas."""
    gradients = np.array([[[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 2.0]]])
    other = gradients * np.array([[[1.0, 1.0]], [[1.0, -1.0]]])
    np.testing.assert_array_equal(gram(gradients), gram(other))
    one, two = (follow(FedCMOO(alpha=0.1), g[None])[0].weights[0] for g in (gradients, other))
    np.testing.assert_allclose(one, [0.8, 0.2], atol=WEIGHTS)
    np.testing.assert_allclose(two, [0.0, 1.0], atol=WEIGHTS)  # the second mean gradient is zero


@pytest.mark.parametrize(
    "server",
    [
        FedCMOO(alpha=0.1, K=3),
        FedCMOO(alpha=0.1, K=3, refresh="step", beta=0.1, normalise=True),
        FedCMOO(alpha=0.1, K=3, lambda_rule="projected"),
        FedCMOO(alpha=0.1, K=3, rank=1),
    ],
)
def test_no_disagreement_by_design(server: FedCMOO) -> None:
    gradients = draws(6, 2, 7, 5, 3)
    for g, state in zip(gradients, follow(server, gradients), strict=True):
        np.testing.assert_array_equal(disagreement(g, state.weights), 0.0)
    for g, state in zip(gradients, follow(FIRM(alpha=0.1, K=3), gradients), strict=True):
        assert (disagreement(g, state.weights) > 1e-4).all()


def test_identical_clients_need_no_server() -> None:
    gradients = np.repeat(draws(6, 1, 5, 3), 4, axis=1)
    options: dict[str, Any] = {"alpha": 0.1, "K": 1, "beta": 0.2, "normalise": True}
    both = (follow(method(**options), gradients) for method in (FedCMOO, FIRM))
    for server, client in zip(*both, strict=True):
        np.testing.assert_allclose(server.weights, client.weights, atol=WEIGHTS)
        np.testing.assert_allclose(server.theta, client.theta, atol=1e-13)


@pytest.mark.parametrize(
    "options", [{}, {"beta": 0.3, "normalise": True}, {"preference": (1, 2, 9)}]
)
def test_projected_steps_lead_to_the_exact_lambda(options: Any) -> None:
    """Contraction by 1 - step lambda_min(Q) on the simplex, for step <= 1 / ||Q||."""
    g = draws(4, 8, 3) + 0.5
    Q = gram(g.mean(axis=0))
    step = 1.0 / (np.linalg.norm(Q, 2) + 10.0)
    server = FedCMOO(alpha=0.1, lambda_rule="projected", lambda_step=step, **options)
    first = follow(server, g[None])[0].weights[0]
    scaled = Q / (np.trace(Q) / 3) if "normalise" in options else Q
    extra = np.diag(1 / np.array(options["preference"])) if "preference" in options else 0.0
    scaled = scaled + extra + 0.5 * options.get("beta", 0.0) * np.eye(3)
    np.testing.assert_allclose(
        first, project_simplex(1 / 3 - step * scaled.sum(axis=-1) / 3), atol=WEIGHTS
    )
    steps = math.ceil(math.log(1e-10) / math.log1p(-step * np.linalg.eigvalsh(scaled)[0]))
    assert steps < 20_000
    last = follow(server, np.broadcast_to(g, (steps, *g.shape)))[-1].weights[0]
    np.testing.assert_allclose(last, server.solve(g.mean(axis=0)), atol=1e-9)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6))
def test_projection_is_the_nearest_point(values: list[float]) -> None:
    """Optimality: (x - p)'(y - p) <= 0 for the corners y of the simplex."""
    x = np.array(values)
    p = project_simplex(x)
    assert p.min() >= 0.0
    assert abs(p.sum() - 1.0) <= 1e-14 * len(x) * 10
    assert ((x - p) @ (np.eye(len(x)) - p).T).max() <= 1e-13


def test_compression() -> None:
    """Exact at full rank; of lower rank a projection of the columns, and worse."""
    A = draws(3, 7, 4)
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(low_rank(A, 4, rng), A, atol=1e-13)
    errors = []
    for rank in (1, 2, 3):
        approximation = low_rank(A, rank, rng)
        assert (np.linalg.matrix_rank(approximation, tol=1e-10) == rank).all()
        # the residual is orthogonal to what is kept
        np.testing.assert_allclose(
            np.swapaxes(approximation, -1, -2) @ (A - approximation), 0.0, atol=1e-13
        )
        errors.append(np.linalg.norm(A - approximation, axis=(-2, -1)))
        best = np.sqrt((np.linalg.svd(A)[1][:, rank:] ** 2).sum(axis=-1))
        assert (errors[-1] >= best * (1 - 1e-12)).all()
    assert (errors[0] > errors[2]).all()


def test_compressed_gradients_give_lambda_only() -> None:
    gradients = draws(4, 3, 6, 3)
    exact = follow(FedCMOO(alpha=0.1, K=2), gradients)
    full = follow(FedCMOO(alpha=0.1, K=2, rank=3), gradients)
    np.testing.assert_allclose(full[-1].theta, exact[-1].theta, atol=WEIGHTS)
    low, again, other = (
        follow(FedCMOO(alpha=0.1, K=2, rank=1, seed=seed), gradients) for seed in (0, 0, 1)
    )
    assert np.abs(low[0].weights - exact[0].weights).max() > 1e-2
    np.testing.assert_array_equal(low[-1].weights, again[-1].weights)
    assert np.abs(low[-1].weights - other[-1].weights).max() > 1e-3
    step = 0.1 * np.einsum("cdm,cm->cd", gradients[0], low[0].weights)
    np.testing.assert_allclose(low[0].theta, step, atol=1e-14)


def test_bytes_by_hand() -> None:
    """3 clients, 100 parameters of 4 bytes, M = 2, K = 5."""
    assert FedCMOO(alpha=1.0, K=5).bytes_per_round(3, 100, 2) == (
        3 * 4 * (200 + 100),
        3 * 4 * (2 + 100),
    )
    assert FedCMOO(alpha=1.0, K=5, refresh="step").bytes_per_round(3, 100, 2) == (
        3 * 4 * (5 * 200 + 100),
        3 * 4 * (5 * 2 + 100),
    )
    assert FedCMOO(alpha=1.0, K=5, rank=1).bytes_per_round(3, 100, 2, itemsize=8) == (
        3 * 8 * (102 + 100),
        3 * 8 * (2 + 100),
    )


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"beta": -0.1}, "beta"),
        ({"lambda_rule": "sgd"}, "lambda_rule"),
        ({"lambda_step": 0.0}, "lambda_step"),
        ({"refresh": "never"}, "refresh"),
        ({"rank": 0}, "rank"),
        ({"seed": -1}, "seed"),
        ({"K": 0}, "K"),
    ],
)
def test_refused_options(options: Any, name: str) -> None:
    with pytest.raises(InputError, match=f"`{name}`"):
        FedCMOO(**{"alpha": 0.1, **options})


def test_exact_lambda_is_optimal() -> None:
    gradients = draws(1, 5, 6, 4)
    lambdas = follow(FedCMOO(alpha=0.1, beta=0.2), gradients)[0].weights[0]
    Q = gram(gradients[0].mean(axis=0)) + 0.1 * np.eye(4)
    assert kkt_residual(Q, lambdas) < 1e-14
    assert kkt_residual(Q + 0.1 * np.eye(4), lambdas) > 1e-3
