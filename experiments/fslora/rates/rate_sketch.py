"""Where FSLoRA ends against the sketch ratio k/r.

Problem, guarantee and law: :mod:`experiments.fslora.rates._rates_one_step`. At a given rank the
floor has the exponent 2 in r/k - 1 with sketches, and between 0 and 2 in r/k with batches, as 1 +
(r/k - 1)^2/(r - 1): (6) pays a power of r/k too many.

References: FSLoRA, Theorem 4.4, equation (6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.fslora.rates._rates_one_step import (
    BATCHES,
    SKETCHES,
    OneStepConfig,
    closed_form,
    compare_with_law,
    compute,
    term,
)
from linsys.validate import Array, InputError, check_integer

PANELS = {SKETCHES: "(a) against k/r", BATCHES: "(b) against k/r"}
TERM = "its term in (6), scaled"


@dataclass(frozen=True, kw_only=True)
class RateSketchConfig(OneStepConfig):
    """Modules of one rank and sketches of several."""

    r: int = rc.param(8, doc="rank of the modules.")
    k: tuple[int, ...] = rc.param(
        (6, 4, 3, 2, 1), doc="ranks of sketches, decreasing; all devices of a run have the same."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.k) < 2:
            raise InputError(f"`k` must be at least 2 decreasing ranks; found {self.k}")
        check_integer("first of k", self.k[0], low=2, high=self.r - 1)
        for before, after in zip(self.k, self.k[1:], strict=False):
            check_integer("k", after, low=1, high=before - 1)

    @property
    def c(self) -> Array:
        """The values of r/k - 1."""
        return self.r / np.array(self.k) - 1.0


def blocks(config: RateSketchConfig) -> list[rc.Block]:
    """One block for every k."""
    return [{"r": config.r, "k": k} for k in config.k]


def analyse(config: RateSketchConfig, table: rc.Table) -> rc.Analysis:
    """Exponents of r/k - 1 with sketches, of r/k with batches."""
    series, terms, checks, notes = [], [], [], []
    pairs, c = [(config.r, k) for k in config.k], config.c
    for source, x in ((SKETCHES, ("r/k - 1", c)), (BATCHES, ("r/k", 1.0 + c))):
        curves, verdicts, note = compare_with_law(
            config, table, source, PANELS[source], pairs, x, shown=x[1]
        )
        series += curves
        checks += verdicts
        notes.append(note)
        shape = term(source, c)
        law = closed_form(config, source, *pairs[0])
        terms.append(rc.Series(TERM, PANELS[source], x[1], shape / shape[0] * 1.5 * law))
    return rc.Analysis(series + terms, checks, notes)


def panels(config: RateSketchConfig) -> dict[str, rc.Panel]:
    """Sketches against r/k - 1, batches against r/k."""
    norm, of = r"$E\|\nabla f^S\|^2$", f"$r = {config.r}$"
    slope = rc.Guide(2.0, beside="theory", span=(0.0, 1.0))
    return {
        PANELS[SKETCHES]: rc.Panel(
            "$r/k - 1$", norm, "xy", slope, f"(a) {SKETCHES}, {of}", ticks="points"
        ),
        PANELS[BATCHES]: rc.Panel("$r/k$", log="xy", title=f"(b) {BATCHES}, {of}", ticks="points"),
    }


EXPERIMENT = rc.Experiment(
    id="fslora/rate_sketch",
    title="Where FSLoRA ends against the sketch ratio",
    source="Theorem 4.4",
    kind="rate",
    variable="k/r",
    profiles={
        "quick": RateSketchConfig(),
        "paper": RateSketchConfig(replicates=200, relaxations=20.0),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels=panels,
    layout=rc.Layout(width=3.7, height=3.0, share_y=True),
    parallel="blocks",
)
