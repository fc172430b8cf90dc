"""The rates of AffPCL: exact values against closed forms, and verdicts that can turn."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.affpcl._rates_systems import (
    Types,
    draw_pieces,
    exact_errors,
    ill_conditioned,
    many_agents,
    slowest_rate,
)
from experiments.affpcl.rates import (
    rate_agent,
    rate_central,
    rate_delta,
    rate_density_ratio,
    rate_n,
    rate_steps,
    rate_t,
)
from experiments.affpcl.rates._limits import limit_of_many
from linsys import FiniteSystem, InputError
from linsys.algorithms import AffPCL, Independent, LinearRatio
from linsys.heterogeneity import delta_cen, delta_env, delta_obj, lambda_min, nu
from ratecheck._run.job import Job
from ratecheck._store.store import Store
from tests._slow import slow_but
from tests._small_runs import table_of, tables_of

SMALL: dict[ModuleType, Any] = {
    rate_t: rate_t.HorizonConfig(instances=1, d=2, states=3, n=4),
    rate_n: rate_n.RateNConfig(instances=1, d=2, states=3, agents=(1, 10, 100, 300), levels=(0.5,)),
    rate_delta: rate_delta.RateDeltaConfig(
        instances=1, d=2, states=3, n=100, levels=(1e-4, 3e-4, 0.5)
    ),
    rate_agent: rate_agent.RateAgentConfig(
        instances=1, d=2, groups=4, per_group=(1, 10, 100), distances=(1e-4, 3e-4, 0.5)
    ),
    rate_central: rate_central.RateCentralConfig(
        instances=1, d=2, states=3, times=(1e3, 1e5, 1e7, 1e9), per_type=(1, 10)
    ),
    rate_steps: rate_steps.RateStepsConfig(
        instances=1, times=(1000, 30000, 100000, 200000), fit_from=3e4
    ),
    rate_density_ratio: rate_density_ratio.RateDensityRatioConfig(
        delta=0.02, times=(1, 3, 10, 10**5, 10**6)
    ),
}


@pytest.mark.slow
def test_job_stores_the_default_profile(tmp_path: Any) -> None:
    outcome = Job(Store(tmp_path), figures=False).perform("affpcl/rate_density_ratio")
    assert outcome.ok
    assert outcome.analysis.checks


WRONG: list[tuple[Any, ...]] = [
    (rate_t, "PREDICTED", {**rate_t.PREDICTED, "AffPCL": -2.0}, "AffPCL: MSE / ln t"),
    (rate_t, "PREDICTED", {**rate_t.PREDICTED, "FedAvg": -1.0}, "FedAvg: MSE / ln t"),
    (
        rate_t,
        "PREDICTED",
        {**rate_t.PREDICTED, "Independent": 0.0},
        "Independent: personal MSE, as derived here",
    ),
    (rate_n, "PREDICTED", {**rate_n.PREDICTED, "Independent": -1.0}, "Independent"),
    (rate_n, "PREDICTED", {**rate_n.PREDICTED, "AffPCL": -1.5}, "AffPCL"),
    (
        rate_n,
        "PREDICTED",
        {**rate_n.PREDICTED, "FedAvg": 0.0},
        "FedAvg, as derived here",
    ),
    (rate_delta, "STATED", 1.5, "environments only, own state: as stated"),
    (rate_delta, "STATED", 3.0, "objectives only, smooth: as stated"),
    (rate_agent, "STATED", 1.5, "distance from the centre, own state: as stated"),
    (rate_agent, "RIDE", -2.0, "free ride: error against n"),
    (rate_central, "PREDICTED", -1.5, "COE (7) against n"),
    (rate_central, "PREDICTED", -1.1, "CDL (22-2) against t: MSE / ln t"),
    (rate_density_ratio, "STATED", -1.5, "Bayes, n = 2, differing everywhere"),
    (rate_density_ratio, "STATED", -1.5, "linear estimation: MSE / ln t"),
    (rate_density_ratio, "PLATEAU", 0.5, "plateau against δ_env"),
    (
        rate_steps,
        "POWERS",
        {**rate_steps.POWERS, rate_steps.CONSTANT: 0.0},
        "constant step: power of ln t, as derived here",
    ),
    (
        rate_steps,
        "POWERS",
        {**rate_steps.POWERS, rate_steps.WEIGHTED: -1.0},
        "diminishing, mean error: power of ln t",
    ),
]


class TestRates(rc.ExperimentSuite):
    small = SMALL
    wrong = WRONG
    exact = frozenset({rate_density_ratio})
    slow = frozenset(SMALL) - {rate_steps}


computed, failed = TestRates.table, TestRates.failed


_tables = tables_of(TestRates)


@pytest.mark.parametrize("module", slow_but([rate_steps], SMALL))
def test_exact_values_decide_every_check(module: ModuleType) -> None:
    assert all(check.ok is True for check in TestRates.analysed(module).checks)


def changed(table: rc.Table, column: str, factor: Any, **where: Any) -> rc.Table:
    """The table with one column times a factor in the rows that are as said."""
    columns = {name: table[name].copy() for name in table}
    rows = np.logical_and.reduce(
        [np.ones(columns[column].size, bool)]
        + [columns[name] == value for name, value in where.items()]
    )
    columns[column][rows] *= np.broadcast_to(factor, rows.shape)[rows]
    return rc.Table(columns)


def planted_violations() -> dict[str, tuple[ModuleType, rc.Table]]:
    """Check by name: a table of a world in which it is false."""
    n, central, agent, steps = (computed(m) for m in (rate_n, rate_central, rate_agent, rate_steps))
    t = computed(rate_t)
    swap = {rate_steps.AVERAGED: rate_steps.WEIGHTED, rate_steps.WEIGHTED: rate_steps.AVERAGED}
    names = np.array([swap.get(name, name) for name in steps["steps"].tolist()])
    ride = "free ride: speed-up / n at n = 401, as derived here"
    planted: dict[str, tuple[ModuleType, rc.Table]] = {
        f"{name}: speed-up / n, as derived here": (rate_n, changed(n, "mse", 1.1, method=name))
        for name in ("AffPCL", "FedAvg")
    }
    larger = max(SMALL[rate_agent].per_group)
    return planted | {
        "AffPCL / Independent, label δ = 0.5, largest n, as derived here": (
            rate_n,
            changed(n, "mse", n["n"] ** -0.5, method="AffPCL", level=0.5),
        ),
        "AffPCL's error with (22-2) / with (22-1), t = 1e+10, as derived here": (
            rate_central,
            changed(central, "personal", 1.01),
        ),
        ride.replace("401", f"{larger * SMALL[rate_agent].groups + 1}"): (
            rate_agent,
            changed(agent, "ratio", 2.0),
        ),
        "free ride: error against n": (
            rate_agent,
            changed(agent, "ratio", np.where(agent["part"] == "n", agent["x"] ** 0.3, 1.0)),
        ),
        "averaged iterate / mean error, t = 200000": (
            rate_steps,
            rc.Table({**steps, "steps": names}),
        ),
        "COE (7) against n": (
            rate_central,
            changed(
                central,
                "COE (7)",
                np.where(central["panel"] == rate_central.AGENTS, central["x"] ** 0.5, 1.0),
            ),
        ),
        "COE (7): MSE / ln t": (rate_t, changed(t, "mse", t["t"] ** 0.1, curve="COE (7)")),
    }


@pytest.mark.slow
@pytest.mark.parametrize("number", range(9))
def test_a_planted_violation_turns_the_verdict(number: int) -> None:
    check, (module, wrong) = list(planted_violations().items())[number]
    right = {c.name: c.ok for c in module.analyse(SMALL[module], computed(module)).checks}
    assert right[check] is True
    assert check in failed(module, wrong)


def test_every_planted_violation_is_tried() -> None:
    assert len(planted_violations()) == 9


def test_one_agent_out_of_many_cannot_hide() -> None:
    """Exact values must all agree: a range that only reaches into the tolerance is a violation."""
    table = computed(rate_n)
    wrong = changed(table, "mse", 1.1, method="AffPCL", n=10, level=0.0)
    name = "AffPCL: speed-up / n, as derived here"
    assert name in failed(rate_n, wrong)


@pytest.mark.parametrize("module", [rate_t, rate_central, rate_steps], ids=lambda m: m.__name__)
def test_errors_that_fall_faster_than_stated_violate_nothing(module: ModuleType) -> None:
    """Without heterogeneity Phi theta - b vanishes at the solution: COE has nothing to average."""
    config = replace(SMALL[module], env=0.0, obj=0.0)
    analysis = module.analyse(config, table_of(module, config))
    assert all(check.ok is not False for check in analysis.checks)
    said = {check.name: check.verdict for check in analysis.checks}
    if module is rate_t:
        assert said["COE (7): MSE / ln t"] == "faster than stated"
        assert said["FedAvg: MSE / ln t"] == "consistent"  # it has no bias here
    elif module is rate_central:
        assert said["COE (7) against t: MSE / ln t"] == "faster than stated"
        assert said["COE (7) against n"].startswith("not decided")
        assert said["CDL (22-1) against n"] == "consistent"


@pytest.mark.parametrize(
    ("curve", "factor", "check"),
    [
        (rate_density_ratio.LINEAR, 1e-3, "estimators / Bayes risk, smallest"),
        (rate_density_ratio.TWO, 1e-2, "Bayes, n = 2 / Theorem 2, smallest"),
    ],
)
def test_an_estimator_below_the_bound_is_seen(curve: str, factor: float, check: str) -> None:
    table = computed(rate_density_ratio)
    columns = {name: table[name].copy() for name in table}
    columns["risk"][columns["curve"] == curve] *= factor
    assert check in failed(rate_density_ratio, rc.Table(columns))


@pytest.mark.parametrize(
    ("curve", "check"),
    [
        (rate_density_ratio.TWO, "Bayes, n = 2, differing everywhere (proof)"),
        (rate_density_ratio.MANY, "Bayes, n → ∞, differing on rare states"),
        (rate_density_ratio.LINEAR, "linear estimation: MSE / ln t"),
        (rate_density_ratio.TWO, "plateau at small t"),
    ],
)
def test_another_exponent_of_the_density_ratio_is_seen(curve: str, check: str) -> None:
    table = computed(rate_density_ratio)
    wrong = changed(table, "risk", table["t"] ** 0.2, curve=curve)
    assert check in failed(rate_density_ratio, wrong)


def test_a_weaker_plateau_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_density_ratio, "rare_risk", lambda samples, delta: (delta**3, delta))
    assert "plateau against δ_env at t = 1, rare states" in failed(rate_density_ratio)


def scalar_system(a: float = 2.0) -> FiniteSystem:
    """d = 1, A(s) = a always, b(s) = 1 +- 0.5 by a fair coin: x_* = 1/a."""
    return FiniteSystem(
        A=np.full((2, 1, 1), a),
        Phi=np.ones((2, 1, 1)),
        b=[[[1.5], [0.5]]],
        mu=[[0.5, 0.5]],
    )


def test_errors_and_slope_match_the_closed_form_in_one_dimension() -> None:
    a, variance = 2.0, 0.25
    system = scalar_system(a)
    t = np.array([10**3, 10**4, 10**6, 10**9, 10**12])
    lam = slowest_rate(system)
    assert lam == 1.0  # lambda^b
    alpha = np.log(t) / (lam * t)
    keep = np.exp(2 * t * np.log1p(-alpha * a))
    expected = keep / a**2 + alpha * variance * (1 - keep) / (a * (2 - alpha * a))
    errors = exact_errors(system, Independent(), t, [0]).error[:, 0]
    np.testing.assert_allclose(errors, expected, rtol=1e-11)
    slope = rc.exact_slope(t, errors / np.log(t)).value
    assert slope == pytest.approx(rc.exact_slope(t, expected / np.log(t)).value, abs=1e-11)
    assert slope == pytest.approx(-1.0, abs=5e-4)
    assert rc.exact_slope(t, errors).value > -0.97  # the logarithm is seen
    wrong = keep / a**2 + alpha * variance * (1 - keep) / (2 * a)
    assert not np.allclose(errors, wrong, rtol=1e-11, atol=0)


def test_agents_of_one_kind_divide_the_variance_by_their_number() -> None:
    pieces = draw_pieces(3, 2, 4)
    ratio = pieces.alike(50).relative_errors(1e10)
    np.testing.assert_allclose(ratio, [1 / 50], rtol=1e-5)
    moved = pieces.types(48, obj=0.5).relative_errors(1e10)
    assert (np.abs(moved - 1 / 48) > 1e-3 / 48).all()


def test_limit_of_many_agents_is_that_of_a_large_population() -> None:
    def build(n: int) -> Types:
        return draw_pieces(1, 2, 4).types(n, env=0.3, obj=0.2)

    limit = many_agents(build, 200, 1e10)
    large = build(20000).relative_errors(1e10)
    assert (np.abs(limit - large) < 5.0 / 20000).all()
    np.testing.assert_allclose(limit, many_agents(build, 1000, 1e10), rtol=1e-3)
    assert not np.allclose(build(200).relative_errors(1e10), limit, rtol=1e-3)
    np.testing.assert_allclose(limit_of_many(build, 200, 1e10), limit, rtol=1e-14)
    [last] = limit_of_many(build, 200, 1e10, [len(limit) - 1])
    assert last == pytest.approx(limit[-1], rel=1e-14)
    assert abs(last - limit[0]) > 1e-3 * last


@pytest.mark.parametrize("rare", [False, True])
def test_true_levels_are_those_of_the_whole_population(rare: bool) -> None:
    pieces = draw_pieces(2, 3, 5)
    types = (pieces.rare if rare else pieces.types)(12, env=0.4, obj=0.7)
    whole = float(delta_env(types.system)), float(delta_obj(types.system, "weights"))
    assert types.heterogeneity == pytest.approx(whole, rel=1e-12)
    assert types.system.n == 12
    if rare:
        assert types.heterogeneity[0] == pytest.approx(0.4, rel=1e-12)


def test_drawn_systems_keep_their_margin() -> None:
    for seed in range(20):
        pieces = draw_pieces(seed, 4, 5)
        symmetric = 0.5 * (pieces.A + np.swapaxes(pieces.A, 1, 2))
        assert np.linalg.eigvalsh(symmetric).min() >= 0.75 - 1e-12
        assert np.linalg.norm(pieces.Phi, 2, axis=(1, 2)).max() <= 1 + 1e-12


def test_ill_conditioned_system_is_what_its_text_says() -> None:
    v = 0.05
    types = ill_conditioned(4, v)
    system = types.system
    assert float(nu(system)) == pytest.approx(1.0)
    assert float(lambda_min(system)) == pytest.approx(v)
    assert types.heterogeneity == (0.0, pytest.approx(v / np.sqrt(1 + v**2)))
    np.testing.assert_allclose(np.abs(system.x_star[:, 0]), 0.5)
    gap = np.einsum("sij,nj->nsi", system.A, system.x_star - system.x_star_central)
    second = np.einsum("ns,nsi->n", system.mu, gap**2)
    np.testing.assert_allclose(second, v / 4)


def test_free_rider_is_central_among_opposites() -> None:
    types = SMALL[rate_agent].population(8, 0)
    system = types.system
    assert types.heterogeneity == (pytest.approx(1.0), pytest.approx(1.0))
    assert float(delta_cen(system).value[0]) < 1e-14
    away = 0.5 * np.abs(system.mu[1:] - system.mu[0]).sum(axis=1)
    np.testing.assert_allclose(away, 0.75)
    moved = SMALL[rate_agent].population(8, 0, "own state", 0.2).system
    assert float(delta_cen(moved).value[0]) > 0.1


def bayes_risk(laws: list[np.ndarray], mu0: np.ndarray, rho: list[np.ndarray], t: int) -> float:
    """Bayes risk of a fair choice between two hypotheses by enumeration of all data."""
    total = 0.0
    for data in itertools.product(range(len(laws[0])), repeat=t):
        likelihood = np.array([np.prod(law[list(data)]) for law in laws])
        evidence = likelihood.mean()
        if evidence > 0:
            posterior = 0.5 * likelihood / evidence
            mean = posterior[0] * rho[0] + posterior[1] * rho[1]
            spread = sum(p * (r - mean) ** 2 for p, r in zip(posterior, rho, strict=True))
            total += evidence * float(mu0 @ spread)
    return total


def test_bayes_risks_are_those_of_an_enumeration_of_all_data() -> None:
    tau = 0.2
    mu0 = np.full(2, 0.5)
    tilt = np.array([tau, -tau])
    mu = [mu0 + tilt, mu0 - tilt]
    rho = [m / mu0 for m in mu]
    exact = 4 * tau**2 * rate_density_ratio.undecided(5, 2 * tau)
    assert exact == pytest.approx(bayes_risk(mu, mu0, rho, 5), rel=1e-12)
    # Two agents, three rounds: the other agent has 2 mu^0 - mu; a joint state is a pair of states.
    pairs = [np.outer(m, 2 * mu0 - m).ravel() for m in mu]
    both = bayes_risk(pairs, mu0, rho, 3)
    assert 4 * tau**2 * rate_density_ratio.undecided(6, 2 * tau) == pytest.approx(both, rel=1e-12)
    assert abs(4 * tau**2 * rate_density_ratio.undecided(3, 2 * tau) - both) > 1e-3
    rare, q = rate_density_ratio.rare_risk(4, 0.05)
    mu0 = np.array([q, q, 1 - 2 * q])
    mu = [np.array([2 * q, 0, 1 - 2 * q]), np.array([0, 2 * q, 1 - 2 * q])]
    assert rare == pytest.approx(bayes_risk(mu, mu0, [m / mu0 for m in mu], 4), rel=1e-12)


@pytest.mark.parametrize("samples", [1, 7, 1000, 10**6])
def test_worst_tilt_is_worst(samples: int) -> None:
    worst, tau = rate_density_ratio.spread_risk(samples, 0.1)
    assert 0 < tau <= 0.1
    tried = np.linspace(0.01, 0.1, 10)
    others = [4 * v**2 * rate_density_ratio.undecided(samples, 2 * v) for v in tried]
    assert worst >= max(others) * (1 - 1e-3)
    rare, q = rate_density_ratio.rare_risk(samples, 0.1)
    assert rare >= max(2 * v * (1 - 2 * v) ** samples for v in tried)
    assert rare >= min(0.1 * 2 / np.e, 1 / (np.e * (samples + 1))) * (1 - 1e-12)
    assert q <= 0.1


def test_linear_risk_is_that_of_the_estimator_on_all_samples() -> None:
    t, tau = 3, 0.1
    one = np.ones((2, 1, 1))
    mu = np.array([[0.5 + tau, 0.5 - tau], [0.5 - tau, 0.5 + tau]])
    system = FiniteSystem.from_objectives(A=one, Phi=one, theta=np.ones((2, 1)), mu=mu)
    estimator = LinearRatio(q=2)
    alpha = float(np.log(t) / (0.5 * t))
    expected = 0.0
    for states in itertools.product(range(2), repeat=2 * t):
        s = np.array(states).reshape(t, 2)
        eta = estimator.init(np.zeros((2, 1)))
        for now in s:
            eta = estimator.update(eta, system.observe(now), alpha)
        chance = np.prod(mu[0, s[:, 0]]) * np.prod(mu[1, s[:, 1]])
        expected += chance * float(((eta[0] - system.rho[0]) ** 2).mean())
    assert rate_density_ratio.linear_risk(t, tau) == pytest.approx(expected, rel=1e-12)
    assert rate_density_ratio.linear_risk(t, tau, n=3) != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (rate_t.HorizonConfig, {"times": (1e3, 1e3, 1e4)}),
        (rate_t.HorizonConfig, {"env": 1.5}),
        (rate_n.RateNConfig, {"agents": (0, 1, 2)}),
        (rate_delta.RateDeltaConfig, {"levels": (0.01, 1.0)}),
        (rate_agent.RateAgentConfig, {"groups": 3}),
        (rate_central.RateCentralConfig, {"per_type": (1,)}),
        (rate_steps.RateStepsConfig, {"fit_from": 10.0}),
        (rate_density_ratio.RateDensityRatioConfig, {"times": (1, 10)}),
    ],
)
def test_bad_configurations_are_refused(config: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"`{next(iter(options))}`"):
        config(**options)


def test_uneven_types_are_refused() -> None:
    with pytest.raises(InputError, match="multiple of 4"):
        draw_pieces(0, 2, 3).types(6)


def test_both_variants_of_the_centre_give_one_personal_error() -> None:
    types = draw_pieces(5, 2, 4).types(8, env=0.8, obj=1.0)
    first, second = (
        exact_errors(types.system, AffPCL(central_direction=d), [10**9], types.agents)
        for d in ("objective", "estimate")
    )
    np.testing.assert_allclose(first.error, second.error, rtol=1e-5)
    assert first.central_error is not None
    assert second.central_error is not None
    assert not np.allclose(first.central_error, second.central_error, rtol=1e-2, atol=0)
