"""Where the gap of FIRM ends: the law against exact numbers, and verdicts that can turn."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.firm import _gap_runs
from experiments.firm._gap_means import exact_gaps, floor_mean, sampled_gaps
from experiments.firm._gap_runs import CURVES, MARKOV, PLAIN, SMOOTHED, FloorConfig, SteeredConfig
from experiments.firm._gaps import Floor
from experiments.firm.rates import gap_batch, gap_clients, gap_time
from experiments.firm.rates.gap_time import Tabular
from linsys import InputError
from mgda.actor_critic import ActorCritic, ExactGradients
from mgda.critic import LinearCritic
from mgda.firm import FIRM
from mgda.instances import sample_momdp
from mgda.runs import run
from mgda.simplex import gram, simplex_qp
from mgda.trajectories import Clients
from tests._small_runs import tables_of

pytestmark = pytest.mark.slow

SMALL: dict[ModuleType, Any] = {
    gap_time: gap_time.GapTimeConfig(last=2000, slowest=20.0, replicates=30, horizon=20.0),
    gap_clients: gap_clients.GapClientsConfig(counts=(2, 4, 8, 16), B=32, replicates=30),
    gap_batch: gap_batch.GapBatchConfig(
        batches=(8, 16, 32, 64), counts=(2, 16), product=128, clients=8, replicates=30
    ),
}


@pytest.fixture(scope="module")
def floor() -> Floor:
    return SteeredConfig().floor(0)


WRONG: list[tuple[Any, ...]] = [
    (gap_time, "STATED", -1.5, "T-FIRM, exact: mean, as stated"),
    (gap_time, "DERIVED", -1.0, "FIRM, η = 1, exact: gap, as derived"),
    (gap_clients, "STATED", -1.5, "T-FIRM, in C: as stated"),
    (gap_clients, "STATED_IN_A", 2.0, "T-FIRM, in α: as stated"),
    (gap_batch, "STATED", {SMOOTHED: -2.0, PLAIN: -0.5}, "T-FIRM, in B: as stated"),
    (gap_batch, "STATED", {SMOOTHED: -1.0, PLAIN: -2.5}, "FIRM, η = 1, in B: as stated"),
]


class TestGaps(rc.ExperimentSuite):
    small = SMALL
    wrong = WRONG


computed, failed = TestGaps.table, TestGaps.failed


_tables = tables_of(TestGaps)


def test_a_law_that_is_constant_has_slope_zero() -> None:
    checks = gap_batch.analyse(SMALL[gap_batch], computed(gap_batch)).checks
    predicted = {check.name: check.predicted for check in checks}
    assert predicted["T-FIRM, in C at C B fixed: as derived"] == 0.0


@pytest.mark.parametrize("module", SMALL)
def test_rows_say_what_they_allow(module: ModuleType) -> None:
    checks = module.analyse(SMALL[module], computed(module)).checks
    shown = [c for c in checks if c.name.endswith(("/ derived", "/ derived at T"))]
    assert shown
    for check in shown:
        _, _, room = str(check.predicted).partition("1 within ")
        assert check.lo is not None
        assert check.hi is not None
        inside = 1.0 - float(room) <= check.lo and check.hi <= 1.0 + float(room)
        assert inside == (check.ok is True)


@pytest.mark.parametrize("module", [gap_clients, gap_batch])
def test_a_floor_without_its_parts_fails(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The law that Theorem 1 suggests, 1 / (C B) for smoothed and plain alike, is refused."""
    law = Floor.law

    def mistaken(self: Floor, **options: Any) -> Any:
        return law(self, **{**options, "eta": 1.0 if options["eta"] == "1/t" else "1/t"})

    monkeypatch.setattr(Floor, "law", mistaken)
    failures = failed(module)
    assert any(name.startswith(SMOOTHED) and "measured" in name for name in failures)
    assert any(name.startswith(PLAIN) and "measured" in name for name in failures)


