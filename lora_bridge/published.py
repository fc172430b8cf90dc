"""Records of published sets of questions, as their authors and as the Hugging Face hub have them.

=============  ====================================================================================
PIQA           {goal, sol1, sol2, label: 0 or 1}
SIQA           {context, question, answerA, answerB, answerC, label: 1 to 3}
WinoGrande     {sentence, option1, option2, answer: 1 or 2}
HellaSwag      {activity_label, ctx_a, ctx_b, endings, label: 0 to 3}
ARC            {question, choices, answerKey}, the choices {text: [..], label: [..]}, or
               {question: {stem, choices: [{text, label}, ..]}, answerKey}
OpenBookQA     {question_stem, choices, answerKey}, or as the second form of ARC
BoolQ          {passage, question, answer: true or false}, or SuperGLUE's label 1 or 0
=============  ====================================================================================

They are put as LLM-Adapters' sets put them, with the choices listed and their names ("answer2") to
be answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from linsys.validate import InputError, shown

__all__ = ["KINDS", "Asked", "asked", "parsed"]


class Asked(NamedTuple):
    """A question with choices.

    Attributes:
        lead: what is to be done.
        question: alone.
        choices: what is to be answered.
        texts: the choices in full, in their order; empty where unknown.
        right: place of the right one.
        passage: what the question is about, where there is such a text.
    """

    lead: str
    question: str
    choices: tuple[str, ...]
    texts: tuple[str, ...]
    right: int
    passage: str = ""

    @property
    def instruction(self) -> str:
        """What the model is given."""
        listed = ""
        if self.choices != _TRUTHS:
            pairs = zip(self.choices, self.texts, strict=True)
            listed = " ".join(f"{name.capitalize()}: {text}" for name, text in pairs) + "\n\n"
        about = f"{self.passage}\n\n" * bool(self.passage)
        return f"{about}{self.lead}: {self.question}\n\n{listed}Answer format: " + "/".join(
            self.choices
        )


_TRUTHS = ("true", "false")
_YES_NO = ("yes", "no")
_LISTED = re.compile(r"(?:^|\s)(?:Answer|Solution|Ending|Option)(\d+): ")


def asked(record: Mapping[str, Any]) -> Asked | None:
    """The question of a record of one of these sets, or None for another record.

    Raises:
        InputError: a record of such a set without texts, or without its right choice.

    >>> made = asked({"goal": "Open a jar.", "sol1": "Twist.", "sol2": "Wait.", "label": 0})
    >>> made.choices[made.right], made.texts
    ('solution1', ('Twist.', 'Wait.'))
    """
    for _, keys, read in KINDS.values():
        if keys <= set(record):
            return read(record)
    return None


def parsed(instruction: str, choices: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The question and the full texts of its choices in an instruction that lists them.

    As the sets of LLM-Adapters do: "Please choose the correct answer to the question: .. Answer1:
    .. Answer2: .. Answer format: answer1/answer2". Truths have the texts yes and no. Both are
    empty where an instruction is of another form.

    >>> parsed("Please answer: Is it?\\n\\nAnswer1: No. Answer2: Yes.\\n\\n"
    ...        "Answer format: answer1/answer2", ("answer1", "answer2"))
    ('Is it?', ('No.', 'Yes.'))
    """
    match = re.match(r"(?s)Please [^:]*: (.*?)\n\n(.*\n\n)?Answer format:", instruction)
    if not match:
        return "", ()
    question, listed = match.group(1).strip(), (match.group(2) or "").strip()
    if tuple(choices) == _TRUTHS and not listed:
        return question, _YES_NO
    _, *parts = _LISTED.split(listed)
    numbers, texts = parts[::2], tuple(text.strip() for text in parts[1::2])
    if numbers != [str(i + 1) for i in range(len(choices))] or not all(texts):
        return "", ()
    return question, texts


def _named(lead: str, question: str, name: str, texts: Sequence[str], right: int) -> Asked:
    choices = tuple(f"{name}{i + 1}" for i in range(len(texts)))
    return Asked(f"Please choose the correct {lead}", question, choices, tuple(texts), right)


def _piqa(record: Mapping[str, Any]) -> Asked:
    texts = [_text(record, "sol1"), _text(record, "sol2")]
    right = _place(record, ("label",), 0, 2)
    return _named("solution to the question", _text(record, "goal"), "solution", texts, right)


def _siqa(record: Mapping[str, Any]) -> Asked:
    texts = [_text(record, f"answer{letter}") for letter in "ABC"]
    question = f"{_text(record, 'context')} {_text(record, 'question')}"
    right = _place(record, ("label",), 1, 3)
    return _named("answer to the question", question, "answer", texts, right)


