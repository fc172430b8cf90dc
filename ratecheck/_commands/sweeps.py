"""What ``ratecheck sweep`` does: a grid of configurations, its summary on a screen, its map."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linsys.validate import InputError
from ratecheck._discover import registry
from ratecheck._report.terminal import console, dump, progress_bar, say, tabulate
from ratecheck._run.plan import duration
from ratecheck._store.files import check_writable
from ratecheck._sweep.axes import axes_of, size
from ratecheck._sweep.sweep import Sweep, sweep

#: Rows of the summary.
_COLUMNS = 20


@dataclass(frozen=True)
class Map:
    """The map that is asked for.

    Attributes:
        names: columns of its axes and of its colours.
        options: of :func:`ratecheck.phase_map`.
    """

    names: tuple[str, str, str]
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        columns: str,
        by: str | None,
        levels: Sequence[float],
        against: str | None,
        where: Sequence[str],
        mean: bool,
    ) -> Map:
        """The map that options of the command describe."""
        names = [name.strip() for name in columns.split(",")]
        if len(names) != 3:
            raise InputError(f"`--map` must be three columns, as x,y,value; found {columns!r}")
        rows = {}
        for text in where:
            name, _, value = text.partition("=")
            try:
                rows[name] = float(value)
            except ValueError:
                raise InputError(f"`--where` must look like key=number; found {text!r}") from None
        if not all(map(math.isfinite, levels)):
            raise InputError(f"`--level` must be finite numbers; found {list(levels)}")
        if len({*names[:2], by}) < 3:
            raise InputError(
                f"`--map` and `--by` must have different axes; found {columns!r} by {by}"
            )
        options = {
            "by": by,
            "levels": levels,
            "against": against,
            "where": rows,
            "statistic": "mean" if mean else "median",
        }
        return cls((names[0], names[1], names[2]), options)

    def needs(self) -> list[str]:
        """The columns that it needs."""
        others = (self.options["by"], self.options["against"], *self.options["where"])
        return [*self.names, *filter(None, others)]

    def draw(self, done: Sweep) -> Path:
        """Draw it in the folder of a sweep, as PNG and PDF; returns the first file."""
        from ratecheck._experiment.plots import save, style
        from ratecheck._sweep.phase import phase_map

        if not done.files:
            raise InputError("`--map` must have rows to draw; found none")
        folder = Path("." if "://" in done.place.address else done.place.address)
        by, where = self.options["by"], self.options["where"]
        rows = [f"{name}={value:.15g}" for name, value in where.items()]
        means = ["mean"] if self.options["statistic"] == "mean" else []
        with style():
            figure = phase_map(done, *self.names, **self.options)
            return save(
                figure, folder / "-".join(["map", *self.names, *filter(None, [by]), *rows, *means])
            )[0]


def perform(
    reference: str,
    settings: Sequence[str],
    out: str,
    profile: str,
    threads: int | None,
    part: int | None,
    drawn: Map | None = None,
) -> Sweep:
    """Compute what is missing of a sweep, with a bar on stderr.

    A map that it cannot give is refused after its first part.
    """
    axes = axes_of(registry.find_experiment(reference), settings)
    if "://" not in out:
        check_writable("output folder", Path(out))
    with redirect_stdout(sys.stderr), progress_bar(f"{size(axes):,} configurations") as progress:
        return sweep(
            reference,
            axes,
            out,
            profile=profile,
            threads=threads,
            part=part,
            needs=drawn.needs() if drawn else (),
            progress=progress,
        )


def show(done: Sweep, as_json: bool) -> None:
    """Print what a sweep left: sums, columns, and what went wrong."""
    if as_json:
        print(dump(done.to_dict()))
        return
    sizes = " x ".join(f"{len(values)} {name}" for name, values in done.axes.items())
    computed = done.configurations - done.missing - done.refused
    lines = [
        f"{done.experiment}: {computed:,} of {done.configurations:,} configurations ({sizes})",
        f"{done.rows:,} rows, {done.bytes / 1e6:.1f} MB in {len(done.files):,} files, "
        f"{duration(done.seconds)} of computing",
    ]
    if done.refused:
        lines.append(f"{done.refused:,} refused by the experiment: {'; '.join(done.reasons)}")
    if done.missing:
        lines.append(
            f"{done.missing:,} not computed: {'; '.join(done.problems)}; the same command resumes"
        )
    say(console(), lines)
    summary = done.summary()
    rows = [[name, *(f"{value:.6g}" for value in values)] for name, values in summary.items()]
    if rows:
        console().print(tabulate(["column", "least", "mean", "largest"], rows[:_COLUMNS]))
    if len(rows) > _COLUMNS:
        say(console(), [f"and {len(rows) - _COLUMNS} columns more"])
    say(console(), [f"Parquet: {done.place.address}"])
