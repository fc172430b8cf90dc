"""A rate whose exponents are known; the environment tells it to log, to hang or to fail."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

import ratecheck as rc
from linsys import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class DecayConfig(rc.Config):
    rates: tuple[float, ...] = (0.5, 1.0, 1.5)
    replicates: int = 30
    claimed: float = 0.0
    noise: Literal["lognormal", "gamma"] = "lognormal"
    data: Path | None = None
    loud: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.replicates < 2:
            raise InputError(f"`replicates` must be at least 2; found {self.replicates}")


def blocks(config: DecayConfig) -> list[rc.Block]:
    return [{"rate": rate} for rate in config.rates]


def compute(config: DecayConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rate = float(block["rate"])
    if log := os.environ.get("TOY_LOG"):
        with Path(log).open("a") as stream:
            stream.write(f"{rate}\n")
    if config.loud:
        print("a library that prints")
    if os.environ.get("TOY_HANG") == str(rate):
        time.sleep(60)
    if gate := os.environ.get("TOY_GATE"):
        for _ in range(200):  # three such blocks hold open for the minute that a start may take
            if Path(gate).exists():
                break
            time.sleep(0.1)
    if os.environ.get("TOY_FAIL") == str(rate):
        raise RuntimeError("the toy broke")
    t = np.geomspace(1, 100, 9)
    rng = np.random.default_rng(config.derive("noise", rate))
    noise = rng.lognormal(sigma=0.1, size=(config.replicates, t.size))
    axes = {"replicate": np.arange(config.replicates), "t": t}
    return rc.long_table(axes, mse=noise * t**-rate, method=np.array("AffPCL"))


def analyse(config: DecayConfig, table: rc.Table) -> rc.Analysis:
    series, checks = [], []
    for rate in config.rates:
        part = table.where(rate=rate, method="AffPCL")
        t, mse = part.unique("t"), part.grid("mse", "replicate", "t")
        series.append(rc.Series("AffPCL", f"rate {rate:g}", t, *rc.mean_band(mse)))
        slope = rc.slope_interval(t, mse, rng=config.seed)
        stated = -rate - config.claimed
        checks.append(rc.rate_check(f"slope at [{rate:g}]", stated, slope, tolerance=0.05))
    return rc.Analysis(series, checks, ["a note in [brackets]"])


def draw(config: DecayConfig, analysis: rc.Analysis) -> Figure:
    figure, axes = rc.panels(analysis.series)
    rc.curves(axes, analysis.series)
    for ax, rate in zip(axes.values(), config.rates, strict=True):
        rc.loglog(ax)
        rc.guide(ax, -rate, (3, 30), 1.0)
    rc.legend(figure, axes)
    return figure


EXPERIMENT = rc.Experiment(
    id="toy/decay",
    title="Power-law decay",
    source="Theorem 0",
    kind="rate",
    variable="t",
    profiles={"quick": DecayConfig(), "paper": DecayConfig(replicates=60)},
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
)
