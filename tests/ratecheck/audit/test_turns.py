"""Workers compile what all of them need once, and waiting for it counts for no limit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratecheck._processes import limit, pool, turns
from ratecheck._processes.limit import _Meter
from tests.ratecheck.audit import _compiles


@contextlib.contextmanager
def no_folder() -> Iterator[None]:
    yield None


def compilations(folder: Path) -> list[int]:
    """How often each of two workers compiled a function that both need at the same time."""
    (folder / "compiled.py").write_text(_compiles.FUNCTION)
    calls = [(str(folder), number) for number in range(2)]
    answers = pool.call_in_processes(_compiles.misses, calls, 2, timeout=120)
    return sorted(future.result() for _, future in answers)


@pytest.mark.slow
def test_two_workers_compile_a_function_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, alone = tmp_path / "turns", tmp_path / "alone"
    both.mkdir()
    alone.mkdir()
    assert compilations(both) == [0, 1]
    monkeypatch.setattr(pool, "_folder_of_turns", no_folder)
    assert compilations(alone) == [1, 1]


def test_a_worker_without_its_folder_compiles_all_the_same(tmp_path: Path) -> None:
    turn = turns._Turns(tmp_path / "gone")
    turn.begins()
    turn.ends()
    assert not turns.waiting()


@pytest.mark.parametrize("queued", [None, 7.0], ids=["no schedstat", "schedstat"])
def test_waiting_for_a_turn_counts_for_no_limit(
    monkeypatch: pytest.MonkeyPatch, queued: float | None
) -> None:
    monkeypatch.setattr(time, "process_time", lambda: 100.0)
    monkeypatch.setattr(limit, "_queued", lambda: queued)
    meter = _Meter()
    said = []
    for waits in (False, True, False):
        monkeypatch.setattr(limit, "waiting", lambda waits=waits: waits)
        said.append([meter.look() for _ in range(10)][-1])
    assert said == pytest.approx([10 * limit._TICK, 10 * limit._TICK, 20 * limit._TICK])


def test_who_waits_says_so_until_it_is_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    @contextlib.contextmanager
    def lock(folder: Path, on_wait: object) -> Iterator[bool]:
        seen.append(turns.waiting())
        assert callable(on_wait)
        on_wait()
        seen.append(turns.waiting())
        yield True

    monkeypatch.setattr(turns, "folder_lock", lock)
    turn = turns._Turns(tmp_path)
    for _ in range(2):
        turn.begins()
        assert not turns.waiting()
    turn.ends()
    turn.ends()
    assert seen == [False, True]
