"""The one plotting style: a method has one colour, marker and place in the legend everywhere.

Colours are Okabe and Ito's palette, which colour-blind readers can tell apart. Figures are made
without pyplot (no global state, no display) and saved byte for byte the same from the same data.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linsys.validate import InputError
from ratecheck._experiment.model import Analysis, Config, Experiment, Panels, Series
from ratecheck._experiment.panels import Guide, Layout, Look, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_BLACK, _ORANGE, _SKY, _GREEN, _YELLOW, _BLUE, _RED, _PINK = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#C9B400", "#0072B2", "#D55E00", "#CC79A7"),
)
#: Of lines that curves are compared with and that are no curve.
_GREY = "#777777"

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
#: For the distance of a guide, curves count as at least this high: half a decade.
_LEAST_HEIGHT = 0.5 * np.log(10.0)


@contextmanager
def style() -> Iterator[None]:
    """The style as a context: draw and save inside it; other figures of the process keep theirs.

    >>> import ratecheck as rc
    >>> line = rc.Series("mine", "error", [1.0, 10.0], [1.0, 0.1])
    >>> with rc.style():
    ...     figure, axes = rc.panels([line])
    ...     rc.curve(axes["error"], line)
    ...     rc.loglog(axes["error"])
    ...     rc.guide(axes["error"], -1.0, (1.0, 10.0), 0.5)
    ...     rc.legend(figure, axes)
    """
    import matplotlib as mpl

    settings: dict[Any, Any] = dict(mpl.rcParamsDefault)
    del settings["backend"]  # setting it would load a graphical toolkit
    settings.update(_STYLE)
    with mpl.rc_context(settings):
        yield


@contextmanager
def collecting_later() -> Iterator[None]:
    """A context without garbage collection; what became garbage in it is collected at its end."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
        gc.collect(0)


def look(name: str, position: int = 0) -> Look:
    """The look of a method; a name outside the list gets one by its position in its figure.

    >>> import ratecheck as rc
    >>> rc.look("AffPCL") == rc.LOOKS["AffPCL"], rc.look("mine", 0) != rc.look("mine", 1)
    (True, True)
    """
    return LOOKS.get(name) or _OTHERS[position % len(_OTHERS)]


