"""FSLoRA and its rivals on a language model: Figures 2, 4b and 4c on texts.

Problem and assumptions: devices of four ranks adapt one frozen model to answer questions of several
domains. Each device has its own mix of the domains, in shares drawn from a Dirichlet distribution,
and the answers are tested on questions of every domain that no device has. Without ``data`` the
questions are about generated words.

Algorithms: exactly those of :mod:`linsys.sketching`, on :class:`lora_bridge.oracles.Devices` in the
place of a matrix: FSLoRA (Algorithm 1), HeteroLoRA, FlexLoRA and FedStackLoRA with k_i / r in
{1/8, 1/4, 1/2, 3/4}, and LoRA whose devices all train and send rank r. Then FSLoRA with one rank k
for all devices.

Which panel is which figure: "test accuracy" is Figure 2 (and "test cross-entropy" the same in
loss), "test accuracy, k = .." Figure 4b with k fixed and r growing, "test accuracy, r = .." Figure
4c with r fixed and k / r growing, by round where the paper has bars. Accuracies by task, Tables 5.1
and 5.2: ``bridge/fslora_table``. Figures 3, 4a and 7: ``bridge/fslora_budget``.

What the paper says (Section 5.2): FlexLoRA is fast at first and falls behind. FSLoRA ends above
HeteroLoRA, FlexLoRA and FedStackLoRA. A larger r helps at the same k, a larger k at the same r.
None of this follows from the theory; it is checked as it is, and may fail.

Derivation of the other checks. *Bytes*: k_i components of w numbers each go up from device i in a
round; as many go down, except that FedStackLoRA sends the components of all devices to each.
*Reach*: H steps of AdamW move an entry by at most gamma times ``reach``, whatever the gradients,
and the server divides by N, so that in a round of FSLoRA an entry goes at most mean(k_i) / r of
that on average. The factor r / k, which makes up for it in gradient steps, is lost on steps of
fixed length. Hence FSLoRA is behind after equal rounds where rounds are few, and a larger r at the
same k costs time before it pays. A note says how far the arms went of it.

How settings were chosen: rounds so that LoRA, the arm without sketches, answers nearly all
questions of a tuning draw; step sizes per method from a grid, by test loss on a tuning draw, where
the next larger step of 0.03 had been worse for LoRA and for FSLoRA; the rest by cost. "At first" is
the first measured time. The laptop profile, for SmolLM2-135M-Instruct, is sized by its time on two
cores: the last two layers are adapted, and what is below them is computed once for a text. It does
not reach what is said above: on the tuning draw LoRA has half of the questions right, as by chance,
after 12 rounds and after 32, at steps of .001, .003 and .01. The paper profile has the sizes of
Table A.1 for LLaMA.

References: FSLoRA, Section 5; Cho et al., Bai et al., Wang et al. (2024).

The picture shows means over domains and seeds with 90 % bands; checks are paired within seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.bridge.devices import LAPTOP_GRID, PAPER_GRID, ComparedConfig, RatiosConfig
from experiments.bridge.models import Values, threads
from experiments.bridge.readings import (
    claim,
    identity,
    limits,
    notes_on_runs,
    over_domains,
    within_reach,
)
from experiments.fslora.bridge._device_runs import Method, compare
from linsys import InputError
from linsys.sketching import FedStackLoRA, FlexLoRA, FSLoRA, HeteroLoRA
from linsys.sketching.federated import Federated

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
class FSLoRAConfig(ComparedConfig, RatiosConfig):
    """The set-up."""

    seeds: int = 5
    rounds: int = rc.param(64, low="points", doc="T.")
    points: int = rc.param(4, low=1, doc="rounds at which a curve is measured.")
    k: int = rc.param(4, low=1, doc="the rank of all devices where r grows.")
    global_ranks: tuple[int, ...] = rc.param(
        (4, 16), doc="r where ``k`` is given, increasing; ``rank`` is one of them."
    )
    levels: tuple[float, ...] = rc.param(
        (0.25,), doc="k / r of all devices where r = ``rank``, increasing; 1 is added."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
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


def mixed_arms(config: RatiosConfig) -> Arms:
    """The methods at mixed ranks, for which k is 0, and LoRA."""
    ranks = {name: config.rank if name == WHOLE else 0 for name in METHODS}
    return {name: {"method": name, "r": config.rank, "k": k} for name, k in ranks.items()}


def method_of(config: RatiosConfig, block: rc.Block) -> Method:
    """The algorithm of a block, of a step size and a seed."""
    k = block["k"]
    ranks = [k] * config.devices if k else config.ranks()

    def method(gamma: float, seed: int) -> Federated:
        return METHODS[block["method"]](
            gamma=gamma, H=config.local_steps, ranks=ranks, optimizer="adamw", seed=seed
        )

    return method


def blocks(config: FSLoRAConfig) -> list[rc.Block]:
    """One method at a time; k = 0 for the mixed ranks."""
    mixed: list[rc.Block] = [*mixed_arms(config).values()]
    pairs = dict.fromkeys(pair for panel in config.same.values() for pair in panel)
    return mixed + [
        {"method": OURS, "r": r, "k": k} for r, k in pairs if (r, k) != (config.rank, config.rank)
    ]


def compute(config: FSLoRAConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Choose a method's step size, then train it on all seeds."""
    with threads(context):
        return compare(
            config, context, method_of(config, block), block["r"], config.times, config.times
        )


