"""FSLoRA against LoRA at equal upload, also with compressed updates: Figures 3, 4a and 7 on texts.

Problem and assumptions: as for ``bridge/fslora``, with one rank k for all devices.

Algorithm: FSLoRA with k / r below 1 and LoRA, which is k = r. All send the same number of bytes: a
ratio of 1/2 has two rounds for one of LoRA. Once with whole updates, for several r, and once at the
largest r with the half of an update's entries that is largest, for several k / r.

Which panel is which figure: "whole updates" is Figures 3 and 4a (and, by task, 5), accuracy at a
budget of so many whole updates against r, with and without sketches; more devices make it Figures 8
and 9 (``--set devices=50``). "Compressed updates" is Figure 7, accuracy against megabytes.

What the paper says (Section 5.3, Appendix C.2): at equal upload sketches end above LoRA at every r,
accuracy grows with r, and a smaller k / r ends higher where updates are compressed, so that both
savings add up. None of it follows from the theory; it is checked as it is, and may fail. With plain
gradient steps all ratios come about equally far at their best steps, and the smallest pays most for
f^S being above f (``fslora/fig7``).

Derivation of the other checks. *Bytes*: a device's update has k w numbers of four bytes; of a
compressed one the share ``kept`` is sent, each number with four bytes for its place, so that half
of the entries are as many bytes as all of them and compression only loses information. *Reach*: in
a round an entry goes at most k / r of what H steps of AdamW can do, see ``bridge/fslora``. So at
equal upload all arms with one step size have the same reach, and sketches cannot travel farther for
a byte, as they do with gradient steps, which grow with r / k.

How settings were chosen: the budget so that LoRA answers most questions of a tuning draw; the rest
as in ``bridge/fslora``. The paper profile has the sizes of Table A.1 for LLaMA and Figure 4a's
budget.

References: FSLoRA, Section 5.3, Appendix C; Kuo et al. (2024).

The picture shows means over domains and seeds with 90 % bands; checks are paired within seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np

import ratecheck as rc
from experiments.bridge.devices import LAPTOP_GRID, PAPER_GRID, ComparedConfig
from experiments.bridge.models import Values, threads
from experiments.bridge.readings import (
    claim,
    identity,
    limits,
    notes_on_runs,
    over_domains,
    within_reach,
)
from experiments.fslora.bridge._device_runs import compare
from linsys import InputError
from linsys.sketching import FSLoRA
from linsys.sketching.federated import Federated

WHOLE, COMPRESSED = "whole updates, final", "compressed updates"
#: r, k / r and whether updates are compressed.
Arm = tuple[int, float, int]


@dataclass(frozen=True, kw_only=True)
class BudgetConfig(ComparedConfig):
    """The set-up."""

    in_proportion: ClassVar[Mapping[str, Sequence[str]]] = {
        "rounds": ("budget",),
        "draws": ("seeds",),
    }
    seeds: int = 5
    global_ranks: tuple[int, ...] = rc.param(
        (4, 16),
        low=1,
        increasing=True,
        least=1,
        doc="r with whole updates, increasing; ``rank``, the last one, also with others.",
    )
    level: float = rc.param(0.5, doc="k / r of the sketches with whole updates.")
    levels: tuple[float, ...] = rc.param(
        (0.25, 0.5),
        increasing=True,
        least=1,
        doc=(
            "k / r with compressed updates, increasing, each one over a whole number; 1 is added."
        ),
    )
    kept: float = rc.param(
        0.5, above=0.0, high=1.0, doc="share of a compressed update's entries that is sent."
    )
    budget: int = rc.param(
        32, low="points", doc="upload of a device in whole updates of all components."
    )
    points: int = rc.param(4, low=1, doc="uploads at which a curve is measured.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.global_ranks[-1] != self.rank:
            raise InputError(
                f"`global_ranks` must end with rank = {self.rank}; found {self.global_ranks}"
            )
        for level in (self.level, *self.levels):
            self.rank_of(level)
            if level == 1.0 or abs(1 / level - round(1 / level)) > 1e-9:
                raise InputError(f"`levels` must be 1/2, 1/3, ..; found {level:g}")
        for r in self.global_ranks:
            if r % round(1 / self.level):
                raise InputError(
                    f"`global_ranks` times level = {self.level:g} must be whole; found {r}"
                )

    @property
    def uploads(self) -> list[int]:
        """Measured uploads in whole updates: rounds of LoRA."""
        return [round(self.budget * i / self.points) for i in range(self.points + 1)]

    @property
    def arms(self) -> list[Arm]:
        """All arms, LoRA behind its sketches."""
        plain = [(r, level, 0) for r in self.global_ranks for level in (self.level, 1.0)]
        return plain + [(self.rank, level, 1) for level in (*self.levels, 1.0)]


def blocks(config: BudgetConfig) -> list[rc.Block]:
    """One rank and ratio, with or without compression, at a time."""
    return [{"r": r, "level": level, "top": top} for r, level, top in config.arms]


def compute(config: BudgetConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Choose a step size and train on all seeds; t counts uploads of whole updates."""
    r, level, kept = block["r"], block["level"], config.kept if block["top"] else None
    ranks = [round(level * r)] * config.devices

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
        return compare(config, context, method, r, rounds, config.uploads)


