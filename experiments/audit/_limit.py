"""A time limit that interrupts Python code which does not return."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeLimit(BaseException):
    """The limit was hit; not an Exception, so that a measure's own handlers let it pass."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeLimit in the block when so many seconds have passed.

    It works in the main thread of a process on systems with SIGALRM; elsewhere there is no limit,
    and whoever started the process must have one. Compiled code is interrupted only when it
    returns.

    >>> with time_limit(0.01):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    ...
    experiments.audit._limit.TimeLimit: no answer within 0.01 s
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeLimit(f"no answer within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    # and again: where Python clears up, such as in a callback of a weak reference, it is swallowed
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
