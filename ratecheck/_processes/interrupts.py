"""Ctrl-C that is not lost.

Python drops an exception that a signal raises while the interpreter itself calls back, for example
when the lock of an import is released. A computation that polls asks :func:`check`, and is
interrupted all the same.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

#: Called at the start and after each piece of work: how many are done, with parts of those that are
#: computed just now where that is known, and how many there are.
Progress = Callable[[float, int], None]

_ctrl_c_pressed = threading.Event()


class Interrupted(Exception):
    """Ctrl-C while something was missing; what was finished is in the store."""

    def __init__(self, saved: int, total: int, what: str = "blocks") -> None:
        super().__init__(
            f"interrupted; {saved} of {total} {what} are saved, the same command resumes"
        )


@contextlib.contextmanager
def ctrl_c_remembered() -> Iterator[None]:
    """While the block runs, remember that Ctrl-C was pressed, in addition to what Python does."""
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or before is not signal.default_int_handler:
        yield
        return
    _ctrl_c_pressed.clear()
    signal.signal(signal.SIGINT, _note_ctrl_c)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _ctrl_c_pressed.clear()


def check() -> None:
    """Interrupt the caller if Ctrl-C was pressed and has not ended it yet.

    Raises:
        KeyboardInterrupt: it was.
    """
    if _ctrl_c_pressed.is_set():
        raise KeyboardInterrupt


def _note_ctrl_c(number: int, frame: FrameType | None) -> None:
    _ctrl_c_pressed.set()
    signal.default_int_handler(number, frame)
