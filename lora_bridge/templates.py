"""Prompts as a model knows them: what stands before and after them, and what ends an answer.

A tokenizer carries the form of its prompts as its ``chat_template``, in transformers' dialect of
Jinja. There are three kinds:

- *A chat template* reads ``messages``. A prompt is the user's message, or several turns where it is
  written as one of HH's dialogues ("\\n\\nHuman: .. \\n\\nAssistant:"); the answer is the
  assistant's message and ends with the token that the template puts after it, such as <|im_end|>.
- *A template of prompts* reads ``prompt``, as "Q: {{ prompt }}\\nA:" does. A question comes there
  without the "Answer:" that it ends with in plain text; ``text`` has it as it is.
- *None*: the prompt as it is.

The first begins with what the template says, the others with what the tokenizer itself puts before
a text (an encoder's classification token, Llama's <s>, nothing for GPT-2), and their answers end
with the end token.

Prompt and answer are one text, which becomes tokens once: most vocabularies have " true", not " "
and "true". A token that spans the border belongs to the answer; so does a space at the prompt's end
if the vocabulary joins a space with the word after it.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from linsys.validate import InputError, shown
from lora_bridge._checks import tokenizer_of

__all__ = ["ANSWER", "STYLES", "Layout", "Row", "is_chat", "style_of", "template_of", "with_prompt"]

STYLES = ("auto", "chat", "plain")
#: What a question ends with in plain text. In a chat the assistant's turn stands for it.
ANSWER = "\nAnswer: "
_TURN = re.compile(r"(?:^|\n\n)(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}
#: Stands for a message while a template is tried.
_PROBES = ("first", "other")


class Row(NamedTuple):
    """A prompt, maybe with an answer, as tokens.

    Attributes:
        ids: all of them.
        start: of these, the prompt's.
        kept, closing: how many at the prompt's beginning and at its end are the template's.
    """

    ids: list[int]
    start: int
    kept: int
    closing: int

    @property
    def fixed(self) -> int:
        """Tokens of the prompt that are never cut."""
        return self.kept + self.closing

    def cut(self, most: int) -> Row:
        """At most so many tokens: where there are more, the prompt's text loses its beginning."""
        excess = max(0, len(self.ids) - most)
        ids = self.ids[: self.kept] + self.ids[self.kept + excess :]
        return self._replace(ids=ids, start=self.start - excess)


def template_of(prompt: str | Path) -> str:
    """One of :data:`STYLES`, or the text of a template.

    Args:
        prompt: one of these, a template itself (a text with "{{" or "{%"), or its file.

    Raises:
        InputError: a file that is missing or no text; a template that reads neither ``messages``
            nor ``prompt``.

    >>> template_of("chat"), template_of("Q: {{ prompt }}")
    ('chat', 'Q: {{ prompt }}')
    """
    if not isinstance(prompt, str | Path):
        raise InputError(f"`prompt` must be {_expected()}; found {shown(prompt)}")
    text, place = str(prompt), "one"
    if text in STYLES:
        return text
    if "{{" not in text and "{%" not in text:
        file = Path(text).expanduser()
        try:
            text, place = file.read_text(encoding="utf-8"), str(file)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "no text in UTF-8"
            raise InputError(f"`prompt` must be {_expected()}; found {file}: {reason}") from None
    if not _reads(text, "messages") and not _reads(text, "prompt"):
        raise InputError(
            "`prompt` must be a template that reads {{ prompt }} or the list messages; "
            f"found {place} that reads neither"
        )
    return text


def with_prompt(tokenizer: Any, prompt: str | Path = "auto") -> Any:
    """A tokenizer like this one whose prompts have a form.

    Args:
        tokenizer: of :func:`lora_bridge.models.load_model`.
        prompt: "auto" (its own template, if it has one), "chat" (its own, which has to be for
            chats), "plain" (no chat template), or a template as :func:`template_of` takes it.

    Raises:
        InputError: no chat template to be had; a template that is wrong.

    >>> from lora_bridge.docstrings import byte_tokenizer
    >>> asking = with_prompt(byte_tokenizer(), "Q: {{ prompt }} A:")
    >>> asking.decode(Layout(asking).prompt("why?").ids)
    'Q: why? A:'
    """
    wanted, made = template_of(prompt), copy.copy(tokenizer_of(tokenizer))
    chat = _is_chat(_own(tokenizer))
    if wanted == "chat" and not chat:
        raise InputError(
            "`prompt` must be plain, auto or a template's file for a model without a chat "
            "template; found chat"
        )
    if wanted == "plain" and chat:
        made.chat_template = None
    elif wanted not in STYLES:
        made.chat_template = wanted
    Layout(made)  # a template that does not work is found here
    return made


