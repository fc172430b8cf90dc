"""Error against the number of agents without heterogeneity: slope -1, and the speed-up is n itself.

Problem and assumptions: finite-state systems in which all agents have the same environment and the
same objective; delta_env = delta_obj = 0.

Algorithms: AffPCL (8) with (22-1) and (22-2), FedAvg (4), independent learning; runs of t rounds
with the step ln t / (lambda t), lambda the smallest of lambda^i and lambda^b.

Guarantee: O~(1/(t n)) for AffPCL (Theorem 1, equation 9) and FedAvg (Proposition 1), O~(1/t) for
independent learning; these are upper bounds. FedAvg is the model of every agent here, as x_*^i =
x_*^c. Derived here: learning alone does not know n, slope 0.

Regime: t = 10^10. The variance term alpha C/n dominates as long as it is above what does not fall
with n: the start, forgotten as t^{-2}, and the multiplicative noise of x^i around x^c, which is of
second order in alpha. Both are below alpha n <= 10^-4 times the variance term, which ``TOLERANCE``
covers. At small t the flat part is reached at n of order 1/alpha: no contradiction to the bound,
which holds for t to infinity.

With heterogeneity the factor max{1/n, delta} ends the speed-up: (b) shows error ratios, averaged
over agents, that turn flat in n.

The constant is known as well. To first order in the step all three methods follow the same linear
recursion with the noise of one agent, divided by n where agents share it: the error of learning
alone over that of AffPCL is n times one.

References: AffPCL, Theorem 1 and Proposition 1. Values are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from experiments.affpcl._rates_systems import (
    RateConfig,
    exact_errors,
    furthest,
    slowest,
)
from linsys.algorithms import AffPCL, FedAvg, Independent

TOLERANCE = 0.001
#: The relative amount by which 1/n raises the plateau max{1/n, delta} at the largest n.
PLATEAU = 0.02
PREDICTED = {"AffPCL": -1.0, "AffPCL with (22-2)": -1.0, "FedAvg": -1.0, "Independent": 0.0}
ALGORITHMS: tuple[AffPCL | FedAvg | Independent, ...] = (
    AffPCL(),
    AffPCL(central_direction="estimate"),
    FedAvg(),
    Independent(),
)
LOOKS = {
    "AffPCL with (22-2)": rc.Look("#D55E00", "s", "none", size=6, hollow=True),
    "FedAvg": rc.Look("#009E73", "^", "none", size=9, hollow=True),
    "δ = 0": rc.Look("#000000", "."),
    "δ = 0.03": rc.Look("#0072B2", "v"),
    "δ = 0.1": rc.Look("#E69F00", "D"),
    "δ = 0.3": rc.Look("#CC79A7", "P"),
}
MSE = "(a) mean squared error"
RATIO = "(b) error of AffPCL / independent learning"


@dataclass(frozen=True, kw_only=True)
class RateNConfig(RateConfig):
    """Populations of ever more agents."""

    levels: tuple[float, ...] = rc.param(
        (0.03, 0.1, 0.3),
        low=1e-3,
        least=1,
        increasing=True,
        doc="labels delta_env = delta_obj > 0 in (b), which show where the speed-up ends.",
    )
    agents: tuple[int, ...] = rc.param(
        (1, 3, 10, 30, 100, 300, 1000, 3000, 10000),
        low=1,
        least=3,
        increasing=True,
        doc=(
            "n where all agents are alike, increasing; with heterogeneity there are four types "
            "of n agents each."
        ),
    )
    t: float = rc.param(1e10, low=1e3, high=1e15, doc="rounds of a run.")


def compute(config: RateNConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """The error of an agent for every method and number of agents."""
    pieces = config.pieces(block["instance"])
    names, t = list(PREDICTED), [round(config.t)]
    mse = np.ones((len(names), 1 + len(config.levels), len(config.agents)))
    for k, n in enumerate(config.agents):
        system = pieces.alike(n).system
        for m, algorithm in enumerate(ALGORITHMS):
            mse[m, 0, k] = exact_errors(system, algorithm, t, [0]).error[0, 0]
        for v, level in enumerate(config.levels, start=1):
            types = pieces.types(4 * n, level, level)
            for m in (names.index("AffPCL"), names.index("Independent")):
                run = exact_errors(types.system, ALGORITHMS[m], t, types.agents)
                mse[m, v, k] = run.error.mean()
    return rc.long_table(
        {
            "method": np.array(names),
            "level": np.array([0.0, *config.levels]),
            "n": np.array(config.agents),
        },
        mse=mse,
    )


def analyse(config: RateNConfig, table: rc.Table) -> rc.Analysis:
    """Exponents, and the speed-up per agent."""
    series, checks = [], []
    n = np.array(config.agents, dtype=np.float64)
    homogeneous = table.where(level=0.0)
    errors = {
        name: homogeneous.where(method=name).grid("mse", "instance", "n") for name in PREDICTED
    }
    for name, predicted in PREDICTED.items():
        if predicted:
            slope = slowest(n, errors[name])
            checks.append(rc.rate_check(name, predicted, slope, tolerance=TOLERANCE, bound=True))
        else:
            slope = furthest(predicted, n, errors[name])
            what = f"{name}, as derived here"
            checks.append(rc.our_own(rc.rate_check(what, predicted, slope, tolerance=TOLERANCE)))
        series.append(rc.Series(name, MSE, n, errors[name][0]))
    for name in ("AffPCL", "FedAvg"):
        gain = errors["Independent"] / errors[name] / n
        extreme = float(gain.flat[np.abs(gain - 1.0).argmax()])
        slack = TOLERANCE * float(np.log(n[-1]))
        limits = rc.Interval(extreme, float(gain.min()), float(gain.max()))
        what = f"{name}: speed-up / n, as derived here"
        checks.append(rc.every(rc.our_own(rc.within(what, 1.0, limits, 1.0 - slack, 1.0 + slack))))
    series.append(rc.Series("δ = 0", RATIO, n, (errors["AffPCL"] / errors["Independent"])[0]))
    for level in config.levels:
        ours, alone = (
            table.where(level=level, method=name).grid("mse", "instance", "n")
            for name in ("AffPCL", "Independent")
        )
        series.append(rc.Series(f"δ = {level:g}", RATIO, 4.0 * n, (ours / alone)[0]))
    flat = furthest(0.0, n[-2:], (ours / alone)[:, -2:])
    name = f"AffPCL / Independent, label δ = {config.levels[-1]:g}, largest n, as derived here"
    checks.append(rc.our_own(rc.rate_check(name, 0.0, flat, tolerance=PLATEAU)))
    notes = [
        f"exact values at t = {config.t:g}; each number is that of the slowest instance among "
        f"{config.instances}, or of that furthest from a prediction derived here",
        "the speed-up is n with constant one, not only proportional to n",
        "labels δ > 0 move environments and objectives by δ; affpcl/rate_delta is about the true "
        "scores and about why the plateaus are of order δ² here",
    ]
    return rc.Analysis(series, checks, notes)


EXPERIMENT = rc.Experiment(
    id="affpcl/rate_n",
    title="Error against the number of agents, without heterogeneity",
    source="Theorem 1, Proposition 1",
    kind="rate",
    variable="n",
    profiles={"quick": RateNConfig(instances=2), "paper": RateNConfig(instances=20)},
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    panels={
        MSE: rc.Panel(
            "number of agents $n$", "mean squared error", "xy", -1.0, title="(a) no heterogeneity"
        ),
        RATIO: rc.Panel(
            "number of agents $n$",
            "error of AffPCL / independent learning",
            log="xy",
            slope=rc.Guide(-1.0, beside="δ = 0"),
            title="(b) with heterogeneity",
        ),
    },
    layout=rc.Layout(width=3.7, height=2.8, looks=LOOKS, markers=99),
)
