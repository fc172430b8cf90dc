"""A figure with an ordering instead of a rate, computed by processes over blocks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ratecheck as rc

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class PictureConfig(rc.Config):
    points: int = 5


def blocks(config: PictureConfig) -> list[rc.Block]:
    return [{"method": name} for name in ("AffPCL", "Independent", "my own")]


def compute(config: PictureConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    if os.environ.get("TOY_LOUD"):
        print("a library that prints")
    t = list(range(1, config.points + 1))
    return {"t": t, "mse": [len(block["method"]) / k for k in t]}


def analyse(config: PictureConfig, table: rc.Table) -> rc.Analysis:
    series = []
    for name in table.unique("method"):
        part = table.where(method=name)
        series.append(rc.Series(str(name), "all", part["t"], part["mse"]))
    last = {s.name: s.y[-1] for s in series}
    ok = last["AffPCL"] < last["Independent"]
    ratio = last["AffPCL"] / last["Independent"]
    return rc.Analysis(series, [rc.Check("order", "AffPCL < Independent", ratio, None, 1.0, ok)])


def draw(config: PictureConfig, analysis: rc.Analysis) -> Figure:
    figure, axes = rc.panels(analysis.series)
    rc.curves(axes, analysis.series)
    rc.legend(figure, axes)
    return figure


EXPERIMENT = rc.Experiment(
    id="toy/picture",
    title="An ordering",
    source="Figure 0",
    kind="figure",
    profiles={"quick": PictureConfig(), "paper": PictureConfig(points=9)},
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
