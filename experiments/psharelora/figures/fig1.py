"""Figure 1: test accuracy of seven ways to train LoRA modules for five labelers.

Problem and assumptions: five labelers share the left factor of every module, see ``_labelers``.
How much the paper's labelers agree we do not know: several degrees of it take the place of the two
language models.

Algorithms: P-ShareLoRA from the standard start (SI), after two epochs of three (G) or a tenth of
all (WU) with everything shared; the other factor shared ("down"); everything shared (LoRA-global),
nothing (LoRA-local); Share-Rep, whose first 70 % of the modules are frozen.

Claims (Section 5): P-ShareLoRA (G) and (WU) improve on LoRA-global, LoRA-local and Share-Rep.

What the text leaves open, and the choices here: against LoRA-local the claim has a reason, as half
of the numbers that a labeler has to find alone are found by all. Against LoRA-global it has one
only if labelers differ enough. What LoRA-global cannot learn is the share ``own`` of V, the
variance of logits; for its own factors, q numbers from N_p comparisons, a labeler pays about
q / (N_p E[p (1 - p)]) of variance. So LoRA-global is the better method for

    own < own* = q / (N_p V E[p (1 - p)]),

which a check asks for in the place of the paper's claim. As own* is a count of numbers, not a law,
neither is asked for within a factor of ``MARGIN`` of it. Share-Rep as described never trains what
it freezes: 70 % of the change that labelers ask for is out of its reach.

References: P-ShareLoRA, Section 5, Appendix D.1 and D.2; Park et al. (2024).

The picture shows means over labelers and instances with 90 % bands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.psharelora._labelers import (
    BEST,
    LEGEND,
    REFERENCES,
    START,
    LabelerConfig,
    compute,
    over_labelers,
    rate_note,
)
from linsys.preference.sharelora import METHODS

#: Within this factor of own* there is no check of LoRA-global.
MARGIN = 2.0
PANEL = "average accuracy"


@dataclass(frozen=True, kw_only=True)
class Fig1Config(LabelerConfig):
    """The set-up."""

    labelers: int = rc.param(5, low=2, doc="N.")
    own: tuple[float, ...] = rc.param(
        (0.02, 0.2, 0.6),
        low=0.0,
        high=1.0,
        least=1,
        increasing=True,
        doc="what labelers have of their own, as a share; all have the same.",
    )

    def own_of(self, case: float) -> tuple[float, ...]:
        """The shares of all labelers."""
        return (case,) * self.labelers


def threshold(config: Fig1Config, table: rc.Table) -> float:
    """own*, below which one model for all should be better than factors of one's own."""
    numbers = config.modules * config.r * config.d
    return float(numbers / (config.samples * 2.0 * config.size**2 * table["slope"].mean()))


def analyse(config: Fig1Config, table: rc.Table) -> rc.Analysis:
    """Curves over what labelers have of their own, and the claims at every degree."""
    series = [rc.Series(name, PANEL, config.own, *_band(config, table, name)) for name in METHODS]
    series += [
        rc.Series(name, PANEL, config.own, _band(config, table, "SI", value)[0])
        for name, value in ((BEST, "best"), (START, "start"))
    ]
    limit, checks = threshold(config, table), list[rc.Check]()
    for own in config.own:
        accuracies = {name: over_labelers(table, case=own, method=name) for name in METHODS}
        for ours in ("G", "WU"):
            for theirs in ("LoRA-global", "LoRA-local", "Share-Rep"):
                near = theirs == "LoRA-global" and limit / MARGIN < own < limit * MARGIN
                if near:
                    continue
                if theirs == "LoRA-global" and own < limit:
                    name = f"own {own:g}: {theirs} − {ours}"
                    why = f"above 0, as own < own* = {limit:.2f}"
                    check = rc.mean_above(name, why, accuracies[theirs], accuracies[ours])
                    checks.append(rc.our_own(check, paper="below 0"))
                else:
                    name = f"own {own:g}: {ours} − {theirs}"
                    checks.append(
                        rc.mean_above(name, "above 0", accuracies[ours], accuracies[theirs])
                    )
    notes = [
        f"own* = {limit:.3f}; between {limit / MARGIN:.3f} and {limit * MARGIN:.3f} LoRA-global is "
        "not judged",
        "accuracies: "
        + "; ".join(
            f"own {own:g}: "
            + ", ".join(
                f"{name} {over_labelers(table, case=own, method=name).mean():.3f}"
                for name in METHODS
            )
            for own in config.own
        ),
        rate_note(config, table, "method", "case"),
    ]
    return rc.Analysis(series, checks, notes)


def _band(
    config: Fig1Config, table: rc.Table, name: str, value: str = "accuracy"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    columns = [over_labelers(table, value, case=own, method=name) for own in config.own]
    return rc.mean_band(np.column_stack(columns))


def blocks(config: Fig1Config) -> list[rc.Block]:
    """The instances of every share."""
    return config.pieces(("left",), config.own)


EXPERIMENT = rc.Experiment(
    id="psl/fig1",
    title="Accuracy of seven ways to train modules for five labelers",
    source="Figure 1, Section 5",
    kind="figure",
    profiles={
        "quick": Fig1Config(),
        "paper": Fig1Config(own=(0.01, 0.05, 0.2, 0.6), samples=5373, instances=12, tuning=3),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels=rc.Panel(
        "fraction of a labeler's reward that is not shared", "test accuracy", title=PANEL
    ),
    layout=rc.Layout(width=5.2, height=3.9, legend=2, looks=REFERENCES, names=LEGEND),
    parallel="blocks",
)
