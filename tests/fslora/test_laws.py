"""The family on which FSLoRA's rates are measured: against the algorithm, and its laws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from experiments.fslora.rates import rate_t
from experiments.fslora.rates._rates_floors import Floor
from experiments.fslora.rates._rates_one_step import BATCHES, SKETCHES, OneStepConfig, closed_form
from experiments.fslora.rates._rates_systems import Squares, local_steps, rounds
from linsys import InputError
from linsys.sketching import FSLoRA, LeastSquares, Modules
from linsys.sketching.exact import global_gradient, global_loss
from linsys.sketching.sketch import dense, support
from linsys.validate import Array

FAMILY = Squares(r=3, n=2, ranks=(2, 1, 2), targets=(1.0, 1.2, 0.7), noise=0.3)


@dataclass(frozen=True)
class Batches:
    """The family as FSLoRA sees it: targets y I of every device and step, (H, N)."""

    n: int
    y: Array

    @property
    def modules(self) -> Modules:
        return Modules([(self.n, self.n)])

    @property
    def devices(self) -> int:
        return int(self.y.shape[1])

    def grad(self, device: int, X: Any, scale: float, round_: int, step: int) -> Any:
        return squares(self.n, [self.y[step, device]]).gradient(0, X, scale)


def squares(n: int, targets: Any) -> LeastSquares:
    """f_i = |B A - d_i I|_F^2 / 2 as a mean over the n inputs sqrt(n) e_j."""
    x = np.sqrt(n) * np.eye(n)
    return LeastSquares(
        np.zeros((n, n)), inputs=(x,) * len(targets), targets=tuple(d * x for d in targets)
    )


def modules_of(A: Array) -> Array:
    return np.asarray(Modules([(A.shape[1], A.shape[1])]).join([(A.T, A)]))


@pytest.mark.parametrize("fresh", [False, True])
def test_a_round_is_that_of_fslora(fresh: bool) -> None:
    H, N, gamma = 3, 6, 0.1
    rng = np.random.default_rng(3)
    A = rng.normal(size=(3, 2))
    _, y = FAMILY.draw(rng, N, 1, H, fresh=fresh)
    ranks = [FAMILY.ranks[i % 3] for i in range(N)]
    algorithm = FSLoRA(gamma=gamma, H=H, ranks=ranks, fresh=fresh, seed=5)
    oracle = Batches(2, y[..., 0])
    state, _ = algorithm.round(algorithm.init(modules_of(A), oracle), oracle)
    s = np.array(
        [
            [np.diagonal(dense(support(5, 0, i, 3, k, h), 3)) for i, k in enumerate(ranks)]
            for h in range(H if fresh else 1)
        ]
    )
    products = local_steps(A[:, :, None], s.swapaxes(1, 2), y[..., 0], gamma).mean(axis=2)
    np.testing.assert_allclose(modules_of(products), state.X, rtol=1e-12, atol=1e-14)


def test_the_family_is_that_of_the_exact_forms() -> None:
    rng = np.random.default_rng(0)
    A, other = rng.normal(size=(2, 3, 2))
    system = squares(2, FAMILY.targets)
    X = modules_of(A)
    exact = global_gradient(system, X, FAMILY.ranks)
    np.testing.assert_allclose(exact[:, 2:], FAMILY.gradient(A), rtol=1e-12)
    np.testing.assert_allclose((exact**2).sum(), FAMILY.squared_norm(A), rtol=1e-12)
    difference = global_loss(system, X, FAMILY.ranks) - global_loss(
        system, modules_of(other), FAMILY.ranks
    )
    np.testing.assert_allclose(difference, FAMILY.loss(A) - FAMILY.loss(other), rtol=1e-12)
    e = 1e-6
    slope = (FAMILY.gradient(A + e * other) - FAMILY.gradient(A - e * other)) / (2.0 * e)
    np.testing.assert_allclose(FAMILY.derivative(A, other), slope, rtol=1e-7, atol=1e-8)
    assert abs(FAMILY.gradient(FAMILY.minimiser())).max() < 1e-12


def test_sketches_and_batches_are_drawn_evenly() -> None:
    s, y = FAMILY.draw(np.random.default_rng(1), 6, 4000, 2, fresh=True)
    assert (s.shape, y.shape) == ((2, 3, 6, 4000), (2, 6, 4000))
    count = 2 * 4000
    for i, (k, d) in enumerate(zip(FAMILY.ranks * 2, FAMILY.targets * 2, strict=True)):
        error = np.sqrt((3.0 / k - 1.0) / count)
        assert (abs(s[:, :, i].mean(axis=(0, 2)) - 1.0) < 5.0 * error).all()
        assert abs(y[:, i].mean() - d) < 5.0 * FAMILY.noise / np.sqrt(count)
        assert set(np.unique(s[:, :, i])) == {0.0, 3.0 / k}


def test_traces_of_the_noise_are_those_of_the_matrices() -> None:
    floor = Floor(system=FAMILY, gamma=0.01, H=2, devices=3, fresh=True)
    P, sketch, batch = floor._matrices
    A = FAMILY.minimiser()
    np.testing.assert_allclose(
        [float(t[0]) for t in FAMILY.steepness(A[..., None])],
        [np.trace(P @ sketch), np.trace(P @ batch)],
        rtol=1e-12,
    )
    # one component of a module (n = 1) in closed form
    r, k, d, R, sigma = 5, 2, 1.3, 0.4, 0.2
    one = Squares(r=r, n=1, ranks=(k, k), targets=(d - R, d + R), noise=sigma)
    traces = [float(t[0]) for t in one.steepness(one.minimiser()[..., None])]
    spread = (r / k - 1.0) ** 2 / (r - 1.0)
    expected = [2 * d**2 * spread * R**2, 2 * d**2 * (1.0 + spread) * sigma**2]
    np.testing.assert_allclose(traces, expected, rtol=1e-12)


def test_the_closed_forms_of_one_component_are_the_laws() -> None:
    config = OneStepConfig()
    for source in (SKETCHES, BATCHES):
        for r, k in ((8, 6), (8, 3), (8, 1), (4, 2), (6, 3)):
            law = config.floor(source, r, k).total
            np.testing.assert_allclose(closed_form(config, source, r, k), law)


def test_the_mean_without_noise_is_that_of_the_run() -> None:
    """The energy balance is exact to second order in the step: its error falls like the square."""
    A = 0.5 * FAMILY.minimiser()[..., None] + 0.02
    quiet = Squares(r=3, n=2, ranks=(3,))
    off = []
    for gamma, T in ((0.02, 200), (0.01, 400), (0.005, 800)):
        floor = Floor(system=quiet, gamma=gamma, H=3, devices=1, fresh=True)
        rng = np.random.default_rng(0)
        run = rounds(quiet, A, T, gamma=gamma, H=3, devices=1, fresh=True, rng=rng)
        off.append(rate_t.expected([floor], A, np.array([T]))[0] / run.mean() - 1.0)
    ratios = np.array(off[:-1]) / np.array(off[1:])
    assert (abs(ratios - 4.0) < 0.5).all()


@pytest.mark.parametrize("fresh", [False, True])
def test_laws_are_the_limits_of_small_steps(fresh: bool) -> None:
    """Deviations of the exact bias and of the refined floor shrink with the step."""
    system = Squares(r=3, n=2, ranks=(2, 1), targets=(1.0, 1.3))
    off = []
    for gamma in (0.004, 0.002, 0.001):
        floor = Floor(system=system, gamma=gamma, H=4, devices=10, fresh=fresh)
        off.append([abs(floor.exact_bias / floor.bias - 1.0), abs(floor.refined / floor.total - 1)])
    ratios = np.array(off[:-1]) / np.array(off[1:])
    assert (abs(ratios - 2.0) < 0.2).all()


def test_runs_start_where_they_are_told_and_bad_input_is_named() -> None:
    A = np.repeat(FAMILY.minimiser()[..., None], 2, axis=2)
    rng = np.random.default_rng(0)
    steps = rounds(FAMILY, 2.0 * A, 3, gamma=0.01, H=1, devices=3, fresh=False, rng=rng)
    np.testing.assert_allclose(steps[0], FAMILY.squared_norm(2.0 * A))
    with pytest.raises(InputError, match="`n` must be 1 or r - 1"):
        Squares(r=4, n=2, ranks=(1,))
    with pytest.raises(InputError, match="`ranks` and `targets`"):
        Squares(r=4, n=1, ranks=(1,), targets=(1.0, 2.0))
    floor = Floor(system=FAMILY, gamma=0.01, H=2, devices=3, fresh=False)
    with pytest.raises(InputError, match="`noise` must be 0"):
        _ = floor.refined
    long = Floor(system=FAMILY, gamma=0.01, H=12, devices=3, fresh=True)
    with pytest.raises(InputError, match="sequences of sketches"):
        _ = long.exact_bias
