"""What Figures 3, 4(a), 5, 8 and 9 share: with and without sketching at the same upload.

Algorithm: FSLoRA with k_i / r = 1/2 on all devices, and with k_i = r, which is federated LoRA. Both
may upload the same number of full modules of their rank. With half of the components in every
upload, the sketched one makes twice as many rounds. An upload counts what a device sends.

Three arms. The paper uses one learning rate for both. A sketch multiplies the gradient of a chosen
component by r / k and chooses it with probability k / r: to first order in gamma, the mean update
of a round is the same with and without it. At one gamma the sketched run gains by making twice as
many rounds. But without a sketch a larger gamma can be afforded, up to (r / k)^2 times by the
curvature of the sketched loss. So there are the sketched run at its best gamma, the whole one at
the same gamma (the paper's comparison), and the whole one at its own best gamma, which says whether
the sketch or the small step is what helps.

What is to be expected. After equal rounds at one gamma a sketch can only slow down the descent on
f, by noise and by the penalty f^S - f: the loss on the devices' samples is higher with it. On new
inputs this may be an advantage, as that of dropout is: the penalty keeps few samples from being
fitted too well. Where samples are many there is nothing to be gained by it, and once both have
converged, rounds cannot make up for it either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from experiments.fslora.figures._tasks import TaskConfig, Values
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

SKETCHED, SAME, WHOLE = "with sketching", "without, same step", "without, its own best step"
ARMS = (SKETCHED, SAME, WHOLE)
#: Accuracies against ranks, at equal distances for equal ratios.
BY_RANK = rc.Panel("global rank $r$", "test accuracy", log="x", ticks="points")
#: Measured values (instances, times) by arm and rank.
Accuracies = dict[tuple[str, int], Values]


@dataclass(frozen=True, kw_only=True)
class BudgetConfig(TaskConfig):
    """The set-up."""

    global_ranks: tuple[int, ...] = rc.param((4, 8, 16), increasing=True, doc="r, increasing.")
    ratio: float = rc.param(
        0.5, above=0.0, high=1.0, doc="k_i / r of the sketched runs, 1 / ratio a whole number."
    )
    budget: int = rc.param(20, doc="upload of a device, in full modules.")
    points: int = rc.param(
        4, low=2, doc="uploads at which a curve is measured, a multiple of 1 / ratio."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if abs(1.0 / self.ratio - self.repeats) > 1e-9 or self.repeats < 2:
            raise InputError(f"`ratio` must be 1/2, 1/3, ..; found {self.ratio:g}")
        for r in self.global_ranks:
            self.ranks(r, [self.ratio])
        if self.budget % self.points or self.points % self.repeats:
            raise InputError(
                f"`budget` must be a multiple of `points`, and that of 1 / ratio = {self.repeats}; "
                f"found {self.budget} and {self.points}"
            )

    @property
    def repeats(self) -> int:
        """Rounds of a sketched run for one of a whole one."""
        return round(1.0 / self.ratio)

    @property
    def uploads(self) -> list[int]:
        """Measured uploads in full modules, which are rounds without a sketch."""
        return [self.budget * i // self.points for i in range(self.points + 1)]


def blocks(config: BudgetConfig) -> list[rc.Block]:
    """One global rank at a time."""
    return [{"rank": r, "samples": config.samples} for r in config.global_ranks]


def compute(config: BudgetConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The three arms at one rank; t counts uploads, not rounds."""
    config = replace(config, samples=block["samples"])
    r, uploads = block["rank"], config.uploads
    rounds = [config.repeats * t for t in uploads]
    some, every = config.ranks(r, [config.ratio]), config.ranks(r, [1.0])
    small, large = (
        tune(config, fslora(config, ranks), r, first_step(r, ranks), last)
        for ranks, last in ((some, rounds[-1]), (every, uploads[-1]))
    )
    arms = {
        SKETCHED: (some, small, rounds),
        SAME: (every, small, uploads),
        WHOLE: (every, large, uploads),
    }
    return joined(
        [
            columns(config, fslora(config, ranks), r, gamma, times, at=uploads, arm=arm)
            for arm, (ranks, gamma, times) in arms.items()
        ]
    )


