"""What Dask costs: blocks of 100 ms on a cluster of two workers, against the computing alone.

``ratecheck bench cluster`` times a run on two workers that are processes of their own, with storing
every block and reading it here. The peer is what the blocks took themselves, of which each measures
its own. By CPU, ours are the seconds of all processes: of this one, of the scheduler in it, of the
workers and of theirs; by the clock, the time of the run times two. What else runs on the machine
changes the second. "Correct" means that the stored numbers are those of one process.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ratecheck as rc
from linsys import InputError

__all__ = ["EXPERIMENT", "run"]

#: Blocks, quick and not.
BLOCKS = (200, 2000)
WORKERS = 2


@dataclass(frozen=True, kw_only=True)
class SpinningConfig(rc.Config):
    """How many blocks, and what each takes."""

    blocks: int = rc.param(200, low=1, doc="blocks.")
    seconds: float = rc.param(0.1, low=0.0, doc="of CPU time that a block computes.")


def compute(config: SpinningConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Random numbers, drawn for so long."""
    clock, cpu = time.perf_counter(), time.process_time()
    rng = np.random.default_rng(config.derive("numbers", block["number"]))
    numbers = rng.normal(size=10)
    while time.process_time() - cpu < config.seconds:
        rng.normal(size=1000)
    return {"x": numbers, "clock": time.perf_counter() - clock, "cpu": time.process_time() - cpu}


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
    """Two rows, by CPU and by the clock."""
    try:
        import distributed
    except ImportError:
        install = "pip install 'ratecheck[dask]'"
        raise InputError(f"Dask must be installed; found none: {install}") from None
    config = SpinningConfig(blocks=BLOCKS[not quick])
    cluster = distributed.LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster,
        rc.on_cluster(cluster.scheduler_address, folder=folder),
    ):
        first = SpinningConfig(blocks=20, seconds=0.01)
        rc.run(EXPERIMENT, first, rc.Store(Path(folder) / "first"), reference=__file__)
        clock, cpu = time.perf_counter(), _cpu_seconds()
        table = rc.run(EXPERIMENT, config, rc.Store(Path(folder) / "run"), reference=__file__)
        clock, cpu = time.perf_counter() - clock, _cpu_seconds() - cpu
    short = SpinningConfig(blocks=config.blocks, seconds=0.0)
    here = [compute(short, {"number": k}, rc.Context())["x"] for k in range(config.blocks)]
    same = bool((np.concatenate(here) == table["x"]).all())
    each = np.arange(config.blocks) * (len(table["x"]) // config.blocks)
    name = f"{config.blocks:,} blocks of {config.seconds:g} s, {WORKERS} workers"
    alone = {kind: float(table[kind][each].sum()) for kind in ("cpu", "clock")}
    ours = {"cpu": cpu, "clock": clock * WORKERS}
    said = {"cpu": "CPU seconds", "clock": "seconds by the clock"}
    return [
        rc.BenchRow(f"{name}, {said[kind]}", "the blocks alone", ours[kind], alone[kind], same)
        for kind in said
    ]


def _cpu_seconds() -> float:
    """Of this process and of all that descend from it."""
    import psutil

    total = 0.0
    here = psutil.Process()
    for process in (here, *here.children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system
    return total
