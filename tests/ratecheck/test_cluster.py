"""On a Dask cluster everything comes out as on this machine, whatever ends on the way."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import distributed
import numpy as np
import pytest

import ratecheck as rc
from linsys import InputError
from linsys.folder_lock import folder_lock
from ratecheck._commands import benches
from ratecheck._discover import registry
from ratecheck._processes import cluster, elsewhere, pool
from ratecheck._processes.sources import SOURCES
from ratecheck._run import runner
from ratecheck._run.runner import run
from ratecheck._store.files import temporary_folder
from ratecheck._store.store import Store
from ratecheck._verdicts.judging import judge_all
from tests._slow import slow_but

EXTRA = Path(__file__).parent / "extra" / "toy" / "rates"
FILES = Path(__file__).parent / "audit" / "files"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The shared folder of a cluster of two threads in this process, which is in use."""
    folder = tmp_path_factory.mktemp("shared")
    with cluster.on_cluster("local", folder=folder, workers=2):
        yield folder
    assert elsewhere.current() is None
    assert multiprocessing.active_children() == []


def _answer(number: int) -> tuple[int, bool, str]:
    if number == 3:
        os._exit(7)
    if number == 4:
        raise InputError("`number` must not be 4; found 4")
    return number**2, multiprocessing.parent_process() is not None, os.environ["OMP_NUM_THREADS"]


@pytest.mark.slow
def test_every_call_has_a_process_and_one_that_ends_costs_no_other(local: Path) -> None:
    answers = {}
    for position, future in pool.call_in_processes(_answer, [(k,) for k in range(8)], 1):
        error = future.exception()
        answers[position] = future.result() if error is None else type(error).__name__
    wanted = {k: (k**2, True, "1") for k in range(8)}
    assert answers == {**wanted, 3: "ProcessExpired", 4: "InputError"}


def _killed_once(path: str) -> bool:
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return True
    os.kill(os.getpid(), signal.SIGKILL)
    return False


@pytest.mark.slow
def test_a_process_of_a_worker_that_is_killed_costs_no_call(local: Path, tmp_path: Path) -> None:
    calls = [(str(tmp_path / str(k)),) for k in range(3)]
    answers = {k: future.result() for k, future in pool.call_in_processes(_killed_once, calls, 1)}
    assert answers == dict.fromkeys(range(3), True)


def test_short_calls_travel_together(local: Path) -> None:
    there = elsewhere.current()
    assert there is not None
    client = there.engine.__self__._client  # type: ignore[attr-defined]
    before = len(client.get_task_stream(count=10_000))
    arguments = [(k,) for k in range(10, 810)]
    answers = {k: f.result()[0] for k, f in pool.call_in_processes(_answer, arguments, 1)}
    assert answers == {k: (10 + k) ** 2 for k in range(800)}
    assert len(client.get_task_stream(count=10_000)) - before < 200


