"""Figure 2 on texts: two clients without regularisation and with beta = .05.

Problem and assumptions: as in ``bridge/_firm``, two clients with prompts of one kind. In one
setting the rewards pull apart; in the other they are almost one: they share all but one twentieth
of themselves.

Algorithms: FIRM with the trace-normalised Gram matrix and beta = 0 or beta = .05.

Claims (Section 5, RQ2, and the caption): without regularisation the weights of the two clients
diverge and fluctuate; this lowers both rewards; beta = .05 makes them consistent. That rewards
match is what follows from the next paragraph, and checked beside the claim that they do not.

What follows from equation (9), for any gradients (``firm/fig2`` has the steps): with normalised
Gram matrix [[1 + e, g], [g, 1 - e]] a solution inside the simplex is lambda^1 - 1/2 = -(e / 2) / (1
- g + beta / 2). So beta draws it to 1/2 by the factor f = (1 - g) / (1 - g + beta / 2), and the
disagreement of clients of one g by f^2. beta = .05 leaves f^2 >= .9 wherever g <= 1/2, and is felt
only where gradients are almost parallel. There the direction hardly depends on the weights: it
changes by at most sqrt(beta) / 4 of the gradients' root mean square length, so that rewards cannot
tell.

How the effect is seen: of the gradients of the run without regularisation, step by step, drifts
with and without it are compared; nothing but beta differs. Beside that the two runs, which part
after the first step.

References: FIRM, Section 5, Appendix A.1 and equation (9).

The picture shows one run, weights as they are (thin) and smoothed as in the paper; drifts and
rewards are means over seeds with 90 % bands, those of drifts geometric, where zero (both clients at
one vertex) counts as 1e-12. Checks are over seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.bridge.models import Values
from experiments.firm._comparison import (
    SmoothedConfig,
    advantage,
    curves_of,
    ema,
    gain,
    mean_gain,
    rewards_match,
    round_ticks,
)
from experiments.firm.bridge._firm import LAPTOP, PAPER, Arm, FirmConfig, FirmSetup
from experiments.firm.bridge._firm_comparison import DRIFT, log_band, notes_on_runs
from experiments.firm.bridge._firm_runs import columns
from linsys import InputError
from linsys.validate import check_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lora_bridge.rewards import Reward

#: Settings, and whether their objectives are almost one.
SETTINGS = {"conflicting objectives": False, "almost one objective": True}
REWARD = "mean of both rewards"
#: Added to the name of a curve that is not smoothed.
RAW = ", every step"


@dataclass(frozen=True, kw_only=True)
class Fig2Config(SmoothedConfig, FirmConfig):
    """The set-up."""

    clients: int = rc.param(2, doc="two, whose weights are drawn.")
    beta: float = rc.param(0.05, doc="the regularisation that is compared with none.")
    more: tuple[float, ...] = rc.param(
        (0.5, 2.0), above=0.0, doc="further values of beta, for the same gradients."
    )
    common: float = rc.param(
        0.95, low=0.0, high=1.0, doc="what the rewards share where objectives are almost one."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta", self.beta, low=0.0, low_open=True)
        if self.clients != 2:
            raise InputError(f"`clients` must be 2, whose weights are drawn; found {self.clients}")

    @property
    def betas(self) -> tuple[float, ...]:
        """All of them, none first."""
        return (0.0, *dict.fromkeys((self.beta, *self.more)))

    @property
    def names(self) -> tuple[str, str]:
        """The two arms."""
        return _name(0.0), _name(self.beta)


def _name(beta: float) -> str:
    return f"β = {beta:g}"


def almost_one(rewards: Sequence[Reward], common: float) -> list[Reward]:
    """Two rewards of which each is ``common`` times their mean, and itself for the rest."""
    from lora_bridge.rewards import Declared

    def mixed(j: int) -> Reward:
        shares = [common / 2 + (1.0 - common) * (i == j) for i in (0, 1)]

        def values(prompts: Sequence[str], responses: Sequence[str]) -> Values:
            scores = [np.asarray(r(prompts, responses), float) for r in rewards[:2]]
            return np.asarray(shares[0] * scores[0] + shares[1] * scores[1])

        low, high = (
            sum(s * getattr(r, end) for s, r in zip(shares, rewards[:2], strict=True))
            for end in ("low", "high")
        )
        return Declared(f"{rewards[j].name}, almost shared", values, low, high)

    return [mixed(0), mixed(1)]


def blocks(config: Fig2Config) -> list[rc.Block]:
    """One setting of one draw at a time."""
    return [{"setting": s, "draw": k} for k in range(config.seeds) for s in SETTINGS]


def compute(config: Fig2Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Both arms of a setting."""
    mix, rewards = SETTINGS[block["setting"]], FirmSetup(config).rewards()
    used = almost_one(rewards, config.common) if mix else rewards[:2]
    arms = {
        _name(beta): Arm(config.firm(beta=beta), rewards=lambda client, known: used)
        for beta in (0.0, config.beta)
    }
    return columns(config, arms, block["draw"], context, config.betas)


def analyse(config: Fig2Config, table: rc.Table) -> rc.Analysis:
    """Weights of one run, drifts and rewards of all; what beta changes."""
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    notes = notes_on_runs(config, table)
    for setting, alike in SETTINGS.items():
        part = table.where(setting=setting)
        series += _series(config, part, setting)
        setting_checks, more = _checks_and_notes(config, part, setting, alike)
        checks += setting_checks
        notes += more
    worst = np.sqrt(config.beta) / 4
    notes.append(
        f"derived: whatever the gradients are, {_name(config.beta)} changes a client's direction "
        f"by at most sqrt(β) / 4 = {worst:.1%} of their root mean square length"
    )
    return rc.Analysis(series, checks, notes)


