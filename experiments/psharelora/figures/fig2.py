"""Figure 2: test accuracy of every labeler by itself.

Problem and assumptions: as for Figure 1, with labelers of whom one has next to nothing of its own
and one the most, see ``_labelers``. LoRA-global weighs all of them alike.

Algorithms: the seven of Figure 1.

Claims (Appendix D.3): P-ShareLoRA (SI), (G) and (WU) beat LoRA-global and LoRA-local for most
labelers; (WU) has the highest accuracy of all methods for most labelers.

What the text leaves open, and the choices here: who gains from a factor of one's own is the labeler
who needs it. The advantage over LoRA-global should be larger for the labeler with the most of its
own than for the one with the least; checked. A count goes from the labelers for whom the claim is
sure (their Student interval is above 0) to those for whom it is possible.

References: P-ShareLoRA, Appendix D.3.

The picture shows means over instances with 90 % bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import ratecheck as rc
from experiments.psharelora._labelers import (
    BEST,
    LEGEND,
    OURS,
    REFERENCES,
    START,
    LabelerConfig,
    compute,
    count,
    per_labeler,
    rate_note,
)
from linsys.preference.sharelora import METHODS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL = "accuracy by labeler"


@dataclass(frozen=True, kw_only=True)
class Fig2Config(LabelerConfig):
    """The set-up."""

    own: tuple[float, ...] = rc.param(
        (0.02, 0.1, 0.25, 0.45, 0.7),
        low=0.0,
        high=1.0,
        increasing=True,
        doc=(
            "what each labeler has of its own, as a share, increasing; as many labelers as shares."
        ),
    )
    tuning: int = 2

    def own_of(self, case: float) -> tuple[float, ...]:
        """The shares of all labelers."""
        return self.own


def analyse(config: Fig2Config, table: rc.Table) -> rc.Analysis:
    """Accuracy of every labeler, and for how many of them the claims are true."""
    accuracies = {name: per_labeler(table, method=name) for name in METHODS}
    labelers, panel = np.arange(len(config.own)), PANEL
    series = [rc.Series(name, panel, labelers, *rc.mean_band(accuracies[name])) for name in METHODS]
    series += [
        rc.Series(name, panel, labelers, per_labeler(table, value, method="SI").mean(axis=0))
        for name, value in ((BEST, "best"), (START, "start"))
    ]
    most = f"most of {len(config.own)} labelers"
    checks = [
        count(f"{ours} above {theirs}", most, accuracies[ours] - accuracies[theirs])
        for ours in OURS
        for theirs in ("LoRA-global", "LoRA-local")
    ]
    others = np.stack([accuracies[name] for name in METHODS if name != "WU"])
    rival = others[
        others.mean(axis=1).argmax(axis=0), :, labelers
    ].T  # for each labeler the best of the other methods
    checks.append(count("WU above the best other method", most, accuracies["WU"] - rival))
    for ours in OURS:
        gain = accuracies[ours] - accuracies["LoRA-global"]
        checks.append(
            rc.mean_above(
                f"{ours} − LoRA-global, most of its own − least",
                "above 0",
                gain[:, -1],
                gain[:, 0],
            )
        )
    notes = [
        "accuracies by labeler: "
        + "; ".join(
            f"{name} {', '.join(f'{v:.3f}' for v in accuracies[name].mean(axis=0))}"
            for name in METHODS
        ),
        rate_note(config, table, "method"),
    ]
    return rc.Analysis(series, checks, notes)


def draw(config: Fig2Config, analysis: rc.Analysis) -> Figure:
    """Accuracy over labelers."""
    figure = rc.draw_panels(
        analysis.series,
        rc.Panel(
            "labeler, and the fraction of its reward that is not shared",
            "test accuracy",
            title="accuracy by labeler",
        ),
        rc.Layout(width=5.2, height=3.9, legend=2, looks=REFERENCES, names=LEGEND),
    )
    ticks = [f"{i}\n{own:g}" for i, own in enumerate(config.own)]
    figure.axes[0].set_xticks(range(len(config.own)), ticks)
    return figure


def blocks(config: Fig2Config) -> list[rc.Block]:
    """The instances."""
    return config.pieces(("left",), (0.0,))


EXPERIMENT = rc.Experiment(
    id="psl/fig2",
    title="Accuracy for every labeler",
    source="Figure 2, Appendix D.3",
    kind="figure",
    profiles={
        "quick": Fig2Config(),
        "paper": Fig2Config(samples=5373, instances=24, tuning=4),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
