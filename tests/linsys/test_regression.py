"""Data-backed regression: finite sums, unbiased minibatches, what the objective features do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from linsys import InputError
from linsys.algorithms import AffPCL, FedAvg, Independent, Sampling, Start, Steps, StepSizes
from linsys.rounds import rounds
from linsys.systems.regression import RegressionObservation, RegressionSystem, SquaredLoss

CLASSES = 3


@dataclass(frozen=True)
class Data:
    """Lists as RegressionSystem takes them; targets are psi'theta^i with psi the classes."""

    features: list[np.ndarray]
    targets: list[np.ndarray]
    objective: list[np.ndarray]

    def system(self, **options: Any) -> RegressionSystem:
        return RegressionSystem(self.features, self.targets, self.objective, **options)


def draw(seed: int, counts: tuple[int, ...] = (9, 12, 7), d: int = 4, spread: float = 1.0) -> Data:
    """Features that depend on the class: the classes' targets can be learnt in part."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((CLASSES, d))
    common = rng.standard_normal(CLASSES)
    features, targets, objective = [], [], []
    for count in counts:
        labels = np.concatenate([np.arange(CLASSES), rng.integers(0, CLASSES, count - CLASSES)])
        features.append(centres[labels] + 0.5 * rng.standard_normal((count, d)))
        targets.append((common + spread * rng.standard_normal(CLASSES))[labels])
        objective.append(np.eye(CLASSES)[labels])
    return Data(features, targets, objective)


def same_for_all(seed: int, n: int = 4) -> RegressionSystem:
    """One environment and one objective, n times."""
    one = draw(seed, (10,))
    return RegressionSystem(one.features * n, one.targets * n, one.objective * n)


def run(
    algorithm: Any, system: RegressionSystem, *, count: int, theta0: Any = None, seed: int = 0
) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    start = np.zeros(system.p) if theta0 is None else theta0
    agents = Sampling(
        lambda _: system.observe(system.sample(rng, batch_size=5)), Steps.constant(0.05)
    )
    state = algorithm.init(Start(np.zeros((system.n, system.d)), start), agents)
    *_, (state, _) = rounds(algorithm, agents, state, count)
    return algorithm.personal(state), state


# Finite sums


def test_solutions_are_those_of_direct_least_squares() -> None:
    data = draw(0)
    system = data.system()
    for i in range(system.n):
        direct = np.linalg.lstsq(data.features[i], data.targets[i], rcond=None)[0]
        np.testing.assert_allclose(system.x_star[i], direct, rtol=1e-9)


def central_by_stacking(data: Data, rows: list[np.ndarray], weigh: bool) -> np.ndarray:
    scale = [1 / np.sqrt(len(y)) if weigh else 1.0 for y in data.targets]
    left = np.concatenate([s * r for s, r in zip(scale, rows, strict=True)])
    right = np.concatenate([s * y for s, y in zip(scale, data.targets, strict=True)])
    return np.linalg.lstsq(left, right, rcond=None)[0]


@pytest.mark.parametrize("which", ["x_star_central", "theta_star_central"])
def test_central_solutions_weigh_agents_not_samples(which: str) -> None:
    data = draw(1)
    result = getattr(data.system(), which)
    rows = data.features if which == "x_star_central" else data.objective
    np.testing.assert_allclose(result, central_by_stacking(data, rows, weigh=True), rtol=1e-9)
    # counts differ, so the plain stack is another problem
    wrong = central_by_stacking(data, rows, weigh=False)
    assert np.abs(result - wrong).max() > 1e-3


def test_means_are_the_agents_averages() -> None:
    data = draw(2)
    system = data.system()
    for i in range(system.n):
        pairs = list(zip(data.features[i], data.objective[i], data.targets[i], strict=True))
        np.testing.assert_allclose(
            system.A_bar[i], np.mean([np.outer(f, f) for f, _, _ in pairs], 0)
        )
        np.testing.assert_allclose(
            system.cross[i], np.mean([np.outer(f, p) for f, p, _ in pairs], 0)
        )
        np.testing.assert_allclose(system.b_bar[i], np.mean([f * y for f, _, y in pairs], 0))
        np.testing.assert_allclose(
            system.Phi_bar[i], np.mean([np.outer(p, p) for _, p, _ in pairs], 0), atol=1e-15
        )
    np.testing.assert_allclose(system.A_bar0, system.A_bar.mean(0))
    np.testing.assert_allclose(system.b_bar0, system.b_bar.mean(0))
    assert (system.n, system.d, system.p) == (3, 4, CLASSES)
    assert system.counts.tolist() == [9, 12, 7]


def test_ridge_is_ridge_regression() -> None:
    data = draw(3)
    system = data.system(ridge=0.3)
    phi, y = data.features[1], data.targets[1]
    stacked = np.vstack([phi / np.sqrt(len(y)), np.sqrt(0.3) * np.eye(4)])
    direct = np.linalg.lstsq(stacked, np.append(y / np.sqrt(len(y)), np.zeros(4)), rcond=None)[0]
    np.testing.assert_allclose(system.x_star[1], direct, rtol=1e-9)
    # and in the residuals: all samples at once are the mean
    whole = system.observe(np.tile(np.arange(7), (3, 1)))
    short = RegressionSystem(
        [f[:7] for f in data.features], [t[:7] for t in data.targets], ridge=0.3
    )
    x = np.ones((3, 4))
    expected = (short.A_bar @ x[..., None])[..., 0] - short.b_bar
    np.testing.assert_allclose(whole.residual(x), expected, rtol=1e-12)


# Minibatches


def every_minibatch(system: RegressionSystem, size: int) -> RegressionObservation:
    """All N^size minibatches of an agent; agents have equal N."""
    n_samples = int(system.counts[0])
    indices = np.array(list(product(range(n_samples), repeat=size)))
    return system.observe(np.repeat(indices[:, None, :], system.n, axis=1))


class Summed(RegressionObservation):
    """Broken on purpose: sums over the minibatch."""

    def _fit(self, x: Any, targets: Any) -> Any:
        return super()._fit(x, targets) * self.features.shape[-2]


class OwnTargets(RegressionObservation):
    """Broken on purpose: the agent's targets in place of the central ones."""

    def central_residual(self, x: Any, theta: Any) -> Any:
        return self.residual(x)


