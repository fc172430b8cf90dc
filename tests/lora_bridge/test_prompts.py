"""Prompts from files of every kind, and built in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from linsys import InputError
from lora_bridge import prompts
from lora_bridge.docstrings import docstrings
from lora_bridge.prompts import built_in_prompts, prompt_texts, read_prompts
from lora_bridge.splits import by_key, dirichlet

ASKED = "\n\nHuman: Why?\n\nAssistant:"


def _file(folder: Path, *records: Any, name: str = "hh_train.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(record) for record in records))
    return path


def test_dialogues_are_cut_before_the_last_answer(tmp_path: Path) -> None:
    longer = f"{ASKED} Because.\n\nHuman: And?\n\nAssistant:"
    records = [
        {"chosen": f"{ASKED} So.", "rejected": f"{ASKED} No."},
        {"chosen": f"{longer} So.", "user": 3, "domain": "why"},
        {"prompt": f"{ASKED} ", "chosen": "So.", "rejected": "No."},
        {"prompt": ASKED},
    ]
    entries = read_prompts(_file(tmp_path, *records))
    assert [p.prompt for p in entries] == [ASKED, longer, f"{ASKED} ", ASKED]
    assert [(p.domain, p.user) for p in entries[:2]] == [("hh", ""), ("why", "3")]
    assert {p.target for p in entries} == {""}


def test_questions_ask_for_their_answer(tmp_path: Path) -> None:
    question = {"instruction": "Is it so? Answer format: true/false", "answer": "true"}
    path = tmp_path / "boolq_train.json"
    path.write_text(json.dumps([{**question, "input": ""}]))
    [entries] = read_prompts(path)
    assert entries.prompt == "Is it so? Answer format: true/false\nAnswer: "
    assert (entries.domain, entries.target) == ("boolq", "")
    assert read_prompts(path, domain="own")[0].domain == "own"


def test_another_marker_or_none(tmp_path: Path) -> None:
    path = _file(tmp_path, {"prompt": "Q: Why?\nA:"}, {"prompt": "Q: How?\nA: "})
    assert len(read_prompts(path, marker="A: ")) == 2
    assert len(read_prompts(path, marker="")) == 2
    with pytest.raises(InputError, match=r"line 1 of .* must end with the response marker"):
        read_prompts(path)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"prompt": "\n\nHuman: Why?"}, "response marker '.*Assistant:'; found '.*Why"),
        ({"chosen": "\n\nHuman: Why?"}, "response marker '.*Assistant:'; found ''"),
        ({"prompt": " "}, "must end with the response marker"),
        ({"question": "Why?"}, "a record must be {instruction, answer}, .*; found {question}"),
        ({"prompt": 3}, "`prompt` must be a text; found int"),
        ([1], "found list"),
    ],
)
def test_prompts_without_a_response_marker_are_named(
    tmp_path: Path, record: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_prompts(_file(tmp_path, {"prompt": ASKED}, record))
    assert "line 2 of" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_file_and_no_records(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a readable text file"):
        read_prompts(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="at least one record"):
        read_prompts(_file(tmp_path))


def test_paths_and_markers_that_are_none(tmp_path: Path) -> None:
    for call in (read_prompts, prompt_texts):
        with pytest.raises(InputError, match="`path` must be a path; found 3"):
            call(3)  # type: ignore[operator]
    with pytest.raises(InputError, match="`marker` must be a text; found None"):
        read_prompts(tmp_path, marker=None)  # type: ignore[arg-type]


@pytest.mark.slow
def test_built_in_prompts_are_words_of_the_docstrings_in_domains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = docstrings()
    monkeypatch.setattr(prompts, "docstrings", lambda: words)
    entries = built_in_prompts(60, words=3, domains=4)
    text = " ".join(words.split())
    assert all(p.prompt in text and p.prompt.count(" ") == 2 for p in entries)
    assert len({p.prompt for p in entries}) > 50
    assert entries == built_in_prompts(60, words=3, domains=4)
    assert entries != built_in_prompts(60, words=3, domains=4, seed=1)
    groups = by_key(entries, lambda p: p.domain)
    assert list(groups) == [f"part {i}" for i in range(4)]
    shares = dirichlet(entries, 8, lambda p: p.domain, 0.3)
    assert sum(map(len, shares)) == 60
    with pytest.raises(InputError, match="`count` must be a whole number of at least 1"):
        built_in_prompts(10**9)


def test_a_built_in_model_may_learn_from_all_prompts_and_no_answer(tmp_path: Path) -> None:
    records = [
        {"prompt": f"Number {i}: " + "x" * 200, "chosen": "right", "rejected": "wrong"}
        for i in range(120)
    ]
    file = _file(tmp_path, *records, *records)
    texts = prompt_texts(file)
    assert texts == [record["prompt"] for record in records]
    assert prompt_texts(tmp_path) == texts  # a folder
    assert prompt_texts(_file(tmp_path, *records[:20])) is None  # too few to learn from
    assert prompt_texts(None) is None
