"""Proving many claims by processes: each has a limit of CPU time, and none can harm the others.

A worker finds a claim by its module or file and its id. What it proves depends on the claim and the
limit alone, so that any number of workers proves the same.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from ratecheck._certify.prove import FORMULA, Proof, add_formula
from ratecheck._certify.unfinished import Unfinished
from ratecheck._certify.workers import Answer, Note, in_workers
from ratecheck._discover.catalogue import Item, find
from ratecheck._discover.user_file import importing_within
from ratecheck._processes.interrupts import Interrupted
from ratecheck._processes.limit import TimeLimit

#: What workers import, beside what is called there.
_MODULES = ("ratecheck._certify.prove",)
#: How many limits a certificate from before has to be verified, as a proof and its formula have.
AGAIN = 2
#: All limits: of import, proof and formula, and these.
_PARTS = 3 + AGAIN


@contextmanager
def proving(
    how: Callable[..., Proof],
    items: Sequence[Item],
    arguments: Sequence[tuple[Any, ...]],
    workers: int,
    *,
    limit: float,
    out: Path,
    given: Sequence[Any],
) -> Iterator[Callable[[Callable[[str], None]], Iterator[tuple[int, Proof]]]]:
    """In the block, a function gives the position of each claim and its proof, as they get ready.

    It is told whom to tell, again and again, what is being done. What an interrupted block had
    proved comes first when it is entered again.

    Args:
        how: a function of a module that proves a claim, given the claim as an item, its arguments,
            the limit and a note.
        items: the claims.
        arguments: of each claim.
        workers: how many claims are proved at a time.
        limit: seconds of CPU time for one claim.
        out: folder of the certificates.
        given: what proofs depend on beside the code and the limit, for each claim.

    Raises:
        Interrupted: after Ctrl-C; what was proved stays.
    """
    before = Unfinished(out, how, items, [(limit, one) for one in given])
    done: list[int] = []
    try:
        with ExitStack() as stack:

            def each(doing: Callable[[str], None]) -> Iterator[tuple[int, Proof]]:
                work = _proofs(how, items, arguments, workers, limit, before, done, doing)
                return stack.enter_context(closing(work))

            yield each
    except KeyboardInterrupt:
        raise Interrupted(len(done), len(items), "claims") from None
    before.clear()


def _proofs(
    how: Callable[..., Proof],
    items: Sequence[Item],
    arguments: Sequence[tuple[Any, ...]],
    workers: int,
    limit: float,
    before: Unfinished,
    done: list[int],
    doing: Callable[[str], None],
) -> Generator[tuple[int, Proof]]:
    """What was proved before, then the others; ``done`` gets the positions."""
    missing = []
    for position in range(len(items)):
        known = before.load(position)
        if known is None:
            missing.append(position)
        else:
            done.append(position)
            yield position, known
    for number, answer in in_workers(
        _prove,
        [(how, items[k].origin, items[k].id, arguments[k], limit) for k in missing],
        [items[k].id for k in missing],
        workers,
        limit=limit,
        parts=_PARTS,
        modules=(how.__module__, *_MODULES),
        doing=doing,
    ):
        position = missing[number]
        if answer.value is not None:  # what ended its process otherwise is tried again
            before.save(position, answer.value)
        done.append(position)
        yield position, _proof_of(answer, items[position].id)


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
