"""Figures 4, 5 and 6: sketching at equal upload, the global rank at a fixed k, the ratio k / r.

Problem and assumptions: twenty devices adapt a model to several tasks, see ``_tasks``.

Algorithm: FSLoRA. (a) With k_i / r = 1/2 and k_i = r at an upload of four hundred full modules
(``paper``: as many as rounds; fewer in ``quick``), in three arms, see ``_budget``. (b) r in
{2, 4, 8, 16} with k_i = 2: what devices compute and send is always the same. (c) r = 16 with
k_i / r in {1/8, 1/4, 1/2, 1}. In (b) and (c) every arm makes the same number of rounds, with its
own best step.

Claims (Section 5.3, Appendix C.1): (a) sketching is ahead at every rank and on every task
(Figure 5), and accuracy rises with the rank. (b) It rises with the global rank although devices do
the same (Figure 6: on every task but for oscillations). (c) It falls slightly as the ratio falls.

What the text leaves open, and the choices here: (a) see ``_budget``. (b) More components are more
expressive, but r / k grows with them, and with it the noise and the penalty f^S - f; stable steps
fall with k / r, so that the largest ranks should be the last to arrive. (c) The same trade at one
r. A sketch slows down the descent on f, which is checked by the loss on the devices' samples; where
these are few, its penalty may help on new ones, see Figure 3, so that only the lowest ratio, where
it is most, is compared with the whole modules.

References: FSLoRA, Section 5.3 and Appendix C.1.

The picture has a row for (a), (b) and (c): means over tasks first, then every task, with 90 % bands
over instances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import ratecheck as rc
from experiments.fslora.figures import _budget
from experiments.fslora.figures._budget import (
    BudgetConfig,
    measured,
    over_ranks,
    task_claims,
)
from experiments.fslora.figures._tasks import PAPER, RankConfig, Values
from experiments.fslora.figures._training import (
    AVERAGE,
    columns,
    first_step,
    fslora,
    over_tasks,
    step_notes,
    tune,
)
from linsys import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BY_UPLOAD, BY_ROUNDS = "(a)", "(b), (c)"


@dataclass(frozen=True, kw_only=True)
class Fig4Config(BudgetConfig, RankConfig):
    """The set-up."""

    r: int = rc.param(16, doc="rank of the global modules in (c).")
    global_ranks: tuple[int, ...] = rc.param((4, 8, 16), doc="r of (a), increasing.")
    fixed: int = rc.param(2, low=1, doc="k of (b).")
    ranks_b: tuple[int, ...] = rc.param((2, 4, 8, 16), increasing=True, doc="r of (b).")
    ratios_c: tuple[float, ...] = rc.param(
        (0.125, 0.25, 0.5, 1.0), increasing=True, doc="k / r of (c), at ``r``."
    )
    rounds: int = rc.param(60, low="rounds_shown", doc="T of (b) and (c).")
    rounds_shown: int = rc.param(10, low=2, doc="points of the curves of (b) and (c).")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ranks(self.r, self.ratios_c)
        if self.fixed > self.ranks_b[0]:
            raise InputError(
                f"`fixed` must be at most the smallest of `ranks_b`, {self.ranks_b[0]}; "
                f"found {self.fixed}"
            )

    @property
    def times(self) -> list[int]:
        """Rounds that are measured in (b) and (c)."""
        return [round(self.rounds * i / self.rounds_shown) for i in range(self.rounds_shown + 1)]

    @property
    def by_rank(self) -> list[tuple[int, int]]:
        """The pairs (r, k) of panel (b)."""
        return [(r, self.fixed) for r in self.ranks_b]

    @property
    def by_ratio(self) -> list[tuple[int, int]]:
        """The pairs (r, k) of panel (c)."""
        return [(self.r, self.ranks(self.r, [ratio])[0]) for ratio in self.ratios_c]


def blocks(config: Fig4Config) -> list[rc.Block]:
    """One rank of (a), or one pair (r, k) of (b) and (c), at a time."""
    uploads: list[rc.Block] = [{"part": BY_UPLOAD, "k": 0, **b} for b in _budget.blocks(config)]
    pairs = dict.fromkeys(config.by_rank + config.by_ratio)
    return uploads + [
        {"part": BY_ROUNDS, "k": k, "rank": r, "samples": config.samples} for r, k in pairs
    ]


def compute(config: Fig4Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The three arms of (a) at one rank, or all instances of one pair (r, k)."""
    if block["part"] == BY_UPLOAD:
        return _budget.compute(config, block, context)
    r = block["rank"]
    ranks = [block["k"]] * config.devices
    method = fslora(config, ranks)
    gamma = tune(config, method, r, first_step(r, ranks), config.rounds)
    return columns(config, method, r, gamma, config.times, arm=f"r = {r}, k = {block['k']}")


