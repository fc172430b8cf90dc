"""Where FSLoRA ends against the sketch ratio k/r and against the rank r.

Problem: the family of :mod:`experiments.fslora._rates_systems` with n = 1: f_i(b, a) =
E(b'a - y)^2 / 2 for b, a in R^r, devices with targets d + R and d - R in turn, one local step.
Either y has no noise and sketches alone move the devices, or R = 0, y has the noise sigma and
batches do.

Guarantee: (6), its terms of noise, with L = 2 d, the largest curvature of f at its minimiser. There
sigma_s^2 = 2 d R^2 (r/k - 1), sigma_h^2 = 2 d R^2 and sigma_g^2 = 2 d sigma^2 r/k, as sketches
magnify the noise of batches. So the term of (6) with sigma_s^2 grows like (r/k)^2 (r/k - 1), that
with sigma_g^2 like (r/k)^2 (r/k). The rank itself is not in (6): at a given ratio it is flat.

Derived here. At the minimiser all components carry the same share, b_j a_j = d/r. Any sketch then
leaves b'S a = d unchanged, so that noise lies along a (curvature 2 d of P) from batches and across
it from sketches, where f^S is curved by its penalty only: 2 lambda d, lambda = (r/k - 1)/(r - 1).
With c = r/k - 1, tr(P Sigma) is 2 d^2 R^2 c^2/(r - 1) and 2 d^2 sigma^2 (1 + c^2/(r - 1)), hence

    E|grad f^S|^2 = (gamma/N) 2 d^2 R^2 c^2/(r - 1)               with sketches,
    E|grad f^S|^2 = (gamma/N) 2 d^2 sigma^2 (1 + c^2/(r - 1))     with batches.

Exponent 2 in r/k - 1, and in r/k between 0 and 2 with batches: (6) pays a power of r/k too many.
At a given ratio the floor from sketches falls like 1/(r - 1): a sketch of many components is closer
to its mean.

Regime: gamma times the largest eigenvalue of P, 2 d, is 0.04, which makes what the laws leave out
(``Floor.refined``, ``Floor.room``) small; tolerances are made of it.

References: FSLoRA, Theorem 4.4, equation (6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments._model import Analysis, Block, Check, Columns, Config, Context, Experiment, Series
from experiments._plots import curves, guide, legend, loglog, panels
from experiments._rates import MIN_REPLICATES, at_most, exact_slope, ratio
from experiments._table import Table, long_table
from experiments.fslora._rates_floors import LEVEL, Floor, floor_checks, floor_series
from experiments.fslora._rates_systems import Squares
from linsys._validate import Array, InputError, number, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SKETCHES, BATCHES = "sketches", "batches"
RATIO, RANK = "(a) against k/r", "(b) against r"
TERM = "its term in (6), scaled"


@dataclass(frozen=True, kw_only=True)
class RateSketchConfig(Config):
    """Devices of rank k with modules of rank r.

    Attributes:
        r: in (a).
        k: in (a), decreasing.
        ranks: r in (b), even, where k is half of it.
        apart: R, relative to d = 1.
        noise: sigma.
        devices: N, even.
        relaxations: length of the mean over time in relaxation times.
    """

    r: int = 8
    k: tuple[int, ...] = (6, 4, 3, 2, 1)
    ranks: tuple[int, ...] = (2, 4, 6, 8)
    apart: float = 0.3
    noise: float = 0.3
    gamma: float = 0.02
    devices: int = 8
    replicates: int = 64
    relaxations: float = 8.0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("replicates", self.replicates, low=MIN_REPLICATES)
        whole("first of k", self.k[0], low=2, high=self.r - 1)
        for before, after in zip(self.k, self.k[1:], strict=False):
            whole("k", after, low=1, high=before - 1)
        for before, after in zip(self.ranks, self.ranks[1:], strict=False):
            whole("ranks", after, low=before + 1)
        if any(r % 2 for r in (*self.ranks, self.devices)):
            raise InputError(
                f"`ranks` and `devices` must be even; found {(*self.ranks, self.devices)}"
            )
        for name in ("apart", "noise", "gamma"):
            number(name, getattr(self, name), low=0.0, high=1.0, low_open=True)
        number("relaxations", self.relaxations, low=1.0)

    def floor(self, source: str, r: int, k: int) -> Floor:
        """The floor of one run."""
        R, sigma = (self.apart, 0.0) if source == SKETCHES else (0.0, self.noise)
        system = Squares(r=r, n=1, ranks=(k, k), targets=(1.0 + R, 1.0 - R), noise=sigma)
        return Floor(system=system, gamma=self.gamma, H=1, devices=self.devices, fresh=False)

    def points(self, panel: str) -> list[tuple[int, int]]:
        """r and k of a panel."""
        return (
            [(self.r, k) for k in self.k] if panel == RATIO else [(r, r // 2) for r in self.ranks]
        )


def compute(config: RateSketchConfig, block: Block, context: Context) -> Columns:
    """The floor of every replicate."""
    found = []
    for source in (SKETCHES, BATCHES):
        rng = np.random.default_rng(config.derive("runs", source, block["r"], block["k"]))
        floor = config.floor(source, block["r"], block["k"])
        found.append(floor.measured(config.replicates, config.relaxations, rng))
    axes = {"source": np.array([SKETCHES, BATCHES]), "replicate": np.arange(config.replicates)}
    return long_table(axes, floor=np.array(found))


def blocks(config: RateSketchConfig) -> list[Block]:
    """One for every pair of r and k."""
    pairs = dict.fromkeys([*config.points(RATIO), *config.points(RANK)])
    return [{"r": r, "k": k} for r, k in pairs]


def closed_form(config: RateSketchConfig, source: str, r: int, k: int) -> float:
    """The floor of the module's text."""
    spread = (r / k - 1.0) ** 2 / (r - 1.0)
    noise = config.apart**2 * spread, config.noise**2 * (1.0 + spread)
    return 2.0 * config.gamma / config.devices * noise[source != SKETCHES]


