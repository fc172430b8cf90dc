"""What is said and done where the process of a call ended before it answered.

A process ends by SIGKILL where somebody else killed it, as a system does that is short of memory:
such a call is worth another try. What ends itself, or crashes, would do so again.
"""

from __future__ import annotations

import signal
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

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
    if error is None or not (_code(error) is not None or isinstance(error, BrokenProcessPool)):
        return future.result()
    raise ProcessEnded(
        f"{what} must be computed by a process that lasts; found that {in_words(error)}: what is "
        "stored stays, the same command resumes"
    ) from None


def _code(error: BaseException | None) -> int | None:
    """The exit code of a process that ended; None of another error."""
    from pebble import ProcessExpired  # which takes a while to import

    return int(error.exitcode) if isinstance(error, ProcessExpired) else None
