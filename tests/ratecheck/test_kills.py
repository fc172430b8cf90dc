"""Commands that are killed at random moments, again and again, give what an undisturbed one gives.

Moments are drawn with a seed over the time that the whole command takes. ``RATECHECK_KILLS`` is the
number of kills of each command, for longer trials than the tests make.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.ratecheck.conftest import CLAIMS, DECAY, EXTRA

SEED = 6
#: Kills of a command, and of one that does much as another, or stores nothing.
KILLS, FEWER = (int(os.environ.get("RATECHECK_KILLS", few)) for few in (6, 2))


def _set(*settings: str) -> tuple[str, ...]:
    return tuple(part for setting in settings for part in ("--set", setting))


#: One method at one step size on two draws: two runs on the built-in model.
FSLORA = _set(
    *("targets=q_proj", "rank=2", "gammas=0.01", "seeds=2", "devices=2", "samples=8"),
    *("batch=2", "tests=4", "ratios=0.5", "local_steps=1", "rounds=60", "points=2"),
    *("k=1", "global_ranks=2", "levels=0.5"),
)
#: Seven methods on two draws, each a short run.
AFFPCL = _set(
    *("levels=0.5", "agents=2", "samples=5", "tests=8", "seeds=2", "rounds=6", "batch=2"),
    "warmup=4",
)
#: Two questions with choices.
QUESTIONS = "\n".join(
    json.dumps({"goal": f"Do {k}.", "sol1": "now", "sol2": "at a later time", "label": k})
    for k in range(2)
)
#: A benchmark of half a second for each peer.
SORTING = """
import ratecheck as rc
from experiments.benchmarks._timing import duel, one_core, seconds

def run(quick):
    rows, numbers = [], list(range(100_000))
    with one_core():
        for name in ("once", "again"):
            times = duel(lambda: seconds(lambda: sorted(numbers)),
                         lambda: seconds(lambda: sorted(sorted(numbers))), 0.5)
            rows.append(rc.BenchRow(name, "twice", min(times.ours), min(times.peer), True))
    return rows
