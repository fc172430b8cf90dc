"""Judging many claims by processes: each has a time limit, and none can cost the others.

A worker finds a claim by its module or file and its id, because measures do not pickle. Verdicts
depend on the claim, the effort and the seed alone, so any number of workers gives the same ones.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from experiments._worker import end_with_parent
from experiments.audit import _trace
from experiments.audit._catalogue import Item, find
from experiments.audit._claim import RateClaim
from experiments.audit._verdict import LIMITS, Verdict, judge

if TYPE_CHECKING:
    from pebble import ProcessPool

#: Seconds after a claim's own limit, which can say more, until its process is killed.
_GRACE = 2.0
#: Workers imported once and copied where the system can, so that a new one starts at once.
_PRELOAD = ["experiments.audit._verdict", "linsys.theory"]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
#: A pool can lose a task when a worker dies in the moment it takes one; it is handed out again.
_ATTEMPTS = 3


def judged(
    items: Sequence[Item], effort: str, seed: int, *, workers: int, limit: float | None = None
) -> Iterator[tuple[Item, Verdict]]:
    """Each claim with its verdict, as they get ready.

    A claim that raises, ends its process or takes longer than ``limit`` seconds has the verdict
    "error", with the reason and, where it is known, the instance.
    """
    limit = LIMITS[effort] if limit is None else limit
    # rates take longest; begun last, one of them would leave all other workers idle
    ordered = sorted(items, key=lambda item: not isinstance(item.entry, RateClaim))
    attempts = dict.fromkeys((item.id for item in items), 0)
    with _one_thread_each(), tempfile.TemporaryDirectory(prefix="ratecheck-") as scratch:
        while ordered:
            lost: list[Item] = []
            for item, verdict in _by_one_pool(ordered, effort, seed, workers, limit, Path(scratch)):
                if verdict is None and attempts[item.id] + 1 < _ATTEMPTS:
                    attempts[item.id] += 1
                    lost.append(item)
                else:
                    yield item, verdict or _failure(item, "its process ended", Path(scratch))
            ordered = lost


def _by_one_pool(
    items: Sequence[Item], effort: str, seed: int, workers: int, limit: float, scratch: Path
) -> Iterator[tuple[Item, Verdict | None]]:
    """The same by one pool; None for what it lost when it broke."""
    todo = list(reversed(items))
    running: dict[Future[Verdict], Item] = {}
    with _pool(min(workers, len(items))) as pool:
        while todo or running:
            # one more than the workers: none has to wait for its next claim
            while todo and len(running) <= workers and pool.active:
                item = todo[-1]
                task = (item.origin, item.id, effort, seed, limit, _note(item, scratch))
                with contextlib.suppress(RuntimeError):  # it broke just now
                    running[pool.schedule(_work, args=task, timeout=limit + _GRACE)] = todo.pop()
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
    from pebble import ProcessPool

    fast = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if fast else "spawn")
    context.set_forkserver_preload(_PRELOAD)
    pool = ProcessPool(max_workers=workers, initializer=_begin, context=context)
    try:
        yield pool
    finally:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


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
    end_with_parent()


def _work(origin: str, name: str, effort: str, seed: int, limit: float, note: Path) -> Verdict:
    with redirect_stdout(sys.stderr), _trace.tracing(note) as watch:
        return judge(find(origin, name).entry, effort, seed, limit=limit, watch=watch)


def _answer(future: Future[Verdict], item: Item, limit: float, scratch: Path) -> Verdict | None:
    """The worker's verdict, or what became of the worker."""
    from concurrent.futures.process import BrokenProcessPool

    from pebble import ProcessExpired

    try:
        return future.result()
    except TimeoutError:
        reason = f"no answer within {limit:g} s; its process was killed"
    except ProcessExpired as error:
        reason = f"its process ended with exit code {error.exitcode}"
    except BrokenProcessPool:
        return None
    except (Exception, SystemExit) as error:  # the worker was to exit, not this process
        reason = f"{type(error).__name__}: {error}"
    return _failure(item, reason, scratch)


def _failure(item: Item, reason: str, scratch: Path) -> Verdict:
    instance = _trace.last(_note(item, scratch))
    corrected = item.entry.corrected
    return Verdict(item.id, "error", counterexample=instance, corrected=corrected, reason=reason)


def _note(item: Item, scratch: Path) -> Path:
    return scratch / item.id
