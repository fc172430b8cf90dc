"""How the statements of a catalogue belong together: corrections, sharper forms, other readings.

Records are what :meth:`ratecheck._verdicts.records.Result.to_record` gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: A verdict with the texts of its statement.
Record = Mapping[str, Any]
#: Relations in words; a rate has none.
IN_WORDS = {"<=": "at most", ">=": "at least", "==": "equal to", "": "at most"}


def parents(records: Sequence[Record]) -> dict[str, str]:
    """The statement of the paper that another one is a reading of, by the other one's id."""
    return {r["id"]: r["reading_of"] for r in records if r.get("reading_of")}


def corrections(records: Sequence[Record]) -> set[str]:
    """Ids of the statements that replace a false one and are not themselves in the paper."""
    whole = parents(records)
    return {
        record["corrected"]
        for record in records
        if record["corrected"] and whole.get(record["id"]) != record["corrected"]
    }


def roles(records: Sequence[Record]) -> dict[str, str]:
    """What a record is if not a paper's statement: "corrected", "sharper", "other reading".

    An "other reading" is false, and names in ``reading_of`` the statement that it reads.

    >>> lemma = dict.fromkeys(("corrected", "sharpens", "reading_of"))
    >>> lemma |= {"id": "my.lemma", "expected": "holds", "verdict": ""}
    >>> sharp = {**lemma, "id": "my.lemma_sharper", "sharpens": "my.lemma"}
    >>> read = {**lemma, "id": "my.lemma_sec4", "corrected": "my.lemma", "expected": "violated"}
    >>> roles([lemma, sharp, {**read, "reading_of": "my.lemma"}])
    {'my.lemma_sharper': 'sharper', 'my.lemma_sec4': 'other reading'}
    """
    replacing, whole = corrections(records), parents(records)
    role_of = {}
    for record in records:
        name = record["id"]
        if name in replacing:
            role_of[name] = "corrected"
        elif record.get("sharpens"):
            role_of[name] = "sharper"
        elif false(record) and name in whole:
            role_of[name] = "other reading"
    return role_of


def false(record: Record) -> bool:
    """Whether a statement is false, by this verdict or as known before."""
    return "violated" in (record["verdict"], record["expected"])


def sharper(records: Sequence[Record]) -> dict[str, Record]:
    """The record of a sharper form, by the id of the statement that it sharpens."""
    return {r["sharpens"]: r for r in records if r.get("sharpens")}
