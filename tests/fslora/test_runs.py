"""FSLoRA's theorem and corollary: exact runs in another way, and the numbers in notes."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from experiments.fslora.claims import rates, theorem, theorem_lora
from experiments.fslora.theory import chain_rates as at
from experiments.fslora.theory.chain_rates import Opposed, Run
from experiments.fslora.theory.chain_round import Round
from experiments.fslora.theory.lora_run import LoraRun
from linsys.linalg import precise, precision


@pytest.mark.parametrize("fresh", [False, True])
def test_runs_are_those_of_repeated_rounds(fresh: bool) -> None:
    """Mean and variance of the entry a after each round, by the rounds' own enumeration."""
    L, gamma, H, N, T, rho, u, n = 1.0, 0.1, 3, 2, 4, 2.5, 0.7, 0.4
    far = 1e9
    mean, spread, squares = 0.8, 0.0, 0.0
    for _ in range(T):
        squares += L**2 * (mean**2 + spread) / T
        pair = np.ones((1, N, 1))
        step = Round(
            h=pair * [0, 1],
            o=pair * [0, 0],
            w=pair * [1, far],
            u=u * pair[..., 0],
            noise=pair * [0, n],
            rho=rho * pair[..., 0],
            X=np.array([[0.0, mean - u / rho / L]]),
            L=np.array([L]),
            gamma=np.array([gamma]),
            H=np.array([float(H)]),
            fresh=fresh,
        )
        total = step.total("g")
        moved = gamma * step.average(total)[0, 1]
        mean -= moved
        spread = (1 - gamma * L) ** (2 * H) * spread
        spread += gamma**2 * step.second_moment(total)[0] - moved**2
    lines = {"start": 0.8, "u": u, "n": n, "rho": rho, "N": N, "L": L}
    sizes = {"gamma": gamma, "H": H, "T": T}
    run = Run(**{k: np.array([float(v)]) for k, v in (lines | sizes).items()}, fresh=fresh)
    assert run.measured[0] == pytest.approx(squares, rel=1e-10)


# Numbers that the notes state.


def _held(H: int, rho: float, fresh: bool = False, T: float = 1e6) -> Run:
    lines = {"start": 0.0, "u": 1.0, "n": 0.0, "rho": rho, "N": 1.0, "L": 1.0}
    sizes = {"gamma": 1e-3 / H**2, "H": H, "T": T * H}
    return Run(**{k: np.array([float(v)]) for k, v in (lines | sizes).items()}, fresh=fresh)


@pytest.mark.parametrize(("rho", "first"), [(4 / 3, 59), (2.0, 121)])
def test_theorem_4_4_fails_from_the_stated_number_of_local_steps_on(rho: float, first: int) -> None:
    for H, fails in ((first - 1, False), (first, True)):
        measured, bound = theorem.thm4_4(_held(H, rho))
        assert bool(measured[0] > bound[0]) is fails
        measured, bound = theorem.thm4_4(_held(H, rho, fresh=True))
        assert measured[0] < bound[0]


def _opposed(H: int, e: float, T: float) -> Opposed:
    lines = {"start": 2.0, "e": e, "L": 1.0, "H": H, "T": T}
    one = {name: np.array([float(value)]) for name, value in lines.items()}
    gamma = at.printed_step(
        np.ones((1, 1)), 2 * one["L"], one["H"], one["L"], (1 / one["e"] - 1) ** 2
    )
    return Opposed(gamma=gamma, **one)


def test_opposed_devices_one_step_after_the_other() -> None:
    s, x, total = _opposed(H=5, e=0.1, T=4), 2.0, 0.0
    for _ in range(4):
        total += (0.1 * x) ** 2 / 4
        first = second = x
        for _ in range(5):
            first -= s.gamma[0] * first
            second += s.gamma[0] * (1 - 2 * 0.1) * second
        x = (first + second) / 2
    assert s.sides()[0][0] == pytest.approx(total)
    assert s.sides()[1][0] == pytest.approx(4 * 0.05 * 4 / (s.gamma[0] * 4 * 5))


@pytest.mark.parametrize(("H", "fails"), [(82, False), (83, True)])
def test_printed_learning_rate_leaves_a_bound_that_is_too_small(H: int, fails: bool) -> None:
    measured, bound = _opposed(H, e=1e-5, T=1e13).sides()
    assert bool(measured[0] > bound[0]) is fails


@pytest.mark.parametrize(("H", "fails"), [(145, False), (146, True)])
def test_printed_learning_rate_lets_runs_grow(H: int, fails: bool) -> None:
    with precision(40):
        s = _opposed(H, e=1e-6, T=1e4)
        names = ("start", "e", "L", "gamma", "H", "T")
        s = replace(s, **{name: precise(getattr(s, name)) for name in names})
        assert bool(s.sides()[0][0] > (s.e * s.L * s.start)[0] ** 2) is fails


def test_printed_learning_rate_and_those_needed() -> None:
    def limits(rho: float, N: int, H: int) -> tuple[np.ndarray, np.ndarray]:
        one = np.ones(1)
        printed, needed = at.lr(rho * np.ones((1, 1)), N * one, H * one, one, 0 * one)
        return printed[0, 0], needed[0]

    assert limits(1.0, 1, 2)[0] == pytest.approx(0.1179, abs=1e-4)
    assert limits(1.0, 1, 2)[1][2] == pytest.approx(0.0833, abs=1e-4)
    assert limits(1.0, 1, 3)[0] == pytest.approx(0.0962, abs=1e-4)
    assert limits(1.0, 1, 3)[1][1] == pytest.approx(0.0786, abs=1e-4)
    assert limits(8.0, 1, 1)[0] == pytest.approx(0.0589, abs=1e-4)
    assert limits(8.0, 1, 1)[1][0] == pytest.approx(0.0417, abs=1e-4)
    rho = 1 / np.array([rates.RATIOS])
    for H, c_h in zip(rates.LOCAL, (1294.0, 206.0), strict=True):
        assert at.enough(rho, np.array([c_h])) < rates.DEVICES * H
        assert at.enough(rho, np.array([c_h + 1])) > rates.DEVICES * H


