"""Figure 4: what the factor beta of the reward does, and what is due to the outer step size.

Problem and assumptions: three domains to train on and one held out, see ``_domains``; inner steps
are exact, the outer ones take samples.

Algorithm: OOD-PL with beta in {0.1, 1, 2, 4, 8} and outer steps eta.

Claims (Section 4.5, Remark 1): with a small beta the reward is sharp and near 0, with a larger one
flatter; exp(r / beta) approaches a standard normal distribution; a larger beta gives a better
accuracy, as Theorem 1 has it, whose bound on ||grad L||^2 is O(1/K + 1/beta^2).

*Derived: for a linear reward beta is a step size.* Only phi / beta enters (10), and so L(phi) =
G(phi / beta) with a G without beta. Then grad L = grad G / beta, and a step of size eta on
phi is one of size eta / beta^2 on phi / beta:

    phi_{k+1} / beta = phi_k / beta - (eta / beta^2) grad G(phi_k / beta).

The same samples from phi_0 = 0 give the same policies for all beta, rounding aside, if eta grows
like beta^2, or if the reward's features are multiplied by beta at one eta. At one eta for all beta,
beta = 0.1 has 6400 times the step of beta = 8. Which of them is better is then a matter of eta: a
small step favours small beta; a large one, with which small beta diverge, favours large beta.
||grad L|| ~ 1 / beta holds at phi_0 before anything is learned, so that a bound of order 1 / beta^2
says nothing about what is learned. A reward bounded by s gives weights in [exp(-s / beta),
exp(s / beta)] only: there beta is more than a step size, and with a large one all weights are near
1, so that policies learn little.

What the text leaves open, and the choices here: rewards are linear, and s tanh(phi . xi / s) with
s = 2 where it says so. Quantiles are over prompts and answers of the held-out domain, gradients
those of its term of L. exp(r / beta) is positive and tends to 1 as r / beta tends to 0, which is no
normal distribution; with eta in proportion to beta^2 it is the same for all beta. A run whose inner
loop diverges stops, and keeps the last reward with which a policy could be trained.

References: OOD-PL, Section 4.5, Theorem 1 and Remark 1.

The picture shows means over instances; checks are paired within instances, or exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.oodpl import _lanes as lanes
from experiments.oodpl._domains import DomainConfig, Values, columns
from experiments.oodpl._style import ACCURACY
from linsys import InputError
from linsys.bilevel import (
    Domain,
    DomainOracle,
    LinearReward,
    Start,
    implicit,
    pl_accuracy,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The ways in which the step size and the reward are chosen for another beta.
SAME, STEP, REWARD, TANH = "same eta", "eta x beta^2", "reward x beta", "tanh, eta x beta^2"
LEVELS = np.linspace(0.1, 0.9, 9)


@dataclass(frozen=True, kw_only=True)
class BetaConfig(DomainConfig):
    """The set-up."""

    betas: tuple[float, ...] = rc.param(
        (0.1, 1.0, 2.0, 4.0, 8.0), above=0.0, increasing=True, doc="increasing, 1 among them."
    )
    etas: tuple[float, ...] = rc.param(
        (0.125, 1.0, 8.0, 64.0),
        above=0.0,
        increasing=True,
        doc=(
            "step sizes for all betas, increasing; ``eta`` is the step at beta = 1 elsewhere, "
            "and must be among them."
        ),
    )
    points: int = rc.param(8, low=2, high="K", doc="rounds at which a curve is measured.")
    strength: float = 1.0
    alpha: float = 0.1
    D: int = 40
    inner_batch: int | None = None
    K: int = 200
    eta: float = 0.125

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, needed in (("betas", 1.0), ("etas", self.eta)):
            if needed not in (values := getattr(self, name)):
                raise InputError(f"`{name}` must have {needed:g} among them; found {values}")

    @property
    def times(self) -> list[int]:
        """Rounds that are measured, from 0 on."""
        return [round(self.K * i / self.points) for i in range(self.points + 1)]

    def runs(self) -> Iterator[tuple[str, float, float]]:
        """Way, beta and eta of every run."""
        for beta in self.betas:
            for eta in self.etas:
                yield SAME, beta, eta
            yield STEP, beta, self.eta * beta**2
            yield REWARD, beta, self.eta
            yield TANH, beta, self.eta * beta**2


def measure(config: BetaConfig, instance: int) -> rc.Columns:
    """All runs of an instance."""
    rows = []
    drawn = {kind: config.domains(instance, 4, kind) for kind in ("linear", "tanh")}
    for way, beta, eta in config.runs():
        domains = drawn["tanh" if way == TANH else "linear"]
        if way == REWARD:
            sampled, exact = domains
            domains = [scaled(d, beta) for d in sampled], [scaled(d, beta) for d in exact]
        where = {"way": way, "beta": beta, "eta": eta}
        rows += [{**where, **row} for row in _run(config, instance, domains, beta, eta)]
    return columns(rows)


def scaled(domain: Domain, factor: float) -> Domain:
    """The domain with a reward model of as many times the features."""
    return replace(domain, reward=LinearReward(factor * domain.reward.xi))


def _run(
    config: BetaConfig,
    instance: int,
    domains: tuple[list[Domain], list[Domain]],
    beta: float,
    eta: float,
) -> Iterator[dict[str, Any]]:
    """Rows of one training; after it is lost, the last ones again."""
    (*train, test), judge = domains[0], domains[1][-1]
    training = config.training(instance, beta, eta)
    start = Start(np.zeros(config.q), np.zeros(config.p))
    row, lost = _measured(test, judge, start.phi_0, beta), False
    phis = lanes.run_while_finite(training, train, start)  # a run that explodes ends early
    for t in config.times:
        lost = lost or t >= len(phis)
        if t and not lost:
            try:
                with np.errstate(over="ignore"):
                    row = _measured(test, judge, phis[t], beta)
            except InputError:  # the weights explode
                lost = True
        yield {"t": t, **row, "lost": lost}


def _measured(test: Domain, judge: Domain, phi: Values, beta: float) -> dict[str, float]:
    oracle = DomainOracle(domain=judge, beta=beta)
    theta = lanes.optimum(DomainOracle(domain=test, beta=beta), phi)
    r = np.asarray(test.reward.value(phi))
    quantiles = {"r": np.quantile(r, LEVELS), "w": np.quantile(np.exp(r / beta), LEVELS)}
    return {
        "accuracy": pl_accuracy(judge, theta),
        "loss": oracle.outer_loss(theta),
        "gradient": float(np.sqrt((implicit(oracle, phi, theta) ** 2).sum())),
        **{f"{name}{i}": float(v) for name, of in quantiles.items() for i, v in enumerate(of)},
        **{f"theta{i}": float(v) for i, v in enumerate(theta)},
    }


#: The relative difference of two runs that differ in rounding only: about 10^4 inner steps with an
#: error of 10^-16 each, which later steps may amplify a thousand times.
ROUNDING = 1e-9


def compute(config: BetaConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """All runs of an instance."""
    return measure(config, block["instance"])


def ends(table: rc.Table, value: str, way: str, beta: float, eta: float | None = None) -> Values:
    """A number after the last round, (instances,)."""
    where = {"way": way, "beta": beta, "t": table["t"].max()}
    if eta is not None:
        where["eta"] = eta
    return np.asarray(table.where(**where).grid(value, "instance"))


def label(beta: float) -> str:
    """The name of a beta's curves."""
    return rf"$\beta$ = {beta:g}"


