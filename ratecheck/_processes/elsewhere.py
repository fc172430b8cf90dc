"""Whether calls go to other machines than this one, and which folder all of them see.

:mod:`ratecheck._processes.cluster` puts an engine here for a time; :mod:`ratecheck._processes.pool`
asks for it, and what writes temporary files that workers read or write asks for the folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Called with function, arguments, positions, workers, timeout and look, as those of
#: :func:`ratecheck._processes.pool.call_in_processes`; yields positions and finished futures.
Engine = Callable[
    [
        Callable[..., Any],
        Sequence[tuple[Any, ...]],
        Sequence[int],
        int,
        float | None,
        Callable[[Collection[int]], None],
    ],
    Iterator[tuple[int, Future[Any]]],
]


@dataclass(frozen=True)
class Elsewhere:
    """What makes calls in place of the processes of this program.

    Attributes:
        engine: makes the calls.
        folder: one that this machine and all workers have under the same path.
    """

    engine: Engine
    folder: Path


_current: list[Elsewhere] = []


def current() -> Elsewhere | None:
    """What is in use now; None for the processes of this program."""
    return _current[-1] if _current else None


@contextlib.contextmanager
def using(elsewhere: Elsewhere) -> Iterator[None]:
    """In this block calls go there."""
    _current.append(elsewhere)
    try:
        yield
    finally:
        _current.remove(elsewhere)
