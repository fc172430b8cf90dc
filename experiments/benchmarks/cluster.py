"""What Dask costs: blocks of 100 ms on a cluster of two workers, against the computing alone.

``ratecheck bench cluster`` times, and ``python -m experiments.benchmarks.cluster`` also writes the
tables under ``results/``: on two workers that are processes of their own, calls that store
nothing, and a run whose blocks are stored and read here. Ours is the time by the clock, times two.
The peer is what the blocks took themselves, of which each measures its own, or the same run by two
processes of this machine. "Correct" means that the numbers are those of one process.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ratecheck as rc
from linsys import InputError

__all__ = ["EXPERIMENT", "run"]

#: Blocks, quick and not.
BLOCKS = (100, 1000)
WORKERS = 2
_ALONE, _HERE = "the blocks alone", "processes of this machine"


@dataclass(frozen=True, kw_only=True)
class SpinningConfig(rc.Config):
    """How many blocks, and what each takes."""

    blocks: int = rc.param(100, low=1, doc="blocks.")
    seconds: float = rc.param(0.1, low=0.0, doc="of CPU time that a block computes.")


def compute(config: SpinningConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Random numbers, drawn for so long."""
    clock, cpu = time.perf_counter(), time.process_time()
    rng = np.random.default_rng(config.derive("numbers", block["number"]))
    numbers = rng.normal(size=10)
    while time.process_time() - cpu < config.seconds:
        rng.normal(size=1000)
    return {"x": numbers, "took": time.perf_counter() - clock}


EXPERIMENT = rc.Experiment(
    id="cluster/spinning",
    title="Blocks that take as long as they are told",
    source="none",
    kind="figure",
    profiles={"quick": SpinningConfig(), "paper": SpinningConfig(blocks=2000)},
    blocks=rc.Grid({"number": "blocks"}),
    compute=compute,
    analyse=lambda config, table: rc.Analysis([], []),
    parallel="blocks",
)


def run(quick: bool) -> list[rc.BenchRow]:
    """Calls, a run against its blocks, and against the same run without a cluster."""
    config = SpinningConfig(blocks=BLOCKS[not quick])
    short = SpinningConfig(blocks=config.blocks, seconds=0.0)
    right = [compute(short, {"number": k}, rc.Context())["x"] for k in range(config.blocks)]
    name = f"{config.blocks:,} {{}} of {config.seconds:g} s, {WORKERS} workers"
    with tempfile.TemporaryDirectory() as folder:
        with _cluster(folder):
            _stored(SpinningConfig(blocks=20, seconds=0.01), Path(folder) / "first")
            called, calls = _timed(_called, config)
            there, table = _timed(_stored, config, Path(folder) / "there")
        here, other = _timed(_stored, config, Path(folder) / "here")

    def row(what: str, peer: str, ours: float, theirs: float, *columns: rc.Columns) -> rc.BenchRow:
        same = all((np.concatenate(right) == columns["x"]).all() for columns in columns)
        return rc.BenchRow(name.format(what), peer, WORKERS * ours, theirs, bool(same))

    return [
        row("calls", _ALONE, called, _took(calls), calls),
        row("stored blocks", _ALONE, there, _took(table), table),
        row("stored blocks", _HERE, there, WORKERS * here, table, other),
    ]


@contextlib.contextmanager
def _cluster(folder: str) -> Iterator[None]:
    if multiprocessing.parent_process() is not None:  # a worker's process may start no others
        raise InputError(
            "`scheduler` (RATECHECK_SCHEDULER) must be left out for the benchmark cluster, which "
            "starts a cluster of its own; found one"
        )
    try:
        import distributed
    except ImportError:
        install = "pip install 'ratecheck[dask]'"
        raise InputError(f"Dask must be installed; found none: {install}") from None
    cluster = distributed.LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
    )
    with cluster, rc.on_cluster(cluster.scheduler_address, folder=folder):
        yield


def _timed(call: Any, *arguments: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = call(*arguments)
    return time.perf_counter() - began, answer


def _called(config: SpinningConfig) -> rc.Columns:
    tasks = [(config, {"number": number}, rc.Context()) for number in range(config.blocks)]
    parts: list[Any] = [None] * len(tasks)
    for position, future in rc.call_in_processes(compute, tasks, WORKERS):
        parts[position] = future.result()
    return {
        "x": np.concatenate([part["x"] for part in parts]),
        "took": np.repeat([part["took"] for part in parts], len(parts[0]["x"])),
    }


def _stored(config: SpinningConfig, folder: Path) -> rc.Columns:
    return rc.run(EXPERIMENT, config, rc.Store(folder), threads=WORKERS, reference=__file__)


def _took(columns: rc.Columns) -> float:
    """Seconds of all blocks, each of which says its own in every row."""
    return float(np.sum(columns["took"])) / 10


if __name__ == "__main__":
    import importlib

    from experiments.benchmarks._tables import write
    from experiments.benchmarks.affpcl import Measured

    measured = Measured()
    # workers find the classes of the module by its name, and not those of this program
    for row in importlib.import_module("experiments.benchmarks.cluster").run(quick=False):
        measured.add(row)
    write("cluster", measured)
