"""What a computation on a model will take: its rounds, measurements, tokens, time and memory.

The computation itself is made, with every run cut off after two rounds (:class:`Probe`). So a plan
knows of all runs that there will be, and what a round and a measurement take on this machine, on
this model, with these texts.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from linsys.validate import check_number
from lora_bridge._memory import free_memory
from lora_bridge.runs import Watch, watched

__all__ = ["Cost", "Probe", "free_memory", "probed"]

#: Rounds of a run that are timed; the first one may have to set up what later ones share.
_ROUNDS = 2


@dataclass(frozen=True)
class Cost:
    """What a computation takes.

    Attributes:
        runs, rounds, measurements: how many of each there will be.
        timed: rounds that were made to find out.
        round_s, measurement_s: seconds of one, a mean over all of them; 0 where there are none. A
            run's last measurement, which may test more than others, is taken to be like its first.
        setup_s: seconds before the first run begins, such as those of reading the model: once for a
            process that computes several times.
        other_s: seconds of all that is none of these, such as drawing data.
        round_tokens, measurement_tokens: that go through the model in one.
        memory: the most bytes that the process has had, or that were taken of a card.
        complete: whether the computation came to its end; otherwise there may be more runs.
    """

    runs: int
    rounds: int
    measurements: int
    timed: int
    round_s: float
    measurement_s: float
    setup_s: float
    other_s: float
    round_tokens: float
    measurement_tokens: float
    memory: int
    complete: bool

    @property
    def seconds(self) -> float:
        """Of the whole computation, by one process, after the set-up."""
        rounds, measurements = self.rounds * self.round_s, self.measurements * self.measurement_s
        return rounds + measurements + self.other_s

    @property
    def tokens(self) -> float:
        """Of all rounds and measurements."""
        return self.rounds * self.round_tokens + self.measurements * self.measurement_tokens


@dataclass
class _Steps:
    """How many steps of one kind a run has, and the seconds and tokens of those it has made."""

    count: int
    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


class Probe(Watch):
    """Cuts every run off, and times what it makes of it.

    Args:
        seconds: after so many no more rounds are made: later runs are counted, and taken to be like
            those before them.
    """

    def __init__(self, seconds: float = 60.0) -> None:
        self._begun = time.perf_counter()
        self._end = self._begun + check_number("seconds", seconds, low=0.0)
        self._setup = 0.0
        self._runs: list[dict[str, _Steps]] = []
        self._tokens = 0
        self._last = (time.perf_counter(), 0)
        self._open = 0
        self.rounds, self.first = _ROUNDS, {}

    def begin(self, name: str, rounds: int, measurements: int) -> None:
        """Count a run."""
        if not self._runs:
            self._setup = time.perf_counter() - self._begun
        self._runs.append({"round": _Steps(rounds), "measurement": _Steps(measurements)})
        self.rounds = 0 if self._runs[1:] and time.perf_counter() > self._end else _ROUNDS
        self._open = 1 + min(rounds, self.rounds) + (measurements > 2) if self.rounds else 0
        self._last = (time.perf_counter(), self._tokens)

    def step(self, kind: str) -> None:
        """Take the time and the tokens of a step."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        now = (time.perf_counter(), self._tokens)
        steps = self._runs[-1][kind]
        steps.seconds.append(now[0] - self._last[0])
        steps.tokens.append(now[1] - self._last[1])
        self._last = now
        self._open -= 1

    @property
    def meant(self) -> bool:
        """Whether results are valid now: before the first run, or in a run not yet cut off."""
        return not self._runs or self._open > 0

    def cost(self, complete: bool) -> Cost:
        """The cost of a computation that is over, with its runs cut off."""
        seconds = time.perf_counter() - self._begun
        timed = {kind: [run[kind] for run in self._runs] for kind in ("round", "measurement")}
        counts = {kind: sum(steps.count for steps in each) for kind, each in timed.items()}
        means = {kind: _means(steps, _TOTALS[kind]) for kind, steps in timed.items()}
        inside = sum(sum(steps.seconds) for each in timed.values() for steps in each)
        return Cost(
            runs=len(self._runs),
            rounds=counts["round"],
            measurements=counts["measurement"],
            timed=sum(len(steps.seconds) for steps in timed["round"]),
            round_s=means["round"][0],
            measurement_s=means["measurement"][0],
            setup_s=self._setup,
            other_s=max(0.0, seconds - self._setup - inside),
            round_tokens=means["round"][1],
            measurement_tokens=means["measurement"][1],
            memory=_most_memory(),
            complete=complete,
        )

    @contextmanager
    def counting_tokens(self) -> Iterator[None]:
        """Inside, count the tokens that are looked up in the largest vocabulary."""
        largest = 0

        def count(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            nonlocal largest
            if isinstance(module, nn.Embedding) and module.num_embeddings >= largest:
                largest = module.num_embeddings
                self._tokens += inputs[0].numel() if inputs else output[..., 0].numel()

        handle = nn.modules.module.register_module_forward_hook(count)
        try:
            yield
        finally:
            handle.remove()


def probed(compute: Callable[[], Any], seconds: float = 60.0) -> Cost:
    """What a computation will take that makes its runs by :mod:`lora_bridge.runs`.

    It is called, and what it returns or raises is of no use: its runs are cut off.

    Args:
        compute: without arguments; it keeps nothing in a folder.
        seconds: see :class:`Probe`.

    Raises:
        Exception: what ``compute`` raises before its first run, or in a run that is timed.

    >>> from lora_bridge.runs import repeated
    >>> start, measure = torch.ones(1), lambda x: {"x": x}
    >>> cost = probed(lambda: repeated("halving", lambda x, t: x / 2, start, [0, 50, 99], measure))
    >>> cost.runs, cost.rounds, cost.measurements, cost.timed
    (1, 99, 3, 2)
    """
    probe, complete = Probe(seconds), True
    with (
        watched(probe),
        probe.counting_tokens(),
        np.errstate(all="ignore"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of measurements that mean nothing
        try:
            compute()
        except Exception:
            if probe.meant:
                raise
            complete = False
    return probe.cost(complete)


def _of_rounds(count: int, made: Sequence[float]) -> float:
    return count * made[-1]


def _of_measurements(count: int, made: Sequence[float]) -> float:
    """Of those at both ends, which may be more than the others, the first one was made."""
    return 2 * made[0] + (count - 2) * made[1] if len(made) == 2 else count * made[0]


_Total = Callable[[int, Sequence[float]], float]
#: The total of a run's steps of a kind, from their number and those that were made.
_TOTALS: dict[str, _Total] = {"round": _of_rounds, "measurement": _of_measurements}


def _means(runs: list[_Steps], total: _Total) -> tuple[float, float]:
    """Mean seconds and tokens of a step, over the steps of runs that made some.

    A rival's whole training may be one step of one run beside thousands of short ones.
    """
    made = [run for run in runs if run.seconds]
    steps = sum(run.count for run in made)
    if not steps:
        return 0.0, 0.0
    seconds = sum(total(run.count, run.seconds) for run in made)
    return seconds / steps, sum(total(run.count, run.tokens) for run in made) / steps


def _most_memory() -> int:
    """The most bytes that this process has had; or of a card, where one is used."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return int(torch.cuda.max_memory_allocated())
    kilo = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilo
