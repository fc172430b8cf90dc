"""What may end this process or never return is tried in a copy of it first.

A copy is made by ``fork``, which is cheap and safe as long as a process has one thread. It is made
on Linux only, which says how many threads there are, those of libraries with them; macOS's own
libraries do not survive a fork, and Windows has none.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable

from ratecheck._processes import interrupts
from ratecheck._processes.limit import disable_core_dump, killed_after

#: Seconds by which a limit in Python code comes before the kernel's, which has no words.
_GRACE = 0.3
#: Bytes that a pipe takes of what a copy says, before anybody reads them.
_MOST = 4000
_FINISHED = b"+"


class Ended(Exception):
    """How a copy ended that did not answer, as the end of "the call"."""


def is_possible() -> bool:
    """Whether a copy of this process can be made, and nobody else ends it in time.

    The processes that a command starts for claims are ended by their parent.
    """
    processes = sys.modules.get("multiprocessing.process")  # whose import takes a while
    if sys.platform != "linux" or (processes and processes.parent_process() is not None):
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def rehearse(function: Callable[[], str], seconds: float) -> str:
    """What a function returns in a copy of this process, which has so many seconds.

    The seconds are those of CPU time or of waiting, as of
    :func:`ratecheck._processes.limit.killed_after`. Ctrl-C ends the copy at once, whatever it does.
    What it prints is shown, on stderr, only with an error: without one, the caller does here what
    was tried.

    Args:
        function: returns an error in words, or "" for none. It must not raise.
        seconds: the limit.

    Raises:
        Ended: the copy did not answer.
        KeyboardInterrupt: after Ctrl-C; the copy is gone then.
        OSError: no copy could be made.
    """
    with contextlib.ExitStack() as stack:
        said, say = _pipe(stack)
        alive, living = _pipe(stack)
        printed = os.memfd_create("printed")
        stack.callback(os.close, printed)
        copy = 0
        try:
            with interrupts.held_back():
                copy = os.fork()
                if copy == 0:
                    _perform(function, seconds, say, (alive, living), printed)
            status = os.waitpid(copy, 0)[1]
            interrupts.check()
        except BaseException:  # Ctrl-C
            if copy:
                _end(copy)
            raise
        answer = _read(said)
        if answer != _FINISHED:
            with open(os.dup(printed), encoding="utf-8", errors="replace") as lines:
                lines.seek(0)
                sys.stderr.write(lines.read())
        if not answer.startswith(_FINISHED):
            raise Ended(_in_words(os.waitstatus_to_exitcode(status), seconds))
        return answer.removeprefix(_FINISHED).decode(errors="replace")


def end_when_closed(pipe: int) -> None:
    """Have the kernel end this process, by SIGIO, when the other end of a pipe is closed.

    A thread that waits for it could not run while compiled code keeps Python's lock.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_ASYNC)


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends


def _end(copy: int) -> None:
    """End a copy, and wait until it is gone."""
    with contextlib.suppress(OSError):  # it was waited for
        os.kill(copy, signal.SIGKILL)
        os.waitpid(copy, 0)


def _read(said: int) -> bytes:
    """What a copy that is gone has said."""
    os.set_blocking(said, False)  # a process that the copy has left may hold the other end
    try:
        return os.read(said, _MOST)
    except BlockingIOError:
        return b""


def _perform(
    function: Callable[[], str],
    seconds: float,
    say: int,
    parent: tuple[int, int],
    printed: int,
) -> None:
    """In the copy: call the function, say what it returned, and end."""
    code = 1
    try:
        # the parent hears them, and ends this process
        for asking in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(asking, signal.SIG_IGN)
        os.close(parent[1])
        end_when_closed(parent[0])
        disable_core_dump()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in ((0, nothing), (1, printed), (2, printed)):
            os.dup2(file, number)
        with killed_after(seconds + _GRACE, lambda begins: None):
            error = function()
        os.write(say, _FINISHED + error.encode(errors="replace")[: _MOST - 1])
        code = 0
    finally:
        os._exit(code)


def _in_words(code: int, seconds: float) -> str:
    """How a copy ended that did not say so."""
    if code == -signal.SIGXCPU:
        return f"did not end within {seconds:g} s"
    if code >= 0:
        return f"ended the process with exit code {code}"
    name = ""
    with contextlib.suppress(ValueError):
        name = f" ({signal.Signals(-code).name})"
    return f"ended the process with signal {-code}{name}"
