"""Limits in CPU time: how long a claim may take does not depend on how busy the machine is.

Two guards, each against what the other one cannot end:

- :func:`time_limit` raises an exception in a block, whose caller can then say how far it came. It
  interrupts Python code, and Python's calls that wait, such as ``time.sleep`` or for a lock.
- :func:`killed_after` ends the process. The kernel does it where compiled code computes and does
  not return, and a thread of the process where compiled code waits without end. (One that waits
  and keeps Python's lock meanwhile stops that thread as well; only Ctrl-C ends it.)

A process that waits uses no CPU time, so the waiting is limited too: the time in which it neither
computed nor was ready while others had the processor, all of it together. Where the kernel does not
tell the latter, as Linux does, it is counted in successive looks at the clock between which the
process hardly computed: a busy machine lets it compute now and then, and counting begins anew. A
machine that was suspended makes one look long, which counts like any other.

Compilation by numba counts for neither limit: how long it takes depends on what the cache holds.
Nor does numba's own import, which the first claim that needs it brings about. Compilation is not
interrupted, which would leave functions half compiled for the next claim; nor is an import, unless
it is what the limit is for.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ratecheck._processes import compilation
from ratecheck._processes.turns import waiting

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

#: Whether the kernel ends a process that has used so much CPU time.
KERNEL = resource is not None
#: Seconds between two looks at the clock.
_TICK = 0.2
#: With fewer CPU seconds than this between two looks, a process waits. One that wants to compute
#: gets at least a slice of the scheduler when it is its turn, which is longer.
_IDLE = 1e-3
#: Seconds until a limit strikes again: where Python clears up, such as in a callback of a weak
#: reference, it prints exceptions and goes on.
_REPEAT = 1.0
#: Modules that leave something half done when a function of theirs is interrupted.
_COMPILERS = ("numba.core", "llvmlite")
_IMPORT = "importlib._bootstrap"
#: Contexts that were entered must be left, the one of this module too; and an exception in the
#: callback by which a weak dictionary drops an entry would only be printed, as one in a callback of
#: the garbage collector, such as hypothesis has.
_SHORT = ("contextlib", "weakref", "_weakrefset")


class TimeLimit(BaseException):
    """The limit was hit; not an Exception, so that a measure's own handlers let it pass.

    Attributes:
        meter: of limits within one another that of the one that was hit.
    """

    def __init__(self, message: str, meter: _Meter | None = None) -> None:
        super().__init__(message)
        self.meter = meter


def limit_in(error: BaseException) -> TimeLimit | None:
    """The limit that made a library raise an error of its own; None where no limit did.

    A product of matrices raises a ``SystemError`` then, and hypothesis calls a strategy flaky.

    >>> limit_in(TimeLimit("no answer")), limit_in(SystemError("another one"))
    (TimeLimit('no answer'), None)
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, TimeLimit):
        cause = cause.__cause__ or cause.__context__
    return cause


#: The limits in force, the outermost first.
_in_force: list[tuple[_Meter, float]] = []


