"""Many configurations of one experiment: computed in parts, each a Parquet file, and resumed.

A part is a number of configurations one after the other. Whoever computes it writes its file, so
that neither this process nor a scheduler holds tables; a part that is stored is not computed again.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from linsys.validate import InputError, check_choice, check_integer
from ratecheck._discover import registry
from ratecheck._experiment.model import Block, Columns, Config, Context, Experiment, plain
from ratecheck._experiment.table import Column, Table
from ratecheck._names import check_name
from ratecheck._processes import elsewhere
from ratecheck._processes.ended import in_words
from ratecheck._processes.interrupts import Interrupted, Progress
from ratecheck._processes.pool import call_in_processes, refuse_in_worker
from ratecheck._store.files import digest
from ratecheck._store.machine import cores, versions
from ratecheck._store.revision import check_revision, revision
from ratecheck._store.store import checked as checked_columns
from ratecheck._sweep.axes import Axes, base, checked, configuration, size
from ratecheck._sweep.place import Place, joined_tables

_FORMAT = 1
#: A sweep has about so many parts, of at most so many configurations each.
_PARTS, _LARGEST = 1000, 1000
#: Different reasons for which configurations were refused that are kept of a part.
_REASONS = 3


@dataclass(frozen=True)
class Sweep:
    """What a sweep left in its files, of which nothing is read before it is asked for.

    Attributes:
        experiment: its id.
        axes: values of every parameter that was changed, by name.
        place: where the files lie.
        files: those that have rows.
        rows, bytes: of all files.
        seconds: of computing, all processes together.
        refused: how many configurations the experiment refused.
        reasons: some of the reasons it gave.
        missing: how many configurations are not computed.
        problems: reasons for which parts were not computed.

    Example::

        done = rc.sweep("affpcl/pays", {"n": [2, 8, 32], "kappa": [1.0, 100.0]})
        print(done.configurations, done.rows, done.missing)
        table = done.dataset().to_table()
    """

    experiment: str
    axes: Axes
    place: Place
    files: tuple[str, ...]
    rows: int
    bytes: int
    seconds: float
    refused: int
    reasons: tuple[str, ...]
    missing: int
    problems: tuple[str, ...]

    @property
    def configurations(self) -> int:
        """How many there are."""
        return size(self.axes)

    def dataset(self) -> Any:
        """All rows as a ``pyarrow.dataset.Dataset``, which reads what a query needs.

        Raises:
            InputError: there are no rows.
        """
        if not self.files:
            raise InputError(f"a sweep must have rows to be read; found none in {self.place}")
        return self.place.dataset(list(self.files))

    def tables(
        self, columns: Sequence[str] | None = None, where: Mapping[str, float] | None = None
    ) -> Iterator[Table]:
        """The rows whose columns have these values, some thousand at a time.

        Raises:
            InputError: a column that there is not, or a file that was damaged meanwhile.
        """
        from pyarrow import ArrowException, compute

        data, chosen = self.dataset(), None
        for name in (*(columns or ()), *(where or {})):
            check_name("column", name, data.schema.names)
        for name, value in (where or {}).items():
            equal = compute.field(name) == value
            chosen = equal if chosen is None else chosen & equal
        # a thread of pyarrow's that still holds a file of Python's when Python ends aborts it
        threads = "://" not in self.place.address
        try:
            for batch in data.to_batches(columns=columns, filter=chosen, use_threads=threads):
                if batch.num_rows:
                    yield Table({n: _numpy(batch.column(n)) for n in batch.schema.names})
        except (OSError, ArrowException) as error:
            folder = self.place.address
            raise InputError(
                f"files of a sweep must be whole; found in {folder}: {error}"
            ) from None

    def cells(
        self,
        value: str,
        *axes: str,
        where: Mapping[str, float] | None = None,
        statistic: Literal["median", "mean"] = "median",
    ) -> tuple[list[Column], Column]:
        """The median, or the mean, of a column in every cell of other columns' values.

        Args:
            value: the column.
            axes: the others.
            where: values of further columns that the rows must have.
            statistic: which of the two.

        Returns:
            The sorted values of each axis, and an array over them, NaN where there is no row.

        Raises:
            InputError: a column that there is not, or not of numbers, or no rows.
        """
        whole: dict[str, list[Column]] = {name: [] for name in (*axes, value)}
        for table in self.tables(list(whole), where):
            for name, parts in whole.items():
                parts.append(table[name])
        if not whole[value]:
            raise InputError(f"rows with {where} must exist; found none among {self.rows}")
        columns = {name: np.concatenate(parts) for name, parts in whole.items()}
        for name, column in columns.items():
            if column.dtype.kind not in "iufb":
                raise InputError(f"`{name}` must be a column of numbers; found text")
        levels, flat = [], np.zeros(len(columns[value]), dtype=np.int64)
        check_choice("statistic", statistic, ("median", "mean"))
        for name in axes:
            values, at = np.unique(columns[name], return_inverse=True)
            levels.append(values)
            flat = flat * len(values) + at
        order = np.lexsort((columns[value], flat))
        places, first, count = np.unique(flat[order], return_index=True, return_counts=True)
        ordered = columns[value][order]
        answer = np.full([len(one) for one in levels], math.nan)
        if statistic == "mean":
            answer.flat[places] = np.add.reduceat(ordered, first) / count
        else:
            halves = ordered[first + (count - 1) // 2] / 2, ordered[first + count // 2] / 2
            answer.flat[places] = np.add(*halves)
        return levels, answer

    def summary(self) -> dict[str, tuple[float, float, float]]:
        """The least, the mean and the largest value of every column of numbers."""
        seen: dict[str, list[float]] = {}
        for table in self.tables() if self.files else ():
            for name, column in table.items():
                if column.dtype.kind not in "iufb":
                    continue
                there = column[~np.isnan(column)]  # a part may lack the column
                if len(there):
                    low, part, high, count = seen.setdefault(name, [math.inf, 0.0, -math.inf, 0])
                    seen[name] = [
                        min(low, float(there.min())),
                        part + float((there / self.rows).sum()),  # a sum may be too large
                        max(high, float(there.max())),
                        count + len(there),
                    ]
        return {
            name: (low, part * (self.rows / count), high)
            for name, (low, part, high, count) in seen.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        summary = {
            name: dict(zip(("least", "mean", "largest"), map(plain, values), strict=True))
            for name, values in self.summary().items()
        }
        return {
            "experiment": self.experiment,
            "axes": {name: plain(list(values)) for name, values in self.axes.items()},
            "configurations": self.configurations,
            "rows": self.rows,
            "bytes": self.bytes,
            "files": len(self.files),
            "seconds": round(self.seconds, 3),
            "refused": self.refused,
            "reasons": list(self.reasons),
            "missing": self.missing,
            "problems": list(self.problems),
            "columns": summary,
            "folder": self.place.address,
        }


def sweep(
    experiment: Experiment[Any] | str,
    axes: Mapping[str, Iterable[Any]],
    out: Path | str = "results",
    *,
    profile: str = "quick",
    threads: int | None = None,
    part: int | None = None,
    needs: Iterable[str] = (),
    progress: Progress | None = None,
) -> Sweep:
    """Compute an experiment for every combination of values, or what of it is not stored yet.

    The rows are those of the experiment's table, with the values of the parameters that differ in
    columns before them (``set_n`` for n where the table has a column of that name). A configuration
    that the experiment refuses is counted and has none. Memory does not grow with the number of
    configurations; inside :func:`on_cluster` every part is a task.

    Args:
        experiment: an id, or one that its id finds.
        axes: values by parameter, one or many; the last parameter varies fastest.
        out: a folder, or an address that fsspec knows ("s3://bucket/results").
        profile: of the parameters that are not swept.
        threads: parts at a time, of one core each; all cores if left out.
        part: configurations of a part; by default so many that there are about a thousand parts.
        needs: columns that the rows must have, as for a map: the first part tells.
        progress: called with the number of configurations that are done and of all.

    Raises:
        InputError: an unknown parameter, no or equal values, a folder that cannot be written, rows
            without a column that is needed (what is finished is stored).
        Interrupted: after Ctrl-C; what is finished is stored.

    >>> import tempfile
    >>> import ratecheck as rc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sizes = {"t": [1e6, 1e8], "agents": [(1, 10, 100)], "instances": 1, "levels": [(0.3,)]}
    ...     done = rc.sweep("affpcl/rate_n", sizes, folder, threads=1)
    ...     done.configurations, done.rows, done.dataset().count_rows()
    (2, 48, 48)
    """
    reference = experiment if isinstance(experiment, str) else experiment.id
    try:
        known = registry.find_experiment(reference)
    except InputError as error:
        if isinstance(experiment, str):
            raise
        raise InputError(
            f"`experiment` must be one that its id finds, or the path of its file; found {error}"
        ) from None
    start, grid = base(known, profile), checked(known, axes)
    total = size(grid)
    workers = check_integer("threads", cores() if threads is None else threads, low=1)
    if workers > 1:
        refuse_in_worker("sweep")
    count = min(_LARGEST, -(-total // _PARTS)) if part is None else part
    check_integer("part", count, low=1)
    key = json.dumps([_FORMAT, known.id, start.to_dict(), plain(dict(grid)), list(grid), count])
    now = revision(known)
    place = Place.of(out, known.id, f"sweep-{digest(key)}-{now}")
    there = elsewhere.current() is not None
    if place.address.startswith("memory://") and (there or workers > 1):
        raise InputError(
            f"memory of this process must be written by it alone; found {workers} threads"
        )
    report = progress or (lambda done, total: None)
    wanted = list(needs)
    begins = range(0, total, count)
    stored, looked = dict[int, dict[str, Any]](), False
    try:
        with place.alone(lambda: _say_that_it_waits(known.id)):
            _look(place, begins, stored)
            looked = True
            for one in stored.values():
                _check_columns(known.id, one, wanted)
            report(_configurations(stored), total)
            todo = [first for first in begins if first not in stored]
            problems = Counter[str]()
            tasks = _Tasks(grid, todo, count, (reference, profile, place, now, there))
            for position, answer in _answers(tasks, workers):
                if isinstance(answer, str):
                    problems[answer] += 1
                else:
                    stored[todo[position]] = answer
                    _check_columns(known.id, answer, wanted)
                report(_configurations(stored), total)
    except KeyboardInterrupt:
        if looked:  # at what workers have written meanwhile, and not at all files again
            _look(place, begins, stored)
            done = _configurations(stored)
        else:
            names = set(place.names())
            done = sum(min(count, total - one) for one in begins if _name(one) in names)
        raise Interrupted(done, total, "configurations") from None
    return _result(known.id, grid, place, stored, total, problems)


class _Tasks(Sequence[tuple[Any, ...]]):
    """Arguments of :func:`_compute` for each part, made when they are asked for."""

    def __init__(
        self, axes: Axes, begins: Sequence[int], count: int, common: tuple[Any, ...]
    ) -> None:
        self._axes, self._begins, self._count, self._common = axes, begins, count, common
        self._shown = {name: _shown(values) for name, values in axes.items()}
        self._total = size(axes)

    def __len__(self) -> int:
        return len(self._begins)

    def __getitem__(self, at: Any) -> Any:
        first = self._begins[at]
        part = range(first, min(first + self._count, self._total))
        given = [configuration(self._axes, index) for index in part]
        shown = [configuration(self._shown, index) for index in part]
        return (first, given, shown, *self._common)


def _configurations(stored: Mapping[int, Mapping[str, Any]]) -> int:
    return sum(one["count"] for one in stored.values())


def _check_columns(name: str, said: Mapping[str, Any], wanted: Iterable[str]) -> None:
    """Refuse rows of a part that lack a column."""
    for column in wanted if said["columns"] else ():  # without rows there are none
        check_name(f"column of {name}", column, said["columns"])


def _name(first: int) -> str:
    return f"part-{first:08d}.parquet"


def _look(place: Place, begins: Sequence[int], stored: dict[int, dict[str, Any]]) -> None:
    """Add what is said of every further part that is there, by its first configuration."""
    names = set(place.names())
    for first in begins:
        if first not in stored and _name(first) in names:
            said = place.said(_name(first))
            if said is not None:
                stored[first] = said


def _result(
    name: str,
    axes: Axes,
    place: Place,
    stored: Mapping[int, Mapping[str, Any]],
    total: int,
    problems: Counter[str],
) -> Sweep:
    said = [stored[first] for first in sorted(stored)]
    reasons = dict.fromkeys(reason for one in said for reason in one["reasons"])
    return Sweep(
        experiment=name,
        axes=axes,
        place=place,
        files=tuple(_name(first) for first in sorted(stored) if stored[first]["rows"]),
        rows=sum(one["rows"] for one in said),
        bytes=sum(one["bytes"] for one in said),
        seconds=sum(one["seconds"] for one in said),
        refused=sum(one["refused"] for one in said),
        reasons=tuple(reasons)[:_REASONS],
        missing=total - _configurations(stored),
        problems=tuple(f"{reason} ({times} parts)" for reason, times in problems.most_common()),
    )


def _answers(
    tasks: Sequence[tuple[Any, ...]], workers: int
) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The position of each part and what is said of it, or why it was not computed."""
    if workers == 1 and elsewhere.current() is None:
        for position, task in enumerate(tasks):
            yield position, _or_reason(_compute, *task)
        return
    for position, future in call_in_processes(_compute, tasks, workers):
        yield position, _or_reason(future.result)


