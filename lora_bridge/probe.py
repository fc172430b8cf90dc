"""What a computation on a model will take: its rounds, measurements, tokens, time and memory.

The computation itself is made, with its runs cut off (:class:`Probe`). So a plan knows of all runs
that there will be, and what a round and a measurement take on this machine, on this model, with
these texts. The first run of more than two rounds goes on for 32, or for half of the time: rounds
differ, as only some draw responses and texts are new at first. All others end after two rounds, and
are taken to go on as that one does.

What the layers below the first adapted one make of a text is computed once
(:mod:`lora_bridge._prefix`): its time is no part of a step's.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from linsys.validate import check_number
from lora_bridge._memory import free_memory
from lora_bridge._prefix import SPENT
from lora_bridge.runs import Watch, watched

__all__ = ["Cost", "Probe", "free_memory", "probed"]

#: Rounds of a run that are timed, but for those of one.
_ROUNDS = 2
#: How many of that one run are, and in which part of the time.
_MOST, _LONG = 32, 1 / 2


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
        once_s: seconds of what is computed once for a text, on the way of all steps.
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
    once_s: float
    other_s: float
    round_tokens: float
    measurement_tokens: float
    memory: int
    complete: bool

    @property
    def seconds(self) -> float:
        """Of the whole computation, by one process, after the set-up."""
        rounds, measurements = self.rounds * self.round_s, self.measurements * self.measurement_s
        return rounds + measurements + self.once_s + self.other_s

    @property
    def tokens(self) -> float:
        """Of all rounds and measurements."""
        return self.rounds * self.round_tokens + self.measurements * self.measurement_tokens


@dataclass
class _Steps:
    """How many steps of one kind a run has, and what those that it has made took.

    ``once`` are the seconds of what is computed once for a text, ``seconds`` all others.
    """

    count: int
    seconds: list[float] = field(default_factory=list)
    once: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)


class Probe(Watch):
    """Cuts every run off, and times what it makes of it.

    Args:
        seconds: after so many no more rounds are made, but for two of the first run that has more:
            later runs are counted, and taken to be like that one.
    """

    def __init__(self, seconds: float = 60.0) -> None:
        self._begun = time.perf_counter()
        self._end = self._begun + check_number("seconds", seconds, low=0.0)
        self._setup = 0.0
        self._runs: list[dict[str, _Steps]] = []
        self._tokens = 0
        self._last = self._now()
        self._longest: _Steps | None = None
        self._long_end = 0.0
        self._open = 0
        self.rounds, self.first = _ROUNDS, {}

    def begin(self, name: str, rounds: int, measurements: int) -> None:
        """Count a run."""
        if not self._runs:
            self._setup = time.perf_counter() - self._begun
        self._runs.append({"round": _Steps(rounds), "measurement": _Steps(measurements)})
        now = time.perf_counter()
        known = self._longest is not None or rounds <= _ROUNDS
        self.rounds = 0 if self._runs[1:] and now > self._end and known else _ROUNDS
        if self._longest is None and rounds > self.rounds > 0:
            self._longest = self._runs[-1]["round"]
            self._long_end = now + _LONG * (self._end - self._begun)
        self._open = 1 + min(rounds, self.rounds) + (measurements > 2) if self.rounds else 0
        self._last = self._now()

    def step(self, kind: str) -> None:
        """Take the time and the tokens of a step."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        now, steps = self._now(), self._runs[-1][kind]
        seconds, once, tokens = (b - a for a, b in zip(self._last, now, strict=True))
        steps.seconds.append(seconds - once)
        steps.once.append(once)
        steps.tokens.append(tokens)
        self._last = now
        self._open -= 1
        if steps is self._longest and self.rounds == len(steps.seconds) < steps.count:
            more = int(self.rounds < _MOST and now[0] < self._long_end)
            self.rounds += more
            self._open += more

    def _now(self) -> tuple[float, float, float]:
        """The time, that of what is computed once for a text, and tokens, up to now."""
        return time.perf_counter(), SPENT.seconds, self._tokens

    @property
    def meant(self) -> bool:
        """Whether results are valid now: before the first run, or in a run not yet cut off."""
        return not self._runs or self._open > 0

    def cost(self, complete: bool) -> Cost:
        """The cost of a computation that is over, with its runs cut off."""
        seconds = time.perf_counter() - self._begun
        timed = {kind: [run[kind] for run in self._runs] for kind in ("round", "measurement")}
        counts = {kind: sum(steps.count for steps in each) for kind, each in timed.items()}

        def rounds(name: str) -> float:
            long = self._longest
            of = _once_of_rounds if name == "once" else _of_rounds
            total = partial(of, getattr(long, name) if long else [])
            return _mean(timed["round"], name, total, long)

        inside = sum(sum(s.seconds) + sum(s.once) for each in timed.values() for s in each)
        return Cost(
            runs=len(self._runs),
            rounds=counts["round"],
            measurements=counts["measurement"],
            timed=sum(len(steps.seconds) for steps in timed["round"]),
            round_s=rounds("seconds"),
            measurement_s=_mean(timed["measurement"], "seconds", _of_measurements),
            setup_s=self._setup,
            once_s=counts["round"] * rounds("once")
            + sum(sum(steps.once) for steps in timed["measurement"]),
            other_s=max(0.0, seconds - self._setup - inside),
            round_tokens=rounds("tokens"),
            measurement_tokens=_mean(timed["measurement"], "tokens", _of_measurements),
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
    (1, 99, 3, 32)
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


def _of_rounds(long: Sequence[float], count: int, made: Sequence[float]) -> float:
    """Of a run that goes on as the longest one does, of which only the first rounds were made.

    >>> _of_rounds([4.0, 1.0, 1.0, 1.0], 8, [8.0, 2.0])
    22.0
    """
    if len(made) == count or not sum(long[: len(made)]):
        return sum(made)
    later = long[len(long) // 2 :]
    whole = sum(long[:count]) + max(0, count - len(long)) * sum(later) / len(later)
    return sum(made) * whole / sum(long[: len(made)])


def _once_of_rounds(long: Sequence[float], count: int, made: Sequence[float]) -> float:
    """The same of what is computed once for a text.

    Where the first texts are known the others will be, though no block before has come to them.
    """
    return _of_rounds(long, count, made[:_ROUNDS])


def _of_measurements(count: int, made: Sequence[float]) -> float:
    """Of those at both ends, which may be more than the others, the first one was made."""
    return 2 * made[0] + (count - 2) * made[1] if len(made) == 2 else count * made[0]


def _mean(
    runs: list[_Steps],
    name: str,
    total: Callable[[int, Sequence[float]], float],
    like: _Steps | None = None,
) -> float:
    """What a step takes in the mean.

    Args:
        runs: their steps of a kind.
        name: what it takes, an attribute.
        total: of a run, from the number of its steps and those that were made.
        like: the run that those which made no step are like; all others in the mean without it. A
            rival's whole training may be one step of one run beside thousands of short ones.
    """
    made = [run for run in runs if run.seconds]
    totals = {id(run): total(run.count, getattr(run, name)) for run in made}
    steps, typical = sum(run.count for run in runs), [like] if like else made
    if not sum(run.count for run in typical):
        return 0.0
    rest = steps - sum(run.count for run in made)
    each = sum(totals[id(run)] for run in typical) / sum(run.count for run in typical)
    return (sum(totals.values()) + rest * each) / steps


def _most_memory() -> int:
    """The most bytes that this process has had; or of a card, where one is used."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return int(torch.cuda.max_memory_allocated())
    kilo = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilo
