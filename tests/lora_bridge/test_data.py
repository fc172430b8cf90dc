"""Readers, splits and encodings."""

from __future__ import annotations

import gzip
import json
import re
from collections import UserList
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from lora_bridge.data import (
    Example,
    Pair,
    pairs_of,
    read_dialogues,
    read_examples,
    read_items,
    read_pairs,
    read_preferences,
)
from lora_bridge.docstrings import byte_tokenizer
from lora_bridge.splits import by_key, dirichlet, evenly, hold_out, users_by
from lora_bridge.tokens import encode_choices, encode_examples, encode_pairs, encode_texts, said

QUESTION = {
    "instruction": "Is 2 even?\n\nAnswer format: true/false",
    "input": "",
    "output": "the correct answer is true",
    "answer": "true",
}


def _file(folder: Path, content: Any, name: str = "sets_train.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_questions_with_choices_and_domains(tmp_path: Path) -> None:
    [example] = read_examples(_file(tmp_path, [QUESTION]))
    assert (example.target, example.choices, example.domain) == ("true", ("true", "false"), "sets")
    assert example.prompt.startswith("Is 2 even?")
    lines = "\n".join(json.dumps(QUESTION | {"domain": d, "user": 3}) for d in "ab")
    examples = read_examples(_file(tmp_path, lines, "x.jsonl"))
    assert [(e.domain, e.user) for e in examples] == [("a", "3"), ("b", "3")]
    open_one = {"instruction": "Name a prime.", "output": "7"}
    [example] = read_examples(_file(tmp_path, [open_one]), domain="numbers")
    assert (example.target, example.choices, example.domain) == ("7", (), "numbers")
    assert pairs_of([example]) == []


def test_open_questions_under_other_names(tmp_path: Path) -> None:
    asked = [
        {"instruction": "Why?", "answer": " So. "},
        {"question": "Why?", "output": "", "response": "So."},
        {"question": "Why?", "answer": "So.", "output": "no"},
        {"prompt": "Why? ", "completion": " So."},
        {"prompt": "Why? ", "answer": None, "output": " So."},
    ]
    put, as_it_is = (
        Example(*both, domain="d") for both in (("Why?\nAnswer: ", "So."), ("Why? ", " So."))
    )
    items = read_examples(_file(tmp_path, asked), domain="d")
    assert items == [put, put, put, as_it_is, as_it_is]


def test_pairs_and_dialogues(tmp_path: Path) -> None:
    pair = {"prompt": "p", "chosen": "c", "rejected": "r", "worker": 7}
    assert read_pairs(_file(tmp_path, [pair])) == [Pair("p", "c", "r", "", "7")]
    before = "\n\nHuman: hi\n\nAssistant: hello\n\nHuman: joke?\n\nAssistant:"
    sides = {"chosen": before + " yes", "rejected": before + " no"}
    assert read_dialogues(_file(tmp_path, [sides])) == [Pair(before, " yes", " no")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([QUESTION | {"answer": "maybe"}], "record 1 of .* `answer` must be one of true, false"),
        ([QUESTION, {"input": ""}], "record 2 of .* must be {instruction, .*; found {input}"),
        ([{"instruction": "x"}], "`answer` must be there, or `output`; found neither"),
        ([{"question": "x", "answer": 3}], "record 1 of .* `answer` must be a text; found int"),
        ([{"question": "x", "answer": " "}], "`answer` must be there"),
        ([3], "a record must be an object; found int"),
        ([QUESTION | {"user": [1]}], "`user` must be a text or a number; found list"),
        ([QUESTION | {"input": 3}], "`input` must be a text; found int"),
        ([3, 4, QUESTION], r"record 1 .* \(and 1 more of 3\)"),
        ([], "must hold at least one record"),
        ("", "must hold at least one record"),
        ("[1,", "must be JSON; found"),
        ('{"instruction": "x", "answer": "y"}\n{', "line 2 of .* must be JSON; found Expecting"),
    ],
)
def test_bad_files(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        read_examples(_file(tmp_path, content))
    assert len(str(error.value).splitlines()) == 1


PAIR = {"prompt": "p", "chosen": "c", "rejected": "r", "user": "ann"}
TURNS = "\n\nHuman: hi\n\nAssistant:"
SIDES = {"chosen": TURNS + " yes", "rejected": TURNS + " no", "worker": 7}


def test_preferences_of_either_kind_in_one_file(tmp_path: Path) -> None:
    """Empty lines, a mark of byte order, ends of lines of other kinds inside a text."""
    odd = PAIR | {"chosen": "one\u2028two\x85three", "user": None}
    lines = [json.dumps(PAIR), "", json.dumps(SIDES), "  ", json.dumps(odd, ensure_ascii=False)]
    file = tmp_path / "mixed.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    pairs = read_preferences(file)
    assert pairs == [
        Pair("p", "c", "r", "", "ann"),
        Pair(TURNS, " yes", " no", "", "7"),
        Pair("p", "one\u2028two\x85three", "r"),
    ]
    assert [pair.place for pair in pairs] == [f"line {n} of {file}" for n in (1, 3, 5)]
    with pytest.raises(InputError, match=r"line 5 of .*`user` must say whose preference it is"):
        read_preferences(file, users=True)


def test_the_prompt_of_a_dialogue_is_what_both_sides_share(tmp_path: Path) -> None:
    """Sides that part before their last turns, as some of HH's do, and one that goes on longer."""
    parted = {"chosen": TURNS + " a\n\nHuman: x\n\nAssistant: b", "rejected": TURNS + " c"}
    longer = {"chosen": TURNS + " a", "rejected": TURNS + " a\n\nHuman: x\n\nAssistant: b"}
    assert read_dialogues(_file(tmp_path, [parted, longer])) == [
        Pair(TURNS, " a\n\nHuman: x\n\nAssistant: b", " c"),
        Pair(TURNS, " a", " a\n\nHuman: x\n\nAssistant: b"),
    ]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"prompt": "p", "chosen": "c"}, "`rejected` must be a text; found none"),
        (PAIR | {"chosen": [{"role": "user"}]}, "`chosen` must be a text; found list"),
        (PAIR | {"prompt": None}, "`prompt` must be a text; found NoneType"),
        (PAIR | {"chosen": "\ud800"}, "`chosen` must be a text; found half of a surrogate pair"),
        ({"chosen": "a", "rejected": "b"}, "`chosen` must be a dialogue with a turn 'Assistant:'"),
        (SIDES | {"chosen": "x" + TURNS}, "must be the same up to an answer"),
        ("text", "a record must be an object; found str"),
    ],
)
def test_bad_preferences_are_named_by_line(tmp_path: Path, record: Any, message: str) -> None:
    file = _file(tmp_path, f"{json.dumps(PAIR)}\n\n{json.dumps(record)}\n", "x.jsonl")
    with pytest.raises(InputError, match=message) as error:
        read_preferences(file)
    assert str(error.value).startswith(f"line 3 of {file}: ")
    assert len(str(error.value).splitlines()) == 1


