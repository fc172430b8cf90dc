"""FSLoRA's theorem and corollary: exact runs by another road, and the numbers that notes state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.fslora.claims import rates, theorem
from experiments.fslora.theory import chain_rates as at
from experiments.fslora.theory.chain_rates import Opposed, Run
from experiments.fslora.theory.chain_round import Round
from linsys.linalg import precise, precision


@pytest.mark.parametrize("fresh", [False, True])
def test_runs_are_those_of_repeated_rounds(fresh: bool) -> None:
    """Mean and variance of the entry a after each round, by the rounds' own enumeration."""
    L, gamma, H, N, T, rho, u, n = 1.0, 0.1, 3, 2, 4, 2.5, 0.7, 0.4
    far = 1e9
    mean, spread, found = 0.8, 0.0, 0.0
    for _ in range(T):
        found += L**2 * (mean**2 + spread) / T
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
    assert run.measured[0] == pytest.approx(found, rel=1e-10)


# The coupling with a saturated entry of B is one of functions that are smooth on the whole space.


def _coupling(b: Any, a: Any, u: float, R: float, W: float) -> Any:
    """u kappa(a) psi(b): kappa(a) = a up to R, constant from 2 R on; psi from 0 at 0 to 1 at W."""
    size = np.minimum(np.abs(a), 2 * R)
    kappa = np.sign(a) * np.where(size <= R, size, 1.5 * R - (2 * R - size) ** 2 / (2 * R))
    t = np.clip(b / W, 0, 1)
    return u * kappa * np.where(t <= 0.5, 2 * t**2, 1 - 2 * (1 - t) ** 2)


def test_the_coupling_costs_next_to_nothing_of_the_constants() -> None:
    u, R, rho = 1.0, 100.0, 4 / 3
    W = 1000 * R
    a, b = np.meshgrid(np.linspace(-3 * R, 3 * R, 301), np.linspace(-W / 4, 1.5 * W, 302))
    da, db = 1e-2 * R, 1e-2 * W

    def f(b: Any, a: Any) -> Any:
        return _coupling(b, a, u, R, W)

    def slopes(b: Any, a: Any) -> tuple[Any, Any]:
        by_b = (f(b + db, a) - f(b - db, a)) / (2 * db)
        return by_b, (f(b, a + da) - f(b, a - da)) / (2 * da)

    by_bb = (slopes(b + db, a)[0] - slopes(b - db, a)[0]) / (2 * db)
    by_ba = (slopes(b + db, a)[1] - slopes(b - db, a)[1]) / (2 * db)
    by_aa = (slopes(b, a + da)[1] - slopes(b, a - da)[1]) / (2 * da)
    curvature = np.sqrt(by_bb**2 + 2 * by_ba**2 + by_aa**2)
    assert curvature.max() <= 1.1 * u / R  # next to L = 1
    on, off = slopes(rho * b, a), slopes(0 * b, a)
    p = 1 / rho
    variance = p * (1 - p) * ((rho * on[0]) ** 2 + (on[1] - off[1]) ** 2)
    assert variance.max() <= 1.001 * u**2 * (rho - 1) / rho**2
    away = np.linspace(W / rho, 2 * W, 5)
    assert f(rho * away, 7.0) == pytest.approx(7 * u * np.ones(5), abs=0)


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
    s, x, found = _opposed(H=5, e=0.1, T=4), 2.0, 0.0
    for _ in range(4):
        found += (0.1 * x) ** 2 / 4
        first = second = x
        for _ in range(5):
            first -= s.gamma[0] * first
            second += s.gamma[0] * (1 - 2 * 0.1) * second
        x = (first + second) / 2
    assert s.sides()[0][0] == pytest.approx(found)
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
