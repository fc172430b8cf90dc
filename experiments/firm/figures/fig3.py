"""Figure 3: preferences move the trained policy along the Pareto front.

Problem and assumptions: eight identical clients and two objectives that pull apart, see
``_alignment``. The process being small, its Pareto front is known exactly: the attainable returns
are a convex polygon, whose vertices are returns of deterministic policies.

Algorithms: FIRM with Diag(1 / p) in the place of (beta / 2) I, equation (3), for preferences p =
(p^1, 1 - p^1), and the trace-normalised Gram matrix. Beside it federated averaging of the mixture p
of the objectives.

Claim (Section 5, RQ3, and the caption): a larger preference for an objective raises its final
reward.

What the text leaves open, and the choices here: the scale of p. Only relative to the Gram matrix
does Diag(1 / p) mean something: with p on the simplex its entries are 1 and more, those of the
normalised Gram matrix about 1. Preferences then weigh as much as conflict, and lambda lies between
1/2 and p: for gradients of one length at right angles lambda^j is proportional to p^j / (1 + p^j).
With the raw Gram matrix of small gradients lambda would be p itself, and FIRM the mixture; with a
large multiple of p it would be MGDA for every preference. The claim is checked for all neighbouring
preferences at once: the smallest of the increases is positive.

References: FIRM, Section 3, equation (3), and Section 5.

The picture shows where one process ends (the mean over runs) in front of its Pareto front; gains
and weights are means over instances with 90 % bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.firm._alignment import OBJECTIVES, AlignmentConfig, Arms, optimum
from experiments.firm._comparison import FIRM_LOOK, OTHER_LOOK, Values, curves_of, gain, scale
from experiments.firm._words import format_interval
from mgda.firm import FIRM
from mgda.momdp import MOMDP
from mgda.scalarization import LinearScalarization
from mgda.trajectories import Clients

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("FIRM", "mixture")
FRONT, START = "Pareto front", "uniform policy"
PLANE, WEIGHTS = "one process", "weight of helpfulness"


@dataclass(frozen=True, kw_only=True)
class Fig3Config(AlignmentConfig):
    """The set-up."""

    preferences: tuple[float, ...] = rc.param(
        (0.1, 0.3, 0.5, 0.7, 0.9),
        above=0.0,
        below=1.0,
        increasing=True,
        doc="p^1, increasing, between 0 and 1; p^2 is the rest.",
    )


def arm(method: str, p: float) -> str:
    """The name of one setting."""
    return f"{method}, {p:g}"


def pareto_front(momdp: MOMDP) -> Values:
    """The vertices of the Pareto front of a process with two objectives, (vertices, 2).

    Normalised returns in increasing order of the first. Between two known vertices lies another one
    if a policy is better than both in the direction at right angles to the line through them.

    >>> three = MOMDP(P=np.ones((1, 3, 1)), r=np.array([[[0.0, 1], [0.8, 0.8], [1, 0]]]), gamma=0.5)
    >>> pareto_front(three).tolist()
    [[0.0, 1.0], [0.8, 0.8], [1.0, 0.0]]
    """
    # an end is the best for one objective and, among those policies, the best for the other
    first, last = (optimum(momdp, w) for w in ((1e-6, 1.0), (1.0, 1e-6)))
    # one policy may be best for both
    front, pending = [first], [] if np.array_equal(first, last) else [last]
    while pending:
        a, b = front[-1], pending[-1]
        normal = np.array([a[1] - b[1], b[0] - a[0]])
        between = optimum(momdp, normal)
        if normal @ (between - a) > 1e-9 * normal.sum():
            pending.append(between)
        else:
            front.append(pending.pop())
    return np.array(front)


def compute(config: Fig3Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Rewards and weights of both methods for every preference, at the ends of rounds."""
    momdp = config.momdp(block["instance"])
    clients = Clients(momdp, config.clients)
    step: dict[str, Any] = {"alpha": config.alpha, "K": config.K}
    arms: Arms = {}
    for p in config.preferences:
        pair = (p, 1.0 - p)
        firm = FIRM(**step, beta=0.0, preference=pair)
        mixture = LinearScalarization(**step, weights=pair)
        for method, algorithm in zip(METHODS, (firm, mixture), strict=True):
            arms[arm(method, p)] = (algorithm, clients)
    return config.columns(arms, block["instance"], config.ends)


