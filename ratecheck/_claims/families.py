"""How the statements of a catalogue belong together: corrections, sharper forms, other readings.

Everything is read off the ids and off which claim replaces which. Records are what
:meth:`ratecheck._verdicts.records.Result.to_record` gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: A verdict with the texts of its statement.
Record = Mapping[str, Any]
#: Relations in words; a rate has none.
IN_WORDS = {"<=": "at most", ">=": "at least", "==": "equal to", "": "at most"}
_SHARPER = ("_sharper", "_sharp")


def parents(records: Sequence[Record]) -> dict[str, str]:
    """The claim to which a statement belongs by its id, for every statement that has one.

    "affpcl.d1f_sec12" belongs to "affpcl.d1f". An explicit bound does not belong to a rate.
    """
    claims = {record["id"] for record in records if record["kind"] != "rate"}
    found = {}
    for record in records:
        shorter = record["id"]
        while "_" in shorter and record["id"] not in found:
            shorter = shorter.rpartition("_")[0]
            if shorter in claims:
                found[record["id"]] = shorter
    return found


def corrections(records: Sequence[Record]) -> set[str]:
    """Ids of the statements that replace a false one and are not themselves in the paper."""
    whole = parents(records)
    return {
        record["corrected"]
        for record in records
        if record["corrected"] and whole.get(record["id"]) != record["corrected"]
    }


def roles(records: Sequence[Record]) -> dict[str, str]:
    """What is not a statement of the paper as printed: "corrected", "sharper", "other reading".

    Another reading is a false one of a statement that has a reading of its own.

    >>> kind = {"kind": "upper", "corrected": None, "expected": "holds", "verdict": ""}
    >>> lemma, sharp = ({**kind, "id": name} for name in ("my.lemma", "my.lemma_sharper"))
    >>> read = {**kind, "id": "my.lemma_sec4", "corrected": "my.lemma", "expected": "violated"}
    >>> roles([lemma, sharp, read])
    {'my.lemma_sharper': 'sharper', 'my.lemma_sec4': 'other reading'}
    """
    replacing, whole = corrections(records), parents(records)
    found = {}
    for record in records:
        name = record["id"]
        if name in replacing:
            found[name] = "corrected"
        elif name.endswith(_SHARPER):
            found[name] = "sharper"
        elif false(record) and name in whole:
            found[name] = "other reading"
    return found


def false(record: Record) -> bool:
    """Whether a statement is false, by this verdict or as known before."""
    return "violated" in (record["verdict"], record["expected"])


def sharper(records: Sequence[Record]) -> dict[str, Record]:
    """The record of a sharper form, by the id of the statement that it sharpens."""
    return {
        record["id"].removesuffix(suffix): record
        for record in records
        for suffix in _SHARPER
        if record["id"].endswith(suffix)
    }
