"""Figure 3 on texts: preferences move the trained policy along the Pareto curve.

Problem and assumptions: clients with prompts of one kind, see ``bridge/_firm``. Of the built-in
rewards the Pareto front over all policies is known (:func:`lora_bridge.toy_rewards.pareto_front`);
adapters of a given model, a few rounds and a penalty on the divergence stay inside of it, by as
much as a note says.

Algorithm: FIRM with Diag(1 / p) in the place of (beta / 2) I, equation (3), for preferences p =
(p^1, 1 - p^1), and the trace-normalised Gram matrix.

Claim (Section 5, RQ3, and the caption): a larger preference for an objective raises its final
reward.

What the text leaves open, and the choices here: the scale of p, on the simplex as in ``firm/fig3``:
for gradients of one length at right angles lambda^j is proportional to p^j / (1 + p^j), between 1/2
and p. The weights' order is a matter of algebra and checked as such: for the same gradients
lambda^1 rises with p^1. The claim about rewards is checked at the ends of the curve, and for all
neighbours at once in the smallest increase.

References: FIRM, Section 3, equation (3), and Section 5.

The picture shows means over seeds, on the tests' prompts; 90 % bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.bridge.models import Values
from experiments.firm._comparison import FIRM_LOOK, curves_of, gain, in_gains
from experiments.firm.bridge._firm import LAPTOP, PAPER, Arm, FirmConfig
from experiments.firm.bridge._firm_comparison import notes_on_runs
from experiments.firm.bridge._firm_runs import columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

START, NAME = "before training", "FIRM"
PLANE, WEIGHTS = "rewards", "mean weight"


@dataclass(frozen=True, kw_only=True)
class Fig3Config(FirmConfig):
    """The set-up."""

    beta: float = rc.param(
        0.01,
        doc="of the FIRM that chooses among several ``gammas``; preferences take its place then.",
    )
    clients: int = 4
    preferences: tuple[float, ...] = rc.param(
        (0.1, 0.3, 0.5, 0.7, 0.9),
        above=0.0,
        below=1.0,
        increasing=True,
        doc="values of p^1, the first objective's weight, increasing.",
    )

    @property
    def names(self) -> list[str]:
        """The arms."""
        return [f"p = {p:g}" for p in self.preferences]


def compute(config: Fig3Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """All preferences on one draw."""
    arms = {
        name: Arm(config.firm(beta=0.0, preference=(p, 1.0 - p)))
        for name, p in zip(config.names, config.preferences, strict=True)
    }
    return columns(config, arms, block["draw"], context)


def analyse(config: Fig3Config, table: rc.Table) -> rc.Analysis:
    """The curve, weights and gains over preferences, and the claim."""
    p = np.array(config.preferences)
    part = table.where(t=1)
    ends = np.array([[part.where(arm=a)[f"end_{j}"] for a in config.names] for j in (1, 2)])
    start = [part[f"start_{j}"].mean() for j in (1, 2)]
    series = []
    series.append(rc.Series(NAME, PLANE, *ends.mean(axis=-1)))
    series.append(rc.Series(START, PLANE, *np.array(start)[:, None]))
    weights = np.array([curves_of(table, "weight", a).mean(axis=1) for a in config.names])
    series.append(rc.Series(NAME, WEIGHTS, p, *rc.mean_band(weights.T)))
    middle = config.names[len(p) // 2]
    checks: list[rc.Check] = [
        rc.above(
            "smallest increase of the mean weight from one preference to the next",
            "rises with p: above 0",
            _smallest(np.diff(weights, axis=0)),
        )
    ]
    for sign, j, title in zip((1.0, -1.0), (1, 2), config.objectives, strict=True):
        gains = np.array([gain(table, j, a) for a in config.names])
        series.append(rc.Series(NAME, f"gain in {title}", p, *rc.mean_band(gains.T)))
        checks += [
            rc.above(
                f"{title}: increase from the least to the largest preference / gain",
                "rises with its preference: above 0",
                in_gains(sign * (gains[-1] - gains[0]), table, middle),
            ),
            rc.above(
                f"{title}: smallest increase from one preference to the next / gain",
                "rises with its preference: above 0",
                in_gains(sign * np.diff(gains, axis=0), table, middle, _smallest),
            ),
        ]
    return rc.Analysis(
        series, checks, [*notes_on_runs(config, table), *_notes(config, ends.mean(axis=-1))]
    )


def _smallest(increases: Values) -> rc.Interval:
    """The smallest of the means of (pairs, seeds), with an interval that allows for the choice."""
    drop = rc.largest_mean(-increases)
    return rc.Interval(-drop.value, -drop.hi, -drop.lo)


def _notes(config: Fig3Config, ends: Values) -> list[str]:
    last = config.preferences[-1]
    orthogonal = last / (1.0 + last) / (last / (1.0 + last) + (1.0 - last) / (2.0 - last))
    notes = [
        f"p = ({last:g}, {1 - last:g}) would give gradients of one length at right angles a weight "
        f"of {orthogonal:.3f}, and parallel ones {last:g}"
    ]
    if not config.reward_models:
        from lora_bridge.toy_rewards import front_gap

        gaps = front_gap(ends.T, config.length)
        notes.append(
            "some policy of all would have more of both rewards by these numbers: "
            + ", ".join(f"{gap:.2f}" for gap in gaps)
        )
    return notes


def draw(config: Fig3Config, analysis: rc.Analysis) -> Figure:
    """The plane of rewards, weights, and the gain in each objective."""
    figure, axes = rc.panels(analysis.series, columns=2, width=3.3, height=2.5, share_y=False)
    for s in analysis.series:
        ax = axes[s.panel]
        own = rc.look(s.name, 2) if s.name == START else FIRM_LOOK
        line: dict[str, Any] = {"color": own.colour, "marker": own.marker}
        rc.curve(ax, s, markers=len(config.preferences), **line)
        if s.panel == PLANE and s.name == NAME:
            for p, x, y in zip(config.preferences, s.x, s.y, strict=True):
                ax.annotate(f"{p:g}", (x, y), xytext=(4, 3), textcoords="offset points", fontsize=7)
    for title, ax in axes.items():
        ax.set_xlabel("preference $p^1$")
        if title != PLANE:
            ax.set_xticks(config.preferences)
            continue
        ax.set_xlabel(config.objectives[0])
        ax.set_ylabel(config.objectives[1])
        ax.margins(0.2)
    rc.legend(figure, axes)
    return figure


EXPERIMENT = rc.Experiment(
    id="bridge/firm_fig3",
    title="Preferences and the Pareto curve, on a language model",
    source="FIRM, Figure 3, Section 5",
    kind="figure",
    profiles={
        "quick": Fig3Config(),
        "laptop": Fig3Config(**LAPTOP, preferences=(0.1, 0.5, 0.9)),
        "paper": Fig3Config(**PAPER, clients=8),
    },
    blocks=rc.Grid({"draw": "seeds"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