def panels(
    series: Sequence[Series],
    *,
    columns: int = 4,
    width: float = 2.6,
    height: float = 2.2,
    share_y: bool = True,
) -> tuple[Figure, dict[str, Axes]]:
    """One titled axes per panel, in order of first appearance; sizes are inches per panel.

    Raises:
        InputError: no curve.

    >>> import ratecheck as rc
    >>> figure, axes = rc.panels([rc.Series("mine", "error", [1.0, 10.0], [1.0, 0.1])])
    >>> list(axes)
    ['error']
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(s.panel for s in series))
    if not names:
        raise InputError("`series` must hold at least one curve to draw; found none")
    columns = min(columns, len(names))
    rows = -(-len(names) // columns)
    size = (max(width * columns, 3.4) + 0.4, height * rows + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    # a canvas that keeps the sizes of texts that are asked for while a figure is made
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=share_y).ravel()
    for spare in grid[len(names) :]:
        spare.remove()
    axes = dict(zip(names, grid[: len(names)], strict=True))
    for name, ax in axes.items():
        ax.set_title(name)
    return figure, axes


def curve(ax: Axes, series: Series, *, position: int = 0, markers: int = 8, **line: Any) -> None:
    """One line with its band, in the method's look, with about ``markers`` markers along it.

    >>> import ratecheck as rc
    >>> line = rc.Series("mine", "error", [1.0, 10.0], [1.0, 0.1])
    >>> figure, axes = rc.panels([line])
    >>> rc.curve(axes["error"], line, linewidth=2.0)
    >>> axes["error"].lines[0].get_linewidth()
    2.0
    """
    draw_curve(ax, series, look(series.name, position), markers, **line)


def draw_curve(ax: Axes, series: Series, shape: Look, markers: int, **line: Any) -> None:
    """One line with its band, in this look."""
    options: dict[str, Any] = {
        "color": shape.colour,
        "marker": shape.marker or None,
        "linestyle": shape.line,
        "linewidth": shape.width,
        "markersize": shape.size,
        "markevery": max(1, -(-np.size(series.x) // markers)),
        "label": series.name,
        **({"markerfacecolor": "none", "markeredgewidth": 0.8} if shape.hollow else {}),
        **line,
    }
    ax.plot(np.asarray(series.x), np.asarray(series.y), **options)
    if series.lo is not None and series.hi is not None:
        x, lo, hi = (np.asarray(v) for v in (series.x, series.lo, series.hi))
        if x.size == 1:  # a band without width would not be seen
            ax.vlines(x, lo, hi, color=options["color"], linewidth=1.0)
        ax.fill_between(x, lo, hi, color=options["color"], alpha=0.18, linewidth=0)


def curves(axes: dict[str, Axes], series: Sequence[Series], **line: Any) -> None:
    """Every series into its panel; a name outside the known methods has one colour throughout.

    >>> import ratecheck as rc
    >>> lines = [rc.Series(name, "error", [1.0, 10.0], [1.0, 0.1]) for name in ("ours", "theirs")]
    >>> figure, axes = rc.panels(lines)
    >>> rc.curves(axes, lines)
    >>> len(axes["error"].lines)
    2
    """
    unknown = [name for name in dict.fromkeys(s.name for s in series) if name not in LOOKS]
    for s in series:
        curve(axes[s.panel], s, position=unknown.index(s.name) if s.name in unknown else 0, **line)


def loglog(ax: Axes) -> None:
    """Logarithmic axes, with labels at powers of ten, and between them where fewer than two show.

    >>> import ratecheck as rc
    >>> figure, axes = rc.panels([rc.Series("mine", "error", [1.0, 10.0], [1.0, 0.1])])
    >>> rc.loglog(axes["error"])
    >>> axes["error"].get_xscale(), axes["error"].get_yscale()
    ('log', 'log')
    """
    _log_scale(ax, "xy")


def _log_scale(ax: Axes, which: str) -> None:
    """Make these axes logarithmic: "x", "y", "xy" or none."""
    from ratecheck._experiment.ticks import LogTicks

    for name in which:
        ax.set(**{f"{name}scale": "log"})
        axis = ax.xaxis if name == "x" else ax.yaxis
        axis.set_major_formatter(LogTicks())
        axis.set_minor_formatter(LogTicks())


def guide(
    ax: Axes,
    slope: float,
    x: Sequence[float],
    y_start: float,
    label: str = "slope {}",
    *,
    above: bool = False,
    line: str = "-",
) -> None:
    """A thin grey line of this slope on log-log axes, from (x[0], y_start) to x[1].

    Its ``label``, in which "{}" becomes the exponent, is below it, or ``above``: on the other side
    than the curves that it is compared with. ``line`` is matplotlib's name of its style. Dotted
    black ones are laws, which say how large a number is, not only how it grows.

    >>> import ratecheck as rc
    >>> figure, axes = rc.panels([rc.Series("mine", "error", [1.0, 10.0], [1.0, 0.1])])
    >>> rc.guide(axes["error"], -1.0, (1.0, 10.0), 0.5)
    >>> axes["error"].lines[0].get_ydata()
    array([0.5 , 0.05])
    """
    y_end = y_start * (x[1] / x[0]) ** slope
    ax.plot(list(x), [y_start, y_end], color=_GREY, linestyle=line, linewidth=1.0, label="_guide")
    text = label.replace("{}", f"{slope:g}".replace("-", "−"))
    middle = (float(np.sqrt(x[0] * x[1])), float(np.sqrt(y_start * y_end)))
    left = (slope < 0) != above
    ax.annotate(
        text,
        middle,
        xytext=(-3 if left else 3, 1 if above else -3),
        textcoords="offset points",
        fontsize=8,
        ha="right" if left else "left",
        va="bottom" if above else "top",
    )


def legend(
    figure: Figure,
    axes: Mapping[str, Axes],
    *,
    columns: int | Sequence[Sequence[str]] = 5,
    order: Iterable[str] = (),
) -> None:
    """One legend below the panels, each name once: known methods first, in their fixed order.

    It has at most so many ``columns``, and fewer where names are too long for the figure's width;
    or these names in each of its columns, without those that have no curve. Names in ``order`` come
    before others.

    >>> import ratecheck as rc
    >>> lines = [rc.Series(name, "error", [1.0, 10.0], [1.0, 0.1]) for name in ("ours", "theirs")]
    >>> figure, axes = rc.panels(lines)
    >>> rc.curves(axes, lines)
    >>> rc.legend(figure, axes, order=["theirs"])
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['theirs', 'ours']
    """
    from matplotlib.lines import Line2D

    handles: dict[str, Any] = {}
    for ax in axes.values():
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    if not isinstance(columns, int):
        present = [[name for name in names if name in handles] for names in columns]
        present = [names for names in present if names]
        rows = max(map(len, present), default=0)
        places = [name for names in present for name in (*names, *[""] * (rows - len(names)))]
        blank = Line2D([], [], linestyle="none")
        shown = [handles.get(name, blank) for name in places]
        figure.legend(shown, places, loc="outside lower center", ncols=max(1, len(present)))
        return
    names = [name for name in dict.fromkeys((*LOOKS, *order, *handles)) if name in handles]
    for ncols in range(min(columns, len(names)), 0, -1):
        drawn = figure.legend(
            [handles[n] for n in names], names, loc="outside lower center", ncols=ncols
        )
        if ncols == 1 or drawn.get_window_extent().width <= figure.bbox.width:
            break
        drawn.remove()


def figure_of(experiment: Experiment[Any], config: Config, analysis: Analysis) -> Figure:
    """What the experiment draws, or its panels as they are described; inside ``style()``."""
    if experiment.draw is not None:
        return experiment.draw(config, analysis)
    about, layout = experiment.panels, experiment.layout
    return draw_panels(
        analysis.series,
        about(config) if callable(about) else about,
        layout(config) if callable(layout) else layout,
    )


def draw_panels(series: Sequence[Series], about: Panels, layout: Layout | None = None) -> Figure:
    """Every curve in its panel, axes as they are described, one legend below.

    Curves without markers are drawn over others: laws over what they are compared with.

    Args:
        series: the curves.
        about: what the axes of all panels show, or those of each by its name.
        layout: sizes, looks and legend; None: as :class:`ratecheck.Layout` has them.

    Raises:
        InputError: a description of a panel without a curve.

    >>> import ratecheck as rc
    >>> line = rc.Series("mine", "error", [1.0, 10.0], [1.0, 0.1])
    >>> with rc.style():
    ...     figure = rc.draw_panels([line], rc.Panel(x="rounds $t$", y="error", log="xy"))
    >>> len(figure.axes)
    1
    """
    layout = layout or Layout()
    figure, axes = panels(
        series,
        columns=layout.columns,
        width=layout.width,
        height=layout.height,
        share_y=layout.share_y,
    )
    given = dict.fromkeys(axes, about) if isinstance(about, Panel) else about
    if unknown := [name for name in given if name not in axes]:
        raise InputError(f"`panels` must be among {', '.join(axes)}; found {unknown[0]!r}")
    described = [given.get(name, Panel()) for name in axes]
    others = [n for n in dict.fromkeys(s.name for s in series) if n not in {*LOOKS, *layout.looks}]
    shapes = {name: look(name, place) for place, name in enumerate(others)}
    shapes.update({**LOOKS, **layout.looks})
    called = layout.names
    for one in sorted(series, key=lambda s: not shapes[s.name].marker):
        label = called.get(one.name, one.name)
        draw_curve(axes[one.panel], one, shapes[one.name], layout.markers, label=label)
    columns, alone = min(layout.columns, len(axes)), len(axes) == 1
    for place, (name, ax) in enumerate(axes.items()):
        panel = described[place]
        _draw_axes(ax, panel, [s for s in series if s.panel == name])
        title = panel.title if panel.title is not None or alone else name
        # a title makes room for a power of ten above the y-axis, which logarithmic ones never have:
        # to see that, all their ticks would be laid out twice as often
        ax.set_title(title or "", y=1.0 if "y" in panel.log else None)
        if panel.x not in {below.x for below in described[place + columns :][:1]}:
            ax.set_xlabel(panel.x)
        if not (layout.share_y and place % columns):
            ax.set_ylabel(panel.y or (name if alone else ""))
    order = [called.get(name, name) for name in (*others, *layout.looks)]
    legend(figure, axes, columns=layout.legend, order=order)
    return figure


def _draw_axes(ax: Axes, panel: Panel, series: Sequence[Series]) -> None:
    """Scales, ticks, ends and guides of one panel with these curves, but no labels."""
    from matplotlib.ticker import NullLocator

    _log_scale(ax, panel.log)
    for line in ax.get_lines():  # a logarithmic axis would draw zero at its end
        x, y = (np.asarray(part, dtype=float) for part in line.get_data())
        shown = ((x > 0) | ("x" not in panel.log)) & ((y > 0) | ("y" not in panel.log))
        line.set_data(x, np.where(shown, y, np.nan))
    if panel.ticks is not None:
        points = np.unique(np.concatenate([np.asarray(s.x) for s in series]))
        ticks = points if isinstance(panel.ticks, str) else np.asarray(panel.ticks)
        names = [f"{x:.0f}" if x == round(x) else f"{x:.3g}" for x in ticks]
        ax.set_xticks(ticks, [name.replace("-", "−") for name in names])
        ax.xaxis.set_minor_locator(NullLocator())
    if panel.level is not None:
        ax.axhline(panel.level, color=_GREY, linewidth=0.8, zorder=1.5)
    for one in panel.guides:
        _place(ax, one, series)
    if (panel.low, panel.high) != (None, None):
        ax.set_ylim(panel.low, panel.high)


def _place(ax: Axes, one: Guide, series: Sequence[Series]) -> None:
    """A guide at its distance from the nearest of these curves, or from the one that it names."""
    logs = []
    for s in series:
        x, y = np.asarray(s.x), np.asarray(s.y)
        shown = (x > 0) & (y > 0)
        if shown.any():
            logs.append((s.name, np.log(x[shown]), np.log(y[shown])))
    near = [(x, y) for name, x, y in logs if one.beside in ("", name)]
    if not near:
        given = repr(one.beside) if one.beside else "no positive values"
        raise InputError(f"a guide must have a curve of its panel beside it; found {given}")
    height = max(_LEAST_HEIGHT, float(np.ptp(np.concatenate([y for *_, y in logs]))))
    wide = np.concatenate([x for x, _ in near])
    start, end = np.quantile([wide.min(), wide.max()], one.span)
    near = [(x, y) for x, y in near if x.min() < end and x.max() > start] or near
    span = np.linspace(start, end, 16)
    gaps = [np.interp(span, x, y) - one.slope * span for x, y in near]
    distance = one.distance * height
    gap = np.max(gaps) + distance if one.above else np.min(gaps) - distance
    low, high, y_start = np.exp([start, end, gap + one.slope * start]).tolist()
    guide(ax, one.slope, (low, high), y_start, one.label, above=one.above, line=one.line)


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write ``stem``.png (200 dpi) and ``stem``.svg, always the same bytes; inside ``style()``.

    Raises InputError where the folder or a file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    png, svg = (stem.parent / f"{stem.name}.{kind}" for kind in ("png", "svg"))
    # Figure.savefig would lay out and draw twice for each file; one layout serves both.
    figure.set_dpi(200)
    canvas: Any = FigureCanvasAgg(figure)
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
    figure.set_layout_engine("none")
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        canvas.print_png(png, metadata={"Software": None})
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})  # type: ignore[no-untyped-call]
    except OSError as error:
        raise InputError(
            f"figures must be writable; found {error.filename or stem.parent}: {error.strerror}"
        ) from None
    return [png, svg]
