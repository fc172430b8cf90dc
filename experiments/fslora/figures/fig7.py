"""Figure 7: sketches on top of top-k compression, accuracy against megabytes sent.

Problem and assumptions: twenty devices adapt a model to a task, see ``_tasks``; every task on its
own, as compression picks the largest entries of a whole update.

Algorithm: FSLoRA with k_i / r in {1/8, 1/4, 1/2, 1}, r = 16, where devices send the half of their
update's entries that is largest in absolute value, and where they are.

Claims (Appendix C.2): at the same upload a lower ratio has the higher accuracy; the two kinds of
saving add up.

What the text leaves open, and the choices here: the paper has one learning rate for all ratios. To
first order in gamma a round then has the same mean update at every ratio, so that at equal upload a
ratio of 1/8 has come eight times as far as the whole modules. Here every ratio has its own best
gamma, and the whole modules once more that of 1/8 ("step of 0.125", the paper's comparison). What
is to be expected with the best steps: stable steps are proportional to k / r, rounds at equal
upload to r / k, so that all ratios come equally far. What is left is the penalty f^S - f,
proportional to r / k - 1: helpful if mild (where samples are few, see Figure 3) and harmful if not.
So 1/2 should be ahead of 1, but 1/8 behind 1/4 and that behind 1/2, against the claim. A sent entry
is a float64 with four bytes for its place; without compression an entry is eight bytes.

References: FSLoRA, Appendix C.2; Kuo et al. (2024).

The picture shows means over instances with 90 % bands; checks are over instances, of means over
tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import ratecheck as rc
from experiments.fslora.figures._tasks import PAPER, RankConfig, Values
from experiments.fslora.figures._training import (
    columns,
    first_step,
    fslora,
    joined,
    over_tasks,
    step_notes,
    tune,
)
from linsys import InputError


@dataclass(frozen=True, kw_only=True)
class Fig7Config(RankConfig):
    """The set-up."""

    levels: tuple[float, ...] = rc.param(
        (0.125, 0.25, 0.5, 1.0),
        increasing=True,
        doc="k / r, the last one 1, the others one over a whole number.",
    )
    kept: float = rc.param(
        0.5, above=0.0, high=1.0, doc="share of an update's entries that is sent."
    )
    budget: int = rc.param(12, low="points", doc="upload of a device in full compressed modules.")
    points: int = rc.param(6, low=2, doc="uploads at which a curve is measured.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ranks(self.r, self.levels)
        if self.levels[-1] != 1.0 or any(abs(1 / v - round(1 / v)) > 1e-9 for v in self.levels):
            raise InputError(f"`levels` must be 1/a, 1/b, .., 1; found {self.levels}")

    @property
    def uploads(self) -> list[int]:
        """Measured uploads in full modules: rounds at ratio 1."""
        return [round(self.budget * i / self.points) for i in range(self.points + 1)]

    @property
    def arms(self) -> list[str]:
        """Names of the settings, the control last."""
        return [*(_name(level) for level in self.levels), f"k / r = 1, step of {self.levels[0]:g}"]


def _name(level: float) -> str:
    return f"k / r = {level:g}"


def compute(config: Fig7Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """All settings; t counts uploads of full modules."""
    config, parts, gammas = replace(config, tasks=(block["only"],)), [], {}
    for arm, level in zip(config.arms, [*config.levels, 1.0], strict=True):
        ranks = config.ranks(config.r, [level])
        method = fslora(config, ranks, compression=config.kept)
        rounds = [t * round(1 / level) for t in config.uploads]
        if level not in gammas:
            gammas[level] = tune(config, method, config.r, first_step(config.r, ranks), rounds[-1])
        gamma = gammas[config.levels[0] if arm == config.arms[-1] else level]
        parts.append(columns(config, method, config.r, gamma, rounds, at=config.uploads, arm=arm))
    return joined(parts)


def analyse(config: Fig7Config, table: rc.Table) -> rc.Analysis:
    """Accuracy against megabytes, and the claims."""
    series = []
    for task in config.tasks:
        for arm in config.arms:
            part = table.where(only=task)
            megabytes = over_tasks(part, "up", arm=arm)[0] / 1e6
            series.append(rc.Series(arm, task, megabytes, *rc.mean_band(over_tasks(part, arm=arm))))
    accuracies = {arm: over_tasks(table, arm=arm) for arm in config.arms}
    dense = config.r * (config.classes + config.features) * 8
    sent = float(over_tasks(table, "up", arm=_name(1.0))[0, -1]) / config.uploads[-1]
    low, *_, same = config.arms
    early, end = (accuracies[low] - accuracies[same]).mean(axis=0)[[1, -1]]
    notes = [
        f"at the same step {low} against 1: {early:+.3f} after {config.uploads[1]} modules, "
        f"{end:+.3f} at the end of the budget",
        f"an update of all {config.r} components is {dense} bytes, and {sent:.0f} with the share "
        f"{config.kept:g} of its entries",
        *step_notes(table, "only", "arm"),
    ]
    return rc.Analysis(series, _claims(config, accuracies), notes)


def _claims(config: Fig7Config, accuracies: dict[str, Values]) -> list[rc.Check]:
    *own, same = config.arms
    checks = [
        rc.mean_above(
            f"{own[0]} − 1, same step, after {config.uploads[1]} modules",
            "more rounds: above 0",
            accuracies[own[0]][:, 1],
            accuracies[same][:, 1],
        )
    ]
    checks.append(
        rc.mean_above(
            f"{own[-2]} − 1, best step of each, at the end",
            "above 0",
            accuracies[own[-2]][:, -1],
            accuracies[own[-1]][:, -1],
        )
    )
    pairs = zip(config.levels[:-1], config.levels[1:-1], strict=False)
    checks += [
        rc.our_own(
            rc.mean_above(
                f"k / r = {high:g} − {low:g}, best step of each, at the end",
                "above 0: the penalty is r / k − 1",
                accuracies[_name(high)][:, -1],
                accuracies[_name(low)][:, -1],
            ),
            paper="below 0",
        )
        for low, high in pairs
    ]
    return checks


EXPERIMENT = rc.Experiment(
    id="fslora/fig7",
    title="Sketches on top of top-k compression",
    source="Figure 7, Appendix C.2",
    kind="figure",
    profiles={
        "quick": Fig7Config(tasks=("steep", "flat"), instances=4, tuning=1),
        "paper": Fig7Config(
            **PAPER,
            budget=100,
            points=10,
        ),
    },
    blocks=rc.Grid({"only": "tasks"}),
    compute=compute,
    analyse=analyse,
    panels=rc.Panel("upload of a device (MB)", "test accuracy"),
    layout=rc.Layout(columns=2, width=3.2, share_y=True, legend=3),
    parallel="blocks",
)
