"""Claims judged by processes: one verdict whatever the workers, and no claim costs another."""

from __future__ import annotations

import copyreg
import gc
import math
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._discover.catalogue import find_claims
from ratecheck._processes import pool
from ratecheck._processes.ended import ProcessEnded, answer_of
from ratecheck._processes.garbage import collect_seldom
from ratecheck._verdicts import judging, trace as trace_module
from ratecheck._verdicts.judging import judge_all

FILES = Path(__file__).parent / "files"
#: Seconds of CPU time, several times what the claims need that hold.
LIMIT = 3.0


#: A measure that compiles for more CPU time than it may take otherwise.
COMPILES = """
import time
from ratecheck import claim, interval
from numba.core.compiler_lock import global_compiler_lock

compiled = []

@claim(id="late.one", source="s", kind="upper", fields={"x": interval()}, text="compiles")
def one(instance):
    if not compiled:
        with global_compiler_lock:
            end = time.process_time() + 5
            while time.process_time() < end:
                pass
        compiled.append(True)
    return instance.x, 1
"""


#: Whether the workers that a thread begins hear Ctrl-C.
FROM_A_THREAD = """
import signal, threading
import ratecheck as rc

def is_deaf(number):
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())

def begin():
    for _, future in rc.call_in_processes(is_deaf, [(1,), (2,)], 2):
        print(future.result())

if __name__ == "__main__":
    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
"""


def verdicts(
    *references: str, workers: int = 2, limit: float | None = None
) -> dict[str, rc.Verdict]:
    items = find_claims(references)
    judged = judge_all(items, "quick", 0, workers=workers, limit=limit)
    return {item.id: verdict for item, verdict in judged}


@pytest.fixture(scope="module")
def broken() -> dict[str, rc.Verdict]:
    """What comes out of measures that misbehave."""
    return verdicts(str(FILES / "broken.py"), limit=LIMIT)


REASONS = {
    "raises": "measure raised RuntimeError: no two",
    "nan": "measure returned NaN",
    "shape": "measure must return (measured, bound); found array([1.])",
    "assumes": "the space's own instance breaks its assumption 'p is sorted'",
    "turns": "no answer within 3 s of CPU time on this instance; no violation in",
    "sleeps": "no answer while it waited for 3 s on this instance; no violation in",
    "panics": "measure raised Panic: no two",
    "leaves": "measure raised SystemExit: 3",
    "kills": "its process ended with exit code 7",
    "ends": "its process ended with exit code 0",
    "interrupts": "measure raised KeyboardInterrupt",
    "faults": "its process ended with signal 11",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REASONS)
def test_what_misbehaves_is_an_error_with_its_reason_and_instance(
    broken: dict[str, rc.Verdict], name: str
) -> None:
    verdict = broken[f"broken.{name}"]
    assert verdict.verdict == "error"
    assert REASONS[name] in verdict.reason
    assert verdict.counterexample is not None
    if name in (
        "kills",
        "ends",
        "faults",
    ):  # the instance that is tried in high precision before all
        assert len(verdict.counterexample["p"]) == 2
    elif name != "shape":  # which fails on the very first instance
        assert verdict.counterexample == {"p": [0.5, 0.5]}


def test_the_others_are_judged_all_the_same(broken: dict[str, rc.Verdict]) -> None:
    good = {"broken.good", "broken.loud", "broken.last"}
    assert {name for name, verdict in broken.items() if verdict.verdict == "holds"} == good
    assert len(broken) == len(good) + len(REASONS)


def test_no_process_is_left_behind(broken: dict[str, rc.Verdict]) -> None:
    assert multiprocessing.active_children() == []


def test_verdicts_are_those_of_one_process() -> None:
    path = str(FILES / "mine.py")
    here = {item.id: rc.judge(item.entry, "quick", 0).to_dict() for item in find_claims([path])}
    for one in here.values():
        del one["seconds"]
    for workers in (1, 3):
        judged = {name: v.to_dict() for name, v in verdicts(path, workers=workers).items()}
        for one in judged.values():
            del one["seconds"]
        assert judged == here


