"""Commands that are killed at random moments, again and again, give what an undisturbed one gives.

Moments are drawn with a seed over the time that the whole command takes. ``RATECHECK_KILLS`` is the
number of kills of each command, for longer trials than the tests make.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ratecheck.conftest import CLAIMS, DECAY

SEED = 6
KILLS = int(os.environ.get("RATECHECK_KILLS", "6"))
#: One method at one step size on two draws: two runs on the built-in model.
FSLORA = [
    part
    for setting in (
        *("targets=q_proj", "rank=2", "gammas=0.01", "seeds=2", "devices=2", "samples=8"),
        *("batch=2", "tests=4", "ratios=0.5", "local_steps=1", "rounds=60", "points=2"),
        *("k=1", "global_ranks=2", "levels=0.5"),
    )
    for part in ("--set", setting)
]
#: What is run; FILE is a file of claims.
COMMANDS = {
    "run": ("run", DECAY, "--no-figures", "--json"),
    "rates": ("rates", DECAY, "--json"),
    "audit": ("audit", "FILE", "--threads", "2", "--json"),
    "certify": ("certify", "FILE", "--json"),
    "sweep": ("sweep", DECAY, "--set", "seed=1,2,3,4", "--json"),
    "run on Dask": ("run", DECAY, "--no-figures", "--json", "--scheduler", "local"),
    "bridge": ("bridge", "fslora", "--no-figures", "--json", "--threads", "1", *FSLORA),
}
Start = Callable[..., "subprocess.Popen[str]"]


def answer(text: str) -> Any:
    """What a command printed as JSON, but for times, sizes of files that hold times, its folder."""

    def kept(node: Any) -> Any:
        if isinstance(node, dict):
            timed = {"wall_s", "bytes"} | {k for k in node if "second" in k}
            return {k: kept(v) for k, v in node.items() if k not in timed}
        return [kept(one) for one in node] if isinstance(node, list) else node

    return kept(json.loads(text))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("name", COMMANDS)
def test_kills_lose_and_change_nothing(name: str, command: Start, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CLAIMS)
    rng = random.Random(f"{SEED} {name}")

    def begin(folder: str) -> subprocess.Popen[str]:
        arguments = [tmp_path / "mine.py" if a == "FILE" else a for a in COMMANDS[name]]
        return command(*arguments, "--out", tmp_path / folder)

    def compare(again: str, said: str) -> None:
        """A command that ended says and leaves what the undisturbed one does."""
        assert "Traceback" not in said
        expected = json.loads(whole.replace(str(tmp_path / "whole"), str(tmp_path / "out")))
        assert answer(again) == answer(json.dumps(expected))
        # a kill between writing a file and giving it its name leaves it under a hidden one
        files = [
            {
                str(path.relative_to(tmp_path / folder))
                for path in (tmp_path / folder).rglob("*")
                if not (path.name.startswith(".") and path.suffix == ".tmp")
            }
            for folder in ("whole", "out")
        ]
        assert files[0] == files[1]

    began = time.monotonic()
    whole, said = begin("whole").communicate(timeout=600)
    took, killed = time.monotonic() - began, 0
    assert whole, said
    while killed < KILLS:
        process = begin("out")
        try:
            ended = process.communicate(timeout=rng.uniform(0.1, took))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += 1
            process.communicate(timeout=120)  # until the last process with these pipes is gone
        else:
            compare(*ended)
            shutil.rmtree(tmp_path / "out")
    compare(*begin("out").communicate(timeout=600))