def test_the_bias_and_the_bound_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Floor, "bias", 1e-3)
    assert f"{MARKOV}, in C: limit / derived" in failed(gap_clients)
    monkeypatch.undo()
    monkeypatch.setattr(gap_time.Tabular, "law", lambda self, t: 4.0 / np.asarray(t) ** 2)
    assert any("gap / derived" in name for name in failed(gap_time))


def test_noise_is_that_of_the_samples(floor: Floor) -> None:
    """Covariance of restarted batches against many of them, in units of its own standard error."""
    B, count = 5, 40_000
    oracle = ActorCritic(
        Clients(floor.momdp, 1),
        LinearCritic(np.eye(floor.momdp.n_states)),
        B=B,
        N=None,
        sampling="restarted",
        seed=1,
        replicates=count,
    )
    theta = np.broadcast_to(floor.theta, (count, 1, 2))
    memory = oracle.init()
    for _ in range(5):  # forget the first state: gamma^25
        gradients, memory = oracle.jac(theta, memory)
    X = (gradients[:, 0] - floor.A).reshape(count, -1)
    products = X[:, :, None] * X[:, None]
    error = products.std(axis=0) / np.sqrt(count)
    assert (np.abs(products.mean(axis=0) - floor.noise(B)[0]) < 5.0 * error).all()
    assert (np.abs(X.mean(axis=0)) < 5.0 * X.std(axis=0) / np.sqrt(count)).all()


def test_noise_of_long_batches_is_the_long_run_noise(floor: Floor) -> None:
    batch, long_run = floor.noise(10**6)
    np.testing.assert_allclose(batch, long_run, rtol=1e-5)
    assert not np.allclose(*floor.noise(1), rtol=0.01)


@pytest.mark.parametrize("eta", [1.0, "1/t"])
def test_law_is_the_limit_of_a_linear_recursion(floor: Floor, eta: float | str) -> None:
    """The terms of the law with derivatives by finite differences and a Lyapunov sum."""
    a, C, B, h = 0.3 / floor.L, 3, 7, 1e-6
    floors = floor.law(clients=C, B=B, a=a, eta=eta)
    d, M = floor.A.shape

    def weights(A: Any) -> Any:
        return simplex_qp(gram(A), beta=floor.beta).weights

    def field(theta: Any) -> Any:
        A = floor.momdp.jac(theta, 1)
        return A @ (weights(A) if eta == 1.0 else weights(floor.A))

    F = np.stack(
        [(field(floor.theta + h * e) - field(floor.theta - h * e)) / (2 * h) for e in np.eye(d)], 1
    )
    units = np.eye(d * M).reshape(-1, d, M)
    D = np.stack(
        [(weights(floor.A + h * u) - weights(floor.A - h * u)) / (2 * h) for u in units], axis=1
    )
    D = D if eta == 1.0 else 0.0 * D
    batch, long_run = floor.noise(B)
    N = np.stack([u @ weights(floor.A) for u in units], axis=1) + floor.A @ D
    T, S = np.eye(d) + a * F, np.zeros((d, d))
    for _ in range(3000):
        S = T @ S @ T.T + a**2 / C * N @ long_run @ N.T
    m = np.array([sum((D @ batch)[j, i * M + j] for j in range(M)) for i in range(d)])
    np.testing.assert_allclose(floors.theta, np.trace(F @ S @ F.T), rtol=1e-5)
    np.testing.assert_allclose(
        floors.weights, np.trace(floor.A @ D @ batch @ D.T @ floor.A.T) / C, rtol=1e-5
    )
    np.testing.assert_allclose(floors.bias, m @ m, rtol=1e-5)


def test_exact_firm_ends_at_the_floor_s_point(floor: Floor) -> None:
    """With beta > 0 weights go to 1/M: the stationary point of the mean objective."""
    oracle = ExactGradients(Clients(floor.momdp, 1))
    firm = FIRM(alpha=1.0 / floor.L, beta=0.3, normalise=False)
    trace = run(firm, oracle, np.ones((1, 1, 2)), 3000, times=[3000])
    np.testing.assert_allclose(trace.state.theta[0, 0], floor.theta, atol=1e-6)
    np.testing.assert_allclose(trace.values["weights"][0, 0, 0], 0.5, atol=1e-6)


