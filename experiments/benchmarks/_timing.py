"""Fair timing: one core for everybody, ours and a peer in turn, medians of ratios within a pair."""

from __future__ import annotations

import json
import os
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import ratecheck as rc

__all__ = ["Duel", "Peers", "alone", "duel", "one_core", "peak_bytes", "seconds"]

#: Libraries read these variables when they are loaded, so that they are set for a child process.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def alone() -> dict[str, str]:
    """The environment of a command that is timed: it computes here, whatever cluster there is."""
    return {name: value for name, value in os.environ.items() if name != "RATECHECK_SCHEDULER"}


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most that a call allocates, as NumPy and Python report it."""
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process and its children on one core, where the system allows it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True)
class Duel:
    """Times of ours and a peer's, pair by pair, and their spread."""

    ours: list[float]
    peer: list[float]

    @property
    def ratio(self) -> float:
        """Median over pairs of the peer's time over ours."""
        return float(np.median(np.divide(self.peer, self.ours)))

    def summary(self, unit: float) -> dict[str, float]:
        """Minima and ratios; times are divided by ``unit``, the work of one call."""
        low, high = np.quantile(np.divide(self.peer, self.ours), [0.1, 0.9]).tolist()
        return {
            "ours_min_s": min(self.ours) / unit,
            "peer_min_s": min(self.peer) / unit,
            "ours_median_s": float(np.median(self.ours)) / unit,
            "peer_median_s": float(np.median(self.peer)) / unit,
            "ratio_of_minima": min(self.peer) / min(self.ours),
            "ratio_median": self.ratio,
            "ratio_p10": low,
            "ratio_p90": high,
            "pairs": len(self.ours),
        }


def duel(ours: Callable[[], float], peer: Callable[[], float], budget: float) -> Duel:
    """Time both in turn, at least 5 times, until ``budget`` seconds are spent."""
    times = Duel([], [])
    end = time.perf_counter() + budget
    while len(times.ours) < 5 or time.perf_counter() < end:
        times.ours.append(ours())
        times.peer.append(peer())
    return times


class Peers:
    """The child process that runs the peers."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            rc.python_command("from experiments.benchmarks._peers import main; main()"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.stdin is not None:
            self._child.stdin.close()
        self._child.wait()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Time one call of a peer; see ``_peers``."""
        if self._child.stdin is None or self._child.stdout is None:
            raise RuntimeError("the process of the peers has no pipes")
        self._child.stdin.write(json.dumps(request) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of the peers ended at {request}")
        answer: dict[str, Any] = json.loads(line)
        return answer
