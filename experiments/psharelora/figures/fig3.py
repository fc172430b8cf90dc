"""Figure 3: sharing the up-projections against sharing the down-projections.

Problem and assumptions: five labelers whose modules have a common left factor, a common right one,
or neither; in all three cases two labelers agree to the same degree, see ``_labelers``. Modules are
square, so that both methods train the same numbers.

Algorithms: P-ShareLoRA from the standard start with B shared ("SI"), and with A shared ("down").

Claims (Appendix D.3): sharing B is better than sharing A, for all labelers.

What the text leaves open, and the choices here: a reason. With the other factor common the mirror
image of the problem is solved by the mirror image of the method, so that the ordering can only
follow from the structure of the labelers (or from the start, where B = 0 and A is random, which is
not symmetric). Expected, and checked: B where the left factor is common, A where the right one is,
and in between where neither is. Tian et al. and Guo et al., who share A, and the paper, which
shares B, can both be right about their data.

References: P-ShareLoRA, Appendix D.3; Tian et al., Guo et al. (2024).

The picture shows means over instances with 90 % bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np

import ratecheck as rc
from experiments.psharelora._labelers import (
    BEST,
    REFERENCES,
    START,
    Structure,
    compute,
    count,
    per_labeler,
    rate_note,
)
from experiments.psharelora.figures import fig2

STRUCTURES: tuple[Structure, ...] = get_args(Structure)
PANELS = {
    "left": "left factor common",
    "right": "right factor common",
    "neither": "neither",
}
SHARED = {"SI": "B shared (up)", "down": "A shared (down)"}


@dataclass(frozen=True, kw_only=True)
class Fig3Config(fig2.Fig2Config):
    """The set-up of Figure 2, with two methods."""

    methods: ClassVar[tuple[str, ...]] = tuple(SHARED)


def analyse(config: Fig3Config, table: rc.Table) -> rc.Analysis:
    """Both methods on the three structures."""
    series, gains, labelers = list[rc.Series](), {}, np.arange(len(config.own))
    for structure, panel in PANELS.items():
        accuracies = {name: per_labeler(table, structure=structure, method=name) for name in SHARED}
        series += [
            rc.Series(SHARED[name], panel, labelers, *rc.mean_band(values))
            for name, values in accuracies.items()
        ]
        for name, value in ((BEST, "best"), (START, "start")):
            level = per_labeler(table, value, structure=structure, method="SI").mean(axis=0)
            series.append(rc.Series(name, panel, labelers, level))
        gains[structure] = accuracies["SI"] - accuracies["down"]
    up = {structure: gain.mean(axis=1) for structure, gain in gains.items()}
    zero = np.zeros(config.instances)
    most = f"most of {len(config.own)} labelers"
    checks = [
        rc.mean_above("left factor common: up − down", "above 0", up["left"], zero),
        count("left factor common: up above down", most, gains["left"]),
        rc.our_own(
            rc.mean_above("right factor common: down − up", "above 0", -up["right"], zero),
            paper="below 0",
        ),
        rc.our_own(
            count("right factor common: down above up", most, -gains["right"]),
            paper="no labeler",
        ),
        rc.our_own(
            rc.mean_above("up − down, left − neither", "above 0", up["left"], up["neither"])
        ),
        rc.our_own(
            rc.mean_above("up − down, neither − right", "above 0", up["neither"], up["right"])
        ),
    ]
    notes = [
        "up − down: " + ", ".join(f"{s} {gain.mean():+.4f}" for s, gain in up.items()),
        rate_note(config, table, "structure", "method"),
    ]
    return rc.Analysis(series, checks, notes)


def blocks(config: Fig3Config) -> list[rc.Block]:
    """The instances of every structure."""
    return config.pieces(STRUCTURES, (0.0,))


EXPERIMENT = rc.Experiment(
    id="psl/fig3",
    title="Sharing up-projections against sharing down-projections",
    source="Figure 3, Appendix D.3",
    kind="figure",
    profiles={
        "quick": Fig3Config(),
        "paper": Fig3Config(samples=5373, instances=24, tuning=4),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels=rc.Panel("labeler", "test accuracy", ticks="points"),
    layout=rc.Layout(height=2.4, share_y=True, legend=4, looks=REFERENCES),
    parallel="blocks",
)