"""
OUT, DASK = ("--json", "--out", "OUT"), ("--scheduler", "local")
#: What is run, and how often it is killed. FILE is a file of claims, DATA one of questions, OUT the
#: folder of results.
COMMANDS: dict[str, tuple[Any, ...]] = {
    "run": (KILLS, "run", DECAY, "--no-figures", *OUT),
    "rates": (KILLS, "rates", DECAY, *OUT),
    "audit": (KILLS, "audit", "FILE", "--threads", "2", "--write", "OUT/kept", *OUT),
    "certify": (KILLS, "certify", "FILE", "--threads", "2", "--write", "OUT/kept", *OUT),
    "certify --constant": (FEWER, "certify", "FILE", "--constant", "--threads", "2", *OUT),
    "sweep": (KILLS, "sweep", DECAY, "--set", "seed=1,2,3,4", *OUT),
    "reproduce": (FEWER, "reproduce", "--threads", "2", *OUT),
    "report": (FEWER, "report", *OUT),
    "bench": (FEWER, "bench", "toy", "sorting", "--json"),
    "run on Dask": (KILLS, "run", DECAY, "--no-figures", *OUT, *DASK),
    "audit on Dask": (FEWER, "audit", "FILE", *OUT, *DASK),
    "certify on Dask": (FEWER, "certify", "FILE", *OUT, *DASK),
    "sweep on Dask": (FEWER, "sweep", DECAY, "--set", "seed=1,2,3,4", "--part", "1", *OUT, *DASK),
    "reproduce on Dask": (FEWER, "reproduce", *OUT, *DASK),
    "bench on Dask": (FEWER, "bench", "toy", "sorting", "--json", *DASK),
    "bridge": (KILLS, "bridge", "fslora", "--no-figures", "--threads", "1", *OUT, *FSLORA),
    "bridge of agents": (
        FEWER,
        "bridge",
        "affpcl",
        "--no-figures",
        "--threads",
        "1",
        *OUT,
        *AFFPCL,
    ),
    "score": (FEWER, "score", "DATA", "--json"),
}
#: What has been done before, undisturbed.
BEFORE = {"report": [("run", "toy/*", "--no-figures", *OUT), ("audit", "toy", *OUT)]}
#: Where the toys are all that is installed; the others have the papers.
OF_TOYS = ("bench", "report", "reproduce")
#: What differs from one benchmark to the next.
TIMES = {"wall_s", "ours_s", "peer_s", "ratio"}
Start = Callable[..., "subprocess.Popen[str]"]


def answer(text: str) -> Any:
    """What a command printed as JSON, but for times, sizes of files that hold times, its folder."""

    def kept(node: Any) -> Any:
        if isinstance(node, dict):
            timed = {"bytes", *TIMES} | {k for k in node if "second" in k}
            return {k: kept(v) for k, v in node.items() if k not in timed}
        return [kept(one) for one in node] if isinstance(node, list) else node

    return kept(json.loads(text))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder for Python's path in which the toys, with claims, are all that is installed."""
    folder = tmp_path / "installed"
    for package in ("toy", "toy_benchmarks"):
        shutil.copytree(EXTRA / package, folder / package)
    (folder / "toy_benchmarks" / "sorting.py").write_text(SORTING)
    (folder / "toy" / "claims").mkdir()
    (folder / "toy" / "claims" / "__init__.py").touch()
    (folder / "toy" / "claims" / "halves.py").write_text(CLAIMS.replace('"mine.', '"toy.'))
    about = folder / "ratecheck-0.dist-info"  # of its name the first one on the path counts
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: ratecheck\nVersion: {version('ratecheck')}\n"
    )
    (about / "entry_points.txt").write_text(
        "[ratecheck.papers]\ntoy = toy\n[ratecheck.benchmarks]\ntoy = toy_benchmarks\n"
    )
    return folder


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("name", COMMANDS)
def test_kills_lose_and_change_nothing(
    name: str, command: Start, sources: Path, installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(CLAIMS)
    (tmp_path / "piqa_test.jsonl").write_text(QUESTIONS)
    rng, kills = random.Random(f"{SEED} {name}"), COMMANDS[name][0]
    places = {"FILE": tmp_path / "mine.py", "DATA": tmp_path / "piqa_test.jsonl"}
    path = f"{installed}{os.pathsep}" * (COMMANDS[name][1] in OF_TOYS) + str(sources)

    def begin(folder: str, words: tuple[Any, ...] = COMMANDS[name][1:]) -> subprocess.Popen[str]:
        given = [places.get(word, word) for word in words]
        out = [re.sub("^OUT", str(tmp_path / folder), str(word)) for word in given]
        return command(*out, PYTHONPATH=path)

    def prepare(folder: str) -> None:
        """What has been done before."""
        shutil.rmtree(tmp_path / folder, ignore_errors=True)
        if (tmp_path / "before").exists():
            shutil.copytree(tmp_path / "before", tmp_path / folder)

    def compare(again: str, said: str) -> None:
        """A command that ended says and leaves what the undisturbed one does."""
        assert "Traceback" not in said
        expected = json.loads(whole.replace(str(tmp_path / "whole"), str(tmp_path / "out")))
        assert answer(again) == answer(json.dumps(expected))
        # a kill between writing a file and giving it its name leaves it under a hidden one, and
        # one of a command on a cluster the hidden folder that its workers saw
        files = [
            {
                str(path.relative_to(tmp_path / folder))
                for path in (tmp_path / folder).rglob("*")
                if not any(p.startswith(".") and p.endswith(".tmp") for p in path.parts)
            }
            for folder in ("whole", "out")
        ]
        assert files[0] == files[1]

    for words in BEFORE.get(name, ()):
        assert begin("before", words).communicate(timeout=600)[0]
    prepare("whole")
    prepare("out")
    began = time.monotonic()
    whole, said = begin("whole").communicate(timeout=600)
    took, killed = time.monotonic() - began, 0
    assert whole, said
    while killed < kills:
        process = begin("out")
        try:
            ended = process.communicate(timeout=rng.uniform(0.1, took))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += 1
            process.communicate(timeout=120)  # until the last process with these pipes is gone
        else:
            compare(*ended)
            prepare("out")
    compare(*begin("out").communicate(timeout=600))
