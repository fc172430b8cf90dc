"""The regime that Theorem 1 is about: error against the horizon, exactly, up to 10^9 and beyond.

Problem and assumptions: a finite-state system that meets every assumption by construction. Four
directions phi_k at 45 degrees in the plane make n + 1 copies of four states, with A(k) = (I + 2
phi_k phi_k') / 3 and Phi(k) = (I + phi_k phi_k') / 2 in every copy. With probability 1 - delta_env
an agent sees the shared copy, otherwise its private one, each state equally often; its weights are
theta^i = (sqrt(1 - delta_obj^2), +-delta_obj), the signs alternating. Then

- ||A(s)|| = ||Phi(s)|| = ||theta^i|| = 1 and Abar^i = (2/3) I, so that lambda = 2/3 for everyone;
  A(s) is positive semidefinite, so that nu = 1;
- ||mu^i - mu^j||_TV = delta_env, ||mu^i - mu^0||_TV = (1 - 1/n) delta_env and chi^2(mu^i, mu^0) =
  (n - 1) delta_env: private states are the worst that total variation allows;
- max ||theta^i - theta^j|| / (2 G_b) = delta_obj, as the weights have length one (n even).

Algorithms: AffPCL (8) with (7) and (22-1), known density ratios, independent learning, FedAvg; a
constant step alpha = ln t / (lambda t) for each horizon t.

Guarantee (Theorem 1, equation 9): E||x_t^i - x_*^i||^2 = O~(kappa^2 / t max{1/n, delta_cen^i}),
where O~ hides ln t; the factor is read as an upper bound of the error relative to independent
learning. FedAvg keeps the bias ||x_*^i - x_*^c||^2 = (9/8)^2 delta_obj^2.

Derived here: near the solutions the noise of AffPCL is r(s^i) + (1/n) sum_j rho^i(s^j) h(s^j) with
r and h of mean zero, uncorrelated, and mean squares delta_obj^2 / 64 and (1 - delta_obj^2) / 64;
that of independent learning has 1/64. To leading order in alpha, AffPCL / independent is

    delta_obj^2 + (1 - delta_obj^2) (1/n + (1 - 1/n) delta_env),

which is below 2 max{1/n, delta} where delta_env = delta_obj = delta.

References: AffPCL, Propositions 1 and 2, Theorem 1, Section 6.3.

All values are exact (:mod:`linsys.moments`); there is no sampling error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.figures._synthetic import Values
from linsys import FiniteSystem, InputError
from linsys.algorithms import AffPCL, FedAvg, Independent
from linsys.heterogeneity import delta_env, delta_obj, nu, predicted_factor
from linsys.moments import exact_moments

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHODS: dict[str, Any] = {
    "AffPCL": AffPCL(),
    "Independent": Independent(),
    "FedAvg": FedAvg(),
}
LAMBDA = 2.0 / 3.0
#: x_*^i = SCALE theta^i.
SCALE = 9.0 / 8.0
#: The bias of the start, about t^-2, is below the variance from here on.
SETTLED = 1e4
#: From there on the next order in alpha, by which exact values differ from the leading order, is at
#: most this.
SLACK = 0.02
#: Constant of the upper bound, derived in the module's text.
CONSTANT = 2.0
LEADING = "leading order"


def private_states(n: int, env: float, obj: float) -> FiniteSystem:
    """The system of the module's text, with levels in [0, 1) and an even number of agents.

    >>> system = private_states(4, env=0.5, obj=0.1)
    >>> system.n_states, system.x_star.round(3)[0].tolist()
    (20, [1.119, 0.113])
    """
    angles = np.arange(4) * np.pi / 4
    phi = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    outer = phi[:, :, None] * phi[:, None, :]
    seen = np.zeros((n, n + 1))
    seen[:, 0] = 1.0 - env
    seen[np.arange(n), np.arange(1, n + 1)] = env
    signs = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return FiniteSystem.from_objectives(
        A=np.tile((np.eye(2) + 2.0 * outer) / 3.0, (n + 1, 1, 1)),
        Phi=np.tile((np.eye(2) + outer) / 2.0, (n + 1, 1, 1)),
        theta=np.stack([np.full(n, np.sqrt(1.0 - obj**2)), signs * obj], axis=1),
        mu=np.repeat(seen, 4, axis=1) / 4.0,
    )


def leading_order(n: int, level: float) -> float:
    """AffPCL / independent as alpha tends to zero, at delta_env = delta_obj = level."""
    squared = level**2
    return squared + (1.0 - squared) * (1.0 / n + (1.0 - 1.0 / n) * level)


@dataclass(frozen=True, kw_only=True)
class VarianceConfig(rc.Config):
    """The set-up."""

    seed: int = rc.param(0, doc="unused: nothing is random.")
    n: int = rc.param(20, low=2, doc="agents, an even number: their signs alternate.")
    levels: tuple[float, ...] = rc.param(
        (0.0, 0.1, 0.9),
        low=0.0,
        least=1,
        increasing=True,
        below=1.0,
        doc="delta_env = delta_obj, increasing and below 1.",
    )
    decades: int = rc.param(9, low=6, high=15, doc="horizons t go from 10 to 10^decades.")
    per_decade: int = rc.param(4, low=1, high=20, doc="horizons for every factor of 10.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n % 2:
            raise InputError(f"`n` must be even, with as many agents of each sign; found {self.n}")


def compute(config: VarianceConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """MSE^0 of the methods at every horizon, and what the theory predicts."""
    level = block["level"]
    system = private_states(config.n, level, level)
    points = config.per_decade * (config.decades - 1) + 1
    times = np.unique(np.geomspace(10, 10**config.decades, points).round().astype(np.int64))
    alphas = np.log(times) / (LAMBDA * times)
    # Agents of one sign differ by a relabelling of states only: two stand for all.
    mse = [
        exact_moments(system, a, agents=(0, 1)).at(times, alpha=alphas).error.mean(axis=1)
        for a in METHODS.values()
    ]
    return rc.long_table(
        {"method": list(METHODS), "t": times},
        mse=np.stack(mse),
        predicted=float(np.asarray(predicted_factor(system)).mean()),
        delta_env=float(delta_env(system)),
        delta_obj=float(delta_obj(system, "weights")),
        nu=float(nu(system)),
    )


def panel(kind: str, level: float) -> str:
    """The name of one panel."""
    return f"{kind}, δ = {level:g}"


ERRORS, RATIOS = "t MSE / ln t", "error / independent"


def analyse(config: VarianceConfig, table: rc.Table) -> rc.Analysis:
    """Scaled errors, ratios, and the checks of both."""
    series: list[rc.Series] = []
    lower: list[rc.Series] = []
    checks: list[rc.Check] = []
    truth = []
    for level in config.levels:
        at = table.where(level=level)
        t = at.unique("t").astype(np.float64)
        mse = {name: at.where(method=name).grid("mse", "t") for name in METHODS}
        predicted = float(at["predicted"][0])
        for name, values in mse.items():
            series.append(rc.Series(name, panel(ERRORS, level), t, values * t / np.log(t)))
        ratio = mse["AffPCL"] / mse["Independent"]
        limit = leading_order(config.n, level)
        lower.append(rc.Series("AffPCL", panel(RATIOS, level), t, ratio))
        lower.append(rc.Series(LEADING, panel(RATIOS, level), t, np.full(t.size, limit)))
        lower.append(rc.Series("theory", panel(RATIOS, level), t, np.full(t.size, predicted)))
        checks += _checks(config, level, t, mse, predicted)
        truth.append(
            f"{level:g}: δ_env = {at['delta_env'][0]:.3g}, δ_obj = {at['delta_obj'][0]:.3g}, "
            f"ν = {at['nu'][0]:.3g}, max{{1/n, δ_cen}} = {predicted:.3g}"
        )
    notes = [
        "exact second moments, no sampling error; the step is ln t / (λ t) for each horizon t",
        f"quantities of the theory at δ = {'; '.join(truth)}",
        "dotted: max{1/n, min{1, ν δ_cen}} of equation (9), a bound up to a constant; dashed: the "
        "ratio to leading order in the step size",
        f"checks use horizons of at least {SETTLED:g}: before, the bias of the start (about t^-2), "
        "which no averaging reduces, hides the speed-up",
    ]
    return rc.Analysis([*series, *lower], checks, notes)


def _checks(
    config: VarianceConfig, level: float, t: Values, mse: dict[str, Values], predicted: float
) -> list[rc.Check]:
    """The claims at one level."""
    late = t >= SETTLED
    checks = [
        rc.rate_check(
            f"{name}: exponent of t in MSE / ln t (δ = {level:g})",
            -1.0,
            rc.exact_slope(t[late], mse[name][late] / np.log(t[late])),
            tolerance=SLACK,
            bound=True,
        )
        for name in ("AffPCL", "Independent")
    ]
    ratio = mse["AffPCL"] / mse["Independent"]
    worst = float(ratio[late].max() / predicted)
    exact = rc.Interval(worst, worst, worst)
    name = f"AffPCL / Independent over max{{1/n, δ_cen}} (δ = {level:g})"
    checks.append(rc.at_most(name, f"at most {CONSTANT:g}", exact, CONSTANT))
    checks.append(
        _equals(
            f"AffPCL / Independent at t = {t[-1]:.0e} (δ = {level:g})",
            leading_order(config.n, level),
            float(ratio[-1]),
        )
    )
    if level == 0:
        equal = float(mse["AffPCL"][-1] / mse["FedAvg"][-1])
        checks.append(_equals("AffPCL / FedAvg at the last t (δ = 0)", 1.0, equal))
    else:
        floor = float(mse["FedAvg"][-1])
        checks.append(_equals(f"bias floor of FedAvg (δ = {level:g})", (SCALE * level) ** 2, floor))
    return checks


def _equals(name: str, predicted: float, value: float) -> rc.Check:
    """An identity in the limit, up to the next order of the step size."""
    low, high = predicted * (1.0 - SLACK), predicted * (1.0 + SLACK)
    return rc.within(name, predicted, rc.Interval(value, value, value), low, high)


def draw(config: VarianceConfig, analysis: rc.Analysis) -> Figure:
    """Scaled errors above, ratios below, one column per level."""
    figure, axes = rc.panels(analysis.series, columns=len(config.levels), share_y=False)
    for s in analysis.series:
        every = max(1, len(np.atleast_1d(s.x)) // 6)
        if s.name == LEADING:
            grey: dict[str, Any] = {"color": "0.45", "marker": "", "linestyle": "--"}
            rc.curve(axes[s.panel], s, linewidth=1.0, zorder=1, **grey)
        elif s.name == "theory":
            rc.curve(axes[s.panel], s, label=r"$\max\{1/n, \delta_{\mathrm{cen}}\}$")
        else:  # markers of equal curves beside each other
            first = list(METHODS).index(s.name) * every // 3
            rc.curve(axes[s.panel], s, markevery=(first, every))
    flat = [s for s in analysis.series if s.panel.startswith(ERRORS) and s.name != "FedAvg"]
    low, high = min(np.min(s.y) for s in flat), max(np.max(s.y) for s in flat)
    for column, level in enumerate(config.levels):
        top, bottom = axes[panel(ERRORS, level)], axes[panel(RATIOS, level)]
        top.set_title(f"$\\delta_{{\\mathrm{{env}}}} = \\delta_{{\\mathrm{{obj}}}} = {level:g}$")
        bottom.set_title("")
        for ax in (top, bottom):
            rc.loglog(ax)
        top.set_ylim(low / 2, 3e3 * high)
        bottom.set_ylim(0.5 / config.n, 2)
        bottom.set_xlabel("horizon $t$")
        if level > 0:
            _bias_guide(top, config, level)
        if column == 0:
            top.set_ylabel(r"$\mathrm{MSE}^0 \cdot t\,/\ln t$")
            bottom.set_ylabel("MSE relative to\nindependent learning")
        else:
            top.tick_params(labelleft=False)
            bottom.tick_params(labelleft=False)
    rc.legend(figure, axes)
    return figure


def _bias_guide(ax: Axes, config: VarianceConfig, level: float) -> None:
    """A slope of one, beside which a constant bias runs."""
    low, high = ax.get_ylim()
    floor = (SCALE * level) ** 2
    end = high / floor * np.log(high / floor + 10)  # about where the bias leaves the panel
    start = max(20.0, end / 300)
    if 4 * start < end < 10**config.decades:
        y_start = 0.2 * floor * start / np.log(start)
        rc.guide(ax, 1.0, (start, end / 2), y_start, label="")
        y_end = y_start * end / 2 / start
        ax.annotate("slope 1", (end / 2, y_end), (5, -8), textcoords="offset points", fontsize=8)
    ax.set_ylim(low, high)


EXPERIMENT = rc.Experiment(
    id="affpcl/variance_regime",
    title="Error against the horizon in the variance regime, exactly",
    source="Theorem 1, equation (9)",
    kind="figure",
    profiles={"quick": VarianceConfig(), "paper": VarianceConfig(decades=12)},
    blocks=rc.Grid({"level": "levels"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
)
