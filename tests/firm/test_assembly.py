"""How FIRM's proof is put together: verdicts, exact runs of two steps, tighter bounds that fail."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from experiments.firm.claims import (
    assembly as sums,
    paths as histories,
)
from experiments.firm.theory import assembly, paths
from experiments.firm.theory.chain import Chains
from experiments.firm.theory.client_gradients import (
    Estimate,
    lemma9_corrected,
    moved,
    root_mean_square,
    smoothness,
)
from linsys.linalg import precise, precision
from mgda.instances import sample_momdp
from mgda.momdp import MOMDP

# The disagreement drift.


def _path() -> paths.Paths:
    """Both clients' weights lie at opposite corners when their gradients are opposite."""
    before = [[[0.9], [1.0]], [[1.0], [0.9]]]
    now = [[[1.0], [-1.0]], [[-1.0], [1.0]]]
    return paths.Paths(
        g=np.array([[[before, now]]]),
        p=np.ones((1, 1)),
        start=np.array([[0.5, 0.5]]),
        eta=np.array([[1.0, 0.0]]),
        beta=np.array([0.19]),
        R=np.ones(1),
    )


def test_bounds_on_the_drift_are_not_far_above_an_instance_of_it() -> None:
    # gaps of 2 now meet weights that are as far apart as gradients 0.1 apart can make them
    path = _path()
    drift = path.drift[0, 0]
    apart = path.last[0, 0, 0] - path.last[0, 0, 1]
    assert drift == pytest.approx(np.abs(apart).sum() ** 2 / 4, rel=1e-12)
    measured, bound = histories.eq23_sharper(path)
    assert 0.3 < measured[0] / bound[0] <= 1
    printed = histories.eq23(path)
    assert 0.15 < printed[0][0] / printed[1][0] <= 0.5


def test_a_tighter_bound_by_present_gaps_fails() -> None:
    # weights of (0, 1) and (1, 0) are 1/(1 + beta) apart, a drift of 1/(1 + beta)^2; 8/beta bounds
    path = _path()
    g = path.g.copy()
    g[0, 0, 0] = [[[0.0], [1.0]], [[1.0], [0.0]]]
    measured, bound = histories.eq24_present(replace(path, g=g, beta=np.ones(1)))
    assert measured[0, 0] == pytest.approx(0.25, rel=1e-9)
    assert bound[0, 0] == pytest.approx(8, rel=1e-12)


# Processes.


def _chains(seed: int, objectives: int = 2) -> tuple[Chains, np.random.Generator]:
    rng = np.random.default_rng(seed)
    drawn = sample_momdp(rng, states=2, actions=2, objectives=objectives, gamma=0.6)
    momdp = MOMDP(P=drawn.P, r=drawn.mean_r, gamma=drawn.gamma, mu0=drawn.mu0)
    phi = rng.normal(size=(1, 2, 2))
    return Chains(
        P=momdp.P[None],
        r=momdp.mean_r[None] / momdp.mean_r.max(),
        gamma=np.array([momdp.gamma]),
        theta=rng.normal(size=(1, 2, 2)),
        phi=phi / np.linalg.norm(phi, axis=-1, keepdims=True),
        start=momdp.start[None],
        scale=np.array([0.8]),
    ), rng


def _second_step(seed: int, clients: int = 2) -> assembly.SecondStep:
    chains, rng = _chains(seed)
    radius = np.array([0.7])
    w = rng.normal(size=(1, clients, 2, 2))
    w *= 0.7 * rng.uniform() / np.linalg.norm(w, axis=-1, keepdims=True)
    return assembly.SecondStep(
        base=chains,
        past=rng.dirichlet(np.ones(8), size=(1, clients)),
        w=w,
        start=np.array([[0.3, 0.7]]),
        eta=np.array([[0.8, 0.4]]),
        beta=np.array([0.3]),
        a=0.9 / smoothness(chains, np.ones(1)),
        r_max=np.ones(1),
        radius=radius,
    )


