"""Disagreement drift against the regularisation beta, at common parameters.

Problem and assumptions: C clients at the same parameters of a tabular process with M = 2, critics
at their fixed points, B independent transitions: the covariance of a gradient is Sigma / B exactly.
*Conflict*: true weights inside the simplex, mean gradients far from collinear. *Same mean
gradients*: the objectives differ in noise only. *Dominated*: the second objective is a damped copy
of the first one and a little of its own; MGDA takes it alone, for all clients.

Algorithm: each client solves its own problem (2) with R = (beta / 2) I, of the raw Gram matrix G
(the theory) and of G / (tr G / M), equation (9) (the experiments). beta is relative to tr G / M of
the true G in the first case.

Guarantee: T_disagr = O(1 / beta) (Theorem 1, from (23)), an upper bound: a drift that falls faster
is "faster than stated".

Derived here. With P = I - 11'/M the solution on an open face depends on beta through (P (2 G + beta
I) P)^+ alone, and T on its square. For beta far above the Gram matrix that is beta^{-1}, lambda =
1/M - (2 / beta) P G 1/M + ..., so that T has the exponent -2, in both conventions and for all
instances. For beta far below the least curvature of G on the face, beta does nothing, exponent 0.
With the same mean gradients there is no curvature but that of noise: the drift stays at its plateau
(:class:`experiments.firm._drift_laws.Kink`) up to beta of the order |a'(x^2 - x^1)|, which is of
order B^{-1/2}, and falls with beta^{-2} from there. No regime has the exponent -1: it comes from
S^2 <= 2 S. Where one objective dominates, all clients sit at the same vertex and do not disagree
until beta takes them into the simplex: *regularisation creates the drift*, which falls with
beta^{-2} from its peak near the scale of G.

Regime: the exponent 0 over beta up to ``small`` (``smallest`` with the same mean gradients), -2
from ``large`` on, a hundred times the scale of G. The closed form knows how far its own slope over
these windows is from the pure power; for large beta noise adds to the curvature of the Gram
matrices, and weights have a factor (1 + 2 |P G_c P| / beta)^{-1}. Tolerances are twice the change
of slope that this makes, since runs with larger noise count more. All beta see the same samples, so
that intervals of exponents are narrow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

import ratecheck as rc
from experiments.firm._drift import (
    CONVENTIONS,
    DriftInstancesConfig,
    alike,
    drifts,
    furthest,
    grouped,
    transient,
)
from experiments.firm._drift_laws import DriftExpansion, Kink, Moments
from experiments.firm._style import layout_of_readings
from experiments.firm._systems import BatchConfig
from experiments.firm._words import LAW
from linsys.validate import Array, InputError, check_number
from mgda.momdp import MOMDP
from mgda.simplex import gram
from mgda.trajectories import Clients

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFLICT, SAME, DOMINATED = "(a) conflict", "(b) same mean gradients", "(c) dominated"
PANELS = (CONFLICT, SAME, DOMINATED)
FORMS = {"raw": False, "trace (9)": True}
#: Exponents in beta: of Theorem 1, for large beta, and for small beta.
STATED, LARGE, SMALL = -1.0, -2.0, 0.0
#: The largest number of confidence intervals of an instance.
INTERVALS = 50
#: The share of the dominating objective in the dominated one's rewards.
_COPIED = 0.8
SHAPES = (rc.Look("", "o"), rc.Look("", "^", "none", size=7, hollow=True))


@dataclass(frozen=True, kw_only=True)
class DriftBetaConfig(DriftInstancesConfig, BatchConfig):
    """Ever larger beta."""

    B: int = 1024
    runs: int = 24
    decades: int = rc.param(
        4,
        low=2,
        doc=(
            "beta, relative to tr G / M, goes from 10^-decades to 10^decades, two values for "
            "every factor of 10."
        ),
    )
    small: float = rc.param(
        1e-2, doc="the windows of exponent 0 end here for objectives in conflict."
    )
    smallest: float = rc.param(
        1e-3, doc="the windows of exponent 0 end here for the same mean gradients."
    )
    large: float = rc.param(1e2, doc="the windows of exponent -2 begin here.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("smallest", self.smallest, low=float(self.betas[1]), high=1.0)
        check_number("small", self.small, low=float(self.betas[1]), high=1.0)
        check_number("large", self.large, low=1.0, high=float(self.betas[-2]))
        if self.objectives != 2:
            raise InputError(f"`objectives` must be 2; found {self.objectives}")

    @property
    def betas(self) -> Array:
        """Relative to the scale of the Gram matrix, shape (4 decades + 1,)."""
        return np.logspace(-self.decades, self.decades, 4 * self.decades + 1)

    def process(self, panel: str, instance: int) -> MOMDP:
        """The process of a panel."""
        drawn = self.momdp(instance)
        if panel == SAME:
            return alike(drawn, self.derive("alike", instance))
        return drawn if panel == CONFLICT else dominated(drawn)


def dominated(momdp: MOMDP) -> MOMDP:
    """The second objective a damped copy of the first one, with some of its own rewards."""
    r = momdp.r.copy()
    r[..., 1] = _COPIED * r[..., 0] + (1.0 - _COPIED) * r[..., 1]
    return replace(momdp, r=r)


def compute(config: DriftBetaConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The drift in both conventions for every beta, of both Gram matrices."""
    numbers = config.numbers(block)
    runs, C = len(numbers) * config.runs, config.clients
    drift = np.empty((len(PANELS), len(FORMS), 2, len(config.betas), len(numbers)))
    for p, panel in enumerate(PANELS):
        momdp = config.process(panel, block["instance"])
        moments = Moments.of(momdp)
        first = block["first"] * config.runs
        oracle = config.oracle(
            Clients(momdp, C), block["instance"], B=config.B, replicates=runs, first=first
        )
        gradients, _ = oracle.jac(np.zeros((runs, C, momdp.d)), oracle.init())
        G = gram(gradients)
        for f, normalise in enumerate(FORMS.values()):
            for k, beta in enumerate(config.betas):
                raw = beta if normalise else beta * moments.scale
                values = drifts(gradients, moments, raw, normalise=normalise, G=G)
                drift[p, f, :, k] = grouped(values, config.runs)
    axes = {
        "panel": np.array(PANELS),
        "form": np.array(list(FORMS)),
        "convention": np.array(CONVENTIONS),
        "beta": config.betas,
        "replicate": numbers,
    }
    return rc.long_table(axes, drift=drift)


