"""The disagreement drift at common parameters: laws against samples, and verdicts that can turn."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.firm._drift import CONVENTIONS, DriftConfig, DriftInstancesConfig, drifts
from experiments.firm._drift_laws import Kink, Moments
from experiments.firm.rates import drift_batch, drift_beta, drift_objectives
from experiments.firm.rates.drift_objectives import LargeBetaDrift, powers
from linsys import InputError
from linsys.validate import Array
from mgda.simplex import min_norm
from mgda.trajectories import Clients
from ratecheck import ratio
from ratecheck._experiment.plots import figure_of
from tests._slow import slow_but
from tests._small_runs import table_of

SMALL: dict[ModuleType, Any] = {
    drift_beta: drift_beta.DriftBetaConfig(states=3, actions=3, replicates=30, runs=12),
    drift_batch: drift_batch.DriftBatchConfig(
        states=3, actions=3, replicates=30, runs=12, doublings=8, fit_from=200.0
    ),
    drift_objectives: drift_objectives.DriftObjectivesConfig(
        states=3,
        actions=2,
        objectives=4,
        replicates=30,
        runs=12,
        draws=30,
        most=64,
        most_solved=32,
        fit_from=16,
    ),
}


WRONG: list[tuple[Any, ...]] = [
    (drift_beta, "LARGE", -1.0, "conflict, raw, mean weights (7), large β: as derived"),
    (drift_beta, "LARGE", -2.1, "same mean gradients, trace (9), true weights (14), large β: "),
    (drift_beta, "SMALL", -0.1, "conflict, raw, true weights (14), small β: as derived"),
    (drift_beta, "STATED", -2.5, "dominated, raw, mean weights (7), large β: as stated"),
    (drift_batch, "SMOOTH", (-1.0, -1.0), "objectives in conflict, β = 0, mean weights (7): as d"),
    (drift_batch, "SMOOTH", (-2.0, -2.0), "objectives in conflict, β = 0, true weights (14): as d"),
    (drift_batch, "KINK", (-2.0, -2.0), "same mean gradients, β = 0, mean weights (7): as derived"),
    (
        drift_batch,
        "SAME",
        (-1.0, -1.0),
        "same mean gradients, β = tr G / M, true weights (14): as d",
    ),
    (drift_batch, "STATED", -1.5, "objectives in conflict, β = tr G / M, true weights (14): as s"),
    (drift_objectives, "DERIVED", (2.0, 2.0), "independent, all draws, mean weights (7), large"),
    (drift_objectives, "DERIVED", (1.0, 1.0), "common part, all draws, true weights (14), large"),
    (drift_objectives, "STATED", 2.5, "common part, all draws, mean weights (7), large β: faster"),
    (drift_objectives, "STATED", -3.0, "common part, all draws, mean weights (7), β = scale: as"),
]


class TestDrift(rc.ExperimentSuite):
    small = SMALL
    wrong = WRONG
    slow = frozenset({drift_batch, drift_beta, drift_objectives})


computed, failed = TestDrift.table, TestDrift.failed


@pytest.mark.slow
@pytest.mark.parametrize("module", SMALL)
def test_the_legend_has_a_column_for_each_convention(module: ModuleType) -> None:
    figure = figure_of(module.EXPERIMENT, SMALL[module], TestDrift.analysed(module))
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    readings = [[n for n in names if n.endswith(convention)] for convention in CONVENTIONS]
    assert names == [*readings[0], *readings[1], "derived", *[""] * (len(readings[0]) - 1)]
    forms = list(drift_objectives.BETAS if module is drift_objectives else module.FORMS)
    for reading, convention in zip(readings, CONVENTIONS, strict=True):
        assert reading == [f"{form}, {convention}" for form in forms]


def test_swapped_conventions_are_noticed() -> None:
    columns = dict(computed(drift_batch))
    columns["convention"] = np.where(columns["convention"] == CONVENTIONS[0], *CONVENTIONS[::-1])
    failures = failed(drift_batch, rc.Table(columns))
    for convention in CONVENTIONS:
        assert f"objectives in conflict, β = 0, {convention}: as derived" in failures


@pytest.mark.slow
@pytest.mark.parametrize("instances", [1, 3])
@pytest.mark.parametrize("module", [drift_beta, drift_batch])
def test_all_intervals_of_all_instances_cover_together(
    module: ModuleType, instances: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Bonferroni's inequality: what they miss adds up to 5 % at most."""
    config = replace(SMALL[module], instances=instances)
    levels: list[float] = []
    slope_interval = rc.slope_interval

    def slopes(*args: Any, level: float, **more: Any) -> Any:
        levels.append(level)
        return slope_interval(*args, level=level, **more)

    def ratios(values: Array, law: float, level: float) -> Any:
        levels.append(level)
        return ratio(values, law, level)

    monkeypatch.setattr(rc, "slope_interval", slopes)
    monkeypatch.setattr(rc, "ratio", ratios)
    module.analyse(config, table_of(module, config))
    assert len(levels) >= 24 * instances
    assert 0.03 < sum(1.0 - level for level in levels) <= 0.05


