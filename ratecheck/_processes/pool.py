"""Functions called in worker processes: one thread each, and none outlives or harms this process.

The processes are this machine's, or those of a cluster (:mod:`ratecheck._processes.cluster`):
whoever calls functions here has both.

A worker is copied from a process that has imported our packages once, where the system can do that.
It does not hear the terminal's Ctrl-C, which this process turns into the end of all of them. A call
whose worker dies has an exception in place of its result; another worker goes on with the rest.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from linsys.validate import InputError
from ratecheck._processes import compilation, elsewhere, interrupts
from ratecheck._processes.ended import EXIT_ZERO, was_killed
from ratecheck._processes.garbage import collect_seldom
from ratecheck._processes.limit import disable_core_dump
from ratecheck._processes.rehearsal import end_when_closed
from ratecheck._processes.streams import ignoring_failures
from ratecheck._processes.turns import take_turns

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from pebble import ProcessPool

_T = TypeVar("_T")

#: What a new process imports first: it finds our packages whatever the current folder holds.
FIRST = "ratecheck._packages"
_THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    *("BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"),
)
#: Imported once for all workers; each of a hundred experiments has workers of its own.
_COMPILER = ("numba", "scipy.linalg", "scipy.special")
#: A pool can lose a call when a worker dies in the moment it takes one; it is handed out again.
_ATTEMPTS = 3
#: How often a call is made whose process somebody else killed.
_AFTER_KILLS = 2


def python_command(code: str) -> list[str]:
    """The command line of a new process that runs this code with our packages.

    >>> import subprocess
    >>> command = python_command("import ratecheck as rc; print(rc.exact(1).hi, end='')")
    >>> subprocess.run(command, capture_output=True, text=True).stdout
    '1.0'
    """
    return [sys.executable, "-c", f"import {FIRST}; {code}"]


def call_in_processes(
    function: Callable[..., _T],
    arguments: Sequence[tuple[Any, ...]],
    workers: int,
    *,
    groups: Sequence[Hashable] | None = None,
    modules: Sequence[str] = (),
    timeout: float | None = None,
    look: Callable[[Collection[int]], None] = lambda running: None,
    together: bool = False,
) -> Iterator[tuple[int, Future[_T]]]:
    """Call a function with each of these arguments, in so many processes.

    A call whose process somebody else kills, as a system that is short of memory does, is made once
    more when the others are over.

    Args:
        function: of a module, which a worker imports. What it prints goes to stderr.
        arguments: of each call.
        workers: how many calls run at a time, on this machine.
        groups: of each call. A process keeps to a group as long as it has calls, so that what they
            have in common is computed once; one that is out of groups helps with those of others.
        modules: what calls import, which is then imported once for all processes.
        timeout: seconds by the clock that a call may take.
        look: called again and again with the positions of the calls that run.
        together: whether calls wait for one another, so that none is made again by itself.

    Yields:
        The position of a call and its finished future, as they get ready. The future holds what
        the call returned or raised, or pebble's ``ProcessExpired`` if its process ended,
        ``TimeoutError`` if it took too long, ``BrokenProcessPool`` if it was lost again and again.

    Raises:
        KeyboardInterrupt: after Ctrl-C; no worker is left then.

    >>> import math
    >>> ((position, future),) = call_in_processes(math.hypot, [(3.0, 4.0)], 1)
    >>> position, future.result()
    (0, 5.0)
    """
    attempts = [0] * len(arguments)
    todo = list(range(len(arguments)))
    there = elsewhere.current()
    while todo:
        again = []
        if there is None:
            queue = _Queue(todo, groups)
            calls = _by_pools(function, arguments, queue, workers, modules, timeout, look)
        else:
            calls = there.engine(function, arguments, todo, workers, timeout, look)
        for position, future in calls:
            attempts[position] += 1
            most = 0
            if not together:
                killed = _AFTER_KILLS if was_killed(future.exception()) else 0
                most = _ATTEMPTS if _is_lost(future) else killed
            if attempts[position] < most:
                again.append(position)
            else:
                yield position, future
        todo = again


def _is_lost(future: Future[Any]) -> bool:
    return isinstance(future.exception(), BrokenProcessPool)


class _Queue:
    """Positions of calls to come, by group in order of their first calls."""

    def __init__(self, positions: Sequence[int], groups: Sequence[Hashable] | None) -> None:
        self._groups: dict[Hashable, deque[int]] = {}  # without those that have no call left
        self._own: dict[int, Hashable] = {}
        self._left = len(positions)
        for position in positions:
            group = ("alone", position) if groups is None else groups[position]
            self._groups.setdefault(group, deque()).append(position)

    def __len__(self) -> int:
        return self._left

    def take(self, worker: int) -> int:
        """The next call for a worker: of its group, of one that is nobody's, or the last of one."""
        groups, self._left = self._groups, self._left - 1
        if self._own.get(worker) not in groups:
            taken = {self._own[other] for other in self._own if other != worker}
            free = (group for group in groups if group not in taken)
            self._own[worker] = next(free, None)
        own = self._own[worker]
        helped = own if own in groups else max(groups, key=lambda group: len(groups[group]))
        calls = groups[helped]
        position = calls.popleft() if helped == own else calls.pop()
        if not calls:
            del groups[helped]
        return position


def _by_pools(
    function: Callable[..., _T],
    arguments: Sequence[tuple[Any, ...]],
    todo: _Queue,
    workers: int,
    modules: Sequence[str],
    timeout: float | None,
    look: Callable[[Collection[int]], None],
) -> Iterator[tuple[int, Future[_T]]]:
    """Positions and futures of calls, each worker a pool of its own; what a broken one has is lost.

    Calls that no pool is left for are lost, too.
    """
    running: dict[Future[_T], tuple[int, int]] = {}
    ended: list[tuple[int, Future[_T]]] = []
    with _pools(min(workers, len(todo)), function.__module__, *modules) as pools:
        while todo or running or ended:
            busy = {worker for _, worker in running.values()}
            for worker, pool in enumerate(pools):
                if todo and worker not in busy and pool.active:
                    position = todo.take(worker)
                    task = (function, arguments[position])
                    try:
                        made: Future[_T] = pool.schedule(call_in_worker, args=task, timeout=timeout)
                        running[made] = position, worker
                    except RuntimeError:  # the pool has broken since
                        ended.append((position, _lost()))
            yield from ended  # no worker waits for what is done with them
            interrupts.check()
            look([position for position, _ in running.values()])
            done = wait(running, 1.0, FIRST_COMPLETED).done if running else set()
            ended = [(running.pop(future)[0], future) for future in done]
            if not done:
                broken = {worker for worker, pool in enumerate(pools) if not pool.active}
                for future in [f for f, (_, worker) in running.items() if worker in broken]:
                    ended.append((running.pop(future)[0], _lost()))
                while todo and len(broken) == len(pools):
                    ended.append((todo.take(0), _lost()))


def _lost() -> Future[Any]:
    """What a call has whose pool has broken."""
    future: Future[Any] = Future()
    future.set_exception(BrokenProcessPool("its process ended"))
    return future


@contextlib.contextmanager
def _pools(workers: int, *modules: str) -> Iterator[list[ProcessPool]]:
    """Pools of one process each, which take turns at compiling."""
    with contextlib.ExitStack() as stack:
        turns = stack.enter_context(_folder_of_turns()) if workers > 1 else None
        yield [stack.enter_context(processes(1, *modules, turns=turns)) for _ in range(workers)]


