"""Figures 1, 4, 5, 6 and the variance regime: small ones run whole, planted violations are seen."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import ratecheck as rc
from experiments.affpcl.figures import fig1, fig4, fig5, fig6, variance_regime
from experiments.affpcl.figures._synthetic import at_most, below, matches, understated
from linsys import InputError
from linsys.heterogeneity import chi2_agent, delta_env, delta_env_agent, delta_obj, lambda_agent, nu
from linsys.moments import exact_moments
from tests._small_runs import Change, swapped

SMALL: dict[ModuleType, Any] = {
    fig1: fig1.Fig1Config(levels=(0.0, 0.3), replicates=64, instances=3, clusters=3),
    fig4: fig4.Fig4Config(levels=(0.0, 0.2, 1.5), n=8, replicates=3, instances=4),
    fig5: fig5.Fig5Config(agents=(2, 8, 32), levels=(0.02, 0.1, 0.4), replicates=4, instances=5),
    fig6: fig6.Fig6Config(n=20, level=0.5, replicates=8, instances=5),
    variance_regime: variance_regime.VarianceConfig(n=4, levels=(0.0, 0.2), per_decade=1),
}


def inverse(table: rc.Table) -> rc.Table:
    """Errors of Figure 5 that fall where they rose."""
    return rc.Table({**table, "mse": 1.0 / table["mse"]})


def columns_swapped(first: str, second: str) -> Change:
    """Two methods that have columns of their own have changed places."""
    return lambda table: rc.Table({**table, first: table[second], second: table[first]})


class TestFigures(rc.ExperimentSuite):
    small = SMALL
    wrong = ((fig5, "FACTOR", 0.1, "bound: largest error"),)
    contradicted = (
        *(
            (fig1, swapped("method", "AffPCL", rival), name)
            for rival, name in (
                ("FedAvg", "AffPCL / best rival"),
                ("Independent", "AffPCL / FedAvg"),
                ("Independent", "AffPCL / Independent, agent 1"),
            )
        ),
        *(
            (fig4, columns_swapped("AffPCL", rival), name)
            for rival, name in (
                ("Independent", "AffPCL / Independent, worst"),
                ("Independent", "slope of ln(Independent / AffPCL) against δ_env"),
                ("Independent", "slope of ln(Independent / AffPCL) against δ_obj"),
                ("FedAvg", "AffPCL / FedAvg, worst"),
            )
        ),
        (fig5, inverse, "smallest rise of ln MSE with 1/n"),
        (fig5, inverse, "smallest rise of ln MSE with δ"),
        (fig5, inverse, "exponent of 1"),
        *(
            (fig6, swapped("method", "AffPCL", "Independent"), name)
            for name in (
                "AffPCL / Independent, generic",
                "AffPCL / Independent, agent at",
                "that of the centre",
            )
        ),
        *(
            (variance_regime, swapped("method", "AffPCL", rival), name)
            for rival, name in (
                ("Independent", "AffPCL / Independent over"),
                ("Independent", "AffPCL / Independent at"),
                ("FedAvg", "AffPCL: exponent"),
                ("FedAvg", "bias floor"),
            )
        ),
    )
    exact = frozenset({variance_regime})
    slow = frozenset({fig1, fig4, fig6, variance_regime})


computed, analysed = TestFigures.table, TestFigures.analysed


def check(module: ModuleType, table: rc.Table, start: str) -> rc.Check:
    """The one check of a figure whose name begins like this."""
    (named,) = (c for c in analysed(module, table).checks if c.name.startswith(start))
    return named


def test_figure_4_hatches_and_leaves_out_what_is_unstable() -> None:
    analysis = analysed(fig4, computed(fig4))
    (unstable,) = (s for s in analysis.series if s.panel == fig4.UNSTABLE)
    assert np.asarray(unstable.y).tolist() == [0.0, 0.0, 1.0]  # labels 0, 0.2, 1.5
    assert any("worst of 6 cells" in c.name for c in analysis.checks)
    assert any("100% at δ_env = 1.5" in note for note in analysis.notes)
    # What happens in an unstable row changes no check; the same in a stable row does.
    table = computed(fig4)
    spoilt = {
        env: rc.Table(
            {**table, "AffPCL": table["AffPCL"] * np.where(table["env"] == env, 1e6, 1.0)}
        )
        for env in (1.5, 0.2)
    }
    assert analysed(fig4, spoilt[1.5]).checks == analysis.checks
    failing = {c.name[:8] for c in analysed(fig4, spoilt[0.2]).checks if c.ok is False}
    assert failing == {"AffPCL /"}


def test_figure_4_confirms_what_every_cell_confirms() -> None:
    def worst(*means: float) -> rc.Check:
        noise = 0.1 * np.array([-1.0, 1.0, -1.0, 1.0, 0.0, 0.0])
        loss = np.array(means)[None, :, None] + noise
        return fig4._always("rival", "cells", loss, np.zeros(1), np.arange(float(len(means))))

    spread = 0.1 * np.sqrt(0.8) / np.sqrt(6) * 2.570581836  # half of an uncorrected interval
    assert worst(*[-1.01 * spread] * 4).ok is True
    assert worst(*[-1.01 * spread] * 3, -0.99 * spread).ok is None
    assert worst(*[-1.01 * spread] * 3, 1.01 * spread).ok is None  # one of four, by luck
    assert worst(*[-1.01 * spread] * 3, 2.0 * spread).ok is False


@pytest.mark.parametrize(("corner", "q"), [(np.inf, 1.0), (1.0, 2.0), (2.0, 1.3)])
def test_figure_5_recovers_a_planted_shape(corner: float, q: float) -> None:
    agents, levels = np.array([2.0, 4, 8, 16, 32, 64]), np.geomspace(0.02, 0.8, 8)
    planted = fig5.Shape(-2.0, np.log(0.4), q, corner, 1.0)
    surface = planted.predict(agents, levels)
    shape = fig5.fit(agents, levels, surface, corner)
    assert [shape.log_a, shape.log_delta_0, shape.q] == pytest.approx([-2.0, np.log(0.4), q])
    assert shape.factor == pytest.approx(1.0)
    if np.isfinite(corner):
        assert fig5.fit(agents, levels, surface).r == pytest.approx(corner, rel=1e-4)
        assert fig5.fit(agents, levels, surface, np.inf).factor > 1.1


def planted_surface(kind: str) -> rc.Table:
    """Errors of Figure 5 in a world where the two terms combine in a known way."""
    config = fig5.Fig5Config(instances=6)
    n, level = np.array(config.agents)[:, None, None], np.array(config.levels)[:, None]
    share, far = 1.0 / n, (level / 0.4) ** 1.5
    r = {"maximum": 60.0, "sum": 1.0, "blunt": 0.1}.get(kind, 1.0)
    mse = share * far if kind == "product" else (share**r + far**r) ** (1 / r)
    noise = np.exp(0.02 * np.random.default_rng(0).standard_normal((n.size, level.size, 6)))
    axes = {"n": n.ravel(), "level": level.ravel(), "instance": np.arange(6)}
    return rc.Table(rc.long_table(axes, mse=mse * noise, true_env=level + 0 * noise))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "bound", "shape", "remark"),
    [
        ("maximum", True, True, "a maximum fits better"),
        ("sum", True, None, "a sum fits better"),
        ("blunt", False, False, "a sum fits better"),
        ("product", False, False, ""),
    ],
)
def test_figure_5_tells_a_maximum_a_sum_and_a_product_apart(
    kind: str, bound: bool, shape: bool | None, remark: str
) -> None:
    config = fig5.Fig5Config(instances=6)
    checks = {c.name.split(":")[0]: c for c in fig5.analyse(config, planted_surface(kind)).checks}
    assert (checks["bound"].ok, checks["shape"].ok) == (bound, shape)
    assert remark in checks["shape"].verdict


@given(st.integers(1, 6).map(lambda k: 2 * k), st.floats(0.0, 0.95), st.floats(0.0, 0.95))
def test_the_private_states_have_the_heterogeneity_they_state(
    n: int, env: float, obj: float
) -> None:
    system = variance_regime.private_states(n, env, obj)
    near = {"rel": 1e-12, "abs": 1e-14}
    assert float(delta_env(system)) == pytest.approx(env, **near)
    assert float(delta_obj(system, "weights")) == pytest.approx(obj, **near)
    assert np.asarray(delta_env_agent(system)) == pytest.approx((1 - 1 / n) * env, **near)
    assert np.asarray(chi2_agent(system)) == pytest.approx((n - 1) * env, **near)
    assert np.asarray(lambda_agent(system)) == pytest.approx(variance_regime.LAMBDA, **near)
    assert float(nu(system)) == pytest.approx(1.0, **near)
    assert system.x_star == pytest.approx(variance_regime.SCALE * system.theta, **near)


@pytest.mark.parametrize("level", [0.0, 0.3, 0.9])
def test_the_derived_ratio_is_that_of_every_agent(level: float) -> None:
    n, alpha = 4, 1e-7
    system = variance_regime.private_states(n, level, level)
    ours, alone = (
        exact_moments(system, variance_regime.METHODS[name]).stationary(alpha).error[0]
        for name in ("AffPCL", "Independent")
    )
    expected = variance_regime.leading_order(n, level)
    assert ours / alone == pytest.approx(expected, rel=1e-5)
    assert ours / alone != pytest.approx(expected - level**2 / n, rel=1e-5) or level == 0.0


def test_a_ratio_is_geometric_with_students_interval() -> None:
    ratio = rc.paired_ratio(np.array([2.0, 8.0, 2.0]), np.array([1.0, 1.0, 4.0]))
    logs = np.log([2.0, 8.0, 0.5])
    half = 4.302652729911275 * logs.std(ddof=1) / np.sqrt(3)  # Student's quantile at 2 degrees
    assert [ratio.value, ratio.lo, ratio.hi] == pytest.approx(
        np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
    )
    assert (ratio.below, ratio.instances) == (1, 3)


@pytest.mark.parametrize(
    ("interval", "as_below", "as_match", "as_bound"),
    [
        ((0.5, 0.4, 0.6), True, False, True),
        ((0.9, 0.8, 1.05), None, None, True),
        ((1.0, 0.95, 1.05), None, True, True),
        ((1.08, 1.02, 1.2), False, None, None),
        ((1.5, 1.4, 1.6), False, False, False),
    ],
)
def test_what_an_interval_says(
    interval: tuple[float, float, float],
    as_below: bool | None,
    as_match: bool | None,
    as_bound: bool | None,
) -> None:
    ratio = rc.Ratio(*interval, below=1, instances=2)
    said = {True: "confirmed", None: "not decided", False: "violated"}
    checks = [below("module", "below 1", ratio), matches("module", ratio), at_most("module", ratio)]
    for one, ok in zip(checks, (as_below, as_match, as_bound), strict=True):
        first, *_, last = one.verdict.split("; ")
        assert (one.ok, first, last) == (ok, said[ok], "below 1 in 1 of 2 instances")
    assert bool(understated("here", ratio)) == (ratio.hi < 1 / 1.1)


def test_the_interval_of_the_largest_mean_covers_it() -> None:
    """At risk 1e-6: in 2000 trials a true 95 % interval misses at most 153 times."""
    rng = np.random.default_rng(3)
    truth = np.array([0.0, 0.4, 0.5, 0.5, 0.5])
    missed = naive = 0
    for _ in range(2000):
        cells = truth[:, None] + rng.standard_normal((5, 6))
        largest = rc.largest_mean(cells)
        missed += not largest.lo <= 0.5 <= largest.hi
        best = rc.mean_interval(cells[cells.mean(axis=1).argmax()])  # mutation: no correction
        naive += not best.lo <= 0.5 <= best.hi
        assert largest.lo <= largest.value == cells.mean(axis=1).max() <= largest.hi
    assert missed <= 153 < naive


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (fig1.Fig1Config, {"levels": (0.3, 0.1)}, "`levels` must be at least 1 increasing"),
        (fig1.Fig1Config, {"instances": 2}, "`instances`"),
        (fig4.Fig4Config, {"levels": (0.0, 1.0)}, "`levels` must be at least 3 increasing"),
        (fig5.Fig5Config, {"levels": (0.0, 0.1, 0.2)}, "`levels` must be positive"),
        (fig5.Fig5Config, {"agents": (4, 2, 8)}, "`agents` must be at least 3 increasing"),
        (fig6.Fig6Config, {"level": -0.1}, "`level`"),
        (variance_regime.VarianceConfig, {"n": 5}, "`n` must be even"),
        (
            variance_regime.VarianceConfig,
            {"levels": (0.5, 1.0)},
            r"`levels` must be a number in \[0, 1\)",
        ),
    ],
)
def test_bad_options_are_named(
    config: type[rc.Config], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        config(**options)


@pytest.mark.slow
@pytest.mark.parametrize("module", [fig1, fig4, fig5, fig6])
def test_a_step_that_explodes_is_refused_with_the_bound_it_breaks(module: Any) -> None:
    config = replace(module.EXPERIMENT.profiles["quick"], alpha=0.5)
    first = module.EXPERIMENT.blocks(config)[0]
    with pytest.raises(InputError, match=r"step size beyond stability: .* must have a step below"):
        module.EXPERIMENT.compute(config, first, rc.Context(threads=1))