def assert_unbiased(system: RegressionSystem, seen: RegressionObservation) -> None:
    rng = np.random.default_rng(0)
    x, theta = rng.standard_normal((system.n, system.d)), rng.standard_normal((1, system.p))
    mean = (system.A_bar @ x[..., None])[..., 0]
    np.testing.assert_allclose(
        seen.residual(x).mean(0), mean - system.b_bar, rtol=1e-10, atol=1e-12
    )
    central = mean - system.cross @ theta[0]
    np.testing.assert_allclose(
        seen.central_residual(x, theta).mean(0), central, rtol=1e-10, atol=1e-12
    )
    right = np.stack(
        [p.T @ y / len(y) for p, y in zip(system.objective, system.targets, strict=True)]
    )
    np.testing.assert_allclose(
        seen.objective_residual(theta).mean(0), system.Phi_bar @ theta[0] - right, atol=1e-12
    )


@pytest.mark.parametrize("size", [1, 2, 3])
def test_minibatch_residuals_are_unbiased(size: int) -> None:
    system = draw(4, (5, 5), d=3).system(ridge=0.1)
    assert_unbiased(system, every_minibatch(system, size))


@pytest.mark.parametrize("broken", [Summed, OwnTargets])
def test_unbiasedness_test_notices(broken: type[RegressionObservation]) -> None:
    system = draw(4, (5, 5), d=3).system(ridge=0.1)
    seen = every_minibatch(system, 2)
    with pytest.raises(AssertionError):
        assert_unbiased(system, broken(**vars(seen)))