def analyse(config: Fig4Config, table: rc.Table) -> rc.Analysis:
    """The three rows, and the claims."""
    uploads, rounds = table.where(part=BY_UPLOAD), table.where(part=BY_ROUNDS)
    series: list[rc.Series] = []
    for task in (None, *config.tasks):
        title = f"(a) {AVERAGE if task is None else task}"
        series += over_ranks(config, measured(config, uploads, task=task), title)
    for letter, pairs in (("b", config.by_rank), ("c", config.by_ratio)):
        for task in (None, *config.tasks):
            part = rounds if task is None else rounds.where(task=task)
            series += [
                rc.Series(
                    f"r = {r}, k = {k}",
                    f"({letter}) {AVERAGE if task is None else task}",
                    config.times,
                    *rc.mean_band(over_tasks(part, rank=r, k=k)),
                )
                for r, k in pairs
            ]
    checks = [
        *(_named("(a) ", c) for c in _budget.claims(config, uploads)),
        *(_named("(a) ", c) for c in task_claims(config, uploads)),
        *_claims(config, rounds),
    ]
    remarks = [f"(a) {note}" for note in _budget.notes(config, uploads)]
    ends = [
        f"r = {r}: {over_tasks(rounds, rank=r, k=k)[:, -1].mean():.3f}" for r, k in config.by_rank
    ]
    remarks.append(f"(b) accuracy after {config.rounds} rounds: {', '.join(ends)}")
    remarks += [f"(b), (c) {note}" for note in step_notes(rounds, "arm")]
    return rc.Analysis(series, checks, remarks)


def _named(prefix: str, check: rc.Check) -> rc.Check:
    return replace(check, name=prefix + check.name)


def _claims(config: Fig4Config, table: rc.Table) -> list[rc.Check]:
    """The checks of (b) and (c)."""

    def curve(pair: tuple[int, int], value: str = "accuracy", task: str | None = None) -> Values:
        part = table if task is None else table.where(task=task)
        return over_tasks(part, value, rank=pair[0], k=pair[1])

    least, most = config.by_rank[0], config.by_rank[-1]
    pair = f"r = {most[0]} − r = {least[0]}"
    checks = [
        rc.mean_above(
            f"(b) final accuracy, k = {config.fixed}: {pair}",
            "rises with the rank: above 0",
            curve(most)[:, -1],
            curve(least)[:, -1],
        ),
        *(
            rc.mean_above(
                f"(b) {task}, final accuracy, k = {config.fixed}: {pair}",
                "rises with the rank: above 0",
                curve(most, task=task)[:, -1],
                curve(least, task=task)[:, -1],
            )
            for task in config.tasks
        ),
    ]
    low, *_, whole_ = config.by_ratio
    ratio = f"k / r = {config.ratios_c[-1]:g} − {config.ratios_c[0]:g}"
    return [
        *checks,
        rc.mean_above(
            f"(c) final accuracy: {ratio}",
            "falls as the ratio falls: above 0",
            curve(whole_)[:, -1],
            curve(low)[:, -1],
        ),
        rc.mean_above(
            f"(c) final loss on the devices: k / r = {config.ratios_c[0]:g} − "
            f"{config.ratios_c[-1]:g}",
            "a sketch slows down: above 0",
            curve(low, "train")[:, -1],
            curve(whole_, "train")[:, -1],
        ),
    ]


def draw(config: Fig4Config, analysis: rc.Analysis) -> Figure:
    """One row each for (a), (b) and (c), with a legend of its own."""
    figure, axes = rc.panels(analysis.series, columns=1 + len(config.tasks), width=2.4, height=1.9)
    for row in ("(a)", "(b)", "(c)"):
        rc.curves(axes, [s for s in analysis.series if s.panel.startswith(row)])
        of_row = [ax for title, ax in axes.items() if title.startswith(row)]
        of_row[0].set_ylabel(f"{row} test accuracy")
        of_row[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        for ax in of_row:
            ax.set_title(ax.get_title().removeprefix(row).lstrip())
            if row == "(a)":
                ax.set_xscale("log")
                ax.set_xticks(config.global_ranks, [str(r) for r in config.global_ranks])
                ax.minorticks_off()
                ax.set_xlabel("global rank $r$")
            else:
                ax.set_xlabel("round")
    return figure


EXPERIMENT = rc.Experiment(
    id="fslora/fig4",
    title="What sketches cost and give: upload, rank, ratio",
    source="Figures 4, 5 and 6, Section 5.3",
    kind="figure",
    profiles={
        "quick": Fig4Config(
            global_ranks=(4, 16),
            ranks_b=(2, 4, 16),
            ratios_c=(0.125, 0.5, 1.0),
            instances=4,
            tuning=1,
        ),
        "paper": Fig4Config(
            **PAPER,
            budget=400,
            points=10,
            rounds=300,
        ),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
