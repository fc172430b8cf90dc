"""Drift along runs of T-FIRM: laws against enumeration, and checks that can fail."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import ratecheck as rc
from experiments.firm._drift_laws import Moments
from experiments.firm.rates import _runs, drift_local_steps, drift_step_size, drift_time
from experiments.firm.rates._one_step import OneStep
from experiments.firm.rates._runs import (
    DRIFTS,
    DifferentRunConfig,
    DriftRunConfig,
    allowed_slope_error,
    drifts,
)
from linsys import InputError
from linsys.validate import Array
from mgda.drift import disagreement
from mgda.firm import FIRM
from mgda.momdp import MOMDP
from mgda.runs import run
from tests._small_runs import table_of

SMALL: dict[ModuleType, Any] = {
    drift_time: drift_time.DriftTimeConfig(
        states=3,
        actions=2,
        clients=3,
        replicates=200,
        at_once=200,
        moment_draws=20_000,
        times=(1, 2, 4, 8, 10, 13, 16, 20, 25, 32, 40),
        fit_from=8,
    ),
    drift_local_steps: drift_local_steps.DriftLocalStepsConfig(
        states=3, actions=2, clients=4, moves=(1, 4, 8, 16, 32), moment_draws=20_000
    ),
    drift_step_size: drift_step_size.DriftStepSizeConfig(
        states=3,
        actions=2,
        clients=4,
        K=4,
        alphas=(1e-3, 1e-2, 0.1),
        counts=(4, 256, 1024),
        moment_draws=20_000,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("module", SMALL)
def test_instances_are_judged_one_by_one(module: ModuleType) -> None:
    config = replace(SMALL[module], replicates=30, instances=2)
    analysis = module.analyse(config, table_of(module, config))
    names = [check.name for check in analysis.checks]
    assert len(set(names)) == len(names)
    first, second = ([n for n in names if f", instance {k}" in n] for k in (0, 1))
    assert len(first) == len(second) == len(names) / 2


WRONG: list[tuple[Any, ...]] = [
    (
        drift_time,
        "DERIVED",
        {**drift_time.DERIVED, drift_time.SMOOTHED: 0.0},
        "η = 1/t, mean weights: as derived",
    ),
    (drift_time, "STATED", -2.0, "η = 1/t, mean weights: (23)"),
    (
        drift_local_steps,
        "DERIVED",
        {**drift_local_steps.DERIVED, "client": 2.0},
        "client drift, identical clients: as derived",
    ),
    (
        drift_local_steps,
        "DERIVED",
        {**drift_local_steps.DERIVED, "gradient": 1.0},
        "T_{1,2}, identical clients: as derived",
    ),
    (
        drift_local_steps,
        "FLOOR",
        {**drift_local_steps.FLOOR, "disagreement": 1.0},
        "T_disagr, mean weights, identical clients: as derived",
    ),
    (
        drift_local_steps,
        "DIFFERENT_DERIVED",
        {**drift_local_steps.DIFFERENT_DERIVED, "client": 1.0},
        "client drift, different clients: as derived",
    ),
    (
        drift_step_size,
        "DERIVED",
        {**drift_step_size.DERIVED, (drift_step_size.SAME, "gradient"): 2.0},
        "T_{1,2}, identical clients: as derived",
    ),
    (
        drift_step_size,
        "STATED",
        {**drift_step_size.STATED, (drift_step_size.SAME, "disagreement"): 1.0},
        "T_disagr, mean weights, identical clients: (24)",
    ),
    (
        drift_step_size,
        "PRODUCT",
        -0.5,
        "T_disagr, mean weights, identical clients: below the -0.5 of Theorem 1",
    ),
    (
        drift_step_size,
        "VARIANCE",
        0.5,
        "T_disagr, true gradients' weights, against C: above the 0.5 of Theorem 1 at α K = 0",
    ),
]


class TestDriftAlongRuns(rc.ExperimentSuite):
    small = SMALL
    wrong = WRONG
    slow = frozenset(SMALL)


computed, failed = TestDriftAlongRuns.table, TestDriftAlongRuns.failed


def test_run_without_smoothing_is_told_from_one_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift_time, "ETAS", {drift_time.SMOOTHED: 1.0})
    config = SMALL[drift_time]
    table = table_of(drift_time, config)
    monkeypatch.setattr(drift_time, "ETAS", {drift_time.SMOOTHED: "1/t"})
    monkeypatch.setattr(drift_time, "CONSTANT", drift_time.SMOOTHED)
    monkeypatch.setattr(drift_time, "NONE", drift_time.SMOOTHED)
    assert {
        "η = 1/t, mean weights: as derived",
        "η = 1/t, mean weights: (23)",
    } & failed(drift_time, table) == {"η = 1/t, mean weights: as derived"}


@pytest.mark.slow
def test_law_of_another_number_of_clients_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SMALL[drift_time]
    draw = OneStep.draw
    monkeypatch.setattr(
        OneStep, "draw", lambda *args: replace(draw(*args), clients=2 * config.clients)
    )
    names = failed(drift_time, table_of(drift_time, config))
    assert "η = 1/t, mean weights: drift / law" in names
    assert "η = 1/t, weights of the true gradients: drift / law" in names


@pytest.mark.slow
def test_different_clients_are_told_from_identical_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SMALL[drift_local_steps]
    monkeypatch.setattr(
        DifferentRunConfig, "identical_clients", DifferentRunConfig.different_clients
    )
    names = failed(drift_local_steps, table_of(drift_local_steps, config))
    assert "client drift, identical clients: as derived" in names
    assert "client drift / law, identical clients" in names


def test_step_that_is_not_multiplied_by_alpha_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SMALL[drift_step_size]

    def same_step(firm: FIRM, *args: Any) -> dict[str, Array]:
        return drifts(replace(firm, alpha=0.01), *args)

    monkeypatch.setattr(drift_step_size, "drifts", same_step)
    names = failed(drift_step_size, table_of(drift_step_size, config))
    assert "client drift, identical clients: as derived" in names
    assert "T_{1,2}, different clients: as derived" in names


def test_floor_that_falls_with_clients_is_noticed() -> None:
    table = computed(drift_step_size)
    columns = {name: np.array(column) for name, column in table.items()}
    many = columns["clients"] == drift_step_size.MANY
    for name in ("drift", "law"):
        columns[name] = np.where(many, columns[name] / columns["x"], columns[name])
    names = failed(drift_step_size, rc.Table(columns))
    assert "T_disagr, mean weights, against C: as derived" in names


@pytest.mark.slow
@pytest.mark.parametrize("module", SMALL)
def test_numbers_do_not_depend_on_blocks(module: ModuleType) -> None:
    config = replace(SMALL[module], replicates=30, at_once=30)
    order = ["clients", "rule", "quantity", "k", "t", "x", "replicate"]

    def rows(**changes: Any) -> list[Any]:
        table = table_of(module, replace(config, **changes))
        by = np.lexsort([table[name] for name in reversed(order) if name in table])
        return [table[name][by] for name in table if name != "first"]

    def same(parts: list[Any]) -> bool:
        """Whole numbers and names; and squares of distances, which are right to 1e-14.

        Products of more replicates have other last bits, and a distance is a difference of some
        tens of operations on numbers of order one.
        """
        return all(
            np.allclose(np.sqrt(np.abs(one)), np.sqrt(np.abs(other)), rtol=0, atol=1e-14)
            if one.dtype.kind == "f"
            else np.array_equal(one, other)
            for one, other in zip(whole, parts, strict=True)
        )

    whole = rows()
    assert same(rows(at_once=17))
    assert not same(rows(at_once=17, seed=config.seed + 1))


def enumerated(rng: np.random.Generator, kinds: int, clients: int) -> OneStep:
    """A step whose gradients take ``kinds`` values, all as likely: means over them are exact."""
    g = rng.standard_normal((kinds, 3, 2))
    solutions = rng.dirichlet(np.ones(2), size=kinds)
    return OneStep(g, g.mean(axis=0), solutions, rng.dirichlet(np.ones(2)), clients)


@pytest.mark.parametrize("eta", ["1/t", 1.0, 0.3])
@pytest.mark.parametrize(("clients", "steps"), [(2, 1), (2, 3), (3, 2)])
def test_laws_in_time_are_exact(eta: float | str, clients: int, steps: int) -> None:
    kinds = 3
    step = enumerated(np.random.default_rng(clients), kinds, clients)
    every = np.array(list(itertools.product(range(kinds), repeat=clients * steps)))
    picks = every.reshape(len(every), steps, clients)
    weights = np.full((len(every), clients, 2), 0.5)
    for s in range(steps):
        rate = 1.0 / (s + 1) if isinstance(eta, str) else eta
        weights = (1.0 - rate) * weights + rate * step.solutions[picks[:, s]]
    g = step.g[picks[:, -1]]
    t = np.array([float(steps)])
    now, before, start = drift_time.smoothing(eta, t)
    assert step.around_mean(now, before)[0] == pytest.approx(disagreement(g, weights).mean())
    target = np.broadcast_to(step.target, (len(every), 2))
    expected = disagreement(g, weights, target).mean()
    assert step.around_true(now, before, start)[0] == pytest.approx(expected)


@pytest.mark.parametrize("clients", [2, 3, 5])
def test_laws_in_the_number_of_clients_are_exact(clients: int) -> None:
    step = enumerated(np.random.default_rng(7), 3, 2)
    picks = np.array(list(itertools.product(range(3), repeat=clients)))
    g, weights = step.g[picks], step.solutions[picks]
    around_mean, around_true = step.many_clients(np.array([float(clients)]))
    assert around_mean[0] == pytest.approx(disagreement(g, weights).mean())
    target = np.broadcast_to(step.target, (len(picks), 2))
    assert around_true[0] == pytest.approx(disagreement(g, weights, target).mean())


def test_drawn_moments_are_those_of_one_transition() -> None:
    config = DriftRunConfig(B=4, moment_draws=40_000)
    step = OneStep.draw(config, 0)
    momdp = config.momdp(0)
    exact = Moments.of(momdp, config.theta0(0, momdp.d))
    flat = exact.noise.reshape(len(exact.law), -1, 2)
    sigma = np.einsum("n,ndi,ndj->ij", exact.law, flat, flat) / config.B
    np.testing.assert_allclose(step.noise, sigma, rtol=0.03)
    np.testing.assert_array_equal(step.gbar, exact.mean)
    # the same mean gradient as the oracle of the runs has without sampling
    clients = config.identical_clients(0, 1)
    oracle = replace(config.oracle(clients, 0, B=config.B, replicates=1), B=None)
    gbar, _ = oracle.jac(config.start(0, clients, 1), oracle.init())
    np.testing.assert_allclose(gbar[0, 0], step.gbar, atol=1e-14)


def test_limit_of_many_clients_and_small_steps_against_theorem_1() -> None:
    """All terms of Theorem 1 vanish as alpha -> 0, T alpha -> infinity, C -> infinity; the left?

    One parameter, two objectives, B = 1: expectations are sums over eight transitions. As alpha
    goes to 0 parameters follow the mean step of infinitely many clients up to where it is zero.
    """
    rewards = np.zeros((2, 2, 2))
    rewards[0, 1, 0] = rewards[1, 0, 1] = 1.0
    features = np.array([[[1.0], [0.0]], [[3.0], [0.0]]])
    momdp = MOMDP(np.full((2, 2, 2), 0.5), rewards, 0.5, features=features)
    firm = FIRM.theory(alpha=1.0, beta=0.05)

    def means(theta: float) -> tuple[Array, Array, float]:
        """gbar (M,), E lambda^* and E xi a at theta."""
        step = Moments.of(momdp, np.array([theta]))
        solutions = firm.solve(step.mean + step.noise)
        together = (step.noise[:, 0] * solutions).sum(axis=1)
        return step.mean[0], step.law @ solutions, float(step.law @ together)

    def smoothed(theta: float) -> float:
        """The mean step for eta_t = 1/t, whose weights know nothing of the present noise."""
        gbar, weights, _ = means(theta)
        return float(gbar @ weights)

    def unsmoothed(theta: float) -> float:
        """The same for eta = 1."""
        return smoothed(theta) + means(theta)[2]

    left = {}
    for name, step in (("1/t", smoothed), ("1", unsmoothed)):
        assert step(0.0) > 0.0 > step(2.0)
        theta = brentq(step, 0.0, 2.0)
        jac = momdp.jac(np.array([theta]), 1)
        ideal = firm.solve(Moments.of(momdp, np.array([theta])).mean)
        for whose, weights in (("mean", means(theta)[1]), ("ideal", ideal)):
            left[name, whose] = float(((jac @ weights) ** 2).sum())
    # around the clients' mean weights smoothing makes the left side vanish, as Theorem 1 says
    assert left["1/t", "mean"] < 1e-20
    # for the ideal weights of (14) it does not, nor without smoothing: drifts that (35) lost
    assert left["1/t", "ideal"] == pytest.approx(1.65e-5, rel=0.01)
    assert left["1", "mean"] == pytest.approx(7.42e-3, rel=0.01)


def test_one_long_run_serves_all_numbers_of_local_steps() -> None:
    config = DriftRunConfig(replicates=30, clients=3)
    clients = config.identical_clients(0)
    oracle = config.oracle(clients, 0, B=config.B, replicates=30)
    start = config.start(0, clients, 30)
    firm = FIRM(alpha=0.5, K=9, beta=config.beta, normalise=False)
    together = drifts(firm, oracle, start, [1, 4, 9])
    alone = drifts(replace(firm, K=4), oracle, start, [4])
    for name in DRIFTS:
        np.testing.assert_array_equal(together[name][1], alone[name][0])
    trace = run(
        replace(firm, K=4), oracle, start, 1, times=[0, 3], reference=replace(oracle, B=None)
    )
    for ours, theirs in (
        ("disagreement", "disagreement"),
        ("disagreement_true", "disagreement_true"),
        ("client", "client_drift"),
    ):
        np.testing.assert_allclose(together[ours][:2], trace.values[theirs], rtol=1e-9, atol=1e-24)


def test_weights_of_smoothing_are_those_of_the_recursion() -> None:
    for eta in ("1/t", 0.2):
        rates = [1.0 / s if isinstance(eta, str) else eta for s in range(1, 7)]
        w = [
            rate * np.prod([1 - other for other in rates[s + 1 :]]) for s, rate in enumerate(rates)
        ]
        now, before, start = drift_time.smoothing(eta, np.array([6.0]))
        assert now[0] == pytest.approx(w[-1])
        assert before[0] == pytest.approx(sum(x**2 for x in w[:-1]))
        assert start[0] == pytest.approx(1.0 - sum(w))
        t = np.array([1e3, 1e4])
        for exact, lead in zip(
            drift_time.smoothing(eta, t), drift_time.leading(eta, t), strict=False
        ):
            np.testing.assert_allclose(exact, lead, rtol=2e-3, atol=2.0 / t[0])
        assert drift_time.leading(eta, t)[1] == pytest.approx(
            drift_time.smoothing(eta, t)[1], rel=2e-3
        )


def test_allowed_slope_error_covers_what_it_is_for() -> None:
    x = np.array([1.0, 10.0, 100.0])
    bent = np.exp(2.0 * 4 * 0.01 * x / x[-1])
    slope = np.polyfit(np.log(x), np.log(bent), 1)[0]
    assert 0.0 < slope <= allowed_slope_error(x, 4, 0.01)


def test_level_of_the_intervals() -> None:
    curves = np.exp(0.1 * np.random.default_rng(0).standard_normal((40, 3)))
    x = np.array([1.0, 2.0, 4.0])
    wide, value = _runs.slope_of(x, curves, 0), _runs.bootstrap_mean_interval(curves[:, 0], 0)
    narrow = rc.slope_interval(x, curves, rng=0)
    assert wide.lo < narrow.lo < narrow.value < narrow.hi < wide.hi
    assert value.value == pytest.approx(curves[:, 0].mean())
    assert value.lo < value.value < value.hi


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DifferentRunConfig(level=1.5), "`level`"),
        (lambda: DriftRunConfig(replicates=20), "`replicates`"),
        (lambda: DriftRunConfig(moment_draws=10), "`moment_draws`"),
        (lambda: drift_time.DriftTimeConfig(times=(0, 1, 2)), "`times`"),
        (lambda: drift_time.DriftTimeConfig(fit_from=280), "`fit_from`"),
        (lambda: drift_local_steps.DriftLocalStepsConfig(moves=(0, 1)), "`moves`"),
        (lambda: drift_step_size.DriftStepSizeConfig(alphas=(1.0, 0.1)), "`alphas`"),
        (lambda: drift_step_size.DriftStepSizeConfig(K=1), "`K`"),
        (lambda: drift_step_size.DriftStepSizeConfig(counts=(1, 256, 512)), "`counts`"),
    ],
)
def test_configurations_that_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
