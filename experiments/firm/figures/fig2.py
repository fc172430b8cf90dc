"""Figure 2: the weights of two clients without regularisation and with beta = .05.

Problem and assumptions: two identical clients, see ``_alignment``; in one setting the objectives
pull apart as in the other figures, in the other they are almost one: rewards share all but one
twentieth of themselves.

Algorithms: FIRM with the trace-normalised Gram matrix and beta = 0 or beta = .05.

Claims (Section 5, RQ2, and the caption): without regularisation the weights of the two clients
diverge and fluctuate; this lowers both rewards; beta = .05 makes them consistent.

What follows from equation (9): a normalised Gram matrix of two gradients is [[1 + e, g], [g, 1 -
e]] with |g| <= 1, and a solution inside the simplex is lambda^1 - 1/2 = -(e / 2) / (1 - g + beta /
2).

- beta brings the weights of any client nearer to 1/2, by the factor (1 - g) / (1 - g + beta / 2).
  That is no less than .975 wherever gradients are at right angles or oppose each other (g <= 0),
  and one half only where they are almost parallel (1 - g = beta / 2).
- Where the weights move, the direction hardly does. It changes by |lambda^1_beta - lambda^1_0|
  ||g^1 - g^2||, and ||g^1 - g^2||^2 = 2 (1 - g). For |e| <= 1 - g, where lambda_0 is inside, that
  is (|e| / 2) (beta / 2) sqrt(2 / (1 - g)) / (1 - g + beta / 2), largest at |e| = 1 - g = beta / 2;
  for larger |e| lambda_0 stays at its corner and lambda_beta comes nearer to it. So the change is
  at most sqrt(beta) / 4, 5.6 % of the root mean square length of the gradients, whatever they are.

So beta = .05 is to make no marked difference, neither in rewards nor, where objectives conflict, in
weights. The checks are about these predictions.

What the text leaves open, and the choices here: beta = 0 and beta = .05 see the same samples. The
distance of clients is the mean over time of |lambda^{1,1} - lambda^{1,2}|. "At least .9" leaves
room for the runs of the two settings to part after the first step, from where on the factor .975
no longer compares like with like.

References: FIRM, Section 5, Appendix A.1 and equation (9).

The picture shows one run of one instance, weights as they are (thin) and smoothed as in the paper;
checks are over instances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.firm._alignment import OBJECTIVES, RegularisedConfig
from experiments.firm._comparison import (
    SmoothedConfig,
    Values,
    advantage,
    ema,
    rewards_match,
    round_ticks,
    scale,
)
from experiments.firm._words import format_interval, outcome
from linsys import InputError
from mgda.momdp import MOMDP
from mgda.trajectories import Clients

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Settings, and whether their objectives are almost one.
SETTINGS = {"conflicting objectives": False, "almost one objective": True}


@dataclass(frozen=True, kw_only=True)
class Fig2Config(SmoothedConfig, RegularisedConfig):
    """The set-up."""

    clients: int = rc.param(2, doc="two, whose weights are drawn.")
    beta: float = rc.param(0.05, above=0.0, doc="the regularisation that is compared with none.")
    common: float = rc.param(
        0.95, low=0.0, high=1.0, doc="what the rewards share where objectives are almost one."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clients != 2:
            raise InputError(f"`clients` must be 2, whose weights are drawn; found {self.clients}")

    def process(self, instance: int, almost_one: bool) -> MOMDP:
        """The conflicting process, or the one whose rewards are alike."""
        momdp = self.momdp(instance)
        if not almost_one:
            return momdp
        shared = momdp.r.mean(axis=-1, keepdims=True)
        return replace(momdp, r=(1.0 - self.common) * momdp.r + self.common * shared)

    @property
    def arms(self) -> dict[str, float]:
        """The values of beta by name."""
        return {f"β = {beta:g}": beta for beta in (0.0, self.beta)}


def compute(config: Fig2Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Rewards and both clients' weights of helpfulness, at all steps, in both settings."""
    k = block["instance"]
    trained = [
        [
            config.train(config.firm(beta), Clients(config.process(k, alike), 2), k, config.steps)
            for beta in config.arms.values()
        ]
        for alike in SETTINGS.values()
    ]
    rewards = np.array([[arm[0] for arm in setting] for setting in trained])
    weights = np.array([[arm[1] for arm in setting] for setting in trained])
    return rc.long_table(
        {
            "setting": list(SETTINGS),
            "arm": list(config.arms),
            "replicate": np.arange(config.replicates),
            "t": config.steps,
        },
        reward_1=rewards[..., 0],
        reward_2=rewards[..., 1],
        client_1=weights[..., 0],
        client_2=weights[..., 1],
    )