def analyse(config: Fig3Config, table: rc.Table) -> rc.Analysis:
    """Where the first process ends; gains and weights over preferences and the claim, over all."""
    first = table.where(instance=0)
    front = pareto_front(config.momdp(0))
    series = [rc.Series(FRONT, PLANE, front[:, 0], front[:, 1])]
    p = np.array(config.preferences)
    checks: list[rc.Check] = []
    for method in METHODS:
        ends = np.array([_end(first.where(arm=arm(method, q))) for q in p])
        series.append(rc.Series(method, PLANE, ends[:, 0], ends[:, 1]))
    start = [first.where(t=0, replicate=0)[f"reward_{j}"][0] for j in OBJECTIVES]
    series.append(rc.Series(START, PLANE, start[:1], start[1:]))
    for method in METHODS:
        weights = np.array([_weight(table, arm(method, q)) for q in p])
        series.append(rc.Series(method, WEIGHTS, p, *rc.mean_band(weights.T)))
    for sign, (j, title) in zip((1.0, -1.0), OBJECTIVES.items(), strict=True):
        for method in METHODS:
            gains = np.array([gain(table, j, arm(method, q)) for q in p])
            series.append(rc.Series(method, f"gain in {title}", p, *rc.mean_band(gains.T)))
            if method == "FIRM":
                unit = scale(table, arm(method, p[len(p) // 2]))
                checks.append(_increase(title, sign * np.diff(gains, axis=0) / unit))
    ours, theirs = (_reach(table, arm(m, p[0]), arm(m, p[-1])) for m in METHODS)
    checks.append(
        rc.our_own(
            rc.below(
                "distance between the outermost ends, FIRM / mixture",
                "below 1: weights lie between 1/2 and p",
                rc.paired_ratio(ours, theirs),
            )
        )
    )
    return rc.Analysis(series, checks, _notes(config, table))


def _end(part: rc.Table) -> Values:
    """Final rewards of one instance, means over runs, (2,)."""
    last = part.where(t=part["t"].max())
    return np.array([last[f"reward_{j}"].mean() for j in OBJECTIVES])


def _weight(table: rc.Table, name: str) -> Values:
    """The weight of helpfulness, averaged over runs and time, (instances,)."""
    return np.asarray(curves_of(table, "weight", name).mean(axis=(1, 2)))


def _reach(table: rc.Table, one: str, other: str) -> Values:
    """The distance between the ends of two settings in the plane of rewards, (instances,)."""
    differences = [gain(table, j, one) - gain(table, j, other) for j in OBJECTIVES]
    return np.asarray(np.hypot(*differences))


def _increase(title: str, increases: Values) -> rc.Check:
    """The claim that all increases (pairs, instances) are positive in the mean."""
    drop = rc.largest_mean(-increases)
    least = rc.Interval(-drop.value, -drop.hi, -drop.lo)
    name = f"{title}: smallest increase from one preference to the next / gain"
    return rc.above(name, "rises with its preference: above 0", least)


def _notes(config: Fig3Config, table: rc.Table) -> list[str]:
    last = config.preferences[-1]
    weight = _weight(table, arm("FIRM", last)).mean()
    change = rc.mean_interval(gain(table, 2, arm("FIRM", last)))
    orthogonal = last / (1.0 + last) / (last / (1.0 + last) + (1.0 - last) / (2.0 - last))
    return [
        f"p = ({last:g}, {1 - last:g}) gives a weight of {weight:.3f} on average; gradients of one "
        f"length at right angles would give {orthogonal:.3f}, the raw Gram matrix of small "
        f"gradients {last:g} itself",
        f"at this preference harmlessness changes by {format_interval(change, '+.3f')}; that no "
        "objective loses for small steps is promised by the minimum-norm direction, not "
        "with a preference",
        f"means of {config.instances} instances after {config.rounds} rounds; "
        "increases are shares of the mean gain at the middle preference, and their "
        "interval allows for taking the smallest",
    ]


def draw(config: Fig3Config, analysis: rc.Analysis) -> Figure:
    """The plane of rewards, weights, and the gain in each objective."""
    figure, axes = rc.panels(analysis.series, columns=2, width=3.3, height=2.5, share_y=False)
    looks = {"FIRM": FIRM_LOOK, "mixture": OTHER_LOOK, START: rc.look(START, 2)}
    for s in analysis.series:
        ax = axes[s.panel]
        if s.name == FRONT:
            rc.curve(ax, s, color="black", marker="", linewidth=1.0)
        else:
            own = looks[s.name]
            line: dict[str, Any] = {"color": own.colour, "marker": own.marker}
            rc.curve(ax, s, markers=len(config.preferences), **line)
        if s.panel == PLANE and s.name == "FIRM":
            for p, x, y in zip(config.preferences, s.x, s.y, strict=True):
                ax.annotate(
                    f"{p:g}", (x, y), xytext=(-4, -4), textcoords="offset points",
                    fontsize=7, ha="right", va="top",
                )  # fmt: skip
    for title, ax in axes.items():
        ax.set_xlabel("preference $p^1$ of helpfulness")
        if title != PLANE:
            ax.set_xticks(config.preferences)
        else:
            ax.set_xlabel("helpfulness reward")
            ax.set_ylabel("harmlessness reward")
    rc.legend(figure, axes)
    return figure


EXPERIMENT = rc.Experiment(
    id="firm/fig3",
    title="Preferences and the Pareto front",
    source="Figure 3, Section 5",
    kind="figure",
    profiles={
        "quick": Fig3Config(instances=10, replicates=4),
        "paper": Fig3Config(instances=60, replicates=16),
    },
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
