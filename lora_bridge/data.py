"""Questions, preference pairs and dialogues from the user's files.

*Instruction data*: JSON (a list) or JSONL of {instruction, input, output, answer}, as the
commonsense sets of FSLoRA have it. *Preference pairs*: {prompt, chosen, rejected}. *Dialogues*:
{chosen, rejected} with turns "\\n\\nHuman:" and "\\n\\nAssistant:", as in HH; the prompt is what
both have in common up to the last answer. All may carry ``domain`` and ``user``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from linsys._validate import InputError

__all__ = ["Example", "Pair", "pairs_of", "read_dialogues", "read_examples", "read_pairs"]

_Item = TypeVar("_Item")
_ASSISTANT = "\n\nAssistant:"


@dataclass(frozen=True)
class Example:
    """A question with its answer.

    Attributes:
        prompt: what the model is given.
        target: what it should say.
        choices: the targets it has to choose from, among them ``target``; empty where open.
        domain, user: where it comes from; empty where unknown.
    """

    prompt: str
    target: str
    choices: tuple[str, ...] = ()
    domain: str = ""
    user: str = ""


@dataclass(frozen=True)
class Pair:
    """Two answers to a prompt, of which the first is preferred."""

    prompt: str
    chosen: str
    rejected: str
    domain: str = ""
    user: str = ""


def read_examples(path: Path | str, domain: str | None = None) -> list[Example]:
    """The questions of a file of {instruction, input, output, answer}.

    The choices come from the line "Answer format: a/b/c" of an instruction; the target is the
    answer (the output where there is none). Without ``domain``, it is the file's name up to an
    underscore.

    Raises:
        InputError: no such file, no JSON, a record without instruction or answer; by its number.
    """
    file = Path(path)
    named = file.stem.partition("_")[0] if domain is None else domain
    return _records(file, lambda record: _example(record, named))


def read_pairs(path: Path | str, domain: str = "") -> list[Pair]:
    """The pairs of a file of {prompt, chosen, rejected}.

    Raises:
        InputError: no such file, no JSON, a record without one of the three; by its number.
    """
    return _records(Path(path), lambda record: _pair(record, domain))


def read_dialogues(path: Path | str, domain: str = "") -> list[Pair]:
    """The pairs of a file of dialogues {chosen, rejected}.

    Raises:
        InputError: as :func:`read_pairs`, and a dialogue without an answer, or whose two sides
            differ before their last answers.
    """
    return _records(Path(path), lambda record: _dialogue(record, domain))


def pairs_of(examples: Sequence[Example]) -> list[Pair]:
    """Each question as pairs: the right answer preferred to each wrong one.

    >>> pairs_of([Example("Is 2 even?", "true", ("true", "false"))])[0].rejected
    'false'
    """
    return [
        Pair(e.prompt, e.target, wrong, e.domain, e.user)
        for e in examples
        for wrong in e.choices
        if wrong != e.target
    ]


def _example(record: Any, domain: str) -> Example:
    instruction = _text(record, "instruction")
    extra = _text(record, "input", "")
    target = _text(record, "answer", _text(record, "output", "")).strip()
    if not target:
        raise InputError("`answer` must be there, or `output`; found neither")
    found = re.search(r"Answer format:\s*(\S+(?:/\S+)+)\s*$", instruction)
    choices = tuple(found.group(1).split("/")) if found else ()
    if choices and target not in choices:
        raise InputError(f"`answer` must be one of {', '.join(choices)}; found {target!r}")
    prompt = f"{instruction}\n{extra}".strip() + "\nAnswer: "
    return Example(prompt, target, choices, _text(record, "domain", domain), _user(record))


def _pair(record: Any, domain: str) -> Pair:
    prompt, chosen, rejected = (_text(record, key) for key in ("prompt", "chosen", "rejected"))
    return Pair(prompt, chosen, rejected, _text(record, "domain", domain), _user(record))


def _dialogue(record: Any, domain: str) -> Pair:
    sides = [_text(record, key).rpartition(_ASSISTANT) for key in ("chosen", "rejected")]
    if not all(marker for _, marker, _ in sides):
        raise InputError(f"a dialogue must have a turn {_ASSISTANT.strip()!r}; found none")
    if sides[0][0] != sides[1][0]:
        raise InputError("`chosen` and `rejected` must differ in their last answers only")
    prompt = sides[0][0] + _ASSISTANT
    chosen, rejected = (answer for _, _, answer in sides)
    return Pair(prompt, chosen, rejected, _text(record, "domain", domain), _user(record))


def _records(file: Path, read: Callable[[Any], _Item]) -> list[_Item]:
    items = []
    for number, record in _parsed(file):
        try:
            items.append(read(record))
        except InputError as error:
            raise InputError(f"record {number} of {file}: {error}") from None
    if not items:
        raise InputError(f"`data` must hold at least one record; found none in {file}")
    return items


def _parsed(file: Path) -> Iterator[tuple[int, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"`data` must be a readable text file; found {file} ({error})") from None
    if text.lstrip().startswith("["):
        try:
            yield from enumerate(json.loads(text), 1)
        except json.JSONDecodeError as error:
            raise InputError(f"`data` must be JSON; found {file} with {error}") from None
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(
                    f"`data` must be JSON in every line; found line {number} of {file} with {error}"
                ) from None


def _text(record: Any, key: str, default: str | None = None) -> str:
    value = record.get(key, default) if isinstance(record, dict) else None
    if not isinstance(value, str):
        raise InputError(f"`{key}` must be a text; found {type(value).__name__}")
    return value


def _user(record: dict[str, Any]) -> str:
    return str(record.get("user", record.get("worker", "")))
