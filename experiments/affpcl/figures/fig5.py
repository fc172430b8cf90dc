"""Figure 5: contours of equal error of AffPCL over 1/n and heterogeneity.

Problem and assumptions: the synthetic system of Appendix B (see affpcl/fig1) with n in [2, 50]
agents at the labels delta_env = delta_obj = delta in [.02, .5].

Algorithm: AffPCL (8), constant step; MSE^0 averaged over the last ten rounds.

Claims (Appendix B): the contours are curves of Pareto type, and max{1/n, delta} describes them. By
Theorem 1 that maximum is an upper bound up to a constant and a logarithm.

What is measured: whether the error rises along each edge of the grid; and the shape

    MSE^0(n, delta) = a ((1/n)^r + ((delta / delta_0)^q)^r)^(1/r),

by least squares on logarithms. q is the exponent of heterogeneity: the theorem's bound allows 1 or
more. r tells the corner of the contours: infinite for a maximum, 1 for a sum, near 0 for a product,
whose contours have no corner at all. Dotted contours are the fit.

Two statements are kept apart. The *bound*: no error exceeds the fitted maximum by more than a
factor 2; a sum meets it as well, since it is at most twice the maximum. The *shape*: r is at least
1, which for a surface of this kind is what "within a factor 2 of a maximum at every n and delta"
amounts to. Neither tells a maximum from a sum; a note says which of the two fits better.

What the text leaves open, and the choices here: agent 1 sits at the centre as in Figure 1 for every
n, which lowers MSE^0 where n is small. The labels are not total-variation distances, which saturate
where the labels do not.

References: AffPCL, Theorem 1 and Appendix B.

Errors are geometric means over instances; intervals are Student's over instances, and those of
``largest_mean`` where the worst of many is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.affpcl.figures._synthetic import SyntheticConfig, Values, true_levels
from linsys import InputError
from linsys.algorithms import AffPCL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURED, FITTED = "measured", "fitted"
#: Errors may exceed the fitted maximum by this factor, as a sum does in the corner.
FACTOR = 2.0
#: Bounds of the fitted exponent: beyond them a grid of this size cannot distinguish the corner from
#: that of a maximum, or from that of a product.
CORNERS = (1e-2, 1e3)
#: The change of the slope in 1/n by the smallest heterogeneity and by what remains of the start,
#: which add to the small errors of many agents.
SLACK = 0.05


@dataclass(frozen=True, kw_only=True)
class Fig5Config(SyntheticConfig):
    """The set-up."""

    agents: tuple[int, ...] = rc.param(
        (2, 3, 4, 6, 9, 14, 21, 33, 50), low=2, least=3, increasing=True, doc="n, increasing."
    )
    levels: tuple[float, ...] = rc.param(
        (0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.32, 0.5),
        low=0.0,
        least=3,
        increasing=True,
        doc="labels delta_env = delta_obj, increasing and positive.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.levels[0] == 0:
            raise InputError("`levels` must be positive for logarithmic axes; found 0")


@dataclass(frozen=True)
class Shape:
    """The fitted surface; ``factor`` is the largest ratio between it and a measured error."""

    log_a: float
    log_delta_0: float
    q: float
    r: float
    factor: float

    def predict(self, agents: Values, levels: Values) -> Values:
        """ln MSE^0 on the grid (agents, levels)."""
        few = -np.log(agents)[:, None]
        far = self.q * (np.log(levels) - self.log_delta_0)
        if np.isinf(self.r):
            limit: Values = self.log_a + np.maximum(few, far)
            return limit
        return self.log_a + np.logaddexp(self.r * few, self.r * far) / self.r


def fit(agents: Values, levels: Values, log_mse: Values, corner: float | None = None) -> Shape:
    """Least squares on ln MSE^0, shape (agents, levels); ``corner`` fixes r."""
    from scipy.optimize import least_squares

    def shape(p: Values) -> Shape:
        r = float(np.clip(np.exp(p[3]), *CORNERS)) if corner is None else corner
        return Shape(p[0], p[1], p[2], r, 0.0)

    def residual(p: Values) -> Values:
        return (shape(p).predict(agents, levels) - log_mse).ravel()

    best = None
    for delta_0 in (0.3, 1.0):
        start = [float(log_mse.mean() - np.log(levels.mean())), np.log(delta_0), 1.5]
        solution = least_squares(residual, start if corner is not None else [*start, 0.0])
        best = solution if best is None or solution.cost < best.cost else best
    assert best is not None
    fitted = shape(best.x)
    worst = float(np.exp(np.abs(best.fun).max()))
    return Shape(fitted.log_a, fitted.log_delta_0, fitted.q, fitted.r, worst)


def compute(config: Fig5Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """MSE^0 at the end, mean over runs, per instance and level."""
    mse = np.empty((config.instances, len(config.levels)))
    true_env = np.empty_like(mse)
    for k in range(config.instances):
        for c, level in enumerate(config.levels):
            system = config.system(k, level, level, block["n"])
            if k == 0:
                config.check_step(system)
            mse[k, c] = config.errors(system, AffPCL(), k, context, config.late).mean()
            true_env[k, c] = true_levels(system)["delta_env"]
    axes = {"instance": np.arange(config.instances), "level": np.array(config.levels)}
    return rc.long_table(axes, mse=mse, true_env=true_env)


def analyse(config: Fig5Config, table: rc.Table) -> rc.Analysis:
    """The measured and the fitted surface, whether errors rise, and the shape."""
    agents, levels = np.array(config.agents, dtype=float), np.array(config.levels)
    logs = np.log(table.grid("mse", "n", "level", "instance"))
    mean = logs.mean(axis=-1)
    fitted = fit(agents, levels, mean)
    corner, flat = fit(agents, levels, mean, np.inf), fit(agents, levels, mean, 1.0)
    series = [
        rc.Series(f"n = {n:g}", panel, levels, np.exp(rows[i]))
        for panel, rows in ((MEASURED, mean), (FITTED, fitted.predict(agents, levels)))
        for i, n in enumerate(agents)
    ]
    each = [fit(agents, levels, one) for one in np.moveaxis(logs, -1, 0)]
    q = rc.mean_interval(np.array([s.q for s in each]))
    r = rc.exponential(rc.mean_interval(np.log([s.r for s in each])))
    excess = (logs - corner.predict(agents, levels)[..., None]).reshape(mean.size, -1)
    instances = np.moveaxis(logs, -1, 0)
    edgy, smooth = (
        np.array([_misfit(fit(agents, levels, one, r), agents, levels, one) for one in instances])
        for r in (np.inf, 1.0)
    )
    sharper = rc.paired_ratio(edgy, smooth)
    checks = [
        _rises("1/n", np.diff(logs[::-1], axis=0)),
        _rises("δ", np.diff(logs, axis=1)),
        rc.rate_check(
            f"exponent of 1/n at δ = {levels[0]:g}",
            1.0,
            rc.mean_interval(_slopes(-np.log(agents), logs[:, 0])),
            tolerance=SLACK,
            bound=True,
            limit="zero",
        ),
        rc.rate_check("exponent q of δ", 1.0, q, bound=True, limit="zero"),
        rc.at_most(
            "bound: largest error / max{1/n, (δ/δ_0)^q}",
            f"at most {FACTOR:g}",
            rc.exponential(rc.largest_mean(excess)),
            FACTOR,
        ),
        rc.at_least(
            "shape: corner r of the contours",
            "at least 1 (1: sum, ∞: maximum)",
            r,
            1.0,
            remark=_corner(sharper),
        ),
    ]
    true_env = table.grid("true_env", "n", "level", "instance")[-1].mean(axis=-1)
    notes = [
        f"fit: MSE = {np.exp(fitted.log_a):.3g} (n^-r + (δ/{np.exp(fitted.log_delta_0):.2g})^(qr))"
        f"^(1/r), q = {fitted.q:.2f}, r = {fitted.r:.2f}; over instances r = {r.value:.2f} "
        f"[{r.lo:.2f}, {r.hi:.2f}] (1 is a sum, infinity a maximum, 0 a product)",
        "max{1/n, δ} is checked as a bound up to a constant: the residuals of a maximum are "
        f"{sharper.value:.2f} [{sharper.lo:.2f}, {sharper.hi:.2f}] times those of a sum, "
        f"{_corner(sharper)}",
        f"largest factor between fit and measured error: {fitted.factor:.2f} with this r, "
        f"{flat.factor:.2f} for a sum, {corner.factor:.2f} for a maximum",
        "an exponent above 1 is faster than the bound: errors that are x^i - x^c times a noise "
        "enter a variance squared",
        "true δ_env (largest total variation between two agents) of the label δ at "
        f"n = {config.agents[-1]}: "
        + ", ".join(f"{v:.2f} at {level:g}" for level, v in zip(levels, true_env, strict=True)),
        f"geometric means over {config.instances} instances with {config.replicates} runs each",
    ]
    return rc.Analysis(series, checks, notes)


def _rises(variable: str, steps: NDArray[np.float64]) -> rc.Check:
    """Check that ln MSE^0 rises over every edge of the grid; ``steps`` end in the instance axis."""
    edges = steps.reshape(-1, steps.shape[-1])
    falls = rc.largest_mean(-edges)
    smallest = rc.Interval(-falls.value, -falls.hi, -falls.lo)
    name = f"smallest rise of ln MSE with {variable}, of {len(edges)} edges"
    return rc.above(name, "above 0", smallest, 0.0)


def _misfit(shape: Shape, agents: Values, levels: Values, log_mse: Values) -> float:
    """Root mean square of what a shape leaves of ln MSE^0."""
    return float(np.sqrt(np.mean((shape.predict(agents, levels) - log_mse) ** 2)))


def _corner(sharper: rc.Ratio) -> str:
    """Check which of a maximum and a sum fits better, by the ratio of their residuals."""
    if sharper.hi < 1.0:
        return "a maximum fits better than a sum"
    return "a sum fits better than a maximum" if sharper.lo > 1.0 else "a sum fits as well"


def _slopes(x: Values, y: Values) -> Values:
    """Least-squares slope on x of every column of y, (points, instances)."""
    centred = x - x.mean()
    slopes: Values = centred @ y / (centred @ centred)
    return slopes


def draw(config: Fig5Config, analysis: rc.Analysis) -> Figure:
    """Contours over (1/n, delta), both logarithmic; those of the paper's maximum have a corner."""
    from matplotlib.lines import Line2D

    curves = [s for s in analysis.series if s.panel == MEASURED]
    figure, axes = rc.panels(curves, width=4.6, height=3.6)
    ax = axes[MEASURED]
    ax.set_title("")
    x, y = 1.0 / np.array(config.agents), np.asarray(curves[0].x)
    mse = np.array([s.y for s in curves]).T
    fitted = np.array([s.y for s in analysis.series if s.panel == FITTED]).T
    lines = np.geomspace(mse.min(), mse.max(), 11)[1:-1]
    ax.set_xscale("log")  # before the labels, which are placed on the screen
    ax.set_yscale("log")
    colour = rc.LOOKS["AffPCL"].colour
    solid = ax.contour(x, y, mse, levels=lines, colors=colour, linewidths=1.4)
    ax.contour(x, y, fitted, levels=lines, colors="black", linewidths=1.0, linestyles=":")
    ticks = [n for n in (2, 5, 10, 20, 50, 100, 200) if config.agents[0] <= n <= config.agents[-1]]
    ax.set_xticks([1 / n for n in ticks], [f"1/{n}" for n in ticks])
    marks = [v for v in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if y[0] <= v <= y[-1]]
    ax.set_yticks(marks, [f"{v:g}" for v in marks])
    ax.minorticks_off()
    for text in ax.clabel(solid, fmt=lambda v: f"{1e3 * v:.2g}", fontsize=7, inline_spacing=2):
        text.set_clip_on(False)
    ax.set_xlabel("$1/n$ ($n$: number of agents)")
    ax.set_ylabel("label δ of heterogeneity")
    for bound in np.geomspace(max(x.min(), y[0]), min(x.max(), y[-1]), 6)[1:-1]:
        corner = ([bound, bound, x.min()], [y[0], bound, bound])
        ax.plot(*corner, color="#777777", linewidth=1.0, linestyle="--", zorder=1.5)
    handles = [
        Line2D([], [], color=colour, label=r"measured $10^3\,\mathrm{MSE}^0$"),
        Line2D([], [], color="black", linestyle=":", label="fitted shape"),
        Line2D([], [], color="#777777", linestyle="--", label=r"the paper's $\max\{1/n, \delta\}$"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


EXPERIMENT = rc.Experiment(
    id="affpcl/fig5",
    title="Contours of equal error over 1/n and heterogeneity",
    source="Figure 5, Appendix B",
    kind="figure",
    profiles={
        "quick": Fig5Config(instances=8),
        "paper": Fig5Config(
            agents=(2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 29, 38, 50),
            levels=(0.02, 0.03, 0.04, 0.06, 0.08, 0.11, 0.15, 0.2, 0.27, 0.37, 0.5),
            instances=20,
        ),
    },
    blocks=rc.Grid({"n": "agents"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
)