def term(source: str, c: Array) -> Array:
    """(r/k)^2 times sigma_s^2 or sigma_g^2 up to a constant, for c = r/k - 1."""
    return np.asarray((1.0 + c) ** 2 * (c if source == SKETCHES else 1.0 + c))


def bound(config: RateSketchConfig, source: str, c: Array) -> Array:
    """The terms of noise in (6) with L = 2 d, d = 1, for c = r/k - 1."""
    if source == SKETCHES:
        noise, apart = 2.0 * config.apart**2 * c, 2.0 * config.apart**2
    else:
        noise, apart = 2.0 * config.noise**2 * (1.0 + c), 0.0
    first, second = 6.0 * (1.0 + c) * noise, 12.0 * (1.0 + c) ** 2 * (noise + 3.0 * apart)
    return np.asarray(config.gamma / config.devices * 2.0 * (first + second))


def analyse(config: RateSketchConfig, table: Table) -> Analysis:
    """Exponents of r/k - 1 or r/k, and of r - 1."""
    series: list[Series] = []
    checks: list[Check] = []
    notes = []
    for panel in (RATIO, RANK):
        pairs = config.points(panel)
        c = np.array([r / k - 1.0 for r, k in pairs])
        more = np.array([r - 1.0 for r, _ in pairs])
        for source in (SKETCHES, BATCHES):
            if panel == RATIO:
                x = c if source == SKETCHES else 1.0 + c
                stated = exact_slope(x, term(source, c)).value
            else:
                x, stated = more, 0.0
            floors = [config.floor(source, r, k) for r, k in pairs]
            measured = np.stack(
                [table.where(r=r, k=k, source=source).grid("floor", "replicate") for r, k in pairs],
                axis=1,
            )
            law = np.array([closed_form(config, source, r, k) for r, k in pairs])
            what = f"{source}, {panel[4:]}"
            found, slope = floor_checks(what, x, measured, floors, stated, law=law)
            checks += found
            used = [
                ratio(column, float(most), LEVEL)
                for column, most in zip(measured.T, bound(config, source, c), strict=True)
            ]
            largest = max(used, key=lambda interval: interval.hi)
            checks.append(at_most(f"{what}: floor / (6)", "at most 1", largest, 1.0))
            shown = c if panel == RATIO else more
            series += floor_series(source, panel, shown, measured, law)
            variable = "r - 1" if panel == RANK else "r/k - 1" if source == SKETCHES else "r/k"
            notes.append(
                f"{what}: exponent {slope.value:.3f} of {variable}, law "
                f"{exact_slope(x, law).value:.3f}, (6) {stated:.3f}"
            )
            if panel == RATIO and source == SKETCHES:
                shape = term(source, c)
                series.append(Series(TERM, panel, c, shape / shape[0] * 1.5 * law[0]))
    return Analysis(series, checks, notes)


def draw(config: RateSketchConfig, analysis: Analysis) -> Figure:
    """Floors with the laws."""
    figure, axes = panels(analysis.series, width=3.7, height=3.0)
    curves(axes, analysis.series)
    for panel, ax in axes.items():
        loglog(ax)
        ax.set_xlabel("$r/k - 1$" if panel == RATIO else "$r - 1$")
        ax.set_title(f"(a) $r = {config.r}$" if panel == RATIO else "(b) $k = r/2$")
        first = next(s for s in analysis.series if (s.panel, s.name) == (panel, SKETCHES))
        exponent = 2.0 if panel == RATIO else -1.0
        guide(ax, exponent, (first.x[0], first.x[-1]), 0.5 * float(first.y[0]))
    axes[RATIO].set_ylabel(r"$E\|\nabla f^S\|^2$")
    legend(figure, axes)
    return figure


EXPERIMENT = Experiment(
    id="fslora/rate_sketch",
    title="Where FSLoRA ends against the sketch ratio and the rank",
    source="Theorem 4.4",
    kind="rate",
    variable="k/r",
    config_type=RateSketchConfig,
    profiles={
        "quick": RateSketchConfig(),
        "paper": RateSketchConfig(ranks=(2, 4, 6, 8, 10), replicates=200, relaxations=20.0),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