def test_rounds_that_the_corollary_needs() -> None:
    rho, one = 1 / np.array([rates.RATIOS]), np.ones(1)
    N = rates.DEVICES
    for H, T, error in zip(rates.LOCAL, (4.7e7, 3.0e6), (2.1e-5, 1.3e-4), strict=True):
        needed = at.corollary_rounds(rho, N * one, H * one, one, 0 * one)
        assert needed[0] == pytest.approx(T, rel=0.02)
        assert needed[0] == pytest.approx(N**3 * H**3 / (rho**2).mean())
        assert np.sqrt((rho**2).mean() / (needed[0] * N * H)) == pytest.approx(error, rel=0.05)
        gamma = np.sqrt(N / (needed * H * (rho**2).mean()))
        assert gamma == pytest.approx(at.printed_step(rho, N * one, H * one, one, 0 * one))


def test_rounds_that_the_corrected_corollaries_need() -> None:
    """N = gamma^2 T H Ltil, and N = gamma^2 T H^2 Lbar, at the largest step sizes."""
    rho, one = 1 / np.array([rates.RATIOS]), np.ones(1)
    for H, T in zip(rates.LOCAL, (2.7e4, 1.1e4), strict=True):
        for c_h, same in ((0.0, True), (0.67, True), (0.69, False)):
            largest = at.fresh_step(rho, H * one, one, c_h * one)
            assert bool(np.isclose(largest, 1 / (24 * H))[0]) is same
        fresh = 24**2 * H**2 * rates.DEVICES / (H * (rho**2).mean())
        assert fresh == pytest.approx(T, rel=0.03)
        for c_h in (0.0, 3.0):
            largest = at.fixed_step(rho, H * one, one, c_h * one)
            held = rates.DEVICES / (largest**2 * H**2 * rho.mean())
            assert held == pytest.approx(3.4e5 * (c_h + 1), rel=0.01)


# A loss of W0 + BA: its exact runs against local steps (4) on whole matrices.


def _sketched_slope(s: LoraRun, W: Any) -> Any:
    """The gradient of the loss at W, with psi = 1 from half of rho X^2 on."""
    y = s.c[0] * (1 + s.e[0] * (W[1, 1] > s.rho[0] * _FAR**2 / 2))
    z = np.sqrt(W[0, 0] / s.rho[0]) if W[0, 0] > 0 else s.c[0]
    return np.array([[s.m[0] / s.rho[0] * (1 - y / z), 0.0], [0.0, 0.0]])


_FAR = 1e3


@pytest.mark.parametrize("devices", [1, 2])
def test_lora_runs_are_those_of_local_steps_on_matrices(devices: int) -> None:
    r, k, rounds = 4, 3, 4 - devices
    lines = {"r": r, "k": k, "m": 0.8, "c": 1.5, "e": 0.05, "start": 0.3, "gamma": 0.2, "H": 3}
    sizes = {"T": rounds, "N": devices}
    s = LoraRun(**{n: np.array([float(v)]) for n, v in (lines | sizes).items()})
    x = s.c[0] * (1 + s.e[0] * s.start[0])
    B, A = np.zeros((2, r)), np.zeros((r, 2))
    B[0, 0] = A[0, 0] = x
    B[1, 1] = A[1, 1] = _FAR
    sketches = [np.diag(np.isin(range(r), kept)) * r / k for kept in combinations(range(r), k)]
    points, total = [(1.0, B, A)], 0.0
    for _ in range(rounds):
        reached = []
        for chance, B, A in points:
            moves = []
            for S in sketches:
                G = _sketched_slope(s, B @ S @ A)
                moves.append(np.concatenate([(G @ A.T @ S).ravel(), (S @ B.T @ G).ravel()]))
            mean = np.mean(moves, axis=0)
            total += chance * (mean @ mean) / rounds
            variance = np.mean([(move - mean) @ (move - mean) for move in moves])
            assert variance <= s.sigma_s2[0]
            after = []
            for S in sketches:
                b, a = B, A
                for _ in range(int(s.H[0])):
                    G = _sketched_slope(s, b @ S @ a)
                    b, a = b - s.gamma[0] * G @ a.T @ S, a - s.gamma[0] * S @ b.T @ G
                after.append((b, a))
            for ends in product(after, repeat=devices):
                b, a = (np.mean(part, axis=0) for part in zip(*ends, strict=True))
                reached.append((chance / len(sketches) ** devices, b, a))
        points = reached
    assert s.measured[0] == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize(("r", "k", "H", "fails"), [(5, 4, 104, False), (5, 4, 106, True)])
def test_theorem_4_4_fails_for_a_loss_of_BA_from_a_hundred_steps_on(
    r: int, k: int, H: int, fails: bool
) -> None:
    start = (k - 1) / (r - 1)
    lines = {
        "r": r,
        "k": k,
        "m": 1,
        "c": 1,
        "e": 0.05,
        "start": start,
        "gamma": 1e-3 / H**2,
        "H": H,
    }
    s = LoraRun(**{n: np.array([float(v)]) for n, v in (lines | {"T": 1e9}).items()})
    measured, bound = theorem_lora.thm4_4_lora(s)
    assert bool(measured[0] > bound[0]) is fails