def analyse(config: BetaConfig, table: rc.Table) -> rc.Analysis:
    """Nine panels: distributions and curves, steps, gradients and the bounded reward."""
    series, betas = [], config.betas
    small, large = config.eta, config.etas[-1]
    for name, title, way, eta in (
        ("r", r"quantiles of r, $\eta \propto \beta^2$", STEP, None),
        ("w", rf"quantiles of exp(r / $\beta$), $\eta = {small:g}$", SAME, small),
    ):
        for beta in betas:
            y = [ends(table, f"{name}{i}", way, beta, eta).mean() for i in range(len(LEVELS))]
            series.append(rc.Series(label(beta), title, LEVELS, y))
    for way, eta, title in (
        (STEP, None, rf"$A_{{PL}}$, $\eta = {small:g} \beta^2$"),
        (SAME, small, rf"$A_{{PL}}$, $\eta = {small:g}$"),
        (SAME, large, rf"$A_{{PL}}$, $\eta = {large:g}$"),
    ):
        for beta in betas:
            part = table.where(way=way, beta=beta, **({} if eta is None else {"eta": eta}))
            y = part.grid("accuracy", "t", "instance").mean(axis=1)
            series.append(rc.Series(label(beta), title, config.times, y))
    for power, title in (
        (0, r"last $A_{PL}$ against $\eta$"),
        (2, r"last $A_{PL}$ against $\eta / \beta^2$"),
    ):
        for beta in betas:
            y = [ends(table, "accuracy", SAME, beta, eta).mean() for eta in config.etas]
            x = np.array(config.etas) / beta**power
            series.append(rc.Series(label(beta), title, x, y))
    first, title = table.where(t=0), rf"$\|\nabla L\|$, $\eta = {small:g}$"
    start = [first.where(way=SAME, beta=b, eta=small)["gradient"].mean() for b in betas]
    last = [ends(table, "gradient", SAME, b, small).mean() for b in betas]
    series += [
        rc.Series("first round", title, betas, start),
        rc.Series("last round", title, betas, last),
    ]
    for name, way in (("linear reward", STEP), ("bounded reward", TANH)):
        y = [ends(table, "loss", way, beta).mean() for beta in betas]
        series.append(rc.Series(name, r"PL loss, $\eta \propto \beta^2$", betas, y))
    return rc.Analysis(series, _checks(config, table), _notes(config, table))


