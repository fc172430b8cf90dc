"""Accuracy by task and method on a language model: Tables 5.1 and 5.2 on texts.

Problem, assumptions and algorithms: those of ``bridge/fslora``, devices of four ranks and four
methods, and LoRA whose devices all send rank r. A task is a domain: of the generated questions, or
of the user's files (``--data`` with a file or with a folder of files). One model learns all tasks
together, as in Table 5.2; there is no model for each of them, as in Table 5.1.

What the paper says (Section 5.2): FSLoRA has the highest accuracy on average over tasks, and on
every task of Table 5.2. It does not follow from the theory; it is checked as it is, with 95 %
intervals, paired within seeds, and may fail. The paper's ± are of three runs, and of what is not
said.

Derivation of the other check: in a round k_i components of w numbers each go up from device i and
as many go down, except that FedStackLoRA sends the components of all devices to each. In the place
of GPU hours, which depend on the machine, the table has these bytes.

How settings were chosen: as for ``bridge/fslora``, whose last round this is.

References: FSLoRA, Section 5.2.

The picture shows means over seeds with 95 % intervals; the notes are the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import ratecheck as rc
from experiments.bridge.devices import LAPTOP_GRID, PAPER_GRID, ComparedConfig, RatiosConfig
from experiments.bridge.models import Values, threads
from experiments.bridge.readings import claim, notes_on_runs, over_domains
from experiments.fslora.bridge._device_runs import compare
from experiments.fslora.bridge.fslora import METHODS, OURS, WHOLE, byte_check, method_of, mixed_arms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AVERAGE = "average"


@dataclass(frozen=True, kw_only=True)
class TableConfig(ComparedConfig, RatiosConfig):
    """The set-up."""

    seeds: int = 5
    rounds: int = rc.param(64, low=1, doc="T.")


def blocks(config: TableConfig) -> list[rc.Block]:
    """One method at a time."""
    return list(mixed_arms(config).values())


def compute(config: TableConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Choose a method's step size, then train it on all seeds."""
    times = [config.rounds]
    with threads(context):
        return compare(config, context, method_of(config, block), block["r"], times, times)


def analyse(config: TableConfig, table: rc.Table) -> rc.Analysis:
    """Final accuracies by task, the table as notes, and what the paper says."""
    arms = mixed_arms(config)
    tasks = list(dict.fromkeys(table["domain"].tolist()))
    accuracies = {name: _final(table.where(**where), tasks) for name, where in arms.items()}
    series = [
        rc.Series(name, task, [0.0], *([bound] for bound in _bounds(values)))
        for name, by_task in accuracies.items()
        for task, values in by_task.items()
    ]
    claims = [
        claim(f"FSLoRA above {rival}, {task}", accuracies[OURS][task], accuracies[rival][task])
        for task in (AVERAGE, *tasks)
        for rival in METHODS
        if rival not in (OURS, WHOLE)
    ]
    notes = [
        *(f"{name}: {_row(table.where(**arms[name]), accuracies[name])}" for name in METHODS),
        *notes_on_runs(config, table, {name: table.where(**where) for name, where in arms.items()}),
    ]
    return rc.Analysis(series, [byte_check(config, table), *claims], notes)


def _final(table: rc.Table, tasks: list[str]) -> dict[str, Values]:
    """Accuracies at the end by task, (seeds,) each, and their average."""
    by_task = {
        task: np.asarray(table.where(domain=task).grid("accuracy", "draw", "t"))[:, -1]
        for task in tasks
    }
    return {**by_task, AVERAGE: np.mean(list(by_task.values()), axis=0)}


def _bounds(values: Values) -> tuple[float, float, float]:
    """Mean over seeds and its interval."""
    interval = rc.mean_interval(values)
    return interval.value, interval.lo, interval.hi


def _row(table: rc.Table, accuracies: dict[str, Values]) -> str:
    """One row of the table, in percent."""
    up, down = (over_domains(table, way)[0, -1] / 1e6 for way in ("up", "down"))
    cells = []
    for task, values in accuracies.items():
        mean, _, high = _bounds(100 * values)
        cells.append(f"{task} {mean:.1f} ± {high - mean:.1f}")
    return f"{', '.join(cells)} %; {up:.3g} MB up and {down:.3g} MB down for a device"


def draw(config: TableConfig, analysis: rc.Analysis) -> Figure:
    """Methods beside one another at every task, the average last."""
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(s.panel for s in analysis.series))
    methods = list(dict.fromkeys(s.name for s in analysis.series))
    figure = Figure(figsize=(max(1.3 * len(tasks), 4.0), 3.2), layout="constrained")
    ax = figure.subplots()
    for place, method in enumerate(methods):
        shape, own = rc.look(method, place), [s for s in analysis.series if s.name == method]
        y, lo, hi = (np.ravel([getattr(s, key) for s in own]) for key in ("y", "lo", "hi"))
        ax.errorbar(
            np.arange(len(own)) + 0.14 * (place - 0.5 * (len(methods) - 1)),
            y,
            yerr=[y - lo, hi - y],
            color=shape.colour,
            marker=shape.marker,
            linestyle="",
            capsize=2,
            label=method,
        )
    ax.set_xticks(range(len(tasks)), tasks)
    ax.axvline(len(tasks) - 1.5, color="#999999", linewidth=0.7)
    ax.grid(visible=False, axis="x")
    ax.set_ylabel("final test accuracy")
    low, high = ax.get_ylim()
    ax.set_ylim(
        max(low, -0.02), min(high, 1.02)
    )  # the interval of two seeds can be wider than [0, 1]
    figure.legend(loc="outside lower center", ncols=3)
    return figure


EXPERIMENT = rc.Experiment(
    id="bridge/fslora_table",
    title="Accuracy by task of FSLoRA and its rivals, on a language model",
    source="Tables 5.1 and 5.2, Section 5.2",
    kind="figure",
    profiles={
        "quick": TableConfig(),
        "laptop": TableConfig(**LAPTOP_GRID, rounds=12),
        "paper": TableConfig(**PAPER_GRID, rounds=750),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
