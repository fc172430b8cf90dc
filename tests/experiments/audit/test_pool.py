"""Claims judged by processes: one verdict whatever the workers, and no claim costs another."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.audit import _pool, _trace
from experiments.audit._catalogue import select
from experiments.audit._pool import judged
from experiments.audit._verdict import Verdict, judge

FILES = Path(__file__).parent / "files"
#: What tests wait for at most; a busy machine may need many times what an idle one does.
LIMIT = 3.0


def verdicts(*references: str, workers: int = 2, limit: float | None = None) -> dict[str, Verdict]:
    items = select(references)
    found = judged(items, "quick", 0, workers=workers, limit=limit)
    return {item.id: verdict for item, verdict in found}


@pytest.fixture(scope="module")
def broken() -> dict[str, Verdict]:
    """What comes out of measures that misbehave."""
    return verdicts(str(FILES / "broken.py"), limit=LIMIT)


REASONS = {
    "raises": "measure raised RuntimeError: no two",
    "nan": "measure returned NaN",
    "shape": "measure must return (measured, bound); found array([1.])",
    "assumes": "the space's own instance breaks its assumption 'p is sorted'",
    "turns": "no answer within 3 s",
    "sleeps": "no answer within 3 s",
    "panics": "measure raised Panic: no two",
    "leaves": "measure raised SystemExit: 3",
    "kills": "its process ended with exit code 7",
    "faults": f"its process ended with exit code {-11}",
}


@pytest.mark.parametrize("name", REASONS)
def test_what_misbehaves_is_an_error_with_its_reason_and_instance(
    broken: dict[str, Verdict], name: str
) -> None:
    found = broken[f"broken.{name}"]
    assert found.verdict == "error"
    assert REASONS[name] in found.reason
    assert found.counterexample is not None
    if name != "shape":  # which fails on the very first instance
        assert found.counterexample == {"p": [0.5, 0.5]}


def test_the_others_are_judged_all_the_same(broken: dict[str, Verdict]) -> None:
    good = {"broken.good", "broken.loud", "broken.last"}
    assert {name for name, found in broken.items() if found.verdict == "holds"} == good
    assert len(broken) == len(good) + len(REASONS)


def test_no_process_is_left_behind(broken: dict[str, Verdict]) -> None:
    # joblib keeps its workers for the next caller: those of another test may still be there
    left = {child.name for child in multiprocessing.active_children()}
    assert {name for name in left if not name.startswith("LokyProcess")} == set()


def test_verdicts_are_those_of_one_process() -> None:
    path = str(FILES / "mine.py")
    here = {item.id: judge(item.entry, "quick", 0).to_dict() for item in select([path])}
    for one in here.values():
        del one["seconds"]
    for workers in (1, 3):
        found = {name: v.to_dict() for name, v in verdicts(path, workers=workers).items()}
        for one in found.values():
            del one["seconds"]
        assert found == here


@pytest.mark.slow
def test_compiled_code_that_never_returns_is_killed() -> None:
    start = time.monotonic()
    # long enough for the claim that holds on a machine with other work
    found = verdicts(str(FILES / "stuck.py"), limit=5.0)
    assert time.monotonic() - start < 60
    assert found["stuck.good"].verdict == "holds"
    stuck = found["stuck.hangs"]
    assert stuck.reason == "no answer within 5 s; its process was killed"
    assert stuck.counterexample == {"p": [0.5, 0.5]}


def test_a_pool_that_breaks_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    real, broke = _pool._answer, []

    def once(future: Any, item: Any, limit: float, scratch: Path) -> Verdict | None:
        if not broke:
            broke.append(item.id)
            return None
        return real(future, item, limit, scratch)

    monkeypatch.setattr(_pool, "_answer", once)
    found = verdicts(str(FILES / "mine.py"))
    assert broke
    assert {name: v.verdict for name, v in found.items()} == {
        "mine.norm": "holds",
        "mine.mass": "violated",
        "mine.mass_corrected": "holds",
        "mine.taste": "not checked",
    }


def test_a_claim_that_always_breaks_its_pool_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pool, "_answer", lambda *arguments: None)
    found = verdicts(f"{FILES / 'mine.py'}::mine.norm", workers=1)["mine.norm"]
    assert (found.verdict, found.reason) == ("error", "its process ended")


def test_workers_have_one_thread_and_this_process_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    with _pool._one_thread_each():
        assert {os.environ[name] for name in _pool._THREADS} == {"1"}
    assert os.environ["OMP_NUM_THREADS"] == "5"
    assert "NUMBA_NUM_THREADS" not in os.environ


@pytest.fixture
def note(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "note"
    yield path
    assert not path.exists()


def test_an_instance_is_noted_while_it_is_measured(note: Path) -> None:
    fields = {"p": np.array([[0.1, 0.9], [0.3, 0.7]]), "c": np.array([1.0, 2.0])}
    with _trace.tracing(note) as watch:
        assert _trace.last(note) is None
        watch(fields, 1)
        assert _trace.last(note) == {"p": [0.3, 0.7], "c": 2.0}
        watch(fields, None)  # of two at once, nobody knows which
        assert _trace.last(note) is None
        watch({name: values[:1] for name, values in fields.items()}, None)
        assert _trace.last(note) == {"p": [0.1, 0.9], "c": 1.0}
        watch({"p": np.zeros((1, 100_000))}, 0)  # larger than the room for it
        assert _trace.last(note) is None
    assert _trace.last(note) is None