@dataclass(frozen=True, eq=False)
class _Theory:
    """The derived laws of one form of one instance; beta is relative to its scale throughout."""

    config: DriftBetaConfig
    moments: Moments
    kink: bool
    normalise: bool

    def _law(self, beta: float) -> tuple[DriftExpansion | Kink, dict[str, float]]:
        """The leading order, and the arguments that it needs beside clients and B."""
        raw = float(beta * self.moments.scale)
        if self.kink and beta <= self.config.smallest:
            return Kink(self.moments), {"beta": raw}
        given = float(beta) if self.normalise else raw
        return self.moments.at(given, normalise=self.normalise), {}

    def drift(self, betas: Array) -> Array:
        """E T in leading order, shape (2, betas)."""
        laws = (self._law(beta) for beta in betas)
        C, B = self.config.clients, self.config.B
        return np.stack([law.drift(C, B, **more) for law, more in laws], axis=-1)

    def error(self, betas: Array) -> Array:
        """The estimated relative size of what that leaves out, shape (betas,)."""
        laws = (self._law(beta) for beta in betas)
        return np.array([law.next_order(self.config.B, **more) for law, more in laws])

    @property
    def noise(self) -> float:
        """|P E(X'X) P| / B, what noise adds to the curvature, relative to the scale of G."""
        y = self.moments.noise[..., 1] - self.moments.noise[..., 0]
        square = self.moments.law @ (y**2).sum(axis=1)
        return 0.5 * float(square) / (self.config.B * self.moments.scale)

    def bound(self, betas: Array) -> Array:
        """(23), shape (betas,)."""
        least = self.moments.bound(self.moments.scale, self.config.clients, self.config.B)
        return np.asarray(least / betas)


def _theories(config: DriftBetaConfig, panel: str, form: str) -> list[_Theory]:
    """The theory of every instance."""
    processes = (config.process(panel, instance) for instance in range(config.instances))
    return [_Theory(config, Moments.of(p), panel == SAME, FORMS[form]) for p in processes]