def test_preferences_are_the_weights_in_the_end(floor: Floor) -> None:
    oracle = ExactGradients(Clients(floor.momdp, 1))
    firm = FIRM(alpha=1.0 / floor.L, beta=0.0, preference=np.array([3.0, 1.0]), normalise=False)
    trace = run(firm, oracle, np.zeros((1, 1, 2)), 4000, times=[4000])
    np.testing.assert_allclose(trace.values["weights"][0, 0, 0], [0.75, 0.25], atol=1e-6)
    assert trace.values["weighted_gap"][0, 0] < 1e-12


def test_markov_samples_have_another_fixed_point(floor: Floor) -> None:
    policy = floor.momdp.at(floor.biased)
    assert np.linalg.norm(policy.direction(policy.V).mean(axis=-1)) < 1e-9
    np.testing.assert_allclose(
        floor.bias, (floor.momdp.jac(floor.biased, 1).mean(axis=-1) ** 2).sum()
    )
    assert floor.bias > 1e-6


@pytest.mark.parametrize("last", [200, 2000])
def test_what_a_run_keeps_does_not_grow(last: int) -> None:
    momdp = sample_momdp(0, states=2, actions=2)
    oracle = ExactGradients(Clients(momdp, 2))
    times = np.linspace(0, last, 9).astype(int)
    trace = run(FIRM(alpha=0.1), oracle, np.zeros((3, 2, 4)), last, times=times, averages=True)
    kept = [*trace.values.values(), *trace.means.values(), trace.state.theta, trace.state.weights]
    # per time and replicate: 2 x (weights 4 + J 2 + six scalars less the reference's one)
    assert sum(array.nbytes for array in kept) == 8 * (9 * 3 * 2 * 11 + 3 * 2 * 4 + 3 * 2 * 2)


def test_the_law_of_the_tabular_process_is_the_flow_s() -> None:
    """One state and three actions, integrated with large steps: (A - 1) / A over (a t)^2."""
    momdp = replace(
        sample_momdp(0, states=1, actions=3, objectives=1, gamma=0.0),
        r=np.array([[[1.0], [0.6], [0.2]]]),
    )
    process = gap_time.Tabular(replace(momdp, gamma=0.5))
    theta, t = np.zeros(3), 0.0
    while t < 3e5 * process.tau:
        h = max(1.0, 1e-3 * t)
        gradient = process.momdp.jac(theta, 1)[:, 0]
        theta, t = theta + h * process.a * gradient, t + h
    assert process.law(np.asarray(t)) == pytest.approx((gradient**2).sum(), rel=0.02)


@pytest.mark.parametrize(
    "build",
    [
        lambda: SteeredConfig(replicates=10),
        lambda: SteeredConfig(beta=0.0),
        lambda: SteeredConfig(step=1.5),
        lambda: gap_clients.GapClientsConfig(counts=(1, 2)),
        lambda: gap_batch.GapBatchConfig(counts=(3, 5)),
        lambda: gap_time.GapTimeConfig(last=10),
        lambda: gap_time.GapTimeConfig(slowest=1e-9).process(0),
    ],
)
def test_bad_configurations_are_refused(build: Any) -> None:
    with pytest.raises(InputError, match="must"):
        build()


def test_the_window_is_a_mean_of_its_steps(floor: Floor) -> None:
    config = FloorConfig(relax=1.0)
    chosen = CURVES[PLAIN]
    measurement = config.measure(floor, chosen, 0, 2, 4)
    steps = config.steps(floor, chosen, config.relax)
    every = np.arange(3 * steps)
    trace = config.trace(floor, chosen, 0, 2, 4, floor.theta, 3 * steps, every)
    np.testing.assert_allclose(
        measurement, trace.values["weighted_gap"][steps:].mean(axis=0), rtol=1e-9
    )
    assert _gap_runs.slack([1.0, 2.0], [floor.law(clients=1, B=4, a=0.1)] * 2) > 0.0


def test_values_of_a_process_that_forgets_the_future_are_the_best_rewards() -> None:
    process = Tabular(sample_momdp(0, states=3, actions=2, objectives=2, gamma=0.0))
    np.testing.assert_allclose(process.values, process.momdp.mean_r.mean(axis=-1).max(axis=1))


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("clients", [1, 3])
def test_the_loop_makes_the_same_runs(floor: Floor, name: str, clients: int) -> None:
    """Up to rounding, which steps that contract to a strict maximum do not amplify."""
    config, chosen = FloorConfig(relax=1.0), CURVES[name]
    length = config.steps(floor, chosen, 1.0)
    times, start = np.array([0, 1, length // 2, length - 1]), np.array([0.3, -0.2])
    trace = config.trace(floor, chosen, 0, clients, 5, start, length, times)
    gaps, means = sampled_gaps(config, floor, chosen, 0, clients, 5, start, times)
    np.testing.assert_allclose(gaps, trace.values["weighted_gap"], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(means, trace.means["weighted_gap"], rtol=1e-9, atol=1e-15)
    # others than those of another batch, number of clients or instance
    for other in ((0, clients, 6), (0, clients + 1, 5), (1, clients, 5)):
        apart = sampled_gaps(config, floor, chosen, *other, start, times)[1]
        assert np.abs(apart[-1] / means[-1] - 1.0).max() > 1e-3
    window = config.measure(floor, chosen, 0, clients, 5)
    np.testing.assert_allclose(
        floor_mean(config, floor, chosen, 0, clients, 5), window, rtol=1e-9, atol=1e-15
    )


@pytest.mark.parametrize("eta", [1.0, 0.5, "1/t"])
@pytest.mark.parametrize("objectives", [2, 3])
def test_the_loop_makes_the_same_runs_with_exact_gradients(eta: Any, objectives: int) -> None:
    momdp = sample_momdp(4, states=3, actions=2, objectives=objectives, gamma=0.7)
    theta, times = np.random.default_rng(0).standard_normal((5, momdp.d)), [0, 1, 40, 199]
    gaps, means = exact_gaps(momdp, theta, times, alpha=0.1, beta=0.05, eta=eta)
    firm = FIRM(alpha=0.1, beta=0.05, normalise=False, eta=eta)
    oracle = ExactGradients(Clients(momdp, 1))
    trace = run(firm, oracle, theta[:, None], 200, times=times, averages=True)
    np.testing.assert_allclose(gaps, trace.values["weighted_gap"], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(means, trace.means["weighted_gap"], rtol=1e-9, atol=1e-15)


def test_more_than_two_objectives_run_without_the_loop() -> None:
    config = FloorConfig(objectives=3, relax=1.0, replicates=30)
    floor = config.floor(0)
    ours = floor_mean(config, floor, CURVES[PLAIN], 0, 2, 4)
    np.testing.assert_array_equal(ours, config.measure(floor, CURVES[PLAIN], 0, 2, 4))
    gaps, _ = sampled_gaps(config, floor, CURVES[PLAIN], 0, 2, 4, floor.theta, [0, 9])
    assert gaps.shape == (2, 30)


def test_runs_that_are_not_finite_are_refused() -> None:
    momdp = sample_momdp(4, states=3, actions=2, gamma=0.7)
    with pytest.raises(InputError, match="overflow"):
        exact_gaps(momdp, np.full((2, 6), np.nan), [0, 9], alpha=0.1, beta=0.05, eta=1.0)


@pytest.mark.parametrize("times", [[0, 5, 5], [3, 1], [-1, 2], []])
@pytest.mark.parametrize("objectives", [2, 3])
def test_times_that_do_not_increase_are_refused(times: list[int], objectives: int) -> None:
    config = FloorConfig(objectives=objectives, relax=1.0, replicates=30)
    floor = config.floor(0)
    with pytest.raises(InputError, match="`times` must be"):
        sampled_gaps(config, floor, CURVES[PLAIN], 0, 2, 4, floor.theta, times)
    theta = np.zeros((2, floor.momdp.d))
    with pytest.raises(InputError, match="`times` must be"):
        exact_gaps(floor.momdp, theta, times, alpha=0.1, beta=0.05, eta=1.0)
