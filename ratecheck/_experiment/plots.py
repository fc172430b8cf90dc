"""The one plotting style: a method has one colour, marker and place in the legend everywhere.

Colours are Okabe and Ito's palette, which colour-blind readers can tell apart. Figures are made
without pyplot (no global state, no display) and saved byte for byte the same from the same data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linsys import InputError
from ratecheck._experiment.model import Analysis, Config, Experiment, Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Look:
    """How one method is drawn."""

    colour: str
    marker: str
    line: str = "-"


_BLACK, _ORANGE, _SKY, _GREEN, _YELLOW, _BLUE, _RED, _PINK = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#C9B400", "#0072B2", "#D55E00", "#CC79A7"),
)

#: Known methods in legend order. Yellow is darker than Okabe and Ito's: theirs vanishes on white.
LOOKS: dict[str, Look] = {
    "AffPCL": Look(_RED, "o"),
    "AffPCL (central agent)": Look(_RED, "v", "--"),
    "Independent": Look(_BLUE, "s"),
    "FedAvg": Look(_GREEN, "^"),
    "Fine-tuning": Look(_ORANGE, "D"),
    "pFedMe": Look(_SKY, "P"),
    "Ditto": Look(_PINK, "X"),
    "Clustered": Look(_YELLOW, "*"),
    "theory": Look(_BLACK, "", ":"),
}
_OTHERS = tuple(
    Look(c, m)
    for c, m in zip((_BLUE, _RED, _GREEN, _ORANGE, _SKY, _PINK, _YELLOW), "os^DPX*", strict=True)
)

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Serif",
    "mathtext.fontset": "dejavuserif",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.5,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "svg.hashsalt": "ratecheck",
    "svg.fonttype": "path",
}


@contextmanager
def style() -> Iterator[None]:
    """The style as a context: draw and save inside it; other figures of the process keep theirs."""
    import matplotlib as mpl

    settings: dict[Any, Any] = dict(mpl.rcParamsDefault)
    del settings["backend"]  # setting it would load a graphical toolkit
    settings.update(_STYLE)
    with mpl.rc_context(settings):
        yield


def look(name: str, position: int = 0) -> Look:
    """The look of a method; a name outside the list gets one by its position in its figure."""
    return LOOKS.get(name) or _OTHERS[position % len(_OTHERS)]


def panels(
    series: Sequence[Series],
    *,
    columns: int = 4,
    width: float = 2.6,
    height: float = 2.2,
    share_y: bool = True,
) -> tuple[Figure, dict[str, Axes]]:
    """One titled axes per panel, in order of first appearance; sizes are inches per panel."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(s.panel for s in series))
    if not names:
        raise InputError("`series` must hold at least one curve to draw; found none")
    columns = min(columns, len(names))
    rows = -(-len(names) // columns)
    size = (max(width * columns, 3.4) + 0.4, height * rows + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=share_y).ravel()
    for spare in grid[len(names) :]:
        spare.remove()
    axes = dict(zip(names, grid[: len(names)], strict=True))
    for name, ax in axes.items():
        ax.set_title(name)
    return figure, axes


def curve(ax: Axes, series: Series, *, position: int = 0, markers: int = 8, **line: Any) -> None:
    """One line with its band, in the method's look, with about ``markers`` markers along it."""
    shape = look(series.name, position)
    every = max(1, -(-np.size(series.x) // markers))
    options: dict[str, Any] = {
        "color": shape.colour,
        "marker": shape.marker or None,
        "linestyle": shape.line,
        "markevery": every,
        "label": series.name,
        **line,
    }
    ax.plot(np.asarray(series.x), np.asarray(series.y), **options)
    if series.lo is not None and series.hi is not None:
        x, lo, hi = (np.asarray(v) for v in (series.x, series.lo, series.hi))
        ax.fill_between(x, lo, hi, color=options["color"], alpha=0.18, linewidth=0)


def curves(axes: dict[str, Axes], series: Sequence[Series], **line: Any) -> None:
    """Every series into its panel; a name outside the known methods has one colour throughout."""
    unknown = [name for name in dict.fromkeys(s.name for s in series) if name not in LOOKS]
    for s in series:
        curve(axes[s.panel], s, position=unknown.index(s.name) if s.name in unknown else 0, **line)


def loglog(ax: Axes) -> None:
    """Logarithmic axes without minor tick labels."""
    from matplotlib.ticker import NullFormatter

    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())


def guide(
    ax: Axes, slope: float, x: Sequence[float], y_start: float, label: str | None = None
) -> None:
    """A dotted, labelled guide of this slope on log-log axes, from (x[0], y_start) to x[1]."""
    shape = LOOKS["theory"]
    y_end = y_start * (x[1] / x[0]) ** slope
    ax.plot(
        list(x),
        [y_start, y_end],
        color=shape.colour,
        linestyle=shape.line,
        linewidth=1.0,
        label="_guide",
    )
    text = f"slope {slope:g}" if label is None else label
    middle = (float(np.sqrt(x[0] * x[1])), float(np.sqrt(y_start * y_end)))
    # Below the guide, which itself lies below the curves it is compared with.
    side, align = (-3, "right") if slope < 0 else (3, "left")
    ax.annotate(
        text, middle, xytext=(side, -3), textcoords="offset points", fontsize=8, ha=align, va="top"
    )


def legend(figure: Figure, axes: dict[str, Axes], *, columns: int = 5) -> None:
    """One legend below the panels, each name once: known methods first, in their fixed order.

    It has at most so many ``columns``, and fewer where names are too long for the figure's width.
    """
    handles: dict[str, Any] = {}
    for ax in axes.values():
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    names = [n for n in LOOKS if n in handles] + [n for n in handles if n not in LOOKS]
    for ncols in range(min(columns, len(names)), 0, -1):
        drawn = figure.legend(
            [handles[n] for n in names], names, loc="outside lower center", ncols=ncols
        )
        if ncols == 1 or drawn.get_window_extent().width <= figure.bbox.width:
            break
        drawn.remove()


def figure_of(experiment: Experiment[Any], config: Config, analysis: Analysis) -> Figure:
    """What the experiment draws, or its panels as they are described; inside ``style()``."""
    if experiment.draw is None:
        return draw_panels(analysis.series, experiment.panels)
    return experiment.draw(config, analysis)


def draw_panels(series: Sequence[Series], about: Mapping[str, Panel], **sizes: Any) -> Figure:
    """Every curve in its panel, axes as they are described, one legend below.

    Args:
        series: the curves.
        about: panel to its axes.
        sizes: of :func:`panels`.

    Raises:
        InputError: a description of a panel without a curve.
    """
    figure, axes = panels(series, **{"share_y": False, **sizes})
    if unknown := [name for name in about if name not in axes]:
        raise InputError(f"`panels` must be among {', '.join(axes)}; found {unknown[0]!r}")
    curves(axes, series)
    for name, ax in axes.items():
        panel = about.get(name, Panel())
        if panel.log == "xy":
            loglog(ax)
        elif panel.log:
            ax.set(**{f"{panel.log}scale": "log"})
        ax.set_xlabel(panel.x)
        ax.set_ylabel(panel.y or name)
        if len(axes) == 1 or panel.y == name:
            ax.set_title("")
        if panel.slope is not None:
            _guide_below(ax, panel.slope, [s for s in series if s.panel == name])
    legend(figure, axes)
    return figure


def _guide_below(ax: Axes, slope: float, series: Sequence[Series]) -> None:
    """A guide over the middle half of the horizontal axis, at 2/5 of the lowest curve."""
    log_x = np.log([end for s in series for end in (np.min(s.x), np.max(s.x))])
    low, high = np.exp(np.quantile([log_x.min(), log_x.max()], [0.25, 0.75]))
    span = np.geomspace(low, high, 16)
    law = span**slope
    ratios = [np.exp(np.interp(np.log(span), np.log(s.x), np.log(s.y))) / law for s in series]
    guide(ax, slope, (float(low), float(high)), float(0.4 * np.min(ratios) * law[0]))


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write ``stem``.png (200 dpi) and ``stem``.svg, always the same bytes; inside ``style()``.

    Raises InputError where the folder or a file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    png, svg = (stem.parent / f"{stem.name}.{kind}" for kind in ("png", "svg"))
    # Figure.savefig would lay out and draw twice for each file; one layout serves both.
    figure.set_dpi(200)
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
    figure.set_layout_engine("none")
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        FigureCanvasAgg(figure).print_png(png, metadata={"Software": None})  # type: ignore[no-untyped-call]
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})  # type: ignore[no-untyped-call]
    except OSError as error:
        raise InputError(
            f"figures must be writable; found {error.filename or stem.parent}: {error.strerror}"
        ) from None
    return [png, svg]
