"""What workers of ``test_turns`` do: meet, and compile the same function at the same time."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

#: A function whose compilation takes a second at least, kept beside its file.
FUNCTION = """
import time

import numba
from numba.extending import overload


def slow(x):
    return x


@overload(slow)
def typed(x):
    time.sleep(1.0)
    return lambda x: x + 1.0


@numba.njit(cache=True)
def compiled(x):
    return slow(x)
"""


def misses(folder: str, number: int) -> int:
    """How often this process compiled the function that it did not find in the cache."""
    name = f"compiled_{Path(folder).name}"
    spec = importlib.util.spec_from_file_location(name, Path(folder) / "compiled.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (Path(folder) / f"ready-{number}").touch()
    while len(list(Path(folder).glob("ready-*"))) < 2:
        time.sleep(0.01)
    assert module.compiled(1.0) == 2.0
    return sum(module.compiled.stats.cache_misses.values())
