"""Judging many claims by processes: each has a limit of CPU time, and none can cost the others.

A worker finds a claim by its module or file and its id, because measures do not pickle. Verdicts
depend on the claim, the effort and the seed alone, so any number of workers gives the same ones.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from ratecheck._claims.claim import RateClaim
from ratecheck._discover.catalogue import Item, find
from ratecheck._run import interrupts
from ratecheck._run.worker import FIRST, begin_work
from ratecheck._verdicts import limit as limit_module, trace as trace_module
from ratecheck._verdicts.verdict import LIMITS, Verdict, judge

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from pebble import ProcessPool

#: CPU seconds after a claim's own limit, which can say more, until its process is killed.
_GRACE = 2.0
#: Workers imported once and copied where the system can, so that a new one starts at once.
_PRELOAD = [FIRST, "ratecheck._verdicts.verdict", "linsys.linalg"]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
#: A pool can lose a task when a worker dies in the moment it takes one; it is handed out again.
_ATTEMPTS = 3


def judged(
    items: Sequence[Item],
    effort: str,
    seed: int,
    *,
    workers: int,
    limit: float | None = None,
    doing: Callable[[str], None] = lambda what: None,
) -> Iterator[tuple[Item, Verdict]]:
    """Each claim with its verdict, as they get ready.

    A claim that raises, ends its process or computes (or waits) for more than ``limit`` seconds has
    the verdict "error", with the reason and, where it is known, the instance. Compilation has no
    limit; ``doing`` is told "compiling" again and again while a worker is at it, and else "".
    """
    limit = LIMITS[effort] if limit is None else limit
    # rates take longest; begun last, one of them would leave all other workers idle
    ordered = sorted(items, key=lambda item: not isinstance(item.entry, RateClaim))
    attempts = dict.fromkeys((item.id for item in items), 0)
    with _one_thread_each(), tempfile.TemporaryDirectory(prefix="ratecheck-") as scratch:
        while ordered:
            lost: list[Item] = []
            work = _by_one_pool(ordered, effort, seed, workers, limit, Path(scratch), doing)
            for item, verdict in work:
                if verdict is None and attempts[item.id] + 1 < _ATTEMPTS:
                    attempts[item.id] += 1
                    lost.append(item)
                else:
                    yield item, verdict or _failure(item, "its process ended", Path(scratch))
            ordered = lost


def _by_one_pool(
    items: Sequence[Item],
    effort: str,
    seed: int,
    workers: int,
    limit: float,
    scratch: Path,
    doing: Callable[[str], None],
) -> Iterator[tuple[Item, Verdict | None]]:
    """The same by one pool; None for what it lost when it broke."""
    todo = list(reversed(items))
    running: dict[Future[Verdict], Item] = {}
    # by the wall clock, where the kernel counts no CPU time
    timeout = None if limit_module.KERNEL else limit + _GRACE
    with _pool(min(workers, len(items))) as pool:
        while todo or running:
            # one more than the workers: none has to wait for its next claim
            while todo and len(running) <= workers and pool.active:
                item = todo[-1]
                task = (item.origin, item.id, effort, seed, limit, _note(item, scratch))
                with contextlib.suppress(RuntimeError):  # it broke just now
                    running[pool.schedule(_work, args=task, timeout=timeout)] = todo.pop()
            interrupts.check()
            compiles = any(trace_module.compiles(_note(item, scratch)) for item in running.values())
            doing("compiling" if compiles else "")
            done = wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done
            for future in done:
                item = running.pop(future)
                yield item, _answer(future, item, limit, scratch)
            if not done and not pool.active:
                yield from ((item, None) for item in (*running.values(), *todo))
                return


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[ProcessPool]:
    """Processes that start clean: a fork of this one would inherit its threads."""
    with _deaf():  # what an import calls back may swallow Ctrl-C
        from pebble import ProcessPool
        from pebble.pool.process import WORKERS_NAME
    fast = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if fast else "spawn")
    if fast:
        context.set_forkserver_preload(_PRELOAD)
        _start_server(context)
    pool = ProcessPool(max_workers=workers, initializer=_begin, context=context)
    try:
        with _deaf():
            _ = pool.active  # which starts it
        yield pool
    finally:
        pool.stop()  # type: ignore[no-untyped-call]
        # before its locks go, which a worker that just begins looks for
        for child in multiprocessing.active_children():
            if child.name == WORKERS_NAME:
                child.terminate()
        pool.join()


def _start_server(context: BaseContext) -> None:
    """Start the process that workers are forked from, and wait until it has imported.

    A terminal sends Ctrl-C to all processes. This one stops the others; they are deaf to it, or
    would print where it struck them.
    """
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()  # the server needs it, and it would unblock the signal
    with _deaf():
        forkserver.ensure_running()
        first = threading.Thread(target=_run_first, args=(context,), daemon=True)
        first.start()
    first.join()  # the import takes a while, so that Ctrl-C should not have to wait


def _run_first(context: BaseContext) -> None:
    """Have the server start a process as soon as it can; it needs nothing that may be gone then."""
    process = context.Process(target=_nothing, daemon=True)  # type: ignore[attr-defined]
    process.start()
    process.join()


def _nothing() -> None:
    """What the first process does."""


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C waits until the block is over; threads and processes begun in it never hear it."""
    main = threading.current_thread() is threading.main_thread()
    if not (main and hasattr(signal, "pthread_sigmask")):
        yield
        return
    struck: list[int] = []
    # the mask for what is begun here; the handler, as other threads of this process may get it
    before = signal.signal(signal.SIGINT, lambda number, frame: struck.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
        if struck:
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Libraries of new processes use one thread: the cores belong to the workers."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _begin() -> None:
    """In a worker: what it prints, from Python or not, is no part of an answer."""
    os.dup2(2, 1)
    limit_module.leave_no_dump()
    begin_work()


def _work(origin: str, name: str, effort: str, seed: int, limit: float, note: Path) -> Verdict:
    with redirect_stdout(sys.stderr), trace_module.tracing(note) as trace:
        with limit_module.killed_after(limit, trace.compiling):  # a user's file may do anything
            entry = find(origin, name).entry
        with limit_module.killed_after(limit + _GRACE, trace.compiling):
            return judge(entry, effort, seed, limit=limit, watch=trace.watch)


def _answer(future: Future[Verdict], item: Item, limit: float, scratch: Path) -> Verdict | None:
    """The worker's verdict, or what became of the worker."""
    from concurrent.futures.process import BrokenProcessPool

    from pebble import ProcessExpired

    late = f"no answer within {limit:g} s of CPU time or of waiting; its process was killed"
    try:
        return future.result()
    except TimeoutError:
        reason = late
    except ProcessExpired as error:
        killed = limit_module.KERNEL and error.exitcode == -signal.SIGXCPU
        reason = late if killed else f"its process ended with exit code {error.exitcode}"
    except BrokenProcessPool:
        return None
    except (Exception, SystemExit) as error:  # the worker was to exit, not this process
        reason = f"{type(error).__name__}: {error}"
    return _failure(item, reason, scratch)


def _failure(item: Item, reason: str, scratch: Path) -> Verdict:
    instance = trace_module.last(_note(item, scratch))
    corrected = item.entry.corrected
    return Verdict(item.id, "error", counterexample=instance, corrected=corrected, reason=reason)


def _note(item: Item, scratch: Path) -> Path:
    return scratch / item.id
