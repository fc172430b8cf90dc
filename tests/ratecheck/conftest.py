"""A paper "toy" in place of the real ones, so that these tests are about the machinery alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ratecheck as rc
from ratecheck._commands import listing
from ratecheck._commands.app import main
from ratecheck._discover import papers, registry

EXTRA = Path(__file__).parent / "extra"
DECAY = EXTRA / "toy" / "rates" / "decay.py"
ROOT = Path(__file__).parents[2]
#: A file of claims, the first of which is true.
CLAIMS = """
import ratecheck as rc


@rc.claim(id="mine.one", source="s", kind="upper", fields={"x": rc.interval()}, text="at most one")
def one(i):
    return i.x, 1


@rc.claim(id="mine.two", source="s", kind="upper", fields={"x": rc.interval()}, text="at most half")
def two(i):
    return i.x, i.x / 2 + 0.25
"""


def _forget() -> dict[str, ModuleType]:
    """Unload the toys; returns what was loaded."""
    names = [n for n in sys.modules if n.partition(".")[0] in ("toy", "toy_benchmarks")]
    return {name: sys.modules.pop(name) for name in names}


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Only the toys are registered, and no claims."""
    loaded = _forget()
    monkeypatch.syspath_prepend(EXTRA)
    groups = {papers.PAPERS: {"toy": "toy"}, papers.BENCHMARKS: {"toy": "toy_benchmarks"}}
    monkeypatch.setattr(papers, "installed", lambda group=papers.PAPERS: groups[group])
    yield
    _forget()
    sys.modules.update(loaded)


@pytest.fixture
def decay() -> rc.Experiment[Any]:
    """The toy rate, from its file."""
    return registry.find_experiment(str(DECAY))


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def ratecheck(
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Said]:
    """Run the command in this process."""
    cache = tmp_path_factory.mktemp("cache") / "list.json"  # what the tests' papers leave
    monkeypatch.setattr(listing, "_cache", lambda: cache)

    def call(*arguments: object) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Said(int(left.value.code or 0), captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages: an edit while the tests run must not look like other source code."""
    copy = tmp_path_factory.mktemp("sources")
    for package in ("linsys", "mgda", "lora_bridge", "ratecheck", "experiments"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, copy / package, ignore=ignore)
    return copy


@pytest.fixture
def command(sources: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the command in a process of its own; what still runs at the end is killed."""
    running: list[subprocess.Popen[str]] = []
    # where Ctrl-C is ignored, as behind nohup, a child would inherit that
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def begin(*arguments: object, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "ratecheck", *map(str, arguments)],
            cwd=sources,
            env={**os.environ, "PYTHONPATH": str(sources), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()
    signal.signal(signal.SIGINT, before)
