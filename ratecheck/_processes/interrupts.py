"""Ctrl-C that is not lost, and other signals that ask a program to end, which work as it does.

Python drops an exception that a signal raises while the interpreter itself calls back, for example
when the lock of an import is released. A computation that polls asks :func:`check`, and is
interrupted all the same.

Once it has cleaned up, an interrupted command ends by the signal itself (:func:`leave`), as shells,
supervisors and ``make`` expect: a script is to stop when its command was ended by Ctrl-C, and a
service that SIGTERM ended has not failed. An exit code tells them neither.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

#: Called at the start and after each piece of work: how many are done, with parts of those that are
#: computed just now where that is known, and how many there are.
Progress = Callable[[float, int], None]

#: Signals that ask to end, and what Python does with them: SIGTERM of a service or of `timeout`,
#: SIGHUP of a terminal that closes. Ended at once, the process would leave folders and workers.
_ASKING = {
    number: default
    for name, default in (
        ("SIGINT", signal.default_int_handler),
        ("SIGTERM", signal.SIG_DFL),
        ("SIGHUP", signal.SIG_DFL),
    )
    if (number := getattr(signal, name, None)) is not None
}
_ctrl_c_pressed = threading.Event()
#: The last signal that asked to end.
_received: list[int] = [signal.SIGINT]
#: The signal that this process is to end by.
_ends_by: list[int] = []


class Interrupted(Exception):
    """Ctrl-C while something was missing; what was finished is in the store."""

    def __init__(self, saved: int, total: int, what: str = "blocks", in_part: int = 0) -> None:
        more = f" and {in_part} in part" if in_part else ""
        super().__init__(
            f"interrupted; {saved} of {total} {what} are saved{more}, the same command resumes"
        )


@contextlib.contextmanager
def ctrl_c_remembered() -> Iterator[None]:
    """While the block runs, remember that Ctrl-C was pressed, in addition to what Python does.

    Signals that would end the process at once do what Ctrl-C does; those that are ignored, or that
    somebody else handles, stay as they are.
    """
    main = threading.current_thread() is threading.main_thread()
    heard = [n for n, default in _ASKING.items() if main and signal.getsignal(n) is default]
    _ctrl_c_pressed.clear()
    for number in heard:
        signal.signal(number, _note_ctrl_c)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, _ASKING[number])
        _ctrl_c_pressed.clear()


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """In this block of the main thread such signals wait until it is over."""
    struck: list[int] = []
    before = {n: handler for n in _ASKING if (handler := signal.getsignal(n)) is not None}
    for number in before:
        signal.signal(number, lambda number, frame: struck.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in struck[-1:]:
            signal.raise_signal(number)


def end_by_signal_at_exit() -> None:
    """From now on :func:`leave` ends this process by the signal that interrupted it.

    To be called at the start of a program: what asks Python later to be called at the exit, such as
    the removal of temporary folders, is called before.
    """
    if os.name == "posix":
        atexit.register(_end_by_signal)


def leave() -> NoReturn:
    """Leave the program after an interruption, with the exit code of shells: 130 after Ctrl-C.

    Raises:
        SystemExit: always.
    """
    _ends_by[:] = _received[-1:]
    sys.exit(128 + _received[-1])


def _end_by_signal() -> None:
    for number in _ends_by:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def may_be_ctrl_c() -> bool:
    """Whether a KeyboardInterrupt may come from the keyboard, and not from what a user wrote.

    It does not where Ctrl-C is remembered and was not pressed, nor in a worker, which never hears
    it. Elsewhere nobody knows.
    """
    if _ctrl_c_pressed.is_set() or not hasattr(signal, "pthread_sigmask"):
        return True
    deaf = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return not deaf and signal.getsignal(signal.SIGINT) is not _note_ctrl_c


def check() -> None:
    """Interrupt the caller if Ctrl-C was pressed and has not ended it yet.

    Raises:
        KeyboardInterrupt: it was.
    """
    if _ctrl_c_pressed.is_set():
        raise KeyboardInterrupt


def _note_ctrl_c(number: int, frame: FrameType | None) -> None:
    _received[:] = [number]
    _ctrl_c_pressed.set()
    signal.default_int_handler(number, frame)