@contextmanager
def time_limit(seconds: float, *, imports: bool = False) -> Iterator[_Meter | None]:
    """Raise TimeLimit in the block when it has computed, or waited, for so many seconds.

    An import in the block is interrupted only if ``imports``. Of limits within one another the
    outermost that was hit is raised. The block is given the meter; None where there is no limit.

    It works in the main thread of a process on systems with SIGALRM; elsewhere there is no limit,
    and whoever started the process must have one. Compiled code is interrupted only when it
    returns.

    >>> with time_limit(0.01):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    ...
    ratecheck._processes.limit.TimeLimit: no answer within 0.01 s of CPU time
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield None
        return
    meter, caller, running = _Meter(), sys._getframe(2), True
    here = threading.get_ident()

    def stop(number: int, frame: FrameType | None) -> None:
        if running and not _must_not_be_interrupted(frame, caller, imports):
            hit, after = next((one for one in _in_force if one[0].over(one[1])), _in_force[-1])
            raise TimeLimit(
                f"no answer while it waited for {after:g} s"
                if hit.waited > hit.spent
                else f"no answer within {after:g} s of CPU time",
                hit,
            )

    before = signal.signal(signal.SIGALRM, stop)
    _in_force.append((meter, seconds))
    try:
        with _clock_watched(meter, seconds, lambda: signal.pthread_kill(here, signal.SIGALRM)):
            yield meter
    finally:
        running = False
        _in_force.remove((meter, seconds))
        signal.signal(signal.SIGALRM, before)


@contextmanager
def killed_after(seconds: float, compiling: Callable[[bool], None]) -> Iterator[None]:
    """End this process with SIGXCPU when the block has computed, or waited, for so many seconds.

    Where there is no such signal nothing happens, and whoever started the process must have a
    limit.

    Args:
        seconds: the limit.
        compiling: told when compilation begins (True) and when it is over (False).
    """
    limit = _KernelLimit()

    def compilation(begins: bool) -> None:
        compiling(begins)
        limit.set(None if begins else seconds - meter.spent)

    meter = _Meter(compilation)
    limit.set(seconds)
    try:
        with _clock_watched(meter, seconds, limit.strike):
            yield
    finally:
        limit.set(None)


@contextmanager
def computed() -> Iterator[Callable[[], float]]:
    """In the block a function says how many seconds of CPU time it took so far.

    Compilation is left out, as of a limit.
    """
    meter = _Meter()
    compilation.listen(meter, imports=True)
    try:
        yield lambda: meter.spent
    finally:
        compilation.stop_listening(meter)


def disable_core_dump() -> None:
    """Have no core dump written when a signal ends this process."""
    if KERNEL:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class _Meter:
    """How long a block has computed, compilation aside, and for how long it has been waiting.

    Attributes:
        waited: seconds until the last look, without those in which others had the processor.
    """

    def __init__(self, compilation: Callable[[bool], None] = lambda begins: None) -> None:
        self._tell = compilation
        self._begun = self._looked = time.process_time()
        self._queued = _queued()
        self._depth, self._since, self._compiled = 0, 0.0, 0.0
        self.waited = 0.0

    @property
    def spent(self) -> float:
        """CPU seconds of all threads."""
        now = self._since if self._depth else time.process_time()
        return now - self._begun - self._compiled

    def over(self, seconds: float) -> bool:
        """Whether the block has computed, or waited until the last look, for so many seconds."""
        return max(self.spent, self.waited) >= seconds

    def look(self) -> float:
        """The longer of both so far; to be called every _TICK seconds."""
        now, queued = time.process_time(), _queued()
        if not waiting():
            computed = now - self._looked
            if queued is not None and self._queued is not None:
                self.waited += max(0.0, _TICK - computed - (queued - self._queued))
            else:
                self.waited = self.waited + _TICK if computed < _IDLE else 0.0
        self._looked, self._queued = now, queued
        return max(self.spent, self.waited)

    def begins(self) -> None:
        """Compilation begins, or one within another."""
        if not self._depth:
            self._since = time.process_time()
            self._tell(True)
        self._depth += 1

    def ends(self) -> None:
        """One compilation is over."""
        self._depth -= 1
        if not self._depth:
            self._compiled += time.process_time() - self._since
            self._tell(False)


def _queued() -> float | None:
    """Seconds in which the main thread was ready and others had the processor; None: not known."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return None


class _KernelLimit:
    """CPU seconds after which the kernel ends this process; a smaller limit of the user's stays."""

    def __init__(self) -> None:
        if KERNEL:
            self._before = resource.getrlimit(resource.RLIMIT_CPU)

    def set(self, seconds: float | None) -> None:
        """Allow so many more seconds (the kernel counts whole ones), or as many as before."""
        if KERNEL:
            soft, hard = self._before
            if seconds is not None:
                wanted = math.ceil(time.process_time() + seconds)
                soft = wanted if soft == resource.RLIM_INFINITY else min(soft, wanted)
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))

    def strike(self) -> None:
        """End this process as the kernel would."""
        if KERNEL:
            os.kill(os.getpid(), signal.SIGXCPU)


@contextmanager
def _clock_watched(meter: _Meter, seconds: float, strike: Callable[[], None]) -> Iterator[None]:
    """Call ``strike`` from a thread, again and again, once the block has taken so long."""
    over = threading.Event()

    def watch() -> None:
        pause = _TICK
        while not over.wait(pause):
            pause = _TICK
            if meter.look() >= seconds:
                strike()
                pause = _REPEAT

    thread = threading.Thread(target=watch, daemon=True)
    compilation.listen(meter, imports=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        compilation.stop_listening(meter)


def _must_not_be_interrupted(frame: FrameType | None, caller: FrameType, imports: bool) -> bool:
    """Whether what runs now, called by ``caller``, must not be interrupted."""
    if frame is None or frame.f_globals is globals() or _module(frame) in _SHORT:
        return True
    collecting = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    while frame is not None and frame is not caller:
        name = _module(frame)
        if (name == _IMPORT and not imports) or name.startswith(_COMPILERS):
            return True
        if frame.f_code in collecting:
            return True
        frame = frame.f_back
    return False


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
