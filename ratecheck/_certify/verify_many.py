"""The certificates in files, verified against their claims.

That is done by processes, so that a claim that does not return is one refusal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linsys.validate import InputError
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.stated import repeated
from ratecheck._certify.workers import Note, in_workers
from ratecheck._discover.user_file import importing_within
from ratecheck._processes.interrupts import Progress
from ratecheck._processes.limit import TimeLimit, time_limit
from ratecheck._verdicts.replay import json_in

#: What a file of several certificates has; of claims without one nothing is checked.
_LISTS = {"certificates", "unproved"}


@dataclass(frozen=True)
class Checked:
    """A certificate that was checked: of which claim, and why it is refused, if it is."""

    id: str
    said: str
    refused: str = ""


def check_all(
    certificates: Sequence[Mapping[str, Any]],
    references: Sequence[str],
    workers: int,
    limit: float | None,
    progress: Progress | None = None,
    doing: Callable[[str], None] | None = None,
) -> list[Checked]:
    """What becomes of each certificate, in their order.

    Args:
        certificates: as :func:`contents` reads them.
        references: where else to look for the claims, such as a file that has moved.
        workers: how many certificates are checked at a time.
        limit: seconds of CPU time for one certificate; None for as many as it takes.
        progress: told how many are checked.
        doing: told again and again of which claims certificates are checked.
    """
    names = [in_a_line(str(content.get("id"))) for content in certificates]
    found: dict[int, Checked] = {}
    for position, answer in in_workers(
        _check,
        [(content, references, limit) for content in certificates],
        names,
        workers,
        limit=limit,
        doing=doing or (lambda what: None),
    ):
        refused = in_a_line(f"it must be verified; found that {answer.reason}")
        found[position] = answer.value or Checked(names[position], "", refused)
        if progress:
            progress(len(found), len(certificates))
    return [found[position] for position in range(len(certificates))]


def _check(
    content: Mapping[str, Any], references: Sequence[str], limit: float | None, note: Note
) -> Checked:
    with note.within(limit):
        return check_one(content, references, limit)


def check_one(
    content: Mapping[str, Any], references: Sequence[str] = (), limit: float | None = None
) -> Checked:
    """What a certificate proves, or why it is refused.

    Args:
        content: of the certificate.
        references: where else to look for the claim.
        limit: seconds of CPU time, after which it is refused; None for as many as it takes.
    """
    name = in_a_line(str(content.get("id")))
    within = contextlib.nullcontext() if limit is None else time_limit(limit)
    try:
        with within, importing_within(limit):
            return Checked(name, in_a_line(verify(content, references)))
    except (Refused, InputError) as error:
        return Checked(name, "", in_a_line(str(error)))
    except (ArithmeticError, ValueError) as error:
        said = f"numbers must be ones that can be computed with; found {error}"
        return Checked(name, "", in_a_line(said))
    except TimeLimit as late:
        said = f"it must be verified; found {late} (a larger `--limit` allows more)"
        return Checked(name, "", in_a_line(said))


def contents(path: Path) -> list[dict[str, Any]]:
    """The certificates in a file.

    Raises:
        InputError: there is none, or something else.
    """
    whole = json_in("certificate", path)
    certificates: Any = whole.get("certificates", [whole]) if isinstance(whole, dict) else whole
    are_some = isinstance(certificates, list) and bool(certificates)
    if not are_some or not all(isinstance(one, dict) for one in certificates):
        raise InputError(f"file must hold certificates; found none in {path}")
    if twice := repeated(path.read_bytes()):
        raise InputError(f"file must have each key once; found {twice!r} twice in {path}")
    if "certificates" in whole and (others := sorted(set(whole) - _LISTS)):
        raise InputError(f"file must have certificates and unproved; found {others[0]!r} in {path}")
    return list(certificates)


def in_a_line(text: str) -> str:
    """Text of a certificate as it is shown: on one line, whatever is in it."""
    return "".join(one if one.isprintable() else "?" for one in text)
