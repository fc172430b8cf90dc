"""Proving many claims by processes: each has a limit of CPU time, and none can harm the others.

A worker finds a claim by its module or file and its id. What it proves depends on the claim and the
limit alone, so that any number of workers proves the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ratecheck._certify.in_workers import Answer, Note, in_workers
from ratecheck._certify.prove import FORMULA, Proof, add_formula
from ratecheck._discover.catalogue import Item, find
from ratecheck._discover.user_file import importing_within
from ratecheck._processes.limit import TimeLimit

#: What workers import, beside what is called there.
_MODULES = ("ratecheck._certify.prove",)
#: Import, proof, formula, and the verification of a certificate from before.
_PARTS = 4


def prove_all(
    how: Callable[..., Proof],
    items: Sequence[Item],
    arguments: Sequence[tuple[Any, ...]],
    workers: int,
    *,
    limit: float,
    doing: Callable[[str], None],
) -> Iterator[tuple[int, Proof]]:
    """The position of each claim and its proof, as they get ready.

    Args:
        how: a function of a module that proves a claim, given the claim as an item, its arguments,
            the limit and a note.
        items: the claims.
        arguments: of each claim.
        workers: how many claims are proved at a time.
        limit: seconds of CPU time for one claim.
        doing: told again and again what is being done.
    """
    tasks = [
        (how, item.origin, item.id, given, limit)
        for item, given in zip(items, arguments, strict=True)
    ]
    names = [item.id for item in items]
    for position, answer in in_workers(
        _prove,
        tasks,
        names,
        workers,
        limit=limit,
        parts=_PARTS,
        modules=(how.__module__, *_MODULES),
        doing=doing,
    ):
        yield position, _proof_of(answer, names[position])


def finished(proof: Proof, item: Item, limit: float, note: Note) -> Proof:
    """A proof with its formula; both are noted, as what comes next may not return."""
    _note(proof, note)
    with note.within(min(limit, FORMULA)):
        proof = add_formula(proof, item, limit)
    _note(proof, note)
    return proof


def _note(proof: Proof, note: Note) -> None:
    if proof.certificate is not None:
        note.found({"certificate": proof.certificate, "reason": proof.reason})


def _prove(
    how: Callable[..., Proof],
    origin: str,
    name: str,
    arguments: tuple[Any, ...],
    limit: float,
    note: Note,
) -> Proof:
    try:
        with note.within(limit), importing_within(limit):  # a user's file may do anything
            item = find(origin, name)
        return how(item, *arguments, limit, note)
    except TimeLimit as late:
        return Proof(name, reason=str(late))


def _proof_of(answer: Answer[Proof], name: str) -> Proof:
    """What was proved, also where its process ended afterwards; else why nothing was."""
    if answer.value is not None:
        return answer.value
    if answer.found is not None:
        return Proof(name, **answer.found)
    return Proof(name, reason=answer.reason)
