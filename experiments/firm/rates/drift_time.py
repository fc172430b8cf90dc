"""Disagreement drift against time: smoothing with eta_t = 1/t makes it fall like 1/t.

Problem and assumptions: identical tabular clients; independent samples of the stationary law, the
critic's fixed point; K = 1, so that clients share theta_t.

Algorithms: T-FIRM (11) on the raw Gram matrix with eta_t = 1/t, with eta = 0.1 and with eta = 1 at
a standstill (``alpha`` so small that theta stays at theta_0), and with eta_t = 1/t and a step that
learns.

Guarantee: (23) bounds E T_disagr by a mean over s <= t, with the smoothing weights w_s, of the
gradient differences of step s. These do not fall, and the w_s sum to one: exponent 0 for every eta.

Derived here. Let g = gbar + xi be a client's gradient, lambda^* its solution, a = lambda^* - E
lambda^*, Sigma = E[xi' xi], Lambda = Cov lambda^*. Around the mean weights gbar drops out, T_disagr
is ||(1/C) sum_c xi_t^c dev_t^c||^2, and dev_t^c = sum_s w_s (a_s^c - abar_s) has a present part,
w_t (a_t^c - abar_t), and an old one that is independent of xi_t and has mean zero. Of the old one
only the terms with the same client twice are left. So, with no remainder, for noise of any law,

    E T_disagr(t) = w_t^2 T_1 + V sum_{s<t} w_s^2,    V = (1 - 1/C) tr(Sigma Lambda) / C,

T_1 that without smoothing. With eta_t = 1/t this is T_1/t^2 + V (t - 1)/t^2: exponent -1. With a
constant eta it is flat from t = 1/eta on. Around the weights of the true gradients lambda(gbar) the
same holds with tr(E[g'g] Lambda)/C for V, and a floor that neither t nor C removes, ||gbar b||^2 +
b' Sigma b / C with the bias b = E lambda^* - lambda(gbar): see ``OneStep.around_true``.

Regime: around the mean weights the law is V/t times 1 + (T_1/V - 1)/t. What this known factor makes
of the slope from ``fit_from`` on is the tolerance, with ``LEVEL`` for moments that are means over
``moment_draws`` gradients (T_1 and V are known to 1 %, the floor to 5 %). Around the true weights
the floor depends on the instance: the prediction is the slope of the law over the same times.

References: FIRM, (11), (23), (24), Theorem 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from experiments.firm._drift import law_slope
from experiments.firm._style import looks_of
from experiments.firm._words import LAW
from experiments.firm.rates._one_step import OneStep
from experiments.firm.rates._runs import (
    DriftRunConfig,
    blocks_of_replicates,
    bootstrap_mean_interval,
    in_block,
    slope_of,
)
from linsys.validate import Array, check_number
from mgda.firm import FIRM
from mgda.runs import run

#: The largest relative change of the law, between the ends of the fit, that errors of the estimated
#: moments may cause.
LEVEL = 0.05
SMOOTHED, CONSTANT, NONE = "η = 1/t", "η = 0.1", "η = 1"
LEARNING = "η = 1/t, learning"
ETAS: dict[str, float | str] = {SMOOTHED: "1/t", CONSTANT: 0.1, NONE: 1.0, LEARNING: "1/t"}
#: Exponents around the mean weights from ``fit_from`` on.
DERIVED = {SMOOTHED: -1.0, CONSTANT: 0.0, NONE: 0.0}
STATED = 0.0
READINGS = {"mean": "mean weights", "true": "weights of the true gradients"}
PANELS = {"mean": "(a) around the mean weights", "true": "(b) around the true gradients' weights"}


@dataclass(frozen=True, kw_only=True)
class DriftTimeConfig(DriftRunConfig):
    """Ever longer runs."""

    clients: int = 4
    B: int = 8
    replicates: int = 128
    at_once: int = 128
    alpha: float = rc.param(
        1e-6, above=0.0, doc="step size at a standstill, so small that theta stays at theta_0."
    )
    alpha_learning: float = rc.param(0.3, above=0.0, doc="step size of the runs that learn.")
    times: tuple[int, ...] = rc.param(
        (
            *(1, 2, 3, 4, 6, 8, 12, 16, 20, 25, 30, 36, 43, 51, 60, 70, 83, 100),
            *(118, 140, 167, 200, 236, 280),
        ),
        low=1,
        increasing=True,
        doc="steps t at which the drift is measured, from 1 on, increasing.",
    )
    fit_from: int = rc.param(20, doc="exponents are fitted from this t on.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("fit_from", self.fit_from, low=self.times[0], high=self.times[-2])


def smoothing(eta: float | str, t: Array) -> tuple[Array, Array, Array]:
    """Weights in lambda_t: w_t, sum_{1<=s<t} w_s^2, and what is left of lambda_0.

    w_s = eta_s prod_{s < k <= t} (1 - eta_k).

    >>> [part.round(12).tolist() for part in smoothing("1/t", np.array([1.0, 4.0]))]
    [[1.0, 0.25], [0.0, 0.1875], [0.0, 0.0]]
    """
    if isinstance(eta, str):
        return 1.0 / t, (t - 1.0) / t**2, np.zeros_like(t)
    decay = (1.0 - eta) ** 2
    before = eta**2 * decay * (1.0 - decay ** (t - 1.0)) / (1.0 - decay)
    return np.full_like(t, eta), before, (1.0 - eta) ** t


def leading(eta: float | str, t: Array) -> tuple[Array, Array]:
    """The first two of ``smoothing`` to leading order in t.

    >>> [part.round(12).tolist() for part in leading(0.5, np.array([4.0]))]
    [[0.5], [0.083333333333]]
    """
    if isinstance(eta, str):
        return np.zeros_like(t), 1.0 / t
    decay = (1.0 - eta) ** 2
    return np.full_like(t, eta), np.full_like(t, eta**2 * decay / (1.0 - decay))


def compute(config: DriftTimeConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """T_disagr in both readings along the runs, and what the law says of it."""
    instance, replicates = block["instance"], in_block(config, block)
    clients = config.identical_clients(instance)
    oracle = config.oracle(
        clients, instance, B=config.B, replicates=replicates.size, first=block["first"]
    )
    theta0 = config.start(instance, clients, replicates.size)
    moments = OneStep.draw(config, instance)
    t = np.array(config.times, dtype=np.float64)
    curves: dict[str, list[Array]] = {
        name: [] for name in ("mean", "true", "mean_law", "true_law", "mean_lead")
    }
    for name, eta in ETAS.items():
        alpha = config.alpha_learning if name == LEARNING else config.alpha
        trace = run(
            replace(FIRM.theory(alpha=alpha, beta=config.beta), eta=eta),
            oracle,
            theta0,
            config.times[-1],
            times=np.array(config.times) - 1,
            reference=replace(oracle, B=None),
        )
        curves["mean"].append(trace.values["disagreement"])
        curves["true"].append(trace.values["disagreement_true"])
        weights = smoothing(eta, t)
        curves["mean_law"].append(moments.around_mean(*weights[:2])[:, None])
        curves["mean_lead"].append(moments.around_mean(*leading(eta, t))[:, None])
        curves["true_law"].append(moments.around_true(*weights)[:, None])
    axes = {"rule": np.array(list(ETAS)), "t": t, "replicate": replicates}
    values = {name: np.array(np.broadcast_arrays(*rows)) for name, rows in curves.items()}
    return rc.long_table(axes, **values)


def analyse(config: DriftTimeConfig, table: rc.Table) -> rc.Analysis:
    """Exponents instance by instance, and measured drift over the law."""
    series: list[rc.Series] = []
    checks = []
    notes: list[str] = []
    t = np.array(config.times, dtype=np.float64)
    late = t >= config.fit_from
    x = t[late]
    # half-way to the same law without the factor 1 - 1/C, the nearest competing one
    near = float(np.sqrt(1.0 - 1.0 / config.clients))
    allowed = f"1 within [{near:.2f}, {1.0 / near:.2f}]"
    for k in range(config.instances):
        label = f", instance {k}" if config.instances > 1 else ""
        for reading, words in READINGS.items():
            for name in ETAS:
                part = table.where(instance=k, rule=name)
                drift = part.grid(reading, "replicate", "t")
                law = part.grid(f"{reading}_law", "replicate", "t")[0]
                if k == 0:
                    series.append(rc.Series(name, PANELS[reading], t, *rc.mean_band(drift)))
                slope = slope_of(x, drift[:, late], config.seed)
                what = f"{name}, {words}{label}"
                if ETAS[name] == "1/t" and reading == "mean":
                    stated = rc.rate_check(f"{what}: (23)", STATED, slope, bound=True)
                    checks.append(stated)
                if name == LEARNING:
                    notes.append(f"{what}: exponent {slope.value:.3f}")
                    continue
                if k == 0:
                    series.append(rc.Series(LAW, PANELS[reading], t, law))
                bend = LEVEL / float(np.log(x[-1] / x[0]))
                if reading == "mean":
                    derived = DERIVED[name]
                    lead = part.grid("mean_lead", "replicate", "t")[0, late]
                    bend += rc.slope_shift(x, law[late] / lead - 1.0)
                else:
                    derived = law_slope(x, law[late])
                checks += rc.Law(derived=derived, tolerance=bend).checks(what, slope)
                ratio = bootstrap_mean_interval((drift / law).mean(axis=1), config.seed)
                checks.append(
                    rc.our_own(
                        rc.within(
                            f"{what}: drift / law",
                            allowed,
                            ratio,
                            near,
                            1.0 / near,
                        )
                    )
                )
    first = table.where(instance=0, replicate=0, t=t[-1])
    levels = {name: first.where(rule=name) for name in (SMOOTHED, CONSTANT, NONE)}
    shown = ", ".join(f"{name} {part['mean_law'][0]:.3g}" for name, part in levels.items())
    return rc.Analysis(
        series,
        checks,
        [
            f"derived drift around the mean weights at t = {t[-1]:g}: {shown}; (23) does not "
            "tell these apart",
            *notes,
        ],
    )


EXPERIMENT = rc.Experiment(
    id="firm/drift_time",
    title="Disagreement drift against time",
    source="Theorem 1, (11), (23)",
    kind="rate",
    variable="t",
    profiles={
        "quick": DriftTimeConfig(),
        "paper": DriftTimeConfig(instances=3, replicates=256),
    },
    blocks=blocks_of_replicates,
    compute=compute,
    analyse=analyse,
    panels={
        PANELS["mean"]: rc.Panel(
            "step $t$",
            r"$T_{\mathrm{disagr}}$",
            log="xy",
            slope=rc.Guide(DERIVED[SMOOTHED], beside=SMOOTHED, span=(0.5, 1.0)),
        ),
        PANELS["true"]: rc.Panel("step $t$", log="xy"),
    },
    layout=rc.Layout(width=3.7, height=3.0, share_y=True, looks=looks_of(ETAS)),
)