@pytest.mark.slow
def test_compiled_code_that_never_returns_is_killed() -> None:
    judged = verdicts(str(FILES / "stuck.py"), limit=5.0)
    assert judged["stuck.good"].verdict == "holds"
    stuck = judged["stuck.hangs"]
    assert stuck.instances > 1  # some with one state, before the first with two
    assert stuck.reason == (
        "no answer within 5 s of CPU time or of waiting (a larger `--limit` allows more); its "
        f"process was killed in evaluation {stuck.instances:,} and had reported no violation"
    )
    assert stuck.counterexample is not None
    assert len(stuck.counterexample["p"]) == 2


@pytest.mark.slow
def test_a_pool_that_breaks_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    real, broke = pool._is_lost, list[Future[Any]]()

    def once(future: Future[Any]) -> bool:
        if not broke:
            broke.append(future)
            return True
        return real(future)

    monkeypatch.setattr(pool, "_is_lost", once)
    judged = verdicts(str(FILES / "mine.py"))
    assert broke
    assert {name: v.verdict for name, v in judged.items()} == {
        "mine.norm": "holds",
        "mine.mass": "violated",
        "mine.mass_corrected": "holds",
        "mine.taste": "not checked",
    }


def test_a_claim_that_always_breaks_its_pool_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[int]()

    def broken(function: Any, arguments: Any, todo: pool._Queue, *more: Any) -> Any:
        while todo:
            begun.append(position := todo.take(0))
            future = Future[Any]()
            future.set_exception(BrokenProcessPool("as a real one has it"))
            yield position, future

    monkeypatch.setattr(pool, "_by_pools", broken)
    judged = verdicts(f"{FILES / 'mine.py'}::mine.norm", workers=1)["mine.norm"]
    assert (judged.verdict, judged.reason) == ("error", "its process ended")
    assert begun == [0] * 3


def _killed(path: str, number: int, times: int) -> int:
    """Notes that it was called, and lets a signal end its process so many times."""
    called = Path(path).stat().st_size if Path(path).exists() else 0
    with Path(path).open("a") as stream:
        stream.write("x")
    if called < times:
        os.kill(os.getpid(), number)
    return called


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("number", "times", "together", "calls"),
    [
        (9, 1, False, 2),
        (9, 9, False, 2),
        (9, 1, True, 1),
        (signal.SIGSEGV, 1, False, 1),
    ],
)
def test_a_call_whose_process_others_kill_is_made_once_more(
    number: int, times: int, together: bool, calls: int, tmp_path: Path
) -> None:
    path = tmp_path / "calls"
    arguments = [(str(path), number, times)]
    ((_, future),) = pool.call_in_processes(_killed, arguments, 1, together=together)
    assert path.read_text() == "x" * calls
    if calls > times:
        assert answer_of(future, "a sum") == times
    else:
        with pytest.raises(ProcessEnded, match="a sum must be computed by a process that lasts"):
            answer_of(future, "a sum")


def test_a_worker_keeps_to_its_group_and_then_helps_with_the_longest_one() -> None:
    todo = pool._Queue(range(6), ["a", "b", "a", "b", "a", "b"])
    assert [todo.take(worker) for worker in (0, 1, 0, 0)] == [0, 1, 2, 4]
    assert todo.take(0) == 5  # no group is nobody's: the last call of the other worker's
    assert (todo.take(1), len(todo)) == (3, 0)


def test_calls_without_groups_are_made_in_their_order() -> None:
    todo = pool._Queue([3, 1, 2], None)
    assert [todo.take(worker) for worker in (0, 1, 0)] == [3, 1, 2]


def test_every_call_of_every_group_is_made_once() -> None:
    calls = [(float(number), 0.0) for number in range(6)]
    made = list(pool.call_in_processes(math.hypot, calls, 2, groups=["a", "b", "b"] * 2))
    assert sorted((position, future.result()) for position, future in made) == [
        (number, float(number)) for number in range(6)
    ]


def test_workers_have_one_thread_and_this_process_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    with pool._one_thread_each():
        assert {os.environ[name] for name in pool._THREADS} == {"1"}
    assert os.environ["OMP_NUM_THREADS"] == "5"
    assert "NUMBA_NUM_THREADS" not in os.environ


