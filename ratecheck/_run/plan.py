"""What an experiment on a language model will take, said before it begins, and fitted into a time.

A worker makes the first two blocks with their runs cut off (:mod:`lora_bridge.probe`), each for
half a minute, and more of them where time is left; the others are taken to be like the later ones.
While blocks are computed, workers count their steps on a :class:`Board`.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from linsys.validate import InputError
from ratecheck._discover import registry
from ratecheck._experiment.model import Block, Config, Context, Experiment
from ratecheck._processes.ended import answer_of
from ratecheck._processes.pool import call_in_processes
from ratecheck._store.store import Store

if TYPE_CHECKING:
    from lora_bridge.probe import Cost
    from lora_bridge.runs import Watch

#: Seconds for trying blocks.
_PROBE_SECONDS = 60.0
#: The least share of a profile's rounds that a budget may leave, where draws can go first.
_LEAST_SHARE = 0.25
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Plan:
    """What will be computed, and what that takes.

    Attributes:
        experiment: its id.
        blocks, missing: how many there are, and how many are not stored.
        workers: blocks that are computed at a time.
        costs: of the missing blocks that were tried; those not tried are taken to be like them.
        free: bytes of memory that there are for it, or None where nobody says.
    """

    experiment: str
    blocks: int
    missing: int
    workers: int
    costs: tuple[Cost, ...]
    free: int | None

    def mean(self, name: str) -> float:
        """The mean of an attribute of the costs."""
        return float(np.mean([getattr(cost, name) for cost in self.costs])) if self.costs else 0.0

    @property
    def seconds(self) -> float:
        """Of the whole, by the clock.

        The first block of a process takes longer than those that have texts in common with it.
        """
        if not self.costs:
            return 0.0
        first, *others = (cost.seconds for cost in self.costs)
        later = math.ceil(self.missing / self.workers) - 1
        return self.setup_s + first + later * float(np.mean(others or [first]))

    @property
    def setup_s(self) -> float:
        """Seconds before the first round, once for every process."""
        return self.costs[0].setup_s if self.costs else 0.0

    @property
    def memory(self) -> int:
        """Bytes of all blocks that are computed at a time."""
        return self.workers * max((cost.memory for cost in self.costs), default=0)

    def share(self, rounds: int, measurements: int) -> float:
        """How much of a block is done with so many of its steps, from 0 to 1."""
        done = rounds * self.mean("round_s") + measurements * self.mean("measurement_s")
        return min(1.0, done / self.mean("seconds")) if self.mean("seconds") else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values, of all missing blocks."""
        totals = {
            name: round(self.missing * self.mean(name))
            for name in ("runs", "rounds", "measurements", "tokens")
        }
        return {
            "experiment": self.experiment,
            "blocks": self.blocks,
            "missing": self.missing,
            "workers": self.workers,
            **totals,
            "round_s": self.mean("round_s"),
            "measurement_s": self.mean("measurement_s"),
            "setup_s": self.setup_s,
            "once_s": self.mean("once_s"),
            "other_s": self.mean("other_s"),
            "seconds": self.seconds,
            "memory": self.memory,
            "free": self.free,
        }

    def lines(self) -> list[str]:
        """The plan for a reader, in a few lines."""
        if not self.missing:
            return [f"{self.experiment}: all {self.blocks} blocks are stored"]
        total = self.to_dict()
        tried = len(self.costs)
        at_least = "" if all(cost.complete for cost in self.costs) else "at least "
        lines = [
            f"{self.experiment}: {self.missing} of {self.blocks} blocks, {at_least}"
            f"{total['runs']:,} runs of {total['rounds']:,} rounds and "
            f"{total['measurements']:,} measurements, {_short(total['tokens'])} tokens",
            f"tried: {tried} block{'s' * (tried > 1)}; a round took {duration(total['round_s'])}, "
            f"a measurement {duration(total['measurement_s'])}, what is computed once "
            f"for a text {duration(total['once_s'])}, the rest of a block "
            f"{duration(self.mean('other_s'))}, what comes before {duration(self.setup_s)}",
            f"about {at_least}{duration(self.seconds)} with {self.workers} "
            f"block{'s' * (self.workers > 1)} at a time, {_gigabytes(self.memory)} of memory"
            + (f" of {_gigabytes(self.free)} free" if self.free is not None else ""),
        ]
        if not total["runs"]:
            lines[0] = f"{self.experiment}: {self.missing} of {self.blocks} blocks, without rounds"
        return lines


def planned(
    experiment: Experiment[Any],
    config: Config,
    store: Store,
    threads: int,
) -> Plan:
    """The plan of an experiment that is found by its id.

    Raises:
        InputError: what computing it would refuse in its first two rounds; memory that does not
            hold the blocks that are computed at a time.
    """
    blocks = list(experiment.blocks(config))
    result = store.result(experiment, config)
    missing = [block for block in blocks if result.load(block) is None]
    workers = max(1, min(threads, len(missing))) if experiment.parallel == "blocks" else 1
    costs: tuple[Cost, ...] = ()
    free = None
    if missing:
        from lora_bridge.probe import free_memory

        values = {name: getattr(config, name) for name in config.to_dict()}
        inner = 1 if experiment.parallel == "blocks" else threads
        call = (experiment.id, values, missing, inner, _PROBE_SECONDS)
        ((_, future),) = call_in_processes(_probe, [call], 1)
        made = answer_of(future, f"the plan of {experiment.id}")
        costs = tuple(made)
        free = free_memory(getattr(config, "device", "cpu"))
    plan = Plan(experiment.id, len(blocks), len(missing), workers, costs, free)
    if free is not None and plan.memory > free:
        raise InputError(
            f"memory must hold {workers} block{'s' * (workers > 1)} at a time of "
            f"{_gigabytes(plan.memory // workers)} each; found {_gigabytes(free)} free: fewer "
            "--threads, or a smaller chunk, batch or max_length by --set"
        )
    return plan


