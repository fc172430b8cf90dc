"""Where and with what a result was computed: recorded beside it, never part of its key."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any


def versions() -> dict[str, str]:
    """Versions of what computes the numbers.

    >>> import ratecheck as rc
    >>> sorted(rc.versions())[:2]
    ['numba', 'numpy']
    """
    return dict(_versions())


@functools.cache
def _versions() -> dict[str, str]:  # reading them takes milliseconds, and every block states them
    version_of = {"python": platform.python_version()}
    for name in ("ratecheck", "numpy", "scipy", "numba"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version_of[name] = importlib.metadata.version(name)
    return version_of


def machine() -> dict[str, Any]:
    """The processor's name and the number of cores this process may use.

    >>> import ratecheck as rc
    >>> sorted(rc.machine())
    ['cores', 'cpu', 'system']
    """
    return dict(_machine())


@functools.cache
def _machine() -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return {"cpu": cpu, "cores": cores(), "system": platform.platform(terse=True)}


def cores() -> int:
    """How many cores this process may use.

    >>> import ratecheck as rc
    >>> rc.cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
