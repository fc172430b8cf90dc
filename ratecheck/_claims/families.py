"""How the statements of a catalogue belong together: corrections, sharper forms, other readings.

Records are what :meth:`ratecheck._verdicts.records.Result.to_record` gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ratecheck._claims.claim import VERDICTS

#: A verdict with the texts of its statement.
Record = Mapping[str, Any]
#: What is not true as it stands, by what the paper prints of it. They are counted one by one: a
#: misprint weighs less than a false theorem.
CATEGORIES = {
    "statement": "false as printed",
    "stated": "false as stated",
    "reading": "false under a second reading",
    "misprint": "misprint",
    "proof step": "false step of a proof",
    "ours": "false statement of ours",
    "assumption": "assumption that nothing meets",
}
#: Relations in words; a rate has none.
IN_WORDS = {"<=": "at most", ">=": "at least", "==": "equal to", "": "at most"}


def parents(records: Sequence[Record]) -> dict[str, str]:
    """The statement of the paper that another one is a reading of, by the other one's id."""
    return {r["id"]: r["reading_of"] for r in records if r.get("reading_of")}


def corrections(records: Sequence[Record]) -> set[str]:
    """Ids of the statements that replace a false one and are not themselves in the paper."""
    reading_of = parents(records)
    return {
        record["corrected"]
        for record in records
        if record["corrected"] and reading_of.get(record["id"]) != record["corrected"]
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
    replacing, reading_of = corrections(records), parents(records)
    role_of = {}
    for record in records:
        name = record["id"]
        if name in replacing:
            role_of[name] = "corrected"
        elif record.get("sharpens"):
            role_of[name] = "sharper"
        elif false(record) and name in reading_of:
            role_of[name] = "other reading"
    return role_of


def false(record: Record) -> bool:
    """Whether a statement is false, by this verdict or as known before."""
    return "violated" in (record["verdict"], record["expected"])


def category(record: Record) -> str:
    """What a statement is that is not true as it stands, one of :data:`CATEGORIES`; else empty.

    >>> lemma = {"id": "my.lemma", "verdict": "violated", "expected": "holds"}
    >>> category(lemma), category({**lemma, "printed_as": "misprint"})
    ('false as printed', 'misprint')
    >>> category({**lemma, "file": "my_paper.py"})  # of which nobody knows what is printed
    'false as stated'
    >>> category({**lemma, "reading": "For all n at once."})
    'false under a second reading'
    """
    if "category" in record:  # as it was written with a verdict
        return str(record["category"])
    if "vacuous" in (record["verdict"], record["expected"]):
        return CATEGORIES["assumption"]
    if not false(record):
        return ""
    printed = record.get("printed_as", "statement")
    read = (record.get("reading_of") or record.get("reading")) and printed == "statement"
    name = "reading" if read else printed
    return CATEGORIES["stated" if name == "statement" and record.get("file") else name]


def by_outcome(records: Iterable[Record]) -> dict[str, int]:
    """How many statements came out how: by category, and by verdict where they have none.

    An error says nothing, also where a statement is known to be false.

    >>> by_outcome([{"id": "my.lemma", "verdict": "error", "expected": "violated"}])
    {'error': 1}
    """
    counts = Counter(
        "error" if record["verdict"] == "error" else category(record) or record["verdict"]
        for record in records
    )
    return {name: counts[name] for name in (*VERDICTS, *CATEGORIES.values()) if counts[name]}


def falls(records: Sequence[Record]) -> list[tuple[Record, list[Record]]]:
    """Every statement whose proof rests on false ones, directly or not, and these."""
    by_id = {record["id"]: record for record in records}

    def below(name: str, seen: dict[str, None]) -> dict[str, None]:
        for used in by_id[name].get("uses") or ():
            if used in by_id and used not in seen:
                seen[used] = None
                below(used, seen)
        return seen

    result = []
    for record in records:
        false_premises = [by_id[name] for name in below(record["id"], {}) if false(by_id[name])]
        if false_premises:
            result.append((record, false_premises))
    return result


def sharper(records: Sequence[Record]) -> dict[str, Record]:
    """The record of a sharper form, by the id of the statement that it sharpens."""
    return {r["sharpens"]: r for r in records if r.get("sharpens")}
