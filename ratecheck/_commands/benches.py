"""What ``ratecheck bench`` does: time benchmarks here, or each as a whole on a cluster's machine.

A benchmark times ours and its peers in turn, on one machine. So it is one call of the cluster: its
times are those of the machine that made it, which says what it is.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from linsys.folder_lock import folder_lock
from ratecheck._discover import registry
from ratecheck._experiment.model import BenchRow
from ratecheck._fallback import import_ours
from ratecheck._names import check_name
from ratecheck._processes import elsewhere
from ratecheck._processes.interrupts import Interrupted
from ratecheck._processes.pool import call_in_processes
from ratecheck._report.terminal import progress_bar
from ratecheck._store.machine import machine, versions


@dataclass(frozen=True)
class Timed:
    """What a benchmark measured.

    Attributes:
        rows: ours against each peer.
        machine: that measured: its name, ``host``, beside what :func:`machine` says.
        versions: of what computed there.
    """

    rows: list[BenchRow]
    machine: dict[str, Any]
    versions: dict[str, str]

    @property
    def title(self) -> str:
        """The machine and the versions in a line."""
        where = "{host}: {cpu}, {cores} cores, {system}".format(**self.machine)
        return f"{where}; {', '.join(map(' '.join, self.versions.items()))}"

    def to_dicts(self, name: str) -> list[dict[str, Any]]:
        """The rows of the benchmark of this name as plain JSON values."""
        where = {"machine": self.machine, "versions": self.versions}
        return [{"benchmark": name, **row.to_dict(), **where} for row in self.rows]


def chosen(names: Sequence[str]) -> dict[str, str]:
    """The modules of these benchmarks, each once.

    Raises:
        InputError: there is no benchmark of such a name.
    """
    known = registry.benchmarks()
    return {check_name("benchmark", name, list(known)): known[name] for name in names}


def perform(
    modules: Mapping[str, str], quick: bool
) -> tuple[dict[str, Timed], dict[str, Exception]]:
    """What each benchmark measured, and what those raised that did not end, by name.

    They run here one after the other, inside ``on_cluster`` on the workers.
    """
    asked = list(modules)
    done: dict[str, Timed | Exception] = {}
    with redirect_stdout(sys.stderr), progress_bar("benchmarks") as progress:
        if progress is not None:
            progress(0, len(asked))
        for position, answer in _answers([(modules[name], quick) for name in asked]):
            try:
                done[asked[position]] = answer()
            except Interrupted:
                raise
            except Exception as error:  # one that is broken must not cost the others
                done[asked[position]] = error
            if progress is not None:
                progress(len(done), len(asked))
    answers = [(name, done[name]) for name in asked]
    return (
        {name: one for name, one in answers if isinstance(one, Timed)},
        {name: one for name, one in answers if isinstance(one, Exception)},
    )


def _answers(tasks: Sequence[tuple[str, bool]]) -> Iterator[tuple[int, Callable[[], Timed]]]:
    """The position of each benchmark, and what gives its times or raises what it has raised."""
    if elsewhere.current() is None:
        for position, task in enumerate(tasks):
            yield position, partial(_timed, *task)
        return
    for position, future in call_in_processes(_timed_alone, tasks, 1):
        yield position, future.result


def _timed_alone(module: str, quick: bool) -> Timed:
    """On a worker: time while no other worker of this machine does, as both would be slower."""
    # held and not written into: nothing is left of it
    with folder_lock(Path(tempfile.gettempdir()), _say_that_it_waits):
        return _timed(module, quick)


def _say_that_it_waits() -> None:
    print("ratecheck: another benchmark runs on this machine; waiting for it", file=sys.stderr)


def _timed(module: str, quick: bool) -> Timed:
    """The times of a benchmark, given by its module, on this machine."""
    where = {"host": platform.node(), **machine()}  # before it keeps to one core
    return Timed(import_ours(module).run(quick), where, versions())
