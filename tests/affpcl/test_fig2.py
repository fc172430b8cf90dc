"""Figure 2: users, curves, the caption's checks, FEMNIST by path."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.affpcl.figures import fig2
from experiments.affpcl.figures._characters import CURVED, digits_source, femnist_source
from experiments.affpcl.figures._images import CHARACTERS, PIXELS
from experiments.affpcl.figures.fig2 import (
    EXPERIMENT,
    MARGIN,
    METHODS,
    Fig2Config,
    analyse,
    blocks,
    compute,
    draw,
)
from linsys import InputError
from tests._small_runs import table_of, times

SMALL = Fig2Config(deltas=(0.0, 1.0), rounds=10, replicates=2, agents=3)
DIGITS: dict[str, Any] = {
    "features": 32,
    "norm": 10.0,
    "pretraining": 600,
    "samples": 90,
    "mix": 5.0,
    "agents": 10,
}


CONFIGURATIONS = {fig2: SMALL}


class TestFigure(rc.ExperimentSuite):
    small = CONFIGURATIONS
    loose = frozenset({fig2})
    slow = frozenset({fig2})
    contradicted = (
        (fig2, times(10.0, "mse", method="AffPCL"), "AffPCL / Independent at delta = 0"),
        (fig2, times(0.1, "mse", method="FedAvg", delta=1.0), "AffPCL / FedAvg at delta = 1"),
    )


def one(config: Fig2Config) -> Any:
    return compute(config, {"delta": 0.0, "first_replicate": 0}, rc.Context())


# Users


def test_users_hold_disjoint_images_and_are_tested_on_others() -> None:
    source = digits_source(**DIGITS)
    # every image's features are distinct, so they identify it
    assert len(np.unique(source.features, axis=0)) == len(source.features) == 1197
    users = source.draw(np.random.default_rng(0), 10)
    held = np.concatenate([u.features for u in users])
    both = np.concatenate([held, users[0].test_features])
    assert len(held) == 900
    assert len(np.unique(both, axis=0)) == len(both) == 1197
    assert len({len(u.labels) for u in users}) > 1  # class mixes, hence numbers, differ


def test_test_images_are_weighted_to_the_users_class_mix() -> None:
    user = digits_source(**DIGITS).draw(np.random.default_rng(1), 10)[3]
    own = np.bincount(user.labels, minlength=10) / len(user.labels)
    weighted = np.bincount(user.test_labels, user.test_weights, minlength=10)
    np.testing.assert_allclose(weighted / weighted.sum(), own, rtol=1e-12)
    plain = np.bincount(user.test_labels, minlength=10) / len(user.test_labels)
    assert np.abs(plain - own).max() > 0.02


def test_a_large_concentration_gives_the_same_class_mix() -> None:
    for mix, same in ((5.0, False), (1e9, True)):
        users = digits_source(**{**DIGITS, "mix": mix}).draw(np.random.default_rng(2), 10)
        counts = np.array([np.bincount(u.labels, minlength=10) for u in users])
        assert (np.ptp(counts, axis=0).max() <= 1) == same


def test_properties_of_digits_and_letters() -> None:
    even, loop = digits_source(**DIGITS).properties.T
    assert np.flatnonzero(even).tolist() == [0, 2, 4, 6, 8]
    assert np.flatnonzero(loop).tolist() == [0, 6, 8, 9]
    assert set(CURVED) <= set(CHARACTERS[10:])


@pytest.mark.parametrize("same", [True, False])
def test_a_level_has_the_users_and_samples_of_every_other(same: bool) -> None:
    """Only the targets move with the level, and linearly.

    All methods are linear in the targets, so that every test error is a quadratic in the level,
    whose third differences vanish; a level with users or minibatches of its own breaks that.
    """
    levels = (0.0, 0.25, 0.5, 0.75)
    errors = []
    for k, delta in enumerate(levels):
        config = SMALL if same or k else replace(SMALL, seed=1)
        errors.append(compute(config, {"delta": delta, "first_replicate": 0}, rc.Context())["mse"])
    third = np.diff(np.array(errors), n=3, axis=0)
    assert (np.abs(third).max() < 1e-13) == same


# Curves


def test_blocks_cover_levels_and_replicates() -> None:
    config = replace(SMALL, replicates=12)
    work = blocks(config)
    assert [(b["delta"], b["first_replicate"]) for b in work] == [(0, 0), (0, 10), (1, 0), (1, 10)]
    last = compute(config, work[1], rc.Context())
    assert np.unique(last["replicate"]).tolist() == [10, 11]
    assert np.unique(last["round"])[[0, -1]].tolist() == [0, 10]
    assert np.unique(last["method"]).tolist() == sorted(METHODS)


def test_all_methods_start_at_the_mean_square_of_the_targets() -> None:
    table = TestFigure.table(fig2)
    for delta in SMALL.deltas:
        start = table.where(delta=delta, round=0).grid("mse", "method", "replicate")
        np.testing.assert_array_equal(start, start[:1].repeat(3, axis=0))
        assert 0.2 < start.mean() < 0.6


@pytest.mark.slow
def test_long_runs_reach_the_stated_limits() -> None:
    """Up to (alpha E|phi|^2 / 2 B)^(1/2) = 3 %, the size of fluctuations from the step noise.

    With the ridge 500 rounds are long: all directions shrink by (1 - alpha ridge)^500 < 0.7 %.
    """
    config = replace(SMALL, deltas=(1.0,), alpha=0.02, ridge=0.5, rounds=500, class_mix=1e6)
    config = replace(config, samples_per_user=60, batch_size=1000, samples_per_round=1000)
    table = table_of(fig2, config).where(round=500)
    mse, limit = (table.grid(v, "method", "replicate").mean(1) for v in ("mse", "limit"))
    np.testing.assert_allclose(mse, limit, rtol=0.03)
    # no two limits are that close, so that none could stand for another
    assert (np.diff(np.sort(limit)) > 0.1 * limit.min()).all()


@pytest.mark.parametrize("objective", ["properties", "classes"])
def test_affpcl_matches_fedavg_at_level_zero_and_independent_learning_does_not(
    objective: Any,
) -> None:
    config = replace(SMALL, rounds=120, deltas=(0.0,), objective=objective, agents=10)
    late = table_of(fig2, config).where(round=120).grid("mse", "method", "replicate").mean(1)
    affpcl, fedavg, independent = late
    assert abs(affpcl / fedavg - 1.0) < MARGIN
    assert independent / affpcl > 1.0 + MARGIN


def test_local_batches() -> None:
    assert (SMALL.local_steps, SMALL.step_samples) == (2, 32)
    equal = replace(SMALL, batches="equal")
    assert (equal.local_steps, equal.step_samples) == (2, 35)
    assert (replace(SMALL, samples_per_round=32)).local_steps == 1


# Checks and the picture


def synthetic(affpcl: float, independent: float, fedavg: float, level: float) -> dict[str, Any]:
    """A level's table with given errors from the first round on, up to noise."""
    rng = np.random.default_rng(0)
    rounds = np.linspace(0, 400, 41).astype(int)
    values = np.array([affpcl, independent, fedavg])[None, :, None]
    noise = 1 + 1e-4 * rng.standard_normal((30, 3, 41))
    axes = {"replicate": np.arange(30), "method": np.array(list(METHODS)), "round": rounds}
    return rc.long_table(axes, mse=values * noise, limit=values, delta=level)


