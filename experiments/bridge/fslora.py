"""FSLoRA and its rivals on a language model: Figures 2, 4b and 4c on texts.

Problem and assumptions: devices of four ranks adapt one frozen model to answer questions of several
domains, of which each has its own mix, see ``_federated``.

Algorithms: exactly those of :mod:`linsys.sketching`, on :class:`lora_bridge.oracles.Devices` in the
place of a matrix: FSLoRA (Algorithm 1), HeteroLoRA, FlexLoRA and FedStackLoRA with k_i / r in
{1/8, 1/4, 1/2, 3/4}, and LoRA whose devices all train and send rank r. Then FSLoRA with one rank k
for all devices: k fixed and r growing (Figure 4b), r fixed and k growing (Figure 4c).

Claims (Section 5.2): FlexLoRA is fast at first and falls behind. FSLoRA ends above HeteroLoRA,
FlexLoRA and FedStackLoRA. A larger r helps at the same k, a larger k at the same r.

What the text leaves open, and the choices here: "at first" is the first measured time. Every method
has its own step size. The synthetic counterpart (``fslora/fig2``) expects FedStackLoRA ahead where
no rank limits what it merges; here the paper's claim is checked as it is, and may fail. Bytes are
those of the tensors sent, up and down.

What to expect of few rounds, as in the quick profile: they compare speeds, not ends. The server
divides by N, so that a component which k / r of the devices have moved goes k / r of their way, and
the factor r / k, which makes up for it in gradient steps, is lost on AdamW's steps of fixed length.
Then FSLoRA is behind after equal rounds, and a larger r at the same k costs time before it pays.

References: FSLoRA, Section 5; Cho et al., Bai et al., Wang et al. (2024).

The picture shows means over domains and seeds with 90 % bands; checks are paired within seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments._model import Analysis, Block, Check, Columns, Context, Experiment, Series
from experiments._plots import curve, panels
from experiments._rates import mean_band
from experiments._table import Table
from experiments.bridge._federated import (
    PAPER,
    DeviceConfig,
    Values,
    compare,
    gap,
    over_domains,
    said,
    threads,
)
from linsys import InputError
from linsys._validate import whole
from linsys.sketching import FedStackLoRA, FlexLoRA, FSLoRA, HeteroLoRA
from linsys.sketching._federated import Federated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS, WHOLE = "FSLoRA", "LoRA, all of rank r"
METHODS: dict[str, type[Federated]] = {
    WHOLE: FSLoRA,
    "HeteroLoRA": HeteroLoRA,
    "FlexLoRA": FlexLoRA,
    "FedStackLoRA": FedStackLoRA,
    OURS: FSLoRA,
}
#: Curves by the values of their block.
Arms = dict[str, dict[str, Any]]
PANELS = {"accuracy": "test accuracy", "loss": "test cross-entropy"}


@dataclass(frozen=True, kw_only=True)
class FSLoRAConfig(DeviceConfig):
    """The set-up.

    Attributes:
        rounds: T.
        points: rounds at which a curve is measured.
        k: the rank of all devices where r grows.
        global_ranks: r for this k, increasing; ``rank`` is one of them.
        levels: k / r of all devices where r = ``rank``, increasing; 1 is added.
    """

    rounds: int = 32
    points: int = 4
    k: int = 4
    global_ranks: tuple[int, ...] = (4, 16)
    levels: tuple[float, ...] = (0.25,)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("points", self.points, low=1)
        whole("rounds", self.rounds, low=self.points)
        whole("k", self.k, low=1)
        if not self.global_ranks or min(self.global_ranks) < self.k:
            raise InputError(
                f"`global_ranks` must be at least k = {self.k}; found {self.global_ranks}"
            )
        for level in self.levels:
            self.rank_of(level)

    @property
    def times(self) -> list[int]:
        """Rounds that are measured, from 0 on."""
        return [round(self.rounds * i / self.points) for i in range(self.points + 1)]

    @property
    def same(self) -> dict[str, list[tuple[int, int]]]:
        """The (r, k) of both further panels, each in increasing order."""
        low, r = sorted(set(self.global_ranks)), self.rank
        levels = sorted({self.rank_of(level) for level in self.levels})
        return {
            f"k = {self.k}": [(rank, self.k) for rank in low],
            f"r = {r}": [(r, k) for k in (*levels, r)],
        }


def blocks(config: FSLoRAConfig) -> list[Block]:
    """One method at a time; k = 0 for the mixed ranks."""
    mixed: list[Block] = [
        {"method": name, "r": config.rank, "k": _k(config, name)} for name in METHODS
    ]
    pairs = dict.fromkeys(pair for panel in config.same.values() for pair in panel)
    return mixed + [
        {"method": OURS, "r": r, "k": k} for r, k in pairs if (r, k) != (config.rank, config.rank)
    ]


def compute(config: FSLoRAConfig, block: Block, context: Context) -> Columns:
    """Choose a method's step size, then train it on all seeds."""
    name, k = block["method"], block["k"]
    ranks = [k] * config.devices if k else config.ranks()

    def method(gamma: float, seed: int) -> Federated:
        return METHODS[name](
            gamma=gamma, H=config.local_steps, ranks=ranks, optimizer="adamw", seed=seed
        )

    with threads(context):
        return compare(config, method, block["r"], config.times, config.times)


