"""A map of what a sweep measured over two of its columns: where it is small, where it is large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from linsys.validate import InputError
from ratecheck._experiment.table import Column
from ratecheck._sweep.sweep import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Panels of a map; of more values of a third column, so many are shown.
_PANELS = 4
#: Ticks of an axis whose values grow by a factor: of x, of y.
_TICKS = 4, 6
#: Colours are logarithmic where values differ by more than this factor.
_DECADE = 10.0


def phase_map(
    sweep: Sweep,
    x: str,
    y: str,
    value: str,
    *,
    by: str | None = None,
    levels: Sequence[float] = (),
    against: str | None = None,
    where: Mapping[str, float] | None = None,
    statistic: Literal["median", "mean"] = "median",
) -> Figure:
    """Draw the median of a column over two others, with lines along which it has a value.

    Args:
        sweep: what :func:`ratecheck.sweep` returned.
        x, y: columns whose values make the axes.
        value: the column that colours show, on a logarithmic scale where it is positive and differs
            by more than a factor of 10.
        by: a column with a panel for each of its values, or for four of them.
        levels: values of the median along which lines are drawn.
        against: a column with what a theory predicts, whose lines at these levels are dashed.
        where: values of other columns that the rows must have.
        statistic: the mean in place of the median, such as of a column of 0 and 1.

    Raises:
        InputError: a column that there is not, or an axis of one value.

    Example::

        done = rc.sweep("affpcl/pays", {"n": [2, 8, 32], "seed": [0, 1, 2]})
        rc.phase_map(done, "n", "delta", "ratio", levels=[1.0]).savefig("map.png")
    """
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.figure import Figure

    axes = (x, y) if by is None else (by, x, y)
    (*outer, xs, ys), medians = sweep.cells(value, *axes, where=where, statistic=statistic)
    for name, values in ((x, xs), (y, ys)):
        if len(values) < 2:
            raise InputError(f"`{name}` must have at least two values for a map; found {values}")
    predicted = None
    if against is not None:
        predicted = sweep.cells(against, *axes, where=where, statistic=statistic)[1]
    shown = np.unique(np.linspace(0, len(outer[0]) - 1, _PANELS).round().astype(int)) if by else [0]
    finite = medians[np.isfinite(medians)]
    if not len(finite):
        raise InputError(f"`{value}` must have finite values for a map; found none")
    low, high = float(finite.min()), float(finite.max())
    norm = (LogNorm if high > _DECADE * low > 0 else Normalize)(
        low, high if high > low else low + 1.0
    )
    columns = len(shown)
    figure = Figure(figsize=(2.5 * columns + 1.0, 2.9), layout="constrained")
    grid = figure.subplots(1, columns, squeeze=False, sharey=True)[0]
    for ax, at in zip(grid, shown, strict=True):
        here = (at,) if by else ()
        mesh = ax.pcolormesh(_edges(xs), _edges(ys), medians[here].T, norm=norm, cmap="viridis")
        ax.grid(False)
        ax.set_xlabel(x)
        if by:
            ax.set_title(f"{by} = {outer[0][at]:.4g}")
        for values, axis, ticks in zip((xs, ys), (ax.xaxis, ax.yaxis), _TICKS, strict=True):
            if _grows(values):
                axis.axes.set(**{f"{axis.axis_name}scale": "log"})
                chosen = np.unique(np.linspace(0, len(values) - 1, ticks).round().astype(int))
                axis.set_ticks(values[chosen], _labels(values[chosen]))
                axis.set_ticks([], minor=True)
        _lines(ax, xs, ys, medians[here], levels, "-")
        if predicted is not None:
            _lines(ax, xs, ys, predicted[here], levels, "--")
    grid[0].set_ylabel(y)
    figure.colorbar(mesh, ax=list(grid), label=f"{statistic} of {value}")
    if levels:
        at_levels = ", ".join(f"{level:g}" for level in sorted(levels))
        dashed = f"; dashed: {against} = {at_levels}" if against else ""
        figure.suptitle(f"lines: {value} = {at_levels}{dashed}", fontsize=8)
    return figure


def _lines(
    ax: Axes, xs: Column, ys: Column, values: Column, levels: Sequence[float], style: str
) -> None:
    """Lines at the levels that the values cross."""
    low, high = np.nanmin(values), np.nanmax(values)
    crossed = [level for level in sorted(levels) if low < level < high]
    if crossed:
        lines = ax.contour(xs, ys, values.T, levels=crossed, colors="black", linestyles=style)
        if style == "-":
            ax.clabel(lines, fontsize=7, fmt="%g")


def _labels(values: Column) -> list[str]:
    """Whole numbers as they are, others with two digits or as many as tell them apart."""
    if not np.mod(values, 1).any():
        return [f"{value:g}" for value in values]
    digits = next(n for n in range(2, 18) if len({f"{v:.{n}g}" for v in values}) == len(values))
    return [f"{float(f'{value:.{digits}g}'):g}" for value in values]


def _grows(values: Column) -> bool:
    """Whether values lie on a logarithmic axis rather than on a linear one."""
    if values[0] <= 0 or len(values) < 3:
        return False
    steps, ratios = np.diff(values), np.diff(np.log(values))
    return bool(np.ptp(ratios) / ratios.mean() < np.ptp(steps) / steps.mean())


def _edges(values: Column) -> Any:
    """Edges of cells with these middles."""
    if _grows(values):
        return np.exp(_edges_of(np.log(values)))
    return _edges_of(values.astype(np.float64))


def _edges_of(values: Column) -> Any:
    inner = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - inner[0]], inner, [2 * values[-1] - inner[-1]]])