def judged(*levels: tuple[float, float, float]) -> rc.Analysis:
    deltas = (0.0, 1.0)
    parts = [synthetic(*errors, delta) for errors, delta in zip(levels, deltas, strict=True)]
    table = rc.Table({k: np.concatenate([p[k] for p in parts]) for k in parts[0]})
    return analyse(Fig2Config(deltas=deltas), table)


def test_checks_hold_when_the_caption_does() -> None:
    checks = judged((1.0, 1.2, 1.0), (1.0, 1.1, 1.3))
    assert [c.name for c in checks.checks] == [
        "AffPCL / Independent at delta = 0",
        "AffPCL / FedAvg at delta = 0",
        "FedAvg / Independent at delta = 0",
        "AffPCL / Independent at delta = 1",
        "AffPCL / FedAvg at delta = 1",
        "Independent / FedAvg at delta = 1",
    ]
    assert all(c.ok for c in checks.checks)
    assert checks.checks[0].measured == pytest.approx(1 / 1.2, rel=1e-3)


@pytest.mark.parametrize(
    ("levels", "failing", "open_"),
    [
        (((1.0, 0.9, 1.0), (1.0, 1.1, 1.3)), {0, 2}, set()),
        (((1.0, 1.2, 0.9), (1.0, 1.1, 1.3)), {1}, set()),
        (((1.0, 1.2, 1.1), (1.0, 1.1, 1.3)), {1}, set()),
        (((1.0, 1.2, 1.0), (1.0, 0.9, 1.3)), {3}, set()),
        (((1.0, 1.2, 1.0), (1.0, 1.1, 0.9)), {4, 5}, set()),
        (((1.0, 1.2, 1.0), (1.0, 1.3, 1.2)), {5}, set()),
        (((1.0, 1.0, 1.0), (1.0, 1.1, 1.3)), set(), {0, 2}),  # no difference is neither
    ],
)
def test_checks_fail_when_the_caption_does(levels: Any, failing: set[int], open_: set[int]) -> None:
    checks = judged(*levels)
    assert {k for k, c in enumerate(checks.checks) if c.ok is False} == failing
    assert {k for k, c in enumerate(checks.checks) if c.ok is None} == open_