ODD = [
    (PAIR | {"rejected": " "}, "the answer of `rejected` must not be empty; found ' '"),
    (PAIR | {"rejected": "c "}, "`chosen` and `rejected` must differ; found the same answer twice"),
    (SIDES | {"chosen": TURNS}, "the answer of `chosen` must not be empty; found ''"),
    (SIDES | {"rejected": TURNS + " yes"}, "found the same answer twice"),
]


def test_pairs_that_compare_nothing_are_left_out_and_counted(tmp_path: Path) -> None:
    folder = _empty(tmp_path / "sets")
    _file(folder, [PAIR, *(record for record, _ in ODD)], "a.json")
    _file(folder, [ODD[0][0], PAIR | {"prompt": "q"}], "b.json")
    for read, path, prompts, left_out in (
        (read_preferences, folder, ["p", "q"], 5),
        (read_items, folder, ["p", "q"], 5),
        (read_items, folder / "a.json", ["p"], 4),
        (read_pairs, folder / "b.json", ["q"], 1),
    ):
        pairs = read(path)  # type: ignore[operator]
        assert ([pair.prompt for pair in pairs], pairs.left_out) == (prompts, left_out)


@pytest.mark.parametrize(("record", "message"), ODD)
def test_a_file_in_which_nothing_is_compared_is_refused(
    record: Any, message: str, tmp_path: Path
) -> None:
    file = _file(tmp_path, [record, record])
    with pytest.raises(InputError, match=rf"{message} \(and 1 more of 2\)") as error:
        read_preferences(file)
    assert str(error.value).startswith(f"record 1 of {file}: ")


