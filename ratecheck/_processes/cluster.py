"""Calls as tasks of a Dask cluster, in place of the processes of this machine.

A task hands its call to a process of its own on the worker's machine, as :mod:`pool` does here: one
thread each, and what ends that process, such as a limit of CPU time, does not end the worker. Dask
gives the task of a worker that died to another one. Workers have to run the same sources as this
process and to see its current folder and its results under the same paths.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import pickle
import queue
import sys
import threading
import time
import urllib.parse
import urllib.request
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from linsys.validate import InputError
from ratecheck._processes import elsewhere, interrupts, pool

#: The name of a cluster on this machine that lasts as long as the command.
LOCAL = "local"
#: Seconds until a scheduler that does not answer is given up.
_CONNECT = 10.0
#: Seconds in which the dashboard must answer to be named.
_ANSWER = 2.0
#: Seconds between two looks at what is running, and at the size of the cluster.
_LOOK = 1.0
#: Tasks that are sent at a time, for every core of the cluster and beside these: so few that memory
#: is the same for any number of calls, so many that no worker waits for its next one.
_EACH, _MORE = 4, 16
#: Seconds that a task should take at least, and for every core of the cluster, and the most calls
#: that one has for that: short calls travel together, as a task costs this process and the
#: scheduler tens of milliseconds, of which a large cluster has many in a second.
_TASK, _TASK_OF_CORE, _TOGETHER = 2.0, 0.01, 100
#: A process of a worker can be lost in the moment it takes a call; then another one gets it.
_ATTEMPTS = 3


@contextlib.contextmanager
def on_cluster(
    address: str | None, *, folder: Path | str = "results", workers: int = 1
) -> Iterator[None]:
    """In this block what runs in worker processes runs on a Dask cluster.

    Args:
        address: of a scheduler, such as ``"tcp://10.0.0.1:8786"``; "local" for a cluster on this
            machine that lasts as long as the block; None for no cluster.
        folder: of the results, which workers on other machines have under the same path.
        workers: calls at a time, of a local cluster.

    Raises:
        InputError: extra ``dask`` is not installed; nothing answers at the address; later, in what
            is called in the block: the scheduler ended, or a worker runs other sources. What is
            stored by then stays.

    >>> with on_cluster(None):
    ...     pass  # rc.run(experiment, config, store)
    """
    if address is None:
        yield
        return
    try:
        import distributed
    except ImportError:
        raise InputError(
            "`scheduler` must have Dask; found none: pip install 'ratecheck[dask]', or in a clone "
            "'.[dask]'"
        ) from None
    shared = Path(folder).resolve()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet())
        if address == LOCAL:
            cluster = distributed.LocalCluster(
                n_workers=1,
                threads_per_worker=workers,
                processes=False,
                dashboard_address="127.0.0.1:0",
                memory_limit=0,
            )
            stack.callback(cluster.close)
            stack.callback(_close_pools)
            client = distributed.Client(cluster)
        else:
            client = _connected(distributed.Client, address)
        stack.callback(_closed, client)
        if link := _dashboard(client, address):
            print(f"ratecheck: Dask's dashboard: {link}", file=sys.stderr, flush=True)
        calls = _Calls(client, address)
        with elsewhere.using(elsewhere.Elsewhere(calls.engine, shared)):
            yield


def _dashboard(client: Any, address: str) -> str:
    """Where Dask's dashboard answers; nowhere without bokeh on the scheduler's machine."""
    link = str(client.dashboard_link or "")
    if address == LOCAL and link:
        link = f"http://127.0.0.1:{urllib.parse.urlsplit(link).port}/status"
    # not the page itself: it would draw on in this process while modules are imported here
    plots = urllib.parse.urljoin(link, "individual-plots.json")
    try:
        with urllib.request.urlopen(plots, timeout=_ANSWER) as answer:
            return link if json.load(answer) else ""
    except (OSError, ValueError):  # switched off, or behind a wall
        return ""


def _connected(client: Any, address: str) -> Any:
    made = client.__new__(client)  # what does not connect is held, to be closed
    try:
        made.__init__(address, timeout=_CONNECT, set_as_default=False)
        return made
    except (OSError, ValueError, TypeError, ImportError) as error:
        made.status = "closed"  # else its end waits for an answer, and prints that there is none
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(
            f"`scheduler` must be {LOCAL} or the address of a Dask scheduler that answers, such as "
            f"tcp://HOST:8786; found {address}: {reason}"
        ) from None


def _closed(client: Any) -> None:
    with contextlib.suppress(Exception):  # the scheduler may be gone
        client.close(timeout=2)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dask's own warnings, of connections that end, are said in a line of ours."""
    names = ["distributed", *(n for n in logging.root.manager.loggerDict if "distributed." in n)]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


class _Calls:
    """Makes calls on the cluster of a client.

    Args:
        client: of distributed.
        address: as the user gave it.
    """

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self._cores, self._looked, self._waits = 0, 0.0, False
        self._expected: str | None = None
        if address != LOCAL:  # whose processes start from what is loaded here
            from ratecheck._processes.sources import SOURCES

            self._expected = SOURCES

    def engine(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        positions: Sequence[int],
        workers: int,
        timeout: float | None,
        look: Callable[[Collection[int]], None],
    ) -> Iterator[tuple[int, Future[Any]]]:
        """Make calls as :func:`ratecheck._processes.pool.call_in_processes` does."""
        todo, ready = deque(positions), queue.SimpleQueue[Any]()
        running: dict[str, tuple[list[int], Any]] = {}
        name, home, looked = f"{function.__name__}-{uuid.uuid4().hex}", os.getcwd(), 0.0
        spent, ended = 0.0, 0
        try:
            while todo or running:
                if time.monotonic() - looked >= _LOOK:
                    interrupts.check()
                    self._look()
                    look([position for some, _ in running.values() for position in some])
                    looked = time.monotonic()
                while todo and len(running) < _EACH * self._cores + _MORE:
                    wanted = max(_TASK, _TASK_OF_CORE * self._cores)
                    together = int(wanted * ended / spent) if spent else 1
                    share = len(todo) // (2 * max(1, self._cores))  # none waits for another's last
                    count = max(1, min(together, _TOGETHER, share))
                    some = [todo.popleft() for _ in range(count)]
                    calls = [pickle.dumps((function, arguments[position])) for position in some]
                    task = (calls, function.__module__, timeout, home, self._expected)
                    # in the order of the positions, and never taken from an earlier result
                    future = self._client.submit(
                        _relay, *task, key=f"{name}-{some[0]}", priority=-some[0], pure=False
                    )
                    running[future.key] = some, future
                    future.add_done_callback(ready.put)
                for future in _arrived(ready):
                    some, _ = running.pop(future.key)
                    seconds, outcomes = self._outcomes(future, len(some))
                    spent, ended = spent + seconds, ended + len(some)
                    yield from zip(some, outcomes, strict=True)
        finally:
            if running:
                with contextlib.suppress(Exception):
                    self._client.cancel([future for _, future in running.values()], force=True)

    def _look(self) -> None:
        """See that the scheduler is there, and how large the cluster is."""
        try:
            alive = self._client.status == "running"
            self._cores = sum(self._client.nthreads().values()) if alive else 0
        except (OSError, ValueError, RuntimeError):
            alive = False
        if not alive:
            raise self._lost()
        if not self._cores and not self._waits:
            print(
                f"ratecheck: the scheduler at {self._address} has no workers; waiting for one",
                file=sys.stderr,
                flush=True,
            )
        self._waits = not self._cores

    def _lost(self) -> InputError:
        return InputError(
            f"`scheduler` must answer until the end; found that {self._address} does not any more: "
            "what is stored stays, the same command resumes"
        )

    def _outcomes(self, task: Any, count: int) -> tuple[float, list[Future[Any]]]:
        """The seconds of a task, and what became of its calls, as their own processes tell it."""
        from distributed import KilledWorker

        if task.status == "error":
            error = task.exception()
            if isinstance(error, KilledWorker):  # several died while they had it
                return 0.0, [_failed(BrokenProcessPool("its process ended")) for _ in range(count)]
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise InputError(f"workers of {self._address} must run ratecheck; found {reason}")
        if task.status != "finished":
            raise self._lost()
        try:
            seconds, answers = task.result()
        except Exception:
            raise self._lost() from None
        outcomes: list[Future[Any]] = []
        for returned, answer in answers:
            if returned is None:  # a worker that cannot take part
                raise InputError(answer.decode())
            value = pickle.loads(answer)
            outcomes.append(_failed(value))
            if returned:
                outcomes[-1] = Future()
                outcomes[-1].set_result(value)
        return seconds, outcomes


