"""Questions, preference pairs and dialogues from the user's files.

*Instruction data*: {instruction, input, output, answer}, as the commonsense sets of FSLoRA have it,
or {question, answer}; of {prompt, answer} the prompt is taken as it is, without "Answer:" after it.
``output``, ``completion`` and ``response`` are other names of ``answer``. *Questions with choices*
as they are published, see :mod:`lora_bridge.published`. *Preference pairs*: {prompt, chosen,
rejected}. *Dialogues*: {chosen, rejected} with turns "\\n\\nHuman:" and "\\n\\nAssistant:", as in
HH; the prompt is what both have in common up to the last turn of the assistant that both begin. All
may carry ``domain`` and ``user`` (or ``worker``).

A file is JSON (a list) or JSONL, also packed by gzip; empty lines are passed over. Right choices
may be in a file of their own, a line each, as PIQA's authors have them: train-labels.lst beside
train.jsonl. A folder stands for its files.

An error names the place of the wrong record, "line 3 of pairs.jsonl", or its number in a list, and
says how many more are wrong. Pairs that compare nothing, of which published sets have some, are
left out and counted: those with an empty answer, and those of the same answer twice.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from linsys.json_text import from_json
from linsys.validate import InputError, check_flag, check_instance, check_path as path_of
from lora_bridge._checks import listed, texts
from lora_bridge.published import KINDS, asked, parsed
from lora_bridge.splits import users_by
from lora_bridge.templates import ANSWER

__all__ = [
    "Example",
    "Pair",
    "Records",
    "files_of",
    "item_of",
    "pairs_of",
    "read_dialogues",
    "read_examples",
    "read_items",
    "read_pairs",
    "read_preferences",
    "records_in",
    "text_field",
    "user_in",
]

_ASSISTANT = "\n\nAssistant:"
#: What a question may stand under, and its answer.
_ASKED = ("instruction", "question", "prompt")
_ANSWERED = ("answer", "output", "completion", "response")
#: What a file's name ends with where it says which part of a set it holds, not which set.
_PART = re.compile(
    r"(^|[-_.])(train([-_.](xs|s|m|l|xl|debiased))?|valid|validation|val|dev|test)$", re.IGNORECASE
)


@dataclass(frozen=True)
class Example:
    """A question with its answer.

    Attributes:
        prompt: what the model is given.
        target: what it should say.
        choices: the targets it has to choose from, among them ``target``; empty where open.
        question, texts, passage: the same as a question alone, its choices in full and what it is
            about, for :mod:`lora_bridge.scoring`; empty where unknown.
        domain, user: where it comes from; empty where unknown.
        place: line and file, for messages.
    """

    prompt: str
    target: str
    choices: tuple[str, ...] = ()
    domain: str = ""
    user: str = ""
    place: str = field(default="", compare=False, repr=False)
    question: str = field(default="", compare=False, repr=False)
    texts: tuple[str, ...] = field(default=(), compare=False, repr=False)
    passage: str = field(default="", compare=False, repr=False)

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
_Any = TypeVar("_Any")


class Records(list[_Any]):
    """What was read from files; ``left_out``: how many more there were, which compare nothing."""

    left_out: int = 0


class _NoComparison(InputError):
    """A pair whose answers are empty or equal."""


def read_items(path: Path | str) -> Records[Example] | Records[Pair]:
    """The questions or the preference pairs of a file or a folder, whichever it holds.

    Raises:
        InputError: as the other readers; records of no known kind (says which are known), or of
            both.
    """
    folder = path_of("path", path).is_dir()

    def read(record: Any, own: str) -> Any:
        compared = isinstance(record, dict) and "chosen" in record
        return item_of(record, own if folder or not compared else "")

    parts = (records_in(file, partial(read, own=own)) for file, own in files_of(path))
    items: Records[Example] | Records[Pair] = _joined(parts)
    kinds = {type(item) for item in items}
    if len(kinds) > 1:
        raise InputError(f"`data` must hold questions or preference pairs; found both in {path}")
    return items


def read_examples(path: Path | str, domain: str | None = None) -> Records[Example]:
    """The questions of a file or a folder: instruction data or questions with choices.

    The choices come from the line "Answer format: a/b/c" of an instruction; the target is the
    answer. Without ``domain``, it is the file's name without its part of the set, ARC-Easy of
    ARC-Easy-Test.jsonl, or the folder's name for train.jsonl.

    Raises:
        InputError: no such file, no JSON, a record without instruction or answer; by its number.
    """
    return _joined(
        records_in(file, partial(_of_kind, Example, domain=domain or own))
        for file, own in files_of(path)
    )


def read_pairs(path: Path | str, domain: str = "") -> Records[Pair]:
    """The pairs of a file of {prompt, chosen, rejected}.

    Raises:
        InputError: no such file, no JSON; a record without one of the three; no pair that compares
            anything.
    """
    return records_in(path_of("path", path), lambda record: _pair(record, domain))


def read_dialogues(path: Path | str, domain: str = "") -> Records[Pair]:
    """The pairs of a file of dialogues {chosen, rejected}.

    Raises:
        InputError: as :func:`read_pairs`, and a dialogue without a turn of the assistant, or whose
            two sides differ before the first one.
    """
    return records_in(path_of("path", path), lambda record: _dialogue(record, domain))


def read_preferences(
    path: Path | str, domain: str = "", *, users: bool = False, rule: str = ""
) -> Records[Pair]:
    """The pairs of a file of either kind: a record with ``prompt`` is a pair, another a dialogue.

    Args:
        path: the file, or a folder, whose files' names are the domains.
        domain: of records that name none.
        users: whether every pair must have a user whose preference it is.
        rule: who that is where a record does not say, see :func:`lora_bridge.splits.users_by`.

    Raises:
        InputError: as the two other readers; no user and no rule.
    """
    check_flag("users", users)
    user_of = users_by(rule) if rule else None
    folder = path_of("path", path).is_dir()

    def read(record: Any, own: str) -> Pair:
        pair = _of_kind(Pair, record, domain or own * folder)
        if not users or pair.user:
            return pair
        if user_of is None:
            raise InputError(
                "`user` must say whose preference it is (or `worker`); found neither: "
                "--set users_by=RULE does, RULE being domain, longer or hash:5"
            )
        return replace(pair, user=user_of(pair))

    return _joined(records_in(file, partial(read, own=own)) for file, own in files_of(path))


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


def files_of(path: Path | str) -> Iterator[tuple[Path, str]]:
    """The files of a path, each with the domain that its name says."""
    place = path_of("path", path)
    files = [place]
    if place.is_dir():
        files = sorted(f for f in place.glob("*.json*") if f.is_file())
        if not files:
            raise InputError(f"`data` must hold files *.json or *.jsonl; found none in {place}")
    for file in files:
        stem = re.sub(r"(\.jsonl?)?(\.gz)?$", "", file.name)
        yield file, _PART.sub("", stem) or file.absolute().parent.name


def item_of(record: Any, domain: str) -> Example | Pair:
    """A record of any kind."""
    if not isinstance(record, dict):
        raise InputError(f"a record must be an object; found {type(record).__name__}")
    if "instruction" in record:
        return _example(record, domain)
    if "chosen" in record:
        return (_pair if "prompt" in record else _dialogue)(record, domain)
    question = asked(record)
    if question is None and any(key in record for key in _ANSWERED) and set(_ASKED) & set(record):
        return _example(record, domain)
    if question is None:
        known = ", ".join(f"{name} {form}" for name, (form, *_) in KINDS.items())
        raise InputError(
            "a record must be {instruction, answer}, {question, answer}, {prompt, answer}, "
            "{prompt, chosen, rejected}, {chosen, rejected} or of "
            f"{known}; found {{{', '.join(list(record)[:8])}}}"
        )
    return Example(
        question.instruction + ANSWER,
        question.choices[question.right],
        question.choices,
        text_field(record, "domain", domain),
        user_in(record),
        question=question.question,
        texts=question.texts,
        passage=question.passage,
    )


def _of_kind(kind: type[_Item], record: Any, domain: str) -> _Item:
    item = item_of(record, domain)
    if not isinstance(item, kind):
        names = {Example: "a question", Pair: "a preference pair"}
        raise InputError(f"a record must be {names[kind]}; found {names[type(item)]}")
    return item


def _example(record: Any, domain: str) -> Example:
    kind = next(key for key in _ASKED if key in record)
    instruction = text_field(record, kind)
    extra = text_field(record, "input", "")
    given = (text_field(record, key) for key in _ANSWERED if record.get(key) is not None)
    target = next((text for text in given if text.strip()), "")
    if not target:
        raise InputError("`answer` must be there, or `output`; found neither")
    if kind != "prompt":
        target = target.strip()
    answer_format = re.search(r"Answer format:\s*(\S+(?:/\S+)+)\s*$", instruction)
    choices = tuple(answer_format.group(1).split("/")) if answer_format else ()
    if choices and target not in choices:
        raise InputError(f"`answer` must be one of {', '.join(choices)}; found {target!r}")
    prompt = instruction if kind == "prompt" else f"{instruction}\n{extra}".strip() + ANSWER
    question, full = parsed(instruction, choices) if choices else ("", ())
    return Example(
        prompt,
        target,
        choices,
        text_field(record, "domain", domain),
        user_in(record),
        question=question,
        texts=full,
    )


def _pair(record: Any, domain: str) -> Pair:
    prompt, chosen, rejected = (text_field(record, key) for key in ("prompt", "chosen", "rejected"))
    return _compared(record, domain, prompt, chosen, rejected)


def _dialogue(record: Any, domain: str) -> Pair:
    chosen, rejected = (text_field(record, key) for key in ("chosen", "rejected"))
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
            raise _NoComparison(f"the answer of `{key}` must not be empty; found {answer!r}")
    if chosen.strip() == rejected.strip():
        raise _NoComparison("`chosen` and `rejected` must differ; found the same answer twice")
    return Pair(prompt, chosen, rejected, text_field(record, "domain", domain), user_in(record))


def _joined(parts: Iterable[Records[_Item]]) -> Records[_Item]:
    whole = Records[_Item]()
    for part in parts:
        whole += part
        whole.left_out += part.left_out
    return whole


def records_in(file: Path, read: Callable[[Any], _Item]) -> Records[_Item]:
    """What ``read`` makes of every record of a file; an error names the place of the first one."""
    text, labels = _content(file), _labels(file)
    listed = text.lstrip().startswith("[")
    kind, items, refused = "record" if listed else "line", Records[_Item](), list[str]()
    left_out: list[str] = []
    # not splitlines: JSON lets other ends of lines, such as U+2028, stand inside a text
    for number, part in enumerate(_listed(text, file) if listed else text.split("\n"), 1):
        if not listed and not part.strip():
            continue
        place = f"{kind} {number} of {file}"
        try:
            record = part if listed else from_json(part)
            if labels is not None and isinstance(record, dict):
                before = len(items) + len(refused) + len(left_out)
                record = _labelled(record, labels, before, file)
            items.append(replace(read(record), place=place))
        except json.JSONDecodeError as error:
            refused.append(f"{place} must be JSON; found {error.msg} at column {error.colno}")
        except _NoComparison as error:
            left_out.append(f"{place}: {error}")
        except InputError as error:
            refused.append(f"{place}: {error}")
    count = len(items) + len(refused) + len(left_out)
    if wrong := refused or (left_out if not items else []):
        more = f" (and {len(wrong) - 1} more of {count})"
        raise InputError(wrong[0] + more * (len(wrong) > 1))
    if not items:
        raise InputError(f"`data` must hold at least one record; found none in {file}")
    items.left_out = len(left_out)
    return items


def _content(file: Path) -> str:
    try:
        if file.suffix == ".gz":
            return gzip.decompress(file.read_bytes()).decode("utf-8-sig")
        return file.read_text(encoding="utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"`data` must be a readable text file; found {file} ({error})") from None


def _labels(file: Path) -> list[str] | None:
    """The lines of a file of labels beside this one, if there is any."""
    beside = file.with_name(re.sub(r"\.jsonl?(\.gz)?$", "", file.name) + "-labels.lst")
    return _content(beside).split() if beside.is_file() else None


def _labelled(record: dict[str, Any], labels: list[str], place: int, file: Path) -> dict[str, Any]:
    """A record with its line of the labels, unless it has one of its own."""
    if record.get("label") is not None or record.get("answer"):
        return record
    if place >= len(labels):
        raise InputError(
            f"the labels beside {file.name} must be one for every record; found {len(labels)}"
        )
    return record | {"label": labels[place]}


def _listed(text: str, file: Path) -> list[Any]:
    try:
        return list(from_json(text))
    except json.JSONDecodeError as error:
        raise InputError(f"`data` must be JSON; found {file} with {error}") from None


def text_field(record: Any, key: str, default: str | None = None) -> str:
    """The text under a key of a record, or the default without it; an error says what is there."""
    if not isinstance(record, dict):
        raise InputError(f"a record must be an object with `{key}`; found {type(record).__name__}")
    value = record.get(key, default)
    if not isinstance(value, str):
        kind = "none" if key not in record else type(value).__name__
        raise InputError(f"`{key}` must be a text; found {kind}")
    if not value.isascii() and re.search("[\ud800-\udfff]", value):
        raise InputError(f"`{key}` must be a text; found half of a surrogate pair in it")
    return value


def user_in(record: dict[str, Any]) -> str:
    """Who a record is from, under ``user`` or ``worker``; empty where it does not say."""
    named = [record[key] for key in ("user", "worker") if record.get(key) is not None]
    if not named:
        return ""
    if isinstance(named[0], bool) or not isinstance(named[0], str | int):
        raise InputError(f"`user` must be a text or a number; found {type(named[0]).__name__}")
    return str(named[0])