def test_sampling_is_uniform_over_each_agents_samples() -> None:
    system = draw(5).system()
    draws = 40_000
    indices = system.sample(np.random.default_rng(1), (draws // 8,), 8)
    assert indices.shape == (draws // 8, 3, 8)
    for i, count in enumerate(system.counts):
        counts = np.bincount(indices[:, i].ravel(), minlength=count)
        assert counts.size == count
        # 28 cells, each off by more than 6 standard deviations with probability below 3e-9
        sd = np.sqrt(draws / count * (1 - 1 / count))
        assert np.abs(counts - draws / count).max() < 6 * sd


def test_batch_axes_are_a_loop() -> None:
    system = draw(6).system()
    rng = np.random.default_rng(2)
    indices = system.sample(rng, (2, 3), 4)
    x, theta = rng.standard_normal((2, 3, 3, 4)), rng.standard_normal((2, 3, 1, CLASSES))
    seen = system.observe(indices)
    for r in np.ndindex(2, 3):
        one = system.observe(indices[r])
        np.testing.assert_array_equal(seen.residual(x)[r], one.residual(x[r]))
        np.testing.assert_array_equal(
            seen.central_residual(x, theta)[r], one.central_residual(x[r], theta[r])
        )
        np.testing.assert_array_equal(
            seen.objective_residual(theta)[r], one.objective_residual(theta[r])
        )


def test_torch_and_numpy_give_the_same_numbers() -> None:
    system = draw(7).system(ridge=0.2)
    indices = system.sample(np.random.default_rng(3), (2,), 4)
    x, theta = np.full((2, 3, 4), 0.3), np.full((2, 1, CLASSES), -0.2)
    ours = system.observe(indices)
    theirs = system.observe(indices, like=torch.zeros(1, dtype=torch.float64))
    for name, points in (
        ("residual", (x,)),
        ("central_residual", (x, theta)),
        ("objective_residual", (theta,)),
    ):
        result = getattr(theirs, name)(*(torch.from_numpy(v) for v in points))
        assert isinstance(result, torch.Tensor)
        np.testing.assert_allclose(result.numpy(), getattr(ours, name)(*points), rtol=1e-12)


# Algorithms on it


@given(st.integers(0, 10_000), st.permutations(range(3)))
def test_permuting_agents_permutes_everything(seed: int, order: list[int]) -> None:
    data = draw(seed)
    system = data.system()
    moved = Data(*([v[k] for k in order] for v in vars(data).values())).system()
    np.testing.assert_allclose(moved.x_star, system.x_star[order], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(moved.x_star_central, system.x_star_central, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        moved.x_limit_uncorrected, system.x_limit_uncorrected[order], rtol=1e-7, atol=1e-9
    )
    rng = np.random.default_rng(seed)
    algorithm = AffPCL(ratio="none")
    sizes = StepSizes(0.05, 0.05, 0.05, 0.05)
    states = [algorithm.init(Start(np.zeros((3, 4)), np.zeros(CLASSES))) for _ in range(2)]
    for _ in range(4):
        indices = system.sample(rng, batch_size=3)
        seen = system.observe(indices), moved.observe(indices[order])
        states = [algorithm.update(s, [o], sizes) for s, o in zip(states, seen, strict=True)]
    np.testing.assert_allclose(states[1].x, states[0].x[order], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("counts", [(9,), (9, 8)])
def test_one_agent_learns_independently(counts: tuple[int, ...]) -> None:
    system = draw(8, counts).system()
    ours, _ = run(AffPCL(ratio="none"), system, count=30)
    alone, _ = run(Independent(), system, count=30)
    if len(counts) == 1:
        np.testing.assert_allclose(ours, alone, rtol=1e-12)
    else:  # the assertion means something: two agents do not
        assert np.abs(ours - alone).max() > 1e-3


@pytest.mark.parametrize("known", [True, False])
def test_homogeneous_agents_with_the_known_objective_are_fedavg(known: bool) -> None:
    system = same_for_all(9)
    truth = system.theta_star_central
    np.testing.assert_allclose(system.objective[0] @ truth, system.targets[0], rtol=1e-9)
    theta0 = truth if known else truth + 0.5
    ours, _ = run(AffPCL(ratio="none", objective="known"), system, count=30, theta0=theta0)
    together, _ = run(FedAvg(), system, count=30)
    if known:
        np.testing.assert_allclose(ours, together, rtol=1e-9)
    else:
        assert np.abs(ours - together).max() > 1e-3


def test_features_as_objective_features_make_the_correction_vanish() -> None:
    data = draw(10)
    degenerate = RegressionSystem(data.features, data.targets, data.features)
    sensible = data.system()
    for system, vanishes in ((degenerate, True), (sensible, False)):
        seen = system.observe(system.sample(np.random.default_rng(4), batch_size=6))
        at_centre = seen.central_residual(
            system.x_star_central[None], system.theta_star_central[None]
        )
        assert (np.abs(at_centre).max() < 1e-10) == vanishes
        # the whole run is independent learning, since x^c and theta^c follow the same recursion
        ours, state = run(AffPCL(ratio="none"), system, count=40)
        alone, _ = run(Independent(), system, count=40)
        assert np.allclose(ours, alone, rtol=1e-12, atol=1e-12) == vanishes
        assert np.array_equal(state.center, state.theta) == vanishes


def full_batch_limit(system: RegressionSystem) -> np.ndarray:
    algorithm = AffPCL(ratio="none")
    everything = system.observe(np.tile(np.arange(system.counts[0]), (system.n, 1)))
    state = algorithm.init(Start(np.zeros((system.n, system.d)), np.zeros(system.p)))
    sizes = StepSizes(0.1, 0.1, 0.5, 0.1)
    for _ in range(6000):
        state = algorithm.update(state, [everything], sizes)
    return np.asarray(algorithm.personal(state))


def test_limit_without_importance_correction() -> None:
    system = draw(11, (9, 9, 9), d=3).system()
    limit = full_batch_limit(system)
    np.testing.assert_allclose(limit, system.x_limit_uncorrected, rtol=1e-8, atol=1e-10)
    assert np.abs(limit - system.x_star).max() > 1e-2  # environments differ, so it is not x_*


def test_limit_without_importance_correction_in_a_common_environment() -> None:
    one = draw(12, (10,))
    targets = [k * one.targets[0] for k in (1.0, 2.0, -1.0)]
    system = RegressionSystem(one.features * 3, targets, one.objective * 3)
    np.testing.assert_allclose(system.x_limit_uncorrected, system.x_star, rtol=1e-8)


def test_known_density_ratio_corrects_the_environment() -> None:
    """Two agents see the same three images with different frequencies; ratios are per image."""
    rng = np.random.default_rng(5)
    images, labels = rng.standard_normal((3, 2)), np.arange(3)
    counts = np.array([[3, 1, 2], [1, 4, 1]])
    mu = counts / counts.sum(1, keepdims=True)
    held = [np.repeat(labels, c) for c in counts]
    rho = (mu / mu.mean(0)).T  # (image, agent)
    system = RegressionSystem(
        [images[h] for h in held],
        [rng.standard_normal(3)[h] for h in held],
        [np.eye(3)[h] for h in held],
        [rho[h] for h in held],
    )
    pairs = np.array(list(product(range(6), repeat=2)))
    seen = system.observe(pairs[..., None])
    weights = seen.density_ratio()
    k = 17
    image = [held[j][pairs[k, j]] for j in range(2)]
    np.testing.assert_allclose(weights[k], [[rho[image[j], i] for j in range(2)] for i in range(2)])

    def bias(ratio: Any) -> float:
        h = seen.central_residual(np.ones((1, 2)), np.full((1, 3), 0.4))
        return float(np.abs((ratio @ h / 2 - h).mean(0)).max())

    assert bias(weights) < 1e-13
    assert bias(np.ones_like(weights)) > 1e-2
    with pytest.raises(InputError, match="minibatches of 2"):
        system.observe(np.zeros((2, 2), dtype=int)).density_ratio()


# Squared loss


def test_squared_loss_is_the_mean_squared_error() -> None:
    data = draw(13)
    x = np.random.default_rng(6).standard_normal((2, 3, 4))
    direct = np.stack(
        [
            ((data.features[i] @ x[:, i].T - data.targets[i][:, None]) ** 2).mean(0)
            for i in range(3)
        ],
        axis=-1,
    )
    np.testing.assert_allclose(SquaredLoss(data.features, data.targets)(x), direct, rtol=1e-12)


def test_squared_loss_weights_are_repetitions() -> None:
    data = draw(14, (5, 6))
    weights = [np.array([2.0, 0, 1, 1, 3]), np.ones(6)]
    repeated = [np.repeat(np.arange(len(w)), w.astype(int)) for w in weights]
    x = np.ones((2, 4))
    loss = SquaredLoss(data.features, data.targets, weights)(x)
    copies = SquaredLoss(
        [f[k] for f, k in zip(data.features, repeated, strict=True)],
        [y[k] for y, k in zip(data.targets, repeated, strict=True)],
    )(x)
    np.testing.assert_allclose(loss, copies, rtol=1e-12)
    assert abs(loss[0] - SquaredLoss(data.features, data.targets)(x)[0]) > 1e-6


def test_squared_loss_of_a_perfect_fit_with_few_samples_is_zero_not_negative() -> None:
    phi = np.array([[1e6, 1.0, 0.0]])
    y = np.array([1e6 + 1.0])
    # numbers of size 1e6 are rounded, then squared; an expanded square rounds ones of size 1e12
    assert 0.0 <= SquaredLoss([phi], [y])(np.ones((1, 3)))[0] < (1e6 * 1e-14) ** 2


# Bad input

GOOD = draw(15)
BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "singular": (
        lambda: RegressionSystem([np.ones((5, 2))], [np.ones(5)]),
        r"E\[phi phi'\] of agent 0 must be positive definite; found smallest eigenvalue",
    ),
    "never varies": (
        lambda: replace(
            GOOD, objective=[np.pad(p, ((0, 0), (0, 1))) for p in GOOD.objective]
        ).system(),
        r"E\[psi psi'\] of all agents must be positive definite",
    ),
    "no agents": (lambda: RegressionSystem([], []), "`features` must be a list of one array per"),
    "array": (lambda: RegressionSystem(np.ones((2, 3, 1)), [1]), "found ndarray"),
    "agents": (
        lambda: RegressionSystem(GOOD.features, GOOD.targets[:2]),
        "`targets` must hold one array per agent, 3; found 2",
    ),
    "samples": (
        lambda: RegressionSystem(GOOD.features, GOOD.targets[::-1]),
        r"`targets\[0\]` must have shape \(N_i,\) with N_i = 9; found \(7,\)",
    ),
    "dimension": (
        lambda: RegressionSystem([GOOD.features[0], GOOD.features[1][:, :3]], GOOD.targets[:2]),
        r"`features\[1\]` must have shape \(N_i, d\)",
    ),
    "nan": (
        lambda: RegressionSystem([np.array([[np.nan]])], [np.ones(1)]),
        r"`features\[0\]` must be finite; found nan",
    ),
    "ratio": (
        lambda: GOOD.system(density_ratio=[np.ones((len(y), 2)) for y in GOOD.targets]),
        r"`density_ratio\[0\]` must have shape \(N_i, n\)",
    ),
    "ridge": (lambda: GOOD.system(ridge=-1.0), "`ridge` must be a number"),
    "range": (
        lambda: GOOD.system().observe(np.full((3, 2), 8)),
        r"`indices` of agent 2 must lie in \[0, 7\); found 8",
    ),
    "shape": (lambda: GOOD.system().observe(np.zeros((2, 2), int)), "`indices` must be whole"),
    "kind": (lambda: GOOD.system().observe(np.zeros((3, 2))), "found float64"),
    "batch": (lambda: GOOD.system().sample(np.random.default_rng(0), (), 0), "`batch_size`"),
    "no psi": (
        lambda: RegressionSystem(GOOD.features, GOOD.targets).theta_star_central,
        "`objective` must be given",
    ),
    "no psi seen": (
        lambda: RegressionObservation(np.ones((1, 1, 1)), np.ones((1, 1))).objective_residual(1.0),
        "`objective` must be given",
    ),
    "no ratio": (
        lambda: GOOD.system().observe(np.zeros((3, 1), int)).density_ratio(),
        "use ratio='none'",
    ),
    "weights": (
        lambda: SquaredLoss([np.ones((2, 1))], [np.ones(2)], [np.array([1.0, -1.0])]),
        r"`weights\[0\]` must be non-negative",
    ),
    "weights agents": (
        lambda: SquaredLoss([np.ones((2, 1))], [np.ones(2)], [np.ones(2)] * 2),
        "`weights` must hold one array per agent, 1; found 2",
    ),
    "loss": (
        lambda: SquaredLoss([np.ones((2, 1))], [np.ones(2)])(np.ones((2, 1))),
        r"`x` must have shape \(..., 1, 1\); found \(2, 1\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(case: str) -> None:
    call, text = BAD[case]
    with pytest.raises(InputError, match=text) as caught:
        call()
    assert "\n" not in str(caught.value)
