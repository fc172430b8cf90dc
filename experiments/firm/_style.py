"""How the rates of FIRM are drawn: derived laws, guides of exponents, legends in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["LAW", "Styles", "draw_curves", "in_columns", "slope_guide", "stated", "styles_of"]

#: The name of a series that is a closed form derived here.
LAW = "derived"
#: Options of ``curve`` by the name of the series.
Styles = Mapping[str, Mapping[str, Any]]
_LAW_STYLE = {"color": "#000000", "marker": "", "linestyle": ":", "linewidth": 1.0}


def styles_of(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A colour and a marker for each name, by its place."""
    return {name: {"position": k} for k, name in enumerate(names)}


def draw_curves(axes: Mapping[str, Axes], series: Sequence[rc.Series], styles: Styles) -> None:
    """Draw every series in its panel and style, and derived series over the measured ones."""
    for one in sorted(series, key=lambda s: s.name == LAW):
        rc.curve(axes[one.panel], one, **(_LAW_STYLE if one.name == LAW else styles[one.name]))


def signed(exponent: float) -> str:
    """The number with a true minus sign.

    >>> signed(-0.5)
    '−0.5'
    """
    return f"{exponent:g}".replace("-", "−")


def slope_guide(ax: Axes, slope: float, x: tuple[float, float], y_start: float) -> None:
    """A guide below the curves."""
    rc.guide(ax, slope, x, y_start, f"slope {signed(slope)}")


def stated(
    ax: Axes, slope: float, x: tuple[float, float], y_start: float, *, below: bool = False
) -> None:
    """A guide of an exponent of the paper, with its text above it, or below."""
    text = f"stated: {signed(slope)}"
    if below:
        rc.guide(ax, slope, x, y_start, text)
        return
    rc.guide(ax, slope, x, y_start, "")
    middle = (np.sqrt(x[0] * x[1]), y_start * (x[1] / x[0]) ** (0.5 * slope))
    side, align = (3, "left") if slope < 0 else (-3, "right")
    ax.annotate(text, middle, (side, 1), textcoords="offset points", fontsize=8, ha=align)


def in_columns(figure: Figure, axes: Mapping[str, Axes], columns: Sequence[Sequence[str]]) -> None:
    """One legend below the panels, with these names in each of its columns."""
    from matplotlib.lines import Line2D

    handles: dict[str, Any] = {}
    for ax in axes.values():
        handles.update(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    blank = Line2D([], [], linestyle="none")
    rows = max(len(names) for names in columns)
    places = [name for names in columns for name in (*names, *[""] * (rows - len(names)))]
    figure.legend(
        [handles.get(name, blank) for name in places],
        places,
        loc="outside lower center",
        ncols=len(columns),
    )
