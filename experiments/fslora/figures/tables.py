"""Tables 5.1 and 5.2: four methods on every task, with what a round costs in bytes and flops.

Problem and assumptions: twenty devices of four ranks adapt a model to several tasks, see
``_tasks``: a smaller model with more local steps in the place of Table 5.1's, a larger one with
fewer in that of 5.2.

Algorithms: FSLoRA and the baselines of Figure 2, every one with its own best step.

Claims (Section 5.2): on average over the tasks FSLoRA has the highest accuracy. FSLoRA and
HeteroLoRA cost about the same, FlexLoRA and FedStackLoRA more.

What the text leaves open, and the choices here: where FedStackLoRA should be ahead and where behind
is said at Figure 2. In the place of GPU hours there are bytes, as the
algorithms report them, and floating point operations (a product of p x q by q x s matrices has
2 p q s), counted for what has to be computed and not measured:

- a local step of a device with k components and s samples: W0 x is known, A x and B' times slopes
  are 2 s k n and 2 s k m, as are the output B (A x) and the two gradients: s k (4 n + 6 m);
- FlexLoRA's server: the product of the stacks of q = sum k_i components, 2 m q n, as neither stack
  is tall, and its singular value decomposition, 4 m^2 n + 8 m n^2 + 9 n^3 for the longer side m
  (Golub and Van Loan, 8.6);
- FedStackLoRA: the product of the stacks on the server, 2 m q n; on every device the same product,
  to merge, and W0 x anew, 2 s m n;
- the mean of updates or modules: one operation for every number sent.

These are sizes of one module of one task.

References: FSLoRA, Section 5.2.

The picture shows final accuracies with 95 % intervals over instances; the notes are the tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

import ratecheck as rc
from experiments.fslora.figures import fig2
from experiments.fslora.figures._tasks import PAPER, Values
from experiments.fslora.figures._training import AVERAGE, over_tasks, step_notes
from experiments.fslora.figures.fig2 import METHODS, OURS, Fig2Config, merging_claims

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL, LARGE = "Table 5.1", "Table 5.2"


@dataclass(frozen=True, kw_only=True)
class TablesConfig(Fig2Config):
    """The set-up of Figure 2, which is Table 5.1's; a larger model for Table 5.2."""

    large_classes: int = rc.param(24, low=2, doc="m of the larger model.")
    large_features: int = rc.param(40, low=1, doc="n of the larger model.")
    large_H: int = rc.param(2, low=1, doc="local steps in a round of the larger model.")
    large_rounds: int = rc.param(100, low="points", doc="T of the larger model.")

    def table(self, name: str) -> TablesConfig:
        """The set-up of one of the tables."""
        if name == SMALL:
            return self
        return replace(
            self,
            classes=self.large_classes,
            features=self.large_features,
            H=self.large_H,
            rounds=self.large_rounds,
        )


