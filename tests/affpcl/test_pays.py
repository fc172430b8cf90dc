"""When collaboration pays: the drawn systems are as stated, and what is said of them can fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.affpcl.figures import pays
from linsys.heterogeneity import G_A, delta_env, delta_obj
from tests._small_runs import times

CONFIG = pays.PaysConfig(n=4, deltas=(0.0, 0.2, 1.0), systems=4)
SMALL: dict[ModuleType, Any] = {pays: CONFIG}


class TestPays(rc.ExperimentSuite):
    small = SMALL
    wrong = ((pays, "SPEED_UP", 0.5, "speed-up / n"),)
    contradicted = ((pays, times(4.0, "ratio", delta=0.2), "every system"),)


@pytest.mark.parametrize("kappa", [1.0, 100.0])
def test_a_system_is_as_different_as_delta_says(kappa: float) -> None:
    config = replace(CONFIG, kappa=kappa)
    env, obj = [], []
    for delta in (0.0, 0.25, 0.5, 1.0):
        system = pays.drawn(config, 1, delta)
        assert float(G_A(system)) <= 1.0 + 1e-12
        assert np.linalg.eigvalsh(system.A).min() > 0.0
        assert (np.linalg.norm(system.theta, axis=1) <= 1.0 + 1e-12).all()
        env.append(float(delta_env(system)))
        obj.append(float(delta_obj(system, "weights")))
    # environments are mixtures: their distance is proportional to delta
    assert env == pytest.approx([env[-1] * delta for delta in (0.0, 0.25, 0.5, 1.0)], abs=1e-12)
    assert obj[0] == pytest.approx(0.0, abs=1e-12)
    assert obj == sorted(obj)
    assert env[-1] > 0.1
    assert obj[-1] > 0.1


def test_agents_are_the_same_at_every_n_and_kappa() -> None:
    few, many = (pays.drawn(replace(CONFIG, n=n), 2, 0.5) for n in (2, 5))
    np.testing.assert_array_equal(few.mu, many.mu[:2])
    np.testing.assert_array_equal(few.theta, many.theta[:2])
    narrow = pays.drawn(replace(CONFIG, kappa=1.0), 2, 0.5)
    scales = np.diag([1.0, CONFIG.kappa**-0.5])
    np.testing.assert_allclose(scales @ narrow.A @ scales, few.A, rtol=0, atol=1e-15)


@pytest.mark.slow
def test_the_page_on_sweeps_has_these_numbers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith("| 10 | 8 |"))
    said = [cell.strip() for cell in row.strip("|").split("|")][2:]
    for delta, cell in ((0.25, said[1]), (1.0, said[4])):
        config = pays.PaysConfig(n=8, kappa=10.0, t=1e3, deltas=(delta,), systems=1)
        ratios = []
        for seed in range(122):
            given = replace(config, seed=seed), {"delta": delta}, rc.Context()
            ratios.append(pays.compute(*given)["ratio"][0])
        share = np.mean(np.array(ratios) < 1.0)
        assert cell == f"{np.median(ratios):.3f}, {share:.0%}".replace("%", " %")


def test_equal_agents_gain_n_and_strangers_nothing() -> None:
    table = TestPays.table(pays)
    alike = table.where(delta=0.0)
    assert alike["ratio"] == pytest.approx(np.full(4, 0.25), rel=pays.SLACK)
    assert alike["predicted"] == pytest.approx(np.full(4, 0.25), rel=1e-12)
    assert (table["pays"] == (table["ratio"] < 1.0)).all()
    assert np.median(table.where(delta=1.0)["ratio"]) > 0.5
