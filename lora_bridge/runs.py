"""Runs of hours: what is measured along an algorithm's rounds, kept so that a kill loses little.

:func:`recorded` makes the rounds of an algorithm (:mod:`linsys.rounds`), and :func:`repeated` those
of a function, for what is no algorithm; they measure the state at given times. With a folder state
and measurements are kept every so many rounds (:mod:`lora_bridge.checkpoint`), and whenever a round
ends in an error or in Ctrl-C. The same call goes on from there, to the same numbers: draws depend
on names alone, and what is taken from PyTorch's own generator, such as dropout, is seeded anew in
every round. Of a finished run only the measurements are kept.

Whoever wants to know how far runs are is told inside :func:`watched`: :mod:`lora_bridge.metrics`
writes down what is measured, and saves adapters; :mod:`lora_bridge.probe` ends runs early, to say
what they will take.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor

from linsys.rounds import Algorithm
from linsys.validate import (
    InputError,
    check_function,
    check_integer,
    check_path,
    increasing_times,
    plain,
    shown,
)
from lora_bridge import cards, checkpoint
from lora_bridge.failures import memory_explained, writing_explained

if TYPE_CHECKING:
    from lora_bridge.bank import AdapterBank

__all__ = ["Adapters", "Both", "Labels", "Watch", "recorded", "repeated", "watched"]

State = TypeVar("State")
Oracle = TypeVar("Oracle")
Report = TypeVar("Report")
#: Measurements by name, times along axis 0.
Values = dict[str, NDArray[Any]]
#: Adapters by the name of who has them: a bank, and rows X (k, w) for it.
Adapters = Mapping[str, "tuple[AdapterBank, Tensor]"]
#: Names of the places along every axis of a measurement, by its name.
Labels = Mapping[str, Sequence[Sequence[str]]]


class Watch:
    """The base class of what is told of every run inside :func:`watched`; it does nothing.

    Attributes:
        rounds: a run ends after so many rounds, which may become more in a step, and what it would
            have measured later is like its first measurement: what is computed of it has the right
            shape and no meaning. None: a run ends with its last round.
        first: first measurements, by the name of the function that measures. Where a run makes no
            round and these are known, they stand for its own.
    """

    rounds: int | None = None
    first: dict[str, Values]

    def begin(self, name: str, rounds: int, measurements: int) -> None:
        """A run begins, or goes on, with so many rounds and measurements still to be made."""

    def step(self, kind: str) -> None:
        """A "round" or a "measurement" of the run that began last was made."""

    def measured(self, t: int, values: Values, labels: Labels) -> None:
        """The run that began last has these measurements after ``t`` rounds.

        Those that were kept when it was killed are told again.
        """

    def reached(self, t: int, last: bool, adapters: Callable[[], Adapters]) -> None:
        """It has made ``t`` rounds, maybe its last ones, and can say what its adapters are."""


class Both(Watch):
    """Passes everything on to two others."""

    def __init__(self, first: Watch, second: Watch) -> None:
        self.each = first, second

    def begin(self, name: str, rounds: int, measurements: int) -> None:
        """Tell both."""
        for one in self.each:
            one.begin(name, rounds, measurements)

    def step(self, kind: str) -> None:
        """Tell both."""
        for one in self.each:
            one.step(kind)

    def measured(self, t: int, values: Values, labels: Labels) -> None:
        """Tell both."""
        for one in self.each:
            one.measured(t, values, labels)

    def reached(self, t: int, last: bool, adapters: Callable[[], Adapters]) -> None:
        """Tell both."""
        for one in self.each:
            one.reached(t, last, adapters)


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch | None) -> Iterator[None]:
    """Inside, ``watch`` is told of all runs; None changes nothing.

    >>> class Count(Watch):
    ...     made = 0
    ...     def step(self, kind): self.made += kind == "round"
    >>> count = Count()
    >>> with watched(count):
    ...     halved = repeated("halving", lambda x, t: x / 2, torch.ones(1), [3], lambda x: {"x": x})
    >>> count.made
    3
    """
    if watch is None:
        yield
        return
    before = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(before)


def recorded(
    name: str,
    algorithm: Algorithm[State, Oracle, Report],
    oracle: Oracle,
    state: State,
    times: Sequence[int],
    measure: Callable[[State], Mapping[str, ArrayLike]],
    *,
    sums: Mapping[str, Callable[[State, State, Report], float]] | None = None,
    adapters: Callable[[State], Adapters] | None = None,
    labels: Labels | None = None,
    folder: Path | str | None = None,
    every: int = 10,
) -> Values:
    """What ``measure`` says at increasing times of a run, each stacked along axis 0.

    Args:
        name: of the run; another run with the same folder has another name. With the round it
            seeds PyTorch's generator.
        algorithm: makes the rounds.
        oracle: what it asks.
        state: of ``algorithm.init``; what :func:`lora_bridge.checkpoint.save` takes.
        times: rounds done when to measure; 0 is ``state``.
        measure: numbers and arrays by name, the same ones and of the same shapes every time.
        sums: more numbers by name, each from the state before a round, the one after it and its
            report; they are added up over the rounds, and measured too.
        adapters: what a state's adapters are, for :mod:`lora_bridge.metrics` to save.
        labels: of arrays that are measured, what their places along each axis are called, such as
            ``{"loss": [["arc", "boolq"]]}``; :mod:`lora_bridge.metrics` writes it down.
        folder: where to keep the run; None: nowhere.
        every: rounds between two checkpoints.

    Raises:
        InputError: times that do not increase; a ``measure`` that takes something else;
            measurements that are no numbers, or others than before; labels that do not fit
            them; memory that does not hold a
            round; a folder that cannot be written; or what ``algorithm`` and ``measure`` refuse.

    >>> from linsys.sketching import FSLoRA, LeastSquares
    >>> devices = LeastSquares([[0.0]], inputs=([[1.0]],), targets=([[3.0]],))
    >>> algorithm = FSLoRA(gamma=0.1, H=1, ranks=[2])
    >>> state = algorithm.init(np.ones((2, 2)), devices)
    >>> bytes_up = {"up": lambda before, after, report: report.up[0]}
    >>> def loss(state): return {"loss": devices.mean_loss(state.X)}
    >>> series = recorded("a run", algorithm, devices, state, [0, 9], loss, sums=bytes_up)
    >>> series["loss"].round(6).tolist(), series["up"].tolist()
    ([0.5, 0.0], [0.0, 288.0])
    """
    check_function("measure", measure, "state")
    added = sums or {}

    def advance(now: tuple[State, dict[str, float]], t: int) -> tuple[State, dict[str, float]]:
        before, totals = now
        after, report = algorithm.round(before, oracle)
        return after, {n: totals[n] + float(f(before, after, report)) for n, f in added.items()}

    @wraps(measure)
    def measured(now: tuple[State, dict[str, float]]) -> Mapping[str, ArrayLike]:
        values = measure(now[0])
        return {**values, **now[1]} if added else values

    def held(now: tuple[State, dict[str, float]]) -> Adapters:
        return {} if adapters is None else adapters(now[0])

    start = state, dict.fromkeys(added, 0.0)
    options: dict[str, Any] = {"adapters": held, "labels": labels, "folder": folder}
    return repeated(name, advance, start, times, measured, every=every, **options)


def repeated(
    name: str,
    advance: Callable[[State, int], State],
    state: State,
    times: Sequence[int],
    measure: Callable[[State], Mapping[str, ArrayLike]],
    *,
    adapters: Callable[[State], Adapters] | None = None,
    labels: Labels | None = None,
    folder: Path | str | None = None,
    every: int = 10,
) -> Values:
    """What :func:`recorded` gives, of a function in the place of an algorithm and its oracle.

    Args:
        advance: round t = 0, 1, ..: the next state from a state, which it leaves as it is, and t.
        name, state, times, measure, adapters, labels, folder, every: as for :func:`recorded`.

    Raises:
        InputError: as there; an ``advance`` that takes something else.

    >>> repeated("halving", lambda x, t: x / 2, torch.ones(1), [0, 3], lambda x: {"x": x[0]})
    {'x': array([1.   , 0.125], dtype=float32)}
    """
    check_integer("every", every, low=1)
    check_function("advance", advance, "state", "t")
    check_function("measure", measure, "state")
    if adapters is not None:
        check_function("adapters", adapters, "state")
    times, labels = increasing_times(times).tolist(), labels or {}
    watch = _watch.get() or Watch()
    if watch.rounds is not None:
        watch.begin(name, times[-1], len(times))
        return _beginning(advance, state, times, measure, watch)
    kept = _StoredRun.of(folder, f"{name}, times {times}")
    cards.wait()  # what the first process has kept before is there for all
    if (done := kept.finished()) is not None:
        watch.begin(name, 0, 0)
        _tell(watch, times, done, labels)
        return done
    state, series, t = kept.newest(state)
    cards.wait()  # no process may keep anything before all have read what was kept
    watch.begin(name, times[-1] - t, len(times) - _count(series))
    _tell(watch, times, series, labels)

    def reached() -> None:
        watch.reached(t, t == times[-1], lambda: {} if adapters is None else adapters(state))

    if t > 0:  # the kill may have come before it was told
        reached()
    saved = t
    try:
        with memory_explained():
            while (measured := _count(series)) < len(times):
                if t == times[measured]:
                    series = _appended(series, measure(state))
                    _check_labels(labels, series)
                    watch.step("measurement")
                    watch.measured(t, {name: value[-1] for name, value in series.items()}, labels)
                    continue
                if t - saved >= every:
                    kept.save(state, series, t)
                    saved = t
                with _seeded(name, t):
                    state, t = advance(state, t), t + 1
                watch.step("round")
                reached()
            return kept.finish(series)
    except BaseException as error:
        if t > saved:
            kept.save(state, series, t)
        if isinstance(error, InputError) and kept.path is not None and t > 0:
            raise InputError(f"{error}; rounds before that are kept: {t}") from error
        raise


def _tell(watch: Watch, times: Sequence[int], series: Values, labels: Labels) -> None:
    """Say what a run measured before it was killed."""
    for i, t in zip(range(_count(series)), times, strict=False):
        watch.measured(t, {name: value[i] for name, value in series.items()}, labels)


def _beginning(
    advance: Callable[[State, int], State],
    state: State,
    times: Sequence[int],
    measure: Callable[[State], Mapping[str, ArrayLike]],
    watch: Watch,
) -> Values:
    """The rounds that ``watch`` wants, and the first measurement for all times.

    Where there are times between the first and the last, what is measured there is timed too.
    """
    t, rounds, name = 0, min(watch.rounds or 0, times[-1]), measure.__qualname__
    with memory_explained():
        if rounds or name not in watch.first:
            watch.first[name] = _appended({}, measure(state))
            watch.step("measurement")
        while t < min(watch.rounds or 0, times[-1]):
            state, t = advance(state, t), t + 1
            watch.step("round")
            if t == rounds and len(times) > 2:
                measure(state)
                watch.step("measurement")
    return {name: np.repeat(row, len(times), axis=0) for name, row in watch.first[name].items()}


@dataclass(frozen=True)
class _StoredRun:
    """Where one run is kept: a folder of checkpoints, then a file of measurements; or nowhere.

    Of several processes that make it together the first one writes.
    """

    path: Path | None
    about: str

    @classmethod
    def of(cls, folder: Path | str | None, about: str) -> _StoredRun:
        name = hashlib.sha256(about.encode()).hexdigest()[:16]
        return cls(None if folder is None else check_path("folder", folder) / name, about)

    def finished(self) -> Values | None:
        if self.path is None:
            return None
        try:
            series = load_file(_measurements(self.path))
        except (OSError, SafetensorError):  # not finished, or damaged
            return None
        if cards.is_first():
            shutil.rmtree(self.path, ignore_errors=True)  # if a kill came before it
        return series

    def newest(self, start: State) -> tuple[State, Values, int]:
        """The state, the measurements and the rounds of the newest checkpoint that is whole."""
        like: tuple[State, dict[str, torch.Tensor]] = (start, {})
        for place in [] if self.path is None else checkpoint.all_of(self.path):
            try:
                (state, series), t = checkpoint.restore(place, like, self.about)
            except InputError:
                continue
            return state, {name: value.numpy() for name, value in series.items()}, t
        return start, {}, 0

    def save(self, state: Any, series: Values, t: int) -> None:
        if self.path is not None and cards.is_first():
            tensors = {name: torch.from_numpy(value) for name, value in series.items()}
            checkpoint.save(self.path, (state, tensors), t, self.about)

    def finish(self, series: Values) -> Values:
        if self.path is not None and cards.is_first():
            with writing_explained("folder of runs", self.path.parent):
                self._write(self.path, series)
            shutil.rmtree(self.path, ignore_errors=True)
        cards.wait()  # who comes next finds it finished in every process
        return series

    @staticmethod
    def _write(path: Path, series: Values) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix="making-")
        os.close(handle)
        try:
            save_file(series, unfinished)
            os.replace(unfinished, _measurements(path))
        finally:
            Path(unfinished).unlink(missing_ok=True)


def _measurements(path: Path) -> Path:
    return path.with_name(f"{path.name}.safetensors")


def _count(series: Values) -> int:
    return len(next(iter(series.values()), ()))


def _appended(series: Values, values: Mapping[str, ArrayLike]) -> Values:
    """With one more measurement of each name.

    Raises:
        InputError: none, no numbers, or others than before.
    """
    if not isinstance(values, Mapping) or not values:  # the arrays' length is the times done
        raise InputError(f"`measure` must give one number or more by name; found {shown(values)}")
    new = {name: plain(value)[None] for name, value in values.items()}
    for name, value in new.items():
        if value.dtype.kind not in "biuf":
            raise InputError(f"`{name}` of measure must be numbers; found {shown(values[name])}")
    shapes, before = ({n: v.shape[1:] for n, v in each.items()} for each in (new, series))
    if series and shapes != before:
        raise InputError(f"`measure` must give {before} every time, name and shape; found {shapes}")
    return {
        name: np.concatenate([series[name], new[name]]) if series else new[name] for name in new
    }


def _check_labels(labels: Labels, series: Values) -> None:
    """Refuse labels that are not one name for every place.

    Raises:
        InputError: says of which measurement.
    """
    for name, axes in labels.items():
        shape = series[name].shape[1:] if name in series else ()
        found = tuple(len(set(names)) for names in axes)
        if found != shape:
            raise InputError(
                f"`labels` of {name} must have one name for each place of shape {shape}; "
                f"found {found}"
            )


@contextmanager
def _seeded(name: str, t: int) -> Iterator[None]:
    """PyTorch's generator as a function of run and round, and afterwards as it was."""
    seed = int.from_bytes(hashlib.sha256(f"{name} {t}".encode()).digest()[:8], "big")
    cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if cuda else []):
        torch.manual_seed(seed)
        yield
