"""Figure 4: half of the clients judge helpfulness by another reward model.

Problem and assumptions: eight clients in one process, see ``_alignment``. In the heterogeneous
settings four of them have another reward for objective 1; harmlessness is judged alike by all.

Algorithm: FIRM in all settings.

Claims (Appendix A.2.1 and the caption): the weights are nearly identical, the rewards closely
matched.

What the text leaves open, and the choices here: how far the models disagree, which decides. The
other one gives a reward of its own, drawn like the first and as far from harmlessness as that, to
a share of the pairs (s, a), and the same reward to the others; ``levels`` are such shares. A reward
is the mean over clients of what their own models say, as in the paper. So the settings differ in
their objectives and where they start: gains are compared.

What is to be expected: the heterogeneous objective is the mean of two rewards, which no policy can
serve as well as one. Let the models' gradients h, h' have one length and cosine rho, and each have
the cosine kappa with that of harmlessness, of the same length. Along the sum of mean helpfulness
and harmlessness, helpfulness rises by ||(h + h') / 2||^2 + kappa ||h||^2 = ((1 + rho) / 2 + kappa)
||h||^2 where it would rise by (1 + kappa) ||h||^2: to first order a share of (1 - rho) / (2 (1 +
kappa)) is lost, while harmlessness loses nothing. Hence the claims are checked as stated at the
lowest level, and the loss at the highest.

References: FIRM, Appendix A.2.1.

The picture shows the first instance, means over runs with 90 % bands, at the lowest and the highest
level; last, all levels over instances. rho and kappa are taken as correlations of rewards over
pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from experiments.firm._alignment import OBJECTIVES, PANELS, Arms, RegularisedConfig, curves_of_first
from experiments.firm._comparison import (
    TWO_ABREAST,
    Values,
    advantage,
    against_rounds,
    gain,
    rewards_match,
    scale,
    weights_match,
)
from linsys import InputError
from mgda.momdp import MOMDP
from mgda.trajectories import Clients

SAME = "same models"
#: Panels against rounds.
SHOWN = ("weight", "reward_1", "reward_2")
LOSS = "change of the gain / gain"


@dataclass(frozen=True, kw_only=True)
class Fig4Config(RegularisedConfig):
    """The set-up."""

    levels: tuple[float, ...] = rc.param(
        (0.1, 0.25, 0.5),
        above=0.0,
        high=1.0,
        increasing=True,
        doc="shares of the pairs (s, a) that the other model judges anew, increasing.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clients % 2 != 0:
            raise InputError(f"`clients` must be even; found {self.clients}")

    def models(self, instance: int) -> tuple[MOMDP, list[MOMDP]]:
        """The process with the first reward model of helpfulness, and with the others."""
        drawn = self.momdp(instance, objectives=3)
        rng = np.random.default_rng(self.derive("disagreement", instance))
        judge = rng.random(drawn.r.shape[:2])[..., None]
        helpful, harmless, other = np.moveaxis(drawn.r, -1, 0)
        models = [helpful, *(np.where(judge < level, other, helpful) for level in self.levels)]
        first, *rest = (replace(drawn, r=np.stack([m, harmless], axis=-1)) for m in models)
        return first, rest


def arm(level: float) -> str:
    """The name of one heterogeneous setting."""
    return f"different models ({100 * level:g}% of pairs)"


def compute(config: Fig4Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """All settings, and how the rewards of each correlate."""
    first, others = config.models(block["instance"])
    half = config.clients // 2
    arms: Arms = {SAME: (config.firm(), Clients(first, config.clients))}
    for level, other in zip(config.levels, others, strict=True):
        arms[arm(level)] = (config.firm(), Clients([first] * half + [other] * half))
    columns = config.columns(arms, block["instance"], config.ends)
    agreement = {SAME: 1.0}
    for level, other in zip(config.levels, others, strict=True):
        agreement[arm(level)] = _correlation(first.mean_r[..., 0], other.mean_r[..., 0])
    columns["agreement"] = np.array([agreement[name] for name in columns["arm"]])
    columns["conflict"] = np.full(
        columns["t"].shape, _correlation(*np.moveaxis(first.mean_r, -1, 0))
    )
    return columns


def _correlation(one: Values, other: Values) -> float:
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def analyse(config: Fig4Config, table: rc.Table) -> rc.Analysis:
    """The panels, the caption's claims where models nearly agree, and what disagreement costs."""
    near, far = arm(config.levels[0]), arm(config.levels[-1])
    names = [SAME, *map(arm, config.levels)]
    once = table.where(replicate=0, t=0)
    agreement = np.array([once.where(arm=name)["agreement"] for name in names])
    first_order = -0.5 * (1.0 - agreement) / (1.0 + once.where(arm=SAME)["conflict"])
    x = agreement.mean(axis=1)[::-1]
    series = curves_of_first(config, table, (SAME, near, far), SHOWN)
    for j, title in OBJECTIVES.items():
        losses = [advantage(table, j, name, SAME) for name in reversed(names)]
        y, lo, hi = np.array([(v.value, v.lo, v.hi) for v in losses]).T
        series.append(rc.Series(title, LOSS, x, y, lo, hi))
    series.append(rc.Series("theory", LOSS, x, first_order.mean(axis=1)[::-1]))
    unit = scale(table, SAME)
    lost = [(gain(table, 1, name) - gain(table, 1, SAME)) / unit for name in names]
    slope = (np.array(lost) * (agreement - 1.0)).sum(axis=0) / ((agreement - 1.0) ** 2).sum(axis=0)
    predicted = first_order.mean() / (agreement.mean() - 1.0)
    checks = [
        weights_match(table, near, SAME),
        *rewards_match(OBJECTIVES.values(), table, near, SAME),
        rc.our_own(
            rc.below(
                f"helpfulness: ({far} − {SAME}) / gain",
                "below 0: two models are not served as one",
                advantage(table, 1, far, SAME),
                0.0,
            )
        ),
        rc.our_own(
            rc.above(
                "share of the gain in helpfulness lost per unit of 1 − correlation",
                f"above 0 ({predicted:.2f} to first order)",
                rc.mean_interval(slope),
            )
        ),
    ]
    return rc.Analysis(
        series, checks, _notes(config, table, dict(zip(names, agreement.mean(axis=1), strict=True)))
    )


def _notes(config: Fig4Config, table: rc.Table, agreement: dict[str, float]) -> list[str]:
    lines = []
    for level in config.levels:
        name = arm(level)
        weights = weights_match(table, name, SAME)
        changes = [advantage(table, j, name, SAME).value for j in OBJECTIVES]
        lines.append(
            f"correlation {agreement[name]:.2f} of the models ({100 * level:g}% of pairs judged "
            f"anew): helpfulness {changes[0]:+.0%}, harmlessness {changes[1]:+.0%} of the gain, "
            f"weights {weights.measured:.2f} deviations of a run apart"
        )
    return [
        *lines,
        "derived: the loss in helpfulness depends to first order on how far the two reward models "
        "agree, on FIRM not at all; the paper does not say how far its two do",
    ]


def panels(config: Fig4Config) -> dict[str, rc.Panel]:
    """Three panels against rounds, the last against the correlation of the models."""
    shown = dict.fromkeys((PANELS[column] for column in SHOWN), against_rounds(config))
    return {
        **shown,
        LOSS: rc.Panel("correlation of the two reward models", title="relative change of gain"),
    }


EXPERIMENT = rc.Experiment(
    id="firm/fig4",
    title="Clients with different reward models",
    source="Figure 4, Appendix A.2.1",
    kind="figure",
    profiles={
        "quick": Fig4Config(instances=16),
        "paper": Fig4Config(instances=60, replicates=16),
    },
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    panels=panels,
    layout=TWO_ABREAST,
    parallel="blocks",
)