def analyse(config: Fig2Config, table: rc.Table) -> rc.Analysis:
    """Weights and rewards of the first run; what beta changes, over instances."""
    none, some = config.arms
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    notes: list[str] = []
    t = config.steps / config.K
    for setting, alike in SETTINGS.items():
        part = table.where(setting=setting)
        run = part.where(instance=0, replicate=0)
        for arm in config.arms:
            for client in (1, 2):
                weight = run.where(arm=arm).grid(f"client_{client}", "t")
                title, name = panel(setting, f"weights, {arm}"), f"client {client}"
                series.append(rc.Series(f"{name}{RAW}", title, t, weight))
                series.append(rc.Series(name, title, t, ema(weight, config.half_life)))
        for arm in config.arms:
            rewards = [run.where(arm=arm).grid(f"reward_{j}", "t") for j in OBJECTIVES]
            series.append(rc.Series(arm, panel(setting, REWARD), t, np.mean(rewards, axis=0)))
        spread = {arm: _distance(part.where(arm=arm)) for arm in config.arms}
        ratio = rc.paired_ratio(spread[some], spread[none])
        name = f"distance of the clients' weights, {some} / {none} ({setting})"
        checks.append(rc.below(name, "more consistent: below 1", ratio, remark=ratio.wins))
        if not alike:
            name = f"size of that ratio ({setting})"
            predicted = "at least 0.9: only near-parallel gradients feel β"
            checks.append(rc.at_least(name, predicted, ratio, 0.9))
        reward_checks = rewards_match(OBJECTIVES.values(), part, none, some)
        checks += [replace(check, name=f"{check.name} ({setting})") for check in reward_checks]
        changes = {w: advantage(part, j, none, some) for j, w in OBJECTIVES.items()}
        lost = [rc.below(w, "both rewards fall: below 0", v, 0.0) for w, v in changes.items()]
        notes.append(
            f"{setting}: the clients' weights of one objective differ by {spread[none].mean():.3f} "
            f"without regularisation and by {spread[some].mean():.3f} with {some}; without it the "
            "gains are larger or smaller by these shares: "
            + ", ".join(f"{w} {format_interval(v, '+.1%')}" for w, v in changes.items())
            + f"; the paper's claim that both rewards fall without it is {outcome(lost)}"
        )
    return rc.Analysis(series, checks, [*notes, *_notes(config, table)])


REWARD = "mean of both rewards"
#: Added to the name of a curve that is not smoothed.
RAW = ", every step"


def panel(setting: str, what: str) -> str:
    """The name of one panel."""
    return f"{setting}: {what}"


def _distance(part: rc.Table) -> Values:
    """Mean over runs and time of |lambda^{1,1} - lambda^{1,2}|, (instances,)."""
    pair = [part.grid(f"client_{c}", "instance", "replicate", "t") for c in (1, 2)]
    return np.asarray(np.abs(pair[0] - pair[1]).mean(axis=(1, 2)))


def _notes(config: Fig2Config, table: rc.Table) -> list[str]:
    conflict = table.where(setting=next(iter(SETTINGS)), arm=next(iter(config.arms)))
    last = conflict.where(t=config.steps[-1])
    ends = np.mean([last.grid(f"reward_{j}", "instance", "replicate") for j in OBJECTIVES], axis=0)
    runs = ends.std(axis=1, ddof=1)
    share = runs.mean() / scale(conflict, next(iter(config.arms))).mean()
    return [
        "derived: rewards can hardly depend on regularisation in this way; whatever the gradients "
        f"are, β = {config.beta:g} changes a client's direction by at most sqrt(β) / 4 = "
        f"{np.sqrt(config.beta) / 4:.1%} of their root mean square length, and by that only where "
        "they are almost parallel",
        "runs that differ in their samples alone end apart by a standard deviation of "
        f"{share:.1%} of the gain in the mean of both rewards; two single runs that are compared, "
        "as in the paper, differ by that much for no reason",
        f"β = {config.beta:g} divides a weight's distance from 1/2 by 1 + (β / 2) / (1 - g), g "
        "being the normalised inner product of the gradients: by at most "
        f"{1 + config.beta / 2:.3f} where they do not agree, and not at all for a client whose "
        "weights are at a corner and stay there; to halve the distance of clients whose gradients "
        "are at right angles β would have to be 2",
    ]


def draw(config: Fig2Config, analysis: rc.Analysis) -> Figure:
    """A row for each setting: weights without and with regularisation, rewards."""
    figure, axes = rc.panels(analysis.series, columns=3, width=2.7, share_y=False)
    none, some = config.arms  # in the paper's colours; clients in others
    positions = {"client 1": 2, "client 2": 5, none: 3, some: 0}
    for s in analysis.series:
        position = positions[s.name.removesuffix(RAW)]
        line: dict[str, Any] = {}
        if s.name.endswith(RAW):
            line = {"linewidth": 0.6, "alpha": 0.5, "marker": ""}
        elif s.name == none:  # a wide line, because the curve of the other beta lies on top of it
            line = {"linewidth": 4.0, "alpha": 0.5, "marker": ""}
        rc.curve(axes[s.panel], s, position=position, **line)
    for place, (title, ax) in enumerate(axes.items()):
        setting, _, what = title.partition(": ")
        ax.set_title(what if place < 3 else "")
        if what == REWARD:
            one, other = (np.asarray(s.y) for s in analysis.series if s.panel == title)
            digit, power = f"{np.abs(one - other).max():.0e}".split("e")
            apart = rf"at most ${digit} \cdot 10^{{{int(power)}}}$ apart"
            ax.text(0.97, 0.05, apart, transform=ax.transAxes, ha="right", fontsize=8)
        ax.set_xticks(round_ticks(config))
        if what != REWARD:
            ax.set_ylim(-0.03, 1.03)
        if place % 3 == 0:
            ax.set_ylabel(f"{setting}\nweight of helpfulness")
        if place >= 3:
            ax.set_xlabel("round")
    rc.legend(figure, axes, columns=6)
    return figure


EXPERIMENT = rc.Experiment(
    id="firm/fig2",
    title="Two clients with and without regularisation",
    source="Figure 2, Section 5",
    kind="figure",
    profiles={"quick": Fig2Config(instances=12), "paper": Fig2Config(instances=60, replicates=16)},
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