def _or_reason(call: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any] | str:
    try:
        return call(*arguments)
    except InputError:
        raise  # of the folder, or of the worker: no part would be better off
    except (Exception, SystemExit) as error:  # a mistake in the experiment costs its part alone
        return in_words(error)


def _compute(
    first: int,
    given: Sequence[Mapping[str, Any]],
    shown: Sequence[Mapping[str, Any]],
    reference: str,
    profile: str,
    place: Place,
    wanted: str,
    foreign: bool,
) -> dict[str, Any]:
    """In a worker: compute a part and write its file; returns what is said of it.

    Args:
        first: the number of its first configuration.
        given, shown: the values of each, and the same as columns hold them.
        reference, profile: of the experiment.
        place: of the files.
        wanted: the revision.
        foreign: whether this machine may have other sources.
    """
    experiment = registry.find_experiment(reference)
    if foreign:
        check_revision(experiment, wanted)
        if (stored := place.said(_name(first))) is not None:  # by one that was given up
            return stored
    start, began = base(experiment, profile), time.perf_counter()
    reasons, refused, parts = dict[str, None](), 0, list[dict[str, Column]]()
    for values, own in zip(given, shown, strict=True):
        try:
            tables = _tables(experiment, dataclasses.replace(start, **values))
        except InputError as error:
            refused += 1
            if len(reasons) < _REASONS:
                reasons[str(error)] = None
            continue
        for block, made in tables:
            table = _checked(experiment, block, made)
            named = {
                f"set_{name}" if name in table else name: np.full(table.rows, value)
                for name, value in own.items()
            }
            parts.append({**named, **table})
    joined = joined_tables(parts, f"{experiment.id} in one part of a sweep")
    said = {
        "experiment": experiment.id,
        "revision": wanted,
        "versions": versions(),
        "first": first,
        "count": len(given),
        "rows": joined.num_rows,
        "columns": joined.schema.names,
        "refused": refused,
        "reasons": list(reasons),
        "seconds": round(time.perf_counter() - began, 6),
    }
    place.write(_name(first), joined, said)
    return place.said(_name(first)) or {**said, "bytes": 0}