def _failed(error: BaseException) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def _arrived(ready: queue.SimpleQueue[Any]) -> list[Any]:
    """What is ready, after a moment at the latest."""
    arrived = []
    with contextlib.suppress(queue.Empty):
        arrived.append(ready.get(timeout=_LOOK))
        while True:
            arrived.append(ready.get_nowait())
    return arrived


# ---- on a worker ----

_pools: dict[str, tuple[Any, contextlib.ExitStack]] = {}
_pools_lock = threading.Lock()


#: True and what a call returned, False and what it raised, or None and why a worker cannot make it.
_Answer = tuple[bool | None, bytes]


def _relay(
    calls: list[bytes], module: str, timeout: float | None, home: str, expected: str | None
) -> tuple[float, list[_Answer]]:
    """On a worker: have processes of its own make calls, one after the other.

    Returns:
        How many seconds that took, and the answers, pickled: the worker itself imports nothing of
        theirs.
    """
    from distributed import get_worker

    worker, began = get_worker(), time.perf_counter()
    threads = worker.state.nthreads
    tasks = [(call, home, expected, str(worker.address)) for call in calls]
    processes = _pool(home, module, threads)
    answers, begun = [], deque[Any]()
    for task in tasks:
        # one more than is made, so that its process need not wait for it
        while len(begun) > 1:
            answers.append(_answer(begun.popleft(), home, module, threads, timeout))
        begun.append((processes, _scheduled(processes, task, timeout), task))
    while begun:
        answers.append(_answer(begun.popleft(), home, module, threads, timeout))
    return time.perf_counter() - began, answers


def _scheduled(processes: Any, task: tuple[Any, ...], timeout: float | None) -> Any:
    try:
        return processes.schedule(_obey, args=task, timeout=timeout)
    except RuntimeError:  # it has been closed
        return _failed(BrokenProcessPool("its process ended"))


def _answer(
    begun: tuple[Any, Any, tuple[Any, ...]],
    home: str,
    module: str,
    threads: int,
    timeout: float | None,
) -> _Answer:
    """The answer to a call, which is made again where the server of all processes has ended."""
    processes, future, task = begun
    for attempt in range(_ATTEMPTS):
        if attempt:
            processes = _pool(home, module, threads)
            future = _scheduled(processes, task, timeout)
        try:
            answer: _Answer = future.result()
            return answer
        except (BrokenProcessPool, CancelledError):
            _close_pools(processes)
        except BaseException as ended:  # what pebble says of a process that died or took too long
            return False, pickle.dumps(ended)
    return False, pickle.dumps(BrokenProcessPool("its process ended"))


def _pool(home: str, module: str, workers: int) -> Any:
    """The processes of this worker that make calls for clients in this folder."""
    with _pools_lock:
        if home not in _pools:
            # Dask marks its workers as processes without children; ours end with the worker
            if multiprocessing.current_process().daemon:
                multiprocessing.current_process().daemon = False
            stack = contextlib.ExitStack()
            made = stack.enter_context(
                pool.processes(workers, module, "ratecheck._processes.sources")
            )
            _pools[home] = made, stack
        return _pools[home][0]


def _close_pools(processes: Any = None) -> None:
    """End these processes, or all; others may have replaced them already."""
    with _pools_lock:
        for home, (made, stack) in list(_pools.items()):
            if processes is None or made is processes:
                del _pools[home]
                stack.close()


def _obey(call: bytes, home: str, expected: str | None, worker: str) -> tuple[bool | None, bytes]:
    """In a process of a worker: make a call, in the client's folder and with its sources."""
    if expected is not None:
        from ratecheck._processes.sources import SOURCES

        if expected != SOURCES:
            line = f"worker {worker} must run the sources {expected}; found {SOURCES}: restart it"
            return None, line.encode()
    try:
        os.chdir(home)
    except OSError as error:
        line = f"worker {worker} must have the folder {home} as well; found {error.strerror}"
        return None, line.encode()
    try:
        function, arguments = pickle.loads(call)
        return True, pickle.dumps(pool.call_in_worker(function, arguments))
    except Exception as error:
        return False, pickle.dumps(error)
