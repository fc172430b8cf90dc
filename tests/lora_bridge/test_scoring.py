"""Questions scored by the log-likelihoods of their choices."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from lora_bridge.bank import AdapterBank
from lora_bridge.data import Example
from lora_bridge.models import load_model
from lora_bridge.peft_io import save_adapter, targets_of
from lora_bridge.scoring import (
    Accuracy,
    Comparison,
    compare_choices,
    compare_file,
    score_choices,
    score_file,
)
from ratecheck._commands.app import main

TEXTS = ("because it is late", "no", "the value of an item")


def _questions(count: int) -> list[Example]:
    names = tuple(f"answer{i + 1}" for i in range(len(TEXTS)))
    return [
        Example("?", names[i % 3], names, "d", question=f"Why {'so ' * (i % 4)}{i}?", texts=TEXTS)
        for i in range(count)
    ]


def _alone(loaded: Any, example: Example) -> list[float]:
    """The log-likelihoods of the choices, one sequence at a time by the model alone."""
    sums = []
    for text in example.texts:
        prompt = f"Question: {example.question}\nAnswer:"
        before = loaded.tokenizer(prompt)["input_ids"]
        ids = torch.tensor([loaded.tokenizer(f"{prompt} {text}")["input_ids"]])
        with torch.no_grad():
            logits = loaded.model(input_ids=ids).logits[0].log_softmax(-1)
        own = range(len(before), ids.shape[1])
        sums.append(sum(float(logits[t - 1, ids[0, t]]) for t in own))
    return sums


def test_accuracies_are_those_of_single_sequences(model_folder: Path) -> None:
    loaded, examples = load_model(model_folder), _questions(12)
    bank = AdapterBank(loaded.model, ["q_proj"])
    sums = np.array([_alone(loaded, example) for example in examples])
    characters = np.array([len(text) for text in TEXTS])
    tokens = np.array([len(loaded.tokenizer(f" {text}")["input_ids"]) for text in TEXTS])
    right = np.arange(12) % 3
    expected = [int((v.argmax(1) == right).sum()) for v in (sums, sums / characters, sums / tokens)]
    scores = score_choices(bank, loaded.tokenizer, examples)
    assert [score.divided_by for score in scores] == ["nothing", "characters", "tokens"]
    assert [score.right for score in scores] == expected
    assert {score.questions for score in scores} == {12}
    # the shortest choice is the likeliest as a sum, which a division by lengths changes
    moved = [replace(example, target="answer2") for example in examples]
    chosen = [int((v.argmax(1) == 1).sum()) for v in (sums, sums / characters, sums / tokens)]
    assert chosen[0] != chosen[1]
    assert [s.right for s in score_choices(bank, loaded.tokenizer, moved)] == chosen


def _as_written(loaded: Any, written: str, answer: str) -> float:
    """The log-likelihood of an answer and of what ends it, one sequence by the model alone."""
    start = len(loaded.tokenizer(written, add_special_tokens=False)["input_ids"])
    text = f"{written}{answer}"
    ids = [*loaded.tokenizer(text, add_special_tokens=False)["input_ids"]]
    ids.append(loaded.tokenizer.eos_token_id)
    with torch.no_grad():
        logits = loaded.model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    return sum(float(logits[t - 1, ids[t]]) for t in range(start, len(ids)))


@pytest.mark.parametrize(
    ("labels", "prompt", "written"),
    [
        (True, None, "Which, {}? Answer format: x/y\nAnswer: "),
        (True, "Q: {{ prompt }}A: ", "Q: Which, {}? Answer format: x/yA: "),
        (False, "plain", "About it.\nWhich, {}?\nAnswer: "),
    ],
)
def test_choices_are_scored_in_the_form_that_is_asked_for(
    labels: bool, prompt: str | None, written: str, model_folder: Path
) -> None:
    loaded = load_model(model_folder)
    bank = AdapterBank(loaded.model, ["q_proj"])
    names = ("answer1", "answer2", "true")
    examples = [
        Example(
            f"Which, {i}? Answer format: x/y\nAnswer: ", names[i % 3], names,
            question=f"Which, {i}?", texts=TEXTS, passage="About it.",
        )
        for i in range(9)
    ]  # fmt: skip
    answers = names if labels else TEXTS
    sums = np.array(
        [[_as_written(loaded, written.format(i), a) for a in answers] for i in range(9)]
    )
    scores = score_choices(bank, loaded.tokenizer, examples, labels=labels, prompt=prompt)
    # the built-in model's bytes: an answer has as many tokens as characters, and one end
    lengths = np.array([len(answer) for answer in answers])
    divided = [sums] if labels else [sums, sums / lengths, sums / (lengths + 1)]
    right = np.arange(9) % 3
    assert [s.right for s in scores] == [int((v.argmax(1) == right).sum()) for v in divided]
    other = np.array([_as_written(loaded, "", answer) for answer in answers])
    assert not np.allclose(sums, other, rtol=1e-3)  # the prompt counts
    X = torch.randn(2, bank.width, generator=torch.Generator().manual_seed(1))
    made = compare_choices(bank, loaded.tokenizer, examples, X, labels=labels, prompt=prompt)
    assert [one.base for one in made] == scores


def test_wilsons_interval_holds_what_it_should() -> None:
    for right in range(21):
        low, high = Accuracy(right, 20).interval
        assert low + 1e-15 >= 0
        assert high <= 1 + 1e-15
        for p, side in ((low, 1), (high, -1)):  # its ends are where the test by a normal decides
            p = min(max(p, 1e-300), 1 - 1e-15)
            z = (right / 20 - p) / np.sqrt(p * (1 - p) / 20)
            assert z == pytest.approx(side * 1.959964, rel=1e-5) or right in (0, 20)


def _split(both: int, gained: int, lost: int, neither: int) -> Comparison:
    n = both + gained + lost + neither
    return Comparison(Accuracy(both + gained, n), Accuracy(both + lost, n), gained, lost)


@pytest.mark.parametrize(
    ("table", "interval"),
    [  # Newcombe (1998), Table II, method 10
        ((36, 12, 2, 0), (0.0569, 0.3404)),
        ((20, 12, 2, 16), (0.0562, 0.3292)),
        ((54, 0, 0, 0), (-0.0664, 0.0664)),
    ],
)
def test_the_paired_interval_is_newcombes(
    table: tuple[int, int, int, int], interval: tuple[float, float]
) -> None:
    assert _split(*table).interval == pytest.approx(interval, abs=6e-5)


def test_the_paired_interval_covers_and_is_shorter_than_an_unpaired_one() -> None:
    """In 4,000 draws of 60 questions: 95 % less four standard errors of a share of these."""
    shares = (0.45, 0.2, 0.1, 0.25)  # true difference: 0.1
    draws = np.random.default_rng(0).multinomial(60, shares, size=4000)
    made = [_split(*map(int, draw)) for draw in draws]
    least = 0.95 - 4 * np.sqrt(0.95 * 0.05 / 4000)

    def covered(factor: float) -> float:
        inside = [
            factor * (low - one.difference)
            <= 0.1 - one.difference
            <= factor * (high - one.difference)
            for one in made
            for low, high in [one.interval]
        ]
        return float(np.mean(inside))

    assert covered(1.0) > least
    assert covered(0.8) < least
    lengths = np.mean([high - low for low, high in (one.interval for one in made)])
    unpaired = np.mean(
        [
            np.hypot(*(np.subtract(*one.interval) for one in (both.adapted, both.base)))
            for both in made
        ]
    )
    assert lengths < 0.85 * unpaired


def test_mcnemars_test_is_exact() -> None:
    assert _split(5, 0, 0, 3).p == 1.0
    assert _split(5, 4, 0, 3).p == pytest.approx(2 * 0.5**4)
    assert _split(50, 8, 1, 30).p == pytest.approx(2 * (1 + 9) * 0.5**9)


def test_questions_are_compared_one_by_one(model_folder: Path) -> None:
    loaded = load_model(model_folder)
    examples = [replace(e, texts=("some", "text", "noise")) for e in _questions(12)]
    bank = AdapterBank(loaded.model, ["down_proj", "lm_head"])
    X = 3 * torch.randn(2, bank.width, generator=torch.Generator().manual_seed(2))
    made = compare_choices(bank, loaded.tokenizer, examples, X)
    assert [one.adapted for one in made] == score_choices(bank, loaded.tokenizer, examples, X)
    assert [one.base for one in made] == score_choices(bank, loaded.tokenizer, examples)
    single = [
        [score_choices(bank, loaded.tokenizer, [example], rows)[0].right for example in examples]
        for rows in (X, None)
    ]
    pairs = list(zip(*single, strict=True))
    assert made[0].gained == pairs.count((1, 0))
    assert made[0].lost == pairs.count((0, 1))
    assert made[0].gained + made[0].lost > 0


def test_the_command_scores_a_model_and_its_adapter(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model_folder: Path
) -> None:
    loaded = load_model(model_folder)
    bank = AdapterBank(loaded.model, ["q_proj", "down_proj"])
    generator = torch.Generator().manual_seed(0)
    save_adapter(tmp_path / "adapter", bank, torch.randn(2, bank.width, generator=generator))
    assert [name.rpartition(".")[2] for name in targets_of(tmp_path / "adapter")] == [
        "down_proj",
        "q_proj",
    ]
    records = [
        {"goal": f"Do {i}.", "sol1": "now", "sol2": "at a later time", "label": i % 2}
        for i in range(8)
    ]
    file = tmp_path / "piqa_test.jsonl"
    file.write_text("\n".join(map(json.dumps, records)))

    def called(*more: object) -> Any:
        words = ["score", file, "--model", model_folder, "--json", "--limit", 6, *more]
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        assert not left.value.code
        return json.loads(capsys.readouterr().out)

    plain = called()
    assert [(row["domain"], row["questions"]) for row in plain] == [("piqa", 6)] * 3
    assert plain == [score.to_dict() for score in score_file(file, model_folder, 6)]
    adapted = called("--adapter", tmp_path / "adapter")
    made = compare_file(file, tmp_path / "adapter", model_folder, 6)
    assert adapted == [score.to_dict() for score in made]
    assert [row["base"] for row in adapted] == [row["accuracy"] for row in plain]
    words = ["score", file, "--model", model_folder, "--adapter", tmp_path / "adapter"]
    with pytest.raises(SystemExit):
        main([str(word) for word in words])
    said = capsys.readouterr().out
    assert "without" in said
    assert said.count("characters") == 2  # in either table
    assert max(map(len, said.splitlines())) <= 80
    with pytest.raises(SystemExit) as left:
        main([*map(str, words[:-1]), str(tmp_path)])
    assert left.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"texts": ()},
            "question 0 must have choices that are known in full; found 0, but names, "
            "which `--labels` scores",
        ),
        ({"choices": ()}, "question 0 must have choices with names; found 0"),
        ({"question": "so " * 4000}, "must have at most the model's .* tokens; found"),
        ({"prompt": "so " * 4000}, "must have at most the model's .* tokens; found"),
    ],
)
def test_bad_questions_are_one_line(
    change: dict[str, Any],
    message: str,
    model_folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    loaded = load_model(model_folder)
    bank = AdapterBank(loaded.model, ["q_proj"])
    [example] = _questions(1)
    labels = bool({"choices", "prompt"} & set(change))
    with pytest.raises(InputError, match=message):
        score_choices(bank, loaded.tokenizer, [replace(example, **change)], labels=labels)
    assert not caplog.records
    with pytest.raises(InputError, match="chat template; found chat"):
        score_choices(bank, loaded.tokenizer, [example], labels=labels, prompt="chat")
    with pytest.raises(InputError, match="at least one question; found none"):
        score_choices(bank, loaded.tokenizer, [])


@pytest.mark.slow
def test_a_pretrained_model_answers_above_chance(tmp_path: Path) -> None:
    """Ten questions that a model of 135 M weights knows; by chance seven or more once in 3,000."""
    from lora_bridge.pretrained import fetched

    asked = [
        ("The capital of France is called", "Paris", ("Oslo", "Lima", "Cairo")),
        ("The sun rises in the", "east", ("soup", "letter", "corner")),
        ("Water turns into ice when it is", "cold", ("loud", "rich", "late")),
        ("A cat is a kind of", "animal", ("number", "river", "color")),
        ("You read a", "book", ("cloud", "spoon", "shoe")),
        ("Fish live in", "water", ("books", "fire", "songs")),
        ("Bread is made from", "flour", ("steel", "glass", "noise")),
        ("The opposite of hot is", "cold", ("seven", "table", "green")),
        ("People see with their", "eyes", ("shoes", "knees", "cars")),
        ("A week has seven", "days", ("wheels", "legs", "moons")),
    ]
    examples = []
    for i, (question, right, others) in enumerate(asked):
        texts = [*others]
        texts.insert(i % 4, right)
        names = tuple(f"answer{j + 1}" for j in range(4))
        examples.append(Example("?", names[i % 4], names, question=question, texts=tuple(texts)))
    loaded = load_model(fetched("smollm2"))
    bank = AdapterBank(loaded.model, ["q_proj"])
    assert score_choices(bank, loaded.tokenizer, examples)[0].right >= 7