def _tables(experiment: Experiment[Any], config: Config) -> list[tuple[Block, Columns]]:
    """All blocks of a configuration, and what the experiment computes of each."""
    blocks = experiment.blocks(config)
    return [(block, experiment.compute(config, block, Context(1))) for block in blocks]


def _checked(experiment: Experiment[Any], block: Block, columns: Columns) -> Table:
    """The table of a block; ValueError if it is none: a mistake in the experiment, no refusal."""
    try:
        return checked_columns(experiment.id, block, columns)
    except InputError as error:
        raise ValueError(str(error)) from None


def _shown(values: Sequence[Any]) -> list[Any]:
    """Values as a column holds them, of one type whatever the part; lists and None as text."""
    plain_values = [plain(value) for value in values]
    if all(isinstance(one, bool | int | float) for one in plain_values):
        return list(np.asarray(plain_values).tolist())
    texts = [",".join(map(str, one)) if isinstance(one, list) else str(one) for one in plain_values]
    try:  # lists of one number each
        return [float(one) for one in texts]
    except ValueError:
        return texts


def _numpy(column: Any) -> Column:
    values: Column = column.to_numpy(zero_copy_only=False)
    return values.astype(str) if values.dtype == object else values


def _say_that_it_waits(name: str) -> None:
    line = f"ratecheck: another process sweeps {name}; waiting for it"
    print(line, file=sys.stderr, flush=True)
