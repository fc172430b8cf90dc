"""Questions, preference pairs and dialogues from the user's files.

*Instruction data*: JSON (a list) or JSONL of {instruction, input, output, answer}, as the
commonsense sets of FSLoRA have it. *Preference pairs*: {prompt, chosen, rejected}. *Dialogues*:
{chosen, rejected} with turns "\\n\\nHuman:" and "\\n\\nAssistant:", as in HH; the prompt is what
both have in common up to the last turn of the assistant that both begin. All may carry ``domain``
and ``user`` (or ``worker``). Empty lines are passed over.

An error names the place of the wrong record, "line 3 of pairs.jsonl", or its number in a list, and
says how many more are wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from linsys.validate import InputError, check_flag, check_instance, check_path as path_of
from lora_bridge._checks import listed, texts

__all__ = [
    "Example",
    "Pair",
    "pairs_of",
    "read_dialogues",
    "read_examples",
    "read_pairs",
    "read_preferences",
]

_ASSISTANT = "\n\nAssistant:"


@dataclass(frozen=True)
class Example:
    """A question with its answer.

    Attributes:
        prompt: what the model is given.
        target: what it should say.
        choices: the targets it has to choose from, among them ``target``; empty where open.
        domain, user: where it comes from; empty where unknown.
        place: line and file, for messages.
    """

    prompt: str
    target: str
    choices: tuple[str, ...] = ()
    domain: str = ""
    user: str = ""
    place: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("prompt", "target"):
            check_instance(name, getattr(self, name), str, "a text")
        object.__setattr__(self, "choices", tuple(texts("choices", self.choices)))


@dataclass(frozen=True)
class Pair:
    """Two answers to a prompt, of which the first is preferred; else as :class:`Example`."""

    prompt: str
    chosen: str
    rejected: str
    domain: str = ""
    user: str = ""
    place: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("prompt", "chosen", "rejected"):
            check_instance(name, getattr(self, name), str, "a text")


_Item = TypeVar("_Item", Example, Pair)


def read_examples(path: Path | str, domain: str | None = None) -> list[Example]:
    """The questions of a file of {instruction, input, output, answer}.

    The choices come from the line "Answer format: a/b/c" of an instruction; the target is the
    answer (the output where there is none). Without ``domain``, it is the file's name up to an
    underscore.

    Raises:
        InputError: no such file, no JSON, a record without instruction or answer; by its number.
    """
    file = path_of("path", path)
    named = file.stem.partition("_")[0] if domain is None else domain
    return _records(file, lambda record: _example(record, named))


def read_pairs(path: Path | str, domain: str = "") -> list[Pair]:
    """The pairs of a file of {prompt, chosen, rejected}.

    Raises:
        InputError: no such file, no JSON; a record without one of the three, with an empty answer
            or the same one twice.
    """
    return _records(path_of("path", path), lambda record: _pair(record, domain))


def read_dialogues(path: Path | str, domain: str = "") -> list[Pair]:
    """The pairs of a file of dialogues {chosen, rejected}.

    Raises:
        InputError: as :func:`read_pairs`, and a dialogue without an answer, or whose two sides
            differ before the first one.
    """
    return _records(path_of("path", path), lambda record: _dialogue(record, domain))


def read_preferences(path: Path | str, domain: str = "", *, users: bool = False) -> list[Pair]:
    """The pairs of a file of either kind: a record with ``prompt`` is a pair, another a dialogue.

    Args:
        path: the file.
        domain: of records that name none.
        users: whether every record must say whose preference it is.

    Raises:
        InputError: as the two other readers.
    """

    def read(record: Any) -> Pair:
        known = isinstance(record, dict) and "prompt" in record
        pair = (_pair if known else _dialogue)(record, domain)
        if users and not pair.user:
            raise InputError("`user` must say whose preference it is (or `worker`); found neither")
        return pair

    check_flag("users", users)
    return _records(path_of("path", path), read)


def pairs_of(examples: Sequence[Example]) -> list[Pair]:
    """Each question as pairs: the right answer preferred to each wrong one.

    >>> pairs_of([Example("Is 2 even?", "true", ("true", "false"))])[0].rejected
    'false'
    """
    return [
        Pair(e.prompt, e.target, wrong, e.domain, e.user)
        for e in listed("examples", examples, Example)
        for wrong in e.choices
        if wrong != e.target
    ]


def _example(record: Any, domain: str) -> Example:
    instruction = _text(record, "instruction")
    extra = _text(record, "input", "")
    target = _text(record, "answer", _text(record, "output", "")).strip()
    if not target:
        raise InputError("`answer` must be there, or `output`; found neither")
    answer_format = re.search(r"Answer format:\s*(\S+(?:/\S+)+)\s*$", instruction)
    choices = tuple(answer_format.group(1).split("/")) if answer_format else ()
    if choices and target not in choices:
        raise InputError(f"`answer` must be one of {', '.join(choices)}; found {target!r}")
    prompt = f"{instruction}\n{extra}".strip() + "\nAnswer: "
    return Example(prompt, target, choices, _text(record, "domain", domain), _user(record))


def _pair(record: Any, domain: str) -> Pair:
    prompt, chosen, rejected = (_text(record, key) for key in ("prompt", "chosen", "rejected"))
    return _compared(record, domain, prompt, chosen, rejected)


def _dialogue(record: Any, domain: str) -> Pair:
    chosen, rejected = (_text(record, key) for key in ("chosen", "rejected"))
    for key, side in (("chosen", chosen), ("rejected", rejected)):
        if _ASSISTANT not in side:
            raise InputError(
                f"`{key}` must be a dialogue with a turn {_ASSISTANT.strip()!r} where there is no "
                "`prompt`; found none"
            )
    ours, theirs = chosen.split(_ASSISTANT), rejected.split(_ASSISTANT)
    common = 0
    while common < min(len(ours), len(theirs)) - 1 and ours[common] == theirs[common]:
        common += 1
    if common == 0:
        raise InputError(
            "`chosen` and `rejected` must be the same up to an answer; found others before it"
        )
    prompt = _ASSISTANT.join(ours[:common]) + _ASSISTANT
    at = len(prompt)
    return _compared(record, domain, prompt, chosen[at:], rejected[at:])


def _compared(record: Any, domain: str, prompt: str, chosen: str, rejected: str) -> Pair:
    for key, answer in (("chosen", chosen), ("rejected", rejected)):
        if not answer.strip():
            raise InputError(f"the answer of `{key}` must not be empty; found {answer!r}")
    if chosen.strip() == rejected.strip():
        raise InputError("`chosen` and `rejected` must differ; found the same answer twice")
    return Pair(prompt, chosen, rejected, _text(record, "domain", domain), _user(record))


def _records(file: Path, read: Callable[[Any], _Item]) -> list[_Item]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"`data` must be a readable text file; found {file} ({error})") from None
    listed = text.lstrip().startswith("[")
    kind, items, refused = "record" if listed else "line", list[_Item](), list[str]()
    # not splitlines: JSON lets other ends of lines, such as U+2028, stand inside a text
    for number, part in enumerate(_listed(text, file) if listed else text.split("\n"), 1):
        if not listed and not part.strip():
            continue
        place = f"{kind} {number} of {file}"
        try:
            items.append(replace(read(part if listed else json.loads(part)), place=place))
        except json.JSONDecodeError as error:
            refused.append(f"{place} must be JSON; found {error.msg} at column {error.colno}")
        except InputError as error:
            refused.append(f"{place}: {error}")
    if refused:
        more = f" (and {len(refused) - 1} more of {len(refused) + len(items)})"
        raise InputError(refused[0] + more * (len(refused) > 1))
    if not items:
        raise InputError(f"`data` must hold at least one record; found none in {file}")
    return items


def _listed(text: str, file: Path) -> list[Any]:
    try:
        return list(json.loads(text))
    except json.JSONDecodeError as error:
        raise InputError(f"`data` must be JSON; found {file} with {error}") from None


def _text(record: Any, key: str, default: str | None = None) -> str:
    if not isinstance(record, dict):
        raise InputError(f"a record must be an object with `{key}`; found {type(record).__name__}")
    value = record.get(key, default)
    if not isinstance(value, str):
        kind = "none" if key not in record else type(value).__name__
        raise InputError(f"`{key}` must be a text; found {kind}")
    if not value.isascii() and re.search("[\ud800-\udfff]", value):
        raise InputError(f"`{key}` must be a text; found half of a surrogate pair in it")
    return value


def _user(record: dict[str, Any]) -> str:
    named = [record[key] for key in ("user", "worker") if record.get(key) is not None]
    if not named:
        return ""
    if isinstance(named[0], bool) or not isinstance(named[0], str | int):
        raise InputError(f"`user` must be a text or a number; found {type(named[0]).__name__}")
    return str(named[0])
