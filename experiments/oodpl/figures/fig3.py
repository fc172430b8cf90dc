"""Figure 3: the true reward of sampled answers against the sampling temperature.

Problem and assumptions: four domains, each held out in turn; see ``_domains``.

Algorithms: all methods there, each with one policy per held-out domain; answers are sampled from
pi^(1 / temperature).

Claims (Section 4.3): the variances of all methods' rewards grow with the temperature; OOD-PL has
the best median on all domains at all temperatures.

What the text leaves open, and the choices here: rewards are those of the truth, not of a classifier
that was learned, and their means and standard deviations are exact sums. There is nothing to
repeat, and no median of a few samples.

What a temperature does not do: log pi is log h + theta . psi, up to a constant, and a temperature
divides both terms, so that the order of answers stays. The scale of a reward multiplies the second
one alone and changes the order. Hence cold sampling does not make up for a reward of the wrong
scale, while a fitted beta does: the control to look at is "MLE, fitted beta", at all temperatures.

References: OOD-PL, Section 4.3.

The picture shows means over instances, with 95 % intervals for OOD-PL; checks are paired within
instances and about means over the four domains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import ratecheck as rc
from experiments.oodpl._domains import (
    CONTROLS,
    ORACLES,
    OURS,
    RIVALS,
    MethodsConfig,
    Values,
    ahead,
    columns,
)
from experiments.oodpl._style import METHODS, ours_on_top
from linsys.bilevel import expected_reward

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOMAINS = 4
SPREAD = "standard deviation, all domains"


@dataclass(frozen=True, kw_only=True)
class Fig3Config(MethodsConfig):
    """The set-up."""

    temperatures: tuple[float, ...] = rc.param(
        (0.25, 0.5, 0.75, 1.0),
        above=0.0,
        increasing=True,
        doc="answers are sampled from pi^(1 / temperature); increasing.",
    )


def compute(config: Fig3Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """All policies of all held-out domains at all temperatures."""
    instance = block["instance"]
    sampled, exact = config.domains(instance, DOMAINS)
    rows = []
    for fold in range(DOMAINS):
        train = [d for i, d in enumerate(sampled) if i != fold]
        for name, theta in config.policies(train, sampled[fold], instance).items():
            for temperature in config.temperatures:
                reward = expected_reward(exact[fold], theta, temperature)
                where = {"method": name, "fold": fold, "temperature": temperature}
                rows.append({**where, "mean": reward.mean, "std": reward.std})
    return columns(rows)


def rewards(table: rc.Table, value: str, method: str) -> Values:
    """Means or standard deviations, (folds, temperatures, instances)."""
    part = table.where(method=method)
    return np.asarray(part.grid(value, "fold", "temperature", "instance"))


def analyse(config: Fig3Config, table: rc.Table) -> rc.Analysis:
    """One panel for each held-out domain, one for the spread."""
    series = []
    for name in METHODS:
        mean, std = rewards(table, "mean", name), rewards(table, "std", name)
        for panel, values in (
            *((f"reward, domain {fold} held out", mean[fold]) for fold in range(DOMAINS)),
            (SPREAD, std.mean(axis=0)),
        ):
            bands: dict[str, list[float]] = {}
            if name == OURS:
                intervals = [rc.mean_interval(one) for one in values]
                bands = {"lo": [v.lo for v in intervals], "hi": [v.hi for v in intervals]}
            series.append(rc.Series(name, panel, config.temperatures, values.mean(axis=1), **bands))
    return rc.Analysis(series, _checks(config, table), _notes(config, table))


def _checks(config: Fig3Config, table: rc.Table) -> list[rc.Check]:
    means = {name: rewards(table, "mean", name).mean(axis=0) for name in METHODS}
    std = {name: rewards(table, "std", name).mean(axis=0) for name in METHODS}
    ends = f"{config.temperatures[-1]:g} − at {config.temperatures[0]:g}"
    return [
        *(
            rc.mean_above(
                f"{name}: standard deviation at {ends}", "above 0", std[name][-1], std[name][0]
            )
            for name in (*RIVALS, OURS)
        ),
        *(
            ahead(f"reward at {t:g}, ", name, means[OURS][i], means[name][i])
            for i, t in enumerate(config.temperatures)
            for name in RIVALS
        ),
        *(
            rc.mean_above(
                f"reward at {t:g}, {OURS} − {name}",
                "above 0, if it is not scale or loss alone",
                means[OURS][i],
                means[name][i],
            )
            for i, t in enumerate(config.temperatures)
            if t in (config.temperatures[0], config.temperatures[-1])
            for name in CONTROLS
        ),
    ]


def _notes(config: Fig3Config, table: rc.Table) -> list[str]:
    lines = []
    for name in (OURS, *RIVALS, *CONTROLS, *ORACLES):
        mean, std = (rewards(table, v, name).mean(axis=(0, 2)) for v in ("mean", "std"))
        lines.append(
            f"{name} " + ", ".join(f"{m:.2f} ± {s:.2f}" for m, s in zip(mean, std, strict=True))
        )
    at = ", ".join(f"{t:g}" for t in config.temperatures)
    ours = rewards(table, "mean", OURS)
    best = np.all([ours >= rewards(table, "mean", name) for name in RIVALS], axis=0)
    shares = ", ".join(f"{share:.0%}" for share in best.mean(axis=(0, 2)))
    return [
        f"reward ± spread at temperatures {at}: {'; '.join(lines)}",
        f"held-out domains in which {OURS} is the best of the paper's methods: {shares}",
    ]


def draw(config: Fig3Config, analysis: rc.Analysis) -> Figure:
    """A panel for each held-out domain, one for the spread."""
    return rc.draw_panels(
        ours_on_top(analysis.series),
        rc.Panel("temperature", ticks="points"),
        rc.Layout(
            columns=3,
            width=2.7,
            legend=6,
            looks=METHODS,
            markers=6,
            names={OURS: f"{OURS}, 95 % interval"},
        ),
    )


EXPERIMENT = rc.Experiment(
    id="ood/fig3",
    title="True reward of sampled answers against the temperature",
    source="Figure 3, Section 4.3",
    kind="figure",
    profiles={
        "quick": Fig3Config(),
        "paper": Fig3Config(instances=60, K=1000),
    },
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