@pytest.mark.parametrize("module", slow_but([drift_objectives], [drift_beta, drift_objectives]))
def test_inequality_fails_for_drifts_above_it(module: ModuleType) -> None:
    columns = dict(computed(module))
    columns["drift"] = 1e12 * columns["drift"]
    failures = failed(module, rc.Table(columns))
    assert sum(name.endswith("largest drift / (23)") for name in failures) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("module", SMALL)
def test_results_do_not_depend_on_the_blocks(module: ModuleType) -> None:
    other = table_of(module, replace(SMALL[module], per_block=17))
    keys = [key for key in other if key not in ("drift", "first")]

    def sorted_drift(table: rc.Table) -> Array:
        return np.asarray(table["drift"][np.lexsort([table[key] for key in keys])])

    assert (sorted_drift(other) == sorted_drift(computed(module))).all()


def gradients_of(config: DriftInstancesConfig, runs: int, B: int) -> tuple[Moments, Array]:
    """Moments of an instance, and gradients (runs, C, d, M) of batches of B."""
    momdp = config.momdp(0)
    oracle = config.oracle(Clients(momdp, config.clients), 0, replicates=runs, B=B)
    theta = np.zeros((runs, config.clients, momdp.d))
    return Moments.of(momdp), oracle.jac(theta, oracle.init())[0]


def test_moments_are_those_of_the_samples() -> None:
    moments, gradients = gradients_of(DriftInstancesConfig(), 400, 64)
    noise = gradients - moments.mean
    error = np.sqrt(moments.power / noise[:, :, 0, 0].size / 64)
    assert np.linalg.norm(noise.mean(axis=(0, 1))) < 3.0 * error
    ratio = 64 * (noise**2).sum(axis=(2, 3)).mean() / moments.power
    assert ratio == pytest.approx(1.0, abs=0.05)
    assert np.abs(moments.law @ moments.noise.reshape(len(moments.law), -1)).max() < 1e-15


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("beta", [0.0, 1.0, 100.0])
def test_moves_are_the_derivatives_of_the_weights(beta: float, normalise: bool) -> None:
    moments = Moments.of(DriftInstancesConfig().momdp(0))
    law = moments.at(beta if normalise else beta * moments.scale, normalise=normalise)
    one, two = law.moves
    step = 1e-2 * np.linalg.norm(moments.mean) / np.linalg.norm(moments.noise[7])
    plus, minus = (
        min_norm(moments.mean + s * moments.noise[7], beta=law.beta, normalise=normalise).weights
        for s in (step, -step)
    )
    size = np.linalg.norm(one[7])
    assert np.linalg.norm((plus - minus) / 2 / step - one[7]) < 1e-3 * size
    curve = (plus + minus - 2 * law.weights) / 2 / step**2
    assert np.linalg.norm(curve - two[7]) < 1e-3 * np.linalg.norm(two[7]) + 1e-9 * size / step


@pytest.mark.slow
@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("clients", [2, 6])
def test_law_is_the_mean_of_sampled_drifts(clients: int, normalise: bool) -> None:
    moments, gradients = gradients_of(DriftInstancesConfig(clients=clients), 2000, 1000)
    beta = 0.3 if normalise else 0.3 * moments.scale
    law = moments.at(beta, normalise=normalise)
    sampled = drifts(gradients, moments, beta, normalise=normalise)
    error = 3.0 * sampled.std(axis=1) / np.sqrt(2000) / law.drift(clients, 1000)
    ratio = sampled.mean(axis=1) / law.drift(clients, 1000)
    assert (np.abs(ratio - 1.0) < error + law.next_order(1000)).all()
    assert sampled[1].mean() > 10.0 * sampled[0].mean()


