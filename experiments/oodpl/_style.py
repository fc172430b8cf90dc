"""How OOD-PL and its rivals are drawn: one look each, the same in all figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["METHODS", "key", "lines"]

#: Solid lines are the paper's methods, dashed ones controls; dotted ones know the true reward.
METHODS = {
    "OOD-PL": rc.Look("#D55E00", "o"),
    "SFT": rc.Look("#777777", "s"),
    "DPO": rc.Look("#009E73", "^"),
    "PPO (TR)": rc.Look("#56B4E9", "P"),
    "PPO (TR+TE)": rc.Look("#0072B2", "D"),
    "HPL": rc.Look("#CC79A7", "X"),
    "HPL (TR)": rc.Look("#CC79A7", "x", "--"),
    "MLE + (10)": rc.Look("#E69F00", "v", "--"),
    "MLE, fitted beta": rc.Look("#C9B400", "*", "--"),
    "oracle": rc.Look("#000000", "", ":"),
    "oracle, beta/10": rc.Look("#000000", "", "-."),
}


def key(figure: Figure, axes: dict[str, Axes], *, columns: int = 4) -> None:
    """One legend below the panels, in the order of ``METHODS``."""
    handles: dict[str, Any] = {}
    for ax in axes.values():
        artists, labels = ax.get_legend_handles_labels()
        handles.update(zip(labels, artists, strict=True))
    names = [name for name in METHODS if name in handles]
    figure.legend([handles[n] for n in names], names, loc="outside lower center", ncols=columns)


def lines(axes: dict[str, Axes], series: Sequence[rc.Series]) -> None:
    """Draw every method in its panel, with its band."""
    for s in series:
        look, ax = METHODS[s.name], axes[s.panel]
        ax.plot(
            np.asarray(s.x),
            np.asarray(s.y),
            color=look.colour,
            marker=look.marker or None,
            linestyle=look.line,
            markevery=max(1, -(-np.size(s.x) // 6)),
            label=s.name,
        )
        if s.lo is not None and s.hi is not None:
            low, high = np.asarray(s.lo), np.asarray(s.hi)
            ax.fill_between(np.asarray(s.x), low, high, color=look.colour, alpha=0.15, linewidth=0)