def test_missing_files(tmp_path: Path) -> None:
    for read in (read_pairs, read_preferences):
        with pytest.raises(InputError, match="must be a readable text file"):
            read(tmp_path / "nothing.json")


def test_splits_lose_and_repeat_nothing() -> None:
    items = [f"{i % 4}:{i}" for i in range(103)]
    key = lambda text: text[0]  # noqa: E731
    for split in (
        list(by_key(items, key).values()),
        evenly(items, 7, seed=1),
        dirichlet(items, 7, key, 0.3, seed=1),
        list(hold_out(items, 0.2, seed=1)),
    ):
        assert sorted(item for share in split for item in share) == sorted(items)
        assert all(split)
    assert evenly(items, 7, seed=1) == evenly(items, 7, seed=1) != evenly(items, 7, seed=2)
    assert max(map(len, evenly(items, 7))) - min(map(len, evenly(items, 7))) <= 1
    assert len(hold_out(items, 0.2)[1]) == 21


def test_the_concentration_decides_how_alike_clients_are() -> None:
    items = [f"{i % 4}" for i in range(400)]

    def spread(concentration: float) -> float:
        shares = dirichlet(items, 5, str, concentration, seed=0)
        parts = torch.tensor(
            [[share.count(f"{v}") / len(share) for v in range(4)] for share in shares]
        )
        return float(parts.std(0).mean())

    assert spread(0.1) > 0.2 > 0.05 > spread(1000.0)