def is_chat(tokenizer: Any) -> bool:
    """Whether a tokenizer writes its prompts as the turns of a conversation.

    >>> from lora_bridge.docstrings import byte_tokenizer
    >>> is_chat(byte_tokenizer()), is_chat(with_prompt(byte_tokenizer(), "Q: {{ prompt }}"))
    (False, False)
    """
    return _is_chat(_own(tokenizer_of(tokenizer)))


def style_of(tokenizer: Any) -> str:
    """The form of a tokenizer's prompts, for the reader of a result.

    >>> from lora_bridge.docstrings import byte_tokenizer
    >>> style_of(byte_tokenizer()), style_of(with_prompt(byte_tokenizer(), "Q: {{ prompt }}"))
    ('plain', 'template cd7339ce')
    """
    from lora_bridge.docstrings import BYTES

    own = _own(tokenizer)
    if own is None or own == BYTES:
        return "plain"
    digest = hashlib.sha256(own.encode()).hexdigest()[:8]
    return f"{'chat template' if _is_chat(own) else 'template'} {digest}"


class Layout:
    """How a tokenizer's prompts and answers become tokens.

    Args:
        tokenizer: one of transformers, with the template that it carries.

    Raises:
        InputError: something else than a tokenizer, one that does not say which characters a token
            stands for, or a template that does not work.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer_of(tokenizer)
        if not getattr(tokenizer, "is_fast", False):
            raise InputError(
                "`tokenizer` must be a fast one, which says what characters a token stands for; "
                f"found {type(tokenizer).__name__}"
            )
        self._template = _own(tokenizer)
        self._chat = _is_chat(self._template)
        self._begin, end = _added(tokenizer)
        offsets = self._tokens([". a"])[0][1]
        self._joins = not any(end == 2 for _, end in offsets)
        self._head = self._tail = self._gap = self._closing = ""
        if self._template is not None:
            self._find_template_parts()
        if self._chat:
            self._begin = []
        elif not self._begin and tokenizer.cls_token_id is not None:
            self._begin = [tokenizer.cls_token_id]
        known = (i for i in (tokenizer.eos_token_id, tokenizer.sep_token_id) if i is not None)
        self._end = [] if self._closing else (end if end and not self._chat else [*known][:1])

    def prompt(self, text: str) -> Row:
        """The tokens of a prompt that is to be answered."""
        return self.rows([text], [()])[0][0]

    def rows(self, prompts: Sequence[str], answers: Sequence[Sequence[str]]) -> list[list[Row]]:
        """For every prompt a row for each of its answers with its end, or one without answers.

        A row's tokens after ``start`` are the answer's; an answer may have none but the end.
        """
        texts, borders, counts = list[str](), list[int](), list[int]()
        for prompt, own in zip(prompts, answers, strict=True):
            written, tails = self._written(prompt, own)
            border = len(self._without_space(written))
            texts += [written + tail for tail in tails] or [written[:border]]
            borders += [border] * max(1, len(own))
            counts.append(len(own))
        rows = iter(
            self._row(text, border, ids, offsets)
            for text, border, (ids, offsets) in zip(
                texts, borders, self._tokens(texts), strict=True
            )
        )
        return [
            [self._ended(next(rows)) for _ in range(count)] if count else [next(rows)]
            for count in counts
        ]

    def _without_space(self, text: str) -> str:
        """A prompt's text without the spaces that the vocabulary joins with the answer's word."""
        return text.rstrip(" ") if self._joins else text

    def _ended(self, row: Row) -> Row:
        return row._replace(ids=row.ids + self._end)

    def _row(self, text: str, border: int, ids: list[int], offsets: Sequence[Any]) -> Row:
        begin = len(self._begin)
        start = next((i for i, (_, end) in enumerate(offsets) if end > border), len(ids))
        kept = closing = 0
        if self._head and text.startswith(self._head):
            kept = sum(1 for _, end in offsets[:start] if end <= len(self._head))
        if self._tail:
            closing = sum(1 for at, _ in offsets[:start] if at >= border - len(self._tail))
        return Row([*self._begin, *ids], begin + start, begin + kept, closing)

    def _tokens(self, texts: Sequence[str]) -> list[tuple[list[int], Sequence[Any]]]:
        made = self.tokenizer(
            list(texts), add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return list(zip(made["input_ids"], made["offset_mapping"], strict=True))

    def _written(self, prompt: str, answers: Sequence[str]) -> tuple[str, list[str]]:
        """A prompt's text, and what follows it for each answer."""
        if not self._chat:
            text = prompt if self._template is None else self._rendered([_user(prompt)], prompt)
            return text, list(answers)
        messages = _messages(prompt)
        begun = messages.pop()["content"] if messages[-1]["role"] == "assistant" else None
        text = self._rendered(messages, prompt)
        if begun is not None:  # the prompt itself begins the answer
            return text + self._gap + begun, [answer + self._closing for answer in answers]
        return text, [
            self._several_turns(text, messages, answer)
            or self._gap + answer.lstrip() + self._closing
            for answer in answers
        ]

    def _several_turns(self, text: str, messages: list[dict[str, str]], answer: str) -> str:
        """An answer with turns of its own, as some of HH's have; "" for others."""
        turns = _messages(f"\n\nAssistant:{answer}") if "\n\nHuman:" in answer else []
        if len(turns) < 2 or not self._closing:
            return ""
        rendered = self._rendered([*messages, *turns], "", answered=True)
        end = rendered.rfind(self._closing)
        return rendered[len(text) : end + len(self._closing)] if rendered.startswith(text) else ""

    def _rendered(self, messages: list[dict[str, str]], prompt: str, answered: bool = False) -> str:
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    messages,
                    tokenize=False,
                    add_generation_prompt=not answered,
                    prompt=_unmarked(prompt),
                    text=prompt,
                )
            )
        except Exception as error:  # of Jinja, of what a template computes, or of Jinja's absence
            raise InputError(
                f"template of prompts must be one that Jinja can carry out; found {_said(error)}"
            ) from None

    def _find_template_parts(self) -> None:
        """What a template puts around a first message and an answer."""
        first, other = (self._rendered([_user(text)], text) for text in _PROBES)
        if first == other:
            raise InputError(
                "template of prompts must write the prompt; found that it writes "
                f"{shown(first)} for every one"
            )
        self._head = _same_beginning(first, other)
        self._tail = self._without_space(_same_beginning(first[::-1], other[::-1])[::-1])
        if not self._chat:
            return
        said = {"role": "assistant", "content": _PROBES[1]}
        rendered = self._rendered([_user(_PROBES[0]), said], _PROBES[0], answered=True)
        place = rendered.rfind(_PROBES[1])
        if rendered.startswith(first) and place >= len(first):
            self._gap = rendered[len(first) : place]
        after = rendered[place + len(_PROBES[1]) :] if place >= 0 else ""
        ids, offsets = self._tokens([after])[0] if after else ([], [])
        special = {*self.tokenizer.all_special_ids, *self.tokenizer.get_added_vocab().values()}
        ends = [end for i, (_, end) in zip(ids, offsets, strict=True) if i in special]
        self._closing = after[: ends[0]] if ends else ""