def analyse(config: BudgetConfig, table: rc.Table) -> rc.Analysis:
    """Accuracy against r and against megabytes, and what the paper says of it."""
    parts = {arm: _part(table, arm) for arm in config.arms}
    accuracies = {arm: over_domains(part) for arm, part in parts.items()}
    ends = {arm: values[:, -1] for arm, values in accuracies.items()}
    series = [
        rc.Series(
            _name(level),
            WHOLE,
            config.global_ranks,
            *rc.mean_band(np.stack([ends[r, level, 0] for r in config.global_ranks], axis=1)),
        )
        for level in (config.level, 1.0)
    ]
    series += [
        rc.Series(_name(level), COMPRESSED, _sent(parts[r, level, top]), *rc.mean_band(values))
        for (r, level, top), values in accuracies.items()
        if top
    ]
    name = "way of an entry in a round / (k/r of what H steps of AdamW can do)"
    derived = [_bytes(config, parts), within_reach(name, _shares(config, parts))]
    return rc.Analysis(
        series, [*derived, *_claims(config, ends)], _notes(config, table, ends, parts)
    )


def _claims(config: BudgetConfig, ends: dict[Arm, Values]) -> list[rc.Check]:
    level, low, high = config.level, config.global_ranks[0], config.rank
    plain = [
        claim(
            f"k / r = {level:g} above LoRA at equal upload, r = {r}",
            ends[r, level, 0],
            ends[r, 1.0, 0],
        )
        for r in config.global_ranks
    ]
    if low < high:
        plain += [
            claim(
                f"{_name(one)} with r = {high} above r = {low} at its budget",
                ends[high, one, 0],
                ends[low, one, 0],
            )
            for one in (level, 1.0)
        ]
    return plain + [
        claim(
            f"k / r = {one:g} above LoRA at equal upload, compressed",
            ends[high, one, 1],
            ends[high, 1.0, 1],
        )
        for one in config.levels
    ]


def _bytes(config: BudgetConfig, parts: dict[Arm, rc.Table]) -> rc.Check:
    """Bytes sent over those that the sizes say; w follows from LoRA with whole updates."""
    number_bytes = 8 if config.dtype == "float64" else 4
    largest = _sent(parts[config.rank, 1.0, 0])[-1] * 1e6
    width = round(largest / (config.budget * config.rank * number_bytes))
    ratios = []
    for (r, level, top), part in parts.items():
        entries = round(level * r) * width
        update = entries * number_bytes
        if top and config.kept < 1.0:
            update = ceil(config.kept * entries) * (number_bytes + 4)
        rounds = config.budget * round(1 / level)
        ratios.append(_sent(part)[-1] * 1e6 / (rounds * update))
    name = "bytes of all arms / what ranks, rounds and kept entries say"
    return identity(name, np.array(ratios), 1e-9)


def _shares(config: BudgetConfig, parts: dict[Arm, rc.Table]) -> dict[Arm, Values]:
    return {
        (r, level, top): limits(config, part, config.budget * round(1 / level), level)
        for (r, level, top), part in parts.items()
    }


def _notes(
    config: BudgetConfig, table: rc.Table, ends: dict[Arm, Values], parts: dict[Arm, rc.Table]
) -> list[str]:
    accuracies = "; ".join(f"{_arm(arm)}: {values.mean():.3f}" for arm, values in ends.items())
    shares = "; ".join(f"{_arm(a)}: {v.mean():.2f}" for a, v in _shares(config, parts).items())
    notes = [
        f"final accuracies: {accuracies}",
        f"way of an entry in a round, over what H steps of AdamW can do: {shares}",
    ]
    if config.level in config.levels:
        lost = rc.mean_interval(
            ends[config.rank, config.level, 1] - ends[config.rank, config.level, 0]
        )
        notes.append(
            f"after as many rounds, k / r = {config.level:g}, compressed less whole updates: "
            f"{lost.value:+.3f} [{lost.lo:+.3f}, {lost.hi:+.3f}]"
        )
    return [*notes, *notes_on_runs(config, table, {_arm(arm): part for arm, part in parts.items()})]


def _part(table: rc.Table, arm: Arm) -> rc.Table:
    r, level, top = arm
    return table.where(r=r, level=level, top=top)


def _sent(part: rc.Table) -> Values:
    """Megabytes that a device has sent at every measured time; the same for all seeds."""
    return np.asarray(part.grid("up", "draw", "t", "domain")[0, :, 0]) / 1e6


def _name(level: float) -> str:
    return "LoRA" if level == 1.0 else f"FSLoRA, k / r = {level:g}"


def _arm(arm: Arm) -> str:
    r, level, top = arm
    return f"r = {r}, {_name(level)}{', compressed' if top else ''}"


def panels(config: BudgetConfig) -> dict[str, rc.Panel]:
    """Whole updates against r, compressed ones against megabytes."""
    whole = f"r, at {config.budget} whole updates of r components"
    return {
        WHOLE: rc.Panel(whole, "test accuracy", log="x", ticks="points"),
        COMPRESSED: rc.Panel("upload of a device (MB)"),
    }


EXPERIMENT = rc.Experiment(
    id="bridge/fslora_budget",
    title="FSLoRA and LoRA at equal upload, with and without compression, on a language model",
    source="Figures 3, 4a and 7, Section 5.3, Appendix C.2",
    kind="figure",
    profiles={
        "quick": BudgetConfig(),
        "laptop": BudgetConfig(**LAPTOP_GRID, budget=4, points=2, global_ranks=(2, 8)),
        "paper": BudgetConfig(
            **PAPER_GRID,
            global_ranks=(8, 16, 32, 64),
            levels=(0.125, 0.25, 0.5),
            budget=400,
            points=10,
        ),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels=panels,
    layout=rc.Layout(width=3.2, share_y=True),
    parallel="blocks",
)