def test_left_out_is_the_change_of_a_slope() -> None:
    x = np.array([10.0, 100.0, 1000.0])
    assert rc.slope_shift(x, 0.0 * x) == 0.0
    assert rc.slope_shift(x, x**0.5 - 1.0) == pytest.approx(0.5)


def test_kink_is_the_mean_for_gaussian_noise() -> None:
    rng = np.random.default_rng(0)
    d, C, runs = 5, 4, 200_000
    a, half = rng.standard_normal(d), rng.standard_normal((d, d))
    # transitions +- sqrt(d) half_k of the second objective's noise have the covariance half'half
    noise = np.zeros((2 * d, d, 2))
    noise[:, :, 1] = np.sqrt(d) * np.concatenate([half, -half])
    kink = Kink(Moments(np.stack([a, a], axis=1), noise, np.full(2 * d, 0.5 / d)))
    y = rng.standard_normal((runs, C, d)) @ half
    s = np.sign(y @ a)
    around_mean = (y * (s - s.mean(axis=1, keepdims=True))[..., None]).mean(axis=1)
    around_true = (y * s[..., None]).mean(axis=1)
    sampled = np.stack([0.25 * (v**2).sum(axis=1) for v in (around_mean, around_true)])
    B = 1e14  # the values between the vertices are a share of 1e-7
    assert sampled.mean(axis=1) == pytest.approx(B * kink.drift(C, B), rel=0.01)
    assert abs(B * kink.drift(C + 1, B) / sampled.mean(axis=1) - 1.0).min() > 0.02


def test_same_mean_gradients_sit_at_the_kink() -> None:
    config = SMALL[drift_batch]
    moments = Moments.of(config.process(drift_batch.ALIKE, 0))
    assert moments.mean[:, 0] == pytest.approx(moments.mean[:, 1], abs=1e-15)
    assert np.ptp(moments.noise, axis=2).max() > 0.01
    # rounding of the Gram matrix over the least regularisation, 1e-9 of it
    assert moments.at(0.0).weights == pytest.approx([0.5, 0.5], abs=1e-5)
    with pytest.raises(InputError, match="only solution"):
        moments.at(0.0).drift(4, 100)


@pytest.mark.parametrize("share", drift_objectives.SHARES)
def test_large_beta_is_the_limit_and_directions_shrink(share: float) -> None:
    momdp = SMALL[drift_objectives].process(share, "process", 0, 6)
    moments = Moments.of(momdp)
    beta = 1e7 * moments.scale
    limit = LargeBetaDrift(moments, beta).drift(4, 50)
    assert limit == pytest.approx(moments.at(beta).drift(4, 50), rel=1e-5)
    # A lambda = (I + (2 M / beta) S)^{-1} a
    beta = 10.0 * moments.scale
    a = moments.mean.mean(axis=1, keepdims=True)
    S = (moments.mean - a) @ (moments.mean - a).T / 6
    shrunk = np.linalg.solve(np.eye(len(a)) + 12.0 / beta * S, a)[:, 0]
    weights = moments.at(beta).weights
    assert weights.min() > 0.0
    assert moments.mean @ weights == pytest.approx(shrunk, abs=1e-12)


def test_domination_means_one_vertex_until_beta_is_large() -> None:
    part = computed(drift_beta).where(panel=drift_beta.DOMINATED, form="raw")
    drift = part.where(convention=CONVENTIONS[0]).grid("drift", "replicate", "beta")
    assert (drift[:, 0] == 0.0).all()
    assert drift[:, 8].mean() > 100.0 * drift[:, -1].mean()


def test_powers() -> None:
    assert powers(32).tolist() == [2, 4, 8, 16, 32]
    assert powers(33).tolist() == [2, 4, 8, 16, 32]


@pytest.mark.parametrize(
    ("config", "values", "message"),
    [
        (drift_beta.DriftBetaConfig, {"objectives": 3}, "`objectives` must be 2"),
        (drift_batch.DriftBatchConfig, {"fit_from": 4000.0}, "`fit_from`"),
        (drift_objectives.DriftObjectivesConfig, {"most": 64}, "`most` and `most_solved`"),
    ],
)
def test_bad_configurations_are_refused(
    config: type[DriftConfig], values: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        config(**values)