def measured(
    config: BudgetConfig,
    table: rc.Table,
    value: str = "accuracy",
    task: str | None = None,
    ranks: Sequence[int] | None = None,
) -> Accuracies:
    """A column of one task, or averaged over all; for all global ranks or some."""
    part = table if task is None else table.where(task=task)
    return {
        (arm, r): over_tasks(part, value, arm=arm, rank=r)
        for arm in ARMS
        for r in (config.global_ranks if ranks is None else ranks)
    }


def over_ranks(config: BudgetConfig, accuracies: Accuracies, title: str) -> list[rc.Series]:
    """The last accuracy of every arm against the rank."""
    ranks = config.global_ranks
    last = {arm: np.stack([accuracies[arm, r][:, -1] for r in ranks], axis=1) for arm in ARMS}
    return [rc.Series(arm, title, ranks, *rc.mean_band(last[arm])) for arm in ARMS]


def advantage(accuracies: Accuracies, ranks: Sequence[int], other: str) -> Values:
    """With less without sketching at the end of the budget, (ranks, instances)."""
    return np.stack([accuracies[SKETCHED, r][:, -1] - accuracies[other, r][:, -1] for r in ranks])


def claims(config: BudgetConfig, table: rc.Table) -> list[rc.Check]:
    """The checks of means over tasks."""
    low, high = config.global_ranks[0], config.global_ranks[-1]
    accuracies, slowed = measured(config, table), measured(config, table, "train")
    same_rounds = config.points // config.repeats
    same, own = (advantage(accuracies, config.global_ranks, other) for other in (SAME, WHOLE))
    early = [accuracies[SKETCHED, r][:, 1] - accuracies[SAME, r][:, 1] for r in config.global_ranks]
    checks = [
        rc.above(
            f"equal upload, {title}, all ranks: with − without sketching",
            predicted,
            rc.mean_interval(np.mean(values, axis=0)),
        )
        for title, predicted, values in (
            (f"same step, after {config.uploads[1]} modules", "more rounds: above 0", early),
            ("same step", "above 0", same),
            ("best step of each", "above 0", own),
        )
    ]
    checks.append(
        rc.our_own(
            rc.mean_above(
                f"that of the best steps, r = {high} − r = {low}",
                "f^S > f costs most where ranks are scarce: above 0",
                own[-1],
                own[0],
            )
        )
    )
    checks += [
        rc.mean_above(
            f"equal rounds, same step, r = {r}: loss on the devices, with − without",
            "a sketch slows down: above 0",
            slowed[SKETCHED, r][:, same_rounds],
            slowed[SAME, r][:, -1],
        )
        for r in config.global_ranks
    ]
    return checks + [
        rc.mean_above(
            f"{arm}: r = {high} − r = {low}",
            "rises with the rank: above 0",
            accuracies[arm, high][:, -1],
            accuracies[arm, low][:, -1],
        )
        for arm in (SKETCHED, WHOLE)
    ]


def task_claims(config: BudgetConfig, table: rc.Table) -> list[rc.Check]:
    """The claim of every task, at the largest rank and the best step of each arm."""
    r = config.global_ranks[-1]
    accuracies = {task: measured(config, table, task=task) for task in config.tasks}
    return [
        rc.mean_above(
            f"{task}, equal upload, best step of each, r = {r}: with − without sketching",
            "above 0",
            accuracies[task][SKETCHED, r][:, -1],
            accuracies[task][WHOLE, r][:, -1],
        )
        for task in config.tasks
    ]


def notes(config: BudgetConfig, table: rc.Table) -> list[str]:
    """The advantage at every rank, and the step sizes."""
    differences = []
    own = advantage(measured(config, table), config.global_ranks, WHOLE)
    for r, values in zip(config.global_ranks, own, strict=True):
        one = rc.mean_interval(values)
        differences.append(f"r = {r}: {one.value:+.3f} [{one.lo:+.3f}, {one.hi:+.3f}]")
    return [
        "the paper has sketching ahead at every rank; here, at equal upload and the best step of "
        f"each, by rank: {', '.join(differences)}",
        *step_notes(table, "rank", "arm"),
    ]