def test_a_run_has_the_bits_of_one_process_and_resumes(
    local: Path, decay: rc.Experiment[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, reference = decay.profiles["quick"], str(EXTRA / "decay.py")
    store = Store(local / "out")
    table = run(decay, config, store, reference=reference)
    blocks = list(decay.blocks(config))
    result = store.result(decay, config)
    assert all(result.load(block) is not None for block in blocks)
    assert len(json.loads((result.folder / "manifest.json").read_text())["blocks"]) == len(blocks)
    # a second run calls no worker
    monkeypatch.setattr(runner, "call_in_processes", lambda *given, **more: pytest.fail("called"))
    with pytest.raises(pytest.fail.Exception):
        run(decay, config, Store(local / "other"), reference=reference)
    monkeypatch.setattr(runner, "call_in_processes", lambda f, tasks, *_, **more: iter(tasks))
    again = run(decay, config, store, reference=reference)
    monkeypatch.setattr(elsewhere, "_current", [])
    here = run(decay, config, Store(local / "here"))
    for name in here:
        np.testing.assert_array_equal(table[name], here[name])
        np.testing.assert_array_equal(again[name], here[name])


def test_the_dashboard_of_dask_answers(local: Path) -> None:
    there = elsewhere.current()
    assert there is not None
    client = there.engine.__self__._client  # type: ignore[attr-defined]
    link = cluster._dashboard(client, "local")
    assert link.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(link, timeout=60) as page:
        assert page.status == 200
        assert b"bokeh" in page.read().lower()


def test_claims_are_judged_there(local: Path) -> None:
    items = rc.find_claims([str(FILES / "mine.py")])
    judged = {item.id: verdict.verdict for item, verdict in judge_all(items, "quick", 0, workers=1)}
    assert judged == {
        "mine.norm": "holds",
        "mine.mass": "violated",
        "mine.mass_corrected": "holds",
        "mine.taste": "not checked",
    }


def test_what_workers_write_on_the_way_lies_in_the_shared_folder(local: Path) -> None:
    with temporary_folder("notes-") as folder:
        assert folder.parent == local
        assert folder.name.startswith(".notes-")  # hidden, should a kill leave it
        assert folder.name.endswith(".tmp")
    assert not folder.exists()


def test_a_block_that_a_worker_has_stored_is_not_computed_again(
    decay: rc.Experiment[Any], tmp_path: Path
) -> None:
    config = decay.profiles["quick"]
    block = next(iter(decay.blocks(config)))
    result = Store(tmp_path).result(decay, config)
    given = (str(EXTRA / "decay.py"), {name: getattr(config, name) for name in config.to_dict()})
    place = (result.home, result.parameters, result.revision)
    rest = (result.unfinished(block), None, runner.Keeping.of(decay.id, result, None, None), 0)
    assert runner._remote(*given, block, *rest, place, True) > 0
    stored = result.shard(block).stat().st_ino
    assert runner._remote(*given, block, *rest, place, True) == 0
    assert result.shard(block).stat().st_ino == stored
    place = (result.home, result.parameters, "other")
    with pytest.raises(InputError, match=r"must have the sources of toy/decay, revision other; "):
        runner._remote(*given, block, *rest, place, True)


def test_a_worker_says_what_it_lacks(tmp_path: Path) -> None:
    before = os.getcwd()
    assert cluster._obey(b"", before, f"{SOURCES}, other", "tcp://here:1") == (
        None,
        f"worker tcp://here:1 must run the sources {SOURCES}, other; found {SOURCES}: "
        "restart it".encode(),
    )
    gone = str(tmp_path / "gone")
    _, line = cluster._obey(b"", gone, SOURCES, "tcp://here:1")
    assert line.decode() == (
        f"worker tcp://here:1 must have the folder {gone} as well; found No such file or directory"
    )
    assert os.getcwd() == before


@pytest.mark.parametrize(
    "name", ["numpy", "mpmath", "hypothesis", "python-flint", "cvxpy", "clarabel", "pyarrow"]
)
def test_machines_compare_what_searches_proves_and_writes(name: str) -> None:
    assert f"{name} {importlib.metadata.version(name)}" in SOURCES.split(", ")


def _calls(alive: bool = True) -> cluster._Calls:
    client = SimpleNamespace(status="running" if alive else "closed", nthreads=lambda: {"w": 3})
    return cluster._Calls(client, "tcp://there:1")


def test_what_dask_says_of_a_task_is_said_in_a_line() -> None:
    from distributed import KilledWorker

    calls = _calls()
    killed = SimpleNamespace(status="error", exception=lambda: KilledWorker("k", None, 3))
    _, outcomes = calls._outcomes(killed, 2)
    assert [type(outcome.exception()) for outcome in outcomes] == [BrokenProcessPool] * 2
    broken = SimpleNamespace(status="error", exception=lambda: ImportError("no ratecheck\nat all"))
    with pytest.raises(InputError, match=r"must run ratecheck; found ImportError: no ratecheck$"):
        calls._outcomes(broken, 1)
    other = SimpleNamespace(status="finished", result=lambda: (0, [(None, b"worker w must not")]))
    with pytest.raises(InputError, match=r"^worker w must not$"):
        calls._outcomes(other, 1)
    for status in ("cancelled", "lost"):
        with pytest.raises(InputError, match="tcp://there:1 does not any more: what is stored"):
            calls._outcomes(SimpleNamespace(status=status), 1)
    calls._look()
    assert calls._cores == 3
    with pytest.raises(InputError, match="does not any more"):
        _calls(alive=False)._look()


def test_a_cluster_without_workers_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    calls = _calls()
    calls._client.nthreads = dict
    calls._look()
    calls._look()
    assert capsys.readouterr().err == (
        "ratecheck: the scheduler at tcp://there:1 has no workers; waiting for one\n"
    )


TOY = "tests.ratecheck.extra.toy_benchmarks.toy"


def test_benchmarks_are_timed_by_a_worker_which_says_its_machine(
    local: Path, ratecheck: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = {"lost": "no_such.module", "cluster": "experiments.benchmarks.cluster", "toy": TOY}
    monkeypatch.setattr(registry, "benchmarks", lambda: modules)
    where = {"host": platform.node(), **rc.machine()}
    monkeypatch.setattr(platform, "node", lambda: "not here")  # which no worker knows
    said = ratecheck("bench", *modules, "--json")
    (row,) = json.loads(said.out)
    assert (row["benchmark"], row["machine"], row["versions"]) == ("toy", where, rc.versions())
    assert said.code == 2
    assert said.err.splitlines() == [
        "ratecheck: lost did not run: ModuleNotFoundError: No module named 'no_such'",
        "ratecheck: cluster did not run: `scheduler` (RATECHECK_SCHEDULER) must be left out for "
        "the benchmark cluster, which starts a cluster of its own; found one",
    ]
    said = ratecheck("bench", "toy")
    assert said.code == 0
    assert f"toy on {where['host']}: " in " ".join(said.out.split())


def test_benchmarks_go_where_the_variable_says(
    ratecheck: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "benchmarks", lambda: {"toy": TOY})
    monkeypatch.setattr(cluster, "_CONNECT", 0.2)
    monkeypatch.setenv("RATECHECK_SCHEDULER", "nowhere")
    said = ratecheck("bench", "toy")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "found nowhere: " in said.err
    monkeypatch.setenv("RATECHECK_SCHEDULER", "")
    assert ratecheck("bench", "toy").code == 0


def test_benchmarks_of_a_machine_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    timed: list[benches.Timed] = []
    other = threading.Thread(target=lambda: timed.append(benches._timed_alone(TOY, True)))
    waits = threading.Event()
    monkeypatch.setattr(benches, "_say_that_it_waits", waits.set)
    with folder_lock(tmp_path, lambda: None):
        other.start()
        assert waits.wait(timeout=60)
        assert timed == []
    other.join(timeout=60)
    assert [row.name for row in timed[0].rows] == ["toy"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("address", slow_but(["nowhere"], ["tcp://127.0.0.1:1", "nowhere", "://"]))
def test_a_scheduler_that_does_not_answer_is_a_line(
    ratecheck: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    def running() -> list[distributed.Client]:
        clients = (one for one in gc.get_objects() if type(one) is distributed.Client)
        return [one for one in clients if one.status != "closed"]

    monkeypatch.setattr(cluster, "_CONNECT", 0.2)
    before = running()  # other tests have some
    said = ratecheck("run", "toy/decay", "--out", tmp_path, "--scheduler", address)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert f"found {address}: " in said.err
    # one that is open waits when it ends, and prints a traceback
    assert [one for one in running() if one not in before] == []


@pytest.mark.usefixtures("toys")
def test_without_dask_a_line_says_what_to_install(
    ratecheck: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setenv("RATECHECK_SCHEDULER", "local")
    said = ratecheck("run", "toy/decay", "--out", tmp_path)
    line = "`scheduler` must have Dask; found none: pip install 'ratecheck[dask]', "
    line += "or in a clone '.[dask]'"
    assert (said.code, said.out, said.err) == (2, "", f"ratecheck: {line}\n")


BLOCKS = """
import time
from dataclasses import dataclass
import numpy as np
import ratecheck as rc

@dataclass(frozen=True, kw_only=True)
class Sleeping(rc.Config):
    count: int = rc.param(40, low=1, doc="blocks")
    seconds: float = rc.param(0.4, low=0.0, doc="that a block takes at least")

def compute(config, block, context):
    time.sleep(config.seconds)
    return {"x": np.random.default_rng(config.derive("x", block["k"])).normal(size=4)}

def analyse(config, table):
    series = [rc.Series("x", "x", np.arange(len(table["x"])), table["x"])]
    mean = float(table["x"].mean())
    return rc.Analysis(series, [rc.Check("mean", 0.0, mean, mean, mean, True)])

EXPERIMENT = rc.Experiment(
    id="sleeping/blocks", title="Blocks that take a while", source="none", kind="figure",
    profiles={"quick": Sleeping(), "paper": Sleeping()},
    blocks=rc.Grid({"k": "count"}), compute=compute, analyse=analyse,
)
"""
#: Seconds between two kills; a worker needs about two to start again.
PAUSE = 4.0


@pytest.fixture
def remote(sources: Path, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A scheduler and two workers in processes of their own, which run a copy of the sources."""
    file, environment = tmp_path / "scheduler.json", {**os.environ, "PYTHONPATH": str(sources)}
    begun: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", "dask", *arguments, "--scheduler-file", str(file)]
        with (tmp_path / "log").open("ab") as log:
            begun.append(
                subprocess.Popen(line, cwd=tmp_path, env=environment, stdout=log, stderr=log)
            )
        return begun[-1]

    scheduler = begin("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    for _ in range(1200):
        if file.exists() and file.read_text().endswith("}"):
            break
        time.sleep(0.05)
    address = json.loads(file.read_text())["address"]
    for _ in range(2):
        begin("worker", "--nthreads", "1", "--no-dashboard")
    yield SimpleNamespace(scheduler=scheduler, address=address)
    for process in reversed(begun):
        process.terminate()
    for process in begun:
        process.wait(timeout=60)


@pytest.mark.slow
def test_killed_workers_change_no_bit(
    command: Callable[..., subprocess.Popen[str]], remote: SimpleNamespace, tmp_path: Path
) -> None:
    import distributed

    file = tmp_path / "blocks.py"
    file.write_text(BLOCKS)
    arguments = ("run", file, "--no-figures", "--json")
    whole = command(*arguments, "--set", "seconds=0", "--out", tmp_path / "here")
    process = command(*arguments, "--out", tmp_path / "out", "--scheduler", remote.address)
    killed, rng = 0, np.random.default_rng(0)
    with distributed.Client(remote.address) as client:
        while process.poll() is None:
            time.sleep(PAUSE)
            workers = sorted(client.run(os.getpid).values())
            if workers and process.poll() is None:
                os.kill(int(rng.choice(workers)), signal.SIGKILL)
                killed += 1
    printed, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert killed >= 2
    wanted, _ = whole.communicate(timeout=600)
    assert json.loads(printed)["series"] == json.loads(wanted)["series"]
    folder = next((tmp_path / "out" / "sleeping" / "blocks").iterdir())
    assert len(list(folder.glob("*.parquet"))) == 40
    assert list(folder.glob("*.unfinished")) == []


@pytest.mark.slow
def test_a_scheduler_that_ends_loses_nothing_that_is_stored(
    command: Callable[..., subprocess.Popen[str]], remote: SimpleNamespace, tmp_path: Path
) -> None:
    file, out = tmp_path / "blocks.py", tmp_path / "out"
    file.write_text(BLOCKS)
    arguments = ("run", file, "--no-figures", "--json", "--out", out)
    process = command(*arguments, "--scheduler", remote.address)
    for _ in range(1200):
        if len(list(out.glob("sleeping/blocks/*/*.parquet"))) >= 3:
            break
        time.sleep(0.05)
    remote.scheduler.kill()
    printed, said = process.communicate(timeout=600)
    assert (process.returncode, printed) == (2, "")
    assert said.splitlines()[-1].endswith("what is stored stays, the same command resumes")
    assert "Traceback" not in said
    stored = {path: path.stat().st_mtime_ns for path in out.glob("sleeping/blocks/*/*.parquet")}
    assert len(stored) >= 3
    process = command(*arguments)
    assert process.wait(timeout=600) == 0
    assert {path: path.stat().st_mtime_ns for path in stored} == stored