def _series(config: Fig2Config, part: rc.Table, setting: str) -> list[rc.Series]:
    t = config.steps / config.K
    series = []
    for arm in config.names:
        for client in (1, 2):
            weight = curves_of(part, f"client_{client}", arm)[0]
            title, name = f"{setting}: weights, {arm}", f"client {client}"
            series.append(rc.Series(f"{name}{RAW}", title, t, weight))
            series.append(rc.Series(name, title, t, ema(weight, config.half_life)))
    for arm in config.names:
        drift = curves_of(part, "drift", arm).reshape(config.seeds, config.rounds, -1).mean(axis=2)
        series.append(rc.Series(arm, f"{setting}: {DRIFT}", t[:: config.K], *log_band(drift)))
    for arm in config.names:
        both = [curves_of(part, f"reward_{j}", arm)[:, :: config.K] for j in (1, 2)]
        band = rc.mean_band(np.mean(both, axis=0))
        series.append(rc.Series(arm, f"{setting}: {REWARD}", t[:: config.K], *band))
    return series


def _checks_and_notes(
    config: Fig2Config, part: rc.Table, setting: str, alike: bool
) -> tuple[list[rc.Check], list[str]]:
    """The checks and notes of one setting."""
    none, some = config.names
    same = {b: curves_of(part, f"drift_at_{b:g}", none).mean(axis=1) for b in config.betas}
    ratios = {b: rc.paired_ratio(same[b], same[0.0]) for b in config.betas[1:]}
    runs = rc.paired_ratio(*(curves_of(part, "drift", arm).mean(axis=1) for arm in (some, none)))
    distances = [
        np.abs(curves_of(part, "client_1", arm) - curves_of(part, "client_2", arm)).mean(axis=1)
        for arm in (some, none)
    ]
    checks = [
        rc.below(
            f"drift at {_name(b)} / without, same gradients ({setting})",
            "less: below 1",
            ratio,
            remark=ratio.wins,
        )
        for b, ratio in ratios.items()
    ]
    if not alike:
        # only where the derivation holds: the cosine bounds g, whose divisor is a mean of squares
        wide = curves_of(part, "closest", none) <= 0.5
        sums = [
            (curves_of(part, f"drift_at_{b:g}", none) * wide).sum(axis=1) for b in config.betas[:2]
        ]
        checks.append(
            rc.at_least(
                f"size of that ratio at {some}, steps with cosines up to 1/2 ({setting})",
                "at least 0.9: only near-parallel gradients feel β",
                rc.paired_ratio(sums[1], sums[0]),
                0.9,
                remark=f"{wide.mean():.0%} of the steps",
            )
        )
    for what, ratio in (("drift", runs), ("distance of weights", rc.paired_ratio(*distances))):
        name = f"{what} of the runs, {some} / {none} ({setting})"
        checks.append(rc.below(name, "less: below 1", ratio, remark=ratio.wins))
    match = rewards_match(config.objectives, part, none, some)
    checks += [
        rc.Check(f"{c.name} ({setting})", c.predicted, c.measured, c.lo, c.hi, c.ok, c.verdict)
        for c in match
    ]
    checks += [
        rc.below(
            f"{title}, as claimed: ({none} − {some}) / gain ({setting})",
            "lower without regularisation: below 0",
            advantage(part, j, none, some),
            0.0,
        )
        for j, title in enumerate(config.objectives, start=1)
    ]
    cosine = curves_of(part, "cosine", none)
    gains = ", ".join(f"{gain(part, j, some).mean():+.3f}" for j in (1, 2))
    return checks, [
        f"{setting}: cosine of a client's gradients {cosine.mean():.2f} on average, above 1/2 in "
        f"{(cosine > 0.5).mean():.0%} of the steps; training with {some} gains "
        f"{mean_gain(part, some).mean():+.3f} in the mean of both rewards ({gains})"
    ]


def draw(config: Fig2Config, analysis: rc.Analysis) -> Figure:
    """A row for each setting: weights without and with regularisation, drift, rewards."""
    figure, axes = rc.panels(analysis.series, columns=4, width=2.4, share_y=False)
    none, some = config.names  # in the paper's colours; clients in others
    positions = {"client 1": 2, "client 2": 5, none: 3, some: 0}
    for s in analysis.series:
        line: dict[str, Any] = {}
        if s.name.endswith(RAW):
            line = {"linewidth": 0.6, "alpha": 0.5, "marker": ""}
        rc.curve(axes[s.panel], s, position=positions[s.name.removesuffix(RAW)], **line)
    for place, (title, ax) in enumerate(axes.items()):
        setting, _, what = title.partition(": ")
        ax.set_title(what if place < 4 else "")
        ax.set_xticks(round_ticks(config))
        if what.startswith("weights"):
            ax.set_ylim(-0.03, 1.03)
        if what == DRIFT:
            ax.set_yscale("log")
        if place % 4 == 0:
            ax.set_ylabel(f"{setting}\nweight of {config.objectives[0]}")
        if place >= 4:
            ax.set_xlabel("round")
    rc.legend(figure, axes, columns=6)
    return figure


EXPERIMENT = rc.Experiment(
    id="bridge/firm_fig2",
    title="Two clients with and without regularisation, on a language model",
    source="FIRM, Figure 2, Section 5",
    kind="figure",
    profiles={
        "quick": Fig2Config(seeds=10),
        "laptop": Fig2Config(**LAPTOP),
        "paper": Fig2Config(**PAPER, seeds=10),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