def _winogrande(record: Mapping[str, Any]) -> Asked:
    texts = [_text(record, "option1"), _text(record, "option2")]
    lead = "answer to fill in the blank to complete the given sentence"
    right = _place(record, ("answer", "label"), 1, 2)
    return _named(lead, _text(record, "sentence"), "option", texts, right)


def _hellaswag(record: Mapping[str, Any]) -> Asked:
    endings = record["endings"]
    if not isinstance(endings, list) or len(endings) < 2:
        raise InputError(f"`endings` must be a list of texts; found {shown(endings)}")
    checked = [_checked("endings", ending) for ending in endings]
    texts = [_checked("endings", _without_marks(ending)) for ending in checked]
    begun = f"{_text(record, 'ctx_a')} {_text(record, 'ctx_b', empty=True).capitalize()}"
    activity = f"{record['activity_label']}: " if record.get("activity_label") else ""
    lead = "ending to complete the given sentence"
    right = _place(record, ("label",), 0, len(texts))
    return _named(lead, _without_marks(activity + begun), "ending", texts, right)


def _lettered(record: Mapping[str, Any]) -> Asked:
    """ARC and OpenBookQA."""
    inner = record.get("question")
    held = inner if isinstance(inner, Mapping) else record
    stem = "stem" if held is inner else ("question_stem" if "question_stem" in held else "question")
    choices = held.get("choices")
    if isinstance(choices, Mapping):  # a list of each, as the hub has them
        pairs = _pairs(choices.get("text"), choices.get("label"))
    elif isinstance(choices, list) and all(isinstance(c, Mapping) for c in choices):
        pairs = [(choice.get("text"), choice.get("label")) for choice in choices]
    else:
        pairs = []
    if len(pairs) < 2:
        raise InputError(
            f"`choices` must be texts with labels, two or more; found {shown(choices)}"
        )
    labels = [label for _, label in pairs]
    if record["answerKey"] not in labels:
        raise InputError(
            f"`answerKey` must be one of {', '.join(map(str, labels))}; "
            f"found {shown(record['answerKey'])}"
        )
    texts = [_checked("choices", text) for text, _ in pairs]
    right = labels.index(record["answerKey"])
    return _named("answer to the question", _text(held, stem), "answer", texts, right)


def _pairs(texts: Any, labels: Any) -> list[tuple[Any, Any]]:
    """Texts with their labels; none where these are not two lists of one length."""
    if isinstance(texts, list) and isinstance(labels, list) and len(texts) == len(labels):
        return list(zip(texts, labels, strict=True))
    return []


def _boolq(record: Mapping[str, Any]) -> Asked:
    answer = record.get("answer", record.get("label"))
    if answer not in (0, 1):
        raise InputError(f"`answer` must be true or false; found {shown(answer)}")
    question = _text(record, "question")
    question += "?" * (not question.endswith("?"))
    lead = "Please answer the following question with true or false, question"
    right = 0 if answer else 1
    return Asked(lead, question, _TRUTHS, _YES_NO, right, _text(record, "passage"))


#: Name of a set to its form, the keys that a record of it has, and its reader.
KINDS: Mapping[str, tuple[str, frozenset[str], Callable[[Mapping[str, Any]], Asked]]] = {
    name: (form, frozenset(keys.split()), read)
    for name, form, keys, read in (
        ("PIQA", "{goal, sol1, sol2}", "goal sol1 sol2", _piqa),
        ("SIQA", "{context, question, answerA, ..}", "context question answerA answerB", _siqa),
        ("WinoGrande", "{sentence, option1, option2}", "sentence option1 option2", _winogrande),
        ("HellaSwag", "{ctx_a, ctx_b, endings}", "ctx_a ctx_b endings", _hellaswag),
        ("OpenBookQA", "{question_stem, choices, answerKey}", "question_stem answerKey", _lettered),
        ("ARC", "{question, choices, answerKey}", "question answerKey", _lettered),
        ("BoolQ", "{passage, question, answer}", "passage question", _boolq),
    )
}


def _place(record: Mapping[str, Any], keys: Sequence[str], first: int, count: int) -> int:
    """The right choice's place, counted from 0, of a label counted from ``first``."""
    label = next((record[key] for key in keys if record.get(key) is not None), None)
    known = {str(first + i): i for i in range(count)}
    if isinstance(label, bool) or str(label) not in known:
        raise InputError(
            f"`{keys[0]}` must be one of {', '.join(known)}; found {shown(label)} "
            "(some published tests have none)"
        )
    return known[str(label)]


def _text(record: Mapping[str, Any], key: str, *, empty: bool = False) -> str:
    return _checked(key, record.get(key), empty=empty)


def _checked(key: str, value: Any, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (empty or value.strip()):
        raise InputError(f"`{key}` must be a text; found {shown(value)}")
    return value.strip()


def _without_marks(text: str) -> str:
    """HellaSwag's texts without the marks of the pages they come from."""
    unmarked = re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". "))
    return unmarked.replace("  ", " ")