def test_restarted_gradients_with_exact_critics_have_the_policy_gradient_as_their_mean() -> None:
    chains, _ = _chains(3)
    at = Estimate(chains, chains.w_star, np.ones(1), np.ones(1))
    factor = (1 - chains.gamma) / chains.gamma
    np.testing.assert_allclose(at.mean, factor * chains.jac, rtol=1e-10)
    np.testing.assert_allclose(at.mean, at.gradient, rtol=1e-10)
    stationary = replace(at, restarted=False)
    assert np.abs(stationary.mean - at.mean).max() > 0.1 * np.abs(at.mean).max()


def test_parameters_are_logits_over_the_length_of_features() -> None:
    chains, _ = _chains(4)
    step = 1e-6 * np.arange(1, 5)[None]
    change = moved(chains, step).J - chains.J
    np.testing.assert_allclose(change, (chains.jac @ step[0])[:], rtol=1e-5)


def test_smoothness_bounds_the_change_of_gradients() -> None:
    chains, rng = _chains(5)
    L = smoothness(chains, np.ones(1))
    here = Estimate(chains, chains.w_star, np.ones(1), np.ones(1)).gradient
    for _ in range(20):
        step = rng.normal(size=(1, 4))
        there = moved(chains, step)
        change = np.linalg.norm(there.direction(there.V, there.occupancy) - here, axis=-1)
        assert (change <= L * np.linalg.norm(step)).all()