def deviation(config: BetaConfig, table: rc.Table, way: str) -> float:
    """The largest difference of a run's last policy from that of beta = 1, relative."""
    deviations = []
    for beta in config.betas:
        here, there = (
            np.array([ends(table, f"theta{i}", way, b) for i in range(config.p)])
            for b in (beta, 1.0)
        )
        deviations.append(np.abs(here - there).max() / np.abs(there).max())
    return float(max(deviations))


def _checks(config: BetaConfig, table: rc.Table) -> list[rc.Check]:
    top, small, large = config.betas[-1], config.eta, config.etas[-1]
    start = table.where(t=0, way=SAME, eta=small)
    slope = rc.exact_slope(
        config.betas, [start.where(beta=b)["gradient"].mean() for b in config.betas]
    )
    flat = [ends(table, "w8", SAME, b, small) - ends(table, "w0", SAME, b, small) for b in (1, top)]
    exact = {way: deviation(config, table, way) for way in (STEP, REWARD)}
    return [
        *(
            rc.our_own(
                rc.mean_above(
                    f"A_PL at eta = {eta:g}, beta = {ahead:g} − beta = {behind:g}",
                    predicted,
                    ends(table, "accuracy", SAME, ahead, eta),
                    ends(table, "accuracy", SAME, behind, eta),
                    remark,
                )
            )
            for eta, ahead, behind, predicted, remark in (
                (
                    *(small, 1.0, top, "above 0; the paper has below 0"),
                    f"the step on phi / beta is {top**2:g} times smaller at beta = {top:g}",
                ),
                (large, top, 1.0, "above 0", "beta = 1 takes steps that are too large"),
            )
        ),
        *(
            rc.our_own(
                rc.at_most(
                    f"{way}, linear: largest relative difference of policies between betas",
                    "0: beta is a step size",
                    rc.Interval(value, value, value),
                    ROUNDING,
                    remark="up to rounding",
                )
            )
            for way, value in exact.items()
        ),
        rc.our_own(
            rc.within(
                "exponent of ||grad L(phi_0)|| in beta",
                -1.0,
                slope,
                -1.0 - ROUNDING,
                -1.0 + ROUNDING,
                remark="before anything is learned",
            )
        ),
        rc.our_own(
            rc.below(
                f"spread of exp(r / beta) at eta = {small:g}, beta = {top:g} − beta = 1",
                "below 0: weights tend to 1",
                rc.mean_interval(flat[1] - flat[0]),
                0.0,
            )
        ),
        rc.our_own(
            rc.mean_above(
                f"bounded reward, eta x beta^2: PL loss, beta = {top:g} − beta = 1",
                "above 0: weights are within exp(± s / beta)",
                ends(table, "loss", TANH, top),
                ends(table, "loss", TANH, 1.0),
            )
        ),
    ]


