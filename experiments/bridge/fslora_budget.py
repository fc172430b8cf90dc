"""FSLoRA against LoRA at equal upload, also with compressed updates: Figures 3 and 7 on texts.

Problem and assumptions: as for ``bridge/fslora``, with one rank k for all devices.

Algorithm: FSLoRA with k / r below 1 and LoRA, which is k = r; each with whole updates and with the
half of an update's entries that is largest. All send the same number of bytes: a ratio of 1/2 has
two rounds for one of LoRA.

Claims (Section 5.3, Appendix C.2): at equal upload sketches end above LoRA, also where updates are
compressed, so that both savings add up.

What the text leaves open, and the choices here: every arm has its own step size, where the paper
has one for all. With plain gradient steps all ratios come about equally far at their best steps,
and the smallest pays most for f^S being above f (``fslora/fig7``); AdamW, whose steps do not grow
with r / k, may be different. A sent entry of a compressed update is a number and four bytes for its
place, so that half of the entries in float32 are as many bytes as all of them: compression then
only loses information; a note says what it saves. Bytes are counted from what is sent; that the
totals of all arms agree is a check.

References: FSLoRA, Section 5.3, Appendix C.2; Kuo et al. (2024).

The picture shows means over domains and seeds with 90 % bands; checks are paired within seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments._intervals import mean_interval
from experiments._model import Analysis, Block, Columns, Context, Experiment, Series
from experiments._plots import curves, legend, panels
from experiments._rates import Interval, below, every, mean_band, within
from experiments._table import Table
from experiments.bridge._federated import (
    PAPER,
    DeviceConfig,
    Values,
    compare,
    gap,
    over_domains,
    said,
    threads,
)
from linsys import InputError
from linsys._validate import number, whole
from linsys.sketching import FSLoRA
from linsys.sketching._federated import Federated

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class BudgetConfig(DeviceConfig):
    """The set-up.

    Attributes:
        levels: k / r, increasing, each one over a whole number; 1 is added.
        kept: share of a compressed update's entries that is sent.
        budget: upload of a device in whole updates of all components.
        points: uploads at which a curve is measured.
    """

    seeds: int = 5
    levels: tuple[float, ...] = (0.5,)
    kept: float = 0.5
    budget: int = 24
    points: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.levels or list(self.levels) != sorted(set(self.levels)):
            raise InputError(f"`levels` must be increasing; found {self.levels}")
        for level in self.levels:
            self.rank_of(level)
            if level == 1.0 or abs(1 / level - round(1 / level)) > 1e-9:
                raise InputError(f"`levels` must be 1/2, 1/3, ..; found {level:g}")
        number("kept", self.kept, low=0.0, high=1.0, low_open=True)
        whole("points", self.points, low=1)
        whole("budget", self.budget, low=self.points)

    @property
    def uploads(self) -> list[int]:
        """Measured uploads in whole updates: rounds of LoRA."""
        return [round(self.budget * i / self.points) for i in range(self.points + 1)]

    @property
    def ratios_all(self) -> list[float]:
        """k / r of all arms, 1 last."""
        return [*self.levels, 1.0]


PANELS = {0: "whole updates", 1: "compressed updates"}


def blocks(config: BudgetConfig) -> list[Block]:
    """One ratio, with or without compression, at a time."""
    return [{"level": level, "top": top} for top in PANELS for level in config.ratios_all]


def compute(config: BudgetConfig, block: Block, context: Context) -> Columns:
    """Choose a step size and train on all seeds; t counts uploads of whole updates."""
    level, kept = block["level"], config.kept if block["top"] else None
    ranks = [config.rank_of(level)] * config.devices

    def method(gamma: float, seed: int) -> Federated:
        return FSLoRA(
            gamma=gamma,
            H=config.local_steps,
            ranks=ranks,
            optimizer="adamw",
            compression=kept,
            seed=seed,
        )

    rounds = [t * round(1 / level) for t in config.uploads]
    with threads(context):
        return compare(config, method, config.rank, rounds, config.uploads)


def analyse(config: BudgetConfig, table: Table) -> Analysis:
    """Accuracy against megabytes, and the claims."""
    series, found = [], {}
    for top, title in PANELS.items():
        for level in config.ratios_all:
            part = table.where(level=level, top=top)
            values = over_domains(part)
            found[level, top] = values[:, -1]
            series.append(Series(_name(level), title, _sent(part), *mean_band(values)))
    spent = {arm: _sent(table.where(level=arm[0], top=arm[1]))[-1] for arm in found}
    ratios = [spent[level, top] / spent[1.0, top] for level, top in found]
    checks = [
        every(
            within(
                "upload of all arms over that of LoRA, smallest to largest",
                1.0,
                Interval(float(np.mean(ratios)), min(ratios), max(ratios)),
                0.99,
                1.01,
            )
        )
    ]
    for top, title in PANELS.items():
        checks += [
            gap(
                f"{title}, equal upload: k / r = {level:g} − LoRA",
                "above 0",
                found[level, top],
                found[1.0, top],
            )
            for level in config.levels
        ]
    low = config.levels[0]
    checks.append(
        below(
            f"equal rounds, k / r = {low:g}: compressed − whole updates",
            "below 0: the rest of an update is lost",
            mean_interval(found[low, 1] - found[low, 0]),
            limit=0.0,
        )
    )
    return Analysis(series, checks, _notes(config, table, found, spent))


def _notes(
    config: BudgetConfig,
    table: Table,
    found: dict[tuple[float, int], Values],
    spent: dict[tuple[float, int], float],
) -> list[str]:
    ends = ", ".join(
        f"{_name(level)}, {PANELS[top]}: {values.mean():.3f}"
        for (level, top), values in found.items()
    )
    share = spent[1.0, 1] / spent[1.0, 0]
    return [
        f"final accuracies: {ends}",
        f"an update with the share {config.kept:g} of its entries has {share:.3f} of the bytes of "
        "a whole one: four bytes of each sent entry are its place",
        *said(config, table, "level", "top"),
    ]


def _sent(part: Table) -> Values:
    """Megabytes that a device has sent at every measured time; the same for all seeds."""
    sent = part.grid("up", "draw", "t", "domain")[0, :, 0]
    return np.asarray(sent) / 1e6


def draw(config: BudgetConfig, analysis: Analysis) -> Figure:
    """Whole and compressed updates side by side."""
    figure, axes = panels(analysis.series, columns=2, width=3.2)
    curves(axes, analysis.series)
    for ax in axes.values():
        ax.set_xlabel("upload of a device (MB)")
    next(iter(axes.values())).set_ylabel("test accuracy")
    legend(figure, axes)
    return figure


def _name(level: float) -> str:
    return "LoRA" if level == 1.0 else f"FSLoRA, k / r = {level:g}"


EXPERIMENT = Experiment(
    id="bridge/fslora_budget",
    title="FSLoRA and LoRA at equal upload, with and without compression, on a language model",
    source="Figures 3 and 7, Section 5.3, Appendix C.2",
    kind="figure",
    config_type=BudgetConfig,
    profiles={
        "quick": BudgetConfig(),
        "paper": BudgetConfig(**PAPER, levels=(0.125, 0.25, 0.5), budget=100, points=10),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