def _outcomes(at: Estimate) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (X,) and gradients (X, M, d) of one transition."""
    return at.law[0].reshape(-1), at.samples[0].reshape(8, *at.samples.shape[-2:])


@pytest.mark.parametrize("seed", range(3))
def test_second_moments_are_those_of_all_pairs_of_transitions(seed: int) -> None:
    step = _second_step(seed)
    (p, g), (q, h) = map(_outcomes, step.now)
    square = ((g[:, None] - h[None]) ** 2).sum(axis=-1)
    expected = np.sqrt((p[:, None, None] * q[:, None] * square).sum(axis=(0, 1)))
    np.testing.assert_allclose(root_mean_square(step.now, np.ones(1))[0], expected, rtol=1e-12)
    with_batch, bound = lemma9_corrected(
        step.now, np.array([9.0]), smoothness(step.base, step.r_max), step.a
    )
    assert (with_batch < bound).all()


@pytest.mark.parametrize("clients", [1, 2, 3])
def test_gradient_error_of_clients_is_that_of_all_outcomes(clients: int) -> None:
    """Policies and critics differ; (17) corrected lies above."""
    step, lam = _second_step(8, clients), np.array([[0.2, 0.8]])
    rows = [(*_outcomes(at), at.gradient[0]) for at in step.now]
    assert clients == 1 or np.abs(rows[0][1] - rows[1][1]).max() > 0.1
    expected = 0.0
    for chosen in itertools.product(range(8), repeat=clients):
        probability = np.prod([rows[c][0][x] for c, x in enumerate(chosen)])
        errors = [lam[0] @ (rows[c][1][x] - rows[c][2]) for c, x in enumerate(chosen)]
        expected += probability * float((np.mean(errors, axis=0) ** 2).sum())
    measured, bound = sums.eq17_corrected(step, lam, np.ones(1))
    assert measured[0] == pytest.approx(expected, rel=1e-10)
    assert measured[0] < bound[0]
    noise = step.now[0].limit[0] ** 2 / clients
    bias = np.mean([at.bias[0].max() for at in step.now])
    assert bound[0] == pytest.approx(bias**2 + noise, rel=1e-12)
    # batches of any size leave the bias, which the noise alone does not bound
    assert sums.eq17_corrected(step, lam, np.full(1, 1e12))[0][0] > noise / 1e12


@pytest.mark.parametrize("clients", [1, 2, 3])
def test_expected_error_is_that_of_all_outcomes(clients: int) -> None:
    step = _second_step(7, clients)
    target = step.centre.direction(step.centre.V, step.centre.occupancy)[0]
    eta = step.eta[0, 1]
    rows = []
    for c, at in enumerate(step.now):
        p, g = _outcomes(at)
        stars = paths.weights(np.swapaxes(g, 1, 2), np.full(8, step.beta[0]))
        rows.append((p, g, (1 - eta) * step.lam[0, c] + eta * stars))
    expected = 0.0
    for chosen in itertools.product(range(8), repeat=clients):
        probability = np.prod([rows[c][0][x] for c, x in enumerate(chosen)])
        lam = np.mean([rows[c][2][x] for c, x in enumerate(chosen)], axis=0)
        direction = np.mean([rows[c][2][x] @ rows[c][1][x] for c, x in enumerate(chosen)], axis=0)
        expected += probability * float(((direction - lam @ target) ** 2).sum())
    assert step.error[0] == pytest.approx(expected, rel=1e-10)
    assert sums.eq33_corrected(step)[1][0] > expected


def test_expected_error_beyond_float64() -> None:
    plain = _second_step(2)
    with precision(30):
        arrays = {
            name: precise(getattr(plain.base, name))
            for name in ("P", "r", "gamma", "theta", "phi", "start", "scale")
        }
        names = ("past", "w", "start", "eta", "beta", "a", "r_max", "radius")
        fine = assembly.SecondStep(
            base=Chains(**arrays), **{name: precise(getattr(plain, name)) for name in names}
        )
        error = float(fine.error[0])
    assert error == pytest.approx(plain.error[0], rel=1e-9)


def test_corrected_terms_add_up() -> None:
    one = np.ones(1)
    terms = {"R": 2 * one, "M": 3, "clients": 4, "size": 5 * one, "beta": 1e-9 * one}
    square = 0.75**2 * 3 * (4 / 5 + 2 * (0.1 + 0.2) ** 2)
    total = 4 * (3 * 4 / 20 + 0.01 + square + 0.04)
    bound = assembly.corrected(bias=0.1 * one, reach=0.2 * one, **terms)
    assert bound[0] == pytest.approx(total, rel=1e-14)
    terms["beta"] = 1e6 * one
    linear = 0.75 * 4 * 8 * 3 / 1e6 * (2 * np.sqrt(6 / 5) + 0.2 + 0.4)
    bound = assembly.corrected(bias=0.1 * one, reach=0.2 * one, **terms)
    assert bound[0] == pytest.approx(4 * (0.6 + 0.01 + linear + 0.04), rel=1e-14)


# The corrected theorem on exact runs: two steps, two clients, one transition each.


def _many(chains: Chains, steps: np.ndarray) -> Chains:
    """One process under many policies, theta + scale step."""
    count = len(steps)
    names = ("P", "r", "gamma", "theta", "phi", "start", "scale")
    arrays = {name: np.repeat(getattr(chains, name), count, axis=0) for name in names}
    return moved(Chains(**arrays), steps)


def _objectives(chains: Chains) -> tuple[np.ndarray, np.ndarray]:
    """H (B, M) and grad H (B, M, d)."""
    factor = (1 - chains.gamma) / chains.gamma
    return factor[:, None] * chains.J, factor[:, None, None] * chains.jac


def _client(
    chains: Chains, w: np.ndarray, radius: float, before: np.ndarray, eta: float, beta: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All outcomes (B, 8): probabilities, lambda, g lambda, and b (B,), of many policies."""
    count = len(chains.gamma)
    at = Estimate(chains, np.repeat(w[None], count, 0), np.ones(count), np.full(count, radius))
    g = at.samples.reshape(count, 8, 2, 4)
    A = np.swapaxes(g, -1, -2).reshape(-1, 4, 2)
    stars = paths.weights(A, np.full(len(A), beta)).reshape(count, 8, 2)
    lam = (1 - eta) * before[:, None] + eta * stars
    return at.law.reshape(count, 8), lam, (lam[..., None] * g).sum(2), at.bias.max(axis=-1)