@contextlib.contextmanager
def processes(workers: int, *modules: str, turns: Path | None = None) -> Iterator[ProcessPool]:
    """Processes that start clean, with these modules: a fork of this one would inherit threads."""
    with _ctrl_c_held_back():  # a callback during an import may swallow Ctrl-C
        from pebble import ProcessPool
        from pebble.pool.process import WORKERS_NAME
    fast = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if fast else "spawn")
    with contextlib.ExitStack() as stack:
        if fast:
            # what this process needed the compiler for, its workers will; scipy.linalg is what
            # numba takes products of matrices from, and most experiments need scipy.special
            compiler = _COMPILER if compilation.is_imported() else ()
            context.set_forkserver_preload([FIRST, "linsys.linalg", *compiler, *modules])
            _start_server(context)
        else:  # a worker has the environment of this process when it starts
            stack.enter_context(_one_thread_each())
        if turns is None and workers > 1:
            turns = stack.enter_context(_folder_of_turns())
        pool = ProcessPool(
            max_workers=workers, initializer=_prepare_worker, initargs=(turns,), context=context
        )
        try:
            with _ctrl_c_held_back():
                _ = pool.active  # reading this starts the workers
            yield pool
        finally:
            pool.stop()  # type: ignore[no-untyped-call]
            # a worker that is still starting would look for locks that the next line removes
            for child in multiprocessing.active_children():
                if child.name == WORKERS_NAME:
                    child.terminate()
            pool.join()


def _start_server(context: BaseContext) -> None:
    """Start the process that workers are forked from, and wait until it has imported.

    A terminal sends Ctrl-C to all processes. This one stops the others, which ignore it, as they
    would print where it interrupted them.
    """
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()  # started below, it would unblock the signal
    with _ctrl_c_held_back(), _one_thread_each():
        forkserver.ensure_running()
        first = threading.Thread(target=_run_empty_process, args=(context,), daemon=True)
        first.start()
    first.join()  # the import is slow: Ctrl-C may interrupt it, so this waits outside the block


def _run_empty_process(context: BaseContext) -> None:
    """Have the server start a process; ended, it shows that the server has imported all."""
    process = context.Process(target=_nothing, daemon=True)  # type: ignore[attr-defined]
    process.start()
    process.join()


def _nothing() -> None:
    """What the first process does."""


@contextlib.contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Ctrl-C waits until the block is over; threads and processes begun in it never hear it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # what is begun here inherits the mask; other threads of this process need the handler, which
    # only the main one may set
    main = threading.current_thread() is threading.main_thread()
    with interrupts.held_back() if main else contextlib.nullcontext():
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Libraries of processes begun here use one thread: the cores belong to the workers."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def _folder_of_turns() -> Iterator[Path | None]:
    """What workers hold while they compile; None where no folder can be made, as on a full disk."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="ratecheck-turns-"))
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _prepare_worker(turns: Path | None) -> None:
    """In a worker: print nothing into the answer, lose no result to stderr, end with the parent.

    With others that have the same folder of ``turns`` it takes turns at compiling.
    """
    importlib.import_module(FIRST)
    collect_seldom()
    if turns is not None:
        take_turns(turns)
    os.dup2(2, 1)  # also what compiled libraries print
    sys.stderr = ignoring_failures(sys.stderr)
    disable_core_dump()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End with the parent: nobody would read the result."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        end_when_closed(parent.sentinel)
        parent.join()
        os._exit(1)


def refuse_in_worker(name: str) -> None:
    """Refuse what a script asks for again when a worker that it started imports it.

    Raises:
        InputError: this process is such a worker, which would wait for the script's own call.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise InputError(
            f'a script must call {name} below `if __name__ == "__main__":`, or with threads=1; '
            "found a call that every worker repeats when it imports the script"
        )


@contextlib.contextmanager
def _exit_of_zero_told() -> Iterator[None]:
    """While a call runs, ``os._exit(0)`` of this process has an exit code that the parent sees."""
    leave, own = os._exit, os.getpid()

    def ended(status: int) -> NoReturn:
        leave(EXIT_ZERO if status == 0 and os.getpid() == own else status)

    os._exit = ended
    try:
        yield
    finally:
        os._exit = leave


def call_in_worker(function: Callable[..., _T], arguments: tuple[Any, ...]) -> _T:
    """In a worker: call, and raise only what the parent can read."""
    try:
        with redirect_stdout(sys.stderr), _exit_of_zero_told():
            return function(*arguments)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
        raise