def analyse(config: FSLoRAConfig, table: Table) -> Analysis:
    """Curves over rounds and the claims."""
    mixed: Arms = {
        name: {"method": name, "k": _k(config, name), "r": config.rank} for name in METHODS
    }
    series = [
        Series(name, title, config.times, *mean_band(over_domains(table, value, **where)))
        for value, title in PANELS.items()
        for name, where in mixed.items()
    ]
    found = {name: over_domains(table, **where) for name, where in mixed.items()}
    checks = [
        gap(
            f"accuracy in round {config.times[1]}, FlexLoRA − FSLoRA",
            "fast at first: above 0",
            found["FlexLoRA"][:, 1],
            found[OURS][:, 1],
        ),
        *(
            gap(
                f"final accuracy, FSLoRA − {name}",
                "above 0",
                found[OURS][:, -1],
                found[name][:, -1],
            )
            for name in ("FlexLoRA", "HeteroLoRA", "FedStackLoRA")
        ),
    ]
    for fixed, pairs in config.same.items():
        curves = [_of(config, table, r, k) for r, k in pairs]
        names = [f"r = {r}" if fixed.startswith("k") else f"k = {k}" for r, k in pairs]
        series += [
            Series(name, f"test accuracy, {fixed}", config.times, *mean_band(values))
            for name, values in zip(names, curves, strict=True)
        ]
        if len(names) > 1:
            checks.append(_grows(fixed, names, curves))
    return Analysis(series, checks, _notes(config, table, found, mixed))


def _grows(fixed: str, names: list[str], curves: list[Values]) -> Check:
    return gap(
        f"final accuracy, FSLoRA with {fixed}: {names[-1]} against {names[0]}",
        "above 0",
        curves[-1][:, -1],
        curves[0][:, -1],
    )


def _k(config: FSLoRAConfig, name: str) -> int:
    """The rank of all devices, 0 for mixed ones."""
    return config.rank if name == WHOLE else 0


def _of(config: FSLoRAConfig, table: Table, r: int, k: int) -> Values:
    """FSLoRA with one rank for all; LoRA where it is r."""
    name = WHOLE if r == k == config.rank else OURS
    return over_domains(table, method=name, r=r, k=k)


def _notes(
    config: FSLoRAConfig,
    table: Table,
    found: dict[str, Values],
    mixed: Arms,
) -> list[str]:
    sent = []
    for name, where in mixed.items():
        up, down = (over_domains(table, way, **where)[0, -1] / 1e6 for way in ("up", "down"))
        sent.append(f"{name} {up:.2f} and {down:.2f}")
    whole_end = found[WHOLE][:, -1].mean()
    return [
        f"final accuracies: {', '.join(f'{n} {v[:, -1].mean():.3f}' for n, v in found.items())}",
        f"LoRA, which no sketch slows down, is {whole_end - found[OURS][:, -1].mean():+.3f} "
        "ahead of FSLoRA after as many rounds",
        f"megabytes of a device, up and down: {', '.join(sent)}",
        *said(config, table, "method", "r", "k"),
    ]


def draw(config: FSLoRAConfig, analysis: Analysis) -> Figure:
    """Every panel with its own legend."""
    figure, axes = panels(analysis.series, columns=2, width=3.4, height=2.6, share_y=False)
    for panel, ax in axes.items():
        inside = [s for s in analysis.series if s.panel == panel]
        for position, one in enumerate(inside):
            curve(ax, one, position=position)
        ax.set_xlabel("round")
        if panel == PANELS["loss"]:
            ax.set_yscale("log")
        else:
            ax.legend(loc="best", fontsize=7)
    return figure


EXPERIMENT = Experiment(
    id="bridge/fslora",
    title="FSLoRA and three ways to join adapters of different ranks, on a language model",
    source="Figures 2, 4b and 4c, Section 5",
    kind="figure",
    config_type=FSLoRAConfig,
    profiles={
        "quick": FSLoRAConfig(),
        "paper": FSLoRAConfig(
            **PAPER,
            rounds=200,
            points=10,
            k=8,
            global_ranks=(8, 16, 32, 64),
            levels=(0.125, 0.25, 0.5),
        ),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
