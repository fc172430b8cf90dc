"""Table 3: win rates on 18 domains, held out three at a time.

Problem and assumptions: 18 domains in six splits of three; every split is held out once, and the
other 15 domains are trained on; see ``_domains``.

Algorithms: all methods there, and the policy that they start from ("base", theta = 0). Methods that
use the test distribution are given one held-out domain at a time.

Claims (Section 4.4): all methods are above the base model; those that use preferences are above
SFT; PPO (TR+TE) is above PPO (TR); OOD-PL is the best on all domains. Averages over the 18 domains
are checked, and the share of domains where OOD-PL is the best of the paper's methods.

What the text leaves open, and the choices here: the win rate is that of an answer drawn at
temperature one against the preferred answer of a pair, by a judge of Bradley and Terry who knows
the true reward; exact sums, in the place of a language model's opinion. The domains are independent
draws, so that splits need no shuffling. The base model here gives every answer about the
probability that it has in the data, so that SFT has little to add: the paper's base cannot answer
such questions at all. PPO (TR+TE) differs from PPO (TR) by the domains that it is tuned on, and not
by its reward: with policies that are linear in features that reward and policy share, the same
theta is nearly right everywhere. A policy of log pi = log h + theta . psi cannot tell domains apart
otherwise, and little is expected.

"oracle" is what RLHF does with the true reward and the same beta. It is no upper limit: "oracle,
beta/10" shows what is attainable when a policy may leave the reference further.

References: OOD-PL, Section 4.4.

The picture shows the first instance as a table, the best of the paper's methods in bold, the second
one underlined, what is below SFT in grey italics; and averages over the 18 domains with 95 %
intervals over instances. Checks are paired within instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import ratecheck as rc
from experiments.oodpl._domains import (
    CONTROLS,
    OURS,
    RIVALS,
    MethodsConfig,
    Values,
    ahead,
    columns,
)
from experiments.oodpl._style import METHODS
from linsys.bilevel import win_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BASE = "base"
ROWS = (BASE, *RIVALS, OURS, *CONTROLS, "oracle", "oracle, beta/10")
RANKED = (BASE, *RIVALS, OURS)
FIRST, MEAN = "win rate, first instance", "mean win rate"
#: Splits beside one another in the picture.
ABREAST = 3


@dataclass(frozen=True, kw_only=True)
class Table3Config(MethodsConfig):
    """The set-up."""

    splits: int = rc.param(6, low=2, doc="of all domains; each is held out once.")
    held: int = rc.param(3, low=1, doc="domains of a split.")
    instances: int = 3


def compute(config: Table3Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Win rates of all methods on the domains of a split."""
    instance = block["instance"]
    sampled, exact = config.domains(instance, config.splits * config.held)
    mine = range(block["split"] * config.held, (block["split"] + 1) * config.held)
    train = [domain for i, domain in enumerate(sampled) if i not in mine]
    *_, (_, phi) = config.learn(train, instance, [config.K])
    trained = config.trained(train)
    rows = []
    for i in mine:
        policies = {
            BASE: np.zeros(config.p),
            OURS: config.tuned(sampled[i], phi),
            **config.rivals(trained, sampled[i]),
        }
        for name, theta in policies.items():
            rows.append({"method": name, "domain": i, "wins": win_rate(exact[i], theta)})
    return columns(rows)


def wins(table: rc.Table, method: str) -> Values:
    """Win rates of a method, (instances, domains)."""
    return np.asarray(table.where(method=method).grid("wins", "instance", "domain"))


def analyse(config: Table3Config, table: rc.Table) -> rc.Analysis:
    """The table of the first instance, and averages over domains."""
    win_rates = {name: wins(table, name) for name in ROWS}
    where = np.arange(config.splits * config.held)
    series = [rc.Series(name, FIRST, where, values[0]) for name, values in win_rates.items()]
    for name, values in win_rates.items():
        mean = rc.mean_interval(values.mean(axis=1))
        series.append(rc.Series(name, MEAN, [0.0], [mean.value], [mean.lo], [mean.hi]))
    return rc.Analysis(series, _checks(win_rates), _notes(win_rates))


def best(win_rates: Mapping[str, Values]) -> Values:
    """Whether OOD-PL has the largest win rate of the paper's methods, (instances, domains)."""
    rivals = np.max([win_rates[name] for name in RANKED if name != OURS], axis=0)
    return np.asarray(win_rates[OURS] > rivals, dtype=float)


def _checks(win_rates: Mapping[str, Values]) -> list[rc.Check]:
    means = {name: values.mean(axis=1) for name, values in win_rates.items()}
    return [
        rc.mean_above(
            "SFT − base", "above 0", means["SFT"], means[BASE], "the base fits the data as it is"
        ),
        *(rc.mean_above(f"{n} − SFT", "above 0", means[n], means["SFT"]) for n in RIVALS[1:]),
        rc.mean_above("PPO (TR+TE) − PPO (TR)", "above 0", means["PPO (TR+TE)"], means["PPO (TR)"]),
        *(ahead("", n, means[OURS], means[n]) for n in RIVALS),
        *(
            rc.mean_above(
                f"{OURS} − {n}", f"above 0, if the lead is not that of {why}", means[OURS], means[n]
            )
            for n, why in (("MLE, fitted beta", "the scale"), ("HPL (TR)", "the loss"))
        ),
        rc.mean_above(
            f"oracle, beta/10 − {OURS}", "above 0", means["oracle, beta/10"], means[OURS]
        ),
    ]


