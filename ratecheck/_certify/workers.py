"""Proving and checking in worker processes: what does not return costs its own claim alone.

A worker says what it is at, and what it has proved so far, in files that this process reads: the
first is for who waits, the second is what is left of a worker that ends before it answers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from linsys.validate import InputError
from ratecheck._processes.ended import in_words, was_late
from ratecheck._processes.limit import KERNEL, killed_after
from ratecheck._processes.pool import call_in_processes
from ratecheck._store.files import temporary_folder, write_whole

_T = TypeVar("_T")

#: CPU seconds after a limit, at which a proof ends by itself and says more, until its process is
#: killed. A constant has some of them for the evaluation that the limit met.
GRACE = 6.0
#: Seconds between two notes, which are looked at as often.
_PAUSE = 0.5
#: So many claims that are worked on are named.
_NAMED = 3


class Note:
    """What a worker says of a claim, in files beside one another."""

    def __init__(self, path: Path) -> None:
        self._path, self._what, self._compiles, self._next = path, "", False, 0.0

    def within(self, seconds: float | None) -> AbstractContextManager[None]:
        """In the block: this process ends where a limit of so many seconds did not help."""
        return nullcontext() if seconds is None else killed_after(seconds + GRACE, self._compiling)

    def at(self, what: str) -> None:
        """Say what is being done; of many calls in a moment one is heard."""
        self._what = what
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PAUSE
            self._write()

    def found(self, content: Any) -> None:
        """Leave what counts if this process ends before it answers, plain JSON values."""
        with suppress(OSError):  # which costs what a process that ends had found
            write_whole(_left_at(self._path), json.dumps(content).encode(), flush=False)

    def _compiling(self, now: bool) -> None:
        self._compiles = now
        self._write()

    def _write(self) -> None:
        with suppress(OSError):
            self._path.write_text("compiling" if self._compiles else self._what)


def _left_at(path: Path) -> Path:
    return path.with_name(f"{path.name}.found")


@dataclass(frozen=True)
class Answer(Generic[_T]):
    """What a call returned, or why it returned nothing and what it had found by then."""

    value: _T | None = None
    reason: str = ""
    found: Any = None


def in_workers(
    function: Callable[..., _T],
    arguments: Sequence[tuple[Any, ...]],
    names: Sequence[str],
    workers: int,
    *,
    limit: float | None,
    parts: int = 1,
    modules: Sequence[str] = (),
    doing: Callable[[str], None] = lambda what: None,
) -> Iterator[tuple[int, Answer[_T]]]:
    """Call a function for each claim, several at a time, and say what became of each call.

    Args:
        function: of a module; it is given a :class:`Note` after its arguments.
        arguments: of each call.
        names: of the claims, for who waits.
        workers: calls at a time.
        limit: seconds that each part of a call may take; None for as many as it takes.
        parts: how many such parts a call has. Where the kernel counts no CPU time, a call may take
            so long by the clock.
        modules: what calls import.
        doing: told again and again what is being done.
    """
    with temporary_folder("ratecheck-") as scratch:
        notes = [scratch / str(position) for position in range(len(arguments))]
        tasks = [(function, given, note) for given, note in zip(arguments, notes, strict=True)]

        def look(running: Collection[int]) -> None:
            told = [_told(names[position], notes[position]) for position in running]
            doing(
                "; ".join([*told[:_NAMED], *[f"{len(told) - _NAMED} more"] * (len(told) > _NAMED)])
            )

        for position, future in call_in_processes(
            _call,
            tasks,
            workers,
            modules=(function.__module__, *modules),
            timeout=None if limit is None or KERNEL else parts * (limit + GRACE),
            look=look,
        ):
            try:
                yield position, Answer(future.result())
            except (Exception, SystemExit) as error:  # the worker was to exit, not this process
                yield position, Answer(None, _why(error, limit), _found(notes[position]))


def _call(function: Callable[..., _T], arguments: tuple[Any, ...], path: Path) -> _T:
    return function(*arguments, Note(path))


def _told(name: str, note: Path) -> str:
    """The name of a claim with what is being done for it."""
    try:
        what = note.read_text()
    except (OSError, ValueError):
        what = ""
    return f"{name}: {what}" if what else name


def _found(note: Path) -> Any:
    with suppress(OSError, ValueError):
        return json.loads(_left_at(note).read_bytes())
    return None


def _why(error: BaseException, limit: float | None) -> str:
    """Why a call has no answer, in a line."""
    if limit is not None and was_late(error):
        return (
            f"no answer within {limit:g} s of CPU time or of waiting (a larger `--limit` allows "
            "more); its process was killed"
        )
    return str(error) if isinstance(error, InputError) else in_words(error)
