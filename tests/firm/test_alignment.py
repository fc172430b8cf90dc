"""Gains of training that FIRM's figures divide by."""

from __future__ import annotations

import numpy as np
import pytest

import ratecheck as rc
from experiments.firm._comparison import advantage, gain, mean_gain
from experiments.firm.figures import fig1, fig3
from linsys import InputError


def trained(rise: float) -> rc.Table:
    """Three instances of one setting whose rewards rise by 1/2 but for one, by ``rise``."""
    curve = np.array([0.5, rise, 0.5])[:, None, None] * np.array([0.0, 1.0]) + np.zeros(
        (1, 3, 2, 2)
    )
    axes = {"arm": ["ours"], "instance": range(3), "replicate": range(2), "t": range(2)}
    named = {key: np.asarray(list(value)) for key, value in axes.items()}
    return rc.Table(rc.long_table(named, reward_1=curve, reward_2=curve))


def test_gains_are_those_of_the_curves() -> None:
    np.testing.assert_allclose(mean_gain(trained(-0.25), "ours"), [0.5, -0.25, 0.5])


def test_who_gains_more_has_the_advantage_also_where_the_other_loses() -> None:
    axes = {"arm": ["ours", "theirs"], "instance": range(3), "replicate": range(2), "t": range(2)}
    ends = np.array([[0.1, 0.1, 0.1], [-0.2, -0.2, -0.2]])[:, :, None, None]
    curves = ends * np.array([0.0, 1.0]) + np.zeros((2, 3, 2, 2))
    named = {key: np.asarray(list(value)) for key, value in axes.items()}
    table = rc.Table(rc.long_table(named, reward_1=curves, reward_2=curves))
    assert advantage(table, 1, "ours", "theirs").value == pytest.approx(1.5)
    assert advantage(table, 1, "theirs", "ours").value == pytest.approx(-3.0)


@pytest.mark.parametrize("rise", [0.0, 1e-15])
def test_training_that_adds_nothing_is_no_scale(rise: float) -> None:
    table = trained(rise)
    assert gain(table, 1, "ours")[1] == rise
    with pytest.raises(InputError, match=r"`alpha` and `rounds` must be large enough .* for ours"):
        advantage(table, 1, "ours", "ours")


def settings(names: list[str], first: list[float], second: list[float]) -> rc.Table:
    """Three instances of settings in which the two rewards rise by so much."""
    axes = {
        "arm": np.array(names),
        "instance": np.arange(3),
        "replicate": np.arange(2),
        "t": np.arange(2),
    }
    one, two = (
        np.array(rises)[:, None, None, None] * np.array([0.0, 1.0]) + np.zeros((1, 3, 2, 2))
        for rises in (first, second)
    )
    return rc.Table(rc.long_table(axes, reward_1=one, reward_2=two, weight=0.5))


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [(0.3, 0.2, 1.5), (-0.1, 0.2, -0.5), (-0.4, -0.2, 0.0), (0.2, -0.2, 3.0), (-0.2, -0.2, 1.0)],
)
def test_who_loses_more_has_the_smaller_ratio(ours: float, theirs: float, expected: float) -> None:
    table = settings([fig1.FIRM, fig1.SERVER], [ours, theirs], [ours, theirs])
    assert fig1.mean_gain_ratio(table).value == pytest.approx(expected, abs=1e-12)


def test_a_reward_that_rises_with_its_preference_does_so_where_training_loses() -> None:
    config = fig3.Fig3Config(preferences=(0.25, 0.5, 0.75), instances=3, replicates=2)
    arms = [fig3.arm(method, p) for method in fig3.METHODS for p in config.preferences]
    table = settings(arms, [-0.3, -0.2, -0.1] * 2, [-0.1, -0.2, -0.3] * 2)
    increases = [c for c in fig3.analyse(config, table).checks if "smallest increase" in c.name]
    assert [(c.ok, c.measured) for c in increases] == [(True, pytest.approx(0.5))] * 2