def _probe(
    reference: str, values: dict[str, Any], blocks: Sequence[Block], threads: int, seconds: float
) -> list[Cost]:
    """In a worker: the costs of the first blocks, until the time is over."""
    from lora_bridge.probe import probed

    experiment, end = registry.find_experiment(reference), time.perf_counter() + seconds
    config = experiment.config_type(**values)
    costs: list[Cost] = []
    took = 0.0
    for i, block in enumerate(blocks):
        begun = time.perf_counter()
        left = end - begun
        if costs and left <= took:
            break
        context = Context(threads)

        def compute(block: Block = block, context: Context = context) -> None:
            experiment.compute(config, block, context)

        costs.append(probed(compute, left if i > 1 else seconds / 2))
        took = time.perf_counter() - begun if i else 0.0  # the first one reads the model
    return costs


def fitted(config: Config, plan: Plan, budget: float, planning: float = 0.0) -> dict[str, Any]:
    """The parameters with which an experiment takes about the time of a budget.

    Rounds go down to a quarter, then draws to their least number, then rounds to theirs.

    Args:
        config: as planned; ``scaled`` gives a smaller one, ``share_of`` says how much smaller.
        plan: of it.
        budget: seconds by the clock, planning included.
        planning: seconds that planning took, and takes once more where something is changed.

    Raises:
        InputError: no ``scaled``; a time that the smallest does not fit into.
    """
    whole = plan.seconds + planning
    if whole <= budget:
        return {}
    if not hasattr(config, "scaled"):
        raise InputError(
            f"`budget` must be at least {duration(whole)} for {plan.experiment}, which "
            f"cannot be made smaller; found {duration(budget)}"
        )
    # a computation without runs is all set-up to the probe, though every block has its own
    setup = plan.setup_s if plan.mean("seconds") else 0.0
    work, fixed = plan.seconds - setup, setup + 2 * planning
    part = plan.mean("rounds") * plan.mean("round_s") / (plan.mean("seconds") or 1.0)

    def needed(rounds: float, draws: float) -> float:
        return fixed + work * draws * (1 - part + part * rounds)

    kept = [1.0, 1.0]
    for least in (_LEAST_SHARE, 0.0) if work > 0 else ():
        wanted = max(0.0, budget - fixed) / work
        rounds = min(1.0, max(least, (wanted - (1 - part)) / part)) if part else 1.0
        draws = min(1.0, wanted * work / (needed(rounds, 1.0) - fixed))
        smaller = config.scaled(rounds, draws)
        kept = [smaller.share_of(config, kind) for kind in ("rounds", "draws")]
        if needed(*kept) <= 1.1 * budget:
            old, new = config.to_dict(), smaller.to_dict()
            return {name: getattr(smaller, name) for name in new if new[name] != old[name]}
    # what is as it was planned is not planned once more
    planned, least = min((planning, whole), (2 * planning, needed(*kept)), key=lambda one: one[1])
    raise InputError(
        f"`budget` must be at least about {duration(least)} for {plan.experiment} with "
        f"this model and data{f', {duration(planned)} of it for planning' * bool(planning)}; "
        f"found {duration(budget)}"
    )


def seconds_of(text: str) -> float:
    """The seconds of a time such as "90s", "20m" or "1.5h".

    Raises:
        InputError: another text, or no time at all.

    >>> seconds_of("20m"), seconds_of("1.5h")
    (1200.0, 5400.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", text.strip())
    if match is None or float(match[1]) == 0:
        raise InputError(f'`budget` must be a time such as "90s", "20m" or "1.5h"; found {text!r}')
    return float(match[1]) * _UNITS[match[2]]


def duration(seconds: float) -> str:
    """A time for a reader.

    >>> [duration(s) for s in (0.0123, 4.2, 75, 8000)]
    ['12 ms', '4.2 s', '1 min 15 s', '2 h 13 min']
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Board:
    """Steps of all blocks, which their processes write into one file and this one reads.

    Args:
        path: of the file, which has room for the rounds and measurements of every block.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def made(cls, path: Path, blocks: int) -> Board:
        """A new one for so many blocks."""
        np.zeros((blocks, 2), np.int64).tofile(path)
        return cls(path)

    def steps(self, position: int) -> tuple[int, int]:
        """Rounds and measurements of a block."""
        rounds, measurements = np.fromfile(self.path, np.int64).reshape(-1, 2)[position]
        return int(rounds), int(measurements)

    def done(self, running: Collection[int], plan: Plan) -> float:
        """How many blocks those that are running are worth."""
        return sum(plan.share(*self.steps(position)) for position in running)

    def watch(self, position: int, after: Callable[[], None] = lambda: None) -> Watch:
        """What counts the steps of a block, and calls ``after`` when one is made."""
        from lora_bridge.runs import Watch

        path, counts = self.path, np.zeros(2, np.int64)

        class Counter(Watch):
            """Writes every step down."""

            def step(self, kind: str) -> None:
                counts[int(kind == "measurement")] += 1
                _write(path, position, counts)
                after()

        return Counter()


def _write(path: Path, position: int, counts: NDArray[np.int64]) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(handle, counts.tobytes(), position * counts.nbytes)
    finally:
        os.close(handle)


def _short(count: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f}"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