def test_the_picture_has_two_rows() -> None:
    analysis = analyse(SMALL, TestFigure.table(fig2))
    with rc.style():
        figure = draw(SMALL, analysis)
        assert len(figure.axes) == 4
        assert [ax.get_yscale() for ax in figure.axes] == ["log", "log", "linear", "linear"]
    assert {s.panel for s in analysis.series if s.name == "AffPCL"} == {"δ = 0", "δ = 1"}
    assert len(analysis.notes) == 3


# FEMNIST


def leaf_file(path: Path, users: int, samples: int) -> Path:
    """Images in which a character's label can be seen, so that a network has something to learn."""
    rng = np.random.default_rng(0)
    shapes = rng.random((62, PIXELS))
    data = {}
    for i in range(users):
        labels = rng.integers(0, 62, samples)
        images = np.clip(shapes[labels] + 0.3 * rng.standard_normal((samples, PIXELS)), 0, 1)
        data[f"f{i:02d}"] = {"x": images.round(2).tolist(), "y": labels.tolist()}
    content = {"users": list(data), "num_samples": [samples] * users, "user_data": data}
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(scope="module")
def femnist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return leaf_file(tmp_path_factory.mktemp("leaf") / "all_data.json", users=5, samples=40)


def test_femnist_runs_through_the_same_code(femnist: Path) -> None:
    config = replace(SMALL, femnist=femnist, features=8, pretraining=60, rounds=40)
    analysis = analyse(config, table_of(fig2, config))
    ours = next(s for s in analysis.series if s.name == "AffPCL")
    assert ours.y[-1] < 0.5 * ours.y[0]
    assert "femnist" in config.to_dict()


def test_femnist_pretrains_on_writers_that_are_no_users(femnist: Path) -> None:
    options: dict[str, Any] = {"features": 8, "norm": 10.0, "samples": None, "agents": 3}
    source = femnist_source(femnist, pretraining=60, **options)
    assert len(source.writers) == 3  # 60 images are the first two of five writers
    assert len(femnist_source(femnist, pretraining=40, **options).writers) == 4
    assert len(femnist_source(femnist, pretraining=10_000, **options).writers) == 3
    users = source.draw(np.random.default_rng(0), 3)
    for user in users:
        assert (len(user.labels), len(user.test_labels)) == (30, 10)
        both = np.concatenate([user.features, user.test_features])
        assert len(np.unique(both, axis=0)) == 40
    digit, curved = source.properties.T
    assert digit.sum() == 10
    assert curved.sum() == len(CURVED)
    assert (digit * curved).sum() == 0


# Bad input

BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "delta": (lambda: Fig2Config(deltas=(1.5,)), r"`deltas` must be a number in \[0, 1\]"),
    "twice": (lambda: Fig2Config(deltas=(0.2, 0.2)), "`deltas` must be distinct"),
    "none": (lambda: Fig2Config(deltas=()), "`deltas` must be at least 1 value"),
    "alpha": (lambda: Fig2Config(alpha=0.0), "`alpha` must be a number"),
    "agents": (lambda: Fig2Config(agents=1), "`agents` must be a whole number of at least 2"),
    "batch": (lambda: Fig2Config(batch_size=80), "`samples_per_round` must be a whole number of"),
    "features": (lambda: Fig2Config(features=0), "`features` must be a whole number"),
    "mix": (lambda: Fig2Config(class_mix=0.0), "`class_mix` must be a number"),
    "writers": (
        lambda: Fig2Config(femnist=Path("x.json"), class_mix=1.0),
        "`class_mix` must be none for FEMNIST",
    ),
    "stability": (
        lambda: one(replace(SMALL, alpha=0.5)),
        r"`alpha` must be below 2 / lambda_max = 0\.0\d+ for stability; found 0.5",
    ),
    "samples": (
        lambda: one(replace(SMALL, samples_per_user=500)),
        "images to test on must be at most 1797; found 2200",
    ),
    "singular": (lambda: one(replace(SMALL, samples_per_user=12)), "of agent 0 must be positive"),
    "file": (lambda: one(replace(SMALL, femnist=Path("none.json"))), "LEAF file must exist"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(case: str) -> None:
    call, text = BAD[case]
    with pytest.raises(InputError, match=text) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_too_few_writers(femnist: Path) -> None:
    config = replace(SMALL, femnist=femnist, features=8, agents=5)
    with pytest.raises(
        InputError, match="at least 6 users with 14 samples or more; found 5 among 5"
    ):
        one(config)


def test_it_is_what_the_registry_expects() -> None:
    assert EXPERIMENT.id == "affpcl/fig2"
    assert EXPERIMENT.profiles["paper"].replicates > EXPERIMENT.profiles["quick"].replicates