def compute(config: TablesConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Tune a method, train it on all instances."""
    return fig2.compute(config.table(block["table"]), block, context)


def flops(config: TablesConfig, method: str) -> tuple[int, int]:
    """Operations of one round and one module: all devices together, and the server."""
    m, n, s, ranks = config.classes, config.features, config.samples, config.device_ranks
    q = sum(ranks)
    devices, server = config.H * s * q * (4 * n + 6 * m), q * (m + n)
    product, (short, long) = 2 * m * q * n, sorted((m, n))
    if method == "FlexLoRA":
        server = product + 4 * long**2 * short + 8 * long * short**2 + 9 * short**3
    if method == "FedStackLoRA":
        devices += config.devices * (product + 2 * s * m * n)
        server = product
    return devices, server


def analyse(config: TablesConfig, table: rc.Table) -> rc.Analysis:
    """Final accuracies by task, and the tables as notes."""
    series, checks, notes = [], [], []
    for name in (SMALL, LARGE):
        own, part = config.table(name), table.where(table=name)
        accuracies = {
            (method, task): _final(part, method, None if task == AVERAGE else task)
            for method in METHODS
            for task in (*config.tasks, AVERAGE)
        }
        where = np.arange(len(config.tasks) + 1, dtype=float)
        for method in METHODS:
            ends = [rc.mean_interval(accuracies[method, task]) for task in (*config.tasks, AVERAGE)]
            series.append(
                rc.Series(method, name, where, *np.array([(e.value, e.lo, e.hi) for e in ends]).T)
            )
        checks += _claims(name, part, accuracies, own)
        notes += [f"{name}, {_row(own, part, method, accuracies)}" for method in METHODS]
        notes += [f"{name}: {note}" for note in step_notes(part, "method")]
    return rc.Analysis(series, checks, notes)


def _final(table: rc.Table, method: str, task: str | None) -> Values:
    part = table if task is None else table.where(task=task)
    return over_tasks(part, method=method)[:, -1]


def _claims(
    name: str, table: rc.Table, accuracies: dict[tuple[str, str], Values], config: TablesConfig
) -> list[rc.Check]:
    checks = [
        rc.mean_above(
            f"{name}, mean over tasks: FSLoRA − {rival}",
            "above 0",
            accuracies[OURS, AVERAGE],
            accuracies[rival, AVERAGE],
        )
        for rival in ("HeteroLoRA", "FlexLoRA")
    ]
    merged = {
        task: (accuracies["FedStackLoRA", task], accuracies[OURS, task]) for task in config.tasks
    }
    checks += merging_claims(f"{name}, ", merged)
    checks += [
        rc.mean_above(
            f"{name}, {task}: FSLoRA − HeteroLoRA",
            "above 0",
            accuracies[OURS, task],
            accuracies["HeteroLoRA", task],
        )
        for task in config.tasks
    ]
    total = {method: sum(flops(config, method)) for method in METHODS}
    ratios = {method: total[method] / total[OURS] for method in METHODS if method != OURS}
    exact = {method: rc.Interval(value, value, value) for method, value in ratios.items()}
    moved = {method: sum(_bytes(table, method)) / sum(_bytes(table, OURS)) for method in METHODS}
    equal, more = (rc.Interval(v, v, v) for v in (moved["HeteroLoRA"], moved["FedStackLoRA"]))
    return [
        *checks,
        *(
            rc.above(f"{name}, operations: {m} / FSLoRA", "more: above 1", exact[m], 1.0)
            for m in ("FlexLoRA", "FedStackLoRA")
        ),
        rc.within(f"{name}, bytes: HeteroLoRA / FSLoRA", "the same: 1", equal, 1.0, 1.0),
        rc.above(f"{name}, bytes: FedStackLoRA / FSLoRA", "more: above 1", more, 1.0),
    ]


def _bytes(table: rc.Table, method: str) -> tuple[float, float]:
    """The bytes up and down, of one device in all rounds and modules."""
    up, down = (float(over_tasks(table, c, method=method)[0, -1]) for c in ("up", "down"))
    return up, down


def _row(
    config: TablesConfig, table: rc.Table, method: str, accuracies: dict[tuple[str, str], Values]
) -> str:
    """One row of a table."""
    per_round = config.rounds * len(config.tasks)
    up, down = (total / per_round for total in _bytes(table, method))
    devices, server = flops(config, method)
    percent = {task: 100 * accuracies[method, task] for task in (*config.tasks, AVERAGE)}
    cells = ", ".join(f"{t} {v.mean():.1f} ± {v.std(ddof=1):.1f}" for t, v in percent.items())
    return (
        f"{method}: {up / 1e3:.2f} kB up and {down / 1e3:.2f} kB down for a device and round; "
        f"{devices / 1e6:.2f} Mflop on all devices, {server / 1e6:.3f} on the server; "
        f"accuracy in % (± standard deviation): {cells}"
    )


def draw(config: TablesConfig, analysis: rc.Analysis) -> Figure:
    """One panel for each table: methods beside one another at every task."""
    figure, axes = rc.panels(analysis.series, columns=2, width=3.4, share_y=False)
    labels = [*config.tasks, AVERAGE]
    for panel, ax in axes.items():
        of_panel = [s for s in analysis.series if s.panel == panel]
        for place, s in enumerate(of_panel):
            shape = rc.look(s.name, place)
            y, lo, hi = (np.asarray(v) for v in (s.y, s.lo, s.hi))
            ax.errorbar(
                np.asarray(s.x) + 0.15 * (place - 0.5 * (len(of_panel) - 1)),
                y,
                yerr=[y - lo, hi - y],
                color=shape.colour,
                marker=shape.marker,
                linestyle="",
                capsize=2,
                label=s.name,
            )
        ax.set_xticks(range(len(labels)), labels)
    next(iter(axes.values())).set_ylabel("final test accuracy")
    handles, names = next(iter(axes.values())).get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    return figure


EXPERIMENT = rc.Experiment(
    id="fslora/tables",
    title="Four methods on every task: accuracy, bytes, operations",
    source="Tables 5.1 and 5.2, Section 5.2",
    kind="figure",
    profiles={
        "quick": TablesConfig(instances=4, tuning=1),
        "paper": TablesConfig(
            **PAPER,
            rounds=200,
            large_rounds=500,
        ),
    },
    blocks=rc.Grid({"table": (SMALL, LARGE), "method": METHODS}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