ASKED, COMPARED = Example("1+1=", "2", ("2", "3")), Pair("1+1=", "2", "3")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: read_pairs(None), "`path` must be a path; found None"),
        (lambda t: read_examples([{"instruction": "x"}]), "`path` must be a path; found"),
        (lambda t: read_preferences("x", users="no"), "`users` must be True or False; found 'no'"),
        (lambda t: Example(1, "2"), "`prompt` must be a text; found 1"),
        (lambda t: Example("1", "2", "23"), "`choices` must be a list of texts; found '23'"),
        (lambda t: Pair("1", None, "3"), "`chosen` must be a text; found None"),
        (lambda t: pairs_of([COMPARED]), "`examples` must be a list of Example; found Pair"),
        (
            lambda t: encode_examples(t, [COMPARED]),
            "`examples` must be a list of Example; found Pair",
        ),
        (lambda t: encode_examples(t, ["1"]), "`examples` must be a list of Example; found '1'"),
        (
            lambda t: encode_examples(t, ASKED),
            "`examples` must be a list of Example; found Exam",
        ),
        (lambda t: encode_pairs(t, [ASKED]), "`pairs` must be a list of Pair; found Example"),
        (
            lambda t: encode_pairs(t, [("1", "2", "3")]),
            r"`pairs` must be a list of Pair; found \('1",
        ),
        (
            lambda t: encode_texts(t, "one text"),
            "`texts` must be a list of texts; found 'one text'",
        ),
        (lambda t: encode_texts(t, [["a", "b"]]), r"`texts` must be a list of texts; found \['a'"),
        (lambda t: encode_texts("gpt2", ["a"]), "`tokenizer` must be one of transformers.*'gpt2'"),
        (lambda t: encode_pairs([COMPARED], t), "`pairs` must be a list of Pair"),
        (lambda t: encode_texts(_unpadded(), ["a"]), "`tokenizer` must have a token to pad with"),
        (
            lambda t: encode_choices(t, [Example("1", "4", ("2", "3"))]),
            "target of sample 0 must be one of 2, 3; found '4'",
        ),
        (lambda t: evenly((i for i in "ab"), 2), "`items` must be a list; found <generator"),
        (lambda t: evenly({"a": 1, "b": 2}, 2), "`items` must be a list; found {'a'"),
        (lambda t: hold_out({1, 2}, 0.5), "`items` must be a list; found {1, 2}"),
        (lambda t: by_key([ASKED], "domain"), r"`key` must be a function of \(item\)"),
        (lambda t: by_key([1, 2], lambda i: None), "every sample must have the key; found 2"),
        (lambda t: by_key([1, 2], lambda i: i if i > 1 else "1"), r"an order; found \['1', 2\]"),
    ],
)
def test_what_is_no_data(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(byte_tokenizer())


def _unpadded() -> Any:
    tokenizer = byte_tokenizer()
    tokenizer.pad_token = None
    return tokenizer


def test_examples_may_come_one_by_one() -> None:
    encoded = encode_examples(byte_tokenizer(), (e for e in [ASKED, ASKED]))  # type: ignore[arg-type]
    assert encoded.size == 2
    listed: Any = ["2", "3"]
    assert Example("1+1=", "2", listed) == ASKED


def test_items_may_be_whatever_has_places() -> None:
    wanted = evenly(["a", "b", "c"], 2)
    for items in (np.array(["a", "b", "c"]), UserList("abc")):
        assert [list(map(str, own)) for own in evenly(items, 2)] == wanted
    kept, held = hold_out(torch.arange(3), 0.5)  # type: ignore[arg-type]
    assert sorted(int(i) for i in kept + held) == [0, 1, 2]
    assert by_key(["ab", "c"], len) == {1: ["c"], 2: ["ab"]}  # type: ignore[arg-type]


def test_bad_splits() -> None:
    with pytest.raises(InputError, match="at least as many as clients = 5; found 2"):
        evenly(["a", "b"], 5)
    with pytest.raises(InputError, match="found 1 without"):
        by_key(["a", ""], str)
    with pytest.raises(InputError, match="`concentration`"):
        dirichlet(["a", "b"], 2, str, 0.0)
    with pytest.raises(InputError, match="`share` below 1"):
        hold_out(["a", "b"], 1.0)


def test_targets_are_marked_and_padding_is_not() -> None:
    tokenizer = byte_tokenizer()
    made = encode_examples(tokenizer, [Example("ab", "c"), Example("abcd", "ef")])
    assert made["input_ids"].shape == (2, 1 + 4 + 2 + 1)
    texts = [
        tokenizer.decode(ids[mask.bool()])
        for ids, mask in zip(made["input_ids"], made["target_mask"], strict=True)
    ]
    assert texts == ["c</s>", "ef</s>"]
    assert made["attention_mask"].sum(1).tolist() == [5, 8]
    assert (made["input_ids"][0, 5:] == tokenizer.pad_token_id).all()


def test_choices_and_pairs_are_grouped() -> None:
    tokenizer = byte_tokenizer()
    examples = [Example("q", "true", ("true", "false")), Example("r", "false", ("true", "false"))]
    made = encode_choices(tokenizer, examples)
    assert made["input_ids"].shape[:2] == (2, 2)
    assert made["answer"].tolist() == [0, 1]
    pair = encode_pairs(tokenizer, [Pair("q", "yes", "no")])
    sides = [tokenizer.decode(row[row != 0]) for row in pair["input_ids"][0]]
    assert sides == ["<s>qyes</s>", "<s>qno</s>"]
    assert encode_texts(tokenizer, ["abc"])["input_ids"].shape == (1, 3)


def test_encoders_have_their_own_tokens_at_both_ends() -> None:
    tokenizer = byte_tokenizer()
    own = {"cls_token": tokenizer.bos_token, "sep_token": tokenizer.eos_token}
    tokenizer.bos_token = tokenizer.eos_token = None
    pairs = [Pair("q", "yes", "no")]
    bare = encode_pairs(tokenizer, pairs)["input_ids"][0, 0]
    assert tokenizer.decode(bare) == "qyes"
    tokenizer.add_special_tokens(own)
    ends = encode_pairs(tokenizer, pairs)["input_ids"][0, 0]
    assert tokenizer.decode(ends) == "<s>qyes</s>"


def test_what_is_too_long_is_named_or_cut_from_the_left() -> None:
    tokenizer = byte_tokenizer()
    examples = [Example("ok", "x"), Example("0123456789", "xy")]
    with pytest.raises(
        InputError, match="sample 1 must have at most max_length = 8 tokens; found 14"
    ):
        encode_examples(tokenizer, examples, max_length=8)
    made = encode_examples(tokenizer, examples, max_length=8, too_long="cut")
    assert tokenizer.decode(made["input_ids"][1]) == "<s>6789xy</s>"
    made = encode_examples(tokenizer, examples, max_length=4, too_long="cut")
    assert tokenizer.decode(made["input_ids"][1]) == "<s>xy</s>"
    with pytest.raises(InputError, match="target of sample 0 must have 1 to 3 tokens, so"):
        encode_examples(tokenizer, [Example("a", "xyz")], max_length=4, too_long="cut")
    answers = [Example("q", answer) for answer in ("a", "abc", "abcd", "b")]
    with pytest.raises(InputError, match=r"target of sample 1 .*; found 4 \(and 1 more of 4\)$"):
        encode_examples(tokenizer, answers, max_length=4, too_long="cut")
    with pytest.raises(InputError, match="the same number of choices, 2 or more; found"):
        encode_choices(tokenizer, [Example("q", "a", ("a", "b")), Example("q", "a")])
    with pytest.raises(InputError, match="at least one sample; found none"):
        encode_examples(tokenizer, [])
    with pytest.raises(InputError, match="sample 1 must have at least one token; found ''"):
        encode_texts(tokenizer, ["a", ""])


def test_what_is_too_long_is_named_by_its_line(tmp_path: Path) -> None:
    records = (PAIR, PAIR | {"rejected": "0123456"})
    file = _file(tmp_path, "\n".join(map(json.dumps, records)), "pairs.jsonl")
    with pytest.raises(InputError, match=r"target of line 2 of .* must have 1 to 7 tokens"):
        encode_pairs(byte_tokenizer(), read_pairs(file), max_length=8, too_long="cut")
    with pytest.raises(InputError, match=r"^line 2 of .* must have at most max_length = 9 tokens"):
        encode_pairs(byte_tokenizer(), read_pairs(file), max_length=9)


def test_samples_that_are_cut_are_counted_once_each() -> None:
    tokenizer, fits, long = byte_tokenizer(), "q" * 4, "q" * 5
    # the first token, the prompt, two of the answer and the end: 8 hold four of the prompt
    examples = [Example(prompt, "ab", ("ab", "cd")) for prompt in (fits, long, long)]
    pairs = [Pair(prompt, "ab", "cd") for prompt in (fits, fits, long)]
    made = [
        encode_examples(tokenizer, examples, 8, "cut"),
        encode_choices(tokenizer, examples, 8, "cut"),
        encode_pairs(tokenizer, pairs, 8, "cut"),
        encode_texts(tokenizer, ["q" * 8, "q" * 9], 8, "cut"),
    ]
    assert [(m.cut, m.size, m.most) for m in made] == [(2, 3, 8), (2, 3, 8), (1, 3, 8), (1, 2, 8)]
    assert said(*made) == "; 6 of 11 samples cut to 8 tokens"
    assert said(encode_pairs(tokenizer, pairs, 9)) == ""


#: A record of each published set: what is asked, the choices, the right one, their full texts.
PUBLISHED: dict[str, tuple[dict[str, Any], str, str, tuple[str, ...]]] = {
    "PIQA": (
        {"goal": "Dry a cup.", "sol1": "Wipe it.", "sol2": "Fill it.", "label": 0},
        "Dry a cup.",
        "solution1",
        ("Wipe it.", "Fill it."),
    ),
    "SIQA": (
        {
            "context": "Ann fell.",
            "question": "How is she?",
            "answerA": "glad",
            "answerB": "hurt",
            "answerC": "tall",
            "label": "2",
        },
        "Ann fell. How is she?",
        "answer2",
        ("glad", "hurt", "tall"),
    ),
    "WinoGrande": (
        {"sentence": "The _ is wet.", "option1": "sea", "option2": "sun", "answer": "1"},
        "The _ is wet.",
        "option1",
        ("sea", "sun"),
    ),
    "HellaSwag": (
        {
            "activity_label": "Cooking",
            "ctx_a": "A pan is hot.",
            "ctx_b": "the cook",
            "endings": ["sings.", "adds oil [title] Then stirs."],
            "label": 1,
        },
        "Cooking: A pan is hot. The cook",
        "ending2",
        ("sings.", "adds oil. Then stirs."),
    ),
    "ARC": (
        {
            "question": "What melts?",
            "choices": {"text": ["ice", "fire"], "label": ["A", "B"]},
            "answerKey": "A",
        },
        "What melts?",
        "answer1",
        ("ice", "fire"),
    ),
    "ARC, as its authors have it": (
        {
            "question": {
                "stem": "What melts?",
                "choices": [{"text": "fire", "label": "1"}, {"text": "ice", "label": "2"}],
            },
            "answerKey": "2",
        },
        "What melts?",
        "answer2",
        ("fire", "ice"),
    ),
    "OpenBookQA": (
        {
            "question_stem": "Birds have",
            "choices": {"text": ["wings", "wheels"], "label": ["A", "B"]},
            "answerKey": "A",
        },
        "Birds have",
        "answer1",
        ("wings", "wheels"),
    ),
    "BoolQ": (
        {"passage": "Ice floats.", "question": "does ice sink", "answer": False},
        "does ice sink?",
        "false",
        ("yes", "no"),
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sets_are_questions_with_choices(name: str, tmp_path: Path) -> None:
    record, question, target, full = PUBLISHED[name]
    [example] = read_examples(_file(tmp_path, json.dumps(record), "piqa_train.jsonl"))
    assert (example.question, example.target, example.texts) == (question, target, full)
    assert (example.domain, len(example.choices)) == ("piqa", len(full))
    assert example.prompt.endswith("Answer format: " + "/".join(example.choices) + "\nAnswer: ")
    assert all(text in example.prompt for text in full) == (name != "BoolQ")
    assert example.passage == record.get("passage", "")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_record_without_its_right_choice_is_named(name: str, tmp_path: Path) -> None:
    record = PUBLISHED[name][0]
    key = next(k for k in ("label", "answer", "answerKey") if k in record)
    with pytest.raises(InputError, match=f"line 1 of .*: `({key}|label|answer)` must be") as error:
        read_examples(_file(tmp_path, json.dumps(record | {key: "x"}), "a.jsonl"))
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "choices",
    [
        {"text": None, "label": None},
        {"text": 5, "label": ["A", "B"]},
        {"text": "ab", "label": ["A", "B"]},
        {"text": ["ice", "fire", "air"], "label": ["A", "B"]},
    ],
)
def test_choices_that_are_no_lists_of_one_length_are_named(choices: Any, tmp_path: Path) -> None:
    record = PUBLISHED["ARC"][0] | {"choices": choices}
    with pytest.raises(InputError, match="`choices` must be texts with labels, two or more; found"):
        read_examples(_file(tmp_path, json.dumps(record), "a.jsonl"))


def test_an_ending_of_marks_alone_is_none(tmp_path: Path) -> None:
    record = PUBLISHED["HellaSwag"][0] | {"endings": ["[x]", "adds oil."]}
    with pytest.raises(InputError, match="`endings` must be a text; found ''"):
        read_examples(_file(tmp_path, json.dumps(record), "a.jsonl"))


def test_labels_beside_a_file_and_files_packed_by_gzip(tmp_path: Path) -> None:
    unlabelled = {k: v for k, v in PUBLISHED["PIQA"][0].items() if k != "label"}
    folder = tmp_path / "piqa"
    folder.mkdir()
    lines = "\n".join([json.dumps(unlabelled)] * 2)
    (folder / "train.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "train-labels.lst").write_text("1\n0\n")
    examples = read_examples(folder / "train.jsonl.gz")
    assert [(e.target, e.domain) for e in examples] == [
        ("solution2", "piqa"),
        ("solution1", "piqa"),
    ]
    (folder / "train-labels.lst").write_text("1\n")
    with pytest.raises(InputError, match=r"labels beside train\.jsonl\.gz must be one for every"):
        read_examples(folder / "train.jsonl.gz")


def test_files_of_a_folder_are_domains(tmp_path: Path) -> None:
    for name in ("b_train.json", "a_test.jsonl"):
        content = json.dumps(QUESTION)
        _file(tmp_path, content if name.endswith("l") else f"[{content}]", name)
    assert [e.domain for e in read_examples(tmp_path)] == ["a", "b"]
    assert [e.domain for e in read_items(tmp_path)] == ["a", "b"]
    _file(tmp_path, [PAIR], "c.json")
    with pytest.raises(InputError, match="must hold questions or preference pairs; found both"):
        read_items(tmp_path)
    with pytest.raises(InputError, match="must be a question; found a preference pair"):
        read_examples(tmp_path)
    with pytest.raises(InputError, match=r"must hold files \*.json or \*.jsonl; found none"):
        read_examples(_empty(tmp_path / "none"))


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("ARC-Easy-Train.jsonl", "ARC-Easy"),
        ("ARC-Easy-Test.jsonl", "ARC-Easy"),
        ("train_xl.jsonl", "wino"),
        ("train_debiased.jsonl", "wino"),
        ("dev.jsonl.gz", "wino"),
        ("hellaswag.validation.json", "hellaswag"),
        ("boolq_val.jsonl", "boolq"),
        ("arc_easy.json", "arc_easy"),
        ("data_m.json", "data_m"),
        ("latest.json", "latest"),
    ],
)
def test_a_file_s_domain_is_its_set_without_the_part(
    name: str, domain: str, tmp_path: Path
) -> None:
    folder = _empty(tmp_path / "wino")
    content = json.dumps(QUESTION).encode()
    content = content if "jsonl" in name else b"[" + content + b"]"
    (folder / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert [e.domain for e in read_examples(folder)] == [domain]


def test_a_damaged_gzip_file_is_one_line_with_its_name(tmp_path: Path) -> None:
    """Every byte overwritten in turn: bad blocks, lengths and check sums, and files that end."""
    file = tmp_path / "pairs.jsonl.gz"
    whole = gzip.compress(json.dumps(PAIR).encode() * 3)
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + b"\xff\xff" + whole[at + 2 :])
        with pytest.raises(InputError, match=re.escape(str(file))) as error:
            read_items(file)
        assert len(str(error.value).splitlines()) == 1


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_users_by_a_rule_where_no_record_names_one(tmp_path: Path) -> None:
    pairs = [
        {"prompt": f"p{i}", "chosen": "c" * (1 + i % 3), "rejected": "rr"} for i in range(40)
    ] + [PAIR]
    file = _file(tmp_path, pairs)
    with pytest.raises(InputError, match=r"record 1 .*--set users_by=RULE does.*and 39 more"):
        read_preferences(file, users=True)
    longer = read_preferences(file, users=True, rule="longer")
    assert [p.user for p in longer[:3]] == ["shorter", "shorter", "longer"]
    assert longer[-1].user == "ann"  # who has said so
    hashed = [p.user for p in read_preferences(file, users=True, rule="hash:4")[:-1]]
    assert set(hashed) == {f"user {i}" for i in range(4)}
    assert hashed == [p.user for p in read_preferences(file, users=True, rule="hash:4")[:-1]]
    with pytest.raises(InputError, match=r"`domain`; found none: take longer or hash:5, or give"):
        read_preferences(file, users=True, rule="domain")


@pytest.mark.parametrize("rule", ["hash", "hash:1", "hash:x", "domain:3", "worker", 5])
def test_other_rules_are_refused(rule: Any) -> None:
    with pytest.raises(InputError, match="`users_by` must be"):
        users_by(rule)
