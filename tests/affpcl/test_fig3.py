"""Figure 3: what is computed, what its checks say, and that a false claim would be seen."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

import ratecheck as rc
from experiments.affpcl.figures import fig3
from experiments.affpcl.figures.fig3 import EXPERIMENT, Fig3Config, ratio_interval
from linsys import InputError
from linsys.systems.mdp import MarkovDecisionProcesses, sample_mdps, softmax_policy
from tests._small_runs import failed, table_of

TINY = Fig3Config(
    levels=(0.0, 1.0), n=3, states=3, actions=2, d=4, rounds=300, points=30, replicates=4
)


CONFIGURATIONS = {fig3: TINY}


def posing(table: rc.Table, impostor: str, level: float) -> rc.Table:
    """The table with AffPCL's errors at one level replaced by another method's."""
    columns = {name: column.copy() for name, column in table.items()}
    at_level = table["level"] == level
    ours, theirs = (at_level & (table["method"] == name) for name in ("AffPCL", impostor))
    for name in fig3.TARGETS:
        columns[name][ours] = table[name][theirs]
    return rc.Table(columns)


class TestFigure(rc.ExperimentSuite):
    small = CONFIGURATIONS
    loose = frozenset({fig3})
    slow = frozenset({fig3})
    # FedAvg is far from every agent at level 1; called AffPCL it must fail the ordering
    contradicted = tuple(
        (
            fig3,
            lambda table: posing(table, "FedAvg", 1.0),
            f"error ratio AffPCL / Independent ({fig3.panel(target, 1.0)})",
        )
        for target in fig3.TARGETS
    )


@pytest.fixture
def table() -> rc.Table:
    return TestFigure.table(fig3)


def test_all_methods_start_from_the_same_error(table: rc.Table) -> None:
    start = table.where(t=0, level=1.0)
    assert np.ptp(start["optimal"]) == 0
    assert np.ptp(start["policy"]) == 0
    assert np.ptp(table.where(t=300, level=1.0)["policy"]) > 0


def processes(level: float) -> MarkovDecisionProcesses:
    sizes = {"n": 3, "states": 3, "actions": 2, "d": 4, "gamma": 0.1}
    return sample_mdps(TINY.derive("processes"), delta_env=level, delta_obj=level, **sizes)


def test_floor_is_the_best_linear_fit(table: rc.Table) -> None:
    mdps = processes(1.0)
    _, residuals, _, _ = np.linalg.lstsq(
        mdps.features.reshape(6, 4), mdps.optimal_q().reshape(3, 6).T
    )
    np.testing.assert_allclose(table.where(level=1.0)["floor"], residuals.sum() / 18)


def test_projection_counts_pairs_as_asked() -> None:
    mdps = processes(1.0)
    q = mdps.softmax_q(0.1)
    policy = softmax_policy(q, 0.1)
    law = mdps.stationary(policy)[..., None] * policy
    for name, weights in (("stationary", law), ("uniform", np.ones_like(law))):
        config = dataclasses.replace(TINY, projection=name)
        error = q - fig3.references(config, mdps)["policy"]
        inner = np.einsum("noa,oad->nd", weights * error, mdps.features)
        assert np.abs(inner).max() < 1e-12


def test_nothing_linear_gets_below_the_best_fit(table: rc.Table) -> None:
    assert (table["optimal"] >= table["floor"] * (1 - 1e-12)).all()
    assert (table["optimal"] < 2 * table["floor"]).any()


def test_levels_are_measured(table: rc.Table) -> None:
    for name in ("delta_env", "delta_obj"):
        assert (table.where(level=0.0)[name] == 0).all()
        assert ((table.where(level=1.0)[name] > 0.05) & (table[name].max() <= 1)).all()
    mdps = processes(1.0)
    policy = softmax_policy(mdps.softmax_q(0.1), 0.1)
    laws = mdps.under(policy).pair_distribution  # of (o, a, o', a'): at least as far apart
    further = max(0.5 * np.abs(laws[i] - laws[j]).sum() for i in range(3) for j in range(3))
    assert 0.8 * further < table["delta_env"].max() <= further + 1e-12


def test_runs_depend_on_the_seed_too(monkeypatch: pytest.MonkeyPatch, table: rc.Table) -> None:
    fixed = processes(0.0)
    monkeypatch.setattr(fig3, "sample_mdps", lambda *_, **__: fixed)
    block = fig3.blocks(TINY)[0]
    other = fig3.compute(dataclasses.replace(TINY, seed=1), block, rc.Context())
    assert np.abs(np.asarray(other["policy"]) - table.where(**block)["policy"]).max() > 1e-3
    assert other["floor"] == pytest.approx(table.where(**block)["floor"][0])


def test_softmax_conventions_are_different_problems() -> None:
    assert TINY.beta == 0.1
    assert Fig3Config(softmax="multiply").beta == 10.0


def test_analysis_has_every_curve_and_claim(table: rc.Table) -> None:
    analysis = fig3.analyse(TINY, table)
    curves = {(s.name, s.panel) for s in analysis.series}
    # Two targets and two levels with four methods, and the floor for one target.
    assert len(curves) == len(analysis.series) == 2 * 2 * 4 + 2
    # Per target: two orderings, the match without heterogeneity, the cost of estimation.
    assert len(analysis.checks) == len({c.name for c in analysis.checks}) == 8
    figure = fig3.draw(TINY, analysis)
    assert len(figure.axes) == 4


def test_a_lost_gain_is_seen(table: rc.Table) -> None:
    """Independent learning in the place of AffPCL loses all of FedAvg's gain."""
    spoilt = fig3.analyse(TINY, posing(table, "Independent", 0.0))
    shares = [c for c in spoilt.checks if c.name.startswith("share of FedAvg's gain")]
    assert [c.measured for c in shares] == [pytest.approx(1.0)] * 2
    assert [c.ok for c in shares] == [False] * 2