def _notes(config: BetaConfig, table: rc.Table) -> list[str]:
    lines = []
    for eta in (config.eta, config.etas[-1]):
        text = ", ".join(
            f"{b:g}: {ends(table, 'accuracy', SAME, b, eta).mean():.3f}" for b in config.betas
        )
        lines.append(f"last A_PL at eta = {eta:g} by beta: {text}")
    for way in (STEP, TANH):
        text = ", ".join(
            f"{b:g}: {ends(table, 'accuracy', way, b).mean():.3f}, PL loss "
            f"{ends(table, 'loss', way, b).mean():.3f}, exp(r / beta) between "
            f"{ends(table, 'w0', way, b).mean():.2f} and {ends(table, 'w8', way, b).mean():.2f}"
            for b in config.betas
        )
        lines.append(f"{way}, last A_PL by beta: {text} (1st and 9th deciles)")
    runs = [
        f"beta = {b:g} at eta = {eta:g} ({int(lost)})"
        for b in config.betas
        for eta in config.etas
        if (lost := ends(table, "lost", SAME, b, eta).sum())
    ]
    total = f"of {config.instances} each"
    return [*lines, f"runs that exploded, {total}: {', '.join(runs) if runs else 'none'}"]


#: The curves of the last two panels, which are none of a beta: in no colour of one.
PLAIN = {
    "first round": rc.Look("#000000", "o"),
    "last round": rc.Look("#777777", "s", "--"),
    "linear reward": rc.Look("#000000", "o"),
    "bounded reward": rc.Look("#777777", "s", "--"),
}


def coinciding(curves: Sequence[rc.Series]) -> str:
    """Which curves of a panel lie on one of the others, in words, or nothing.

    >>> points = {"a": 1.0, "b": 2.0, "c": 1.0}
    >>> a, b, c = (rc.Series(name, "", [1.0], [y]) for name, y in points.items())
    >>> coinciding([a, b, c]), coinciding([a, c]), coinciding([a, b])
    ('a, c coincide', 'all curves coincide', '')
    """
    groups: list[list[rc.Series]] = []
    for one in curves:
        for group in groups:
            if np.allclose(group[0].x, one.x) and np.allclose(group[0].y, one.y):
                group.append(one)
                break
        else:
            groups.append([one])
    if len(groups) == 1 < len(curves):
        return "all curves coincide"
    names = [", ".join(one.name for one in group) for group in groups if len(group) > 1]
    return f"{'; '.join(names)} coincide" if names else ""


def draw(config: BetaConfig, analysis: rc.Analysis) -> Figure:
    """Nine panels."""
    figure, axes = rc.panels(analysis.series, columns=3, width=2.9, share_y=False)
    of_beta = [s for s in analysis.series if s.name not in PLAIN]
    rc.curves(axes, of_beta, markersize=3.5)
    for s in analysis.series:
        if s.name in PLAIN:
            own = PLAIN[s.name]
            line: dict[str, Any] = {
                "color": own.colour,
                "marker": own.marker,
                "linestyle": own.line,
            }
            rc.curve(axes[s.panel], s, **line)
    for letter, (title, ax) in zip("abcdefghi", axes.items(), strict=True):
        ax.set_title(f"({letter}) {title}")
        ax.set_ylabel(ACCURACY if letter in "cdg" else "")
        together = coinciding([s for s in of_beta if s.panel == title])
        ax.text(0.97, 0.45, together, transform=ax.transAxes, ha="right", fontsize=7)
    names = (
        "level",
        "level",
        *["outer step"] * 3,
        r"$\eta$",
        r"$\eta / \beta^2$",
        *[r"$\beta$"] * 2,
    )
    for place, (name, ax) in enumerate(zip(names, axes.values(), strict=True)):
        ax.set_xlabel(name)
        if place >= 5:
            ax.set_xscale("log")
    norms, losses = list(axes.values())[-2:]
    rc.loglog(norms)
    for ax in (norms, losses):
        ax.legend()
    rc.legend(figure, {n: ax for n, ax in axes.items() if ax not in (norms, losses)})
    return figure


EXPERIMENT = rc.Experiment(
    id="ood/fig4",
    title="The factor beta of the reward and the outer step size",
    source="Figure 4, Section 4.5",
    kind="figure",
    profiles={
        "quick": BetaConfig(),
        "paper": BetaConfig(instances=30, K=600, points=20),
    },
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
