"""Prompts in the form that a model knows: what they are as tokens, and where answers begin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from linsys import InputError
from lora_bridge.data import Example, Pair
from lora_bridge.docstrings import byte_tokenizer
from lora_bridge.rollouts import encode_prompts
from lora_bridge.templates import Layout, style_of, template_of, with_prompt
from lora_bridge.tokens import encode_choices, encode_examples, encode_pairs

from ._tokenizers import CHATML, INSTRUCT, encoder, joined

ASKED = "is two even?\nAnswer: "
HEAD = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
TURN = "<|im_end|>\n<|im_start|>assistant\n"


def _parts(tokenizer: Any, prompt: str, *answers: str) -> list[tuple[str, str]]:
    """Prompt and answer as texts, for every answer."""
    [rows] = Layout(tokenizer).rows([prompt], [answers])
    return [
        (tokenizer.decode(row.ids[: row.start]), tokenizer.decode(row.ids[row.start :]))
        for row in rows
    ]


def _apart(tokenizer: Any, prompt: str, answer: str) -> list[int]:
    """Prompt and answer made tokens each for itself, which splits them at the space."""
    return [*tokenizer(prompt)["input_ids"], *tokenizer(answer)["input_ids"]]


@pytest.mark.parametrize("bos", [False, True])
def test_prompt_and_answer_are_one_text_that_is_never_split_at_a_space(bos: bool) -> None:
    tokenizer = joined(bos)
    begin = "<s>" * bos
    assert _parts(tokenizer, ASKED, "true", "5") == [
        (f"{begin}is two even?\nAnswer:", " true</s>"),
        (f"{begin}is two even?\nAnswer:", " 5</s>"),
    ]
    [[row]] = Layout(tokenizer).rows([ASKED], [["true"]])
    whole = tokenizer(ASKED + "true")["input_ids"]
    assert row.ids == [*whole, tokenizer.eos_token_id]
    assert _apart(tokenizer, ASKED, "true") != whole
    # where the space is a token of its own it stays with the prompt
    assert _parts(byte_tokenizer(), ASKED, "true") == [(f"<s>{ASKED}", "true</s>")]


def test_a_token_that_spans_the_border_is_the_answers() -> None:
    tokenizer = joined()
    [[row]] = Layout(tokenizer).rows(["the answ"], [["er"]])
    assert tokenizer.decode(row.ids[: row.start]) == "the"
    assert tokenizer.decode(row.ids[row.start :]) == " answer</s>"


def test_what_a_tokenizer_puts_around_a_text_is_around_prompt_and_answer() -> None:
    tokenizer = encoder()
    [[row]] = Layout(tokenizer).rows(["is two even?"], [["true"]])
    assert row.ids == tokenizer("is two even? true")["input_ids"]
    assert tokenizer.decode(row.ids[row.start :]) == "true [SEP]"
    made = encode_pairs(tokenizer, [Pair("is two even?", " true", " false")])
    assert (made["input_ids"][0, :, 0] == tokenizer.cls_token_id).all()


def test_a_chat_is_what_the_template_writes_and_its_end_is_learnt() -> None:
    tokenizer = joined(template=CHATML)
    messages = [{"role": "user", "content": "is two even?"}]
    asked = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    both = tokenizer.apply_chat_template(
        [*messages, {"role": "assistant", "content": "true"}], tokenize=False
    )
    [part] = _parts(tokenizer, ASKED, " true")
    assert part == (asked, "true<|im_end|>")
    assert "".join(part) + "\n" == both
    made = encode_examples(tokenizer, [Example(ASKED, "true")])
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert made["input_ids"][0, -1] == end
    assert made["target_mask"][0].tolist()[-2:] == [1, 1]
    prompts = encode_prompts(tokenizer, [[ASKED]])["input_ids"][0, 0]
    assert torch.equal(prompts, made["input_ids"][0, : len(prompts)])


def test_a_template_with_its_own_beginning_and_a_space_before_answers() -> None:
    tokenizer = joined(bos=True, template=INSTRUCT)
    [part] = _parts(tokenizer, ASKED, "true")
    assert part == ("<s>[INST] is two even? [/INST]", " true </s>")
    assert part[0].count("<s>") == 1  # the tokenizer's own one would be a second


@pytest.mark.parametrize("template", [CHATML, INSTRUCT])
def test_dialogues_are_messages(template: str) -> None:
    tokenizer = joined(template=template)
    prompt = "\n\nHuman: hi\n\nHuman: there\n\nAssistant: hello\n\nHuman: joke?\n\nAssistant:"
    messages = [
        {"role": "user", "content": "hi\n\nthere"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "joke?"},
    ]
    answer = " knock\n\nHuman: who?\n\nAssistant: me"
    more = [
        {"role": "assistant", "content": "knock"},
        {"role": "user", "content": "who?"},
        {"role": "assistant", "content": "me"},
    ]
    asked = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template([*messages, *more], tokenize=False)
    part, several = _parts(tokenizer, prompt, " yes", answer)
    assert part[0] == several[0] == asked
    assert "".join(several) == whole.rstrip()
    assert _parts(with_prompt(tokenizer, "plain"), prompt, " yes")[0][0].endswith(prompt)
    begun = _parts(tokenizer, f"{prompt} I", " will")
    assert [begun[0][0].removeprefix(asked).strip(), begun[0][1].strip()[:4]] == ["I", "will"]


def test_styles() -> None:
    chat, plain = joined(template=CHATML), joined()
    assert _parts(with_prompt(chat, "plain"), ASKED, "true") == _parts(plain, ASKED, "true")
    assert _parts(with_prompt(chat, "auto"), ASKED, "true") == _parts(chat, ASKED, "true")
    assert _parts(with_prompt(chat, "chat"), ASKED, "true") == _parts(chat, ASKED, "true")
    assert _parts(with_prompt(plain, CHATML), ASKED, "true") == _parts(chat, ASKED, "true")
    own = with_prompt(chat, "Q: {{ prompt }}\nA: ")
    assert _parts(own, ASKED, "true") == [("Q: is two even?\nA:", " true</s>")]
    assert chat.chat_template == CHATML  # a tokenizer is not changed
    names = [style_of(t) for t in (chat, plain, own, with_prompt(byte_tokenizer(), "plain"))]
    assert names[1::2] == ["plain", "plain"]
    assert names[0].startswith("chat template ")
    assert names[2].startswith("template ")
    assert _parts(with_prompt(byte_tokenizer(), "plain"), "a", "b") == [("<s>a", "b</s>")]


def test_a_file_of_a_template(tmp_path: Path) -> None:
    file = tmp_path / "asked.jinja"
    file.write_text("Q: {{ prompt }} A:\n", encoding="utf-8")
    assert template_of(file) == template_of(str(file)) == "Q: {{ prompt }} A:\n"
    parts = _parts(with_prompt(joined(), file), "why?", " true")
    assert parts == [("Q: why? A:", " true</s>")]


def test_a_long_prompt_loses_its_beginning_and_never_what_the_template_puts() -> None:
    tokenizer = joined(template=CHATML)
    long = " ".join(f"word{i}" for i in range(60))
    [whole] = encode_examples(tokenizer, [Example(long, "true")])["input_ids"]
    made = encode_examples(tokenizer, [Example(long, "true")], 100, too_long="cut")
    assert made["input_ids"].shape == (1, 100)
    assert made.cut == 1
    text = tokenizer.decode(made["input_ids"][0])
    assert text.startswith(HEAD)
    assert text.endswith(f"word59{TURN}true<|im_end|>")
    assert len(text) < len(tokenizer.decode(whole))
    prompts = encode_prompts(tokenizer, [[long]], 100, too_long="cut")["input_ids"][0, 0]
    text = tokenizer.decode(prompts)
    assert text.startswith(HEAD)
    assert text.endswith(f"word59{TURN}")
    with pytest.raises(InputError, match=r"target of sample 0 must have 1 to \d+ tokens, so that"):
        encode_examples(tokenizer, [Example(long, "true " * 99)], 100, too_long="cut")
    with pytest.raises(InputError, match=r"`max_length` must be at least the \d+ tokens that the"):
        encode_prompts(tokenizer, [[long]], 9, too_long="cut")
    with pytest.raises(InputError, match=r"`max_length` must be above the \d+ tokens that the"):
        encode_examples(tokenizer, [Example(long, "true")], 9, too_long="cut")


class _Slow:
    is_fast, pad_token_id = False, 0

    def __call__(self, texts: Sequence[str]) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: with_prompt(t, "chat"), "for a model without a chat template; found chat"),
        (lambda t: with_prompt(byte_tokenizer(), "chat"), "without a chat template; found chat"),
        (lambda t: with_prompt(t, "nothing.jinja"), "found nothing.jinja: No such file"),
        (lambda t: with_prompt(t, "{{ question }}"), "reads neither"),
        (lambda t: with_prompt(t, "{{ prompt"), "must be one that Jinja can carry out; found T"),
        (
            lambda t: with_prompt(t, "{{ prompt.no.such }}"),
            "must be one that Jinja .* found UndefinedError",
        ),
        (lambda t: with_prompt(t, "Q {# {{ prompt }} #}"), "must write the prompt; found that it"),
        (lambda t: with_prompt(t, 3), "`prompt` must be auto, chat, plain or the file of a templ"),
        (lambda t: with_prompt(3, "plain"), "`tokenizer` must be one of transformers"),
        (lambda t: Layout(_Slow()), "`tokenizer` must be a fast one, .* found _Slow"),
        (
            lambda t: Layout(joined(template=INSTRUCT)).prompt("\n\nAssistant: a\n\nHuman: b"),
            "must be one that Jinja .* found .*roles must alternate",
        ),
        (
            lambda t: with_prompt(t, f"{{{{ prompt.a{'b' * 90}.c }}}}"),
            "must be one that Jinja .* found UndefinedError: .* has no attribute 'ab{90}'$",
        ),
    ],
)
def test_what_is_no_template_is_one_line(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        call(joined())
    assert len(str(error.value).splitlines()) == 1


def test_choices_share_their_prompts_tokens_and_differ_after() -> None:
    tokenizer = joined(template=CHATML)
    made = encode_choices(tokenizer, [Example(ASKED, "true", ("true", "false"))])
    start = int(made["target_mask"][0, 0].argmax())
    first, second = made["input_ids"][0]
    assert torch.equal(first[:start], second[:start])
    assert not torch.equal(first, second)
    ends = [
        tokenizer.decode(row[mask == 1])
        for row, mask in zip(made["input_ids"][0], made["target_mask"][0], strict=True)
    ]
    assert ends == ["true<|im_end|>", "false<|im_end|>"]