@pytest.fixture
def note(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "note"
    yield path
    assert not path.exists()


def test_workers_look_for_garbage_less_often() -> None:
    ((_, future),) = pool.call_in_processes(gc.get_threshold, [()], workers=1)
    usual, *older = gc.get_threshold()
    assert future.result()[0] > usual
    assert list(future.result()[1:]) == older


@pytest.mark.parametrize("chosen", [(0, 10, 10), (10**6, 5, 5)])
def test_who_looks_even_less_often_goes_on_so(chosen: tuple[int, int, int]) -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(*chosen)
        collect_seldom()
        assert gc.get_threshold() == chosen
    finally:
        gc.set_threshold(*before)


def test_an_instance_is_noted_while_it_is_measured(note: Path) -> None:
    fields = {"p": np.array([[0.1, 0.9], [0.3, 0.7]]), "c": np.array([1.0, 2.0])}
    with trace_module.tracing(note) as trace:
        watch = trace.watch
        assert trace_module.last(note) is None
        watch(fields, 1)
        assert trace_module.last(note) == {"p": [0.3, 0.7], "c": 2.0}
        watch(fields, None)  # of two at once, nobody knows which
        assert trace_module.last(note) is None
        watch({name: values[:1] for name, values in fields.items()}, None)
        assert trace_module.last(note) == {"p": [0.1, 0.9], "c": 1.0}
        watch({"p": np.zeros((1, 100_000))}, 0)  # larger than the room for it
        assert trace_module.last(note) is None
    assert trace_module.last(note) is None


def test_evaluations_are_counted_whether_one_or_many_at_once(note: Path) -> None:
    fields = {"p": np.zeros((5, 2))}
    assert trace_module.begun(note) == 0
    with trace_module.tracing(note) as trace:
        counts = []
        for index in (None, 3, None):
            trace.watch(fields, index)
            counts.append(trace_module.begun(note))
        trace.compiling(True)
        assert (trace_module.begun(note), trace_module.compiles(note)) == (11, True)
    assert counts == [5, 6, 11]
    assert trace_module.begun(note) == 0


def test_compilation_is_noted_beside_the_instance(note: Path) -> None:
    assert not trace_module.compiles(note)
    with trace_module.tracing(note) as trace:
        assert not trace_module.compiles(note)
        trace.compiling(True)
        assert trace_module.compiles(note)
        trace.watch({"p": np.array([0.1])}, 0)
        assert trace_module.compiles(note)
        assert trace_module.last(note) == {"p": 0.1}
        trace.compiling(False)
        assert not trace_module.compiles(note)
        assert trace_module.last(note) == {"p": 0.1}


@pytest.mark.slow
def test_a_caller_hears_that_workers_compile(tmp_path: Path) -> None:
    path, told = tmp_path / "compiles.py", list[str]()
    path.write_text(COMPILES)
    items = find_claims([str(path)])
    ((_, verdict),) = judge_all(items, "quick", 0, workers=1, limit=1.0, doing=told.append)
    assert verdict.verdict == "holds", verdict.reason
    assert "compiling" in told
    assert {one for one in told if "instances/s" not in one} == {"compiling", ""}


def test_the_pace_is_what_was_begun_since_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(judging.time, "perf_counter", lambda: now[0])
    pace, said = judging._Pace(), []
    for seconds, begun in [(1, {0: 10}), (0.1, {0: 99}), (1.9, {0: 50, 1: 10}), (1, {1: 10, 2: 7})]:
        now[0] += seconds
        said.append(pace.look(begun))
    assert said == [10, 10, 25, 7]  # a moment ago; two seconds; the first one is ready


@pytest.mark.parametrize(
    ("rate", "said"),
    [(0.0, ""), (0.05, "20 s per instance"), (1.0, "1 instances/s"), (1234.5, "1,234 instances/s")],
)
def test_a_slow_measure_has_a_pace_as_well(rate: float, said: str) -> None:
    assert judging._pace_in_words(rate) == said


class Pair(Exception):
    """An error that cannot be read again: its one argument is no pair."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


@pytest.mark.parametrize(
    ("error", "seen", "words"),
    [
        (Pair("not ", "finite"), RuntimeError, "^Pair: not finite$"),
        (KeyError("mine"), KeyError, "mine"),
    ],
)
def test_a_worker_raises_what_can_be_read(
    error: Exception, seen: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(
        copyreg.dispatch_table, type(error), raising=False
    )  # some of Dask's make it

    def fails() -> None:
        raise error

    with pytest.raises(seen, match=words):
        pool.call_in_worker(fails, ())


def test_workers_that_a_thread_begins_never_hear_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FROM_A_THREAD)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]
