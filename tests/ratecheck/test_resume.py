"""Whatever ends a run - a kill, Ctrl-C - finished blocks stay and the same command resumes."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._discover import registry
from ratecheck._processes.ended import ProcessEnded
from ratecheck._processes.interrupts import Interrupted
from ratecheck._run.runner import run
from ratecheck._store.store import Store
from tests.ratecheck.conftest import CLAIMS, DECAY

EXTRA = Path(__file__).parent / "extra" / "toy" / "rates"
Start = Callable[..., "subprocess.Popen[str]"]


def wait_for(log: Path, line: str) -> None:
    """Until the toy has begun the block ``line``; ten minutes are beyond any start-up."""
    for _ in range(12_000):
        if log.exists() and line in log.read_text().split():
            return
        time.sleep(0.05)
    raise AssertionError(f"block {line} never began")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_resumes_with_the_same_result(
    command: Start, decay: rc.Experiment[Any], tmp_path: Path, stop: signal.Signals
) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    arguments = ("run", EXTRA / "decay.py", "--out", out, "--json", "--no-figures")
    first = command(*arguments, TOY_LOG=str(log), TOY_HANG="1.0")
    wait_for(log, "1.0")
    first.send_signal(stop)
    printed, said = first.communicate(timeout=600)
    assert printed == ""
    if stop == signal.SIGINT:
        assert first.returncode == -signal.SIGINT
        assert said.splitlines() == [
            "ratecheck: interrupted; 1 of 3 blocks are saved, the same command resumes"
        ]
    second = command(*arguments, TOY_LOG=str(log))
    printed, _ = second.communicate(timeout=600)
    assert second.returncode == 0
    assert log.read_text().split() == ["0.5", "1.0", "1.0", "1.5"]
    whole = run(decay, decay.profiles["quick"], Store(tmp_path / "fresh"))
    series = json.loads(printed)["series"]
    for curve, rate in zip(series, (0.5, 1.0, 1.5), strict=True):
        mse = whole.where(rate=rate).grid("mse", "replicate", "t")
        np.testing.assert_array_equal(curve["y"], mse.mean(axis=0))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="parents that are gone")
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_a_command_that_is_killed(
    command: Start, tmp_path: Path, stop: signal.Signals
) -> None:
    log, out, path = tmp_path / "log", tmp_path / "out", tmp_path / "decay.py"
    text = (EXTRA / "decay.py").read_text()
    path.write_text(text.replace("draw=draw,", 'draw=draw,\n    parallel="blocks",'))
    arguments = ("run", path, "--out", out, "--no-figures", "--threads", 2)
    first = command(*arguments, TOY_LOG=str(log), TOY_HANG="1.0")
    wait_for(log, "1.0")  # for a minute
    first.send_signal(stop)
    first.communicate(timeout=20)  # until the last one with these pipes is gone
    assert first.returncode == -stop


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no lock of folders")
@pytest.mark.parametrize("killed", [False, True])
def test_of_two_equal_commands_one_computes_and_both_answer(
    command: Start, tmp_path: Path, killed: bool
) -> None:
    log, gate, out = tmp_path / "log", tmp_path / "gate", tmp_path / "out"
    arguments = ("run", EXTRA / "decay.py", "--out", out, "--json", "--no-figures")
    environment = {"TOY_LOG": str(log), "TOY_GATE": str(gate)}
    first = command(*arguments, **environment)
    wait_for(log, "0.5")
    second = command(*arguments, **environment)
    assert second.stderr is not None
    waits = second.stderr.readline()
    assert waits == "ratecheck: another process computes toy/decay; waiting for it\n"
    if killed:
        first.kill()
    gate.touch()
    answers = [process.communicate(timeout=600) for process in (first, second)]
    assert [first.returncode, second.returncode] == [-signal.SIGKILL if killed else 0, 0]
    assert answers[1][1] == ""
    if not killed:
        assert answers[0] == answers[1]
    assert log.read_text().split() == ["0.5"] * (1 + killed) + ["1.0", "1.5"]


@pytest.mark.parametrize("claims", [False, True], ids=["run", "audit"])
def test_what_was_stored_before_the_clock_was_set_back_is_taken(
    ratecheck: Callable[..., Any], tmp_path: Path, claims: bool
) -> None:
    mine, out = tmp_path / "mine.py", tmp_path / "out"
    mine.write_text(CLAIMS)
    arguments = ["audit", mine] if claims else ["run", DECAY, "--no-figures"]
    first = ratecheck(*arguments, "--out", out, "--json")
    (out / ".left.tmp").touch()
    later = time.time() + 400 * 86_400
    for path in out.rglob("*"):
        os.utime(path, (later, later))
    again = ratecheck(*arguments, "--out", out, "--json")
    assert (again.code, again.out) == (first.code, first.out)
    written = {path: path.stat().st_mtime for path in out.rglob("*") if path.is_file()}
    kept = [path for path, when in written.items() if abs(when - later) < 1.0]
    assert {".parquet" if not claims else ".json"} <= {path.suffix for path in kept}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_while_another_process_computes(command: Start, tmp_path: Path) -> None:
    log, gate, out = tmp_path / "log", tmp_path / "gate", tmp_path / "out"
    arguments = ("run", EXTRA / "decay.py", "--out", out, "--json", "--no-figures")
    command(*arguments, TOY_LOG=str(log), TOY_GATE=str(gate))
    wait_for(log, "0.5")
    second = command(*arguments)
    assert second.stderr is not None
    assert "waiting" in second.stderr.readline()
    second.send_signal(signal.SIGINT)
    _, said = second.communicate(timeout=600)
    assert second.returncode == -signal.SIGINT
    assert said == "ratecheck: interrupted; 0 of 3 blocks are saved, the same command resumes\n"


def test_ctrl_c_in_this_process_says_what_is_saved(
    decay: rc.Experiment[Any], tmp_path: Path
) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="2 of 3 blocks are saved"):
        run(decay, decay.profiles["quick"], Store(tmp_path), progress=stop)


def test_a_block_finds_what_it_kept_and_loses_it_when_it_is_stored(
    decay: rc.Experiment[Any], tmp_path: Path
) -> None:
    folders: list[Path] = []

    def compute(config: Any, block: rc.Block, context: rc.Context) -> rc.Columns:
        assert context.folder is not None
        folders.append(context.folder)
        if not context.folder.exists():  # the block's first time: leave something and be stopped
            context.folder.mkdir(parents=True)
            (context.folder / "state").write_text(str(block))
            raise KeyboardInterrupt
        assert (context.folder / "state").read_text() == str(block)
        return decay.compute(config, block, context)

    config, store = decay.profiles["quick"], Store(tmp_path / "out")
    keeps = dataclasses.replace(decay, compute=compute)
    for saved in range(3):
        with pytest.raises(Interrupted, match=f"{saved} of 3 blocks are saved and 1 in part"):
            run(keeps, config, store)
    table = run(keeps, config, store)
    assert len(set(folders)) == 3
    assert not any(folder.exists() for folder in folders)
    np.testing.assert_array_equal(table["mse"], run(decay, config, Store(tmp_path / "b"))["mse"])


KILLED = '''"""A block whose process the system kills as often as a file beside it says."""

import os
import signal
from pathlib import Path

import ratecheck as rc


class Blocks(rc.Config):
    """Three of them."""

    size: int = rc.param(1, low=1, doc="of each")


def compute(config, block, context):
    left = Path(__file__).with_name("kills")
    if block["k"] == 1 and (kills := int(left.read_text())):
        left.write_text(str(kills - 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return {"x": [float(block["k"])] * config.size}


EXPERIMENT = rc.Experiment(
    id="mine/killed", title="Killed", source="none", kind="rate", variable="k",
    profiles={"quick": Blocks(), "paper": Blocks()}, blocks=rc.Grid({"k": (0, 1, 2)}),
    compute=compute, parallel="blocks",
    analyse=lambda config, table: rc.Analysis([], []),
)
'''
ENDED = (
    "block k=1 of mine/killed must be computed by a process that lasts; found that its process was "
    "killed, as where memory is short: what is stored stays, the same command resumes"
)


def killed(folder: Path, times: int) -> Path:
    """The experiment in this folder, a block of which is killed so often."""
    folder.mkdir(exist_ok=True)
    (folder / "kills").write_text(str(times))
    path = folder / "killed.py"
    path.write_text(KILLED)
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("times", "code"), [(1, 0), (2, 2)])
@pytest.mark.parametrize("given", [(), ("--set", "size=4")])
def test_a_block_whose_process_is_killed_is_computed_once_more(
    ratecheck: Callable[..., Any], tmp_path: Path, times: int, code: int, given: tuple[str, ...]
) -> None:
    path, out = killed(tmp_path, times), tmp_path / "out"
    command = ["run", path, "--threads", 2, "--out", out, "--no-figures", "--json", *given]
    said = ratecheck(*command)
    assert (said.code, path.with_name("kills").read_text()) == (code, "0")
    assert said.err == f"ratecheck: {ENDED}\n" * (code == 2)
    stored = {shard: shard.stat().st_mtime_ns for shard in out.glob("mine/killed/*/*.parquet")}
    assert len(stored) == 3 - (code == 2)
    again = ratecheck(*command)
    assert (again.code, again.err) == (0, "")
    assert {shard: shard.stat().st_mtime_ns for shard in stored} == stored


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("verb", ["run", "rates"])
def test_an_experiment_whose_process_is_killed_costs_no_other(
    ratecheck: Callable[..., Any], tmp_path: Path, verb: str
) -> None:
    path = killed(tmp_path / "files", times=2)
    path.with_name("later.py").write_text(DECAY.read_text().replace("toy/decay", "mine/later"))
    options = ["--no-figures"] if verb == "run" else []
    said = ratecheck(
        verb, path.parent, "--threads", 2, "--out", tmp_path / "out", "--json", *options
    )
    assert (said.code, said.err) == (1, f"ratecheck: {ENDED}\n")
    assert {one["experiment"] for one in json.loads(said.out)} == {"mine/later"}


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("os._exit(3)", 3),
        ("os._exit(0)", 0),
        ("exit()", 0),
        ("raise SystemExit('a text')", 1),
        ("try:\n            os._exit(3)\n        except BaseException:\n            pass", 3),
    ],
)
def test_a_block_that_ends_its_process_is_a_line(
    tmp_path: Path, ends: str, code: int, threads: int
) -> None:
    path = tmp_path / "ends.py"
    path.write_text(KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", ends))
    path.with_name("kills").write_text("1")
    experiment, leave = registry.find_experiment(str(path)), os._exit
    config, store = experiment.profiles["quick"], Store(tmp_path / "out")
    with pytest.raises(ProcessEnded, match=f"block k=1 of mine/killed .* exit code {code}: what"):
        run(experiment, config, store, threads=threads, reference=str(path))
    assert os._exit is leave
    assert list(run(experiment, config, store)["x"]) == [0.0, 1.0, 2.0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="copies of POSIX")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it may have threads
def test_processes_that_a_block_begins_end_as_they_do(tmp_path: Path) -> None:
    path = tmp_path / "copies.py"
    ends = "if (copy := os.fork()) == 0:\n            os._exit(1)\n        "
    ends += "assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 1"
    path.write_text(KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", ends))
    path.with_name("kills").write_text("1")
    experiment = registry.find_experiment(str(path))
    table = run(experiment, experiment.profiles["quick"], Store(tmp_path / "out"))
    assert list(table["x"]) == [0.0, 1.0, 2.0]


def test_processes_over_blocks_give_the_numbers_of_one_process(tmp_path: Path) -> None:
    path = str(EXTRA.parent / "figures" / "picture.py")
    experiment = registry.find_experiment(path)
    config = experiment.profiles["quick"]
    seen: list[tuple[int, int]] = []
    one = run(experiment, config, Store(tmp_path / "one"), reference=path)
    two = run(
        experiment,
        config,
        Store(tmp_path / "two"),
        threads=2,
        reference=path,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert list(one) == list(two)
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
