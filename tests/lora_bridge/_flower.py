"""What tests with Flower's own processes share: the app that they run, and what must come out."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from lora_bridge.flower import app_folder
from tests.lora_bridge.test_flower_rounds import in_one_piece

#: Marks of such a test.
NEEDS_FLOWER = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("flwr") is None,
        reason="Flower is not installed: it has an environment of its own, see docs/flower.md",
    ),
]

SETUP = str(Path(__file__).with_name("_federations.py")) + ":setup"  # goes with the app


def app(base: Path, name: str, rounds: int, **options: Any) -> Path:
    # minutes: a loaded machine needs them to start the processes of one phase
    limits = {"timeout": 300.0, "gather": 300.0, "fault": str(base / "faults")}
    files = {"algorithm": name, "rounds": rounds, "folder": str(base / "files")}
    return app_folder.write_app(base / "app", SETUP, {**limits, **files, **options})


def result(base: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((base / "files" / "server" / "result.json").read_text())
    return record


def same(base: Path, sha256: str, name: str, rounds: int) -> bool:
    whole, users = in_one_piece(name, rounds)
    record = result(base)
    assert record["sha256"] == sha256
    return list(record["clients"].values()) == users and (users != [] or whole == sha256)


@contextmanager
def command(*arguments: Any) -> Iterator[subprocess.Popen[bytes]]:
    """``python -m lora_bridge.flower`` as a process."""
    start = [sys.executable, "-m", "lora_bridge.flower", *map(str, arguments)]
    with subprocess.Popen(start) as process:
        try:
            yield process
        finally:
            process.terminate()


def alive(home: Path) -> list[psutil.Process]:
    """What has been started with Flower's files in a folder, and has not ended."""
    processes = []
    for one in psutil.process_iter():
        with suppress(psutil.Error):
            if one.environ().get("FLWR_HOME", "").startswith(str(home)):
                processes.append(one)
    return processes


def patience(quiet: float) -> float:
    """Seconds to wait here and now, ``quiet`` where a process of Flower's starts in two."""
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", "import lora_bridge.flower.apps"], check=True)
    return quiet * max(1.0, (time.monotonic() - start) / 2.0)


def until(happens: Callable[[], Any], wait: float = 1200.0) -> None:
    end = time.monotonic() + wait
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.05)


def log(line: str) -> None:
    print(line, file=sys.stderr)


@pytest.fixture(autouse=True)
def found_by_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that Flower starts find the tests' modules."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
