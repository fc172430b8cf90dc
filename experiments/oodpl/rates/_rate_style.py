"""How the rates of OOD-PL are drawn: one look for each curve of a figure, no legend line twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import ratecheck as rc
from experiments.oodpl.rates._rate_systems import LAW

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BLUES", "GREENS", "GREY", "REDS", "draw_curves"]

#: Two families of colours: each belongs to one kind of loop or step.
BLUES = ("#0072B2", "#56B4E9", "#003A5D")
REDS = ("#D55E00", "#E69F00", "#8A3B00", "#C9B400")
GREENS = ("#009E73", "#66C2A5", "#00533C")
GREY = "#777777"


def draw_curves(
    axes: dict[str, Axes], series: Sequence[rc.Series], styles: Mapping[str, rc.Look]
) -> None:
    """Draw every series in its panel, laws above what they are compared with."""
    for one in series:
        shape, ax = rc.LOOKS["theory"] if one.name == LAW else styles[one.name], axes[one.panel]
        ax.plot(
            np.asarray(one.x),
            np.asarray(one.y),
            color=shape.colour,
            marker=shape.marker or None,
            linestyle=shape.line,
            label=one.name,
            zorder=3.0 if one.name == LAW else 2.0,
        )
        if one.lo is not None and one.hi is not None:
            x, low, high = (np.asarray(v) for v in (one.x, one.lo, one.hi))
            ax.fill_between(x, low, high, color=shape.colour, alpha=0.18, linewidth=0)