def _checks(name: str, panel: str, drift: Array, theory: _Theory, c: int) -> list[rc.Check]:
    """The checks of one instance's curve (replicates, betas); first what Theorem 1 states."""
    config, betas = theory.config, theory.config.betas
    level = config.level(INTERVALS)

    def law(x: Array) -> Array:
        return np.asarray(theory.drift(x)[c])

    large = betas >= config.large
    x = betas[large]
    slope = rc.slope_interval(x, drift[:, large], rng=0, level=level)
    tolerance = 2.0 * (transient(law, x, 1e6) + rc.slope_shift(x, 4.0 * theory.noise / x))
    mean = drift.mean(axis=0)
    largest = float((mean / theory.bound(betas)).max())
    last = rc.ratio(drift[:, -1], float(law(x[-1:])[0]), level)
    error = theory.error(betas[[0, -1]])
    checks = [
        *rc.Law(STATED).checks(f"{name}, large β", slope),
        rc.below(
            f"{name}: largest drift / (23)", "below 1", rc.Interval(largest, largest, largest)
        ),
        *rc.Law(derived=LARGE, tolerance=tolerance).checks(f"{name}, large β", slope),
        rc.our_own(
            rc.rate_check(f"{name}, last β: ratio to the law", 1.0, last, tolerance=float(error[1]))
        ),
    ]
    if panel == DOMINATED:
        peak = int(law(betas).argmax())
        rise = rc.ratio(drift[:, 0] - drift[:, peak], float(mean[peak]), level)
        what = f"{name}: drift at the least β less that at β = {betas[peak]:g}, relative"
        return [*checks, rc.our_own(rc.below(what, "below 0", rise, 0.0))]
    small = betas <= (config.small if panel == CONFLICT else config.smallest)
    x = betas[small]
    slope = rc.slope_interval(x, drift[:, small], rng=0, level=level)
    tolerance = 2.0 * transient(law, x, 1e-6)
    first = rc.ratio(drift[:, 0], float(law(x[:1])[0]), level)
    return [
        *checks,
        *rc.Law(derived=SMALL, tolerance=tolerance).checks(f"{name}, small β", slope),
        rc.our_own(
            rc.rate_check(
                f"{name}, first β: ratio to the law", 1.0, first, tolerance=float(error[0])
            )
        ),
    ]


def analyse(config: DriftBetaConfig, table: rc.Table) -> rc.Analysis:
    """Exponents in both windows, constants, and the bound itself."""
    series, checks = [], []
    betas = config.betas
    small = betas <= config.smallest
    for panel in PANELS:
        for form, normalise in FORMS.items():
            theories = _theories(config, panel, form)
            for c, convention in enumerate(CONVENTIONS):
                part = table.where(panel=panel, form=form, convention=convention)
                drift = part.grid("drift", "instance", "replicate", "beta")
                worst = furthest(
                    _checks(f"{panel[4:]}, {form}, {convention}", panel, one, theory, c)
                    for one, theory in zip(drift, theories, strict=True)
                )
                checks += worst[2:] if normalise else worst  # (23) is about the raw matrix
                mean, *band = rc.mean_band(drift[0])
                law = theories[0].drift(betas)[c]
                positive = mean > 0.0  # zero where the weights of all clients are the same vertex
                known = (law > 0.0) & (theories[0].error(betas) < 0.5)
                band = [] if normalise else [end[positive] for end in band]
                name = f"{form}, {convention}"
                series.append(rc.Series(name, panel, betas[positive], mean[positive], *band))
                for side in (known & small, known & ~small):
                    if side.any():
                        series.append(rc.Series(LAW, panel, betas[side], law[side]))
    notes = [
        f"{config.clients} clients, B = {config.B} independent transitions, β relative to tr G / M "
        "of the true gradients; all intervals together cover with 95 %",
        "derived: no regime has the exponent -1 of Theorem 1; the drift does not depend on β "
        "below the curvature of G (below the noise where mean gradients are equal) and falls like "
        "β^-2 above",
        "derived: where one objective dominates, all clients choose it and nothing drifts; β takes "
        "them off the vertex and creates the drift that it is meant to control",
    ]
    return rc.Analysis(series, checks, notes)


def draw(config: DriftBetaConfig, analysis: rc.Analysis) -> Figure:
    """One panel per kind of instance."""
    below, above = rc.Guide(LARGE, span=(0.7, 1.0)), rc.Guide(STATED, "stated: {}", above=True)
    above = replace(above, span=(0.55, 0.85), line="--")
    panel = rc.Panel(r"$\beta$ / scale of $G$", log="xy", slope=(below, above))
    # its curves begin in the middle of the axis, and its labels need the room beside them
    late = replace(panel, slope=(below, replace(above, span=(0.1, 0.4))))
    figure = rc.draw_panels(
        analysis.series,
        {
            **dict.fromkeys(PANELS, panel),
            CONFLICT: replace(panel, y=r"mean $T_{\mathrm{disagr}}$"),
            PANELS[-1]: late,
        },
        layout_of_readings(dict(zip(FORMS, SHAPES, strict=True)), width=3.0, height=3.2),
    )
    for ax in figure.axes:
        ax.set_xlim(0.5 * config.betas[0], 2.0 * config.betas[-1])
    *_, dominated = figure.axes
    text = "all clients\nat one vertex:\nno drift"
    dominated.text(0.05, 0.6, text, transform=dominated.transAxes)
    return figure


EXPERIMENT = rc.Experiment(
    id="firm/drift_beta",
    title="Disagreement drift against the regularisation",
    source="Theorem 1, Lemma 1, equations (7), (14) and (23)",
    kind="rate",
    variable="beta",
    profiles={"quick": DriftBetaConfig(), "paper": DriftBetaConfig(instances=3, runs=100)},
    blocks=DriftBetaConfig.pieces,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
