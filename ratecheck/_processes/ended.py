"""What is said and done where the process of a call ended before it answered.

A process ends by SIGKILL where somebody else killed it, as a system does that is short of memory:
such a call is worth another try. What ends itself, or crashes, would do so again.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from linsys.validate import InputError

_T = TypeVar("_T")

#: What a call that ends its process with exit code 0 ends it with: pebble takes a worker that ended
#: with 0 for one that had nothing left to do, and would wait for the call for ever.
EXIT_ZERO = 199
#: The exit code of a process that was killed; none on Windows.
_KILLED = -getattr(signal, "SIGKILL", 0) or None
#: And that of one that has used the CPU time that the kernel gave it.
_LATE = -getattr(signal, "SIGXCPU", 0) or None


class ProcessEnded(InputError):
    """The process of a computation ended before it answered; one line on what and how."""


def was_killed(error: BaseException | None) -> bool:
    """Whether a call has no answer because somebody else ended its process.

    >>> was_killed(None), was_killed(ValueError("a mistake"))
    (False, False)
    """
    code = _code(error)
    return code is not None and code == _KILLED


def was_late(error: BaseException | None) -> bool:
    """Whether a call has no answer because a limit ended its process.

    The kernel counts CPU time; where it does not, the clock does.

    >>> was_late(TimeoutError()), was_late(None), was_late(ValueError("a mistake"))
    (True, False, False)
    """
    code = _code(error)
    return isinstance(error, TimeoutError) or (code is not None and code == _LATE)


def in_words(error: BaseException) -> str:
    """Why a call has no answer, in a line: how its process ended, or what it raised.

    >>> in_words(ValueError("a mistake"))
    'ValueError: a mistake'
    >>> in_words(BrokenProcessPool("no words for a user"))
    'its process ended'
    """
    code = _code(error)
    if was_killed(error):
        return "its process was killed, as where memory is short"
    if code is not None:
        said = f"signal {-code}" if code < 0 else f"exit code {0 if code == EXIT_ZERO else code}"
        return f"its process ended with {said}"
    if isinstance(error, BrokenProcessPool):
        return "its process ended"
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def answer_of(future: Future[_T], what: str) -> _T:
    """What a finished call returned.

    Args:
        future: of the call.
        what: it computes, as a line on its process names it.

    Raises:
        ProcessEnded: its process ended before it answered.
        Exception: what it raised.
    """
    error = future.exception()
    if isinstance(error, SystemExit):
        raise _ended(what, f"it asks for exit code {_status(error)}") from None
    if error is None or not (_code(error) is not None or isinstance(error, BrokenProcessPool)):
        return future.result()
    raise _ended(what, in_words(error)) from None


@contextmanager
def lasting(what: str) -> Iterator[None]:
    """While this process computes something itself, its end is an error of that.

    It is ended by ``sys.exit``, or by ``os._exit`` as Python code in the main thread calls it;
    compiled code, other threads and processes that are begun here end as they do.

    Args:
        what: is computed, as a line on its process names it.

    Raises:
        ProcessEnded: it was to end, also where that was caught.

    >>> with lasting("block k=1"):
    ...     os._exit(3)
    Traceback (most recent call last):
    ratecheck._processes.ended.ProcessEnded: block k=1 must be computed by a process that lasts;
    found that it asks for exit code 3: what is stored stays, the same command resumes
    """
    leave, own, asked = os._exit, os.getpid(), list[int]()

    def ended(status: int) -> NoReturn:
        if os.getpid() != own or threading.current_thread() is not threading.main_thread():
            leave(status)
        asked.append(status)
        raise SystemExit(status)

    main = threading.current_thread() is threading.main_thread()  # others may overlap
    if main:
        os._exit = ended
    try:
        yield
    except SystemExit as error:
        if os.getpid() != own:  # a copy of this process
            raise
        asked.append(_status(error))
    finally:
        if main:
            os._exit = leave
    if asked:
        raise _ended(what, f"it asks for exit code {asked[0]}")


def _ended(what: str, how: str) -> ProcessEnded:
    return ProcessEnded(
        f"{what} must be computed by a process that lasts; found that {how}: what is stored stays, "
        "the same command resumes"
    )


def _status(error: SystemExit) -> int:
    """The exit code that Python ends with."""
    return error.code if isinstance(error.code, int) else int(error.code is not None)


def _code(error: BaseException | None) -> int | None:
    """The exit code of a process that ended; None of another error."""
    from pebble import ProcessExpired  # which takes a while to import

    return int(error.exitcode) if isinstance(error, ProcessExpired) else None