def test_a_gain_that_is_a_loss_decides_nothing(table: rc.Table) -> None:
    columns = {name: column.copy() for name, column in table.items()}
    columns["policy"][(table["method"] == "FedAvg") & (table["level"] == 0.0)] *= 100.0
    checks = fig3.analyse(TINY, rc.Table(columns)).checks
    (share,) = (c for c in checks if c.measured == "nothing to divide by" and "gain" in c.name)
    assert (share.ok, share.verdict) == (None, "not decided")


def test_an_error_that_rises_again_is_said(table: rc.Table) -> None:
    columns = {name: column.copy() for name, column in table.items()}
    columns["optimal"] = columns["optimal"] * (1 + columns["t"] / 300)
    growing = fig3.analyse(TINY, rc.Table(columns))
    assert sum("rises again" in note for note in growing.notes) == 2
    columns["optimal"] = table["optimal"] * np.exp(-columns["t"] / 300)
    falling = fig3.analyse(TINY, rc.Table(columns))
    assert not any("optimal" in note and "rises again" in note for note in falling.notes)


def test_ratio_interval_inverts_the_paired_test() -> None:
    rng = np.random.default_rng(0)
    b = rng.uniform(1, 2, 12)
    a = 0.4 * b + 0.1 * rng.standard_normal(12)
    interval = ratio_interval(a, b)
    assert interval is not None
    value, lo, hi = interval.value, interval.lo, interval.hi
    assert value == pytest.approx(a.mean() / b.mean())
    assert lo < value < hi
    limit = student.ppf(0.975, 11)
    for end, sign in ((lo, 1), (hi, -1)):
        gap = a - end * b
        statistic = gap.mean() / (gap.std(ddof=1) / np.sqrt(12))
        assert statistic == pytest.approx(sign * limit)
    narrow = ratio_interval(a, b, level=0.5)  # mutation: another level, another interval
    assert narrow is not None
    assert narrow.lo > lo + 0.01


def test_ratio_to_nothing_has_no_interval() -> None:
    assert ratio_interval(np.ones(4), np.array([1.0, -1.0, 1.0, -1.1])) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"levels": ()}, "`levels` must be at least 1 value"),
        ({"levels": (0.5, 0.5)}, "`levels` must be distinct"),
        ({"levels": (-0.5,)}, "`levels` must be a number"),
        ({"temperature": 0.0}, "`temperature` must be a number"),
        ({"alpha": 0.0}, "`alpha` must be a number"),
        ({"points": 5000}, "`points` must be a whole number"),
        ({"replicates": 2}, "`replicates` must be a whole number"),
    ],
)
def test_bad_configurations_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Fig3Config(**change)


@pytest.mark.slow
def test_claims_of_the_caption_hold_in_the_quick_profile() -> None:
    config = EXPERIMENT.profiles["quick"]
    analysis = fig3.analyse(config, table_of(fig3, config))
    assert failed(analysis) == set()
    assert {c.verdict for c in analysis.checks} == {"confirmed"}