@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_corrected_theorem_on_an_exact_run(seed: int, K: int) -> None:
    chains, rng = _chains(20 + seed)
    radius, beta, eta = 0.3, 0.2, (1.0, 0.5)
    w = rng.normal(size=(2, 2, 2))
    w *= radius / np.linalg.norm(w, axis=-1, keepdims=True)
    L = float(smoothness(chains, np.ones(1))[0])
    a = 0.5 / L
    start = np.full((1, 2), 0.5)

    # t = 1: outcomes x of client 1 and y of client 2, all arrays (8, 8, ...)
    p1, lam1, v1, b1 = _client(chains, w[0], radius, start, eta[0], beta)
    p2, lam2, v2, b2 = _client(chains, w[1], radius, start, eta[0], beta)
    first = p1[0][:, None] * p2[0]
    lam = (lam1[0][:, None] + lam2[0]) / 2
    g = (v1[0][:, None] + v2[0]) / 2
    values, gradients = _objectives(chains)
    after, slopes = _objectives(_many(chains, a * g.reshape(64, 4)))
    after, slopes = after.reshape(8, 8, 2), slopes.reshape(8, 8, 2, 4)
    target = lam @ gradients[0]
    left = (first * (target**2).sum(-1)).sum()
    error = (first * ((g - target) ** 2).sum(-1)).sum()
    gain = (first * (lam * (after - values[0])).sum(-1)).sum()
    length = (first * (g**2).sum(-1)).sum()

    # t = 2: from each client's own policy, or from the average
    own = [a * v1[0][:, None] + 0 * g, a * v2[0][None] + 0 * g] if K == 2 else [a * g, a * g]
    before = [lam1[0][:, None] + 0 * lam, lam2[0][None] + 0 * lam]
    bias = [b1, b2]
    sides = []
    for c in range(2):
        many = _many(chains, own[c].reshape(64, 4))
        p, weight, v, b = _client(many, w[c], radius, before[c].reshape(64, 2), eta[1], beta)
        sides.append((p, weight, v))
        bias.append(b)
    (p1, lam1, v1), (p2, lam2, v2) = sides
    chance = first.reshape(64, 1, 1) * p1[:, :, None] * p2[:, None]
    lam = (lam1[:, :, None] + lam2[:, None]) / 2
    g = (v1[:, :, None] + v2[:, None]) / 2
    target = np.einsum("nxyj,njd->nxyd", lam, slopes.reshape(64, 2, 4))
    middle = (own[0] + own[1]).reshape(64, 1, 1, 4) / 2
    end, _ = _objectives(_many(chains, (middle + a * g).reshape(-1, 4)))
    end = end.reshape(64, 8, 8, 2)
    assert chance.sum() == pytest.approx(1, rel=1e-12)
    left = (left + (chance * (target**2).sum(-1)).sum()) / 2
    error = (error + (chance * ((g - target) ** 2).sum(-1)).sum()) / 2
    gain += (chance * (lam * (end - after.reshape(64, 1, 1, 2))).sum(-1)).sum()
    length = (length + (chance * (g**2).sum(-1)).sum()) / 2

    # (31) for T = 2; what it leaves out is the mean of (1 +- a L_H) ||gbar||^2
    slack = gain / a + error - left
    assert 0.5 * length <= slack <= 1.5 * length
    assert gain <= 1 + eta[1]  # Lemma 10 for H in [0, 1]
    R = chains.C_psi * (1 + (1 + chains.gamma) * radius)
    Q = assembly.corrected(
        R=R,
        M=2,
        clients=2,
        size=np.ones(1),
        bias=np.array([np.concatenate(bias).max()]),
        reach=L * R * a * (K - 1),
        beta=np.array([beta]),
    )
    assert error <= Q[0]
    assert left <= (1 + eta[1]) / a + Q[0]
