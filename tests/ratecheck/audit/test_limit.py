"""A limit counts what a process computes, compilation aside, and strikes where it does no harm."""

from __future__ import annotations

import gc
import importlib
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numba
import pytest

from ratecheck._processes import compilation, limit
from ratecheck._processes.limit import TimeLimit, _Meter, time_limit
from ratecheck._processes.pool import python_command


class _Thing:
    """Something to refer to."""


def compute(seconds: float) -> None:
    """Use so many CPU seconds."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_limit_that_strikes_in_a_callback_strikes_again() -> None:
    struck: list[float] = []

    def busy(_: Any) -> None:
        try:
            compute(5.0)
        except TimeLimit:
            struck.append(time.monotonic())
            raise

    def endless() -> None:
        thing = _Thing()
        references.append(weakref.ref(thing, busy))
        del thing
        assert struck  # and Python went on
        while True:
            pass

    references: list[Any] = []
    with pytest.raises(TimeLimit, match=r"no answer within 0\.1 s of CPU"), time_limit(0.1):
        endless()
    assert references[0]() is None


def test_the_callback_of_a_weak_dictionary_is_not_interrupted() -> None:
    entries: weakref.WeakKeyDictionary[_Thing, None] = weakref.WeakKeyDictionary()
    interruptible: dict[str, bool] = {}

    def look(frame: FrameType, event: str, argument: Any) -> None:
        module = str(frame.f_globals["__name__"])
        interruptible[module] = not limit._must_not_be_interrupted(frame, caller, imports=False)

    caller, thing = sys._getframe(), _Thing()
    entries[thing] = None
    sys.setprofile(look)
    try:
        del thing
    finally:
        sys.setprofile(None)
    assert not entries
    assert interruptible == {"weakref": False, __name__: True}  # the second calls setprofile


def test_a_callback_of_the_garbage_collector_is_not_interrupted() -> None:
    """What it raises is only printed: the limit strikes after it."""
    called: list[str] = []

    def busy(phase: str, info: dict[str, int]) -> None:
        compute(0.3)
        called.append(phase)

    def collect() -> None:
        gc.collect()
        compute(60.0)

    gc.callbacks.append(busy)
    try:
        with pytest.raises(TimeLimit), time_limit(0.1):
            collect()
    finally:
        gc.callbacks.remove(busy)
    assert called[:2] == ["start", "stop"]


def test_a_call_that_waits_is_interrupted() -> None:
    with pytest.raises(TimeLimit, match=r"no answer while it waited for 0\.5 s"), time_limit(0.5):
        time.sleep(1000)


@pytest.mark.parametrize(("outer", "inner"), [(0.3, 60.0), (60.0, 0.3)])
def test_of_limits_within_one_another_the_one_that_was_hit_is_raised(
    outer: float, inner: float
) -> None:
    hit = pytest.raises(TimeLimit, match=r"waited for 0\.3 s")
    with hit as caught, time_limit(outer) as around, time_limit(inner) as within:
        time.sleep(30.0)
    assert caught.value.meter is (around if outer < inner else within)


def test_signals_and_listeners_are_as_before() -> None:
    def state() -> tuple[Any, int]:
        return signal.getsignal(signal.SIGALRM), len(compilation._listeners)

    before = state()
    with time_limit(100):
        assert state() != before
    assert state() == before
    with pytest.raises(TimeLimit), time_limit(0.1):
        compute(100)
    assert state() == before


class Clock:
    """CPU time that a test sets, and time in which others compute; the kernel tells the latter?"""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.queued, self.told = 100.0, 7.0, False
        monkeypatch.setattr(limit.time, "process_time", lambda: self.now)
        monkeypatch.setattr(limit, "_queued", lambda: self.queued if self.told else None)

    def looks(self, meter: _Meter, *steps: float, queued: float = 0.0) -> list[float]:
        """What the meter says after each so many CPU seconds."""
        seconds = []
        for step in steps:
            self.now += step
            self.queued += queued
            seconds.append(meter.look())
        return seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_time_that_others_use_does_not_count(clock: Clock) -> None:
    # a machine so busy that of five looks, one falls into a time slice
    steps = [0.0, 0.0, 0.0, 0.0, 0.003] * 1000
    meter = _Meter()
    said = clock.looks(meter, *steps)
    assert meter.spent == pytest.approx(3.0)
    waited = 4 * limit._TICK
    assert max(said) == pytest.approx(3.0)
    assert max(said[:1000]) == pytest.approx(waited)
    # one that waits instead reaches any limit
    assert clock.looks(_Meter(), *[1e-5] * 1000)[-1] == pytest.approx(1000 * limit._TICK)


def test_waits_between_computations_add_up_where_the_kernel_tells_them(clock: Clock) -> None:
    clock.told = True
    busy = clock.looks(_Meter(), *[0.003] * 1000, queued=limit._TICK - 0.003)
    assert busy[-1] == pytest.approx(3.0)
    waits = clock.looks(_Meter(), *[0.003] * 1000, queued=0.05)
    assert waits[-1] == pytest.approx(1000 * (limit._TICK - 0.053))


@pytest.mark.skipif(limit._queued() is None, reason="the kernel does not tell")
def test_a_measure_that_waits_and_computes_by_turns_is_interrupted() -> None:
    calls = 0

    def by_turns() -> None:
        nonlocal calls
        while calls < 10_000:
            compute(0.002)
            time.sleep(0.02)
            calls += 1

    with pytest.raises(TimeLimit, match="while it waited for 1 s"), time_limit(1.0):
        by_turns()
    assert calls < 200


def test_compilation_within_compilation_counts_once_and_is_told_once(clock: Clock) -> None:
    told: list[bool] = []
    meter = _Meter(told.append)
    clock.now += 1.0
    meter.begins()
    clock.now += 10.0
    assert meter.spent == 1.0
    meter.begins()
    clock.now += 10.0
    meter.ends()
    clock.now += 10.0
    assert (meter.spent, told) == (1.0, [True])
    meter.ends()
    assert (meter.spent, told) == (1.0, [True, False])
    clock.now += 2.0
    assert meter.spent == 3.0


@pytest.fixture
def compiles() -> Callable[[float], None]:
    """Use CPU seconds as numba does: in a module of its own, with its lock."""
    source = """
