"""P-ShareLoRA on reward models: the score head, the users' pairs, distances, and the claims."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from experiments._model import Context
from experiments._table import Table, long_table
from experiments.bridge import sharelora
from experiments.bridge._federated import PROPERTIES
from experiments.bridge.sharelora import HEADS, Headed, ShareConfig, spread
from linsys import InputError
from linsys.preference.sharelora import METHODS
from linsys.sketching.adapters import Modules
from lora_bridge.models import BuiltIn, built_in

TINY: dict[str, Any] = {
    "targets": ("q_proj", "down_proj"),
    "rank": 2,
    "users": 3,
    "pairs": 8,
    "tests": 6,
    "batch": 4,
    "epochs": 3.0,
    "seeds": 2,
    "gammas": (0.01,),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is made in no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return built_in("some text " * 20, BuiltIn(hidden=8, layers=1, heads=2, length=16, steps=2))


@pytest.mark.parametrize("shared", ["up", "down", "all", "none", "modules"])
def test_the_head_has_a_mask_of_its_own(shared: str) -> None:
    modules = Modules([(3, 2), (2, 4), (1, 4)])
    body = Headed(gamma=1.0, shared=shared).mask(Modules(modules.shapes[:-1]))
    for head, expected in (("shared", True), ("personal", False)):
        mask = Headed(gamma=1.0, shared=shared, head=head).mask(modules)
        assert mask[:-5].tolist() == body.tolist()
        assert mask[-5:].tolist() == [expected] * 5


@pytest.mark.parametrize("head", HEADS)
def test_training_moves_the_head_as_said(folder: Path, head: str) -> None:
    config = ShareConfig(**TINY, model=folder, head=head)
    drawn = sharelora._drawn(config, head, "test", 0)
    names = drawn.oracle.task.bank.names
    assert ("score" in names) is (head != "frozen")
    assert head == "frozen" or names[-1] == "score"
    algorithm = Headed(gamma=0.05, shared="up", epochs=2.0, head=head)
    modules = drawn.oracle.modules
    start = config.tensor(sharelora._start(algorithm, modules, config, 1))
    state, rejected = algorithm.run(algorithm.init(start, drawn.oracle))
    assert rejected == {}
    assert bool((start != state.X).any())
    if head != "frozen":
        B, A = modules.split(state.X)[-1]
        merged = (B @ A)[:, 0]
        assert bool((merged != 0).all())
        assert bool((merged[0] == merged[1]).all()) is (head == "shared")
    B, A = modules.split(state.X)[0]
    assert bool((B[0] == B[1]).all())
    assert not bool((A[0] == A[1]).all())


def test_the_answers_are_those_of_bradley_and_terry() -> None:
    config = ShareConfig(users=4, pairs=1, tests=1500, own=1.0, size=2.0)
    rng = np.random.default_rng(3)
    pairs, best = sharelora._pairs(config, rng)
    again = np.random.default_rng(3).normal(size=(5, len(PROPERTIES)))
    theta = again / np.linalg.norm(again, axis=1, keepdims=True)
    right, chance = [], []
    for i, own in enumerate(pairs.values()):
        for pair in own[: config.tests]:
            phi = [sharelora._properties(text) for text in (pair.chosen, pair.rejected)]
            gain = float(theta[i] @ (phi[0] - phi[1]))
            right.append(gain > 0)
            chance.append(1.0 / (1.0 + np.exp(-abs(gain))))
    assert best == pytest.approx(np.mean(right))
    deviation = np.sqrt(np.mean(np.multiply(chance, np.subtract(1, chance))) / len(right))
    assert abs(best - np.mean(chance)) < 4 * deviation
    assert 0.6 < best < 0.95


def test_users_without_wishes_of_their_own_agree() -> None:
    for own, expected in ((0.0, True), (1.0, False)):
        config = ShareConfig(users=2, pairs=1, tests=200, own=own, size=40.0)  # next to no chance
        pairs, best = sharelora._pairs(config, np.random.default_rng(0))
        assert best > 0.95
        first, second = (
            np.array(
                [np.subtract(*map(sharelora._properties, (p.chosen, p.rejected))) for p in own]
            )
            for own in pairs.values()
        )
        common = float(first.mean(0) @ second.mean(0))
        cosine = common / np.linalg.norm(first.mean(0)) / np.linalg.norm(second.mean(0))
        assert bool(cosine > 0.9) is expected


def test_distances_are_zero_for_the_same_and_one_for_random_factors() -> None:
    rng, modules, r = np.random.default_rng(0), Modules([(30, 20), (1, 20)]), 2
    X = rng.normal(size=(12, r, modules.width))
    assert spread(modules, X, r) == pytest.approx((1.0, 1.0), abs=0.05)
    same = X.copy()
    mixed = rng.normal(size=(12, r, r)) @ X[0]  # other factors of the same subspace
    same[..., :30] = mixed[..., :30]
    up, down = spread(modules, same, r)
    assert up == pytest.approx(0.0, abs=1e-9)
    assert down == pytest.approx(1.0, abs=0.05)
    X[..., :30] = 0.0
    assert np.isnan(spread(modules, X, r)[0])


def _table(config: ShareConfig) -> Table:
    parts = []
    for block in sharelora.blocks(config):
        columns = sharelora.compute(config, block, Context())
        rows = max(np.size(v) for v in columns.values())
        parts.append({k: np.broadcast_to(v, rows) for k, v in {**block, **columns}.items()})
    return Table({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


def test_the_experiment_from_the_users_to_the_picture(folder: Path) -> None:
    config = ShareConfig(**TINY, model=folder)
    table = _table(config)
    assert len(table.unique("method")) == len(METHODS)
    assert table.where(method="SI")["up"].max() < 1e-5  # one factor for all
    assert table.where(method="LoRA-global")["down"].max() < 1e-5
    assert table.where(method="LoRA-local")["down"].min() > 0.3
    assert len(table.where(method="SI")) == len(table)
    accuracy = table["accuracy"]
    assert set(np.round(6 * accuracy, 3) % 1) == {0.0}  # of six held-out pairs
    found = sharelora.analyse(config, table)
    assert len(found.checks) == 8
    assert any(folder.name in note for note in found.notes)
    axes = sharelora.draw(config, found).axes
    assert axes[0].get_title() == sharelora.MEAN
    assert len(axes) == 4


def _synthetic(config: ShareConfig, better: str) -> Table:
    rng, parts = np.random.default_rng(0), []
    for block in sharelora.blocks(config):
        shape = (config.seeds, config.users)
        accuracy = 0.6 + 0.01 * rng.random(shape) + 0.2 * (block["method"] == better)
        axes: dict[str, Any] = {"draw": np.arange(config.seeds), "user": np.arange(config.users)}
        parts.append(
            long_table(
                axes,
                **{name: accuracy for name in ("accuracy", "up", "down", "best", "missing")},
                **{key: np.array(value) for key, value in block.items()},
                gamma=0.1,
                what="",
            )
        )
    return Table({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


def test_the_claims_follow_the_accuracies() -> None:
    config = ShareConfig(seeds=3)
    ours = sharelora.analyse(config, _synthetic(config, "SI")).checks
    assert [check.ok for check in ours[:5]] == [True, True, True, False, False]
    theirs = sharelora.analyse(config, _synthetic(config, "LoRA-local")).checks
    assert theirs[1].ok is False


def test_pairs_of_a_file_go_to_their_users(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    records = [
        {"prompt": f"{i}: ", "chosen": user, "rejected": "no", "user": user}
        for user in ("ann", "bob", "cy")
        for i in range(9)
    ]
    file.write_text("\n".join(map(json.dumps, records)))
    config = ShareConfig(**TINY, model=folder, data=file)
    pairs, best = sharelora._pairs(config, np.random.default_rng(0))
    assert {user: {p.chosen for p in own} for user, own in pairs.items()} == {
        user: {user} for user in ("ann", "bob", "cy")
    }
    assert np.isnan(best)
    drawn = sharelora._drawn(config, "frozen", "test", 0)
    assert [drawn.oracle.task.size(i) for i in range(3)] == [3, 3, 3]
    assert "pairs.jsonl" in drawn.name
    for change, message in (({"users": 4}, "4 users"), ({"tests": 9}, "more than tests = 9")):
        with pytest.raises(InputError, match=message):
            sharelora._pairs(replace(config, **change), np.random.default_rng(0))


def test_bad_settings_are_named() -> None:
    for options, message in (
        ({"head": "lost"}, "`head`"),
        ({"own": 1.5}, "`own`"),
        ({"users": 1}, "`users`"),
        ({"epochs": 0.0}, "`epochs`"),
    ):
        with pytest.raises(InputError, match=message):
            ShareConfig(**options)
    with pytest.raises(InputError, match="`head`"):
        Headed(gamma=1.0, head="lost")