def _own(tokenizer: Any) -> str | None:
    """The template that a tokenizer carries."""
    template = getattr(tokenizer, "chat_template", None)
    if template is None or isinstance(template, str):
        return template
    try:
        return str(tokenizer.get_chat_template())
    except ValueError as error:  # several, none of which is the default
        raise InputError(f"`tokenizer` must have one template; found {_said(error)}") from None


def _said(error: Exception) -> str:
    """All that an error says, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _is_chat(template: str | None) -> bool:
    return template is not None and _reads(template, "messages")


def _reads(template: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", template) is not None


def _added(tokenizer: Any) -> tuple[list[int], list[int]]:
    """What a tokenizer itself puts before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    marked = tokenizer("a")["input_ids"]
    for at in range(len(marked) - len(bare) + 1):
        if marked[at : at + len(bare)] == bare:
            return marked[:at], marked[at + len(bare) :]
    return [], []


def _same_beginning(first: str, other: str) -> str:
    pairs = enumerate(zip(first, other, strict=False))
    return first[: next((i for i, (a, b) in pairs if a != b), min(len(first), len(other)))]


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _unmarked(prompt: str) -> str:
    """A question without the mark of its answer."""
    return re.sub(rf"{ANSWER.rstrip()}\s*$", "", prompt)


def _messages(prompt: str) -> list[dict[str, str]]:
    """A prompt as messages: the turns of a dialogue, without a last one that is still empty."""
    if not _TURN.match(prompt):
        return [_user(_unmarked(prompt).strip())]
    _, *parts = _TURN.split(prompt)
    messages: list[dict[str, str]] = []
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        if messages and messages[-1]["role"] == _ROLES[name]:  # most templates want them in turn
            messages[-1]["content"] += f"\n\n{text.strip()}"
        else:
            messages.append({"role": _ROLES[name], "content": text.strip()})
    if len(messages) > 1 and messages[-1] == {"role": "assistant", "content": ""}:
        messages.pop()
    return messages


def _expected() -> str:
    return f"{', '.join(STYLES)} or the file of a template"