def analyse(config: FSLoRAConfig, table: rc.Table) -> rc.Analysis:
    """Curves over rounds, what is derived of them, and what the paper says."""
    mixed = mixed_arms(config)
    series = [
        rc.Series(name, title, config.times, *rc.mean_band(over_domains(table, value, **where)))
        for value, title in PANELS.items()
        for name, where in mixed.items()
    ]
    accuracies = {name: over_domains(table, **where) for name, where in mixed.items()}
    claims = [
        claim(
            f"FlexLoRA above FSLoRA in accuracy in round {config.times[1]}",
            accuracies["FlexLoRA"][:, 1],
            accuracies[OURS][:, 1],
        ),
        *(
            claim(
                f"FSLoRA above {name} in final accuracy",
                accuracies[OURS][:, -1],
                accuracies[name][:, -1],
            )
            for name in ("FlexLoRA", "HeteroLoRA", "FedStackLoRA")
        ),
    ]
    for fixed, pairs in config.same.items():
        ends = [_of(config, table, r, k) for r, k in pairs]
        names = [f"r = {r}" if fixed.startswith("k") else f"k = {k}" for r, k in pairs]
        series += [
            rc.Series(name, f"test accuracy, {fixed}", config.times, *rc.mean_band(values))
            for name, values in zip(names, ends, strict=True)
        ]
        claims += [
            claim(
                f"FSLoRA with {fixed} and {names[-1]} above {name} in final accuracy",
                ends[-1][:, -1],
                values[:, -1],
            )
            for name, values in zip(names[:-1], ends[:-1], strict=True)
        ]
    name = "FSLoRA, way of an entry in a round / (k/r of what H steps of AdamW can do)"
    derived = [byte_check(config, table), within_reach(name, _shares(config, table))]
    return rc.Analysis(series, [*derived, *claims], _notes(config, table, accuracies, mixed))


def byte_check(config: RatiosConfig, table: rc.Table) -> rc.Check:
    """Check that the methods' bytes over LoRA's are those that follow from their ranks."""
    mixed, mean = mixed_arms(config), float(np.mean(config.ranks())) / config.rank
    predicted = {name: (mean, mean) for name in METHODS}
    predicted[WHOLE] = (1.0, 1.0)
    predicted["FedStackLoRA"] = (mean, mean * config.devices)
    ratios = []
    for name, both in predicted.items():
        for way, law in zip(("up", "down"), both, strict=True):
            sent, whole_sent = (
                over_domains(table, way, **mixed[one])[:, -1] for one in (name, WHOLE)
            )
            ratios += list(sent / whole_sent / law)
    name = "bytes up and down of all methods over LoRA's / what the ranks say"
    return identity(name, np.array(ratios), 1e-9)


def _name(block: rc.Block) -> str:
    """The name of a block's arm in figures and notes."""
    if block["method"] == OURS and block["k"]:
        return f"{OURS} with r = {block['r']} and k = {block['k']} for all"
    return str(block["method"])


def _shares(config: FSLoRAConfig, table: rc.Table) -> dict[str, Values]:
    """The share of their reach that arms of FSLoRA used, (seeds,) by arm."""
    shares = {}
    for block in blocks(config):
        if block["method"] in (OURS, WHOLE):
            k = block["k"] or float(np.mean(config.ranks()))
            part, share = table.where(**block), k / block["r"]
            shares[_name(block)] = limits(config, part, config.rounds, share)
    return shares


def _of(config: FSLoRAConfig, table: rc.Table, r: int, k: int) -> Values:
    """The accuracies of FSLoRA with one rank k for all, which is LoRA where k is r."""
    name = WHOLE if r == k == config.rank else OURS
    return over_domains(table, method=name, r=r, k=k)


def _notes(
    config: FSLoRAConfig,
    table: rc.Table,
    accuracies: dict[str, Values],
    mixed: Arms,
) -> list[str]:
    sent = []
    for name, where in mixed.items():
        up, down = (over_domains(table, way, **where)[0, -1] / 1e6 for way in ("up", "down"))
        sent.append(f"{name} {up:.3g} and {down:.3g}")
    whole_end = accuracies[WHOLE][:, -1].mean()
    finals = (f"{name} {v[:, -1].mean():.3f}" for name, v in accuracies.items())
    return [
        f"final accuracies: {', '.join(finals)}",
        f"LoRA, which no sketch slows down, is {whole_end - accuracies[OURS][:, -1].mean():+.3f} "
        "ahead of FSLoRA after as many rounds",
        f"megabytes of a device, up and down: {', '.join(sent)}",
        "way of an entry in a round, over what H steps of AdamW can do: "
        + "; ".join(f"{name}: {v.mean():.2f}" for name, v in _shares(config, table).items()),
        *notes_on_runs(
            config, table, {_name(block): table.where(**block) for block in blocks(config)}
        ),
    ]


def draw(config: FSLoRAConfig, analysis: rc.Analysis) -> Figure:
    """Every panel with its own legend."""
    figure, axes = rc.panels(analysis.series, columns=2, width=3.4, height=2.6, share_y=False)
    for panel, ax in axes.items():
        inside = [s for s in analysis.series if s.panel == panel]
        for position, one in enumerate(inside):
            rc.curve(ax, one, position=position)
        ax.set_xlabel("round")
        if panel == PANELS["loss"]:
            ax.set_yscale("log")
        else:
            ax.legend(loc="best", fontsize=7)
    return figure


EXPERIMENT = rc.Experiment(
    id="bridge/fslora",
    title="FSLoRA and three ways to join adapters of different ranks, on a language model",
    source="Figures 2, 4b and 4c, Section 5",
    kind="figure",
    profiles={
        "quick": FSLoRAConfig(),
        "laptop": FSLoRAConfig(**LAPTOP_GRID, rounds=12, points=2, k=2, global_ranks=(2, 8)),
        "paper": FSLoRAConfig(
            **PAPER_GRID,
            rounds=750,
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