def compile(seconds, compute):
    with global_compiler_lock:
        compute(seconds)
"""
    from numba.core.compiler_lock import global_compiler_lock

    space: dict[str, Any] = {
        "__name__": "numba.core.some",
        "global_compiler_lock": global_compiler_lock,
    }
    exec(source, space)
    return lambda seconds: space["compile"](seconds, compute)


@pytest.mark.slow
def test_compilation_is_neither_counted_nor_interrupted(
    compiles: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def late() -> list[str]:
        """How far a block comes that compiles for longer than its limit."""
        came: list[str] = []

        def work() -> None:
            compiles(2.0)
            came.append("compiled")
            compute(0.5)
            came.append("computed")
            compute(100)

        with pytest.raises(TimeLimit), time_limit(1.0):
            work()
        return came

    # what strikes in the compilation without effect strikes again before the computation is over
    monkeypatch.setattr(limit, "_REPEAT", 0.1)
    assert late() == ["compiled", "computed"]
    monkeypatch.setattr(compilation, "_told", lambda importing: [])
    assert late() == ["compiled"]
    monkeypatch.setattr(limit, "_COMPILERS", ("nobody",))
    assert late() == []


@pytest.mark.slow
def test_numbas_own_import_is_not_counted() -> None:
    code = """
import sys, time
from ratecheck._processes import compilation, limit
from ratecheck._processes.limit import TimeLimit, time_limit
limit._TICK = limit._REPEAT = 0.02
{}
assert "numba" not in sys.modules
try:
    with time_limit(0.2, imports=True):
        import numba
        one = numba.njit(lambda x: x + 1)(0)
        # numba is not interrupted: a limit that was over then strikes here
        begun = time.process_time()
        while time.process_time() < begun + 0.1:
            pass
    print(one)
except TimeLimit as error:
    print(error)
"""
    untold = "compilation._told = lambda importing: []"
    said = [
        subprocess.run(
            python_command(f"exec({code.format(line)!r})"), capture_output=True, text=True
        ).stdout
        for line in ("", untold)
    ]
    assert said[0] == "1\n"
    assert said[1].startswith("no answer")


def test_numba_compiles_beyond_the_limit() -> None:
    @numba.njit
    def root(x: float) -> float:
        total = 0.0
        for k in range(10):
            total += (x + k) ** 0.5
        return total

    with time_limit(0.01):
        value = root(2.0)
    assert value == pytest.approx(sum((2.0 + k) ** 0.5 for k in range(10)))


@pytest.mark.slow
def test_an_import_is_not_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import time\nend = time.process_time() + 1.5\nwhile time.process_time() < end: pass\n"
    monkeypatch.syspath_prepend(tmp_path)

    def late(name: str) -> bool:
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        with pytest.raises(TimeLimit), time_limit(0.3):
            compute(100 * bool(importlib.import_module(name)))
        return sys.modules.pop(name, None) is not None

    assert late("slow_to_import")
    monkeypatch.setattr(limit, "_IMPORT", "nobody")
    assert not late("slow_to_import_too")


#: Compiled code that keeps Python's lock, compiled code that gives it away and waits for a lock of
#: its own, and Python code that catches everything.
ENDLESS = {
    "computes": "sum(range(10**12))",
    "waits": "lock(mutex); lock(mutex)",
    "swallows": "swallow()",
}


def run(body: str) -> int:
    source = f"""
import ctypes, time
from ratecheck._processes import compilation, limit
from ratecheck._processes.pool import python_command
from numba.core.compiler_lock import global_compiler_lock
def compute(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
def swallow():
    while True:
        try: compute(100)
        except BaseException: pass
limit.disable_core_dump()
lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(256)
told = []
with limit.killed_after(1.0, told.append), limit.time_limit(0.5):
    {body}
assert told == [True, False]
"""
    return subprocess.run([sys.executable, "-c", source], check=False).returncode


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("name", ENDLESS)
def test_what_cannot_be_interrupted_is_killed(name: str) -> None:
    assert run(ENDLESS[name]) == -signal.SIGXCPU


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_what_compiles_is_not_killed() -> None:
    assert (
        run("global_compiler_lock.acquire(); sum(range(10**8)); global_compiler_lock.release()")
        == 0
    )
