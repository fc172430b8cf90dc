"""FSLoRA on language models: what devices have, what is sent, and what the checks are made of."""

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
from experiments.bridge import _federated, fslora, fslora_budget
from experiments.bridge._federated import PROPERTIES, DeviceConfig, questions
from experiments.bridge.fslora import FSLoRAConfig
from experiments.bridge.fslora_budget import BudgetConfig
from linsys import InputError
from lora_bridge.models import BuiltIn, built_in
from lora_bridge.splits import by_key

TINY: dict[str, Any] = {
    "targets": ("q_proj", "lm_head"),
    "rank": 4,
    "ratios": (0.25, 0.5),
    "devices": 3,
    "samples": 8,
    "tests": 6,
    "batch": 2,
    "local_steps": 2,
    "seeds": 2,
    "gammas": (0.01,),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is made in no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return built_in("some text " * 20, BuiltIn(hidden=8, layers=1, heads=2, length=16, steps=2))


def _table(module: Any, config: Any) -> Table:
    parts = []
    for block in module.blocks(config):
        columns = module.compute(config, block, Context())
        rows = max(np.size(v) for v in columns.values())
        parts.append({k: np.broadcast_to(v, rows) for k, v in {**block, **columns}.items()})
    return Table({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


def test_questions_are_answered_by_their_property() -> None:
    for domain, asked in PROPERTIES.items():
        made = questions(domain, 40, np.random.default_rng(0))
        assert [e.target for e in made] == ["no", "yes"] * 20
        assert all(asked(e.prompt.split()[0]) == (e.target == "yes") for e in made)
        assert {e.domain for e in made} == {domain}


def test_devices_share_all_samples_and_seeds_differ(folder: Path) -> None:
    config = DeviceConfig(**TINY, model=folder)
    one, other = config.draw("test", 0), config.draw("test", 1)
    assert one is config.draw("test", 0)
    assert sum(one.oracle.task.size(i) for i in range(3)) == 3 * 8
    assert list(one.tests) == list(PROPERTIES)
    first, second = (d.oracle.task.shards[0]["input_ids"] for d in (one, other))
    assert first.shape != second.shape or bool((first != second).any())


def test_the_judge_is_the_mean_over_questions(folder: Path) -> None:
    config = DeviceConfig(**{**TINY, "tests": 7}, model=folder)
    drawn = config.draw("test", 0)
    algorithm = fslora.FSLoRA(gamma=0.1, H=1, ranks=[4] * 3)
    start = config.tensor(drawn.oracle.modules.start(4, np.random.default_rng(0)))
    state = algorithm.init(start, drawn.oracle)
    whole = drawn.judge(state)
    test = drawn.tests["long"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_federated, "_AT_ONCE", 3)
        np.testing.assert_allclose(drawn.judge(state), whole, rtol=1e-5)
    from lora_bridge.losses import choice_error

    batch = {name: value[None] for name, value in test.items()}
    error = drawn.oracle.task.bank.losses(start[None], batch, choice_error)
    assert whole[0, 1] == pytest.approx(1.0 - float(error))
    assert (whole[:, 0] > 0).all()


def test_all_methods_send_what_their_ranks_say(folder: Path) -> None:
    config = FSLoRAConfig(
        **TINY, model=folder, rounds=2, points=1, k=1, global_ranks=(1, 4), levels=(0.5,)
    )
    table = _table(fslora, config)
    width = config.draw("test", 0).oracle.modules.width
    ranks = np.array([1, 2, 1])
    for name, sent, received in (
        (fslora.OURS, ranks.mean(), ranks.mean()),
        ("FedStackLoRA", ranks.mean(), ranks.sum()),
        (fslora.WHOLE, 4, 4),
    ):
        part = table.where(method=name, r=4, k=4 if name == fslora.WHOLE else 0, t=2)
        assert part["up"] == pytest.approx(2 * sent * 4 * width)
        assert part["down"] == pytest.approx(2 * received * 4 * width)
    start = table.where(t=0)
    for seed in (0, 1):  # B = 0: where all begin is the same
        losses = start.where(draw=seed, r=4, domain="long")["loss"]
        assert np.allclose(losses, losses[0])
    assert not np.allclose(table.where(t=2)["loss"], table.where(t=0)["loss"])
    found = fslora.analyse(config, table)
    assert len(found.checks) == 6
    assert any("megabytes" in note for note in found.notes)
    assert any(folder.name in note for note in found.notes)
    assert fslora.draw(config, found).axes[1].get_yscale() == "log"


def _synthetic(config: FSLoRAConfig, better: str) -> Table:
    """A table in which one method ends above all others."""
    rng, parts = np.random.default_rng(0), []
    for block in fslora.blocks(config):
        shape = (config.seeds, len(config.times), 2)
        accuracy = 0.5 + 0.01 * rng.random(shape) + 0.3 * (block["method"] == better)
        axes: dict[str, Any] = {
            "draw": np.arange(config.seeds),
            "t": config.times,
            "domain": ["a", "b"],
        }
        parts.append(
            long_table(
                axes,
                **{name: accuracy for name in ("accuracy", "loss", "up", "down", "missing")},
                **{key: np.array(value) for key, value in block.items()},
                gamma=0.1,
                what="",
            )
        )
    return Table({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


def test_the_claims_follow_the_accuracies() -> None:
    config = FSLoRAConfig(seeds=3)
    ours = fslora.analyse(config, _synthetic(config, fslora.OURS)).checks
    assert [check.ok for check in ours[:4]] == [False, True, True, True]
    flex = fslora.analyse(config, _synthetic(config, "FlexLoRA")).checks
    assert [check.ok for check in flex[:2]] == [True, False]


def test_arms_of_a_budget_send_the_same(folder: Path) -> None:
    config = BudgetConfig(**TINY, model=folder, levels=(0.5,), budget=2, points=2)
    table = _table(fslora_budget, config)
    found = fslora_budget.analyse(config, table)
    width = config.draw("test", 0).oracle.modules.width
    for series in found.series:
        assert series.x[-1] == pytest.approx(2 * 4 * 4 * width / 1e6, rel=0.01)
    assert found.checks[0].ok is True
    assert len(found.checks) == 4
    half = Table({**table, "up": np.where(table["level"] == 0.5, 0.5, 1.0) * table["up"]})
    assert fslora_budget.analyse(config, half).checks[0].ok is False
    assert len(fslora_budget.draw(config, found).axes) == 2


def test_of_several_step_sizes_the_best_is_taken() -> None:
    config = DeviceConfig(gammas=(0.1, 1.0, 10.0), tuning=2)
    assert config.best(lambda gamma, k: abs(gamma - 1.0) + k) == 1.0
    assert config.best(lambda gamma, k: np.nan if gamma == 0.1 else gamma) == 1.0
    with pytest.raises(InputError, match="`gammas` must hold one that trains"):
        config.best(lambda gamma, k: np.nan)


def test_a_file_of_one_domain_is_dealt_by_answers(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "facts_train.json"
    records = [
        {"instruction": f"Is {i} even? Answer format: true/false", "answer": answer}
        for i, answer in enumerate(["true", "false"] * 40)
    ]
    file.write_text(json.dumps(records))
    config = DeviceConfig(**{**TINY, "concentration": 1e-3}, model=folder, data=file)
    drawn = config.draw("test", 0)
    assert list(drawn.tests) == ["facts"]
    assert len(drawn.tests["facts"]["answer"]) == 6
    shares, _ = _federated._examples(config, 1)
    key = _federated._domain(shares)
    assert set(by_key(shares, key)) == {"true", "false"}
    assert "facts_train.json" in drawn.name
    with pytest.raises(InputError, match="more than tests = 80"):
        replace(config, tests=80).draw("test", 0)
    file.write_text(json.dumps([{"instruction": "Say hello.", "output": "hello"}] * 9))
    with pytest.raises(InputError, match="choices in all questions"):
        replace(config, seed=1).draw("test", 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratios": (0.3,)}, "must be whole ranks"),
        ({"ratios": ()}, "at least one ratio"),
        ({"gammas": ()}, "at least one step size"),
        ({"seeds": 1}, "`seeds`"),
        ({"concentration": 0.0}, "`concentration`"),
    ],
)
def test_bad_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DeviceConfig(**options)


def test_bad_arms_are_named() -> None:
    with pytest.raises(InputError, match="at least k = 4"):
        FSLoRAConfig(global_ranks=(2,))
    with pytest.raises(InputError, match="must be 1/2, 1/3"):
        BudgetConfig(levels=(0.75,))
    with pytest.raises(InputError, match="increasing"):
        BudgetConfig(levels=(0.5, 0.25))
