"""A chat with a model and its adapters: what it is told, what the terminal does, the example."""

from __future__ import annotations

import io
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from peft import PeftModel

from linsys import InputError
from lora_bridge import chat as module
from lora_bridge.bank import AdapterBank
from lora_bridge.chat import AFTER, BEFORE, Chat, talk
from lora_bridge.metrics import read_metrics
from lora_bridge.models import load_model
from lora_bridge.peft_io import save_adapter
from lora_bridge.templates import with_prompt
from ratecheck._commands.app import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat_before_and_after.py"
TURNS = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def chat_of(model_folder: Path) -> Callable[..., Chat]:
    loaded = load_model(model_folder)
    bank = AdapterBank(loaded.model, ["q_proj", "lm_head"])
    X = 3 * torch.randn(2, bank.width, generator=torch.Generator().manual_seed(0))

    def made(template: str = "plain", **options: Any) -> Chat:
        tokenizer = with_prompt(loaded.tokenizer, template)
        return Chat(bank, tokenizer, X, **{"length": 6, **options})

    return made


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The prompts that models are given."""
    seen: list[str] = []
    original = module.encode_prompts

    def noted(tokenizer: Any, texts: Any, *rest: Any, **named: Any) -> Any:
        batch = original(tokenizer, texts, *rest, **named)
        seen.append(tokenizer.decode(batch["input_ids"][0, 0]))
        return batch

    monkeypatch.setattr(module, "encode_prompts", noted)
    return seen


def test_the_model_and_its_adapters_answer_differently(chat_of: Callable[..., Chat]) -> None:
    chat = chat_of()
    first = {who: chat.answer("some text", who) for who in (BEFORE, AFTER)}
    assert first[BEFORE] != first[AFTER]
    chat.forget()
    assert {who: chat.answer("some text", who) for who in (BEFORE, AFTER)} == first
    sampled = {chat_of(seed=k, temperature=1.0).answer("some text") for k in range(2)}
    assert len(sampled) == 2


def test_at_first_an_answer_is_the_likeliest(chat_of: Callable[..., Chat]) -> None:
    answers = {chat_of(seed=k).answer("some text", AFTER) for k in range(5)}
    assert len(answers) == 1


def test_a_model_for_chats_is_told_all_turns(chat_of: Callable[..., Chat], told: list[str]) -> None:
    chat = chat_of(TURNS)
    answer = chat.answer("one")
    chat.answer("two", AFTER)
    chat.answer("three")
    assert told == [
        "<user>one<assistant>",
        "<user>two<assistant>",  # a conversation of its own
        f"<user>one<assistant>{answer}<user>three<assistant>",
    ]
    chat.forget()
    chat.answer("four")
    assert told[-1] == "<user>four<assistant>"


def test_another_model_is_told_the_last_words(
    chat_of: Callable[..., Chat], told: list[str]
) -> None:
    chat = chat_of()
    for words in ("one", "two"):
        chat.answer(words)
    assert [text.removeprefix("<s>") for text in told] == ["one", "two"]


def test_a_long_conversation_loses_its_beginning(
    chat_of: Callable[..., Chat], told: list[str]
) -> None:
    chat = chat_of(TURNS, length=4)
    places = chat.tokenizer.model_max_length = 64
    first = " ".join(map(str, range(places)))
    answer = chat.answer(first)
    chat.answer("and now")
    whole = [f"{first}<assistant>", f"{first}<assistant>{answer}<user>and now<assistant>"]
    for text, said in zip(told, whole, strict=True):
        tokens = chat.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert len(tokens) == places - 4
        assert said.endswith(text.removeprefix("<user>"))  # which begins every prompt


def _talk(chat: Chat, *lines: str, end: type[BaseException] = EOFError) -> list[str]:
    said: list[str] = []
    left = iter(lines)

    def read(prompt: str) -> str:
        for line in left:
            return line
        raise end

    talk(chat, read, said.append)
    return said


@pytest.mark.parametrize("end", [EOFError, KeyboardInterrupt])
def test_talk_goes_between_both_and_ends_cleanly(
    chat_of: Callable[..., Chat], end: type[BaseException]
) -> None:
    chat = chat_of()
    expected = {who: chat.answer("some text", who) for who in (BEFORE, AFTER)}
    for words, answers in (
        (("some text",), [AFTER]),
        (("/before", "some text", "", "/after", "some text"), [BEFORE, AFTER]),
    ):
        chat.forget()
        said = _talk(chat, *words, end=end)
        assert said[1:-1] == [f"{who}> {expected[who]}" for who in answers]
        assert said[-1] == ""
    assert _talk(chat, "/what", "/quit", "never read")[1:] == [said[0]]
    chat.X = None
    assert _talk(chat, "/after")[1] == "there are no adapters"


def test_ctrl_c_during_an_answer_ends_the_chat(
    chat_of: Callable[..., Chat], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "sample", interrupted)
    assert _talk(chat_of(), "some text")[1:] == [""]


def test_the_command_asks_both(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    model_folder: Path,
    chat_of: Callable[..., Chat],
) -> None:
    chat = chat_of()
    assert chat.X is not None
    save_adapter(tmp_path / "adapter", chat.bank, chat.X)
    answers = {who: chat.answer("some text", who) for who in (BEFORE, AFTER)}

    def called(*more: object) -> tuple[int, str, str]:
        words = ["chat", "--model", model_folder, "--length", 6, *more]
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err

    code, out, _ = called("--adapter", tmp_path / "adapter", "--ask", "some text")
    asked = "you> some text\n"
    assert (code, out) == (0, asked + "".join(f"{who}> {a}\n" for who, a in answers.items()))
    assert called("--ask", "some text")[:2] == (0, f"{asked}before> {answers[BEFORE]}\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("some text\n/before\nsome text\n"))
    code, out, _ = called("--adapter", tmp_path / "adapter")
    transcript = out.partition("\n")[2]  # after the help
    after, before = (f"{asked}{who}> {answers[who]}\n" for who in (AFTER, BEFORE))
    assert (code, transcript) == (0, f"{after}you> /before\n{before}\n")
    nowhere = f"adapter in {tmp_path / 'no'} must have an adapter_config.json, as PEFT writes it"
    (tmp_path / "run" / "adapters" / "round-000002").mkdir(parents=True)
    saved = tmp_path / "run" / "adapters" / "round-000002" / "server"
    (tmp_path / "adapter").rename(saved)
    for words, message in (
        (("--ask", " "), "`--ask` must be a text that is not empty"),
        (("--adapter", tmp_path / "no", "--ask", "a"), f"{nowhere}; found no such folder"),
        (("--adapter", tmp_path, "--ask", "a"), "as PEFT writes it; found none"),
        (("--adapter", tmp_path / "run", "--ask", "a"), f"found one in {saved}"),
        (("--length", 9999, "--ask", "a"), "`length` must be less than the model's"),
        (("--length", 0, "--ask", "a"), "`length` must be a whole number"),
        (("--temperature", 0, "--ask", "a"), "`temperature` must be"),
    ):
        code, _, err = called(*words)
        assert code == 2
        assert message in err
        assert len(err.splitlines()) == 1


def test_a_terminal_is_sent_no_control_characters(
    chat_of: Callable[..., Chat], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "responses", lambda *_: [["a\x1b[2Jb\nc\x07"]])
    assert chat_of().answer("some text") == "a [2Jb\nc"


def test_an_empty_answer_is_said_to_be_one(
    chat_of: Callable[..., Chat], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "responses", lambda *_: [[" \n"]])
    assert _talk(chat_of(), "some text")[1:] == ["after> (nothing)", ""]
    said: list[str] = []
    module.ask(chat_of(), "some text", said.append)
    assert said[1:] == ["before> (nothing)", "after> (nothing)"]


def test_adapters_that_are_not_there(chat_of: Callable[..., Chat]) -> None:
    chat = chat_of()
    chat.X = None
    with pytest.raises(InputError, match="`who` must be before; found 'after'"):
        chat.answer("a", AFTER)
    with pytest.raises(InputError, match="`X` must"):
        Chat(chat.bank, chat.tokenizer, torch.zeros(2, 3))


QUESTIONS = [
    {"instruction": f"Say {c}.", "input": "", "output": c, "answer": c} for c in "abcdefghij"
]
PAIRS = [{"prompt": f"Say {c}.", "chosen": c, "rejected": "no, never"} for c in "abcdefghij"]


class Said(NamedTuple):
    """What the example has printed, and the line that it ended with, if with any."""

    out: str
    problem: str | None


@pytest.fixture
def example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Said]:
    """Runs the example as a program."""

    def called(*words: object) -> Said:
        monkeypatch.setattr("sys.argv", ["chat_before_and_after.py", *map(str, words)])
        problem = None
        try:
            runpy.run_path(str(EXAMPLE), run_name="__main__")
        except SystemExit as left:
            problem = str(left.code)
        return Said(capsys.readouterr().out, problem)

    return called


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # PEFT's
@pytest.mark.parametrize("records", [None, QUESTIONS, PAIRS])
def test_the_example_trains_and_asks(
    example: Callable[..., Said], tmp_path: Path, model_folder: Path, records: list[Any] | None
) -> None:
    words = ["--model", model_folder, "--rounds", 2, "--clients", 2, "--length", 5]
    if records is not None:
        (tmp_path / "data.json").write_text(json.dumps(records))
        words.insert(0, tmp_path / "data.json")
    words += ["--out", tmp_path / "out", "--ask", "some text"]
    done = example(*words)
    assert done.problem is None
    asked = done.out.partition("\nsome text\n")[2]
    assert asked.startswith("  before: ")
    assert "\n  after: " in asked
    assert [line["round"] for line in read_metrics(tmp_path / "out")] == [0, 1, 2]
    folder = Path(next(line for line in done.out.splitlines() if line.startswith("adapter: "))[9:])
    model = load_model(model_folder).model
    assert isinstance(PeftModel.from_pretrained(model, str(folder)), PeftModel)


def test_the_example_says_what_is_wrong_in_a_line(
    example: Callable[..., Said], tmp_path: Path, model_folder: Path
) -> None:
    (tmp_path / "data.json").write_text("[]")
    for words in ((tmp_path / "none.json",), (tmp_path / "data.json",)):
        done = example(*words, "--model", model_folder, "--out", tmp_path / "out")
        assert done.problem is not None
        assert done.problem.startswith("error: ")
        assert len(done.problem.splitlines()) == 1
