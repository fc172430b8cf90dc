"""FSLoRA on language models: what devices have, what is sent, and what the checks are made of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc

pytest.importorskip("torch")


from experiments.bridge import devices, questions as generated
from experiments.bridge.devices import ComparedConfig, DeviceConfig, DeviceSetup
from experiments.bridge.questions import PROPERTIES, questions
from experiments.bridge.readings import CLAIMED, claim, reach
from experiments.fslora.bridge import fslora, fslora_budget, fslora_table
from experiments.fslora.bridge.fslora import FSLoRAConfig
from experiments.fslora.bridge.fslora_budget import BudgetConfig
from experiments.fslora.bridge.fslora_table import TableConfig
from linsys import InputError
from linsys.optimizers import AdamW
from lora_bridge.splits import by_key
from tests._small_runs import ahead, on_model, table_of, times

DEVICES: dict[str, Any] = {
    "targets": ("q_proj", "lm_head"),
    "rank": 4,
    "devices": 3,
    "samples": 8,
    "tests": 6,
    "batch": 2,
    "local_steps": 2,
    "seeds": 2,
}
COMPARED: dict[str, Any] = {**DEVICES, "gammas": (0.01,)}
TINY: dict[str, Any] = {**COMPARED, "ratios": (0.25, 0.5)}
#: The paper's profiles, shrunk; with the dropout that they have.
SHRUNK: dict[str, Any] = {"dtype": "float32", "device": "cpu", "max_length": 64}
SMALL: dict[ModuleType, Any] = {
    module: replace(module.EXPERIMENT.profiles["paper"], **SHRUNK, **sizes)
    for module, sizes in (
        (
            fslora,
            {**TINY, "rounds": 2, "points": 1, "k": 1, "global_ranks": (1, 4), "levels": (0.5,)},
        ),
        (
            fslora_budget,
            {**COMPARED, "global_ranks": (2, 4), "levels": (0.25, 0.5), "budget": 2, "points": 2},
        ),
        (fslora_table, {**TINY, "rounds": 1}),
    )
}


class TestBridge(rc.ExperimentSuite):
    small = SMALL
    loose = tuple(SMALL)
    contradicted = (
        *(
            (fslora, times(10.0, column, method=fslora.OURS), part)
            for column, part in (("up", "bytes"), ("down", "bytes"), ("moved", "way of an entry"))
        ),
        (fslora, ahead(-0.1, "accuracy", method=fslora.OURS), "FSLoRA above FlexLoRA"),
        (fslora_budget, times(10.0, "up", level=0.5), "bytes"),
        (fslora_budget, times(10.0, "moved", level=0.5), "way of an entry"),
        (fslora_table, times(10.0, "up", method=fslora.OURS), "bytes"),
        (fslora_table, ahead(-0.1, "accuracy", method=fslora.OURS), "above HeteroLoRA, average"),
    )
    slow = frozenset({fslora, fslora_budget})


_model = on_model(TestBridge)


@pytest.mark.slow
@pytest.mark.parametrize("module", list(SMALL))
def test_what_is_derived_holds_with_dropout(module: Any) -> None:
    assert SMALL[module].dropout > 0
    derived = [c for c in TestBridge.analysed(module).checks if c.predicted != CLAIMED]
    assert derived
    assert all(check.ok for check in derived)


def test_questions_are_answered_by_their_property() -> None:
    for domain, asked in PROPERTIES.items():
        made = questions(domain, 40, np.random.default_rng(0))
        assert [e.target for e in made] == ["no", "yes"] * 20
        assert all(asked(e.prompt.split()[0]) == (e.target == "yes") for e in made)
        assert {e.domain for e in made} == {domain}


def test_devices_share_all_samples_and_seeds_differ(model_folder: Path) -> None:
    config = DeviceConfig(**DEVICES, model=model_folder)
    setup = DeviceSetup(config)
    one, *others = (setup.draw(*draw) for draw in (("test", 0), ("test", 1), ("tuning", 0)))
    assert one is DeviceSetup(config).draw("test", 0)
    assert sum(one.oracle.task.size(i) for i in range(3)) == 3 * 8
    assert list(one.tests) == list(PROPERTIES)
    first, *rest = (d.oracle.task.shards[0]["input_ids"] for d in (one, *others))
    for second in rest:
        assert first.shape != second.shape or bool((first != second).any())


def test_the_judge_is_the_mean_over_questions(model_folder: Path) -> None:
    config = DeviceConfig(**{**DEVICES, "tests": 7}, model=model_folder)
    setup = DeviceSetup(config)
    drawn = setup.draw("test", 0)
    algorithm = fslora.FSLoRA(gamma=0.1, H=1, ranks=[4] * 3)
    start = setup.tensor(drawn.oracle.modules.start(4, np.random.default_rng(0)))
    state = algorithm.init(start, drawn.oracle)
    whole = drawn.judge(state)
    [test] = drawn.tests["long"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "_AT_ONCE", 3)
        np.testing.assert_allclose(drawn.judge(state), whole, rtol=1e-5)
    from lora_bridge.losses import choice_error

    batch = {name: value[None] for name, value in test.items()}
    error = drawn.oracle.task.bank.losses(start[None], batch, choice_error)
    assert whole[0, 1] == pytest.approx(1.0 - float(error))
    assert (whole[:, 0] > 0).all()


@pytest.mark.slow
def test_all_methods_send_what_their_ranks_say(model_folder: Path) -> None:
    config, table = TestBridge.small[fslora], TestBridge.table(fslora)
    width = DeviceSetup(config).draw("test", 0).oracle.modules.width
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
    analysis = TestBridge.analysed(fslora)
    assert [check.ok for check in analysis.checks[:2]] == [True, True]
    assert [check.predicted for check in analysis.checks[2:]] == 6 * [CLAIMED]
    assert any("megabytes" in note for note in analysis.notes)
    assert any(model_folder.name in note for note in analysis.notes)
    [steps] = [note for note in analysis.notes if note.startswith("step size of every arm")]
    assert f"; HeteroLoRA: {table.where(method='HeteroLoRA')['gamma'][0]:g}; " in steps
    small = table.where(method=fslora.OURS, r=1)["gamma"][0]
    assert f"; FSLoRA with r = 1 and k = 1 for all: {small:g}" in steps
    assert fslora.draw(config, analysis).axes[1].get_yscale() == "log"


def test_no_gradients_move_an_entry_farther_than_adamw_can() -> None:
    rng = np.random.default_rng(0)
    moved = []
    for size in rng.lognormal(sigma=3.0, size=2000):
        step, X = AdamW(1.0, 0.0), np.zeros(1)
        for h in range(4):
            X = step(X, np.array([size**h]))
        moved.append(abs(float(X[0])))
    assert 0.99 * reach(4) < max(moved) <= reach(4)


def _synthetic(config: FSLoRAConfig, better: str) -> rc.Table:
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
        names = ("accuracy", "loss", "up", "down", "missing", "moved")
        parts.append(
            rc.long_table(
                axes,
                **dict.fromkeys(names, accuracy),
                **{key: np.array(value) for key, value in block.items()},
                gamma=0.1,
                what="",
            )
        )
    return rc.Table({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


def test_what_the_paper_says_is_confirmed_or_violated() -> None:
    config = FSLoRAConfig(seeds=3)
    outcomes = [
        fslora.analyse(config, _synthetic(config, best)).checks[2:6]
        for best in (fslora.OURS, "FlexLoRA")
    ]
    assert [check.ok for check in outcomes[0]] == [False, True, True, True]
    assert [check.ok for check in outcomes[1][:2]] == [True, False]
    even = claim("x above y", np.array([0.1, -0.1]), np.zeros(2))
    assert even.ok is None


@pytest.mark.slow
def test_arms_of_a_budget_send_the_same() -> None:
    config = TestBridge.small[fslora_budget]
    analysis = TestBridge.analysed(fslora_budget)
    width = DeviceSetup(config).draw("test", 0).oracle.modules.width
    for series in analysis.series:
        if series.panel == fslora_budget.COMPRESSED:
            assert series.x[-1] == pytest.approx(2 * 4 * 4 * width / 1e6, rel=0.01)
    assert [check.ok for check in analysis.checks[:2]] == [True, True]
    assert [check.predicted for check in analysis.checks[2:]] == 6 * [CLAIMED]


def test_the_table_has_every_task_and_method(model_folder: Path, tmp_path: Path) -> None:
    for domain, choices in (("sky", ("true", "false")), ("sea", ("a1", "a2", "a3"))):
        for part in ("train", "test"):
            shown = "/".join(choices)
            records = [
                {"instruction": f"{part} {i}? Answer format: {shown}", "answer": choices[i % 2]}
                for i in range(20)
            ]
            if domain == "sea":  # one question with two choices among those with three
                records[0] = {"instruction": "And? Answer format: a1/a2", "answer": "a1"}
            (tmp_path / f"{domain}_{part}.json").write_text(json.dumps(records))
    sizes = {**TINY, "tests": 35, "samples": 2, "max_length": 64}
    config = TableConfig(**sizes, model=model_folder, data=tmp_path, rounds=2)
    drawn = DeviceSetup(config).draw("test", 0)
    assert {d: sum(len(g["answer"]) for g in t) for d, t in drawn.tests.items()} == {
        "sea": 35,
        "sky": 35,
    }
    assert len(drawn.tests["sea"]) == 2
    table = table_of(fslora_table, config)
    checks = fslora_table.analyse(config, table)
    assert checks.checks[0].ok
    rows = [note for note in checks.notes if " %; " in note]
    assert [row.partition(":")[0] for row in rows] == list(fslora.METHODS)
    final = table.where(method=fslora.OURS, domain="sky")["accuracy"]
    assert f"sky {100 * final.mean():.1f} ±" in rows[-1]
    assert list(dict.fromkeys(s.panel for s in checks.series)) == ["sea", "sky", "average"]
    assert [check.predicted for check in checks.checks[1:]] == 3 * 3 * [CLAIMED]
    with rc.style():
        figure = fslora_table.draw(config, checks)
        figure.draw_without_rendering()
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == [
        "sea",
        "sky",
        "average",
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="must hold files"):
        DeviceSetup(replace(config, data=tmp_path / "empty")).draw("test", 0)


def test_of_several_step_sizes_the_best_is_taken() -> None:
    config = ComparedConfig(gammas=(0.1, 1.0, 10.0), tuning=2)
    assert config.best(lambda gamma, k: abs(gamma - 1.0) + k) == 1.0
    assert config.best(lambda gamma, k: np.nan if gamma == 0.1 else gamma) == 1.0
    with pytest.raises(InputError, match="`gammas` must hold one that trains"):
        config.best(lambda gamma, k: np.nan)


def test_a_file_of_one_domain_is_dealt_by_answers(model_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "facts_train.json"
    records = [
        {"instruction": f"Is {i} even? Answer format: true/false", "answer": answer}
        for i, answer in enumerate(["true", "false"] * 40)
    ]
    file.write_text(json.dumps(records))
    sizes = {**DEVICES, "concentration": 1e-3, "samples": 30}  # all that are not held out
    config = DeviceConfig(**sizes, model=model_folder, data=file)
    drawn = DeviceSetup(config).draw("test", 0)
    assert list(drawn.tests) == ["facts"]
    assert len(drawn.tests["facts"][0]["answer"]) == 6
    shares, tests = generated.pools(file, config.devices * config.samples, config.tests, 1)
    held = {example.prompt for example in tests["facts"]}
    assert len(held) == 6
    assert held.isdisjoint(example.prompt for example in shares)
    key = generated.dealt_by(shares)
    assert set(by_key(shares, key)) == {"true", "false"}
    assert drawn.name.endswith("data: facts_train.json")
    # only "Is 17 even? .." followed by false is longer: a test is followed by both
    most = len("<Is 17 even? Answer format: true/false\nAnswer: false>") - 1
    seed = config.derive("draw", "test", 0)
    shares, tests = generated.pools(file, config.devices * config.samples, config.tests, seed)
    asked = [e.prompt for e in shares if e.target == "false"] + [e.prompt for e in tests["facts"]]
    cut = sum(prompt[4].isdigit() for prompt in asked)
    said = DeviceSetup(replace(config, max_length=most)).draw("test", 0).name
    assert said.endswith(f"facts_train.json; {cut} of 80 samples cut to {most} tokens")
    others = rf"\(and {len(shares) - 1} more of {len(shares)}\)$"
    with pytest.raises(InputError, match=rf"^target of record .* max_length = 3 .* {others}"):
        DeviceSetup(replace(config, max_length=3)).draw("test", 0)
    with pytest.raises(InputError, match="more than tests = 80"):
        DeviceSetup(replace(config, tests=80)).draw("test", 0)
    with pytest.raises(InputError, match="question for each of devices = 99 beside the tests"):
        DeviceSetup(replace(config, devices=99)).draw("test", 0)
    file.write_text(json.dumps([{"instruction": "Say hello.", "output": "hello"}] * 9))
    with pytest.raises(InputError, match="choices in all questions"):
        DeviceSetup(replace(config, seed=1)).draw("test", 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratios": (0.3,)}, "must be whole ranks"),
        ({"ratios": ()}, "`ratios` must be at least 1 value"),
        ({"gammas": ()}, "`gammas` must be at least 1 value"),
        ({"seeds": 1}, "`seeds`"),
        ({"concentration": 0.0}, "`concentration`"),
    ],
)
def test_bad_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FSLoRAConfig(**options)


def test_bad_arms_are_named() -> None:
    with pytest.raises(InputError, match="at least k = 4"):
        FSLoRAConfig(global_ranks=(2,))
    for options, message in (
        ({"levels": (0.75,)}, "must be 1/2, 1/3"),
        ({"levels": (0.5, 0.25)}, "increasing"),
        ({"global_ranks": (4, 8)}, "must end with rank = 16"),
        ({"global_ranks": (3, 16)}, "must be whole; found 3"),
    ):
        with pytest.raises(InputError, match=message):
            BudgetConfig(**options)


@pytest.mark.slow
def test_prompts_have_the_form_that_is_asked_for(model_folder: Path) -> None:
    config = replace(SMALL[fslora_table], model=model_folder)
    framed = DeviceSetup(replace(config, prompt="Q: {{ prompt }} A:"))
    plain = DeviceSetup(config)
    assert ", prompts: template " in framed.draw("test", 0).name
    assert ", prompts: " not in plain.draw("test", 0).name
    lengths = [
        int(setup.draw("test", 0).oracle.task.shards[0]["attention_mask"].sum())
        for setup in (framed, plain)
    ]
    assert lengths[0] > lengths[1]
    with pytest.raises(InputError, match="`prompt` must be plain, auto or a template's file"):
        _ = DeviceSetup(replace(config, prompt="chat")).loaded