def _notes(win_rates: Mapping[str, Values]) -> list[str]:
    means = ", ".join(f"{name} {values.mean():.3f}" for name, values in win_rates.items())
    under = [f"{n} {np.mean(win_rates[n] < win_rates['SFT']):.0%}" for n in (*RIVALS[1:], OURS)]
    return [
        f"mean win rates: {means}",
        f"domains with a win rate below SFT's: {', '.join(under)}",
        f"domains in which {OURS} is the best of the paper's methods: "
        f"{best(win_rates).mean():.0%}; the paper has all",
    ]


#: What the marks of numbers mean.
MARKS = (
    "bold: best of the methods above the dotted line; underlined: second; grey italics: below SFT"
)


def draw(config: Table3Config, analysis: rc.Analysis) -> Figure:
    """The table in two rows of splits, and averages below."""
    from matplotlib.figure import Figure

    values = {s.name: np.asarray(s.y) for s in analysis.series if s.panel == FIRST}
    bands = -(-config.splits // ABREAST)
    figure = Figure(figsize=(9.6, 2.5 * bands + 2.6), layout="constrained")
    *tables, last = figure.subplots(bands + 1, 1, height_ratios=[2.5] * bands + [2.3])
    for band, ax in enumerate(tables):
        splits = range(band * ABREAST, min((band + 1) * ABREAST, config.splits))
        if not band:
            ax.set_title(MARKS, fontsize=8, loc="right")
        _table(ax, values, [range(s * config.held, (s + 1) * config.held) for s in splits])
    _averages(last, analysis)
    return figure


def _table(ax: Axes, values: Mapping[str, Values], splits: list[range]) -> None:
    """Cells of several splits beside one another, each with its average."""
    ax.set_axis_off()
    column = 0
    for split in splits:
        for domain in (*split, None):
            cells = {
                n: float(v[list(split) if domain is None else domain].mean())
                for n, v in values.items()
            }
            title = "avg." if domain is None else str(domain)
            ax.text(column, -1, title, ha="center", va="center", fontsize=8)
            ranked = sorted((cells[name] for name in RANKED), reverse=True)
            for row, name in enumerate(ROWS):
                _cell(ax, column, row, cells[name], ranked if name in RANKED else [], cells["SFT"])
            column += 1
        column += 1
    ax.text(-1.0, -1, "domain", ha="right", va="center", fontsize=8)
    for row, name in enumerate(ROWS):
        ax.text(-1.0, row, name, ha="right", va="center", fontsize=8, color=_colour(name))
    ax.set_xlim(-3.2, column - 1.5)
    ax.set_ylim(len(ROWS) - 0.5, -1.6)
    ax.axhline(-0.5, color="black", linewidth=0.6)
    ax.axhline(len(RANKED) - 0.5, color="black", linewidth=0.4, linestyle=":")


def _cell(ax: Axes, x: float, y: float, value: float, ranked: list[float], sft: float) -> None:
    """One number in the marks of its rank."""
    first, second = bool(ranked) and value == ranked[0], bool(ranked) and value == ranked[1]
    worse = value < sft
    ax.text(
        x,
        y,
        f"{value:.3f}",
        ha="center",
        va="center",
        fontsize=8,
        weight="bold" if first else "normal",
        style="italic" if worse else "normal",
        color="#8A8A8A" if worse else "black",
    )
    if second:
        ax.plot([x - 0.33, x + 0.33], [y + 0.38, y + 0.38], color="black", linewidth=0.7)


def _averages(ax: Axes, analysis: rc.Analysis) -> None:
    """Averages over all domains, a dot and an interval for each method."""
    means = [s for s in analysis.series if s.panel == MEAN]
    for place, s in enumerate(means):
        (y,), (lo,), (hi,) = (np.asarray(v) for v in (s.y, s.lo, s.hi))
        ax.errorbar(place, y, yerr=[[y - lo], [hi - y]], fmt="o", color=_colour(s.name), capsize=2)
    ax.set_xticks(range(len(means)), [s.name.replace(", ", ",\n") for s in means])
    ax.set_ylabel("mean win rate")


def _colour(name: str) -> str:
    return METHODS[name].colour if name in METHODS else "black"


EXPERIMENT = rc.Experiment(
    id="ood/table3",
    title="Win rates on 18 domains, three held out at a time",
    source="Table 3, Section 4.4",
    kind="figure",
    profiles={
        "quick": Table3Config(),
        "paper": Table3Config(instances=20, K=1000),
    },
    blocks=rc.Grid({"instance": "instances", "split": "splits"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
