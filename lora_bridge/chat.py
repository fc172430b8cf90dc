"""A model and its adapters in a conversation: the same words to both, in the terminal.

Answers are samples of :mod:`lora_bridge.rollouts`. A model with a chat template is told all turns
of the conversation; another one the last words alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from linsys.validate import InputError, check_instance, check_integer, check_number
from lora_bridge._checks import floats, tokenizer_of
from lora_bridge.bank import AdapterBank
from lora_bridge.models import load_model
from lora_bridge.peft_io import load_adapter, targets_of
from lora_bridge.rollouts import encode_prompts, responses, sample
from lora_bridge.targets import adaptable
from lora_bridge.templates import is_chat

__all__ = ["AFTER", "BEFORE", "NOTHING", "Chat", "ask", "open_chat", "talk"]

#: The model alone, and with its adapters.
BEFORE, AFTER = "before", "after"
#: What is shown in the place of an answer without a letter.
NOTHING = "(nothing)"
#: What the user's words begin with; answers begin with who gives them.
_USER = "you> "
_HELP = (
    f"/{BEFORE}: the model alone, /{AFTER}: with its adapters, /new: forget what was said, /quit"
)


@dataclass
class Chat:
    """Two conversations: with a model alone, and with its adapters.

    Args:
        bank: of a causal language model.
        tokenizer: the model's.
        X: rows (r, w) for the bank; None: there is the model alone.
        length: most tokens of an answer.
        temperature: of the samples; with one as small as this they are the likeliest tokens, as
            those of a small model's whole softmax are often unreadable.
        seed: of the samples.

    Raises:
        InputError: no model, no tokenizer, rows of another width, numbers out of range.

    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> from lora_bridge.docstrings import byte_tokenizer
    >>> config = LlamaConfig(vocab_size=300, hidden_size=8, intermediate_size=8,
    ...                      num_hidden_layers=1, num_attention_heads=2)
    >>> tokenizer = byte_tokenizer()
    >>> tokenizer.model_max_length = 64
    >>> bank = AdapterBank(LlamaForCausalLM(config), ["q_proj"])
    >>> type(Chat(bank, tokenizer, length=4).answer("hello"))
    <class 'str'>
    """

    bank: AdapterBank
    tokenizer: Any
    X: Tensor | None = None
    length: int = 96
    temperature: float = 0.001
    seed: int = 0
    _turns: dict[str, list[tuple[str, str]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        width = check_instance("bank", self.bank, AdapterBank, "an AdapterBank of the model").width
        tokenizer_of(self.tokenizer)
        if self.X is not None:
            floats("X", self.X, "r", width)
        _check_numbers(self.length, self.temperature, self.seed)
        places = int(self.tokenizer.model_max_length)
        if self.length >= places:
            raise InputError(
                f"`length` must be less than the model's {places} tokens; found {self.length}"
            )
        self.forget()

    def forget(self) -> None:
        """Begin both conversations anew."""
        self._turns = {BEFORE: [], AFTER: []}

    def answer(self, words: str, who: str = BEFORE) -> str:
        """What the model says to some words, which become a part of its conversation.

        Args:
            words: the user's.
            who: "before" for the model alone, "after" for it with its adapters.

        Raises:
            InputError: adapters that are not there; words that are no text.
        """
        if who not in (BEFORE, AFTER) or (who == AFTER and self.X is None):
            known = BEFORE if self.X is None else f"{BEFORE} or {AFTER}"
            raise InputError(f"`who` must be {known}; found {who!r}")
        if not check_instance("words", words, str, "a text").strip():
            raise InputError("`words` must be a text that is not empty; found none")
        turns, text = self._turns[who], words
        if is_chat(self.tokenizer):
            said = "".join(f"\n\nHuman: {one}\n\nAssistant: {other}" for one, other in turns)
            text = f"{said}\n\nHuman: {words}\n\nAssistant:"
        most = int(self.tokenizer.model_max_length) - self.length
        prompts = encode_prompts(self.tokenizer, [[text]], most, too_long="cut")
        X = None if who == BEFORE or self.X is None else self.X[None]
        numbers: dict[str, Any] = {"seed": self.seed, "round_": len(turns)}
        batch = sample(
            self.bank,
            X,
            prompts,
            length=self.length,
            temperature=self.temperature,
            **numbers,
        )
        [[answer]] = responses(self.tokenizer, batch)
        # what a model says must not steer the terminal
        shown = "".join(c if c.isprintable() or c in "\n\t" else " " for c in answer).strip()
        turns.append((words, shown))
        return shown


def _check_numbers(length: int, temperature: float, seed: int) -> None:
    check_integer("length", length, low=1)
    check_number("temperature", temperature, low=0.0, low_open=True)
    check_integer("seed", seed, low=0, high=(1 << 64) - 1)


def open_chat(
    model: Path | str | None = None,
    adapter: Path | str | None = None,
    *,
    length: int = 96,
    temperature: float = 0.001,
    seed: int = 0,
) -> Chat:
    """A chat with a model, and with the adapter of a folder that PEFT reads.

    Args:
        model: see :func:`lora_bridge.models.load_model`.
        adapter: the folder; None: the model alone.
        length, temperature, seed: of :class:`Chat`.

    Raises:
        InputError: what the readers of models and adapters refuse, and :class:`Chat`.
    """
    _check_numbers(length, temperature, seed)  # before a minute of loading
    targets = None if adapter is None else targets_of(adapter)
    loaded = load_model(model)
    bank = AdapterBank(loaded.model, targets or [next(iter(adaptable(loaded.model)))])
    X = None if adapter is None else load_adapter(adapter, bank)
    return Chat(bank, loaded.tokenizer, X, length, temperature, seed)


def ask(chat: Chat, words: str, write: Callable[[str], None] = print) -> None:
    """Write a question and the answers to it: of the model alone, then with adapters if it has any.

    It begins both conversations anew.
    """
    chat.forget()
    write(f"{_USER}{words}")
    for who in (BEFORE,) if chat.X is None else (BEFORE, AFTER):
        write(f"{who}> {chat.answer(words, who) or NOTHING}")


def _line(prompt: str) -> str:
    """The next line of the standard input, which a transcript shows where no terminal does."""
    if sys.stdin.isatty():
        return input(prompt)
    words = input()
    print(f"{prompt}{words}")
    return words


def talk(
    chat: Chat,
    read: Callable[[str], str] = _line,
    write: Callable[[str], None] = print,
) -> None:
    """Talk until there is nothing more to read, or until Ctrl-C.

    Args:
        chat: begins with the adapters where there are any.
        read: the user's next line, of a prompt; raises EOFError at the end.
        write: says something; an answer begins with who gives it.
    """
    who = BEFORE if chat.X is None else AFTER
    write(_HELP)
    try:
        while True:
            words = read(_USER).strip()
            if words == "/quit":
                return
            if words == f"/{AFTER}" and chat.X is None:
                write("there are no adapters")
            elif words in (f"/{BEFORE}", f"/{AFTER}"):
                who = words[1:]
            elif words == "/new":
                chat.forget()
            elif words.startswith("/"):
                write(_HELP)
            elif words:
                write(f"{who}> {chat.answer(words, who) or NOTHING}")
    except (EOFError, KeyboardInterrupt):
        write("")
