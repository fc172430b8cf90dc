"""Figure 4: improvement of AffPCL over independent learning and FedAvg, over both heterogeneities.

Problem and assumptions: the synthetic system of Appendix B (see affpcl/fig1) on a grid of labels
(delta_env, delta_obj).

Algorithms: AffPCL (8), independent learning, FedAvg; constant step.

Claims (Appendix B): AffPCL always has a lower error than independent learning, by a factor that
grows as heterogeneity falls; it matches FedAvg without heterogeneity, and FedAvg does not
personalise. The paper adds that all methods have a high variance from delta_env = 0.9 on.

What the text leaves open, and the choices here: improvement is the ratio of the rival's MSE^0 to
that of AffPCL, averaged over the last ten rounds, as a geometric mean over instances. Hatched rows
are those where, in some instance, the step is beyond mean-square stability for some agent: its
expected error grows without bound, and an average over runs means little. The checks leave these
rows out.

References: AffPCL, Appendix B.

"Always lower" is a claim about the largest ratio of all cells: it is confirmed where every cell
confirms it, and contradicted where some cell contradicts it with Bonferroni's correction.
"Grows as heterogeneity falls" is the slope of the logarithm of the factor against one label,
averaged over the other, within each instance. Intervals are Student's, over instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.affpcl.figures._synthetic import (
    PopulationConfig,
    Values,
    matches,
    true_levels,
)
from linsys.algorithms import AffPCL, FedAvg, Independent
from linsys.stability import largest_stable_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHODS: dict[str, Any] = {
    "AffPCL": AffPCL(),
    "Independent": Independent(),
    "FedAvg": FedAvg(),
}
#: The panels and the method that each compares with.
RIVALS = {
    "(a) error of independent learning / AffPCL": "Independent",
    "(b) error of FedAvg / AffPCL": "FedAvg",
}
#: The panel of a series that is shown as hatching: which share of instances is unstable.
UNSTABLE = "share of instances beyond mean-square stability"


@dataclass(frozen=True, kw_only=True)
class Fig4Config(PopulationConfig):
    """The set-up."""

    levels: tuple[float, ...] = rc.param(
        (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        low=0.0,
        least=3,
        increasing=True,
        doc="labels of delta_env and of delta_obj, increasing; the grid has all pairs.",
    )
    instances: int = 6


def compute(config: Fig4Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """MSE^0 at the end, mean over runs, per method, instance and delta_obj."""
    shape = (config.instances, len(config.levels))
    errors = {name: np.empty(shape) for name in METHODS}
    true_env, stable = np.empty(config.instances), np.empty(config.instances)
    for k in range(config.instances):
        for o, obj in enumerate(config.levels):
            system = config.system(k, block["env"], obj, config.n)
            if k == o == 0 and block["env"] == min(config.levels):
                config.check_step(system)  # beyond stability at higher levels is a result
            for name, algorithm in METHODS.items():
                late = config.errors(system, algorithm, k, context, config.late)
                errors[name][k, o] = late.mean()
        true_env[k] = true_levels(system)["delta_env"]
        stable[k] = largest_stable_step(system, METHODS["AffPCL"])  # the same for every objective
    return rc.long_table(
        {"instance": np.arange(config.instances), "obj": np.array(config.levels)},
        true_env=true_env[:, None],
        stable_step=stable[:, None],
        **errors,
    )


def analyse(config: Fig4Config, table: rc.Table) -> rc.Analysis:
    """The two maps, and the claims about them."""
    levels = np.array(config.levels)
    errors = {name: table.grid(name, "env", "obj", "instance") for name in METHODS}
    unstable = (table.grid("stable_step", "env", "obj", "instance")[:, 0] <= config.alpha).mean(-1)
    logs = {name: np.log(errors[name] / errors["AffPCL"]) for name in RIVALS.values()}
    series = [
        rc.Series(f"δ_env = {env:g}", title, levels, np.exp(logs[name][e].mean(axis=-1)))
        for title, name in RIVALS.items()
        for e, env in enumerate(levels)
    ]
    series.append(rc.Series("unstable", UNSTABLE, levels, unstable))
    true_env = table.grid("true_env", "env", "obj", "instance")[:, 0].mean(axis=-1)
    steps = table.grid("stable_step", "env", "obj", "instance")[:, 0].min(axis=-1)
    beyond = [
        f"{share:.0%} at δ_env = {env:g} (smallest stable step {step:.2g})"
        for env, share, step in zip(levels, unstable, steps, strict=True)
        if share > 0
    ]
    notes = [
        f"geometric means over {config.instances} instances with {config.replicates} runs each",
        "true δ_env (largest total variation between two agents, mean over instances) at label "
        + ", ".join(f"{env:g}: {v:.3f}" for env, v in zip(levels, true_env, strict=True)),
        f"share of instances in which some agent cannot bear the step {config.alpha:g} in mean "
        f"square: {', '.join(beyond) or 'none at any level'}; such rows are hatched and left out "
        "of the checks",
    ]
    return rc.Analysis(series, _claims(levels, unstable == 0, errors), notes)


def _claims(
    levels: Values, stable: NDArray[np.bool_], errors: dict[str, NDArray[Any]]
) -> list[rc.Check]:
    """The claims on the stable rows; ``errors`` have shape (env, obj, instance)."""
    if not stable.any():
        return []
    ours, alone, federated = (errors[name][stable] for name in METHODS)
    gain = np.log(alone) - np.log(ours)
    checks = [_always("Independent", "cells", -gain, levels[stable], levels)]
    if stable.sum() > 1:
        checks.append(_grows("δ_env", levels[stable], gain.mean(axis=1)))
    checks.append(_grows("δ_obj", levels, gain.mean(axis=0)))
    if levels[0] == 0 and stable[0]:
        same = rc.paired_ratio(ours[0, 0], federated[0, 0])
        checks.append(matches("AffPCL / FedAvg (δ = 0)", same))
    several = levels > 0  # with a single objective personalisation has no advantage over FedAvg
    loss = (np.log(ours) - np.log(federated))[:, several]
    cells = "cells with δ_obj > 0"
    return [*checks, _always("FedAvg", cells, loss, levels[stable], levels[several])]


def _always(rival: str, cells: str, loss: Values, envs: Values, objs: Values) -> rc.Check:
    """Check that ln(AffPCL / rival), (env, obj, instance), is below zero in every cell."""
    means = loss.mean(axis=-1)
    row, column = np.unravel_index(int(means.argmax()), means.shape)
    name = (
        f"AffPCL / {rival}, worst of {means.size} {cells} "
        f"(δ_env = {envs[row]:g}, δ_obj = {objs[column]:g})"
    )
    worst = rc.exponential(rc.largest_mean(loss.reshape(means.size, -1)))
    return rc.below(name, "always below 1", worst)


def _grows(label: str, levels: Values, gain: Values) -> rc.Check:
    """Check that the logarithm of the factor, (levels, instances), falls with a label."""
    centred = levels - levels.mean()
    slope = rc.mean_interval(centred @ gain / (centred @ centred))
    name = f"slope of ln(Independent / AffPCL) against {label}"
    return rc.below(name, "below 0", slope, 0.0)


def draw(config: Fig4Config, analysis: rc.Analysis) -> Figure:
    """Two heat maps side by side."""
    from matplotlib.patches import Patch

    maps = [s for s in analysis.series if s.panel != UNSTABLE]
    (unstable,) = (s for s in analysis.series if s.panel == UNSTABLE)
    figure, axes = rc.panels(maps, width=3.9, height=3.3)
    for title, ax in axes.items():
        factors = np.array([s.y for s in maps if s.panel == title])
        _heat_map(figure, ax, np.asarray(unstable.x), factors, np.asarray(unstable.y) > 0)
        ax.set_xlabel("label $\\delta_{\\mathrm{obj}}$")
    axes[next(iter(axes))].set_ylabel("label $\\delta_{\\mathrm{env}}$")
    if np.any(unstable.y):
        text = "some agent is unstable in mean square in some instance"
        mark = Patch(facecolor="0.5", edgecolor="white", hatch="//", label=text)
        figure.legend(handles=[mark], loc="outside lower center")
    return figure


def _heat_map(
    figure: Figure, ax: Axes, levels: Values, factors: Values, hatched: NDArray[np.bool_]
) -> None:
    """One map with its numbers; rows are delta_env, and the stable ones set the colours."""
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    scale = factors if hatched.all() else factors[~hatched]
    low, high = float(scale.min()), float(scale.max())
    norm = LogNorm(low, high, clip=True)
    image = ax.imshow(factors, norm=norm, cmap="cividis", origin="lower", aspect="auto")
    dense = 7.0 if len(levels) <= 8 else 5.0
    for (row, column), factor in np.ndenumerate(factors):
        colour = "white" if norm(factor) < 0.5 else "black"
        text = f"{factor:.1f}" if factor < 9.95 else f"{factor:.0f}"
        text = text if factor >= 0.05 else "<0.1"
        place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": dense}
        if hatched[row]:  # the lines of the hatching end before the number
            place["bbox"] = {"facecolor": image.cmap(norm(factor)), "linewidth": 0, "pad": 1.5}
        ax.text(column, row, text, color=colour, **place)
    for row in np.flatnonzero(hatched):
        corner, width = (-0.5, row - 0.5), len(levels)
        mark: dict[str, Any] = {"fill": False, "linewidth": 0.0, "hatch": "//"}
        ax.add_patch(Rectangle(corner, width, 1, edgecolor="white", alpha=0.6, **mark))
    names = [f"{level:g}" for level in levels]
    ax.set_xticks(range(len(levels)), names)
    ax.set_yticks(range(len(levels)), names)
    ax.grid(visible=False)
    ticks = [v for v in (1, 2, 5, 10, 20, 50, 100, 200, 500) if low <= v <= high]
    beyond = "neither" if factors.min() >= low else "min"
    bar = figure.colorbar(image, ax=ax, extend=beyond)
    bar.set_ticks(ticks, labels=[f"{v:g}" for v in ticks])
    bar.ax.minorticks_off()
    bar.set_label("ratio of the errors")


EXPERIMENT = rc.Experiment(
    id="affpcl/fig4",
    title="Improvement of AffPCL over both kinds of heterogeneity",
    source="Figure 4, Appendix B",
    kind="figure",
    profiles={
        "quick": Fig4Config(),
        "paper": Fig4Config(levels=tuple(k / 10 for k in range(11)), instances=20),
    },
    blocks=rc.Grid({"env": "levels"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
)
