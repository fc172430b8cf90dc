"""FSLoRA's convergence proof: verdicts, exact rounds in another way, tighter bounds that fail."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from experiments.fslora.claims import convergence
from experiments.fslora.theory import chain as chain
from experiments.fslora.theory.chain_round import Round
from linsys.linalg import precise, precision
from linsys.sketching.exact import global_gradient, sketch_variance
from linsys.sketching.sketch import every_support
from linsys.sketching.systems import LeastSquares

# Exact rounds.


def _sample(seed: int, fresh: bool, H: int = 2, N: int = 2) -> Round:
    rng = np.random.default_rng(seed)
    pair = (1, N, 2)
    return Round(
        h=rng.uniform(-1, 1, pair),
        o=rng.normal(size=pair),
        w=rng.uniform(0.3, 2, pair),
        u=rng.normal(size=(1, N)),
        noise=rng.normal(size=pair),
        rho=rng.uniform(1, 4, (1, N)),
        X=rng.normal(size=(1, 2)),
        L=np.array([1.5]),
        gamma=np.array([0.2]),
        H=np.array([float(H)]),
        fresh=fresh,
    )


def _slope(s: Round, i: int, j: int, x: float) -> float:
    return float(s.L[0] * s.h[0, i, j] * np.clip(x - s.o[0, i, j], -s.w[0, i, j], s.w[0, i, j]))


def _sketched(s: Round, i: int, x: np.ndarray, chosen: int) -> np.ndarray:
    rho = s.rho[0, i]
    first = rho * chosen * _slope(s, i, 0, rho * x[0])
    return np.array([first, _slope(s, i, 1, x[1]) + s.u[0, i] * chosen])


def _mean_gradient(s: Round, i: int, x: np.ndarray) -> np.ndarray:
    p = 1 / s.rho[0, i]
    return p * _sketched(s, i, x, 1) + (1 - p) * _sketched(s, i, x, 0)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rounds_are_those_of_all_outcomes_one_by_one(seed: int, fresh: bool) -> None:
    s = _sample(seed, fresh)
    H, N = int(s.H[0]), s.rho.shape[1]
    start, gamma = s.X[0], s.gamma[0]
    expected = {"T1": 0.0, "T2": 0.0, "after": 0.0, "kept": 0.0}
    drift = np.zeros(N)
    gradient = np.mean([_mean_gradient(s, i, start) for i in range(N)], axis=0)
    sketches = [p for p in itertools.product((0, 1), repeat=H) if fresh or len(set(p)) == 1]
    signs = list(itertools.product((-1, 1), repeat=H))
    for outcome in itertools.product(itertools.product(sketches, signs), repeat=N):
        chance, step, field = 1.0, np.zeros(2), np.zeros(2)
        moved = np.zeros(N)
        for i, (chosen, sign) in enumerate(outcome):
            p = 1 / s.rho[0, i]
            drawn = chosen if fresh else chosen[:1]
            chance *= np.prod([p if one else 1 - p for one in drawn]) / len(signs)
            x = start
            for h in range(H):
                moved[i] += ((x - start) ** 2).sum() / H
                field += _mean_gradient(s, i, x) / N
                deviation = s.noise[0, i] * [s.rho[0, i] * chosen[h], 1] * sign[h]
                g = _sketched(s, i, x, chosen[h]) + deviation
                x = x - gamma * g
                step += g / N
        expected["T1"] += chance * gamma * gradient @ step
        expected["T2"] += chance * step @ step
        expected["kept"] += chance * field @ field
        expected["after"] += chance * s.value((start - gamma * step)[None, None])[0, 0]
        drift += chance * moved
    totals = {"T1": s.T1, "T2": s.T2, "after": s.after, "kept": s.second_moment(s.total("field"))}
    for name, value in expected.items():
        assert totals[name][0] == pytest.approx(value, rel=1e-11, abs=1e-12), name
    assert s.drift[0] == pytest.approx(drift, rel=1e-11)
    assert s.gradient[0] == pytest.approx(gradient, rel=1e-12)


def test_values_have_the_gradients() -> None:
    s = _sample(5, fresh=False)
    for x in np.random.default_rng(1).normal(size=(20, 2)):
        both = x + 1e-6 * np.stack([np.eye(2), -np.eye(2)])
        values = s.value(both.reshape(1, 4, 2))[0]
        mean = np.mean([_mean_gradient(s, i, x) for i in range(2)], axis=0)
        assert (values[:2] - values[2:]) / 2e-6 == pytest.approx(mean, abs=1e-5)
        for i in range(2):
            gaps = [_sketched(s, i, x, chosen) - _mean_gradient(s, i, x) for chosen in (1, 0)]
            p = 1 / s.rho[0, i]
            variance = p * gaps[0] @ gaps[0] + (1 - p) * gaps[1] @ gaps[1]
            assert s.variance(x[None, None, None])[0, i, 0] == pytest.approx(variance)


def test_rounds_of_different_length_are_judged_each_at_its_own() -> None:
    alone = [_sample(seed, fresh=True, H=H) for seed, H in ((1, 1), (2, 3))]
    names = ("h", "o", "w", "u", "noise", "rho", "X", "L", "gamma", "H")
    together = Round(
        **{name: np.concatenate([getattr(s, name) for s in alone]) for name in names}, fresh=True
    )
    for k, s in enumerate(alone):
        for name in ("T1", "T2", "after", "drift", "turning", "sigma_g2"):
            assert getattr(together, name)[k] == pytest.approx(getattr(s, name)[0], rel=1e-12)
        assert together.sigma_s2("visited")[k] == pytest.approx(s.sigma_s2("visited")[0])


def test_twelfth_equation_fails_as_its_note_says() -> None:
    rho, gamma, L, b = 2.0, 0.3, 1.0, 1.5
    pair = np.ones((1, 1, 2))
    s = Round(
        h=pair * [1, 0],
        o=0 * pair,
        w=99 * pair,
        u=0 * pair[..., 0],
        noise=0 * pair,
        rho=rho * pair[..., 0],
        X=np.array([[b, 0.0]]),
        L=np.array([L]),
        gamma=np.array([gamma]),
        H=np.array([2.0]),
    )
    G = rho * L * b
    assert s.T1[0] == pytest.approx(gamma * G**2 * (2 - gamma * L * rho**2))
    measured, bound = convergence.eq12(s)
    asked = gamma * G**2 * (2 - gamma * L * rho - gamma**2 * L**2 * rho**3 / 4)
    assert (s.T1 + measured - bound)[0] == pytest.approx(asked)
    assert measured[0] > bound[0]


@pytest.mark.parametrize("fresh", [False, True])
def test_formulas_keep_the_precision_they_are_given(fresh: bool) -> None:
    s = _sample(3, fresh)
    names = ("h", "o", "w", "u", "noise", "rho", "X", "L", "gamma", "H")
    with precision(40):
        exact = replace(s, **{name: precise(getattr(s, name)) for name in names})
        for function in (
            convergence.eq11,
            convergence.eq12,
            convergence.eq13,
            convergence.eq14_corrected,
        ):
            for value, expected in zip(function(exact), function(s), strict=True):
                assert float(value[0]) == pytest.approx(expected[0], rel=1e-11, abs=1e-13)


# The same on a loss of W0 + B A.


def test_sketches_do_not_average_over_a_round_of_least_squares() -> None:
    """Two devices that want 3 and 1 from b_1 a_1 + b_2 a_2, at a minimum of f^S with k = 1 of 2."""
    system = LeastSquares(np.zeros((1, 1)), inputs=([[1.0]],) * 2, targets=([[3.0]], [[1.0]]))
    X, r, k, gamma = np.ones((2, 2)), 2, 1, 1e-7
    assert np.abs(global_gradient(system, X, [k, k])).max() <= 1e-12
    variance = max(sketch_variance(system, i, X, k) for i in range(2))
    assert variance == pytest.approx(4.0)

    def update(device: int, chosen: np.ndarray, H: int) -> np.ndarray:
        moved = X.copy()
        for _ in range(H):
            moved[chosen] -= gamma * system.gradient(device, moved[chosen], r / k)
        return (X - moved) / gamma

    for H in (2, 3, 4, 8):
        pairs = [
            (update(0, first, H) + update(1, second, H)) / 2
            for first, second in itertools.product(every_support(r, k), repeat=2)
        ]
        second = np.mean([(pair**2).sum() for pair in pairs])
        assert second == pytest.approx(H**2 * variance / 2, rel=1e-4)
        printed = 3 * H * variance / 2
        assert bool(second > printed) is (H > 3)
